/* matrix_send.c - sends one message of the host. Its id is the transaction id, so a message that is
 * sent again is the same event: the homeserver remembers ids of a device for a day. For older ones
 * pal_matrix_send_find() looks for the marker in the room.
 *
 * Nothing is ever sent into an encrypted room in plain text. A room that is not known yet is asked
 * for its state before. */
#include <stdio.h>
#include "base/clock.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/text.h"
#include "channel/matrix/matrix.h"
#include "channel/matrix/matrix_content.h"
#include "channel/matrix/matrix_url.h"

#define CONTENT_BYTES_MAX (1u << 20)
#define SENT_MAX 4096u /* ids of our events that are kept; then all are forgotten */
#define FIND_PAGES_MAX 10u
#define LOGIN_RETRY_MS 2000
#define QUOTA_RETRY_MS 60000
#define TYPING_MS 30000
#define TYPING_AGAIN_MS 20000
#define TYPING_ROOMS_MAX 100u

typedef struct sending {
    pal_matrix *matrix;
    const pal_outgoing *message;
    pal_outgoing_on_sent on_sent;
    void *user;
    pal_timer timer; /* reports a result that is known at once */
    pal_outgoing_end end;
    char *url;       /* MEDIA: its URL after the upload */
    unsigned pages;  /* find: pages that were read */
} sending;

/* ---- Our own events ---- */

bool pal_matrix_sent_has(const pal_matrix *matrix, pal_str event)
{
    return pal_map_find(&matrix->sent, event) != NULL;
}

void pal_matrix_sent_free(pal_matrix *matrix)
{
    size_t position = 0;
    pal_str key;
    void *value;

    while (pal_map_next(&matrix->sent, &position, &key, &value))
        pal_free(value);
    pal_map_done(&matrix->sent);
}

static void keep_sent(pal_matrix *matrix, pal_str event)
{
    if (!event.len || pal_matrix_sent_has(matrix, event))
        return;
    if (matrix->sent.len >= SENT_MAX)
        pal_matrix_sent_free(matrix);
    char *copy = pal_malloc(event.len + 1);
    if (!copy)
        return; /* the homeserver can be asked for the event */
    memcpy(copy, event.data, event.len);
    copy[event.len] = '\0';
    if (pal_map_set(&matrix->sent, pal_str_make(copy, event.len), copy) != PAL_OK)
        pal_free(copy);
}

/* ---- Results ---- */

static void end_sending(sending *s)
{
    pal_matrix *matrix = s->matrix;

    pal_loop_timer_stop(matrix->loop, &s->timer);
    if (!matrix->is_closing)
        s->on_sent(&s->end, s->user);
    pal_free(s->url);
    pal_free(s);
}

static void on_end_timer(pal_timer *timer)
{
    end_sending((sending *)((char *)timer - offsetof(sending, timer)));
}

/* Reports a result without a response. The host is never called back from its own call. */
static void end_later(sending *s, pal_status status, int64_t retry_ms, const char *reason)
{
    s->end = (pal_outgoing_end){.status = status, .retry_ms = retry_ms};
    snprintf(s->end.reason, sizeof s->end.reason, "%s", reason);
    if (!pal_loop_timer_start(s->matrix->loop, &s->timer, 0, on_end_timer))
        end_sending(s);
}

/* Translates a response that is not a success. */
static void read_failure(sending *s, const pal_matrix_reply *reply)
{
    pal_matrix *matrix = s->matrix;
    pal_outgoing_end *end = &s->end;

    pal_matrix_reply_describe(reply, end->reason, sizeof end->reason);
    end->sent = reply->status == PAL_OK || reply->sent;
    if (reply->status != PAL_OK) {
        end->status = PAL_IO;
        return;
    }
    switch (reply->failure.fault) {
    case PAL_MATRIX_FAULT_RATE:
        end->status = PAL_BUSY;
        end->retry_ms = reply->failure.retry_ms;
        matrix->limited_until = pal_clock_monotonic_ms() + end->retry_ms;
        break;
    case PAL_MATRIX_FAULT_TOKEN:
        end->status = matrix->settings->token.len ? PAL_CANCELED : PAL_BUSY;
        end->retry_ms = LOGIN_RETRY_MS;
        break;
    case PAL_MATRIX_FAULT_ACCOUNT:
        end->status = PAL_BUSY;
        end->retry_ms = QUOTA_RETRY_MS;
        break;
    case PAL_MATRIX_FAULT_FORBIDDEN:
    case PAL_MATRIX_FAULT_MISSING:
        end->status = PAL_DENIED;
        break;
    case PAL_MATRIX_FAULT_LARGE:
        end->status = PAL_LIMIT;
        break;
    case PAL_MATRIX_FAULT_REQUEST:
        end->status = PAL_INVALID;
        break;
    default:
        end->status = PAL_IO;
        break;
    }
}

