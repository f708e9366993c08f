/* memory_store.c - the backend "memory:": plain structures in memory, lost when the store is
 * closed.
 *
 * "memory:?cap=N" keeps only the last N messages of each session; seqs continue to count. The
 * structures are in memory_store.h and the operations in the other memory_*.c files. This
 * file has the table of callbacks, the reading callbacks and shared functions.
 *
 * Threads: apply() holds the lock for writing, and all other callbacks hold it for reading.
 * row_scan() calls its sink under the lock, so a sink must not call the engine. */
#include "store/memory/memory_store.h"

#include <stdlib.h>
#include "base/clock.h"
#include "base/memory.h"
#include "store/view/view_marks.h"

/* ---- Functions for the other files ---- */

void *pal_memory_alloc(size_t size, size_t text_len, char **out_text)
{
    char *memory = text_len <= SIZE_MAX - size ? pal_calloc(1, size + text_len) : NULL;

    if (memory)
        *out_text = memory + size;
    return memory;
}

pal_str pal_memory_put(char **cursor, pal_str text)
{
    pal_str copy = pal_str_make(*cursor, text.len);

    if (text.len > 0)
        memcpy(*cursor, text.data, text.len);
    *cursor += text.len;
    return copy;
}

pal_status pal_memory_arena_status(pal_arena *arena, pal_error *err)
{
    pal_status failure = pal_arena_failure(arena);

    return failure == PAL_OK ? PAL_OK : pal_error_set(err, failure, "out of memory");
}

/* ---- Opening and closing ---- */

static pal_status parse_cap(const char *location, size_t *out_cap, pal_error *err)
{
    static const char prefix[] = "?cap=";
    char *end = NULL;
    unsigned long cap = 0;

    if (*location == '\0') {
        *out_cap = 0;
        return PAL_OK;
    }
    if (strncmp(location, prefix, sizeof prefix - 1) == 0)
        cap = strtoul(location + sizeof prefix - 1, &end, 10);
    if (!end || *end != '\0' || cap == 0 || location[sizeof prefix - 1] == '-')
        return pal_error_set(
                err, PAL_INVALID, "'memory:%s' must be 'memory:' or 'memory:?cap=N'", location);
    *out_cap = cap;
    return PAL_OK;
}

int pal_memory_lock_init(pthread_rwlock_t *lock)
{
    pthread_rwlockattr_t attr;
    int failed = pthread_rwlockattr_init(&attr);

    if (failed)
        return failed;
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    failed = pthread_rwlock_init(lock, &attr);
    pthread_rwlockattr_destroy(&attr);
    return failed;
}

static pal_status memory_open(const char *location, const pal_store_options *options,
        pal_engine **out_engine, pal_error *err)
{
    memory_engine *engine;
    size_t cap = 0;
    pal_status status = parse_cap(location, &cap, err);

    (void)options;
    if (status != PAL_OK)
        return status;
    engine = pal_calloc(1, sizeof *engine);
    if (!engine || pal_memory_lock_init(&engine->lock) != 0) {
        pal_free(engine);
        return pal_no_memory(err);
    }
    engine->base.backend = &pal_store_memory;
    engine->cap = cap;
    *out_engine = &engine->base;
    return PAL_OK;
}

static void memory_close(pal_engine *base)
{
    memory_engine *engine = (memory_engine *)base;

    pal_memory_engine_clear(engine);
    pthread_rwlock_destroy(&engine->lock);
    pal_free(engine);
}

/* ---- Writing ---- */

