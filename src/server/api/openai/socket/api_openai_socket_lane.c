/* api_openai_socket_lane.c - the requests of a WebSocket: they wait in lanes, run as if they had
 * come by HTTP (http_carried.c), and their events are sent as messages. */
#include "server/api/openai/socket/api_openai_socket_lane.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/text.h"

#define LANES_MAX 64    /* lanes of one connection */
#define WAITING_MAX 256 /* requests of one connection that wait for their lane */

/* ---- Requests ---- */

pal_socket_request *pal_socket_request_new(pal_socket_lane *l, size_t bytes_max)
{
    pal_socket_request *r = pal_calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->lane = l;
    pal_buf_init(&r->body, bytes_max);
    pal_buf_init(&r->settings, bytes_max);
    return r;
}

void pal_socket_request_free(pal_socket_request *r)
{
    if (!r)
        return;
    pal_socket_request_free(r->successor);
    pal_openai_steers_free(&r->joined);
    pal_openai_steers_free(&r->queued);
    pal_socket_entry_free(r->entry);
    pal_buf_done(&r->settings);
    pal_buf_done(&r->body);
    pal_free(r);
}

void pal_socket_lane_free(pal_socket_lane *l)
{
    while (l->first) {
        pal_socket_request *next = l->first->next;
        pal_socket_request_free(l->first);
        l->first = next;
    }
    pal_free(l->stream_id);
    pal_free(l);
}

/* ---- Messages to the client ---- */

