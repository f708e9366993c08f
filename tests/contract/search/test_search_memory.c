/* test_search_memory.c - the search index of "memory:": a word that does not occur leads to no row,
 * all other words are found through the index, and words are removed with their messages. Also, for
 * every backend: a search with a time limit reports how far it came. */
#include <stdlib.h>
#include <string.h>

#include "palaver/limits.h"
#include "palaver/store_search.h"
#include "store/memory/memory_store.h"
#include "store/store_front.h"
#include "support/scratch.h"
#include "support/tap.h"

enum { ROWS = 3000, BATCH = 1000, WIDE_LEN = 300 << 10, STEPS = 4000, WORDS = 40, LATE = 40000 };

static struct fixture {
    pal_store *store;
    pal_arena *arena;
    pal_error err;
} test;
static const pal_str default_tenant = {NULL, 0};

static void begin(const char *url)
{
    pal_store_options options = {.estimate = true};

    pal_arena_reset(test.arena);
    OK(pal_store_open(url, &options, &test.store, &test.err));
}

static pal_id new_session(const char *tenant)
{
    pal_session session = {.tenant = pal_str_of(tenant)};
    pal_id id = {{0}};

    OK(pal_store_create(test.store, &session, &id, &test.err));
    return id;
}

static void say(const char *tenant, pal_id session, pal_str text)
{
    pal_part part = {.kind = PAL_PART_TEXT, .text = text};
    pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};

    OK(pal_store_append(
            test.store, pal_str_of(tenant), session, &message, 1, PAL_SEQ_ANY, &test.err));
}

/* Appends messages "n<number> <word>". */
static void say_many(pal_id session, int first, int count, const char *word)
{
    static char texts[BATCH][64];
    static pal_part parts[BATCH];
    static pal_message messages[BATCH];

    for (int done = 0; done < count;) {
        int len = 0;

        for (; len < BATCH && done < count; len++, done++) {
            snprintf(texts[len], sizeof texts[len], "n%d %s", first + done, word);
            parts[len] = (pal_part){.kind = PAL_PART_TEXT, .text = pal_str_of(texts[len])};
            messages[len] = (pal_message){
                    .role = PAL_ROLE_USER, .parts = &parts[len], .parts_len = 1};
        }
        OK(pal_store_append(test.store, default_tenant, session, messages, (size_t)len, PAL_SEQ_ANY,
                &test.err));
    }
}

static void complete_index(void)
{
    OK(pal_store_index(test.store, UINT32_MAX, NULL, &test.err));
}

static size_t count_of(const char *text)
{
    pal_search_query search = {.text = pal_str_of(text), .limit = PAL_SEARCH_HITS_MAX};
    pal_search_page hits = {0};

    OK(pal_store_search(test.store, &search, test.arena, &hits, &test.err));
    return hits.len;
}

static bool count_row(const pal_found_row *found, void *user)
{
    (void)found;
    ++*(size_t *)user;
    return true;
}

/* The number of rows that the search for this word reads. */
static size_t offered(const char *tenant, const char *text)
{
    pal_engine *engine = *pal_store_engine(test.store);
    pal_row_search search = {.tenant = pal_str_of(tenant)};
    size_t rows = 0;
    pal_query query;

    OK(pal_words_query_read(pal_str_of(text), test.arena, &query, &test.err));
    search.query = &query;
    OK(engine->backend->row_search(engine, &search, count_row, &rows, &test.err));
    return rows;
}

static void a_word_that_is_nowhere_costs_nothing(void)
{
    pal_id session, other;

    begin("memory:");
    session = new_session("default");
    other = new_session("other");
    say_many(session, 1, ROWS, "common");
    say("other", other, pal_str_of("theirs alone"));
    CHECK_EQ(offered("default", "nowhere"), ROWS); /* nothing is indexed yet */
    complete_index();
    CHECK_EQ(offered("default", "nowhere"), 0);
    CHECK_EQ(offered("default", "common nowhere"), 0);
    CHECK_EQ(offered("default", "nowh*"), 0);
    CHECK_EQ(offered("default", "theirs"), 0);
    CHECK_EQ(offered("default", "common n77"), 1);
    CHECK_EQ(offered("default", "n100*"), 11);
    CHECK_EQ(offered("default", "common"), ROWS);
    CHECK_EQ(offered("other", "theirs"), 1);
    say_many(session, ROWS + 1, 5, "later");
    CHECK_EQ(offered("default", "nowhere"), 5);
    CHECK_EQ(count_of("later"), 5);
    CHECK_EQ(offered("default", "nowhere"), 0);
    pal_store_close(test.store);
}

static void long_texts_are_looked_at_in_every_search(void)
{
    char *text = malloc(WIDE_LEN + 1);
    pal_id session;

    begin("memory:");
    session = new_session("default");
    memset(text, 'x', WIDE_LEN);
    memcpy(text + WIDE_LEN / 2, " needle ", 8);
    text[WIDE_LEN] = 0;
    say("default", session, pal_str_of(text));
    say_many(session, 1, 100, "small");
    complete_index();
    CHECK_EQ(count_of("needle"), 1);
    CHECK_EQ(offered("default", "nowhere"), 1);
    OK(pal_store_erase(test.store, default_tenant, session, NULL, &test.err));
    CHECK_EQ(count_of("needle"), 0);
    CHECK_EQ(offered("default", "nowhere"), 0);
    pal_store_close(test.store);
    free(text);
}

