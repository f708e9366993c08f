/* window_load.c - loads what a plan needs: the tail, from the end backward up to the model's limit,
 * and the kept messages before it. Reads only; can block. */
#include "window/window_internal.h"

#include "base/memory.h"

/* With a tail of twice the sendable size, a compaction sees everything that it has to summarize. */
enum { TAIL_FACTOR = 2, ANSWER_SHARE = 4, LAST_MESSAGES = 8 };

#define TAIL_BYTES_MAX ((uint64_t)256 << 20)
#define CONTEXT_TOKENS_OPEN ((uint64_t)1 << 32) /* more than any model has */

const pal_ahead_wants pal_window_ahead = {.rows_max = 64, .first_rows = true, .marks = true};

/* A small context is assumed for a model with unknown limits, so that older messages are left out
 * in time. If nothing may be left out, a refusal would be a guess, so the service decides. */
static uint64_t assumed_context(const pal_window *window)
{
    return window->settings.strategy == PAL_STRATEGY_NONE ? CONTEXT_TOKENS_OPEN
                                                          : PAL_CONTEXT_TOKENS_DEFAULT;
}

static void set_limits(const pal_window *window, const pal_model *model, pal_context_limits *limits)
{
    *limits = window->limits;
    if (limits->context == 0)
        limits->context = model->context ? model->context : assumed_context(window);
    if (limits->input == 0)
        limits->input = model->input;
    if (limits->output == 0)
        limits->output = model->output;
    /* For a small model, reserving 32,000 tokens for an answer of unknown length would leave no
     * room for the request. */
    if (limits->output == 0)
        limits->output = limits->context / ANSWER_SHARE;
    pal_profile_limits(window->profile, limits);
}

/* The default threshold of `reset` leaves the room free that the limits state for an answer. A
 * threshold from the settings, or an answer of unknown length, does not change it. */
static void set_threshold(
        const pal_window *window, const pal_model *model, pal_context_input *input)
{
    uint64_t usable = pal_context_usable(&input->limits);
    bool is_stated = window->limits.output || model->output;

    if (input->settings.strategy == PAL_STRATEGY_RESET && !input->settings.compaction_threshold &&
            is_stated && usable < PAL_COMPACTION_THRESHOLD)
        input->settings.compaction_threshold = usable;
}

/* Returns the number of tokens to load, by the stored counts: the sendable tokens, and the pruned
 * ones, which are loaded but not sent. */
static uint64_t tail_tokens(const pal_window_view *view)
{
    uint64_t tokens = pal_context_sendable(&view->input) + 1;

    return tokens * TAIL_FACTOR + view->pruned_tokens;
}

/* Counts the messages between the checkpoint and the tail. The session knows the tokens of all its
 * messages. If other messages are hidden, the older ones are assumed to be as long as those of the
 * tail. */
static pal_status count_older(
        const pal_snapshot *snapshot, pal_context_input *input, pal_error *err)
{
    const pal_session *session = &snapshot->row.session;
    uint64_t tail = 0, is_shown = 0;
    pal_status status = pal_snapshot_count(snapshot, input->checkpoint.seq, input->messages[0].seq,
            &input->older_messages, err);

    if (status == PAL_OK)
        status = pal_snapshot_count(snapshot, 0, session->last_seq + 1, &is_shown, err);
    for (size_t i = 0; i < input->messages_len; i++)
        tail += input->messages[i].tokens;
    input->older_tokens = tail / input->messages_len * input->older_messages;
    if (pal_id_is_none(session->parent_id) && is_shown == session->last_seq &&
            session->tokens >= tail + input->checkpoint.hidden_tokens)
        input->older_tokens = session->tokens - tail - input->checkpoint.hidden_tokens;
    return status;
}

/* Nothing is left of an erased message that a model could be sent. */
static size_t drop_erased(pal_message *messages, size_t len)
{
    size_t kept = 0;

    for (size_t i = 0; i < len; i++)
        if (!(messages[i].flags & PAL_MESSAGE_FLAG_ERASED))
            messages[kept++] = messages[i];
    return kept;
}

static pal_status load_tail(
        const pal_snapshot *snapshot, pal_arena *arena, pal_window_view *view, pal_error *err)
{
    pal_context_input *input = &view->input;
    pal_message_query load = {
            .after_seq = input->checkpoint.seq,
            .tokens_max = tail_tokens(view),
            .bytes_max = TAIL_BYTES_MAX,
            .from_end = true,
    };
    pal_message_page tail;
    pal_status status = pal_snapshot_load(snapshot, &load, arena, &tail, err);

    if (status == PAL_OK && tail.len == 0 && tail.has_more) {
        /* The newest message alone exceeds the limit: the plan must report that. */
        load = (pal_message_query){
                .after_seq = input->checkpoint.seq, .limit = 1, .from_end = true};
        status = pal_snapshot_load(snapshot, &load, arena, &tail, err);
    }
    if (status != PAL_OK)
        return status;
    input->messages = tail.items;
    input->messages_len = tail.len;
    if (tail.has_more && tail.len > 0)
        status = count_older(snapshot, input, err);
    view->is_tail_all = !tail.has_more && input->checkpoint.seq == 0;
    input->messages_len = drop_erased(tail.items, tail.len);
    return status;
}

