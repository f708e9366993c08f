/* store_sqlite.h - what the files of the SQLite backend share.
 *
 * store_sqlite.c         opens and closes; the table of callbacks
 * store_sqlite_schema.c  the tables, and the steps from one version to the next
 * store_sqlite_file.c    the file: creates it private, notices when it is removed
 * store_sqlite_sql.c     connections and prepared statements
 * store_sqlite_wal.c     keeps the WAL short
 * store_sqlite_gather.c  lets a commit go to the WAL in one write
 * store_sqlite_apply.c   a batch: one transaction, whatever its operations are
 * store_sqlite_session.c operations on sessions
 * store_sqlite_heads.c   the heads of sessions that were appended to lately
 * store_sqlite_names.c   keys and aliases
 * store_sqlite_trash.c   delete and restore
 * store_sqlite_erase.c   erasure and the sweep
 * store_sqlite_append.c  operations on what a session holds: messages, marks, blobs
 * store_sqlite_counts.c  how much there is
 * store_sqlite_turn.c    operations for turns: inbox, lease
 * store_sqlite_ledger.c  the ledger, and its sums
 * store_sqlite_record.c  records
 * store_sqlite_read.c    reads
 * store_sqlite_search.c  finds rows by their words
 * store_sqlite_index.c   the index for that
 * store_sqlite_group.c   its summaries
 * store_sqlite_check.c   fsck
 * store_sqlite_reindex.c what fsck does to damaged indexes */
#ifndef PAL_STORE_SQLITE_H
#define PAL_STORE_SQLITE_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/buf.h"
#include "palaver/limits.h"
#include "store/store_backend.h"
#include "store/store_block.h"
#include "store/store_sqlite_sql.h"

#define PAL_SQLITE_APPLICATION_ID 0x506c7672 /* "Plvr" */
#define PAL_SQLITE_VERSION_SEARCH 2          /* of the schema, since there is a search index */
#define PAL_SQLITE_VERSION_RECORDS 3 /* likewise records, and sums of the ledger by the hour */
#define PAL_SQLITE_VERSION_COUNTS 7  /* likewise counts, and summaries of the search index */
#define PAL_SQLITE_VERSION_TURNS 5   /* likewise turns of messages, and ttls of leases */

/* The thread that copies the WAL into the file. The flags are under the lock; `is_started` is set
 * by the writer alone. */
typedef struct pal_wal_keeper {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_started, is_wanted, is_closing;
    atomic_int pages;  /* of the WAL */
    pal_sql_conn conn; /* the thread's */
} pal_wal_keeper;

/* What was written to the WAL and is kept back until it must be there. */
typedef struct pal_wal_gather {
    sqlite3_io_methods methods; /* the first member: it is what the file knows of this */
    const sqlite3_io_methods *real;
    char *kept; /* NULL until the first write */
    int len;
    int failure;      /* of writing it; stands until the transaction is rolled back */
    sqlite3_int64 at; /* where in the file `kept` belongs */
} pal_wal_gather;

#define PAL_SQLITE_PATH_SIZE 4096
#define PAL_SQLITE_WATCHED 3 /* the database, its WAL and its shared memory */

/* A file that must stay where it is while the store is open; an empty path: not watched. */
typedef struct pal_watched_file {
    dev_t device;
    ino_t inode;
    char path[PAL_SQLITE_PATH_SIZE];
} pal_watched_file;

typedef struct pal_sqlite {
    pal_engine engine;
    char *path;
    pal_store_options options;
    pal_sql_conn writer;
    pthread_mutex_t writer_lock; /* whoever uses `writer` */
    atomic_bool writer_wanted;   /* a batch waits for it: reads stay away */
    pthread_mutex_t readers_lock;
    pthread_cond_t reader_idle;
    pal_sql_conn *readers; /* options.readers_max of them; opened when first needed */
    bool *reader_taken;
    pal_wal_keeper keeper;
    pal_wal_gather gather; /* the writer's */
    bool has_search;       /* not so in a file of version 1 that may not be changed */
    bool has_records;      /* likewise of version 2 */
    pal_watched_file watched[PAL_SQLITE_WATCHED];
    bool has_counts;       /* likewise of version 6 */
    bool has_turns;        /* likewise of version 4 */
    bool is_migrated;      /* these are known */
} pal_sqlite;

/* ---- store_sqlite_file.c ---- */

