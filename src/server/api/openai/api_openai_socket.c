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
 * Threads: messages arrive on the WebSocket loop. A request ends on any thread. The lock guards
 * everything but the members that are set once. The connection and each running request hold a
 * reference; the last one frees the socket. */
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
#include "server/server_background.h"
#include "server/server_call.h"
#include "server/server_settings.h"
#include "server/websocket/websocket.h"

#define LANES_MAX 64      /* lanes of one connection */
#define WAITING_MAX 256   /* requests of one connection that wait for their lane */
#define KEPT_MAX 256      /* sessions that are erased at the end; others expire */
#define FORGOTTEN_MAX 16  /* responses whose continuation has failed */
#define STREAM_ID_LEN_MAX 256
#define LIFE_US ((int64_t)60 * 60 * 1000000) /* OpenAI closes connections after an hour */
#define ERROR_BYTES_MAX ((size_t)8 << 10)

typedef struct socket_header {
    char *name;
    char *value;
} socket_header;

/* A request that waits. Its bytes follow. */
typedef struct waiting {
    struct waiting *next;
    char previous[PAL_OPENAI_ID_SIZE]; /* its previous_response_id; may be empty */
    size_t len;
} waiting;

typedef struct lane {
    struct lane *next;
    pal_openai_socket *socket;
    char *stream_id; /* NULL: requests without a stream_id */
    waiting *first, **last;
    struct request *running; /* NULL: none */
} lane;

/* A running request. The function that starts it and the callback of its end come in any order; the
 * later one frees it. */
typedef struct request {
    lane *lane;
    pal_carried *carried; /* NULL: pal_carried_begin() has not returned yet */
    bool is_ended;
    char previous[PAL_OPENAI_ID_SIZE]; /* the response that it continues; may be empty */
} request;

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
    char forgotten[FORGOTTEN_MAX][PAL_OPENAI_ID_SIZE]; /* a ring */
    size_t forgotten_len;
};

static void erase_kept(const pal_openai_socket *s);

static void free_lane(lane *l)
{
    while (l->first) {
        waiting *next = l->first->next;
        pal_free(l->first);
        l->first = next;
    }
    pal_free(l->stream_id);
    pal_free(l);
}

static void free_socket(pal_openai_socket *s)
{
    while (s->lanes) {
        lane *next = s->lanes->next;
        free_lane(s->lanes);
        s->lanes = next;
    }
    pal_websocket_release(s->websocket);
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
}

static bool on_write(pal_str frames, void *user);

static void on_answer(unsigned code, pal_str body, void *user)
{
    char members[64] = "";
    if (pal_text_begins(body, "event: ")) { /* all events at once */
        (void)on_write(body, user);
        return;
    }
    if (code >= 400) {
        forget(user);
        snprintf(members, sizeof members, "\"type\":\"error\",\"status\":%u,", code);
    }
    while (body.len && body.data[body.len - 1] == '\n')
        body.len--;
    if (body.len)
        (void)send_object(((const request *)user)->lane, members, body);
}

/* Sends the data of each event as a message. Events are written as a whole. */
static bool on_write(pal_str frames, void *user)
{
    static const char data[] = "data: ";
    const lane *l = ((const request *)user)->lane;
    bool is_open = true;
    while (frames.len && is_open) {
        const char *end = memchr(frames.data, '\n', frames.len);
        size_t len = end ? (size_t)(end - frames.data) : frames.len;
        if (len > sizeof data && memcmp(frames.data, data, sizeof data - 1) == 0 &&
                frames.data[sizeof data - 1] == '{')
            is_open = send_object(
                    l, "", pal_str_make(frames.data + sizeof data - 1, len - sizeof data + 1));
        len += end != NULL;
        frames = pal_str_make(frames.data + len, frames.len - len);
    }
    return is_open;
}

