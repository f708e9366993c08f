/* api_turn.c - turns: start a turn in a session, show its state, read its events, steer it, cancel
 * it, and send it results and permission. */
#include "server/api/native/api_turn.h"

#include <stdio.h>
#include "base/json/json_put.h"
#include "dialect/dialect_member.h"
#include "dialect/dialect_text.h"
#include "dialect/native/native.h"
#include "server/api/api_object.h"
#include "server/api/native/api_message.h"
#include "server/api/native/api_native.h"
#include "server/node/node_pass.h"
#include "server/server_call.h"

#define ELSEWHERE_RETRY_MS 1000 /* Retry-After if another process runs the turn */
#define NO_TURN "the turn does not exist or is no longer in memory; read the session's messages"

/* ---- Starting ---- */

const pal_api_object pal_api_turn_body = {"TurnRequest",
        .members = PAL_API_MEMBERS(
                {.type = PAL_API_INCLUDE, .of = &pal_api_messages_members},
                {.type = PAL_API_INCLUDE, .of = &pal_api_turn_settings},
                {"client_id", PAL_API_VALUE, .schema = "{\"type\":\"string\"}"},
                {"agent", PAL_API_VALUE, .schema = "{\"type\":\"string\"}"},
                {"context", PAL_API_VALUE, .of = &pal_api_context_settings})};

/* The first message gets the client id of the request. The ids of the others are derived from
 * it. */
static pal_status give_client_id(pal_call *call, pal_turn_request *request, pal_error *err)
{
    pal_str id = {0};
    pal_status status =
            pal_call_text(call, call->body, "client_id", PAL_CLIENT_ID_LEN_MAX - 8, &id, err);
    if (status != PAL_OK)
        return status;
    for (size_t i = 0; id.len && i < request->messages_len; i++) {
        char text[PAL_CLIENT_ID_LEN_MAX + 8];
        if (i == 0)
            snprintf(text, sizeof text, "%.*s", PAL_STR_ARG(id));
        else
            snprintf(text, sizeof text, "%.*s:%zu", PAL_STR_ARG(id), i);
        request->messages[i].client_id = pal_arena_copy(call->arena, pal_str_of(text));
    }
    return pal_arena_checked(call->arena, err);
}

pal_status pal_api_turn_body_read(pal_api_turn *turn, const pal_session *session, pal_error *err)
{
    pal_call *call = turn->call;
    pal_status status = pal_api_messages_read(
            call, call->body, false, &turn->request.messages, &turn->request.messages_len, err);
    if (status != PAL_OK)
        return status;
    status = give_client_id(call, &turn->request, err);
    if (status != PAL_OK)
        return status;
    status = pal_api_agent_read(turn, err);
    return status == PAL_OK ? pal_api_turn_read(turn, session, true, err) : status;
}

static pal_status start_turn(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_status status = pal_api_active_session(call, call->params[0], &session, err);
    if (status != PAL_OK)
        return status;
    pal_api_turn *turn = pal_api_turn_new(call, &session);
    if (!turn)
        return pal_arena_checked(call->arena, err);
    status = pal_api_turn_body_read(turn, &session, err);
    return status == PAL_OK ? pal_api_turn_start(turn, err) : status;
}

/* ---- Showing turns ---- */

pal_status pal_api_turn_find(pal_call *call, pal_turn_info *out_info, pal_error *err)
{
    pal_id id;
    if (!pal_id_from_text(call->params[0], &id))
        return pal_error_set(err, PAL_NOT_FOUND, NO_TURN);
    return pal_turn_find(call->server->runtime, call->caller.tenant, id, out_info, err);
}

