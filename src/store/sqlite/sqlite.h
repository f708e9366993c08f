/* sqlite.h - declarations that the files of the SQLite backend share.
 *
 * sqlite.c         opens and closes; the table of callbacks
 * sqlite_schema.c  the tables, and the migrations between versions
 * sqlite_file.c    creates the database file as private, notices when it is removed
 * sqlite_sql.c     connections and prepared statements
 * sqlite_wal.c     keeps the WAL short
 * sqlite_gather.c  lets a commit reach the WAL in one write
 * sqlite_outside.c notices commits of other processes
 * sqlite_apply.c   runs a batch as one transaction
 * sqlite_session.c operations on sessions
 * sqlite_heads.c   the tenant and the head of the session of an operation
 * sqlite_names.c   keys and aliases
 * sqlite_trash.c   delete and restore
 * sqlite_erase.c   erasure and the sweep
 * sqlite_append.c  operations on the contents of a session: messages, marks, blobs
 * sqlite_counts.c  counts of sessions, messages and blobs
 * sqlite_turn.c    operations for turns: inbox, lease
 * sqlite_ledger.c  the ledger, its sums and its lists
 * sqlite_record.c  records
 * sqlite_read.c    reads
 * sqlite_search.c  finds rows by their words
 * sqlite_index.c   the search index
 * sqlite_group.c   the summaries of the search index
 * sqlite_check.c   fsck
 * sqlite_reindex.c how fsck rebuilds damaged indexes */
#ifndef PAL_SQLITE_H
#define PAL_SQLITE_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/buf.h"
#include "palaver/limits.h"
#include "store/search/search_block.h"
#include "store/sqlite/sqlite_sql.h"
#include "store/store_backend.h"

#define PAL_SQLITE_APPLICATION_ID 0x506c7672 /* "Plvr" */
#define PAL_SQLITE_VERSION_SEARCH 2          /* first schema version with a search index */
#define PAL_SQLITE_VERSION_RECORDS 3 /* first schema version with records and hourly sums of the
                                        ledger */
#define PAL_SQLITE_VERSION_COUNTS 7  /* first schema version with counts and summaries of the search
                                        index */
#define PAL_SQLITE_VERSION_TURNS 5   /* first schema version with turns of messages and ttls of
                                        leases */

/* The thread that copies the WAL into the file. `lock` protects the flags. Only the writer
 * sets `is_started`, so the writer can read it without the lock. */
typedef struct pal_wal_keeper {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_started, is_wanted, is_closing;
    atomic_int pages;  /* length of the WAL in pages */
    pal_sql_conn conn; /* used by the thread only */
} pal_wal_keeper;

#define PAL_WAL_FRAME_HEAD 24 /* bytes before the page of a frame in the WAL */

/* The VFS of the writer's connection, and data that SQLite has written to the WAL and that is held
 * back until it must be in the file. */
typedef struct pal_wal_gather {
    sqlite3_vfs vfs;   /* zName NULL: not registered */
    sqlite3_vfs *real; /* the wrapped VFS */
    char name[32];
    bool is_open; /* the WAL is open */
    char *kept;   /* NULL until the first write */
    int len;
    int failure;      /* the error of a failed write; kept until the transaction is rolled back */
    bool has_frame;   /* the transaction has written a frame; set to false by sqlite_outside.c */
    char frame[PAL_WAL_FRAME_HEAD]; /* the head of the last frame */
    sqlite3_int64 at; /* offset in the file where `kept` belongs */
} pal_wal_gather;

#define PAL_SQLITE_INDEX_WORDS 12 /* the words of the shared memory that describe a commit */

/* The last commit, as far as this engine knows. */
typedef struct pal_sqlite_outside_state {
    const volatile uint32_t *index; /* the shared memory of the WAL; NULL: cannot be read */
    pthread_mutex_t lock;           /* held while the members below change */
    bool is_writing;                /* the writer is in a transaction */
    atomic_uint changes;            /* odd while `known` and `number` change */
    _Atomic uint32_t known[PAL_SQLITE_INDEX_WORDS];
    _Atomic uint64_t number; /* changes whenever somebody else has committed */
} pal_sqlite_outside_state;

#define PAL_SQLITE_PATH_SIZE 4096
#define PAL_SQLITE_WATCHED 3 /* the database, its WAL and its shared memory */

/* A file that must not be moved or removed while the store is open. With an empty path it is not
 * watched. */
