/* test_store_reopen.c - the contents of a store after it was closed and opened again. */
#include "contract/contract.h"

static void everything_is_there_after_opening_again(void)
{
    pal_str alias = S("alias"), media_type, data;
    pal_session given = {.key = S("key"),
            .aliases = &alias,
            .aliases_len = 1,
            .title = S("t"),
            .project = S("p"),
            .agent = S("a"),
            .metadata = S("{\"m\":1}"),
            .scope = S("{\"s\":1}")};
    pal_inbox_item item = {.body = S("{}"), .delivery = S("queue")}, *items;
    pal_ledger_row row = {.request_id = S("r"), .usage = {.input = 3}};
    pal_message again = text_of(PAL_ROLE_USER, "again");
    char name[PAL_BLOB_NAME_SIZE];
    pal_id id, child, trashed = new_session();
    pal_ledger_sum sum = {0};
    pal_session found;
    uint64_t fence, next = 0;
    size_t len = 0;

    OK(pal_store_create(test.store, &given, &id, &test.err));
    say_words(id, "a b c");
    again.client_id = S("c1");
    OK(pal_store_append(test.store, no_tenant(), id, &again, 1, 3, &test.err));
    rewind_to(id, 2);
    child = fork_at(id, 4);
    say(child, "x");
    OK(pal_store_inbox_add(test.store, no_tenant(), id, &item, &test.err));
    OK(pal_store_ledger_add(test.store, no_tenant(), id, &row, &test.err));
    OK(pal_store_lease_take(test.store, no_tenant(), id, S("me"), 1000, &fence, &test.err));
    OK(pal_store_blob_put(test.store, no_tenant(), S("x/y"), S("bytes"), name, &test.err));
    OK(pal_store_delete(test.store, no_tenant(), trashed, &test.err));
    contract_reopen_store();
    found = get_session(id);
    CHECK_STR(found.title, "t");
    CHECK_STR(found.project, "p");
    CHECK_STR(found.agent, "a");
    CHECK_STR(found.metadata, "{\"m\":1}");
    CHECK_STR(found.scope, "{\"s\":1}");
    CHECK_EQ(found.last_seq, 4);
    CHECK_THAT(found.bytes, >, 0);
    CHECK_EQ(found.created_at, NOW);
    CHECK_EQ(found.updated_at, NOW);
    CHECK_THAT(found.tokens, >, 0);
    CHECK(leads_to(PAL_SESSION_BY_KEY, "key", id));
    CHECK(leads_to(PAL_SESSION_BY_ALIAS, "alias", id));
    CHECK(shows(id, "a b"));
    CHECK(shows(child, "a b c again x"));
    OK(pal_store_inbox_list(test.store, no_tenant(), id, test.arena, &items, &len, &test.err));
    if (CHECK_EQ(len, 1))
        CHECK_ID(items[0].id, item.id);
    OK(pal_store_ledger_sum(test.store, &(pal_ledger_query){.session = id}, &sum, &test.err));
    CHECK_EQ(sum.calls, 1);
    CHECK_EQ(sum.usage.input, 3);
    GIVES(PAL_BUSY,
            pal_store_lease_take(test.store, no_tenant(), id, S("you"), 10, &next, &test.err));
    OK(pal_store_blob_get(
            test.store, no_tenant(), S(name), test.arena, &media_type, &data, &test.err));
    CHECK_STR(data, "bytes");
    CHECK_STR(media_type, "x/y");
    CHECK_EQ(get_session(trashed).state, PAL_SESSION_TRASH);
    again = text_of(PAL_ROLE_USER, "again");
    again.client_id = S("c1");
    OK(pal_store_append(test.store, no_tenant(), id, &again, 1, PAL_SEQ_ANY, &test.err));
    CHECK_EQ(again.seq, 4);
    CHECK_EQ(get_session(id).last_seq, 4);
    OK(undo(id, 0));
    CHECK(shows(id, "a b c again"));
}

static void the_fence_outlives_the_process(void)
{
    pal_id id = new_session();
    uint64_t first = 0, second = 0;

    OK(pal_store_lease_take(test.store, no_tenant(), id, S("a"), 1000, &first, &test.err));
    OK(pal_store_lease_release(test.store, no_tenant(), id, first, &test.err));
    contract_reopen_store();
    OK(pal_store_lease_take(test.store, no_tenant(), id, S("b"), 1000, &second, &test.err));
    CHECK_THAT(second, >, first);
}

static void a_read_only_store_reads(void)
{
    pal_store_options options = {.read_only = true};
    pal_message message = text_of(PAL_ROLE_USER, "x");
    pal_id id = new_session();

    say_words(id, "a b");
    contract_open_with(&options);
    CHECK(shows(id, "a b"));
    GIVES(PAL_DENIED,
            pal_store_append(test.store, no_tenant(), id, &message, 1, PAL_SEQ_ANY, &test.err));
    contract_reopen_store();
    if (CHECK(shows(id, "a b")))
        CHECK_EQ(say(id, "c"), 3);
}

static void two_stores_share_the_file(void)
{
    pal_id id = new_session();
    pal_store *other = NULL;
    pal_message message = text_of(PAL_ROLE_USER, "b");

    say(id, "a");
    if (!OK(pal_store_open(test.url, NULL, &other, &test.err)))
        return;
    OK(pal_store_append(other, no_tenant(), id, &message, 1, 1, &test.err));
    CHECK_EQ(say(id, "c"), 3);
    CHECK(shows(id, "a b c"));
    pal_store_close(other);
}

static void a_given_time_of_change_stays(void)
{
    pal_id id = new_session_with_key("old");
    pal_session change = {.id = id, .updated_at = NOW - DAY};

    say_words(id, "a b");
    OK(pal_store_update(test.store, &change, PAL_SESSION_FIELD_UPDATED_AT, &test.err));
    CHECK_EQ(get_session(id).updated_at, NOW - DAY);
    contract_reopen_store();
    CHECK_EQ(get_session(id).updated_at, NOW - DAY);
    say_words(id, "c");
    CHECK_THAT(get_session(id).updated_at, >, NOW - DAY);
}

void contract_reopen(void)
{
    if (!contract_is_durable())
        return;
    RUN(everything_is_there_after_opening_again);
    RUN(a_given_time_of_change_stays);
    RUN(the_fence_outlives_the_process);
    RUN(a_read_only_store_reads);
    RUN(two_stores_share_the_file);
}
