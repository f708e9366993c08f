/* test_store_lists.c - pages of sessions. */
#include "contract/contract.h"

static pal_id make(const char *project, const char *agent, int64_t at)
{
    pal_session session = {.project = S(project), .agent = S(agent)};
    pal_id id = {{0}};

    pal_clock_set_ms(at);
    OK(pal_store_create(test.store, &session, &id, &test.err));
    return id;
}

/* Whether the list holds exactly these sessions in this order. */
static bool lists(pal_session_query query, const pal_id *ids, size_t len)
{
    pal_session_page page = {0};
    bool same;

    OK(pal_store_list(test.store, &query, test.arena, &page, &test.err));
    same = page.sessions_len == len;
    for (size_t i = 0; same && i < len; i++)
        same = pal_id_equal(page.sessions[i].id, ids[i]);
    if (!same)
        printf("# %zu sessions listed, %zu wanted\n", page.sessions_len, len);
    return same;
}

static void the_newest_update_comes_first(void)
{
    pal_id a = make("", "", NOW), b = make("", "", NOW + 1), c = make("", "", NOW + 1);
    pal_id created[] = {c, b, a}, appended[] = {a, c, b}, marked[] = {b, a, c};
    pal_session_query query = {0};

    CHECK(lists(query, created, 3));
    pal_clock_set_ms(NOW + 2);
    say(a, "x");
    CHECK(lists(query, appended, 3));
    pal_clock_set_ms(NOW + 3);
    rewind_to(b, 0);
    CHECK(lists(query, marked, 3));
}

static void lists_are_filtered(void)
{
    pal_id a = make("p1", "x", NOW), b = make("p1", "y", NOW + 10), c = make("p2", "x", NOW + 20);
    pal_id ba[] = {b, a}, ca[] = {c, a}, cb[] = {c, b};

    CHECK(lists((pal_session_query){.project = S("p1")}, ba, 2));
    CHECK(lists((pal_session_query){.agent = S("x")}, ca, 2));
    CHECK(lists((pal_session_query){.project = S("p1"), .agent = S("x")}, &a, 1));
    CHECK(lists((pal_session_query){.updated_from = NOW + 10}, cb, 2));
    CHECK(lists((pal_session_query){.updated_to = NOW + 20}, ba, 2));
    CHECK(lists((pal_session_query){.updated_from = NOW + 10, .updated_to = NOW + 20}, &b, 1));
    CHECK(lists((pal_session_query){.project = S("p3")}, NULL, 0));
}

static void lists_have_a_state(void)
{
    pal_id a = make("", "", NOW), b = make("", "", NOW + 1), c = make("", "", NOW + 2);
    pal_session change = {.id = c, .expires_at = NOW + 5};

    OK(pal_store_delete(test.store, no_tenant(), b, &test.err));
    OK(pal_store_update(test.store, &change, PAL_SESSION_FIELD_EXPIRES_AT, &test.err));
    CHECK(lists((pal_session_query){.state = PAL_SESSION_TRASH}, &b, 1));
    pal_clock_set_ms(NOW + 6);
    CHECK(lists((pal_session_query){0}, &a, 1));
    CHECK(lists((pal_session_query){.state = PAL_SESSION_ACTIVE}, &a, 1));
    CHECK(lists((pal_session_query){.state = PAL_SESSION_QUARANTINED}, NULL, 0));
}

static void an_expired_session_is_listed_once_it_is_swept(void)
{
    pal_id a = make("", "", NOW);
    pal_session change = {.id = a, .expires_at = NOW + 5};

    OK(pal_store_update(test.store, &change, PAL_SESSION_FIELD_EXPIRES_AT, &test.err));
    CHECK(lists((pal_session_query){.state = PAL_SESSION_TRASH}, NULL, 0));
    pal_clock_set_ms(NOW + 6);
    CHECK(lists((pal_session_query){.state = PAL_SESSION_TRASH}, NULL, 0));
    CHECK(lists((pal_session_query){0}, NULL, 0));
    OK(pal_store_sweep(test.store, -1, 10, NULL, &test.err));
    CHECK(lists((pal_session_query){.state = PAL_SESSION_TRASH}, &a, 1));
}

