/* runtime_servers.c - the tool servers of a runtime, and turns and other threads that wait until
 * the servers have started.
 *
 * A server takes a moment to start and to list its tools, and a turn that begins meanwhile would
 * not have them. So turns wait for starting servers, but only during the first `tools_wait_ms`
 * after the runtime opened. Then they continue with the available tools, and report which servers
 * are missing. If a server dies later, turns do not wait for it and its last list stays in use. On
 * the loop, except for the pal_runtime_...() functions, which other threads call. */
#include "turn/runtime/runtime_servers.h"

#include "base/memory.h"
#include "base/text.h"
#include "turn/runtime/runtime_ask.h"
#include "turn/turn_event.h"
#include "turn/turn.h"
#include "turn/turn_toolset.h"

/* ---- Waiting ---- */

static bool is_starting(const pal_runtime *runtime)
{
    for (size_t i = 0; i < runtime->servers_len; i++)
        if (pal_tool_mcp_state_of(runtime->servers[i]) == PAL_TOOL_MCP_STARTING)
            return true;
    return false;
}

/* A model that was promised tools and has none may answer oddly, so report which servers are
 * missing. */
static void tell_missing(pal_turn *turn)
{
    for (size_t i = 0; i < turn->runtime->servers_len; i++) {
        const pal_tool_mcp *server = turn->runtime->servers[i];
        pal_str why = pal_tool_mcp_failure(server);

        if (pal_tool_mcp_state_of(server) == PAL_TOOL_MCP_READY)
            continue;
        pal_event_publish(turn,
                (pal_event){.kind = PAL_EVENT_TOOLS_MISSING,
                        .name = pal_tool_mcp_name(server),
                        .text = why.len ? why : pal_str_of("the server is still starting")});
    }
}

bool pal_servers_gather(pal_turn *turn)
{
    turn->step.model = (pal_model){0}; /* the tools are counted with the next plan */
    turn->step.tools =
            pal_toolset_gather(turn->runtime, &turn->request, turn->arena, &turn->step.tools_len);
    return turn->step.tools != NULL;
}

static void go_on(pal_turn *turn)
{
    if (!pal_servers_gather(turn)) {
        pal_turn_fail(turn, PAL_NO_MEMORY, "out of memory");
    } else if (turn->step.runs) { /* it waited for a client, and has calls to run */
        turn->step.tools_len = pal_turn_settings_tools(
                &turn->settings, turn->step.tools, turn->step.tools_len, turn->request.tools_len);
        pal_tools_go_on(turn);
    } else {
        pal_turn_next_step(turn);
    }
}

/* A thread that waits for starting servers. It is on the stack of the thread. */
typedef struct pal_server_ask pal_server_ask;
struct pal_server_ask {
    pal_ask ask;
    pal_runtime *runtime;
    pal_server_ask *next;
};

static void end_asks(pal_runtime *runtime)
{
    while (runtime->server_asks) {
        pal_server_ask *ask = runtime->server_asks;

        runtime->server_asks = ask->next;
        pal_ask_end(&ask->ask);
    }
}

static void wake_all(pal_runtime *runtime)
{
    end_asks(runtime);
    while (runtime->server_waiters) {
        pal_turn *turn = runtime->server_waiters;

        pal_servers_leave(turn);
        tell_missing(turn);
        go_on(turn);
    }
}

static void on_servers_timeout(pal_timer *timer)
{
    wake_all((pal_runtime *)((char *)timer - offsetof(pal_runtime, servers_timer)));
}

static void on_server_change(pal_tool_mcp *mcp, void *user)
{
    pal_runtime *runtime = user;

    (void)mcp;
    if (!is_starting(runtime))
        wake_all(runtime);
}

static void on_server_warning(void *user, pal_str text)
{
    const pal_runtime *runtime = user;

    if (runtime->options.on_warning)
        runtime->options.on_warning(text, runtime->options.warning_user);
}

/* The timer starts when the runtime opens. After it has fired, nothing waits any more. */
static bool are_awaited(const pal_runtime *runtime)
{
    return runtime->servers_timer.position != 0 && is_starting(runtime);
}

bool pal_servers_are_awaited(const pal_turn *turn)
{
    return !turn->request.no_server_tools && !turn->summary.wait && are_awaited(turn->runtime);
}

static void await_on_loop(pal_task *task)
{
    pal_server_ask *ask =
            (pal_server_ask *)((char *)task - offsetof(pal_server_ask, ask.task));
    pal_runtime *runtime = ask->runtime;

    if (!are_awaited(runtime)) {
        pal_ask_end(&ask->ask);
        return;
    }
    ask->next = runtime->server_asks;
    runtime->server_asks = ask;
}

void pal_runtime_tools_await(pal_runtime *runtime)
{
    pal_server_ask ask = {.ask.task.run = await_on_loop, .runtime = runtime};

    pal_ask_begin(&ask.ask);
    pal_loop_post(runtime->loop, &ask.ask.task);
    pal_ask_wait(&ask.ask);
}

void pal_servers_await(pal_turn *turn)
{
    pal_runtime *runtime = turn->runtime;

    if (!pal_servers_are_awaited(turn)) {
        go_on(turn);
        return;
    }
    pal_turn_enter(turn, PAL_TURN_PHASE_SERVERS);
    turn->next_waiter = runtime->server_waiters;
    runtime->server_waiters = turn;
}

