/* observe_trace.c - sends spans to the collector.
 *
 * A span that has ended is written as JSON into a buffer, under a lock. A separate loop takes the
 * buffer every SEND_EVERY_MS and sends it as one request, one at a time. Spans that do not fit into
 * the buffer meanwhile, and spans that the collector refuses, are dropped. */
#include "server/observe/observe_trace.h"

#include <stdio.h>
#include <time.h>
#include "base/digest.h"
#include "base/json/json_put.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "server/observe/observe_trace_internal.h"

#define SEND_EVERY_MS 1000
#define SEND_MS 10000
#define LAST_SEND_MS 2000 /* timeout of the last request when the server stops */

/* ---- Ids ---- */

int64_t pal_trace_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

pal_trace_span_id pal_trace_span_id_new(const pal_trace_span_id *parent)
{
    pal_trace_span_id id = {0};
    pal_random_bytes(id.span, sizeof id.span);
    if (parent) {
        memcpy(id.trace, parent->trace, sizeof id.trace);
        memcpy(id.parent, parent->span, sizeof id.parent);
    } else {
        pal_random_bytes(id.trace, sizeof id.trace);
    }
    return id;
}

bool pal_trace_span_id_from_header(pal_str header, pal_trace_span_id *out_parent)
{
    static const uint8_t none[16];
    pal_trace_span_id id = {0};
    if (header.len < 55 || header.data[2] != '-' || header.data[35] != '-' ||
            memcmp(header.data, "ff", 2) == 0 ||
            !pal_unhex(pal_str_make(header.data + 3, 32), id.trace, 16) ||
            !pal_unhex(pal_str_make(header.data + 36, 16), id.span, 8))
        return false;
    if (memcmp(id.trace, none, 16) == 0 || memcmp(id.span, none, 8) == 0)
        return false;
    *out_parent = id;
    return true;
}

/* ---- Writing a span ---- */

static pal_trace_span_attribute *add_attribute(pal_trace_span *span, const char *name)
{
    if (span->attributes_len == PAL_SPAN_ATTRIBUTES_MAX)
        return NULL;
    pal_trace_span_attribute *attribute = &span->attributes[span->attributes_len++];
    *attribute = (pal_trace_span_attribute){.name = name};
    return attribute;
}

void pal_trace_span_put(pal_trace_span *span, const char *name, pal_str text)
{
    pal_trace_span_attribute *attribute = text.len ? add_attribute(span, name) : NULL;
    if (attribute)
        attribute->text = text;
}

void pal_trace_span_put_number(pal_trace_span *span, const char *name, int64_t number)
{
    pal_trace_span_attribute *attribute = add_attribute(span, name);
    if (!attribute)
        return;
    attribute->number = number;
    attribute->is_number = true;
}

static void put_hex(pal_json_writer *writer, const char *name, const uint8_t *bytes, size_t len)
{
    char text[33];
    pal_hex(bytes, len, text);
    pal_put_text(writer, name, text);
}

/* In OTLP's JSON, 64-bit numbers are strings. */
static void put_long(pal_json_writer *writer, const char *name, int64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)number);
    pal_put_text(writer, name, text);
}

static void put_attribute(pal_json_writer *writer, const pal_trace_span_attribute *attribute)
{
    pal_json_begin_object(writer);
    pal_put_text(writer, "key", attribute->name);
    pal_json_name(writer, "value");
    pal_json_begin_object(writer);
    if (attribute->is_number) {
        put_long(writer, "intValue", attribute->number);
    } else {
        pal_put_str(writer, "stringValue", attribute->text);
    }
    pal_json_end_object(writer);
    pal_json_end_object(writer);
}

static void put_status(pal_json_writer *writer, const pal_trace_span *span)
{
    pal_json_name(writer, "status");
    pal_json_begin_object(writer);
    if (span->is_error) {
        pal_put_count(writer, "code", 2);
        pal_put_str(writer, "message", span->message);
    }
    pal_json_end_object(writer);
}

static void put_span(pal_buf *buf, const pal_trace_span *span)
{
    static const uint8_t none[8];
    char name[256];
    pal_json_writer writer = pal_json_writer_make(buf);
    size_t what_len = span->what.len < 128 ? span->what.len : 128;
    snprintf(name, sizeof name, "%s%s%.*s", span->name, what_len ? " " : "", (int)what_len,
            what_len ? span->what.data : "");
    pal_json_begin_object(&writer);
    put_hex(&writer, "traceId", span->id.trace, sizeof span->id.trace);
    put_hex(&writer, "spanId", span->id.span, sizeof span->id.span);
    if (memcmp(span->id.parent, none, sizeof none) != 0)
        put_hex(&writer, "parentSpanId", span->id.parent, sizeof span->id.parent);
    pal_put_text(&writer, "name", name);
    pal_put_count(&writer, "kind", span->kind);
    put_long(&writer, "startTimeUnixNano", span->start_ns);
    put_long(&writer, "endTimeUnixNano", span->end_ns);
    pal_json_name(&writer, "attributes");
    pal_json_begin_array(&writer);
    for (size_t i = 0; i < span->attributes_len; i++)
        put_attribute(&writer, &span->attributes[i]);
    pal_json_end_array(&writer);
    put_status(&writer, span);
    pal_json_end_object(&writer);
}

