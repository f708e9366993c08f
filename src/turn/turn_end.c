/* turn_end.c - ends a turn: it fails, is stopped, or is left to another process. turn_last_commit.c
 * records why, and only after that commit is the end published.
 *
 * Invariant: callbacks that arrive at an ended turn find PAL_TURN_PHASE_ENDED and do nothing. On
 * the loop. */
#include "turn/turn.h"
#include "turn/runtime/runtime_memory.h"

#include <stdarg.h>
#include <stdio.h>

#include "context/context_text.h"
#include "turn/lane/lane.h"
#include "turn/lane/lane_backlog.h"
#include "turn/lane/lane_follow.h"
#include "turn/lane/lane_park.h"
#include "turn/recovery/recovery_owed.h"
#include "turn/runtime/runtime_models.h"
#include "turn/runtime/runtime_servers.h"
#include "turn/turn_event.h"
#include "turn/turn_outbox.h"

static void end_left(pal_turn *turn)
{
    pal_turn_state state = turn->state == PAL_TURN_PAUSED || turn->state == PAL_TURN_ASKING
            ? turn->state
            : PAL_TURN_QUEUED;

    turn->owed.state = PAL_OWED_NONE;
    pal_turn_set_reason(turn, "the server is stopping; the next server continues the turn");
    pal_turn_finish(turn, state);
}

void pal_turn_leave(pal_turn *turn)
{
    pal_turn_stop_waiting(turn);
    if (pal_owed_hand_over(turn, end_left)) {
        turn->owed.state = PAL_OWED_NONE;
        pal_turn_enter(turn, PAL_TURN_PHASE_CLOSE);
    } else {
        end_left(turn);
    }
}

static void on_settled(pal_write *write)
{
    pal_turn *turn = PAL_TURN_OF(write, commit.write);

    turn->holds--;
    pal_turn_finish(turn, turn->outcome.state);
}

void pal_turn_stop_waiting(pal_turn *turn)
{
    if (turn->step.call) {
        pal_provider_cancel(turn->step.call);
        turn->step.call = NULL;
        turn->holds--;
    }
    if (turn->timer.position > 0) {
        pal_loop_timer_stop(turn->runtime->loop, &turn->timer);
        turn->holds--;
    }
    pal_memory_leave(turn);
    pal_tools_cancel(turn);
}

/* Returns true if the failure is a refused write, and not a failure of the model or a tool. */
static bool is_writing(const pal_turn *turn)
{
    return turn->phase == PAL_TURN_PHASE_RECORD || turn->phase == PAL_TURN_PHASE_TOOLS ||
            turn->phase == PAL_TURN_PHASE_STEER || turn->phase == PAL_TURN_PHASE_PLAN;
}

void pal_turn_fail(pal_turn *turn, pal_status status, const char *format, ...)
{
    va_list list;
    bool is_unwritable;

    if (turn->phase == PAL_TURN_PHASE_CLOSE || turn->phase == PAL_TURN_PHASE_AWAY ||
            turn->phase == PAL_TURN_PHASE_ENDED)
        return;
    if (status == PAL_DENIED && turn->owed.state != PAL_OWED_NONE && is_writing(turn)) {
        pal_lease_lost(turn->lane);
        pal_away_begin(turn); /* another process took the session, and continues the turn */
        return;
    }
    va_start(list, format);
    vsnprintf(turn->info.reason, sizeof(turn->info.reason), format, list);
    va_end(list);
    turn->info.status = status;
    turn->commit.stage = PAL_COMMIT_OPEN;
    /* A model service can also deny a request, and that can be recorded. */
    is_unwritable = turn->phase != PAL_TURN_PHASE_CALL &&
            (status == PAL_DENIED || status == PAL_IO || status == PAL_FULL ||
                    status == PAL_NO_MEMORY);
    pal_tools_cancel_tasks(turn);
    pal_turn_stop_waiting(turn);
    if (!is_unwritable) {
        pal_turn_close(turn);
        return;
    }
    if (turn->owed.state != PAL_OWED_NONE)
        pal_backlog_again(turn->runtime); /* the turn is still unfinished in the store */
    turn->owed.state = PAL_OWED_NONE;
    pal_turn_finish(turn, PAL_TURN_FAILED);
}

static void stop_tools(pal_turn *turn)
{
    pal_tools_stop(turn, PAL_TEXT_INTERRUPTED);
}

