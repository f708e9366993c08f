/* api_openai_responses_prepare.c - a request with "generate": false. It stores its input and asks
 * no model. Its response has no output; later requests continue from it. Codex prepares each
 * conversation in this way before its first question. */
#include "server/api/openai/responses/api_openai_responses.h"

#include "base/clock.h"
#include "dialect/dialect_member.h"
#include "server/api/native/api_session.h"
#include "server/api/openai/socket/api_openai_socket.h"
#include "server/run/run.h"
#include "server/server_call.h"

#define FRAMES_BYTES_MAX ((size_t)4 << 20)

typedef struct prepared { /* in the call's arena */
    pal_response_request *request;
    pal_response response;
    pal_buf frames;
} prepared;

static bool write_frame(pal_str frame, void *user)
{
    pal_buf *frames = user;
    pal_buf_append_str(frames, frame);
    return !frames->failure;
}

/* All events are known, so they are one response and not a stream. */
static void send_events(pal_call *call, prepared *p)
{
    pal_response begun = p->response;
    pal_response_events events;
    begun.status = PAL_RESPONSE_IN_PROGRESS;
    begun.completed_at = 0;
    pal_buf_init(&p->frames, FRAMES_BYTES_MAX);
    pal_response_events_init(&events, &begun);
    events.write = write_frame;
    events.user = &p->frames;
    pal_response_events_begin(&events);
    events.response = &p->response;
    pal_response_events_end(&events);
    bool is_whole = !events.failure && !p->frames.failure;
    pal_response_events_done(&events);
    if (is_whole) {
        pal_call_streaming(call);
        pal_exchange_answer_with(call->exchange, 200, PAL_RUN_EVENT_STREAM, &p->frames);
        return;
    }
    pal_error err;
    pal_buf_done(&p->frames);
    pal_call_fail(call, PAL_NO_MEMORY,
            (pal_error_set(&err, PAL_NO_MEMORY, "the response is too large"), &err));
}

static void send_object(pal_call *call, const prepared *p)
{
    pal_error err;
    pal_status status = pal_response_put(pal_call_writer(call), &p->response, NULL, NULL, &err);
    if (status == PAL_OK)
        pal_call_send(call, 200);
    else
        pal_call_fail(call, status, &err);
}

/* Called on the store's writer, or at once. */
static void stored(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    prepared *p = call->user;
    status = pal_api_ops_failure(ops, ops_len, status, err, &err);
    if (status != PAL_OK) {
        pal_call_fail(call, status, err);
        return;
    }
    if (p->request->is_kept)
        pal_openai_socket_keep(call, p->response.session);
    if (p->request->is_stream)
        send_events(call, p);
    else
        send_object(call, p);
}

/* One batch: the session, which is new or a fork of the previous response's, its input, and the
 * record. */
static pal_status store(prepared *p, pal_error *err)
{
    const pal_response_request *request = p->request;
    pal_call *call = request->call;
    const pal_turn_request *turn = &request->turn;
    pal_session *session = pal_arena_alloc(call->arena, sizeof *session);
    pal_record *record = pal_arena_alloc(call->arena, sizeof *record);
    pal_op *ops = pal_arena_array(call->arena, 3, sizeof *ops);
    if (!session || !record || !ops)
        return pal_arena_checked(call->arena, err);
    pal_status status = pal_response_record(&p->response, call->arena, record, err);
    if (status != PAL_OK)
        return status;
    session->id = p->response.session;
    session->tenant = call->caller.tenant;
    if (!request->is_stored || request->is_kept)
        session->expires_at = pal_store_clock_ms(call->server->store) + PAL_RESPONSE_PASSING_MS;
    size_t len = 0;
    if (request->context.seq)
        ops[len++] = pal_op_fork(session, request->context.session.id, request->context.seq);
    else
        ops[len++] = pal_op_create(session);
    if (turn->messages_len)
        ops[len++] = pal_op_append(session->tenant, session->id,
                (pal_message *)(uintptr_t)turn->messages, turn->messages_len, PAL_SEQ_ANY);
    ops[len++] = pal_op_record_put(session->tenant, record, PAL_RECORD_VERSION_ANY);
    for (size_t i = 1; i < len; i++)
        ops[i].with_previous = true;
    call->user = p;
    return pal_call_apply(call, ops, len, stored, err);
}

pal_status pal_response_prepare(pal_response_request *request, pal_error *err)
{
    pal_call *call = request->call;
    pal_turn_request *turn = &request->turn;
    if (request->conversation.len) {
        call->fail_param = "generate";
        return pal_error_set(
                err, PAL_INVALID, "'generate' can only be false without 'conversation'");
    }
    pal_status status = pal_response_context_find(request, err);
    if (status != PAL_OK)
        return status;
    prepared *p = pal_arena_alloc(call->arena, sizeof *p);
    if (!p)
        return pal_arena_checked(call->arena, err);
    int64_t now = pal_clock_now_ms() / 1000;
    p->request = request;
    p->response = (pal_response){.id = request->response,
            .session = pal_call_derived_id(call, 1),
            .status = PAL_RESPONSE_COMPLETED,
            .created_at = now,
            .completed_at = now,
            .echo = request->echo,
            .additional = request->additional,
            .listed = request->context.listed,
            .input = turn->messages_len ? turn->messages[0].id : request->context.last,
            .input_len = turn->messages_len,
            .socket = request->is_kept ? pal_openai_socket_name(call) : (pal_str){0}};
    return store(p, err);
}
