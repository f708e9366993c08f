/* test_store_erasure.c - erasing sessions, alone and with forks that share their messages. */
#include "contract/contract.h"

static pal_erase_result erase(pal_id id)
{
    pal_erase_result erasure = {0};

    OK(pal_store_erase(test.store, no_tenant(), id, &erasure, &test.err));
    return erasure;
}

static pal_id of_words(const char *words)
{
    pal_id session = new_session();

    say_words(session, words);
    return session;
}

static pal_message with_data(const char *data)
{
    static pal_part parts[8];
    static size_t at;
    pal_part *part = &parts[at++ % 8];
    pal_message message = {.role = PAL_ROLE_USER, .parts = part, .parts_len = 1};

    *part = (pal_part){.kind = PAL_PART_FILE, .media_type = S("text/plain"), .data = S(data)};
    return message;
}

static pal_status blob_status(const char *data)
{
    char name[PAL_BLOB_NAME_SIZE];
    pal_str media_type, got;
    pal_store *other = NULL;
    pal_status status;

    /* Gets the blob name of the content from a separate store. */
    OK(pal_store_open("memory:", NULL, &other, &test.err));
    OK(pal_store_blob_put(other, no_tenant(), S("x"), S(data), name, &test.err));
    pal_store_close(other);
    status = pal_store_blob_get(
            test.store, no_tenant(), S(name), test.arena, &media_type, &got, &test.err);
    return status;
}

static void an_erased_session_leaves_nothing(void)
{
    pal_str aliases[] = {S("a1"), S("a2")};
    pal_session session = {.key = S("k"), .aliases = aliases, .aliases_len = 2};
    pal_inbox_item item = {.body = S("{}"), .delivery = S("queue")};
    pal_ledger_row row = {.request_id = S("r"), .turn_id = S("t"), .cost_micros = 7};
    pal_message messages[] = {text_of(PAL_ROLE_USER, "x"), with_data("some bytes")};
    pal_ledger_sum sum;
    pal_message found;
    pal_erase_result erasure;
    pal_id id, owner;
    uint64_t fence;

    OK(pal_store_create(test.store, &session, &id, &test.err));
    OK(pal_store_append(test.store, no_tenant(), id, messages, 2, 0, &test.err));
    OK(pal_store_mark(
            test.store, no_tenant(), id, &(pal_mark){.kind = PAL_MARK_PIN, .seq = 1}, &test.err));
    OK(pal_store_inbox_add(test.store, no_tenant(), id, &item, &test.err));
    OK(pal_store_ledger_add(test.store, no_tenant(), id, &row, &test.err));
    OK(pal_store_lease_take(test.store, no_tenant(), id, S("me"), 1000, &fence, &test.err));
    OK(blob_status("some bytes"));
    erasure = erase(id);
    CHECK_EQ(erasure.messages, 2);
    CHECK_EQ(erasure.shared, 0);
    CHECK_EQ(erasure.marks, 1);
    CHECK_EQ(erasure.blobs, 1);
    CHECK_EQ(erasure.aliases, 2);
    CHECK_EQ(erasure.inbox, 1);
    CHECK_EQ(erasure.ledger, 1);
    GIVES(PAL_NOT_FOUND, find_id_status(id));
    GIVES(PAL_NOT_FOUND, find_status(PAL_SESSION_BY_KEY, "k"));
    GIVES(PAL_NOT_FOUND, find_status(PAL_SESSION_BY_ALIAS, "a1"));
    GIVES(PAL_NOT_FOUND,
            pal_store_message(test.store, no_tenant(), messages[0].id, test.arena, &found, &owner,
                    &test.err));
    GIVES(PAL_NOT_FOUND, blob_status("some bytes"));
    GIVES(PAL_NOT_FOUND,
            pal_store_ledger_sum(test.store, &(pal_ledger_query){.session = id}, &sum, &test.err));
    OK(pal_store_ledger_sum(test.store, &(pal_ledger_query){0}, &sum, &test.err));
    CHECK_EQ(sum.calls, 1);
    CHECK_EQ(sum.cost_micros, 7);
    GIVES(PAL_NOT_FOUND, pal_store_erase(test.store, no_tenant(), id, &erasure, &test.err));
    GIVES(PAL_NOT_FOUND, pal_store_restore(test.store, no_tenant(), id, &test.err));
    CHECK_EQ(count_messages(), 0);
    new_session_with_key("k");
}

static void any_state_can_be_erased(void)
{
    pal_session session = {.expires_at = NOW + 10};
    pal_id trashed = of_words("a"), expired;

    OK(pal_store_create(test.store, &session, &expired, &test.err));
    OK(pal_store_delete(test.store, no_tenant(), trashed, &test.err));
    pal_clock_set_ms(NOW + 20);
    CHECK_EQ(erase(trashed).messages, 1);
    CHECK_EQ(erase(expired).messages, 0);
    GIVES(PAL_NOT_FOUND, find_id_status(trashed));
    GIVES(PAL_NOT_FOUND, find_id_status(expired));
}

static void forks_keep_their_visible_messages(void)
{
    pal_id parent = of_words("a b c d e"), first, second;
    pal_erase_result erasure;

    first = fork_at(parent, 2);
    say(first, "x");
    second = fork_at(parent, 3);
    erasure = erase(parent);
    CHECK_EQ(erasure.messages, 2);
    CHECK_EQ(erasure.shared, 3);
    GIVES(PAL_NOT_FOUND, find_id_status(parent));
    GIVES(PAL_NOT_FOUND, fork_status(parent, 1));
    GIVES(PAL_NOT_FOUND, pal_store_erase(test.store, no_tenant(), parent, NULL, &test.err));
    CHECK(shows(first, "a b x"));
    CHECK(shows(second, "a b c"));
    erase(second);
    CHECK(shows(first, "a b x"));
    erasure = erase(first);
    CHECK_THAT(erasure.messages, >=, 3);
    CHECK_EQ(erasure.shared, 0);
    CHECK_EQ(count_messages(), 0);
}

