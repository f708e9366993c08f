/* webhook_event.c - reads events from JSON. Every member of pal_incoming has its name here. */
#include "channel/webhook/webhook.h"

#include <stddef.h>
#include "base/clock.h"
#include "base/json/json.h"
#include "base/text.h"
#include "channel/channel_limits.h"
#include "dialect/dialect_base64.h"

#define MEDIA_MAX 20
#define ID_LEN_MAX 512

typedef struct text_row {
    const char *name;
    size_t offset;
    size_t len_max;
} text_row;

#define AT(member) offsetof(pal_incoming, member)

static const text_row texts[] = {
        {"id", AT(id), ID_LEN_MAX},
        {"target", AT(target), ID_LEN_MAX},
        {"chat", AT(chat), 256},
        {"chat_name", AT(chat_name), 1024},
        {"space", AT(space), 256},
        {"space_type", AT(space_type), 64},
        {"topic", AT(topic), ID_LEN_MAX},
        {"sender", AT(sender), ID_LEN_MAX},
        {"sender_name", AT(sender_name), 1024},
        {"reply_to", AT(reply_to), ID_LEN_MAX},
        {"text", AT(text), PAL_CHANNEL_REQUEST_BYTES_MAX},
        {"key", AT(key), 128},
};

static const text_row flags[] = {
        {"direct", AT(direct), 0},
        {"mentions_me", AT(mentions_me), 0},
        {"mentions_other", AT(mentions_other), 0},
        {"mentions_all", AT(mentions_all), 0},
        {"replies_to_me", AT(replies_to_me), 0},
        {"is_notice", AT(is_notice), 0},
        {"is_bot", AT(is_bot), 0},
        {"is_backlog", AT(is_backlog), 0},
};

static const char *const kinds[] = {"", "message", "edit", "redaction", "reaction", "invite",
        "joined", "left", "chat", "upgrade"};

typedef struct reader {
    pal_arena *arena;
    size_t index;
    pal_error *err;
} reader;

static pal_status wrong(const reader *r, const char *name, const char *wanted)
{
    return pal_error_set(
            r->err, PAL_INVALID, "'events[%zu].%s' must be %s", r->index, name, wanted);
}

/* ---- Media ---- */

static pal_status read_media(reader *r, pal_json list, pal_incoming *event)
{
    pal_incoming_media *media;
    pal_json value;
    size_t len = 0;

    if (pal_json_is_absent(list))
        return PAL_OK;
    if (pal_json_type_of(list) != PAL_JSON_ARRAY || pal_json_count(list) > MEDIA_MAX)
        return wrong(r, "media", "an array with at most 20 elements");
    media = pal_arena_array(r->arena, pal_json_count(list) + 1, sizeof *media);
    for (pal_json_iter i = pal_json_each(list); media && pal_json_next(&i, NULL, &value); len++) {
        pal_str data = pal_json_string(pal_json_find(value, "data"), r->arena);
        media[len].media_type = pal_json_string(pal_json_find(value, "media_type"), r->arena);
        media[len].name = pal_json_string(pal_json_find(value, "name"), r->arena);
        if (data.len > 0 && !pal_base64_decode(data, r->arena, &media[len].data))
            return wrong(r, "media", "objects with 'data' in base64");
        media[len].bytes = media[len].data.len;
    }
    event->media = media;
    event->media_len = len;
    return pal_arena_failure(r->arena);
}

/* ---- One event ---- */

static bool is_known(pal_json name)
{
    static const char *const others[] = {"kind", "sent_at", "media"};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (pal_json_string_is(name, texts[i].name))
            return true;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (pal_json_string_is(name, flags[i].name))
            return true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (pal_json_string_is(name, others[i]))
            return true;
    return false;
}

static pal_status read_names(reader *r, pal_json object)
{
    pal_json name, value;

    for (pal_json_iter i = pal_json_each(object); pal_json_next(&i, &name, &value);) {
        if (is_known(name))
            continue;
        pal_str text = pal_json_string(name, r->arena);
        return pal_error_set(r->err, PAL_INVALID, "'events[%zu]' has an unknown member '%.*s'",
                r->index, PAL_EXCERPT(text, 60));
    }
    return PAL_OK;
}

static pal_status read_kind(reader *r, pal_json value, pal_incoming *event)
{
    event->kind = PAL_INCOMING_MESSAGE;
    if (pal_json_is_absent(value))
        return PAL_OK;
    for (size_t i = 1; i < sizeof kinds / sizeof *kinds; i++) {
        if (pal_json_string_is(value, kinds[i])) {
            event->kind = (pal_incoming_kind)i;
            return PAL_OK;
        }
    }
    return wrong(r, "kind",
            "message, edit, redaction, reaction, invite, joined, left, chat or upgrade");
}

