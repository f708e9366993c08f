/* sqlite_session.c - operations on sessions: create, fork, adopt, update. */
#include <string.h>

#include "store/sqlite/sqlite.h"

/* ---- Creating and forking ---- */

static pal_status insert_session(pal_sql_conn *conn, pal_work *work, const pal_session *session,
        pal_id id, int64_t tenant, int64_t parent, int64_t *out_handle)
{
    pal_buf aliases;
    pal_sql sql = pal_sql_start(conn, PAL_SQL_SESSION_ADD);
    pal_status status;

    pal_buf_init(&aliases, PAL_ALIASES_LEN_MAX);
    pal_sqlite_aliases_join(&aliases, session);
    pal_sql_bind_id(&sql, &id);
    pal_sql_bind_int(&sql, tenant);
    pal_sql_bind_int_or_null(&sql, session->expires_at);
    pal_sql_bind_int_or_null(&sql, parent);
    pal_sql_bind_int(&sql, (int64_t)work->fork_seq);
    pal_sql_bind_int(&sql, (int64_t)work->fork_mark);
    pal_sql_bind_int(&sql, session->created_at ? session->created_at : work->now_ms);
    pal_sql_bind_int(&sql, session->is_routed);
    pal_sql_bind_id(&sql, &work->fork_parent);
    pal_sql_bind_text(&sql, session->key);
    pal_sql_bind_text(&sql, session->title);
    pal_sql_bind_text(&sql, pal_buf_str(&aliases));
    pal_sql_bind_text(&sql, session->alias_apart);
    pal_sql_bind_text(&sql, session->scope);
    pal_sql_bind_text(&sql, session->metadata);
    pal_sql_bind_text(&sql, session->extra);
    if (aliases.failure)
        sql.code = SQLITE_NOMEM;
    status = pal_sql_run(&sql, &work->op->error);
    *out_handle = sqlite3_last_insert_rowid(conn->db);
    pal_buf_done(&aliases);
    return status;
}

static pal_status insert_head(pal_sql_conn *conn, pal_work *work, const pal_session *session,
        int64_t tenant, int64_t handle)
{
    int64_t project, agent;
    pal_status status = pal_sqlite_name_number(conn, session->project, &project, &work->op->error);
    pal_sql sql;

    if (status == PAL_OK)
        status = pal_sqlite_name_number(conn, session->agent, &agent, &work->op->error);
    if (status != PAL_OK)
        return status;
    sql = pal_sql_start(conn, PAL_SQL_HEAD_ADD);
    pal_sql_bind_int(&sql, handle);
    pal_sql_bind_int(&sql, tenant);
    pal_sql_bind_int(&sql, PAL_SESSION_ACTIVE);
    pal_sql_bind_int_or_null(&sql, project);
    pal_sql_bind_int_or_null(&sql, agent);
    pal_sql_bind_int(&sql, (int64_t)work->fork_seq);
    pal_sql_bind_int(&sql, work->now_ms);
    conn->counts.active++;
    return pal_sql_run(&sql, &work->op->error);
}

static pal_status check_id_free(pal_sql_conn *conn, const pal_work *work, int64_t tenant)
{
    pal_sql sql;
    bool taken;
    pal_status status;

    if (pal_id_is_none(work->op->session))
        return PAL_OK;
    sql = pal_sql_start(conn, PAL_SQL_SESSION_UUID_TAKEN);
    pal_sql_bind_id(&sql, &work->op->session);
    pal_sql_bind_int(&sql, tenant);
    taken = pal_sql_row(&sql);
    status = pal_sql_end(&sql, &work->op->error);
    if (status == PAL_OK && taken)
        status = pal_error_set(&work->op->error, PAL_CONFLICT,
                "a session with this id already exists");
    return status;
}

static pal_status count_active(pal_sql_conn *conn, pal_work *work, pal_sql_id statement,
        int64_t tenant, int64_t *out_count)
{
    pal_sql sql = pal_sql_start(conn, statement);

    pal_sql_bind_int(&sql, tenant);
    pal_sql_bind_int(&sql, (int64_t)work->sessions_max);
    if (statement == PAL_SQL_SESSION_COUNT_LIVE)
        pal_sql_bind_int(&sql, work->now_ms);
    if (pal_sql_row(&sql))
        *out_count = pal_sql_int(&sql, 0);
    return pal_sql_end(&sql, &work->op->error);
}

/* Expired sessions are counted separately only if all sessions together exceed the limit. */
pal_status pal_sqlite_check_room(pal_sql_conn *conn, pal_work *work, int64_t tenant)
{
    int64_t count = 0, max = (int64_t)work->sessions_max;
    pal_status status = PAL_OK;

    if (max == 0)
        return PAL_OK;
    status = count_active(conn, work, PAL_SQL_SESSION_COUNT, tenant, &count);
    if (status == PAL_OK && count >= max)
        status = count_active(conn, work, PAL_SQL_SESSION_COUNT_LIVE, tenant, &count);
    return status == PAL_OK && count >= max ? pal_sessions_full(work) : status;
}

