/* api_turn_answer.c - a request's turn after it was read: started, followed, answered.
 *
 * Three threads have it in turn, never two at once: a worker starts to follow it, the runtime's
 * loop sees its events, a worker gathers what was recorded and answers. The loop itself reads
 * nothing from the store and asks nothing of the runtime. */
#include "server/api_turn.h"

#include "base/clock.h"
#include "server/api_message.h"
#include "server/server_call.h"
#include "server/server_put.h"
#include "server/server_sse.h"

static void answer(pal_exchange *x);

static pal_api_turn *turn_of(pal_exchange *x)
{
    const pal_call *call = pal_exchange_user(x);
    return call->user;
}

/* ---- Showing ---- */

/* When a turn was made is the first six bytes of its id. */
static int64_t made_at(pal_id id)
{
    int64_t ms = 0;
    for (size_t i = 0; i < 6; i++)
        ms = ms << 8 | id.bytes[i];
    return ms;
}

void pal_api_turn_put_info(pal_json_writer *writer, const pal_turn_info *info)
{
    pal_put_id(writer, "turn_id", info->turn);
    pal_put_id(writer, "session_id", info->session);
    pal_put_text(writer, "state", pal_turn_state_name(info->state));
    pal_put_time(writer, "since", made_at(info->turn));
    pal_put_count(writer, "events", info->events);
    if (info->state == PAL_TURN_RETRYING) {
        pal_put_count(writer, "attempt", info->attempt);
        pal_put_time(writer, "retry_at", info->retry_at);
    }
    if (info->state == PAL_TURN_FAILED)
        pal_put_text(writer, "code", pal_status_name(info->status));
    if (info->reason[0])
        pal_put_text(writer, "reason", info->reason);
}

static void put_call(pal_json_writer *writer, const pal_api_tool_call *call)
{
    pal_json_begin_object(writer);
    pal_put_str(writer, "call_id", call->call_id);
    pal_put_str(writer, "name", call->name);
    pal_put_str(writer, "arguments", call->arguments);
    if (call->has_output) {
        pal_put_str(writer, "output", call->output);
        pal_put_flag(writer, "is_error", call->is_error);
    }
    pal_json_end_object(writer);
}

static void put_still(pal_json_writer *writer, const pal_api_outcome *outcome)
{
    if (outcome->state == PAL_TURN_PAUSED) {
        pal_json_name(writer, "waiting");
        pal_json_put_raw(writer, outcome->waiting.len ? outcome->waiting : pal_str_of("[]"));
    }
    if (outcome->state == PAL_TURN_ASKING) {
        pal_json_name(writer, "asking");
        pal_json_begin_object(writer);
        pal_put_str(writer, "call_id", outcome->asked_call);
        pal_put_str(writer, "name", outcome->asked_name);
        pal_put_str(writer, "reason", outcome->reason);
        pal_json_end_object(writer);
    }
}

static void put_outcome(pal_json_writer *writer, const pal_api_outcome *outcome)
{
    pal_put_text(writer, "state", pal_turn_state_name(outcome->state));
    pal_put_str(writer, "text", outcome->text);
    if (outcome->seq) {
        pal_put_id(writer, "message_id", outcome->message);
        pal_put_count(writer, "seq", outcome->seq);
        pal_put_text(writer, "finish_reason",
                outcome->is_cut              ? "length"
                        : outcome->has_calls ? "tool_calls"
                                             : "stop");
    }
    pal_json_name(writer, "tool_calls");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < outcome->calls_len; i++)
        put_call(writer, &outcome->calls[i]);
    pal_json_end_array(writer);
    put_still(writer, outcome);
    pal_put_usage(writer, "usage", &outcome->sum.usage);
    pal_json_name(writer, "cost_micros");
    pal_json_put_i64(writer, outcome->sum.cost_micros);
    if (outcome->reason.len)
        pal_put_str(writer, "reason", outcome->reason);
}

static void put_begin(pal_api_turn *turn, pal_json_writer *writer)
{
    pal_json_begin_object(writer);
    if (turn->put_members)
        turn->put_members(turn, writer);
    if (turn->info.replayed)
        pal_put_flag(writer, "replayed", true);
    if (turn->info.steered)
        pal_put_flag(writer, "steered", true);
}

