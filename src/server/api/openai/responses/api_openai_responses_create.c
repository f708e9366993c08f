/* api_openai_responses_create.c - chooses the session of a new response: the conversation that the
 * request names, the session of the previous response, a fork of that session, or a new session.
 *
 * A response continues in the session of the previous response only if that one is the newest in
 * its session. If another request was faster, the turn is rejected (expected_seq) and then runs in
 * a fork. So a chain of responses is one session, each branch of it is another session, and nothing
 * is copied. */
#include "server/api/openai/responses/api_openai_responses.h"
#include "server/api/openai/socket/api_openai_socket.h"

#include "base/utf8.h"
#include "dialect/dialect_member.h"
#include "server/api/native/api_session.h"
#include "server/server_call.h"

/* ---- The previous response ---- */

static pal_status no_previous(pal_call *call, pal_str id, pal_error *err)
{
    call->fail_param = "previous_response_id";
    return pal_call_refuse(call, 400, "previous_response_not_found", PAL_INVALID, err,
            "Previous response with id '%.*s' not found.",
            (int)pal_utf8_cut(id, id.len < 80 ? id.len : 80), id.data);
}

/* Counts the results that the response's turn recorded after its last answer: the other calls of
 * that answer are left to the client. */
static pal_status count_results(
        pal_call *call, pal_id session, const pal_message *answer, uint64_t *out, pal_error *err)
{
    const pal_message_query load = {
            .after_seq = answer->seq, .limit = (uint32_t)answer->parts_len};
    pal_message_page page = {0};
    pal_status status = PAL_OK;
    *out = 0;
    if (answer->parts_len)
        status = pal_store_load(call->server->store, call->caller.tenant, session, &load,
                call->arena, &page, err);
    while (status == PAL_OK && *out < page.len && page.items[*out].role == PAL_ROLE_TOOL &&
            pal_id_equal(page.items[*out].turn_id, answer->turn_id))
        ++*out;
    return status;
}

/* Finds the last message of a response. Its seq is that of its last result, if it has results. If
 * the response was only prepared, that is the last message of its input. If it has no input either,
 * `input` names the message that it continues from. */
static pal_status find_last(
        pal_call *call, const pal_response *response, pal_message *out, pal_error *err)
{
    pal_id owner;
    bool has_output = response->output_len > 0;
    pal_id id = has_output ? response->output[response->output_len - 1] : response->input;
    pal_status status = pal_store_message(
            call->server->store, call->caller.tenant, id, call->arena, out, &owner, err);
    uint64_t more = response->input_len ? response->input_len - 1 : 0;
    if (status == PAL_OK && has_output)
        status = count_results(call, response->session, out, &more, err);
    if (status == PAL_OK)
        out->seq += more;
    return status;
}

/* A response that a WebSocket keeps has its own session, apart from stored ones. */
static pal_status find_newest(const pal_response_request *request, const pal_response *previous,
        pal_response_context *out, pal_error *err)
{
    pal_call *call = request->call;
    bool is_kept = request->is_kept;
    char id[PAL_OPENAI_ID_SIZE];
    pal_message message;
    uint64_t after = 0;
    pal_openai_id_text("conv_", previous->session, id);
    pal_status status = pal_openai_conversation(call, pal_str_of(id), NULL, &out->session, err);
    if (status != PAL_OK)
        return status;
    status = find_last(call, previous, &message, err);
    if (status != PAL_OK)
        return status;
    status = pal_store_count(call->server->store, call->caller.tenant, out->session.id,
            message.seq, 0, &after, err);
    if (status != PAL_OK)
        return status;
    out->seq = message.seq;
    out->last = message.id;
    out->is_newest = after == 0;
    out->is_own = !previous->is_in_conversation && (previous->socket.len > 0) == is_kept;
    return PAL_OK;
}

static pal_status find_previous(
        pal_response_request *request, pal_response_context *out, pal_error *err)
{
    pal_call *call = request->call;
    pal_response previous = {0};
    pal_status status = pal_response_find(call, request->previous, &previous, err);
    bool is_prepared = status == PAL_OK && previous.status == PAL_RESPONSE_COMPLETED;
    if (status == PAL_OK && previous.output_len == 0 && !is_prepared) {
        call->fail_param = "previous_response_id";
        return pal_error_set(err, PAL_INVALID,
                "response '%.*s' has no output to continue from: it is still in progress, or it "
                "failed",
                PAL_STR_ARG(request->previous));
    }
    out->additional = previous.additional;
    out->listed = previous.listed;
    /* If there is no message, the response continues from nothing. */
    bool is_empty = is_prepared && previous.output_len == 0 && pal_id_is_none(previous.input);
    if (status == PAL_OK && !is_empty)
        status = find_newest(request, &previous, out, err);
    return status == PAL_NOT_FOUND ? no_previous(call, request->previous, err) : status;
}

