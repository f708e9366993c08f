/* tool_mcp_http.c - a server on the network, by streamable HTTP. Every message is a POST, whose
 * response is one message or a stream of messages. In the old era there is also a session, a GET
 * receives messages that are not answers, and a stream that broke off can be resumed where it
 * ended.
 *
 * If the server requires a token, the exchange waits until there is one (src/tool/oauth), and the
 * request is sent again.
 *
 * An exchange is one of these requests. It ends with its HTTP call, or when its answer is no longer
 * needed. Within one of its own callbacks it is only marked, and freed at the end of the callback.
 * On the loop. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "net/net_sse.h"
#include "tool/mcp/tool_mcp_internal.h"

#define EVENT_ID_LEN_MAX 255
#define LINGER_MS 1000 /* time for a stream to end by itself after its response */
#define PLAIN_MS 30000 /* time limit of messages without a response */
#define PAUSE_MS 1000
#define PAUSE_MS_MAX 60000
#define RESUMES_MAX 20 /* how often the stream of a request is resumed */
#define HEADERS_MAX 9  /* number of headers that the client adds */
#define CHALLENGES_MAX 3 /* how often one request is sent again with another token */
#define CHALLENGE_BYTES_MAX 8192 /* the header WWW-Authenticate */

struct pal_tool_mcp_exchange {
    pal_tool_mcp *mcp;
    pal_tool_mcp_request *request; /* NULL if there is no request, or after its response */
    pal_http_call *http;      /* NULL after the end of the HTTP call */
    pal_tool_mcp_exchange *previous, *next;
    pal_timer timer; /* runs while the exchange lingers, or until it is resumed */
    pal_buf body;
    pal_sse sse;
    long code;
    char event_id[EVENT_ID_LEN_MAX + 1];
    uint32_t resumes; /* number of resumed short streams in a row */
    int64_t started_ms;
    pal_buf message;      /* the body, with OAuth: it may be sent again */
    bool is_get;
    pal_oauth_wait wait;  /* waits for a token */
    uint32_t serial;      /* the token that was sent */
    uint32_t challenges;  /* how often the server has refused the token */
    pal_buf challenge;    /* the header of the last refusal */
    bool is_listener; /* the exchange receives messages that belong to no request */
    bool is_stream;
    bool is_busy; /* one of its callbacks is running */
    bool is_dead;
};

/* ---- Creating and freeing ---- */

static void free_exchange(pal_tool_mcp_exchange *x)
{
    pal_buf_done(&x->body);
    pal_buf_done(&x->message);
    pal_buf_done(&x->challenge);
    pal_sse_done(&x->sse);
    pal_free(x);
}

static void end_exchange(pal_tool_mcp_exchange *x)
{
    if (x->is_dead)
        return;
    if (x->http)
        pal_http_cancel(x->http);
    x->http = NULL;
    pal_oauth_leave(&x->wait);
    pal_loop_timer_stop(x->mcp->loop, &x->timer);
    if (x->request)
        x->request->exchange = NULL;
    x->request = NULL;
    if (x->previous)
        x->previous->next = x->next;
    else
        x->mcp->exchanges = x->next;
    if (x->next)
        x->next->previous = x->previous;
    x->is_dead = true;
    if (!x->is_busy)
        free_exchange(x);
}

static void begin_callback(pal_tool_mcp_exchange *x)
{
    pal_tool_mcp_enter(x->mcp);
    x->is_busy = true;
}

static void end_callback(pal_tool_mcp_exchange *x)
{
    pal_tool_mcp *mcp = x->mcp;
    x->is_busy = false;
    if (x->is_dead)
        free_exchange(x);
    pal_tool_mcp_leave(mcp);
}

static pal_tool_mcp_exchange *new_exchange(pal_tool_mcp *mcp, pal_tool_mcp_request *request)
{
    pal_tool_mcp_exchange *x = pal_calloc(1, sizeof(*x));
    if (!x)
        return NULL;
    x->mcp = mcp;
    x->request = request;
    if (request)
        request->exchange = x;
    pal_buf_init(&x->body, PAL_TOOL_MCP_MESSAGE_BYTES_MAX);
    pal_buf_init(&x->message, PAL_TOOL_MCP_MESSAGE_BYTES_MAX);
    pal_buf_init(&x->challenge, CHALLENGE_BYTES_MAX);
    pal_sse_init(&x->sse, PAL_TOOL_MCP_MESSAGE_BYTES_MAX);
    x->next = mcp->exchanges;
    if (x->next)
        x->next->previous = x;
    mcp->exchanges = x;
    return x;
}

