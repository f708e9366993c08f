/* test_store_sessions.c - creating, finding and updating sessions. */
#include "contract/contract.h"

static pal_str aliases_ab[] = {{"alias-a", 7}, {"alias-b", 7}};

static pal_session full_session(void)
{
    pal_session session = {
            .key = S("key-1"),
            .aliases = aliases_ab,
            .aliases_len = 2,
            .title = S("A title with \xc3\xa9"),
            .project = S("project"),
            .agent = S("agent"),
            .scope = S("{\"room\":\"!x:y\"}"),
            .metadata = S("{\"n\":1.50,\"deep\":{\"a\":[1,2]}}"),
            .expires_at = NOW + DAY,
    };
    return session;
}

static bool same_fields(const pal_session *a, const pal_session *b)
{
    bool same = pal_str_equal(a->key, b->key) && pal_str_equal(a->title, b->title) &&
            pal_str_equal(a->project, b->project) && pal_str_equal(a->agent, b->agent) &&
            pal_str_equal(a->scope, b->scope) && pal_str_equal(a->metadata, b->metadata) &&
            a->expires_at == b->expires_at && a->aliases_len == b->aliases_len;

    for (size_t i = 0; same && i < a->aliases_len; i++)
        same = pal_str_equal(a->aliases[i], b->aliases[i]);
    return same;
}

static void a_session_comes_back_as_it_was_given(void)
{
    pal_session given = full_session(), found;
    pal_id id;

    if (!OK(pal_store_create(test.store, &given, &id, &test.err)))
        return;
    found = get_session(id);
    CHECK(same_fields(&given, &found));
    CHECK_ID(found.id, id);
    CHECK(!pal_id_is_none(id));
    CHECK_EQ(found.state, PAL_SESSION_ACTIVE);
    CHECK_STR(found.tenant, "default");
    CHECK_EQ(found.created_at, NOW);
    CHECK_EQ(found.updated_at, NOW);
    CHECK_EQ(found.deleted_at, 0);
    CHECK_EQ(found.last_seq, 0);
    CHECK_EQ(found.tokens, 0);
    CHECK_EQ(found.bytes, 0);
    CHECK_EQ(found.fork_seq, 0);
    CHECK(pal_id_is_none(found.parent_id));
}

static void a_session_is_found_by_id_key_and_alias(void)
{
    pal_session given = full_session();
    char text[PAL_ID_TEXT_SIZE];
    pal_id id;

    OK(pal_store_create(test.store, &given, &id, &test.err));
    pal_id_to_text(id, text);
    CHECK(leads_to(PAL_SESSION_BY_ID, text, id));
    CHECK(leads_to(PAL_SESSION_BY_KEY, "key-1", id));
    CHECK(leads_to(PAL_SESSION_BY_ALIAS, "alias-a", id));
    CHECK(leads_to(PAL_SESSION_BY_ALIAS, "alias-b", id));
    CHECK(leads_to(PAL_SESSION_BY_ANY, text, id));
    CHECK(leads_to(PAL_SESSION_BY_ANY, "key-1", id));
    CHECK(leads_to(PAL_SESSION_BY_ANY, "alias-b", id));
    GIVES(PAL_NOT_FOUND, find_status(PAL_SESSION_BY_KEY, text));
    GIVES(PAL_NOT_FOUND, find_status(PAL_SESSION_BY_KEY, "alias-a"));
    GIVES(PAL_NOT_FOUND, find_status(PAL_SESSION_BY_ALIAS, "key-1"));
    GIVES(PAL_NOT_FOUND, find_status(PAL_SESSION_BY_ID, "key-1"));
    GIVES(PAL_NOT_FOUND, find_status(PAL_SESSION_BY_ANY, "nobody"));
}

static void a_key_comes_before_an_alias(void)
{
    pal_str alias = S("name");
    pal_session other = {.aliases = &alias, .aliases_len = 1};
    pal_id with_key = new_session_with_key("name"), with_alias;

    OK(pal_store_create(test.store, &other, &with_alias, &test.err));
    CHECK(leads_to(PAL_SESSION_BY_ANY, "name", with_key));
    CHECK(leads_to(PAL_SESSION_BY_ALIAS, "name", with_alias));
}

