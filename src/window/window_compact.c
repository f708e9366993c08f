/* window_compact.c - makes a checkpoint, which replaces the older part of a conversation.
 *
 * Nothing is deleted. A checkpoint is one more mark, and is committed together with the ledger row
 * of the model call that made it. A crash before that commit leaves the conversation unchanged, and
 * the next turn compacts again. After the commit the checkpoint is durable.
 *
 * There are two halves, with the model call between them. pal_compact_begin() chooses the cut and
 * makes the request. pal_compact_end() takes the answer, or works without one. Both use the store
 * and can block, so they run on workers or on the caller's thread. */
#include "window/window_compact_internal.h"

#include "base/buf.h"
#include "context/context_text.h"
#include "dialect/dialect_member.h"
#include "window/window_prompt.h"

enum { HINT_MESSAGES = 6, HINT_TEXT_LEN_MAX = 1000 };

static pal_str arena_text(pal_arena *arena, pal_buf *buf)
{
    pal_str text = buf->failure == PAL_OK ? pal_arena_copy(arena, pal_buf_str(buf)) : (pal_str){0};

    pal_buf_done(buf);
    return text;
}

/* ---- The reset strategy ---- */

static void hint_line(pal_buf *buf, const pal_message *message)
{
    for (size_t i = 0; i < message->parts_len; i++) {
        const pal_part *part = &message->parts[i];
        pal_str text = part->text;

        if (part->kind != PAL_PART_TEXT || text.len == 0)
            continue;
        pal_buf_format(buf, "\n%s: ", pal_role_name(message->role));
        pal_buf_append_str(buf, pal_prompt_excerpt(text, HINT_TEXT_LEN_MAX));
    }
}

static pal_str make_hint(const pal_context_input *input, uint64_t cut_seq, pal_arena *arena)
{
    size_t end = 0, first;
    pal_buf buf;

    while (end < input->messages_len && input->messages[end].seq <= cut_seq)
        end++;
    first = end > HINT_MESSAGES ? end - HINT_MESSAGES : 0;
    pal_buf_init(&buf, PAL_MARK_BODY_LEN_MAX);
    pal_buf_append_str(&buf, pal_prompt_hint());
    for (size_t i = first; i < end; i++)
        hint_line(&buf, &input->messages[i]);
    return arena_text(arena, &buf);
}

/* ---- The first half ---- */

static pal_status plan_cut(pal_compact_job *job, pal_arena *arena, pal_error *err)
{
    pal_status status;

    pal_window_force_cut(&job->view.input);
    status = pal_context_plan(&job->view.input, arena, &job->plan, err);
    if (status == PAL_OK)
        job->record.tokens_before = job->plan.tokens;
    return status;
}

static pal_str nothing_note(const pal_plan *plan)
{
    static const char nothing[] = "nothing to compact: every message is recent or must be kept";

    return plan->action == PAL_PLAN_ACTION_REFUSE && plan->usable && plan->tokens > plan->usable
            ? plan->reason
            : pal_str_of(nothing);
}

static pal_status begin_new(const pal_compaction_request *compaction, pal_compact_job *job,
        pal_arena *arena, bool *out_ready, pal_error *err)
{
    pal_status status = plan_cut(job, arena, err);

    if (status != PAL_OK)
        return status;
    *out_ready = job->plan.action == PAL_PLAN_ACTION_COMPACT;
    if (!*out_ready)
        return PAL_OK;
    pal_compact_keep(job);
    pal_compact_cut(job, job->plan.cut_seq);
    if (compaction->cut_seq)
        *out_ready = pal_compact_cut_at(job, compaction->cut_seq);
    return PAL_OK;
}

