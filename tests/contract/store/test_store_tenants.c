/* test_store_tenants.c - a tenant cannot see, guess or disturb the sessions of another tenant:
 * every call with the other tenant's ids returns PAL_NOT_FOUND and changes nothing. */
#include "contract/contract.h"

static const char blob_data[] = "bytes of the owner";

/* The data of the owner. */
static pal_id owned, child, message_id, item_id;
static uint64_t fence;
static char blob_name[PAL_BLOB_NAME_SIZE];

static pal_str owner(void)
{
    return pal_str_of("owner");
}

static pal_str guest(void)
{
    return pal_str_of("guest");
}

static void prepare(void)
{
    pal_str alias = S("alias");
    pal_session session = {.tenant = owner(), .key = S("key"), .aliases = &alias, .aliases_len = 1};
    pal_session fork = {.tenant = owner()};
    pal_message messages[] = {text_of(PAL_ROLE_USER, "a"), text_of(PAL_ROLE_USER, "b")};
    pal_mark mark = {.kind = PAL_MARK_PIN, .seq = 1};
    pal_inbox_item item = {.body = S("{}"), .client_id = S("c")};
    pal_ledger_row row = {.request_id = S("r"), .usage = {.input = 5}};

    messages[0].client_id = S("client");
    OK(pal_store_create(test.store, &session, &owned, &test.err));
    OK(pal_store_append(test.store, owner(), owned, messages, 2, 0, &test.err));
    message_id = messages[0].id;
    OK(pal_store_mark(test.store, owner(), owned, &mark, &test.err));
    OK(pal_store_fork(test.store, &fork, owned, 1, &child, &test.err));
    OK(pal_store_inbox_add(test.store, owner(), owned, &item, &test.err));
    item_id = item.id;
    OK(pal_store_lease_take(test.store, owner(), owned, S("me"), 100000, &fence, &test.err));
    OK(pal_store_ledger_add(test.store, owner(), owned, &row, &test.err));
    OK(pal_store_blob_put(
            test.store, owner(), S("text/plain"), S(blob_data), blob_name, &test.err));
}

/* Checks everything that a guest could have disturbed. */
static void owner_has_everything(void)
{
    char text[PAL_ID_TEXT_SIZE];
    pal_message_page loaded = {0};
    pal_inbox_item *items;
    pal_ledger_sum sum = {0};
    pal_session found = {0};
    pal_lease lease = {0};
    pal_str media_type, data = {0};
    pal_mark *marks;
    size_t len = 0;

    pal_id_to_text(owned, text);
    OK(pal_store_find(
            test.store, owner(), PAL_SESSION_BY_ID, S(text), test.arena, &found, &test.err));
    CHECK_EQ(found.state, PAL_SESSION_ACTIVE);
    CHECK_EQ(found.last_seq, 2);
    CHECK_EQ(found.title.len, 0);
    OK(pal_store_find(
            test.store, owner(), PAL_SESSION_BY_KEY, S("key"), test.arena, &found, &test.err));
    OK(pal_store_find(
            test.store, owner(), PAL_SESSION_BY_ALIAS, S("alias"), test.arena, &found, &test.err));
    OK(pal_store_load(test.store, owner(), owned, NULL, test.arena, &loaded, &test.err));
    CHECK_EQ(loaded.len, 2);
    OK(pal_store_load(test.store, owner(), child, NULL, test.arena, &loaded, &test.err));
    CHECK_EQ(loaded.len, 1);
    OK(pal_store_marks(test.store, owner(), owned, test.arena, &marks, &len, &test.err));
    CHECK_EQ(len, 1);
    OK(pal_store_inbox_list(test.store, owner(), owned, test.arena, &items, &len, &test.err));
    CHECK_EQ(len, 1);
    OK(pal_store_lease_find(test.store, owner(), owned, test.arena, &lease, &test.err));
    CHECK_STR(lease.owner, "me");
    CHECK_EQ(lease.fence, fence);
    OK(pal_store_ledger_sum(
            test.store, &(pal_ledger_query){.tenant = owner(), .session = owned}, &sum, &test.err));
    CHECK_EQ(sum.calls, 1);
    CHECK_EQ(sum.usage.input, 5);
    OK(pal_store_blob_get(
            test.store, owner(), S(blob_name), test.arena, &media_type, &data, &test.err));
    CHECK_STR(data, blob_data);
}

