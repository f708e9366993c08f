/* transcript_row.c - conversations that other programs keep as rows of a table, with one row per
 * line.
 *
 * Skillian (a chat assistant): {"id","created_at","conversation_data",...}. The data is a list of
 * messages, or an object that contains one, with role, content, tool_call_id and tool_calls. Loom
 * (which sends agents to work items, called beads): {"session_id", "bead_id",
 * "project_id","messages","metadata","created_at","expires_at",...}. Messages have role, content,
 * timestamp and token_count. Sol (a Matrix bot):
 * {"room_id","conversation_id","estimated_tokens","created_at"}. The model service keeps the
 * messages. Columns of JSON can be JSON or a string that contains it.
 *
 * Skillian and Loom rewrite a whole row, so the position of a message says nothing: its client id
 * is made from its content. */
#include <stdio.h>
#include "base/clock.h"
#include "base/digest.h"
#include "base/json/json_put.h"
#include "base/map.h"
#include "base/text.h"
#include "dialect/dialect_member.h"
#include "dialect/transcript/transcript_reader.h"

#define CALLS_MAX 1024 /* calls of one message */

/* Returns the value, or the parsed value if it is a string that contains JSON. */
static pal_json unwrap(pal_transcript *in, pal_json value)
{
    const pal_json_limits limits = {.depth_max = 128};
    pal_json inner;
    if (pal_json_type_of(value) != PAL_JSON_STRING)
        return value;
    pal_str text = pal_json_string(value, in->line_arena);
    if (pal_json_parse(in->line_arena, text, &limits, &inner, NULL) != PAL_OK)
        return (pal_json){0};
    return inner;
}

/* Databases write a blank instead of the T, and omit the zone if it is UTC. */
static int64_t read_time(pal_transcript *in, pal_json value)
{
    char text[48];
    int64_t ms = 0;
    pal_str given = pal_json_string(value, in->line_arena);
    if (given.len < 19 || given.len > sizeof(text) - 2)
        return 0;
    memcpy(text, given.data, given.len);
    if (text[10] == ' ')
        text[10] = 'T';
    if (pal_time_from_text(pal_str_make(text, given.len), &ms))
        return ms;
    text[given.len] = 'Z';
    return pal_time_from_text(pal_str_make(text, given.len + 1), &ms) ? ms : 0;
}

/* ---- Messages ---- */

typedef struct row {
    const char *program;
    pal_map seen; /* maps a content to the number of its occurrences, stored as a pointer */
} row;

static pal_str client_id_of(pal_transcript *in, row *from, pal_json message)
{
    uint8_t digest[PAL_SHA256_SIZE];
    char hex[PAL_SHA256_SIZE + 1], text[96];
    pal_str none = {0};
    if (pal_sha256(pal_json_raw(message), digest) != PAL_OK) {
        in->failure = PAL_NO_MEMORY;
        return none;
    }
    pal_hex(digest, PAL_SHA256_SIZE / 2, hex);
    pal_str content = pal_arena_copy(in->line_arena, pal_str_of(hex));
    uintptr_t times = (uintptr_t)pal_map_find(&from->seen, content) + 1;
    if (!content.len || pal_map_set(&from->seen, content, (void *)times) != PAL_OK) {
        in->failure = PAL_NO_MEMORY;
        return none;
    }
    if (times == 1)
        snprintf(text, sizeof(text), "%s:%s", from->program, hex);
    else
        snprintf(text, sizeof(text), "%s:%s:%llu", from->program, hex, (unsigned long long)times);
    return pal_arena_copy(in->line_arena, pal_str_of(text));
}

static pal_str text_or_json(pal_json value, pal_arena *arena)
{
    pal_json_type type = pal_json_type_of(value);
    if (type == PAL_JSON_STRING)
        return pal_json_string(value, arena);
    return type == PAL_JSON_NONE || type == PAL_JSON_NULL ? pal_str_make(NULL, 0)
                                                          : pal_json_raw(value);
}

/* Reads {"id","name","args"} or {"id","function":{"name","arguments"}}. */
static pal_part read_call(pal_transcript *in, pal_json call)
{
    pal_part part = {.kind = PAL_PART_TOOL_CALL};
    pal_json function = pal_json_find(call, "function");
    pal_json named = pal_json_type_of(function) == PAL_JSON_OBJECT ? function : call;
    part.call_id = pal_member_string(call, "id", in->line_arena);
    part.name = pal_member_string(named, "name", in->line_arena);
    part.arguments = text_or_json(pal_json_find(named, "arguments"), in->line_arena);
    if (!part.arguments.len)
        part.arguments = text_or_json(pal_json_find(named, "args"), in->line_arena);
    if (!part.call_id.len)
        part.call_id = part.name;
    return part;
}

