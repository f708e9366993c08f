/* store_turns.h - what a program that runs turns stores next to messages: waiting requests, the
 * right to run a turn, and the cost of model calls. The rules at the top of store.h apply. */
#ifndef PALAVER_STORE_TURNS_H
#define PALAVER_STORE_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "palaver/api.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/id.h"
#include "palaver/message.h"
#include "palaver/store.h"
#include "palaver/str.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Inbox ---- */

/* A request that waits in a session's inbox, for example because a turn is running. */
typedef struct pal_inbox_item {
    pal_id id;         /* set by the store */
    pal_str client_id; /* an item with the same client id is added only once; may be empty */
    pal_str delivery;  /* how the turn layer delivers it, for example "queue" or "steer"; the store
                          does not interpret it */
    pal_str body;      /* JSON */
    int64_t created_at;
    PAL_RESERVED(2);
} pal_inbox_item;

/* Adds an item and sets its id and created_at. If an item with the same client_id is waiting,
 * nothing is added, and the id and created_at of that item are set.
 *
 *   PAL_CONFLICT  the waiting item with this client id has a different body or delivery
 *   PAL_LIMIT     PAL_INBOX_ITEMS_MAX items are waiting */
PAL_API PAL_CHECKED pal_status pal_store_inbox_add(
        pal_store *store, pal_str tenant, pal_id session, pal_inbox_item *item, pal_error *err);
/* Lists the waiting items, the oldest first. */
PAL_API PAL_CHECKED pal_status pal_store_inbox_list(pal_store *store, pal_str tenant,
        pal_id session, pal_arena *arena, pal_inbox_item **out_items, size_t *out_len,
        pal_error *err);
/* Removes an item. PAL_NOT_FOUND if it is no longer waiting. */
PAL_API PAL_CHECKED pal_status pal_store_inbox_drop(
        pal_store *store, pal_str tenant, pal_id session, pal_id item, pal_error *err);

/* A session with a non-empty inbox. */
typedef struct pal_inbox_owner {
    pal_str tenant;
    pal_id session;
    PAL_RESERVED(2);
} pal_inbox_owner;

/* Lists the active sessions that have items in their inbox, ordered by id and then by tenant, for a
 * runtime that starts. The list begins after `after` (NULL: at the first) and has at most `limit`
 * entries (0: PAL_INBOX_OWNERS_MAX, which is also the maximum). Covers all tenants. */
PAL_API PAL_CHECKED pal_status pal_store_inbox_owners(pal_store *store,
        const pal_inbox_owner *after, uint32_t limit, pal_arena *arena,
        pal_inbox_owner **out_owners, size_t *out_len, pal_error *err);

/* ---- Leases ---- */

/* A lease is the right to run a turn in a session. Its fence number grows with every new owner. A
 * write that carries an older number fails with PAL_DENIED, so a process that was considered dead
 * cannot write late. */
typedef struct pal_lease {
    pal_str owner;
    uint64_t fence;
    int64_t expires_at; /* milliseconds since 1970, by the clock of the process that took it */
    int64_t ttl_ms;     /* the duration that it was last taken or renewed for */
    PAL_RESERVED(4);
} pal_lease;

/* Takes the lease for `ttl_ms`, or renews it if `owner` already holds it. PAL_BUSY: another owner
 * holds it. A lease that ends later than twice its duration from now does not count: the clock was
 * set back.
 *
 * An operation PAL_OP_LEASE_TAKE with a `fence` also renews a lease that has expired, if no other
 * owner has taken it since. It fails with PAL_DENIED if another owner has. */
PAL_API PAL_CHECKED pal_status pal_store_lease_take(pal_store *store, pal_str tenant,
        pal_id session, pal_str owner, int64_t ttl_ms, uint64_t *out_fence, pal_error *err);
/* Releases the lease. Releasing a lease that is no longer held under that number is not an error:
 * it was lost before. */
PAL_API PAL_CHECKED pal_status pal_store_lease_release(
        pal_store *store, pal_str tenant, pal_id session, uint64_t fence, pal_error *err);
/* Reports the lease of a session. PAL_NOT_FOUND if no process holds it. */
PAL_API PAL_CHECKED pal_status pal_store_lease_find(pal_store *store, pal_str tenant,
        pal_id session, pal_arena *arena, pal_lease *out_lease, pal_error *err);

/* ---- Ledger ---- */

/* The tokens and the cost of one model call. */
typedef struct pal_ledger_row {
    pal_str request_id; /* unique in the tenant; a row with the same id is written only once */
    pal_str turn_id;
    pal_str agent;   /* the agent that the turn was run for; may be empty */
    pal_str purpose; /* for example "turn", "compaction" or "forward" */
    pal_str provider;
    pal_str model;
    pal_str price_version;
    pal_usage usage;
    int64_t cost_micros; /* in millionths of the currency of the price list */
    int64_t created_at;  /* milliseconds since 1970; 0: now */
    PAL_RESERVED(4);
} pal_ledger_row;

/* Writes a row to the ledger, once per request_id. If `session` is empty, the row belongs to the
 * tenant alone. */
PAL_API PAL_CHECKED pal_status pal_store_ledger_add(pal_store *store, pal_str tenant,
        pal_id session, const pal_ledger_row *row, pal_error *err);

/* The sum of ledger rows. */
typedef struct pal_ledger_sum {
    uint64_t calls;
    pal_usage usage;
    int64_t cost_micros;
    PAL_RESERVED(4);
} pal_ledger_sum;

typedef struct pal_ledger_query {
    pal_str tenant;
    pal_id session;  /* empty: all rows of the tenant */
    pal_str turn_id; /* empty: any */
    pal_str agent;   /* empty: any */
    int64_t from;    /* earliest created_at, in milliseconds since 1970; 0: any */
    int64_t to;      /* rows created at this time or later are left out; 0: none */
    PAL_RESERVED(4);
} pal_ledger_query;

/* Adds up ledger rows. If the query names no session, rows of erased sessions are included. */
PAL_API PAL_CHECKED pal_status pal_store_ledger_sum(
        pal_store *store, const pal_ledger_query *query, pal_ledger_sum *out_sum, pal_error *err);

/* A ledger row as it is stored. */
typedef struct pal_ledger_entry {
    pal_id id;          /* identifies the row in its tenant */
    pal_id session;     /* empty: the row belongs to the tenant alone, or its session was erased */
    pal_ledger_row row; /* an erasure of the session empties its request_id and its turn_id */
    PAL_RESERVED(4);
} pal_ledger_entry;

typedef struct pal_ledger_page {
    pal_ledger_entry *items; /* the newest first; in the arena */
    size_t len;
    pal_str cursor; /* where the next page begins; empty on the last page */
    PAL_RESERVED(4);
} pal_ledger_page;

/* Lists ledger rows. `limit` is at most PAL_LEDGER_PAGE_MAX; 0: PAL_LEDGER_PAGE_DEFAULT. `cursor`
 * is empty for the first page.
 *
 *   PAL_INVALID  the cursor is not valid, or the store has an older format and is opened read-only
 *   PAL_LIMIT    `limit` is too large */
PAL_API PAL_CHECKED pal_status pal_store_ledger_list(pal_store *store,
        const pal_ledger_query *query, pal_str cursor, uint32_t limit, pal_arena *arena,
        pal_ledger_page *out_page, pal_error *err);

#ifdef __cplusplus
}
#endif
#endif
