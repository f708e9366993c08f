/* test_store_best.c - ranked searches: the best hits first, on every backend. */
#include "contract/contract.h"

#include <string.h>

/* More messages than are scanned without an index, and several blocks of it. */
enum { MANY = 5000, BATCH = 500 };

static pal_search_page best(const pal_search_query *what)
{
    pal_search_page hits = {0};
    pal_search_query ranked = *what;

    ranked.rank = 1;
    OK(pal_store_search(test.store, &ranked, test.arena, &hits, &test.err));
    return hits;
}

static const char *seqs_of(const pal_search_page *hits)
{
    static char text[512];

    text[0] = 0;
    for (size_t i = 0; i < hits->len && strlen(text) < sizeof text - 24; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%llu", i ? " " : "",
                (unsigned long long)hits->items[i].seq);
    return text;
}

static bool gives(const pal_search_query *what, const char *seqs)
{
    pal_search_page hits = best(what);
    bool same = strcmp(seqs_of(&hits), seqs) == 0;

    if (!same)
        printf("# '%.*s' gives '%s', not '%s'\n", (int)what->text.len, what->text.data,
                seqs_of(&hits), seqs);
    for (size_t i = 0; !same && i < hits.len; i++)
        printf("#   %llu: %.9f\n", (unsigned long long)hits.items[i].seq,
                hits.items[i].rank->score);
    return same;
}