typedef struct pal_watched_file {
    uint64_t device;
    uint64_t inode;
    char path[PAL_SQLITE_PATH_SIZE];
} pal_watched_file;

struct pal_sqlite {
    pal_engine engine;
    char *path;
    pal_store_options options;
    pal_sql_conn writer;
    pthread_mutex_t writer_lock; /* held by the thread that uses `writer` */
    atomic_bool writer_wanted;   /* a batch waits for the writer: reads must not take it */
    pthread_mutex_t readers_lock;
    pthread_cond_t reader_idle;
    pal_sql_conn *readers; /* options.readers_max connections, opened when they are needed */
    bool *reader_taken;
    pal_wal_keeper keeper;
    pal_wal_gather gather; /* for the writer's connection */
    pal_sqlite_outside_state outside;
    bool has_search;       /* false if the file has version 1 and is opened read-only */
    bool has_records;      /* false if the file has version 2 or less and is opened read-only */
    pal_watched_file watched[PAL_SQLITE_WATCHED];
    bool has_counts;       /* false if the file has version 6 or less and is opened read-only */
    bool has_turns;        /* false if the file has version 4 or less and is opened read-only */
    bool is_migrated;      /* the flags has_... are set */
};

/* ---- sqlite_file.c ---- */

/* Creates an empty file that only its owner can read, and makes its name durable. Returns PAL_OK
 * also if the file exists by now, and PAL_DENIED if the name is a dangling link. */
PAL_CHECKED pal_status pal_sqlite_file_create(const char *path, pal_error *err);
/* Remembers the open files, so that pal_sqlite_file_check_moved() can notice a change. */
void pal_sqlite_file_watch(pal_sqlite *self);
/* Returns PAL_IO if one of the watched files was removed or replaced. */
PAL_CHECKED pal_status pal_sqlite_file_check_moved(const pal_sqlite *self, pal_error *err);

/* ---- sqlite_wal.c ---- */

#define PAL_WAL_PAGES_MAX 8000 /* 32 MiB: if the WAL is longer, it is copied into the file */

void pal_wal_keeper_init(pal_sqlite *self);
/* Installs a hook that sees every commit of the writer. The writer must be open. */
void pal_wal_keeper_watch(pal_sqlite *self);
/* Stops the thread. Call it before the writer is closed. */
void pal_wal_keeper_done(pal_sqlite *self);

/* ---- sqlite_gather.c ---- */

/* Registers the VFS and returns the name with which the writer's connection is opened, or NULL on
 * failure. */
const char *pal_wal_gather_register(pal_wal_gather *self);
/* Lets a rollback drop data that is still kept. Call it before the connection is used. */
void pal_wal_gather_watch(pal_wal_gather *self, sqlite3 *db);
/* Unregisters the VFS and frees the buffer. Call it after the writer is closed. */
void pal_wal_gather_done(pal_wal_gather *self);

/* ---- sqlite_outside.c ---- */

void pal_sqlite_outside_init(pal_sqlite *self);
void pal_sqlite_outside_done(pal_sqlite *self);
/* Finds the shared memory. The writer must be open, and must have read from the WAL. */
void pal_sqlite_outside_watch(pal_sqlite *self);
/* Call it at the beginning of a transaction, when the write lock is held. */
void pal_sqlite_outside_begin(pal_sqlite *self);
/* Call it after the transaction has ended. */
void pal_sqlite_outside_end(pal_sqlite *self, bool is_committed);

/* ---- sqlite_schema.c ---- */

/* Checks whether the file can be opened, and creates it if it does not exist. Reads only its first
 * bytes, so another program's file is not changed. */
PAL_CHECKED pal_status pal_sqlite_file_check(
        const char *path, const pal_store_options *options, pal_error *err);
/* Sets an error from errno that says why the file could not be opened. */
pal_status pal_sqlite_open_error(const char *path, pal_error *err);
/* Creates the tables or migrates those of an older version. With `read_only` nothing is changed.
 * Returns the resulting version in *out_version. */
PAL_CHECKED pal_status pal_sqlite_migrate(
        pal_sql_conn *conn, bool read_only, int *out_version, pal_error *err);

/* ---- Operations: each checks first, then writes, and sets op->status and op->error ---- */

