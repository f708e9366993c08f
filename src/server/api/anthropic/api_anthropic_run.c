/* api_anthropic_run.c - runs a turn as a message of Anthropic's API. It sends events while the turn
 * runs, or one message at the end. run.h describes the threads.
 *
 * A message is a list of blocks, and the blocks of a stream must not overlap. The turn can report
 * the arguments of several calls at once. So one block is open at a time; text for later blocks is
 * kept until they are opened. A call is complete when its arguments are a JSON object and the next
 * block has begun.
 *
 * A stream begins with the first text of the answer, so that earlier failures get an HTTP code. */
#include "server/api/anthropic/api_anthropic.h"

#include <stddef.h>
#include "base/json/json_put.h"
#include "base/memory.h"
#include "server/api/anthropic/api_anthropic_record.h"
#include "server/run/run.h"
#include "server/server_background.h"
#include "server/server_call.h"

typedef enum block_kind { BLOCK_TEXT, BLOCK_THINKING, BLOCK_CALL } block_kind;

typedef struct block {
    struct block *next;
    block_kind kind;
    uint64_t part; /* the part of the answer, counted from 1 */
    uint32_t index;
    pal_str call_id; /* the id in the turn; id and name are in the arena */
    pal_str id;      /* the id that the client gets */
    pal_str name;
    pal_buf text; /* the text or the arguments so far */
    bool is_open; /* the stream has its start */
} block;

typedef struct message_run {
    pal_run run;
    pal_str model;
    pal_str left_out;
    block *blocks, **blocks_end;
    block *newest;
    block *current; /* the block of the stream that is open, or opened next */
    uint32_t blocks_len;
    pal_api_record *record; /* NULL: the request is not recorded */
    bool wants_stream;
    bool shows_thinking;
    bool is_refusal;
    bool has_calls;
    pal_finish finish; /* why the model stopped writing the answer */
    pal_usage usage;
} message_run;

/* ---- Members of both forms ---- */

static const char *stop_reason(const message_run *r)
{
    return r->finish == PAL_FINISH_LENGTH                         ? "max_tokens"
            : r->finish == PAL_FINISH_FILTERED || r->is_refusal ? "refusal"
            : r->has_calls                                      ? "tool_use"
                                                                : "end_turn";
}

static void put_usage(pal_json_writer *writer, const pal_usage *usage)
{
    pal_json_name(writer, "usage");
    pal_json_begin_object(writer);
    pal_put_count(writer, "input_tokens", usage->input);
    pal_put_count(writer, "cache_creation_input_tokens", usage->cache_write);
    pal_put_count(writer, "cache_read_input_tokens", usage->cache_read);
    pal_put_count(writer, "output_tokens", usage->output);
    pal_json_end_object(writer);
}

static void put_head(const message_run *r, pal_json_writer *writer)
{
    char id[PAL_ANTHROPIC_ID_SIZE] = "msg_";
    pal_id_to_text(r->run.turn, id + 4);
    pal_put_text(writer, "id", id);
    pal_put_text(writer, "type", "message");
    pal_put_text(writer, "role", "assistant");
    pal_put_str(writer, "model", r->model);
}

/* Reports what the model service could not do. */
static void put_left_out(const message_run *r, pal_json_writer *writer)
{
    if (r->left_out.len <= 2)
        return;
    pal_json_name(writer, "metadata");
    pal_json_begin_object(writer);
    pal_put_raw(writer, "left_out", r->left_out);
    pal_json_end_object(writer);
}

/* Whether the text is a JSON object, which no further text can be part of. */
static bool is_object(pal_str text)
{
    pal_json value;
    if (text.len < 2)
        return false;
    pal_arena *arena = pal_arena_new(0);
    bool is = arena && pal_json_parse(arena, text, NULL, &value, NULL) == PAL_OK &&
            pal_json_type_of(value) == PAL_JSON_OBJECT;
    pal_arena_free(arena);
    return is;
}

/* Writes the arguments of a call. Models can write arguments that are not a JSON object. */
static void put_input(const block *b, pal_json_writer *writer)
{
    pal_str arguments = pal_buf_str(&b->text);
    pal_json_name(writer, "input");
    if (is_object(arguments)) {
        pal_json_put_raw(writer, arguments);
        return;
    }
    pal_json_begin_object(writer);
    pal_put_str_if(writer, "arguments", arguments);
    pal_json_end_object(writer);
}

/* `is_start`: the block of a content_block_start, whose content follows. */
static void put_block(const block *b, pal_json_writer *writer, bool is_start)
{
    pal_str text = is_start ? (pal_str){0} : pal_buf_str(&b->text);
    pal_json_begin_object(writer);
    if (b->kind == BLOCK_TEXT) {
        pal_put_text(writer, "type", "text");
        pal_put_str(writer, "text", text);
    } else if (b->kind == BLOCK_THINKING) {
        pal_put_text(writer, "type", "thinking");
        pal_put_str(writer, "thinking", text);
        pal_put_text(writer, "signature", "");
    } else {
        pal_put_text(writer, "type", "tool_use");
        pal_put_str(writer, "id", b->id);
        pal_put_str(writer, "name", b->name);
        if (is_start)
            pal_put_raw(writer, "input", pal_str_of("{}"));
        else
            put_input(b, writer);
    }
    pal_json_end_object(writer);
}

