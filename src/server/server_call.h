/* server_call.h - one call: a request that has a route, its caller, and its response.
 *
 * An exchange (http.h) has one call from the moment its head has arrived. A handler gets the call.
 * One thread at a time uses it: a thread of the listener, then perhaps a worker, the store's writer
 * or the runtime's loop. Sending the response, or failing, is the last use of a call. */
#ifndef PAL_SERVER_CALL_H
#define PAL_SERVER_CALL_H

#include "server/observe/observe_trace.h"
#include "server/server.h"
#include "server/server_limits.h"

struct pal_call {
    pal_server *server;
    pal_exchange *exchange;
    pal_arena *arena; /* the arena of the exchange */
    pal_str method;
    pal_str path; /* the path that was sent, without the query */
    const pal_api *api;
    const pal_api_route *route;
    pal_caller caller;
    /* Parameters of the path, decoded, in the order of the path. */
    pal_str params[PAL_API_PARAMS_MAX];
    pal_json body;
    pal_str idempotency_key; /* empty: not sent */
    void *user;              /* the handler may use it */
    /* The session's id was taken from the path and not looked up (api_message.c). */
    bool is_id_unchecked;
    /* The work was done before, but its response is not stored (server_idempotency.c). */
    bool is_repeat;
    bool is_passed; /* another node has passed the request on to this one */
    bool is_kept;   /* the request could not be passed on, and must be handled here */
    unsigned pass_tries; /* nodes that could not be reached */
    /* A handler that fails can set these to say more than a status and a message. */
    unsigned fail_code;
    const char *fail_param;
    const char *fail_name;
    int64_t fail_retry_ms;
    /* A JSON object with more members for the native envelope; may be empty. */
    pal_str fail_members;
    /* The session that the response is about; none: it belongs to no session. A stored response is
     * erased with its session. pal_call_session(), pal_call_apply() and pal_call_trace_turn() set
     * this; the last one counts. */
    pal_id owner;
    /* The response is about several sessions. It is not stored, and a repeat gets an error that
     * says so. */
    bool is_mixed;

    /* The handler must not block: see PAL_API_MEMORY. */
    bool only_memory;

    /* Private: used by server_*.c only. */
    pal_buf buf;            /* the body of the response */
    pal_json_writer writer; /* writes into `buf` */
    unsigned code;          /* status code of the response while it waits to be stored */
    /* NULL: the request has no idempotency key, or it was released. */
    struct pal_idempotent *idempotent;
    pal_trace_span_id span; /* the span of the request, if traces are made */
    bool is_forgotten;      /* the response must not be stored for a repeat */
    bool is_on_worker;      /* runs on a worker since before its body was parsed */
    pal_status status;      /* the status of the failure; PAL_OK: the call did not fail */
    const char *reason;     /* the failure's message for the client; in the arena */
    pal_error failure;      /* the failure, while find_subject runs before the response */
};

/* Begins the call of an exchange. It lives in the exchange's arena. NULL: out of memory; a response
 * was sent. */
pal_call *pal_call_begin(pal_server *server, pal_exchange *x);
/* Releases what the call holds. Call it after the response was sent. */
void pal_call_end(pal_call *call);

/* Returns the writer of a JSON response. Its buffer belongs to the call. Begin an object, end it,
 * then send it. */
pal_json_writer *pal_call_writer(pal_call *call);
/* Sends what was written, with a line end. Can be called from any thread. The call must not be used
 * afterwards. */
void pal_call_send(pal_call *call, unsigned code);
/* Sends an error. `err` NULL: the message is the name of the status. Can be called from any thread.
 * The call must not be used afterwards. */
void pal_call_fail(pal_call *call, pal_status status, const pal_error *err);
/* Sets a specific HTTP code and error name, for a handler that fails. Returns `status`. */
pal_status pal_call_refuse(pal_call *call, unsigned code, const char *name, pal_status status,
        pal_error *err, const char *format, ...) PAL_PRINTF(6, 7);
/* The HTTP status code for a status, as docs/errors.md lists them. */
unsigned pal_call_http_code(pal_status status);
/* Writes an error in the native envelope. */
void pal_call_put_native_failure(
        pal_call *call, const pal_failure *failure, pal_json_writer *writer);

/* Call this before pal_exchange_stream(). The same request with the same idempotency key may then
 * arrive again while the stream runs; it finds the first turn by derived ids. */
void pal_call_streaming(pal_call *call);

/* A turn of this call is running. If traces are made, the turn is traced. Can be called from any
 * thread, before the response. */
void pal_call_trace_turn(pal_call *call, const pal_turn_info *info, pal_str model);

/* Returns an id. The same request, sent again with the same idempotency key, gets the same id. `n`
 * separates several ids of one request. Without an idempotency key the id is new. Use it for
 * created sessions and for client ids of messages: a repeat after a crash then finds the first
 * attempt. */
pal_id pal_call_derived_id(const pal_call *call, uint32_t n);

/* Gives client ids to the messages of a request with an idempotency key, so that a repeat stores no
 * message twice. Messages that have a client id keep it. The ids are pal_call_derived_id() with
 * `first_n` and the numbers after it. */
void pal_call_give_client_ids(pal_call *call, pal_message *messages, size_t len, uint32_t first_n);

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
PAL_CHECKED pal_status pal_call_known_names(
        pal_call *call, pal_json object, const char *names, bool is_open, pal_error *err);
/* Accepts only decimal digits, as in a path. */
bool pal_call_number(pal_str text, uint64_t *out);
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

/* Applies operations without waiting. `on_applied` is called when they are durable, with the status
 * of each operation set; it responds with pal_call_send() or pal_call_fail(). It runs on the
 * writer's thread. If a repeated request has nothing left to write, it runs before this returns. If
 * this fails, it is not called. The operations must be in the call's arena. */
typedef void (*pal_call_on_applied)(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err);
PAL_CHECKED pal_status pal_call_apply(pal_call *call, pal_op *ops, size_t ops_len,
        pal_call_on_applied on_applied, pal_error *err);

/* Applies the operations that create the session of a turn; the first one is a create. Without an
 * idempotency key, the operations become part of the turn's first commit, and `on_applied` is
 * called before this returns. With an idempotency key, or with more than PAL_TURN_CREATE_OPS_MAX
 * operations, they are applied first. A repeat can then find the session. */
PAL_CHECKED pal_status pal_call_open(pal_call *call, pal_op *ops, size_t ops_len,
        pal_turn_request *turn, pal_call_on_applied on_applied, pal_error *err);

#endif
