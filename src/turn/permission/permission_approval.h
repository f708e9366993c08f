/* permission_approval.h - calls that ended an earlier turn because they need approval, and their
 * answers.
 * The request brings the answers (pal_turn_request.answers). */
#ifndef PAL_PERMISSION_APPROVAL_H
#define PAL_PERMISSION_APPROVAL_H

#include "turn/recovery/recovery_inspect.h"
#include "turn/turn.h"

/* On a worker: finds the calls that the request answers, in the session's newest answer or in the
 * request's messages, and the settings to run them with. PAL_INVALID: a call is not open. */
PAL_CHECKED pal_status pal_approval_find(
        pal_turn *turn, const pal_ending *end, const pal_session *session, pal_error *err);
/* Returns true if the request answers the question about this call. */
bool pal_approval_has_answer(const pal_turn_request *request, pal_str call_id);

/* On the loop, after the first commit: makes the runs of the answered calls. The turn then waits
 * for the tool servers and runs them. Returns false if there is no memory. */
bool pal_approval_begin(pal_turn *turn);

#endif
