/* api_anthropic_request.c - reads a request of Anthropic's API into a turn.
 *
 * Members, tools and blocks that other model services cannot use are left out and reported, never
 * refused: clients send members that are newer than this server. Only requests that no service
 * could answer are invalid. Cache marks are hints and are not reported. */
#include "server/api/anthropic/api_anthropic.h"

#include <string.h>
#include "base/json/json_put.h"
#include "dialect/anthropic/anthropic.h"
#include "dialect/dialect_member.h"
#include "server/run/run.h"
#include "server/server_call.h"

typedef struct reader {
    pal_call *call;
    pal_anthropic_request *request;
    pal_buf buf; /* the names of everything that was left out, a JSON array */
    pal_json_writer left_out;
    pal_part *media; /* images and files of tool results, for the user's message after them */
    size_t media_len, media_cap;
    bool keeps_media; /* the user's message follows the results */
} reader;

/* Reports "what name". `name` may be empty. */
static void leave_out(reader *in, const char *what, pal_str name)
{
    pal_buf text;
    pal_buf_init(&text, PAL_LABEL_LEN_MAX * 2);
    pal_buf_append_text(&text, what);
    if (name.len) {
        pal_buf_append_char(&text, ' ');
        pal_buf_append_str(&text, name);
    }
    pal_json_put_str(&in->left_out, pal_buf_str(&text));
    pal_buf_done(&text);
}

/* ---- Blocks ---- */

static bool is_text_file(const pal_part *part)
{
    return part->kind == PAL_PART_FILE && part->data.len &&
            pal_str_is(part->media_type, "text/plain");
}

/* A document that is a text is sent as a text, which every model can read. */
static void use_text(reader *in, pal_part *part)
{
    pal_buf text;
    pal_buf_init(&text, PAL_PROVIDER_REQUEST_BYTES_MAX);
    pal_buf_append_str(&text, part->name);
    pal_buf_append_text(&text, part->name.len ? "\n\n" : "");
    pal_buf_append_str(&text, part->data);
    *part = (pal_part){
            .kind = PAL_PART_TEXT, .text = pal_arena_copy(in->call->arena, pal_buf_str(&text))};
    pal_buf_done(&text);
}

/* A block of an unknown type is a file without content. */
static bool is_unknown(const pal_part *part)
{
    return part->kind == PAL_PART_FILE && !part->data.len && !part->url.len && !part->blob.len;
}

/* Chat completions have no images and files in the results of tools. If a message of the user
 * follows the results, they are moved there. Otherwise the model gets a line that names them. */
static void use_result(reader *in, pal_part *result)
{
    for (size_t i = 0; i < result->parts_len; i++) {
        pal_part *part = &result->parts[i];
        const char *text = "[media left out]";
        if (is_text_file(part)) {
            use_text(in, part);
            continue;
        }
        if (part->kind == PAL_PART_TEXT)
            continue;
        if (is_unknown(part) || !in->keeps_media) {
            leave_out(in, "tool_result", pal_str_of(pal_part_kind_name(part->kind)));
        } else if (pal_arena_reserve(in->call->arena, &in->media, &in->media_cap,
                           in->media_len + 1, sizeof *in->media)) {
            in->media[in->media_len++] = *part;
            text = part->kind == PAL_PART_IMAGE ? "[the image is in the user's next message]"
                                                : "[the file is in the user's next message]";
        }
        *part = (pal_part){.kind = PAL_PART_TEXT, .text = pal_str_of(text)};
    }
}

/* Returns false if a turn cannot use the part. Reasoning of one service has no meaning for another
 * one. */
static bool use_part(reader *in, pal_part *part)
{
    if (part->kind == PAL_PART_REASONING)
        return false;
    if (is_unknown(part)) {
        pal_json kept = pal_member_kept(part->extra, PAL_ANTHROPIC_FAMILY, in->call->arena);
        leave_out(in, "block", pal_member_string(kept, "type", in->call->arena));
        return false;
    }
    if (is_text_file(part))
        use_text(in, part);
    if (part->kind == PAL_PART_TOOL_RESULT)
        use_result(in, part);
    return true;
}

/* ---- Messages ---- */

