/* store_trace.c - a backend that wraps any other and reports which callback was called, how long it
 * took and how it ended. It shows operators where the time goes, and tests use it. */
#include "base/clock.h"
#include "base/memory.h"
#include "store/store_backend.h"

typedef struct tracer {
    pal_engine engine;
    pal_engine *inner;
    pal_store_on_call trace;
    void *user;
    pal_store_backend table; /* our functions with the scheme of the inner backend */
} tracer;

/* Makes one call of the inner backend and reports it under the callback's name. */
#define TRACED(call, ...)                                                                          \
    tracer *self = (tracer *)engine;                                                               \
    int64_t started_us = pal_clock_monotonic_us();                                                 \
    pal_status status = self->inner->backend->call(self->inner, __VA_ARGS__);                      \
    self->trace(#call, 0, pal_clock_monotonic_us() - started_us, status, self->user);              \
    return status

static void trace_close(pal_engine *engine)
{
    tracer *self = (tracer *)engine;
    int64_t started_us = pal_clock_monotonic_us();

    self->inner->backend->close(self->inner);
    self->trace("close", 0, pal_clock_monotonic_us() - started_us, PAL_OK, self->user);
    pal_free(self);
}

static void trace_apply(pal_engine *engine, pal_work *works, size_t works_len)
{
    tracer *self = (tracer *)engine;
    int64_t started_us = pal_clock_monotonic_us();
    pal_status first_failure = PAL_OK;

    self->inner->backend->apply(self->inner, works, works_len);
    for (size_t i = 0; i < works_len && first_failure == PAL_OK; i++)
        first_failure = works[i].op->status;
    self->trace("apply", works_len, pal_clock_monotonic_us() - started_us, first_failure,
            self->user);
}

static pal_status trace_session_ahead(pal_engine *engine, pal_str tenant, pal_id id,
        const pal_ahead_wants *wants, pal_arena *arena, pal_session_row *out_row, pal_error *err)
{
    TRACED(session_ahead, tenant, id, wants, arena, out_row, err);
}

static pal_status trace_session_find(pal_engine *engine, pal_str tenant, pal_session_by by,
        pal_str name, pal_arena *arena, pal_session_row *out_row, pal_error *err)
{
    TRACED(session_find, tenant, by, name, arena, out_row, err);
}

static pal_status trace_session_list(pal_engine *engine, const pal_session_query *query,
        int64_t after_ms, pal_handle after, pal_arena *arena, pal_session_row *out_rows,
        size_t rows_max, size_t *out_len, pal_error *err)
{
    TRACED(session_list, query, after_ms, after, arena, out_rows, rows_max, out_len, err);
}

static pal_status trace_row_scan(
        pal_engine *engine, const pal_row_scan *scan, pal_row_sink sink, void *user, pal_error *err)
{
    TRACED(row_scan, scan, sink, user, err);
}

static pal_status trace_row_find(pal_engine *engine, const pal_row_key *key, pal_arena *arena,
        pal_row *out_row, pal_id *out_session, pal_error *err)
{
    TRACED(row_find, key, arena, out_row, out_session, err);
}

static pal_status trace_row_search(pal_engine *engine, const pal_row_search *search,
        pal_found_sink sink, void *user, pal_error *err)
{
    TRACED(row_search, search, sink, user, err);
}

static pal_status trace_row_rank(pal_engine *engine, const pal_row_rank *rank,
        pal_found_sink sink, void *user, pal_rank_counts *out_counts, pal_error *err)
{
    TRACED(row_rank, rank, sink, user, out_counts, err);
}

static pal_status trace_fork_list(pal_engine *engine, pal_handle handle, uint64_t min_seq,
        pal_arena *arena, pal_id **out_ids, size_t *out_len, pal_error *err)
{
    TRACED(fork_list, handle, min_seq, arena, out_ids, out_len, err);
}

static pal_status trace_index_build(
        pal_engine *engine, pal_str tenant, pal_arena *arena, const pal_index_part **out_part,
        bool *out_more, pal_error *err)
{
    TRACED(index_build, tenant, arena, out_part, out_more, err);
}

static pal_status trace_mark_list(pal_engine *engine, const pal_mark_scan *scan, pal_arena *arena,
        pal_mark **out_marks, size_t *out_len, pal_error *err)
{
    TRACED(mark_list, scan, arena, out_marks, out_len, err);
}

static pal_status trace_inbox_list(pal_engine *engine, pal_handle handle, pal_arena *arena,
        pal_inbox_item **out_items, size_t *out_len, pal_error *err)
{
    TRACED(inbox_list, handle, arena, out_items, out_len, err);
}

static pal_status trace_lease_find(pal_engine *engine, pal_handle handle, pal_arena *arena,
        pal_lease *out_lease, pal_error *err)
{
    TRACED(lease_find, handle, arena, out_lease, err);
}

static pal_status trace_inbox_owners(pal_engine *engine, const pal_inbox_owner *after,
        int64_t now_ms, pal_arena *arena, pal_inbox_owner *out_owners, size_t owners_max,
        size_t *out_len, pal_error *err)
{
    TRACED(inbox_owners, after, now_ms, arena, out_owners, owners_max, out_len, err);
}

static pal_status trace_ledger_sum(pal_engine *engine, const pal_ledger_query *query,
        pal_handle handle, pal_ledger_sum *out_sum, pal_error *err)
{
    TRACED(ledger_sum, query, handle, out_sum, err);
}

static pal_status trace_ledger_list(pal_engine *engine, const pal_ledger_query *query,
        pal_handle handle, const pal_ledger_place *before, pal_arena *arena,
        pal_ledger_entry *out_entries, size_t entries_max, size_t *out_len, pal_error *err)
{
    TRACED(ledger_list, query, handle, before, arena, out_entries, entries_max, out_len, err);
}

static pal_status trace_record_list(pal_engine *engine, const pal_record_scan *scan,
        pal_arena *arena, pal_record *out_records, size_t *out_len, pal_error *err)
{
    TRACED(record_list, scan, arena, out_records, out_len, err);
}

static pal_status trace_blob_get(pal_engine *engine, pal_str tenant, const uint8_t hash[32],
        pal_arena *arena, pal_blob_row *out_blob, pal_error *err)
{
    TRACED(blob_get, tenant, hash, arena, out_blob, err);
}

static pal_status trace_blob_ahead(
        pal_engine *engine, pal_str tenant, pal_work_blob *blob, pal_error *err)
{
    TRACED(blob_ahead, tenant, blob, err);
}

/* Not reported: it costs nothing, and the front calls it for every operation. */
static int64_t trace_now_ms(pal_engine *engine)
{
    pal_engine *inner = ((tracer *)engine)->inner;

    return inner->backend->now_ms(inner);
}

static uint64_t trace_outside(pal_engine *engine)
{
    pal_engine *inner = ((tracer *)engine)->inner;

    return inner->backend->outside(inner);
}

static uint64_t trace_went_back(pal_engine *engine)
{
    pal_engine *inner = ((tracer *)engine)->inner;

    return inner->backend->went_back(inner);
}

static pal_status trace_stat(pal_engine *engine, pal_store_stats *out_stats, pal_error *err)
{
    TRACED(stat, out_stats, err);
}

static pal_status trace_ready(pal_engine *engine, pal_error *err)
{
    TRACED(ready, err);
}

static pal_status trace_check(pal_engine *engine, bool repair, pal_row_check row_check,
        pal_store_on_finding sink, pal_store_on_progress progress, void *user, pal_error *err)
{
    TRACED(check, repair, row_check, sink, progress, user, err);
}

static const pal_store_backend trace_table = {
        .close = trace_close,
        .apply = trace_apply,
        .session_find = trace_session_find,
        .session_ahead = trace_session_ahead,
        .session_list = trace_session_list,
        .row_scan = trace_row_scan,
        .row_find = trace_row_find,
        .row_search = trace_row_search,
        .row_rank = trace_row_rank,
        .fork_list = trace_fork_list,
        .index_build = trace_index_build,
        .mark_list = trace_mark_list,
        .inbox_list = trace_inbox_list,
        .lease_find = trace_lease_find,
        .inbox_owners = trace_inbox_owners,
        .ledger_sum = trace_ledger_sum,
        .ledger_list = trace_ledger_list,
        .record_list = trace_record_list,
        .blob_get = trace_blob_get,
        .stat = trace_stat,
        .blob_ahead = trace_blob_ahead,
        .now_ms = trace_now_ms,
        .ready = trace_ready,
        .outside = trace_outside,
        .went_back = trace_went_back,
        .check = trace_check,
};

pal_status pal_store_trace_open(pal_engine *inner, const pal_store_options *options,
        pal_engine **out_engine, pal_error *err)
{
    tracer *self = pal_calloc(1, sizeof(*self));

    if (!self)
        return pal_no_memory(err);
    self->table = trace_table;
    self->table.scheme = inner->backend->scheme;
    self->table.direct = inner->backend->direct;
    self->table.ahead_extend = inner->backend->ahead_extend; /* reads nothing */
    if (!inner->backend->check)
        self->table.check = NULL;
    if (!inner->backend->ready)
        self->table.ready = NULL;
    if (!inner->backend->outside)
        self->table.outside = NULL;
    if (!inner->backend->went_back)
        self->table.went_back = NULL;
    if (!inner->backend->session_ahead)
        self->table.session_ahead = NULL;
    if (!inner->backend->index_build)
        self->table.index_build = NULL;
    if (!inner->backend->blob_ahead)
        self->table.blob_ahead = NULL;
    if (!inner->backend->now_ms)
        self->table.now_ms = NULL;
    self->engine.backend = &self->table;
    self->inner = inner;
    self->trace = options->trace;
    self->user = options->trace_user;
    *out_engine = &self->engine;
    return PAL_OK;
}
