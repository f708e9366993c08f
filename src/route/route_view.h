/* route_view.h - an inbound message as the rules see it: every text checked, trimmed, lower-cased,
 * the sender under the canonical name. Only the chat of a Matrix room keeps its case: two room ids
 * may differ in nothing else. */
#ifndef PAL_ROUTE_VIEW_H
#define PAL_ROUTE_VIEW_H

#include "route/route_settings.h"

typedef struct pal_route_view {
    pal_str channel; /* may be empty */
    pal_str account; /* an id, never empty */
    pal_str chat_type;
    pal_str chat_id; /* of a Matrix room: with its case */
    pal_str room;    /* a Matrix room's id in lower case, for rules; else empty */
    pal_str topic_id;
    pal_str sender_id;
    pal_str space; /* "guild:g1", empty without an id, as the next three are */
    pal_str chat;
    pal_str topic;
    pal_str person; /* the canonical name of a linked sender, else sender_id */
    bool is_linked;
    bool is_direct;   /* said to be so: an empty chat type is not */
    bool is_telegram; /* whose forum topics are part of the chat */
    bool is_room;     /* a Matrix room: one chat, whatever its type is said to be */
    bool mentioned;
} pal_route_view;

PAL_CHECKED pal_status pal_route_view_make(const pal_route_settings *settings,
        const pal_route_context *context, pal_arena *arena, pal_route_view *out_view,
        pal_error *err);

/* The first rule that matches, or NULL. */
const pal_route_case *pal_route_case_find(
        const pal_route_settings *settings, const pal_route_view *view);

#endif
