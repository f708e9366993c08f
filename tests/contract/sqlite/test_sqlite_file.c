/* test_sqlite_file.c - a SQLite file seen from outside: a file of version 2 can be read unchanged
 * and is brought up to date, fsck checks records and the sums of the ledger, and no statement scans
 * a table instead of using an index. */
#include <stdio.h>
#include <string.h>

#include "store/sqlite/sqlite.h"
#include "support/sqlite_file.h"

#define HOUR INT64_C(3600000)

#define VERSION_NOW 7

/* The tables of version 1, and the additions of the versions up to 5. */
static const char version_1[] =
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
        "CREATE INDEX ledger_time ON ledger(tenant, created_at);";

static const char version_2[] =
        "CREATE INDEX mark_kind ON"
        " mark(session, kind, number, seq, through_seq, target, created_at);"
        "CREATE TABLE search("
        " block INTEGER NOT NULL, term BLOB NOT NULL, chunk BLOB NOT NULL,"
        " PRIMARY KEY (block, term)) WITHOUT ROWID;"
        "CREATE TABLE search_block(block INTEGER PRIMARY KEY, wide BLOB);"
        "CREATE TABLE search_state(id INTEGER PRIMARY KEY, erasures INTEGER NOT NULL);"
        "INSERT INTO search_state(id, erasures) VALUES (1, 0);";

static const char version_3[] =
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
        " FROM ledger GROUP BY tenant, created_at / 3600000;";

static const char version_4[] =
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
        "DROP TABLE inbox_before;";

static const char version_5[] = "ALTER TABLE message ADD COLUMN turn BLOB;"
                                "ALTER TABLE lease ADD COLUMN ttl_ms INTEGER;";

/* A session with one message and two waiting items, and four model calls of two hours and two
 * tenants. The session of one call was erased. */
static const char content[] =
        "INSERT INTO tenant VALUES (1, 'default'), (2, 'other');"
        "INSERT INTO session(id, uuid, tenant, fork_seq, fork_mark, created_at, is_routed, key)"
        " VALUES (1, x'01000000000000000000000000000000', 1, 0, 0, 5, 0, 'key');"
        "INSERT INTO head VALUES (1, 1, 1, NULL, NULL, 1, 0, 3, 5, 6);"
        "INSERT INTO message VALUES (1, 1, 1, x'02000000000000000000000000000000', 1, 0, 3, 6,"
        " NULL, 'hello');"
        "INSERT INTO inbox VALUES"
        " (8, x'05000000000000000000000000000000', 1, 7, 'c1', NULL, 'first'),"
        " (9, x'04000000000000000000000000000000', 1, 7, NULL, 'later', 'second');"
        "INSERT INTO ledger VALUES"
        " (1, 1, 1, 3600000, 1, 1, 1, 1, 1, 10, 'r1', 't1', 'turn', 'p', 'm', 'v'),"
        " (2, 1, 1, 3600001, 2, 1, 1, 1, 1, 10, 'r2', 't1', 'turn', 'p', 'm', 'v'),"
        " (3, 1, NULL, 7200000, 4, 1, 1, 1, 1, 10, NULL, NULL, 'turn', 'p', 'm', 'v'),"
        " (4, 2, NULL, 3600000, 8, 1, 1, 1, 1, 10, 'r1', 't1', 'turn', 'p', 'm', 'v');";

static const char *const statements[PAL_SQL_COUNT] = {
#define STATEMENT(name, text) [PAL_SQL_##name] = text,
        PAL_SQL_STATEMENTS(STATEMENT)
#undef STATEMENT
};

static const pal_str default_tenant = {NULL, 0};
static const pal_id session_id = {{1}};

static pal_str S(const char *text)
{
    return pal_str_of(text);
}

static uint64_t check(bool repair)
{
    uint64_t findings = 99;

    OK(pal_store_check(test.store, repair, NULL, NULL, NULL, &findings, &test.err));
    return findings;
}

