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
    if (status == PAL_OK)
        status = take_instructions(start, err);
    if (status == PAL_OK && start->run.messages_len == 0)
        return pal_error_set(err, PAL_INVALID, "'messages' is empty; send at least one message");
    if (status == PAL_OK)
        status = pal_mistral_start_check(start, (pal_id){{0}}, 0, err);
    if (status == PAL_OK)
        call->fail_param = NULL;
    return status;
}

/* Reads a required text; `name` is "model" or "agent_id". */
static pal_status read_chat(
        pal_mistral_start *start, const char *name, pal_str *out_speaker, pal_error *err)
{
    pal_call *call = start->call;
    uint64_t n = 1;
    pal_status status = pal_call_text(call, call->body, name, PAL_MODEL_LEN_MAX, out_speaker, err);
    if (status == PAL_OK && out_speaker->len == 0)
        return pal_mistral_wrong(call, name, err, "'%s' is missing", name);
    if (status == PAL_OK)
        status = pal_call_flag(call, call->body, "stream", &start->run.is_stream, err);
    if (status == PAL_OK)
        status = pal_call_count(call, call->body, "n", 1, 1, &n, err);
    if (status == PAL_OK)
        status = pal_mistral_args_check(call, call->body, NULL, err);
    if (status == PAL_OK)
        status = read_messages(start, err);
    start->settings.tools = pal_json_find(call->body, "tools");
    return status;
}

static pal_status make_session(pal_mistral_start *start, pal_error *err)
{
    pal_status status = pal_mistral_start_session(start, 0, err);
    if (status != PAL_OK)
        return status;
    start->run.conversation = start->session.id;
    pal_mistral_start_op(start, PAL_OP_CREATE)->u.create.session = &start->session;
    return pal_mistral_start_make(start, err);
}

static pal_status chat(pal_call *call, bool is_agents, pal_error *err)
{
    pal_mistral_start *start = pal_mistral_start_new(call, err);
    if (!start)
        return err->status;
    pal_mistral_settings *settings = &start->settings;
    start->is_stored = false;
    start->run.shape = &pal_mistral_chat_shape;
    pal_status status = is_agents ? read_chat(start, "agent_id", &settings->agent_id, err)
                                  : read_chat(start, "model", &settings->model, err);
    if (status == PAL_OK)
        status = pal_mistral_legs_make(call, settings, call->body, &start->run.legs, err);
    if (status != PAL_OK)
        return status;
    /* Clients of chat completions run tools themselves and do not expect calls of the server's
     * tools. */
    for (size_t i = 0; i < start->run.legs.len; i++)
        start->run.legs.items[i].request.no_server_tools = true;
    return make_session(start, err);
}

static pal_status chat_model(pal_call *call, pal_error *err)
{
    return chat(call, false, err);
}

static pal_status chat_agent(pal_call *call, pal_error *err)
{
    return chat(call, true, err);
}

PAL_MISTRAL_HANDLER(chat_model)
PAL_MISTRAL_HANDLER(chat_agent)

const pal_api_route pal_mistral_chat_routes[] = {
        {"POST", "/mistral/v1/chat/completions", PAL_KEY_WRITE,
                PAL_API_JSON | PAL_API_TURN | PAL_API_WORKER,
                handle_chat_model,
                {"mistralCompleteChat", "get a model's answer to messages; nothing is stored", NULL,
                        &pal_api_any_object, &pal_api_any_object, 200}},
        {"POST", "/mistral/v1/agents/completions", PAL_KEY_WRITE,
                PAL_API_JSON | PAL_API_TURN | PAL_API_WORKER,
                handle_chat_agent,
                {"mistralCompleteAgent",
                        "get an agent's answer to messages; nothing is stored", NULL,
                        &pal_api_any_object, &pal_api_any_object, 200}},
        {0},
};