/* Creates the file, empty and readable by its owner only, and makes its name durable. PAL_OK also
 * if it exists by now; PAL_DENIED if the name is a link to nothing. */
PAL_CHECKED pal_status pal_sqlite_file_create(const char *path, pal_error *err);
/* From now on, the open files must stay where they are. */
void pal_sqlite_file_watch(pal_sqlite *self);
/* PAL_IO if one of them was removed or replaced. */
PAL_CHECKED pal_status pal_sqlite_file_check_moved(const pal_sqlite *self, pal_error *err);
pal_status pal_sqlite_ready(pal_engine *engine, pal_error *err);

/* ---- store_sqlite_wal.c ---- */

#define PAL_WAL_PAGES_MAX 8000 /* 32 MiB: beyond it the WAL is copied into the file */

void pal_wal_keeper_init(pal_sqlite *self);
/* Looks at every commit of the writer, which is open. */
void pal_wal_keeper_watch(pal_sqlite *self);
/* Before the writer is closed. */
void pal_wal_keeper_done(pal_sqlite *self);

/* ---- store_sqlite_gather.c ---- */

/* From now on, for the writer's connection, whose WAL is open. */
void pal_wal_gather_watch(pal_sqlite *self);
/* After the writer is closed. */
void pal_wal_gather_done(pal_sqlite *self);

/* ---- store_sqlite_schema.c ---- */

/* Whether the file may be opened; creates it if there is none yet. Looks at its first bytes only,
 * so a file that isn't ours stays as it is. */
PAL_CHECKED pal_status pal_sqlite_file_check(
        const char *path, const pal_store_options *options, pal_error *err);
/* Says by errno why the file can't be opened. */
pal_status pal_sqlite_open_error(const char *path, pal_error *err);
/* Creates the tables, or brings those of an older version up to date; with `read_only` they stay as
 * they are. Tells which version they have then. */
PAL_CHECKED pal_status pal_sqlite_migrate(
        pal_sql_conn *conn, bool read_only, int *out_version, pal_error *err);

/* ---- Operations: each checks first, then writes; status and error go into the op ---- */

/* What most operations need of their session. */
typedef struct pal_sqlite_head {
    int64_t handle;
    int64_t tenant;
    pal_session_state state;
    uint64_t last_seq;
    uint64_t mark_number;
    int64_t expires_at;
    int64_t parent;
    uint64_t fork_seq;
} pal_sqlite_head;

typedef enum pal_head_need {
    PAL_NEED_WRITABLE, /* active, not expired, and the op's fence is the lease's */
    PAL_NEED_EXISTING, /* in any state but erased */
} pal_head_need;

/* Finds the op's session, and answers as every operation must where it can't be used. */
PAL_CHECKED pal_status pal_sqlite_head_get(
        pal_sql_conn *conn, const pal_work *work, pal_head_need need, pal_sqlite_head *out_head);
/* Likewise another session of the op's tenant, in any state but erased, whatever the fence. */
PAL_CHECKED pal_status pal_sqlite_head_existing(
        pal_sql_conn *conn, const pal_work *work, pal_id id, pal_sqlite_head *out_head);
/* Likewise by its number and without any check; handle 0 in *out_head where there is none. */
PAL_CHECKED pal_status pal_sqlite_head_by_handle(
        pal_sql_conn *conn, int64_t handle, pal_sqlite_head *out_head, pal_error *err);
/* The session has changed now. */
PAL_CHECKED pal_status pal_sqlite_touch(pal_sql_conn *conn, const pal_work *work, int64_t handle);

/* ---- store_sqlite_counts.c ---- */

bool pal_sqlite_tenant_counts(pal_str name);
/* So many more sessions are in that state. */
void pal_sqlite_count_state(pal_sql_conn *conn, int64_t state, int64_t by);
PAL_CHECKED pal_status pal_sqlite_state_set(
        pal_sql_conn *conn, int64_t handle, pal_session_state state, pal_error *err);
/* Before the commit. */
PAL_CHECKED pal_status pal_sqlite_counts_write(pal_sql_conn *conn, pal_error *err);
/* By PAL_SQL_COUNTER_GET or PAL_SQL_STAT_ALL. */
PAL_CHECKED pal_status pal_sqlite_counts_read(
        pal_sql_conn *conn, pal_sql_id id, pal_store_stats *out_stats, pal_error *err);

/* ---- store_sqlite_heads.c ---- */