/* Puts the images and files of the results before it into a message of the user. */
static void add_media(reader *in, pal_message *message)
{
    size_t len = in->media_len + message->parts_len;
    pal_part *parts = pal_arena_array(in->call->arena, len, sizeof *parts);
    if (!parts)
        return; /* the caller checks the arena */
    memcpy(parts, in->media, in->media_len * sizeof *parts);
    if (message->parts_len)
        memcpy(parts + in->media_len, message->parts, message->parts_len * sizeof *parts);
    message->parts = parts;
    message->parts_len = len;
    in->media_len = 0;
}

/* Removes the parts that a turn cannot use. If nothing of a user's message is left, a line says so,
 * because the model must answer something. Returns false for any other message without parts. */
static bool use_message(reader *in, pal_message *message)
{
    size_t len = 0, had = message->parts_len;
    for (size_t k = 0; k < had; k++) {
        if (use_part(in, &message->parts[k]))
            message->parts[len++] = message->parts[k];
    }
    if (len == 0 && had && message->role == PAL_ROLE_USER)
        message->parts[len++] =
                (pal_part){.kind = PAL_PART_TEXT, .text = pal_str_of("[content left out]")};
    message->parts_len = len;
    return len || had == 0;
}

/* Whether a message of the user follows this one and the results after it. */
static bool is_before_user(const pal_turn_request *turn, size_t at)
{
    while (at < turn->messages_len && turn->messages[at].role == PAL_ROLE_TOOL)
        at++;
    return at < turn->messages_len && turn->messages[at].role == PAL_ROLE_USER;
}

static void use_messages(reader *in)
{
    pal_turn_request *turn = &in->request->turn;
    size_t len = 0;
    for (size_t i = 0; i < turn->messages_len; i++) {
        pal_message *message = &turn->messages[i];
        in->keeps_media = is_before_user(turn, i);
        bool is_used = use_message(in, message);
        if (in->media_len && message->role == PAL_ROLE_USER)
            add_media(in, message);
        if (is_used)
            turn->messages[len++] = *message;
    }
    turn->messages_len = len;
}

/* The text of the member "system", one block after the other. */
static pal_status read_system(reader *in, const pal_message *system, pal_error *err)
{
    pal_buf text;
    pal_buf_init(&text, PAL_SYSTEM_LEN_MAX);
    for (size_t i = 0; i < system->parts_len; i++) {
        if (text.len && system->parts[i].text.len)
            pal_buf_append_text(&text, "\n\n");
        pal_buf_append_str(&text, system->parts[i].text);
    }
    pal_status status =
            pal_member_keep(&text, in->call->arena, &in->request->turn.system, err);
    pal_buf_done(&text);
    return status;
}

static bool is_called(const pal_message *messages, size_t len, pal_str call_id)
{
    for (size_t i = len; i > 0; i--) {
        for (size_t k = 0; k < messages[i - 1].parts_len; k++) {
            const pal_part *part = &messages[i - 1].parts[k];
            if (part->kind == PAL_PART_TOOL_CALL && pal_str_equal(part->call_id, call_id))
                return true;
        }
    }
    return false;
}

/* A result without a call has no meaning for any model. */
static pal_status check_results(const pal_turn_request *turn, pal_error *err)
{
    for (size_t i = 0; i < turn->messages_len; i++) {
        for (size_t k = 0; k < turn->messages[i].parts_len; k++) {
            const pal_part *part = &turn->messages[i].parts[k];
            if (part->kind == PAL_PART_TOOL_RESULT && !is_called(turn->messages, i, part->call_id))
                return pal_error_set(err, PAL_INVALID,
                        "messages: unexpected `tool_use_id` found in `tool_result` blocks: %.*s",
                        (int)(part->call_id.len < 80 ? part->call_id.len : 80),
                        part->call_id.data ? part->call_id.data : "");
        }
    }
    return PAL_OK;
}

static pal_status read_messages(reader *in, pal_error *err)
{
    pal_turn_request *turn = &in->request->turn;
    pal_json list = pal_json_find(in->call->body, "messages");
    in->call->fail_param = "messages";
    if (pal_json_type_of(list) != PAL_JSON_ARRAY || pal_json_count(list) == 0)
        return pal_error_set(err, PAL_INVALID, "messages: at least one message is required");
    pal_status status = pal_anthropic_read(
            in->call->body, in->call->arena, &turn->messages, &turn->messages_len, err);
    if (status != PAL_OK)
        return status;
    turn->has_system = true; /* the model gets the instructions of the client and no others */
    if (pal_json_type_of(pal_json_find(in->call->body, "system")) > PAL_JSON_NULL) {
        status = read_system(in, &turn->messages[0], err);
        turn->messages++;
        turn->messages_len--;
    }
    if (status == PAL_OK)
        status = check_results(turn, err);
    if (status != PAL_OK)
        return status;
    in->call->fail_param = NULL;
    use_messages(in);
    return pal_arena_checked(in->call->arena, err);
}

