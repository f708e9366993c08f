/* store_history.c - changes of a session's whole view: truncate it to its newest messages, or
 * replace it by other messages. Nothing is removed: both are marks, which can be undone.
 *
 * A replacement is one commit: first the new messages, then the mark that hides the old ones. The
 * mark is written only if the messages were appended. After a crash both exist or neither. */
#include "palaver/store.h"
#include "palaver/store_batch.h"
#include "palaver/store_marks.h"

#include "base/memory.h"

#define REPLACE_TRIES 8 /* number of attempts while other writers append to the session */

/* ---- Truncating ---- */

/* Finds the seq of the last message to remove; 0 if there is none. */
static pal_status find_cut(pal_store *store, pal_str tenant, pal_id session, uint32_t keep,
        uint64_t *out_seq, pal_error *err)
{
    pal_message_query load = {.limit = keep, .from_end = true};
    pal_message_page kept;
    pal_arena *arena = pal_arena_new(0);
    pal_status status;

    if (!arena)
        return pal_no_memory(err);
    status = pal_store_load(store, tenant, session, &load, arena, &kept, err);
    if (status == PAL_OK && kept.has_more && kept.len > 0)
        *out_seq = kept.items[0].seq - 1;
    pal_arena_free(arena);
    return status;
}

pal_status pal_store_truncate(pal_store *store, pal_str tenant, pal_id session, uint32_t keep,
        pal_mark *out_mark, pal_error *err)
{
    pal_mark mark = {.kind = PAL_MARK_REWIND};
    pal_status status;

    *out_mark = (pal_mark){0};
    if (keep == 0)
        return pal_store_reset(store, tenant, session, false, out_mark, err);
    status = find_cut(store, tenant, session, keep, &mark.target, err);
    if (status != PAL_OK || mark.target == 0)
        return status;
    status = pal_store_mark(store, tenant, session, &mark, err);
    if (status == PAL_OK)
        *out_mark = mark;
    return status;
}

/* ---- Replacing ---- */

static pal_status find_last(
        pal_store *store, pal_str tenant, pal_id session, uint64_t *out_seq, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    pal_session found;
    char id[PAL_ID_TEXT_SIZE];
    pal_status status;

    if (!arena)
        return pal_no_memory(err);
    pal_id_to_text(session, id);
    status = pal_store_find(
            store, tenant, PAL_SESSION_BY_ID, pal_str_of(id), arena, &found, err);
    if (status == PAL_OK)
        *out_seq = found.last_seq;
    pal_arena_free(arena);
    return status;
}

static pal_status replace_once(pal_store *store, pal_str tenant, pal_id session,
        pal_message *messages, size_t messages_len, pal_mark *mark, pal_error *err)
{
    pal_op ops[2];
    pal_status status = find_last(store, tenant, session, &mark->target, err);
    size_t len = mark->target > 0 ? 2 : 1;

    if (status != PAL_OK)
        return status;
    ops[0] = pal_op_append(tenant, session, messages, messages_len, mark->target);
    ops[1] = pal_op_mark(tenant, session, mark);
    ops[1].with_previous = true;
    status = pal_store_apply(store, ops, len, err);
    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        status = ops[i].status;
        if (status != PAL_OK && err)
            *err = ops[i].error;
    }
    return status;
}

pal_status pal_store_replace(pal_store *store, pal_str tenant, pal_id session,
        pal_message *messages, size_t messages_len, pal_mark *out_mark, pal_error *err)
{
    pal_status status = PAL_CONFLICT;

    *out_mark = (pal_mark){0};
    if (messages_len == 0)
        return pal_store_reset(store, tenant, session, false, out_mark, err);
    /* A hidden message may have the same client id, but this is a different message. */
    for (size_t i = 0; i < messages_len; i++)
        messages[i].client_id = pal_str_make(NULL, 0);
    for (int i = 0; status == PAL_CONFLICT && i < REPLACE_TRIES; i++) {
        pal_mark mark = {.kind = PAL_MARK_REWIND};

        status = replace_once(store, tenant, session, messages, messages_len, &mark, err);
        if (status == PAL_OK && mark.target > 0)
            *out_mark = mark;
    }
    return status;
}
