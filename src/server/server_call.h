/* server_call.h - what is behind a pal_call, for the server_*.c files only. */
#ifndef PAL_SERVER_CALL_H
#define PAL_SERVER_CALL_H

#include "server/server.h"
#include "server/server_limits.h"
#include "server/server_trace.h"

/* Lies in the exchange's arena and is its user. `call` comes first. */
typedef struct pal_frame {
    pal_call call;
    pal_buf buf;
    pal_json_writer writer;
    unsigned code;                     /* of the answer that waits to be remembered */
    struct pal_idempotent *idempotent; /* NULL: no key, or it was let go */
    pal_span_id span;                  /* of the request, where traces are made */
    pal_id owner;                      /* see pal_call_belongs(); none: of no session */
    bool is_mixed;                     /* see pal_call_is_mixed() */
    bool is_forgotten;                 /* its answer is not to be sent again */
    bool is_repeat;                    /* its work was done before, but the answer is not known */
    bool is_on_worker;                 /* since before its body was read */
    bool is_error;
    pal_status status; /* is_error: of what */
    char *reason;      /* is_error: what the client is told; in the arena */
    pal_error failure; /* of a request whose subject is looked for before it is told */
} pal_frame;

static inline pal_frame *pal_frame_of(pal_call *call)
{
    return (pal_frame *)call;
}

/* NULL without memory: then it has been answered. */
pal_frame *pal_frame_new(pal_server *server, pal_exchange *x);
/* After the answer was sent. */
void pal_frame_done(pal_frame *frame);

/* The code of HTTP for a status, as docs/errors.md has them. */
unsigned pal_status_http(pal_status status);

/* The native envelope. */
void pal_put_native_failure(pal_call *call, const pal_failure *failure, pal_json_writer *writer);

/* Fails with a code and a word of its own. Returns `status`. */
pal_status pal_call_refuse(pal_call *call, unsigned code, const char *name, pal_status status,
        pal_error *err, const char *format, ...) PAL_PRINTF(6, 7);

/* No stream could be had: 429 where its key has too many, else 503. Returns the status. */
pal_status pal_call_refuse_stream(pal_call *call, pal_error *err);

/* Logs that a turn failed, or that a call of its model is tried again; nothing else. Called by
 * whoever reads the events of a turn for its client. */
void pal_server_log_event(const pal_event *event, pal_id session);

#endif