static uint64_t input_of(pal_ledger_query query)
{
    pal_ledger_sum sum = {0};

    OK(pal_store_ledger_sum(test.store, &query, &sum, &test.err));
    CHECK_EQ(sum.calls, sum.usage.output);
    CHECK_EQ((int64_t)sum.calls * 10, sum.cost_micros);
    return sum.usage.input;
}

static bool has_message(void)
{
    pal_message message;
    pal_id owner;

    return OK(pal_store_message(test.store, default_tenant, (pal_id){{2}}, test.arena, &message,
                   &owner, &test.err)) &&
            pal_id_equal(owner, session_id) && pal_str_is(message.parts[0].text, "hello");
}

static bool is_waiting(const char *first, const char *second)
{
    pal_inbox_item *items;
    size_t len;

    return OK(pal_store_inbox_list(
                   test.store, default_tenant, session_id, test.arena, &items, &len, &test.err)) &&
            len == 2 && pal_str_is(items[0].body, first) && pal_str_is(items[1].body, second);
}

/* Creates a file of an older version whose contents were written before its last migration
 * steps. */
static void make_version(int version)
{
    static const char *const steps[] = {version_2, version_3, version_4, version_5};
    char pragma[96];

    file_clear();
    CHECK(run(version_1));
    CHECK(run(content));
    for (int i = 2; i <= version; i++)
        CHECK(run(steps[i - 2]));
    snprintf(pragma, sizeof pragma, "PRAGMA application_id = 0x506c7672; PRAGMA user_version = %d",
            version);
    CHECK(run(pragma));
    CHECK(run("PRAGMA journal_mode = WAL"));
}

static void make_version_2(void)
{
    make_version(2);
}

/* Checks the contents of version 2 through today's interface. */
static void sums_are_right(void)
{
    CHECK_EQ(input_of((pal_ledger_query){0}), 7);
    CHECK_EQ(input_of((pal_ledger_query){.tenant = S("other")}), 8);
    CHECK_EQ(input_of((pal_ledger_query){.session = session_id}), 3);
    CHECK_EQ(input_of((pal_ledger_query){.turn_id = S("t1")}), 3);
    CHECK_EQ(input_of((pal_ledger_query){.agent = S("main")}), 0);
    CHECK_EQ(input_of((pal_ledger_query){.from = HOUR, .to = HOUR + 1}), 1);
    CHECK_EQ(input_of((pal_ledger_query){.from = HOUR + 1}), 6);
    CHECK_EQ(input_of((pal_ledger_query){.from = HOUR, .to = 2 * HOUR}), 3);
    CHECK_EQ(input_of((pal_ledger_query){.from = 2 * HOUR}), 4);
}

static void an_older_file_is_read_unchanged(void)
{
    pal_record_query query = {.kind = S("kind")};
    pal_record_page records = {.len = 9};
    pal_record record;

    make_version_2();
    open_store(true);
    CHECK(has_message());
    CHECK_EQ(check(false), 0);
    CHECK(is_waiting("first", "second"));
    sums_are_right();
    CHECK_STATUS(pal_store_record_find(test.store, default_tenant, S("kind"), S("name"), test.arena,
                         &record, &test.err),
            PAL_NOT_FOUND, &test.err);
    if (OK(pal_store_record_list(test.store, &query, test.arena, &records, &test.err)))
        CHECK_EQ(records.len, 0);
    close_store();
    CHECK_EQ(ask("PRAGMA user_version"), 2);
}