/* The session's leading system message always comes first, whatever is cut after it. */
static pal_status load_head(
        const pal_snapshot *snapshot, pal_arena *arena, pal_window_view *view, pal_error *err)
{
    pal_context_input *input = &view->input;
    pal_message_query load = {.limit = 1};
    pal_message_page first = {.items = (pal_message *)input->messages, .len = input->messages_len};
    pal_status status = PAL_OK;

    if (!view->is_tail_all)
        status = pal_snapshot_load(snapshot, &load, arena, &first, err);
    if (status != PAL_OK || first.len == 0 || first.items[0].role != PAL_ROLE_SYSTEM ||
            first.items[0].flags & PAL_MESSAGE_FLAG_ERASED)
        return status;
    input->head = &first.items[0];
    if (input->messages_len > 0 && input->messages[0].seq == input->head->seq) {
        input->messages++;
        input->messages_len--;
    } else if (input->older_messages > 0 && input->head->seq > input->checkpoint.seq) {
        input->older_messages--;
        input->older_tokens -= input->head->tokens < input->older_tokens ? input->head->tokens
                                                                         : input->older_tokens;
    }
    return PAL_OK;
}

static pal_status read_marks(const pal_snapshot *snapshot, const pal_window *window,
        pal_arena *arena, pal_window_view *view, pal_error *err)
{
    const pal_active_marks *active = &view->active;
    pal_context_input *input = &view->input;
    pal_epoch_record epoch;
    pal_pruned_part *pruned;
    pal_status status = PAL_OK;

    if (active->checkpoint.number)
        status = pal_window_checkpoint_read(&active->checkpoint, arena, &view->record, err);
    if (status == PAL_OK && active->checkpoint.number)
        status = pal_snapshot_count(snapshot, 0, view->record.checkpoint.seq + 1,
                &view->record.checkpoint.messages, err);
    if (status == PAL_OK)
        status = pal_window_prunes_read(active->prunes, active->prunes_len, arena, &pruned,
                &input->pruned_len, &view->pruned_tokens, err);
    if (status != PAL_OK)
        return status;
    input->checkpoint = view->record.checkpoint;
    input->pruned = pruned;
    if (active->epoch.number == 0)
        return PAL_OK;
    status = pal_window_epoch_read(&active->epoch, arena, &epoch, err);
    if (status != PAL_OK)
        return status;
    if (window->assume_last || (!epoch.is_own && !window->system_exact))
        input->system = epoch.system;
    view->keeps_epoch = pal_window_same_tools(&epoch, window, arena);
    view->epoch.notes = epoch.notes;
    view->epoch.notes_more = epoch.notes_more;
    view->epoch.notes_at = epoch.notes_at;
    if (window->assume_last || view->keeps_epoch) {
        input->tools = epoch.tools; /* the same bytes as in earlier requests */
        input->tools_len = epoch.tools_len;
    }
    return PAL_OK;
}

/* Tools are counted once by the caller, and not in every plan. The list is copied: the one of the
 * window is the caller's. */
static pal_status set_tool_tokens(
        const pal_window *window, const uint64_t *tokens, pal_arena *arena, pal_window_view *view,
        pal_error *err)
{
    pal_context_input *input = &view->input;
    pal_tool *tools;

    if (!tokens || input->tools_len == 0 || (input->tools != window->tools && !view->keeps_epoch))
        return PAL_OK;
    tools = pal_arena_array(arena, input->tools_len, sizeof(*tools));
    if (!tools)
        return pal_no_memory(err);
    for (size_t i = 0; i < input->tools_len; i++) {
        tools[i] = input->tools[i];
        tools[i].tokens = tokens[i];
    }
    input->tools = tools;
    return PAL_OK;
}

static const pal_sent *newest_sent(const pal_message *messages, size_t len)
{
    for (size_t i = len; i-- > 0;)
        if (messages[i].sent && messages[i].sent->items > 0)
            return messages[i].sent;
    return NULL;
}

/* Finds the last request, by the data that the newest answer keeps of it. If a compaction has cut
 * off that answer, it is among the last messages before the tail. */
