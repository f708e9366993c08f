/* matrix_incoming.c - translates a round into events for the host, room by room and in order: first
 * what has happened to the room, then its messages.
 *
 * Whether a chat is direct is decided for each message, with the number of members at that moment:
 * what was said before a third person joined stays between the two. */
#include <stdio.h>
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "channel/matrix/matrix.h"

typedef struct writing {
    pal_matrix *matrix;
    pal_matrix_round *round;
    const pal_matrix_room_news *news;
    pal_matrix_room *room;
    uint64_t members;
    bool has_failed;
} writing;

static pal_incoming *add(writing *w, pal_incoming_kind kind, pal_str sender)
{
    pal_matrix_round *round = w->round;

    if (!pal_reserve(&round->events, &round->events_cap, round->events_len + 1,
                sizeof *round->events)) {
        w->has_failed = true;
        return NULL;
    }
    pal_incoming *event = &round->events[round->events_len++];
    *event = (pal_incoming){.kind = kind,
            .chat = w->news->room,
            .chat_name = w->room->name ? pal_arena_copy(round->arena, pal_str_of(w->room->name))
                                       : (pal_str){0},
            .sender = sender,
            .sender_name = pal_arena_copy(round->arena, pal_matrix_name_of(w->matrix, sender)),
            .direct = pal_matrix_room_is_direct(w->matrix, w->room, w->members)};
    return event;
}

/* Things that happen to a room have no id in an invitation. The cursor makes one. */
static pal_str id_of(writing *w, pal_str event, const char *what)
{
    pal_buf text;

    if (event.len)
        return event;
    pal_buf_init(&text, 4096);
    pal_buf_format(&text, "%s %.*s %.*s", what, PAL_STR_ARG(w->news->room),
            PAL_STR_ARG(w->round->sync.next_batch));
    pal_str copy =
            text.failure ? (pal_str){0} : pal_arena_copy(w->round->arena, pal_buf_str(&text));
    pal_buf_done(&text);
    w->has_failed = w->has_failed || !copy.len;
    return copy;
}

/* ---- Members ---- */

static bool is_member(pal_str membership)
{
    return pal_str_is(membership, "join") || pal_str_is(membership, "invite");
}

/* Returns by how much a member event changes the number of members. */
static int delta_of(const pal_matrix_event *event)
{
    return event->kind != PAL_MATRIX_MEMBER
            ? 0
            : (int)is_member(event->membership) - (int)is_member(event->membership_before);
}

/* Returns the number of members before the timeline. */
static uint64_t members_before(const pal_matrix_room_news *news, uint64_t after)
{
    for (size_t i = news->timeline_len; i-- > 0;) {
        int delta = delta_of(&news->timeline[i]);
        after = delta > 0 && after > 0 ? after - 1 : delta < 0 ? after + 1 : after;
    }
    return after;
}

static void count_members(writing *w, const pal_matrix_room_news *news)
{
    pal_matrix_room *room = w->room;

    if (news->has_joined)
        room->joined = news->joined;
    if (news->has_invited)
        room->invited = news->invited;
    uint64_t after = room->joined + room->invited;
    w->members = members_before(news, after);
}

/* ---- Invitations, and coming and going ---- */

/* Returns the newest event about our own membership; with `membership`, the newest such one. */
static const pal_matrix_event *find_own(const writing *w, const pal_matrix_event *events,
        size_t len, const char *membership)
{
    for (size_t i = len; i-- > 0;) {
        if (events[i].kind == PAL_MATRIX_MEMBER &&
                pal_str_equal(events[i].state_key, w->matrix->login.user) &&
                (!membership || pal_str_is(events[i].membership, membership)))
            return &events[i];
    }
    return NULL;
}

static void write_invite(writing *w)
{
    const pal_matrix_room_news *news = w->news;
    const pal_matrix_event *own = find_own(w, news->state, news->state_len, "invite");
    bool is_encrypted = false;

    for (size_t i = 0; i < news->state_len; i++) {
        pal_matrix_room_take(w->matrix, w->room, &news->state[i]);
        is_encrypted = is_encrypted || news->state[i].kind == PAL_MATRIX_ENCRYPTION;
    }
    if (!own)
        return;
    pal_incoming *event = add(w, PAL_INCOMING_INVITE, own->sender);
    if (!event)
        return;
    event->id = id_of(w, own->id, "invite");
    event->direct = own->is_direct;
    event->encrypted = is_encrypted; /* the host refuses it with the reason */
}

