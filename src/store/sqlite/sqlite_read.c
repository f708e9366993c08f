/* sqlite_read.c - reads. Each read takes a connection from the pool while it runs, and sees
 * everything that was committed when it began. Any thread can call these functions.
 *
 * A read changes its outputs only if it succeeds, so results are built in local variables. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/memory.h"
#include "store/sqlite/sqlite.h"

#define SHORT_SCAN_ROWS_MAX 256

/* ---- Sessions ---- */

void pal_sqlite_session_read(
        pal_sql *sql, int first, pal_arena *arena, pal_session_row *out_row)
{
    pal_session *session = &out_row->session;

    memset(out_row, 0, sizeof(*out_row));
    session->id = pal_sql_uuid(sql, first + 1);
    session->state = (pal_session_state)pal_sql_int(sql, first + 2);
    session->key = pal_sql_copy(sql, first + 3, arena);
    pal_str aliases = pal_sql_copy(sql, first + 4, arena);
    if (aliases.len > 0)
        pal_sqlite_aliases_split(aliases, arena, session);
    session->title = pal_sql_copy(sql, first + 5, arena);
    session->project = pal_sql_copy(sql, first + 6, arena);
    session->agent = pal_sql_copy(sql, first + 7, arena);
    session->scope = pal_sql_copy(sql, first + 8, arena);
    session->metadata = pal_sql_copy(sql, first + 9, arena);
    session->extra = pal_sql_copy(sql, first + 10, arena);
    session->parent_id = pal_sql_uuid(sql, first + 11);
    session->fork_seq = (uint64_t)pal_sql_int(sql, first + 12);
    session->fork_mark = (uint64_t)pal_sql_int(sql, first + 13);
    session->last_seq = (uint64_t)pal_sql_int(sql, first + 14);
    out_row->mark_number = (uint64_t)pal_sql_int(sql, first + 15);
    session->tokens = (uint64_t)pal_sql_int(sql, first + 16);
    session->bytes = (uint64_t)pal_sql_int(sql, first + 17);
    session->created_at = pal_sql_int(sql, first + 18);
    session->updated_at = pal_sql_int(sql, first + 19);
    session->expires_at = pal_sql_int(sql, first + 20);
    session->deleted_at = pal_sql_int(sql, first + 21);
    session->tenant = pal_sql_copy(sql, first + 22, arena);
    out_row->handle = (pal_handle){.number = (uint64_t)pal_sql_int(sql, first),
            .id = session->id,
            .tenant = session->tenant};
    session->is_routed = pal_sql_int(sql, first + 23) != 0;
    session->alias_apart = pal_sql_copy(sql, first + 24, arena);
}

pal_status pal_sqlite_session_find(pal_engine *engine, pal_str tenant, pal_session_by by,
        pal_str name, pal_arena *arena, pal_session_row *out_row, pal_error *err)
{
    static const pal_sql_id statements[] = {
            [PAL_SESSION_BY_ID] = PAL_SQL_SESSION_BY_ID,
            [PAL_SESSION_BY_KEY] = PAL_SQL_SESSION_BY_KEY,
            [PAL_SESSION_BY_ALIAS] = PAL_SQL_SESSION_BY_ALIAS,
    };
    pal_sql sql = pal_sql_read((pal_sqlite *)engine, PAL_READ_SHORT, statements[by], err);
    pal_session_row row;
    pal_status status;

    if (by == PAL_SESSION_BY_ID)
        pal_sql_bind_blob(&sql, name);
    else
        pal_sql_bind_text(&sql, name);
    pal_sql_bind_text(&sql, tenant);
    if (pal_sql_row(&sql))
        pal_sqlite_session_read(&sql, 0, arena, &row);
    status = pal_sql_end_found(&sql, arena, err);
    if (status == PAL_OK)
        *out_row = row;
    return status;
}

/* Reads one session by its number. *out_found is false if it no longer exists or is damaged. A
 * damaged record must not hide the other sessions of its page; fsck reports it. */
static pal_status session_by_handle(pal_sql_conn *conn, int64_t handle, pal_arena *arena,
        pal_session_row *out_row, bool *out_found, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_SESSION_BY_HANDLE);
    pal_status status;

    pal_sql_bind_int(&sql, handle);
    *out_found = pal_sql_row(&sql);
    if (*out_found)
        pal_sqlite_session_read(&sql, 0, arena, out_row);
    status = pal_sql_end_copied(&sql, arena, err);
    if (status == PAL_CORRUPT) {
        *out_found = false;
        return PAL_OK;
    }
    return status;
}

