/* test_faults.c - every I/O step of a store fails, kills the process, or loses the power.
 *
 * A child runs the script (crash_script.h) with a fault at I/O step N, for N = 1, 2, ... until the
 * script ends before the fault. The child reports to its parent when each step begins and how it
 * ended. Then the parent opens the store without faults, checks it, and compares its account with
 * that of a sound store to which the acknowledged steps were applied. The rules:
 *
 * - Acknowledged work is there, complete, and at the reported position.
 * - A step that was running when the process died is there completely or not at all.
 * - A step that was reported as failed is not there. One exception: if a sync failed, it is unknown
 *   what reached the disk, so the step may be there completely, unless a later step was
 *   acknowledged.
 * - A fault hits the step during which it happens. Later steps work, or are refused because they
 *   needed what failed. A full disk has room again after some space was freed.
 * - pal_store_check() finds nothing.
 *
 * FAULT_STRIDE=N in the environment tries only every Nth step. */
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/memory.h"
#include "crash_script.h"
#include "palaver/store_admin.h"
#include "support/disk/fault_vfs.h"
#include "support/scratch.h"
#include "support/tap.h"

#define ACCOUNT_MAX (8 << 20)
#define ORACLES_MAX 1024
#define IO_STEPS_MAX 100000
#define REPORTS_MAX 3
#define JOBS 2
#define STEP_OPEN UINT32_MAX /* opening the store, before the first step of the script */

typedef struct fault {
    fault_kind kind;
    uint64_t at;
    uint64_t seed;
    bool is_tracked; /* the disk is simulated */
    bool cut_at_end; /* the power is lost when the script has ended */
} fault;

/* The reports of the child. */
typedef struct record {
    uint32_t step;
    bool is_end;
    bool fired;
    script_result result;
} record;

typedef struct outcome {
    bool fired;
    bool was_killed;
    script_mask done;
    script_mask maybe[SCRIPT_STEPS_MAX]; /* what may be there beyond `done`: any one of them */
    size_t maybe_len;
    uint64_t seqs[SCRIPT_STEPS_MAX];
    char complaint[512]; /* a rule was violated while the script ran */
} outcome;

static char directory[SCRATCH_PATH_MAX];
static char url[SCRATCH_PATH_MAX + 32];
static uint64_t stride = 1;

/* ---- The child ---- */

static void tell(int fd, uint32_t step, bool is_end, const script_result *result)
{
    record r = {.step = step, .is_end = is_end, .fired = fault_vfs_fired()};

    if (result)
        r.result = *result;
    if (write(fd, &r, sizeof(r)) != sizeof(r))
        _exit(3);
}

/* Opens the store. If that fails because of the fault, opens it again without faults. */
static void child_open(int fd, script_store *on)
{
    script_result result = {0};
    pal_error error = {0};

    result.status = pal_store_open(on->url, NULL, &on->store, &error);
    memcpy(result.message, error.message, sizeof(result.message));
    tell(fd, STEP_OPEN, true, &result);
    if (result.status == PAL_OK)
        return;
    fault_vfs_clear();
    if (pal_store_open(on->url, NULL, &on->store, &error))
        on->store = NULL;
}

/* After the fault, some runs continue to the end, and some soon skip to the last step: later steps
 * erase the work of earlier ones, and with it possible damage. */
static uint32_t step_after(uint32_t step, const fault *f)
{
    if (fault_vfs_fired() && f->at % 2 == 0 && step + 2 < script_len())
        return (uint32_t)script_len() - 1;
    return step + 1;
}

static void child_run(int fd, const fault *f)
{
    script_store on = {.url = url};
    script_result result;

    fault_vfs_install();
    if (f->is_tracked)
        fault_vfs_track(f->seed * 7919 + f->at);
    fault_vfs_arm(f->kind, f->at);
    child_open(fd, &on);
    for (uint32_t i = 0; i < script_len(); i = step_after(i, f)) {
        /* The last step must find room. */
        if (i == script_len() - 1 && f->kind == FAULT_FULL && fault_vfs_fired())
            fault_vfs_clear();
        tell(fd, i, false, NULL);
        result = script_step(&on, i, ~(script_mask)0);
        tell(fd, i, true, &result);
        if (!on.store)
            child_open(fd, &on);
    }
    if (f->cut_at_end)
        fault_vfs_power_cut();
    pal_store_close(on.store);
    tell(fd, STEP_OPEN, true, &(script_result){0});
    _exit(0);
}

