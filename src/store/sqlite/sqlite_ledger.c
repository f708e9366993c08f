/* sqlite_ledger.c - model calls and their costs.
 *
 * Every row is also counted in the table ledger_hour, in the same transaction: once for its tenant
 * (agent 0) and once for its agent. The sum of a period then consists of full hours and of the rows
 * before and after them, which cover less than two hours.
 *
 * Sums are limited to the largest number that SQLite can store. SQLite's sum() fails at that limit,
 * and its "+" changes to floating point, so connections have functions that do neither. */
#include "base/sum.h"
#include "store/sqlite/sqlite.h"

/* ---- Adding ---- */

/* The SQL function palaver_add(a, b). */
static void add_two(sqlite3_context *context, int values_len, sqlite3_value **values)
{
    int64_t sum = sqlite3_value_int64(values[0]);

    (void)values_len;
    pal_sum_i64(&sum, sqlite3_value_int64(values[1]));
    sqlite3_result_int64(context, sum);
}

/* The SQL aggregate palaver_sum(a). */
static void sum_step(sqlite3_context *context, int values_len, sqlite3_value **values)
{
    sqlite3_int64 *sum = sqlite3_aggregate_context(context, sizeof *sum);
    int64_t so_far;

    (void)values_len;
    if (!sum) {
        sqlite3_result_error_nomem(context);
        return;
    }
    so_far = *sum;
    pal_sum_i64(&so_far, sqlite3_value_int64(values[0]));
    *sum = so_far;
}

static void sum_end(sqlite3_context *context)
{
    const sqlite3_int64 *sum = sqlite3_aggregate_context(context, 0);

    sqlite3_result_int64(context, sum ? *sum : 0);
}

pal_status pal_sqlite_sum_prepare(pal_sql_conn *conn, pal_error *err)
{
    int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY;
    int code = sqlite3_create_function_v2(
            conn->db, "palaver_add", 2, flags, NULL, add_two, NULL, NULL, NULL);

    if (code == SQLITE_OK)
        code = sqlite3_create_function_v2(
                conn->db, "palaver_sum", 1, flags, NULL, NULL, sum_step, sum_end, NULL);
    return code == SQLITE_OK ? PAL_OK : pal_sql_failed(conn, code, err);
}

/* ---- Writing ---- */

static pal_status ledger_known(
        pal_sql_conn *conn, int64_t tenant, pal_str request_id, bool *out_known, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_LEDGER_FIND);

    pal_sql_bind_int(&sql, tenant);
    pal_sql_bind_text(&sql, request_id);
    *out_known = pal_sql_row(&sql);
    return pal_sql_end(&sql, err);
}

static pal_status insert_row(pal_sql_conn *conn, int64_t tenant, int64_t handle, int64_t agent,
        const pal_ledger_row *row, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_LEDGER_ADD);

    pal_sql_bind_int(&sql, tenant);
    pal_sql_bind_int_or_null(&sql, handle);
    pal_sql_bind_int(&sql, row->created_at);
    pal_sql_bind_usage(&sql, &row->usage);
    pal_sql_bind_int(&sql, row->cost_micros);
    pal_sql_bind_text(&sql, row->request_id);
    pal_sql_bind_text(&sql, row->turn_id);
    pal_sql_bind_text(&sql, row->purpose);
    pal_sql_bind_text(&sql, row->provider);
    pal_sql_bind_text(&sql, row->model);
    pal_sql_bind_text(&sql, row->price_version);
    pal_sql_bind_int_or_null(&sql, agent);
    return pal_sql_run(&sql, err);
}

static pal_status count_row(pal_sql_conn *conn, int64_t tenant, int64_t agent,
        const pal_ledger_row *row, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_LEDGER_HOUR_ADD);

    pal_sql_bind_int(&sql, tenant);
    pal_sql_bind_int(&sql, agent);
    pal_sql_bind_int(&sql, row->created_at / PAL_LEDGER_HOUR_MS);
    pal_sql_bind_usage(&sql, &row->usage);
    pal_sql_bind_int(&sql, row->cost_micros);
    return pal_sql_run(&sql, err);
}

pal_status pal_sqlite_ledger_insert(pal_sql_conn *conn, int64_t tenant, int64_t handle,
        const pal_ledger_row *given, int64_t now_ms, pal_error *err)
{
    pal_ledger_row row = *given;
    int64_t agent = 0;
    bool known;
    pal_status status = ledger_known(conn, tenant, row.request_id, &known, err);

    if (status != PAL_OK || known)
        return status;
    if (row.created_at == 0)
        row.created_at = now_ms;
    status = pal_sqlite_name_number(conn, row.agent, &agent, err);
    if (status != PAL_OK)
        return status;
    status = insert_row(conn, tenant, handle, agent, &row, err);
    if (status != PAL_OK)
        return status;
    status = count_row(conn, tenant, 0, &row, err);
    if (status != PAL_OK || agent == 0)
        return status;
    return count_row(conn, tenant, agent, &row, err);
}

