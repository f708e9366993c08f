/* tool_mcp_stdio.c - a server that is a child process: one message per line, in both directions.
 * Other lines on its standard output are ignored. The last line of its standard error explains why
 * it died. When the server is closed, the child object lives on until the child is dead. On the
 * loop. */
#include <stdio.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "tool/mcp/tool_mcp_internal.h"

#define GRACE_MS 2000
#define WORD_LEN_MAX 120

typedef struct pal_tool_mcp_child {
    pal_tool_mcp *mcp; /* NULL when the result is no longer needed */
    pal_process *process;
    char word[WORD_LEN_MAX + 1]; /* the last line of its error stream */
} pal_tool_mcp_child;

static void on_line(void *user, pal_str line)
{
    pal_tool_mcp_child *child = user;
    pal_tool_mcp *mcp = child->mcp;
    if (!mcp || line.len == 0)
        return;
    pal_tool_mcp_enter(mcp);
    if (!pal_tool_mcp_receive(mcp, NULL, line) && mcp->state != PAL_TOOL_MCP_READY)
        pal_tool_mcp_set_failure(mcp, "'%.*s' wrote a line that is not a message: %.*s",
                PAL_STR_ARG(mcp->config.name), (int)pal_utf8_cut(line, WORD_LEN_MAX), line.data);
    pal_tool_mcp_leave(mcp);
}

static void on_error_line(void *user, pal_str line)
{
    pal_tool_mcp_child *child = user;
    size_t len = pal_utf8_cut(line, WORD_LEN_MAX);
    if (len == 0)
        return;
    memcpy(child->word, line.data, len);
    child->word[len] = '\0';
}

static void on_exit(void *user, int code)
{
    pal_tool_mcp_child *child = user;
    pal_tool_mcp *mcp = child->mcp;
    char how[64];
    if (code == PAL_PROCESS_LINE_TOO_LONG)
        snprintf(how, sizeof(how), "wrote more than %u MiB in one line",
                PAL_TOOL_MCP_MESSAGE_BYTES_MAX >> 20);
    else if (code < 0)
        snprintf(how, sizeof(how), "was ended by signal %d", -code);
    else
        snprintf(how, sizeof(how), "exited with code %d", code);
    if (mcp) {
        pal_tool_mcp_enter(mcp);
        mcp->child = NULL;
        pal_tool_mcp_on_disconnect(mcp, false, "'%.*s' %s%s%s", PAL_STR_ARG(mcp->config.name), how,
                child->word[0] ? ": " : "", child->word);
        pal_tool_mcp_leave(mcp);
    }
    pal_free(child);
}

static const pal_process_events events = {on_line, on_error_line, on_exit};

static pal_status open_stdio(pal_tool_mcp *mcp, pal_error *err)
{
    const pal_process_spec spec = {.arguments = mcp->arguments,
            .environment = mcp->environment,
            .line_bytes_max = PAL_TOOL_MCP_MESSAGE_BYTES_MAX};
    pal_tool_mcp_child *child = pal_calloc(1, sizeof(*child));
    if (!child)
        return pal_no_memory(err);
    child->mcp = mcp;
    pal_status status = pal_process_start(mcp->loop, &spec, &events, child, &child->process, err);
    if (status)
        pal_free(child);
    else
        mcp->child = child;
    return status;
}

static pal_status send_stdio(
        pal_tool_mcp *mcp, pal_tool_mcp_request *request, pal_str message, pal_error *err)
{
    pal_buf line;
    if (!mcp->child)
        return pal_error_set(err, PAL_IO, "the server is not running");
    pal_buf_init(&line, message.len + 1);
    pal_buf_append_str(&line, message);
    pal_buf_append_char(&line, '\n');
    pal_status status = line.failure
            ? pal_error_set(err, line.failure, "out of memory")
            : pal_process_write(mcp->child->process, pal_buf_str(&line), err);
    pal_buf_done(&line);
    return status;
}

static void forget_stdio(pal_tool_mcp_request *request)
{
    (void)request;
}

/* Unsolicited messages arrive on the same stream as responses. */
static void listen_stdio(pal_tool_mcp *mcp)
{
    (void)mcp;
}

static void close_stdio(pal_tool_mcp *mcp)
{
    pal_tool_mcp_child *child = mcp->child;
    if (!child)
        return;
    mcp->child = NULL;
    child->mcp = NULL;
    pal_process_stop(child->process, GRACE_MS);
}

const pal_tool_mcp_transport pal_tool_mcp_stdio = {
        .is_ordered = true,
        .open = open_stdio,
        .send = send_stdio,
        .forget = forget_stdio,
        .listen = listen_stdio,
        .close = close_stdio,
};
