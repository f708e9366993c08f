/* api_openai_chat_turn.c - runs a turn as a chat completion. It sends chunks while the turn runs,
 * or collects the events into one object at the end. run.h describes the threads.
 *
 * A stream begins with the first text of the answer, so that earlier failures get an HTTP code. */
#include "base/clock.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "server/api/api_record.h"
#include "server/api/openai/api_openai.h"
#include "server/run/run.h"
#include "server/server_call.h"

/* A call of one of the caller's tools. */
typedef struct sent_call {
    struct sent_call *next;
    pal_str id; /* id and name are in the arena */
    pal_str name;
    uint32_t index;
    pal_buf arguments;
} sent_call;

typedef struct chat_run {
    pal_run run;
    char id[PAL_OPENAI_ID_SIZE]; /* id of the completion; empty until it is first written */
    pal_str model;
    pal_str *tools; /* names of the caller's tools */
    size_t tools_len;
    sent_call *calls, **calls_end;
    uint32_t calls_len;
    pal_buf text; /* text of the newest step, for a response without a stream and for the record */
    pal_buf reasoning;
    pal_buf refusal;
    int64_t created_at;
    pal_api_record *record;   /* NULL: the request is not recorded */
    bool wants_stream;
    bool has_usage_chunk;
    pal_finish finish; /* why the model stopped writing the newest answer */
    pal_usage usage;
} chat_run;

/* ---- Members of both forms ---- */

