/* net_sse.h - parses a stream of server-sent events. The stream can be fed in pieces of any size.
 * Pure functions. */
#ifndef PAL_NET_SSE_H
#define PAL_NET_SSE_H

#include "base/buf.h"

/* One event. The texts are valid until the next call with the same pal_sse. */
typedef struct pal_sse_event {
    pal_str name;     /* "message" if the stream gives no name */
    pal_str data;     /* the data lines, joined by newlines */
    pal_str id;       /* the last id in the stream */
    int64_t retry_ms; /* the last retry time in the stream; -1: none */
} pal_sse_event;

typedef struct pal_sse {
    pal_buf line, data, name, id;
    int64_t retry_ms;
    bool after_cr, has_data, begun;
    bool is_reported; /* the event in the buffers was reported */
    pal_status failure; /* permanent. PAL_LIMIT: an event is longer than allowed. PAL_NO_MEMORY */
} pal_sse;

void pal_sse_init(pal_sse *sse, size_t event_bytes_max);
void pal_sse_done(pal_sse *sse);
/* Parses *bytes up to the end of the next event, and removes what was parsed. Returns false if
 * there is no complete event; then *bytes is empty, and the parser keeps the beginning of the next
 * event:
 *
 *     while (pal_sse_next(&sse, &bytes, &event))
 *         ...
 *     if (sse.failure)
 *         ...
 *
 * An event that does not end with an empty line is dropped, as the standard requires. */
bool pal_sse_next(pal_sse *sse, pal_str *bytes, pal_sse_event *out_event);

#endif
