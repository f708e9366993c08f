/* provider_request.c - parts of requests that several services share. Pure functions. */
#include "base/json/json_put.h"
#include "base/memory.h"
#include "dialect/dialect_member.h"
#include "provider/provider_kind.h"

static pal_status parse_parameters(
        const pal_model_request *request, pal_arena *arena, pal_json *out_value, pal_error *err)
{
    pal_error inner = {0};
    pal_status status = pal_json_parse(arena, request->parameters, NULL, out_value, &inner);
    if (status != PAL_OK)
        return pal_error_set(err, status, "'parameters' is not JSON: %s", inner.message);
    if (pal_json_type_of(*out_value) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID, "'parameters' must be a JSON object");
    return PAL_OK;
}

pal_status pal_request_put_parameters(pal_json_writer *writer, const pal_model_request *request,
        const char *const *own, pal_error *err)
{
    if (request->parameters.len == 0)
        return PAL_OK;
    pal_arena *arena = pal_arena_new(0);
    pal_json object = {0}, name, value;
    if (!arena)
        return pal_no_memory(err);
    pal_status status = parse_parameters(request, arena, &object, err);
    for (pal_json_iter iter = pal_json_each(object);
            status == PAL_OK && pal_json_next(&iter, &name, &value);) {
        if (pal_member_is_one_of(name, own))
            continue;
        pal_json_name_str(writer, pal_json_string(name, arena));
        pal_json_put_raw(writer, pal_json_raw(value));
    }
    if (status == PAL_OK)
        status = pal_arena_checked(arena, err);
    pal_arena_free(arena);
    return status;
}

pal_json pal_request_parameter(const pal_model_request *request, const char *name, pal_arena *arena)
{
    pal_json object;
    if (request->parameters.len == 0 || parse_parameters(request, arena, &object, NULL) != PAL_OK)
        return (pal_json){0};
    return pal_json_find(object, name);
}

pal_status pal_request_check_json(pal_str json, const char *what, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    pal_json value;
    pal_error inner = {0};
    if (!arena)
        return pal_no_memory(err);
    pal_status status = pal_json_parse(arena, json, NULL, &value, &inner);
    pal_arena_free(arena);
    if (status != PAL_OK)
        return pal_error_set(err, status, "%s is not JSON: %s", what, inner.message);
    return PAL_OK;
}

pal_status pal_request_write(
        const pal_model_request *request, pal_request_put put, pal_buf *out_body, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return pal_no_memory(err);
    pal_json_writer writer = pal_json_writer_make(out_body);
    pal_json_begin_object(&writer);
    pal_status status = put(&writer, request, arena, err);
    if (status == PAL_OK)
        status = pal_arena_checked(arena, err);
    if (status == PAL_OK)
        pal_json_end_object(&writer);
    pal_arena_free(arena);
    return status;
}

/* ---- Tools ---- */

pal_status pal_request_put_function(pal_json_writer *writer, const pal_model_request *request,
        const pal_tool *tool, const char *schema, pal_error *err)
{
    pal_put_str(writer, "name", tool->name);
    if (tool->description.len)
        pal_put_str(writer, "description", tool->description);
    if (tool->schema.len == 0) {
        pal_put_raw(writer, schema, pal_str_of("{\"type\":\"object\",\"properties\":{}}"));
        return PAL_OK;
    }
    if (!request->tools_checked) {
        pal_status status = pal_request_check_json(tool->schema, "a tool's schema", err);
        if (status != PAL_OK)
            return status;
    }
    pal_put_raw(writer, schema, tool->schema);
    return PAL_OK;
}

pal_status pal_request_put_tool_list(pal_json_writer *writer, const pal_model_request *request,
        pal_request_put_tool put, pal_error *err)
{
    pal_json_name(writer, "tools");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < request->tools_len; i++) {
        pal_status status = put(writer, request, &request->tools[i], err);
        if (status != PAL_OK)
            return pal_member_within(err, status, "tools", i);
    }
    pal_json_end_array(writer);
    return PAL_OK;
}

static pal_status put_tool(pal_json_writer *writer, const pal_model_request *request,
        const pal_tool *tool, pal_error *err)
{
    pal_json_begin_object(writer);
    pal_put_text(writer, "type", "function");
    pal_json_name(writer, "function");
    pal_json_begin_object(writer);
    pal_status status = pal_request_put_function(writer, request, tool, "parameters", err);
    if (status != PAL_OK)
        return status;
    if (tool->is_strict)
        pal_put_flag(writer, "strict", true);
    pal_json_end_object(writer);
    pal_json_end_object(writer);
    return PAL_OK;
}

pal_status pal_request_put_tools(
        pal_json_writer *writer, const pal_model_request *request, pal_error *err)
{
    if (request->tools_len == 0)
        return PAL_OK;
    pal_status status = pal_request_put_tool_list(writer, request, put_tool, err);
    if (status != PAL_OK || request->tool_choice.len == 0)
        return status;
    status = pal_request_check_json(request->tool_choice, "'tool_choice'", err);
    if (status == PAL_OK)
        pal_put_raw(writer, "tool_choice", request->tool_choice);
    return status;
}
