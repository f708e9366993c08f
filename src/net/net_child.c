/* net_child.c - starts a child with posix_spawn(). The child leads a new process group, has the
 * default signal handlers, no open files except its three streams, and a small environment.
 *
 * It inherits only the environment variables that programs generally need. API keys of model
 * services are not passed on, unless the caller names them. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/memory.h"
#include "net/net_loop_internal.h"

#define PATH_BYTES_MAX 4096
#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

static const char *const safe_names[] = {
        "PATH",
        "HOME",
        "LANG",
        "TERM",
        "TMPDIR",
        "USER",
        "SHELL",
};
#define SAFE_LEN (sizeof safe_names / sizeof *safe_names)

static size_t count(const char *const *list)
{
    size_t len = 0;
    while (list && list[len])
        len++;
    return len;
}

static bool is_variable(const char *text, const char *name, size_t name_len)
{
    return strncmp(text, name, name_len) == 0 && text[name_len] == '=';
}

/* Returns the value of the last entry of this name, because later entries win. */
static const char *find_variable(const char *const *list, const char *name)
{
    const char *found = NULL;
    size_t len = strlen(name);
    for (size_t i = 0; list && list[i]; i++) {
        if (is_variable(list[i], name, len))
            found = list[i] + len + 1;
    }
    return found;
}

/* Allocates one block: the list, followed by the texts that we add. The given texts are
 * borrowed. */
static char **make_environment(const char *const *given)
{
    size_t size = (SAFE_LEN + count(given) + 1) * sizeof(char *), len = 0;
    for (size_t i = 0; i < SAFE_LEN; i++) {
        const char *value = getenv(safe_names[i]);
        size += value ? strlen(safe_names[i]) + strlen(value) + 2 : 0;
    }
    char **list = pal_malloc(size);
    if (!list)
        return NULL;
    char *text = (char *)(list + SAFE_LEN + count(given) + 1);
    for (size_t i = 0; i < SAFE_LEN; i++) {
        const char *value = getenv(safe_names[i]);
        if (!value || find_variable(given, safe_names[i]))
            continue;
        size_t name_len = strlen(safe_names[i]), value_len = strlen(value);
        list[len++] = memcpy(text, safe_names[i], name_len);
        text[name_len] = '=';
        memcpy(text + name_len + 1, value, value_len + 1);
        text += name_len + value_len + 2;
    }
    for (size_t i = 0; given && given[i]; i++)
        list[len++] = (char *)given[i];
    list[len] = NULL;
    return list;
}

