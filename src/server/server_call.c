/* server_call.c - the frame around every handler: the writer of its response, its failures, and its
 * writes to the store.
 *
 * One thread at a time uses a call: a thread of the listener, then perhaps a worker, the store's
 * writer or the runtime's loop. Sending the response or failing is the last use of a call. */
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

pal_frame *pal_frame_new(pal_server *server, pal_exchange *x)
{
    pal_arena *arena = pal_exchange_arena(x);
    pal_frame *frame = pal_arena_alloc(arena, sizeof *frame);
    if (!frame) {
        pal_exchange_answer(x, 503, json_type, pal_str_of(no_memory_answer));
        return NULL;
    }
    frame->call.server = server;
    frame->call.exchange = x;
    frame->call.arena = arena;
    frame->call.api = &pal_api_root;
    frame->call.fail_retry_ms = -1;
    pal_buf_init(&frame->buf, PAL_SERVER_ANSWER_BYTES_MAX);
    frame->writer = pal_json_writer_make(&frame->buf);
    if (server->trace) {
        pal_trace_span_id parent;
        bool has_parent =
                pal_trace_span_id_from_header(pal_exchange_header(x, "traceparent"), &parent);
        frame->span = pal_trace_span_id_new(has_parent ? &parent : NULL);
    }
    pal_exchange_set_user(x, frame);
    return frame;
}

void pal_frame_done(pal_frame *frame)
{
    pal_idempotency_end(&frame->call);
    pal_buf_done(&frame->buf);
}

pal_json_writer *pal_call_writer(pal_call *call)
{
    return &pal_frame_of(call)->writer;
}

/* ---- Failing ---- */

unsigned pal_status_http(pal_status status)
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
void pal_put_native_failure(pal_call *call, const pal_failure *failure, pal_json_writer *writer)
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
    pal_put_str(writer, "request_id", pal_exchange_id(call->exchange));
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

/* Takes the body out of the frame first: the frame is in the arena, which can end with the
 * response. */
static void answer(pal_frame *frame, unsigned code)
{
    pal_buf body = frame->buf;
    pal_buf_init(&frame->buf, PAL_SERVER_ANSWER_BYTES_MAX);
    /* Before the response is sent: a client that has the response can repeat the request at
     * once. */
    pal_idempotency_end(&frame->call);
    if (body.failure)
        pal_exchange_answer(frame->call.exchange, 503, json_type, pal_str_of(no_memory_answer));
    else
        pal_exchange_answer_with(frame->call.exchange, code, json_type, &body);
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
    pal_frame *frame = pal_frame_of(call);
    pal_error lost = {0};
    /* The object may be missing because the first attempt deleted, erased or renamed it. */
    if (frame->is_repeat && status == PAL_NOT_FOUND) {
        status = pal_idempotency_lost(call, &lost);
        err = &lost;
    }
    if (status == PAL_OVERLOADED && call->fail_retry_ms < 0)
        call->fail_retry_ms = RETRY_MS;
    pal_failure failure = {
            .code = call->fail_code ? call->fail_code : pal_status_http(status),
            .status = status,
            .message = pal_str_of(err && err->message[0] ? err->message : pal_status_name(status)),
            .param = pal_str_of(call->fail_param),
            .name = pal_str_of(call->fail_name),
            .retry_after_ms = call->fail_retry_ms,
    };
    if (failure.code >= 500)
        pal_log(failure.code == 503 ? PAL_LOG_WARN : PAL_LOG_ERROR, "request %.*s: %.*s",
                PAL_STR_ARG(pal_exchange_id(call->exchange)), PAL_STR_ARG(failure.message));
    if (failure.retry_after_ms >= 0)
        add_retry_after(call, failure.retry_after_ms);
    frame->is_error = true;
    frame->status = status;
    frame->reason = (char *)(uintptr_t)pal_arena_copy(call->arena, failure.message).data;
    pal_buf_clear(&frame->buf);
    frame->writer = pal_json_writer_make(&frame->buf);
    call->api->put_failure(call, &failure, &frame->writer);
    pal_buf_append_char(&frame->buf, '\n');
    answer(frame, failure.code);
}

/* ---- Sending ---- */

/* Runs on a worker. The response is stored before it is sent, so that a client that has it gets the
 * same response to a repeat. */
static void remember_and_answer(pal_exchange *x)
{
    pal_frame *frame = pal_exchange_user(x);
    pal_idempotency_save(&frame->call, frame->code, pal_buf_str(&frame->buf));
    answer(frame, frame->code);
}