/* ---- Tools ---- */

static pal_status read_tool(reader *in, pal_json value, pal_tool *out_tool, pal_error *err)
{
    pal_tool tool = {0};
    pal_status status =
            pal_call_text(in->call, value, "name", PAL_LABEL_LEN_MAX, &tool.name, err);
    if (status == PAL_OK)
        status = pal_call_text(
                in->call, value, "description", PAL_SYSTEM_LEN_MAX, &tool.description, err);
    if (status == PAL_OK)
        status = pal_call_object(in->call, value, "input_schema", &tool.schema, err);
    if (status != PAL_OK)
        return status;
    if (tool.name.len == 0)
        return pal_error_set(err, PAL_INVALID, "name: Field required");
    *out_tool = tool;
    return PAL_OK;
}

/* Tools with any other type than "custom" are run by Anthropic's service. */
static pal_status read_tools(reader *in, pal_error *err)
{
    pal_json value, list = pal_json_find(in->call->body, "tools");
    size_t count = pal_json_count(list), at = 0, len = 0;
    if (pal_json_type_of(list) <= PAL_JSON_NULL)
        return PAL_OK;
    in->call->fail_param = "tools";
    if (pal_json_type_of(list) != PAL_JSON_ARRAY)
        return pal_error_set(err, PAL_INVALID, "tools: Input should be a valid list");
    if (count > PAL_SERVER_TOOLS_MAX)
        return pal_error_set(err, PAL_LIMIT,
                "tools: %zu tools are too many; at most %d are allowed", count,
                PAL_SERVER_TOOLS_MAX);
    pal_tool *tools = pal_arena_array(in->call->arena, count ? count : 1, sizeof *tools);
    if (!tools)
        return pal_arena_checked(in->call->arena, err);
    for (pal_json_iter iter = pal_json_each(list); pal_json_next(&iter, NULL, &value); at++) {
        pal_json type = pal_json_find(value, "type");
        if (pal_json_type_of(type) == PAL_JSON_STRING && !pal_json_string_is(type, "custom")) {
            leave_out(in, "tool", pal_json_string(type, in->call->arena));
            continue;
        }
        pal_status status = read_tool(in, value, &tools[len], err);
        if (status != PAL_OK)
            return pal_member_within(err, status, "tools", at);
        len++;
    }
    in->call->fail_param = NULL;
    in->request->turn.tools = tools;
    in->request->turn.tools_len = len;
    return PAL_OK;
}

static bool has_tool(const pal_turn_request *turn, pal_str name)
{
    for (size_t i = 0; i < turn->tools_len; i++) {
        if (pal_str_equal(turn->tools[i].name, name))
            return true;
    }
    return false;
}

/* Writes the tool choice in OpenAI's format, which turns use. */
static pal_status read_choice(reader *in, pal_error *err)
{
    pal_turn_request *turn = &in->request->turn;
    pal_json choice = pal_json_find(in->call->body, "tool_choice");
    pal_json type = pal_json_find(choice, "type");
    pal_str name = pal_member_string(choice, "name", in->call->arena);
    pal_buf buf;
    if (pal_json_type_of(choice) <= PAL_JSON_NULL)
        return PAL_OK;
    if (turn->tools_len == 0 || (pal_json_string_is(type, "tool") && !has_tool(turn, name))) {
        leave_out(in, "tool_choice", (pal_str){0});
        return PAL_OK;
    }
    if (pal_json_string_is(type, "any")) {
        turn->tool_choice = pal_str_of("\"required\"");
    } else if (pal_json_string_is(type, "none")) {
        turn->tool_choice = pal_str_of("\"none\"");
    } else if (pal_json_string_is(type, "auto")) {
        turn->tool_choice = pal_str_of("\"auto\"");
    } else if (pal_json_string_is(type, "tool")) {
        pal_buf_init(&buf, PAL_LABEL_LEN_MAX * 8);
        pal_buf_append_text(&buf, "{\"type\":\"function\",\"function\":{\"name\":");
        pal_json_quote(&buf, name);
        pal_buf_append_text(&buf, "}}");
        pal_status status = pal_member_keep(&buf, in->call->arena, &turn->tool_choice, err);
        pal_buf_done(&buf);
        return status;
    } else {
        in->call->fail_param = "tool_choice";
        return pal_error_set(
                err, PAL_INVALID, "tool_choice: type must be auto, any, tool or none");
    }
    return PAL_OK;
}

