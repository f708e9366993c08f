/* net_http.h - HTTP requests on the loop, through libcurl's multi interface. Any number of requests
 * can run at the same time. Connections are kept and shared. Redirects are not followed: the
 * response is reported unchanged. All functions must be called on the loop, and all callbacks run
 * on it. */
#ifndef PAL_NET_HTTP_H
#define PAL_NET_HTTP_H

#include "net/net_loop.h"
#include "palaver/header.h"

typedef struct pal_http pal_http;           /* the client; one per loop */
typedef struct pal_http_call pal_http_call; /* one request */

typedef struct pal_http_options {
    uint32_t connections_max;      /* connections to one host; 0: no limit */
    uint32_t idle_connections_max; /* idle connections that are kept; 0: 64 */
    const char *ca_file;           /* file with CA certificates; NULL: the system's */
    uint32_t calls_max; /* calls to all hosts that run at the same time, others wait; 0: no limit */
} pal_http_options;

PAL_CHECKED pal_status pal_http_open(
        pal_loop *loop, const pal_http_options *options, pal_http **out_http, pal_error *err);
/* Cancels all calls and frees the client. Must not be called from a callback of one of its calls.
 * Accepts NULL. */
void pal_http_close(pal_http *http);

/* The result of a request. */
typedef struct pal_http_end {
    pal_status status; /* PAL_OK: a complete response arrived, whatever its code. PAL_IO: it did
                          not. PAL_TIMEOUT. PAL_LIMIT: the response is too long. PAL_CANCELED is
                          never reported */
    long code;         /* HTTP status; 0: there was no response */
    bool sent;         /* the request may have reached the server */
    bool unreachable;  /* there is probably no such server: the host does not exist, no connection
                          could be made, or TLS failed */
    char error[256];   /* for example "could not connect to 'host': ..."; for a redirect, its
                          target */
} pal_http_end;

/* The head of a response. The texts are valid during the call. */
typedef struct pal_http_head {
    long code;
    const pal_header *headers; /* names are in lower case */
    size_t headers_len;
} pal_http_head;

typedef struct pal_http_events {
    /* May be NULL. Called once, before the body, for the final response only. */
    void (*head)(void *user, const pal_http_head *head);
    void (*body)(void *user, pal_str bytes);
    /* Called once, as the last callback, but not after a cancel. The call is freed afterwards. */
    void (*end)(void *user, const pal_http_end *end);
} pal_http_events;

typedef struct pal_http_request {
    const char *method; /* for example "POST" */
    pal_str url;
    const pal_header *headers;
    size_t headers_len;
    pal_str body;                /* copied */
    int64_t connect_ms;          /* maximum time to connect; 0: 10000 */
    int64_t idle_ms;             /* maximum time without a byte from the server; 0: 120000;
                                    negative: no limit */
    int64_t total_ms;            /* maximum time of the whole call; 0: no limit */
    bool once; /* use a new connection. On a connection that the server closes, libcurl sends a
                  request a second time, although the server may have received it */
    uint64_t response_bytes_max; /* if the response is longer, the call ends with PAL_LIMIT; 0: no
                                    limit */
} pal_http_request;

/* Starts a request. Everything is copied. `end` is never called before this function returns. */
PAL_CHECKED pal_status pal_http_start(pal_http *http, const pal_http_request *request,
        const pal_http_events *events, void *user, pal_http_call **out_call, pal_error *err);
/* Cancels a call. No callback is made after this. The connection is closed at once. */
void pal_http_cancel(pal_http_call *call);

#endif
