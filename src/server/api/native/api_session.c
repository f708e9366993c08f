/* api_session.c - sessions: create, read, list, update, delete (move to the trash), restore,
 * erase. */
#include "server/api/native/api_session.h"

#include <stdio.h>
#include "base/json/json_put.h"
#include "base/text.h"
#include "dialect/dialect_member.h"
#include "dialect/native/native.h"
#include "palaver/note.h"
#include "server/api/api_object.h"
#include "server/api/native/api_native.h"
#include "server/api/native/api_turn.h"
#include "server/server_call.h"

/* A session without a title is shown with the beginning of its first user message. */
static pal_status show_session(pal_call *call, pal_session *session, pal_error *err)
{
    pal_status status = pal_store_title(
            call->server->store, session, call->arena, &session->title, err);
    if (status != PAL_OK)
        return status;
    return pal_native_session_show(pal_call_writer(call), session, err);
}

/* ---- Answering after a write ---- */

typedef struct pal_session_answer {
    pal_id id;
    unsigned code;
} pal_session_answer;

static void send_session(pal_exchange *x)
{
    pal_call *call = x->call;
    const pal_session_answer *answer = call->user;
    pal_session session;
    pal_error err = {0};
    char id[PAL_ID_TEXT_SIZE];
    pal_id_to_text(answer->id, id);
    pal_status status = pal_store_find(call->server->store, call->caller.tenant, PAL_SESSION_BY_ID,
            pal_str_of(id), call->arena, &session, &err);
    if (status == PAL_OK)
        status = show_session(call, &session, &err);
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

/* Responds with 200 and the session of the first operation, or with the first failure. */
static void send_changed(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    status = pal_api_ops_failure(ops, ops_len, status, err, &err);
    if (status == PAL_OK)
        pal_api_session_send(call, ops[0].session, 200);
    else
        pal_call_fail(call, status, err);
}

/* ---- Creating ---- */

const pal_api_object pal_api_session_settings = {
        .members = PAL_API_MEMBERS(
                {"key", PAL_API_TEXT, "a unique name", .offset = offsetof(pal_api_session_request,
                        session.key)},
                {"aliases", PAL_API_LIST, .help = "more names; each one finds the session"},
                {"title", PAL_API_TEXT, "a title for people",
                        .offset = offsetof(pal_api_session_request, session.title)},
                {"project", PAL_API_TEXT, "the project that the session belongs to",
                        .offset = offsetof(pal_api_session_request, session.project)},
                {"agent", PAL_API_TEXT, "the agent that answers",
                        .offset = offsetof(pal_api_session_request, session.agent)},
                {"metadata", PAL_API_JSON_OBJECT, "data of the client",
                        .offset = offsetof(pal_api_session_request, session.metadata)},
                {"scope", PAL_API_JSON_OBJECT, "the values that routing chose the session by",
                        .offset = offsetof(pal_api_session_request, session.scope)},
                {"expires_at", PAL_API_TIME, "when the session moves to the trash",
                        .offset = offsetof(pal_api_session_request, session.expires_at)},
                {"expires_in", PAL_API_COUNT, "seconds until the session moves to the trash",
                        .offset = offsetof(pal_api_session_request, expires_in),
                        .max = PAL_SERVER_EXPIRES_IN_S_MAX})};

static const pal_api_object new_session_body = {"NewSessionRequest",
        .members = PAL_API_MEMBERS(
                {"or_find", PAL_API_FLAG, "whether to return the session if the key is in use",
                        .offset = offsetof(pal_api_session_request, or_find)},
                {"message", PAL_API_VALUE, .schema = "{\"type\":\"string\"}"},
                {.type = PAL_API_INCLUDE, .of = &pal_api_session_settings})};

static pal_status read_aliases(pal_call *call, pal_json value, pal_session *session, pal_error *err)
{
    pal_json item;
    pal_json_iter each = pal_json_each(value);
    pal_json_type type = pal_json_type_of(value);
    if (type == PAL_JSON_NONE || type == PAL_JSON_NULL)
        return PAL_OK;
    call->fail_param = "aliases";
    if (type != PAL_JSON_ARRAY)
        return pal_error_set(err, PAL_INVALID, "'aliases' must be an array of strings");
    session->aliases =
            pal_arena_array(call->arena, pal_json_count(value) + 1, sizeof *session->aliases);
    while (session->aliases && pal_json_next(&each, NULL, &item)) {
        if (pal_json_type_of(item) != PAL_JSON_STRING)
            return pal_error_set(err, PAL_INVALID, "'aliases' must be an array of strings");
        session->aliases[session->aliases_len++] = pal_json_string(item, call->arena);
    }
    call->fail_param = NULL;
    return pal_arena_checked(call->arena, err);
}

pal_status pal_api_session_read(pal_call *call, const pal_api_object *body,
        pal_api_session_request *request, pal_error *err)
{
    pal_status status = pal_api_object_read(call, call->body, body, request, err);
    if (status != PAL_OK)
        return status;
    if (request->expires_in && request->session.expires_at) {
        call->fail_param = "expires_in";
        return pal_error_set(
                err, PAL_INVALID, "send either 'expires_at' or 'expires_in', not both");
    }
    if (request->expires_in)
        request->session.expires_at =
                pal_store_clock_ms(call->server->store) + (int64_t)request->expires_in * 1000;
    request->session.tenant = call->caller.tenant;
    return read_aliases(call, pal_json_find(call->body, "aliases"), &request->session, err);
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
    pal_api_session_request *request = pal_arena_array(call->arena, 1, sizeof *request);
    pal_op *op = pal_arena_array(call->arena, 1, sizeof *op);
    if (!request || !op)
        return pal_arena_checked(call->arena, err);
    pal_status status = pal_api_session_read(call, &new_session_body, request, err);
    if (status != PAL_OK)
        return status;
    if (pal_api_session_has_message(call))
        return pal_api_session_chat(call, &request->session, err);
    request->session.id = pal_call_derived_id(call, 0);
    *op = request->or_find ? pal_op_find_or_create(&request->session)
                           : pal_op_create(&request->session);
    return pal_call_apply(call, op, 1, created, err);
}

/* ---- Reading ---- */

static pal_status get_session(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status != PAL_OK)
        return status;
    status = show_session(call, &session, err);
    if (status != PAL_OK)
        return status;
    pal_call_send(call, 200);
    return PAL_OK;
}

