/* turn_toolset.c - gathers the tools that a model is offered: the caller's, the built-in ones and
 * those of tool servers. The lists of servers can change at any time on the loop, so they are
 * copied. On the loop, except for pal_runtime_tools(). */
#include "turn/turn_toolset.h"

#include "base/json/json.h"
#include "base/memory.h"
#include "turn/runtime/runtime_ask.h"
#include "turn/runtime/runtime_copy.h"

pal_tool *pal_toolset_gather(const pal_runtime *runtime, const pal_turn_request *request,
        pal_arena *arena, size_t *out_len)
{
    size_t builtins = 0, len = 0, room = request->tools_len;
    const pal_tool *own = pal_builtin_tools(&builtins);
    pal_tool *tools;

    if (request->no_server_tools || runtime->options.builtin_tools_off)
        builtins = 0;
    for (size_t i = 0; !request->no_server_tools && i < runtime->servers_len; i++) {
        size_t count;

        pal_tool_mcp_tools(runtime->servers[i], &count);
        room += count;
    }
    tools = pal_arena_array(arena, room + builtins + 1, sizeof(*tools));
    if (!tools)
        return NULL;
    for (size_t i = 0; i < request->tools_len; i++)
        tools[len++] = request->tools[i];
    for (size_t i = 0; i < builtins; i++)
        tools[len++] = own[i];
    for (size_t i = 0; len < room + builtins && i < runtime->servers_len; i++) {
        size_t count;
        const pal_tool *theirs = pal_tool_mcp_tools(runtime->servers[i], &count);
        const pal_tool *copies = pal_copy_tools(arena, theirs, count);

        for (size_t j = 0; copies && j < count; j++)
            tools[len++] = copies[j];
    }
    *out_len = len;
    return pal_arena_failure(arena) == PAL_OK ? tools : NULL;
}

pal_status pal_toolset_check(const pal_turn_request *request, pal_arena *arena, pal_error *err)
{
    pal_error inner;
    pal_json schema;

    for (size_t i = 0; i < request->tools_len; i++) {
        const pal_tool *tool = &request->tools[i];

        if (tool->name.len == 0)
            return pal_error_set(err, PAL_INVALID, "tool %zu has no name", i);
        if (tool->schema.len > 0 &&
                pal_json_parse(arena, tool->schema, NULL, &schema, &inner) != PAL_OK)
            return pal_error_set(
                    err, PAL_INVALID, "the schema of tool %zu is not JSON: %s", i, inner.message);
    }
    return PAL_OK;
}

typedef struct toolset_job {
    pal_ask ask;
    const pal_runtime *runtime;
    pal_arena *arena;
    pal_tool *tools;
    size_t len;
} toolset_job;

static void gather_on_loop(pal_ask *ask)
{
    static const pal_turn_request nothing;
    toolset_job *job = (toolset_job *)ask;

    job->tools = pal_toolset_gather(job->runtime, &nothing, job->arena, &job->len);
}

pal_status pal_runtime_tools(pal_runtime *runtime, pal_arena *arena, pal_tool **out_tools,
        size_t *out_len, pal_error *err)
{
    toolset_job job = {.ask.run = gather_on_loop, .runtime = runtime, .arena = arena};

    pal_ask_loop(runtime->loop, &job.ask);
    if (!job.tools)
        return pal_no_memory(err);
    *out_tools = job.tools;
    *out_len = job.len;
    return PAL_OK;
}
