/* store_fault.c - a wrapper around a backend that fails or ends the process at the Nth call.
 *
 * Each wrapper has a copy of the table, because scheme and traits are those of the wrapped backend.
 * Threads: as the wrapped backend. The count of calls is atomic, so exactly one call is hit. */
#include "support/store_fault.h"

#include <stdatomic.h>
#include <unistd.h>
#include "base/memory.h"
#include "store/store_backend.h"

typedef struct fault_engine {
    pal_engine base;
    pal_store_backend table;
    pal_engine *inner;
    store_fault fault;
    atomic_uint_fast64_t calls;
} fault_engine;

/* Counts the call. Returns true if this is the call that must be skipped. */
static bool is_hit(fault_engine *self, bool *out_after)
{
    bool hit = atomic_fetch_add(&self->calls, 1) + 1 == self->fault.call;

    if (hit && !self->fault.after && self->fault.status == PAL_OK)
        _exit(STORE_FAULT_EXIT);
    *out_after = hit && self->fault.after;
    return hit && !self->fault.after;
}

/* Drops the result of the call that was hit. */
static pal_status answer(fault_engine *self, pal_error *err)
{
    if (self->fault.status == PAL_OK)
        _exit(STORE_FAULT_EXIT);
    return pal_error_set(err, self->fault.status, "a fault was put here");
}

/* Calls the wrapped backend, unless this call must fail. */
#define PASS(call)                                                                                 \
    do {                                                                                           \
        fault_engine *self = (fault_engine *)engine;                                               \
        pal_status status;                                                                         \
        bool after;                                                                                \
                                                                                                   \
        if (is_hit(self, &after))                                                                  \
            return answer(self, err);                                                              \
        status = self->inner->backend->call;                                                       \
        return after ? answer(self, err) : status;                                                 \
    } while (0)

static void fault_close(pal_engine *engine)
{
    fault_engine *self = (fault_engine *)engine;

    self->inner->backend->close(self->inner);
    pal_free(self);
}

static void fault_apply(pal_engine *engine, pal_work *works, size_t works_len)
{
    fault_engine *self = (fault_engine *)engine;
    bool after, hit = is_hit(self, &after);

    for (size_t i = 0; i < works_len; i++)
        if (works[i].op->kind == PAL_OP_LEASE_RELEASE)
            usleep(self->fault.release_ms * 1000);
    if (!hit)
        self->inner->backend->apply(self->inner, works, works_len);
    if (!hit && !after)
        return;
    for (size_t i = 0; i < works_len; i++)
        works[i].op->status = answer(self, &works[i].op->error);
}

static pal_status fault_session_find(pal_engine *engine, pal_str tenant, pal_session_by by,
        pal_str name, pal_arena *arena, pal_session_row *out_row, pal_error *err)
{
    PASS(session_find(self->inner, tenant, by, name, arena, out_row, err));
}

static pal_status fault_session_list(pal_engine *engine, const pal_session_query *query,
        int64_t after_ms, pal_handle last, pal_arena *arena, pal_session_row *out_rows,
        size_t rows_max, size_t *out_len, pal_error *err)
{
    PASS(session_list(
            self->inner, query, after_ms, last, arena, out_rows, rows_max, out_len, err));
}

static pal_status fault_row_scan(
        pal_engine *engine, const pal_row_scan *scan, pal_row_sink sink, void *user, pal_error *err)
{
    PASS(row_scan(self->inner, scan, sink, user, err));
}

static pal_status fault_row_find(pal_engine *engine, const pal_row_key *key, pal_arena *arena,
        pal_row *out_row, pal_id *out_session, pal_error *err)
{
    PASS(row_find(self->inner, key, arena, out_row, out_session, err));
}

static pal_status fault_row_search(pal_engine *engine, const pal_row_search *search,
        pal_found_sink sink, void *user, pal_error *err)
{
    PASS(row_search(self->inner, search, sink, user, err));
}

static pal_status fault_row_rank(pal_engine *engine, const pal_row_rank *rank,
        pal_found_sink sink, void *user, pal_rank_counts *out_counts, pal_error *err)
{
    PASS(row_rank(self->inner, rank, sink, user, out_counts, err));
}

static pal_status fault_fork_list(pal_engine *engine, pal_handle handle, uint64_t min_seq,
        pal_arena *arena, pal_id **out_ids, size_t *out_len, pal_error *err)
{
    PASS(fork_list(self->inner, handle, min_seq, arena, out_ids, out_len, err));
}

static pal_status fault_index_build(
        pal_engine *engine, pal_str tenant, pal_arena *arena, const pal_index_part **out_part,
        bool *out_more, pal_error *err)
{
    PASS(index_build(self->inner, tenant, arena, out_part, out_more, err));
}

