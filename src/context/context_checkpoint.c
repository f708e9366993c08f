/* context_checkpoint.c - how a summary is shown: as the answer to a question of ours or, as in
 * Loom, as a system message. Pure: any thread. */
#include "context/context_checkpoint.h"

#include "context/context_text.h"

pal_role pal_checkpoint_role(const pal_checkpoint *checkpoint)
{
    return checkpoint->strategy == PAL_STRATEGY_SUMMARIZATION ? PAL_ROLE_SYSTEM
                                                              : PAL_ROLE_ASSISTANT;
}

pal_str pal_checkpoint_text(const pal_checkpoint *checkpoint, pal_arena *arena)
{
    if (checkpoint->strategy != PAL_STRATEGY_SUMMARIZATION)
        return checkpoint->summary;
    return pal_text_join(arena, PAL_TEXT(PAL_TEXT_SUMMARY), checkpoint->summary, PAL_TEXT(""));
}

pal_status pal_checkpoint_count(const pal_checkpoint *checkpoint, const pal_encoding *encoding,
        pal_arena *arena, uint64_t *out_tokens, pal_error *err)
{
    if (checkpoint->summary.len == 0) {
        *out_tokens = 0;
        return PAL_OK;
    }
    pal_message shown = pal_message_text(
            arena, pal_checkpoint_role(checkpoint), pal_checkpoint_text(checkpoint, arena));
    if (pal_arena_failure(arena) != PAL_OK)
        return pal_error_set(err, pal_arena_failure(arena), "not enough memory to count a summary");
    return pal_tokens_message(encoding, &shown, out_tokens, err);
}
