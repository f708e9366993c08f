/* sqlite_wal.c - keeps the WAL short, on a separate thread.
 *
 * Copying the WAL into the file takes tens of milliseconds, and the commit that did it would be
 * delayed. So most of the WAL is copied while the writer continues. Only the frames that it wrote
 * in the meantime are copied while it is blocked: SQLite can start the WAL from its beginning only
 * when all of it is in the file.
 *
 * Crash argument: a crash at any point is harmless. Frames stay in the WAL until all of them are in
 * the file and synced, and they are copied again after a crash. If copying fails, the next commit
 * that finds the WAL too long tries again. The first such commit starts the thread; most processes
 * never need it. */
#include <string.h>

#include "store/sqlite/sqlite.h"

#define BULK_PASSES_MAX 4 /* each pass copies the pages that were written during the one before */
#define HELD_PAGES_MAX (PAL_WAL_PAGES_MAX / 32) /* few enough pages to copy while the writer is
                                                   blocked */

static bool copy(pal_sql_conn *conn, int *out_copied)
{
    return sqlite3_wal_checkpoint_v2(conn->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, out_copied) ==
            SQLITE_OK;
}

/* Returns false if continuing gains nothing, for example because another process copies or a reader
 * still needs the old pages. */
static bool copy_bulk(pal_sqlite *self)
{
    pal_wal_keeper *keeper = &self->keeper;
    int copied = 0, before = -1;

    for (int pass = 0; pass < BULK_PASSES_MAX; pass++) {
        if (!copy(&keeper->conn, &copied) || copied <= before)
            return false;
        if (atomic_load(&keeper->pages) - copied <= HELD_PAGES_MAX)
            return true;
        before = copied;
    }
    return true;
}

static void shorten(pal_sqlite *self)
{
    pal_wal_keeper *keeper = &self->keeper;
    int copied;

    if (!keeper->conn.db && pal_sqlite_connect_writer(self, NULL, &keeper->conn, NULL) != PAL_OK) {
        pal_sql_close(&keeper->conn);
        return;
    }
    if (!copy_bulk(self))
        return;
    pthread_mutex_lock(&self->writer_lock);
    copy(&keeper->conn, &copied);
    pthread_mutex_unlock(&self->writer_lock);
}

static void *keep(void *user)
{
    pal_sqlite *self = user;
    pal_wal_keeper *keeper = &self->keeper;

    pthread_mutex_lock(&keeper->lock);
    while (!keeper->is_closing) {
        if (keeper->is_wanted) {
            pthread_mutex_unlock(&keeper->lock);
            shorten(self);
            pthread_mutex_lock(&keeper->lock);
            keeper->is_wanted = false;
        } else {
            pthread_cond_wait(&keeper->changed, &keeper->lock);
        }
    }
    pthread_mutex_unlock(&keeper->lock);
    return NULL;
}

/* Without a thread the commit copies the WAL, as SQLite does by default. */
static int committed(void *user, sqlite3 *db, const char *name, int pages)
{
    pal_sqlite *self = user;
    pal_wal_keeper *keeper = &self->keeper;

    atomic_store(&keeper->pages, pages);
    if (pages < PAL_WAL_PAGES_MAX)
        return SQLITE_OK;
    pthread_mutex_lock(&keeper->lock);
    if (!keeper->is_started)
        keeper->is_started = pthread_create(&keeper->thread, NULL, keep, self) == 0;
    keeper->is_wanted = keeper->is_started;
    pthread_cond_signal(&keeper->changed);
    pthread_mutex_unlock(&keeper->lock);
    if (!keeper->is_started)
        sqlite3_wal_checkpoint_v2(db, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    return SQLITE_OK;
}

void pal_wal_keeper_init(pal_sqlite *self)
{
    pthread_mutex_init(&self->keeper.lock, NULL);
    pthread_cond_init(&self->keeper.changed, NULL);
}

void pal_wal_keeper_watch(pal_sqlite *self)
{
    sqlite3_wal_hook(self->writer.db, committed, self);
}

void pal_wal_keeper_done(pal_sqlite *self)
{
    pal_wal_keeper *keeper = &self->keeper;

    if (keeper->is_started) {
        pthread_mutex_lock(&keeper->lock);
        keeper->is_closing = true;
        pthread_cond_signal(&keeper->changed);
        pthread_mutex_unlock(&keeper->lock);
        pthread_join(keeper->thread, NULL);
    }
    pal_sql_close(&keeper->conn);
    pthread_cond_destroy(&keeper->changed);
    pthread_mutex_destroy(&keeper->lock);
}
