/* store_backend.h - the interface of a backend. The front (store.c) checks arguments, fills in
 * defaults, encodes messages and composes forks and rewinds. A backend keeps rows and commits
 * batches.
 *
 * Threads: apply() is called by one thread at a time (the writer). All reading callbacks can be
 * called from any thread, several at the same time, and while apply() runs.
 *
 * Nothing here depends on JSON: the body of a row is bytes. */
#ifndef PAL_STORE_BACKEND_H
#define PAL_STORE_BACKEND_H

#include "base/text.h"
#include "palaver/store.h"
#include "palaver/store_admin.h"
#include "palaver/store_batch.h"
#include "palaver/store_marks.h"
#include "palaver/store_records.h"
#include "palaver/store_turns.h"
#include "store/search/search_rank.h"

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
    bool is_text; /* the body is the plain text of the message's only part; most messages are stored
                     so */
    pal_str body; /* if not is_text: the native JSON form without the members above */
    bool is_named; /* append: the caller chose the id, so the tenant may already use it */
} pal_row;

/* Returns whether a lease is held at `now_ms`.
 *
 * If the clock was set back, a lease can end later than any lease that is taken now. Its owner has
 * not renewed it since, so it does not count as held. A dead process therefore blocks a session for
 * at most twice the ttl, whatever the clock does. The second ttl allows for clocks that differ a
 * little. `ttl_ms` 0: the ttl is not known, and the longest allowed one is used. `now_ms` is the
 * present time, not the time when the operation was created: another process may have taken the
 * lease in between. */
static inline bool pal_lease_is_held(int64_t expires_at, int64_t ttl_ms, int64_t now_ms)
{
    int64_t ttl = ttl_ms > 0 ? ttl_ms : PAL_LEASE_TTL_MS_MAX;

    return expires_at > now_ms && expires_at - now_ms <= 2 * ttl;
}

/* Returns whether the lease prevents this operation. It does not compare the owners; the caller
 * does. A released lease has expires_at 0. */
static inline bool pal_lease_blocks(
        const pal_op *op, uint64_t fence, int64_t expires_at, int64_t ttl_ms, int64_t now_ms)
{
    if (op->u.lease.stale_fence == fence && op->u.lease.stale_expires_at == expires_at)
        return false;
    if (op->u.lease.is_watched)
        return expires_at != 0;
    return pal_lease_is_held(expires_at, ttl_ms, now_ms);
}

/* Returns when a lease that is taken now ends. Each renewal changes the end, even if the clock
 * stands still or goes back. Other processes see by this change that the owner is alive. */
static inline int64_t pal_lease_end(int64_t now_ms, int64_t ttl_ms, int64_t previous)
{
    return now_ms + ttl_ms + (now_ms + ttl_ms == previous);
}

/* Data that a backend has read together with a session. Only the backend knows the contents. */
typedef struct pal_ahead pal_ahead;

/* Data that the caller will probably read next. */
typedef struct pal_ahead_wants {
    uint32_t rows_max; /* about so many of the newest rows; 0: nothing is read ahead */
    bool first_rows;
    bool marks;
    bool inbox;
    bool is_brief; /* only numbers and ids of the session are needed, and no names or texts */
} pal_ahead_wants;

/* Names a session in calls to the backend that returned it. A backend that numbers its sessions
 * uses only `number`. A backend without numbers uses `tenant` and `id`. */
typedef struct pal_handle {
    uint64_t number; /* not 0; the handle without a session has 0 */
    pal_id id;
    pal_str tenant; /* borrowed; valid as long as the call's arena, or the caller's own tenant */
    const pal_ahead *ahead; /* in the arena of session_ahead(); NULL: nothing was read ahead */
} pal_handle;

static inline bool pal_handle_is_none(pal_handle handle)
{
    return handle.number == 0;
}

/* Compares the handles of two sessions of one tenant. */
static inline bool pal_handle_equal(pal_handle a, pal_handle b)
{
    return a.number == b.number && pal_id_equal(a.id, b.id);
}

/* Limits the marks that are read of a session and its parents, to show an earlier state or one
 * without some marks. */
