/* postgres_schema.c - the tables, and their version.
 *
 * Every key begins with the tenant, so that a tenant can be moved to another database, and no
 * statement needs rows of two tenants. There are no functions, triggers, foreign keys or serial
 * keys.
 *
 * The row of the table meta says which programs can use the schema. A program opens a schema of a
 * newer version if its own version is at least `oldest_writer`, or `oldest_reader` to read only.
 * The schema is created in one transaction, with meta as its last statement, so a crash leaves
 * nothing. If two processes create it at the same time, one of them fails with 42P06, 42P07 or
 * 23505 and then finds the schema of the other. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "store/postgres/postgres.h"

#define CREATE_TRIES_MAX 50
#define CREATE_PAUSE_MS 100

/* "@" stands for the schema. `minute` instead of `updated_at` in the indexes of head: an index on a
 * column that every append changes would make every update of a head write to all indexes. */
static const char *const tables[] = {
        "BEGIN; CREATE SCHEMA %S;",
        "CREATE TABLE @tenant (tenant int8 PRIMARY KEY, name text COLLATE \"C\" NOT NULL UNIQUE);",
        "CREATE TABLE @node (slot int4 PRIMARY KEY, id uuid NOT NULL, started_at int8 NOT NULL,"
        " seen_at int8 NOT NULL, batch int8 NOT NULL, checks int8 NOT NULL)"
        " WITH (fillfactor = 10);",
        /* The values that change with every append, and the lock of the session. */
        "CREATE TABLE @head (tenant int8 NOT NULL, session uuid NOT NULL, last_seq int8 NOT NULL,"
        " mark_number int8 NOT NULL, tokens int8 NOT NULL, bytes int8 NOT NULL,"
        " updated_at int8 NOT NULL, expires_at int8, batch int8 NOT NULL, fence int8 NOT NULL,"
        " lease_until int8 NOT NULL, lease_ttl int8 NOT NULL, minute int4 NOT NULL,"
        " state int2 NOT NULL, owner text COLLATE \"C\", project text COLLATE \"C\","
        " agent text COLLATE \"C\", PRIMARY KEY (tenant, session))"
        " WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02,"
        " autovacuum_vacuum_cost_delay = 0);",
        "CREATE INDEX head_recent ON @head(tenant, state, minute);",
        "CREATE INDEX head_project ON @head(tenant, state, project, minute)"
        " WHERE project IS NOT NULL;",
        "CREATE INDEX head_agent ON @head(tenant, state, agent, minute) WHERE agent IS NOT NULL;",
        "CREATE INDEX head_expiry ON @head(expires_at) WHERE expires_at IS NOT NULL;",
        "CREATE TABLE @session (tenant int8 NOT NULL, session uuid NOT NULL,"
        " created_at int8 NOT NULL, deleted_at int8, parent uuid, fork_seq int8 NOT NULL,"
        " fork_mark int8 NOT NULL, is_routed bool NOT NULL, key text COLLATE \"C\","
        " kept_key text COLLATE \"C\", title text COLLATE \"C\", aliases bytea,"
        " alias_apart text COLLATE \"C\", scope text COLLATE \"C\", metadata text COLLATE \"C\","
        " extra text COLLATE \"C\", PRIMARY KEY (tenant, session));",
        "CREATE UNIQUE INDEX session_key ON @session(tenant, key) WHERE key IS NOT NULL;",
        "CREATE INDEX session_parent ON @session(tenant, parent, fork_seq)"
        " WHERE parent IS NOT NULL;",
        "CREATE INDEX session_trash ON @session(deleted_at) WHERE deleted_at IS NOT NULL;",
        "CREATE TABLE @alias (tenant int8 NOT NULL, alias text COLLATE \"C\" NOT NULL,"
        " session uuid NOT NULL, PRIMARY KEY (tenant, alias));",
        "CREATE INDEX alias_session ON @alias(tenant, session);",
        "CREATE SEQUENCE @message_pos AS int8;",
        "CREATE TABLE @message (tenant int8 NOT NULL, seq int8 NOT NULL, pos int8 NOT NULL,"
        " created_at int8 NOT NULL, session uuid NOT NULL, id uuid NOT NULL, turn uuid,"
        " tokens int8 NOT NULL, flags int8 NOT NULL, role int2 NOT NULL, is_text bool NOT NULL,"
        " client_id text COLLATE \"C\", body bytea COMPRESSION lz4 NOT NULL,"
        " PRIMARY KEY (tenant, session, seq))"
        " WITH (toast_tuple_target = 4080, autovacuum_vacuum_insert_scale_factor = 0.05);",
        "CREATE UNIQUE INDEX message_id ON @message(tenant, id);",
        "CREATE UNIQUE INDEX message_client ON @message(tenant, session, client_id)"
        " WHERE client_id IS NOT NULL;",
        "CREATE INDEX message_arrival ON @message(tenant, pos);",
        /* A body lies apart from its row, so that a list without bodies is short. */
        "CREATE TABLE @mark (tenant int8 NOT NULL, session uuid NOT NULL, number int8 NOT NULL,"
        " seq int8 NOT NULL, through_seq int8 NOT NULL, target int8 NOT NULL,"
        " created_at int8 NOT NULL, kind int2 NOT NULL, is_hiding bool NOT NULL,"
        " body bytea COMPRESSION lz4, PRIMARY KEY (tenant, session, number))"
        " WITH (toast_tuple_target = 256);",
        "CREATE TABLE @blob (tenant int8 NOT NULL, hash bytea NOT NULL, size int8 NOT NULL,"
        " created_at int8 NOT NULL, media_type text COLLATE \"C\", PRIMARY KEY (tenant, hash));",
        "CREATE INDEX blob_created ON @blob(created_at);",
        "CREATE TABLE @blob_part (tenant int8 NOT NULL, hash bytea NOT NULL, part int4 NOT NULL,"
        " data bytea NOT NULL, PRIMARY KEY (tenant, hash, part));",
        "ALTER TABLE @blob_part ALTER data SET STORAGE EXTERNAL;",
        "CREATE TABLE @blob_ref (tenant int8 NOT NULL, hash bytea NOT NULL, session uuid NOT NULL,"
        " seq int8 NOT NULL, PRIMARY KEY (tenant, hash, session, seq));",
        "CREATE INDEX blob_ref_session ON @blob_ref(tenant, session, seq);",
        "CREATE TABLE @inbox (tenant int8 NOT NULL, session uuid NOT NULL, number int8 NOT NULL,"
        " item uuid NOT NULL, created_at int8 NOT NULL, client_id text COLLATE \"C\","
        " delivery text COLLATE \"C\", body bytea COMPRESSION lz4 NOT NULL,"
        " PRIMARY KEY (tenant, session, number))"
        " WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);",
        "CREATE UNIQUE INDEX inbox_client ON @inbox(tenant, session, client_id)"
        " WHERE client_id IS NOT NULL;",
        "CREATE TABLE @ledger (tenant int8 NOT NULL, id uuid NOT NULL, session uuid,"
        " created_at int8 NOT NULL, input int8 NOT NULL, cache_read int8 NOT NULL,"
        " cache_write int8 NOT NULL, output int8 NOT NULL, reasoning int8 NOT NULL,"
        " cost_micros int8 NOT NULL, agent text COLLATE \"C\", request_id text COLLATE \"C\","
        " turn_id text COLLATE \"C\", purpose text COLLATE \"C\", provider text COLLATE \"C\","
        " model text COLLATE \"C\", price_version text COLLATE \"C\", PRIMARY KEY (tenant, id));",
        "CREATE UNIQUE INDEX ledger_request ON @ledger(tenant, request_id)"
        " WHERE request_id IS NOT NULL;",
        "CREATE INDEX ledger_session ON @ledger(tenant, session) WHERE session IS NOT NULL;",
        "CREATE INDEX ledger_turn ON @ledger(tenant, turn_id) WHERE turn_id IS NOT NULL;",
        "CREATE INDEX ledger_time ON @ledger(tenant, created_at);",
        /* The slot is in the key, so that no two processes write the same row. */
        "CREATE TABLE @ledger_hour (tenant int8 NOT NULL, agent text COLLATE \"C\" NOT NULL,"
        " hour int8 NOT NULL, slot int4 NOT NULL, calls int8 NOT NULL, input int8 NOT NULL,"
        " cache_read int8 NOT NULL, cache_write int8 NOT NULL, output int8 NOT NULL,"
        " reasoning int8 NOT NULL, cost_micros int8 NOT NULL,"
        " PRIMARY KEY (tenant, agent, hour, slot)) WITH (fillfactor = 50);",
        "CREATE TABLE @record (tenant int8 NOT NULL, kind text COLLATE \"C\" NOT NULL,"
        " name text COLLATE \"C\" NOT NULL, session uuid, version int8 NOT NULL,"
        " created_at int8 NOT NULL, updated_at int8 NOT NULL, expires_at int8,"
        " body bytea COMPRESSION lz4 NOT NULL, PRIMARY KEY (tenant, kind, name));",
        "CREATE INDEX record_session ON @record(tenant, session, kind, name)"
        " WHERE session IS NOT NULL;",
        "CREATE INDEX record_expiry ON @record(expires_at) WHERE expires_at IS NOT NULL;",
#define TABLE(text) text,
        PAL_POSTGRES_TABLES_2(TABLE)
#undef TABLE
        "CREATE TABLE @meta (one bool PRIMARY KEY DEFAULT true CHECK (one), version int4 NOT NULL,"
        " oldest_reader int4 NOT NULL, oldest_writer int4 NOT NULL, store uuid NOT NULL);",
        "INSERT INTO @meta VALUES (true, 2, 1, 1, gen_random_uuid());",
        "COMMIT",
};

