/* test_store_words.c - words for the search: normal forms, terms, queries, snippets, and blocks of
 * the index. */
#include "store/search/search_words.h"

#include <stdlib.h>

#include "base/text.h"
#include "base/unicode.h"
#include "palaver/limits.h"
#include "store/search/search_block.h"
#include "store/search/search_fold.h"
#include "store/search/search_rank.h"
#include "support/tap.h"

static pal_arena *arena;

static pal_str S(const char *text)
{
    return pal_str_of(text);
}

static bool is_normal(const char *text, const char *wanted)
{
    pal_buf out;
    bool same;

    pal_buf_init(&out, 1 << 20);
    pal_words_normal(S(text), &out);
    same = pal_str_is(pal_buf_str(&out), wanted);
    if (!same)
        printf("# '%s' gives '%.*s'\n", text, (int)out.len, out.data);
    pal_buf_done(&out);
    return same;
}

static char joined[4096];

static bool join_term(pal_term term, void *user)
{
    size_t len = strlen(joined);

    (void)user;
    snprintf(joined + len, sizeof joined - len, "%s%.*s%s", len ? " " : "", (int)term.text.len,
            term.text.data, term.is_prefix ? "*" : "");
    return true;
}

static bool has_terms(const char *normal, const char *wanted)
{
    joined[0] = 0;
    pal_words_terms(S(normal), join_term, NULL);
    return strcmp(joined, wanted) == 0;
}

static bool asks_for(const char *text, const char *wanted)
{
    pal_query query;

    joined[0] = 0;
    if (pal_words_query_read(S(text), arena, &query, NULL) != PAL_OK)
        return false;
    pal_words_query_terms(&query, join_term, NULL);
    return strcmp(joined, wanted) == 0;
}

static void characters_have_kinds(void)
{
    CHECK_EQ(pal_unicode_kind_of('a'), PAL_UNICODE_WORD);
    CHECK_EQ(pal_unicode_kind_of('_'), PAL_UNICODE_GAP);
    CHECK_EQ(pal_unicode_kind_of(0x416), PAL_UNICODE_WORD);
    CHECK_EQ(pal_unicode_kind_of(0x301), PAL_UNICODE_WORD);
    CHECK_EQ(pal_unicode_kind_of(0x4e2d), PAL_UNICODE_UNSPACED);
    CHECK_EQ(pal_unicode_kind_of(0xe01), PAL_UNICODE_UNSPACED);
    CHECK_EQ(pal_unicode_kind_of(0xac00), PAL_UNICODE_UNSPACED);
    CHECK_EQ(pal_unicode_kind_of(0x3001), PAL_UNICODE_GAP);
    CHECK_EQ(pal_unicode_kind_of(0x20000), PAL_UNICODE_UNSPACED);
    CHECK_EQ(pal_unicode_kind_of(0xfffd), PAL_UNICODE_GAP);
    CHECK_EQ(pal_unicode_kind_of(0x10ffff), PAL_UNICODE_GAP);
}

static void texts_have_normal_forms(void)
{
    CHECK(is_normal("", ""));
    CHECK(is_normal(" ,;\n", ""));
    CHECK(is_normal("Hello, World!", "hello world"));
    CHECK(is_normal("foo_bar(x1)", "foo bar x1"));
    CHECK(is_normal("ЖЁ Straße ΣΑΣ", "жё strasse σασ"));
    CHECK(is_normal("ＡＢ１", "ab1"));
    CHECK(is_normal("iPhone手机、坏了ok", "iphone 手机 坏了 ok"));
    CHECK(is_normal("a\xff\xfe"
                    "b\xe4\xb8",
            "a b"));
}

static void places_are_traced_back(void)
{
    pal_str text = S("  ÄB, 手机 cd");

    CHECK_EQ(pal_words_origin(text, 0), 2); /* of "äb 手机 cd" */
    CHECK_EQ(pal_words_origin(text, 2), 4);
    CHECK_EQ(pal_words_origin(text, 4), 7);
    CHECK_EQ(pal_words_origin(text, 11), 14);
    CHECK_EQ(pal_words_origin(S(""), 0), 0);
}