static void an_older_file_is_brought_up_to_date(void)
{
    pal_record record = {.kind = S("kind"), .name = S("name"), .body = S("{}")};
    pal_ledger_row row = {.request_id = S("r9"),
            .agent = S("main"),
            .usage = {.input = 16, .output = 1},
            .cost_micros = 10,
            .created_at = HOUR + 2};

    make_version_2();
    open_store(false);
    CHECK_EQ(ask("PRAGMA user_version"), VERSION_NOW);
    CHECK(has_message());
    CHECK_EQ(check(false), 0);
    sums_are_right();
    record.session = session_id;
    if (OK(pal_store_record_put(test.store, default_tenant, &record, 0, &test.err)))
        CHECK_EQ(record.version, 1);
    OK(pal_store_ledger_add(test.store, default_tenant, session_id, &row, &test.err));
    CHECK_EQ(input_of((pal_ledger_query){0}), 23);
    CHECK_EQ(input_of((pal_ledger_query){.agent = S("main")}), 16);
    CHECK_EQ(ask("SELECT count(*) FROM ledger_hour"), 4);
    CHECK_EQ(check(false), 0);
    close_store();
    open_store(false);
    OK(pal_store_record_find(
            test.store, default_tenant, S("kind"), S("name"), test.arena, &record, &test.err));
    CHECK_EQ(ask("PRAGMA user_version"), VERSION_NOW);
    close_store();
}

static pal_status append_to(const char *tenant, pal_id session, pal_id id)
{
    pal_part part = {.kind = PAL_PART_TEXT, .text = S("twin")};
    pal_message message = {.id = id, .role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};

    return pal_store_append(test.store, S(tenant), session, &message, 1, PAL_SEQ_ANY, &test.err);
}

/* Up to version 5, ids were unique over all tenants. */
static void ids_become_a_tenants_own(void)
{
    for (int version = 1; version <= 5; version++) {
        pal_session twin = {.tenant = S("other"), .id = session_id, .key = S("key")};
        pal_session found = {0};
        pal_id id;

        make_version(version);
        open_store(false);
        CHECK_EQ(ask("PRAGMA user_version"), VERSION_NOW);
        CHECK(has_message());
        CHECK_EQ(check(false), 0);
        CHECK(is_waiting("first", "second"));
        sums_are_right();
        OK(pal_store_find(test.store, default_tenant, PAL_SESSION_BY_KEY, S("key"), test.arena,
                &found, &test.err));
        CHECK_ID(found.id, session_id);
        CHECK_EQ(found.last_seq, 1);
        CHECK_EQ(found.created_at, 5);
        OK(pal_store_create(test.store, &twin, &id, &test.err));
        OK(append_to("other", session_id, (pal_id){{2}}));
        CHECK_STATUS(append_to("other", session_id, (pal_id){{2}}), PAL_CONFLICT);
        CHECK_STATUS(append_to("default", session_id, (pal_id){{2}}), PAL_CONFLICT);
        CHECK_STATUS(pal_store_create(test.store, &twin, &id, &test.err), PAL_CONFLICT, &test.err);
        CHECK(has_message());
        CHECK_EQ(check(false), 0);
        close_store();
    }
}

/* Waiting items keep their order, their client ids, and their place before new items. */
static void an_older_inbox_is_taken_over(void)
{
    pal_inbox_item again = {.client_id = S("c1"), .body = S("first")};
    pal_inbox_item other = {.client_id = S("c1"), .body = S("another")};
    pal_inbox_item next = {.body = S("third")};

    make_version_2();
    open_store(false);
    CHECK(is_waiting("first", "second"));
    OK(pal_store_inbox_add(test.store, default_tenant, session_id, &again, &test.err));
    CHECK_ID(again.id, (pal_id){{5}});
    CHECK(is_waiting("first", "second"));
    CHECK_STATUS(pal_store_inbox_add(test.store, default_tenant, session_id, &other, &test.err),
            PAL_CONFLICT, &test.err);
    OK(pal_store_inbox_drop(test.store, default_tenant, session_id, again.id, &test.err));
    OK(pal_store_inbox_add(test.store, default_tenant, session_id, &next, &test.err));
    CHECK(is_waiting("second", "third"));
    CHECK_EQ(check(false), 0);
    close_store();
}

