/* telegram_update.c - reads updates of the Bot API. Ids of messages are only unique in their chat,
 * so the id of an event is CHAT:MESSAGE. Positions of entities are in UTF-16 units. */
#include "channel/telegram/telegram.h"

#include <stdio.h>
#include "base/memory.h"
#include "base/text.h"

#define ENTITIES_MAX 100

typedef struct reader {
    const pal_telegram_me *me;
    pal_arena *arena;
} reader;

static pal_str text_of(reader *r, pal_json object, const char *name)
{
    return pal_json_string(pal_json_find(object, name), r->arena);
}

static int64_t number_of(pal_json object, const char *name)
{
    int64_t number = 0;
    return pal_json_i64(pal_json_find(object, name), &number) ? number : 0;
}

static pal_str id_text(reader *r, int64_t id)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)id);
    return pal_arena_copy(r->arena, pal_str_of(text));
}

static pal_str event_id(reader *r, int64_t chat, int64_t message, int64_t edited)
{
    char text[96];
    if (edited > 0)
        snprintf(text, sizeof text, "%lld:%lld:%lld", (long long)chat, (long long)message,
                (long long)edited);
    else
        snprintf(text, sizeof text, "%lld:%lld", (long long)chat, (long long)message);
    return pal_arena_copy(r->arena, pal_str_of(text));
}

/* ---- Mentions ---- */

/* Returns how many bytes the first `units` UTF-16 units have. */
static size_t bytes_of(pal_str text, int64_t units)
{
    size_t at = 0;

    while (at < text.len && units > 0) {
        unsigned char c = (unsigned char)text.data[at];
        units -= c >= 0xf0 ? 2 : 1;
        at++;
        while (at < text.len && ((unsigned char)text.data[at] & 0xc0) == 0x80)
            at++;
    }
    return at;
}

static bool is_me(const reader *r, pal_str name)
{
    return name.len > 1 && name.data[0] == '@' &&
            pal_text_is_nocase(pal_text_after(name, 1), r->me->name);
}

/* Cuts a piece out of the text of the event. */
static void cut(reader *r, pal_incoming *event, size_t from, size_t len)
{
    char *made = pal_arena_alloc(r->arena, event->text.len);

    if (!made)
        return;
    memcpy(made, event->text.data, from);
    memcpy(made + from, event->text.data + from + len, event->text.len - from - len);
    event->text = pal_str_make(made, event->text.len - len);
}

/* Removes what addresses the bot: "@bot" and the end of "/help@bot". */
static void read_entity(reader *r, pal_json entity, pal_incoming *event)
{
    pal_str kind = text_of(r, entity, "type");
    size_t from = bytes_of(event->text, number_of(entity, "offset"));
    size_t end = bytes_of(event->text, number_of(entity, "offset") + number_of(entity, "length"));
    pal_str part = pal_str_make(event->text.data + from, end - from);

    if (pal_str_is(kind, "text_mention")) {
        bool ours = number_of(pal_json_find(entity, "user"), "id") == r->me->id;
        event->mentions_me = event->mentions_me || ours;
        event->mentions_other = event->mentions_other || !ours;
    } else if (pal_str_is(kind, "mention")) {
        bool ours = is_me(r, part);
        event->mentions_me = event->mentions_me || ours;
        event->mentions_other = event->mentions_other || !ours;
        if (ours)
            cut(r, event, from, part.len);
    } else if (pal_str_is(kind, "bot_command")) {
        const char *at = part.len ? memchr(part.data, '@', part.len) : NULL;
        if (!at)
            return;
        size_t command = (size_t)(at - part.data);
        bool ours = is_me(r, pal_text_after(part, command));
        event->mentions_me = event->mentions_me || ours;
        event->mentions_other = event->mentions_other || !ours;
        if (ours)
            cut(r, event, from + command, part.len - command);
    }
}

/* From the last to the first, so that the positions stay right. */
static void read_entities(reader *r, pal_json list, pal_incoming *event)
{
    pal_json entities[ENTITIES_MAX], value;
    size_t len = 0;

    for (pal_json_iter i = pal_json_each(list);
            len < ENTITIES_MAX && pal_json_next(&i, NULL, &value);)
        entities[len++] = value;
    while (len > 0 && event->text.len > 0)
        read_entity(r, entities[--len], event);
    event->text = pal_text_trim(event->text);
}

/* ---- Messages ---- */

static pal_str person_name(reader *r, pal_json person)
{
    pal_str first = text_of(r, person, "first_name"), last = text_of(r, person, "last_name");
    char *name = pal_arena_alloc(r->arena, first.len + last.len + 1);

    if (!name || last.len == 0)
        return first;
    memcpy(name, first.data ? first.data : "", first.len);
    name[first.len] = ' ';
    memcpy(name + first.len + 1, last.data, last.len);
    return pal_str_make(name, first.len + 1 + last.len);
}

static void read_chat(reader *r, pal_json chat, pal_incoming *event)
{
    event->chat = id_text(r, number_of(chat, "id"));
    event->chat_name = text_of(r, chat, "title");
    event->direct = pal_json_string_is(pal_json_find(chat, "type"), "private");
}

