/* test_tokens_merge.c - merging in linear time gives the same result as the definition of merging:
 * on random vocabularies, with short texts and with pieces longer than a window. */
#include "support/tap.h"
#include "support/vocab_random.h"
#include "tokens/tokens_merge.h"

#define LONG ((size_t)PAL_MERGE_WINDOW * 3 + 777)

static bool is_same(const pal_encoding *encoding, const vocab *v, const unsigned char *text,
        size_t len, pal_arena *arena)
{
    uint16_t *want = malloc((len + 1) * sizeof(*want));
    size_t want_len = vocab_encode(v, text, len, want);
    pal_token_ids got = {0};
    uint64_t count = 0;
    bool same;

    same = pal_tokens_encode(encoding, pal_str_make((const char *)text, len), arena, &got, NULL) ==
                    PAL_OK &&
            pal_tokens_count(encoding, pal_str_make((const char *)text, len), &count, NULL) ==
                    PAL_OK &&
            got.len == want_len && count == want_len;
    for (size_t i = 0; same && i < want_len; i++)
        same = got.ids[i] == want[i];
    if (!same)
        printf("# %zu bytes: '%.*s'\n", len, len < 60 ? (int)len : 60, (const char *)text);
    free(want);
    return same;
}

static void letters_fill(unsigned char *text, size_t len, const char *alphabet, uint64_t *seed)
{
    for (size_t i = 0; i < len; i++)
        text[i] = (unsigned char)alphabet[vocab_next(seed) % strlen(alphabet)];
}

/* With the pattern of gpt2, lower-case letters are one piece. */
static void try_vocabulary(uint64_t seed, const char *alphabet, unsigned merges, int texts)
{
    pal_arena *keep = pal_arena_new(0);
    pal_arena *arena = pal_arena_new(0);
    vocab *v = vocab_new(seed, alphabet, merges);
    const pal_encoding *encoding = vocab_compile(v, "gpt2", keep);
    unsigned char text[400];

    if (CHECK(encoding)) {
        for (int i = 0; i < texts && !tap_failed; i++) {
            size_t len = 1 + vocab_next(&seed) % (i % 50 == 0 ? sizeof(text) : 20);

            letters_fill(text, len, alphabet, &seed);
            CHECK(is_same(encoding, v, text, len, arena));
            pal_arena_reset(arena);
        }
    }
    free(v);
    pal_arena_free(arena);
    pal_arena_free(keep);
}

static void short_pieces_are_merged_as_defined(void)
{
    for (uint64_t seed = 1; seed <= 12 && !tap_failed; seed++) {
        try_vocabulary(seed, "ab", 40, 3000);
        try_vocabulary(seed, "abc", 120, 3000);
        try_vocabulary(seed, "abcdef", 300, 3000);
    }
}

static void every_text_of_two_letters_is_merged_correctly(void)
{
    for (uint64_t seed = 50; seed < 56 && !tap_failed; seed++) {
        pal_arena *keep = pal_arena_new(0);
        pal_arena *arena = pal_arena_new(0);
        vocab *v = vocab_new(seed, "ab", 30);
        const pal_encoding *encoding = vocab_compile(v, "gpt2", keep);

        for (unsigned len = 1; len <= 11 && CHECK(encoding) && !tap_failed; len++) {
            for (unsigned bits = 0; bits < 1u << len; bits++) {
                unsigned char text[16];

                for (unsigned i = 0; i < len; i++)
                    text[i] = bits >> i & 1 ? 'b' : 'a';
                CHECK(is_same(encoding, v, text, len, arena));
            }
            pal_arena_reset(arena);
        }
        free(v);
        pal_arena_free(arena);
        pal_arena_free(keep);
    }
}

static void long_pieces_are_merged_as_defined(void)
{
    static const char *const alphabets[] = {"a", "ab", "abc", "abcdef"};
    unsigned char *text = malloc(LONG);
    uint64_t seed = 99;

    for (int i = 0; i < 8 && !tap_failed; i++) {
        pal_arena *arena = pal_arena_new(0);
        vocab *v = vocab_new((uint64_t)i + 7, alphabets[i % 4], 60);
        const pal_encoding *encoding = vocab_compile(v, "gpt2", arena);

        letters_fill(text, LONG, alphabets[i % 4], &seed);
        if (CHECK(encoding))
            CHECK(is_same(encoding, v, text, LONG, arena));
        free(v);
        pal_arena_free(arena);
    }
    free(text);
}

/* Not random: the rows depend on the far end of the text. */
static void long_periods_are_merged_as_defined(void)
{
    static const char *const periods[] = {"ab", "aab", "abcabd", "aaaaaaab", "abababac"};
    unsigned char *text = malloc(LONG);

    for (unsigned i = 0; i < 5 && !tap_failed; i++) {
        pal_arena *arena = pal_arena_new(0);
        vocab *v = vocab_new(i + 300, "abcd", 200);
        const pal_encoding *encoding = vocab_compile(v, "gpt2", arena);

        for (size_t j = 0; j < LONG; j++)
            text[j] = (unsigned char)periods[i][j % strlen(periods[i])];
        if (CHECK(encoding))
            CHECK(is_same(encoding, v, text, LONG, arena));
        free(v);
        pal_arena_free(arena);
    }
    free(text);
}

/* Runs of random lengths, some of them long enough to be guessed, with single letters between
 * them. */
static void runs_fill(unsigned char *text, size_t len, const char *alphabet, uint64_t *seed)
{
    for (size_t at = 0; at < len;) {
        unsigned char c = (unsigned char)alphabet[vocab_next(seed) % strlen(alphabet)];
        size_t n = 1 + vocab_next(seed) % (vocab_next(seed) % 3 == 0 ? 4 : 150);

        for (size_t i = 0; i < n && at < len; i++)
            text[at++] = c;
    }
}

