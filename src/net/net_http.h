/* net_http.h - HTTP requests on the loop, by libcurl's multi interface: any number at once, each a
 * small thing. Connections are kept and shared. Redirects are not followed: the response is told as
 * it is. All on the loop. */
#ifndef PAL_NET_HTTP_H
#define PAL_NET_HTTP_H

#include "net/net_loop.h"
#include "palaver/str.h"

typedef struct pal_http pal_http;           /* the client: one a loop */
typedef struct pal_http_call pal_http_call; /* one request */

typedef struct pal_http_options {
    uint32_t connections_max;      /* to one host; 0: no bound */
    uint32_t idle_connections_max; /* that are kept; 0: 64 */
    const char *ca_file;           /* NULL: the system's */
    uint32_t calls_max;            /* to all hosts that run at once, the others wait; 0: no bound */
} pal_http_options;

PAL_CHECKED pal_status pal_http_open(
        pal_loop *loop, const pal_http_options *options, pal_http **out_http, pal_error *err);
/* Cancels what is left. Not from a callback of one of its calls. Accepts NULL. */
void pal_http_close(pal_http *http);

typedef struct pal_http_header {
    pal_str name;
    pal_str value;
} pal_http_header;

/* How a request ended. */
typedef struct pal_http_end {
    pal_status status; /* PAL_OK: a response came, whatever its code, and came whole; PAL_IO: it did
                          not; PAL_TIMEOUT; PAL_CANCELED is never told */
    long code;         /* 0: none came */
    bool sent;         /* the request may have reached the server */
    bool unreachable;  /* nothing listens there, or no such host: another try soon is in vain */
    char error[256];   /* "could not connect to 'host': ..."; of a redirect, where it leads */
} pal_http_end;

typedef struct pal_http_events {
    /* May be NULL. Once, before the body; for the final response only. */
    void (*head)(void *user, long code);
    /* May be NULL. Each header of the final response, before `head`; names in lower case. */
    void (*header)(void *user, pal_str name, pal_str value);
    void (*body)(void *user, pal_str bytes);
    /* Once, last; not after a cancel. The call is gone afterwards. */
    void (*end)(void *user, const pal_http_end *end);
} pal_http_events;

typedef struct pal_http_request {
    const char *method; /* "POST" */
    pal_str url;
    const pal_http_header *headers;
    size_t headers_len;
    pal_str body;                /* copied */
    int64_t connect_ms;          /* 0: 10000 */
    int64_t idle_ms;             /* without a byte from the server; 0: 120000; negative: no bound */
    int64_t total_ms;            /* 0: no bound */
    uint64_t response_bytes_max; /* 0: no bound; over it the call ends with PAL_LIMIT */
} pal_http_request;

/* Everything is copied. `end` is never called before this returns. */
PAL_CHECKED pal_status pal_http_start(pal_http *http, const pal_http_request *request,
        const pal_http_events *events, void *user, pal_http_call **out_call, pal_error *err);
/* Ends it without a word. The connection is closed at once. */
void pal_http_cancel(pal_http_call *call);

#endif
