/* test_torture.c - the tour (contract_tour.h) with allocation 1, 2, 3 ... failing, until the tour
 * passes. Every run ends without a leak (the sanitizers check it), reports PAL_NO_MEMORY, and
 * leaves no partial work; acknowledged work is there. The allocations of SQLite are counted, too.
 *
 * PAL_TORTURE_FROM and PAL_TORTURE_TO choose a part, to look at one failure alone.
 * PAL_TORTURE_STEP=N tries every Nth allocation. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/memory.h"
#include "contract_tour.h"

/* Each allocation up to this one fails once, then every STRIDE-th. */
#define EVERY_ONE_MAX 1500
#define STRIDE 37
#define CREATE_STRIDE 29 /* SQLite makes thousands while it reads the schema */

/* ---- SQLite's memory from the same door ---- */

#define HEADER 16 /* stores the size, and keeps the alignment */

static void *count_malloc(int size)
{
    char *memory = pal_malloc((size_t)size + HEADER);

    if (!memory)
        return NULL;
    *(int *)memory = size;
    return memory + HEADER;
}

static void count_free(void *memory)
{
    if (memory)
        pal_free((char *)memory - HEADER);
}

static void *count_realloc(void *memory, int size)
{
    char *grown = pal_realloc((char *)memory - HEADER, (size_t)size + HEADER);

    if (!grown)
        return NULL;
    *(int *)grown = size;
    return grown + HEADER;
}

static int count_size(void *memory)
{
    return memory ? *(int *)((char *)memory - HEADER) : 0;
}

static int count_roundup(int size)
{
    return (size + 7) & ~7;
}

static int count_init(void *user)
{
    (void)user;
    return SQLITE_OK;
}

static void count_shutdown(void *user)
{
    (void)user;
}

static bool count_sqlite(void)
{
    static const sqlite3_mem_methods methods = {count_malloc, count_free, count_realloc, count_size,
            count_roundup, count_init, count_shutdown, NULL};

    return sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) == SQLITE_OK &&
            sqlite3_initialize() == SQLITE_OK;
}

/* ---- Runs ---- */

static void complain(uint64_t nth, const char *what, const char *step, pal_status status)
{
    printf("# allocation %llu: %s: '%s' gave %s\n", (unsigned long long)nth, what, step,
            pal_status_name(status));
}

static bool steps_are_whole(uint64_t nth, const pal_status *statuses)
{
    bool whole = true;

    for (size_t i = 0; i < tour_len; i++) {
        tour_sight wanted = statuses[i] == PAL_OK ? TOUR_ALL : TOUR_NONE;

        if (!tour[i].seen || (statuses[i] != PAL_OK && tour[i].seen_if_ok_only) ||
                tour_seen(i) == wanted)
            continue;
        complain(nth, "not what is there", tour[i].name, statuses[i]);
        whole = false;
    }
    return whole;
}

/* The first failed step gives the reason; later steps can fail because of it. */
static bool says_no_memory(uint64_t nth, const pal_status *statuses)
{
    for (size_t i = 0; i < tour_len; i++) {
        if (statuses[i] == PAL_OK)
            continue;
        if (statuses[i] != PAL_NO_MEMORY)
            complain(nth, "not for want of memory", tour[i].name, statuses[i]);
        return statuses[i] == PAL_NO_MEMORY;
    }
    return true; /* the allocation was optional, as those of SQLite's caches */
}

/* Opens the store again. If opening failed before (no statuses), that must not matter. */
static void look_again(uint64_t nth, const pal_status *statuses)
{
    pal_status opened;

    pal_store_close(test.store);
    test.store = NULL;
    opened = pal_store_open(test.url, NULL, &test.store, &test.err);
    if (!CHECK_STATUS(opened, PAL_OK))
        complain(nth, "opening again", test.err.message, opened);
    else if (statuses)
        CHECK(steps_are_whole(nth, statuses));
}

