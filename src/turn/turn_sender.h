/* turn_sender.h - who says a message, where several people speak in one session. */
#ifndef PAL_TURN_SENDER_H
#define PAL_TURN_SENDER_H

#include "palaver/turn.h"

/* Shows the model who speaks: the text of a user's message with a sender begins with "<sender> "
 * from now on, unless it is from a chat of two, and its other lines are indented so that none can
 * pose as a speaker. In place, with texts in the arena. Once for each message, before it is
 * recorded. PAL_NO_MEMORY leaves some messages without a speaker: they must not be sent. */
PAL_CHECKED pal_status pal_sender_show(pal_message *messages, size_t len, pal_arena *arena);

/* Whether two requests that wait can be one: every message has a sender, all of them are direct or
 * none is, and all else is the same. */
bool pal_sender_can_merge(
        const pal_turn_request *first, const pal_turn_request *second, pal_arena *scratch);

/* Marks messages as going on from the one before, as a merge does. False: they can't have been
 * merged. */
bool pal_sender_mark(pal_message *messages, size_t len, pal_arena *arena);

/* One list of both requests' messages, the second's marked as going on from the one before; in the
 * arena. NULL without memory. */
pal_message *pal_sender_merge(const pal_turn_request *first, const pal_turn_request *second,
        pal_arena *arena, size_t *out_len);

/* What goes on from the one before becomes one message with it, their texts on lines of their own;
 * returns how many are left. The list is changed in place, what it points to is not. */
size_t pal_sender_join(pal_message *messages, size_t len, pal_arena *arena);

#endif
