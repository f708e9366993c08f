/* tool_mcp_toolbox.c - the tools of one server, under the names that a model sees.
 *
 * A shown name is SERVER__TOOL, at most 64 characters that every service accepts. A name that is
 * too long, or that two tools would share, ends in a hash of the tool's own name, so that it does
 * not depend on the order of the list. If two tools have the same shown name, the one whose name
 * was changed gets the hash. On the loop. */
#include <stdio.h>

#include "base/memory.h"
#include "base/text.h"
#include "tool/mcp/tool_mcp_internal.h"

#define NAME_LEN_MAX 64
#define HASH_LEN 9 /* an underscore and eight digits */

void pal_tool_mcp_toolbox_done(pal_tool_mcp_toolbox *tools)
{
    pal_arena_free(tools->arena);
    *tools = (pal_tool_mcp_toolbox){0};
}

/* ---- Adding ---- */

static bool has_name(const pal_tool_mcp_toolbox *tools, pal_str name)
{
    for (size_t i = 0; i < tools->len; i++) {
        if (pal_str_equal(tools->names[i], name))
            return true;
    }
    return false;
}

/* Tools that can also be run without a task are run without one. */
static bool needs_task(const pal_tool_mcp *mcp, pal_json tool)
{
    pal_json support = pal_json_find(pal_json_find(tool, "execution"), "taskSupport");
    return mcp->era == PAL_TOOL_MCP_ERA_OLD && pal_json_string_is(support, "required");
}

/* Reports a tool that is left out, once for each name. */
static void warn_unusable(pal_tool_mcp *mcp, pal_str name, const char *why)
{
    char text[PAL_ERROR_MESSAGE_MAX];
    for (size_t i = 0; i < mcp->warned_len; i++) {
        if (pal_str_equal(mcp->warned[i], name))
            return;
    }
    if (mcp->warned_len == PAL_TOOL_MCP_WARNED_MAX || !mcp->config.on_warning)
        return;
    mcp->warned[mcp->warned_len] = pal_arena_copy(mcp->arena, name);
    mcp->warned_len += mcp->warned[mcp->warned_len].len == name.len;
    snprintf(text, sizeof text, "tool '%.*s' of MCP server '%.*s' is not shown: %s",
            PAL_EXCERPT(name, 80), PAL_EXCERPT(mcp->config.name, 40), why);
    mcp->config.on_warning(mcp->user, pal_str_of(text));
}

static bool can_be_called(pal_tool_mcp *mcp, pal_str name, pal_json tool)
{
    if (mcp->era == PAL_TOOL_MCP_ERA_OLD) {
        if (mcp->runs_tasks || !needs_task(mcp, tool))
            return true;
        warn_unusable(mcp, name, "it must run as a task, and the server cannot run tasks");
        return false;
    }
    if (mcp->transport != &pal_tool_mcp_http ||
            pal_tool_mcp_headers_are_valid(pal_json_find(tool, "inputSchema"), mcp->scratch))
        return true;
    warn_unusable(mcp, name, "its schema breaks the rules of 'x-mcp-header'");
    return false;
}

static bool grow(pal_tool_mcp_toolbox *tools)
{
    size_t names_cap = tools->cap, flags_cap = tools->cap; /* all have the same capacity */
    return pal_arena_reserve(tools->arena, &tools->as_task, &flags_cap, tools->len + 1,
                   sizeof(*tools->as_task)) &&
            pal_arena_reserve(tools->arena, &tools->names, &names_cap, tools->len + 1,
                   sizeof(*tools->names)) &&
            pal_arena_reserve(tools->arena, &tools->tools, &tools->cap, tools->len + 1,
                    sizeof(*tools->tools));
}

