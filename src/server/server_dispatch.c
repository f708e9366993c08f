/* server_dispatch.c - leads a request to its handler, and records the request when it has ended.
 *
 * This runs on a thread of the listener. A long body is parsed on a worker, and a handler runs on a
 * worker if its route requires one. All refusals happen before the handler runs. The order of the
 * checks is: does the route exist, may the caller connect at all, does the server still accept
 * requests, is the key valid, is the rate within its limit. All these checks use the head only,
 * before a body is read. Then: can the body be parsed, are its members known, was the request
 * answered before. An invalid request can still become a 404 (server_subject.c). */
#include "server/server_internal.h"

#include <stdio.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "server/access/access_auth.h"
#include "server/access/access_rate.h"
#include "server/node/node.h"
#include "server/node/node_pass.h"
#include "server/observe/observe_metrics.h"
#include "server/server_idempotency.h"
#include "server/server_settings.h"

#define DRAIN_RETRY_MS 5000
#define TURNS_RETRY_MS 1000

/* ---- Finding the route ---- */

/* The API with the longest prefix that matches the path. */
static const pal_api *api_of(const pal_call *call)
{
    const pal_api *best = &pal_api_root;
    for (size_t i = 0; pal_apis[i]; i++) {
        const pal_api *api = pal_apis[i];
        if (strlen(api->prefix) <= strlen(best->prefix) ||
                !pal_text_begins(call->path, api->prefix))
            continue;
        if (!api->header || pal_exchange_header(call->exchange, api->header).len)
            best = api;
    }
    return best;
}

static void choose_api(pal_call *call)
{
    call->api = api_of(call);
    if (call->api->id_header)
        pal_exchange_add_header(
                call->exchange, call->api->id_header, call->exchange->id);
}

static pal_status decode_params(pal_call *call, const pal_match *match, pal_error *err)
{
    for (size_t i = 0; i < PAL_API_PARAMS_MAX && match->params[i].len; i++) {
        if (!pal_match_decode(call->arena, match->params[i], &call->params[i]))
            return pal_error_set(err, PAL_INVALID,
                    "the path contains a NUL, invalid UTF-8, or a '%%' without two hex digits");
    }
    return PAL_OK;
}

static bool is_known_path(pal_str method, pal_str path)
{
    static const pal_api *const apis[] = {&pal_api_openai, &pal_api_anthropic};
    pal_match match = {0};
    for (size_t i = 0; i < sizeof apis / sizeof *apis && !match.route && !match.allowed[0]; i++)
        pal_match_route(apis[i], method, path, &match);
    return match.route || match.allowed[0];
}

/* Some clients append "/v1" to the base URL and others do not, so it can be missing or doubled. */
static const char *remedy_for(pal_str method, pal_str path)
{
    static const char prefix[] = "/v1";
    size_t len = sizeof prefix - 1;
    char text[128];
    if (pal_text_begins(path, "/v1/v1/") && is_known_path(method, pal_text_after(path, len)))
        return "use a base URL without /v1";
    if (path.len + len <= sizeof text) {
        memcpy(text, prefix, len);
        memcpy(text + len, path.data, path.len);
        if (is_known_path(method, pal_str_make(text, path.len + len)))
            return "use a base URL that ends with /v1";
    }
    return "GET /openapi.json lists all routes";
}

static pal_status no_route(pal_call *call, const pal_match *match, pal_error *err)
{
    pal_str method = call->method;
    pal_str path = call->path;
    if (match->allowed[0]) {
        pal_exchange_add_header(call->exchange, "allow", pal_str_of(match->allowed));
        return pal_call_refuse(
                call, 405, "method_not_allowed", PAL_INVALID, err, "Method not allowed");
    }
    return pal_error_set(err, PAL_NOT_FOUND, "no route for %.*s %.*s; %s",
            PAL_EXCERPT(method, 16), PAL_EXCERPT(path, 120), remedy_for(method, path));
}

static pal_status find_route(pal_call *call, pal_match *out_match, pal_error *err)
{
    pal_str path = call->path;
    choose_api(call);
    pal_match_route(call->api, call->method, path, out_match);
    call->route = out_match->route;
    return call->route ? decode_params(call, out_match, err) : no_route(call, out_match, err);
}

/* ---- CORS ---- */

static void add_cors(pal_call *call)
{
    pal_exchange *x = call->exchange;
    pal_str origin = x->headers.origin;
    if (!origin.len || !pal_server_settings_allows(call->server->settings, origin))
        return;
    pal_exchange_add_header(x, "access-control-allow-origin", origin);
    pal_exchange_add_header(x, "vary", pal_str_of("origin"));
    pal_exchange_add_header(x, "access-control-expose-headers",
            pal_str_of("x-request-id, retry-after, idempotent-replayed"));
}

