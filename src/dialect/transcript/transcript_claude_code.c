/* transcript_claude_code.c - the transcripts of Claude Code, with one record per line.
 *
 * An answer consists of several records with the same message id, one for each block. Results of
 * its first tools can be between them, so the answer is held back until another message begins.
 * Records name their parents. If the parent of a prompt is not the newest message, the user went
 * back, which gives a rewind mark. Records of sub-agents in a main file are left out; a file that
 * contains only such records is a separate session. Its records have the id of the main session, so
 * its own id is that one, ':' and the id of the sub-agent.
 *
 * Values of a record that have no counterpart are kept in extra under "claude_code", and those of a
 * block under "anthropic". Values that are repeated on every line (directory, version), or a second
 * time for display ("toolUseResult"), are not kept. */
#include "base/clock.h"
#include "dialect/anthropic/anthropic_block.h"
#include "dialect/dialect_member.h"
#include "dialect/transcript/transcript_reader.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define AGENT "claude-code"

/* ---- Records ---- */

typedef struct claude_record {
    pal_str uuid;
    pal_str parent;
    pal_str session_id;
    pal_str agent_id; /* the sub-agent's; empty: not of a sub-agent */
    pal_str timestamp;
    pal_str cwd;
    pal_str branch;
    pal_json message;
    pal_json dropped;
    bool is_sidechain;
    bool is_meta;
    bool is_summary;
    bool is_error;
    pal_str extra;
} claude_record;

static const pal_member record_members[] = {
        {"uuid", PAL_MEMBER_STRING, 1, .offset = offsetof(claude_record, uuid)},
        {"parentUuid", PAL_MEMBER_STRING, 1, .offset = offsetof(claude_record, parent)},
        {"sessionId", PAL_MEMBER_STRING, 1, .offset = offsetof(claude_record, session_id)},
        {"agentId", PAL_MEMBER_STRING, 1, .offset = offsetof(claude_record, agent_id)},
        {"timestamp", PAL_MEMBER_STRING, 1, .offset = offsetof(claude_record, timestamp)},
        {"cwd", PAL_MEMBER_STRING, 1, .offset = offsetof(claude_record, cwd)},
        {"gitBranch", PAL_MEMBER_STRING, 1, .offset = offsetof(claude_record, branch)},
        {"message", PAL_MEMBER_VALUE, 1, .offset = offsetof(claude_record, message)},
        {"isSidechain", PAL_MEMBER_BOOL, 1, .offset = offsetof(claude_record, is_sidechain)},
        {"isMeta", PAL_MEMBER_BOOL, 1, .offset = offsetof(claude_record, is_meta)},
        {"isCompactSummary", PAL_MEMBER_BOOL, 1, .offset = offsetof(claude_record, is_summary)},
        {"isApiErrorMessage", PAL_MEMBER_BOOL, 1, .offset = offsetof(claude_record, is_error)},
        {"type", PAL_MEMBER_VALUE, 1, .offset = offsetof(claude_record, dropped)},
        {"toolUseResult", PAL_MEMBER_VALUE, 1, .offset = offsetof(claude_record, dropped)},
        {"userType", PAL_MEMBER_VALUE, 1, .offset = offsetof(claude_record, dropped)},
        {"entrypoint", PAL_MEMBER_VALUE, 1, .offset = offsetof(claude_record, dropped)},
        {"version", PAL_MEMBER_VALUE, 1, .offset = offsetof(claude_record, dropped)},
        {"slug", PAL_MEMBER_VALUE, 1, .offset = offsetof(claude_record, dropped)},
};
static const pal_member_table record_table = {record_members, COUNT_OF(record_members), NULL, NULL};

static void read_usage(pal_json usage, pal_message *message)
{
    if (pal_json_type_of(usage) != PAL_JSON_OBJECT)
        return;
    message->has_usage = true;
    pal_json_u64(pal_json_find(usage, "input_tokens"), &message->usage.input);
    pal_json_u64(pal_json_find(usage, "cache_read_input_tokens"), &message->usage.cache_read);
    pal_json_u64(pal_json_find(usage, "cache_creation_input_tokens"), &message->usage.cache_write);
    pal_json_u64(pal_json_find(usage, "output_tokens"), &message->usage.output);
}

/* A failure is recorded in the arena, and the caller checks the arena after each line. */
static void read_content(pal_transcript *in, pal_json content, pal_message *message)
{
    const pal_block_reader reader = {.arena = in->line_arena, .is_history = true};
    if (pal_blocks_read(&reader, content, "content", &message->parts, &message->parts_len) !=
            PAL_OK)
        message->parts_len = 0;
    pal_transcript_tell_strays(in, content);
    pal_transcript_tell_opaque(in, message->parts, message->parts_len);
}

