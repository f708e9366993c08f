/* context_draft.c - lists and measures everything that could be sent, line by line, in the fixed
 * order.
 *
 * Pruned parts are already shown as placeholders, so that all later steps count and hash what would
 * really be sent. Tokens of stored messages were counted when they were stored, and are not counted
 * again here. Bytes are those of the JSON that contains the text, including escapes. For the text
 * that a format adds around a part, the maximum is used. */
#include "context/context_draft.h"

#include "base/json/json.h"
#include "context/context_text.h"
#include "dialect/dialect_part.h"
#include "palaver/limits.h"

#define MESSAGE_BYTES 48 /* {"role":"assistant","content":[]}, and a comma */
#define PART_BYTES 128   /* member names of the largest form of a part, a tool call */
#define TOOL_BYTES 96
#define TOOLS_TOKENS 12 /* if there are any tools */

/* Lines other than messages: system, head, notes, tools, the range that the checkpoint hides, two
 * lines that replace it, messages that were not loaded, the notice. */
#define LINES_BEFORE_MAX 9

/* ---- Sizes ---- */

uint64_t pal_context_part_bytes(const pal_part *part)
{
    if (part->kind != PAL_PART_IMAGE && part->kind != PAL_PART_FILE)
        return 0; /* the complete text of a cut output is stored, but not sent */
    return part->data.len ? part->data.len : part->bytes;
}

uint64_t pal_context_part_base64_bytes(const pal_part *part)
{
    return (pal_context_part_bytes(part) + 2) / 3 * 4;
}

static void measure_parts(const pal_part *parts, size_t len, pal_size *size)
{
    for (size_t i = 0; i < len; i++) {
        const pal_part *part = &parts[i];
        const pal_str texts[] = {part->text, part->arguments, part->call_id, part->name,
                part->signature, part->url};
        size->bytes += PART_BYTES + part->media_type.len + part->extra.len +
                pal_context_part_base64_bytes(part);
        for (size_t j = 0; j < sizeof(texts) / sizeof(texts[0]); j++)
            size->bytes += pal_json_text_len(texts[j]);
        size->images += part->kind == PAL_PART_IMAGE;
        measure_parts(part->parts, part->parts_len, size);
    }
}

void pal_context_measure_message(const pal_message *message, pal_size *size)
{
    size->bytes = MESSAGE_BYTES;
    size->images = 0;
    measure_parts(message->parts, message->parts_len, size);
}

pal_status pal_context_count_message(const pal_context_input *input, const pal_message *message,
        uint64_t *out_tokens, pal_error *err)
{
    if (message->tokens) {
        *out_tokens = message->tokens;
        return PAL_OK;
    }
    return pal_tokens_message(input->encoding, message, out_tokens, err);
}

static pal_status measure_tools(const pal_context_input *input, pal_size *out_size,
        pal_error *err)
{
    pal_size size = {.tokens = TOOLS_TOKENS};
    for (size_t i = 0; i < input->tools_len; i++) {
        const pal_tool *tool = &input->tools[i];
        uint64_t tokens = tool->tokens;
        pal_status status = PAL_OK;
        if (!tokens)
            status = pal_tokens_tool(
                    input->encoding, tool->name, tool->description, tool->schema, &tokens, err);
        if (status != PAL_OK)
            return status;
        size.tokens += tokens;
        size.bytes += TOOL_BYTES + pal_json_text_len(tool->name) +
                pal_json_text_len(tool->description) + tool->schema.len;
    }
    *out_size = size;
    return PAL_OK;
}

/* ---- Lines ---- */

pal_status pal_draft_failure(const pal_draft *draft, pal_error *err)
{
    pal_status status = pal_arena_failure(draft->arena);
    if (status == PAL_OK)
        return PAL_OK;
    return pal_error_set(err, status, "out of memory");
}

static pal_line *add_line(pal_draft *draft, pal_plan_item_kind kind)
{
    pal_line *line = &draft->lines[draft->len++];
    line->kind = kind;
    line->count = 1;
    return line;
}

static pal_status measure_line(pal_draft *draft, pal_line *line, pal_error *err)
{
    pal_context_measure_message(line->message, &line->size);
    pal_status status = pal_context_count_message(draft->input, line->message, &line->size.tokens,
            err);
    line->cost = line->size;
    return status;
}

static pal_status add_message(pal_draft *draft, pal_plan_item_kind kind, const pal_message *message,
        pal_str reason, pal_error *err)
{
    pal_line *line = add_line(draft, kind);
    line->message = message;
    line->seq = message->seq;
    line->first_seq = message->seq;
    line->reason = reason;
    return measure_line(draft, line, err);
}

