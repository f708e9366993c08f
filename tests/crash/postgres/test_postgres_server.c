/* test_postgres_server.c - settings and failures of a PostgreSQL server that endanger what a
 * store promises. */
#include <string.h>
#include <unistd.h>
#include "postgres_ask.h"
#include "postgres_proxy.h"
#include "palaver/palaver.h"
#include "support/scratch.h"
#include "support/tap.h"

#define WAIT_TRIES_MAX 100
#define WAIT_PAUSE_US 100000

static pal_store *open_store(const char *parameters, pal_error *err)
{
    pal_store *store = NULL;
    char url[512];

    *err = (pal_error){0};
    snprintf(url, sizeof url, "%s%s", getenv("PALAVER_TEST_POSTGRES"), parameters);
    if (pal_store_open(url, NULL, &store, err) != PAL_OK)
        printf("# %s\n", err->message);
    return store;
}

static bool append_one(pal_store *store, pal_id session)
{
    pal_part part = {.kind = PAL_PART_TEXT, .text = pal_str_of("hello")};
    pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};
    pal_error err = {0};

    return CHECK_EQ(
            pal_store_append(store, (pal_str){0}, session, &message, 1, PAL_SEQ_ANY, &err), PAL_OK);
}

static size_t count_messages(pal_store *store, pal_id session)
{
    pal_arena *arena = pal_arena_new(0);
    pal_message_query query = {.limit = 0};
    pal_message_page page = {0};
    pal_error err = {0};

    CHECK_EQ(pal_store_load(store, (pal_str){0}, session, &query, arena, &page, &err), PAL_OK);
    pal_arena_free(arena);
    return page.len;
}

/* ---- synchronous_commit ---- */

/* A trigger notes the value with which each message is written. */
static void note_values(void)
{
    postgres_ask("CREATE TABLE public.noted (value text)");
    postgres_ask("CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN"
                 " INSERT INTO public.noted VALUES (current_setting(''synchronous_commit''));"
                 " RETURN NULL; END'");
    postgres_ask("CREATE TRIGGER note AFTER INSERT ON palaver.message"
                 " EXECUTE FUNCTION public.note()");
}

/* Appends with the value as the default of the database, then of the role. */
static void check_value(const char *given, const char *effective)
{
    static const char *const targets[] = {"DATABASE palaver", "ROLE postgres"};
    pal_session wanted = {0};
    char statement[200];

    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        pal_error err;
        pal_store *store;
        pal_id session;

        snprintf(statement, sizeof statement, "ALTER %s SET synchronous_commit = %s", targets[i],
                given);
        postgres_ask(statement);
        postgres_ask("TRUNCATE public.noted");
        store = open_store("", &err);
        if (CHECK(store) &&
                CHECK_EQ(pal_store_create(store, &wanted, &session, &err), PAL_OK) &&
                append_one(store, session)) {
            snprintf(statement, sizeof statement,
                    "SELECT count(*) FROM public.noted WHERE value = '%s'", effective);
            CHECK_EQ(postgres_ask(statement), 1);
            CHECK_EQ(postgres_ask("SELECT count(*) FROM public.noted"), 1);
        }
        pal_store_close(store);
        snprintf(statement, sizeof statement, "ALTER %s RESET synchronous_commit", targets[i]);
        postgres_ask(statement);
    }
}

static void a_commit_waits_for_the_disk_whatever_the_server_says(void)
{
    check_value("off", "on");
    check_value("local", "on");
    check_value("remote_write", "on");
}

static void a_stronger_value_is_kept(void)
{
    check_value("on", "on");
    check_value("remote_apply", "remote_apply");
}

