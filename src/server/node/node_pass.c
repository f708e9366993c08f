/* node_pass.c - passes a request on to another node, and its response back to the client.
 *
 * The request is sent with the caller's own key, so the other node checks the key, the role and the
 * tenant again. The header x-palaver-node has a token that is derived from the store's secret. It
 * shows that the request comes from another node of the same store: it is not passed on again, it
 * does not count for rate limits a second time, and a node that stops still takes it. Clients
 * cannot make the token, and the header of a client is not passed on.
 *
 * If the other node cannot be reached, the request is handled here. If the connection is lost
 * later, the client gets 503, or its stream ends and it can resume.
 *
 * Threads: one loop, started with the first request, makes the calls. A pass is used by the loop
 * and by listener threads, which report that the client has left or that the stream has ended.
 * `lock` protects it. Each side holds a reference, and the last one frees the pass. The listener
 * reports a client that has left under its own lock, which a response takes while `lock` is held.
 * So leave() takes no lock. Nothing is written to the store, so a crash loses only connections. */
#include "server/node/node_pass.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/buf.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "net/net_http.h"
#include "server/access/access_key.h"
#include "server/node/node.h"
#include "server/run/run.h"
#include "server/server_internal.h"

#define CONNECT_MS 1000
#define TRIES_MAX 3 /* nodes that a server that stops tries for one request */
#define ID_TRIES_MAX 1000 /* ids that are tried for a session; one in each number of nodes fits */
#define RETRY_MS 1000 /* Retry-After if the other node was lost */
#define END_MS 5000 /* how long a server that closes waits for responses of other nodes */
#define END_PAUSE_MS 5
#define CONTENT_TYPE_SIZE 256
#define TOKEN_SIZE (2 * PAL_SHA256_SIZE + 1)

struct pal_passes {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pal_loop *loop; /* NULL until the first request is passed on */
    pal_http *http; /* used on the loop */
    struct pass *first; /* running calls; used on the loop */
    bool is_started; /* the loop has `http`, unless it could not be opened */
    bool is_ending; /* no more requests are passed on */
    size_t awaited; /* requests whose response has not begun; set by count_awaited() */
    char token[TOKEN_SIZE];
    uint64_t passed;
};

typedef struct pass {
    pal_passes *passes;
    pthread_mutex_t lock;
    atomic_uint holders;
    atomic_flag is_left; /* the client has left, or the stream accepts no more */
    pal_call *call;     /* NULL after the response was sent or a stream has begun */
    pal_stream *stream; /* NULL if there is none, or if it has ended */
    bool is_stream;
    pal_task start, leave;
    struct pass *next, **link; /* in the list of running calls; used on the loop */
    pal_http_call *http_call; /* used on the loop; NULL: not started, or over */
    pal_http_request request; /* its texts are in the call's arena */
    unsigned code;
    char content_type[CONTENT_TYPE_SIZE];
    pal_buf body;
} pass;

static void release(pass *p)
{
    if (atomic_fetch_sub(&p->holders, 1) != 1)
        return;
    pal_buf_done(&p->body);
    pthread_mutex_destroy(&p->lock);
    pal_free(p);
}

/* ---- Headers ---- */

/* Headers that belong to one connection, or that each node makes itself. */
static bool is_own_header(pal_str name)
{
    static const char *const own[] = {"connection", "keep-alive", "transfer-encoding", "te",
            "trailer", "upgrade", "content-length", "host", "expect", "date", "server",
            "x-request-id", "origin", "sec-fetch-site", "vary", PAL_PASS_HEADER};
    static const char cors[] = "access-control-";
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (pal_text_is_nocase(name, own[i]))
            return true;
    return pal_text_begins_nocase(name, cors);
}

typedef struct header_list {
    pal_header *items;
    size_t len, max;
    pal_arena *arena;
} header_list;

static void add_header(header_list *list, pal_str name, pal_str value)
{
    if (list->items && list->len < list->max)
        list->items[list->len++] = (pal_header){
                pal_arena_copy(list->arena, name), pal_arena_copy(list->arena, value)};
}

static bool copy_header(pal_str name, pal_str value, void *user)
{
    if (!is_own_header(name))
        add_header(user, name, value);
    return true;
}

/* ---- The end ---- */

