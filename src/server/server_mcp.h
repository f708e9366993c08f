/* server_mcp.h - Palaver as an MCP server: what its two transports share, HTTP (api_mcp.c) and
 * standard input and output (cmd_mcp.c). A transport reads a message, says who sent it, and sends
 * what comes back.
 *
 * There are two eras of the protocol. In the old one (up to 2025-11-25) a client begins with
 * `initialize`; in the new one (2026-07-28) every request says for itself which revision it is of.
 * Both are served side by side. docs/mcp.md tells what the tools do.
 *
 * Any thread may hand over messages. A tool blocks for as long as the store needs, but for the one
 * that runs a turn, which answers later, on the runtime's loop. */
#ifndef PAL_SERVER_MCP_H
#define PAL_SERVER_MCP_H

#include "base/json.h"
#include "palaver/palaver.h"
#include "server/server.h"

/* ---- Messages ---- */

#define PAL_RPC_PARSE_ERROR (-32700)
#define PAL_RPC_INVALID_REQUEST (-32600)
#define PAL_RPC_NO_METHOD (-32601)
#define PAL_RPC_INVALID_PARAMS (-32602)
#define PAL_RPC_INTERNAL_ERROR (-32603)
#define PAL_RPC_HEADER_MISMATCH (-32020)
#define PAL_RPC_WRONG_VERSION (-32022)

/* One message of JSON-RPC; views lie in the text and the arena. */
typedef struct pal_rpc_message {
    pal_str id;     /* as it was written, a text or a number; empty: nobody waits for an answer */
    pal_str method; /* empty: it is an answer itself */
    pal_json params;
    pal_json meta;   /* of the params */
    bool is_new;     /* it says which revision it is of */
    pal_str version; /* is_new: that one */
} pal_rpc_message;

/* 0, or the code of what is wrong with it, as `err` says; the id is there where it could be read.
 */
int pal_rpc_read(pal_arena *arena, pal_str text, pal_rpc_message *out_message, pal_error *err);

/* A whole message. */
void pal_rpc_put_error(pal_json_writer *writer, pal_str id, int code, const char *message);

/* ---- Who asks ---- */

typedef struct pal_mcp_peer {
    pal_str tenant;
    pal_key_role role;
    pal_budget budget;
    pal_str scope; /* ids of requests are its own within this: an HTTP session, or empty */
} pal_mcp_peer;

/* ---- The host ---- */

typedef struct pal_mcp_host pal_mcp_host;
typedef struct pal_mcp_job pal_mcp_job; /* a turn that was asked for */

typedef struct pal_mcp_host_options {
    pal_store *store;
    /* The runtime, when it is first needed. */
    pal_runtime *(*runtime)(void *user, pal_error *err);
    void *user;
} pal_mcp_host_options;

/* NULL without memory. Store and runtime must outlive it. */
pal_mcp_host *pal_mcp_host_new(const pal_mcp_host_options *options);
/* Cancels what runs, and waits for its end. Not on the loop. Accepts NULL. */
void pal_mcp_host_free(pal_mcp_host *host);

/* Where the words of a turn go. All on the runtime's loop: nothing here may block for long. */
typedef struct pal_mcp_outlet {
    /* It runs. False: nobody can hear it, which has been answered. */
    bool (*begin)(void *user, pal_mcp_job *job, const pal_turn_info *info);
    /* A message: progress while it runs, its answer as the last one. */
    void (*say)(void *user, pal_str message, bool is_last);
    /* Once, in any case: no more comes. Without an answer before where it was canceled. */
    void (*end)(void *user);
} pal_mcp_outlet;

typedef enum pal_mcp_taken {
    PAL_MCP_ANSWERED = 1, /* the answer is written */
    PAL_MCP_NOTED = 2,    /* there is none */
    PAL_MCP_LATER = 3,    /* the outlet is told, now or later */
} pal_mcp_taken;

/* Does what a message asks for. *out_code is that of an error in the answer; 0: there is none.
 * The outlet counts for turns only. */
pal_mcp_taken pal_mcp_host_take(pal_mcp_host *host, const pal_mcp_peer *peer,
        const pal_rpc_message *message, const pal_mcp_outlet *outlet, void *outlet_user,
        pal_arena *arena, pal_json_writer *writer, int *out_code);

/* Whether a revision of the old era is known. */
bool pal_mcp_knows_revision(pal_str version);

/* Stops a job from an outlet that `begin` was told of it, until `end`. Does not wait. */
void pal_mcp_job_cancel(pal_mcp_job *job);
/* Whether it is of the new era. */
bool pal_mcp_job_is_new(const pal_mcp_job *job);
/* Stops all of a scope. */
void pal_mcp_host_cancel(pal_mcp_host *host, pal_str scope);

#endif
