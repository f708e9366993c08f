/* sqlite_gather.c - lets a commit reach the WAL in one write.
 *
 * SQLite writes every frame of a transaction with two calls, one for its head and one for its page,
 * although all frames are contiguous in the file. For a batch of appends these calls cost up to
 * half of SQLite's own work. So the writer's connection is opened with a VFS (SQLite's interface to
 * files) that belongs to the engine and wraps the default VFS. Its WAL keeps data that is written
 * where the last write ended, and writes it when it is needed. All other files of the connection
 * are opened by the default VFS in the memory that SQLite provides, so their locks, shared memory
 * and mappings do not pass through this file. Other connections use the default VFS.
 *
 * Crash argument: kept data is written before the file is synced, truncated, measured, or read at
 * that place. The writer's connection uses synchronous=FULL. SQLite therefore syncs the WAL before
 * other connections can see a commit, so no connection looks for frames that are still kept. If a
 * write fails, every later write, sync, truncation and size query fails until the transaction is
 * rolled back, so that no commit can follow. Data that is still kept at the rollback is dropped,
 * and reads at other places do not write it: after the lock is released, another process may have
 * its own frames at that place.
 *
 * Only the thread that holds the writer's connection calls the functions of the WAL. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "store/sqlite/sqlite.h"

#define FRAME_BYTES (PAL_WAL_FRAME_HEAD + 4096)
#define KEPT_BYTES_MAX (31 * FRAME_BYTES) /* less than the 128 KiB that SQLite's own files take at
                                             once */

/* SQLite's object for the WAL. The wrapped VFS has its object directly after it. */
typedef struct wal_file {
    sqlite3_file base;
    pal_wal_gather *gather;
} wal_file;

static pal_wal_gather *gather_of(sqlite3_file *file)
{
    return ((wal_file *)file)->gather;
}

static sqlite3_file *real_of(sqlite3_file *file)
{
    return (sqlite3_file *)((wal_file *)file + 1);
}

/* ---- The WAL ---- */

static int write_kept(sqlite3_file *file)
{
    pal_wal_gather *self = gather_of(file);
    sqlite3_file *real = real_of(file);

    if (self->len > 0 && self->failure == SQLITE_OK)
        self->failure = real->pMethods->xWrite(real, self->kept, self->len, self->at);
    self->len = 0;
    return self->failure;
}

static int wal_write(sqlite3_file *file, const void *data, int len, sqlite3_int64 at)
{
    pal_wal_gather *self = gather_of(file);
    sqlite3_file *real = real_of(file);
    int code = self->failure;

    if (len == PAL_WAL_FRAME_HEAD) {
        memcpy(self->frame, data, PAL_WAL_FRAME_HEAD);
        self->has_frame = true;
    }
    if (at != self->at + self->len || len > KEPT_BYTES_MAX - self->len)
        code = write_kept(file);
    if (code != SQLITE_OK)
        return code;
    if (!self->kept)
        self->kept = pal_malloc(KEPT_BYTES_MAX);
    if (!self->kept || len > KEPT_BYTES_MAX)
        return real->pMethods->xWrite(real, data, len, at);
    if (self->len == 0)
        self->at = at;
    memcpy(self->kept + self->len, data, (size_t)len);
    self->len += len;
    return SQLITE_OK;
}

static int wal_read(sqlite3_file *file, void *data, int len, sqlite3_int64 at)
{
    pal_wal_gather *self = gather_of(file);
    bool is_kept = at < self->at + self->len && at + len > self->at;
    int code = is_kept ? write_kept(file) : SQLITE_OK;

    return code == SQLITE_OK ? real_of(file)->pMethods->xRead(real_of(file), data, len, at) : code;
}

static int wal_sync(sqlite3_file *file, int flags)
{
    int code = write_kept(file);

    return code == SQLITE_OK ? real_of(file)->pMethods->xSync(real_of(file), flags) : code;
}

static int wal_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    int code = write_kept(file);

    return code == SQLITE_OK ? real_of(file)->pMethods->xTruncate(real_of(file), size) : code;
}

static int wal_size(sqlite3_file *file, sqlite3_int64 *out_size)
{
    int code = write_kept(file);

    return code == SQLITE_OK ? real_of(file)->pMethods->xFileSize(real_of(file), out_size) : code;
}

/* Data that is still kept here was never committed. */
static int wal_close(sqlite3_file *file)
{
    pal_wal_gather *self = gather_of(file);

    self->is_open = false;
    self->len = 0;
    self->failure = SQLITE_OK;
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int wal_lock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xLock(real_of(file), level);
}

static int wal_unlock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int wal_check_lock(sqlite3_file *file, int *out_held)
{
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), out_held);
}

