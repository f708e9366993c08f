/* test_store_resolve.c - finds the session of a message from the result of routing. */
#include "contract/contract.h"

#include <string.h>

#define MAIN_ALIAS "agent:main:main"

static pal_resolve_result resolution;

/* Resolves a routed key with a list of aliases, separated by spaces. The main alias is
 * `MAIN_ALIAS`. */
static pal_status resolve_status(const char *key, const char *aliases, bool is_main)
{
    pal_str list[16];
    pal_session wanted = {.key = S(key), .aliases = list, .scope = S("{\"version\":1}")};
    pal_resolve_request resolve = {
            .session = &wanted, .main_alias = S(MAIN_ALIAS), .is_main = is_main};

    while (*aliases) {
        size_t len = strcspn(aliases, " ");

        list[wanted.aliases_len++] = pal_str_make(aliases, len);
        aliases += len + (aliases[len] == ' ');
    }
    memset(&resolution, 0, sizeof resolution);
    return pal_store_resolve(test.store, &resolve, &resolution, &test.err);
}

static pal_id resolve(const char *key, const char *aliases)
{
    OK(resolve_status(key, aliases, false));
    return resolution.session;
}

static pal_id resolve_explicit(const char *key)
{
    pal_session wanted = {.key = S(key)};
    pal_resolve_request explicit = {
            .session = &wanted, .main_alias = S(MAIN_ALIAS), .is_explicit = true};

    memset(&resolution, 0, sizeof resolution);
    OK(pal_store_resolve(test.store, &explicit, &resolution, &test.err));
    return resolution.session;
}

static void a_key_is_created_once_and_then_found(void)
{
    pal_id id = resolve("sk_v1_a", MAIN_ALIAS " agent:main:direct:u1");

    CHECK(resolution.created);
    CHECK(!resolution.adopted);
    CHECK_ID(resolve("sk_v1_a", MAIN_ALIAS " agent:main:direct:u1"), id);
    CHECK(!resolution.created);
    CHECK(leads_to(PAL_SESSION_BY_KEY, "sk_v1_a", id));
    CHECK(leads_to(PAL_SESSION_BY_ALIAS, "agent:main:direct:u1", id));
}

static void the_list_is_kept_and_the_main_alias_leads_to_the_main_session(void)
{
    pal_id chat = resolve("sk_v1_a", MAIN_ALIAS " agent:main:direct:u1");
    pal_id other = resolve("sk_v1_b", MAIN_ALIAS);

    CHECK_EQ(get_session(chat).aliases_len, 2);
    CHECK_STR(get_session(chat).aliases[0], MAIN_ALIAS);
    GIVES(PAL_NOT_FOUND, find_status(PAL_SESSION_BY_ALIAS, MAIN_ALIAS));
    OK(resolve_status("sk_v1_main", MAIN_ALIAS, true));
    CHECK(leads_to(PAL_SESSION_BY_ALIAS, MAIN_ALIAS, resolution.session));
    CHECK(!pal_id_equal(resolution.session, chat));
    CHECK(!pal_id_equal(chat, other));
}

static void an_alias_of_another_session_is_not_a_conflict(void)
{
    pal_id first = resolve("sk_v1_a", "shared own:a");
    pal_id second = resolve("sk_v1_b", "shared own:b");

    CHECK(leads_to(PAL_SESSION_BY_ALIAS, "shared", first));
    CHECK(leads_to(PAL_SESSION_BY_ALIAS, "own:b", second));
    CHECK_EQ(get_session(second).aliases_len, 2);
    OK(pal_store_delete(test.store, no_tenant(), second, &test.err));
    OK(pal_store_restore(test.store, no_tenant(), second, &test.err));
    CHECK_EQ(get_session(second).aliases_len, 2);
    CHECK(leads_to(PAL_SESSION_BY_ALIAS, "shared", first));
    CHECK(leads_to(PAL_SESSION_BY_ALIAS, "own:b", second));
}

