/* test_store_threads.c - many threads on one store. Threads do not use CHECK, since the counters of
 * the suite belong to one thread: they record failures, and the test checks the records. */
#include "contract/contract.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 32, APPENDS = 20, ROUNDS = 15 };

typedef struct worker {
    pthread_t thread;
    unsigned number;
    pal_id session;
    unsigned failures;
    unsigned wins;
    pal_id found;
    uint64_t seqs[APPENDS];
} worker;

static worker workers[THREADS];
static pthread_barrier_t barrier;
static atomic_bool stop;

static void run_threads(void *(*body)(void *), const pal_id *sessions, size_t sessions_len)
{
    memset(workers, 0, sizeof workers);
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].number = i;
        workers[i].session = sessions[i % sessions_len];
        pthread_create(&workers[i].thread, NULL, body, &workers[i]);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    pthread_barrier_destroy(&barrier);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK_EQ(workers[i].failures, 0);
}

/* A message with one part, in memory of the caller. */
static pal_message text_in(pal_part *part, const char *text)
{
    *part = (pal_part){.kind = PAL_PART_TEXT, .text = pal_str_of(text)};
    return (pal_message){.role = PAL_ROLE_USER, .parts = part, .parts_len = 1};
}

static void *append_many(void *user)
{
    worker *self = user;
    char text[32];

    pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < APPENDS; i++) {
        pal_part part;
        pal_message message;

        snprintf(text, sizeof text, "%u-%u", self->number, i);
        message = text_in(&part, text);
        message.client_id = pal_str_of(text);
        if (pal_store_append(test.store, no_tenant(), self->session, &message, 1, PAL_SEQ_ANY,
                    NULL) != PAL_OK)
            self->failures++;
        self->seqs[i] = message.seq;
    }
    return NULL;
}

/* Each message has the seq that its thread received, and the messages of each thread are in
 * order. */
static void all_are_there(const pal_id *sessions, size_t sessions_len)
{
    char text[32];

    for (size_t s = 0; s < sessions_len; s++) {
        size_t wanted = THREADS / sessions_len * APPENDS;
        pal_message_page loaded = {0};

        OK(pal_store_load(
                test.store, no_tenant(), sessions[s], NULL, test.arena, &loaded, &test.err));
        CHECK_EQ(loaded.len, wanted);
        for (size_t i = 0; i < loaded.len; i++)
            if (loaded.items[i].seq != i + 1)
                CHECK(!"gapless");
        for (unsigned w = (unsigned)s; w < THREADS; w += (unsigned)sessions_len)
            for (unsigned i = 0; i < APPENDS; i++) {
                uint64_t seq = workers[w].seqs[i];

                snprintf(text, sizeof text, "%u-%u", w, i);
                if (seq == 0 || seq > loaded.len || (i > 0 && seq <= workers[w].seqs[i - 1]) ||
                        !pal_str_is(loaded.items[seq - 1].parts[0].text, text))
                    CHECK(!"every message at its seq");
            }
    }
}

static void threads_append_to_one_session(void)
{
    pal_id session = new_session();

    run_threads(append_many, &session, 1);
    all_are_there(&session, 1);
}

static void threads_append_to_many_sessions(void)
{
    pal_id sessions[8];

    for (size_t i = 0; i < 8; i++)
        sessions[i] = new_session();
    run_threads(append_many, sessions, 8);
    all_are_there(sessions, 8);
}

