/* server_call.c - what every handler needs around its own work: the writer of its response, its
 * failures, and its writes to the store.
 *
 * A call ends in one of two ways, each of which is its last use: pal_call_send() or
 * pal_call_fail(). If the request has an idempotency key, a worker stores a successful response
 * before it is sent (server_idempotency.c says what a crash in between leaves). */
#include "server/server_call.h"

#include <stdarg.h>
#include <stdio.h>
#include "base/json/json_put.h"
#include "base/log.h"
#include "base/memory.h"
#include "server/server_idempotency.h"

#define RETRY_MS 1000 /* Retry-After if the store's queue is full or too many turns run */

/* A response needs memory. This one is for the case that there is none. */
static const char no_memory_answer[] = "{\"error\":\"out of memory\",\"detail\":\"out of memory\","
                                       "\"code\":\"no_memory\",\"param\":null}\n";

static const char json_type[] = "application/json";

pal_call *pal_call_begin(pal_server *server, pal_exchange *x)
{
    pal_arena *arena = x->arena;
    pal_call *call = pal_arena_alloc(arena, sizeof *call);
    if (!call) {
        pal_exchange_answer(x, 503, json_type, pal_str_of(no_memory_answer));
        return NULL;
    }
    call->server = server;
    call->exchange = x;
    call->arena = arena;
    call->method = x->method;
    call->path = x->path;
    call->api = &pal_api_root;
    call->fail_retry_ms = -1;
    pal_buf_init(&call->buf, PAL_SERVER_ANSWER_BYTES_MAX);
    call->writer = pal_json_writer_make(&call->buf);
    if (server->trace) {
        pal_trace_span_id parent;
        bool has_parent =
                pal_trace_span_id_from_header(x->headers.traceparent, &parent);
        call->span = pal_trace_span_id_new(has_parent ? &parent : NULL);
    }
    x->call = call;
    return call;
}

void pal_call_end(pal_call *call)
{
    if (call->idempotent)
        pal_idempotency_end(call);
    pal_buf_done(&call->buf);
}

pal_json_writer *pal_call_writer(pal_call *call)
{
    return &call->writer;
}

/* ---- Failing ---- */

unsigned pal_call_http_code(pal_status status)
{
    static const unsigned codes[] = {
            [PAL_OK] = 200,
            [PAL_INVALID] = 400,
            [PAL_NOT_FOUND] = 404,
            [PAL_CONFLICT] = 409,
            [PAL_LIMIT] = 413,
            [PAL_NO_MEMORY] = 503,
            [PAL_IO] = 500,
            [PAL_CORRUPT] = 500,
            [PAL_BUSY] = 503,
            [PAL_TIMEOUT] = 504,
            [PAL_CANCELED] = 499,
            [PAL_DENIED] = 403,
            [PAL_PROVIDER] = 502,
            [PAL_BUDGET] = 429,
            [PAL_FULL] = 507,
            [PAL_OVERLOADED] = 503,
    };
    return (size_t)status < sizeof codes / sizeof *codes ? codes[status] : 500;
}

/* The text appears twice: some clients look for "error", others for "detail". */
void pal_call_put_native_failure(
        pal_call *call, const pal_failure *failure, pal_json_writer *writer)
{
    pal_json_begin_object(writer);
    pal_put_str(writer, "error", failure->message);
    pal_put_str(writer, "detail", failure->message);
    pal_json_name(writer, "code");
    if (failure->name.len)
        pal_json_put_str(writer, failure->name);
    else
        pal_json_put_text(writer, pal_status_name(failure->status));
    pal_json_name(writer, "param");
    if (failure->param.len)
        pal_json_put_str(writer, failure->param);
    else
        pal_json_put_null(writer);
    pal_put_str(writer, "request_id", call->exchange->id);
    pal_json_put_members(writer, call->fail_members);
    pal_json_end_object(writer);
}