/* ---- Parameters ---- */

/* Writes the schema of a structured answer as OpenAI's response_format. Older SDKs have the format
 * in the member "output_format". */
static void put_format(reader *in, pal_json_writer *writer)
{
    pal_json config = pal_json_find(in->call->body, "output_config");
    pal_json format = pal_json_find(config, "format");
    bool is_old = pal_json_is_absent(format);
    if (is_old)
        format = pal_json_find(in->call->body, "output_format");
    pal_json schema = pal_json_find(format, "schema");
    bool has_schema = pal_json_string_is(pal_json_find(format, "type"), "json_schema") &&
            pal_json_type_of(schema) == PAL_JSON_OBJECT;
    if (has_schema) {
        pal_json_name(writer, "response_format");
        pal_json_begin_object(writer);
        pal_put_text(writer, "type", "json_schema");
        pal_json_name(writer, "json_schema");
        pal_json_begin_object(writer);
        pal_put_text(writer, "name", "answer");
        pal_put_raw(writer, "schema", pal_json_raw(schema));
        pal_put_flag(writer, "strict", true);
        pal_json_end_object(writer);
        pal_json_end_object(writer);
    }
    if (!pal_json_is_absent(config) && pal_json_count(config) != (size_t)(has_schema && !is_old))
        leave_out(in, "output_config", (pal_str){0});
    if (is_old && !has_schema && !pal_json_is_absent(format))
        leave_out(in, "output_format", (pal_str){0});
}