static bool is_success(const pal_matrix_reply *reply)
{
    return reply->status == PAL_OK &&
            (!reply->failure.fault || reply->failure.fault == PAL_MATRIX_FAULT_DUPLICATE);
}

/* Keeps the id of the new event, which the host gets with the result. */
static void keep_id(sending *s, pal_arena *arena, const pal_matrix_reply *reply)
{
    s->end.id = arena ? pal_matrix_answer_text(reply->body, "event_id", arena) : (pal_str){0};
    keep_sent(s->matrix, s->end.id);
}

/* ---- Sending ---- */

static void on_put(pal_matrix *matrix, const pal_matrix_reply *reply, void *user)
{
    sending *s = user;
    pal_arena *arena = pal_arena_new(0);

    s->end = (pal_outgoing_end){0};
    if (is_success(reply))
        keep_id(s, arena, reply);
    else
        read_failure(s, reply);
    end_sending(s);
    pal_arena_free(arena);
}

static void write_message(const sending *s, pal_buf *out)
{
    const pal_outgoing *o = s->message;
    pal_matrix_message message = {.text = o->text, .html = o->html, .marker = o->id};

    switch (o->kind) {
    case PAL_OUTGOING_NOTICE:
        message.type = PAL_MATRIX_NOTICE;
        break;
    case PAL_OUTGOING_EDIT:
        message.edits = o->target;
        break;
    case PAL_OUTGOING_MEDIA:
        message.type = pal_text_begins(o->media_type, "image/") ? PAL_MATRIX_IMAGE
                : pal_text_begins(o->media_type, "audio/")      ? PAL_MATRIX_AUDIO
                : pal_text_begins(o->media_type, "video/")      ? PAL_MATRIX_VIDEO
                                                                : PAL_MATRIX_FILE;
        message.text = o->name.len ? o->name : pal_str_of("file");
        message.html = (pal_str){0};
        message.url = pal_str_of(s->url);
        message.media_type = o->media_type;
        message.bytes = o->data.len;
        break;
    default:
        break;
    }
    if (o->kind != PAL_OUTGOING_EDIT) {
        message.thread = o->topic;
        message.reply_to = o->reply_to.len ? o->reply_to : o->topic;
        message.is_fallback = o->topic.len > 0;
    }
    pal_matrix_content_message(&message, out);
}

static void put_event(sending *s)
{
    const pal_outgoing *o = s->message;
    pal_matrix *matrix = s->matrix;
    const char *path = "/_matrix/client/v3/rooms/{}/send/{}/{}";
    pal_str texts[] = {o->chat, pal_str_of("m.room.message"), o->id};
    pal_buf content;

    pal_buf_init(&content, CONTENT_BYTES_MAX);
    if (o->kind == PAL_OUTGOING_REACTION) {
        texts[1] = pal_str_of("m.reaction");
        pal_matrix_content_reaction(o->target, o->reaction, o->id, &content);
    } else if (o->kind == PAL_OUTGOING_REDACTION) {
        path = "/_matrix/client/v3/rooms/{}/redact/{}/{}";
        texts[1] = o->target;
        pal_matrix_content_redaction((pal_str){0}, o->id, &content);
    } else {
        write_message(s, &content);
    }
    if (content.failure)
        end_later(s, PAL_LIMIT, 0, "the message is too long");
    else
        pal_matrix_call_path(
                matrix, "PUT", path, texts, 3, pal_buf_str(&content), on_put, s);
    pal_buf_done(&content);
}

