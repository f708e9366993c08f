/* provider_anthropic.c - writes requests for Anthropic's Messages API.
 *
 * Up to four marks show the service which parts later requests will share: the end of the tools,
 * the end of the system field, the stable beginning of the conversation, and the whole conversation
 * if it is stable. Pure functions; provider_anthropic_read.c reads the answers. */
#include "base/json/json_put.h"
#include "base/text.h"
#include "dialect/anthropic/anthropic.h"
#include "dialect/dialect_member.h"
#include "provider/provider_kind.h"

#define OUTPUT_MAX 32000    /* output limit if neither the request nor the model has one */
#define OUTPUT_MAX_3_5 8192 /* output limit of models that allow less */
#define OUTPUT_MAX_3 4096

/* Parameters that the request sets itself or under another name, and parameters that exist only in
 * chat completions. */
static const char *const own_names[] = {"model", "messages", "system", "stream", "tools",
        "tool_choice", "max_tokens", "max_completion_tokens", "stop", "user", "parallel_tool_calls",
        "n", "seed", "stream_options", "logprobs", "top_logprobs", "logit_bias", "response_format",
        "frequency_penalty", "presence_penalty", "reasoning_effort", "prompt_cache_key",
        "verbosity", "store", NULL};

static uint64_t default_max(pal_str model)
{
    if (pal_text_begins(model, "claude-3-5"))
        return OUTPUT_MAX_3_5;
    if (pal_text_begins(model, "claude-3-opus") || pal_text_begins(model, "claude-3-sonnet") ||
            pal_text_begins(model, "claude-3-haiku"))
        return OUTPUT_MAX_3;
    return OUTPUT_MAX;
}

/* The service requires a limit, and the limit must exceed the budget for thinking. */
static uint64_t max_tokens(const pal_model_request *request, pal_arena *arena)
{
    uint64_t max = request->output_max, budget = 0;
    if (max == 0 && !pal_json_u64(pal_request_parameter(request, "max_tokens", arena), &max) &&
            !pal_json_u64(pal_request_parameter(request, "max_completion_tokens", arena), &max))
        max = default_max(request->model);
    pal_json thinking = pal_request_parameter(request, "thinking", arena);
    if (pal_json_u64(pal_json_find(thinking, "budget_tokens"), &budget) && budget >= max)
        max = budget + default_max(request->model);
    return max;
}

/* ---- Tools ---- */

/* The last tool gets the mark at the end of the tools. */
static pal_status put_tool(pal_json_writer *writer, const pal_model_request *request,
        const pal_tool *tool, pal_error *err)
{
    pal_json_begin_object(writer);
    pal_status status = pal_request_put_function(writer, request, tool, "input_schema", err);
    if (status != PAL_OK)
        return status;
    if (tool == &request->tools[request->tools_len - 1])
        pal_put_raw(writer, "cache_control", pal_str_of("{\"type\":\"ephemeral\"}"));
    pal_json_end_object(writer);
    return PAL_OK;
}

/* OpenAI's values are "auto", "none", "required" and an object that names a function. */
static const char *choice_type(pal_json choice)
{
    if (pal_json_string_is(choice, "none"))
        return "none";
    if (pal_json_string_is(choice, "required") || pal_json_string_is(choice, "any"))
        return "any";
    return pal_json_type_of(choice) == PAL_JSON_OBJECT ? "tool" : "auto";
}

static pal_status put_choice(
        pal_json_writer *writer, const pal_model_request *request, pal_arena *arena, pal_error *err)
{
    pal_json choice = {0};
    bool is_parallel = true;
    pal_json_bool(pal_request_parameter(request, "parallel_tool_calls", arena), &is_parallel);
    if (request->tool_choice.len) {
        pal_status status = pal_json_parse(arena, request->tool_choice, NULL, &choice, NULL);
        if (status != PAL_OK)
            return pal_error_set(err, status, "'tool_choice' is not JSON");
    } else if (is_parallel) {
        return PAL_OK;
    }
    pal_json function = pal_json_find(choice, "function");
    pal_json_name(writer, "tool_choice");
    pal_json_begin_object(writer);
    pal_put_text(writer, "type", choice_type(choice));
    if (pal_json_type_of(choice) == PAL_JSON_OBJECT) {
        bool is_flat = pal_json_type_of(function) == PAL_JSON_NONE;
        pal_put_str(writer, "name", pal_member_string(is_flat ? choice : function, "name", arena));
    }
    if (!is_parallel)
        pal_put_flag(writer, "disable_parallel_tool_use", true);
    pal_json_end_object(writer);
    return PAL_OK;
}

