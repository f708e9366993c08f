/* test_store_search.c - finds visible messages by their words, and no others. */
#include "contract/contract.h"

#include <pthread.h>
#include <string.h>

/* More messages than a block of the index has, and more than are scanned without an index. */
enum { MANY = 5000, BATCH = 500 };

static pal_search_page search(const pal_search_query *what)
{
    pal_search_page hits = {0};

    OK(pal_store_search(test.store, what, test.arena, &hits, &test.err));
    return hits;
}

static pal_status search_status(const char *text)
{
    pal_search_query what = {.text = S(text)};
    pal_search_page hits;

    return pal_store_search(test.store, &what, test.arena, &hits, &test.err);
}

/* The seqs of the hits in the session, joined by spaces. */
static const char *seqs_of(const pal_search_page *hits)
{
    static char text[512];

    text[0] = 0;
    for (size_t i = 0; i < hits->len && strlen(text) < sizeof text - 24; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%llu", i ? " " : "",
                (unsigned long long)hits->items[i].seq);
    return text;
}

static bool finds(pal_id session, const char *text, const char *seqs)
{
    pal_search_query what = {.session = session, .text = S(text)};
    pal_search_page hits = search(&what);
    bool same = strcmp(seqs_of(&hits), seqs) == 0;

    if (!same)
        printf("# '%s' gives '%s', not '%s'\n", text, seqs_of(&hits), seqs);
    for (size_t i = 0; i < hits.len; i++)
        same = same && pal_id_equal(hits.items[i].session, session);
    return same;
}

/* The number of hits in all sessions of the default tenant. */
static size_t count_of(const char *text)
{
    pal_search_query what = {.text = S(text), .limit = PAL_SEARCH_HITS_MAX};

    return search(&what).len;
}

static pal_id of_texts(const char *const *texts)
{
    pal_id session = new_session();

    for (; *texts; texts++)
        say(session, *texts);
    return session;
}

#define TEXTS(...) of_texts((const char *const[]){__VA_ARGS__, NULL})

/* ---- Words ---- */

static void words_are_found_whatever_their_case(void)
{
    pal_id session = TEXTS("The quick brown fox", "ПРИВЕТ, мир", "Straße und Ärger", "a-b-c");

    CHECK(finds(session, "quick", "1"));
    CHECK(finds(session, "QUICK fox", "1"));
    CHECK(finds(session, "привет", "2"));
    CHECK(finds(session, "МИР", "2"));
    CHECK(finds(session, "STRASSE", "3"));
    CHECK(finds(session, "ärger", "3"));
    CHECK(finds(session, "qui", ""));
    CHECK(finds(session, "uick", ""));
    CHECK(finds(session, "fo", ""));
    CHECK(finds(session, "quick wolf", ""));
    CHECK(finds(session, "b", "4"));
}

static void all_words_must_occur_in_one_message(void)
{
    pal_id session = TEXTS("apple pear", "pear plum", "plum apple pear");

    CHECK(finds(session, "pear", "3 2 1"));
    CHECK(finds(session, "apple pear", "3 1"));
    CHECK(finds(session, "plum apple", "3"));
    CHECK(finds(session, "apple plum pear kiwi", ""));
}

static void phrases_keep_their_order(void)
{
    pal_id session = TEXTS("the lazy dog sleeps", "dog lazy the", "the lazy, DOG!", "lazydog");

    CHECK(finds(session, "\"lazy dog\"", "3 1"));
    CHECK(finds(session, "\"dog lazy\"", "2"));
    CHECK(finds(session, "sleeps \"lazy dog\"", "1"));
    CHECK(finds(session, "\"lazy do\"", ""));
    CHECK(finds(session, "\"lazy do\"*", "3 1"));
    CHECK(finds(session, "\"lazy dog", "3 1"));
    CHECK(finds(session, "laz*", "4 3 2 1"));
    CHECK(finds(session, "lazyd*", "4"));
    CHECK(finds(session, "*azy", ""));
    CHECK(finds(session, "*lazy", "3 2 1"));
}

