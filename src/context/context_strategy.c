/* context_strategy.c - decides whether to send, prune, compact or refuse. docs/context.md has the
 * rules.
 *
 * First the plan is composed as if nothing had to be left out. In most cases that is sent. If
 * something else must happen first, the plan shows it. */
#include "context/context_draft.h"

#include <inttypes.h>
#include "context/context_text.h"

#define PLACEHOLDER_TOKENS 12 /* tokens of a cleared result and its frame */

/* After a compaction, a rejection by the provider counts as handled, unless much is left. */
static bool is_refused(const pal_draft *draft, const pal_plan *plan)
{
    const pal_context_input *input = draft->input;
    if (!input->after_overflow || !input->after_compaction)
        return input->after_overflow;
    if (!draft->hard)
        return false;
    return plan->tokens > pal_context_percent(draft->hard, draft->settings.low_water_percent);
}

static bool is_over_threshold(const pal_draft *draft, const pal_plan *plan)
{
    if (draft->input->after_compaction)
        return false; /* the rejection led to a compaction already */
    return draft->soft && plan->tokens > draft->soft;
}

/* Sets the reason; returns whether something must be done. */
static bool is_over(const pal_draft *draft, pal_plan *plan)
{
    const pal_context_input *input = draft->input;
    if (!pal_strategy_fits(draft, plan)) {
        bool is_tokens = draft->hard && plan->tokens > draft->hard;
        plan->reason =
                pal_text_format(draft->arena, "%" PRIu64 " %s are over the limit of %" PRIu64,
                        is_tokens ? plan->tokens : plan->bytes, is_tokens ? "tokens" : "bytes",
                        is_tokens ? draft->hard : input->limits.bytes);
    } else if (is_refused(draft, plan)) {
        plan->reason = PAL_TEXT("the provider rejected the last request as too long");
    } else if (input->older_messages) {
        plan->reason = pal_text_format(
                draft->arena, "%" PRIu64 " messages were left out for room", input->older_messages);
    } else if (pal_strategy_is_full(draft)) {
        plan->reason = pal_text_format(draft->arena,
                "the service reports %" PRIu64 " tokens, which reach the threshold",
                input->full_tokens);
    } else if (is_over_threshold(draft, plan)) {
        plan->reason = pal_text_format(draft->arena,
                "%" PRIu64 " tokens reach the threshold of %" PRIu64, plan->tokens,
                draft->soft + 1);
    } else {
        plan->reason = PAL_TEXT("fits");
        return false;
    }
    return true;
}

/* ---- Prune ---- */

/* Both lists are sorted, and have no common entries. */
static pal_pruned_part *merge_pruned(
        pal_draft *draft, const pal_pruned_part *added, size_t added_len)
{
    const pal_context_input *input = draft->input;
    size_t len = input->pruned_len + added_len, a = 0, b = 0;
    pal_pruned_part *merged = pal_arena_array(draft->arena, len, sizeof(*merged));
    for (size_t i = 0; merged && i < len; i++) {
        bool is_old = b == added_len;
        if (!is_old && a < input->pruned_len)
            is_old = input->pruned[a].seq < added[b].seq ||
                    (input->pruned[a].seq == added[b].seq && input->pruned[a].part < added[b].part);
        merged[i] = is_old ? input->pruned[a++] : added[b++];
    }
    return merged;
}

/* A prune rewrites nearly the complete window, a compaction only its end. So a prune is worth it
 * only if it frees as much as a cut. */
static bool is_worth(const pal_draft *draft, const pal_plan *plan, size_t len, uint64_t tokens)
{
    uint64_t room = draft->hard ? draft->hard : plan->tokens;
    uint64_t left = plan->tokens_plain > tokens ? plan->tokens_plain - tokens : 0;
    left += len * PLACEHOLDER_TOKENS;
    if (draft->input->after_overflow && plan->tokens < room)
        room = plan->tokens;
    return len > 0 &&
            pal_calibration_apply(&draft->input->calibration, left) <=
            pal_context_percent(room, draft->settings.low_water_percent);
}

static pal_status try_prune(pal_draft *draft, pal_plan *plan, pal_error *err)
{
    const pal_context_limits *limits = &draft->input->limits;
    pal_pruned_part *added = NULL;
    size_t len = 0;
    uint64_t tokens = 0;
    if (draft->settings.prune_off || draft->input->older_messages || pal_strategy_is_full(draft) ||
            (limits->bytes && plan->bytes > limits->bytes))
        return PAL_OK;
    pal_status status = pal_context_prune(draft->input, draft->arena, &added, &len, &tokens, err);
    if (status != PAL_OK || !is_worth(draft, plan, len, tokens))
        return status;
    plan->prune = merge_pruned(draft, added, len);
    plan->prune_len = draft->input->pruned_len + len;
    plan->prune_tokens = tokens;
    plan->action = PAL_PLAN_ACTION_PRUNE;
    return pal_draft_failure(draft, err);
}

