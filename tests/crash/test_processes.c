/* test_processes.c - many processes and threads on one store, none of which is killed: messages
 * stay in order, no message is lost, and no caller ever sees a lock.
 *
 *   test_processes [SCHEME]
 *
 * Environment: PROCESSES_APPENDS (60): messages per thread. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "crash_pattern.h"
#include "palaver/store.h"
#include "palaver/store_admin.h"
#include "palaver/store_batch.h"
#include "palaver/store_turns.h"
#include "support/scratch.h"
#include "support/tap.h"

#define THREADS_MAX 32
#define SESSIONS_MAX 1000
#define SEQS_MAX 4096
#define CONTENDED_SEQS 300
#define LEASE_MS 60000
#define LAST_LEASE_MS 100
#define TAKE_OVER_MS 20000 /* longer than this means an error */

typedef struct plan {
    size_t processes, threads, sessions;
} plan;

/* In memory that all processes share. */
typedef struct shared {
    uint32_t winners[SEQS_MAX]; /* how many processes got PAL_OK for it */
    uint32_t winner[SEQS_MAX];  /* the process */
    uint32_t conflicts;
} shared;

typedef struct job {
    pthread_t thread;
    pal_store *store;
    const plan *plan;
    uint32_t writer;
    bool failed;
    pattern_message room;
} job;

static shared *common;
static char directory[SCRATCH_PATH_MAX];
static char path[SCRATCH_PATH_MAX + 32];
static uint32_t appends = 60;
static const pal_str tenant = {"processes", 9};

static pal_id session_id(uint64_t index)
{
    return pattern_id(4000, index);
}

static bool worked(pal_status status, const pal_error *error)
{
    if (status != PAL_OK)
        printf("# %s: %s\n", pal_status_name(status), error->message);
    return status == PAL_OK;
}

static pal_store *open_store(void)
{
    pal_store *store = NULL;
    pal_error error = {0};

    worked(pal_store_open(path, NULL, &store, &error), &error);
    return store;
}

static bool create_sessions(size_t count)
{
    static pal_op ops[SESSIONS_MAX];
    static pal_session sessions[SESSIONS_MAX];
    pal_store *store = open_store();
    pal_error error = {0};
    bool held;

    for (size_t i = 0; i < count; i++) {
        sessions[i] = (pal_session){.tenant = tenant};
        ops[i] = (pal_op){.kind = PAL_OP_CREATE, .tenant = tenant, .session = session_id(i)};
        ops[i].u.create.session = &sessions[i];
    }
    held = store && worked(pal_store_apply(store, ops, count, &error), &error);
    for (size_t i = 0; held && i < count; i++)
        held = worked(ops[i].status, &ops[i].error);
    pal_store_close(store);
    return held;
}

/* ---- Processes of threads ---- */

/* Runs `work` in all threads of one process. Ends the process. */
static void process_run(const plan *p, size_t index, void *(*work)(void *))
{
    static job jobs[THREADS_MAX];
    pal_store *store = open_store();
    bool failed = !store;

    for (size_t i = 0; !failed && i < p->threads; i++) {
        jobs[i].store = store;
        jobs[i].plan = p;
        jobs[i].writer = (uint32_t)(index * p->threads + i + 1);
        if (pthread_create(&jobs[i].thread, NULL, work, &jobs[i]) != 0)
            _exit(2);
    }
    for (size_t i = 0; store && i < p->threads; i++) {
        pthread_join(jobs[i].thread, NULL);
        failed |= jobs[i].failed;
    }
    pal_store_close(store);
    fflush(stdout);
    _exit(failed);
}

/* Returns whether all processes succeeded. */
static bool processes_run(const plan *p, void *(*work)(void *))
{
    bool held = true;
    int status;

    memset(common, 0, sizeof(*common));
    fflush(stdout);
    for (size_t i = 0; i < p->processes; i++) {
        pid_t pid = fork();
        if (pid == 0)
            process_run(p, i, work);
        held &= pid > 0;
    }
    while (wait(&status) > 0)
        held &= status == 0;
    return held;
}

