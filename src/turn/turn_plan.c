/* turn_plan.c - what a turn does on a worker before it calls the model: loads, plans, prunes, and
 * reads the bytes of images. Touches of the turn only what the loop leaves alone meanwhile. */
#include "turn/turn_machine.h"

enum { PLANS_MAX = 3 };

pal_window pal_turn_window(const pal_turn *turn)
{
    const pal_runtime_options *options = &turn->runtime->options;
    const pal_turn_request *request = &turn->request;

    return (pal_window){
            .tenant = request->tenant,
            .session = request->session,
            .fence = turn->lane->fence,
            .model = request->model,
            .models = options->models,
            .system = request->has_system ? request->system : options->system,
            .system_exact = request->has_system,
            .tools = turn->last_call ? NULL : turn->tools,
            .tools_len = turn->last_call ? 0 : turn->tools_len,
            .limits = {.output = request->output_max},
            .settings = request->has_context ? request->context : options->context,
            .profile = pal_provider_profile(turn->provider),
            .family = pal_provider_family(turn->provider, request->model),
            .after_overflow = turn->after_overflow,
            .after_compaction = turn->after_compaction,
    };
}

static pal_status load_bytes(pal_turn *turn, pal_part *parts, size_t len, pal_error *err)
{
    pal_status status = PAL_OK;

    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        pal_part *part = &parts[i];
        pal_str media_type;

        if (part->blob.len > 0 && part->kind != PAL_PART_TOOL_RESULT && part->data.len == 0)
            status = pal_store_blob_get(turn->runtime->store, turn->request.tenant, part->blob,
                    turn->step_arena, &media_type, &part->data, err);
        if (status == PAL_OK && part->parts_len > 0)
            status = load_bytes(turn, part->parts, part->parts_len, err);
    }
    return status;
}

static pal_status make_request(pal_turn *turn, pal_error *err)
{
    pal_status status = pal_plan_messages(
            &turn->plan, turn->step_arena, &turn->request_messages, &turn->request_len, err);

    for (size_t i = 0; status == PAL_OK && i < turn->request_len; i++)
        status = load_bytes(
                turn, turn->request_messages[i].parts, turn->request_messages[i].parts_len, err);
    return status;
}

static pal_status begin_summary(pal_turn *turn, const pal_window *window, pal_error *err)
{
    pal_compaction compaction = {.reason = turn->after_overflow
                    ? pal_str_of("the model said that it was too long")
                    : pal_str_of("over the limit")};
    pal_compacted ignored;
    bool ready;

    turn->job_arena = pal_arena_new(0);
    turn->job = turn->job_arena ? pal_arena_alloc(turn->job_arena, sizeof(*turn->job)) : NULL;
    if (!turn->job)
        return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    return pal_compact_begin(turn->runtime->store, window, &compaction, turn->job_arena, turn->job,
            &ready, &ignored, err);
}

static pal_status check_sum(pal_turn *turn, pal_id session, uint64_t tokens_max, int64_t cost_max,
        const char *whose, pal_error *err)
{
    pal_ledger_sum sum = {0};
    uint64_t tokens;
    pal_status status = PAL_OK;

    if (tokens_max == 0 && cost_max == 0)
        return PAL_OK;
    status = pal_store_ledger_sum(turn->runtime->store, turn->request.tenant, session,
            turn->request.budget.since, 0, &sum, err);
    if (status != PAL_OK)
        return status;
    tokens = sum.usage.input + sum.usage.cache_read + sum.usage.cache_write + sum.usage.output;
    if (tokens_max > 0 && tokens >= tokens_max)
        return pal_error_set(err, PAL_LIMIT, "the budget of the %s is used up: %llu of %llu tokens",
                whose, (unsigned long long)tokens, (unsigned long long)tokens_max);
    if (cost_max > 0 && sum.cost_micros >= cost_max)
        return pal_error_set(err, PAL_LIMIT, "the budget of the %s is used up: %.4f of %.4f", whose,
                (double)sum.cost_micros / 1e6, (double)cost_max / 1e6);
    return PAL_OK;
}

static pal_status check_budget(pal_turn *turn, pal_error *err)
{
    const pal_budget *budget = &turn->request.budget;
    pal_status status = check_sum(turn, turn->request.session, budget->session_tokens,
            budget->session_cost_micros, "session", err);

    if (status == PAL_OK)
        status = check_sum(turn, (pal_id){{0}}, budget->tenant_tokens, budget->tenant_cost_micros,
                "tenant", err);
    return status;
}

static pal_status plan(pal_turn *turn, pal_error *err)
{
    pal_store *store = turn->runtime->store;
    pal_window window = pal_turn_window(turn);
    pal_window_view view;
    bool needs_epoch = false;
    pal_status status = check_budget(turn, err);

    for (int tries = 0; status == PAL_OK && tries < PLANS_MAX; tries++) {
        status = pal_window_load(store, &window, turn->step_arena, &view, err);
        if (status == PAL_OK)
            status = pal_context_plan(&view.input, turn->step_arena, &turn->plan, err);
        if (status != PAL_OK || turn->plan.action != PAL_ACTION_PRUNE)
            break;
        status = pal_window_prune(store, &window, &turn->plan, turn->step_arena, err);
        if (status != PAL_OK)
            break;
    }
    if (status != PAL_OK)
        return status;
    if (turn->plan.action == PAL_ACTION_REFUSE)
        return pal_error_set(err, turn->plan.refusal.status, "%s", turn->plan.refusal.message);
    if (turn->plan.action == PAL_ACTION_COMPACT)
        return begin_summary(turn, &window, err);
    status = pal_window_epoch_mark(
            &window, &view.standing, turn->step_arena, &turn->mark, &needs_epoch, err);
    if (!needs_epoch)
        turn->mark.kind = PAL_MARK_NONE;
    if (status == PAL_OK)
        status = make_request(turn, err);
    return status;
}

void pal_plan_work(pal_work_item *item)
{
    pal_turn *turn = pal_turn_of_work(item);

    turn->work_error = (pal_error){0};
    turn->work_status = plan(turn, &turn->work_error);
}
