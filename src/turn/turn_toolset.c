/* turn_toolset.c - gathers the tools that a model is offered: the caller's, the built-in ones and
 * those of tool servers. The lists of servers can change at any time on the loop, so they are
 * copied. On the loop, except for counting and pal_runtime_tools().
 *
 * Counting a definition parses its schema. Most turns bring the same definitions as the turns
 * before, so the runtime keeps the counts. A key is the complete definition and its encoding, so an
 * entry is never out of date. runtime->lock protects the entries. */
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

/* ---- Counting ---- */

#define COUNTS_BYTES_MAX ((size_t)1 << 20) /* bytes of all keys; beyond that all are dropped */
#define KEY_LEN_MAX (COUNTS_BYTES_MAX / 16)

typedef struct tool_count {
    uint64_t tokens;
    char key[];
} tool_count;

static void put_key(const pal_encoding *encoding, const pal_tool *tool, pal_buf *key)
{
    pal_buf_clear(key);
    pal_buf_append(key, &encoding, sizeof(encoding));
    pal_buf_append(key, &tool->name.len, sizeof(tool->name.len));
    pal_buf_append(key, &tool->description.len, sizeof(tool->description.len));
    pal_buf_append_str(key, tool->name);
    pal_buf_append_str(key, tool->description);
    pal_buf_append_str(key, tool->schema);
}

/* The caller holds runtime->lock. */
static void drop_counts(pal_runtime *runtime)
{
    size_t position = 0;
    pal_str key;
    void *value;

    while (pal_map_next(&runtime->tool_counts, &position, &key, &value))
        pal_free(value);
    pal_map_done(&runtime->tool_counts);
    pal_map_init(&runtime->tool_counts);
    runtime->tool_counts_bytes = 0;
}

/* A count that cannot be kept is made again the next time. The caller holds runtime->lock. */
static void keep_count(pal_runtime *runtime, pal_str key, uint64_t tokens)
{
    tool_count *count;

    if (key.len > KEY_LEN_MAX || pal_map_find(&runtime->tool_counts, key))
        return;
    if (runtime->tool_counts_bytes + key.len > COUNTS_BYTES_MAX)
        drop_counts(runtime);
    count = pal_malloc(sizeof(*count) + key.len);
    if (!count)
        return;
    count->tokens = tokens;
    memcpy(count->key, key.data, key.len);
    if (pal_map_set(&runtime->tool_counts, pal_str_make(count->key, key.len), count) == PAL_OK)
        runtime->tool_counts_bytes += key.len;
    else
        pal_free(count);
}

static pal_status count_tool(pal_runtime *runtime, const pal_encoding *encoding,
        const pal_tool *tool, pal_buf *key, uint64_t *out_tokens, pal_error *err)
{
    const tool_count *known;
    pal_status status;

    *out_tokens = tool->tokens;
    if (tool->tokens > 0)
        return PAL_OK;
    put_key(encoding, tool, key);
    if (key->failure != PAL_OK)
        return pal_no_memory(err);
    pthread_mutex_lock(&runtime->lock);
    known = pal_map_find(&runtime->tool_counts, pal_buf_str(key));
    if (known)
        *out_tokens = known->tokens;
    pthread_mutex_unlock(&runtime->lock);
    if (known)
        return PAL_OK;
    status = pal_tokens_tool(
            encoding, tool->name, tool->description, tool->schema, out_tokens, err);
    if (status != PAL_OK)
        return status;
    pthread_mutex_lock(&runtime->lock);
    keep_count(runtime, pal_buf_str(key), *out_tokens);
    pthread_mutex_unlock(&runtime->lock);
    return PAL_OK;
}

pal_status pal_toolset_count(pal_runtime *runtime, const pal_encoding *encoding,
        const pal_tool *tools, size_t len, pal_arena *arena, uint64_t **out_tokens,
        pal_error *err)
{
    uint64_t *tokens = pal_arena_array(arena, len + 1, sizeof(*tokens));
    pal_status status = PAL_OK;
    pal_buf key;

    if (!tokens)
        return pal_no_memory(err);
    pal_buf_init(&key, SIZE_MAX);
    for (size_t i = 0; status == PAL_OK && i < len; i++)
        status = count_tool(runtime, encoding, &tools[i], &key, &tokens[i], err);
    pal_buf_done(&key);
    if (status == PAL_OK)
        *out_tokens = tokens;
    return status;
}

void pal_toolset_done(pal_runtime *runtime)
{
    drop_counts(runtime);
    pal_map_done(&runtime->tool_counts);
}

/* ---- The list of a runtime ---- */

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
    for (size_t i = 0; job->tools && i < job->len; i++)
        job->tools[i].permission =
                pal_turn_settings_permission(&job->runtime->options, &job->tools[i]);
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