/* ---- Appending without regard to each other ---- */

static size_t session_of(const plan *p, uint32_t writer, uint64_t counter)
{
    return pattern_hash(writer, counter) % p->sessions;
}

static void *append_on(void *user)
{
    job *j = user;
    pal_error error = {0};

    for (uint64_t counter = 1; !j->failed && counter <= appends; counter++) {
        pattern what = {.writer = j->writer, .counter = counter, .parts = 1};
        pal_id session = session_id(session_of(j->plan, j->writer, counter));
        pattern_message_init(&j->room, &what);
        j->failed = !worked(pal_store_append(j->store, tenant, session, &j->room.message, 1,
                                    PAL_SEQ_ANY, &error),
                &error);
    }
    return NULL;
}

/* Counts the messages of each writer in the session. Returns false if any message is out of
 * place. */
static bool session_check(pal_store *store, const plan *p, size_t index, uint64_t *in_out_total)
{
    uint64_t last[THREADS_MAX * 8] = {0};
    pal_arena *arena = pal_arena_new(0);
    pal_message_page messages = {0};
    pal_error error = {0};
    pattern what;
    bool held;

    held = worked(pal_store_load(store, tenant, session_id(index), NULL, arena, &messages, &error),
            &error);
    for (size_t i = 0; held && i < messages.len; i++) {
        held = messages.items[i].seq == i + 1 && pattern_read(&messages.items[i], &what) &&
                what.writer <= p->processes * p->threads &&
                session_of(p, what.writer, what.counter) == index &&
                what.counter > last[what.writer];
        if (held)
            last[what.writer] = what.counter;
    }
    *in_out_total += messages.len;
    pal_arena_free(arena);
    return held;
}

static void appends_are_gapless(plan p)
{
    pal_store *store = NULL;
    uint64_t total = 0, findings = 0;
    bool held;

    scratch_clear(directory, false);
    if (!CHECK(create_sessions(p.sessions)) || !CHECK(processes_run(&p, append_on)))
        return;
    store = open_store();
    held = store != NULL;
    for (size_t i = 0; held && i < p.sessions; i++)
        held = session_check(store, &p, i, &total);
    CHECK(held);
    /* All messages are different, so the right number means that each of them is there. */
    CHECK_EQ(total, p.processes * p.threads * appends);
    CHECK_STATUS(pal_store_check(store, false, NULL, NULL, NULL, &findings, NULL), PAL_OK);
    CHECK_EQ(findings, 0);
    pal_store_close(store);
}

static void four_processes_append_to_one_session(void)
{
    appends_are_gapless((plan){.processes = 4, .threads = 8, .sessions = 1});
}

static void four_processes_append_to_a_thousand_sessions(void)
{
    appends_are_gapless((plan){.processes = 4, .threads = 8, .sessions = 1000});
}

static void many_threads_append_to_one_session(void)
{
    appends_are_gapless((plan){.processes = 1, .threads = 32, .sessions = 1});
}

static void many_threads_append_to_a_thousand_sessions(void)
{
    appends_are_gapless((plan){.processes = 1, .threads = 32, .sessions = 1000});
}

/* ---- Appending where the session stands as expected ---- */

static uint64_t last_seq(pal_store *store, pal_arena *arena)
{
    char name[PAL_ID_TEXT_SIZE];
    pal_session session = {0};
    pal_error error = {0};

    pal_arena_reset(arena);
    pal_id_to_text(session_id(0), name);
    if (!worked(pal_store_find(store, tenant, PAL_SESSION_BY_ID, pal_str_of(name), arena, &session,
                        &error),
                &error))
        return SEQS_MAX;
    return session.last_seq;
}

