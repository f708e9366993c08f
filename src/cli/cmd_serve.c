/* cmd_serve.c - `palaver serve`: the server from its start to its end.
 *
 * The main thread does nothing but wait for signals, which all other threads leave to it: they are
 * blocked before the first of those is started. SIGTERM and SIGINT drain: no new requests, turns
 * end or are interrupted durably, then everything is closed. A second one ends the process at once,
 * which loses nothing that was acknowledged. SIGHUP reads the configuration anew. */
#include "cli/cli.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <stddef.h>
#include "base/log.h"
#include "server/server.h"
#include "server/server_auth.h"
#include "server/server_files.h"
#include "server/server_metrics.h"
#include "server/server_notify.h"

#define HEAP_SPARE_BYTES (4 << 20) /* that a thread keeps for its next request */

typedef struct serve_values {
    const char *listen;
    pal_cli_runtime_values runtime;
} serve_values;

static const pal_cli_option options[] = {
        {"listen", 0, PAL_CLI_TEXT, offsetof(serve_values, listen), "ADDRESS",
                "where to listen, 127.0.0.1:7077; port 0 takes a free one"},
        PAL_CLI_RUNTIME_OPTIONS(serve_values, runtime.),
        {0},
};

typedef struct serving {
    pal_cli_runtime runtime;
    pal_route_settings *route_settings;
    pal_metrics *metrics;
    pal_server *server;
    pal_config *reloaded; /* what SIGHUP read last; NULL: nothing yet */
} serving;

/* What counts of it now. */
static const pal_config *latest(const pal_cli *cli, const serving *s)
{
    return s->reloaded ? s->reloaded : cli->config;
}

/* ---- Signals ---- */

static sigset_t our_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    return set;
}

/* The files that decide are read as at the start. One that is wrong changes nothing. */
static pal_status read_again(const pal_cli *cli, pal_config **out_config, pal_error *err)
{
    pal_cli fresh = *cli;
    fresh.config = NULL;
    fresh.arena = pal_arena_new(0);
    if (!fresh.arena)
        return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    pal_status status = pal_cli_config_load(&fresh);
    pal_arena_free(fresh.arena);
    if (status == PAL_OK) {
        *out_config = fresh.config;
        return PAL_OK;
    }
    *err = fresh.err;
    pal_config_free(fresh.config);
    return status;
}

static void reload(pal_cli *cli, serving *s)
{
    pal_config *fresh = NULL;
    pal_error err;
    pal_notify_reloading();
    pal_server_forget_keys(s->server);
    if (read_again(cli, &fresh, &err) == PAL_OK) {
        pal_server_set_log(pal_config_get(fresh), cli->json);
        pal_server_reload(s->server, cli->config, latest(cli, s), fresh);
        pal_config_free(s->reloaded);
        s->reloaded = fresh;
        pal_log(PAL_LOG_INFO, "reloaded: keys were looked up anew, and the configuration was read");
    } else {
        pal_log(PAL_LOG_ERROR, "the configuration stays as it was: %s", err.message);
    }
    pal_notify("READY=1");
}