static const pal_api_object list_query = {
        .members = PAL_API_MEMBERS(
                {"limit", PAL_API_COUNT32, "maximum number of sessions",
                        .offset = offsetof(pal_session_query, limit), .min = 1,
                        .max = PAL_SESSION_PAGE_MAX},
                {"cursor", PAL_API_TEXT, "cursor of the previous page",
                        .offset = offsetof(pal_session_query, cursor)},
                {"state", PAL_API_WORD, "state of the sessions",
                        .offset = offsetof(pal_session_query, state), .min = PAL_SESSION_ACTIVE,
                        .words = "active trash quarantined"},
                {"project", PAL_API_TEXT, "only sessions of this project",
                        .offset = offsetof(pal_session_query, project)},
                {"agent", PAL_API_TEXT, "only sessions of this agent",
                        .offset = offsetof(pal_session_query, agent)},
                {"updated_from", PAL_API_TIME,
                        "changed at or after this time: RFC 3339, or milliseconds since 1970",
                        .offset = offsetof(pal_session_query, updated_from)},
                {"updated_to", PAL_API_TIME, "changed before this time",
                        .offset = offsetof(pal_session_query, updated_to)},
                {"q", PAL_API_TEXT, "words that must all be in the title or the key",
                        .offset = offsetof(pal_session_query, text)},
                {"parent", PAL_API_VALUE, "only forks of this session",
                        .schema = "{\"type\":\"string\"}"},
                {"root", PAL_API_FLAG, "only sessions that are not forks",
                        .offset = offsetof(pal_session_query, root_only)})};