/* ---- The complete message; the lock must be held ---- */

/* A part that could not be kept in memory must not be missing silently. */
static bool has_gap(const message_run *r)
{
    bool has = pal_arena_failure(r->run.arena) != PAL_OK;
    for (const block *b = r->blocks; b; b = b->next)
        has = has || b->text.failure;
    return has;
}

static bool put_message(pal_run *run, pal_json_writer *writer)
{
    const message_run *r = (const message_run *)run;
    if (has_gap(r))
        return false;
    pal_json_begin_object(writer);
    put_head(r, writer);
    pal_json_name(writer, "content");
    pal_json_begin_array(writer);
    for (const block *b = r->blocks; b; b = b->next)
        put_block(b, writer, false);
    pal_json_end_array(writer);
    pal_put_text(writer, "stop_reason", stop_reason(r));
    pal_put_null(writer, "stop_sequence");
    put_usage(writer, &r->usage);
    put_left_out(r, writer);
    pal_json_end_object(writer);
    return true;
}

/* ---- Events of the stream; the lock must be held ---- */

static pal_json_writer begin_event(pal_buf *buf, const char *type)
{
    pal_buf_init(buf, PAL_RUN_FRAME_BYTES_MAX);
    pal_buf_append_text(buf, "event: ");
    pal_buf_append_text(buf, type);
    pal_buf_append_text(buf, "\ndata: ");
    pal_json_writer writer = pal_json_writer_make(buf);
    pal_json_begin_object(&writer);
    pal_put_text(&writer, "type", type);
    return writer;
}

static void end_event(message_run *r, pal_json_writer *writer)
{
    pal_json_end_object(writer);
    pal_buf_append_text(writer->buf, "\n\n");
    (void)pal_run_write(&r->run, writer->buf);
    pal_buf_done(writer->buf);
}

static void open_stream(message_run *r)
{
    pal_buf buf;
    if (r->run.is_streaming || !pal_run_open(&r->run))
        return;
    pal_json_writer writer = begin_event(&buf, "message_start");
    pal_json_name(&writer, "message");
    pal_json_begin_object(&writer);
    put_head(r, &writer);
    pal_put_raw(&writer, "content", pal_str_of("[]"));
    pal_put_null(&writer, "stop_reason");
    pal_put_null(&writer, "stop_sequence");
    put_usage(&writer, &r->usage); /* known at the end: message_delta has it */
    put_left_out(r, &writer);
    pal_json_end_object(&writer);
    end_event(r, &writer);
}

static void write_delta(message_run *r, const block *b, pal_str text)
{
    static const char *const types[] = {"text_delta", "thinking_delta", "input_json_delta"};
    static const char *const names[] = {"text", "thinking", "partial_json"};
    pal_buf buf;
    if (text.len == 0)
        return;
    pal_json_writer writer = begin_event(&buf, "content_block_delta");
    pal_put_count(&writer, "index", b->index);
    pal_json_name(&writer, "delta");
    pal_json_begin_object(&writer);
    pal_put_text(&writer, "type", types[b->kind]);
    pal_put_str(&writer, names[b->kind], text);
    pal_json_end_object(&writer);
    end_event(r, &writer);
}

static void write_start(message_run *r, block *b)
{
    pal_buf buf;
    pal_json_writer writer = begin_event(&buf, "content_block_start");
    pal_put_count(&writer, "index", b->index);
    pal_json_name(&writer, "content_block");
    put_block(b, &writer, true);
    end_event(r, &writer);
    b->is_open = true;
    write_delta(r, b, pal_buf_str(&b->text));
}

/* Opens and closes blocks as far as possible. `is_end`: no block grows any more. */
static void advance(message_run *r, bool is_end)
{
    while (r->current) {
        block *b = r->current;
        if (!b->is_open)
            write_start(r, b);
        bool is_complete = is_end ||
                (b->next && (b->kind != BLOCK_CALL || is_object(pal_buf_str(&b->text))));
        if (!is_complete)
            return;
        pal_buf buf;
        pal_json_writer writer = begin_event(&buf, "content_block_stop");
        pal_put_count(&writer, "index", b->index);
        end_event(r, &writer);
        r->current = b->next;
    }
}

static void write_end(message_run *r)
{
    pal_buf buf;
    advance(r, true);
    pal_json_writer writer = begin_event(&buf, "message_delta");
    pal_json_name(&writer, "delta");
    pal_json_begin_object(&writer);
    pal_put_text(&writer, "stop_reason", stop_reason(r));
    pal_put_null(&writer, "stop_sequence");
    pal_json_end_object(&writer);
    put_usage(&writer, &r->usage);
    end_event(r, &writer);
}

static void write_message_stop(pal_run *run)
{
    pal_buf buf;
    pal_json_writer writer = begin_event(&buf, "message_stop");
    end_event((message_run *)run, &writer);
}

