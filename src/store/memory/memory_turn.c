/* memory_turn.c - data around a turn in "memory:": marks, the inbox, the lease. */
#include "base/clock.h"
#include "base/memory.h"
#include "palaver/limits.h"
#include "store/memory/memory_store.h"
#include "store/view/view_marks.h"

/* ---- Marks ---- */

/* Finds the mark to undo. Fails if it cannot be undone. */
static pal_status undo_target(memory_session *session, pal_work *work, uint64_t *out_number)
{
    uint64_t wanted = work->op->u.mark->target;

    pal_marks_resolve(session->marks, session->marks_len);
    for (size_t i = session->marks_len; i-- > 0;) {
        const pal_mark *mark = &session->marks[i];

        if (wanted ? mark->number != wanted : mark->undone || mark->kind == PAL_MARK_UNDO)
            continue;
        if (mark->undone)
            return pal_error_set(&work->op->error, PAL_CONFLICT, "mark %llu is already undone",
                    (unsigned long long)wanted);
        *out_number = mark->number;
        return PAL_OK;
    }
    if (wanted)
        return pal_error_set(
                &work->op->error, PAL_NOT_FOUND, "no mark %llu", (unsigned long long)wanted);
    return pal_error_set(&work->op->error, PAL_NOT_FOUND, "nothing to undo");
}

static pal_status mark_check(memory_session *session, pal_work *work, pal_mark *mark)
{
    uint64_t last_seq = session->info->record.last_seq;
    bool is_pin = mark->kind == PAL_MARK_PIN || mark->kind == PAL_MARK_UNPIN;

    if (mark->seq > last_seq)
        return pal_error_set(&work->op->error, PAL_INVALID, "seq %llu is beyond the last seq, %llu",
                (unsigned long long)mark->seq, (unsigned long long)last_seq);
    if (is_pin && mark->seq == 0)
        return pal_error_set(&work->op->error, PAL_INVALID, "a pin requires a message");
    if (mark->kind == PAL_MARK_UNDO)
        return undo_target(session, work, &mark->target);
    return PAL_OK;
}

pal_status pal_memory_mark(memory_engine *engine, pal_work *work)
{
    pal_mark mark = *work->op->u.mark;
    memory_session *session = NULL;
    char *body;
    pal_status status = pal_memory_session_for(engine, work, 0, &session);

    if (status == PAL_OK && !work->copied)
        status = mark_check(session, work, &mark);
    if (status != PAL_OK)
        return status;
    if (!pal_reserve(&session->marks, &session->marks_cap, session->marks_len + 1, sizeof mark))
        return pal_no_memory(&work->op->error);
    body = pal_malloc(mark.body.len);
    if (!body)
        return pal_no_memory(&work->op->error);
    if (work->copied) {
        session->mark_number = work->copied->mark_number;
    } else {
        mark.number = ++session->mark_number;
        mark.through_seq = pal_mark_through(&mark, session->info->record.last_seq);
        mark.created_at = work->now_ms;
    }
    mark.undone = false;
    mark.inherited = false;
    *work->op->u.mark = mark;
    mark.body = pal_memory_put(&body, mark.body);
    session->marks[session->marks_len++] = mark;
    if (!work->copied)
        session->info->record.updated_at = work->now_ms;
    return PAL_OK;
}

/* ---- Inbox ---- */

static memory_item *item_new(const pal_inbox_item *given, pal_id id, int64_t now_ms)
{
    size_t text_len = given->client_id.len + given->delivery.len + given->body.len;
    char *cursor;
    memory_item *item = pal_memory_alloc(sizeof *item, text_len, &cursor);

    if (!item)
        return NULL;
    item->item.id = id;
    item->item.created_at = now_ms;
    item->item.client_id = pal_memory_put(&cursor, given->client_id);
    item->item.delivery = pal_memory_put(&cursor, given->delivery);
    item->item.body = pal_memory_put(&cursor, given->body);
    return item;
}

static memory_item *item_find(const memory_session *session, pal_str client_id)
{
    memory_item *item = client_id.len > 0 ? session->inbox : NULL;

    while (item && !pal_str_equal(item->item.client_id, client_id))
        item = item->next;
    return item;
}

pal_status pal_memory_inbox_add(memory_engine *engine, pal_work *work)
{
    pal_inbox_item *given = work->op->u.inbox_item;
    memory_item *item, **end;
    memory_session *session = NULL;
    size_t waiting = 0;
    pal_status status = pal_memory_session_for(engine, work, 0, &session);

    if (status != PAL_OK)
        return status;
    item = item_find(session, given->client_id);
    if (item &&
            (!pal_str_equal(item->item.body, given->body) ||
                    !pal_str_equal(item->item.delivery, given->delivery)))
        return pal_error_set(&work->op->error, PAL_CONFLICT,
                "client id '%.*s' was used for another item", PAL_STR_ARG(given->client_id));
    if (!item) {
        for (end = &session->inbox; *end; end = &(*end)->next)
            waiting++;
        if (waiting >= PAL_INBOX_ITEMS_MAX)
            return pal_error_set(&work->op->error, PAL_LIMIT,
                    "the inbox is full: %zu items are waiting; retry later", waiting);
        item = item_new(given, work->new_id, work->now_ms);
        if (!item)
            return pal_no_memory(&work->op->error);
        *end = item;
    }
    given->id = item->item.id;
    given->created_at = item->item.created_at;
    return PAL_OK;
}

