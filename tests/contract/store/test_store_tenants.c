/* test_store_tenants.c - a tenant can't see, guess or disturb another tenant's sessions: every call
 * with the other one's ids says that there is no such thing, and changes nothing. */
#include "contract/contract.h"

static const char blob_data[] = "bytes of the owner";

/* What the owner has. */
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
    OK(pal_store_create(store, &session, &owned, &err));
    OK(pal_store_append(store, owner(), owned, messages, 2, 0, &err));
    message_id = messages[0].id;
    OK(pal_store_mark(store, owner(), owned, &mark, &err));
    OK(pal_store_fork(store, &fork, owned, 1, &child, &err));
    OK(pal_store_inbox_add(store, owner(), owned, &item, &err));
    item_id = item.id;
    OK(pal_store_lease_take(store, owner(), owned, S("me"), 100000, &fence, &err));
    OK(pal_store_ledger_add(store, owner(), owned, &row, &err));
    OK(pal_store_blob_put(store, owner(), S("text/plain"), S(blob_data), blob_name, &err));
}

/* Everything that a guest could have disturbed. */
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
    OK(pal_store_find(store, owner(), PAL_SESSION_BY_ID, S(text), arena, &found, &err));
    CHECK_EQ(found.state, PAL_SESSION_ACTIVE);
    CHECK_EQ(found.last_seq, 2);
    CHECK_EQ(found.title.len, 0);
    OK(pal_store_find(store, owner(), PAL_SESSION_BY_KEY, S("key"), arena, &found, &err));
    OK(pal_store_find(store, owner(), PAL_SESSION_BY_ALIAS, S("alias"), arena, &found, &err));
    OK(pal_store_load(store, owner(), owned, NULL, arena, &loaded, &err));
    CHECK_EQ(loaded.len, 2);
    OK(pal_store_load(store, owner(), child, NULL, arena, &loaded, &err));
    CHECK_EQ(loaded.len, 1);
    OK(pal_store_marks(store, owner(), owned, arena, &marks, &len, &err));
    CHECK_EQ(len, 1);
    OK(pal_store_inbox_list(store, owner(), owned, arena, &items, &len, &err));
    CHECK_EQ(len, 1);
    OK(pal_store_lease_find(store, owner(), owned, arena, &lease, &err));
    CHECK_STR(lease.owner, "me");
    CHECK_EQ(lease.fence, fence);
    OK(pal_store_ledger_sum(
            store, &(pal_ledger_query){.tenant = owner(), .session = owned}, &sum, &err));
    CHECK_EQ(sum.calls, 1);
    CHECK_EQ(sum.usage.input, 5);
    OK(pal_store_blob_get(store, owner(), S(blob_name), arena, &media_type, &data, &err));
    CHECK_STR(data, blob_data);
}

static void a_guest_reads_nothing(void)
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
            pal_store_find(store, guest(), PAL_SESSION_BY_ANY, S(text), arena, &found, &err));
    GIVES(PAL_NOT_FOUND,
            pal_store_find(store, guest(), PAL_SESSION_BY_ID, S(text), arena, &found, &err));
    GIVES(PAL_NOT_FOUND,
            pal_store_find(store, guest(), PAL_SESSION_BY_KEY, S("key"), arena, &found, &err));
    GIVES(PAL_NOT_FOUND,
            pal_store_find(store, guest(), PAL_SESSION_BY_ALIAS, S("alias"), arena, &found, &err));
    OK(pal_store_list(store, &query, arena, &page, &err));
    CHECK_EQ(page.sessions_len, 0);
    GIVES(PAL_NOT_FOUND, pal_store_load(store, guest(), owned, NULL, arena, &loaded, &err));
    GIVES(PAL_NOT_FOUND, pal_store_load(store, guest(), child, NULL, arena, &loaded, &err));
    GIVES(PAL_NOT_FOUND, pal_store_message(store, guest(), message_id, arena, &message, &id, &err));
    GIVES(PAL_NOT_FOUND, pal_store_marks(store, guest(), owned, arena, &marks, &len, &err));
    GIVES(PAL_NOT_FOUND, pal_store_inbox_list(store, guest(), owned, arena, &items, &len, &err));
    GIVES(PAL_NOT_FOUND, pal_store_lease_find(store, guest(), owned, arena, &lease, &err));
    GIVES(PAL_NOT_FOUND,
            pal_store_ledger_sum(
                    store, &(pal_ledger_query){.tenant = guest(), .session = owned}, &sum, &err));
    OK(pal_store_ledger_sum(store, &(pal_ledger_query){.tenant = guest()}, &sum, &err));
    CHECK_EQ(sum.calls, 0);
    GIVES(PAL_NOT_FOUND,
            pal_store_blob_get(store, guest(), S(blob_name), arena, &media_type, &data, &err));
}

