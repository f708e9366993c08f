/* api_openai_responses_tools.c - reads the tools of a request, and which of them the model may or
 * must call. Only reads and checks.
 *
 * A custom tool takes free text, but model services only have functions. So it is offered as a
 * function whose only argument is that text. Its calls are marked, so that they are shown as custom
 * calls (openai_items.h). If the request allows only some tools, the other ones are not
 * offered.
 *
 * A namespace is a group of tools. The model is offered its tools under their plain names, and
 * their calls carry the name of the namespace.
 *
 * Tools can also come as items of the input (additional_tools). They apply to the request and to
 * all that continue from its response, so the response keeps them. */
#include "base/json/json_put.h"
#include "base/text.h"
#include "base/utf8.h"
#include "dialect/dialect_member.h"
#include "server/api/native/api_turn.h"
#include "server/api/openai/responses/api_openai_responses.h"
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
    pal_tool tool = {.schema = pal_str_of(CUSTOM_SCHEMA)};
    pal_status status = pal_call_text(call, value, "name", PAL_LABEL_LEN_MAX, &tool.name, err);
    if (status != PAL_OK)
        return status;
    status = pal_call_text(call, value, "description", PAL_SYSTEM_LEN_MAX, &tool.description, err);
    if (status != PAL_OK)
        return status;
    if (tool.name.len == 0)
        return pal_error_set(err, PAL_INVALID, "'name' of the custom tool is missing");
    status = describe(call, pal_json_find(value, "format"), &tool, err);
    if (status != PAL_OK)
        return status;
    *out_tool = tool;
    return PAL_OK;
}

/* ---- Walking through tools ---- */

/* Walks through two lists of tools, and through the tools of each namespace in its place. */
typedef struct tool_walk {
    pal_json_iter tools;
    pal_json additional; /* the list after the current one */
    const char *list;    /* name of the current list */
    size_t at;           /* number of tools of the current list that were begun */
    pal_json group;      /* the current namespace; absent outside of one */
    pal_json_iter inner; /* tools of the current namespace */
} tool_walk;

static tool_walk walk_tools(pal_json tools, pal_json additional)
{
    return (tool_walk){.tools = pal_json_each(tools), .additional = additional, .list = "tools"};
}

static bool is_in_namespace(const tool_walk *walk)
{
    return pal_json_type_of(walk->group) == PAL_JSON_OBJECT;
}

static bool next_tool(tool_walk *walk, pal_json *out_tool)
{
    for (;;) {
        if (is_in_namespace(walk) && pal_json_next(&walk->inner, NULL, out_tool))
            return true;
        walk->group = (pal_json){0};
        if (pal_json_next(&walk->tools, NULL, out_tool)) {
            walk->at++;
            if (!pal_json_string_is(pal_json_find(*out_tool, "type"), "namespace"))
                return true;
            walk->group = *out_tool;
            walk->inner = pal_json_each(pal_json_find(*out_tool, "tools"));
        } else if (pal_json_type_of(walk->additional) == PAL_JSON_ARRAY) {
            walk->tools = pal_json_each(walk->additional);
            walk->additional = (pal_json){0};
            walk->list = "additional_tools";
            walk->at = 0;
        } else {
            return false;
        }
    }
}

/* ---- The form of calls ---- */

/* Tools of other types run at a model service: web_search, computer use, MCP connectors and others.
 * They are left out, and the response's metadata lists them. */
static bool is_left_out(pal_json tool)
{
    pal_json type = pal_json_find(tool, "type");
    return pal_json_type_of(type) == PAL_JSON_STRING && !pal_json_string_is(type, "custom") &&
            !pal_json_string_is(type, "function");
}

static bool is_custom(pal_json tool)
{
    return pal_json_string_is(pal_json_find(tool, "type"), "custom");
}

/* Appends the extra of a call: its type and the name of its namespace. Appends nothing if both are
 * the default. */
static void put_extra(pal_buf *buf, bool is_custom_call, pal_str name_space)
{
    if (!is_custom_call && !name_space.len)
        return;
    pal_json_writer writer = pal_json_writer_make(buf);
    pal_json_begin_object(&writer);
    pal_json_name(&writer, "openai_items");
    pal_json_begin_object(&writer);
    if (is_custom_call)
        pal_put_text(&writer, "type", "custom_tool_call");
    if (name_space.len)
        pal_put_str(&writer, "namespace", name_space);
    pal_json_end_object(&writer);
    pal_json_end_object(&writer);
}

