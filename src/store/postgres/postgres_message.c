/* postgres_message.c - reads messages, blobs, records and sums of the ledger. */
#include <string.h>

#include "base/memory.h"
#include "store/postgres/postgres.h"

enum { SCAN_ROWS_FIRST = 64, SCAN_ROWS_MAX = 1024 };

void pal_postgres_row_read(const PGresult *result, int row, pal_row *out_row)
{
    *out_row = (pal_row){.seq = (uint64_t)pal_postgres_int(result, row, 0),
            .id = pal_postgres_id(result, row, 1),
            .role = (pal_role)pal_postgres_int(result, row, 2),
            .flags = (uint32_t)pal_postgres_int(result, row, 3),
            .tokens = (uint32_t)pal_postgres_int(result, row, 4),
            .created_at = pal_postgres_int(result, row, 5),
            .client_id = pal_postgres_str(result, row, 6),
            .is_text = pal_postgres_int(result, row, 7) != 0,
            .body = pal_postgres_str(result, row, 8),
            .turn_id = pal_postgres_id(result, row, 9)};
}

/* Fetches the rows in growing portions: the caller takes as many as it needs. Rows never change, so
 * the portions fit together. */
pal_status pal_postgres_row_scan(
        pal_engine *engine, const pal_row_scan *scan, pal_row_sink sink, void *user, pal_error *err)
{
    pal_row_scan rest = *scan;
    bool is_wanted = pal_postgres_ahead_rows(&rest, sink, user);
    uint64_t first = rest.first_seq, last = rest.last_seq;
    uint64_t rows = rest.rows_hint ? rest.rows_hint : SCAN_ROWS_FIRST;

    while (is_wanted && first <= last) {
        pal_postgres_params params = {0};
        PGresult *result = NULL;
        pal_row row = {0};
        pal_status status;
        int len;

        rows = rows > SCAN_ROWS_MAX ? SCAN_ROWS_MAX : rows;
        pal_postgres_put_int(&params, pal_postgres_tenant(scan->handle.tenant));
        pal_postgres_put_id(&params, scan->handle.id);
        pal_postgres_put_int(&params, first > INT64_MAX ? INT64_MAX : (int64_t)first);
        pal_postgres_put_int(&params, last > INT64_MAX ? INT64_MAX : (int64_t)last);
        pal_postgres_put_int(&params, (int64_t)rows);
        status = pal_postgres_read((pal_postgres *)engine,
                scan->descending ? PAL_POSTGRES_MESSAGE_DOWN : PAL_POSTGRES_MESSAGE_UP, &params,
                &result, err);
        if (status != PAL_OK)
            return status;
        len = PQntuples(result);
        for (int i = 0; is_wanted && i < len; i++) {
            pal_postgres_row_read(result, i, &row);
            is_wanted = sink(&row, user);
        }
        if ((uint64_t)len < rows)
            is_wanted = false;
        else if (scan->descending)
            last = row.seq - 1;
        else
            first = row.seq + 1;
        rows *= 4;
        PQclear(result);
    }
    return PAL_OK;
}

pal_status pal_postgres_row_find(pal_engine *engine, const pal_row_key *key, pal_arena *arena,
        pal_row *out_row, pal_id *out_session, pal_error *err)
{
    bool by_id = key->client_id.len == 0;
    pal_postgres_params params = {0};
    PGresult *result = NULL;
    pal_row row;
    bool found = true;
    pal_status status = PAL_OK;

    if (by_id)
        status = pal_postgres_tenant_find((pal_postgres *)engine, key->tenant, &found, err);
    if (status != PAL_OK || !found)
        return status != PAL_OK ? status : PAL_NOT_FOUND;
    pal_postgres_put_int(&params, pal_postgres_tenant(by_id ? key->tenant : key->handle.tenant));
    pal_postgres_put_id(&params, by_id ? key->id : key->handle.id);
    if (!by_id)
        pal_postgres_put_text(&params, key->client_id);
    status = pal_postgres_read((pal_postgres *)engine,
            by_id ? PAL_POSTGRES_MESSAGE_BY_ID : PAL_POSTGRES_MESSAGE_BY_CLIENT, &params, &result,
            err);
    if (status == PAL_OK && PQntuples(result) == 0)
        status = PAL_NOT_FOUND;
    if (status == PAL_OK) {
        pal_postgres_row_read(result, 0, &row);
        row.client_id = pal_arena_copy(arena, row.client_id);
        row.body = pal_arena_copy(arena, row.body);
        status = pal_arena_checked(arena, err);
    }
    if (status == PAL_OK) {
        *out_row = row;
        if (by_id)
            *out_session = pal_postgres_id(result, 0, 10);
    }
    PQclear(result);
    return status;
}