static void code_is_found_by_its_parts(void)
{
    pal_id session = TEXTS("call pal_store_open(url, &err);", "HTTP/1.1 404 in src/store/x.c",
            "std::vector<int> v2;", "pal store");

    CHECK(finds(session, "pal_store_open", "1"));
    CHECK(finds(session, "store", "4 2 1"));
    CHECK(finds(session, "pal_store", "4 1"));
    CHECK(finds(session, "open(url", "1"));
    CHECK(finds(session, "src/store/x.c", "2"));
    CHECK(finds(session, "404", "2"));
    CHECK(finds(session, "std::vector", "3"));
    CHECK(finds(session, "v2", "3"));
    CHECK(finds(session, "vector<", "3"));
    CHECK(finds(session, "store_op*", "1"));
}

static void scripts_without_spaces_are_found(void)
{
    pal_id session = TEXTS("今日は東京に行きます。", "北京是中国的首都", "สวัสดีชาวโลก",
            "안녕하세요 세계", "iPhone手机坏了", "東京タワー", "ok 🙂👍");

    CHECK(finds(session, "東京", "6 1"));
    CHECK(finds(session, "京", "6 2 1"));
    CHECK(finds(session, "東京に行", "1"));
    CHECK(finds(session, "首都", "2"));
    CHECK(finds(session, "都", "2"));
    CHECK(finds(session, "京東", ""));
    CHECK(finds(session, "タワー", "6"));
    CHECK(finds(session, "ー", "6"));
    CHECK(finds(session, "สวัสดี", "3"));
    CHECK(finds(session, "โลก", "3"));
    CHECK(finds(session, "ก", "3"));
    CHECK(finds(session, "안녕", "4"));
    CHECK(finds(session, "세계", "4"));
    CHECK(finds(session, "하세", "4"));
    CHECK(finds(session, "手机", "5"));
    CHECK(finds(session, "iphone手机", "5"));
    CHECK(finds(session, "iphone 坏", "5"));
    CHECK(finds(session, "ＩＰＨＯＮＥ", "5"));
    CHECK(finds(session, "\"中国的首都\"", "2"));
    CHECK(finds(session, "中国 首都", "2"));
    CHECK(finds(session, "👍", "7"));
    CHECK(finds(session, "🙂👍", "7"));
}

static void any_text_may_be_searched_for(void)
{
    static const char *const texts[] = {"\"", "\"\"", "*", "AND", "a OR b", "NEAR(a b)", "^x", "-y",
            "text:z", "{a b}:c", "'; DROP TABLE message; --", "a\"b\"c", "((((", "\\", "%_", "a*b*",
            "+ - & | ! ~", "\xff\xfe", "\xed\xa0\x80 a"};

    TEXTS("a OR b", "drop table message");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        pal_status status = search_status(texts[i]);

        if (!CHECK_STATUS_EITHER(status, PAL_OK, PAL_INVALID))
            printf("# '%s'\n", texts[i]);
    }
    CHECK_EQ(count_of("'; DROP TABLE message; --"), 1);
    CHECK_EQ(count_of("a OR b"), 1);
    GIVES(PAL_INVALID, search_status(""));
    GIVES(PAL_INVALID, search_status(" ... "));
    GIVES(PAL_INVALID, search_status("\"\" *"));
}

static void limits_are_kept(void)
{
    char text[PAL_SEARCH_TEXT_LEN_MAX + 2];
    pal_search_query what = {.text = S("a"), .limit = PAL_SEARCH_HITS_MAX + 1};
    pal_search_page hits;

    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = 0;
    GIVES(PAL_LIMIT, search_status(text));
    text[PAL_SEARCH_TEXT_LEN_MAX] = 0;
    OK(search_status(text));
    for (size_t i = 0; i < 2 * PAL_SEARCH_WORDS_MAX + 2; i++)
        text[i] = i % 2 ? ' ' : 'a';
    text[2 * PAL_SEARCH_WORDS_MAX + 2] = 0;
    GIVES(PAL_LIMIT, search_status(text));
    text[2 * PAL_SEARCH_WORDS_MAX] = 0;
    OK(search_status(text));
    GIVES(PAL_LIMIT, pal_store_search(test.store, &what, test.arena, &hits, &test.err));
    what = (pal_search_query){.text = S("a"), .cursor = S("x1")};
    GIVES(PAL_INVALID, pal_store_search(test.store, &what, test.arena, &hits, &test.err));
    what = (pal_search_query){.text = S("a"), .after_seq = 1};
    GIVES(PAL_INVALID, pal_store_search(test.store, &what, test.arena, &hits, &test.err));
    what = (pal_search_query){.text = S("a"), .session = pal_id_new()};
    GIVES(PAL_NOT_FOUND, pal_store_search(test.store, &what, test.arena, &hits, &test.err));
}

