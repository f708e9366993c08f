/* recovery_retell.c - publishes messages that another process has recorded to the readers of a
 * turn.
 *
 * Readers may have seen a part of an answer that this process could not record, because another
 * process had taken the session. If the recorded answer begins with that part, the rest is
 * published. Otherwise the step begins again with the same number, and the earlier events of that
 * step are void. On the loop. */
#include "turn/recovery/recovery_retell.h"

#include "base/text.h"
#include "turn/turn_event.h"

static pal_str rest_of(pal_str text, size_t from)
{
    return pal_str_make(text.data + from, text.len - from);
}

/* Publishes a text from the byte `from` on. A call is published completely if `from` is 0,
 * otherwise only the rest of its arguments. */
static void tell_part(pal_turn *turn, const pal_part *part, size_t number, size_t from)
{
    bool is_call = part->kind == PAL_PART_TOOL_CALL;
    pal_str text = is_call ? part->arguments : part->text;

    if (is_call && from == 0)
        pal_event_publish(turn,
                (pal_event){.kind = PAL_EVENT_CALL,
                        .call_id = part->call_id,
                        .name = part->name,
                        .text = part->extra,
                        .count = number});
    if (from > 0 && from == text.len)
        return;
    if (is_call)
        pal_event_publish(turn,
                (pal_event){.kind = PAL_EVENT_ARGUMENTS,
                        .call_id = part->call_id,
                        .text = rest_of(text, from)});
    else if (part->kind == PAL_PART_TEXT || part->kind == PAL_PART_REASONING)
        pal_event_publish(turn,
                (pal_event){.kind = part->kind == PAL_PART_TEXT ? PAL_EVENT_TEXT
                                                                : PAL_EVENT_REASONING,
                        .text = rest_of(text, from),
                        .count = number});
}

/* Returns true if `part` equals or extends `known`. Only the last part that readers know may be
 * longer now. */
static bool continues(const pal_part *known, const pal_part *part, bool is_last)
{
    bool is_call = part->kind == PAL_PART_TOOL_CALL;
    pal_str old = is_call ? known->arguments : known->text;
    pal_str new = is_call ? part->arguments : part->text;

    return known->kind == part->kind && pal_text_begins_str(new, old) &&
            (is_last || new.len == old.len) &&
            (!is_call ||
                    (pal_str_equal(known->call_id, part->call_id) &&
                            pal_str_equal(known->name, part->name)));
}

/* Returns true if readers know the beginning of the answer. Sets *out_parts to the number of known
 * parts, and *out_bytes to the known bytes of the last one. */
static bool find_known(pal_turn *turn, const pal_message *answer, size_t *out_parts,
        size_t *out_bytes)
{
    pal_arena *arena = pal_arena_new(0);
    pal_message known = {.parts_len = 0};
    bool is_known = turn->step.output_seen && arena &&
            pal_answer_message(&turn->step.answer, arena, &known, NULL) == PAL_OK &&
            known.parts_len > 0 && known.parts_len <= answer->parts_len;

    for (size_t i = 0; is_known && i < known.parts_len; i++) {
        const pal_part *part = &known.parts[i];

        is_known = continues(part, &answer->parts[i], i + 1 == known.parts_len);
        *out_bytes = part->kind == PAL_PART_TOOL_CALL ? part->arguments.len : part->text.len;
    }
    *out_parts = is_known ? known.parts_len : 0;
    pal_arena_free(arena);
    return is_known;
}

static void tell_answer(pal_turn *turn, const pal_message *answer)
{
    size_t known = 0, bytes = 0;

    if (!find_known(turn, answer, &known, &bytes)) {
        pal_retell_step(turn);
        pal_event_publish(turn,
                (pal_event){.kind = PAL_EVENT_STEP,
                        .count = ++turn->step.number,
                        .message = answer->id});
    }
    turn->step.output_seen = false;
    if (known > 0)
        tell_part(turn, &answer->parts[known - 1], known, bytes);
    for (size_t i = known; i < answer->parts_len; i++)
        tell_part(turn, &answer->parts[i], i + 1, 0);
    if (!(answer->flags & PAL_MESSAGE_FLAG_ERROR))
        pal_event_publish(turn,
                (pal_event){.kind = PAL_EVENT_MESSAGE,
                        .message = answer->id,
                        .seq = answer->seq,
                        .at = answer->created_at,
                        .usage = answer->usage});
    turn->outcome.usage = (pal_usage){.input = turn->outcome.usage.input + answer->usage.input,
            .cache_read = turn->outcome.usage.cache_read + answer->usage.cache_read,
            .cache_write = turn->outcome.usage.cache_write + answer->usage.cache_write,
            .output = turn->outcome.usage.output + answer->usage.output,
            .reasoning = turn->outcome.usage.reasoning + answer->usage.reasoning};
}

static void tell_results(pal_turn *turn, const pal_message *message)
{
    for (size_t i = 0; i < message->parts_len; i++)
        if (message->parts[i].kind == PAL_PART_TOOL_RESULT)
            pal_event_publish(turn,
                    (pal_event){.kind = PAL_EVENT_TOOL_ENDED,
                            .call_id = message->parts[i].call_id,
                            .name = message->parts[i].name,
                            .text = message->parts[i].text,
                            .status = message->parts[i].is_error ? PAL_INVALID : PAL_OK});
}

void pal_retell(pal_turn *turn, const pal_message *message)
{
    if (message->seq <= turn->owed.told_seq)
        return;
    turn->owed.told_seq = message->seq;
    if (message->role == PAL_ROLE_ASSISTANT)
        tell_answer(turn, message);
    else if (message->role == PAL_ROLE_TOOL)
        tell_results(turn, message);
}

void pal_retell_step(pal_turn *turn)
{
    if (turn->step.output_seen && turn->step.number > 0)
        turn->step.number--;
    turn->step.output_seen = false;
}
