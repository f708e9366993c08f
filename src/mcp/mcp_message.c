/* mcp_message.c - JSON-RPC as MCP uses it: parses one message, and writes the envelopes of
 * responses. All functions are pure and can be called from any thread. */
#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "mcp/mcp_internal.h"

#define META "io.modelcontextprotocol/"

/* ---- Parsing ---- */

static bool read_id(pal_json id, pal_str *out_id)
{
    pal_json_type type = pal_json_type_of(id);
    if (type == PAL_JSON_STRING || type == PAL_JSON_NUMBER)
        *out_id = pal_json_raw(id);
    return out_id->len > 0 || type == PAL_JSON_NONE;
}

static int read_params(pal_json message, pal_rpc_message *out, pal_arena *arena, pal_error *err)
{
    pal_json params = pal_json_find(message, "params");
    pal_json_type type = pal_json_type_of(params);
    if (type != PAL_JSON_NONE && type != PAL_JSON_OBJECT) {
        pal_error_set(err, PAL_INVALID, "'params' must be an object");
        return PAL_RPC_INVALID_PARAMS;
    }
    out->params = params;
    out->meta = pal_json_find(params, "_meta");
    pal_json version = pal_json_find(out->meta, META "protocolVersion");
    out->is_new = pal_json_type_of(version) != PAL_JSON_NONE;
    out->version = pal_json_string(version, arena);
    return 0;
}

static int read_object(pal_json message, pal_rpc_message *out, pal_arena *arena, pal_error *err)
{
    pal_json method = pal_json_find(message, "method");
    pal_json_type type = pal_json_type_of(method);
    bool has_id = read_id(pal_json_find(message, "id"), &out->id);
    bool is_answer = type == PAL_JSON_NONE &&
            (pal_json_type_of(pal_json_find(message, "result")) != PAL_JSON_NONE ||
                    pal_json_type_of(pal_json_find(message, "error")) != PAL_JSON_NONE);
    if (is_answer)
        return 0;
    if (!pal_json_string_is(pal_json_find(message, "jsonrpc"), "2.0")) {
        pal_error_set(err, PAL_INVALID, "'jsonrpc' must be \"2.0\"");
        return PAL_RPC_INVALID_REQUEST;
    }
    if (!has_id) {
        pal_error_set(err, PAL_INVALID, "'id' must be a string or a number");
        return PAL_RPC_INVALID_REQUEST;
    }
    if (type != PAL_JSON_STRING || pal_json_string_is(method, "")) {
        pal_error_set(err, PAL_INVALID, "'method' must be the name of a method");
        return PAL_RPC_INVALID_REQUEST;
    }
    out->method = pal_json_string(method, arena);
    return read_params(message, out, arena, err);
}

int pal_mcp_rpc_read(pal_arena *arena, pal_str text, pal_rpc_message *out_message, pal_error *err)
{
    pal_json message;
    pal_error inner = {0};
    *out_message = (pal_rpc_message){0};
    pal_status status = pal_json_parse(arena, text, NULL, &message, &inner);
    if (status == PAL_NO_MEMORY) {
        pal_error_set(err, status, "out of memory");
        return PAL_RPC_INTERNAL_ERROR;
    }
    if (status != PAL_OK) {
        pal_error_set(err, PAL_INVALID, "the message is not valid JSON: %.180s", inner.message);
        return PAL_RPC_PARSE_ERROR;
    }
    if (pal_json_type_of(message) != PAL_JSON_OBJECT) {
        pal_error_set(err, PAL_INVALID, "the message must be an object, not %s",
                pal_json_type_name(pal_json_type_of(message)));
        return PAL_RPC_INVALID_REQUEST;
    }
    int code = read_object(message, out_message, arena, err);
    if (code == 0 && pal_arena_failure(arena) != PAL_OK) {
        pal_no_memory(err);
        return PAL_RPC_INTERNAL_ERROR;
    }
    return code;
}

/* ---- Writing ---- */

static void begin_message(pal_json_writer *writer, pal_str id)
{
    pal_json_begin_object(writer);
    pal_put_text(writer, "jsonrpc", "2.0");
    if (id.len == 0)
        return;
    pal_put_raw(writer, "id", id);
}

void pal_mcp_rpc_put_error(pal_json_writer *writer, pal_str id, int code, const char *message)
{
    begin_message(writer, id);
    pal_json_name(writer, "error");
    pal_json_begin_object(writer);
    pal_put_number(writer, "code", code);
    pal_put_text(writer, "message", message);
    pal_json_end_object(writer);
    pal_json_end_object(writer);
}

void pal_mcp_begin_result(pal_json_writer *writer, pal_str id, bool is_new)
{
    begin_message(writer, id);
    pal_json_name(writer, "result");
    pal_json_begin_object(writer);
    if (!is_new)
        return;
    pal_put_text(writer, "resultType", "complete");
    pal_json_name(writer, "_meta");
    pal_json_begin_object(writer);
    pal_put_raw(writer, META "serverInfo", pal_str_of(PAL_MCP_SERVER_INFO));
    pal_json_end_object(writer);
}

void pal_mcp_end_result(pal_json_writer *writer)
{
    pal_json_end_object(writer);
    pal_json_end_object(writer);
}

static void put_content(pal_json_writer *writer, pal_str text)
{
    pal_json_name(writer, "content");
    pal_json_begin_array(writer);
    pal_json_begin_object(writer);
    pal_put_text(writer, "type", "text");
    pal_put_str(writer, "text", text);
    pal_json_end_object(writer);
    pal_json_end_array(writer);
}

void pal_mcp_put_success(
        pal_json_writer *writer, pal_str id, bool is_new, pal_str object, pal_str text)
{
    pal_mcp_begin_result(writer, id, is_new);
    put_content(writer, text.len ? text : object);
    pal_put_raw(writer, "structuredContent", object);
    pal_put_flag(writer, "isError", false);
    pal_mcp_end_result(writer);
}

void pal_mcp_put_failure(pal_json_writer *writer, pal_str id, bool is_new, pal_str text)
{
    pal_mcp_begin_result(writer, id, is_new);
    put_content(writer, text);
    pal_put_flag(writer, "isError", true);
    pal_mcp_end_result(writer);
}