static bool is_program(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

/* Writes the program's path, terminated, into `out_path`. Searches the PATH of the child. */
static bool find_program(const char *name, const char *path, pal_buf *out_path)
{
    bool found = strchr(name, '/') != NULL;
    pal_buf_append_text(out_path, found ? name : "");
    /* Stops if there is no memory: a later directory may contain a different program of the same
     * name. */
    for (path = path ? path : DEFAULT_PATH; !found && path && out_path->failure != PAL_NO_MEMORY;) {
        const char *colon = strchr(path, ':');
        pal_buf_clear(out_path);
        pal_buf_append(out_path, path, colon ? (size_t)(colon - path) : strlen(path));
        pal_buf_append_text(out_path, out_path->len ? "/" : "./");
        pal_buf_append_text(out_path, name);
        pal_buf_append_char(out_path, '\0');
        found = !out_path->failure && is_program(out_path->data);
        path = colon ? colon + 1 : NULL;
    }
    pal_buf_append_char(out_path, '\0');
    return found && !out_path->failure;
}

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* If one of our standard streams is closed, a pipe may have got its number. The child's dup2()
 * would then overwrite the pipe. */
static int move_up(int *fd)
{
    if (*fd > STDERR_FILENO)
        return 0;
    int moved = fcntl(*fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (moved < 0)
        return errno;
    close_end(fd);
    *fd = moved;
    return 0;
}

/* All ends are close-on-exec; dup2() makes the child's copies without that flag. */
static int make_pipes(int pipes[3][2])
{
    int rc = 0;
    for (int i = 0; i < 3 && !rc; i++) {
        if (pipe2(pipes[i], O_CLOEXEC))
            return errno;
        rc = move_up(&pipes[i][0]);
        if (!rc)
            rc = move_up(&pipes[i][1]);
    }
    return rc;
}

static int add_actions(posix_spawn_file_actions_t *actions, int pipes[3][2], const char *directory)
{
    int rc = 0;
    for (int i = 0; i < 3 && !rc; i++)
        rc = posix_spawn_file_actions_adddup2(actions, pipes[i][i != 0], i);
    if (!rc && directory)
        rc = posix_spawn_file_actions_addchdir_np(actions, directory);
    return rc ? rc : posix_spawn_file_actions_addclosefrom_np(actions, 3);
}

static int set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int rc = posix_spawnattr_setflags(
            attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (!rc)
        rc = posix_spawnattr_setpgroup(attributes, 0);
    if (!rc)
        rc = posix_spawnattr_setsigmask(attributes, &none);
    return rc ? rc : posix_spawnattr_setsigdefault(attributes, &all);
}

static int spawn(const pal_process_spec *spec, const char *path, char **environment,
        int pipes[3][2], pid_t *out_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int rc = posix_spawn_file_actions_init(&actions);
    if (rc)
        return rc;
    rc = posix_spawnattr_init(&attributes);
    if (rc)
        goto no_attributes;
    rc = add_actions(&actions, pipes, spec->directory);
    if (!rc)
        rc = set_attributes(&attributes);
    if (!rc)
        rc = posix_spawn(
                out_pid, path, &actions, &attributes, (char *const *)spec->arguments, environment);
    posix_spawnattr_destroy(&attributes);
no_attributes:
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

static pal_status describe(const pal_process_spec *spec, int rc, pal_error *err)
{
    if (rc == ENOMEM)
        return pal_no_memory(err);
    if (spec->directory && access(spec->directory, X_OK))
        return pal_error_set(err, errno == ENOENT ? PAL_NOT_FOUND : PAL_IO,
                "could not start '%s' in '%s': %s", spec->arguments[0], spec->directory,
                strerror(errno));
    pal_status status = PAL_IO;
    if (rc == ENOENT)
        status = PAL_NOT_FOUND;
    else if (rc == EACCES)
        status = PAL_DENIED;
    return pal_error_set(err, status, "could not start '%s': %s", spec->arguments[0], strerror(rc));
}

pal_status pal_child_start(const pal_process_spec *spec, pal_child *out_child, pal_error *err)
{
    if (!spec->arguments || !spec->arguments[0] || !spec->arguments[0][0])
        return pal_error_set(err, PAL_INVALID, "the command is empty");
    int pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    pal_buf path;
    pal_buf_init(&path, PATH_BYTES_MAX);
    pid_t pid = 0;
    int rc = ENOMEM;
    char **environment = make_environment(spec->environment);
    if (!environment)
        goto out;
    rc = ENOENT;
    if (!find_program(spec->arguments[0], find_variable((const char *const *)environment, "PATH"),
                &path)) {
        if (path.failure == PAL_NO_MEMORY)
            rc = ENOMEM;
        goto out;
    }
    rc = make_pipes(pipes);
    if (rc == 0)
        rc = spawn(spec, path.data, environment, pipes, &pid);
    if (rc == 0) {
        *out_child = (pal_child){pid, pipes[0][1], pipes[1][0], pipes[2][0]};
        pipes[0][1] = pipes[1][0] = pipes[2][0] = -1;
    }
out:
    for (int i = 0; i < 3; i++) {
        close_end(&pipes[i][0]);
        close_end(&pipes[i][1]);
    }
    pal_buf_done(&path);
    pal_free(environment);
    return rc ? describe(spec, rc, err) : PAL_OK;
}