static void *race_for_seq(void *user)
{
    worker *self = user;

    for (unsigned round = 0; round < ROUNDS; round++) {
        pal_part part;
        pal_message message = text_in(&part, "x");
        pal_status status;

        pthread_barrier_wait(&barrier);
        status = pal_store_append(test.store, no_tenant(), self->session, &message, 1, round, NULL);
        self->wins += status == PAL_OK;
        self->failures += status != PAL_OK && status != PAL_CONFLICT;
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static void one_thread_wins_each_seq(void)
{
    pal_id session = new_session();
    unsigned wins = 0;

    run_threads(race_for_seq, &session, 1);
    for (unsigned i = 0; i < THREADS; i++)
        wins += workers[i].wins;
    CHECK_EQ(wins, ROUNDS);
    CHECK_EQ(get_session(session).last_seq, ROUNDS);
}

static void *race_for_key(void *user)
{
    worker *self = user;
    pal_session given = {.key = pal_str_of("same")};
    pal_op op = {.kind = PAL_OP_CREATE, .u.create = {.session = &given, .or_find = true}};

    pthread_barrier_wait(&barrier);
    if (pal_store_apply(test.store, &op, 1, NULL) != PAL_OK || op.status != PAL_OK)
        self->failures++;
    self->wins = !op.u.create.existing;
    self->found = op.session;
    return NULL;
}

static void threads_that_create_one_key_get_one_session(void)
{
    pal_id none = {{0}};
    unsigned wins = 0;

    run_threads(race_for_key, &none, 1);
    for (unsigned i = 0; i < THREADS; i++) {
        wins += workers[i].wins;
        CHECK_ID(workers[i].found, workers[0].found);
    }
    CHECK_EQ(wins, 1);
}

static void *race_for_lease(void *user)
{
    worker *self = user;
    char owner[16];
    uint64_t fence = 0;
    pal_status status;

    snprintf(owner, sizeof owner, "%u", self->number);
    pthread_barrier_wait(&barrier);
    status = pal_store_lease_take(
            test.store, no_tenant(), self->session, pal_str_of(owner), 60000, &fence, NULL);
    self->wins = status == PAL_OK;
    self->failures = status != PAL_OK && status != PAL_BUSY;
    return NULL;
}

static void one_thread_gets_the_lease(void)
{
    pal_id session = new_session();
    unsigned wins = 0;

    run_threads(race_for_lease, &session, 1);
    for (unsigned i = 0; i < THREADS; i++)
        wins += workers[i].wins;
    CHECK_EQ(wins, 1);
}

static void *replay_one(void *user)
{
    worker *self = user;
    pal_part part;
    pal_message message = text_in(&part, "same");

    message.client_id = pal_str_of("same");
    pthread_barrier_wait(&barrier);
    if (pal_store_append(test.store, no_tenant(), self->session, &message, 1, PAL_SEQ_ANY, NULL) !=
            PAL_OK)
        self->failures++;
    self->found = message.id;
    return NULL;
}

static void threads_that_send_one_message_store_it_once(void)
{
    pal_id session = new_session();

    run_threads(replay_one, &session, 1);
    CHECK(shows(session, "same"));
    for (unsigned i = 0; i < THREADS; i++)
        CHECK_ID(workers[i].found, workers[0].found);
}

/* The first half of the threads writes, forks, rewinds and erases; the other half reads until the
 * first half is done. */
static void *read_or_write(void *user)
{
    worker *self = user;
    pal_arena *own = pal_arena_new(0);

    pthread_barrier_wait(&barrier);
    while (self->number >= 4 && !atomic_load(&stop)) {
        pal_message_page loaded = {0};
        pal_session_query query = {.limit = 5};
        pal_session_page page;

        if (pal_store_load(test.store, no_tenant(), self->session, NULL, own, &loaded, NULL) !=
                PAL_OK)
            self->failures++;
        for (size_t i = 0; i < loaded.len; i++)
            self->failures += loaded.items[i].seq != i + 1;
        if (pal_store_list(test.store, &query, own, &page, NULL) != PAL_OK)
            self->failures++;
        pal_arena_reset(own);
    }
    for (unsigned i = 0; self->number < 4 && i < APPENDS; i++) {
        pal_session record = {0};
        pal_mark mark = {.kind = PAL_MARK_REWIND};
        pal_part part;
        pal_message message = text_in(&part, "x");
        pal_id fork;

        if (pal_store_append(
                    test.store, no_tenant(), self->session, &message, 1, PAL_SEQ_ANY, NULL) ||
                pal_store_fork(test.store, &record, self->session, PAL_SEQ_ANY, &fork, NULL) ||
                pal_store_mark(test.store, no_tenant(), fork, &mark, NULL) ||
                pal_store_erase(test.store, no_tenant(), fork, NULL, NULL))
            self->failures++;
    }
    if (self->number == 0)
        atomic_store(&stop, true);
    pal_arena_free(own);
    return NULL;
}

static void readers_see_complete_states(void)
{
    pal_id session = new_session();

    atomic_store(&stop, false);
    run_threads(read_or_write, &session, 1);
    CHECK_EQ(get_session(session).last_seq, 4 * APPENDS);
    CHECK_EQ(count_messages(), 4 * APPENDS);
}

void contract_threads(void)
{
    RUN(threads_append_to_one_session);
    RUN(threads_append_to_many_sessions);
    RUN(one_thread_wins_each_seq);
    RUN(threads_that_create_one_key_get_one_session);
    RUN(one_thread_gets_the_lease);
    RUN(threads_that_send_one_message_store_it_once);
    RUN(readers_see_complete_states);
}