static bool finds(pal_id session, const char *text, const char *seqs)
{
    return gives(&(pal_search_query){.session = session, .text = S(text)}, seqs);
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

static void any_word_may_occur(void)
{
    pal_id session = TEXTS("We had soup in the evening.", "My sister paints horses.",
            "It rained all day.", "The soup was too salty for my sister.");

    CHECK(finds(session, "What does your sister paint?", "2 4"));
    CHECK(finds(session, "soup sister", "4 2 1"));
    CHECK(finds(session, "a completely unrelated question", ""));
    CHECK(finds(session, "salty unknownword", "4"));
}

static void rare_words_weigh_more(void)
{
    pal_id session = TEXTS("tea and tea and tea", "tea", "tea with milk", "tea again",
            "tea in Lisbon", "tea once more");

    CHECK(finds(session, "tea lisbon", "5 4 6 2 1 3"));
}

static void short_texts_weigh_more_than_long_ones(void)
{
    pal_id session = TEXTS("a b c d e f g h i j k l m n o p harbor", "something else", "harbor");

    CHECK(finds(session, "harbor", "3 1"));
}

static void english_forms_are_one_word(void)
{
    pal_id session = TEXTS("They painted it", "a painting", "paint!", "two cities", "the city",
            "stopping", "it stopped", "PAINTERS", "pain", "happily", "cit", "pan");

    CHECK(finds(session, "paints", "3 2 8 1"));
    CHECK(finds(session, "city", "5 4"));
    CHECK(finds(session, "stop", "6 7"));
    CHECK(finds(session, "happy", "10"));
    CHECK(finds(session, "pain", "9"));
}

static void phrases_are_required(void)
{
    pal_id session = TEXTS("off by one again", "one by one, off we go", "an off by one error",
            "error error error");

    CHECK(finds(session, "\"off by one\" error", "3 1"));
    CHECK(finds(session, "\"off by one\"", "1 3"));
    CHECK(finds(session, "\"by off\" error", ""));
    CHECK(finds(session, "err*", "4 3"));
    CHECK(finds(session, "er* again", "4 1 3"));
}

static void scripts_without_spaces_are_divided(void)
{
    pal_id session = TEXTS("我昨天在北京吃了烤鸭", "上海很大", "東京タワーに行きました", "北方的天气");

    CHECK(finds(session, "你什么时候去了北京？", "1"));
    CHECK(finds(session, "東京タワー", "3"));
    CHECK(finds(session, "北", "4 1"));
    CHECK(finds(session, "大", "2"));
}

/* A phrase or a prefix is what the message says; anything else may be a question. */
static void only_questions_are_ranked(void)
{
    pal_id session = TEXTS("off by one", "one by one", "one offer");
    pal_search_query what = {
            .session = session, .text = S("off one"), .rank = PAL_RANK_QUESTIONS, .neighbors = 1};
    pal_search_page hits = {0};

    OK(pal_store_search(test.store, &what, test.arena, &hits, &test.err));
    CHECK_STR(seqs_of(&hits), "1 2 3");
    if (CHECK_EQ(hits.len, 3) && CHECK(hits.items[0].rank != NULL))
        CHECK_EQ(hits.items[0].rank->neighbors_len, 1);
    what.text = S("off* one");
    OK(pal_store_search(test.store, &what, test.arena, &hits, &test.err));
    CHECK_STR(seqs_of(&hits), "3 1");
    if (CHECK_EQ(hits.len, 2))
        CHECK(hits.items[0].rank == NULL);
    what.text = S("\"by one\" off");
    OK(pal_store_search(test.store, &what, test.arena, &hits, &test.err));
    CHECK_STR(seqs_of(&hits), "1");
    what.rank = PAL_RANK_QUESTIONS + 1;
    GIVES(PAL_INVALID, pal_store_search(test.store, &what, test.arena, &hits, &test.err));
}

static void a_hit_shows_its_words(void)
{
    pal_id session = TEXTS("We saw the painters; paint the ship red.");
    pal_search_query what = {.session = session, .text = S("painted ships")};
    pal_search_page hits = best(&what);

    if (!CHECK_EQ(hits.len, 1) || !CHECK(hits.items[0].rank != NULL))
        return;
    CHECK_THAT(hits.items[0].rank->score, >, 0);
    CHECK_EQ(hits.items[0].rank->neighbors_len, 0);
    if (CHECK_EQ(hits.items[0].matches_len, 3)) {
        CHECK_EQ(hits.items[0].matches[0].start, 11);
        CHECK_EQ(hits.items[0].matches[0].len, 8);
        CHECK_EQ(hits.items[0].matches[2].start, 31);
        CHECK_EQ(hits.items[0].matches[2].len, 4);
    }
}

/* ---- Neighbors ---- */

static bool has_neighbors(pal_search_query what, const char *wanted)
{
    static char text[512];
    pal_search_page hits;

    what.neighbors = 2;
    hits = best(&what);
    text[0] = 0;
    for (size_t i = 0; hits.len == 1 && i < hits.items[0].rank->neighbors_len; i++) {
        const pal_search_neighbor *of = &hits.items[0].rank->neighbors[i];

        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%llu=%.*s", i ? " " : "",
                (unsigned long long)of->seq, (int)of->text.len, of->text.data);
    }
    if (strcmp(text, wanted) != 0)
        printf("# the neighbors are '%s', not '%s'\n", text, wanted);
    return strcmp(text, wanted) == 0;
}

static void neighbors_are_shown(void)
{
    pal_id session = TEXTS("one", "two", "needle", "four", "five", "six"), fork;
    pal_session blank = {0};
    pal_search_query what = {.session = session, .text = S("needle")};

    CHECK(has_neighbors(what, "1=one 2=two 4=four 5=five"));
    what.session = (pal_id){{0}};
    CHECK(has_neighbors(what, "1=one 2=two 4=four 5=five"));
    what = (pal_search_query){.session = session, .text = S("one")};
    CHECK(has_neighbors(what, "2=two 3=needle"));
    what.text = S("six");
    CHECK(has_neighbors(what, "4=four 5=five"));
    OK(pal_store_fork(test.store, &blank, session, 3, &fork, &test.err));
    say(fork, "other");
    what = (pal_search_query){.session = fork, .text = S("needle")};
    CHECK(has_neighbors(what, "1=one 2=two 4=other"));
    rewind_to(session, 3);
    say(session, "after");
    what.session = session;
    CHECK(has_neighbors(what, "1=one 2=two 7=after"));
}