/* The values of a session that most operations need. */
typedef struct pal_sqlite_head {
    int64_t handle;
    int64_t tenant;
    pal_session_state state;
    uint64_t last_seq;
    uint64_t mark_number;
    int64_t expires_at;
    int64_t parent;
    uint64_t fork_seq;
    uint64_t fence; /* the fence of the session's lease, even a released one; 0: no lease yet */
} pal_sqlite_head;

typedef enum pal_head_need {
    PAL_NEED_WRITABLE, /* active and not expired; if the op has a fence, only not quarantined or
                          erased */
    PAL_NEED_EXISTING, /* any state except erased */
} pal_head_need;

/* Finds the op's session and checks its state and the op's fence. Fails with the same errors for
 * every operation if the session cannot be used. */
PAL_CHECKED pal_status pal_sqlite_head_get(
        pal_sql_conn *conn, const pal_work *work, pal_head_need need, pal_sqlite_head *out_head);
/* Finds another session of the op's tenant, in any state except erased. The fence is not
 * checked. */
PAL_CHECKED pal_status pal_sqlite_head_existing(
        pal_sql_conn *conn, const pal_work *work, pal_id id, pal_sqlite_head *out_head);
/* Finds a session of a tenant, in any state. Sets handle 0 in *out_head if it does not exist. */
PAL_CHECKED pal_status pal_sqlite_head_find(pal_sql_conn *conn, pal_id id, pal_str tenant_name,
        pal_sqlite_head *out_head, pal_error *err);
/* Fails if the op cannot write to the session: it is in the trash, quarantined, or has expired. */
PAL_CHECKED pal_status pal_sqlite_head_check(const pal_work *work, const pal_sqlite_head *head);
/* Finds a session by its number, without any check. Sets handle 0 in *out_head if it does not
 * exist. */
PAL_CHECKED pal_status pal_sqlite_head_by_handle(
        pal_sql_conn *conn, int64_t handle, pal_sqlite_head *out_head, pal_error *err);
/* Sets the session's time of update. */
PAL_CHECKED pal_status pal_sqlite_touch(pal_sql_conn *conn, const pal_work *work, int64_t handle);

/* ---- sqlite_counts.c ---- */

bool pal_sqlite_tenant_counts(pal_str name);
/* Adds `by` to the number of sessions in `state`. */
void pal_sqlite_count_state(pal_sql_conn *conn, int64_t state, int64_t by);
PAL_CHECKED pal_status pal_sqlite_state_set(
        pal_sql_conn *conn, int64_t handle, pal_session_state state, pal_error *err);
/* Writes the changed counts. Call it before the commit. */
PAL_CHECKED pal_status pal_sqlite_counts_write(pal_sql_conn *conn, pal_error *err);
/* Reads the counts with the statement PAL_SQL_COUNTER_GET or PAL_SQL_STAT_ALL. */
PAL_CHECKED pal_status pal_sqlite_counts_read(
        pal_sql_conn *conn, pal_sql_id id, pal_store_stats *out_stats, pal_error *err);

/* ---- sqlite_heads.c ---- */

/* Call it at the beginning of a transaction, when the write lock is held. */
void pal_sqlite_heads_begin(pal_sql_conn *conn);
/* Call it after the transaction is committed. */
void pal_sqlite_heads_committed(pal_sql_conn *conn);
/* Empties the cache. Call it before an operation other than append changes a head, and after a
 * rollback. */
void pal_sqlite_heads_forget(pal_sql_conn *conn);
/* Stores the head, with its values in the present transaction. */
void pal_sqlite_heads_keep(pal_sql_conn *conn, pal_id id, const pal_sqlite_head *head);
void pal_sqlite_heads_free(pal_sql_conn *conn);

/* Aliases are kept in one column. Each is followed by a NUL, which no alias contains. */
#define PAL_ALIASES_LEN_MAX (PAL_ALIASES_MAX * (PAL_KEY_LEN_MAX + 1))
void pal_sqlite_aliases_join(pal_buf *buf, const pal_session *session);
/* Sets the session's aliases from the column, which must be in the arena and end with a NUL. */
void pal_sqlite_aliases_split(pal_str joined, pal_arena *arena, pal_session *session);
/* Returns PAL_CONFLICT if a session other than `own_handle` has one of the aliases, unless the
 * session is routed. */
PAL_CHECKED pal_status pal_sqlite_aliases_check(pal_sql_conn *conn, const pal_work *work,
        int64_t tenant, const pal_session *session, int64_t own_handle);
