/* api_openai_responses_lists.c - the tools of MCP servers as items of type mcp_list_tools, with
 * which a response begins. A server is listed once in a chain of responses or in a conversation.
 *
 * The record of a response has its lists, and the labels of all servers that were listed up to
 * there. A response that continues it begins with these labels. A conversation has a record with
 * the id of its newest response that has lists. That record is written before the turn runs. If the
 * turn fails or the process dies, there is no such response, and the next one lists the tools
 * again. */
#include "server/api/openai/responses/api_openai_responses.h"

#include "base/json/json_put.h"
#include "dialect/dialect_member.h"
#include "server/server_call.h"

#define CONVERSATION_KIND "response_lists"
#define NO_TOOLS "the server has not listed its tools; it is starting, or it failed"
#define TOO_LONG "the list of tools is too long"

/* ---- Servers that were listed before ---- */

typedef struct label_list {
    pal_arena *arena;
    pal_str *labels;
    size_t len, cap;
} label_list;

static bool has_label(const label_list *list, pal_str label)
{
    for (size_t i = 0; i < list->len; i++) {
        if (pal_str_equal(list->labels[i], label))
            return true;
    }
    return false;
}

static void add_label(label_list *list, pal_str label)
{
    if (label.len == 0 || has_label(list, label) ||
            !pal_arena_reserve(
                    list->arena, &list->labels, &list->cap, list->len + 1, sizeof *list->labels))
        return; /* the arena keeps a failure */
    list->labels[list->len++] = label;
}

/* Clients that keep the history themselves send the lists again. */
static void add_input(label_list *list, pal_json input)
{
    pal_json item;
    if (pal_json_type_of(input) != PAL_JSON_ARRAY)
        return;
    for (pal_json_iter iter = pal_json_each(input); pal_json_next(&iter, NULL, &item);) {
        if (pal_json_string_is(pal_json_find(item, "type"), "mcp_list_tools"))
            add_label(list, pal_member_string(item, "server_label", list->arena));
    }
}

static pal_status add_known(label_list *list, pal_str known, pal_error *err)
{
    pal_json labels, label;
    if (known.len == 0)
        return PAL_OK;
    pal_status status = pal_json_parse(list->arena, known, NULL, &labels, err);
    if (status != PAL_OK)
        return status;
    for (pal_json_iter iter = pal_json_each(labels); pal_json_next(&iter, NULL, &label);)
        add_label(list, pal_json_string(label, list->arena));
    return PAL_OK;
}

/* Finds the labels in the newest response of the conversation that has lists. A repeated request
 * does not find its own response. */
static pal_status find_in_conversation(
        const pal_response_request *request, pal_str *out_listed, pal_error *err)
{
    pal_call *call = request->call;
    char name[PAL_ID_TEXT_SIZE];
    pal_record record;
    pal_json body;
    pal_response response;
    pal_id_to_text(request->context.session.id, name);
    pal_status status = pal_store_record_find(call->server->store, call->caller.tenant,
            pal_str_of(CONVERSATION_KIND), pal_str_of(name), call->arena, &record, err);
    if (status == PAL_OK)
        status = pal_json_parse(call->arena, record.body, NULL, &body, err);
    if (status == PAL_OK)
        status = pal_response_find(
                call, pal_member_string(body, "response", call->arena), &response, err);
    if (status == PAL_OK && pal_response_is_answered(&response) &&
            !pal_id_equal(response.id, request->response))
        *out_listed = response.listed;
    return status == PAL_NOT_FOUND ? PAL_OK : status;
}

static pal_status keep_in_conversation(const pal_response_request *request, pal_error *err)
{
    pal_call *call = request->call;
    char name[PAL_ID_TEXT_SIZE], id[PAL_OPENAI_ID_SIZE];
    pal_record record = {
            .kind = pal_str_of(CONVERSATION_KIND), .session = request->context.session.id};
    pal_buf buf;
    pal_id_to_text(request->context.session.id, name);
    record.name = pal_str_of(name);
    pal_openai_id_text("resp_", request->response, id);
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_text(&writer, "response", id);
    pal_json_end_object(&writer);
    pal_status status = pal_member_keep(&buf, call->arena, &record.body, err);
    pal_buf_done(&buf);
    return status == PAL_OK ? pal_store_record_put(call->server->store, call->caller.tenant,
                                      &record, PAL_RECORD_VERSION_ANY, err)
                            : status;
}

/* ---- Lists ---- */

typedef struct server_tools {
    pal_tool *tools;
    size_t len;
} server_tools;

static void put_tool(pal_json_writer *writer, const pal_tool *tool, pal_arena *arena)
{
    pal_json_begin_object(writer);
    pal_put_str(writer, "name", pal_response_tool_name(tool, arena));
    pal_put_str_or_null(writer, "description", tool->description);
    pal_json_name(writer, "input_schema");
    pal_json_put_compact(
            writer, tool->schema.len ? tool->schema : pal_str_of("{\"type\":\"object\"}"));
    pal_json_name(writer, "annotations");
    pal_json_begin_object(writer);
    pal_put_flag(writer, "read_only", tool->is_read_only);
    pal_json_end_object(writer);
    pal_json_end_object(writer);
}

/* Writes the tools that the request and the configuration allow as an array. Returns why the list
 * is empty; NULL if it is complete. */
