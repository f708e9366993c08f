/* test_powercut.c - runs a script once, records every disk call, and produces states that the disk
 * could have after a power cut at many points. Each state is opened by separate processes: one that
 * only reads, one that writes, and one that writes to a plain copy. All of them must show the store
 * as it was after the last acknowledged step, or after the step in progress, and nothing else. fsck
 * must find no problem.
 *
 * Environment: POWERCUT_STATES (120): the number of states of each kind; POWERCUT_SEED. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "cut_check.h"
#include "support/disk/disk_state.h"
#include "support/disk/disk_trace.h"
#include "support/scratch.h"
#include "support/tap.h"

#define REPEAT_CALLS 12 /* more than an append makes */
#define REPEAT_STATES 4 /* states of each kind */

static char root[SCRATCH_PATH_MAX], state[SCRATCH_PATH_MAX];
static bool is_jsonl, has_failed_syncs;
static uint64_t seed, states_asked = 120;
static script_texts texts;

/* ---- One state ---- */

/* The number of steps that were acknowledged before the power cut, as the index of a text. */
static size_t acknowledged(const disk_trace *trace, size_t cut)
{
    size_t index = 0;

    for (size_t i = 0; i < cut; i++)
        if (trace->events[i].kind == TRACE_NOTE)
            index = trace->events[i].offset;
    return index;
}

static bool state_holds(const disk_trace *trace, const disk_plan *plan)
{
    char original[512], copy[512];

    scratch_clear(state, false);
    snprintf(original, sizeof original, "%s/a", state);
    snprintf(copy, sizeof copy, "%s/b", state);
    if (mkdir(original, 0700) != 0)
        return false;
    disk_state_make(trace, plan, original);
    return cut_holds(is_jsonl, original, copy, &texts, acknowledged(trace, plan->cut),
            has_failed_syncs);
}

/* ---- Many ---- */

static uint64_t chance(uint64_t *random)
{
    uint64_t x = *random += 0x9e3779b97f4a7c15u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Cuts the power anywhere in the trace. Returns the number of wrong states, at most `enough`. */
static uint64_t explore(const disk_trace *trace, bool is_strict, unsigned forget, uint64_t states,
        uint64_t enough)
{
    uint64_t violations = 0, random = seed + is_strict;

    for (uint64_t i = 0; i < states && violations < enough; i++) {
        disk_plan plan = {.seed = chance(&random), .is_strict = is_strict, .forget = forget};

        plan.cut = trace->first + chance(&random) % (trace->len - trace->first + 1);
        if (state_holds(trace, &plan))
            continue;
        violations++;
        printf("# wrong: cut %zu of %zu, seed %" PRIu64 ", %s names\n", plan.cut, trace->len,
                plan.seed, is_strict ? "strict" : "journal");
    }
    return violations;
}

/* Prepares the directory for a script that is traced. */
static void record_begin(char out_url[512])
{
    script_texts_free(&texts);
    scratch_clear(root, false);
    script_prepare(is_jsonl, root);
    script_url(is_jsonl, root, out_url);
    trace_begin(root);
}

/* One in `fail_one_in` syncs fails, or the process dies at one in `die_one_in` calls; 0: never. */
static const disk_trace *record(unsigned fail_one_in, unsigned die_one_in)
{
    char url[512];

    has_failed_syncs = fail_one_in > 0;
    record_begin(url);
    trace_fail_syncs(fail_one_in, is_jsonl);
    trace_die(die_one_in);
    script_run(url, seed, fail_one_in + die_one_in > 0, &texts);
    printf("# %zu disk calls, %zu steps\n", trace_end()->len - trace_end()->first, texts.len);
    return trace_end();
}

static void a_power_cut_takes_back_nothing_with_a_journal_of_names(void)
{
    CHECK_EQ(explore(record(0, 0), false, 0, states_asked, 5), 0);
}

static void a_power_cut_that_loses_any_names_takes_back_nothing(void)
{
    CHECK_EQ(explore(record(0, 0), true, 0, states_asked, 5), 0);
}

/* Each failed sync has permanently lost some of the data that it should have made durable. */
static void a_power_cut_after_failed_syncs_takes_back_nothing(void)
{
    CHECK_EQ(explore(record(7, 0), false, 0, states_asked / 2, 5), 0);
    CHECK_EQ(explore(record(11, 0), true, 0, states_asked / 2, 5), 0);
}

/* Another process continues with data that the dead process had written but not synced. */
static void a_power_cut_after_dead_processes_takes_back_nothing(void)
{
    CHECK_EQ(explore(record(0, 61), false, 0, states_asked / 2, 5), 0);
    CHECK_EQ(explore(record(0, 43), true, 0, states_asked / 2, 5), 0);
}

/* The next process finds the data of the dead one, has nothing to write itself, and must not
 * acknowledge anything that a power cut could still remove. */
static void a_repeated_acknowledged_message_is_kept(void)
{
    uint64_t random = seed;
    char url[512];

    has_failed_syncs = false;
    for (uint64_t calls = 1; calls <= REPEAT_CALLS; calls++) {
        const disk_trace *trace;
        size_t cut;

        record_begin(url);
        script_repeat(url, calls, &texts);
        trace = trace_end();
        for (cut = trace->len; trace->events[cut - 1].kind != TRACE_NOTE; cut--)
            continue;
        for (int i = 0; i < REPEAT_STATES; i++) {
            disk_plan plan = {.seed = chance(&random), .is_strict = i % 2 == 0, .cut = cut};

            if (CHECK(state_holds(trace, &plan)))
                continue;
            printf("# the process died at its call %" PRIu64 "\n", calls);
            break;
        }
    }
}

/* This shows that the test can find problems. */
static void forgotten_syncs_are_found_out(void)
{
    int silent = dup(1), null = open("/dev/null", O_WRONLY);
    uint64_t violations;

    fflush(stdout);
    dup2(null, 1);
    violations = explore(record(0, 0), true, 5, 4000, 1);
    fflush(stdout);
    dup2(silent, 1);
    close(null);
    close(silent);
    CHECK_THAT(violations, >, 0);
}

int main(int argc, char **argv)
{
    const char *asked = getenv("POWERCUT_STATES"), *given = getenv("POWERCUT_SEED");

    is_jsonl = argc > 1 && strcmp(argv[1], "jsonl") == 0;
    if (asked && atoi(asked) > 0)
        states_asked = (uint64_t)atoi(asked);
    seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    printf("# POWERCUT_SEED=%" PRIu64 "\n", seed);
    scratch_make(true, root);
    scratch_make(true, state);
    RUN(a_power_cut_takes_back_nothing_with_a_journal_of_names);
    RUN(a_power_cut_that_loses_any_names_takes_back_nothing);
    RUN(a_power_cut_after_failed_syncs_takes_back_nothing);
    RUN(a_power_cut_after_dead_processes_takes_back_nothing);
    RUN(a_repeated_acknowledged_message_is_kept);
    RUN(forgotten_syncs_are_found_out);
    script_texts_free(&texts);
    trace_free();
    scratch_clear(root, true);
    scratch_clear(state, true);
    return tap_done();
}