/* A browser sends OPTIONS before the request itself. no_route() has already set the `allow`
 * header. */
static void answer_options(pal_call *call, const pal_match *match)
{
    pal_exchange *x = call->exchange;
    pal_str origin = x->headers.origin;
    pal_str headers = pal_exchange_header(x, "access-control-request-headers");
    if (origin.len && pal_server_settings_allows(call->server->settings, origin)) {
        pal_exchange_add_header(x, "access-control-allow-methods", pal_str_of(match->allowed));
        if (headers.len)
            pal_exchange_add_header(x, "access-control-allow-headers", headers);
        pal_exchange_add_header(x, "access-control-max-age", pal_str_of("600"));
    }
    pal_exchange_answer(x, 204, NULL, (pal_str){0});
}

/* ---- The caller and its limits ---- */

/* Limits the turns and forwarded calls of one key that run or wait at the same time. */
static pal_status admit_turn(pal_call *call, pal_error *err)
{
    uint32_t max = call->server->settings->turns_per_key;
    pal_str key = call->caller.key_id;
    if (!(call->route->flags & PAL_API_TURN) || !key.len || !max ||
            pal_runtime_owned(call->server->runtime, key) < max)
        return PAL_OK;
    call->fail_retry_ms = TURNS_RETRY_MS;
    return pal_call_refuse(call, 429, "rate_limited", PAL_LIMIT, err,
            "this key already has %u running or waiting turns; retry when some have ended",
            (unsigned)max);
}

static pal_status admit(pal_call *call, pal_error *err)
{
    uint32_t rate;
    int64_t retry_ms = 0;
    if (call->route->role == PAL_KEY_NONE)
        return PAL_OK;
    pal_status status = pal_auth_caller(call, &rate, err);
    if (status != PAL_OK)
        return status;
    bool has_key = call->caller.key_id.len > 0;
    call->exchange->owner = call->caller.key_id;
    call->exchange->owner_streams_max = call->server->settings->streams_per_key;
    pal_str who = has_key ? call->caller.key_id : call->exchange->peer;
    /* The node that passed the request on has counted it. */
    if (call->is_passed)
        return admit_turn(call, err);
    /* The requests of a client are spread over the nodes, so each allows its share. */
    uint32_t nodes = rate ? (uint32_t)pal_nodes_count(call->server->nodes, PAL_NODE_RUNNING) : 1;
    if (nodes > 1)
        rate = rate > nodes ? rate / nodes : 1;
    if (pal_rate_take(call->server->rate, who, rate, pal_clock_monotonic_us(), &retry_ms))
        return admit_turn(call, err);
    call->fail_retry_ms = retry_ms;
    return pal_call_refuse(call, 429, "rate_limited", PAL_LIMIT, err,
            "rate limit of %u requests per minute exceeded; retry in %lld s", (unsigned)rate,
            (long long)((retry_ms + 999) / 1000));
}

/* ---- The body ---- */

static pal_status parse_body(pal_call *call, pal_error *err)
{
    pal_error inner = {0};
    pal_str body = pal_buf_str(&call->exchange->body);
    pal_str type = call->exchange->headers.content_type;
    bool is_any = call->route->flags & PAL_API_ANY_JSON;
    if (!(call->route->flags & (PAL_API_JSON | PAL_API_ANY_JSON)))
        return PAL_OK;
    /* Clients send JSON with various types: curl's default is "application/x-www-form-urlencoded".
     * So only a type that is never JSON is refused. */
    if (!is_any && pal_text_begins_nocase(type, "multipart/"))
        return pal_call_refuse(call, 415, "unsupported_media_type", PAL_INVALID, err,
                "the body must be JSON; send content-type application/json");
    pal_str encoding = call->exchange->headers.content_encoding;
    if (encoding.len && !pal_text_is_nocase(encoding, "identity"))
        return pal_call_refuse(call, 415, "unsupported_media_type", PAL_INVALID, err,
                "the body has the content-encoding '%.*s'; send it uncompressed",
                PAL_EXCERPT(encoding, 40));
    if (body.len == 0)
        body = pal_str_of("{}");
    pal_status status = pal_json_parse(call->arena, body, NULL, &call->body, &inner);
    bool is_object = status == PAL_OK && pal_json_type_of(call->body) == PAL_JSON_OBJECT;
    if (is_object)
        return PAL_OK;
    if (is_any && status != PAL_NO_MEMORY)
        return pal_json_parse(call->arena, pal_str_of("{}"), NULL, &call->body, err);
    if (status == PAL_OK)
        return pal_error_set(err, PAL_INVALID, "the body must be a JSON object, not %s",
                pal_json_type_name(pal_json_type_of(call->body)));
    if (status == PAL_NO_MEMORY)
        return pal_error_set(err, status, "out of memory");
    return pal_error_set(err, PAL_INVALID, "the body is not valid JSON: %.180s", inner.message);
}

