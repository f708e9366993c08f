/* window_compact_cut.c - decides where a conversation is cut: up to which message a checkpoint
 * replaces it, and which of those messages are still kept. Pure functions of the loaded data. */
#include "window/window_compact_internal.h"

enum { LOW_WATER_PERCENT = 50 };

void pal_window_force_cut(pal_context_input *input)
{
    input->after_overflow = true;
    input->after_compaction = false;
    input->settings.auto_off = false;
    input->settings.prune_off = true;
    if (input->settings.strategy == PAL_STRATEGY_SLIDING_WINDOW ||
            input->settings.strategy == PAL_STRATEGY_NONE)
        input->settings.strategy = PAL_STRATEGY_COMPACT;
}

size_t pal_compact_count(const pal_context_input *input, uint64_t seq, uint64_t *out_tokens)
{
    size_t count = 0;

    *out_tokens = 0;
    while (count < input->messages_len && input->messages[count].seq <= seq)
        *out_tokens += input->messages[count++].tokens;
    return count;
}

static uint64_t summary_tokens(const pal_plan *plan)
{
    uint64_t tokens = 0;

    for (size_t i = 0; i < plan->items_len; i++)
        if (plan->items[i].kind == PAL_PLAN_ITEM_SUMMARY)
            tokens += plan->items[i].tokens;
    return tokens;
}

void pal_compact_cut(pal_compact_job *job, uint64_t cut_seq)
{
    pal_checkpoint_record *record = &job->record;
    const pal_checkpoint *before = &job->view.input.checkpoint;

    record->checkpoint.seq = cut_seq;
    record->messages = pal_compact_count(&job->view.input, cut_seq, &job->replaced_tokens);
    record->checkpoint.dropped = before->dropped + job->view.input.older_messages;
    record->checkpoint.hidden_tokens =
            before->hidden_tokens + job->view.input.older_tokens + job->replaced_tokens;
    job->replaced_tokens += summary_tokens(&job->plan);
}

static const pal_message *last_user(const pal_message *messages, size_t len)
{
    for (size_t i = len; i-- > 0;)
        if (messages[i].role == PAL_ROLE_USER)
            return &messages[i];
    return NULL;
}

void pal_compact_keep(pal_compact_job *job)
{
    const pal_context_input *input = &job->view.input;
    const pal_message *question = last_user(input->messages, input->messages_len);

    if (!question)
        question = last_user(input->kept, input->kept_len);
    for (size_t i = 0; question && i < job->plan.keep_len; i++) {
        if (job->plan.keep_seqs[i] != question->seq)
            continue;
        job->record.keep_seqs = &job->plan.keep_seqs[i];
        job->record.keep_len = 1;
    }
}

bool pal_compact_cut_at(pal_compact_job *job, uint64_t cut_seq)
{
    const pal_context_input *input = &job->view.input;
    size_t place = 0, last = 0;

    for (size_t i = 0; i < input->messages_len; i++)
        if (input->messages[i].role == PAL_ROLE_USER)
            last = i;
    while (place < last && input->messages[place].seq <= cut_seq)
        place++;
    place = pal_context_boundary(input->messages, input->messages_len, place);
    if (place > last)
        place = last;
    if (place == 0)
        return false;
    pal_compact_cut(job, input->messages[place - 1].seq);
    return true;
}

void pal_compact_cut_turns(pal_compact_job *job)
{
    const pal_context_input *input = &job->view.input;
    uint32_t percent = input->settings.low_water_percent ? input->settings.low_water_percent
                                                         : LOW_WATER_PERCENT;
    uint64_t room = job->plan.usable / 100 * percent;
    uint64_t tokens = 0, cut_seq = job->plan.cut_seq;
    size_t first = input->messages_len;

    for (size_t i = input->messages_len; i-- > 0;) {
        tokens += pal_calibration_apply(&input->calibration, input->messages[i].tokens);
        if (tokens > room && first < input->messages_len)
            break;
        if (input->messages[i].role == PAL_ROLE_USER)
            first = i;
    }
    if (tokens > room && first > 0 && first < input->messages_len &&
            input->messages[first - 1].seq < cut_seq)
        cut_seq = input->messages[first - 1].seq;
    pal_compact_cut(job, cut_seq);
}
