/* sqlite_schema.c - the tables, the migrations between versions, and the check of a file
 * before SQLite touches it. docs/store-format.md describes the tables in prose.
 *
 * Messages are rows in the order of their arrival (`pos`), found through the index (session, seq).
 * docs/decisions/002-sqlite-layout.md has the measurements. Values that change with every append
 * are in the narrow table `head`, so that long titles and metadata are not written again.
 *
 * Crash argument: the tables are created in one transaction under a rollback journal, before the
 * file is switched to WAL. A crash before the commit of that transaction leaves an empty file, and
 * the tables are created again. A crash after it leaves a complete file. Every migration is one
 * transaction as well. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "store/sqlite/sqlite.h"

/* The step at [n] leads from version n to n + 1. Steps are appended and never edited. */
static const char *const steps[] = {
        "CREATE TABLE tenant(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);"
        "CREATE TABLE name(id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);"

        "CREATE TABLE session("
        " id INTEGER PRIMARY KEY, uuid BLOB NOT NULL UNIQUE, tenant INTEGER NOT NULL,"
        " expires_at INTEGER, deleted_at INTEGER, parent INTEGER,"
        " fork_seq INTEGER NOT NULL, fork_mark INTEGER NOT NULL, created_at INTEGER NOT NULL,"
        " is_routed INTEGER NOT NULL, parent_uuid BLOB, key TEXT, kept_key TEXT, title TEXT,"
        " aliases BLOB, alias_apart TEXT, scope TEXT, metadata TEXT, extra TEXT);"
        "CREATE UNIQUE INDEX session_key ON session(tenant, key) WHERE key IS NOT NULL;"
        "CREATE INDEX session_parent ON session(parent, fork_seq) WHERE parent IS NOT NULL;"
        "CREATE INDEX session_expiry ON session(expires_at) WHERE expires_at IS NOT NULL;"
        "CREATE INDEX session_trash ON session(deleted_at) WHERE deleted_at IS NOT NULL;"

        "CREATE TABLE head("
        " session INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, state INTEGER NOT NULL,"
        " project INTEGER, agent INTEGER, last_seq INTEGER NOT NULL, mark_number INTEGER NOT NULL,"
        " tokens INTEGER NOT NULL, bytes INTEGER NOT NULL, updated_at INTEGER NOT NULL);"
        "CREATE INDEX head_recent ON head(tenant, state, updated_at, session);"
        "CREATE INDEX head_project ON head(tenant, state, project, updated_at, session)"
        " WHERE project IS NOT NULL;"
        "CREATE INDEX head_agent ON head(tenant, state, agent, updated_at, session)"
        " WHERE agent IS NOT NULL;"

        "CREATE TABLE alias("
        " tenant INTEGER NOT NULL, alias TEXT NOT NULL, session INTEGER NOT NULL,"
        " PRIMARY KEY (tenant, alias)) WITHOUT ROWID;"
        "CREATE INDEX alias_session ON alias(session);"

        "CREATE TABLE message("
        " pos INTEGER PRIMARY KEY, session INTEGER NOT NULL, seq INTEGER NOT NULL,"
        " id BLOB NOT NULL, role INTEGER NOT NULL, flags INTEGER NOT NULL,"
        " tokens INTEGER NOT NULL, created_at INTEGER NOT NULL, client_id TEXT,"
        " body NOT NULL);"
        "CREATE UNIQUE INDEX message_at ON message(session, seq);"
        "CREATE UNIQUE INDEX message_id ON message(id);"
        "CREATE UNIQUE INDEX message_client ON message(session, client_id)"
        " WHERE client_id IS NOT NULL;"

        "CREATE TABLE mark("
        " session INTEGER NOT NULL, number INTEGER NOT NULL, kind INTEGER NOT NULL,"
        " seq INTEGER NOT NULL, through_seq INTEGER NOT NULL, target INTEGER NOT NULL,"
        " created_at INTEGER NOT NULL, body TEXT,"
        " PRIMARY KEY (session, number)) WITHOUT ROWID;"

        "CREATE TABLE blob("
        " id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, hash BLOB NOT NULL, media_type TEXT,"
        " size INTEGER NOT NULL, created_at INTEGER NOT NULL, UNIQUE (tenant, hash));"
        "CREATE TABLE blob_data(blob INTEGER PRIMARY KEY, data BLOB NOT NULL);"
        "CREATE TABLE blob_ref("
        " blob INTEGER NOT NULL, session INTEGER NOT NULL, seq INTEGER NOT NULL,"
        " PRIMARY KEY (blob, session, seq)) WITHOUT ROWID;"
        "CREATE INDEX blob_ref_session ON blob_ref(session, seq);"

        "CREATE TABLE inbox("
        " id INTEGER PRIMARY KEY, uuid BLOB NOT NULL UNIQUE, session INTEGER NOT NULL,"
        " created_at INTEGER NOT NULL, client_id TEXT, delivery TEXT, body TEXT NOT NULL);"
        "CREATE INDEX inbox_session ON inbox(session, id);"
        "CREATE UNIQUE INDEX inbox_client ON inbox(session, client_id)"
        " WHERE client_id IS NOT NULL;"

        "CREATE TABLE lease("
        " session INTEGER PRIMARY KEY, owner TEXT, fence INTEGER NOT NULL,"
        " expires_at INTEGER NOT NULL);"

        "CREATE TABLE ledger("
        " id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, session INTEGER,"
        " created_at INTEGER NOT NULL, input INTEGER NOT NULL, cache_read INTEGER NOT NULL,"
        " cache_write INTEGER NOT NULL, output INTEGER NOT NULL, reasoning INTEGER NOT NULL,"
        " cost_micros INTEGER NOT NULL, request_id TEXT, turn_id TEXT, purpose TEXT,"
        " provider TEXT, model TEXT, price_version TEXT);"
        "CREATE UNIQUE INDEX ledger_request ON ledger(tenant, request_id)"
        " WHERE request_id IS NOT NULL;"
        "CREATE INDEX ledger_session ON ledger(session) WHERE session IS NOT NULL;"
        "CREATE INDEX ledger_time ON ledger(tenant, created_at);",

        /* The marks that a view needs, without their bodies, and the search index. */
        "CREATE INDEX mark_kind ON"
        " mark(session, kind, number, seq, through_seq, target, created_at);"
        "CREATE TABLE search("
        " block INTEGER NOT NULL, term BLOB NOT NULL, chunk BLOB NOT NULL,"
        " PRIMARY KEY (block, term)) WITHOUT ROWID;"
        "CREATE TABLE search_block(block INTEGER PRIMARY KEY, wide BLOB);"
        "CREATE TABLE search_state(id INTEGER PRIMARY KEY, erasures INTEGER NOT NULL);"
        "INSERT INTO search_state(id, erasures) VALUES (1, 0);",

        /* Records, and sums of the ledger that do not need all its rows. */
        "CREATE TABLE record("
        " id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, session INTEGER,"
        " version INTEGER NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,"
        " expires_at INTEGER, kind TEXT NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL);"
        "CREATE UNIQUE INDEX record_name ON record(tenant, kind, name);"
        "CREATE INDEX record_session ON record(session, kind, name) WHERE session IS NOT NULL;"
        "CREATE INDEX record_expiry ON record(expires_at) WHERE expires_at IS NOT NULL;"
        "ALTER TABLE ledger ADD COLUMN agent INTEGER;"
        "CREATE INDEX ledger_turn ON ledger(tenant, turn_id) WHERE turn_id IS NOT NULL;"
        "CREATE TABLE ledger_hour("
        " tenant INTEGER NOT NULL, agent INTEGER NOT NULL, hour INTEGER NOT NULL,"
        " calls INTEGER NOT NULL, input INTEGER NOT NULL, cache_read INTEGER NOT NULL,"
        " cache_write INTEGER NOT NULL, output INTEGER NOT NULL, reasoning INTEGER NOT NULL,"
        " cost_micros INTEGER NOT NULL, PRIMARY KEY (tenant, agent, hour)) WITHOUT ROWID;"
        "INSERT INTO ledger_hour SELECT tenant, 0, created_at / 3600000, count(*), sum(input),"
        " sum(cache_read), sum(cache_write), sum(output), sum(reasoning), sum(cost_micros)"
        " FROM ledger GROUP BY tenant, created_at / 3600000;",

        /* Every all-or-nothing turn has an item in the inbox. This takes one page instead of
         * three. */
        "DROP INDEX inbox_session;"
        "DROP INDEX inbox_client;"
        "ALTER TABLE inbox RENAME TO inbox_before;"
        "CREATE TABLE inbox("
        " session INTEGER NOT NULL, id INTEGER NOT NULL, uuid BLOB NOT NULL,"
        " created_at INTEGER NOT NULL, client_id TEXT, delivery TEXT, body TEXT NOT NULL,"
        " PRIMARY KEY (session, id)) WITHOUT ROWID;"
        "CREATE UNIQUE INDEX inbox_client ON inbox(session, client_id)"
        " WHERE client_id IS NOT NULL;"
        "INSERT INTO inbox(session, id, uuid, created_at, client_id, delivery, body)"
        " SELECT session, id, uuid, created_at, client_id, delivery, body FROM inbox_before;"
        "DROP TABLE inbox_before;",

        /* A message names its turn, and a lease stores its duration. */
        "ALTER TABLE message ADD COLUMN turn BLOB;"
        "ALTER TABLE lease ADD COLUMN ttl_ms INTEGER;",

        /* Ids are unique only within a tenant: another tenant may use the same id. The id of a
         * message is looked up before the message is written; its tenant is that of its session. */
        "CREATE TABLE session_next("
        " id INTEGER PRIMARY KEY, uuid BLOB NOT NULL, tenant INTEGER NOT NULL,"
        " expires_at INTEGER, deleted_at INTEGER, parent INTEGER,"
        " fork_seq INTEGER NOT NULL, fork_mark INTEGER NOT NULL, created_at INTEGER NOT NULL,"
        " is_routed INTEGER NOT NULL, parent_uuid BLOB, key TEXT, kept_key TEXT, title TEXT,"
        " aliases BLOB, alias_apart TEXT, scope TEXT, metadata TEXT, extra TEXT);"
        "INSERT INTO session_next SELECT id, uuid, tenant, expires_at, deleted_at, parent,"
        " fork_seq, fork_mark, created_at, is_routed, parent_uuid, key, kept_key, title,"
        " aliases, alias_apart, scope, metadata, extra FROM session;"
        "DROP TABLE session;"
        "ALTER TABLE session_next RENAME TO session;"
        "CREATE UNIQUE INDEX session_uuid ON session(tenant, uuid);"
        "CREATE UNIQUE INDEX session_key ON session(tenant, key) WHERE key IS NOT NULL;"
        "CREATE INDEX session_parent ON session(parent, fork_seq) WHERE parent IS NOT NULL;"
        "CREATE INDEX session_expiry ON session(expires_at) WHERE expires_at IS NOT NULL;"
        "CREATE INDEX session_trash ON session(deleted_at) WHERE deleted_at IS NOT NULL;"
        "DROP INDEX message_id;"
        "CREATE INDEX message_id ON message(id);",

        /* The totals of the store, the extent of the search index, and its summaries. */
        "CREATE TABLE counter("
        " id INTEGER PRIMARY KEY, active INTEGER NOT NULL, trash INTEGER NOT NULL,"
        " quarantined INTEGER NOT NULL, messages INTEGER NOT NULL, bytes INTEGER NOT NULL,"
        " blobs INTEGER NOT NULL, blob_bytes INTEGER NOT NULL, tenants INTEGER NOT NULL);"
        "INSERT INTO counter SELECT 1, (SELECT count(*) FROM head WHERE state = 1),"
        " (SELECT count(*) FROM head WHERE state = 2),"
        " (SELECT count(*) FROM head WHERE state = 3), (SELECT count(*) FROM message),"
        " (SELECT ifnull(sum(bytes), 0) FROM head), (SELECT count(*) FROM blob),"
        " (SELECT ifnull(sum(size), 0) FROM blob),"
        " (SELECT count(*) FROM tenant WHERE name >= ' ');"
        "ALTER TABLE search_state ADD COLUMN blocks INTEGER NOT NULL DEFAULT 0;"
        "ALTER TABLE search_state ADD COLUMN groups_1 INTEGER NOT NULL DEFAULT 0;"
        "ALTER TABLE search_state ADD COLUMN groups_2 INTEGER NOT NULL DEFAULT 0;"
        "CREATE TABLE search_group(block INTEGER PRIMARY KEY);",
};

