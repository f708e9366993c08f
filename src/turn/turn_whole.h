/* turn_whole.h - turns that are all or nothing. */
#ifndef PAL_TURN_WHOLE_H
#define PAL_TURN_WHOLE_H

#include "turn/turn_machine.h"

/* On the loop: takes it all back, with turn->write. */
void pal_whole_undo(pal_turn *turn);

/* On a worker: looks for what such a turn of an older version has left in the inbox; turn->leftover
 * and leftover_seq. */
PAL_CHECKED pal_status pal_whole_find(
        pal_turn *turn, const pal_inbox_item *items, size_t len, pal_error *err);
/* On the loop, under the lease: adds to turn->write what takes it out of the conversation. */
void pal_whole_settle(pal_turn *turn);

/* On a worker: whether the message with this number is out of the conversation: then its turn has
 * failed. */
PAL_CHECKED pal_status pal_whole_is_hidden(
        pal_turn *turn, uint64_t seq, bool *out_hidden, pal_error *err);

#endif