/* Shows what a paused turn is waiting for. */
static void put_waits(
        pal_json_writer *writer, const pal_turn_info *info, const pal_turn_waits *waits)
{
    if (info->state == PAL_TURN_PAUSED) {
        pal_put_raw(writer, "waiting", waits->calls.len ? waits->calls : pal_str_of("[]"));
    }
    if (info->state == PAL_TURN_ASKING) {
        pal_json_name(writer, "asking");
        pal_json_begin_object(writer);
        pal_put_str(writer, "call_id", waits->asked_call_id);
        pal_put_str(writer, "name", waits->asked_name);
        pal_put_str(writer, "arguments", waits->asked_arguments);
        pal_put_text(writer, "reason", info->reason);
        pal_json_end_object(writer);
        pal_json_name(writer, "questions");
        pal_json_begin_array(writer);
        for (size_t i = 0; i < waits->questions_len; i++)
            pal_native_question_put(writer, PAL_NATIVE_SHOWN, &waits->questions[i]);
        pal_json_end_array(writer);
    }
}

/* The text of the newest answer; empty if it no longer exists. */
static pal_str text_of(pal_call *call, const pal_turn_info *info)
{
    pal_message message;
    pal_id session;
    if (!info->seq ||
            pal_store_message(call->server->store, call->caller.tenant, info->message, call->arena,
                    &message, &session, NULL) != PAL_OK)
        return (pal_str){0};
    return pal_dialect_text(&message, call->arena);
}

/* The state may have changed between two reads: the turn may have continued, or been set up again
 * after a restart. */
static pal_status look_at_waits(
        pal_call *call, pal_turn_info *info, pal_turn_waits *out_waits, pal_error *err)
{
    pal_status status = PAL_OK;
    for (int looks = 0; status == PAL_OK && looks < 50; looks++) {
        if (info->state != PAL_TURN_PAUSED && info->state != PAL_TURN_ASKING)
            return PAL_OK;
        status = pal_turn_waiting(call->server->runtime, call->caller.tenant, info->turn,
                call->arena, out_waits, err);
        if (status == PAL_OK && (out_waits->calls.len > 2 || out_waits->asked_call_id.len))
            return PAL_OK;
        if (status == PAL_OK)
            status = pal_turn_find(
                    call->server->runtime, call->caller.tenant, info->turn, info, err);
    }
    return status == PAL_NOT_FOUND ? PAL_OK : status;
}

pal_status pal_api_turn_put_waits(
        pal_call *call, pal_turn_info *info, pal_json_writer *writer, pal_error *err)
{
    pal_turn_waits waits = {.calls = {0}};
    pal_status status = look_at_waits(call, info, &waits, err);
    if (status == PAL_OK)
        put_waits(writer, info, &waits);
    return status;
}

typedef struct turn_query {
    bool so_far;
} turn_query;

static const pal_api_object turn_query_table = {
        .members = PAL_API_MEMBERS(
                {"so_far", PAL_API_FLAG, "whether the unfinished answer is included",
                        .offset = offsetof(turn_query, so_far)})};