pal_status pal_call_refuse(pal_call *call, unsigned code, const char *name, pal_status status,
        pal_error *err, const char *format, ...)
{
    char message[PAL_ERROR_MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    call->fail_code = code;
    call->fail_name = name;
    return pal_error_set(err, status, "%s", message);
}

/* Compresses the body if the client accepts it. A node that passes on the request passes the
 * compressed body on, too. */
static void answer_long(pal_exchange *x, unsigned code, pal_buf *body)
{
    pal_buf zipped;
    pal_buf_init(&zipped, body->len);
    pal_exchange_add_header(x, "vary", pal_str_of("accept-encoding"));
    if (pal_gzip_is_accepted(x->headers.accept_encoding) &&
            pal_gzip_compress(pal_buf_str(body), &zipped)) {
        pal_exchange_add_header(x, "content-encoding", pal_str_of("gzip"));
        pal_exchange_answer_with(x, code, json_type, &zipped);
    } else {
        pal_exchange_answer_with(x, code, json_type, body);
    }
    pal_buf_done(&zipped);
}

/* Takes the body out of the call first: the call is in the arena, which can end with the
 * response. */
static void answer(pal_call *call, unsigned code)
{
    pal_buf body = call->buf;
    pal_buf_init(&call->buf, PAL_SERVER_ANSWER_BYTES_MAX);
    /* Before the response is sent: a client that has the response can repeat the request at
     * once. */
    if (call->idempotent)
        pal_idempotency_end(call);
    if (body.failure)
        pal_exchange_answer(call->exchange, 503, json_type, pal_str_of(no_memory_answer));
    else if (body.len > PAL_SERVER_GZIP_BYTES_MIN)
        answer_long(call->exchange, code, &body);
    else
        pal_exchange_answer_with(call->exchange, code, json_type, &body);
    pal_buf_done(&body);
}

static void add_retry_after(pal_call *call, int64_t retry_ms)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)((retry_ms + 999) / 1000));
    pal_exchange_add_header(call->exchange, "retry-after", pal_str_of(text));
}

void pal_call_fail(pal_call *call, pal_status status, const pal_error *err)
{
    pal_error lost = {0};
    /* The object may be missing because the first attempt deleted, erased or renamed it. */
    if (call->is_repeat && status == PAL_NOT_FOUND) {
        status = pal_idempotency_lost(call, &lost);
        err = &lost;
    }
    if (status == PAL_OVERLOADED && call->fail_retry_ms < 0)
        call->fail_retry_ms = RETRY_MS;
    pal_failure failure = {
            .code = call->fail_code ? call->fail_code : pal_call_http_code(status),
            .status = status,
            .message = pal_str_of(err && err->message[0] ? err->message : pal_status_name(status)),
            .param = pal_str_of(call->fail_param),
            .name = pal_str_of(call->fail_name),
            .retry_after_ms = call->fail_retry_ms,
    };
    if (failure.code >= 500)
        pal_log(failure.code == 503 ? PAL_LOG_WARN : PAL_LOG_ERROR, "request %.*s: %.*s",
                PAL_STR_ARG(call->exchange->id), PAL_STR_ARG(failure.message));
    if (failure.retry_after_ms >= 0)
        add_retry_after(call, failure.retry_after_ms);
    call->status = status;
    call->reason = pal_arena_copy(call->arena, failure.message).data;
    pal_buf_clear(&call->buf);
    call->writer = pal_json_writer_make(&call->buf);
    call->api->put_failure(call, &failure, &call->writer);
    pal_buf_append_char(&call->buf, '\n');
    answer(call, failure.code);
}

/* ---- Sending ---- */

/* Runs on a worker. The response is stored before it is sent, so that a client that has it gets the
 * same response to a repeat. */
static void remember_and_answer(pal_exchange *x)
{
    pal_call *call = x->call;
    pal_idempotency_save(call, call->code, pal_buf_str(&call->buf));
    answer(call, call->code);
}

void pal_call_send(pal_call *call, unsigned code)
{
    if (call->buf.len)
        pal_buf_append_char(&call->buf, '\n');
    if (call->buf.failure == PAL_LIMIT) {
        pal_error err;
        pal_error_set(&err, PAL_LIMIT, "the response is too large; request fewer items");
        call->fail_code = 500;
        pal_call_fail(call, PAL_LIMIT, &err);
        return;
    }
    call->code = code;
    /* Only successful responses are stored: a failure has changed nothing and can be tried
     * again. */
    if (call->idempotent && code < 300 && !call->buf.failure)
        pal_exchange_to_worker(call->exchange, remember_and_answer);
    else
        answer(call, code);
}

void pal_call_streaming(pal_call *call)
{
    pal_idempotency_end(call);
}

void pal_call_trace_turn(pal_call *call, const pal_turn_info *info, pal_str model)
{
    if (!pal_id_is_none(info->session))
        call->owner = info->session;
    if (call->server->trace && !pal_id_is_none(info->turn))
        pal_trace_turn(call->server->trace, &call->span, call->caller.tenant, info->session,
                info->turn, model);
}

