/* recovery_away.c - follows turns in the store that another process runs or may run. So a client
 * that waits here gets the answer, no matter which process made it.
 *
 * A turn is followed (phase AWAY) if its item has left the inbox without this process, or if
 * another process has taken the session. It is also followed if an earlier turn, which is not in
 * this process, has recorded the same request. The followed turn ends here in the same way as in
 * the store. If it is unfinished and no process holds the session, its process is dead, or it waits
 * for a client. This process then continues it (recovery_resume.c). A parked turn is checked in the
 * same way.
 *
 * On the loop, except for look(). Nothing is written here, so a crash has no effect on the
 * turns. */
#include "turn/lane/lane_park.h"

#include <stdio.h>

#include "base/memory.h"
#include "context/context_text.h"
#include "turn/lane/lane.h"
#include "turn/lane/lane_join.h"
#include "turn/recovery/recovery_outcome.h"
#include "turn/recovery/recovery_owed.h"
#include "turn/recovery/recovery_retell.h"
#include "turn/turn_event.h"

enum { LOOK_MS_MIN = 20, LOOK_MS_MAX = 500 };

/* ---- Following a turn ---- */

void pal_away_leave(pal_turn *turn)
{
    pal_turn **at = &turn->lane->away;

    if (turn->phase != PAL_TURN_PHASE_AWAY)
        return;
    while (*at && *at != turn)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = turn->next;
    turn->next = NULL;
    pal_lane_count(turn->runtime, 0, -1);
}

void pal_away_begin(pal_turn *turn)
{
    pal_lane_state *lane = turn->lane;

    if (turn->phase == PAL_TURN_PHASE_AWAY || turn->phase == PAL_TURN_PHASE_ENDED)
        return;
    pal_turn_stop_waiting(turn);
    pal_loop_timer_stop(turn->runtime->loop, &turn->deadline);
    if (lane->running == turn) {
        lane->running = NULL;
        pal_lane_count(turn->runtime, -1, 0);
    }
    pal_turn_enter(turn, PAL_TURN_PHASE_AWAY);
    turn->owed.state = PAL_OWED_NONE;
    turn->commit.stage = PAL_COMMIT_OPEN;
    turn->stop = PAL_STOP_NONE;
    turn->found.resume = NULL;
    pal_turn_set_state(turn, PAL_TURN_QUEUED);
    turn->info.status = PAL_OK;
    turn->info.reason[0] = '\0';
    turn->next = lane->away;
    lane->away = turn;
    pal_lane_count(turn->runtime, 0, 1);
    lane->look_ms = 0;
    pal_away_look(lane);
    pal_lane_dispatch(lane);
}

bool pal_away_take(pal_lane_state *lane, pal_id id)
{
    for (pal_turn *turn = lane->away; turn; turn = turn->next) {
        if (!pal_id_equal(turn->owed.turn, id) || turn->holds > 0)
            continue;
        pal_away_leave(turn);
        pal_tools_done(turn);
        pal_retell_step(turn);
        pal_answer_clear(&turn->step.answer);
        turn->step.attempt = 0;
        pal_turn_enter(turn, PAL_TURN_PHASE_NEW);
        turn->queue.origin = PAL_ORIGIN_STORE;
        pal_lane_wait_first(turn);
        return true;
    }
    return false;
}

/* ---- The end of a followed turn ---- */

static void keep_text(pal_turn *turn, const pal_message *answer)
{
    pal_buf text;

    pal_buf_init(&text, PAL_MESSAGE_BYTES_MAX);
    for (size_t i = 0; i < answer->parts_len; i++)
        if (answer->parts[i].kind == PAL_PART_TEXT)
            pal_buf_append_str(&text, answer->parts[i].text);
    pal_arena_free(turn->outcome.arena);
    turn->outcome.arena = pal_arena_new(0);
    turn->outcome.text = (pal_str){0};
    if (turn->outcome.arena)
        turn->outcome.text = pal_arena_copy(turn->outcome.arena, pal_buf_str(&text));
    pal_buf_done(&text);
}

/* Publishes the calls that wait for the caller, as turn_tools.c does. */
static void tell_calls(pal_turn *turn, const pal_message *answer)
{
    turn->info.has_calls = true;
    turn->step.runs = pal_calloc(answer->parts_len, sizeof(*turn->step.runs));
    for (size_t i = 0; turn->step.runs && i < answer->parts_len; i++)
        if (answer->parts[i].kind == PAL_PART_TOOL_CALL)
            turn->step.runs[turn->step.runs_len++] = (pal_tool_run){.turn = turn,
                    .is_callers = true,
                    .id = answer->parts[i].call_id,
                    .name = answer->parts[i].name,
                    .arguments = answer->parts[i].arguments};
    pal_tools_tell_paused(turn);
    pal_tools_done(turn);
}

