/* test_store_records.c - records: versions, expiry, pages, ownership, and what deletes them. */
#include "contract/contract.h"

#include <string.h>

static pal_status put(pal_record *record, uint64_t expected_version)
{
    return pal_store_record_put(test.store, no_tenant(), record, expected_version, &test.err);
}

static pal_status find(const char *kind, const char *name, pal_record *out_record)
{
    return pal_store_record_find(
            test.store, no_tenant(), S(kind), S(name), test.arena, out_record, &test.err);
}

static pal_status drop(const char *kind, const char *name)
{
    return pal_store_record_drop(test.store, no_tenant(), S(kind), S(name), &test.err);
}

static pal_record named(const char *name)
{
    return (pal_record){.kind = S("key"), .name = S(name), .body = S("{}")};
}

static void keep(const char *name)
{
    pal_record record = named(name);

    OK(put(&record, PAL_RECORD_VERSION_ANY));
}

static bool has(const char *name)
{
    pal_record record;

    return find("key", name, &record) == PAL_OK;
}

/* The names of a page, joined by spaces, and "+" if there are more. */
static const char *page(const pal_record_query *query)
{
    static char names[256];
    pal_record_page records = {0};
    size_t len = 0;

    names[0] = '\0';
    OK(pal_store_record_list(test.store, query, test.arena, &records, &test.err));
    for (size_t i = 0; i < records.len && len < sizeof names / 2; i++)
        len += (size_t)snprintf(names + len, sizeof names - len, "%s%.*s", i ? " " : "",
                PAL_STR_ARG(records.items[i].name));
    if (records.has_more)
        snprintf(names + len, sizeof names - len, " +");
    return names;
}

static bool lists(pal_record_query query, const char *names)
{
    const char *listed;

    query.kind = S("key");
    listed = page(&query);
    if (strcmp(listed, names) != 0)
        printf("# '%s' was listed, not '%s'\n", listed, names);
    return strcmp(listed, names) == 0;
}

/* ---- Writing and finding ---- */

static void a_record_is_kept(void)
{
    pal_id session = new_session();
    pal_record given = {.kind = S("key"),
            .name = S("caf\u00e9/1"),
            .session = session,
            .body = S("{\"a\":[1,2]}"),
            .expires_at = NOW + 1000};
    pal_record found = {0};

    OK(put(&given, 0));
    CHECK_EQ(given.version, 1);
    CHECK_EQ(given.created_at, NOW);
    CHECK_EQ(given.updated_at, NOW);
    OK(find("key", "caf\u00e9/1", &found));
    CHECK_STR(found.kind, "key");
    CHECK_STR(found.name, "caf\u00e9/1");
    CHECK_ID(found.session, session);
    CHECK_STR(found.body, "{\"a\":[1,2]}");
    CHECK_EQ(found.version, 1);
    CHECK_EQ(found.created_at, NOW);
    CHECK_EQ(found.updated_at, NOW);
    CHECK_EQ(found.expires_at, NOW + 1000);
    GIVES(PAL_NOT_FOUND, find("key", "other", &found));
    GIVES(PAL_NOT_FOUND, find("other", "caf\u00e9/1", &found));
}

static void writing_again_replaces_it(void)
{
    pal_id session = new_session();
    pal_record record = named("a"), found = {0};

    record.session = session;
    record.expires_at = NOW + 5000;
    OK(put(&record, PAL_RECORD_VERSION_ANY));
    pal_clock_set_ms(NOW + 10);
    record = named("a");
    record.body = S("[true]");
    OK(put(&record, PAL_RECORD_VERSION_ANY));
    CHECK_EQ(record.version, 2);
    CHECK_EQ(record.created_at, NOW);
    CHECK_EQ(record.updated_at, NOW + 10);
    OK(find("key", "a", &found));
    CHECK_STR(found.body, "[true]");
    CHECK_EQ(found.version, 2);
    CHECK_EQ(found.expires_at, 0);
    CHECK(pal_id_is_none(found.session));
    CHECK(lists((pal_record_query){.session = session}, ""));
    CHECK(lists((pal_record_query){0}, "a"));
}

