/* test_postgres_plans.c - every statement of the backend uses an index. The server is that of
 * tools/pg-test.
 *
 * PLAN_SESSIONS sessions with messages are stored and indexed first (2,000). The plans are those of
 * prepared statements, which PostgreSQL makes once without looking at the parameters. A statement
 * may not read a large table from its beginning to its end, and may not sort all of it. Every index
 * is entered by the tenant, except to find what is due in all of them. All sessions
 * have the same project and agent: a plan that is made for them must also be right for another
 * project. */
#include <ctype.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"
#include "palaver/palaver.h"
#include "store/postgres/postgres.h"
#include "support/tap.h"

#define S(text) pal_str_of(text)

enum { SESSIONS = 2000, OPS = 1000, MESSAGES_EACH = 4, LEDGER_ROWS = 20000 };

static struct fixture {
    pal_store *store;
    pal_postgres *engine;
    pal_error err;
} test;

static const char *const names[] = {
#define NAME(name, text) #name,
        PAL_POSTGRES_STATEMENTS(NAME)
#undef NAME
};

/* Reads all waiting messages because that is its task. */
static bool reads_all(pal_postgres_sql sql)
{
    return sql == PAL_POSTGRES_INBOX_OWNERS;
}

/* These find what is due in all tenants: sessions, records and blobs to sweep. */
static bool crosses_tenants(pal_postgres_sql sql)
{
    static const pal_postgres_sql known[] = {PAL_POSTGRES_BLOB_UNUSED, PAL_POSTGRES_RECORD_DUE,
            PAL_POSTGRES_RECORD_SWEEP, PAL_POSTGRES_SESSION_EXPIRED, PAL_POSTGRES_SESSION_STALE};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i] == sql)
            return true;
    return false;
}

/* These sort the rows of one batch, the parts of one object, the calls of one session or turn, or
 * the sums of one month. */
static bool may_sort(pal_postgres_sql sql)
{
    static const pal_postgres_sql known[] = {PAL_POSTGRES_BLOB_GET, PAL_POSTGRES_INBOX_LOAD,
            PAL_POSTGRES_CHECK_LEDGER, PAL_POSTGRES_CHECK_LEDGER_FIX, PAL_POSTGRES_LEDGER_APPEND,
            PAL_POSTGRES_LEDGER_HOUR_ADD, PAL_POSTGRES_LEDGER_LIST_SESSION,
            PAL_POSTGRES_LEDGER_LIST_TURN, PAL_POSTGRES_MARK_LOAD,
            PAL_POSTGRES_SEARCH_ROWS, PAL_POSTGRES_SESSION_LOCK};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i] == sql)
            return true;
    return false;
}

/* Returns whether the step sorts everything that it gets. An incremental sort follows an index. The
 * rows that a page is sorted from come from a limit, in the lines after the sort. */
static bool sorts(const PGresult *plan, int line)
{
    const char *step = PQgetvalue(plan, line, 0);

    if (!strstr(step, "Sort  (") || strstr(step, "Incremental Sort"))
        return false;
    for (int i = line + 1; i < PQntuples(plan); i++)
        if (strstr(PQgetvalue(plan, i, 0), "Limit  ("))
            return false;
    return true;
}

/* Tables that have a row for each process, or for each tenant, and the sequence. */
static bool is_small(const char *line)
{
    return strstr(line, " on node") || strstr(line, " on pg_") || strstr(line, "_shared_") ||
            strstr(line, " on message_pos");
}

static bool open_store(void)
{
    const char *server = getenv("PALAVER_TEST_POSTGRES");
    char url[500];

    if (!server) {
        printf("1..0 # SKIP tools/pg-test did not start a server\n");
        return false;
    }
    snprintf(url, sizeof(url), "%s&schema=plans%d", server, (int)getpid());
    if (!OK(pal_store_open(url, NULL, &test.store, &test.err)))
        return false;
    test.engine = (pal_postgres *)*pal_store_engine(test.store);
    return true;
}

static void fill_some(size_t from, size_t len)
{
    static pal_op ops[OPS];
    static pal_session sessions[OPS];
    static pal_message messages[OPS][MESSAGES_EACH];
    static char keys[OPS][32];
    pal_arena *arena = pal_arena_new(0);

    for (size_t i = 0; i < len; i++) {
        snprintf(keys[i], sizeof(keys[i]), "session-%zu", from + i);
        sessions[i] = (pal_session){.key = S(keys[i]), .project = S("project"), .agent = S("a")};
        ops[i] = pal_op_create(&sessions[i]);
    }
    OK(pal_store_apply(test.store, ops, len, &test.err));
    for (size_t i = 0; i < len; i++) {
        pal_id session = ops[i].session;

        for (size_t j = 0; j < MESSAGES_EACH; j++)
            messages[i][j] = pal_message_text(arena, PAL_ROLE_USER, S("some words to keep"));
        ops[i] = pal_op_append(S(""), session, messages[i], MESSAGES_EACH, PAL_SEQ_ANY);
    }
    OK(pal_store_apply(test.store, ops, len, &test.err));
    pal_arena_free(arena);
}

