/* test_disk_kills.c - kills a process instead of each of its disk calls, one after the other, while
 * it creates, appends, forks, deletes, restores, erases, renames, and imports files of PicoClaw.
 * The result is checked as after a power cut (test_powercut.c), but with the real files of the
 * process.
 *
 * Environment: KILL_STRIDE (7): every Nth call; KILL_FIRST: the first call; KILL_SEED. */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "cut_check.h"
#include "support/disk/disk_trace.h"
#include "support/scratch.h"
#include "support/tap.h"

static char scratch[SCRATCH_PATH_MAX], root[512], copy[512], url[512];
static bool is_jsonl;
static uint64_t stride = 7, first, seed;
static script_texts undisturbed;
static script_texts *progress; /* in memory that outlives the process */

static void prepare(void)
{
    scratch_clear(scratch, false);
    CHECK_EQ(mkdir(root, 0700), 0);
    script_prepare(is_jsonl, root);
}

/* Returns false if the script ended before that call. */
static bool run_until(uint64_t call)
{
    int status = 0;
    pid_t pid;

    prepare();
    memset(progress, 0, sizeof *progress);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        trace_begin(root);
        trace_kill_at(call);
        script_run(url, seed, false, progress);
        _exit(0);
    }
    return CHECK_THAT(pid, >, 0) && CHECK_EQ(waitpid(pid, &status, 0), pid) &&
            WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static void a_kill_at_any_disk_call_leaves_the_store_sound(void)
{
    uint64_t kills = 0, call;

    prepare();
    script_run(url, seed, false, &undisturbed);
    for (call = first; run_until(call); call += stride) {
        size_t index = progress->len > 0 ? progress->len - 1 : 0;

        kills++;
        if (!CHECK(cut_holds(is_jsonl, root, copy, &undisturbed, index, false))) {
            printf("# killed at call %" PRIu64 "\n", call);
            return;
        }
    }
    if (CHECK_THAT(kills, >, 0))
        CHECK_EQ(progress->len, undisturbed.len);
    printf("# %" PRIu64 " kills\n", kills);
}

int main(int argc, char **argv)
{
    const char *asked = getenv("KILL_STRIDE"), *given = getenv("KILL_FIRST");
    const char *given_seed = getenv("KILL_SEED");

    is_jsonl = argc > 1 && strcmp(argv[1], "jsonl") == 0;
    if (asked && atoi(asked) > 0)
        stride = (uint64_t)atoi(asked);
    first = given ? strtoull(given, NULL, 10) : 1 + (uint64_t)time(NULL) % stride;
    seed = given_seed ? strtoull(given_seed, NULL, 10) : (uint64_t)time(NULL);
    printf("# KILL_FIRST=%" PRIu64 " KILL_SEED=%" PRIu64 "\n", first, seed);
    progress = mmap(
            NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (progress == MAP_FAILED)
        return 1;
    scratch_make(true, scratch);
    snprintf(root, sizeof root, "%s/a", scratch);
    snprintf(copy, sizeof copy, "%s/b", scratch);
    script_url(is_jsonl, root, url);
    RUN(a_kill_at_any_disk_call_leaves_the_store_sound);
    script_texts_free(&undisturbed);
    if (tap_failures)
        printf("# the store is left in %s\n", scratch);
    else
        scratch_clear(scratch, true);
    munmap(progress, sizeof *progress);
    return tap_done();
}
