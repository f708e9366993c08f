/* transcript_chatgpt.c - conversations of ChatGPT, as in conversations.json of its data export: a
 * list of {"title","create_time","update_time","mapping","current_node","conversation_id",...}. The
 * mapping is a tree of nodes {"id","parent","children","message"}.
 *
 * A message of the assistant to a recipient other than "all" is a call of a tool, and the tool's
 * message after it is the result. Messages without content, which ChatGPT hides, are left out. The
 * bytes of images and files are not part of conversations.json: a text names them. */
#include "base/text.h"
#include "dialect/dialect_member.h"
#include "dialect/transcript/transcript_tree.h"

#define AGENT "chatgpt"

static pal_str text_of(pal_transcript *in, pal_json object, const char *name)
{
    return pal_member_string(object, name, in->line_arena);
}

static bool is_type(pal_json content, const char *type)
{
    return pal_json_string_is(pal_json_find(content, "content_type"), type);
}

static pal_json content_of(const pal_transcript_node *node)
{
    return pal_json_find(pal_json_find(node->value, "message"), "content");
}

/* ---- Content ---- */

/* Adds an element of "parts": a text, or an object that stands for an image or a sound. */
static void add_element(pal_transcript *in, pal_json element, pal_message *message)
{
    if (pal_json_type_of(element) == PAL_JSON_STRING)
        pal_transcript_tree_text(message, pal_json_string(element, in->line_arena));
    else if (is_type(element, "image_asset_pointer"))
        pal_transcript_tree_text(message,
                pal_transcript_tree_note(in, "image", text_of(in, element, "asset_pointer")));
    else if (is_type(element, "audio_transcription"))
        pal_transcript_tree_text(message, text_of(in, element, "text"));
    else if (pal_json_type_of(element) == PAL_JSON_OBJECT)
        pal_transcript_tree_text(message,
                pal_transcript_tree_note(in, "content", text_of(in, element, "content_type")));
}

static void add_thoughts(pal_transcript *in, pal_json content, pal_message *message)
{
    pal_json thought, list = pal_json_find(content, "thoughts");
    pal_buf text;
    pal_buf_init(&text, PAL_JSON_BYTES_MAX);
    for (pal_json_iter iter = pal_json_each(list); pal_json_next(&iter, NULL, &thought);) {
        pal_str summary = text_of(in, thought, "summary"), body = text_of(in, thought, "content");
        pal_buf_append_text(&text, text.len ? "\n\n" : "");
        pal_buf_append_str(&text, summary);
        pal_buf_append_text(&text, summary.len && body.len ? "\n" : "");
        pal_buf_append_str(&text, body);
    }
    if (text.failure)
        in->failure = text.failure;
    else
        pal_transcript_tree_reasoning(message, pal_arena_copy(in->line_arena, pal_buf_str(&text)));
    pal_buf_done(&text);
}

/* Members of other types of content that are texts, in the order in which they are shown. */
static void add_members(pal_transcript *in, pal_json content, pal_message *message)
{
    static const char *const names[] = {"title", "url", "text", "result", "user_profile",
            "user_instructions", "model_set_context", NULL};
    size_t before = message->parts_len;
    for (size_t i = 0; names[i]; i++)
        pal_transcript_tree_text(message, text_of(in, content, names[i]));
    if (message->parts_len == before && !is_type(content, "reasoning_recap"))
        pal_transcript_warn(in, "a message of type '%.*s' is left out",
                PAL_EXCERPT(text_of(in, content, "content_type"), 40));
}

static void add_content(pal_transcript *in, pal_json content, pal_message *message)
{
    pal_json element, elements = pal_json_find(content, "parts");
    if (pal_json_type_of(elements) == PAL_JSON_ARRAY) {
        for (pal_json_iter iter = pal_json_each(elements); pal_json_next(&iter, NULL, &element);)
            add_element(in, element, message);
    } else if (is_type(content, "thoughts")) {
        add_thoughts(in, content, message);
    } else if (pal_json_type_of(pal_json_find(content, "text")) == PAL_JSON_STRING &&
            !is_type(content, "tether_quote")) {
        pal_transcript_tree_text(message, text_of(in, content, "text"));
    } else {
        add_members(in, content, message);
    }
}

static void add_attachments(pal_transcript *in, pal_json metadata, pal_message *message)
{
    pal_json file, files = pal_json_find(metadata, "attachments");
    for (pal_json_iter iter = pal_json_each(files); pal_json_next(&iter, NULL, &file);)
        pal_transcript_tree_text(
                message, pal_transcript_tree_note(in, "file", text_of(in, file, "name")));
}

/* ---- Nodes ---- */

/* Returns the tool that the assistant calls with this message; empty: it calls none. */
static pal_str called_tool(pal_transcript *in, const pal_transcript_node *node)
{
    pal_json message = pal_json_find(node->value, "message");
    pal_json role = pal_json_find(pal_json_find(message, "author"), "role");
    pal_str recipient = text_of(in, message, "recipient");
    return pal_json_string_is(role, "assistant") && !pal_str_is(recipient, "all") ? recipient
                                                                                   : (pal_str){0};
}