static void on_uploaded(pal_matrix *matrix, const pal_matrix_reply *reply, void *user)
{
    sending *s = user;
    pal_arena *arena = pal_arena_new(0);
    pal_str url = {0};

    if (arena && is_success(reply))
        url = pal_matrix_answer_text(reply->body, "content_uri", arena);
    s->url = url.len ? pal_malloc(url.len + 1) : NULL;
    if (s->url) {
        memcpy(s->url, url.data, url.len);
        s->url[url.len] = '\0';
        put_event(s);
    } else {
        s->end = (pal_outgoing_end){0};
        read_failure(s, reply);
        if (s->end.status == PAL_OK)
            s->end.status = PAL_IO;
        s->end.sent = false; /* an upload is not an event */
        end_sending(s);
    }
    pal_arena_free(arena);
}

static void upload(sending *s)
{
    pal_buf url;

    pal_buf_init(&url, PAL_MATRIX_URL_LEN_MAX);
    pal_matrix_url_write(&url, s->matrix->settings->url, "/_matrix/media/v3/upload", NULL, 0);
    if (s->message->name.len)
        pal_matrix_url_add(&url, "filename", s->message->name);
    pal_matrix_request request = {.method = "POST", .url = pal_buf_str(&url),
            .body = s->message->data,
            .content_type = s->message->media_type.len ? s->message->media_type
                                                       : pal_str_of("application/octet-stream")};
    pal_matrix_call(s->matrix, &request, on_uploaded, s);
    pal_buf_done(&url);
}

/* The room is known now. */
static void send_known(pal_matrix *matrix, pal_status status, void *user)
{
    sending *s = user;
    const pal_matrix_room *room = pal_matrix_room_find(matrix, s->message->chat);

    if (matrix->is_closing || status != PAL_OK || !room)
        end_later(s, status == PAL_OK ? PAL_IO : status, 0, "the state of the room is not known");
    else if (room->is_encrypted)
        end_later(s, PAL_DENIED, 0, "the room is encrypted");
    else if (s->message->kind == PAL_OUTGOING_MEDIA)
        upload(s);
    else
        put_event(s);
}

/* Calls `go_on` when it is known whether the room is encrypted. */
static void with_room(sending *s, pal_matrix_on_known go_on)
{
    pal_matrix *matrix = s->matrix;
    pal_matrix_room *room = pal_matrix_room_get(matrix, s->message->chat);
    int64_t wait = matrix->limited_until - pal_clock_monotonic_ms();

    if (!room)
        end_later(s, PAL_NO_MEMORY, 0, "out of memory");
    else if (!matrix->is_logged_in)
        end_later(s, PAL_BUSY, LOGIN_RETRY_MS, "the account is not logged in");
    else if (wait > 0)
        end_later(s, PAL_BUSY, wait, "the homeserver limits the rate");
    else if (room->is_known)
        go_on(matrix, PAL_OK, s);
    else
        pal_matrix_room_ask(matrix, room, go_on, s);
}

static sending *begin(pal_channel *channel, const pal_outgoing *message,
        pal_outgoing_on_sent on_sent, void *user)
{
    sending *s = pal_calloc(1, sizeof *s);

    if (!s) {
        pal_outgoing_end end = {.status = PAL_NO_MEMORY, .reason = "out of memory"};
        on_sent(&end, user);
        return NULL;
    }
    s->matrix = pal_matrix_of(channel);
    s->message = message;
    s->on_sent = on_sent;
    s->user = user;
    return s;
}

void pal_matrix_send(pal_channel *channel, const pal_outgoing *message,
        pal_outgoing_on_sent on_sent, void *user)
{
    sending *s = begin(channel, message, on_sent, user);
    if (s)
        with_room(s, send_known);
}

/* ---- Finding ---- */

static void ask_own(sending *s, pal_str from);

static void on_own(pal_matrix *matrix, const pal_matrix_reply *reply, void *user)
{
    sending *s = user;
    pal_arena *arena = pal_arena_new(0);
    pal_matrix_page page = {0};

    s->end = (pal_outgoing_end){.status = PAL_NOT_FOUND};
    if (!is_success(reply)) {
        read_failure(s, reply);
    } else if (!arena || pal_matrix_page_read(reply->body, arena, &page, NULL) != PAL_OK) {
        s->end.status = PAL_IO;
    } else {
        for (size_t i = 0; i < page.events_len && s->end.status == PAL_NOT_FOUND; i++) {
            if (!pal_str_equal(page.events[i].marker, s->message->id))
                continue;
            s->end.status = PAL_OK;
            s->end.id = page.events[i].id;
            keep_sent(matrix, s->end.id);
        }
    }
    if (s->end.status == PAL_NOT_FOUND && page.end.len && ++s->pages < FIND_PAGES_MAX &&
            !matrix->is_closing)
        ask_own(s, page.end);
    else
        end_sending(s);
    pal_arena_free(arena);
}

