/* test_store_trash.c - the trash, expiry and the sweep. */
#include "contract/contract.h"

static pal_id named(const char *key, const char *alias)
{
    pal_str aliases[] = {S(alias)};
    pal_session session = {.key = S(key), .aliases = aliases, .aliases_len = alias ? 1 : 0};
    pal_id id = {{0}};

    OK(pal_store_create(test.store, &session, &id, &test.err));
    return id;
}

static pal_id expiring(const char *key, int64_t expires_at)
{
    pal_session session = {.key = S(key), .expires_at = expires_at};
    pal_id id = {{0}};

    OK(pal_store_create(test.store, &session, &id, &test.err));
    return id;
}

static pal_status delete (pal_id id)
{
    return pal_store_delete(test.store, no_tenant(), id, &test.err);
}

static pal_status restore(pal_id id)
{
    return pal_store_restore(test.store, no_tenant(), id, &test.err);
}

/* Whether every writing call on the session fails with this status. */
static void no_call_writes(pal_id id, pal_status wanted)
{
    pal_message message = text_of(PAL_ROLE_USER, "x");
    pal_session change = {.id = id, .title = S("t")};
    pal_mark mark = {.kind = PAL_MARK_REWIND};
    pal_inbox_item item = {.body = S("{}"), .delivery = S("queue")};
    uint64_t fence;

    GIVES(wanted,
            pal_store_append(test.store, no_tenant(), id, &message, 1, PAL_SEQ_ANY, &test.err));
    GIVES(wanted, pal_store_update(test.store, &change, PAL_SESSION_FIELD_TITLE, &test.err));
    GIVES(wanted, pal_store_mark(test.store, no_tenant(), id, &mark, &test.err));
    GIVES(wanted, pal_store_reset(test.store, no_tenant(), id, false, NULL, &test.err));
    GIVES(wanted, fork_status(id, 1));
    GIVES(wanted, pal_store_inbox_add(test.store, no_tenant(), id, &item, &test.err));
    GIVES(wanted,
            pal_store_lease_take(test.store, no_tenant(), id, S("me"), 1000, &fence, &test.err));
    CHECK_EQ(get_session(id).title.len, 0);
}

/* A turn can end after its session was deleted: its work is recorded, and its lease is released. */
static void a_turn_ends_in_the_trash(void)
{
    pal_ledger_row row = {.request_id = S("r")};
    pal_id id = new_session();
    pal_ledger_sum sum = {0};
    pal_lease lease;
    uint64_t fence = 0;

    OK(pal_store_lease_take(test.store, no_tenant(), id, S("me"), 1000, &fence, &test.err));
    OK(pal_store_delete(test.store, no_tenant(), id, &test.err));
    OK(pal_store_ledger_add(test.store, no_tenant(), id, &row, &test.err));
    OK(pal_store_lease_release(test.store, no_tenant(), id, fence, &test.err));
    OK(pal_store_ledger_sum(test.store, &(pal_ledger_query){.session = id}, &sum, &test.err));
    CHECK_EQ(sum.calls, 1);
    GIVES(PAL_NOT_FOUND,
            pal_store_lease_find(test.store, no_tenant(), id, test.arena, &lease, &test.err));
}

static void the_trash_frees_names_and_keeps_messages(void)
{
    pal_id id = named("k", "a");
    pal_session found;

    say_words(id, "x y");
    pal_clock_set_ms(NOW + 9);
    OK(delete (id));
    found = get_session(id);
    CHECK_EQ(found.state, PAL_SESSION_TRASH);
    CHECK_EQ(found.deleted_at, NOW + 9);
    CHECK_STR(found.key, "k");
    CHECK_EQ(found.aliases_len, 1);
    GIVES(PAL_NOT_FOUND, find_status(PAL_SESSION_BY_KEY, "k"));
    GIVES(PAL_NOT_FOUND, find_status(PAL_SESSION_BY_ALIAS, "a"));
    CHECK(shows(id, "x y"));
    GIVES(PAL_CONFLICT, delete (id));
    no_call_writes(id, PAL_CONFLICT);
    OK(restore(id));
    found = get_session(id);
    CHECK_EQ(found.state, PAL_SESSION_ACTIVE);
    CHECK_EQ(found.deleted_at, 0);
    CHECK(leads_to(PAL_SESSION_BY_KEY, "k", id));
    CHECK(leads_to(PAL_SESSION_BY_ALIAS, "a", id));
    CHECK_EQ(say(id, "z"), 3);
    GIVES(PAL_CONFLICT, restore(id));
}

static void a_taken_key_can_not_be_restored(void)
{
    pal_id old = named("k", NULL), new_one;

    OK(delete (old));
    new_one = named("k", NULL);
    GIVES(PAL_CONFLICT, restore(old));
    CHECK_EQ(get_session(old).state, PAL_SESSION_TRASH);
    CHECK(leads_to(PAL_SESSION_BY_KEY, "k", new_one));
    OK(delete (new_one));
    OK(restore(old));
    CHECK(leads_to(PAL_SESSION_BY_KEY, "k", old));
}

