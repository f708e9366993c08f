/* turn_entry.h - the first commit of a turn. */
#ifndef PAL_TURN_ENTRY_H
#define PAL_TURN_ENTRY_H

#include "turn/turn_machine.h"

/* Adds to turn->write what takes the session's lease, unless it is held. */
void pal_entry_add_lease(pal_turn *turn);
/* On the loop, before that: a lease that was seen to be a dead process's may be taken. */
void pal_entry_note_stale(pal_turn *turn);
/* What is open may be a running turn's of another process, unless the session is ours. */
bool pal_entry_needs_lease(const pal_turn *turn);
/* Puts all of the first commit into turn->write, which may be nothing. */
void pal_entry_make(pal_turn *turn);
/* Of a commit that has succeeded: what was said in it had been said before. */
bool pal_entry_is_replay(const pal_turn *turn);
void pal_entry_note_seq(pal_turn *turn);

/* ---- In one go ---- */

/* On the loop: true where a worker may do it all by one of the works below; pal_entry_end() is to
 * follow when it is back. */
bool pal_entry_begin(pal_turn *turn);
void pal_entry_end(pal_turn *turn);
/* Look around first, or know that there is nothing to be seen. Afterwards is_entered says that
 * turn->write was applied, and is_planned that pal_plan_work() was done; where it wasn't, all is as
 * pal_recover_work() leaves it. */
void pal_entry_look(pal_work_item *item);
void pal_entry_prepare(pal_work_item *item);

#endif