pal_status pal_memory_apply_one(memory_engine *engine, pal_work *work)
{
    static pal_status (*const apply[])(memory_engine *, pal_work *) = {
            [PAL_OP_CREATE] = pal_memory_create,
            [PAL_OP_UPDATE] = pal_memory_update,
            [PAL_OP_APPEND] = pal_memory_append,
            [PAL_OP_FORK] = pal_memory_fork,
            [PAL_OP_ADOPT] = pal_memory_adopt,
            [PAL_OP_MARK] = pal_memory_mark,
            [PAL_OP_DELETE] = pal_memory_delete,
            [PAL_OP_RESTORE] = pal_memory_restore,
            [PAL_OP_ERASE] = pal_memory_erase,
            [PAL_OP_INBOX_ADD] = pal_memory_inbox_add,
            [PAL_OP_INBOX_DROP] = pal_memory_inbox_drop,
            [PAL_OP_LEASE_TAKE] = pal_memory_lease_take,
            [PAL_OP_LEASE_RELEASE] = pal_memory_lease_release,
            [PAL_OP_LEDGER_ADD] = pal_memory_ledger_add,
            [PAL_OP_BLOB_PUT] = pal_memory_blob_put,
            [PAL_OP_SWEEP] = pal_memory_sweep,
            [PAL_OP_RECORD_PUT] = pal_memory_record_put,
            [PAL_OP_RECORD_DROP] = pal_memory_record_drop,
            [PAL_OP_ERASE_MESSAGE] = pal_memory_erase_message,
    };

    return apply[work->op->kind](engine, work);
}

static void memory_apply(pal_engine *base, pal_work *works, size_t works_len)
{
    memory_engine *engine = (memory_engine *)base;

    pthread_rwlock_wrlock(&engine->lock);
    for (size_t i = 0, len; i < works_len; i += len) {
        len = works[i].all_len > 1 ? pal_work_group_len(&works[i], works_len - i) : 1;
        if (len > 1)
            pal_memory_apply_all(engine, &works[i], len, false);
        else if (works[i].op->with_previous && works[i].op[-1].status != PAL_OK)
            pal_work_cancel(&works[i]);
        else
            works[i].op->status = pal_memory_apply_one(engine, &works[i]);
    }
    pthread_rwlock_unlock(&engine->lock);
}

/* ---- Reading: rows ---- */

static void scan_rows(
        const memory_session *session, const pal_row_scan *scan, pal_row_sink sink, void *user)
{
    uint64_t last = session->info->record.last_seq;
    uint64_t first = last - session->rows_len + 1;
    uint64_t from = scan->first_seq > first ? scan->first_seq : first;
    uint64_t to = scan->last_seq < last ? scan->last_seq : last;

    for (uint64_t i = 0; from <= to && i <= to - from; i++) {
        uint64_t seq = scan->descending ? to - i : from + i;

        if (!sink(&session->rows[session->rows_skip + (seq - first)]->row, user))
            return;
    }
}

static pal_status memory_row_scan(
        pal_engine *base, const pal_row_scan *scan, pal_row_sink sink, void *user, pal_error *err)
{
    memory_engine *engine = (memory_engine *)base;
    const memory_session *session;

    (void)err;
    pthread_rwlock_rdlock(&engine->lock);
    session = pal_memory_session_by_handle(engine, scan->handle.number);
    if (session)
        scan_rows(session, scan, sink, user);
    pthread_rwlock_unlock(&engine->lock);
    return PAL_OK;
}

static const memory_row *row_by_key(memory_engine *engine, const pal_row_key *key)
{
    const memory_tenant *tenant;

    if (key->client_id.len > 0) {
        const memory_session *session = pal_memory_session_by_handle(engine, key->handle.number);

        return session ? pal_map_find(&session->client_ids, key->client_id) : NULL;
    }
    tenant = pal_memory_tenant_find(engine, key->tenant);
    return tenant ? pal_map_find(&tenant->rows, mem_id_key(&key->id)) : NULL;
}