static void runs_are_merged_as_defined(void)
{
    static const char *const alphabets[] = {"a", "ab", "abc"};
    unsigned char text[3000];
    uint64_t seed = 2024;

    for (unsigned i = 0; i < 60 && !tap_failed; i++) {
        const char *alphabet = alphabets[i % 3];
        pal_arena *keep = pal_arena_new(0);
        pal_arena *arena = pal_arena_new(0);
        vocab *v = vocab_new(i + 4000, alphabet, 10 + 4 * i);
        const pal_encoding *encoding = vocab_compile(v, "gpt2", keep);

        for (int j = 0; j < 20 && CHECK(encoding) && !tap_failed; j++) {
            size_t len = 1 + vocab_next(&seed) % sizeof(text);

            runs_fill(text, len, alphabet, &seed);
            CHECK(is_same(encoding, v, text, len, arena));
            pal_arena_reset(arena);
        }
        free(v);
        pal_arena_free(arena);
        pal_arena_free(keep);
    }
}

/* The vocabulary has tokens of many lengths for runs: a search among them would read dozens of
 * bytes and tokens per byte of the text. */
static void the_work_for_runs_is_limited(void)
{
    enum { LEN = 60000 };
    unsigned char *text = malloc(LEN);
    uint64_t seed = 5;

    for (unsigned i = 0; i < 30; i++) {
        pal_arena *arena = pal_arena_new(0);
        vocab *v = vocab_new(i + 60, i % 2 ? "ab" : "a", 150);
        const pal_encoding *encoding = vocab_compile(v, "gpt2", arena);
        struct pal_merge merge;
        struct pal_table table;

        pal_table_view(encoding, &table);
        pal_merge_init(&merge);
        CHECK(pal_merge_fit(&merge, LEN));
        memset(text, 'a', LEN);
        if (i % 2)
            runs_fill(text, LEN, "ab", &seed);
        pal_merge_all(&table, &merge, text, LEN);
        if (!CHECK_THAT(merge.work, <, 8 * (uint64_t)LEN))
            printf("# vocabulary %u: %.1f for each byte\n", i, (double)merge.work / LEN);
        pal_merge_done(&merge);
        free(v);
        pal_arena_free(arena);
    }
    free(text);
}

/* Windows of one run end in the same way, so the final part is determined once, not in each of
 * them. */
static void the_work_for_borders_is_limited(void)
{
    enum { LEN = 2048, WINDOWS = 50 };
    unsigned char text[LEN];

    memset(text, 'a', LEN);
    for (unsigned i = 0; i < 30; i++) {
        pal_arena *arena = pal_arena_new(0);
        vocab *v = vocab_new(i + 60, "a", 150);
        const pal_encoding *encoding = vocab_compile(v, "gpt2", arena);
        struct pal_merge merge;
        struct pal_table table;
        uint64_t first;
        uint64_t all;
        size_t front;

        pal_table_view(encoding, &table);
        pal_merge_init(&merge);
        CHECK(pal_merge_fit(&merge, LEN - 1));
        pal_merge_front(&table, &merge, text, LEN, &front);
        first = merge.work;
        pal_merge_all(&table, &merge, text, LEN);
        all = merge.work - first;
        merge.work = 0;
        for (int j = 0; j < WINDOWS; j++)
            pal_merge_front(&table, &merge, text, LEN, &front);
        if (front > 0 && !CHECK_THAT(merge.work, <, 2 * WINDOWS * all))
            printf("# vocabulary %u: %llu, not %llu\n", i, (unsigned long long)merge.work / WINDOWS,
                    (unsigned long long)all);
        pal_merge_done(&merge);
        free(v);
        pal_arena_free(arena);
    }
}

/* Tokens that are reported as final stay the same, whatever follows. */
static void final_tokens_never_change(void)
{
    static const char *const alphabets[] = {"a", "ab", "abc"};
    struct pal_merge merge;
    uint64_t seed = 41;
    size_t told = 0;

    for (unsigned i = 0; i < 30 && !tap_failed; i++) {
        const char *alphabet = alphabets[i % 3];
        pal_arena *arena = pal_arena_new(0);
        vocab *v = vocab_new(i + 900, alphabet, 12 + i);
        const pal_encoding *encoding = vocab_compile(v, "gpt2", arena);
        struct pal_table table;

        pal_table_view(encoding, &table);
        pal_merge_init(&merge);
        CHECK(pal_merge_fit(&merge, PAL_MERGE_WINDOW));
        for (int j = 0; j < 300 && !tap_failed; j++) {
            unsigned char text[120];
            uint16_t want[120];
            size_t len = 1 + vocab_next(&seed) % 80;
            size_t more = len + vocab_next(&seed) % 30;
            size_t front;
            size_t tokens;

            letters_fill(text, more, alphabet, &seed);
            tokens = pal_merge_front(&table, &merge, text, len, &front);
            told += front;
            for (size_t k = 0; k < more; k++)
                want[k] = text[k];
            vocab_merge(v, want, more);
            for (size_t k = 0; k < tokens; k++)
                CHECK_EQ(merge.tokens[k], want[k]);
        }
        pal_merge_done(&merge);
        free(v);
        pal_arena_free(arena);
    }
    CHECK_THAT(told, >, 50000);
}

int main(void)
{
    RUN(short_pieces_are_merged_as_defined);
    RUN(every_text_of_two_letters_is_merged_correctly);
    RUN(long_pieces_are_merged_as_defined);
    RUN(long_periods_are_merged_as_defined);
    RUN(runs_are_merged_as_defined);
    RUN(the_work_for_runs_is_limited);
    RUN(the_work_for_borders_is_limited);
    RUN(final_tokens_never_change);
    return tap_done();
}
