/* api_openai_socket_steer.c - steers on a WebSocket: decides which are accepted, and what happens
 * to them when their response ends. api_openai_steer.c reads and writes their JSON.
 *
 * An accepted steer is queued at its response. When the response has ended, the server makes the
 * request of a successor with the queued input, and it is the next one in the lane. If the response
 * waits for outputs of the client's tools, its steers are parked until the client sends the
 * outputs. */
#include "server/api/openai/socket/api_openai_socket_lane.h"

#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "server/server_settings.h"

#define PARKED_MAX 64 /* responses whose steers wait for outputs of tools */

/* Steers of a response that waits for outputs of the client's tools. */
typedef struct pal_socket_parked {
    struct pal_socket_parked *next;
    const pal_socket_lane *lane;
    char id[PAL_OPENAI_RESPONSE_ID_SIZE]; /* the response */
    pal_openai_steers steers;
} pal_socket_parked;

/* ---- Events; the lock must be held ---- */

static void send_steer_event(const pal_socket_lane *l, const pal_buf *event)
{
    if (!event->failure)
        (void)pal_socket_lane_send(l, "", pal_buf_str(event));
}

/* Returns the input of a steer to the client. */
static void send_failure(const pal_socket_lane *l, const pal_openai_steer_failure *failure)
{
    pal_buf event;
    pal_buf_init(&event, failure->input.len + failure->message.len + PAL_SOCKET_MEMBERS_MAX);
    pal_openai_steer_failed(failure, l->socket->steering.events++, &event);
    send_steer_event(l, &event);
    pal_buf_done(&event);
}

static void fail_steers(
        const pal_socket_lane *l, pal_openai_steers *steers, const char *code, pal_str message)
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

/* ---- Parked steers; the lock must be held ---- */

static void free_parked(pal_socket_parked *p)
{
    pal_openai_steers_free(&p->steers);
    pal_free(p);
}

/* Reports that steers wait for outputs of tools, and keeps them for the request that brings the
 * outputs. */
static void park(pal_socket_request *r, pal_str required)
{
    const pal_socket_lane *l = r->lane;
    pal_openai_socket *s = l->socket;
    pal_socket_parked *p = s->steering.parked_len < PARKED_MAX ? pal_calloc(1, sizeof *p) : NULL;
    if (!p) {
        fail_steers(l, &r->queued, "too_many_pending_steers",
                pal_str_of("too many responses wait for outputs on this connection"));
        return;
    }
    for (const pal_openai_steer *each = r->queued.first; each; each = each->next) {
        pal_buf event;
        pal_buf_init(&event, required.len + PAL_SOCKET_MEMBERS_MAX);
        pal_openai_steer_pending(each, s->steering.events++, required, &event);
        send_steer_event(l, &event);
        pal_buf_done(&event);
    }
    p->lane = l;
    memcpy(p->id, r->id, sizeof p->id);
    pal_openai_steers_move(&r->queued, &p->steers);
    p->next = s->steering.parked;
    s->steering.parked = p;
    s->steering.parked_len++;
}

/* Moves the steers that wait for a continuation of `previous` in this lane. */
static void unpark(const pal_socket_lane *l, const char *previous, pal_openai_steers *out)
{
    pal_openai_socket *s = l->socket;
    for (pal_socket_parked **at = &s->steering.parked; *at; at = &(*at)->next) {
        pal_socket_parked *p = *at;
        if (p->lane != l || strcmp(p->id, previous) != 0)
            continue;
        pal_openai_steers_move(&p->steers, out);
        *at = p->next;
        free_parked(p);
        s->steering.parked_len--;
        return;
    }
}

void pal_socket_steering_init(pal_socket_steering *steering)
{
    pthread_mutex_init(&steering->lock, NULL);
}

void pal_socket_steering_done(pal_socket_steering *steering)
{
    while (steering->parked) {
        pal_socket_parked *next = steering->parked->next;
        free_parked(steering->parked);
        steering->parked = next;
    }
    pthread_mutex_destroy(&steering->lock);
}

/* ---- The life of a steered response ---- */