static pal_status send_info(
        pal_call *call, pal_turn_info *info, const turn_query *query, pal_error *err)
{
    pal_turn_waits waits = {.calls = {0}};
    pal_status status = look_at_waits(call, info, &waits, err);
    if (status != PAL_OK)
        return status;
    pal_str text = text_of(call, info);
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_native_turn_put(writer, info);
    if (info->seq)
        pal_put_str(writer, "text", text);
    put_waits(writer, info, &waits);
    if (query->so_far)
        status = pal_api_turn_put_so_far(call, info, writer, err);
    if (status != PAL_OK)
        return status;
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

static pal_status send_turn(pal_call *call, pal_error *err)
{
    static const turn_query nothing;
    pal_turn_info info;
    pal_status status = pal_api_turn_find(call, &info, err);
    return status == PAL_OK ? send_info(call, &info, &nothing, err) : status;
}

static pal_status get_turn(pal_call *call, pal_error *err)
{
    pal_turn_info info;
    turn_query query = {0};
    pal_status status = pal_api_query_read(call, &turn_query_table, &query, err);
    if (status == PAL_OK)
        status = pal_api_turn_find(call, &info, err);
    return status == PAL_OK ? send_info(call, &info, &query, err) : status;
}

static pal_status get_session_turn(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_turn_info info;
    turn_query query = {0};
    pal_status status = pal_api_query_read(call, &turn_query_table, &query, err);
    if (status == PAL_OK)
        status = pal_call_session(call, call->params[0], &session, err);
    if (status != PAL_OK)
        return status;
    status =
            pal_turn_of_session(call->server->runtime, call->caller.tenant, session.id, &info, err);
    if (status == PAL_OK && pal_pass_turn(call, &info))
        return PAL_OK;
    if (status == PAL_OK)
        return send_info(call, &info, &query, err);
    if (status != PAL_NOT_FOUND)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_put_str_or_null(writer, "turn_id", (pal_str){0});
    pal_put_id(writer, "session_id", session.id);
    pal_put_text(writer, "state", "idle");
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

typedef struct events_query {
    uint64_t after;
} events_query;

static const pal_api_object events_query_table = {
        .members = PAL_API_MEMBERS(
                {"after", PAL_API_COUNT, "only events with a larger number",
                .offset = offsetof(events_query, after)})};

/* A browser that reconnects to the same URL sends the header. */
static pal_status read_after(pal_call *call, events_query *query, pal_error *err)
{
    pal_str last = pal_exchange_header(call->exchange, "last-event-id");
    if (last.len == 0)
        return pal_api_query_read(call, &events_query_table, query, err);
    if (pal_call_number(last, &query->after))
        return PAL_OK;
    call->fail_param = "Last-Event-ID";
    return pal_error_set(
            err, PAL_INVALID, "header Last-Event-ID must be the number of an event");
}

static pal_status refuse_elsewhere(pal_call *call, pal_error *err)
{
    call->fail_retry_ms = ELSEWHERE_RETRY_MS;
    return pal_call_refuse(call, 409, "turn_elsewhere", PAL_BUSY, err,
            "the turn does not run in this server: another one runs it or will continue it; read "
            "its state with GET /api/v1/turns/{turn}, or retry later");
}

static pal_status get_events(pal_call *call, pal_error *err)
{
    pal_turn_info info;
    events_query query = {0};
    pal_status status = read_after(call, &query, err);
    if (status != PAL_OK)
        return status;
    status = pal_api_turn_find(call, &info, err);
    if (status != PAL_OK)
        return status;
    if (info.state >= PAL_TURN_DONE && query.after >= info.events) {
        /* After 204, a browser does not reconnect. */
        pal_exchange_answer(call->exchange, 204, NULL, (pal_str){0});
        return PAL_OK;
    }
    if (pal_pass_turn(call, &info))
        return PAL_OK;
    if (info.is_elsewhere)
        return refuse_elsewhere(call, err);
    return pal_api_turn_stream(call, &info, query.after, err);
}

/* ---- Changing turns ---- */

static pal_status cancel_turn(pal_call *call, pal_error *err)
{
    pal_turn_info info;
    pal_status status = pal_api_turn_find(call, &info, err);
    if (status != PAL_OK)
        return status;
    if (pal_pass_turn(call, &info))
        return PAL_OK;
    if (info.is_elsewhere)
        return info.state >= PAL_TURN_DONE ? send_turn(call, err) : refuse_elsewhere(call, err);
    status = pal_turn_cancel(call->server->runtime, call->caller.tenant, info.turn, err);
    return status == PAL_OK ? send_turn(call, err) : status;
}

typedef struct approve_request {
    pal_str call_id; /* only in `answers` */
    bool allow;
    int remember; /* 1: for the session */
    pal_str data;
} approve_request;

#define APPROVE_MEMBERS                                                                            \
    {"allow", PAL_API_FLAG, "true or false", .offset = offsetof(approve_request, allow)},          \
            {"remember", PAL_API_WORD, "whether the answer also counts for later calls of the "    \
                    "tool in the session", .offset = offsetof(approve_request, remember),          \
                    .words = "once session"},                                                      \
            {"data", PAL_API_JSON_OBJECT, "the input that a tool server asked for",                \
                    .offset = offsetof(approve_request, data)}

static const pal_api_object answer_body = {"ApproveAnswer",
        .members = PAL_API_MEMBERS(
                {"call_id", PAL_API_TEXT, "the id of the call",
                        .offset = offsetof(approve_request, call_id), .min = 1,
                        .max = PAL_NAME_LEN_MAX,
                        .is_required = true},
                APPROVE_MEMBERS)};

static const pal_api_object approve_body = {"ApproveRequest",
        .members = PAL_API_MEMBERS(APPROVE_MEMBERS,
                {"answers", PAL_API_LIST, "answers to single questions", .of = &answer_body,
                        .max = PAL_ANSWER_CALLS_MAX})};

static pal_status no_allow(pal_call *call, pal_error *err)
{
    call->fail_param = "allow";
    return pal_error_set(err, PAL_INVALID, "'allow' is missing; send true or false");
}

static bool has_allow(pal_json value)
{
    return pal_json_type_of(pal_json_find(value, "allow")) != PAL_JSON_NONE;
}

static pal_status read_answer(
        pal_call *call, pal_json value, pal_question_answer *out_answer, pal_error *err)
{
    approve_request request = {0};
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID, "an answer must be an object");
    pal_status status = pal_api_object_read(call, value, &answer_body, &request, err);
    if (status == PAL_OK && !has_allow(value))
        status = no_allow(call, err);
    *out_answer = (pal_question_answer){
            .call_id = request.call_id,
            .allow = request.allow,
            .remember = request.remember,
            .data = request.data};
    return status;
}

/* `allow` answers all questions that `answers` does not name. */
static pal_status read_answers(pal_call *call, pal_question_answer **out_answers, size_t *out_len,
        pal_error *err)
{
    pal_json value, array = pal_json_find(call->body, "answers");
    pal_json_iter iter = pal_json_each(array);
    size_t len = 0;
    approve_request request = {0};
    pal_status status = pal_api_object_read(call, call->body, &approve_body, &request, err);
    if (status != PAL_OK)
        return status;
    if (!pal_json_is_absent(array) && pal_json_type_of(array) != PAL_JSON_ARRAY) {
        call->fail_param = "answers";
        return pal_error_set(err, PAL_INVALID, "'answers' must be an array of answers");
    }
    pal_question_answer *answers =
            pal_arena_array(call->arena, pal_json_count(array) + 1, sizeof *answers);
    while (answers && status == PAL_OK && pal_json_next(&iter, NULL, &value)) {
        status = read_answer(call, value, &answers[len], err);
        if (status != PAL_OK)
            return pal_member_within(err, status, "answers", len);
        len++;
    }
    if (answers && has_allow(call->body))
        answers[len++] = (pal_question_answer){
                .allow = request.allow, .remember = request.remember, .data = request.data};
    else if (len == 0)
        return no_allow(call, err);
    *out_answers = answers;
    *out_len = len;
    return pal_arena_checked(call->arena, err);
}

static pal_status approve_turn(pal_call *call, pal_error *err)
{
    pal_turn_info info;
    pal_question_answer *answers = NULL;
    size_t len = 0;
    pal_status status = read_answers(call, &answers, &len, err);
    if (status != PAL_OK)
        return status;
    status = pal_api_turn_find(call, &info, err);
    if (status != PAL_OK)
        return status;
    status = pal_turn_answer(
            call->server->runtime, call->caller.tenant, info.turn, answers, len, err);
    return status == PAL_OK ? send_turn(call, err) : status;
}

/* ---- Results ---- */

/* Returns the output of a tool: a string, or any other JSON value as text. */
static pal_str output_of(pal_json result, pal_arena *arena)
{
    pal_json value = pal_json_find(result, "output");
    if (pal_json_type_of(value) == PAL_JSON_NONE)
        value = pal_json_find(result, "content");
    pal_json_type type = pal_json_type_of(value);
    if (type == PAL_JSON_STRING)
        return pal_json_string(value, arena);
    return type == PAL_JSON_NONE || type == PAL_JSON_NULL ? (pal_str){0} : pal_json_raw(value);
}

static const pal_api_object result_body = {
        .members = PAL_API_MEMBERS(
                {"call_id", PAL_API_TEXT, "the id of the call", .offset = offsetof(pal_part,
                        call_id),
                        .min = 1, .max = PAL_NAME_LEN_MAX, .is_required = true},
                {"output", PAL_API_VALUE, .schema = "{}"},
                {"content", PAL_API_VALUE, .schema = "{}"},
                {"is_error", PAL_API_FLAG, "whether the call failed",
                        .offset = offsetof(pal_part, is_error)})};

static const pal_api_object results_body = {"ResultsRequest",
        .members = PAL_API_MEMBERS(
                {"results", PAL_API_LIST, "the results of the calls", .of = &result_body, .min = 1,
                        .max = PAL_SERVER_MESSAGES_MAX, .is_required = true},
                {"stream", PAL_API_FLAG, "whether the response is a stream of events",
                        .offset = offsetof(pal_api_turn, is_stream)},
                {"background", PAL_API_FLAG, "whether the response is sent before the turn ends",
                        .offset = offsetof(pal_api_turn, is_background)})};

static pal_status read_result(
        pal_call *call, pal_json value, pal_message *out_message, pal_error *err)
{
    pal_part *part = pal_arena_alloc(call->arena, sizeof *part);
    if (!part)
        return pal_arena_checked(call->arena, err);
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID, "a result must be an object");
    part->kind = PAL_PART_TOOL_RESULT;
    part->text = output_of(value, call->arena);
    *out_message = (pal_message){.role = PAL_ROLE_TOOL, .parts = part, .parts_len = 1};
    return pal_api_object_read(call, value, &result_body, part, err);
}

