/* test_turn_phase.c - walks the table of a turn's phases, and checks that it is enforced. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/tap.h"
#include "turn/turn.h"

static uint32_t reachable(uint32_t from)
{
    uint32_t all = from;

    for (int i = 0; i < PAL_TURN_PHASES_LEN; i++)
        for (int at = 0; at < PAL_TURN_PHASES_LEN; at++)
            if (all & (1u << at))
                all |= pal_turn_phase_rows[at].next;
    return all;
}

static void every_phase_is_described(void)
{
    for (int i = 0; i < PAL_TURN_PHASES_LEN; i++) {
        const pal_turn_phase_row *row = &pal_turn_phase_rows[i];

        CHECK(strcmp(row->thread, "loop") == 0 || strcmp(row->thread, "worker") == 0);
        CHECK_THAT(strlen(row->waits_for), >, 0);
        CHECK_THAT(strlen(row->on_cancel), >, 0);
        CHECK_THAT(strlen(row->on_crash), >, 0);
        for (int j = 0; j < i; j++)
            CHECK_DIFFER(row->name, pal_turn_phase_rows[j].name);
    }
}

static void a_new_turn_can_reach_every_phase(void)
{
    CHECK_EQ(reachable(PAL_PHASE(NEW)), (1u << PAL_TURN_PHASES_LEN) - 1);
}

static void every_phase_can_end_at_once(void)
{
    for (int i = 0; i < PAL_TURN_PHASE_ENDED; i++)
        CHECK(pal_turn_phase_rows[i].next & PAL_PHASE(ENDED));
    CHECK_EQ(pal_turn_phase_rows[PAL_TURN_PHASE_ENDED].next, 0);
}

/* The message of a child process that makes this change; empty if the child survives. */
static void change(pal_turn_phase from, pal_turn_phase to, char *out_said, size_t size)
{
    static pal_turn turn;
    int ends[2], status;
    ssize_t len;
    pid_t child;

    out_said[0] = '\0';
    CHECK_EQ(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        turn.phase = from;
        pal_turn_enter(&turn, to);
        _exit(turn.phase == to ? 0 : 1);
    }
    close(ends[1]);
    len = read(ends[0], out_said, size - 1);
    out_said[len > 0 ? len : 0] = '\0';
    close(ends[0]);
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (len > 0) {
        CHECK(WIFSIGNALED(status));
        CHECK_EQ(WTERMSIG(status), SIGABRT);
    } else {
        CHECK(WIFEXITED(status));
        CHECK_EQ(WEXITSTATUS(status), 0);
    }
}

static void only_changes_of_the_table_are_made(void)
{
    for (int from = 0; from < PAL_TURN_PHASES_LEN; from++) {
        for (int to = 0; to < PAL_TURN_PHASES_LEN; to++) {
            bool is_allowed = pal_turn_phase_rows[from].next & (1u << to);
            char said[400], names[100];

            change((pal_turn_phase)from, (pal_turn_phase)to, said, sizeof(said));
            snprintf(names, sizeof(names), "from %s to %s", pal_turn_phase_rows[from].name,
                    pal_turn_phase_rows[to].name);
            CHECK(is_allowed ? said[0] == '\0' : strstr(said, names) != NULL);
        }
    }
}

int main(void)
{
    RUN(every_phase_is_described);
    RUN(a_new_turn_can_reach_every_phase);
    RUN(every_phase_can_end_at_once);
    RUN(only_changes_of_the_table_are_made);
    return tap_done();
}