static void write_left(writing *w)
{
    const pal_matrix_event *own = find_own(w, w->news->timeline, w->news->timeline_len, NULL);

    if (!own)
        own = find_own(w, w->news->state, w->news->state_len, NULL);
    w->room->is_joined = w->room->is_known = false;
    pal_incoming *event = add(w, PAL_INCOMING_LEFT, own ? own->sender : w->matrix->login.user);
    if (event)
        event->id = id_of(w, own ? own->id : (pal_str){0}, "left");
}

/* The homeserver says with our own membership who has invited us, and whether to a direct chat. */
static void write_joined(writing *w, const pal_matrix_event *own)
{
    pal_str inviter = own->sender_before;

    if (pal_str_equal(inviter, w->matrix->login.user))
        inviter = (pal_str){0};
    if (own->is_direct_before && inviter.len)
        pal_matrix_join_direct(w->matrix, inviter, w->news->room);
    pal_incoming *event = add(w, PAL_INCOMING_JOINED, inviter);
    if (event) {
        event->id = id_of(w, own->id, "joined");
        event->direct = event->direct || (own->is_direct_before && w->members <= 2);
    }
}

/* ---- What happens to a room that we are in ---- */

static void write_upgrade(writing *w, const pal_matrix_event *tombstone)
{
    pal_incoming *event = tombstone->target.len
            ? add(w, PAL_INCOMING_UPGRADE, tombstone->sender)
            : NULL;
    if (event) {
        event->id = id_of(w, tombstone->id, "upgrade");
        event->target = tombstone->target;
        event->text = tombstone->text;
        pal_matrix_join(&w->matrix->base, tombstone->target, tombstone->sender);
    }
}

static void write_state(writing *w)
{
    const pal_matrix_room_news *news = w->news;
    const pal_matrix_event *own = find_own(w, news->state, news->state_len, "join");
    bool was_encrypted = w->room->is_encrypted, is_changed = false;

    if (!own)
        own = find_own(w, news->timeline, news->timeline_len, "join");
    for (size_t i = 0; i < news->state_len; i++) {
        pal_matrix_room_take(w->matrix, w->room, &news->state[i]);
        is_changed = is_changed || news->state[i].kind == PAL_MATRIX_NAME;
    }
    for (size_t i = 0; i < news->timeline_len; i++) {
        pal_matrix_room_take(w->matrix, w->room, &news->timeline[i]);
        is_changed = is_changed || news->timeline[i].kind == PAL_MATRIX_NAME;
    }
    w->room->is_joined = true;
    count_members(w, news);
    bool is_new = own && !pal_str_is(own->membership_before, "join");
    if (own && (is_new || w->round->is_first))
        write_joined(w, own);
    else if (is_changed && !w->round->is_first) {
        pal_incoming *event = add(w, PAL_INCOMING_CHAT, (pal_str){0});
        if (event)
            event->id = id_of(w, (pal_str){0}, "chat");
    }
    /* Rooms that were encrypted before the bot came to this account are left alone. */
    if (w->room->is_encrypted && !w->round->is_first && (is_new || !was_encrypted))
        pal_matrix_leave_encrypted(w->matrix, news->room);
    for (size_t i = 0; i < news->state_len; i++) {
        if (news->state[i].kind == PAL_MATRIX_TOMBSTONE && !w->round->is_first)
            write_upgrade(w, &news->state[i]);
    }
}

/* ---- Messages ---- */

static bool mentions_others(const pal_matrix_event *event, pal_str me)
{
    pal_json_iter iter = pal_json_each(pal_json_find(event->mentions, "user_ids"));
    pal_json value;

    while (!iter.is_object && pal_json_next(&iter, NULL, &value)) {
        pal_str raw = pal_json_raw(value);
        if (raw.len >= 2 && !pal_str_equal(pal_str_make(raw.data + 1, raw.len - 2), me))
            return true;
    }
    return false;
}

static void write_media(writing *w, const pal_matrix_event *event, const pal_matrix_extra *extra,
        pal_incoming *incoming)
{
    pal_incoming_media *media = pal_arena_array(w->round->arena, 1, sizeof *media);

    if (!media) {
        w->has_failed = true;
        return;
    }
    media->url = event->media.url;
    media->media_type = extra->data.len ? extra->media_type : event->media.media_type;
    media->name = event->media.name;
    media->data = extra->data;
    media->bytes = event->media.bytes;
    incoming->media = media;
    incoming->media_len = 1;
}

/* "/me waves" is how people write it, and how models know it. */
static pal_str emote_of(writing *w, pal_str text)
{
    pal_buf emote;

    pal_buf_init(&emote, text.len + 8);
    pal_buf_append_text(&emote, "/me ");
    pal_buf_append_str(&emote, text);
    pal_str copy = emote.failure ? text : pal_arena_copy(w->round->arena, pal_buf_str(&emote));
    pal_buf_done(&emote);
    return copy;
}

