/* api_openai_responses_tokens.c - counts the tokens of a request, and summarizes a conversation.
 * Neither changes the history. */
#include "base/json/json_put.h"
#include "base/memory.h"
#include "dialect/dialect_member.h"
#include "server/api/openai/responses/api_openai_responses.h"
#include "server/server_call.h"

#define PAGE_MESSAGES 500 /* messages that are counted at a time */

static const char compact_prompt[] =
        "Stop here and write down this conversation so far, so that it can be continued without "
        "its messages: the goal, the decisions and their reasons, the names, numbers and results "
        "that will be needed again, exactly as they were, what is done, and what is open. Do not "
        "answer anything, do not call tools, and do not mention that this is a summary.";

/* Returns NULL if out of memory, or if the request is invalid. *out_status is the reason. */
static pal_response_request *read_request(pal_call *call, pal_status *out_status, pal_error *err)
{
    pal_response_request *request = pal_arena_alloc(call->arena, sizeof *request);
    if (!request) {
        *out_status = pal_arena_checked(call->arena, err);
        return NULL;
    }
    request->call = call;
    request->response = pal_call_derived_id(call, 0);
    *out_status = pal_response_read(request, err);
    return *out_status == PAL_OK ? request : NULL;
}

/* ---- Counting ---- */

/* Stored messages were counted when they were stored. */
static pal_status count_stored(
        pal_call *call, const pal_response_context *context, uint64_t *out_tokens, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    pal_message_page page = {.has_more = true};
    pal_message_query load = {
            .before_seq = context->seq ? context->seq + 1 : 0, .limit = PAGE_MESSAGES};
    pal_status status = PAL_OK;
    if (!arena)
        return pal_no_memory(err);
    while (status == PAL_OK && page.has_more) {
        pal_arena_reset(arena);
        status = pal_store_load(call->server->store, call->caller.tenant, context->session.id,
                &load, arena, &page, err);
        for (size_t i = 0; status == PAL_OK && i < page.len; i++) {
            *out_tokens += page.items[i].tokens;
            load.after_seq = page.items[i].seq;
        }
    }
    pal_arena_free(arena);
    return status;
}

static pal_status count_new(
        const pal_response_request *request, uint64_t *out_tokens, pal_error *err)
{
    const pal_turn_request *turn = &request->turn;
    pal_model model = pal_models_find(request->call->server->models, turn->model);
    pal_message system = pal_message_text(request->call->arena, PAL_ROLE_SYSTEM, turn->system);
    uint64_t tokens;
    pal_status status = PAL_OK;
    if (turn->system.len) {
        status = pal_tokens_message(model.encoding, &system, &tokens, err);
        *out_tokens += status == PAL_OK ? tokens : 0;
    }
    for (size_t i = 0; status == PAL_OK && i < turn->messages_len; i++) {
        status = pal_tokens_message(model.encoding, &turn->messages[i], &tokens, err);
        *out_tokens += status == PAL_OK ? tokens : 0;
    }
    for (size_t i = 0; status == PAL_OK && i < turn->tools_len; i++) {
        const pal_tool *tool = &turn->tools[i];
        status = pal_tokens_tool(
                model.encoding, tool->name, tool->description, tool->schema, &tokens, err);
        *out_tokens += status == PAL_OK ? tokens : 0;
    }
    return status;
}

pal_status pal_openai_count_input(pal_call *call, pal_error *err)
{
    uint64_t tokens = 0;
    pal_status status;
    pal_response_request *request = read_request(call, &status, err);
    if (!request)
        return status;
    status = pal_response_context_find(request, err);
    if (status != PAL_OK)
        return status;
    status = pal_response_check_calls(request, err);
    if (status != PAL_OK)
        return status;
    if (!pal_id_is_none(request->context.session.id))
        status = count_stored(call, &request->context, &tokens, err);
    if (status != PAL_OK)
        return status;
    status = count_new(request, &tokens, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_put_text(writer, "object", "response.input_tokens");
    pal_put_count(writer, "input_tokens", tokens);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

/* ---- Compacting ---- */

/* The instruction to summarize is the last message. */
static pal_status add_prompt(pal_response_request *request, pal_error *err)
{
    pal_turn_request *turn = &request->turn;
    pal_arena *arena = request->call->arena;
    pal_message *messages = pal_arena_array(arena, turn->messages_len + 1, sizeof *messages);
    if (!messages)
        return pal_arena_checked(arena, err);
    if (turn->messages_len)
        memcpy(messages, turn->messages, turn->messages_len * sizeof *messages);
    messages[turn->messages_len] =
            pal_message_text(arena, PAL_ROLE_USER, pal_str_of(compact_prompt));
    turn->messages = messages;
    turn->messages_len++;
    return pal_arena_checked(arena, err);
}

pal_status pal_openai_compact_input(pal_call *call, pal_error *err)
{
    pal_status status = pal_response_forward_compact(call, err);
    if (status != PAL_CONFLICT)
        return status;
    pal_response_request *request = read_request(call, &status, err);
    if (!request)
        return status;
    if (request->turn.model.len == 0) {
        call->fail_param = "model";
        return pal_error_set(err, PAL_INVALID, "'model' is missing");
    }
    if (request->conversation.len) {
        call->fail_param = "conversation";
        return pal_error_set(err, PAL_INVALID,
                "'conversation' is not allowed: a conversation is compacted automatically; send "
                "'input' or 'previous_response_id'");
    }
    if (request->has_service)
        return pal_response_forward_history(request, err);
    request->is_compaction = true;
    request->is_stored = false;
    request->is_stream = false;
    request->is_background = false;
    request->turn.tools_len = 0;
    request->turn.no_server_tools = true;
    request->turn.tool_choice = (pal_str){0};
    status = add_prompt(request, err);
    return status == PAL_OK ? pal_response_start(request, err) : status;
}
