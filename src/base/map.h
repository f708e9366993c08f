/* map.h - a hash map from bytes to a pointer. Keys are borrowed: they must outlive their entry.
 * Hashing is seeded per process, so that no sender can choose keys that collide. */
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

/* A zeroed pal_map is an empty one too. */
void pal_map_init(pal_map *map);
void pal_map_done(pal_map *map); /* keys and values are the caller's */

/* NULL where it is absent. */
void *pal_map_find(const pal_map *map, pal_str key);

/* Adds or replaces (then the new key's bytes are the ones borrowed). `value` is not NULL. */
PAL_CHECKED pal_status pal_map_set(pal_map *map, pal_str key, void *value);

/* The removed value, or NULL. */
void *pal_map_remove(pal_map *map, pal_str key);

/* Walks in no order: start with *position 0; false at the end. The map must not change. */
bool pal_map_next(const pal_map *map, size_t *position, pal_str *out_key, void **out_value);

#endif
