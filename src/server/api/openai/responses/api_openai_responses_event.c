/* api_openai_responses_event.c - creates the events of a response from the pieces that the model
 * sends, with the order and the numbers that the API promises.
 *
 * Every piece is one item of the output: a text, a block of reasoning, or a call. A text or a block
 * ends when another item begins. A call ends then too, if its arguments are complete. If a service
 * sends several calls at the same time, they end with the answer. A call that a tool server runs
 * ends with its result.
 *
 * The lengths of the deltas are stored as runs, [[ITEM, LEN, LEN, ...], ...]: an item's number in
 * the output, and the lengths of its deltas in bytes. An item of the service's own tools has
 * objects instead of lengths: the events of the service about it, without the members that are
 * ours. Output and runs are enough to create the same events again. */
#include "server/api/openai/responses/api_openai_responses.h"

#include "base/json/json_put.h"
#include "base/memory.h"
#include "dialect/dialect_member.h"

/* The names of the events and members of each form. */
static const struct {
    pal_part_kind kind;
    const char *delta, *done; /* types of events */
    const char *member;       /* the member that contains the complete text */
    const char *part;         /* type of the content part; NULL if it has none */
} forms[] = {
        [PAL_RESPONSE_TEXT] = {PAL_PART_TEXT, "response.output_text.delta",
                "response.output_text.done", "text", "output_text"},
        [PAL_RESPONSE_REFUSAL] = {PAL_PART_TEXT, "response.refusal.delta", "response.refusal.done",
                "refusal", "refusal"},
        [PAL_RESPONSE_REASONING] = {PAL_PART_REASONING, "response.reasoning_text.delta",
                "response.reasoning_text.done", "text", "reasoning_text"},
        [PAL_RESPONSE_CALL] = {PAL_PART_TOOL_CALL, "response.function_call_arguments.delta",
                "response.function_call_arguments.done", "arguments", NULL},
        [PAL_RESPONSE_CUSTOM_CALL] = {PAL_PART_TOOL_CALL, "response.custom_tool_call_input.delta",
                "response.custom_tool_call_input.done", "input", NULL},
        [PAL_RESPONSE_MCP_CALL] = {PAL_PART_TOOL_CALL, "response.mcp_call_arguments.delta",
                "response.mcp_call_arguments.done", "arguments", NULL},
        [PAL_RESPONSE_SUMMARY] = {PAL_PART_REASONING, "response.reasoning_summary_text.delta",
                "response.reasoning_summary_text.done", "text", "summary_text"},
        [PAL_RESPONSE_ITEM] = {PAL_PART_FILE, NULL, NULL, NULL, NULL},
        [PAL_RESPONSE_LIST] = {PAL_PART_FILE, NULL, NULL, NULL, NULL},
};

struct pal_response_piece {
    pal_response_form form;
    pal_id message;
    uint32_t part; /* number of the part in its message, from 1 */
    char item_id[PAL_OPENAI_ITEM_ID_SIZE];
    bool is_open;
    bool is_whole; /* the service has completed it */
    pal_buf text; /* the text or the arguments so far */
    pal_buf call_id;
    pal_buf name;
    pal_buf name_space; /* the namespace of a call's tool; may be empty */
    pal_buf extra;      /* the extra of a call or of a list; may be empty */
    bool is_approved;   /* MCP_CALL: the client has approved it; `message` has its result */
    bool is_asked;      /* MCP_CALL: nothing was written, because it may need approval */
    bool is_said;       /* MCP_CALL: the complete arguments were written */
    bool has_result;    /* MCP_CALL */
    bool is_error;      /* MCP_CALL: the result is an error */
    pal_buf result;     /* MCP_CALL */
    pal_buf item;       /* the complete item of the service, as a JSON array; empty: none yet */
};

void pal_response_events_init(pal_response_events *events, const pal_response *response)
{
    *events = (pal_response_events){.response = response};
    pal_buf_init(&events->deltas, PAL_RESPONSE_DELTAS_BYTES_MAX);
}

void pal_response_events_done(pal_response_events *events)
{
    for (size_t i = 0; i < events->len; i++) {
        pal_buf_done(&events->pieces[i].text);
        pal_buf_done(&events->pieces[i].call_id);
        pal_buf_done(&events->pieces[i].name);
        pal_buf_done(&events->pieces[i].name_space);
        pal_buf_done(&events->pieces[i].extra);
        pal_buf_done(&events->pieces[i].result);
        pal_buf_done(&events->pieces[i].item);
    }
    pal_free(events->pieces);
    pal_buf_done(&events->deltas);
}

/* ---- Frames ---- */

