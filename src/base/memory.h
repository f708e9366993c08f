/* memory.h - the only door to the heap. Tests count allocations here and make the Nth fail. */
#ifndef PAL_BASE_MEMORY_H
#define PAL_BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* NULL on failure. Size 0 gives a pointer that pal_free() takes. */
void *pal_malloc(size_t size);
void *pal_calloc(size_t count, size_t size); /* also NULL when the product overflows */
void *pal_realloc(void *memory, size_t size);
void pal_free(void *memory); /* accepts NULL */

/* For tests: the allocation number `nth` from now (from 1) and all after it fail until the
 * countdown is cleared with 0; with `once`, only that one. */
void pal_memory_fail_at(uint64_t nth, int once);
/* Whether the countdown has fired since it was set. */
int pal_memory_failed(void);

#endif
