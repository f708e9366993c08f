/* api_openai_chat_turn.c - runs a turn as a chat completion. It sends chunks while the turn runs,
 * or collects the events into one object at the end.
 *
 * Ownership: up to three sides hold a reading, and they end in any order. The watch ends on the
 * runtime's loop, the stream on a listener thread, and the erasure of a temporary session on the
 * store's writer. The last side frees the reading. Its lock guards all members. The loop owns the
 * call until it is answered.
 *
 * A stream begins with the first text of the answer, so that earlier failures get an HTTP code. */
#include "server/api/openai/api_openai_chat.h"

#include <pthread.h>
#include <stdio.h>
#include "base/clock.h"
#include "base/memory.h"
#include "dialect/dialect_put.h"
#include "server/api/openai/api_openai.h"
#include "server/run/run.h"
#include "server/server_call.h"

#define CHUNK_BYTES_MAX ((size_t)64 << 20)

/* A call of one of the caller's tools. */
typedef struct told_call {
    struct told_call *next;
    pal_str id; /* id and name are in the arena */
    pal_str name;
    uint32_t index;
    pal_buf arguments;
} told_call;

typedef struct reading {
    pthread_mutex_t lock;
    unsigned holders;
    pal_call *call;     /* NULL after the response was sent */
    pal_stream *stream; /* NULL if there is no stream, or if it has ended */
    pal_server *server;
    pal_arena *arena;
    pal_str tenant; /* the texts below are in the arena */
    pal_str model;
    pal_str *tools; /* names of the caller's tools */
    size_t tools_len;
    told_call *calls, **calls_end;
    uint32_t calls_len;
    pal_buf text; /* text of the newest step, for a response without a stream */
    pal_buf reasoning;
    pal_buf refusal;
    pal_id session;
    pal_id turn;
    int64_t created_at;
    bool wants_stream;
    bool has_usage_chunk;
    bool is_passing;
    bool is_begun;
    bool is_over;
    bool is_cut;
    bool is_filtered;
    pal_usage usage;
    pal_op erase;
    pal_erasure erasure;
} reading;

static void release(reading *r)
{
    pthread_mutex_lock(&r->lock);
    bool is_last = --r->holders == 0;
    pthread_mutex_unlock(&r->lock);
    if (!is_last)
        return;
    for (told_call *call = r->calls; call; call = call->next)
        pal_buf_done(&call->arguments);
    pal_buf_done(&r->text);
    pal_buf_done(&r->reasoning);
    pal_buf_done(&r->refusal);
    pthread_mutex_destroy(&r->lock);
    pal_arena_free(r->arena);
    pal_free(r);
}

/* ---- Members of both forms ---- */

static void put_head(const reading *r, pal_json_writer *writer, const char *object)
{
    char id[PAL_OPENAI_ID_SIZE];
    pal_openai_id_text("chatcmpl-", r->turn, id);
    pal_put_text(writer, "id", id);
    pal_put_text(writer, "object", object);
    pal_put_count(writer, "created", (uint64_t)(r->created_at / 1000));
    pal_put_str(writer, "model", r->model);
}

static void put_usage(pal_json_writer *writer, const pal_usage *usage)
{
    uint64_t input = usage->input + usage->cache_read + usage->cache_write;
    pal_json_name(writer, "usage");
    pal_json_begin_object(writer);
    pal_put_count(writer, "prompt_tokens", input);
    pal_put_count(writer, "completion_tokens", usage->output);
    pal_put_count(writer, "total_tokens", input + usage->output);
    pal_json_name(writer, "prompt_tokens_details");
    pal_json_begin_object(writer);
    pal_put_count(writer, "cached_tokens", usage->cache_read);
    pal_json_end_object(writer);
    pal_json_name(writer, "completion_tokens_details");
    pal_json_begin_object(writer);
    pal_put_count(writer, "reasoning_tokens", usage->reasoning);
    pal_json_end_object(writer);
    pal_json_end_object(writer);
}

static const char *finish_of(const reading *r)
{
    return r->is_cut         ? "length"
            : r->is_filtered ? "content_filter"
            : r->calls_len   ? "tool_calls"
                             : "stop";
}

/* ---- The complete object; the lock must be held ---- */

/* If a model sends no arguments, the client gets an empty object, because SDKs parse the
 * arguments. */