static void another_tenant_reads_nothing(void)
{
    char text[PAL_ID_TEXT_SIZE];
    pal_session_query query = {.tenant = guest()};
    pal_session_page page;
    pal_message_page loaded;
    pal_message message;
    pal_inbox_item *items;
    pal_ledger_sum sum;
    pal_session found;
    pal_lease lease;
    pal_str media_type, data;
    pal_mark *marks;
    pal_id id;
    size_t len;

    prepare();
    pal_id_to_text(owned, text);
    GIVES(PAL_NOT_FOUND,
            pal_store_find(test.store, guest(), PAL_SESSION_BY_ANY, S(text), test.arena, &found,
                    &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_store_find(test.store, guest(), PAL_SESSION_BY_ID, S(text), test.arena, &found,
                    &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_store_find(test.store, guest(), PAL_SESSION_BY_KEY, S("key"), test.arena, &found,
                    &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_store_find(test.store, guest(), PAL_SESSION_BY_ALIAS, S("alias"), test.arena,
                    &found, &test.err));
    OK(pal_store_list(test.store, &query, test.arena, &page, &test.err));
    CHECK_EQ(page.sessions_len, 0);
    GIVES(PAL_NOT_FOUND,
            pal_store_load(test.store, guest(), owned, NULL, test.arena, &loaded, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_store_load(test.store, guest(), child, NULL, test.arena, &loaded, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_store_message(
                    test.store, guest(), message_id, test.arena, &message, &id, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_store_marks(test.store, guest(), owned, test.arena, &marks, &len, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_store_inbox_list(test.store, guest(), owned, test.arena, &items, &len, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_store_lease_find(test.store, guest(), owned, test.arena, &lease, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_store_ledger_sum(test.store,
                    &(pal_ledger_query){.tenant = guest(), .session = owned}, &sum, &test.err));
    OK(pal_store_ledger_sum(test.store, &(pal_ledger_query){.tenant = guest()}, &sum, &test.err));
    CHECK_EQ(sum.calls, 0);
    GIVES(PAL_NOT_FOUND,
            pal_store_blob_get(
                    test.store, guest(), S(blob_name), test.arena, &media_type, &data, &test.err));
}

static void another_tenant_writes_nothing(void)
{
    pal_message message = text_of(PAL_ROLE_USER, "intruder");
    pal_session change = {.tenant = guest(), .title = S("intruder")};
    pal_session record = {.tenant = guest()};
    pal_mark mark = {.kind = PAL_MARK_REWIND}, undo_mark = {.kind = PAL_MARK_UNDO, .target = 1};
    pal_inbox_item item = {.body = S("{}")};
    pal_ledger_row row = {.request_id = S("r2")};
    uint64_t got;
    pal_id id;

    prepare();
    change.id = owned;
    GIVES(PAL_NOT_FOUND,
            pal_store_append(test.store, guest(), owned, &message, 1, PAL_SEQ_ANY, &test.err));
    GIVES(PAL_NOT_FOUND, pal_store_update(test.store, &change, PAL_SESSION_FIELD_TITLE, &test.err));
    GIVES(PAL_NOT_FOUND, pal_store_fork(test.store, &record, owned, 1, &id, &test.err));
    GIVES(PAL_NOT_FOUND, pal_store_fork(test.store, &record, owned, 0, &id, &test.err));
    GIVES(PAL_NOT_FOUND, pal_store_mark(test.store, guest(), owned, &mark, &test.err));
    GIVES(PAL_NOT_FOUND, pal_store_mark(test.store, guest(), owned, &undo_mark, &test.err));
    GIVES(PAL_NOT_FOUND, pal_store_reset(test.store, guest(), owned, true, NULL, &test.err));
    GIVES(PAL_NOT_FOUND, pal_store_reset(test.store, guest(), owned, false, NULL, &test.err));
    GIVES(PAL_NOT_FOUND, pal_store_delete(test.store, guest(), owned, &test.err));
    GIVES(PAL_NOT_FOUND, pal_store_restore(test.store, guest(), owned, &test.err));
    GIVES(PAL_NOT_FOUND, pal_store_erase(test.store, guest(), owned, NULL, &test.err));
    GIVES(PAL_NOT_FOUND, pal_store_inbox_add(test.store, guest(), owned, &item, &test.err));
    GIVES(PAL_NOT_FOUND, pal_store_inbox_drop(test.store, guest(), owned, item_id, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_store_lease_take(test.store, guest(), owned, S("me"), 1000, &got, &test.err));
    GIVES(PAL_NOT_FOUND, pal_store_lease_release(test.store, guest(), owned, fence, &test.err));
    GIVES(PAL_NOT_FOUND, pal_store_ledger_add(test.store, guest(), owned, &row, &test.err));
    owner_has_everything();
}

static void another_tenant_restores_nothing(void)
{
    pal_session found;

    prepare();
    OK(pal_store_delete(test.store, owner(), owned, &test.err));
    GIVES(PAL_NOT_FOUND, pal_store_restore(test.store, guest(), owned, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_store_find(test.store, owner(), PAL_SESSION_BY_KEY, S("key"), test.arena, &found,
                    &test.err));
    OK(pal_store_restore(test.store, owner(), owned, &test.err));
    owner_has_everything();
}

static void another_tenant_may_use_the_same_names(void)
{
    pal_str alias = S("alias");
    pal_session session = {.tenant = guest(), .key = S("key"), .aliases = &alias, .aliases_len = 1};
    pal_message message = text_of(PAL_ROLE_USER, "mine");
    pal_inbox_item item = {.body = S("{\"mine\":1}"), .client_id = S("c")};
    pal_ledger_row row = {.request_id = S("r"), .usage = {.input = 7}};
    pal_message_page loaded;
    pal_ledger_sum sum;
    pal_id id, unknown = {{0}};

    prepare();
    message.client_id = S("client");
    OK(pal_store_create(test.store, &session, &id, &test.err));
    OK(pal_store_append(test.store, guest(), id, &message, 1, 0, &test.err));
    OK(pal_store_inbox_add(test.store, guest(), id, &item, &test.err));
    OK(pal_store_ledger_add(test.store, guest(), id, &row, &test.err));
    OK(pal_store_load(test.store, guest(), id, NULL, test.arena, &loaded, &test.err));
    if (CHECK_EQ(loaded.len, 1))
        CHECK_STR(loaded.items[0].parts[0].text, "mine");
    OK(pal_store_ledger_sum(test.store, &(pal_ledger_query){.tenant = guest(), .session = unknown},
            &sum, &test.err));
    CHECK_EQ(sum.calls, 1);
    CHECK_EQ(sum.usage.input, 7);
    OK(pal_store_delete(test.store, guest(), id, &test.err));
    OK(pal_store_erase(test.store, guest(), id, NULL, &test.err));
    owner_has_everything();
}

/* A guest who knows the hash of a blob cannot get its bytes by naming them in a message. */
static void another_tenants_blob_is_not_found(void)
{
    pal_part part = {.kind = PAL_PART_FILE};
    pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};
    pal_session session = {.tenant = guest()};
    pal_str media_type, data;
    char name[PAL_BLOB_NAME_SIZE];
    pal_id id;

    prepare();
    part.blob = S(blob_name);
    OK(pal_store_create(test.store, &session, &id, &test.err));
    GIVES(PAL_NOT_FOUND, pal_store_append(test.store, guest(), id, &message, 1, 0, &test.err));
    OK(pal_store_blob_put(test.store, guest(), S("mine"), S(blob_data), name, &test.err));
    CHECK_STR(name, blob_name);
    OK(pal_store_append(test.store, guest(), id, &message, 1, 0, &test.err));
    OK(pal_store_erase(test.store, guest(), id, NULL, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_store_blob_get(
                    test.store, guest(), S(name), test.arena, &media_type, &data, &test.err));
    owner_has_everything();
}

static void bad_tenants_are_refused(void)
{
    static char long_name[PAL_TENANT_LEN_MAX + 2];
    pal_session bad = {.tenant = S("\xff")}, too_long = {.tenant = S(long_name)};
    pal_session_page page;
    pal_id id;

    memset(long_name, 'x', PAL_TENANT_LEN_MAX + 1);
    too_long.tenant = S(long_name);
    GIVES(PAL_INVALID, pal_store_create(test.store, &bad, &id, &test.err));
    GIVES(PAL_LIMIT, pal_store_create(test.store, &too_long, &id, &test.err));
    GIVES(PAL_INVALID,
            pal_store_list(test.store, &(pal_session_query){.tenant = S("\xff")}, test.arena, &page,
                    &test.err));
}

void contract_tenants(void)
{
    RUN(another_tenant_reads_nothing);
    RUN(another_tenant_writes_nothing);
    RUN(another_tenant_restores_nothing);
    RUN(another_tenant_may_use_the_same_names);
    RUN(another_tenants_blob_is_not_found);
    RUN(bad_tenants_are_refused);
}