typedef struct pal_view_past {
    uint64_t before_seq; /* only marks that were made before this message was appended; 0: all */
    pal_id session;
    const uint64_t *without; /* numbers of marks of that session that do not count */
    size_t without_len;
} pal_view_past;

/* A session, with the values that only the store uses. */
typedef struct pal_session_row {
    pal_session session;
    pal_handle handle;
    uint64_t mark_number; /* number of the newest mark; 0: no marks */
    const pal_view_past *past; /* set by the front; NULL: all marks count */
} pal_session_row;

/* A blob that an operation refers to. */
typedef struct pal_work_blob {
    uint8_t hash[32];
    bool is_new;        /* the operation brings the blob; if false, the blob must exist
                           (PAL_NOT_FOUND) */
    pal_str media_type; /* set if is_new */
    pal_str data;       /* set if is_new */
    bool is_ahead;      /* blob_ahead() was called for it */
} pal_work_blob;

/* A part of the search index. Only its backend knows the contents. */
typedef struct pal_index_part pal_index_part;

/* Values of an object in another store. An operation that has them copies that object. It does not
 * check the session's state and does not change its updated_at. It keeps given values instead of
 * making its own:
 *
 *   create       state, times, key and aliases of the session; now_ms is its updated_at
 *   adopt        the parent may have no messages yet
 *   mark         number, through_seq, target and created_at
 *   inbox_add    new_id and now_ms are the item's
 *   lease_take   owner, fence and times
 *   record_put   version and times */
typedef struct pal_copied {
    uint64_t mark_number;    /* create, mark: the number of the session's newest mark after this */
    const bool *alias_leads; /* create: for each alias, whether it leads to this session */
    const pal_lease *lease;  /* lease_take */
} pal_copied;

/* One operation, with the values that the front prepared for it. The backend sets op->status,
 * op->error and the results of the op. An operation that the backend rejects changes nothing. */
typedef struct pal_work {
    pal_op *op;
    pal_str tenant; /* never empty */
    int64_t now_ms;
    pal_id new_id; /* create, fork, inbox_add: the id of the new object */
    pal_row *rows; /* append: one row per message, with seq 0. On success the backend sets seq,
                      and for replayed messages also id, created_at and tokens */
    size_t rows_len;
    pal_work_blob *blobs; /* append: all blobs that the rows refer to; blob_put: the blob */
    size_t blobs_len;
    uint64_t fork_seq;  /* fork, adopt: the last shared seq; erase_message: the seq of the message.
                           fork_parent owns that row */
    uint64_t fork_mark; /* fork, adopt: the parent's mark_number */
    pal_id fork_parent; /* fork, adopt: the session that owns fork_seq; none if that is 0 */
    const pal_index_part *index; /* with PAL_OP_NONE: the result of index_build(), which is to be
                                    stored */
    uint32_t sessions_max;       /* create, fork, restore: the limit from the options */
    const pal_copied *copied;    /* not NULL: the operation copies an object of another store */
    size_t all_len; /* set in the first of the works that are applied all or none: how many they
                       are; otherwise 0. They are next to each other in every batch */
} pal_work;

/* Returns how many works are one unit with the first one, which no backend may spread over several
 * commits: works that are applied all or none, or that are joined to each other. */
static inline size_t pal_work_group_len(const pal_work *works, size_t works_len)
{
    size_t len = 1;

    if (works[0].all_len > 0)
        return works[0].all_len < works_len ? works[0].all_len : works_len;
    while (len < works_len && works[len].op->with_previous &&
            works[len].op == works[len - 1].op + 1)
        len++;
    return len;
}

/* Cancels the works that are applied all or none, because the work `failed` failed. */
static inline void pal_work_cancel_all(pal_work *works, size_t works_len, size_t failed)
{
    for (size_t i = 0; i < works_len; i++)
        if (i != failed)
            works[i].op->status = pal_error_set(&works[i].op->error, PAL_CANCELED,
                    "another operation of the batch failed: %.180s",
                    works[failed].op->error.message);
}

