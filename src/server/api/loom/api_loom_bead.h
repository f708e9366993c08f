/* api_loom_bead.h - finds the session of a work item. Loom, a program that sends agents to work
 * items, calls a work item a bead. */
#ifndef PAL_API_LOOM_BEAD_H
#define PAL_API_LOOM_BEAD_H

#include "dialect/dialect_bead.h"
#include "palaver/limits.h"
#include "palaver/route.h"
#include "server/server.h"

/* Finds the active session of the project's work item; if there are several, the one with the
 * newest update. `route` is the result of routing. PAL_NOT_FOUND if there is none. Blocks. */
PAL_CHECKED pal_status pal_bead_find(pal_call *call, const pal_route_context *context,
        const pal_route *route, pal_session *out_session, pal_error *err);

/* Finds the active session of a work item by the bead's id alone, in any project; if there are
 * several, the one with the newest update. PAL_NOT_FOUND if there is none. Blocks. */
PAL_CHECKED pal_status pal_bead_find_any(
        pal_call *call, pal_str bead, pal_session *out_session, pal_error *err);

/* Writes the record that leads from the bead to the session, for pal_bead_find_any(). If the record
 * cannot be written, pal_bead_find_any() searches all sessions, which only takes longer. */
void pal_bead_note(pal_call *call, pal_str bead, pal_id session);

/* Returns a value of the session's scope, or else of its metadata: "bead_id", "project_id". The
 * result is in the call's arena; empty if there is none. */
pal_str pal_bead_value(pal_call *call, const pal_session *session, const char *name);

#endif
