/* sqlite_heads.c - finds the session of an operation: its tenant, and its head, which has the
 * numbers that writes change.
 *
 * The heads of recently written sessions are cached, so that the next operation does not have to
 * read its head from the file. That read took a ninth of the writer's work for an append, and a
 * commit of a turn has three or more operations on one session.
 *
 * The cache is valid as long as no other connection has written to the file. SQLite counts the
 * states of the file that a connection has seen, to validate its own page cache. If a transaction
 * begins with the number that the last commit ended with, nothing was written in between. Appends,
 * marks and changes of the lease update the cache. The cache is emptied before any other operation
 * that may change a head, and after every rollback; during such an operation nothing is cached.
 *
 * Only the thread that holds the writer's connection calls these functions. */
#include <string.h>

#include "base/memory.h"
#include "store/sqlite/sqlite.h"

#define SLOTS 1024 /* a power of two */

typedef struct slot {
    uint64_t age; /* the slot is valid if this equals the table's age */
    pal_id id;
    pal_sqlite_head head;
} slot;

struct pal_sqlite_heads {
    uint64_t age;
    uint32_t version; /* version of the file after the last commit */
    slot slots[SLOTS];
};

/* ---- The cache ---- */

/* The last bytes of an id are random. */
static slot *slot_of(pal_sqlite_heads *heads, pal_id id)
{
    size_t bits = (size_t)id.bytes[14] << 8 | id.bytes[15];

    return &heads->slots[bits % SLOTS];
}

/* Returns 0 if the version is not known: SQLite begins with 2. */
static uint32_t file_version(const pal_sql_conn *conn)
{
    unsigned version = 0;
    int code = sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_DATA_VERSION, &version);

    return code == SQLITE_OK ? version : 0;
}

void pal_sqlite_heads_begin(pal_sql_conn *conn)
{
    uint32_t version;

    if (!conn->heads)
        return;
    version = file_version(conn);
    if (version == 0 || version != conn->heads->version)
        pal_sqlite_heads_forget(conn);
}

void pal_sqlite_heads_committed(pal_sql_conn *conn)
{
    if (conn->heads)
        conn->heads->version = file_version(conn);
}

void pal_sqlite_heads_forget(pal_sql_conn *conn)
{
    if (conn->heads)
        conn->heads->age++;
}

/* Returns false if the head is not in the cache and must be read from the file. */
static bool find_cached(
        const pal_sql_conn *conn, pal_id id, int64_t tenant, pal_sqlite_head *out_head)
{
    const slot *found = conn->heads && conn->keeps_heads ? slot_of(conn->heads, id) : NULL;

    if (!found || found->age != conn->heads->age || !pal_id_equal(found->id, id) ||
            found->head.tenant != tenant)
        return false;
    *out_head = found->head;
    return true;
}

void pal_sqlite_heads_keep(pal_sql_conn *conn, pal_id id, const pal_sqlite_head *head)
{
    if (!conn->keeps_heads)
        return;
    if (!conn->heads) {
        conn->heads = pal_calloc(1, sizeof(*conn->heads));
        if (!conn->heads)
            return; /* the next head is looked up again */
        conn->heads->age = 1;
    }
    *slot_of(conn->heads, id) = (slot){.age = conn->heads->age, .id = id, .head = *head};
}

void pal_sqlite_heads_free(pal_sql_conn *conn)
{
    pal_free(conn->heads);
    conn->heads = NULL;
}

/* ---- Tenants and other names ---- */

/* Tenants are never renamed or removed, and most batches have one tenant. */
static bool tenant_is_known(const pal_sql_conn *conn, pal_str name)
{
    return conn->tenant != 0 &&
            pal_str_equal(name, pal_str_make(conn->tenant_name, conn->tenant_len));
}

static void tenant_remember(pal_sql_conn *conn, pal_str name, int64_t tenant)
{
    if (tenant == 0 || name.len > sizeof(conn->tenant_name))
        return;
    memcpy(conn->tenant_name, name.data, name.len);
    conn->tenant_len = name.len;
    conn->tenant = tenant;
}

pal_status pal_sqlite_tenant(
        pal_sql_conn *conn, pal_str name, bool create, int64_t *out_tenant, pal_error *err)
{
    pal_sql sql;
    int64_t tenant = 0;
    pal_status status;

    if (tenant_is_known(conn, name)) {
        *out_tenant = conn->tenant;
        return PAL_OK;
    }
    sql = pal_sql_start(conn, PAL_SQL_TENANT_FIND);
    pal_sql_bind_text(&sql, name);
    if (pal_sql_row(&sql))
        tenant = pal_sql_int(&sql, 0);
    status = pal_sql_end(&sql, err);
    if (status == PAL_OK && tenant == 0 && create) {
        sql = pal_sql_start(conn, PAL_SQL_TENANT_ADD);
        pal_sql_bind_text(&sql, name);
        status = pal_sql_run(&sql, err);
        tenant = sqlite3_last_insert_rowid(conn->db);
        conn->counts.tenants += pal_sqlite_tenant_counts(name);
    }
    if (status != PAL_OK)
        return status;
    tenant_remember(conn, name, tenant);
    *out_tenant = tenant;
    return PAL_OK;
}