pal_status pal_sqlite_ledger_add(pal_sql_conn *conn, pal_work *work)
{
    pal_sqlite_head head = {0};
    pal_status status;

    if (pal_id_is_none(work->op->session))
        status = pal_sqlite_tenant(conn, work->tenant, true, &head.tenant, &work->op->error);
    else
        status = pal_sqlite_head_get(conn, work, PAL_NEED_EXISTING, &head);
    if (status == PAL_OK)
        status = pal_sqlite_ledger_insert(conn, head.tenant, head.handle, work->op->u.ledger_row,
                work->now_ms, &work->op->error);
    return status;
}

/* ---- Sums ---- */

/* Returns the number of a tenant's or agent's name. Returns -1, which no row has, if there is
 * none. */
static pal_status number_of(
        pal_sql_conn *conn, pal_sql_id id, pal_str name, int64_t *out_number, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, id);

    pal_sql_bind_text(&sql, name);
    *out_number = pal_sql_row(&sql) ? pal_sql_int(&sql, 0) : -1;
    return pal_sql_end(&sql, err);
}

/* Binds the hours that are completely inside the period, and the rest of the period before and
 * after them. */
static void bind_hours(pal_sql *sql, const pal_ledger_query *query)
{
    int64_t first = query->from / PAL_LEDGER_HOUR_MS + (query->from % PAL_LEDGER_HOUR_MS != 0);
    int64_t last = query->to / PAL_LEDGER_HOUR_MS;
    bool has_hours = first < last;

    pal_sql_bind_int(sql, first);
    pal_sql_bind_int(sql, last);
    pal_sql_bind_int(sql, query->from);
    pal_sql_bind_int(sql, has_hours ? first * PAL_LEDGER_HOUR_MS : query->to);
    pal_sql_bind_int(sql, has_hours ? last * PAL_LEDGER_HOUR_MS : query->to);
    pal_sql_bind_int(sql, query->to);
}

static pal_sql start_sum(pal_sqlite *self, pal_sql_conn *conn, const pal_ledger_query *query,
        pal_handle handle, int64_t tenant, int64_t agent)
{
    pal_sql_id id = !self->has_records    ? PAL_SQL_LEDGER_SUM_OLD
            : query->turn_id.len > 0      ? PAL_SQL_LEDGER_SUM_TURN
            : !pal_handle_is_none(handle) ? PAL_SQL_LEDGER_SUM_SESSION
                                          : PAL_SQL_LEDGER_SUM;
    pal_sql sql = pal_sql_start(conn, id);

    pal_sql_bind_int(&sql, tenant);
    pal_sql_bind_int(&sql, agent);
    if (id == PAL_SQL_LEDGER_SUM) {
        bind_hours(&sql, query);
        return sql;
    }
    pal_sql_bind_int(&sql, query->from);
    pal_sql_bind_int(&sql, query->to);
    pal_sql_bind_text(&sql, query->turn_id);
    pal_sql_bind_int(&sql, (int64_t)handle.number);
    return sql;
}

static pal_status sum_rows(pal_sqlite *self, pal_sql_conn *conn, const pal_ledger_query *query,
        pal_handle handle, pal_ledger_sum *out_sum, pal_error *err)
{
    int64_t tenant = 0, agent = 0;
    pal_sql sql;
    pal_status status = number_of(conn, PAL_SQL_TENANT_FIND, query->tenant, &tenant, err);

    if (status == PAL_OK && query->agent.len > 0)
        status = number_of(conn, PAL_SQL_NAME_FIND, query->agent, &agent, err);
    if (status != PAL_OK)
        return status;
    sql = start_sum(self, conn, query, handle, tenant, agent);
    if (pal_sql_row(&sql)) {
        out_sum->calls = (uint64_t)pal_sql_int(&sql, 0);
        out_sum->usage.input = (uint64_t)pal_sql_int(&sql, 1);
        out_sum->usage.cache_read = (uint64_t)pal_sql_int(&sql, 2);
        out_sum->usage.cache_write = (uint64_t)pal_sql_int(&sql, 3);
        out_sum->usage.output = (uint64_t)pal_sql_int(&sql, 4);
        out_sum->usage.reasoning = (uint64_t)pal_sql_int(&sql, 5);
        out_sum->cost_micros = pal_sql_int(&sql, 6);
    }
    return pal_sql_end(&sql, err);
}

pal_status pal_sqlite_ledger_sum(pal_engine *engine, const pal_ledger_query *query,
        pal_handle handle, pal_ledger_sum *out_sum, pal_error *err)
{
    pal_sqlite *self = (pal_sqlite *)engine;
    pal_ledger_sum sum = {0};
    pal_sql_conn *conn;
    pal_status status = pal_sqlite_reader_take(self, PAL_READ_LONG, &conn, err);

    if (status != PAL_OK)
        return status;
    status = sum_rows(self, conn, query, handle, &sum, err);
    pal_sqlite_reader_give(self, conn);
    if (status == PAL_OK)
        *out_sum = sum;
    return status;
}