static void terms_narrow_down(void)
{
    CHECK(has_terms("ab cd ab", "ab cd ab"));
    CHECK(has_terms("東京都 x", "東京 京都 都 x"));
    CHECK(has_terms("東", "東"));
    CHECK(has_terms("", ""));
    CHECK(has_terms("abcdefghijklmnopqrstuvwxyz0123456789", "abcdefghijklmnopqrstuvwxyz012345"));
    CHECK(asks_for("foo_ba* x", "foo ba* x"));
    CHECK(asks_for("東", "東*"));
    CHECK(asks_for("東京", "東京"));
    CHECK(asks_for("\"東京都 a\"", "東京 京都 a"));
    CHECK(asks_for("\"a b\"*", "a b*"));
    CHECK(asks_for("abcdefghijklmnopqrstuvwxyz0123456789*", "abcdefghijklmnopqrstuvwxyz012345"));
    CHECK(!asks_for("", ""));
    CHECK(!asks_for("\"-\" *", ""));
}

static void snippets_are_cut_between_characters(void)
{
    char text[1200] = "";
    pal_str snippet;

    CHECK_STR(pal_words_snippet(S("a \n\t b"), 0, arena), "a b");
    CHECK_STR(pal_words_snippet(S(""), 0, arena), "");
    for (int i = 0; i < 300; i++)
        memcpy(text + 3 * i, "語", 3);
    snippet = pal_words_snippet(pal_str_make(text, 900), 450, arena);
    CHECK_EQ(snippet.len, 3 * 122);
    CHECK_BYTES(snippet.data, "…語", 6);
    CHECK_BYTES(snippet.data + 363, "…", 3);
}

/* ---- Blocks ---- */

typedef struct built {
    pal_block_chunk *chunks;
    size_t len;
} built;

static pal_block_bitmap look_up(const built *of, const char *text, bool is_prefix)
{
    pal_term term = {.text = S(text), .is_prefix = is_prefix};
    pal_block_bitmap rows = {{0}};
    bool more = true;
    size_t at = 0;

    while (at + 1 < of->len) {
        pal_str next = of->chunks[at + 1].term;
        size_t len = next.len < term.text.len ? next.len : term.text.len;
        int order = memcmp(next.data, term.text.data, len);

        if (order > 0 || (order == 0 && next.len > term.text.len))
            break;
        at++;
    }
    for (; more && at < of->len; at++)
        CHECK(pal_block_chunk_find(of->chunks[at].data, term, &rows, &more));
    return rows;
}

static size_t count_rows(pal_block_bitmap rows)
{
    size_t count = 0;

    for (size_t i = 0; i < PAL_BLOCK_ROWS; i++)
        count += pal_block_bitmap_has(&rows, i);
    return count;
}

static void blocks_list_the_messages_of_each_word(void)
{
    pal_block_builder *builder = pal_block_new();
    char text[32];
    pal_block_bitmap rows;
    built of;

    for (size_t row = 0; row < PAL_BLOCK_ROWS; row++) {
        pal_block_add(builder, row, S("all"));
        pal_block_add(builder, row, S("all"));
        if (row % 2)
            pal_block_add(builder, row, S("odd"));
        if (row % 50 == 7)
            pal_block_add(builder, row, S("some"));
        snprintf(text, sizeof text, "n%zu", row);
        pal_block_add(builder, row, S(text));
    }
    CHECK_STATUS(pal_block_finish(builder, arena, &of.chunks, &of.len, NULL), PAL_OK);
    if (CHECK_THAT(of.len, >, 5))
        CHECK_EQ(of.chunks[0].term.len, 0);
    CHECK_EQ(count_rows(look_up(&of, "all", false)), 1024);
    CHECK_EQ(count_rows(look_up(&of, "odd", false)), 512);
    rows = look_up(&of, "some", false);
    CHECK_EQ(count_rows(rows), 21);
    if (CHECK(pal_block_bitmap_has(&rows, 7)))
        CHECK(pal_block_bitmap_has(&rows, 1007));
    for (size_t row = 0; row < PAL_BLOCK_ROWS; row++) {
        snprintf(text, sizeof text, "n%zu", row);
        rows = look_up(&of, text, false);
        CHECK_EQ(count_rows(rows), 1);
        CHECK(pal_block_bitmap_has(&rows, row));
    }
    CHECK_EQ(count_rows(look_up(&of, "n", true)), 1024);
    CHECK_EQ(count_rows(look_up(&of, "n10", true)), 1 + 10 + 24);
    CHECK_EQ(count_rows(look_up(&of, "n1024", false)), 0);
    if (CHECK_EQ(count_rows(look_up(&of, "a", false)), 0))
        CHECK_EQ(count_rows(look_up(&of, "z", true)), 0);
    pal_block_free(builder);
}

