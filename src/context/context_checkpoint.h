/* context_checkpoint.h - the message that carries the summary of a checkpoint. turn/ uses it too,
 * to count the message once, when the checkpoint is made. */
#ifndef PAL_CONTEXT_CHECKPOINT_H
#define PAL_CONTEXT_CHECKPOINT_H

#include "palaver/context.h"

pal_role pal_checkpoint_role(const pal_checkpoint *checkpoint);

/* Returns the text of the message, in the arena, or the summary itself. */
pal_str pal_checkpoint_text(const pal_checkpoint *checkpoint, pal_arena *arena);

/* Counts the tokens of the message; 0 if there is no summary. */
PAL_CHECKED pal_status pal_checkpoint_count(const pal_checkpoint *checkpoint,
        const pal_encoding *encoding, pal_arena *arena, uint64_t *out_tokens, pal_error *err);

#endif