static pal_status list_sessions(pal_call *call, pal_error *err)
{
    pal_session_query query = {
            .tenant = call->caller.tenant, .limit = PAL_SESSION_PAGE_DEFAULT, .titled = true};
    pal_session parent = {0};
    pal_session_page page;
    pal_str name;
    pal_status status = pal_api_query_read(call, &list_query, &query, err);
    if (status == PAL_OK && pal_exchange_query(call->exchange, "parent", &name))
        status = pal_call_session(call, name, &parent, err);
    if (status != PAL_OK)
        return status;
    query.parent = parent.id;
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

static const pal_api_object update_body = {"SessionRequest",
        .members = PAL_API_MEMBERS(
                {.type = PAL_API_INCLUDE, .of = &pal_api_session_settings})};

static pal_status update_session(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_api_session_request *request = pal_arena_array(call->arena, 1, sizeof *request);
    pal_op *op = pal_arena_array(call->arena, 1, sizeof *op);
    if (!request || !op)
        return pal_arena_checked(call->arena, err);
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status != PAL_OK)
        return status;
    uint32_t fields = fields_of(call->body);
    if (fields == 0)
        return pal_error_set(err, PAL_INVALID,
                "no member to change; send title, project, agent, metadata, scope, expires_at, "
                "expires_in, key or aliases");
    status = pal_api_session_read(call, &update_body, request, err);
    if (status != PAL_OK)
        return status;
    request->session.id = session.id;
    *op = pal_op_update(&request->session, fields);
    return pal_call_apply(call, op, 1, send_changed, err);
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
    pal_session session;
    pal_op *op = pal_arena_array(call->arena, 1, sizeof *op);
    if (!op)
        return pal_arena_checked(call->arena, err);
    /* A session in the trash cannot be deleted again, except by a repetition of the request that
     * deleted it. */
    pal_status status = call->is_repeat
            ? pal_call_session(call, call->params[0], &session, err)
            : pal_api_active_session(call, call->params[0], &session, err);
    if (status != PAL_OK)
        return status;
    *op = pal_op_delete(call->caller.tenant, session.id);
    return pal_call_apply(call, op, 1, deleted, err);
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
                PAL_EXCERPT(name, 120), found);
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
    pal_id session;
    pal_op *op = pal_arena_array(call->arena, 1, sizeof *op);
    if (!op)
        return pal_arena_checked(call->arena, err);
    pal_status status = pal_api_session_or_trash(call, &session, err);
    if (status != PAL_OK)
        return status;
    *op = pal_op_restore(call->caller.tenant, session);
    return pal_call_apply(call, op, 1, send_changed, err);
}

static void put_erasure(pal_call *call, pal_id session, const pal_erase_result *erasure)
{
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
            {"checkpoints", erasure->checkpoints},
    };
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    put_status(writer, "erased", session);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        pal_put_count(writer, counts[i].name, counts[i].count);
    }
    pal_json_end_object(writer);
    pal_call_send(call, 200);
}

static void erased(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    status = pal_api_ops_failure(ops, ops_len, status, err, &err);
    if (status != PAL_OK)
        pal_call_fail(call, status, err);
    else
        put_erasure(call, ops[0].session, ops[0].u.erasure);
}

static pal_status erase_message(pal_call *call, pal_error *err)
{
    pal_erase_result erasure = {0};
    pal_session session;
    uint64_t seq;
    if (!pal_call_number(call->params[1], &seq))
        return pal_error_set(err, PAL_INVALID, "the path must have the seq of a message");
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status == PAL_OK)
        status = pal_note_erase_message(call->server->store, call->caller.tenant, session.id, seq,
                &erasure, NULL, err);
    if (status == PAL_OK)
        put_erasure(call, session.id, &erasure);
    return status;
}

static pal_status erase_session(pal_call *call, pal_error *err)
{
    pal_erase_result *erasure = pal_arena_array(call->arena, 1, sizeof *erasure);
    pal_op *op = pal_arena_array(call->arena, 1, sizeof *op);
    pal_session session;
    if (!erasure || !op)
        return pal_arena_checked(call->arena, err);
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status != PAL_OK)
        return status;
    *op = pal_op_erase(call->caller.tenant, session.id, erasure);
    return pal_call_apply(call, op, 1, erased, err);
}

