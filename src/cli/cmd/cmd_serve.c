/* cmd_serve.c - `palaver serve`: runs the server from start to end.
 *
 * The main thread only waits for signals. All other threads have them blocked, because they are
 * blocked before the first thread starts. SIGTERM and SIGINT drain: no new requests are
 * accepted, turns end or are interrupted durably, then everything is closed. A second signal
 * ends the process immediately; nothing that was acknowledged is lost. SIGHUP reloads the
 * configuration. */
#include "cli/cli.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <stddef.h>
#include "base/log.h"
#include "base/memory.h"
#include "server/access/access_auth.h"
#include "server/observe/observe_notify.h"
#include "server/server.h"
#include "server/server_files.h"

#define HEAP_SPARE_BYTES (4 << 20) /* memory that a thread keeps for its next request */

typedef struct serve_values {
    const char *listen;
    pal_cli_runtime_values runtime;
} serve_values;

static const pal_cli_option options[] = {
        {"listen", 0, PAL_CLI_TEXT, offsetof(serve_values, listen), "ADDRESS",
                "address to listen on (127.0.0.1:7077); port 0: a free one"},
        PAL_CLI_RUNTIME_OPTIONS(serve_values, runtime.),
        {0},
};

typedef struct service {
    pal_cli_server cli_server;
    pal_config *reloaded; /* the configuration of the last SIGHUP; NULL: none yet */
} service;

/* Returns the configuration that is in use now. */
static const pal_config *latest(const pal_cli *cli, const service *s)
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

/* Reads the same files as at the start. If a file is wrong, nothing changes. */
static pal_status read_again(const pal_cli *cli, pal_config **out_config, pal_error *err)
{
    pal_cli fresh = *cli;
    fresh.config = NULL;
    fresh.arena = pal_arena_new(0);
    if (!fresh.arena)
        return pal_no_memory(err);
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

static void reload(pal_cli *cli, service *s)
{
    pal_config *fresh = NULL;
    pal_error err;
    pal_notify_reloading();
    pal_server_forget_keys(s->cli_server.server);
    if (read_again(cli, &fresh, &err) == PAL_OK) {
        pal_server_set_log(pal_config_get(fresh), cli->json);
        pal_server_reload(s->cli_server.server, cli->config, latest(cli, s), fresh);
        pal_config_free(s->reloaded);
        s->reloaded = fresh;
        pal_log(PAL_LOG_INFO, "reloaded the API keys and the configuration");
    } else {
        pal_log(PAL_LOG_ERROR,
                "could not reload the configuration, the old one stays in use: %s", err.message);
    }
    pal_notify("READY=1");
}

static void wait_for_end(pal_cli *cli, service *s)
{
    sigset_t set = our_signals();
    int number = 0;
    while (sigwait(&set, &number) == 0 && number == SIGHUP)
        reload(cli, s);
    pal_log(PAL_LOG_INFO, "stopping; waiting up to %lld ms for running turns",
            (long long)pal_config_get(latest(cli, s))->server.drain_ms);
    pal_notify("STOPPING=1");
    sigdelset(&set, SIGHUP); /* a reload now is too late, and must not end the process */
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* ---- Opening ---- */

static pal_status read_config(pal_cli *cli, const serve_values *given)
{
    if (!given->listen)
        return PAL_OK;
    pal_status status = pal_config_set(
            cli->config, "server.listen", pal_str_of(given->listen), PAL_CONFIG_FLAG, &cli->err);
    if (status == PAL_INVALID) {
        pal_error cause = cli->err;
        const char *problem = strstr(cause.message, "must be");
        return pal_cli_usage(cli, NULL, "--listen %s", problem ? problem : cause.message);
    }
    return status;
}

/* Prints the address in the first line. The other lines are for a person at a terminal. */
static void print_welcome(pal_cli *cli, const service *s)
{
    const pal_cli_runtime *runtime = &s->cli_server.runtime;
    pal_str address = pal_cli_server_address(cli, &s->cli_server);
    bool has_keys = true;
    pal_buf_format(&cli->out, "palaver %s is listening on %.*s\n", PAL_VERSION,
            PAL_STR_ARG(address));
    if (!cli->is_terminal)
        return;
    if (pal_auth_has_keys(s->cli_server.server->auth, &has_keys, NULL) != PAL_OK)
        has_keys = true; /* then no example is printed */
    pal_buf_format(&cli->out, "Store: %s\nModel: %.*s at %.*s\n", cli->store_url,
            PAL_STR_ARG(runtime->model), PAL_STR_ARG(runtime->endpoint));
    if (!pal_config_get(cli->config)->server.page_off)
        pal_buf_format(&cli->out, "Page: %.*s/\n", PAL_STR_ARG(address));
    if (has_keys)
        pal_buf_append_text(&cli->out, "API keys: every request requires one\n");
    else
        pal_buf_format(&cli->out,
                "API keys: none, so only programs on this machine can connect\n"
                "Try: curl %.*s/api/v1/chat -d '{\"message\": \"Hello, is anybody there?\"}'\n",
                PAL_STR_ARG(address));
}

/* If this fails, the caller must close the server nevertheless. */
static pal_status open_all(pal_cli *cli, const serve_values *given, service *s)
{
    pal_files files;
    pal_cli_runtime_values runtime = given->runtime;
    pal_status status = read_config(cli, given);
    if (status != PAL_OK)
        return status;
    runtime.runs_inbox = runtime.can_ask = true;
    pal_files_claim(&pal_config_get(cli->config)->server, &files);
    runtime.calls_max = files.calls;
    pal_server_set_log(pal_config_get(cli->config), cli->json);
    pal_str text;
    uint32_t line;
    for (size_t i = 0; pal_config_warning_at(cli->config, i, &text, &line); i++)
        pal_log(PAL_LOG_WARN, "%s:%u: %.*s", pal_config_path(cli->config), (unsigned)line,
                PAL_STR_ARG(text));
    return pal_cli_server_open(cli, &runtime, NULL, &s->cli_server);
}

static pal_status serve(pal_cli *cli, void *values)
{
    service s = {0};
    sigset_t set = our_signals();
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    /* Without this, glibc returns the memory of each larger response and requests it again. */
    mallopt(M_TRIM_THRESHOLD, HEAP_SPARE_BYTES);
    pal_status status = open_all(cli, values, &s);
    if (status != PAL_OK)
        goto out;
    print_welcome(cli, &s);
    status = pal_cli_flush(cli);
    if (status != PAL_OK)
        goto out;
    if (s.cli_server.runtime.is_stopgap)
        pal_log(PAL_LOG_WARN,
                "no model is configured and none was found; using 'echo', which repeats each "
                "message; set OPENAI_API_KEY or see 'palaver config example'");
    pal_notify("READY=1");
    wait_for_end(cli, &s);
out:
    pal_cli_server_close(
            cli, &s.cli_server, pal_config_get(latest(cli, &s))->server.drain_ms);
    pal_config_free(s.reloaded);
    return status;
}

const pal_cli_command pal_cmd_serve = {
        .name = "serve",
        .summary = "serve the APIs over HTTP",
        .usage = "",
        .about = "Serves the APIs until SIGTERM or SIGINT stops it. The first line of output "
                 "contains the address. The log goes to stderr, as JSON with --json. By default "
                 "the server listens on this machine only; any other address requires a key "
                 "('palaver key create').",
        .examples = "palaver serve\n"
                    "palaver serve --listen 127.0.0.1:8080 --provider echo",
        .options = options,
        .values_size = sizeof(serve_values),
        .run = serve,
};