/* Parses a text that may be empty. */
static pal_status parse(pal_arena *arena, pal_str text, pal_json *out, pal_error *err)
{
    *out = (pal_json){0};
    return text.len ? pal_json_parse(arena, text, NULL, out, err) : PAL_OK;
}

pal_status pal_response_call_form(
        const pal_response *response, pal_str name, pal_response_call *out_call)
{
    pal_json echo, additional, tool;
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return PAL_NO_MEMORY;
    pal_status status = parse(arena, response->echo, &echo, NULL);
    if (status == PAL_OK)
        status = parse(arena, response->additional, &additional, NULL);
    if (status != PAL_OK)
        goto out;
    out_call->form = PAL_RESPONSE_CALL;
    for (tool_walk walk = walk_tools(pal_json_find(echo, "tools"), additional);
            next_tool(&walk, &tool);) {
        if (is_left_out(tool) || !pal_str_equal(pal_member_string(tool, "name", arena), name))
            continue;
        pal_str name_space = pal_member_string(walk.group, "name", arena);
        if (is_custom(tool))
            out_call->form = PAL_RESPONSE_CUSTOM_CALL;
        pal_buf_append_str(&out_call->name_space, name_space);
        put_extra(&out_call->extra, is_custom(tool), name_space);
        break;
    }
    status = pal_arena_failure(arena);
    if (out_call->name_space.failure || out_call->extra.failure)
        status = PAL_NO_MEMORY;
out:
    pal_arena_free(arena);
    return status;
}

/* ---- Additional tools ---- */

/* A later definition replaces an earlier one with the same type and name. So the lists are read
 * from the newest to the oldest, and known tools are skipped. */
typedef struct tool_list {
    pal_arena *arena;
    pal_json *tools;
    size_t len, cap;
} tool_list;

static bool has_same(const tool_list *list, pal_json tool)
{
    pal_str type = pal_member_string(tool, "type", list->arena);
    pal_str name = pal_member_string(tool, "name", list->arena);
    for (size_t i = 0; i < list->len; i++) {
        if (pal_str_equal(pal_member_string(list->tools[i], "type", list->arena), type) &&
                pal_str_equal(pal_member_string(list->tools[i], "name", list->arena), name))
            return true;
    }
    return false;
}

static pal_status add_tools(tool_list *list, pal_json array, pal_error *err)
{
    pal_json tool;
    size_t known = list->len;
    for (pal_json_iter iter = pal_json_each(array); pal_json_next(&iter, NULL, &tool);) {
        const tool_list older = {.arena = list->arena, .tools = list->tools, .len = known};
        if (has_same(&older, tool))
            continue;
        if (list->len == PAL_SERVER_TOOLS_MAX)
            return pal_error_set(err, PAL_LIMIT,
                    "the additional_tools have more than %d tools", PAL_SERVER_TOOLS_MAX);
        if (!pal_arena_reserve(list->arena, &list->tools, &list->cap, list->len + 1,
                    sizeof *list->tools))
            break; /* the arena keeps the failure */
        list->tools[list->len++] = tool;
    }
    return pal_arena_checked(list->arena, err);
}

/* Reads the lists of the input, the last one first. */
static pal_status add_input_tools(tool_list *list, pal_json input, pal_error *err)
{
    size_t len = 0;
    pal_json item;
    pal_json *arrays = pal_arena_array(list->arena, pal_json_count(input) + 1, sizeof *arrays);
    if (!arrays || pal_json_type_of(input) != PAL_JSON_ARRAY)
        return pal_arena_checked(list->arena, err);
    for (pal_json_iter iter = pal_json_each(input); pal_json_next(&iter, NULL, &item);) {
        if (pal_json_string_is(pal_json_find(item, "type"), "additional_tools"))
            arrays[len++] = pal_json_find(item, "tools");
    }
    pal_status status = PAL_OK;
    while (len > 0 && status == PAL_OK)
        status = add_tools(list, arrays[--len], err);
    return status;
}