pal_status pal_compact_begin(pal_store *store, const pal_window *window,
        const pal_compaction_request *compaction, pal_arena *arena, pal_compact_job *out_job,
        bool *out_ready, pal_compaction_result *out_compacted, pal_error *err)
{
    pal_compact_job *job = out_job;
    pal_status status;

    *job = (pal_compact_job){.window = *window};
    *out_compacted = (pal_compaction_result){0};
    *out_ready = true;
    status = pal_window_load(store, window, NULL, arena, &job->view, err);
    if (status == PAL_OK && compaction->redo)
        status = pal_compact_redo(store, compaction, job, arena, err);
    else if (status == PAL_OK)
        status = begin_new(compaction, job, arena, out_ready, err);
    if (status != PAL_OK)
        return status;
    if (!*out_ready) {
        out_compacted->note = nothing_note(&job->plan);
        return PAL_OK;
    }
    job->record.checkpoint.strategy = job->view.input.settings.strategy;
    job->record.previous = job->view.record.checkpoint.number;
    job->record.reason = compaction->reason;
    job->record.request_id = compaction->request_id;
    job->is_given = compaction->summary.len > 0;
    if (job->is_given) {
        job->record.checkpoint.strategy = PAL_STRATEGY_COMPACT;
        return PAL_OK;
    }
    if (job->record.checkpoint.strategy == PAL_STRATEGY_RESET) {
        job->record.checkpoint.hint =
                make_hint(&job->view.input, job->record.checkpoint.seq, arena);
        return pal_arena_checked(arena, err);
    }
    return pal_compact_ask(job, compaction, arena, err);
}

/* ---- The second half ---- */

/* Plans the next request as if this checkpoint were in effect. */
static pal_status plan_after(pal_store *store, const pal_compact_job *job, pal_arena *arena,
        pal_plan *out_plan, pal_error *err)
{
    pal_context_input input = job->view.input;
    uint64_t cut_seq = job->record.checkpoint.seq, tokens, tail_seq;
    size_t skip = pal_compact_count(&input, cut_seq, &tokens);
    pal_snapshot snapshot;
    pal_message *kept;
    pal_status status;

    input.checkpoint = job->record.checkpoint;
    input.checkpoint.number = UINT64_MAX; /* it has no number yet, but must count as a checkpoint */
    if (job->view.is_recounted)
        input.checkpoint.tokens = 0;
    input.messages += skip;
    input.messages_len -= skip;
    input.older_messages = 0;
    input.after_overflow = false;
    input.after_compaction = true;
    tail_seq = input.messages_len ? input.messages[0].seq : UINT64_MAX;
    status = pal_snapshot_begin(
            store, job->window.tenant, job->window.session, arena, &snapshot, err);
    if (status != PAL_OK)
        return status;
    status = pal_window_kept(&snapshot, &job->view.active, job->record.keep_seqs,
            job->record.keep_len, tail_seq < cut_seq + 1 ? tail_seq : cut_seq + 1, arena, &kept,
            &input.kept_len, err);
    if (status != PAL_OK)
        return status;
    input.kept = kept;
    return pal_context_plan(&input, arena, out_plan, err);
}

/* Counts with the store's encoding, as for stored messages. A model with another vocabulary counts
 * again. */
static pal_status count_summary(
        pal_store *store, pal_checkpoint *checkpoint, pal_arena *arena, pal_error *err)
{
    return pal_show_count_summary(
            checkpoint, pal_store_encoding(store), arena, &checkpoint->tokens, err);
}

/* Counts the messages before the cut that are not sent any more: neither pinned nor kept. */
static uint64_t count_dropped(const pal_compact_job *job)
{
    const pal_context_input *input = &job->view.input;
    const pal_checkpoint_record *record = &job->record;
    uint64_t dropped = 0;

    for (size_t i = 0; i < record->messages; i++) {
        bool is_sent = input->messages[i].flags & PAL_MESSAGE_FLAG_PINNED;

        for (size_t j = 0; j < record->keep_len; j++)
            is_sent |= input->messages[i].seq == record->keep_seqs[j];
        dropped += !is_sent;
    }
    return dropped;
}