void pal_servers_leave(pal_turn *turn)
{
    pal_turn **at = &turn->runtime->server_waiters;

    while (*at && *at != turn)
        at = &(*at)->next_waiter;
    if (*at)
        *at = turn->next_waiter;
    turn->next_waiter = NULL;
}

/* ---- Opening ---- */

/* Tools are shown as NAME__TOOL. Servers must not have names such as "files" and "files__old": a
 * tool of the first could then have a name of the second, and the rules for the second would apply
 * to it. */
static pal_status check_names(const pal_runtime_options *options, pal_error *err)
{
    for (size_t i = 0; i < options->tool_servers_len; i++) {
        pal_str name = options->tool_servers[i].name;

        for (size_t j = 0; j < options->tool_servers_len; j++) {
            pal_str other = options->tool_servers[j].name;

            if (pal_text_begins_str(other, name) &&
                    pal_text_begins(pal_text_after(other, name.len), "__"))
                return pal_error_set(err, PAL_INVALID,
                        "tool servers '%.*s' and '%.*s' could have tools of the same name; rename "
                        "one of them",
                        PAL_EXCERPT(name, 60), PAL_EXCERPT(other, 60));
        }
    }
    return PAL_OK;
}

static pal_status open_server(
        pal_runtime *runtime, const pal_tool_server *server, pal_tool_mcp **out_mcp, pal_error *err)
{
    pal_tool_mcp_config config = {
            .name = server->name,
            .command = server->command,
            .command_len = server->command_len,
            .environment = server->environment,
            .environment_len = server->environment_len,
            .url = server->url,
            .headers = server->headers,
            .headers_len = server->headers_len,
            .call_ms = server->call_ms,
            .auth = server->auth,
            .can_ask = !runtime->options.cannot_ask,
            .on_warning = on_server_warning,
    };

    return pal_tool_mcp_open(
            runtime->loop, runtime->http, &config, on_server_change, runtime, out_mcp, err);
}

pal_status pal_servers_open(pal_runtime *runtime, pal_error *err)
{
    const pal_runtime_options *options = &runtime->options;
    pal_status status = check_names(options, err);

    if (status != PAL_OK)
        return status;
    runtime->servers =
            pal_arena_array(runtime->arena, options->tool_servers_len + 1, sizeof(pal_tool_mcp *));
    if (!runtime->servers)
        return pal_no_memory(err);
    for (size_t i = 0; status == PAL_OK && i < options->tool_servers_len; i++) {
        status = open_server(runtime, &options->tool_servers[i], &runtime->servers[i], err);
        runtime->servers_len += status == PAL_OK;
    }
    if (status == PAL_OK && runtime->servers_len > 0 &&
            !pal_loop_timer_start(
                    runtime->loop, &runtime->servers_timer, options->tools_wait_ms,
                            on_servers_timeout))
        status = pal_no_memory(err);
    return status;
}

const pal_tool_server *pal_runtime_tool_server(const pal_runtime *runtime, pal_str name)
{
    const pal_runtime_options *options = &runtime->options;

    for (size_t i = 0; i < options->tool_servers_len; i++)
        if (name.len == 0 || pal_str_equal(options->tool_servers[i].name, name))
            return &options->tool_servers[i];
    return NULL;
}

const char *pal_tool_server_state_name(pal_tool_server_state state)
{
    static const char *const names[] = {"none", "starting", "ready", "restarting", "failed"};

    return (size_t)state < sizeof(names) / sizeof(names[0]) ? names[state] : "none";
}

typedef struct servers_look {
    pal_ask ask;
    const pal_runtime *runtime;
    pal_arena *arena;
    pal_tool_server_info *infos;
} servers_look;

static void look_on_loop(pal_ask *ask)
{
    static const pal_tool_server_state states[] = {
            [PAL_TOOL_MCP_STARTING] = PAL_TOOL_SERVER_STARTING,
            [PAL_TOOL_MCP_READY] = PAL_TOOL_SERVER_READY,
            [PAL_TOOL_MCP_WAITING] = PAL_TOOL_SERVER_RESTARTING,
            [PAL_TOOL_MCP_FAILED] = PAL_TOOL_SERVER_FAILED,
    };
    servers_look *look = (servers_look *)ask;

    for (size_t i = 0; i < look->runtime->servers_len; i++) {
        const pal_tool_mcp *server = look->runtime->servers[i];

        look->infos[i] = (pal_tool_server_info){
                .name = pal_arena_copy(look->arena, pal_tool_mcp_name(server)),
                .state = states[pal_tool_mcp_state_of(server)],
                .reason = pal_arena_copy(look->arena, pal_tool_mcp_failure(server))};
    }
}

pal_status pal_runtime_tool_servers(pal_runtime *runtime, pal_arena *arena,
        pal_tool_server_info **out_servers, size_t *out_len, pal_error *err)
{
    servers_look look = {.ask.run = look_on_loop, .runtime = runtime, .arena = arena};

    look.infos = pal_arena_array(arena, runtime->servers_len + 1, sizeof(*look.infos));
    if (!look.infos)
        return pal_no_memory(err);
    pal_ask_loop(runtime->loop, &look.ask);
    if (pal_arena_failure(arena) != PAL_OK)
        return pal_no_memory(err);
    *out_servers = look.infos;
    *out_len = runtime->servers_len;
    return PAL_OK;
}

void pal_servers_close(pal_runtime *runtime)
{
    pal_loop_timer_stop(runtime->loop, &runtime->servers_timer);
    end_asks(runtime);
    for (size_t i = 0; i < runtime->servers_len; i++)
        pal_tool_mcp_close(runtime->servers[i]);
}