static pal_status name_find(
        pal_sql_conn *conn, pal_sql_id id, pal_str text, int64_t *out_number, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, id);

    pal_sql_bind_text(&sql, text);
    *out_number = pal_sql_row(&sql) ? pal_sql_int(&sql, 0) : 0;
    return pal_sql_end(&sql, err);
}

static bool session_matches(const pal_session_query *query, const pal_session *session)
{
    if (query->project.len > 0 && !pal_str_equal(query->project, session->project))
        return false;
    if (query->agent.len > 0 && !pal_str_equal(query->agent, session->agent))
        return false;
    return query->state != PAL_SESSION_ACTIVE || session->expires_at == 0 ||
            pal_clock_now_ms() <= session->expires_at;
}

/* Chooses the index to walk and the number of the name that it needs. *out_name is 0 if the name
 * was never used. Then nothing can match. */
static pal_status list_statement(pal_sql_conn *conn, const pal_session_query *query,
        pal_sql_id *out_id, int64_t *out_name, pal_error *err)
{
    *out_name = -1;
    *out_id = PAL_SQL_LIST_RECENT;
    if (query->project.len > 0) {
        *out_id = PAL_SQL_LIST_PROJECT;
        return name_find(conn, PAL_SQL_NAME_FIND, query->project, out_name, err);
    }
    if (query->agent.len > 0) {
        *out_id = PAL_SQL_LIST_AGENT;
        return name_find(conn, PAL_SQL_NAME_FIND, query->agent, out_name, err);
    }
    return PAL_OK;
}

/* With a cursor, the list begins after the cursor's session. Otherwise it begins with the
 * newest. */
static void bind_place(
        pal_sql *sql, const pal_session_query *query, int64_t after_ms, pal_handle after)
{
    if (!pal_handle_is_none(after)) {
        pal_sql_bind_int(sql, after_ms);
        pal_sql_bind_int(sql, (int64_t)after.number);
    } else {
        pal_sql_bind_int(sql, query->updated_to > 0 ? query->updated_to : INT64_MAX);
        pal_sql_bind_int(sql, 0);
    }
    pal_sql_bind_int(sql, query->updated_from);
}

static pal_status list_with(pal_sql_conn *conn, const pal_session_query *query, int64_t after_ms,
        pal_handle after, pal_arena *arena, pal_session_row *out_rows, size_t rows_max,
        size_t *out_len, pal_error *err)
{
    int64_t tenant = 0, name = 0;
    pal_sql_id id;
    pal_sql sql;
    pal_status status = name_find(conn, PAL_SQL_TENANT_FIND, query->tenant, &tenant, err);
    pal_status ended;

    *out_len = 0;
    if (status == PAL_OK)
        status = list_statement(conn, query, &id, &name, err);
    if (status != PAL_OK || tenant == 0 || name == 0)
        return status;
    sql = pal_sql_start(conn, id);
    pal_sql_bind_int(&sql, tenant);
    pal_sql_bind_int(&sql, query->state);
    bind_place(&sql, query, after_ms, after);
    if (name > 0)
        pal_sql_bind_int(&sql, name);
    while (status == PAL_OK && *out_len < rows_max && pal_sql_row(&sql)) {
        bool found;

        status = session_by_handle(
                conn, pal_sql_int(&sql, 0), arena, &out_rows[*out_len], &found, err);
        if (status == PAL_OK && found && session_matches(query, &out_rows[*out_len].session))
            (*out_len)++;
    }
    ended = pal_sql_end(&sql, status == PAL_OK ? err : NULL);
    return status == PAL_OK ? ended : status;
}

pal_status pal_sqlite_session_list(pal_engine *engine, const pal_session_query *query,
        int64_t after_ms, pal_handle after, pal_arena *arena, pal_session_row *out_rows,
        size_t rows_max, size_t *out_len, pal_error *err)
{
    pal_sqlite *self = (pal_sqlite *)engine;
    pal_sql_conn *conn;
    pal_status status = pal_sqlite_reader_take(self, PAL_READ_LONG, &conn, err);

    if (status != PAL_OK)
        return status;
    status =
            list_with(conn, query, after_ms, after, arena, out_rows, rows_max, out_len, err);
    pal_sqlite_reader_give(self, conn);
    return status;
}

/* ---- Messages ---- */

/* Rows are passed to the sink from SQLite's loop, by a function in the statement's condition.
 * Leaving the loop for each row and reading its columns one by one costs a third more. */
typedef struct scan_state {
    pal_row_sink sink;
    void *user;
    size_t rows_left;
    uint64_t seq; /* seq of the last row */
    bool wanted;  /* the sink accepts more rows */
} scan_state;

