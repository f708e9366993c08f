/* net_http_inside.h - what the net_http*.c files share. Only for them; all on the loop.
 *
 * A client has hosts, and a call waits at its host until it may go. Then it is given to one of the
 * client's multis, each a multi handle of libcurl, which ends it. */
#ifndef PAL_NET_HTTP_INSIDE_H
#define PAL_NET_HTTP_INSIDE_H

#include <curl/curl.h>
#include <uv.h>
#include "base/buf.h"
#include "base/map.h"
#include "net/net_http.h"

#define PAL_HTTP_RECEIVE_BYTES 2048 /* a buffer of each call: pieces of a stream are smaller */

#define PAL_HTTP_TARGET_LEN_MAX 79 /* of a host's name that is shown */

typedef struct pal_http_multi pal_http_multi;
typedef struct pal_http_host pal_http_host;

typedef enum pal_http_stage {
    PAL_HTTP_WAITING = 0, /* at its host */
    PAL_HTTP_FINDING = 1, /* given to libcurl, which may have to look up the name */
    PAL_HTTP_CONNECTING = 2,
    PAL_HTTP_SENT = 3, /* the server may have seen it */
} pal_http_stage;

struct pal_http_call {
    pal_http *http;
    pal_http_host *host;
    pal_http_multi *multi;                    /* NULL: not given to one */
    pal_http_call *previous, *next;           /* of the client's calls */
    pal_http_call *wait_previous, *wait_next; /* at its host */
    pal_http_call *doomed_next;
    CURL *easy;
    struct curl_slist *headers;
    char *body; /* NULL once the server has it */
    size_t body_len;
    pal_http_events events;
    void *user;

    pal_timer timer;
    int64_t connect_ms, idle_ms, total_ms; /* INT64_MAX: no bound */
    int64_t started_ms, given_ms;          /* to us, and to libcurl */
    int64_t heard_ms; /* the last byte from the server, or the sending of the request */
    uint64_t bytes, bytes_max;
    uint64_t lap;     /* the client's when the last bytes came */
    size_t lap_bytes; /* that came in it */

    pal_buf head; /* lines of the response that is coming: names in lower case, and values */
    long code;
    pal_http_stage stage;
    pal_status failure; /* why we ended it ourselves */
    int open_errno;     /* no socket could be had */
    bool headed;        /* the final response's head was told */
    bool doomed;        /* nobody listens any more, or `failure` is set */
    bool silent;        /* canceled */
    bool paused;        /* the others have their turn */
    char error[CURL_ERROR_SIZE];
    char target[PAL_HTTP_TARGET_LEN_MAX + 1]; /* the host that a redirect leads to */
};

struct pal_http_host {
    pal_http_host *dirty_next;
    pal_http_call *first, *last; /* that wait */
    size_t calls;                /* all, those that wait too */
    size_t running;
    size_t finding;   /* of them */
    size_t opening;   /* of them: finding and connecting */
    int64_t moved_ms; /* when one of them last got through, or was refused */
    bool dirty;       /* is in the client's list to look at */
    size_t name_len;
    char name[]; /* "https://host:443" */
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
    pal_map hosts; /* by name */
    pal_task task;
    bool posted;  /* the task is on its way */
    bool in_curl; /* on the stack: nothing may be given to it or taken from it */
    bool has_paused;
    uint64_t lap;     /* how often libcurl was entered */
    size_t lap_bytes; /* that came in the last one */
    bool closed;
};

/* ---- net_http.c ---- */

/* To look at once libcurl is off the stack, or soon. */
void pal_http_host_touch(pal_http *http, pal_http_host *host);
/* Ends a call with its `failure` as soon as libcurl is off the stack. */
void pal_http_doom(pal_http_call *call, pal_status failure);
/* Does what waited for libcurl to be off the stack. */
void pal_http_settle(pal_http *http);
/* Takes it from everything, tells `end` unless it is silent, and frees it. */
void pal_http_finish(pal_http_call *call, CURLcode result);
/* It has left the stage: no name is looked up for it any more. */
void pal_http_found(pal_http_call *call);
/* It is connected, and the request is about to go. */
void pal_http_sent(pal_http_call *call);

/* ---- net_http_call.c ---- */

/* Makes the libcurl side of a call. PAL_INVALID names what is wrong. */
PAL_CHECKED pal_status pal_http_call_setup(
        pal_http_call *call, const pal_http_request *request, pal_error *err);
void pal_http_call_free(pal_http_call *call);
void pal_http_call_describe(const pal_http_call *call, CURLcode result, pal_http_end *out_end);
/* "https://host:443" of a URL, into `out_name`; PAL_INVALID for what is none of ours. */
PAL_CHECKED pal_status pal_http_url_host(pal_str url, pal_buf *out_name, pal_error *err);

/* ---- net_http_multi.c ---- */

/* Gives the call to a multi that has room. */
PAL_CHECKED pal_status pal_http_multi_add(pal_http_call *call);
void pal_http_multi_remove(pal_http_call *call); /* of an unfinished one the connection is closed */
void pal_http_multi_close_all(pal_http *http);   /* no call is left */

#endif