/* In a transaction that has the lock for writing, before anything else. */
void pal_sqlite_heads_begin(pal_sql_conn *conn);
/* It was committed. */
void pal_sqlite_heads_committed(pal_sql_conn *conn);
/* Before a head is changed by other operations than appends; after a roll back. */
void pal_sqlite_heads_forget(pal_sql_conn *conn);
/* False where it has to be looked up. */
bool pal_sqlite_heads_find(
        const pal_sql_conn *conn, pal_id id, int64_t tenant, pal_sqlite_head *out_head);
/* As it is now in this transaction. */
void pal_sqlite_heads_keep(pal_sql_conn *conn, pal_id id, const pal_sqlite_head *head);
void pal_sqlite_heads_free(pal_sql_conn *conn);

/* Aliases are kept in one column, each with a NUL behind it: no alias contains one. */
#define PAL_ALIASES_LEN_MAX (PAL_ALIASES_MAX * (PAL_KEY_LEN_MAX + 1))
void pal_sqlite_aliases_join(pal_buf *buf, const pal_session *session);
/* Sets the session's list from such a column, which is in the arena and ends with a NUL. */
void pal_sqlite_aliases_split(pal_str joined, pal_arena *arena, pal_session *session);
/* PAL_CONFLICT when another session than `own_handle` has one of them, unless it is routed. */
PAL_CHECKED pal_status pal_sqlite_aliases_check(pal_sql_conn *conn, const pal_work *work,
        int64_t tenant, const pal_session *session, int64_t own_handle);
/* Enters into the index what isn't there: checks have passed, so what is there may stay. */
PAL_CHECKED pal_status pal_sqlite_aliases_add(pal_sql_conn *conn, int64_t tenant,
        const pal_session *session, int64_t handle, pal_error *err);
/* The active session that has a key or an alias; 0 in *out_holder where it is free. One that has
 * expired is moved to the trash first, and has it no longer. */
PAL_CHECKED pal_status pal_sqlite_holder(pal_sql_conn *conn, const pal_work *work,
        pal_sql_id statement, int64_t tenant, pal_str name, int64_t *out_holder, pal_id *out_id);
pal_status pal_sqlite_key_conflict(const pal_work *work, pal_str key);
/* PAL_BUDGET: the tenant has as many active sessions as it may have. */
pal_status pal_sqlite_check_room(pal_sql_conn *conn, pal_work *work, int64_t tenant);

pal_status pal_sqlite_create(pal_sql_conn *conn, pal_work *work);
pal_status pal_sqlite_fork(pal_sql_conn *conn, pal_work *work);
pal_status pal_sqlite_adopt(pal_sql_conn *conn, pal_work *work);
pal_status pal_sqlite_update(pal_sql_conn *conn, pal_work *work);
pal_status pal_sqlite_delete(pal_sql_conn *conn, pal_work *work);
pal_status pal_sqlite_restore(pal_sql_conn *conn, pal_work *work);
PAL_CHECKED pal_status pal_sqlite_trash(
        pal_sql_conn *conn, int64_t handle, int64_t now_ms, pal_error *err);

pal_status pal_sqlite_erase(pal_sql_conn *conn, pal_work *work);
pal_status pal_sqlite_sweep(pal_sql_conn *conn, pal_work *work);

pal_status pal_sqlite_append(pal_sql_conn *conn, pal_work *work);
pal_status pal_sqlite_mark(pal_sql_conn *conn, pal_work *work);
pal_status pal_sqlite_blob_put(pal_sql_conn *conn, pal_work *work);

pal_status pal_sqlite_inbox_add(pal_sql_conn *conn, pal_work *work);
pal_status pal_sqlite_inbox_drop(pal_sql_conn *conn, pal_work *work);
PAL_CHECKED pal_status pal_sqlite_inbox_remove(
        pal_sql_conn *conn, int64_t handle, pal_id item, bool *out_found, pal_error *err);
pal_status pal_sqlite_lease_take(pal_sql_conn *conn, pal_work *work);
pal_status pal_sqlite_lease_release(pal_sql_conn *conn, pal_work *work);
pal_status pal_sqlite_ledger_add(pal_sql_conn *conn, pal_work *work);
PAL_CHECKED pal_status pal_sqlite_ledger_insert(pal_sql_conn *conn, int64_t tenant, int64_t handle,
        const pal_ledger_row *row, int64_t now_ms, pal_error *err);

