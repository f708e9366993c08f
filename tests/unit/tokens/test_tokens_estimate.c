/* test_tokens_estimate.c - the estimate: four bytes per token for ASCII, near o200k_base otherwise,
 * and the same in pieces. */
#include <stdio.h>
#include <stdlib.h>
#include "base/json/json.h"
#include "palaver/limits.h"
#include "palaver/tokens.h"
#include "support/tap.h"
#include "support/vectors.h"
#include "tokens/tokens_estimate.h"

#define ERROR_MAX 0.15

static pal_arena *arena;

static uint64_t estimate(const char *text)
{
    return pal_tokens_estimate(pal_str_of(text));
}

static void ascii_has_four_bytes_per_token(void)
{
    pal_json_iter iter =
            pal_json_each(pal_json_find(vectors_load(arena, "token_estimates.json"), "cases"));
    pal_json row;
    size_t compared = 0;

    while (pal_json_next(&iter, NULL, &row)) {
        uint64_t len, wanted;
        char *text;

        if (!pal_json_u64(pal_json_find(row, "len"), &len))
            continue;
        CHECK(pal_json_u64(pal_json_find(row, "sol_ceil_bytes"), &wanted));
        text = pal_arena_alloc(arena, len + 1);
        for (size_t i = 0; i < len; i++)
            text[i] = (char)(i * 7 % 128);
        CHECK_EQ(pal_tokens_estimate(pal_str_make(text, len)), wanted);
        compared++;
    }
    CHECK_THAT(compared, >=, 12);
}

static double error_of(uint64_t estimated, uint64_t counted)
{
    return (double)estimated / (double)counted - 1;
}

static void estimates_of_samples_are_close(void)
{
    const pal_encoding *o200k = pal_encoding_find(pal_str_of("o200k_base"));
    pal_json_iter iter = pal_json_each(vectors_json(arena, "tokens", "counts.json"));
    pal_json name, value;
    size_t compared = 0;

    printf("# o200k_base is %s\n", o200k ? "built in" : "not built in: recorded counts only");
    while (pal_json_next(&iter, &name, &value)) {
        pal_str file = pal_json_string(name, arena);
        pal_str text = vectors_text(arena, "tokens", pal_arena_copy(arena, file).data);
        uint64_t recorded = 0, counted = 0, estimated = pal_tokens_estimate(text);
        pal_error err;

        if (CHECK(pal_json_u64(value, &recorded)))
            CHECK_THAT(recorded, >, 300);
        if (o200k && CHECK_STATUS(pal_tokens_count(o200k, text, &counted, &err), PAL_OK, &err))
            CHECK_EQ(counted, recorded);
        printf("# %-18.*s %5d is %5d %+5.1f %%\n", PAL_STR_ARG(file), (int)recorded, (int)estimated,
                100 * error_of(estimated, recorded));
        CHECK_THAT(error_of(estimated, recorded), <, ERROR_MAX);
        CHECK_THAT(error_of(estimated, recorded), >, -ERROR_MAX);
        compared++;
    }
    CHECK_THAT(compared, >=, 18);
}

static void scripts_have_different_costs(void)
{
    CHECK_EQ(estimate(""), 0);
    CHECK_EQ(estimate("\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e"), 3); /* three Chinese characters */
    CHECK_EQ(estimate("\xd0\xbf\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82"), 2);
    CHECK_EQ(estimate("\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80"), 6);
    CHECK_EQ(estimate("\xf4\x8f\xbf\xbf"), 4); /* the last character of Unicode */
}

static void each_invalid_byte_is_a_token(void)
{
    CHECK_EQ(estimate("\xff\xfe\xfd"), 3);
    CHECK_EQ(estimate("\xe6\x97"), 2);
    CHECK_EQ(estimate("\xe6\x97 \xe6"), 4);
    CHECK_EQ(estimate("\xed\xa0\x80"), 3); /* a surrogate */
    CHECK_EQ(estimate("\xc0\xaf\x80"), 3); /* an overlong form */
    CHECK_EQ(estimate("\xf0\x9f\x98"), 3);
}

/* Pieces of every length, over bytes that are broken in many ways. */
static void pieces_count_like_the_complete_text(void)
{
    static const char mixed[] = "a\xc3\xa9\xe6\x97\xa5\xf0\x9f\x98\x80 \xe6\x97\xff\xf0\x9f\x98"
                                "b\xe0\x80\xc3\xc3\xa9\xed\xa0\x80\xf4\x90\x80\x80\xe2\x82";
    char random[512];
    uint32_t state = 7;

    for (size_t i = 0; i < sizeof(random); i++) {
        state = state * 1664525 + 1013904223;
        random[i] = i < sizeof(mixed) ? mixed[i] : (char)(state >> 24 | (state >> 8 & 0x80));
    }
    for (size_t len = 0; len < sizeof(random); len += 1 + len / 32) {
        uint64_t whole = pal_tokens_estimate(pal_str_make(random, len));

        for (size_t step = 1; step <= 9; step++) {
            pal_estimate e = {0};

            for (size_t at = 0; at < len; at += step)
                pal_estimate_feed(&e, pal_str_make(random + at, len - at < step ? len - at : step));
            CHECK_EQ(pal_estimate_tokens(&e), whole);
        }
    }
}

static void reading_the_estimate_does_not_end_it(void)
{
    pal_estimate e = {0};

    pal_estimate_feed(&e, pal_str_of("\xe6"));
    CHECK_EQ(pal_estimate_tokens(&e), 1);
    pal_estimate_feed(&e, (pal_str){0});
    pal_estimate_feed(&e, pal_str_of("\x97\xa5"));
    CHECK_EQ(pal_estimate_tokens(&e), 1);
    pal_estimate_feed(&e, pal_str_of("1234"));
    CHECK_EQ(pal_estimate_tokens(&e), 2);
}

static void the_rest_of_a_long_text_counts_like_its_beginning(void)
{
    size_t len = 3 * PAL_TOKENS_ESTIMATED_BYTES_MAX;
    char *text = pal_arena_alloc(arena, len);

    CHECK_EQ(pal_estimate_quickly(pal_str_make(NULL, 0)), 0);
    CHECK_EQ(pal_estimate_quickly(pal_str_of("12345")), 2);
    for (size_t i = 0; i < len; i += 3)
        memcpy(text + i, "\xe4\xb8\xad", 3);
    CHECK_EQ(pal_estimate_quickly(pal_str_make(text, len)) / 1000,
            pal_tokens_estimate(pal_str_make(text, len)) / 1000);
    memset(text + len / 2, 'x', len - len / 2);
    CHECK_THAT(pal_estimate_quickly(pal_str_make(text, len)), >,
            pal_tokens_estimate(pal_str_make(text, len)));
}

int main(void)
{
    arena = pal_arena_new(0);
    if (!arena)
        return 1;
    RUN(ascii_has_four_bytes_per_token);
    RUN(estimates_of_samples_are_close);
    RUN(scripts_have_different_costs);
    RUN(each_invalid_byte_is_a_token);
    RUN(pieces_count_like_the_complete_text);
    RUN(reading_the_estimate_does_not_end_it);
    RUN(the_rest_of_a_long_text_counts_like_its_beginning);
    pal_arena_free(arena);
    return tap_done();
}
