/* mcp_field.c - arguments of tools. One table defines both the schema that a client reads
 * and the checks in this file, so that they cannot differ. The caller is usually a model that
 * retries, so the errors say what to send instead. All functions are pure and can be called from
 * any thread. */
#include <inttypes.h>
#include <stdio.h>
#include "base/clock.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "base/text.h"
#include "mcp/mcp_internal.h"

/* ---- The schema ---- */

static void put_field(const pal_mcp_field *field, pal_json_writer *writer)
{
    bool is_number = field->kind == PAL_MCP_NUMBER;
    pal_json_name(writer, field->name);
    pal_json_begin_object(writer);
    pal_put_text(writer, "type", is_number ? "integer" : "string");
    pal_put_text(writer, "description", field->about);
    if (is_number) {
        pal_put_count(writer, "minimum", field->min);
        pal_put_count(writer, "maximum", field->max);
    }
    if (is_number && field->fallback)
        pal_put_count(writer, "default", field->fallback);
    if (field->kind == PAL_MCP_TIME)
        pal_put_text(writer, "format", "date-time");
    if (field->kind == PAL_MCP_TEXT && field->min)
        pal_put_count(writer, "minLength", field->min);
    if (field->choices) {
        pal_json_name(writer, "enum");
        pal_json_begin_array(writer);
        for (size_t i = 0; field->choices[i]; i++)
            pal_json_put_text(writer, field->choices[i]);
        pal_json_end_array(writer);
    }
    pal_json_end_object(writer);
}

void pal_mcp_fields_put(const pal_mcp_field *fields, pal_json_writer *writer)
{
    pal_json_begin_object(writer);
    pal_put_text(writer, "type", "object");
    pal_json_name(writer, "properties");
    pal_json_begin_object(writer);
    for (const pal_mcp_field *field = fields; field->name; field++)
        put_field(field, writer);
    pal_json_end_object(writer);
    pal_json_name(writer, "required");
    pal_json_begin_array(writer);
    for (const pal_mcp_field *field = fields; field->name; field++) {
        if (field->is_required)
            pal_json_put_text(writer, field->name);
    }
    pal_json_end_array(writer);
    pal_put_flag(writer, "additionalProperties", false);
    pal_json_end_object(writer);
}

/* ---- Checks ---- */

static pal_status wrong(
        const pal_mcp_field *field, pal_json value, const char *wants, pal_error *err)
{
    pal_str is = pal_json_raw(value);
    return pal_error_set(err, PAL_INVALID, "'%s' must be %s, not %.*s", field->name, wants,
            PAL_EXCERPT(is, 60));
}

static pal_status check_choice(const pal_mcp_field *field, pal_json value, pal_error *err)
{
    char wants[PAL_ERROR_MESSAGE_MAX] = "one of";
    for (size_t i = 0; field->choices[i]; i++) {
        size_t len = strlen(wants);
        if (pal_json_string_is(value, field->choices[i]))
            return PAL_OK;
        snprintf(wants + len, sizeof wants - len, "%s %s", i ? "," : "", field->choices[i]);
    }
    return wrong(field, value, wants, err);
}

static pal_status check_text(
        const pal_mcp_field *field, pal_json value, pal_arena *arena, pal_error *err)
{
    int64_t ms;
    if (pal_json_type_of(value) != PAL_JSON_STRING)
        return wrong(field, value, "a string", err);
    if (field->choices)
        return check_choice(field, value, err);
    pal_str text = pal_json_string(value, arena);
    if (pal_arena_failure(arena) != PAL_OK)
        return pal_no_memory(err);
    if (field->kind == PAL_MCP_TIME)
        return pal_time_from_text(text, &ms)
                ? PAL_OK
                : wrong(field, value, "a time such as 2026-11-15T20:47:48Z", err);
    if (text.len < field->min)
        return pal_error_set(err, PAL_INVALID, "'%s' must not be empty", field->name);
    if (text.len > field->max)
        return pal_error_set(err, PAL_LIMIT, "'%s' of %zu bytes exceeds the limit of %" PRIu64,
                field->name, text.len, field->max);
    return PAL_OK;
}

static pal_status check_number(const pal_mcp_field *field, pal_json value, pal_error *err)
{
    char wants[80];
    uint64_t number;
    if (pal_json_u64(value, &number) && number >= field->min && number <= field->max)
        return PAL_OK;
    snprintf(wants, sizeof wants, "a whole number from %" PRIu64 " to %" PRIu64, field->min,
            field->max);
    return wrong(field, value, wants, err);
}

static const pal_mcp_field *find_field(const pal_mcp_field *fields, pal_json name)
{
    for (; fields->name; fields++) {
        if (pal_json_string_is(name, fields->name))
            return fields;
    }
    return NULL;
}

static pal_status unknown(
        const pal_mcp_field *fields, pal_json name, pal_arena *arena, pal_error *err)
{
    pal_str text = pal_json_string(name, arena);
    pal_nearest nearest = pal_nearest_make(text);
    const char *meant = NULL;
    for (; fields->name; fields++) {
        if (pal_nearest_try(&nearest, pal_str_of(fields->name)))
            meant = fields->name;
    }
    return pal_error_set(err, PAL_INVALID, "unknown argument '%.*s'%s%s%s", PAL_EXCERPT(text, 60),
            meant ? "; did you mean '" : "", meant ? meant : "", meant ? "'?" : "");
}

static pal_status check_names(
        const pal_mcp_field *fields, pal_json arguments, pal_arena *arena, pal_error *err)
{
    pal_json name, value;
    pal_json_iter iter = pal_json_each(arguments);
    while (pal_json_next(&iter, &name, &value)) {
        if (!find_field(fields, name))
            return unknown(fields, name, arena, err);
    }
    return PAL_OK;
}

pal_status pal_mcp_fields_check(
        const pal_mcp_field *fields, pal_json arguments, pal_arena *arena, pal_error *err)
{
    pal_status status = check_names(fields, arguments, arena, err);
    for (const pal_mcp_field *field = fields; status == PAL_OK && field->name; field++) {
        pal_json value = pal_json_find(arguments, field->name);
        if (pal_json_is_absent(value) && field->is_required)
            status = pal_error_set(
                    err, PAL_INVALID, "'%s' is missing: %s", field->name, field->about);
        else if (pal_json_is_absent(value))
            continue;
        else if (field->kind == PAL_MCP_NUMBER)
            status = check_number(field, value, err);
        else
            status = check_text(field, value, arena, err);
    }
    return status;
}

/* ---- Values ---- */

pal_str pal_mcp_call_text(const pal_mcp_call *call, const char *name)
{
    return pal_json_string(pal_json_find(call->arguments, name), call->arena);
}

uint64_t pal_mcp_call_number(const pal_mcp_call *call, const char *name)
{
    uint64_t number = 0;
    if (pal_json_u64(pal_json_find(call->arguments, name), &number))
        return number;
    for (const pal_mcp_field *field = call->tool->fields; field->name; field++) {
        if (strcmp(field->name, name) == 0)
            number = field->fallback;
    }
    return number;
}

int64_t pal_mcp_call_time(const pal_mcp_call *call, const char *name)
{
    int64_t ms = 0;
    (void)pal_time_from_text(pal_mcp_call_text(call, name), &ms);
    return ms;
}