void pal_call_send(pal_call *call, unsigned code)
{
    pal_frame *frame = pal_frame_of(call);
    if (frame->buf.len)
        pal_buf_append_char(&frame->buf, '\n');
    if (frame->buf.failure == PAL_LIMIT) {
        pal_error err;
        pal_error_set(&err, PAL_LIMIT, "the response is too large; request fewer items");
        call->fail_code = 500;
        pal_call_fail(call, PAL_LIMIT, &err);
        return;
    }
    frame->code = code;
    /* Only successful responses are stored: a failure has changed nothing and can be tried
     * again. */
    if (frame->idempotent && code < 300 && !frame->buf.failure)
        pal_exchange_to_worker(call->exchange, remember_and_answer);
    else
        answer(frame, code);
}

void pal_call_streaming(pal_call *call)
{
    pal_idempotency_end(call);
}

void pal_call_belongs(pal_call *call, pal_id session)
{
    pal_frame_of(call)->owner = session;
}

void pal_call_is_mixed(pal_call *call)
{
    pal_frame_of(call)->is_mixed = true;
}

void pal_call_trace_turn(pal_call *call, const pal_turn_info *info, pal_str model)
{
    if (!pal_id_is_none(info->session))
        pal_call_belongs(call, info->session);
    if (call->server->trace && !pal_id_is_none(info->turn))
        pal_trace_turn(call->server->trace, &pal_frame_of(call)->span, call->caller.tenant,
                info->session, info->turn, model);
}

/* ---- Writing to the store ---- */

typedef struct applying {
    pal_call *call;
    pal_call_done done;
    pal_op *ops; /* the handler's operations */
    size_t ops_len;
    /* Applied in place of `ops` if the request has an idempotency key. */
    pal_idempotent_batch batch;
} applying;

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
            pal_call_belongs(call, (pal_id){{0}});
            return;
        }
        if (makes || pal_id_is_none(owner))
            owner = ops[i].session;
    }
    if (!pal_id_is_none(owner))
        pal_call_belongs(call, owner);
}

static void applied(
        pal_op *ops, size_t ops_len, pal_status status, const pal_error *err, void *user)
{
    const applying *work = user;
    for (size_t i = 0; i < work->batch.len; i++) {
        if (work->batch.from[i] != SIZE_MAX)
            work->ops[work->batch.from[i]] = ops[i];
    }
    (void)ops_len;
    if (status == PAL_OK)
        note_owner(work->call, work->ops, work->ops_len);
    work->done(work->call, work->ops, work->ops_len, status, err);
}

static pal_status apply(applying *work, pal_error *err)
{
    pal_store *store = work->call->server->store;
    if (!pal_frame_of(work->call)->idempotent)
        return pal_store_apply_async(store, work->ops, work->ops_len, applied, work, err);
    pal_status status =
            pal_idempotency_batch(work->call, work->ops, work->ops_len, &work->batch, err);
    if (status != PAL_OK)
        return status;
    if (work->batch.len > 0)
        return pal_store_apply_async(store, work->batch.ops, work->batch.len, applied, work, err);
    applied(NULL, 0, PAL_OK, NULL, work);
    return PAL_OK;
}

pal_status pal_call_apply(
        pal_call *call, pal_op *ops, size_t ops_len, pal_call_done done, pal_error *err)
{
    applying *work = pal_arena_alloc(call->arena, sizeof *work);
    if (!work)
        return pal_no_memory(err);
    *work = (applying){.call = call, .done = done, .ops = ops, .ops_len = ops_len};
    pal_status status = apply(work, err);
    if (status == PAL_LIMIT && !call->fail_code) {
        call->fail_retry_ms = RETRY_MS;
        return pal_call_refuse(
                call, 503, "busy", PAL_BUSY, err, "too many waiting writes; retry in a second");
    }
    return status;
}

pal_status pal_call_open(pal_call *call, pal_op *ops, size_t ops_len, pal_turn_request *turn,
        pal_call_done done, pal_error *err)
{
    if (pal_frame_of(call)->idempotent || ops_len > PAL_TURN_CREATE_OPS_MAX)
        return pal_call_apply(call, ops, ops_len, done, err);
    turn->create_ops = ops;
    turn->create_ops_len = ops_len;
    done(call, ops, ops_len, PAL_OK, NULL);
    return PAL_OK;
}
