/* net_sse.h - takes a stream of server-sent events apart, fed in pieces cut anywhere. Pure. */
#ifndef PAL_NET_SSE_H
#define PAL_NET_SSE_H

#include "base/buf.h"

/* One event. All views are valid during the call only. */
typedef struct pal_sse_event {
    pal_str name;     /* "message" where none was given */
    pal_str data;     /* lines joined by newlines */
    pal_str id;       /* the last one that was given */
    int64_t retry_ms; /* likewise; -1: none was */
} pal_sse_event;

typedef bool (*pal_sse_sink)(const pal_sse_event *event, void *user); /* false: stop */

typedef struct pal_sse {
    pal_buf line, data, name, id;
    int64_t retry_ms;
    bool after_cr, has_data, begun, stopped;
} pal_sse;

void pal_sse_init(pal_sse *sse, size_t event_bytes_max);
void pal_sse_done(pal_sse *sse);
/* PAL_LIMIT when an event is longer than allowed, PAL_NO_MEMORY, PAL_CANCELED when the sink said
 * stop. An event that is not ended by an empty line is none, as the standard has it. */
PAL_CHECKED pal_status pal_sse_feed(
        pal_sse *sse, pal_str bytes, pal_sse_sink sink, void *user, pal_error *err);

#endif
