/* sqlite.c - the SQLite backend: opening, closing, the callbacks.
 *
 * Crash argument: the file is in WAL mode with synchronous=FULL. A transaction is a series of
 * frames that are appended to the WAL. One fsync makes them durable before COMMIT returns, and only
 * then does Palaver acknowledge.
 * - A crash before the fsync leaves frames without a valid commit record, which recovery ignores.
 * - A crash while frames are copied into the file (checkpoint) leaves the WAL, which is copied
 *   again.
 * - A failed fsync fails the COMMIT, and the next transaction writes its frames again.
 * - A process that dies between write and fsync can leave a commit that the next process finds, but
 *   that a power cut would take back. Therefore a process that opens the file for writing syncs the
 *   WAL before it acknowledges anything, for example a message that already exists.
 *
 * Readers have separate connections and never wait for the writer. Several processes can use one
 * file: a writer takes the write lock with BEGIN IMMEDIATE before it reads anything that its writes
 * depend on. */
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "store/sqlite/sqlite.h"

#define READER_CACHE_KIB 4096
#define WRITER_CACHE_KIB 65536

void pal_store_claim_sqlite(void)
{
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

/* ---- Connections ---- */

/* Memory mapping is off: SQLite looks up a mapped page in the WAL at every access, but a cached
 * page only when it is read. Mapping costs short lookups a fifth of their time, and more if the WAL
 * is long. */
static pal_status configure(pal_sql_conn *conn, bool read_only, pal_error *err)
{
    char pragmas[256];

    sqlite3_snprintf(sizeof(pragmas), pragmas,
            "PRAGMA mmap_size = 0; PRAGMA cache_size = -%d; PRAGMA temp_store = MEMORY;"
            "%s",
            read_only ? READER_CACHE_KIB : WRITER_CACHE_KIB,
            read_only ? "PRAGMA query_only = ON" : "");
    return pal_sql_exec(conn, pragmas, err);
}

static pal_status configure_writer(pal_sql_conn *conn, pal_error *err)
{
    char pragmas[256];

    sqlite3_snprintf(sizeof(pragmas), pragmas,
            "PRAGMA synchronous = FULL; PRAGMA secure_delete = ON; PRAGMA journal_size_limit = %d;"
            "PRAGMA wal_autocheckpoint = 0",
            PAL_WAL_PAGES_MAX * 4096);
    return pal_sql_exec(conn, pragmas, err);
}

/* Adds columns that a file before version 5 lacks as temporary views, if the file must not be
 * changed. */
static pal_status show_columns(pal_sql_conn *conn, pal_error *err)
{
    return pal_sql_exec(conn,
            "PRAGMA temp_store = MEMORY;" /* a change of it would drop the views */
            "CREATE TEMP VIEW message AS SELECT *, NULL AS turn FROM main.message;"
            "CREATE TEMP VIEW lease AS SELECT *, NULL AS ttl_ms FROM main.lease",
            err);
}

pal_status pal_sqlite_connect(pal_sqlite *self, bool read_only, const char *vfs,
        pal_sql_conn *out_conn, pal_error *err)
{
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
            (self->options.read_only ? SQLITE_OPEN_READONLY
                                     : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    pal_status status;
    int code;

    memset(out_conn, 0, sizeof(*out_conn));
    out_conn->path = self->path;
    code = sqlite3_open_v2(self->path, &out_conn->db, flags, vfs);
    if (code != SQLITE_OK) {
        int system_errno = out_conn->db ? sqlite3_system_errno(out_conn->db) : 0;
        const char *why = system_errno ? strerror(system_errno) : sqlite3_errstr(code);

        return pal_error_set(err, code == SQLITE_NOMEM ? PAL_NO_MEMORY : PAL_IO,
                "could not open '%.160s': %s", self->path, why);
    }
    pal_sql_set_busy_handler(out_conn, self->options.busy_timeout_ms);
    status = pal_sqlite_scan_prepare(out_conn, err);
    if (status != PAL_OK)
        return status;
    status = pal_sqlite_sum_prepare(out_conn, err);
    if (status != PAL_OK)
        return status;
    if (self->is_migrated && !self->has_turns) {
        status = show_columns(out_conn, err);
        if (status != PAL_OK)
            return status;
    }
    return configure(out_conn, read_only, err);
}

pal_status pal_sqlite_connect_writer(
        pal_sqlite *self, const char *vfs, pal_sql_conn *out_conn, pal_error *err)
{
    pal_status status = pal_sqlite_connect(self, false, vfs, out_conn, err);

    return status == PAL_OK ? configure_writer(out_conn, err) : status;
}

/* ---- Opening ---- */

/* Switching to WAL needs exclusive access for a moment, and SQLite does not call the busy handler
 * then. A file that is already in WAL mode needs no switch. */
static pal_status switch_to_wal(pal_sql_conn *conn, pal_error *err)
{
    const char *text = "PRAGMA journal_mode = WAL";
    int code = sqlite3_exec(conn->db, text, NULL, NULL, NULL);

    for (int tries = 0; (code & 0xff) == SQLITE_BUSY && tries < 1000; tries++) {
        sqlite3_sleep(5);
        code = sqlite3_exec(conn->db, text, NULL, NULL, NULL);
    }
    return code == SQLITE_OK ? PAL_OK : pal_sql_failed(conn, code, err);
}

/* The WAL may contain data of a dead process that is not on disk yet. Living processes show only
 * synced data. */
static pal_status sync_wal(pal_sql_conn *conn, pal_error *err)
{
    sqlite3_file *file = NULL;
    int code = sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file);

    if (code == SQLITE_OK && file && file->pMethods)
        code = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
    return code == SQLITE_OK ? PAL_OK : pal_sql_failed(conn, code, err);
}

/* SQLite opens the WAL with the first read. */
static pal_status watch_wal(pal_sqlite *self, pal_error *err)
{
    pal_status status = pal_sql_exec(&self->writer, "SELECT 1 FROM tenant LIMIT 1", err);

    if (status == PAL_OK)
        status = sync_wal(&self->writer, err);
    if (status != PAL_OK)
        return status;
    pal_wal_keeper_watch(self);
    pal_sqlite_file_watch(self);
    pal_sqlite_outside_watch(self);
    return PAL_OK;
}

static pal_status connect_writer(pal_sqlite *self, pal_error *err)
{
    const char *vfs;
    pal_status status;

    if (self->options.read_only)
        return pal_sqlite_connect(self, false, NULL, &self->writer, err);
    vfs = pal_wal_gather_register(&self->gather);
    if (!vfs)
        return pal_no_memory(err);
    status = pal_sqlite_connect_writer(self, vfs, &self->writer, err);
    if (status == PAL_OK)
        pal_wal_gather_watch(&self->gather, self->writer.db);
    return status;
}

/* The tables are created first, under the rollback journal: see sqlite_schema.c. */
static pal_status open_writer(pal_sqlite *self, pal_error *err)
{
    pal_sql_conn *conn = &self->writer;
    int version = 0;
    pal_status status = connect_writer(self, err);

    if (status != PAL_OK)
        return status;
    status = pal_sqlite_migrate(conn, self->options.read_only, &version, err);
    if (status != PAL_OK)
        return status;
    self->has_search = version >= PAL_SQLITE_VERSION_SEARCH;
    self->has_records = version >= PAL_SQLITE_VERSION_RECORDS;
    self->has_counts = version >= PAL_SQLITE_VERSION_COUNTS;
    self->has_turns = version >= PAL_SQLITE_VERSION_TURNS;
    self->is_migrated = true;
    if (!self->has_turns) {
        status = show_columns(conn, err);
        if (status != PAL_OK)
            return status;
    }
    if (!self->options.read_only) {
        status = switch_to_wal(conn, err);
        if (status != PAL_OK)
            return status;
        status = watch_wal(self, err);
        if (status != PAL_OK)
            return status;
    }
    /* Prepared in advance, because rolling back a transaction must not need memory. */
    return pal_sql_prepare(conn, PAL_SQL_ROLLBACK, err);
}

static void sqlite_close(pal_engine *engine)
{
    pal_sqlite *self = (pal_sqlite *)engine;

    pal_wal_keeper_done(self);
    for (uint32_t i = 0; self->readers && i < self->options.readers_max; i++)
        pal_sql_close(&self->readers[i]);
    /* Closed last, so that this connection copies the WAL into the file and removes it. */
    pal_sql_close(&self->writer);
    pal_sqlite_heads_free(&self->writer);
    pal_wal_gather_done(&self->gather);
    pal_sqlite_outside_done(self);
    pthread_mutex_destroy(&self->writer_lock);
    pthread_cond_destroy(&self->reader_idle);
    pthread_mutex_destroy(&self->readers_lock);
    pal_free(self->readers);
    pal_free(self->reader_taken);
    pal_free(self->path);
    pal_free(self);
}

static pal_sqlite *sqlite_new(const char *location, const pal_store_options *options)
{
    pal_sqlite *self = pal_calloc(1, sizeof(*self));
    size_t len = strlen(location);

    if (!self)
        return NULL;
    self->options = *options;
    pthread_mutex_init(&self->writer_lock, NULL);
    pthread_mutex_init(&self->readers_lock, NULL);
    pthread_cond_init(&self->reader_idle, NULL);
    pal_wal_keeper_init(self);
    pal_sqlite_outside_init(self);
    self->path = pal_malloc(len + 1);
    self->readers = pal_calloc(options->readers_max, sizeof(*self->readers));
    self->reader_taken = pal_calloc(options->readers_max, sizeof(*self->reader_taken));
    if (!self->path || !self->readers || !self->reader_taken) {
        sqlite_close(&self->engine);
        return NULL;
    }
    memcpy(self->path, location, len + 1);
    return self;
}

static pal_status sqlite_open(const char *location, const pal_store_options *options,
        pal_engine **out_engine, pal_error *err)
{
    pal_sqlite *self;
    pal_status status;

    if (!*location || strlen(location) > 4000)
        return pal_error_set(err, PAL_INVALID, "the path of a file is missing; use sqlite:PATH");
    status = pal_sqlite_file_check(location, options, err);
    if (status != PAL_OK)
        return status;
    self = sqlite_new(location, options);
    if (!self)
        return pal_no_memory(err);
    self->engine.backend = &pal_store_sqlite;
    status = open_writer(self, err);
    if (status != PAL_OK) {
        sqlite_close(&self->engine);
        return status;
    }
    *out_engine = &self->engine;
    return PAL_OK;
}

const pal_store_backend pal_store_sqlite = {
        .scheme = "sqlite",
        .open = sqlite_open,
        .close = sqlite_close,
        .apply = pal_sqlite_apply,
        .session_find = pal_sqlite_session_find,
        .session_list = pal_sqlite_session_list,
        .row_scan = pal_sqlite_row_scan,
        .row_find = pal_sqlite_row_find,
        .row_search = pal_sqlite_row_search,
        .row_rank = pal_sqlite_row_rank,
        .fork_list = pal_sqlite_fork_list,
        .index_build = pal_sqlite_index_build,
        .mark_list = pal_sqlite_mark_list,
        .inbox_list = pal_sqlite_inbox_list,
        .lease_find = pal_sqlite_lease_find,
        .inbox_owners = pal_sqlite_inbox_owners,
        .ledger_sum = pal_sqlite_ledger_sum,
        .ledger_list = pal_sqlite_ledger_list,
        .record_list = pal_sqlite_record_list,
        .blob_get = pal_sqlite_blob_get,
        .stat = pal_sqlite_stat,
        .export_scan = pal_sqlite_export_scan,
        .schema_read = pal_sqlite_schema_read,
        .ready = pal_sqlite_ready,
        .outside = pal_sqlite_outside,
        .check = pal_sqlite_check,
};
