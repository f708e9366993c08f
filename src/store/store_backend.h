/* store_backend.h - what a backend is. The front (store.c) checks arguments, fills in defaults,
 * encodes messages and composes forks and rewinds; a backend keeps rows and commits batches.
 *
 * Threads: apply() is called by one thread at a time (the writer's); all reading callbacks may
 * be called from any thread, several at once, and while apply() runs.
 *
 * Nothing here knows of JSON forms: a row's body is bytes. */
#ifndef PAL_STORE_BACKEND_H
#define PAL_STORE_BACKEND_H

#include "palaver/store.h"
#include "store/store_words.h"

/* One stored message. */
typedef struct pal_row {
    uint64_t seq;
    pal_id id;
    pal_role role;
    uint32_t flags;
    uint32_t tokens;
    int64_t created_at;
    pal_str client_id;
    pal_id turn_id;
    bool is_text; /* the body is just the text of the message's only part, as most are */
    pal_str body; /* else the native JSON form without what stands above */
    bool is_named; /* append: the caller gave the id, and the tenant may have it already */
} pal_row;

/* Whether a lease holds. One that ends much later than it could have been taken for now was taken
 * before the clock went back, and its owner has not renewed it since: so a session is held by a
 * dead process for twice the ttl at most, whatever the clock does. The second ttl is for clocks
 * that differ a little. `ttl_ms` 0: nobody said. `now_ms` is that of this moment, not of when the
 * operation was made: another process may have taken the lease in between. */
static inline bool pal_lease_is_held(int64_t expires_at, int64_t ttl_ms, int64_t now_ms)
{
    int64_t ttl = ttl_ms > 0 ? ttl_ms : PAL_LEASE_TTL_MS_MAX;

    return expires_at > now_ms && expires_at - now_ms <= 2 * ttl;
}

/* Whether the lease is in the way of this operation, unless its owner is the same. A lease that was
 * given back has the end 0. */
static inline bool pal_lease_blocks(
        const pal_op *op, uint64_t fence, int64_t expires_at, int64_t ttl_ms, int64_t now_ms)
{
    if (op->u.lease.stale_fence == fence && op->u.lease.stale_expires_at == expires_at)
        return false;
    if (op->u.lease.is_watched)
        return expires_at != 0;
    return pal_lease_is_held(expires_at, ttl_ms, now_ms);
}

/* When a lease ends that is taken now. Each renewal has another end, also if the clock stands still
 * or goes back: other processes see by it that the owner lives. */
static inline int64_t pal_lease_end(int64_t now_ms, int64_t ttl_ms, int64_t previous)
{
    return now_ms + ttl_ms + (now_ms + ttl_ms == previous);
}

/* A session with what only the store needs of it. */
typedef struct pal_session_row {
    pal_session session;
    uint64_t handle;      /* the backend's own number for it */
    uint64_t mark_number; /* of its newest mark; 0: none */
    uint64_t fork_mark;   /* the parent's mark_number when it was forked */
} pal_session_row;

/* A blob that an operation refers to. */
typedef struct pal_work_blob {
    uint8_t hash[32];
    bool is_new;        /* it comes with the operation; else it must be there (PAL_NOT_FOUND) */
    pal_str media_type; /* of a new one */
    pal_str data;       /* of a new one */
} pal_work_blob;

/* A part of the search index; only its backend knows what is in it. */
typedef struct pal_index_part pal_index_part;

/* One operation with what the front prepared for it. The backend sets op->status and op->error and
 * the op's results; it leaves an operation that it refuses without any trace. */
typedef struct pal_work {
    pal_op *op;
    pal_str tenant; /* never empty */
    int64_t now_ms;
    pal_id new_id;   /* create, fork, inbox_add: the id to give */
    pal_row *rows;   /* append: one per message, seq still 0; on success the backend fills in seq,
                        and for replayed messages id, created_at and tokens */
    size_t rows_len;
    pal_work_blob *blobs; /* append: all that its rows refer to; blob_put: the one */
    size_t blobs_len;
    uint64_t fork_seq;  /* fork, adopt: resolved against the parent, which owns that row */
    uint64_t fork_mark; /* fork, adopt */
    pal_id fork_parent; /* fork, adopt: the session that owns fork_seq; none where that is 0 */
    const pal_index_part *index; /* with PAL_OP_NONE: what index_build() gave, to be kept */
    uint32_t sessions_max;       /* create, fork, restore: as in the options */
} pal_work;

/* The tenant has as many sessions as it may have. */
static inline pal_status pal_sessions_full(pal_work *work)
{
    return pal_error_set(&work->op->error, PAL_BUDGET,
            "tenant '%.*s' has %u sessions, which is the limit; delete one first",
            (int)(work->tenant.len < 80 ? work->tenant.len : 80), work->tenant.data,
            (unsigned)work->sessions_max);
}

