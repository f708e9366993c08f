/* api_turn_answer.c - the response of a turn: the recorded answer, or the reason why there is none.
 * Runs on a worker. */
#include "server/api/native/api_turn.h"

#include "base/json/json_put.h"
#include "dialect/dialect_member.h"
#include "dialect/dialect_text.h"
#include "dialect/native/native.h"
#include "server/api/api_object.h"
#include "server/api/native/api_message.h"
#include "server/run/run.h"
#include "server/server_call.h"
#include "server/server_idempotency.h"

/* ---- Showing the outcome ---- */

const pal_api_object pal_api_token_usage = {
        "TokenUsage", .members = PAL_API_MEMBERS({0}), .written = &pal_native_usage_table};

static const pal_api_object tool_call_body = {"ToolCall",
        .members = PAL_API_MEMBERS(
                {"call_id", PAL_API_TEXT, .is_required = true},
                {"name", PAL_API_TEXT, .is_required = true},
                {"arguments", PAL_API_TEXT, .is_required = true},
                {"output", .type = PAL_API_TEXT},
                {"is_error", .type = PAL_API_FLAG})};

const pal_api_object pal_api_turn_answer = {"TurnAnswer",
        .members = PAL_API_MEMBERS(
                {"turn_id", PAL_API_TEXT, .is_required = true, .is_nullable = true},
                {"session_id", PAL_API_TEXT, .is_required = true},
                {"state", PAL_API_WORD, .words = PAL_API_TURN_STATES, .is_required = true},
                {"text", .type = PAL_API_TEXT},
                {"message_id", .type = PAL_API_TEXT},
                {"seq", .type = PAL_API_COUNT},
                {"finish_reason", .type = PAL_API_TEXT},
                {"tool_calls", PAL_API_LIST, .of = &tool_call_body},
                {"waiting", PAL_API_LIST, .of = &tool_call_body},
                {"asking", .type = PAL_API_JSON_OBJECT},
                {"questions", PAL_API_LIST, .of = &pal_api_any_object},
                {"usage", PAL_API_NESTED, .of = &pal_api_token_usage},
                {"cost_micros", .type = PAL_API_NUMBER},
                {"reason", .type = PAL_API_TEXT},
                {"replayed", .type = PAL_API_FLAG},
                {"steered", .type = PAL_API_FLAG})};

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
        pal_put_raw(writer, "waiting", outcome->waiting.len ? outcome->waiting : pal_str_of("[]"));
    }
    if (outcome->state == PAL_TURN_ASKING) {
        pal_json_name(writer, "asking");
        pal_json_begin_object(writer);
        pal_put_str(writer, "call_id", outcome->asked_call);
        pal_put_str(writer, "name", outcome->asked_name);
        pal_put_str(writer, "reason", outcome->reason);
        pal_json_end_object(writer);
        pal_put_raw(writer, "questions",
                outcome->questions.len ? outcome->questions : pal_str_of("[]"));
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
                outcome->finish == PAL_FINISH_LENGTH ? "length"
                        : outcome->has_calls         ? "tool_calls"
                                                     : "stop");
    }
    pal_json_name(writer, "tool_calls");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < outcome->calls_len; i++)
        put_call(writer, &outcome->calls[i]);
    pal_json_end_array(writer);
    put_still(writer, outcome);
    pal_native_put_usage(writer, "usage", &outcome->sum.usage);
    pal_put_number(writer, "cost_micros", outcome->sum.cost_micros);
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

void pal_api_turn_send_state(pal_api_turn *turn)
{
    pal_json_writer *writer = pal_call_writer(turn->call);
    put_begin(turn, writer);
    pal_native_turn_put(writer, &turn->info);
    pal_json_end_object(writer);
    pal_call_send(turn->call, 202);
}

/* ---- Failures ---- */

