/* transcript_codex.c - the rollouts of Codex CLI, with one record per line.
 *
 * A record is {"timestamp","type","payload"}. Older files have the items without this envelope, and
 * a first line with the properties of the session. An answer consists of the consecutive items that
 * the model made (reasoning, texts, calls). It is held back until another item comes, because its
 * token count follows it. Items have no permanent ids, so the line number is used, which stays the
 * same in a file that only grows.
 *
 * Values of an item that have no counterpart are kept in extra under "codex". */
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/utf8.h"
#include "dialect/dialect_base64.h"
#include "dialect/dialect_member.h"
#include "dialect/transcript/transcript_reader.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define AGENT "codex"
#define FAMILY "openai"
#define TITLE_BYTES 80
#define PIECES "answer" /* key of a held answer that can be extended */

/* ---- Items ---- */

enum {
    OF_MESSAGE = 1 << 0,
    OF_REASONING = 1 << 1,
    OF_FUNCTION = 1 << 2,
    OF_CUSTOM = 1 << 3,
    OF_ACTION = 1 << 4, /* local_shell_call, web_search_call */
    OF_OUTPUT = 1 << 5,
};

typedef struct item_record {
    pal_part part;
    pal_json type;
    pal_json role;
    pal_json content;
    pal_json summary;
    pal_json output;
} item_record;

static const pal_member item_members[] = {
        {"type", PAL_MEMBER_VALUE, OF_MESSAGE | OF_REASONING | OF_FUNCTION | OF_OUTPUT,
                .offset = offsetof(item_record, type)},
        {"role", PAL_MEMBER_VALUE, OF_MESSAGE, .offset = offsetof(item_record, role)},
        {"content", PAL_MEMBER_VALUE, OF_MESSAGE | OF_REASONING,
                .offset = offsetof(item_record, content)},
        {"summary", PAL_MEMBER_VALUE, OF_REASONING, .offset = offsetof(item_record, summary)},
        {"encrypted_content", PAL_MEMBER_STRING, OF_REASONING,
                .offset = offsetof(item_record, part.signature)},
        {"name", PAL_MEMBER_STRING, OF_FUNCTION | OF_CUSTOM,
                .offset = offsetof(item_record, part.name)},
        {"arguments", PAL_MEMBER_VERBATIM, OF_FUNCTION,
                .offset = offsetof(item_record, part.arguments)},
        {"input", PAL_MEMBER_VERBATIM, OF_CUSTOM, .offset = offsetof(item_record, part.arguments)},
        {"action", PAL_MEMBER_VERBATIM, OF_ACTION, .offset = offsetof(item_record, part.arguments)},
        {"call_id", PAL_MEMBER_STRING, OF_FUNCTION | OF_CUSTOM | OF_ACTION | OF_OUTPUT,
                .offset = offsetof(item_record, part.call_id)},
        {"output", PAL_MEMBER_VALUE, OF_OUTPUT, .offset = offsetof(item_record, output)},
};
static const pal_member_table item_table = {item_members, COUNT_OF(item_members), NULL, NULL};

static void read_data(pal_transcript *in, pal_str url, pal_part *part)
{
    if (!pal_base64_decode_url(url, in->line_arena, &part->media_type, &part->data))
        part->url = url;
}

/* Reads {"type":"input_text"|"output_text","text"}, {"type":"refusal","refusal"},
 * {"type":"input_image","image_url"} or {"type":"input_file","filename","file_data"|"file_url"}. */
