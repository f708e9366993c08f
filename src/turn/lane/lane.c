/* lane.c - runs one turn at a time in each session, and decides which turn is next.
 * lane_wait.c decides how a turn waits. On the loop.
 *
 * Order: first come requests in the inbox that are not turns here (lane_backlog.c), because they
 * have waited longest. Then come the waiting turns. Last come messages steered into a turn that
 * ended before it could take them. A turn that has begun may be unable to continue, because another
 * process has the session or an older request waits. It then goes back to the head of the queue.
 *
 * A lane is freed when nothing runs, waits or refers to it. A crash loses the lane, but not the
 * requests: they wait in the inbox. */
#include "turn/lane/lane.h"
#include "turn/turn.h"

#include "base/memory.h"
#include "turn/lane/lane_backlog.h"
#include "turn/lane/lane_follow.h"
#include "turn/lane/lane_park.h"
#include "turn/lane/lane_visit.h"
#include "turn/recovery/recovery_inspect.h"
#include "turn/turn_event.h"

/* ---- Finding ---- */

static size_t lane_key(pal_str tenant, pal_id session, char *out_key)
{
    memcpy(out_key, session.bytes, sizeof(session.bytes));
    if (tenant.len > 0)
        memcpy(out_key + sizeof(session.bytes), tenant.data, tenant.len);
    return sizeof(session.bytes) + tenant.len;
}

pal_lane_state *pal_lane_find(pal_runtime *runtime, pal_str tenant, pal_id session)
{
    char key[sizeof(pal_id) + PAL_TENANT_LEN_MAX];

    if (tenant.len > PAL_TENANT_LEN_MAX)
        return NULL;
    return pal_map_find(&runtime->lanes, pal_str_make(key, lane_key(tenant, session, key)));
}

pal_lane_state *pal_lane_of(pal_runtime *runtime, pal_str tenant, pal_id session)
{
    pal_lane_state *lane = pal_lane_find(runtime, tenant, session);

    if (lane || tenant.len > PAL_TENANT_LEN_MAX)
        return lane;
    lane = pal_calloc(1, sizeof(*lane));
    if (!lane)
        return NULL;
    lane->key = pal_malloc(sizeof(pal_id) + tenant.len);
    if (!lane->key) {
        pal_free(lane);
        return NULL;
    }
    lane->runtime = runtime;
    lane->key_len = lane_key(tenant, session, lane->key);
    lane->tenant = pal_str_make(lane->key + sizeof(pal_id), tenant.len);
    lane->session = session;
    lane->last = &lane->first;
    lane->steers_last = &lane->steers;
    if (pal_map_set(&runtime->lanes, pal_str_make(lane->key, lane->key_len), lane) != PAL_OK) {
        pal_free(lane->key);
        pal_free(lane);
        return NULL;
    }
    return lane;
}

static void free_lane(pal_lane_state *lane)
{
    pal_map_remove(&lane->runtime->lanes, pal_str_make(lane->key, lane->key_len));
    pal_loop_timer_stop(lane->runtime->loop, &lane->renew);
    pal_loop_timer_stop(lane->runtime->loop, &lane->wait);
    pal_loop_timer_stop(lane->runtime->loop, &lane->look);
    pal_free(lane->key);
    pal_free(lane);
}

static void free_if_idle(pal_lane_state *lane)
{
    if (!lane->running && !lane->first && !lane->steers && !lane->has_backlog && !lane->away &&
            lane->holds == 0 && lane->guards == 0)
        free_lane(lane);
}

static void begin_from_backlog(pal_lane_state *lane);
static void begin_from_steer(pal_lane_state *lane);
static void begin_next(pal_lane_state *lane);

/* Begins the next waiting request, unless the runtime is closing. Then requests stay in the inbox
 * for the next start. */
static void begin_waiting(pal_lane_state *lane)
{
    if (lane->is_waiting || lane->runtime->is_closing)
        return;
    if (lane->has_backlog && lane->changes > 0)
        return; /* an item that is being added belongs to a turn here, and not to the backlog */
    if (!lane->running && lane->has_backlog)
        begin_from_backlog(lane);
    if (!lane->running && !lane->is_waiting)
        begin_next(lane);
    if (!lane->running && !lane->is_waiting)
        begin_from_steer(lane);
}

void pal_lane_dispatch(pal_lane_state *lane)
{
    lane->guards++;
    begin_waiting(lane);
    if (!lane->running || pal_lane_is_parked(lane->running))
        pal_lease_release(lane);
    lane->guards--;
    free_if_idle(lane);
}

/* ---- Waiting ---- */

void pal_lane_count(pal_runtime *runtime, int running, int queued)
{
    pthread_mutex_lock(&runtime->lock);
    runtime->stats.turns_running += (uint64_t)(int64_t)running;
    runtime->stats.turns_queued += (uint64_t)(int64_t)queued;
    pthread_mutex_unlock(&runtime->lock);
}