static void erased_sessions_are_not_listed(void)
{
    pal_id parent = of_words("a"), child = fork_at(parent, 1);
    pal_session_query query = {0};
    pal_session_page page;
    pal_store_stats stats;

    erase(parent);
    for (pal_session_state state = PAL_SESSION_NONE; state <= PAL_SESSION_QUARANTINED; state++) {
        query.state = state;
        OK(pal_store_list(test.store, &query, test.arena, &page, &test.err));
        for (size_t i = 0; i < page.sessions_len; i++)
            CHECK_ID(page.sessions[i].id, child);
    }
    OK(pal_store_stat(test.store, test.arena, &stats, &test.err));
    CHECK_EQ(stats.sessions_active, 1);
    CHECK_EQ(stats.sessions_trash, 0);
}

static void a_chain_is_erased_in_any_order(void)
{
    static const int orders[6][3] = {
            {0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

    for (int i = 0; i < 6; i++) {
        const char *texts[] = {"1 2 3", "1 2 b c", "1 2 b d"};
        pal_id ids[3];

        ids[0] = of_words("1 2 3");
        ids[1] = fork_at(ids[0], 2);
        say_words(ids[1], "b c");
        ids[2] = fork_at(ids[1], 3);
        say(ids[2], "d");
        for (int j = 0; j < 3; j++) {
            erase(ids[orders[i][j]]);
            for (int k = j + 1; k < 3; k++)
                CHECK(shows(ids[orders[i][k]], texts[orders[i][k]]));
        }
        if (!CHECK_EQ(count_messages(), 0))
            printf("# in order %d %d %d\n", orders[i][0], orders[i][1], orders[i][2]);
    }
}

static void a_fork_may_begin_in_erased_messages(void)
{
    pal_id parent = of_words("a b c"), child = fork_at(parent, 3), late;

    say(child, "x");
    erase(parent);
    late = fork_at(child, 2);
    CHECK(shows(late, "a b"));
    CHECK_EQ(say(late, "y"), 3);
    erase(child);
    CHECK(shows(late, "a b y"));
    erase(late);
    CHECK_EQ(count_messages(), 0);
}

static void rewinds_of_an_erased_parent_still_count(void)
{
    pal_id parent = of_words("a b c"), child;

    rewind_to(parent, 1);
    say_words(parent, "d e");
    child = fork_at(parent, 4);
    CHECK(shows(child, "a d"));
    erase(parent);
    CHECK(shows(child, "a d"));
}

static void a_blob_goes_with_its_last_reference(void)
{
    pal_message first = with_data("shared"), second = with_data("shared");
    pal_id a = new_session(), b = new_session();

    OK(pal_store_append(test.store, no_tenant(), a, &first, 1, 0, &test.err));
    OK(pal_store_append(test.store, no_tenant(), b, &second, 1, 0, &test.err));
    CHECK_EQ(erase(a).blobs, 0);
    OK(blob_status("shared"));
    CHECK_EQ(erase(b).blobs, 1);
    GIVES(PAL_NOT_FOUND, blob_status("shared"));
}

static void a_fork_keeps_the_blobs_that_it_shows(void)
{
    pal_message first = with_data("kept"), second = with_data("dropped");
    pal_id parent = new_session(), child;

    OK(pal_store_append(test.store, no_tenant(), parent, &first, 1, 0, &test.err));
    child = fork_at(parent, 1);
    OK(pal_store_append(test.store, no_tenant(), parent, &second, 1, 1, &test.err));
    CHECK_EQ(erase(parent).blobs, 1);
    OK(blob_status("kept"));
    GIVES(PAL_NOT_FOUND, blob_status("dropped"));
    CHECK_EQ(erase(child).blobs, 1);
    GIVES(PAL_NOT_FOUND, blob_status("kept"));
}

static void an_erased_ledger_row_keeps_its_numbers_only(void)
{
    pal_id id = new_session(), other = new_session();
    pal_ledger_row row = {.request_id = S("r"), .usage = {.input = 5}};
    pal_ledger_sum sum;

    OK(pal_store_ledger_add(test.store, no_tenant(), id, &row, &test.err));
    erase(id);
    /* The id of the request was text of the session, so nothing may know it any more. */
    OK(pal_store_ledger_add(test.store, no_tenant(), other, &row, &test.err));
    OK(pal_store_ledger_sum(test.store, &(pal_ledger_query){0}, &sum, &test.err));
    CHECK_EQ(sum.calls, 2);
    CHECK_EQ(sum.usage.input, 10);
}

void contract_erasure(void)
{
    RUN(an_erased_session_leaves_nothing);
    RUN(any_state_can_be_erased);
    RUN(forks_keep_their_visible_messages);
    RUN(erased_sessions_are_not_listed);
    RUN(a_chain_is_erased_in_any_order);
    RUN(a_fork_may_begin_in_erased_messages);
    RUN(rewinds_of_an_erased_parent_still_count);
    RUN(a_blob_goes_with_its_last_reference);
    RUN(a_fork_keeps_the_blobs_that_it_shows);
    RUN(an_erased_ledger_row_keeps_its_numbers_only);
}