/* The table of another program prevents a migration step. No part of the step may be left. */
static void a_step_is_all_or_nothing(void)
{
    make_version_2();
    CHECK(run("CREATE TABLE ledger_hour(x)"));
    CHECK_THAT(pal_store_open(test.url, NULL, &test.store, &test.err), !=, PAL_OK);
    CHECK_EQ(ask("PRAGMA user_version"), 2);
    CHECK_EQ(ask("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'record%'"), 0);
    CHECK(run("DROP TABLE ledger_hour"));
    open_store(false);
    CHECK(has_message());
    CHECK_EQ(check(false), 0);
    CHECK_EQ(ask("PRAGMA user_version"), VERSION_NOW);
    close_store();
}

static void wrong_sums_are_recomputed(void)
{
    static const char *const damages[] = {
            "UPDATE ledger_hour SET input = input + 1 WHERE hour = 1 AND tenant = 1",
            "DELETE FROM ledger_hour WHERE hour = 2",
            "INSERT INTO ledger_hour VALUES (1, 0, 77, 1, 1, 1, 1, 1, 1, 1)",
            "DELETE FROM ledger WHERE id = 2",
    };

    make_version_2();
    open_store(false);
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        CHECK_EQ(check(false), 0);
        CHECK(run(damages[i]));
        CHECK_EQ(check(false), 1);
        CHECK_EQ(check(true), 1);
        CHECK_EQ(check(false), 0);
    }
    CHECK_EQ(input_of((pal_ledger_query){0}), 5);
    close_store();
}

static void records_without_a_session_are_found(void)
{
    pal_record record = {.kind = S("kind"), .name = S("name"), .body = S("{}")};

    make_version_2();
    open_store(false);
    record.session = session_id;
    OK(pal_store_record_put(test.store, default_tenant, &record, 0, &test.err));
    CHECK_EQ(check(false), 0);
    CHECK(run("INSERT INTO record VALUES (9, 1, 99, 1, 1, 1, NULL, 'kind', 'stray', '{}')"));
    CHECK_EQ(check(false), 1);
    CHECK_EQ(ask("SELECT count(*) FROM record"), 2);
    CHECK_EQ(check(true), 1);
    CHECK_EQ(ask("SELECT count(*) FROM record"), 1);
    CHECK_EQ(check(false), 0);
    close_store();
}

/* ---- What statements cost ---- */

/* Returns the plan of a statement, its lines joined. */
static const char *plan_of(pal_sql_id id)
{
    static char plan[2048];
    char text[4096];
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    size_t len = 0;

    plan[0] = '\0';
    snprintf(text, sizeof text, "EXPLAIN QUERY PLAN %s", statements[id]);
    sqlite3_open(test.path, &db);
    if (pal_sqlite_sum_prepare(&(pal_sql_conn){.db = db}, NULL) != PAL_OK ||
            sqlite3_prepare_v2(db, text, -1, &stmt, NULL) != SQLITE_OK)
        printf("# %s\n", sqlite3_errmsg(db));
    while (len < sizeof plan && sqlite3_step(stmt) == SQLITE_ROW)
        len += (size_t)snprintf(
                plan + len, sizeof plan - len, "%s\n", (const char *)sqlite3_column_text(stmt, 3));
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return plan;
}

static bool plan_has(pal_sql_id id, const char *wanted)
{
    const char *plan = plan_of(id);
    bool has = strstr(plan, wanted) != NULL;

    if (!has)
        printf("# '%s' is not in:\n# %s\n", wanted, plan);
    return has;
}

static bool plan_is_free_of(pal_sql_id id, const char *unwanted)
{
    const char *plan = plan_of(id);
    bool has = strstr(plan, unwanted) != NULL;

    if (has)
        printf("# '%s' is in:\n# %s\n", unwanted, plan);
    return !has;
}

