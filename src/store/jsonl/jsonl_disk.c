/* jsonl_disk.c - files and directories of "jsonl:DIR". All paths are relative to DIR.
 *
 * Palaver creates everything for its user only: files have mode 0600, directories 0700. A file that
 * replaces one of PicoClaw's files gets the mode of the old file. A new name is durable after its
 * directory was synced, and the name of that directory after its parent was synced. A failure of
 * either sync is reported. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include "base/digest.h"
#include "base/memory.h"
#include "store/jsonl/jsonl.h"

#define NAME_LEN_MAX 200 /* bytes of names that the store chooses, far below the limits of file
                            systems */

static pal_status status_of(int error)
{
    return error == EACCES || error == EPERM     ? PAL_DENIED
            : error == ENOSPC || error == EDQUOT ? PAL_FULL
                                                 : PAL_IO;
}

pal_status pal_jsonl_io(pal_error *err, const char *what, const char *path)
{
    int error = errno;

    return pal_error_set(
            err, status_of(error), "%s '%.120s': %s", what, path, strerror(error));
}

/* Returns the reason with a remedy. */
static const char *reason_of(int error)
{
    if (error == EISDIR)
        return "it is a directory, but a file is expected; move it away";
    if (error == ENOTDIR)
        return "it is a file, but a directory is expected; move it away or use another path";
    if (error == EACCES || error == EPERM)
        return "permission denied; give this user access";
    return strerror(error);
}

pal_status pal_jsonl_refused(jsonl_engine *engine, pal_error *err, const char *path)
{
    int error = errno;
    const char *reason = reason_of(error);
    pal_status status = status_of(error);

    if (*path == '\0')
        return pal_error_set(err, status, "cannot use '%.120s': %s", engine->location, reason);
    return pal_error_set(
            err, status, "cannot use '%.80s/%.80s': %s", engine->location, path, reason);
}

pal_status pal_jsonl_append_at(int fd, pal_str data, uint64_t at, const char *path, pal_error *err)
{
    struct stat facts;
    size_t done = 0;
    off_t end;

    if (fstat(fd, &facts) != 0)
        return pal_jsonl_io(err, "could not look at", path);
    while ((uint64_t)facts.st_size == at && done < data.len) {
        ssize_t len = write(fd, data.data + done, data.len - done);

        if (len < 0 && errno == EINTR)
            continue;
        if (len <= 0)
            return pal_jsonl_io(err, "could not write", path);
        done += (size_t)len;
    }
    end = lseek(fd, 0, SEEK_CUR);
    if (done == data.len && (uint64_t)end == at + data.len)
        return PAL_OK;
    /* The file is open for appending, so nothing was overwritten. Our bytes follow those of the
     * other program. They are removed, unless there are more bytes after them by now. */
    if (done > 0 && fstat(fd, &facts) == 0 && facts.st_size == end)
        (void)!ftruncate(fd, end - (off_t)done);
    return pal_error_set(err, PAL_BUSY, "'%.120s' was changed by another program", path);
}

pal_status pal_jsonl_write_at(int fd, pal_str data, uint64_t at, const char *path, pal_error *err)
{
    size_t done = 0;

    while (done < data.len) {
        ssize_t len = pwrite(fd, data.data + done, data.len - done, (off_t)(at + done));

        if (len < 0 && errno == EINTR)
            continue;
        if (len <= 0)
            return pal_jsonl_io(err, "could not write", path);
        done += (size_t)len;
    }
    return PAL_OK;
}

static pal_status read_all(int fd, const char *path, pal_buf *text, pal_error *err)
{
    for (;;) {
        char *room = pal_buf_reserve(text, 65536);
        ssize_t len;

        if (!room)
            return pal_error_set(
                    err, text->failure, "'%.120s' is too large, or there is no memory", path);
        len = pread(fd, room, 65536, (off_t)text->len);
        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0)
            return pal_jsonl_io(err, "could not read", path);
        if (len == 0)
            return PAL_OK;
        pal_buf_commit(text, (size_t)len);
    }
}

