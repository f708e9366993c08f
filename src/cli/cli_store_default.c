/* cli_store_default.c - the store that is used if neither the configuration, the environment nor
 * the command line names one: ./palaver-data if that directory exists, else the user's data
 * directory. So conversations follow the user, and a directory can keep its own.
 *
 * Without a home directory it is ./palaver-data too, which is then created. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCAL_DIRECTORY "palaver-data"
#define USER_DIRECTORY "palaver"
#define FILE_NAME "palaver.db"

static bool is_directory(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* The XDG specification says that a relative path counts as not set. Services often have a home
 * directory that does not exist. */
static bool is_usable(const char *home)
{
    return home && *home == '/' && is_directory(home);
}

pal_status pal_cli_store_default(pal_cli *cli, const char **out_url)
{
    const char *data = getenv("XDG_DATA_HOME");
    const char *home = getenv("HOME");
    bool has_data = data && *data == '/';
    *out_url = PAL_CONFIG_STORE_DEFAULT;
    if (is_directory(LOCAL_DIRECTORY) || (!has_data && !is_usable(home)))
        return PAL_OK;
    const char *base = has_data ? data : home;
    const char *rest = has_data ? "" : "/.local/share";
    static const char format[] = "sqlite:%s%s/" USER_DIRECTORY "/" FILE_NAME;
    size_t size = sizeof format + strlen(base) + strlen(rest);
    char *url = pal_arena_alloc(cli->arena, size);
    if (!url)
        return pal_cli_no_memory(cli);
    snprintf(url, size, format, base, rest);
    *out_url = url;
    return PAL_OK;
}

/* Makes the name of a new directory durable; otherwise a power failure could lose the whole store.
 * A parent that cannot be opened for reading cannot be synced. */
static int sync_parent(const char *path)
{
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(parent, sizeof parent, "%.*s", slash > path ? (int)(slash - path) : 1,
            slash ? path : ".");
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failed = fd < 0 && errno != EACCES ? errno : 0;
    if (fd >= 0 && fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP)
        failed = errno;
    if (fd >= 0)
        close(fd);
    return failed;
}

static int make_one(const char *path)
{
    if (mkdir(path, 0700) == 0)
        return sync_parent(path);
    int failed = errno;
    return is_directory(path) ? 0 : failed;
}

/* Creates the directory and those above it that are missing. */
static int make_all(char *path)
{
    int failed = 0;
    for (char *slash = strchr(path + 1, '/'); slash && !failed; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        failed = make_one(path);
        *slash = '/';
    }
    return failed ? failed : make_one(path);
}

/* Keeps the store out of git, because the working directory is often a repository, and coding
 * agents add everything to a commit. A file that is missing or empty after a crash changes nothing
 * else. */
static void ignore_in_git(void)
{
    static const char rule[] = "*\n";
    int fd = open(LOCAL_DIRECTORY "/.gitignore", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    ssize_t written = write(fd, rule, sizeof rule - 1);
    (void)written;
    close(fd);
}

pal_status pal_cli_store_default_make(pal_cli *cli)
{
    char path[PATH_MAX];
    bool is_local = strcmp(cli->store_url, PAL_CONFIG_STORE_DEFAULT) == 0;
    const char *file = pal_cli_store_path(cli->store_url);
    if (!file || (!is_local && !cli->store_is_default))
        return PAL_OK;
    size_t len = strlen(file) - strlen("/" FILE_NAME);
    if (len >= sizeof path)
        return pal_error_set(&cli->err, PAL_LIMIT, "the path of the data directory is too long");
    snprintf(path, sizeof path, "%.*s", (int)len, file);
    int failed = make_all(path);
    if (!failed && is_local)
        ignore_in_git();
    if (failed)
        return pal_error_set(&cli->err,
                failed == EACCES || failed == EROFS                ? PAL_DENIED
                        : failed == ENOSPC || failed == EDQUOT ? PAL_FULL
                                                                   : PAL_IO,
                "could not create the directory '%.160s': %s", path, strerror(failed));
    return PAL_OK;
}
