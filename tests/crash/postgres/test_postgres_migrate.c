/* test_postgres_migrate.c - upgrades of the schema, with steps that only exist here: while a store
 * is in use, by two processes at once, and after a failure. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>
#include "postgres_ask.h"
#include "store/postgres/postgres.h"
#include "support/tap.h"

enum { MADE = PAL_POSTGRES_VERSION - 1 }; /* steps that a new schema does not need */

static const pal_postgres_step steps[] = {
        [MADE] = {.text = "ALTER TABLE @session ADD COLUMN color text", .oldest_reader = 1,
                .oldest_writer = 1},
        {.text = "CREATE INDEX CONCURRENTLY session_color ON @session(tenant, color)",
                .index = "session_color", .oldest_reader = 1, .oldest_writer = 1},
        {.text = "ALTER TABLE @session ADD COLUMN taste text;"
                 " ALTER TABLE @session DROP COLUMN color",
                .oldest_reader = 1, .oldest_writer = MADE + 4},
};
enum { STEPS = sizeof steps / sizeof steps[0] };

static pal_postgres *open_engine(void)
{
    pal_store_options options = {0};
    pal_engine *engine = NULL;
    pal_error err = {0};

    if (!CHECK_EQ(pal_store_engine_open(
                          getenv("PALAVER_TEST_POSTGRES"), &options, &engine, &err), PAL_OK))
        printf("# %s\n", err.message);
    return (pal_postgres *)engine;
}

static void close_engine(pal_postgres *store)
{
    store->base.backend->close(&store->base);
}

static void set_back(void)
{
    postgres_ask("DROP SCHEMA palaver CASCADE");
    close_engine(open_engine());
}

static long version(void)
{
    return postgres_ask("SELECT version FROM palaver.meta");
}

static void steps_are_made_once_and_in_order(void)
{
    pal_postgres *store;
    pal_error err = {0};

    set_back();
    store = open_engine();
    CHECK_EQ(pal_postgres_migrate(store, steps, MADE + 2, &err), PAL_OK);
    CHECK_EQ(version(), MADE + 3);
    CHECK_EQ(postgres_ask("SELECT count(*) FROM pg_indexes WHERE indexname = 'session_color'"), 1);
    CHECK_EQ(pal_postgres_migrate(store, steps, MADE + 2, &err), PAL_OK);
    CHECK_EQ(version(), MADE + 3);
    /* An expanded schema can still be used by a program of the version before. */
    close_engine(open_engine());
    CHECK_EQ(pal_postgres_migrate(store, steps, STEPS, &err), PAL_OK);
    CHECK_EQ(version(), MADE + 4);
    close_engine(store);
}

static void a_contracted_schema_keeps_older_writers_out(void)
{
    pal_store_options options = {0}, reading = {.read_only = true};
    pal_engine *engine = NULL;
    pal_error err = {0};

    CHECK_EQ(pal_store_engine_open(getenv("PALAVER_TEST_POSTGRES"), &options, &engine, &err),
            PAL_INVALID);
    CHECK_CONTAINS(err.message, "newer palaver");
    if (CHECK_EQ(pal_store_engine_open(getenv("PALAVER_TEST_POSTGRES"), &reading, &engine, &err),
                PAL_OK))
        engine->backend->close(engine);
}

static void a_failed_step_leaves_nothing(void)
{
    static const pal_postgres_step wrong[] = {
            [MADE] = {.text = "ALTER TABLE @session ADD COLUMN half text; SELECT 1 FROM @absent",
                    .oldest_reader = 1, .oldest_writer = 1}};
    static const pal_postgres_step taken[] = {
            [MADE] = {.text = "CREATE TABLE @taken (a int)", .oldest_reader = 1,
                    .oldest_writer = 1}};
    pal_postgres *store;
    pal_error err = {0};

    set_back();
    store = open_engine();
    postgres_ask("CREATE TABLE palaver.taken (b int)"); /* a table of another program: reported at once */
    CHECK_EQ(pal_postgres_migrate(store, taken, MADE + 1, &err), PAL_CORRUPT);
    CHECK_CONTAINS(err.message, "relation \"taken\" already exists");
    CHECK(pal_postgres_migrate(store, wrong, MADE + 1, &err) != PAL_OK);
    CHECK_EQ(version(), MADE + 1);
    CHECK_EQ(postgres_ask("SELECT count(*) FROM information_schema.columns"
                          " WHERE column_name = 'half'"), 0);
    /* The connection can be used again. */
    CHECK_EQ(pal_postgres_migrate(store, steps, MADE + 1, &err), PAL_OK);
    CHECK_EQ(version(), MADE + 2);
    close_engine(store);
}

static void an_interrupted_index_is_built_again(void)
{
    pal_postgres *store;
    pal_error err = {0};

    set_back();
    store = open_engine();
    CHECK_EQ(pal_postgres_migrate(store, steps, MADE + 1, &err), PAL_OK);
    postgres_ask("CREATE INDEX session_color ON palaver.session(tenant)");
    postgres_ask("UPDATE pg_index SET indisvalid = false"
                 " WHERE indexrelid = 'palaver.session_color'::regclass");
    CHECK_EQ(pal_postgres_migrate(store, steps, MADE + 2, &err), PAL_OK);
    CHECK_EQ(version(), MADE + 3);
    CHECK_EQ(postgres_ask("SELECT indisvalid::int FROM pg_index"
                          " WHERE indexrelid = 'palaver.session_color'::regclass"), 1);
    close_engine(store);
}

static void *migrate_all(void *argument)
{
    pal_status *status = argument;
    pal_postgres *store = open_engine();
    pal_error err = {0};

    *status = pal_postgres_migrate(store, steps, MADE + 2, &err);
    if (*status != PAL_OK)
        printf("# %s\n", err.message);
    close_engine(store);
    return NULL;
}