static void *contend_on(void *user)
{
    job *j = user;
    pal_arena *arena = pal_arena_new(0);
    pal_error error = {0};
    uint64_t seq;

    for (uint64_t counter = 1; (seq = last_seq(j->store, arena)) < CONTENDED_SEQS; counter++) {
        pattern what = {.writer = j->writer, .counter = counter, .parts = 1};
        pal_status status;
        pattern_message_init(&j->room, &what);
        status =
                pal_store_append(j->store, tenant, session_id(0), &j->room.message, 1, seq, &error);
        if (status == PAL_CONFLICT) {
            __atomic_add_fetch(&common->conflicts, 1, __ATOMIC_RELAXED);
            continue;
        }
        if (!worked(status, &error) || j->room.message.seq != seq + 1)
            break;
        __atomic_add_fetch(&common->winners[seq + 1], 1, __ATOMIC_RELAXED);
        __atomic_store_n(&common->winner[seq + 1], j->writer, __ATOMIC_RELAXED);
    }
    j->failed = seq != CONTENDED_SEQS;
    pal_arena_free(arena);
    return NULL;
}

static void an_expected_seq_has_one_winner(void)
{
    plan p = {.processes = 4, .threads = 4, .sessions = 1};
    pal_arena *arena = pal_arena_new(0);
    pal_message_page messages = {0};
    pal_store *store = NULL;
    pattern what;

    scratch_clear(directory, false);
    CHECK(create_sessions(1));
    CHECK(processes_run(&p, contend_on));
    store = open_store();
    CHECK_STATUS(
            pal_store_load(store, tenant, session_id(0), NULL, arena, &messages, NULL), PAL_OK);
    CHECK_EQ(messages.len, CONTENDED_SEQS);
    for (size_t i = 0; i < messages.len && i < CONTENDED_SEQS; i++)
        if (!CHECK_EQ(messages.items[i].seq, i + 1) || !CHECK_EQ(common->winners[i + 1], 1) ||
                !CHECK(pattern_read(&messages.items[i], &what)) ||
                !CHECK_EQ(what.writer, common->winner[i + 1]))
            break;
    printf("# %" PRIu32 " were refused\n", common->conflicts);
    CHECK_THAT(common->conflicts, >, 0);
    pal_store_close(store);
    pal_arena_free(arena);
}

/* ---- Leases ---- */

static void wait_ms(int64_t ms)
{
    struct timespec wait = {.tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000};

    nanosleep(&wait, NULL);
}

static pal_status append_fenced(pal_store *store, uint64_t fence, uint64_t counter)
{
    static pattern_message room;
    pattern what = {.writer = 1, .counter = counter, .parts = 1};
    pal_op op = {.kind = PAL_OP_APPEND, .tenant = tenant, .session = session_id(0)};
    pal_status status;

    pattern_message_init(&room, &what);
    op.fence = fence;
    op.u.append.messages = &room.message;
    op.u.append.messages_len = 1;
    op.u.append.expected_seq = PAL_SEQ_ANY;
    status = pal_store_apply(store, &op, 1, NULL);
    return status ? status : op.status;
}

/* The process that takes the lease first, hangs, and continues too late. It holds the lease for
 * long while others must not get it, and finally for a moment, so that it expires. */
typedef struct owner_report {
    uint64_t fence;
    pal_status taken, written, written_late;
} owner_report;

static pal_status owner_take(pal_store *store, int64_t ttl_ms, uint64_t *out_fence)
{
    return pal_store_lease_take(
            store, tenant, session_id(0), pal_str_of("first"), ttl_ms, out_fence, NULL);
}

static void owner_tell(const owner_report *report, int out)
{
    if (write(out, report, sizeof(*report)) != sizeof(*report))
        _exit(2);
}

static void owner_hang(int wake)
{
    char go;

    if (read(wake, &go, 1) != 1)
        _exit(2);
}

static void owner_run(int out, int wake)
{
    owner_report report = {0};
    pal_store *store = open_store();

    report.taken = owner_take(store, LEASE_MS, &report.fence);
    report.written = append_fenced(store, report.fence, 1);
    owner_tell(&report, out);
    owner_hang(wake);
    report.taken = owner_take(store, LAST_LEASE_MS, &report.fence);
    owner_tell(&report, out);
    owner_hang(wake);
    report.written_late = append_fenced(store, report.fence, 2);
    owner_tell(&report, out);
    pal_store_close(store);
    _exit(0);
}

