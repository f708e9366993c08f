/* api_openai_socket.c - responses over a WebSocket, at GET /v1/responses.
 *
 * A client sends {"type":"response.create",...} with the members of POST /v1/responses. Each such
 * message is handled as that request (http_carried.c), so it has the same checks and limits. The
 * events of its stream are sent as messages, and an error as {"type":"error","status":400,...}.
 *
 * Requests with the same `stream_id` form a lane, also those without one. A lane runs one request
 * at a time; the others wait in order. Different lanes run at the same time.
 *
 * Responses with "store": false are kept while the connection is open, so that the next request can
 * continue from them. Their sessions expire by themselves, in case the server does not get to erase
 * them.
 *
 * A client can steer a running response: it sends more input, and the server continues the response
 * with it (api_openai_steer.h). The request of the successor is the next one in the lane.
 *
 * Threads: messages arrive on the WebSocket loop. A request ends on any thread. The connection and
 * each running request hold a reference; the last one frees the socket.
 *
 * Locks: `lock` guards the lanes and the responses that are kept. `steer_lock` guards everything
 * about steers, and is held while their events are sent, so that the events are in order. It is
 * taken last: events of a response are written while other locks are held. */
#include "server/api/openai/api_openai_socket.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/clock.h"
#include "base/json/json_put.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "server/api/openai/api_openai.h"
#include "server/api/openai/api_openai_socket_items.h"
#include "server/api/openai/api_openai_steer.h"
#include "server/server_background.h"
#include "server/server_call.h"
#include "server/server_settings.h"
#include "server/websocket/websocket.h"

#define LANES_MAX 64      /* lanes of one connection */
#define WAITING_MAX 256   /* requests of one connection that wait for their lane */
#define KEPT_MAX 256      /* sessions that are erased at the end; others expire */
#define FORGOTTEN_MAX 16  /* responses whose continuation has failed */
#define PAST_MAX 16       /* ended responses that are known to have been on this connection */
#define PARKED_MAX 64     /* responses whose steers wait for outputs of tools */
#define STREAM_ID_LEN_MAX 256
#define ERROR_BYTES_MAX ((size_t)8 << 10)

typedef struct socket_header {
    char *name;
    char *value;
} socket_header;

typedef struct lane {
    struct lane *next;
    pal_openai_socket *socket;
    char *stream_id; /* NULL: requests without a stream_id */
    struct request *first, *last; /* requests that wait */
    struct request *running;      /* NULL: none */
} lane;

/* A request that waits or runs. The function that starts it and the callback of its end come in any
 * order; the later one frees it. */
typedef struct request {
    struct request *next; /* the next one that waits */
    lane *lane;
    pal_buf body;         /* until it starts */
    pal_carried *carried; /* NULL: pal_carried_begin() has not returned yet */
    bool is_ended;
    char previous[PAL_OPENAI_RESPONSE_ID_SIZE]; /* the response that it continues; may be empty */
    pal_buf settings; /* for a successor; empty: the response cannot be steered */
    pal_socket_entry *entry; /* its items; NULL: the response is stored, or its items are kept */

    /* Guarded by the steer lock. */
    char id[PAL_OPENAI_RESPONSE_ID_SIZE]; /* the response; empty: it was not created yet */
    bool is_successor;        /* the server has made the request */
    bool is_over;             /* the last event of the response was sent */
    pal_openai_steers joined; /* steers whose input it contains, until the response is created */
    pal_openai_steers queued; /* steers that wait for the end of the response */
    struct request *successor; /* put into the lane when this request ends; NULL: none */
} request;

/* A response that has ended. */
typedef struct past_response {
    char id[PAL_OPENAI_RESPONSE_ID_SIZE];
    const lane *lane;
    bool is_completed;
} past_response;

/* Steers of a response that waits for outputs of the client's tools. */
typedef struct parked {
    struct parked *next;
    const lane *lane;
    char id[PAL_OPENAI_RESPONSE_ID_SIZE]; /* the response */
    pal_openai_steers steers;
} parked;

struct pal_openai_socket {
    pal_server *server;
    pal_arena *arena; /* owns the headers and the peer */
    socket_header *headers;
    size_t headers_len;
    pal_str peer;
    int64_t opened_us;
    pal_websocket *websocket;
    atomic_uint holders;
    pthread_mutex_t lock;
    lane *lanes;
    size_t lanes_len, waiting_len;
    char name[PAL_ID_TEXT_SIZE]; /* identifies it in records of responses */
    char *tenant;                /* of the caller; in the arena */
    pal_id kept[KEPT_MAX];       /* sessions to erase at the end */
    size_t kept_len;
    pal_background_task end; /* erases them and frees the socket */
    char forgotten[FORGOTTEN_MAX][PAL_OPENAI_RESPONSE_ID_SIZE]; /* a ring */
    size_t forgotten_len;
    pal_socket_items *items; /* of responses that are kept */