static void neighbors_that_match_too_raise_the_score(void)
{
    pal_id session = TEXTS("the boat", "x", "x", "the harbor and the boat", "the boat", "x", "x",
            "the boat");

    CHECK(finds(session, "harbor boat", "4 5 8 1"));
}

/* ---- Filters ---- */

static void roles_times_and_senders_narrow_it(void)
{
    pal_id session = new_session(), other;
    pal_message messages[4] = {text_of(PAL_ROLE_USER, "red kite"),
            text_of(PAL_ROLE_ASSISTANT, "red kite"), text_of(PAL_ROLE_USER, "red kite"),
            text_of(PAL_ROLE_USER, "red kite")};
    pal_search_query what = {.session = session, .text = S("kite")};

    messages[2].extra = S("{\"sender\":\"@ann:x\"}");
    messages[3].extra = S("{\"sender\":\"@bob:x\"}");
    for (int i = 0; i < 4; i++) {
        pal_clock_set_ms(NOW + i);
        OK(pal_store_append(
                test.store, no_tenant(), session, &messages[i], 1, PAL_SEQ_ANY, &test.err));
    }
    other = TEXTS("a kite");
    CHECK(gives(&what, "3 2 4 1"));
    what.role = PAL_ROLE_ASSISTANT;
    CHECK(gives(&what, "2"));
    what = (pal_search_query){.session = session, .text = S("kite"), .sender = S("@ann:x")};
    CHECK(gives(&what, "3"));
    what.sender = S("@ann");
    CHECK(gives(&what, ""));
    what = (pal_search_query){.text = S("kite"), .sender = S("@bob:x")};
    CHECK(gives(&what, "4"));
    what = (pal_search_query){
            .session = session, .text = S("kite"), .from = NOW + 1, .to = NOW + 3};
    CHECK(gives(&what, "3 2"));
    what = (pal_search_query){
            .session = session, .text = S("kite"), .after_seq = 1, .before_seq = 3};
    CHECK(gives(&what, "2"));
    what = (pal_search_query){.session = other, .text = S("kite")};
    CHECK(gives(&what, "1"));
}

static void senders_narrow_every_search(void)
{
    pal_id session = new_session();
    pal_message message = text_of(PAL_ROLE_USER, "red kite");
    pal_search_query what = {.session = session, .text = S("kite"), .sender = S("@ann:x")};
    pal_search_page hits = {0};

    say(session, "a kite of \"sender\" @ann:x");
    message.extra = S("{\"sender\":\"@ann:x\"}");
    OK(pal_store_append(test.store, no_tenant(), session, &message, 1, PAL_SEQ_ANY, &test.err));
    OK(pal_store_search(test.store, &what, test.arena, &hits, &test.err));
    CHECK(strcmp(seqs_of(&hits), "2") == 0);
}

static void hidden_messages_are_not_found(void)
{
    pal_id session = TEXTS("a comet", "x", "a comet");
    pal_search_query what = {.text = S("comets"), .hidden = 1};

    rewind_to(session, 2);
    CHECK(finds(session, "comets", "1"));
    CHECK(gives(&(pal_search_query){.text = S("comets")}, "1"));
    CHECK(gives(&what, "3 1"));
    OK(pal_store_delete(test.store, no_tenant(), session, &test.err));
    CHECK(gives(&(pal_search_query){.text = S("comets")}, ""));
}

static double score_of(const char *text)
{
    pal_search_query what = {.text = S(text)};
    pal_search_page hits = best(&what);

    return CHECK_EQ(hits.len, 1) ? hits.items[0].rank->score : 0;
}

/* Appends a text 2,500 times to a session of the tenant "other", and completes the index. */
static void say_often(pal_id session, const char *text)
{
    static pal_message messages[BATCH];

    for (int i = 0; i < 5; i++) {
        for (int j = 0; j < BATCH; j++)
            messages[j] = text_of(PAL_ROLE_USER, text);
        OK(pal_store_append(
                test.store, S("other"), session, messages, BATCH, PAL_SEQ_ANY, &test.err));
    }
    OK(pal_store_index(test.store, UINT32_MAX, NULL, &test.err));
}