static void write_failure(message_run *r, const pal_event *end)
{
    pal_run_failure failure = pal_run_failure_of(r->run.handlers->failures, end);
    pal_buf buf;
    pal_buf_init(&buf, PAL_RUN_FRAME_BYTES_MAX);
    pal_anthropic_put_error_event(&buf, pal_anthropic_error_type(failure.code),
            end->text.len ? end->text : pal_str_of("the turn was stopped"));
    (void)pal_run_write(&r->run, &buf);
    pal_buf_done(&buf);
}

/* ---- Events of the turn ---- */

static block *add_block(message_run *r, block_kind kind, uint64_t part)
{
    block *b = pal_arena_alloc(r->run.arena, sizeof *b);
    if (!b)
        return NULL;
    b->kind = kind;
    b->part = part;
    b->index = r->blocks_len++;
    pal_buf_init(&b->text, PAL_PROVIDER_ANSWER_BYTES_MAX);
    *r->blocks_end = b;
    r->blocks_end = &b->next;
    r->newest = b;
    if (!r->current)
        r->current = b;
    return b;
}

static void grow_block(message_run *r, block *b, pal_str text)
{
    pal_buf_append_str(&b->text, text);
    if (!r->wants_stream)
        return;
    open_stream(r);
    if (b == r->current && b->is_open)
        write_delta(r, b, text);
    advance(r, false);
}

static void note_text(message_run *r, const pal_event *event)
{
    block_kind kind = event->kind == PAL_EVENT_REASONING ? BLOCK_THINKING : BLOCK_TEXT;
    block *b = r->newest;
    r->is_refusal = r->is_refusal || event->is_refusal;
    if (kind == BLOCK_THINKING && !r->shows_thinking)
        return;
    if (!b || b->kind != kind || b->part != event->count)
        b = add_block(r, kind, event->count);
    if (b)
        grow_block(r, b, event->text);
}

/* Clients accept only letters, digits, '_' and '-'. */
static pal_str safe_id(pal_arena *arena, pal_str id)
{
    char *text = pal_arena_alloc(arena, id.len + 1);
    for (size_t i = 0; text && i < id.len; i++) {
        char c = id.data[i];
        bool is_safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                c == '_' || c == '-';
        text[i] = is_safe ? c : '_';
    }
    return pal_str_make(text, text ? id.len : 0);
}

static void note_call(message_run *r, const pal_event *event)
{
    block *b = add_block(r, BLOCK_CALL, event->count);
    if (!b)
        return;
    b->call_id = pal_arena_copy(r->run.arena, event->call_id);
    b->id = safe_id(r->run.arena, event->call_id);
    b->name = pal_arena_copy(r->run.arena, event->name);
    r->has_calls = true;
    grow_block(r, b, (pal_str){0});
}

static void note_arguments(message_run *r, const pal_event *event)
{
    block *b = r->blocks;
    while (b && (b->kind != BLOCK_CALL || !pal_str_equal(b->call_id, event->call_id)))
        b = b->next;
    if (b)
        grow_block(r, b, event->text);
}

static void event(pal_run *run, const pal_event *event)
{
    message_run *r = (message_run *)run;
    switch (event->kind) {
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
    return ((message_run *)run)->record;
}

static const pal_api_record_end record_end = {
        .record_of = record_of, .put_answer = put_message, .write_last = write_message_stop};

static void record_and_send(pal_run *run)
{
    pal_api_record_and_send(run, &record_end);
}

static void done(pal_run *run, const pal_event *end)
{
    message_run *r = (message_run *)run;
    r->usage = end->usage;
    if (r->wants_stream) {
        open_stream(r);
        write_end(r);
        pal_api_record_end_stream(run, &record_end);
    } else if (!r->record || !pal_run_to_worker(run, record_and_send)) {
        pal_api_record_send(run, &record_end);
    }
}

static void failed(pal_run *run, const pal_event *end)
{
    if (run->is_streaming)
        write_failure((message_run *)run, end);
    else
        pal_run_fail(run, end);
}

static void free_run(pal_run *run)
{
    message_run *r = (message_run *)run;
    for (block *b = r->blocks; b; b = b->next)
        pal_buf_done(&b->text);
    pal_api_record_free(r->record);
}

/* ---- Starting ---- */

pal_status pal_anthropic_run(const pal_anthropic_request *request, pal_error *err)
{
    static const pal_run_handlers handlers = {.event = event,
            .done = done,
            .failed = failed,
            .free = free_run,
            .failures = pal_run_failures_anthropic};
    message_run *r = pal_run_new(request->call, &handlers, sizeof *r);
    if (!r) {
        pal_api_record_free(request->record);
        return pal_no_memory(err);
    }
    r->record = request->record;
    r->blocks_end = &r->blocks;
    r->wants_stream = request->is_stream;
    r->shows_thinking = request->shows_thinking;
    r->model = pal_arena_copy(r->run.arena, request->model);
    r->left_out = pal_arena_copy(r->run.arena, request->left_out);
    r->run.is_temporary = true;
    pal_run_start(&r->run, &request->turn);
    return PAL_OK;
}