/* Writes additional members of the error, in the arena. Empty if out of memory. */
static pal_str make_members(pal_call *call, const pal_turn_info *info)
{
    pal_buf buf;
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_json_name(&writer, "turn");
    pal_json_begin_object(&writer);
    pal_native_turn_put(&writer, info);
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

static void fail_outcome(pal_api_turn *turn)
{
    pal_error err;
    const pal_api_outcome *outcome = &turn->outcome;
    pal_status status = outcome->status == PAL_OK ? PAL_PROVIDER : outcome->status;
    const pal_event end = {.state = PAL_TURN_FAILED, .status = status};
    turn->call->fail_code = pal_run_failure_of(pal_run_failures_native, &end).code;
    pal_error_set(&err, status, "%.*s",
            (int)(outcome->reason.len < PAL_ERROR_MESSAGE_MAX ? outcome->reason.len
                                                              : PAL_ERROR_MESSAGE_MAX),
            outcome->reason.data ? outcome->reason.data : "");
    pal_api_turn_fail(turn, status, &err);
}

/* Another turn runs in the session. The error shows that turn and its state. */
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

void pal_api_turn_refuse(pal_api_turn *turn)
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

/* ---- Recorded messages ---- */

static size_t count_parts(const pal_message_page *list, pal_part_kind kind)
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
            call->output = pal_dialect_text(&alone, arena);
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

/* The turn's messages are those from its first answer to its newest one, and the results after
 * that. */
static void take_calls(pal_api_outcome *outcome, const pal_message_page *list, pal_arena *arena)
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
    pal_message_page list = {0};
    char id[PAL_ID_TEXT_SIZE];
    pal_message_query load = {
            .after_seq = outcome->from_seq - 1, .limit = PAL_SERVER_MESSAGE_PAGE_MAX};
    pal_ledger_query query = {.tenant = call->caller.tenant, .session = turn->request.session};
    pal_status status = PAL_OK;
    if (outcome->from_seq)
        status = pal_store_load(call->server->store, call->caller.tenant, turn->request.session,
                &load, call->arena, &list, err);
    if (status == PAL_OK)
        take_calls(outcome, &list, call->arena);
    for (size_t i = 0; status == PAL_OK && !outcome->text.len && i < list.len; i++)
        if (list.items[i].seq == outcome->seq)
            outcome->text = pal_dialect_text(&list.items[i], call->arena);
    pal_id_to_text(turn->info.turn, id);
    query.turn_id = pal_str_of(id);
    if (status == PAL_OK && !pal_id_is_none(turn->info.turn))
        status = pal_store_ledger_sum(call->server->store, &query, &outcome->sum, err);
    /* Facts that were seen on the loop are in the outcome too. */
    return status == PAL_OK ? pal_arena_checked(call->arena, err) : status;
}

/* The server stops before the turn has run or ended. The next server continues it. */
static void fail_stopping(pal_api_turn *turn)
{
    pal_error err;
    turn->call->fail_code = 503;
    turn->call->fail_name = "stopping";
    turn->call->fail_retry_ms = 1000;
    pal_error_set(&err, PAL_BUSY,
            "the server is stopping; the turn is '%s' and continues after the restart",
            pal_turn_state_name(turn->outcome.state));
    pal_api_turn_fail(turn, PAL_BUSY, &err);
}

/* The events did not contain the answer, so it must be in the store. */
static void fail_without_answer(pal_api_turn *turn)
{
    pal_error err;
    turn->call->fail_code = 409;
    turn->call->fail_name = "answer_lost";
    pal_error_set(&err, PAL_CONFLICT,
            "the answer of the turn is no longer in memory; read the session's messages");
    pal_api_turn_fail(turn, PAL_CONFLICT, &err);
}

static bool is_unfinished(pal_turn_state state)
{
    return state == PAL_TURN_QUEUED || state == PAL_TURN_RUNNING || state == PAL_TURN_RETRYING;
}

void pal_api_turn_send(pal_api_turn *turn)
{
    pal_error err = {0};
    pal_status status = gather(turn, &err);
    if (status == PAL_OK && turn->outcome.state != PAL_TURN_DONE && !turn->outcome.seq)
        pal_idempotency_forget(turn->call); /* a lost answer must not be replayed for the
                                               idempotency key */
    if (status != PAL_OK)
        pal_api_turn_fail(turn, status, &err);
    else if (is_unfinished(turn->outcome.state))
        fail_stopping(turn);
    else if (turn->outcome.state == PAL_TURN_DONE && !turn->outcome.seq)
        fail_without_answer(turn);
    else if (turn->outcome.state == PAL_TURN_FAILED)
        fail_outcome(turn);
    else if (turn->send)
        turn->send(turn);
    else
        send_native(turn);
}