void pal_postgres_text_put(const pal_postgres *store, const char *text, pal_buf *out)
{
    for (; *text; text++) {
        if (*text == '@') {
            pal_buf_append_text(out, store->schema);
            pal_buf_append_char(out, '.');
        } else if (text[0] == '%' && text[1] == 'S') {
            pal_buf_append_text(out, store->schema);
            text++;
        } else {
            pal_buf_append_char(out, *text);
        }
    }
}

pal_status pal_postgres_texts_write(pal_postgres *store, pal_error *err)
{
    static const char *const texts[] = {
#define TEXT(name, text) text,
            PAL_POSTGRES_STATEMENTS(TEXT)
#undef TEXT
    };

    for (size_t i = 0; i < PAL_POSTGRES_COUNT; i++) {
        pal_buf text;

        pal_buf_init(&text, 1u << 20);
        pal_postgres_text_put(store, texts[i], &text);
        pal_buf_append_char(&text, 0);
        if (text.failure) {
            pal_buf_done(&text);
            return pal_no_memory(err);
        }
        store->texts[i] = text.data;
    }
    return PAL_OK;
}

/* Runs one statement outside the pipeline mode. The caller frees *out_result. */
static pal_status ask(pal_postgres *store, const char *sql, PGresult **out_result, char out_code[6],
        pal_error *err)
{
    PGconn *pg = store->writer.pg;
    PGresult *result = NULL;
    pal_status status = PAL_OK;
    pal_buf text;

    pal_buf_init(&text, 4096);
    pal_postgres_text_put(store, sql, &text);
    pal_buf_append_char(&text, 0);
    if (text.failure)
        return pal_no_memory(err);
    if (PQexitPipelineMode(pg) && PQsetnonblocking(pg, 0) == 0)
        result = PQexecParams(pg, text.data, 0, NULL, NULL, NULL, NULL, 1);
    pal_buf_done(&text);
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        const char *why = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

        snprintf(out_code, 6, "%.5s", code ? code : "08006");
        status = pal_postgres_error(
                store, out_code, why ? why : PQerrorMessage(pg), err);
        PQclear(result);
        result = NULL;
    }
    if (PQsetnonblocking(pg, 1) != 0 || !PQenterPipelineMode(pg))
        pal_postgres_disconnect(&store->writer);
    *out_result = result;
    return status;
}

