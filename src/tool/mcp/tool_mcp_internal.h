/* tool_mcp_internal.h - definitions that the tool_mcp*.c files share. For them only; everything
 * runs on the loop.
 *
 * A server gets JSON-RPC requests through a transport: the streams of a child (tool_mcp_stdio.c) or
 * HTTP (tool_mcp_http.c). The protocol has two eras. In the old one (up to 2025-11-25) a session
 * begins with `initialize`. In the new one (2026-07-28) every request names its revision.
 * tool_mcp_handshake.c finds out which one a server uses.
 *
 * A call that the server cannot complete at once ends with a handle (tool_mcp_handle.c): a task
 * that must be polled (tool_mcp_task.c), or questions to a person. In the old era questions arrive
 * while the request runs (tool_mcp_ask.c).
 *
 * Any callback can close the server or cancel calls. So every entry from the loop is between
 * pal_tool_mcp_enter() and pal_tool_mcp_leave(), and closed objects are freed by the last leave.
 * `closed` must be checked after each callback. */
#ifndef PAL_TOOL_MCP_INTERNAL_H
#define PAL_TOOL_MCP_INTERNAL_H

#include "base/json/json.h"
#include "base/map.h"
#include "tool/oauth/oauth.h"
#include "tool/mcp/tool_mcp.h"

#define PAL_TOOL_MCP_MESSAGE_BYTES_MAX (16u << 20) /* one message, in both directions */
#define PAL_TOOL_MCP_VALUES_MAX 500000u            /* JSON values in a message of the server */
#define PAL_TOOL_MCP_TEXT_BYTES_MAX (4u << 20)     /* one text in a result, with its escapes */
#define PAL_TOOL_MCP_PARTS_MAX 1000                /* parts of a result; a note replaces the rest */
#define PAL_TOOL_MCP_REPAIRED_BYTES_MAX (1u << 20) /* a message that is not UTF-8 */
#define PAL_TOOL_MCP_STREAM_BYTES_MAX (64u << 20)  /* the complete HTTP answer to one request */
#define PAL_TOOL_MCP_TOOLS_MAX 4096 /* tools of one server; further tools are ignored */
#define PAL_TOOL_MCP_PAGES_MAX 1000
#define PAL_TOOL_MCP_CALLS_MAX 10000 /* calls at the same time */
#define PAL_TOOL_MCP_SESSION_LEN_MAX 1024
#define PAL_TOOL_MCP_WARNED_MAX 64 /* tools of one server that warnings report */

#define PAL_TOOL_MCP_NEW_VERSION "2026-07-28"
#define PAL_TOOL_MCP_OLD_VERSION "2025-11-25" /* the newest revision of the old era */

/* The capability to ask a person, as a member of an object. */
#define PAL_TOOL_MCP_ELICITATION "\"elicitation\":{\"form\":{},\"url\":{}}"

#define PAL_TOOL_MCP_METHOD_NOT_FOUND (-32601)
#define PAL_TOOL_MCP_HEADER_MISMATCH (-32020)
#define PAL_TOOL_MCP_LACKS_CAPABILITY (-32021)
#define PAL_TOOL_MCP_WRONG_VERSION (-32022)
#define PAL_TOOL_MCP_URL_REQUIRED (-32042)

typedef enum pal_tool_mcp_era {
    PAL_TOOL_MCP_ERA_UNKNOWN = 0,
    PAL_TOOL_MCP_ERA_OLD = 1,
    PAL_TOOL_MCP_ERA_NEW = 2,
} pal_tool_mcp_era;

/* ---- Requests ---- */

typedef struct pal_tool_mcp_request pal_tool_mcp_request;
typedef struct pal_tool_mcp_exchange pal_tool_mcp_exchange; /* one HTTP request */