/* Checks that the id and the names of the new session are free, and that the tenant has room for
 * it. */
static pal_status check_new(
        pal_sql_conn *conn, pal_work *work, const pal_session *session, int64_t tenant)
{
    pal_status status = check_id_free(conn, work, tenant);

    if (status != PAL_OK)
        return status;
    status = pal_sqlite_key_check(conn, work, tenant, session->key, 0);
    if (status != PAL_OK)
        return status;
    status = pal_sqlite_aliases_check(conn, work, tenant, session, 0);
    if (status != PAL_OK)
        return status;
    return pal_sqlite_check_room(conn, work, tenant);
}

static pal_status add_session(
        pal_sql_conn *conn, pal_work *work, const pal_session *session, int64_t parent)
{
    pal_id id = pal_id_is_none(work->op->session) ? work->new_id : work->op->session;
    int64_t tenant, handle;
    pal_status status = pal_sqlite_tenant(conn, work->tenant, false, &tenant, &work->op->error);

    if (status != PAL_OK)
        return status;
    if (tenant != 0)
        status = check_new(conn, work, session, tenant);
    else
        status = pal_sqlite_tenant(conn, work->tenant, true, &tenant, &work->op->error);
    if (status != PAL_OK)
        return status;
    status = insert_session(conn, work, session, id, tenant, parent, &handle);
    if (status != PAL_OK)
        return status;
    status = insert_head(conn, work, session, tenant, handle);
    if (status != PAL_OK)
        return status;
    status = pal_sqlite_aliases_add(conn, tenant, session, handle, &work->op->error);
    if (status == PAL_OK)
        work->op->session = id;
    return status;
}

/* Finds the active session that already has the key, for or_find. */
static pal_status find_existing(pal_sql_conn *conn, pal_work *work, bool *out_found)
{
    pal_str key = work->op->u.create.session->key;
    int64_t tenant, holder = 0;
    pal_id id;
    pal_status status = pal_sqlite_tenant(conn, work->tenant, false, &tenant, &work->op->error);

    *out_found = false;
    if (status != PAL_OK || tenant == 0 || key.len == 0)
        return status;
    status = pal_sqlite_holder(conn, work, PAL_SQL_SESSION_KEY_HOLDER, tenant, key, &holder, &id);
    if (status == PAL_OK && holder != 0) {
        work->op->session = id;
        *out_found = true;
    }
    return status;
}

/* Sets the state of a copied session, and its names: an alias leads to it only if it did so in the
 * other store. */
static pal_status copy_rest(pal_sql_conn *conn, pal_work *work, const pal_sqlite_head *head)
{
    const pal_session *session = work->op->u.create.session;
    pal_sql sql = pal_sql_start(conn, PAL_SQL_SESSION_COPIED);
    pal_status status;

    pal_sql_bind_int(&sql, head->handle);
    pal_sql_bind_text(&sql, session->key);
    pal_sql_bind_int_or_null(&sql, session->deleted_at);
    pal_sql_bind_int(&sql, session->state == PAL_SESSION_ACTIVE);
    status = pal_sql_run(&sql, &work->op->error);
    if (status != PAL_OK)
        return status;
    sql = pal_sql_start(conn, PAL_SQL_HEAD_MARKED);
    pal_sql_bind_int(&sql, head->handle);
    pal_sql_bind_int(&sql, (int64_t)work->copied->mark_number);
    pal_sql_bind_updated_at(&sql, work);
    status = pal_sql_run(&sql, &work->op->error);
    if (status == PAL_OK && session->state != PAL_SESSION_ACTIVE)
        return pal_sqlite_state_set(conn, head->handle, session->state, &work->op->error);
    for (size_t i = 0; status == PAL_OK && i < session->aliases_len; i++)
        if (work->copied->alias_leads[i])
            status = pal_sqlite_alias_add(
                    conn, head->tenant, session->aliases[i], head->handle, &work->op->error);
    return status;
}

static pal_status create_copy(pal_sql_conn *conn, pal_work *work)
{
    int64_t tenant;
    pal_sqlite_head head = {0};
    pal_session session = *work->op->u.create.session;
    pal_status status = pal_sqlite_tenant(conn, work->tenant, true, &tenant, &work->op->error);

    session.key = pal_str_make(NULL, 0);
    if (status == PAL_OK)
        status = check_id_free(conn, work, tenant);
    if (status == PAL_OK)
        status = insert_session(
                conn, work, &session, work->op->session, tenant, 0, &head.handle);
    if (status == PAL_OK)
        status = insert_head(conn, work, &session, tenant, head.handle);
    head.tenant = tenant;
    return status == PAL_OK ? copy_rest(conn, work, &head) : status;
}