/* Lets one alias lead to the session, if it does not lead to another one. */
PAL_CHECKED pal_status pal_sqlite_alias_add(
        pal_sql_conn *conn, int64_t tenant, pal_str alias, int64_t handle, pal_error *err);
/* Adds missing aliases to the index. They must have passed pal_sqlite_aliases_check(), so existing
 * entries are kept. */
PAL_CHECKED pal_status pal_sqlite_aliases_add(pal_sql_conn *conn, int64_t tenant,
        const pal_session *session, int64_t handle, pal_error *err);
/* Finds the active session that has a key or an alias; *out_holder is 0 if the name is free. If
 * that session has expired, it is moved to the trash first, and the name is free. */
PAL_CHECKED pal_status pal_sqlite_holder(pal_sql_conn *conn, const pal_work *work,
        pal_sql_id statement, int64_t tenant, pal_str name, int64_t *out_holder, pal_id *out_id);
/* Returns PAL_CONFLICT if a session other than `own_handle` has the key. The empty key is free. */
PAL_CHECKED pal_status pal_sqlite_key_check(
        pal_sql_conn *conn, const pal_work *work, int64_t tenant, pal_str key, int64_t own_handle);
/* Returns PAL_BUDGET if the tenant has reached its limit of active sessions. */
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
pal_status pal_sqlite_erase_message(pal_sql_conn *conn, pal_work *work);
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

/* Returns the tenant's number, or 0 in *out_tenant if it has none and `create` is false. */
PAL_CHECKED pal_status pal_sqlite_tenant(
        pal_sql_conn *conn, pal_str name, bool create, int64_t *out_tenant, pal_error *err);

/* Returns the number of a project's or agent's name, and assigns one if it has none. The empty name
 * has number 0. */
PAL_CHECKED pal_status pal_sqlite_name_number(
        pal_sql_conn *conn, pal_str text, int64_t *out_number, pal_error *err);

pal_status pal_sqlite_record_put(pal_sql_conn *conn, pal_work *work);
pal_status pal_sqlite_record_drop(pal_sql_conn *conn, pal_work *work);
/* Removes expired records, up to the limit of the sweep. */
PAL_CHECKED pal_status pal_sqlite_records_sweep(pal_sql_conn *conn, pal_work *work);

/* ---- sqlite_index.c ---- */

#define PAL_SQLITE_TERM_SIZE 24

/* Returns the block of the index that covers a message's position. */
int64_t pal_sqlite_block_of(int64_t pos);
/* Builds a term of the index that is not a word: kind 'r' for a role, 's' for a session, 't' for a
 * tenant. */
pal_str pal_sqlite_term(char out[PAL_SQLITE_TERM_SIZE], char kind, int64_t number);

/* Stores a part that pal_sqlite_index_build() made, unless a later change made it invalid. */
pal_status pal_sqlite_index_write(pal_sql_conn *conn, pal_work *work);
/* Drops all blocks with messages of the session after `kept_seq`, which are about to be erased. */
PAL_CHECKED pal_status pal_sqlite_index_forget(
        pal_sql_conn *conn, int64_t handle, uint64_t kept_seq, pal_error *err);
/* Drops the block with the message at this position. */
PAL_CHECKED pal_status pal_sqlite_index_forget_at(pal_sql_conn *conn, int64_t pos, pal_error *err);
/* Must be called in every transaction that has erased messages. */
PAL_CHECKED pal_status pal_sqlite_index_erased(pal_sql_conn *conn, pal_error *err);

/* Finds a block, from *block downward, whose terms do not match its messages. Sets *block to -1 if
 * there is none. */
PAL_CHECKED pal_status pal_sqlite_index_check(pal_sql_conn *conn, int64_t *block, pal_error *err);
/* Finds a wrong group among the keys below *key, and sets *key to its key, or to 0 if there is
 * none. */
PAL_CHECKED pal_status pal_sqlite_index_check_groups(
        pal_sql_conn *conn, int64_t *key, pal_error *err);
/* Finds a block that has index entries but is missing from the list of blocks; -1 if there is
 * none. */
PAL_CHECKED pal_status pal_sqlite_index_stray(
        pal_sql_conn *conn, int64_t *out_block, pal_error *err);
/* Drops the block. The next search builds it again. */
PAL_CHECKED pal_status pal_sqlite_index_repair(pal_sql_conn *conn, int64_t block, pal_error *err);

