/* api_turn_follow.c - follows the turn of a request until the request can be answered.
 *
 * Three threads use it one after the other, never at the same time: a worker starts to follow the
 * turn, the runtime's loop sees its events, and a worker answers. On the loop, nothing is read from
 * the store, and the runtime is not called. */
#include "server/api/native/api_turn.h"

#include "dialect/dialect_text.h"
#include "server/api/native/api_message.h"
#include "server/server_call.h"

static pal_api_turn *turn_of(pal_exchange *x)
{
    const pal_call *call = pal_exchange_user(x);
    return call->user;
}

/* ---- When the turn stops ---- */

static void answer(pal_exchange *x)
{
    pal_api_turn *turn = turn_of(x);
    pal_call *call = turn->call;
    pal_turn_info info;
    pal_error err;
    pal_str text = {0};
    /* Meanwhile the turn may continue or be forgotten. The outcome that was seen counts. */
    pal_status status = pal_turn_wait(call->server->runtime, call->caller.tenant, turn->info.turn,
            0, call->arena, &info, &text, &err);
    if (status == PAL_NO_MEMORY) {
        pal_api_turn_fail(turn, status, &err);
        return;
    }
    if (status == PAL_OK || status == PAL_TIMEOUT) {
        info.replayed = turn->info.replayed;
        info.steered = turn->info.steered;
        turn->info = info;
        turn->outcome.text = text;
    }
    if (turn->outcome.state == PAL_TURN_NONE)
        turn->outcome.state = turn->info.state;
    pal_api_turn_send(turn);
}

/* ---- Events of the turn ---- */

static void note_answer(pal_api_outcome *outcome, const pal_event *event)
{
    if (!outcome->from_seq)
        outcome->from_seq = event->seq;
    outcome->seq = event->seq;
    outcome->message = event->message;
    outcome->finish = event->finish;
}

/* The turn has stopped. This replaces the facts of an earlier stop. */
static void note_still(pal_api_turn *turn, const pal_event *event)
{
    pal_api_outcome *outcome = &turn->outcome;
    pal_arena *arena = turn->call->arena;
    outcome->reason = (pal_str){0};
    switch (event->kind) {
    case PAL_EVENT_PAUSED:
        outcome->state = PAL_TURN_PAUSED;
        outcome->waiting = pal_arena_copy(arena, event->text);
        return;
    case PAL_EVENT_ASKING:
        outcome->state = PAL_TURN_ASKING;
        outcome->asked_call = pal_arena_copy(arena, event->call_id);
        outcome->asked_name = pal_arena_copy(arena, event->name);
        break;
    default:
        outcome->state = event->state;
        outcome->status = event->status;
        break;
    }
    outcome->reason = pal_arena_copy(arena, event->text);
}

static bool is_still(pal_event_kind kind)
{
    return kind == PAL_EVENT_PAUSED || kind == PAL_EVENT_ASKING || kind == PAL_EVENT_ENDED;
}

/* Called on the loop. */
static bool see(const pal_event *event, void *user)
{
    pal_api_turn *turn = user;
    const pal_api_outcome *outcome = &turn->outcome;
    if (event->kind == PAL_EVENT_MESSAGE)
        note_answer(&turn->outcome, event);
    if (is_still(event->kind))
        note_still(turn, event);
    if (outcome->stop_at)
        return event->number < outcome->stop_at;
    return event->kind != PAL_EVENT_ENDED &&
            !(is_still(event->kind) && event->number > outcome->after);
}

/* Called on the loop. */
static void seen(void *user)
{
    const pal_api_turn *turn = user;
    pal_exchange_to_worker(turn->call->exchange, answer);
}

static bool stands_still(pal_turn_state state)
{
    return state == PAL_TURN_PAUSED || state == PAL_TURN_ASKING || state >= PAL_TURN_DONE;
}

void pal_api_turn_await(pal_api_turn *turn)
{
    pal_call *call = turn->call;
    pal_runtime *runtime = call->server->runtime;
    pal_turn_info info;
    pal_error err = {0};
    pal_status status = pal_turn_find(runtime, call->caller.tenant, turn->info.turn, &info, &err);
    if (status == PAL_OK) {
        turn->outcome = (pal_api_outcome){.after = info.events};
        if (stands_still(info.state))
            turn->outcome.stop_at = info.events;
        status = pal_turn_watch(
                runtime, call->caller.tenant, turn->info.turn, 0, see, seen, turn, &err);
    }
    if (status != PAL_OK)
        pal_api_turn_fail(turn, status, &err);
}

