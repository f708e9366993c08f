/* net_sse.h - parses a stream of server-sent events. The stream can be fed in pieces of any size.
 * Pure functions. */
#ifndef PAL_NET_SSE_H
#define PAL_NET_SSE_H

#include "base/buf.h"

/* One event. The texts are valid during the callback only. */
typedef struct pal_sse_event {
    pal_str name;     /* "message" if the stream gives no name */
    pal_str data;     /* the data lines, joined by newlines */
    pal_str id;       /* the last id in the stream */
    int64_t retry_ms; /* the last retry time in the stream; -1: none */
} pal_sse_event;

typedef bool (*pal_sse_sink)(const pal_sse_event *event, void *user); /* return false to stop */

typedef struct pal_sse {
    pal_buf line, data, name, id;
    int64_t retry_ms;
    bool after_cr, has_data, begun, stopped;
} pal_sse;

void pal_sse_init(pal_sse *sse, size_t event_bytes_max);
void pal_sse_done(pal_sse *sse);
/* Parses more bytes and calls `sink` for each complete event. An event that does not end with an
 * empty line is dropped, as the standard requires.
 *
 *   PAL_LIMIT     an event is longer than allowed
 *   PAL_CANCELED  the sink returned false */
PAL_CHECKED pal_status pal_sse_feed(
        pal_sse *sse, pal_str bytes, pal_sse_sink sink, void *user, pal_error *err);

#endif
