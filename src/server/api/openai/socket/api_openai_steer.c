/* api_openai_steer.c - reads steers, and writes the requests and events that follow from them. */
#include "server/api/openai/socket/api_openai_steer.h"

#include <stdio.h>
#include <string.h>
#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/text.h"
#include "dialect/dialect_member.h"
#include "dialect/openai/openai_items.h"
#include "palaver/id.h"

static bool is_any_of(pal_json text, const char *const *names)
{
    for (; *names; names++) {
        if (pal_json_string_is(text, *names))
            return true;
    }
    return false;
}

/* ---- Checks ---- */

/* Returns a name that is not in the list, or PAL_JSON_NONE. */
static pal_json find_other(pal_json object, const char *const *names)
{
    pal_json name, value;
    for (pal_json_iter iter = pal_json_each(object); pal_json_next(&iter, &name, &value);) {
        if (!is_any_of(name, names))
            return name;
    }
    return (pal_json){0};
}

static pal_status check_names(
        pal_json object, const char *const *names, const char *where, pal_error *err)
{
    pal_str other = pal_json_raw(find_other(object, names));
    if (!other.len)
        return PAL_OK;
    return pal_error_set(err, PAL_INVALID, "%s must not contain %.*s", where,
            PAL_EXCERPT(other, 80));
}

static pal_status check_parts(pal_json content, pal_error *err)
{
    static const char *const types[] = {"input_text", "input_image", "input_file", NULL};
    pal_json part;
    for (pal_json_iter iter = pal_json_each(content); pal_json_next(&iter, NULL, &part);) {
        if (!is_any_of(pal_json_find(part, "type"), types))
            return pal_error_set(err, PAL_INVALID,
                    "a message must contain only input_text, input_image and input_file");
    }
    return PAL_OK;
}

static pal_status check_item(pal_json item, pal_error *err)
{
    static const char *const names[] = {"type", "role", "content", "id", "status", NULL};
    pal_json type = pal_json_find(item, "type");
    if ((!pal_json_is_absent(type) && !pal_json_string_is(type, "message")) ||
            !pal_json_string_is(pal_json_find(item, "role"), "user"))
        return pal_error_set(err, PAL_INVALID, "'input' must contain only messages of the user");
    pal_status status = check_names(item, names, "a message", err);
    return status == PAL_OK ? check_parts(pal_json_find(item, "content"), err) : status;
}

pal_status pal_openai_steer_check(pal_json message, pal_arena *arena, pal_error *err)
{
    static const char *const names[] = {"type", "previous_response_id", "input", NULL};
    pal_json previous = pal_json_find(message, "previous_response_id");
    pal_json input = pal_json_find(message, "input"), item;
    pal_message *messages;
    size_t len;
    pal_status status = check_names(message, names, "'response.steer'", err);
    if (status == PAL_OK && !pal_json_string(previous, arena).len)
        status = pal_error_set(err, PAL_INVALID, "'previous_response_id' must be a string");
    for (pal_json_iter iter = pal_json_each(input);
            status == PAL_OK && pal_json_next(&iter, NULL, &item);)
        status = check_item(item, err);
    if (status == PAL_OK)
        status = pal_openai_items_read(input, "input", NULL, NULL, arena, &messages, &len, err);
    if (status == PAL_OK && len == 0)
        status = pal_error_set(err, PAL_INVALID, "'input' is empty; send at least one message");
    return status;
}

/* ---- Lists ---- */

pal_openai_steer *pal_openai_steer_add(pal_openai_steers *steers, pal_str previous, pal_str input)
{
    pal_openai_steer *steer = pal_malloc(sizeof *steer + input.len);
    char id[PAL_ID_TEXT_SIZE];
    if (!steer)
        return NULL;
    *steer = (pal_openai_steer){.len = input.len};
    pal_id_to_text(pal_id_new(), id);
    snprintf(steer->id, sizeof steer->id, "steer_%s", id);
    snprintf(steer->previous, sizeof steer->previous, "%.*s", PAL_STR_ARG(previous));
    memcpy(steer + 1, input.data, input.len);
    if (steers->last)
        steers->last->next = steer;
    else
        steers->first = steer;
    steers->last = steer;
    steers->len++;
    steers->bytes += input.len;
    return steer;
}

pal_str pal_openai_steer_input(const pal_openai_steer *steer)
{
    return pal_str_make((const char *)(steer + 1), steer->len);
}

void pal_openai_steers_move(pal_openai_steers *from, pal_openai_steers *to)
{
    if (!from->first)
        return;
    if (to->last)
        to->last->next = from->first;
    else
        to->first = from->first;
    to->last = from->last;
    to->len += from->len;
    to->bytes += from->bytes;
    *from = (pal_openai_steers){0};
}

