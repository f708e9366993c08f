/* server_sse.h - sends the events of a turn as Server-Sent Events. A reader can resume by their
 * ids. */
#ifndef PAL_SERVER_SSE_H
#define PAL_SERVER_SSE_H

#include "server/server.h"

/* Responds with the turn's events after number `after`: past events first, then each new one. If
 * the reader leaves, the turn continues. The call must not be used after PAL_OK. If it fails,
 * nothing was sent. Calls the runtime, so it must not run on the runtime's loop. */
PAL_CHECKED pal_status pal_sse_turn(
        pal_call *call, const pal_turn_info *info, uint64_t after, pal_error *err);

/* Writes the object that follows "data:". */
void pal_sse_event_put(pal_json_writer *writer, const pal_event *event, pal_id session);

#endif
