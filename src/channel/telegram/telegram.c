/* telegram.c - a bot on Telegram. An update is confirmed when a later call asks for what comes
 * after it, so it is asked for only when the updates before it are stored.
 *
 * Telegram does not recognize a message that is sent twice. If a request may have arrived and its
 * response is lost, the message is not sent again; the host sees to that. */
#include "channel/telegram/telegram.h"

#include <stdio.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/text.h"

#define POLL_S 50             /* how long Telegram waits for updates */
#define POLL_MS (POLL_S * 1000 + 20000)
#define SEND_MS 30000
#define TAKEN_OVER_MS 15000   /* another program polls, or a webhook is set */
#define TYPING_MS 4500        /* Telegram shows it for 5 s */
#define TYPING_MS_MAX 120000
#define TYPING_MAX 32
#define REQUEST_BYTES_MAX (1u << 20)

typedef struct typing {
    char chat[32], topic[32];
    int64_t until_ms;
} typing;

typedef struct telegram {
    pal_channel channel; /* first */
    const pal_channel_settings *settings;
    pal_channel_account *account;
    pal_telegram_calls calls;
    pal_telegram_me me;
    int64_t offset;
    pal_arena *batch; /* the events that are being stored */
    int64_t next;     /* the offset after them */
    struct sending *sends;
    typing typings[TYPING_MAX];
    size_t typings_len;
    pal_timer typing_timer;
} telegram;

typedef struct sending {
    telegram *t;
    struct sending *next;
    const pal_outgoing *message;
    pal_outgoing_on_sent on_sent;
    void *user;
    int64_t chat; /* 0: that of the message; otherwise where the group has moved to */
} sending;

static telegram *of(pal_channel *channel)
{
    return (telegram *)channel;
}

/* ---- Receiving ---- */

static void poll(telegram *t);

static void poll_failed(telegram *t, const pal_telegram_result *result)
{
    pal_status status = result->status == PAL_DENIED ? PAL_DENIED : PAL_IO;
    int64_t retry_ms = result->code == 409 ? TAKEN_OVER_MS : result->retry_ms;

    pal_channel_failed(t->account, status, retry_ms,
            status == PAL_DENIED ? "Telegram does not accept the token" : result->reason);
}

static void on_updates(const pal_telegram_result *result, void *user)
{
    telegram *t = user;
    pal_incoming *events = NULL;
    size_t len = 0;
    char cursor[32];
    pal_error err = {PAL_OK, ""};

    if (result->status != PAL_OK) {
        poll_failed(t, result);
        return;
    }
    /* The texts of the events must stay until they are stored. */
    pal_arena_reset(t->batch);
    pal_str raw = pal_arena_copy(t->batch, pal_json_raw(result->result));
    pal_json updates;
    pal_status status = pal_json_parse(t->batch, raw, NULL, &updates, &err);
    if (status == PAL_OK)
        status = pal_telegram_updates(updates, &t->me, t->batch, &events, &len, &t->next, &err);
    if (status != PAL_OK) {
        pal_channel_failed(t->account, PAL_IO, 0, err.message);
        return;
    }
    pal_channel_ready(t->account);
    if (t->next == 0) {
        poll(t);
        return;
    }
    snprintf(cursor, sizeof cursor, "%lld", (long long)t->next);
    pal_channel_take(t->account, events, len, pal_arena_copy(t->batch, pal_str_of(cursor)));
}

static void poll(telegram *t)
{
    char json[256];

    snprintf(json, sizeof json,
            "{\"offset\":%lld,\"timeout\":%d,\"limit\":100,\"allowed_updates\":[\"message\","
            "\"edited_message\",\"my_chat_member\"]}",
            (long long)t->offset, POLL_S);
    pal_telegram_call(&t->calls, "getUpdates", pal_str_of(json), POLL_MS, false, on_updates,
            t);
}

static void telegram_taken(pal_channel *channel, pal_status status)
{
    telegram *t = of(channel);

    if (status != PAL_OK)
        return; /* start() follows */
    t->offset = t->next;
    poll(t);
}

static void on_me(const pal_telegram_result *result, void *user)
{
    telegram *t = user;
    pal_str name;

    if (result->status != PAL_OK ||
            !pal_json_i64(pal_json_find(result->result, "id"), &t->me.id)) {
        poll_failed(t, result);
        return;
    }
    name = pal_json_string(pal_json_find(result->result, "username"), result->arena);
    snprintf(t->me.name, sizeof t->me.name, "%.*s", PAL_EXCERPT(name, sizeof t->me.name - 1));
    poll(t);
}

static void telegram_start(pal_channel *channel, pal_str cursor)
{
    telegram *t = of(channel);
    char text[32];

    snprintf(text, sizeof text, "%.*s", PAL_EXCERPT(cursor, sizeof text - 1));
    t->offset = strtoll(text, NULL, 10);
    if (t->me.id == 0)
        pal_telegram_call(&t->calls, "getMe", pal_str_of("{}"), SEND_MS, false, on_me, t);
    else
        poll(t);
}

