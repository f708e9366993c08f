/* turn_inbox.h - a request while it waits: its JSON form in the inbox. */
#ifndef PAL_TURN_INBOX_H
#define PAL_TURN_INBOX_H

#include "palaver/turn.h"

/* Messages, and what of the request a restart needs; in the arena. */
PAL_CHECKED pal_status pal_inbox_write(const pal_turn_request *request, const char *delivery,
        pal_arena *arena, pal_inbox_item *out_item, pal_error *err);
/* The other way round; tenant and session stay as they are. */
PAL_CHECKED pal_status pal_inbox_read(
        const pal_inbox_item *item, pal_arena *arena, pal_turn_request *request, pal_error *err);

#endif