pal_status pal_jsonl_read_file(jsonl_engine *engine, const char *path, size_t bytes_max,
        pal_buf *out_text, struct stat *out_stat, pal_error *err)
{
    int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | pal_jsonl_open_flags(path);
    int fd = openat(engine->dir_fd, path, flags);
    pal_status status = PAL_OK;
    struct stat facts;

    if (fd < 0 && errno == ENOENT)
        return PAL_NOT_FOUND;
    if (fd < 0)
        return pal_jsonl_refused(engine, err, path);
    if (fstat(fd, &facts) != 0) {
        status = pal_jsonl_refused(engine, err, path);
    } else if (S_ISDIR(facts.st_mode)) {
        errno = EISDIR;
        status = pal_jsonl_refused(engine, err, path);
    } else if (!S_ISREG(facts.st_mode)) {
        status = pal_error_set(err, PAL_IO, "'%.80s/%.80s' is not a regular file; move it away",
                engine->location, path);
    } else if ((uint64_t)facts.st_size > bytes_max) {
        status = pal_error_set(err, PAL_LIMIT, "'%.120s' is too large", path);
    } else {
        status = read_all(fd, path, out_text, err);
    }
    close(fd);
    if (status == PAL_OK && out_stat)
        *out_stat = facts;
    return status;
}

int pal_jsonl_open_flags(const char *path)
{
    return strncmp(path, JSONL_SIDE "/", sizeof JSONL_SIDE) == 0 ? O_NOFOLLOW : 0;
}

/* Programs that could use the old file can use the new one too. */
static void keep_mode(jsonl_engine *engine, const char *path, int fd)
{
    struct stat facts;

    if (pal_jsonl_open_flags(path) != 0 || fstatat(engine->dir_fd, path, &facts, 0) != 0)
        return;
    (void)!fchown(fd, facts.st_uid, facts.st_gid);
    (void)!fchmod(fd, facts.st_mode & 0777);
}