/* Fails with PAL_BUDGET: the tenant has reached its limit of sessions. */
static inline pal_status pal_sessions_full(pal_work *work)
{
    return pal_error_set(&work->op->error, PAL_BUDGET,
            "tenant '%.*s' has %u sessions, which is the limit; delete one first",
            PAL_EXCERPT(work->tenant, 80), (unsigned)work->sessions_max);
}

/* Fails because the operation is joined to the one before it, and that one failed. */
static inline void pal_work_cancel(pal_work *work)
{
    pal_op *op = work->op;

    op->status = pal_error_set(
            &op->error, PAL_CANCELED, "the operation before it failed: %s", op[-1].error.message);
}

/* Fails the works that had succeeded in a transaction that was rolled back. */
static inline void pal_work_fail_all(pal_work *works, size_t works_len, const pal_error *why)
{
    for (size_t i = 0; i < works_len; i++) {
        if (works[i].op->status != PAL_OK)
            continue;
        works[i].op->status = why->status;
        works[i].op->error = *why;
    }
}

/* The sums of the ledger are also kept per hour, so that a sum does not need all rows. */
#define PAL_LEDGER_HOUR_MS ((int64_t)3600 * 1000)

/* Returns whether the record has expired and counts as missing. */
static inline bool pal_record_expired(const pal_record *record, int64_t now_ms)
{
    return record->expires_at != 0 && now_ms >= record->expires_at;
}

/* The body of an erased message. */
#define PAL_ERASED_BODY "{\"parts\":[]}"
/* The records of this kind describe the conversation that a model service keeps of a session. It
 * contains the messages, so it must not be continued after an erasure. */
#define PAL_CONVERSATION_RECORD "mistral_conversation"
/* Records of this kind are responses of the server that belong to a session and may quote it. */
#define PAL_ANSWER_RECORD "idempotency_answer"
/* The `target` of a mark whose body was erased. */
#define PAL_MARK_ERASED 1

/* Returns whether the body of the mark may contain words of the message. */
static inline bool pal_mark_quotes(const pal_mark *mark, uint64_t seq)
{
    return mark->kind == PAL_MARK_CHECKPOINT && mark->seq >= seq && mark->target == 0;
}

/* Fails because the session has no message work->fork_seq. */
static inline pal_status pal_message_missing(pal_work *work)
{
    return pal_error_set(&work->op->error, PAL_NOT_FOUND, "the session has no message %llu",
            (unsigned long long)work->fork_seq);
}

/* Compares the version that a record has (0: no record) with the version that the operation
 * expects. Returns PAL_OK or the conflict. Every backend uses this text. */
PAL_CHECKED pal_status pal_record_check_version(pal_work *work, uint64_t version);
/* Fails because the record to be dropped does not exist. Every backend uses this text. */
pal_status pal_record_missing(pal_work *work);

/* Visible rows that one session owns: first..last, inclusive. */
typedef struct pal_piece {
    pal_handle handle;
    uint64_t first;
    uint64_t last;
} pal_piece;

/* Returns false to stop the scan. `row` and everything that it points to are valid only during the
 * call. A sink must not call the engine. */
typedef bool (*pal_row_sink)(const pal_row *row, void *user);

/* Returns PAL_OK if the front can decode the row; otherwise `err` says why not. */
typedef pal_status (*pal_row_check)(const pal_row *row, pal_error *err);

typedef struct pal_row_scan {
    pal_handle handle;
    uint64_t first_seq; /* inclusive */
    uint64_t last_seq;  /* inclusive */
    bool descending;
    uint64_t rows_hint; /* the sink will take at most about this many rows; 0: not known. A backend
                           that fetches rows in portions begins with this many */
} pal_row_scan;

/* Limits the rows that a search returns. */
typedef struct pal_row_search {
    pal_str tenant;
    const pal_query *query;
    pal_role role;           /* NONE: any role */
    const pal_piece *pieces; /* NULL: any session of the tenant; otherwise newest first */
    size_t pieces_len;
    uint64_t below_pos; /* only rows that arrived before this position; 0: any */
} pal_row_search;

typedef struct pal_found_row {
    const pal_row *row;
    uint64_t pos; /* the position in the order of arrival, over all sessions, from 1 */
    pal_handle handle; /* with the tenant of the search */
    bool is_counted;   /* row_rank: the counts of the index include the row */
} pal_found_row;