void pal_trace_add(pal_trace *trace, const pal_trace_span *span)
{
    pthread_mutex_lock(&trace->lock);
    size_t len = trace->spans.len;
    if (len)
        pal_buf_append_char(&trace->spans, ',');
    put_span(&trace->spans, span);
    if (trace->spans.failure) {
        /* The earlier spans are complete, so only the failed one is removed. */
        trace->spans.failure = PAL_OK;
        trace->spans.len = len;
        trace->dropped++;
    } else {
        trace->spans_len++;
    }
    pthread_mutex_unlock(&trace->lock);
}

/* ---- Sending ---- */

static void send_spans(pal_trace *trace);

static void tick(pal_timer *timer)
{
    pal_trace *trace = (pal_trace *)((char *)timer - offsetof(pal_trace, timer));
    send_spans(trace);
    if (!pal_loop_timer_start(trace->loop, timer, SEND_EVERY_MS, tick))
        pal_log(PAL_LOG_WARN, "tracing stopped: out of memory");
}

static void ignore_body(void *user, pal_str bytes)
{
    (void)user;
    (void)bytes;
}

static void set_sending(pal_trace *trace, bool is_sending)
{
    pthread_mutex_lock(&trace->lock);
    trace->is_sending = is_sending;
    pthread_cond_broadcast(&trace->changed);
    pthread_mutex_unlock(&trace->lock);
}

static void sent(void *user, const pal_http_end *end)
{
    pal_trace *trace = user;
    if (end->status != PAL_OK)
        pal_log(PAL_LOG_WARN, "could not send a batch of spans: %s", end->error);
    else if (end->code >= 300)
        pal_log(PAL_LOG_WARN,
                "could not send a batch of spans: the collector refused it (HTTP %ld)%s%s",
                end->code, end->error[0] ? ": " : "", end->error);
    set_sending(trace, false);
}

/* Takes the buffer. Returns false if it is empty, or if a request is running. */
static bool take_spans(pal_trace *trace, pal_buf *out_spans)
{
    uint64_t dropped;
    pthread_mutex_lock(&trace->lock);
    bool any = trace->spans.len > 0 && !trace->is_sending;
    if (any) {
        *out_spans = trace->spans;
        pal_buf_init(&trace->spans, PAL_SERVER_TRACE_BYTES_MAX);
        trace->spans_len = 0;
    }
    dropped = trace->dropped;
    trace->dropped = 0;
    pthread_mutex_unlock(&trace->lock);
    if (dropped)
        pal_log(PAL_LOG_WARN, "dropped %llu spans: the collector is too slow",
                (unsigned long long)dropped);
    return any;
}

static const char body_head[] =
        "{\"resourceSpans\":[{\"resource\":{\"attributes\":["
        "{\"key\":\"service.name\",\"value\":{\"stringValue\":\"palaver\"}},"
        "{\"key\":\"service.version\",\"value\":{\"stringValue\":\"" PAL_VERSION "\"}}]},"
        "\"scopeSpans\":[{\"scope\":{\"name\":\"palaver\"},\"spans\":[";

/* Called on the loop. */
static void send_spans(pal_trace *trace)
{
    static const pal_http_events events = {.body = ignore_body, .end = sent};
    pal_header header = {pal_str_of("content-type"), pal_str_of("application/json")};
    pal_http_call *call;
    pal_error err = {0};
    pal_buf spans, body;
    if (!take_spans(trace, &spans))
        return;
    pal_buf_init(&body, PAL_SERVER_TRACE_BYTES_MAX + sizeof body_head + 16);
    pal_buf_append_text(&body, body_head);
    pal_buf_append_str(&body, pal_buf_str(&spans));
    pal_buf_append_text(&body, "]}]}]}");
    pal_http_request request = {.method = "POST",
            .url = trace->url,
            .headers = &header,
            .headers_len = 1,
            .body = pal_buf_str(&body),
            .total_ms = SEND_MS};
    if (!body.failure &&
            pal_http_start(trace->http, &request, &events, trace, &call, &err) == PAL_OK)
        set_sending(trace, true);
    else
        pal_log(PAL_LOG_WARN, "could not send a batch of spans: %s", err.message);
    pal_buf_done(&body);
    pal_buf_done(&spans);
}

