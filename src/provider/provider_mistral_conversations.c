/* provider_mistral_conversations.c - Mistral's Conversations API, in which the service keeps the
 * messages.
 *
 * request.conversation is the service's id of the conversation, or empty to begin one. A new
 * conversation gets all messages, and `end` reports its id. A known conversation gets the messages
 * since the model's last answer. Instructions and tools belong to a conversation from its
 * beginning; an agent (a model named "ag_..." or "ag:...") has its own. On the loop. */
#include "base/json/json_put.h"
#include "dialect/mistral/mistral_entries.h"
#include "provider/provider_kind.h"

/* Parameters that are members of the request instead of "completion_args". */
static const char *const outer_names[] = {
        "name", "description", "metadata", "guardrails", "agent_version", NULL};
/* Parameters that are not passed on: the request sets them itself, or they have other names in this
 * API. */
static const char *const own_names[] = {"model", "agent_id", "messages", "inputs", "instructions",
        "stream", "stream_options", "store", "tools", "tool_choice", "handoff_execution",
        "max_tokens", "max_completion_tokens", "seed", "n", "user", "parallel_tool_calls", "name",
        "description", "metadata", "guardrails", "agent_version", NULL};

static bool is_agent(pal_str model)
{
    return model.len > 3 &&
            (memcmp(model.data, "ag_", 3) == 0 || memcmp(model.data, "ag:", 3) == 0);
}

/* ---- Requests ---- */

/* Returns the index of the first message that the conversation does not contain yet. */
static size_t first_new(const pal_model_request *request)
{
    size_t first = request->messages_len;
    if (request->conversation.len == 0)
        return 0;
    while (first > 0 && request->messages[first - 1].role != PAL_ROLE_ASSISTANT)
        first--;
    return first;
}

static pal_status put_inputs(
        pal_json_writer *writer, const pal_model_request *request, pal_error *err)
{
    pal_json_name(writer, "inputs");
    pal_json_begin_array(writer);
    size_t empty_len = writer->buf->len;
    for (size_t i = first_new(request); i < request->messages_len; i++)
        pal_mistral_entries_put(writer, &request->messages[i]);
    if (writer->buf->len == empty_len && !writer->buf->failure)
        return pal_error_set(err, PAL_INVALID,
                "the request has no new message for the conversation");
    pal_json_end_array(writer);
    return PAL_OK;
}

static void put_instructions(pal_json_writer *writer, const pal_model_request *request)
{
    pal_buf text;
    pal_buf_init(&text, PAL_JSON_BYTES_MAX);
    pal_mistral_instructions(&text, request->messages, request->messages_len);
    if (text.failure)
        writer->buf->failure = text.failure;
    if (text.len)
        pal_put_str(writer, "instructions", pal_buf_str(&text));
    pal_buf_done(&text);
}

static void put_seed(pal_json_writer *writer, const pal_model_request *request, pal_arena *arena)
{
    pal_json seed = pal_request_parameter(request, "seed", arena);
    if (pal_json_type_of(seed) != PAL_JSON_NUMBER)
        return;
    pal_put_raw(writer, "random_seed", pal_json_raw(seed));
}

static pal_status put_choice(
        pal_json_writer *writer, const pal_model_request *request, pal_error *err)
{
    if (request->tool_choice.len == 0 || request->tools_len == 0)
        return PAL_OK;
    pal_status status = pal_request_check_json(request->tool_choice, "'tool_choice'", err);
    if (status != PAL_OK)
        return status;
    /* The API has these values, but no way to name one tool. */
    pal_put_raw(writer, "tool_choice",
            request->tool_choice.data[0] == '"' ? request->tool_choice : pal_str_of("\"any\""));
    return PAL_OK;
}

static pal_status put_arguments(
        pal_json_writer *writer, const pal_model_request *request, pal_arena *arena, pal_error *err)
{
    uint64_t max = request->output_max;
    if (max == 0)
        pal_json_u64(pal_request_parameter(request, "max_tokens", arena), &max);
    pal_json_name(writer, "completion_args");
    pal_json_begin_object(writer);
    if (max)
        pal_put_count(writer, "max_tokens", max);
    put_seed(writer, request, arena);
    pal_status status = put_choice(writer, request, err);
    if (status == PAL_OK)
        status = pal_request_put_parameters(writer, request, own_names, err);
    if (status == PAL_OK)
        pal_json_end_object(writer);
    return status;
}

static pal_status put_start(
        pal_json_writer *writer, const pal_model_request *request, pal_arena *arena, pal_error *err)
{
    bool by_agent = is_agent(request->model);
    pal_status status = PAL_OK;
    pal_put_str(writer, by_agent ? "agent_id" : "model", request->model);
    if (!by_agent) {
        pal_model_request plain = *request;
        plain.tool_choice = pal_str_make(NULL, 0);
        put_instructions(writer, request);
        status = pal_request_put_tools(writer, &plain, err);
    }
    for (size_t i = 0; outer_names[i]; i++) {
        pal_json value = pal_request_parameter(request, outer_names[i], arena);
        if (pal_json_type_of(value) == PAL_JSON_NONE)
            continue;
        pal_put_raw(writer, outer_names[i], pal_json_raw(value));
    }
    return status;
}

