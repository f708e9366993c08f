/* postgres_copy.h - the part of a store that one batch needs, in memory.
 *
 * The rules of the operations are those of "memory:", which runs the batch on this copy. So no rule
 * is written again for PostgreSQL: postgres_load.c fills the copy with locked rows, the backend
 * "memory:" decides, and postgres_write.c writes the difference. */
#ifndef PAL_POSTGRES_COPY_H
#define PAL_POSTGRES_COPY_H

#include "store/memory/memory_store.h"
#include "store/postgres/postgres.h"

/* An item that was in the inbox before the batch. */
typedef struct pal_postgres_item {
    pal_id id;
    int64_t number;
} pal_postgres_item;

/* A session as it was before the batch. */
typedef struct pal_postgres_before {
    memory_session *session;
    pal_session record; /* with its texts, in the arena */
    bool has_key;       /* the key is in use, and not just kept for a restore */
    uint64_t mark_number;
    uint64_t fence;
    int64_t lease_until;
    int64_t lease_ttl;
    pal_str owner;
    pal_postgres_item *inbox; /* only if it was loaded */
    size_t inbox_len, inbox_cap;
} pal_postgres_before;

typedef struct pal_postgres_copy {
    pal_postgres *store;
    pal_arena *arena;
    pal_engine *engine; /* "memory:" */
    memory_engine *memory;
    pal_postgres_before *before; /* the handle of a session is its index here, plus one */
    size_t before_len, before_cap;
    memory_row **rows; /* known messages, which are only in the maps */
    size_t rows_len, rows_cap;
    memory_entry **entries; /* known ledger rows, which are only in the maps */
    size_t entries_len, entries_cap;
    memory_blob **blobs; /* known blobs, which are only in the maps */
    int64_t *blobs_put_at;
    size_t blobs_len, blobs_cap, blobs_put_cap;
    pal_map records; /* records that exist, also expired ones, by tenant, kind and name */
} pal_postgres_copy;

PAL_CHECKED pal_status pal_postgres_copy_open(
        pal_postgres *store, pal_postgres_copy *out_copy, pal_error *err);
void pal_postgres_copy_close(pal_postgres_copy *copy);

/* Returns the session as it was before the batch; NULL if the batch creates it. */
pal_postgres_before *pal_postgres_copy_before(
        pal_postgres_copy *copy, const memory_session *session);
/* Returns the key of a record in the map, in the arena. */
pal_str pal_postgres_copy_record_key(
        pal_postgres_copy *copy, pal_str tenant, pal_str kind, pal_str name);

/* ---- postgres_load.c ---- */

/* Begins a transaction, unless there is one already. Locks and loads everything that the works
 * need. */
PAL_CHECKED pal_status pal_postgres_load(pal_postgres_copy *copy, const pal_work *works,
        size_t works_len, pal_postgres_failure *out_failure, pal_error *err);

/* ---- postgres_write.c ---- */

/* Writes everything that differs from the copy before. If `commits`, it also ends the transaction.
 * *out_sent says whether a COMMIT was sent: if the connection is lost then, the commit is in
 * doubt. */
PAL_CHECKED pal_status pal_postgres_write(pal_postgres_copy *copy, const pal_work *works,
        size_t works_len, bool commits, bool *out_sent, pal_postgres_failure *out_failure,
        pal_error *err);

#endif
