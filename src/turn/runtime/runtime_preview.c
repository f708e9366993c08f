/* runtime_preview.c - shows what a turn would send, without running it. On the caller's thread,
 * except for the list of tools, which is copied on the loop. */
#include "base/memory.h"
#include "store/store_tenant.h"
#include "turn/runtime/runtime_ask.h"
#include "turn/turn.h"
#include "turn/turn_toolset.h"
#include "window/window_load.h"

typedef struct preview {
    pal_ask ask;
    pal_runtime *runtime;
    const pal_turn_request *request;
    pal_arena *arena;
    pal_turn_settings settings;
    pal_tool *tools;
    size_t tools_len;
    bool before_compaction;
} preview;

static void look_on_loop(pal_ask *ask)
{
    preview *p = (preview *)ask;

    p->tools = pal_toolset_gather(p->runtime, p->request, p->arena, &p->tools_len);
    if (p->settings.model.len == 0)
        p->settings.model =
                pal_arena_copy(p->arena, p->runtime->provider_models[p->settings.endpoint]);
}

/* Adds the request's messages after all recorded ones, as if they had been recorded. */
static pal_status add_messages(const preview *p, pal_context_input *input, pal_error *err)
{
    size_t len = p->request->messages_len;
    uint64_t seq = input->messages_len ? input->messages[input->messages_len - 1].seq : 0;
    pal_message *all = pal_arena_array(p->arena, input->messages_len + len + 1, sizeof(*all));
    pal_status status = PAL_OK;

    if (!all)
        return pal_no_memory(err);
    if (input->checkpoint.seq > seq)
        seq = input->checkpoint.seq;
    for (size_t i = 0; i < input->messages_len; i++)
        all[i] = input->messages[i];
    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        pal_message *message = &all[input->messages_len + i];
        uint64_t tokens = 0;

        *message = p->request->messages[i];
        message->seq = ++seq;
        status = pal_tokens_message(input->encoding, message, &tokens, err);
        message->tokens = tokens < UINT32_MAX ? (uint32_t)tokens : UINT32_MAX;
    }
    input->messages = all;
    input->messages_len += len;
    return status;
}

static pal_status plan_window(const preview *p, const pal_window *window,
        const pal_snapshot *snapshot, pal_plan *out_plan, pal_error *err)
{
    pal_window_known known = {.snapshot = snapshot};
    pal_window_view view;
    pal_status status = pal_window_load(p->runtime->store, window, &known, p->arena, &view, err);

    if (status == PAL_OK && p->request->messages_len > 0)
        status = add_messages(p, &view.input, err);
    if (status != PAL_OK)
        return status;
    if (p->before_compaction)
        pal_window_force_cut(&view.input);
    status = pal_context_plan(&view.input, p->arena, out_plan, err);
    if (status == PAL_OK)
        out_plan->is_estimate = !view.model.encoding || !view.model.is_exact;
    return status;
}

/* If the last request brought its own instructions and tools, the preview assumes that the next one
 * brings the same. */
static pal_status plan_again(const preview *p, pal_window window, const pal_snapshot *snapshot,
        pal_plan *plan, pal_error *err)
{
    pal_plan again;
    pal_status status;

    if (p->request->has_system || p->request->tools_len > 0 || plan->prefix_break.len == 0)
        return PAL_OK;
    window.assume_last = true;
    status = plan_window(p, &window, snapshot, &again, err);
    if (status == PAL_OK && again.prefix_items > plan->prefix_items)
        *plan = again;
    return status;
}

pal_status pal_turn_plan_state(pal_runtime *runtime, const pal_turn_request *request,
        const pal_plan_state *state, pal_arena *arena, pal_turn_preview *out_preview,
        pal_error *err)
{
    pal_turn_request asked = *request;
    pal_turn_preview shown = {0};
    preview p = {.ask.run = look_on_loop, .runtime = runtime, .request = &asked, .arena = arena};
    pal_window window;
    pal_snapshot snapshot;
    pal_status status;

    asked.tenant = pal_tenant_or_default(asked.tenant);
    status = pal_snapshot_begin(runtime->store, asked.tenant, asked.session, arena, &snapshot, err);
    if (status != PAL_OK)
        return status;
    status = pal_turn_settings_find(runtime, &asked, &snapshot.row.session, arena, &p.settings,
            err);
    if (status != PAL_OK)
        return status;
    status = pal_toolset_check(&asked, arena, err);
    if (status != PAL_OK)
        return status;
    pal_ask_loop(runtime->loop, &p.ask);
    if (!p.tools)
        return pal_no_memory(err);
    window = pal_turn_settings_window(runtime, &p.settings, &asked);
    window.tools = p.tools;
    window.tools_len = pal_turn_settings_tools(&p.settings, p.tools, p.tools_len, asked.tools_len);
    if (state) {
        window.at_seq = state->at_seq;
        window.without = state->without;
        window.without_len = state->without_len;
        p.before_compaction = state->before_compaction;
    }
    status = plan_window(&p, &window, &snapshot, &shown.plan, err);
    if (status == PAL_OK)
        status = plan_again(&p, window, &snapshot, &shown.plan, err);
    if (status != PAL_OK)
        return status;
    shown.endpoint = pal_arena_copy(
            arena, pal_provider_name(runtime->providers[p.settings.endpoint]));
    shown.model = p.settings.model;
    if (p.before_compaction && runtime->options.compaction_model.len)
        shown.model = pal_arena_copy(arena, runtime->options.compaction_model);
    *out_preview = shown;
    return pal_arena_checked(arena, err);
}

pal_status pal_turn_plan(pal_runtime *runtime, const pal_turn_request *request, pal_arena *arena,
        pal_plan *out_plan, pal_error *err)
{
    pal_turn_preview shown;
    pal_status status = pal_turn_plan_state(runtime, request, NULL, arena, &shown, err);

    if (status == PAL_OK)
        *out_plan = shown.plan;
    return status;
}
