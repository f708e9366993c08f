/* cmd_run.c - `palaver run`: runs a coding agent that uses Palaver, and reports its sessions.
 *
 * The client uses the server at the configured address if there is one. Otherwise this process
 * serves by itself, on a free port of this machine, until the client ends. Several such processes
 * share the store, and none of them depends on another one. The client's key is random and known to
 * these two processes only.
 *
 * The log would destroy the client's screen. So warnings are kept in a temporary file, and the last
 * ones are printed at the end. If this process is killed, nothing that was acknowledged is lost. */
#include "cli/run/cmd_run.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "base/clock.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "server/server.h"

#define SECRET_BYTES 32
#define WARNINGS_SHOWN_MAX 5 /* lines of the log that are printed at the end */
#define WARNING_BYTES_MAX 1024

typedef struct run_values {
    pal_cli_runtime_values runtime;
} run_values;

static const pal_cli_option options[] = {
        PAL_CLI_RUNTIME_OPTIONS(run_values, runtime.),
        {0},
};

/* The sessions that were recorded while the client ran. */
typedef struct recorded {
    pthread_mutex_t lock; /* protects the other members */
    pal_arena *arena;     /* owns the keys */
    size_t len;
    struct {
        pal_str key;
        pal_id session; /* the branch that was used last */
    } list[PAL_RUN_SESSIONS_MAX];
} recorded;

typedef struct running {
    const pal_run_client *client;
    pal_run_service service;
    bool is_own;            /* the server is part of this process */
    pal_cli_server server;
    pal_server_client access; /* used by the server until it is closed */
    recorded recorded;
    FILE *log; /* NULL: not open */
    int64_t started_ms;
} running;

/* ---- A server of this process ---- */

static void note_session(void *user, pal_str tenant, pal_str key, pal_id session)
{
    recorded *r = user;
    size_t i = 0;
    (void)tenant;
    if (pal_run_session_is_part(key))
        return;
    pthread_mutex_lock(&r->lock);
    while (i < r->len && !pal_str_equal(key, r->list[i].key))
        i++;
    if (i == r->len && i < PAL_RUN_SESSIONS_MAX)
        r->list[r->len++].key = pal_arena_copy(r->arena, key);
    if (i < r->len)
        r->list[i].session = session;
    pthread_mutex_unlock(&r->lock);
}

static pal_status set_key(pal_cli *cli, const char *key, const char *value)
{
    return pal_config_set(cli->config, key, pal_str_of(value), PAL_CONFIG_FLAG, &cli->err);
}

/* A free port of this machine, whatever is configured. */
static pal_status choose_address(pal_cli *cli)
{
    pal_status status = set_key(cli, "server.listen", "127.0.0.1:0");
    if (status == PAL_OK)
        status = set_key(cli, "server.tls_certificate", "");
    if (status == PAL_OK)
        status = set_key(cli, "server.tls_key", "");
    return status;
}

static pal_status make_access(pal_cli *cli, running *r)
{
    uint8_t bytes[SECRET_BYTES];
    char text[2 * SECRET_BYTES + 1];
    pal_status status = pal_random_secret(bytes, sizeof bytes, &cli->err);
    if (status != PAL_OK)
        return status;
    pal_hex(bytes, sizeof bytes, text);
    r->service.key = pal_arena_copy(cli->arena, pal_str_of(text));
    r->access = (pal_server_client){.secret = r->service.key,
            .tenant = pal_str_of(cli->tenant ? cli->tenant : "default"),
            .on_recorded = note_session,
            .user = &r->recorded};
    return pal_arena_checked(cli->arena, &cli->err);
}

/* If nothing is configured, and the environment has a key for the service that the client is made
 * for, that service is used. */
static pal_status prefer_provider(
        pal_cli *cli, const pal_run_client *client, pal_cli_runtime_values *values)
{
    pal_runtime_options found;
    const pal_provider_info *info =
            client->provider ? pal_provider_info_find(pal_str_of(client->provider)) : NULL;
    const char *key = info ? getenv(info->key_variable) : NULL;
    if (!key || !*key || values->provider || values->provider_url || values->model)
        return PAL_OK;
    pal_status status = pal_config_runtime(cli->config, cli->arena, &found, &cli->err);
    if (status == PAL_OK && found.endpoints_len == 0 && found.model.len == 0)
        values->provider = client->provider;
    return status;
}

static pal_status no_model(pal_cli *cli, const pal_run_client *client)
{
    const pal_provider_info *info =
            client->provider ? pal_provider_info_find(pal_str_of(client->provider)) : NULL;
    snprintf(cli->hint, sizeof cli->hint,
            "set %s, start a local model server, or see 'palaver config example'",
            info ? info->key_variable : "OPENAI_API_KEY or ANTHROPIC_API_KEY");
    return pal_error_set(
            &cli->err, PAL_NOT_FOUND, "no model is configured and none was found");
}