/* ---- The reports of the child ---- */

/* Whether the status means that the store could not give an answer about its data. */
static bool is_failure(pal_status status)
{
    return status == PAL_IO || status == PAL_FULL || status == PAL_CORRUPT || status == PAL_BUSY ||
            status == PAL_NO_MEMORY || status == PAL_LIMIT || status == PAL_TIMEOUT;
}

static void complain(outcome *o, const record *r, const char *what)
{
    const char *name = r->step == STEP_OPEN ? "open" : script_name(r->step);

    if (!o->complaint[0])
        snprintf(o->complaint, sizeof(o->complaint), "%s: %s: %s: %s", name, what,
                pal_status_name(r->result.status), r->result.message);
}

static void outcome_end(outcome *o, const fault *f, const record *r, bool fired_before)
{
    if (is_failure(r->result.status)) {
        bool is_lasting = f->kind == FAULT_FULL && r->step != script_len() - 1;
        if (!r->fired)
            complain(o, r, "failed before the fault");
        else if (fired_before && !is_lasting)
            complain(o, r, "failed long after the fault");
    }
    if (r->step == STEP_OPEN)
        return;
    if (r->result.done) {
        o->done |= r->result.done;
        o->seqs[r->step] = r->result.seq;
        o->maybe_len = 0;
    } else if (f->kind == FAULT_SYNC && is_failure(r->result.status)) {
        o->maybe[o->maybe_len++] = script_bits(r->step);
    }
}

static outcome outcome_read(int fd, const fault *f)
{
    outcome o = {0};
    record r, began = {.is_end = true};

    while (read(fd, &r, sizeof(r)) == sizeof(r)) {
        bool fired_before = o.fired;
        o.fired |= r.fired;
        if (r.is_end)
            outcome_end(&o, f, &r, fired_before);
        began = r;
    }
    if (!began.is_end)
        o.maybe[o.maybe_len++] = script_bits(began.step);
    return o;
}

static outcome run_child(const fault *f)
{
    outcome o;
    int fds[2], status;
    pid_t pid;

    fflush(stdout);
    if (pipe(fds) != 0 || (pid = fork()) < 0)
        abort();
    if (pid == 0) {
        close(fds[0]);
        child_run(fds[1], f);
    }
    close(fds[1]);
    o = outcome_read(fds[0], f);
    close(fds[0]);
    waitpid(pid, &status, 0);
    o.was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    o.fired |= o.was_killed && !f->cut_at_end;
    if (!o.was_killed && status != 0)
        snprintf(o.complaint, sizeof(o.complaint), "the child ended with status %#x", status);
    return o;
}

/* ---- What should be there ---- */

typedef struct oracle {
    script_mask mask;
    bool is_sound; /* every step of the mask could be done */
    uint64_t seqs[SCRIPT_STEPS_MAX];
    pal_buf account;
} oracle;

static oracle oracles[ORACLES_MAX];
static size_t oracles_len;

static void oracle_make(oracle *it, script_mask mask)
{
    script_store on = {.url = "memory:"};

    memset(it, 0, sizeof(*it));
    it->mask = mask;
    pal_buf_init(&it->account, ACCOUNT_MAX);
    it->is_sound = pal_store_open(on.url, NULL, &on.store, NULL) == PAL_OK;
    for (size_t i = 0; it->is_sound && i < script_len(); i++) {
        script_result result = {0};
        if (!(mask & ((script_mask)1 << i)) || script_is_reopen(i))
            continue;
        result = script_step(&on, i, mask);
        it->is_sound = result.status == PAL_OK && result.done == (mask & script_bits(i));
        it->seqs[i] = result.seq;
    }
    if (it->is_sound)
        it->is_sound = script_account(on.store, &it->account);
    pal_store_close(on.store);
}

static const oracle *oracle_find(script_mask mask)
{
    for (size_t i = 0; i < oracles_len; i++)
        if (oracles[i].mask == mask)
            return &oracles[i];
    if (oracles_len == ORACLES_MAX)
        pal_buf_done(&oracles[--oracles_len].account);
    oracle_make(&oracles[oracles_len], mask);
    return &oracles[oracles_len++];
}