pal_status pal_sqlite_create(pal_sql_conn *conn, pal_work *work)
{
    pal_op *op = work->op;
    pal_status status = PAL_OK;

    op->u.create.existing = false;
    if (work->copied)
        return create_copy(conn, work);
    if (op->u.create.or_find)
        status = find_existing(conn, work, &op->u.create.existing);
    if (status == PAL_OK && !op->u.create.existing)
        status = add_session(conn, work, op->u.create.session, 0);
    return status;
}

pal_status pal_sqlite_fork(pal_sql_conn *conn, pal_work *work)
{
    pal_sqlite_head parent = {0};
    pal_status status = PAL_OK;

    if (!pal_id_is_none(work->fork_parent))
        status = pal_sqlite_head_find(
                conn, work->fork_parent, work->tenant, &parent, &work->op->error);
    if (status != PAL_OK)
        return status;
    /* An erased parent still provides the rows that its forks share. */
    if (parent.last_seq < work->fork_seq)
        return pal_error_set(&work->op->error, PAL_NOT_FOUND,
                "the session to fork no longer exists");
    return add_session(conn, work, work->op->u.fork.session, parent.handle);
}

/* A session can become the child of another one only while it has no messages and no marks. */
pal_status pal_sqlite_adopt(pal_sql_conn *conn, pal_work *work)
{
    pal_sqlite_head head = {0}, parent = {0};
    pal_sql sql;
    pal_status status = pal_sqlite_head_get(conn, work, PAL_NEED_WRITABLE, &head);

    if (status == PAL_OK)
        status = pal_sqlite_head_find(
                conn, work->fork_parent, work->tenant, &parent, &work->op->error);
    if (status != PAL_OK)
        return status;
    if (parent.handle == 0 || (parent.last_seq < work->fork_seq && !work->copied))
        return pal_error_set(&work->op->error, PAL_NOT_FOUND,
                "the session to adopt no longer exists");
    work->op->u.adopt.adopted = head.last_seq == 0 && (head.mark_number == 0 || work->copied) &&
            parent.handle != head.handle;
    if (!work->op->u.adopt.adopted)
        return PAL_OK;
    sql = pal_sql_start(conn, PAL_SQL_SESSION_ADOPT);
    pal_sql_bind_int(&sql, head.handle);
    pal_sql_bind_int(&sql, parent.handle);
    pal_sql_bind_int(&sql, (int64_t)work->fork_seq);
    pal_sql_bind_int(&sql, (int64_t)work->fork_mark);
    pal_sql_bind_id(&sql, &work->fork_parent);
    status = pal_sql_run(&sql, &work->op->error);
    if (status != PAL_OK)
        return status;
    sql = pal_sql_start(conn, PAL_SQL_HEAD_APPENDED);
    pal_sql_bind_int(&sql, head.handle);
    pal_sql_bind_int(&sql, (int64_t)work->fork_seq);
    pal_sql_bind_int(&sql, 0);
    pal_sql_bind_int(&sql, 0);
    pal_sql_bind_updated_at(&sql, work);
    return pal_sql_run(&sql, &work->op->error);
}

/* ---- Updating ---- */

static pal_status set_text(
        pal_sql_conn *conn, pal_work *work, pal_sql_id id, int64_t handle, pal_str text)
{
    pal_sql sql = pal_sql_start(conn, id);

    pal_sql_bind_int(&sql, handle);
    pal_sql_bind_text(&sql, text);
    return pal_sql_run(&sql, &work->op->error);
}

static pal_status set_number(
        pal_sql_conn *conn, pal_work *work, pal_sql_id id, int64_t handle, int64_t number)
{
    pal_sql sql = pal_sql_start(conn, id);

    pal_sql_bind_int(&sql, handle);
    pal_sql_bind_int_or_null(&sql, number);
    return pal_sql_run(&sql, &work->op->error);
}

static pal_status set_name(
        pal_sql_conn *conn, pal_work *work, pal_sql_id id, int64_t handle, pal_str text)
{
    int64_t number;
    pal_status status = pal_sqlite_name_number(conn, text, &number, &work->op->error);

    return status == PAL_OK ? set_number(conn, work, id, handle, number) : status;
}

