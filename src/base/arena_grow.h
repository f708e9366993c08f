/* arena_grow.h - an array that grows in an arena. Only for base/: results that are built piece by
 * piece, such as the tape of json_read.c. */
#ifndef PAL_BASE_ARENA_GROW_H
#define PAL_BASE_ARENA_GROW_H

#include <stddef.h>
#include "palaver/arena.h"

/* Makes the arena's memory `old` (NULL for none) of `old_size` bytes `new_size` long, and returns
 * where it is now. In place where it was the arena's last allocation and fits, so that shrinking
 * it gives the rest back. New bytes are NOT zeroed. NULL on failure, which sticks; `old` stays
 * valid. */
void *pal_arena_grow(pal_arena *arena, void *old, size_t old_size, size_t new_size);

#endif