/* A ranked search. */
typedef struct pal_row_rank {
    pal_str tenant;
    const pal_rank_query *query;
    pal_role role;           /* NONE: any role */
    const pal_piece *pieces; /* NULL: any session of the tenant; otherwise newest first */
    size_t pieces_len;
    size_t rows_max; /* at most this many rows of the index */
} pal_row_rank;

/* Numbers of the index about the searched rows. The numbers can be estimates, and never depend on
 * the rows of other tenants. */
typedef struct pal_rank_counts {
    double rows;                      /* rows in the index */
    double terms[PAL_RANK_TERMS_MAX]; /* how many of them have each term of the query */
    bool more;                        /* rows_max left rows out */
} pal_rank_counts;

/* The same rules as for pal_row_sink. */
typedef bool (*pal_found_sink)(const pal_found_row *found, void *user);

typedef enum pal_marks_wanted {
    PAL_MARKS_HIDING, /* rewinds, resets, hides and undos, without bodies: all that a view needs */
    PAL_MARKS_BRIEF,  /* all kinds, without bodies */
    PAL_MARKS_WHOLE,  /* all kinds, with bodies */
} pal_marks_wanted;

typedef struct pal_mark_scan {
    pal_handle handle;
    uint64_t first; /* number of the first mark, inclusive */
    uint64_t last;  /* inclusive */
    pal_marks_wanted wanted;
} pal_mark_scan;

/* Names one row in one of two ways: by the id of its message within the tenant, or by the client id
 * of its message within a session. */
typedef struct pal_row_key {
    pal_str tenant;
    pal_id id;
    pal_handle handle; /* with client_id: the session that owns the row */
    pal_str client_id; /* not empty: tenant and id are not used */
} pal_row_key;

typedef struct pal_record_scan {
    pal_str tenant;
    pal_str kind;
    pal_str name;      /* not empty: only this record; handle, after and descending are not used */
    pal_handle handle; /* none: records of any session, and of none */
    pal_str after;     /* begins after this name */
    bool descending;
    int64_t now_ms; /* records that have expired by now are left out */
    size_t records_max;
} pal_record_scan;

typedef struct pal_blob_row {
    uint64_t bytes;
    pal_str media_type;
    pal_str data;
} pal_blob_row;

/* ---- Exports: everything in a store, for a copy of it ---- */

typedef enum pal_export_kind {
    PAL_EXPORT_BLOB,    /* without its data */
    PAL_EXPORT_SESSION, /* sessions in any state */
    PAL_EXPORT_ROW,     /* the rows of a session come in the order of their seqs. A backend that
                           stores the order of arrival uses that order for all rows of a tenant */
    PAL_EXPORT_LEDGER,
    PAL_EXPORT_RECORD, /* records, including expired ones */
} pal_export_kind;

#define PAL_EXPORT_PLACE_MAX                                                                       \
    (PAL_TENANT_LEN_MAX + PAL_RECORD_KIND_LEN_MAX + PAL_RECORD_NAME_LEN_MAX + 16)

/* One object. The members for its kind are set, and valid only during the call of the sink. */
typedef struct pal_export_item {
    pal_str place; /* where the object is in the order of the scan. It is the same in every process,
                      as long as the store is not changed */
    pal_str tenant;
    pal_id owner; /* row, ledger: the session; ledger: may be none */
    uint8_t hash[32];                /* blob */
    int64_t put_at;                  /* blob */
    const pal_session_row *session;  /* session */
    const pal_row *row;              /* row */
    const pal_ledger_row *ledger;    /* ledger */
    const pal_record *record;        /* record */
} pal_export_item;

/* Returns false to stop the scan. The same rules as for pal_row_sink. */
typedef bool (*pal_export_sink)(const pal_export_item *item, void *user);

typedef struct pal_engine pal_engine;

/* ---- The callbacks ----
 *
 * A backend declares a callback in one line, for example `pal_row_scan_fn pal_sqlite_row_scan;`.
 * Unless stated otherwise, a callback changes its outputs only if it returns PAL_OK, and returns
 * PAL_NOT_FOUND without a message. */

