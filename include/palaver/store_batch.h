/* store_batch.h - many write operations in one durable commit. The rules at the top of store.h
 * apply. */
#ifndef PALAVER_STORE_BATCH_H
#define PALAVER_STORE_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "palaver/api.h"
#include "palaver/error.h"
#include "palaver/id.h"
#include "palaver/message.h"
#include "palaver/session.h"
#include "palaver/store.h"
#include "palaver/store_admin.h"
#include "palaver/store_marks.h"
#include "palaver/store_records.h"
#include "palaver/store_turns.h"
#include "palaver/str.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pal_op_kind {
    PAL_OP_NONE = 0,
    PAL_OP_CREATE = 1,
    PAL_OP_UPDATE = 2,
    PAL_OP_APPEND = 3,
    PAL_OP_FORK = 4,
    PAL_OP_MARK = 5,
    PAL_OP_DELETE = 6,
    PAL_OP_RESTORE = 7,
    PAL_OP_ERASE = 8,
    PAL_OP_INBOX_ADD = 9,
    PAL_OP_INBOX_DROP = 10,
    PAL_OP_LEASE_TAKE = 11,
    PAL_OP_LEASE_RELEASE = 12,
    PAL_OP_LEDGER_ADD = 13,
    PAL_OP_BLOB_PUT = 14,
    PAL_OP_SWEEP = 15,
    PAL_OP_ADOPT = 16,
    PAL_OP_RECORD_PUT = 17,
    PAL_OP_RECORD_DROP = 18,
    PAL_OP_ERASE_MESSAGE = 19,
} pal_op_kind;

/* One write operation. All writing functions of a store are made of these. Make an operation with
 * the functions pal_op_...() below, then set `fence`, `with_previous` or the optional members of
 * `u` if you need them. The tenant here also replaces that of a pal_session in the operation. The
 * store sets `status`, `error` and the members whose comment begins with "out:". */
typedef struct pal_op {
    pal_op_kind kind;
    pal_str tenant;
    pal_id session;     /* create, fork: the id of the new session, or empty to get one; out: the
                           session's id */
    uint64_t fence;     /* if not 0, the operation fails with PAL_DENIED unless the session's lease
                           has this fence number. A turn can end even if its session has expired or
                           was moved to the trash meanwhile */
    bool with_previous; /* fail with PAL_CANCELED unless the operation before this one succeeded */
    union {
        struct {
            const pal_session *session;
            bool or_find;  /* if an active session has the key, use that one instead */
            bool existing; /* out: or_find found a session */
        } create;
        struct {
            const pal_session *session;
            uint32_t fields; /* bits of pal_session_field */
        } update;
        struct {
            pal_message *messages; /* out: id, seq, created_at and tokens of each */
            size_t messages_len;
            uint64_t expected_seq;
            const pal_id *inbox_ids; /* items that are removed from the inbox in the same commit */
            size_t inbox_ids_len;
            const pal_ledger_row *ledger; /* ledger rows that are written in the same commit */
            size_t ledger_len;
            bool replayed; /* out: all client ids were used before, and nothing was appended;
                              with PAL_CONFLICT: some of them were */
        } append;
        struct {
            const pal_session *session;
            pal_id parent;
            uint64_t at_seq;
            bool keep_mark; /* only the parent's marks up to session->fork_mark apply to the fork,
                               as when a store is copied; otherwise all that exist now */
        } fork;
        struct {
            pal_id from;  /* the session whose history this session adopts, if this session is
                             empty */
            bool adopted; /* out: the history was adopted */
        } adopt;
        pal_mark *mark;             /* as in pal_store_mark() */
        pal_erase_result *erasure;  /* erase. out: everything */
        pal_inbox_item *inbox_item; /* inbox add. out: id and created_at */
        pal_id inbox_id;            /* inbox drop */
        struct {
            pal_str owner;
            int64_t ttl_ms;
            uint64_t fence; /* take: out: the new fence number. release: the number to release */
            uint64_t stale_fence;     /* take: the fence of a lease that the caller knows to be held
                                         by a dead process. If this and stale_expires_at match the
                                         current lease, it is treated as free */
            int64_t stale_expires_at; /* take: the expires_at of that lease; 0: none */
            bool is_watched; /* take: the caller watches the lease itself. The clock does not count:
                                only a released or stale lease is free */
        } lease;
        const pal_ledger_row *ledger_row;
        struct {
            pal_str media_type;
            pal_str data;
            char name[PAL_BLOB_NAME_SIZE]; /* out */
        } blob;
        struct {
            int64_t trash_ms;
            uint32_t limit;
            pal_sweep_result result; /* out */
        } sweep;
        struct {
            pal_record *record; /* put: out: version, created_at and updated_at. drop: kind and name
                                   are used */
            uint64_t expected_version;
        } record;
        struct {
            uint64_t seq;
            pal_erase_result *erasure; /* out: everything; may be NULL */
        } erase_message;
        PAL_RESERVED(20); /* the size of `u`, whatever its members become */
    } u;
    pal_status status;
    pal_error error;
    uint64_t mark_number; /* append, out: the number of the session's newest mark; 0: it has none;
                             UINT64_MAX: not known */
    PAL_RESERVED(3);
} pal_op;