static void a_change_of_the_server_reaches_no_open_store(void)
{
    pal_session wanted = {0};
    pal_error err;
    pal_store *store = open_store("", &err);
    pal_id session;

    postgres_ask("TRUNCATE public.noted");
    if (CHECK(store) && CHECK_EQ(pal_store_create(store, &wanted, &session, &err), PAL_OK)) {
        postgres_ask("ALTER SYSTEM SET synchronous_commit = off");
        postgres_ask("SELECT pg_reload_conf()");
        for (int i = 0; i < WAIT_TRIES_MAX &&
                postgres_ask("SELECT 1 WHERE current_setting('synchronous_commit') = 'off'") != 1;
                i++)
            usleep(WAIT_PAUSE_US);
        append_one(store, session);
        CHECK_EQ(postgres_ask("SELECT count(*) FROM public.noted WHERE value = 'on'"), 1);
    }
    pal_store_close(store);
    postgres_ask("ALTER SYSTEM RESET synchronous_commit");
    postgres_ask("SELECT pg_reload_conf()");
}

/* Through a pooler, a session cannot get a value. */
static void without_sessions_a_weak_value_is_refused(void)
{
    pal_error err;
    pal_store *store;

    postgres_ask("ALTER DATABASE palaver SET synchronous_commit = off");
    store = open_store("&prepare=no", &err);
    CHECK(!store);
    CHECK_EQ(err.status, PAL_INVALID);
    CHECK(strstr(err.message, "ALTER ROLE") != NULL);
    pal_store_close(store);
    postgres_ask("ALTER DATABASE palaver RESET synchronous_commit");
    store = open_store("&prepare=no", &err);
    CHECK(store);
    pal_store_close(store);
}

/* ---- Readers ---- */

