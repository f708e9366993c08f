/* turn_outbox.h - the record of a turn whose answer must be delivered. */
#ifndef PAL_TURN_OUTBOX_H
#define PAL_TURN_OUTBOX_H

#include "turn/turn.h"

/* Checks the channel of a request. */
PAL_CHECKED pal_status pal_outbox_check(
        const pal_turn_request *request, pal_arena *scratch, pal_error *err);

static inline bool pal_turn_is_note(const pal_turn *turn)
{
    return turn->request.channel && turn->request.channel->is_note;
}

/* Returns true if two requests can share one answer, as far as their channels matter. */
bool pal_outbox_can_merge(const pal_turn_channel *first, const pal_turn_channel *second);
/* Returns the channel of both requests together: that of the second one, which knows the first.
 * Call it only if pal_outbox_can_merge(). If there is no memory, the arena has failed. */
const pal_turn_channel *pal_outbox_merge(
        const pal_turn_channel *first, const pal_turn_channel *second, pal_arena *arena);

/* Makes the record for the end of the turn, in its arena, and sets turn->commit.outbox. Returns
 * NULL if the turn has no outbox. If there is no memory, the turn's arena has failed. `answer` may
 * be none. */
pal_record *pal_outbox_make(pal_turn *turn, pal_turn_state state, pal_id answer);
/* The same for another turn of the session, which this turn ends. */
pal_record *pal_outbox_make_for(pal_turn *turn, pal_id other, const pal_turn_channel *channel,
        pal_turn_state state, pal_str reason, pal_id answer);

/* Reports the end of the turn to the program. */
void pal_outbox_tell(const pal_turn *turn, pal_turn_state state);

#endif
