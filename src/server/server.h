/* server.h - what every handler of the server gets and uses: the server, one call of it, the tables
 * of routes.
 *
 * The path of a request: the listener (server_http.h) -> pal_server_handle() finds the API by the
 * path's beginning and the route by method and pattern -> who asks (server_key.h), how often
 * (server_rate.h), whether it was answered before (server_idempotency.h) -> the handler -> one
 * answer, or an error in the API's own envelope. A handler owns no rule about conversations: it
 * reads a request, calls the public interface, and writes an answer. */
#ifndef PAL_SERVER_H
#define PAL_SERVER_H

#include <stdatomic.h>
#include "base/buf.h"
#include "base/json.h"
#include "palaver/palaver.h"
#include "server/server_http.h"

typedef struct pal_server pal_server;
typedef struct pal_call pal_call;

/* ---- Who asks ---- */

typedef enum pal_key_role {
    PAL_KEY_NONE = 0, /* of a route: anyone, without a key */
    PAL_KEY_READ = 1,
    PAL_KEY_WRITE = 2,
    PAL_KEY_ADMIN = 3,
} pal_key_role;

typedef struct pal_caller {
    pal_str tenant;
    pal_key_role role;
    pal_str key_id; /* empty: no keys are configured, and it came by loopback */
    pal_budget budget;
} pal_caller;

/* ---- Routes ---- */

/* PAL_OK: it has answered, or somebody will. Anything else becomes the API's error. */
typedef pal_status (*pal_handler)(pal_call *call, pal_error *err);

typedef enum pal_api_flag {
    PAL_ROUTE_WORKER = 1 << 0,   /* runs on a worker: it blocks for more than a short read */
    PAL_ROUTE_JSON = 1 << 1,     /* the body is a JSON object, in call->body; an absent one is {} */
    PAL_ROUTE_ANY_JSON = 1 << 2, /* likewise, but whatever can't be read counts as {} */
    PAL_ROUTE_TURN = 1 << 3,     /* may start a turn, or pass a call on */
} pal_api_flag;

/* What /openapi.json says of it; schemas are names in server_schema.c. */
typedef struct pal_api_doc {
    const char *id; /* "createSession" */
    const char *summary;
    const char *query;   /* "limit cursor": names of parameters, described in one table */
    const char *request; /* schema of the body; NULL: none */
    const char *response;
    unsigned code; /* of success */
} pal_api_doc;

#define PAL_ROUTE_PARAMS_MAX 4

typedef struct pal_api_route {
    const char *method;
    const char *path; /* "/api/v1/sessions/{id}/messages" */
    pal_key_role role;
    uint32_t flags; /* pal_api_flag */
    pal_handler handler;
    pal_api_doc doc;
} pal_api_route;

/* How a request failed. */
typedef struct pal_failure {
    unsigned code; /* of HTTP */
    pal_status status;
    pal_str message;
    pal_str param; /* the field that is wrong; may be empty */
    pal_str name;  /* the API's own word for it: "conversation_locked"; empty: by the status */
    int64_t retry_after_ms; /* negative: not said */
} pal_failure;

/* One API: a table of routes and an envelope for errors. */
typedef struct pal_api {
    const char *name;   /* "native", "openai", "mistral" */
    const char *prefix; /* "/api/v1/" */
    /* Arrays of routes, each with a zeroed one at its end; NULL at the end. */
    const pal_api_route *const *routes;
    /* Writes the body of an error. */
    void (*put_failure)(pal_call *call, const pal_failure *failure, pal_json_writer *writer);
    /* PAL_NOT_FOUND where what the path names is not there: a wrong request is told that first. On
     * a worker. NULL: its handlers look before they read. */
    pal_handler find_subject;
    bool is_strict; /* members and parameters that a route does not know are refused */
} pal_api;

extern const pal_api pal_api_native;
extern const pal_api pal_api_mistral;
extern const pal_api pal_api_openai;
extern const pal_api pal_api_mcp;  /* "/mcp" */
extern const pal_api pal_api_picoclaw; /* "/api/sessions", for PicoClaw's launcher */
extern const pal_api pal_api_root; /* "/": what belongs to no API, in the native envelope */

/* All of them, NULL at the end (server_dispatch.c). */
extern const pal_api *const pal_apis[];

/* ---- One call ---- */

struct pal_call {
    pal_server *server;
    pal_exchange *exchange;
    pal_arena *arena; /* the exchange's */
    const pal_api *api;
    const pal_api_route *route;
    pal_caller caller;
    pal_str params[PAL_ROUTE_PARAMS_MAX]; /* of the path, decoded, in its order */
    pal_json body;
    pal_str idempotency_key; /* empty: none */
    void *user;              /* the handler's own */
    /* A handler that fails may say more than a status and a message. */
    unsigned fail_code;
    const char *fail_param;
    const char *fail_name;
    int64_t fail_retry_ms;
    pal_str fail_members; /* a JSON object with more for the native envelope; may be empty */
};

/* A JSON answer. The writer's buf is the call's own; begin an object, end it, then send. */
pal_json_writer *pal_call_writer(pal_call *call);
/* What was written, and a line end; from any thread. The call must not be used any more. */
void pal_call_send(pal_call *call, unsigned code);
void pal_call_fail(pal_call *call, pal_status status, const pal_error *err); /* likewise */
/* Before pal_exchange_stream(): the same request under the same idempotency key may come again
 * while the stream runs, and finds its first by derived ids. */
void pal_call_streaming(pal_call *call);

/* The answer tells of this session; what is remembered of it is erased with the session. The last
 * call counts. pal_call_session(), pal_call_apply() and pal_call_trace_turn() do it. */
void pal_call_belongs(pal_call *call, pal_id session);
/* The answer tells of several sessions: it is not remembered, and a repeat is told so. */
void pal_call_is_mixed(pal_call *call);