/* Breaks the idle connection of the writer. Its last statement was not a SELECT. */
static void break_writer(void)
{
    CHECK_EQ(postgres_ask("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                          " WHERE application_name = 'palaver' AND query NOT LIKE 'SELECT%'"), 1);
}

static void readers_leave_a_server_that_the_writer_lost(void)
{
    pal_session wanted = {0};
    char statement[200];
    pal_error err;
    pal_store *store = open_store("", &err);
    pal_id session;
    long reader;

    if (!CHECK(store) || !CHECK_EQ(pal_store_create(store, &wanted, &session, &err), PAL_OK))
        return;
    append_one(store, session);
    CHECK_EQ(count_messages(store, session), 1);
    reader = postgres_ask("SELECT pid FROM pg_stat_activity WHERE application_name = 'palaver'"
                          " AND query LIKE 'SELECT%'");
    CHECK_THAT(reader, >, 1);
    break_writer();
    append_one(store, session);
    CHECK_EQ(count_messages(store, session), 2);
    snprintf(statement, sizeof statement, "SELECT count(*) FROM pg_stat_activity WHERE pid = %ld",
            reader);
    for (int i = 0; i < WAIT_TRIES_MAX && postgres_ask(statement) != 0; i++)
        usleep(WAIT_PAUSE_US);
    CHECK_EQ(postgres_ask(statement), 0);
    pal_store_close(store);
}

/* ---- A database that went back ---- */

static void write_after_a_break(pal_store *store, pal_id session)
{
    break_writer();
    append_one(store, session);
}

static void a_database_that_went_back_is_noticed_once(void)
{
    pal_session wanted = {0};
    pal_error err;
    pal_store *store = open_store("", &err);
    pal_id session;

    if (!CHECK(store) || !CHECK_EQ(pal_store_create(store, &wanted, &session, &err), PAL_OK))
        return;
    append_one(store, session);
    write_after_a_break(store, session);
    CHECK_EQ(pal_store_went_back(store), 0);
    /* The state before the last batch, as after a failover to a replica that lacked it. */
    CHECK_EQ(postgres_ask("WITH old AS (UPDATE palaver.node SET batch = batch - 1 WHERE seen_at > 0"
                          " RETURNING 1) SELECT count(*) FROM old"), 1);
    postgres_ask("DELETE FROM palaver.tenant");
    write_after_a_break(store, session);
    CHECK_EQ(pal_store_went_back(store), 1);
    CHECK_EQ(postgres_ask("SELECT count(*) FROM palaver.tenant"), 1);
    write_after_a_break(store, session);
    CHECK_EQ(pal_store_went_back(store), 1);
    /* The state before this process came. */
    postgres_ask("DELETE FROM palaver.node");
    write_after_a_break(store, session);
    CHECK_EQ(pal_store_went_back(store), 2);
    CHECK_EQ(count_messages(store, session), 5);
    pal_store_close(store);
}

/* ---- Groups with an erasure ---- */

static bool exists(pal_store *store, const char *key)
{
    pal_arena *arena = pal_arena_new(0);
    pal_session session = {0};
    pal_status status = pal_store_find(store, (pal_str){0}, PAL_SESSION_BY_KEY, pal_str_of(key),
            arena, &session, NULL);

    pal_arena_free(arena);
    return status == PAL_OK;
}

/* Sends: append to `kept`, erase `erased`, put a record, all joined. */
static void apply_group(pal_store *store, pal_id kept, pal_id erased, pal_op out_ops[3])
{
    static pal_erase_result erasure;
    static pal_part part;
    static pal_message message;
    static pal_record record;

    part = (pal_part){.kind = PAL_PART_TEXT, .text = pal_str_of("hello")};
    message = (pal_message){.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};
    record = (pal_record){
            .kind = pal_str_of("test"), .name = pal_str_of("r"), .body = pal_str_of("{}")};
    out_ops[0] = pal_op_append((pal_str){0}, kept, &message, 1, PAL_SEQ_ANY);
    out_ops[1] = pal_op_erase((pal_str){0}, erased, &erasure);
    out_ops[2] = pal_op_record_put((pal_str){0}, &record, PAL_RECORD_VERSION_ANY);
    out_ops[1].with_previous = out_ops[2].with_previous = true;
    CHECK_EQ(pal_store_apply(store, out_ops, 3, NULL), PAL_OK);
}

static void a_group_with_an_erasure_is_one_transaction(void)
{
    pal_session wanted = {0}, named = {.key = pal_str_of("erased")};
    pal_error err;
    pal_store *store = open_store("", &err);
    pal_id kept, erased;
    pal_op ops[3];

    if (!CHECK(store) || !CHECK_EQ(pal_store_create(store, &wanted, &kept, &err), PAL_OK) ||
            !CHECK_EQ(pal_store_create(store, &named, &erased, &err), PAL_OK))
        return;
    postgres_ask("CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN"
                 " RAISE EXCEPTION ''no''; END'");
    postgres_ask("CREATE TRIGGER refuse BEFORE INSERT ON palaver.record"
                 " EXECUTE FUNCTION public.refuse()");
    apply_group(store, kept, erased, ops);
    for (int i = 0; i < 3; i++)
        CHECK(ops[i].status != PAL_OK);
    CHECK(exists(store, "erased"));
    CHECK_EQ(count_messages(store, kept), 0);
    postgres_ask("DROP TRIGGER refuse ON palaver.record");
    apply_group(store, kept, erased, ops);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(ops[i].status, PAL_OK);
    CHECK(!exists(store, "erased"));
    CHECK_EQ(count_messages(store, kept), 1);
    CHECK_EQ(postgres_ask("SELECT count(*) FROM palaver.record WHERE kind = 'test'"), 1);
    /* The session is gone now: the append stays, as in other groups, and the record is not put. */
    apply_group(store, kept, erased, ops);
    CHECK_EQ(ops[0].status, PAL_OK);
    CHECK_EQ(ops[1].status, PAL_NOT_FOUND);
    CHECK_EQ(ops[2].status, PAL_CANCELED);
    CHECK_EQ(count_messages(store, kept), 2);
    pal_store_close(store);
}

/* ---- Refusals ---- */

static void check_refused(
        const char *user, const char *database, pal_status status, const char *remedy)
{
    pal_store *store = NULL;
    pal_error err = {0};
    char url[512];

    snprintf(url, sizeof url, "postgres://%s@/%s?host=%s&schema=refused", user, database,
            getenv("PALAVER_TEST_POSTGRES_DIR"));
    CHECK_EQ(pal_store_open(url, NULL, &store, &err), status);
    if (!CHECK(strstr(err.message, remedy) != NULL))
        printf("# %s\n", err.message);
    pal_store_close(store);
}

static void demand_passwords(void)
{
    char path[512];
    FILE *file;

    snprintf(path, sizeof path, "%s/data/pg_hba.conf", getenv("PALAVER_TEST_POSTGRES_DIR"));
    file = fopen(path, "w");
    if (CHECK(file)) {
        fputs("local all locked scram-sha-256\nlocal all banned reject\nlocal all all trust\n",
                file);
        fclose(file);
    }
    postgres_ask("CREATE ROLE locked LOGIN PASSWORD 'right'");
    postgres_ask("CREATE ROLE banned LOGIN");
    postgres_ask("SELECT pg_reload_conf()");
    for (int i = 0; i < WAIT_TRIES_MAX &&
            postgres_ask("SELECT count(*) FROM pg_hba_file_rules") != 3; i++)
        usleep(WAIT_PAUSE_US);
    usleep(5 * WAIT_PAUSE_US); /* the server reads the file at about the same time */
}

static void a_user_who_is_not_let_in_is_denied(void)
{
    demand_passwords();
    check_refused("locked:wrong", "palaver", PAL_DENIED, "password is wrong");
    check_refused("locked", "palaver", PAL_DENIED, "password is wrong");
    check_refused("locked", "palaver", PAL_DENIED, "no password supplied");
    check_refused("banned", "palaver", PAL_DENIED, "pg_hba.conf");
    check_refused("absent", "palaver", PAL_DENIED, "pg_hba.conf");
}

static void each_refusal_names_its_remedy(void)
{
    check_refused("postgres", "absent", PAL_NOT_FOUND, "createdb");
    postgres_ask("CREATE ROLE poor LOGIN");
    check_refused("poor", "palaver", PAL_DENIED, "GRANT CREATE");
    check_refused("poor", "palaver", PAL_DENIED, "permission denied for database");
    postgres_ask("CREATE SCHEMA refused");
    check_refused("poor", "palaver", PAL_DENIED, "use the role that owns the schema");
    check_refused("poor", "palaver", PAL_DENIED, "(permission denied for schema refused)");
    postgres_ask("DROP SCHEMA refused");
    postgres_ask("ALTER ROLE poor SET default_transaction_read_only = on");
    check_refused("poor", "palaver", PAL_IO, "the server is read-only");
    check_refused("poor", "palaver", PAL_IO, "(session is read-only)");
    postgres_ask("ALTER ROLE poor CONNECTION LIMIT 0");
    check_refused("poor", "palaver", PAL_OVERLOADED, "max_connections");
}

static void an_unreachable_server_is_named(void)
{
    static const char *const urls[] = {"postgres://me:s3@127.0.0.1:1/d",
            "postgres://me:s3@/d?host=/nowhere"};
    static const char *const reasons[] = {"could not connect (connection to server at \"127.0.0.1\"",
            "\"/nowhere/.s.PGSQL.5432\" failed: No such file or directory); check the host"};

    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        pal_store *store = NULL;
        pal_error err = {0};

        CHECK_EQ(pal_store_open(urls[i], NULL, &store, &err), PAL_IO);
        CHECK(strstr(err.message, "s3") == NULL);
        if (!CHECK(strstr(err.message, reasons[i]) != NULL))
            printf("# %s\n", err.message);
    }
}

static void check_url(const char *url, const char *text)
{
    pal_store *store = NULL;
    pal_error err = {0};

    CHECK_EQ(pal_store_open(url, NULL, &store, &err), PAL_INVALID);
    CHECK_LACKS(err.message, "s3");
    if (!CHECK(strstr(err.message, text) != NULL))
        printf("# %s\n", err.message);
    pal_store_close(store);
}

static void a_wrong_url_is_refused_without_its_password(void)
{
    check_url("postgre://me@h/d", "use sqlite:PATH, postgres://");
    check_url("postgres:d", "use postgres://USER@HOST/DATABASE");
    check_url("postgres://me:s3%zz@h/d", "write the character as '%25'");
    check_url("postgres://me@h/d?password=s3%", "write the character as '%25'");
    check_url("postgres://me:s3@s3@[::1/d", "'postgres://me@[::1/d' is not valid");
    check_url("postgres://me:s3@h/d?sslmod=require", "'sslmod' in the URL of the store is unknown");
    check_url("postgres://me:s3@h/d?sslmode", "missing key/value separator");
    check_url("postgres://me:s3@h/d?sslmode=always", "invalid sslmode value: \"always\"");
    check_url("postgres://me:s3@h:port/d", "invalid integer value \"port\"");
    check_url("postgres://me:s3@h/d?schema=A", "use lower-case letters");
    check_url("postgres://me:s3@h/d?prepare=2", "must be 'yes' or 'no'");
}

/* Each connection that fails at once is tried twice, to learn why. */
static void a_starting_server_is_waited_for(const char *url)
{
    pal_store_options options = {.busy_timeout_ms = 100};
    pal_store *store = NULL;
    pal_error err = {0};

    postgres_proxy_refuse(6);
    CHECK_STATUS(pal_store_open(url, NULL, &store, &err), PAL_OK, &err);
    pal_store_close(store);
    store = NULL;
    postgres_proxy_refuse(1000);
    CHECK_STATUS(pal_store_open(url, &options, &store, &err), PAL_IO, &err);
    CHECK(strstr(err.message, "the server is stopping or starting (not yet accepting)") != NULL);
    postgres_proxy_refuse(0);
}

static void servers_that_start_or_are_too_old(void)
{
    char directory[SCRATCH_PATH_MAX], url[512];

    scratch_make(false, directory);
    snprintf(url, sizeof url, "postgres://postgres@/palaver?host=%s", directory);
    if (CHECK(postgres_proxy_start(directory, getenv("PALAVER_TEST_POSTGRES_DIR")))) {
        a_starting_server_is_waited_for(url);
        postgres_proxy_set_version("13");
        check_url(url, "the server is PostgreSQL 13; version 14 or newer is needed");
    }
    scratch_clear(directory, true);
}

/* A trigger fails as the server does if there is no room for a new page. */
static void nothing_is_written_to_a_full_disk(void)
{
    pal_part part = {.kind = PAL_PART_TEXT, .text = pal_str_of("hello")};
    pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};
    pal_session wanted = {0};
    pal_error err;
    pal_store *store = open_store("", &err);
    pal_id session;

    if (!CHECK(store) || !CHECK_EQ(pal_store_create(store, &wanted, &session, &err), PAL_OK))
        return;
    postgres_ask("CREATE FUNCTION public.full() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN"
                 " RAISE EXCEPTION USING ERRCODE = ''53100'', MESSAGE = ''no space''; END'");
    postgres_ask("CREATE TRIGGER full_disk BEFORE INSERT ON palaver.message"
                 " EXECUTE FUNCTION public.full()");
    CHECK_EQ(pal_store_append(store, (pal_str){0}, session, &message, 1, PAL_SEQ_ANY, &err),
            PAL_FULL);
    if (!CHECK(strstr(err.message, "the server's disk is full; nothing was written") != NULL))
        printf("# %s\n", err.message);
    CHECK_EQ(count_messages(store, session), 0);
    postgres_ask("DROP TRIGGER full_disk ON palaver.message");
    append_one(store, session);
    CHECK_EQ(count_messages(store, session), 1);
    pal_store_close(store);
}