    pthread_mutex_t steer_lock;
    past_response past[PAST_MAX]; /* a ring */
    size_t past_len;
    parked *parked;
    size_t parked_len;
    uint64_t steer_events; /* sent events about steers, for their sequence_number */
};

static void erase_kept(const pal_openai_socket *s);

static void free_request(request *r)
{
    if (!r)
        return;
    free_request(r->successor);
    pal_openai_steers_free(&r->joined);
    pal_openai_steers_free(&r->queued);
    pal_socket_entry_free(r->entry);
    pal_buf_done(&r->settings);
    pal_buf_done(&r->body);
    pal_free(r);
}

static void free_lane(lane *l)
{
    while (l->first) {
        request *next = l->first->next;
        free_request(l->first);
        l->first = next;
    }
    pal_free(l->stream_id);
    pal_free(l);
}

static void free_parked(parked *p)
{
    pal_openai_steers_free(&p->steers);
    pal_free(p);
}

static void free_socket(pal_openai_socket *s)
{
    while (s->parked) {
        parked *next = s->parked->next;
        free_parked(s->parked);
        s->parked = next;
    }
    while (s->lanes) {
        lane *next = s->lanes->next;
        free_lane(s->lanes);
        s->lanes = next;
    }
    pal_websocket_release(s->websocket);
    pal_socket_items_free(s->items);
    pthread_mutex_destroy(&s->steer_lock);
    pthread_mutex_destroy(&s->lock);
    pal_arena_free(s->arena);
    pal_free(s);
}

static void end_socket(pal_background_task *task)
{
    pal_openai_socket *s = (pal_openai_socket *)((char *)task - offsetof(pal_openai_socket, end));
    erase_kept(s);
    free_socket(s);
}

/* The last request can end on a thread that must not block, such as the store's writer. */
static void release(pal_openai_socket *s)
{
    if (atomic_fetch_sub(&s->holders, 1) != 1)
        return;
    s->end.run = end_socket;
    if (!s->kept_len || !pal_background_add(s->server->background, &s->end))
        free_socket(s);
}

/* ---- Messages to the client ---- */