static int wal_control(sqlite3_file *file, int op, void *arg)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), op, arg);
}

static int wal_sector_size(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int wal_characteristics(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

/* Version 1, because a WAL needs neither shared memory nor a mapping. */
static const sqlite3_io_methods wal_methods = {
        .iVersion = 1,
        .xClose = wal_close,
        .xRead = wal_read,
        .xWrite = wal_write,
        .xTruncate = wal_truncate,
        .xSync = wal_sync,
        .xFileSize = wal_size,
        .xLock = wal_lock,
        .xUnlock = wal_unlock,
        .xCheckReservedLock = wal_check_lock,
        .xFileControl = wal_control,
        .xSectorSize = wal_sector_size,
        .xDeviceCharacteristics = wal_characteristics,
};

static void on_rollback(void *user)
{
    pal_wal_gather *self = user;

    self->len = 0;
    self->failure = SQLITE_OK;
}

/* ---- The VFS ---- */

static sqlite3_vfs *real_vfs(sqlite3_vfs *vfs)
{
    return ((pal_wal_gather *)vfs->pAppData)->real;
}

static int vfs_open(
        sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags, int *out_flags)
{
    pal_wal_gather *self = vfs->pAppData;
    int code;

    if (!(flags & SQLITE_OPEN_WAL) || self->is_open)
        return self->real->xOpen(self->real, name, file, flags, out_flags);
    file->pMethods = NULL;
    real_of(file)->pMethods = NULL;
    code = self->real->xOpen(self->real, name, real_of(file), flags, out_flags);
    if (code != SQLITE_OK) {
        /* The wrapped VFS may still require a call of xClose, which SQLite would not make. */
        if (real_of(file)->pMethods)
            real_of(file)->pMethods->xClose(real_of(file));
        return code;
    }
    ((wal_file *)file)->gather = self;
    self->is_open = true;
    file->pMethods = &wal_methods;
    return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync_directory)
{
    return real_vfs(vfs)->xDelete(real_vfs(vfs), name, sync_directory);
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *out_result)
{
    return real_vfs(vfs)->xAccess(real_vfs(vfs), name, flags, out_result);
}

static int vfs_full_path(sqlite3_vfs *vfs, const char *name, int size, char *out_path)
{
    return real_vfs(vfs)->xFullPathname(real_vfs(vfs), name, size, out_path);
}

static int vfs_randomness(sqlite3_vfs *vfs, int len, char *out_bytes)
{
    return real_vfs(vfs)->xRandomness(real_vfs(vfs), len, out_bytes);
}

static int vfs_sleep(sqlite3_vfs *vfs, int us)
{
    return real_vfs(vfs)->xSleep(real_vfs(vfs), us);
}

static int vfs_current_time(sqlite3_vfs *vfs, double *out_days)
{
    return real_vfs(vfs)->xCurrentTime(real_vfs(vfs), out_days);
}

static int vfs_last_error(sqlite3_vfs *vfs, int size, char *out_text)
{
    return real_vfs(vfs)->xGetLastError(real_vfs(vfs), size, out_text);
}

const char *pal_wal_gather_register(pal_wal_gather *self)
{
    self->real = sqlite3_vfs_find(NULL);
    if (!self->real)
        return NULL;
    /* Engines that are open at the same time need different names. */
    snprintf(self->name, sizeof(self->name), "palaver-%p", (void *)self);
    /* Version 1: SQLite then derives the time from xCurrentTime. The functions for extensions are
     * missing, because a connection never loads one. */
    self->vfs = (sqlite3_vfs){
            .iVersion = 1,
            .szOsFile = (int)sizeof(wal_file) + self->real->szOsFile,
            .mxPathname = self->real->mxPathname,
            .zName = self->name,
            .pAppData = self,
            .xOpen = vfs_open,
            .xDelete = vfs_delete,
            .xAccess = vfs_access,
            .xFullPathname = vfs_full_path,
            .xRandomness = vfs_randomness,
            .xSleep = vfs_sleep,
            .xCurrentTime = vfs_current_time,
            .xGetLastError = self->real->xGetLastError ? vfs_last_error : NULL,
    };
    return sqlite3_vfs_register(&self->vfs, 0) == SQLITE_OK ? self->name : NULL;
}

void pal_wal_gather_watch(pal_wal_gather *self, sqlite3 *db)
{
    sqlite3_rollback_hook(db, on_rollback, self);
}

void pal_wal_gather_done(pal_wal_gather *self)
{
    if (self->vfs.zName)
        sqlite3_vfs_unregister(&self->vfs);
    pal_free(self->kept);
}