static void wait_for_end(pal_cli *cli, serving *s)
{
    sigset_t set = our_signals();
    int number = 0;
    while (sigwait(&set, &number) == 0 && number == SIGHUP)
        reload(cli, s);
    pal_log(PAL_LOG_INFO, "stopping: turns that run have %lld ms",
            (long long)pal_config_get(latest(cli, s))->server.drain_ms);
    pal_notify("STOPPING=1");
    sigdelset(&set, SIGHUP); /* whoever reloads now is too late, and must not end it */
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* ---- Opening and closing ---- */

static pal_status read_config(pal_cli *cli, const serve_values *given)
{
    if (!given->listen)
        return PAL_OK;
    pal_status status = pal_config_set(
            cli->config, "server.listen", pal_str_of(given->listen), PAL_CONFIG_FLAG, &cli->err);
    if (status == PAL_INVALID) {
        pal_error cause = cli->err;
        const char *wants = strstr(cause.message, "wants");
        return pal_cli_usage(cli, NULL, "--listen %s", wants ? wants : cause.message);
    }
    return status;
}

static pal_status open_store(pal_cli *cli, serving *s)
{
    s->metrics = pal_metrics_new();
    if (!s->metrics)
        return pal_cli_no_memory(cli);
    cli->store_trace = pal_metrics_store;
    cli->store_trace_user = s->metrics;
    return pal_cli_store_open(cli, PAL_CLI_CREATE);
}

static pal_status open_server(pal_cli *cli, serving *s)
{
    const pal_config_values *config = pal_config_get(cli->config);
    pal_status status = pal_route_settings_new(&config->session, &s->route_settings, &cli->err);
    if (status != PAL_OK)
        return status;
    pal_server_options server_options = {
            .store = cli->store,
            .runtime = s->runtime.runtime,
            .models = s->runtime.models,
            .config = config,
            .route_settings = s->route_settings,
            .metrics = s->metrics,
    };
    status = pal_server_open(&server_options, &s->server, &cli->err);
    if (status == PAL_DENIED)
        snprintf(cli->hint, sizeof cli->hint,
                "make one with 'palaver key create', or listen on 127.0.0.1 only");
    return status;
}

/* "[::1]:0" with the port that was given: "http://[::1]:41234". */
static pal_str address_of(pal_cli *cli, const serving *s)
{
    const pal_config_server *config = &pal_config_get(cli->config)->server;
    size_t host_len = config->listen.len;
    pal_buf address;
    while (host_len > 0 && config->listen.data[host_len - 1] != ':')
        host_len--;
    pal_buf_init(&address, 1024);
    pal_buf_format(&address, "%s://%.*s:%u", config->tls_certificate.len ? "https" : "http",
            (int)(host_len ? host_len - 1 : 0), config->listen.data,
            (unsigned)pal_listener_port(s->server->listener));
    pal_str text = pal_arena_copy(cli->arena, pal_buf_str(&address));
    pal_buf_done(&address);
    return text;
}

/* The first line has the address. The others are for a person who started it in a terminal. */
static void print_welcome(pal_cli *cli, const serving *s)
{
    pal_str address = address_of(cli, s);
    bool has_keys = true;
    pal_buf_format(&cli->out, "palaver %s is listening on %.*s\n", PAL_VERSION,
            PAL_STR_ARG(address));
    if (!cli->is_terminal)
        return;
    if (pal_keys_any(s->server->keys, &has_keys, NULL) != PAL_OK)
        has_keys = true; /* then nothing is promised */
    pal_buf_format(&cli->out, "Store: %s\nModel: %.*s at %.*s\n", cli->store_url,
            PAL_STR_ARG(s->runtime.model), PAL_STR_ARG(s->runtime.endpoint));
    if (has_keys)
        pal_buf_append_text(&cli->out, "Requests need a key.\n");
    else
        pal_buf_format(&cli->out,
                "Try: curl %.*s/api/v1/chat -d '{\"message\": \"Hello, is anybody there?\"}'\n",
                PAL_STR_ARG(address));
}

static void log_warnings(const pal_config *config)
{
    pal_str text;
    uint32_t line;
    for (size_t i = 0; pal_config_warning_at(config, i, &text, &line); i++)
        pal_log(PAL_LOG_WARN, "%s:%u: %.*s", pal_config_path(config), (unsigned)line,
                PAL_STR_ARG(text));
}

static pal_status open_all(pal_cli *cli, const serve_values *given, serving *s)
{
    pal_files files;
    pal_cli_runtime_values runtime = given->runtime;
    pal_status status = read_config(cli, given);
    if (status != PAL_OK)
        return status;
    runtime.runs_inbox = true;
    pal_files_claim(&pal_config_get(cli->config)->server, &files);
    runtime.calls_max = files.calls;
    pal_server_set_log(pal_config_get(cli->config), cli->json);
    log_warnings(cli->config);
    status = open_store(cli, s);
    if (status == PAL_OK)
        status = pal_cli_runtime_open(cli, &runtime, &s->runtime);
    if (status == PAL_OK)
        status = open_server(cli, s);
    return status;
}

static void close_all(pal_cli *cli, serving *s)
{
    if (s->server) {
        pal_server_quiesce(s->server);
        pal_runtime_drain(s->runtime.runtime, pal_config_get(latest(cli, s))->server.drain_ms);
    }
    pal_server_close(s->server);
    pal_cli_runtime_close(&s->runtime, 0);
    pal_route_settings_free(s->route_settings);
    /* It is told of every call of the store: that ends first. */
    pal_store_close(cli->store);
    cli->store = NULL;
    pal_metrics_free(s->metrics);
    pal_config_free(s->reloaded);
}

static pal_status serve(pal_cli *cli, void *values)
{
    serving s = {0};
    sigset_t set = our_signals();
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    /* Else glibc gives the memory of each larger answer back, and asks for it again. */
    mallopt(M_TRIM_THRESHOLD, HEAP_SPARE_BYTES);
    pal_status status = open_all(cli, values, &s);
    if (status == PAL_OK) {
        print_welcome(cli, &s);
        status = pal_cli_flush(cli);
    }
    if (status == PAL_OK) {
        if (s.runtime.is_stopgap)
            pal_log(PAL_LOG_WARN,
                    "no model is configured and none was found: 'echo' answers by repeating "
                    "what was said");
        pal_notify("READY=1");
        wait_for_end(cli, &s);
    }
    close_all(cli, &s);
    return status;
}

const pal_cli_command pal_cmd_serve = {
        .name = "serve",
        .summary = "offer everything over HTTP",
        .usage = "",
        .about = "Serves the APIs until it is told to stop (SIGTERM, SIGINT). The first line that "
                 "it prints has the address; the log goes to stderr, as JSON with --json. It "
                 "listens on this machine only, unless another address is given: that needs a key "
                 "('palaver key create').",
        .examples = "palaver serve\n"
                    "palaver serve --listen 127.0.0.1:8080 --provider echo",
        .options = options,
        .values_size = sizeof(serve_values),
        .run = serve,
};