/* ---- Lists ---- */

void pal_sqlite_ledger_read(pal_sql *sql, int first, pal_ledger_row *out_row)
{
    *out_row = (pal_ledger_row){.created_at = pal_sql_int(sql, first),
            .cost_micros = pal_sql_int(sql, first + 6),
            .request_id = pal_sql_text(sql, first + 7),
            .turn_id = pal_sql_text(sql, first + 8),
            .purpose = pal_sql_text(sql, first + 9),
            .provider = pal_sql_text(sql, first + 10),
            .model = pal_sql_text(sql, first + 11),
            .price_version = pal_sql_text(sql, first + 12),
            .agent = pal_sql_text(sql, first + 13)};
    out_row->usage.input = (uint64_t)pal_sql_int(sql, first + 1);
    out_row->usage.cache_read = (uint64_t)pal_sql_int(sql, first + 2);
    out_row->usage.cache_write = (uint64_t)pal_sql_int(sql, first + 3);
    out_row->usage.output = (uint64_t)pal_sql_int(sql, first + 4);
    out_row->usage.reasoning = (uint64_t)pal_sql_int(sql, first + 5);
}

/* The number of a row is the second half of its id. */
static int64_t row_of(pal_id id)
{
    uint64_t number = 0;

    for (size_t i = 8; i < sizeof id.bytes; i++)
        number = number << 8 | id.bytes[i];
    return (int64_t)number;
}

static pal_id id_of(int64_t row)
{
    pal_id id = {{0}};
    uint64_t number = (uint64_t)row;

    for (size_t i = sizeof id.bytes; i > 8; i--, number >>= 8)
        id.bytes[i - 1] = (uint8_t)number;
    return id;
}

static void read_entry(pal_sql *sql, pal_arena *arena, pal_ledger_entry *out)
{
    pal_str *texts[] = {&out->row.request_id, &out->row.turn_id, &out->row.purpose,
            &out->row.provider, &out->row.model, &out->row.price_version, &out->row.agent};

    *out = (pal_ledger_entry){.id = id_of(pal_sql_int(sql, 0)), .session = pal_sql_uuid(sql, 1)};
    pal_sqlite_ledger_read(sql, 2, &out->row);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        *texts[i] = pal_arena_copy(arena, *texts[i]);
}

static pal_status list_rows(pal_sql_conn *conn, const pal_ledger_query *query, pal_handle handle,
        const pal_ledger_place *before, pal_arena *arena, pal_ledger_entry *out_entries,
        size_t entries_max, size_t *out_len, pal_error *err)
{
    int64_t tenant = 0, agent = 0;
    pal_sql_id id = query->turn_id.len > 0 ? PAL_SQL_LEDGER_LIST_TURN
            : !pal_handle_is_none(handle)  ? PAL_SQL_LEDGER_LIST_SESSION
                                           : PAL_SQL_LEDGER_LIST;
    size_t len = 0;
    pal_sql sql;
    pal_status status = number_of(conn, PAL_SQL_TENANT_FIND, query->tenant, &tenant, err);

    if (status == PAL_OK && query->agent.len > 0)
        status = number_of(conn, PAL_SQL_NAME_FIND, query->agent, &agent, err);
    if (status != PAL_OK)
        return status;
    sql = pal_sql_start(conn, id);
    pal_sql_bind_int(&sql, tenant);
    pal_sql_bind_int(&sql, agent);
    pal_sql_bind_int(&sql, query->from);
    pal_sql_bind_int(&sql, before->created_at);
    pal_sql_bind_int(&sql, row_of(before->id));
    pal_sql_bind_count(&sql, entries_max);
    if (id != PAL_SQL_LEDGER_LIST) {
        pal_sql_bind_int(&sql, (int64_t)handle.number);
        pal_sql_bind_text(&sql, query->turn_id);
    }
    while (len < entries_max && pal_sql_row(&sql))
        read_entry(&sql, arena, &out_entries[len++]);
    status = pal_sql_end_copied(&sql, arena, err);
    if (status == PAL_OK)
        *out_len = len;
    return status;
}

pal_status pal_sqlite_ledger_list(pal_engine *engine, const pal_ledger_query *query,
        pal_handle handle, const pal_ledger_place *before, pal_arena *arena,
        pal_ledger_entry *out_entries, size_t entries_max, size_t *out_len, pal_error *err)
{
    pal_sqlite *self = (pal_sqlite *)engine;
    pal_sql_conn *conn;
    pal_status status;

    if (!self->has_records)
        return pal_error_set(err, PAL_INVALID,
                "%s has an older format; run 'palaver store migrate' first", self->path);
    status = pal_sqlite_reader_take(self, PAL_READ_LONG, &conn, err);
    if (status != PAL_OK)
        return status;
    status = list_rows(
            conn, query, handle, before, arena, out_entries, entries_max, out_len, err);
    pal_sqlite_reader_give(self, conn);
    return status;
}
