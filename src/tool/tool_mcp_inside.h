/* tool_mcp_inside.h - what the tool_mcp*.c files share. Only for them; all on the loop.
 *
 * A server is spoken to by requests of JSON-RPC, which a transport carries: a child's streams
 * (tool_mcp_stdio.c) or HTTP (tool_mcp_http.c). There are two eras of the protocol. In the old one
 * (up to 2025-11-25) a session begins with `initialize`; in the new one (2026-07-28) every request
 * says for itself which revision it is of. tool_mcp_hello.c finds out which one a server speaks.
 *
 * Whoever is told something may close the server or cancel calls at once. So every way in from the
 * loop is between pal_mcp_enter() and pal_mcp_leave(), and what was closed is freed by the last
 * leave; after each word to the outside, `closed` is looked at. */
#ifndef PAL_TOOL_MCP_INSIDE_H
#define PAL_TOOL_MCP_INSIDE_H

#include "base/json.h"
#include "base/map.h"
#include "tool/tool_mcp.h"

#define PAL_MCP_MESSAGE_BYTES_MAX (16u << 20) /* of one message, either way */
#define PAL_MCP_STREAM_BYTES_MAX (64u << 20)  /* of all that comes over HTTP for one request */
#define PAL_MCP_TOOLS_MAX 4096                /* of one server; the rest is not seen */
#define PAL_MCP_PAGES_MAX 1000
#define PAL_MCP_CALLS_MAX 10000 /* at once */
#define PAL_MCP_SESSION_LEN_MAX 1024

#define PAL_MCP_NEW_VERSION "2026-07-28"
#define PAL_MCP_OLD_VERSION "2025-11-25" /* the newest of the old ones */

#define PAL_MCP_METHOD_NOT_FOUND (-32601)
#define PAL_MCP_HEADER_MISMATCH (-32020)
#define PAL_MCP_LACKS_CAPABILITY (-32021)
#define PAL_MCP_WRONG_VERSION (-32022)

typedef enum pal_mcp_era {
    PAL_MCP_ERA_UNKNOWN = 0,
    PAL_MCP_ERA_OLD = 1,
    PAL_MCP_ERA_NEW = 2,
} pal_mcp_era;

/* ---- Requests ---- */

typedef struct pal_mcp_request pal_mcp_request;
typedef struct pal_mcp_exchange pal_mcp_exchange; /* one HTTP request */

typedef struct pal_mcp_answer {
    pal_status status; /* PAL_OK: `result` is it; PAL_PROVIDER: the server said no; PAL_IO,
                          PAL_LIMIT, PAL_TIMEOUT, PAL_NO_MEMORY: no answer came */
    pal_json result;
    int64_t code;   /* PROVIDER: of JSON-RPC, 0: none */
    pal_json data;  /* likewise */
    long http_code; /* 0: none */
    pal_str error;  /* unless OK; a line */
} pal_mcp_answer;

/* It lies in its owner; zeroed: it does not run. */
struct pal_mcp_request {
    pal_mcp *mcp;
    uint64_t id; /* 0: it does not run */
    const char *method;
    /* Once, unless it is dropped. It runs no more by then, and may be gone afterwards. */
    void (*answered)(pal_mcp_request *request, const pal_mcp_answer *answer);
    void (*progressed)(pal_mcp_request *request); /* NULL: nobody asks for it */
    bool is_notification;                         /* `answered` says only that it was sent */
    bool is_endless;                              /* its answer is the end of a stream */
    pal_str tool; /* of a call; borrowed while it runs, as the next */
    const pal_http_header *headers;
    size_t headers_len;
    pal_timer timer;
    pal_mcp_exchange *exchange;
    pal_mcp_request *previous, *next;
};

/* `params` is a JSON object, without _meta. `wait_ms` 0: no bound. Nothing is told before this
 * returns. */
PAL_CHECKED pal_status pal_mcp_send(
        pal_mcp *mcp, pal_mcp_request *request, pal_str params, int64_t wait_ms, pal_error *err);
/* Ends it without a word; one that does not run too. With `tell`, the server hears of it. */
void pal_mcp_drop(pal_mcp_request *request, bool tell);
/* Ends it with an answer. */
void pal_mcp_answer_request(pal_mcp_request *request, const pal_mcp_answer *answer);
void pal_mcp_fail_request(pal_mcp_request *request, pal_status status, const char *format, ...)
        PAL_PRINTF(3, 4);
/* One message from the server, or a list of them. False: it is none. */
bool pal_mcp_take(pal_mcp *mcp, pal_str text);
/* What an answer's object of JSON-RPC says; views lie in the server's scratch arena. False: it is
 * no answer. */
bool pal_mcp_read_answer(pal_mcp *mcp, pal_json message, pal_mcp_answer *out_answer);
/* Parses into the scratch arena. What is not UTF-8 is made so. */
bool pal_mcp_parse(pal_mcp *mcp, pal_str text, pal_json *out_value);

/* ---- Transports ---- */

typedef struct pal_mcp_transport {
    bool is_ordered; /* what was sent first arrives first */
    pal_status (*open)(pal_mcp *mcp, pal_error *err);
    /* `request` is NULL for what has no answer. The message has no line's end in it. */
    pal_status (*send)(pal_mcp *mcp, pal_mcp_request *request, pal_str message, pal_error *err);
    void (*forget)(pal_mcp_request *request); /* its answer is not wanted any more */
    void (*listen)(pal_mcp *mcp);             /* the old era: for what comes unasked */
    void (*close)(pal_mcp *mcp);              /* everything that is open */
} pal_mcp_transport;

