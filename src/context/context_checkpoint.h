/* context_checkpoint.h - the message that stands for what a checkpoint summarises. Also for turn/,
 * which counts it once, when the checkpoint is made. */
#ifndef PAL_CONTEXT_CHECKPOINT_H
#define PAL_CONTEXT_CHECKPOINT_H

#include "palaver/context.h"

pal_role pal_checkpoint_role(const pal_checkpoint *checkpoint);

/* In the arena, or the summary itself. */
pal_str pal_checkpoint_text(const pal_checkpoint *checkpoint, pal_arena *arena);

/* How many tokens the message has; 0 where there is no summary. */
PAL_CHECKED pal_status pal_checkpoint_count(const pal_checkpoint *checkpoint,
        const pal_encoding *encoding, pal_arena *arena, uint64_t *out_tokens, pal_error *err);

#endif