void pal_away_end(pal_turn *turn, const pal_outcome *outcome)
{
    const pal_message *newest =
            outcome->said_len ? &outcome->said[outcome->said_len - 1] : NULL;

    if (turn->events.newest == 0)
        pal_event_publish(turn, (pal_event){.kind = PAL_EVENT_STARTED,
                .text = turn->request.label});
    for (size_t i = 0; i < outcome->said_len; i++)
        pal_retell(turn, &outcome->said[i]);
    if (newest) {
        keep_text(turn, newest);
        turn->info.message = newest->id;
        turn->info.seq = newest->seq;
    }
    if (outcome->state == PAL_TURN_DONE && outcome->has_open_calls)
        tell_calls(turn, newest);
    pal_turn_set_reason(turn, outcome->reason);
    turn->info.status = outcome->state == PAL_TURN_FAILED ? PAL_PROVIDER : PAL_OK;
    pal_turn_finish(turn, outcome->state);
}

/* ---- Looking at the store ---- */

typedef struct store_look {
    pal_work_item item;
    pal_lane_state *lane;
    pal_arena *arena;
    size_t len;
    pal_id *ids, *acting;
    pal_outcome *outcomes;
    pal_status *statuses;
    pal_turn *request; /* waits for this look, or NULL */
    void (*again)(pal_turn *turn);
} store_look;

/* Runs on a worker. */
static void look(pal_work_item *item)
{
    store_look *l = (store_look *)((char *)item - offsetof(store_look, item));
    const pal_lane_state *lane = l->lane;

    for (size_t i = 0; i < l->len; i++)
        l->statuses[i] = pal_outcome_read(lane->runtime->store, lane->tenant, lane->session,
                l->acting[i], l->arena, &l->outcomes[i], NULL);
}

static pal_turn *find_away(const pal_lane_state *lane, pal_id id)
{
    for (pal_turn *turn = lane->away; turn; turn = turn->next)
        if (pal_id_equal(turn->id, id))
            return turn;
    return NULL;
}

static void end_canceled(pal_turn *turn)
{
    pal_turn_finish(turn, PAL_TURN_CANCELED);
}

static void cancel(pal_turn *turn, const char *reason)
{
    turn->stop = PAL_STOP_CANCEL;
    pal_turn_set_reason(turn, reason);
    pal_turn_set_state(turn, PAL_TURN_RUNNING);
    pal_lane_unpark(turn, end_canceled);
}

static void stop_calls(pal_turn *turn)
{
    pal_turn_set_state(turn, PAL_TURN_RUNNING);
    pal_tools_stop(turn, PAL_TEXT_INTERRUPTED);
}

static void see_parked(pal_turn *turn, pal_status status, const pal_outcome *outcome)
{
    const pal_message *newest =
            status == PAL_OK && outcome->said_len ? &outcome->said[outcome->said_len - 1] : NULL;

    if (status == PAL_NOT_FOUND) {
        pal_turn_set_reason(turn, "the session no longer exists");
        pal_turn_finish(turn, PAL_TURN_CANCELED);
    } else if (status != PAL_OK) {
        return; /* the next look tries again */
    } else if (outcome->is_gone) {
        pal_turn_set_reason(turn, "the session was deleted");
        pal_turn_finish(turn, PAL_TURN_CANCELED);
    } else if (!pal_id_equal(outcome->item, turn->owed.item.id)) {
        pal_away_begin(turn); /* another process has continued it */
    } else if (outcome->is_hidden || !outcome->has_open_calls) {
        cancel(turn, "the conversation was rewound");
    } else if (turn->lane->first && newest &&
            pal_store_clock_ms(turn->runtime->store) - newest->created_at >
                    PAL_TURN_PAUSE_MS_MAX) {
        pal_lane_unpark(turn, stop_calls);
    }
}

static void lose(pal_turn *turn)
{
    turn->info.status = PAL_NOT_FOUND;
    pal_turn_set_reason(turn, PAL_TURN_UNKNOWN_TEXT);
    pal_turn_finish(turn, PAL_TURN_FAILED);
}

/* If the turn has recorded nothing and does not wait any more, another process found that the
 * request is a repeat. Then the earlier turn replaces this one. */
