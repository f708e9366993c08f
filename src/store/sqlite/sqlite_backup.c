/* sqlite_backup.c - copies the file of a store as it is at one moment, while servers use it.
 *
 * SQLite copies all pages in one read transaction. In the mode of our stores, readers and the
 * writer do not wait for each other, so a server continues to commit meanwhile; the copy has the
 * last commit before it began.
 *
 * Crash argument: the pages go to a file next to the target, with another name. It is checked and
 * synced before it gets the target's name by a link, which fails if the target exists. So the
 * target is complete or does not exist. A crash leaves at most the other file, which the next
 * backup to the same target replaces. */
#include "store/sqlite/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "palaver/store_admin.h"

#define BUSY_MS 30000
#define PART_SUFFIX ".part"
#define PART_SIZE (PAL_SQLITE_PATH_SIZE + sizeof PART_SUFFIX)

static pal_status fail_file(const char *what, const char *path, int number, pal_error *err)
{
    pal_status status = number == EACCES || number == EROFS || number == EPERM ? PAL_DENIED
            : number == ENOENT || number == ENOTDIR                            ? PAL_NOT_FOUND
            : number == EEXIST                                                 ? PAL_CONFLICT
            : number == ENOSPC || number == EDQUOT                             ? PAL_FULL
                                                                               : PAL_IO;
    return pal_error_set(err, status, "could not %s '%.160s': %s", what, path, strerror(number));
}

static pal_status fail_sql(const char *what, const char *path, int code, pal_error *err)
{
    int kind = code & 0xff;
    pal_status status = kind == SQLITE_FULL ? PAL_FULL
            : kind == SQLITE_NOMEM          ? PAL_NO_MEMORY
            : kind == SQLITE_BUSY           ? PAL_BUSY
            : kind == SQLITE_CORRUPT || kind == SQLITE_NOTADB ? PAL_CORRUPT
                                                              : PAL_IO;
    return pal_error_set(
            err, status, "could not %s '%.160s': %s", what, path, sqlite3_errstr(code));
}

/* A file that this process may only read can be copied, too. */
static int open_source(const char *path, sqlite3 **out_db)
{
    int code = sqlite3_open_v2(path, out_db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (code == SQLITE_OK)
        return code;
    sqlite3_close(*out_db);
    return sqlite3_open_v2(path, out_db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
}

static pal_status copy_pages(sqlite3 *from, sqlite3 *to, const char *path, pal_error *err)
{
    sqlite3_busy_timeout(from, BUSY_MS);
    sqlite3_backup *backup = sqlite3_backup_init(to, "main", from, "main");
    if (!backup)
        return fail_sql("write", path, sqlite3_errcode(to), err);
    int step = sqlite3_backup_step(backup, -1);
    int code = sqlite3_backup_finish(backup);
    if (step == SQLITE_DONE && code == SQLITE_OK)
        return PAL_OK;
    return fail_sql("copy to", path, code != SQLITE_OK ? code : step, err);
}

static int keep_answer(void *user, int columns, char **values, char **names)
{
    bool *is_ok = user;
    (void)columns;
    (void)names;
    *is_ok = values[0] && strcmp(values[0], "ok") == 0;
    return 0;
}

/* The copy becomes one file without a write-ahead log, and all its pages are checked. */
static pal_status check_pages(sqlite3 *db, const char *path, pal_error *err)
{
    bool is_ok = false;
    int code = sqlite3_exec(db, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_exec(db, "PRAGMA integrity_check(1)", keep_answer, &is_ok, NULL);
    if (code != SQLITE_OK)
        return fail_sql("check", path, code, err);
    return is_ok ? PAL_OK
                 : pal_error_set(err, PAL_CORRUPT,
                           "the copy '%.160s' is damaged, because the store is; 'palaver fsck' "
                           "reports what is wrong",
                           path);
}

/* An empty file that only its owner can read. */
static pal_status make_part(const char *part, pal_error *err)
{
    unlink(part);
    int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail_file("create", part, errno, err);
    close(fd);
    return PAL_OK;
}

static pal_status copy_file(const char *from_path, const char *part, pal_error *err)
{
    sqlite3 *from = NULL, *to = NULL;
    pal_status status = make_part(part, err);
    if (status != PAL_OK)
        return status;
    int code = open_source(from_path, &from);
    if (code != SQLITE_OK)
        status = fail_sql("open", from_path, code, err);
    if (status == PAL_OK) {
        code = sqlite3_open_v2(part, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
        status = code == SQLITE_OK ? copy_pages(from, to, part, err)
                                   : fail_sql("open", part, code, err);
    }
    if (status == PAL_OK)
        status = check_pages(to, part, err);
    sqlite3_close(to);
    sqlite3_close(from);
    return status;
}

static int sync_path(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC);
    int failed = fd < 0 || fsync(fd) != 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    return failed == EINVAL || failed == ENOTSUP ? 0 : failed;
}

/* Gives the file its name, durably. */
static pal_status publish(const char *part, const char *path, pal_error *err)
{
    char parent[PAL_SQLITE_PATH_SIZE];
    const char *slash = strrchr(path, '/');
    snprintf(parent, sizeof parent, "%.*s", slash > path ? (int)(slash - path) : 1,
            slash ? path : ".");
    int failed = sync_path(part, O_RDONLY);
    if (!failed && link(part, path) != 0)
        failed = errno;
    if (!failed)
        failed = sync_path(parent, O_RDONLY | O_DIRECTORY);
    return failed ? fail_file("write", path, failed, err) : PAL_OK;
}

static const char *path_of(const char *url)
{
    if (strncmp(url, "sqlite:", 7) == 0)
        return url + 7;
    return url[strcspn(url, ":/")] == ':' ? NULL : url;
}

pal_status pal_store_backup(const char *from_url, const char *to_path, pal_error *err)
{
    char part[PART_SIZE];
    struct stat info;
    const char *from = path_of(from_url);
    if (!from)
        return pal_error_set(err, PAL_INVALID,
                "only a store of SQLite can be copied as a file; use 'pg_basebackup' or 'pg_dump' "
                "for PostgreSQL, and copy the directory of a 'jsonl:' store");
    if (strlen(to_path) >= PAL_SQLITE_PATH_SIZE)
        return pal_error_set(err, PAL_LIMIT, "the path '%.100s' is too long", to_path);
    if (stat(from, &info) != 0)
        return fail_file("read", from, errno, err);
    if (lstat(to_path, &info) == 0)
        return fail_file("write", to_path, EEXIST, err);
    snprintf(part, sizeof part, "%s" PART_SUFFIX, to_path);
    pal_status status = copy_file(from, part, err);
    if (status == PAL_OK)
        status = publish(part, to_path, err);
    unlink(part);
    return status;
}