typedef struct pal_tool_mcp_answer {
    pal_status status; /* PAL_OK: `result` is set; PAL_PROVIDER: the server rejected it; PAL_IO,
                          PAL_LIMIT, PAL_TIMEOUT, PAL_NO_MEMORY: there was no answer */
    pal_json result;
    int64_t code;   /* PROVIDER: the JSON-RPC code; 0: none */
    pal_json data;  /* PROVIDER: the data of the error */
    long http_code; /* 0: none */
    pal_str error;  /* one line; empty if the status is PAL_OK */
} pal_tool_mcp_answer;

/* A request is a member of its owner's struct. A zeroed request is not running. */
struct pal_tool_mcp_request {
    pal_tool_mcp *mcp;
    uint64_t id; /* 0: it is not running */
    const char *method;
    /* Called once, unless the request is dropped. The request is no longer running then, and can be
     * freed in the callback. */
    void (*on_answer)(pal_tool_mcp_request *request, const pal_tool_mcp_answer *answer);
    void (*on_progress)(pal_tool_mcp_request *request); /* NULL: progress is not requested */
    bool is_notification; /* `on_answer` reports only that it was sent */
    bool is_endless;      /* its answer is the end of a stream */
    bool is_unanswered;   /* its answer is ignored; it lives only while it is being sent */
    bool can_ask;         /* a person can answer questions about it */
    /* the header Mcp-Name: a tool or a task; not copied while it runs, like the next member */
    pal_str name;
    const pal_header *headers;
    size_t headers_len;
    pal_timer timer;
    pal_tool_mcp_exchange *exchange;
    pal_tool_mcp_request *previous, *next;
};

/* Sends a request. `params` is a JSON object without _meta. `wait_ms` 0: no limit. No callback is
 * made before this function returns. */
PAL_CHECKED pal_status pal_tool_mcp_request_send(pal_tool_mcp *mcp, pal_tool_mcp_request *request,
        pal_str params, int64_t wait_ms, pal_error *err);
/* Ends a request without a callback; the request need not be running. With `notify`, the server is
 * notified. */
void pal_tool_mcp_request_drop(pal_tool_mcp_request *request, bool notify);
/* Ends a request with an answer. */
void pal_tool_mcp_request_end(pal_tool_mcp_request *request, const pal_tool_mcp_answer *answer);
void pal_tool_mcp_request_fail(
        pal_tool_mcp_request *request, pal_status status, const char *format, ...) PAL_PRINTF(3, 4);
/* Sends a request without waiting for its answer, which is ignored. */
void pal_tool_mcp_request_post(pal_tool_mcp *mcp, const char *method, pal_str name, pal_str params);
/* Answers a request of the server. `id` and `result` are JSON. */
void pal_tool_mcp_respond(pal_tool_mcp *mcp, pal_str id, pal_str result);
/* Handles one message from the server, or a list of them. `during` is the request whose stream the
 * message came on, or NULL. Returns false if the text is not a message. */
bool pal_tool_mcp_receive(pal_tool_mcp *mcp, pal_tool_mcp_request *during, pal_str text);
/* Reads a JSON-RPC answer. Texts are in the server's scratch arena. Returns false if the message is
 * not an answer. */
bool pal_tool_mcp_answer_read(pal_tool_mcp *mcp, pal_json message, pal_tool_mcp_answer *out_answer);
/* Parses into the scratch arena. Invalid UTF-8 is corrected. */
bool pal_tool_mcp_parse(pal_tool_mcp *mcp, pal_str text, pal_json *out_value);

/* ---- Transports ---- */

typedef struct pal_tool_mcp_transport {
    bool is_ordered; /* messages arrive in the order in which they were sent */
    pal_status (*open)(pal_tool_mcp *mcp, pal_error *err);
    /* `request` is NULL for messages without an answer. The message contains no line end. */
    pal_status (*send)(
            pal_tool_mcp *mcp, pal_tool_mcp_request *request, pal_str message, pal_error *err);
    void (*forget)(pal_tool_mcp_request *request); /* the answer is no longer needed */
    void (*listen)(pal_tool_mcp *mcp); /* old era: receive messages that are not answers */
    void (*close)(pal_tool_mcp *mcp);  /* closes everything that is open */
} pal_tool_mcp_transport;

