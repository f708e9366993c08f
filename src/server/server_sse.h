/* server_sse.h - the events of a turn as Server-Sent Events, which a reader resumes by their ids.
 */
#ifndef PAL_SERVER_SSE_H
#define PAL_SERVER_SSE_H

#include "server/server.h"

/* Answers with the turn's events after number `after`, those that are past first, then each as it
 * comes; a reader that leaves stops nothing. The call must not be used after PAL_OK; before that
 * nothing has been sent. Asks the runtime: not on its loop. */
PAL_CHECKED pal_status pal_sse_turn(
        pal_call *call, const pal_turn_info *info, uint64_t after, pal_error *err);

/* What an event says, as the object that stands behind "data:". */
void pal_sse_event_put(pal_json_writer *writer, const pal_event *event, pal_id session);

#endif
