/* turn_plan.c - the work of a turn before it calls the model: loads, plans, prunes, and reads the
 * bytes of images. On a worker. It uses only the members of the turn that the loop does not touch
 * meanwhile.
 *
 * A prune is committed before the plan relies on it. A crash leaves at most such a prune. */
#include "base/memory.h"
#include "memory/memory_shown.h"
#include "turn/runtime/runtime_budget.h"
#include "turn/turn_conversation.h"
#include "turn/turn.h"
#include "turn/turn_sender.h"
#include "turn/turn_toolset.h"
#include "window/window_load.h"

enum { PLANS_MAX = 3 };

/* Finds out whether notes are extracted from the session. */
static pal_status find_memory(pal_turn *turn, const pal_session *session, pal_error *err)
{
    const pal_memory_settings *settings = turn->runtime->options.memory;
    pal_note_place place;
    pal_status status;

    if (!settings || settings->model.len == 0)
        return PAL_OK;
    status = pal_note_place_of(session, turn->arena, &place, err);
    if (status == PAL_OK)
        turn->settings.has_memory = pal_memory_mode_of(settings, &place) != PAL_MEMORY_OFF;
    return status;
}

/* Chooses the model, the tools and all other settings: once, when the turn is the only one that
 * runs in the session. */
static pal_status settle(pal_turn *turn, const pal_session *session, pal_error *err)
{
    pal_status status;

    if (turn->step.provider)
        return PAL_OK;
    status = pal_turn_settings_find(
            turn->runtime, &turn->request, session, turn->arena, &turn->settings, err);
    if (status != PAL_OK)
        return status;
    turn->step.tools_len = pal_turn_settings_tools(
            &turn->settings, turn->step.tools, turn->step.tools_len, turn->request.tools_len);
    turn->step.provider = turn->runtime->providers[turn->settings.endpoint];
    turn->step.is_kept = pal_provider_keeps(turn->step.provider);
    return find_memory(turn, session, err);
}

/* Looks up the model and counts the tools, once: a plan is made for every step of the turn. */
static pal_status measure(pal_turn *turn, pal_error *err)
{
    if (turn->step.model.name.len > 0)
        return PAL_OK;
    turn->step.model = pal_models_find(turn->runtime->options.models, turn->settings.model);
    return pal_toolset_count(turn->runtime, turn->step.model.encoding, turn->step.tools,
            turn->step.tools_len, turn->arena, &turn->step.tool_tokens, err);
}

static pal_window turn_window(const pal_turn *turn)
{
    pal_window window = pal_turn_settings_window(turn->runtime, &turn->settings, &turn->request);

    window.fence = turn->commit.fence;
    window.tools = turn->step.tools;
    window.tools_len = turn->step.tools_len;
    window.after_overflow = turn->step.plan_after & PAL_PLAN_AFTER_OVERFLOW;
    window.after_compaction = turn->step.plan_after & PAL_PLAN_AFTER_COMPACTION;
    return window;
}

static pal_status load_bytes(pal_turn *turn, pal_part *parts, size_t len, pal_error *err)
{
    for (size_t i = 0; i < len; i++) {
        pal_part *part = &parts[i];
        pal_str media_type;
        pal_status status = PAL_OK;

        if (part->blob.len > 0 && part->kind != PAL_PART_TOOL_RESULT && part->data.len == 0)
            status = pal_store_blob_get(turn->runtime->store, turn->request.tenant, part->blob,
                    turn->step.arena, &media_type, &part->data, err);
        if (status == PAL_OK)
            status = load_bytes(turn, part->parts, part->parts_len, err);
        if (status != PAL_OK)
            return status;
    }
    return PAL_OK;
}

static pal_status load_messages(pal_turn *turn, pal_message *messages, size_t len, pal_error *err)
{
    pal_status status = PAL_OK;

    for (size_t i = 0; status == PAL_OK && i < len; i++)
        status = load_bytes(turn, messages[i].parts, messages[i].parts_len, err);
    return status;
}

static pal_status make_request(pal_turn *turn, pal_error *err)
{
    pal_status status = pal_plan_messages(&turn->step.plan, turn->step.arena, &turn->step.messages,
            &turn->step.messages_len, err);

    if (status != PAL_OK)
        return status;
    turn->step.messages_len =
            pal_sender_join(turn->step.messages, turn->step.messages_len, turn->step.arena);
    return load_messages(turn, turn->step.messages, turn->step.messages_len, err);
}