/* ---- What is there ---- */

static void finding_print(const pal_store_finding *finding, void *user)
{
    printf("#   found: %s\n", finding->text);
}

/* The account of the store now. Returns false if the store cannot be read or is damaged. */
static bool store_account(pal_buf *account)
{
    pal_store *store = NULL;
    pal_error error = {0};
    uint64_t findings = 0;
    bool held = false;

    if (pal_store_open(url, NULL, &store, &error) ||
            pal_store_check(store, false, finding_print, NULL, NULL, &findings, &error))
        printf("#   open or check: %s\n", error.message);
    else
        held = script_account(store, account) && findings == 0;
    pal_store_close(store);
    return held;
}

static bool seqs_agree(const outcome *o, const oracle *expected)
{
    for (size_t i = 0; i < script_len(); i++)
        if ((o->done & ((script_mask)1 << i)) && o->seqs[i] != expected->seqs[i])
            return false;
    return true;
}

static bool account_agrees(const outcome *o, const pal_buf *account)
{
    const oracle *expected = oracle_find(o->done);

    if (!expected->is_sound || !seqs_agree(o, expected))
        return false;
    if (pal_str_equal(pal_buf_str(&expected->account), pal_buf_str(account)))
        return true;
    for (size_t i = 0; i < o->maybe_len; i++) {
        expected = oracle_find(o->done | o->maybe[i]);
        if (expected->is_sound &&
                pal_str_equal(pal_buf_str(&expected->account), pal_buf_str(account)))
            return true;
    }
    return false;
}

static void print_line(const char *what, const pal_buf *account, size_t from)
{
    const char *end =
            from < account->len ? memchr(account->data + from, '\n', account->len - from) : NULL;
    size_t len = end ? (size_t)(end - account->data) - from : 0;

    printf("#   %s: %.*s\n", what, (int)(len < 300 ? len : 300), len ? account->data + from : "");
}

/* Prints the first line in which the two differ. */
static void print_difference(const pal_buf *expected, const pal_buf *actual)
{
    size_t at = 0;

    while (at < expected->len && at < actual->len && expected->data[at] == actual->data[at])
        at++;
    while (at > 0 && expected->data[at - 1] != '\n')
        at--;
    print_line("expected", expected, at);
    print_line("is there", actual, at);
}

static bool judge(const fault *f, const outcome *o)
{
    pal_buf account;
    bool read, agrees;

    pal_buf_init(&account, ACCOUNT_MAX);
    read = store_account(&account);
    agrees = read && account_agrees(o, &account);
    if (!agrees || o->complaint[0])
        printf("# fault %d at %llu, seed %llu: read %d, agrees %d, done %llx, %zu maybe%s%s\n",
                f->kind, (unsigned long long)f->at, (unsigned long long)f->seed, read, agrees,
                (unsigned long long)o->done, o->maybe_len, o->complaint[0] ? ": " : "",
                o->complaint);
    if (read && !agrees)
        print_difference(&oracle_find(o->done)->account, &account);
    pal_buf_done(&account);
    return agrees && !o->complaint[0];
}

/* ---- The sweeps ---- */

static void work_in(const char *name)
{
    size_t len = strlen(directory);

    snprintf(directory + len, sizeof(directory) - len, "/%s", name);
    mkdir(directory, 0755);
    snprintf(url, sizeof(url), "sqlite:%s/store.db", directory);
}

/* One job's share of a sweep: every `stride`th step from the job's first step on. Ends the
 * process. */
static void sweep_share(fault f, const char *name, uint64_t first, uint64_t step)
{
    uint64_t tried = 0, wrong = 0;
    outcome o = {.fired = true};

    work_in(name);
    for (f.at = first; o.fired && f.at < IO_STEPS_MAX && wrong < REPORTS_MAX; f.at += step) {
        scratch_clear(directory, false);
        o = run_child(&f);
        tried++;
        if (!judge(&f, &o))
            wrong++;
    }
    printf("# fault %d, seed %llu: %llu runs over %llu steps, %llu wrong\n", f.kind,
            (unsigned long long)f.seed, (unsigned long long)tried, (unsigned long long)f.at - step,
            (unsigned long long)wrong);
    fflush(stdout);
    scratch_clear(directory, true);
    _exit(wrong > 0 || tried < 2);
}