/* ---- Sending ---- */

static void add_header(pal_header *headers, size_t *len, const char *name, pal_str value)
{
    if (value.len)
        headers[(*len)++] = (pal_header){pal_str_of(name), value};
}

/* Returns all headers, allocated from the arena. */
static pal_header *make_headers(
        const pal_tool_mcp_exchange *x, const char *method, pal_arena *arena, size_t *out_len)
{
    bool is_get = strcmp(method, "POST") != 0;
    pal_str proof = {0};
    const pal_tool_mcp *mcp = x->mcp;
    const pal_tool_mcp_request *request = x->request;
    size_t more = request ? request->headers_len : 0, len = 0;
    bool is_new = mcp->era == PAL_TOOL_MCP_ERA_NEW;
    pal_header *headers =
            pal_arena_array(arena, HEADERS_MAX + more + mcp->config.headers_len, sizeof(*headers));
    if (!headers || (mcp->oauth && pal_oauth_prove(mcp->oauth, method, arena, &proof, NULL)))
        return NULL;
    add_header(headers, &len, "Accept",
            pal_str_of(is_get ? "text/event-stream" : "application/json, text/event-stream"));
    if (!is_get)
        add_header(headers, &len, "Content-Type", pal_str_of("application/json"));
    if (request != &mcp->initialize || is_new)
        add_header(headers, &len, "MCP-Protocol-Version", pal_str_of(mcp->version));
    add_header(headers, &len, "Mcp-Session-Id", pal_str_of(mcp->session));
    if (is_get)
        add_header(headers, &len, "Last-Event-ID", pal_str_of(x->event_id));
    if (request && is_new) {
        add_header(headers, &len, "Mcp-Method", pal_str_of(request->method));
        add_header(headers, &len, "Mcp-Name", pal_tool_mcp_header_value(request->name, arena));
    }
    if (mcp->oauth)
        add_header(headers, &len, "Authorization", pal_oauth_header(mcp->oauth));
    add_header(headers, &len, "DPoP", proof);
    for (size_t i = 0; i < more && is_new; i++)
        headers[len++] = request->headers[i];
    for (size_t i = 0; i < mcp->config.headers_len; i++)
        headers[len++] = mcp->config.headers[i];
    *out_len = len;
    return headers;
}

static const pal_http_events exchange_events;

static pal_status send_now(pal_tool_mcp_exchange *x, bool is_get, pal_str body, pal_error *err)
{
    pal_tool_mcp *mcp = x->mcp;
    bool is_plain = !x->is_listener && (!x->request || x->request->is_unanswered);
    bool is_endless = x->is_listener || (x->request && x->request->is_endless);
    pal_arena *arena = pal_arena_new(0);
    pal_status status = PAL_NO_MEMORY;
    pal_http_request http = {
            .method = is_get ? "GET" : "POST",
            .url = mcp->config.url,
            .body = body,
            .idle_ms = -1,
            .total_ms = is_plain ? PLAIN_MS : 0,
            .response_bytes_max = is_endless ? 0 : PAL_TOOL_MCP_STREAM_BYTES_MAX,
    };
    if (arena)
        http.headers = make_headers(x, http.method, arena, &http.headers_len);
    pal_sse_done(&x->sse);
    pal_sse_init(&x->sse, PAL_TOOL_MCP_MESSAGE_BYTES_MAX);
    pal_buf_clear(&x->body);
    pal_buf_clear(&x->challenge);
    x->serial = mcp->oauth ? pal_oauth_serial(mcp->oauth) : 0;
    x->is_stream = false;
    x->code = 0;
    x->started_ms = pal_clock_monotonic_ms();
    if (!http.headers || pal_arena_failure(arena))
        (void)pal_error_set(err, status, "out of memory");
    else
        status = pal_http_start(mcp->client, &http, &exchange_events, x, &x->http, err);
    pal_arena_free(arena);
    return status;
}

static void on_token(pal_oauth_wait *wait, pal_status status, pal_str error);