static bool is_told(const pal_response_events *events)
{
    return (events->stream || events->write) && !events->is_cut &&
            events->number >= events->told_from;
}

/* Begins {"type":TYPE,"sequence_number":N of a frame. */
static pal_json_writer begin_frame(
        const pal_response_events *events, const char *type, pal_buf *buf)
{
    pal_buf_init(buf, PAL_RESPONSE_EVENT_BYTES_MAX);
    pal_buf_append_text(buf, "event: ");
    pal_buf_append_text(buf, type);
    pal_buf_append_text(buf, "\ndata: ");
    pal_json_writer writer = pal_json_writer_make(buf);
    pal_json_begin_object(&writer);
    pal_put_text(&writer, "type", type);
    pal_put_count(&writer, "sequence_number", events->number);
    return writer;
}

/* If there is no memory, no more events are written, so that the reader notices the gap. */
static void end_frame(pal_response_events *events, pal_json_writer *writer)
{
    pal_json_end_object(writer);
    pal_buf_append_text(writer->buf, "\n\n");
    bool is_written = !writer->buf->failure;
    if (is_written && events->stream)
        is_written = *events->stream && pal_stream_write(*events->stream, pal_buf_str(writer->buf));
    else if (is_written)
        is_written = events->write(pal_buf_str(writer->buf), events->user);
    if (!is_written)
        events->is_cut = true;
    pal_buf_done(writer->buf);
}

static void tell_response(pal_response_events *events, const char *type, bool has_output)
{
    if (is_told(events)) {
        pal_buf buf;
        pal_json_writer writer = begin_frame(events, type, &buf);
        pal_json_name(&writer, "response");
        if (pal_response_put(&writer, events->response,
                    has_output ? pal_response_events_output : NULL, events, NULL) != PAL_OK)
            buf.failure = PAL_NO_MEMORY;
        end_frame(events, &writer);
    }
    events->number++;
}

/* Both events show the same response, so it is written once. */
void pal_response_events_begin(pal_response_events *events)
{
    static const char *const types[] = {"response.created", "response.in_progress"};
    bool has_reader = events->stream || events->write;
    pal_buf response;
    pal_buf_init(&response, PAL_RESPONSE_EVENT_BYTES_MAX);
    pal_json_writer response_writer = pal_json_writer_make(&response);
    if (has_reader &&
            pal_response_put(&response_writer, events->response, NULL, events, NULL) != PAL_OK)
        response.failure = PAL_NO_MEMORY;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++, events->number++) {
        pal_buf buf;
        if (!is_told(events))
            continue;
        pal_json_writer writer = begin_frame(events, types[i], &buf);
        pal_put_raw(&writer, "response", pal_buf_str(&response));
        if (response.failure)
            buf.failure = response.failure;
        end_frame(events, &writer);
    }
    pal_buf_done(&response);
}

/* ---- Items ---- */

static bool is_call_piece(const pal_response_piece *piece)
{
    return forms[piece->form].kind == PAL_PART_TOOL_CALL;
}

/* Builds a message that contains only this piece. */
static pal_message message_of(const pal_response_piece *piece, pal_part *part)
{
    bool is_call = is_call_piece(piece);
    *part = (pal_part){.kind = forms[piece->form].kind, .number = piece->part};
    if (is_call || piece->form == PAL_RESPONSE_LIST)
        part->extra = pal_buf_str(&piece->extra);
    else if (piece->form == PAL_RESPONSE_REFUSAL)
        part->extra = pal_str_of(PAL_OPENAI_REFUSAL_EXTRA);
    *(is_call ? &part->arguments : &part->text) = pal_buf_str(&piece->text);
    part->call_id = pal_buf_str(&piece->call_id);
    part->name = pal_buf_str(&piece->name);
    if (piece->is_approved)
        part->kind = PAL_PART_TOOL_RESULT;
    return (pal_message){.id = piece->message,
            .role = piece->is_approved ? PAL_ROLE_TOOL : PAL_ROLE_ASSISTANT,
            .parts = part,
            .parts_len = 1};
}

/* Reads the item of the service as the message that is stored. */
static pal_status read_service_item(const pal_response_piece *piece, pal_arena *arena,
        pal_message *out_message, pal_error *err)
{
    pal_status status =
            pal_openai_items_read_answer(pal_buf_str(&piece->item), arena, out_message, err);
    if (status != PAL_OK)
        return status;
    out_message->id = piece->message;
    for (size_t i = 0; i < out_message->parts_len; i++)
        out_message->parts[i].number = piece->part + (uint32_t)i;
    return PAL_OK;
}