/* ---- What of a message is searched ---- */

static void tools_and_files_are_searched(void)
{
    pal_id session = new_session();
    pal_part result_parts[] = {{.kind = PAL_PART_TEXT, .text = S("inner words")}};
    pal_part parts[] = {
            {.kind = PAL_PART_REASONING, .text = S("secretthought")},
            {.kind = PAL_PART_TEXT, .text = S("spoken")},
            {.kind = PAL_PART_TOOL_CALL,
                    .call_id = S("c1"),
                    .name = S("read_file"),
                    .arguments = S("{\"path\":\"src\\/m\\u00e4in.c\",\"text\":\"one\\ntwo\"}")},
            {.kind = PAL_PART_TOOL_CALL,
                    .call_id = S("c2"),
                    .name = S("broken"),
                    .arguments = S("{\"unfinished")},
    };
    pal_part outputs[] = {
            {.kind = PAL_PART_TOOL_RESULT, .call_id = S("c1"), .text = S("output line")},
            {.kind = PAL_PART_TOOL_RESULT,
                    .call_id = S("c2"),
                    .parts = result_parts,
                    .parts_len = 1},
    };
    pal_part file[] = {{.kind = PAL_PART_FILE,
            .name = S("report.pdf"),
            .media_type = S("application/pdf"),
            .data = S("bytes")}};
    pal_message messages[] = {
            {.role = PAL_ROLE_ASSISTANT, .parts = parts, .parts_len = 4},
            {.role = PAL_ROLE_TOOL, .parts = outputs, .parts_len = 2},
            {.role = PAL_ROLE_USER, .parts = file, .parts_len = 1},
    };

    OK(pal_store_append(test.store, no_tenant(), session, messages, 3, 0, &test.err));
    CHECK(finds(session, "spoken", "1"));
    CHECK(finds(session, "read_file", "1"));
    CHECK(finds(session, "MÄIN.c", "1"));
    CHECK(finds(session, "two", "1"));
    CHECK(finds(session, "unfinished", "1"));
    CHECK(finds(session, "\"output line\"", "2"));
    CHECK(finds(session, "inner", "2"));
    CHECK(finds(session, "report.pdf", "3"));
    CHECK(finds(session, "secretthought", ""));
}

static void a_hit_has_its_text_and_position(void)
{
    pal_id session = new_session();
    pal_search_query what = {.session = session, .text = S("needle")};
    pal_message message = text_of(PAL_ROLE_ASSISTANT, "hay\n\n\thay needle hay");
    char longer[2001];
    pal_search_page hits;

    message.created_at = NOW - 5;
    OK(pal_store_append(test.store, no_tenant(), session, &message, 1, 0, &test.err));
    hits = search(&what);
    if (!CHECK_EQ(hits.len, 1))
        return;
    CHECK_EQ(hits.items[0].seq, 1);
    CHECK_EQ(hits.items[0].role, PAL_ROLE_ASSISTANT);
    CHECK_ID(hits.items[0].message, message.id);
    CHECK_EQ(hits.items[0].created_at, NOW - 5);
    CHECK_STR(hits.items[0].snippet, "hay hay needle hay");
    memset(longer, 0, sizeof longer);
    for (size_t i = 0; i < 1000; i += 2)
        memcpy(longer + i, "\xc3\xa4", 2);
    memcpy(longer + 1000, " Needle ", 8);
    for (size_t i = strlen(longer); i < 1990; i += 2)
        memcpy(longer + i, "\xc3\xb6", 2);
    say(session, longer);
    hits = search(&what);
    if (!CHECK_EQ(hits.len, 2))
        return;
    CHECK_THAT(hits.items[0].snippet.len, <, 300);
    CHECK_CONTAINS(hits.items[0].snippet, "Needle");
    CHECK_BYTES(hits.items[0].snippet.data, "\xe2\x80\xa6\xc3\xa4", 5);
}

