/* window_compact_redo.c - makes a checkpoint again from the same messages: restores the window as
 * it was before, with the checkpoint that was in effect then. */
#include "window/window_compact_internal.h"

#define AGAIN_BYTES_MAX ((uint64_t)256 << 20)

/* Returns the checkpoint that was in effect before `again` was made: the newest with that number
 * that is not undone, otherwise any with that number. */
static const pal_mark *find_previous(
        const pal_mark *marks, size_t len, const pal_checkpoint_record *again)
{
    for (size_t i = len; i-- > 0;)
        if (marks[i].kind == PAL_MARK_CHECKPOINT && marks[i].number == again->previous &&
                marks[i].seq < again->checkpoint.seq && !marks[i].undone)
            return &marks[i];
    return pal_window_checkpoint_find(marks, len, again->previous);
}

/* Puts the previous checkpoint into effect again. If it does not exist any more there is none; if
 * it is damaged, returns PAL_CORRUPT. */
static pal_status read_previous(pal_store *store, pal_compact_job *job,
        const pal_checkpoint_record *again, pal_arena *arena, pal_error *err)
{
    const pal_mark *mark;
    pal_mark *marks;
    size_t len;
    pal_status status;

    job->view.record = (pal_checkpoint_record){0};
    if (again->previous == 0)
        return PAL_OK;
    status = pal_store_marks(
            store, job->window.tenant, job->window.session, arena, &marks, &len, err);
    if (status != PAL_OK)
        return status;
    mark = find_previous(marks, len, again);
    return mark ? pal_window_checkpoint_read(mark, arena, &job->view.record, err) : PAL_OK;
}

/* Loads the window as it was when the checkpoint was made, and all messages since. */
static pal_status load_again(
        pal_store *store, pal_compact_job *job, pal_arena *arena, pal_error *err)
{
    pal_window_view *view = &job->view;
    pal_context_input *input = &view->input;
    pal_message_query load = {.after_seq = view->record.checkpoint.seq,
            .bytes_max = AGAIN_BYTES_MAX,
            .from_end = true};
    pal_message_page messages;
    pal_snapshot snapshot;
    pal_message *kept;
    pal_status status;

    input->checkpoint = view->record.checkpoint;
    if (input->head && input->head->seq > load.after_seq)
        load.after_seq = input->head->seq;
    status = pal_snapshot_begin(
            store, job->window.tenant, job->window.session, arena, &snapshot, err);
    if (status != PAL_OK)
        return status;
    status = pal_snapshot_load(&snapshot, &load, arena, &messages, err);
    if (status != PAL_OK)
        return status;
    input->messages = messages.items;
    input->messages_len = messages.len;
    input->older_messages = 0;
    if (messages.has_more && messages.len)
        status = pal_snapshot_count(
                &snapshot, load.after_seq, messages.items[0].seq, &input->older_messages, err);
    if (status != PAL_OK)
        return status;
    status = pal_window_kept(&snapshot, &view->active, view->record.keep_seqs,
            view->record.keep_len, messages.len ? messages.items[0].seq : UINT64_MAX, arena, &kept,
            &input->kept_len, err);
    if (status != PAL_OK)
        return status;
    input->kept = kept;
    return pal_window_finish(store, &job->window, view, err);
}

pal_status pal_compact_redo(pal_store *store, const pal_compaction_request *compaction,
        pal_compact_job *job, pal_arena *arena, pal_error *err)
{
    pal_checkpoint_record again = job->view.record;
    pal_status status;

    if (job->view.active.checkpoint.number != compaction->redo)
        return pal_error_set(err, PAL_CONFLICT,
                "checkpoint %llu is not in effect; only the one in effect can be redone",
                (unsigned long long)compaction->redo);
    status = read_previous(store, job, &again, arena, err);
    if (status == PAL_OK)
        status = load_again(store, job, arena, err);
    if (status != PAL_OK)
        return status;
    job->is_again = true;
    /* The parent's checkpoint stays unchanged: the new one takes precedence over it. */
    job->undo = job->view.active.checkpoint.inherited ? 0 : again.checkpoint.number;
    pal_window_force_cut(&job->view.input);
    status = pal_context_plan(&job->view.input, arena, &job->plan, err);
    job->record.keep_seqs = again.keep_seqs;
    job->record.keep_len = again.keep_len;
    job->record.tokens_before = again.tokens_before ? again.tokens_before : job->plan.tokens;
    pal_compact_cut(job, again.checkpoint.seq);
    return status;
}
