/* tool_question.c - reads the questions of tool servers, and writes the replies to them. Pure. */
#include "tool/tool_question.h"

#include "base/json/json_put.h"
#include "base/memory.h"
#include "tool/tool_schema.h"

/* ---- Questions ---- */

static bool is_form_schema(pal_json schema)
{
    return pal_json_type_of(schema) == PAL_JSON_OBJECT &&
            pal_json_string_is(pal_json_find(schema, "type"), "object") &&
            pal_json_type_of(pal_json_find(schema, "properties")) == PAL_JSON_OBJECT;
}

pal_status pal_tool_question_read(
        pal_json params, pal_arena *arena, pal_tool_question *out_question, pal_error *err)
{
    pal_json mode = pal_json_find(params, "mode");
    pal_json schema = pal_json_find(params, "requestedSchema");
    bool is_url = pal_json_string_is(mode, "url");
    if (pal_json_raw(params).len > PAL_QUESTION_BYTES_MAX)
        return pal_error_set(err, PAL_LIMIT, "the question has %zu bytes; the limit is %u",
                pal_json_raw(params).len, PAL_QUESTION_BYTES_MAX);
    if (!is_url && pal_json_type_of(mode) != PAL_JSON_NONE && !pal_json_string_is(mode, "form"))
        return pal_error_set(err, PAL_INVALID, "the mode of the question is unknown");
    if (!is_url && !is_form_schema(schema))
        return pal_error_set(
                err, PAL_INVALID, "the schema of the question is not an object with properties");
    pal_tool_question question = {
            .message = pal_arena_copy(
                    arena, pal_json_string(pal_json_find(params, "message"), arena)),
            .url = is_url ? pal_arena_copy(
                                    arena, pal_json_string(pal_json_find(params, "url"), arena))
                          : (pal_str){0},
            .schema = is_url ? (pal_str){0} : pal_arena_copy(arena, pal_json_raw(schema)),
    };
    if (is_url && question.url.len == 0)
        return pal_error_set(err, PAL_INVALID, "the question has no URL");
    if (pal_arena_failure(arena))
        return pal_no_memory(err);
    *out_question = question;
    return PAL_OK;
}

/* ---- Replies ---- */

/* Writes the members of `content`, and the defaults of members that it lacks. */
static void put_content(pal_json_writer *json, pal_json schema, pal_json content, pal_arena *arena)
{
    pal_json_iter each = pal_json_each(pal_json_find(schema, "properties"));
    pal_json name, rule;
    pal_json_begin_object(json);
    pal_json_put_members(json, pal_json_raw(content));
    while (pal_json_next(&each, &name, &rule)) {
        pal_json value = pal_json_find(rule, "default");
        pal_str text = pal_arena_copy(arena, pal_json_string(name, arena));
        if (!text.data || pal_json_type_of(value) == PAL_JSON_NONE ||
                pal_json_type_of(pal_json_find(content, text.data)) != PAL_JSON_NONE)
            continue;
        pal_json_name_str(json, text);
        pal_json_put_raw(json, pal_json_raw(value));
    }
    pal_json_end_object(json);
}

static pal_status complete(const pal_tool_question *question, pal_str content, pal_arena *arena,
        pal_str *out_content, pal_error *err)
{
    pal_json schema, given;
    pal_buf whole;
    pal_status status = pal_json_parse(arena, question->schema, NULL, &schema, err);
    if (status == PAL_OK)
        status = pal_json_parse(
                arena, content.len ? content : pal_str_of("{}"), NULL, &given, err);
    if (status != PAL_OK)
        return status;
    if (pal_json_type_of(given) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID, "'content' must be an object");
    pal_buf_init(&whole, content.len + question->schema.len + 16);
    pal_json_writer json = pal_json_writer_make(&whole);
    put_content(&json, schema, given, arena);
    *out_content = whole.failure ? (pal_str){0} : pal_arena_copy(arena, pal_buf_str(&whole));
    pal_buf_done(&whole);
    return out_content->len ? PAL_OK : pal_no_memory(err);
}

pal_status pal_tool_question_reply(const pal_tool_question *question, pal_str action,
        pal_str content, pal_arena *arena, pal_str *out_reply, pal_error *err)
{
    pal_str whole = {0};
    pal_buf reply;
    bool is_accept = pal_str_is(action, "accept");
    if (!is_accept && !pal_str_is(action, "decline") && !pal_str_is(action, "cancel"))
        return pal_error_set(
                err, PAL_INVALID, "the action must be 'accept', 'decline' or 'cancel'");
    if (content.len > PAL_REPLY_BYTES_MAX)
        return pal_error_set(err, PAL_LIMIT, "the content has %zu bytes; the limit is %u",
                content.len, PAL_REPLY_BYTES_MAX);
    if (is_accept && question->url.len == 0) {
        pal_status status = complete(question, content, arena, &whole, err);
        if (status == PAL_OK)
            status = pal_tool_check(question->schema, whole, arena, err);
        if (status != PAL_OK)
            return status;
    }
    pal_buf_init(&reply, whole.len + 64);
    pal_json_writer json = pal_json_writer_make(&reply);
    pal_json_begin_object(&json);
    pal_put_str(&json, "action", action);
    if (whole.len)
        pal_put_raw(&json, "content", whole);
    pal_json_end_object(&json);
    *out_reply = reply.failure ? (pal_str){0} : pal_arena_copy(arena, pal_buf_str(&reply));
    pal_buf_done(&reply);
    return out_reply->len ? PAL_OK : pal_no_memory(err);
}