static void taken_aliases_are_dropped_on_restore(void)
{
    pal_str aliases[] = {S("a"), S("b"), S("c")};
    pal_session session = {.key = S("k"), .aliases = aliases, .aliases_len = 3};
    pal_id id, other;

    OK(pal_store_create(test.store, &session, &id, &test.err));
    OK(delete (id));
    other = named("o", "b");
    OK(restore(id));
    session = get_session(id);
    if (CHECK_EQ(session.aliases_len, 2)) {
        CHECK_STR(session.aliases[0], "a");
        CHECK_STR(session.aliases[1], "c");
    }
    CHECK(leads_to(PAL_SESSION_BY_ALIAS, "b", other));
    CHECK(leads_to(PAL_SESSION_BY_ALIAS, "c", id));
    OK(delete (other));
    GIVES(PAL_NOT_FOUND, find_status(PAL_SESSION_BY_ALIAS, "b"));
}

/* ---- Expiry ---- */

static void an_expired_session_counts_as_in_the_trash(void)
{
    pal_id id = expiring("k", NOW + 10);

    say(id, "x");
    pal_clock_set_ms(NOW + 10);
    CHECK_EQ(get_session(id).state, PAL_SESSION_ACTIVE);
    CHECK(leads_to(PAL_SESSION_BY_KEY, "k", id));
    pal_clock_set_ms(NOW + 11);
    CHECK_EQ(get_session(id).state, PAL_SESSION_TRASH);
    GIVES(PAL_NOT_FOUND, find_status(PAL_SESSION_BY_KEY, "k"));
    GIVES(PAL_NOT_FOUND, find_status(PAL_SESSION_BY_ANY, "k"));
    no_call_writes(id, PAL_CONFLICT);
    CHECK(shows(id, "x"));
}

static void an_expiry_can_be_moved(void)
{
    pal_session change = {.id = expiring("k", NOW + 10), .expires_at = NOW + 50};

    pal_clock_set_ms(NOW + 20);
    OK(pal_store_update(test.store, &change, PAL_SESSION_FIELD_EXPIRES_AT, &test.err));
    CHECK_EQ(get_session(change.id).state, PAL_SESSION_ACTIVE);
    if (CHECK(leads_to(PAL_SESSION_BY_KEY, "k", change.id)))
        CHECK_EQ(say(change.id, "x"), 1);
    change.expires_at = 0;
    OK(pal_store_update(test.store, &change, PAL_SESSION_FIELD_EXPIRES_AT, &test.err));
    pal_clock_set_ms(NOW + 1000 * DAY);
    CHECK_EQ(get_session(change.id).state, PAL_SESSION_ACTIVE);
}

static void restoring_clears_an_expiry_that_passed(void)
{
    pal_id id = expiring("k", NOW + 10), later = expiring("l", NOW + 100);

    OK(delete (later));
    pal_clock_set_ms(NOW + 20);
    OK(restore(id));
    CHECK_EQ(get_session(id).expires_at, 0);
    CHECK_EQ(get_session(id).state, PAL_SESSION_ACTIVE);
    CHECK(leads_to(PAL_SESSION_BY_KEY, "k", id));
    OK(restore(later));
    CHECK_EQ(get_session(later).expires_at, NOW + 100);
}

static void an_expired_session_releases_its_key(void)
{
    pal_id old = expiring("k", NOW + 10), new_one;
    pal_session given = {.key = S("k")};
    pal_op op = {.kind = PAL_OP_CREATE, .u.create = {.session = &given, .or_find = true}};

    pal_clock_set_ms(NOW + 20);
    OK(pal_store_apply(test.store, &op, 1, &test.err));
    CHECK_STATUS(op.status, PAL_OK);
    CHECK(!op.u.create.existing);
    CHECK(!pal_id_equal(op.session, old));
    new_one = op.session;
    CHECK(leads_to(PAL_SESSION_BY_KEY, "k", new_one));
    CHECK_EQ(get_session(old).state, PAL_SESSION_TRASH);
    CHECK_EQ(get_session(old).deleted_at, NOW + 20);
    GIVES(PAL_CONFLICT, restore(old));
}

static void an_expired_session_releases_its_aliases(void)
{
    pal_str alias = S("a");
    pal_session given = {.aliases = &alias, .aliases_len = 1, .expires_at = NOW + 10};
    pal_id old, new_one;

    OK(pal_store_create(test.store, &given, &old, &test.err));
    pal_clock_set_ms(NOW + 20);
    given.expires_at = 0;
    OK(pal_store_create(test.store, &given, &new_one, &test.err));
    CHECK(leads_to(PAL_SESSION_BY_ALIAS, "a", new_one));
    CHECK_EQ(get_session(old).state, PAL_SESSION_TRASH);
}