static pal_status read_results(pal_call *call, pal_turn_request *request, pal_error *err)
{
    pal_json value, array = pal_json_find(call->body, "results");
    pal_json_iter iter = pal_json_each(array);
    size_t count = pal_json_count(array);
    call->fail_param = "results";
    if (pal_json_type_of(array) != PAL_JSON_ARRAY || count == 0 || count > PAL_SERVER_MESSAGES_MAX)
        return pal_error_set(err, PAL_INVALID,
                "'results' must be an array of 1 to %d results: {\"call_id\", \"output\"}",
                PAL_SERVER_MESSAGES_MAX);
    pal_message *messages = pal_arena_array(call->arena, count, sizeof *messages);
    for (size_t i = 0; messages && pal_json_next(&iter, NULL, &value); i++) {
        pal_status status = read_result(call, value, &messages[i], err);
        call->fail_param = "results";
        if (status != PAL_OK)
            return pal_member_within(err, status, "results", i);
    }
    call->fail_param = NULL;
    request->messages = messages;
    request->messages_len = count;
    return pal_arena_checked(call->arena, err);
}

/* `now` is the turn that waits. If it is empty, no turn in memory waits, and a new turn continues
 * in its place. */
static pal_status give_results(
        pal_call *call, const pal_session *session, const pal_turn_info *now, pal_error *err)
{
    pal_api_turn *turn = pal_api_turn_new(call, session);
    if (!turn)
        return pal_arena_checked(call->arena, err);
    turn->stream_after = now->events;
    pal_status status = read_results(call, &turn->request, err);
    if (status != PAL_OK)
        return status;
    status = pal_api_object_read(call, call->body, &results_body, turn, err);
    if (status != PAL_OK)
        return status;
    status = pal_turn_results(call->server->runtime, call->caller.tenant, session->id, now->turn,
            turn->request.messages, turn->request.messages_len, &turn->info, err);
    if (status == PAL_OK) {
        pal_api_turn_follow(turn);
    } else if (status == PAL_BUSY) {
        turn->start_error = *err;
        pal_api_turn_refuse(turn);
        status = PAL_OK; /* the call has been answered */
    }
    return status;
}

