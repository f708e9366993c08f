/* route_alias.c - builds the list of aliases exactly as PicoClaw does: the main alias; then, for a
 * direct chat, three for each id that the peer is known by; otherwise one for the chat. */
#include "route/route_text.h"
#include "route/route_view.h"

#define PEERS_MAX 3
#define FORMS 3
#define ALIASES_MAX (1 + PEERS_MAX * FORMS + 1)

typedef struct alias_list {
    pal_str *items;
    size_t len;
} alias_list;

static void add(alias_list *list, pal_str alias)
{
    for (size_t i = 0; i < list->len; i++) {
        if (pal_str_equal(list->items[i], alias))
            return;
    }
    if (alias.len)
        list->items[list->len++] = alias;
}

static void add_direct(alias_list *list, const pal_route_view *view, pal_str agent, pal_str channel,
        pal_arena *arena)
{
    pal_str peer_items[PEERS_MAX];
    alias_list peers = {peer_items, 0};
    add(&peers, view->sender_id);
    add(&peers, view->person);
    add(&peers, view->chat_id);
    if (peers.len == 0)
        return;

    const pal_str colon = PAL_LITERAL(":"), direct = PAL_LITERAL(":direct:");
    const pal_str base = pal_route_join(arena, PAL_LITERAL("agent:"), agent);
    const pal_str forms[FORMS] = {
            pal_route_join(arena, base, direct),
            pal_route_join(arena, base, colon, channel, direct),
            pal_route_join(arena, base, colon, channel, colon, view->account, direct),
    };
    for (size_t i = 0; i < peers.len; i++) {
        for (size_t form = 0; form < FORMS; form++)
            add(list, pal_route_join(arena, forms[form], peers.items[i]));
    }
}

/* The topic is part of the alias on every channel, unlike in the scope. */
static void add_chat(alias_list *list, const pal_route_view *view, pal_str agent, pal_str channel,
        pal_arena *arena)
{
    const pal_str colon = PAL_LITERAL(":");
    if (view->chat_id.len == 0)
        return;
    add(list,
            pal_route_join(arena, PAL_LITERAL("agent:"), agent, colon, channel, colon,
                    view->chat_type.len ? view->chat_type : PAL_LITERAL("unknown"), colon,
                    view->chat_id, view->topic_id.len ? PAL_LITERAL("/") : view->topic_id,
                    view->topic_id));
}

/* Removes the alias; returns whether it was in the list. */
static bool drop(alias_list *list, pal_str key)
{
    for (size_t i = 0; i < list->len; i++) {
        if (!pal_str_equal(list->items[i], key))
            continue;
        list->len--;
        memmove(list->items + i, list->items + i + 1, (list->len - i) * sizeof *list->items);
        return true;
    }
    return false;
}

void pal_route_aliases_set(
        const pal_route_view *view, pal_str own, pal_arena *arena, pal_route *route)
{
    alias_list list = {pal_arena_array(arena, ALIASES_MAX, sizeof(pal_str)), 0};
    if (!list.items)
        return;
    add(&list, route->main_alias);
    if (view) {
        /* The channel of the message, not of the scope, which may have none. */
        pal_str channel = view->channel.len ? view->channel : PAL_LITERAL("unknown");
        if (view->is_direct)
            add_direct(&list, view, route->agent, channel, arena);
        else
            add_chat(&list, view, route->agent, channel, arena);
    }
    route->is_own_alias = drop(&list, route->key);
    if (own.len && !pal_str_equal(own, route->key))
        add(&list, own);
    route->aliases = list.items;
    route->aliases_len = list.len;
}