/* ---- Blobs ---- */

static pal_status copy_blob(
        const PGresult *result, pal_arena *arena, pal_blob_row *out_blob, pal_error *err)
{
    char *data = pal_arena_alloc(arena, out_blob->bytes + 1);
    size_t at = 0;

    out_blob->media_type = pal_postgres_str_copy(result, 0, 1, arena);
    for (int i = 0; data && i < PQntuples(result); i++) {
        pal_str part = pal_postgres_str(result, i, 2);

        if (part.len > out_blob->bytes - at)
            break;
        if (part.len > 0)
            memcpy(data + at, part.data, part.len);
        at += part.len;
    }
    if (data && at != out_blob->bytes)
        return pal_error_set(err, PAL_CORRUPT, "a blob of %llu bytes has %zu",
                (unsigned long long)out_blob->bytes, at);
    out_blob->data = pal_str_make(data, at);
    return pal_arena_checked(arena, err);
}

pal_status pal_postgres_blob_get(pal_engine *engine, pal_str tenant, const uint8_t hash[32],
        pal_arena *arena, pal_blob_row *out_blob, pal_error *err)
{
    pal_postgres_params params = {0};
    PGresult *result = NULL;
    pal_blob_row blob = {0};
    bool found;
    pal_status status = pal_postgres_tenant_find((pal_postgres *)engine, tenant, &found, err);

    if (status != PAL_OK || !found)
        return status != PAL_OK ? status : PAL_NOT_FOUND;
    pal_postgres_put_int(&params, pal_postgres_tenant(tenant));
    pal_postgres_put_bytes(&params, pal_str_make((const char *)hash, 32));
    status = pal_postgres_read((pal_postgres *)engine,
            arena ? PAL_POSTGRES_BLOB_GET : PAL_POSTGRES_BLOB_SIZE, &params, &result, err);
    if (status == PAL_OK && PQntuples(result) == 0)
        status = PAL_NOT_FOUND;
    if (status == PAL_OK) {
        blob.bytes = (uint64_t)pal_postgres_int(result, 0, 0);
        if (arena)
            status = copy_blob(result, arena, &blob, err);
    }
    PQclear(result);
    if (status == PAL_OK)
        *out_blob = blob;
    return status;
}

/* ---- Records ---- */

static pal_postgres_sql record_statement(const pal_record_scan *scan)
{
    if (scan->name.len > 0)
        return PAL_POSTGRES_RECORD_FIND;
    if (!pal_handle_is_none(scan->handle))
        return scan->descending ? PAL_POSTGRES_RECORD_SESSION_DOWN : PAL_POSTGRES_RECORD_SESSION_UP;
    return scan->descending ? PAL_POSTGRES_RECORD_DOWN : PAL_POSTGRES_RECORD_UP;
}

void pal_postgres_record_read(
        const PGresult *result, int row, pal_arena *arena, pal_record *out_record)
{
    *out_record = (pal_record){.kind = pal_postgres_str_copy(result, row, 0, arena),
            .name = pal_postgres_str_copy(result, row, 1, arena),
            .session = pal_postgres_id(result, row, 2),
            .body = pal_postgres_str_copy(result, row, 3, arena),
            .version = (uint64_t)pal_postgres_int(result, row, 4),
            .created_at = pal_postgres_int(result, row, 5),
            .updated_at = pal_postgres_int(result, row, 6),
            .expires_at = pal_postgres_int(result, row, 7)};
}

pal_status pal_postgres_record_list(pal_engine *engine, const pal_record_scan *scan,
        pal_arena *arena, pal_record *out_records, size_t *out_len, pal_error *err)
{
    pal_postgres_sql sql = record_statement(scan);
    pal_postgres_params params = {0};
    PGresult *result = NULL;
    bool found;
    pal_status status = pal_postgres_tenant_find((pal_postgres *)engine, scan->tenant, &found, err);

    if (status == PAL_OK)
        *out_len = 0;
    if (status != PAL_OK || !found)
        return status;
    pal_postgres_put_int(&params, pal_postgres_tenant(scan->tenant));
    pal_postgres_put_bytes(&params, scan->kind);
    pal_postgres_put_text(&params, scan->name.len > 0 ? scan->name : scan->after);
    pal_postgres_put_int(&params, scan->now_ms);
    if (sql != PAL_POSTGRES_RECORD_FIND)
        pal_postgres_put_int(&params, (int64_t)scan->records_max);
    if (sql == PAL_POSTGRES_RECORD_SESSION_UP || sql == PAL_POSTGRES_RECORD_SESSION_DOWN)
        pal_postgres_put_id(&params, scan->handle.id);
    status = pal_postgres_read((pal_postgres *)engine, sql, &params, &result, err);
    for (int i = 0; status == PAL_OK && i < PQntuples(result); i++)
        pal_postgres_record_read(result, i, arena, &out_records[i]);
    if (status == PAL_OK)
        status = pal_arena_checked(arena, err);
    if (status == PAL_OK)
        *out_len = (size_t)PQntuples(result);
    PQclear(result);
    return status;
}

