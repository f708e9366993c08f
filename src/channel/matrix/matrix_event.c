/* matrix_event.c - reads one event of a Matrix room by its type. Members of the wrong type count as
 * missing: the contents of events are written by clients, and servers do not check them. */
#include "base/text.h"
#include "channel/matrix/matrix_event.h"

#define DURATION_MS_MAX INT64_C(31536000000) /* a year */

/* Servers and rooms that would be a surprise in a URL or a log line are refused with the id. */
bool pal_matrix_id_is_valid(pal_str id, char sigil)
{
    if (id.len < 2 || id.len > PAL_MATRIX_ID_LEN_MAX || id.data[0] != sigil)
        return false;
    return !pal_text_has_control(id) && !memchr(id.data, ' ', id.len) && pal_utf8_is_valid(id);
}

pal_str pal_matrix_id_server(pal_str id)
{
    const char *colon = id.len ? memchr(id.data, ':', id.len) : NULL;
    return colon ? pal_text_after(id, (size_t)(colon - id.data) + 1) : (pal_str){0};
}

static pal_str text_of(pal_json object, const char *name, pal_arena *arena)
{
    return pal_json_string(pal_json_find(object, name), arena);
}

static pal_str id_of(pal_json object, const char *name, char sigil, pal_arena *arena)
{
    pal_str id = text_of(object, name, arena);
    return pal_matrix_id_is_valid(id, sigil) ? id : (pal_str){0};
}

/* ---- Messages ---- */

static uint32_t pixels_of(pal_json info, const char *name)
{
    uint64_t number;
    return pal_json_u64(pal_json_find(info, name), &number) && number <= UINT32_MAX
            ? (uint32_t)number
            : 0;
}

static void read_media(pal_json content, pal_arena *arena, pal_matrix_event *event)
{
    pal_matrix_media *media = &event->media;
    pal_json info = pal_json_find(content, "info");
    pal_str file_name = text_of(content, "filename", arena);
    int64_t duration = 0;

    event->has_media = true;
    media->url = text_of(content, "url", arena);
    media->media_type = text_of(info, "mimetype", arena);
    media->width = pixels_of(info, "w");
    media->height = pixels_of(info, "h");
    media->is_voice = !pal_json_is_absent(pal_json_find(content, "org.matrix.msc3245.voice"));
    if (pal_json_i64(pal_json_find(info, "duration"), &duration) && duration > 0 &&
            duration < DURATION_MS_MAX)
        media->duration_ms = duration;
    (void)pal_json_u64(pal_json_find(info, "size"), &media->bytes);
    /* The body is a caption only if there is another name. */
    bool is_caption = file_name.len && !pal_str_equal(file_name, event->text);
    media->name = file_name.len ? file_name : event->text;
    if (!is_caption)
        event->text = event->html = (pal_str){0};
}

static bool is_media(pal_str type)
{
    return pal_str_is(type, "m.image") || pal_str_is(type, "m.file") ||
            pal_str_is(type, "m.audio") || pal_str_is(type, "m.video");
}

/* Reads what a message says. Returns false if it is none, for example a request of a client to
 * verify keys. */
static bool read_body(pal_json content, pal_arena *arena, pal_matrix_event *event)
{
    pal_str type = text_of(content, "msgtype", arena);
    pal_json body = pal_json_find(content, "body");

    if (pal_json_type_of(body) != PAL_JSON_STRING || type.len == 0 ||
            pal_text_begins(type, "m.key."))
        return false;
    event->text = pal_json_string(body, arena);
    if (pal_json_string_is(pal_json_find(content, "format"), "org.matrix.custom.html"))
        event->html = text_of(content, "formatted_body", arena);
    event->is_notice = pal_str_is(type, "m.notice") || pal_str_is(type, "m.server_notice");
    event->is_emote = pal_str_is(type, "m.emote");
    event->mentions = pal_json_find(content, "m.mentions");
    if (is_media(type))
        read_media(content, arena, event);
    return true;
}

static void read_relations(pal_json relates, pal_arena *arena, pal_matrix_event *event)
{
    pal_json reply = pal_json_find(relates, "m.in_reply_to");
    bool is_fallback = false;

    if (pal_json_string_is(pal_json_find(relates, "rel_type"), "m.thread")) {
        event->thread = id_of(relates, "event_id", '$', arena);
        (void)pal_json_bool(pal_json_find(relates, "is_falling_back"), &is_fallback);
    }
    pal_str reply_to = id_of(reply, "event_id", '$', arena);
    if (reply_to.len)
        event->text = pal_matrix_reply_strip(event->text);
    if (!is_fallback)
        event->reply_to = reply_to;
}

static void read_message(pal_json content, pal_arena *arena, pal_matrix_event *event)
{
    pal_json relates = pal_json_find(content, "m.relates_to");

    event->marker = text_of(content, PAL_MATRIX_MARKER, arena);
    if (pal_json_string_is(pal_json_find(relates, "rel_type"), "m.replace")) {
        pal_json new_content = pal_json_find(content, "m.new_content");
        event->target = id_of(relates, "event_id", '$', arena);
        if (!event->target.len || !read_body(new_content, arena, event))
            return;
        event->mentions_new = pal_json_find(content, "m.mentions");
        event->text = pal_matrix_reply_strip(event->text);
        event->kind = PAL_MATRIX_EDIT;
        return;
    }
    if (!read_body(content, arena, event))
        return;
    read_relations(relates, arena, event);
    event->kind = PAL_MATRIX_MESSAGE;
}

