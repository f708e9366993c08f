/* postgres.h - the structures of the backend "postgres:", for the postgres*.c files only.
 *
 * Threads: the writer's connection is used by the thread that calls apply(). Reads take a
 * connection from the pool, and hold it for one statement. */
#ifndef PAL_POSTGRES_H
#define PAL_POSTGRES_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/map.h"
#include "store/postgres/postgres_sql.h"
#include "store/postgres/postgres_value.h"
#include "store/store_backend.h"

#define PAL_POSTGRES_READERS_MAX 64
#define PAL_POSTGRES_SCHEMA_SIZE 64
#define PAL_POSTGRES_FLIGHT_MAX 40 /* statements that are sent together */
#define PAL_POSTGRES_VERSION 2     /* version of the schema that this program writes */
#define PAL_POSTGRES_SERVER_MIN 140000
#define PAL_POSTGRES_PART_BYTES (1u << 20) /* a blob is stored in parts of this size */

typedef struct pal_postgres pal_postgres;

typedef struct pal_postgres_conn {
    PGconn *pg; /* NULL: not connected */
    pal_postgres *store;
    bool is_prepared[PAL_POSTGRES_COUNT];
    bool is_writer;
    uint_fast64_t losses; /* those of the store, when this connection was made */
    bool was_warned; /* the server sent a warning since the flight began */
    bool was_checked; /* writer: the row of this process was read through this connection */
} pal_postgres_conn;

/* The clock of the database (postgres_clock.c). */
typedef struct pal_postgres_clock {
    pthread_mutex_t lock;
    bool is_known;
    int64_t least_us; /* the database's time is at least this much more than the monotonic time */
    int64_t most_us;  /* and at most this much */
} pal_postgres_clock;

/* Up to which position all messages are committed or will never be (index_postgres.c). */
typedef struct pal_postgres_horizon {
    int64_t decided;     /* all up to this position are decided */
    int64_t pending;     /* all up to this position will be decided; 0: not known */
    int64_t pending_xid; /* when no transaction with a lower id runs */
} pal_postgres_horizon;

typedef struct pal_postgres_reader {
    pal_postgres_conn conn;
    bool is_used;
} pal_postgres_reader;

struct pal_postgres {
    pal_engine base;
    pal_store_options options;
    char *url;                             /* the URL for libpq, without our own parameters */
    char *place;                           /* the URL without a password, for messages */
    char schema[PAL_POSTGRES_SCHEMA_SIZE];
    char *texts[PAL_POSTGRES_COUNT];       /* statements with the schema in them */
    atomic_bool prepares;                  /* statements are prepared; not behind a pooler */
    pal_postgres_conn writer;
    pthread_mutex_t lock; /* protects readers, tenants and the horizon */
    pthread_cond_t given; /* a reader was given back */
    pal_postgres_reader readers[PAL_POSTGRES_READERS_MAX];
    size_t readers_len;
    pal_map tenants;      /* names of tenants that exist, by name */
    pal_arena *names;     /* the texts of these names */
    pal_postgres_horizon horizon;
    pal_map noted;        /* writer: how many messages each tenant got, by the tenant's number */
    pal_arena *notes;     /* these counts */
    int64_t slot;         /* this process in the table node; 0: none yet */
    pal_id node;          /* the id that it entered there */
    int64_t batch;        /* the number of the last batch that was sent */
    unsigned wary;        /* so many batches take two flights, because a single one failed */
    int64_t acknowledged; /* the number of the last batch that was reported as committed */
    int64_t acknowledged_at; /* when that was */
    atomic_uint_fast64_t went_back; /* how often the database was found to be older than that */
    atomic_bool is_lost;  /* the writer has no connection */
    atomic_uint_fast64_t losses; /* how often the writer lost its connection */
    atomic_uint_fast64_t flights; /* number of flights that were sent; for tests */
    pal_postgres_clock clock;
};

/* ---- postgres_url.c ---- */

/* Takes our parameters ('schema', 'prepare') out of the URL and checks them. */
PAL_CHECKED pal_status pal_postgres_url_read(
        pal_postgres *store, const char *location, pal_error *err);

/* ---- postgres_error.c ---- */

typedef enum pal_postgres_failure {
    PAL_POSTGRES_FINE,
    PAL_POSTGRES_LOST,     /* the connection is gone; a commit may have happened */
    PAL_POSTGRES_RACE,     /* nothing was written; trying again may help */
    PAL_POSTGRES_POOLER,   /* nothing was written; prepared statements do not work here */
    PAL_POSTGRES_WAIT,     /* nothing was written; the server does not accept connections yet */
    PAL_POSTGRES_REFUSED,  /* nothing was written, and it will not help to try again */
} pal_postgres_failure;

