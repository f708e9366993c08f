/* provider_responses_write.c - writes requests of OpenAI's Responses. The history is sent as items,
 * and nothing is stored at the service: the session has it. The other members are those of the
 * client's request, unchanged, so that it can use everything that the service has. Pure
 * functions; provider_responses.c reads the answers. */
#include "base/json/json_put.h"
#include "dialect/dialect_member.h"
#include "dialect/openai/openai_items.h"
#include "provider/provider_kind.h"

#define ENCRYPTED "reasoning.encrypted_content" /* the service can read such reasoning again */

/* Members that the request sets itself. */
static const char *const own_names[] = {"model", "instructions", "input", "include", "tools",
        "tool_choice", "stream", "store", "max_output_tokens", NULL};
/* Parameters of the configuration that have the same name and meaning in both APIs of OpenAI. */
static const char *const shared_names[] = {"temperature", "top_p", "top_logprobs", "service_tier",
        "user", "metadata", "safety_identifier"};

/* The plan's own system message is not stored, so it has no id. */
static bool is_instructions(const pal_message *message)
{
    return message->role == PAL_ROLE_SYSTEM && pal_id_is_none(message->id);
}

static pal_status put_input(
        pal_json_writer *writer, const pal_model_request *request, pal_error *err)
{
    size_t first = request->messages_len && is_instructions(&request->messages[0]) ? 1 : 0;
    pal_buf text;
    if (first) {
        pal_buf_init(&text, PAL_PROVIDER_REQUEST_BYTES_MAX);
        for (size_t i = 0; i < request->messages[0].parts_len; i++)
            pal_buf_append_str(&text, request->messages[0].parts[i].text);
        pal_put_str(writer, "instructions", pal_buf_str(&text));
        pal_status failure = text.failure;
        pal_buf_done(&text);
        if (failure)
            return pal_error_set(err, failure, "the instructions are too long");
    }
    pal_json_name(writer, "input");
    pal_json_begin_array(writer);
    for (size_t i = first; i < request->messages_len; i++) {
        pal_status status = pal_openai_items_put_input(writer, &request->messages[i], err);
        if (status != PAL_OK)
            return pal_member_within(err, status, "input", i);
    }
    pal_json_end_array(writer);
    return PAL_OK;
}

static void put_include(pal_json_writer *writer, pal_json members)
{
    pal_json name, include = pal_json_find(members, "include");
    bool has_encrypted = false;
    pal_json_name(writer, "include");
    pal_json_begin_array(writer);
    for (pal_json_iter iter = pal_json_each(include); pal_json_next(&iter, NULL, &name);) {
        has_encrypted = has_encrypted || pal_json_string_is(name, ENCRYPTED);
        pal_json_put_raw(writer, pal_json_raw(name));
    }
    if (!has_encrypted)
        pal_json_put_text(writer, ENCRYPTED);
    pal_json_end_array(writer);
}

/* The client's tools are sent unchanged. The tools of this server are functions of the service. */
static pal_status put_tools(pal_json_writer *writer, const pal_model_request *request,
        pal_json members, pal_error *err)
{
    pal_json tool, tools = pal_json_find(members, "tools");
    pal_json choice = pal_json_find(members, "tool_choice");
    pal_status status = PAL_OK;
    pal_json_name(writer, "tools");
    pal_json_begin_array(writer);
    for (pal_json_iter iter = pal_json_each(tools); pal_json_next(&iter, NULL, &tool);)
        pal_json_put_raw(writer, pal_json_raw(tool));
    for (size_t i = 0; status == PAL_OK && i < request->tools_len; i++) {
        if (!pal_openai_is_mcp(request->tools[i].call_extra))
            continue;
        pal_json_begin_object(writer);
        pal_put_text(writer, "type", "function");
        status = pal_request_put_function(writer, request, &request->tools[i], "parameters", err);
        pal_put_flag(writer, "strict", false);
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
    if (pal_str_is(request->tool_choice, "\"none\""))
        pal_put_raw(writer, "tool_choice", request->tool_choice);
    else if (!pal_json_is_absent(choice))
        pal_put_raw(writer, "tool_choice", pal_json_raw(choice));
    return status;
}

static void put_parameters(pal_json_writer *writer, const pal_model_request *request,
        pal_json members, pal_arena *arena)
{
    for (size_t i = 0; i < sizeof shared_names / sizeof *shared_names; i++) {
        pal_json value = pal_request_parameter(request, shared_names[i], arena);
        if (pal_json_is_absent(pal_json_find(members, shared_names[i])) &&
                !pal_json_is_absent(value))
            pal_put_raw(writer, shared_names[i], pal_json_raw(value));
    }
}

static pal_status put_members(pal_json_writer *writer, const pal_provider *provider,
        const pal_model_request *request, pal_arena *arena, pal_error *err)
{
    pal_json members;
    pal_status status = pal_json_parse(arena, request->items_request, NULL, &members, err);
    if (status != PAL_OK)
        return status;
    pal_put_str(writer, "model", request->model);
    status = put_input(writer, request, err);
    if (status == PAL_OK)
        status = put_tools(writer, request, members, err);
    if (status != PAL_OK)
        return status;
    put_include(writer, members);
    pal_put_flag(writer, "store", false);
    pal_put_flag(writer, "stream", true);
    if (request->output_max)
        pal_put_count(writer, "max_output_tokens", request->output_max);
    if (request->conversation.len && provider->affinity == PAL_AFFINITY_PROMPT_CACHE_KEY &&
            pal_json_is_absent(pal_json_find(members, "prompt_cache_key")))
        pal_put_str(writer, "prompt_cache_key", request->conversation);
    put_parameters(writer, request, members, arena);
    pal_member_put_others(writer, members, own_names, NULL, arena);
    return PAL_OK;
}

pal_status pal_responses_write(const pal_provider *provider, const pal_model_request *request,
        pal_buf *out_path, pal_buf *out_body, pal_error *err)
{
    pal_json_writer writer = pal_json_writer_make(out_body);
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return pal_no_memory(err);
    pal_buf_append_text(out_path, "/responses");
    pal_json_begin_object(&writer);
    pal_status status = put_members(&writer, provider, request, arena, err);
    pal_json_end_object(&writer);
    if (status == PAL_OK)
        status = pal_arena_checked(arena, err);
    pal_arena_free(arena);
    return status;
}