/* The loop starts the next request of the lane. */
static void on_ended(void *user)
{
    request *r = user;
    pal_openai_socket *s = r->lane->socket;
    pthread_mutex_lock(&s->lock);
    pal_carried *carried = r->carried;
    r->lane->running = NULL;
    r->is_ended = true;
    pthread_mutex_unlock(&s->lock);
    if (carried) {
        pal_carried_release(carried);
        pal_free(r);
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

/* Called on the loop. */
static void start(request *r, pal_str body)
{
    lane *l = r->lane;
    pal_openai_socket *s = l->socket;
    const pal_carried_request carried_request = {.method = "POST",
            .path = "/v1/responses",
            .peer = s->peer,
            .body = body,
            .carrier = &carrier,
            .user = r};
    atomic_fetch_add(&s->holders, 1);
    pal_carried *carried = pal_carried_begin(s->server->listener, &carried_request);
    pthread_mutex_lock(&s->lock);
    bool is_ended = r->is_ended || !carried;
    if (!carried)
        l->running = NULL;
    else if (!is_ended)
        r->carried = carried;
    pthread_mutex_unlock(&s->lock);
    if (!carried) {
        send_error(l, 503, "server_error", "the server is stopping; retry later");
        release(s);
    }
    if (is_ended) {
        pal_carried_release(carried);
        pal_free(r);
    }
}

/* Returns the next request that can run, or NULL. */
static request *take_next(pal_openai_socket *s, waiting **out_waiting)
{
    request *r = NULL;
    pthread_mutex_lock(&s->lock);
    for (lane *l = s->lanes; l && !r; l = l->next) {
        if (l->running || !l->first)
            continue;
        r = pal_calloc(1, sizeof *r);
        if (!r)
            break; /* the next message tries again */
        r->lane = l;
        memcpy(r->previous, l->first->previous, sizeof r->previous);
        l->running = r;
        *out_waiting = l->first;
        l->first = l->first->next;
        if (!l->first)
            l->last = &l->first;
        s->waiting_len--;
    }
    pthread_mutex_unlock(&s->lock);
    return r;
}

/* Called on the loop. */
static void run_waiting(pal_openai_socket *s)
{
    waiting *next = NULL;
    for (request *r; (r = take_next(s, &next)) != NULL;) {
        start(r, pal_str_make((const char *)(next + 1), next->len));
        pal_free(next);
    }
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
    l->last = &l->first;
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
    pal_str type;
    pal_str stream_id;
    pal_str previous; /* previous_response_id */
    pal_str input;    /* JSON; empty: there is none */
} message_head;

/* Puts a request into its lane. Returns the problem, or NULL. */
static const char *enqueue(pal_openai_socket *s, const message_head *head, pal_str body)
{
    waiting *item = pal_malloc(sizeof *item + body.len);
    const char *problem = NULL;
    if (!item)
        return "out of memory";
    *item = (waiting){.len = body.len};
    if (head->previous.len < sizeof item->previous && head->previous.len)
        memcpy(item->previous, head->previous.data, head->previous.len);
    memcpy(item + 1, body.data, body.len);
    pthread_mutex_lock(&s->lock);
    lane *l = find_lane(s, head->stream_id);
    if (!l)
        l = make_lane(s, head->stream_id);
    if (!l) {
        problem = "too many values of 'stream_id' on one connection; open another connection";
    } else if (s->waiting_len >= WAITING_MAX) {
        problem = "too many requests wait on this connection; retry when some have ended";
    } else {
        *l->last = item;
        l->last = &item->next;
        s->waiting_len++;
    }
    pthread_mutex_unlock(&s->lock);
    if (problem)
        pal_free(item);
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
    out->type = pal_json_string(pal_json_find(value, "type"), arena);
    out->stream_id = pal_json_string(stream_id, arena);
    out->previous = pal_json_string(pal_json_find(value, "previous_response_id"), arena);
    if ((type != PAL_JSON_NONE && type != PAL_JSON_NULL && type != PAL_JSON_STRING) ||
            out->stream_id.len > STREAM_ID_LEN_MAX || pal_text_has_control(out->stream_id))
        return "'stream_id' must be a string of at most 256 bytes";
    out->input = pal_json_raw(pal_json_find(value, "input"));
    if (!pal_str_is(out->type, "response.create") && !pal_str_is(out->type, "response.steer"))
        return "'type' must be 'response.create' or 'response.steer'";
    return NULL;
}

/* A response runs all or nothing, so it takes no more input. The failure returns the input, and the
 * client sends it with its next request. */
static void refuse_steer(pal_openai_socket *s, const message_head *head)
{
    lane nameless = {.socket = s};
    pal_buf buf;
    pal_buf_init(&buf, head->input.len + ERROR_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_text(&writer, "type", "response.steer.failed");
    pal_put_count(&writer, "sequence_number", 0);
    pal_json_name(&writer, "steer");
    pal_json_begin_object(&writer);
    pal_put_str(&writer, "previous_response_id", head->previous);
    if (head->input.len)
        pal_put_raw(&writer, "input", head->input);
    pal_json_end_object(&writer);
    pal_json_name(&writer, "error");
    pal_json_begin_object(&writer);
    pal_put_text(&writer, "type", "invalid_request_error");
    pal_put_text(&writer, "code", "steering_not_supported");
    pal_put_text(&writer, "message",
            "a running response takes no more input; send it with the next request");
    pal_json_end_object(&writer);
    pal_json_end_object(&writer);
    if (!buf.failure)
        (void)send_object(&nameless, "", pal_buf_str(&buf));
    pal_buf_done(&buf);
}

static void on_message(pal_websocket *websocket, pal_str text, void *user)
{
    pal_openai_socket *s = user;
    lane nameless = {.socket = s};
    message_head head = {0};
    if (pal_clock_monotonic_us() - s->opened_us > LIFE_US) {
        send_error(&nameless, 400, "websocket_connection_limit_reached",
                "this connection is an hour old; open another one");
        pal_websocket_close(websocket, PAL_WEBSOCKET_NORMAL, "the connection is an hour old");
        return;
    }
    pal_arena *arena = pal_arena_new(0);
    const char *problem = arena ? read_head(text, arena, &head) : "out of memory";
    bool is_steer = !problem && pal_str_is(head.type, "response.steer");
    if (is_steer)
        refuse_steer(s, &head);
    else if (!problem)
        problem = enqueue(s, &head, text);
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
    if (s->arena)
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