static pal_status open_server(pal_cli *cli, const run_values *given, running *r)
{
    pal_cli_runtime_values values = given->runtime;
    pal_status status = choose_address(cli);
    if (status == PAL_OK)
        status = prefer_provider(cli, r->client, &values);
    if (status == PAL_OK)
        status = make_access(cli, r);
    if (status != PAL_OK)
        return status;
    r->recorded.arena = pal_arena_new(0);
    if (!r->recorded.arena)
        return pal_cli_no_memory(cli);
    r->is_own = true;
    signal(SIGPIPE, SIG_IGN); /* a client that leaves must not end the server */
    r->log = tmpfile();
    if (r->log)
        fcntl(fileno(r->log), F_SETFD, FD_CLOEXEC);
    pal_log_setup(r->log, r->log ? PAL_LOG_WARN : PAL_LOG_ERROR, 0);
    status = pal_cli_server_open(cli, &values, &r->access, &r->server);
    if (status != PAL_OK)
        return status;
    if (r->server.runtime.is_stopgap)
        return no_model(cli, r->client);
    r->service.url = pal_cli_server_address(cli, &r->server);
    r->service.model = r->server.runtime.model;
    return PAL_OK;
}

/* ---- The report ---- */

static void print_warnings(FILE *log)
{
    char lines[WARNINGS_SHOWN_MAX][WARNING_BYTES_MAX];
    size_t len = 0;
    rewind(log);
    while (fgets(lines[len % WARNINGS_SHOWN_MAX], WARNING_BYTES_MAX, log))
        len++;
    if (len > WARNINGS_SHOWN_MAX)
        fprintf(stderr, "palaver: %zu warnings, the last ones are:\n", len);
    for (size_t i = len > WARNINGS_SHOWN_MAX ? len - WARNINGS_SHOWN_MAX : 0; i < len; i++)
        fprintf(stderr, "%s", lines[i % WARNINGS_SHOWN_MAX]);
}

/* The sessions of a server that is part of this process. */
static size_t own_sessions(
        pal_cli *cli, running *r, pal_run_session out[PAL_RUN_SESSIONS_MAX])
{
    size_t len = 0;
    pthread_mutex_lock(&r->recorded.lock);
    for (size_t i = 0; i < r->recorded.len; i++) {
        pal_session session;
        pal_str id = pal_cli_id(cli, r->recorded.list[i].session);
        if (pal_store_find(cli->store, pal_cli_tenant(cli), PAL_SESSION_BY_ID, id, cli->arena,
                    &session, NULL) == PAL_OK)
            out[len++] = (pal_run_session){
                    .key = session.key, .id = id, .messages = session.last_seq};
    }
    pthread_mutex_unlock(&r->recorded.lock);
    return len;
}

static bool is_in_memory(const pal_cli *cli)
{
    return strcmp(cli->store_url, "memory:") == 0;
}

/* True if the store of this command contains the session, so that other commands find it. */
static bool has_session(pal_cli *cli, const running *r, const pal_run_session *session)
{
    pal_session found;
    if (r->is_own)
        return !is_in_memory(cli);
    if (!cli->store && pal_cli_store_open(cli, PAL_CLI_READ) != PAL_OK)
        return false;
    return pal_store_find(cli->store, pal_cli_tenant(cli), PAL_SESSION_BY_ID, session->id,
                   cli->arena, &found, NULL) == PAL_OK;
}

/* Prints the address of the server, or the full path of the store. */
static void print_place(pal_cli *cli, const running *r)
{
    char full[PATH_MAX];
    const char *path = pal_cli_store_path(cli->store_url);
    bool is_file = path && realpath(path, full);
    if (!r->is_own)
        fprintf(stderr, "is kept in the server at %.*s\n", PAL_STR_ARG(r->service.url));
    else if (is_in_memory(cli))
        fprintf(stderr, "was kept in memory only\n");
    else
        fprintf(stderr, "is kept in %s\n", is_file ? full : cli->store_url);
}

/* Prints the command that shows the session. */
static void print_command(pal_cli *cli, const running *r, const pal_run_session *session)
{
    pal_str name = session->key.len ? session->key : session->id;
    if (has_session(cli, r, session))
        fprintf(stderr, "palaver: show it with: palaver%s%s%s%s session show %.*s\n",
                cli->store_given ? " --store " : "", cli->store_given ? cli->store_url : "",
                cli->tenant ? " --tenant " : "", cli->tenant ? cli->tenant : "",
                PAL_STR_ARG(name));
    else if (!r->is_own)
        fprintf(stderr, "palaver: show it with: curl %s%.*s/api/v1/sessions/%.*s/messages\n",
                r->service.key.len ? "-H \"Authorization: Bearer $PALAVER_API_KEY\" " : "",
                PAL_STR_ARG(r->service.url), PAL_STR_ARG(session->id));
}

