/* disk_state.c - see disk_state.h. Test files are small, so an image is the bytes in memory. */
#include "support/disk/disk_state.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/memory.h"

/* The bytes of a file, and the events since its last sync. */
typedef struct image {
    char *data;
    size_t len;
    size_t *open;
    size_t open_len, open_cap;
} image;

typedef struct builder {
    const disk_trace *trace;
    const disk_plan *plan;
    image *images;        /* by node */
    bool *is_durable;     /* by event: names that a sync of their directory has covered */
    uint8_t *is_half;     /* by event: which of the two directories of a rename was synced */
    uint64_t random;
    unsigned temper;
    size_t sector;
} builder;

static void must(bool held, const char *what)
{
    if (!held) {
        perror(what);
        abort();
    }
}

static uint64_t random_next(builder *b)
{
    uint64_t x = b->random += 0x9e3779b97f4a7c15u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Whether one change that no sync has covered is there. One state in four has none of these
 * changes, one in four has all. */
static bool survives(builder *b)
{
    if (b->temper <= 1)
        return b->temper == 1;
    return random_next(b) % 2;
}

/* ---- Bytes ---- */

static void resize(image *file, size_t len)
{
    if (len > file->len) {
        file->data = pal_realloc(file->data, len);
        must(file->data, "memory");
        memset(file->data + file->len, 0, len - file->len);
    }
    file->len = len;
}

static void apply_part(image *file, const trace_event *event, size_t at, size_t len)
{
    if (event->offset + at + len > file->len)
        resize(file, event->offset + at + len);
    memcpy(file->data + event->offset + at, event->data + at, len);
}

static void apply(image *file, const trace_event *event)
{
    if (event->kind == TRACE_CUT)
        resize(file, event->offset);
    else
        apply_part(file, event, 0, event->len);
}

static void apply_torn(builder *b, image *file, const trace_event *event)
{
    size_t len;

    for (size_t at = 0; at < event->len; at += len) {
        len = b->sector - (event->offset + at) % b->sector;
        if (len > event->len - at)
            len = event->len - at;
        if (random_next(b) % 2)
            apply_part(file, event, at, len);
    }
    if (random_next(b) % 2 && event->offset + event->len > file->len)
        resize(file, event->offset + event->len);
}

/* Decides at random about changes that no sync has covered. */
static void resolve(builder *b, image *file)
{
    for (size_t i = 0; i < file->open_len; i++) {
        const trace_event *event = &b->trace->events[file->open[i]];

        if (b->temper > 1 && event->kind == TRACE_WRITE && random_next(b) % 2)
            apply_torn(b, file, event);
        else if (survives(b))
            apply(file, event);
    }
    file->open_len = 0;
}

static void settle(builder *b, image *file)
{
    for (size_t i = 0; i < file->open_len; i++)
        apply(file, &b->trace->events[file->open[i]]);
    file->open_len = 0;
}

static void open_add(image *file, size_t event)
{
    if (file->open_len == file->open_cap) {
        file->open_cap = file->open_cap ? 2 * file->open_cap : 64;
        file->open = pal_realloc(file->open, file->open_cap * sizeof *file->open);
        must(file->open, "memory");
    }
    file->open[file->open_len++] = event;
}

/* ---- Names ---- */

static bool is_name(const trace_event *event)
{
    return event->kind == TRACE_NAME || event->kind == TRACE_RENAME ||
            event->kind == TRACE_REMOVE;
}

/* A sync of the directory covers all earlier names in it. */
static void names_cover(builder *b, int dir, size_t before)
{
    for (size_t i = before; i-- > 0;) {
        const trace_event *event = &b->trace->events[i];

        if (!is_name(event) || b->is_durable[i])
            continue;
        if (event->dir == dir)
            b->is_half[i] |= 1;
        if (event->kind != TRACE_RENAME || event->to_dir == dir)
            b->is_half[i] |= event->kind == TRACE_RENAME || event->dir == dir ? 2 : 0;
        b->is_durable[i] = b->is_half[i] == 3;
    }
}

/* With a journal, the first changes are present, up to a random one. */
static size_t journal_end(builder *b)
{
    size_t end = 0, more = 0;

    for (size_t i = 0; i < b->plan->cut; i++)
        if (b->is_durable[i])
            end = i + 1;
    for (size_t i = end; i < b->plan->cut; i++)
        more += is_name(&b->trace->events[i]);
    if (b->temper == 1)
        return b->plan->cut;
    more = b->temper == 0 ? 0 : random_next(b) % (more + 1);
    for (; more > 0; end++)
        more -= is_name(&b->trace->events[end]);
    return end;
}

/* A name that is present. */
typedef struct name {
    struct name *next;
    int dir, node;
    const char *text;
} name;

static name **name_find(name **names, int dir, const char *text)
{
    while (*names && ((*names)->dir != dir || strcmp((*names)->text, text) != 0))
        names = &(*names)->next;
    return names;
}

static int name_node(name **names, int dir, const char *text)
{
    const name *found = *name_find(names, dir, text);

    return found ? found->node : -1;
}

static void name_drop(name **names, int dir, const char *text)
{
    name **link = name_find(names, dir, text), *found = *link;

    if (found)
        *link = found->next;
    pal_free(found);
}

static void name_put(name **names, int dir, const char *text, int node)
{
    name **link = name_find(names, dir, text);

    if (!*link) {
        *link = pal_calloc(1, sizeof **link);
        must(*link, "memory");
        (*link)->dir = dir;
        (*link)->text = text;
    }
    (*link)->node = node;
}

static name *names_build(builder *b)
{
    size_t end = b->plan->is_strict ? b->plan->cut : journal_end(b);
    name *names = NULL;

    for (size_t i = 0; i < end; i++) {
        const trace_event *event = &b->trace->events[i];

        if (!is_name(event) || (b->plan->is_strict && !b->is_durable[i] && !survives(b)))
            continue;
        if (event->kind == TRACE_NAME) {
            name_put(&names, event->dir, event->name, event->node);
        } else if (event->kind == TRACE_REMOVE) {
            name_drop(&names, event->dir, event->name);
        } else {
            /* A rename moves its own file. Another file may have the old name here, if the name of
             * the moved file was lost. */
            if (name_node(&names, event->dir, event->name) == event->node)
                name_drop(&names, event->dir, event->name);
            if (event->node >= 0)
                name_put(&names, event->to_dir, event->to_name, event->node);
        }
    }
    return names;
}

/* ---- On the real disk ---- */

static void store_file(builder *b, const char *path, int node)
{
    const image *file = &b->images[node];
    size_t len = strlen(path), done = 0;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    must(fd >= 0, path);
    /* SQLite rebuilds its shared memory, so its contents must not matter. */
    if (len > 4 && strcmp(path + len - 4, "-shm") == 0) {
        char noise[512];

        memset(noise, (int)random_next(b), sizeof noise);
        for (int i = 0; i < 64; i++)
            must(write(fd, noise, sizeof noise) == sizeof noise, path);
    }
    while (done < file->len) {
        ssize_t written = write(fd, file->data + done, file->len - done);

        must(written > 0, path);
        done += (size_t)written;
    }
    close(fd);
}

static void store_dir(builder *b, const name *names, int dir, const char *path)
{
    for (const name *each = names; each; each = each->next) {
        char below[4096];

        if (each->dir != dir)
            continue;
        snprintf(below, sizeof below, "%s/%s", path, each->text);
        if (b->trace->is_dir[each->node]) {
            must(mkdir(below, 0700) == 0, below);
            store_dir(b, names, each->node, below);
        } else {
            store_file(b, below, each->node);
        }
    }
}

/* ---- All of it ---- */

static bool is_forgotten(const builder *b, size_t event)
{
    return b->plan->forget > 0 && event >= b->trace->first &&
            ((b->plan->seed ^ event) * 0x9e3779b97f4a7c15u >> 40) % b->plan->forget == 0;
}

static void replay(builder *b)
{
    for (size_t i = 0; i < b->plan->cut; i++) {
        const trace_event *event = &b->trace->events[i];

        if (event->kind == TRACE_WRITE || event->kind == TRACE_CUT)
            open_add(&b->images[event->node], i);
        else if (event->kind == TRACE_SYNC_FAILED)
            resolve(b, &b->images[event->node]);
        else if (event->kind != TRACE_SYNC || is_forgotten(b, i))
            continue;
        else if (b->trace->is_dir[event->node])
            names_cover(b, event->node, i);
        else
            settle(b, &b->images[event->node]);
    }
    for (int node = 0; node < b->trace->nodes; node++)
        resolve(b, &b->images[node]);
}

void disk_state_make(const disk_trace *trace, const disk_plan *plan, const char *root)
{
    builder b = {.trace = trace, .plan = plan, .random = plan->seed, .temper = plan->seed % 4};
    name *names;

    b.sector = plan->seed / 4 % 2 ? 4096 : 512;
    b.images = pal_calloc((size_t)trace->nodes, sizeof *b.images);
    b.is_durable = pal_calloc(trace->len + 1, sizeof *b.is_durable);
    b.is_half = pal_calloc(trace->len + 1, sizeof *b.is_half);
    must(b.images && b.is_durable && b.is_half, "memory");
    replay(&b);
    names = names_build(&b);
    store_dir(&b, names, 0, root);
    while (names)
        name_drop(&names, names->dir, names->text);
    for (int node = 0; node < trace->nodes; node++) {
        pal_free(b.images[node].data);
        pal_free(b.images[node].open);
    }
    pal_free(b.images);
    pal_free(b.is_durable);
    pal_free(b.is_half);
}

static void copy_file(const char *from, const char *to)
{
    int in = open(from, O_RDONLY | O_CLOEXEC), out;
    char data[65536];
    ssize_t len;

    out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    must(in >= 0 && out >= 0, to);
    while ((len = read(in, data, sizeof data)) > 0)
        must(write(out, data, (size_t)len) == len, to);
    close(in);
    close(out);
}

void disk_copy(const char *from, const char *to)
{
    DIR *names = opendir(from);
    struct dirent *each;

    must(names && mkdir(to, 0700) == 0, from);
    while ((each = readdir(names)) != NULL) {
        char source[4096], target[4096];
        struct stat facts;

        if (strcmp(each->d_name, ".") == 0 || strcmp(each->d_name, "..") == 0)
            continue;
        snprintf(source, sizeof source, "%s/%s", from, each->d_name);
        snprintf(target, sizeof target, "%s/%s", to, each->d_name);
        must(lstat(source, &facts) == 0, source);
        if (S_ISDIR(facts.st_mode))
            disk_copy(source, target);
        else
            copy_file(source, target);
    }
    closedir(names);
}