/* Writes the members that chat completions have under the same or another name. */
static pal_status read_parameters(reader *in, pal_error *err)
{
    pal_json body = in->call->body, temperature = pal_json_find(body, "temperature"),
             top_p = pal_json_find(body, "top_p"), stop = pal_json_find(body, "stop_sequences");
    bool is_single = false;
    pal_buf buf;
    (void)pal_json_bool(
            pal_json_find(pal_json_find(body, "tool_choice"), "disable_parallel_tool_use"),
            &is_single);
    pal_buf_init(&buf, PAL_PROVIDER_REQUEST_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    if (pal_json_type_of(temperature) == PAL_JSON_NUMBER)
        pal_put_raw(&writer, "temperature", pal_json_raw(temperature));
    if (pal_json_type_of(top_p) == PAL_JSON_NUMBER)
        pal_put_raw(&writer, "top_p", pal_json_raw(top_p));
    if (pal_json_type_of(stop) == PAL_JSON_ARRAY && pal_json_count(stop))
        pal_put_raw(&writer, "stop", pal_json_raw(stop));
    if (is_single && in->request->turn.tools_len)
        pal_put_flag(&writer, "parallel_tool_calls", false);
    put_format(in, &writer);
    pal_json_end_object(&writer);
    pal_status status =
            pal_member_keep(&buf, in->call->arena, &in->request->turn.parameters, err);
    pal_buf_done(&buf);
    return status;
}

/* Reports members that no other service has. */
static void report_members(reader *in)
{
    static const char *const used[] = {"model", "messages", "system", "max_tokens", "stream",
            "tools", "tool_choice", "temperature", "top_p", "stop_sequences", "output_config",
            "output_format",
            "thinking", "cache_control", "thread", NULL};
    pal_json name, value;
    for (pal_json_iter iter = pal_json_each(in->call->body); pal_json_next(&iter, &name, &value);) {
        if (pal_json_type_of(value) != PAL_JSON_NULL && !pal_member_is_one_of(name, used))
            pal_json_put_raw(&in->left_out, pal_json_raw(name));
    }
}

/* ---- The request ---- */

/* Claude Code asks for 128000 tokens, which other models refuse. The model is the one that answers,
 * which may not be the requested one. */
static void lower_max_tokens(reader *in)
{
    pal_turn_request *turn = &in->request->turn;
    uint64_t output = pal_models_find(in->call->server->models, turn->model).output;
    bool is_replaced = !pal_str_equal(turn->model, in->request->model);
    if (output && turn->output_max > output)
        turn->output_max = output;
    else if (!output && is_replaced)
        turn->output_max = 0; /* the service knows the limit of its model */
}

static pal_status read_numbers(reader *in, bool is_count, pal_error *err)
{
    pal_call *call = in->call;
    uint64_t *max = &in->request->turn.output_max;
    pal_status status = pal_call_count(call, call->body, "max_tokens", 1, INT32_MAX, max, err);
    if (status != PAL_OK)
        return status;
    if (*max || is_count) {
        lower_max_tokens(in);
        return PAL_OK;
    }
    call->fail_param = "max_tokens";
    return pal_error_set(err, PAL_INVALID, "max_tokens: Field required");
}

static bool is_claude(pal_str model)
{
    static const char prefix[] = "claude-";
    return model.len > sizeof prefix - 1 && memcmp(model.data, prefix, sizeof prefix - 1) == 0;
}

/* Claude Code asks for models that only Anthropic has. The default model answers in their place. */
static pal_status use_default_model(reader *in, pal_error *err)
{
    pal_anthropic_request *request = in->request;
    pal_str endpoint, model = {0};
    request->turn.model = request->model;
    if (!is_claude(request->model))
        return PAL_OK;
    pal_status status = pal_runtime_default(
            in->call->server->runtime, in->call->arena, &endpoint, &model, NULL, err);
    if (status != PAL_OK || model.len == 0 || is_claude(model))
        return status;
    request->turn.model = model;
    leave_out(in, "model", request->model);
    return PAL_OK;
}

static pal_status read_model(reader *in, pal_error *err)
{
    pal_call *call = in->call;
    pal_anthropic_request *request = in->request;
    pal_status status =
            pal_call_text(call, call->body, "model", PAL_MODEL_LEN_MAX, &request->model, err);
    if (status != PAL_OK)
        return status;
    if (request->model.len == 0) {
        call->fail_param = "model";
        return pal_error_set(err, PAL_INVALID, "model: Field required");
    }
    return use_default_model(in, err);
}

static pal_status read_all(reader *in, bool is_count, pal_error *err)
{
    pal_call *call = in->call;
    pal_status status = read_model(in, err);
    if (status != PAL_OK)
        return status;
    status = pal_call_flag(call, call->body, "stream", &in->request->is_stream, err);
    if (status != PAL_OK)
        return status;
    status = read_numbers(in, is_count, err);
    if (status != PAL_OK)
        return status;
    status = read_messages(in, err);
    if (status != PAL_OK)
        return status;
    status = read_tools(in, err);
    if (status != PAL_OK)
        return status;
    status = read_choice(in, err);
    if (status != PAL_OK)
        return status;
    status = read_parameters(in, err);
    if (status != PAL_OK)
        return status;
    pal_json type = pal_json_find(pal_json_find(in->call->body, "thinking"), "type");
    in->request->shows_thinking =
            pal_json_type_of(type) == PAL_JSON_STRING && !pal_json_string_is(type, "disabled");
    report_members(in);
    return PAL_OK;
}

pal_status pal_anthropic_request_read(
        pal_call *call, bool is_count, pal_anthropic_request *out_request, pal_error *err)
{
    *out_request = (pal_anthropic_request){.call = call};
    reader in = {.call = call, .request = out_request};
    pal_turn_request *turn = &out_request->turn;
    turn->tenant = call->caller.tenant;
    turn->budget = call->caller.budget;
    turn->all_or_nothing = true;
    turn->no_retries = true; /* the client retries */
    turn->calls_end_turn = true;
    turn->no_server_tools = true;
    pal_run_send_everything(call->server, turn);
    pal_buf_init(&in.buf, PAL_PROVIDER_REQUEST_BYTES_MAX);
    in.left_out = pal_json_writer_make(&in.buf);
    pal_json_begin_array(&in.left_out);
    pal_status status = read_all(&in, is_count, err);
    if (status == PAL_OK) {
        pal_json_end_array(&in.left_out);
        status = pal_member_keep(&in.buf, call->arena, &out_request->left_out, err);
    }
    pal_buf_done(&in.buf);
    return status;
}