/* Adds `members` at the beginning of a JSON object, and the lane's stream_id. */
static bool send_object(const lane *l, const char *members, pal_str object)
{
    pal_buf buf;
    if (!l->stream_id && !members[0])
        return pal_websocket_send(l->socket->websocket, object);
    pal_buf_init(&buf, object.len + ERROR_BYTES_MAX);
    pal_buf_append_text(&buf, "{");
    pal_buf_append_text(&buf, members);
    if (l->stream_id) {
        pal_buf_append_text(&buf, "\"stream_id\":");
        pal_json_quote(&buf, pal_str_of(l->stream_id));
        pal_buf_append_text(&buf, ",");
    }
    pal_buf_append(&buf, object.data + 1, object.len - 1);
    bool is_sent = !buf.failure && pal_websocket_send(l->socket->websocket, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return is_sent;
}

/* Sends an error that no request has caused. */
static void send_error(const lane *l, unsigned code, const char *name, const char *message)
{
    char members[64];
    pal_buf buf;
    pal_buf_init(&buf, ERROR_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_json_name(&writer, "error");
    pal_json_begin_object(&writer);
    pal_put_text(&writer, "type", "invalid_request_error");
    pal_put_text(&writer, "code", name);
    pal_put_text(&writer, "message", message);
    pal_put_null(&writer, "param");
    pal_json_end_object(&writer);
    pal_json_end_object(&writer);
    snprintf(members, sizeof members, "\"type\":\"error\",\"status\":%u,", code);
    (void)send_object(l, members, pal_buf_str(&buf));
    pal_buf_done(&buf);
}

/* ---- Steers; the steer lock must be held ---- */

static void send_steer_event(const lane *l, const pal_buf *event)
{
    if (!event->failure)
        (void)send_object(l, "", pal_buf_str(event));
}

/* Returns the input of a steer to the client. */
static void send_failure(const lane *l, const pal_openai_steer_failure *failure)
{
    pal_buf event;
    pal_buf_init(&event, failure->input.len + failure->message.len + ERROR_BYTES_MAX);
    pal_openai_steer_failed(failure, l->socket->steer_events++, &event);
    send_steer_event(l, &event);
    pal_buf_done(&event);
}

static void fail_steers(
        const lane *l, pal_openai_steers *steers, const char *code, pal_str message)
{
    for (const pal_openai_steer *each = steers->first; each; each = each->next) {
        const pal_openai_steer_failure failure = {.id = pal_str_of(each->id),
                .previous = pal_str_of(each->previous),
                .input = pal_openai_steer_input(each),
                .code = code,
                .message = message};
        send_failure(l, &failure);
    }
    pal_openai_steers_free(steers);
}

/* Reports that steers wait for outputs of tools, and keeps them for the request that brings the
 * outputs. */
static void park(request *r, pal_str required)
{
    const lane *l = r->lane;
    pal_openai_socket *s = l->socket;
    parked *p = s->parked_len < PARKED_MAX ? pal_calloc(1, sizeof *p) : NULL;
    if (!p) {
        fail_steers(l, &r->queued, "too_many_pending_steers",
                pal_str_of("too many responses wait for outputs on this connection"));
        return;
    }
    for (const pal_openai_steer *each = r->queued.first; each; each = each->next) {
        pal_buf event;
        pal_buf_init(&event, required.len + ERROR_BYTES_MAX);
        pal_openai_steer_pending(each, s->steer_events++, required, &event);
        send_steer_event(l, &event);
        pal_buf_done(&event);
    }
    p->lane = l;
    memcpy(p->id, r->id, sizeof p->id);
    pal_openai_steers_move(&r->queued, &p->steers);
    p->next = s->parked;
    s->parked = p;
    s->parked_len++;
}

/* Moves the steers that wait for a continuation of `previous` in this lane. */
static void unpark(const lane *l, const char *previous, pal_openai_steers *out)
{
    pal_openai_socket *s = l->socket;
    for (parked **at = &s->parked; *at; at = &(*at)->next) {
        parked *p = *at;
        if (p->lane != l || strcmp(p->id, previous) != 0)
            continue;
        pal_openai_steers_move(&p->steers, out);
        *at = p->next;
        free_parked(p);
        s->parked_len--;
        return;
    }
}

static request *new_request(lane *l, size_t bytes_max)
{
    request *r = pal_calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->lane = l;
    pal_buf_init(&r->body, bytes_max);
    pal_buf_init(&r->settings, bytes_max);
    return r;
}

/* Prepares the request that continues the response with the queued input. */
static void make_successor(request *r)
{
    size_t bytes_max = r->settings.len + r->queued.bytes + ERROR_BYTES_MAX;
    request *successor = new_request(r->lane, bytes_max);
    if (successor) {
        memcpy(successor->previous, r->id, sizeof successor->previous);
        successor->is_successor = true;
        pal_openai_steer_successor(pal_buf_str(&r->settings), pal_str_of(r->id), &r->queued,
                &successor->body);
        pal_buf_append_str(&successor->settings, pal_buf_str(&r->settings));
    }
    if (!successor || successor->body.failure || successor->settings.failure) {
        free_request(successor);
        fail_steers(r->lane, &r->queued, "successor_creation_failed", pal_str_of("out of memory"));
        return;
    }
    pal_openai_steers_move(&r->queued, &successor->joined);
    r->successor = successor;
}

static pal_json response_of(pal_str data, pal_arena *arena)
{
    pal_json event = {0};
    if (!arena || pal_json_parse(arena, data, NULL, &event, NULL) != PAL_OK)
        return (pal_json){0};
    return pal_json_find(event, "response");
}

/* The response exists: it contains the input of the steers that led to it. */
static void note_created(request *r, pal_str data)
{
    pal_arena *arena = pal_arena_new(0);
    pal_str id = pal_json_string(pal_json_find(response_of(data, arena), "id"), arena);
    if (id.len < sizeof r->id)
        snprintf(r->id, sizeof r->id, "%.*s", PAL_STR_ARG(id));
    pal_arena_free(arena);
    pal_openai_steers_free(&r->joined);
}

/* Decides what happens to the queued steers after the last event of the response. */
static void note_end(request *r, pal_str type, pal_str data)
{
    pal_openai_socket *s = r->lane->socket;
    past_response *past = &s->past[s->past_len++ % PAST_MAX];
    memcpy(past->id, r->id, sizeof past->id);
    past->lane = r->lane;
    past->is_completed = pal_str_is(type, "response.completed");
    r->is_over = true;
    if (!r->queued.first)
        return;
    if (pal_str_is(type, "response.failed")) {
        fail_steers(r->lane, &r->queued, "successor_creation_failed",
                pal_str_of("the response failed, so it cannot be continued"));
        return;
    }
    pal_arena *arena = pal_arena_new(0);
    pal_buf required;
    pal_buf_init(&required, data.len + ERROR_BYTES_MAX);
    if (pal_openai_steer_required(response_of(data, arena), arena, &required) > 0)
        park(r, pal_buf_str(&required));
    else
        make_successor(r);
    pal_buf_done(&required);
    pal_arena_free(arena);
}

/* ---- The carrier of a request ---- */

static pal_str on_header(const char *name, void *user)
{
    const pal_openai_socket *s = ((const request *)user)->lane->socket;
    for (size_t i = 0; i < s->headers_len; i++) {
        if (strcasecmp(s->headers[i].name, name) == 0)
            return pal_str_of(s->headers[i].value);
    }
    return (pal_str){0};
}

/* After a failed continuation, the client begins again with its whole history. */
static void forget(const request *r)
{
    pal_openai_socket *s = r->lane->socket;
    if (!r->previous[0])
        return;
    pthread_mutex_lock(&s->lock);
    memcpy(s->forgotten[s->forgotten_len++ % FORGOTTEN_MAX], r->previous, sizeof r->previous);
    pthread_mutex_unlock(&s->lock);
    pal_socket_items_forget(s->items, pal_str_of(r->previous));
}

static bool send_events(request *r, pal_str frames);

/* Reads the message of an error body. */
static pal_str error_message(pal_str body, pal_arena *arena)
{
    pal_json value;
    if (!arena || pal_json_parse(arena, body, NULL, &value, NULL) != PAL_OK)
        return pal_str_of("the request failed");
    return pal_json_string(pal_json_find(pal_json_find(value, "error"), "message"), arena);
}

static void on_answer(unsigned code, pal_str body, void *user)
{
    char members[64] = "";
    request *r = user;
    if (pal_text_begins(body, "event: ")) { /* all events at once */
        (void)send_events(r, body);
        return;
    }
    if (code >= 400) {
        forget(r);
        snprintf(members, sizeof members, "\"type\":\"error\",\"status\":%u,", code);
    }
    while (body.len && body.data[body.len - 1] == '\n')
        body.len--;
    if (body.len && !r->is_successor)
        (void)send_object(r->lane, members, body);
    if (code >= 400 && r->joined.first) {
        pal_arena *arena = pal_arena_new(0);
        pthread_mutex_lock(&r->lane->socket->steer_lock);
        fail_steers(r->lane, &r->joined, "successor_creation_failed", error_message(body, arena));
        pthread_mutex_unlock(&r->lane->socket->steer_lock);
        pal_arena_free(arena);
    }
}

/* The events `response.created` and the last one of a response decide about steers. A response is
 * kept before its client can continue from it. */
static bool send_event(request *r, pal_str type, pal_str data)
{
    if (r->entry && pal_socket_items_see(r->lane->socket->items, r->entry, data))
        r->entry = NULL;
    pthread_mutex_t *lock = &r->lane->socket->steer_lock;
    bool is_first = pal_str_is(type, "response.created");
    bool is_last = pal_str_is(type, "response.completed") ||
            pal_str_is(type, "response.incomplete") || pal_str_is(type, "response.failed");
    if (!is_first && !is_last)
        return send_object(r->lane, "", data);
    pthread_mutex_lock(lock);
    bool is_sent = send_object(r->lane, "", data);
    if (is_first)
        note_created(r, data);
    else
        note_end(r, type, data);
    pthread_mutex_unlock(lock);
    return is_sent;
}

/* Sends the data of each event as a message. Events are written as a whole. Events of a model
 * service may have other white space. */
static bool send_events(request *r, pal_str frames)
{
    static const char data[] = "data:", event[] = "event:";
    pal_str type = {0};
    bool is_open = true;
    while (frames.len && is_open) {
        const char *end = memchr(frames.data, '\n', frames.len);
        size_t len = end ? (size_t)(end - frames.data) : frames.len;
        pal_str line = pal_str_make(frames.data, len);
        frames = pal_text_after(frames, end ? len + 1 : len);
        if (pal_text_begins(line, event))
            type = pal_text_trim(pal_text_after(line, sizeof event - 1));
        if (!pal_text_begins(line, data))
            continue;
        line = pal_text_trim(pal_text_after(line, sizeof data - 1));
        if (pal_text_begins(line, "{"))
            is_open = send_event(r, type, line);
    }
    return is_open;
}

static bool on_write(pal_str frames, void *user)
{
    return send_events(user, frames);
}

/* Puts the successor before the other requests of the lane. The lock must be held. */
static void put_successor(lane *l, request *successor)
{
    if (!successor)
        return;
    successor->next = l->first;
    l->first = successor;
    if (!l->last)
        l->last = successor;
    l->socket->waiting_len++;
}

/* Takes the successor of a request that has ended. Steers that are left get back their input: the
 * response ended without its last event. */
static request *take_successor(request *r)
{
    pal_openai_socket *s = r->lane->socket;
    pal_str problem = pal_str_of("the response ended before it was complete");
    pthread_mutex_lock(&s->steer_lock);
    request *successor = r->successor;
    r->successor = NULL;
    r->is_over = true;
    fail_steers(r->lane, &r->joined, "successor_creation_failed", problem);
    fail_steers(r->lane, &r->queued, "successor_creation_failed", problem);
    pthread_mutex_unlock(&s->steer_lock);
    return successor;
}

/* The loop starts the next request of the lane. */
static void on_ended(void *user)
{
    request *r = user;
    pal_openai_socket *s = r->lane->socket;
    request *successor = take_successor(r);
    pthread_mutex_lock(&s->lock);
    pal_carried *carried = r->carried;
    put_successor(r->lane, successor);
    r->lane->running = NULL;
    r->is_ended = true;
    pthread_mutex_unlock(&s->lock);
    if (carried) {
        pal_carried_release(carried);
        free_request(r);
    }
    pal_websocket_poke(s->websocket);
    release(s);
}

static const pal_carrier carrier = {
        .header = on_header, .answer = on_answer, .write = on_write, .ended = on_ended};

pal_openai_socket *pal_openai_socket_of(const pal_call *call)
{
    const request *r = pal_carried_user(call->exchange, &carrier);
    return r ? r->lane->socket : NULL;
}

pal_str pal_openai_socket_name(const pal_call *call)
{
    const pal_openai_socket *s = pal_openai_socket_of(call);
    return s ? pal_str_of(s->name) : (pal_str){0};
}

/* ---- Responses that are kept ---- */

bool pal_openai_socket_keeps(const pal_call *call, const pal_response *response)
{
    pal_openai_socket *s = pal_openai_socket_of(call);
    char id[PAL_OPENAI_ID_SIZE];
    if (!s || !pal_str_is(response->socket, s->name))
        return false;
    pal_openai_id_text("resp_", response->id, id);
    bool is_forgotten = false;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->forgotten_len && i < FORGOTTEN_MAX; i++)
        is_forgotten = is_forgotten || strcmp(s->forgotten[i], id) == 0;
    pthread_mutex_unlock(&s->lock);
    return !is_forgotten;
}

void pal_openai_socket_keep(const pal_call *call, pal_id session)
{
    pal_openai_socket *s = pal_openai_socket_of(call);
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    if (s->kept_len < KEPT_MAX)
        s->kept[s->kept_len++] = session;
    pthread_mutex_unlock(&s->lock);
}

pal_status pal_openai_socket_expect(const pal_call *call, pal_error *err)
{
    request *r = pal_carried_user(call->exchange, &carrier);
    pal_json body = call->body;
    if (!r || r->entry || pal_json_type_of(pal_json_find(body, "store")) != PAL_JSON_FALSE)
        return PAL_OK;
    r->entry = pal_socket_entry_new(
            pal_json_string(pal_json_find(body, "previous_response_id"), call->arena),
            pal_json_find(body, "input"));
    return r->entry ? PAL_OK : pal_no_memory(err);
}

pal_status pal_openai_socket_history(
        const pal_call *call, bool is_replayed, pal_buf *out, pal_error *err)
{
    const request *r = pal_carried_user(call->exchange, &carrier);
    if (!r || !r->entry)
        return pal_error_set(err, PAL_NOT_FOUND, "the request has no items that are kept");
    return pal_socket_items_history(r->lane->socket->items, r->entry, is_replayed, out, err);
}

/* A session that cannot be erased expires. Blocks. */
static void erase_kept(const pal_openai_socket *s)
{
    pal_error err;
    for (size_t i = 0; i < s->kept_len; i++) {
        pal_status status =
                pal_store_erase(s->server->store, pal_str_of(s->tenant), s->kept[i], NULL, &err);
        if (status != PAL_OK && status != PAL_NOT_FOUND)
            pal_log(PAL_LOG_WARN, "could not erase responses that were not to be stored: %s",
                    err.message);
    }
}

/* ---- Lanes ---- */

/* Adds the input of the steers that wait for this request. */
static void join_steers(request *r)
{
    pal_openai_socket *s = r->lane->socket;
    pal_json body;
    pal_buf merged;
    pthread_mutex_lock(&s->steer_lock);
    if (r->previous[0])
        unpark(r->lane, r->previous, &r->joined);
    pthread_mutex_unlock(&s->steer_lock);
    if (!r->joined.first || r->is_successor)
        return;
    pal_arena *arena = pal_arena_new(0);
    pal_buf_init(&merged, r->body.len + r->joined.bytes + ERROR_BYTES_MAX);
    if (arena && pal_json_parse(arena, pal_buf_str(&r->body), NULL, &body, NULL) == PAL_OK)
        pal_openai_steer_merge(body, &r->joined, arena, &merged);
    if (merged.len && !merged.failure) {
        pal_buf swapped = r->body;
        r->body = merged;
        merged = swapped;
    } else {
        pthread_mutex_lock(&s->steer_lock);
        fail_steers(r->lane, &r->joined, "successor_creation_failed", pal_str_of("out of memory"));
        pthread_mutex_unlock(&s->steer_lock);
    }
    pal_buf_done(&merged);
    pal_arena_free(arena);
}

/* Called on the loop. */
static void start(request *r)
{
    lane *l = r->lane;
    pal_openai_socket *s = l->socket;
    join_steers(r);
    pal_buf body = r->body; /* the request may end before pal_carried_begin() returns */
    pal_buf_init(&r->body, 0);
    const pal_carried_request carried_request = {.method = "POST",
            .path = "/v1/responses",
            .peer = s->peer,
            .body = pal_buf_str(&body),
            .carrier = &carrier,
            .user = r};
    atomic_fetch_add(&s->holders, 1);
    pal_carried *carried = pal_carried_begin(s->server->listener, &carried_request);
    pal_buf_done(&body);
    if (!carried)
        (void)take_successor(r); /* fails its steers; there is no successor */
    pthread_mutex_lock(&s->lock);
    bool is_ended = r->is_ended || !carried;
    if (!carried)
        l->running = NULL;
    else if (!is_ended)
        r->carried = carried;
    pthread_mutex_unlock(&s->lock);
    if (!carried) {
        if (!r->is_successor)
            send_error(l, 503, "server_error", "the server is stopping; retry later");
        release(s);
    }
    if (is_ended) {
        pal_carried_release(carried);
        free_request(r);
    }
}

/* Returns the next request that can run, or NULL. */
static request *take_next(pal_openai_socket *s)
{
    request *r = NULL;
    pthread_mutex_lock(&s->lock);
    for (lane *l = s->lanes; l && !r; l = l->next) {
        if (l->running || !l->first)
            continue;
        r = l->first;
        l->running = r;
        l->first = r->next;
        r->next = NULL;
        if (!l->first)
            l->last = NULL;
        s->waiting_len--;
    }
    pthread_mutex_unlock(&s->lock);
    return r;
}

/* Called on the loop. */
static void run_waiting(pal_openai_socket *s)
{
    for (request *r; (r = take_next(s)) != NULL;)
        start(r);
}

static lane *find_lane(pal_openai_socket *s, pal_str stream_id)
{
    for (lane *l = s->lanes; l; l = l->next) {
        if (l->stream_id ? pal_str_is(stream_id, l->stream_id) : stream_id.len == 0)
            return l;
    }
    return NULL;
}

/* Lanes stay until the connection ends, so that no pointer to one is lost. NULL: there are too
 * many, or no memory. The lock must be held. */
static lane *make_lane(pal_openai_socket *s, pal_str stream_id)
{
    lane *l = s->lanes_len < LANES_MAX ? pal_calloc(1, sizeof *l) : NULL;
    if (!l)
        return NULL;
    l->socket = s;
    if (stream_id.len) {
        l->stream_id = pal_malloc(stream_id.len + 1);
        if (!l->stream_id) {
            pal_free(l);
            return NULL;
        }
        memcpy(l->stream_id, stream_id.data, stream_id.len);
        l->stream_id[stream_id.len] = '\0';
    }
    l->next = s->lanes;
    s->lanes = l;
    s->lanes_len++;
    return l;
}

/* The members of a message that decide what to do with it. */
typedef struct message_head {
    pal_json message;
    pal_str type;
    pal_str stream_id;
    pal_str previous; /* previous_response_id */
} message_head;

/* Puts a request into its lane. The lock must be held. Returns the problem, or NULL. */
static const char *put_last(pal_openai_socket *s, pal_str stream_id, request *r)
{
    lane *l = find_lane(s, stream_id);
    if (!l)
        l = make_lane(s, stream_id);
    if (!l)
        return "too many values of 'stream_id' on one connection; open another connection";
    if (s->waiting_len >= WAITING_MAX)
        return "too many requests wait on this connection; retry when some have ended";
    r->lane = l;
    if (l->last)
        l->last->next = r;
    else
        l->first = r;
    l->last = r;
    s->waiting_len++;
    return NULL;
}

/* Returns the problem, or NULL. */
static const char *enqueue(
        pal_openai_socket *s, const message_head *head, pal_str body, pal_arena *arena)
{
    request *r = new_request(NULL, body.len + ERROR_BYTES_MAX);
    if (!r)
        return "out of memory";
    if (head->previous.len < sizeof r->previous)
        snprintf(r->previous, sizeof r->previous, "%.*s", PAL_STR_ARG(head->previous));
    pal_buf_append_str(&r->body, body);
    pal_openai_steer_settings(head->message, arena, &r->settings);
    const char *problem = NULL;
    if (r->body.failure || r->settings.failure) {
        problem = "out of memory";
    } else {
        pthread_mutex_lock(&s->lock);
        problem = put_last(s, head->stream_id, r);
        pthread_mutex_unlock(&s->lock);
    }
    if (problem)
        free_request(r);
    return problem;
}

/* ---- Messages from the client ---- */

/* Returns the problem, or NULL. */
static const char *read_head(pal_str text, pal_arena *arena, message_head *out)
{
    pal_json value;
    if (pal_json_parse(arena, text, NULL, &value, NULL) != PAL_OK)
        return "the message is not valid JSON";
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return "the message must be a JSON object";
    pal_json stream_id = pal_json_find(value, "stream_id");
    pal_json_type type = pal_json_type_of(stream_id);
    out->message = value;
    out->type = pal_json_string(pal_json_find(value, "type"), arena);
    out->stream_id = pal_json_string(stream_id, arena);
    out->previous = pal_json_string(pal_json_find(value, "previous_response_id"), arena);
    if ((type != PAL_JSON_NONE && type != PAL_JSON_NULL && type != PAL_JSON_STRING) ||
            out->stream_id.len > STREAM_ID_LEN_MAX || pal_text_has_control(out->stream_id))
        return "'stream_id' must be a string of at most 256 bytes";
    if (!pal_str_is(out->type, "response.create") && !pal_str_is(out->type, "response.steer"))
        return "'type' must be 'response.create' or 'response.steer'";
    return NULL;
}

/* ---- Messages from the client: steers ---- */

/* Finds the running response. Both locks must be held. */
static request *find_running(const pal_openai_socket *s, pal_str id)
{
    for (const lane *l = s->lanes; l; l = l->next) {
        if (l->running && id.len && pal_str_is(id, l->running->id))
            return l->running;
    }
    return NULL;
}

static const past_response *find_past(const pal_openai_socket *s, pal_str id)
{
    for (size_t i = 0; i < PAST_MAX && i < s->past_len; i++) {
        if (id.len && pal_str_is(id, s->past[i].id))
            return &s->past[i];
    }
    return NULL;
}

/* Decides why the response cannot be steered, and in which lane it was. Both locks must be held.
 * NULL: it can. */
static const char *refusal(const pal_openai_socket *s, pal_str id, size_t input_len,
        const lane **out_lane, const char **out_message)
{
    const request *r = find_running(s, id);
    const past_response *past = find_past(s, id);
    if (r)
        *out_lane = r->lane;
    else if (past)
        *out_lane = past->lane;
    if ((r && r->is_over) || (!r && past)) {
        bool is_completed = past && past->is_completed;
        *out_message = "the response has ended; send the input with the next request";
        return is_completed ? "response_already_completed" : "response_not_active";
    }
    *out_message = "no such response runs on this connection";
    if (!r)
        return "response_not_found";
    *out_message = "responses in a conversation, in the background or with context_management "
                   "cannot be steered";
    if (!r->settings.len)
        return "steering_not_supported";
    *out_message = "too much input waits for the end of the response";
    if (r->queued.len >= PAL_OPENAI_STEERS_MAX ||
            r->queued.bytes + input_len > s->server->config->server.body_bytes_max)
        return "too_many_pending_steers";
    return NULL;
}

/* Both locks must be held. */
static void accept_steer(pal_openai_socket *s, const message_head *head, pal_str input)
{
    request *r = find_running(s, head->previous);
    const pal_openai_steer *steer = pal_openai_steer_add(&r->queued, head->previous, input);
    const pal_openai_steer_failure failure = {.previous = head->previous,
            .input = input,
            .code = "successor_creation_failed",
            .message = pal_str_of("out of memory")};
    pal_buf event;
    if (!steer) {
        send_failure(r->lane, &failure);
        return;
    }
    pal_buf_init(&event, ERROR_BYTES_MAX);
    pal_openai_steer_accepted(steer, s->steer_events++, &event);
    send_steer_event(r->lane, &event);
    pal_buf_done(&event);
}

static void take_steer(pal_openai_socket *s, const message_head *head, pal_arena *arena)
{
    const lane nameless = {.socket = s}, *l = &nameless;
    pal_error err = {0};
    const char *message = err.message;
    pal_str input = pal_json_raw(pal_json_find(head->message, "input"));
    const char *code = pal_openai_steer_check(head->message, arena, &err) == PAL_OK
            ? NULL
            : "invalid_input";
    pthread_mutex_lock(&s->lock);
    pthread_mutex_lock(&s->steer_lock);
    if (!code)
        code = refusal(s, head->previous, input.len, &l, &message);
    const pal_openai_steer_failure failure = {.previous = head->previous,
            .input = input,
            .code = code,
            .message = pal_str_of(message)};
    if (code)
        send_failure(l, &failure);
    else
        accept_steer(s, head, input);
    pthread_mutex_unlock(&s->steer_lock);
    pthread_mutex_unlock(&s->lock);
}

static void on_message(pal_websocket *websocket, pal_str text, void *user)
{
    pal_openai_socket *s = user;
    lane nameless = {.socket = s};
    message_head head = {0};
    if (pal_clock_monotonic_us() - s->opened_us >
            s->server->config->server.websocket_age_ms * 1000) {
        send_error(&nameless, 400, "websocket_connection_limit_reached",
                "this connection is too old; open another one");
        pal_websocket_close(websocket, PAL_WEBSOCKET_NORMAL, "the connection is too old");
        return;
    }
    pal_arena *arena = pal_arena_new(0);
    const char *problem = arena ? read_head(text, arena, &head) : "out of memory";
    bool is_steer = !problem && pal_str_is(head.type, "response.steer");
    if (is_steer)
        take_steer(s, &head, arena);
    else if (!problem)
        problem = enqueue(s, &head, text, arena);
    pal_arena_free(arena);
    if (problem)
        send_error(&nameless, 400, "invalid_message", problem);
    else
        run_waiting(s);
}

static void on_poked(pal_websocket *websocket, void *user)
{
    (void)websocket;
    run_waiting(user);
}

/* The client has left: running requests are stopped, and waiting ones are dropped. */
static void on_closed(pal_websocket *websocket, void *user)
{
    pal_openai_socket *s = user;
    (void)websocket;
    pthread_mutex_lock(&s->lock);
    for (lane *l = s->lanes; l; l = l->next) {
        if (l->running && l->running->carried)
            pal_carried_leave(l->running->carried);
    }
    pthread_mutex_unlock(&s->lock);
    release(s);
}

static void on_release(void *connection)
{
    pal_upgrade_close(connection);
}

/* ---- The handshake ---- */

static bool copy_header(pal_str name, pal_str value, void *user)
{
    pal_openai_socket *s = user;
    socket_header *header = &s->headers[s->headers_len];
    if (s->headers_len == PAL_SERVER_HEADERS_MAX)
        return false;
    header->name = (char *)(uintptr_t)pal_arena_copy(s->arena, name).data;
    header->value = (char *)(uintptr_t)pal_arena_copy(s->arena, value).data;
    s->headers_len += header->name && header->value;
    return true;
}

static pal_openai_socket *new_socket(pal_call *call)
{
    pal_openai_socket *s = pal_calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->server = call->server;
    s->opened_us = pal_clock_monotonic_us();
    s->arena = pal_arena_new(0);
    atomic_init(&s->holders, 1);
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->steer_lock, NULL);
    s->items = pal_socket_items_new();
    if (s->arena && s->items)
        s->headers = pal_arena_array(s->arena, PAL_SERVER_HEADERS_MAX, sizeof *s->headers);
    if (s->headers) {
        pal_exchange_each_header(call->exchange, copy_header, s);
        s->peer = pal_arena_copy(s->arena, pal_exchange_peer(call->exchange));
        s->tenant = (char *)(uintptr_t)pal_arena_copy(s->arena, call->caller.tenant).data;
        pal_id_to_text(pal_id_new(), s->name);
    }
    if (s->tenant && pal_arena_failure(s->arena) == PAL_OK)
        return s;
    release(s);
    return NULL;
}