/* Reads our own events backwards. */
static void ask_own(sending *s, pal_str from)
{
    pal_matrix *matrix = s->matrix;
    pal_buf url, filter;

    pal_buf_init(&url, PAL_MATRIX_URL_LEN_MAX);
    pal_buf_init(&filter, PAL_MATRIX_URL_LEN_MAX);
    pal_json_writer json = pal_json_writer_make(&filter);
    pal_json_begin_object(&json);
    pal_json_name(&json, "senders");
    pal_json_begin_array(&json);
    pal_json_put_str(&json, matrix->login.user);
    pal_json_end_array(&json);
    pal_json_end_object(&json);
    pal_matrix_url_write(&url, matrix->settings->url, "/_matrix/client/v3/rooms/{}/messages",
            &s->message->chat, 1);
    pal_matrix_url_add(&url, "dir", pal_str_of("b"));
    pal_matrix_url_add(&url, "limit", pal_str_of("100"));
    if (from.len)
        pal_matrix_url_add(&url, "from", from);
    pal_matrix_url_add(&url, "filter", pal_buf_str(&filter));
    pal_matrix_request request = {.method = "GET", .url = pal_buf_str(&url)};
    pal_matrix_call(matrix, &request, on_own, s);
    pal_buf_done(&filter);
    pal_buf_done(&url);
}

static void find_known(pal_matrix *matrix, pal_status status, void *user)
{
    sending *s = user;

    if (matrix->is_closing || status != PAL_OK)
        end_later(s, status == PAL_OK ? PAL_IO : status, 0, "the state of the room is not known");
    else
        ask_own(s, (pal_str){0});
}

void pal_matrix_send_find(pal_channel *channel, const pal_outgoing *message,
        pal_outgoing_on_sent on_sent, void *user)
{
    sending *s = begin(channel, message, on_sent, user);
    if (s)
        with_room(s, find_known);
}

/* ---- Typing ---- */

static void on_typed(pal_matrix *matrix, const pal_matrix_reply *reply, void *user)
{
}

static void put_typing(pal_matrix *matrix, const pal_matrix_room *room, bool is_on)
{
    pal_str texts[] = {pal_str_of(room->id), matrix->login.user};
    char body[64];

    snprintf(body, sizeof body, is_on ? "{\"typing\":true,\"timeout\":%d}" : "{\"typing\":false}",
            TYPING_MS);
    pal_matrix_call_path(matrix, "PUT", "/_matrix/client/v3/rooms/{}/typing/{}", texts, 2,
            pal_str_of(body), on_typed, NULL);
}

/* Tells the homeserver again, before it forgets. */
static void on_typing_timer(pal_timer *timer)
{
    pal_matrix *matrix = (pal_matrix *)((char *)timer - offsetof(pal_matrix, typing_timer));
    size_t position = 0, count = 0;
    pal_str key;
    void *value;

    while (pal_map_next(&matrix->rooms, &position, &key, &value)) {
        pal_matrix_room *room = value;
        if (room->typing_at && count < TYPING_ROOMS_MAX) {
            count++;
            put_typing(matrix, room, true);
        }
    }
    if (count && !pal_loop_timer_start(
                         matrix->loop, &matrix->typing_timer, TYPING_AGAIN_MS, on_typing_timer))
        return; /* it stops by itself */
}

void pal_matrix_send_typing(pal_channel *channel, pal_str chat, pal_str topic, bool is_on)
{
    pal_matrix *matrix = pal_matrix_of(channel);
    pal_matrix_room *room = pal_matrix_room_find(matrix, chat);

    if (!room || !matrix->is_logged_in || room->is_encrypted || is_on == (room->typing_at != 0))
        return;
    room->typing_at = is_on ? pal_clock_monotonic_ms() : 0;
    put_typing(matrix, room, is_on);
    if (is_on && !matrix->typing_timer.position &&
            !pal_loop_timer_start(
                    matrix->loop, &matrix->typing_timer, TYPING_AGAIN_MS, on_typing_timer))
        return;
}
