/* cache_apply.c - changes entries after a commit. Only the writer's thread calls this.
 *
 * Appends and marks change the entries of their sessions in place. Everything else that changes a
 * session drops its entry. cache.c explains the numbers that keep readers away meanwhile. */
#include "store/cache/cache_internal.h"

/* ---- What an operation may change ---- */

static bool may_change_all(const pal_work *work)
{
    return work->copied || work->op->kind == PAL_OP_ERASE ||
            work->op->kind == PAL_OP_ERASE_MESSAGE || work->op->kind == PAL_OP_SWEEP;
}

static bool may_change_names(const pal_work *work)
{
    switch (work->op->kind) {
    case PAL_OP_CREATE:
    case PAL_OP_FORK:
    case PAL_OP_UPDATE:
    case PAL_OP_ADOPT:
    case PAL_OP_RESTORE:
        return true;
    default:
        return false;
    }
}

/* New sessions are not in the cache. */
static bool may_change_session(const pal_work *work)
{
    switch (work->op->kind) {
    case PAL_OP_NONE:
    case PAL_OP_CREATE:
    case PAL_OP_FORK:
    case PAL_OP_INBOX_ADD:
    case PAL_OP_INBOX_DROP:
    case PAL_OP_LEASE_TAKE:
    case PAL_OP_LEASE_RELEASE:
    case PAL_OP_LEDGER_ADD:
    case PAL_OP_BLOB_PUT:
    case PAL_OP_RECORD_PUT:
    case PAL_OP_RECORD_DROP:
        return false;
    default:
        return true;
    }
}

static bool has_changed_all(const pal_work *work)
{
    const pal_sweep_result *sweep = &work->op->u.sweep.result;

    if (!may_change_all(work))
        return false;
    if (work->copied || work->op->kind != PAL_OP_SWEEP || work->op->status != PAL_OK)
        return true;
    return sweep->trashed > 0 || sweep->erased > 0;
}

/* ---- Numbers that are odd during a commit ---- */

static void make_odd(atomic_uint *number)
{
    atomic_store(number, atomic_load(number) | 1);
}

static void make_even(atomic_uint *number)
{
    unsigned now = atomic_load(number);

    atomic_store(number, now + now % 2);
}

static void begin(pal_cache *cache, const pal_work *works, size_t works_len)
{
    for (size_t i = 0; i < works_len; i++) {
        if (may_change_all(&works[i]))
            make_odd(&cache->all);
        if (may_change_names(&works[i]))
            make_odd(&cache->names);
        if (may_change_session(&works[i]))
            make_odd(pal_cache_slot_of(cache, works[i].op->session));
    }
}

/* If nothing has changed after all, the old number is valid again: nothing was kept with the odd
 * one. */
static void end_all(pal_cache *cache, bool has_changed)
{
    unsigned all = atomic_load(&cache->all);

    if (all % 2 == 0)
        return;
    for (size_t i = 0; has_changed && i < PAL_CACHE_SHARDS; i++) {
        pthread_mutex_lock(&cache->shards[i].lock);
        pal_cache_shard_clear(&cache->shards[i]);
        pthread_mutex_unlock(&cache->shards[i].lock);
    }
    atomic_store(&cache->all, has_changed ? all + 1 : all - 1);
}

static void end(pal_cache *cache, const pal_work *works, size_t works_len)
{
    bool has_changed = false;

    for (size_t i = 0; i < works_len; i++)
        has_changed = has_changed || has_changed_all(&works[i]);
    end_all(cache, has_changed);
    for (size_t i = 0; i < works_len; i++)
        if (may_change_session(&works[i]))
            make_even(pal_cache_slot_of(cache, works[i].op->session));
    make_even(&cache->names);
}

/* ---- Changes of an entry ---- */

/* Returns false if the rows do not follow those of the entry, or there is no memory. */
static bool add_rows(pal_cache *cache, pal_cache_entry *entry, const pal_work *work)
{
    size_t bytes_max = pal_cache_tail_bytes_max(cache);

    for (size_t i = 0; entry->tail && i < work->rows_len; i++) {
        pal_cache_row *row;

        if (work->rows[i].seq != pal_cache_tail_last(entry->tail) + 1)
            return false;
        row = pal_cache_row_new(&work->rows[i]);
        if (!row)
            return false;
        if (row->bytes > bytes_max / 2 || !pal_cache_tail_add(&entry->tail, row, bytes_max)) {
            pal_cache_row_release(row);
            return false;
        }
    }
    return true;
}

static bool append(pal_cache *cache, pal_cache_entry *entry, const pal_work *work)
{
    pal_session *session = &entry->session.session;

    if (!entry->has_session || work->rows_len == 0 ||
            work->rows[0].seq != session->last_seq + 1 || !add_rows(cache, entry, work))
        return false;
    for (size_t i = 0; i < work->rows_len; i++) {
        session->tokens += work->rows[i].tokens;
        session->bytes += work->rows[i].body.len;
    }
    session->last_seq += work->rows_len;
    session->updated_at = work->now_ms;
    return true;
}

static bool mark(pal_cache_entry *entry, const pal_work *work)
{
    const pal_mark *added = work->op->u.mark;

    if (!entry->has_session || added->number != entry->session.mark_number + 1)
        return false;
    pal_cache_entry_add_mark(entry, added);
    entry->session.mark_number = added->number;
    entry->session.session.updated_at = work->now_ms;
    return true;
}

/* Returns false if the entry cannot show what the operation did. */
static bool change(pal_cache *cache, pal_cache_entry *entry, const pal_work *work)
{
    if (work->op->status != PAL_OK || work->copied)
        return false;
    if (work->op->kind == PAL_OP_APPEND)
        return work->op->u.append.replayed || append(cache, entry, work);
    return work->op->kind == PAL_OP_MARK && mark(entry, work);
}

static void change_entry(pal_cache *cache, const pal_work *work)
{
    pal_cache_shard *shard = pal_cache_shard_of(cache, work->op->session);
    char room[PAL_CACHE_KEY_MAX];
    pal_str key = pal_cache_key(room, work->tenant, work->op->session);
    pal_cache_entry *entry;

    pthread_mutex_lock(&shard->lock);
    entry = pal_cache_shard_find(shard, key);
    if (!entry)
        (void)pal_cache_shard_touch(shard, work->op->session, cache->shard_bytes_max);
    else if (change(cache, entry, work))
        pal_cache_shard_fit(shard, entry, cache->shard_bytes_max);
    else
        pal_cache_shard_drop(shard, entry);
    pthread_mutex_unlock(&shard->lock);
}

void pal_cache_apply(pal_engine *engine, pal_work *works, size_t works_len)
{
    pal_cache *cache = engine->cache;

    if (!cache) {
        engine->backend->apply(engine, works, works_len);
        return;
    }
    begin(cache, works, works_len);
    engine->backend->apply(engine, works, works_len);
    for (size_t i = 0; i < works_len; i++)
        if (may_change_session(&works[i]))
            change_entry(cache, &works[i]);
    end(cache, works, works_len);
}