/* Adds a message that the plan creates. `tokens` 0: they are counted. */
static pal_status add_made(pal_draft *draft, pal_plan_item_kind kind, pal_role role, pal_str text,
        uint64_t tokens, pal_str reason, pal_error *err)
{
    pal_message *made = pal_arena_alloc(draft->arena, sizeof(*made));
    if (!made)
        return pal_draft_failure(draft, err);
    *made = pal_message_text(draft->arena, role, text);
    made->flags = PAL_MESSAGE_FLAG_SYNTHETIC;
    made->tokens = tokens > UINT32_MAX ? UINT32_MAX : (uint32_t)tokens;
    pal_status status = pal_draft_failure(draft, err);
    if (status == PAL_OK)
        status = add_message(draft, kind, made, reason, err);
    draft->lines[draft->len - 1].disposition =
            kind == PAL_PLAN_ITEM_SYSTEM ? PAL_DISPOSITION_SENT : PAL_DISPOSITION_SENT_SYNTHESIZED;
    return status;
}

static pal_status add_notes(pal_draft *draft, pal_error *err)
{
    pal_str text;
    pal_status status = pal_draft_notes_text(draft, &text, err);
    if (status != PAL_OK || text.len == 0)
        return status;
    return add_made(draft, PAL_PLAN_ITEM_NOTES, PAL_ROLE_SYSTEM, text, 0,
            PAL_TEXT("long-term memory"), err);
}

static pal_status add_top(pal_draft *draft, pal_error *err)
{
    const pal_context_input *input = draft->input;
    pal_status status = PAL_OK;
    if (input->system.len)
        status = add_made(draft, PAL_PLAN_ITEM_SYSTEM, PAL_ROLE_SYSTEM, input->system, 0,
                PAL_TEXT("system text"), err);
    if (status == PAL_OK && input->head)
        status = add_message(draft, PAL_PLAN_ITEM_SYSTEM, input->head,
                PAL_TEXT("the session's system message"), err);
    if (status == PAL_OK && (input->notes_len || input->notes_more))
        status = add_notes(draft, err);
    if (status != PAL_OK || input->tools_len == 0)
        return status;
    pal_line *line = add_line(draft, PAL_PLAN_ITEM_TOOLS);
    line->count = input->tools_len;
    line->hash = pal_prefix_hash_tools(input->tools, input->tools_len);
    line->reason = PAL_TEXT("tools");
    return measure_tools(input, &line->size, err);
}

/* Adds messages of which only the seqs are known. */
static void add_range(pal_draft *draft, uint64_t first_seq, uint64_t seq, uint64_t count,
        uint64_t tokens, bool is_summarized)
{
    pal_line *line = add_line(draft, PAL_PLAN_ITEM_RANGE);
    line->first_seq = first_seq;
    line->seq = seq;
    line->count = count;
    line->size.tokens = tokens;
    line->disposition = is_summarized ? PAL_DISPOSITION_SUMMARIZED : PAL_DISPOSITION_DROPPED;
    line->reason =
            is_summarized ? PAL_TEXT("the summary replaces them") : PAL_TEXT("left out for room");
}

static pal_status add_summary(pal_draft *draft, pal_error *err)
{
    const pal_checkpoint *checkpoint = &draft->input->checkpoint;
    pal_str reason = PAL_TEXT("replaces what the checkpoint hides");
    pal_status status = PAL_OK;
    if (pal_show_summary_role(checkpoint) == PAL_ROLE_ASSISTANT)
        status = add_made(draft, PAL_PLAN_ITEM_SUMMARY, PAL_ROLE_USER, PAL_TEXT(PAL_TEXT_QUESTION),
                0, reason, err);
    if (status == PAL_OK)
        status = add_made(draft, PAL_PLAN_ITEM_SUMMARY, pal_show_summary_role(checkpoint),
                pal_show_summary_text(checkpoint, draft->arena), checkpoint->tokens, reason, err);
    return status;
}

static uint64_t count_hidden(const pal_context_input *input)
{
    const pal_checkpoint *checkpoint = &input->checkpoint;
    uint64_t count = checkpoint->messages ? checkpoint->messages : checkpoint->seq;
    uint64_t shown = input->head && input->head->seq && input->head->seq <= checkpoint->seq;
    for (size_t i = 0; i < input->kept_len; i++)
        shown += input->kept[i].seq <= checkpoint->seq;
    return count > shown ? count - shown : 0;
}

static uint64_t hidden_tokens(const pal_context_input *input)
{
    const pal_checkpoint *checkpoint = &input->checkpoint;
    uint64_t shown = 0;
    for (size_t i = 0; i < input->kept_len; i++)
        shown += input->kept[i].seq <= checkpoint->seq ? input->kept[i].tokens : 0;
    return checkpoint->hidden_tokens > shown ? checkpoint->hidden_tokens - shown : 0;
}

static pal_status add_checkpoint(pal_draft *draft, pal_error *err)
{
    const pal_checkpoint *checkpoint = &draft->input->checkpoint;
    if (checkpoint->number == 0)
        return PAL_OK;
    uint64_t count = count_hidden(draft->input);
    if (count)
        add_range(draft, 1, checkpoint->seq, count, hidden_tokens(draft->input),
                checkpoint->summary.len > 0);
    if (checkpoint->strategy == PAL_STRATEGY_RESET && checkpoint->hint.len)
        return add_made(draft, PAL_PLAN_ITEM_SUMMARY, PAL_ROLE_SYSTEM, checkpoint->hint,
                checkpoint->tokens, PAL_TEXT("hint for a fresh start"), err);
    return checkpoint->summary.len ? add_summary(draft, err) : PAL_OK;
}