void pal_lane_begin(pal_lane_state *lane, pal_turn *turn)
{
    lane->running = turn;
    pal_lane_count(lane->runtime, 1, 0);
    pal_turn_begin(turn);
}

void pal_lane_unqueue(pal_lane_state *lane, pal_turn **at)
{
    pal_turn *turn = *at;

    *at = turn->next;
    if (!*at)
        lane->last = at;
    turn->next = NULL;
    pal_lane_count(lane->runtime, 0, -1);
}

static void begin_next(pal_lane_state *lane)
{
    pal_turn *turn = lane->first;

    if (!turn)
        return;
    pal_lane_unqueue(lane, &lane->first);
    while (lane->first) {
        pal_turn *next = lane->first;

        if (!pal_follow_merge(turn, next))
            break;
        pal_lane_unqueue(lane, &lane->first);
    }
    pal_lane_begin(lane, turn);
}

void pal_lane_tell_started(pal_turn *turn, const pal_error *err)
{
    pal_turn_on_start on_start = turn->on_start;

    turn->on_start = NULL;
    if (on_start)
        on_start(err ? NULL : &turn->info, err, turn->on_start_user);
}

void pal_lane_refuse(pal_turn *turn, pal_status status, const char *text)
{
    pal_error err;

    pal_error_set(&err, status, "%s", text);
    pal_lane_tell_started(turn, &err);
    pal_turn_enter(turn, PAL_TURN_PHASE_ENDED);
    pal_turn_set_state(turn, PAL_TURN_FAILED);
    pal_turn_set_reason(turn, text);
    turn->info.status = status;
    pal_summary_tell(turn);
    pal_lane_leave(turn);
}

void pal_lane_enqueue(pal_turn *turn)
{
    pal_lane_state *lane = turn->lane;

    pal_turn_set_state(turn, PAL_TURN_QUEUED);
    if (turn->queue.place != PAL_PLACE_LAST || turn->request.lane == PAL_TURN_LANE_INTERRUPT) {
        turn->next = lane->first;
        lane->first = turn;
        if (!turn->next)
            lane->last = &turn->next;
    } else {
        *lane->last = turn;
        lane->last = &turn->next;
    }
    pal_lane_count(lane->runtime, 0, 1);
}

bool pal_lane_is_free(const pal_lane_state *lane)
{
    return !lane->running && !lane->first && !lane->has_backlog && !lane->is_waiting &&
            lane->changes == 0;
}

/* Results of calls can begin before waiting requests, because their turn began before those. */
bool pal_lane_may_begin(const pal_lane_state *lane, const pal_turn_request *request)
{
    if (request->messages_len == 0 || pal_recovery_results(request) > 0)
        return !lane->running && !lane->first;
    return pal_lane_is_free(lane);
}

void pal_lane_enter(pal_turn *turn)
{
    pal_lane_state *lane = turn->lane;

    if (pal_visit_is(turn))
        pal_visit(turn);
    else if (pal_lane_may_begin(lane, &turn->request))
        pal_lane_begin(lane, turn);
    else
        pal_lane_wait(turn);
}

void pal_lane_wait_first(pal_turn *turn)
{
    if (turn->queue.place == PAL_PLACE_LAST)
        turn->queue.place = PAL_PLACE_FIRST;
    pal_lane_enqueue(turn);
}

bool pal_lane_note_known(pal_turn *turn)
{
    const pal_lane_state *lane = turn->lane;
    size_t room = 0, len = 0;

    for (const pal_turn *each = lane->first; each; each = each->next)
        room += each->queue.inbox_len;
    for (const pal_steer *each = lane->steers; each; each = each->next)
        room++;
    turn->queue.known_len = 0;
    turn->queue.known_ids = pal_arena_array(turn->arena, room + 1, sizeof(*turn->queue.known_ids));
    if (!turn->queue.known_ids)
        return false;
    for (const pal_turn *each = lane->first; each; each = each->next)
        for (size_t i = 0; i < each->queue.inbox_len; i++)
            turn->queue.known_ids[len++] = each->queue.inbox_ids[i];
    for (const pal_steer *each = lane->steers; each; each = each->next)
        turn->queue.known_ids[len++] = each->inbox_id;
    turn->queue.known_len = len;
    return true;
}

pal_steer *pal_lane_steer(pal_lane_state *lane)
{
    pal_steer *steer = lane->steers;

    if (!steer)
        return NULL;
    lane->steers = steer->next;
    if (!lane->steers)
        lane->steers_last = &lane->steers;
    steer->next = NULL;
    return steer;
}

void pal_lane_steer_free(pal_steer *steer)
{
    pal_arena_free(steer->arena);
    pal_free(steer);
}

