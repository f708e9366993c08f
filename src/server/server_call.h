/* server_call.h - the private part of a pal_call, for the server_*.c files only. */
#ifndef PAL_SERVER_CALL_H
#define PAL_SERVER_CALL_H

#include "server/observe/observe_trace.h"
#include "server/server.h"
#include "server/server_limits.h"

/* Lives in the exchange's arena and is the exchange's `user`. `call` must be first. */
typedef struct pal_frame {
    pal_call call;
    pal_buf buf;
    pal_json_writer writer;
    unsigned code; /* status code of the response while it waits to be stored */
    /* NULL: the request has no idempotency key, or it was released. */
    struct pal_idempotent *idempotent;
    pal_trace_span_id span;  /* the span of the request, if traces are made */
    pal_id owner;      /* see pal_call_belongs(); none: the response belongs to no session */
    bool is_mixed;     /* see pal_call_is_mixed() */
    bool is_forgotten; /* the response must not be stored for a repeat */
    bool is_repeat;    /* the work was done before, but its response is not stored */
    bool is_on_worker; /* runs on a worker since before its body was parsed */
    bool is_error;
    pal_status status; /* if is_error: the status of the failure */
    char *reason;      /* if is_error: the message for the client; in the arena */
    pal_error failure; /* the failure, while find_subject runs before the response */
} pal_frame;

static inline pal_frame *pal_frame_of(pal_call *call)
{
    return (pal_frame *)call;
}

/* NULL: out of memory; a response was sent. */
pal_frame *pal_frame_new(pal_server *server, pal_exchange *x);
/* Call it after the response was sent. */
void pal_frame_done(pal_frame *frame);

/* The HTTP status code for a status, as docs/errors.md lists them. */
unsigned pal_status_http(pal_status status);

/* Writes an error in the native envelope. */
void pal_put_native_failure(pal_call *call, const pal_failure *failure, pal_json_writer *writer);

/* Fails with a specific HTTP code and error name. Returns `status`. */
pal_status pal_call_refuse(pal_call *call, unsigned code, const char *name, pal_status status,
        pal_error *err, const char *format, ...) PAL_PRINTF(6, 7);

#endif
