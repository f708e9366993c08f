/* recovery_owed.h - the inbox item that marks an admitted turn as unfinished (the owed item). */
#ifndef PAL_RECOVERY_OWED_H
#define PAL_RECOVERY_OWED_H

#include "turn/turn.h"

/* Returns the id of the first message that a turn records. The turn is found in the store by this
 * id. */
pal_id pal_owed_first(pal_id turn);
/* Gives that id to the first message of the turn's request, unless the message has an id. */
void pal_owed_name_first(pal_turn *turn);

/* Adds the owed item to turn->commit.write. Does nothing for a compaction. On the loop, or on the
 * worker that has the turn. */
void pal_owed_add(pal_turn *turn);
/* Replaces the item `old` by the turn's own item. The write fails with PAL_NOT_FOUND if `old` is
 * gone, because another process has continued the turn. */
void pal_owed_replace(pal_turn *turn, pal_id old);
/* Called when the write with the item was committed. */
void pal_owed_added(pal_turn *turn);
/* Replaces the stored item by the turn's own item as it is now. Call pal_owed_renewed() with the
 * status of the write: if it failed, the old item is still the stored one. */
void pal_owed_renew(pal_turn *turn);
void pal_owed_renewed(pal_turn *turn, pal_status status);

/* Removes the item from the inbox with this append, which ends the turn. */
void pal_owed_end(pal_turn *turn, pal_turn_append *append);
/* Removes the item of a turn that is about to end in `state` without another commit; NONE: it was
 * refused, and its sender is told. Returns true if the write has started; `then` is called when it
 * is done. */
bool pal_owed_settle(pal_turn *turn, pal_turn_state state, void (*then)(pal_write *write));

/* The runtime is closing: notes in the item that the process shut down normally, so that this try
 * is not counted. Then calls `then`. The turn's own write may still be in flight. Returns false if
 * there is nothing to write, or no memory. */
bool pal_owed_hand_over(pal_turn *turn, void (*then)(pal_turn *turn));

/* Returns the item of the session's admitted turn, or NULL. */
const pal_inbox_item *pal_owed_find(const pal_inbox_item *items, size_t len);

#endif