static pal_status turn_results(pal_call *call, pal_error *err)
{
    pal_turn_info info;
    pal_status status = pal_api_turn_find(call, &info, err);
    if (status != PAL_OK)
        return status;
    if (pal_pass_turn(call, &info))
        return PAL_OK;
    pal_session session = {.id = info.session};
    return give_results(call, &session, &info, err);
}

static pal_status session_results(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_turn_info info = {0};
    pal_status status = pal_api_active_session(call, call->params[0], &session, err);
    if (status != PAL_OK)
        return status;
    if (pal_turn_of_session(call->server->runtime, call->caller.tenant, session.id, &info, NULL) !=
            PAL_OK)
        info = (pal_turn_info){0};
    if (pal_pass_turn(call, &info))
        return PAL_OK;
    return give_results(call, &session, &info, err);
}

/* ---- Routes ---- */

const pal_api_object pal_api_turn_state = {"TurnState",
        .members = PAL_API_MEMBERS(
                {"turn_id", PAL_API_TEXT, .is_required = true, .is_nullable = true},
                {"session_id", PAL_API_TEXT, .is_required = true},
                {"state", PAL_API_WORD, .words = PAL_API_TURN_STATES, .is_required = true},
                {"since", .type = PAL_API_TIME},
                {"events", .type = PAL_API_COUNT},
                {"attempt", .type = PAL_API_COUNT},
                {"retry_at", .type = PAL_API_TIME},
                {"code", .type = PAL_API_TEXT},
                {"reason", .type = PAL_API_TEXT},
                {"text", .type = PAL_API_TEXT},
                {"message_id", .type = PAL_API_TEXT},
                {"seq", .type = PAL_API_COUNT},
                {"waiting", PAL_API_LIST, .of = &pal_api_any_object},
                {"asking", .type = PAL_API_JSON_OBJECT},
                {"questions", PAL_API_LIST, .of = &pal_api_any_object},
                {"so_far", PAL_API_VALUE, .of = &pal_api_any_object, .is_nullable = true})};

