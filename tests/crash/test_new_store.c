/* test_new_store.c - a newly created store: the names of its files and directories are durable
 * before the first message is acknowledged, and only the owner can read them, whatever the umask
 * allows. fsck reports files that others can read, and makes them private. */
#define _XOPEN_SOURCE 700
#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include "palaver/palaver.h"
#include "support/disk/disk_trace.h"
#include "support/scratch.h"
#include "support/tap.h"

static char root[SCRATCH_PATH_MAX], url[512];
static bool is_jsonl;
static pal_error err;

static pal_store *open_store(void)
{
    pal_store *store = NULL;

    CHECK_STATUS(pal_store_open(url, &(pal_store_options){.estimate = true}, &store, &err), PAL_OK,
            &err);
    return store;
}

/* Writes acknowledged messages in sessions that have a key, a fork and a blob, each followed by a
 * note in the trace. */
static void say_some(pal_store *store)
{
    pal_part part = {.kind = PAL_PART_TEXT, .text = pal_str_of("text")};
    pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};
    pal_message other = message;
    pal_session session = {.key = pal_str_of("a key"), .tenant = pal_str_of("someone")};
    pal_str tenant = session.tenant;
    pal_id ids[2];
    char name[PAL_BLOB_NAME_SIZE];

    CHECK_STATUS(pal_store_create(store, &session, &ids[0], &err), PAL_OK, &err);
    CHECK_STATUS(
            pal_store_append(store, tenant, ids[0], &message, 1, PAL_SEQ_ANY, &err), PAL_OK, &err);
    trace_note(1);
    session.key = pal_str_of("a fork");
    CHECK_STATUS(pal_store_fork(store, &session, ids[0], 1, &ids[1], &err), PAL_OK, &err);
    CHECK_STATUS(
            pal_store_append(store, tenant, ids[1], &other, 1, PAL_SEQ_ANY, &err), PAL_OK, &err);
    trace_note(2);
    CHECK_STATUS(
            pal_store_blob_put(store, tenant, pal_str_of("image/png"), pal_str_of("x"), name, &err),
            PAL_OK, &err);
    trace_note(3);
}

/* ---- Names ---- */

static bool is_derived(const char *name)
{
    size_t len = strlen(name);

    return len > 4 && strcmp(name + len - 4, "-shm") == 0;
}

/* Whether the name that event `at` created is durable at event `end`, or removed again. */
static bool is_settled(const disk_trace *trace, size_t at, size_t end)
{
    const trace_event *given = &trace->events[at];

    for (size_t i = at + 1; i < end; i++) {
        const trace_event *event = &trace->events[i];
        bool is_removal = event->kind == TRACE_REMOVE || event->kind == TRACE_RENAME;

        if (event->kind == TRACE_SYNC && event->node == given->dir)
            return true;
        if (is_removal && event->dir == given->dir && strcmp(event->name, given->name) == 0)
            return true;
    }
    return false;
}

static void names_are_durable_with_the_first_message(void)
{
    const disk_trace *trace;
    int notes = 0, names = 0;

    scratch_clear(root, false);
    trace_begin(root);
    pal_store *store = open_store();
    say_some(store);
    trace = trace_end();
    for (size_t end = trace->first; end < trace->len; end++) {
        if (trace->events[end].kind != TRACE_NOTE)
            continue;
        notes++;
        for (size_t at = trace->first; at < end; at++) {
            const trace_event *event = &trace->events[at];

            if (event->kind != TRACE_NAME || is_derived(event->name))
                continue;
            names++;
            if (!CHECK(is_settled(trace, at, end)))
                printf("# '%s' is not durable at note %d\n", event->name, notes);
        }
    }
    CHECK_EQ(notes, 3);
    CHECK_THAT(names, >, 0);
    pal_store_close(store);
    trace_free();
}

/* ---- Modes ---- */

static int strangers;

static int look(const char *path, const struct stat *facts, int kind, struct FTW *walk)
{
    (void)kind;
    if (walk->level > 0 && (facts->st_mode & 077) != 0) {
        printf("# %s has the mode %o\n", path, facts->st_mode & 0777);
        strangers++;
    }
    return 0;
}

static void files_are_for_their_owner_alone(void)
{
    mode_t before = umask(0);

    scratch_clear(root, false);
    pal_store *store = open_store();
    say_some(store);
    strangers = 0;
    nftw(root, look, 16, FTW_PHYS);
    CHECK_EQ(strangers, 0);
    pal_store_close(store);
    umask(before);
}

typedef struct fsck_sum {
    int advice, repaired, problems;
} fsck_sum;

static void count(const pal_store_finding *finding, void *user)
{
    fsck_sum *sum = user;

    sum->advice += finding->advice && strstr(finding->text, "can be read by others") != NULL;
    sum->repaired += finding->repaired;
    sum->problems += !finding->advice;
}

static fsck_sum check_store(pal_store *store, bool repair)
{
    fsck_sum sum = {0};
    uint64_t findings = 99;

    CHECK_STATUS(pal_store_check(store, repair, count, NULL, &sum, &findings, &err), PAL_OK, &err);
    CHECK_EQ(findings, (uint64_t)sum.problems);
    return sum;
}

static void files_that_others_can_read_are_reported_and_made_private(void)
{
    char path[SCRATCH_PATH_MAX + 16];
    struct stat facts;
    pal_store *store;
    fsck_sum sum;

    scratch_clear(root, false);
    store = open_store();
    say_some(store);
    snprintf(path, sizeof path, "%s/%s", root, is_jsonl ? "store" : "store.db");
    CHECK_EQ(chmod(path, is_jsonl ? 0755 : 0644), 0);
    sum = check_store(store, false);
    CHECK_EQ(sum.advice, 1);
    CHECK_EQ(sum.repaired, 0);
    CHECK_EQ(sum.problems, 0);
    sum = check_store(store, true);
    CHECK_EQ(sum.advice, 1);
    CHECK_EQ(sum.repaired, 1);
    CHECK_EQ(sum.problems, 0);
    if (CHECK_EQ(stat(path, &facts), 0))
        CHECK_EQ((facts.st_mode & 0777), (is_jsonl ? 0700 : 0600));
    sum = check_store(store, false);
    CHECK_EQ(sum.advice, 0);
    CHECK_EQ(sum.problems, 0);
    pal_store_close(store);
}

int main(int argc, char **argv)
{
    is_jsonl = argc > 1 && strcmp(argv[1], "jsonl") == 0;
    scratch_make(true, root);
    snprintf(url, sizeof url, "%s:%s/store%s", is_jsonl ? "jsonl" : "sqlite", root,
            is_jsonl ? "" : ".db");
    RUN(names_are_durable_with_the_first_message);
    RUN(files_are_for_their_owner_alone);
    RUN(files_that_others_can_read_are_reported_and_made_private);
    scratch_clear(root, true);
    return tap_done();
}
