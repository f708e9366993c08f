/* api_session.c - sessions: create, read, list, update, delete (move to the trash), restore,
 * erase. */
#include "server/api/native/api_session.h"

#include <stdio.h>
#include "base/clock.h"
#include "base/json/json_put.h"
#include "dialect/dialect_member.h"
#include "dialect/native/native.h"
#include "server/api/native/api_native.h"
#include "server/api/native/api_turn.h"
#include "server/api/skillian/api_skillian.h"
#include "server/server_call.h"

/* ---- Answering after a write ---- */

typedef struct pal_session_answer {
    pal_id id;
    unsigned code;
} pal_session_answer;

static void send_session(pal_exchange *x)
{
    pal_call *call = pal_exchange_call(x);
    const pal_session_answer *answer = call->user;
    pal_session session;
    pal_error err = {0};
    char id[PAL_ID_TEXT_SIZE];
    pal_id_to_text(answer->id, id);
    pal_status status = pal_store_find(call->server->store, call->caller.tenant, PAL_SESSION_BY_ID,
            pal_str_of(id), call->arena, &session, &err);
    if (status == PAL_OK)
        status = pal_native_session_show(pal_call_writer(call), &session, &err);
    if (status == PAL_OK)
        pal_call_send(call, answer->code);
    else
        pal_call_fail(call, status, &err);
}

void pal_api_session_send(pal_call *call, pal_id session, unsigned code)
{
    pal_error err = {0};
    pal_session_answer *answer = pal_arena_array(call->arena, 1, sizeof *answer);
    if (!answer) {
        pal_call_fail(call, pal_arena_checked(call->arena, &err), &err);
        return;
    }
    answer->id = session;
    answer->code = code;
    call->user = answer;
    pal_exchange_to_worker(call->exchange, send_session);
}

pal_status pal_api_ops_failure(const pal_op *ops, size_t ops_len, pal_status status,
        const pal_error *err, const pal_error **out_error)
{
    *out_error = err;
    for (size_t i = 0; status == PAL_OK && i < ops_len; i++) {
        status = ops[i].status;
        *out_error = &ops[i].error;
    }
    return status;
}

void pal_api_session_changed(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    status = pal_api_ops_failure(ops, ops_len, status, err, &err);
    if (status == PAL_OK)
        pal_api_session_send(call, ops[0].session, 200);
    else
        pal_call_fail(call, status, err);
}

/* ---- Creating ---- */

static pal_status read_expiry(pal_call *call, pal_json object, pal_session *session, pal_error *err)
{
    uint64_t seconds = 0;
    pal_status status = pal_call_count(
            call, object, "expires_in", 0, PAL_SERVER_EXPIRES_IN_S_MAX, &seconds, err);
    if (status != PAL_OK || seconds == 0)
        return status;
    if (session->expires_at) {
        call->fail_param = "expires_in";
        return pal_error_set(err, PAL_INVALID,
                "send either 'expires_at' or 'expires_in', not both");
    }
    session->expires_at = pal_clock_now_ms() + (int64_t)seconds * 1000;
    return PAL_OK;
}

pal_status pal_api_session_read(
        pal_call *call, pal_json object, pal_session *out_session, pal_error *err)
{
    pal_session given = {0};
    pal_status status = pal_native_session_read(object, call->arena, &given, err);
    (void)pal_call_blame(call, status, err);
    if (status == PAL_OK && given.tenant.len && !pal_str_equal(given.tenant, call->caller.tenant)) {
        call->fail_param = "tenant";
        return pal_error_set(
                err, PAL_INVALID,
                "member 'tenant' is not allowed; the API key determines the tenant");
    }
    if (status == PAL_OK)
        status = read_expiry(call, object, &given, err);
    *out_session = (pal_session){
            .tenant = call->caller.tenant,
            .key = given.key,
            .aliases = given.aliases,
            .aliases_len = given.aliases_len,
            .title = given.title,
            .project = given.project,
            .agent = given.agent,
            .scope = given.scope,
            .metadata = given.metadata,
            .expires_at = given.expires_at,
    };
    return status;
}

