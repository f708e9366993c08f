/* run_forward.h - forwards a request to the model service unchanged, for every API. */
#ifndef PAL_RUN_FORWARD_H
#define PAL_RUN_FORWARD_H

#include "server/server.h"

/* Says what to do with one frame of a stream. */
typedef enum pal_forward_frame {
    PAL_FORWARD_FRAME_SEND = 0,
    PAL_FORWARD_FRAME_HIDE = 1, /* the client does not get it */
    PAL_FORWARD_FRAME_LAST = 2,  /* send it; it properly ends the stream */
    PAL_FORWARD_FRAME_ERROR = 3, /* send it; it ends the stream with an error */
    PAL_FORWARD_FRAME_BAD = 4,   /* the client could not read it: the stream ends with an error */
} pal_forward_frame;

/* The differences between APIs. */
typedef struct pal_forward_format {
    const char *limits; /* prefix of the headers with rate limits, which are passed on */
    /* Examines a complete frame. NULL: all frames are sent. */
    pal_forward_frame (*read_frame)(pal_str frame);
    /* Without read_frame: a text in the last frame. */
    const char *last;
    bool requires_last; /* if the last frame is missing, the client gets an error */
    size_t stream_bytes; /* bytes that can wait for a slow client, if that is more than
                            stream_bytes_max */
    /* Writes the frame that ends a broken stream. */
    void (*put_error)(pal_buf *out, pal_str message);
} pal_forward_format;

typedef void (*pal_forward_resume)(void *relay, pal_id session);

/* Sees a response that is forwarded, for example to record it. */
typedef struct pal_forward_observer {
    /* Complete frames of a stream. On the runtime's loop. */
    void (*frames)(void *user, pal_str frames);
    /* The stream is complete, and its last frame was not sent yet. Must call resume(relay, session)
     * once, from any thread, which sends the frame and ends the stream. The ledger row of the call
     * names that session, which may be empty. Called once, on the runtime's loop. Needs a format
     * with read_frame. */
    void (*complete)(void *user, pal_forward_resume resume, void *relay);
    /* A successful response that is not a stream, before it is sent. Returns the session for the
     * ledger row, which may be empty. On a worker, so it can block. */
    pal_id (*body)(void *user, pal_str body);
    /* Called once, when no other function will be called. Must not block. */
    void (*free)(void *user);
} pal_forward_observer;

/* Forwards the call and answers it with the response of the model service. Streams are forwarded
 * byte by byte as they arrive. The call must not be used after PAL_OK. PAL_CONFLICT: the endpoint
 * does not support the request's API. `observer` may be NULL. After any other status than PAL_OK
 * nothing of the observer is called. */
PAL_CHECKED pal_status pal_run_forward(pal_call *call, const pal_forward *request,
        const pal_forward_format *format, const pal_forward_observer *observer, void *user,
        pal_error *err);

/* Returns the JSON of a frame's "data:" line, or an empty text. For formats. */
pal_str pal_run_forward_data(pal_str frame);

#endif
