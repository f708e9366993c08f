/* turn_compact_inside.h - what the turn_compact*.c files share. Only for them; on the thread that
 * compacts. */
#ifndef PAL_TURN_COMPACT_INSIDE_H
#define PAL_TURN_COMPACT_INSIDE_H

#include "turn/turn_compact.h"

/* ---- turn_compact_cut.c ---- */

/* A compaction that was asked for is one even where the window is not full. */
void pal_compact_force(pal_context_input *input);
/* How many of the input's messages are up to and with `seq`, and their tokens. */
size_t pal_compact_count(const pal_context_input *input, uint64_t seq, uint64_t *out_tokens);
/* The record stands for the messages up to and with this one. */
void pal_compact_cut(pal_compact_job *job, uint64_t cut_seq);
/* A cut that was asked for goes to the beginning of its turn, and never behind the last user's
 * message. False where nothing is before it. */
bool pal_compact_cut_at(pal_compact_job *job, uint64_t cut_seq);
/* The newest whole turns that stay below the low-water mark, the last one whatever it has; where
 * all of them do, or one turn is all there is, where the plan cuts. */
void pal_compact_cut_turns(pal_compact_job *job);
/* Of what the plan keeps before the cut, the record needs only the last user's message: pins are
 * marks of their own, and pending calls are never before a cut. */
void pal_compact_keep(pal_compact_job *job);

/* ---- turn_compact_ask.c ---- */

/* Makes the job's request. */
PAL_CHECKED pal_status pal_compact_ask(
        pal_compact_job *job, const pal_compaction *compaction, pal_arena *arena, pal_error *err);

/* ---- turn_compact_again.c ---- */

/* Begins a job that makes the standing checkpoint again, which `compaction->redo` names. */
PAL_CHECKED pal_status pal_compact_again(pal_store *store, const pal_compaction *compaction,
        pal_compact_job *job, pal_arena *arena, pal_error *err);

#endif