static void see_away(pal_turn *turn, pal_status status, const pal_outcome *outcome)
{
    pal_lane_state *lane = turn->lane;

    if (status == PAL_NOT_FOUND && turn->holds > 0) {
        return; /* a lookup is running */
    } else if (status == PAL_NOT_FOUND) {
        turn->found.is_looked_up = false;
        if (!pal_join_look(turn, lose))
            lose(turn);
    } else if (status != PAL_OK) {
        return;
    } else if (outcome->state >= PAL_TURN_DONE) {
        pal_away_end(turn, outcome);
    } else if (outcome->is_held && !lane->fence) {
        pal_turn_set_state(turn, outcome->state);
    } else if (!lane->running && !outcome->is_gone && !lane->runtime->is_closing &&
            turn->holds == 0) {
        lane->has_backlog = true; /* no other process runs it */
    }
}

static void on_looked(pal_work_item *item)
{
    store_look *l = (store_look *)((char *)item - offsetof(store_look, item));
    pal_lane_state *lane = l->lane;

    lane->is_looking = false;
    for (size_t i = 0; i < l->len; i++) {
        pal_turn *turn = find_away(lane, l->ids[i]);

        if (l->statuses[i] == PAL_OK)
            l->outcomes[i].is_held =
                    pal_holder_see(lane, &l->outcomes[i].holder) != PAL_HOLDER_NONE;
        if (turn)
            see_away(turn, l->statuses[i], &l->outcomes[i]);
        else if (pal_lane_is_parked(lane->running) && pal_id_equal(lane->running->id, l->ids[i]))
            see_parked(lane->running, l->statuses[i], &l->outcomes[i]);
    }
    if (l->request) {
        l->request->holds--;
        l->again(l->request);
    }
    pal_arena_free(l->arena);
    pal_free(l);
    lane->guards--;
    pal_away_look(lane);
    pal_lane_dispatch(lane);
}

static store_look *make_look(pal_lane_state *lane)
{
    size_t cap = 1;
    store_look *l = pal_calloc(1, sizeof(*l));

    if (!l)
        return NULL;
    l->lane = lane;
    l->arena = pal_arena_new(0);
    for (const pal_turn *turn = lane->away; turn; turn = turn->next)
        cap++;
    if (l->arena) {
        l->ids = pal_arena_array(l->arena, cap, sizeof(*l->ids));
        l->acting = pal_arena_array(l->arena, cap, sizeof(*l->acting));
        l->outcomes = pal_arena_array(l->arena, cap, sizeof(*l->outcomes));
        l->statuses = pal_arena_array(l->arena, cap, sizeof(*l->statuses));
    }
    if (!l->arena || pal_arena_failure(l->arena) != PAL_OK) {
        pal_arena_free(l->arena);
        pal_free(l);
        return NULL;
    }
    return l;
}

static void begin_look(store_look *l)
{
    pal_lane_state *lane = l->lane;

    for (const pal_turn *turn = lane->away; turn; turn = turn->next) {
        l->ids[l->len] = turn->id;
        l->acting[l->len++] = turn->owed.turn;
    }
    if (pal_lane_is_parked(lane->running)) {
        l->ids[l->len] = lane->running->id;
        l->acting[l->len++] = lane->running->owed.turn;
    }
    lane->is_looking = true;
    lane->guards++;
    l->item.work = look;
    l->item.done = on_looked;
    pal_loop_work(lane->runtime->loop, &l->item);
}

static void on_look_time(pal_timer *timer)
{
    pal_lane_state *lane = (pal_lane_state *)((char *)timer - offsetof(pal_lane_state, look));
    store_look *l = make_look(lane);

    if (l)
        begin_look(l);
    else
        pal_away_look(lane);
}

bool pal_away_check(pal_turn *turn, void (*again)(pal_turn *turn))
{
    store_look *l;

    if (turn->queue.has_checked || !pal_lane_is_parked(turn->lane->running))
        return false;
    l = make_look(turn->lane);
    if (!l)
        return false;
    turn->queue.has_checked = true;
    turn->holds++;
    l->request = turn;
    l->again = again;
    begin_look(l);
    return true;
}

void pal_away_look(pal_lane_state *lane)
{
    int64_t delay = lane->look_ms ? 2 * lane->look_ms : LOOK_MS_MIN;

    if (delay > LOOK_MS_MAX)
        delay = LOOK_MS_MAX;
    if ((!lane->away && !pal_lane_is_parked(lane->running)) || lane->is_looking ||
            lane->look.position > 0)
        return;
    /* If there is no memory for the timer, the store is not read until something else happens in
     * the session. */
    if (pal_loop_timer_start(lane->runtime->loop, &lane->look, delay, on_look_time))
        lane->look_ms = delay;
}