static void roles_and_times_narrow_it(void)
{
    pal_id session = new_session();
    pal_message messages[] = {text_of(PAL_ROLE_USER, "w"), text_of(PAL_ROLE_ASSISTANT, "w"),
            text_of(PAL_ROLE_USER, "w"), text_of(PAL_ROLE_USER, "w")};
    pal_search_query what = {.session = session, .text = S("w")};
    pal_search_page hits;

    for (int i = 0; i < 4; i++)
        messages[i].created_at = NOW + i;
    OK(pal_store_append(test.store, no_tenant(), session, messages, 4, 0, &test.err));
    what.role = PAL_ROLE_USER;
    hits = search(&what);
    CHECK_STR(seqs_of(&hits), "4 3 1");
    what.from = NOW + 1;
    what.to = NOW + 3;
    hits = search(&what);
    CHECK_STR(seqs_of(&hits), "3");
    what = (pal_search_query){.session = session, .text = S("w"), .after_seq = 1, .before_seq = 4};
    hits = search(&what);
    CHECK_STR(seqs_of(&hits), "3 2");
    what = (pal_search_query){.text = S("w"), .role = PAL_ROLE_ASSISTANT};
    CHECK_EQ(search(&what).len, 1);
}

/* ---- What is in sight ---- */

static void siblings_never_leak(void)
{
    pal_id parent = TEXTS("root word", "shared word", "parent word"), a, b;

    a = fork_at(parent, 2);
    b = fork_at(parent, 2);
    say(a, "alpha word");
    say(b, "beta word");
    say(parent, "late word");
    CHECK(finds(parent, "word", "4 3 2 1"));
    CHECK(finds(a, "word", "3 2 1"));
    CHECK(finds(b, "beta", "3"));
    CHECK(finds(b, "alpha", ""));
    CHECK(finds(a, "late", ""));
    CHECK(finds(a, "parent", ""));
    CHECK(finds(a, "root", "1"));
    CHECK(finds(b, "shared", "2"));
    CHECK_EQ(count_of("word"), 6); /* each message once */
}

static void rewound_messages_are_not_found(void)
{
    pal_id session = TEXTS("one x", "two x", "three x"), child;
    uint64_t rewind;

    child = fork_at(session, 3);
    rewind = rewind_to(session, 1);
    say(session, "four x");
    CHECK(finds(session, "x", "4 1"));
    CHECK(finds(child, "x", "3 2 1"));
    CHECK_EQ(count_of("two"), 1); /* the fork shows it */
    OK(pal_store_delete(test.store, no_tenant(), child, &test.err));
    CHECK_EQ(count_of("two"), 0);
    CHECK_EQ(count_of("four"), 1);
    OK(undo(session, rewind));
    CHECK(finds(session, "x", "4 3 2 1"));
    CHECK_EQ(count_of("two"), 1);
    OK(pal_store_reset(test.store, no_tenant(), session, false, NULL, &test.err));
    CHECK(finds(session, "x", ""));
    CHECK_EQ(count_of("x"), 0);
}

static void forks_of_forks_find_all_the_way(void)
{
    pal_id a = TEXTS("w1", "w2", "w3 w"), b = fork_at(a, 2), c;

    say(b, "w4 w");
    c = fork_at(b, 3);
    say(c, "w5 w");
    CHECK(finds(c, "w1", "1"));
    CHECK(finds(c, "w2", "2"));
    CHECK(finds(c, "w", "4 3"));
    CHECK(finds(c, "w3", ""));
    OK(pal_store_erase(test.store, no_tenant(), a, NULL, &test.err));
    OK(pal_store_delete(test.store, no_tenant(), b, &test.err));
    CHECK(finds(c, "w1", "1"));
    CHECK_EQ(count_of("w1"), 1);
    CHECK_EQ(count_of("w3"), 0);
    OK(pal_store_erase(test.store, no_tenant(), b, NULL, &test.err));
    CHECK_EQ(count_of("w4"), 1);
    OK(pal_store_erase(test.store, no_tenant(), c, NULL, &test.err));
    CHECK_EQ(count_of("w*"), 0);
}