pal_postgres_failure pal_postgres_failure_of(const char *code);
/* Describes the failure by its SQLSTATE, with the remedy. `text` is the server's message. */
pal_status pal_postgres_error(
        const pal_postgres *store, const char *code, const char *text, pal_error *err);

/* ---- postgres_conn.c ---- */

/* Connects if there is no connection. *out_failure may be NULL. */
PAL_CHECKED pal_status pal_postgres_connect(
        pal_postgres_conn *conn, pal_postgres_failure *out_failure, pal_error *err);
/* Returns the settings that the connection asks the server for. */
const char *pal_postgres_settings(const pal_postgres_conn *conn);
void pal_postgres_disconnect(pal_postgres_conn *conn);

/* Statements that are sent together and need one round trip. They are one transaction, unless they
 * contain BEGIN or COMMIT. */
typedef struct pal_postgres_flight {
    pal_postgres_conn *conn;
    pal_postgres_sql sent[PAL_POSTGRES_FLIGHT_MAX];
    bool prepares[PAL_POSTGRES_FLIGHT_MAX];
    PGresult *results[PAL_POSTGRES_FLIGHT_MAX];
    size_t len;
    int64_t begun_us; /* monotonic time */
    bool is_broken; /* libpq refused a statement */
    bool is_short;  /* there was no memory for a parameter */
    pal_postgres_failure failure;
} pal_postgres_flight;

void pal_postgres_flight_begin(pal_postgres_flight *flight, pal_postgres_conn *conn);
/* Adds a statement, frees the parameters (NULL: none), and returns the index of its result. */
size_t pal_postgres_flight_add(
        pal_postgres_flight *flight, pal_postgres_sql sql, pal_postgres_params *params);
/* Sends everything and waits for all results, at most until busy_timeout_ms has passed. Then the
 * connection is closed. */
PAL_CHECKED pal_status pal_postgres_flight_run(pal_postgres_flight *flight, pal_error *err);
void pal_postgres_flight_done(pal_postgres_flight *flight);

/* Runs one statement on the writer's connection. The caller frees *out_result (may be NULL). */
PAL_CHECKED pal_status pal_postgres_run(pal_postgres_conn *conn, pal_postgres_sql sql,
        pal_postgres_params *params, PGresult **out_result, pal_postgres_failure *out_failure,
        pal_error *err);

/* Runs one reading statement on a connection of the pool. If the connection is lost, it is made
 * again until busy_timeout_ms has passed. The caller frees *out_result. */
PAL_CHECKED pal_status pal_postgres_read(pal_postgres *store, pal_postgres_sql sql,
        pal_postgres_params *params, PGresult **out_result, pal_error *err);
/* The same for several statements in one flight. */
typedef struct pal_postgres_read_one {
    pal_postgres_sql sql;
    pal_postgres_params *params; /* freed by the call */
} pal_postgres_read_one;
PAL_CHECKED pal_status pal_postgres_read_all(pal_postgres *store,
        const pal_postgres_read_one *reads, size_t len, PGresult **out_results, pal_error *err);
/* Waits for a connection of the pool, which may not be connected. The caller gives it back. */
pal_postgres_reader *pal_postgres_reader_take(pal_postgres *store);
void pal_postgres_reader_give(pal_postgres *store, pal_postgres_reader *reader);
/* Reads something, without waiting for a server that does not answer. */
PAL_CHECKED pal_status pal_postgres_probe(pal_postgres *store, pal_error *err);
void pal_postgres_readers_close(pal_postgres *store);

/* Runs a text without parameters: for the schema. *out_code is the SQLSTATE of a failure. */
PAL_CHECKED pal_status pal_postgres_exec(
        pal_postgres_conn *conn, const char *text, char out_code[6], pal_error *err);

/* ---- postgres_clock.c ---- */

/* Notes that the database's clock showed this time between two monotonic times. `is_first`: the
 * connection is new, and may lead to another machine. */
void pal_postgres_clock_note(pal_postgres *store, int64_t time_us, int64_t from_us, int64_t to_us,
        bool is_first);
pal_now_ms_fn pal_postgres_now_ms;

/* ---- postgres_schema.c ---- */