/* Writes the item of the service with our id. */
static pal_status put_service_item(pal_json_writer *writer, const pal_response_piece *piece,
        const pal_part *result, const char *status, pal_error *err)
{
    pal_message message;
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return pal_no_memory(err);
    pal_status read = read_service_item(piece, arena, &message, err);
    if (read == PAL_OK) {
        bool is_mcp = pal_openai_is_mcp(pal_buf_str(&piece->extra));
        if (piece->extra.len && message.parts_len && (is_mcp || !message.parts[0].extra.len))
            message.parts[0].extra = pal_buf_str(&piece->extra);
        read = pal_openai_item_put(writer, &message, 0, result, status, err);
    }
    pal_arena_free(arena);
    return read;
}

static pal_status put_item(pal_json_writer *writer, const pal_response_piece *piece,
        const char *status, pal_error *err)
{
    pal_part part;
    const pal_message message = message_of(piece, &part);
    const pal_part result = {.kind = PAL_PART_TOOL_RESULT,
            .text = pal_buf_str(&piece->result),
            .is_error = piece->is_error};
    const pal_part *shown = piece->has_result ? &result : NULL;
    if (piece->item.len)
        return put_service_item(writer, piece, shown, status, err);
    return pal_openai_item_put(writer, &message, 0, shown, status, err);
}

/* Writes the item without content, as it is before its first delta. */
static void put_new_item(pal_json_writer *writer, const pal_response_piece *piece)
{
    static const pal_str no_list = {"[]", 2};
    if (piece->form == PAL_RESPONSE_MCP_CALL || piece->form == PAL_RESPONSE_ITEM) {
        if (put_item(writer, piece, "in_progress", NULL) != PAL_OK)
            writer->buf->failure = PAL_NO_MEMORY;
        return;
    }
    pal_json_begin_object(writer);
    pal_put_text(writer, "id", piece->item_id);
    if (piece->form == PAL_RESPONSE_LIST) {
        pal_put_text(writer, "type", "mcp_list_tools");
        pal_put_str(writer, "server_label", pal_buf_str(&piece->name));
        pal_put_raw(writer, "tools", no_list);
        pal_put_null(writer, "error");
    } else if (is_call_piece(piece)) {
        bool is_custom = piece->form == PAL_RESPONSE_CUSTOM_CALL;
        pal_put_text(writer, "type", is_custom ? "custom_tool_call" : "function_call");
        pal_put_str(writer, "call_id", pal_buf_str(&piece->call_id));
        pal_put_str(writer, "name", pal_buf_str(&piece->name));
        if (piece->name_space.len)
            pal_put_str(writer, "namespace", pal_buf_str(&piece->name_space));
        pal_put_text(writer, forms[piece->form].member, "");
        pal_put_text(writer, "status", "in_progress");
    } else if (piece->form == PAL_RESPONSE_REASONING || piece->form == PAL_RESPONSE_SUMMARY) {
        pal_put_text(writer, "type", "reasoning");
        pal_put_raw(writer, "summary", no_list);
        if (piece->form == PAL_RESPONSE_REASONING)
            pal_put_raw(writer, "content", no_list);
    } else {
        pal_put_text(writer, "type", "message");
        pal_put_text(writer, "role", "assistant");
        pal_put_raw(writer, "content", no_list);
        pal_put_text(writer, "status", "in_progress");
    }
    pal_json_end_object(writer);
}

static void put_list(pal_json_writer *writer, const char *name)
{
    pal_json_name(writer, name);
    pal_json_begin_array(writer);
    pal_json_end_array(writer);
}

static void put_part(pal_json_writer *writer, const pal_response_piece *piece, pal_str text)
{
    pal_json_name(writer, "part");
    pal_json_begin_object(writer);
    pal_put_text(writer, "type", forms[piece->form].part);
    pal_put_str(writer, forms[piece->form].member, text);
    if (piece->form == PAL_RESPONSE_TEXT) {
        put_list(writer, "annotations");
        put_list(writer, "logprobs");
    }
    pal_json_end_object(writer);
}

static size_t index_of(const pal_response_events *events, const pal_response_piece *piece)
{
    return (size_t)(piece - events->pieces);
}

/* ---- Events of an item ---- */

static void tell_item(
        pal_response_events *events, const pal_response_piece *piece, const char *status)
{
    if (is_told(events)) {
        pal_buf buf;
        pal_json_writer writer = begin_frame(
                events, status ? "response.output_item.done" : "response.output_item.added", &buf);
        pal_put_count(&writer, "output_index", index_of(events, piece));
        pal_json_name(&writer, "item");
        if (!status)
            put_new_item(&writer, piece);
        else if (put_item(&writer, piece, status, NULL) != PAL_OK)
            buf.failure = PAL_NO_MEMORY;
        end_frame(events, &writer);
    }
    events->number++;
}