static void the_expected_version_decides(void)
{
    pal_record record = named("a"), found = {0};

    GIVES(PAL_CONFLICT, put(&record, 1));
    OK(put(&record, 0));
    GIVES(PAL_CONFLICT, put(&record, 0));
    GIVES(PAL_CONFLICT, put(&record, 2));
    record.body = S("2");
    OK(put(&record, 1));
    CHECK_EQ(record.version, 2);
    record.body = S("3");
    GIVES(PAL_CONFLICT, put(&record, 1));
    OK(find("key", "a", &found));
    CHECK_EQ(found.version, 2);
    CHECK_STR(found.body, "2");
}

static void a_dropped_record_is_not_found(void)
{
    pal_record record = named("a"), other = {.kind = S("agent"), .name = S("a"), .body = S("1")};

    GIVES(PAL_NOT_FOUND, drop("key", "a"));
    OK(put(&record, 0));
    OK(put(&other, 0));
    OK(drop("key", "a"));
    GIVES(PAL_NOT_FOUND, drop("key", "a"));
    CHECK(!has("a"));
    CHECK_STATUS(find("agent", "a", &other), PAL_OK, &test.err);
    OK(put(&record, 0));
    CHECK_EQ(record.version, 1);
}

static void wrong_records_are_refused(void)
{
    static char text[PAL_RECORD_NAME_LEN_MAX + 2];
    pal_record records[] = {named(""), named("a"), named("a"), named("a"), named("a"), named("a")};
    pal_record found, long_name = named("a"), long_kind = named("a");
    pal_record_page none;
    pal_op op = {.kind = PAL_OP_RECORD_PUT};

    memset(text, 'x', sizeof text - 1);
    records[1].kind = S("");
    records[2].body = S("");
    records[3].body = S("{\"open\":");
    records[4].name = S("not \xff UTF-8");
    records[5].expires_at = -1;
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++)
        GIVES(PAL_INVALID, put(&records[i], PAL_RECORD_VERSION_ANY));
    long_name.name = S(text);
    long_kind.kind = pal_str_make(text, PAL_RECORD_KIND_LEN_MAX + 1);
    GIVES(PAL_LIMIT, put(&long_name, PAL_RECORD_VERSION_ANY));
    GIVES(PAL_LIMIT, put(&long_kind, PAL_RECORD_VERSION_ANY));
    GIVES(PAL_INVALID, find("key", "", &found));
    GIVES(PAL_INVALID, drop("", "a"));
    GIVES(PAL_INVALID,
            pal_store_record_list(
                    test.store, &(pal_record_query){0}, test.arena, &none, &test.err));
    GIVES(PAL_LIMIT,
            pal_store_record_list(test.store,
                    &(pal_record_query){.kind = S("key"), .limit = PAL_RECORD_PAGE_MAX + 1},
                    test.arena, &none, &test.err));
    OK(pal_store_apply(test.store, &op, 1, &test.err));
    CHECK_STATUS(op.status, PAL_INVALID);
    CHECK(lists((pal_record_query){0}, ""));
}

static void a_large_body_is_kept(void)
{
    size_t len = PAL_RECORD_BODY_LEN_MAX;
    char *body = pal_arena_alloc(test.arena, len + 1);
    pal_record record = named("a"), found = {0};

    if (!CHECK(body != NULL))
        return;
    memset(body, 'x', len + 1);
    body[0] = body[len - 1] = '"';
    record.body = pal_str_make(body, len);
    OK(put(&record, 0));
    OK(find("key", "a", &found));
    CHECK_STR(found.body, record.body);
    record.body.len++;
    GIVES(PAL_LIMIT, put(&record, PAL_RECORD_VERSION_ANY));
}

/* ---- Pages ---- */

