/* observe_trace.h - OpenTelemetry traces: spans of requests, turns, model calls and tools, sent as
 * JSON by OTLP over HTTP. Nothing ever waits for the collector: if it is too slow, spans are
 * dropped and counted. */
#ifndef PAL_OBSERVE_TRACE_H
#define PAL_OBSERVE_TRACE_H

#include "server/server.h"
#include "server/server_limits.h"

#define PAL_SPAN_ATTRIBUTES_MAX 12

/* The identity of a span. All zero: there is no span. */
typedef struct pal_trace_span_id {
    uint8_t trace[16];
    uint8_t span[8];
    uint8_t parent[8]; /* all zero if it has none */
} pal_trace_span_id;

typedef struct pal_trace_span_attribute {
    const char *name;
    pal_str text;
    int64_t number;
    bool is_number;
} pal_trace_span_attribute;

typedef enum pal_trace_span_kind {
    PAL_SPAN_INTERNAL = 1,
    PAL_SPAN_SERVER = 2,
    PAL_SPAN_CLIENT = 3,
} pal_trace_span_kind;

typedef struct pal_trace_span {
    pal_trace_span_id id;
    pal_trace_span_kind kind;
    const char *name; /* such as "chat" */
    pal_str what;     /* appended to the name: "chat gpt-5"; may be empty */
    int64_t start_ns; /* nanoseconds since 1970 */
    int64_t end_ns;
    pal_trace_span_attribute attributes[PAL_SPAN_ATTRIBUTES_MAX];
    size_t attributes_len;
    bool is_error;
    pal_str message; /* if is_error: the cause */
} pal_trace_span;

typedef struct pal_trace pal_trace;

/* `url` is that of the collector; if it has no path, /v1/traces is added. */
PAL_CHECKED pal_status pal_trace_open(
        pal_runtime *runtime, pal_str url, pal_trace **out_trace, pal_error *err);
/* Sends the remaining spans, for a limited time. Call it before the runtime is closed. Accepts
 * NULL. */
void pal_trace_close(pal_trace *trace);

int64_t pal_trace_now_ns(void);

/* Creates a span below `parent`, which may be NULL. */
pal_trace_span_id pal_trace_span_id_new(const pal_trace_span_id *parent);
/* Reads a client's header `traceparent`. Returns false if it is not usable. */
bool pal_trace_span_id_from_header(pal_str header, pal_trace_span_id *out_parent);

void pal_trace_span_put(pal_trace_span *span, const char *name, pal_str text); /* adds an attribute;
                                                                      an empty one is left out */
void pal_trace_span_put_number(pal_trace_span *span, const char *name, int64_t number);

/* Adds a span that has ended. Can be called from any thread; never blocks. */
void pal_trace_add(pal_trace *trace, const pal_trace_span *span);

/* Follows a turn to its end, with spans below `parent`. Can be called from any thread. */
void pal_trace_turn(pal_trace *trace, const pal_trace_span_id *parent, pal_str tenant,
        pal_id session, pal_id turn, pal_str model);

#endif
