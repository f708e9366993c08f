/* test_arena.c - the arena, and the allocation functions below it. */
#include <stdint.h>
#include <stdlib.h>
#include "base/memory.h"
#include "palaver/alloc.h"
#include "palaver/arena.h"
#include "support/tap.h"

static bool is_filled(const void *memory, int byte, size_t len)
{
    const unsigned char *p = memory;
    for (size_t i = 0; i < len; i++) {
        if (p[i] != byte)
            return false;
    }
    return true;
}

static void memory_is_zeroed_and_aligned(void)
{
    pal_arena *arena = pal_arena_new(0);
    for (int round = 0; round < 2; round++) {
        for (size_t size = 0; size < 3000; size += 7) {
            char *memory = pal_arena_alloc(arena, size);
            if (!CHECK(memory) || !CHECK_EQ((uintptr_t)memory % 16, 0) ||
                    !CHECK(is_filled(memory, 0, size)))
                break;
            memset(memory, 0xaa, size);
        }
        pal_arena_reset(arena);
    }
    pal_arena_free(arena);
    pal_arena_free(NULL);
}

static void allocations_do_not_overlap(void)
{
    enum { COUNT = 400 };
    pal_arena *arena = pal_arena_new(0);
    unsigned char *memory[COUNT];
    size_t sizes[COUNT];
    for (int i = 0; i < COUNT; i++) {
        sizes[i] = i % 50 == 0 ? 20000 + (size_t)i * 100 : (size_t)(i * 37 % 500);
        memory[i] = pal_arena_alloc(arena, sizes[i]);
        if (!CHECK(memory[i]))
            return;
        memset(memory[i], i & 0xff, sizes[i]);
    }
    for (int i = 0; i < COUNT; i++)
        CHECK(is_filled(memory[i], i & 0xff, sizes[i]));
    pal_arena_free(arena);
}

static void large_allocations_get_separate_blocks(void)
{
    pal_arena *arena = pal_arena_new(0);
    char *small = pal_arena_alloc(arena, 16);
    char *large = pal_arena_alloc(arena, 10 << 20);
    char *next = pal_arena_alloc(arena, 16);
    if (CHECK(large))
        CHECK(is_filled(large, 0, 10 << 20));
    /* The block that is being filled stays in use. */
    CHECK_PTR(next, small + 16);
    pal_arena_free(arena);
}

static void the_limit_holds_and_the_failure_sticks(void)
{
    pal_arena *arena = pal_arena_new(1000);
    CHECK(pal_arena_alloc(arena, 600));
    CHECK_STATUS(pal_arena_failure(arena), PAL_OK);
    CHECK(!pal_arena_alloc(arena, 600));
    CHECK_STATUS(pal_arena_failure(arena), PAL_LIMIT);
    CHECK(!pal_arena_alloc(arena, 1));
    pal_arena_reset(arena);
    CHECK_STATUS(pal_arena_failure(arena), PAL_OK);
    CHECK(pal_arena_alloc(arena, 900));
    pal_arena_free(arena);
}

static void sizes_that_overflow_fail(void)
{
    pal_arena *arena = pal_arena_new(0);
    CHECK(!pal_arena_array(arena, SIZE_MAX / 2, 3));
    CHECK_STATUS(pal_arena_failure(arena), PAL_NO_MEMORY);
    pal_arena_reset(arena);
    CHECK(!pal_arena_alloc(arena, SIZE_MAX));
    CHECK_STATUS(pal_arena_failure(arena), PAL_NO_MEMORY);
    pal_arena_reset(arena);
    int *numbers = pal_arena_array(arena, 10, sizeof *numbers);
    if (CHECK(numbers))
        CHECK(is_filled(numbers, 0, 10 * sizeof *numbers));
    pal_arena_free(arena);
}

static void copies_end_with_a_nul(void)
{
    pal_arena *arena = pal_arena_new(0);
    pal_str copy = pal_arena_copy(arena, pal_str_make("a\0b", 3));
    if (CHECK_EQ(copy.len, 3))
        CHECK_BYTES(copy.data, "a\0b", 4);
    copy = pal_arena_copy(arena, pal_str_make(NULL, 0));
    if (CHECK_EQ(copy.len, 0) && CHECK(copy.data))
        CHECK_EQ(copy.data[0], '\0');
    pal_arena_free(arena);

    arena = pal_arena_new(8);
    copy = pal_arena_copy(arena, pal_str_of("longer than eight"));
    CHECK_PTR(copy.data, NULL);
    CHECK_EQ(copy.len, 0);
    pal_arena_free(arena);
}

