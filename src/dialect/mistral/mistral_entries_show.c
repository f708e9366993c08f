/* mistral_entries_show.c - shows stored messages as entries: the parts, the id and the
 * content of each entry. */
#include "base/clock.h"
#include "base/json/json_put.h"
#include "dialect/dialect_member.h"
#include "dialect/dialect_part.h"
#include "dialect/mistral/mistral_entries.h"
#include "dialect/mistral/mistral_entries_part.h"

typedef struct entries_maker {
    pal_arena *arena;
    const pal_message *messages;
    size_t messages_len;
    pal_mistral_entry *entries;
    size_t len;
    const pal_mistral_view *view;
    pal_str agent_id; /* the agent that is speaking now */
} entries_maker;

/* ---- Ids ---- */

static const char *const prefixes[] = {
        [PAL_ENTRY_MESSAGE] = "msg_",
        [PAL_ENTRY_CALL] = "fc_",
        [PAL_ENTRY_RESULT] = "fr_",
        [PAL_ENTRY_EXECUTION] = "tool_exec_",
        [PAL_ENTRY_HANDOFF] = "handoff_",
};

void pal_mistral_entry_id(
        pal_entry_kind kind, pal_id message, size_t number, char out_id[PAL_MISTRAL_ENTRY_ID_SIZE])
{
    pal_part_id_text(prefixes[kind], message, number, out_id, PAL_MISTRAL_ENTRY_ID_SIZE);
}

bool pal_mistral_entry_parse(pal_str id, pal_id *out_message)
{
    return pal_part_id_parse(id, prefixes, sizeof prefixes / sizeof *prefixes, out_message);
}

/* ---- Selecting parts ---- */

static bool is_said(const pal_part *part)
{
    return pal_entries_is_content(part) || part->kind == PAL_PART_REASONING;
}

/* A reasoning block that has only a signature is not shown. */
static bool is_seen(const pal_part *part)
{
    return pal_entries_is_media(part) || part->text.len > 0;
}

static pal_mistral_entry *add(entries_maker *maker, pal_entry_kind kind, const pal_message *message,
        size_t first, size_t len)
{
    pal_mistral_entry *entry = &maker->entries[maker->len++];
    *entry = (pal_mistral_entry){.kind = kind,
            .message = message,
            .first = first,
            .len = len,
            .agent_id = maker->agent_id};
    return entry;
}

/* Returns the result of a call from the tool messages that follow it. */
static const pal_part *result_of(const entries_maker *maker, size_t at, pal_str call_id)
{
    for (size_t i = at + 1; i < maker->messages_len; i++) {
        const pal_message *message = &maker->messages[i];
        if (message->role != PAL_ROLE_TOOL)
            return NULL;
        for (size_t k = 0; k < message->parts_len; k++) {
            if (message->parts[k].kind == PAL_PART_TOOL_RESULT &&
                    pal_str_equal(message->parts[k].call_id, call_id))
                return &message->parts[k];
        }
    }
    return NULL;
}

static pal_json handoff_of(const pal_part *result, pal_arena *arena)
{
    if (!result || result->extra.len == 0)
        return (pal_json){0};
    return pal_json_find(pal_member_kept(result->extra, PAL_ENTRIES_FAMILY, arena), "handoff");
}

/* Returns whether the server ran the call. */
static bool is_own(const entries_maker *maker, const pal_part *call)
{
    pal_json kept = {0};
    if (call->extra.len)
        kept = pal_member_kept(call->extra, PAL_ENTRIES_FAMILY, maker->arena);
    if (pal_json_string_is(pal_json_find(kept, "type"), "tool.execution"))
        return true;
    for (size_t i = 0; i < maker->view->tools_len; i++) {
        if (pal_str_equal(maker->view->tools[i].name, call->name))
            return true;
    }
    return false;
}

static void add_call(entries_maker *maker, size_t at, size_t part, size_t number)
{
    const pal_message *message = &maker->messages[at];
    const pal_part *call = &message->parts[part];
    const pal_part *result = result_of(maker, at, call->call_id);
    if (pal_json_type_of(handoff_of(result, maker->arena)) == PAL_JSON_OBJECT)
        return; /* a handoff is shown at the place of its result */
    bool is_execution = is_own(maker, call);
    pal_mistral_entry *entry =
            add(maker, is_execution ? PAL_ENTRY_EXECUTION : PAL_ENTRY_CALL, message, part, 1);
    entry->number = number;
    entry->result = is_execution ? result : NULL;
}

/* A result belongs to a call of the assistant message before the tool messages. */
static bool is_of_execution(const entries_maker *maker, size_t at, pal_str call_id)
{
    size_t i = at;
    while (i > 0 && maker->messages[i].role == PAL_ROLE_TOOL)
        i--;
    const pal_message *message = &maker->messages[i];
    for (size_t k = 0; message->role == PAL_ROLE_ASSISTANT && k < message->parts_len; k++) {
        const pal_part *part = &message->parts[k];
        if (part->kind == PAL_PART_TOOL_CALL && pal_str_equal(part->call_id, call_id))
            return is_own(maker, part);
    }
    return false;
}