static void the_trash_keeps_the_main_alias_apart(void)
{
    pal_id chat = resolve("sk_v1_a", MAIN_ALIAS " own:a");

    OK(pal_store_delete(test.store, no_tenant(), chat, &test.err));
    OK(pal_store_restore(test.store, no_tenant(), chat, &test.err));
    GIVES(PAL_NOT_FOUND, find_status(PAL_SESSION_BY_ALIAS, MAIN_ALIAS));
    CHECK_EQ(get_session(chat).aliases_len, 2);
    CHECK(leads_to(PAL_SESSION_BY_ALIAS, "own:a", chat));
}

static void a_changed_list_replaces_the_old_one(void)
{
    pal_id id = resolve("sk_v1_a", "one two");

    CHECK_ID(resolve("sk_v1_a", "two three"), id);
    GIVES(PAL_NOT_FOUND, find_status(PAL_SESSION_BY_ALIAS, "one"));
    CHECK(leads_to(PAL_SESSION_BY_ALIAS, "two", id));
    CHECK(leads_to(PAL_SESSION_BY_ALIAS, "three", id));
    CHECK_STR(get_session(id).scope, "{\"version\":1}");
}

static void legacy_history_is_adopted(void)
{
    pal_id legacy = new_session_with_key("agent:main:direct:u1");
    pal_id canonical;

    say_words(legacy, "a b c");
    canonical = resolve("sk_v1_a", MAIN_ALIAS " agent:main:direct:u1");
    CHECK(resolution.created);
    CHECK(resolution.adopted);
    CHECK(shows(canonical, "a b c"));
    CHECK_EQ(say(canonical, "d"), 4);
    CHECK(shows(canonical, "a b c d"));
    CHECK(shows(legacy, "a b c"));
    resolve("sk_v1_a", MAIN_ALIAS " agent:main:direct:u1");
    CHECK(!resolution.adopted);
    CHECK(shows(canonical, "a b c d"));
}

static void hidden_legacy_messages_stay_hidden(void)
{
    pal_id legacy = new_session_with_key("old");
    pal_id canonical;

    say_words(legacy, "a b c");
    rewind_to(legacy, 2);
    canonical = resolve("sk_v1_a", "old");
    CHECK(resolution.adopted);
    CHECK(shows(canonical, "a b"));
    OK(pal_store_erase(test.store, no_tenant(), legacy, NULL, &test.err));
    CHECK(shows(canonical, "a b"));
}

static void a_session_with_history_adopts_nothing(void)
{
    pal_id canonical = resolve("sk_v1_a", "old");
    pal_id legacy;

    say_words(canonical, "mine");
    legacy = new_session_with_key("old");
    say_words(legacy, "a b");
    resolve("sk_v1_a", "old");
    CHECK(!resolution.adopted);
    CHECK(shows(canonical, "mine"));
    CHECK(shows(legacy, "a b"));
}

static void a_session_with_a_checkpoint_adopts_nothing(void)
{
    pal_id canonical = resolve("sk_v1_a", "old");
    pal_mark mark = {.kind = PAL_MARK_CHECKPOINT, .body = S("{\"summary\":\"s\"}")};

    OK(pal_store_mark(test.store, no_tenant(), canonical, &mark, &test.err));
    say_words(new_session_with_key("old"), "a b");
    resolve("sk_v1_a", "old");
    CHECK(!resolution.adopted);
    CHECK(shows(canonical, ""));
}

static void the_main_alias_is_never_adopted_from(void)
{
    say_words(new_session_with_key(MAIN_ALIAS), "a b");
    CHECK(shows(resolve("sk_v1_a", MAIN_ALIAS), ""));
    CHECK(!resolution.adopted);
}

static void the_first_alias_with_history_wins(void)
{
    new_session_with_key("empty");
    say_words(new_session_with_key("first"), "1");
    say_words(new_session_with_key("second"), "2");
    CHECK(shows(resolve("sk_v1_a", "empty missing first second"), "1"));
}

static void an_empty_session_adopts_later(void)
{
    pal_id canonical = resolve("sk_v1_a", "old");

    say_words(new_session_with_key("old"), "a b");
    resolve("sk_v1_a", "old");
    CHECK(resolution.adopted);
    CHECK(!resolution.created);
    CHECK(shows(canonical, "a b"));
}