/* ---- From the head to the handler ---- */

static void run_handler(pal_call *call)
{
    pal_error err = {0};
    pal_status status = call->route->handler(call, &err);
    /* After PAL_OK the call may no longer exist. */
    if (status != PAL_OK)
        pal_subject_fail(call, status, &err);
}

/* Whether the server stops and has no business with the request any more. Its own turns are its
 * business to their end. */
static bool is_too_late(const pal_call *call)
{
    return atomic_load(&call->server->is_draining) && call->route->role != PAL_KEY_NONE &&
            !call->is_passed && !pal_pass_is_own_turn(call);
}

static pal_status refuse_draining(pal_call *call, pal_error *err)
{
    call->fail_retry_ms = DRAIN_RETRY_MS;
    return pal_call_refuse(
            call, 503, "stopping", PAL_BUSY, err, "the server is stopping; retry later");
}

/* *out_answered: the response was sent, and nothing is left to do. */
static pal_status prepare(pal_call *call, bool *out_answered, pal_error *err)
{
    pal_match match;
    *out_answered = false;
    pal_status status = find_route(call, &match, err);
    add_cors(call);
    if (pal_str_is(call->method, "OPTIONS") && match.allowed[0]) {
        *out_answered = true;
        answer_options(call, &match);
        return PAL_OK;
    }
    if (status != PAL_OK)
        return status;
    call->is_passed = call->exchange->headers.pass_token.len && pal_pass_is_from_node(call);
    status = pal_auth_local(call, err);
    if (status != PAL_OK)
        return status;
    if (atomic_load(&call->server->is_draining))
        pal_exchange_add_header(call->exchange, "connection", pal_str_of("close"));
    if (is_too_late(call) && !pal_nodes_has_others(call->server->nodes))
        return refuse_draining(call, err);
    return admit(call, err);
}

/* *out_answered: the request was answered before, and the response was sent again. */
static pal_status read_request(pal_call *call, bool *out_answered, pal_error *err)
{
    *out_answered = false;
    pal_status status = parse_body(call, err);
    if (status != PAL_OK)
        return status;
    if (call->api->is_strict)
        status = pal_call_known(call, err);
    if (status != PAL_OK || !call->exchange->headers.idempotency_key.len)
        return status;
    return pal_idempotency_begin(call, out_answered, err);
}

/* Runs on a worker if the body is long. */
static void on_worker(pal_exchange *x)
{
    run_handler(x->call);
}

/* False: the handler must run on a worker. */
static bool try_memory(pal_call *call)
{
    pal_error err = {0};
    if (!(call->route->flags & PAL_API_MEMORY))
        return false;
    call->only_memory = true;
    pal_status status = call->route->handler(call, &err);
    /* After PAL_OK the call may no longer exist. */
    if (status == PAL_OK)
        return true;
    call->only_memory = false;
    if (status == PAL_BUSY)
        return false;
    pal_subject_fail(call, status, &err);
    return true;
}

static void take(pal_call *call)
{
    bool answered;
    pal_error err = {0};
    pal_status status = read_request(call, &answered, &err);
    if (status != PAL_OK)
        pal_subject_fail(call, status, &err);
    else if (answered)
        return;
    else if (!(call->route->flags & PAL_API_WORKER) || call->is_on_worker)
        run_handler(call);
    else if (!try_memory(call))
        pal_exchange_to_worker(call->exchange, on_worker);
}

static void take_on_worker(pal_exchange *x)
{
    take(x->call);
}

/* A route without a body does not need a long one. */
static bool takes_body(const pal_api_route *route)
{
    return route->doc.request || route->flags & (PAL_API_JSON | PAL_API_ANY_JSON);
}

bool pal_server_admit(pal_exchange *x, void *user)
{
    bool answered;
    pal_error err = {0};
    pal_call *call = pal_call_begin(user, x);
    if (!call)
        return false;
    pal_status status = prepare(call, &answered, &err);
    if (status != PAL_OK)
        pal_call_fail(call, status, &err);
    else if (!answered && !takes_body(call->route) && x->body_max > PAL_SERVER_STRAY_BODY_BYTES_MAX)
        x->body_max = PAL_SERVER_STRAY_BODY_BYTES_MAX;
    return status == PAL_OK && !answered;
}

