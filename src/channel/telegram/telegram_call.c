/* telegram_call.c - calls a method of the Bot API. The token is part of the address; it is in no
 * message for people. */
#include "channel/telegram/telegram.h"

#include <stdio.h>
#include "base/memory.h"
#include "base/text.h"

#define RESPONSE_BYTES_MAX (16u << 20)
#define URL_LEN_MAX 4096

struct pal_telegram_call {
    struct pal_telegram_call *next;
    pal_telegram_calls *calls;
    pal_http_call *http;
    pal_buf body;
    long code;
    pal_telegram_on_result on_result;
    void *user;
};
typedef struct pal_telegram_call telegram_call;

static void unlink_call(telegram_call *c)
{
    telegram_call **at = &c->calls->first;

    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    pal_buf_done(&c->body);
    pal_free(c);
}

static void on_head(void *user, const pal_http_head *head)
{
    ((telegram_call *)user)->code = head->code;
}

static void on_body(void *user, pal_str bytes)
{
    pal_buf_append_str(&((telegram_call *)user)->body, bytes);
}

static pal_status status_of(long code)
{
    if (code == 429)
        return PAL_BUSY;
    if (code == 401 || code == 404)
        return PAL_DENIED;
    return code >= 400 && code < 500 ? PAL_INVALID : PAL_IO;
}

/* Reads {"ok": true, "result": ...} or {"ok": false, "error_code": ..., "description": ...}. */
static void read_response(telegram_call *c, pal_telegram_result *out)
{
    pal_json root, parameters;
    bool is_ok = false;
    int64_t number = 0;

    if (pal_json_parse(out->arena, pal_buf_str(&c->body), NULL, &root, NULL) != PAL_OK ||
            !pal_json_bool(pal_json_find(root, "ok"), &is_ok)) {
        out->status = PAL_IO;
        snprintf(out->reason, sizeof out->reason, "Telegram answered with HTTP %ld and no JSON",
                c->code);
        return;
    }
    out->result = pal_json_find(root, "result");
    if (is_ok)
        return;
    pal_str text = pal_json_string(pal_json_find(root, "description"), out->arena);
    parameters = pal_json_find(root, "parameters");
    if (pal_json_i64(pal_json_find(root, "error_code"), &number))
        out->code = (long)number;
    if (pal_json_i64(pal_json_find(parameters, "retry_after"), &number))
        out->retry_ms = number * 1000;
    if (!pal_json_i64(pal_json_find(parameters, "migrate_to_chat_id"), &out->moved_to))
        out->moved_to = 0;
    out->status = status_of(out->code ? out->code : c->code);
    snprintf(out->reason, sizeof out->reason, "Telegram: %.*s", PAL_EXCERPT(text, 160));
}

static void on_end(void *user, const pal_http_end *end)
{
    telegram_call *c = user;
    pal_telegram_result result = {.status = end->status, .sent = end->sent};
    pal_telegram_on_result on_result = c->on_result;
    void *caller = c->user;

    c->http = NULL;
    result.arena = pal_arena_new(0);
    if (!result.arena)
        result.status = PAL_NO_MEMORY;
    else if (end->status == PAL_OK)
        read_response(c, &result);
    else
        snprintf(result.reason, sizeof result.reason, "%.190s", end->error);
    /* The result points into the body, so the call is freed afterwards; it may not be canceled. */
    telegram_call **at = &c->calls->first;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    on_result(&result, caller);
    pal_arena_free(result.arena);
    pal_buf_done(&c->body);
    pal_free(c);
}

void pal_telegram_call(pal_telegram_calls *calls, const char *method, pal_str json,
        int64_t total_ms, bool once, pal_telegram_on_result on_result, void *user)
{
    static const pal_http_events events = {.head = on_head, .body = on_body, .end = on_end};
    const pal_header headers[] = {{pal_str_of("content-type"), pal_str_of("application/json")}};
    const pal_channel_settings *s = calls->settings;
    telegram_call *c = pal_calloc(1, sizeof *c);
    pal_telegram_result failed = {.status = PAL_NO_MEMORY, .reason = "out of memory"};
    char url[URL_LEN_MAX];
    int len = snprintf(url, sizeof url, "%.*s/bot%.*s/%s",
            (int)(s->url.len ? s->url.len : strlen("https://api.telegram.org")),
            s->url.len ? s->url.data : "https://api.telegram.org", (int)s->token.len,
            s->token.len ? s->token.data : "", method);

    if (!c || len < 0 || (size_t)len >= sizeof url) {
        pal_free(c);
        on_result(&failed, user);
        return;
    }
    *c = (telegram_call){
            .next = calls->first, .calls = calls, .on_result = on_result, .user = user};
    pal_buf_init(&c->body, RESPONSE_BYTES_MAX);
    calls->first = c;
    pal_http_request request = {.method = "POST",
            .url = pal_str_make(url, (size_t)len),
            .headers = headers,
            .headers_len = 1,
            .body = json,
            .total_ms = total_ms,
            .once = once,
            .response_bytes_max = RESPONSE_BYTES_MAX};
    if (pal_http_start(pal_channel_http(calls->account), &request, &events, c, &c->http, NULL) !=
            PAL_OK) {
        unlink_call(c);
        on_result(&failed, user);
    }
}

void pal_telegram_cancel(pal_telegram_calls *calls)
{
    while (calls->first) {
        if (calls->first->http)
            pal_http_cancel(calls->first->http);
        unlink_call(calls->first);
    }
}
