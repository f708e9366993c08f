/* test_tokens_text.c - counts, encodes, decodes and cuts complete texts of any bytes. */
#include "base/memory.h"
#include "base/utf8.h"
#include "support/tap.h"
#include "support/vocab_random.h"
#include "tokens/split/split.h"

static pal_arena *arena;
static vocab *words;

static const pal_encoding *encoding_of(const char *pattern)
{
    return vocab_compile(words, pattern, arena);
}

static size_t text_random(char *text, size_t len, int kind, uint64_t *seed)
{
    static const char *const kinds[] = {"ab AB\n.'s1", "ab \t\n", "a\xe4\xb8\xad A", "\xff\x80 ab"};

    for (size_t i = 0; i < len; i++) {
        text[i] = kind == 4 ? (char)vocab_next(seed)
                            : kinds[kind][vocab_next(seed) % strlen(kinds[kind])];
    }
    return len;
}

static void any_bytes_survive_a_round_trip(void)
{
    uint64_t seed = 2;
    char text[300];

    for (size_t p = 0; p < pal_splits_len; p++) {
        const pal_encoding *encoding = encoding_of(pal_splits[p].name);

        for (int i = 0; i < 500 && CHECK(encoding) && !tap_failed; i++) {
            pal_arena *mine = pal_arena_new(0);
            pal_str whole = pal_str_make(
                    text, text_random(text, vocab_next(&seed) % sizeof(text), i % 5, &seed));
            pal_token_ids ids = {0};
            pal_str back = {0};
            uint64_t count = 0;

            CHECK_STATUS(pal_tokens_encode(encoding, whole, mine, &ids, NULL), PAL_OK);
            CHECK_STATUS(pal_tokens_count(encoding, whole, &count, NULL), PAL_OK);
            CHECK_EQ(count, ids.len);
            CHECK_STATUS(pal_tokens_decode(encoding, ids.ids, ids.len, mine, &back, NULL), PAL_OK);
            CHECK_STR(back, whole);
            pal_arena_free(mine);
        }
    }
}

/* Long texts use the table of known words, which must not change the result. */
static void long_texts_count_like_their_pieces(void)
{
    const pal_encoding *encoding = encoding_of("o200k");
    size_t len = 200000;
    char *text = malloc(len);
    uint64_t seed = 77;
    uint64_t sum = 0;
    uint64_t count = 0;
    size_t start = 0;

    text_random(text, len, 0, &seed);
    for (size_t i = 1; i <= len; i++) {
        /* A piece ends before a space between two letters. */
        if (i == len ||
                (i + 1 < len && text[i] == ' ' && (text[i - 1] | 0x20) == 'a' &&
                        (text[i + 1] | 0x20) == 'a')) {
            CHECK_STATUS(
                    pal_tokens_count(encoding, pal_str_make(text + start, i - start), &count, NULL),
                    PAL_OK);
            sum += count;
            start = i;
        }
    }
    CHECK_STATUS(pal_tokens_count(encoding, pal_str_make(text, len), &count, NULL), PAL_OK);
    CHECK_EQ(count, sum);
    free(text);
}

static void the_cut_is_the_longest_beginning_that_fits(void)
{
    static const char *const patterns[] = {"o200k", "cl100k", "gpt2", "deepseek"};
    uint64_t seed = 12;
    char text[80];

    for (int i = 0; i < 1200 && !tap_failed; i++) {
        static const pal_encoding *encodings[4];
        const pal_encoding **encoding = &encodings[i % 4];
        pal_str whole = pal_str_make(
                text, text_random(text, 1 + vocab_next(&seed) % sizeof(text), i % 5, &seed));
        uint64_t tokens_max = vocab_next(&seed) % 40;
        size_t want = 0;
        size_t got = 999;

        if (!*encoding)
            *encoding = encoding_of(patterns[i % 4]);
        for (size_t len = 1; len <= whole.len; len++) {
            uint64_t count = 0;

            if (pal_utf8_cut(whole, len) != len)
                continue;
            CHECK_STATUS(
                    pal_tokens_count(*encoding, pal_str_make(text, len), &count, NULL), PAL_OK);
            want = count <= tokens_max ? len : want;
        }
        CHECK_STATUS(pal_tokens_cut(*encoding, whole, tokens_max, &got, NULL), PAL_OK);
        if (!CHECK_EQ(got, want))
            printf("# %s: %zu not %zu, %u tokens of '%.*s'\n", patterns[i % 4], got, want,
                    (unsigned)tokens_max, (int)whole.len, text);
    }
}

/* Three spaces are one token, though merging does not produce it, and two spaces are two tokens: so
 * the longer prefix is the cheaper one. */
static void a_longer_beginning_can_have_fewer_tokens(void)
{
    vocab *v = vocab_of((const char *const[]){"   ", NULL});
    const pal_encoding *encoding = vocab_compile(v, "o200k", arena);
    size_t len = 0;

    CHECK_STATUS(pal_tokens_cut(encoding, pal_str_of("a   b and more"), 2, &len, NULL), PAL_OK);
    CHECK_EQ(len, 4);
    CHECK_STATUS(pal_tokens_cut(encoding, pal_str_of("a   b and more"), 3, &len, NULL), PAL_OK);
    CHECK_EQ(len, 4);
    free(v);
}