/* Tries the fault at every `thinning`th step, with two jobs. Returns whether the rules held each
 * time. */
static bool sweep(fault f, uint64_t thinning)
{
    uint64_t step = stride * thinning;
    uint64_t first = 1 + f.seed % step;
    bool held = true;
    int status;

    fflush(stdout);
    for (uint64_t i = 0; i < JOBS; i++)
        if (fork() == 0)
            sweep_share(f, i ? "b" : "a", first + i * step, step * JOBS);
    while (wait(&status) > 0)
        held &= status == 0;
    return held;
}

static void backends_agree_on_the_script(void)
{
    fault none = {.kind = FAULT_NONE};
    outcome o;

    scratch_clear(directory, false);
    o = run_child(&none);
    CHECK(!o.was_killed);
    CHECK(!o.fired);
    /* Only the step that must be refused is missing. */
    CHECK_EQ(__builtin_popcountll(o.done), (int)script_len() - 1 + SCRIPT_BATCH_DONE);
    CHECK(judge(&none, &o));
}

static void a_failed_step_leaves_nothing(void)
{
    CHECK(sweep((fault){.kind = FAULT_IO}, 1));
}

static void a_failed_read_leaves_nothing(void)
{
    CHECK(sweep((fault){.kind = FAULT_READ}, 1));
}

static void a_page_that_cannot_be_read_leaves_nothing(void)
{
    CHECK(sweep((fault){.kind = FAULT_READ_PAGE}, 1));
}

static void a_short_write_leaves_nothing(void)
{
    CHECK(sweep((fault){.kind = FAULT_SHORT_WRITE}, 1));
}

static void a_failed_sync_acknowledges_nothing(void)
{
    CHECK(sweep((fault){.kind = FAULT_SYNC}, 1));
}

static void a_failed_sync_is_not_forgotten(void)
{
    for (uint64_t seed = 0; seed < 4; seed++)
        CHECK(sweep(
                (fault){.kind = FAULT_SYNC, .seed = seed, .is_tracked = true, .cut_at_end = true},
                1));
}

static void a_full_disk_is_survived(void)
{
    CHECK(sweep((fault){.kind = FAULT_FULL_ONCE}, 1));
    CHECK(sweep((fault){.kind = FAULT_FULL}, 1));
}

static void a_kill_before_a_step_is_survived(void)
{
    CHECK(sweep((fault){.kind = FAULT_KILL_BEFORE}, 1));
}

static void a_kill_after_a_step_is_survived(void)
{
    /* The state of the disk is the same as after a kill before the next step. */
    CHECK(sweep((fault){.kind = FAULT_KILL_AFTER}, 5));
}

static void a_kill_in_the_middle_of_a_write_is_survived(void)
{
    CHECK(sweep((fault){.kind = FAULT_KILL_MIDDLE}, 1));
}

static void a_power_cut_is_survived(void)
{
    /* Each step with at least one seed, and most with two. */
    for (uint64_t seed = 0; seed < 8; seed++)
        CHECK(sweep((fault){.kind = FAULT_POWER_CUT, .seed = seed, .is_tracked = true}, 5));
}

int main(void)
{
    const char *asked = getenv("FAULT_STRIDE");

    if (asked && atoi(asked) > 0)
        stride = (uint64_t)atoi(asked);
    scratch_make(true, directory);
    snprintf(url, sizeof(url), "sqlite:%s/store.db", directory);
    RUN(backends_agree_on_the_script);
    RUN(a_failed_step_leaves_nothing);
    RUN(a_failed_read_leaves_nothing);
    RUN(a_page_that_cannot_be_read_leaves_nothing);
    RUN(a_short_write_leaves_nothing);
    RUN(a_failed_sync_acknowledges_nothing);
    RUN(a_failed_sync_is_not_forgotten);
    RUN(a_full_disk_is_survived);
    RUN(a_kill_before_a_step_is_survived);
    RUN(a_kill_after_a_step_is_survived);
    RUN(a_kill_in_the_middle_of_a_write_is_survived);
    RUN(a_power_cut_is_survived);
    while (oracles_len > 0)
        pal_buf_done(&oracles[--oracles_len].account);
    scratch_clear(directory, true);
    return tap_done();
}