static void arrays_grow_in_place_and_release_memory(void)
{
    pal_arena *arena = pal_arena_new(0);
    char *array = pal_arena_grow(arena, NULL, 0, 32);
    CHECK_PTR(pal_arena_grow(arena, array, 32, 512), array);
    CHECK_PTR(pal_arena_grow(arena, array, 512, 16), array);
    char *behind = pal_arena_alloc(arena, 16);
    CHECK_PTR(behind, array + 16);

    /* There is data after it now, so it must move, and keeps its bytes. */
    memset(array, 7, 16);
    char *moved = pal_arena_grow(arena, array, 16, 64);
    if (CHECK(moved)) {
        CHECK(moved != array);
        CHECK(is_filled(moved, 7, 16));
    }
    pal_arena_free(arena);
}

static void arrays_grow_beyond_blocks(void)
{
    pal_arena *arena = pal_arena_new(0);
    size_t size = 16;
    unsigned char *array = pal_arena_grow(arena, NULL, 0, size);
    memset(array, 1, size);
    while (array && size < (4u << 20)) {
        array = pal_arena_grow(arena, array, size, size * 2);
        if (!CHECK(array) || !CHECK(is_filled(array, 1, size)))
            break;
        memset(array + size, 1, size);
        size *= 2;
    }
    /* An array in a separate block grows in place, whatever was put into other blocks meanwhile. */
    CHECK(pal_arena_alloc(arena, 100));
    array = pal_arena_grow(arena, array, size, 2 * size);
    if (CHECK(array))
        CHECK(is_filled(array, 1, size));
    array = pal_arena_grow(arena, array, 2 * size, 100);
    if (CHECK(array))
        CHECK(is_filled(array, 1, 100));
    CHECK(pal_arena_alloc(arena, 100));
    pal_arena_free(arena);
}

static void growing_respects_the_limit(void)
{
    pal_arena *arena = pal_arena_new(1000);
    void *array = pal_arena_grow(arena, NULL, 0, 500);
    if (CHECK(array))
        CHECK(!pal_arena_grow(arena, array, 500, 2000));
    CHECK_STATUS(pal_arena_failure(arena), PAL_LIMIT);
    pal_arena_free(arena);

    arena = pal_arena_new(100000);
    array = pal_arena_grow(arena, NULL, 0, 50000);
    if (CHECK(array))
        CHECK(!pal_arena_grow(arena, array, 50000, 200000));
    CHECK_STATUS(pal_arena_failure(arena), PAL_LIMIT);
    pal_arena_free(arena);
}

/* A growing array is counted once, not once for every place where it was. */
static void growing_releases_the_old_place(void)
{
    pal_arena *arena = pal_arena_new(300000);
    void *array = pal_arena_grow(arena, NULL, 0, 50000);
    for (size_t size = 50000; array && size < 250000; size += 50000)
        array = pal_arena_grow(arena, array, size, size + 50000);
    CHECK(array);
    CHECK_STATUS(pal_arena_failure(arena), PAL_OK);
    CHECK(pal_arena_alloc(arena, 40000));
    CHECK(!pal_arena_alloc(arena, 40000));
    pal_arena_free(arena);
}

static void reserving_keeps_the_elements(void)
{
    pal_arena *arena = pal_arena_new(100000);
    int *numbers = NULL;
    size_t cap = 0;
    for (int i = 0; i < 1000; i++) {
        if (!CHECK(pal_arena_reserve(arena, &numbers, &cap, (size_t)i + 1, sizeof *numbers)))
            break;
        numbers[i] = i;
        if (i % 100 == 0)
            pal_arena_alloc(arena, 16); /* the array has to move */
    }
    CHECK_EQ(cap, 1024);
    CHECK_EQ(numbers[0], 0);
    CHECK_EQ(numbers[999], 999);
    CHECK(!pal_arena_reserve(arena, &numbers, &cap, 100000, sizeof *numbers));
    CHECK_STATUS(pal_arena_failure(arena), PAL_LIMIT);
    CHECK_EQ(cap, 1024);
    pal_arena_free(arena);

    arena = pal_arena_new(0);
    CHECK(!pal_arena_reserve(arena, &numbers, &cap, SIZE_MAX, sizeof *numbers));
    CHECK_STATUS(pal_arena_failure(arena), PAL_NO_MEMORY);
    pal_arena_free(arena);
}