static void id_and_time_of_creation_may_be_given(void)
{
    pal_session given = {.id = pal_id_new(), .created_at = 12345}, found;
    pal_id id;

    OK(pal_store_create(test.store, &given, &id, &test.err));
    CHECK_ID(given.id, id);
    found = get_session(id);
    CHECK_EQ(found.created_at, 12345);
    CHECK_EQ(found.updated_at, NOW);
    GIVES(PAL_CONFLICT, pal_store_create(test.store, &given, &id, &test.err));
}

static void an_empty_tenant_is_the_default(void)
{
    pal_session given = {.tenant = S("default"), .key = S("k")}, found;
    pal_id id;

    OK(pal_store_create(test.store, &given, &id, &test.err));
    CHECK(leads_to(PAL_SESSION_BY_KEY, "k", id));
    OK(pal_store_find(
            test.store, S("default"), PAL_SESSION_BY_KEY, S("k"), test.arena, &found, &test.err));
    CHECK_ID(found.id, id);
}

static void a_key_is_unique_among_active_sessions(void)
{
    pal_session given = {.key = S("k")};
    pal_id first = new_session_with_key("k"), second;

    GIVES(PAL_CONFLICT, pal_store_create(test.store, &given, &second, &test.err));
    OK(pal_store_delete(test.store, no_tenant(), first, &test.err));
    OK(pal_store_create(test.store, &given, &second, &test.err));
    CHECK(leads_to(PAL_SESSION_BY_KEY, "k", second));
}

static void an_alias_is_unique_among_active_sessions(void)
{
    pal_session given = {.aliases = aliases_ab, .aliases_len = 2};
    pal_session other = {.key = S("k"), .aliases = aliases_ab + 1, .aliases_len = 1};
    pal_id first, second;

    OK(pal_store_create(test.store, &given, &first, &test.err));
    GIVES(PAL_CONFLICT, pal_store_create(test.store, &other, &second, &test.err));
    CHECK_CONTAINS(test.err.message, "alias-b");
    GIVES(PAL_NOT_FOUND, find_status(PAL_SESSION_BY_KEY, "k"));
    OK(pal_store_delete(test.store, no_tenant(), first, &test.err));
    OK(pal_store_create(test.store, &other, &second, &test.err));
    CHECK(leads_to(PAL_SESSION_BY_ALIAS, "alias-b", second));
    GIVES(PAL_NOT_FOUND, find_status(PAL_SESSION_BY_ALIAS, "alias-a"));
}

static void create_or_find_finds_the_first(void)
{
    pal_session given = {.key = S("k"), .title = S("other")};
    pal_op op = {.kind = PAL_OP_CREATE, .u.create = {.session = &given, .or_find = true}};
    pal_op again = op;

    OK(pal_store_apply(test.store, &op, 1, &test.err));
    CHECK_STATUS(op.status, PAL_OK);
    CHECK(!op.u.create.existing);
    again.u.create.existing = false;
    OK(pal_store_apply(test.store, &again, 1, &test.err));
    CHECK_STATUS(again.status, PAL_OK);
    CHECK(again.u.create.existing);
    CHECK_ID(op.session, again.session);
    OK(pal_store_delete(test.store, no_tenant(), op.session, &test.err));
    again = (pal_op){.kind = PAL_OP_CREATE, .u.create = {.session = &given, .or_find = true}};
    OK(pal_store_apply(test.store, &again, 1, &test.err));
    CHECK_STATUS(again.status, PAL_OK);
    CHECK(!again.u.create.existing);
    CHECK(!pal_id_equal(op.session, again.session));
}