static void the_trash_is_not_searched(void)
{
    pal_id session = TEXTS("findme"), expiring;
    pal_session soon = {.expires_at = NOW + 10};

    OK(pal_store_create(test.store, &soon, &expiring, &test.err));
    say(expiring, "findme");
    CHECK_EQ(count_of("findme"), 2);
    pal_clock_set_ms(NOW + 20);
    CHECK_EQ(count_of("findme"), 1);
    OK(pal_store_delete(test.store, no_tenant(), session, &test.err));
    CHECK_EQ(count_of("findme"), 0);
    CHECK(finds(session, "findme", "1"));
    OK(pal_store_restore(test.store, no_tenant(), session, &test.err));
    CHECK_EQ(count_of("findme"), 1);
}

static void tenants_never_leak(void)
{
    pal_id session = TEXTS("mine"), theirs;
    pal_session other = {.tenant = S("other")};
    pal_message message = text_of(PAL_ROLE_USER, "theirs mine");
    pal_search_query what = {.tenant = S("other"), .text = S("mine")};
    pal_search_page hits;

    OK(pal_store_create(test.store, &other, &theirs, &test.err));
    OK(pal_store_append(test.store, S("other"), theirs, &message, 1, 0, &test.err));
    CHECK_EQ(count_of("mine"), 1);
    CHECK_EQ(count_of("theirs"), 0);
    hits = search(&what);
    if (CHECK_EQ(hits.len, 1))
        CHECK_ID(hits.items[0].session, theirs);
    what.session = session;
    GIVES(PAL_NOT_FOUND, pal_store_search(test.store, &what, test.arena, &hits, &test.err));
    what = (pal_search_query){.tenant = S("nobody"), .text = S("mine")};
    CHECK_EQ(search(&what).len, 0);
}

/* ---- Pages ---- */

static void pages_join_without_a_gap(void)
{
    pal_id a = new_session(), b = new_session();
    pal_search_query what = {.text = S("page"), .limit = 4};
    pal_id seen[32];
    size_t len = 0;

    for (int i = 0; i < 10; i++)
        say(i % 3 ? a : b, "page");
    for (int pages = 0; pages < 10; pages++) {
        pal_search_page hits = search(&what);

        for (size_t i = 0; i < hits.len && len < 32; i++)
            seen[len++] = hits.items[i].message;
        say(a, "page"); /* newer than all messages that follow */
        what.cursor = hits.cursor;
        if (what.cursor.len == 0)
            break;
        CHECK_EQ(hits.len, 4);
    }
    CHECK_EQ(len, 10);
    for (size_t i = 0; i < len; i++)
        for (size_t j = 0; j < i; j++)
            CHECK(!pal_id_equal(seen[i], seen[j]));
}

static void newest_come_first(void)
{
    pal_id a = new_session(), b = new_session();
    pal_search_query what = {.text = S("order")};
    pal_search_page hits;

    say(a, "order 1");
    say(b, "order 2");
    say(a, "order 3");
    hits = search(&what);
    if (CHECK_EQ(hits.len, 3)) {
        CHECK_STR(hits.items[0].snippet, "order 3");
        CHECK_STR(hits.items[1].snippet, "order 2");
        CHECK_STR(hits.items[2].snippet, "order 1");
    }
    what = (pal_search_query){.session = a, .text = S("order"), .limit = 1};
    hits = search(&what);
    if (CHECK_EQ(hits.len, 1)) {
        CHECK_EQ(hits.items[0].seq, 2);
        CHECK_THAT(hits.cursor.len, >, 0);
    }
    what.cursor = hits.cursor;
    hits = search(&what);
    if (CHECK_EQ(hits.len, 1)) {
        CHECK_EQ(hits.items[0].seq, 1);
        CHECK_EQ(hits.cursor.len, 0);
    }
}

/* ---- Many ---- */

/* Message `i` (from 1) has the words "every", "n<i>" and, if 100 divides it, "hundred" and its
 * number. */