/* Each of these functions makes the operation that the function pal_store_...() with the same name
 * applies, from the same arguments. Nothing is copied: everything that an argument points to must
 * exist until the operation is applied. A function that takes a pal_session uses its tenant and
 * its id. */
PAL_API pal_op pal_op_create(const pal_session *session);
/* Creates the session, or finds the active session that has its key. */
PAL_API pal_op pal_op_find_or_create(const pal_session *session);
PAL_API pal_op pal_op_update(const pal_session *session, uint32_t fields);
PAL_API pal_op pal_op_append(pal_str tenant, pal_id session, pal_message *messages,
        size_t messages_len, uint64_t expected_seq);
PAL_API pal_op pal_op_fork(const pal_session *session, pal_id parent, uint64_t at_seq);
/* Lets an empty session adopt the history of the session `from`. */
PAL_API pal_op pal_op_adopt(pal_str tenant, pal_id session, pal_id from);
PAL_API pal_op pal_op_mark(pal_str tenant, pal_id session, pal_mark *mark);
PAL_API pal_op pal_op_delete(pal_str tenant, pal_id session);
PAL_API pal_op pal_op_restore(pal_str tenant, pal_id session);
/* `out_erasure` may be NULL. */
PAL_API pal_op pal_op_erase(pal_str tenant, pal_id session, pal_erase_result *out_erasure);
/* `out_erasure` may be NULL. */
PAL_API pal_op pal_op_erase_message(
        pal_str tenant, pal_id session, uint64_t seq, pal_erase_result *out_erasure);
PAL_API pal_op pal_op_sweep(int64_t trash_ms, uint32_t limit);
PAL_API pal_op pal_op_inbox_add(pal_str tenant, pal_id session, pal_inbox_item *item);
PAL_API pal_op pal_op_inbox_drop(pal_str tenant, pal_id session, pal_id item);
PAL_API pal_op pal_op_lease_take(pal_str tenant, pal_id session, pal_str owner, int64_t ttl_ms);
PAL_API pal_op pal_op_lease_release(pal_str tenant, pal_id session, uint64_t fence);
PAL_API pal_op pal_op_ledger_add(pal_str tenant, pal_id session, const pal_ledger_row *row);
PAL_API pal_op pal_op_blob_put(pal_str tenant, pal_str media_type, pal_str data);
PAL_API pal_op pal_op_record_put(pal_str tenant, pal_record *record, uint64_t expected_version);
/* Only the kind and the name of the record are used. */
PAL_API pal_op pal_op_record_drop(pal_str tenant, pal_record *record);

/* Applies operations in one durable commit, in their order. They can concern any number of
 * sessions. Each operation succeeds or fails alone and reports that in its `status`. The call
 * itself fails only if none was applied. A fork sees only what was stored before the batch. Calls
 * from several threads share commits. PAL_LIMIT: there are more than PAL_BATCH_OPS_MAX operations,
 * or their messages exceed PAL_BATCH_BYTES_MAX. */
PAL_API PAL_CHECKED pal_status pal_store_apply(
        pal_store *store, pal_op *ops, size_t ops_len, pal_error *err);

/* Called exactly once, with the status that pal_store_apply() would have returned. `err` is NULL
 * after PAL_OK. Must neither block nor write to the store. */
typedef void (*pal_store_on_applied)(
        pal_op *ops, size_t ops_len, pal_status status, const pal_error *err, void *user);

/* Like pal_store_apply(), but does not wait for the commit. The store uses `ops` and everything
 * that they point to until `applied` is called. `applied` runs on the writer's thread. If the
 * backend has no writer, it runs on the caller's thread, before this function returns.
 *
 * If this function does not return PAL_OK, `applied` is not called. PAL_LIMIT: PAL_COMMIT_QUEUE_MAX
 * calls are already waiting; the function does not wait for room. */
PAL_API PAL_CHECKED pal_status pal_store_apply_async(pal_store *store, pal_op *ops, size_t ops_len,
        pal_store_on_applied applied, void *user, pal_error *err);

/* Applies all operations in one durable commit, in their order, or none of them. Calls from several
 * threads share commits. An operation sees what those before it did, except that a fork sees only
 * what was stored before the batch.
 *
 * If an operation fails, the call returns its status and sets *out_failed (may be NULL) to its
 * index. The status of all others is then PAL_CANCELED. If the commit itself fails, *out_failed is
 * `ops_len`. After a failure the outputs of the operations mean nothing.
 *
 * The batch can have operations of these kinds: CREATE, FORK, APPEND without ledger rows, MARK,
 * INBOX_ADD, INBOX_DROP, BLOB_PUT, RECORD_PUT and RECORD_DROP. PAL_INVALID: it has another one.
 * PAL_LIMIT: as in pal_store_apply(). */
PAL_API PAL_CHECKED pal_status pal_store_apply_all(
        pal_store *store, pal_op *ops, size_t ops_len, size_t *out_failed, pal_error *err);

/* Like pal_store_apply_all(), but does not wait for the commit, as pal_store_apply_async(). The
 * status of the failed operation is neither PAL_OK nor PAL_CANCELED. An operation that fails before
 * the commit, because it is not valid, fails this function; then `applied` is not called. */
PAL_API PAL_CHECKED pal_status pal_store_apply_all_async(pal_store *store, pal_op *ops,
        size_t ops_len, pal_store_on_applied applied, void *user, pal_error *err);

#ifdef __cplusplus
}
#endif
#endif