pal_status pal_postgres_meta_read(
        pal_postgres *store, pal_store_schema *out_schema, pal_error *err)
{
    PGresult *result = NULL;
    char code[6] = "";
    pal_status status = ask(store, "SELECT version, oldest_reader, oldest_writer FROM @meta",
            &result, code, err);

    if (strcmp(code, "42P01") == 0 || strcmp(code, "3F000") == 0)
        return PAL_NOT_FOUND;
    if (status != PAL_OK)
        return status;
    if (PQntuples(result) == 1)
        *out_schema = (pal_store_schema){.version = (uint32_t)pal_postgres_int(result, 0, 0),
                .newest = PAL_POSTGRES_VERSION,
                .oldest_reader = (uint32_t)pal_postgres_int(result, 0, 1),
                .oldest_writer = (uint32_t)pal_postgres_int(result, 0, 2)};
    else
        status = pal_error_set(err, PAL_CORRUPT, "%s: the table 'meta' of the schema '%s' is empty",
                store->place, store->schema);
    PQclear(result);
    return status;
}

/* ---- Indexes ---- */

/* Reads the name of the index that a text of `tables` creates. */
static bool index_of(const char *text, char out_name[PAL_POSTGRES_SCHEMA_SIZE])
{
    return sscanf(text, "CREATE INDEX %63[a-z_]", out_name) == 1 ||
            sscanf(text, "CREATE UNIQUE INDEX %63[a-z_]", out_name) == 1;
}