/* ---- Sending ---- */

/* The number of the message in "CHAT:MESSAGE"; 0: it is none. */
static int64_t message_number(pal_str event)
{
    char text[64];
    const char *colon;

    snprintf(text, sizeof text, "%.*s", PAL_EXCERPT(event, sizeof text - 1));
    colon = strchr(text, ':');
    return colon ? strtoll(colon + 1, NULL, 10) : 0;
}

static void put_number(pal_json_writer *writer, const char *name, pal_str digits)
{
    char text[32];
    snprintf(text, sizeof text, "%.*s", PAL_EXCERPT(digits, sizeof text - 1));
    pal_put_number(writer, name, strtoll(text, NULL, 10));
}

static void put_message(pal_json_writer *writer, const sending *s, pal_arena *arena)
{
    const pal_outgoing *m = s->message;

    pal_json_begin_object(writer);
    if (s->chat != 0)
        pal_put_number(writer, "chat_id", s->chat);
    else
        put_number(writer, "chat_id", m->chat);
    if (m->topic.len > 0)
        put_number(writer, "message_thread_id", m->topic);
    if (message_number(m->reply_to) > 0) {
        pal_json_name(writer, "reply_parameters");
        pal_json_begin_object(writer);
        pal_put_number(writer, "message_id", message_number(m->reply_to));
        pal_put_flag(writer, "allow_sending_without_reply", true);
        pal_json_end_object(writer);
    }
    pal_telegram_put_text(writer, m->text, m->is_plain, arena);
    pal_json_end_object(writer);
}

static void finish(sending *s, const pal_outgoing_end *end)
{
    struct sending **at = &s->t->sends;
    pal_outgoing_on_sent on_sent = s->on_sent;
    void *user = s->user;

    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    pal_free(s);
    on_sent(end, user);
}

/* Errors that no other text would avoid. */
static bool is_about_chat(const pal_telegram_result *result)
{
    static const char *const reasons[] = {"chat not found", "blocked", "kicked", "deactivated",
            "rights", "TOPIC_", "CHAT_", "not a member"};

    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (strstr(result->reason, reasons[i]))
            return true;
    return result->code == 403;
}

static void post(sending *s);

static void on_message(const pal_telegram_result *result, void *user)
{
    sending *s = user;
    pal_outgoing_end end = {.status = result->status, .sent = result->sent,
            .retry_ms = result->retry_ms};
    char id[96];
    int64_t message = 0, chat = 0;

    if (result->moved_to != 0 && s->chat == 0) {
        s->chat = result->moved_to;
        post(s);
        return;
    }
    snprintf(end.reason, sizeof end.reason, "%s", result->reason);
    if (result->status == PAL_OK &&
            pal_json_i64(pal_json_find(result->result, "message_id"), &message) &&
            pal_json_i64(pal_json_find(pal_json_find(result->result, "chat"), "id"), &chat)) {
        snprintf(id, sizeof id, "%lld:%lld", (long long)chat, (long long)message);
        end.id = pal_str_of(id);
    } else if (result->status == PAL_INVALID) {
        end.status = is_about_chat(result) ? PAL_DENIED
                : strstr(result->reason, "too long") ? PAL_LIMIT
                                                     : PAL_INVALID;
    } else if (result->status == PAL_DENIED) {
        end.status = PAL_CANCELED;
        pal_channel_failed(s->t->account, PAL_DENIED, 0, "Telegram does not accept the token");
    } else if (result->status == PAL_IO && result->code >= 500) {
        end.sent = false; /* Telegram says that it did not send the message */
    }
    finish(s, &end);
}

static void post(sending *s)
{
    pal_arena *arena = pal_arena_new(0);
    pal_buf body;

    pal_buf_init(&body, REQUEST_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&body);
    if (arena)
        put_message(&writer, s, arena);
    if (!arena || body.failure) {
        pal_outgoing_end failed = {.status = PAL_NO_MEMORY, .reason = "out of memory"};
        finish(s, &failed);
    } else {
        pal_telegram_call(
                &s->t->calls, "sendMessage", pal_buf_str(&body), SEND_MS, true, on_message, s);
    }
    pal_buf_done(&body);
    pal_arena_free(arena);
}

static void telegram_send(pal_channel *channel, const pal_outgoing *message,
        pal_outgoing_on_sent on_sent, void *user)
{
    telegram *t = of(channel);
    sending *s = pal_calloc(1, sizeof *s);
    pal_outgoing_end failed = {.status = PAL_NO_MEMORY, .reason = "out of memory"};

    if (!s) {
        on_sent(&failed, user);
        return;
    }
    *s = (sending){
            .t = t, .next = t->sends, .message = message, .on_sent = on_sent, .user = user};
    t->sends = s;
    post(s);
}

/* ---- Typing ---- */

static void on_action(const pal_telegram_result *result, void *user)
{
    (void)result; /* it is only a courtesy */
    (void)user;
}

