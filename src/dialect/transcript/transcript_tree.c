/* transcript_tree.c - turns the tree of a conversation into sessions: one for the branch that the
 * program shows, and a fork for each other leaf. A fork gives out the shared messages too, so that
 * it is complete if its parent is not in the store. */
#include "dialect/transcript/transcript_tree.h"

#include <stdio.h>
#include "base/clock.h"
#include "base/json/json_put.h"
#include "base/text.h"
#include "dialect/dialect_member.h"

#define NAME_LEN_MAX 64 /* of a tool */

/* ---- Nodes ---- */

void pal_transcript_tree_add(
        pal_transcript_tree *tree, pal_str id, pal_str parent, pal_json value)
{
    if (!pal_arena_reserve(tree->in->line_arena, &tree->nodes, &tree->cap, tree->len + 1,
                sizeof *tree->nodes))
        return; /* the caller checks the arena */
    tree->nodes[tree->len++] =
            (pal_transcript_node){.id = id, .parent = parent, .value = value};
}

static pal_transcript_node *above(
        const pal_transcript_tree *tree, const pal_transcript_node *node)
{
    return node->up ? &tree->nodes[node->up - 1] : NULL;
}

/* Cuts circles: no node is its own ancestor. Each node is visited once. */
static void cut_circles(const pal_transcript_tree *tree)
{
    for (size_t i = 0; i < tree->len; i++) {
        pal_transcript_node *node = &tree->nodes[i], *next;
        while (node && !node->visit) {
            node->visit = i + 1;
            next = above(tree, node);
            if (next && next->visit == i + 1) {
                node->up = 0;
                next = NULL;
            }
            node = next;
        }
    }
}

static pal_str numbered(pal_transcript *in, pal_str id, size_t number)
{
    char text[24];
    snprintf(text, sizeof text, "~%zu", number);
    return pal_transcript_suffix(in->line_arena, id, text);
}

void pal_transcript_tree_link(pal_transcript_tree *tree)
{
    pal_map places;
    pal_map_init(&places);
    for (size_t i = 0; i < tree->len; i++) {
        pal_transcript_node *node = &tree->nodes[i];
        bool is_first = node->id.len && !pal_map_find(&places, node->id);
        /* A message is found again by its id, so two nodes must not have the same. */
        if (!is_first)
            node->id = numbered(tree->in, node->id, i + 1);
        else if (pal_map_set(&places, node->id, node) != PAL_OK)
            tree->in->failure = PAL_NO_MEMORY;
    }
    for (size_t i = 0; i < tree->len; i++) {
        pal_str parent = tree->nodes[i].parent;
        const pal_transcript_node *node = parent.len ? pal_map_find(&places, parent) : NULL;
        tree->nodes[i].up = node ? (size_t)(node - tree->nodes) + 1 : 0;
    }
    pal_map_done(&places);
    cut_circles(tree);
    for (size_t i = 0; i < tree->len; i++) {
        if (tree->nodes[i].up)
            above(tree, &tree->nodes[i])->is_parent = true;
    }
}

pal_transcript_node *pal_transcript_tree_before(
        const pal_transcript_tree *tree, const pal_transcript_node *node)
{
    pal_transcript_node *before = above(tree, node);
    while (before && before->messages_len == 0)
        before = above(tree, before);
    return before;
}

/* ---- Branches ---- */

static pal_str join(pal_transcript *in, pal_str a, pal_str b)
{
    pal_buf text;
    pal_buf_init(&text, PAL_JSON_BYTES_MAX);
    pal_buf_append_str(&text, a);
    pal_buf_append_char(&text, ':');
    pal_buf_append_str(&text, b);
    pal_str copy = text.failure ? (pal_str){0} : pal_arena_copy(in->line_arena, pal_buf_str(&text));
    if (text.failure)
        in->failure = text.failure;
    pal_buf_done(&text);
    return copy;
}

