/* test_wal_kills.c - the WAL is copied into the file while a writer works. Kills a writer of large
 * messages during the copy, and checks the size of the WAL if no writer is killed.
 *
 * Acknowledged messages must be there, in order and complete; the file must be sound.
 *
 * Environment: WAL_KILLS (3), CRASH_SEED. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "crash_pattern.h"
#include "palaver/palaver.h"
#include "support/scratch.h"
#include "support/tap.h"

#define TEXT_LEN 200000
#define WAL_LEN_MAX (INT64_C(100) << 20) /* three times the length at which it is copied */
#define UNKILLED 700                     /* messages; four times that length */
#define PAGE 50

/* The progress of the writer, in memory that outlives it. */
typedef struct progress {
    uint64_t sent, acknowledged;
} progress;

static progress *common;
static char text[TEXT_LEN];
static struct fixture {
    char directory[SCRATCH_PATH_MAX], url[SCRATCH_PATH_MAX + 16], wal[SCRATCH_PATH_MAX + 16];
    pal_store *store;
    pal_error err;
    pal_id session;
} test;

/* Every byte depends on the number. */
static void make_text(uint64_t number)
{
    for (size_t i = 0; i < TEXT_LEN; i++)
        text[i] = (char)('a' + (number * 7 + i) % 26);
    text[snprintf(text, 24, "%020" PRIu64, number)] = ' ';
}

static bool append(uint64_t number)
{
    pal_part part = {.kind = PAL_PART_TEXT, .text = pal_str_make(text, TEXT_LEN)};
    pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};

    make_text(number);
    return OK(pal_store_append(
            test.store, pal_str_of(""), test.session, &message, 1, PAL_SEQ_ANY, &test.err));
}

static void begin(void)
{
    pal_session given = {0};

    scratch_clear(test.directory, false);
    OK(pal_store_open(test.url, NULL, &test.store, &test.err));
    OK(pal_store_create(test.store, &given, &test.session, &test.err));
}

static void end(void)
{
    pal_store_close(test.store);
    test.store = NULL;
}

/* ---- The writer ---- */

static void writer_run(void)
{
    test.store = NULL;
    if (!OK(pal_store_open(test.url, NULL, &test.store, &test.err)))
        _exit(3);
    for (uint64_t number = 1;; number++) {
        __atomic_store_n(&common->sent, number, __ATOMIC_SEQ_CST);
        if (!append(number))
            _exit(3);
        __atomic_store_n(&common->acknowledged, number, __ATOMIC_SEQ_CST);
    }
}

static bool is_alive(pid_t pid)
{
    return waitpid(pid, NULL, WNOHANG) == 0;
}

/* A moment after the given number of messages was acknowledged: anywhere in a commit or in a
 * copy. */
static void kill_after(pid_t pid, uint64_t wanted, uint64_t more_us)
{
    struct timespec pause = {.tv_nsec = 1000000}, more = {.tv_nsec = (long)more_us * 1000};

    while (__atomic_load_n(&common->acknowledged, __ATOMIC_SEQ_CST) < wanted && is_alive(pid))
        nanosleep(&pause, NULL);
    nanosleep(&more, NULL);
    CHECK(is_alive(pid));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* ---- What is left ---- */

static void tell_finding(const pal_store_finding *finding, void *user)
{
    (void)user;
    printf("# %s\n", finding->text);
}

static uint64_t read_page(uint64_t after, pal_arena *arena)
{
    pal_message_query load = {.after_seq = after, .limit = PAGE};
    pal_message_page page;

    if (!OK(pal_store_load(
                test.store, pal_str_of(""), test.session, &load, arena, &page, &test.err)))
        return 0;
    for (size_t i = 0; i < page.len; i++) {
        pal_str found = page.items[i].parts[0].text;

        make_text(after + i + 1);
        CHECK_EQ(page.items[i].seq, after + i + 1);
        if (CHECK_EQ(found.len, TEXT_LEN))
            CHECK_BYTES(found.data, text, TEXT_LEN);
    }
    return page.len;
}

static void verify(void)
{
    pal_arena *arena = pal_arena_new(0);
    uint64_t count = 0, more, findings = 1;

    OK(pal_store_open(test.url, NULL, &test.store, &test.err));
    while ((more = read_page(count, arena)) > 0) {
        count += more;
        pal_arena_reset(arena);
    }
    if (CHECK_THAT(count, >=, common->acknowledged))
        CHECK_THAT(count, <=, common->sent);
    OK(pal_store_check(test.store, false, tell_finding, NULL, NULL, &findings, &test.err));
    CHECK_EQ(findings, 0);
    end();
    pal_arena_free(arena);
}

/* ---- Tests ---- */

static void nothing_is_lost(void)
{
    const char *asked = getenv("WAL_KILLS"), *given = getenv("CRASH_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    int kills = asked ? atoi(asked) : 3;

    printf("# CRASH_SEED=%" PRIu64 "\n", seed);
    for (int i = 0; i < kills; i++) {
        uint64_t chance = pattern_hash(seed, (uint64_t)i);
        pid_t pid;

        begin();
        end();
        *common = (progress){0};
        fflush(stdout);
        pid = fork();
        if (pid == 0)
            writer_run();
        /* The first copy begins at about the 160th message. */
        kill_after(pid, 150 + chance % 200, chance / 1000 % 20000);
        verify();
    }
}

static void it_stays_short(void)
{
    struct stat facts;
    int64_t longest = 0;

    begin();
    for (uint64_t number = 1; number <= UNKILLED; number++) {
        if (!CHECK(append(number)))
            break;
        if (stat(test.wal, &facts) == 0 && facts.st_size > longest)
            longest = facts.st_size;
    }
    printf("# the WAL's longest: %" PRId64 " MiB\n", longest >> 20);
    CHECK_THAT(longest, >, 0);
    CHECK_THAT(longest, <, WAL_LEN_MAX);
    end();
    *common = (progress){UNKILLED, UNKILLED};
    verify();
}

int main(void)
{
    common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (common == MAP_FAILED)
        return 1;
    scratch_make(false, test.directory);
    snprintf(test.url, sizeof(test.url), "sqlite:%s/store", test.directory);
    snprintf(test.wal, sizeof(test.wal), "%s/store-wal", test.directory);
    RUN(nothing_is_lost);
    RUN(it_stays_short);
    scratch_clear(test.directory, true);
    return tap_done();
}
