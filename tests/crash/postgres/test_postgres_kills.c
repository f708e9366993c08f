/* test_postgres_kills.c - ends and kills server processes of PostgreSQL while threads append through
 * two stores, as two nodes would. No caller may see an error, and nothing may be lost or doubled.
 *
 * The check is that of a list: each session has the seqs 1..n without a gap, each acknowledged message is
 * once at its seq with its text, and each caller's messages are in its order. A killed process
 * (SIGKILL) makes the server restart with crash recovery. The whole server is also crashed and
 * started again. POSTGRES_KILLS makes the test longer. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
#include "postgres_ask.h"
#include "palaver/palaver.h"
#include "support/tap.h"

#define STORES 2
#define CALLERS 4 /* per store */
#define SESSIONS 3
#define APPENDS_MAX 100000
#define ROUNDS 8
#define KINDS 4

typedef struct caller {
    pthread_t thread;
    unsigned number;
    pal_store *store;
    unsigned len;
    unsigned failed;
    uint64_t seqs[APPENDS_MAX]; /* of message i, in session i % SESSIONS */
} caller;

static caller callers[STORES * CALLERS];
static pal_store *stores[STORES];
static pal_id sessions[SESSIONS];
static atomic_bool is_over;

static void write_text(char out_text[64], unsigned number, unsigned i)
{
    snprintf(out_text, 64, "%u.%u", number, i);
}

static void *append_all(void *argument)
{
    caller *self = argument;

    while (!atomic_load(&is_over) && self->len < APPENDS_MAX) {
        char text[64];
        pal_part part = {.kind = PAL_PART_TEXT};
        pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};
        pal_error err = {0};

        write_text(text, self->number, self->len);
        part.text = pal_str_of(text);
        if (pal_store_append(self->store, (pal_str){0}, sessions[self->len % SESSIONS], &message, 1,
                    PAL_SEQ_ANY, &err) != PAL_OK) {
            printf("# %s\n", err.message);
            self->failed++;
            break;
        }
        self->seqs[self->len++] = message.seq;
    }
    return NULL;
}

static void disturb(unsigned round)
{
    unsigned kind = round % KINDS;

    if (kind == 2 || kind == 3) {
        CHECK(postgres_restart(kind == 2 ? "immediate" : "kill"));
    } else if (kind == 0) {
        postgres_ask("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                     " WHERE application_name = 'palaver'");
    } else {
        long pid = postgres_ask("SELECT pid FROM pg_stat_activity"
                                " WHERE application_name = 'palaver' ORDER BY random() LIMIT 1");

        if (pid > 1)
            kill((pid_t)pid, SIGKILL);
    }
    usleep(700 * 1000);
}

static bool check_session(size_t index, uint64_t *total)
{
    pal_arena *arena = pal_arena_new(0);
    pal_message_query query = {0};
    pal_message_page page = {0};
    pal_error err = {0};
    uint64_t acknowledged = 0;
    bool held = CHECK_EQ(pal_store_load(stores[0], (pal_str){0}, sessions[index], &query, arena,
                                 &page, &err), PAL_OK);

    for (size_t i = 0; held && i < page.len; i++)
        held = CHECK_EQ(page.items[i].seq, i + 1);
    for (size_t c = 0; held && c < STORES * CALLERS; c++) {
        uint64_t before = 0;

        for (unsigned i = (unsigned)index; held && i < callers[c].len; i += SESSIONS) {
            uint64_t seq = callers[c].seqs[i];
            char text[64];

            write_text(text, callers[c].number, i);
            held = CHECK_THAT(seq, >, before) && CHECK_THAT(seq, <=, page.len) &&
                    CHECK_STR(page.items[seq - 1].parts[0].text, text);
            before = seq;
            acknowledged++;
        }
    }
    /* Nothing failed, so nothing else may be there. */
    held = held && CHECK_EQ(page.len, acknowledged);
    *total += acknowledged;
    pal_arena_free(arena);
    return held;
}

static void killed_servers_lose_and_double_nothing(void)
{
    const char *given = getenv("POSTGRES_KILLS");
    unsigned rounds = given ? (unsigned)atoi(given) : ROUNDS;
    pal_error err = {0};
    uint64_t total = 0;

    for (size_t i = 0; i < STORES; i++)
        CHECK_EQ(pal_store_open(getenv("PALAVER_TEST_POSTGRES"), NULL, &stores[i], &err), PAL_OK);
    for (size_t i = 0; i < SESSIONS; i++) {
        pal_session session = {0};

        CHECK_EQ(pal_store_create(stores[0], &session, &sessions[i], &err), PAL_OK);
    }
    for (unsigned i = 0; i < STORES * CALLERS; i++) {
        callers[i].number = i;
        callers[i].store = stores[i % STORES];
        pthread_create(&callers[i].thread, NULL, append_all, &callers[i]);
    }
    for (unsigned round = 0; round < rounds; round++)
        disturb(round);
    atomic_store(&is_over, true);
    for (size_t i = 0; i < STORES * CALLERS; i++) {
        pthread_join(callers[i].thread, NULL);
        CHECK_EQ(callers[i].failed, 0);
    }
    for (size_t i = 0; i < SESSIONS; i++)
        check_session(i, &total);
    printf("# %llu messages\n", (unsigned long long)total);
    for (size_t i = 0; i < STORES; i++)
        pal_store_close(stores[i]);
}

int main(void)
{
    if (!getenv("PALAVER_TEST_POSTGRES"))
        return 77; /* tools/pg-test did not start a server */
    RUN(killed_servers_lose_and_double_nothing);
    return tap_done();
}