static void an_update_sets_the_named_fields_only(void)
{
    static const uint32_t fields[] = {PAL_SESSION_FIELD_TITLE, PAL_SESSION_FIELD_PROJECT,
            PAL_SESSION_FIELD_AGENT, PAL_SESSION_FIELD_METADATA, PAL_SESSION_FIELD_SCOPE,
            PAL_SESSION_FIELD_EXPIRES_AT, PAL_SESSION_FIELD_KEY, PAL_SESSION_FIELD_ALIASES};
    static pal_str alias = {"alias-c", 7};
    pal_session want = full_session(), found, change;
    pal_id id;

    OK(pal_store_create(test.store, &want, &id, &test.err));
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        change = (pal_session){.id = id,
                .title = S("t2"),
                .project = S("p2"),
                .agent = S("a2"),
                .metadata = S("{\"m\":2}"),
                .scope = S("{\"s\":2}"),
                .expires_at = NOW + 2 * DAY,
                .key = S("key-2"),
                .aliases = &alias,
                .aliases_len = 1};
        pal_clock_set_ms(NOW + 1 + (int64_t)i);
        OK(pal_store_update(test.store, &change, fields[i], &test.err));
        want.title = fields[i] == PAL_SESSION_FIELD_TITLE ? change.title : want.title;
        want.project = fields[i] == PAL_SESSION_FIELD_PROJECT ? change.project : want.project;
        want.agent = fields[i] == PAL_SESSION_FIELD_AGENT ? change.agent : want.agent;
        want.metadata = fields[i] == PAL_SESSION_FIELD_METADATA ? change.metadata : want.metadata;
        want.scope = fields[i] == PAL_SESSION_FIELD_SCOPE ? change.scope : want.scope;
        want.expires_at =
                fields[i] == PAL_SESSION_FIELD_EXPIRES_AT ? NOW + 2 * DAY : want.expires_at;
        want.key = fields[i] == PAL_SESSION_FIELD_KEY ? change.key : want.key;
        if (fields[i] == PAL_SESSION_FIELD_ALIASES) {
            want.aliases = &alias;
            want.aliases_len = 1;
        }
        found = get_session(id);
        CHECK(same_fields(&want, &found));
        CHECK_EQ(found.updated_at, NOW + 1 + (int64_t)i);
        CHECK_EQ(found.created_at, NOW);
    }
}

static void an_update_moves_the_names(void)
{
    static pal_str bc[] = {{"alias-b", 7}, {"alias-c", 7}};
    pal_session given = full_session();
    pal_session change = {.key = S("key-2"), .aliases = bc, .aliases_len = 2};

    OK(pal_store_create(test.store, &given, &change.id, &test.err));
    OK(pal_store_update(
            test.store, &change, PAL_SESSION_FIELD_KEY | PAL_SESSION_FIELD_ALIASES, &test.err));
    CHECK(leads_to(PAL_SESSION_BY_KEY, "key-2", change.id));
    CHECK(leads_to(PAL_SESSION_BY_ALIAS, "alias-b", change.id));
    CHECK(leads_to(PAL_SESSION_BY_ALIAS, "alias-c", change.id));
    GIVES(PAL_NOT_FOUND, find_status(PAL_SESSION_BY_KEY, "key-1"));
    GIVES(PAL_NOT_FOUND, find_status(PAL_SESSION_BY_ALIAS, "alias-a"));
    new_session_with_key("key-1");
    change.key = S(NULL);
    change.aliases_len = 0;
    OK(pal_store_update(
            test.store, &change, PAL_SESSION_FIELD_KEY | PAL_SESSION_FIELD_ALIASES, &test.err));
    GIVES(PAL_NOT_FOUND, find_status(PAL_SESSION_BY_KEY, "key-2"));
    GIVES(PAL_NOT_FOUND, find_status(PAL_SESSION_BY_ALIAS, "alias-b"));
}

static void an_update_that_conflicts_changes_nothing(void)
{
    static pal_str ac[] = {{"alias-c", 7}, {"alias-a", 7}};
    pal_session given = full_session(), found;
    pal_session change = {.title = S("new"), .key = S("free"), .aliases = ac, .aliases_len = 2};
    pal_id first;

    OK(pal_store_create(test.store, &given, &first, &test.err));
    change.id = new_session_with_key("key-2");
    GIVES(PAL_CONFLICT,
            pal_store_update(test.store, &change,
                    PAL_SESSION_FIELD_TITLE | PAL_SESSION_FIELD_KEY | PAL_SESSION_FIELD_ALIASES,
                    &test.err));
    CHECK_CONTAINS(test.err.message, "alias-a");
    change.key = S("key-1");
    GIVES(PAL_CONFLICT,
            pal_store_update(test.store, &change, PAL_SESSION_FIELD_TITLE | PAL_SESSION_FIELD_KEY,
                    &test.err));
    found = get_session(change.id);
    CHECK_STR(found.key, "key-2");
    CHECK_EQ(found.title.len, 0);
    CHECK_EQ(found.aliases_len, 0);
    CHECK(leads_to(PAL_SESSION_BY_KEY, "key-2", change.id));
    CHECK(leads_to(PAL_SESSION_BY_KEY, "key-1", first));
    GIVES(PAL_NOT_FOUND, find_status(PAL_SESSION_BY_KEY, "free"));
    GIVES(PAL_NOT_FOUND, find_status(PAL_SESSION_BY_ALIAS, "alias-c"));
}