/* The tenant's number; 0 in *out_tenant where it has none and `create` is false. */
PAL_CHECKED pal_status pal_sqlite_tenant(
        pal_sql_conn *conn, pal_str name, bool create, int64_t *out_tenant, pal_error *err);

/* The number of a project's or agent's name, which is given one where it has none; 0 for the empty
 * one. */
PAL_CHECKED pal_status pal_sqlite_name_number(
        pal_sql_conn *conn, pal_str text, int64_t *out_number, pal_error *err);

pal_status pal_sqlite_record_put(pal_sql_conn *conn, pal_work *work);
pal_status pal_sqlite_record_drop(pal_sql_conn *conn, pal_work *work);
/* The sweep's part: as many expired ones as its limit says. */
PAL_CHECKED pal_status pal_sqlite_records_sweep(pal_sql_conn *conn, pal_work *work);

/* Stores a blob of the tenant unless it is there; its number either way, 0 where it is not there
 * and not new. */
PAL_CHECKED pal_status pal_sqlite_blob_keep(pal_sql_conn *conn, int64_t tenant,
        const pal_work_blob *blob, int64_t now_ms, int64_t *out_blob, pal_error *err);

/* ---- store_sqlite_index.c ---- */

#define PAL_SQLITE_TERM_SIZE 24

/* The block of the index that a message's position belongs to. */
int64_t pal_sqlite_block_of(int64_t pos);
/* A term of the index that is no word: of a role 'r', a session 's', a tenant 't'. */
pal_str pal_sqlite_term(char out[PAL_SQLITE_TERM_SIZE], char kind, int64_t number);

/* Keeps a part that pal_sqlite_index_build() made, unless that was overtaken by something. */
pal_status pal_sqlite_index_write(pal_sql_conn *conn, pal_work *work);
/* Throws away all blocks with messages of the session behind `kept_seq`: they will be erased. */
PAL_CHECKED pal_status pal_sqlite_index_forget(
        pal_sql_conn *conn, int64_t handle, uint64_t kept_seq, pal_error *err);
/* To be called in every transaction that has erased messages. */
PAL_CHECKED pal_status pal_sqlite_index_erased(pal_sql_conn *conn, pal_error *err);

/* Looks for a block from *block down that does not say what its messages do; -1 where there is
 * none. */
PAL_CHECKED pal_status pal_sqlite_index_check(pal_sql_conn *conn, int64_t *block, pal_error *err);
/* Likewise a group from below *key on, by its key; 0 where there is none. */
PAL_CHECKED pal_status pal_sqlite_index_check_groups(
        pal_sql_conn *conn, int64_t *key, pal_error *err);
/* Likewise for one that is not in the list of blocks. */
PAL_CHECKED pal_status pal_sqlite_index_stray(
        pal_sql_conn *conn, int64_t *out_block, pal_error *err);
/* Throws the block away: it is built anew by the next search. */
PAL_CHECKED pal_status pal_sqlite_index_repair(pal_sql_conn *conn, int64_t block, pal_error *err);

/* Several reads that see the same state. */
PAL_CHECKED pal_status pal_sqlite_snapshot_begin(pal_sql_conn *conn, pal_error *err);
void pal_sqlite_snapshot_end(pal_sql_conn *conn);

/* ---- The callbacks ---- */

void pal_sqlite_apply(pal_engine *engine, pal_work *works, size_t works_len);

pal_status pal_sqlite_session_find(pal_engine *engine, pal_str tenant, pal_find_by by, pal_str name,
        pal_arena *arena, pal_session_row *out_row, pal_error *err);
pal_status pal_sqlite_session_list(pal_engine *engine, const pal_session_query *query,
        int64_t after_ms, uint64_t after_handle, pal_arena *arena, pal_session_row *out_rows,
        size_t rows_max, size_t *out_len, pal_error *err);
pal_status pal_sqlite_row_scan(pal_engine *engine, const pal_row_scan *scan, pal_row_sink sink,
        void *user, pal_error *err);
pal_status pal_sqlite_row_find(pal_engine *engine, pal_str tenant, pal_id id, pal_arena *arena,
        pal_row *out_row, pal_id *out_session, pal_error *err);
pal_status pal_sqlite_row_search(pal_engine *engine, const pal_row_search *search,
        pal_found_sink sink, void *user, pal_error *err);
pal_status pal_sqlite_fork_list(pal_engine *engine, uint64_t handle, uint64_t min_seq,
        pal_arena *arena, pal_id **out_ids, size_t *out_len, pal_error *err);
