/* transcript_tree.h - conversations that are trees: every edit of a question and every second
 * answer begins a branch. For the transcript_*.c files only.
 *
 * The reader of a format adds all nodes of one conversation, links them, gives them messages, and
 * returns the tree. The branch that the other program shows becomes a session, "AGENT:ID". Each
 * other branch becomes a fork, "AGENT:ID:NODE", where NODE is its first own node. All values are in
 * the arena of the line. */
#ifndef PAL_TRANSCRIPT_TREE_H
#define PAL_TRANSCRIPT_TREE_H

#include "dialect/transcript/transcript_reader.h"

typedef struct pal_transcript_node {
    pal_str id;
    pal_str parent;
    pal_json value;        /* the node as it was read */
    pal_message *messages; /* with client ids; none: the node has no content */
    size_t messages_len;
    size_t up;     /* number of the parent, from 1; 0: none */
    size_t branch; /* number of the first branch that has the node, from 1; 0: none yet */
    size_t visit;  /* used while the tree is linked */
    bool is_parent;
} pal_transcript_node;

typedef struct pal_transcript_tree {
    pal_transcript *in;
    const char *agent; /* names the program */
    pal_str id;
    pal_str title;
    pal_str current; /* id of the last node that the program shows; empty: of the newest node */
    int64_t created_at, updated_at;
    pal_transcript_node *nodes;
    size_t len, cap;
    /* Private: the names of the branches so far. */
    pal_str *names;
    size_t names_len;
} pal_transcript_tree;

/* Adds a node. */
void pal_transcript_tree_add(
        pal_transcript_tree *tree, pal_str id, pal_str parent, pal_json value);
/* Connects all nodes with their parents. A parent that does not exist, or is below its own child,
 * counts as none. */
void pal_transcript_tree_link(pal_transcript_tree *tree);
/* Returns the nearest node above that has messages; NULL: there is none. */
pal_transcript_node *pal_transcript_tree_before(
        const pal_transcript_tree *tree, const pal_transcript_node *node);
/* Gives out all branches. */
void pal_transcript_tree_give_out(pal_transcript_tree *tree);

/* ---- Messages of a node ---- */

/* Adds a message without parts, and returns it. Its client id is "AGENT:NODE", or "AGENT:NODE#N"
 * for the Nth message of the node. NULL: there is no memory. `parts_max` is the number of parts
 * that can be added. */
pal_message *pal_transcript_tree_message(const pal_transcript_tree *tree,
        pal_transcript_node *node, pal_role role, size_t parts_max);
/* Adds a part. Empty texts are left out. */
void pal_transcript_tree_text(pal_message *message, pal_str text);
void pal_transcript_tree_reasoning(pal_message *message, pal_str text);
/* `arguments` that are not a JSON object become {"input": ...}. */
void pal_transcript_tree_call(pal_transcript *in, pal_message *message, pal_str call_id,
        pal_str name, pal_str arguments);
/* Removes the newest message of the node if it has no parts. */
void pal_transcript_tree_end_message(pal_transcript_node *node);
/* Returns "[WHAT: NAME]", for something whose content is not part of the file. */
pal_str pal_transcript_tree_note(pal_transcript *in, const char *what, pal_str name);

/* Reads a time as text, or as a number of seconds, milliseconds, microseconds or nanoseconds since
 * 1970. 0: it is none of these. */
int64_t pal_transcript_tree_time(pal_transcript *in, pal_json value);

/* ---- The formats ---- */

void pal_transcript_chatgpt_read(pal_transcript *in, pal_json line);
void pal_transcript_claude_ai_read(pal_transcript *in, pal_json line);
void pal_transcript_open_webui_read(pal_transcript *in, pal_json line);
void pal_transcript_librechat_read(pal_transcript *in, pal_json line);

#endif