/* Says which server and which of its tools a recorded call went to: the shown name can be cut. */
static pal_str make_extra(pal_arena *arena, pal_str server, pal_str tool)
{
    pal_buf buf;
    pal_buf_init(&buf, PAL_MESSAGE_BYTES_MAX);
    pal_buf_append_text(&buf, "{\"mcp\":{\"server\":");
    pal_json_quote(&buf, server);
    pal_buf_append_text(&buf, ",\"tool\":");
    pal_json_quote(&buf, tool);
    pal_buf_append_text(&buf, "}}");
    pal_str extra = buf.failure ? (pal_str){0} : pal_arena_copy(arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return extra;
}

bool pal_tool_mcp_toolbox_add(pal_tool_mcp *mcp, pal_tool_mcp_toolbox *tools, pal_json tool)
{
    pal_str name = pal_json_string(pal_json_find(tool, "name"), mcp->scratch);
    pal_json text = pal_json_find(tool, "description");
    pal_json schema = pal_json_find(tool, "inputSchema");
    if (name.len == 0 || has_name(tools, name) || !can_be_called(mcp, name, tool))
        return true;
    if (tools->len >= PAL_TOOL_MCP_TOOLS_MAX || !grow(tools))
        return false;
    if (pal_json_type_of(text) != PAL_JSON_STRING)
        text = pal_json_find(tool, "title");
    tools->names[tools->len] = pal_arena_copy(tools->arena, name);
    tools->as_task[tools->len] = needs_task(mcp, tool);
    tools->tools[tools->len++] = (pal_tool){
            .description = pal_arena_copy(tools->arena, pal_json_string(text, mcp->scratch)),
            .schema = pal_json_type_of(schema) == PAL_JSON_OBJECT
                    ? pal_arena_copy(tools->arena, pal_json_raw(schema))
                    : (pal_str){0},
            .server = pal_arena_copy(tools->arena, mcp->config.name),
            .call_extra = make_extra(tools->arena, mcp->config.name, name),
    };
    (void)pal_json_bool(pal_json_find(pal_json_find(tool, "annotations"), "readOnlyHint"),
            &tools->tools[tools->len - 1].is_read_only);
    return pal_arena_failure(tools->arena) == PAL_OK;
}

/* ---- Naming ---- */

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
            c == '-';
}

/* Each character that is not allowed becomes one `_`, however many bytes it has. */
static void append_plain(pal_buf *out, pal_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (is_plain(text.data[i]))
            pal_buf_append_char(out, text.data[i]);
        else if (((unsigned char)text.data[i] & 0xc0) != 0x80)
            pal_buf_append_char(out, '_');
    }
}

static uint32_t hash(pal_str text)
{
    uint32_t value = 2166136261u;
    for (size_t i = 0; i < text.len; i++)
        value = (value ^ (unsigned char)text.data[i]) * 16777619u;
    return value;
}

/* If `salt` is 0, the name gets no hash, if possible. */
static pal_str make_name(pal_arena *arena, pal_str server, pal_str tool, uint32_t salt)
{
    char end[HASH_LEN + 1] = "";
    pal_buf name;
    pal_buf_init(&name, 2 + server.len + tool.len + HASH_LEN);
    append_plain(&name, server);
    pal_buf_append_text(&name, "__");
    append_plain(&name, tool);
    if (salt || name.len > NAME_LEN_MAX)
        snprintf(end, sizeof(end), "_%08x", (unsigned)(hash(tool) + salt));
    if (name.len > NAME_LEN_MAX - strlen(end))
        name.len = NAME_LEN_MAX - strlen(end);
    pal_buf_append_text(&name, end);
    pal_str copy = name.failure ? (pal_str){0} : pal_arena_copy(arena, pal_buf_str(&name));
    pal_buf_done(&name);
    return copy;
}

static bool is_plain_name(pal_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (!is_plain(name.data[i]))
            return false;
    }
    return true;
}

bool pal_tool_mcp_toolbox_name(pal_tool_mcp_toolbox *tools, pal_str server)
{
    pal_map taken;
    pal_map_init(&taken);
    bool has_memory = true;
    /* First the tools that keep their names, then the others. */
    for (size_t i = 0; has_memory && i < 2 * tools->len; i++) {
        size_t at = i % tools->len;
        pal_tool *tool = &tools->tools[at];
        if (is_plain_name(tools->names[at]) != (i < tools->len))
            continue;
        tool->name = make_name(tools->arena, server, tools->names[at], 0);
        for (uint32_t salt = 1; tool->name.len && pal_map_find(&taken, tool->name); salt++)
            tool->name = make_name(tools->arena, server, tools->names[at], salt);
        has_memory = tool->name.len && pal_map_set(&taken, tool->name, tool) == PAL_OK;
    }
    pal_map_done(&taken);
    return has_memory;
}

/* ---- Finding ---- */

bool pal_tool_mcp_toolbox_equal(const pal_tool_mcp_toolbox *a, const pal_tool_mcp_toolbox *b)
{
    if (a->len != b->len)
        return false;
    for (size_t i = 0; i < a->len; i++) {
        if (!pal_str_equal(a->names[i], b->names[i]) || a->as_task[i] != b->as_task[i] ||
                !pal_str_equal(a->tools[i].description, b->tools[i].description) ||
                !pal_str_equal(a->tools[i].schema, b->tools[i].schema) ||
                a->tools[i].is_read_only != b->tools[i].is_read_only)
            return false;
    }
    return true;
}

size_t pal_tool_mcp_toolbox_find(const pal_tool_mcp_toolbox *tools, pal_str name)
{
    size_t at = 0;
    while (at < tools->len && !pal_str_equal(tools->names[at], name))
        at++;
    return at;
}