static pal_str value_text(sqlite3_value *value)
{
    const char *data = sqlite3_value_blob(value);

    return pal_str_make(data, data ? (size_t)sqlite3_value_bytes(value) : 0);
}

static pal_id value_id(sqlite3_value *value)
{
    pal_str bytes = value_text(value);
    pal_id id = {{0}};

    if (bytes.len == sizeof(id.bytes))
        memcpy(id.bytes, bytes.data, sizeof(id.bytes));
    return id;
}

static void row_from_values(sqlite3_value **values, pal_row *out_row)
{
    out_row->id = value_id(values[1]);
    out_row->seq = (uint64_t)sqlite3_value_int64(values[7]);
    out_row->role = (pal_role)sqlite3_value_int64(values[2]);
    out_row->flags = (uint32_t)sqlite3_value_int64(values[3]);
    out_row->tokens = (uint32_t)sqlite3_value_int64(values[4]);
    out_row->created_at = sqlite3_value_int64(values[5]);
    out_row->client_id = value_text(values[6]);
    out_row->is_text = sqlite3_value_type(values[0]) == SQLITE_TEXT;
    out_row->body = value_text(values[0]);
    out_row->turn_id = value_id(values[8]);
}

/* If the function sets no result, SQLite takes NULL, the row does not match, and the loop
 * continues. */
static void scan_row(sqlite3_context *context, int values_len, sqlite3_value **values)
{
    const pal_sql_conn *conn = sqlite3_user_data(context);
    scan_state *state = conn->scan;
    pal_row row;

    (void)values_len;
    row_from_values(values, &row);
    state->seq = row.seq;
    state->wanted = state->sink(&row, state->user);
    state->rows_left--;
    if (!state->wanted || state->rows_left == 0)
        sqlite3_result_int(context, 1);
}

pal_status pal_sqlite_scan_prepare(pal_sql_conn *conn, pal_error *err)
{
    int code = sqlite3_create_function_v2(conn->db, "palaver_scan", PAL_SQL_SCAN_COLUMNS_LEN,
            SQLITE_UTF8 | SQLITE_DIRECTONLY, conn, scan_row, NULL, NULL, NULL);

    return code == SQLITE_OK ? PAL_OK : pal_sql_failed(conn, code, err);
}

/* Limits the scan to the rows after `seq`. Returns false if there are none. */
static bool scan_behind(pal_row_scan *scan, uint64_t seq)
{
    if (scan->descending)
        scan->last_seq = seq - 1;
    else
        scan->first_seq = seq + 1;
    return scan->first_seq <= scan->last_seq;
}

/* Begins as a short read and continues as a long one. Rows never change, so the two fit
 * together. */
pal_status pal_sqlite_row_scan(
        pal_engine *engine, const pal_row_scan *scan, pal_row_sink sink, void *user, pal_error *err)
{
    pal_sqlite *self = (pal_sqlite *)engine;
    pal_sql_id id = scan->descending ? PAL_SQL_SCAN_DOWN : PAL_SQL_SCAN_UP;
    pal_row_scan left = *scan;
    pal_read_kind kind = PAL_READ_SHORT;
    bool wanted = true;

    while (wanted) {
        scan_state state = {.sink = sink, .user = user};
        pal_sql sql = pal_sql_read(self, kind, id, err);
        pal_status status;

        pal_sql_bind_int(&sql, (int64_t)left.handle.number);
        pal_sql_bind_int(&sql, (int64_t)left.first_seq);
        pal_sql_bind_int(&sql, (int64_t)left.last_seq);
        state.rows_left = sql.conn == &self->writer ? SHORT_SCAN_ROWS_MAX : SIZE_MAX;
        if (sql.conn)
            sql.conn->scan = &state;
        wanted = pal_sql_row(&sql) && state.wanted; /* false when the sink has enough */
        if (sql.conn)
            sql.conn->scan = NULL;
        status = pal_sql_end(&sql, err);
        if (status != PAL_OK)
            return status;
        wanted = wanted && scan_behind(&left, state.seq);
        kind = PAL_READ_LONG;
    }
    return PAL_OK;
}

