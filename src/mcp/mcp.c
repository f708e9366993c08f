/* mcp.c - the methods of MCP, for both eras of the protocol. Tools that use only the store
 * run immediately. The tool that runs a turn starts a job (mcp_job.c). All functions can be
 * called from any thread. */
#include "mcp/mcp_internal.h"

#include <stdio.h>
#include "base/json/json_put.h"
#include "base/log.h"
#include "base/text.h"

#define NEW_VERSION "2026-07-28"
#define META "io.modelcontextprotocol/"
#define DISCOVER_MS 3600000 /* how long a client may cache the description of the server */
#define TOOLS_MS 300000

static const char instructions[] =
        "Palaver stores conversations with language models. Use search_conversations or "
        "list_conversations to find something, read_conversation to read it, and remember to store "
        "notes. continue_conversation sends a message to the model that Palaver uses. The model "
        "sees the conversation so far.";

/* Revisions of the old era, newest first. */
static const char *const old_versions[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};

typedef struct request {
    pal_mcp_host *host;
    const pal_mcp_peer *peer;
    const pal_rpc_message *message;
    const pal_mcp_events *events;
    void *events_user;
    pal_arena *arena;
    pal_json_writer *writer;
    int code;
} request;

bool pal_mcp_knows_revision(pal_str version)
{
    for (size_t i = 0; i < sizeof old_versions / sizeof *old_versions; i++) {
        if (pal_str_is(version, old_versions[i]))
            return true;
    }
    return false;
}

static pal_mcp_outcome refuse(request *t, int code, const char *message)
{
    t->code = code;
    pal_mcp_rpc_put_error(t->writer, t->message->id, code, message);
    return PAL_MCP_ANSWERED;
}

/* ---- Initialization ---- */

static void put_versions(pal_json_writer *writer, const char *name)
{
    pal_json_name(writer, name);
    pal_json_begin_array(writer);
    pal_json_put_text(writer, NEW_VERSION);
    for (size_t i = 0; i < sizeof old_versions / sizeof *old_versions; i++)
        pal_json_put_text(writer, old_versions[i]);
    pal_json_end_array(writer);
}

static void put_capabilities(pal_json_writer *writer)
{
    pal_put_raw(writer, "capabilities", pal_str_of("{\"tools\":{}}"));
    pal_put_text(writer, "instructions", instructions);
}

/* Returns the client's revision if it is known, otherwise the newest one. The client then decides
 * whether to continue. */
static pal_mcp_outcome initialize(request *t)
{
    pal_json asked = pal_json_find(t->message->params, "protocolVersion");
    pal_str version = pal_json_string(asked, t->arena);
    if (pal_json_type_of(asked) != PAL_JSON_STRING)
        return refuse(t, PAL_RPC_INVALID_PARAMS, "'protocolVersion' must be a string");
    pal_mcp_begin_result(t->writer, t->message->id, false);
    pal_put_str(t->writer, "protocolVersion",
            pal_mcp_knows_revision(version) ? version : pal_str_of(old_versions[0]));
    put_capabilities(t->writer);
    pal_put_raw(t->writer, "serverInfo", pal_str_of(PAL_MCP_SERVER_INFO));
    pal_mcp_end_result(t->writer);
    return PAL_MCP_ANSWERED;
}

static pal_mcp_outcome ping(request *t)
{
    pal_mcp_begin_result(t->writer, t->message->id, false);
    pal_mcp_end_result(t->writer);
    return PAL_MCP_ANSWERED;
}

static void put_freshness(pal_json_writer *writer, uint64_t ms, const char *scope)
{
    pal_put_count(writer, "ttlMs", ms);
    pal_put_text(writer, "cacheScope", scope);
}

static pal_mcp_outcome discover(request *t)
{
    pal_mcp_begin_result(t->writer, t->message->id, true);
    put_versions(t->writer, "supportedVersions");
    put_capabilities(t->writer);
    put_freshness(t->writer, DISCOVER_MS, "public");
    pal_mcp_end_result(t->writer);
    return PAL_MCP_ANSWERED;
}