extern const pal_tool_mcp_transport pal_tool_mcp_stdio;
extern const pal_tool_mcp_transport pal_tool_mcp_http;

/* ---- Tools ---- */

typedef struct pal_tool_mcp_toolbox {
    pal_arena *arena; /* NULL: no tools were listed yet */
    pal_tool *tools;
    pal_str *names; /* the server's own names */
    bool *as_task;  /* old era: the tool can only be run as a task */
    size_t len, cap;
} pal_tool_mcp_toolbox;

void pal_tool_mcp_toolbox_done(pal_tool_mcp_toolbox *tools);
/* Adds a tool of a list; an unusable tool is left out. Returns false if there is no memory or there
 * are too many tools. */
bool pal_tool_mcp_toolbox_add(pal_tool_mcp *mcp, pal_tool_mcp_toolbox *tools, pal_json tool);
/* Makes the shown names of all tools. */
bool pal_tool_mcp_toolbox_name(pal_tool_mcp_toolbox *tools, pal_str server);
bool pal_tool_mcp_toolbox_equal(const pal_tool_mcp_toolbox *a, const pal_tool_mcp_toolbox *b);
/* Returns the index of the tool with this name, which is the server's own; `len` if there is
 * none. */
size_t pal_tool_mcp_toolbox_find(const pal_tool_mcp_toolbox *tools, pal_str name);

/* ---- Handles ---- */

/* The data that continues a call. The members point into the handle's text or the arena. */
typedef struct pal_tool_mcp_handle {
    pal_str tool;      /* the server's name of the tool */
    pal_str task;      /* id of the task that runs the tool; empty: none */
    int64_t poll_ms;   /* interval at which the server wants the task to be polled */
    uint32_t rounds;   /* how often the server has requested another round */
    pal_str state;     /* the server's requestState, a JSON string; empty: none */
    pal_json requests; /* questions by key, as the server sent them */
    bool is_repeat;    /* if all questions are accepted, the call is repeated without the replies */
} pal_tool_mcp_handle;

PAL_CHECKED pal_status pal_tool_mcp_handle_read(
        pal_str text, pal_arena *arena, pal_tool_mcp_handle *out_handle, pal_error *err);
/* Returns the text, in the arena; empty if it is too long or there is no memory. */
pal_str pal_tool_mcp_handle_write(const pal_tool_mcp_handle *handle, pal_arena *arena);

/* ---- Calls ---- */

typedef struct pal_tool_mcp_calls {
    pal_tool_mcp_call *first, *last;
    size_t len;
} pal_tool_mcp_calls;

/* A question of the old era that waits for a reply (tool_mcp_ask.c). */
typedef struct pal_tool_mcp_pending pal_tool_mcp_pending;

struct pal_tool_mcp_call {
    pal_tool_mcp *mcp;
    pal_tool_mcp_calls *list; /* the list that contains the call */
    pal_tool_mcp_call *previous, *next;
    pal_tool_mcp_request request; /* the request in flight */
    pal_timer timer;              /* the time limit; stopped while a question is open */
    pal_timer poll_timer;         /* fires at the next poll of the task */
    int64_t until_ms; /* the final time limit, whatever progress is reported */
    pal_arena *arena; /* owns the next members */
    pal_tool_mcp_order order;
    pal_str tool; /* the server's name of the tool */
    pal_tool_mcp_handle handle;
    bool has_replied;       /* the task has the replies */
    pal_arena *round_arena; /* owns the headers of the request */
    pal_header *headers;
    size_t headers_len;
    pal_tool_mcp_pending *pending;
    int64_t asked_ms;   /* when the first open question arrived */
    uint32_t questions; /* questions so far */
    uint32_t refusals;  /* lost sessions and changed lists so far */
    uint32_t sessions;  /* number of the server's session when the request was sent */
};