static pal_part read_content_part(pal_transcript *in, pal_json item)
{
    pal_arena *arena = in->line_arena;
    pal_part part = {.kind = PAL_PART_TEXT};
    pal_json text = pal_json_find(item, "text");
    pal_str image = pal_member_string(item, "image_url", arena);
    pal_str file = pal_member_string(item, "file_data", arena);
    if (pal_json_string_is(pal_json_find(item, "type"), "refusal"))
        text = pal_json_find(item, "refusal");
    if (!file.len)
        file = pal_member_string(item, "file_url", arena);
    if (pal_json_type_of(text) == PAL_JSON_STRING) {
        part.text = pal_json_string(text, arena);
        return part;
    }
    part.kind = image.len ? PAL_PART_IMAGE : PAL_PART_FILE;
    if (image.len)
        read_data(in, image, &part);
    else if (file.len)
        read_data(in, file, &part);
    else
        part.extra = pal_member_wrap(arena, AGENT, pal_json_raw(item));
    if (!image.len)
        part.name = pal_member_string(item, "filename", arena);
    return part;
}

static size_t read_content(pal_transcript *in, pal_json content, pal_part **out_parts)
{
    bool is_text = pal_json_type_of(content) == PAL_JSON_STRING;
    size_t len = is_text ? 1 : pal_json_count(content);
    pal_part *parts = len ? pal_arena_array(in->line_arena, len, sizeof(*parts)) : NULL;
    size_t used = 0;
    pal_json item;
    if (!parts)
        return 0;
    if (is_text)
        parts[used++] =
                (pal_part){.kind = PAL_PART_TEXT, .text = pal_json_string(content, in->line_arena)};
    for (pal_json_iter iter = pal_json_each(content); pal_json_next(&iter, NULL, &item);) {
        if (pal_json_type_of(item) == PAL_JSON_OBJECT)
            parts[used++] = read_content_part(in, item);
    }
    pal_transcript_tell_strays(in, content);
    pal_transcript_tell_opaque(in, parts, used);
    *out_parts = parts;
    return used;
}

/* ---- Messages ---- */

static pal_message make_message(pal_transcript *in, pal_role role, pal_str timestamp)
{
    pal_message message = {
            .role = role, .client_id = pal_transcript_number_id(in->line_arena, AGENT, in->line)};
    pal_time_from_text(timestamp, &message.created_at);
    return message;
}

/* Extends the held answer, or begins a new answer. */
static void add_to_answer(pal_transcript *in, pal_message *piece)
{
    bool open = in->held_len == 1 && pal_str_is(in->held_key, PIECES);
    piece->model = in->model;
    if (open && pal_transcript_extend(in, piece))
        return;
    pal_transcript_flush(in);
    pal_transcript_hold(in, piece, pal_str_of(PIECES));
}

static void add_result(pal_transcript *in, const pal_message *message)
{
    if (in->held_len)
        pal_transcript_hold(in, message, pal_str_make(NULL, 0));
    else
        pal_transcript_emit(in, message);
}

/* Returns whether the program has written the message in the user's name. */
static bool is_synthetic(const pal_message *message)
{
    static const char *const starts[] = {"<environment_context>", "<user_instructions>",
            "<turn_aborted>", "<user_shell_command>", "# AGENTS.md instructions"};
    if (message->parts_len == 0)
        return false;
    pal_str text = message->parts[0].text;
    for (size_t i = 0; i < COUNT_OF(starts); i++) {
        if (pal_text_begins(text, starts[i]))
            return true;
    }
    return false;
}

/* Remembers the position of a prompt, because rollbacks count turns. */
static void note_prompt(pal_transcript *in)
{
    if (pal_arena_reserve(in->kept, &in->prompts, &in->prompts_cap, in->prompts_len + 1,
                sizeof(*in->prompts)))
        in->prompts[in->prompts_len++] = in->position;
}

/* The title is the beginning of the user's first message, until the thread gets a name. */
static void learn_title(pal_transcript *in, const pal_message *message)
{
    pal_str text = message->parts_len ? message->parts[0].text : (pal_str){0};
    const char *end;
    while (text.len && strchr(" \t\r\n", text.data[0]))
        text = pal_str_make(text.data + 1, text.len - 1);
    if (!text.len)
        return;
    end = memchr(text.data, '\n', text.len);
    if (end)
        text.len = (size_t)(end - text.data);
    text.len = pal_utf8_cut(text, TITLE_BYTES);
    while (text.len && strchr(" \t\r", text.data[text.len - 1]))
        text.len--;
    pal_transcript_learn(in, &in->facts.session.title, text);
}