const pal_api_route pal_turn_routes[] = {
        {"POST", "/api/v1/sessions/{id}/turns", PAL_KEY_WRITE,
                PAL_API_JSON | PAL_API_TURN, start_turn,
                {"startTurn",
                        "send messages and get the answer: complete, as events, or later", NULL,
                        &pal_api_turn_body, &pal_api_turn_answer, 200}},
        {"GET", "/api/v1/sessions/{id}/turn", PAL_KEY_READ, PAL_API_WORKER, get_session_turn,
                {"getSessionTurn", "show what the session is doing", &turn_query_table, NULL,
                        &pal_api_turn_state, 200}},
        {"POST", "/api/v1/sessions/{id}/results", PAL_KEY_WRITE, PAL_API_JSON | PAL_API_WORKER,
                session_results,
                {"giveSessionResults",
                        "send the results of the calls that the session waits for", NULL,
                        &results_body, &pal_api_turn_answer, 200}},
        {"GET", "/api/v1/turns/{turn}", PAL_KEY_READ, PAL_API_WORKER | PAL_API_AT_TURN, get_turn,
                {"getTurn",
                        "show the state of a turn, or how it ended", &turn_query_table, NULL,
                        &pal_api_turn_state, 200}},
        {"GET", "/api/v1/turns/{turn}/events", PAL_KEY_READ,
                PAL_API_WORKER | PAL_API_AT_TURN, get_events,
                {"readEvents",
                        "read the events of a turn, from any number on",
                        &events_query_table, NULL, &pal_api_events_body, 200}},
        {"POST", "/api/v1/turns/{turn}/cancel", PAL_KEY_WRITE,
                PAL_API_WORKER | PAL_API_AT_TURN, cancel_turn,
                {"cancelTurn",
                        "cancel a turn and keep its messages so far", NULL, NULL,
                        &pal_api_turn_state, 200}},
        {"POST", "/api/v1/turns/{turn}/approve", PAL_KEY_WRITE,
                PAL_API_JSON | PAL_API_WORKER | PAL_API_AT_TURN,
                approve_turn,
                {"approveTurn",
                        "answer the questions of a turn: allow or deny its calls",
                        NULL, &approve_body, &pal_api_turn_state, 200}},
        {"POST", "/api/v1/turns/{turn}/results", PAL_KEY_WRITE,
                PAL_API_JSON | PAL_API_WORKER | PAL_API_AT_TURN,
                turn_results,
                {"giveResults",
                        "send the results of the calls that the turn waits for",
                        NULL, &results_body, &pal_api_turn_answer, 200}},
        {0},
};