static size_t sessions_wanted(void)
{
    const char *wanted = getenv("PLAN_SESSIONS");

    return wanted ? strtoul(wanted, NULL, 10) : SESSIONS;
}

static void run(PGconn *pg, const char *text)
{
    PGresult *result = PQexec(pg, text);

    if (!CHECK(PQresultStatus(result) == PGRES_COMMAND_OK ||
                PQresultStatus(result) == PGRES_TUPLES_OK))
        printf("#   %s: %s\n", text, PQerrorMessage(pg));
    PQclear(result);
}

/* Connects with the settings of the store. */
static PGconn *connect_like(pal_postgres *store)
{
    const char *const words[] = {"dbname", "options", NULL};
    const char *const values[] = {store->url, pal_postgres_settings(&store->writer), NULL};
    PGconn *pg = PQconnectdbParams(words, values, 1);

    CHECK_EQ(PQstatus(pg), CONNECTION_OK);
    return pg;
}

/* In a small ledger, a sort would cost as little as an index. */
static void fill_ledger(void)
{
    PGconn *pg = connect_like(test.engine);
    char text[400];

    snprintf(text, sizeof(text),
            "INSERT INTO %s.ledger SELECT 1, gen_random_uuid(), NULL, g, 1, 0, 0, 1, 0, 1, 'a'"
            " FROM generate_series(1, %d) g",
            test.engine->schema, LEDGER_ROWS);
    run(pg, text);
    snprintf(text, sizeof(text), "ANALYZE %s.ledger", test.engine->schema);
    run(pg, text);
    PQfinish(pg);
}

static void a_store_is_filled(void)
{
    size_t sessions = sessions_wanted();

    for (size_t done = 0; done < sessions; done += OPS)
        fill_some(done, sessions - done < OPS ? sessions - done : OPS);
    fill_ledger();
    OK(pal_store_index(test.store, UINT32_MAX, NULL, &test.err));
}

/* ---- Plans ---- */

static size_t params_of(const char *text)
{
    size_t most = 0;

    for (const char *at = strchr(text, '$'); at; at = strchr(at + 1, '$'))
        if (isdigit((unsigned char)at[1]) && strtoul(at + 1, NULL, 10) > most)
            most = strtoul(at + 1, NULL, 10);
    return most;
}

static bool has_plan(const char *text)
{
    return strncmp(text, "SELECT", 6) == 0 || strncmp(text, "INSERT", 6) == 0 ||
            strncmp(text, "UPDATE", 6) == 0 || strncmp(text, "DELETE", 6) == 0 ||
            strncmp(text, "WITH", 4) == 0;
}

/* Whether the step reads sessions of all projects or agents. */
static bool reads_other_sessions(pal_postgres_sql sql, const char *step)
{
    return (sql == PAL_POSTGRES_SESSION_LIST_PROJECT || sql == PAL_POSTGRES_SESSION_LIST_AGENT) &&
            strstr(step, "head_recent");
}

/* Returns whether the step reads an index from its beginning to its end. */
static bool reads_whole_index(const PGresult *plan, int line)
{
    const char *step = PQgetvalue(plan, line, 0);

    if (!strstr(step, "Index Scan") && !strstr(step, "Index Only Scan"))
        return false;
    return line + 1 == PQntuples(plan) || !strstr(PQgetvalue(plan, line + 1, 0), "Index Cond");
}

/* Returns whether a condition of an index does not begin with the tenant. A database of one of many
 * cells, or a shard, could not answer such a statement alone. */
static bool lacks_tenant(const char *step)
{
    const char *condition = strstr(step, "Index Cond: ");

    if (!condition)
        return false;
    condition += strlen("Index Cond: ");
    condition += strspn(condition, "(");
    if (strncmp(condition, "ROW(", 4) == 0)
        condition += 4;
    return strncmp(condition, "tenant ", 7) != 0 && strncmp(condition, "tenant,", 7) != 0;
}

static void check_line(pal_postgres_sql sql, const PGresult *plan, int line)
{
    const char *step = PQgetvalue(plan, line, 0);
    /* A step that keeps its rows reads more of them than one row of the batch needs. */
    bool held = CHECK(!strstr(step, "Seq Scan") || is_small(step)) &&
            CHECK(!strstr(step, "Gather")) && CHECK(!strstr(step, "Materialize")) &&
            CHECK(!reads_whole_index(plan, line) || is_small(step)) &&
            CHECK(!reads_other_sessions(sql, step)) &&
            CHECK(!lacks_tenant(step) || crosses_tenants(sql) ||
                    is_small(PQgetvalue(plan, line > 0 ? line - 1 : 0, 0)));

    if (!CHECK(!sorts(plan, line) || may_sort(sql)) || !held)
        printf("#   %s: %s\n", names[sql], step);
}

