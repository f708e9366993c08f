/* turn_owed.h - an admitted turn is owed its end: the item in the inbox that says so. */
#ifndef PAL_TURN_OWED_H
#define PAL_TURN_OWED_H

#include "turn/turn_machine.h"

/* The id of the first message that a turn records, by which a turn is found in the store. */
pal_id pal_owed_first(pal_id turn);
/* Gives that id to the first message of the turn's request, unless it has one. */
void pal_owed_name_first(pal_turn *turn);

/* Adds to turn->write what says that the turn is owed its end. Nothing for a compaction. On the
 * loop or on the worker that has the turn. */
void pal_owed_add(pal_turn *turn);
/* Replaces the item `old` by the turn's own. The write fails with PAL_NOT_FOUND if it is gone:
 * another process has gone on with the turn. */
void pal_owed_replace(pal_turn *turn, pal_id old);
/* The write that has it was committed. */
void pal_owed_added(pal_turn *turn);

/* The item leaves the inbox with this append, which ends the turn. */
void pal_owed_end(pal_turn *turn, pal_turn_append *append);
/* True: the turn is about to end without a commit that says so, and comes back to `then` when that
 * is made. */
bool pal_owed_settle(pal_turn *turn, void (*then)(pal_write *write));

/* The runtime is closed: writes down that the turn was left in good order, so that stopping is not
 * counted as a death, and calls `then`. The turn's own write may be under way. False: there is
 * nothing to write, or no memory. */
bool pal_owed_hand_over(pal_turn *turn, void (*then)(pal_turn *turn));

/* The item of the session's admitted turn; NULL: there is none. */
const pal_inbox_item *pal_owed_find(const pal_inbox_item *items, size_t len);

#endif