/* Copied because the plan is freed before the answer arrives. */
static pal_status note_sent(pal_turn *turn, pal_error *err)
{
    const pal_sent *sent = NULL;
    pal_status status = pal_plan_sent(&turn->step.plan, turn->step.arena, &sent, err);
    uint16_t *hashes;
    size_t size;

    if (status != PAL_OK)
        return status;
    size = sent->hashes_len * sizeof(*hashes);
    hashes = pal_malloc(size + 1); /* one more, because there may be none */
    if (!hashes)
        return pal_no_memory(err);
    memcpy(hashes, sent->hashes, size);
    pal_free(turn->step.sent_hashes);
    turn->step.sent_hashes = hashes;
    turn->step.sent = *sent;
    turn->step.sent.hashes = hashes;
    return PAL_OK;
}

static pal_compaction_request wanted_compaction(const pal_turn *turn)
{
    const pal_runtime_options *options = &turn->runtime->options;
    pal_compaction_request compaction = {.reason = turn->step.plan_after & PAL_PLAN_AFTER_OVERFLOW
                    ? pal_str_of("the model service rejected the request as too long")
                    : pal_str_of("over the limit")};

    if (turn->summary.wait)
        compaction = *turn->summary.wait->compaction;
    compaction.summarize = NULL;
    if (compaction.prompt.len == 0)
        compaction.prompt = options->compaction_prompt;
    if (compaction.model.len == 0)
        compaction.model = options->compaction_model;
    if (compaction.system.len == 0)
        compaction.system = options->compaction_system;
    if (compaction.parameters.len == 0)
        compaction.parameters = options->compaction_parameters;
    return compaction;
}

/* Another model or even another service may write the summary, with its own message format. */
static void choose_summary_provider(pal_turn *turn, pal_str model, pal_window *window)
{
    const pal_runtime *runtime = turn->runtime;
    size_t endpoint =
            pal_turn_settings_endpoint_of_model(&runtime->options, model, turn->settings.endpoint);

    turn->summary.provider = runtime->providers[endpoint];
    if (endpoint == turn->settings.endpoint)
        return;
    window->profile = pal_provider_profile(turn->summary.provider);
    window->family = pal_provider_family(turn->summary.provider, model);
}

/* If there is nothing to compact, turn->summary.job is NULL afterwards. */
static pal_status begin_summary(pal_turn *turn, pal_window window, pal_error *err)
{
    pal_compaction_request compaction = wanted_compaction(turn);
    pal_compaction_result nothing;
    bool ready = false;
    pal_compact_job *job;
    pal_status status;

    choose_summary_provider(turn, compaction.model, &window);
    turn->summary.arena = pal_arena_new(0);
    job = turn->summary.arena ? pal_arena_alloc(turn->summary.arena, sizeof(*job)) : NULL;
    if (!job)
        return pal_no_memory(err);
    status = pal_compact_begin(turn->runtime->store, &window, &compaction, turn->summary.arena, job,
            &ready, &nothing, err);
    if (status != PAL_OK)
        goto out;
    if (!ready && turn->summary.wait)
        *turn->summary.wait->out_compacted = (pal_compaction_result){
                .note = pal_arena_copy(turn->summary.wait->arena, nothing.note)};
    if (!ready)
        goto out;
    status = load_messages(
            turn, (pal_message *)job->request.messages, job->request.messages_len, err);
    if (status != PAL_OK)
        goto out;
    turn->summary.job = job;
    return PAL_OK;
out:
    pal_arena_free(turn->summary.arena);
    turn->summary.arena = NULL;
    return status;
}

/* Loads and plans until there is nothing to prune. A prune is stored before the plan relies on
 * it. */
static pal_status plan_window(pal_turn *turn, pal_window *window, const pal_snapshot *snapshot,
        pal_window_view *view, pal_error *err)
{
    pal_store *store = turn->runtime->store;
    pal_window_known known = {
            .model = &turn->step.model, .tool_tokens = turn->step.tool_tokens};
    pal_status status = PAL_OK;

    for (int tries = 0; status == PAL_OK && tries < PLANS_MAX; tries++) {
        known.snapshot = tries == 0 ? snapshot : NULL;
        status = pal_window_load(store, window, &known, turn->step.arena, view, err);
        if (status == PAL_OK)
            status = pal_conversation_full(turn, &view->input, &window->full_tokens, err);
        if (status != PAL_OK)
            break;
        view->input.full_tokens = window->full_tokens;
        /* A prune leaves nothing more to prune. If it still did, the last plan must not send too
         * much for that reason. */
        view->input.settings.prune_off |= tries + 1 == PLANS_MAX;
        status = pal_context_plan(&view->input, turn->step.arena, &turn->step.plan, err);
        if (status != PAL_OK || turn->step.plan.action != PAL_PLAN_ACTION_PRUNE)
            break;
        status = pal_window_prune(store, window, &turn->step.plan, turn->step.arena, err);
    }
    return status;
}