pal_status pal_sqlite_row_find(pal_engine *engine, const pal_row_key *key, pal_arena *arena,
        pal_row *out_row, pal_id *out_session, pal_error *err)
{
    bool by_id = key->client_id.len == 0;
    pal_sql sql = pal_sql_read((pal_sqlite *)engine, PAL_READ_SHORT,
            by_id ? PAL_SQL_MESSAGE_BY_ID : PAL_SQL_MESSAGE_BY_CLIENT, err);
    pal_id session;
    pal_row row;
    pal_status status;

    if (by_id) {
        pal_sql_bind_id(&sql, &key->id);
        pal_sql_bind_text(&sql, key->tenant);
    } else {
        pal_sql_bind_int(&sql, (int64_t)key->handle.number);
        pal_sql_bind_text(&sql, key->client_id);
    }
    if (pal_sql_row(&sql)) {
        pal_sqlite_row_read(&sql, 0, &row);
        row.client_id = pal_sql_copy(&sql, 6, arena);
        row.body = pal_sql_copy(&sql, 7, arena);
        if (by_id)
            session = pal_sql_uuid(&sql, 9);
    }
    status = pal_sql_end_found(&sql, arena, err);
    if (status != PAL_OK)
        return status;
    *out_row = row;
    if (by_id)
        *out_session = session;
    return PAL_OK;
}

static const pal_sql_id mark_statements[] = {
        [PAL_MARKS_HIDING] = PAL_SQL_MARK_LIST_HIDING,
        [PAL_MARKS_BRIEF] = PAL_SQL_MARK_LIST_BRIEF,
        [PAL_MARKS_WHOLE] = PAL_SQL_MARK_LIST,
};

/* Runs the started statement to its end. */
static pal_status read_marks(pal_sql *sql, const pal_mark_scan *scan, pal_arena *arena,
        pal_mark **out_marks, size_t *out_len, pal_error *err)
{
    size_t len = 0, cap = 0;
    pal_mark *marks = NULL;
    pal_status status;

    pal_sql_bind_int(sql, (int64_t)scan->handle.number);
    pal_sql_bind_count(sql, scan->first);
    pal_sql_bind_count(sql, scan->last);
    while (pal_sql_row(sql)) {
        if (!pal_arena_reserve(arena, &marks, &cap, len + 1, sizeof(*marks)))
            break;
        marks[len++] = (pal_mark){.number = (uint64_t)pal_sql_int(sql, 0),
                .kind = (pal_mark_kind)pal_sql_int(sql, 1),
                .seq = (uint64_t)pal_sql_int(sql, 2),
                .through_seq = (uint64_t)pal_sql_int(sql, 3),
                .target = (uint64_t)pal_sql_int(sql, 4),
                .created_at = pal_sql_int(sql, 5),
                .body = scan->wanted == PAL_MARKS_WHOLE
                        ? pal_arena_copy(arena, pal_sql_text(sql, 6))
                        : pal_str_make(NULL, 0)};
    }
    status = pal_sql_end_copied(sql, arena, err);
    if (status != PAL_OK)
        return status;
    *out_marks = marks;
    *out_len = len;
    return PAL_OK;
}

pal_status pal_sqlite_marks_read(pal_sql_conn *conn, const pal_mark_scan *scan, pal_arena *arena,
        pal_mark **out_marks, size_t *out_len, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, mark_statements[scan->wanted]);

    return read_marks(&sql, scan, arena, out_marks, out_len, err);
}

pal_status pal_sqlite_mark_list(pal_engine *engine, const pal_mark_scan *scan, pal_arena *arena,
        pal_mark **out_marks, size_t *out_len, pal_error *err)
{
    pal_sql sql = pal_sql_read(
            (pal_sqlite *)engine, PAL_READ_SHORT, mark_statements[scan->wanted], err);

    return read_marks(&sql, scan, arena, out_marks, out_len, err);
}

pal_status pal_sqlite_blob_get(pal_engine *engine, pal_str tenant, const uint8_t hash[32],
        pal_arena *arena, pal_blob_row *out_blob, pal_error *err)
{
    pal_sql sql = arena
            ? pal_sql_read((pal_sqlite *)engine, PAL_READ_LONG, PAL_SQL_BLOB_GET, err)
            : pal_sql_read((pal_sqlite *)engine, PAL_READ_SHORT, PAL_SQL_BLOB_SIZE, err);
    pal_blob_row blob = {0};
    pal_status status;

    pal_sql_bind_text(&sql, tenant);
    pal_sql_bind_blob(&sql, pal_str_make((const char *)hash, 32));
    if (pal_sql_row(&sql)) {
        blob.bytes = (uint64_t)pal_sql_int(&sql, 0);
        if (arena) {
            blob.media_type = pal_sql_copy(&sql, 1, arena);
            blob.data = pal_sql_copy(&sql, 2, arena);
        }
    }
    status = pal_sql_end_found(&sql, arena, err);
    if (status == PAL_OK)
        *out_blob = blob;
    return status;
}

