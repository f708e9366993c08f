/* context_note.c - sends notes of the long-term memory. The notes of the block are one system
 * message at the beginning of the request. A note that was made later is a part in front of a user
 * message, so that everything before it stays unchanged. Nothing of this is stored. Any thread.
 *
 * A note is one line that begins with "- ", whatever its text contains. */
#include "context/context_draft.h"

#include "base/buf.h"
#include "context/context_text.h"

#define NOTES_BYTES_MAX ((size_t)4 << 20)

static void put_line(pal_buf *buf, pal_str text)
{
    pal_buf_append_text(buf, "- ");
    for (size_t i = 0; i < text.len; i++)
        pal_buf_append_char(
                buf, (unsigned char)text.data[i] < ' ' ? ' ' : text.data[i]);
    pal_buf_append_char(buf, '\n');
}

/* Returns the text that carries the notes of a place; empty if there are none. */
static pal_status write_text(
        const pal_draft *draft, uint64_t seq, pal_str *out_text, pal_error *err)
{
    const pal_context_input *input = draft->input;
    pal_buf buf;
    size_t found = 0;

    *out_text = (pal_str){0};
    pal_buf_init(&buf, NOTES_BYTES_MAX);
    pal_buf_append_text(&buf, seq ? PAL_TEXT_NOTES_NEW : PAL_TEXT_NOTES);
    for (size_t i = 0; i < input->notes_len; i++) {
        if (input->notes[i].seq != seq)
            continue;
        put_line(&buf, input->notes[i].text);
        found++;
    }
    if (seq == 0 && input->notes_more)
        pal_buf_format(&buf, "[%llu more notes are not shown.]\n",
                (unsigned long long)input->notes_more);
    if (seq == 0 && buf.len > 0)
        buf.len--; /* nothing follows */
    if (found > 0 || (seq == 0 && input->notes_more))
        *out_text = pal_arena_copy(draft->arena, pal_buf_str(&buf));
    if (buf.failure) {
        pal_buf_done(&buf);
        return pal_error_set(err, buf.failure, "the notes exceed %zu bytes", NOTES_BYTES_MAX);
    }
    pal_buf_done(&buf);
    return pal_draft_failure(draft, err);
}

pal_status pal_draft_notes_text(const pal_draft *draft, pal_str *out_text, pal_error *err)
{
    return write_text(draft, 0, out_text, err);
}

pal_status pal_draft_notes_show(pal_draft *draft, pal_line *line, pal_error *err)
{
    const pal_message *message = line->message;
    pal_disposition disposition = line->disposition;
    pal_str text, reason = line->reason;
    pal_message *copy;
    pal_part *parts;
    pal_status status = write_text(draft, line->seq, &text, err);

    if (status != PAL_OK || text.len == 0)
        return status;
    copy = pal_arena_alloc(draft->arena, sizeof(*copy));
    parts = pal_arena_array(draft->arena, message->parts_len + 1, sizeof(*parts));
    if (!copy || !parts)
        return pal_draft_failure(draft, err);
    *copy = *message;
    copy->tokens = 0;
    copy->parts = parts;
    copy->parts_len = message->parts_len + 1;
    parts[0] = (pal_part){.kind = PAL_PART_TEXT, .text = text};
    for (size_t i = 0; i < message->parts_len; i++)
        parts[i + 1] = message->parts[i];
    status = pal_draft_show(draft, line, copy, reason, err);
    line->disposition = disposition;
    return status;
}

/* The tokens of the carrying message are shared out, so that the sum of all items stays exact. */
pal_status pal_draft_notes_items(
        const pal_draft *draft, pal_plan *plan, pal_plan_item *carrier, pal_error *err)
{
    const pal_context_input *input = draft->input;

    for (size_t i = 0; i < input->notes_len; i++) {
        const pal_context_note *note = &input->notes[i];
        pal_plan_item *item = &plan->items[plan->items_len];
        pal_message line;
        uint64_t tokens = 0;
        pal_status status;

        if (note->seq != carrier->seq)
            continue;
        status = pal_tokens_count(input->encoding, note->text, &tokens, err);
        if (status != PAL_OK)
            return status;
        tokens = tokens + 2 < carrier->tokens ? tokens + 2 : 0; /* "- ", and the line break */
        line = pal_message_text(draft->arena, PAL_ROLE_SYSTEM, note->text);
        if (line.role == PAL_ROLE_NONE)
            return pal_draft_failure(draft, err);
        *item = (pal_plan_item){.kind = PAL_PLAN_ITEM_NOTE,
                .disposition = PAL_DISPOSITION_SENT_SYNTHESIZED,
                .seq = carrier->seq,
                .first_seq = carrier->seq,
                .count = 1,
                .tokens = tokens,
                .hash = pal_prefix_hash_message(&line),
                .reason = note->reason,
                .note = note};
        carrier->tokens -= tokens;
        plan->items_len++;
    }
    return PAL_OK;
}
