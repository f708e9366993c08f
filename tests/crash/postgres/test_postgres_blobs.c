/* test_postgres_blobs.c - a large blob is stored before the batch that refers to it. A process that
 * is killed in between leaves a blob without use, which the next append of the same content uses, or
 * the sweep removes. A connection that is cut at any message changes nothing about this. */
#include <libpq-fe.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "palaver/limits.h"
#include "palaver/palaver.h"
#include "postgres_ask.h"
#include "postgres_proxy.h"
#include "support/scratch.h"
#include "support/tap.h"

#define MESSAGES_MAX 200
#define WAIT_US (30 * 1000 * 1000)

enum { LARGE = (5 << 20) + 17, PARTS = 6 };

static char directory[SCRATCH_PATH_MAX], through[SCRATCH_PATH_MAX + 64];
static pal_error err;

/* Bytes that do not repeat, and that are not the same for two numbers. */
static pal_str bytes_of(unsigned number, size_t len)
{
    static char bytes[LARGE];
    uint32_t state = number * 2654435761u + 1;

    for (size_t i = 0; i < len; i++) {
        state = state * 1664525 + 1013904223;
        bytes[i] = (char)(state >> 24);
    }
    return pal_str_make(bytes, len);
}

static pal_store *open_at(const char *url)
{
    pal_store *store = NULL;

    CHECK_STATUS(pal_store_open(url, NULL, &store, &err), PAL_OK, &err);
    return store;
}

static pal_id new_session(pal_store *store)
{
    pal_session wanted = {0};
    pal_id id = {{0}};

    CHECK_STATUS(pal_store_create(store, &wanted, &id, &err), PAL_OK, &err);
    return id;
}

static pal_status append_file(pal_store *store, pal_id session, pal_str data)
{
    pal_part part = {
            .kind = PAL_PART_FILE, .media_type = pal_str_of("application/pdf"), .data = data};
    pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};

    return pal_store_append(store, (pal_str){0}, session, &message, 1, PAL_SEQ_ANY, &err);
}

/* Whether the session's last message has this file. */
static bool has_file(pal_store *store, pal_id session, pal_str data)
{
    pal_message_query newest = {.limit = 1, .from_end = true};
    pal_arena *arena = pal_arena_new(0);
    pal_message_page page = {0};
    pal_str media_type, found;
    bool held;

    CHECK_STATUS(pal_store_load(store, (pal_str){0}, session, &newest, arena, &page, &err), PAL_OK,
            &err);
    held = CHECK_EQ(page.len, 1) &&
            CHECK_STATUS(pal_store_blob_get(store, (pal_str){0}, page.items[0].parts[0].blob, arena,
                                 &media_type, &found, &err), PAL_OK, &err) &&
            CHECK(pal_str_equal(found, data));
    pal_arena_free(arena);
    return held;
}

static long count(const char *table)
{
    char statement[100];

    snprintf(statement, sizeof statement, "SELECT count(*) FROM palaver.%s", table);
    return postgres_ask(statement);
}

static void sweep_after(pal_store *store, int64_t ms)
{
    pal_sweep_result swept = {0};

    pal_clock_set_ms(pal_clock_machine_ms() + ms);
    CHECK_STATUS(pal_store_sweep(store, 0, 100, &swept, &err), PAL_OK, &err);
    pal_clock_set_ms(0);
}

/* Removes everything that an earlier test left. */
static pal_store *open_empty(const char *url)
{
    pal_store *store = open_at(url);

    postgres_ask("DELETE FROM palaver.blob_ref");
    postgres_ask("DELETE FROM palaver.message");
    sweep_after(store, PAL_BLOB_UNUSED_MS_MAX + 1000);
    CHECK_EQ(count("blob"), 0);
    CHECK_EQ(count("blob_part"), 0);
    return store;
}

/* ---- A kill between the blob and the batch ---- */

/* Locks the heads of all sessions until the connection is closed. */
static PGconn *lock_heads(void)
{
    PGconn *pg = PQconnectdb(getenv("PALAVER_TEST_POSTGRES"));

    PQclear(PQexec(pg, "BEGIN"));
    PQclear(PQexec(pg, "SELECT 1 FROM palaver.head FOR UPDATE"));
    CHECK_EQ(PQtransactionStatus(pg), PQTRANS_INTRANS);
    return pg;
}

static pid_t append_in_child(pal_id session, pal_str data)
{
    pid_t child = fork();
    pal_store *store;

    if (child != 0)
        return child;
    store = open_at(getenv("PALAVER_TEST_POSTGRES"));
    _exit(store && append_file(store, session, data) == PAL_OK ? 0 : 1);
}

/* Waits until the blob is stored, while the batch waits for the lock. Then kills the process. */
static void kill_between(pal_id session, pal_str data)
{
    int64_t until_us = pal_clock_monotonic_us() + WAIT_US;
    PGconn *lock = lock_heads();
    pid_t child = append_in_child(session, data);
    int how = 0;

    while (count("blob") == 0 && pal_clock_monotonic_us() < until_us)
        usleep(20000);
    while (postgres_ask("SELECT count(*) FROM pg_locks WHERE NOT granted") == 0 &&
            pal_clock_monotonic_us() < until_us)
        usleep(20000);
    CHECK_EQ(waitpid(child, &how, WNOHANG), 0);
    kill(child, SIGKILL);
    CHECK_EQ(waitpid(child, &how, 0), child);
    CHECK(WIFSIGNALED(how));
    PQfinish(lock);
    while (postgres_ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'palaver'")
                    > 0 && pal_clock_monotonic_us() < until_us)
        usleep(20000); /* the server processes of the killed process */
    CHECK_EQ(count("blob"), 1);
    CHECK_EQ(count("blob_part"), PARTS);
    CHECK_EQ(count("blob_ref"), 0);
    CHECK_EQ(count("message"), 0);
}