static pal_message make_message(pal_transcript *in, const claude_record *record, pal_role role)
{
    pal_message message = {.role = role, .client_id = record->uuid};
    if (message.client_id.len == 0)
        message.client_id = pal_transcript_number_id(in->line_arena, AGENT, in->line);
    pal_str model = pal_member_string(record->message, "model", in->line_arena);
    bool synthetic = pal_str_is(model, "<synthetic>");
    message.model = synthetic ? pal_str_make(NULL, 0) : model;
    message.flags = (record->is_summary ? PAL_MESSAGE_FLAG_SUMMARY : 0) |
            (record->is_error ? PAL_MESSAGE_FLAG_ERROR : 0) |
            (record->is_meta || synthetic ? PAL_MESSAGE_FLAG_SYNTHETIC : 0);
    message.extra = pal_member_wrap(in->line_arena, "claude_code", record->extra);
    pal_time_from_text(record->timestamp, &message.created_at);
    read_usage(pal_json_find(record->message, "usage"), &message);
    read_content(in, pal_json_find(record->message, "content"), &message);
    for (size_t i = 0; record->is_summary && i < message.parts_len; i++) {
        if (message.parts[i].kind == PAL_PART_TEXT)
            message.parts[i].kind = PAL_PART_COMPACTION;
    }
    return message;
}

/* ---- The tree of records ---- */

/* Returns the position of the record's message, or of the nearest message before it. If the
 * position is unknown (the first record, or the first one after a compaction), returns the end of
 * the conversation. */
static uint64_t position_of(const pal_transcript *in, pal_str uuid)
{
    void *found = uuid.len ? pal_map_find(&in->positions, uuid) : NULL;
    return found ? (uint64_t)((uintptr_t)found - 1) : in->position;
}

static void place(pal_transcript *in, pal_str uuid, uint64_t position)
{
    if (uuid.len == 0)
        return;
    pal_str key = pal_arena_copy(in->kept, uuid);
    if (key.len && pal_map_set(&in->positions, key, (void *)(uintptr_t)(position + 1)) != PAL_OK)
        in->failure = PAL_NO_MEMORY;
}

/* A prompt follows a message before the newest one, so the messages after that are rewound. Tool
 * results do not count, because the results of parallel calls are siblings in the tree. */
static void rewind_to_parent(pal_transcript *in, const claude_record *record)
{
    uint64_t position = position_of(in, record->parent);
    if (position >= in->spoken_position)
        return;
    pal_mark mark = {.kind = PAL_MARK_REWIND, .seq = position};
    pal_time_from_text(record->timestamp, &mark.created_at);
    pal_transcript_emit_mark(in, &mark);
}

/* ---- Messages ---- */

static void read_assistant(pal_transcript *in, const claude_record *record)
{
    pal_message message = make_message(in, record, PAL_ROLE_ASSISTANT);
    pal_str id = pal_member_string(record->message, "id", in->line_arena);
    bool is_piece = in->held_len && id.len && pal_str_equal(id, in->held_key);
    if (is_piece && pal_transcript_extend(in, &message)) {
        place(in, record->uuid, in->spoken_position);
        return;
    }
    pal_transcript_flush(in);
    pal_transcript_hold(in, &message, id);
    in->spoken_position = in->position;
    place(in, record->uuid, in->position);
}

/* Splits off the tool results, because they have another role than the user's content. */
static size_t take_results(pal_arena *arena, pal_message *message, pal_part **out_results)
{
    size_t results = 0, others = 0;
    *out_results = pal_arena_array(arena, message->parts_len + 1, sizeof(pal_part));
    if (!*out_results)
        return 0;
    for (size_t i = 0; i < message->parts_len; i++) {
        if (message->parts[i].kind == PAL_PART_TOOL_RESULT)
            (*out_results)[results++] = message->parts[i];
        else
            message->parts[others++] = message->parts[i];
    }
    message->parts_len = others;
    return results;
}