/* ---- Routes ---- */

const pal_api_object pal_api_session_body = {"Session", .written = &pal_native_session_table,
        .members = PAL_API_MEMBERS(
                {"session_id", PAL_API_TEXT, .is_required = true},
                {"message_count", PAL_API_COUNT, .is_required = true},
                {"id", PAL_API_TEXT, .is_required = true},
                {"state", PAL_API_WORD, .words = "active trash quarantined erased"},
                {"aliases", .type = PAL_API_LIST},
                {"created_at", PAL_API_TIME, .is_required = true})};

static const pal_api_object session_page_body = {"SessionPage",
        .members = PAL_API_MEMBERS(
                {"sessions", PAL_API_LIST, .of = &pal_api_session_body, .is_required = true},
                {"has_more", PAL_API_FLAG, .is_required = true},
                {"cursor", PAL_API_TEXT, .is_required = true, .is_nullable = true})};

static const pal_api_object session_status_body = {"SessionStatus",
        .members = PAL_API_MEMBERS(
                {"status", PAL_API_TEXT, .is_required = true},
                {"session_id", PAL_API_TEXT, .is_required = true})};

static const pal_api_object erasure_body = {"Erasure",
        .members = PAL_API_MEMBERS(
                {.type = PAL_API_INCLUDE, .of = &session_status_body},
                {"messages", PAL_API_COUNT, .is_required = true},
                {"shared", .type = PAL_API_COUNT},
                {"marks", .type = PAL_API_COUNT},
                {"blobs", .type = PAL_API_COUNT},
                {"aliases", .type = PAL_API_COUNT},
                {"inbox", .type = PAL_API_COUNT},
                {"ledger", .type = PAL_API_COUNT},
                {"records", .type = PAL_API_COUNT},
                {"checkpoints", .type = PAL_API_COUNT})};

const pal_api_route pal_session_routes[] = {
        {"POST", "/api/v1/sessions", PAL_KEY_WRITE, PAL_API_JSON, create_session,
                {"createSession",
                        "create a session; with a message, also answer it like /chat", NULL,
                        &new_session_body, &pal_api_session_body, 201}},
        {"GET", "/api/v1/sessions", PAL_KEY_READ, PAL_API_WORKER, list_sessions,
                {"listSessions", "list sessions, newest update first",
                        &list_query, NULL, &session_page_body, 200}},
        {"GET", "/api/v1/sessions/{id}", PAL_KEY_READ, 0, get_session,
                {"getSession", "read one session by id, key or alias", NULL, NULL,
                        &pal_api_session_body, 200}},
        {"PATCH", "/api/v1/sessions/{id}", PAL_KEY_WRITE, PAL_API_JSON, update_session,
                {"updateSession", "update only the given members", NULL, &update_body,
                        &pal_api_session_body, 200}},
        {"DELETE", "/api/v1/sessions/{id}", PAL_KEY_WRITE, 0, delete_session,
                {"deleteSession", "move a session to the trash", NULL, NULL,
                        &session_status_body, 200}},
        {"POST", "/api/v1/sessions/{id}/restore", PAL_KEY_WRITE, PAL_API_WORKER,
                restore_session,
                {"restoreSession", "restore a session from the trash", NULL, NULL,
                        &pal_api_session_body, 200}},
        {"POST", "/api/v1/sessions/{id}/erase", PAL_KEY_ADMIN, 0, erase_session,
                {"eraseSession",
                        "erase a session for good, with everything derived from it", NULL, NULL,
                        &erasure_body, 200}},
        {"POST", "/api/v1/sessions/{id}/messages/{seq}/erase", PAL_KEY_ADMIN, PAL_API_WORKER,
                erase_message,
                {"eraseMessage",
                        "erase the contents of a message, with everything derived from it", NULL,
                        NULL, &erasure_body, 200}},
        {0},
};
