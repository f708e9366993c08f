/* cmd_mcp.c - `palaver mcp`: an MCP server on standard input and output, one message per line, for
 * the program that started it. Nothing else is ever written to stdout; the log goes to stderr.
 *
 * The main thread reads requests and runs them one after the other, except turns: their output
 * is written on the runtime's loop, and a lock keeps lines complete. The runtime is opened for
 * the first turn, because it may start other programs. When the input ends or a signal arrives,
 * running turns are canceled; everything acknowledged is safe. */
#include "cli/cli.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "cli/terminal/terminal.h"
#include "mcp/mcp.h"
#include "server/server.h"

typedef struct mcp_values {
    pal_cli_runtime_values runtime;
} mcp_values;

static const pal_cli_option options[] = {
        PAL_CLI_RUNTIME_OPTIONS(mcp_values, runtime.),
        {0},
};

typedef struct mcp_session {
    pal_cli *cli;
    const mcp_values *values;
    pal_mcp_host *host;
    pal_cli_runtime runtime;
    pthread_mutex_t lock; /* protects the output */
    bool is_broken;       /* the reader is gone; protected by the lock */
    bool is_begun;        /* `initialize` was answered */
} mcp_session;

/* ---- Output ---- */

/* The caller holds the lock. */
static bool write_all(const char *data, size_t len)
{
    while (len) {
        ssize_t written = write(STDOUT_FILENO, data, len);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return false;
        data += written;
        len -= (size_t)written;
    }
    return true;
}

static void write_line(mcp_session *s, pal_str message)
{
    pthread_mutex_lock(&s->lock);
    if (!s->is_broken)
        s->is_broken = !write_all(message.data, message.len) || !write_all("\n", 1);
    pthread_mutex_unlock(&s->lock);
}

/* ---- Turns ---- */

static void turn_say(void *user, pal_str message, bool is_last)
{
    (void)is_last;
    write_line(user, message);
}

static void turn_end(void *user)
{
    (void)user;
}

static const pal_mcp_events events = {.on_message = turn_say, .on_end = turn_end};

static pal_runtime *open_runtime(void *user, pal_error *err)
{
    mcp_session *s = user;
    if (s->runtime.runtime)
        return s->runtime.runtime;
    if (pal_cli_runtime_open(s->cli, &s->values->runtime, &s->runtime) != PAL_OK) {
        pal_error_set(err, s->cli->err.status, "%s", s->cli->err.message);
        pal_cli_runtime_close(&s->runtime, 0);
        return NULL;
    }
    if (s->runtime.is_stopgap)
        pal_log(PAL_LOG_WARN,
                "no model is configured and none was found; using 'echo', which repeats each "
                "message; set OPENAI_API_KEY or see 'palaver config example'");
    return s->runtime.runtime;
}

/* ---- Messages ---- */

/* A message before `initialize` is too early, unless it names its protocol revision. */
static bool is_early(const mcp_session *s, const pal_rpc_message *message)
{
    return !s->is_begun && !message->is_new && message->id.len && message->method.len &&
            !pal_str_is(message->method, "initialize") && !pal_str_is(message->method, "ping");
}

static void answer(mcp_session *s, pal_str line, pal_arena *arena, pal_json_writer *writer)
{
    pal_rpc_message message;
    pal_error wrong = {0};
    pal_mcp_peer peer = {.tenant = pal_cli_tenant(s->cli), .can_write = true};
    int code = pal_mcp_rpc_read(arena, line, &message, &wrong);
    if (code) {
        pal_mcp_rpc_put_error(writer, message.id, code, wrong.message);
    } else if (is_early(s, &message)) {
        pal_mcp_rpc_put_error(writer, message.id, PAL_RPC_INVALID_REQUEST,
                "send 'initialize' first, or set the protocol revision in '_meta'");
    } else {
        pal_mcp_host_handle(s->host, &peer, &message, &events, s, arena, writer, &code);
        if (code == 0 && pal_str_is(message.method, "initialize"))
            s->is_begun = true;
    }
}

static void take_line(mcp_session *s, const pal_cli_line *line)
{
    pal_buf buf;
    pal_arena *arena = pal_arena_new(0);
    pal_buf_init(&buf, PAL_CLI_OUT_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    if (!arena)
        pal_mcp_rpc_put_error(&writer, (pal_str){0}, PAL_RPC_INTERNAL_ERROR, "out of memory");
    else if (line->too_long)
        pal_mcp_rpc_put_error(
                &writer, (pal_str){0}, PAL_RPC_PARSE_ERROR, "the message is too long");
    else if (line->text.len)
        answer(s, line->text, arena, &writer);
    if (buf.failure)
        pal_log(PAL_LOG_ERROR, "could not send a response: out of memory");
    else if (buf.len)
        write_line(s, pal_buf_str(&buf));
    pal_buf_done(&buf);
    pal_arena_free(arena);
}

/* ---- Input ---- */

static bool has_line(const pal_cli_input *input)
{
    size_t len = input->buf.len - input->at;
    return len && memchr(input->buf.data + input->at, '\n', len);
}

/* Waits until there is something to read. Returns false if a signal stopped the server. */
static bool wait_for_input(const pal_cli_input *input)
{
    bool is_there = has_line(input) || input->is_end;
    while (!is_there && !pal_signals_ended() && !pal_signals_interrupted())
        is_there = pal_signals_wait(input->fd, -1);
    return is_there;
}

static pal_status take_lines(mcp_session *s)
{
    pal_cli_input input;
    pal_cli_line line;
    bool has = true;
    pal_status status = pal_cli_input_open(s->cli, "-", &input);
    if (status != PAL_OK)
        return status;
    while (status == PAL_OK && has && wait_for_input(&input)) {
        status = pal_cli_input_line(s->cli, &input, &line, &has);
        if (status == PAL_OK && has)
            take_line(s, &line);
    }
    pal_cli_input_close(&input);
    return status;
}

static pal_status mcp(pal_cli *cli, void *values)
{
    mcp_session s = {.cli = cli, .values = values};
    pal_mcp_host_options host_options = {.store = cli->store, .runtime = open_runtime, .user = &s};
    pal_server_set_log(pal_config_get(cli->config), cli->json);
    s.host = pal_mcp_host_new(&host_options);
    if (!s.host)
        return pal_cli_no_memory(cli);
    pthread_mutex_init(&s.lock, NULL);
    signal(SIGPIPE, SIG_IGN);
    pal_status status = pal_signals_open(cli);
    if (status == PAL_OK)
        status = take_lines(&s);
    pal_mcp_host_free(s.host);
    pal_cli_runtime_close(&s.runtime, 0);
    pal_signals_close();
    pthread_mutex_destroy(&s.lock);
    return status;
}

const pal_cli_command pal_cmd_mcp = {
        .name = "mcp",
        .summary = "serve conversations to an MCP client",
        .usage = "",
        .about = "Serves the Model Context Protocol on standard input and output, until the input "
                 "ends. Its tools list, read, search, append to, fork and continue conversations. "
                 "An MCP client starts this command; the log goes to stderr. 'palaver serve' "
                 "offers the same tools at /mcp. The other direction: 'palaver mcp login' logs in "
                 "to a server of 'mcp_servers'.",
        .examples = "palaver mcp --store sqlite:chats.db\n"
                    "palaver mcp --tenant team --provider openai",
        .options = options,
        .values_size = sizeof(mcp_values),
        .access = PAL_CLI_CREATE,
        .run = mcp,
};
