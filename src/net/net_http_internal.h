/* net_http_internal.h - definitions that the net_http*.c files share. For them only. Everything
 * runs on the loop.
 *
 * A client has hosts. A call waits at its host until it can start. Then it is given to one of the
 * client's multis, each of which is a multi handle of libcurl, and libcurl runs it to its end. */
#ifndef PAL_NET_HTTP_INTERNAL_H
#define PAL_NET_HTTP_INTERNAL_H

#include <curl/curl.h>
#include <uv.h>
#include "base/buf.h"
#include "base/map.h"
#include "net/net_http.h"

#define PAL_HTTP_RECEIVE_BYTES 2048 /* receive buffer of each call; the pieces of a stream are
                                       smaller */

#define PAL_HTTP_TARGET_LEN_MAX 79 /* bytes of a host's name that are shown */

typedef struct pal_http_multi pal_http_multi;
typedef struct pal_http_host pal_http_host;

typedef enum pal_http_stage {
    PAL_HTTP_WAITING = 0, /* waits at its host */
    PAL_HTTP_FINDING = 1, /* given to libcurl, which may have to look up the host's name */
    PAL_HTTP_CONNECTING = 2,
    PAL_HTTP_SENT = 3, /* the server may have received the request */
} pal_http_stage;

struct pal_http_call {
    pal_http *http;
    pal_http_host *host;
    pal_http_multi *multi;                    /* NULL: not given to libcurl */
    pal_http_call *previous, *next;           /* in the client's list of calls */
    pal_http_call *wait_previous, *wait_next; /* in its host's list of waiting calls */
    pal_http_call *doomed_next;
    CURL *easy;
    struct curl_slist *headers;
    char *body; /* NULL after the server has received it */
    size_t body_len;
    pal_http_events events;
    void *user;

    pal_timer timer;
    int64_t connect_ms, idle_ms, total_ms; /* INT64_MAX: no limit */
    int64_t started_ms, given_ms; /* when the call was started, and when it was given to libcurl */
    int64_t heard_ms; /* when the last byte arrived from the server, or when the request was sent */
    uint64_t bytes, bytes_max;
    uint64_t lap;     /* the client's lap in which bytes last arrived */
    size_t lap_bytes; /* bytes that arrived in that lap */

    pal_buf head; /* lines of the response that is arriving: names in lower case, and values */
    long code;
    pal_http_stage stage;
    pal_status failure; /* why the call was ended on our side */
    int open_errno;     /* errno if no socket could be opened */
    bool headed;        /* the head of the final response was reported */
    bool doomed;        /* the call is to end: it was canceled, or `failure` is set */
    bool silent;        /* canceled: no more callbacks */
    bool paused;        /* paused so that other calls make progress */
    char error[CURL_ERROR_SIZE];
    char target[PAL_HTTP_TARGET_LEN_MAX + 1]; /* the host that a redirect leads to */
};

struct pal_http_host {
    pal_http_host *dirty_next;
    pal_http_call *first, *last; /* waiting calls */
    size_t calls;                /* all calls, including waiting ones */
    size_t running;
    size_t finding;   /* calls in the stage FINDING */
    size_t opening;   /* calls in the stages FINDING and CONNECTING */
    int64_t moved_ms; /* when one of them last connected or was refused */
    bool dirty;       /* in the client's list of hosts to check */
    size_t name_len;
    char name[]; /* for example "https://host:443" */
};

struct pal_http {
    pal_loop *loop;
    CURLSH *share;
    char *ca_file;
    uint32_t connections_max, idle_max, calls_max;
    size_t running; /* calls that were given to libcurl */
    pal_http_call *calls;
    pal_http_call *doomed;
    pal_http_host *dirty;
    pal_http_multi *multis;
    pal_map hosts; /* hosts by name */
    pal_task task;
    bool posted;  /* the task is posted */
    bool in_curl; /* libcurl is on the stack, so no call can be given to it or removed from it */
    bool has_paused;
    uint64_t lap;     /* how often libcurl was entered */
    int64_t lap_ms;   /* when the current lap began */
    size_t lap_bytes; /* bytes that arrived in the current lap */
    bool closed;
};

/* ---- net_http.c ---- */

/* Ends a call with this `failure` as soon as libcurl is off the stack. */
void pal_http_doom(pal_http_call *call, pal_status failure);
/* The call has left the stage FINDING: its host's name is no longer being looked up. */
void pal_http_found(pal_http_call *call);
/* The call is connected, and the request is about to be sent. */
void pal_http_sent(pal_http_call *call);

/* ---- net_http_call.c ---- */

/* Creates the libcurl handle of a call. PAL_INVALID: `err` says what is wrong. */
PAL_CHECKED pal_status pal_http_call_setup(
        pal_http_call *call, const pal_http_request *request, pal_error *err);
void pal_http_call_free(pal_http_call *call);
void pal_http_call_describe(const pal_http_call *call, CURLcode result, pal_http_end *out_end);
/* Writes the host of a URL, such as "https://host:443", into `out_name`. PAL_INVALID: the URL is
 * not supported. */
PAL_CHECKED pal_status pal_http_url_host(pal_str url, pal_buf *out_name, pal_error *err);

#endif