/* Handles the request in this process. A server that stops passes it on to another node, if there
 * is one: the list of nodes can be a few seconds old. */
static void handle_here(pal_exchange *x)
{
    pal_call *call = x->call;
    if (!call->is_kept)
        pal_nodes_refresh(call->server->nodes);
    pal_server_handle(x, NULL);
}

/* The lock must be held. */
static void fail(pass *p, unsigned code, const char *why)
{
    pal_error err;
    pal_call *call = p->call;
    p->call = NULL;
    if (!call)
        return;
    call->fail_retry_ms = RETRY_MS;
    pal_status status = pal_call_refuse(call, code, "node_lost", PAL_BUSY, &err, "%s", why);
    pal_call_fail(call, status, &err);
}

/* The lock must be held. */
static void close_stream(pass *p)
{
    if (p->stream)
        pal_stream_end(p->stream);
    p->stream = NULL;
}

/* The call is over. On the loop; the lock must be held. */
static void remove_call(pass *p)
{
    p->http_call = NULL;
    *p->link = p->next;
    if (p->next)
        p->next->link = p->link;
}

/* Ends a call that is no longer needed. On the loop. */
static void on_leave(pal_task *task)
{
    pass *p = (pass *)((char *)task - offsetof(pass, leave));
    pthread_mutex_lock(&p->lock);
    bool is_running = p->http_call != NULL;
    if (is_running) {
        pal_http_cancel(p->http_call);
        remove_call(p);
        fail(p, 503, "the server is stopping; retry");
    }
    close_stream(p);
    pthread_mutex_unlock(&p->lock);
    if (is_running)
        release(p); /* the call made no callback */
    release(p);
}

/* Must be called while the pass cannot be freed. Can be called under any lock. */
static void leave(pass *p)
{
    if (atomic_flag_test_and_set(&p->is_left))
        return;
    atomic_fetch_add(&p->holders, 1);
    pal_loop_post(p->passes->loop, &p->leave);
}

static void stream_gone(void *user)
{
    pass *p = user;
    pthread_mutex_lock(&p->lock);
    p->stream = NULL;
    pthread_mutex_unlock(&p->lock);
    leave(p);
    release(p);
}

/* The response removes this callback, and the loop holds a reference until then. */
static void client_left(void *user)
{
    leave(user);
}

/* ---- The response, on the loop ---- */

/* The lock must be held. */
static void open_stream(pass *p)
{
    pal_error err;
    pal_call *call = p->call;
    p->call = NULL;
    atomic_fetch_add(&p->holders, 1);
    pal_call_streaming(call);
    p->stream = pal_exchange_stream(call->exchange, p->code, p->content_type, stream_gone, p);
    if (p->stream) {
        /* The other node has limited the bytes that wait for a slow reader. */
        pal_stream_allow(p->stream, PAL_RESPONSE_STREAM_BYTES_MAX);
        return;
    }
    atomic_fetch_sub(&p->holders, 1);
    pal_status status = pal_run_refuse_stream(call, &err);
    pal_call_fail(call, status, &err);
}

static void on_head(void *user, const pal_http_head *head)
{
    static const char events[] = "text/event-stream";
    pass *p = user;
    pthread_mutex_lock(&p->lock);
    p->code = (unsigned)head->code;
    for (size_t i = 0; p->call && i < head->headers_len; i++) {
        const pal_header *header = &head->headers[i];
        char name[128];
        if (pal_str_is(header->name, "content-type")) {
            snprintf(p->content_type, sizeof p->content_type, "%.*s", PAL_STR_ARG(header->value));
        } else if (!is_own_header(header->name) && header->name.len < sizeof name) {
            snprintf(name, sizeof name, "%.*s", PAL_STR_ARG(header->name));
            pal_exchange_add_header(p->call->exchange, name, header->value);
        }
    }
    p->is_stream = p->call && strncmp(p->content_type, events, sizeof events - 1) == 0;
    if (p->is_stream)
        open_stream(p);
    pthread_mutex_unlock(&p->lock);
}

static void on_body(void *user, pal_str bytes)
{
    pass *p = user;
    bool is_cut = false;
    pthread_mutex_lock(&p->lock);
    if (!p->is_stream)
        pal_buf_append_str(&p->body, bytes);
    else
        is_cut = !p->stream || !pal_stream_write(p->stream, bytes);
    pthread_mutex_unlock(&p->lock);
    if (is_cut)
        leave(p);
}