static void begin_item(pal_response_events *events, pal_response_piece *piece)
{
    pal_part part;
    const pal_message message = message_of(piece, &part);
    pal_openai_item_id(&message, 0, piece->item_id);
    tell_item(events, piece, NULL);
}

/* Writes the members that all events of an item begin with. */
static pal_json_writer begin_within(const pal_response_events *events,
        const pal_response_piece *piece, const char *type, pal_buf *buf)
{
    pal_json_writer writer = begin_frame(events, type, buf);
    pal_put_text(&writer, "item_id", piece->item_id);
    pal_put_count(&writer, "output_index", index_of(events, piece));
    if (forms[piece->form].part)
        pal_put_count(&writer,
                piece->form == PAL_RESPONSE_SUMMARY ? "summary_index" : "content_index", 0);
    return writer;
}

static void tell_part(pal_response_events *events, const pal_response_piece *piece, bool is_done)
{
    if (is_told(events)) {
        static const char *const types[2][2] = {
                {"response.content_part.added", "response.content_part.done"},
                {"response.reasoning_summary_part.added", "response.reasoning_summary_part.done"}};
        pal_buf buf;
        bool is_summary = piece->form == PAL_RESPONSE_SUMMARY;
        pal_json_writer writer = begin_within(events, piece, types[is_summary][is_done], &buf);
        put_part(&writer, piece, is_done ? pal_buf_str(&piece->text) : (pal_str){0});
        end_frame(events, &writer);
    }
    events->number++;
}

/* Writes a delta, or the complete text at the end. */
static void tell_text(
        pal_response_events *events, const pal_response_piece *piece, pal_str delta, bool is_done)
{
    if (is_told(events)) {
        pal_buf buf;
        const char *type = is_done ? forms[piece->form].done : forms[piece->form].delta;
        pal_json_writer writer = begin_within(events, piece, type, &buf);
        pal_put_str(&writer, is_done ? forms[piece->form].member : "delta", delta);
        if (piece->form == PAL_RESPONSE_CALL && is_done)
            pal_put_str(&writer, "name", pal_buf_str(&piece->name));
        if (piece->form == PAL_RESPONSE_TEXT)
            put_list(&writer, "logprobs");
        end_frame(events, &writer);
    }
    events->number++;
}

/* ---- Pieces ---- */

static void note_run(pal_response_events *events, size_t item)
{
    if (events->run == item + 1)
        return;
    pal_buf_append_text(&events->deltas, events->run ? "],[" : "[[");
    pal_buf_append_u64(&events->deltas, item);
    events->run = item + 1;
}

static void grow(pal_response_events *events, pal_response_piece *piece, pal_str delta)
{
    note_run(events, index_of(events, piece));
    pal_buf_append_char(&events->deltas, ',');
    pal_buf_append_u64(&events->deltas, delta.len);
    pal_buf_append_str(&piece->text, delta);
    if (piece->text.failure)
        events->failure = piece->text.failure;
    if (piece->form != PAL_RESPONSE_CUSTOM_CALL && !piece->is_asked)
        tell_text(events, piece, delta, false);
}

/* The text of a custom call is known only when its JSON is complete, so it is sent as one delta. */
static void tell_input(pal_response_events *events, const pal_response_piece *piece)
{
    pal_arena *arena = pal_arena_new(0);
    if (!arena) {
        events->failure = PAL_NO_MEMORY;
        return;
    }
    pal_str input = pal_openai_custom_input(pal_buf_str(&piece->text), arena);
    if (pal_arena_failure(arena) != PAL_OK)
        events->failure = PAL_NO_MEMORY;
    if (input.len)
        tell_text(events, piece, input, false);
    tell_text(events, piece, input, true);
    pal_arena_free(arena);
}

/* Writes an event of an mcp_call or of an mcp_list_tools that has no further members. */
static void tell_mcp(pal_response_events *events, const pal_response_piece *piece, const char *type)
{
    if (is_told(events)) {
        pal_buf buf;
        pal_json_writer writer = begin_within(events, piece, type, &buf);
        end_frame(events, &writer);
    }
    events->number++;
}

/* The arguments of an mcp_call are complete. The item ends with its result. */
static void say_arguments(pal_response_events *events, pal_response_piece *piece)
{
    if (piece->is_said)
        return;
    piece->is_said = true;
    if (piece->text.len == 0)
        grow(events, piece, pal_str_of("{}"));
    tell_text(events, piece, pal_buf_str(&piece->text), true);
}