/* Sends the request, or waits until there is a token. */
static pal_status start_http(pal_tool_mcp_exchange *x, bool is_get, pal_str body, pal_error *err)
{
    pal_oauth *oauth = x->mcp->oauth;
    bool can_wait = x->is_listener || (x->request && !x->request->is_unanswered);
    if (!oauth || !can_wait)
        return send_now(x, is_get, body, err);
    x->is_get = is_get;
    if (body.data != x->message.data) {
        pal_buf_clear(&x->message);
        pal_buf_append_str(&x->message, body);
    }
    x->wait.on_done = on_token;
    if (x->message.failure)
        return pal_error_set(err, x->message.failure, "the message is too long");
    if (pal_oauth_is_ready(oauth))
        return send_now(x, is_get, pal_buf_str(&x->message), err);
    return pal_oauth_prepare(oauth, &x->wait) ? PAL_OK : pal_no_memory(err);
}

static pal_status send_http(
        pal_tool_mcp *mcp, pal_tool_mcp_request *request, pal_str message, pal_error *err)
{
    pal_tool_mcp_exchange *x = new_exchange(mcp, request);
    if (!x)
        return pal_no_memory(err);
    pal_status status = start_http(x, false, message, err);
    if (request && request->is_unanswered)
        x->request = NULL;
    if (status)
        end_exchange(x);
    return status;
}

/* ---- Resuming ---- */

static void on_resume(pal_timer *timer)
{
    pal_tool_mcp_exchange *x =
            (pal_tool_mcp_exchange *)((char *)timer - offsetof(pal_tool_mcp_exchange, timer));
    pal_error err;
    begin_callback(x);
    if (start_http(x, true, (pal_str){0}, &err)) {
        pal_tool_mcp_request *request = x->request;
        end_exchange(x);
        if (request)
            pal_tool_mcp_request_fail(request, err.status, "%s", err.message);
    }
    end_callback(x);
}

/* Returns false if the stream cannot be resumed. */
static bool resume(pal_tool_mcp_exchange *x)
{
    int64_t pause = PAUSE_MS;
    if (x->mcp->era != PAL_TOOL_MCP_ERA_OLD ||
            (!x->is_listener && (x->event_id[0] == '\0' || x->resumes >= RESUMES_MAX)))
        return false;
    if (x->is_listener && pal_clock_monotonic_ms() - x->started_ms > PAUSE_MS_MAX)
        x->resumes = 0;
    for (uint32_t i = 0; i < x->resumes && pause < PAUSE_MS_MAX && x->is_listener; i++)
        pause *= 2;
    if (x->sse.retry_ms >= 0)
        pause = x->sse.retry_ms;
    x->resumes++;
    return pal_loop_timer_start(
            x->mcp->loop, &x->timer, pause < PAUSE_MS_MAX ? pause : PAUSE_MS_MAX, on_resume);
}

static void listen_http(pal_tool_mcp *mcp)
{
    /* There may still be a listener of a lost session. */
    for (pal_tool_mcp_exchange *old = mcp->exchanges, *next; old; old = next) {
        next = old->next;
        if (old->is_listener)
            end_exchange(old);
    }
    pal_tool_mcp_exchange *x = new_exchange(mcp, NULL);
    if (!x)
        return;
    x->is_listener = true;
    if (start_http(x, true, (pal_str){0}, NULL))
        end_exchange(x);
}

/* ---- Receiving ---- */

static void on_linger(pal_timer *timer)
{
    end_exchange((pal_tool_mcp_exchange *)((char *)timer - offsetof(pal_tool_mcp_exchange, timer)));
}

/* If this is called from the exchange's callback, the response was just read. The rest of the
 * stream gets time to end, so that the connection can be reused. */
static void forget_http(pal_tool_mcp_request *request)
{
    pal_tool_mcp_exchange *x = request->exchange;
    if (!x)
        return;
    request->exchange = NULL;
    x->request = NULL;
    if (!x->is_busy || !x->http ||
            !pal_loop_timer_start(x->mcp->loop, &x->timer, LINGER_MS, on_linger))
        end_exchange(x);
}

static void fail_exchange(pal_tool_mcp_exchange *x, pal_status status, const char *why)
{
    pal_tool_mcp_request *request = x->request;
    end_exchange(x);
    if (request)
        pal_tool_mcp_request_fail(request, status, "%s", why);
}

/* ---- Tokens ---- */

