/* test_postgres_pooler.c - a store behind pgbouncer in transaction mode. The contract suite runs
 * through it too; here are the settings that a pooler cannot pass on. */
#include <stdlib.h>
#include <string.h>
#include "postgres_ask.h"
#include "palaver/palaver.h"
#include "support/tap.h"

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

static void append_some(pal_store *store)
{
    pal_session wanted = {0};
    pal_error err = {0};
    pal_id session;

    if (!CHECK_EQ(pal_store_create(store, &wanted, &session, &err), PAL_OK))
        return;
    for (int i = 0; i < 20; i++) {
        pal_part part = {.kind = PAL_PART_TEXT, .text = pal_str_of("hello")};
        pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};

        CHECK_EQ(pal_store_append(store, (pal_str){0}, session, &message, 1, PAL_SEQ_ANY, &err),
                PAL_OK);
        CHECK_EQ(message.seq, (uint64_t)i + 1);
    }
}

static void a_pooler_is_noticed_without_a_parameter(void)
{
    pal_error err;
    pal_store *store = open_store("", &err);

    if (CHECK(store))
        append_some(store);
    pal_store_close(store);
}

static void the_printed_settings_are_those_of_the_role(void)
{
    pal_store_schema schema = {0};
    pal_arena *arena = pal_arena_new(0);
    pal_error err;
    pal_store *store = open_store("&prepare=no", &err);

    if (CHECK(store) && CHECK_EQ(pal_store_schema_read(store, arena, &schema, &err), PAL_OK)) {
        char *settings = strdup(schema.settings.data);

        CHECK_CONTAINS(schema.settings, "ALTER ROLE \"postgres\" SET enable_seqscan = 'off';\n");
        CHECK_CONTAINS(schema.settings, "default_transaction_isolation = 'read committed';\n");
        CHECK_CONTAINS(schema.settings, "synchronous_commit = 'on';\n");
        for (char *c = settings; *c; c++)
            *c = *c == '"' ? ' ' : *c; /* the role needs no quotes */
        postgres_ask(settings);
        CHECK_THAT(postgres_ask("SELECT array_length(rolconfig, 1) FROM pg_roles"
                                " WHERE rolname = 'postgres'"), >=, 9);
        append_some(store);
        free(settings);
    }
    pal_store_close(store);
    pal_arena_free(arena);
}

int main(void)
{
    if (!getenv("PALAVER_TEST_POSTGRES"))
        return 77; /* tools/pg-test did not start a server */
    RUN(a_pooler_is_noticed_without_a_parameter);
    RUN(the_printed_settings_are_those_of_the_role);
    return tap_done();
}
