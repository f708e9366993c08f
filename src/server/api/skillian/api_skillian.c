/* api_skillian.c - the chat routes of Skillian, in its formats, codes and texts. Skillian is a chat
 * assistant that keeps each session as one row of a table. A request contains one message, the
 * response one text. The members of native turns (stream, model, tools of servers) can be used too.
 *
 * A failed turn leaves no trace: its messages are removed from the conversation, and a session that
 * was created for it is moved to the trash. */
#include "base/json/json_put.h"
#include "base/log.h"
#include "base/utf8.h"
#include "dialect/dialect_member.h"
#include "server/api/api_object.h"
#include "server/api/native/api_message.h"
#include "server/api/native/api_native.h"
#include "server/api/native/api_session.h"
#include "server/api/native/api_turn.h"
#include "server/server_call.h"

static const char exhausted_text[] =
        "I couldn't complete the request within the allowed iterations.";

typedef struct chat {
    bool is_created;
    const char *failed; /* the error text of the route */
    pal_session session;
    pal_op op;
    pal_error failure; /* failure of the turn, while its session is deleted */
    pal_status status;
} chat;

/* ---- Sending the response ---- */

/* Writes the arguments as an object; as an empty one if the model sent anything else. */
static void put_arguments(pal_json_writer *writer, pal_str arguments, pal_arena *arena)
{
    pal_json value = {0};
    pal_json_name(writer, "args");
    bool is_object = arguments.len &&
            pal_json_parse(arena, arguments, NULL, &value, NULL) == PAL_OK &&
            pal_json_type_of(value) == PAL_JSON_OBJECT;
    pal_json_put_raw(writer, is_object ? pal_json_raw(value) : pal_str_of("{}"));
}

static void put_calls(pal_json_writer *writer, const pal_api_turn *turn)
{
    const pal_api_outcome *outcome = &turn->outcome;
    pal_json_name(writer, "tool_calls");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < outcome->calls_len; i++) {
        pal_json_begin_object(writer);
        pal_put_str(writer, "tool", outcome->calls[i].name);
        put_arguments(writer, outcome->calls[i].arguments, turn->call->arena);
        pal_put_str(writer, "result", outcome->calls[i].output);
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
}

static void send_chat(pal_api_turn *turn)
{
    pal_call *call = turn->call;
    const chat *state = turn->user;
    const pal_api_outcome *outcome = &turn->outcome;
    /* The turn ends with calls if it has used up its rounds and the model could not see their
     * results. */
    bool is_exhausted = outcome->state == PAL_TURN_DONE && outcome->has_calls;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_put_str(writer, "response", is_exhausted ? pal_str_of(exhausted_text) : outcome->text);
    put_calls(writer, turn);
    pal_put_id(writer, "session_id", turn->request.session);
    pal_put_flag(writer, "finished", outcome->state == PAL_TURN_DONE && !is_exhausted);
    pal_put_flag(writer, "created", state->is_created);
    if (!pal_id_is_none(turn->info.turn))
        pal_put_id(writer, "turn_id", turn->info.turn);
    pal_put_text(writer, "state", pal_turn_state_name(outcome->state));
    pal_json_end_object(writer);
    pal_call_send(call, 200);
}

/* ---- Failures ---- */

/* Whether the request was invalid, rather than its turn failed. */
static bool is_wrong(const pal_api_turn *turn, pal_status status)
{
    return pal_id_is_none(turn->info.turn) &&
            (status == PAL_INVALID || status == PAL_NOT_FOUND || status == PAL_LIMIT ||
                    status == PAL_CONFLICT);
}

/* Skillian's clients expect its fixed text, which does not name the cause. The cause is added as a
 * separate member. */
