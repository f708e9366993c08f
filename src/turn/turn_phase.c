/* turn_phase.c - changes the phase and the state of a turn. turn.h has the table of the phases. On
 * the loop. */
#include "turn/turn.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "turn/turn_strict.h"

#define ROW(phase, thread, waits, cancel, crash, next) {#phase, thread, waits, cancel, crash, next},
const pal_turn_phase_row pal_turn_phase_rows[PAL_TURN_PHASES_LEN] = {PAL_TURN_PHASES(ROW)};
#undef ROW

/* A wrong change is a bug of the engine. Tests must find it; a server that serves other turns must
 * not stop for it. */
static void report(pal_turn_phase from, pal_turn_phase to)
{
    pal_log(PAL_LOG_ERROR, "a turn changed from %s to %s, which the table of phases does not allow",
            pal_turn_phase_rows[from].name, pal_turn_phase_rows[to].name);
#if PAL_STRICT
    abort();
#endif
}

void pal_turn_enter(pal_turn *turn, pal_turn_phase phase)
{
    if (!(pal_turn_phase_rows[turn->phase].next & (1u << phase)))
        report(turn->phase, phase);
    turn->phase = phase;
}

static bool is_waiting(pal_turn_state state)
{
    return state == PAL_TURN_PAUSED || state == PAL_TURN_ASKING;
}

static void count_waiting(pal_runtime *runtime, int change)
{
    pthread_mutex_lock(&runtime->lock);
    runtime->stats.turns_waiting += (uint64_t)(int64_t)change;
    pthread_cond_broadcast(&runtime->changed);
    pthread_mutex_unlock(&runtime->lock);
}

void pal_turn_set_state(pal_turn *turn, pal_turn_state state)
{
    if (is_waiting(state) != is_waiting(turn->state))
        count_waiting(turn->runtime, is_waiting(state) ? 1 : -1);
    turn->state = turn->info.state = state;
    turn->info.events = turn->events.newest;
    /* The usage of its calls is in the ledger by now. */
    if (state != PAL_TURN_RUNNING && state != PAL_TURN_RETRYING)
        pal_budget_release(atomic_exchange(&turn->step.held, NULL));
    if (turn->runtime->on_state && !turn->summary.wait)
        turn->runtime->on_state(turn->request.tenant, &turn->info, turn->runtime->on_state_user);
}

void pal_turn_set_reason(pal_turn *turn, const char *reason)
{
    snprintf(turn->info.reason, sizeof(turn->info.reason), "%s", reason);
}
