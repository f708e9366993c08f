/* check_data.c - the part of fsck that looks at rows of no session, blobs, and the sums of
 * the ledger. */
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/memory.h"
#include "store/postgres/check/check_postgres.h"

enum {
    STRAYS_PAGE = 256,
    BLOBS_PAGE = 256,
    PARTS_PAGE = 1000,
    LEDGER_HOURS = 31 * 24, /* hours whose sums one statement compares */
};

/* ---- Rows of no session ---- */

typedef struct stray_table {
    pal_postgres_sql sql;
    const char *rows;
    pal_postgres_sql repair; /* removes the rows */
    bool has_repair;
} stray_table;

static bool drop_strays(pal_postgres_check_state *check, const stray_table *table, int64_t tenant,
        pal_id session)
{
    pal_postgres_params params = {0};

    if (!table->has_repair)
        return false;
    if (table->repair == PAL_POSTGRES_ALIAS_CLEAR) {
        pal_postgres_add_int(pal_postgres_put_array(&params, PAL_POSTGRES_INT8), tenant);
        pal_postgres_add_id(pal_postgres_put_array(&params, PAL_POSTGRES_UUID), session);
    } else {
        pal_postgres_put_int(&params, tenant);
        pal_postgres_put_id(&params, session);
    }
    return pal_postgres_check_repair(check, table->repair, &params);
}

static pal_status check_table(
        pal_postgres_check_state *check, const stray_table *table, pal_error *err)
{
    char last[16] = {0};
    int64_t tenant = INT64_MIN;
    int len = STRAYS_PAGE;

    while (len == STRAYS_PAGE) {
        pal_postgres_params params = {0};
        PGresult *page = NULL;
        pal_status status;

        pal_postgres_put_int(&params, tenant);
        pal_postgres_put_bytes(&params, pal_str_make(last, sizeof last));
        pal_postgres_put_int(&params, STRAYS_PAGE);
        status = pal_postgres_read(check->store, table->sql, &params, &page, err);
        if (status != PAL_OK)
            return status;
        len = PQntuples(page);
        for (int i = 0; i < len; i++) {
            pal_id session = pal_postgres_id(page, i, 1);
            char text[80];

            tenant = pal_postgres_int(page, i, 0);
            memcpy(last, session.bytes, sizeof last);
            if (pal_postgres_int(page, i, 2) != 0)
                continue;
            snprintf(text, sizeof text, "does not exist, but has %s", table->rows);
            pal_postgres_check_report(
                    check, session, drop_strays(check, table, tenant, session), text);
        }
        PQclear(page);
    }
    return PAL_OK;
}

/* Records and aliases of a session should have been removed with it. */
pal_status pal_postgres_check_strays(pal_postgres_check_state *check, pal_error *err)
{
    static const stray_table tables[] = {
            {PAL_POSTGRES_CHECK_STRAY_HEAD, "a state", 0, false},
            {PAL_POSTGRES_CHECK_STRAY_MESSAGE, "messages", 0, false},
            {PAL_POSTGRES_CHECK_STRAY_MARK, "marks", 0, false},
            {PAL_POSTGRES_CHECK_STRAY_INBOX, "waiting messages", 0, false},
            {PAL_POSTGRES_CHECK_STRAY_BLOB_REF, "references to blobs", 0, false},
            {PAL_POSTGRES_CHECK_STRAY_ALIAS, "aliases", PAL_POSTGRES_ALIAS_CLEAR, true},
            {PAL_POSTGRES_CHECK_STRAY_RECORD, "records", PAL_POSTGRES_RECORD_CLEAR, true},
    };
    pal_status status = PAL_OK;

    for (size_t i = 0; status == PAL_OK && i < sizeof tables / sizeof tables[0]; i++)
        status = check_table(check, &tables[i], err);
    return status;
}

/* ---- Blobs ---- */