static void check_plan(PGconn *pg, pal_postgres_sql sql)
{
    const char *text = test.engine->texts[sql];
    size_t params = params_of(text);
    char execute[200];
    PGresult *result;
    int len;

    result = PQprepare(pg, names[sql], text, 0, NULL);
    if (!CHECK_EQ(PQresultStatus(result), PGRES_COMMAND_OK))
        printf("#   %s: %s\n", names[sql], PQerrorMessage(pg));
    PQclear(result);
    len = snprintf(execute, sizeof(execute), "EXPLAIN EXECUTE \"%s\"", names[sql]);
    for (size_t i = 0; i < params; i++)
        len += snprintf(execute + len, sizeof(execute) - (size_t)len, "%s",
                i == 0 ? "(NULL" : ", NULL");
    if (params > 0)
        snprintf(execute + len, sizeof(execute) - (size_t)len, ")");
    result = PQexec(pg, execute);
    if (!CHECK_EQ(PQresultStatus(result), PGRES_TUPLES_OK))
        printf("#   %s: %s\n", names[sql], PQerrorMessage(pg));
    for (int i = 0; i < PQntuples(result); i++) {
        if (getenv("PLAN_SHOW"))
            printf("# %-20s %s\n", names[sql], PQgetvalue(result, i, 0));
        check_line(sql, result, i);
    }
    PQclear(result);
}

static void every_statement_uses_an_index(void)
{
    PGconn *pg = connect_like(test.engine);
    const char *schema = test.engine->schema;
    char analyze[400];

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < PAL_POSTGRES_COUNT; i++)
            if (has_plan(test.engine->texts[i]) && !reads_all((pal_postgres_sql)i))
                check_plan(pg, (pal_postgres_sql)i);
        run(pg, "DEALLOCATE ALL");
        snprintf(analyze, sizeof(analyze),
                "ANALYZE %s.head, %s.session, %s.message, %s.search, %s.search_block", schema,
                schema, schema, schema, schema);
        run(pg, analyze); /* the second time with what the server knows about the tables */
    }
    PQfinish(pg);
}

/* ---- Counts ---- */

static pal_store_stats stat_store(void)
{
    pal_arena *arena = pal_arena_new(0);
    pal_store_stats stats = {0};

    OK(pal_store_stat(test.store, arena, &stats, &test.err));
    pal_arena_free(arena);
    return stats;
}

/* Adds heads and messages by SQL until their tables have more than 8 MiB. Every third of the new
 * sessions is in the trash. */
static void grow(void)
{
    PGconn *pg = connect_like(test.engine);
    char text[1000];

    snprintf(text, sizeof(text),
            "INSERT INTO %s.head SELECT tenant, gen_random_uuid(), last_seq, mark_number, tokens,"
            " 1000, updated_at, expires_at, batch, fence, lease_until, lease_ttl, minute,"
            " CASE WHEN g %% 3 = 0 THEN 2 ELSE 1 END, owner, project, agent"
            " FROM (SELECT * FROM %s.head LIMIT 1000) h, generate_series(1, 60) g",
            test.engine->schema, test.engine->schema);
    run(pg, text);
    snprintf(text, sizeof(text),
            "INSERT INTO %s.message SELECT tenant, seq, nextval('%s.message_pos'), created_at,"
            " gen_random_uuid(), gen_random_uuid(), turn, tokens, flags, role, is_text, client_id,"
            " body FROM (SELECT * FROM %s.message LIMIT 1000) m, generate_series(1, 120) g",
            test.engine->schema, test.engine->schema, test.engine->schema);
    run(pg, text);
    PQfinish(pg);
}

static void check_estimate(const char *what, uint64_t estimate, uint64_t exact)
{
    if (!CHECK_THAT(estimate, >, exact / 10 * 8) || !CHECK_THAT(estimate, <, exact / 10 * 12))
        printf("#   %s: %llu instead of %llu\n", what, (unsigned long long)estimate,
                (unsigned long long)exact);
}

static void large_tables_are_estimated(void)
{
    pal_store_stats before = stat_store(), after;

    if (sessions_wanted() <= SESSIONS) {
        CHECK_EQ(before.is_estimated, 0);
        CHECK_EQ(before.sessions_active, sessions_wanted());
        CHECK_EQ(before.messages, sessions_wanted() * MESSAGES_EACH);
    }
    grow();
    after = stat_store();
    CHECK_EQ(after.is_estimated, 1);
    check_estimate("active", after.sessions_active, before.sessions_active + 40000);
    check_estimate("trash", after.sessions_trash, 20000);
    check_estimate("bytes", after.content_bytes, before.content_bytes + 60000000);
    check_estimate("messages", after.messages, before.messages + 120000);
    CHECK_EQ(after.tenants, 1);
    CHECK_EQ(stat_store().messages, after.messages); /* the same pages again */
}

static void every_statement_uses_an_index_of_a_large_table(void)
{
    every_statement_uses_an_index();
}

int main(void)
{
    if (!open_store())
        return 0;
    RUN(a_store_is_filled);
    RUN(every_statement_uses_an_index);
    RUN(large_tables_are_estimated);
    RUN(every_statement_uses_an_index_of_a_large_table);
    pal_store_close(test.store);
    return tap_done();
}
