/* api_openai_responses_tools.c - reads the tools of a request, and which of them the model may or
 * must call. Only reads and checks.
 *
 * A custom tool takes free text, but model services only have functions. So it is offered as a
 * function whose only argument is that text. Its calls are marked, so that they are shown as custom
 * calls (openai_items.h). If the request allows only some tools, the other ones are not
 * offered. */
#include "base/text.h"
#include "base/utf8.h"
#include "dialect/dialect_member.h"
#include "server/api/native/api_turn.h"
#include "server/api/openai/api_openai_responses.h"
#include "server/server_call.h"

#define LEFT_OUT_LEN_MAX 512 /* bytes of a value in metadata */
#define CHOICE_EXPECTED                                                                            \
    "auto, none, required, or an object of type function, custom or allowed_tools"
#define CUSTOM_SCHEMA                                                                              \
    "{\"type\":\"object\",\"properties\":{\"input\":{\"type\":\"string\"}},"                       \
    "\"required\":[\"input\"],\"additionalProperties\":false}"

static pal_status wrong_choice(pal_call *call, pal_json value, pal_error *err)
{
    call->fail_param = "tool_choice";
    return pal_member_wrong(err, "tool_choice", value, CHOICE_EXPECTED);
}

/* ---- Custom tools ---- */

/* The service cannot force the model to follow a grammar, so the description contains it. */
static pal_status describe(pal_call *call, pal_json format, pal_tool *tool, pal_error *err)
{
    pal_str definition = pal_member_string(format, "definition", call->arena);
    pal_str syntax = pal_member_string(format, "syntax", call->arena);
    if (!pal_json_string_is(pal_json_find(format, "type"), "grammar") || definition.len == 0)
        return PAL_OK;
    pal_buf buf;
    pal_buf_init(&buf, PAL_SYSTEM_LEN_MAX);
    pal_buf_append_str(&buf, tool->description);
    pal_buf_append_text(&buf, tool->description.len ? "\n\n" : "");
    pal_buf_append_text(&buf, "The input must match this grammar (");
    pal_buf_append_str(&buf, syntax);
    pal_buf_append_text(&buf, "):\n");
    pal_buf_append_str(&buf, definition);
    pal_status status = pal_member_keep(&buf, call->arena, &tool->description, err);
    pal_buf_done(&buf);
    return status;
}

static pal_status read_custom(pal_call *call, pal_json value, pal_tool *out_tool, pal_error *err)
{
    pal_tool tool = {.schema = pal_str_of(CUSTOM_SCHEMA),
            .call_extra = pal_str_of(PAL_OPENAI_CUSTOM_CALL_EXTRA)};
    pal_status status = pal_call_text(call, value, "name", PAL_LABEL_LEN_MAX, &tool.name, err);
    if (status == PAL_OK)
        status = pal_call_text(
                call, value, "description", PAL_SYSTEM_LEN_MAX, &tool.description, err);
    if (status == PAL_OK && tool.name.len == 0)
        status = pal_error_set(err, PAL_INVALID, "'name' of the custom tool is missing");
    if (status == PAL_OK)
        status = describe(call, pal_json_find(value, "format"), &tool, err);
    *out_tool = tool;
    return status;
}

pal_status pal_response_tool_form(
        const pal_response *response, pal_str name, pal_response_form *out_form)
{
    pal_response_form form = PAL_RESPONSE_CALL;
    pal_json echo, tool;
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return PAL_NO_MEMORY;
    pal_status status = pal_json_parse(arena, response->echo, NULL, &echo, NULL);
    if (status != PAL_OK)
        goto out;
    for (pal_json_iter iter = pal_json_each(pal_json_find(echo, "tools"));
            pal_json_next(&iter, NULL, &tool);) {
        if (pal_json_string_is(pal_json_find(tool, "type"), "custom") &&
                pal_str_equal(pal_member_string(tool, "name", arena), name))
            form = PAL_RESPONSE_CUSTOM_CALL;
    }
    status = pal_arena_failure(arena);
    if (status == PAL_OK)
        *out_form = form;
out:
    pal_arena_free(arena);
    return status;
}

/* ---- All tools ---- */

/* Tools of other types run at a model service: web_search, computer use, MCP connectors and others.
 * They are left out, and the response's metadata lists them. */
static bool is_left_out(pal_json tool)
{
    pal_json type = pal_json_find(tool, "type");
    return pal_json_type_of(type) == PAL_JSON_STRING && !pal_json_string_is(type, "custom") &&
            !pal_json_string_is(type, "function");
}

static pal_status read_tool(pal_call *call, pal_json value, pal_tool *out_tool, pal_error *err)
{
    if (pal_json_string_is(pal_json_find(value, "type"), "custom"))
        return read_custom(call, value, out_tool, err);
    return pal_api_tool_read(call, value, out_tool, err);
}

/* Adds the type and the name of a tool to a list: "namespace multi_agent, web_search". */
static void list_tool(pal_call *call, pal_json tool, pal_buf *list)
{
    pal_str name = pal_member_string(tool, "name", call->arena);
    pal_buf_append_text(list, list->len ? ", " : "");
    pal_buf_append_str(list, pal_member_string(tool, "type", call->arena));
    pal_buf_append_text(list, name.len ? " " : "");
    pal_buf_append_str(list, name);
}