static void read_media(reader *r, pal_json message, pal_incoming *event)
{
    static const char *const kinds[] = {
            "photo", "document", "audio", "video", "voice", "sticker", "animation"};
    pal_incoming_media *media = pal_arena_array(r->arena, 1, sizeof *media);

    for (size_t i = 0; media && i < sizeof kinds / sizeof *kinds; i++) {
        pal_json value = pal_json_find(message, kinds[i]);
        if (pal_json_is_absent(value))
            continue;
        pal_str name = text_of(r, value, "file_name");
        media->media_type =
                pal_str_of(i == 0 || i == 5 ? "image/jpeg" : "application/octet-stream");
        media->name = name.len > 0 ? name : pal_str_of(kinds[i]);
        event->media = media;
        event->media_len = 1;
        return;
    }
}

static bool is_service_message(pal_json message)
{
    static const char *const names[] = {"new_chat_members", "left_chat_member", "new_chat_title",
            "pinned_message", "group_chat_created", "supergroup_chat_created",
            "migrate_to_chat_id", "migrate_from_chat_id", "forum_topic_created",
            "forum_topic_closed", "delete_chat_photo", "new_chat_photo"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!pal_json_is_absent(pal_json_find(message, names[i])))
            return true;
    return false;
}

static bool read_message(reader *r, pal_json message, bool is_edit, pal_incoming *event)
{
    pal_json from = pal_json_find(message, "from"), chat = pal_json_find(message, "chat");
    pal_json answered = pal_json_find(message, "reply_to_message");
    int64_t chat_id = number_of(chat, "id"), id = number_of(message, "message_id");
    bool has_text = !pal_json_is_absent(pal_json_find(message, "text"));

    if (chat_id == 0 || id == 0 || number_of(from, "id") == 0 || is_service_message(message))
        return false;
    event->kind = is_edit ? PAL_INCOMING_EDIT : PAL_INCOMING_MESSAGE;
    event->id = event_id(r, chat_id, id, is_edit ? number_of(message, "edit_date") : 0);
    if (is_edit)
        event->target = event_id(r, chat_id, id, 0);
    read_chat(r, chat, event);
    event->sender = id_text(r, number_of(from, "id"));
    event->sender_name = person_name(r, from);
    pal_json_bool(pal_json_find(from, "is_bot"), &event->is_bot);
    event->sent_at = number_of(message, is_edit ? "edit_date" : "date") * 1000;
    event->text = text_of(r, message, has_text ? "text" : "caption");
    read_entities(r, pal_json_find(message, has_text ? "entities" : "caption_entities"), event);
    bool in_topic = false;
    if (pal_json_bool(pal_json_find(message, "is_topic_message"), &in_topic) && in_topic)
        event->topic = id_text(r, number_of(message, "message_thread_id"));
    /* In a topic, messages "reply" to the message that began it. */
    int64_t answered_id = number_of(answered, "message_id");
    if (answered_id != 0 && !(in_topic && answered_id == number_of(message, "message_thread_id"))) {
        event->reply_to = event_id(r, chat_id, answered_id, 0);
        event->replies_to_me = number_of(pal_json_find(answered, "from"), "id") == r->me->id;
    }
    read_media(r, message, event);
    return event->text.len > 0 || event->media_len > 0;
}

/* The bot was added to a chat, or removed from it. */
static bool read_membership(reader *r, pal_json change, pal_incoming *event)
{
    pal_str status = text_of(r, pal_json_find(change, "new_chat_member"), "status");
    bool is_gone = pal_str_is(status, "left") || pal_str_is(status, "kicked");
    int64_t chat = number_of(pal_json_find(change, "chat"), "id");

    if (chat == 0)
        return false;
    event->kind = is_gone ? PAL_INCOMING_LEFT : PAL_INCOMING_JOINED;
    event->id = event_id(r, chat, 0, number_of(change, "date"));
    read_chat(r, pal_json_find(change, "chat"), event);
    event->sender = id_text(r, number_of(pal_json_find(change, "from"), "id"));
    return true;
}

static bool read_update(reader *r, pal_json update, pal_incoming *event)
{
    pal_json value = pal_json_find(update, "message");

    if (!pal_json_is_absent(value))
        return read_message(r, value, false, event);
    value = pal_json_find(update, "edited_message");
    if (!pal_json_is_absent(value))
        return read_message(r, value, true, event);
    value = pal_json_find(update, "my_chat_member");
    return !pal_json_is_absent(value) && read_membership(r, value, event);
}

pal_status pal_telegram_updates(pal_json result, const pal_telegram_me *me, pal_arena *arena,
        pal_incoming **out_events, size_t *out_len, int64_t *out_next, pal_error *err)
{
    reader r = {.me = me, .arena = arena};
    pal_incoming *events = pal_arena_array(arena, pal_json_count(result) + 1, sizeof *events);
    pal_json update;
    size_t len = 0;

    if (pal_json_type_of(result) != PAL_JSON_ARRAY)
        return pal_error_set(err, PAL_INVALID, "Telegram's updates are not a list");
    *out_next = 0;
    for (pal_json_iter i = pal_json_each(result); events && pal_json_next(&i, NULL, &update);) {
        int64_t id = number_of(update, "update_id");
        if (id >= *out_next)
            *out_next = id + 1;
        events[len] = (pal_incoming){0};
        len += read_update(&r, update, &events[len]);
    }
    *out_events = events;
    *out_len = len;
    return pal_arena_checked(arena, err);
}