static void show_typing(telegram *t, const typing *shown)
{
    pal_buf body;

    pal_buf_init(&body, 1024);
    pal_json_writer writer = pal_json_writer_make(&body);
    pal_json_begin_object(&writer);
    put_number(&writer, "chat_id", pal_str_of(shown->chat));
    if (shown->topic[0])
        put_number(&writer, "message_thread_id", pal_str_of(shown->topic));
    pal_put_text(&writer, "action", "typing");
    pal_json_end_object(&writer);
    pal_telegram_call(
            &t->calls, "sendChatAction", pal_buf_str(&body), SEND_MS, false, on_action, NULL);
    pal_buf_done(&body);
}

static void type_again(pal_timer *timer)
{
    telegram *t = (telegram *)((char *)timer - offsetof(telegram, typing_timer));
    int64_t now = pal_clock_monotonic_ms();
    size_t kept = 0;

    for (size_t i = 0; i < t->typings_len; i++) {
        if (t->typings[i].until_ms <= now)
            continue;
        t->typings[kept] = t->typings[i];
        show_typing(t, &t->typings[kept++]);
    }
    t->typings_len = kept;
    if (kept > 0 && !pal_loop_timer_start(
                            pal_channel_loop(t->account), timer, TYPING_MS, type_again))
        t->typings_len = 0;
}

static void telegram_typing(pal_channel *channel, pal_str chat, pal_str topic, bool is_on)
{
    telegram *t = of(channel);
    typing wanted = {.until_ms = pal_clock_monotonic_ms() + TYPING_MS_MAX};
    size_t i = 0;

    snprintf(wanted.chat, sizeof wanted.chat, "%.*s", PAL_EXCERPT(chat, sizeof wanted.chat - 1));
    snprintf(wanted.topic, sizeof wanted.topic, "%.*s",
            PAL_EXCERPT(topic, sizeof wanted.topic - 1));
    while (i < t->typings_len && (strcmp(t->typings[i].chat, wanted.chat) != 0 ||
                                         strcmp(t->typings[i].topic, wanted.topic) != 0))
        i++;
    if (!is_on) {
        if (i < t->typings_len)
            t->typings[i] = t->typings[--t->typings_len];
        return;
    }
    if (i == TYPING_MAX)
        return;
    t->typings[i] = wanted;
    if (i == t->typings_len)
        t->typings_len++;
    show_typing(t, &wanted);
    if (t->typing_timer.position == 0 &&
            !pal_loop_timer_start(
                    pal_channel_loop(t->account), &t->typing_timer, TYPING_MS, type_again))
        t->typings_len = 0;
}

/* ---- The channel ---- */

static void telegram_close(pal_channel *channel)
{
    telegram *t = of(channel);

    pal_telegram_cancel(&t->calls);
    if (t->typing_timer.position != 0)
        pal_loop_timer_stop(pal_channel_loop(t->account), &t->typing_timer);
    while (t->sends) {
        sending *s = t->sends;
        t->sends = s->next;
        pal_free(s);
    }
    pal_arena_free(t->batch);
    pal_free(t);
}

/* "123456:AAH..." is part of an address, so it must have no other characters. */
static bool is_token(pal_str token)
{
    for (size_t i = 0; i < token.len; i++) {
        char c = token.data[i], lower = (char)(c | 0x20);
        if (!(lower >= 'a' && lower <= 'z') && !(c >= '0' && c <= '9') && !memchr(":_-", c, 3))
            return false;
    }
    return token.len >= 8 && token.len <= 256 && memchr(token.data, ':', token.len);
}

static pal_status telegram_open(const pal_channel_settings *settings,
        pal_channel_account *account, pal_channel **out_channel, pal_error *err)
{
    telegram *t;

    if (settings->token.len == 0)
        return pal_error_set(err, PAL_INVALID,
                "there is no token; set 'token_env' to the variable with the token of @BotFather");
    if (!is_token(settings->token))
        return pal_error_set(err, PAL_INVALID, "the token must look like 123456:ABC-DEF");
    t = pal_calloc(1, sizeof *t);
    if (!t)
        return pal_no_memory(err);
    t->settings = settings;
    t->account = account;
    t->calls = (pal_telegram_calls){.settings = settings, .account = account};
    t->batch = pal_arena_new(0);
    if (!t->batch) {
        pal_free(t);
        return pal_no_memory(err);
    }
    *out_channel = &t->channel;
    return PAL_OK;
}

const pal_channel_kind pal_channel_telegram = {
        .name = "telegram",
        .can = PAL_CHANNEL_CAN_THREAD | PAL_CHANNEL_CAN_TYPE,
        .command_sign = '/',
        .piece_bytes_max = 16000,
        .piece_units_max = 3800,
        .open = telegram_open,
        .start = telegram_start,
        .taken = telegram_taken,
        .send = telegram_send,
        .typing = telegram_typing,
        .close = telegram_close,
};