pal_status pal_sqlite_index_build(pal_engine *engine, pal_arena *arena,
        const pal_index_part **out_part, bool *out_more, pal_error *err);
pal_status pal_sqlite_mark_list(pal_engine *engine, const pal_mark_scan *scan, pal_arena *arena,
        pal_mark **out_marks, size_t *out_len, pal_error *err);
pal_status pal_sqlite_inbox_list(pal_engine *engine, uint64_t handle, pal_arena *arena,
        pal_inbox_item **out_items, size_t *out_len, pal_error *err);
pal_status pal_sqlite_lease_find(pal_engine *engine, uint64_t handle, pal_arena *arena,
        pal_lease *out_lease, pal_error *err);
pal_status pal_sqlite_inbox_owners(pal_engine *engine, const pal_inbox_owner *after,
        int64_t now_ms, pal_arena *arena, pal_inbox_owner *out_owners, size_t owners_max,
        size_t *out_len, pal_error *err);
pal_status pal_sqlite_ledger_sum(pal_engine *engine, const pal_ledger_query *query, uint64_t handle,
        pal_ledger_sum *out_sum, pal_error *err);
pal_status pal_sqlite_record_find(pal_engine *engine, pal_str tenant, pal_str kind, pal_str name,
        pal_arena *arena, pal_record *out_record, pal_error *err);
pal_status pal_sqlite_record_list(pal_engine *engine, const pal_record_query *query,
        uint64_t handle, int64_t now_ms, pal_arena *arena, pal_record *out_records,
        size_t records_max, size_t *out_len, pal_error *err);
pal_status pal_sqlite_blob_get(pal_engine *engine, pal_str tenant, const uint8_t hash[32],
        pal_arena *arena, pal_str *out_media_type, pal_str *out_data, pal_error *err);
pal_status pal_sqlite_blob_size(pal_engine *engine, pal_str tenant, const uint8_t hash[32],
        uint64_t *out_bytes, pal_error *err);
pal_status pal_sqlite_stat(pal_engine *engine, pal_store_stats *out_stats, pal_error *err);
pal_status pal_sqlite_check(pal_engine *engine, bool repair, pal_row_check row_check,
        pal_finding_sink sink, pal_progress progress, void *user, pal_error *err);

/* Opens a connection to the engine's file with all its settings. Close it also after a failure. */
PAL_CHECKED pal_status pal_sqlite_connect(
        pal_sqlite *self, bool read_only, pal_sql_conn *out_conn, pal_error *err);
/* Likewise one whose writes are durable. */
PAL_CHECKED pal_status pal_sqlite_connect_writer(
        pal_sqlite *self, pal_sql_conn *out_conn, pal_error *err);

/* A connection for one read, and back. Waits while all are taken. A short read may get the writer's
 * while that is idle: its pages are in memory, where others must read them anew after every commit.
 * A long one must not, for it would hold up the next batch. */
typedef enum pal_read_kind {
    PAL_READ_SHORT,
    PAL_READ_LONG,
} pal_read_kind;

PAL_CHECKED pal_status pal_sqlite_reader_take(
        pal_sqlite *self, pal_read_kind kind, pal_sql_conn **out_conn, pal_error *err);
void pal_sqlite_reader_give(pal_sqlite *self, pal_sql_conn *conn);

/* Makes the function that PAL_SQL_SCAN_UP and PAL_SQL_SCAN_DOWN call. */
PAL_CHECKED pal_status pal_sqlite_scan_prepare(pal_sql_conn *conn, pal_error *err);
/* Gives the connection what sums of the ledger need. */
PAL_CHECKED pal_status pal_sqlite_sum_prepare(pal_sql_conn *conn, pal_error *err);

/* Own marks of one session, in the arena. */
PAL_CHECKED pal_status pal_sqlite_marks_read(pal_sql_conn *conn, const pal_mark_scan *scan,
        pal_arena *arena, pal_mark **out_marks, size_t *out_len, pal_error *err);

/* Builds all indexes anew from their tables, however damaged they are. */
bool pal_sqlite_reindex(pal_sql_conn *conn);
/* Makes the tables of the search index anew and empty, however damaged they are. */
bool pal_sqlite_search_replace(pal_sql_conn *conn);

/* The row under a statement that selects PAL_SQL_ROW_COLUMNS; texts are borrowed. */
void pal_sqlite_row_read(pal_sql *sql, pal_row *out_row);

#endif
