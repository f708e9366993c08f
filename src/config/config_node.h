/* config_node.h - a YAML text as a tree with line numbers. Only this file and config_node.c know
 * YAML. */
#ifndef PAL_CONFIG_NODE_H
#define PAL_CONFIG_NODE_H

#include <stdint.h>
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/str.h"

typedef enum pal_config_node_kind {
    PAL_CONFIG_NODE_SCALAR = 1,
    PAL_CONFIG_NODE_LIST = 2,
    PAL_CONFIG_NODE_MAP = 3,
} pal_config_node_kind;

/* A node, in the arena. Texts are valid UTF-8 and terminated with a NUL. */
typedef struct pal_config_node pal_config_node;
struct pal_config_node {
    pal_config_node_kind kind;
    uint32_t line; /* line where it begins; for a member of a map, the line of its key */
    bool is_plain; /* a scalar without quotes */
    pal_str key;   /* key of a member of a map */
    pal_str text;  /* text of a scalar */
    size_t len;    /* length of a list or map */
    pal_config_node *first;
    pal_config_node *next; /* next node in the list or map */
};

/* Returns true if the node is absent, empty, "~" or "null". */
bool pal_config_node_is_null(const pal_config_node *node);

/* Returns the member of a map. NULL if there is none, or if `map` is not a map. */
const pal_config_node *pal_config_node_find(const pal_config_node *map, const char *key);

/* Returns an element of a list that is a member of the map. NULL if there is none. */
const pal_config_node *pal_config_list_at(
        const pal_config_node *map, const char *key, size_t index);

/* Reads one document. *out_root is NULL if it is empty. Tags, anchors, aliases and duplicate keys
 * are rejected. */
PAL_CHECKED pal_status pal_config_node_parse(pal_arena *arena, pal_str text, const char *name,
        const pal_config_node **out_root, pal_error *err);

/* Sets an error "NAME:LINE: ..." and returns `status`. `line` 0 is left out. Only the end of a long
 * path is shown. */
pal_status pal_config_fail(pal_error *err, pal_status status, const char *name, uint32_t line,
        const char *format, ...) PAL_PRINTF(5, 6);

#endif
