/* transcript_claude_ai.c - conversations of claude.ai, as in conversations.json of its data export:
 * a list of {"uuid","name","created_at","updated_at","chat_messages"}. A message has "uuid",
 * "sender", "text", "content" (blocks), "created_at", "attachments" and "files"; newer exports also
 * name its "parent_message_uuid".
 *
 * One message can contain several calls with their results and texts between them. It becomes
 * several messages. Files whose content is not in the export are named by a text. */
#include <stdio.h>
#include "base/text.h"
#include "dialect/dialect_member.h"
#include "dialect/transcript/transcript_tree.h"

#define AGENT "claude-ai"

static pal_str text_of(pal_transcript *in, pal_json object, const char *name)
{
    return pal_member_string(object, name, in->line_arena);
}

/* A message that is being read. */
typedef struct claude_reader {
    const pal_transcript_tree *tree;
    pal_transcript_node *node;
    pal_role role;
    int64_t created_at;
    size_t parts_max;
    size_t calls, results; /* numbers of the calls and results so far */
    pal_str *call_ids;
} claude_reader;

/* The message that takes the next part. */
static pal_message *message_of(claude_reader *r, pal_role role)
{
    pal_transcript_node *node = r->node;
    pal_message *last = node->messages_len ? &node->messages[node->messages_len - 1] : NULL;
    if (last && last->role == role && role != PAL_ROLE_TOOL)
        return last;
    pal_message *message = pal_transcript_tree_message(r->tree, node, role, r->parts_max);
    if (message)
        message->created_at = r->created_at;
    return message;
}

static void read_text(claude_reader *r, pal_str text)
{
    pal_message *message = text.len ? message_of(r, r->role) : NULL;
    if (message)
        pal_transcript_tree_text(message, text);
}

/* Exports can leave out the ids of calls. */
static pal_str call_id_of(const claude_reader *r, pal_str id, size_t number)
{
    char text[32];
    pal_transcript *in = r->tree->in;
    snprintf(text, sizeof text, "_%zu", number);
    return id.len ? id : pal_transcript_suffix(in->line_arena, r->node->id, text);
}

static void read_call(claude_reader *r, pal_json block)
{
    pal_transcript *in = r->tree->in;
    pal_message *message = message_of(r, PAL_ROLE_ASSISTANT);
    if (!message)
        return;
    pal_str id = call_id_of(r, text_of(in, block, "id"), r->calls + 1);
    r->call_ids[r->calls++] = id;
    pal_transcript_tree_call(in, message, id, text_of(in, block, "name"),
            pal_json_raw(pal_json_find(block, "input")));
}

/* A result belongs to the call that it names, otherwise to the first one without a result. */
static void read_result(claude_reader *r, pal_json block)
{
    pal_transcript *in = r->tree->in;
    pal_json content = pal_json_find(block, "content");
    pal_str text = pal_json_type_of(content) == PAL_JSON_STRING
            ? pal_json_string(content, in->line_arena)
            : pal_transcript_texts(in->line_arena, content);
    pal_str id = text_of(in, block, "tool_use_id");
    if (!id.len && r->results < r->calls)
        id = r->call_ids[r->results];
    r->results++;
    if (!text.len)
        text = pal_json_type_of(content) <= PAL_JSON_NULL ? pal_str_of("") : pal_json_raw(content);
    if (!id.len) {
        read_text(r, text);
        return;
    }
    pal_message *message = message_of(r, PAL_ROLE_TOOL);
    if (!message)
        return;
    pal_part *part = &message->parts[message->parts_len++];
    *part = (pal_part){.kind = PAL_PART_TOOL_RESULT, .call_id = id, .text = text};
    (void)pal_json_bool(pal_json_find(block, "is_error"), &part->is_error);
}

