/* context_strategy_drop.c - the strategies that need no model: the sliding window, and leaving out
 * whole turns, the oldest first, if a compaction was not enough.
 *
 * Repairs can add to the chosen messages. So the composed plan is measured, and if it is too large,
 * the choice is made again with the real size of each line. Every round leaves out more, and the
 * number of rounds is limited. */
#include "context/context_draft.h"

#include <inttypes.h>
#include "context/context_text.h"

#define ROUNDS_MAX 8
#define RETRY_PERCENT 50

bool pal_strategy_fits(const pal_draft *draft, const pal_plan *plan)
{
    const pal_context_limits *limits = &draft->input->limits;
    return pal_context_size_fits(draft, plan->tokens_plain, plan->bytes, draft->hard) &&
            (!limits->images || plan->images <= limits->images);
}

bool pal_strategy_is_full(const pal_draft *draft)
{
    bool acts = draft->settings.strategy != PAL_STRATEGY_NONE && !draft->settings.auto_off;
    return draft->input->full_tokens && acts && !draft->input->after_compaction;
}

/* Without the notice, which is added only if something is left out. */
static uint64_t content_tokens(const pal_draft *draft, const pal_plan *plan)
{
    uint64_t notice = draft->lines[draft->notice].size.tokens;
    return plan->tokens_plain > notice ? plan->tokens_plain - notice : 0;
}

/* Returns the line of that message in the tail, or NULL. */
static pal_line *find_tail_line(const pal_draft *draft, uint64_t seq)
{
    size_t low = 0, high = draft->tail_len;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pal_draft_tail(draft, middle)->seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < draft->tail_len && pal_draft_tail(draft, low)->seq == seq;
    return found ? pal_draft_tail(draft, low) : NULL;
}

static void add_size(pal_size *size, const pal_plan_item *item)
{
    size->tokens += item->tokens;
    size->bytes += item->bytes;
}

/* Sets the cost of each line to its cost after the repair. A message that the repair created
 * after a line belongs to that line. Messages created before all lines, or for kept messages,
 * are the excess. */
static void learn_costs(pal_draft *draft, const pal_plan *plan, pal_size *out_excess)
{
    pal_line *line = NULL;
    *out_excess = (pal_size){0};
    for (size_t i = 0; i < plan->items_len; i++) {
        const pal_plan_item *item = &plan->items[i];
        if (item->hash == 0 || item->kind != PAL_PLAN_ITEM_MESSAGE)
            continue;
        pal_line *own = item->seq ? find_tail_line(draft, item->seq) : NULL;
        if (own && own != line) {
            line = own;
            line->cost = (pal_size){0};
        }
        if (line && (own || item->seq == 0))
            add_size(&line->cost, item);
        else if (item->seq == 0)
            add_size(out_excess, item);
    }
    pal_cut_add_up(draft);
}

/* Measures the longest notice that is possible in this plan. */
static pal_status measure_notice(pal_draft *draft, pal_size *out_size, pal_error *err)
{
    const pal_context_input *input = draft->input;
    pal_str text = pal_text_notice(draft->arena,
            input->older_messages + input->checkpoint.dropped + draft->tail_len, false);
    pal_message notice = pal_message_text(draft->arena, PAL_ROLE_SYSTEM, text);
    pal_status status = pal_draft_failure(draft, err);
    if (status != PAL_OK)
        return status;
    pal_context_measure_message(&notice, out_size);
    return pal_tokens_message(input->encoding, &notice, &out_size->tokens, err);
}

static void refuse_newest(const pal_draft *draft, pal_plan *plan)
{
    size_t newest = pal_cut_before_newest(draft);
    pal_size least = {.tokens = draft->fixed.tokens + draft->cost_tokens[newest],
            .bytes = draft->fixed.bytes + draft->cost_bytes[newest]};
    if (pal_context_size_fits(draft, least.tokens, least.bytes, draft->hard)) {
        /* It is too long only with the notice, or with messages that the provider's rules
         * require. */
        least.tokens = plan->tokens_plain;
        least.bytes = plan->bytes;
    }
    pal_refuse_least(draft, plan, least);
}

static pal_status leave_out(
        pal_draft *draft, pal_drop *drop, pal_choice *choice, pal_plan *plan, pal_error *err)
{
    pal_status status = measure_notice(draft, &drop->notice, err);
    bool fits = true;
    for (size_t i = 0; status == PAL_OK && fits && i < ROUNDS_MAX; i++) {
        status = pal_drop_find(draft, drop, &choice->start, &fits, err);
        if (status != PAL_OK || !fits)
            break;
        status = pal_compose_plan(draft, choice, plan, err);
        if (status != PAL_OK || pal_strategy_fits(draft, plan))
            return status;
        learn_costs(draft, plan, &drop->excess);
        drop->start_min = choice->start + 1;
    }
    if (status == PAL_OK)
        refuse_newest(draft, plan);
    return status;
}

