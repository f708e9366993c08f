/* route_scope.c - builds the scope of a session.
 *
 * The signature is the identity of a scope: fields "name=value", joined by '|' in a fixed order.
 * '|' and '%' in values are escaped. So two scopes have the same signature only if they are equal:
 *
 *   v=1|agent=A|channel=C|account=N|DIMENSION=VALUE...   a chat; PicoClaw's, byte for byte
 *   v=1|agent=A|sender=NAME                              a linked person on all channels
 *   v=1|kind=K|agent=A|NAME=VALUE...                     a session that is not a chat
 *
 * In the first form the third field is always a channel and never a dimension. In the third form
 * the second field is never an agent. So no signature has two meanings. */
#include "route/route_text.h"
#include "route/route_view.h"

#define PARTS_MAX (10 + 8 * PAL_ROUTE_VALUES_MAX)

static void add_value(pal_route *route, const char *dimension, pal_str value)
{
    if (value.len == 0)
        return;
    route->values[route->values_len].dimension = pal_str_of(dimension);
    route->values[route->values_len].value = value;
    route->values_len++;
}

/* On Telegram, a topic is a part of its chat, unless the topic is a separate dimension. */
static bool topic_is_in_chat(const pal_route_view *view, const pal_route_dimensions *dimensions)
{
    return view->is_telegram && view->topic_id.len &&
            !pal_route_dimensions_has(dimensions, PAL_DIMENSION_TOPIC);
}

static pal_str value_of(const pal_route_view *view, const pal_route_dimensions *dimensions,
        pal_route_dimension dimension, pal_arena *arena)
{
    switch (dimension) {
    case PAL_DIMENSION_SPACE:
        return view->space;
    case PAL_DIMENSION_TOPIC:
        return view->topic;
    case PAL_DIMENSION_SENDER:
        return view->person;
    case PAL_DIMENSION_CHAT:
        break;
    }
    if (view->chat.len && topic_is_in_chat(view, dimensions))
        return pal_route_join(arena, view->chat, PAL_LITERAL("/"), view->topic_id);
    return view->chat;
}

/* Returns whether the scope depends only on the sender: it has no dimension of a place, or only
 * the direct chat with this person. */
static bool is_personal(const pal_route_view *view, const pal_route_dimensions *dimensions)
{
    bool has_sender = pal_route_dimensions_has(dimensions, PAL_DIMENSION_SENDER);
    bool has_chat = pal_route_dimensions_has(dimensions, PAL_DIMENSION_CHAT) && view->chat.len > 0;
    if (pal_route_dimensions_has(dimensions, PAL_DIMENSION_SPACE) && view->space.len)
        return false;
    if (pal_route_dimensions_has(dimensions, PAL_DIMENSION_TOPIC) && view->topic.len)
        return false;
    if (has_chat)
        return view->is_direct && !topic_is_in_chat(view, dimensions);
    return has_sender;
}

void pal_route_scope_set(const pal_route_settings *settings, const pal_route_view *view,
        const pal_route_dimensions *dimensions, pal_arena *arena, pal_route *route)
{
    route->is_linked = view->is_linked;
    if (settings->link_across_channels && view->is_linked && is_personal(view, dimensions)) {
        add_value(route, pal_route_dimension_name(PAL_DIMENSION_SENDER), view->person);
        return;
    }
    route->channel = view->channel.len ? view->channel : PAL_LITERAL("unknown");
    route->account = view->account;
    for (size_t i = 0; i < dimensions->len; i++) {
        pal_route_dimension dimension = (pal_route_dimension)dimensions->items[i];
        add_value(route, pal_route_dimension_name(dimension),
                value_of(view, dimensions, dimension, arena));
    }
}

static pal_str make_signature(pal_str kind, pal_arena *arena, const pal_route *route)
{
    pal_str parts[PARTS_MAX];
    size_t len = 0;
    if (kind.len) {
        parts[len++] = PAL_LITERAL("v=1|kind=");
        parts[len++] = kind;
        parts[len++] = PAL_LITERAL("|agent=");
    } else {
        parts[len++] = PAL_LITERAL("v=1|agent=");
    }
    parts[len++] = route->agent;
    if (route->channel.len) {
        parts[len++] = PAL_LITERAL("|channel=");
        parts[len++] = pal_route_escape(arena, route->channel);
        parts[len++] = PAL_LITERAL("|account=");
        parts[len++] = route->account;
    }
    for (size_t i = 0; i < route->values_len; i++) {
        parts[len++] = PAL_LITERAL("|");
        parts[len++] = route->values[i].dimension;
        parts[len++] = PAL_LITERAL("=");
        parts[len++] = pal_route_escape(arena, route->values[i].value);
    }
    return pal_route_join_parts(arena, parts, len);
}