static pal_status fall_back(
        pal_store *store, pal_compact_job *job, pal_str why, pal_arena *arena, pal_error *err)
{
    pal_checkpoint_record *record = &job->record;

    if (!job->is_again)
        pal_compact_cut_turns(job);
    record->is_fallback = true;
    record->note = why;
    record->checkpoint.summary = job->view.input.checkpoint.summary;
    record->checkpoint.dropped += count_dropped(job);
    return count_summary(store, &record->checkpoint, arena, err);
}

static pal_str trimmed(pal_str text)
{
    while (text.len > 0 && strchr(" \t\r\n", text.data[0]))
        text = pal_str_make(text.data + 1, text.len - 1);
    while (text.len > 0 && strchr(" \t\r\n", text.data[text.len - 1]))
        text.len--;
    return text;
}

/* Returns true if the cut is made even if the summary is long. Reasons: the checkpoint is made
 * again, the caller wrote the summary, or a service's conversation is full of tokens that are not
 * counted here. */
static bool must_cut(const pal_compact_job *job)
{
    return job->is_again || job->is_given || job->window.full_tokens > 0;
}

/* Takes the summary if it can be used; otherwise sets *out_failure to the reason. */
static pal_status take_answer(pal_store *store, pal_compact_job *job,
        const pal_summary_answer *answer, pal_arena *arena, pal_str *out_failure, pal_error *err)
{
    pal_checkpoint taken = job->record.checkpoint;
    pal_status status;

    taken.summary = trimmed(answer->text);
    job->record.model = answer->model.len ? answer->model : job->request.model;
    job->record.has_usage = answer->has_usage;
    job->record.usage = answer->usage;
    job->record.cost_micros = answer->cost_micros;
    status = count_summary(store, &taken, arena, err);
    if (status != PAL_OK)
        return status;
    if (taken.summary.len == 0)
        *out_failure = pal_str_of("the model returned an empty answer");
    else if (taken.tokens >= job->replaced_tokens && !must_cut(job))
        *out_failure = pal_str_of("the summary is not shorter than the messages that it replaces");
    else
        job->record.checkpoint = taken;
    return PAL_OK;
}

static pal_ledger_row ledger_row(
        const pal_compact_job *job, const pal_summary_answer *answer, char *request_id)
{
    pal_id_to_text(pal_id_new(), request_id);
    return (pal_ledger_row){.request_id = pal_str_of(request_id),
            .turn_id = answer->turn_id,
            .agent = answer->agent,
            .purpose = pal_str_of("compaction"),
            .provider = answer->provider,
            .model = job->record.model,
            .price_version = answer->price_version,
            .usage = answer->usage,
            .cost_micros = answer->cost_micros};
}

/* Makes one commit with the mark and the cost of the model call. The cost is stored even if no mark
 * is made. */
static pal_status keep(pal_store *store, pal_compact_job *job, const pal_summary_answer *answer,
        bool with_mark, pal_arena *arena, uint64_t *out_number, pal_error *err)
{
    pal_mark undo = {.kind = PAL_MARK_UNDO, .target = job->undo};
    pal_mark mark = {.kind = PAL_MARK_CHECKPOINT, .seq = job->record.checkpoint.seq};
    pal_ledger_row row;
    char request_id[PAL_ID_TEXT_SIZE];
    pal_op ops[3];
    size_t len = 0;
    pal_status status = PAL_OK;

    if (answer && answer->has_usage) {
        row = ledger_row(job, answer, request_id);
        ops[len++] = pal_op_ledger_add(job->window.tenant, job->window.session, &row);
    }
    if (with_mark) {
        status = pal_window_checkpoint_write(&job->record, arena, &mark.body, err);
        if (job->undo)
            ops[len++] = pal_op_mark(job->window.tenant, job->window.session, &undo);
        ops[len] = pal_op_mark(job->window.tenant, job->window.session, &mark);
        ops[len++].with_previous = job->undo != 0;
    }
    for (size_t i = 0; i < len; i++)
        ops[i].fence = job->window.fence;
    if (status == PAL_OK && len > 0)
        status = pal_store_apply(store, ops, len, err);
    for (size_t i = 0; status == PAL_OK && i < len; i++)
        if (ops[i].status != PAL_OK)
            status = pal_error_set(err, ops[i].status, "%s", ops[i].error.message);
    *out_number = mark.number;
    return status;
}

