/* lane_wait.c - decides what happens to a turn that cannot begin now: it waits in the session's
 * inbox, is steered into the running turn, or is refused. On the loop.
 *
 * Any process may have recorded the same request before. Therefore one commit adds the inbox item
 * and checks the store: an append that succeeds only if the messages are known removes the item
 * again. So a new request keeps its place, and a repeat leaves nothing in the inbox. The repeat
 * joins the first turn (lane_join.c), and its caller gets only the id of that turn. A crash before
 * the commit leaves nothing, and the caller has received no response. */
#include "turn/turn.h"
#include "turn/turn_outbox.h"

#include "base/memory.h"
#include "turn/lane/lane.h"
#include "turn/lane/lane_inbox.h"
#include "turn/lane/lane_join.h"
#include "turn/lane/lane_park.h"
#include "turn/recovery/recovery_inspect.h"

/* ---- The inbox ---- */

static void change_inbox(pal_turn *turn, size_t ops_len, void (*done)(pal_write *write))
{
    turn->commit.write = (pal_write){.ops = turn->commit.ops, .ops_len = ops_len, .done = done};
    turn->holds++;
    turn->lane->holds++;
    turn->lane->changes++;
    pal_runtime_write(turn->runtime, &turn->commit.write);
}

static void inbox_changed(pal_turn *turn)
{
    turn->holds--;
    turn->lane->holds--;
    turn->lane->changes--;
}

static void make_drop(pal_turn *turn, pal_id item)
{
    turn->commit.ops[0] = pal_op_inbox_drop(turn->request.tenant, turn->request.session, item);
}

static void on_withdrawn(pal_write *write)
{
    pal_turn *turn = PAL_TURN_OF(write, commit.write);

    inbox_changed(turn);
    pal_runtime_client_id_remove(turn);
    pal_turn_finish(turn, PAL_TURN_CANCELED);
}

void pal_lane_withdraw(pal_turn *turn)
{
    pal_lane_state *lane = turn->lane;
    pal_turn **at = &lane->first;

    while (*at && *at != turn)
        at = &(*at)->next;
    if (!*at)
        return;
    pal_lane_unqueue(lane, at);
    if (turn->queue.inbox_len == 0 || !pal_turn_make_ops(turn)) {
        pal_runtime_client_id_remove(turn);
        pal_turn_finish(turn, PAL_TURN_CANCELED);
        return;
    }
    make_drop(turn, turn->queue.inbox_ids[0]);
    change_inbox(turn, 1, on_withdrawn);
}

/* ---- Refusing ---- */

static void refuse_error(pal_turn *turn, const pal_error *err)
{
    pal_lane_refuse(turn, err->status, err->message);
}

/* The session may be busy with the same request, which another process received. */
static void busy_for_good(pal_turn *turn)
{
    if (turn->work_status == PAL_CONFLICT)
        refuse_error(turn, &turn->work_error);
    else
        pal_lane_refuse(turn, PAL_BUSY, "session is busy");
}

static void refuse_busy(pal_turn *turn)
{
    if (pal_away_check(turn, pal_lane_enter))
        return;
    if (!pal_join_look(turn, busy_for_good))
        pal_lane_refuse(turn, PAL_BUSY, "session is busy");
}

/* ---- Adding ---- */

/* A turn that is canceled before it began removes its messages from the inbox. It leaves them there
 * in two cases: it found them in the inbox, or this process stops and another one runs the turn. */
static void keep_what_is_durable(pal_turn *turn)
{
    if (!turn->stop || turn->queue.inbox_len == 0 ||
            !(turn->queue.origin == PAL_ORIGIN_INBOX || turn->stop == PAL_STOP_HAND_OVER))
        return;
    turn->stop = PAL_STOP_NONE;
    turn->info.status = PAL_OK;
    turn->info.reason[0] = '\0';
}

static void wait_in_queue(pal_turn *turn)
{
    pal_lane_state *lane = turn->lane;
    pal_turn *running = lane->running;

    keep_what_is_durable(turn);
    pal_lane_enqueue(turn);
    pal_runtime_client_id_add(turn);
    lane->guards++;
    pal_lane_tell_started(turn, NULL);
    if (turn->stop) /* canceled while the item was being added */
        pal_lane_withdraw(turn);
    else if (turn->request.lane == PAL_TURN_LANE_INTERRUPT && running)
        pal_turn_stop(running, "interrupted by a new message");
    lane->guards--;
    pal_lane_dispatch(lane);
}