/* In the key of a chat, escapes are in lower case, because PicoClaw converts the complete
 * signature. Everything else is in lower case already, or keeps its case intentionally. */
static pal_str make_key(pal_str kind, pal_arena *arena, pal_str signature)
{
    bool has_escapes = signature.len && memchr(signature.data, '%', signature.len);
    if (kind.len == 0 && has_escapes) {
        signature = pal_arena_copy(arena, signature);
        for (size_t i = 0; i + 2 < signature.len; i++)
            if (memcmp(signature.data + i, "%7C", 3) == 0)
                ((char *)signature.data)[i + 2] = 'c';
    }
    return pal_route_key_hash(arena, signature);
}

/* Sorts by name, as PicoClaw does in its JSON. */
static void sort_values(pal_route_value *values, size_t len)
{
    for (size_t i = 1; i < len; i++) {
        for (size_t j = i; j > 0; j--) {
            pal_str a = values[j - 1].dimension, b = values[j].dimension;
            int order = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);
            if (order < 0 || (order == 0 && a.len <= b.len))
                break;
            pal_route_value held = values[j];
            values[j] = values[j - 1];
            values[j - 1] = held;
        }
    }
}

/* Names need no quoting; values do. Returns the number of parts that were added. */
static size_t add_members(const pal_route *route, pal_arena *arena, pal_str *parts)
{
    pal_route_value sorted[PAL_ROUTE_VALUES_MAX];
    size_t len = 0;
    if (route->values_len == 0) {
        parts[len++] = PAL_LITERAL(",\"dimensions\":null,\"values\":null}");
        return len;
    }
    for (size_t i = 0; i < route->values_len; i++) {
        sorted[i] = route->values[i];
        parts[len++] = i ? PAL_LITERAL("\",\"") : PAL_LITERAL(",\"dimensions\":[\"");
        parts[len++] = route->values[i].dimension;
    }
    sort_values(sorted, route->values_len);
    for (size_t i = 0; i < route->values_len; i++) {
        parts[len++] = i ? PAL_LITERAL(",\"") : PAL_LITERAL("\"],\"values\":{\"");
        parts[len++] = sorted[i].dimension;
        parts[len++] = PAL_LITERAL("\":");
        parts[len++] = pal_route_quote(arena, sorted[i].value);
    }
    parts[len++] = PAL_LITERAL("}}");
    return len;
}

static pal_str make_json(pal_str kind, pal_arena *arena, const pal_route *route)
{
    pal_str parts[PARTS_MAX];
    size_t len = 0;
    parts[len++] = PAL_LITERAL("{\"version\":1");
    if (kind.len) {
        parts[len++] = PAL_LITERAL(",\"kind\":\"");
        parts[len++] = kind;
        parts[len++] = PAL_LITERAL("\"");
    }
    parts[len++] = PAL_LITERAL(",\"agent_id\":\"");
    parts[len++] = route->agent;
    parts[len++] = PAL_LITERAL("\",\"channel\":");
    parts[len++] = pal_route_quote(arena, route->channel);
    parts[len++] = PAL_LITERAL(",\"account\":\"");
    parts[len++] = route->account;
    parts[len++] = PAL_LITERAL("\"");
    len += add_members(route, arena, parts + len);
    return pal_route_join_parts(arena, parts, len);
}

void pal_route_scope_finish(pal_str kind, pal_arena *arena, pal_route *route)
{
    route->signature = make_signature(kind, arena, route);
    route->scope_key = make_key(kind, arena, route->signature);
    route->scope = make_json(kind, arena, route);
}

void pal_route_scope_earlier(const pal_route_view *view, pal_arena *arena, pal_route *route)
{
    static const char *const types[] = {"group", "direct"};
    const pal_str chat = {0}; /* the kind */
    pal_route other = *route;
    size_t at = 0;
    while (at < route->values_len && !pal_str_equal(route->values[at].value, view->chat))
        at++;
    if (!view->is_room || at == route->values_len)
        return;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        other.values[at].value = pal_route_join(
                arena, pal_str_of(types[i]), PAL_LITERAL(":"), view->chat_id);
        pal_str key = make_key(chat, arena, make_signature(chat, arena, &other));
        if (!pal_str_equal(key, route->scope_key))
            route->earlier_keys[route->earlier_keys_len++] = key;
    }
}