static pal_status plan_or_compact(pal_turn *turn, pal_window *window, const pal_snapshot *snapshot,
        pal_window_view *view, pal_error *err)
{
    pal_status status = plan_window(turn, window, snapshot, view, err);

    if (status != PAL_OK || turn->step.plan.action != PAL_PLAN_ACTION_COMPACT)
        return status;
    status = begin_summary(turn, *window, err);
    if (status != PAL_OK || turn->summary.job)
        return status;
    turn->step.plan_after |= PAL_PLAN_AFTER_COMPACTION;
    window->after_compaction = true;
    return plan_window(turn, window, NULL, view, err);
}

/* Reserves the answer's tokens before anything is read. The tokens of the request are added when
 * they are known. */
static pal_status hold_budget(pal_turn *turn, pal_error *err)
{
    pal_runtime *runtime = turn->runtime;
    const pal_turn_request *request = &turn->request;
    pal_budget_holder holder = {&request->budget, request->tenant, request->session};
    uint64_t asked = request->output_max ? request->output_max : PAL_BUDGET_OUTPUT_TOKENS;
    pal_usage usage = {
            .output = asked < PAL_BUDGET_OUTPUT_TOKENS ? asked : PAL_BUDGET_OUTPUT_TOKENS};
    pal_reservation *held;
    pal_status status;

    /* The ledger has the previous call. */
    pal_budget_release(atomic_exchange(&turn->step.held, NULL));
    status = pal_budget_hold(&runtime->budgets, runtime->store, &holder, usage.output,
            pal_budget_cost(runtime, turn->settings.model, &usage), &held, err);
    if (status == PAL_OK)
        atomic_store(&turn->step.held, held);
    return status;
}

static void hold_input(pal_turn *turn)
{
    pal_usage usage = {.input = turn->step.plan.tokens};

    pal_budget_hold_more(atomic_load(&turn->step.held), usage.input,
            pal_budget_cost(turn->runtime, turn->settings.model, &usage));
}

static pal_status plan(pal_turn *turn, const pal_snapshot *snapshot, pal_error *err)
{
    pal_window window = turn_window(turn);
    pal_window_view view;
    pal_status status = hold_budget(turn, err);

    if (status != PAL_OK)
        return status;
    if (turn->summary.wait)
        return begin_summary(turn, window, err);
    status = measure(turn, err);
    if (status != PAL_OK)
        return status;
    status = plan_or_compact(turn, &window, snapshot, &view, err);
    if (status != PAL_OK || turn->summary.job)
        return status;
    if (turn->step.plan.action == PAL_PLAN_ACTION_REFUSE)
        return pal_error_set(
                err, turn->step.plan.refusal.status, "%s", turn->step.plan.refusal.message);
    hold_input(turn);
    status = pal_window_epoch_mark(
            &window, &view, turn->step.arena, &turn->commit.mark, err);
    if (status != PAL_OK)
        return status;
    status = note_sent(turn, err);
    if (status != PAL_OK)
        return status;
    status = make_request(turn, err);
    if (status != PAL_OK)
        return status;
    return pal_conversation_find(turn, &view.input, err);
}

void pal_plan_work(pal_work_item *item)
{
    pal_turn *turn = PAL_TURN_OF(item, work);
    pal_error *err = &turn->work_error;
    /* settings outlive the step */
    pal_arena *arena = turn->step.provider ? turn->step.arena : turn->arena;
    pal_snapshot snapshot;

    *err = (pal_error){0};
    turn->work_status = PAL_OK;
    if (turn->found.session)
        snapshot = *turn->found.session;
    else
        turn->work_status = pal_snapshot_begin_ahead(turn->runtime->store, turn->request.tenant,
                turn->request.session, &pal_window_ahead, arena, &snapshot, err);
    if (turn->work_status != PAL_OK)
        return;
    turn->work_status = settle(turn, &snapshot.row.session, err);
    if (turn->work_status == PAL_OK && turn->settings.model.len > 0)
        turn->work_status = plan(turn, &snapshot, err);
}