pal_status pal_jsonl_replace(jsonl_engine *engine, const char *path, pal_str text, pal_error *err)
{
    static const char temporary[] = JSONL_SIDE "/new";
    pal_status status = PAL_OK;
    int fd;

    /* The directory's lock is held, so no other process writes this file. */
    unlinkat(engine->dir_fd, temporary, 0);
    fd = openat(
            engine->dir_fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return pal_jsonl_io(err, "could not write", path);
    keep_mode(engine, path, fd);
    status = pal_jsonl_write_at(fd, text, 0, path, err);
    if (status == PAL_OK && fsync(fd) != 0)
        status = pal_jsonl_io(err, "could not sync", path);
    close(fd);
    if (status == PAL_OK && renameat(engine->dir_fd, temporary, engine->dir_fd, path) != 0)
        status = pal_jsonl_io(err, "could not replace", path);
    if (status != PAL_OK)
        unlinkat(engine->dir_fd, temporary, 0);
    return status;
}

/* It is not an error if the directory does not exist, cannot be read, or is on a file system that
 * cannot sync directories. */
static pal_status sync_one(int from_fd, const char *directory, pal_error *err)
{
    int fd = openat(from_fd, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pal_status status = PAL_OK;

    if (fd < 0)
        return errno == EACCES || errno == ENOENT ? PAL_OK
                                                  : pal_jsonl_io(err, "could not open", directory);
    if (fsync(fd) != 0 && errno != EINVAL)
        status = pal_jsonl_io(err, "could not sync", directory);
    close(fd);
    return status;
}

/* A process may have created the directories above and died before it synced them. */
pal_status pal_jsonl_sync_dir(jsonl_engine *engine, const char *path, pal_error *err)
{
    char directory[JSONL_PATH_MAX];
    pal_status status = PAL_OK;
    char *slash;

    snprintf(directory, sizeof directory, "%s", path);
    if (!strchr(directory, '/'))
        return sync_one(engine->dir_fd, ".", err);
    while (status == PAL_OK && (slash = strrchr(directory, '/')) != NULL) {
        *slash = '\0';
        status = sync_one(engine->dir_fd, directory, err);
    }
    return status;
}

/* A directory must be durable before anything is moved into it. */
pal_status pal_jsonl_make_dirs(jsonl_engine *engine, const char *path, pal_error *err)
{
    char part[JSONL_PATH_MAX];
    pal_status status = PAL_OK;

    for (const char *slash = strchr(path, '/'); slash && status == PAL_OK;
            slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        if (mkdirat(engine->dir_fd, part, 0700) == 0)
            status = pal_jsonl_sync_dir(engine, part, err);
        else if (errno != EEXIST)
            status = pal_jsonl_io(err, "could not create", part);
    }
    return status;
}

pal_status pal_jsonl_sync_store(jsonl_engine *engine, pal_error *err)
{
    pal_status status = sync_one(engine->dir_fd, JSONL_SIDE, err);

    if (status == PAL_OK)
        status = sync_one(engine->dir_fd, ".", err);
    if (status == PAL_OK)
        status = sync_one(engine->dir_fd, "..", err);
    return status;
}

/* ---- Tenants ---- */

static bool is_plain(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
            c == '_';
}

static pal_status hashed_name(pal_str tenant, char *out_name, pal_error *err)
{
    uint8_t digest[PAL_SHA256_SIZE];

    if (pal_sha256(tenant, digest) != PAL_OK)
        return pal_no_memory(err);
    out_name[0] = '=';
    pal_hex(digest, sizeof digest, out_name + 1);
    return PAL_OK;
}

pal_status pal_jsonl_tenant_dir(
        pal_str tenant, const char *under, char out_path[JSONL_PATH_MAX], pal_error *err)
{
    char name[PAL_TENANT_LEN_MAX * 3 + 1];
    size_t len = 0;

    for (size_t i = 0; i < tenant.len && len + 3 < sizeof name; i++) {
        unsigned char c = (unsigned char)tenant.data[i];

        if (is_plain(c))
            name[len++] = (char)c;
        else
            len += (size_t)snprintf(name + len, 4, "%%%02x", c);
    }
    name[len] = '\0';
    if (len > NAME_LEN_MAX) {
        pal_status status = hashed_name(tenant, name, err);

        if (status != PAL_OK)
            return status;
    }
    snprintf(out_path, JSONL_PATH_MAX, JSONL_SIDE "/%s/%s/", under, name);
    return PAL_OK;
}

bool pal_jsonl_tenant_of(const char *name, char *out_tenant, size_t *out_len)
{
    size_t len = 0;
    uint8_t byte;

    for (; *name && len < PAL_TENANT_LEN_MAX; name++) {
        if (is_plain((unsigned char)*name)) {
            out_tenant[len++] = *name;
        } else if (*name == '%' &&
                pal_unhex(pal_str_make(name + 1, strnlen(name + 1, 2)), &byte, 1)) {
            out_tenant[len++] = (char)byte;
            name += 2;
        } else {
            return false;
        }
    }
    *out_len = len;
    return len > 0 && *name == '\0';
}

pal_status pal_jsonl_still_there(const jsonl_engine *engine, pal_error *err)
{
    struct stat ours, found;
    bool is_there;

    if (engine->real_path[0] && fstat(engine->dir_fd, &ours) == 0) {
        is_there = stat(engine->real_path, &found) == 0;
        if (!is_there && errno != ENOENT && errno != ENOTDIR)
            return PAL_OK; /* unknown; the commit reports the problem */
        if (!is_there || found.st_ino != ours.st_ino || found.st_dev != ours.st_dev)
            return pal_error_set(err, PAL_IO,
                    "'%.120s' was %s while the store is open: nothing more is written; restart "
                    "with the right directory",
                    engine->location, is_there ? "replaced" : "removed");
    }
    if (engine->log_inode != 0 && fstatat(engine->dir_fd, JSONL_LOG, &found, 0) != 0 &&
            errno == ENOENT)
        return pal_error_set(err, PAL_IO,
                "'%.80s/%s' was removed while the store is open: nothing more is written; restart "
                "with the right directory",
                engine->location, JSONL_LOG);
    return PAL_OK;
}