/* `location` is the url without its scheme. */
typedef pal_status pal_open_fn(const char *location, const pal_store_options *options,
        pal_engine **out_engine, pal_error *err);
typedef void pal_close_fn(pal_engine *engine);

/* Commits the batch in its order. If a work fails, the others are not affected, except those that
 * are applied all or none with it (pal_work.all_len). Returns only after every work that it reports
 * as PAL_OK is durable. */
typedef void pal_apply_fn(pal_engine *engine, pal_work *works, size_t works_len);

/* Stores a new blob before the batch that refers to it, so that the batch is short. Can be called
 * by any thread that may block, before apply(). Does nothing if the blob is small, or exists. If it
 * fails, the batch stores the blob. The sweep removes a blob that no batch refers to. */
typedef pal_status pal_blob_ahead_fn(
        pal_engine *engine, pal_str tenant, pal_work_blob *blob, pal_error *err);

/* Finds a session by PAL_SESSION_BY_ID (16 bytes in `name`) in any state, or by key or alias among
 * active sessions. */
typedef pal_status pal_session_find_fn(pal_engine *engine, pal_str tenant, pal_session_by by,
        pal_str name, pal_arena *arena, pal_session_row *out_row, pal_error *err);

/* Finds a session by its id, as session_find() does, and reads ahead. row_scan(), mark_list() and
 * inbox_list() use the result through the handle. For a backend that needs a network round trip
 * for each call. */
typedef pal_status pal_session_ahead_fn(pal_engine *engine, pal_str tenant, pal_id id,
        const pal_ahead_wants *wants, pal_arena *arena, pal_session_row *out_row, pal_error *err);

/* Returns the same, with rows that were appended afterward: their seqs follow the session's last
 * seq. In the arena; NULL if there is no memory. The bodies are borrowed from the arena. */
typedef const pal_ahead *pal_ahead_extend_fn(
        const pal_ahead *ahead, const pal_row *rows, size_t rows_len, pal_arena *arena);

/* Lists sessions, the latest update first. `after_ms` and `after` belong to the last session of the
 * previous page; for the first page they are 0 and none. The front requests one row more than a
 * page has, to see whether more follow. */
typedef pal_status pal_session_list_fn(pal_engine *engine, const pal_session_query *query,
        int64_t after_ms, pal_handle after, pal_arena *arena, pal_session_row *out_rows,
        size_t rows_max, size_t *out_len, pal_error *err);

/* Reads rows that one session owns, in order. */
typedef pal_status pal_row_scan_fn(pal_engine *engine, const pal_row_scan *scan, pal_row_sink sink,
        void *user, pal_error *err);

/* Finds one row. If the key has the id of a message, also returns the row's session. */
typedef pal_status pal_row_find_fn(pal_engine *engine, const pal_row_key *key, pal_arena *arena,
        pal_row *out_row, pal_id *out_session, pal_error *err);

/* Returns rows of the tenant from the newest arrival to the oldest. The result contains all rows
 * that match, and possibly others, which the front discards. */
typedef pal_status pal_row_search_fn(pal_engine *engine, const pal_row_search *search,
        pal_found_sink sink, void *user, pal_error *err);

/* Returns rows of the tenant that a ranked search should look at, in any order: all rows that are
 * not in the index, and up to rows_max rows in the index, probably those with the highest scores.
 * Rows that do not match are discarded by the front. The counts are set when the call ends. */
typedef pal_status pal_row_rank_fn(pal_engine *engine, const pal_row_rank *rank,
        pal_found_sink sink, void *user, pal_rank_counts *out_counts, pal_error *err);

/* Returns the ids of sessions, in any state, that were forked from this one at the message
 * `min_seq` or a later one. */
typedef pal_status pal_fork_list_fn(pal_engine *engine, pal_handle handle, uint64_t min_seq,
        pal_arena *arena, pal_id **out_ids, size_t *out_len, pal_error *err);