enum { SCHEMA_VERSION = sizeof(steps) / sizeof(steps[0]) };

/* ---- The file before SQLite opens it ---- */

enum { HEADER_SIZE = 100 };

static uint32_t big_endian(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static off_t size_of(const char *path, const char *suffix)
{
    char name[4096];
    struct stat info;

    snprintf(name, sizeof(name), "%s%s", path, suffix);
    return stat(name, &info) == 0 ? info.st_size : 0;
}

static pal_status check_header(
        const char *path, const unsigned char *header, off_t size, pal_error *err)
{
    uint32_t page_size = (uint32_t)header[16] << 8 | header[17];
    uint64_t pages = big_endian(header + 28);
    uint32_t version = big_endian(header + 60);

    if (memcmp(header, "SQLite format 3", 16) != 0)
        return pal_error_set(err, PAL_INVALID, "'%.160s' is not a palaver store", path);
    /* A schema cookie of 0 means that no table was ever created, as after an interrupted
     * creation. */
    if (big_endian(header + 68) != PAL_SQLITE_APPLICATION_ID && big_endian(header + 40) != 0)
        return pal_error_set(err, PAL_INVALID,
                "'%.120s' is an SQLite database of another program, not a palaver store", path);
    if (version > SCHEMA_VERSION)
        return pal_error_set(err, PAL_INVALID,
                "'%.120s' has schema version %u, but this palaver supports version %d; use a newer "
                "palaver",
                path, version, SCHEMA_VERSION);
    if (page_size == 1)
        page_size = 65536;
    /* If the WAL contains frames, the file can validly be shorter than its header says. */
    if (pages * page_size > (uint64_t)size && size_of(path, "-wal") == 0)
        return pal_error_set(err, PAL_CORRUPT,
                "'%.100s' is truncated to %lld of %llu bytes; restore it from a backup",
                path, (long long)size, (unsigned long long)(pages * page_size));
    return PAL_OK;
}

/* WAL needs memory that all processes share, and these file systems do not provide it. */
static pal_status check_file_system(const char *path, pal_error *err)
{
    static const struct {
        unsigned long magic;
        const char *name;
    } unsafe[] = {
            {0x6969, "NFS"},
            {0x517b, "SMB"},
            {0xff534d42, "CIFS"},
            {0xfe534d42, "SMB2"},
            {0x01021997, "9p"},
            {0x5346414f, "AFS"},
            {0x00c36400, "Ceph"},
            {0x65735546, "FUSE"},
    };
    char directory[4096];
    struct statfs info;
    char *slash;

    snprintf(directory, sizeof(directory), "%s", path);
    slash = strrchr(directory, '/');
    if (slash)
        slash[slash == directory] = 0;
    if (statfs(slash ? directory : ".", &info) != 0)
        return PAL_OK; /* opening the file reports the problem */
    for (size_t i = 0; i < sizeof(unsafe) / sizeof(unsafe[0]); i++)
        if ((unsigned long)info.f_type == unsafe[i].magic)
            return pal_error_set(err, PAL_DENIED,
                    "'%.100s' is on %s, where SQLite can lose data; use a local disk", path,
                    unsafe[i].name);
    return PAL_OK;
}

pal_status pal_sqlite_open_error(const char *path, pal_error *err)
{
    bool is_denied = errno == EACCES || errno == EPERM || errno == EROFS;

    return pal_error_set(err, is_denied ? PAL_DENIED : PAL_IO,
            "could not open '%.160s': %s", path, strerror(errno));
}

static pal_status check_existing(const char *path, int fd, pal_error *err)
{
    unsigned char header[HEADER_SIZE] = {0};
    struct stat info;

    if (fstat(fd, &info) != 0)
        return pal_sqlite_open_error(path, err);
    if (!S_ISREG(info.st_mode))
        return pal_error_set(err, PAL_INVALID, "'%.160s' is not a file", path);
    if (info.st_size == 0)
        return PAL_OK;
    if (pread(fd, header, sizeof(header), 0) < 0)
        return pal_sqlite_open_error(path, err);
    return check_header(path, header, info.st_size, err);
}

/* If a file is being created, or its creation was interrupted, it has a journal and can have any
 * contents. SQLite restores a consistent state, and pal_sqlite_migrate() checks the result. The
 * second check covers a creation that finished between the first check and the look for its
 * journal. */
static pal_status check_settled(const char *path, int fd, pal_error *err)
{
    pal_status status = check_existing(path, fd, err);

    if (status != PAL_OK && size_of(path, "-journal") > 0)
        return PAL_OK;
    return status == PAL_OK ? PAL_OK : check_existing(path, fd, err);
}

pal_status pal_sqlite_file_check(const char *path, const pal_store_options *options, pal_error *err)
{
    pal_status status = PAL_OK;
    int fd;

    if (!options->network_fs)
        status = check_file_system(path, err);
    if (status != PAL_OK)
        return status;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && !options->read_only)
        return pal_sqlite_file_create(path, err);
    if (fd < 0 && errno == ENOENT)
        return pal_error_set(err, PAL_NOT_FOUND, "store '%.160s' does not exist", path);
    if (fd < 0)
        return pal_sqlite_open_error(path, err);
    status = check_settled(path, fd, err);
    close(fd);
    return status;
}

