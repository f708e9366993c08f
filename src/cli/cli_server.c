/* cli_server.c - opens a server with everything that it needs, and closes it. */
#include "cli/cli.h"

#include "base/log.h"
#include "base/memory.h"
#include "server/observe/observe_metrics.h"
#include "server/server.h"

#define SEND_MS 10000 /* how long a stop waits for answers that are ready to be sent */

static pal_status open_store(pal_cli *cli, pal_cli_server *s)
{
    s->metrics = pal_metrics_new();
    if (!s->metrics)
        return pal_cli_no_memory(cli);
    cli->store_trace = pal_metrics_store;
    cli->store_trace_user = s->metrics;
    return pal_cli_store_open(cli, PAL_CLI_CREATE);
}

static pal_status open_server(pal_cli *cli, const pal_server_client *client, pal_cli_server *s)
{
    const pal_config_values *config = pal_config_get(cli->config);
    pal_server_options options = {
            .store = cli->store,
            .runtime = s->runtime.runtime,
            .models = s->runtime.models,
            .config = config,
            .route_settings = s->route_settings,
            .metrics = s->metrics,
            .client = client,
            .channels = s->channels,
    };
    pal_status status = pal_server_open(&options, &s->server, &cli->err);
    if (status == PAL_DENIED)
        snprintf(cli->hint, sizeof cli->hint,
                "create a key with 'palaver key create', or listen on 127.0.0.1");
    return status;
}

static void log_channel(bool is_problem, pal_str text, void *user)
{
    (void)user;
    pal_log(is_problem ? PAL_LOG_WARN : PAL_LOG_INFO, "%.*s", PAL_STR_ARG(text));
}

/* Channels are made before the runtime, which tells them about answers, and start last. */
static pal_status open_channels(pal_cli *cli, pal_cli_server *s)
{
    pal_channels_options options = {.store = cli->store,
            .route_settings = s->route_settings,
            .on_log = log_channel};
    pal_channel_settings *accounts = NULL;
    pal_status status = pal_config_channels(
            cli->config, cli->arena, &accounts, &options.accounts_len, &cli->err);

    if (status != PAL_OK || options.accounts_len == 0)
        return status;
    options.accounts = accounts;
    return pal_channels_open(&options, &s->channels, &cli->err);
}

pal_status pal_cli_server_open(pal_cli *cli, const pal_cli_runtime_values *given,
        const pal_server_client *client, pal_cli_server *out_server)
{
    *out_server = (pal_cli_server){0};
    pal_status status = open_store(cli, out_server);
    if (status != PAL_OK)
        return status;
    pal_cli_runtime_values values = *given;
    values.on_model_call = pal_metrics_model_call;
    values.model_call_user = out_server->metrics;
    status = pal_route_settings_new(
            &pal_config_get(cli->config)->session, &out_server->route_settings, &cli->err);
    if (status == PAL_OK && !client)
        status = open_channels(cli, out_server);
    values.channels = out_server->channels;
    if (status == PAL_OK)
        status = pal_cli_runtime_open(cli, &values, &out_server->runtime);
    if (status == PAL_OK)
        status = open_server(cli, client, out_server);
    if (status == PAL_OK && out_server->channels)
        status = pal_channels_start(
                out_server->channels, out_server->runtime.runtime, &cli->err);
    return status;
}

void pal_cli_server_close(pal_cli *cli, pal_cli_server *server, int64_t drain_ms)
{
    if (server->server) {
        pal_server_leave(
                server->server, pal_config_get(cli->config)->server.drain_delay_ms);
        pal_runtime_drain(server->runtime.runtime, drain_ms);
        pal_channels_stop(server->channels, drain_ms < SEND_MS ? drain_ms : SEND_MS);
        pal_server_quiesce(server->server);
    }
    pal_channels_stop(server->channels, 0);
    pal_server_close(server->server);
    pal_cli_runtime_close(&server->runtime, 0);
    pal_channels_close(server->channels);
    pal_route_settings_free(server->route_settings);
    /* The metrics are notified of every call of the store, so the store is closed first. */
    pal_store_close(cli->store);
    cli->store = NULL;
    pal_metrics_free(server->metrics);
    *server = (pal_cli_server){0};
}

pal_str pal_cli_server_address(pal_cli *cli, const pal_cli_server *server)
{
    const pal_config_server *config = &pal_config_get(cli->config)->server;
    size_t host_len = config->listen.len;
    pal_buf address;
    while (host_len > 0 && config->listen.data[host_len - 1] != ':')
        host_len--;
    pal_buf_init(&address, 1024);
    pal_buf_format(&address, "%s://%.*s:%u", config->tls_certificate.len ? "https" : "http",
            (int)(host_len ? host_len - 1 : 0), config->listen.data,
            (unsigned)pal_listener_port(server->server->listener));
    pal_str text = pal_arena_copy(cli->arena, pal_buf_str(&address));
    pal_buf_done(&address);
    return text;
}
