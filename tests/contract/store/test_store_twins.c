/* test_store_twins.c - two tenants can have sessions and messages with the same ids, for example
 * after both imported the same export. Each call sees and changes only the session of its tenant,
 * and erasing one session leaves the other one complete. */
#include <string.h>

#include "contract/contract.h"

enum { TWINS = 3 };

/* Names that can and that cannot be part of a file name. */
static const char *const names[TWINS] = {"default", "acme", "../evil/x"};

static const pal_id the_session = {{0x51, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};
static const pal_id the_fork = {{0x52, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};
static const pal_id the_messages[2] = {{{0x53, 1}}, {{0x54, 1}}};

static pal_str name_of(int twin)
{
    return S(names[twin]);
}

/* A store in memory stays open. */
static void reopen(void)
{
    if (contract_is_durable())
        contract_reopen_store();
}

/* "first of1": no text occurs in two tenants. */
static const char *text_for(int twin, const char *what)
{
    static char texts[8][64];
    static unsigned next;
    char *text = texts[next++ % 8];

    snprintf(text, sizeof texts[0], "%s of%d", what, twin);
    return text;
}

static pal_status say_to(int twin, pal_id session, const pal_id *id, const char *text)
{
    pal_message message = text_of(PAL_ROLE_USER, text_for(twin, text));

    if (id)
        message.id = *id;
    return pal_store_append(
            test.store, name_of(twin), session, &message, 1, PAL_SEQ_ANY, &test.err);
}

static void put_record(int twin, const char *name)
{
    pal_record record = {.kind = S("kind"), .name = S(name), .session = the_session};
    char body[64];

    snprintf(body, sizeof body, "{\"of\":%d}", twin);
    record.body = S(body);
    OK(pal_store_record_put(test.store, name_of(twin), &record, 0, &test.err));
}

static void make_twin(int twin)
{
    pal_session session = {.tenant = name_of(twin), .id = the_session, .key = S("key")};
    pal_session fork = {.tenant = name_of(twin), .id = the_fork};
    pal_mark mark = {.kind = PAL_MARK_PIN, .seq = 1};
    pal_inbox_item item = {.body = S("{}"), .client_id = S("item")};
    pal_ledger_row row = {.request_id = S("r"), .usage = {.input = (uint64_t)twin + 1}};
    uint64_t fence;
    pal_id id;

    session.title = S(text_for(twin, "title"));
    OK(pal_store_create(test.store, &session, &id, &test.err));
    CHECK_ID(id, the_session);
    OK(say_to(twin, the_session, &the_messages[0], "first"));
    OK(say_to(twin, the_session, &the_messages[1], "second"));
    OK(pal_store_fork(test.store, &fork, the_session, 1, &id, &test.err));
    OK(say_to(twin, the_fork, NULL, "third"));
    OK(pal_store_mark(test.store, name_of(twin), the_session, &mark, &test.err));
    OK(pal_store_inbox_add(test.store, name_of(twin), the_session, &item, &test.err));
    OK(pal_store_lease_take(
            test.store, name_of(twin), the_session, name_of(twin), DAY, &fence, &test.err));
    OK(pal_store_ledger_add(test.store, name_of(twin), the_session, &row, &test.err));
    put_record(twin, "record");
}

static void make_twins(void)
{
    for (int i = 0; i < TWINS; i++)
        make_twin(i);
}

static bool session_shows(int twin, pal_id session, const char *const *texts, size_t len)
{
    pal_message_page loaded = {0};
    bool same;

    OK(pal_store_load(test.store, name_of(twin), session, NULL, test.arena, &loaded, &test.err));
    same = loaded.len == len;
    for (size_t i = 0; same && i < len; i++)
        same = pal_str_is(loaded.items[i].parts[0].text, text_for(twin, texts[i]));
    return same;
}

static size_t hits(int twin, pal_id session, const char *word)
{
    pal_search_query search = {.tenant = name_of(twin), .session = session, .text = S(word)};
    pal_search_page found = {0};

    OK(pal_store_search(test.store, &search, test.arena, &found, &test.err));
    for (size_t i = 0; i < found.len; i++)
        CHECK_CONTAINS(
                pal_arena_copy(test.arena, found.items[i].snippet).data, text_for(twin, word));
    return found.len;
}

static void finds_its_own(int twin)
{
    char text[PAL_ID_TEXT_SIZE];
    pal_session found = {0};
    pal_message message = {0};
    pal_id session = {{0}};

    pal_id_to_text(the_session, text);
    OK(pal_store_find(
            test.store, name_of(twin), PAL_SESSION_BY_ID, S(text), test.arena, &found, &test.err));
    if (CHECK_STR(found.title, text_for(twin, "title")))
        CHECK_EQ(found.last_seq, 2);
    CHECK_STR(found.tenant, names[twin]);
    OK(pal_store_message(
            test.store, name_of(twin), the_messages[0], test.arena, &message, &session, &test.err));
    CHECK_STR(message.parts[0].text, text_for(twin, "first"));
    CHECK_ID(session, the_session);
}

static void has_its_own(int twin)
{
    pal_record_query query = {.tenant = name_of(twin), .kind = S("kind"), .session = the_session};
    pal_ledger_sum sum = {0};
    pal_record_page records = {0};
    pal_inbox_item *items;
    pal_lease lease = {0};
    pal_mark *marks;
    size_t len = 0;
    char body[64];

    OK(pal_store_marks(
            test.store, name_of(twin), the_session, test.arena, &marks, &len, &test.err));
    CHECK_EQ(len, 1);
    OK(pal_store_inbox_list(
            test.store, name_of(twin), the_session, test.arena, &items, &len, &test.err));
    CHECK_EQ(len, 1);
    OK(pal_store_lease_find(test.store, name_of(twin), the_session, test.arena, &lease, &test.err));
    CHECK_STR(lease.owner, names[twin]);
    CHECK_EQ(lease.fence, 1);
    OK(pal_store_ledger_sum(test.store,
            &(pal_ledger_query){.tenant = name_of(twin), .session = the_session}, &sum, &test.err));
    CHECK_EQ(sum.calls, 1);
    CHECK_EQ(sum.usage.input, (uint64_t)twin + 1);
    OK(pal_store_record_list(test.store, &query, test.arena, &records, &test.err));
    snprintf(body, sizeof body, "{\"of\":%d}", twin);
    if (CHECK_EQ(records.len, 1))
        CHECK_STR(records.items[0].body, body);
}

static void is_complete(int twin)
{
    static const char *const own[] = {"first", "second"}, *const forked[] = {"first", "third"};

    finds_its_own(twin);
    has_its_own(twin);
    CHECK(session_shows(twin, the_session, own, 2));
    CHECK(session_shows(twin, the_fork, forked, 2));
    CHECK_THAT(hits(twin, (pal_id){{0}}, "first"), >, 0);
    CHECK_EQ(hits(twin, the_session, "second"), 1);
}

static void all_are_complete(void)
{
    for (int i = 0; i < TWINS; i++)
        is_complete(i);
}

static void twins_are_kept_apart(void)
{
    make_twins();
    all_are_complete();
}

static void twins_are_kept_apart_on_disk(void)
{
    make_twins();
    reopen();
    all_are_complete();
    for (int i = 0; i < TWINS; i++)
        OK(pal_store_delete(test.store, name_of(i), the_session, &test.err));
    reopen();
    for (int i = 0; i < TWINS; i++)
        OK(pal_store_restore(test.store, name_of(i), the_session, &test.err));
    all_are_complete();
    reopen();
    all_are_complete();
}

static void an_id_is_used_only_in_its_tenant(void)
{
    pal_session again = {.tenant = name_of(1), .id = the_session};
    pal_message twice[2] = {text_of(PAL_ROLE_USER, "a"), text_of(PAL_ROLE_USER, "b")};
    pal_id id;

    make_twins();
    GIVES(PAL_CONFLICT, pal_store_create(test.store, &again, &id, &test.err));
    GIVES(PAL_CONFLICT, say_to(1, the_fork, &the_messages[0], "again"));
    twice[0].id = twice[1].id = (pal_id){{0x77}};
    GIVES(PAL_CONFLICT,
            pal_store_append(test.store, name_of(1), the_fork, twice, 2, PAL_SEQ_ANY, &test.err));
    again.tenant = S("newcomer");
    OK(pal_store_create(test.store, &again, &id, &test.err));
    all_are_complete();
}

static void writes_go_to_their_own_tenant(void)
{
    static const char *const longer[] = {"first", "second", "more"};
    pal_session change = {.tenant = name_of(1), .id = the_session};
    pal_mark mark = {.kind = PAL_MARK_REWIND, .seq = 1};
    pal_inbox_item *items;
    uint64_t fence;
    size_t len = 0;

    make_twins();
    OK(say_to(1, the_session, NULL, "more"));
    CHECK(session_shows(1, the_session, longer, 3));
    OK(pal_store_mark(test.store, name_of(1), the_session, &mark, &test.err));
    CHECK(session_shows(1, the_session, longer, 1));
    change.title = S("another");
    OK(pal_store_update(test.store, &change, PAL_SESSION_FIELD_TITLE, &test.err));
    OK(pal_store_inbox_list(
            test.store, name_of(1), the_session, test.arena, &items, &len, &test.err));
    OK(pal_store_inbox_drop(test.store, name_of(1), the_session, items[0].id, &test.err));
    OK(pal_store_lease_release(test.store, name_of(1), the_session, 1, &test.err));
    OK(pal_store_lease_take(
            test.store, name_of(1), the_session, S("next"), DAY, &fence, &test.err));
    OK(pal_store_record_drop(test.store, name_of(1), S("kind"), S("record"), &test.err));
    is_complete(0);
    is_complete(2);
    reopen();
    CHECK(session_shows(1, the_session, longer, 1));
    is_complete(0);
    is_complete(2);
}

static void erasing_one_leaves_the_others(void)
{
    static const char *const forked[] = {"first", "third"};
    pal_erase_result erasure = {0};

    make_twins();
    for (int i = 0; i < TWINS; i++) {
        OK(pal_store_erase(test.store, name_of(i), the_session, &erasure, &test.err));
        CHECK_EQ(erasure.messages, 1);
        CHECK_EQ(erasure.shared, 1);
        CHECK_EQ(erasure.records, 1);
        CHECK(session_shows(i, the_fork, forked, 2));
        reopen();
        CHECK(session_shows(i, the_fork, forked, 2));
        OK(pal_store_erase(test.store, name_of(i), the_fork, &erasure, &test.err));
        CHECK_EQ(hits(i, (pal_id){{0}}, "first"), 0);
        for (int j = i + 1; j < TWINS; j++)
            is_complete(j);
        reopen();
        for (int j = i + 1; j < TWINS; j++)
            is_complete(j);
    }
}

static void sweeping_one_leaves_the_others(void)
{
    pal_sweep_result sweep = {0};

    make_twins();
    OK(pal_store_delete(test.store, name_of(1), the_fork, &test.err));
    OK(pal_store_delete(test.store, name_of(1), the_session, &test.err));
    pal_clock_set_ms(NOW + 10);
    OK(pal_store_sweep(test.store, 5, 100, &sweep, &test.err));
    CHECK_EQ(sweep.erased, 2);
    pal_clock_set_ms(NOW);
    is_complete(0);
    is_complete(2);
    reopen();
    is_complete(0);
    is_complete(2);
    GIVES(PAL_NOT_FOUND, say_to(1, the_session, NULL, "gone"));
}

/* One session per page: the end of a page must not hide the session of the next tenant. */
static void owners_of_inboxes_are_listed_one_by_one(void)
{
    pal_inbox_owner after = {.tenant = S("")}, *owners;
    size_t seen = 0, len = 0;

    make_twins();
    do {
        OK(pal_store_inbox_owners(
                test.store, seen ? &after : NULL, 1, test.arena, &owners, &len, &test.err));
        if (len == 1)
            after = owners[0];
        seen += len;
    } while (len == 1 && seen <= TWINS);
    CHECK_EQ(seen, TWINS);
}

void contract_twins(void)
{
    RUN(twins_are_kept_apart);
    RUN(twins_are_kept_apart_on_disk);
    RUN(an_id_is_used_only_in_its_tenant);
    RUN(writes_go_to_their_own_tenant);
    RUN(erasing_one_leaves_the_others);
    RUN(sweeping_one_leaves_the_others);
    RUN(owners_of_inboxes_are_listed_one_by_one);
}
