/* sqlite_file.h - a store in a SQLite file of its own, and that file seen from outside, by a
 * connection of our own. Needs scratch.c. */
#ifndef PAL_TESTS_SQLITE_FILE_H
#define PAL_TESTS_SQLITE_FILE_H

#include <sqlite3.h>
#include <stdio.h>
#include "palaver/palaver.h"
#include "support/scratch.h"
#include "support/tap.h"

static char directory[SCRATCH_PATH_MAX];
static char path[512], url[520];
static pal_store *store;
static pal_arena *arena;
static pal_error err;

static inline void file_begin(void)
{
    scratch_make(false, directory);
    snprintf(path, sizeof path, "%s/x.db", directory);
    snprintf(url, sizeof url, "sqlite:%s", path);
    arena = pal_arena_new(0);
}

static inline int file_done(void)
{
    pal_arena_free(arena);
    scratch_clear(directory, true);
    return tap_done();
}

/* Removes the file, for the next test. */
static inline void file_clear(void)
{
    scratch_clear(directory, false);
    pal_arena_reset(arena);
}

static inline bool fine(pal_status status)
{
    if (status != PAL_OK)
        printf("# %s: %s\n", pal_status_name(status), err.message);
    return status == PAL_OK;
}

static inline void open_store(bool read_only)
{
    pal_store_options options = {.read_only = read_only};

    CHECK(fine(pal_store_open(url, &options, &store, &err)));
}

static inline void close_store(void)
{
    pal_store_close(store);
    store = NULL;
}

/* Whether all statements ran. */
static inline bool run(const char *text)
{
    sqlite3 *db = NULL;
    char *message = NULL;
    bool done;

    sqlite3_open(path, &db);
    sqlite3_busy_timeout(db, 5000);
    done = sqlite3_exec(db, text, NULL, NULL, &message) == SQLITE_OK;
    if (!done)
        printf("# %s\n", message ? message : "?");
    sqlite3_free(message);
    sqlite3_close(db);
    return done;
}

/* The number that a statement gives, 0 where it gives none, -1 where it fails. */
static inline long ask(const char *text)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    long number = -1;

    sqlite3_open(path, &db);
    sqlite3_busy_timeout(db, 5000);
    if (sqlite3_prepare_v2(db, text, -1, &stmt, NULL) == SQLITE_OK) {
        int code = sqlite3_step(stmt);

        number = code == SQLITE_ROW   ? (long)sqlite3_column_int64(stmt, 0)
                : code == SQLITE_DONE ? 0
                                      : -1;
    }
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return number;
}

#endif