static void ids_are_found_by_an_index(void)
{
    make_version_2();
    open_store(false);
    close_store();
    CHECK(plan_has(PAL_SQL_HEAD_GET, "INDEX session_uuid (tenant=? AND uuid=?)"));
    CHECK(plan_has(PAL_SQL_SESSION_BY_ID, "INDEX session_uuid (tenant=? AND uuid=?)"));
    CHECK(plan_has(PAL_SQL_MESSAGE_BY_ID, "INDEX message_id (id=?)"));
    CHECK(plan_has(PAL_SQL_MESSAGE_ID_TAKEN, "INDEX message_id (id=?)"));
}

static void sums_do_not_walk_over_the_ledger(void)
{
    make_version_2();
    open_store(false);
    close_store();
    CHECK(plan_has(PAL_SQL_LEDGER_SUM,
            "ledger_hour USING PRIMARY KEY (tenant=? AND agent=? AND hour>? AND hour<?)"));
    CHECK(plan_has(PAL_SQL_LEDGER_SUM,
            "ledger USING INDEX ledger_time (tenant=? AND created_at>? AND created_at<?)"));
    CHECK(plan_is_free_of(PAL_SQL_LEDGER_SUM, "SCAN ledger"));
    CHECK(plan_has(PAL_SQL_LEDGER_SUM_SESSION, "ledger USING INDEX ledger_session (session=?)"));
    CHECK(plan_has(
            PAL_SQL_LEDGER_SUM_TURN, "ledger USING INDEX ledger_turn (tenant=? AND turn_id=?)"));
}

static void records_are_found_by_an_index(void)
{
    static const pal_sql_id by_name[] = {PAL_SQL_RECORD_UP, PAL_SQL_RECORD_DOWN};
    static const pal_sql_id by_session[] = {PAL_SQL_RECORD_SESSION_UP, PAL_SQL_RECORD_SESSION_DOWN};

    make_version_2();
    open_store(false);
    close_store();
    for (int i = 0; i < 2; i++) {
        const char *sign = i == 0 ? ">" : "<";
        char wanted[96];

        snprintf(
                wanted, sizeof wanted, "INDEX record_name (tenant=? AND kind=? AND name%s?)", sign);
        CHECK(plan_has(by_name[i], wanted));
        CHECK(plan_is_free_of(by_name[i], "TEMP B-TREE"));
        snprintf(wanted, sizeof wanted, "INDEX record_session (session=? AND kind=? AND name%s?)",
                sign);
        CHECK(plan_has(by_session[i], wanted));
        CHECK(plan_is_free_of(by_session[i], "TEMP B-TREE"));
    }
    CHECK(plan_has(PAL_SQL_RECORD_GET, "INDEX record_name (tenant=? AND kind=? AND name=?)"));
    CHECK(plan_has(PAL_SQL_RECORD_SWEEP, "INDEX record_expiry (expires_at<?)"));
    CHECK(plan_has(PAL_SQL_RECORD_DUE, "INDEX record_expiry (expires_at<?)"));
    CHECK(plan_has(PAL_SQL_RECORD_CLEAR, "INDEX record_session (session=?)"));
    CHECK(plan_is_free_of(PAL_SQL_INBOX_OWNERS, "SCAN s"));
    CHECK(plan_is_free_of(PAL_SQL_INBOX_OWNERS, "SCAN h"));
}

int main(void)
{
    file_begin();
    RUN(an_older_file_is_read_unchanged);
    RUN(an_older_file_is_brought_up_to_date);
    RUN(ids_become_a_tenants_own);
    RUN(ids_are_found_by_an_index);
    RUN(an_older_inbox_is_taken_over);
    RUN(a_step_is_all_or_nothing);
    RUN(wrong_sums_are_recomputed);
    RUN(records_without_a_session_are_found);
    RUN(sums_do_not_walk_over_the_ledger);
    RUN(records_are_found_by_an_index);
    return file_done();
}
