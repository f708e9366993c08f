/* api_openai_responses_calls.c - compares the input of a request with the history. Every output
 * must have a call, and every call an output or a request for approval
 * (api_openai_responses_approvals.c). Items that the history already contains are not stored
 * twice.
 *
 * Clients that keep the history themselves send it again, although the conversation has it.
 * Repeated outputs and references to items of the history are therefore left out. */
#include "server/api/openai/responses/api_openai_responses.h"

#include "base/memory.h"
#include "base/text.h"
#include "dialect/dialect_member.h"
#include "server/server_call.h"

#define TAIL_MESSAGES 32       /* newest messages that are searched for calls without an output */
#define TAIL_MESSAGES_MAX 1000 /* newest messages that are searched for the call of an output */

/* ---- References ---- */

static bool is_in_context(pal_response_request *request, pal_str id, pal_error *err)
{
    pal_openai_item item;
    const pal_response_context *context = &request->context;
    if (pal_id_is_none(context->session.id) ||
            pal_openai_item_in(request->call, context->session.id, id, false, &item, err) != PAL_OK)
        return false;
    return context->seq == 0 || item.message->seq <= context->seq;
}

pal_status pal_response_reference(pal_str id, pal_arena *arena, pal_message *out_message,
        size_t *out_index, void *user, pal_error *err)
{
    pal_response_request *request = user;
    pal_status status = pal_response_context_find(request, err);
    if (status != PAL_OK)
        return status;
    /* The list of tools of an earlier response is not part of the history. */
    if (is_in_context(request, id, err) || pal_text_begins(id, "mcpl_")) {
        *out_message = (pal_message){0};
        return PAL_OK;
    }
    return pal_openai_item_lookup(id, arena, out_message, out_index, request->call, err);
}

/* ---- Calls without an output ---- */

typedef struct open_calls {
    pal_response_open_call *items;
    size_t len, cap;
    pal_arena *arena;
} open_calls;

static const pal_part *part_of(const pal_response_open_call *call)
{
    return &call->message->parts[call->part];
}

static bool close_call(open_calls *open, pal_str id)
{
    for (size_t i = 0; i < open->len; i++) {
        if (!pal_str_equal(part_of(&open->items[i])->call_id, id))
            continue;
        open->len--; /* the order is kept, because approved calls run in it */
        memmove(&open->items[i], &open->items[i + 1], (open->len - i) * sizeof *open->items);
        return true;
    }
    return false;
}

static void open_call(open_calls *open, pal_response_open_call call)
{
    if (!pal_arena_reserve(
                open->arena, &open->items, &open->cap, open->len + 1, sizeof *open->items))
        return; /* the arena keeps the failure */
    open->items[open->len++] = call;
}

/* ---- Outputs ---- */

/* The state of the comparison of input and history. */
typedef struct comparison {
    pal_message_page tail;
    open_calls open;
    pal_str orphan; /* call id of an output without a call; empty if there is none */
    pal_str unasked; /* id in an approval that no request has; empty if there is none */
    bool *is_known; /* for each message of the input: the tail contains it */
    bool has_known;
} comparison;

static void follow_tail(comparison *c)
{
    for (size_t i = 0; i < c->tail.len; i++) {
        for (size_t k = 0; k < c->tail.items[i].parts_len; k++) {
            const pal_part *part = &c->tail.items[i].parts[k];
            if (part->kind == PAL_PART_TOOL_CALL)
                open_call(&c->open, (pal_response_open_call){&c->tail.items[i], k, true});
            else if (part->kind == PAL_PART_TOOL_RESULT)
                (void)close_call(&c->open, part->call_id);
        }
    }
}

/* Whether two outputs are equal, except for the bytes of images and files, which are stored
 * elsewhere. */
static bool is_same(const pal_part *a, const pal_part *b)
{
    bool is = pal_str_equal(a->text, b->text) && a->parts_len == b->parts_len;
    for (size_t i = 0; is && i < a->parts_len; i++)
        is = a->parts[i].kind == b->parts[i].kind &&
                pal_str_equal(a->parts[i].text, b->parts[i].text);
    return is;
}

/* Whether the tail contains the same output of the same call. */
static bool has_output(const pal_message_page *tail, const pal_part *output)
{
    for (size_t i = 0; i < tail->len; i++) {
        for (size_t k = 0; k < tail->items[i].parts_len; k++) {
            const pal_part *part = &tail->items[i].parts[k];
            if (part->kind == PAL_PART_TOOL_RESULT && pal_str_equal(part->call_id, output->call_id))
                return is_same(part, output);
        }
    }
    return false;
}

static void follow_output(comparison *c, const pal_message *message, size_t at, size_t part)
{
    const pal_part *output = &message->parts[part];
    if (close_call(&c->open, output->call_id))
        return;
    if (message->parts_len == 1 && has_output(&c->tail, output))
        c->has_known = c->is_known[at] = true;
    else if (c->orphan.len == 0)
        c->orphan = output->call_id;
}

/* Whether the tail contains the request for approval with this id. */
static bool has_request(const pal_message_page *tail, pal_str id)
{
    for (size_t i = 0; i < tail->len; i++) {
        for (size_t k = 0; k < tail->items[i].parts_len; k++) {
            if (pal_response_is_request(
                        &(pal_response_open_call){&tail->items[i], k, true}, id))
                return true;
        }
    }
    return false;
}