static pal_status read_texts(reader *r, pal_json object, pal_incoming *event)
{
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        pal_json value = pal_json_find(object, texts[i].name);
        pal_str *field = (pal_str *)(void *)((char *)event + texts[i].offset);
        if (pal_json_is_absent(value))
            continue;
        if (pal_json_type_of(value) != PAL_JSON_STRING)
            return wrong(r, texts[i].name, "a text");
        *field = pal_json_string(value, r->arena);
        if (field->len > texts[i].len_max)
            return pal_error_set(r->err, PAL_LIMIT, "'events[%zu].%s' has more than %zu bytes",
                    r->index, texts[i].name, texts[i].len_max);
    }
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        pal_json value = pal_json_find(object, flags[i].name);
        bool *field = (bool *)((char *)event + flags[i].offset);
        if (!pal_json_is_absent(value) && !pal_json_bool(value, field))
            return wrong(r, flags[i].name, "true or false");
    }
    return PAL_OK;
}

static pal_status read_time(reader *r, pal_json value, pal_incoming *event)
{
    pal_str text;

    if (pal_json_is_absent(value) || pal_json_i64(value, &event->sent_at))
        return PAL_OK;
    text = pal_json_string(value, r->arena);
    return pal_time_from_text(text, &event->sent_at)
            ? PAL_OK
            : wrong(r, "sent_at", "a time in RFC 3339, or milliseconds since 1970");
}

static pal_status check_needed(reader *r, const pal_incoming *event)
{
    bool has_target = event->kind == PAL_INCOMING_EDIT || event->kind == PAL_INCOMING_REDACTION ||
            event->kind == PAL_INCOMING_REACTION;

    if (event->id.len == 0)
        return wrong(r, "id", "the id of the event, which is not empty");
    if (event->chat.len == 0)
        return wrong(r, "chat", "the id of the chat, which is not empty");
    if (event->sender.len == 0 && event->kind <= PAL_INCOMING_INVITE)
        return wrong(r, "sender", "the id of the person, which is not empty");
    if (has_target && event->target.len == 0)
        return wrong(r, "target", "the id of another event, which is not empty");
    if (pal_text_has_control(event->id) || pal_text_has_control(event->chat) ||
            pal_text_has_control(event->sender) || pal_text_has_control(event->topic))
        return wrong(
                r, "id", "a text without control characters, like 'chat', 'sender' and 'topic'");
    return PAL_OK;
}

static pal_status read_event(reader *r, pal_json object, pal_incoming *event)
{
    pal_status status;

    if (pal_json_type_of(object) != PAL_JSON_OBJECT)
        return pal_error_set(r->err, PAL_INVALID, "'events[%zu]' must be an object", r->index);
    status = read_names(r, object);
    if (status == PAL_OK)
        status = read_kind(r, pal_json_find(object, "kind"), event);
    if (status == PAL_OK)
        status = read_texts(r, object, event);
    if (status == PAL_OK)
        status = read_time(r, pal_json_find(object, "sent_at"), event);
    if (status == PAL_OK)
        status = read_media(r, pal_json_find(object, "media"), event);
    return status == PAL_OK ? check_needed(r, event) : status;
}

pal_status pal_webhook_events(pal_str body, pal_arena *arena, pal_incoming **out_events,
        size_t *out_len, pal_error *err)
{
    pal_json_limits limits = {.bytes_max = PAL_CHANNEL_REQUEST_BYTES_MAX, .depth_max = 16};
    pal_json root, list, value;
    pal_incoming *events;
    reader r = {.arena = arena, .err = err};
    pal_status status = pal_json_parse(arena, body, &limits, &root, err);

    if (status != PAL_OK)
        return status;
    list = pal_json_find(root, "events");
    if (pal_json_type_of(list) != PAL_JSON_ARRAY)
        return pal_error_set(err, PAL_INVALID, "'events' must be an array");
    if (pal_json_count(list) > PAL_CHANNEL_BATCH_MAX)
        return pal_error_set(err, PAL_LIMIT, "'events' has more than %d elements",
                PAL_CHANNEL_BATCH_MAX);
    events = pal_arena_array(arena, pal_json_count(list) + 1, sizeof *events);
    if (!events)
        return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    for (pal_json_iter i = pal_json_each(list); pal_json_next(&i, NULL, &value); r.index++) {
        status = read_event(&r, value, &events[r.index]);
        if (status != PAL_OK)
            return status;
    }
    *out_events = events;
    *out_len = r.index;
    return pal_arena_failure(arena);
}