static void records_are_listed_by_name(void)
{
    pal_record other = {.kind = S("agent"), .name = S("c"), .body = S("1")};
    static const char *const names[] = {"b", "a", "d", "aa", "\u00e9", "B"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        keep(names[i]);
    OK(put(&other, 0));
    CHECK(lists((pal_record_query){0}, "B a aa b d \u00e9"));
    CHECK(lists((pal_record_query){.descending = true}, "\u00e9 d b aa a B"));
    CHECK(lists((pal_record_query){.limit = 2}, "B a +"));
    CHECK(lists((pal_record_query){.limit = 2, .after = S("a")}, "aa b +"));
    CHECK(lists((pal_record_query){.limit = 2, .after = S("b")}, "d \u00e9"));
    CHECK(lists((pal_record_query){.limit = 2, .after = S("\u00e9")}, ""));
    CHECK(lists((pal_record_query){.after = S("c")}, "d \u00e9"));
    CHECK(lists((pal_record_query){.limit = 2, .descending = true}, "\u00e9 d +"));
    CHECK(lists((pal_record_query){.limit = 3, .descending = true, .after = S("d")}, "b aa a +"));
    CHECK(lists((pal_record_query){.descending = true, .after = S("aaa")}, "aa a B"));
    CHECK(lists((pal_record_query){.descending = true, .after = S("B")}, ""));
}

static void records_are_listed_by_session(void)
{
    pal_id one = new_session(), two = new_session();
    pal_record_page none;

    for (int i = 0; i < 8; i++) {
        char name[2] = {(char)('a' + i), '\0'};
        pal_record record = named(name);

        record.session = i % 2 ? one : two;
        OK(put(&record, 0));
    }
    CHECK(lists((pal_record_query){.session = one}, "b d f h"));
    CHECK(lists((pal_record_query){.session = two, .limit = 2, .after = S("a")}, "c e +"));
    CHECK(lists((pal_record_query){.session = one, .descending = true, .after = S("f")}, "d b"));
    CHECK(lists((pal_record_query){.session = two, .descending = true, .limit = 1}, "g +"));
    GIVES(PAL_NOT_FOUND,
            pal_store_record_list(test.store,
                    &(pal_record_query){.kind = S("key"), .session = pal_id_new()}, test.arena,
                    &none, &test.err));
}

/* ---- Expiry ---- */

static void an_expired_record_is_not_there(void)
{
    pal_record record = named("a"), later = named("b");

    record.expires_at = NOW + 10;
    later.expires_at = NOW + 20;
    OK(put(&record, 0));
    OK(put(&later, 0));
    pal_clock_set_ms(NOW + 9);
    CHECK(has("a"));
    CHECK(lists((pal_record_query){0}, "a b"));
    pal_clock_set_ms(NOW + 10);
    CHECK(!has("a"));
    CHECK(lists((pal_record_query){0}, "b"));
    CHECK(lists((pal_record_query){.limit = 1}, "b"));
    GIVES(PAL_NOT_FOUND, drop("key", "a"));
    GIVES(PAL_CONFLICT, put(&record, 1));
    record.expires_at = 0;
    OK(put(&record, 0));
    CHECK_EQ(record.version, 1);
    CHECK_EQ(record.created_at, NOW + 10);
    CHECK(has("a"));
}

static void the_sweep_takes_expired_records_in_steps(void)
{
    pal_sweep_result sweep = {.has_more = true};
    int steps = 0;

    for (int i = 0; i < 9; i++) {
        char name[2] = {(char)('a' + i), '\0'};
        pal_record record = named(name);

        record.expires_at = i < 5 ? NOW + 1 + i : NOW + 1000;
        if (i == 8)
            record.expires_at = 0;
        OK(put(&record, 0));
    }
    pal_clock_set_ms(NOW + 100);
    for (; sweep.has_more && steps < 10; steps++)
        OK(pal_store_sweep(test.store, -1, 2, &sweep, &test.err));
    CHECK_EQ(steps, 3);
    CHECK_EQ(sweep.trashed, 0);
    CHECK_EQ(sweep.erased, 0);
    pal_clock_set_ms(NOW); /* otherwise records that had only expired would be back */
    CHECK(lists((pal_record_query){0}, "f g h i"));
    pal_clock_set_ms(NOW + 100);
    if (contract_is_durable()) {
        contract_reopen_store();
        pal_clock_set_ms(NOW);
        CHECK(lists((pal_record_query){0}, "f g h i"));
    }
}

/* ---- Whose they are ---- */

static void a_session_takes_its_records_along(void)
{
    pal_id session = new_session(), other = new_session();
    pal_record records[] = {named("a"), named("b"), named("c"), named("d")};
    pal_erase_result erasure = {0};

    records[0].session = records[1].session = session;
    records[2].session = other;
    for (size_t i = 0; i < 4; i++)
        OK(put(&records[i], 0));
    OK(pal_store_delete(test.store, no_tenant(), session, &test.err));
    CHECK(lists((pal_record_query){0}, "a b c d"));
    records[1].body = S("\"in the trash\"");
    OK(put(&records[1], 1));
    OK(pal_store_erase(test.store, no_tenant(), session, &erasure, &test.err));
    CHECK_EQ(erasure.records, 2);
    CHECK(lists((pal_record_query){0}, "c d"));
    GIVES(PAL_NOT_FOUND, put(&records[0], 0));
    OK(pal_store_delete(test.store, no_tenant(), other, &test.err));
    pal_clock_set_ms(NOW + DAY);
    OK(pal_store_sweep(test.store, 0, 10, NULL, &test.err));
    CHECK(lists((pal_record_query){0}, "d"));
    contract_reopen_store();
    if (contract_is_durable())
        CHECK(lists((pal_record_query){0}, "d"));
}

static void an_erased_parent_keeps_no_records(void)
{
    pal_id parent = new_session(), child;
    pal_record record = named("a"), again = named("b");
    pal_erase_result erasure = {0};

    say_words(parent, "x y");
    child = fork_at(parent, 2);
    record.session = parent;
    OK(put(&record, 0));
    OK(pal_store_erase(test.store, no_tenant(), parent, &erasure, &test.err));
    CHECK_EQ(erasure.records, 1);
    CHECK_EQ(erasure.shared, 2);
    CHECK(!has("a"));
    again.session = parent;
    GIVES(PAL_NOT_FOUND, put(&again, 0));
    OK(pal_store_erase(test.store, no_tenant(), child, &erasure, &test.err));
    CHECK_EQ(erasure.records, 0);
}

static void records_belong_to_a_tenant(void)
{
    pal_record mine = named("a"), theirs = named("a"), stranger = named("b"), found;
    pal_record_page page_of;

    mine.session = new_session();
    OK(put(&mine, 0));
    OK(pal_store_record_put(test.store, S("other"), &theirs, 0, &test.err));
    CHECK_EQ(theirs.version, 1);
    OK(pal_store_record_drop(test.store, S("other"), S("key"), S("a"), &test.err));
    CHECK(has("a"));
    GIVES(PAL_NOT_FOUND,
            pal_store_record_find(
                    test.store, S("other"), S("key"), S("a"), test.arena, &found, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_store_record_drop(test.store, S("other"), S("key"), S("a"), &test.err));
    stranger.session = mine.session;
    GIVES(PAL_NOT_FOUND, pal_store_record_put(test.store, S("other"), &stranger, 0, &test.err));
    OK(pal_store_record_list(test.store,
            &(pal_record_query){.tenant = S("other"), .kind = S("key")}, test.arena, &page_of,
            &test.err));
    CHECK_EQ(page_of.len, 0);
    CHECK(!page_of.has_more);
    GIVES(PAL_NOT_FOUND,
            pal_store_record_list(test.store,
                    &(pal_record_query){
                            .tenant = S("other"), .kind = S("key"), .session = mine.session},
                    test.arena, &page_of, &test.err));
}

/* ---- In batches ---- */

static void a_record_goes_with_an_append(void)
{
    pal_message message = text_of(PAL_ROLE_USER, "once");
    pal_id session = new_session();
    pal_record record = named("request-1");
    pal_op ops[] = {
            pal_op_record_put(no_tenant(), &record, 0),
            pal_op_append(no_tenant(), session, &message, 1, PAL_SEQ_ANY),
    };

    ops[1].with_previous = true;
    record.session = session;
    OK(pal_store_apply(test.store, ops, 2, &test.err));
    CHECK_STATUS(ops[0].status, PAL_OK);
    CHECK_STATUS(ops[1].status, PAL_OK);
    CHECK_EQ(record.version, 1);
    OK(pal_store_apply(test.store, ops, 2, &test.err)); /* the same request again */
    CHECK_STATUS(ops[0].status, PAL_CONFLICT);
    CHECK_STATUS(ops[1].status, PAL_CANCELED);
    CHECK(shows(session, "once"));
    CHECK(has("request-1"));
}

static void a_record_sees_the_operations_before_it(void)
{
    pal_session given = {.id = pal_id_new(), .key = S("key")};
    pal_record first = named("a"), second = named("a"), dropped = named("a"), third = named("a");
    pal_op ops[] = {
            pal_op_create(&given),
            pal_op_record_put(no_tenant(), &first, 0),
            pal_op_record_put(no_tenant(), &second, 1),
            pal_op_record_drop(no_tenant(), &dropped),
            pal_op_record_put(no_tenant(), &third, PAL_RECORD_VERSION_ANY),
    };

    ops[1].with_previous = true;
    first.session = given.id;
    OK(pal_store_apply(test.store, ops, 5, &test.err));
    for (size_t i = 0; i < 5; i++)
        if (!CHECK_STATUS(ops[i].status, PAL_OK))
            printf("# operation %zu: %s\n", i, ops[i].error.message);
    CHECK_EQ(first.version, 1);
    CHECK_EQ(second.version, 2);
    CHECK_EQ(third.version, 1);
}

static void a_record_heeds_the_fence(void)
{
    pal_id session = new_session(), elsewhere = new_session();
    uint64_t stale = 0, fence = 0;
    pal_record record = named("a");
    pal_op op = pal_op_record_put(no_tenant(), &record, PAL_RECORD_VERSION_ANY);

    op.session = session;
    record.session = elsewhere;
    OK(pal_store_lease_take(test.store, no_tenant(), session, S("a"), 1000, &stale, &test.err));
    pal_clock_set_ms(NOW + 2000);
    OK(pal_store_lease_take(test.store, no_tenant(), session, S("b"), 1000, &fence, &test.err));
    op.fence = stale;
    OK(pal_store_apply(test.store, &op, 1, &test.err));
    CHECK_STATUS(op.status, PAL_DENIED);
    CHECK(!has("a"));
    op.fence = fence;
    OK(pal_store_apply(test.store, &op, 1, &test.err));
    CHECK_STATUS(op.status, PAL_OK);
    CHECK(has("a"));
    op.kind = PAL_OP_RECORD_DROP;
    op.fence = stale;
    OK(pal_store_apply(test.store, &op, 1, &test.err));
    CHECK_STATUS(op.status, PAL_DENIED);
    CHECK(has("a"));
    op.session = (pal_id){{0}};
    OK(pal_store_apply(test.store, &op, 1, &test.err));
    CHECK_STATUS(op.status, PAL_INVALID);
    CHECK(has("a"));
}

/* ---- Afterwards ---- */

static void records_are_there_after_opening_again(void)
{
    pal_id session = new_session();
    pal_record record = named("a"), dropped = named("b"), found = {0};

    record.session = session;
    record.expires_at = NOW + DAY;
    OK(put(&record, 0));
    pal_clock_set_ms(NOW + 5);
    record.body = S("{\"n\":2}");
    OK(put(&record, 1));
    OK(put(&dropped, 0));
    OK(drop("key", "b"));
    contract_reopen_store();
    OK(find("key", "a", &found));
    CHECK_EQ(found.version, 2);
    CHECK_EQ(found.created_at, NOW);
    CHECK_EQ(found.updated_at, NOW + 5);
    CHECK_ID(found.session, session);
    CHECK_EQ(found.expires_at, NOW + DAY);
    CHECK_STR(found.body, "{\"n\":2}");
    CHECK(!has("b"));
    OK(put(&record, 2));
    CHECK_EQ(record.version, 3);
}

void contract_records(void)
{
    RUN(a_record_is_kept);
    RUN(writing_again_replaces_it);
    RUN(the_expected_version_decides);
    RUN(a_dropped_record_is_not_found);
    RUN(wrong_records_are_refused);
    RUN(a_large_body_is_kept);
    RUN(records_are_listed_by_name);
    RUN(records_are_listed_by_session);
    RUN(an_expired_record_is_not_there);
    RUN(the_sweep_takes_expired_records_in_steps);
    RUN(a_session_takes_its_records_along);
    RUN(an_erased_parent_keeps_no_records);
    RUN(records_belong_to_a_tenant);
    RUN(a_record_goes_with_an_append);
    RUN(a_record_sees_the_operations_before_it);
    RUN(a_record_heeds_the_fence);
    if (contract_is_durable())
        RUN(records_are_there_after_opening_again);
}