bool pal_memory_inbox_remove(memory_session *session, pal_id id)
{
    for (memory_item **link = &session->inbox; *link; link = &(*link)->next) {
        memory_item *item = *link;

        if (!pal_id_equal(item->item.id, id))
            continue;
        *link = item->next;
        pal_free(item);
        return true;
    }
    return false;
}

void pal_memory_items_free(memory_item *items)
{
    while (items) {
        memory_item *item = items;

        items = item->next;
        pal_free(item);
    }
}

bool pal_memory_inbox_copy(const memory_session *session, memory_item **out_items)
{
    memory_item *first = NULL, **end = &first;

    for (const memory_item *item = session->inbox; item; item = item->next) {
        *end = item_new(&item->item, item->item.id, item->item.created_at);
        if (!*end) {
            pal_memory_items_free(first);
            return false;
        }
        end = &(*end)->next;
    }
    *out_items = first;
    return true;
}

pal_status pal_memory_inbox_drop(memory_engine *engine, pal_work *work)
{
    char text[PAL_ID_TEXT_SIZE];
    memory_session *session = NULL;
    pal_status status = pal_memory_session_for(engine, work, 0, &session);

    if (status != PAL_OK || pal_memory_inbox_remove(session, work->op->u.inbox_id))
        return status;
    pal_id_to_text(work->op->u.inbox_id, text);
    return pal_error_set(
            &work->op->error, PAL_NOT_FOUND, "item '%s' does not exist in the inbox", text);
}

/* ---- Lease ---- */

static pal_str lease_owner(const memory_session *session)
{
    return pal_str_make(session->lease_owner, session->lease_owner_len);
}

/* Copies the text into an allocation of the session. */
static bool set_lease_owner(memory_session *session, pal_str owner)
{
    char *copy = pal_malloc(owner.len), *cursor = copy;

    if (!copy)
        return false;
    pal_free(session->lease_owner);
    session->lease_owner = copy;
    session->lease_owner_len = pal_memory_put(&cursor, owner).len;
    return true;
}

static pal_status lease_copy(memory_session *session, pal_work *work)
{
    const pal_lease *lease = work->copied->lease;

    if (!set_lease_owner(session, lease->owner))
        return pal_no_memory(&work->op->error);
    session->lease_fence = lease->fence;
    session->lease_expires_at = lease->expires_at;
    session->lease_ttl_ms = lease->ttl_ms;
    return PAL_OK;
}

pal_status pal_memory_lease_take(memory_engine *engine, pal_work *work)
{
    pal_op *op = work->op;
    pal_str wanted = op->u.lease.owner;
    int64_t now_ms = engine->clock ? pal_store_now_ms(engine->clock) : pal_clock_now_ms();
    bool is_held, is_mine;
    memory_session *session = NULL;
    pal_status status = pal_memory_session_for(engine, work, 0, &session);

    if (status != PAL_OK)
        return status;
    if (work->copied)
        return lease_copy(session, work);
    is_held = session->lease_owner_len > 0 &&
            pal_lease_blocks(op, session->lease_fence, session->lease_expires_at,
                    session->lease_ttl_ms, now_ms);
    is_mine = is_held && pal_str_equal(lease_owner(session), wanted);
    if (is_held && !is_mine)
        return pal_error_set(
                &op->error, PAL_BUSY, "'%.*s' holds the lease", PAL_STR_ARG(lease_owner(session)));
    if (!is_mine) {
        if (!set_lease_owner(session, wanted))
            return pal_no_memory(&work->op->error);
        /* A caller that presents the fence was the last owner, so the fence stays the same. */
        session->lease_fence += op->fence == 0;
    }
    session->lease_expires_at =
            pal_lease_end(now_ms, op->u.lease.ttl_ms, session->lease_expires_at);
    session->lease_ttl_ms = op->u.lease.ttl_ms;
    op->u.lease.fence = session->lease_fence;
    return PAL_OK;
}

/* The fence stays, because the next owner must get a larger one. */
pal_status pal_memory_lease_release(memory_engine *engine, pal_work *work)
{
    memory_session *session = NULL;
    pal_status status = pal_memory_session_for(
            engine, work, MEMORY_ALLOW_EXPIRED | MEMORY_ALLOW_TRASH, &session);

    if (status == PAL_OK && work->op->u.lease.fence == session->lease_fence) {
        session->lease_owner_len = 0;
        session->lease_expires_at = 0;
    }
    return status;
}
