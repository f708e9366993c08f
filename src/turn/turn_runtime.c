/* turn_runtime.c - opens and closes a runtime, and keeps its turns. */
#include "turn/turn_runtime.h"

#include <stdio.h>
#include <unistd.h>

#include "base/json.h"
#include "base/memory.h"
#include "turn/turn_speech.h"
#include "turn/turn_copy.h"
#include "turn/turn_event.h"
#include "turn/turn_machine.h"
#include "turn/turn_ask.h"

enum { ENDED_MAX = 1000, WORKERS = 8 };

/* ---- Turns that are remembered ---- */

static void free_turn(pal_turn *turn)
{
    pal_event_done(turn);
    pal_speech_done(&turn->answer);
    pal_tools_done(turn);
    pal_buf_done(&turn->summary);
    pal_arena_free(turn->job_arena);
    pal_arena_free(turn->step_arena);
    pal_arena_free(turn->text_arena);
    pal_arena_free(turn->arena);
    pal_free(turn->epoch_body);
    pal_free(turn);
}

static void forget(pal_runtime *runtime, pal_turn *turn)
{
    pal_map_remove(
            &runtime->turns, pal_str_make((const char *)turn->id.bytes, sizeof(turn->id.bytes)));
    free_turn(turn);
}

/* The oldest go first; one that still has something in flight waits for another time. */
static void forget_oldest(pal_runtime *runtime, size_t keep)
{
    pal_turn **at = &runtime->ended_first;

    while (*at && runtime->ended_len > keep) {
        pal_turn *turn = *at;

        if (turn->holds > 0) {
            at = &turn->next;
            continue;
        }
        *at = turn->next;
        if (!*at)
            runtime->ended_last = at;
        runtime->ended_len--;
        forget(runtime, turn);
    }
}

/* What only a running turn needs goes at once. */
static void slim(pal_turn *turn)
{
    if (turn->holds > 0)
        return;
    pal_tools_done(turn);
    pal_speech_clear(&turn->answer);
    pal_arena_free(turn->step_arena);
    turn->step_arena = NULL;
    turn->request_messages = NULL;
}

void pal_runtime_ended(pal_turn *turn, bool has_run)
{
    pal_runtime *runtime = turn->runtime;

    runtime->turns_len--;
    slim(turn);
    turn->next = NULL;
    *runtime->ended_last = turn;
    runtime->ended_last = &turn->next;
    runtime->ended_len++;
    pthread_mutex_lock(&runtime->lock);
    runtime->stats.turns_ended += has_run;
    runtime->stats.turns_failed += has_run && turn->state == PAL_TURN_FAILED;
    pthread_cond_broadcast(&runtime->changed);
    pthread_mutex_unlock(&runtime->lock);
    forget_oldest(runtime, ENDED_MAX);
}

/* ---- Starting one ---- */

static const pal_tool *gather_tools(pal_turn *turn, size_t *out_len)
{
    const pal_runtime *runtime = turn->runtime;
    const pal_turn_request *request = &turn->request;
    size_t builtins = 0, len = 0, room = request->tools_len;
    const pal_tool *own = pal_builtin_tools(&builtins);
    pal_tool *tools;

    if (request->no_server_tools || runtime->options.builtin_tools_off)
        builtins = 0;
    for (size_t i = 0; !request->no_server_tools && i < runtime->servers_len; i++) {
        size_t count;

        pal_mcp_tools(runtime->servers[i], &count);
        room += count;
    }
    tools = pal_arena_array(turn->arena, room + builtins + 1, sizeof(*tools));
    if (!tools)
        return NULL;
    for (size_t i = 0; i < request->tools_len; i++)
        tools[len++] = request->tools[i];
    for (size_t i = 0; i < builtins; i++)
        tools[len++] = own[i];
    for (size_t i = 0; len < room + builtins && i < runtime->servers_len; i++) {
        size_t count;
        const pal_tool *theirs = pal_mcp_tools(runtime->servers[i], &count);
        const pal_tool *copies = pal_copy_tools(turn->arena, theirs, count);

        for (size_t j = 0; copies && j < count; j++)
            tools[len++] = copies[j];
    }
    *out_len = len;
    return tools;
}

/* The caller's tools; servers' own were checked when they were listed. */
static pal_status check_tools(pal_turn *turn, pal_error *err)
{
    pal_error inner;
    pal_json schema;

    for (size_t i = 0; i < turn->request.tools_len; i++) {
        const pal_tool *tool = &turn->request.tools[i];

        if (tool->name.len == 0)
            return pal_error_set(err, PAL_INVALID, "tool %zu has no name", i);
        if (tool->schema.len > 0 &&
                pal_json_parse(turn->arena, tool->schema, NULL, &schema, &inner) != PAL_OK)
            return pal_error_set(
                    err, PAL_INVALID, "the schema of tool %zu is no JSON: %s", i, inner.message);
    }
    return PAL_OK;
}