static void read_block(claude_reader *r, pal_json block)
{
    pal_transcript *in = r->tree->in;
    pal_json type = pal_json_find(block, "type");
    if (pal_json_string_is(type, "text") || pal_json_string_is(type, "voice_note")) {
        read_text(r, text_of(in, block, "text"));
    } else if (pal_json_string_is(type, "thinking")) {
        pal_str thinking = text_of(in, block, "thinking");
        pal_message *message = thinking.len ? message_of(r, r->role) : NULL;
        if (message)
            pal_transcript_tree_reasoning(message, thinking);
    } else if (pal_json_string_is(type, "tool_use")) {
        read_call(r, block);
    } else if (pal_json_string_is(type, "tool_result")) {
        read_result(r, block);
    } else if (!pal_json_string_is(type, "token_budget") && !pal_json_string_is(type, "flag")) {
        pal_transcript_warn(in, "a block of type '%.*s' is left out",
                PAL_EXCERPT(pal_json_string(type, in->line_arena), 40));
    }
}

static void read_attachments(claude_reader *r, pal_json list)
{
    pal_json file;
    pal_transcript *in = r->tree->in;
    for (pal_json_iter iter = pal_json_each(list); pal_json_next(&iter, NULL, &file);) {
        read_text(r, pal_transcript_tree_note(in, "file", text_of(in, file, "file_name")));
        read_text(r, text_of(in, file, "extracted_content"));
    }
}

static void read_message(const pal_transcript_tree *tree, pal_transcript_node *node)
{
    pal_transcript *in = tree->in;
    pal_json block, given = node->value, content = pal_json_find(given, "content"),
                    attachments = pal_json_find(given, "attachments"),
                    files = pal_json_find(given, "files");
    size_t blocks = pal_json_count(content);
    claude_reader r = {.tree = tree,
            .node = node,
            .role = pal_json_string_is(pal_json_find(given, "sender"), "human")
                    ? PAL_ROLE_USER
                    : PAL_ROLE_ASSISTANT,
            .created_at = pal_transcript_tree_time(in, pal_json_find(given, "created_at")),
            .parts_max = blocks + 2 * pal_json_count(attachments) + pal_json_count(files) + 1,
            .call_ids = pal_arena_array(in->line_arena, blocks + 1, sizeof(pal_str))};
    if (!r.call_ids)
        return;
    for (pal_json_iter iter = pal_json_each(content); pal_json_next(&iter, NULL, &block);)
        read_block(&r, block);
    if (node->messages_len == 0) /* older exports have no blocks */
        read_text(&r, text_of(in, given, "text"));
    read_attachments(&r, attachments);
    read_attachments(&r, files);
}

void pal_transcript_claude_ai_read(pal_transcript *in, pal_json line)
{
    pal_json message, messages = pal_json_find(line, "chat_messages");
    pal_transcript_tree tree = {.in = in,
            .agent = AGENT,
            .id = text_of(in, line, "uuid"),
            .title = text_of(in, line, "name"),
            .current = text_of(in, line, "current_leaf_message_uuid"),
            .created_at = pal_transcript_tree_time(in, pal_json_find(line, "created_at")),
            .updated_at = pal_transcript_tree_time(in, pal_json_find(line, "updated_at"))};
    pal_str before = {0};
    if (!tree.id.len) {
        pal_transcript_warn(in, "skipped: a conversation has no 'uuid'");
        return;
    }
    for (pal_json_iter iter = pal_json_each(messages); pal_json_next(&iter, NULL, &message);) {
        pal_json parent = pal_json_find(message, "parent_message_uuid");
        pal_str id = text_of(in, message, "uuid");
        /* Without parents, each message follows the one before it. */
        pal_transcript_tree_add(&tree, id,
                pal_json_type_of(parent) == PAL_JSON_NONE
                        ? before
                        : pal_json_string(parent, in->line_arena),
                message);
        before = id;
    }
    pal_transcript_tree_link(&tree);
    for (size_t i = 0; i < tree.len; i++)
        read_message(&tree, &tree.nodes[i]);
    pal_transcript_tree_give_out(&tree);
}