/* ---- Against adding up ---- */

typedef struct spoken {
    pal_id session;
    int words[2];
    bool is_gone;
} spoken;

static spoken messages[STEPS];
static size_t messages_len;

static int draw(int below)
{
    return rand() % below;
}

static void speak(pal_id session)
{
    spoken *message = &messages[messages_len++];
    char text[64];

    *message = (spoken){.session = session, .words = {draw(WORDS), draw(WORDS)}};
    snprintf(text, sizeof text, "w%d w%d", message->words[0], message->words[1]);
    say("default", session, pal_str_of(text));
}

static size_t spoken_with(int word, int other)
{
    size_t count = 0;

    for (size_t i = 0; i < messages_len; i++) {
        const int *words = messages[i].words;

        count += !messages[i].is_gone && (words[0] == word || words[1] == word) &&
                (words[0] == other || words[1] == other);
    }
    return count;
}

static bool finds_what_was_spoken(void)
{
    int word = draw(WORDS), other = draw(2) ? word : draw(WORDS);
    char text[64];

    pal_arena_reset(test.arena);
    snprintf(text, sizeof text, "w%d w%d", word, other);
    return CHECK_EQ(count_of(text), spoken_with(word, other));
}

static void erase(pal_id *session)
{
    OK(pal_store_erase(test.store, default_tenant, *session, NULL, &test.err));
    for (size_t i = 0; i < messages_len; i++)
        if (pal_id_equal(messages[i].session, *session))
            messages[i].is_gone = true;
    *session = new_session("default");
}

static void words_come_and_go_with_their_messages(void)
{
    const memory_engine *engine;
    pal_id sessions[8];
    bool held = true;

    begin("memory:");
    srand(7);
    messages_len = 0;
    for (size_t i = 0; i < 8; i++)
        sessions[i] = new_session("default");
    while (held && messages_len < STEPS) {
        int step = draw(100);

        if (step < 3)
            erase(&sessions[draw(8)]);
        else if (step < 20)
            held = finds_what_was_spoken();
        else
            speak(sessions[draw(8)]);
    }
    for (size_t i = 0; i < 8; i++)
        erase(&sessions[i]);
    complete_index();
    engine = (memory_engine *)*pal_store_engine(test.store);
    CHECK_PTR(engine->tenant_list->words.first[0], NULL);
    CHECK_EQ(engine->places.len, 0);
    pal_store_close(test.store);
}

static void a_cap_takes_words_along(void)
{
    pal_id session;

    begin("memory:?cap=100");
    session = new_session("default");
    for (int i = 1; i <= 1000; i += 50) {
        say_many(session, i, 50, "common");
        complete_index();
    }
    CHECK_EQ(count_of("common"), 100);
    CHECK_EQ(offered("default", "common"), 100);
    CHECK_EQ(count_of("n900"), 0);
    CHECK_EQ(count_of("n901"), 1);
    CHECK_EQ(offered("default", "n900"), 0);
    pal_store_close(test.store);
}

/* ---- Pages that end by the clock ---- */

/* Reads all pages. *out_partial counts the pages that are not complete. */
static size_t count_by_pages(const char *text, size_t *out_partial)
{
    pal_search_query search = {.text = pal_str_of(text), .wait_ms = 1, .limit = 10};
    size_t found = 0;

    *out_partial = 0;
    do {
        pal_search_page hits = {0};

        OK(pal_store_search(test.store, &search, test.arena, &hits, &test.err));
        found += hits.len;
        *out_partial += hits.partial;
        CHECK(!hits.partial || hits.cursor.len > 0);
        search.cursor = hits.cursor;
    } while (search.cursor.len > 0);
    return found;
}

static void search_without_waiting(const char *url)
{
    pal_session session = {.key = pal_str_of("s")};
    size_t partial;
    pal_id id;

    begin(url);
    OK(pal_store_create(test.store, &session, &id, &test.err));
    say_many(id, 1, 30, "rare");
    say_many(id, 31, LATE, "common");
    if (CHECK_EQ(count_by_pages("rare", &partial), 30))
        CHECK_THAT(partial, >, 0);
    complete_index();
    CHECK_EQ(count_by_pages("rare", &partial), 30);
    CHECK_EQ(count_by_pages("nowhere", &partial), 0);
    pal_store_close(test.store);
}

static void a_search_that_may_not_wait_says_so(void)
{
    char dir[SCRATCH_PATH_MAX], url[512];

    search_without_waiting("memory:");
    scratch_make(true, dir);
    snprintf(url, sizeof url, "sqlite:%s/x.db", dir);
    search_without_waiting(url);
    scratch_clear(dir, true);
}

int main(void)
{
    test.arena = pal_arena_new(0);
    RUN(a_word_that_is_nowhere_costs_nothing);
    RUN(long_texts_are_looked_at_in_every_search);
    RUN(words_come_and_go_with_their_messages);
    RUN(a_cap_takes_words_along);
    RUN(a_search_that_may_not_wait_says_so);
    pal_arena_free(test.arena);
    return tap_done();
}