/* ---- The tables ---- */

static pal_status read_number(pal_sql_conn *conn, const char *text, int *out_number, pal_error *err)
{
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(conn->db, text, -1, &stmt, NULL);

    if (code == SQLITE_OK)
        code = sqlite3_step(stmt);
    if (code == SQLITE_ROW)
        *out_number = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    return code == SQLITE_ROW ? PAL_OK : pal_sql_failed(conn, code, err);
}

static pal_status read_version(pal_sql_conn *conn, int *out_version, pal_error *err)
{
    return read_number(conn, "PRAGMA user_version", out_version, err);
}

static pal_status check_empty(pal_sql_conn *conn, pal_error *err)
{
    int tables = 0;
    pal_status status = read_number(conn, "SELECT count(*) FROM sqlite_schema", &tables, err);

    if (status == PAL_OK && tables > 0)
        status = pal_error_set(err, PAL_INVALID,
                "'%.120s' is an SQLite database of another program, not a palaver store",
                conn->path);
    return status;
}

/* Runs inside a transaction, so that only one of two processes makes the step. */
static pal_status take_steps(pal_sql_conn *conn, pal_error *err)
{
    char pragma[96];
    int version = 0;
    pal_status status = read_version(conn, &version, err);

    if (status == PAL_OK && version == 0)
        status = check_empty(conn, err);
    if (status == PAL_OK && version > SCHEMA_VERSION)
        status = pal_error_set(err, PAL_INVALID,
                "'%.120s' has schema version %d, but this palaver supports version %d; use a newer "
                "palaver",
                conn->path, version, SCHEMA_VERSION);
    for (int i = status == PAL_OK ? version : SCHEMA_VERSION; i < SCHEMA_VERSION; i++) {
        status = pal_sql_exec(conn, steps[i], err);
        if (status != PAL_OK)
            return status;
    }
    if (status != PAL_OK || version == SCHEMA_VERSION)
        return status;
    snprintf(pragma, sizeof(pragma), "PRAGMA application_id = %d; PRAGMA user_version = %d",
            PAL_SQLITE_APPLICATION_ID, SCHEMA_VERSION);
    return pal_sql_exec(conn, pragma, err);
}

