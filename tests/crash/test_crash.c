/* test_crash.c - kills writing processes at random moments, hundreds of times, on one growing
 * store.
 *
 *   test_crash CRASH_WRITER [SCHEME]
 *
 * Three processes with three writing threads each work on one file. A round starts the dead
 * processes and waits until they acknowledge something. (In some rounds it does not wait, so that
 * the kill hits opening and recovery.) After 1 to 60 ms more it kills one or all of them. Then the
 * test opens the store and compares everything new with the acknowledgements; sometimes only after
 * the next writers have started, so that the writers recover the store.
 *
 * With "postgres", tools/pg-test runs the server, and only the writers are killed.
 *
 * Environment: CRASH_KILLS (500; 200 for "jsonl" and "postgres"), CRASH_SEED. */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "crash_verify.h"
#include "support/scratch.h"
#include "support/tap.h"

#define PROCESSES 3
#define THREADS 3 /* per process */
#define START_TIMEOUT_MS 30000
#define ROUNDS_PER_FULL_CHECK 20

typedef struct process {
    pid_t pid; /* 0 if it is not running */
    int acks;  /* the read end of its file */
    char acks_path[SCRATCH_PATH_MAX + 16];
    uint64_t acks_len; /* read since it was started */
} process;

extern char **environ;

static process processes[PROCESSES];
static char directory[SCRATCH_PATH_MAX];
static char path[SCRATCH_PATH_MAX + 32];
static const char *writer_program, *scheme = "sqlite";
static uint64_t random_counter, random_seed, kills_asked = 500;
static uint64_t kills, kills_opening, openings;

static uint64_t chance(uint64_t below)
{
    return pattern_hash(random_seed, random_counter++) % below;
}

static void sleep_us(uint64_t us)
{
    struct timespec wait = {.tv_sec = (time_t)(us / 1000000)};

    wait.tv_nsec = (long)(us % 1000000) * 1000;
    nanosleep(&wait, NULL);
}

static uint32_t writer_number(size_t process_index, size_t thread)
{
    return (uint32_t)(process_index * THREADS + thread + 1);
}

/* ---- Processes ---- */

static bool process_start(size_t index)
{
    process *p = &processes[index];
    char numbers[THREADS][32];
    char *argv[4 + THREADS + 1] = {
            (char *)writer_program, path, p->acks_path,
            strcmp(scheme, "sqlite") == 0 && chance(2) ? (char *)"1" : (char *)"0"};

    for (size_t i = 0; i < THREADS; i++) {
        uint32_t writer = writer_number(index, i);
        snprintf(numbers[i], sizeof(numbers[i]), "%" PRIu32 ":%" PRIu64, writer,
                verify_next_counter(writer));
        argv[4 + i] = numbers[i];
    }
    p->acks_len = 0;
    return posix_spawn(&p->pid, writer_program, NULL, NULL, argv, environ) == 0;
}

static bool process_read_acks(process *p)
{
    ack batch[128];
    ssize_t len;
    bool held = true;

    while (held && (len = read(p->acks, batch, sizeof(batch))) > 0) {
        size_t count = (size_t)len / sizeof(ack);
        for (size_t i = 0; held && i < count; i++)
            held = verify_ack(&batch[i]);
        p->acks_len += count;
    }
    return held;
}

/* Returns false if it ended by itself, which it must not. */
static bool process_kill(process *p)
{
    int status;

    kill(p->pid, SIGKILL);
    waitpid(p->pid, &status, 0);
    p->pid = 0;
    kills++;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return true;
    printf("# a writer ended with status %#x\n", status);
    return false;
}

static bool start_missing(void)
{
    bool held = true;

    for (size_t i = 0; held && i < PROCESSES; i++)
        if (processes[i].pid == 0)
            held = process_start(i);
    return held;
}

static bool wait_until_all_acknowledge(void)
{
    for (size_t i = 0; i < PROCESSES; i++) {
        process *p = &processes[i];
        for (int ms = 0; p->acks_len == 0; ms++) {
            if (!process_read_acks(p) || ms == START_TIMEOUT_MS) {
                printf("# a writer does not get going\n");
                return false;
            }
            sleep_us(1000);
        }
    }
    return true;
}

static bool kill_some(bool all)
{
    bool held = true;
    size_t only = chance(PROCESSES);

    for (size_t i = 0; held && i < PROCESSES; i++)
        if ((all || i == only) && processes[i].pid)
            held = process_kill(&processes[i]);
    return held;
}

static uint32_t dead_writers(void)
{
    uint32_t dead = 0;

    for (size_t i = 0; i < PROCESSES; i++)
        for (size_t thread = 0; processes[i].pid == 0 && thread < THREADS; thread++)
            dead |= 1u << writer_number(i, thread);
    return dead;
}