/* The events of a call that may need approval begin when it runs, or when its result is known. */
static void begin_asked(pal_response_events *events, pal_response_piece *piece)
{
    if (!piece->is_asked)
        return;
    piece->is_asked = false;
    begin_item(events, piece);
    tell_mcp(events, piece, "response.mcp_call.in_progress");
    if (piece->text.len)
        tell_text(events, piece, pal_buf_str(&piece->text), false);
}

/* The turn ends with the call, so it needs approval. */
static void end_asked(pal_response_events *events, pal_response_piece *piece)
{
    piece->is_open = false;
    if (piece->text.len == 0)
        grow(events, piece, pal_str_of("{}"));
    begin_item(events, piece);
    tell_item(events, piece, "completed");
}

static void end_mcp(pal_response_events *events, pal_response_piece *piece, const char *status)
{
    say_arguments(events, piece);
    piece->is_open = false;
    if (piece->has_result)
        tell_mcp(events, piece,
                piece->is_error ? "response.mcp_call.failed" : "response.mcp_call.completed");
    tell_item(events, piece, status);
}

static void end_piece(pal_response_events *events, pal_response_piece *piece, const char *status)
{
    bool is_call = is_call_piece(piece);
    if (!piece->is_open || piece->is_asked)
        return;
    if (piece->form == PAL_RESPONSE_MCP_CALL) {
        say_arguments(events, piece);
        return;
    }
    if (piece->form == PAL_RESPONSE_ITEM) {
        piece->is_open = false;
        tell_item(events, piece, status);
        return;
    }
    /* If a model sends no arguments, an empty object is recorded. */
    if (is_call && piece->text.len == 0)
        grow(events, piece, pal_str_of("{}"));
    piece->is_open = false;
    if (piece->form == PAL_RESPONSE_CUSTOM_CALL)
        tell_input(events, piece);
    else
        tell_text(events, piece, pal_buf_str(&piece->text), true);
    if (!is_call)
        tell_part(events, piece, true);
    tell_item(events, piece, status);
}

static bool is_whole(const pal_response_piece *piece)
{
    pal_json value;
    if (!is_call_piece(piece))
        return true;
    pal_arena *arena = piece->text.len ? pal_arena_new(0) : NULL;
    bool is_json =
            arena && pal_json_parse(arena, pal_buf_str(&piece->text), NULL, &value, NULL) == PAL_OK;
    pal_arena_free(arena);
    return is_json;
}

static pal_response_piece *new_piece(
        pal_response_events *events, pal_response_form form, uint64_t part)
{
    if (!pal_reserve(&events->pieces, &events->cap, events->len + 1, sizeof *events->pieces)) {
        events->failure = PAL_NO_MEMORY;
        return NULL;
    }
    pal_response_piece *piece = &events->pieces[events->len++];
    *piece = (pal_response_piece){
            .form = form, .message = events->message, .part = (uint32_t)part, .is_open = true};
    pal_buf_init(&piece->text, PAL_MESSAGE_BYTES_MAX);
    pal_buf_init(&piece->call_id, PAL_MESSAGE_BYTES_MAX);
    pal_buf_init(&piece->name, PAL_MESSAGE_BYTES_MAX);
    pal_buf_init(&piece->name_space, PAL_MESSAGE_BYTES_MAX);
    pal_buf_init(&piece->extra, PAL_MESSAGE_BYTES_MAX);
    pal_buf_init(&piece->result, PAL_MESSAGE_BYTES_MAX);
    pal_buf_init(&piece->item, PAL_MESSAGE_BYTES_MAX);
    return piece;
}

static pal_response_piece *add_piece(
        pal_response_events *events, pal_response_form form, uint64_t part)
{
    for (size_t i = 0; i < events->len; i++) {
        if (events->pieces[i].is_open && is_whole(&events->pieces[i]))
            end_piece(events, &events->pieces[i], "completed");
    }
    pal_response_piece *piece = new_piece(events, form, part);
    if (piece)
        note_run(events, events->len - 1);
    return piece;
}

/* ---- Lists of tools ---- */

/* The record has the lists completely. */
static void add_list(pal_response_events *events, const pal_part *list)
{
    pal_response_piece *piece = new_piece(events, PAL_RESPONSE_LIST, list->number);
    if (!piece)
        return;
    piece->message = events->response->id;
    piece->is_open = false;
    pal_buf_append_str(&piece->name, list->name);
    pal_buf_append_str(&piece->extra, list->extra);
    if (piece->name.failure || piece->extra.failure)
        events->failure = PAL_NO_MEMORY;
    begin_item(events, piece);
    tell_mcp(events, piece, "response.mcp_list_tools.in_progress");
    tell_mcp(events, piece,
            list->is_error ? "response.mcp_list_tools.failed"
                           : "response.mcp_list_tools.completed");
    tell_item(events, piece, "completed");
}