/* ---- Ledger ---- */

/* The hours that are completely inside the period, and the rest of the period before and after. */
static void put_hours(pal_postgres_params *params, const pal_ledger_query *query)
{
    int64_t first = query->from / PAL_LEDGER_HOUR_MS + (query->from % PAL_LEDGER_HOUR_MS != 0);
    int64_t last = query->to / PAL_LEDGER_HOUR_MS;
    bool has_hours = first < last;

    pal_postgres_put_int(params, first);
    pal_postgres_put_int(params, last);
    pal_postgres_put_int(params, query->from);
    pal_postgres_put_int(params, has_hours ? first * PAL_LEDGER_HOUR_MS : query->to);
    pal_postgres_put_int(params, has_hours ? last * PAL_LEDGER_HOUR_MS : query->to);
    pal_postgres_put_int(params, query->to);
}

pal_status pal_postgres_ledger_sum(pal_engine *engine, const pal_ledger_query *query,
        pal_handle handle, pal_ledger_sum *out_sum, pal_error *err)
{
    pal_postgres_sql sql = query->turn_id.len > 0 ? PAL_POSTGRES_LEDGER_SUM_TURN
            : !pal_handle_is_none(handle)         ? PAL_POSTGRES_LEDGER_SUM_SESSION
                                                  : PAL_POSTGRES_LEDGER_SUM;
    pal_postgres_params params = {0};
    PGresult *result = NULL;
    bool found;
    pal_status status =
            pal_postgres_tenant_find((pal_postgres *)engine, query->tenant, &found, err);

    if (status == PAL_OK && !found)
        *out_sum = (pal_ledger_sum){0};
    if (status != PAL_OK || !found)
        return status;
    pal_postgres_put_int(&params, pal_postgres_tenant(query->tenant));
    pal_postgres_put_bytes(&params, query->agent);
    if (sql == PAL_POSTGRES_LEDGER_SUM) {
        put_hours(&params, query);
    } else {
        pal_postgres_put_int(&params, query->from);
        pal_postgres_put_int(&params, query->to);
        pal_postgres_put_text(&params, query->turn_id);
        pal_postgres_put_id(&params, handle.id);
    }
    status = pal_postgres_read((pal_postgres *)engine, sql, &params, &result, err);
    if (status == PAL_OK) {
        pal_ledger_sum sum = {.calls = (uint64_t)pal_postgres_int(result, 0, 0),
                .cost_micros = pal_postgres_int(result, 0, 6)};

        sum.usage.input = (uint64_t)pal_postgres_int(result, 0, 1);
        sum.usage.cache_read = (uint64_t)pal_postgres_int(result, 0, 2);
        sum.usage.cache_write = (uint64_t)pal_postgres_int(result, 0, 3);
        sum.usage.output = (uint64_t)pal_postgres_int(result, 0, 4);
        sum.usage.reasoning = (uint64_t)pal_postgres_int(result, 0, 5);
        *out_sum = sum;
    }
    PQclear(result);
    return status;
}

/* The texts are borrowed from the result. */
void pal_postgres_ledger_read(const PGresult *result, int line, pal_ledger_row *out_row)
{
    *out_row = (pal_ledger_row){.created_at = pal_postgres_int(result, line, 2),
            .cost_micros = pal_postgres_int(result, line, 8),
            .agent = pal_postgres_str(result, line, 9),
            .request_id = pal_postgres_str(result, line, 10),
            .turn_id = pal_postgres_str(result, line, 11),
            .purpose = pal_postgres_str(result, line, 12),
            .provider = pal_postgres_str(result, line, 13),
            .model = pal_postgres_str(result, line, 14),
            .price_version = pal_postgres_str(result, line, 15)};
    out_row->usage.input = (uint64_t)pal_postgres_int(result, line, 3);
    out_row->usage.cache_read = (uint64_t)pal_postgres_int(result, line, 4);
    out_row->usage.cache_write = (uint64_t)pal_postgres_int(result, line, 5);
    out_row->usage.output = (uint64_t)pal_postgres_int(result, line, 6);
    out_row->usage.reasoning = (uint64_t)pal_postgres_int(result, line, 7);
}