static pal_status memory_row_find(pal_engine *base, const pal_row_key *key, pal_arena *arena,
        pal_row *out_row, pal_id *out_session, pal_error *err)
{
    memory_engine *engine = (memory_engine *)base;
    pal_status status = PAL_NOT_FOUND;
    const memory_row *found;
    pal_id session;
    pal_row row;

    pthread_rwlock_rdlock(&engine->lock);
    found = row_by_key(engine, key);
    if (found) {
        row = found->row;
        row.client_id = pal_arena_copy(arena, row.client_id);
        row.body = pal_arena_copy(arena, row.body);
        session = found->session->id;
        status = pal_memory_arena_status(arena, err);
    }
    pthread_rwlock_unlock(&engine->lock);
    if (status != PAL_OK)
        return status;
    *out_row = row;
    if (out_session)
        *out_session = session;
    return PAL_OK;
}

/* ---- Reading: the rest ---- */

static bool mark_is_wanted(const pal_mark *mark, const pal_mark_scan *scan)
{
    if (mark->number < scan->first || mark->number > scan->last)
        return false;
    return scan->wanted != PAL_MARKS_HIDING || pal_mark_bears_on_view(mark->kind);
}

static pal_status memory_mark_list(pal_engine *base, const pal_mark_scan *scan, pal_arena *arena,
        pal_mark **out_marks, size_t *out_len, pal_error *err)
{
    memory_engine *engine = (memory_engine *)base;
    const memory_session *session;
    pal_mark *marks = NULL;
    size_t len = 0, at = 0;
    pal_status status;

    pthread_rwlock_rdlock(&engine->lock);
    session = pal_memory_session_by_handle(engine, scan->handle.number);
    for (size_t i = 0; session && i < session->marks_len; i++)
        len += mark_is_wanted(&session->marks[i], scan);
    if (len > 0)
        marks = pal_arena_array(arena, len, sizeof *marks);
    for (size_t i = 0; marks && at < len; i++) {
        if (!mark_is_wanted(&session->marks[i], scan))
            continue;
        marks[at] = session->marks[i];
        marks[at].undone = false;
        marks[at].body = scan->wanted == PAL_MARKS_WHOLE
                ? pal_arena_copy(arena, session->marks[i].body)
                : pal_str_make(NULL, 0);
        at++;
    }
    pthread_rwlock_unlock(&engine->lock);
    status = pal_memory_arena_status(arena, err);
    if (status == PAL_OK) {
        *out_marks = marks;
        *out_len = len;
    }
    return status;
}

static pal_status memory_inbox_list(pal_engine *base, pal_handle handle, pal_arena *arena,
        pal_inbox_item **out_items, size_t *out_len, pal_error *err)
{
    memory_engine *engine = (memory_engine *)base;
    const memory_session *session;
    const memory_item *item;
    pal_inbox_item *items = NULL;
    size_t len = 0, i = 0;
    pal_status status;

    pthread_rwlock_rdlock(&engine->lock);
    session = pal_memory_session_by_handle(engine, handle.number);
    for (item = session ? session->inbox : NULL; item; item = item->next)
        len++;
    if (len > 0)
        items = pal_arena_array(arena, len, sizeof *items);
    for (item = items ? session->inbox : NULL; item; item = item->next, i++) {
        items[i] = item->item;
        items[i].client_id = pal_arena_copy(arena, item->item.client_id);
        items[i].delivery = pal_arena_copy(arena, item->item.delivery);
        items[i].body = pal_arena_copy(arena, item->item.body);
    }
    pthread_rwlock_unlock(&engine->lock);
    status = pal_memory_arena_status(arena, err);
    if (status == PAL_OK) {
        *out_items = items;
        *out_len = len;
    }
    return status;
}

static pal_status memory_lease_find(
        pal_engine *base, pal_handle handle, pal_arena *arena, pal_lease *out_lease, pal_error *err)
{
    memory_engine *engine = (memory_engine *)base;
    pal_status status = PAL_NOT_FOUND;
    const memory_session *session;
    pal_lease lease = {0};

    pthread_rwlock_rdlock(&engine->lock);
    session = pal_memory_session_by_handle(engine, handle.number);
    if (session && session->lease_fence > 0) {
        lease.owner =
                pal_arena_copy(arena, pal_str_make(session->lease_owner, session->lease_owner_len));
        lease.fence = session->lease_fence;
        lease.expires_at = session->lease_expires_at;
        lease.ttl_ms = session->lease_ttl_ms;
        status = pal_memory_arena_status(arena, err);
    }
    pthread_rwlock_unlock(&engine->lock);
    if (status == PAL_OK)
        *out_lease = lease;
    return status;
}