static void an_empty_block_is_a_block(void)
{
    pal_block_builder *builder = pal_block_new();
    built of;

    CHECK_STATUS(pal_block_finish(builder, arena, &of.chunks, &of.len, NULL), PAL_OK);
    if (CHECK_EQ(of.len, 1))
        CHECK_EQ(of.chunks[0].data.len, 0);
    CHECK_EQ(count_rows(look_up(&of, "x", true)), 0);
    pal_block_free(builder);
}

static void bitmaps_are_written_and_read(void)
{
    pal_block_bitmap bitmap = {{0}}, again;
    pal_str bytes;

    pal_block_bitmap_set(&bitmap, 0);
    pal_block_bitmap_set(&bitmap, 1023);
    bytes = pal_block_bitmap_write(&bitmap, arena);
    if (CHECK_EQ(bytes.len, 128)) {
        CHECK_EQ((unsigned char)bytes.data[127], 0x80);
        CHECK_EQ(bytes.data[0], 1);
    }
    if (CHECK(pal_block_bitmap_read(bytes, &again)))
        CHECK_BYTES(&bitmap, &again, sizeof again);
    CHECK(!pal_block_bitmap_read(pal_str_make(bytes.data, 127), &again));
}

static void damaged_chunks_are_reported(void)
{
    static const char *const damaged[] = {"\x01",
            "\x00\x05"
            "ab",
            "\x01\x01"
            "a\x01\x00",
            "\x00\x01"
            "a",
            "\x00\x01"
            "a\x01\xff\x7f",
            "\x00\x01"
            "a\x64"
            "x",
            "\xff\xff\xff\xff"};
    static const size_t lens[] = {1, 4, 5, 3, 6, 5, 4};
    pal_block_bitmap rows;
    bool more;

    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++)
        CHECK(!pal_block_chunk_find(
                pal_str_make(damaged[i], lens[i]), (pal_term){.text = S("zzz")}, &rows, &more));
}

/* ---- Stems ---- */

static bool has_stem(const char *word, const char *stem)
{
    char out[PAL_TERM_LEN_MAX];
    pal_str got = pal_str_make(out, pal_fold_stem(S(word), out));
    bool same = pal_str_is(got, stem);

    if (!same)
        printf("# '%s' has the stem '%.*s'\n", word, (int)got.len, got.data);
    return same && pal_fold_has_stem(S(word), S(stem)) &&
            pal_text_begins_str(S(word), pal_fold_prefix(got));
}

static void words_have_stems(void)
{
    static const char *const pairs[][2] = {{"dogs", "dog"}, {"dog", "dog"}, {"boxes", "box"},
            {"glass", "glass"}, {"glasses", "glass"}, {"cities", "citi"}, {"city", "citi"},
            {"stopped", "stop"}, {"stopping", "stop"}, {"making", "mak"}, {"makes", "mak"},
            {"painter", "paint"}, {"paintings", "paint"}, {"operation", "oper"},
            {"operates", "oper"}, {"improvement", "improv"}, {"improve", "improv"},
            {"happiness", "happi"}, {"happily", "happi"}, {"happy", "happi"}, {"bus", "bus"},
            {"this", "this"}, {"sing", "sing"}, {"red", "red"}, {"use", "use"}, {"is", "is"},
            {"2023", "2023"}, {"v2s", "v2s"}, {"größen", "größen"}, {"東京", "東京"}, {"s", "s"}};

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        CHECK(has_stem(pairs[i][0], pairs[i][1]));
    CHECK(pal_fold_has_forms(S("paint")));
    CHECK(!pal_fold_has_forms(S("2023")));
    CHECK(!pal_fold_has_forms(S("is")));
    CHECK(!pal_fold_has_forms(S("größe")));
}