static pal_status set_aliases(
        pal_sql_conn *conn, pal_work *work, const pal_sqlite_head *head, const pal_session *session)
{
    pal_buf aliases;
    pal_sql sql;
    pal_status status = pal_sql_run_int(conn, PAL_SQL_ALIAS_CLEAR, head->handle, &work->op->error);

    if (status == PAL_OK)
        status =
                pal_sqlite_aliases_add(conn, head->tenant, session, head->handle, &work->op->error);
    if (status != PAL_OK)
        return status;
    pal_buf_init(&aliases, PAL_ALIASES_LEN_MAX);
    pal_sqlite_aliases_join(&aliases, session);
    sql = pal_sql_start(conn, PAL_SQL_SESSION_SET_ALIASES);
    pal_sql_bind_int(&sql, head->handle);
    pal_sql_bind_text(&sql, pal_buf_str(&aliases));
    pal_sql_bind_int(&sql, session->is_routed);
    pal_sql_bind_text(&sql, session->alias_apart);
    if (aliases.failure)
        sql.code = SQLITE_NOMEM;
    status = pal_sql_run(&sql, &work->op->error);
    pal_buf_done(&aliases);
    return status;
}

static pal_status check_update(pal_sql_conn *conn, pal_work *work, const pal_sqlite_head *head)
{
    const pal_session *session = work->op->u.update.session;
    uint32_t fields = work->op->u.update.fields;

    if (fields & PAL_SESSION_FIELD_KEY) {
        pal_status status =
                pal_sqlite_key_check(conn, work, head->tenant, session->key, head->handle);

        if (status != PAL_OK)
            return status;
    }
    if (fields & PAL_SESSION_FIELD_ALIASES)
        return pal_sqlite_aliases_check(conn, work, head->tenant, session, head->handle);
    return PAL_OK;
}

/* Writes the members that have a text column each. Projects and agents are stored as numbers. */
static pal_status write_texts(pal_sql_conn *conn, pal_work *work, int64_t handle)
{
    const pal_session *session = work->op->u.update.session;
    const struct {
        uint32_t field;
        pal_sql_id statement;
        pal_str text;
        bool is_name;
    } columns[] = {
            {PAL_SESSION_FIELD_TITLE, PAL_SQL_SESSION_SET_TITLE, session->title, false},
            {PAL_SESSION_FIELD_METADATA, PAL_SQL_SESSION_SET_METADATA, session->metadata, false},
            {PAL_SESSION_FIELD_SCOPE, PAL_SQL_SESSION_SET_SCOPE, session->scope, false},
            {PAL_SESSION_FIELD_KEY, PAL_SQL_SESSION_SET_KEY, session->key, false},
            {PAL_SESSION_FIELD_PROJECT, PAL_SQL_HEAD_PROJECT, session->project, true},
            {PAL_SESSION_FIELD_AGENT, PAL_SQL_HEAD_AGENT, session->agent, true},
    };

    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        pal_status status;

        if (!(work->op->u.update.fields & columns[i].field))
            continue;
        if (columns[i].is_name)
            status = set_name(conn, work, columns[i].statement, handle, columns[i].text);
        else
            status = set_text(conn, work, columns[i].statement, handle, columns[i].text);
        if (status != PAL_OK)
            return status;
    }
    return PAL_OK;
}

static pal_status write_update(pal_sql_conn *conn, pal_work *work, const pal_sqlite_head *head)
{
    const pal_session *session = work->op->u.update.session;
    uint32_t fields = work->op->u.update.fields;
    int64_t handle = head->handle;
    pal_status status = write_texts(conn, work, handle);

    if (status != PAL_OK)
        return status;
    if (fields & PAL_SESSION_FIELD_EXPIRES_AT) {
        status = set_number(conn, work, PAL_SQL_SESSION_SET_EXPIRY, handle, session->expires_at);
        if (status != PAL_OK)
            return status;
    }
    if (fields & PAL_SESSION_FIELD_ALIASES) {
        status = set_aliases(conn, work, head, session);
        if (status != PAL_OK)
            return status;
    }
    if (fields & PAL_SESSION_FIELD_UPDATED_AT)
        return set_number(conn, work, PAL_SQL_HEAD_TOUCH, handle, session->updated_at);
    return pal_sqlite_touch(conn, work, handle);
}

pal_status pal_sqlite_update(pal_sql_conn *conn, pal_work *work)
{
    bool renews = (work->op->u.update.fields & PAL_SESSION_FIELD_EXPIRES_AT) != 0;
    pal_sqlite_head head = {0};
    pal_status status = pal_sqlite_head_get(conn, work, PAL_NEED_EXISTING, &head);

    if (status != PAL_OK)
        return status;
    /* An expired session can be extended until the sweep has moved it. */
    if (renews)
        head.expires_at = 0;
    status = pal_sqlite_head_check(work, &head);
    if (status != PAL_OK)
        return status;
    status = check_update(conn, work, &head);
    return status == PAL_OK ? write_update(conn, work, &head) : status;
}