void pal_openai_steers_free(pal_openai_steers *steers)
{
    while (steers->first) {
        pal_openai_steer *next = steers->first->next;
        pal_free(steers->first);
        steers->first = next;
    }
    *steers = (pal_openai_steers){0};
}

/* ---- Requests ---- */

/* Members of a request that belong to it alone, and not to its successor. */
static const char *const own_names[] = {
        "type", "stream_id", "input", "previous_response_id", "generate", NULL};

/* Writes the members of an object, except those in the list. */
static void put_others(
        pal_json_writer *writer, pal_json object, const char *const *names, pal_arena *arena)
{
    pal_json name, value;
    for (pal_json_iter iter = pal_json_each(object); pal_json_next(&iter, &name, &value);) {
        if (is_any_of(name, names))
            continue;
        pal_json_name_str(writer, pal_json_string(name, arena));
        pal_json_put_raw(writer, pal_json_raw(value));
    }
}

void pal_openai_steer_settings(pal_json request, pal_arena *arena, pal_buf *out)
{
    if (!pal_json_is_absent(pal_json_find(request, "conversation")) ||
            pal_json_type_of(pal_json_find(request, "background")) == PAL_JSON_TRUE ||
            pal_json_type_of(pal_json_find(request, "generate")) == PAL_JSON_FALSE ||
            pal_json_count(pal_json_find(request, "context_management")) > 0)
        return;
    pal_json_writer writer = pal_json_writer_make(out);
    pal_json_begin_object(&writer);
    put_others(&writer, request, own_names, arena);
    pal_json_end_object(&writer);
}

/* Writes a text as a message of the user, and the elements of an array. */
static void put_input(pal_json_writer *writer, pal_str input)
{
    if (input.len && input.data[0] == '[') {
        pal_str inner = pal_text_trim(pal_str_make(input.data + 1, input.len - 2));
        if (inner.len)
            pal_json_put_raw(writer, inner);
        return;
    }
    pal_json_begin_object(writer);
    pal_put_text(writer, "role", "user");
    pal_put_raw(writer, "content", input);
    pal_json_end_object(writer);
}

static void put_steers(pal_json_writer *writer, const pal_openai_steers *steers)
{
    for (const pal_openai_steer *each = steers->first; each; each = each->next)
        put_input(writer, pal_openai_steer_input(each));
}

void pal_openai_steer_successor(
        pal_str settings, pal_str previous, const pal_openai_steers *steers, pal_buf *out)
{
    pal_json_writer writer = pal_json_writer_make(out);
    pal_json_begin_object(&writer);
    pal_put_str(&writer, "previous_response_id", previous);
    pal_json_name(&writer, "input");
    pal_json_begin_array(&writer);
    put_steers(&writer, steers);
    pal_json_end_array(&writer);
    pal_json_put_members(&writer, settings);
    pal_json_end_object(&writer);
}

/* The calls that a client answers, and the items that answer them. */
typedef struct call_kind {
    const char *call, *output;
    bool has_name;    /* the stub repeats the tool's name */
    bool is_approval; /* the stub names the request instead of a call */
} call_kind;

static const call_kind call_kinds[] = {
        {"function_call", "function_call_output", .has_name = true},
        {"custom_tool_call", "custom_tool_call_output", .has_name = false},
        {"computer_call", "computer_call_output", .has_name = false},
        {"shell_call", "shell_call_output", .has_name = false},
        {"apply_patch_call", "apply_patch_call_output", .has_name = false},
        {"mcp_approval_request", "mcp_approval_response", .is_approval = true},
};
#define CALL_KINDS (sizeof call_kinds / sizeof *call_kinds)

static bool is_output(pal_json item)
{
    for (size_t i = 0; i < CALL_KINDS; i++) {
        if (pal_json_string_is(pal_json_find(item, "type"), call_kinds[i].output))
            return true;
    }
    return false;
}

static void put_items(pal_json_writer *writer, pal_json input, bool outputs)
{
    pal_json item;
    if (pal_json_type_of(input) == PAL_JSON_STRING && !outputs)
        put_input(writer, pal_json_raw(input));
    for (pal_json_iter iter = pal_json_each(input); pal_json_next(&iter, NULL, &item);) {
        if (is_output(item) == outputs)
            pal_json_put_raw(writer, pal_json_raw(item));
    }
}

