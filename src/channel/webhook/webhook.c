/* webhook.c - the channel "webhook". A bridge posts events, each request in one commit. Answers are
 * posted to the bridge's URL; without a URL, the bridge gets them with a request that waits, and
 * confirms each of them. */
#include "channel/webhook/webhook.h"

#include <stdarg.h>
#include <stdio.h>
#include "base/clock.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/text.h"
#include "channel/channel_limits.h"

#define HOOKS_MAX 256     /* requests with events that wait for the one before them */
#define WAITERS_MAX 16    /* requests that wait for answers */
#define WAIT_S_MAX 60
#define SEND_MS 30000     /* how long the bridge may take to accept an answer */
#define RESPONSE_BYTES_MAX 65536

typedef struct webhook webhook;

/* A message that is being sent. */
typedef struct sending {
    webhook *w;
    struct sending *next;
    const pal_outgoing *message;
    pal_outgoing_on_sent on_sent;
    void *user;
    pal_http_call *call; /* NULL: the bridge gets it */
    long code;
    int64_t retry_ms;
    pal_buf response;
} sending;

/* A request of the bridge that is not answered yet. */
typedef struct asking {
    pal_timer timer;
    webhook *w;
    struct asking *next;
    pal_channel_hook *hook;
} asking;

struct webhook {
    pal_channel channel; /* first */
    const pal_channel_settings *settings;
    pal_channel_account *account;
    pal_arena *arena;
    pal_str key;
    sending *sends, **sends_end; /* in order */
    asking *batches; /* requests with events; the first one is being stored */
    size_t batches_len;
    pal_arena *batch; /* the events of the first one */
    bool is_taking;
    asking *waiters;
    size_t waiters_len;
};

static webhook *of(pal_channel *channel)
{
    return (webhook *)channel;
}

/* ---- Responses to the bridge ---- */

static void respond(pal_channel_hook *hook, unsigned code, const char *format, ...)
        PAL_PRINTF(3, 4);

static void respond(pal_channel_hook *hook, unsigned code, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pal_buf buf;
    pal_buf_init(&buf, 4096);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_text(&writer, code < 300 ? "status" : "error", text);
    pal_json_end_object(&writer);
    hook->answer(hook, code, buf.failure ? pal_str_of("{}") : pal_buf_str(&buf));
    pal_buf_done(&buf);
}

/* ---- Events ---- */

static void take_next(webhook *w);

static void batch_done(webhook *w, unsigned code, const char *text)
{
    asking *first = w->batches;

    w->batches = first->next;
    w->batches_len--;
    w->is_taking = false;
    pal_arena_reset(w->batch);
    respond(first->hook, code, "%s", text);
    pal_free(first);
}

/* Hands the events of the first request over. */
static void take_next(webhook *w)
{
    while (w->batches && !w->is_taking) {
        pal_incoming *events = NULL;
        size_t len = 0;
        pal_error err = {PAL_OK, ""};
        pal_status status =
                pal_webhook_events(w->batches->hook->body, w->batch, &events, &len, &err);
        if (status == PAL_OK && len > 0) {
            w->is_taking = true;
            pal_channel_take(w->account, events, len, (pal_str){0});
        } else if (status == PAL_OK) {
            batch_done(w, 200, "there were no events");
        } else {
            batch_done(w, status == PAL_NO_MEMORY ? 503 : 400, err.message);
        }
    }
}

static void webhook_taken(pal_channel *channel, pal_status status)
{
    webhook *w = of(channel);

    if (!w->is_taking)
        return;
    if (status == PAL_OK)
        batch_done(w, 200, "stored");
    else
        batch_done(w, 503, "the events could not be stored; send them again");
    take_next(w);
}

static void ask_events(webhook *w, pal_channel_hook *hook)
{
    asking *a = w->batches_len < HOOKS_MAX ? pal_calloc(1, sizeof *a) : NULL;
    asking **end = &w->batches;

    if (!a) {
        respond(hook, 503, "too many requests wait; send it again later");
        return;
    }
    a->w = w;
    a->hook = hook;
    while (*end)
        end = &(*end)->next;
    *end = a;
    w->batches_len++;
    take_next(w);
}