static pal_status put_tools(
        pal_json_writer *writer, const pal_model_request *request, pal_arena *arena, pal_error *err)
{
    if (request->tools_len == 0)
        return PAL_OK;
    pal_status status = pal_request_put_tool_list(writer, request, put_tool, err);
    return status == PAL_OK ? put_choice(writer, request, arena, err) : status;
}

/* ---- Messages and the complete request ---- */

static pal_status put_messages(
        pal_json_writer *writer, const pal_model_request *request, pal_error *err)
{
    /* The messages after the stable ones belong to this request alone. No later request begins with
     * them, so they are not cached. */
    bool is_shared = request->stable_len == 0 || request->stable_len >= request->messages_len;
    const pal_anthropic_marks marks = {
            .system = true, .stable_len = request->stable_len, .last = is_shared};
    pal_status status = PAL_OK;
    if (pal_anthropic_has_system(request->messages, request->messages_len)) {
        pal_json_name(writer, "system");
        status = pal_anthropic_put_system(
                writer, request->messages, request->messages_len, &marks, err);
    }
    if (status != PAL_OK)
        return status;
    pal_json_name(writer, "messages");
    return pal_anthropic_put_messages(
            writer, request->messages, request->messages_len, &marks, err);
}

static void put_translated(
        pal_json_writer *writer, const pal_model_request *request, pal_arena *arena)
{
    pal_json stop = pal_request_parameter(request, "stop", arena);
    pal_json user = pal_request_parameter(request, "user", arena);
    if (pal_json_type_of(stop) == PAL_JSON_STRING) {
        pal_json_name(writer, "stop_sequences");
        pal_json_begin_array(writer);
        pal_json_put_raw(writer, pal_json_raw(stop));
        pal_json_end_array(writer);
    } else if (pal_json_type_of(stop) == PAL_JSON_ARRAY) {
        pal_put_raw(writer, "stop_sequences", pal_json_raw(stop));
    }
    if (pal_json_type_of(user) == PAL_JSON_STRING &&
            pal_json_type_of(pal_request_parameter(request, "metadata", arena)) == PAL_JSON_NONE) {
        pal_json_name(writer, "metadata");
        pal_json_begin_object(writer);
        pal_put_raw(writer, "user_id", pal_json_raw(user));
        pal_json_end_object(writer);
    }
}

static pal_status put_all(
        pal_json_writer *writer, const pal_model_request *request, pal_arena *arena, pal_error *err)
{
    pal_put_str(writer, "model", request->model);
    pal_put_count(writer, "max_tokens", max_tokens(request, arena));
    pal_status status = put_tools(writer, request, arena, err);
    if (status == PAL_OK)
        status = put_messages(writer, request, err);
    if (status != PAL_OK)
        return status;
    if (request->stream)
        pal_put_flag(writer, "stream", true);
    put_translated(writer, request, arena);
    return pal_request_put_parameters(writer, request, own_names, err);
}

static pal_status write_messages(const pal_provider *provider, const pal_model_request *request,
        pal_buf *out_path, pal_buf *out_body, pal_error *err)
{
    (void)provider;
    pal_buf_append_text(out_path, "/messages");
    return pal_request_write(request, put_all, out_body, err);
}

const pal_provider_kind pal_provider_anthropic = {
        .info = {.kind = "anthropic",
                .url = "https://api.anthropic.com/v1",
                .key_variable = "ANTHROPIC_API_KEY",
                .url_variable = "ANTHROPIC_BASE_URL",
                .model = "claude-sonnet-4-5",
                .profile = PAL_PROFILE_ANTHROPIC},
        .has_messages = true,
        .family = PAL_ANTHROPIC_FAMILY,
        .key_header = "x-api-key",
        .header = {"anthropic-version", "2023-06-01"},
        .write = write_messages,
        .reader = &pal_reader_anthropic,
        .counter = &pal_reader_anthropic_passing,
};
