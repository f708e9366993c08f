/* store_admin.h - upkeep of a store: sweep, statistics, readiness and checks. The rules at the top
 * of store.h apply. */
#ifndef PALAVER_STORE_ADMIN_H
#define PALAVER_STORE_ADMIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "palaver/api.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/id.h"
#include "palaver/store.h"
#include "palaver/str.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pal_sweep_result {
    uint64_t trashed; /* expired sessions that were moved to the trash */
    uint64_t erased;  /* sessions that were erased because they had been in the trash for longer
                         than trash_ms */
    bool has_more;    /* the limit was reached; call again */
    PAL_RESERVED(4);
} pal_sweep_result;

/* Moves expired sessions to the trash, erases sessions that have been in the trash for more than
 * `trash_ms` (negative: none), and removes expired records. Blobs that no message refers to are
 * removed after a day. One call handles at most `limit` sessions and `limit` records. Covers all
 * tenants. `out_sweep` may be NULL. */
PAL_API PAL_CHECKED pal_status pal_store_sweep(pal_store *store, int64_t trash_ms, uint32_t limit,
        pal_sweep_result *out_sweep, pal_error *err);

typedef struct pal_store_stats {
    pal_str backend; /* for example "sqlite" */
    uint64_t sessions_active;
    uint64_t sessions_trash;
    uint64_t sessions_quarantined;
    uint64_t messages;
    uint64_t content_bytes; /* total size of all messages in their stored form */
    uint64_t blobs;
    uint64_t blob_bytes;
    uint64_t disk_bytes;
    uint64_t tenants;
    uint64_t commits; /* commits through this pal_store */
    uint64_t ops;     /* operations in those commits */
    uint64_t is_estimated; /* 1: sessions, messages, blobs, their bytes and tenants are not exact */
    uint64_t cache_hits;   /* reads that this pal_store answered from memory */
    uint64_t cache_misses; /* the same, from the backend */
    uint64_t cache_bytes;  /* memory that recently used sessions take */
    PAL_RESERVED(4);
} pal_store_stats;

/* Counts what is stored, over all tenants. This is cheap for a store of any size: the counts are
 * kept, or estimated from a sample if a table of PostgreSQL has more than 8 MiB. An expired session
 * counts as active until the sweep moves it to the trash. */
PAL_API PAL_CHECKED pal_status pal_store_stat(
        pal_store *store, pal_arena *arena, pal_store_stats *out_stats, pal_error *err);

/* Checks whether the store can be read and written now, for readiness probes. PAL_IO: the files of
 * the store were removed or replaced while it was open. After the disk refused a commit (PAL_IO,
 * PAL_FULL), this function tries a small write, at most once a second. The store is ready again
 * when one succeeds. Can block on the disk. */
PAL_API PAL_CHECKED pal_status pal_store_ready(pal_store *store, pal_error *err);

/* Returns the time of the store, in milliseconds since 1970. The store sets updated_at of records
 * and compares expires_at with this clock. It is the clock of the database if several machines can
 * use the store, otherwise the clock of this machine. Does not block. */
PAL_API int64_t pal_store_clock_ms(pal_store *store);

/* Returns how often acknowledged writes were found to be missing since the store was opened. Writes
 * are missing after the database has failed over to a replica that did not have them, or after a
 * backup was restored. Always 0 for backends other than postgres. Does not block. */
PAL_API uint64_t pal_store_went_back(pal_store *store);

/* A problem that a check found. `session` is empty if the problem concerns the whole store. */
typedef struct pal_store_finding {
    pal_id session;
    bool repaired;
    char text[PAL_ERROR_MESSAGE_MAX];
    bool advice; /* nothing is damaged, but the user should know: other users can read the files */
    PAL_RESERVED(4);
} pal_store_finding;

/* Called for each problem, on the thread that runs the check. */
typedef void (*pal_store_on_finding)(const pal_store_finding *finding, void *user);

/* Called from time to time while a check runs, on the same thread. `total` is 0 while it is
 * unknown. */
typedef void (*pal_store_on_progress)(uint64_t done, uint64_t total, void *user);

/* Checks everything that is stored. With `repair`, it rebuilds derived data and quarantines damaged
 * sessions, one by one; other sessions are not affected. Calls `sink` for each problem and sets
 * *out_findings to their number; advice is not counted. `sink`, `progress` and `out_findings` may
 * be NULL. PAL_OK means that the check was completed, not that there were no problems. PAL_DENIED:
 * `repair` is set and the store is read-only. Blocks. */
PAL_API PAL_CHECKED pal_status pal_store_check(pal_store *store, bool repair,
        pal_store_on_finding sink, pal_store_on_progress progress, void *user,
        uint64_t *out_findings, pal_error *err);

/* Copies the file of a store of SQLite to a new file, as it is at this moment. Other processes can
 * use the store meanwhile; this process must not have it open. The copy is checked for damaged
 * pages, and appears complete or not at all. `from_url` is a path or "sqlite:PATH". Blocks.
 *
 *   PAL_INVALID    the store is not one of SQLite
 *   PAL_NOT_FOUND  there is no such store
 *   PAL_CONFLICT   the target exists
 *   PAL_CORRUPT    the store is damaged, or not a database */
PAL_API PAL_CHECKED pal_status pal_store_backup(
        const char *from_url, const char *to_path, pal_error *err);

/* The version of the stored data. */
typedef struct pal_store_schema {
    uint32_t version;       /* 0: the backend has no versions */
    uint32_t newest;        /* the version that this program writes */
    uint32_t oldest_reader; /* programs from this version on can read the data */
    uint32_t oldest_writer; /* programs from this version on can write to it */
    pal_str settings; /* SQL that the owner of a database must run if a pooler is used: settings of
                         the role. Empty for other backends */
    pal_str settings_missing; /* the lines of `settings` that were not run yet, if a pooler is
                                 used */
    PAL_RESERVED(6);
} pal_store_schema;

/* Reports the version of the stored data. PAL_CORRUPT: an index of the database is missing or
 * invalid. No write may run at the same time. */
PAL_API PAL_CHECKED pal_status pal_store_schema_read(
        pal_store *store, pal_arena *arena, pal_store_schema *out_schema, pal_error *err);

/* How many objects a copy has. */
typedef struct pal_copy_result {
    uint64_t sessions; /* in any state, also erased ones whose messages forks still share */
    uint64_t messages;
    uint64_t marks;
    uint64_t blobs;
    uint64_t inbox;
    uint64_t ledger;
    uint64_t records;
    PAL_RESERVED(8);
} pal_copy_result;

/* Copies everything from one store into another, which must be empty or not exist yet. The stores
 * can have different backends. Ids, seqs, times, versions, keys and fences stay the same. At the
 * end both stores are read again and compared.
 *
 * A copy that was interrupted, even by SIGKILL, is continued by the same call. Until the copy is
 * complete, pal_store_open() refuses the target. No process may write to the source meanwhile; a
 * change of the source is noticed at the end. `progress` and `out_result` may be NULL. Blocks.
 *
 *   PAL_CONFLICT  the target is not empty, or an incomplete copy of another store; another process
 *                 copies into it; or the stores differ at the end
 *   PAL_LIMIT     a message is too large for the target's format
 *   PAL_CORRUPT   the source has damaged sessions or blobs */
PAL_API PAL_CHECKED pal_status pal_store_copy(const char *from_url, const char *to_url,
        pal_store_on_progress progress, void *user, pal_copy_result *out_result, pal_error *err);

#ifdef __cplusplus
}
#endif
#endif
