/* turn_entry.h - the first commit of a turn, with the lease and the messages. */
#ifndef PAL_TURN_ENTRY_H
#define PAL_TURN_ENTRY_H

#include "turn/turn.h"

/* Adds an operation to turn->write that acquires the session's lease, unless the lease is held. */
void pal_entry_add_lease(pal_turn *turn);
/* On the loop, before pal_entry_add_lease(): notes a dead process's lease, so that it can be
 * taken. */
void pal_entry_note_stale(pal_turn *turn);
/* Returns true if the lease is required first: an open call may belong to a turn that another
 * process runs. */
bool pal_entry_needs_lease(const pal_turn *turn);
/* Puts the complete first commit into turn->write; it may have no operations. */
void pal_entry_make(pal_turn *turn);
/* For a successful commit: returns true if its messages had been recorded before. */
bool pal_entry_is_replay(const pal_turn *turn);
/* For a successful commit: notes the turn's first message and its seq. */
void pal_entry_note_seq(pal_turn *turn);

/* ---- All steps on one worker ---- */

/* On the loop: returns true if one worker can do all steps, by one of the two functions below. Call
 * pal_entry_end() when the worker is done. */
bool pal_entry_begin(pal_turn *turn);
void pal_entry_end(pal_turn *turn);
/* Run on a worker. pal_entry_look() inspects the session first; pal_entry_prepare() is for a new
 * session. Afterwards is_entered says that turn->write was applied, and is_planned that
 * pal_plan_work() was done. If is_entered is false, everything is as pal_recover_work() leaves
 * it. */
void pal_entry_look(pal_work_item *item);
void pal_entry_prepare(pal_work_item *item);

#endif
