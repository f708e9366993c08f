/* mcp.h - Palaver as an MCP server: what its two transports share. They are HTTP (api_mcp.c)
 * and standard input and output (cmd_mcp.c). A transport reads a message, identifies its sender,
 * and sends the response.
 *
 * The protocol has two eras. In the old one (up to 2025-11-25) a client begins with `initialize`.
 * In the new one (2026-07-28) every request names its revision. Both are served at the same time.
 * docs/mcp.md describes the tools.
 *
 * Threads: messages can come from any thread. A tool blocks while the store works. The tool that
 * runs a turn does not block: it answers later, on the runtime's loop. */
#ifndef PAL_MCP_H
#define PAL_MCP_H

#include "base/json/json.h"
#include "palaver/palaver.h"

/* ---- Messages ---- */

#define PAL_RPC_PARSE_ERROR (-32700)
#define PAL_RPC_INVALID_REQUEST (-32600)
#define PAL_RPC_NO_METHOD (-32601)
#define PAL_RPC_INVALID_PARAMS (-32602)
#define PAL_RPC_INTERNAL_ERROR (-32603)
#define PAL_RPC_HEADER_MISMATCH (-32020)
#define PAL_RPC_WRONG_VERSION (-32022)

/* One message of JSON-RPC. Its views point into the text and the arena. */
typedef struct pal_rpc_message {
    pal_str id;     /* JSON text of the id, a string or a number; empty if no response is
                       expected */
    pal_str method; /* empty if the message is a response */
    pal_json params;
    pal_json meta;   /* member "_meta" of the params */
    bool is_new;     /* the message names its revision, so it belongs to the new era */
    pal_str version; /* the revision, if is_new */
} pal_rpc_message;

/* Returns 0, or the code of the error in `err`. The id is set if it could be read. */
int pal_mcp_rpc_read(pal_arena *arena, pal_str text, pal_rpc_message *out_message, pal_error *err);

/* Writes a complete error message. */
void pal_mcp_rpc_put_error(pal_json_writer *writer, pal_str id, int code, const char *message);

/* ---- The peer ---- */

typedef struct pal_mcp_peer {
    pal_str tenant;
    bool can_write; /* may use the tools that write */
    pal_budget budget;
    pal_str scope; /* request ids are unique within this scope: an HTTP session, or empty */
} pal_mcp_peer;

/* ---- The host ---- */

typedef struct pal_mcp_host pal_mcp_host;
typedef struct pal_mcp_job pal_mcp_job; /* a turn that a client has requested */

typedef struct pal_mcp_host_options {
    pal_store *store;
    /* Returns the runtime; called when it is first needed. */
    pal_runtime *(*runtime)(void *user, pal_error *err);
    void *user;
} pal_mcp_host_options;

/* Returns NULL if out of memory. Store and runtime must outlive the host. */
pal_mcp_host *pal_mcp_host_new(const pal_mcp_host_options *options);
/* Cancels running jobs and waits for their end. Must not be called on the loop. Accepts NULL. */
void pal_mcp_host_free(pal_mcp_host *host);

/* A transport's callbacks for the messages of a turn. on_message() and on_end() run on the
 * runtime's loop and must not block for long. */
typedef struct pal_mcp_events {
    /* Starts the turn of the job, and then calls pal_mcp_job_begin(), pal_mcp_job_event() and
     * pal_mcp_job_end() for it. NULL: the job starts and watches its turn itself. */
    pal_status (*start)(
            void *user, pal_mcp_job *job, const pal_turn_request *request, pal_error *err);
    /* A message to send: progress while the turn runs, and its response as the last one. */
    void (*on_message)(void *user, pal_str message, bool is_last);
    /* Called exactly once, after all other callbacks. If the turn was canceled, there was no
     * response. */
    void (*on_end)(void *user);
} pal_mcp_events;

typedef enum pal_mcp_outcome {
    PAL_MCP_ANSWERED = 1, /* the response is written */
    PAL_MCP_NOTED = 2,    /* there is no response */
    PAL_MCP_LATER = 3,    /* on_message() gets the response, now or later */
} pal_mcp_outcome;

/* Handles a message. *out_code is the error code of the response; 0 if it is not an error. The
 * callbacks are used only for turns. */
pal_mcp_outcome pal_mcp_host_handle(pal_mcp_host *host, const pal_mcp_peer *peer,
        const pal_rpc_message *message, const pal_mcp_events *events, void *events_user,
        pal_arena *arena, pal_json_writer *writer, int *out_code);

/* Whether a revision of the old era is supported. */
bool pal_mcp_knows_revision(pal_str version);

/* Cancels all jobs of a scope. */
void pal_mcp_host_cancel(pal_mcp_host *host, pal_str scope);

/* Whether the job belongs to the new era. */
bool pal_mcp_job_is_new(const pal_mcp_job *job);

/* ---- For a transport whose start() starts the turn of the job ---- */

/* Sets the user of on_message() and on_end(). Call it before the turn is started. */
void pal_mcp_job_set_user(pal_mcp_job *job, void *events_user);
/* The turn has started. False: the client does not wait for a response; stop the turn. */
bool pal_mcp_job_begin(pal_mcp_job *job, const pal_turn_info *info);
/* One event of the turn. */
void pal_mcp_job_event(pal_mcp_job *job, const pal_event *event);
/* The last event. Sends the response, calls on_end() and frees the job. Also for a turn that was
 * not started: then the event has the error. */
void pal_mcp_job_end(pal_mcp_job *job, const pal_event *end);

#endif