static pal_status choose_provider(pal_turn *turn, pal_error *err)
{
    const pal_runtime *runtime = turn->runtime;
    pal_turn_request *request = &turn->request;
    size_t chosen = 0;

    while (request->endpoint.len && chosen < runtime->providers_len &&
            !pal_str_equal(pal_provider_name(runtime->providers[chosen]), request->endpoint))
        chosen++;
    if (chosen == runtime->providers_len)
        return pal_error_set(err, PAL_NOT_FOUND, "there is no endpoint '%.*s'",
                (int)(request->endpoint.len < 80 ? request->endpoint.len : 80),
                request->endpoint.data ? request->endpoint.data : "");
    turn->provider = runtime->providers[chosen];
    if (request->model.len == 0)
        request->model = runtime->provider_models[chosen];
    return PAL_OK;
}

pal_turn *pal_turn_make(
        pal_runtime *runtime, pal_arena *arena, const pal_turn_request *request, pal_error *err)
{
    pal_turn *turn = pal_calloc(1, sizeof(*turn));
    pal_status status = PAL_OK;

    if (!turn) {
        pal_error_set(err, PAL_NO_MEMORY, "out of memory");
        return NULL;
    }
    turn->runtime = runtime;
    turn->arena = arena;
    turn->request = *request;
    turn->id = turn->info.turn = pal_id_new();
    turn->info.session = request->session;
    pal_speech_init(&turn->answer);
    pal_buf_init(&turn->summary, PAL_MESSAGE_BYTES_MAX);
    status = choose_provider(turn, err);
    if (status == PAL_OK)
        status = check_tools(turn, err);
    if (status == PAL_OK) {
        turn->tools = gather_tools(turn, &turn->tools_len);
        turn->lane = pal_lane_of(runtime, request->tenant, request->session);
        if (!turn->tools || !turn->lane ||
                pal_map_set(&runtime->turns,
                        pal_str_make((const char *)turn->id.bytes, sizeof(turn->id.bytes)),
                        turn) != PAL_OK)
            status = pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    }
    if (status != PAL_OK) {
        turn->arena = NULL; /* the caller's still */
        free_turn(turn);
        return NULL;
    }
    runtime->turns_len++;
    return turn;
}

/* ---- Opening and closing ---- */

static pal_status open_providers(pal_runtime *runtime, pal_error *err)
{
    const pal_runtime_options *options = &runtime->options;
    pal_status status = PAL_OK;

    runtime->providers =
            pal_arena_array(runtime->arena, options->endpoints_len, sizeof(*runtime->providers));
    runtime->provider_models = pal_arena_array(
            runtime->arena, options->endpoints_len, sizeof(*runtime->provider_models));
    if (!runtime->providers || !runtime->provider_models)
        return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    for (size_t i = 0; status == PAL_OK && i < options->endpoints_len; i++) {
        const pal_endpoint *endpoint = &options->endpoints[i];
        pal_provider_config config = {
                .name = endpoint->name,
                .kind = endpoint->kind,
                .url = endpoint->url,
                .api_key = endpoint->api_key,
                .headers = (const pal_http_header *)endpoint->headers,
                .headers_len = endpoint->headers_len,
                .path = endpoint->path,
        };

        status = pal_provider_open(
                runtime->http, runtime->loop, &config, &runtime->providers[i], err);
        runtime->provider_models[i] = endpoint->model.len ? endpoint->model : endpoint->kind;
        runtime->providers_len += status == PAL_OK;
    }
    return status;
}

static void ignore_change(pal_mcp *mcp, void *user)
{
}

static pal_status open_servers(pal_runtime *runtime, pal_error *err)
{
    const pal_runtime_options *options = &runtime->options;
    pal_status status = PAL_OK;

    runtime->servers =
            pal_arena_array(runtime->arena, options->tool_servers_len + 1, sizeof(pal_mcp *));
    if (!runtime->servers)
        return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    for (size_t i = 0; status == PAL_OK && i < options->tool_servers_len; i++) {
        const pal_tool_server *server = &options->tool_servers[i];
        pal_mcp_config config = {
                .name = server->name,
                .command = server->command,
                .command_len = server->command_len,
                .environment = server->environment,
                .environment_len = server->environment_len,
                .url = server->url,
                .headers = (const pal_http_header *)server->headers,
                .headers_len = server->headers_len,
                .call_ms = server->call_ms,
        };

        status = pal_mcp_open(runtime->loop, runtime->http, &config, ignore_change, NULL,
                &runtime->servers[i], err);
        runtime->servers_len += status == PAL_OK;
    }
    return status;
}

typedef struct opening {
    pal_ask ask;
    pal_runtime *runtime;
    pal_status status;
    pal_error *err;
} opening;

static void open_on_loop(pal_ask *ask)
{
    opening *o = (opening *)ask;

    o->status = pal_http_open(o->runtime->loop, NULL, &o->runtime->http, o->err);
    if (o->status == PAL_OK)
        o->status = open_providers(o->runtime, o->err);
    if (o->status == PAL_OK)
        o->status = open_servers(o->runtime, o->err);
}

