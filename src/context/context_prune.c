/* context_prune.c - finds old tool outputs, images and files that are no longer worth their tokens.
 *
 * It goes from the newest message back. The last turns are protected, then the newest tokens of
 * outputs. Everything older is pruned at once, but only if it saves enough. An earlier prune ends
 * the search, because everything older was pruned with it. Pure: any thread. */
#include "context/context_draft.h"

#include "base/map.h"
#include "base/memory.h"
#include "context/context_text.h"
#include "palaver/limits.h"

#define PROTECTED_TOOL "skill" /* its output is instructions, not data */

typedef struct prune_walk {
    const pal_context_input *input;
    pal_context_settings settings;
    pal_map pending;
    pal_pruned_part *found; /* newest first */
    size_t found_len;
    uint64_t seen_tokens;
    uint64_t found_tokens;
    bool is_over;
} prune_walk;

static bool is_pruned(const pal_context_input *input, uint64_t seq, size_t part)
{
    size_t low = 0, high = input->pruned_len;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const pal_pruned_part *pruned = &input->pruned[middle];
        if (pruned->seq == seq && pruned->part == part)
            return true;
        if (pruned->seq < seq || (pruned->seq == seq && pruned->part < part))
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

static pal_status count_part(const prune_walk *walk, const pal_message *message,
        const pal_part *part, uint64_t *out_tokens, pal_error *err)
{
    uint64_t tokens = 0;
    pal_status status = PAL_OK;
    if (part->kind == PAL_PART_IMAGE || part->kind == PAL_PART_FILE) {
        *out_tokens = part->kind == PAL_PART_IMAGE ? PAL_TOKENS_IMAGE : PAL_TOKENS_FILE;
        return PAL_OK;
    }
    /* A stored count is good enough for a decision of this size. */
    if (message->tokens && message->parts_len == 1) {
        *out_tokens = message->tokens;
        return PAL_OK;
    }
    status = pal_tokens_count(walk->input->encoding, part->text, &tokens, err);
    for (size_t i = 0; status == PAL_OK && i < part->parts_len; i++) {
        uint64_t more = 0;
        status = count_part(walk, message, &part->parts[i], &more, err);
        tokens += more;
    }
    if (status == PAL_OK)
        *out_tokens = tokens;
    return status;
}

/* Returns whether the part can be pruned. An output that was already pruned ends the walk. */
static bool may_go(prune_walk *walk, const pal_message *message, size_t at)
{
    const pal_part *part = &message->parts[at];
    bool is_media = part->kind == PAL_PART_IMAGE || part->kind == PAL_PART_FILE;
    if (part->kind != PAL_PART_TOOL_RESULT && !is_media)
        return false;
    if (!is_media &&
            (part->is_error || pal_str_is(part->name, PROTECTED_TOOL) ||
                    pal_map_find(&walk->pending, part->call_id)))
        return false;
    if (!is_pruned(walk->input, message->seq, at))
        return true;
    walk->is_over = !is_media;
    return false;
}

static pal_status walk_message(prune_walk *walk, const pal_message *message, pal_error *err)
{
    pal_status status = PAL_OK;
    for (size_t i = message->parts_len; status == PAL_OK && !walk->is_over && i > 0; i--) {
        uint64_t tokens = 0;
        if (!may_go(walk, message, i - 1))
            continue;
        status = count_part(walk, message, &message->parts[i - 1], &tokens, err);
        walk->seen_tokens += tokens;
        if (walk->seen_tokens <= walk->settings.prune_protect_tokens)
            continue;
        walk->found[walk->found_len++] = (pal_pruned_part){message->seq, (uint32_t)(i - 1)};
        walk->found_tokens += tokens;
    }
    return status;
}

static pal_status walk_messages(prune_walk *walk, pal_error *err)
{
    const pal_context_input *input = walk->input;
    uint32_t turns = 0;
    pal_status status = PAL_OK;
    for (size_t i = input->messages_len; status == PAL_OK && !walk->is_over && i > 0; i--) {
        const pal_message *message = &input->messages[i - 1];
        turns += message->role == PAL_ROLE_USER;
        if (turns < walk->settings.prune_protect_turns)
            continue;
        if (message->role == PAL_ROLE_ASSISTANT && message->flags & PAL_MESSAGE_FLAG_SUMMARY)
            break;
        if (!(message->flags & PAL_MESSAGE_FLAG_PINNED))
            status = walk_message(walk, message, err);
    }
    return status;
}

/* Allocates room for every part, and puts the pending calls into a map. */
static pal_status prepare(prune_walk *walk, pal_arena *arena, pal_error *err)
{
    const pal_context_input *input = walk->input;
    size_t parts = 0;
    for (size_t i = 0; i < input->messages_len; i++)
        parts += input->messages[i].parts_len;
    walk->found = pal_arena_array(arena, parts, sizeof(*walk->found));
    if (!walk->found)
        return pal_error_set(err, pal_arena_failure(arena), "out of memory");
    for (size_t i = 0; i < input->pending_len; i++) {
        if (pal_map_set(&walk->pending, input->pending[i], walk) != PAL_OK)
            return pal_no_memory(err);
    }
    return PAL_OK;
}

pal_status pal_context_prune(const pal_context_input *input, pal_arena *arena,
        pal_pruned_part **out_pruned, size_t *out_len, uint64_t *out_tokens, pal_error *err)
{
    prune_walk walk = {.input = input, .settings = pal_context_settings_filled(&input->settings)};
    pal_map_init(&walk.pending);
    pal_status status = prepare(&walk, arena, err);
    if (status == PAL_OK && !walk.settings.prune_off)
        status = walk_messages(&walk, err);
    if (status != PAL_OK)
        goto out;
    if (walk.found_tokens <= walk.settings.prune_minimum_tokens) {
        walk.found_len = 0;
        walk.found_tokens = 0;
    }
    for (size_t i = 0; i < walk.found_len / 2; i++) {
        pal_pruned_part other = walk.found[i];
        walk.found[i] = walk.found[walk.found_len - 1 - i];
        walk.found[walk.found_len - 1 - i] = other;
    }
    *out_pruned = walk.found;
    *out_len = walk.found_len;
    *out_tokens = walk.found_tokens;
out:
    pal_map_done(&walk.pending);
    return status;
}