/* Starts the first owner. It reports through *out_report; a byte to *out_wake wakes it. */
static pid_t owner_start(int *out_report, int *out_wake)
{
    int report[2], wake[2];
    pid_t pid;

    fflush(stdout);
    if (pipe(report) != 0 || pipe(wake) != 0)
        abort();
    pid = fork();
    if (pid == 0)
        owner_run(report[1], wake[0]);
    close(report[1]);
    close(wake[0]);
    *out_report = report[0];
    *out_wake = wake[1];
    return pid;
}

static bool owner_wake(int wake, int from, owner_report *out_report)
{
    return write(wake, "!", 1) == 1 &&
            read(from, out_report, sizeof(*out_report)) == sizeof(*out_report);
}

static pal_status second_take(pal_store *store, uint64_t *out_fence)
{
    return pal_store_lease_take(
            store, tenant, session_id(0), pal_str_of("second"), 60000, out_fence, NULL);
}

/* Takes the lease as soon as it is available. */
static bool take_over(pal_store *store, uint64_t *out_fence)
{
    pal_status status = second_take(store, out_fence);

    for (int64_t waited = 0; status == PAL_BUSY && waited < TAKE_OVER_MS; waited += 5) {
        wait_ms(5);
        status = second_take(store, out_fence);
    }
    return status == PAL_OK;
}

static void lease_passes_on(bool first_dies)
{
    owner_report report = {0};
    pal_store *store;
    uint64_t fence = 0, again = 0;
    int from, wake;
    pid_t pid;

    scratch_clear(directory, false);
    CHECK(create_sessions(1));
    pid = owner_start(&from, &wake);
    CHECK_EQ(read(from, &report, sizeof(report)), sizeof(report));
    CHECK_STATUS(report.taken, PAL_OK);
    CHECK_THAT(report.fence, >, 0);
    CHECK_STATUS(report.written, PAL_OK);
    store = open_store();
    CHECK_STATUS(append_fenced(store, report.fence + 1, 3), PAL_DENIED);
    CHECK_STATUS(second_take(store, &fence), PAL_BUSY);
    if (CHECK(owner_wake(wake, from, &report)))
        CHECK_STATUS(report.taken, PAL_OK);
    if (first_dies)
        kill(pid, SIGKILL);
    CHECK(take_over(store, &fence));
    CHECK_THAT(fence, >, report.fence);
    if (!first_dies) {
        CHECK(owner_wake(wake, from, &report));
        CHECK_STATUS(report.written_late, PAL_DENIED);
    }
    CHECK_STATUS(append_fenced(store, report.fence, 4), PAL_DENIED);
    CHECK_STATUS(append_fenced(store, fence, 5), PAL_OK);
    CHECK_STATUS(second_take(store, &again), PAL_OK);
    CHECK_EQ(again, fence);
    waitpid(pid, NULL, 0);
    close(from);
    close(wake);
    pal_store_close(store);
}

static void a_late_owner_is_refused(void)
{
    lease_passes_on(false);
}

static void a_dead_owners_lease_expires(void)
{
    lease_passes_on(true);
}

int main(int argc, char **argv)
{
    const char *asked = getenv("PROCESSES_APPENDS");

    if (asked && atoi(asked) > 0)
        appends = (uint32_t)atoi(asked);
    common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (common == MAP_FAILED)
        return 1;
    scratch_make(false, directory);
    snprintf(path, sizeof(path), "%s:%s/store", argc > 1 ? argv[1] : "sqlite", directory);
    RUN(four_processes_append_to_one_session);
    RUN(four_processes_append_to_a_thousand_sessions);
    RUN(many_threads_append_to_one_session);
    RUN(many_threads_append_to_a_thousand_sessions);
    RUN(an_expected_seq_has_one_winner);
    RUN(a_late_owner_is_refused);
    RUN(a_dead_owners_lease_expires);
    scratch_clear(directory, true);
    munmap(common, sizeof(*common));
    return tap_done();
}
