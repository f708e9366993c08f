/* postgres_migrate.c - upgrades the schema to the version of this program, while other programs use
 * it.
 *
 * A release first expands the schema: new tables, columns that can be NULL, and indexes. Programs
 * of the version before can still use it. A later release contracts it, when no such program runs
 * any more; `oldest_reader` and `oldest_writer` keep older programs out then.
 *
 * A step is one transaction that also sets the version, so a crash leaves it complete or absent.
 * The row of meta is locked first, so that of two processes only one makes the step. An index is
 * built without blocking writers, which cannot be part of a transaction. So a second connection
 * holds the lock and sets the version afterwards. A crash ends both connections and leaves an
 * invalid index, which the next try drops and builds again. */
#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "store/postgres/postgres.h"

#define TRIES_MAX 300
#define PAUSE_MS 200

/* The step at [n] leads from version n + 1 to n + 2. Steps are appended and never edited. */
static const pal_postgres_step steps[] = {
#define TABLE(text) text
        {.text = PAL_POSTGRES_TABLES_2(TABLE), .oldest_reader = 1, .oldest_writer = 1},
#undef TABLE
        {0}, /* the end */
};
static_assert(sizeof steps / sizeof steps[0] == PAL_POSTGRES_VERSION,
        "the last step leads to the version of this program");

static pal_status run_text(
        pal_postgres_conn *conn, const pal_buf *text, char out_code[6], pal_error *err)
{
    char ignored[6];
    pal_status status;

    if (text->failure)
        return pal_no_memory(err);
    status = pal_postgres_exec(conn, text->data, out_code, err);
    if (status != PAL_OK && conn->pg)
        (void)!pal_postgres_exec(conn, "ROLLBACK", ignored, NULL);
    return status;
}

static pal_status run_alone(
        pal_postgres_conn *conn, const char *sql, char out_code[6], pal_error *err)
{
    pal_status status;
    pal_buf text;

    pal_buf_init(&text, 1u << 20);
    pal_postgres_text_put(conn->store, sql, &text);
    pal_buf_append_char(&text, 0);
    status = run_text(conn, &text, out_code, err);
    pal_buf_done(&text);
    return status;
}

/* Begins a transaction with the lock. The division fails if another process has made the step. */
static void put_begin(const pal_postgres *store, int version, const char *locks, pal_buf *text)
{
    char check[100];

    pal_postgres_text_put(store, "BEGIN; SET LOCAL lock_timeout = '2s';", text);
    pal_postgres_text_put(store, "SELECT version FROM @meta FOR UPDATE", text);
    pal_buf_append_text(text, locks);
    snprintf(check, sizeof check, "; SELECT 1 / count(*) FROM @meta WHERE version = %d;", version);
    pal_postgres_text_put(store, check, text);
}

static void put_end(
        const pal_postgres *store, const pal_postgres_step *step, int version, pal_buf *text)
{
    char numbers[200];

    snprintf(numbers, sizeof numbers,
            ";UPDATE @meta SET version = %d, oldest_reader = %d, oldest_writer = %d; COMMIT",
            version + 1, step->oldest_reader, step->oldest_writer);
    pal_postgres_text_put(store, numbers, text);
    pal_buf_append_char(text, 0);
}

static pal_status run_in_transaction(pal_postgres *store, const pal_postgres_step *step,
        int version, char out_code[6], pal_error *err)
{
    pal_status status;
    pal_buf text;

    pal_buf_init(&text, 1u << 20);
    put_begin(store, version, "", &text);
    pal_postgres_text_put(store, step->text, &text);
    put_end(store, step, version, &text);
    status = run_text(&store->writer, &text, out_code, err);
    pal_buf_done(&text);
    return status;
}

static pal_status build_index(
        pal_postgres *store, const pal_postgres_step *step, char out_code[6], pal_error *err)
{
    char drop[200];
    pal_status status;

    snprintf(drop, sizeof drop, "DROP INDEX CONCURRENTLY IF EXISTS @%s", step->index);
    status = run_alone(&store->writer, drop, out_code, err);
    return status == PAL_OK ? run_alone(&store->writer, step->text, out_code, err) : status;
}

/* The lock is tried without waiting. The building of an index waits for all earlier statements, so
 * it would wait for a statement that waits for the lock. */
static pal_status run_with_guard(pal_postgres *store, const pal_postgres_step *step, int version,
        char out_code[6], pal_error *err)
{
    pal_postgres_conn guard = {.store = store};
    pal_status status = pal_postgres_connect(&guard, NULL, err);
    pal_buf begin, end;

    pal_buf_init(&begin, 1u << 10);
    pal_buf_init(&end, 1u << 10);
    put_begin(store, version, " NOWAIT", &begin);
    pal_postgres_text_put(store, "SET LOCAL idle_in_transaction_session_timeout = 0", &begin);
    pal_buf_append_char(&begin, 0);
    put_end(store, step, version, &end);
    if (status == PAL_OK)
        status = run_text(&guard, &begin, out_code, err);
    if (status == PAL_OK)
        status = build_index(store, step, out_code, err);
    if (status == PAL_OK)
        status = run_text(&guard, &end, out_code, err);
    pal_postgres_disconnect(&guard);
    pal_buf_done(&begin);
    pal_buf_done(&end);
    return status;
}

static pal_status run_step(pal_postgres *store, const pal_postgres_step *step, int version,
        char out_code[6], pal_error *err)
{
    return step->index ? run_with_guard(store, step, version, out_code, err)
                       : run_in_transaction(store, step, version, out_code, err);
}

/* Another process made the step, or holds a lock for a while. Tables are made under the lock, so
 * one that exists already is not the work of another process. */
static bool may_retry(const pal_postgres_step *step, const char *code)
{
    return strcmp(code, "22012") == 0 || (step->index && strcmp(code, "42P07") == 0) ||
            pal_postgres_failure_of(code) == PAL_POSTGRES_RACE;
}

pal_status pal_postgres_migrate(
        pal_postgres *store, const pal_postgres_step *list, size_t len, pal_error *err)
{
    pal_store_schema schema = {0};
    int tries = 0;
    pal_status status = pal_postgres_meta_read(store, &schema, err);

    while (status == PAL_OK && schema.version <= len) {
        char code[6] = "";

        if (schema.version == 0)
            return pal_error_set(err, PAL_CORRUPT, "%s: the schema '%s' has the version 0",
                    store->place, store->schema);
        status = run_step(
                store, &list[schema.version - 1], (int)schema.version, code, err);
        if (status != PAL_OK && may_retry(&list[schema.version - 1], code) && tries++ < TRIES_MAX) {
            poll(NULL, 0, PAUSE_MS);
            status = PAL_OK;
        }
        if (status == PAL_OK)
            status = pal_postgres_meta_read(store, &schema, err);
    }
    return status;
}

pal_status pal_postgres_upgrade(pal_postgres *store, pal_error *err)
{
    return pal_postgres_migrate(store, steps, sizeof steps / sizeof steps[0] - 1, err);
}