/* ---- Answers ---- */

static const char *kind_name(pal_outgoing_kind kind)
{
    return kind == PAL_OUTGOING_NOTICE ? "notice" : "text";
}

static void put_message(pal_json_writer *writer, const pal_outgoing *m)
{
    pal_json_begin_object(writer);
    pal_put_str(writer, "id", m->id);
    pal_put_text(writer, "kind", kind_name(m->kind));
    pal_put_str(writer, "chat", m->chat);
    pal_put_str_if(writer, "topic", m->topic);
    pal_put_str_if(writer, "reply_to", m->reply_to);
    pal_put_str_if(writer, "sender", m->sender);
    if (m->direct)
        pal_put_flag(writer, "direct", true);
    pal_put_str(writer, "text", m->text);
    pal_json_end_object(writer);
}

static void finish(sending *s, const pal_outgoing_end *end)
{
    webhook *w = s->w;
    sending **at = &w->sends;
    pal_outgoing_on_sent on_sent = s->on_sent;
    void *user = s->user;

    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    if (w->sends_end == &s->next)
        w->sends_end = at;
    pal_buf_done(&s->response);
    pal_free(s);
    on_sent(end, user);
}

/* ---- Answers that the bridge gets ---- */

static void waiter_end(asking *a)
{
    webhook *w = a->w;
    asking **at = &w->waiters;
    pal_buf buf;
    size_t len = 0;

    while (*at != a)
        at = &(*at)->next;
    *at = a->next;
    w->waiters_len--;
    pal_loop_timer_stop(pal_channel_loop(w->account), &a->timer);
    pal_buf_init(&buf, PAL_CHANNEL_REQUEST_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_json_name(&writer, "messages");
    pal_json_begin_array(&writer);
    for (sending *s = w->sends; s && len < 100; s = s->next, len++)
        put_message(&writer, s->message);
    pal_json_end_array(&writer);
    pal_json_end_object(&writer);
    if (buf.failure)
        respond(a->hook, 503, "out of memory");
    else
        a->hook->answer(a->hook, 200, pal_buf_str(&buf));
    pal_buf_done(&buf);
    pal_free(a);
}

static void waited(pal_timer *timer)
{
    waiter_end((asking *)timer);
}

/* Reads "wait=30". */
static int64_t wait_ms(pal_str query)
{
    int64_t seconds = 0;

    if (!pal_text_begins(query, "wait="))
        return 0;
    for (size_t i = 5; i < query.len && i < 8 && query.data[i] >= '0' && query.data[i] <= '9'; i++)
        seconds = seconds * 10 + (query.data[i] - '0');
    return (seconds < WAIT_S_MAX ? seconds : WAIT_S_MAX) * 1000;
}

static void ask_messages(webhook *w, pal_channel_hook *hook)
{
    asking *a = w->waiters_len < WAITERS_MAX ? pal_calloc(1, sizeof *a) : NULL;

    if (!a) {
        respond(hook, 503, "too many requests wait for messages");
        return;
    }
    a->w = w;
    a->hook = hook;
    a->next = w->waiters;
    w->waiters = a;
    w->waiters_len++;
    int64_t ms = w->sends ? 0 : wait_ms(hook->query);
    if (ms == 0 || !pal_loop_timer_start(pal_channel_loop(w->account), &a->timer, ms, waited))
        waiter_end(a);
}

/* POST outbox/ID/ack, with {"id": ...} or {"error": ...}. */
static void ask_ack(webhook *w, pal_channel_hook *hook, pal_str id)
{
    pal_arena *arena = pal_arena_new(0);
    pal_json body = {0};
    pal_outgoing_end end = {.status = PAL_OK};
    sending *s = w->sends;

    while (s && !pal_str_equal(s->message->id, id))
        s = s->next;
    if (!arena ||
            (hook->body.len > 0 &&
                    pal_json_parse(arena, hook->body, NULL, &body, NULL) != PAL_OK)) {
        respond(hook, 400, "the body must be a JSON object");
    } else {
        pal_str error = pal_json_string(pal_json_find(body, "error"), arena);
        end.id = pal_json_string(pal_json_find(body, "id"), arena);
        if (error.len > 0) {
            end.status = PAL_DENIED;
            snprintf(end.reason, sizeof end.reason, "%.*s", PAL_EXCERPT(error, 200));
        }
        /* A message that is gone was confirmed before. */
        if (s)
            finish(s, &end);
        respond(hook, 200, "confirmed");
    }
    pal_arena_free(arena);
}

/* ---- Answers that are posted ---- */

static void on_head(void *user, const pal_http_head *head)
{
    sending *s = user;

    s->code = head->code;
    for (size_t i = 0; i < head->headers_len; i++) {
        if (!pal_str_is(head->headers[i].name, "retry-after"))
            continue;
        pal_str value = head->headers[i].value;
        int64_t seconds = 0;
        for (size_t j = 0; j < value.len && j < 6 && value.data[j] >= '0' && value.data[j] <= '9';
                j++)
            seconds = seconds * 10 + (value.data[j] - '0');
        s->retry_ms = seconds * 1000;
    }
}

static void on_body(void *user, pal_str bytes)
{
    pal_buf_append_str(&((sending *)user)->response, bytes);
}

/* Returns the meaning of a response of the bridge. */
static pal_status status_of(long code)
{
    if (code >= 200 && code < 300)
        return PAL_OK;
    if (code == 429 || code == 503)
        return PAL_BUSY;
    if (code == 413)
        return PAL_LIMIT;
    if (code == 403 || code == 404 || code == 410)
        return PAL_DENIED;
    if (code == 400 || code == 422)
        return PAL_INVALID;
    return PAL_IO;
}

static void on_end(void *user, const pal_http_end *end)
{
    sending *s = user;
    pal_arena *arena = pal_arena_new(0);
    pal_outgoing_end result = {.status = end->status, .sent = end->sent};
    pal_json body;

    s->call = NULL;
    if (end->status == PAL_OK) {
        result.status = status_of(end->code);
        result.sent = true;
        result.retry_ms = s->retry_ms;
        snprintf(result.reason, sizeof result.reason, "the bridge answered with HTTP %ld",
                end->code);
        if (arena && pal_json_parse(arena, pal_buf_str(&s->response), NULL, &body, NULL) == PAL_OK)
            result.id = pal_json_string(pal_json_find(body, "id"), arena);
    } else {
        snprintf(result.reason, sizeof result.reason, "%s", end->error);
    }
    finish(s, &result);
    pal_arena_free(arena);
}

static pal_status post(webhook *w, sending *s)
{
    static const pal_http_events events = {.head = on_head, .body = on_body, .end = on_end};
    char signature[PAL_WEBHOOK_SIGNATURE_SIZE], seconds[24];
    int64_t now = pal_clock_now_ms() / 1000;
    pal_buf body;
    pal_status status;

    pal_buf_init(&body, PAL_CHANNEL_REQUEST_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&body);
    put_message(&writer, s->message);
    snprintf(seconds, sizeof seconds, "%lld", (long long)now);
    status = body.failure ? body.failure
                          : pal_webhook_sign(w->key, s->message->id, now, pal_buf_str(&body),
                                    signature, NULL);
    const pal_header headers[] = {
            {pal_str_of("content-type"), pal_str_of("application/json")},
            {pal_str_of("webhook-id"), s->message->id},
            {pal_str_of("webhook-timestamp"), pal_str_of(seconds)},
            {pal_str_of("webhook-signature"), pal_str_of(signature)},
    };
    pal_http_request request = {.method = "POST",
            .url = w->settings->url,
            .headers = headers,
            .headers_len = sizeof headers / sizeof *headers,
            .body = pal_buf_str(&body),
            .total_ms = SEND_MS,
            .response_bytes_max = RESPONSE_BYTES_MAX};
    if (status == PAL_OK)
        status = pal_http_start(
                pal_channel_http(w->account), &request, &events, s, &s->call, NULL);
    pal_buf_done(&body);
    return status;
}

static void webhook_send(pal_channel *channel, const pal_outgoing *message,
        pal_outgoing_on_sent on_sent, void *user)
{
    webhook *w = of(channel);
    sending *s = pal_calloc(1, sizeof *s);
    pal_outgoing_end failed = {.status = PAL_NO_MEMORY, .reason = "out of memory"};

    if (!s) {
        on_sent(&failed, user);
        return;
    }
    *s = (sending){.w = w, .message = message, .on_sent = on_sent, .user = user};
    pal_buf_init(&s->response, RESPONSE_BYTES_MAX);
    *w->sends_end = s;
    w->sends_end = &s->next;
    if (w->settings->url.len > 0) {
        if (post(w, s) != PAL_OK)
            finish(s, &failed);
    } else {
        while (w->waiters)
            waiter_end(w->waiters);
    }
}

/* ---- The channel ---- */

static void webhook_hook(pal_channel *channel, pal_channel_hook *hook)
{
    webhook *w = of(channel);
    pal_error err;
    pal_str path = hook->path;
    bool is_post = pal_str_is(hook->method, "POST");

    if (pal_webhook_check(w->key, hook, pal_clock_now_ms(), &err) != PAL_OK) {
        respond(hook, 401, "%s", err.message);
    } else if (is_post && pal_str_is(path, "events")) {
        ask_events(w, hook);
    } else if (pal_str_is(hook->method, "GET") && pal_str_is(path, "outbox")) {
        ask_messages(w, hook);
    } else if (is_post && pal_text_begins(path, "outbox/") && pal_text_ends(path, "/ack") &&
            path.len > 11) {
        ask_ack(w, hook, pal_str_make(path.data + 7, path.len - 11));
    } else {
        respond(hook, 404,
                "there is only POST events, GET outbox and POST outbox/ID/ack in this channel");
    }
}

static void webhook_start(pal_channel *channel, pal_str cursor)
{
    (void)cursor; /* the bridge knows what it has delivered */
    pal_channel_ready(of(channel)->account);
}

static void webhook_close(pal_channel *channel)
{
    webhook *w = of(channel);

    while (w->batches) {
        w->is_taking = false;
        batch_done(w, 503, "the server stops; send the events again");
    }
    while (w->waiters)
        waiter_end(w->waiters);
    while (w->sends) {
        sending *s = w->sends;
        w->sends = s->next;
        if (s->call)
            pal_http_cancel(s->call);
        pal_buf_done(&s->response);
        pal_free(s);
    }
    pal_arena_free(w->batch);
    pal_arena_free(w->arena);
    pal_free(w);
}

static pal_status webhook_open(const pal_channel_settings *settings, pal_channel_account *account,
        pal_channel **out_channel, pal_error *err)
{
    webhook *w = pal_calloc(1, sizeof *w);
    pal_status status = PAL_NO_MEMORY;

    if (!w)
        return pal_no_memory(err);
    w->settings = settings;
    w->account = account;
    w->sends_end = &w->sends;
    w->arena = pal_arena_new(0);
    w->batch = pal_arena_new(0);
    if (!w->arena || !w->batch) {
        (void)pal_no_memory(err);
    } else if (settings->secret.len == 0) {
        status = pal_error_set(err, PAL_INVALID, "there is no secret; set 'secret_env'");
    } else if (settings->url.len > 0 && !pal_text_is_http_url(settings->url)) {
        status = pal_error_set(err, PAL_INVALID, "'url' must begin with http:// or https://");
    } else {
        status = pal_webhook_key(settings->secret, w->arena, &w->key, err);
    }
    if (status == PAL_OK)
        *out_channel = &w->channel;
    else
        webhook_close(&w->channel);
    return status;
}

const pal_channel_kind pal_channel_webhook = {
        .name = "webhook",
        .can = PAL_CHANNEL_CAN_ONCE | PAL_CHANNEL_CAN_THREAD,
        .command_sign = '!',
        .piece_bytes_max = 32768,
        .open = webhook_open,
        .start = webhook_start,
        .taken = webhook_taken,
        .send = webhook_send,
        .hook = webhook_hook,
        .close = webhook_close,
};