static bool fill_arena(void)
{
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return false;
    void *array = pal_arena_grow(arena, NULL, 0, 100);
    for (int i = 0; i < 50; i++)
        pal_arena_alloc(arena, (size_t)i * 100);
    array = pal_arena_grow(arena, array, 100, 100000);
    pal_arena_grow(arena, array, 100000, 300000);
    pal_status failure = pal_arena_failure(arena);
    CHECK_STATUS_EITHER(failure, PAL_OK, PAL_NO_MEMORY);
    pal_arena_free(arena);
    return failure == PAL_OK;
}

static void every_allocation_failure_is_reported(void)
{
    for (int once = 0; once < 2; once++) {
        uint64_t nth = 1;
        for (;; nth++) {
            pal_memory_fail_at(nth, once);
            bool filled = fill_arena();
            bool failed = pal_memory_failed();
            pal_memory_fail_at(0, 0);
            CHECK_EQ(filled, !failed);
            if (!failed || nth > 1000)
                break;
        }
        CHECK_THAT(nth, >, 5);
        CHECK_THAT(nth, <, 1000);
    }
}

static void the_test_countdown_fails_the_nth_allocation(void)
{
    pal_memory_fail_at(2, 1);
    void *first = pal_malloc(1), *second = pal_calloc(1, 1), *third = pal_realloc(NULL, 1);
    CHECK(first);
    CHECK(!second);
    CHECK(third);
    CHECK(pal_memory_failed());
    pal_free(first);
    pal_free(third);

    pal_memory_fail_at(2, 0);
    CHECK(!pal_memory_failed());
    first = pal_malloc(1), second = pal_malloc(1), third = pal_malloc(1);
    CHECK(first);
    CHECK(!second);
    CHECK(!third);
    CHECK(pal_memory_failed());
    pal_memory_fail_at(0, 0);
    pal_free(first);
    CHECK(!pal_memory_failed());
}

static void zero_sizes_and_overflows_are_handled(void)
{
    void *nothing = pal_malloc(0), *no_items = pal_calloc(0, 8);
    CHECK(nothing);
    CHECK(no_items);
    nothing = pal_realloc(nothing, 0);
    CHECK(nothing);
    pal_free(nothing);
    pal_free(no_items);
    pal_free(NULL);
    /* The compiler must not see the overflow. */
    volatile size_t huge = SIZE_MAX;
    CHECK(!pal_calloc(huge, 2));
}

static void *count_alloc(size_t size, void *user)
{
    ++*(int *)user;
    return malloc(size);
}

static void *count_resize(void *memory, size_t size, void *user)
{
    *(int *)user += memory == NULL;
    return realloc(memory, size);
}

static void count_release(void *memory, void *user)
{
    --*(int *)user;
    free(memory);
}

static void the_programs_allocator_is_used(void)
{
    int live = 0;
    pal_allocator allocator = {.alloc = count_alloc,
            .resize = count_resize,
            .release = count_release,
            .user = &live};
    pal_allocator_set(&allocator);
    void *memory = pal_realloc(pal_malloc(10), 20);
    unsigned char *zeroed = pal_calloc(4, 4);
    CHECK_EQ(live, 2);
    CHECK(is_filled(zeroed, 0, 16));
    pal_free(memory);
    pal_free(zeroed);
    CHECK_EQ(live, 0);
    pal_allocator_set(NULL);
    pal_free(pal_malloc(1));
    CHECK_EQ(live, 0);
}

int main(void)
{
    RUN(memory_is_zeroed_and_aligned);
    RUN(allocations_do_not_overlap);
    RUN(large_allocations_get_separate_blocks);
    RUN(the_limit_holds_and_the_failure_sticks);
    RUN(sizes_that_overflow_fail);
    RUN(copies_end_with_a_nul);
    RUN(arrays_grow_in_place_and_release_memory);
    RUN(arrays_grow_beyond_blocks);
    RUN(growing_respects_the_limit);
    RUN(growing_releases_the_old_place);
    RUN(reserving_keeps_the_elements);
    RUN(every_allocation_failure_is_reported);
    RUN(the_test_countdown_fails_the_nth_allocation);
    RUN(zero_sizes_and_overflows_are_handled);
    RUN(the_programs_allocator_is_used);
    return tap_done();
}
