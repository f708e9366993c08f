/* map.h - a hash map from bytes to a pointer. Keys are not copied: they must outlive their entry.
 * The hash has a random seed in each process, so that a sender cannot choose keys that collide. */
#ifndef PAL_BASE_MAP_H
#define PAL_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include "palaver/error.h"
#include "palaver/str.h"

typedef struct pal_map_entry pal_map_entry;

typedef struct pal_map {
    pal_map_entry *entries;
    size_t cap; /* 0 or a power of two */
    size_t len;
} pal_map;

/* A zeroed pal_map is empty as well. */
void pal_map_init(pal_map *map);
void pal_map_done(pal_map *map); /* frees the map, but neither keys nor values */

/* Returns NULL if the key does not exist. */
void *pal_map_find(const pal_map *map, pal_str key);

/* Adds or replaces an entry. After a replacement the map points to the bytes of the new key.
 * `value` must not be NULL. */
PAL_CHECKED pal_status pal_map_set(pal_map *map, pal_str key, void *value);

/* Removes an entry and returns its value, or NULL if the key does not exist. */
void *pal_map_remove(pal_map *map, pal_str key);

/* Iterates over the entries in any order. Start with *position 0. Returns false at the end. The map
 * must not change meanwhile. */
bool pal_map_next(const pal_map *map, size_t *position, pal_str *out_key, void **out_value);

#endif
