/* arena_grow.h - an array that grows in an arena. For base/ only: for results that are built step
 * by step, such as the tape of json_read.c. */
#ifndef PAL_BASE_ARENA_GROW_H
#define PAL_BASE_ARENA_GROW_H

#include <stddef.h>
#include "palaver/arena.h"

/* Resizes `old`, a piece of the arena's memory (NULL: none), from `old_size` to `new_size` bytes,
 * and returns its new address. It is resized in place if it is the arena's last allocation and
 * fits; if it shrinks there, the arena gets the rest back. New bytes are NOT zeroed. Returns NULL
 * if it fails; the arena keeps the failure, and `old` stays valid. */
void *pal_arena_grow(pal_arena *arena, void *old, size_t old_size, size_t new_size);

#endif
