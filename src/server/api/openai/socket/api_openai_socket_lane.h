/* api_openai_socket_lane.h - the parts of a WebSocket: its requests, their lanes and their steers.
 * For api_openai_socket*.c only.
 *
 * Requests with the same `stream_id` form a lane, also those without one. A lane runs one request
 * at a time; the others wait in order. Different lanes run at the same time.
 *
 * Locks: the socket's `lock` guards the lanes and the responses that are kept. `steering.lock`
 * guards everything about steers, and is held while their events are sent, so that the events are
 * in order. It is taken last: events of a response are written while other locks are held. */
#ifndef PAL_API_OPENAI_SOCKET_LANE_H
#define PAL_API_OPENAI_SOCKET_LANE_H

#include <pthread.h>
#include <stdatomic.h>
#include "server/api/openai/socket/api_openai_socket.h"
#include "server/api/openai/socket/api_openai_socket_items.h"
#include "server/api/openai/socket/api_openai_steer.h"
#include "server/server_background.h"
#include "server/websocket/websocket.h"

#define PAL_SOCKET_KEPT_MAX 256     /* sessions that are erased at the end; others expire */
#define PAL_SOCKET_FORGOTTEN_MAX 16 /* responses whose continuation has failed */
#define PAL_SOCKET_PAST_MAX 16 /* ended responses that are known to have been on this connection */
#define PAL_SOCKET_MEMBERS_MAX ((size_t)8 << 10) /* bytes that are added to a message or an event */

typedef struct pal_socket_request pal_socket_request;

typedef struct pal_socket_lane {
    struct pal_socket_lane *next;
    pal_openai_socket *socket;
    char *stream_id; /* NULL: requests without a stream_id */
    pal_socket_request *first, *last; /* requests that wait */
    pal_socket_request *running;      /* NULL: none */
} pal_socket_lane;

/* A request that waits or runs. The function that starts it and the callback of its end come in any
 * order; the later one frees it. */
struct pal_socket_request {
    pal_socket_request *next; /* the next one that waits */
    pal_socket_lane *lane;
    pal_buf body;         /* until it starts */
    pal_carried *carried; /* NULL: pal_carried_begin() has not returned yet */
    bool is_ended;
    char previous[PAL_OPENAI_RESPONSE_ID_SIZE]; /* the response that it continues; may be empty */
    pal_buf settings; /* for a successor; empty: the response cannot be steered */
    pal_socket_entry *entry; /* its items; NULL: the response is stored, or its items are kept */

    /* Guarded by steering.lock. */
    char id[PAL_OPENAI_RESPONSE_ID_SIZE]; /* the response; empty: it was not created yet */
    bool is_successor;        /* the server has made the request */
    bool is_over;             /* the last event of the response was sent */
    pal_openai_steers joined; /* steers whose input it contains, until the response is created */
    pal_openai_steers queued; /* steers that wait for the end of the response */
    pal_socket_request *successor; /* put into the lane when this request ends; NULL: none */
};

/* A response that has ended. */
typedef struct pal_socket_past {
    char id[PAL_OPENAI_RESPONSE_ID_SIZE];
    const pal_socket_lane *lane;
    bool is_completed;
} pal_socket_past;

/* The steers of one connection. Only for api_openai_socket_steer.c. */
typedef struct pal_socket_steering {
    pthread_mutex_t lock;
    pal_socket_past past[PAL_SOCKET_PAST_MAX]; /* a ring */
    size_t past_len;
    struct pal_socket_parked *parked; /* steers that wait for outputs of the client's tools */
    size_t parked_len;
    uint64_t events; /* sent events about steers, for their sequence_number */
} pal_socket_steering;

typedef struct pal_socket_header {
    char *name;
    char *value;
} pal_socket_header;

struct pal_openai_socket {
    pal_server *server;
    pal_arena *arena; /* owns the headers and the peer */
    pal_socket_header *headers;
    size_t headers_len;
    pal_str peer;
    int64_t opened_us;
    pal_websocket *websocket;
    atomic_uint holders;
    pthread_mutex_t lock;
    pal_socket_lane *lanes;
    size_t lanes_len, waiting_len;
    char name[PAL_ID_TEXT_SIZE]; /* identifies it in records of responses */
    char *tenant;                /* the caller's tenant; in the arena */
    pal_id kept[PAL_SOCKET_KEPT_MAX]; /* sessions to erase at the end */
    size_t kept_len;
    pal_background_task end; /* erases them and frees the socket */
    char forgotten[PAL_SOCKET_FORGOTTEN_MAX][PAL_OPENAI_RESPONSE_ID_SIZE]; /* a ring */
    size_t forgotten_len;
    pal_socket_items *items; /* items of the responses that are kept */
    pal_socket_steering steering;
};

/* The members of a message from the client that decide what to do with it. */
typedef struct pal_socket_head {
    pal_json message;
    pal_str type;
    pal_str stream_id;
    pal_str previous; /* previous_response_id */
} pal_socket_head;

/* Releases the reference of the connection or of a running request. */
void pal_openai_socket_release(pal_openai_socket *s);

/* ---- Lanes and requests (api_openai_socket_lane.c) ---- */

/* Makes a request whose body has at most `bytes_max` bytes. NULL: out of memory. */
pal_socket_request *pal_socket_request_new(pal_socket_lane *l, size_t bytes_max);
void pal_socket_request_free(pal_socket_request *r); /* accepts NULL */
/* Returns the request that a call came as, or NULL if it came by HTTP. */
pal_socket_request *pal_socket_request_of(const pal_call *call);

/* Puts a request of the client into its lane. Returns the problem, or NULL. */
const char *pal_socket_lane_put(
        pal_openai_socket *s, const pal_socket_head *head, pal_str body, pal_arena *arena);
/* Starts all requests that can run. On the loop. */
void pal_socket_lane_run(pal_openai_socket *s);
void pal_socket_lane_free(pal_socket_lane *l);

/* Sends a JSON object, with `members` and the lane's stream_id added at its beginning. */
bool pal_socket_lane_send(const pal_socket_lane *l, const char *members, pal_str object);
/* Sends an error that no request has caused. */
void pal_socket_lane_send_error(
        const pal_socket_lane *l, unsigned code, const char *name, const char *message);

/* ---- Steers (api_openai_socket_steer.c) ---- */

void pal_socket_steering_init(pal_socket_steering *steering);
void pal_socket_steering_done(pal_socket_steering *steering);
/* Answers the message {"type":"response.steer",...}. On the loop. */
void pal_socket_steer_take(pal_openai_socket *s, const pal_socket_head *head, pal_arena *arena);
/* Adds the input of the steers that wait for this request, which is about to start. */
void pal_socket_steer_join(pal_socket_request *r);
/* Sends an event of the response. The first and the last one decide about its steers. */
bool pal_socket_steer_send(pal_socket_request *r, pal_str type, pal_str data);
/* The request failed before its response was created: returns the input of its steers to the
 * client. `body` is the error. */
void pal_socket_steer_fail(pal_socket_request *r, pal_str body);
/* Takes the successor of a request that has ended; NULL: it has none. If the response ended without
 * its last event, the input of its steers is returned to the client. */
pal_socket_request *pal_socket_steer_take_successor(pal_socket_request *r);

#endif