static void read_message_item(
        pal_transcript *in, item_record *record, pal_str timestamp, pal_str unknown)
{
    bool developer = pal_json_string_is(record->role, "developer");
    pal_role role = developer ? PAL_ROLE_SYSTEM
                              : pal_role_from_name(pal_json_string(record->role, in->line_arena));
    if (role == PAL_ROLE_NONE) {
        pal_transcript_warn(in, "skipped: a message with an unknown role");
        return;
    }
    pal_message message = make_message(in, role, timestamp);
    message.parts_len = read_content(in, record->content, &message.parts);
    if (role == PAL_ROLE_ASSISTANT) {
        /* A piece of an answer has no extra, so the members are kept with its first part. */
        if (message.parts_len && message.parts[0].extra.len == 0)
            message.parts[0].extra = pal_member_wrap(in->line_arena, AGENT, unknown);
        add_to_answer(in, &message);
        return;
    }
    message.extra = developer ? pal_str_of("{\"openai\":{\"role\":\"developer\"}}")
                              : pal_member_wrap(in->line_arena, AGENT, unknown);
    if (role == PAL_ROLE_USER && is_synthetic(&message))
        message.flags |= PAL_MESSAGE_FLAG_SYNTHETIC;
    pal_transcript_emit(in, &message);
    if (role == PAL_ROLE_USER && !(message.flags & PAL_MESSAGE_FLAG_SYNTHETIC)) {
        note_prompt(in);
        learn_title(in, &message);
    }
}

static void read_reasoning(pal_transcript *in, item_record *record)
{
    record->part.kind = PAL_PART_REASONING;
    record->part.family = pal_str_of(FAMILY);
    record->part.text = pal_transcript_texts(
            in->line_arena, pal_json_count(record->content) ? record->content : record->summary);
}

static void read_output(pal_transcript *in, item_record *record)
{
    pal_part *part = &record->part;
    pal_json output = record->output, content = pal_json_find(output, "content");
    bool success = true;
    part->kind = PAL_PART_TOOL_RESULT;
    /* Older files contain {"content":"...","success":false}. */
    if (pal_json_type_of(output) == PAL_JSON_OBJECT) {
        pal_json_bool(pal_json_find(output, "success"), &success);
        part->is_error = !success;
        output = content;
    }
    if (pal_json_type_of(output) == PAL_JSON_STRING)
        part->text = pal_json_string(output, in->line_arena);
    else
        part->parts_len = read_content(in, output, &part->parts);
}

static const struct {
    const char *type;
    uint32_t form;
    const char *tool; /* the tool's name if the item has none */
} item_types[] = {
        {"message", OF_MESSAGE, NULL},
        {"reasoning", OF_REASONING, NULL},
        {"function_call", OF_FUNCTION, NULL},
        {"custom_tool_call", OF_CUSTOM, NULL},
        {"local_shell_call", OF_ACTION, "local_shell"},
        {"web_search_call", OF_ACTION, "web_search"},
        {"function_call_output", OF_OUTPUT, NULL},
        {"custom_tool_call_output", OF_OUTPUT, NULL},
};

/* Calls that the provider answers itself have no call id. The store requires one, so another id is
 * used. */
static void read_call(pal_transcript *in, const char *tool, pal_part *part, pal_json item)
{
    part->kind = PAL_PART_TOOL_CALL;
    if (tool)
        part->name = pal_str_of(tool);
    if (part->call_id.len == 0)
        part->call_id = pal_member_string(item, "id", in->line_arena);
    if (part->call_id.len == 0)
        part->call_id = pal_transcript_number_id(in->line_arena, AGENT, in->line);
}

