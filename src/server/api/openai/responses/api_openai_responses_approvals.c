/* api_openai_responses_approvals.c - the client's answers to requests for approval. An
 * mcp_approval_request is an open call of the history, and an mcp_approval_response in the input
 * answers it. The turn of this request runs the approved calls before it calls the model.
 *
 * A request that the input does not answer counts as denied. A client that keeps its history itself
 * may send an old approval without the mcp_call that it led to. So an approval counts only if no
 * answer of the model follows it: a call must not run a second time. */
#include "server/api/openai/responses/api_openai_responses.h"

#include "base/json/json_put.h"
#include "dialect/dialect_member.h"
#include "server/server_call.h"

#define NOT_ANSWERED "the next request did not contain an approval"
#define TOO_LATE "its approval is older than the newest answer, and its result is missing"

bool pal_response_is_request(const pal_response_open_call *call, pal_str id)
{
    char own[PAL_OPENAI_ITEM_ID_SIZE];
    const pal_part *part = &call->message->parts[call->part];
    if (part->kind != PAL_PART_TOOL_CALL || !pal_openai_is_asked(part->extra))
        return false;
    pal_openai_part_id(call->message, call->part, own);
    return pal_str_equal(part->call_id, id) || (call->is_stored && pal_str_is(id, own));
}

/* Finds the approval in the input. *out_is_late: an answer of the model follows it. */
static bool find_approval(const pal_response_request *request, const pal_response_open_call *call,
        pal_openai_approval *out, bool *out_is_late)
{
    const pal_turn_request *turn = &request->turn;
    bool is_found = false;
    *out_is_late = false;
    for (size_t i = 0; i < turn->messages_len; i++) {
        const pal_message *message = &turn->messages[i];
        pal_openai_approval approval;
        if (is_found) {
            *out_is_late = *out_is_late || message->role == PAL_ROLE_ASSISTANT;
        } else if (message->parts_len == 1 &&
                pal_openai_approval_of(&message->parts[0], request->call->arena, &approval) &&
                pal_response_is_request(call, approval.request)) {
            *out = approval;
            is_found = true;
        }
    }
    return is_found;
}

static pal_status put_reason(
        pal_str reason, pal_arena *arena, pal_question_answer *answer, pal_error *err)
{
    pal_buf buf;
    if (answer->allow || reason.len == 0)
        return PAL_OK;
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_str(&writer, "reason", reason);
    pal_json_end_object(&writer);
    pal_status status = pal_member_keep(&buf, arena, &answer->data, err);
    pal_buf_done(&buf);
    return status;
}

static pal_status answer_call(pal_response_request *request, const pal_response_open_call *call,
        pal_question_answer *out, pal_error *err)
{
    pal_arena *arena = request->call->arena;
    const pal_part *part = &call->message->parts[call->part];
    pal_openai_approval approval = {.reason = pal_str_of(NOT_ANSWERED)};
    char id[PAL_OPENAI_ITEM_ID_SIZE];
    bool is_late;
    bool is_found = find_approval(request, call, &approval, &is_late);
    pal_openai_part_id(call->message, call->part, id);
    if (!is_found)
        approval.request = call->is_stored ? pal_str_of(id) : part->call_id;
    *out = (pal_question_answer){
            .call_id = part->call_id,
            .allow = approval.approve && !is_late,
            .result = pal_call_derived_id(
                    request->call, UINT32_MAX - (uint32_t)request->turn.answers_len)};
    pal_status status = pal_openai_approval_extra(
            approval.request, part, out->allow, arena, &out->extra, err);
    if (status != PAL_OK)
        return status;
    if (approval.approve && is_late)
        approval.reason = pal_str_of(TOO_LATE);
    return put_reason(approval.reason, arena, out, err);
}

/* For the events and for the record: the calls that the turn runs. */
static void put_approved(
        pal_json_writer *writer, const pal_part *call, const pal_question_answer *answer)
{
    char id[PAL_ID_TEXT_SIZE];
    pal_id_to_text(answer->result, id);
    pal_json_begin_object(writer);
    pal_put_text(writer, "message", id);
    pal_put_str(writer, "call_id", call->call_id);
    pal_put_str(writer, "name", call->name);
    pal_put_str(writer, "arguments", call->arguments);
    pal_put_str(writer, "extra", answer->extra);
    pal_json_end_object(writer);
}

pal_status pal_response_approve(pal_response_request *request, const pal_response_open_call *calls,
        size_t len, pal_error *err)
{
    pal_call *call = request->call;
    pal_turn_request *turn = &request->turn;
    pal_question_answer *answers = pal_arena_array(call->arena, len + 1, sizeof *answers);
    pal_status status = pal_arena_checked(call->arena, err);
    bool has_approved = false;
    pal_buf buf;
    turn->answers = answers;
    turn->answers_len = 0;
    request->approved = (pal_str){0};
    if (status != PAL_OK || len == 0)
        return status;
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_array(&writer);
    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        pal_question_answer *answer = &answers[turn->answers_len];
        status = answer_call(request, &calls[i], answer, err);
        turn->answers_len++;
        has_approved = has_approved || answer->allow;
        if (status == PAL_OK && answer->allow)
            put_approved(&writer, &calls[i].message->parts[calls[i].part], answer);
    }
    pal_json_end_array(&writer);
    if (status == PAL_OK && has_approved)
        status = pal_member_keep(&buf, call->arena, &request->approved, err);
    pal_buf_done(&buf);
    return status;
}