/* Ends an exchange that gets no token. */
static void refuse_access(pal_tool_mcp_exchange *x, pal_status status, pal_str error)
{
    pal_tool_mcp_request *request = x->request;
    pal_tool_mcp_answer answer = {.status = PAL_IO, .error = error};
    if (status == PAL_DENIED) {
        answer.status = PAL_PROVIDER;
        answer.http_code = x->code ? x->code : 401;
    }
    end_exchange(x);
    if (request)
        pal_tool_mcp_request_end(request, &answer);
}

static void on_token(pal_oauth_wait *wait, pal_status status, pal_str error)
{
    pal_tool_mcp_exchange *x = (pal_tool_mcp_exchange *)((char *)wait -
            offsetof(pal_tool_mcp_exchange, wait));
    pal_error err;
    begin_callback(x);
    if (status)
        refuse_access(x, status, error);
    else if (send_now(x, x->is_get, pal_buf_str(&x->message), &err))
        refuse_access(x, err.status, pal_str_of(err.message));
    end_callback(x);
}

/* Returns true if the server requires another token. Then the exchange waits for it. */
static bool wait_for_token(pal_tool_mcp_exchange *x, long code)
{
    pal_oauth *oauth = x->mcp->oauth;
    return oauth && (x->request || x->is_listener) && x->challenges++ < CHALLENGES_MAX &&
            pal_oauth_is_challenge(code, pal_buf_str(&x->challenge)) &&
            pal_oauth_challenge(oauth, code, pal_buf_str(&x->challenge), x->serial, &x->wait);
}

/* ---- Responses ---- */

static void take_header(pal_tool_mcp_exchange *x, pal_str name, pal_str value)
{
    pal_tool_mcp *mcp = x->mcp;
    if (mcp->oauth && pal_str_is(name, "www-authenticate")) {
        if (x->challenge.len)
            pal_buf_append_text(&x->challenge, ", ");
        pal_buf_append_str(&x->challenge, value);
    }
    if (mcp->oauth && pal_str_is(name, "dpop-nonce"))
        pal_oauth_take_nonce(mcp->oauth, value);
    if (pal_str_is(name, "content-type"))
        x->is_stream = pal_text_begins_nocase(value, "text/event-stream");
    if (!pal_str_is(name, "mcp-session-id") || x->request != &mcp->initialize ||
            value.len > PAL_TOOL_MCP_SESSION_LEN_MAX)
        return;
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] <= ' ' || value.data[i] > '~')
            return;
    }
    memcpy(mcp->session, value.data, value.len);
    mcp->session[value.len] = '\0';
    mcp->sessions++;
}

static void on_head(void *user, const pal_http_head *head)
{
    pal_tool_mcp_exchange *x = user;
    x->code = head->code;
    for (size_t i = 0; i < head->headers_len; i++)
        take_header(x, head->headers[i].name, head->headers[i].value);
    x->is_stream &= x->code >= 200 && x->code < 300;
    /* From now on the server reports changes. Earlier changes are lost, unless the server keeps
     * them. */
    if (x->is_stream && x->event_id[0] == '\0' && x->mcp->reports_changes &&
            (x->is_listener || x->request == &x->mcp->listening))
        pal_tool_mcp_list_soon(x->mcp);
}

/* The id is kept from one connection to the next. */
static void keep_event_id(pal_tool_mcp_exchange *x)
{
    pal_str id = pal_buf_str(&x->sse.id);
    if (id.len == 0 || id.len > EVENT_ID_LEN_MAX || memchr(id.data, 0, id.len))
        return;
    memcpy(x->event_id, id.data, id.len);
    x->event_id[id.len] = '\0';
}

static void on_body(void *user, pal_str bytes)
{
    pal_tool_mcp_exchange *x = user;
    pal_status status = PAL_OK;
    begin_callback(x);
    if (x->is_stream) {
        pal_sse_event event;
        while (!x->is_dead && pal_sse_next(&x->sse, &bytes, &event)) {
            if (event.data.len)
                (void)pal_tool_mcp_receive(x->mcp, x->request, event.data);
        }
        status = x->sse.failure;
        keep_event_id(x);
    } else {
        pal_buf_append_str(&x->body, bytes);
        status = x->body.failure;
    }
    if (status && !x->is_dead)
        fail_exchange(x, status, "the response exceeds 16 MiB, or there is no memory");
    end_callback(x);
}