/* ---- Checking the schema ---- */

static void check_schema(const char *parameters, pal_status status, const char *text)
{
    pal_arena *arena = pal_arena_new(0);
    pal_store_schema schema = {0};
    pal_error err;
    pal_store *store = open_store(parameters, &err);

    if (CHECK(store) && CHECK_EQ(pal_store_schema_read(store, arena, &schema, &err), status)) {
        const char *found = status == PAL_OK ? schema.settings_missing.data : err.message;

        if (!CHECK(!text ? schema.settings_missing.len == 0 : found && strstr(found, text)))
            printf("# %s\n", found ? found : "nothing");
    }
    pal_store_close(store);
    pal_arena_free(arena);
}

static void a_missing_or_invalid_index_is_found(void)
{
    check_schema("", PAL_OK, NULL);
    postgres_ask("DROP INDEX palaver.session_trash");
    check_schema("", PAL_CORRUPT, "the index 'session_trash' is missing; run CREATE INDEX"
                                  " session_trash ON palaver.session(deleted_at)");
    postgres_ask("CREATE INDEX session_trash ON palaver.session(deleted_at)"
                 " WHERE deleted_at IS NOT NULL");
    check_schema("", PAL_OK, NULL);
    postgres_ask("UPDATE pg_index SET indisvalid = false"
                 " WHERE indexrelid = 'palaver.message_id'::regclass");
    check_schema("", PAL_CORRUPT, "the index 'message_id' is invalid; run REINDEX INDEX"
                                  " CONCURRENTLY palaver.message_id");
    postgres_ask("REINDEX INDEX palaver.message_id");
    check_schema("", PAL_OK, NULL);
}

