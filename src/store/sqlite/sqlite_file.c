/* sqlite_file.c - the database file: it is created for its owner only, and watched while it
 * is open.
 *
 * SQLite gives its WAL and its shared memory the mode of the database file, so it is enough to
 * create that file with the right mode before SQLite does. A crash after its creation leaves an
 * empty file, as a crash during SQLite's own creation would.
 *
 * If a file is removed or replaced while it is open, writes to it still succeed, but they are lost
 * when the process ends. So every commit first checks whether the names still lead to the open
 * files. This takes three system calls: a few microseconds, which is little compared with the sync
 * of a commit. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/sqlite/sqlite.h"

/* ---- Creating ---- */

/* Makes the name of a new file durable. */
static pal_status sync_directory(const char *path, pal_error *err)
{
    char directory[4096];
    char *slash;
    int fd, failed;

    snprintf(directory, sizeof(directory), "%s", path);
    slash = strrchr(directory, '/');
    if (slash)
        slash[slash == directory] = 0;
    fd = open(slash ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* A directory that can be written but not read cannot be synced either. */
    if (fd < 0)
        return errno == EACCES ? PAL_OK : pal_sqlite_open_error(path, err);
    /* Some file systems cannot sync directories and report that. */
    failed = fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP ? errno : 0;
    close(fd);
    errno = failed;
    return failed == 0 ? PAL_OK : pal_sqlite_open_error(path, err);
}

pal_status pal_sqlite_file_create(const char *path, pal_error *err)
{
    struct stat info;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);

    if (fd >= 0) {
        close(fd);
        return sync_directory(path, err);
    }
    if (errno != EEXIST)
        return pal_sqlite_open_error(path, err);
    /* Another process was faster, or the name is a link to a missing file. Following the link would
     * let its creator decide where the store is created. */
    if (stat(path, &info) == 0)
        return PAL_OK;
    return pal_error_set(err, PAL_DENIED,
            "cannot create '%.120s': it is a symbolic link to a file that does not exist", path);
}

/* ---- Watching ---- */

/* Finds out which file has the name. Does not ask for its times: since Linux 6.13, the next write
 * to a file whose times were read has to store a finer time, and the sync after it takes about
 * 40 microseconds longer. */
static bool find_inode(const char *path, uint64_t *out_device, uint64_t *out_inode)
{
    struct statx info;

    if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_INO, &info) != 0)
        return false;
    *out_device = (uint64_t)info.stx_dev_major << 32 | info.stx_dev_minor;
    *out_inode = info.stx_ino;
    return true;
}

static void note(pal_watched_file *file, const char *path)
{
    *file = (pal_watched_file){0};
    if (path && strlen(path) < sizeof(file->path) &&
            find_inode(path, &file->device, &file->inode))
        snprintf(file->path, sizeof(file->path), "%s", path);
}

void pal_sqlite_file_watch(pal_sqlite *self)
{
    const char *path = sqlite3_db_filename(self->writer.db, "main");
    char name[PAL_SQLITE_PATH_SIZE];

    if (!path)
        return;
    note(&self->watched[0], path);
    snprintf(name, sizeof(name), "%s-wal", path);
    note(&self->watched[1], name);
    snprintf(name, sizeof(name), "%s-shm", path);
    note(&self->watched[2], name);
}

pal_status pal_sqlite_file_check_moved(const pal_sqlite *self, pal_error *err)
{
    for (size_t i = 0; i < PAL_SQLITE_WATCHED; i++) {
        const pal_watched_file *file = &self->watched[i];
        uint64_t device = 0, inode = 0;
        bool is_there;

        if (!file->path[0])
            continue;
        is_there = find_inode(file->path, &device, &inode);
        if (!is_there && errno != ENOENT && errno != ENOTDIR)
            continue; /* unknown; the commit reports the problem */
        if (!is_there || inode != file->inode || device != file->device)
            return pal_error_set(err, PAL_IO,
                    "'%.120s' was %s while the store is open: nothing more is written; restart "
                    "with the right file",
                    file->path, is_there ? "replaced" : "removed");
    }
    return PAL_OK;
}

pal_status pal_sqlite_ready(pal_engine *engine, pal_error *err)
{
    return pal_sqlite_file_check_moved((pal_sqlite *)engine, err);
}