/* The members of a message that have a meaning here. */
typedef struct row_message {
    pal_json role;
    pal_json content;
    pal_json timestamp;
    pal_json token_count;
    pal_json tool_call_id;
    pal_json tool_calls;
    pal_str others; /* all other members, as an object; may be empty */
} row_message;

static const pal_member message_members[] = {
        {"role", PAL_MEMBER_VALUE, 1, .offset = offsetof(row_message, role)},
        {"content", PAL_MEMBER_VALUE, 1, .offset = offsetof(row_message, content)},
        {"timestamp", PAL_MEMBER_VALUE, 1, .offset = offsetof(row_message, timestamp)},
        {"token_count", PAL_MEMBER_VALUE, 1, .offset = offsetof(row_message, token_count)},
        {"tool_call_id", PAL_MEMBER_VALUE, 1, .offset = offsetof(row_message, tool_call_id)},
        {"tool_calls", PAL_MEMBER_VALUE, 1, .offset = offsetof(row_message, tool_calls)},
};
static const pal_member_table message_table = {
        message_members, sizeof(message_members) / sizeof(message_members[0]), NULL, NULL};

static bool are_texts(pal_json array)
{
    pal_json item;
    for (pal_json_iter iter = pal_json_each(array); pal_json_next(&iter, NULL, &item);)
        if (pal_json_type_of(pal_json_find(item, "text")) != PAL_JSON_STRING)
            return false;
    return true;
}

/* A message without content may have it in a member that is unknown here. Then all unknown members
 * are shown as text, so that no message becomes empty silently. */
static pal_str read_content(pal_transcript *in, const row_message *from)
{
    pal_json_type type = pal_json_type_of(from->content);
    bool is_list = type == PAL_JSON_ARRAY;
    if (is_list && are_texts(from->content))
        return pal_transcript_texts(in->line_arena, from->content);
    if (is_list || type == PAL_JSON_OBJECT)
        pal_transcript_warn(in, "'content' is not a text; it is kept as JSON");
    if (type != PAL_JSON_NONE || pal_json_count(from->tool_calls) || !from->others.len)
        return text_or_json(from->content, in->line_arena);
    pal_transcript_warn(in, "a message has no 'content'; its other members are kept as JSON");
    return from->others;
}

static void tell_others(pal_transcript *in, const row_message *from, const pal_message *message)
{
    pal_json_type type = pal_json_type_of(from->tool_calls);
    if (type != PAL_JSON_NONE && type != PAL_JSON_ARRAY)
        pal_transcript_warn(in, "'tool_calls' is not a list and is left out");
    if (from->others.len && message->parts_len == 1 &&
            message->parts[0].kind == PAL_PART_TEXT && message->parts[0].text.len == 0)
        pal_transcript_warn(
                in, "a message is empty; its other members are stored, but not shown to models");
}

static void read_parts(pal_transcript *in, const row_message *from, pal_message *message)
{
    pal_json call, calls = from->tool_calls;
    pal_str text = read_content(in, from);
    size_t most = pal_json_count(calls) < CALLS_MAX ? pal_json_count(calls) : CALLS_MAX;
    message->parts = pal_arena_array(in->line_arena, most + 1, sizeof(*message->parts));
    if (!message->parts)
        return; /* the caller checks the arena */
    if (message->role == PAL_ROLE_TOOL) {
        pal_str id = pal_json_string(from->tool_call_id, in->line_arena);
        message->parts[message->parts_len++] = (pal_part){.kind = PAL_PART_TOOL_RESULT,
                .call_id = id.len ? id : pal_str_of("none"),
                .text = text};
        return;
    }
    if (text.len || most == 0)
        message->parts[message->parts_len++] = (pal_part){.kind = PAL_PART_TEXT, .text = text};
    for (pal_json_iter iter = pal_json_each(calls);
            message->parts_len <= most && pal_json_next(&iter, NULL, &call);)
        message->parts[message->parts_len++] = read_call(in, call);
}

