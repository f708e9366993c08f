/* memory_note_place.c - circles: who may be shown a note. Everything that is shown in a session
 * goes through pal_note_place_of(), which knows nothing but the session's own scope. So no argument
 * of a tool, no member of a request and no text can widen what a session is shown.
 *
 * A session that is not a chat, or whose scope does not say whether it is a direct chat, has a
 * separate circle. Pure functions for any thread. */
#include <string.h>

#include "base/json/json.h"
#include "base/text.h"
#include "memory/memory_note.h"

/* The members of a scope (docs/routing.md). */
typedef struct scope {
    pal_str channel, account, chat, sender, topic, space;
} scope;

static pal_status read_scope(
        const pal_session *session, pal_arena *arena, scope *out_scope, pal_error *err)
{
    pal_json json, values;
    pal_status status = PAL_OK;

    *out_scope = (scope){.channel = {0}};
    if (session->scope.len == 0)
        return PAL_OK;
    status = pal_json_parse(arena, session->scope, NULL, &json, err);
    if (status != PAL_OK)
        return status;
    values = pal_json_find(json, "values");
    out_scope->channel = pal_json_string(pal_json_find(json, "channel"), arena);
    out_scope->account = pal_json_string(pal_json_find(json, "account"), arena);
    out_scope->chat = pal_json_string(pal_json_find(values, "chat"), arena);
    out_scope->sender = pal_json_string(pal_json_find(values, "sender"), arena);
    out_scope->topic = pal_json_string(pal_json_find(values, "topic"), arena);
    out_scope->space = pal_json_string(pal_json_find(values, "space"), arena);
    return pal_arena_checked(arena, err);
}

pal_str pal_note_join(pal_arena *arena, const pal_str *texts, size_t len)
{
    size_t total = 0, at = 0;
    char *joined;

    for (size_t i = 0; i < len; i++)
        total += texts[i].len;
    joined = pal_arena_alloc(arena, total + 1);
    for (size_t i = 0; joined && i < len; i++) {
        if (texts[i].len > 0)
            memcpy(joined + at, texts[i].data, texts[i].len);
        at += texts[i].len;
    }
    return pal_str_make(joined, joined ? total : 0);
}

#define JOIN(arena, ...)                                                                           \
    pal_note_join((arena), (const pal_str[]){__VA_ARGS__},                                         \
            sizeof((const pal_str[]){__VA_ARGS__}) / sizeof(pal_str))

pal_str pal_note_person(pal_str channel, pal_str sender, pal_arena *arena)
{
    if (channel.len == 0)
        return JOIN(arena, pal_str_of("person:"), sender);
    return JOIN(arena, pal_str_of("person:"), channel, pal_str_of(":"), sender);
}

pal_str pal_note_person_name(pal_str subject)
{
    pal_str name = pal_text_after(subject, strlen("person:"));
    const char *colon = name.len ? memchr(name.data, ':', name.len) : NULL;

    return colon ? pal_text_after(name, (size_t)(colon + 1 - name.data)) : name;
}

/* A direct chat is one person's: the chat's id is theirs, unless the scope names the sender. */
static pal_str subject_of(
        const scope *of, const pal_session *session, bool *out_is_direct, pal_arena *arena)
{
    char id[PAL_ID_TEXT_SIZE];
    pal_str direct = pal_str_of("direct:");

    *out_is_direct = true;
    if (of->channel.len == 0 && of->sender.len > 0 && of->chat.len == 0)
        return pal_note_person((pal_str){0}, of->sender, arena);
    if (of->channel.len > 0 && pal_text_begins_str(of->chat, direct))
        return pal_note_person(of->channel,
                of->sender.len ? of->sender : pal_text_after(of->chat, direct.len), arena);
    *out_is_direct = false;
    if (of->channel.len > 0 && of->chat.len > 0)
        return JOIN(arena, pal_str_of("room:"), of->channel, pal_str_of(":"), of->account,
                pal_str_of("/"), of->space, pal_str_of("/"), of->chat, pal_str_of("/"), of->topic);
    pal_id_to_text(session->id, id);
    return JOIN(arena, pal_str_of("session:"), pal_str_of(id));
}

pal_status pal_note_place_of(const pal_session *session, pal_arena *arena,
        pal_note_place *out_place, pal_error *err)
{
    scope of;
    pal_note_place place = {.is_direct = false};
    pal_str *circles = pal_arena_array(arena, 2, sizeof(*circles));
    pal_status status = read_scope(session, arena, &of, err);

    if (status != PAL_OK)
        return status;
    if (!circles)
        return pal_no_memory(err);
    place.subject = subject_of(&of, session, &place.is_direct, arena);
    circles[0] = place.subject;
    circles[1] = pal_str_of(PAL_NOTE_TENANT);
    place.circles = circles;
    place.circles_len = 2;
    *out_place = place;
    return pal_arena_checked(arena, err);
}