/* ---- Opening and closing ---- */

/* A function that runs on the loop while the caller waits. */
typedef struct errand {
    pal_task task;
    pal_trace *trace;
    void (*run)(pal_trace *trace);
    bool is_done;
} errand;

static void run_errand(pal_task *task)
{
    errand *e = (errand *)task;
    e->run(e->trace);
    pthread_mutex_lock(&e->trace->lock);
    e->is_done = true;
    pthread_cond_broadcast(&e->trace->changed);
    pthread_mutex_unlock(&e->trace->lock);
}

static void on_loop(pal_trace *trace, void (*run)(pal_trace *trace))
{
    errand e = {.task.run = run_errand, .trace = trace, .run = run};
    pal_loop_post(trace->loop, &e.task);
    pthread_mutex_lock(&trace->lock);
    while (!e.is_done)
        pthread_cond_wait(&trace->changed, &trace->lock);
    pthread_mutex_unlock(&trace->lock);
}

static void start_on_loop(pal_trace *trace)
{
    pal_error err;
    if (pal_http_open(trace->loop, NULL, &trace->http, &err) != PAL_OK)
        trace->http = NULL;
    else
        tick(&trace->timer);
}

static void end_on_loop(pal_trace *trace)
{
    pal_loop_timer_stop(trace->loop, &trace->timer);
    pal_http_close(trace->http);
}

static void look(pal_trace *trace)
{
    (void)trace;
}

/* Sends a last request after the running one. */
static void send_rest(pal_trace *trace)
{
    int64_t until = pal_trace_now_ns() + (int64_t)LAST_SEND_MS * 1000000;
    bool is_empty = false;
    while (!is_empty && pal_trace_now_ns() < until) {
        struct timespec soon = {.tv_nsec = 5000000};
        on_loop(trace, send_spans);
        on_loop(trace, look);
        pthread_mutex_lock(&trace->lock);
        is_empty = trace->spans.len == 0 && !trace->is_sending;
        pthread_mutex_unlock(&trace->lock);
        if (!is_empty)
            nanosleep(&soon, NULL);
    }
}

static bool copy_url(pal_str url, pal_str *out_url)
{
    pal_buf buf;
    pal_buf_init(&buf, 65536);
    const char *host = memmem(url.data, url.len, "://", 3);
    size_t host_at = host ? (size_t)(host - url.data) + 3 : 0;
    const char *path = memchr(url.data + host_at, '/', url.len - host_at);
    bool has_path = path && path + 1 < url.data + url.len;
    pal_buf_append(&buf, url.data, path && !has_path ? url.len - 1 : url.len);
    if (!has_path)
        pal_buf_append_text(&buf, "/v1/traces");
    *out_url = pal_buf_str(&buf);
    if (buf.failure)
        pal_buf_done(&buf);
    return !buf.failure;
}

static void free_trace(pal_trace *trace)
{
    pal_free((char *)(uintptr_t)trace->url.data);
    pal_buf_done(&trace->spans);
    pthread_cond_destroy(&trace->changed);
    pthread_mutex_destroy(&trace->lock);
    pal_free(trace);
}

pal_status pal_trace_open(pal_runtime *runtime, pal_str url, pal_trace **out_trace, pal_error *err)
{
    pal_trace *trace = pal_calloc(1, sizeof *trace);
    if (!trace)
        return pal_no_memory(err);
    trace->runtime = runtime;
    pthread_mutex_init(&trace->lock, NULL);
    pthread_cond_init(&trace->changed, NULL);
    pal_buf_init(&trace->spans, PAL_SERVER_TRACE_BYTES_MAX);
    pal_status status = copy_url(url, &trace->url)
            ? pal_loop_open(1, &trace->loop, err)
            : pal_no_memory(err);
    if (status == PAL_OK) {
        on_loop(trace, start_on_loop);
        if (!trace->http) {
            pal_loop_close(trace->loop);
            status = pal_error_set(err, PAL_NO_MEMORY, "could not start tracing: out of memory");
        }
    }
    if (status != PAL_OK) {
        free_trace(trace);
        return status;
    }
    *out_trace = trace;
    return PAL_OK;
}

void pal_trace_close(pal_trace *trace)
{
    if (!trace)
        return;
    pthread_mutex_lock(&trace->lock);
    trace->is_closing = true;
    pthread_mutex_unlock(&trace->lock);
    on_loop(trace, look); /* after this, all turns that were passed to the loop are followed */
    pal_trace_leave_turns(trace);
    send_rest(trace);
    on_loop(trace, end_on_loop);
    pal_loop_close(trace->loop);
    free_trace(trace);
}
