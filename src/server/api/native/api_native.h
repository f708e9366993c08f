/* api_native.h - the routes of the native API, and functions that they share. Each array of routes
 * ends with a zeroed route. */
#ifndef PAL_API_NATIVE_H
#define PAL_API_NATIVE_H

#include "palaver/route.h"
#include "server/server.h"

extern const pal_api_object pal_api_reset_body; /* ResetRequest, in api_branch.c */

extern const pal_api_route pal_about_routes[];    /* api_about.c */
extern const pal_api_route pal_branch_routes[];   /* api_branch.c */
extern const pal_api_route pal_channel_routes[];  /* api_channel.c */
extern const pal_api_route pal_context_routes[];  /* api_context.c */
extern const pal_api_route pal_ledger_routes[];  /* api_ledger.c */
extern const pal_api_route pal_inbound_routes[];  /* api_inbound.c */
extern const pal_api_route pal_inbox_routes[];    /* api_inbox.c */
extern const pal_api_route pal_key_routes[];      /* api_key.c */
extern const pal_api_route pal_login_routes[];    /* api_login.c */
extern const pal_api_route pal_loom_routes[];     /* api_loom.c */
extern const pal_api_route pal_message_routes[];  /* api_message.c */
extern const pal_api_route pal_note_routes[];       /* api_note.c */
extern const pal_api_route pal_permission_routes[]; /* api_permission.c */
extern const pal_api_route pal_plan_routes[];       /* api_plan.c */
extern const pal_api_route pal_session_routes[];  /* api_session.c */
extern const pal_api_route pal_skillian_routes[]; /* api_skillian.c */
extern const pal_api_route pal_transfer_routes[]; /* api_transfer.c */
extern const pal_api_route pal_turn_look_routes[]; /* api_turn_look.c */
extern const pal_api_route pal_turn_routes[];     /* api_turn.c */

/* ---- Inbound messages (api_inbound.c) ---- */

typedef struct pal_inbound {
    pal_route_context context;
    pal_route route;
    pal_resolve_result resolution;
} pal_inbound;

/* Routes by `inbound->context`, then finds or creates the session. Blocks. `given` contains
 * metadata for a new session and additional aliases. A new session of a work item expires as
 * configured. An existing one gets the agent that the context names. */
PAL_CHECKED pal_status pal_inbound_resolve(
        pal_call *call, const pal_session *given, pal_inbound *inbound, pal_error *err);

/* ---- Skillian's chat (api_skillian.c) ---- */

/* Whether a request that creates a session contains a message. */
bool pal_api_session_has_message(const pal_call *call);

/* Creates the session and answers the message. `session` is in the call's arena. */
PAL_CHECKED pal_status pal_api_session_chat(
        pal_call *call, const pal_session *session, pal_error *err);

#endif
