/* test_map.c - the hash map, compared with the simplest model of a map. */
#include <stdint.h>
#include <stdio.h>
#include "base/map.h"
#include "base/memory.h"
#include "support/tap.h"

#define KEYS 2000

static char key_texts[KEYS][16];
static int values[KEYS];

static pal_str key_of(int i)
{
    return pal_str_make(key_texts[i], (size_t)snprintf(key_texts[i], 16, "k%d", i));
}

static void an_empty_map_finds_nothing(void)
{
    pal_map map = {0};
    size_t position = 0;
    pal_str key;
    void *value;
    CHECK(!pal_map_find(&map, pal_str_of("a")));
    CHECK(!pal_map_remove(&map, pal_str_of("a")));
    CHECK(!pal_map_next(&map, &position, &key, &value));
    pal_map_done(&map);
}

static void entries_are_set_replaced_and_removed(void)
{
    int one, two;
    char first[] = "key", second[] = "key";
    pal_map map;
    pal_map_init(&map);
    CHECK_STATUS(pal_map_set(&map, pal_str_of(first), &one), PAL_OK);
    CHECK_PTR(pal_map_find(&map, pal_str_of("key")), &one);
    CHECK_STATUS(pal_map_set(&map, pal_str_of(second), &two), PAL_OK);
    CHECK_EQ(map.len, 1);
    first[0] = 'x'; /* no longer borrowed */
    CHECK_PTR(pal_map_find(&map, pal_str_of("key")), &two);
    CHECK_PTR(pal_map_remove(&map, pal_str_of("key")), &two);
    CHECK_EQ(map.len, 0);
    CHECK(!pal_map_find(&map, pal_str_of("key")));
    pal_map_done(&map);
}

static void keys_can_contain_any_byte(void)
{
    int values_of[3];
    pal_map map;
    pal_map_init(&map);
    CHECK_STATUS(pal_map_set(&map, pal_str_make("", 0), &values_of[0]), PAL_OK);
    CHECK_STATUS(pal_map_set(&map, pal_str_make("\0", 1), &values_of[1]), PAL_OK);
    CHECK_STATUS(pal_map_set(&map, pal_str_make("\0\0", 2), &values_of[2]), PAL_OK);
    CHECK_PTR(pal_map_find(&map, pal_str_make(NULL, 0)), &values_of[0]);
    CHECK_PTR(pal_map_find(&map, pal_str_make("\0", 1)), &values_of[1]);
    CHECK_PTR(pal_map_find(&map, pal_str_make("\0\0", 2)), &values_of[2]);
    pal_map_done(&map);
}

/* A walk visits every entry once, and no others. */
static void check_walk(const pal_map *map, const bool *present)
{
    bool seen[KEYS] = {false};
    size_t position = 0, count = 0;
    pal_str key;
    void *value;
    while (pal_map_next(map, &position, &key, &value)) {
        int i = (int)((int *)value - values);
        if (CHECK(present[i]) && CHECK(!seen[i]))
            CHECK_STR(key, key_of(i));
        seen[i] = true;
        count++;
    }
    CHECK_EQ(count, map->len);
}

static void the_map_agrees_with_a_simple_model(void)
{
    static bool present[KEYS];
    uint32_t random = 1;
    size_t len = 0;
    pal_map map;
    pal_map_init(&map);
    for (int step = 0; step < 40000; step++) {
        random = random * 1664525 + 1013904223;
        int i = (int)((random >> 8) % KEYS);
        if (random >> 31) {
            CHECK_STATUS(pal_map_set(&map, key_of(i), &values[i]), PAL_OK);
            len += !present[i];
            present[i] = true;
        } else {
            CHECK_PTR(pal_map_remove(&map, key_of(i)), (present[i] ? &values[i] : NULL));
            len -= present[i];
            present[i] = false;
        }
        CHECK_EQ(map.len, len);
        if (step % 4000 == 0)
            check_walk(&map, present);
    }
    for (int i = 0; i < KEYS; i++)
        CHECK_PTR(pal_map_find(&map, key_of(i)), (present[i] ? &values[i] : NULL));
    check_walk(&map, present);
    pal_map_done(&map);
}

static void an_allocation_failure_changes_nothing(void)
{
    pal_map map;
    pal_map_init(&map);
    pal_memory_fail_at(1, 1);
    CHECK_STATUS(pal_map_set(&map, key_of(0), &values[0]), PAL_NO_MEMORY);
    CHECK_EQ(map.len, 0);

    int set = 0;
    pal_memory_fail_at(3, 1);
    while (set < KEYS && pal_map_set(&map, key_of(set), &values[set]) == PAL_OK)
        set++;
    CHECK_THAT(set, >, 0);
    CHECK_THAT(set, <, KEYS);
    CHECK_EQ(map.len, (size_t)set);
    pal_memory_fail_at(0, 0);
    for (int i = 0; i < set; i++)
        CHECK_PTR(pal_map_find(&map, key_of(i)), &values[i]);
    CHECK_STATUS(pal_map_set(&map, key_of(set), &values[set]), PAL_OK);
    pal_map_done(&map);
}

int main(void)
{
    RUN(an_empty_map_finds_nothing);
    RUN(entries_are_set_replaced_and_removed);
    RUN(keys_can_contain_any_byte);
    RUN(the_map_agrees_with_a_simple_model);
    RUN(an_allocation_failure_changes_nothing);
    return tap_done();
}
