/* memory.c - the only file that calls the C library's allocator.
 *
 * The countdown for tests is a flag; if it is off, it costs one relaxed load. Its state is atomic,
 * so threads can allocate while a test sets it. The allocator itself is not atomic, because it is
 * set before the library has any threads. */
#include "base/memory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "palaver/alloc.h"

static pal_allocator custom; /* alloc is NULL while the C library's allocator is in use */

static atomic_bool fail_armed;
static atomic_bool fail_once;
static atomic_bool fail_fired;
static atomic_int_least64_t fail_left; /* number of allocations until one fails, including the
                                          failing one */

void pal_allocator_set(const pal_allocator *allocator)
{
    if (allocator)
        custom = *allocator;
    else
        memset(&custom, 0, sizeof custom);
}

void pal_memory_fail_at(uint64_t nth, int once)
{
    atomic_store(&fail_armed, false);
    atomic_store(&fail_left, nth > INT64_MAX ? INT64_MAX : (int64_t)nth);
    atomic_store(&fail_once, once != 0);
    atomic_store(&fail_fired, false);
    atomic_store(&fail_armed, nth != 0);
}

int pal_memory_failed(void)
{
    return atomic_load(&fail_fired);
}

static bool count_down(void)
{
    int64_t left = atomic_fetch_sub(&fail_left, 1);
    bool fails = left == 1 || (left < 1 && !atomic_load(&fail_once));
    if (fails)
        atomic_store(&fail_fired, true);
    return fails;
}

static inline bool must_fail(void)
{
    return atomic_load_explicit(&fail_armed, memory_order_relaxed) && count_down();
}

void *pal_malloc(size_t size)
{
    if (must_fail())
        return NULL;
    size += size == 0;
    return custom.alloc ? custom.alloc(size, custom.user) : malloc(size);
}

void *pal_calloc(size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total) || must_fail())
        return NULL;
    total += total == 0;
    if (!custom.alloc)
        return calloc(1, total);
    void *memory = custom.alloc(total, custom.user);
    if (memory)
        memset(memory, 0, total);
    return memory;
}

void *pal_realloc(void *memory, size_t size)
{
    if (must_fail())
        return NULL;
    size += size == 0;
    return custom.alloc ? custom.resize(memory, size, custom.user) : realloc(memory, size);
}

void pal_free(void *memory)
{
    if (!memory)
        return;
    if (custom.alloc)
        custom.release(memory, custom.user);
    else
        free(memory);
}

bool pal_reserve(void *array, size_t *cap, size_t wanted, size_t element_size)
{
    if (wanted <= *cap)
        return true;
    size_t grown = pal_reserve_cap(*cap, wanted), size;
    if (__builtin_mul_overflow(grown, element_size, &size))
        return false;
    /* Copied, because a pointer to any type of pointer must not be read as a void pointer. */
    void *memory;
    memcpy(&memory, array, sizeof memory);
    memory = pal_realloc(memory, size);
    if (!memory)
        return false;
    memcpy(array, &memory, sizeof memory);
    *cap = grown;
    return true;
}
