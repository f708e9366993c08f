/* test_cache_peers.c - a store with a cache shows at any time what one without it shows, while
 * another process changes the same file.
 *
 * PAL_TEST_SEED and PAL_TEST_STEPS choose another run; a failure prints both. */
#include "contract/cache/cache_peer.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text ? strtoull(text, NULL, 10) : otherwise;
}

/* ---- Random histories ---- */

/* `cache_bytes` is so small in one of the runs that entries are dropped all the time. */
static void compare_histories(uint64_t cache_bytes)
{
    pal_store_options with = {.cache_bytes = cache_bytes};
    pal_store_options without = {.cache_bytes = PAL_CACHE_BYTES_NONE};
    uint64_t seed = number_from("PAL_TEST_SEED", 7), random = seed * 2 + 1;
    uint64_t steps = number_from("PAL_TEST_STEPS", 1500);
    pal_store *plain = NULL;
    pal_store_stats stats;
    peer other;
    bool same = true;

    pal_clock_set_ms(0);
    pal_store_close(test.store); /* a process must not inherit connections of SQLite */
    test.store = NULL;
    other = peer_start(&with);
    contract_open_with(&with);
    OK(pal_store_open(test.url, &without, &plain, &test.err));
    for (uint64_t i = 0; same && i < steps; i++) {
        if (peer_random(&random, 5) == 0)
            peer_order(&other, random);
        else
            peer_step(test.store, random);
        for (int j = 0; same && j < 3; j++)
            same = peer_same(test.store, plain, peer_random(&random, PEER_TENANTS),
                    peer_random(&random, PEER_SESSIONS), random);
        if (!same)
            printf("# PAL_TEST_SEED=%llu PAL_TEST_STEPS=%llu\n", (unsigned long long)seed,
                    (unsigned long long)i + 1);
    }
    OK(pal_store_stat(test.store, test.arena, &stats, &test.err));
    printf("# %llu hits, %llu misses\n", (unsigned long long)stats.cache_hits,
            (unsigned long long)stats.cache_misses);
    CHECK_THAT(stats.cache_hits, >, steps / 2);
    pal_store_close(plain);
    peer_stop(&other);
}

static void random_histories_are_equal(void)
{
    compare_histories(0);
}

static void random_histories_are_equal_with_little_memory(void)
{
    compare_histories(16 * 4096);
}

/* ---- Readers during commits of both processes ---- */

enum { READERS = 3, BUSY_SESSIONS = 4 };

static peer_shared *shared;

static pal_status say_number(pal_store *store, pal_id session, uint64_t *out_seq)
{
    pal_arena *arena = pal_arena_new(0);
    pal_message message = pal_message_text(arena, PAL_ROLE_USER, pal_str_of("word"));
    pal_status status = pal_store_append(
            store, peer_tenants[0], session, &message, 1, PAL_SEQ_ANY, NULL);

    *out_seq = message.seq;
    pal_arena_free(arena);
    return status;
}

static void acknowledge(uint64_t seq)
{
    uint64_t before = atomic_load(&shared->acknowledged);

    while (before < seq &&
            !atomic_compare_exchange_weak(&shared->acknowledged, &before, seq))
        continue;
}

/* Everybody appends to the first session, and this process also to others. */
static void write_on(pal_store *store, uint64_t count, bool also_others)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t seq = 0, other;

        if (say_number(store, peer_session(0), &seq) != PAL_OK)
            atomic_store(&shared->failed, true);
        acknowledge(seq);
        if (also_others && say_number(store, peer_session(1 + i % 3), &other) != PAL_OK)
            atomic_store(&shared->failed, true);
    }
}

/* A message that was acknowledged before a read began is in its result. */
static void *read_on(void *user)
{
    pal_message_query newest = {.limit = 5, .from_end = true};

    (void)user;
    while (!atomic_load(&shared->stops)) {
        uint64_t least = atomic_load(&shared->acknowledged);
        pal_arena *arena = pal_arena_new(0);
        pal_message_page page = {0};

        if (pal_store_load(test.store, peer_tenants[0], peer_session(0), &newest, arena, &page,
                    NULL) != PAL_OK ||
                (least > 0 && (page.len == 0 || page.items[page.len - 1].seq < least)))
            atomic_store(&shared->failed, true);
        for (size_t i = 1; i < page.len; i++)
            if (page.items[i].seq != page.items[i - 1].seq + 1)
                atomic_store(&shared->failed, true);
        pal_arena_free(arena);
    }
    return NULL;
}

static pid_t start_writer(uint64_t count)
{
    pid_t pid = fork();
    pal_store *store = NULL;

    if (pid != 0)
        return pid;
    if (pal_store_open(test.url, NULL, &store, NULL) != PAL_OK)
        _exit(1);
    write_on(store, count, false);
    pal_store_close(store);
    _exit(0);
}

static void no_reader_misses_an_acknowledged_message(void)
{
    uint64_t count = number_from("PAL_TEST_STEPS", 400);
    pthread_t readers[READERS];
    pal_session session = {.tenant = peer_tenants[0]};
    int status = 1;
    pid_t pid;

    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (uint64_t i = 0; i < BUSY_SESSIONS; i++) {
        session.id = peer_session(i);
        OK(pal_store_create(test.store, &session, NULL, &test.err));
    }
    pal_clock_set_ms(0);
    pal_store_close(test.store);
    test.store = NULL;
    pid = start_writer(count);
    contract_open_with(NULL);
    for (size_t i = 0; i < READERS; i++)
        CHECK_EQ(pthread_create(&readers[i], NULL, read_on, NULL), 0);
    write_on(test.store, count, true);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    atomic_store(&shared->stops, true);
    for (size_t i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    CHECK(!atomic_load(&shared->failed));
    CHECK_EQ(atomic_load(&shared->acknowledged), 2 * count);
    munmap(shared, sizeof *shared);
}

int main(int argc, char **argv)
{
    char url[] = "sqlite:";
    char *own[] = {argv[0], url, NULL};

    (void)argc;
    if (!contract_begin(2, own, true))
        return 1;
    RUN(random_histories_are_equal);
    RUN(random_histories_are_equal_with_little_memory);
    RUN(no_reader_misses_an_acknowledged_message);
    return contract_end();
}
