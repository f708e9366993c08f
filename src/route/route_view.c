/* route_view.c - makes the view of an inbound message, and finds the first rule that matches it. */
#include "route/route_view.h"

#include "route/route_text.h"

/* "type:id", with `fallback` for an empty type; empty without an id. */
static pal_str typed(pal_arena *arena, pal_str type, pal_str id, pal_str fallback)
{
    if (id.len == 0)
        return id;
    return pal_route_join(arena, type.len ? type : fallback, PAL_LITERAL(":"), id);
}

/* Returns the smaller one of the name found so far and the name that claims `id`. */
static const pal_str *smaller_claim(
        const pal_route_settings *settings, const pal_str *found, pal_str id)
{
    const pal_str *name = pal_map_find(&settings->links, id);
    if (!found || !name)
        return found ? found : name;
    size_t len = found->len < name->len ? found->len : name->len;
    int order = memcmp(name->data, found->data, len);
    return order < 0 || (order == 0 && name->len < found->len) ? name : found;
}

/* Looks up an id unchanged, with its channel before it, and without the text up to its first
 * colon. */
static void set_person(const pal_route_settings *settings, pal_arena *arena, pal_route_view *view)
{
    pal_str id = view->sender_id;
    const pal_str *name = NULL;
    view->person = id;
    if (settings->links.len == 0 || id.len == 0)
        return;
    name = smaller_claim(settings, name, id);
    if (view->channel.len)
        name = smaller_claim(
                settings, name, pal_route_join(arena, view->channel, PAL_LITERAL(":"), id));
    const char *colon = memchr(id.data, ':', id.len);
    size_t before = colon ? (size_t)(colon - id.data) : 0;
    if (before > 0 && before + 1 < id.len)
        name = smaller_claim(settings, name, pal_str_make(colon + 1, id.len - before - 1));
    if (name) {
        view->person = *name;
        view->is_linked = true;
    }
}

pal_status pal_route_view_make(const pal_route_settings *settings, const pal_route_context *context,
        pal_arena *arena, pal_route_view *out_view, pal_error *err)
{
    pal_route_view view = {.mentioned = context->mentioned};
    pal_str space_id = {0}, space_type = {0}, account = {0};
    const struct {
        const char *name;
        const pal_str *text;
        pal_str *out_text;
    } texts[] = {
            {"channel", &context->channel, &view.channel},
            {"account", &context->account, &account},
            {"space_id", &context->space_id, &space_id},
            {"space_type", &context->space_type, &space_type},
            {"chat_id", &context->chat_id, &view.chat_id},
            {"chat_type", &context->chat_type, &view.chat_type},
            {"topic_id", &context->topic_id, &view.topic_id},
            {"sender_id", &context->sender_id, &view.sender_id},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        pal_status status = pal_route_check(texts[i].name, *texts[i].text, texts[i].out_text, err);
        if (status != PAL_OK)
            return status;
    }
    /* Before the conversion to lower case, because these compare ASCII letters only. */
    view.is_direct = pal_route_is_word(view.chat_type, "direct");
    view.is_telegram = pal_route_is_word(view.channel, "telegram");
    view.is_room = pal_route_is_word(view.channel, "matrix") && view.chat_id.len > 0 &&
            view.chat_id.data[0] == '!';
    pal_str room = view.chat_id;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        *texts[i].out_text = pal_route_lower(arena, *texts[i].out_text);
    if (view.is_room) {
        view.room = view.chat_id;
        view.chat_id = pal_arena_copy(arena, room);
    }
    view.account = pal_route_id(arena, account, PAL_LITERAL("default"));
    view.space = typed(arena, space_type, space_id, PAL_LITERAL("space"));
    view.chat = typed(arena, view.chat_type, view.chat_id, PAL_LITERAL("direct"));
    view.topic = typed(arena, PAL_LITERAL("topic"), view.topic_id, PAL_LITERAL("topic"));
    set_person(settings, arena, &view);
    *out_view = view;
    return PAL_OK;
}

static bool agrees(pal_str wanted, pal_str is)
{
    return wanted.len == 0 || pal_str_equal(wanted, is);
}

/* A rule contains "type:id" in lower case. For a Matrix room only the id counts: a message
 * without the type of the room must reach the same agent. */
static bool agrees_on_chat(pal_str wanted, const pal_route_view *view)
{
    if (wanted.len == 0 || !view->is_room)
        return agrees(wanted, view->chat);
    const char *colon = memchr(wanted.data, ':', wanted.len);
    size_t before = colon ? (size_t)(colon - wanted.data) + 1 : 0;
    return pal_str_equal(pal_str_make(wanted.data + before, wanted.len - before), view->room);
}

static bool matches(const pal_route_when *when, const pal_route_view *view)
{
    if (when->mentioned != PAL_ROUTE_MENTION_ANY &&
            (when->mentioned == PAL_ROUTE_MENTION_YES) != view->mentioned)
        return false;
    /* The most selective conditions come first. */
    return agrees_on_chat(when->chat, view) && agrees(when->sender, view->person) &&
            agrees(when->topic, view->topic) && agrees(when->space, view->space) &&
            agrees(when->channel, view->channel) && agrees(when->account, view->account);
}

const pal_route_case *pal_route_case_find(
        const pal_route_settings *settings, const pal_route_view *view)
{
    for (size_t i = 0; i < settings->cases_len; i++) {
        if (matches(&settings->cases[i].when, view))
            return &settings->cases[i];
    }
    return NULL;
}
