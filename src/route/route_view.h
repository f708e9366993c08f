/* route_view.h - an inbound message as the rules see it: all texts are checked, trimmed and
 * lower-cased, and the sender has the canonical name. Only the chat of a Matrix room keeps its
 * case, because two room ids can differ in case alone. */
#ifndef PAL_ROUTE_VIEW_H
#define PAL_ROUTE_VIEW_H

#include "route/route_settings.h"

typedef struct pal_route_view {
    pal_str channel; /* may be empty */
    pal_str account; /* an id; never empty */
    pal_str chat_type;
    pal_str chat_id; /* lower case, except for the id of a Matrix room */
    pal_str room;    /* a Matrix room's id in lower case, for rules; otherwise empty */
    pal_str topic_id;
    pal_str sender_id;
    pal_str space; /* for example "guild:g1"; empty without an id, like the next three */
    pal_str chat;
    pal_str topic;
    pal_str person; /* the canonical name of a linked sender, otherwise sender_id */
    bool is_linked;
    bool is_direct;   /* the message says so; an empty chat type does not count */
    bool is_telegram; /* its forum topics are part of the chat */
    bool is_room;     /* a Matrix room: one chat, whatever its chat type */
    bool mentioned;
} pal_route_view;

PAL_CHECKED pal_status pal_route_view_make(const pal_route_settings *settings,
        const pal_route_context *context, pal_arena *arena, pal_route_view *out_view,
        pal_error *err);

/* Returns the first rule that matches, or NULL. */
const pal_route_case *pal_route_case_find(
        const pal_route_settings *settings, const pal_route_view *view);

/* ---- The scope of a session, as values, as signature and key, and as JSON: route_scope.c ---- */

/* Sets channel, account and values of a chat. */
void pal_route_scope_set(const pal_route_settings *settings, const pal_route_view *view,
        const pal_route_dimensions *dimensions, pal_arena *arena, pal_route *route);

/* Sets signature, scope_key and JSON from these. `kind` is empty for chats. */
void pal_route_scope_finish(pal_str kind, pal_arena *arena, pal_route *route);

/* Call it last: sets the keys that a Matrix room has with other chat types. */
void pal_route_scope_earlier(const pal_route_view *view, pal_arena *arena, pal_route *route);

/* ---- The names under which an older history of a session may be found: route_alias.c ---- */

/* Sets the aliases of `route`, whose agent, main alias and key are set. `view` is NULL if the
 * session is not a chat. `own` is the key that the message names, trimmed; may be empty. */
void pal_route_aliases_set(
        const pal_route_view *view, pal_str own, pal_arena *arena, pal_route *route);

#endif