/* A turn of this call runs: where traces are made, it is followed. From any thread, before the
 * answer. */
void pal_call_trace_turn(pal_call *call, const pal_turn_info *info, pal_str model);

/* An id that the same request, sent again under the same idempotency key, gets again; `n` tells
 * several of one request apart. A new one where there is no such key. For sessions that are created
 * and for client ids of messages: a repeat after a crash then finds the first. */
pal_id pal_call_derived_id(const pal_call *call, uint32_t n);

/* ---- Reading what was asked: each says which field is wrong, and what it wants ---- */

/* PAL_OK with *out untouched where the member is absent or null. */
PAL_CHECKED pal_status pal_call_text(pal_call *call, pal_json object, const char *name,
        size_t len_max, pal_str *out, pal_error *err);
PAL_CHECKED pal_status pal_call_flag(
        pal_call *call, pal_json object, const char *name, bool *out, pal_error *err);
PAL_CHECKED pal_status pal_call_count(pal_call *call, pal_json object, const char *name,
        uint64_t min, uint64_t max, uint64_t *out, pal_error *err);
/* An object's bytes. */
PAL_CHECKED pal_status pal_call_object(
        pal_call *call, pal_json object, const char *name, pal_str *out, pal_error *err);
/* PAL_INVALID if the body has a member, or the query a parameter, that the route does not know
 * (server_known.c). */
PAL_CHECKED pal_status pal_call_known(pal_call *call, pal_error *err);
/* Decimal digits and nothing else, as in a path. */
bool pal_call_number(pal_str text, uint64_t *out);
/* Members of the query. */
PAL_CHECKED pal_status pal_call_query_count(pal_call *call, const char *name, uint64_t min,
        uint64_t max, uint64_t *out, pal_error *err);
PAL_CHECKED pal_status pal_call_query_flag(
        pal_call *call, const char *name, bool *out, pal_error *err);
/* RFC 3339, or milliseconds since 1970. */
PAL_CHECKED pal_status pal_call_query_time(
        pal_call *call, const char *name, int64_t *out_ms, pal_error *err);
/* The member that a native form's error names becomes the failure's `param`. Returns `status`. */
pal_status pal_call_blame(pal_call *call, pal_status status, const pal_error *err);
/* The text, which is valid UTF-8, in lower case. */
pal_str pal_call_lower(pal_call *call, pal_str text);
/* The session that a parameter of the path names: by id, key or alias, of the caller's tenant. A
 * UUID is found in upper and lower case. */
PAL_CHECKED pal_status pal_call_session(
        pal_call *call, pal_str name, pal_session *out_session, pal_error *err);

/* ---- Writing to the store ---- */

/* Applies without waiting; `done` runs on the writer's thread when the operations are durable, with
 * each one's status set, or not at all where this fails. The operations lie in the call's arena. It
 * answers by pal_call_send() or pal_call_fail(). */
typedef void (*pal_call_done)(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err);
PAL_CHECKED pal_status pal_call_apply(
        pal_call *call, pal_op *ops, size_t ops_len, pal_call_done done, pal_error *err);

/* Likewise for what makes the session of a turn, which begins with a create: without an idempotency
 * key it goes into the turn's own first commit, and `done` is told at once. Under a key it is made
 * first, for a repeat to find. */
PAL_CHECKED pal_status pal_call_open(pal_call *call, pal_op *ops, size_t ops_len,
        pal_turn_request *turn, pal_call_done done, pal_error *err);

/* ---- The server ---- */

struct pal_server {
    pal_store *store;
    pal_runtime *runtime;
    const pal_models *models;
    const pal_config_values *config;          /* as it was at the start */
    const pal_route_settings *route_settings; /* of inbound messages */
    _Atomic(pal_listener *) listener;         /* NULL to the first requests, which may be early */
    struct pal_settings *settings;            /* what of the configuration may have changed since */
    struct pal_keys *keys;
    struct pal_rate *rate;
    struct pal_idempotency *idempotency;
    struct pal_metrics *metrics;
    struct pal_trace *trace; /* NULL: no traces are made */
    struct pal_care *care;   /* what is done now and then */
    struct pal_mcp_service *mcp;
    struct pal_mistral_gate *mistral_gate;
    struct pal_feed *feed;
    atomic_bool is_draining; /* new requests are refused */
    int64_t started_at;
    const char *version;
};

typedef struct pal_server_options {
    pal_store *store;
    pal_runtime *runtime;
    const pal_models *models;
    const pal_config_values *config;
    const pal_route_settings *route_settings;
    struct pal_metrics *metrics; /* that the store's trace tells already */
} pal_server_options;

/* Everything must outlive the server. PAL_DENIED where the address is not this machine's own and
 * there is no key. It serves from now on. */
PAL_CHECKED pal_status pal_server_open(
        const pal_server_options *options, pal_server **out_server, pal_error *err);
/* No new connections, no new requests; /readyz says so. */
void pal_server_quiesce(pal_server *server);
/* Keys are looked up anew. */
void pal_server_forget_keys(pal_server *server);
/* The configuration was read anew: what can change while the server runs counts from now on
 * (server_settings.h), and the log says which keys did, and which need a restart. `started` is what
 * the server was opened with, `before` what was taken last; none is needed any more afterwards but
 * `started`. */
void pal_server_reload(pal_server *server, const pal_config *started, const pal_config *before,
        const pal_config *after);
/* Lines for operators go to stderr, from the configured level on. Before the server is opened, and
 * again when the configuration was read anew. */
void pal_server_set_log(const pal_config_values *config, bool as_json);
/* The runtime has been drained. Waits for what is being answered. Accepts NULL. */
void pal_server_close(pal_server *server);

#endif
