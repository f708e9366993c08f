/* tool_mcp.h - tools of MCP servers: child processes with messages on standard input and output,
 * and servers on the network (streamable HTTP). All functions must be called on the loop, and all
 * callbacks run on it. */
#ifndef PAL_TOOL_MCP_H
#define PAL_TOOL_MCP_H

#include "net/net_http.h"
#include "net/net_process.h"
#include "palaver/arena.h"
#include "palaver/context.h"
#include "palaver/turn.h"
#include "tool/tool_question.h"

typedef struct pal_tool_mcp pal_tool_mcp;           /* one server */
typedef struct pal_tool_mcp_call pal_tool_mcp_call; /* one tool call */

typedef struct pal_tool_mcp_config {
    pal_str name;           /* its tools are shown as NAME__TOOL */
    const pal_str *command; /* stdio: the program and its arguments; HTTP: empty */
    size_t command_len;
    const pal_str *environment; /* "NAME=value" */
    size_t environment_len;
    pal_str url; /* HTTP: the address */
    const pal_header *headers;
    size_t headers_len;
    const pal_tool_auth *auth; /* HTTP: how to get access tokens; NULL: only `headers` */
    /* A person must open a URL to allow the access (pal_oauth_config). NULL: there is no person. */
    void (*on_authorize)(void *user, pal_str url);
    pal_str redirect_uri;
    int64_t start_ms;      /* time until the handshake is complete; 0: 30000 */
    int64_t call_ms;       /* timeout of one tool call; 0: 120000 */
    uint32_t restarts_max; /* restarts in a row, with growing pauses; 0: 5 */
    bool can_ask;          /* persons can answer questions of the server during some of the calls */
    /* Reports a problem that does not stop the server, in one line. May be NULL. Must not close the
     * server. `user` is that of pal_tool_mcp_open(). */
    void (*on_warning)(void *user, pal_str text);
} pal_tool_mcp_config;

typedef enum pal_tool_mcp_state {
    PAL_TOOL_MCP_STARTING = 0,
    PAL_TOOL_MCP_READY = 1,
    PAL_TOOL_MCP_WAITING = 2, /* the server died and will be restarted */
    PAL_TOOL_MCP_FAILED = 3,  /* the server died too often */
} pal_tool_mcp_state;

/* Called when the state or the list of tools has changed. */
typedef void (*pal_tool_mcp_on_change)(pal_tool_mcp *mcp, void *user);

/* Starts a server. Everything is copied. PAL_OK means only that the start was attempted. */
PAL_CHECKED pal_status pal_tool_mcp_open(pal_loop *loop, pal_http *http,
        const pal_tool_mcp_config *config, pal_tool_mcp_on_change on_change, void *user,
        pal_tool_mcp **out_mcp, pal_error *err);
/* Cancels running calls without a callback, and stops the process. Accepts NULL. */
void pal_tool_mcp_close(pal_tool_mcp *mcp);

/* The person was redirected with this query (pal_oauth_redirected()). */
bool pal_tool_mcp_redirected(pal_tool_mcp *mcp, pal_str query);

pal_str pal_tool_mcp_name(const pal_tool_mcp *mcp);
pal_tool_mcp_state pal_tool_mcp_state_of(const pal_tool_mcp *mcp);
pal_str pal_tool_mcp_failure(const pal_tool_mcp *mcp); /* the last failure; empty: none */
/* Returns the tools under their shown names. Valid until the next change. */
const pal_tool *pal_tool_mcp_tools(const pal_tool_mcp *mcp, size_t *out_len);

/* The end of a call. */
typedef struct pal_tool_outcome {
    bool is_error;
    const pal_part *parts; /* text, images and files; valid during the callback only */
    size_t parts_len;
    /* Not empty: the tool has not ended. Call it again with this handle, in this process or another
     * one. Store the handle first, so that the call survives a crash. */
    pal_str handle;
    bool has_questions; /* the handle has questions: pal_tool_mcp_questions() */
} pal_tool_outcome;

/* Called once. A failure, such as a timeout or a dead server, is an outcome with is_error. */
typedef void (*pal_tool_on_outcome)(void *user, const pal_tool_outcome *outcome);

/* One tool call. Everything is copied except `person`, which is only compared. */
typedef struct pal_tool_mcp_order {
    pal_str name;      /* the shown name */
    pal_str arguments; /* a JSON object; empty: {} */
    pal_str handle;    /* continues the call that ended with this handle; empty: a new call */
    pal_str replies;   /* a handle with questions: an object with the reply to each question, made
                          by pal_tool_question_reply() */
    bool can_ask;      /* a person can answer questions; otherwise they are declined */
    const void *person; /* calls with the same value have the same person */
    pal_tool_on_outcome on_outcome;
    /* A question arrived while the call runs. Answer it with pal_tool_mcp_call_reply(), at the
     * earliest when this callback has returned. Needed only with can_ask. */
    void (*on_question)(void *user, const pal_tool_question *question);
    /* The question is obsolete: the server withdrew it, or there was no reply in time. */
    void (*on_withdrawn)(void *user, pal_str id);
    void *user;
} pal_tool_mcp_order;

/* Starts a call. No callback is made before this function returns. */
PAL_CHECKED pal_status pal_tool_mcp_call_start(pal_tool_mcp *mcp, const pal_tool_mcp_order *order,
        pal_tool_mcp_call **out_call, pal_error *err);
/* Replies to a question of on_question. An unknown id is ignored. */
void pal_tool_mcp_call_reply(pal_tool_mcp_call *call, pal_str id, pal_str reply);
/* Cancels a call without a callback, and notifies the server. A task is canceled too. */
void pal_tool_mcp_call_cancel(pal_tool_mcp_call *call);
/* Forgets a call without a callback. Its task continues, and the handle stays valid. */
void pal_tool_mcp_call_leave(pal_tool_mcp_call *call);

/* Reads the questions of a handle, in the arena. */
PAL_CHECKED pal_status pal_tool_mcp_questions(pal_str handle, pal_arena *arena,
        pal_tool_question **out_questions, size_t *out_len, pal_error *err);
/* Returns the handle without its questions, in the arena: the state of the call once the replies
 * were sent. Empty if the tool does not run as a task: then the call cannot be continued. */
pal_str pal_tool_mcp_handle_answered(pal_str handle, pal_arena *arena);
/* Cancels the task of a handle that no call continues. */
void pal_tool_mcp_handle_cancel(pal_tool_mcp *mcp, pal_str handle);

#endif
