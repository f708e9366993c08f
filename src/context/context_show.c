/* context_show.c - shows a message without the parts that are no longer sent, and a summary as a
 * message. Stored messages are not changed: copies are in the arena, and share everything that is
 * equal. Any thread. */
#include "context/context_draft.h"

#include "context/context_text.h"

static pal_part *copy_parts(pal_arena *arena, const pal_part *parts, size_t len)
{
    pal_part *copy = pal_arena_array(arena, len, sizeof(*copy));
    if (copy && len)
        memcpy(copy, parts, len * sizeof(*copy));
    return copy;
}

static pal_str text_for(const pal_draft *draft, const pal_message *message, pal_removal removal,
        const pal_part *part)
{
    const pal_context_input *input = draft->input;
    pal_str text = pal_text_placeholder(draft->arena, part);
    if (!input->pruned_text)
        return text;
    pal_pruned_info info = {.message = message,
            .part = removal.part,
            .nested = removal.nested,
            .kind = part->kind,
            .name = part->name,
            .text = text};
    pal_str own = input->pruned_text(&info, draft->arena, input->pruned_user);
    return own.len ? own : text;
}

/* A result stays a result, so that its call keeps it; any other part becomes a text. */
static pal_part placeholder_of(const pal_draft *draft, const pal_message *message,
        pal_removal removal, const pal_part *part)
{
    pal_part shown = {
            .kind = PAL_PART_TEXT, .text = text_for(draft, message, removal, part)};
    if (part->kind == PAL_PART_TOOL_RESULT) {
        shown.kind = PAL_PART_TOOL_RESULT;
        shown.call_id = part->call_id;
        shown.name = part->name;
        shown.is_error = part->is_error;
    }
    return shown;
}

/* The parts within a result are copied once, when the first of them is replaced. */
static bool remove_part(const pal_draft *draft, const pal_message *original, pal_message *copy,
        pal_removal removal)
{
    pal_part *part = &copy->parts[removal.part];
    if (removal.nested < 0) {
        *part = placeholder_of(draft, original, removal, &original->parts[removal.part]);
        return true;
    }
    if (part->parts == original->parts[removal.part].parts)
        part->parts = copy_parts(draft->arena, part->parts, part->parts_len);
    if (!part->parts)
        return false;
    pal_part *nested = &part->parts[removal.nested];
    *nested = placeholder_of(draft, original, removal, nested);
    return true;
}

const pal_message *pal_show_without(const pal_draft *draft, const pal_message *message,
        const pal_removal *removals, size_t removals_len)
{
    pal_message *copy = pal_arena_alloc(draft->arena, sizeof(*copy));
    if (!copy)
        return NULL;
    *copy = *message;
    copy->tokens = 0;
    copy->parts = copy_parts(draft->arena, message->parts, message->parts_len);
    bool done = copy->parts != NULL;
    for (size_t i = 0; done && i < removals_len; i++)
        done = remove_part(draft, message, copy, removals[i]);
    return done ? copy : NULL;
}

/* ---- Summaries ---- */

/* A summary is the answer to a question of ours or, as in Loom, a system message. */
pal_role pal_show_summary_role(const pal_checkpoint *checkpoint)
{
    return checkpoint->strategy == PAL_STRATEGY_SUMMARIZATION ? PAL_ROLE_SYSTEM
                                                              : PAL_ROLE_ASSISTANT;
}

pal_str pal_show_summary_text(const pal_checkpoint *checkpoint, pal_arena *arena)
{
    if (checkpoint->strategy != PAL_STRATEGY_SUMMARIZATION)
        return checkpoint->summary;
    return pal_text_join(arena, PAL_TEXT(PAL_TEXT_SUMMARY), checkpoint->summary, PAL_TEXT(""));
}

pal_status pal_show_count_summary(const pal_checkpoint *checkpoint, const pal_encoding *encoding,
        pal_arena *arena, uint64_t *out_tokens, pal_error *err)
{
    if (checkpoint->summary.len == 0) {
        *out_tokens = 0;
        return PAL_OK;
    }
    pal_message shown = pal_message_text(
            arena, pal_show_summary_role(checkpoint), pal_show_summary_text(checkpoint, arena));
    if (pal_arena_failure(arena) != PAL_OK)
        return pal_error_set(err, pal_arena_failure(arena), "out of memory");
    return pal_tokens_message(encoding, &shown, out_tokens, err);
}