pal_id pal_call_derived_id(const pal_call *call, uint32_t n)
{
    pal_id id;
    return pal_idempotency_derive_id(call, n, &id) ? id : pal_id_new();
}

void pal_call_give_client_ids(pal_call *call, pal_message *messages, size_t len, uint32_t first_n)
{
    for (size_t i = 0; call->idempotency_key.len && i < len; i++) {
        char text[PAL_ID_TEXT_SIZE];
        if (messages[i].client_id.len)
            continue;
        pal_id_to_text(pal_call_derived_id(call, first_n + (uint32_t)i), text);
        messages[i].client_id = pal_arena_copy(call->arena, pal_str_of(text));
    }
}

/* ---- Writing to the store ---- */

typedef struct apply_job {
    pal_call *call;
    pal_call_on_applied on_applied;
    pal_op *ops; /* the handler's operations */
    size_t ops_len;
    /* Applied in place of `ops` if the request has an idempotency key. */
    pal_idempotent_batch batch;
} apply_job;

/* The owner is the created session, or else the first one that was written. An erased session
 * cannot own the response. */
static void note_owner(pal_call *call, const pal_op *ops, size_t ops_len)
{
    pal_id owner = {{0}};
    for (size_t i = 0; i < ops_len; i++) {
        bool makes = ops[i].kind == PAL_OP_CREATE || ops[i].kind == PAL_OP_FORK;
        if (ops[i].status != PAL_OK)
            continue;
        if (ops[i].kind == PAL_OP_ERASE) {
            call->owner = (pal_id){{0}};
            return;
        }
        if (makes || pal_id_is_none(owner))
            owner = ops[i].session;
    }
    if (!pal_id_is_none(owner))
        call->owner = owner;
}

static void applied(
        pal_op *ops, size_t ops_len, pal_status status, const pal_error *err, void *user)
{
    const apply_job *job = user;
    pal_error why;
    for (size_t i = 0; i < job->batch.len; i++) {
        if (job->batch.from[i] != SIZE_MAX)
            job->ops[job->batch.from[i]] = ops[i];
    }
    (void)ops_len;
    if (status == PAL_OK && job->batch.begins && ops[0].status != PAL_OK) {
        why = ops[0].error;
        err = &why;
        status = ops[0].status == PAL_CONFLICT ? pal_idempotency_running(job->call, &why)
                                               : ops[0].status;
    }
    if (status == PAL_OK)
        note_owner(job->call, job->ops, job->ops_len);
    job->on_applied(job->call, job->ops, job->ops_len, status, err);
}

static pal_status apply(apply_job *job, pal_error *err)
{
    pal_store *store = job->call->server->store;
    if (!job->call->idempotent)
        return pal_store_apply_async(store, job->ops, job->ops_len, applied, job, err);
    pal_status status =
            pal_idempotency_batch(job->call, job->ops, job->ops_len, &job->batch, err);
    if (status != PAL_OK)
        return status;
    if (job->batch.len > 0)
        return pal_store_apply_async(store, job->batch.ops, job->batch.len, applied, job, err);
    applied(NULL, 0, PAL_OK, NULL, job);
    return PAL_OK;
}

pal_status pal_call_apply(pal_call *call, pal_op *ops, size_t ops_len,
        pal_call_on_applied on_applied, pal_error *err)
{
    apply_job *job = pal_arena_alloc(call->arena, sizeof *job);
    if (!job)
        return pal_no_memory(err);
    *job = (apply_job){.call = call, .on_applied = on_applied, .ops = ops, .ops_len = ops_len};
    pal_status status = apply(job, err);
    if (status == PAL_LIMIT && !call->fail_code) {
        call->fail_retry_ms = RETRY_MS;
        return pal_call_refuse(
                call, 503, "busy", PAL_BUSY, err, "too many waiting writes; retry in a second");
    }
    return status;
}

pal_status pal_call_open(pal_call *call, pal_op *ops, size_t ops_len, pal_turn_request *turn,
        pal_call_on_applied on_applied, pal_error *err)
{
    if (call->idempotent || ops_len > PAL_TURN_CREATE_OPS_MAX)
        return pal_call_apply(call, ops, ops_len, on_applied, err);
    turn->create_ops = ops;
    turn->create_ops_len = ops_len;
    on_applied(call, ops, ops_len, PAL_OK, NULL);
    return PAL_OK;
}