static void read_part_item(pal_transcript *in, size_t type, item_record *record, pal_json item,
        pal_str timestamp, pal_str unknown)
{
    pal_part *part = &record->part;
    bool is_output = item_types[type].form == OF_OUTPUT;
    pal_message message =
            make_message(in, is_output ? PAL_ROLE_TOOL : PAL_ROLE_ASSISTANT, timestamp);
    if (is_output) {
        read_output(in, record);
    } else if (item_types[type].form == OF_REASONING) {
        read_reasoning(in, record);
    } else {
        read_call(in, item_types[type].tool, part, item);
    }
    part->extra = pal_member_wrap(in->line_arena, AGENT, unknown);
    message.parts = part;
    message.parts_len = 1;
    if (is_output)
        add_result(in, &message);
    else
        add_to_answer(in, &message);
}

static void read_item(pal_transcript *in, pal_json item, pal_str timestamp)
{
    static const char *const silent[] = {"ghost_snapshot", "compaction", "compaction_summary",
            "context_compaction", "other", NULL};
    pal_json type = pal_json_find(item, "type");
    item_record record = {0};
    pal_str unknown;
    pal_error error;
    size_t i = 0;
    while (i < COUNT_OF(item_types) && !pal_json_string_is(type, item_types[i].type))
        i++;
    if (i == COUNT_OF(item_types)) {
        if (!pal_member_is_one_of(type, silent))
            pal_transcript_warn(in, "skipped: an item of unknown type");
        return;
    }
    pal_status status = pal_members_read(
            &item_table, item_types[i].form, item, in->line_arena, &record, &unknown, &error);
    if (status == PAL_OK && item_types[i].form == OF_MESSAGE)
        read_message_item(in, &record, timestamp, unknown);
    else if (status == PAL_OK)
        read_part_item(in, i, &record, item, timestamp, unknown);
    else if (status != PAL_NO_MEMORY)
        pal_transcript_warn(in, "skipped: %s", error.message);
}

/* ---- Facts and events ---- */

/* A forked file repeats the metadata of the original file; the first record is its own. */
static void read_meta(pal_transcript *in, pal_json meta, pal_str timestamp)
{
    int64_t created_at;
    pal_str own = pal_member_string(meta, "timestamp", in->line_arena);
    if (in->facts.original_id.len)
        return;
    pal_transcript_learn(in, &in->facts.original_id, pal_member_string(meta, "id", in->line_arena));
    pal_transcript_learn(in, &in->facts.cwd, pal_member_string(meta, "cwd", in->line_arena));
    pal_transcript_learn(in, &in->facts.branch,
            pal_member_string(pal_json_find(meta, "git"), "branch", in->line_arena));
    if (pal_time_from_text(own.len ? own : timestamp, &created_at))
        in->facts.session.created_at = created_at;
    pal_transcript_settle_facts(in, AGENT);
}

static void read_turn_context(pal_transcript *in, pal_json context)
{
    pal_transcript_relearn(in, &in->model, pal_member_string(context, "model", in->line_arena));
    pal_transcript_learn(in, &in->facts.cwd, pal_member_string(context, "cwd", in->line_arena));
    pal_transcript_settle_facts(in, AGENT);
}

static void read_token_count(pal_transcript *in, pal_json event)
{
    pal_json last = pal_json_find(pal_json_find(event, "info"), "last_token_usage");
    pal_message *answer = in->held_len ? &in->held[0].message : NULL;
    /* The same counts are repeated when the rate limits change. */
    if (pal_json_type_of(last) != PAL_JSON_OBJECT || !answer || answer->has_usage ||
            answer->role != PAL_ROLE_ASSISTANT)
        return;
    pal_usage *usage = &answer->usage;
    pal_json_u64(pal_json_find(last, "input_tokens"), &usage->input);
    pal_json_u64(pal_json_find(last, "cached_input_tokens"), &usage->cache_read);
    pal_json_u64(pal_json_find(last, "output_tokens"), &usage->output);
    pal_json_u64(pal_json_find(last, "reasoning_output_tokens"), &usage->reasoning);
    /* Codex includes cached tokens in the input; here they are separate. */
    usage->input -= usage->cache_read < usage->input ? usage->cache_read : usage->input;
    answer->has_usage = true;
    in->held_key = pal_str_make(NULL, 0); /* the next item belongs to another answer */
}