static pal_status put_all(
        pal_json_writer *writer, const pal_model_request *request, pal_arena *arena, pal_error *err)
{
    pal_status status = PAL_OK;
    if (request->conversation.len == 0)
        status = put_start(writer, request, arena, err);
    if (status != PAL_OK)
        return status;
    status = put_inputs(writer, request, err);
    if (status != PAL_OK)
        return status;
    pal_put_flag(writer, "stream", request->stream);
    pal_put_flag(writer, "store", !request->is_aside);
    pal_put_text(writer, "handoff_execution", "server");
    return put_arguments(writer, request, arena, err);
}

/* Escapes an id for a URL path, so that none of its characters has a special meaning. */
static void append_id(pal_buf *path, pal_str id)
{
    for (size_t i = 0; i < id.len; i++) {
        unsigned char c = (unsigned char)id.data[i];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                (c >= '0' && c <= '9') || c == '_' || c == '-';
        if (is_plain)
            pal_buf_append_char(path, (char)c);
        else
            pal_buf_format(path, "%%%02X", c);
    }
}

static pal_status write_conversation(const pal_provider *provider, const pal_model_request *request,
        pal_buf *out_path, pal_buf *out_body, pal_error *err)
{
    (void)provider;
    pal_buf_append_text(out_path, "/conversations");
    if (request->conversation.len) {
        pal_buf_append_char(out_path, '/');
        append_id(out_path, request->conversation);
    }
    return pal_request_write(request, put_all, out_body, err);
}

/* ---- Answers ---- */

static bool is_type(pal_json object, const char *type)
{
    return pal_json_string_is(pal_json_find(object, "type"), type);
}

static void read_facts(pal_answer *answer, pal_json value)
{
    pal_json usage = pal_json_find(value, "usage");
    pal_answer_learn(&answer->conversation, pal_answer_member(answer, value, "conversation_id"));
    pal_answer_learn(&answer->model, pal_answer_member(answer, value, "model"));
    if (!pal_json_is_absent(usage))
        pal_answer_usage(answer, usage);
}

/* Every piece contains the id of its call. */
static void read_call(pal_answer *answer, pal_json value)
{
    pal_json arguments = pal_json_find(value, "arguments");
    bool is_object = pal_json_type_of(arguments) == PAL_JSON_OBJECT;
    uint32_t index = pal_answer_call_of(answer, -1,
            pal_answer_member(answer, value, "tool_call_id"),
            pal_answer_member(answer, value, "name"));
    pal_answer_arguments(answer, index,
            is_object ? pal_json_raw(arguments) : pal_answer_string(answer, arguments));
}

static void conversations_event(pal_answer *answer, pal_str name, pal_json value)
{
    (void)name;
    if (is_type(value, "conversation.response.error") ||
            !pal_json_is_absent(pal_json_find(value, "error")) ||
            pal_json_string_is(pal_json_find(value, "object"), "error")) {
        pal_answer_error_value(answer, value);
        return;
    }
    read_facts(answer, value);
    if (is_type(value, "message.output.delta"))
        pal_answer_content(answer, pal_json_find(value, "content"));
    else if (is_type(value, "function.call.delta"))
        read_call(answer, value);
    else if (is_type(value, "conversation.response.done"))
        answer->is_done = true;
}

static void conversations_whole(pal_answer *answer, pal_json value)
{
    pal_json entry, outputs = pal_json_find(value, "outputs");
    if (pal_json_type_of(outputs) != PAL_JSON_ARRAY) {
        pal_answer_error_value(answer, value);
        return;
    }
    read_facts(answer, value);
    for (pal_json_iter iter = pal_json_each(outputs); pal_json_next(&iter, NULL, &entry);) {
        pal_answer_learn(&answer->model, pal_answer_member(answer, entry, "model"));
        if (is_type(entry, "function.call"))
            read_call(answer, entry);
        else if (is_type(entry, "message.output"))
            pal_answer_content(answer, pal_json_find(entry, "content"));
    }
}

const pal_reader_kind pal_reader_mistral_conversations = {
        .event = conversations_event, .whole = conversations_whole};

/* The conversation is gone, or it accepts no more entries, for example because the result of a call
 * was never sent. If the request itself is wrong, it fails again in the new conversation. */
static bool is_stale(const pal_model_end *end)
{
    static const char words[] = "unction calls and responses";
    if (end->code == 400 || end->code == 404 || end->code == 409 || end->code == 410 ||
            end->code == 422)
        return true;
    return end->error.len &&
            memmem(end->error.data, end->error.len, words, sizeof words - 1) != NULL;
}

const pal_provider_kind pal_provider_mistral_conversations = {
        .info = {.kind = "mistral_conversations",
                .url = "https://api.mistral.ai/v1",
                .key_variable = "MISTRAL_API_KEY",
                .profile = PAL_PROFILE_MISTRAL,
                .keeps_conversations = true},
        .write = write_conversation,
        .reader = &pal_reader_mistral_conversations,
        .is_stale = is_stale,
};
