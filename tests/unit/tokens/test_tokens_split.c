/* test_tokens_split.c - texts are split as the patterns say. The window agrees with the scanner,
 * and a scanner that has not seen the end never reports what the end could change. */
#include "support/tap.h"
#include "tokens/split/split.h"

typedef struct expected {
    const char *pattern;
    const char *text; /* its pieces with '|' between them */
} expected;

/* The results of the regular expressions, written by hand; tests/tokens compares with the
 * packages. */
static const expected splits[] = {
        {"o200k", "Hello|,| world|!"},
        {"o200k", "don't|x's| IT'S| they're|n't|'s"},
        {"o200k", "camel|Case| HTTPServer| XMLHttp|Request"},
        {"o200k", "123|456|7| |89"},
        {"o200k", "foo|();\n//| bar|(\n/|(\n"},
        {"o200k", "a|\n\n|  | b|\n \n| c"},
        {"o200k", "\ta| |\t|(b|  "},
        {"o200k",
                "\xe4\xb8\xad\xe6\x96\x87|AB| \xe4\xb8\xad"
                "Ab"},
        {"o200k", "e\xcc\x81t\xc3\xa9| (\xcc\x81|x|.\xcc\x81y"},
        {"o200k", "a'\xc5\xbf|x"},
        {"o200k", "\xc2\xa0x|\xff\xfe|y"},
        {"cl100k", "don|'t|x|'S| IT|'re|n"},
        {"cl100k", "camelCase| HTTPServer"},
        {"cl100k", "123|456|7| ((|b"},
        {"cl100k", "foo|();\n|//| bar"},
        {"cl100k", "e|\xcc\x81t\xc3\xa9"},
        {"qwen2", "1|2|3| |4|a"},
        {"tekken", "don|'t| It|'S| |1|2"},
        {"gpt2", "don|'t| IT|'|S| |\t|x| 12345| .|\n|y"},
        {"gpt2", "a|\n\n|\n|b"},
        {"deepseek", "Hello|,world|123|4|.| x"},
        {"deepseek", "a\xcc\x81|\xe4\xb8\xad\xe3\x81\x82|b|  |1| | c"},
        {"deepseek",
                "_foo|\xc3\xa9|((|bar|\n|\x01\x01|\x01"
                "a|\x02"},
};

static const struct pal_split *split_named(const char *name)
{
    return &pal_splits[pal_split_find(pal_str_of(name))];
}

static bool splits_so(const expected *want)
{
    char text[200];
    char got[400];
    size_t len = 0;
    size_t got_len = 0;

    for (const char *p = want->text; *p; p++)
        if (*p != '|')
            text[len++] = *p;
    for (size_t at = 0; at < len;) {
        size_t piece = pal_split_next(split_named(want->pattern), (const unsigned char *)text + at,
                (const unsigned char *)text + len, true);

        if (piece == 0 || piece > len - at)
            return false;
        got_len += (size_t)snprintf(got + got_len, sizeof(got) - got_len, "%s%.*s", at ? "|" : "",
                (int)piece, text + at);
        at += piece;
    }
    if (strcmp(got, want->text) == 0)
        return true;
    printf("# %s: '%s' not '%s'\n", want->pattern, got, want->text);
    return false;
}

static void patterns_split_as_specified(void)
{
    for (size_t i = 0; i < sizeof(splits) / sizeof(splits[0]); i++)
        CHECK(splits_so(&splits[i]));
    CHECK_EQ(pal_split_find(pal_str_of("o2")), pal_splits_len);
}

static uint32_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* Few kinds of characters at a time, so that all sequences of kinds occur. */
static size_t text_random(unsigned char *text, size_t room, uint64_t *seed)
{
    static const char *const parts[] = {"a", "b", "s", "t", "re", "ll", "A", "S", "VE", "1", "2",
            " ", " ", "\n", "\r", "\t", "\f", "'", "'", "/", ".", "(", "\x01", "\x7f", "\xc3\xa9",
            "\xe4\xb8\xad", "\xcc\x81", "\xff", "\xc5\xbf", "\xc2\xa0", "\xff", "\x80", "\xc3",
            "\xc0", "\xe4", "\xe4\xb8", "\xf0\x9f", "\xf0\x9f\x98", "\xed\xa0\x80"};
    size_t all = sizeof(parts) / sizeof(parts[0]);
    size_t kinds = 1 + next(seed) % all;
    size_t first = next(seed) % all;
    size_t len = 0;

    while (len + 4 < room) {
        const char *part = parts[(first + next(seed) % kinds) % all];

        memcpy(text + len, part, strlen(part));
        len += strlen(part);
    }
    return len;
}

static bool window_agrees(const struct pal_split *split, const unsigned char *text, size_t len)
{
    uint64_t starts =
            pal_split_window(split, text, len < PAL_SPLIT_WINDOW ? len : PAL_SPLIT_WINDOW);
    size_t at = 0;

    if (!(starts & 1))
        return false;
    for (starts &= starts - 1; starts; starts &= starts - 1) {
        size_t want = (size_t)__builtin_ctzll(starts);

        at += pal_split_next(split, text + at, text + len, true);
        if (at != want) {
            printf("# %s: piece ends at %zu, not %zu: '%.64s'\n", split->name, at, want,
                    (const char *)text);
            return false;
        }
    }
    return true;
}