void pal_turn_stop(pal_turn *turn, const char *reason)
{
    if (turn->queue.leader)
        turn = turn->queue.leader;
    if (turn->stop || turn->commit.stage == PAL_COMMIT_LAST || turn->phase == PAL_TURN_PHASE_AWAY ||
            turn->phase == PAL_TURN_PHASE_ENDED)
        return;
    turn->stop = PAL_STOP_CANCEL;
    pal_turn_set_reason(turn, reason);
    switch (turn->phase) {
    case PAL_TURN_PHASE_CALL:
    case PAL_TURN_PHASE_SUMMARY:
        pal_answer_record_canceled(turn);
        pal_turn_stop_waiting(turn);
        if (turn->phase == PAL_TURN_PHASE_CALL || pal_summary_stop(turn))
            pal_turn_close(turn);
        break;
    case PAL_TURN_PHASE_SERVERS:
        pal_servers_leave(turn);
        if (turn->step.runs)
            stop_tools(turn);
        else
            pal_turn_close(turn);
        break;
    case PAL_TURN_PHASE_MODEL:
        pal_models_leave(turn);
        pal_turn_close(turn);
        break;
    case PAL_TURN_PHASE_WAIT:
        pal_turn_stop_waiting(turn);
        pal_turn_close(turn);
        break;
    case PAL_TURN_PHASE_NEW:
        pal_lane_withdraw(turn);
        break;
    case PAL_TURN_PHASE_TOOLS:
        stop_tools(turn);
        break;
    case PAL_TURN_PHASE_PAUSED:
    case PAL_TURN_PHASE_ASKING:
        pal_lane_unpark(turn, stop_tools);
        break;
    default:
        break; /* the work in flight checks turn->stop when it is done */
    }
}

void pal_turn_hand_over(pal_turn *turn)
{
    if (turn->summary.wait || turn->request.on_done) {
        pal_turn_stop(turn, "the server is stopping");
        return;
    }
    if (turn->stop || turn->commit.stage == PAL_COMMIT_LAST)
        return;
    turn->stop = PAL_STOP_HAND_OVER;
    switch (turn->phase) {
    case PAL_TURN_PHASE_SERVERS:
        pal_servers_leave(turn);
        pal_turn_leave(turn);
        break;
    case PAL_TURN_PHASE_MODEL:
        pal_models_leave(turn);
        pal_turn_leave(turn);
        break;
    case PAL_TURN_PHASE_SUMMARY:
        pal_turn_stop_waiting(turn);
        if (pal_summary_stop(turn))
            pal_turn_leave(turn);
        break;
    case PAL_TURN_PHASE_CALL:
    case PAL_TURN_PHASE_WAIT:
    case PAL_TURN_PHASE_TOOLS:
    case PAL_TURN_PHASE_PAUSED:
    case PAL_TURN_PHASE_ASKING:
    case PAL_TURN_PHASE_UNPARK:
        pal_turn_leave(turn);
        break;
    default:
        break; /* the work in flight checks turn->stop when it is done */
    }
}

/* A failed all-or-nothing turn is forgotten: a repeated request does not find it. */
static void forget_failed(pal_turn *turn)
{
    if (!turn->request.all_or_nothing || turn->state == PAL_TURN_DONE)
        return;
    pal_runtime_client_id_remove(turn);
    for (pal_turn *each = turn->queue.followers; each; each = each->queue.next_follower)
        pal_runtime_client_id_remove(each);
}

static pal_str endpoint_of(const pal_turn *turn)
{
    return turn->step.provider ? turn->runtime->options.endpoints[turn->settings.endpoint].name
                               : (pal_str){0};
}

void pal_turn_finish(pal_turn *turn, pal_turn_state state)
{
    if (turn->phase == PAL_TURN_PHASE_ENDED)
        return;
    if (turn->stop == PAL_STOP_HAND_OVER && state == PAL_TURN_CANCELED) {
        pal_turn_leave(turn);
        return;
    }
    turn->outcome.state = state;
    if (turn->phase != PAL_TURN_PHASE_AWAY && pal_owed_settle(turn, state, on_settled)) {
        pal_turn_enter(turn, PAL_TURN_PHASE_CLOSE);
        return;
    }
    pal_away_leave(turn);
    pal_turn_enter(turn, PAL_TURN_PHASE_ENDED);
    pal_turn_set_state(turn, state);
    pal_turn_stop_waiting(turn);
    pal_loop_timer_stop(turn->runtime->loop, &turn->deadline);
    forget_failed(turn);
    pal_follow_end(turn);
    pal_event_publish(turn,
            (pal_event){.kind = PAL_EVENT_ENDED,
                    .state = state,
                    .status = turn->info.status,
                    .text = pal_str_of(turn->info.reason),
                    .name = endpoint_of(turn),
                    .usage = turn->outcome.usage,
                    .code = turn->info.code,
                    .retry_after_ms = turn->info.retry_after_ms});
    pal_summary_tell(turn);
    pal_outbox_tell(turn, state);
    pal_memory_note_end(turn);
    pal_lane_leave(turn);
}
