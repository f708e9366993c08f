/* server.c - opens the parts of the server in the order of their dependencies, and closes them in
 * reverse. Call it from one thread. */
#include "server/server.h"

#include <time.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "server/access/access_auth.h"
#include "server/access/access_rate.h"
#include "server/api/mcp/api_mcp.h"
#include "server/api/mistral/api_mistral_lock.h"
#include "server/api/native/api_feed.h"
#include "server/node/node.h"
#include "server/node/node_pass.h"
#include "server/observe/observe_trace.h"
#include "server/server_idempotency.h"
#include "server/server_internal.h"
#include "server/server_background.h"
#include "server/server_settings.h"
#include "server/websocket/websocket.h"

/* Without a key, everyone who can connect can read everything. So the server only opens on a local
 * address until a key exists. */
static pal_status check_open(pal_server *server, bool is_local, pal_error *err)
{
    bool any;
    pal_str listen = server->config->server.listen;
    pal_status status = pal_auth_has_keys(server->auth, &any, err);
    if (status != PAL_OK || any || is_local)
        return status;
    return pal_error_set(err, PAL_DENIED,
            "address '%.*s' is open to other machines, but no API key exists",
            PAL_EXCERPT(listen, 100));
}

static pal_status open_parts(pal_server *server, pal_error *err)
{
    bool is_local = pal_auth_address_is_local(server->config->server.listen);
    server->settings = pal_server_settings_new(server->config);
    server->auth = pal_auth_new(server->store, server->client, is_local);
    server->rate = pal_rate_new();
    server->background = pal_background_new();
    server->idempotency = pal_idempotency_new();
    server->mcp = pal_mcp_service_new(server);
    server->mistral_locks = pal_mistral_locks_new();
    if (!server->settings || !server->auth || !server->rate || !server->background ||
            !server->idempotency || !server->mcp || !server->mistral_locks)
        return pal_no_memory(err);
    pal_status status = check_open(server, is_local, err);
    pal_str url = server->config->server.otlp_url;
    if (status == PAL_OK && url.len)
        status = pal_trace_open(server->runtime, url, &server->trace, err);
    if (status == PAL_OK && server->config->server.websocket)
        status = pal_websocket_loop_open(&server->websockets, err);
    return status;
}

static pal_status open_listener(pal_server *server, pal_error *err)
{
    pal_listener_options options = {
            .config = &server->config->server,
            .is_local = pal_auth_address_is_local(server->config->server.listen),
            .admit = pal_server_admit,
            .handle = pal_server_handle,
            .refuse = pal_server_refuse,
            .ended = pal_server_ended,
            .user = server,
    };
    pal_listener *listener = NULL;
    pal_status status = pal_listener_open(&options, &listener, err);
    atomic_store(&server->listener, listener);
    return status;
}

pal_status pal_server_open(
        const pal_server_options *options, pal_server **out_server, pal_error *err)
{
    pal_server *server = pal_calloc(1, sizeof *server);
    if (!server)
        return pal_no_memory(err);
    server->store = options->store;
    server->runtime = options->runtime;
    server->models = options->models;
    server->config = options->config;
    server->route_settings = options->route_settings;
    server->metrics = options->metrics;
    server->client = options->client;
    server->channels = options->channels;
    server->started_at = pal_clock_now_ms();
    server->version = PAL_VERSION;
    pal_status status = open_parts(server, err);
    if (status != PAL_OK)
        goto out;
    server->feed = pal_feed_new(server);
    if (!server->feed) {
        status = pal_no_memory(err);
        goto out;
    }
    /* A server for one client of this process is not a node. */
    if (!server->client)
        status = pal_nodes_open(server, &server->nodes, err);
    if (status == PAL_OK && server->nodes)
        status = pal_pass_open(server->store, &server->passes, err);
    if (status != PAL_OK)
        goto out;
    server->maintenance = pal_maintenance_start(server);
    if (!server->maintenance) {
        status = pal_error_set(err, PAL_NO_MEMORY, "could not start a thread");
        goto out;
    }
    status = open_listener(server, err);
    if (status == PAL_OK && server->nodes)
        status = pal_nodes_start(server->nodes, err);
out:
    if (status != PAL_OK)
        pal_server_close(server);
    else
        *out_server = server;
    return status;
}

void pal_server_leave(pal_server *server, int64_t delay_ms)
{
    bool has_others = pal_nodes_has_others(server->nodes);
    struct timespec delay = {.tv_sec = delay_ms / 1000, .tv_nsec = delay_ms % 1000 * 1000000};
    atomic_store(&server->is_draining, true);
    pal_nodes_leave(server->nodes);
    if (has_others && delay_ms > 0)
        nanosleep(&delay, NULL);
    else if (!has_others)
        pal_server_quiesce(server);
}

void pal_server_quiesce(pal_server *server)
{
    pal_listener_quiesce(server->listener);
}

static pal_log_level level_of(pal_str name)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    for (int i = 0; i < 4; i++) {
        if (pal_str_is(name, names[i]))
            return (pal_log_level)i;
    }
    return PAL_LOG_INFO;
}

void pal_server_set_log(const pal_config_values *config, bool as_json)
{
    pal_log_setup(NULL, level_of(config->server.log_level), as_json);
}

void pal_server_forget_keys(pal_server *server)
{
    pal_auth_forget(server->auth);
}

void pal_server_close(pal_server *server)
{
    if (!server)
        return;
    pal_maintenance_stop(server->maintenance);
    pal_pass_end(server->passes);
    pal_websocket_loop_close(server->websockets, PAL_SERVER_CLOSE_MS);
    pal_listener_close(server->listener);
    pal_background_free(server->background);
    pal_websocket_loop_free(server->websockets);
    pal_pass_close(server->passes);
    pal_nodes_close(server->nodes);
    pal_feed_free(server->feed);
    pal_mistral_locks_free(server->mistral_locks);
    pal_mcp_service_free(server->mcp);
    pal_trace_close(server->trace);
    if (server->auth)
        pal_auth_note_used(server->auth);
    pal_idempotency_free(server->idempotency);
    pal_rate_free(server->rate);
    pal_auth_free(server->auth);
    pal_server_settings_free(server->settings);
    pal_free(server);
}