/* Called on the connection's thread, after 101 was sent. */
static void on_switched(pal_upgrade *upgrade, int fd, pal_str early, void *user)
{
    static const pal_websocket_handlers handlers = {.message = on_message,
            .poked = on_poked,
            .closed = on_closed,
            .release = on_release};
    pal_openai_socket *s = user;
    const pal_config_server *config = &s->server->config->server;
    const pal_websocket_options options = {.fd = fd,
            .connection = upgrade,
            .early = early,
            .message_bytes_max = config->body_bytes_max,
            .pending_bytes_max = config->stream_bytes_max,
            .heartbeat_ms = config->heartbeat_ms,
            .handlers = &handlers,
            .user = s};
    /* From here on the loop may use the socket, and free it. */
    if (upgrade && pal_websocket_new(s->server->websockets, &options, &s->websocket))
        return;
    if (upgrade)
        pal_upgrade_close(upgrade);
    release(s);
}

pal_status pal_openai_socket_open(pal_call *call, pal_error *err)
{
    pal_exchange *x = call->exchange;
    const pal_websocket_offer offer = {.upgrade = pal_exchange_header(x, "upgrade"),
            .connection = pal_exchange_header(x, "connection"),
            .version = pal_exchange_header(x, "sec-websocket-version"),
            .key = pal_exchange_header(x, "sec-websocket-key")};
    char accept[PAL_WEBSOCKET_ACCEPT_SIZE];
    if (!pal_websocket_is_offered(&offer) || !call->server->websockets) {
        pal_exchange_add_header(x, "upgrade", pal_str_of("websocket"));
        return pal_call_refuse(call, 426, "upgrade_required", PAL_INVALID, err,
                call->server->websockets
                        ? "GET /v1/responses opens a WebSocket; use POST to create a response"
                        : "WebSockets are switched off (server.websocket); use POST");
    }
    pal_status status = pal_websocket_accept(&offer, accept, err);
    if (status != PAL_OK)
        return status;
    pal_openai_socket *s = new_socket(call);
    if (!s)
        return pal_no_memory(err);
    pal_exchange_add_header(x, "sec-websocket-accept", pal_str_of(accept));
    pal_exchange_upgrade(x, "websocket", on_switched, s);
    return PAL_OK;
}
