/* context_refuse.c - explains why nothing can be sent: the limit, the amount over it, and a
 * remedy. */
#include "context/context_draft.h"

#include <inttypes.h>
#include "context/context_text.h"

static void set_refusal(pal_plan *plan, pal_str reason)
{
    plan->action = PAL_PLAN_ACTION_REFUSE;
    plan->reason = reason;
}

/* If only the bytes exceed their limit, the error names the bytes: tokens would explain nothing. */
static bool is_bytes(const pal_draft *draft, uint64_t tokens, uint64_t bytes)
{
    const pal_context_limits *limits = &draft->input->limits;
    return limits->bytes && bytes > limits->bytes && (!draft->hard || tokens <= draft->hard);
}

void pal_refuse_whole(const pal_draft *draft, pal_plan *plan)
{
    const pal_context_input *input = draft->input;
    const char *advice = draft->settings.strategy == PAL_STRATEGY_NONE
            ? "strategy 'none' leaves nothing out; use another strategy"
            : "automatic compaction is off; compact the session";
    set_refusal(plan, PAL_TEXT("over the limit, and nothing may be left out"));
    uint64_t tokens =
            plan->tokens + pal_calibration_apply(&input->calibration, input->older_tokens);
    if (is_bytes(draft, tokens, plan->bytes))
        pal_error_set(&plan->refusal, PAL_LIMIT,
                "the request has %" PRIu64 " bytes, %" PRIu64 " over the limit of %" PRIu64 "; %s",
                plan->bytes, plan->bytes - input->limits.bytes, input->limits.bytes, advice);
    else if (draft->hard && tokens > draft->hard)
        pal_error_set(&plan->refusal, PAL_LIMIT,
                "the request has %" PRIu64 " tokens, %" PRIu64 " over the limit of %" PRIu64 "; %s",
                tokens, tokens - draft->hard, draft->hard, advice);
    else if (input->older_messages)
        pal_error_set(&plan->refusal, PAL_LIMIT,
                "%" PRIu64 " older messages were left out for room; %s", input->older_messages,
                advice);
    else
        pal_refuse_again(draft, plan);
}

/* Calibrated tokens of the parts that cannot be left out. */
typedef struct breakdown {
    uint64_t system;
    uint64_t tools;
    uint64_t kept; /* summary and pinned messages */
} breakdown;

static breakdown break_down(const pal_draft *draft)
{
    breakdown parts = {0};
    for (size_t i = 0; i < draft->tail; i++) {
        const pal_line *line = &draft->lines[i];
        uint64_t tokens = pal_calibration_apply(&draft->input->calibration, line->size.tokens);
        if (line->kind == PAL_PLAN_ITEM_SYSTEM)
            parts.system += tokens;
        else if (line->kind == PAL_PLAN_ITEM_TOOLS)
            parts.tools += tokens;
        else if (line->kind != PAL_PLAN_ITEM_RANGE && i != draft->notice)
            parts.kept += tokens;
    }
    return parts;
}

void pal_refuse_least(const pal_draft *draft, pal_plan *plan, pal_size least)
{
    uint64_t tokens = pal_calibration_apply(&draft->input->calibration, least.tokens);
    breakdown parts = break_down(draft);
    uint64_t known = parts.system + parts.tools + parts.kept;
    set_refusal(plan, PAL_TEXT("not even the newest message fits"));
    if (is_bytes(draft, tokens, least.bytes)) {
        pal_error_set(&plan->refusal, PAL_LIMIT,
                "the required messages have %" PRIu64 " bytes, %" PRIu64
                " over the limit of %" PRIu64
                "; shorten the newest message, or send large content as a file",
                least.bytes, least.bytes - draft->input->limits.bytes, draft->input->limits.bytes);
        return;
    }
    pal_error_set(&plan->refusal, PAL_LIMIT,
            "the required messages have %" PRIu64 " tokens, %" PRIu64 " over the limit of %" PRIu64
            ": system %" PRIu64 ", tools %" PRIu64 ", kept %" PRIu64 ", newest %" PRIu64
            "; shorten or unpin messages, or use a model with a larger window",
            tokens, tokens > draft->hard ? tokens - draft->hard : 0, draft->hard, parts.system,
            parts.tools, parts.kept, tokens > known ? tokens - known : 0);
}

void pal_refuse_again(const pal_draft *draft, pal_plan *plan)
{
    set_refusal(plan,
            PAL_TEXT("the provider rejected the request as too long, and nothing more can be left "
                     "out"));
    pal_error_set(&plan->refusal, PAL_LIMIT,
            "the provider rejected the request as too long: it has %" PRIu64 " of at most %" PRIu64
            " tokens by the known limits, and nothing more can be left out; shorten the "
            "newest message, or set the model's limits",
            plan->tokens, draft->hard);
}
