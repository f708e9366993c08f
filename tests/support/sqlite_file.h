/* sqlite_file.h - a store in a separate SQLite file, and access to that file through a separate
 * connection. Link with scratch.c. */
#ifndef PAL_TESTS_SQLITE_FILE_H
#define PAL_TESTS_SQLITE_FILE_H

#include <sqlite3.h>
#include <stdio.h>
#include "palaver/palaver.h"
#include "support/scratch.h"
#include "support/tap.h"

typedef struct fixture {
    char directory[SCRATCH_PATH_MAX];
    char path[512], url[520]; /* path and URL of the file */
    pal_store *store;
    pal_arena *arena;
    pal_error err;
} fixture;

static fixture test;

static inline void file_begin(void)
{
    scratch_make(false, test.directory);
    snprintf(test.path, sizeof test.path, "%s/x.db", test.directory);
    snprintf(test.url, sizeof test.url, "sqlite:%s", test.path);
    test.arena = pal_arena_new(0);
}

static inline int file_done(void)
{
    pal_arena_free(test.arena);
    scratch_clear(test.directory, true);
    return tap_done();
}

/* Removes the file before the next test. */
static inline void file_clear(void)
{
    scratch_clear(test.directory, false);
    pal_arena_reset(test.arena);
}

static inline void open_store(bool read_only)
{
    pal_store_options options = {.read_only = read_only};

    OK(pal_store_open(test.url, &options, &test.store, &test.err));
}

static inline void close_store(void)
{
    pal_store_close(test.store);
    test.store = NULL;
}

/* Whether all statements succeeded. */
static inline bool run(const char *text)
{
    sqlite3 *db = NULL;
    char *message = NULL;
    bool done;

    sqlite3_open(test.path, &db);
    sqlite3_busy_timeout(db, 5000);
    done = sqlite3_exec(db, text, NULL, NULL, &message) == SQLITE_OK;
    if (!done)
        printf("# %s\n", message ? message : "?");
    sqlite3_free(message);
    sqlite3_close(db);
    return done;
}

/* The number that a statement returns; 0 if it returns no row, -1 if it fails. */
static inline long ask(const char *text)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    long number = -1;

    sqlite3_open(test.path, &db);
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