static void put_calls(const reading *r, pal_json_writer *writer)
{
    pal_json_name(writer, "tool_calls");
    pal_json_begin_array(writer);
    for (const told_call *call = r->calls; call; call = call->next) {
        pal_str arguments = pal_buf_str(&call->arguments);
        pal_json_begin_object(writer);
        pal_put_str(writer, "id", call->id);
        pal_put_text(writer, "type", "function");
        pal_json_name(writer, "function");
        pal_json_begin_object(writer);
        pal_put_str(writer, "name", call->name);
        pal_put_str(writer, "arguments", arguments.len ? arguments : pal_str_of("{}"));
        pal_json_end_object(writer);
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
}

static void put_choice(const reading *r, pal_json_writer *writer)
{
    pal_json_begin_object(writer);
    pal_put_count(writer, "index", 0);
    pal_json_name(writer, "message");
    pal_json_begin_object(writer);
    pal_put_text(writer, "role", "assistant");
    if (r->calls_len || r->refusal.len)
        pal_put_str_or_null(writer, "content", pal_buf_str(&r->text));
    else
        pal_put_str(writer, "content", pal_buf_str(&r->text));
    if (r->reasoning.len)
        pal_put_str(writer, "reasoning_content", pal_buf_str(&r->reasoning));
    if (r->calls_len)
        put_calls(r, writer);
    pal_put_str_or_null(writer, "refusal", pal_buf_str(&r->refusal));
    pal_json_end_object(writer);
    pal_put_str_or_null(writer, "logprobs", (pal_str){0});
    pal_put_text(writer, "finish_reason", finish_of(r));
    pal_json_end_object(writer);
}

/* A part that could not be kept in memory must not be missing silently. */
static bool has_gap(const reading *r)
{
    bool has = r->text.failure || r->reasoning.failure || r->refusal.failure ||
            pal_arena_failure(r->arena) != PAL_OK;
    for (const told_call *call = r->calls; call; call = call->next)
        has = has || call->arguments.failure;
    return has;
}

static void send_completion(reading *r)
{
    pal_call *call = r->call;
    pal_json_writer *writer = pal_call_writer(call);
    r->call = NULL;
    if (has_gap(r)) {
        pal_error err;
        pal_error_set(&err, PAL_NO_MEMORY, "the answer could not be kept in memory");
        pal_call_fail(call, PAL_NO_MEMORY, &err);
        return;
    }
    pal_json_begin_object(writer);
    put_head(r, writer, "chat.completion");
    pal_json_name(writer, "choices");
    pal_json_begin_array(writer);
    put_choice(r, writer);
    pal_json_end_array(writer);
    put_usage(writer, &r->usage);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
}

/* ---- Chunks; the lock must be held ---- */

static void write_stream(reading *r, const pal_buf *buf)
{
    /* If there is no memory for a chunk, the stream ends, so that the client notices the gap. */
    if (r->stream && (buf->failure || !pal_stream_write(r->stream, pal_buf_str(buf)))) {
        pal_stream_end(r->stream);
        r->stream = NULL;
    }
}

/* Begins {"choices":[{"index":0,"delta":{ of a chunk. */
static pal_json_writer begin_chunk(const reading *r, pal_buf *buf)
{
    pal_buf_init(buf, CHUNK_BYTES_MAX);
    pal_buf_append_text(buf, "data: ");
    pal_json_writer writer = pal_json_writer_make(buf);
    pal_json_begin_object(&writer);
    put_head(r, &writer, "chat.completion.chunk");
    pal_json_name(&writer, "choices");
    pal_json_begin_array(&writer);
    pal_json_begin_object(&writer);
    pal_put_count(&writer, "index", 0);
    pal_json_name(&writer, "delta");
    pal_json_begin_object(&writer);
    return writer;
}

static void end_chunk(reading *r, pal_json_writer *writer, const char *finish)
{
    pal_json_end_object(writer);
    pal_json_name(writer, "finish_reason");
    if (finish)
        pal_json_put_text(writer, finish);
    else
        pal_json_put_null(writer);
    pal_json_end_object(writer);
    pal_json_end_array(writer);
    if (r->has_usage_chunk) {
        pal_json_name(writer, "usage");
        pal_json_put_null(writer);
    }
    pal_json_end_object(writer);
    pal_buf_append_text(writer->buf, "\n\n");
    write_stream(r, writer->buf);
    pal_buf_done(writer->buf);
}

static void write_delta(reading *r, const char *name, pal_str text)
{
    pal_buf buf;
    pal_json_writer writer = begin_chunk(r, &buf);
    pal_put_str(&writer, name, text);
    end_chunk(r, &writer, NULL);
}

/* The first delta of a call has its id and name. Later deltas have more of its arguments. */
static void write_call(reading *r, const told_call *call, pal_str name, pal_str arguments)
{
    pal_buf buf;
    pal_json_writer writer = begin_chunk(r, &buf);
    pal_json_name(&writer, "tool_calls");
    pal_json_begin_array(&writer);
    pal_json_begin_object(&writer);
    pal_put_count(&writer, "index", call->index);
    if (name.len) {
        pal_put_str(&writer, "id", call->id);
        pal_put_text(&writer, "type", "function");
    }
    pal_json_name(&writer, "function");
    pal_json_begin_object(&writer);
    if (name.len)
        pal_put_str(&writer, "name", name);
    pal_put_str(&writer, "arguments", arguments);
    pal_json_end_object(&writer);
    pal_json_end_object(&writer);
    pal_json_end_array(&writer);
    end_chunk(r, &writer, NULL);
}

static void write_usage(reading *r)
{
    pal_buf buf;
    pal_buf_init(&buf, CHUNK_BYTES_MAX);
    pal_buf_append_text(&buf, "data: ");
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    put_head(r, &writer, "chat.completion.chunk");
    pal_json_name(&writer, "choices");
    pal_json_begin_array(&writer);
    pal_json_end_array(&writer);
    put_usage(&writer, &r->usage);
    pal_json_end_object(&writer);
    pal_buf_append_text(&buf, "\n\n");
    write_stream(r, &buf);
    pal_buf_done(&buf);
}

static void write_end(reading *r)
{
    static const char done[] = "data: [DONE]\n\n";
    pal_buf buf;
    pal_json_writer writer = begin_chunk(r, &buf);
    end_chunk(r, &writer, finish_of(r));
    if (r->has_usage_chunk)
        write_usage(r);
    if (r->stream)
        (void)pal_stream_write(r->stream, pal_str_of(done));
}

static void write_failure(reading *r, const pal_event *event)
{
    bool is_budget = event->status == PAL_BUDGET;
    pal_buf buf;
    pal_buf_init(&buf, CHUNK_BYTES_MAX);
    pal_buf_append_text(&buf, "data: {\"error\":{\"message\":");
    pal_json_quote(&buf, event->text.len ? event->text : pal_str_of("the turn was stopped"));
    pal_buf_append_text(&buf,
            is_budget ? ",\"type\":\"insufficient_quota\",\"param\":null,"
                        "\"code\":\"insufficient_quota\"}}\n\n"
                      : ",\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n");
    write_stream(r, &buf);
    pal_buf_done(&buf);
}

/* ---- The stream ---- */

static void stream_gone(void *user)
{
    reading *r = user;
    pthread_mutex_lock(&r->lock);
    r->stream = NULL;
    bool is_left = !r->is_over;
    pthread_mutex_unlock(&r->lock);
    if (is_left)
        pal_turn_abandon(r->server->runtime, r->tenant, r->turn);
    release(r);
}

/* The lock must be held. */
static void open_stream(reading *r)
{
    pal_call *call = r->call;
    pal_error err;
    if (r->is_begun)
        return;
    r->is_begun = true;
    r->call = NULL;
    r->holders++;
    r->stream = pal_run_stream(call, 200, PAL_RUN_EVENT_STREAM, stream_gone, r);
    if (r->stream) {
        pal_buf buf;
        pal_json_writer writer = begin_chunk(r, &buf);
        pal_put_text(&writer, "role", "assistant");
        pal_put_text(&writer, "content", "");
        end_chunk(r, &writer, NULL);
        return;
    }
    r->holders--;
    pal_status status = pal_run_refuse_stream(call, &err);
    pal_call_fail(call, status, &err);
    pal_turn_abandon(r->server->runtime, r->tenant, r->turn);
}

/* ---- The end of the turn ---- */

static void erased(pal_op *ops, size_t ops_len, pal_status status, const pal_error *err, void *user)
{
    (void)ops;
    (void)ops_len;
    (void)status;
    (void)err;
    release(user);
}

/* If the erasure fails, the session expires soon and is then cleaned up. */
static void erase_passing(reading *r)
{
    if (!r->is_passing)
        return;
    r->erase = (pal_op){.kind = PAL_OP_ERASE,
            .tenant = r->tenant,
            .session = r->session,
            .u.erasure = &r->erasure};
    pthread_mutex_lock(&r->lock);
    r->holders++;
    pthread_mutex_unlock(&r->lock);
    if (pal_store_apply_async(r->server->store, &r->erase, 1, erased, r, NULL) != PAL_OK)
        release(r);
}

/* The model service's errors about the request are passed on. Its refusal of the server's API key
 * is not. */
static unsigned code_of_failure(const pal_event *event)
{
    if (event->state == PAL_TURN_CANCELED)
        return 503;
    if (event->status == PAL_TIMEOUT)
        return 504;
    if (event->code >= 400 && event->code < 500 && event->code != 401 && event->code != 403)
        return (unsigned)event->code;
    if (event->status == PAL_PROVIDER || event->status == PAL_IO || event->status == PAL_DENIED)
        return 502;
    return pal_status_http(event->status);
}

/* The lock must be held. */
static void fail_call(reading *r, const pal_event *event)
{
    pal_error err;
    pal_call *call = r->call;
    pal_status status = event->status == PAL_OK ? PAL_CANCELED : event->status;
    r->call = NULL;
    if (event->retry_after_ms > 0)
        call->fail_retry_ms = event->retry_after_ms;
    call->fail_code = code_of_failure(event);
    pal_error_set(&err, status, "%.*s", (int)(event->text.len < 240 ? event->text.len : 240),
            event->text.data ? event->text.data : "");
    pal_call_fail(call, status, &err);
}

/* The lock must be held. */
static void end_stream(reading *r, const pal_event *event)
{
    if (r->stream && event->state == PAL_TURN_DONE)
        write_end(r);
    else if (r->stream)
        write_failure(r, event);
    if (r->stream)
        pal_stream_end(r->stream);
    r->stream = NULL;
}

/* The lock must be held. */
static void finish(reading *r, const pal_event *event)
{
    bool is_done = event->state == PAL_TURN_DONE;
    r->is_over = true;
    r->usage = event->usage;
    if (is_done && r->wants_stream)
        open_stream(r);
    if (r->is_begun)
        end_stream(r, event);
    else if (is_done)
        send_completion(r);
    else
        fail_call(r, event);
}

/* ---- Events, on the loop ---- */

static told_call *find_call(const reading *r, pal_str id)
{
    told_call *call = r->calls;
    while (call && !pal_str_equal(call->id, id))
        call = call->next;
    return call;
}

static bool is_callers(const reading *r, pal_str name)
{
    for (size_t i = 0; i < r->tools_len; i++) {
        if (pal_str_equal(r->tools[i], name))
            return true;
    }
    return false;
}

/* Calls of the server's tools are not shown to the client. */
static void note_call(reading *r, const pal_event *event)
{
    told_call *call = is_callers(r, event->name) ? pal_arena_alloc(r->arena, sizeof *call) : NULL;
    if (!call)
        return;
    call->id = pal_arena_copy(r->arena, event->call_id);
    call->name = pal_arena_copy(r->arena, event->name);
    call->index = r->calls_len++;
    pal_buf_init(&call->arguments, PAL_PROVIDER_ANSWER_BYTES_MAX);
    *r->calls_end = call;
    r->calls_end = &call->next;
    if (r->wants_stream) {
        open_stream(r);
        write_call(r, call, event->name, (pal_str){0});
    }
}

static void note_arguments(reading *r, const pal_event *event)
{
    told_call *call = find_call(r, event->call_id);
    if (call && r->wants_stream)
        write_call(r, call, (pal_str){0}, event->text);
    else if (call)
        pal_buf_append_str(&call->arguments, event->text);
}

static void note_text(reading *r, const pal_event *event)
{
    bool is_reasoning = event->kind == PAL_EVENT_REASONING;
    if (!r->wants_stream) {
        pal_buf_append_str(is_reasoning     ? &r->reasoning
                        : event->is_refusal ? &r->refusal
                                            : &r->text,
                event->text);
        return;
    }
    open_stream(r);
    write_delta(r,
            is_reasoning                ? "reasoning_content"
                    : event->is_refusal ? "refusal"
                                        : "content",
            event->text);
}

static void note(reading *r, const pal_event *event)
{
    switch (event->kind) {
    case PAL_EVENT_STEP: /* only the last step's text is the answer */
        pal_buf_clear(&r->text);
        pal_buf_clear(&r->reasoning);
        pal_buf_clear(&r->refusal);
        if (r->model.len == 0) /* the request named no model */
            r->model = pal_arena_copy(r->arena, event->name);
        break;
    case PAL_EVENT_TEXT:
    case PAL_EVENT_REASONING:
        note_text(r, event);
        break;
    case PAL_EVENT_CALL:
        note_call(r, event);
        break;
    case PAL_EVENT_ARGUMENTS:
        note_arguments(r, event);
        break;
    case PAL_EVENT_MESSAGE:
        r->is_cut = event->finish_length;
        r->is_filtered = event->finish_filtered;
        break;
    default:
        break;
    }
}

static bool watch(const pal_event *event, void *user)
{
    reading *r = user;
    bool is_end = event->kind == PAL_EVENT_ENDED;
    pal_server_log_event(event, r->session);
    pthread_mutex_lock(&r->lock);
    if (is_end)
        finish(r, event);
    else
        note(r, event);
    pthread_mutex_unlock(&r->lock);
    if (is_end)
        erase_passing(r);
    return true;
}

static void watch_gone(void *user)
{
    reading *r = user;
    pthread_mutex_lock(&r->lock);
    if (!r->is_over) {
        const pal_event lost = {.kind = PAL_EVENT_ENDED,
                .state = PAL_TURN_CANCELED,
                .text = pal_str_of("the server is stopping")};
        finish(r, &lost);
    }
    pthread_mutex_unlock(&r->lock);
    release(r);
}

/* The client left before the response. Called under the listener's lock, before the call is
 * answered, so `r` exists. Must not take the lock of `r`: the loop may hold it while it waits for
 * the listener's lock. */
static void client_left(void *user)
{
    const reading *r = user;
    pal_turn_abandon(r->server->runtime, r->tenant, r->turn);
}

static void started(const pal_turn_info *info, const pal_error *err, void *user)
{
    reading *r = user;
    pal_call *call = r->call;
    pal_error failure;
    pal_status status = err ? err->status : PAL_OK;
    if (status == PAL_OK) {
        r->turn = info->turn;
        pal_call_trace_turn(call, info, r->model);
        /* A temporary session is erased, but the response must still be stored under the
         * idempotency key, so the response belongs to no session. */
        pal_call_belongs(call, r->is_passing ? (pal_id){{0}} : r->session);
        (void)pal_exchange_watch(call->exchange, client_left, r);
        status = pal_turn_watch(
                r->server->runtime, r->tenant, r->turn, 0, watch, watch_gone, r, &failure);
        err = &failure;
    }
    if (status == PAL_OK)
        return;
    r->call = NULL;
    pal_call_fail(call, status, err);
    erase_passing(r);
    release(r);
}

/* ---- Starting ---- */

static reading *new_reading(const pal_openai_chat *chat)
{
    const pal_turn_request *request = &chat->request;
    pal_call *call = chat->call;
    reading *r = pal_calloc(1, sizeof *r);
    if (!r)
        return NULL;
    pthread_mutex_init(&r->lock, NULL);
    pal_buf_init(&r->text, PAL_PROVIDER_ANSWER_BYTES_MAX);
    pal_buf_init(&r->reasoning, PAL_PROVIDER_ANSWER_BYTES_MAX);
    pal_buf_init(&r->refusal, PAL_PROVIDER_ANSWER_BYTES_MAX);
    r->calls_end = &r->calls;
    r->holders = 1;
    r->call = call;
    r->server = call->server;
    r->session = request->session;
    r->created_at = pal_clock_now_ms();
    r->wants_stream = chat->is_stream;
    r->has_usage_chunk = chat->has_usage_chunk;
    r->is_passing = chat->is_passing;
    r->arena = pal_arena_new(0);
    if (r->arena) {
        r->tenant = pal_arena_copy(r->arena, call->caller.tenant);
        r->model = pal_arena_copy(r->arena, request->model);
        r->tools = pal_arena_array(r->arena, request->tools_len + 1, sizeof *r->tools);
    }
    for (size_t i = 0; r->tools && i < request->tools_len; i++)
        r->tools[r->tools_len++] = pal_arena_copy(r->arena, request->tools[i].name);
    if (r->arena && pal_arena_failure(r->arena) == PAL_OK)
        return r;
    release(r);
    return NULL;
}

pal_status pal_openai_chat_run(const pal_openai_chat *chat, pal_error *err)
{
    reading *r = new_reading(chat);
    if (!r)
        return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    chat->call->user = r;
    pal_status status = pal_turn_start_async(r->server->runtime, &chat->request, started, r, err);
    if (status != PAL_OK)
        release(r);
    return status;
}