/* A sticker is an image without a type of message. */
static void read_sticker(pal_json content, pal_arena *arena, pal_matrix_event *event)
{
    event->marker = text_of(content, PAL_MATRIX_MARKER, arena);
    event->text = text_of(content, "body", arena);
    event->mentions = pal_json_find(content, "m.mentions");
    read_media(content, arena, event);
    read_relations(pal_json_find(content, "m.relates_to"), arena, event);
    event->kind = PAL_MATRIX_MESSAGE;
}

static void read_encrypted(pal_json content, pal_arena *arena, pal_matrix_event *event)
{
    read_relations(pal_json_find(content, "m.relates_to"), arena, event);
    event->kind = PAL_MATRIX_ENCRYPTED;
}

static void read_reaction(pal_json content, pal_arena *arena, pal_matrix_event *event)
{
    pal_json relates = pal_json_find(content, "m.relates_to");

    if (!pal_json_string_is(pal_json_find(relates, "rel_type"), "m.annotation"))
        return;
    event->marker = text_of(content, PAL_MATRIX_MARKER, arena);
    event->target = id_of(relates, "event_id", '$', arena);
    event->key = text_of(relates, "key", arena);
    if (event->target.len && event->key.len)
        event->kind = PAL_MATRIX_REACTION;
}

/* The version of the room decides which of two places names the target. */
static void read_redaction(pal_json json, pal_json content, pal_arena *arena,
        pal_matrix_event *event)
{
    event->target = id_of(json, "redacts", '$', arena);
    if (!event->target.len)
        event->target = id_of(content, "redacts", '$', arena);
    event->text = text_of(content, "reason", arena);
    event->marker = text_of(content, PAL_MATRIX_MARKER, arena);
    if (event->target.len)
        event->kind = PAL_MATRIX_REDACTION;
}

/* ---- State ---- */

static void read_member(pal_json json, pal_json content, pal_arena *arena, pal_matrix_event *event)
{
    pal_json unsigned_data = pal_json_find(json, "unsigned");
    pal_json before = pal_json_find(unsigned_data, "prev_content");

    event->membership = text_of(content, "membership", arena);
    event->membership_before = text_of(before, "membership", arena);
    event->sender_before = id_of(unsigned_data, "prev_sender", '@', arena);
    (void)pal_json_bool(pal_json_find(before, "is_direct"), &event->is_direct_before);
    event->text = text_of(content, "displayname", arena);
    (void)pal_json_bool(pal_json_find(content, "is_direct"), &event->is_direct);
    if (event->membership.len && pal_matrix_id_is_valid(event->state_key, '@'))
        event->kind = PAL_MATRIX_MEMBER;
}

static void read_state(pal_json json, pal_str type, pal_json content, pal_arena *arena,
        pal_matrix_event *event)
{
    if (pal_str_is(type, "m.room.member")) {
        read_member(json, content, arena, event);
        return;
    }
    if (event->state_key.len)
        return; /* the others have one value per room */
    if (pal_str_is(type, "m.room.name")) {
        event->text = text_of(content, "name", arena);
        event->kind = PAL_MATRIX_NAME;
    } else if (pal_str_is(type, "m.room.canonical_alias")) {
        event->text = text_of(content, "alias", arena);
        event->kind = PAL_MATRIX_ALIAS;
    } else if (pal_str_is(type, "m.room.create")) {
        event->text = text_of(content, "type", arena);
        event->kind = PAL_MATRIX_CREATE;
    } else if (pal_str_is(type, "m.room.encryption")) {
        event->kind = PAL_MATRIX_ENCRYPTION;
    } else if (pal_str_is(type, "m.room.tombstone")) {
        event->target = id_of(content, "replacement_room", '!', arena);
        event->text = text_of(content, "body", arena);
        event->kind = PAL_MATRIX_TOMBSTONE;
    }
}

pal_status pal_matrix_event_read(
        pal_json json, pal_arena *arena, pal_matrix_event *out_event, pal_error *err)
{
    pal_matrix_event *event = out_event;
    pal_json content = pal_json_find(json, "content"), state_key = pal_json_find(json, "state_key");
    pal_str type = text_of(json, "type", arena);

    *event = (pal_matrix_event){0};
    event->id = id_of(json, "event_id", '$', arena);
    event->sender = id_of(json, "sender", '@', arena);
    event->our_membership = text_of(pal_json_find(json, "unsigned"), "membership", arena);
    (void)pal_json_i64(pal_json_find(json, "origin_server_ts"), &event->sent_at);
    if (event->sender.len && pal_json_type_of(state_key) == PAL_JSON_STRING) {
        event->state_key = pal_json_string(state_key, arena);
        read_state(json, type, content, arena, event);
    } else if (event->sender.len && event->id.len) {
        if (pal_str_is(type, "m.room.message"))
            read_message(content, arena, event);
        else if (pal_str_is(type, "m.sticker"))
            read_sticker(content, arena, event);
        else if (pal_str_is(type, "m.reaction"))
            read_reaction(content, arena, event);
        else if (pal_str_is(type, "m.room.redaction"))
            read_redaction(json, content, arena, event);
        else if (pal_str_is(type, "m.room.encrypted"))
            read_encrypted(content, arena, event);
    }
    pal_status failure = pal_arena_failure(arena);
    return failure ? pal_error_set(err, failure, "no memory for an event of a room") : PAL_OK;
}