pal_status pal_response_context_find(pal_response_request *request, pal_error *err)
{
    pal_status status = PAL_OK;
    if (request->has_context)
        return PAL_OK;
    if (request->previous.len)
        status = find_previous(request, &request->context, err);
    else if (request->conversation.len)
        status = pal_openai_conversation(request->call, request->conversation, "conversation",
                &request->context.session, err);
    request->has_context = status == PAL_OK;
    return status;
}

/* ---- Choosing the session ---- */

static void run_in_fork(pal_response_request *request);

static pal_status run(pal_response_request *request, pal_error *err)
{
    return pal_response_run(request, run_in_fork, err);
}

/* Called on the store's writer, or immediately. */
static void made(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    pal_response_request *request = call->user;
    pal_error failure;
    status = pal_api_ops_failure(ops, ops_len, status, err, &err);
    if (status == PAL_OK) {
        request->turn.session = ops[0].session;
        if (request->is_kept)
            pal_openai_socket_keep(call, ops[0].session);
        status = run(request, &failure);
        err = &failure;
    }
    if (status != PAL_OK)
        pal_call_fail(call, status, err);
}

/* Creates a session for this response: empty, or a fork with the history up to the previous
 * response. */
static pal_status make_session(pal_response_request *request, pal_error *err)
{
    pal_call *call = request->call;
    pal_session *session = pal_arena_alloc(call->arena, sizeof *session);
    pal_op *op = pal_arena_alloc(call->arena, sizeof *op);
    if (!session || !op)
        return pal_arena_checked(call->arena, err);
    request->is_new = true;
    request->is_passing = !request->is_stored;
    session->id = pal_call_derived_id(call, 1);
    session->tenant = call->caller.tenant;
    if (request->is_passing || request->is_kept)
        session->expires_at = pal_store_clock_ms(call->server->store) + PAL_RESPONSE_PASSING_MS;
    call->user = request;
    if (!pal_id_is_none(request->parent)) {
        *op = pal_op_fork(session, request->parent, request->fork_seq);
        return pal_call_apply(call, op, 1, made, err);
    }
    *op = pal_op_create(session);
    return pal_call_open(call, op, 1, &request->turn, made, err);
}

/* Another request was faster in the session, or is running there now. */
static void run_in_fork(pal_response_request *request)
{
    pal_error err = {0};
    request->turn.lane = PAL_TURN_LANE_QUEUE;
    request->turn.expected_seq = 0;
    pal_status status = make_session(request, &err);
    if (status != PAL_OK)
        pal_call_fail(request->call, status, &err);
}

static pal_status go(pal_response_request *request, pal_error *err)
{
    const pal_response_context *context = &request->context;
    if (request->conversation.len) {
        request->turn.session = context->session.id;
        return run(request, err);
    }
    if (request->previous.len) {
        request->parent = context->session.id;
        request->fork_seq = context->seq;
    }
    bool goes_on = request->previous.len && context->is_newest && context->is_own;
    if (!goes_on || !request->is_stored)
        return make_session(request, err);
    request->turn.session = context->session.id;
    request->turn.lane = PAL_TURN_LANE_REJECT;
    request->turn.expected_seq = context->session.last_seq;
    return run(request, err);
}

pal_status pal_response_start(pal_response_request *request, pal_error *err)
{
    pal_status status = pal_response_context_find(request, err);
    if (status != PAL_OK)
        return status;
    status = pal_response_check_calls(request, err);
    if (status == PAL_OK)
        status = pal_response_list_tools(request, err);
    return status == PAL_OK ? go(request, err) : status;
}

pal_status pal_openai_create_response(pal_call *call, pal_error *err)
{
    pal_response_request *request = pal_arena_alloc(call->arena, sizeof *request);
    if (!request)
        return pal_arena_checked(call->arena, err);
    pal_status status = pal_openai_socket_expect(call, err);
    if (status != PAL_OK)
        return status;
    status = pal_response_forward(call, err);
    if (status != PAL_CONFLICT)
        return status;
    request->call = call;
    request->response = pal_call_derived_id(call, 0);
    status = pal_response_read(request, err);
    if (status != PAL_OK)
        return status;
    if (!request->generates)
        return pal_response_prepare(request, err);
    return pal_response_start(request, err);
}