static void put_head(chat_run *r, pal_json_writer *writer, const char *object)
{
    if (!r->id[0])
        pal_openai_id_text("chatcmpl-", r->run.turn, r->id);
    pal_put_text(writer, "id", r->id);
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

static const char *finish_of(const chat_run *r)
{
    return r->finish == PAL_FINISH_LENGTH       ? "length"
            : r->finish == PAL_FINISH_FILTERED ? "content_filter"
            : r->calls_len                     ? "tool_calls"
                                               : "stop";
}

/* ---- The complete object; the lock must be held ---- */

/* If a model sends no arguments, the client gets an empty object, because SDKs parse the
 * arguments. */
static void put_calls(const chat_run *r, pal_json_writer *writer)
{
    pal_json_name(writer, "tool_calls");
    pal_json_begin_array(writer);
    for (const sent_call *call = r->calls; call; call = call->next) {
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

static void put_choice(const chat_run *r, pal_json_writer *writer)
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
static bool has_gap(const chat_run *r)
{
    bool has = r->text.failure || r->reasoning.failure || r->refusal.failure ||
            pal_arena_failure(r->run.arena) != PAL_OK;
    for (const sent_call *call = r->calls; call; call = call->next)
        has = has || call->arguments.failure;
    return has;
}

static bool put_completion(pal_run *run, pal_json_writer *writer)
{
    chat_run *r = (chat_run *)run;
    if (has_gap(r))
        return false;
    pal_json_begin_object(writer);
    put_head(r, writer, "chat.completion");
    pal_json_name(writer, "choices");
    pal_json_begin_array(writer);
    put_choice(r, writer);
    pal_json_end_array(writer);
    put_usage(writer, &r->usage);
    pal_json_end_object(writer);
    return true;
}

/* ---- Chunks; the lock must be held ---- */

/* Begins {"choices":[{"index":0,"delta":{ of a chunk. */
static pal_json_writer begin_chunk(chat_run *r, pal_buf *buf)
{
    pal_buf_init(buf, PAL_RUN_FRAME_BYTES_MAX);
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

static void end_chunk(chat_run *r, pal_json_writer *writer, const char *finish)
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
        pal_put_null(writer, "usage");
    }
    pal_json_end_object(writer);
    pal_buf_append_text(writer->buf, "\n\n");
    (void)pal_run_write(&r->run, writer->buf);
    pal_buf_done(writer->buf);
}

/* The first delta of a call has its id and name. Later deltas have more of its arguments. */
static void write_call(chat_run *r, const sent_call *call, pal_str name, pal_str arguments)
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

static void write_usage(chat_run *r)
{
    pal_buf buf;
    pal_buf_init(&buf, PAL_RUN_FRAME_BYTES_MAX);
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
    (void)pal_run_write(&r->run, &buf);
    pal_buf_done(&buf);
}

static void write_done(pal_run *run)
{
    pal_buf buf;
    pal_buf_init(&buf, PAL_RUN_FRAME_BYTES_MAX);
    pal_buf_append_text(&buf, "data: [DONE]\n\n");
    (void)pal_run_write(run, &buf);
    pal_buf_done(&buf);
}

static void write_failure(chat_run *r, const pal_event *event)
{
    bool is_budget = event->status == PAL_BUDGET;
    pal_buf buf;
    pal_buf_init(&buf, PAL_RUN_FRAME_BYTES_MAX);
    pal_buf_append_text(&buf, "data: {\"error\":{\"message\":");
    pal_json_quote(&buf, event->text.len ? event->text : pal_str_of("the turn was stopped"));
    pal_buf_append_text(&buf,
            is_budget ? ",\"type\":\"insufficient_quota\",\"param\":null,"
                        "\"code\":\"insufficient_quota\"}}\n\n"
                      : ",\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n");
    (void)pal_run_write(&r->run, &buf);
    pal_buf_done(&buf);
}

/* The first chunk has the role. */
static void open_stream(chat_run *r)
{
    pal_buf buf;
    if (r->run.is_streaming || !pal_run_open(&r->run))
        return;
    pal_json_writer writer = begin_chunk(r, &buf);
    pal_put_text(&writer, "role", "assistant");
    pal_put_text(&writer, "content", "");
    end_chunk(r, &writer, NULL);
}

/* ---- Events ---- */

static sent_call *find_call(const chat_run *r, pal_str id)
{
    sent_call *call = r->calls;
    while (call && !pal_str_equal(call->id, id))
        call = call->next;
    return call;
}

static bool is_callers(const chat_run *r, pal_str name)
{
    for (size_t i = 0; i < r->tools_len; i++) {
        if (pal_str_equal(r->tools[i], name))
            return true;
    }
    return false;
}

/* Calls of the server's tools are not shown to the client. */
static void note_call(chat_run *r, const pal_event *event)
{
    sent_call *call =
            is_callers(r, event->name) ? pal_arena_alloc(r->run.arena, sizeof *call) : NULL;
    if (!call)
        return;
    call->id = pal_arena_copy(r->run.arena, event->call_id);
    call->name = pal_arena_copy(r->run.arena, event->name);
    call->index = r->calls_len++;
    pal_buf_init(&call->arguments, PAL_PROVIDER_ANSWER_BYTES_MAX);
    *r->calls_end = call;
    r->calls_end = &call->next;
    if (r->wants_stream) {
        open_stream(r);
        write_call(r, call, event->name, (pal_str){0});
    }
}

static void note_arguments(chat_run *r, const pal_event *event)
{
    sent_call *call = find_call(r, event->call_id);
    if (call && r->wants_stream)
        write_call(r, call, (pal_str){0}, event->text);
    if (call && (!r->wants_stream || r->record))
        pal_buf_append_str(&call->arguments, event->text);
}

static void note_text(chat_run *r, const pal_event *event)
{
    bool is_reasoning = event->kind == PAL_EVENT_REASONING;
    if (!r->wants_stream || r->record)
        pal_buf_append_str(is_reasoning     ? &r->reasoning
                        : event->is_refusal ? &r->refusal
                                            : &r->text,
                event->text);
    if (!r->wants_stream)
        return;
    open_stream(r);
    pal_buf buf;
    pal_json_writer writer = begin_chunk(r, &buf);
    pal_put_str(&writer,
            is_reasoning                ? "reasoning_content"
                    : event->is_refusal ? "refusal"
                                        : "content",
            event->text);
    end_chunk(r, &writer, NULL);
}

static void event(pal_run *run, const pal_event *event)
{
    chat_run *r = (chat_run *)run;
    switch (event->kind) {
    case PAL_EVENT_STEP: /* only the last step's text is the answer */
        pal_buf_clear(&r->text);
        pal_buf_clear(&r->reasoning);
        pal_buf_clear(&r->refusal);
        if (r->model.len == 0) /* the request named no model */
            r->model = pal_arena_copy(run->arena, event->name);
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
        r->finish = event->finish;
        break;
    default:
        break;
    }
}

static pal_api_record *record_of(pal_run *run)
{
    return ((chat_run *)run)->record;
}

static const pal_api_record_end record_end = {
        .record_of = record_of, .put_answer = put_completion, .write_last = write_done};

static void record_and_send(pal_run *run)
{
    pal_api_record_and_send(run, &record_end);
}

static void done(pal_run *run, const pal_event *end)
{
    chat_run *r = (chat_run *)run;
    r->usage = end->usage;
    if (r->wants_stream) {
        open_stream(r);
        pal_buf buf;
        pal_json_writer writer = begin_chunk(r, &buf);
        end_chunk(r, &writer, finish_of(r));
        if (r->has_usage_chunk)
            write_usage(r);
        pal_api_record_end_stream(run, &record_end);
    } else if (!r->record || !pal_run_to_worker(run, record_and_send)) {
        pal_api_record_send(run, &record_end);
    }
}

static void failed(pal_run *run, const pal_event *end)
{
    if (run->is_streaming)
        write_failure((chat_run *)run, end);
    else
        pal_run_fail(run, end);
}

static void free_chat(pal_run *run)
{
    chat_run *r = (chat_run *)run;
    for (sent_call *call = r->calls; call; call = call->next)
        pal_buf_done(&call->arguments);
    pal_buf_done(&r->text);
    pal_buf_done(&r->reasoning);
    pal_buf_done(&r->refusal);
    pal_api_record_free(r->record);
}

/* ---- Starting ---- */

pal_status pal_openai_chat_run(const pal_openai_chat *chat, pal_error *err)
{
    static const pal_run_handlers handlers = {
            .event = event, .done = done, .failed = failed, .free = free_chat};
    const pal_turn_request *request = &chat->request;
    chat_run *r = pal_run_new(chat->call, &handlers, sizeof *r);
    if (!r) {
        pal_api_record_free(chat->record);
        return pal_no_memory(err);
    }
    r->record = chat->record;
    pal_buf_init(&r->text, PAL_PROVIDER_ANSWER_BYTES_MAX);
    pal_buf_init(&r->reasoning, PAL_PROVIDER_ANSWER_BYTES_MAX);
    pal_buf_init(&r->refusal, PAL_PROVIDER_ANSWER_BYTES_MAX);
    r->calls_end = &r->calls;
    r->created_at = pal_clock_now_ms();
    r->wants_stream = chat->is_stream;
    r->has_usage_chunk = chat->has_usage_chunk;
    r->model = pal_arena_copy(r->run.arena, request->model);
    r->tools = pal_arena_array(r->run.arena, request->tools_len + 1, sizeof *r->tools);
    for (size_t i = 0; r->tools && i < request->tools_len; i++)
        r->tools[r->tools_len++] = pal_arena_copy(r->run.arena, request->tools[i].name);
    r->run.is_temporary = chat->is_passing;
    pal_run_start(&r->run, request);
    return PAL_OK;
}