static void read_message(pal_transcript *in, row *from, pal_json value)
{
    pal_message message = {0};
    row_message given = {0};
    uint64_t tokens = 0;
    pal_error error;
    if (pal_members_read(&message_table, 1, value, in->line_arena, &given, &given.others,
                &error) == PAL_OK)
        message.role = pal_role_from_name(pal_json_string(given.role, in->line_arena));
    if (message.role == PAL_ROLE_NONE) {
        pal_transcript_warn(in, "skipped: a message has an unknown role");
        return;
    }
    read_parts(in, &given, &message);
    tell_others(in, &given, &message);
    message.extra = pal_member_wrap(in->line_arena, from->program, given.others);
    message.created_at = read_time(in, given.timestamp);
    if (!message.created_at)
        message.created_at = in->facts.session.created_at;
    if (pal_json_u64(given.token_count, &tokens) && tokens <= UINT32_MAX)
        message.tokens = (uint32_t)tokens;
    message.client_id = client_id_of(in, from, value);
    pal_transcript_emit(in, &message);
}

static void read_messages(pal_transcript *in, const char *program, pal_json array)
{
    row from = {.program = program};
    pal_json item;
    pal_transcript_tell_session(in);
    pal_map_init(&from.seen);
    for (pal_json_iter iter = pal_json_each(array);
            in->failure == PAL_OK && pal_json_next(&iter, NULL, &item);)
        read_message(in, &from, item);
    pal_map_done(&from.seen);
}

/* ---- Sessions ---- */

static void put_kept(pal_json_writer *writer, pal_json line, const char *const *names, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        pal_json value = pal_json_find(line, names[i]);
        pal_json_type type = pal_json_type_of(value);
        if (type == PAL_JSON_NONE || type == PAL_JSON_NULL)
            continue;
        pal_put_raw(writer, names[i], pal_json_raw(value));
    }
}

/* Writes {"source":PROGRAM,...} with the columns that have no field here. Returns false if they
 * exceed the limit. */
