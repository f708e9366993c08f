/* transcript_librechat.c - a conversation of LibreChat, as in its JSON export: {"conversationId",
 * "title","exportAt","messages",...}. A message has "messageId", "parentMessageId", "text" or
 * "content" (parts), "isCreatedByUser", "model", "createdAt" and "files". A recursive export nests
 * messages in "children"; any other lists them.
 *
 * A part of type "tool_call" is a call together with its output. */
#include <stdio.h>
#include "base/text.h"
#include "dialect/dialect_member.h"
#include "dialect/transcript/transcript_tree.h"

#define AGENT "librechat"
#define DEPTH_MAX 1000 /* nested messages; the parser allows fewer */

static pal_str text_of(pal_transcript *in, pal_json object, const char *name)
{
    return pal_member_string(object, name, in->line_arena);
}

/* The text of a part: "text": "..." or "text": {"value": "..."}. */
static pal_str value_of(pal_transcript *in, pal_json part, const char *name)
{
    pal_json value = pal_json_find(part, name);
    return pal_json_type_of(value) == PAL_JSON_OBJECT ? text_of(in, value, "value")
                                                      : pal_json_string(value, in->line_arena);
}

/* ---- Messages ---- */

typedef struct libre_reader {
    const pal_transcript_tree *tree;
    pal_transcript_node *node;
    pal_role role;
    size_t parts_max;
    size_t calls;
} libre_reader;

/* The message that takes the next part. */
static pal_message *message_of(libre_reader *r, pal_role role)
{
    pal_transcript *in = r->tree->in;
    pal_transcript_node *node = r->node;
    pal_message *last = node->messages_len ? &node->messages[node->messages_len - 1] : NULL;
    if (last && last->role == role && role != PAL_ROLE_TOOL)
        return last;
    pal_message *message = pal_transcript_tree_message(r->tree, node, role, r->parts_max);
    if (!message)
        return NULL;
    message->created_at = pal_transcript_tree_time(in, pal_json_find(node->value, "createdAt"));
    if (role == PAL_ROLE_ASSISTANT)
        message->model = text_of(in, node->value, "model");
    return message;
}

static void read_call(libre_reader *r, pal_json call)
{
    pal_transcript *in = r->tree->in;
    pal_json args = pal_json_find(call, "args"), output = pal_json_find(call, "output");
    pal_message *message = message_of(r, PAL_ROLE_ASSISTANT);
    pal_str id = text_of(in, call, "id");
    char number[32];
    snprintf(number, sizeof number, "_%zu", ++r->calls);
    if (!id.len)
        id = pal_transcript_suffix(in->line_arena, r->node->id, number);
    if (message)
        pal_transcript_tree_call(in, message, id, text_of(in, call, "name"),
                pal_json_type_of(args) == PAL_JSON_STRING ? pal_json_string(args, in->line_arena)
                                                          : pal_json_raw(args));
    if (pal_json_type_of(output) <= PAL_JSON_NULL)
        return;
    message = message_of(r, PAL_ROLE_TOOL);
    if (message)
        message->parts[message->parts_len++] = (pal_part){.kind = PAL_PART_TOOL_RESULT,
                .call_id = id,
                .text = pal_json_type_of(output) == PAL_JSON_STRING
                        ? pal_json_string(output, in->line_arena)
                        : pal_json_raw(output)};
}

static void read_part(libre_reader *r, pal_json part)
{
    pal_transcript *in = r->tree->in;
    pal_json type = pal_json_find(part, "type");
    bool is_text = pal_json_string_is(type, "text"), is_thought = pal_json_string_is(type, "think");
    pal_str text = value_of(in, part, is_thought ? "think" : "text");
    if (is_text || is_thought) {
        pal_message *message = text.len ? message_of(r, r->role) : NULL;
        if (message && is_text)
            pal_transcript_tree_text(message, text);
        else if (message)
            pal_transcript_tree_reasoning(message, text);
    } else if (pal_json_string_is(type, "tool_call")) {
        read_call(r, pal_json_find(part, "tool_call"));
    } else {
        pal_transcript_warn(in, "a part of type '%.*s' is left out",
                PAL_EXCERPT(pal_json_string(type, in->line_arena), 40));
    }
}

static void read_message(const pal_transcript_tree *tree, pal_transcript_node *node)
{
    pal_transcript *in = tree->in;
    pal_json one, given = node->value, content = pal_json_find(given, "content"),
                  files = pal_json_find(given, "files");
    bool is_user = false;
    (void)pal_json_bool(pal_json_find(given, "isCreatedByUser"), &is_user);
    libre_reader r = {.tree = tree,
            .node = node,
            .role = is_user ? PAL_ROLE_USER : PAL_ROLE_ASSISTANT,
            .parts_max = pal_json_count(content) + pal_json_count(files) + 2};
    pal_str text = text_of(in, given, "text");
    for (pal_json_iter iter = pal_json_each(content); pal_json_next(&iter, NULL, &one);)
        read_part(&r, one);
    if (node->messages_len == 0 && text.len) {
        pal_message *message = message_of(&r, r.role);
        if (message)
            pal_transcript_tree_text(message, text);
    }
    for (pal_json_iter iter = pal_json_each(files); pal_json_next(&iter, NULL, &one);) {
        pal_message *message = message_of(&r, r.role);
        if (message)
            pal_transcript_tree_text(
                    message, pal_transcript_tree_note(in, "file", text_of(in, one, "filename")));
    }
}

/* ---- The conversation ---- */

static void add_messages(pal_transcript_tree *tree, pal_json list, int depth)
{
    pal_json message;
    for (pal_json_iter iter = pal_json_each(list); pal_json_next(&iter, NULL, &message);) {
        pal_transcript_tree_add(tree, text_of(tree->in, message, "messageId"),
                text_of(tree->in, message, "parentMessageId"), message);
        if (depth < DEPTH_MAX)
            add_messages(tree, pal_json_find(message, "children"), depth + 1);
    }
}

void pal_transcript_librechat_read(pal_transcript *in, pal_json line)
{
    pal_json messages = pal_json_find(line, "messages");
    pal_transcript_tree tree = {.in = in,
            .agent = AGENT,
            .id = text_of(in, line, "conversationId"),
            .title = text_of(in, line, "title"),
            .created_at = pal_transcript_tree_time(in, pal_json_find(line, "createdAt"))};
    if (!tree.id.len) {
        pal_transcript_warn(in, "skipped: a conversation has no 'conversationId'");
        return;
    }
    if (pal_json_type_of(messages) != PAL_JSON_ARRAY)
        messages = pal_json_find(line, "messagesTree");
    add_messages(&tree, messages, 0);
    pal_transcript_tree_link(&tree);
    for (size_t i = 0; i < tree.len; i++)
        read_message(&tree, &tree.nodes[i]);
    pal_transcript_tree_give_out(&tree);
}