/* A message that was steered into a turn, but too late for it, becomes a separate turn. */
static void begin_from_steer(pal_lane_state *lane)
{
    pal_turn_request request = {.tenant = lane->tenant, .session = lane->session};
    pal_steer *steer = pal_lane_steer(lane);
    pal_error err;
    pal_turn *turn;

    if (!steer)
        return;
    request.messages = steer->messages;
    request.messages_len = steer->messages_len;
    request.tenant = pal_arena_copy(steer->arena, lane->tenant);
    turn = pal_runtime_turn_new(lane->runtime, steer->arena, &request, &err);
    if (!turn) {
        pal_lane_steer_free(steer); /* its message stays in the inbox */
        return;
    }
    turn->queue.inbox_ids = pal_arena_alloc(turn->arena, sizeof(*turn->queue.inbox_ids));
    turn->queue.inbox_len = turn->queue.inbox_ids != NULL;
    if (turn->queue.inbox_ids)
        turn->queue.inbox_ids[0] = steer->inbox_id;
    pal_free(steer);
    pal_lane_begin(lane, turn);
}

static void begin_from_backlog(pal_lane_state *lane)
{
    pal_turn_request request = {.session = lane->session, .lane = PAL_TURN_LANE_QUEUE};
    pal_arena *arena = pal_arena_new(0);
    pal_turn *turn = NULL;

    lane->has_backlog = false;
    if (arena) {
        request.tenant = pal_arena_copy(arena, lane->tenant);
        turn = pal_runtime_turn_new(lane->runtime, arena, &request, NULL);
    }
    if (!turn) {
        pal_arena_free(arena);
        pal_backlog_again(lane->runtime);
        return;
    }
    turn->queue.origin = PAL_ORIGIN_INBOX;
    pal_lane_begin(lane, turn);
}

bool pal_lane_backlog(pal_runtime *runtime, pal_str tenant, pal_id session)
{
    pal_lane_state *lane = pal_lane_of(runtime, tenant, session);

    if (!lane)
        return false;
    lane->has_backlog = true;
    pal_lane_dispatch(lane);
    return true;
}

/* A durable turn is not reported as failed: another process runs it, or will run it. */
static void end_here(pal_turn *turn)
{
    bool is_durable = turn->phase == PAL_TURN_PHASE_AWAY || turn->queue.inbox_len > 0;

    pal_away_leave(turn);
    pal_turn_enter(turn, PAL_TURN_PHASE_ENDED);
    if (!is_durable) {
        pal_turn_set_state(turn, PAL_TURN_FAILED);
        turn->info.status = PAL_CANCELED;
    }
    pal_turn_set_reason(turn,
            is_durable ? "the server is stopping; the next server runs the turn"
                       : "the server is stopping; send the message again");
    pal_follow_end(turn);
    pal_event_publish(turn,
            (pal_event){.kind = PAL_EVENT_ENDED,
                    .state = turn->state,
                    .status = turn->info.status,
                    .text = pal_str_of(turn->info.reason)});
    turn->lane = NULL;
    pal_follow_leave(turn);
    pal_runtime_ended(turn, false);
}

void pal_lane_hand_over(pal_lane_state *lane)
{
    pal_turn **at = &lane->first;

    lane->guards++;
    while (*at) {
        pal_turn *turn = *at;

        if (turn->queue.inbox_len == 0) {
            at = &turn->next;
            continue;
        }
        pal_lane_unqueue(lane, at);
        pal_away_begin(turn);
    }
    lane->guards--;
}

void pal_lane_empty(pal_lane_state *lane)
{
    while (lane->first) {
        pal_turn *turn = lane->first;

        pal_lane_unqueue(lane, &lane->first);
        end_here(turn);
    }
    while (lane->away)
        end_here(lane->away);
    while (lane->steers)
        pal_lane_steer_free(pal_lane_steer(lane));
    lane->has_backlog = false;
    pal_loop_timer_stop(lane->runtime->loop, &lane->renew);
    pal_loop_timer_stop(lane->runtime->loop, &lane->wait);
    pal_loop_timer_stop(lane->runtime->loop, &lane->look);
}

void pal_lanes_done(pal_runtime *runtime)
{
    size_t position = 0;
    pal_str key;
    void *value;

    while (pal_map_next(&runtime->lanes, &position, &key, &value)) {
        pal_lane_state *lane = value;

        pal_free(lane->key);
        pal_free(lane);
    }
    pal_map_done(&runtime->lanes);
}

void pal_lane_leave(pal_turn *turn)
{
    pal_lane_state *lane = turn->lane;
    bool was_running = lane->running == turn;

    turn->lane = NULL;
    if (was_running) {
        lane->running = NULL;
        pal_lane_count(lane->runtime, -1, 0);
    }
    pal_follow_leave(turn);
    pal_runtime_ended(turn, was_running);
    pal_lane_dispatch(lane);
}