/* Whether it may run: not where it goes with the operation before it and that one failed. */
static inline bool pal_work_may_run(pal_work *work)
{
    pal_op *op = work->op;

    if (!op->with_previous || op[-1].status == PAL_OK)
        return true;
    op->status = pal_error_set(
            &op->error, PAL_CANCELED, "the operation that it goes with failed: %s",
            op[-1].error.message);
    return false;
}

/* The ledger's sums are kept by the hour as well, so that nobody has to add up all rows. */
#define PAL_LEDGER_HOUR_MS ((int64_t)3600 * 1000)

/* Whether the record counts as not there. */
static inline bool pal_record_expired(const pal_record *record, int64_t now_ms)
{
    return record->expires_at != 0 && now_ms >= record->expires_at;
}

/* What every backend answers when a record is written: PAL_OK, or the conflict between the version
 * that there is (0: none) and the one that is expected. */
PAL_CHECKED pal_status pal_record_check_version(pal_work *work, uint64_t version);
/* Likewise where the record that is to be dropped is not there. */
pal_status pal_record_missing(pal_work *work);

/* Own rows of one session that are in sight: first..last, inclusive. */
typedef struct pal_piece {
    uint64_t handle;
    uint64_t first;
    uint64_t last;
} pal_piece;

/* False stops the scan. `row` and what it points to are borrowed for the call. It must not call the
 * engine. */
typedef bool (*pal_row_sink)(const pal_row *row, void *user);

/* PAL_OK when the front can decode the row; the error says why not. */
typedef pal_status (*pal_row_check)(const pal_row *row, pal_error *err);

typedef struct pal_row_scan {
    uint64_t handle;
    uint64_t first_seq; /* inclusive */
    uint64_t last_seq;  /* inclusive */
    bool descending;
} pal_row_scan;

/* Which rows may be hits. */
typedef struct pal_row_search {
    pal_str tenant;
    const pal_query *query;
    pal_role role;          /* NONE: any */
    const pal_piece *pieces; /* NULL: of any session of the tenant; else newest first */
    size_t pieces_len;
    uint64_t below_pos; /* only rows that came before this one; 0: any */
} pal_row_search;

typedef struct pal_found_row {
    const pal_row *row;
    uint64_t pos; /* the order of arrival over all sessions, from 1 */
    uint64_t handle;
    pal_id session;
} pal_found_row;

/* As pal_row_sink. */
typedef bool (*pal_found_sink)(const pal_found_row *found, void *user);

typedef enum pal_marks_wanted {
    PAL_MARKS_HIDING, /* rewinds, resets and undos, without bodies: all that a view needs */
    PAL_MARKS_BRIEF,  /* every kind, without bodies */
    PAL_MARKS_WHOLE,  /* every kind */
} pal_marks_wanted;

typedef struct pal_mark_scan {
    uint64_t handle;
    uint64_t first; /* number, inclusive */
    uint64_t last;  /* inclusive */
    pal_marks_wanted wanted;
} pal_mark_scan;

typedef struct pal_engine pal_engine;