static void created(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    status = pal_api_ops_failure(ops, ops_len, status, err, &err);
    if (status == PAL_OK)
        pal_api_session_send(call, ops[0].session, ops[0].u.create.existing ? 200 : 201);
    else
        pal_call_fail(call, status, err);
}

static pal_status create_session(pal_call *call, pal_error *err)
{
    bool or_find = false;
    pal_session *session = pal_arena_array(call->arena, 1, sizeof *session);
    pal_op *op = pal_arena_array(call->arena, 1, sizeof *op);
    if (!session || !op)
        return pal_arena_checked(call->arena, err);
    pal_status status = pal_api_session_read(call, call->body, session, err);
    if (status == PAL_OK)
        status = pal_call_flag(call, call->body, "or_find", &or_find, err);
    if (status != PAL_OK)
        return status;
    if (pal_api_session_has_message(call))
        return pal_api_session_chat(call, session, err);
    op->kind = PAL_OP_CREATE;
    op->tenant = call->caller.tenant;
    op->session = pal_call_derived_id(call, 0);
    op->u.create.session = session;
    op->u.create.or_find = or_find;
    return pal_call_apply(call, op, 1, created, err);
}

/* ---- Reading ---- */

static pal_status get_session(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status == PAL_OK)
        status = pal_native_session_show(pal_call_writer(call), &session, err);
    if (status == PAL_OK)
        pal_call_send(call, 200);
    return status;
}

static pal_status read_state(pal_call *call, pal_session_query *query, pal_error *err)
{
    pal_str text;
    if (!pal_exchange_query(call->exchange, "state", &text))
        return PAL_OK;
    query->state = pal_session_state_from_name(text);
    if (query->state != PAL_SESSION_NONE && query->state != PAL_SESSION_ERASED)
        return PAL_OK;
    call->fail_param = "state";
    return pal_error_set(err, PAL_INVALID, "'state' must be active, trash or quarantined");
}

static pal_status read_query(pal_call *call, pal_session_query *out_query, pal_error *err)
{
    uint64_t limit = PAL_SESSION_PAGE_DEFAULT;
    pal_session_query query = {.tenant = call->caller.tenant};
    (void)pal_exchange_query(call->exchange, "project", &query.project);
    (void)pal_exchange_query(call->exchange, "agent", &query.agent);
    (void)pal_exchange_query(call->exchange, "cursor", &query.cursor);
    pal_status status = read_state(call, &query, err);
    if (status == PAL_OK)
        status = pal_call_query_count(call, "limit", 1, PAL_SESSION_PAGE_MAX, &limit, err);
    if (status == PAL_OK)
        status = pal_call_query_time(call, "updated_from", &query.updated_from, err);
    if (status == PAL_OK)
        status = pal_call_query_time(call, "updated_to", &query.updated_to, err);
    query.limit = (uint32_t)limit;
    *out_query = query;
    return status;
}