static void an_explicit_key_may_be_an_alias(void)
{
    pal_id legacy = new_session_with_key("agent:main:direct:u1");
    pal_id canonical;

    CHECK_ID(resolve_explicit("agent:main:direct:u1"), legacy);
    say_words(legacy, "a");
    canonical = resolve("sk_v1_a", "agent:main:direct:u1");
    CHECK_ID(resolve_explicit("agent:main:direct:u1"), canonical);
    CHECK_ID(resolve_explicit("sk_v1_a"), canonical);
    resolve_explicit("agent:new");
    CHECK(resolution.created);
    CHECK(leads_to(PAL_SESSION_BY_KEY, "agent:new", resolution.session));
}

static void a_chat_adopts_nothing_from_one_that_lists_its_alias(void)
{
    pal_id first = resolve("sk_v1_a", MAIN_ALIAS " agent:main:direct:4711 own:a");
    pal_id second;

    say_words(first, "secret");
    second = resolve("sk_v1_b", MAIN_ALIAS " agent:main:direct:4711 own:b");
    CHECK(resolution.created);
    CHECK(!resolution.adopted);
    CHECK(shows(second, ""));
    resolve("sk_v1_b", MAIN_ALIAS " agent:main:direct:4711 own:b");
    CHECK(!resolution.adopted);
    CHECK(shows(second, ""));
    CHECK(shows(first, "secret"));
    /* Also not if the list names a routed session by its key. */
    CHECK(shows(resolve("sk_v1_c", "sk_v1_a own:c"), ""));
    CHECK(!resolution.adopted);
    CHECK(leads_to(PAL_SESSION_BY_ALIAS, "agent:main:direct:4711", first));
}

static void a_legacy_history_is_adopted_by_one_chat_only(void)
{
    pal_id first, second;

    say_words(new_session_with_key("agent:main:direct:4711"), "a b");
    first = resolve("sk_v1_a", "agent:main:direct:4711 own:a");
    CHECK(resolution.adopted);
    CHECK(shows(first, "a b"));
    second = resolve("sk_v1_b", "agent:main:direct:4711 own:b");
    CHECK(!resolution.adopted);
    CHECK(shows(second, ""));
}

static void an_own_alias_as_explicit_key_is_the_own_chat(void)
{
    pal_session wanted = {.key = S("agent:main:direct:4711")};
    pal_resolve_request own = {.session = &wanted, .is_explicit = true, .routed_key = S("sk_v1_b")};
    pal_id first = resolve("sk_v1_a", "agent:main:direct:4711 own:a");
    pal_id second = resolve("sk_v1_b", "agent:main:direct:4711 own:b");

    OK(pal_store_resolve(test.store, &own, &resolution, &test.err));
    CHECK_ID(resolution.session, second);
    own.routed_key = S("sk_v1_c");
    OK(pal_store_resolve(test.store, &own, &resolution, &test.err));
    CHECK(!pal_id_equal(resolution.session, first));
    CHECK(!pal_id_equal(resolution.session, second));
    CHECK(leads_to(PAL_SESSION_BY_KEY, "agent:main:direct:4711", resolution.session));
}

static void a_session_with_an_earlier_key_continues(void)
{
    pal_str earlier[] = {S("sk_v1_none"), S("sk_v1_old")};
    pal_session wanted = {.key = S("sk_v1_new"), .scope = S("{\"version\":1}")};
    pal_resolve_request resolve_both = {
            .session = &wanted, .earlier_keys = earlier, .earlier_keys_len = 2};
    pal_id old = resolve("sk_v1_old", "own:old");

    OK(pal_store_resolve(test.store, &resolve_both, &resolution, &test.err));
    CHECK_ID(resolution.session, old);
    CHECK(!resolution.created);
    CHECK(leads_to(PAL_SESSION_BY_ALIAS, "own:old", old));
    resolve("sk_v1_new", "own:new");
    OK(pal_store_resolve(test.store, &resolve_both, &resolution, &test.err));
    CHECK(!pal_id_equal(resolution.session, old));
}