void pal_openai_steer_merge(
        pal_json request, const pal_openai_steers *steers, pal_arena *arena, pal_buf *out)
{
    static const char *const input_name[] = {"input", NULL};
    pal_json input = pal_json_find(request, "input");
    pal_json_writer writer = pal_json_writer_make(out);
    pal_json_begin_object(&writer);
    pal_json_name(&writer, "input");
    pal_json_begin_array(&writer);
    put_items(&writer, input, true);
    put_steers(&writer, steers);
    put_items(&writer, input, false);
    pal_json_end_array(&writer);
    put_others(&writer, request, input_name, arena);
    pal_json_end_object(&writer);
}

/* ---- Calls that wait for the client ---- */

/* Whether the output also contains the result of the call, because the server ran the tool. */
static bool has_result(pal_json output, pal_str call_id, pal_arena *arena)
{
    pal_json item;
    for (pal_json_iter iter = pal_json_each(output); pal_json_next(&iter, NULL, &item);) {
        if (is_output(item) &&
                pal_str_equal(pal_json_string(pal_json_find(item, "call_id"), arena), call_id))
            return true;
    }
    return false;
}

static bool put_stub(pal_json_writer *writer, pal_json output, pal_json item, pal_arena *arena)
{
    const call_kind *kind = NULL;
    for (size_t i = 0; i < CALL_KINDS && !kind; i++) {
        if (pal_json_string_is(pal_json_find(item, "type"), call_kinds[i].call))
            kind = &call_kinds[i];
    }
    if (!kind)
        return false;
    pal_str id = pal_json_string(pal_json_find(item, kind->is_approval ? "id" : "call_id"), arena);
    if (!kind->is_approval && has_result(output, id, arena))
        return false;
    pal_json_begin_object(writer);
    pal_put_text(writer, "type", kind->output);
    pal_put_str(writer, kind->is_approval ? "approval_request_id" : "call_id", id);
    if (kind->has_name)
        pal_put_str(writer, "name", pal_json_string(pal_json_find(item, "name"), arena));
    pal_json_end_object(writer);
    return true;
}

size_t pal_openai_steer_required(pal_json response, pal_arena *arena, pal_buf *out)
{
    pal_json output = pal_json_find(response, "output"), item;
    pal_json_writer writer = pal_json_writer_make(out);
    size_t len = 0;
    pal_json_begin_array(&writer);
    for (pal_json_iter iter = pal_json_each(output); pal_json_next(&iter, NULL, &item);)
        len += put_stub(&writer, output, item, arena);
    pal_json_end_array(&writer);
    return len;
}

/* ---- Events ---- */

static void begin_event(
        pal_json_writer *writer, const char *type, uint64_t number, pal_str id, pal_str previous)
{
    pal_json_begin_object(writer);
    pal_put_text(writer, "type", type);
    pal_put_count(writer, "sequence_number", number);
    pal_json_name(writer, "steer");
    pal_json_begin_object(writer);
    if (id.len)
        pal_put_str(writer, "id", id);
    pal_put_str(writer, "previous_response_id", previous);
}

void pal_openai_steer_accepted(const pal_openai_steer *steer, uint64_t number, pal_buf *out)
{
    pal_json_writer writer = pal_json_writer_make(out);
    begin_event(&writer, "response.steer.accepted", number, pal_str_of(steer->id),
            pal_str_of(steer->previous));
    pal_json_end_object(&writer);
    pal_json_end_object(&writer);
}

void pal_openai_steer_pending(
        const pal_openai_steer *steer, uint64_t number, pal_str required, pal_buf *out)
{
    pal_json_writer writer = pal_json_writer_make(out);
    begin_event(&writer, "response.steer.pending", number, pal_str_of(steer->id),
            pal_str_of(steer->previous));
    pal_json_end_object(&writer);
    pal_put_text(&writer, "reason", "waiting_for_required_input");
    pal_put_raw(&writer, "required_input", required);
    pal_json_end_object(&writer);
}

void pal_openai_steer_failed(
        const pal_openai_steer_failure *failure, uint64_t number, pal_buf *out)
{
    pal_json_writer writer = pal_json_writer_make(out);
    begin_event(&writer, "response.steer.failed", number, failure->id, failure->previous);
    if (failure->input.len)
        pal_put_raw(&writer, "input", failure->input);
    pal_json_end_object(&writer);
    pal_json_name(&writer, "error");
    pal_json_begin_object(&writer);
    pal_put_text(&writer, "type", "invalid_request_error");
    pal_put_text(&writer, "code", failure->code);
    pal_put_str(&writer, "message", failure->message);
    pal_json_end_object(&writer);
    pal_json_end_object(&writer);
}
