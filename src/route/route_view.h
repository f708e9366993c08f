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
    pal_str chat_id; /* for a Matrix room: with its case */
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

#endif