static void add_result(entries_maker *maker, size_t at, size_t part, size_t number)
{
    const pal_message *message = &maker->messages[at];
    pal_json handoff = handoff_of(&message->parts[part], maker->arena);
    bool is_handoff = pal_json_type_of(handoff) == PAL_JSON_OBJECT;
    if (!is_handoff && is_of_execution(maker, at, message->parts[part].call_id))
        return;
    pal_mistral_entry *entry =
            add(maker, is_handoff ? PAL_ENTRY_HANDOFF : PAL_ENTRY_RESULT, message, part, 1);
    entry->number = number;
    entry->kept = handoff;
    if (is_handoff)
        maker->agent_id = pal_member_string(handoff, "next_agent_id", maker->arena);
}

/* The entry's id comes from the first part that is shown. */
static void add_said(entries_maker *maker, const pal_message *message, size_t first, size_t end)
{
    size_t seen = first;
    while (seen < end && !is_seen(&message->parts[seen]))
        seen++;
    if (seen == end && message->role == PAL_ROLE_ASSISTANT)
        return;
    pal_mistral_entry *entry = add(maker, PAL_ENTRY_MESSAGE, message, first, end - first);
    entry->number = pal_part_number(message, seen == end ? first : seen);
}

static void add_message(entries_maker *maker, size_t at)
{
    const pal_message *message = &maker->messages[at];
    for (size_t i = 0, end; i < message->parts_len; i = end) {
        end = i + 1;
        if (is_said(&message->parts[i])) {
            while (end < message->parts_len && is_said(&message->parts[end]) &&
                    pal_part_follows(message, end))
                end++;
            add_said(maker, message, i, end);
        } else if (message->parts[i].kind == PAL_PART_TOOL_CALL) {
            add_call(maker, at, i, pal_part_number(message, i));
        } else if (message->parts[i].kind == PAL_PART_TOOL_RESULT) {
            add_result(maker, at, i, pal_part_number(message, i));
        }
    }
}

pal_status pal_mistral_entries_of(const pal_message *messages, size_t messages_len,
        const pal_mistral_view *view, pal_arena *arena, pal_mistral_entry **out_entries,
        size_t *out_len, pal_error *err)
{
    entries_maker maker = {.arena = arena,
            .messages = messages,
            .messages_len = messages_len,
            .view = view,
            .agent_id = view->agent_id};
    size_t count = 0;
    for (size_t i = 0; i < messages_len; i++)
        count += messages[i].parts_len;
    maker.entries = pal_arena_array(arena, count + 1, sizeof *maker.entries);
    for (size_t i = 0; maker.entries && i < messages_len; i++) {
        if (messages[i].role != PAL_ROLE_SYSTEM)
            add_message(&maker, i);
    }
    *out_entries = maker.entries;
    *out_len = maker.len;
    return pal_arena_checked(arena, err);
}

/* ---- Writing entries ---- */

static void put_time(pal_json_writer *writer, const char *name, int64_t ms)
{
    char text[PAL_TIME_TEXT_SIZE];
    pal_put_str(writer, name, pal_str_make(text, pal_time_to_text(ms, text)));
}

static pal_json chunk_of(const pal_part *part, pal_arena *arena)
{
    if (part->extra.len == 0)
        return (pal_json){0};
    return pal_json_find(pal_member_kept(part->extra, PAL_ENTRIES_FAMILY, arena), "chunk");
}

static void put_content(
        pal_json_writer *writer, const pal_part *parts, size_t len, pal_arena *arena)
{
    pal_json_name(writer, "content");
    if (len == 1 && (parts->kind == PAL_PART_TEXT || parts->kind == PAL_PART_COMPACTION) &&
            pal_json_type_of(chunk_of(parts, arena)) == PAL_JSON_NONE) {
        pal_json_put_str(writer, parts->text);
        return;
    }
    pal_json_begin_array(writer);
    for (size_t i = 0; i < len; i++) {
        pal_json chunk = chunk_of(&parts[i], arena);
        if (pal_json_type_of(chunk) == PAL_JSON_OBJECT)
            pal_json_put_raw(writer, pal_json_raw(chunk));
        else if (parts[i].kind != PAL_PART_REASONING || is_seen(&parts[i]))
            pal_entries_put_chunk(writer, &parts[i]);
    }
    pal_json_end_array(writer);
}

static void put_author(pal_json_writer *writer, const pal_mistral_entry *entry)
{
    if (entry->agent_id.len)
        pal_put_str(writer, "agent_id", entry->agent_id);
    if (entry->message->model.len)
        pal_put_str(writer, "model", entry->message->model);
}