/* All texts of a message as one. */
static pal_str joined(pal_transcript *in, const pal_message *message)
{
    pal_buf text;
    if (message->parts_len == 1)
        return message->parts[0].text;
    pal_buf_init(&text, PAL_JSON_BYTES_MAX);
    for (size_t i = 0; i < message->parts_len; i++) {
        pal_buf_append_text(&text, i ? "\n\n" : "");
        pal_buf_append_str(&text, message->parts[i].text);
    }
    pal_str copy = pal_arena_copy(in->line_arena, pal_buf_str(&text));
    if (text.failure)
        in->failure = text.failure;
    pal_buf_done(&text);
    return copy;
}

static void make_call(pal_transcript *in, const pal_transcript_node *node, pal_message *message,
        pal_str tool)
{
    pal_str arguments = joined(in, message);
    message->parts_len = 0;
    pal_transcript_tree_call(in, message, node->id, tool, arguments);
}

/* A message of a tool is the result of the call before it. Otherwise it is part of the answer. */
static void make_result(const pal_transcript_tree *tree, const pal_transcript_node *node,
        pal_message *message)
{
    const pal_transcript_node *call = pal_transcript_tree_before(tree, node);
    if (!call || !called_tool(tree->in, call).len || !message->parts_len) {
        message->role = PAL_ROLE_ASSISTANT;
        return;
    }
    pal_part result = {.kind = PAL_PART_TOOL_RESULT,
            .call_id = call->id,
            .text = joined(tree->in, message),
            .is_error = is_type(content_of(node), "system_error")};
    message->parts[0] = result;
    message->parts_len = 1;
}

static void read_message(const pal_transcript_tree *tree, pal_transcript_node *node)
{
    pal_transcript *in = tree->in;
    pal_json given = pal_json_find(node->value, "message");
    pal_json metadata = pal_json_find(given, "metadata"), content = content_of(node);
    pal_role role = pal_role_from_name(text_of(in, pal_json_find(given, "author"), "role"));
    size_t most = pal_json_count(pal_json_find(content, "parts")) +
            pal_json_count(pal_json_find(metadata, "attachments")) + 8;
    if (role == PAL_ROLE_NONE || pal_json_type_of(content) != PAL_JSON_OBJECT)
        return;
    if (is_type(content, "user_editable_context"))
        role = PAL_ROLE_SYSTEM; /* instructions of the user for all conversations */
    pal_message *message = pal_transcript_tree_message(tree, node, role, most);
    if (!message)
        return;
    message->created_at = pal_transcript_tree_time(in, pal_json_find(given, "create_time"));
    if (role == PAL_ROLE_ASSISTANT)
        message->model = text_of(in, metadata, "model_slug");
    add_content(in, content, message);
    if (role == PAL_ROLE_USER)
        add_attachments(in, metadata, message);
    pal_str tool = called_tool(in, node);
    if (tool.len && message->parts_len && !is_type(content, "thoughts"))
        make_call(in, node, message, tool);
    else if (role == PAL_ROLE_TOOL)
        make_result(tree, node, message);
    pal_transcript_tree_end_message(node);
}

/* A tool's message needs the call above it, and nodes can be in any order. */
static void read_messages(const pal_transcript_tree *tree)
{
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < tree->len; i++) {
            pal_json author = pal_json_find(
                    pal_json_find(tree->nodes[i].value, "message"), "author");
            bool is_tool = pal_json_string_is(pal_json_find(author, "role"), "tool");
            if (is_tool == (pass == 1))
                read_message(tree, &tree->nodes[i]);
        }
    }
}

void pal_transcript_chatgpt_read(pal_transcript *in, pal_json line)
{
    pal_json name, node, mapping = pal_json_find(line, "mapping");
    pal_transcript_tree tree = {.in = in,
            .agent = AGENT,
            .id = text_of(in, line, "conversation_id"),
            .title = text_of(in, line, "title"),
            .current = text_of(in, line, "current_node"),
            .created_at = pal_transcript_tree_time(in, pal_json_find(line, "create_time")),
            .updated_at = pal_transcript_tree_time(in, pal_json_find(line, "update_time"))};
    if (!tree.id.len)
        tree.id = text_of(in, line, "id");
    if (!tree.id.len || pal_json_type_of(mapping) != PAL_JSON_OBJECT) {
        pal_transcript_warn(in, "skipped: a conversation has no '%s'",
                tree.id.len ? "mapping" : "conversation_id");
        return;
    }
    for (pal_json_iter iter = pal_json_each(mapping); pal_json_next(&iter, &name, &node);)
        pal_transcript_tree_add(&tree, pal_json_string(name, in->line_arena),
                text_of(in, node, "parent"), node);
    pal_transcript_tree_link(&tree);
    read_messages(&tree);
    pal_transcript_tree_give_out(&tree);
}
