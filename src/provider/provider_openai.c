/* provider_openai.c - writes requests for chat completions: for OpenAI, and for Mistral, which
 * rejects unknown members. Pure functions; provider_openai_read.c reads the answers. */
#include "base/json/json_put.h"
#include "dialect/dialect_member.h"
#include "dialect/openai/openai_chat.h"
#include "provider/provider_kind.h"

#define OPENAI_URL "https://api.openai.com/v1"

/* Members that the request sets itself; parameters cannot replace them. */
static const char *const own_names[] = {
        "model", "messages", "stream", "stream_options", "tools", "tool_choice", "n", NULL};
static const char *const own_names_and_max[] = {"model", "messages", "stream", "stream_options",
        "tools", "tool_choice", "n", "max_tokens", "max_completion_tokens", NULL};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Returns the model's name without the maker's name: "openai/gpt-5" is "gpt-5". */
static pal_str own_name(pal_str model)
{
    for (size_t i = model.len; i > 0; i--) {
        if (model.data[i - 1] == '/')
            return pal_str_make(model.data + i, model.len - i);
    }
    return model;
}

/* OpenAI's reasoning models reject the older name of the limit: o1, o3, o4-mini, gpt-5 and
 * later. */
static bool takes_completion_tokens(pal_str model)
{
    static const char gpt[] = "gpt-";
    const size_t gpt_len = sizeof gpt - 1;
    pal_str name = own_name(model);
    if (name.len >= 2 && name.data[0] == 'o' && is_digit(name.data[1]))
        return true;
    if (name.len <= gpt_len || memcmp(name.data, gpt, gpt_len) != 0)
        return false;
    char first = name.data[gpt_len];
    bool is_long = name.len > gpt_len + 1 && is_digit(name.data[gpt_len + 1]);
    return is_digit(first) && (is_long || first >= '5');
}

static pal_status put_messages(
        pal_json_writer *writer, const pal_model_request *request, pal_error *err)
{
    pal_json_name(writer, "messages");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < request->messages_len; i++) {
        pal_status status = pal_openai_chat_put(writer, &request->messages[i], err);
        if (status != PAL_OK)
            return pal_member_within(err, status, "messages", i);
    }
    pal_json_end_array(writer);
    return PAL_OK;
}

static void put_stream(pal_json_writer *writer, const pal_model_request *request, bool is_mistral)
{
    if (!request->stream)
        return;
    pal_put_flag(writer, "stream", true);
    /* Mistral always reports usage, and it rejects a request for it. */
    if (is_mistral)
        return;
    pal_put_raw(writer, "stream_options", pal_str_of("{\"include_usage\":true}"));
}

static void put_max(pal_json_writer *writer, const pal_model_request *request, bool is_mistral)
{
    if (request->output_max == 0)
        return;
    bool is_new = !is_mistral && takes_completion_tokens(request->model);
    pal_put_count(writer, is_new ? "max_completion_tokens" : "max_tokens", request->output_max);
}

/* With a key or a slot, requests of one conversation are more likely to find its cache. Other
 * services reject or ignore these members. */
static void put_cache_key(
        pal_json_writer *writer, const pal_provider *provider, const pal_model_request *request)
{
    if (request->conversation.len && provider->affinity == PAL_AFFINITY_PROMPT_CACHE_KEY)
        pal_put_str(writer, "prompt_cache_key", request->conversation);
    if (!request->slot)
        return;
    pal_put_count(writer, "id_slot", request->slot - 1);
    pal_put_flag(writer, "cache_prompt", true);
}

static pal_status write_chat(const pal_provider *provider, const pal_model_request *request,
        bool is_mistral, pal_buf *body, pal_error *err)
{
    pal_json_writer writer = pal_json_writer_make(body);
    pal_json_begin_object(&writer);
    pal_put_str(&writer, "model", request->model);
    pal_status status = put_messages(&writer, request, err);
    if (status == PAL_OK)
        status = pal_request_put_tools(&writer, request, err);
    if (status != PAL_OK)
        return status;
    put_stream(&writer, request, is_mistral);
    put_max(&writer, request, is_mistral);
    put_cache_key(&writer, provider, request);
    status = pal_request_put_parameters(
            &writer, request, request->output_max ? own_names_and_max : own_names, err);
    if (status == PAL_OK)
        pal_json_end_object(&writer);
    return status;
}

static pal_status write_openai(const pal_provider *provider, const pal_model_request *request,
        pal_buf *out_path, pal_buf *out_body, pal_error *err)
{
    pal_buf_append_text(out_path, "/chat/completions");
    return write_chat(provider, request, false, out_body, err);
}

static pal_status write_mistral(const pal_provider *provider, const pal_model_request *request,
        pal_buf *out_path, pal_buf *out_body, pal_error *err)
{
    pal_buf_append_text(out_path, "/chat/completions");
    return write_chat(provider, request, true, out_body, err);
}

const pal_provider_kind pal_provider_openai = {
        .info = {.kind = "openai",
                .url = OPENAI_URL,
                .key_variable = "OPENAI_API_KEY",
                .url_variable = "OPENAI_BASE_URL",
                .model = "gpt-5-mini",
                .profile = PAL_PROFILE_OPENAI_CHAT,
                .has_clones = true},
        .has_chat = true,
        .has_cache_key = true,
        .hides_usage = true,
        .write = write_openai,
        .reader = &pal_reader_openai,
        .counter = &pal_reader_openai_passing,
        .responses_counter = &pal_reader_responses_passing,
        .responses_reader = &pal_reader_responses,
};

const pal_provider_kind pal_provider_mistral = {
        .info = {.kind = "mistral",
                .url = "https://api.mistral.ai/v1",
                .key_variable = "MISTRAL_API_KEY",
                .model = "mistral-medium-latest",
                .profile = PAL_PROFILE_MISTRAL},
        .has_chat = true,
        .write = write_mistral,
        .reader = &pal_reader_openai,
        .counter = &pal_reader_openai_passing,
};
