/* arena.c - blocks that are filled from their start and freed together.
 *
 * The arena is at the start of its first block, so a new arena is one allocation. Blocks double in
 * size up to BLOCK_SIZE_MAX. An allocation that needs more than a quarter of the next block gets a
 * separate block, and the current block stays in use. Blocks form a list, the newest first; a
 * separate pointer marks the current one. An arena is used by one thread at a time. */
#include "palaver/arena.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>
#include "base/memory.h"

#define ALIGNMENT 16
#define FIRST_BLOCK_SIZE 2048
#define BLOCK_SIZE_MAX ((size_t)256 * 1024)

typedef struct block {
    _Alignas(ALIGNMENT) struct block *older; /* the alignment holds for the bytes after the struct
                                                too */
} block;

struct pal_arena {
    block *newest;
    char *next; /* start of the free bytes in the current block */
    char *end;
    size_t block_size; /* size of the next ordinary block */
    size_t bytes;      /* bytes allocated so far, including alignment */
    size_t bytes_max;
    block *large; /* the newest block if it holds a single large allocation; otherwise NULL */
    pal_status failure;
};

#define HEADER_SIZE ((sizeof(pal_arena) + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1))

_Static_assert(_Alignof(max_align_t) <= ALIGNMENT, "aligned for any type");

