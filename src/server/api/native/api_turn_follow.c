/* api_turn_follow.c - starts the turn of a request, and follows it until the request is answered.
 *
 * A run (run.h) starts the turn and reports its events on the runtime's loop. A worker then
 * answers, because it reads the store. So three threads use a pal_api_turn one after the other,
 * never at the same time: the handler's, the loop and a worker. If the client leaves, the turn
 * continues. */
#include "server/api/native/api_turn.h"

#include "base/memory.h"
#include "dialect/dialect_text.h"
#include "server/api/native/api_message.h"
#include "server/node/node.h"
#include "server/node/node_pass.h"
#include "server/run/run.h"
#include "server/server_call.h"

static pal_api_turn *turn_of(pal_exchange *x)
{
    const pal_call *call = x->call;
    return call->user;
}

typedef struct turn_run {
    pal_run run;
    pal_api_turn *turn; /* in the call's arena */
} turn_run;

static pal_api_turn *turn_in(pal_run *run)
{
    return ((turn_run *)run)->turn;
}

/* A worker continues. The turn must not be used afterwards. */
static void to_worker(pal_run *run, pal_exchange_work work)
{
    pal_run_stop(run);
    pal_exchange_to_worker(pal_run_take_call(run)->exchange, work);
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
        outcome->questions = pal_arena_copy(arena, event->questions);
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

static void note(pal_api_turn *turn, const pal_event *event)
{
    if (event->kind == PAL_EVENT_MESSAGE) {
        if (!turn->outcome.from_seq)
            turn->outcome.from_seq = event->seq;
        turn->outcome.seq = event->seq;
        turn->outcome.message = event->message;
        turn->outcome.finish = event->finish;
    }
    if (is_still(event->kind))
        note_still(turn, event);
}

static void event(pal_run *run, const pal_event *event)
{
    const pal_api_outcome *outcome = &turn_in(run)->outcome;
    note(turn_in(run), event);
    if (outcome->stop_at ? event->number >= outcome->stop_at
                         : is_still(event->kind) && event->number > outcome->after)
        to_worker(run, answer);
}

/* Called on a worker. */
static void fail_unwatched(pal_exchange *x)
{
    pal_api_turn *turn = turn_of(x);
    pal_api_turn_fail(turn, turn->start_error.status, &turn->start_error);
}

static void ended(pal_run *run, const pal_event *end)
{
    pal_api_turn *turn = turn_in(run);
    if (end->number) {
        note(turn, end);
    } else if (end->state == PAL_TURN_FAILED) { /* the turn could not be watched */
        pal_error_set(&turn->start_error, end->status, "%.*s", PAL_STR_ARG(end->text));
        to_worker(run, fail_unwatched);
        return;
    }
    to_worker(run, answer);
}

static bool stands_still(pal_turn_state state)
{
    return state == PAL_TURN_PAUSED || state == PAL_TURN_ASKING || state >= PAL_TURN_DONE;
}

/* Answers when the turn stops. Runs on a worker. */
static void await_stop(pal_api_turn *turn)
{
    static const pal_run_handlers handlers = {
            .event = event, .done = ended, .failed = ended, .has_no_arena = true};
    pal_call *call = turn->call;
    pal_turn_info info;
    pal_error err = {0};
    turn_run *r = NULL;
    pal_status status = pal_turn_find(
            call->server->runtime, call->caller.tenant, turn->info.turn, &info, &err);
    if (status == PAL_OK) {
        r = pal_run_new(call, &handlers, sizeof *r);
        status = r ? PAL_OK : pal_no_memory(&err);
    }
    if (status != PAL_OK) {
        pal_api_turn_fail(turn, status, &err);
        return;
    }
    turn->outcome = (pal_api_outcome){.after = info.events};
    if (stands_still(info.state))
        turn->outcome.stop_at = info.events;
    r->turn = turn;
    r->run.leave = PAL_RUN_CONTINUE;
    pal_run_join(&r->run, &info, 0);
}

/* ---- Repeated requests whose turn is unknown ----
 *
 * Messages recorded by older versions do not name their turn. Only if no other message follows is
 * it clear which answer belongs to the request. */

/* Returns the index of the last message of the request in the list; list->len if it is not
 * there. */
static size_t find_said(const pal_message_page *list, const pal_turn_request *request)
{
    pal_str id = request->messages[request->messages_len - 1].client_id;
    for (size_t i = list->len; i > 0; i--) {
        if (id.len && pal_str_equal(list->items[i - 1].client_id, id))
            return i - 1;
    }
    return list->len;
}

/* Takes the answer that directly follows. Returns false if there is no complete answer. */
static bool take_answer(pal_api_turn *turn, const pal_message_page *list, size_t said)
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
    return newest && newest == &list->items[i - 1] && !(newest->flags & PAL_MESSAGE_FLAG_ERROR);
}

static void answer_lost(pal_call *call)
{
    pal_error err;
    pal_status status = pal_call_refuse(call, 409, "answer_lost", PAL_CONFLICT, &err,
            "the message was sent before, and its turn is no longer in memory; read the session's "
            "messages");
    pal_call_fail(call, status, &err);
}

/* Answers from recorded messages, if the turn is no longer known. Runs on a worker. */
static void recall(pal_api_turn *turn)
{
    pal_call *call = turn->call;
    pal_message_page list;
    pal_error err = {0};
    pal_message_query load = {.limit = PAL_SERVER_MESSAGE_PAGE_MAX, .from_end = true};
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
        await_stop(turn);
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
    if (info->replayed && pal_id_is_none(info->turn))
        recall(turn);
    else
        pal_api_turn_follow(turn);
}

static void refused(pal_run *run, const pal_error *err)
{
    turn_in(run)->start_error = *err;
    to_worker(run, after_start);
}

static void started(pal_run *run, const pal_turn_info *info)
{
    turn_in(run)->info = *info;
    to_worker(run, after_start);
}

static pal_status start_here(pal_api_turn *turn, pal_error *err)
{
    static const pal_run_handlers handlers = {.refused = refused, .started = started};
    turn_run *r = pal_run_new(turn->call, &handlers, sizeof *r);
    if (!r)
        return pal_no_memory(err);
    r->turn = turn;
    r->run.leave = PAL_RUN_CONTINUE;
    r->run.can_ask = true;
    pal_run_start(&r->run, &turn->request);
    return PAL_OK;
}

/* If another node runs a turn of the session, that node must be given the message. */
static void start_or_pass(pal_exchange *x)
{
    pal_call *call = x->call;
    pal_api_turn *turn = call->user;
    pal_turn_info info;
    pal_error err = {0};
    if (pal_turn_of_session(call->server->runtime, call->caller.tenant, turn->request.session,
                &info, NULL) == PAL_OK &&
            pal_pass_turn(call, &info))
        return;
    pal_status status = start_here(turn, &err);
    if (status != PAL_OK)
        pal_call_fail(call, status, &err);
}

pal_status pal_api_turn_start(pal_api_turn *turn, pal_error *err)
{
    pal_turn_lane lane = turn->request.lane;
    pal_call *call = turn->call;
    bool joins = lane == PAL_TURN_LANE_STEER || lane == PAL_TURN_LANE_INTERRUPT;
    if (!joins || call->is_passed || !pal_nodes_has_others(call->server->nodes))
        return start_here(turn, err);
    pal_exchange_to_worker(call->exchange, start_or_pass);
    return PAL_OK;
}