static void report_blob(pal_postgres_check_state *check, pal_str hash, const char *what)
{
    char name[PAL_SHA256_SIZE * 2 + 1], text[PAL_ERROR_MESSAGE_MAX];

    pal_hex((const uint8_t *)hash.data, hash.len < PAL_SHA256_SIZE ? hash.len : PAL_SHA256_SIZE,
            name);
    snprintf(text, sizeof text, "blob 'sha256:%s' %s", name, what);
    pal_postgres_check_report(check, (pal_id){{0}}, false, text);
}

static pal_status check_blob(
        pal_postgres_check_state *check, pal_str tenant, pal_str hash, pal_error *err)
{
    uint8_t digest[PAL_SHA256_SIZE];
    pal_arena *arena = pal_arena_new(0);
    pal_blob_row blob = {0};
    pal_error why = {0};
    pal_status status;

    if (!arena)
        return pal_no_memory(err);
    status = hash.len == PAL_SHA256_SIZE
            ? pal_postgres_blob_get(&check->store->base, tenant, (const uint8_t *)hash.data, arena,
                      &blob, &why)
            : PAL_CORRUPT;
    if (status == PAL_OK && pal_sha256(blob.data, digest) == PAL_OK &&
            memcmp(digest, hash.data, sizeof digest) != 0)
        status = PAL_CORRUPT;
    pal_arena_free(arena);
    if (status == PAL_CORRUPT)
        report_blob(check, hash, "is damaged");
    else if (status != PAL_OK && status != PAL_NOT_FOUND) /* not found: removed meanwhile */
        return pal_error_set(err, status, "%s", why.message);
    return PAL_OK;
}

static pal_status check_contents(pal_postgres_check_state *check, pal_error *err)
{
    char last[PAL_SHA256_SIZE];
    int64_t tenant = INT64_MIN;
    pal_status status = PAL_OK;
    size_t last_len = 0;
    int len = BLOBS_PAGE;

    while (status == PAL_OK && len == BLOBS_PAGE) {
        pal_postgres_params params = {0};
        PGresult *page = NULL;

        pal_postgres_put_int(&params, tenant);
        pal_postgres_put_bytes(&params, pal_str_make(last, last_len));
        pal_postgres_put_int(&params, BLOBS_PAGE);
        status = pal_postgres_read(check->store, PAL_POSTGRES_CHECK_BLOBS, &params, &page, err);
        if (status != PAL_OK)
            return status;
        len = PQntuples(page);
        for (int i = 0; status == PAL_OK && i < len; i++) {
            pal_str hash = pal_postgres_str(page, i, 1);

            tenant = pal_postgres_int(page, i, 0);
            last_len = hash.len < sizeof last ? hash.len : sizeof last;
            memcpy(last, hash.data, last_len);
            status = check_blob(check, pal_postgres_str(page, i, 2), hash, err);
        }
        PQclear(page);
    }
    return status;
}

/* Puts the key of the last line, or what is before all keys. */
static void put_after(pal_postgres_params *params, const PGresult *page, bool has_session)
{
    static const char none[16];
    int line = page ? PQntuples(page) - 1 : -1;
    bool has_line = line >= 0;

    pal_postgres_put_int(params, has_line ? pal_postgres_int(page, line, 0) : INT64_MIN);
    pal_postgres_put_bytes(
            params, has_line ? pal_postgres_str(page, line, 1) : pal_str_make(none, 0));
    if (has_session)
        pal_postgres_put_bytes(params,
                has_line ? pal_postgres_str(page, line, 2) : pal_str_make(none, sizeof none));
    pal_postgres_put_int(
            params, has_line ? pal_postgres_int(page, line, has_session ? 3 : 2) : -1);
    pal_postgres_put_int(params, PARTS_PAGE);
}

