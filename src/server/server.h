/* server.h - the server, and the tables of routes and APIs. server_call.h describes one call.
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
    PAL_KEY_METRICS = 1, /* only routes with PAL_API_SCRAPE */
    PAL_KEY_READ = 2,
    PAL_KEY_WRITE = 3,
    PAL_KEY_ADMIN = 4,
} pal_key_role;

typedef struct pal_caller {
    pal_str tenant;
    pal_key_role role;
    pal_str key_id; /* empty: no keys exist, and the client is on this machine */
    bool is_login;  /* a browser that has logged in with the key (access_login.h) */
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
    /* The first parameter of the path is the id of a turn. Another node's turn is its business: the
     * request is passed on (node/node_pass.h). */
    PAL_API_AT_TURN = 1 << 4,
    /* A link of any page can lead here. The response never shows anything that is stored. */
    PAL_API_PAGE = 1 << 5,
    /* Together with WORKER. The handler is first called with call->only_memory. If it cannot answer
     * without blocking, it fails with PAL_BUSY, and is called again on a worker. */
    PAL_API_MEMORY = 1 << 6,
    PAL_API_SCRAPE = 1 << 7, /* also open to keys with the role 'metrics' */
} pal_api_flag;

/* Describes a JSON object or the query parameters of a route (api/api_object.h). */
typedef struct pal_api_object pal_api_object;

/* The description of a route: for /openapi.json, and for the refusal of unknown members. */
typedef struct pal_api_doc {
    const char *id; /* "createSession" */
    const char *summary;
    const pal_api_object *query;   /* query parameters; NULL: none */
    const pal_api_object *request; /* the body; NULL: none */
    const pal_api_object *response;
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
    /* The API gets only requests with this header, although another API has the same paths; NULL:
     * all requests. Its routes are not in /openapi.json. */
    const char *header;
    /* A header besides x-request-id that carries the request's id; NULL: none. */
    const char *id_header;
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
extern const pal_api pal_api_anthropic;
extern const pal_api pal_api_anthropic_models; /* "/v1/models" for clients of Anthropic */
extern const pal_api pal_api_mcp; /* "/mcp" */
/* "/api/sessions", for the launcher of PicoClaw (a personal assistant). */
extern const pal_api pal_api_picoclaw;
extern const pal_api pal_api_root; /* "/": routes of no API, with the native envelope */

/* All APIs, with NULL at the end (api_list.c). */
extern const pal_api *const pal_apis[];

/* ---- The server ---- */

/* A client that this process has started. It sends a key that is in no store. */
typedef struct pal_server_client {
    pal_str secret; /* its key, which allows to write */
    pal_str tenant;
    /* Called after a request was recorded, on any thread. */
    void (*on_recorded)(void *user, pal_str tenant, pal_str key, pal_id session);
    void *user;
} pal_server_client;

struct pal_server {
    pal_store *store;
    pal_runtime *runtime;
    const pal_models *models;
    const pal_config_values *config;          /* the configuration from the start */
    const pal_route_settings *route_settings; /* the settings for routing inbound messages */
    _Atomic(pal_listener *) listener;         /* NULL while the first requests arrive early */
    struct pal_server_settings *settings;     /* the part of the configuration that can change */
    const pal_server_client *client;      /* NULL: none */
    struct pal_auth *auth;
    struct pal_rate *rate;
    struct pal_idempotency *idempotency;
    struct pal_metrics *metrics;
    struct pal_trace *trace; /* NULL: no traces are made */
    struct pal_maintenance *maintenance;
    struct pal_nodes *nodes;   /* NULL: the server is not a node */
    struct pal_passes *passes; /* NULL: the server is not a node */
    struct pal_mcp_service *mcp;
    struct pal_mistral_locks *mistral_locks;
    struct pal_feed *feed;
    pal_channels *channels; /* NULL: none */
    struct pal_background *background;
    struct pal_websocket_loop *websockets; /* NULL: switched off */
    atomic_bool is_draining; /* new requests are refused, or passed on to other nodes */
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
    const pal_server_client *client; /* NULL: none */
    pal_channels *channels;          /* NULL: none */
} pal_server_options;

/* Opens the server and starts serving. Everything in `options` must outlive the server. PAL_DENIED
 * if the address is not local and no key exists. */
PAL_CHECKED pal_status pal_server_open(
        const pal_server_options *options, pal_server **out_server, pal_error *err);
/* The server stops, which /readyz reports from now on. If other nodes are running, new requests are
 * passed on to them, and this function waits for `delay_ms`, so that load balancers notice.
 * Otherwise new requests are refused, and no new connections are accepted. */
void pal_server_leave(pal_server *server, int64_t delay_ms);
/* Accepts no new connections. Call it when the runtime was drained. */
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