static size_t aligned(size_t size)
{
    return (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

pal_arena *pal_arena_new(size_t bytes_max)
{
    pal_arena *arena = pal_malloc(FIRST_BLOCK_SIZE);
    if (!arena)
        return NULL;
    memset(arena, 0, sizeof *arena);
    arena->bytes_max = bytes_max ? bytes_max : SIZE_MAX;
    pal_arena_reset(arena);
    return arena;
}

static void free_blocks(pal_arena *arena)
{
    while (arena->newest) {
        block *older = arena->newest->older;
        pal_free(arena->newest);
        arena->newest = older;
    }
}

void pal_arena_free(pal_arena *arena)
{
    if (!arena)
        return;
    free_blocks(arena);
    pal_free(arena);
}

void pal_arena_reset(pal_arena *arena)
{
    free_blocks(arena);
    arena->next = (char *)arena + HEADER_SIZE;
    arena->end = (char *)arena + FIRST_BLOCK_SIZE;
    arena->block_size = 2 * FIRST_BLOCK_SIZE;
    arena->bytes = 0;
    arena->large = NULL;
    arena->failure = PAL_OK;
}

pal_status pal_arena_failure(const pal_arena *arena)
{
    return arena->failure;
}

pal_status pal_arena_checked(const pal_arena *arena, pal_error *err)
{
    pal_status status = pal_arena_failure(arena);
    if (status == PAL_OK)
        return PAL_OK;
    return pal_error_set(
            err, status, status == PAL_LIMIT ? "the arena's limit was reached" : "out of memory");
}

static void *fail(pal_arena *arena, pal_status status)
{
    arena->failure = status;
    return NULL;
}

static block *add_block(pal_arena *arena, size_t size)
{
    block *added = pal_malloc(sizeof *added + size);
    if (!added)
        return fail(arena, PAL_NO_MEMORY);
    added->older = arena->newest;
    arena->newest = added;
    return added;
}

/* `size` must be aligned, within the limit, and larger than the rest of the current block. */
static void *take_from_new_block(pal_arena *arena, size_t size)
{
    bool is_large = size > arena->block_size / 4;
    block *added = add_block(arena, is_large ? size : arena->block_size);
    if (!added)
        return NULL;
    arena->bytes += size;
    arena->large = is_large ? added : NULL;
    if (is_large)
        return added + 1;

    arena->next = (char *)(added + 1) + size;
    arena->end = (char *)(added + 1) + arena->block_size;
    if (arena->block_size < BLOCK_SIZE_MAX)
        arena->block_size *= 2;
    return added + 1;
}

/* The returned bytes are not zeroed. */
static inline void *take(pal_arena *arena, size_t wanted)
{
    if (arena->failure)
        return NULL;
    if (wanted > arena->bytes_max)
        return fail(arena, PAL_LIMIT);
    if (wanted > SIZE_MAX / 2)
        return fail(arena, PAL_NO_MEMORY);
    size_t size = aligned(wanted + (wanted == 0));
    if (size > arena->bytes_max - arena->bytes)
        return fail(arena, PAL_LIMIT);
    if (size > (size_t)(arena->end - arena->next))
        return take_from_new_block(arena, size);

    void *memory = arena->next;
    arena->next += size;
    arena->bytes += size;
    return memory;
}

void *pal_arena_alloc(pal_arena *arena, size_t size)
{
    void *memory = take(arena, size);
    if (memory)
        memset(memory, 0, size);
    return memory;
}

void *pal_arena_array(pal_arena *arena, size_t count, size_t element_size)
{
    size_t size;
    if (__builtin_mul_overflow(count, element_size, &size))
        return arena->failure ? NULL : fail(arena, PAL_NO_MEMORY);
    return pal_arena_alloc(arena, size);
}

pal_str pal_arena_copy(pal_arena *arena, pal_str text)
{
    /* Copies of structs are full of empty texts, and each would take ALIGNMENT bytes. */
    if (text.len == 0 && !arena->failure)
        return pal_str_of("");
    char *copy = text.len < SIZE_MAX ? take(arena, text.len + 1) : fail(arena, PAL_NO_MEMORY);
    if (!copy)
        return pal_str_make(NULL, 0);
    if (text.len)
        memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    return pal_str_make(copy, text.len);
}

static void *resize_large(pal_arena *arena, size_t old_size, size_t new_size)
{
    assert(arena->large == arena->newest);
    /* Copying to save less than half of the bytes costs more than it gains. */
    if (new_size <= old_size && new_size > old_size / 2)
        return arena->large + 1;
    block *resized = pal_realloc(arena->large, sizeof *resized + new_size);
    if (!resized)
        return new_size < old_size ? (void *)(arena->large + 1) : fail(arena, PAL_NO_MEMORY);
    arena->newest = resized;
    arena->large = resized;
    arena->bytes = arena->bytes - old_size + new_size;
    return resized + 1;
}

void *pal_arena_grow(pal_arena *arena, void *old, size_t old_size, size_t new_size)
{
    if (arena->failure)
        return NULL;
    if (!old)
        return take(arena, new_size);
    if (new_size > SIZE_MAX / 2)
        return fail(arena, PAL_NO_MEMORY);

    size_t from = aligned(old_size + (old_size == 0)), to = aligned(new_size + (new_size == 0));
    if (to > from && to - from > arena->bytes_max - arena->bytes)
        return fail(arena, PAL_LIMIT);
    if (arena->large && old == arena->large + 1)
        return resize_large(arena, from, to);
    bool is_last = (char *)old + from == arena->next;
    if (is_last && to <= (size_t)(arena->end - (char *)old)) {
        arena->next = (char *)old + to;
        arena->bytes = arena->bytes - from + to;
        return old;
    }
    if (to <= from)
        return old;
    void *moved = take(arena, new_size);
    if (moved)
        memcpy(moved, old, old_size);
    return moved;
}

bool pal_arena_reserve(
        pal_arena *arena, void *array, size_t *cap, size_t wanted, size_t element_size)
{
    if (wanted <= *cap)
        return true;
    size_t grown = pal_reserve_cap(*cap, wanted), size;
    if (__builtin_mul_overflow(grown, element_size, &size)) {
        if (!arena->failure)
            fail(arena, PAL_NO_MEMORY);
        return false;
    }
    void *memory;
    memcpy(&memory, array, sizeof memory);
    memory = pal_arena_grow(arena, memory, *cap * element_size, size);
    if (!memory)
        return false;
    memcpy(array, &memory, sizeof memory);
    *cap = grown;
    return true;
}
