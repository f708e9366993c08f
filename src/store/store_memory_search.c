/* store_memory_search.c - the search in "memory:": a walk over all rows, the newest first. There is
 * no index; the front looks into each row. Good for what fits into memory and is small. */
#include "store/store_memory.h"

void pal_mem_arrival_link(mem_engine *engine, mem_row *row)
{
    row->pos = ++engine->pos_last;
    row->older = engine->newest;
    if (row->older)
        row->older->newer = row;
    engine->newest = row;
}

void pal_mem_arrival_unlink(mem_engine *engine, mem_row *row)
{
    if (row->older)
        row->older->newer = row->newer;
    if (row->newer)
        row->newer->older = row->older;
    else
        engine->newest = row->older;
}

static bool is_candidate(const mem_row *row, const mem_tenant *tenant, const pal_row_search *search)
{
    if (search->below_pos != 0 && row->pos >= search->below_pos)
        return false;
    if (search->role != PAL_ROLE_NONE && row->row.role != search->role)
        return false;
    return row->session->tenant == tenant;
}

pal_status pal_mem_row_search(pal_engine *base, const pal_row_search *search, pal_found_sink sink,
        void *user, pal_error *err)
{
    mem_engine *engine = (mem_engine *)base;
    const mem_tenant *tenant;
    bool wanted = true;

    (void)err;
    pthread_rwlock_rdlock(&engine->lock);
    tenant = pal_mem_tenant_find(engine, search->tenant);
    for (const mem_row *row = tenant ? engine->newest : NULL; wanted && row; row = row->older) {
        pal_found_row found = {.row = &row->row,
                .pos = row->pos,
                .handle = row->session->handle,
                .session = row->session->id};

        if (is_candidate(row, tenant, search))
            wanted = sink(&found, user);
    }
    pthread_rwlock_unlock(&engine->lock);
    return PAL_OK;
}

pal_status pal_mem_fork_list(pal_engine *base, uint64_t handle, uint64_t min_seq, pal_arena *arena,
        pal_id **out_ids, size_t *out_len, pal_error *err)
{
    mem_engine *engine = (mem_engine *)base;
    const mem_session *session, *child;
    pal_id *ids = NULL;
    size_t len = 0, at = 0;
    pal_status status;

    pthread_rwlock_rdlock(&engine->lock);
    session = pal_mem_session_by_handle(engine, handle);
    for (child = session ? session->children : NULL; child; child = child->next_child)
        len += child->info->record.fork_seq >= min_seq;
    if (len > 0)
        ids = pal_arena_array(arena, len, sizeof *ids);
    for (child = ids ? session->children : NULL; child; child = child->next_child)
        if (child->info->record.fork_seq >= min_seq)
            ids[at++] = child->id;
    pthread_rwlock_unlock(&engine->lock);
    status = pal_mem_arena_status(arena, err);
    if (status == PAL_OK) {
        *out_ids = ids;
        *out_len = len;
    }
    return status;
}