static void a_guest_writes_nothing(void)
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
    GIVES(PAL_NOT_FOUND, pal_store_append(store, guest(), owned, &message, 1, PAL_SEQ_ANY, &err));
    GIVES(PAL_NOT_FOUND, pal_store_update(store, &change, PAL_SESSION_FIELD_TITLE, &err));
    GIVES(PAL_NOT_FOUND, pal_store_fork(store, &record, owned, 1, &id, &err));
    GIVES(PAL_NOT_FOUND, pal_store_fork(store, &record, owned, 0, &id, &err));
    GIVES(PAL_NOT_FOUND, pal_store_mark(store, guest(), owned, &mark, &err));
    GIVES(PAL_NOT_FOUND, pal_store_mark(store, guest(), owned, &undo_mark, &err));
    GIVES(PAL_NOT_FOUND, pal_store_reset(store, guest(), owned, true, NULL, &err));
    GIVES(PAL_NOT_FOUND, pal_store_reset(store, guest(), owned, false, NULL, &err));
    GIVES(PAL_NOT_FOUND, pal_store_delete(store, guest(), owned, &err));
    GIVES(PAL_NOT_FOUND, pal_store_restore(store, guest(), owned, &err));
    GIVES(PAL_NOT_FOUND, pal_store_erase(store, guest(), owned, NULL, &err));
    GIVES(PAL_NOT_FOUND, pal_store_inbox_add(store, guest(), owned, &item, &err));
    GIVES(PAL_NOT_FOUND, pal_store_inbox_drop(store, guest(), owned, item_id, &err));
    GIVES(PAL_NOT_FOUND, pal_store_lease_take(store, guest(), owned, S("me"), 1000, &got, &err));
    GIVES(PAL_NOT_FOUND, pal_store_lease_release(store, guest(), owned, fence, &err));
    GIVES(PAL_NOT_FOUND, pal_store_ledger_add(store, guest(), owned, &row, &err));
    owner_has_everything();
}

static void a_guest_restores_nothing(void)
{
    pal_session found;

    prepare();
    OK(pal_store_delete(store, owner(), owned, &err));
    GIVES(PAL_NOT_FOUND, pal_store_restore(store, guest(), owned, &err));
    GIVES(PAL_NOT_FOUND,
            pal_store_find(store, owner(), PAL_SESSION_BY_KEY, S("key"), arena, &found, &err));
    OK(pal_store_restore(store, owner(), owned, &err));
    owner_has_everything();
}

static void a_guest_may_use_the_same_names(void)
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
    OK(pal_store_create(store, &session, &id, &err));
    OK(pal_store_append(store, guest(), id, &message, 1, 0, &err));
    OK(pal_store_inbox_add(store, guest(), id, &item, &err));
    OK(pal_store_ledger_add(store, guest(), id, &row, &err));
    OK(pal_store_load(store, guest(), id, NULL, arena, &loaded, &err));
    if (CHECK_EQ(loaded.len, 1))
        CHECK_STR(loaded.items[0].parts[0].text, "mine");
    OK(pal_store_ledger_sum(
            store, &(pal_ledger_query){.tenant = guest(), .session = unknown}, &sum, &err));
    CHECK_EQ(sum.calls, 1);
    CHECK_EQ(sum.usage.input, 7);
    OK(pal_store_delete(store, guest(), id, &err));
    OK(pal_store_erase(store, guest(), id, NULL, &err));
    owner_has_everything();
}

/* A guest who knows the hash can't get the bytes by naming them in a message. */
static void a_guest_names_no_blob_of_others(void)
{
    pal_part part = {.kind = PAL_PART_FILE};
    pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};
    pal_session session = {.tenant = guest()};
    pal_str media_type, data;
    char name[PAL_BLOB_NAME_SIZE];
    pal_id id;

    prepare();
    part.blob = S(blob_name);
    OK(pal_store_create(store, &session, &id, &err));
    GIVES(PAL_NOT_FOUND, pal_store_append(store, guest(), id, &message, 1, 0, &err));
    OK(pal_store_blob_put(store, guest(), S("mine"), S(blob_data), name, &err));
    CHECK_STR(name, blob_name);
    OK(pal_store_append(store, guest(), id, &message, 1, 0, &err));
    OK(pal_store_erase(store, guest(), id, NULL, &err));
    GIVES(PAL_NOT_FOUND,
            pal_store_blob_get(store, guest(), S(name), arena, &media_type, &data, &err));
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
    GIVES(PAL_INVALID, pal_store_create(store, &bad, &id, &err));
    GIVES(PAL_LIMIT, pal_store_create(store, &too_long, &id, &err));
    GIVES(PAL_INVALID,
            pal_store_list(store, &(pal_session_query){.tenant = S("\xff")}, arena, &page, &err));
}

void contract_tenants(void)
{
    RUN(a_guest_reads_nothing);
    RUN(a_guest_writes_nothing);
    RUN(a_guest_restores_nothing);
    RUN(a_guest_may_use_the_same_names);
    RUN(a_guest_names_no_blob_of_others);
    RUN(bad_tenants_are_refused);
}