pal_status pal_sqlite_name_number(
        pal_sql_conn *conn, pal_str text, int64_t *out_number, pal_error *err)
{
    pal_sql sql;
    pal_status status;

    *out_number = 0;
    if (text.len == 0)
        return PAL_OK;
    sql = pal_sql_start(conn, PAL_SQL_NAME_FIND);
    pal_sql_bind_text(&sql, text);
    if (pal_sql_row(&sql))
        *out_number = pal_sql_int(&sql, 0);
    status = pal_sql_end(&sql, err);
    if (status != PAL_OK || *out_number != 0)
        return status;
    sql = pal_sql_start(conn, PAL_SQL_NAME_ADD);
    pal_sql_bind_text(&sql, text);
    status = pal_sql_run(&sql, err);
    *out_number = sqlite3_last_insert_rowid(conn->db);
    return status;
}

/* ---- The session of an operation ---- */

static pal_status check_fence(const pal_work *work, const pal_sqlite_head *head)
{
    if (work->op->fence == 0 || work->op->fence == head->fence)
        return PAL_OK;
    return pal_error_set(&work->op->error, PAL_DENIED,
            "the lease was taken over by another process: fence %llu is stale, the current fence "
            "is %llu",
            (unsigned long long)work->op->fence, (unsigned long long)head->fence);
}

pal_status pal_sqlite_head_check(const pal_work *work, const pal_sqlite_head *head)
{
    bool has_expired = head->expires_at != 0 && work->now_ms > head->expires_at;
    pal_error *err = &work->op->error;
    char id[PAL_ID_TEXT_SIZE];

    if (work->copied || (head->state == PAL_SESSION_ACTIVE && !has_expired))
        return PAL_OK;
    if (work->op->fence != 0 && head->state != PAL_SESSION_QUARANTINED)
        return PAL_OK; /* a running turn can end even if its session was deleted */
    pal_id_to_text(work->op->session, id);
    if (head->state == PAL_SESSION_TRASH)
        return pal_error_set(
                err, PAL_CONFLICT, "session '%s' is in the trash; restore it first", id);
    if (head->state == PAL_SESSION_QUARANTINED)
        return pal_error_set(err, PAL_CORRUPT,
                "session '%s' is quarantined; run 'palaver fsck'", id);
    return pal_error_set(err, PAL_CONFLICT, "session '%s' has expired", id);
}

static void head_read(pal_sql *sql, pal_sqlite_head *out_head)
{
    out_head->handle = pal_sql_int(sql, 0);
    out_head->tenant = pal_sql_int(sql, 1);
    out_head->state = (pal_session_state)pal_sql_int(sql, 2);
    out_head->last_seq = (uint64_t)pal_sql_int(sql, 3);
    out_head->mark_number = (uint64_t)pal_sql_int(sql, 4);
    out_head->expires_at = pal_sql_int(sql, 5);
    out_head->parent = pal_sql_int(sql, 6);
    out_head->fork_seq = (uint64_t)pal_sql_int(sql, 7);
    out_head->fence = (uint64_t)pal_sql_int(sql, 8);
}

pal_status pal_sqlite_head_by_handle(
        pal_sql_conn *conn, int64_t handle, pal_sqlite_head *out_head, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_HEAD_GET_BY_HANDLE);
    pal_sqlite_head head = {0};
    pal_status status;

    pal_sql_bind_int(&sql, handle);
    if (pal_sql_row(&sql))
        head_read(&sql, &head);
    status = pal_sql_end(&sql, err);
    if (status == PAL_OK)
        *out_head = head;
    return status;
}

pal_status pal_sqlite_head_find(pal_sql_conn *conn, pal_id id, pal_str tenant_name,
        pal_sqlite_head *out_head, pal_error *err)
{
    int64_t tenant;
    pal_sql sql;
    pal_status status = pal_sqlite_tenant(conn, tenant_name, false, &tenant, err);

    memset(out_head, 0, sizeof(*out_head));
    if (status != PAL_OK || tenant == 0 || find_cached(conn, id, tenant, out_head))
        return status;
    sql = pal_sql_start(conn, PAL_SQL_HEAD_GET);
    pal_sql_bind_id(&sql, &id);
    pal_sql_bind_int(&sql, tenant);
    if (pal_sql_row(&sql))
        head_read(&sql, out_head);
    status = pal_sql_end(&sql, err);
    if (status == PAL_OK && out_head->handle != 0)
        pal_sqlite_heads_keep(conn, id, out_head);
    return status;
}

pal_status pal_sqlite_head_existing(
        pal_sql_conn *conn, const pal_work *work, pal_id id, pal_sqlite_head *out_head)
{
    pal_error *err = &work->op->error;
    char text[PAL_ID_TEXT_SIZE];
    pal_status status = pal_sqlite_head_find(conn, id, work->tenant, out_head, err);

    if (status != PAL_OK)
        return status;
    if (out_head->handle != 0 && (out_head->state != PAL_SESSION_ERASED || work->copied))
        return PAL_OK;
    pal_id_to_text(id, text);
    return pal_error_set(err, PAL_NOT_FOUND, "session '%s' does not exist", text);
}

pal_status pal_sqlite_head_get(
        pal_sql_conn *conn, const pal_work *work, pal_head_need need, pal_sqlite_head *out_head)
{
    pal_sqlite_head head = {0};
    pal_status status = pal_sqlite_head_existing(conn, work, work->op->session, &head);

    if (status != PAL_OK)
        return status;
    if (need == PAL_NEED_WRITABLE) {
        status = pal_sqlite_head_check(work, &head);
        if (status != PAL_OK)
            return status;
    }
    status = check_fence(work, &head);
    if (status == PAL_OK)
        *out_head = head;
    return status;
}

pal_status pal_sqlite_touch(pal_sql_conn *conn, const pal_work *work, int64_t handle)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_HEAD_TOUCH);

    pal_sql_bind_int(&sql, handle);
    pal_sql_bind_int(&sql, work->now_ms);
    return pal_sql_run(&sql, &work->op->error);
}