static void missing_settings_of_the_role_are_found(void)
{
    static const char *const settings[] = {"jit = off", "enable_seqscan = off",
            "enable_hashjoin = off", "enable_mergejoin = off", "enable_bitmapscan = off",
            "max_parallel_workers_per_gather = 0", "plan_cache_mode = force_generic_plan",
            "idle_in_transaction_session_timeout = '30s'",
            "default_transaction_isolation = 'read committed'", "lock_timeout = '10s'",
            "synchronous_commit = remote_apply"};
    char statement[200];

    check_schema("&prepare=no", PAL_OK,
            "ALTER ROLE \"postgres\" SET enable_seqscan = 'off';\n");
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        snprintf(statement, sizeof statement, "ALTER ROLE postgres SET %s", settings[i]);
        postgres_ask(statement);
    }
    check_schema("&prepare=no", PAL_OK, NULL);
    postgres_ask("ALTER ROLE postgres RESET jit");
    check_schema("&prepare=no", PAL_OK, "ALTER ROLE \"postgres\" SET jit = 'off';\n");
    postgres_ask("ALTER ROLE postgres RESET ALL");
}

static void a_newer_schema_is_refused(void)
{
    pal_error err;
    pal_store *store;

    postgres_ask("UPDATE palaver.meta SET version = 99, oldest_writer = 99");
    store = open_store("", &err);
    CHECK(!store);
    CHECK_EQ(err.status, PAL_INVALID);
    CHECK(strstr(err.message, "install a newer palaver") != NULL);
    pal_store_close(store);
}

int main(void)
{
    pal_error err;

    if (!getenv("PALAVER_TEST_POSTGRES"))
        return 77; /* tools/pg-test did not start a server */
    pal_store_close(open_store("", &err)); /* creates the schema */
    note_values();
    RUN(a_commit_waits_for_the_disk_whatever_the_server_says);
    RUN(a_stronger_value_is_kept);
    RUN(a_change_of_the_server_reaches_no_open_store);
    RUN(without_sessions_a_weak_value_is_refused);
    RUN(readers_leave_a_server_that_the_writer_lost);
    RUN(a_database_that_went_back_is_noticed_once);
    RUN(a_group_with_an_erasure_is_one_transaction);
    RUN(a_user_who_is_not_let_in_is_denied);
    RUN(each_refusal_names_its_remedy);
    RUN(an_unreachable_server_is_named);
    RUN(a_wrong_url_is_refused_without_its_password);
    RUN(servers_that_start_or_are_too_old);
    RUN(nothing_is_written_to_a_full_disk);
    RUN(a_missing_or_invalid_index_is_found);
    RUN(missing_settings_of_the_role_are_found);
    RUN(a_newer_schema_is_refused);
    return tap_done();
}