/* The request is not a repeat, or it repeats a failed turn: a separate turn records it again. */
static void enter_again(pal_turn *turn)
{
    if (turn->work_status != PAL_OK)
        refuse_error(turn, &turn->work_error);
    else if (turn->runtime->is_closing)
        pal_lane_refuse(turn, PAL_CANCELED, "the runtime is being closed");
    else
        pal_lane_enter(turn);
}

/* The inbox item or the messages of the first request exist already. */
static void look_for_first(pal_turn *turn)
{
    turn->found.is_looked_up = false;
    if (!pal_join_look(turn, enter_again))
        pal_lane_refuse(turn, PAL_CONFLICT, "the message was sent before");
}

static void on_dropped(pal_write *write)
{
    pal_turn *turn = PAL_TURN_OF(write, commit.write);

    inbox_changed(turn);
    look_for_first(turn);
}

/* Returns false if the item is not in the inbox. The turn has then been handled. */
static bool was_added(pal_turn *turn)
{
    const pal_op *add = &turn->commit.ops[0], *repeat = &turn->commit.ops[1];

    inbox_changed(turn);
    if (turn->commit.write.failure.status != PAL_OK) {
        refuse_error(turn, &turn->commit.write.failure);
    } else if (add->status == PAL_CONFLICT) {
        look_for_first(turn);
    } else if (add->status != PAL_OK) {
        refuse_error(turn, &add->error);
    } else if (turn->commit.write.ops_len > 1 && repeat->u.append.replayed) {
        if (repeat->status == PAL_OK) {
            look_for_first(turn);
        } else {
            /* The client id is known with other content. Either the message was merged with others,
             * or this request is an error. */
            make_drop(turn, add->u.inbox_item->id);
            change_inbox(turn, 1, on_dropped);
        }
    } else {
        turn->queue.inbox_ids[0] = add->u.inbox_item->id;
        return true;
    }
    return false;
}

/* The messages are in the inbox, and the turn waits in the queue. */
static void on_queued(pal_write *write)
{
    pal_turn *turn = PAL_TURN_OF(write, commit.write);
    pal_lane_state *lane = turn->lane;

    if (!was_added(turn))
        return;
    turn->queue.inbox_len = 1;
    wait_in_queue(turn);
    if (lane->runtime->is_closing)
        pal_lane_hand_over(lane);
}

static void on_steer_stored(pal_write *write)
{
    pal_turn *turn = PAL_TURN_OF(write, commit.write);
    pal_lane_state *lane = turn->lane;
    pal_steer *steer;

    if (!was_added(turn))
        return;
    if (!lane->running && !lane->runtime->is_closing) {
        /* The running turn has ended in the meantime: this becomes a separate turn. */
        turn->queue.inbox_len = 1;
        if (pal_lane_is_free(lane))
            pal_lane_begin(lane, turn);
        else
            wait_in_queue(turn);
        return;
    }
    if (!lane->running) {
        pal_lane_refuse(turn, PAL_CANCELED,
                "the runtime is being closed; the message stays in the inbox");
        return;
    }
    steer = pal_calloc(1, sizeof(*steer));
    if (!steer) {
        pal_lane_refuse(turn, PAL_NO_MEMORY, "out of memory");
        return;
    }
    steer->arena = turn->arena;
    steer->messages = turn->request.messages;
    steer->messages_len = turn->request.messages_len;
    steer->inbox_id = turn->queue.inbox_ids[0];
    turn->arena = NULL; /* the steer owns it now */
    *lane->steers_last = steer;
    lane->steers_last = &steer->next;
    turn->info.turn = lane->running->id;
    turn->info.state = lane->running->state;
    turn->info.steered = true;
    pal_lane_tell_started(turn, NULL);
    pal_turn_enter(turn, PAL_TURN_PHASE_ENDED);
    pal_lane_leave(turn);
}