/* ---- Inbox, lease ---- */

pal_status pal_sqlite_inbox_list(pal_engine *engine, pal_handle handle, pal_arena *arena,
        pal_inbox_item **out_items, size_t *out_len, pal_error *err)
{
    pal_sql sql = pal_sql_read((pal_sqlite *)engine, PAL_READ_SHORT, PAL_SQL_INBOX_LIST, err);
    pal_inbox_item *items = NULL;
    size_t len = 0, cap = 0;
    pal_status status;

    pal_sql_bind_int(&sql, (int64_t)handle.number);
    while (len < PAL_INBOX_ITEMS_MAX && pal_sql_row(&sql)) {
        if (!pal_arena_reserve(arena, &items, &cap, len + 1, sizeof(*items)))
            break;
        items[len++] = (pal_inbox_item){.id = pal_sql_uuid(&sql, 0),
                .client_id = pal_sql_copy(&sql, 1, arena),
                .delivery = pal_sql_copy(&sql, 2, arena),
                .body = pal_sql_copy(&sql, 3, arena),
                .created_at = pal_sql_int(&sql, 4)};
    }
    status = pal_sql_end_copied(&sql, arena, err);
    if (status != PAL_OK)
        return status;
    *out_items = items;
    *out_len = len;
    return PAL_OK;
}

pal_status pal_sqlite_inbox_owners(pal_engine *engine, const pal_inbox_owner *after,
        int64_t now_ms, pal_arena *arena, pal_inbox_owner *out_owners, size_t owners_max,
        size_t *out_len, pal_error *err)
{
    pal_sql sql = pal_sql_read((pal_sqlite *)engine, PAL_READ_LONG, PAL_SQL_INBOX_OWNERS, err);
    size_t len = 0;
    pal_status status;

    pal_sql_bind_blob(
            &sql, pal_str_make((const char *)after->session.bytes, sizeof(after->session.bytes)));
    pal_sql_bind_int(&sql, now_ms);
    pal_sql_bind_int(&sql, (int64_t)owners_max);
    pal_sql_bind_body(&sql, after->tenant, true);
    while (len < owners_max && pal_sql_row(&sql)) {
        out_owners[len].tenant = pal_sql_copy(&sql, 0, arena);
        out_owners[len++].session = pal_sql_uuid(&sql, 1);
    }
    status = pal_sql_end_copied(&sql, arena, err);
    if (status == PAL_OK)
        *out_len = len;
    return status;
}

pal_status pal_sqlite_lease_find(pal_engine *engine, pal_handle handle, pal_arena *arena,
        pal_lease *out_lease, pal_error *err)
{
    pal_sql sql = pal_sql_read((pal_sqlite *)engine, PAL_READ_SHORT, PAL_SQL_LEASE_GET, err);
    pal_lease lease;
    pal_status status;

    pal_sql_bind_int(&sql, (int64_t)handle.number);
    if (pal_sql_row(&sql)) {
        lease.owner = pal_sql_copy(&sql, 0, arena);
        lease.fence = (uint64_t)pal_sql_int(&sql, 1);
        lease.expires_at = pal_sql_int(&sql, 2);
        lease.ttl_ms = pal_sql_int(&sql, 3);
    }
    status = pal_sql_end_found(&sql, arena, err);
    if (status == PAL_OK)
        *out_lease = lease;
    return status;
}

/* ---- Statistics ---- */

static uint64_t disk_bytes(const char *path)
{
    static const char *const suffixes[] = {"", "-wal"};
    uint64_t bytes = 0;
    char name[4096];

    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        struct stat info;

        snprintf(name, sizeof(name), "%s%s", path, suffixes[i]);
        if (stat(name, &info) == 0)
            bytes += (uint64_t)info.st_size;
    }
    return bytes;
}

pal_status pal_sqlite_stat(pal_engine *engine, pal_store_stats *out_stats, pal_error *err)
{
    pal_sqlite *self = (pal_sqlite *)engine;
    pal_store_stats stats = {0};
    pal_sql_conn *conn;
    pal_status status = pal_sqlite_reader_take(self, PAL_READ_LONG, &conn, err);

    if (status != PAL_OK)
        return status;
    status = pal_sqlite_counts_read(
            conn, self->has_counts ? PAL_SQL_COUNTER_GET : PAL_SQL_STAT_ALL, &stats, err);
    pal_sqlite_reader_give(self, conn);
    stats.disk_bytes = disk_bytes(self->path);
    if (status == PAL_OK)
        *out_stats = stats;
    return status;
}