static pal_status find_last(const pal_snapshot *snapshot, const pal_window *window,
        pal_arena *arena, pal_window_view *view, pal_error *err)
{
    pal_context_input *input = &view->input;
    const pal_sent *sent = view->sent;
    pal_context_last *last;
    pal_status status = PAL_OK;

    input->last = window->last;
    if (window->last)
        return PAL_OK;
    if (!sent)
        sent = newest_sent(input->messages, input->messages_len);
    if (!sent && input->checkpoint.number) {
        pal_message_query load = {.before_seq = input->checkpoint.seq + 1,
                .limit = LAST_MESSAGES,
                .from_end = true};
        pal_message_page before;

        status = pal_snapshot_load(snapshot, &load, arena, &before, err);
        if (status == PAL_OK)
            sent = newest_sent(before.items, before.len);
    }
    if (status != PAL_OK || !sent)
        return status;
    last = pal_arena_alloc(arena, sizeof(*last));
    if (!last)
        return pal_no_memory(err);
    last->sent = sent;
    input->last = last;
    return PAL_OK;
}

/* Shows an earlier state of the session, or one without some marks. The message `at_seq` itself is
 * not part of it, so its request is read before. */
static pal_status go_back(pal_snapshot *snapshot, const pal_window *window, pal_arena *arena,
        pal_window_view *view, pal_error *err)
{
    pal_message_query load = {
            .after_seq = window->at_seq - 1, .before_seq = window->at_seq + 1, .hidden = true};
    pal_message_page found = {0};
    pal_status status = PAL_OK;

    if (window->at_seq == 0 && window->without_len == 0)
        return PAL_OK;
    if (window->at_seq > 0 && window->at_seq <= snapshot->row.session.last_seq)
        status = pal_snapshot_load(snapshot, &load, arena, &found, err);
    if (status != PAL_OK)
        return status;
    view->sent = newest_sent(found.items, found.len);
    return pal_snapshot_go_back(snapshot, window->at_seq, window->without, window->without_len,
            arena, err);
}

/* Copies the conditions of the plan, and fills in the model's limits. */
static void set_input(const pal_window *window, pal_window_view *view)
{
    pal_context_input *input = &view->input;

    input->system = window->system;
    input->tools = window->tools;
    input->tools_len = window->tools_len;
    input->settings = window->settings;
    input->profile = window->profile;
    input->family = window->family;
    input->encoding = view->model.encoding;
    input->pending = window->pending;
    input->pending_len = window->pending_len;
    input->after_overflow = window->after_overflow;
    input->after_compaction = window->after_compaction;
    input->full_tokens = window->full_tokens;
    input->pruned_text = window->pruned_text;
    input->pruned_user = window->pruned_user;
    set_limits(window, &view->model, &input->limits);
    set_threshold(window, &view->model, input);
}

static pal_status load_messages(
        const pal_snapshot *snapshot, pal_arena *arena, pal_window_view *view, pal_error *err)
{
    pal_status status = load_tail(snapshot, arena, view, err);

    if (status != PAL_OK)
        return status;
    status = load_head(snapshot, arena, view, err);
    if (status != PAL_OK)
        return status;
    return pal_window_load_kept(snapshot, arena, view, err);
}

pal_status pal_window_load(pal_store *store, const pal_window *window,
        const pal_window_known *known, pal_arena *arena, pal_window_view *out_view, pal_error *err)
{
    static const pal_window_known nothing;
    pal_window_view view = {0};
    pal_snapshot snapshot;
    pal_status status = PAL_OK;

    if (!known)
        known = &nothing;
    view.model = known->model ? *known->model : pal_models_find(window->models, window->model);
    if (known->snapshot)
        snapshot = *known->snapshot;
    else
        status = pal_snapshot_begin_ahead(store, window->tenant, window->session,
                &pal_window_ahead, arena, &snapshot, err);
    if (status == PAL_OK)
        status = go_back(&snapshot, window, arena, &view, err);
    if (status != PAL_OK)
        return status;
    status = pal_snapshot_active_marks(&snapshot, arena, &view.active, err);
    if (status != PAL_OK)
        return status;
    set_input(window, &view);
    status = read_marks(&snapshot, window, arena, &view, err);
    if (status != PAL_OK)
        return status;
    status = set_tool_tokens(window, known->tool_tokens, arena, &view, err);
    if (status != PAL_OK)
        return status;
    status = load_messages(&snapshot, arena, &view, err);
    if (status == PAL_OK && window->memory)
        status = pal_window_notes(store, window, &snapshot.row.session, arena, &view, err);
    if (status != PAL_OK)
        return status;
    status = pal_window_finish(store, window, &view, err);
    if (status != PAL_OK)
        return status;
    status = find_last(&snapshot, window, arena, &view, err);
    if (status != PAL_OK)
        return status;
    pal_window_calibrate(window, &view);
    *out_view = view;
    return PAL_OK;
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