/* The lock must be held. */
static void answer(pass *p)
{
    pal_call *call = p->call;
    p->call = NULL;
    pal_call_streaming(call);
    pal_exchange_answer_with(
            call->exchange, p->code, p->content_type[0] ? p->content_type : NULL, &p->body);
}

/* The other node cannot be reached, so nothing has happened. The lock must be held. */
static void turn_back(pass *p, const pal_http_end *end)
{
    pal_call *call = p->call;
    pal_log(PAL_LOG_WARN, "request %.*s: could not pass it on to another node: %s",
            PAL_STR_ARG(call->exchange->id), end->error);
    p->call = NULL;
    pal_exchange_unwatch(call->exchange);
    pal_call_streaming(call);
    call->is_kept = !atomic_load(&call->server->is_draining) || ++call->pass_tries == TRIES_MAX;
    pal_exchange_to_worker(call->exchange, handle_here);
}

static void on_end(void *user, const pal_http_end *end)
{
    pass *p = user;
    pthread_mutex_lock(&p->lock);
    remove_call(p);
    if (p->is_stream)
        close_stream(p);
    else if (end->status == PAL_OK && p->call && !p->body.failure)
        answer(p);
    else if (p->call && (end->unreachable || !end->sent))
        turn_back(p, end);
    else
        fail(p, 503, "the server that runs the turn stopped answering; retry");
    pthread_mutex_unlock(&p->lock);
    release(p);
}

/* ---- Starting ---- */

static void on_start(pal_task *task)
{
    static const pal_http_events events = {.head = on_head, .body = on_body, .end = on_end};
    pass *p = (pass *)((char *)task - offsetof(pass, start));
    pal_error err = {0};
    pthread_mutex_lock(&p->lock);
    pal_status status =
            pal_http_start(p->passes->http, &p->request, &events, p, &p->http_call, &err);
    if (status == PAL_OK) {
        p->link = &p->passes->first;
        p->next = p->passes->first;
        if (p->next)
            p->next->link = &p->next;
        p->passes->first = p;
        (void)pal_exchange_watch(p->call->exchange, client_left, p);
    } else {
        fail(p, 503, err.message);
    }
    pthread_mutex_unlock(&p->lock);
    if (status != PAL_OK)
        release(p);
}

/* Writes the request into the call's arena. */
static pal_status make_request(pass *p, const char *address, pal_error *err)
{
    pal_call *call = p->call;
    pal_exchange *x = call->exchange;
    pal_str query = x->query;
    pal_buf url;
    header_list headers = {.max = PAL_SERVER_HEADERS_MAX + 2, .arena = call->arena};
    headers.items = pal_arena_array(call->arena, headers.max, sizeof *headers.items);
    add_header(&headers, pal_str_of(PAL_PASS_HEADER), pal_str_of(p->passes->token));
    add_header(&headers, pal_str_of("x-request-id"), x->id);
    pal_exchange_each_header(x, copy_header, &headers);
    pal_buf_init(&url, SIZE_MAX);
    pal_buf_append_text(&url, address);
    pal_buf_append_str(&url, x->path);
    if (query.len)
        pal_buf_append_char(&url, '?');
    pal_buf_append_str(&url, query);
    /* The listener leaves out the body of a response to HEAD. */
    bool is_head = pal_str_is(call->method, "HEAD");
    p->request = (pal_http_request){.method = is_head ? "GET" : call->route->method,
            .url = pal_arena_copy(call->arena, pal_buf_str(&url)),
            .headers = headers.items,
            .headers_len = headers.len,
            .body = pal_buf_str(&x->body),
            .connect_ms = CONNECT_MS,
            .idle_ms = -1};
    pal_status status = url.failure;
    pal_buf_done(&url);
    return status == PAL_OK ? pal_arena_checked(call->arena, err) : pal_no_memory(err);
}

/* ---- The loop ---- */

/* A function that runs on the loop while the caller waits. */
typedef struct errand {
    pal_task task;
    pal_passes *passes;
    void (*run)(pal_passes *passes);
    bool is_done;
} errand;