/* Reads all pages. Returns the number of sessions, each of which came once and in order. */
static size_t walk(pal_session_query query, size_t *out_pages)
{
    pal_session_page page = {0};
    pal_id seen[64];
    size_t len = 0;
    int64_t last = INT64_MAX;

    *out_pages = 0;
    do {
        query.cursor = page.cursor;
        if (!OK(pal_store_list(test.store, &query, test.arena, &page, &test.err)))
            break;
        (*out_pages)++;
        CHECK(page.cursor.len == 0 || page.sessions_len == query.limit);
        for (size_t i = 0; i < page.sessions_len && len < 64; i++) {
            for (size_t j = 0; j < len; j++)
                CHECK(!pal_id_equal(seen[j], page.sessions[i].id));
            CHECK_THAT(page.sessions[i].updated_at, <=, last);
            last = page.sessions[i].updated_at;
            seen[len++] = page.sessions[i].id;
        }
    } while (page.cursor.len > 0);
    return len;
}

static void pages_join_without_gap_or_repeat(void)
{
    pal_session_query query = {.project = S("p")};
    size_t pages;

    for (int i = 0; i < 20; i++) {
        make("p", "", NOW + i / 7);
        make("other", "", NOW + i / 7);
    }
    for (query.limit = 1; query.limit <= 21; query.limit++) {
        CHECK_EQ(walk(query, &pages), 20);
        CHECK_EQ(pages, (20 + query.limit - 1) / query.limit);
    }
    query = (pal_session_query){.limit = 7, .updated_from = NOW + 1};
    CHECK_EQ(walk(query, &pages), 26);
}

static void a_page_continues_while_sessions_move(void)
{
    pal_id a = make("", "", NOW), b = make("", "", NOW + 1), c = make("", "", NOW + 2);
    pal_session_query query = {.limit = 1};
    pal_session_page page;

    OK(pal_store_list(test.store, &query, test.arena, &page, &test.err));
    if (CHECK_EQ(page.sessions_len, 1))
        CHECK_ID(page.sessions[0].id, c);
    pal_clock_set_ms(NOW + 9);
    say(b, "to the front");
    query.cursor = page.cursor;
    OK(pal_store_list(test.store, &query, test.arena, &page, &test.err));
    if (CHECK_EQ(page.sessions_len, 1))
        CHECK_ID(page.sessions[0].id, a);
    CHECK_EQ(page.cursor.len, 0);
}

static void fifty_are_a_page(void)
{
    pal_session_page page;
    pal_session_query query = {0};

    for (int i = 0; i < 51; i++)
        make("", "", NOW);
    OK(pal_store_list(test.store, &query, test.arena, &page, &test.err));
    CHECK_EQ(page.sessions_len, 50);
    CHECK_THAT(page.cursor.len, >, 0);
    query.limit = PAL_SESSION_PAGE_MAX;
    OK(pal_store_list(test.store, &query, test.arena, &page, &test.err));
    CHECK_EQ(page.sessions_len, 51);
    CHECK_EQ(page.cursor.len, 0);
}

static void bad_queries_are_refused(void)
{
    pal_session_query bad_cursor = {.cursor = S("nonsense")};
    pal_session_query bad_limit = {.limit = PAL_SESSION_PAGE_MAX + 1};
    pal_session_query bad_state = {.state = PAL_SESSION_ERASED};
    pal_session_page page;

    GIVES(PAL_INVALID, pal_store_list(test.store, &bad_cursor, test.arena, &page, &test.err));
    GIVES(PAL_LIMIT, pal_store_list(test.store, &bad_limit, test.arena, &page, &test.err));
    GIVES(PAL_INVALID, pal_store_list(test.store, &bad_state, test.arena, &page, &test.err));
}

/* ---- Conditions that the front checks ---- */

static pal_id make_titled(const char *title, const char *key)
{
    pal_session session = {.title = S(title), .key = S(key)};
    pal_id id = {{0}};

    OK(pal_store_create(test.store, &session, &id, &test.err));
    return id;
}

static void words_find_titles_and_keys(void)
{
    pal_id lamp, bread, said;
    pal_session_page page;

    pal_clock_set_ms(NOW);
    lamp = make_titled("The Lamp", "hall-1");
    pal_clock_set_ms(NOW + 1);
    bread = make_titled("Bread", "");
    pal_clock_set_ms(NOW + 2);
    said = new_session();
    say(said, "a  lamp\nand bread");
    CHECK(lists((pal_session_query){.text = S("LAMP")}, (pal_id[]){said, lamp}, 2));
    CHECK(lists((pal_session_query){.text = S("hall")}, &lamp, 1));
    CHECK(lists((pal_session_query){.text = S("bre*")}, (pal_id[]){said, bread}, 2));
    CHECK(lists((pal_session_query){.text = S("nothing")}, NULL, 0));
    pal_session_query query = {.text = S("lamp"), .limit = 1, .titled = true};
    OK(pal_store_list(test.store, &query, test.arena, &page, &test.err));
    CHECK_STR(page.sessions[0].title, "a lamp and bread");
    query.cursor = page.cursor;
    CHECK(lists(query, &lamp, 1));
}

