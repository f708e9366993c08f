/* sqlite_gather.c - lets a commit reach the WAL in one write.
 *
 * SQLite writes every frame of a transaction with two calls, one for its head and one for its page,
 * although all frames are contiguous in the file. For a batch of appends these calls cost up to
 * half of SQLite's own work. So the writer's connection has its own methods for this one file. They
 * keep data that is written where the last write ended, and write it when it is needed.
 *
 * Crash argument: kept data is written before the file is synced, truncated, measured, or read at
 * that place. SQLite syncs the WAL before other connections can see a commit, so no connection
 * looks for frames that are still kept. If a write fails, every later write, sync, truncation and
 * size query fails until the transaction is rolled back, so that no commit can follow. Data that is
 * still kept at the rollback is dropped, and reads at other places do not write it: after the lock
 * is released, another process may have its own frames at that place.
 *
 * Only the thread that holds the writer's connection calls these functions. */
#include <string.h>

#include "base/memory.h"
#include "store/sqlite/sqlite.h"

#define FRAME_BYTES (24 + 4096)
#define KEPT_BYTES_MAX (31 * FRAME_BYTES) /* less than the 128 KiB that SQLite's own files take at
                                             once */

static pal_wal_gather *gather_of(sqlite3_file *file)
{
    return (pal_wal_gather *)(uintptr_t)file->pMethods;
}

static int write_kept(sqlite3_file *file)
{
    pal_wal_gather *self = gather_of(file);

    if (self->len > 0 && self->failure == SQLITE_OK)
        self->failure = self->real->xWrite(file, self->kept, self->len, self->at);
    self->len = 0;
    return self->failure;
}

static int gather_write(sqlite3_file *file, const void *data, int len, sqlite3_int64 at)
{
    pal_wal_gather *self = gather_of(file);
    int code = self->failure;

    if (at != self->at + self->len || len > KEPT_BYTES_MAX - self->len)
        code = write_kept(file);
    if (code != SQLITE_OK)
        return code;
    if (!self->kept)
        self->kept = pal_malloc(KEPT_BYTES_MAX);
    if (!self->kept || len > KEPT_BYTES_MAX)
        return self->real->xWrite(file, data, len, at);
    if (self->len == 0)
        self->at = at;
    memcpy(self->kept + self->len, data, (size_t)len);
    self->len += len;
    return SQLITE_OK;
}

static int gather_read(sqlite3_file *file, void *data, int len, sqlite3_int64 at)
{
    pal_wal_gather *self = gather_of(file);
    bool is_kept = at < self->at + self->len && at + len > self->at;
    int code = is_kept ? write_kept(file) : SQLITE_OK;

    return code == SQLITE_OK ? self->real->xRead(file, data, len, at) : code;
}

static int gather_sync(sqlite3_file *file, int flags)
{
    int code = write_kept(file);

    return code == SQLITE_OK ? gather_of(file)->real->xSync(file, flags) : code;
}

static int gather_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    int code = write_kept(file);

    return code == SQLITE_OK ? gather_of(file)->real->xTruncate(file, size) : code;
}

static int gather_size(sqlite3_file *file, sqlite3_int64 *out_size)
{
    int code = write_kept(file);

    return code == SQLITE_OK ? gather_of(file)->real->xFileSize(file, out_size) : code;
}

/* Bytes that are still kept here were never committed. */
static int gather_close(sqlite3_file *file)
{
    pal_wal_gather *self = gather_of(file);

    file->pMethods = self->real;
    self->real = NULL;
    self->len = 0;
    return file->pMethods->xClose(file);
}

static void rolled_back(void *user)
{
    pal_wal_gather *self = user;

    self->len = 0;
    self->failure = SQLITE_OK;
}

void pal_wal_gather_watch(pal_sqlite *self)
{
    pal_wal_gather *gather = &self->gather;
    sqlite3_file *file = NULL;

    /* There is no WAL if the file system does not support one. */
    if (sqlite3_file_control(self->writer.db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file) !=
                    SQLITE_OK ||
            !file || !file->pMethods)
        return;
    gather->real = file->pMethods;
    gather->methods = *gather->real;
    gather->methods.iVersion = 1; /* a WAL needs neither shared memory nor a mapping */
    gather->methods.xClose = gather_close;
    gather->methods.xRead = gather_read;
    gather->methods.xWrite = gather_write;
    gather->methods.xTruncate = gather_truncate;
    gather->methods.xSync = gather_sync;
    gather->methods.xFileSize = gather_size;
    sqlite3_rollback_hook(self->writer.db, rolled_back, gather);
    file->pMethods = &gather->methods;
}

void pal_wal_gather_done(pal_sqlite *self)
{
    pal_free(self->gather.kept);
}