void pal_tool_mcp_calls_send(pal_tool_mcp *mcp); /* sends the waiting calls */
/* Ends the calls that were sent, except for those with a task: they wait for the next start. */
void pal_tool_mcp_calls_fail_sent(pal_tool_mcp *mcp, pal_str why);
void pal_tool_mcp_calls_fail_waiting(pal_tool_mcp *mcp, pal_str why);
void pal_tool_mcp_calls_drop(pal_tool_mcp *mcp); /* drops all calls without callbacks */

/* Sends a request for the call, which must have none in flight. */
PAL_CHECKED pal_status pal_tool_mcp_call_send(pal_tool_mcp_call *call, const char *method,
        pal_str name, pal_str params,
        void (*on_answer)(pal_tool_mcp_request *request, const pal_tool_mcp_answer *answer),
        pal_error *err);
/* Fails the call. Both free it before the callback. */
void pal_tool_mcp_call_fail(pal_tool_mcp_call *call, const char *format, ...) PAL_PRINTF(2, 3);
void pal_tool_mcp_call_fail_with(pal_tool_mcp_call *call, pal_str text); /* the server's text */
/* Ends the call with a result of the server, or with a handle. */
void pal_tool_mcp_call_end_with(pal_tool_mcp_call *call, pal_json result);
/* Ends the call with call->handle, or declines the questions in it if they cannot be asked. */
void pal_tool_mcp_call_suspend(pal_tool_mcp_call *call);
/* Returns false if the answer does not say that the server has lost the session, or has too often.
 * Otherwise the call waits for the next session. */
bool pal_tool_mcp_call_waits_again(pal_tool_mcp_call *call, const pal_tool_mcp_answer *answer);
/* The server has reported progress: the time limit begins again. */
void pal_tool_mcp_call_extend(pal_tool_mcp_call *call);

static inline pal_tool_mcp_call *pal_tool_mcp_call_of(pal_tool_mcp_request *request)
{
    return (pal_tool_mcp_call *)((char *)request - offsetof(pal_tool_mcp_call, request));
}

/* ---- Tasks ---- */

/* Sends the replies to the task's questions, if there are any, and polls it until it ends. */
PAL_CHECKED pal_status pal_tool_mcp_task_start(pal_tool_mcp_call *call, pal_error *err);
/* Reads a task that was created, in either era. Returns false if there is none. */
bool pal_tool_mcp_task_read(const pal_tool_mcp *mcp, pal_json result, pal_json *out_task);
/* Returns how long to wait before the next poll. */
int64_t pal_tool_mcp_task_interval(pal_json task);
/* Cancels a task. Does nothing if the id is empty, or the server is not ready. */
void pal_tool_mcp_task_cancel(pal_tool_mcp *mcp, pal_str task);

/* ---- Questions while a request runs (the old era) ---- */

/* Handles elicitation/create. `id` is the server's. */
void pal_tool_mcp_ask(
        pal_tool_mcp *mcp, pal_tool_mcp_request *during, pal_json id, pal_json params);
/* The server does not need the reply to its request `id` any more. */
void pal_tool_mcp_ask_withdraw(pal_tool_mcp *mcp, pal_json id);
void pal_tool_mcp_ask_done(pal_tool_mcp_call *call); /* drops the open questions */

/* ---- The server ---- */

struct pal_tool_mcp {
    pal_loop *loop;
    pal_http *client;
    pal_tool_mcp_on_change on_change;
    void *user;
    pal_arena *arena; /* holds the configuration */
    pal_tool_mcp_config config;
    const char **arguments; /* the child's arguments, in the form that it needs */
    const char **environment;

    pal_tool_mcp_state state;
    char failure[PAL_ERROR_MESSAGE_MAX];
    uint32_t failures; /* failures in a row */
    int64_t ready_ms;  /* when it became ready */
    pal_timer timer;   /* fires at the next start */
    unsigned busy;
    bool closed;

