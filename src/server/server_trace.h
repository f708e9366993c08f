/* server_trace.h - traces for OpenTelemetry: spans of requests, turns, model calls and tools, sent
 * by OTLP over HTTP as JSON. Nothing ever waits for the collector: what it is too slow for is
 * dropped, and counted. */
#ifndef PAL_SERVER_TRACE_H
#define PAL_SERVER_TRACE_H

#include "server/server.h"
#include "server/server_limits.h"

#define PAL_SPAN_ATTRIBUTES_MAX 12

/* Where a span belongs. All zero: nowhere, and none is made. */
typedef struct pal_span_id {
    uint8_t trace[16];
    uint8_t span[8];
    uint8_t parent[8]; /* all zero: none */
} pal_span_id;

typedef struct pal_span_attribute {
    const char *name;
    pal_str text;
    int64_t number;
    bool is_number;
} pal_span_attribute;

typedef enum pal_span_kind {
    PAL_SPAN_INTERNAL = 1,
    PAL_SPAN_SERVER = 2,
    PAL_SPAN_CLIENT = 3,
} pal_span_kind;

typedef struct pal_span {
    pal_span_id id;
    pal_span_kind kind;
    const char *name; /* "chat" */
    pal_str what;     /* behind the name: "chat gpt-5"; may be empty */
    int64_t start_ns; /* since 1970 */
    int64_t end_ns;
    pal_span_attribute attributes[PAL_SPAN_ATTRIBUTES_MAX];
    size_t attributes_len;
    bool is_error;
    pal_str message; /* is_error: what went wrong */
} pal_span;

typedef struct pal_trace pal_trace;

/* `url`: of the collector; without a path, /v1/traces. */
PAL_CHECKED pal_status pal_trace_open(
        pal_runtime *runtime, pal_str url, pal_trace **out_trace, pal_error *err);
/* Sends what is left, for a short while. Before the runtime is closed. Accepts NULL. */
void pal_trace_close(pal_trace *trace);

int64_t pal_trace_now_ns(void);

/* A new span below `parent`, which may be NULL. */
pal_span_id pal_span_id_new(const pal_span_id *parent);
/* What a client's header `traceparent` says; false: nothing that can be used. */
bool pal_span_id_from_header(pal_str header, pal_span_id *out_parent);

void pal_span_put(pal_span *span, const char *name, pal_str text); /* an attribute; empty: none */
void pal_span_put_number(pal_span *span, const char *name, int64_t number);

/* Takes a span that ended. From any thread; never blocks. */
void pal_trace_add(pal_trace *trace, const pal_span *span);

/* Follows a turn to its end, below `parent`. From any thread. */
void pal_trace_turn(pal_trace *trace, const pal_span_id *parent, pal_str tenant, pal_id session,
        pal_id turn, pal_str model);

#endif