typedef struct pal_store_backend {
    const char *scheme; /* "sqlite" answers urls that begin with "sqlite:" */
    bool direct;        /* apply() never waits: callers run it themselves, one at a time */

    /* `location` is the url after its scheme. */
    pal_status (*open)(const char *location, const pal_store_options *options,
            pal_engine **out_engine, pal_error *err);
    void (*close)(pal_engine *engine);

    /* Commits the batch in its order. Each work that fails, fails alone. Returns only after what
     * it reports as PAL_OK is durable. */
    void (*apply)(pal_engine *engine, pal_work *works, size_t works_len);

    /* By PAL_FIND_ID (16 bytes in `name`) in any state, by key and alias among active sessions.
     * PAL_NOT_FOUND without a message. */
    pal_status (*session_find)(pal_engine *engine, pal_str tenant, pal_find_by by, pal_str name,
            pal_arena *arena, pal_session_row *out_row, pal_error *err);

    /* Newest update first. `after_ms`/`after_handle` are those of the last session before this
     * page, 0/0 for the first page. Asks for one more than the page to see whether it is last. */
    pal_status (*session_list)(pal_engine *engine, const pal_session_query *query,
            int64_t after_ms, uint64_t after_handle, pal_arena *arena, pal_session_row *out_rows,
            size_t rows_max, size_t *out_len, pal_error *err);

    /* Own rows of one session, in order. */
    pal_status (*row_scan)(pal_engine *engine, const pal_row_scan *scan, pal_row_sink sink,
            void *user, pal_error *err);
    /* One row by its message's id, and its session. */
    pal_status (*row_find)(pal_engine *engine, pal_str tenant, pal_id id, pal_arena *arena,
            pal_row *out_row, pal_id *out_session, pal_error *err);

    /* Rows of the tenant from the newest arrival to the oldest: all that match, and maybe others,
     * which the front sorts out. */
    pal_status (*row_search)(pal_engine *engine, const pal_row_search *search, pal_found_sink sink,
            void *user, pal_error *err);
    /* The ids of sessions that were forked from this one at the message `min_seq` or a later one,
     * in whatever state. */
    pal_status (*fork_list)(pal_engine *engine, uint64_t handle, uint64_t min_seq, pal_arena *arena,
            pal_id **out_ids, size_t *out_len, pal_error *err);
    /* Optional: NULL where row_search() has no index. Makes a part of it that is missing, without
     * writing anything: apply() does that. A backend whose index is in memory adds the part itself
     * and leaves *out_part NULL. *out_more says that there may be others. */
    pal_status (*index_build)(pal_engine *engine, pal_arena *arena,
            const pal_index_part **out_part, bool *out_more, pal_error *err);

    /* Own marks of one session, oldest first; `undone` unset. Costs what it returns: bodies may be
     * long, and most marks hide nothing. */
    pal_status (*mark_list)(pal_engine *engine, const pal_mark_scan *scan, pal_arena *arena,
            pal_mark **out_marks, size_t *out_len, pal_error *err);

    pal_status (*inbox_list)(pal_engine *engine, uint64_t handle, pal_arena *arena,
            pal_inbox_item **out_items, size_t *out_len, pal_error *err);
    /* Sessions that are active and not expired at `now_ms` and have something in their inbox, of
     * all tenants, by the bytes of their ids and tenants, from behind `after` on. Costs what waits
     * in inboxes, not how many sessions there are. */
    pal_status (*inbox_owners)(pal_engine *engine, const pal_inbox_owner *after, int64_t now_ms,
            pal_arena *arena, pal_inbox_owner *out_owners, size_t owners_max, size_t *out_len,
            pal_error *err);
    /* PAL_NOT_FOUND where nobody ever held it; else whatever was recorded last. */
    pal_status (*lease_find)(pal_engine *engine, uint64_t handle, pal_arena *arena,
            pal_lease *out_lease, pal_error *err);
    /* Of the query's session if `handle` is not 0; `from` is 0 or more, and `to` is set. Budgets
     * ask for it before every model call: the sum of a session or a turn costs its own rows, and
     * that of a tenant or an agent must not cost all of theirs. */
    pal_status (*ledger_sum)(pal_engine *engine, const pal_ledger_query *query, uint64_t handle,
            pal_ledger_sum *out_sum, pal_error *err);
    /* PAL_NOT_FOUND without a message; one that has expired may still be found. */
    pal_status (*record_find)(pal_engine *engine, pal_str tenant, pal_str kind, pal_str name,
            pal_arena *arena, pal_record *out_record, pal_error *err);
    /* Of the query's session if `handle` is not 0; none that has expired at `now_ms`. At most
     * `records_max`, which is one more than the page. */
    pal_status (*record_list)(pal_engine *engine, const pal_record_query *query, uint64_t handle,
            int64_t now_ms, pal_arena *arena, pal_record *out_records, size_t records_max,
            size_t *out_len, pal_error *err);
    pal_status (*blob_get)(pal_engine *engine, pal_str tenant, const uint8_t hash[32],
            pal_arena *arena, pal_str *out_media_type, pal_str *out_data, pal_error *err);
    /* Its length alone, without reading it. */
    pal_status (*blob_size)(pal_engine *engine, pal_str tenant, const uint8_t hash[32],
            uint64_t *out_bytes, pal_error *err);

    pal_status (*stat)(pal_engine *engine, pal_store_stats *out_stats, pal_error *err);
    /* Optional. PAL_OK unless something that reads and writes don't notice keeps the engine from
     * working: its files are gone, say. Cheap, and without a write. */
    pal_status (*ready)(pal_engine *engine, pal_error *err);

    /* Optional. Checks the files, the indexes and every session: seqs without a gap, rows that
     * `row_check` takes, counts that agree. With `repair`, rebuilds what can be derived and
     * quarantines damaged sessions. */
    pal_status (*check)(pal_engine *engine, bool repair, pal_row_check row_check,
            pal_finding_sink sink, pal_progress progress, void *user, pal_error *err);
} pal_store_backend;

/* Every backend's own struct begins with this one. */
struct pal_engine {
    const pal_store_backend *backend;
};

extern const pal_store_backend pal_store_sqlite;
extern const pal_store_backend pal_store_memory;
extern const pal_store_backend pal_store_jsonl;

/* Wraps `inner` (which it closes) and reports every call to options->trace. */
pal_status pal_store_trace_open(pal_engine *inner, const pal_store_options *options,
        pal_engine **out_engine, pal_error *err);

/* The engine behind a store, so that tests can put another in its place (store_fault). */
pal_engine **pal_store_engine(pal_store *store);

#endif