static pal_json input_of(const pal_message *message, pal_arena *arena)
{
    if (message->extra.len == 0)
        return (pal_json){0};
    return pal_json_find(pal_member_kept(message->extra, PAL_ENTRIES_FAMILY, arena), "input");
}

static void put_said(pal_json_writer *writer, const pal_mistral_entry *entry, pal_arena *arena)
{
    const pal_message *message = entry->message;
    pal_json input = input_of(message, arena);
    bool is_assistant = message->role == PAL_ROLE_ASSISTANT;
    bool is_output = is_assistant && pal_json_type_of(input) == PAL_JSON_NONE;
    pal_entries_begin(writer, is_output ? "message.output" : "message.input");
    pal_put_str(writer, "role", pal_str_of(is_assistant ? "assistant" : "user"));
    put_content(writer, message->parts + entry->first, entry->len, arena);
    if (is_output) {
        put_author(writer, entry);
    } else {
        pal_put_flag(writer, "prefix", pal_json_string_is(input, "prefix"));
    }
}

/* Writes the result as a member of "info". An object is written unchanged. */
static void put_info(pal_json_writer *writer, const pal_part *result, pal_arena *arena)
{
    pal_json value;
    if (!result)
        return;
    pal_json_name(writer, "info");
    if (result->parts_len == 0 && result->text.len && result->text.data[0] == '{' &&
            pal_json_parse(arena, result->text, NULL, &value, NULL) == PAL_OK) {
        pal_json_put_raw(writer, result->text);
        return;
    }
    pal_json_begin_object(writer);
    pal_json_name(writer, "result");
    pal_entries_put_output(writer, result);
    pal_json_end_object(writer);
}

static void put_execution(pal_json_writer *writer, const pal_mistral_entry *entry, pal_arena *arena)
{
    const pal_part *part = &entry->message->parts[entry->first];
    pal_entries_begin(writer, "tool.execution");
    pal_put_str(writer, "name", part->name);
    pal_put_str(writer, "arguments", part->arguments);
    put_author(writer, entry);
    put_info(writer, entry->result, arena);
}

static pal_entry_kind kind_of(const pal_mistral_entry *entry)
{
    return entry->is_pending ? PAL_ENTRY_CALL : entry->kind;
}

static void put_own(pal_json_writer *writer, const pal_mistral_entry *entry, pal_arena *arena)
{
    const pal_part *part = &entry->message->parts[entry->first];
    switch (kind_of(entry)) {
    case PAL_ENTRY_CALL:
        pal_entries_begin(writer, "function.call");
        pal_entries_put_call(writer, part);
        put_author(writer, entry);
        if (entry->is_pending)
            pal_put_str(writer, "confirmation_status", pal_str_of("pending"));
        break;
    case PAL_ENTRY_RESULT:
        pal_entries_begin(writer, "function.result");
        pal_put_str(writer, "tool_call_id", part->call_id);
        pal_json_name(writer, "result");
        pal_entries_put_output(writer, part);
        break;
    case PAL_ENTRY_EXECUTION:
        put_execution(writer, entry, arena);
        break;
    case PAL_ENTRY_HANDOFF:
        pal_entries_begin(writer, "agent.handoff");
        pal_json_put_members(writer, pal_json_raw(entry->kept));
        break;
    default:
        put_said(writer, entry, arena);
        break;
    }
}

void pal_mistral_entry_put(
        pal_json_writer *writer, const pal_mistral_entry *entry, pal_arena *arena)
{
    char id[PAL_MISTRAL_ENTRY_ID_SIZE];
    pal_mistral_entry_id(kind_of(entry), entry->message->id, entry->number, id);
    put_own(writer, entry, arena);
    pal_put_str(writer, "id", pal_str_of(id));
    put_time(writer, "created_at", entry->message->created_at);
    put_time(writer, "completed_at", entry->message->created_at);
    pal_json_end_object(writer);
}

pal_status pal_mistral_handoff_keep(
        const pal_mistral_handoff *handoff, pal_arena *arena, pal_str *out_extra, pal_error *err)
{
    pal_buf buf;
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_json_name(&writer, PAL_ENTRIES_FAMILY);
    pal_json_begin_object(&writer);
    pal_json_name(&writer, "handoff");
    pal_json_begin_object(&writer);
    pal_put_str(&writer, "previous_agent_id", handoff->previous_id);
    pal_put_str(&writer, "previous_agent_name", handoff->previous_name);
    pal_put_str(&writer, "next_agent_id", handoff->next_id);
    pal_put_str(&writer, "next_agent_name", handoff->next_name);
    pal_json_end_object(&writer);
    pal_json_end_object(&writer);
    pal_json_end_object(&writer);
    pal_status status = pal_member_keep(&buf, arena, out_extra, err);
    pal_buf_done(&buf);
    return status;
}