/* The tables and indexes that version 2 of the schema adds. */
#define PAL_POSTGRES_TABLES_2(X)                                                                   \
    X("CREATE TABLE @search_tenant (tenant int8 PRIMARY KEY, indexed_pos int8 NOT NULL,"           \
      " blocks int8 NOT NULL, erasures int8 NOT NULL, marks int8 NOT NULL,"                        \
      " is_wanted bool NOT NULL) WITH (fillfactor = 50);")                                         \
    X("CREATE INDEX search_wanted ON @search_tenant(tenant) WHERE is_wanted;")                     \
    X("CREATE TABLE @search_block (tenant int8 NOT NULL, level int2 NOT NULL,"                     \
      " block int8 NOT NULL, is_built bool NOT NULL, first_pos int8 NOT NULL,"                     \
      " last_pos int8 NOT NULL, positions bytea NOT NULL, wide bytea NOT NULL,"                    \
      " PRIMARY KEY (tenant, level, block));")                                                     \
    X("CREATE INDEX search_block_pos ON @search_block(tenant, last_pos) WHERE level = 0;")         \
    X("CREATE INDEX search_block_missing ON @search_block(tenant, level, block)"                   \
      " WHERE NOT is_built;")                                                                      \
    X("CREATE TABLE @search (tenant int8 NOT NULL, level int2 NOT NULL, block int8 NOT NULL,"      \
      " term bytea NOT NULL, chunk bytea NOT NULL, PRIMARY KEY (tenant, level, block, term));")

/* Fills store->texts. Must be called before the first connection is made. */
PAL_CHECKED pal_status pal_postgres_texts_write(pal_postgres *store, pal_error *err);
/* Creates the schema if it does not exist, and checks its version. */
PAL_CHECKED pal_status pal_postgres_schema_open(pal_postgres *store, pal_error *err);

/* Appends SQL, with "@" replaced by the schema and a dot, and "%S" by the schema. */
void pal_postgres_text_put(const pal_postgres *store, const char *text, pal_buf *out);
/* Reads the row of meta. PAL_NOT_FOUND: there is no such schema. */
PAL_CHECKED pal_status pal_postgres_meta_read(
        pal_postgres *store, pal_store_schema *out_schema, pal_error *err);
/* Writes one line of SQL per setting that connections set themselves, unless a pooler is in
 * between: ALTER ROLE ... SET. `only_missing`: only settings that have another value now. */
void pal_postgres_settings_write(pal_postgres *store, bool only_missing, pal_buf *out);

/* ---- postgres_migrate.c ---- */

typedef struct pal_postgres_step {
    const char *text;  /* SQL as for pal_postgres_text_put() */
    const char *index; /* not NULL: the text creates this index concurrently, outside a
                          transaction */
    int oldest_reader; /* the oldest programs that can use the schema after this step */
    int oldest_writer;
} pal_postgres_step;

/* Makes all steps that are missing: the step at [n] leads from version n + 1 to n + 2. */
PAL_CHECKED pal_status pal_postgres_migrate(
        pal_postgres *store, const pal_postgres_step *steps, size_t steps_len, pal_error *err);
/* Makes the steps of this program. */
PAL_CHECKED pal_status pal_postgres_upgrade(pal_postgres *store, pal_error *err);

/* ---- postgres_tenant.c ---- */

/* Returns the number of a tenant: the first 8 bytes of the SHA-256 of its name. */
int64_t pal_postgres_tenant(pal_str name);
/* Checks that the tenant exists, under exactly this name. */
PAL_CHECKED pal_status pal_postgres_tenant_find(
        pal_postgres *store, pal_str name, bool *out_found, pal_error *err);
/* Creates the tenant if it does not exist. Writer only. */
PAL_CHECKED pal_status pal_postgres_tenant_add(pal_postgres *store, pal_str name,
        pal_postgres_failure *out_failure, pal_error *err);
/* Forgets which tenants exist, because the database went back. */
void pal_postgres_tenants_forget(pal_postgres *store);

/* ---- postgres_session.c ---- */

/* Reads the columns PAL_POSTGRES_SESSION_COLUMNS of a row. */
void pal_postgres_session_read(const PGresult *result, int row, pal_str tenant, pal_arena *arena,
        pal_session_row *out_row);
/* Reads the columns of SESSION_BRIEF. */
void pal_postgres_session_read_brief(const PGresult *result, int row, pal_str tenant,
        pal_arena *arena, pal_session_row *out_row);
void pal_postgres_row_read(const PGresult *result, int row, pal_row *out_row);
void pal_postgres_ledger_read(const PGresult *result, int line, pal_ledger_row *out_row);
/* Returns the rows of INBOX_LIST, in the arena. */
pal_inbox_item *pal_postgres_items_read(const PGresult *result, pal_arena *arena);
void pal_postgres_mark_read(const PGresult *result, int row, pal_mark *out_mark);
/* Reads the columns PAL_POSTGRES_RECORD_COLUMNS of a row. */
void pal_postgres_record_read(
        const PGresult *result, int row, pal_arena *arena, pal_record *out_record);