/* Otherwise a score would reveal how often others use a word. */
static void scores_do_not_depend_on_other_tenants(void)
{
    pal_session other = {.tenant = S("other")};
    pal_id theirs;
    double before;

    TEXTS("a secret plan", "nothing", "here");
    OK(pal_store_create(test.store, &other, &theirs, &test.err));
    say_often(theirs, "nothing");
    before = score_of("secret plan");
    say_often(theirs, "a secret");
    CHECK(score_of("secret plan") == before);
}

/* ---- Pages and limits ---- */

static void pages_continue_the_ranking(void)
{
    pal_id session = new_session();
    pal_search_query what = {.session = session, .text = S("page"), .limit = 3};
    uint64_t seen[16];
    size_t len = 0;

    for (int i = 0; i < 10; i++)
        say(session, "page");
    for (int pages = 0; pages < 8; pages++) {
        pal_search_page hits = best(&what);

        for (size_t i = 0; i < hits.len && len < 16; i++)
            seen[len++] = hits.items[i].seq;
        what.cursor = hits.cursor;
        if (what.cursor.len == 0)
            break;
        CHECK_EQ(hits.len, 3);
    }
    CHECK_EQ(len, 10);
    for (size_t i = 0; i < len; i++)
        for (size_t j = 0; j < i; j++)
            CHECK(seen[i] != seen[j]);
}

static void wrong_searches_are_refused(void)
{
    static const char *const cursors[] = {"r", "p1", "s1", "rx", "r-1", "r1x", "r99999999"};
    pal_search_query what = {.text = S("a"), .rank = 1, .neighbors = 6};
    pal_search_page hits;

    GIVES(PAL_LIMIT, pal_store_search(test.store, &what, test.arena, &hits, &test.err));
    what = (pal_search_query){.text = S("a"), .neighbors = 1};
    GIVES(PAL_INVALID, pal_store_search(test.store, &what, test.arena, &hits, &test.err));
    what = (pal_search_query){.text = S("?!"), .rank = 1};
    GIVES(PAL_INVALID, pal_store_search(test.store, &what, test.arena, &hits, &test.err));
    for (size_t i = 0; i < sizeof cursors / sizeof cursors[0]; i++) {
        what = (pal_search_query){.text = S("a"), .rank = 1, .cursor = S(cursors[i])};
        GIVES(PAL_INVALID, pal_store_search(test.store, &what, test.arena, &hits, &test.err));
    }
}

/* ---- Many ---- */

/* Message `i` (from 1) has the words "every", "n<i>", "tenth" if 10 divides it, and "needles" if
 * 1000 does. */
static void say_many(pal_id session, int first, int count)
{
    static char texts[BATCH][64];
    pal_message messages[BATCH];

    for (int done = 0; done < count;) {
        int len = 0;

        for (; len < BATCH && done < count; len++, done++) {
            int i = first + done;

            snprintf(texts[len], sizeof texts[len], "every n%d%s%s", i, i % 10 ? "" : " tenth",
                    i % 1000 ? "" : " needles");
            messages[len] =
                    text_of(i % 2 ? PAL_ROLE_USER : PAL_ROLE_ASSISTANT, texts[len]);
        }
        OK(pal_store_append(
                test.store, no_tenant(), session, messages, (size_t)len, PAL_SEQ_ANY, &test.err));
    }
}

