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

/* On a worker: whether what was said before under the same client ids is out of the conversation:
 * then that turn has failed, and this one is no repetition of it. */
PAL_CHECKED pal_status pal_whole_is_hidden(pal_turn *turn, bool *out_hidden, pal_error *err);
/* Says the same again, under client ids of the next try. */
PAL_CHECKED pal_status pal_whole_rename(pal_turn *turn, pal_error *err);

#endif