/* Builds one missing part of the index without writing it; apply() writes it. A backend whose index
 * is in memory adds the part itself and leaves *out_part NULL. *out_more says whether other parts
 * may be missing. A backend with an index per tenant builds a part for `tenant`; empty: for any
 * tenant. */
typedef pal_status pal_index_build_fn(pal_engine *engine, pal_str tenant, pal_arena *arena,
        const pal_index_part **out_part, bool *out_more, pal_error *err);

/* Returns marks that one session owns, oldest first, with `undone` unset. The cost must be
 * proportional to the result: bodies can be long, and most marks hide nothing. */
typedef pal_status pal_mark_list_fn(pal_engine *engine, const pal_mark_scan *scan, pal_arena *arena,
        pal_mark **out_marks, size_t *out_len, pal_error *err);

typedef pal_status pal_inbox_list_fn(pal_engine *engine, pal_handle handle, pal_arena *arena,
        pal_inbox_item **out_items, size_t *out_len, pal_error *err);

/* Lists sessions of all tenants that are active, not expired at `now_ms`, and have items in their
 * inbox. They are sorted by the bytes of id and tenant, and start after `after`. The cost must
 * depend on the number of inbox items, not of sessions. */
typedef pal_status pal_inbox_owners_fn(pal_engine *engine, const pal_inbox_owner *after,
        int64_t now_ms, pal_arena *arena, pal_inbox_owner *out_owners, size_t owners_max,
        size_t *out_len, pal_error *err);

/* Returns the lease that was recorded last, or PAL_NOT_FOUND if the session never had one. */
typedef pal_status pal_lease_find_fn(pal_engine *engine, pal_handle handle, pal_arena *arena,
        pal_lease *out_lease, pal_error *err);

/* Sums the ledger; if `handle` is not none, only for the query's session. `from` is 0 or more, and
 * `to` is set. Budgets request a sum before every model call. The sum of a session or a turn may
 * cost its own rows; the sum of a tenant or an agent must not cost all of theirs. */
typedef pal_status pal_ledger_sum_fn(pal_engine *engine, const pal_ledger_query *query,
        pal_handle handle, pal_ledger_sum *out_sum, pal_error *err);

/* A place in the ledger: rows are sorted by their time, and rows of the same time by their id. */
typedef struct pal_ledger_place {
    int64_t created_at;
    pal_id id;
} pal_ledger_place;

/* Lists the rows before `before`, the newest first, at most `entries_max`. `before` takes the place
 * of the query's `to`. A page may cost the rows of the session or the turn, but not all rows of the
 * tenant. */
typedef pal_status pal_ledger_list_fn(pal_engine *engine, const pal_ledger_query *query,
        pal_handle handle, const pal_ledger_place *before, pal_arena *arena,
        pal_ledger_entry *out_entries, size_t entries_max, size_t *out_len, pal_error *err);

/* Lists records by name. */
typedef pal_status pal_record_list_fn(pal_engine *engine, const pal_record_scan *scan,
        pal_arena *arena, pal_record *out_records, size_t *out_len, pal_error *err);

/* Finds a blob. If `arena` is NULL, returns only its length, without reading its data. */
typedef pal_status pal_blob_get_fn(pal_engine *engine, pal_str tenant, const uint8_t hash[32],
        pal_arena *arena, pal_blob_row *out_blob, pal_error *err);

/* Returns all objects of one kind, of all tenants, until the sink stops the scan or there are no
 * more. Begins after the object with the place `after`; empty: at the first. */
typedef pal_status pal_export_scan_fn(pal_engine *engine, pal_export_kind kind, pal_str after,
        pal_arena *arena, pal_export_sink sink, void *user, pal_error *err);

/* Returns the time by the clock that all users of the store share. Leases and expiries go by it. */
typedef int64_t pal_now_ms_fn(pal_engine *engine);

typedef pal_status pal_stat_fn(pal_engine *engine, pal_store_stats *out_stats, pal_error *err);

/* Fails if the engine cannot work for a reason that reads and writes do not notice, for example
 * because its files were removed or its server does not answer. It must not write, and must not
 * wait for longer than about a second. */
typedef pal_status pal_ready_fn(pal_engine *engine, pal_error *err);