extern const pal_mcp_transport pal_mcp_stdio;
extern const pal_mcp_transport pal_mcp_http;

/* ---- Tools ---- */

typedef struct pal_mcp_toolbox {
    pal_arena *arena; /* NULL: none were ever listed */
    pal_tool *tools;
    pal_str *names; /* the server's own */
    size_t len, cap;
} pal_mcp_toolbox;

void pal_mcp_toolbox_done(pal_mcp_toolbox *tools);
/* Adds a tool of a list; one that can't be used is left out. False: no memory, or too many. */
bool pal_mcp_toolbox_add(pal_mcp *mcp, pal_mcp_toolbox *tools, pal_json tool);
/* Makes the shown names of all. */
bool pal_mcp_toolbox_name(pal_mcp_toolbox *tools, pal_str server);
bool pal_mcp_toolbox_equal(const pal_mcp_toolbox *a, const pal_mcp_toolbox *b);
const pal_tool *pal_mcp_toolbox_find(
        const pal_mcp_toolbox *tools, pal_str name); /* the server's own */

/* ---- Calls ---- */

typedef struct pal_mcp_calls {
    pal_mcp_call *first, *last;
    size_t len;
} pal_mcp_calls;

void pal_mcp_calls_send(pal_mcp *mcp); /* those that wait */
void pal_mcp_calls_fail_sent(pal_mcp *mcp, pal_str why);
void pal_mcp_calls_fail_waiting(pal_mcp *mcp, pal_str why);
void pal_mcp_calls_drop(pal_mcp *mcp); /* all, without a word */

/* ---- The server ---- */

struct pal_mcp {
    pal_loop *loop;
    pal_http *client;
    pal_mcp_changed changed;
    void *user;
    pal_arena *arena; /* of the configuration */
    pal_mcp_config config;
    const char **arguments; /* of the child, as it wants them */
    const char **environment;

    pal_mcp_state state;
    char failure[PAL_ERROR_MESSAGE_MAX];
    uint32_t failures; /* in a row */
    int64_t ready_ms;  /* since when */
    pal_timer timer;   /* until the next start */
    unsigned busy;
    bool closed;

    const pal_mcp_transport *transport;
    struct pal_mcp_child *child;               /* stdio */
    char session[PAL_MCP_SESSION_LEN_MAX + 1]; /* HTTP; empty: there is none */
    uint32_t sessions;                         /* that there were, this one among them */
    pal_mcp_exchange *exchanges;               /* HTTP: all that are open */

    pal_mcp_era era, last_era; /* that is spoken; that the last start ended with */
    const char *version;
    bool has_tools, tells_changes;
    bool probe_was_late;
    pal_mcp_request discover, initialize, initialized;

    uint64_t last_id;
    pal_mcp_request *requests;
    pal_map by_id;
    pal_arena *scratch; /* of the message that is being read */

    pal_mcp_toolbox tools, draft; /* that are shown; that are being listed */
    pal_mcp_request list;
    char *cursor;
    uint32_t pages;
    int64_t listed_ms;
    pal_timer list_timer;
    bool list_again;
    pal_mcp_request listening; /* the new era: for changes */
    pal_timer listen_timer;
    int64_t listen_pause_ms, listen_ms; /* the next one; since when */

    pal_mcp_calls waiting, sent;
};

void pal_mcp_enter(pal_mcp *mcp);
void pal_mcp_leave(pal_mcp *mcp);
void pal_mcp_set_failure(pal_mcp *mcp, const char *format, ...) PAL_PRINTF(2, 3);
/* It is gone, or of no use: what runs fails, and it is started again after a pause. `for_good`: a
 * second try would be no better. */
void pal_mcp_broke(pal_mcp *mcp, bool for_good, const char *format, ...) PAL_PRINTF(3, 4);
void pal_mcp_hello(pal_mcp *mcp); /* the transport is open */
void pal_mcp_said_hello(pal_mcp *mcp);
void pal_mcp_listed(pal_mcp *mcp, bool has_changed); /* all tools are known */
/* Whether it says that it does not know our session any more. Then another one is begun. */
bool pal_mcp_is_lost(const pal_mcp *mcp, const pal_mcp_answer *answer);
void pal_mcp_renew(pal_mcp *mcp);
void pal_mcp_list_start(pal_mcp *mcp);
void pal_mcp_list_soon(pal_mcp *mcp); /* the server said that it changed */
void pal_mcp_list_stop(pal_mcp *mcp);
void pal_mcp_listen_start(pal_mcp *mcp);
void pal_mcp_listen_stop(pal_mcp *mcp);
bool pal_mcp_knows_version(pal_str version, const char **out_version); /* of the old era */

/* A tool's result as parts, in the arena. */
void pal_mcp_read_result(pal_json result, pal_arena *arena, pal_tool_outcome *out_outcome);

/* ---- Headers that repeat arguments (the new era, HTTP) ---- */

/* False: the schema asks for headers that can't be. */
bool pal_mcp_headers_valid(pal_json schema, pal_arena *arena);
/* In the arena. */
void pal_mcp_headers_make(pal_str schema, pal_str arguments, pal_arena *arena,
        pal_http_header **out_headers, size_t *out_len);
pal_str pal_mcp_header_value(pal_str text, pal_arena *arena);

#endif