static pal_mcp_outcome wrong_version(request *t)
{
    pal_json_writer *writer = t->writer;
    t->code = PAL_RPC_WRONG_VERSION;
    pal_json_begin_object(writer);
    pal_put_text(writer, "jsonrpc", "2.0");
    pal_put_raw(writer, "id", t->message->id);
    pal_json_name(writer, "error");
    pal_json_begin_object(writer);
    pal_put_number(writer, "code", t->code);
    pal_put_text(writer, "message", "Unsupported protocol version");
    pal_json_name(writer, "data");
    pal_json_begin_object(writer);
    put_versions(writer, "supported");
    pal_put_str(writer, "requested", t->message->version);
    pal_json_end_object(writer);
    pal_json_end_object(writer);
    pal_json_end_object(writer);
    return PAL_MCP_ANSWERED;
}

/* ---- Tools ---- */

static void put_offer(pal_json_writer *writer, const pal_mcp_tool *tool)
{
    pal_json_begin_object(writer);
    pal_put_text(writer, "name", tool->name);
    pal_put_text(writer, "title", tool->title);
    pal_put_text(writer, "description", tool->about);
    pal_json_name(writer, "inputSchema");
    pal_mcp_fields_put(tool->fields, writer);
    pal_put_raw(writer, "outputSchema", pal_str_of(tool->output));
    pal_json_name(writer, "annotations");
    pal_json_begin_object(writer);
    pal_put_text(writer, "title", tool->title);
    pal_put_flag(writer, "readOnlyHint", tool->is_read_only);
    pal_put_flag(writer, "destructiveHint", false);
    pal_put_flag(writer, "idempotentHint", tool->is_read_only);
    pal_put_flag(writer, "openWorldHint", tool->is_open_world);
    pal_json_end_object(writer);
    pal_json_end_object(writer);
}

/* Lists the tools that the peer may use. */
static pal_mcp_outcome list_tools(request *t)
{
    pal_json_type type = pal_json_type_of(pal_json_find(t->message->params, "cursor"));
    if (type != PAL_JSON_NONE && type != PAL_JSON_NULL)
        return refuse(t, PAL_RPC_INVALID_PARAMS,
                "'cursor' is not allowed: the list has only one page; leave it out");
    pal_mcp_begin_result(t->writer, t->message->id, t->message->is_new);
    pal_json_name(t->writer, "tools");
    pal_json_begin_array(t->writer);
    for (const pal_mcp_tool *tool = pal_mcp_tools; tool->name; tool++) {
        if (t->peer->can_write || tool->is_read_only)
            put_offer(t->writer, tool);
    }
    pal_json_end_array(t->writer);
    if (t->message->is_new)
        put_freshness(t->writer, TOOLS_MS, "private");
    pal_mcp_end_result(t->writer);
    return PAL_MCP_ANSWERED;
}

static const pal_mcp_tool *find_offer(pal_json name)
{
    for (const pal_mcp_tool *tool = pal_mcp_tools; tool->name; tool++) {
        if (pal_json_string_is(name, tool->name))
            return tool;
    }
    return NULL;
}

static pal_mcp_outcome fail(request *t, const pal_error *err)
{
    bool is_ours = err->status == PAL_IO || err->status == PAL_FULL ||
            err->status == PAL_CORRUPT || err->status == PAL_NO_MEMORY;
    if (is_ours)
        pal_log(PAL_LOG_ERROR, "mcp: %s", err->message);
    pal_mcp_put_failure(t->writer, t->message->id, t->message->is_new, pal_str_of(err->message));
    return PAL_MCP_ANSWERED;
}

static pal_mcp_outcome run_offer(request *t, pal_mcp_call *call)
{
    pal_error err = {0};
    pal_buf object;
    pal_buf_init(&object, PAL_MCP_HOST_RESULT_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&object);
    call->writer = &writer;
    pal_status status = call->tool->run(call, &err);
    if (status == PAL_OK && object.failure)
        status = pal_error_set(&err, object.failure, "out of memory");
    if (status == PAL_OK)
        pal_mcp_put_success(
                t->writer, t->message->id, t->message->is_new, pal_buf_str(&object), (pal_str){0});
    else
        fail(t, &err);
    pal_buf_done(&object);
    return PAL_MCP_ANSWERED;
}