static pal_status list_sessions(pal_call *call, pal_error *err)
{
    pal_session_query query;
    pal_session_page page;
    pal_status status = read_query(call, &query, err);
    if (status == PAL_OK)
        status = pal_store_list(call->server->store, &query, call->arena, &page, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_json_name(writer, "sessions");
    pal_json_begin_array(writer);
    for (size_t i = 0; status == PAL_OK && i < page.sessions_len; i++)
        status = pal_native_session_show(writer, &page.sessions[i], err);
    pal_json_end_array(writer);
    pal_put_flag(writer, "has_more", page.cursor.len > 0);
    pal_put_str_or_null(writer, "cursor", page.cursor);
    pal_json_end_object(writer);
    if (status == PAL_OK)
        pal_call_send(call, 200);
    return status;
}

/* ---- Updating and deleting ---- */

/* Returns the fields of the session that the request contains. null clears a field. */
static uint32_t fields_of(pal_json body)
{
    static const struct {
        const char *name;
        uint32_t field;
    } members[] = {
            {"title", PAL_SESSION_FIELD_TITLE},
            {"project", PAL_SESSION_FIELD_PROJECT},
            {"agent", PAL_SESSION_FIELD_AGENT},
            {"metadata", PAL_SESSION_FIELD_METADATA},
            {"scope", PAL_SESSION_FIELD_SCOPE},
            {"expires_at", PAL_SESSION_FIELD_EXPIRES_AT},
            {"expires_in", PAL_SESSION_FIELD_EXPIRES_AT},
            {"key", PAL_SESSION_FIELD_KEY},
            {"aliases", PAL_SESSION_FIELD_ALIASES},
    };
    uint32_t fields = 0;
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (pal_json_type_of(pal_json_find(body, members[i].name)) != PAL_JSON_NONE)
            fields |= members[i].field;
    return fields;
}

/* Creates an operation on the session that the path names. Returns NULL on failure, with the reason
 * in `err`. */
static pal_op *op_of(pal_call *call, pal_op_kind kind, pal_error *err)
{
    pal_session *session = pal_arena_array(call->arena, 1, sizeof *session);
    pal_op *op = pal_arena_array(call->arena, 1, sizeof *op);
    if (!session || !op) {
        (void)!pal_arena_checked(call->arena, err);
        return NULL;
    }
    /* A session in the trash cannot be deleted again, except by a repetition of the request that
     * deleted it. */
    bool is_any = kind != PAL_OP_DELETE || call->is_repeat;
    pal_status status = is_any ? pal_call_session(call, call->params[0], session, err)
                               : pal_api_active_session(call, call->params[0], session, err);
    if (status != PAL_OK)
        return NULL;
    op->kind = kind;
    op->tenant = call->caller.tenant;
    op->session = session->id;
    return op;
}

static pal_status update_session(pal_call *call, pal_error *err)
{
    pal_session *session = pal_arena_array(call->arena, 1, sizeof *session);
    pal_op *op = op_of(call, PAL_OP_UPDATE, err);
    if (!session || !op)
        return session ? err->status : pal_arena_checked(call->arena, err);
    uint32_t fields = fields_of(call->body);
    if (fields == 0)
        return pal_error_set(err, PAL_INVALID,
                "no member to change; send title, project, agent, metadata, scope, expires_at, "
                "expires_in, key or aliases");
    pal_status status = pal_api_session_read(call, call->body, session, err);
    if (status != PAL_OK)
        return status;
    session->id = op->session;
    op->u.update.session = session;
    op->u.update.fields = fields;
    return pal_call_apply(call, op, 1, pal_api_session_changed, err);
}

static void put_status(pal_json_writer *writer, const char *status, pal_id session)
{
    pal_put_text(writer, "status", status);
    pal_put_id(writer, "session_id", session);
}

static void deleted(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    status = pal_api_ops_failure(ops, ops_len, status, err, &err);
    if (status != PAL_OK) {
        pal_call_fail(call, status, err);
        return;
    }
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    put_status(writer, "deleted", ops[0].session);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
}

static pal_status delete_session(pal_call *call, pal_error *err)
{
    pal_op *op = op_of(call, PAL_OP_DELETE, err);
    return op ? pal_call_apply(call, op, 1, deleted, err) : err->status;
}

static bool has_name(const pal_session *session, pal_str name)
{
    bool is_named = pal_str_equal(session->key, name);
    for (size_t i = 0; !is_named && i < session->aliases_len; i++)
        is_named = pal_str_equal(session->aliases[i], name) &&
                !pal_str_equal(session->alias_apart, name);
    return is_named;
}

/* Keys and aliases do not find deleted sessions, so the trash is searched here. */
static pal_status find_in_trash(pal_call *call, pal_str name, pal_id *out_id, pal_error *err)
{
    pal_session_query query = {.tenant = call->caller.tenant,
            .state = PAL_SESSION_TRASH,
            .limit = PAL_SESSION_PAGE_MAX};
    pal_session_page page;
    size_t seen = 0, found = 0;
    do {
        pal_status status = pal_store_list(call->server->store, &query, call->arena, &page, err);
        if (status != PAL_OK)
            return status;
        for (size_t i = 0; i < page.sessions_len; i++) {
            if (has_name(&page.sessions[i], name) && found++ == 0)
                *out_id = page.sessions[i].id;
        }
        seen += page.sessions_len;
        query.cursor = page.cursor;
    } while (page.cursor.len && seen < PAL_SERVER_TRASH_SESSIONS_MAX);
    if (found > 1)
        return pal_error_set(err, PAL_CONFLICT,
                "'%.*s' is ambiguous: it matches %zu sessions in the trash; use an id",
                (int)(name.len < 120 ? name.len : 120), name.data, found);
    return found ? PAL_OK : pal_error_set(err, PAL_NOT_FOUND, "Session not found");
}

pal_status pal_api_session_or_trash(pal_call *call, pal_id *out_id, pal_error *err)
{
    pal_session session;
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status == PAL_OK)
        *out_id = session.id;
    return status == PAL_NOT_FOUND ? find_in_trash(call, call->params[0], out_id, err) : status;
}

