/* api_mistral_chat.c - chat completions of models and of agents. Each one is a turn in a temporary
 * session. The request contains the whole history, and nothing is stored. */
#include "dialect/dialect_member.h"
#include "dialect/mistral/mistral_chat.h"
#include "server/api/api_object.h"
#include "server/api/mistral/api_mistral_start.h"
#include "server/server_call.h"

/* System messages at the beginning are instructions, not part of the history. */
static pal_status take_instructions(pal_mistral_start *start, pal_error *err)
{
    pal_mistral_run_options *run = &start->run;
    pal_buf buf;
    pal_buf_init(&buf, PAL_SYSTEM_LEN_MAX);
    pal_mistral_instructions(&buf, run->messages, run->messages_len);
    pal_status status =
            pal_member_keep(&buf, start->call->arena, &start->settings.instructions, err);
    pal_buf_done(&buf);
    while (run->messages_len && run->messages->role == PAL_ROLE_SYSTEM) {
        run->messages++;
        run->messages_len--;
    }
    return status;
}

static pal_status read_messages(pal_mistral_start *start, pal_error *err)
{
    pal_call *call = start->call;
    call->fail_param = "messages";
    pal_status status = pal_mistral_chat_read(pal_json_find(call->body, "messages"), call->arena,
            &start->run.messages, &start->run.messages_len, err);
    if (status != PAL_OK)
        return status;
    status = take_instructions(start, err);
    if (status != PAL_OK)
        return status;
    if (start->run.messages_len == 0)
        return pal_error_set(err, PAL_INVALID, "'messages' is empty; send at least one message");
    status = pal_mistral_start_check(start, (pal_id){{0}}, 0, err);
    if (status == PAL_OK)
        call->fail_param = NULL;
    return status;
}

static const pal_api_object chat_members = {
        .members = PAL_API_MEMBERS(
                {"messages", PAL_API_LIST, .of = &pal_api_any_object, .is_required = true},
                {"stream", PAL_API_FLAG, "whether the response is a stream of chunks",
                        .offset = offsetof(pal_mistral_start, run.is_stream)},
                {"n", PAL_API_COUNT, "the number of answers",
                        .offset = offsetof(pal_mistral_start, n), .min = 1, .max = 1},
                {"tools", PAL_API_LIST, .of = &pal_api_any_object})};

static const pal_api_object chat_model_body = {"MistralChatRequest", .is_open = true,
        .members = PAL_API_MEMBERS(
                {"model", PAL_API_TEXT, "the model",
                        .offset = offsetof(pal_mistral_start, settings.model), .min = 1,
                        .max = PAL_MODEL_LEN_MAX, .is_required = true},
                {.type = PAL_API_INCLUDE, .of = &chat_members})};

static const pal_api_object chat_agent_body = {"MistralAgentChatRequest", .is_open = true,
        .members = PAL_API_MEMBERS(
                {"agent_id", PAL_API_TEXT, "the id of the agent",
                        .offset = offsetof(pal_mistral_start, settings.agent_id), .min = 1,
                        .max = PAL_MODEL_LEN_MAX, .is_required = true},
                {.type = PAL_API_INCLUDE, .of = &chat_members})};

static pal_status make_session(pal_mistral_start *start, pal_error *err)
{
    pal_status status = pal_mistral_start_session(start, 0, err);
    if (status != PAL_OK)
        return status;
    start->run.conversation = start->session.id;
    pal_mistral_start_add(start, pal_op_create(&start->session));
    return pal_mistral_start_make(start, err);
}

static pal_status chat(pal_call *call, const pal_api_object *body, pal_error *err)
{
    pal_mistral_start *start = pal_mistral_start_new(call, err);
    if (!start)
        return err->status;
    start->is_stored = false;
    start->run.format = &pal_mistral_chat_format;
    start->settings.tools = pal_json_find(call->body, "tools");
    pal_status status = pal_api_object_read(call, call->body, body, start, err);
    if (status != PAL_OK)
        return status;
    status = pal_mistral_args_check(call, call->body, NULL, err);
    if (status != PAL_OK)
        return status;
    status = read_messages(start, err);
    if (status != PAL_OK)
        return status;
    status = pal_mistral_speakers_make(
            call, &start->settings, call->body, &start->run.speakers, err);
    if (status != PAL_OK)
        return status;
    /* Clients of chat completions run tools themselves and do not expect calls of the server's
     * tools. */
    for (size_t i = 0; i < start->run.speakers.len; i++)
        start->run.speakers.items[i].request.no_server_tools = true;
    return make_session(start, err);
}

static pal_status chat_model(pal_call *call, pal_error *err)
{
    return chat(call, &chat_model_body, err);
}

static pal_status chat_agent(pal_call *call, pal_error *err)
{
    return chat(call, &chat_agent_body, err);
}

PAL_MISTRAL_HANDLER(chat_model)
PAL_MISTRAL_HANDLER(chat_agent)

const pal_api_route pal_mistral_chat_routes[] = {
        {"POST", "/mistral/v1/chat/completions", PAL_KEY_WRITE,
                PAL_API_JSON | PAL_API_TURN | PAL_API_WORKER,
                handle_chat_model,
                {"mistralCompleteChat", "get a model's answer to messages; nothing is stored", NULL,
                        &chat_model_body, &pal_api_any_object, 200}},
        {"POST", "/mistral/v1/agents/completions", PAL_KEY_WRITE,
                PAL_API_JSON | PAL_API_TURN | PAL_API_WORKER,
                handle_chat_agent,
                {"mistralCompleteAgent",
                        "get an agent's answer to messages; nothing is stored", NULL,
                        &chat_agent_body, &pal_api_any_object, 200}},
        {0},
};