/* If the window would not get smaller with the summary, whole turns are left out instead. If that
 * does not help either, no checkpoint is stored. */
static pal_status settle(pal_store *store, pal_compact_job *job, pal_str failure, pal_arena *arena,
        bool *out_smaller, pal_error *err)
{
    pal_checkpoint_record *record = &job->record;
    bool is_reset = record->checkpoint.strategy == PAL_STRATEGY_RESET;
    pal_plan after;
    pal_status status = PAL_OK;

    if (!is_reset && record->checkpoint.summary.len == 0)
        status = fall_back(store, job, failure, arena, err);
    if (status == PAL_OK)
        status = plan_after(store, job, arena, &after, err);
    if (status == PAL_OK && after.tokens >= record->tokens_before && !is_reset &&
            !record->is_fallback && !must_cut(job)) {
        status = fall_back(store, job,
                pal_str_of("the summary would not make the window smaller"), arena, err);
        if (status == PAL_OK)
            status = plan_after(store, job, arena, &after, err);
    }
    if (status != PAL_OK)
        return status;
    record->tokens_after = after.tokens;
    *out_smaller = must_cut(job) || after.tokens < record->tokens_before;
    return PAL_OK;
}

pal_str pal_compact_no_model(const pal_compact_job *job)
{
    if (job->needs_model || job->record.checkpoint.strategy == PAL_STRATEGY_RESET)
        return (pal_str){0};
    return pal_str_of("no older message fits into a request for a summary");
}

pal_status pal_compact_end(pal_store *store, pal_compact_job *job, const pal_summary_answer *answer,
        pal_str failure, pal_arena *arena, pal_compaction_result *out_compacted, pal_error *err)
{
    const pal_checkpoint_record *record = &job->record;
    bool is_smaller = false;
    uint64_t number = 0;
    pal_status status = PAL_OK;

    if (answer && record->checkpoint.strategy != PAL_STRATEGY_RESET)
        status = take_answer(store, job, answer, arena, &failure, err);
    if (status == PAL_OK)
        status = settle(store, job, failure, arena, &is_smaller, err);
    if (status == PAL_OK)
        status = keep(store, job, answer, is_smaller, arena, &number, err);
    if (status != PAL_OK)
        return status;
    *out_compacted = (pal_compaction_result){.number = number,
            .seq = record->checkpoint.seq,
            .is_fallback = record->is_fallback,
            .messages = record->messages,
            .tokens_before = record->tokens_before,
            .tokens_after = record->tokens_after,
            .summary = record->checkpoint.summary,
            .note = is_smaller ? record->note
                               : pal_str_of("nothing was stored: the window would not shrink")};
    return PAL_OK;
}

/* ---- Both halves ---- */

pal_status pal_window_compact(pal_store *store, const pal_window *window,
        const pal_compaction_request *compaction, pal_arena *arena,
        pal_compaction_result *out_compacted, pal_error *err)
{
    pal_compact_job job;
    pal_summary_answer answer = {0};
    pal_error failure = {0};
    bool ready = false, answered = false;
    pal_str why;
    pal_status status =
            pal_compact_begin(store, window, compaction, arena, &job, &ready, out_compacted, err);

    if (status != PAL_OK || !ready)
        return status;
    why = compaction->summarize ? pal_compact_no_model(&job)
                                : pal_str_of("no model is available for the summary");
    if (job.is_given) {
        answer.text = compaction->summary;
        answer.model = pal_str_of("user");
        answered = true;
    } else if (job.needs_model && compaction->summarize) {
        answered = compaction->summarize(
                           &job.request, arena, &answer, compaction->user, &failure) == PAL_OK;
        why = pal_arena_copy(arena, pal_str_of(failure.message));
    }
    return pal_compact_end(store, &job, answered ? &answer : NULL, why, arena, out_compacted, err);
}