/* The server has refused the request with an HTTP code, and maybe with a JSON-RPC error. */
static void refuse(pal_tool_mcp_exchange *x, const pal_http_end *end)
{
    pal_tool_mcp *mcp = x->mcp;
    pal_tool_mcp_request *request = x->request;
    pal_tool_mcp_answer answer = {0};
    pal_json message;
    char text[64 + sizeof end->error];
    snprintf(text, sizeof(text), "the server returned HTTP code %ld%s%s", x->code,
            end->error[0] ? ": " : "", end->error);
    if (!pal_tool_mcp_parse(mcp, pal_buf_str(&x->body), &message) ||
            !pal_tool_mcp_answer_read(mcp, message, &answer) || answer.status != PAL_PROVIDER)
        answer = (pal_tool_mcp_answer){.error = pal_str_of(text)};
    answer.status = PAL_PROVIDER;
    answer.http_code = x->code;
    end_exchange(x);
    pal_tool_mcp_request_end(request, &answer);
}

static void end_listener(pal_tool_mcp_exchange *x, const pal_http_end *end)
{
    pal_tool_mcp *mcp = x->mcp;
    bool is_lost = end->code == 404 && mcp->session[0];
    if ((end->code == 0 || (end->code >= 200 && end->code < 300)) && resume(x))
        return;
    end_exchange(x);
    if (is_lost)
        pal_tool_mcp_session_renew(mcp);
}

static void end_request(pal_tool_mcp_exchange *x, const pal_http_end *end)
{
    pal_tool_mcp_request *request = x->request;
    bool is_good = end->code >= 200 && end->code < 300;
    if (end->code && !is_good) {
        refuse(x, end);
    } else if (is_good && request->is_notification) {
        end_exchange(x);
        pal_tool_mcp_request_end(request, &(pal_tool_mcp_answer){.status = PAL_OK});
    } else if (end->status == PAL_OK && !x->is_stream) {
        (void)pal_tool_mcp_receive(x->mcp, x->request, pal_buf_str(&x->body));
        if (x->request)
            fail_exchange(x, PAL_IO, "the response is not a JSON-RPC message");
    } else if (!resume(x)) {
        fail_exchange(x, end->status ? end->status : PAL_IO,
                end->status ? end->error : "the stream ended before the response");
    }
}

static void on_end(void *user, const pal_http_end *end)
{
    pal_tool_mcp_exchange *x = user;
    x->http = NULL;
    begin_callback(x);
    if (wait_for_token(x, end->code)) {
        end_callback(x);
        return;
    }
    if (x->is_listener)
        end_listener(x, end);
    else if (x->request)
        end_request(x, end);
    if (!x->timer.position || (!x->request && !x->is_listener))
        end_exchange(x);
    end_callback(x);
}

static const pal_http_events exchange_events = {on_head, on_body, on_end};

/* ---- The end ---- */

static void on_ignored_body(void *user, pal_str bytes)
{
    (void)user;
    (void)bytes;
}

static void on_ignored_end(void *user, const pal_http_end *end)
{
    (void)user;
    (void)end;
}

/* The client does not wait for the response. The request is sent if the client lives long
 * enough. */
static void delete_session(pal_tool_mcp *mcp)
{
    static const pal_http_events ignored = {NULL, on_ignored_body, on_ignored_end};
    pal_arena *arena = pal_arena_new(0);
    pal_tool_mcp_exchange plain = {.mcp = mcp};
    pal_http_call *call;
    pal_http_request http = {
            .method = "DELETE",
            .url = mcp->config.url,
            .total_ms = PLAIN_MS,
            .response_bytes_max = PAL_TOOL_MCP_MESSAGE_BYTES_MAX,
    };
    if (arena)
        http.headers = make_headers(&plain, http.method, arena, &http.headers_len);
    if (http.headers)
        (void)!pal_http_start(mcp->client, &http, &ignored, NULL, &call, NULL);
    pal_arena_free(arena);
}

static void close_http(pal_tool_mcp *mcp)
{
    if (mcp->closed && mcp->session[0])
        delete_session(mcp);
    mcp->session[0] = '\0';
    while (mcp->exchanges)
        end_exchange(mcp->exchanges);
}

static pal_status open_http(pal_tool_mcp *mcp, pal_error *err)
{
    (void)err;
    mcp->session[0] = '\0';
    return PAL_OK;
}

const pal_tool_mcp_transport pal_tool_mcp_http = {
        .open = open_http,
        .send = send_http,
        .forget = forget_http,
        .listen = listen_http,
        .close = close_http,
};
