/* test_cursor_kills.c - kills programs that read a source and keep their place in it.
 *
 *   test_cursor_kills [SCHEME]
 *
 * Such a program reads events and stores each one, together with its place, in a batch that is
 * applied all or none. An event is a message or an item of an inbox, in one of several sessions.
 * Now and then a batch is refused because its last operation fails. Two processes read the same
 * source at the same time; the version of the record with the place decides which of them stores an
 * event. One or both are killed at random moments.
 *
 * After each kill, every event before the place must be stored exactly once and in order, and no
 * other event. Nothing of a refused batch may be there. With "postgres", tools/pg-test runs the
 * server.
 *
 * Environment: CURSOR_KILLS (40), CRASH_SEED. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "crash_pattern.h"
#include "palaver/palaver.h"
#include "support/scratch.h"
#include "support/tap.h"

enum { SESSIONS = 5, PROCESSES = 2, EVENTS_MAX = 6, ROUND_EVENTS = 20 };

/* What the programs report, in memory that outlives them. */
typedef struct progress {
    uint64_t acknowledged; /* the largest place that a commit was acknowledged for */
    uint64_t overtaken, refused;
} progress;

static progress *common;
static uint64_t seed;
static struct fixture {
    char directory[SCRATCH_PATH_MAX], url[SCRATCH_PATH_MAX * 2];
    pal_store *store;
    pal_arena *arena;
    pal_error err;
} test;

static pal_id session_of(uint64_t event)
{
    pal_id id = {{0}};

    id.bytes[0] = 1;
    id.bytes[15] = (uint8_t)(pattern_hash(seed, event) % SESSIONS + 1);
    return id;
}

static bool is_item(uint64_t event)
{
    return pattern_hash(seed, event + (UINT64_C(1) << 40)) % 3 == 0;
}

/* ---- The program that reads ---- */

static uint64_t read_place(uint64_t *out_version)
{
    pal_record record;
    pal_status status = pal_store_record_find(test.store, pal_str_of(""), pal_str_of("cursor"),
            pal_str_of("source"), test.arena, &record, &test.err);

    *out_version = status == PAL_OK ? record.version : 0;
    return status == PAL_OK ? strtoull(record.body.data, NULL, 10) : 0;
}

typedef struct event {
    pal_part part;
    pal_message message;
    pal_inbox_item item;
    char name[24], body[32];
} event;

static pal_op store_event(event *e, uint64_t number)
{
    snprintf(e->name, sizeof e->name, "%" PRIu64, number);
    snprintf(e->body, sizeof e->body, "\"%" PRIu64 "\"", number);
    e->part = (pal_part){.kind = PAL_PART_TEXT, .text = pal_str_of(e->name)};
    e->message = (pal_message){.role = PAL_ROLE_USER,
            .parts = &e->part, .parts_len = 1, .client_id = pal_str_of(e->name)};
    e->item = (pal_inbox_item){.client_id = pal_str_of(e->name),
            .delivery = pal_str_of("x"), .body = pal_str_of(e->body)};
    if (is_item(number))
        return pal_op_inbox_add(pal_str_of(""), session_of(number), &e->item);
    return pal_op_append(pal_str_of(""), session_of(number), &e->message, 1, PAL_SEQ_ANY);
}

/* Stores the next events and the place after them. */
static pal_status take(uint64_t place, uint64_t version, size_t len, bool is_wrong)
{
    event events[EVENTS_MAX];
    pal_op ops[EVENTS_MAX + 2];
    char body[24];
    pal_record record = {.kind = pal_str_of("cursor"), .name = pal_str_of("source")};
    pal_record extra = {.kind = pal_str_of("wrong"), .name = pal_str_of("x"),
            .body = pal_str_of("1")};
    size_t failed, ops_len = 0;

    for (size_t i = 0; i < len; i++)
        ops[ops_len++] = store_event(&events[i], place + i + 1);
    snprintf(body, sizeof body, "%" PRIu64, place + len);
    record.body = pal_str_of(body);
    ops[ops_len++] = pal_op_record_put(pal_str_of(""), &record, version);
    if (is_wrong)
        ops[ops_len++] = pal_op_record_put(pal_str_of(""), &extra, 77);
    return pal_store_apply_all(test.store, ops, ops_len, &failed, &test.err);
}