static void say_many(pal_id session, int first, int count)
{
    static char texts[BATCH][64];
    pal_message messages[BATCH];

    for (int done = 0; done < count;) {
        int len = 0;

        for (; len < BATCH && done < count; len++, done++) {
            int i = first + done;

            snprintf(texts[len], sizeof texts[len], "every n%d%s %d 東%c", i,
                    i % 100 ? "" : " hundred", i, 'a' + i % 26);
            messages[len] = text_of(PAL_ROLE_USER, texts[len]);
        }
        OK(pal_store_append(
                test.store, no_tenant(), session, messages, (size_t)len, PAL_SEQ_ANY, &test.err));
    }
}

static void many_messages_are_searched(void)
{
    pal_id session = new_session(), other = new_session(), child;
    pal_search_query what = {.session = session, .text = S("every"), .limit = 1000};
    uint64_t expected = MANY;
    pal_search_page hits;

    say_many(session, 1, MANY / 2);
    say_many(other, MANY + 1, 100);
    say_many(session, MANY / 2 + 1, MANY / 2);
    CHECK(finds(session, "n77", "77"));
    CHECK(finds(session, "n2500", "2500"));
    CHECK(finds(session, "n5000", "5000"));
    CHECK(finds(session, "n5001", ""));
    CHECK_EQ(count_of("hundred"), 51);
    CHECK_EQ(count_of("n5100"), 1);
    CHECK_EQ(count_of("\"n777 777\""), 1);
    CHECK(finds(session, "n499*", "4999 4998 4997 4996 4995 4994 4993 4992 4991 4990 499"));
    do { /* all of them, newest first, in pages */
        hits = search(&what);
        for (size_t i = 0; i < hits.len; i++)
            CHECK_EQ(hits.items[i].seq, expected--);
        what.cursor = hits.cursor;
    } while (what.cursor.len > 0);
    CHECK_EQ(expected, 0);
    child = fork_at(session, 3000);
    rewind_to(session, 100);
    say(session, "after n77");
    CHECK(finds(session, "n77", "5001 77"));
    CHECK(finds(session, "n101", ""));
    CHECK(finds(child, "n2999", "2999"));
    CHECK(finds(child, "n3001", ""));
    CHECK(finds(child, "n77", "77"));
    CHECK_EQ(count_of("n2999"), 1);
    CHECK_EQ(count_of("n4000"), 0);
}

/* The messages are large, so that the scan alone does not keep them apart. */
static void large_branches_never_leak(void)
{
    pal_id session = new_session(), child;

    say_many(session, 1, 4000);
    child = fork_at(session, 2500);
    rewind_to(session, 3000);
    say_many(session, 4001, 1000);
    say_many(child, 10001, 500);
    CHECK(finds(session, "n3500", ""));
    CHECK(finds(session, "n3000", "3000"));
    CHECK(finds(session, "n4500", "4500"));
    CHECK(finds(session, "n10001", ""));
    CHECK(finds(child, "n2500", "2500"));
    CHECK(finds(child, "n2501", ""));
    CHECK(finds(child, "n4500", ""));
    CHECK(finds(child, "n10001", "2501"));
    CHECK(finds(child, "n10500", "3000"));
    CHECK_EQ(count_of("n3500"), 0);
    CHECK_EQ(count_of("n2501"), 1);
    CHECK_EQ(count_of("n10500"), 1);
}

static void erased_messages_are_not_found(void)
{
    pal_id kept = new_session(), gone = new_session();

    say_many(kept, 1, 1500);
    say(gone, "unmentionable");
    say_many(kept, 1501, 1500);
    say(gone, "unspeakable");
    CHECK_EQ(count_of("unmentionable"), 1);
    CHECK_EQ(count_of("n1500"), 1);
    OK(pal_store_erase(test.store, no_tenant(), gone, NULL, &test.err));
    CHECK_EQ(count_of("unmentionable"), 0);
    CHECK_EQ(count_of("unspeakable"), 0);
    CHECK_EQ(count_of("n1500"), 1);
    CHECK_EQ(count_of("hundred"), 30);
    say(kept, "unspeakable again");
    CHECK_EQ(count_of("unspeakable"), 1);
    CHECK_EQ(count_of("n3000"), 1);
}