static void many_messages_are_ranked(void)
{
    pal_id session = new_session(), other = new_session();
    pal_search_query what = {.session = session, .text = S("the needle")};
    pal_search_page hits;

    say_many(session, 1, MANY / 2);
    say_many(other, 6001, 1000);
    say_many(session, MANY / 2 + 1, MANY / 2);
    what.limit = 5;
    CHECK(gives(&what, "5000 4000 3000 2000 1000"));
    what = (pal_search_query){.text = S("was there a needle?"), .limit = 10};
    CHECK_EQ(best(&what).len, 6);
    what.role = PAL_ROLE_USER;
    CHECK_EQ(best(&what).len, 0);
    what = (pal_search_query){.session = other, .text = S("needle n6500"), .limit = 2};
    CHECK(gives(&what, "500 1000"));
    what = (pal_search_query){.text = S("every"), .limit = 50};
    hits = best(&what);
    CHECK_EQ(hits.len, 50);
    CHECK_THAT(hits.cursor.len, >, 0);
    what = (pal_search_query){
            .text = S("every"), .role = PAL_ROLE_ASSISTANT, .from = NOW + 999, .limit = 50};
    CHECK_EQ(best(&what).len, 0);
    what = (pal_search_query){.session = session, .text = S("needle"), .limit = 1, .neighbors = 1};
    hits = best(&what);
    if (CHECK_EQ(hits.len, 1) && CHECK_EQ(hits.items[0].rank->neighbors_len, 1))
        CHECK_STR(hits.items[0].rank->neighbors[0].text, "every n4999");
    what = (pal_search_query){.session = session, .text = S("\"tenth needles\" n3000"), .limit = 9};
    CHECK(gives(&what, "3000 5000 4000 2000 1000"));
}

/* Filters leave few of the rows that the index would choose first. */
static void filters_do_not_hide_hits(void)
{
    pal_id session = new_session(), trash = new_session();
    pal_search_query what = {.text = S("needle"), .limit = 2};

    say(session, "a needle in a very long message that few would read to its end");
    for (int i = 0; i < 8; i++) {
        static pal_message messages[BATCH];

        for (int j = 0; j < BATCH; j++)
            messages[j] = text_of(PAL_ROLE_USER, "needle");
        OK(pal_store_append(test.store, no_tenant(), trash, messages, BATCH, PAL_SEQ_ANY,
                &test.err));
    }
    say_many(trash, 1, 1500);
    CHECK_EQ(best(&what).len, 2);
    OK(pal_store_delete(test.store, no_tenant(), trash, &test.err));
    CHECK(gives(&what, "1"));
}

static void erased_words_are_not_found(void)
{
    pal_id session = new_session(), kept = new_session();
    pal_erase_result result;

    say_many(kept, 1, 1200);
    say_many(session, 6001, 1200);
    say(kept, "the last");
    CHECK_EQ(best(&(pal_search_query){.text = S("needle")}).len, 2);
    OK(pal_store_erase(test.store, no_tenant(), session, &result, &test.err));
    CHECK(gives(&(pal_search_query){.text = S("needle")}, "1000"));
    CHECK_EQ(best(&(pal_search_query){.text = S("n6100")}).len, 0);
}

static void it_is_still_ranked_when_reopened(void)
{
    pal_id session = new_session();

    if (!contract_is_durable())
        return;
    say_many(session, 1, 3000);
    CHECK(finds(session, "needle n2001", "2001 2000 3000 1000"));
    contract_reopen_store();
    CHECK(finds(session, "needle n2001", "2001 2000 3000 1000"));
    contract_open_with(&(pal_store_options){.read_only = true});
    CHECK(finds(session, "needle n2001", "2001 2000 3000 1000"));
}

void contract_best(void)
{
    RUN(any_word_may_occur);
    RUN(rare_words_weigh_more);
    RUN(short_texts_weigh_more_than_long_ones);
    RUN(english_forms_are_one_word);
    RUN(phrases_are_required);
    RUN(scripts_without_spaces_are_divided);
    RUN(only_questions_are_ranked);
    RUN(a_hit_shows_its_words);
    RUN(neighbors_are_shown);
    RUN(neighbors_that_match_too_raise_the_score);
    RUN(roles_times_and_senders_narrow_it);
    RUN(senders_narrow_every_search);
    RUN(hidden_messages_are_not_found);
    RUN(scores_do_not_depend_on_other_tenants);
    RUN(pages_continue_the_ranking);
    RUN(wrong_searches_are_refused);
    RUN(many_messages_are_ranked);
    RUN(filters_do_not_hide_hits);
    RUN(erased_words_are_not_found);
    RUN(it_is_still_ranked_when_reopened);
}
