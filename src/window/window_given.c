/* window_given.c - stores a summary that the caller has written, without a model and without a new
 * cut.
 *
 * The summary is stored as a checkpoint. It replaces the current checkpoint and keeps its cut. If
 * there is none, it is placed before the first message, so that all messages stay visible. One mark
 * is one commit. */
#include "base/memory.h"
#include "context/context_text.h"
#include "palaver/window.h"
#include "window/window_record.h"

static pal_status find_active(pal_store *store, pal_str tenant, pal_id session, pal_arena *arena,
        pal_checkpoint_record *out_record, pal_error *err)
{
    pal_active_marks active;
    pal_status status = pal_store_active_marks(store, tenant, session, arena, &active, err);

    *out_record = (pal_checkpoint_record){0};
    if (status == PAL_OK && active.checkpoint.number > 0)
        status = pal_window_checkpoint_read(&active.checkpoint, arena, out_record, err);
    return status;
}

pal_status pal_window_summary(pal_store *store, pal_str tenant, pal_id session, pal_arena *arena,
        pal_str *out_summary, pal_error *err)
{
    pal_checkpoint_record record;
    pal_status status = find_active(store, tenant, session, arena, &record, err);

    if (status == PAL_OK)
        *out_summary = record.checkpoint.summary;
    return status;
}

/* A checkpoint without a cut and without a summary has no content, so it is undone. If it replaced
 * another one, that one would be in effect again; then the empty checkpoint is stored instead. */
static bool is_undone(const pal_checkpoint_record *active)
{
    return active->checkpoint.seq == 0 &&
            (active->previous == 0 || active->checkpoint.summary.len == 0);
}

static pal_status clear(pal_store *store, pal_str tenant, pal_id session,
        const pal_checkpoint_record *active, pal_mark *out_mark, pal_error *err)
{
    pal_mark undo = {.kind = PAL_MARK_UNDO, .target = active->checkpoint.number};
    pal_status status = PAL_OK;

    if (active->checkpoint.summary.len > 0)
        status = pal_store_mark(store, tenant, session, &undo, err);
    if (status == PAL_OK)
        *out_mark = undo;
    return status;
}

static pal_status set(pal_store *store, pal_str tenant, pal_id session, pal_str summary,
        pal_arena *arena, pal_mark *out_mark, pal_error *err)
{
    pal_checkpoint_record record;
    pal_mark mark = {.kind = PAL_MARK_CHECKPOINT};
    pal_status status = find_active(store, tenant, session, arena, &record, err);

    if (status != PAL_OK)
        return status;
    if (summary.len == 0 && is_undone(&record))
        return clear(store, tenant, session, &record, out_mark, err);
    record.previous = record.checkpoint.number;
    record.checkpoint.summary = summary;
    record.checkpoint.strategy = PAL_STRATEGY_COMPACT;
    record.checkpoint.hint = (pal_str){0};
    record.model = pal_str_of("user");
    record.note = (pal_str){0};
    record.is_fallback = record.has_usage = false;
    record.cost_micros = 0;
    record.messages = 0;
    record.reason = pal_str_of("given");
    status = pal_show_count_summary(&record.checkpoint, pal_store_encoding(store), arena,
            &record.checkpoint.tokens, err);
    if (status != PAL_OK)
        return status;
    status = pal_window_checkpoint_write(&record, arena, &mark.body, err);
    if (status != PAL_OK)
        return status;
    mark.seq = record.checkpoint.seq;
    status = pal_store_mark(store, tenant, session, &mark, err);
    if (status != PAL_OK)
        return status;
    mark.body = (pal_str){0}; /* it is in the arena */
    *out_mark = mark;
    return PAL_OK;
}

pal_status pal_window_summary_set(pal_store *store, pal_str tenant, pal_id session, pal_str summary,
        pal_mark *out_mark, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    pal_status status;

    *out_mark = (pal_mark){0};
    if (!arena)
        return pal_no_memory(err);
    status = set(store, tenant, session, summary, arena, out_mark, err);
    pal_arena_free(arena);
    return status;
}