/* The list is cut where it would exceed the length of a value in metadata. */
static pal_status keep_left_out(pal_response_request *request, const pal_buf *list, pal_error *err)
{
    pal_str text = pal_buf_str(list);
    text.len = pal_utf8_cut(text, LEFT_OUT_LEN_MAX);
    request->left_out = pal_arena_copy(request->call->arena, text);
    return pal_arena_checked(request->call->arena, err);
}

static pal_status read_tools(pal_response_request *request, pal_json array, pal_error *err)
{
    pal_call *call = request->call;
    size_t len = 0, at = 0;
    pal_json value;
    pal_tool *tools;
    pal_buf left_out;
    pal_status status = pal_api_tools_begin(call, array, &tools, err);
    if (status != PAL_OK)
        return status;
    pal_buf_init(&left_out, PAL_JSON_BYTES_MAX);
    for (pal_json_iter iter = pal_json_each(array); pal_json_next(&iter, NULL, &value); at++) {
        if (is_left_out(value)) {
            list_tool(call, value, &left_out);
            continue;
        }
        status = read_tool(call, value, &tools[len++], err);
        if (status != PAL_OK) {
            call->fail_param = "tools";
            status = pal_member_within(err, status, "tools", at);
            goto out;
        }
    }
    request->turn.tools = tools;
    request->turn.tools_len = len;
    status = keep_left_out(request, &left_out, err);
out:
    pal_buf_done(&left_out);
    return status;
}

/* ---- Tool choice ---- */

static const pal_tool *find_tool(const pal_tool *tools, size_t len, pal_str name)
{
    for (size_t i = 0; i < len; i++) {
        if (pal_str_equal(tools[i].name, name))
            return &tools[i];
    }
    return NULL;
}

/* For model services, a custom tool is a function too. */
static pal_status choose_one(pal_response_request *request, pal_json value, pal_error *err)
{
    pal_call *call = request->call;
    pal_json name = pal_json_find(value, "name");
    pal_buf buf;
    if (pal_json_type_of(name) != PAL_JSON_STRING)
        return wrong_choice(call, value, err);
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    pal_buf_append_text(&buf, "{\"type\":\"function\",\"function\":{\"name\":");
    pal_buf_append_str(&buf, pal_json_raw(name));
    pal_buf_append_text(&buf, "}}");
    pal_status status = pal_member_keep(&buf, call->arena, &request->turn.tool_choice, err);
    pal_buf_done(&buf);
    return status;
}

static pal_status allow(pal_response_request *request, pal_json value, pal_error *err)
{
    pal_call *call = request->call;
    pal_turn_request *turn = &request->turn;
    pal_json mode = pal_json_find(value, "mode"), list = pal_json_find(value, "tools"), entry;
    pal_tool *allowed = pal_arena_array(call->arena, pal_json_count(list) + 1, sizeof *allowed);
    size_t len = 0;
    bool is_required = pal_json_string_is(mode, "required");
    if (pal_json_type_of(list) != PAL_JSON_ARRAY ||
            (!is_required && !pal_json_string_is(mode, "auto")))
        return wrong_choice(call, value, err);
    for (pal_json_iter iter = pal_json_each(list); allowed && pal_json_next(&iter, NULL, &entry);) {
        pal_str name = pal_member_string(entry, "name", call->arena);
        const pal_tool *tool = find_tool(turn->tools, turn->tools_len, name);
        if (!tool) {
            call->fail_param = "tool_choice";
            return pal_error_set(err, PAL_INVALID,
                    "'tool_choice' names '%.*s', which is not in 'tools'", PAL_EXCERPT(name, 80));
        }
        if (!find_tool(allowed, len, name))
            allowed[len++] = *tool;
    }
    turn->tools = allowed;
    turn->tools_len = len;
    turn->tool_choice = pal_str_of(is_required ? "\"required\"" : "\"auto\"");
    return pal_arena_checked(call->arena, err);
}

static pal_status read_choice(pal_response_request *request, pal_json value, pal_error *err)
{
    pal_json type = pal_json_find(value, "type");
    if (pal_json_string_is(type, "function") || pal_json_string_is(type, "custom"))
        return choose_one(request, value, err);
    if (pal_json_string_is(type, "allowed_tools"))
        return allow(request, value, err);
    if (pal_json_type_of(value) == PAL_JSON_OBJECT && is_left_out(value))
        return PAL_OK; /* the tool that it names is left out */
    if (!pal_json_string_is(value, "auto") && !pal_json_string_is(value, "none") &&
            !pal_json_string_is(value, "required"))
        return wrong_choice(request->call, value, err);
    request->turn.tool_choice = pal_json_raw(value);
    return PAL_OK;
}

pal_status pal_response_read_tools(pal_response_request *request, pal_error *err)
{
    pal_json body = request->call->body;
    pal_json tools = pal_json_find(body, "tools"), choice = pal_json_find(body, "tool_choice");
    pal_status status = PAL_OK;
    if (pal_json_type_of(tools) > PAL_JSON_NULL)
        status = read_tools(request, tools, err);
    if (status == PAL_OK && pal_json_type_of(choice) > PAL_JSON_NULL)
        status = read_choice(request, choice, err);
    return status;
}