static pal_status restore_session(pal_call *call, pal_error *err)
{
    pal_op *op = pal_arena_array(call->arena, 1, sizeof *op);
    if (!op)
        return pal_arena_checked(call->arena, err);
    op->kind = PAL_OP_RESTORE;
    op->tenant = call->caller.tenant;
    pal_status status = pal_api_session_or_trash(call, &op->session, err);
    if (status != PAL_OK)
        return status;
    return pal_call_apply(call, op, 1, pal_api_session_changed, err);
}

static void erased(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    status = pal_api_ops_failure(ops, ops_len, status, err, &err);
    if (status != PAL_OK) {
        pal_call_fail(call, status, err);
        return;
    }
    const pal_erase_result *erasure = ops[0].u.erasure;
    const struct {
        const char *name;
        uint64_t count;
    } counts[] = {
            {"messages", erasure->messages},
            {"shared", erasure->shared},
            {"marks", erasure->marks},
            {"blobs", erasure->blobs},
            {"aliases", erasure->aliases},
            {"inbox", erasure->inbox},
            {"ledger", erasure->ledger},
            {"records", erasure->records},
    };
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    put_status(writer, "erased", ops[0].session);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        pal_put_count(writer, counts[i].name, counts[i].count);
    }
    pal_json_end_object(writer);
    pal_call_send(call, 200);
}

static pal_status erase_session(pal_call *call, pal_error *err)
{
    pal_erase_result *erasure = pal_arena_array(call->arena, 1, sizeof *erasure);
    pal_op *op = op_of(call, PAL_OP_ERASE, err);
    if (!erasure || !op)
        return erasure ? err->status : pal_arena_checked(call->arena, err);
    op->u.erasure = erasure;
    return pal_call_apply(call, op, 1, erased, err);
}

const pal_api_route pal_session_routes[] = {
        {"POST", "/api/v1/sessions", PAL_KEY_WRITE, PAL_API_JSON, create_session,
                {"createSession",
                        "create a session; with a message, also answer it like /chat", NULL,
                        "NewSessionRequest", "Session", 201}},
        {"GET", "/api/v1/sessions", PAL_KEY_READ, PAL_API_WORKER, list_sessions,
                {"listSessions", "list sessions, newest update first",
                        "limit cursor state project agent updated_from updated_to", NULL,
                        "SessionPage", 200}},
        {"GET", "/api/v1/sessions/{id}", PAL_KEY_READ, 0, get_session,
                {"getSession", "read one session by id, key or alias", NULL, NULL, "Session", 200}},
        {"PATCH", "/api/v1/sessions/{id}", PAL_KEY_WRITE, PAL_API_JSON, update_session,
                {"updateSession", "update only the given members", NULL, "SessionRequest",
                        "Session", 200}},
        {"DELETE", "/api/v1/sessions/{id}", PAL_KEY_WRITE, 0, delete_session,
                {"deleteSession", "move a session to the trash", NULL, NULL, "SessionStatus", 200}},
        {"POST", "/api/v1/sessions/{id}/restore", PAL_KEY_WRITE, PAL_API_WORKER,
                restore_session,
                {"restoreSession", "restore a session from the trash", NULL, NULL, "Session", 200}},
        {"POST", "/api/v1/sessions/{id}/erase", PAL_KEY_ADMIN, 0, erase_session,
                {"eraseSession",
                        "erase a session for good, with everything derived from it", NULL, NULL,
                        "Erasure", 200}},
        {0},
};