static void write_message(
        writing *w, const pal_matrix_event *event, const pal_matrix_extra *extra)
{
    pal_str me = w->matrix->login.user;
    pal_incoming *incoming = add(w,
            event->kind == PAL_MATRIX_EDIT ? PAL_INCOMING_EDIT : PAL_INCOMING_MESSAGE,
            event->sender);
    if (!incoming)
        return;
    incoming->target = event->target;
    incoming->topic = event->thread;
    incoming->reply_to = event->reply_to;
    /* An edit mentions only people whom the first text did not mention. */
    pal_json mentions =
            event->kind == PAL_MATRIX_EDIT ? event->mentions_new : event->mentions;
    incoming->mentions_me = pal_matrix_mention_is(mentions, event->text, event->html, me);
    incoming->mentions_other =
            mentions_others(event, me) || (event->reply_to.len && !extra->answers_me);
    incoming->mentions_all = pal_matrix_mention_is_room(mentions);
    incoming->replies_to_me = extra->answers_me;
    incoming->is_notice = event->is_notice;
    incoming->is_bot = event->marker.len > 0; /* another Palaver */
    incoming->text = pal_matrix_mention_strip(
            event->text, incoming->mentions_me ? me : (pal_str){0},
            incoming->mentions_me ? pal_matrix_name_of(w->matrix, me) : (pal_str){0});
    incoming->text = pal_arena_copy(w->round->arena, incoming->text);
    if (event->is_emote)
        incoming->text = emote_of(w, incoming->text);
    if (event->has_media)
        write_media(w, event, extra, incoming);
}

static void write_event(
        writing *w, const pal_matrix_event *event, const pal_matrix_extra *extra)
{
    pal_incoming *incoming = NULL;
    size_t len = w->round->events_len;

    switch (event->kind) {
    case PAL_MATRIX_MESSAGE:
    case PAL_MATRIX_EDIT:
        write_message(w, event, extra);
        break;
    case PAL_MATRIX_REACTION:
        incoming = add(w, PAL_INCOMING_REACTION, event->sender);
        if (incoming) {
            incoming->key = event->key;
            incoming->target = event->target;
            incoming->replies_to_me = pal_matrix_sent_has(w->matrix, event->target);
        }
        break;
    case PAL_MATRIX_REDACTION:
        incoming = add(w, PAL_INCOMING_REDACTION, event->sender);
        if (incoming)
            incoming->target = event->target;
        break;
    case PAL_MATRIX_TOMBSTONE:
        write_upgrade(w, event);
        break;
    default:
        break;
    }
    if (w->has_failed || w->round->events_len == len)
        return;
    incoming = &w->round->events[w->round->events_len - 1];
    incoming->id = event->id;
    incoming->sent_at = event->sent_at;
    incoming->is_backlog = w->round->is_first;
}

/* Returns true for an event that is ours to see: it was sent while we were in the room. */
static bool is_seen(const writing *w, const pal_matrix_event *event)
{
    if (pal_str_equal(event->sender, w->matrix->login.user))
        return false;
    return !event->our_membership.len || pal_str_is(event->our_membership, "join");
}

static void write_timeline(writing *w, const pal_matrix_extra *extras)
{
    const pal_matrix_room_news *news = w->news;

    for (size_t i = 0; i < news->timeline_len && !w->has_failed; i++) {
        const pal_matrix_event *event = &news->timeline[i];
        int delta = delta_of(event);
        w->members = delta > 0 ? w->members + 1
                : delta < 0 && w->members > 0 ? w->members - 1
                                              : w->members;
        if (is_seen(w, event) && !w->room->is_space && !w->round->is_first)
            write_event(w, event, &extras[i]);
    }
}

pal_status pal_matrix_incoming_write(pal_matrix *matrix, pal_matrix_round *round, pal_error *err)
{
    const pal_matrix_extra *extras = round->extras;
    writing w = {.matrix = matrix, .round = round};

    for (size_t i = 0; i < round->sync.rooms_len && !w.has_failed; i++) {
        w.news = &round->rooms[i];
        w.room = pal_matrix_room_get(matrix, w.news->room);
        if (!w.room)
            return pal_no_memory(err);
        w.members = 0;
        switch (w.news->section) {
        case PAL_MATRIX_INVITED:
            write_invite(&w);
            break;
        case PAL_MATRIX_JOINED:
            write_state(&w);
            write_timeline(&w, extras);
            break;
        case PAL_MATRIX_LEFT:
            write_left(&w);
            break;
        }
        extras += w.news->timeline_len;
    }
    return w.has_failed || pal_arena_failure(round->arena) ? pal_no_memory(err) : PAL_OK;
}
