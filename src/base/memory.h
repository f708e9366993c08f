/* memory.h - all heap memory is allocated here, so that tests can count allocations and make the
 * Nth one fail. It also has the arrays that grow, on the heap and in arenas (arena.c). */
#ifndef PAL_BASE_MEMORY_H
#define PAL_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "palaver/arena.h"
#include "palaver/error.h"

/* Returns NULL if it fails. Size 0 gives a pointer that pal_free() accepts. */
void *pal_malloc(size_t size);
void *pal_calloc(size_t count, size_t size); /* NULL also if the product overflows */
void *pal_realloc(void *memory, size_t size);
void pal_free(void *memory); /* accepts NULL */

/* Gives an array room for at least `wanted` elements. `array` points to the pointer to its first
 * element (NULL: no array yet), `cap` to the number of elements that it has room for. The capacity
 * at least doubles, so that appending one element at a time takes linear time. New bytes are not
 * zeroed. Returns false if there is no memory; the array is then unchanged.
 *
 *     if (!pal_reserve(&list->items, &list->cap, list->len + 1, sizeof *list->items))
 *         return pal_no_memory(err); */
bool pal_reserve(void *array, size_t *cap, size_t wanted, size_t element_size);

/* Returns the capacity that an array grows to: at least `wanted`, and at least twice `cap`. */
static inline size_t pal_reserve_cap(size_t cap, size_t wanted)
{
    size_t doubled = cap < 4 ? 8 : cap > SIZE_MAX / 2 ? SIZE_MAX : cap * 2;
    return doubled > wanted ? doubled : wanted;
}

/* Resizes `old`, a piece of the arena's memory (NULL: none), from `old_size` to `new_size` bytes,
 * and returns its new address. It is resized in place if it is the arena's last allocation and
 * fits; if it shrinks there, the arena gets the rest back. New bytes are NOT zeroed. Returns NULL
 * if it fails; the arena keeps the failure, and `old` stays valid. */
void *pal_arena_grow(pal_arena *arena, void *old, size_t old_size, size_t new_size);

/* Gives an array in the arena room for at least `wanted` elements, as pal_reserve() does on the
 * heap. An old piece that has to move stays in the arena until the arena is freed. Returns false
 * if it fails; the arena keeps the failure, and the array is unchanged. */
bool pal_arena_reserve(
        pal_arena *arena, void *array, size_t *cap, size_t wanted, size_t element_size);

/* Returns PAL_OK, or the arena's failure with a message. */
PAL_CHECKED pal_status pal_arena_checked(const pal_arena *arena, pal_error *err);

/* Fills in the error of a failed allocation, and returns PAL_NO_MEMORY. `err` may be NULL. */
static inline pal_status pal_no_memory(pal_error *err)
{
    return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
}

/* For tests: the allocation number `nth` from now, counted from 1, and all later ones fail, until
 * this is called with 0. With `once`, only that one fails. */
void pal_memory_fail_at(uint64_t nth, int once);
/* Returns true if an allocation has failed since the last pal_memory_fail_at(). */
int pal_memory_failed(void);

#endif