/* ---- Compact ---- */

static pal_status list_kept(pal_draft *draft, size_t place, pal_plan *plan, pal_error *err)
{
    size_t end = draft->tail + place;
    uint64_t *seqs = pal_arena_array(draft->arena, end, sizeof(*seqs));
    size_t len = 0;
    if (!seqs)
        return pal_draft_failure(draft, err);
    for (size_t i = draft->kept; i < end; i++) {
        if (i < draft->tail ? pal_cut_line_lasts(draft, i) : draft->lines[i].must)
            seqs[len++] = draft->lines[i].seq;
    }
    plan->keep_seqs = seqs;
    plan->keep_len = len;
    return PAL_OK;
}

/* Returns false if there is nothing before `place` that a summary could replace. */
static bool measure_cut(const pal_draft *draft, size_t place, pal_plan *plan)
{
    uint64_t count = draft->input->older_messages, tokens = draft->input->older_tokens;
    for (size_t i = 0; i < place; i++) {
        const pal_line *line = pal_draft_tail(draft, i);
        count += !line->must;
        tokens += line->must ? 0 : line->size.tokens;
    }
    if (count == 0)
        return false;
    if (place > 0)
        plan->cut_seq = pal_draft_tail(draft, place - 1)->seq;
    else
        plan->cut_seq = draft->tail_len
                ? pal_draft_tail(draft, 0)->seq - 1
                : draft->input->checkpoint.seq + draft->input->older_messages;
    plan->cut_tokens = tokens;
    return true;
}

/* Returns whether the rest fits after any compaction; if not, no summary helps. */
static bool can_ever_fit(const pal_draft *draft, pal_size *out_least)
{
    pal_size least = pal_cut_lasting_size(draft);
    least.tokens += draft->cost_tokens[draft->tail_len];
    least.bytes += draft->cost_bytes[draft->tail_len];
    *out_least = least;
    return pal_context_size_fits(draft, least.tokens, least.bytes, draft->hard);
}

static size_t cut_place(const pal_draft *draft)
{
    switch (draft->settings.strategy) {
    case PAL_STRATEGY_SUMMARIZATION:
        return pal_cut_for_summarization(draft);
    case PAL_STRATEGY_RESET:
        return pal_cut_for_reset(draft);
    default:
        return pal_cut_for_compact(draft);
    }
}

static pal_status compact(pal_draft *draft, pal_plan *plan, pal_error *err)
{
    pal_size least;
    size_t place = cut_place(draft);
    if (!can_ever_fit(draft, &least)) {
        pal_refuse_least(draft, plan, least);
        return PAL_OK;
    }
    if (measure_cut(draft, place, plan)) {
        plan->action = PAL_PLAN_ACTION_COMPACT;
        return list_kept(draft, place, plan, err);
    }
    /* The only turn is the newest one: there is nothing to summarize. */
    if (pal_strategy_fits(draft, plan) && !draft->input->after_overflow) {
        plan->reason = PAL_TEXT("fits, and there is nothing older to leave out");
        return PAL_OK;
    }
    return pal_strategy_drop_turns(draft, plan, err);
}

static pal_status decide_over(pal_draft *draft, pal_plan *plan, pal_error *err)
{
    const pal_context_settings *settings = &draft->settings;
    if (settings->strategy == PAL_STRATEGY_NONE || settings->auto_off) {
        pal_refuse_whole(draft, plan);
        return PAL_OK;
    }
    pal_status status = pal_cut_find_places(draft, err);
    if (status != PAL_OK)
        return status;
    if (draft->input->after_compaction)
        return pal_strategy_drop_turns(draft, plan, err);
    if (settings->strategy == PAL_STRATEGY_COMPACT)
        status = try_prune(draft, plan, err);
    if (status == PAL_OK && plan->action == PAL_PLAN_ACTION_SEND)
        status = compact(draft, plan, err);
    return status;
}

/* The complete request does not fit, so "fits" is wrong for each of its parts. */
static void explain_over(pal_plan *plan, pal_str fits)
{
    for (size_t i = 0; i < plan->items_len; i++) {
        if (plan->items[i].reason.data == fits.data)
            plan->items[i].reason = PAL_TEXT("would be sent without any change");
    }
}

pal_status pal_strategy_decide(pal_draft *draft, pal_plan *plan, pal_error *err)
{
    pal_choice everything = {.sent = PAL_TEXT("fits")};
    if (draft->settings.strategy == PAL_STRATEGY_SLIDING_WINDOW)
        return pal_strategy_slide(draft, plan, err);
    pal_status status = pal_compose_plan(draft, &everything, plan, err);
    if (status != PAL_OK || !is_over(draft, plan))
        return status;
    status = decide_over(draft, plan, err);
    if (status == PAL_OK && plan->action != PAL_PLAN_ACTION_SEND)
        explain_over(plan, everything.sent);
    return status;
}