/* Prepares the request that continues the response with the queued input. */
static void make_successor(pal_socket_request *r)
{
    size_t bytes_max = r->settings.len + r->queued.bytes + PAL_SOCKET_MEMBERS_MAX;
    pal_socket_request *successor = pal_socket_request_new(r->lane, bytes_max);
    if (successor) {
        memcpy(successor->previous, r->id, sizeof successor->previous);
        successor->is_successor = true;
        pal_openai_steer_successor(pal_buf_str(&r->settings), pal_str_of(r->id), &r->queued,
                &successor->body);
        pal_buf_append_str(&successor->settings, pal_buf_str(&r->settings));
    }
    if (!successor || successor->body.failure || successor->settings.failure) {
        pal_socket_request_free(successor);
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
static void on_created(pal_socket_request *r, pal_str data)
{
    pal_arena *arena = pal_arena_new(0);
    pal_str id = pal_json_string(pal_json_find(response_of(data, arena), "id"), arena);
    if (id.len < sizeof r->id)
        snprintf(r->id, sizeof r->id, "%.*s", PAL_STR_ARG(id));
    pal_arena_free(arena);
    pal_openai_steers_free(&r->joined);
}

/* Decides what happens to the queued steers after the last event of the response. */
static void on_last_event(pal_socket_request *r, pal_str type, pal_str data)
{
    pal_openai_socket *s = r->lane->socket;
    pal_socket_past *past = &s->steering.past[s->steering.past_len++ % PAL_SOCKET_PAST_MAX];
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
    pal_buf_init(&required, data.len + PAL_SOCKET_MEMBERS_MAX);
    if (pal_openai_steer_required(response_of(data, arena), arena, &required) > 0)
        park(r, pal_buf_str(&required));
    else
        make_successor(r);
    pal_buf_done(&required);
    pal_arena_free(arena);
}

bool pal_socket_steer_send(pal_socket_request *r, pal_str type, pal_str data)
{
    pthread_mutex_t *lock = &r->lane->socket->steering.lock;
    bool is_first = pal_str_is(type, "response.created");
    bool is_last = pal_str_is(type, "response.completed") ||
            pal_str_is(type, "response.incomplete") || pal_str_is(type, "response.failed");
    if (!is_first && !is_last)
        return pal_socket_lane_send(r->lane, "", data);
    pthread_mutex_lock(lock);
    bool is_sent = pal_socket_lane_send(r->lane, "", data);
    if (is_first)
        on_created(r, data);
    else
        on_last_event(r, type, data);
    pthread_mutex_unlock(lock);
    return is_sent;
}

/* Reads the message of an error body. */
static pal_str error_message(pal_str body, pal_arena *arena)
{
    pal_json value;
    if (!arena || pal_json_parse(arena, body, NULL, &value, NULL) != PAL_OK)
        return pal_str_of("the request failed");
    return pal_json_string(pal_json_find(pal_json_find(value, "error"), "message"), arena);
}

void pal_socket_steer_fail(pal_socket_request *r, pal_str body)
{
    if (!r->joined.first)
        return;
    pal_arena *arena = pal_arena_new(0);
    pthread_mutex_lock(&r->lane->socket->steering.lock);
    fail_steers(r->lane, &r->joined, "successor_creation_failed", error_message(body, arena));
    pthread_mutex_unlock(&r->lane->socket->steering.lock);
    pal_arena_free(arena);
}

pal_socket_request *pal_socket_steer_take_successor(pal_socket_request *r)
{
    pal_openai_socket *s = r->lane->socket;
    pal_str problem = pal_str_of("the response ended before it was complete");
    pthread_mutex_lock(&s->steering.lock);
    pal_socket_request *successor = r->successor;
    r->successor = NULL;
    r->is_over = true;
    fail_steers(r->lane, &r->joined, "successor_creation_failed", problem);
    fail_steers(r->lane, &r->queued, "successor_creation_failed", problem);
    pthread_mutex_unlock(&s->steering.lock);
    return successor;
}

void pal_socket_steer_join(pal_socket_request *r)
{
    pal_openai_socket *s = r->lane->socket;
    pal_json body;
    pal_buf merged;
    pthread_mutex_lock(&s->steering.lock);
    if (r->previous[0])
        unpark(r->lane, r->previous, &r->joined);
    pthread_mutex_unlock(&s->steering.lock);
    if (!r->joined.first || r->is_successor)
        return;
    pal_arena *arena = pal_arena_new(0);
    pal_buf_init(&merged, r->body.len + r->joined.bytes + PAL_SOCKET_MEMBERS_MAX);
    if (arena && pal_json_parse(arena, pal_buf_str(&r->body), NULL, &body, NULL) == PAL_OK)
        pal_openai_steer_merge(body, &r->joined, arena, &merged);
    if (merged.len && !merged.failure) {
        pal_buf swapped = r->body;
        r->body = merged;
        merged = swapped;
    } else {
        pthread_mutex_lock(&s->steering.lock);
        fail_steers(r->lane, &r->joined, "successor_creation_failed", pal_str_of("out of memory"));
        pthread_mutex_unlock(&s->steering.lock);
    }
    pal_buf_done(&merged);
    pal_arena_free(arena);
}

/* ---- Messages from the client ---- */

/* Finds the running response. Both locks must be held. */
static pal_socket_request *find_running(const pal_openai_socket *s, pal_str id)
{
    for (const pal_socket_lane *l = s->lanes; l; l = l->next) {
        if (l->running && id.len && pal_str_is(id, l->running->id))
            return l->running;
    }
    return NULL;
}

static const pal_socket_past *find_past(const pal_openai_socket *s, pal_str id)
{
    for (size_t i = 0; i < PAL_SOCKET_PAST_MAX && i < s->steering.past_len; i++) {
        if (id.len && pal_str_is(id, s->steering.past[i].id))
            return &s->steering.past[i];
    }
    return NULL;
}

/* Decides why the response cannot be steered, and in which lane it was. Both locks must be held.
 * NULL: it can. */
static const char *refusal(const pal_openai_socket *s, pal_str id, size_t input_len,
        const pal_socket_lane **out_lane, const char **out_message)
{
    const pal_socket_request *r = find_running(s, id);
    const pal_socket_past *past = find_past(s, id);
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
static void accept_steer(pal_openai_socket *s, const pal_socket_head *head, pal_str input)
{
    pal_socket_request *r = find_running(s, head->previous);
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
    pal_buf_init(&event, PAL_SOCKET_MEMBERS_MAX);
    pal_openai_steer_accepted(steer, s->steering.events++, &event);
    send_steer_event(r->lane, &event);
    pal_buf_done(&event);
}

void pal_socket_steer_take(pal_openai_socket *s, const pal_socket_head *head, pal_arena *arena)
{
    const pal_socket_lane nameless = {.socket = s}, *l = &nameless;
    pal_error err = {0};
    const char *message = err.message;
    pal_str input = pal_json_raw(pal_json_find(head->message, "input"));
    const char *code = pal_openai_steer_check(head->message, arena, &err) == PAL_OK
            ? NULL
            : "invalid_input";
    pthread_mutex_lock(&s->lock);
    pthread_mutex_lock(&s->steering.lock);
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
    pthread_mutex_unlock(&s->steering.lock);
    pthread_mutex_unlock(&s->lock);
}