static void explain(const pal_draft *draft, const pal_choice *choice, pal_plan *plan)
{
    if (plan->action == PAL_PLAN_ACTION_REFUSE)
        return;
    plan->reason = choice->start == 0
            ? PAL_TEXT("fits")
            : pal_text_format(draft->arena, "fits without the messages before message %" PRIu64,
                      plan->first_seq);
}

pal_status pal_strategy_drop_turns(pal_draft *draft, pal_plan *plan, pal_error *err)
{
    pal_choice choice = {.sent = PAL_TEXT("newest that fit"),
            .dropped = PAL_TEXT("oldest turns left out for room")};
    uint64_t limit = draft->soft ? draft->soft : plan->tokens;
    uint64_t before = content_tokens(draft, plan);
    pal_drop drop = {.target = pal_context_percent(limit, draft->settings.low_water_percent),
            .whole_turns = true};
    pal_status status = leave_out(draft, &drop, &choice, plan, err);
    if (status != PAL_OK || plan->action == PAL_PLAN_ACTION_REFUSE)
        return status;
    if (draft->input->after_overflow && !draft->input->after_compaction &&
            content_tokens(draft, plan) >= before)
        pal_refuse_again(draft, plan);
    explain(draft, &choice, plan);
    return PAL_OK;
}

/* ---- The sliding window ---- */

/* Returns where the tail of the last request began: it stays there while it fits. */
static size_t last_start(const pal_draft *draft)
{
    const pal_context_last *last = draft->input->last;
    uint64_t first_seq = !last ? 0 : last->sent ? last->sent->first_seq : last->first_seq;
    size_t place = 0;
    if (first_seq == 0)
        return 0;
    while (place < draft->tail_len && pal_draft_tail(draft, place)->seq < first_seq)
        place++;
    return place < draft->tail_len ? place : 0;
}

/* The threshold is not the end of the window, so the notice may exceed it. */
static bool is_below_threshold(const pal_draft *draft, const pal_plan *plan)
{
    return pal_context_size_fits(draft, content_tokens(draft, plan), 0, draft->soft) &&
            pal_strategy_fits(draft, plan);
}

static pal_status slide_on(
        pal_draft *draft, size_t start, pal_choice *choice, pal_plan *plan, pal_error *err)
{
    const pal_context_input *input = draft->input;
    uint64_t before = content_tokens(draft, plan);
    pal_drop drop = {.target = draft->soft, .start_min = start, .begins_turn = draft->is_open};
    if (input->after_overflow || pal_strategy_is_full(draft)) {
        size_t left_out = pal_context_retry_left_out(draft->tail_len - start + 1, RETRY_PERCENT);
        drop.start_min = start + left_out;
        choice->after_overflow = input->after_overflow;
    } else if (input->last && (input->last->sent || input->last->len)) {
        drop.target = pal_context_percent(draft->soft, draft->settings.low_water_percent);
    }
    pal_status status = leave_out(draft, &drop, choice, plan, err);
    if (status == PAL_OK && plan->action == PAL_PLAN_ACTION_SEND && input->after_overflow &&
            content_tokens(draft, plan) >= before)
        pal_refuse_again(draft, plan);
    return status;
}

pal_status pal_strategy_slide(pal_draft *draft, pal_plan *plan, pal_error *err)
{
    pal_choice choice = {.start = last_start(draft),
            .sent = PAL_TEXT("newest that fit"),
            .dropped = PAL_TEXT("older than the newest that fit")};
    bool has_places = choice.start > 0;
    pal_status status = PAL_OK;
    if (has_places) {
        status = pal_cut_find_places(draft, err);
        if (status != PAL_OK)
            return status;
        choice.start = pal_cut_after(draft, choice.start);
        if (!pal_drop_open(draft, choice.start))
            choice.start = pal_cut_at_turn(draft, choice.start);
    }
    status = pal_compose_plan(draft, &choice, plan, err);
    if (status != PAL_OK)
        return status;
    if (draft->input->after_overflow || pal_strategy_is_full(draft) ||
            !is_below_threshold(draft, plan)) {
        if (!has_places)
            status = pal_cut_find_places(draft, err);
        if (status == PAL_OK)
            status = slide_on(draft, choice.start, &choice, plan, err);
    }
    if (status == PAL_OK)
        explain(draft, &choice, plan);
    return status;
}
