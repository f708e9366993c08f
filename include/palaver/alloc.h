/* alloc.h - replaces the library's memory allocator. */
#ifndef PALAVER_ALLOC_H
#define PALAVER_ALLOC_H

#include <stddef.h>
#include "palaver/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An allocator of the embedding program. The three functions behave like malloc, realloc and free.
 * Several threads can call them at the same time. */
typedef struct pal_allocator {
    void *(*alloc)(size_t size, void *user);
    void *(*resize)(void *memory, size_t size, void *user);
    void (*release)(void *memory, void *user);
    void *user;
    PAL_RESERVED(4);
} pal_allocator;

/* Sets the allocator; NULL restores that of the C library. The struct is copied. Call this once,
 * before any other function of the library. SQLite has its own allocator: see sqlite3_config(). */
PAL_API void pal_allocator_set(const pal_allocator *allocator);

#ifdef __cplusplus
}
#endif
#endif