static const char *put_tools(pal_buf *buf, const server_tools *all, pal_str server,
        pal_json request, pal_arena *arena)
{
    bool has_tools = false;
    pal_json_writer writer = pal_json_writer_make(buf);
    pal_json_begin_array(&writer);
    for (size_t i = 0; i < all->len; i++) {
        if (!pal_str_equal(all->tools[i].server, server))
            continue;
        has_tools = true;
        if (all->tools[i].permission != PAL_PERMISSION_DENY &&
                pal_response_allows(request, &all->tools[i], arena))
            put_tool(&writer, &all->tools[i], arena);
    }
    pal_json_end_array(&writer);
    return buf->failure ? TOO_LONG : has_tools ? NULL : NO_TOOLS;
}

/* Returns false if the server has to be listed again. */
static bool put_list(pal_json_writer *writer, const server_tools *all, pal_str server,
        pal_json request, pal_arena *arena)
{
    pal_buf tools;
    size_t used = writer->buf->len;
    pal_buf_init(&tools,
            used < PAL_RESPONSE_LISTS_BYTES_MAX ? PAL_RESPONSE_LISTS_BYTES_MAX - used : 0);
    const char *problem = put_tools(&tools, all, server, request, arena);
    pal_json_begin_object(writer);
    pal_put_text(writer, "type", "mcp_list_tools");
    pal_put_str(writer, "server_label", server);
    pal_put_raw(writer, "tools", problem ? pal_str_of("[]") : pal_buf_str(&tools));
    pal_put_str_or_null(writer, "error", pal_str_of(problem ? problem : ""));
    pal_json_end_object(writer);
    pal_buf_done(&tools);
    return !problem;
}

static pal_status keep_labels(pal_response_request *request, const label_list *list, pal_error *err)
{
    pal_buf buf;
    if (list->len == 0)
        return PAL_OK;
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_array(&writer);
    for (size_t i = 0; i < list->len; i++)
        pal_json_put_str(&writer, list->labels[i]);
    pal_json_end_array(&writer);
    pal_status status = pal_member_keep(&buf, request->call->arena, &request->listed, err);
    pal_buf_done(&buf);
    return status;
}

/* Lists the servers that `tools` of the request names, except for known ones. */
static pal_status list_servers(pal_response_request *request, label_list *known, pal_error *err)
{
    pal_call *call = request->call;
    label_list seen = {.arena = call->arena};
    server_tools all = {0};
    pal_json tool;
    pal_buf buf;
    pal_status status = PAL_OK;
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_array(&writer);
    for (pal_json_iter iter = pal_json_each(pal_json_find(call->body, "tools"));
            status == PAL_OK && pal_json_next(&iter, NULL, &tool);) {
        const pal_tool_server *server = pal_response_server_of(call, tool);
        if (!server || has_label(known, server->name) || has_label(&seen, server->name))
            continue;
        if (seen.len == 0) {
            pal_runtime_tools_await(call->server->runtime);
            status = pal_runtime_tools(
                    call->server->runtime, call->arena, &all.tools, &all.len, err);
        }
        add_label(&seen, server->name);
        if (status == PAL_OK && put_list(&writer, &all, server->name, tool, call->arena))
            add_label(known, server->name);
    }
    pal_json_end_array(&writer);
    if (status == PAL_OK && seen.len > 0)
        status = pal_member_keep(&buf, call->arena, &request->lists, err);
    pal_buf_done(&buf);
    return status == PAL_OK ? pal_arena_checked(call->arena, err) : status;
}

pal_status pal_response_list_tools(pal_response_request *request, pal_error *err)
{
    label_list known = {.arena = request->call->arena};
    pal_str listed = request->context.listed;
    pal_status status = PAL_OK;
    if (request->is_compaction || !pal_response_uses_servers(request->call)) {
        request->listed = listed;
        return PAL_OK;
    }
    if (request->conversation.len)
        status = find_in_conversation(request, &listed, err);
    if (status == PAL_OK)
        status = add_known(&known, listed, err);
    if (status != PAL_OK)
        return status;
    add_input(&known, pal_json_find(request->call->body, "input"));
    status = list_servers(request, &known, err);
    if (status == PAL_OK)
        status = keep_labels(request, &known, err);
    if (status == PAL_OK && request->lists.len && request->conversation.len && request->is_stored)
        status = keep_in_conversation(request, err);
    return status;
}

/* ---- Lists as a message ---- */

pal_status pal_response_lists_message(
        const pal_response *response, pal_arena *arena, pal_message *out_message, pal_error *err)
{
    pal_json lists, list;
    *out_message = (pal_message){.id = response->id, .role = PAL_ROLE_ASSISTANT};
    if (response->lists.len == 0)
        return PAL_OK;
    pal_status status = pal_json_parse(arena, response->lists, NULL, &lists, err);
    if (status != PAL_OK)
        return status;
    pal_part *parts = pal_arena_array(arena, pal_json_count(lists) + 1, sizeof *parts);
    for (pal_json_iter iter = pal_json_each(lists); parts && pal_json_next(&iter, NULL, &list);) {
        size_t at = out_message->parts_len++;
        parts[at] = (pal_part){.kind = PAL_PART_FILE,
                .name = pal_member_string(list, "server_label", arena),
                .number = (uint32_t)at + 1,
                .is_error = !pal_json_is_absent(pal_json_find(list, "error"))};
        status = pal_openai_item_keep(pal_json_raw(list), arena, &parts[at].extra, err);
        if (status != PAL_OK)
            return status;
    }
    out_message->parts = parts;
    return pal_arena_checked(arena, err);
}