void pal_response_events_lists(pal_response_events *events)
{
    pal_message lists = {0};
    pal_arena *arena = pal_arena_new(0);
    if (!arena || pal_response_lists_message(events->response, arena, &lists, NULL) != PAL_OK)
        events->failure = PAL_NO_MEMORY;
    for (size_t i = 0; !events->failure && i < lists.parts_len; i++)
        add_list(events, &lists.parts[i]);
    pal_arena_free(arena);
}

/* ---- Approved calls ---- */

/* The record has these calls completely, so their deltas are not stored. */
static void add_approved(pal_response_events *events, pal_json call, pal_arena *arena)
{
    pal_id message = {{0}};
    bool is_valid = pal_id_from_text(pal_member_string(call, "message", arena), &message);
    pal_response_piece *piece =
            is_valid ? new_piece(events, PAL_RESPONSE_MCP_CALL, 1) : NULL;
    if (!piece)
        return;
    piece->is_approved = true;
    piece->message = message;
    pal_buf_append_str(&piece->call_id, pal_member_string(call, "call_id", arena));
    pal_buf_append_str(&piece->name, pal_member_string(call, "name", arena));
    pal_buf_append_str(&piece->text, pal_member_string(call, "arguments", arena));
    pal_buf_append_str(&piece->extra, pal_member_string(call, "extra", arena));
    if (piece->text.failure || piece->extra.failure || pal_arena_failure(arena) != PAL_OK)
        events->failure = PAL_NO_MEMORY;
    begin_item(events, piece);
    tell_mcp(events, piece, "response.mcp_call.in_progress");
    tell_text(events, piece, pal_buf_str(&piece->text), false);
    piece->is_said = true;
    tell_text(events, piece, pal_buf_str(&piece->text), true);
}

void pal_response_events_approved(pal_response_events *events)
{
    pal_json calls, call;
    pal_arena *arena = events->response->approved.len ? pal_arena_new(0) : NULL;
    if (!events->response->approved.len)
        return;
    if (!arena || pal_json_parse(arena, events->response->approved, NULL, &calls, NULL) != PAL_OK)
        events->failure = PAL_NO_MEMORY;
    else
        for (pal_json_iter iter = pal_json_each(calls); pal_json_next(&iter, NULL, &call);)
            add_approved(events, call, arena);
    pal_arena_free(arena);
}

/* ---- Input from the model ---- */

void pal_response_events_message(pal_response_events *events, pal_id message)
{
    events->message = message;
}

void pal_response_events_text(
        pal_response_events *events, pal_response_form form, uint64_t part, pal_str delta)
{
    pal_response_piece *last = events->len ? &events->pieces[events->len - 1] : NULL;
    if (delta.len == 0 || events->failure)
        return;
    if (!last || last->form != form || last->part != part ||
            !pal_id_equal(last->message, events->message)) {
        last = add_piece(events, form, part);
        if (!last)
            return;
        begin_item(events, last);
        tell_part(events, last, false);
    }
    grow(events, last, delta);
}

void pal_response_events_call(pal_response_events *events, uint64_t part, pal_str call_id,
        pal_str name, pal_str extra)
{
    if (name.len == 0 || events->failure)
        return; /* empty text is not recorded either */
    pal_response_call call = {0};
    pal_buf_init(&call.name_space, PAL_MESSAGE_BYTES_MAX);
    pal_buf_init(&call.extra, PAL_MESSAGE_BYTES_MAX);
    if (pal_openai_is_mcp(extra)) {
        call.form = PAL_RESPONSE_MCP_CALL;
        pal_buf_append_str(&call.extra, extra);
    } else {
        events->failure = pal_response_call_form(events->response, name, &call);
    }
    pal_response_piece *piece = events->failure ? NULL : add_piece(events, call.form, part);
    if (!piece) {
        pal_buf_done(&call.name_space);
        pal_buf_done(&call.extra);
        return;
    }
    piece->name_space = call.name_space;
    piece->extra = call.extra;
    pal_buf_append_str(&piece->call_id, call_id);
    pal_buf_append_str(&piece->name, name);
    if (piece->call_id.failure || piece->name.failure)
        events->failure = PAL_NO_MEMORY;
    piece->is_asked = pal_openai_is_asked(extra);
    if (piece->is_asked)
        return;
    begin_item(events, piece);
    if (piece->form == PAL_RESPONSE_MCP_CALL)
        tell_mcp(events, piece, "response.mcp_call.in_progress");
}