static pal_status check_index(pal_postgres *store, const PGresult *found, const char *name,
        const char *text, pal_error *err)
{
    pal_buf remedy;
    int row = 0;

    while (row < PQntuples(found) &&
            !pal_str_equal(pal_postgres_str(found, row, 0), pal_str_of(name)))
        row++;
    if (row == PQntuples(found)) {
        pal_buf_init(&remedy, 4096);
        pal_postgres_text_put(store, text, &remedy);
        pal_error_set(err, PAL_CORRUPT, "the index '%s' is missing; run %.*s", name,
                PAL_EXCERPT(pal_buf_str(&remedy), 200));
        pal_buf_done(&remedy);
        return PAL_CORRUPT;
    }
    if (pal_postgres_int(found, row, 1) == 0)
        return pal_error_set(err, PAL_CORRUPT, "the index '%s' is invalid; run REINDEX INDEX"
                " CONCURRENTLY %s.%s", name, store->schema, name);
    return PAL_OK;
}

/* Fails if one of the indexes of `tables` cannot be used. Without it statements read whole tables,
 * or two sessions can get the same key. */
static pal_status check_indexes(pal_postgres *store, pal_error *err)
{
    char name[PAL_POSTGRES_SCHEMA_SIZE], code[6];
    PGresult *found = NULL;
    pal_status status = ask(store,
            "SELECT c.relname::text, i.indisvalid::int FROM pg_index i"
            " JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = '%S'", &found, code, err);

    for (size_t i = 0; status == PAL_OK && i < sizeof tables / sizeof tables[0]; i++)
        if (index_of(tables[i], name))
            status = check_index(store, found, name, tables[i], err);
    PQclear(found);
    return status;
}