static void an_unknown_session_can_not_be_written(void)
{
    pal_session change = {.id = pal_id_new()};
    pal_message message = text_of(PAL_ROLE_USER, "x");

    GIVES(PAL_NOT_FOUND, pal_store_update(test.store, &change, PAL_SESSION_FIELD_TITLE, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_store_append(
                    test.store, no_tenant(), change.id, &message, 1, PAL_SEQ_ANY, &test.err));
    GIVES(PAL_NOT_FOUND, pal_store_delete(test.store, no_tenant(), change.id, &test.err));
    GIVES(PAL_NOT_FOUND, find_id_status(change.id));
    GIVES(PAL_NOT_FOUND, fork_status(change.id, 0));
}

static void bad_sessions_are_refused(void)
{
    static char long_title[PAL_TITLE_LEN_MAX + 2];
    pal_str twice[] = {S("same"), S("same")};
    pal_str empty[] = {S("")};
    pal_session bad_key = {.key = S("\xff\xfe")}, bad_metadata = {.metadata = S("[1]")};
    pal_session bad_scope = {.scope = S("{")}, bad_time = {.expires_at = -1};
    pal_session bad_twice = {.aliases = twice, .aliases_len = 2};
    pal_session bad_empty = {.aliases = empty, .aliases_len = 1};
    pal_session bad_title = {.title = {long_title, PAL_TITLE_LEN_MAX + 1}};
    pal_session_page page;
    pal_session_query query = {0};
    pal_id id;

    memset(long_title, 'x', sizeof long_title - 1);
    GIVES(PAL_INVALID, pal_store_create(test.store, &bad_key, &id, &test.err));
    GIVES(PAL_INVALID, pal_store_create(test.store, &bad_metadata, &id, &test.err));
    GIVES(PAL_INVALID, pal_store_create(test.store, &bad_scope, &id, &test.err));
    GIVES(PAL_INVALID, pal_store_create(test.store, &bad_time, &id, &test.err));
    GIVES(PAL_INVALID, pal_store_create(test.store, &bad_twice, &id, &test.err));
    GIVES(PAL_INVALID, pal_store_create(test.store, &bad_empty, &id, &test.err));
    GIVES(PAL_LIMIT, pal_store_create(test.store, &bad_title, &id, &test.err));
    OK(pal_store_list(test.store, &query, test.arena, &page, &test.err));
    CHECK_EQ(page.sessions_len, 0);
}

static void many_sessions_are_found(void)
{
    char key[16];
    pal_id ids[300];

    for (int i = 0; i < 300; i++) {
        snprintf(key, sizeof key, "key%d", i);
        ids[i] = new_session_with_key(key);
    }
    for (int i = 0; i < 300; i++) {
        snprintf(key, sizeof key, "key%d", i);
        CHECK(leads_to(PAL_SESSION_BY_KEY, key, ids[i]));
    }
}

void contract_sessions(void)
{
    RUN(a_session_comes_back_as_it_was_given);
    RUN(a_session_is_found_by_id_key_and_alias);
    RUN(a_key_comes_before_an_alias);
    RUN(id_and_time_of_creation_may_be_given);
    RUN(an_empty_tenant_is_the_default);
    RUN(a_key_is_unique_among_active_sessions);
    RUN(an_alias_is_unique_among_active_sessions);
    RUN(create_or_find_finds_the_first);
    RUN(an_update_sets_the_named_fields_only);
    RUN(an_update_moves_the_names);
    RUN(an_update_that_conflicts_changes_nothing);
    RUN(an_unknown_session_can_not_be_written);
    RUN(bad_sessions_are_refused);
    RUN(many_sessions_are_found);
}