static void an_expired_session_can_be_deleted(void)
{
    pal_id id = expiring("k", NOW + 10);

    pal_clock_set_ms(NOW + 20);
    OK(delete (id));
    CHECK_EQ(get_session(id).state, PAL_SESSION_TRASH);
    CHECK_EQ(get_session(id).deleted_at, NOW + 20);
    OK(restore(id));
    CHECK_EQ(get_session(id).expires_at, 0);
}

/* ---- Sweep ---- */

static pal_sweep_result sweep(int64_t trash_ms, uint32_t limit)
{
    pal_sweep_result result = {0};

    OK(pal_store_sweep(test.store, trash_ms, limit, &result, &test.err));
    return result;
}

static void the_sweep_trashes_then_erases(void)
{
    pal_id kept = named("kept", NULL), gone = expiring("gone", NOW + 10);
    pal_sweep_result result;

    say(gone, "x");
    CHECK_EQ(sweep(0, 100).trashed, 0);
    pal_clock_set_ms(NOW + 20);
    result = sweep(1000, 100);
    CHECK_EQ(result.trashed, 1);
    CHECK_EQ(result.erased, 0);
    CHECK(!result.has_more);
    CHECK_EQ(get_session(gone).state, PAL_SESSION_TRASH);
    CHECK_EQ(get_session(gone).deleted_at, NOW + 20);
    pal_clock_set_ms(NOW + 1020);
    CHECK_EQ(sweep(1000, 100).erased, 0);
    pal_clock_set_ms(NOW + 1021);
    CHECK_EQ(sweep(-1, 100).erased, 0);
    result = sweep(1000, 100);
    CHECK_EQ(result.trashed, 0);
    CHECK_EQ(result.erased, 1);
    GIVES(PAL_NOT_FOUND, find_id_status(gone));
    CHECK_EQ(count_messages(), 0);
    CHECK(leads_to(PAL_SESSION_BY_KEY, "kept", kept));
}

static void the_sweep_has_a_limit(void)
{
    pal_sweep_result result;
    uint64_t trashed = 0, rounds = 0;
    char key[16];

    for (int i = 0; i < 10; i++) {
        snprintf(key, sizeof key, "k%d", i);
        expiring(key, NOW + 10);
    }
    pal_clock_set_ms(NOW + 20);
    do {
        result = sweep(-1, 4);
        CHECK_THAT(result.trashed, <=, 4);
        trashed += result.trashed;
    } while (result.has_more && ++rounds < 9);
    CHECK_EQ(trashed, 10);
    CHECK_THAT(rounds, >=, 2);
}

/* A session can get a younger session as its parent by an adoption. */
static void the_sweep_erases_an_adopted_parent(void)
{
    pal_id child = new_session_with_key("child"), parent = new_session_with_key("parent");
    pal_op op = {.kind = PAL_OP_ADOPT, .session = child, .u.adopt = {.from = parent}};
    pal_id last = new_session_with_key("last");

    say_words(parent, "a b");
    OK(pal_store_apply(test.store, &op, 1, &test.err));
    CHECK_STATUS(op.status, PAL_OK);
    CHECK(op.u.adopt.adopted);
    CHECK(shows(child, "a b"));
    OK(pal_store_erase(test.store, no_tenant(), parent, NULL, &test.err));
    OK(pal_store_delete(test.store, no_tenant(), child, &test.err));
    pal_clock_set_ms(NOW + 20);
    CHECK_EQ(sweep(0, 10).erased, 1);
    CHECK_EQ(get_session(last).state, PAL_SESSION_ACTIVE);
}

static void the_sweep_goes_over_all_tenants(void)
{
    pal_session session = {.tenant = S("other"), .expires_at = NOW + 10};
    pal_sweep_result result;
    pal_id id;

    OK(pal_store_create(test.store, &session, &id, &test.err));
    expiring("mine", NOW + 10);
    pal_clock_set_ms(NOW + 20);
    result = sweep(-1, 100);
    CHECK_EQ(result.trashed, 2);
}

void contract_trash(void)
{
    RUN(the_trash_frees_names_and_keeps_messages);
    RUN(a_taken_key_can_not_be_restored);
    RUN(taken_aliases_are_dropped_on_restore);
    RUN(a_turn_ends_in_the_trash);
    RUN(an_expired_session_counts_as_in_the_trash);
    RUN(an_expiry_can_be_moved);
    RUN(restoring_clears_an_expiry_that_passed);
    RUN(an_expired_session_releases_its_key);
    RUN(an_expired_session_releases_its_aliases);
    RUN(an_expired_session_can_be_deleted);
    RUN(the_sweep_trashes_then_erases);
    RUN(the_sweep_has_a_limit);
    RUN(the_sweep_erases_an_adopted_parent);
    RUN(the_sweep_goes_over_all_tenants);
}
