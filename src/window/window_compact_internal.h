/* window_compact_internal.h - functions that the window_compact*.c files share. Only for them; on
 * the thread that compacts. */
#ifndef PAL_WINDOW_COMPACT_INTERNAL_H
#define PAL_WINDOW_COMPACT_INTERNAL_H

#include "window/window_compact.h"

/* ---- window_compact_cut.c ---- */

/* Counts the input's messages up to and including `seq`, and their tokens. */
size_t pal_compact_count(const pal_context_input *input, uint64_t seq, uint64_t *out_tokens);
/* Sets the record to replace the messages up to and including `cut_seq`. */
void pal_compact_cut(pal_compact_job *job, uint64_t cut_seq);
/* Cuts at the requested message, moved to the beginning of its turn and never after the last user
 * message. Returns false if there is no message before the cut. */
bool pal_compact_cut_at(pal_compact_job *job, uint64_t cut_seq);
/* Keeps the newest whole turns that stay below the low-water mark, and the last turn in any case.
 * If all turns stay below it, or if there is only one turn, cuts where the plan cuts. */
void pal_compact_cut_turns(pal_compact_job *job);
/* Sets the messages that the record keeps before the cut. Only the last user message is needed:
 * pins are separate marks, and pending calls are never before a cut. */
void pal_compact_keep(pal_compact_job *job);

/* ---- window_compact_ask.c ---- */

/* Makes the job's request. */
PAL_CHECKED pal_status pal_compact_ask(pal_compact_job *job,
        const pal_compaction_request *compaction, pal_arena *arena, pal_error *err);

/* ---- window_compact_redo.c ---- */

/* Begins a job that makes the current checkpoint again. `compaction->redo` must be its number. */
PAL_CHECKED pal_status pal_compact_redo(pal_store *store, const pal_compaction_request *compaction,
        pal_compact_job *job, pal_arena *arena, pal_error *err);

#endif