static void a_killed_process_leaves_a_blob_that_is_used_later(void)
{
    pal_store *store = open_empty(getenv("PALAVER_TEST_POSTGRES"));
    pal_id session = new_session(store);
    pal_str data = bytes_of(1, LARGE);

    pal_store_close(store);
    kill_between(session, data);
    store = open_at(getenv("PALAVER_TEST_POSTGRES"));
    sweep_after(store, 1000); /* it may still be used */
    CHECK_STATUS(append_file(store, session, data), PAL_OK, &err);
    CHECK(has_file(store, session, data));
    CHECK_EQ(count("blob"), 1);
    CHECK_EQ(count("blob_part"), PARTS);
    CHECK_EQ(count("blob_ref"), 1);
    sweep_after(store, PAL_BLOB_UNUSED_MS_MAX + 1000);
    CHECK(has_file(store, session, data));
    pal_store_close(store);
}

static void a_killed_process_leaves_a_blob_that_is_swept(void)
{
    pal_store *store = open_empty(getenv("PALAVER_TEST_POSTGRES"));
    pal_id session = new_session(store);

    pal_store_close(store);
    kill_between(session, bytes_of(2, LARGE));
    store = open_at(getenv("PALAVER_TEST_POSTGRES"));
    sweep_after(store, PAL_BLOB_UNUSED_MS_MAX + 1000);
    CHECK_EQ(count("blob"), 0);
    CHECK_EQ(count("blob_part"), 0);
    pal_store_close(store);
}

/* An erasure removes the only use of a blob after another caller has found that it exists. That
 * caller's batch stores the blob again. */
static void an_erasure_in_between_is_harmless(void)
{
    pal_store *store = open_empty(getenv("PALAVER_TEST_POSTGRES"));
    pal_id first = new_session(store), second = new_session(store);
    int64_t until_us = pal_clock_monotonic_us() + WAIT_US;
    pal_erase_result erasure = {0};
    pal_str data = bytes_of(3, LARGE);
    PGconn *lock;
    pid_t child;
    int how = 0;

    CHECK_STATUS(append_file(store, first, data), PAL_OK, &err);
    pal_store_close(store);
    lock = lock_heads();
    child = append_in_child(second, data);
    while (postgres_ask("SELECT count(*) FROM pg_locks WHERE NOT granted") == 0 &&
            pal_clock_monotonic_us() < until_us)
        usleep(20000);
    /* The effect of an erasure on the blob; a real erasure would wait for the lock. */
    postgres_ask("DELETE FROM palaver.blob_ref");
    postgres_ask("DELETE FROM palaver.blob_part");
    postgres_ask("DELETE FROM palaver.blob");
    PQfinish(lock);
    CHECK_EQ(waitpid(child, &how, 0), child);
    CHECK(WIFEXITED(how));
    CHECK_EQ(WEXITSTATUS(how), 0);
    store = open_at(getenv("PALAVER_TEST_POSTGRES"));
    CHECK(has_file(store, second, data));
    CHECK_STATUS(pal_store_erase(store, (pal_str){0}, second, &erasure, &err), PAL_OK, &err);
    CHECK_EQ(erasure.blobs, 1);
    pal_store_close(store);
}

/* ---- A cut at any message ---- */

static unsigned cut_everywhere(cut_kind kind)
{
    pal_store *store = open_empty(through);
    pal_id session = new_session(store);
    bool held = true;
    unsigned nth = 1;

    for (; held && nth < MESSAGES_MAX; nth++) {
        pal_str data = bytes_of(1000 * (unsigned)kind + nth, (2 << 20) + nth);

        postgres_proxy_arm(nth, kind);
        held = CHECK_STATUS(append_file(store, session, data), PAL_OK, &err) &&
                has_file(store, session, data);
        if (!postgres_proxy_fired())
            break;
    }
    postgres_proxy_arm(0, kind);
    CHECK_EQ(count("message"), nth);
    CHECK_EQ(count("blob"), nth);
    CHECK_EQ(count("blob_part"), 3 * nth);
    CHECK_EQ(count("blob_ref"), nth);
    pal_store_close(store);
    return nth;
}

static void a_cut_at_any_message_is_harmless(void)
{
    CHECK_THAT(cut_everywhere(CUT_BEFORE), >=, 16);
    CHECK_THAT(cut_everywhere(CUT_INSIDE), >=, 16);
    CHECK_THAT(cut_everywhere(CUT_AFTER), >=, 16);
}

int main(void)
{
    const char *server_dir = getenv("PALAVER_TEST_POSTGRES_DIR");

    if (!server_dir)
        return 77; /* tools/pg-test did not start a server */
    scratch_make(false, directory);
    snprintf(through, sizeof through, "postgres://postgres@/palaver?host=%s", directory);
    RUN(a_killed_process_leaves_a_blob_that_is_used_later);
    RUN(a_killed_process_leaves_a_blob_that_is_swept);
    RUN(an_erasure_in_between_is_harmless);
    if (CHECK(postgres_proxy_start(directory, server_dir)))
        RUN(a_cut_at_any_message_is_harmless);
    scratch_clear(directory, true);
    return tap_done();
}