static pal_id resolve_main(const char *key)
{
    pal_session wanted = {.key = S(key)};
    pal_resolve_request named = {.session = &wanted,
            .main_alias = S(MAIN_ALIAS),
            .is_main = true,
            .is_explicit = true,
            .routed_key = S("sk_v1_main")};

    OK(pal_store_resolve(test.store, &named, &resolution, &test.err));
    return resolution.session;
}

static void the_main_session_has_two_names(void)
{
    pal_id main_id = resolve_main(MAIN_ALIAS);

    CHECK(resolution.created);
    CHECK_ID(resolve_main("sk_v1_main"), main_id);
    CHECK(leads_to(PAL_SESSION_BY_KEY, "sk_v1_main", main_id));
    CHECK(leads_to(PAL_SESSION_BY_ALIAS, MAIN_ALIAS, main_id));
    resolve("sk_v1_a", MAIN_ALIAS " own:a");
    CHECK_ID(resolve_main(MAIN_ALIAS), main_id);
}

static void the_main_session_is_the_one_that_was_there(void)
{
    pal_id legacy = new_session_with_key(MAIN_ALIAS);

    say_words(legacy, "a b");
    CHECK_ID(resolve_main("sk_v1_main"), legacy);
    CHECK(shows(legacy, "a b"));
    CHECK_ID(resolve_main(MAIN_ALIAS), legacy);
    CHECK(leads_to(PAL_SESSION_BY_ALIAS, "sk_v1_main", legacy));
}

static void no_tenant_resolves_into_another(void)
{
    pal_session wanted = {.tenant = S("other"), .key = S("sk_v1_a")};
    pal_str alias = S("old");
    pal_resolve_request there = {.session = &wanted};
    pal_id here = resolve("sk_v1_a", "old");

    say_words(new_session_with_key("old"), "secret");
    wanted.aliases = &alias;
    wanted.aliases_len = 1;
    memset(&resolution, 0, sizeof resolution);
    OK(pal_store_resolve(test.store, &there, &resolution, &test.err));
    CHECK(resolution.created);
    CHECK(!resolution.adopted);
    CHECK(!pal_id_equal(resolution.session, here));
    CHECK_STATUS(find_id_status(resolution.session), PAL_NOT_FOUND);
}

static void an_alias_that_is_too_long_is_left_out(void)
{
    char aliases[PAL_KEY_LEN_MAX + 16];

    memset(aliases, 'x', sizeof aliases);
    memcpy(aliases, "short ", 6);
    aliases[sizeof aliases - 1] = '\0';
    CHECK_EQ(get_session(resolve("sk_v1_a", aliases)).aliases_len, 1);
    CHECK(leads_to(PAL_SESSION_BY_ALIAS, "short", resolution.session));
}

static void an_empty_key_is_refused(void)
{
    GIVES(PAL_INVALID, resolve_status("", "", false));
}

static uint64_t count_sessions(void)
{
    pal_store_stats stats = {0};

    OK(pal_store_stat(test.store, test.arena, &stats, &test.err));
    return stats.sessions_active;
}

/* Resolves with `wrong` in the named field. Nothing may change. */
static void refuse(const char *key, const char *field, pal_str wrong, pal_status wanted)
{
    pal_str aliases[] = {S(MAIN_ALIAS), S("own:a")};
    pal_session session = {.key = S(key),
            .aliases = aliases,
            .aliases_len = 2,
            .scope = S("{\"version\":1}")};
    pal_resolve_request resolve = {.session = &session, .main_alias = S(MAIN_ALIAS)};
    pal_resolve_result untouched = {.adopted = true};
    uint64_t before = count_sessions();
    pal_str *const fields[] = {&session.tenant, &session.key, &session.scope, &aliases[1],
            &resolve.main_alias};
    static const char *const names[] = {"tenant", "key", "scope", "alias", "main_alias"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(field, names[i]) == 0)
            *fields[i] = wrong;
    memset(&test.err, 0, sizeof test.err);
    GIVES(wanted, pal_store_resolve(test.store, &resolve, &untouched, &test.err));
    if (!CHECK_EQ(test.err.status, wanted) || !CHECK_CONTAINS(test.err.message, field))
        printf("# '%s' does not name '%s'\n", test.err.message, field);
    CHECK(untouched.adopted);
    CHECK(pal_id_is_none(untouched.session));
    CHECK_EQ(count_sessions(), before);
}