static void read_user(pal_transcript *in, const claude_record *record)
{
    pal_message message = make_message(in, record, PAL_ROLE_USER);
    pal_message tool = message;
    tool.parts_len = take_results(in->line_arena, &message, &tool.parts);
    if (tool.parts_len) {
        tool.role = PAL_ROLE_TOOL;
        if (in->held_len)
            pal_transcript_hold(in, &tool, pal_str_make(NULL, 0));
        else
            pal_transcript_emit(in, &tool);
        place(in, record->uuid, in->position);
        if (message.parts_len == 0)
            return;
        message.client_id = pal_transcript_suffix(in->line_arena, tool.client_id, ":said");
    } else if (!record->is_meta && !record->is_summary) {
        rewind_to_parent(in, record);
    }
    pal_transcript_emit(in, &message);
    in->spoken_position = in->position;
    place(in, record->uuid, in->position);
}

/* Returns false for a record of a sub-agent in a file of another session. */
static bool belongs(pal_transcript *in, const claude_record *record)
{
    if (!in->seen_message) {
        in->seen_message = true;
        in->is_sidechain = record->is_sidechain;
    }
    if (record->is_sidechain == in->is_sidechain || !record->is_sidechain)
        return true;
    if (!in->sidechain_told)
        pal_transcript_warn(in, "records of sub-agents are skipped, from this one on");
    in->sidechain_told = true;
    return false;
}

static void learn_facts(pal_transcript *in, const claude_record *record)
{
    int64_t created_at;
    pal_str id = record->session_id;
    if (in->is_sidechain && id.len && record->agent_id.len) {
        const char *agent = pal_arena_copy(in->line_arena, record->agent_id).data;
        id = pal_transcript_suffix(in->line_arena, id, ":");
        id = pal_transcript_suffix(in->line_arena, id, agent ? agent : "");
    }
    pal_transcript_learn(in, &in->facts.original_id, id);
    pal_transcript_learn(in, &in->facts.cwd, record->cwd);
    pal_transcript_learn(in, &in->facts.branch, record->branch);
    if (in->facts.session.created_at == 0 && pal_time_from_text(record->timestamp, &created_at))
        in->facts.session.created_at = created_at;
    pal_transcript_settle_facts(in, AGENT);
}

/* ---- Other records ---- */

/* A title that the user has set stays. Other titles replace each other. */
static bool read_title(pal_transcript *in, pal_json line, pal_json type)
{
    bool own = pal_json_string_is(type, "custom-title");
    const char *member = own                       ? "customTitle"
            : pal_json_string_is(type, "ai-title") ? "aiTitle"
            : pal_json_string_is(type, "summary")  ? "summary"
                                                   : NULL;
    if (!member)
        return false;
    if (own || !in->has_own_title)
        pal_transcript_relearn(
                in, &in->facts.session.title, pal_member_string(line, member, in->line_arena));
    in->has_own_title |= own;
    return true;
}

static void read_other(pal_transcript *in, pal_json line, pal_json type)
{
    static const char *const silent[] = {"system", "progress", "attachment",
            "file-history-snapshot", "queue-operation", "last-prompt", "mode", "permission-mode",
            "pr-link", "tag", "agent-name", "agent-color", "agent-setting", "api-request",
            "api-request-blob", "api-request-shape", "atis-latch", "cost-state", "tools-used",
            NULL};
    if (read_title(in, line, type) || pal_member_is_one_of(type, silent))
        return;
    pal_str name = pal_json_string(type, in->line_arena);
    pal_transcript_warn(in, "skipped: a record of unknown type '%.*s'",
            name.len < 64 ? (int)name.len : 64, name.data ? name.data : "");
}

void pal_transcript_claude_code_read(pal_transcript *in, pal_json line)
{
    pal_json type = pal_json_find(line, "type");
    bool is_user = pal_json_string_is(type, "user");
    claude_record record = {0};
    pal_error error;
    pal_status status = pal_members_read(
            &record_table, 1, line, in->line_arena, &record, &record.extra, &error);
    if (status != PAL_OK) {
        if (status != PAL_NO_MEMORY)
            pal_transcript_warn(in, "skipped: %s", error.message);
        return;
    }
    if (!is_user && !pal_json_string_is(type, "assistant")) {
        place(in, record.uuid, position_of(in, record.parent));
        read_other(in, line, type);
        return;
    }
    if (pal_json_type_of(record.message) != PAL_JSON_OBJECT) {
        pal_transcript_warn(in, "skipped: a record without a message");
        return;
    }
    if (!belongs(in, &record))
        return;
    /* A resumed session repeats the records that it continues. */
    if (record.uuid.len && pal_map_find(&in->positions, record.uuid))
        return;
    learn_facts(in, &record);
    if (is_user)
        read_user(in, &record);
    else
        read_assistant(in, &record);
}