/* Begins a transaction in which several reads see the same state. */
PAL_CHECKED pal_status pal_sqlite_snapshot_begin(pal_sql_conn *conn, pal_error *err);
void pal_sqlite_snapshot_end(pal_sql_conn *conn);

/* ---- The callbacks ---- */

pal_apply_fn pal_sqlite_apply;
pal_session_find_fn pal_sqlite_session_find;
pal_session_list_fn pal_sqlite_session_list;
pal_row_scan_fn pal_sqlite_row_scan;
pal_row_find_fn pal_sqlite_row_find;
pal_row_search_fn pal_sqlite_row_search;
pal_row_rank_fn pal_sqlite_row_rank;
pal_fork_list_fn pal_sqlite_fork_list;
pal_index_build_fn pal_sqlite_index_build;
pal_mark_list_fn pal_sqlite_mark_list;
pal_inbox_list_fn pal_sqlite_inbox_list;
pal_lease_find_fn pal_sqlite_lease_find;
pal_inbox_owners_fn pal_sqlite_inbox_owners;
pal_ledger_sum_fn pal_sqlite_ledger_sum;
pal_ledger_list_fn pal_sqlite_ledger_list;
pal_record_list_fn pal_sqlite_record_list;
pal_blob_get_fn pal_sqlite_blob_get;
pal_export_scan_fn pal_sqlite_export_scan;
pal_schema_read_fn pal_sqlite_schema_read;
pal_stat_fn pal_sqlite_stat;
pal_ready_fn pal_sqlite_ready;
pal_outside_fn pal_sqlite_outside;
pal_check_fn pal_sqlite_check;

/* Opens a connection to the engine's file with all settings. `vfs` NULL: the default VFS. Close the
 * connection even if this fails. */
PAL_CHECKED pal_status pal_sqlite_connect(pal_sqlite *self, bool read_only, const char *vfs,
        pal_sql_conn *out_conn, pal_error *err);
/* Opens a connection whose commits are durable. Close it even if this fails. */
PAL_CHECKED pal_status pal_sqlite_connect_writer(
        pal_sqlite *self, const char *vfs, pal_sql_conn *out_conn, pal_error *err);

/* Takes a connection for a read of several statements; pal_sqlite_reader_give() returns it. Blocks
 * while all connections are taken. A read of one statement uses pal_sql_read() instead. */
PAL_CHECKED pal_status pal_sqlite_reader_take(
        pal_sqlite *self, pal_read_kind kind, pal_sql_conn **out_conn, pal_error *err);
void pal_sqlite_reader_give(pal_sqlite *self, pal_sql_conn *conn);

/* Registers the function that PAL_SQL_SCAN_UP and PAL_SQL_SCAN_DOWN call. */
PAL_CHECKED pal_status pal_sqlite_scan_prepare(pal_sql_conn *conn, pal_error *err);
/* Registers the functions that sums of the ledger call. */
PAL_CHECKED pal_status pal_sqlite_sum_prepare(pal_sql_conn *conn, pal_error *err);

/* Reads marks that one session owns into the arena. */
PAL_CHECKED pal_status pal_sqlite_marks_read(pal_sql_conn *conn, const pal_mark_scan *scan,
        pal_arena *arena, pal_mark **out_marks, size_t *out_len, pal_error *err);

/* Rebuilds all indexes from their tables, however damaged the indexes are. */
bool pal_sqlite_reindex(pal_sql_conn *conn);
/* Replaces the tables of the search index by empty ones, however damaged they are. */
bool pal_sqlite_search_replace(pal_sql_conn *conn);

/* Read columns of the current row, from the column `first` on: PAL_SQL_ROW_COLUMNS and
 * PAL_SQL_LEDGER_COLUMNS, whose texts are borrowed; PAL_SQL_SESSION_COLUMNS; and the columns of
 * PAL_SQL_RECORD_SELECT. */
void pal_sqlite_row_read(pal_sql *sql, int first, pal_row *out_row);
void pal_sqlite_ledger_read(pal_sql *sql, int first, pal_ledger_row *out_row);
void pal_sqlite_session_read(
        pal_sql *sql, int first, pal_arena *arena, pal_session_row *out_row);
void pal_sqlite_record_read(pal_sql *sql, int first, pal_arena *arena, pal_record *out_record);

#endif