/* ---- Repeated requests whose turn is unknown ----
 *
 * Messages recorded by older versions do not name their turn. Only if no other message follows is
 * it clear which answer belongs to the request. */

/* Returns the index of the last message of the request in the list; list->len if it is not
 * there. */
static size_t find_said(const pal_messages *list, const pal_turn_request *request)
{
    pal_str id = request->messages[request->messages_len - 1].client_id;
    for (size_t i = list->len; i > 0; i--) {
        if (id.len && pal_str_equal(list->items[i - 1].client_id, id))
            return i - 1;
    }
    return list->len;
}

/* Takes the answer that directly follows. Returns false if there is no complete answer. */
static bool take_answer(pal_api_turn *turn, const pal_messages *list, size_t said)
{
    pal_api_outcome *outcome = &turn->outcome;
    const pal_message *newest = NULL;
    size_t i = said + 1;
    for (; i < list->len && list->items[i].role != PAL_ROLE_USER; i++) {
        if (list->items[i].role != PAL_ROLE_ASSISTANT)
            continue;
        newest = &list->items[i];
        if (!outcome->from_seq)
            outcome->from_seq = newest->seq;
    }
    if (newest) {
        outcome->seq = newest->seq;
        outcome->message = newest->id;
        outcome->text = pal_dialect_text(newest, turn->call->arena);
    }
    outcome->state = PAL_TURN_DONE;
    return newest && newest == &list->items[i - 1] && !(newest->flags & PAL_FLAG_ERROR);
}

static void answer_lost(pal_call *call)
{
    pal_error err;
    pal_status status = pal_call_refuse(call, 409, "answer_lost", PAL_CONFLICT, &err,
            "the message was sent before, and its turn is no longer in memory; read the session's "
            "messages");
    pal_call_fail(call, status, &err);
}

void pal_api_turn_recall(pal_api_turn *turn)
{
    pal_call *call = turn->call;
    pal_messages list;
    pal_error err = {0};
    pal_load load = {.limit = PAL_SERVER_MESSAGE_PAGE_MAX, .from_end = true};
    pal_status status = pal_store_load(call->server->store, call->caller.tenant,
            turn->request.session, &load, call->arena, &list, &err);
    size_t said = status == PAL_OK ? find_said(&list, &turn->request) : 0;
    if (status != PAL_OK)
        pal_api_turn_fail(turn, status, &err);
    else if (said < list.len && !turn->is_stream && take_answer(turn, &list, said))
        pal_api_turn_send(turn);
    else
        answer_lost(call);
}

/* ---- Starting ---- */

void pal_api_turn_follow(pal_api_turn *turn)
{
    pal_call *call = turn->call;
    pal_error err = {0};
    pal_status status = PAL_OK;
    if (turn->is_background)
        pal_api_turn_send_state(turn);
    else if (turn->is_stream)
        status = pal_api_turn_stream(call, &turn->info, turn->stream_after, &err);
    else
        pal_api_turn_await(turn);
    if (status != PAL_OK)
        pal_call_fail(call, status, &err);
}

/* Called on a worker. */
static void after_start(pal_exchange *x)
{
    pal_api_turn *turn = turn_of(x);
    const pal_turn_info *info = &turn->info;
    if (turn->start_error.status != PAL_OK) {
        pal_api_turn_refuse(turn);
        return;
    }
    pal_call_trace_turn(turn->call, info, turn->request.model);
    if (info->replayed && pal_id_is_none(info->turn))
        pal_api_turn_recall(turn);
    else
        pal_api_turn_follow(turn);
}

/* Called on the loop. */
static void started(const pal_turn_info *info, const pal_error *err, void *user)
{
    pal_api_turn *turn = user;
    turn->start_error = err ? *err : (pal_error){0};
    if (info)
        turn->info = *info;
    pal_exchange_to_worker(turn->call->exchange, after_start);
}

pal_status pal_api_turn_start(pal_api_turn *turn, pal_error *err)
{
    return pal_turn_start_async(turn->call->server->runtime, &turn->request, started, turn, err);
}