/* Finds the newest open call that a tool server runs. */
static pal_response_piece *find_mcp(pal_response_events *events, pal_str call_id)
{
    for (size_t i = events->len; !events->failure && i > 0; i--) {
        pal_response_piece *piece = &events->pieces[i - 1];
        if (piece->form == PAL_RESPONSE_MCP_CALL && piece->is_open &&
                pal_str_equal(pal_buf_str(&piece->call_id), call_id))
            return piece;
    }
    return NULL;
}

void pal_response_events_runs(pal_response_events *events, pal_str call_id)
{
    pal_response_piece *piece = find_mcp(events, call_id);
    if (piece)
        begin_asked(events, piece);
}

void pal_response_events_result(
        pal_response_events *events, pal_str call_id, pal_str text, bool is_error)
{
    pal_response_piece *piece = find_mcp(events, call_id);
    if (!piece)
        return;
    begin_asked(events, piece);
    pal_buf_append_str(&piece->result, text);
    events->failure = piece->result.failure;
    piece->has_result = true;
    piece->is_error = is_error;
    end_mcp(events, piece, "completed");
}

void pal_response_events_arguments(pal_response_events *events, pal_str call_id, pal_str delta)
{
    for (size_t i = events->len; delta.len && !events->failure && i > 0; i--) {
        pal_response_piece *piece = &events->pieces[i - 1];
        if (!piece->is_open || !is_call_piece(piece) ||
                !pal_str_equal(pal_buf_str(&piece->call_id), call_id))
            continue;
        grow(events, piece, delta);
        return;
    }
}

/* Returns the open piece that the part belongs to, or NULL. */
static pal_response_piece *find_open(pal_response_events *events, uint64_t part)
{
    for (size_t i = events->len; i > 0; i--) {
        pal_response_piece *piece = &events->pieces[i - 1];
        if (piece->part == part && piece->is_open && pal_id_equal(piece->message, events->message))
            return piece;
    }
    return NULL;
}

static void keep_item(pal_response_events *events, pal_response_piece *piece, pal_str json)
{
    pal_buf_clear(&piece->item);
    pal_buf_append_text(&piece->item, "[");
    pal_buf_append_str(&piece->item, json);
    pal_buf_append_text(&piece->item, "]");
    if (piece->item.failure)
        events->failure = piece->item.failure;
}

static bool is_incomplete(pal_str json)
{
    pal_json item;
    pal_arena *arena = pal_arena_new(0);
    bool is = arena && pal_json_parse(arena, json, NULL, &item, NULL) == PAL_OK &&
            pal_json_string_is(pal_json_find(item, "status"), "incomplete");
    pal_arena_free(arena);
    return is;
}

void pal_response_events_item(pal_response_events *events, uint64_t part, pal_str json)
{
    if (events->failure)
        return;
    pal_response_piece *piece = find_open(events, part);
    bool is_new = !piece;
    if (is_new)
        piece = add_piece(events, PAL_RESPONSE_ITEM, part);
    if (!piece)
        return;
    keep_item(events, piece, json);
    if (events->failure)
        return;
    if (is_new)
        tell_item(events, piece, NULL);
    piece->is_whole = !is_incomplete(json);
    end_piece(events, piece, piece->is_whole ? "completed" : "incomplete");
}

/* ---- Progress of the service's own tools ---- */

/* Members of the service's events that are different here. */
static const char *const own_members[] = {
        "type", "sequence_number", "output_index", "item_id", "response_id", NULL};

/* Notes the event for a replay. */
static void note_progress(pal_response_events *events, const pal_response_piece *piece,
        const char *type, pal_json event, pal_arena *arena)
{
    note_run(events, index_of(events, piece));
    pal_buf_append_char(&events->deltas, ',');
    pal_json_writer writer = pal_json_writer_make(&events->deltas);
    pal_json_begin_object(&writer);
    pal_put_text(&writer, "type", type);
    pal_member_put_others(&writer, event, own_members, NULL, arena);
    pal_json_end_object(&writer);
}

static void tell_progress(pal_response_events *events, const pal_response_piece *piece,
        const char *type, pal_json event, pal_arena *arena)
{
    if (is_told(events)) {
        pal_buf buf;
        pal_json_writer writer = begin_within(events, piece, type, &buf);
        pal_member_put_others(&writer, event, own_members, NULL, arena);
        end_frame(events, &writer);
    }
    events->number++;
}

/* Begins the item as the service has begun it. */
static void begin_service_item(pal_response_events *events, uint64_t part, const char *type,
        pal_json event, pal_arena *arena)
{
    pal_message message;
    pal_response_piece *piece = add_piece(events, PAL_RESPONSE_ITEM, part);
    if (!piece)
        return;
    keep_item(events, piece, pal_json_raw(pal_json_find(event, "item")));
    if (!events->failure)
        events->failure = read_service_item(piece, arena, &message, NULL);
    if (events->failure)
        return;
    pal_openai_item_id(&message, 0, piece->item_id);
    note_progress(events, piece, type, event, arena);
    tell_item(events, piece, NULL);
}

