/* context_show.c - shows a message without the parts that are no longer sent. Stored messages are
 * not changed: copies are in the arena, and share everything that is equal. Any thread. */
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