pal_status pal_sqlite_migrate(
        pal_sql_conn *conn, bool read_only, int *out_version, pal_error *err)
{
    int version = 0;
    pal_status status = read_version(conn, &version, err);

    *out_version = version;
    if (status != PAL_OK || version == SCHEMA_VERSION)
        return status;
    if (read_only && version > 0 && version < SCHEMA_VERSION)
        return PAL_OK;
    /* SQLite applies this only while there is no table, and not inside a transaction. */
    status = pal_sql_exec(conn, "PRAGMA auto_vacuum = INCREMENTAL; BEGIN IMMEDIATE", err);
    if (status != PAL_OK)
        return status;
    status = take_steps(conn, err);
    if (status == PAL_OK)
        status = pal_sql_exec(conn, "COMMIT", err);
    if (status != PAL_OK && !sqlite3_get_autocommit(conn->db))
        sqlite3_exec(conn->db, "ROLLBACK", NULL, NULL, NULL);
    if (status == PAL_OK)
        *out_version = SCHEMA_VERSION;
    return status;
}

pal_status pal_sqlite_schema_read(
        pal_engine *engine, pal_arena *arena, pal_store_schema *out_schema, pal_error *err)
{
    pal_sqlite *self = (pal_sqlite *)engine;
    int version = 0;
    pal_sql_conn *conn;
    pal_status status = pal_sqlite_reader_take(self, PAL_READ_SHORT, &conn, err);

    (void)arena;
    if (status != PAL_OK)
        return status;
    status = read_version(conn, &version, err);
    pal_sqlite_reader_give(self, conn);
    if (status == PAL_OK)
        *out_schema = (pal_store_schema){.version = (uint32_t)version,
                .newest = SCHEMA_VERSION,
                .oldest_reader = (uint32_t)version,
                .oldest_writer = (uint32_t)version};
    return status;
}