static void wrong_names_are_refused_and_nothing_changes(void)
{
    static char long_text[1 << 20];
    static const char *const fields[] = {"tenant", "key", "scope", "alias", "main_alias"};
    pal_id id = resolve("sk_v1_a", MAIN_ALIAS " own:a");

    memset(long_text, 'x', sizeof long_text);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        /* One session that exists, and one that would be created. */
        for (int is_new = 0; is_new < 2; is_new++) {
            const char *key = is_new ? "sk_v1_new" : "sk_v1_a";

            refuse(key, fields[i], S("a\xff\xfe"), PAL_INVALID);
            refuse(key, fields[i], S("\xed\xa0\x80"), PAL_INVALID);
            refuse(key, fields[i], pal_str_make("a\0b", 3), PAL_INVALID);
            /* Such an alias was never valid, and is ignored; another test checks that. */
            if (strcmp(fields[i], "alias") != 0)
                refuse(key, fields[i], pal_str_make(long_text, sizeof long_text), PAL_LIMIT);
        }
    }
    refuse("sk_v1_a", "alias", S(""), PAL_INVALID);
    refuse("sk_v1_a", "scope", S("[]"), PAL_INVALID);
    CHECK_EQ(get_session(id).aliases_len, 2);
    CHECK_STR(get_session(id).scope, "{\"version\":1}");
    CHECK(leads_to(PAL_SESSION_BY_ALIAS, "own:a", id));
}

static void a_wrong_explicit_key_is_refused(void)
{
    static char long_key[PAL_KEY_LEN_MAX + 1];
    pal_session wanted = {.key = pal_str_make(long_key, sizeof long_key)};
    pal_resolve_request explicit = {.session = &wanted, .is_explicit = true};

    memset(long_key, 'x', sizeof long_key);
    GIVES(PAL_LIMIT, pal_store_resolve(test.store, &explicit, &resolution, &test.err));
    CHECK_CONTAINS(test.err.message, "'key' of 1025 bytes exceeds the limit of 1024");
    wanted.key = S("agent:\xff");
    GIVES(PAL_INVALID, pal_store_resolve(test.store, &explicit, &resolution, &test.err));
    CHECK_CONTAINS(test.err.message, "'key' is not valid UTF-8");
    CHECK_EQ(count_sessions(), 0);
}

void contract_resolve(void)
{
    RUN(a_key_is_created_once_and_then_found);
    RUN(the_list_is_kept_and_the_main_alias_leads_to_the_main_session);
    RUN(an_alias_of_another_session_is_not_a_conflict);
    RUN(the_trash_keeps_the_main_alias_apart);
    RUN(a_changed_list_replaces_the_old_one);
    RUN(legacy_history_is_adopted);
    RUN(hidden_legacy_messages_stay_hidden);
    RUN(a_session_with_history_adopts_nothing);
    RUN(a_session_with_a_checkpoint_adopts_nothing);
    RUN(the_main_alias_is_never_adopted_from);
    RUN(the_first_alias_with_history_wins);
    RUN(an_empty_session_adopts_later);
    RUN(an_explicit_key_may_be_an_alias);
    RUN(a_chat_adopts_nothing_from_one_that_lists_its_alias);
    RUN(a_legacy_history_is_adopted_by_one_chat_only);
    RUN(an_own_alias_as_explicit_key_is_the_own_chat);
    RUN(a_session_with_an_earlier_key_continues);
    RUN(the_main_session_has_two_names);
    RUN(the_main_session_is_the_one_that_was_there);
    RUN(no_tenant_resolves_into_another);
    RUN(an_alias_that_is_too_long_is_left_out);
    RUN(an_empty_key_is_refused);
    RUN(wrong_names_are_refused_and_nothing_changes);
    RUN(a_wrong_explicit_key_is_refused);
}