/* ---- Rounds ---- */

static bool check_store(bool fully)
{
    pal_store *store = NULL;
    pal_error error = {0};
    bool held = true;

    for (size_t i = 0; held && i < PROCESSES; i++)
        held = process_read_acks(&processes[i]);
    if (pal_store_open(path, NULL, &store, &error)) {
        printf("# open: %s\n", error.message);
        return false;
    }
    openings++;
    held = held && verify_new(store, dead_writers());
    if (held && fully)
        held = verify_all(store);
    pal_store_close(store);
    return held;
}

static bool round_run(uint64_t number)
{
    bool in_opening = chance(6) == 0;
    bool fully = number % ROUNDS_PER_FULL_CHECK == 0;
    bool all = fully || in_opening || chance(3) == 0;
    bool late = !fully && chance(2) == 0;

    if (!start_missing())
        return false;
    if (in_opening) {
        sleep_us(chance(8000));
        kills_opening++;
    } else {
        if (!wait_until_all_acknowledge())
            return false;
        sleep_us(1000 + chance(59000));
    }
    if (!kill_some(all))
        return false;
    /* The acknowledgements of the dead processes must be known before their successors continue. */
    for (size_t i = 0; i < PROCESSES; i++)
        if (!process_read_acks(&processes[i]))
            return false;
    if (late && !start_missing())
        return false;
    return check_store(fully);
}

static bool prepare(void)
{
    pal_store *store = NULL;
    pal_error error = {0};
    bool held = pal_store_open(path, NULL, &store, &error) == PAL_OK;

    for (uint32_t i = 0; held && i < WORK_SESSIONS; i++) {
        pal_session session = {.id = work_session_id(i), .tenant = pal_str_of(WORK_TENANT)};
        pal_id id;
        held = pal_store_create(store, &session, &id, &error) == PAL_OK;
    }
    pal_store_close(store);
    for (size_t i = 0; held && i < PROCESSES; i++) {
        process *p = &processes[i];
        snprintf(p->acks_path, sizeof(p->acks_path), "%s/acks-%zu", directory, i);
        p->acks = open(p->acks_path, O_RDONLY | O_CREAT | O_CLOEXEC, 0644);
        held = p->acks >= 0;
    }
    if (!held)
        printf("# %s\n", error.message);
    return held;
}

static void killed_writers_lose_nothing(void)
{
    bool held = CHECK(prepare());

    for (uint64_t number = 1; held && kills < kills_asked; number++) {
        held = CHECK(round_run(number));
        if (!held)
            printf("# in round %" PRIu64 " after %" PRIu64 " kills\n", number, kills);
    }
    for (size_t i = 0; i < PROCESSES; i++)
        if (processes[i].pid)
            process_kill(&processes[i]);
    if (held)
        CHECK(check_store(true));
    printf("# %" PRIu64 " kills, %" PRIu64 " rounds of them while opening, %" PRIu64
           " openings, %" PRIu64 " messages, %" PRIu64 " lives\n",
            kills, kills_opening, openings, verify_messages(), verify_lives());
}

int main(int argc, char **argv)
{
    const char *asked = getenv("CRASH_KILLS"), *seed = getenv("CRASH_SEED");

    if (argc != 2 && argc != 3)
        return 2;
    writer_program = argv[1];
    if (argc == 3)
        scheme = argv[2];
    if (asked && atoi(asked) > 0)
        kills_asked = (uint64_t)atoi(asked);
    if (strcmp(scheme, "sqlite") != 0)
        kills_asked = kills_asked * 2 / 5; /* opening the store takes longer */
    random_seed = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL);
    printf("# CRASH_SEED=%" PRIu64 "\n", random_seed);
    scratch_make(false, directory);
    snprintf(path, sizeof(path), "%s%s%s/store.db", strcmp(scheme, "sqlite") ? scheme : "",
            strcmp(scheme, "sqlite") ? ":" : "", directory);
    if (strcmp(scheme, "postgres") == 0) {
        if (!getenv("PALAVER_TEST_POSTGRES"))
            return 77; /* tools/pg-test did not start a server */
        snprintf(path, sizeof(path), "%s", getenv("PALAVER_TEST_POSTGRES"));
    }
    RUN(killed_writers_lose_nothing);
    if (!tap_failures)
        scratch_clear(directory, true);
    else
        printf("# the store is left in %s\n", directory);
    for (size_t i = 0; i < PROCESSES; i++)
        close(processes[i].acks);
    verify_done();
    return tap_done();
}