static pal_status write_item(
        pal_turn *turn, const char *delivery, pal_inbox_item **out_item, pal_error *err)
{
    pal_inbox_item *item = pal_arena_alloc(turn->arena, sizeof(*item));
    pal_turn_request request = turn->request;

    if (turn->as_sent)
        request.messages = turn->as_sent; /* prepared for recording again when the turn begins */
    turn->queue.inbox_ids = pal_arena_alloc(turn->arena, sizeof(*turn->queue.inbox_ids));
    if (!item || !turn->queue.inbox_ids || !pal_turn_make_ops(turn))
        return pal_no_memory(err);
    *out_item = item;
    return pal_inbox_write(&request,
            &(pal_inbox_head){.turn = turn->owed.turn, .spent = turn->found.spent_tries}, delivery,
            turn->arena, item, err);
}

static void wait_in_inbox(pal_turn *turn, const char *delivery, void (*done)(pal_write *write))
{
    pal_error err = {0};
    pal_inbox_item *item = NULL;
    pal_message *known = NULL;
    pal_status status = write_item(turn, delivery, &item, &err);

    if (status == PAL_OK && pal_join_may_look(turn))
        status = pal_recovery_recorded(turn, &known, &err);
    if (status != PAL_OK) {
        refuse_error(turn, &err);
        return;
    }
    turn->commit.ops[0] = pal_op_inbox_add(turn->request.tenant, turn->request.session, item);
    if (known) {
        /* No session has this seq, so the append succeeds only if the messages are known. */
        turn->commit.ops[1] = pal_op_append(turn->request.tenant, turn->request.session, known,
                turn->request.messages_len, PAL_SEQ_ANY - 1);
        turn->commit.ops[1].with_previous = true;
        turn->commit.ops[1].u.append.inbox_ids = &item->id;
        turn->commit.ops[1].u.append.inbox_ids_len = 1;
    }
    change_inbox(turn, known ? 2 : 1, done);
}

/* ---- Choosing how to wait ---- */

static const char *delivery_of(const pal_turn *turn)
{
    return pal_turn_is_note(turn) ? "note" : "queue";
}

void pal_lane_wait(pal_turn *turn)
{
    pal_lane_state *lane = turn->lane;

    if (turn->request.messages_len == 0 || turn->request.create_ops_len > 0) {
        refuse_busy(turn);
        return;
    }
    switch (turn->request.lane) {
    case PAL_TURN_LANE_QUEUE:
    case PAL_TURN_LANE_INTERRUPT:
        if (turn->request.on_done)
            wait_in_queue(turn); /* `on_done` could not be called after a restart */
        else
            wait_in_inbox(turn, delivery_of(turn), on_queued);
        break;
    case PAL_TURN_LANE_STEER:
        if (lane->running && lane->running->summary.wait)
            wait_in_inbox(turn, "queue", on_queued); /* a compaction takes no messages */
        else
            wait_in_inbox(turn, "steer", on_steer_stored);
        break;
    default:
        refuse_busy(turn);
        break;
    }
}

bool pal_lane_may_wait(const pal_turn *turn)
{
    if (turn->queue.origin == PAL_ORIGIN_INBOX || turn->queue.inbox_len > 0)
        return true;
    return turn->request.messages_len > 0 && turn->request.lane != PAL_TURN_LANE_REJECT;
}

void pal_lane_requeue(pal_turn *turn)
{
    pal_lane_state *lane = turn->lane;

    lane->running = NULL;
    pal_lane_count(lane->runtime, -1, 0);
    pal_loop_timer_stop(lane->runtime->loop, &turn->deadline);
    pal_turn_enter(turn, PAL_TURN_PHASE_NEW);
    if (turn->queue.place == PAL_PLACE_LAST)
        turn->queue.place = PAL_PLACE_FIRST;
    if (turn->queue.origin == PAL_ORIGIN_INBOX || turn->queue.inbox_len > 0 ||
            turn->request.on_done) {
        wait_in_queue(turn);
        return;
    }
    lane->guards++;
    wait_in_inbox(turn, delivery_of(turn), on_queued);
    lane->guards--;
    pal_lane_dispatch(lane);
}
