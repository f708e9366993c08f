/* disk_trace.c - see disk_trace.h. The functions have the names of the C library's functions, and
 * use system calls. Calls outside of the root, or without an open trace, pass through. */
#undef _FILE_OFFSET_BITS /* each of the library's names is defined here by itself */
#undef _FORTIFY_SOURCE
#pragma GCC visibility push(default) /* shared libraries must find them */
#include "support/disk/disk_trace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/memory.h"

#define FDS_MAX 1024
#define NODES_MAX 65536

/* A name as it is now. */
typedef struct entry {
    struct entry *next;
    int dir, node;
    char name[256];
} entry;

static disk_trace trace;
static entry *entries;
static char root_path[4096];
static int fd_nodes[FDS_MAX];
static bool is_on;
static uint64_t calls, kill_call;
static uint64_t fail_every, syncs, die_every, die_call;
static bool is_dead, fail_directories;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void must(bool held, const char *what)
{
    if (!held) {
        perror(what);
        abort();
    }
}

/* ---- Names ---- */

static entry **entry_find(int dir, const char *name)
{
    entry **link = &entries;

    while (*link && ((*link)->dir != dir || strcmp((*link)->name, name) != 0))
        link = &(*link)->next;
    return link;
}

static void entry_put(int dir, const char *name, int node)
{
    entry **link = entry_find(dir, name);

    if (!*link) {
        *link = pal_calloc(1, sizeof **link);
        must(*link, "memory");
        (*link)->dir = dir;
        snprintf((*link)->name, sizeof (*link)->name, "%s", name);
    }
    (*link)->node = node;
}

static int entry_take(int dir, const char *name)
{
    entry **link = entry_find(dir, name), *found = *link;
    int node = found ? found->node : -1;

    if (found)
        *link = found->next;
    pal_free(found);
    return node;
}

static int dir_above(int node)
{
    for (entry *each = entries; each; each = each->next)
        if (each->node == node)
            return each->dir;
    return -1;
}

/* The directory that contains the last name of the path; -1 if it is not below the root. */
static int resolve(int dir_fd, const char *path, char out_name[256])
{
    size_t root_len = strlen(root_path);
    int dir = dir_fd >= 0 && dir_fd < FDS_MAX ? fd_nodes[dir_fd] : -1;

    if (*path == '/') {
        if (strncmp(path, root_path, root_len) != 0 ||
                (path[root_len] != '/' && path[root_len] != '\0'))
            return -1;
        dir = 0;
        path += root_len;
    }
    snprintf(out_name, 256, ".");
    while (dir >= 0) {
        size_t len;

        path += strspn(path, "/");
        if (*path == '\0')
            return dir;
        if (strcmp(out_name, ".") != 0) {
            const entry *found = *entry_find(dir, out_name);

            dir = found ? found->node : -1;
        }
        len = strcspn(path, "/");
        snprintf(out_name, 256, "%.*s", (int)len, path);
        path += len;
        if (strcmp(out_name, "..") == 0) {
            dir = dir_above(dir);
            snprintf(out_name, 256, ".");
        }
    }
    return -1;
}

static int node_at(int dir, const char *name)
{
    const entry *found;

    if (dir < 0 || strcmp(name, ".") == 0)
        return dir;
    found = *entry_find(dir, name);
    return found ? found->node : -1;
}

/* ---- Events ---- */

static trace_event *event_add(trace_kind kind, int node)
{
    trace_event *event;

    if (trace.len == trace.cap) {
        trace.cap = trace.cap ? 2 * trace.cap : 1024;
        trace.events = pal_realloc(trace.events, trace.cap * sizeof *trace.events);
        must(trace.events, "memory");
    }
    event = &trace.events[trace.len++];
    memset(event, 0, sizeof *event);
    event->kind = kind;
    event->node = node;
    return event;
}

static char *copy(const void *data, size_t len)
{
    char *text = pal_malloc(len + 1);

    must(text, "memory");
    memcpy(text, data, len);
    text[len] = '\0';
    return text;
}

static int node_new(bool is_dir)
{
    must(trace.nodes < NODES_MAX, "too many files");
    trace.is_dir[trace.nodes] = is_dir;
    return trace.nodes++;
}

static int name_add(int dir, const char *name, bool is_dir)
{
    int node = node_new(is_dir);
    trace_event *event = event_add(TRACE_NAME, node);

    event->dir = dir;
    event->name = copy(name, strlen(name));
    entry_put(dir, name, node);
    return node;
}

static void write_add(int node, uint64_t offset, const void *data, size_t len)
{
    trace_event *event = event_add(TRACE_WRITE, node);

    event->offset = offset;
    event->len = len;
    event->data = copy(data, len);
}

/* Whether one of the calls is hit, in an irregular order, so that retries are not always hit. */
static bool is_due(uint64_t number, uint64_t one_in)
{
    uint64_t x = number * 0x9e3779b97f4a7c15u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return one_in > 0 && (x ^ (x >> 31)) % one_in == 0;
}