static pal_status fault_mark_list(pal_engine *engine, const pal_mark_scan *scan, pal_arena *arena,
        pal_mark **out_marks, size_t *out_len, pal_error *err)
{
    PASS(mark_list(self->inner, scan, arena, out_marks, out_len, err));
}

static pal_status fault_inbox_list(pal_engine *engine, pal_handle handle, pal_arena *arena,
        pal_inbox_item **out_items, size_t *out_len, pal_error *err)
{
    PASS(inbox_list(self->inner, handle, arena, out_items, out_len, err));
}

static pal_status fault_lease_find(pal_engine *engine, pal_handle handle, pal_arena *arena,
        pal_lease *out_lease, pal_error *err)
{
    PASS(lease_find(self->inner, handle, arena, out_lease, err));
}

static pal_status fault_inbox_owners(pal_engine *engine, const pal_inbox_owner *after_one,
        int64_t now_ms, pal_arena *arena, pal_inbox_owner *out_owners, size_t owners_max,
        size_t *out_len, pal_error *err)
{
    PASS(inbox_owners(self->inner, after_one, now_ms, arena, out_owners, owners_max, out_len, err));
}

static pal_status fault_ledger_sum(pal_engine *engine, const pal_ledger_query *query,
        pal_handle handle, pal_ledger_sum *out_sum, pal_error *err)
{
    PASS(ledger_sum(self->inner, query, handle, out_sum, err));
}

static pal_status fault_ledger_list(pal_engine *engine, const pal_ledger_query *query,
        pal_handle handle, const pal_ledger_place *before_one, pal_arena *arena,
        pal_ledger_entry *out_entries, size_t entries_max, size_t *out_len, pal_error *err)
{
    PASS(ledger_list(self->inner, query, handle, before_one, arena, out_entries, entries_max,
            out_len, err));
}

static pal_status fault_record_list(pal_engine *engine, const pal_record_scan *scan,
        pal_arena *arena, pal_record *out_records, size_t *out_len, pal_error *err)
{
    PASS(record_list(self->inner, scan, arena, out_records, out_len, err));
}

static pal_status fault_blob_get(pal_engine *engine, pal_str tenant, const uint8_t hash[32],
        pal_arena *arena, pal_blob_row *out_blob, pal_error *err)
{
    PASS(blob_get(self->inner, tenant, hash, arena, out_blob, err));
}

static pal_status fault_stat(pal_engine *engine, pal_store_stats *out_stats, pal_error *err)
{
    PASS(stat(self->inner, out_stats, err));
}

static pal_status fault_check(pal_engine *engine, bool repair, pal_row_check row_check,
        pal_store_on_finding sink, pal_store_on_progress progress, void *user, pal_error *err)
{
    PASS(check(self->inner, repair, row_check, sink, progress, user, err));
}

/* Not counted: it cannot fail. */
static uint64_t fault_outside(pal_engine *engine)
{
    fault_engine *self = (fault_engine *)engine;

    return self->inner->backend->outside(self->inner);
}

pal_status store_fault_install(pal_store *store, const store_fault *fault)
{
    pal_engine **engine = pal_store_engine(store);
    fault_engine *self = pal_calloc(1, sizeof *self);

    if (!self)
        return PAL_NO_MEMORY;
    self->inner = *engine;
    self->fault = *fault;
    self->table = (pal_store_backend){
            .scheme = self->inner->backend->scheme,
            .direct = self->inner->backend->direct,
            .close = fault_close,
            .apply = fault_apply,
            .session_find = fault_session_find,
            .session_list = fault_session_list,
            .row_scan = fault_row_scan,
            .row_find = fault_row_find,
            .row_search = fault_row_search,
            .row_rank = fault_row_rank,
            .fork_list = fault_fork_list,
            .index_build = self->inner->backend->index_build ? fault_index_build : NULL,
            .mark_list = fault_mark_list,
            .inbox_list = fault_inbox_list,
            .lease_find = fault_lease_find,
            .inbox_owners = fault_inbox_owners,
            .ledger_sum = fault_ledger_sum,
            .ledger_list = fault_ledger_list,
            .record_list = fault_record_list,
            .blob_get = fault_blob_get,
            .stat = fault_stat,
            .outside = self->inner->backend->outside ? fault_outside : NULL,
            .check = self->inner->backend->check ? fault_check : NULL,
    };
    self->base.backend = &self->table;
    self->base.cache = self->inner->cache;
    self->inner->cache = NULL;
    *engine = &self->base;
    return PAL_OK;
}

bool store_fault_disarm(pal_store *store)
{
    fault_engine *self = (fault_engine *)*pal_store_engine(store);
    bool fired = self->fault.call > 0 && atomic_load(&self->calls) >= self->fault.call;

    self->fault.call = 0;
    return fired;
}