static void raise_to(uint64_t *number, uint64_t value)
{
    uint64_t now = __atomic_load_n(number, __ATOMIC_SEQ_CST);

    while (now < value &&
            !__atomic_compare_exchange_n(
                    number, &now, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        continue;
}

/* The inboxes must not fill up. */
static void drop_items(uint64_t place)
{
    for (uint8_t i = 1; i <= SESSIONS; i++) {
        pal_id id = {.bytes = {[0] = 1, [15] = i}};
        pal_inbox_item *items;
        size_t len;

        if (pal_store_inbox_list(
                    test.store, pal_str_of(""), id, test.arena, &items, &len, &test.err) != PAL_OK)
            continue;
        for (size_t j = 0; j < len; j++)
            if (strtoull(items[j].client_id.data, NULL, 10) + 200 < place)
                (void)!pal_store_inbox_drop(
                        test.store, pal_str_of(""), id, items[j].id, &test.err);
    }
}

static void reader_run(uint64_t number)
{
    uint64_t round = 0;

    test.arena = pal_arena_new(0);
    if (!OK(pal_store_open(test.url, NULL, &test.store, &test.err)))
        _exit(3);
    for (;; round++) {
        uint64_t dice = pattern_hash(seed ^ number, round), version = 0;
        uint64_t place = read_place(&version);
        size_t len = dice % EVENTS_MAX + 1;
        bool is_wrong = dice / 16 % 4 == 0;
        pal_status status = take(place, version, len, is_wrong);

        if (status == PAL_OK && !is_wrong) {
            raise_to(&common->acknowledged, place + len);
        } else if (status == PAL_CONFLICT) {
            __atomic_fetch_add(
                    is_wrong ? &common->refused : &common->overtaken, 1, __ATOMIC_SEQ_CST);
        } else {
            printf("# %s\n", test.err.message);
            fflush(stdout);
            _exit(3);
        }
        if (round % 64 == 63)
            drop_items(place);
        pal_arena_reset(test.arena);
    }
}

/* ---- What is left ---- */

/* Counts the messages and the items of a session. Their numbers must rise, up to the place. */
static void verify_session(uint8_t last_byte, uint64_t place, uint8_t *seen)
{
    pal_id id = {.bytes = {[0] = 1, [15] = last_byte}};
    pal_message_page page;
    pal_inbox_item *items;
    uint64_t before = 0;
    size_t len = 0;

    if (!OK(pal_store_load(
                test.store, pal_str_of(""), id, NULL, test.arena, &page, &test.err)))
        return;
    for (size_t i = 0; i < page.len; i++) {
        uint64_t number = strtoull(page.items[i].client_id.data, NULL, 10);

        CHECK_EQ(page.items[i].seq, i + 1);
        CHECK_THAT(number, >, before);
        if (CHECK_THAT(number, <=, place))
            seen[number]++;
        before = number;
    }
    OK(pal_store_inbox_list(test.store, pal_str_of(""), id, test.arena, &items, &len, &test.err));
    before = 0;
    for (size_t i = 0; i < len; i++) {
        uint64_t number = strtoull(items[i].client_id.data, NULL, 10);

        CHECK_THAT(number, >, before);
        if (CHECK_THAT(number, <=, place))
            seen[number]++;
        before = number;
    }
}

static void tell_finding(const pal_store_finding *finding, void *user)
{
    (void)user;
    printf("# %s\n", finding->text);
}

static bool verify(uint64_t *out_place)
{
    uint64_t version, place, findings = 1, missing = 0, doubled = 0;
    pal_record found;
    uint8_t *seen;

    pal_arena_reset(test.arena);
    if (!OK(pal_store_open(test.url, NULL, &test.store, &test.err)))
        return false;
    place = read_place(&version);
    CHECK_THAT(place, >=, common->acknowledged);
    seen = calloc(place + 1, 1);
    for (uint8_t i = 1; seen && i <= SESSIONS; i++)
        verify_session(i, place, seen);
    for (uint64_t i = 1; seen && i <= place; i++) {
        missing += seen[i] == 0 && !(is_item(i) && i + 200 < place); /* old items are dropped */
        doubled += seen[i] > 1;
    }
    free(seen);
    CHECK_EQ(missing, 0);
    CHECK_EQ(doubled, 0);
    CHECK_STATUS(pal_store_record_find(test.store, pal_str_of(""), pal_str_of("wrong"),
                         pal_str_of("x"), test.arena, &found, &test.err),
            PAL_NOT_FOUND, &test.err);
    OK(pal_store_check(test.store, false, tell_finding, NULL, NULL, &findings, &test.err));
    CHECK_EQ(findings, 0);
    pal_store_close(test.store);
    test.store = NULL;
    *out_place = place;
    return missing == 0 && doubled == 0;
}

/* ---- Rounds ---- */

static pid_t readers[PROCESSES];
static uint64_t started;

static void start_missing(void)
{
    for (size_t i = 0; i < PROCESSES; i++) {
        if (readers[i] > 0)
            continue;
        started++;
        fflush(stdout);
        readers[i] = fork();
        if (readers[i] == 0)
            reader_run(started);
    }
}

static void kill_readers(bool all, size_t only)
{
    for (size_t i = 0; i < PROCESSES; i++) {
        int status = 0;

        if (!all && i != only)
            continue;
        kill(readers[i], SIGKILL);
        waitpid(readers[i], &status, 0);
        CHECK(WIFSIGNALED(status));
        readers[i] = 0;
    }
}

/* Waits until the readers have stored some events, then a little longer. */
static bool wait_for(uint64_t wanted, uint64_t more_us)
{
    struct timespec pause = {.tv_nsec = 1000000}, more = {.tv_nsec = (long)more_us * 1000};

    for (int ms = 0; __atomic_load_n(&common->acknowledged, __ATOMIC_SEQ_CST) < wanted; ms++) {
        if (ms > 60000)
            return false;
        nanosleep(&pause, NULL);
    }
    nanosleep(&more, NULL);
    return true;
}

static void every_event_is_stored_once(void)
{
    const char *kills_wanted = getenv("CURSOR_KILLS");
    uint64_t kills = kills_wanted ? strtoull(kills_wanted, NULL, 10) : 40, done = 0, place = 0;

    while (done < kills) {
        uint64_t dice = pattern_hash(seed + 1, done);
        bool all = dice % 2 == 0;

        start_missing();
        if (!CHECK(wait_for(place + ROUND_EVENTS, dice / 2 % 20000)))
            break;
        kill_readers(all, dice / 64 % PROCESSES);
        done += all ? PROCESSES : 1;
        if (!all) { /* the other one is stopped, so that the store can be looked at in peace */
            kill_readers(false, (dice / 64 + 1) % PROCESSES);
            done++;
        }
        if (!verify(&place))
            break;
    }
    for (size_t i = 0; i < PROCESSES; i++)
        if (readers[i] > 0)
            kill_readers(false, i);
    printf("# %" PRIu64 " kills, %" PRIu64 " events, %" PRIu64 " batches overtaken, %" PRIu64
           " refused\n",
            done, place, common->overtaken, common->refused);
    CHECK_THAT(common->refused, >, 0);
}

static void prepare(const char *scheme)
{
    const char *server = getenv("PALAVER_TEST_POSTGRES");

    scratch_make(false, test.directory);
    if (strcmp(scheme, "postgres") == 0)
        snprintf(test.url, sizeof test.url, "%s", server ? server : "");
    else
        snprintf(test.url, sizeof test.url, "%s:%s/store%s", scheme, test.directory,
                strcmp(scheme, "sqlite") == 0 ? ".db" : "");
    test.arena = pal_arena_new(0);
    OK(pal_store_open(test.url, NULL, &test.store, &test.err));
    for (uint8_t i = 1; i <= SESSIONS; i++) {
        pal_session session = {.id = {.bytes = {[0] = 1, [15] = i}}};

        OK(pal_store_create(test.store, &session, NULL, &test.err));
    }
    pal_store_close(test.store);
    test.store = NULL;
}

int main(int argc, char **argv)
{
    const char *seed_wanted = getenv("CRASH_SEED");

    setvbuf(stdout, NULL, _IONBF, 0);
    seed = seed_wanted ? strtoull(seed_wanted, NULL, 0) : (uint64_t)time(NULL);
    printf("# CRASH_SEED=%" PRIu64 "\n", seed);
    common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (common == MAP_FAILED)
        return 2;
    prepare(argc > 1 ? argv[1] : "sqlite");
    RUN(every_event_is_stored_once);
    pal_arena_free(test.arena);
    scratch_clear(test.directory, true);
    return tap_done();
}
