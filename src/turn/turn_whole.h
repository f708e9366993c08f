/* turn_whole.h - turns that are all or nothing. */
#ifndef PAL_TURN_WHOLE_H
#define PAL_TURN_WHOLE_H

#include "turn/turn.h"

/* On the loop: adds operations to turn->write that hide everything the turn has recorded. */
void pal_whole_undo(pal_turn *turn);

/* On a worker: looks in the inbox for an item that such a turn of an older version left. Sets
 * turn->leftover and turn->leftover_seq. */
PAL_CHECKED pal_status pal_whole_find(
        pal_turn *turn, const pal_inbox_item *items, size_t len, pal_error *err);
/* On the loop or on the worker that has the turn: adds operations to turn->write that hide the
 * messages of that turn and drop its item. The write must have the lease. */
void pal_whole_settle(pal_turn *turn);

/* On a worker: sets *out_hidden if the message `seq` is hidden. Then its turn has failed. */
PAL_CHECKED pal_status pal_whole_is_hidden(
        pal_turn *turn, uint64_t seq, bool *out_hidden, pal_error *err);

#endif