static void print_session(pal_cli *cli, const running *r, const pal_run_session *session)
{
    pal_str name = session->key.len ? session->key : session->id;
    fprintf(stderr, "palaver: session %.*s (%.*s), %llu messages, ", PAL_STR_ARG(name),
            PAL_STR_ARG(session->id), (unsigned long long)session->messages);
    print_place(cli, r);
    print_command(cli, r, session);
}

/* A failure here does not change the result: the client has done its work. */
static void report(pal_cli *cli, running *r)
{
    pal_run_session sessions[PAL_RUN_SESSIONS_MAX];
    size_t len = 0;
    if (r->is_own)
        len = own_sessions(cli, r, sessions);
    else if (pal_run_service_sessions(cli, &r->service, r->client->label, r->started_ms, sessions,
                     &len) != PAL_OK)
        pal_cli_print_error(cli->err.message, "");
    for (size_t i = 0; i < len; i++)
        print_session(cli, r, &sessions[i]);
}

/* ---- The command ---- */

static pal_status missing_client(pal_cli *cli, const pal_run_client *client)
{
    snprintf(cli->hint, sizeof cli->hint, "install it with '%s'", client->install);
    return pal_error_set(&cli->err, PAL_NOT_FOUND, "%s is not installed: there is no '%s' in PATH",
            client->name, client->program);
}

/* Options that describe a server are for one of this process. */
static bool wants_own_server(const pal_cli *cli, const pal_cli_runtime_values *given)
{
    return cli->store_given || cli->tenant || given->provider || given->provider_url;
}

static pal_status open_service(pal_cli *cli, const run_values *given, running *r)
{
    pal_status status = PAL_NOT_FOUND;
    if (!wants_own_server(cli, &given->runtime))
        status = pal_run_service_find(cli, &r->service);
    if (status == PAL_NOT_FOUND)
        status = open_server(cli, given, r);
    if (given->runtime.model) {
        r->service.model = pal_str_of(given->runtime.model);
        r->service.is_model_given = true;
    }
    return status;
}

/* The server raises the limit of open files. The client gets the old one, which is enough for the
 * server of one client too. */
static pal_status run_client(pal_cli *cli, const char *path, const run_values *given, running *r)
{
    struct rlimit files;
    pal_run_setup setup;
    bool has_limit = getrlimit(RLIMIT_NOFILE, &files) == 0;
    pal_status status = open_service(cli, given, r);
    if (status == PAL_OK)
        status = pal_run_client_set_up(cli, r->client, &r->service, &setup);
    if (status != PAL_OK)
        return status;
    if (has_limit)
        setrlimit(RLIMIT_NOFILE, &files);
    return pal_run_process(cli, path, &setup);
}

static pal_status run(pal_cli *cli, void *values)
{
    running r = {.client = pal_run_client_find(cli->args[0]),
            .recorded.lock = PTHREAD_MUTEX_INITIALIZER,
            .started_ms = pal_clock_now_ms()};
    if (!r.client)
        return pal_cli_usage(cli, "use codex, claude or opencode", "unknown client '%.60s'",
                cli->args[0]);
    const char *path = pal_run_program_find(cli, r.client->program);
    if (!path)
        return missing_client(cli, r.client);
    pal_status status = run_client(cli, path, values, &r);
    if (status == PAL_OK)
        report(cli, &r);
    if (r.is_own)
        pal_cli_server_close(cli, &r.server, pal_config_get(cli->config)->server.drain_ms);
    if (status == PAL_OK && r.log)
        print_warnings(r.log);
    pal_log_setup(NULL, PAL_LOG_WARN, 0);
    if (r.log)
        fclose(r.log);
    pal_arena_free(r.recorded.arena);
    return status;
}

const pal_cli_command pal_cmd_run = {
        .name = "run",
        .summary = "run a coding agent and record its sessions",
        .usage = "codex|claude|opencode [ARGUMENT]...",
        .about = "Runs Codex, Claude Code or opencode with its requests going through Palaver, and "
                 "says at the end where the session is kept. Everything after the client's name "
                 "is passed to the client. It uses the server at the configured address if one is "
                 "running there, with the key in PALAVER_API_KEY; otherwise it serves by itself "
                 "until the client ends. The client's own configuration is not changed. The "
                 "command exits with the client's exit code.",
        .examples = "palaver run claude\n"
                    "palaver run --model qwen3-coder codex exec \"Explain this directory\"",
        .options = options,
        .values_size = sizeof(run_values),
        .args_min = 1,
        .args_max = SIZE_MAX,
        .runs_program = true,
        .run = run,
};