/* ---- Ranked searches ---- */

static void questions_have_terms(void)
{
    static char many[1200];
    pal_rank_query *query;
    uint8_t counts[PAL_RANK_TERMS_MAX];
    uint32_t words;

    if (!CHECK_STATUS(pal_rank_query_read(
                              S("Paints, painted \"big ships\" 東京都 pre* 2023"), arena, &query, NULL),
                PAL_OK))
        return;
    CHECK_EQ(query->len, 7); /* paint big ship 東京 京都 pre 2023 */
    CHECK_EQ(query->required.len, 1);
    CHECK_EQ(query->prefixes, UINT64_C(1) << 5);
    CHECK_EQ(pal_rank_terms_of(query, (pal_term){.text = S("painting")}), 1);
    CHECK_EQ(pal_rank_terms_of(query, (pal_term){.text = S("pain")}), 0);
    CHECK_EQ(pal_rank_terms_of(query, (pal_term){.text = S("prefix")}), UINT64_C(1) << 5);
    CHECK_EQ(pal_rank_tally(query, S("a painter paints 東京 ships in 2023"), counts, &words), 0x4d);
    CHECK_EQ(words, 8);
    CHECK_EQ(counts[0], 2);
    CHECK_EQ(counts[2], 1);
    for (int i = 0; i < 63; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), "w%d ", i);
    snprintf(many + strlen(many), sizeof many - strlen(many), "a-b-c");
    CHECK_STATUS(pal_rank_query_read(S(many), arena, &query, NULL), PAL_OK);
    CHECK_EQ(query->len, PAL_RANK_TERMS_MAX); /* "b" and "c" do not count */
    CHECK_STATUS(pal_rank_query_read(S("-"), arena, &query, NULL), PAL_INVALID);
}

static void rare_words_and_short_texts_score_more(void)
{
    CHECK_THAT(pal_rank_weight(1000, 1), >, pal_rank_weight(1000, 10));
    CHECK_THAT(pal_rank_weight(1000, 1000), >, 0);
    CHECK_THAT(pal_rank_weight(10, 1000), >, 0);
    CHECK_THAT(pal_rank_score(1, 1, 10, 20), >, pal_rank_score(1, 1, 30, 20));
    CHECK_THAT(pal_rank_score(1, 2, 20, 20), >, pal_rank_score(1, 1, 20, 20));
    CHECK_THAT(pal_rank_score(1, 255, 20, 20), <, 2.2);
}

static void blocks_are_asked_for_stems(void)
{
    pal_block_builder *builder = pal_block_new();
    pal_term paint = {.text = S("paint"), .is_prefix = true, .stem = S("paint")};
    pal_block_bitmap rows = {{0}};
    pal_block_chunk *chunks;
    size_t len;
    bool more;

    pal_block_add(builder, 0, S("pain"));
    pal_block_add(builder, 1, S("painted"));
    pal_block_add(builder, 2, S("paintbrush"));
    pal_block_add(builder, 3, S("painters"));
    pal_block_add(builder, 4, S("paint"));
    CHECK_STATUS(pal_block_finish(builder, arena, &chunks, &len, NULL), PAL_OK);
    CHECK(pal_block_chunk_find(chunks[0].data, paint, &rows, &more));
    CHECK_EQ(rows.words[0], 0x1a);
    pal_block_free(builder);
}

int main(void)
{
    arena = pal_arena_new(0);
    RUN(characters_have_kinds);
    RUN(texts_have_normal_forms);
    RUN(places_are_traced_back);
    RUN(terms_narrow_down);
    RUN(snippets_are_cut_between_characters);
    RUN(blocks_list_the_messages_of_each_word);
    RUN(an_empty_block_is_a_block);
    RUN(bitmaps_are_written_and_read);
    RUN(damaged_chunks_are_reported);
    RUN(words_have_stems);
    RUN(questions_have_terms);
    RUN(rare_words_and_short_texts_score_more);
    RUN(blocks_are_asked_for_stems);
    pal_arena_free(arena);
    return tap_done();
}
