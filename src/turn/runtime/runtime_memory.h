/* runtime_memory.h - extracts notes in the background: when a session is due, its messages are
 * shown to a model, which proposes notes (memory/memory_extract.h). On the loop, unless a
 * comment says otherwise. */
#ifndef PAL_RUNTIME_MEMORY_H
#define PAL_RUNTIME_MEMORY_H

#include "turn/turn.h"

/* Returns the record with which a turn's last commit says that its session is due. NULL: the
 * session has no extraction, or is known to be due. */
const pal_record *pal_memory_expect(pal_turn *turn);
/* Adds the operation for that record to turn->commit.write. */
void pal_memory_add_due(pal_turn *turn, const pal_record *record);
/* Called when a turn has ended: its session is looked at when it is due. */
void pal_memory_note_end(const pal_turn *turn);

/* Extracts notes before a compaction. Returns false if there is nothing to do; otherwise the
 * turn waits, and pal_summary_ask() is called when the extraction has ended, also if it failed. */
bool pal_memory_before_summary(pal_turn *turn);
/* The turn does not wait any more. The extraction continues. */
void pal_memory_leave(pal_turn *turn);

/* Looks for sessions that are due, now and from time to time. Does nothing if no model is
 * configured for it. */
void pal_memory_start(pal_runtime *runtime);
/* The runtime is closing: begins no further extraction, and cancels the calls of the running ones.
 * Their sessions stay due in the store. */
void pal_memory_stop(pal_runtime *runtime);
void pal_memory_done(pal_runtime *runtime); /* after the loop was closed */

#endif
