/* turn_window.c - loads what a plan needs: the tail, from the end backwards as far as the model's
 * limit reaches, and what stands before it. Reads only. */
#include "turn/turn_window_inside.h"

/* A tail of twice what may be sent shows a compaction all that it has to summarise. */
enum { TAIL_FACTOR = 2, ANSWER_SHARE = 4 };

#define TAIL_BYTES_MAX ((uint64_t)256 << 20)

static void set_limits(const pal_window *window, const pal_model *model, pal_context_limits *limits)
{
    *limits = window->limits;
    if (limits->context == 0)
        limits->context = model->context ? model->context : PAL_CONTEXT_TOKENS_DEFAULT;
    if (limits->output == 0)
        limits->output = model->output;
    /* Of a small model, 32,000 for an answer of unknown length would leave nothing to ask with. */
    if (limits->output == 0)
        limits->output = limits->context / ANSWER_SHARE;
    pal_profile_limits(window->profile, limits);
}

/* Tokens to load: what may be sent by the counts that are stored, whatever the provider's are. */
static uint64_t tail_tokens(const pal_context_input *input)
{
    uint64_t usable = pal_context_usable(&input->limits);

    if (input->settings.max_tokens && input->settings.max_tokens < usable)
        usable = input->settings.max_tokens;
    return (usable + 1) * TAIL_FACTOR;
}

static pal_status load_tail(
        const pal_reading *reading, pal_arena *arena, pal_window_view *view, pal_error *err)
{
    pal_context_input *input = &view->input;
    pal_load load = {
            .after_seq = input->checkpoint.seq,
            .tokens_max = tail_tokens(input),
            .bytes_max = TAIL_BYTES_MAX,
            .from_end = true,
    };
    pal_messages tail;
    pal_status status = pal_reading_load(reading, &load, arena, &tail, err);

    if (status == PAL_OK && tail.len == 0 && tail.has_more) {
        /* The newest message alone is larger than that: the plan has to say so. */
        load = (pal_load){.after_seq = input->checkpoint.seq, .limit = 1, .from_end = true};
        status = pal_reading_load(reading, &load, arena, &tail, err);
    }
    if (status != PAL_OK)
        return status;
    input->messages = tail.items;
    input->messages_len = tail.len;
    if (tail.has_more && tail.len > 0)
        status = pal_reading_count(
                reading, input->checkpoint.seq, tail.items[0].seq, &input->older_messages, err);
    view->is_tail_all = !tail.has_more && input->checkpoint.seq == 0;
    return status;
}

/* The session's leading system message goes first, whatever is cut behind it. */
static pal_status load_head(
        const pal_reading *reading, pal_arena *arena, pal_window_view *view, pal_error *err)
{
    pal_context_input *input = &view->input;
    pal_load load = {.limit = 1};
    pal_messages first = {.items = (pal_message *)input->messages, .len = input->messages_len};
    pal_status status = PAL_OK;

    if (!view->is_tail_all)
        status = pal_reading_load(reading, &load, arena, &first, err);
    if (status != PAL_OK || first.len == 0 || first.items[0].role != PAL_ROLE_SYSTEM)
        return status;
    input->head = &first.items[0];
    if (input->messages_len > 0 && input->messages[0].seq == input->head->seq) {
        input->messages++;
        input->messages_len--;
    } else if (input->older_messages > 0 && input->head->seq > input->checkpoint.seq) {
        input->older_messages--;
    }
    return PAL_OK;
}

static pal_status read_marks(const pal_reading *reading, const pal_window *window, pal_arena *arena,
        pal_window_view *view, pal_error *err)
{
    const pal_standing *standing = &view->standing;
    pal_context_input *input = &view->input;
    pal_epoch_record epoch;
    pal_pruned *pruned;
    pal_status status = PAL_OK;

    if (standing->checkpoint.number)
        status = pal_checkpoint_read(&standing->checkpoint, arena, &view->record, err);
    if (status == PAL_OK && standing->checkpoint.number)
        status = pal_reading_count(reading, 0, view->record.checkpoint.seq + 1,
                &view->record.checkpoint.messages, err);
    if (status == PAL_OK)
        status = pal_prunes_read(
                standing->prunes, standing->prunes_len, arena, &pruned, &input->pruned_len, err);
    if (status != PAL_OK)
        return status;
    input->checkpoint = view->record.checkpoint;
    input->pruned = pruned;
    if (standing->epoch.number == 0 || window->system_exact)
        return PAL_OK;
    status = pal_epoch_read(&standing->epoch, arena, &epoch, err);
    if (status != PAL_OK)
        return status;
    input->system = epoch.system;
    if (pal_window_same_tools(&epoch, window, arena))
        input->tools = epoch.tools; /* byte for byte what was sent before */
    return PAL_OK;
}

pal_status pal_window_load(pal_store *store, const pal_window *window, const pal_reading *reading,
        pal_arena *arena, pal_window_view *out_view, pal_error *err)
{
    pal_window_view view = {.model = pal_models_find(window->models, window->model)};
    pal_context_input *input = &view.input;
    pal_reading own;
    pal_status status = PAL_OK;

    if (!reading) {
        status = pal_reading_begin(store, window->tenant, window->session, arena, &own, err);
        reading = &own;
    }
    if (status == PAL_OK)
        status = pal_reading_standing(reading, arena, &view.standing, err);
    if (status != PAL_OK)
        return status;
    input->system = window->system;
    input->tools = window->tools;
    input->tools_len = window->tools_len;
    input->settings = window->settings;
    input->profile = window->profile;
    input->family = window->family;
    input->encoding = view.model.encoding;
    input->pending = window->pending;
    input->pending_len = window->pending_len;
    input->after_overflow = window->after_overflow;
    input->after_compaction = window->after_compaction;
    input->last = window->last;
    set_limits(window, &view.model, &input->limits);
    status = read_marks(reading, window, arena, &view, err);
    if (status == PAL_OK)
        status = load_tail(reading, arena, &view, err);
    if (status == PAL_OK)
        status = load_head(reading, arena, &view, err);
    if (status == PAL_OK)
        status = pal_window_load_kept(store, window, arena, &view, err);
    if (status == PAL_OK)
        status = pal_window_finish(store, window, &view, err);
    if (status == PAL_OK)
        status = pal_window_calibrate(window, &view, err);
    if (status == PAL_OK)
        *out_view = view;
    return status;
}

pal_status pal_window_plan(pal_store *store, const pal_window *window, pal_arena *arena,
        pal_plan *out_plan, pal_error *err)
{
    pal_window_view view;
    pal_status status = pal_window_load(store, window, NULL, arena, &view, err);

    if (status == PAL_OK)
        status = pal_context_plan(&view.input, arena, out_plan, err);
    if (status == PAL_OK)
        out_plan->is_estimate = !view.model.encoding || !view.model.is_exact;
    return status;
}