/* `fork` is the node that the branch continues from; NULL: none. `first` is its first own node. */
static void begin_session(const pal_transcript_tree *tree, pal_str name,
        const pal_transcript_node *fork, const pal_transcript_node *first)
{
    pal_transcript *in = tree->in;
    pal_transcript_facts *facts = &in->facts;
    pal_transcript_start_session(in);
    pal_transcript_learn(in, &facts->original_id, name);
    pal_transcript_learn(in, &facts->session.title, tree->title);
    facts->session.created_at = tree->created_at;
    facts->is_branch = true;
    if (fork) {
        const pal_message *last = &fork->messages[fork->messages_len - 1];
        pal_transcript_learn(in, &facts->parent_key,
                join(in, pal_str_of(tree->agent), tree->names[fork->branch - 1]));
        pal_transcript_learn(in, &facts->parent_message, last->client_id);
    }
    if (tree->names_len > 1 && first->messages_len && first->messages[0].created_at)
        facts->session.created_at = first->messages[0].created_at;
    else if (tree->names_len == 1)
        facts->session.updated_at = tree->updated_at;
    pal_transcript_settle_facts(in, tree->agent);
    pal_transcript_tell_session(in);
}

static void give_out_path(const pal_transcript_tree *tree, const size_t *path, size_t len)
{
    for (size_t i = len; i > 0; i--) {
        const pal_transcript_node *node = &tree->nodes[path[i - 1]];
        for (size_t k = 0; k < node->messages_len; k++)
            pal_transcript_emit(tree->in, &node->messages[k]);
    }
}

/* Gives out the branch that ends at `leaf`, if it has messages that no branch before has. */
static void give_out_branch(pal_transcript_tree *tree, pal_transcript_node *leaf, size_t *path)
{
    pal_transcript_node *first = NULL, *fork = NULL;
    size_t len = 0, own = 0;
    for (pal_transcript_node *node = leaf; node; node = above(tree, node)) {
        path[len++] = (size_t)(node - tree->nodes);
        if (node->branch && node->messages_len && !fork)
            fork = node;
        if (node->branch || node->messages_len == 0)
            continue;
        first = node;
        own += node->messages_len;
    }
    if (own == 0)
        return;
    tree->names[tree->names_len] =
            tree->names_len ? join(tree->in, tree->id, first->id) : tree->id;
    tree->names_len++;
    begin_session(tree, tree->names[tree->names_len - 1], fork, first);
    give_out_path(tree, path, len);
    for (size_t i = 0; i < len; i++) {
        if (!tree->nodes[path[i]].branch)
            tree->nodes[path[i]].branch = tree->names_len;
    }
}

static int64_t time_of(const pal_transcript_node *node)
{
    return node->messages_len ? node->messages[node->messages_len - 1].created_at : 0;
}

/* The branch that the program shows ends here. */
static pal_transcript_node *shown_leaf(const pal_transcript_tree *tree)
{
    pal_transcript_node *newest = NULL;
    for (size_t i = 0; i < tree->len; i++) {
        pal_transcript_node *node = &tree->nodes[i];
        if (tree->current.len && pal_str_equal(node->id, tree->current))
            return node;
        if (!node->is_parent && (!newest || time_of(node) >= time_of(newest)))
            newest = node;
    }
    return newest;
}

void pal_transcript_tree_give_out(pal_transcript_tree *tree)
{
    pal_transcript *in = tree->in;
    size_t *path = pal_arena_array(in->line_arena, tree->len + 1, sizeof *path);
    tree->names = pal_arena_array(in->line_arena, tree->len + 1, sizeof *tree->names);
    if (!path || !tree->names)
        return; /* the caller checks the arena */
    pal_transcript_node *shown = shown_leaf(tree);
    if (shown)
        give_out_branch(tree, shown, path);
    for (size_t i = 0; i < tree->len; i++) {
        if (!tree->nodes[i].is_parent)
            give_out_branch(tree, &tree->nodes[i], path);
    }
    if (tree->names_len == 0)
        pal_transcript_warn(in, "skipped: conversation '%.*s' has no messages",
                PAL_EXCERPT(tree->id, 80));
}

/* ---- Messages of a node ---- */

