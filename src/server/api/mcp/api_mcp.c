/* api_mcp.c - MCP over streamable HTTP, at /mcp. Every message is a POST request with a JSON
 * response. A message that runs a turn gets an event stream, if the client accepts one.
 *
 * The protocol has two eras (mcp.h). In the old era a client gets a session from
 * `initialize` and sends its id with every later request. In the new era each request is complete,
 * and its headers repeat members of its body. The server never sends messages on its own, so it
 * refuses GET, as the protocol allows.
 *
 * A job (mcp.h) writes the messages of a turn, and a run (run.h) runs it and delivers them. The
 * functions of the job are called with the run's lock held. */
#include "server/api/mcp/api_mcp.h"

#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/text.h"
#include "dialect/dialect_base64.h"
#include "dialect/dialect_member.h"
#include "mcp/mcp.h"
#include "server/access/access_auth.h"
#include "server/api/api_object.h"
#include "server/run/run.h"
#include "server/server_call.h"
#include "server/server_settings.h"

#define NEW_VERSION "2026-07-28"
#define SESSION_HEADER "mcp-session-id"

struct pal_mcp_service {
    pal_mcp_host *host;
    pal_mcp_sessions *sessions;
};

/* ---- The service ---- */

static pal_runtime *runtime_of(void *user, pal_error *err)
{
    const pal_server *server = user;
    (void)err;
    return server->runtime;
}

pal_mcp_service *pal_mcp_service_new(pal_server *server)
{
    pal_mcp_host_options options = {.store = server->store, .runtime = runtime_of, .user = server};
    pal_mcp_service *service = pal_calloc(1, sizeof *service);
    if (!service)
        return NULL;
    service->host = pal_mcp_host_new(&options);
    service->sessions = pal_mcp_sessions_new();
    if (service->host && service->sessions)
        return service;
    pal_mcp_service_free(service);
    return NULL;
}

void pal_mcp_service_free(pal_mcp_service *service)
{
    if (!service)
        return;
    pal_mcp_host_free(service->host);
    pal_mcp_sessions_free(service->sessions);
    pal_free(service);
}

/* ---- The response of a turn ---- */

typedef struct mcp_run {
    pal_run run;
    pal_mcp_job *job; /* it is freed when the turn has ended */
    bool wants_stream;
} mcp_run;

static void say(void *user, pal_str message, bool is_last)
{
    pal_run *run = user;
    pal_buf frame;
    if (run->call && is_last) {
        pal_call *call = pal_run_take_call(run);
        pal_json_put_raw(pal_call_writer(call), message);
        pal_call_send(call, 200);
    }
    if (!run->stream)
        return;
    pal_buf_init(&frame, message.len + 64);
    pal_buf_append_text(&frame, "event: message\ndata: ");
    pal_buf_append_str(&frame, message);
    pal_buf_append_text(&frame, "\n\n");
    (void)pal_run_write(run, &frame);
    pal_buf_done(&frame);
}

static void end(void *user)
{
    pal_run *run = user;
    pal_error err;
    if (!run->call)
        return;
    pal_call *call = pal_run_take_call(run);
    call->fail_code = 503;
    pal_error_set(&err, PAL_CANCELED, "the turn was canceled, or its answer was lost");
    pal_call_fail(call, PAL_CANCELED, &err);
}

static void started(pal_run *run, const pal_turn_info *info)
{
    mcp_run *m = (mcp_run *)run;
    if (!pal_mcp_job_begin(m->job, info) || (m->wants_stream && !pal_run_open(run)))
        pal_run_abandon(run);
}

static void event(pal_run *run, const pal_event *event)
{
    pal_mcp_job_event(((mcp_run *)run)->job, event);
}

static void ended(pal_run *run, const pal_event *last)
{
    pal_mcp_job_end(((mcp_run *)run)->job, last);
}

static void refused(pal_run *run, const pal_error *err)
{
    const pal_event last = {.state = PAL_TURN_FAILED,
            .status = err->status,
            .text = pal_str_of(err->message)};
    ended(run, &last);
}

/* In the old era a disconnect does not cancel the turn: its answer is stored in the
 * conversation. */
static pal_status start(
        void *user, pal_mcp_job *job, const pal_turn_request *request, pal_error *err)
{
    static const pal_run_handlers handlers = {.refused = refused,
            .started = started,
            .event = event,
            .done = ended,
            .failed = ended};
    static const char type[] = "text/event-stream";
    pal_call *call = user;
    pal_str accept = pal_exchange_header(call->exchange, "accept");
    mcp_run *m = pal_run_new(call, &handlers, sizeof *m);
    if (!m)
        return pal_no_memory(err);
    m->job = job;
    m->wants_stream = accept.len && memmem(accept.data, accept.len, type, sizeof type - 1);
    m->run.leave = pal_mcp_job_is_new(job) ? PAL_RUN_ABANDON : PAL_RUN_CONTINUE;
    pal_mcp_job_set_user(job, m);
    pal_run_start(&m->run, request);
    return PAL_OK;
}

