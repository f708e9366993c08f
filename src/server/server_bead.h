/* server_bead.h - the session of a work item ("bead"), and the way from a bead's id to it. */
#ifndef PAL_SERVER_BEAD_H
#define PAL_SERVER_BEAD_H

#include "palaver/limits.h"
#include "palaver/route.h"
#include "server/server.h"

#define PAL_BEAD_RECORD "bead" /* the kind of the records below */
#define PAL_BEAD_BODY_SIZE 40

/* The session of the project's work item that is active; of several, the one with the newest
 * update. `route` is what routing decided for it. PAL_NOT_FOUND if there is none. Blocks. */
PAL_CHECKED pal_status pal_bead_find(pal_call *call, const pal_route_context *context,
        const pal_route *route, pal_session *out_session, pal_error *err);

/* The session of a work item of any project, by the bead's id alone; likewise. */
PAL_CHECKED pal_status pal_bead_find_any(
        pal_call *call, pal_str bead, pal_session *out_session, pal_error *err);

/* The name of the record that leads from the bead to the session. False: the bead's id is too long
 * for one. */
bool pal_bead_record_name(
        pal_str bead, pal_id session, char out_name[PAL_RECORD_NAME_LEN_MAX + 1]);

/* The record's body. `untimed_at`: the time of a session that has none of its own, else 0. */
void pal_bead_record_body(int64_t untimed_at, char out_body[PAL_BEAD_BODY_SIZE]);

/* Notes that the session is the bead's, for pal_bead_find_any(). If it can't be written, sessions
 * are looked through instead; that costs time and nothing else. */
void pal_bead_note(pal_call *call, pal_str bead, pal_id session);

/* A value of the session's scope, or else of its metadata: "bead_id", "project_id". In the call's
 * arena; empty if there is none. */
pal_str pal_bead_value(pal_call *call, const pal_session *session, const char *name);

#endif