static pal_status check_call(const pal_mcp_call *call, pal_error *err)
{
    if (!call->peer->can_write && !call->tool->is_read_only)
        return pal_error_set(err, PAL_DENIED,
                "'%s' requires an API key that can write; this key can only read",
                call->tool->name);
    return pal_mcp_fields_check(call->tool->fields, call->arguments, call->arena, err);
}

static pal_mcp_outcome call_tool(request *t)
{
    char text[128];
    pal_error err = {0};
    pal_json name = pal_json_find(t->message->params, "name");
    pal_mcp_call call = {
            .host = t->host,
            .peer = t->peer,
            .message = t->message,
            .tool = find_offer(name),
            .arguments = pal_json_find(t->message->params, "arguments"),
            .arena = t->arena,
    };
    pal_json_type type = pal_json_type_of(call.arguments);
    if (!call.tool) {
        pal_str is = pal_json_raw(name);
        snprintf(text, sizeof text, "Unknown tool: %.*s", PAL_EXCERPT(is, 80));
        return refuse(t, PAL_RPC_INVALID_PARAMS, text);
    }
    if (type != PAL_JSON_NONE && type != PAL_JSON_NULL && type != PAL_JSON_OBJECT)
        return refuse(t, PAL_RPC_INVALID_PARAMS, "'arguments' must be an object");
    if (check_call(&call, &err) != PAL_OK)
        return fail(t, &err);
    if (call.tool->run)
        return run_offer(t, &call);
    if (pal_mcp_job_start(&call, t->events, t->events_user, &err) != PAL_OK)
        return fail(t, &err);
    return PAL_MCP_LATER;
}

/* ---- All methods ---- */

static pal_mcp_outcome take_notification(request *t)
{
    const pal_rpc_message *message = t->message;
    pal_json id = pal_json_find(message->params, "requestId");
    if (pal_str_is(message->method, "notifications/cancelled") &&
            pal_json_type_of(id) != PAL_JSON_NONE)
        pal_mcp_jobs_cancel(t->host, t->peer->scope, pal_json_raw(id));
    return PAL_MCP_NOTED;
}

static pal_mcp_outcome take_request(request *t)
{
    static const struct {
        const char *method;
        bool is_old, is_new;
        pal_mcp_outcome (*take)(request *t);
    } methods[] = {
            {"initialize", true, false, initialize},
            {"ping", true, false, ping},
            {"server/discover", false, true, discover},
            {"tools/list", true, true, list_tools},
            {"tools/call", true, true, call_tool},
    };
    const pal_rpc_message *message = t->message;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (pal_str_is(message->method, methods[i].method) &&
                (message->is_new ? methods[i].is_new : methods[i].is_old))
            return methods[i].take(t);
    }
    return refuse(t, PAL_RPC_NO_METHOD, "Method not found");
}

static pal_mcp_outcome take_new(request *t)
{
    pal_json capabilities = pal_json_find(t->message->meta, META "clientCapabilities");
    if (!pal_str_is(t->message->version, NEW_VERSION))
        return wrong_version(t);
    if (pal_json_type_of(capabilities) != PAL_JSON_OBJECT)
        return refuse(t, PAL_RPC_INVALID_PARAMS,
                "'_meta' must contain an object '" META "clientCapabilities'");
    return take_request(t);
}

pal_mcp_outcome pal_mcp_host_handle(pal_mcp_host *host, const pal_mcp_peer *peer,
        const pal_rpc_message *message, const pal_mcp_events *events, void *events_user,
        pal_arena *arena, pal_json_writer *writer, int *out_code)
{
    pal_mcp_outcome taken;
    request t = {host, peer, message, events, events_user, arena, writer, 0};
    if (message->method.len == 0)
        taken = PAL_MCP_NOTED; /* a response: ignored, because this server sends no requests */
    else if (message->id.len == 0)
        taken = take_notification(&t);
    else
        taken = message->is_new ? take_new(&t) : take_request(&t);
    *out_code = t.code;
    return taken;
}