    const pal_tool_mcp_transport *transport;
    struct pal_tool_mcp_child *child;               /* stdio only */
    char session[PAL_TOOL_MCP_SESSION_LEN_MAX + 1]; /* HTTP only; empty: no session */
    uint32_t sessions;                /* number of sessions so far, including this one */
    pal_tool_mcp_exchange *exchanges; /* HTTP: all open requests */
    pal_oauth *oauth;                 /* HTTP: gets tokens; NULL: only configured headers */

    pal_tool_mcp_era era, last_era; /* the current era, and the one at the end of the last start */
    const char *version;
    bool has_tools, reports_changes;
    bool runs_tasks; /* old era: the server can run tools as tasks */
    bool probe_was_late;
    bool was_refused; /* the revision of the first request was refused */
    pal_tool_mcp_request discover, initialize, initialized;

    uint64_t last_id;
    pal_tool_mcp_request *requests;
    pal_map by_id;
    pal_arena *scratch; /* reset after each message */

    pal_tool_mcp_toolbox tools, draft; /* the shown tools, and the ones that are being listed */
    pal_str warned[PAL_TOOL_MCP_WARNED_MAX]; /* unusable tools that were reported; in `arena` */
    size_t warned_len;
    pal_tool_mcp_request list;
    char *cursor;
    uint32_t pages;
    int64_t listed_ms;
    pal_timer list_timer;
    bool list_again;
    pal_tool_mcp_request listening; /* new era: the request for changes */
    pal_timer listen_timer;
    int64_t listen_pause_ms, listen_ms; /* the next pause, and when the current request began */

    pal_tool_mcp_calls waiting, sent;
};

void pal_tool_mcp_enter(pal_tool_mcp *mcp);
void pal_tool_mcp_leave(pal_tool_mcp *mcp);
void pal_tool_mcp_set_failure(pal_tool_mcp *mcp, const char *format, ...) PAL_PRINTF(2, 3);
/* The server died or cannot be used: running requests fail, and it is restarted after a pause.
 * `for_good`: a restart would not help. */
void pal_tool_mcp_on_disconnect(pal_tool_mcp *mcp, bool for_good, const char *format, ...)
        PAL_PRINTF(3, 4);
void pal_tool_mcp_handshake_start(pal_tool_mcp *mcp); /* the transport is open */
void pal_tool_mcp_on_handshake_done(pal_tool_mcp *mcp);
void pal_tool_mcp_on_list_done(pal_tool_mcp *mcp, bool has_changed); /* all tools are known */
/* Returns true if the server says that it no longer knows our session. Then a new session is
 * begun. */
bool pal_tool_mcp_session_is_lost(const pal_tool_mcp *mcp, const pal_tool_mcp_answer *answer);
void pal_tool_mcp_session_renew(pal_tool_mcp *mcp);
void pal_tool_mcp_list_start(pal_tool_mcp *mcp);
void pal_tool_mcp_list_soon(pal_tool_mcp *mcp); /* the server reported a change */
void pal_tool_mcp_list_stop(pal_tool_mcp *mcp);
void pal_tool_mcp_listen_start(pal_tool_mcp *mcp);
void pal_tool_mcp_listen_stop(pal_tool_mcp *mcp);

/* Converts a tool's result to parts, in the arena. */
void pal_tool_mcp_result_read(pal_json result, pal_arena *arena, pal_tool_outcome *out_outcome);

/* ---- Headers that repeat arguments (the new era, HTTP) ---- */

/* Returns false if the schema requires headers that are not allowed. */
bool pal_tool_mcp_headers_are_valid(pal_json schema, pal_arena *arena);
/* The headers are in the arena. */
void pal_tool_mcp_headers_make(pal_str schema, pal_str arguments, pal_arena *arena,
        pal_header **out_headers, size_t *out_len);
pal_str pal_tool_mcp_header_value(pal_str text, pal_arena *arena);

#endif
