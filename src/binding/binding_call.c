/* binding_call.c - what the functions of a binding share. */
#include "binding/binding_call.h"

#include "base/json/json_put.h"
#include "base/memory.h"
#include "dialect/dialect_member.h"
#include "palaver/dialect.h"

void pal_binding_begin(pal_binding_call *call, pal_binding *binding)
{
    *call = (pal_binding_call){.binding = binding, .arena = pal_arena_new(0)};
    pal_buf_init(&call->buf, PAL_BINDING_RESULT_BYTES_MAX);
    call->writer = pal_json_writer_make(&call->buf);
}

static void put_error(pal_binding_call *call, pal_status status)
{
    pal_buf_clear(&call->buf);
    call->writer = pal_json_writer_make(&call->buf);
    pal_json_begin_object(&call->writer);
    pal_put_text(&call->writer, "error", call->err.message);
    pal_put_text(&call->writer, "code", pal_status_name(status));
    pal_json_end_object(&call->writer);
}

int pal_binding_end(pal_binding_call *call, pal_status status, char **out_json)
{
    if (status == PAL_OK && call->buf.failure != PAL_OK)
        status = call->buf.failure == PAL_LIMIT
                ? pal_error_set(&call->err, PAL_LIMIT, "the result is larger than %u MiB",
                          PAL_BINDING_RESULT_BYTES_MAX >> 20)
                : pal_no_memory(&call->err);
    if (status != PAL_OK)
        put_error(call, status);
    char *result = NULL;
    if (call->buf.len > 0) {
        pal_buf_append_char(&call->buf, '\0');
        if (call->buf.failure == PAL_OK && out_json)
            result = call->buf.data;
    }
    if (out_json)
        *out_json = result;
    if (!result)
        pal_buf_done(&call->buf);
    pal_arena_free(call->arena);
    return status;
}

pal_status pal_binding_parse(pal_binding_call *call, const char *json, pal_json *out_value)
{
    if (!call->arena)
        return pal_no_memory(&call->err);
    pal_status status = pal_member_parse(
            pal_str_of(json ? json : "{}"), NULL, call->arena, out_value, &call->err);
    if (status == PAL_OK && pal_json_type_of(*out_value) != PAL_JSON_OBJECT)
        return pal_error_set(&call->err, PAL_INVALID, "a request is of type %s; expected an object",
                pal_json_type_name(pal_json_type_of(*out_value)));
    return status;
}

pal_status pal_binding_session(pal_binding_call *call, const char *name, pal_session *out_session)
{
    if (!call->arena)
        return pal_no_memory(&call->err);
    pal_status status = pal_store_find(call->binding->store, call->binding->tenant,
            PAL_SESSION_BY_ANY, pal_str_of(name), call->arena, out_session, &call->err);
    if (status == PAL_NOT_FOUND)
        return pal_error_set(
                &call->err, PAL_NOT_FOUND, "session '%.120s' does not exist", name ? name : "");
    return status;
}

pal_status pal_binding_messages(
        pal_binding_call *call, const char *json, pal_message **out_messages, size_t *out_len)
{
    if (!call->arena)
        return pal_no_memory(&call->err);
    pal_status status = pal_dialect_read(PAL_DIALECT_NATIVE, pal_str_of(json ? json : "{}"),
            call->arena, out_messages, out_len, &call->err);
    if (status == PAL_OK && *out_len == 0)
        return pal_error_set(&call->err, PAL_INVALID, "'messages' is empty");
    return status;
}