/* Called before each call below the root. Returns false if the call must not be made. */
static bool call_begins(void)
{
    if (++calls == kill_call)
        raise(SIGKILL);
    if (calls == die_call || is_due(calls, die_every))
        is_dead = true;
    if (is_dead)
        errno = EIO;
    return !is_dead;
}

/* ---- What is there already ---- */

static void read_file(const char *path, int node)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY, 0);
    char data[65536];
    uint64_t at = 0;
    ssize_t len;

    must(fd >= 0, path);
    while ((len = read(fd, data, sizeof data)) > 0) {
        write_add(node, at, data, (size_t)len);
        at += (uint64_t)len;
    }
    syscall(SYS_close, fd);
    event_add(TRACE_SYNC, node);
}

static void read_dir(const char *path, int dir)
{
    DIR *names = opendir(path);
    struct dirent *name;

    must(names, path);
    while ((name = readdir(names)) != NULL) {
        char below[8192];
        struct stat facts;
        int node;

        if (strcmp(name->d_name, ".") == 0 || strcmp(name->d_name, "..") == 0)
            continue;
        snprintf(below, sizeof below, "%s/%s", path, name->d_name);
        must(lstat(below, &facts) == 0, below);
        node = name_add(dir, name->d_name, S_ISDIR(facts.st_mode));
        if (S_ISDIR(facts.st_mode))
            read_dir(below, node);
        else
            read_file(below, node);
    }
    closedir(names);
    event_add(TRACE_SYNC, dir);
}

/* ---- The trace ---- */

void trace_begin(const char *root)
{
    trace_free();
    snprintf(root_path, sizeof root_path, "%s", root);
    for (int i = 0; i < FDS_MAX; i++)
        fd_nodes[i] = -1;
    trace.is_dir = pal_calloc(NODES_MAX, sizeof *trace.is_dir);
    must(trace.is_dir, "memory");
    node_new(true);
    read_dir(root, 0);
    trace.first = trace.len;
    calls = 0;
    is_on = true;
}

const disk_trace *trace_end(void)
{
    is_on = is_dead = false;
    fail_every = die_every = die_call = 0;
    return &trace;
}

void trace_free(void)
{
    is_on = false;
    for (size_t i = 0; i < trace.len; i++) {
        pal_free(trace.events[i].name);
        pal_free(trace.events[i].to_name);
        pal_free(trace.events[i].data);
    }
    pal_free(trace.events);
    pal_free(trace.is_dir);
    memset(&trace, 0, sizeof trace);
    while (entries) {
        entry *next = entries->next;

        pal_free(entries);
        entries = next;
    }
}

void trace_note(uint64_t value)
{
    if (!is_on)
        return;
    pthread_mutex_lock(&mutex);
    event_add(TRACE_NOTE, -1)->offset = value;
    pthread_mutex_unlock(&mutex);
}

void trace_fail_syncs(unsigned one_in, bool of_directories)
{
    fail_every = one_in;
    fail_directories = of_directories;
    syncs = 0;
}

void trace_die(unsigned one_in)
{
    die_every = one_in;
}

void trace_die_at(uint64_t call)
{
    die_call = call;
}

bool trace_is_dead(void)
{
    return is_dead;
}

void trace_revive(void)
{
    is_dead = false;
}

uint64_t trace_calls(void)
{
    return calls;
}

void trace_kill_at(uint64_t call)
{
    kill_call = call;
}

/* ---- The calls ---- */

static int open_it(int dir_fd, const char *path, int flags, mode_t mode)
{
    char name[256];
    int dir, node, fd;

    if (!is_on)
        return (int)syscall(SYS_openat, dir_fd, path, flags, mode);
    pthread_mutex_lock(&mutex);
    dir = resolve(dir_fd, path, name);
    fd = -1;
    if (dir < 0 || !(flags & (O_CREAT | O_TRUNC)) || call_begins())
        fd = (int)syscall(SYS_openat, dir_fd, path, flags, mode);
    if (fd >= 0 && fd < FDS_MAX) {
        node = node_at(dir, name);
        if (dir >= 0 && node < 0)
            node = name_add(dir, name, false);
        else if (node >= 0 && (flags & O_TRUNC))
            event_add(TRACE_CUT, node);
        fd_nodes[fd] = node;
    }
    pthread_mutex_unlock(&mutex);
    return fd;
}

static mode_t mode_of(int flags, va_list args)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
}

#define OPEN(function)                                                                             \
    int function(const char *path, int flags, ...);                                                \
    int function(const char *path, int flags, ...)                                                 \
    {                                                                                              \
        va_list args;                                                                              \
        mode_t mode;                                                                               \
                                                                                                   \
        va_start(args, flags);                                                                     \
        mode = mode_of(flags, args);                                                               \
        va_end(args);                                                                              \
        return open_it(AT_FDCWD, path, flags, mode);                                               \
    }
#define OPENAT(function)                                                                           \
    int function(int dir_fd, const char *path, int flags, ...);                                    \
    int function(int dir_fd, const char *path, int flags, ...)                                     \
    {                                                                                              \
        va_list args;                                                                              \
        mode_t mode;                                                                               \
                                                                                                   \
        va_start(args, flags);                                                                     \
        mode = mode_of(flags, args);                                                               \
        va_end(args);                                                                              \
        return open_it(dir_fd, path, flags, mode);                                                 \
    }