/* A newer schema can be used if it allows this program. An older one must be upgraded first. */
static pal_status check_version(pal_postgres *store, const pal_store_schema *schema, pal_error *err)
{
    uint32_t oldest = store->options.read_only ? schema->oldest_reader : schema->oldest_writer;

    if (oldest > PAL_POSTGRES_VERSION)
        return pal_error_set(err, PAL_INVALID,
                "%s: the schema '%s' has version %u, and this program knows up to %d; install a"
                " newer palaver", store->place, store->schema, (unsigned)schema->version,
                PAL_POSTGRES_VERSION);
    if (schema->version >= PAL_POSTGRES_VERSION)
        return PAL_OK;
    if (store->options.upgrade != 0 && !store->options.read_only)
        return pal_postgres_upgrade(store, err);
    return pal_error_set(err, PAL_INVALID,
            "%s: the schema '%s' has version %u, and this program needs %d; run 'palaver store"
            " migrate'", store->place, store->schema, (unsigned)schema->version,
            PAL_POSTGRES_VERSION);
}

static pal_status create(pal_postgres *store, char out_code[6], pal_error *err)
{
    pal_buf text;
    char ignored[6];
    pal_status status;

    pal_buf_init(&text, 1u << 20);
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        pal_postgres_text_put(store, tables[i], &text);
    pal_buf_append_char(&text, 0);
    if (text.failure) {
        pal_buf_done(&text);
        return pal_no_memory(err);
    }
    status = pal_postgres_exec(&store->writer, text.data, out_code, err);
    if (status != PAL_OK && store->writer.pg)
        (void)!pal_postgres_exec(&store->writer, "ROLLBACK", ignored, NULL);
    pal_buf_done(&text);
    return status;
}

static bool is_race(const char *code)
{
    return strcmp(code, "42P06") == 0 || strcmp(code, "42P07") == 0 || strcmp(code, "23505") == 0;
}

pal_status pal_postgres_schema_open(pal_postgres *store, pal_error *err)
{
    pal_store_schema schema;

    for (int i = 0; i < CREATE_TRIES_MAX; i++) {
        char code[6] = "";
        pal_status status = pal_postgres_meta_read(store, &schema, err);

        if (status == PAL_OK)
            return check_version(store, &schema, err);
        if (status != PAL_NOT_FOUND)
            return status;
        if (store->options.read_only)
            return pal_error_set(err, PAL_NOT_FOUND, "%s: there is no store in the schema '%s'",
                    store->place, store->schema);
        status = create(store, code, err);
        if (status != PAL_OK && !is_race(code))
            return status;
        if (status != PAL_OK)
            poll(NULL, 0, CREATE_PAUSE_MS);
    }
    return pal_error_set(err, PAL_CORRUPT,
            "%s: the schema '%s' exists, but has no table 'meta'; choose another with"
            " '?schema='", store->place, store->schema);
}

static pal_str write_settings(pal_postgres *store, bool only_missing, pal_arena *arena)
{
    pal_str copy;
    pal_buf text;

    pal_buf_init(&text, 1u << 20);
    pal_postgres_settings_write(store, only_missing, &text);
    copy = pal_arena_copy(arena, pal_buf_str(&text));
    pal_buf_done(&text);
    return copy;
}

pal_status pal_postgres_schema_read(
        pal_engine *engine, pal_arena *arena, pal_store_schema *out_schema, pal_error *err)
{
    pal_postgres *store = (pal_postgres *)engine;
    pal_status status = pal_postgres_connect(&store->writer, NULL, err);
    pal_store_schema schema;

    if (status == PAL_OK)
        status = pal_postgres_meta_read(store, &schema, err);
    if (status == PAL_NOT_FOUND)
        return pal_error_set(err, PAL_CORRUPT, "%s: the table 'meta' is missing", store->place);
    if (status == PAL_OK)
        status = check_indexes(store, err);
    if (status != PAL_OK)
        return status;
    schema.settings = write_settings(store, false, arena);
    if (!store->prepares) /* a pooler is in between */
        schema.settings_missing = write_settings(store, true, arena);
    status = pal_arena_checked(arena, err);
    if (status == PAL_OK)
        *out_schema = schema;
    return status;
}