static void read_rollback(pal_transcript *in, pal_json event, pal_str timestamp)
{
    uint64_t turns = 0;
    if (!pal_json_u64(pal_json_find(event, "num_turns"), &turns) || turns == 0 ||
            in->prompts_len == 0)
        return;
    in->prompts_len -= turns < in->prompts_len ? (size_t)turns : in->prompts_len;
    pal_mark mark = {.kind = PAL_MARK_REWIND, .seq = in->prompts[in->prompts_len] - 1};
    pal_time_from_text(timestamp, &mark.created_at);
    pal_transcript_emit_mark(in, &mark);
}

static void read_event(pal_transcript *in, pal_json event, pal_str timestamp)
{
    pal_json type = pal_json_find(event, "type");
    if (pal_json_string_is(type, "token_count"))
        read_token_count(in, event);
    else if (pal_json_string_is(type, "thread_rolled_back"))
        read_rollback(in, event, timestamp);
    else if (pal_json_string_is(type, "thread_name_updated"))
        pal_transcript_relearn(in, &in->facts.session.title,
                pal_member_string(event, "thread_name", in->line_arena));
}

static void read_compacted(pal_transcript *in, pal_json payload, pal_str timestamp)
{
    pal_part part = {.kind = PAL_PART_COMPACTION,
            .text = pal_member_string(payload, "message", in->line_arena)};
    if (part.text.len == 0)
        return;
    pal_message message = make_message(in, PAL_ROLE_USER, timestamp);
    message.flags = PAL_MESSAGE_FLAG_SUMMARY | PAL_MESSAGE_FLAG_SYNTHETIC;
    message.parts = &part;
    message.parts_len = 1;
    pal_transcript_emit(in, &message);
}

static void read_bare(pal_transcript *in, pal_json line)
{
    if (pal_json_type_of(pal_json_find(line, "record_type")) != PAL_JSON_NONE)
        return;
    if (pal_json_type_of(pal_json_find(line, "type")) == PAL_JSON_NONE)
        read_meta(in, line, pal_str_make(NULL, 0));
    else
        read_item(in, line, pal_member_string(line, "timestamp", in->line_arena));
}

void pal_transcript_codex_read(pal_transcript *in, pal_json line)
{
    static const char *const silent[] = {"world_state", "inter_agent_communication",
            "inter_agent_communication_metadata", "security_risk_score", "realtime_item",
            "token_usage_record", NULL};
    pal_json type = pal_json_find(line, "type"), payload = pal_json_find(line, "payload");
    pal_str timestamp = pal_member_string(line, "timestamp", in->line_arena);
    if (pal_json_type_of(payload) == PAL_JSON_NONE)
        read_bare(in, line);
    else if (pal_json_string_is(type, "response_item"))
        read_item(in, payload, timestamp);
    else if (pal_json_string_is(type, "session_meta"))
        read_meta(in, payload, timestamp);
    else if (pal_json_string_is(type, "turn_context"))
        read_turn_context(in, payload);
    else if (pal_json_string_is(type, "event_msg"))
        read_event(in, payload, timestamp);
    else if (pal_json_string_is(type, "compacted"))
        read_compacted(in, payload, timestamp);
    else if (!pal_member_is_one_of(type, silent))
        pal_transcript_warn(in, "skipped: a record of unknown type");
}