/* Parts belong to a blob, and references to a blob and a message. */
static pal_status check_links(
        pal_postgres_check_state *check, pal_postgres_sql sql, bool has_session, pal_error *err)
{
    PGresult *page = NULL, *before;
    pal_status status = PAL_OK;
    bool is_reported = false;

    do {
        pal_postgres_params params = {0};

        before = page;
        page = NULL;
        put_after(&params, before, has_session);
        PQclear(before);
        status = pal_postgres_read(check->store, sql, &params, &page, err);
        for (int i = 0; status == PAL_OK && i < PQntuples(page); i++) {
            pal_str hash = pal_postgres_str(page, i, 1);
            bool has_blob = pal_postgres_int(page, i, has_session ? 4 : 3) != 0;

            if (!has_session) {
                if (!has_blob && !is_reported)
                    report_blob(check, hash, "does not exist, but has data");
                is_reported = !has_blob;
            } else if (!has_blob) {
                report_blob(check, hash, "is missing, and a message refers to it");
            } else if (pal_postgres_int(page, i, 5) == 0) {
                report_blob(check, hash, "is kept for a message that does not exist");
            }
        }
    } while (status == PAL_OK && PQntuples(page) == PARTS_PAGE);
    PQclear(page);
    return status;
}

pal_status pal_postgres_check_blobs(pal_postgres_check_state *check, pal_error *err)
{
    pal_status status = check_contents(check, err);

    if (status == PAL_OK)
        status = check_links(check, PAL_POSTGRES_CHECK_BLOB_PARTS, false, err);
    return status == PAL_OK ? check_links(check, PAL_POSTGRES_CHECK_BLOB_REFS, true, err) : status;
}

/* ---- The ledger ---- */

static void put_hours(pal_postgres_params *params, int64_t tenant, int64_t from, int64_t to)
{
    pal_postgres_put_int(params, tenant);
    pal_postgres_put_int(params, from);
    pal_postgres_put_int(params, to);
}

/* Adds the difference as the sums of slot 0, which no process has. So processes can add to their
 * own sums meanwhile. */
static bool correct_hours(
        pal_postgres_check_state *check, int64_t tenant, int64_t from, int64_t to)
{
    pal_postgres_params params = {0};

    put_hours(&params, tenant, from, to);
    return pal_postgres_check_repair(check, PAL_POSTGRES_CHECK_LEDGER_FIX, &params);
}

static pal_status check_hours(pal_postgres_check_state *check, int64_t tenant, pal_str name,
        int64_t from, int64_t to, pal_error *err)
{
    char text[PAL_ERROR_MESSAGE_MAX];
    pal_postgres_params params = {0};
    PGresult *result = NULL;
    pal_status status;

    put_hours(&params, tenant, from, to);
    pal_postgres_put_int(&params, 1);
    status = pal_postgres_read(
            check->store, PAL_POSTGRES_CHECK_LEDGER, &params, &result, err);
    if (status == PAL_OK && PQntuples(result) > 0) {
        snprintf(text, sizeof text, "the sums of the ledger of tenant '%.*s' were wrong",
                PAL_EXCERPT(name, 80));
        pal_postgres_check_report(
                check, (pal_id){{0}}, correct_hours(check, tenant, from, to), text);
    }
    PQclear(result);
    return status;
}

pal_status pal_postgres_check_ledger(
        pal_postgres_check_state *check, int64_t tenant, pal_str name, pal_error *err)
{
    pal_postgres_params params = {0};
    PGresult *result = NULL;
    int64_t hour, last;
    pal_status status;

    pal_postgres_put_int(&params, tenant);
    status = pal_postgres_read(
            check->store, PAL_POSTGRES_CHECK_LEDGER_SPAN, &params, &result, err);
    if (status != PAL_OK)
        return status;
    hour = pal_postgres_int(result, 0, 0);
    last = pal_postgres_int(result, 0, 1);
    PQclear(result);
    for (; status == PAL_OK && hour <= last; hour += LEDGER_HOURS)
        status = check_hours(check, tenant, name, hour, hour + LEDGER_HOURS, err);
    return status;
}
