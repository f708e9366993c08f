/* config_node.h - a YAML text as a tree that remembers its lines. The only file beside
 * config_node.c that knows of YAML. */
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

/* In the arena; texts are valid UTF-8 and have a NUL behind them. */
typedef struct pal_config_node pal_config_node;
struct pal_config_node {
    pal_config_node_kind kind;
    uint32_t line; /* where it begins; of what is in a map, where its key is */
    bool is_plain; /* a scalar without quotes */
    pal_str key;   /* of what is in a map */
    pal_str text;  /* of a scalar */
    size_t len;    /* of a list or map */
    pal_config_node *first;
    pal_config_node *next; /* its neighbour in the list or map */
};

/* Absent, or written as nothing, "~" or "null". */
bool pal_config_node_is_null(const pal_config_node *node);

/* The member of a map; NULL where there is none, or `map` is none. */
const pal_config_node *pal_config_node_find(const pal_config_node *map, const char *key);

/* The element of a list that is a member of the map; NULL where there is none. */
const pal_config_node *pal_config_list_at(
        const pal_config_node *map, const char *key, size_t index);

/* Reads one document. *out_root is NULL when there is nothing in it. Tags, anchors, aliases and
 * keys that are there twice are refused. */
PAL_CHECKED pal_status pal_config_node_parse(pal_arena *arena, pal_str text, const char *name,
        const pal_config_node **out_root, pal_error *err);

/* Fails with "NAME:LINE: ..."; `line` 0 is left out, and of a long path only the end is shown. */
pal_status pal_config_fail(pal_error *err, pal_status status, const char *name, uint32_t line,
        const char *format, ...) PAL_PRINTF(5, 6);

#endif