/* Returns a number that changes whenever the stored data was changed by anybody but apply() of this
 * engine, before the one who changed it can know that it did. 0: it cannot be told at this moment.
 * Called before every read, so it must cost little. */
typedef uint64_t pal_outside_fn(pal_engine *engine);

/* Returns how often the engine found that acknowledged writes were gone. Does not block. */
typedef uint64_t pal_went_back_fn(pal_engine *engine);

/* Reports the version of the stored data. */
typedef pal_status pal_schema_read_fn(
        pal_engine *engine, pal_arena *arena, pal_store_schema *out_schema, pal_error *err);

/* Checks the files, the indexes and every session: seqs have no gap, `row_check` accepts each row,
 * and counts are right. With `repair` it rebuilds derived data and quarantines damaged
 * sessions. */
typedef pal_status pal_check_fn(pal_engine *engine, bool repair, pal_row_check row_check,
        pal_store_on_finding sink, pal_store_on_progress progress, void *user, pal_error *err);

typedef struct pal_store_backend {
    const char *scheme; /* "sqlite" opens urls that begin with "sqlite:" */
    bool direct;        /* apply() never blocks: callers run it themselves, one at a time */
    pal_open_fn *open;
    pal_close_fn *close;
    pal_apply_fn *apply;
    pal_session_find_fn *session_find;
    pal_session_list_fn *session_list;
    pal_row_scan_fn *row_scan;
    pal_row_find_fn *row_find;
    pal_row_search_fn *row_search;
    pal_row_rank_fn *row_rank;
    pal_fork_list_fn *fork_list;
    pal_mark_list_fn *mark_list;
    pal_inbox_list_fn *inbox_list;
    pal_inbox_owners_fn *inbox_owners;
    pal_lease_find_fn *lease_find;
    pal_ledger_sum_fn *ledger_sum;
    pal_ledger_list_fn *ledger_list;
    pal_record_list_fn *record_list;
    pal_blob_get_fn *blob_get;
    pal_stat_fn *stat;
    /* Optional; NULL if not needed. */
    pal_export_scan_fn *export_scan; /* the store can be copied; a wrapper needs none */
    pal_session_ahead_fn *session_ahead; /* calls need a network round trip */
    pal_ahead_extend_fn *ahead_extend;   /* together with session_ahead */
    pal_index_build_fn *index_build; /* row_search() uses an index */
    pal_blob_ahead_fn *blob_ahead;   /* writing takes a connection that others wait for */
    pal_now_ms_fn *now_ms;           /* the store's users may run on several machines */
    pal_ready_fn *ready;
    pal_outside_fn *outside; /* recently used sessions are kept in memory by the front */
    pal_went_back_fn *went_back; /* the stored data is replicated */
    pal_schema_read_fn *schema_read; /* the stored data has a version; a wrapper needs none */
    pal_check_fn *check;
} pal_store_backend;

/* The first member of the struct of every backend. */
struct pal_engine {
    const pal_store_backend *backend;
    struct pal_cache *cache; /* set by the front; NULL: nothing is kept in memory */
    bool is_only_memory;     /* has no backend's data: reads that the cache cannot answer fail */
};

/* Returns the present time for decisions about the engine's data. */
int64_t pal_store_now_ms(pal_engine *engine);

extern const pal_store_backend pal_store_sqlite;
extern const pal_store_backend pal_store_memory;
extern const pal_store_backend pal_store_jsonl;
extern const pal_store_backend pal_store_postgres;
extern const pal_store_backend pal_store_postgresql; /* the same under libpq's other scheme */

/* Wraps `inner` and reports every call to options->trace. The wrapper closes `inner`. */
pal_status pal_store_trace_open(pal_engine *inner, const pal_store_options *options,
        pal_engine **out_engine, pal_error *err);

/* Opens the engine that the URL names, and sets the defaults in `options`. The caller closes it. */
PAL_CHECKED pal_status pal_store_engine_open(
        const char *url, pal_store_options *options, pal_engine **out_engine, pal_error *err);

/* Returns the place where the store keeps its engine, so that tests can replace it
 * (store_fault). */
pal_engine **pal_store_engine(pal_store *store);

#endif