static void send_native(pal_api_turn *turn)
{
    pal_json_writer *writer = pal_call_writer(turn->call);
    put_begin(turn, writer);
    pal_json_name(writer, "turn_id");
    if (pal_id_is_none(turn->info.turn)) {
        pal_json_put_null(writer);
    } else {
        char id[PAL_ID_TEXT_SIZE];
        pal_id_to_text(turn->info.turn, id);
        pal_json_put_text(writer, id);
    }
    pal_put_id(writer, "session_id", turn->request.session);
    put_outcome(writer, &turn->outcome);
    pal_json_end_object(writer);
    pal_call_send(turn->call, 200);
}

/* It runs on by itself. */
static void send_background(pal_api_turn *turn)
{
    pal_json_writer *writer = pal_call_writer(turn->call);
    put_begin(turn, writer);
    pal_api_turn_put_info(writer, &turn->info);
    pal_json_end_object(writer);
    pal_call_send(turn->call, 202);
}

/* ---- Failing ---- */

/* Members for the error, in the arena; none without memory. */
static pal_str make_members(pal_call *call, const pal_turn_info *info)
{
    pal_buf buf;
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_json_name(&writer, "turn");
    pal_json_begin_object(&writer);
    pal_api_turn_put_info(&writer, info);
    pal_json_end_object(&writer);
    pal_json_end_object(&writer);
    pal_str members = {0};
    if (buf.failure == PAL_OK)
        members = pal_arena_copy(call->arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return members;
}

void pal_api_turn_fail(pal_api_turn *turn, pal_status status, const pal_error *err)
{
    pal_call *call = turn->call;
    if (!pal_id_is_none(turn->info.turn))
        call->fail_members = make_members(call, &turn->info);
    if (turn->fail)
        turn->fail(turn, status, err);
    else
        pal_call_fail(call, status, err);
}

/* The service's refusal is none of ours: its 403 says nothing of the caller's key. */
static unsigned code_of_failure(pal_status status)
{
    bool is_foreign = status == PAL_DENIED || status == PAL_IO || status == PAL_NOT_FOUND;
    return is_foreign ? 502 : pal_status_http(status);
}

static void fail_outcome(pal_api_turn *turn)
{
    pal_error err;
    const pal_api_outcome *outcome = &turn->outcome;
    pal_status status = outcome->status == PAL_OK ? PAL_PROVIDER : outcome->status;
    turn->call->fail_code = code_of_failure(status);
    pal_error_set(&err, status, "%.*s",
            (int)(outcome->reason.len < PAL_ERROR_MESSAGE_MAX ? outcome->reason.len
                                                              : PAL_ERROR_MESSAGE_MAX),
            outcome->reason.data ? outcome->reason.data : "");
    pal_api_turn_fail(turn, status, &err);
}

/* Somebody else's turn runs there: whose, and how far it is. */
static void fail_busy(pal_api_turn *turn)
{
    pal_call *call = turn->call;
    pal_turn_info other;
    call->fail_code = 409;
    call->fail_name = "session_busy";
    if (pal_turn_of_session(call->server->runtime, call->caller.tenant, turn->request.session,
                &other, NULL) == PAL_OK)
        call->fail_members = make_members(call, &other);
    pal_call_fail(call, PAL_BUSY, &turn->start_error);
}

static void fail_start(pal_api_turn *turn)
{
    pal_status status = turn->start_error.status;
    if (status == PAL_BUSY) {
        fail_busy(turn);
        return;
    }
    if (status == PAL_CANCELED) {
        turn->call->fail_code = 503;
        turn->call->fail_name = "stopping";
        pal_call_fail(turn->call, status, &turn->start_error);
        return;
    }
    pal_api_turn_fail(turn, status, &turn->start_error);
}

/* ---- What was recorded ---- */

pal_str pal_api_message_text(const pal_message *message, pal_arena *arena)
{
    pal_str text = {0};
    pal_buf buf;
    pal_buf_init(&buf, PAL_MESSAGE_BYTES_MAX);
    for (size_t i = 0; i < message->parts_len; i++) {
        const pal_part *part = &message->parts[i];
        if (part->kind == PAL_PART_TEXT || part->kind == PAL_PART_TOOL_RESULT)
            pal_buf_append_str(&buf, part->text);
        for (size_t k = 0; part->kind == PAL_PART_TOOL_RESULT && k < part->parts_len; k++)
            pal_buf_append_str(&buf, part->parts[k].text);
    }
    if (buf.failure == PAL_OK && buf.len)
        text = pal_arena_copy(arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return text;
}

static size_t count_parts(const pal_messages *list, pal_part_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < list->len; i++) {
        for (size_t k = 0; k < list->items[i].parts_len; k++)
            count += list->items[i].parts[k].kind == kind;
    }
    return count;
}

static void add_result(pal_api_outcome *outcome, const pal_message *message, pal_arena *arena)
{
    for (size_t i = 0; i < message->parts_len; i++) {
        const pal_part *part = &message->parts[i];
        pal_message alone = {.parts = &message->parts[i], .parts_len = 1};
        for (size_t k = outcome->calls_len; k > 0; k--) {
            pal_api_tool_call *call = &outcome->calls[k - 1];
            if (!pal_str_equal(call->call_id, part->call_id))
                continue;
            call->output = pal_api_message_text(&alone, arena);
            call->has_output = true;
            call->is_error = part->is_error;
            break;
        }
    }
}

static void add_calls(pal_api_outcome *outcome, const pal_message *message)
{
    outcome->has_calls = false;
    for (size_t i = 0; i < message->parts_len; i++) {
        const pal_part *part = &message->parts[i];
        if (part->kind != PAL_PART_TOOL_CALL)
            continue;
        outcome->has_calls = true;
        outcome->calls[outcome->calls_len++] = (pal_api_tool_call){
                .call_id = part->call_id, .name = part->name, .arguments = part->arguments};
    }
}

/* The turn's own messages are those from its first answer to its newest, and the results behind.
 */
static void take_calls(pal_api_outcome *outcome, const pal_messages *list, pal_arena *arena)
{
    size_t count = count_parts(list, PAL_PART_TOOL_CALL);
    outcome->calls = pal_arena_array(arena, count ? count : 1, sizeof *outcome->calls);
    for (size_t i = 0; outcome->calls && i < list->len; i++) {
        const pal_message *message = &list->items[i];
        if (message->role == PAL_ROLE_TOOL)
            add_result(outcome, message, arena);
        else if (message->seq > outcome->seq)
            return;
        else if (message->role == PAL_ROLE_ASSISTANT)
            add_calls(outcome, message);
    }
}

static pal_status gather(pal_api_turn *turn, pal_error *err)
{
    pal_call *call = turn->call;
    pal_api_outcome *outcome = &turn->outcome;
    pal_messages list = {0};
    char id[PAL_ID_TEXT_SIZE];
    pal_load load = {.after_seq = outcome->from_seq - 1, .limit = PAL_API_PAGE_MAX};
    pal_ledger_query query = {.tenant = call->caller.tenant, .session = turn->request.session};
    pal_status status = PAL_OK;
    if (outcome->from_seq)
        status = pal_store_load(call->server->store, call->caller.tenant, turn->request.session,
                &load, call->arena, &list, err);
    if (status == PAL_OK)
        take_calls(outcome, &list, call->arena);
    pal_id_to_text(turn->info.turn, id);
    query.turn_id = pal_str_of(id);
    if (status == PAL_OK && !pal_id_is_none(turn->info.turn))
        status = pal_store_ledger_sum(call->server->store, &query, &outcome->sum, err);
    return status;
}

static void send_outcome(pal_api_turn *turn)
{
    pal_error err = {0};
    pal_status status = gather(turn, &err);
    if (status != PAL_OK)
        pal_api_turn_fail(turn, status, &err);
    else if (turn->outcome.state == PAL_TURN_FAILED)
        fail_outcome(turn);
    else if (turn->send)
        turn->send(turn);
    else
        send_native(turn);
}

static void answer(pal_exchange *x)
{
    pal_api_turn *turn = turn_of(x);
    pal_call *call = turn->call;
    pal_turn_info info;
    pal_error err;
    pal_str text = {0};
    /* It may run again meanwhile, or be forgotten: what was seen counts. */
    pal_status status = pal_turn_wait(call->server->runtime, call->caller.tenant, turn->info.turn,
            0, call->arena, &info, &text, &err);
    if (status == PAL_OK || status == PAL_TIMEOUT) {
        info.replayed = turn->info.replayed;
        info.steered = turn->info.steered;
        turn->info = info;
        turn->outcome.text = text;
    }
    if (turn->outcome.state == PAL_TURN_NONE)
        turn->outcome.state = turn->info.state;
    send_outcome(turn);
}

/* ---- Seeing how it goes ---- */

static void note_answer(pal_api_outcome *outcome, const pal_event *event)
{
    if (!outcome->from_seq)
        outcome->from_seq = event->seq;
    outcome->seq = event->seq;
    outcome->message = event->message;
    outcome->is_cut = event->finish_length;
}

/* It stands still; what it said of that before counts no longer. */
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

/* On the loop. */
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

/* On the loop. */
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

/* ---- What was answered before ---- */

/* Which of the messages is the last that the request says; list->len: none. */
static size_t find_said(const pal_messages *list, const pal_turn_request *request)
{
    pal_str id = request->messages[request->messages_len - 1].client_id;
    for (size_t i = list->len; i > 0; i--) {
        if (id.len && pal_str_equal(list->items[i - 1].client_id, id))
            return i - 1;
    }
    return list->len;
}

/* Takes the answer that follows; false: nobody has finished one, and nothing else was said. */
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
        outcome->text = pal_api_message_text(newest, turn->call->arena);
    }
    outcome->state = PAL_TURN_DONE;
    bool is_finished = newest && newest == &list->items[i - 1] && !(newest->flags & PAL_FLAG_ERROR);
    return is_finished || i < list->len;
}