static void add_reason(pal_call *call, const pal_error *failure)
{
    pal_str members = call->fail_members;
    pal_buf buf;
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_text(&writer, "reason", failure->message);
    pal_json_end_object(&writer);
    if (members.len > 2) {
        buf.len--;
        pal_buf_append_char(&buf, ',');
        pal_buf_append_str(&buf, pal_str_make(members.data + 1, members.len - 1));
    }
    if (buf.failure == PAL_OK)
        call->fail_members = pal_arena_copy(call->arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
}

static void send_failure(pal_api_turn *turn)
{
    chat *state = turn->user;
    pal_call *call = turn->call;
    pal_error err;
    if (is_wrong(turn, state->status) || state->status == PAL_BUDGET ||
            state->status == PAL_OVERLOADED) {
        pal_call_fail(call, state->status, &state->failure);
        return;
    }
    call->fail_code = 500;
    add_reason(call, &state->failure);
    pal_error_set(&err, state->status, "%s", state->failed);
    pal_call_fail(call, state->status, &err);
}

static void removed(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    (void)ops;
    (void)ops_len;
    (void)status;
    (void)err;
    send_failure(call->user);
}

/* With an idempotency key, the session is kept, because a repeated request must find it. */
static void fail_chat(pal_api_turn *turn, pal_status status, const pal_error *err)
{
    chat *state = turn->user;
    pal_call *call = turn->call;
    state->failure = *err;
    state->status = status;
    if (state->is_created && call->idempotency_key.len == 0) {
        state->op = pal_op_delete(call->caller.tenant, turn->request.session);
        if (pal_call_apply(call, &state->op, 1, removed, NULL) == PAL_OK)
            return;
    }
    send_failure(turn);
}

/* ---- Reading ---- */

static pal_status read_message(pal_call *call, pal_error *err)
{
    pal_json value = pal_json_find(call->body, "message");
    call->fail_code = 422;
    call->fail_param = "message";
    if (pal_json_type_of(value) != PAL_JSON_STRING)
        return pal_error_set(err, PAL_INVALID, "'message' must be a string of 1 to %d characters",
                PAL_SERVER_CHAT_CHARS_MAX);
    size_t chars = pal_utf8_count(pal_json_string(value, call->arena));
    if (chars == 0 || chars > PAL_SERVER_CHAT_CHARS_MAX)
        return pal_error_set(err, PAL_INVALID,
                "'message' must have 1 to %d characters, not %zu; send longer messages to POST "
                "/api/v1/sessions/{id}/turns",
                PAL_SERVER_CHAT_CHARS_MAX, chars);
    call->fail_code = 0;
    call->fail_param = NULL;
    return pal_arena_checked(call->arena, err);
}

static pal_status read_request(pal_api_turn *turn, const pal_session *session, pal_error *err)
{
    pal_call *call = turn->call;
    pal_status status = read_message(call, err);
    if (status != PAL_OK)
        return status;
    status = pal_api_messages_read(
            call, call->body, false, &turn->request.messages, &turn->request.messages_len, err);
    if (status != PAL_OK)
        return status;
    status = pal_api_agent_read(turn, err);
    return status == PAL_OK ? pal_api_turn_read(turn, session, true, err) : status;
}

/* Returns NULL on failure, with the reason in `err`. */
static pal_api_turn *make_turn(
        pal_call *call, const pal_session *session, const char *failed, pal_error *err)
{
    pal_api_turn *turn = pal_api_turn_new(call, session);
    chat *state = pal_arena_alloc(call->arena, sizeof *state);
    if (!turn || !state) {
        (void)!pal_arena_checked(call->arena, err);
        return NULL;
    }
    state->failed = failed;
    state->session = *session;
    turn->user = state;
    turn->send = send_chat;
    turn->fail = fail_chat;
    turn->request.lane = PAL_TURN_LANE_QUEUE;
    turn->request.all_or_nothing = true;
    turn->request.cannot_ask = true; /* the response has no place for a question */
    pal_status status = read_request(turn, session, err);
    if (status == PAL_INVALID && !call->fail_code)
        call->fail_code = 422;
    return status == PAL_OK ? turn : NULL;
}

/* ---- Chat in a new session ---- */

/* Called on the store's writer, or immediately. */
static void created(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    pal_error failure = {0};
    pal_api_turn *turn = call->user;
    status = pal_api_ops_failure(ops, ops_len, status, err, &err);
    if (status == PAL_OK) {
        turn->request.session = ops[0].session;
        err = &failure;
        status = pal_api_turn_start(turn, &failure);
    }
    if (status != PAL_OK)
        pal_call_fail(call, status, err);
}

static pal_status chat_in_new(
        pal_call *call, const pal_session *session, const char *failed, pal_error *err)
{
    pal_api_turn *turn = make_turn(call, session, failed, err);
    if (!turn)
        return err->status;
    chat *state = turn->user;
    state->is_created = true;
    if (state->session.agent.len == 0)
        state->session.agent = turn->request.agent;
    state->session.id = pal_call_derived_id(call, 0);
    state->session.tenant = call->caller.tenant;
    state->op = pal_op_create(&state->session);
    return pal_call_open(call, &state->op, 1, &turn->request, created, err);
}

static const char chat_failed[] = "Failed to process message. Please try again.";

pal_status pal_api_session_chat(pal_call *call, const pal_session *session, pal_error *err)
{
    return chat_in_new(call, session, "Failed to create session. Please try again.", err);
}

bool pal_api_session_has_message(const pal_call *call)
{
    pal_json_type type = pal_json_type_of(pal_json_find(call->body, "message"));
    return type != PAL_JSON_NONE && type != PAL_JSON_NULL;
}

/* ---- Routes ---- */

static pal_status chat_in(pal_call *call, const pal_session *session, pal_error *err)
{
    pal_api_turn *turn = make_turn(call, session, chat_failed, err);
    return turn ? pal_api_turn_start(turn, err) : err->status;
}

static pal_status read_name(pal_call *call, pal_str *out_name, pal_error *err)
{
    pal_status status =
            pal_call_text(call, call->body, "session_id", PAL_KEY_LEN_MAX, out_name, err);
    if (status == PAL_INVALID || status == PAL_LIMIT)
        call->fail_code = 422;
    return status;
}

/* The path determines the session. The name in the body is only checked. */
static pal_status session_chat(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_str name = {0};
    pal_status status = pal_api_active_session(call, call->params[0], &session, err);
    if (status != PAL_OK)
        return status;
    status = read_name(call, &name, err);
    return status == PAL_OK ? chat_in(call, &session, err) : status;
}

/* Like in Skillian, an unknown id creates a new session. The response contains "created". */
static pal_status any_chat(pal_call *call, pal_error *err)
{
    pal_session session = {.tenant = call->caller.tenant};
    pal_str name = {0};
    pal_status status = read_name(call, &name, err);
    if (status == PAL_OK)
        status = name.len ? pal_api_active_session(call, name, &session, err) : PAL_NOT_FOUND;
    if (status == PAL_OK)
        return chat_in(call, &session, err);
    if (status != PAL_NOT_FOUND)
        return status;
    session = (pal_session){.tenant = call->caller.tenant};
    return chat_in_new(call, &session, chat_failed, err);
}

static const pal_api_object chat_body = {"ChatRequest",
        .members = PAL_API_MEMBERS(
                {"message", PAL_API_VALUE, .is_required = true,
                        .schema = "{\"type\":\"string\",\"minLength\":1,\"maxLength\":10000}"},
                {"session_id", PAL_API_TEXT, .is_nullable = true},
                {"agent", .type = PAL_API_TEXT},
                {"context", .type = PAL_API_JSON_OBJECT},
                {.type = PAL_API_INCLUDE, .of = &pal_api_turn_settings})};

static const pal_api_object chat_tool_call = {
        .members = PAL_API_MEMBERS(
                {"tool", PAL_API_TEXT, .is_required = true},
                {"args", PAL_API_JSON_OBJECT, .is_required = true},
                {"result", PAL_API_TEXT, .is_required = true})};

static const pal_api_object chat_answer = {"ChatAnswer",
        .members = PAL_API_MEMBERS(
                {"response", PAL_API_TEXT, .is_required = true},
                {"tool_calls", PAL_API_LIST, .of = &chat_tool_call, .is_required = true},
                {"session_id", PAL_API_TEXT, .is_required = true},
                {"finished", PAL_API_FLAG, .is_required = true},
                {"created", PAL_API_FLAG, .is_required = true},
                {"turn_id", .type = PAL_API_TEXT},
                {"state", PAL_API_WORD, .words = PAL_API_TURN_STATES})};

const pal_api_route pal_skillian_routes[] = {
        {"POST", "/api/v1/chat", PAL_KEY_WRITE, PAL_API_JSON | PAL_API_TURN, any_chat,
                {"chat", "send a message and get the answer, in this session or a new one", NULL,
                        &chat_body, &chat_answer, 200}},
        {"POST", "/api/v1/sessions/{id}/chat", PAL_KEY_WRITE,
                PAL_API_JSON | PAL_API_TURN, session_chat,
                {"chatInSession",
                        "send a message and get the answer", NULL, &chat_body, &chat_answer,
                        200}},
        {0},
};
