/* memory.h - all heap memory is allocated here, so that tests can count allocations and make the
 * Nth one fail. */
#ifndef PAL_BASE_MEMORY_H
#define PAL_BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include "palaver/error.h"

/* Returns NULL if it fails. Size 0 gives a pointer that pal_free() accepts. */
void *pal_malloc(size_t size);
void *pal_calloc(size_t count, size_t size); /* NULL also if the product overflows */
void *pal_realloc(void *memory, size_t size);
void pal_free(void *memory); /* accepts NULL */

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
