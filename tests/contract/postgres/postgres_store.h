/* postgres_store.h - a store in a schema of its own on the server of tools/pg-test, and statements
 * on it through a separate connection. */
#ifndef PAL_TESTS_POSTGRES_STORE_H
#define PAL_TESTS_POSTGRES_STORE_H

#include <libpq-fe.h>
#include <stdlib.h>
#include <unistd.h>

#include "palaver/palaver.h"
#include "store/postgres/postgres.h"
#include "support/tap.h"

#define S(text) pal_str_of(text)

typedef struct fixture {
    char url[500], schema[40];
    pal_store *store;
    pal_arena *arena;
    pal_error err;
    PGconn *pg; /* its search path is the schema */
} fixture;

static fixture test;

/* Runs statements. Returns the number in the first column of the first row; 0 if there is none. */
static inline long ask(const char *text)
{
    PGresult *result = PQexec(test.pg, text);
    ExecStatusType status = PQresultStatus(result);
    long number = 0;

    if (!CHECK(status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK))
        printf("#   %s: %s\n", text, PQerrorMessage(test.pg));
    else if (PQntuples(result) > 0 && PQnfields(result) > 0)
        number = strtol(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return number;
}

/* Returns false if there is no server, and the test was skipped. */
static inline bool postgres_begin(const char *name)
{
    const char *server = getenv("PALAVER_TEST_POSTGRES");
    char text[100];

    if (!server) {
        printf("1..0 # SKIP tools/pg-test did not start a server\n");
        return false;
    }
    snprintf(test.schema, sizeof test.schema, "%s%d", name, (int)getpid());
    snprintf(test.url, sizeof test.url, "%s&schema=%s", server, test.schema);
    test.arena = pal_arena_new(0);
    test.pg = PQconnectdb(server);
    snprintf(text, sizeof text, "SET search_path = %s; SET client_min_messages = warning",
            test.schema);
    ask(text);
    return true;
}

static inline pal_store *another_store(void)
{
    pal_store_options options = {.estimate = true};
    pal_store *store = NULL;

    OK(pal_store_open(test.url, &options, &store, &test.err));
    return store;
}

/* Opens an empty store. */
static inline void open_empty(void)
{
    char text[100];

    snprintf(text, sizeof text, "DROP SCHEMA IF EXISTS %s CASCADE", test.schema);
    ask(text);
    pal_arena_reset(test.arena);
    test.store = another_store();
}

static inline void close_store(void)
{
    pal_store_close(test.store);
    test.store = NULL;
}

static inline int postgres_end(void)
{
    char text[100];

    snprintf(text, sizeof text, "DROP SCHEMA IF EXISTS %s CASCADE", test.schema);
    ask(text);
    PQfinish(test.pg);
    pal_arena_free(test.arena);
    return tap_done();
}

/* ---- Shorthand ---- */

static inline pal_id session_of(const char *tenant)
{
    pal_session session = {.tenant = S(tenant)};
    pal_id id = {{0}};

    OK(pal_store_create(test.store, &session, &id, &test.err));
    return id;
}

enum { SAY_BATCH = 512 };

/* Appends messages "n<number> <word>". */
static inline void say_many(pal_store *store, const char *tenant, pal_id session, int first,
        int count, const char *word)
{
    static char texts[SAY_BATCH][64];
    static pal_part parts[SAY_BATCH];
    static pal_message messages[SAY_BATCH];

    for (int done = 0; done < count;) {
        int len = 0;

        for (; len < SAY_BATCH && done < count; len++, done++) {
            snprintf(texts[len], sizeof texts[len], "n%d %s", first + done, word);
            parts[len] = (pal_part){.kind = PAL_PART_TEXT, .text = S(texts[len])};
            messages[len] = (pal_message){
                    .role = PAL_ROLE_USER, .parts = &parts[len], .parts_len = 1};
        }
        OK(pal_store_append(
                store, S(tenant), session, messages, (size_t)len, PAL_SEQ_ANY, &test.err));
    }
}

static inline void index_all(void)
{
    OK(pal_store_index(test.store, UINT32_MAX, NULL, &test.err));
}

/* Number of hits in a session; none: in the tenant. */
static inline size_t hits_in(const char *tenant, pal_id session, const char *text)
{
    pal_search_query search = {.tenant = S(tenant),
            .session = session,
            .text = S(text),
            .limit = PAL_SEARCH_HITS_MAX};
    pal_search_page hits = {0};

    OK(pal_store_search(test.store, &search, test.arena, &hits, &test.err));
    return hits.len;
}

static inline size_t hits_of(const char *text)
{
    return hits_in("default", (pal_id){{0}}, text);
}

#endif