static const pal_mcp_events http_events = {.start = start, .on_message = say, .on_end = end};

/* ---- Errors ---- */

static unsigned http_code(int code, bool is_new)
{
    switch (code) {
    case 0:
        return 200;
    case PAL_RPC_PARSE_ERROR:
    case PAL_RPC_INVALID_REQUEST:
        return 400;
    case PAL_RPC_NO_METHOD:
        return is_new ? 404 : 200;
    default:
        return is_new ? 400 : 200;
    }
}

static pal_status send_error(pal_call *call, unsigned status, pal_str id, int code, const char *why)
{
    pal_mcp_rpc_put_error(pal_call_writer(call), id, code, why);
    pal_call_send(call, status);
    return PAL_OK;
}

/* Writes an error that occurred outside of the MCP methods. Its codes are those of HTTP, which are
 * outside the range that the protocol reserves. */
static void put_failure(pal_call *call, const pal_failure *failure, pal_json_writer *writer)
{
    pal_json_begin_object(writer);
    pal_put_text(writer, "jsonrpc", "2.0");
    pal_json_name(writer, "error");
    pal_json_begin_object(writer);
    pal_put_count(writer, "code", failure->code);
    pal_put_str(writer, "message", failure->message);
    pal_json_name(writer, "data");
    pal_json_begin_object(writer);
    if (failure->name.len)
        pal_put_str(writer, "code", failure->name);
    else
        pal_put_text(writer, "code", pal_status_name(failure->status));
    pal_put_str(writer, "request_id", call->exchange->id);
    pal_json_end_object(writer);
    pal_json_end_object(writer);
    pal_json_end_object(writer);
}

/* ---- Origins and sessions ---- */

/* Also applies if the server has keys: the protocol requires this check against DNS rebinding. */
static pal_status check_origin(pal_call *call, pal_error *err)
{
    pal_str origin = call->exchange->headers.origin;
    if (origin.len == 0)
        return PAL_OK;
    if (pal_server_settings_allows(call->server->settings, origin)) {
        pal_exchange_add_header(
                call->exchange, "access-control-expose-headers", pal_str_of(SESSION_HEADER));
        return PAL_OK;
    }
    if (pal_auth_origin_is_own(call, origin, true))
        return PAL_OK;
    return pal_call_refuse(call, 403, "forbidden", PAL_DENIED, err,
            "origin '%.*s' is not allowed; add it to server.cors_origins", PAL_EXCERPT(origin, 80));
}

static pal_status check_session(pal_call *call, pal_str *out_id, pal_error *err)
{
    pal_str id = pal_exchange_header(call->exchange, SESSION_HEADER);
    if (id.len == 0)
        return pal_call_refuse(call, 400, "no_session", PAL_INVALID, err,
                "header Mcp-Session-Id is missing; send 'initialize' first and use the id of its "
                "response, or set the protocol version in '_meta' to " NEW_VERSION);
    if (!pal_mcp_sessions_use(call->server->mcp->sessions, call->caller.tenant, id))
        return pal_call_refuse(call, 404, "session_not_found", PAL_NOT_FOUND, err,
                "the MCP session does not exist or has ended; send 'initialize' again");
    *out_id = id;
    return PAL_OK;
}

/* ---- Headers of the new era ---- */

/* A value with characters that a header cannot contain is sent as base64. */
static pal_str decode_header(pal_call *call, pal_str value)
{
    static const char start[] = "=?base64?", end[] = "?=";
    size_t start_len = sizeof start - 1, end_len = sizeof end - 1;
    pal_str decoded;
    if (value.len < start_len + end_len || !pal_text_begins(value, start) ||
            !pal_text_ends(value, end))
        return value;
    pal_str inner = pal_str_make(value.data + start_len, value.len - start_len - end_len);
    return pal_base64_decode(inner, call->arena, &decoded) ? decoded : value;
}

/* Returns the error for the first header that differs from the body; NULL if all match. */
static const char *find_mismatch(pal_call *call, const pal_rpc_message *message)
{
    pal_exchange *x = call->exchange;
    if (!pal_str_equal(pal_exchange_header(x, "mcp-protocol-version"), message->version))
        return "Header mismatch: MCP-Protocol-Version must be the revision in _meta";
    if (message->id.len == 0)
        return NULL;
    if (!pal_str_equal(pal_exchange_header(x, "mcp-method"), message->method))
        return "Header mismatch: Mcp-Method must be the request's method";
    if (!pal_str_is(message->method, "tools/call"))
        return NULL;
    pal_str name = pal_json_string(pal_json_find(message->params, "name"), call->arena);
    if (!pal_str_equal(decode_header(call, pal_exchange_header(x, "mcp-name")), name))
        return "Header mismatch: Mcp-Name must be the name of the tool";
    return NULL;
}

/* ---- Messages ---- */