void pal_response_events_progress(pal_response_events *events, uint64_t part, pal_str json)
{
    pal_json event;
    pal_arena *arena = events->failure ? NULL : pal_arena_new(0);
    if (!arena || pal_json_parse(arena, json, NULL, &event, NULL) != PAL_OK) {
        events->failure = events->failure ? events->failure : PAL_NO_MEMORY;
        pal_arena_free(arena);
        return;
    }
    pal_response_piece *piece = find_open(events, part);
    const char *type = pal_arena_copy(arena, pal_member_string(event, "type", arena)).data;
    if (!type) {
        events->failure = PAL_NO_MEMORY;
    } else if (!piece) {
        begin_service_item(events, part, type, event, arena);
    } else if (piece->form == PAL_RESPONSE_ITEM) {
        note_progress(events, piece, type, event, arena);
        tell_progress(events, piece, type, event, arena);
    }
    pal_arena_free(arena);
}

static const char *item_status(const pal_response_events *events, size_t index)
{
    bool is_cut = events->response->status == PAL_RESPONSE_INCOMPLETE && index == events->len - 1;
    return is_cut && !events->pieces[index].is_whole ? "incomplete" : "completed";
}

bool pal_response_events_end_whole(const pal_response_events *events)
{
    return events->len && events->pieces[events->len - 1].is_whole;
}

void pal_response_events_end(pal_response_events *events)
{
    pal_response_status status = events->response->status;
    bool is_answered = pal_response_is_answered(events->response);
    for (size_t i = 0; is_answered && i < events->len; i++) {
        if (events->pieces[i].is_asked)
            end_asked(events, &events->pieces[i]);
        else if (events->pieces[i].form == PAL_RESPONSE_MCP_CALL && events->pieces[i].is_open)
            end_mcp(events, &events->pieces[i], "incomplete");
        else
            end_piece(events, &events->pieces[i], item_status(events, i));
    }
    tell_response(events,
            status == PAL_RESPONSE_COMPLETED            ? "response.completed"
                    : status == PAL_RESPONSE_INCOMPLETE ? "response.incomplete"
                                                        : "response.failed",
            is_answered);
}

/* ---- The collected output ---- */

/* The texts of the answer are the summary. */
static pal_status put_compaction(
        pal_json_writer *writer, const pal_response_events *events, pal_error *err)
{
    char id[PAL_OPENAI_ID_SIZE];
    pal_buf summary;
    pal_buf_init(&summary, PAL_RESPONSE_STREAM_BYTES_MAX);
    for (size_t i = 0; i < events->len; i++) {
        if (events->pieces[i].form == PAL_RESPONSE_TEXT)
            pal_buf_append_str(&summary, pal_buf_str(&events->pieces[i].text));
    }
    pal_openai_id_text("cmp_", events->response->id, id);
    if (!summary.failure)
        pal_openai_compaction_put(writer, id, pal_buf_str(&summary));
    pal_status status = summary.failure;
    pal_buf_done(&summary);
    return status == PAL_OK
            ? PAL_OK
            : pal_error_set(err, status, "the summary does not fit into a response");
}

pal_status pal_response_events_output(pal_json_writer *writer, const void *user, pal_error *err)
{
    const pal_response_events *events = user;
    pal_status status = PAL_OK;
    if (events->response->is_compaction)
        return put_compaction(writer, events, err);
    for (size_t i = 0; status == PAL_OK && i < events->len; i++)
        status = put_item(writer, &events->pieces[i], item_status(events, i), err);
    return status;
}

pal_id *pal_response_events_messages(
        const pal_response_events *events, pal_arena *arena, size_t *out_len)
{
    size_t len = 0;
    pal_id *ids = pal_arena_array(arena, events->len + 1, sizeof *ids);
    for (size_t i = 0; ids && i < events->len; i++) {
        if (events->pieces[i].form != PAL_RESPONSE_LIST &&
                (len == 0 || !pal_id_equal(ids[len - 1], events->pieces[i].message)))
            ids[len++] = events->pieces[i].message;
    }
    *out_len = len;
    return ids;
}

pal_str pal_response_events_deltas(pal_response_events *events)
{
    pal_buf_append_text(&events->deltas, events->run ? "]]" : "[]");
    return events->deltas.failure ? (pal_str){0} : pal_buf_str(&events->deltas);
}