static void long_pieces_can_be_cut(void)
{
    const pal_encoding *encoding = encoding_of("o200k");
    size_t len = 300000;
    char *text = malloc(len);
    uint64_t seed = 6;
    uint64_t count = 0;
    size_t got = 0;

    for (size_t i = 0; i < len; i++)
        text[i] = "ab"[vocab_next(&seed) % 2];
    CHECK_STATUS(pal_tokens_cut(encoding, pal_str_make(text, len), 1000, &got, NULL), PAL_OK);
    CHECK_STATUS(pal_tokens_count(encoding, pal_str_make(text, got), &count, NULL), PAL_OK);
    CHECK_THAT(count, <=, 1000);
    CHECK_THAT(count, >, 990);
    free(text);
}

static void the_empty_text_has_no_tokens(void)
{
    const pal_encoding *encoding = encoding_of("o200k");
    pal_str none = {NULL, 0};
    pal_token_ids ids = {.len = 4};
    uint64_t count = 4;
    size_t len = 4;
    pal_str back = pal_str_of("x");

    CHECK_STATUS(pal_tokens_count(encoding, none, &count, NULL), PAL_OK);
    CHECK_EQ(count, 0);
    if (CHECK_STATUS(pal_tokens_encode(encoding, none, arena, &ids, NULL), PAL_OK))
        CHECK_EQ(ids.len, 0);
    if (CHECK_STATUS(pal_tokens_cut(encoding, none, 3, &len, NULL), PAL_OK))
        CHECK_EQ(len, 0);
    if (CHECK_STATUS(pal_tokens_cut(encoding, pal_str_of("abc"), 0, &len, NULL), PAL_OK))
        CHECK_EQ(len, 0);
    if (CHECK_STATUS(pal_tokens_decode(encoding, NULL, 0, arena, &back, NULL), PAL_OK))
        CHECK_EQ(back.len, 0);
}

static void without_an_encoding_the_count_is_estimated(void)
{
    pal_str text = pal_str_of("Hello, \xe4\xb8\xad\xe6\x96\x87 and more of it.");
    pal_token_ids ids;
    pal_error err;
    uint64_t count = 0;
    size_t len = 0;

    CHECK_STATUS(pal_tokens_count(NULL, text, &count, &err), PAL_OK, &err);
    CHECK_EQ(count, pal_tokens_estimate(text));
    CHECK_STATUS(pal_tokens_encode(NULL, text, arena, &ids, &err), PAL_INVALID, &err);
    CHECK_STATUS(pal_tokens_decode(NULL, NULL, 0, arena, &text, &err), PAL_INVALID, &err);
    for (uint64_t max = 0; max <= count; max++) {
        CHECK_STATUS(pal_tokens_cut(NULL, text, max, &len, &err), PAL_OK, &err);
        CHECK_EQ(pal_utf8_cut(text, len), len);
        CHECK_THAT(pal_tokens_estimate(pal_str_make(text.data, len)), <=, max);
        CHECK(len == text.len || pal_tokens_estimate(pal_str_make(text.data, len + 3)) > max);
    }
    CHECK_EQ(len, text.len);
}

static void an_allocation_failure_is_reported(void)
{
    const pal_encoding *encoding = encoding_of("o200k");
    size_t text_len = 150000;
    char *text = malloc(text_len);
    bool was_fine = false;

    memset(text, 'a', text_len);
    for (uint64_t nth = 1; nth < 40 && !was_fine; nth++) {
        pal_arena *mine = pal_arena_new(0);
        pal_token_ids ids = {0};
        uint64_t count = 0;
        pal_status status;

        pal_memory_fail_at(nth, 0);
        status = pal_tokens_encode(encoding, pal_str_make(text, text_len), mine, &ids, NULL);
        if (status == PAL_OK)
            status = pal_tokens_count(encoding, pal_str_make(text, text_len), &count, NULL);
        was_fine = !pal_memory_failed();
        CHECK(was_fine ? status == PAL_OK : status == PAL_OK || status == PAL_NO_MEMORY);
        pal_memory_fail_at(0, 0);
        pal_arena_free(mine);
    }
    CHECK(was_fine);
    free(text);
}

int main(void)
{
    arena = pal_arena_new(0);
    words = vocab_new(31, "abAB \n.'s1", 300);
    RUN(any_bytes_survive_a_round_trip);
    RUN(long_texts_count_like_their_pieces);
    RUN(the_cut_is_the_longest_beginning_that_fits);
    RUN(a_longer_beginning_can_have_fewer_tokens);
    RUN(long_pieces_can_be_cut);
    RUN(the_empty_text_has_no_tokens);
    RUN(without_an_encoding_the_count_is_estimated);
    RUN(an_allocation_failure_is_reported);
    free(words);
    pal_arena_free(arena);
    return tap_done();
}