/* A request for approval that the tail contains is not opened a second time. */
static void follow_call(comparison *c, const pal_message *message, size_t at, size_t part)
{
    const pal_part *call = &message->parts[part];
    if (message->parts_len == 1 && pal_openai_is_asked(call->extra) &&
            has_request(&c->tail, call->call_id))
        c->has_known = c->is_known[at] = true;
    else
        open_call(&c->open, (pal_response_open_call){message, part, false});
}

/* An approval that was used before is left out. */
static void follow_approval(comparison *c, size_t at, const pal_openai_approval *approval)
{
    for (size_t i = 0; i < c->open.len; i++) {
        if (pal_response_is_request(&c->open.items[i], approval->request))
            return;
    }
    if (has_request(&c->tail, approval->request))
        c->has_known = c->is_known[at] = true;
    else if (c->unasked.len == 0)
        c->unasked = approval->request;
}

static bool has_call(const pal_turn_request *turn, size_t before, pal_str call_id)
{
    for (size_t i = 0; i < before; i++) {
        for (size_t k = 0; k < turn->messages[i].parts_len; k++) {
            const pal_part *part = &turn->messages[i].parts[k];
            if (part->kind == PAL_PART_TOOL_CALL && pal_str_equal(part->call_id, call_id))
                return true;
        }
    }
    return false;
}

static void follow_input(comparison *c, const pal_turn_request *turn)
{
    for (size_t i = 0; i < turn->messages_len; i++) {
        for (size_t k = 0; k < turn->messages[i].parts_len; k++) {
            const pal_part *part = &turn->messages[i].parts[k];
            pal_openai_approval approval;
            if (part->kind == PAL_PART_TOOL_CALL)
                follow_call(c, &turn->messages[i], i, k);
            else if (part->kind == PAL_PART_TOOL_RESULT)
                follow_output(c, &turn->messages[i], i, k);
            else if (pal_openai_approval_of(part, c->open.arena, &approval) &&
                    !has_call(turn, i, approval.request))
                follow_approval(c, i, &approval);
        }
    }
}

/* Compares with the newest `limit` messages of the history. */
static pal_status compare(
        const pal_response_request *request, uint32_t limit, comparison *out, pal_error *err)
{
    pal_call *call = request->call;
    const pal_response_context *context = &request->context;
    const pal_message_query load = {
            .before_seq = context->seq ? context->seq + 1 : 0, .limit = limit, .from_end = true};
    pal_status status = PAL_OK;
    *out = (comparison){.open.arena = call->arena,
            .is_known = pal_arena_array(
                    call->arena, request->turn.messages_len + 1, sizeof *out->is_known)};
    if (!out->is_known)
        return pal_arena_checked(call->arena, err);
    if (!pal_id_is_none(context->session.id))
        status = pal_store_load(call->server->store, call->caller.tenant, context->session.id,
                &load, call->arena, &out->tail, err);
    if (status != PAL_OK)
        return status;
    follow_tail(out);
    follow_input(out, &request->turn);
    return pal_arena_checked(call->arena, err);
}

/* A running turn can still fail and remove its messages. If a client repeats a lost request
 * meanwhile, its outputs must not be left out, because they would be lost with that turn. */
static pal_status settle_known(
        const pal_response_request *request, uint32_t limit, comparison *c, pal_error *err)
{
    const pal_call *call = request->call;
    pal_turn_info info;
    if (!c->has_known)
        return PAL_OK;
    pal_status status = pal_turn_of_session(
            call->server->runtime, call->caller.tenant, request->context.session.id, &info, err);
    if (status == PAL_NOT_FOUND) /* no turn is running, so the history is final */
        return compare(request, limit, c, err);
    memset(c->is_known, 0, request->turn.messages_len * sizeof *c->is_known);
    return status;
}

static void leave_out_known(pal_turn_request *turn, const comparison *c)
{
    size_t len = 0;
    for (size_t i = 0; i < turn->messages_len; i++) {
        if (!c->is_known[i])
            turn->messages[len++] = turn->messages[i];
    }
    turn->messages_len = len;
}

pal_status pal_response_check_calls(pal_response_request *request, pal_error *err)
{
    pal_call *call = request->call;
    comparison c;
    uint32_t limit = TAIL_MESSAGES;
    pal_status status = compare(request, limit, &c, err);
    if (status == PAL_OK && (c.orphan.len || c.unasked.len) && c.tail.has_more) {
        limit = TAIL_MESSAGES_MAX;
        status = compare(request, limit, &c, err);
    }
    if (status == PAL_OK)
        status = settle_known(request, limit, &c, err);
    if (status != PAL_OK)
        return status;
    call->fail_param = "input";
    if (c.orphan.len)
        return pal_error_set(err, PAL_INVALID,
                "No tool call found for function call output with call_id '%.*s'.",
                PAL_EXCERPT(c.orphan, 80));
    if (c.unasked.len)
        return pal_error_set(err, PAL_INVALID, "No approval request found with id '%.*s'.",
                PAL_EXCERPT(c.unasked, 80));
    for (size_t i = 0; i < c.open.len; i++) {
        const pal_part *part = part_of(&c.open.items[i]);
        if (!pal_openai_is_asked(part->extra))
            return pal_error_set(err, PAL_INVALID,
                    "No tool output found for function call '%.*s'.",
                    PAL_EXCERPT(part->call_id, 80));
    }
    call->fail_param = NULL;
    status = pal_response_approve(request, c.open.items, c.open.len, err);
    if (status == PAL_OK)
        leave_out_known(&request->turn, &c);
    return status;
}
