/* server.h - used by every handler of the server: the server, a call, and the tables of routes.
 *
 * The listener (http.h) receives a request. pal_server_admit() finds the API by the prefix
 * of the path, and the route by method and pattern. It checks the caller (access_auth.h) and the
 * rate (access_rate.h). When the body is complete, pal_server_handle() checks whether the request
 * was answered before (server_idempotency.h), and calls the handler. The handler sends one
 * response, or fails with an error in the API's envelope. A handler contains no rules about
 * conversations: it reads a request, calls the public interface, and writes a response. */
#ifndef PAL_SERVER_H
#define PAL_SERVER_H

#include <stdatomic.h>
#include "base/buf.h"
#include "base/json/json.h"
#include "palaver/palaver.h"
#include "server/http/http.h"

typedef struct pal_server pal_server;
typedef struct pal_call pal_call;

/* ---- The caller ---- */

typedef enum pal_key_role {
    PAL_KEY_NONE = 0, /* on a route: no key is required */
    PAL_KEY_READ = 1,
    PAL_KEY_WRITE = 2,
    PAL_KEY_ADMIN = 3,
} pal_key_role;

typedef struct pal_caller {
    pal_str tenant;
    pal_key_role role;
    pal_str key_id; /* empty: no keys exist, and the client is on this machine */
    pal_budget budget;
} pal_caller;

/* ---- Routes ---- */

/* PAL_OK: the handler has responded, or code that it started will respond. Any other status becomes
 * an error of the API. */
typedef pal_status (*pal_handler)(pal_call *call, pal_error *err);

typedef enum pal_api_flag {
    /* Runs on a worker, because it blocks for longer than a short read. */
    PAL_API_WORKER = 1 << 0,
    PAL_API_JSON = 1 << 1, /* the body is a JSON object, in call->body; a missing body is {} */
    PAL_API_ANY_JSON = 1 << 2, /* like PAL_API_JSON, but an unreadable body counts as {} */
    PAL_API_TURN = 1 << 3,     /* can start a turn or forward a call */
} pal_api_flag;

/* The description of a route in /openapi.json. Schemas are names in api_schema.c. */
typedef struct pal_api_doc {
    const char *id; /* "createSession" */
    const char *summary;
    const char *query;   /* "limit cursor": names of parameters; one table describes them */
    const char *request; /* schema of the body; NULL: no body */
    const char *response;
    unsigned code; /* HTTP status code of success */
} pal_api_doc;

#define PAL_API_PARAMS_MAX 4

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
    unsigned code; /* HTTP status code */
    pal_status status;
    pal_str message;
    pal_str param; /* the invalid field; may be empty */
    /* The API's name of the error: "conversation_locked"; empty: derived from the status. */
    pal_str name;
    int64_t retry_after_ms; /* negative: not sent */
} pal_failure;

/* One API: a table of routes and an envelope for errors. */
typedef struct pal_api {
    const char *name;   /* "native", "openai", "mistral" */
    const char *prefix; /* "/api/v1/" */
    /* Arrays of routes. Each ends with a zeroed route, and the list of arrays ends with NULL. */
    const pal_api_route *const *routes;
    /* Writes the body of an error. */
    void (*put_failure)(pal_call *call, const pal_failure *failure, pal_json_writer *writer);
    /* Returns PAL_NOT_FOUND if the object that the path names does not exist. An invalid request
     * then gets this error instead of its own. Runs on a worker. NULL: the handlers check that
     * before they read the request. */
    pal_handler find_subject;
    bool is_strict; /* unknown members and parameters are refused */
} pal_api;

extern const pal_api pal_api_native;
extern const pal_api pal_api_mistral;
extern const pal_api pal_api_openai;
extern const pal_api pal_api_mcp; /* "/mcp" */
/* "/api/sessions", for the launcher of PicoClaw (a personal assistant). */
extern const pal_api pal_api_picoclaw;
extern const pal_api pal_api_root; /* "/": routes of no API, with the native envelope */

