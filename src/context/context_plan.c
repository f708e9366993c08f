/* context_plan.c - makes a plan: decides what the model sees.
 *
 * Everything that could be sent is listed in lines (context_draft.c), limited in images and bytes
 * (context_media.c), and the strategy decides (context_strategy.c). The repair is the last step for
 * everything that is sent (context_compose.c). Time and memory depend on the lines, not on the
 * length of the history. The same input gives the same plan. Any thread. */
#include "context/context_draft.h"

#include "context/context_text.h"

/* The limits in the form that a plan reports. */
static pal_status report_limits(const pal_draft *draft, pal_plan *plan, pal_error *err)
{
    const pal_context_limits *known = &draft->input->limits;
    const pal_context_settings *settings = &draft->settings;
    bool acts = settings->strategy != PAL_STRATEGY_NONE && !settings->auto_off;
    pal_plan_limits *limits = pal_arena_alloc(draft->arena, sizeof(*limits));
    if (!limits)
        return pal_draft_failure(draft, err);
    *limits = (pal_plan_limits){
            .context = known->context, .output = known->output, .usable = draft->hard};
    if (acts) {
        limits->threshold = draft->soft < draft->hard ? draft->soft + 1 : draft->hard;
        limits->low_water = pal_context_percent(draft->soft, settings->low_water_percent);
    }
    plan->limits = limits;
    return PAL_OK;
}

pal_status pal_context_plan(
        const pal_context_input *input, pal_arena *arena, pal_plan *out_plan, pal_error *err)
{
    pal_plan plan = {.strategy = input->settings.strategy, .is_estimate = !input->encoding};
    pal_draft draft = {.input = input, .arena = arena};
    pal_status status = pal_context_input_check(input, err);
    if (status != PAL_OK)
        return status;
    draft.settings = pal_context_settings_filled(&input->settings);
    pal_context_set_limits(&draft);
    plan.usable = draft.hard;
    plan.tools = input->tools;
    status = report_limits(&draft, &plan, err);
    if (status != PAL_OK)
        return status;
    status = pal_draft_make(&draft, err);
    if (status != PAL_OK)
        return status;
    status = pal_media_limit(&draft, err);
    if (status != PAL_OK)
        return status;
    status = pal_strategy_decide(&draft, &plan, err);
    if (status != PAL_OK)
        return status;
    if (input->last)
        pal_prefix_compare(&plan, input->last, arena);
    status = pal_draft_failure(&draft, err);
    if (status == PAL_OK)
        *out_plan = plan;
    return status;
}

pal_status pal_plan_messages(const pal_plan *plan, pal_arena *arena, pal_message **out_messages,
        size_t *out_len, pal_error *err)
{
    pal_message *messages = pal_arena_array(arena, plan->items_len, sizeof(*messages));
    size_t len = 0;
    if (!messages)
        return pal_error_set(err, pal_arena_failure(arena), "out of memory");
    for (size_t i = 0; i < plan->items_len; i++) {
        if (plan->items[i].message)
            messages[len++] = *plan->items[i].message;
    }
    *out_messages = messages;
    *out_len = len;
    return PAL_OK;
}