static void forks_are_listed_by_parent(void)
{
    pal_id root = new_session(), child, other, grandchild;
    pal_session *family;
    size_t len;
    bool more;

    say_words(root, "a b c");
    pal_clock_set_ms(NOW + 1);
    child = fork_at(root, 2);
    pal_clock_set_ms(NOW + 2);
    other = fork_at(root, 1);
    say(child, "d");
    pal_clock_set_ms(NOW + 3);
    grandchild = fork_at(child, 3);
    CHECK(lists((pal_session_query){.parent = root, .agent = S("x")}, NULL, 0));
    CHECK(lists((pal_session_query){.parent = child}, &grandchild, 1));
    CHECK(lists((pal_session_query){.root_only = true}, &root, 1));
    OK(pal_store_delete(test.store, no_tenant(), child, &test.err));
    CHECK(lists((pal_session_query){.parent = root}, &other, 1));
    OK(pal_store_family(
            test.store, no_tenant(), grandchild, test.arena, &family, &len, &more, &test.err));
    CHECK(!more);
    if (CHECK_EQ(len, 4)) {
        CHECK(pal_id_equal(family[0].id, root));
        CHECK(pal_id_equal(family[3].id, grandchild));
    }
    OK(pal_store_erase(test.store, no_tenant(), child, NULL, &test.err));
    OK(pal_store_family(
            test.store, no_tenant(), root, test.arena, &family, &len, &more, &test.err));
    CHECK_EQ(len, 3); /* an erased session is not shown, but its forks are */
}

static void marks_come_in_pages(void)
{
    pal_id parent = new_session(), fork;
    pal_mark_page page = {0};
    pal_mark pin = {.kind = PAL_MARK_PIN, .seq = 1};

    say_words(parent, "a b c");
    OK(pal_store_mark(test.store, no_tenant(), parent, &pin, &test.err));
    fork = fork_at(parent, 3);
    rewind_to(fork, 2);
    OK(undo(fork, 1));
    pin = (pal_mark){.kind = PAL_MARK_PIN, .seq = 1};
    OK(pal_store_mark(test.store, no_tenant(), fork, &pin, &test.err));
    pal_mark_query query = {.limit = 3};
    OK(pal_store_mark_page(
            test.store, no_tenant(), fork, &query, test.arena, &page, &test.err));
    CHECK(page.has_more);
    if (CHECK_EQ(page.len, 3)) {
        CHECK(page.items[0].inherited);
        CHECK(!page.standing[0]); /* pinned again */
        CHECK_EQ(page.items[1].kind, PAL_MARK_REWIND);
        CHECK(!page.standing[1]);
        CHECK_EQ(page.items[2].kind, PAL_MARK_UNDO);
        CHECK(page.standing[2]);
    }
    query.after = 3;
    OK(pal_store_mark_page(
            test.store, no_tenant(), fork, &query, test.arena, &page, &test.err));
    if (CHECK_EQ(page.len, 1)) {
        CHECK_EQ(page.items[0].kind, PAL_MARK_PIN);
        CHECK(page.standing[0]);
    }
    CHECK(!page.has_more);
    query = (pal_mark_query){.number = 4};
    CHECK_EQ(pal_store_mark_page(
                     test.store, no_tenant(), fork, &query, test.arena, &page, &test.err),
            PAL_NOT_FOUND);
}

void contract_lists(void)
{
    RUN(the_newest_update_comes_first);
    RUN(lists_are_filtered);
    RUN(lists_have_a_state);
    RUN(an_expired_session_is_listed_once_it_is_swept);
    RUN(pages_join_without_gap_or_repeat);
    RUN(a_page_continues_while_sessions_move);
    RUN(fifty_are_a_page);
    RUN(bad_queries_are_refused);
    RUN(words_find_titles_and_keys);
    RUN(forks_are_listed_by_parent);
    RUN(marks_come_in_pages);
}