static bool try_metadata(pal_transcript *in, const char *program, pal_json line,
        const char *const *names, size_t names_len, pal_json more)
{
    pal_buf buf;
    pal_buf_init(&buf, PAL_METADATA_LEN_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_text(&writer, "source", program);
    put_kept(&writer, line, names, names_len);
    if (pal_json_type_of(more) == PAL_JSON_OBJECT && pal_json_count(more)) {
        pal_put_raw(&writer, "metadata", pal_json_raw(more));
    }
    pal_json_end_object(&writer);
    bool fits = !buf.failure;
    if (fits)
        pal_transcript_relearn(in, &in->facts.session.metadata, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return fits;
}

/* Keeps the columns that have no field here, if there is room for them. */
static void learn_metadata(pal_transcript *in, const char *program, pal_json line,
        const char *const *names, size_t names_len, pal_json more)
{
    if (try_metadata(in, program, line, names, names_len, more))
        return;
    pal_transcript_warn(in, "the metadata of '%.*s' exceeds %u KiB and is left out",
            PAL_EXCERPT(in->facts.original_id, 80), PAL_METADATA_LEN_MAX >> 10);
    if (!try_metadata(in, program, line, names, names_len, (pal_json){0}))
        (void)try_metadata(in, program, line, NULL, 0, (pal_json){0});
}

static void learn_key(pal_transcript *in, const char *program, pal_str id)
{
    char key[PAL_KEY_LEN_MAX];
    int len = id.len ? snprintf(key, sizeof(key), "%s:%.*s", program, PAL_STR_ARG(id)) : 0;
    if (len > 0 && (size_t)len < sizeof(key))
        pal_transcript_learn(in, &in->facts.session.key, pal_str_make(key, (size_t)len));
    pal_transcript_learn(in, &in->facts.original_id, id);
}

/* The plain id becomes an alias, because clients continue to use it. */
static void learn_alias(pal_transcript *in)
{
    pal_session *session = &in->facts.session;
    pal_str id = in->facts.original_id;
    session->aliases = pal_arena_array(in->kept, 1, sizeof(*session->aliases));
    if (!session->aliases || id.len == 0 || id.len > PAL_KEY_LEN_MAX)
        return;
    session->aliases[0] = id;
    session->aliases_len = 1;
}

void pal_transcript_skillian_read(pal_transcript *in, pal_json line)
{
    static const char *const kept[] = {"id", "last_accessed", "message_count"};
    pal_json data = unwrap(in, pal_json_find(line, "conversation_data"));
    if (pal_json_type_of(data) == PAL_JSON_NONE)
        data = line;
    /* A new session has {} as its data. */
    bool is_empty = pal_json_type_of(data) == PAL_JSON_OBJECT && pal_json_count(data) == 0;
    if (pal_json_type_of(data) == PAL_JSON_OBJECT)
        data = unwrap(in, pal_json_find(data, "messages"));
    if (pal_json_type_of(data) != PAL_JSON_ARRAY && pal_json_type_of(data) != PAL_JSON_NULL &&
            !is_empty) {
        pal_transcript_warn(in, "skipped: a row has no messages in 'conversation_data'");
        return;
    }
    pal_transcript_start_session(in);
    learn_key(in, "skillian", pal_member_string(line, "id", in->line_arena));
    learn_alias(in);
    learn_metadata(in, "skillian", line, kept, sizeof(kept) / sizeof(kept[0]), (pal_json){0});
    in->facts.session.agent = pal_str_of("skillian");
    in->facts.session.created_at = read_time(in, pal_json_find(line, "created_at"));
    in->facts.session.updated_at = read_time(in, pal_json_find(line, "last_accessed"));
    read_messages(in, "skillian", data);
}

/* If the row has no creation time, the time of its first message is used. */
static int64_t first_time(pal_transcript *in, pal_json messages)
{
    pal_json item;
    int64_t at = 0;
    for (pal_json_iter iter = pal_json_each(messages); !at && pal_json_next(&iter, NULL, &item);)
        at = read_time(in, pal_json_find(item, "timestamp"));
    return at;
}

void pal_transcript_loom_read(pal_transcript *in, pal_json line)
{
    static const char *const kept[] = {
            "session_id", "bead_id", "updated_at", "expires_at", "token_count", "entity_metadata"};
    pal_session *session = &in->facts.session;
    pal_json messages = unwrap(in, pal_json_find(line, "messages"));
    pal_json metadata = unwrap(in, pal_json_find(line, "metadata"));
    pal_str id = pal_member_string(line, "session_id", in->line_arena);
    if (!id.len) {
        pal_transcript_warn(in, "skipped: a row has no 'session_id'");
        return;
    }
    if (pal_json_type_of(messages) == PAL_JSON_OBJECT) {
        pal_transcript_warn(in, "skipped: 'messages' of a row is not a list");
        return;
    }
    pal_transcript_start_session(in);
    learn_key(in, "loom", id);
    learn_alias(in);
    pal_transcript_learn(
            in, &in->facts.bead, pal_member_string(line, "bead_id", in->line_arena));
    learn_metadata(in, "loom", line, kept, sizeof(kept) / sizeof(kept[0]), metadata);
    pal_transcript_learn(
            in, &session->project, pal_member_string(line, "project_id", in->line_arena));
    pal_transcript_learn(
            in, &session->agent, pal_member_string(metadata, "agent_name", in->line_arena));
    session->created_at = read_time(in, pal_json_find(line, "created_at"));
    session->updated_at = read_time(in, pal_json_find(line, "updated_at"));
    session->expires_at = read_time(in, pal_json_find(line, "expires_at"));
    if (!session->created_at)
        session->created_at = first_time(in, messages);
    read_messages(in, "loom", messages);
}

/* Reads a time in seconds or milliseconds since 1970, or as text. */
static int64_t read_any_time(pal_transcript *in, pal_json value)
{
    uint64_t number = 0;
    if (!pal_json_u64(value, &number) || number > INT64_MAX / 1000)
        return read_time(in, value);
    return (int64_t)(number < 100000000000 ? number * 1000 : number);
}

void pal_transcript_sol_read(pal_transcript *in, pal_json line)
{
    static const char *const kept[] = {"room_id", "conversation_id", "estimated_tokens"};
    pal_session *session = &in->facts.session;
    pal_str room = pal_member_string(line, "room_id", in->line_arena);
    pal_str conversation = pal_member_string(line, "conversation_id", in->line_arena);
    if (!room.len || !conversation.len) {
        pal_transcript_warn(in, "skipped: a row has no '%s'",
                room.len ? "conversation_id" : "room_id");
        return;
    }
    pal_transcript_start_session(in);
    if (room.data[0] == '!')
        pal_transcript_learn(in, &in->facts.room, room);
    else
        learn_key(in, "sol", room);
    if (room.data[0] != '!')
        pal_transcript_warn(in, "'room_id' is not a Matrix room; imported with the key 'sol:%.*s'",
                PAL_STR_ARG(room));
    pal_transcript_learn(in, &in->facts.conversation, conversation);
    (void)pal_json_u64(
            pal_json_find(line, "estimated_tokens"), &in->facts.conversation_tokens);
    learn_metadata(in, "sol", line, kept, sizeof(kept) / sizeof(kept[0]), (pal_json){0});
    session->created_at = read_any_time(in, pal_json_find(line, "created_at"));
    session->updated_at = session->created_at;
    pal_transcript_tell_session(in);
}
