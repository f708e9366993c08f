/* transcript_open_webui.c - chats of Open WebUI, as in its export: a list of {"id","title","chat",
 * "created_at","updated_at",...}. The chat has "history": {"messages","currentId"}, a map of
 * messages {"id","parentId","role","content","timestamp","model","files"}. Chats of old versions
 * have only a list "messages".
 *
 * Open WebUI writes reasoning into the content, as an HTML element "details". It becomes reasoning,
 * which is not sent to models as text. */
#include <stdio.h>
#include "base/text.h"
#include "dialect/dialect_base64.h"
#include "dialect/dialect_member.h"
#include "dialect/transcript/transcript_tree.h"

#define AGENT "open-webui"
#define REASONING "<details type=\"reasoning\""
#define DETAILS_END "</details>"
#define SUMMARY_END "</summary>"

static pal_str text_of(pal_transcript *in, pal_json object, const char *name)
{
    return pal_member_string(object, name, in->line_arena);
}

/* ---- Reasoning ---- */

/* Returns the position of `what` in the text, or the text's length. */
static size_t find(pal_str text, const char *what)
{
    const char *at = text.len ? memmem(text.data, text.len, what, strlen(what)) : NULL;
    return at ? (size_t)(at - text.data) : text.len;
}

static pal_str part_of(pal_str text, size_t from, size_t to)
{
    return from < to ? pal_str_make(text.data + from, to - from) : (pal_str){0};
}

/* The lines of a quotation without their marks; "&gt;" is '>' in HTML. */
static pal_str unquoted(pal_transcript *in, pal_str text)
{
    static const char *const marks[] = {"&gt; ", "> ", "&gt;", ">"};
    char *out = pal_arena_alloc(in->line_arena, text.len + 1);
    size_t len = 0;
    bool is_start = true;
    for (size_t i = 0; out && i < text.len;) {
        size_t mark = 0;
        for (size_t k = 0; is_start && !mark && k < sizeof marks / sizeof *marks; k++)
            mark = pal_text_begins(part_of(text, i, text.len), marks[k]) ? strlen(marks[k]) : 0;
        i += mark;
        is_start = false;
        if (i < text.len) {
            is_start = text.data[i] == '\n';
            out[len++] = text.data[i++];
        }
    }
    return out ? pal_text_trim(pal_str_make(out, len)) : (pal_str){0};
}

/* Adds the content: texts, and the reasoning between them. */
static void add_content(pal_transcript *in, pal_str content, pal_message *message, size_t parts_max)
{
    while (message->parts_len + 2 < parts_max) {
        size_t begin = find(content, REASONING);
        pal_str rest = part_of(content, begin, content.len);
        size_t end = find(rest, DETAILS_END), head = find(rest, SUMMARY_END);
        if (end == rest.len)
            break;
        pal_transcript_tree_text(message, pal_text_trim(part_of(content, 0, begin)));
        if (head < end)
            pal_transcript_tree_reasoning(message,
                    unquoted(in, part_of(rest, head + strlen(SUMMARY_END), end)));
        content = part_of(rest, end + strlen(DETAILS_END), rest.len);
    }
    pal_transcript_tree_text(
            message, message->parts_len ? pal_text_trim(content) : content);
}

/* ---- Messages ---- */

static void add_file(pal_transcript *in, pal_json file, pal_message *message)
{
    pal_str url = text_of(in, file, "url"), name = text_of(in, file, "name"), media_type, data;
    bool is_image = pal_json_string_is(pal_json_find(file, "type"), "image");
    if (is_image && pal_base64_decode_url(url, in->line_arena, &media_type, &data))
        message->parts[message->parts_len++] =
                (pal_part){.kind = PAL_PART_IMAGE, .media_type = media_type, .data = data};
    else
        pal_transcript_tree_text(message,
                pal_transcript_tree_note(in, is_image ? "image" : "file", name.len ? name : url));
}

static void read_message(const pal_transcript_tree *tree, pal_transcript_node *node)
{
    pal_transcript *in = tree->in;
    pal_json file, given = node->value, files = pal_json_find(given, "files");
    pal_role role = pal_role_from_name(text_of(in, given, "role"));
    pal_str content = text_of(in, given, "content");
    size_t most = pal_json_count(files) + 16;
    if (role == PAL_ROLE_NONE || role == PAL_ROLE_TOOL) {
        pal_transcript_warn(in, "skipped: a message has an unknown role");
        return;
    }
    pal_message *message = pal_transcript_tree_message(tree, node, role, most);
    if (!message)
        return;
    message->created_at = pal_transcript_tree_time(in, pal_json_find(given, "timestamp"));
    if (role == PAL_ROLE_ASSISTANT)
        message->model = text_of(in, given, "model");
    if (role == PAL_ROLE_ASSISTANT)
        add_content(in, content, message, 16);
    else
        pal_transcript_tree_text(message, content);
    for (pal_json_iter iter = pal_json_each(files); pal_json_next(&iter, NULL, &file);)
        add_file(in, file, message);
    pal_transcript_tree_end_message(node);
}

static void add_list(pal_transcript_tree *tree, pal_json list)
{
    pal_json message;
    pal_str before = {0};
    for (pal_json_iter iter = pal_json_each(list); pal_json_next(&iter, NULL, &message);) {
        pal_str id = text_of(tree->in, message, "id");
        if (!id.len)
            id = pal_transcript_number_id(tree->in->line_arena, "message", tree->len + 1);
        pal_transcript_tree_add(tree, id, before, message);
        before = id;
    }
}

static void add_map(pal_transcript_tree *tree, pal_json map)
{
    pal_json name, message;
    for (pal_json_iter iter = pal_json_each(map); pal_json_next(&iter, &name, &message);)
        pal_transcript_tree_add(tree, pal_json_string(name, tree->in->line_arena),
                text_of(tree->in, message, "parentId"), message);
}

void pal_transcript_open_webui_read(pal_transcript *in, pal_json line)
{
    pal_json chat = pal_json_find(line, "chat"), history = pal_json_find(chat, "history"),
             map = pal_json_find(history, "messages");
    pal_transcript_tree tree = {.in = in,
            .agent = AGENT,
            .id = text_of(in, line, "id"),
            .title = text_of(in, line, "title"),
            .current = text_of(in, history, "currentId"),
            .created_at = pal_transcript_tree_time(in, pal_json_find(line, "created_at")),
            .updated_at = pal_transcript_tree_time(in, pal_json_find(line, "updated_at"))};
    if (!tree.title.len)
        tree.title = text_of(in, chat, "title");
    if (!tree.id.len)
        tree.id = text_of(in, chat, "id");
    if (!tree.id.len) {
        pal_transcript_warn(in, "skipped: a chat has no 'id'");
        return;
    }
    if (pal_json_count(map))
        add_map(&tree, map);
    else
        add_list(&tree, pal_json_find(chat, "messages"));
    pal_transcript_tree_link(&tree);
    for (size_t i = 0; i < tree.len; i++)
        read_message(&tree, &tree.nodes[i]);
    pal_transcript_tree_give_out(&tree);
}