/* One tour with the countdown. Returns false if the countdown has not fired. */
static bool fail_at(uint64_t nth, bool once)
{
    pal_status statuses[TOUR_STEPS_MAX], opened;
    bool fired;

    if (contract_is_durable()) {
        contract_clear();
        contract_open_with(NULL);
        pal_store_close(test.store);
        test.store = NULL;
    }
    pal_memory_fail_at(nth, once);
    opened = pal_store_open(test.url, NULL, &test.store, &test.err);
    if (opened == PAL_OK)
        tour_run(statuses);
    fired = pal_memory_failed();
    pal_memory_fail_at(0, 0);
    if (opened == PAL_OK) {
        CHECK(says_no_memory(nth, statuses));
        CHECK(steps_are_whole(nth, statuses));
    } else if (!CHECK_STATUS(opened, PAL_NO_MEMORY) || !CHECK_THAT(test.err.message[0], !=, '\0')) {
        complain(nth, "opening", test.err.message, opened);
    }
    if (contract_is_durable())
        look_again(nth, opened == PAL_OK ? statuses : NULL);
    pal_store_close(test.store);
    test.store = NULL;
    return fired;
}

/* Creates a store with the countdown. Returns false if the countdown has not fired. */
static bool fail_to_create_at(uint64_t nth)
{
    pal_status opened;
    bool fired;

    contract_clear();
    pal_memory_fail_at(nth, true);
    opened = pal_store_open(test.url, NULL, &test.store, &test.err);
    fired = pal_memory_failed();
    pal_memory_fail_at(0, 0);
    if (!CHECK_STATUS_EITHER(opened, PAL_OK, PAL_NO_MEMORY))
        complain(nth, "creating", test.err.message, opened);
    look_again(nth, NULL);
    pal_store_close(test.store);
    test.store = NULL;
    return fired;
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void give_back_fixture(void)
{
    pal_store_close(test.store);
    test.store = NULL;
    pal_arena_free(test.arena);
    test.arena = NULL;
}

static void every_allocation_may_fail_alone(void)
{
    uint64_t nth = number_from("PAL_TORTURE_FROM", 1);
    uint64_t to = number_from("PAL_TORTURE_TO", UINT64_MAX);
    uint64_t step = number_from("PAL_TORTURE_STEP", 1);

    give_back_fixture();
    while (nth <= to && fail_at(nth, true))
        nth += (nth < EVERY_ONE_MAX ? 1 : STRIDE) * (step ? step : 1);
    printf("# about %llu allocations\n", (unsigned long long)nth);
}

static void all_allocations_may_fail_from_one_on(void)
{
    uint64_t nth = 1;

    give_back_fixture();
    while (fail_at(nth, false))
        nth += 1 + nth / 16;
}

static void creating_may_fail(void)
{
    uint64_t nth = 1;

    give_back_fixture();
    while (fail_to_create_at(nth))
        nth += nth < 100 ? 1 : CREATE_STRIDE;
    printf("# about %llu allocations\n", (unsigned long long)nth);
}

static size_t hits_of(const char *word)
{
    pal_search_query search = {.text = pal_str_of(word)};
    pal_search_page hits = {0};

    return pal_store_search(test.store, &search, test.arena, &hits, &test.err) == PAL_OK ? hits.len
                                                                                         : 99;
}

/* Whatever fails on the way, also at its end: the next search finds the new messages. */
static void a_search_that_failed_shows_no_old_state(void)
{
    pal_id session = new_session();
    bool fired = true;

    for (uint64_t nth = 1; fired; nth++) {
        char word[32];
        pal_message message;

        pal_memory_fail_at(nth, true);
        (void)hits_of("nothing");
        fired = pal_memory_failed();
        pal_memory_fail_at(0, 0);
        pal_arena_reset(test.arena); /* a failed search stays failed */
        snprintf(word, sizeof(word), "word%llu", (unsigned long long)nth);
        message = text_of(PAL_ROLE_USER, word);
        CHECK_STATUS(pal_store_append(
                             test.store, no_tenant(), session, &message, 1, PAL_SEQ_ANY, &test.err),
                PAL_OK, &test.err);
        CHECK_EQ(hits_of(word), 1);
    }
}

int main(int argc, char **argv)
{
    if (!count_sqlite() || !contract_begin(argc, argv, true))
        return 1;
    RUN(every_allocation_may_fail_alone);
    RUN(all_allocations_may_fail_from_one_on);
    RUN(creating_may_fail);
    RUN(a_search_that_failed_shows_no_old_state);
    return contract_end();
}