static void read_entry(
        const PGresult *result, int line, pal_arena *arena, pal_ledger_entry *out)
{
    pal_str *texts[] = {&out->row.request_id, &out->row.turn_id, &out->row.agent,
            &out->row.purpose, &out->row.provider, &out->row.model, &out->row.price_version};

    *out = (pal_ledger_entry){.id = pal_postgres_id(result, line, 0),
            .session = pal_postgres_id(result, line, 1)};
    pal_postgres_ledger_read(result, line, &out->row);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        *texts[i] = pal_arena_copy(arena, *texts[i]);
}

pal_status pal_postgres_ledger_list(pal_engine *engine, const pal_ledger_query *query,
        pal_handle handle, const pal_ledger_place *before, pal_arena *arena,
        pal_ledger_entry *out_entries, size_t entries_max, size_t *out_len, pal_error *err)
{
    pal_postgres_sql sql = query->turn_id.len > 0 ? PAL_POSTGRES_LEDGER_LIST_TURN
            : !pal_handle_is_none(handle)         ? PAL_POSTGRES_LEDGER_LIST_SESSION
                                                  : PAL_POSTGRES_LEDGER_LIST;
    pal_postgres_params params = {0};
    PGresult *result = NULL;
    bool found;
    pal_status status =
            pal_postgres_tenant_find((pal_postgres *)engine, query->tenant, &found, err);

    if (status == PAL_OK && !found)
        *out_len = 0;
    if (status != PAL_OK || !found)
        return status;
    pal_postgres_put_int(&params, pal_postgres_tenant(query->tenant));
    pal_postgres_put_bytes(&params, query->agent);
    pal_postgres_put_int(&params, query->from);
    pal_postgres_put_int(&params, before->created_at);
    pal_postgres_put_bytes(
            &params, pal_str_make((const char *)before->id.bytes, sizeof(before->id.bytes)));
    pal_postgres_put_int(&params, (int64_t)entries_max);
    if (sql != PAL_POSTGRES_LEDGER_LIST) {
        pal_postgres_put_id(&params, handle.id);
        pal_postgres_put_text(&params, query->turn_id);
    }
    status = pal_postgres_read((pal_postgres *)engine, sql, &params, &result, err);
    for (int i = 0; status == PAL_OK && i < PQntuples(result); i++)
        read_entry(result, i, arena, &out_entries[i]);
    if (status == PAL_OK)
        status = pal_arena_checked(arena, err);
    if (status == PAL_OK)
        *out_len = (size_t)PQntuples(result);
    PQclear(result);
    return status;
}

/* ---- Statistics ---- */

pal_status pal_postgres_stat(pal_engine *engine, pal_store_stats *out_stats, pal_error *err)
{
    pal_postgres_params params = {0};
    PGresult *result = NULL;
    pal_status status =
            pal_postgres_read((pal_postgres *)engine, PAL_POSTGRES_STAT, &params, &result, err);

    if (status == PAL_OK)
        *out_stats = (pal_store_stats){
                .sessions_active = (uint64_t)pal_postgres_int(result, 0, 0),
                .sessions_trash = (uint64_t)pal_postgres_int(result, 0, 1),
                .sessions_quarantined = (uint64_t)pal_postgres_int(result, 0, 2),
                .messages = (uint64_t)pal_postgres_int(result, 0, 3),
                .content_bytes = (uint64_t)pal_postgres_int(result, 0, 4),
                .blobs = (uint64_t)pal_postgres_int(result, 0, 5),
                .blob_bytes = (uint64_t)pal_postgres_int(result, 0, 6),
                .tenants = (uint64_t)pal_postgres_int(result, 0, 7),
                .disk_bytes = (uint64_t)pal_postgres_int(result, 0, 8),
                .is_estimated = (uint64_t)pal_postgres_int(result, 0, 9)};
    PQclear(result);
    return status;
}

pal_status pal_postgres_ready(pal_engine *engine, pal_error *err)
{
    pal_postgres *store = (pal_postgres *)engine;

    if (!store->options.read_only && atomic_load(&store->is_lost))
        return pal_error_set(err, PAL_IO, "%s: the writer has no connection", store->place);
    return pal_postgres_probe(store, err);
}