static void run_errand(pal_task *task)
{
    errand *e = (errand *)task;
    e->run(e->passes);
    pthread_mutex_lock(&e->passes->lock);
    e->is_done = true;
    pthread_cond_broadcast(&e->passes->changed);
    pthread_mutex_unlock(&e->passes->lock);
}

/* The lock must be held. */
static void on_loop(pal_passes *passes, void (*run)(pal_passes *passes))
{
    errand e = {.task.run = run_errand, .passes = passes, .run = run};
    pal_loop_post(passes->loop, &e.task);
    while (!e.is_done)
        pthread_cond_wait(&passes->changed, &passes->lock);
}

static void open_http(pal_passes *passes)
{
    pal_error err;
    if (pal_http_open(passes->loop, NULL, &passes->http, &err) != PAL_OK)
        passes->http = NULL;
}

/* Streams are not counted: their clients continue them at another node. */
static void count_awaited(pal_passes *passes)
{
    passes->awaited = 0;
    for (pass *p = passes->first; p; p = p->next)
        passes->awaited += !p->is_stream;
}

static void leave_all(pal_passes *passes)
{
    for (pass *p = passes->first; p; p = p->next)
        leave(p);
}

static void close_http(pal_passes *passes)
{
    pal_http_close(passes->http);
}

/* Starts the loop with the first request. */
static bool is_open(pal_passes *passes)
{
    pal_error err;
    pthread_mutex_lock(&passes->lock);
    if (!passes->loop && !passes->is_ending && pal_loop_open(1, &passes->loop, &err) == PAL_OK) {
        on_loop(passes, open_http);
        passes->is_started = true;
        pthread_cond_broadcast(&passes->changed);
    }
    /* Another thread may be starting it: on_loop() releases the lock. */
    while (passes->loop && !passes->is_started)
        pthread_cond_wait(&passes->changed, &passes->lock);
    bool is_ready = passes->http != NULL && !passes->is_ending;
    passes->passed += is_ready;
    pthread_mutex_unlock(&passes->lock);
    return is_ready;
}

pal_status pal_pass_open(pal_store *store, pal_passes **out_passes, pal_error *err)
{
    uint8_t secret[PAL_SECRET_SIZE], token[PAL_SHA256_SIZE];
    pal_passes *passes = pal_calloc(1, sizeof *passes);
    if (!passes)
        return pal_no_memory(err);
    pthread_mutex_init(&passes->lock, NULL);
    pthread_cond_init(&passes->changed, NULL);
    *out_passes = passes;
    pal_status status = pal_secret_get(store, secret, err);
    if (status != PAL_OK)
        return status;
    if (pal_hmac_sha256(pal_str_make((const char *)secret, sizeof secret), pal_str_of("node"),
                token) != PAL_OK)
        return pal_no_memory(err);
    pal_hex(token, sizeof token, passes->token);
    return PAL_OK;
}

void pal_pass_end(pal_passes *passes)
{
    if (!passes)
        return;
    const struct timespec pause = {.tv_nsec = END_PAUSE_MS * 1000000};
    pthread_mutex_lock(&passes->lock);
    for (int waited_ms = 0; passes->loop && waited_ms < END_MS; waited_ms += END_PAUSE_MS) {
        on_loop(passes, count_awaited);
        /* A request may have been posted to the loop before it counted, so it counts twice. */
        if (passes->awaited == 0 && passes->is_ending)
            break;
        passes->is_ending = passes->awaited == 0;
        pthread_mutex_unlock(&passes->lock);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&passes->lock);
    }
    passes->is_ending = true;
    if (passes->loop)
        on_loop(passes, leave_all);
    pthread_mutex_unlock(&passes->lock);
}

void pal_pass_close(pal_passes *passes)
{
    if (!passes)
        return;
    if (passes->loop) {
        pthread_mutex_lock(&passes->lock);
        on_loop(passes, close_http);
        pthread_mutex_unlock(&passes->lock);
        pal_loop_close(passes->loop);
    }
    pthread_cond_destroy(&passes->changed);
    pthread_mutex_destroy(&passes->lock);
    pal_free(passes);
}

uint64_t pal_pass_count(pal_passes *passes)
{
    if (!passes)
        return 0;
    pthread_mutex_lock(&passes->lock);
    uint64_t passed = passes->passed;
    pthread_mutex_unlock(&passes->lock);
    return passed;
}

/* ---- Which requests ---- */