static void windows_agree_with_the_scanner(void)
{
    unsigned char text[200] = {0};
    uint64_t seed = 3;

    for (int i = 0; i < 200000 && !tap_failed; i++) {
        size_t len = text_random(text, 6 + next(&seed) % 120, &seed);

        if (len > 0)
            CHECK(window_agrees(&pal_splits[(size_t)i % pal_splits_len], text, len));
    }
}

/* Invalid bytes do not end a window: binary data is counted as fast as text. */
static void windows_take_bytes_that_are_not_characters(void)
{
    static const char text[] = "ab \xff\x80 cd\xc3 \xe4\xb8 ef \xf0\x9f gh\x80\xbf 12 \xc0\xaf xy "
                               "... \xed\xe4 abc def ghi jkl mno pqr";

    for (size_t i = 0; i < pal_splits_len; i++) {
        uint64_t starts =
                pal_split_window(&pal_splits[i], (const unsigned char *)text, PAL_SPLIT_WINDOW);

        CHECK(pal_splits[i].family == PAL_SPLIT_DEEPSEEK || starts >> 56 != 0);
        CHECK(window_agrees(&pal_splits[i], (const unsigned char *)text, strlen(text)));
    }
}

/* In a simple text, the window must find all pieces but the last. */
static void windows_decide_most_of_plain_text(void)
{
    static const char text[PAL_SPLIT_WINDOW + 1] =
            "It wasn't there. if (a_b[12345] == 'x')\n    fooBar(1); // yes 12";

    for (size_t i = 0; i < pal_splits_len - 1; i++) {
        uint64_t starts =
                pal_split_window(&pal_splits[i], (const unsigned char *)text, PAL_SPLIT_WINDOW);

        CHECK_THAT(__builtin_popcountll(starts), >=, 18);
        CHECK_THAT(63 - __builtin_clzll(starts), >=, PAL_SPLIT_WINDOW - 4);
    }
}

static void decided_pieces_never_change(void)
{
    unsigned char text[100] = {0};
    uint64_t seed = 8;

    for (int i = 0; i < 60000 && !tap_failed; i++) {
        const struct pal_split *split = &pal_splits[(size_t)i % pal_splits_len];
        size_t len = text_random(text, 6 + next(&seed) % 40, &seed);
        size_t want;

        if (len == 0)
            continue;
        want = pal_split_next(split, text, text + len, true);
        CHECK_THAT(want, >, 0);
        CHECK_THAT(want, <=, len);
        for (size_t end = 1; end < len; end++) {
            size_t got;

            /* A stream does not pass half a character to the scanner. */
            if ((text[end] & 0xc0) == 0x80)
                continue;
            got = pal_split_next(split, text, text + end, false);
            if (!CHECK_EITHER(got, 0, want))
                printf("# %s: %zu of %zu '%s'\n", split->name, end, len, (char *)text);
        }
    }
}

/* The text that replaces the scanned text is split like it, whatever follows. */
static void a_replaced_beginning_splits_like_the_original(void)
{
    unsigned char text[100] = {0};
    unsigned char short_text[120];
    uint64_t seed = 21;

    for (int i = 0; i < 60000 && !tap_failed; i++) {
        const struct pal_split *split = &pal_splits[(size_t)i % pal_splits_len];
        struct pal_split_rest rest = {0};
        size_t len = text_random(text, 6 + next(&seed) % 40, &seed);
        size_t end = len > 0 ? 1 + next(&seed) % len : 0;
        size_t whole;
        size_t part;
        size_t rest_len;

        while (end < len && (text[end] & 0xc0) == 0x80)
            end++;
        if (len == 0 || pal_split_rest(split, text, text + end, &rest) != 0 || rest.used < 5)
            continue;
        rest_len = strlen(rest.text);
        memcpy(short_text, rest.text, rest_len);
        memcpy(short_text + rest_len, text + rest.used, len - rest.used);
        whole = pal_split_next(split, text, text + len, true);
        part = pal_split_next(split, short_text, short_text + rest_len + len - rest.used, true);
        if (rest.cut > 0 && whole == rest.cut)
            CHECK_EQ(part, rest.text_cut);
        else if (whole <= rest.used) {
            CHECK_THAT(part, <=, rest_len);
            CHECK(rest.cut == 0 || part != rest.text_cut);
        } else
            CHECK_EQ(part - rest_len, whole - rest.used);
        if (tap_failed)
            printf("# %s: '%s' after %zu: '%s'\n", split->name, (char *)text, rest.used, rest.text);
    }
}

int main(void)
{
    RUN(patterns_split_as_specified);
    RUN(windows_agree_with_the_scanner);
    RUN(windows_take_bytes_that_are_not_characters);
    RUN(windows_decide_most_of_plain_text);
    RUN(decided_pieces_never_change);
    RUN(a_replaced_beginning_splits_like_the_original);
    return tap_done();
}