/* All APIs, with NULL at the end (api_list.c). */
extern const pal_api *const pal_apis[];

/* ---- One call ---- */

struct pal_call {
    pal_server *server;
    pal_exchange *exchange;
    pal_arena *arena; /* the arena of the exchange */
    const pal_api *api;
    const pal_api_route *route;
    pal_caller caller;
    /* Parameters of the path, decoded, in the order of the path. */
    pal_str params[PAL_API_PARAMS_MAX];
    pal_json body;
    pal_str idempotency_key; /* empty: not sent */
    void *user;              /* for the handler */
    /* A handler that fails can set these to say more than a status and a message. */
    unsigned fail_code;
    const char *fail_param;
    const char *fail_name;
    int64_t fail_retry_ms;
    /* A JSON object with more members for the native envelope; may be empty. */
    pal_str fail_members;
};

/* Returns the writer of a JSON response. Its buffer belongs to the call. Begin an object, end it,
 * then send it. */
pal_json_writer *pal_call_writer(pal_call *call);
/* Sends what was written, with a line end. Can be called from any thread. The call must not be used
 * afterwards. */
void pal_call_send(pal_call *call, unsigned code);
/* Sends an error. Can be called from any thread. The call must not be used afterwards. */
void pal_call_fail(pal_call *call, pal_status status, const pal_error *err);
/* Call this before pal_exchange_stream(). The same request with the same idempotency key may then
 * arrive again while the stream runs; it finds the first turn by derived ids. */
void pal_call_streaming(pal_call *call);

/* Sets the session that the response is about. The stored response is erased with that session. The
 * last call counts. pal_call_session(), pal_call_apply() and pal_call_trace_turn() call this. */
void pal_call_belongs(pal_call *call, pal_id session);
/* The response is about several sessions. It is not stored, and a repeat gets an error that says
 * so. */
void pal_call_is_mixed(pal_call *call);

/* A turn of this call is running. If traces are made, the turn is traced. Can be called from any
 * thread, before the response. */
void pal_call_trace_turn(pal_call *call, const pal_turn_info *info, pal_str model);

/* Returns an id. The same request, sent again with the same idempotency key, gets the same id. `n`
 * separates several ids of one request. Without an idempotency key the id is new. Use it for
 * created sessions and for client ids of messages: a repeat after a crash then finds the first
 * attempt. */
pal_id pal_call_derived_id(const pal_call *call, uint32_t n);

/* ---- Reading the request: each error names the invalid field and what it must be ---- */

/* PAL_OK with *out unchanged if the member is absent or null. */
PAL_CHECKED pal_status pal_call_text(pal_call *call, pal_json object, const char *name,
        size_t len_max, pal_str *out, pal_error *err);
PAL_CHECKED pal_status pal_call_flag(
        pal_call *call, pal_json object, const char *name, bool *out, pal_error *err);
PAL_CHECKED pal_status pal_call_count(pal_call *call, pal_json object, const char *name,
        uint64_t min, uint64_t max, uint64_t *out, pal_error *err);
/* Returns the object's bytes. */
PAL_CHECKED pal_status pal_call_object(
        pal_call *call, pal_json object, const char *name, pal_str *out, pal_error *err);
/* PAL_INVALID if the body has a member, or the query a parameter, that the route does not know
 * (api_known.c). */
PAL_CHECKED pal_status pal_call_known(pal_call *call, pal_error *err);
/* PAL_INVALID if the object has a member that is not in `names`, which are separated by spaces. An
 * open object can have other members, but not a misspelled name. */
PAL_CHECKED pal_status pal_call_names(
        pal_call *call, pal_json object, const char *names, bool is_open, pal_error *err);
/* Accepts only decimal digits, as in a path. */
bool pal_call_number(pal_str text, uint64_t *out);
/* Query parameters. PAL_OK with *out unchanged if the parameter is absent. */
PAL_CHECKED pal_status pal_call_query_count(pal_call *call, const char *name, uint64_t min,
        uint64_t max, uint64_t *out, pal_error *err);
