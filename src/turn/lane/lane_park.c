/* lane_park.c - turns that wait for a client.
 *
 * A turn that is PAUSED or ASKING holds no lease. Its inbox item and its open calls have everything
 * that another process needs to continue it (recovery_resume.c). So results and approvals can
 * arrive at any process, and a session cannot get stuck at a process that gets no requests. A
 * process that continues the turn acquires the lease and replaces the item in one commit. Other
 * processes with a copy of the turn notice that in the store (recovery_away.c). They also notice if
 * the session is rewound or deleted.
 *
 * States: parked (PAUSED or ASKING), then UNPARK while the commit is made. On the loop. A crash has
 * no effect on a parked turn, because everything about it is in the store. */
#include "turn/lane/lane_park.h"

#include <stdio.h>

#include "base/memory.h"
#include "context/context_text.h"
#include "turn/input/input.h"
#include "turn/lane/lane.h"
#include "turn/permission/permission_question.h"
#include "turn/recovery/recovery_holder.h"
#include "turn/recovery/recovery_inspect.h"
#include "turn/recovery/recovery_owed.h"

enum { AGAIN_MS = 50 };

/* ---- Restoring ---- */

/* Ends a call that does not run any more, with "interrupted" as its result. */
static bool interrupt(pal_tool_run *run)
{
    pal_part *part = pal_arena_alloc(run->arena, sizeof(*part));

    if (!part)
        return false;
    *part = (pal_part){.kind = PAL_PART_TOOL_RESULT,
            .call_id = run->id,
            .name = run->name,
            .text = pal_str_of(PAL_TEXT_INTERRUPTED),
            .is_error = true};
    run->result = (pal_message){.role = PAL_ROLE_TOOL, .parts = part, .parts_len = 1};
    run->is_error = true;
    run->state = PAL_TOOL_ENDED;
    return true;
}

static bool restore_run(pal_turn *turn, const pal_resume *found, size_t at, pal_tool_run *run)
{
    const pal_part *part = &found->answer->parts[at];

    *run = (pal_tool_run){.turn = turn,
            .id = part->call_id,
            .name = part->name,
            .arguments = part->arguments,
            .is_callers = pal_tools_is_callers(turn, part->name),
            .is_counted = true,
            .arena = pal_arena_new(0)};
    if (!run->arena)
        return false;
    if (pal_recovery_has_result(found->results, found->results_len, part->call_id)) {
        run->state = PAL_TOOL_RECORDED;
        return true;
    }
    for (size_t i = 0; i < found->questions_len; i++)
        if (pal_str_equal(found->questions[i].call_id, part->call_id))
            run->question = found->questions[i];
    run->is_repeat = run->question.kind == PAL_QUESTION_REPEAT;
    /* A call that had begun to run is not run a second time, unless its server can continue it. */
    return pal_input_restore(run, found->head.handles) || run->is_callers ||
            run->question.kind != PAL_QUESTION_NONE || interrupt(run);
}

bool pal_lane_park_restore(pal_turn *turn, const pal_resume *found)
{
    const pal_message *answer = found->answer;

    turn->step.runs = pal_calloc(answer->parts_len, sizeof(*turn->step.runs));
    turn->step.runs_len = 0;
    if (!turn->step.runs || !pal_turn_step_arena(turn))
        return false;
    turn->commit.answered = answer;
    for (size_t i = 0; i < answer->parts_len; i++) {
        if (answer->parts[i].kind != PAL_PART_TOOL_CALL)
            continue;
        if (!restore_run(turn, found, i, &turn->step.runs[turn->step.runs_len++]))
            return false;
    }
    return true;
}

void pal_lane_park_again(pal_turn *turn, const pal_resume *found)
{
    if (found->kind == PAL_RESUME_ASKING) {
        pal_turn_enter(turn, PAL_TURN_PHASE_ASKING);
        pal_turn_set_state(turn, PAL_TURN_ASKING);
        pal_question_tell(turn);
    } else {
        pal_turn_enter(turn, PAL_TURN_PHASE_PAUSED);
        pal_turn_set_state(turn, PAL_TURN_PAUSED);
        pal_tools_tell_paused(turn);
    }
    pal_lane_park(turn);
}

/* ---- Releasing the lease, and acquiring it again ---- */

void pal_lane_park(pal_turn *turn)
{
    if (turn->owed.state == PAL_OWED_NONE)
        return;
    turn->owed.state = PAL_OWED_PARKED;
    pal_lease_release(turn->lane);
    pal_away_look(turn->lane);
}

bool pal_lane_is_parked(const pal_turn *turn)
{
    return turn && turn->owed.state == PAL_OWED_PARKED &&
            (turn->phase == PAL_TURN_PHASE_PAUSED || turn->phase == PAL_TURN_PHASE_ASKING);
}

static void try_unpark(pal_turn *turn);

static void holder_seen(pal_lane_state *lane, pal_turn *turn, pal_holder_view view)
{
    (void)lane;
    (void)view; /* the write shows who has the lease */
    if (turn->phase == PAL_TURN_PHASE_UNPARK)
        try_unpark(turn);
}

static void on_retry_time(pal_timer *timer)
{
    pal_turn *turn = PAL_TURN_OF(timer, timer);

    turn->holds--;
    if (turn->phase == PAL_TURN_PHASE_UNPARK)
        pal_holder_look(turn->lane, turn, holder_seen);
}

/* Another process is looking at the turn, or continues it. The next try shows which. */
static void unpark_later(pal_turn *turn)
{
    if (!pal_loop_timer_start(turn->runtime->loop, &turn->timer, AGAIN_MS, on_retry_time)) {
        pal_turn_fail(turn, PAL_NO_MEMORY, "out of memory");
        return;
    }
    turn->holds++;
}

static void on_unparked(pal_write *write)
{
    pal_turn *turn = PAL_TURN_OF(write, commit.write);
    pal_error err = {0};
    pal_status status = pal_turn_write_status(turn, &err);
    bool has_lease = turn->commit.write.ops_len > 0 &&
            turn->commit.write.failure.status == PAL_OK &&
            turn->commit.ops[0].kind == PAL_OP_LEASE_TAKE && turn->commit.ops[0].status == PAL_OK;

    turn->holds--;
    if (has_lease)
        pal_lease_taken(turn->lane, turn->commit.ops[0].u.lease.fence);
    if (turn->phase != PAL_TURN_PHASE_UNPARK)
        return;
    pal_owed_renewed(turn, status);
    if (status == PAL_OK)
        turn->then(turn);
    else if (status == PAL_BUSY && !turn->runtime->is_closing)
        unpark_later(turn);
    else
        pal_away_begin(turn); /* the store knows what happened to it */
}

static void try_unpark(pal_turn *turn)
{
    turn->owed.on_seq = turn->commit.answered ? turn->commit.answered->seq : 0;
    turn->owed.questions = (pal_str){0}; /* the turn is answered, or it is canceled */
    turn->commit.write.ops_len = 0;
    pal_lease_note_stale(turn);
    pal_lease_add_take(turn);
    pal_owed_renew(turn);
    pal_turn_write(turn, on_unparked);
}

void pal_lane_unpark(pal_turn *turn, void (*then)(pal_turn *turn))
{
    if (turn->owed.state != PAL_OWED_PARKED) {
        then(turn);
        return;
    }
    pal_turn_enter(turn, PAL_TURN_PHASE_UNPARK);
    turn->then = then;
    try_unpark(turn);
}