pal_message *pal_transcript_tree_message(const pal_transcript_tree *tree,
        pal_transcript_node *node, pal_role role, size_t parts_max)
{
    pal_transcript *in = tree->in;
    size_t len = node->messages_len + 1;
    char number[24] = "";
    pal_message *messages = pal_arena_array(in->line_arena, len, sizeof *messages);
    pal_part *parts = pal_arena_array(in->line_arena, parts_max + 1, sizeof *parts);
    if (!messages || !parts)
        return NULL; /* the caller checks the arena */
    if (node->messages_len)
        memcpy(messages, node->messages, node->messages_len * sizeof *messages);
    if (len > 1)
        snprintf(number, sizeof number, "#%zu", len);
    messages[len - 1] = (pal_message){.role = role,
            .parts = parts,
            .client_id = pal_transcript_suffix(
                    in->line_arena, join(in, pal_str_of(tree->agent), node->id), number)};
    node->messages = messages;
    node->messages_len = len;
    return &messages[len - 1];
}

void pal_transcript_tree_text(pal_message *message, pal_str text)
{
    if (text.len)
        message->parts[message->parts_len++] = (pal_part){.kind = PAL_PART_TEXT, .text = text};
}

void pal_transcript_tree_reasoning(pal_message *message, pal_str text)
{
    if (text.len)
        message->parts[message->parts_len++] =
                (pal_part){.kind = PAL_PART_REASONING, .text = text};
}

/* Services accept only letters, digits, '_' and '-'. */
static pal_str tool_name(pal_transcript *in, pal_str name)
{
    size_t len = name.len < NAME_LEN_MAX ? name.len : NAME_LEN_MAX;
    char *text = pal_arena_alloc(in->line_arena, len + 1);
    for (size_t i = 0; text && i < len; i++) {
        char c = name.data[i];
        bool is_safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                c == '_' || c == '-';
        text[i] = is_safe ? c : '_';
    }
    return text && len ? pal_str_make(text, len) : pal_str_of("tool");
}

static pal_str arguments_of(pal_transcript *in, pal_str text)
{
    pal_json value;
    if (pal_json_parse(in->line_arena, text, NULL, &value, NULL) == PAL_OK &&
            pal_json_type_of(value) == PAL_JSON_OBJECT)
        return text;
    pal_buf buf;
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_str(&writer, "input", text);
    pal_json_end_object(&writer);
    pal_str copy = buf.failure ? (pal_str){0} : pal_arena_copy(in->line_arena, pal_buf_str(&buf));
    if (buf.failure)
        in->failure = buf.failure;
    pal_buf_done(&buf);
    return copy;
}

void pal_transcript_tree_call(pal_transcript *in, pal_message *message, pal_str call_id,
        pal_str name, pal_str arguments)
{
    message->parts[message->parts_len++] = (pal_part){.kind = PAL_PART_TOOL_CALL,
            .call_id = call_id,
            .name = tool_name(in, name),
            .arguments = arguments_of(in, arguments)};
}

void pal_transcript_tree_end_message(pal_transcript_node *node)
{
    if (node->messages_len && node->messages[node->messages_len - 1].parts_len == 0)
        node->messages_len--;
}

pal_str pal_transcript_tree_note(pal_transcript *in, const char *what, pal_str name)
{
    pal_buf text;
    pal_buf_init(&text, PAL_JSON_BYTES_MAX);
    pal_buf_format(&text, "[%s", what);
    if (name.len) {
        pal_buf_append_text(&text, ": ");
        pal_buf_append_str(&text, name);
    }
    pal_buf_append_char(&text, ']');
    pal_str copy = text.failure ? (pal_str){0} : pal_arena_copy(in->line_arena, pal_buf_str(&text));
    if (text.failure)
        in->failure = text.failure;
    pal_buf_done(&text);
    return copy;
}

int64_t pal_transcript_tree_time(pal_transcript *in, pal_json value)
{
    double number;
    int64_t ms = 0;
    if (pal_json_type_of(value) == PAL_JSON_STRING)
        return pal_time_from_text(pal_json_string(value, in->line_arena), &ms) ? ms : 0;
    if (!pal_json_f64(value, &number) || !(number > 0 && number < 4e18))
        return 0;
    if (number < 1e11)
        number *= 1000;
    while (number >= 1e14)
        number /= 1000;
    return (int64_t)(number + 0.5);
}
