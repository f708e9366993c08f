/* api_openai_socket.c - responses over a WebSocket, at GET /v1/responses.
 *
 * A client sends {"type":"response.create",...} with the members of POST /v1/responses. Each such
 * message is handled as that request (api_openai_socket_lane.c), so it has the same checks and
 * limits. The events of its stream are sent as messages, and an error as
 * {"type":"error","status":400,...}.
 *
 * Responses with "store": false are kept while the connection is open, so that the next request can
 * continue from them. Their sessions expire by themselves, in case the server does not get to erase
 * them.
 *
 * A client can steer a running response: it sends more input, and the server continues the response
 * with it (api_openai_socket_steer.c).
 *
 * Threads: messages arrive on the WebSocket loop. A request ends on any thread. The connection and
 * each running request hold a reference; the last one frees the socket. */
#include "server/api/openai/socket/api_openai_socket_lane.h"

#include <stddef.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "server/api/openai/api_openai.h"
#include "server/server_settings.h"

#define STREAM_ID_LEN_MAX 256

/* ---- The life of a socket ---- */

static void free_socket(pal_openai_socket *s)
{
    while (s->lanes) {
        pal_socket_lane *next = s->lanes->next;
        pal_socket_lane_free(s->lanes);
        s->lanes = next;
    }
    pal_websocket_release(s->websocket);
    pal_socket_items_free(s->items);
    pal_socket_steering_done(&s->steering);
    pthread_mutex_destroy(&s->lock);
    pal_arena_free(s->arena);
    pal_free(s);
}

/* A session that cannot be erased expires. Blocks. */
static void erase_kept(const pal_openai_socket *s)
{
    pal_error err;
    for (size_t i = 0; i < s->kept_len; i++) {
        pal_status status =
                pal_store_erase(s->server->store, pal_str_of(s->tenant), s->kept[i], NULL, &err);
        if (status != PAL_OK && status != PAL_NOT_FOUND)
            pal_log(PAL_LOG_WARN, "could not erase responses with 'store': false: %s", err.message);
    }
}

static void end_socket(pal_background_task *task)
{
    pal_openai_socket *s = (pal_openai_socket *)((char *)task - offsetof(pal_openai_socket, end));
    erase_kept(s);
    free_socket(s);
}

/* The last request can end on a thread that must not block, such as the store's writer. */
void pal_openai_socket_release(pal_openai_socket *s)
{
    if (atomic_fetch_sub(&s->holders, 1) != 1)
        return;
    s->end.run = end_socket;
    if (!s->kept_len || !pal_background_add(s->server->background, &s->end))
        free_socket(s);
}

/* ---- The socket of a request ---- */

pal_openai_socket *pal_openai_socket_of(const pal_call *call)
{
    const pal_socket_request *r = call->exchange->carried ? pal_socket_request_of(call) : NULL;
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
    for (size_t i = 0; i < s->forgotten_len && i < PAL_SOCKET_FORGOTTEN_MAX; i++)
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
    if (s->kept_len < PAL_SOCKET_KEPT_MAX)
        s->kept[s->kept_len++] = session;
    pthread_mutex_unlock(&s->lock);
}

pal_status pal_openai_socket_expect(const pal_call *call, pal_error *err)
{
    pal_socket_request *r = pal_socket_request_of(call);
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
    const pal_socket_request *r = pal_socket_request_of(call);
    if (!r || !r->entry)
        return pal_error_set(
                err, PAL_NOT_FOUND, "the request is not one of a WebSocket that keeps its items");
    return pal_socket_items_history(r->lane->socket->items, r->entry, is_replayed, out, err);
}

/* ---- Messages from the client ---- */

/* Returns the problem, or NULL. */
static const char *read_head(pal_str text, pal_arena *arena, pal_socket_head *out)
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

static void on_message(pal_websocket *websocket, pal_str text, void *user)
{
    pal_openai_socket *s = user;
    pal_socket_lane nameless = {.socket = s};
    pal_socket_head head = {0};
    if (pal_clock_monotonic_us() - s->opened_us >
            s->server->config->server.websocket_age_ms * 1000) {
        pal_socket_lane_send_error(&nameless, 400, "websocket_connection_limit_reached",
                "this connection is too old; open another one");
        pal_websocket_close(websocket, PAL_WEBSOCKET_NORMAL, "the connection is too old");
        return;
    }
    pal_arena *arena = pal_arena_new(0);
    const char *problem = arena ? read_head(text, arena, &head) : "out of memory";
    bool is_steer = !problem && pal_str_is(head.type, "response.steer");
    if (is_steer)
        pal_socket_steer_take(s, &head, arena);
    else if (!problem)
        problem = pal_socket_lane_put(s, &head, text, arena);
    pal_arena_free(arena);
    if (problem)
        pal_socket_lane_send_error(&nameless, 400, "invalid_message", problem);
    else
        pal_socket_lane_run(s);
}

static void on_poked(pal_websocket *websocket, void *user)
{
    (void)websocket;
    pal_socket_lane_run(user);
}

/* The client has left: running requests are stopped, and waiting ones are dropped. */
static void on_closed(pal_websocket *websocket, void *user)
{
    pal_openai_socket *s = user;
    (void)websocket;
    pthread_mutex_lock(&s->lock);
    for (pal_socket_lane *l = s->lanes; l; l = l->next) {
        if (l->running && l->running->carried)
            pal_carried_leave(l->running->carried);
    }
    pthread_mutex_unlock(&s->lock);
    pal_openai_socket_release(s);
}

static void on_release(void *connection)
{
    pal_upgrade_close(connection);
}

/* ---- The handshake ---- */

static bool copy_header(pal_str name, pal_str value, void *user)
{
    pal_openai_socket *s = user;
    pal_socket_header *header = &s->headers[s->headers_len];
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
    pal_socket_steering_init(&s->steering);
    s->items = pal_socket_items_new();
    if (s->arena && s->items)
        s->headers = pal_arena_array(s->arena, PAL_SERVER_HEADERS_MAX, sizeof *s->headers);
    if (s->headers) {
        pal_exchange_each_header(call->exchange, copy_header, s);
        s->peer = pal_arena_copy(s->arena, call->exchange->peer);
        s->tenant = (char *)(uintptr_t)pal_arena_copy(s->arena, call->caller.tenant).data;
        pal_id_to_text(pal_id_new(), s->name);
    }
    if (s->tenant && pal_arena_failure(s->arena) == PAL_OK)
        return s;
    pal_openai_socket_release(s);
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
    pal_openai_socket_release(s);
}

pal_status pal_openai_socket_open(pal_call *call, pal_error *err)
{
    pal_exchange *x = call->exchange;
    const pal_websocket_offer offer = {.upgrade = x->headers.upgrade,
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
    if (status == PAL_INVALID) /* RFC 6455: the client can try again with this version */
        pal_exchange_add_header(x, "sec-websocket-version", pal_str_of("13"));
    if (status != PAL_OK)
        return status;
    pal_openai_socket *s = new_socket(call);
    if (!s)
        return pal_no_memory(err);
    pal_exchange_add_header(x, "sec-websocket-accept", pal_str_of(accept));
    pal_exchange_upgrade(x, "websocket", on_switched, s);
    return PAL_OK;
}
