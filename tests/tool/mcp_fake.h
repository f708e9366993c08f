/* mcp_fake.h - starts fake_mcp.py as a child or over HTTP, and checks the results of its tools. */
#ifndef PAL_TESTS_MCP_FAKE_H
#define PAL_TESTS_MCP_FAKE_H

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/tap.h"
#include "tool/mcp_client.h"

/* ---- Servers ---- */

typedef struct child_config {
    pal_str command[12];
    pal_tool_mcp_config config;
} child_config;

static inline pal_tool_mcp_config *child(child_config *c, const char *first, ...)
{
    va_list more;
    size_t len = 2;
    *c = (child_config){.command = {pal_str_of(PYTHON), pal_str_of(FAKE_MCP)}};
    va_start(more, first);
    for (const char *one = first; one; one = va_arg(more, const char *))
        c->command[len++] = pal_str_of(one);
    va_end(more);
    c->config = (pal_tool_mcp_config){
            .name = pal_str_of("s"), .command = c->command, .command_len = len, .restarts_max = 2};
    return &c->config;
}

/* Starts a server that listens on the network. */
typedef struct http_child {
    pid_t pid;
    int input;
    char url[64];
    pal_tool_mcp_config config;
} http_child;

static inline bool http_child_start(http_child *c, const char *first, const char *second, const char *third)
{
    int to[2], from[2];
    char port[16] = "";
    *c = (http_child){0};
    if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
        return false;
    c->pid = fork();
    if (c->pid == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        execlp(PYTHON, PYTHON, FAKE_MCP, "--http", first, second, third, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    c->input = to[1];
    for (size_t len = 0; len < sizeof(port) - 1 && !strchr(port, '\n'); len++) {
        if (read(from[0], port + len, 1) != 1)
            break;
    }
    close(from[0]);
    snprintf(c->url, sizeof(c->url), "http://127.0.0.1:%d/mcp", atoi(port));
    c->config = (pal_tool_mcp_config){
            .name = pal_str_of("s"), .url = pal_str_of(c->url), .restarts_max = 2};
    return atoi(port) > 0;
}

static inline void http_child_stop(http_child *c)
{
    close(c->input);
    kill(c->pid, SIGKILL);
    waitpid(c->pid, NULL, 0);
}

/* ---- Checks ---- */

static inline bool answers(mcp_client *client, const char *name, const char *arguments, const char *expected)
{
    char *outcome = mcp_client_call_tool(client, name, arguments);
    bool held = strstr(outcome, expected) != NULL;
    if (!held)
        printf("# %s: %.300s\n", name, outcome);
    free(outcome);
    return held;
}

static inline bool lacks(mcp_client *client, const char *name, const char *arguments, const char *text)
{
    char *outcome = mcp_client_call_tool(client, name, arguments);
    bool held = strstr(outcome, "\"is_error\":false") && !strstr(outcome, text);
    free(outcome);
    return held;
}

/* Repeats the call until the result is the expected one: the server learns of the event through
 * another connection. */
static inline bool answers_in_time(
        mcp_client *client, const char *name, const char *arguments, const char *expected)
{
    bool held = false;
    for (int i = 0; i < 3000 && !held; i++) {
        char *outcome = mcp_client_call_tool(client, name, arguments);
        held = strstr(outcome, expected) != NULL;
        if (!held && i == 2999)
            printf("# %s: %.300s\n", name, outcome);
        free(outcome);
        if (!held)
            usleep(20000);
    }
    return held;
}

#define TEXT(text) "{\"parts\":[{\"kind\":\"text\",\"text\":\"" text "\"}],\"is_error\":false}"
#define FAILED(text) "{\"parts\":[{\"kind\":\"text\",\"text\":\"" text

#endif