void pal_server_handle(pal_exchange *x, void *user)
{
    pal_call *call = x->call;
    (void)user;
    pal_error err;
    /* Asked first: if the server begins to stop after this, the request is in time. */
    bool is_late = is_too_late(call);
    if (pal_pass_request(call))
        return;
    if (is_late) {
        pal_status status = refuse_draining(call, &err);
        pal_call_fail(call, status, &err);
        return;
    }
    call->is_on_worker = x->body_len > PAL_SERVER_INLINE_BODY_BYTES_MAX;
    if (call->is_on_worker)
        pal_exchange_to_worker(x, take_on_worker);
    else
        take(call);
}

static pal_status status_of(unsigned code)
{
    switch (code) {
    case 408:
        return PAL_TIMEOUT;
    case 413:
    case 414:
    case 431:
        return PAL_LIMIT;
    case 503:
        return PAL_BUSY;
    default:
        return code < 500 ? PAL_INVALID : PAL_IO;
    }
}

void pal_server_refuse(pal_exchange *x, unsigned code, const char *why, void *user)
{
    pal_error err;
    /* A request that was to run on a worker already has its call. */
    pal_call *call = x->call;
    if (!call) {
        call = pal_call_begin(user, x);
        if (!call)
            return;
        choose_api(call);
    }
    call->fail_code = code;
    call->fail_name = call->fail_param = NULL;
    if (code == 503)
        call->fail_retry_ms = PAL_SERVER_BODIES_RETRY_MS;
    if (!call->route)
        add_cors(call);
    pal_status status = pal_error_set(&err, status_of(code), "%s", why);
    pal_call_fail(call, status, &err);
}

/* ---- After the response ---- */

static void log_request(
        const pal_call *call, unsigned code, uint64_t bytes_sent, int64_t duration_us)
{
    const pal_exchange *x = call->exchange;
    const pal_api_route *route = call->route;
    /* Paths contain names that users chose. So only an invalid request is logged with its path. */
    bool is_wrong = code == 400 || code == 404;
    pal_str path = call->path;
    path.len = path.len < PAL_SERVER_LOG_PATH_MAX ? path.len : PAL_SERVER_LOG_PATH_MAX;
    pal_log_field fields[] = {
            {.name = "id", .text = x->id},
            {.name = "method", .text = call->method},
            {.name = "route", .text = pal_str_of(route ? route->path : "none")},
            {.name = "code", .number = code, .is_number = true},
            {.name = "duration_us", .number = duration_us, .is_number = true},
            {.name = "bytes_in",
                    .number = (int64_t)x->body_len,
                    .is_number = true},
            {.name = "bytes_out", .number = (int64_t)bytes_sent, .is_number = true},
            {.name = "peer", .text = x->peer},
            {.name = "tenant", .text = call->caller.tenant},
            {.name = "key", .text = call->caller.key_id},
            {.name = "path", .text = is_wrong ? path : (pal_str){0}},
            {.name = "reason", .text = is_wrong ? pal_str_of(call->reason) : (pal_str){0}},
    };
    pal_log_event(PAL_LOG_INFO, "request", fields, sizeof fields / sizeof *fields);
    pal_str body = pal_buf_str(&x->body);
    if (body.len && call->server->settings->log_text)
        pal_log(PAL_LOG_INFO, "body of request %.*s: %.*s", PAL_STR_ARG(x->id),
                PAL_EXCERPT(body, PAL_SERVER_LOG_BODY_MAX));
}

static void trace_request(const pal_call *call, unsigned code, int64_t duration_us)
{
    const pal_api_route *route = call->route;
    pal_trace_span span = {.id = call->span,
            .kind = PAL_SPAN_SERVER,
            .name = route ? route->method : "unknown",
            .what = pal_str_of(route ? route->path : NULL),
            .end_ns = pal_trace_now_ns(),
            .is_error = code >= 500};
    span.start_ns = span.end_ns - duration_us * 1000;
    pal_trace_span_put(&span, "http.request.method", call->method);
    pal_trace_span_put(&span, "http.route", span.what);
    pal_trace_span_put_number(&span, "http.response.status_code", code);
    pal_trace_span_put(&span, "palaver.request.id", call->exchange->id);
    pal_trace_span_put(&span, "palaver.tenant", call->caller.tenant);
    if (span.is_error)
        pal_trace_span_put(&span, "error.type", pal_str_of(pal_status_name(call->status)));
    pal_trace_add(call->server->trace, &span);
}

void pal_server_ended(
        pal_exchange *x, unsigned code, uint64_t bytes_sent, int64_t duration_us, void *user)
{
    pal_server *server = user;
    pal_call *call = x->call;
    pal_metrics_request(
            server->metrics, call ? call->route : NULL, code, bytes_sent, duration_us);
    if (!call)
        return;
    log_request(call, code, bytes_sent, duration_us);
    if (server->trace)
        trace_request(call, code, duration_us);
    pal_call_end(call);
}