static pal_status begin_session(pal_call *call, pal_error *err)
{
    char id[PAL_MCP_SESSION_ID_SIZE];
    if (!pal_mcp_sessions_add(call->server->mcp->sessions, call->caller.tenant, id))
        return pal_no_memory(err);
    pal_exchange_add_header(call->exchange, SESSION_HEADER, pal_str_of(id));
    return PAL_OK;
}

static pal_status send_outcome(pal_call *call, const pal_rpc_message *message,
        pal_mcp_outcome outcome, int code, pal_error *err)
{
    if (outcome == PAL_MCP_NOTED) {
        pal_exchange_answer(call->exchange, 202, NULL, (pal_str){0});
        return PAL_OK;
    }
    bool is_hello = code == 0 && !message->is_new && pal_str_is(message->method, "initialize");
    pal_status status = is_hello ? begin_session(call, err) : PAL_OK;
    if (status == PAL_OK)
        pal_call_send(call, http_code(code, message->is_new));
    return status;
}

static pal_status take(
        pal_call *call, const pal_rpc_message *message, pal_str session, pal_error *err)
{
    int code;
    pal_mcp_peer peer = {
            .tenant = call->caller.tenant,
            .can_write = call->caller.role >= PAL_KEY_WRITE,
            .budget = call->caller.budget,
            .scope = session,
    };
    pal_mcp_outcome outcome = pal_mcp_host_handle(call->server->mcp->host, &peer, message,
            &http_events, call, call->arena, pal_call_writer(call), &code);
    if (outcome == PAL_MCP_LATER)
        return PAL_OK; /* the call may already be freed */
    return send_outcome(call, message, outcome, code, err);
}

static pal_status take_old(pal_call *call, const pal_rpc_message *message, pal_error *err)
{
    pal_str session = {0};
    pal_str version = pal_exchange_header(call->exchange, "mcp-protocol-version");
    if (pal_str_is(version, NEW_VERSION) && message->id.len)
        return send_error(call, 400, message->id, PAL_RPC_INVALID_PARAMS,
                "'_meta' must contain 'io.modelcontextprotocol/protocolVersion'");
    if (pal_str_is(version, NEW_VERSION))
        return send_outcome(call, message, PAL_MCP_NOTED, 0, err);
    if (version.len && !pal_mcp_knows_revision(version))
        return send_error(call, 400, message->id, PAL_RPC_INVALID_REQUEST,
                "MCP-Protocol-Version is not a supported revision");
    if (!pal_str_is(message->method, "initialize")) {
        pal_status status = check_session(call, &session, err);
        if (status != PAL_OK)
            return status;
    }
    return take(call, message, session, err);
}

static pal_status post_message(pal_call *call, pal_error *err)
{
    pal_rpc_message message;
    pal_error wrong = {0};
    pal_status status = check_origin(call, err);
    if (status != PAL_OK)
        return status;
    call->is_mixed = true; /* the response can show any session */
    int code = pal_mcp_rpc_read(call->arena, pal_buf_str(&call->exchange->body), &message, &wrong);
    if (code)
        return send_error(
                call, code == PAL_RPC_INTERNAL_ERROR ? 503 : 400, message.id, code, wrong.message);
    if (!message.is_new)
        return take_old(call, &message, err);
    const char *mismatch = find_mismatch(call, &message);
    if (mismatch)
        return send_error(call, 400, message.id, PAL_RPC_HEADER_MISMATCH, mismatch);
    /* Over HTTP, the new era has no notifications: a client cancels by closing the connection. */
    if (message.id.len == 0)
        return send_outcome(call, &message, PAL_MCP_NOTED, 0, err);
    return take(call, &message, (pal_str){0}, err);
}

static pal_status end_session(pal_call *call, pal_error *err)
{
    pal_str id;
    pal_mcp_service *service = call->server->mcp;
    pal_status status = check_origin(call, err);
    if (status == PAL_OK)
        status = check_session(call, &id, err);
    if (status != PAL_OK)
        return status;
    (void)pal_mcp_sessions_remove(service->sessions, call->caller.tenant, id);
    pal_mcp_host_cancel(service->host, id);
    pal_exchange_answer(call->exchange, 204, NULL, (pal_str){0});
    return PAL_OK;
}

/* Tools that write require a role other than 'read'. */
static const pal_api_route mcp_routes[] = {
        {"POST", "/mcp", PAL_KEY_READ, PAL_API_WORKER, post_message,
                {"mcp",
                        "send a message of the Model Context Protocol",
                        NULL, &pal_api_any_object, &pal_api_any_object, 200}},
        {"DELETE", "/mcp", PAL_KEY_READ, 0, end_session,
                {"endMcpSession", "end an MCP session", NULL, NULL, NULL, 204}},
        {0},
};

static const pal_api_route *const routes[] = {mcp_routes, NULL};

const pal_api pal_api_mcp = {
        .name = "mcp",
        .prefix = "/mcp",
        .routes = routes,
        .put_failure = put_failure,
};