PAL_CHECKED pal_status pal_call_query_flag(
        pal_call *call, const char *name, bool *out, pal_error *err);
/* Accepts RFC 3339, or milliseconds since 1970. */
PAL_CHECKED pal_status pal_call_query_time(
        pal_call *call, const char *name, int64_t *out_ms, pal_error *err);
/* Sets the failure's `param` to the member that the error of a native form names. Returns
 * `status`. */
pal_status pal_call_blame(pal_call *call, pal_status status, const pal_error *err);
/* Returns the text in lower case. The text must be valid UTF-8. */
pal_str pal_call_lower(pal_call *call, pal_str text);
/* Finds the session that a parameter of the path names: by id, key, alias or Loom id (the alias
 * "loom:ID"), within the caller's tenant. A UUID is found in upper and lower case. */
PAL_CHECKED pal_status pal_call_session(
        pal_call *call, pal_str name, pal_session *out_session, pal_error *err);

/* ---- Writing to the store ---- */

/* Applies operations without waiting. `done` is called when they are durable, with the status of
 * each operation set; it responds with pal_call_send() or pal_call_fail(). `done` runs on the
 * writer's thread. If a repeated request has nothing left to write, `done` runs before this
 * returns. If this fails, `done` is not called. The operations must be in the call's arena. */
typedef void (*pal_call_done)(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err);
PAL_CHECKED pal_status pal_call_apply(
        pal_call *call, pal_op *ops, size_t ops_len, pal_call_done done, pal_error *err);

/* Applies the operations that create the session of a turn; the first one is a create. Without an
 * idempotency key, the operations become part of the turn's first commit, and `done` is called
 * before this returns. With an idempotency key, or with more than PAL_TURN_CREATE_OPS_MAX
 * operations, they are applied first. A repeat can then find the session. */
PAL_CHECKED pal_status pal_call_open(pal_call *call, pal_op *ops, size_t ops_len,
        pal_turn_request *turn, pal_call_done done, pal_error *err);

/* ---- The server ---- */

struct pal_server {
    pal_store *store;
    pal_runtime *runtime;
    const pal_models *models;
    const pal_config_values *config;          /* the configuration from the start */
    const pal_route_settings *route_settings; /* the settings for routing inbound messages */
    _Atomic(pal_listener *) listener;         /* NULL while the first requests arrive early */
    struct pal_server_settings *settings;     /* the part of the configuration that can change */
    struct pal_keys *keys;
    struct pal_rate *rate;
    struct pal_idempotency *idempotency;
    struct pal_metrics *metrics;
    struct pal_trace *trace; /* NULL: no traces are made */
    struct pal_care *care;   /* periodic maintenance */
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
    struct pal_metrics *metrics; /* the metrics that the store's trace already reports to */
} pal_server_options;

/* Opens the server and starts serving. Everything in `options` must outlive the server. PAL_DENIED
 * if the address is not local and no key exists. */
PAL_CHECKED pal_status pal_server_open(
        const pal_server_options *options, pal_server **out_server, pal_error *err);
/* Accepts no new connections and no new requests. /readyz reports this. */
void pal_server_quiesce(pal_server *server);
/* Empties the cache of API keys, so that keys are read again. */
void pal_server_forget_keys(pal_server *server);
/* Applies a configuration that was read again. Settings that can change while the server runs apply
 * from now on (server_settings.h). The log lists the keys that changed, and those that need a
 * restart. `started` is the configuration that the server was opened with, and `before` the one
 * that was applied last. Afterwards only `started` is still needed. */
void pal_server_reload(pal_server *server, const pal_config *started, const pal_config *before,
        const pal_config *after);
/* Sets the log: lines go to stderr, from the configured level on. Call it before the server is
 * opened, and again after the configuration was reloaded. */
void pal_server_set_log(const pal_config_values *config, bool as_json);
/* Closes the server. The runtime must be drained before. Waits for running requests. Accepts
 * NULL. */
void pal_server_close(pal_server *server);

#endif