static void start_again(pal_api_turn *turn)
{
    pal_error err = {0};
    turn->info = (pal_turn_info){0};
    turn->outcome = (pal_api_outcome){0};
    pal_status status = pal_api_turn_start(turn, &err);
    if (status != PAL_OK)
        pal_api_turn_fail(turn, status, &err);
}

/* What was said is recorded, its answer is not: the turn goes on from there. */
static void go_on(pal_api_turn *turn)
{
    turn->request.messages_len = 0;
    start_again(turn);
}

/* What failed as a whole is out of sight: it is said anew. */
static void say_again(pal_api_turn *turn)
{
    for (size_t i = 0; i < turn->request.messages_len; i++)
        turn->request.messages[i].client_id = (pal_str){0};
    start_again(turn);
}

void pal_api_turn_recall(pal_api_turn *turn)
{
    pal_call *call = turn->call;
    pal_messages list;
    pal_error err = {0};
    pal_load load = {.limit = PAL_API_PAGE_MAX, .from_end = true};
    pal_status status = pal_store_load(call->server->store, call->caller.tenant,
            turn->request.session, &load, call->arena, &list, &err);
    size_t said = status == PAL_OK ? find_said(&list, &turn->request) : 0;
    if (status != PAL_OK) {
        pal_api_turn_fail(turn, status, &err);
    } else if (said == list.len && turn->request.whole) {
        say_again(turn);
    } else if (said == list.len) {
        status = pal_call_refuse(call, 409, "answer_lost", PAL_CONFLICT, &err,
                "this was said before, and its answer is no longer at hand; read the messages");
        pal_call_fail(call, status, &err);
    } else if (take_answer(turn, &list, said)) {
        send_outcome(turn);
    } else {
        go_on(turn);
    }
}

/* ---- Starting ---- */

void pal_api_turn_follow(pal_api_turn *turn)
{
    pal_call *call = turn->call;
    pal_error err = {0};
    pal_status status = PAL_OK;
    if (turn->is_background)
        send_background(turn);
    else if (turn->is_stream)
        status = pal_sse_turn(call, &turn->info, turn->stream_after, &err);
    else
        pal_api_turn_await(turn);
    if (status != PAL_OK)
        pal_call_fail(call, status, &err);
}

/* On a worker. */
static void after_start(pal_exchange *x)
{
    pal_api_turn *turn = turn_of(x);
    const pal_turn_info *info = &turn->info;
    if (turn->start_error.status != PAL_OK) {
        fail_start(turn);
        return;
    }
    pal_call_trace_turn(turn->call, info, turn->request.model);
    if (info->replayed && pal_id_is_none(info->turn))
        pal_api_turn_recall(turn);
    else if (info->replayed && info->state == PAL_TURN_FAILED && turn->request.whole)
        say_again(turn);
    else if (info->replayed && info->state == PAL_TURN_FAILED)
        go_on(turn);
    else
        pal_api_turn_follow(turn);
}

/* On the loop. */
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