bool pal_socket_lane_send(const pal_socket_lane *l, const char *members, pal_str object)
{
    pal_buf buf;
    if (!l->stream_id && !members[0])
        return pal_websocket_send(l->socket->websocket, object);
    pal_buf_init(&buf, object.len + PAL_SOCKET_MEMBERS_MAX);
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

void pal_socket_lane_send_error(
        const pal_socket_lane *l, unsigned code, const char *name, const char *message)
{
    char members[64];
    pal_buf buf;
    pal_buf_init(&buf, PAL_SOCKET_MEMBERS_MAX);
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
    (void)pal_socket_lane_send(l, members, pal_buf_str(&buf));
    pal_buf_done(&buf);
}

/* ---- The carrier of a request ---- */

static pal_str on_header(const char *name, void *user)
{
    const pal_openai_socket *s = ((const pal_socket_request *)user)->lane->socket;
    for (size_t i = 0; i < s->headers_len; i++) {
        if (strcasecmp(s->headers[i].name, name) == 0)
            return pal_str_of(s->headers[i].value);
    }
    return (pal_str){0};
}

/* After a failed continuation, the client begins again with its whole history. */
static void forget(const pal_socket_request *r)
{
    pal_openai_socket *s = r->lane->socket;
    if (!r->previous[0])
        return;
    pthread_mutex_lock(&s->lock);
    memcpy(s->forgotten[s->forgotten_len++ % PAL_SOCKET_FORGOTTEN_MAX], r->previous,
            sizeof r->previous);
    pthread_mutex_unlock(&s->lock);
    pal_socket_items_forget(s->items, pal_str_of(r->previous));
}

/* A response is kept before its client can continue from it. */
static bool send_event(pal_socket_request *r, pal_str type, pal_str data)
{
    if (r->entry && pal_socket_items_see(r->lane->socket->items, r->entry, data))
        r->entry = NULL;
    return pal_socket_steer_send(r, type, data);
}

/* Sends the data of each event as a message. Events are written as a whole. Events of a model
 * service may have other white space. */
static bool send_events(pal_socket_request *r, pal_str frames)
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

static void on_answer(unsigned code, pal_str body, void *user)
{
    char members[64] = "";
    pal_socket_request *r = user;
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
        (void)pal_socket_lane_send(r->lane, members, body);
    if (code >= 400)
        pal_socket_steer_fail(r, body);
}

static bool on_write(pal_str frames, void *user)
{
    return send_events(user, frames);
}

/* Puts the successor before the other requests of the lane. The lock must be held. */
static void put_successor(pal_socket_lane *l, pal_socket_request *successor)
{
    if (!successor)
        return;
    successor->next = l->first;
    l->first = successor;
    if (!l->last)
        l->last = successor;
    l->socket->waiting_len++;
}

/* The loop starts the next request of the lane. */
static void on_ended(void *user)
{
    pal_socket_request *r = user;
    pal_openai_socket *s = r->lane->socket;
    pal_socket_request *successor = pal_socket_steer_take_successor(r);
    pthread_mutex_lock(&s->lock);
    pal_carried *carried = r->carried;
    put_successor(r->lane, successor);
    r->lane->running = NULL;
    r->is_ended = true;
    pthread_mutex_unlock(&s->lock);
    if (carried) {
        pal_carried_release(carried);
        pal_socket_request_free(r);
    }
    pal_websocket_poke(s->websocket);
    pal_openai_socket_release(s);
}

static const pal_carrier carrier = {
        .header = on_header, .answer = on_answer, .write = on_write, .ended = on_ended};

pal_socket_request *pal_socket_request_of(const pal_call *call)
{
    return call->exchange->carried ? pal_carried_user(call->exchange, &carrier) : NULL;
}

/* ---- Running requests; on the loop ---- */

static void start(pal_socket_request *r)
{
    pal_socket_lane *l = r->lane;
    pal_openai_socket *s = l->socket;
    pal_socket_steer_join(r);
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
        (void)pal_socket_steer_take_successor(r); /* fails its steers; there is no successor */
    pthread_mutex_lock(&s->lock);
    bool is_ended = r->is_ended || !carried;
    if (!carried)
        l->running = NULL;
    else if (!is_ended)
        r->carried = carried;
    pthread_mutex_unlock(&s->lock);
    if (!carried) {
        if (!r->is_successor)
            pal_socket_lane_send_error(
                    l, 503, "server_error", "the server is stopping; retry later");
        pal_openai_socket_release(s);
    }
    if (is_ended) {
        pal_carried_release(carried);
        pal_socket_request_free(r);
    }
}

/* Returns the next request that can run, or NULL. */
static pal_socket_request *take_next(pal_openai_socket *s)
{
    pal_socket_request *r = NULL;
    pthread_mutex_lock(&s->lock);
    for (pal_socket_lane *l = s->lanes; l && !r; l = l->next) {
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

void pal_socket_lane_run(pal_openai_socket *s)
{
    for (pal_socket_request *r; (r = take_next(s)) != NULL;)
        start(r);
}

/* ---- Waiting requests ---- */

static pal_socket_lane *find_lane(pal_openai_socket *s, pal_str stream_id)
{
    for (pal_socket_lane *l = s->lanes; l; l = l->next) {
        if (l->stream_id ? pal_str_is(stream_id, l->stream_id) : stream_id.len == 0)
            return l;
    }
    return NULL;
}

/* Lanes stay until the connection ends, so that no pointer to one is lost. NULL: there are too
 * many, or no memory. The lock must be held. */
static pal_socket_lane *make_lane(pal_openai_socket *s, pal_str stream_id)
{
    pal_socket_lane *l = s->lanes_len < LANES_MAX ? pal_calloc(1, sizeof *l) : NULL;
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

/* Puts a request into its lane. The lock must be held. Returns the problem, or NULL. */
static const char *put_last(pal_openai_socket *s, pal_str stream_id, pal_socket_request *r)
{
    pal_socket_lane *l = find_lane(s, stream_id);
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

const char *pal_socket_lane_put(
        pal_openai_socket *s, const pal_socket_head *head, pal_str body, pal_arena *arena)
{
    pal_socket_request *r = pal_socket_request_new(NULL, body.len + PAL_SOCKET_MEMBERS_MAX);
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
        pal_socket_request_free(r);
    return problem;
}
