/* test_fault.c - the tour (contract_tour.h) with a backend that fails, or a process that ends, at
 * call 1, 2, 3 ... No partial work is ever visible, errors reach the caller, and acknowledged work
 * is there. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "contract_tour.h"
#include "support/store_fault.h"

#define CALLS_MAX 1000 /* more than the tour makes */

static void open_fresh(void)
{
    pal_store_close(test.store);
    test.store = NULL;
    contract_clear();
    contract_open_with(NULL);
}

static void complain(const char *what, uint64_t call, size_t step, pal_status status)
{
    printf("# call %llu: step '%s' gave %s: %s\n", (unsigned long long)call, tour[step].name,
            pal_status_name(status), what);
}

/* If the result of a step was lost, all or nothing of it may be there; otherwise the store is as
 * the step reported. */
static bool step_is_whole(size_t step, pal_status status, bool answer_lost)
{
    tour_sight seen;

    if (!tour[step].seen || (status != PAL_OK && tour[step].seen_if_ok_only))
        return true;
    seen = tour_seen(step);
    if (answer_lost && status == PAL_IO)
        return seen != TOUR_HALF;
    return seen == (status == PAL_OK ? TOUR_ALL : TOUR_NONE);
}

static bool tour_is_whole(uint64_t call, const pal_status *statuses, bool answer_lost)
{
    bool whole = true;

    for (size_t i = 0; i < tour_len; i++)
        if (!step_is_whole(i, statuses[i], answer_lost)) {
            complain("but that is not what is there", call, i, statuses[i]);
            whole = false;
        }
    return whole;
}

/* Searches work without an index, so a commit of the index is the only one that can fail unseen:
 * once for each search of the tour that covers all sessions. */
enum { SEARCHES_OF_ALL = 2 };
static int unseen;

/* The first failing step is the one that was hit, and it fails with the status of the backend. */
static bool error_arrives(uint64_t call, const pal_status *statuses)
{
    for (size_t i = 0; i < tour_len; i++) {
        if (statuses[i] == PAL_OK)
            continue;
        if (statuses[i] != PAL_IO)
            complain("not what the engine said", call, i, statuses[i]);
        return statuses[i] == PAL_IO;
    }
    if (unseen++ < SEARCHES_OF_ALL)
        return true;
    printf("# call %llu failed and was not reported\n", (unsigned long long)call);
    return false;
}

/* One run. Returns false if the tour makes fewer calls than that. */
static bool fail_at(store_fault fault)
{
    pal_status statuses[TOUR_STEPS_MAX];
    bool fired;

    open_fresh();
    CHECK_STATUS(store_fault_install(test.store, &fault), PAL_OK);
    tour_run(statuses);
    fired = store_fault_disarm(test.store);
    CHECK(tour_is_whole(fault.call, statuses, fault.after));
    if (fired)
        CHECK(error_arrives(fault.call, statuses));
    if (contract_is_durable()) {
        contract_reopen_store();
        CHECK(tour_is_whole(fault.call, statuses, fault.after));
    }
    return fired;
}

static void the_tour_passes_untouched(void)
{
    pal_status statuses[TOUR_STEPS_MAX];

    pal_arena_free(test.arena);
    tour_run(statuses);
    for (size_t i = 0; i < tour_len; i++)
        if (!CHECK_STATUS(statuses[i], PAL_OK))
            complain("without any fault", 0, i, statuses[i]);
    CHECK(tour_is_whole(0, statuses, false));
}

static void a_call_that_fails_changes_nothing(void)
{
    store_fault fault = {.call = 1, .status = PAL_IO};

    pal_arena_free(test.arena);
    unseen = 0;
    while (fault.call < CALLS_MAX && fail_at(fault))
        fault.call++;
    CHECK_THAT(fault.call, >, tour_len);
    CHECK_THAT(fault.call, <, CALLS_MAX);
}

static void a_lost_answer_leaves_nothing_half_done(void)
{
    store_fault fault = {.call = 1, .after = true, .status = PAL_IO};

    pal_arena_free(test.arena);
    unseen = 0;
    while (fault.call < CALLS_MAX && fail_at(fault))
        fault.call++;
    CHECK_THAT(fault.call, >, tour_len);
    CHECK_THAT(fault.call, <, CALLS_MAX);
}

/* ---- Crashes ---- */

/* Runs the tour in a separate process, which reports each status at once. */
static void crash_child(store_fault fault, int fd)
{
    contract_open_with(NULL);
    if (store_fault_install(test.store, &fault) != PAL_OK)
        _exit(1);
    for (size_t i = 0; i < tour_len; i++) {
        unsigned char status = (unsigned char)tour_call(i);

        if (write(fd, &status, 1) != 1)
            _exit(1);
    }
    _exit(0);
}

static size_t read_statuses(int fd, pal_status *out_statuses)
{
    unsigned char status;
    size_t len = 0;

    while (len < TOUR_STEPS_MAX && read(fd, &status, 1) == 1)
        out_statuses[len++] = status;
    return len;
}

/* One crash. Returns false if the tour makes fewer calls than that. */
static bool crash_at(store_fault fault)
{
    pal_status statuses[TOUR_STEPS_MAX];
    size_t len;
    int fds[2], exit_status = 0;
    pid_t child;

    pal_store_close(test.store);
    test.store = NULL;
    contract_clear();
    if (!CHECK_EQ(pipe(fds), 0))
        return false;
    fflush(stdout);
    child = fork();
    if (child == 0)
        crash_child(fault, fds[1]);
    close(fds[1]);
    len = read_statuses(fds[0], statuses);
    close(fds[0]);
    waitpid(child, &exit_status, 0);
    contract_open_with(NULL);
    for (size_t i = 0; i < len; i++)
        if (!CHECK(step_is_whole(i, statuses[i], false)))
            complain("and the crash took it", fault.call, i, statuses[i]);
    for (size_t i = len; i < tour_len; i++)
        if (tour[i].seen && !CHECK_THAT(tour_seen(i), !=, TOUR_HALF))
            complain("half done by the crash", fault.call, i, PAL_OK);
    return WIFEXITED(exit_status) && WEXITSTATUS(exit_status) == STORE_FAULT_EXIT;
}

static void a_crash_takes_nothing_back(void)
{
    store_fault before = {.call = 1}, after = {.call = 1, .after = true};

    pal_arena_free(test.arena);
    while (before.call < CALLS_MAX && crash_at(before))
        before.call++;
    while (after.call < CALLS_MAX && crash_at(after))
        after.call++;
    CHECK_EQ(before.call, after.call);
    CHECK_THAT(before.call, >, tour_len);
}

int main(int argc, char **argv)
{
    if (!contract_begin(argc, argv, true))
        return 1;
    RUN(the_tour_passes_untouched);
    RUN(a_call_that_fails_changes_nothing);
    RUN(a_lost_answer_leaves_nothing_half_done);
    if (contract_is_durable())
        RUN(a_crash_takes_nothing_back);
    return contract_end();
}
