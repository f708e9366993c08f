/* window_mark.c - stores the decisions of a plan as marks: prunes and epochs. A crash before a
 * mark is committed leaves the window unchanged, and the next plan requests the same mark again. */
#include "window/window_internal.h"

#include "base/json/json.h"

static bool same_json(pal_str a, pal_str b, pal_arena *arena)
{
    pal_json left, right;

    if (pal_str_equal(a, b))
        return true;
    return a.len > 0 && b.len > 0 && pal_json_parse(arena, a, NULL, &left, NULL) == PAL_OK &&
            pal_json_parse(arena, b, NULL, &right, NULL) == PAL_OK && pal_json_equal(left, right);
}

bool pal_window_same_tools(
        const pal_epoch_record *epoch, const pal_window *window, pal_arena *arena)
{
    if (epoch->tools_len != window->tools_len)
        return false;
    for (size_t i = 0; i < window->tools_len; i++)
        if (!pal_str_equal(epoch->tools[i].name, window->tools[i].name) ||
                !pal_str_equal(epoch->tools[i].description, window->tools[i].description) ||
                !same_json(epoch->tools[i].schema, window->tools[i].schema, arena))
            return false;
    return true;
}

static pal_status add_mark(
        pal_store *store, const pal_window *window, pal_mark *mark, pal_error *err)
{
    pal_op op = pal_op_mark(window->tenant, window->session, mark);
    pal_status status;

    op.fence = window->fence;
    status = pal_store_apply(store, &op, 1, err);
    if (status == PAL_OK && op.status != PAL_OK)
        status = pal_error_set(err, op.status, "%s", op.error.message);
    return status;
}

pal_status pal_window_prune(pal_store *store, const pal_window *window, const pal_plan *plan,
        pal_arena *arena, pal_error *err)
{
    pal_mark mark = {.kind = PAL_MARK_PRUNE};
    pal_status status;

    if (plan->prune_len == 0)
        return PAL_OK;
    mark.seq = plan->prune[plan->prune_len - 1].seq;
    status = pal_window_prunes_write(
            plan->prune, plan->prune_len, plan->prune_tokens, arena, &mark.body, err);
    if (status == PAL_OK)
        status = add_mark(store, window, &mark, err);
    return status;
}

pal_status pal_window_epoch_mark(const pal_window *window, const pal_window_view *view,
        pal_arena *arena, pal_mark *out_mark, pal_error *err)
{
    pal_epoch_record record = view->epoch;

    record.system = window->system;
    record.is_own = window->system_exact;
    record.tools = (pal_tool *)window->tools;
    record.tools_len = window->tools_len;
    *out_mark = (pal_mark){0};
    if (view->keeps_epoch ||
            (window->system.len == 0 && window->tools_len == 0 && record.notes.len == 0))
        return PAL_OK;
    /* New tools break the cache anyway, so the current instructions are stored with them. */
    out_mark->kind = PAL_MARK_EPOCH;
    return pal_window_epoch_write(&record, arena, &out_mark->body, err);
}

pal_status pal_window_epoch(
        pal_store *store, const pal_window *window, pal_arena *arena, pal_error *err)
{
    pal_mark mark;
    pal_active_marks active;
    pal_epoch_record epoch;
    pal_window_view view = {0};
    pal_status status =
            pal_store_active_marks(store, window->tenant, window->session, arena, &active, err);

    if (status != PAL_OK)
        return status;
    if (active.epoch.number > 0) {
        status = pal_window_epoch_read(&active.epoch, arena, &epoch, err);
        if (status != PAL_OK)
            return status;
        view.keeps_epoch = pal_window_same_tools(&epoch, window, arena);
    }
    status = pal_window_epoch_mark(window, &view, arena, &mark, err);
    if (status != PAL_OK || mark.kind == PAL_MARK_NONE)
        return status;
    return add_mark(store, window, &mark, err);
}
