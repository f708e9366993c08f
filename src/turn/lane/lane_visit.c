/* lane_visit.c - delivers results and answers to a waiting turn. They are ordinary requests: they
 * go to the turn that waits in this process, or become a turn that continues it
 * (recovery_resume.c). On the loop. */
#include "turn/lane/lane_visit.h"

#include "turn/lane/lane.h"
#include "turn/lane/lane_park.h"
#include "turn/permission/permission_question.h"
#include "turn/recovery/recovery_inspect.h"

enum { VISIT_MS = 20, VISITS_MIN = 100 };

bool pal_visit_is(const pal_turn *turn)
{
    return turn->answers.len > 0 || pal_recovery_results(&turn->request) > 0;
}

/* The waiting turn is in this process: gives it the results or the answers, and reports its state
 * to the caller. */
static void deliver(pal_turn *turn, pal_turn *to)
{
    pal_turn_on_start on_start = turn->on_start;
    pal_turn_info info;
    pal_error err = {0};

    turn->on_start = NULL;
    if ((turn->answers.len > 0
                    ? pal_question_answer_all(to, &turn->answers, &err)
                    : pal_tools_results(
                              to, turn->request.messages, turn->request.messages_len, &err)) !=
            PAL_OK) {
        turn->on_start = on_start;
        if (!pal_away_check(turn, pal_visit))
            pal_lane_refuse(turn, err.status, err.message);
        return;
    }
    pal_runtime_turn_info(to, &info);
    if (on_start)
        on_start(&info, NULL, turn->on_start_user);
    pal_turn_enter(turn, PAL_TURN_PHASE_ENDED);
    pal_lane_leave(turn);
}

static void on_visit_time(pal_timer *timer)
{
    pal_turn *turn = PAL_TURN_OF(timer, timer);

    turn->holds--;
    turn->lane->guards--;
    pal_visit(turn);
}

/* After a restart the waiting turn must be found first. That can take until the lease of a dead
 * process is over. */
void pal_visit(pal_turn *turn)
{
    pal_lane_state *lane = turn->lane;
    pal_turn *running = lane->running;
    pal_turn_phase wanted = turn->answers.len > 0 ? PAL_TURN_PHASE_ASKING : PAL_TURN_PHASE_PAUSED;
    bool is_settling =
            running ? running->phase <= PAL_TURN_PHASE_ADMIT : lane->first || lane->is_waiting;

    if (running && running->phase == wanted) {
        deliver(turn, running);
    } else if (pal_lane_may_begin(lane, &turn->request)) {
        pal_lane_begin(lane, turn);
    } else if (is_settling && !lane->runtime->is_closing &&
            turn->queue.visits++ <= lane->runtime->options.lease_ms / VISIT_MS + VISITS_MIN &&
            pal_loop_timer_start(lane->runtime->loop, &turn->timer, VISIT_MS, on_visit_time)) {
        turn->holds++;
        lane->guards++;
    } else if (turn->answers.len > 0) {
        pal_lane_refuse(turn, PAL_BUSY, "session is busy");
    } else {
        pal_lane_wait(turn); /* results for a turn that has ended are treated like other messages */
    }
}

void pal_visit_after(pal_turn *turn)
{
    pal_lane_state *lane = turn->lane;

    lane->guards++;
    lane->running = NULL;
    pal_lane_count(lane->runtime, -1, 0);
    pal_loop_timer_stop(lane->runtime->loop, &turn->deadline);
    pal_turn_enter(turn, PAL_TURN_PHASE_NEW);
    pal_visit(turn);
    lane->guards--;
    pal_lane_dispatch(lane);
}
