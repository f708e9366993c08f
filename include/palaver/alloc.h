/* alloc.h - where the library's memory comes from. */
#ifndef PALAVER_ALLOC_H
#define PALAVER_ALLOC_H

#include <stddef.h>
#include "palaver/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An embedding program's own allocator. The three functions behave as malloc, realloc and free do,
 * and are called from several threads at once. */
typedef struct pal_allocator {
    void *(*alloc)(size_t size, void *user);
    void *(*resize)(void *memory, size_t size, void *user);
    void (*release)(void *memory, void *user);
    void *user;
} pal_allocator;

/* Call once, before anything else of the library; NULL restores the C library's allocator.
 * SQLite keeps its own memory: see sqlite3_config(). */
PAL_API void pal_allocator_set(const pal_allocator *allocator);

#ifdef __cplusplus
}
#endif
#endif