bool pal_pass_is_from_node(const pal_call *call)
{
    pal_str token = call->exchange->headers.pass_token;
    const pal_passes *passes = call->server->passes;
    unsigned char different = 0;
    if (!passes || token.len != TOKEN_SIZE - 1)
        return false;
    for (size_t i = 0; i < token.len; i++)
        different |= (unsigned char)(token.data[i] ^ passes->token[i]);
    return !different;
}

static bool can_pass(const pal_call *call)
{
    return call->server->passes && !call->is_passed && !call->is_kept &&
            !call->exchange->carried && call->exchange->headers.upgrade.len == 0;
}

/* Returns false if there is no memory. */
static bool pass_to(pal_call *call, const char *address)
{
    pal_error err;
    pass *p = is_open(call->server->passes) ? pal_calloc(1, sizeof *p) : NULL;
    if (!p)
        return false;
    p->passes = call->server->passes;
    p->call = call;
    if (make_request(p, address, &err) != PAL_OK) {
        pal_free(p);
        return false;
    }
    pthread_mutex_init(&p->lock, NULL);
    pal_buf_init(&p->body, PAL_SERVER_ANSWER_BYTES_MAX);
    p->holders = 1; /* the loop */
    p->start.run = on_start;
    p->leave.run = on_leave;
    pal_loop_post(p->passes->loop, &p->start);
    return true;
}

/* Returns the slot in the path. 0: there is none. */
static uint16_t slot_of(const pal_call *call)
{
    pal_id turn;
    return call->route->flags & PAL_API_AT_TURN && pal_id_from_text(call->params[0], &turn)
            ? pal_turn_slot(turn)
            : 0;
}

bool pal_pass_is_own_turn(const pal_call *call)
{
    uint16_t slot = slot_of(call);
    return slot && slot == pal_nodes_slot(call->server->nodes);
}

bool pal_pass_request(pal_call *call)
{
    char address[PAL_NODE_ADDRESS_SIZE];
    pal_nodes *nodes = call->server->nodes;
    uint16_t slot = slot_of(call);
    if (!can_pass(call) || pal_pass_is_own_turn(call) || call->route->role == PAL_KEY_NONE)
        return false;
    if (slot && pal_nodes_find(nodes, slot, (pal_str){0}, address))
        return pass_to(call, address);
    return atomic_load(&call->server->is_draining) && pal_nodes_find_any(nodes, address) &&
            pass_to(call, address);
}

bool pal_pass_to_holder(pal_call *call, pal_id turn, pal_id session)
{
    char address[PAL_NODE_ADDRESS_SIZE];
    pal_nodes *nodes = call->server->nodes;
    pal_lease lease = {0};
    uint16_t slot = pal_turn_slot(turn);
    if (!can_pass(call) || (slot && slot == pal_nodes_slot(nodes)))
        return false;
    if (slot && pal_nodes_find(nodes, slot, (pal_str){0}, address))
        return pass_to(call, address);
    /* The node that started the turn is gone, or is new. Another one may have continued it. */
    pal_nodes_refresh(nodes);
    if (slot && pal_nodes_find(nodes, slot, (pal_str){0}, address))
        return pass_to(call, address);
    if (pal_store_lease_find(call->server->store, call->caller.tenant, session, call->arena,
                &lease, NULL) != PAL_OK)
        return false;
    return pal_nodes_find(nodes, 0, lease.owner, address) && pass_to(call, address);
}

bool pal_pass_to_home(pal_call *call, pal_id session)
{
    char address[PAL_NODE_ADDRESS_SIZE];
    return can_pass(call) && pal_nodes_find_home(call->server->nodes, session, address) &&
            pass_to(call, address);
}

pal_id pal_pass_id_here(const pal_call *call, uint32_t n)
{
    char address[PAL_NODE_ADDRESS_SIZE];
    pal_id id = pal_call_derived_id(call, n);
    for (unsigned i = 0; i < ID_TRIES_MAX && call->idempotency_key.len == 0 &&
            pal_nodes_find_home(call->server->nodes, id, address);
            i++)
        id = pal_id_new();
    return id;
}

bool pal_pass_turn(pal_call *call, const pal_turn_info *info)
{
    return info->is_elsewhere && info->state < PAL_TURN_DONE &&
            pal_pass_to_holder(call, info->turn, info->session);
}