/* Sets request->additional to the tools of the input and of the response that is continued. */
static pal_status collect_additional(pal_response_request *request, pal_error *err)
{
    pal_call *call = request->call;
    tool_list list = {.arena = call->arena};
    pal_json kept;
    pal_buf buf;
    pal_status status = add_input_tools(&list, pal_json_find(call->body, "input"), err);
    if (status != PAL_OK)
        goto wrong;
    if (request->previous.len)
        status = pal_response_context_find(request, err);
    if (status == PAL_OK)
        status = parse(call->arena, request->context.additional, &kept, err);
    if (status != PAL_OK)
        return status;
    status = add_tools(&list, kept, err);
    if (status != PAL_OK)
        goto wrong;
    if (list.len == 0)
        return PAL_OK;
    pal_buf_init(&buf, PAL_RESPONSE_TOOLS_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_array(&writer);
    for (size_t i = 0; i < list.len; i++)
        pal_json_put_compact(&writer, pal_json_raw(list.tools[i]));
    pal_json_end_array(&writer);
    if (buf.failure == PAL_LIMIT)
        status = pal_call_refuse(call, 413, NULL, PAL_LIMIT, err,
                "the additional_tools exceed %zu bytes together", PAL_RESPONSE_TOOLS_BYTES_MAX);
    else
        status = pal_member_keep(&buf, call->arena, &request->additional, err);
    pal_buf_done(&buf);
    return status;
wrong:
    call->fail_param = "input";
    return status;
}

/* ---- All tools ---- */

static pal_status read_tool(pal_call *call, pal_json value, pal_str name_space,
        pal_tool *out_tool, pal_error *err)
{
    pal_buf buf;
    pal_status status = is_custom(value) ? read_custom(call, value, out_tool, err)
                                         : pal_api_tool_read(call, value, out_tool, err);
    if (status != PAL_OK)
        return status;
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    put_extra(&buf, is_custom(value), name_space);
    if (buf.len || buf.failure)
        status = pal_member_keep(&buf, call->arena, &out_tool->call_extra, err);
    pal_buf_done(&buf);
    return status;
}

/* ---- Tools of this server's tool servers ---- */

typedef struct mcp_rules {
    pal_permission_rule *rules;
    size_t len, cap;
    pal_arena *arena;
} mcp_rules;

static bool is_mcp(pal_json tool)
{
    return pal_json_string_is(pal_json_find(tool, "type"), "mcp");
}

/* An address is never fetched because a client names it. It must be the configured one. */
const pal_tool_server *pal_response_server_of(pal_call *call, pal_json tool)
{
    if (!is_mcp(tool))
        return NULL;
    pal_str label = pal_member_string(tool, "server_label", call->arena);
    pal_str url = pal_member_string(tool, "server_url", call->arena);
    const pal_tool_server *server =
            label.len ? pal_runtime_tool_server(call->server->runtime, label) : NULL;
    return server && (url.len == 0 || pal_str_equal(url, server->url)) ? server : NULL;
}

static void add_rule(mcp_rules *list, pal_str tool, pal_permission permission)
{
    if (!pal_arena_reserve(
                list->arena, &list->rules, &list->cap, list->len + 1, sizeof *list->rules))
        return; /* the arena keeps the failure */
    list->rules[list->len++] = (pal_permission_rule){.tool = tool, .permission = permission};
}

/* Adds a rule for a name, or for "*", of a server. */
static void add_name_rule(
        mcp_rules *list, pal_str server, pal_str tool, pal_permission permission)
{
    pal_buf pattern;
    pal_buf_init(&pattern, PAL_NAME_LEN_MAX);
    pal_buf_append_str(&pattern, server);
    pal_buf_append_text(&pattern, "__");
    pal_buf_append_str(&pattern, tool);
    add_rule(list, pal_arena_copy(list->arena, pal_buf_str(&pattern)), permission);
    pal_buf_done(&pattern);
}

/* A filter is a list of names, or {"tool_names": [...], "read_only": true}. A tool must meet both
 * conditions. */
static bool is_in(pal_json filter, pal_str tool, bool is_read_only, pal_arena *arena)
{
    pal_json names = filter, name;
    bool read_only;
    if (pal_json_type_of(filter) == PAL_JSON_OBJECT) {
        if (pal_json_bool(pal_json_find(filter, "read_only"), &read_only) &&
                read_only != is_read_only)
            return false;
        names = pal_json_find(filter, "tool_names");
    }
    if (pal_json_type_of(names) != PAL_JSON_ARRAY)
        return pal_json_type_of(filter) == PAL_JSON_OBJECT;
    for (pal_json_iter iter = pal_json_each(names); pal_json_next(&iter, NULL, &name);) {
        if (pal_str_equal(pal_json_string(name, arena), tool))
            return true;
    }
    return false;
}

/* "require_approval" is "always", "never", or has filters: {"always": {...}, "never": {...}}. With
 * "never", all other tools need approval. ALLOW means: the configuration decides. */
static pal_permission required(
        pal_json approval, pal_str tool, bool is_read_only, pal_arena *arena)
{
    pal_json always = pal_json_find(approval, "always"), never = pal_json_find(approval, "never");
    bool is_asked = pal_json_string_is(approval, "always");
    if (!pal_json_is_absent(always))
        is_asked = is_asked || is_in(always, tool, is_read_only, arena);
    if (!pal_json_is_absent(never))
        is_asked = is_asked || !is_in(never, tool, is_read_only, arena);
    return is_asked ? PAL_PERMISSION_ASK : PAL_PERMISSION_ALLOW;
}

pal_str pal_response_tool_name(const pal_tool *tool, pal_arena *arena)
{
    return pal_member_string(pal_member_kept(tool->call_extra, "mcp", arena), "tool", arena);
}

bool pal_response_allows(pal_json entry, const pal_tool *tool, pal_arena *arena)
{
    pal_json allowed = pal_json_find(entry, "allowed_tools");
    return pal_json_is_absent(allowed) ||
            is_in(allowed, pal_response_tool_name(tool, arena), tool->is_read_only, arena);
}

/* The rules of a request can only restrict. A server that has not listed its tools yet gets the
 * rules for tools that no filter names. */
static pal_status add_server(pal_call *call, pal_json tool, const pal_tool_server *server,
        mcp_rules *list, pal_error *err)
{
    pal_json approval = pal_json_find(tool, "require_approval");
    pal_json allowed = pal_json_find(tool, "allowed_tools"), name;
    pal_tool *tools = NULL;
    size_t len = 0;
    bool is_filtered = !pal_json_is_absent(allowed);
    pal_status status = PAL_OK;
    if (is_filtered || pal_json_type_of(approval) == PAL_JSON_OBJECT)
        status = pal_runtime_tools(call->server->runtime, call->arena, &tools, &len, err);
    if (status != PAL_OK)
        return status;
    for (size_t i = 0; i < len; i++) {
        pal_str own = pal_response_tool_name(&tools[i], call->arena);
        if (!pal_str_equal(tools[i].server, server->name))
            continue;
        bool is_read_only = tools[i].is_read_only;
        bool is_denied = !pal_response_allows(tool, &tools[i], call->arena);
        add_rule(list, tools[i].name,
                is_denied ? PAL_PERMISSION_DENY
                          : required(approval, own, is_read_only, call->arena));
    }
    for (pal_json_iter iter = pal_json_each(allowed);
            pal_json_type_of(allowed) == PAL_JSON_ARRAY && pal_json_next(&iter, NULL, &name);) {
        pal_str text = pal_json_string(name, call->arena);
        add_name_rule(list, server->name, text, required(approval, text, false, call->arena));
    }
    if (!is_filtered)
        add_name_rule(list, server->name, pal_str_of("*"),
                required(approval, pal_str_of(""), false, call->arena));
    return PAL_OK;
}

/* Offers the tools that the rules name, and no others. */
static void offer(pal_response_request *request, mcp_rules *list)
{
    if (list->len == 0)
        return;
    add_rule(list, pal_str_of("*"), PAL_PERMISSION_DENY);
    request->turn.no_server_tools = false;
    request->turn.permissions = list->rules;
    request->turn.permissions_len = list->len;
}

/* A request without "tools" is offered the tools of all tool servers, as in the other APIs. The
 * built-in tools have no "__" in their names. */
static pal_status offer_all(pal_response_request *request, pal_error *err)
{
    pal_call *call = request->call;
    mcp_rules list = {.arena = call->arena};
    if (!pal_runtime_tool_server(call->server->runtime, (pal_str){0}))
        return PAL_OK;
    add_rule(&list, pal_str_of("*__*"), PAL_PERMISSION_ALLOW);
    offer(request, &list);
    return pal_arena_checked(call->arena, err);
}

bool pal_response_uses_servers(pal_call *call)
{
    pal_json tool, tools = pal_json_find(call->body, "tools");
    for (pal_json_iter iter = pal_json_each(tools); pal_json_next(&iter, NULL, &tool);) {
        if (pal_response_server_of(call, tool))
            return true;
    }
    return false;
}

/* ---- All tools, continued ---- */

/* Adds the type and the name of a tool to a list: "function clock.sleep, web_search". */
static void list_tool(pal_call *call, pal_str name_space, pal_json tool, pal_buf *list)
{
    pal_str name = pal_member_string(tool, is_mcp(tool) ? "server_label" : "name", call->arena);
    pal_buf_append_text(list, list->len ? ", " : "");
    pal_buf_append_str(list, pal_member_string(tool, "type", call->arena));
    pal_buf_append_text(list, name.len ? " " : "");
    pal_buf_append_str(list, name.len ? name_space : (pal_str){0});
    pal_buf_append_text(list, name.len && name_space.len ? "." : "");
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

static const pal_tool *find_tool(const pal_tool *tools, size_t len, pal_str name)
{
    for (size_t i = 0; i < len; i++) {
        if (pal_str_equal(tools[i].name, name))
            return &tools[i];
    }
    return NULL;
}

/* Makes room for all tools. */
static pal_status begin_tools(
        pal_call *call, pal_json array, pal_json additional, pal_tool **out_tools, pal_error *err)
{
    size_t count = 0;
    pal_json value;
    if (!pal_json_is_absent(array)) {
        pal_status status = pal_api_tools_begin(call, array, out_tools, err);
        if (status != PAL_OK)
            return status;
    }
    for (tool_walk walk = walk_tools(array, additional); next_tool(&walk, &value);)
        count++;
    if (count > PAL_SERVER_TOOLS_MAX) {
        call->fail_param = "tools";
        return pal_error_set(err, PAL_LIMIT,
                "the request has %zu tools; at most %d are allowed", count, PAL_SERVER_TOOLS_MAX);
    }
    *out_tools = pal_arena_array(call->arena, count + 1, sizeof **out_tools);
    return pal_arena_checked(call->arena, err);
}

/* Models know tools by their plain names. If two tools have the same name and one of them is in a
 * namespace, the later one is left out. */
static pal_status read_tools(
        pal_response_request *request, pal_json array, pal_json additional, pal_error *err)
{
    pal_call *call = request->call;
    size_t len = 0;
    bool has_namespace = false;
    pal_json value;
    pal_tool *tools;
    pal_buf left_out;
    mcp_rules servers = {.arena = call->arena};
    pal_status status = begin_tools(call, array, additional, &tools, err);
    if (status != PAL_OK)
        return status;
    pal_buf_init(&left_out, PAL_JSON_BYTES_MAX);
    for (tool_walk walk = walk_tools(array, additional); next_tool(&walk, &value);) {
        pal_str name_space = pal_member_string(walk.group, "name", call->arena);
        has_namespace = has_namespace || is_in_namespace(&walk);
        const pal_tool_server *server = pal_response_server_of(call, value);
        if (server)
            status = add_server(call, value, server, &servers, err);
        else if (is_left_out(value) && !request->has_service)
            list_tool(call, name_space, value, &left_out);
        if (status != PAL_OK)
            goto out;
        if (is_left_out(value))
            continue;
        status = read_tool(call, value, name_space, &tools[len], err);
        if (status != PAL_OK) {
            call->fail_param = pal_text_begins(pal_str_of(walk.list), "tools") ? "tools" : "input";
            status = pal_member_within(err, status, walk.list, walk.at - 1);
            goto out;
        }
        if (!has_namespace || !find_tool(tools, len, tools[len].name))
            len++;
        else if (!request->has_service)
            list_tool(call, name_space, value, &left_out);
    }
    request->turn.tools = tools;
    request->turn.tools_len = len;
    offer(request, &servers);
    status = keep_left_out(request, &left_out, err);
out:
    pal_buf_done(&left_out);
    return status;
}

/* ---- Tools for a service that has the API ---- */

static void put_list(pal_call *call, pal_json_writer *writer, pal_json list)
{
    pal_json tool;
    for (pal_json_iter iter = pal_json_each(list); pal_json_next(&iter, NULL, &tool);) {
        if (!pal_response_server_of(call, tool))
            pal_json_put_raw(writer, pal_json_raw(tool));
    }
}

pal_status pal_response_put_tools(
        const pal_response_request *request, pal_json_writer *writer, pal_error *err)
{
    pal_call *call = request->call;
    pal_json additional;
    pal_status status = parse(call->arena, request->additional, &additional, err);
    if (status != PAL_OK)
        return status;
    pal_json_name(writer, "tools");
    pal_json_begin_array(writer);
    put_list(call, writer, pal_json_find(call->body, "tools"));
    put_list(call, writer, additional);
    pal_json_end_array(writer);
    return PAL_OK;
}

/* ---- Tool choice ---- */

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
    if (request->has_service)
        return PAL_OK; /* the service reads it */
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
    pal_json additional;
    pal_status status = collect_additional(request, err);
    if (status != PAL_OK)
        return status;
    status = parse(request->call->arena, request->additional, &additional, err);
    if (status != PAL_OK)
        return status;
    if (!pal_json_is_absent(tools) || request->additional.len)
        status = read_tools(request, tools, additional, err);
    else if (!request->call->server->config->server.responses_tools_off)
        status = offer_all(request, err);
    if (status != PAL_OK || pal_json_type_of(choice) <= PAL_JSON_NULL)
        return status;
    return read_choice(request, choice, err);
}