OPEN(open)
OPEN(open64)
OPEN(__open_2)
OPEN(__open64_2)
OPENAT(openat)
OPENAT(openat64)
OPENAT(__openat_2)
OPENAT(__openat64_2)

int close(int fd)
{
    if (fd >= 0 && fd < FDS_MAX)
        fd_nodes[fd] = -1;
    return (int)syscall(SYS_close, fd);
}

static int node_of(int fd)
{
    return is_on && fd >= 0 && fd < FDS_MAX ? fd_nodes[fd] : -1;
}

ssize_t write(int fd, const void *data, size_t len)
{
    int node = node_of(fd);
    ssize_t done;

    if (node < 0)
        return syscall(SYS_write, fd, data, len);
    pthread_mutex_lock(&mutex);
    done = call_begins() ? syscall(SYS_write, fd, data, len) : -1;
    if (done > 0)
        write_add(node, (uint64_t)(lseek(fd, 0, SEEK_CUR) - done), data, (size_t)done);
    pthread_mutex_unlock(&mutex);
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t offset)
{
    int node = node_of(fd);
    ssize_t done;

    if (node < 0)
        return syscall(SYS_pwrite64, fd, data, len, offset);
    pthread_mutex_lock(&mutex);
    done = call_begins() ? syscall(SYS_pwrite64, fd, data, len, offset) : -1;
    if (done > 0)
        write_add(node, (uint64_t)offset, data, (size_t)done);
    pthread_mutex_unlock(&mutex);
    return done;
}

ssize_t pwrite64(int fd, const void *data, size_t len, off64_t offset)
{
    return pwrite(fd, data, len, offset);
}

int ftruncate(int fd, off_t size)
{
    int node = node_of(fd), result;

    if (node < 0)
        return (int)syscall(SYS_ftruncate, fd, size);
    pthread_mutex_lock(&mutex);
    result = call_begins() ? (int)syscall(SYS_ftruncate, fd, size) : -1;
    if (result == 0)
        event_add(TRACE_CUT, node)->offset = (uint64_t)size;
    pthread_mutex_unlock(&mutex);
    return result;
}

int ftruncate64(int fd, off64_t size)
{
    return ftruncate(fd, size);
}

static int sync_it(int fd)
{
    int node = node_of(fd), result = 0;

    if (node < 0)
        return 0; /* the disk of the tests does not need it */
    pthread_mutex_lock(&mutex);
    if (!call_begins()) {
        result = -1;
    } else if ((fail_directories || !trace.is_dir[node]) && is_due(++syncs, fail_every)) {
        event_add(TRACE_SYNC_FAILED, node);
        errno = EIO;
        result = -1;
    } else {
        event_add(TRACE_SYNC, node);
    }
    pthread_mutex_unlock(&mutex);
    return result;
}

int fsync(int fd)
{
    return sync_it(fd);
}

int fdatasync(int fd)
{
    return sync_it(fd);
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    char name[256], to_name[256];
    int dir, to_dir, result;
    trace_event *event;

    if (!is_on)
        return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, 0);
    pthread_mutex_lock(&mutex);
    dir = resolve(from_fd, from, name);
    to_dir = resolve(to_fd, to, to_name);
    result = -1;
    if (dir < 0 || to_dir < 0 || call_begins())
        result = (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, 0);
    if (result == 0 && dir >= 0 && to_dir >= 0) {
        event = event_add(TRACE_RENAME, entry_take(dir, name));
        event->dir = dir;
        event->to_dir = to_dir;
        event->name = copy(name, strlen(name));
        event->to_name = copy(to_name, strlen(to_name));
        entry_put(to_dir, to_name, event->node);
    }
    pthread_mutex_unlock(&mutex);
    return result;
}

int rename(const char *from, const char *to)
{
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int unlinkat(int dir_fd, const char *path, int flags)
{
    char name[256];
    int dir, result;
    trace_event *event;

    if (!is_on)
        return (int)syscall(SYS_unlinkat, dir_fd, path, flags);
    pthread_mutex_lock(&mutex);
    dir = resolve(dir_fd, path, name);
    result = dir < 0 || call_begins() ? (int)syscall(SYS_unlinkat, dir_fd, path, flags) : -1;
    if (result == 0 && dir >= 0) {
        event = event_add(TRACE_REMOVE, entry_take(dir, name));
        event->dir = dir;
        event->name = copy(name, strlen(name));
    }
    pthread_mutex_unlock(&mutex);
    return result;
}

int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

int mkdirat(int dir_fd, const char *path, mode_t mode)
{
    char name[256];
    int dir, result;

    if (!is_on)
        return (int)syscall(SYS_mkdirat, dir_fd, path, mode);
    pthread_mutex_lock(&mutex);
    dir = resolve(dir_fd, path, name);
    result = dir < 0 || call_begins() ? (int)syscall(SYS_mkdirat, dir_fd, path, mode) : -1;
    if (result == 0 && dir >= 0)
        name_add(dir, name, true);
    pthread_mutex_unlock(&mutex);
    return result;
}

int mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}