static pal_status memory_blob_get(pal_engine *base, pal_str tenant_name, const uint8_t hash[32],
        pal_arena *arena, pal_blob_row *out_blob, pal_error *err)
{
    memory_engine *engine = (memory_engine *)base;
    pal_status status = PAL_NOT_FOUND;
    const memory_tenant *tenant;
    const memory_blob *blob = NULL;
    pal_blob_row found = {0};

    pthread_rwlock_rdlock(&engine->lock);
    tenant = pal_memory_tenant_find(engine, tenant_name);
    if (tenant)
        blob = pal_map_find(&tenant->blobs, pal_str_make((const char *)hash, 32));
    if (blob) {
        found.bytes = blob->data.len;
        status = PAL_OK;
    }
    if (blob && arena) {
        found.media_type = pal_arena_copy(arena, blob->media_type);
        found.data = pal_arena_copy(arena, blob->data);
        status = pal_memory_arena_status(arena, err);
    }
    pthread_rwlock_unlock(&engine->lock);
    if (status == PAL_OK)
        *out_blob = found;
    return status;
}

/* ---- Maintenance ---- */

static void stat_tenant(const memory_tenant *tenant, pal_store_stats *stats)
{
    /* Names that begin with a control character are internal; API keys are stored under such a
     * name. */
    bool is_ours = tenant->name.len > 0 && (unsigned char)tenant->name.data[0] < 0x20;
    bool has_any =
            tenant->sessions || tenant->blob_list || tenant->ledger || tenant->kind_list;
    const memory_counts *counts = &tenant->counts;

    stats->sessions_active += counts->states[PAL_SESSION_ACTIVE];
    stats->sessions_trash += counts->states[PAL_SESSION_TRASH];
    stats->messages += counts->messages;
    stats->content_bytes += counts->content_bytes;
    stats->blobs += counts->blobs;
    stats->blob_bytes += counts->blob_bytes;
    stats->tenants += has_any && !is_ours;
}

static pal_status memory_stat(pal_engine *base, pal_store_stats *out_stats, pal_error *err)
{
    memory_engine *engine = (memory_engine *)base;
    pal_store_stats stats = {0};

    (void)err;
    pthread_rwlock_rdlock(&engine->lock);
    for (const memory_tenant *tenant = engine->tenant_list; tenant; tenant = tenant->next)
        stat_tenant(tenant, &stats);
    pthread_rwlock_unlock(&engine->lock);
    *out_stats = stats;
    return PAL_OK;
}

const pal_store_backend pal_store_memory = {
        .scheme = "memory",
        .direct = true,
        .open = memory_open,
        .close = memory_close,
        .apply = memory_apply,
        .session_find = pal_memory_find,
        .session_list = pal_memory_list,
        .row_scan = memory_row_scan,
        .row_find = memory_row_find,
        .row_search = pal_memory_row_search,
        .row_rank = pal_memory_row_rank,
        .index_build = pal_memory_index_build,
        .fork_list = pal_memory_fork_list,
        .mark_list = memory_mark_list,
        .inbox_list = memory_inbox_list,
        .lease_find = memory_lease_find,
        .inbox_owners = pal_memory_inbox_owners,
        .ledger_sum = pal_memory_ledger_sum,
        .ledger_list = pal_memory_ledger_list,
        .record_list = pal_memory_record_list,
        .blob_get = memory_blob_get,
        .stat = memory_stat,
        .export_scan = pal_memory_export_scan,
};