/* Positions that an erasure freed are used again, in a block that was indexed. */
static void messages_after_an_erasure_are_found(void)
{
    pal_id kept = new_session(), middle = new_session(), gone = new_session();

    say_many(kept, 1, 900);
    say_many(middle, 10001, 123); /* up to the end of the first block */
    say_many(gone, 20001, 1500);
    CHECK_EQ(count_of("n10050"), 1);
    OK(pal_store_erase(test.store, no_tenant(), middle, NULL, &test.err));
    CHECK_EQ(count_of("n900"), 1); /* the rest of the first block is indexed again */
    OK(pal_store_erase(test.store, no_tenant(), gone, NULL, &test.err));
    say_many(kept, 901, 1500);
    CHECK_EQ(count_of("n901"), 1);
    CHECK_EQ(count_of("n950"), 1);
    CHECK_EQ(count_of("n2400"), 1);
    CHECK_EQ(count_of("n20001"), 0);
    CHECK_EQ(count_of("every"), 1000);
}

/* Each thread finds its last message at once while all threads append messages. */
static void *say_and_find(void *user)
{
    int *bad = user;
    pal_arena *own = pal_arena_new(0);
    pal_session record = {0};
    pal_error why;
    pal_id session;

    *bad += pal_store_create(test.store, &record, &session, &why) != PAL_OK;
    for (int i = 0; i < 40; i++) {
        char text[64];
        pal_part part = {.kind = PAL_PART_TEXT};
        pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};
        pal_search_query what = {.session = i % 2 ? session : (pal_id){{0}}};
        pal_search_page hits = {0};

        snprintf(text, sizeof text, "thread%dx%d", (int)session.bytes[15] + 256 * session.bytes[14],
                i);
        part.text = what.text = S(text);
        *bad += pal_store_append(
                        test.store, no_tenant(), session, &message, 1, PAL_SEQ_ANY, &why) != PAL_OK;
        *bad += pal_store_search(test.store, &what, own, &hits, &why) != PAL_OK || hits.len != 1;
        pal_arena_reset(own);
    }
    *bad += pal_store_erase(test.store, no_tenant(), session, NULL, &why) != PAL_OK;
    pal_arena_free(own);
    return NULL;
}

static void searches_run_in_parallel_with_appends(void)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    int bad[THREADS] = {0};
    pal_id session = new_session();

    say_many(session, 1, 3000);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, say_and_find, &bad[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ(bad[i], 0);
    }
    CHECK_EQ(count_of("n2999"), 1);
    CHECK_EQ(count_of("thread*"), 0);
}

static void it_is_still_there_when_reopened(void)
{
    pal_id session = new_session();

    if (!contract_is_durable())
        return;
    say_many(session, 1, 3000);
    CHECK_EQ(count_of("n1234"), 1);
    contract_reopen_store();
    CHECK_EQ(count_of("n1234"), 1);
    CHECK(finds(session, "n2999", "2999"));
    contract_open_with(&(pal_store_options){.read_only = true});
    CHECK_EQ(count_of("n1234"), 1);
    CHECK_EQ(count_of("hundred"), 30);
}

void contract_search(void)
{
    RUN(words_are_found_whatever_their_case);
    RUN(all_words_must_occur_in_one_message);
    RUN(phrases_keep_their_order);
    RUN(code_is_found_by_its_parts);
    RUN(scripts_without_spaces_are_found);
    RUN(any_text_may_be_searched_for);
    RUN(limits_are_kept);
    RUN(tools_and_files_are_searched);
    RUN(a_hit_has_its_text_and_position);
    RUN(roles_and_times_narrow_it);
    RUN(siblings_never_leak);
    RUN(rewound_messages_are_not_found);
    RUN(forks_of_forks_find_all_the_way);
    RUN(the_trash_is_not_searched);
    RUN(tenants_never_leak);
    RUN(pages_join_without_a_gap);
    RUN(newest_come_first);
    RUN(many_messages_are_searched);
    RUN(large_branches_never_leak);
    RUN(erased_messages_are_not_found);
    RUN(messages_after_an_erasure_are_found);
    RUN(searches_run_in_parallel_with_appends);
    RUN(it_is_still_there_when_reopened);
}