static void add_older(pal_draft *draft)
{
    const pal_context_input *input = draft->input;
    uint64_t first = (input->checkpoint.number ? input->checkpoint.seq : 0) + 1;
    if (input->older_messages == 0)
        return;
    uint64_t last =
            input->messages_len ? input->messages[0].seq - 1 : first + input->older_messages - 1;
    add_range(draft, first, last, input->older_messages, input->older_tokens, false);
}

pal_status pal_draft_show(pal_draft *draft, pal_line *line, const pal_message *message,
        pal_str reason, pal_error *err)
{
    if (!message)
        return pal_draft_failure(draft, err);
    line->message = message;
    line->disposition = PAL_DISPOSITION_SENT_PRUNED;
    line->reason = reason;
    return measure_line(draft, line, err);
}

/* Returns the first entry of `pruned`, which is sorted, for this message or a later one. */
static size_t find_pruned(const pal_context_input *input, uint64_t seq)
{
    size_t low = 0, high = input->pruned_len;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (input->pruned[middle].seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Entries of `pruned` for a part that the message does not have are skipped. */
static pal_status show_pruned(pal_draft *draft, pal_line *line, pal_error *err)
{
    const pal_context_input *input = draft->input;
    const pal_message *message = line->message;
    size_t first = find_pruned(input, line->seq), len = 0;
    while (first + len < input->pruned_len && input->pruned[first + len].seq == line->seq)
        len++;
    if (len == 0)
        return PAL_OK;
    pal_removal *removals = pal_arena_array(draft->arena, len, sizeof(*removals));
    size_t removals_len = 0;
    for (size_t i = 0; removals && i < len; i++) {
        if (input->pruned[first + i].part < message->parts_len)
            removals[removals_len++] = (pal_removal){input->pruned[first + i].part, -1};
    }
    if (removals && removals_len == 0)
        return PAL_OK;
    return pal_draft_show(draft, line,
            removals ? pal_show_without(draft, message, removals, removals_len) : NULL,
            PAL_TEXT("old content cleared"), err);
}

static pal_status add_stored(
        pal_draft *draft, const pal_message *messages, size_t len, pal_str reason, pal_error *err)
{
    const pal_message *head = draft->input->head;
    pal_status status = PAL_OK;
    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        if (head && messages[i].seq == head->seq)
            continue; /* it is sent already */
        bool is_pinned = messages[i].flags & PAL_MESSAGE_FLAG_PINNED;
        status = add_message(draft, PAL_PLAN_ITEM_MESSAGE, &messages[i],
                is_pinned ? PAL_TEXT("pinned") : reason, err);
        if (status == PAL_OK && draft->input->pruned_len)
            status = show_pruned(draft, &draft->lines[draft->len - 1], err);
        if (status == PAL_OK && draft->input->notes_len)
            status = pal_draft_notes_show(draft, &draft->lines[draft->len - 1], err);
    }
    return status;
}

static void look_at_tail(pal_draft *draft)
{
    size_t len = draft->len - draft->tail;
    draft->tail_len = len;
    draft->last_user = len;
    for (size_t i = len; i > 0 && draft->last_user == len; i--) {
        if (pal_draft_tail(draft, i - 1)->message->role == PAL_ROLE_USER)
            draft->last_user = i - 1;
    }
    if (len > 0) {
        const pal_message *newest = pal_draft_tail(draft, len - 1)->message;
        draft->is_open =
                newest->role != PAL_ROLE_ASSISTANT || pal_part_is_in(newest, PAL_PART_TOOL_CALL);
    }
}

pal_status pal_draft_make(pal_draft *draft, pal_error *err)
{
    const pal_context_input *input = draft->input;
    size_t lines_max = LINES_BEFORE_MAX + input->kept_len + input->messages_len;
    draft->lines = pal_arena_array(draft->arena, lines_max, sizeof(*draft->lines));
    if (!draft->lines)
        return pal_draft_failure(draft, err);

    pal_status status = add_top(draft, err);
    if (status != PAL_OK)
        return status;
    draft->notice = draft->len;
    add_line(draft, (pal_plan_item_kind)0);
    status = add_checkpoint(draft, err);
    if (status != PAL_OK)
        return status;
    add_older(draft);
    draft->kept = draft->len;
    status = add_stored(draft, input->kept, input->kept_len, PAL_TEXT("kept"), err);
    if (status != PAL_OK)
        return status;
    draft->tail = draft->len;
    status = add_stored(draft, input->messages, input->messages_len, PAL_TEXT(""), err);
    if (status == PAL_OK)
        look_at_tail(draft);
    return status;
}
