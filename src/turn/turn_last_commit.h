/* turn_last_commit.h - the last commit of a turn that ends with an answer. pal_turn_close() makes
 * that of the others. On the loop. */
#ifndef PAL_TURN_LAST_COMMIT_H
#define PAL_TURN_LAST_COMMIT_H

#include "turn/turn.h"

/* Returns false if nothing depends on which commit is the last. */
bool pal_last_commit_is_wanted(const pal_turn *turn);

/* Assigns ids to messages without one, and keeps the ids of all messages that the turn records. */
void pal_last_commit_note(pal_turn *turn, pal_message *messages, size_t len);

/* Makes `append` the turn's last commit. It also stores the record from the caller's `on_done`
 * callback, and removes the item that marks the turn as unfinished. */
PAL_CHECKED pal_status pal_last_commit_prepare(
        pal_turn *turn, pal_turn_append *append, bool has_calls, pal_error *err);

#endif