static void two_processes_share_the_steps(void)
{
    pal_status statuses[3];
    pthread_t threads[3];

    set_back();
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, migrate_all, &statuses[i]);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ(statuses[i], PAL_OK);
    }
    CHECK_EQ(version(), MADE + 3);
    CHECK_EQ(postgres_ask("SELECT indisvalid::int FROM pg_index"
                          " WHERE indexrelid = 'palaver.session_color'::regclass"), 1);
}

static void an_older_schema_is_refused_with_the_remedy(void)
{
    pal_store_options options = {0};
    pal_engine *engine = NULL;
    pal_error err = {0};

    set_back();
    postgres_ask("UPDATE palaver.meta SET version = 0");
    CHECK_EQ(pal_store_engine_open(getenv("PALAVER_TEST_POSTGRES"), &options, &engine, &err),
            PAL_INVALID);
    CHECK_CONTAINS(err.message, "palaver store migrate");
}

/* ---- A store in use ---- */

typedef struct user {
    pal_store *store;
    pal_id session;
    atomic_size_t appended;
    atomic_bool is_over;
    pal_status status;
} user;

static void *append_always(void *argument)
{
    user *self = argument;
    pal_error err = {0};

    while (!atomic_load(&self->is_over) && self->status == PAL_OK) {
        pal_part part = {.kind = PAL_PART_TEXT, .text = pal_str_of("hello")};
        pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};
        pal_session wanted = {0};
        pal_id other;

        self->status = pal_store_append(
                self->store, (pal_str){0}, self->session, &message, 1, PAL_SEQ_ANY, &err);
        if (self->status == PAL_OK) /* new rows in the table that the steps change */
            self->status = pal_store_create(self->store, &wanted, &other, &err);
        atomic_fetch_add(&self->appended, 1);
    }
    if (self->status != PAL_OK)
        printf("# %s\n", err.message);
    return NULL;
}

static void wait_for_appends(user *self, size_t more)
{
    size_t until = atomic_load(&self->appended) + more;

    while (atomic_load(&self->appended) < until && self->status == PAL_OK)
        usleep(1000);
}

/* The program of the version before has its connections and prepared statements from before. */
static void a_program_that_is_running_writes_on(void)
{
    user before = {.status = PAL_OK};
    pal_postgres *store;
    pal_error err = {0};
    pthread_t thread;
    pal_session wanted = {0};

    set_back();
    CHECK_EQ(pal_store_open(getenv("PALAVER_TEST_POSTGRES"), NULL, &before.store, &err), PAL_OK);
    CHECK_EQ(pal_store_create(before.store, &wanted, &before.session, &err), PAL_OK);
    pthread_create(&thread, NULL, append_always, &before);
    store = open_engine();
    wait_for_appends(&before, 20);
    for (size_t i = MADE + 1; i <= MADE + 2; i++) {
        CHECK_STATUS(pal_postgres_migrate(store, steps, i, &err), PAL_OK, &err);
        wait_for_appends(&before, 20);
    }
    atomic_store(&before.is_over, true);
    pthread_join(thread, NULL);
    CHECK_EQ(before.status, PAL_OK);
    CHECK_EQ(version(), MADE + 3);
    CHECK_EQ((size_t)postgres_ask("SELECT count(*) FROM palaver.message"), before.appended);
    close_engine(store);
    pal_store_close(before.store);
}

/* The search index is added to a schema of version 1, which an older program can still use. */
static void version_1_gets_the_search_index(void)
{
    pal_store_options options = {0}, upgrading = {.upgrade = 1};
    pal_store_schema schema = {0};
    pal_engine *engine = NULL;
    pal_arena *arena = pal_arena_new(0);
    pal_error err = {0};

    set_back();
    postgres_ask("DROP TABLE palaver.search, palaver.search_block, palaver.search_tenant");
    postgres_ask("UPDATE palaver.meta SET version = 1");
    CHECK_EQ(pal_store_engine_open(getenv("PALAVER_TEST_POSTGRES"), &options, &engine, &err),
            PAL_INVALID);
    CHECK_CONTAINS(err.message, "palaver store migrate");
    if (CHECK_EQ(pal_store_engine_open(
                         getenv("PALAVER_TEST_POSTGRES"), &upgrading, &engine, &err), PAL_OK)) {
        CHECK_STATUS(engine->backend->schema_read(engine, arena, &schema, &err), PAL_OK, &err);
        CHECK_EQ(schema.version, 2);
        CHECK_EQ(schema.oldest_writer, 1);
        engine->backend->close(engine);
    }
    postgres_ask("DROP INDEX palaver.search_block_pos");
    engine = NULL;
    if (CHECK_EQ(pal_store_engine_open(
                         getenv("PALAVER_TEST_POSTGRES"), &options, &engine, &err), PAL_OK)) {
        CHECK_EQ(engine->backend->schema_read(engine, arena, &schema, &err), PAL_CORRUPT);
        CHECK_CONTAINS(err.message, "the index 'search_block_pos' is missing; run CREATE INDEX");
        engine->backend->close(engine);
    }
    pal_arena_free(arena);
}

int main(void)
{
    if (!getenv("PALAVER_TEST_POSTGRES"))
        return 77; /* tools/pg-test did not start a server */
    RUN(steps_are_made_once_and_in_order);
    RUN(a_contracted_schema_keeps_older_writers_out);
    RUN(a_failed_step_leaves_nothing);
    RUN(an_interrupted_index_is_built_again);
    RUN(two_processes_share_the_steps);
    RUN(an_older_schema_is_refused_with_the_remedy);
    RUN(a_program_that_is_running_writes_on);
    RUN(version_1_gets_the_search_index);
    return tap_done();
}
