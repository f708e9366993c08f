/* tool_mcp.h - tools of MCP servers: child processes spoken to over standard input and output, and
 * servers on the network (streamable HTTP). All on the loop. */
#ifndef PAL_TOOL_MCP_H
#define PAL_TOOL_MCP_H

#include "net/net_http.h"
#include "net/net_process.h"
#include "palaver/arena.h"
#include "palaver/context.h"

typedef struct pal_mcp pal_mcp;           /* one server */
typedef struct pal_mcp_call pal_mcp_call; /* one tool call */

typedef struct pal_mcp_config {
    pal_str name;           /* the user's word: tools are shown as NAME__TOOL */
    const pal_str *command; /* stdio: program and arguments; none: HTTP */
    size_t command_len;
    const pal_str *environment; /* "NAME=value" */
    size_t environment_len;
    pal_str url; /* HTTP */
    const pal_http_header *headers;
    size_t headers_len;
    int64_t start_ms;      /* 0: 30000, until it has said hello */
    int64_t call_ms;       /* 0: 120000, of one tool call */
    uint32_t restarts_max; /* 0: 5 in a row, with growing pauses */
} pal_mcp_config;

typedef enum pal_mcp_state {
    PAL_MCP_STARTING = 0,
    PAL_MCP_READY = 1,
    PAL_MCP_WAITING = 2, /* it died; it will be started again */
    PAL_MCP_FAILED = 3,  /* too often */
} pal_mcp_state;

/* Told whenever the state or the list of tools changed. */
typedef void (*pal_mcp_changed)(pal_mcp *mcp, void *user);

/* Everything is copied. Starts it; PAL_OK says only that it was tried. */
PAL_CHECKED pal_status pal_mcp_open(pal_loop *loop, pal_http *http, const pal_mcp_config *config,
        pal_mcp_changed changed, void *user, pal_mcp **out_mcp, pal_error *err);
/* Calls that run end without a word; the process is stopped. Accepts NULL. */
void pal_mcp_close(pal_mcp *mcp);

pal_str pal_mcp_name(const pal_mcp *mcp);
pal_mcp_state pal_mcp_state_of(const pal_mcp *mcp);
pal_str pal_mcp_failure(const pal_mcp *mcp); /* the last thing that went wrong; empty: nothing */
/* Borrowed until the next change; names are shown names. */
const pal_tool *pal_mcp_tools(const pal_mcp *mcp, size_t *out_len);

typedef struct pal_tool_outcome {
    bool is_error;
    const pal_part *parts; /* text, images, files; valid during the call only */
    size_t parts_len;
} pal_tool_outcome;

/* Told once. What goes wrong, a time-out, a dead server, is an outcome with is_error too. */
typedef void (*pal_tool_told)(void *user, const pal_tool_outcome *outcome);

/* `name` is the shown name, `arguments` a JSON object. `told` is never called before this
 * returns. */
PAL_CHECKED pal_status pal_mcp_start(pal_mcp *mcp, pal_str name, pal_str arguments,
        pal_tool_told told, void *user, pal_mcp_call **out_call, pal_error *err);
/* Ends it without a word, and tells the server. */
void pal_mcp_cancel(pal_mcp_call *call);

#endif