int64_t pal_postgres_minute(int64_t updated_at);

/* ---- postgres_apply.c, postgres_erase.c ---- */

/* Erases a session, as a part of a transaction that the caller ends. If the operation is rejected,
 * its status says so, and PAL_OK is returned. */
PAL_CHECKED pal_status pal_postgres_erase(pal_postgres *store, pal_work *work,
        pal_postgres_failure *out_failure, pal_error *err);
/* Notes the number of the batch and commits. If the connection is lost, the commit is in doubt. */
PAL_CHECKED pal_status pal_postgres_commit(
        pal_postgres *store, pal_postgres_failure *out_failure, pal_error *err);
/* Sweeps, with a transaction for each session. */
pal_status pal_postgres_sweep(
        pal_postgres *store, pal_work *work, pal_postgres_failure *out_failure);

/* Runs works once, in one transaction. A single work that is rejected counts as refused. */
PAL_CHECKED pal_status pal_postgres_apply_some(pal_postgres *store, pal_work *works,
        size_t works_len, pal_postgres_failure *out_failure, pal_error *err);

pal_apply_fn pal_postgres_apply;

/* ---- postgres_blob.c ---- */

pal_blob_ahead_fn pal_postgres_blob_ahead;

/* ---- postgres_node.c ---- */

/* Makes sure that this process has a slot. Through a new connection, it also looks whether the
 * database went back. */
PAL_CHECKED pal_status pal_postgres_node_enter(
        pal_postgres *store, pal_postgres_failure *out_failure, pal_error *err);
void pal_postgres_node_leave(pal_postgres *store);
/* Returns the mark that the batch leaves in the heads that it changes. No other batch of any
 * process has it. */
int64_t pal_postgres_token(const pal_postgres *store);
/* Adds the statement that notes the number of the batch. */
void pal_postgres_add_batch(pal_postgres_flight *flight, int64_t now_ms);
/* Notes that the last batch was committed. */
void pal_postgres_acknowledge(pal_postgres *store);
/* Fails: the server warned that a replica may not have the commit. */
pal_status pal_postgres_not_replicated(const pal_postgres *store, pal_error *err);
/* Finds out whether the last batch was committed, after the connection was lost, and whether the
 * database went back. */
PAL_CHECKED pal_status pal_postgres_node_check(pal_postgres *store, bool *out_committed,
        pal_postgres_failure *out_failure, pal_error *err);

/* ---- postgres_ahead.c ---- */

/* Passes the rows of the scan that were read ahead to the sink. *scan is left with the rest.
 * Returns false if the sink has stopped the scan, or if no rows are left. */
bool pal_postgres_ahead_rows(pal_row_scan *scan, pal_row_sink sink, void *user);
/* Return false if the marks or the items were not read ahead, or if there is no memory. */
bool pal_postgres_ahead_marks(const pal_mark_scan *scan, pal_arena *arena, pal_mark **out_marks,
        size_t *out_len);
bool pal_postgres_ahead_inbox(pal_handle handle, pal_arena *arena, pal_inbox_item **out_items,
        size_t *out_len);

/* ---- Reading callbacks ---- */

pal_session_find_fn pal_postgres_session_find;
pal_session_ahead_fn pal_postgres_session_ahead;
pal_ahead_extend_fn pal_postgres_ahead_extend;
pal_session_list_fn pal_postgres_session_list;
pal_row_scan_fn pal_postgres_row_scan;
pal_row_find_fn pal_postgres_row_find;
pal_row_search_fn pal_postgres_row_search;
pal_row_rank_fn pal_postgres_row_rank;
pal_index_build_fn pal_postgres_index_build;
pal_fork_list_fn pal_postgres_fork_list;
pal_mark_list_fn pal_postgres_mark_list;
pal_inbox_list_fn pal_postgres_inbox_list;
pal_inbox_owners_fn pal_postgres_inbox_owners;
pal_lease_find_fn pal_postgres_lease_find;
pal_ledger_sum_fn pal_postgres_ledger_sum;
pal_ledger_list_fn pal_postgres_ledger_list;
pal_record_list_fn pal_postgres_record_list;
pal_blob_get_fn pal_postgres_blob_get;
pal_export_scan_fn pal_postgres_export_scan;
pal_stat_fn pal_postgres_stat;
pal_ready_fn pal_postgres_ready;
pal_went_back_fn pal_postgres_went_back;
pal_schema_read_fn pal_postgres_schema_read;
pal_check_fn pal_postgres_check;

#endif