static void close_on_loop(pal_ask *ask)
{
    pal_runtime *runtime = ((opening *)ask)->runtime;

    forget_oldest(runtime, 0);
    for (size_t i = 0; i < runtime->servers_len; i++)
        pal_mcp_close(runtime->servers[i]);
    for (size_t i = 0; i < runtime->providers_len; i++)
        pal_provider_close(runtime->providers[i]);
    pal_http_close(runtime->http);
}

static void free_runtime(pal_runtime *runtime)
{
    pal_loop_close(runtime->loop);
    pal_map_done(&runtime->lanes);
    pal_map_done(&runtime->turns);
    pal_journal_done(&runtime->journal);
    pthread_cond_destroy(&runtime->changed);
    pthread_mutex_destroy(&runtime->lock);
    pal_arena_free(runtime->arena);
    pal_free(runtime);
}

static void set_owner(pal_runtime *runtime)
{
    char id[PAL_ID_TEXT_SIZE];

    pal_id_to_text(pal_id_new(), id);
    snprintf(runtime->owner, sizeof(runtime->owner), "%ld:%s", (long)getpid(), id);
}

static const pal_endpoint echo = {.kind = {"echo", 4}, .model = {"echo", 4}};

pal_status pal_runtime_open(
        const pal_runtime_options *options, pal_runtime **out_runtime, pal_error *err)
{
    pal_runtime *runtime = pal_calloc(1, sizeof(*runtime));
    pal_runtime_options given = *options;
    opening o = {.ask.run = open_on_loop, .runtime = runtime, .err = err};

    if (!runtime)
        return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    pthread_mutex_init(&runtime->lock, NULL);
    pthread_cond_init(&runtime->changed, NULL);
    pal_map_init(&runtime->lanes);
    pal_map_init(&runtime->turns);
    pal_journal_init(&runtime->journal, runtime);
    runtime->ended_last = &runtime->ended_first;
    runtime->store = options->store;
    runtime->arena = pal_arena_new(0);
    set_owner(runtime);
    o.status = runtime->arena ? PAL_OK : pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    if (given.endpoints_len == 0) {
        given.endpoints = &echo;
        given.endpoints_len = 1;
    }
    if (o.status == PAL_OK) {
        runtime->options = pal_copy_options(runtime->arena, &given);
        if (pal_arena_failure(runtime->arena) != PAL_OK)
            o.status = pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    }
    if (o.status == PAL_OK)
        o.status = pal_loop_open(WORKERS, &runtime->loop, err);
    if (o.status == PAL_OK)
        pal_ask_loop(runtime->loop, &o.ask);
    if (o.status == PAL_OK) {
        *out_runtime = runtime;
        return PAL_OK;
    }
    if (runtime->loop) {
        o.ask = (pal_ask){.run = close_on_loop};
        pal_ask_loop(runtime->loop, &o.ask);
    }
    free_runtime(runtime);
    return o.status;
}

static void stop_all(pal_ask *ask)
{
    pal_runtime *runtime = ((opening *)ask)->runtime;
    size_t position = 0;
    pal_str key;
    void *value;

    while (pal_map_next(&runtime->turns, &position, &key, &value)) {
        pal_turn *turn = value;

        if (turn->phase != PAL_PHASE_ENDED && turn->state != PAL_TURN_QUEUED)
            pal_turn_stop(turn, "the server stops");
    }
}

static void refuse_new(pal_ask *ask)
{
    ((opening *)ask)->runtime->is_closing = true;
}

static bool is_idle(pal_runtime *runtime)
{
    return runtime->stats.turns_running == 0;
}

static void wait_idle(pal_runtime *runtime, int64_t timeout_ms)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&runtime->lock);
    while (!is_idle(runtime) &&
            pthread_cond_timedwait(&runtime->changed, &runtime->lock, &until) == 0)
        ;
    pthread_mutex_unlock(&runtime->lock);
}

void pal_runtime_close(pal_runtime *runtime, int64_t drain_ms)
{
    opening o = {.ask.run = refuse_new, .runtime = runtime};

    if (!runtime)
        return;
    pal_ask_loop(runtime->loop, &o.ask);
    wait_idle(runtime, drain_ms);
    o.ask = (pal_ask){.run = stop_all};
    pal_ask_loop(runtime->loop, &o.ask);
    wait_idle(runtime, 10000);
    o.ask = (pal_ask){.run = close_on_loop};
    pal_ask_loop(runtime->loop, &o.ask);
    free_runtime(runtime);
}

void pal_runtime_stat(pal_runtime *runtime, pal_runtime_stats *out_stats)
{
    pthread_mutex_lock(&runtime->lock);
    *out_stats = runtime->stats;
    pthread_mutex_unlock(&runtime->lock);
}

pal_status pal_runtime_default(pal_runtime *runtime, pal_arena *arena, pal_str *out_endpoint,
        pal_str *out_model, pal_error *err)
{
    *out_endpoint = pal_arena_copy(arena, pal_provider_name(runtime->providers[0]));
    *out_model = pal_arena_copy(arena, runtime->provider_models[0]);
    if (pal_arena_failure(arena) != PAL_OK)
        return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    return PAL_OK;
}
