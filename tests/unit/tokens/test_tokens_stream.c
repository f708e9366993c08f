/* test_tokens_stream.c - a stream gives the same result as the complete text, wherever it is cut:
 * for every pattern, with ids, with counts on the way, and with pieces far longer than a stream may
 * keep. */
#include "base/memory.h"
#include "support/tap.h"
#include "support/vocab_random.h"
#include "tokens/split/split.h"
#include "tokens/tokens_merge.h"

typedef struct told {
    uint32_t *ids;
    size_t len;
    size_t room;
    size_t stop_at;
} told;

static bool tell(const uint32_t *ids, size_t len, void *user)
{
    told *to = user;

    if (to->len + len > to->room) {
        to->room = (to->len + len) * 2;
        to->ids = realloc(to->ids, to->room * sizeof(*ids));
    }
    memcpy(to->ids + to->len, ids, len * sizeof(*ids));
    to->len += len;
    return to->stop_at == 0 || to->len < to->stop_at;
}

/* Letters of all kinds, marks, spaces, signs, digits, and invalid bytes. */
static const char *const parts[] = {"a", "b", "ab", "A", "B", "\xe4\xb8\xad", "\xcc\x81", " ", "  ",
        "\n", "\r\n", "\t", "'", "'s", "'re", "'ll", ".", "/", "//", "1", "23", "\xc2\xa0", "\xff",
        "\xe4\xb8", "\xc5\xbf", "\xf0\x9f\x98\x80", "\x01", "!", "(", "_"};
#define PARTS (sizeof(parts) / sizeof(parts[0]))

static size_t text_random(char *text, size_t room, uint64_t *seed)
{
    size_t len = 0;
    size_t kinds = 2 + vocab_next(seed) % (PARTS - 2);
    size_t first = vocab_next(seed) % PARTS;

    while (len + 8 < room) {
        const char *part = parts[(first + vocab_next(seed) % kinds) % PARTS];

        memcpy(text + len, part, strlen(part));
        len += strlen(part);
    }
    return len;
}

static vocab *vocab_for_streams(void)
{
    return vocab_new(4, "abAB \n'\t./1", 400);
}

/* Text after a possible cut merges differently if it begins a piece; the last one is a token only
 * as a separate piece. */
static vocab *vocab_for_cuts(void)
{
    static const char *const tokens[] = {"\n ", "\n\n", "  ", "    ", "        ", "\t ",
            "\xad"
            "A",
            "\xad"
            "B",
            "AA", "AAAA", "BA", "aa", "ab", "aaaa", "..", "./", "\n/", "\xe4\xb8", "11",
            "\xe4\xb8\xad", " \t\t", NULL};

    return vocab_of(tokens);
}

/* Feeds the text cut at random places and compares. */
static bool is_same(
        const pal_encoding *encoding, pal_str text, size_t chunk_max, uint64_t *seed, bool asks)
{
    pal_arena *arena = pal_arena_new(0);
    pal_token_stream *stream = NULL;
    pal_token_ids want = {0};
    told got = {0};
    uint64_t count = 0;
    size_t at = 0;
    bool same = pal_tokens_encode(encoding, text, arena, &want, NULL) == PAL_OK &&
            pal_token_stream_new(encoding, tell, &got, &stream, NULL) == PAL_OK;

    while (same && at < text.len) {
        size_t len = 1 + vocab_next(seed) % chunk_max;

        len = len < text.len - at ? len : text.len - at;
        same = pal_token_stream_feed(stream, pal_str_make(text.data + at, len), NULL) == PAL_OK;
        at += len;
        if (asks && same) {
            uint64_t whole = 0;

            same = pal_tokens_count(encoding, pal_str_make(text.data, at), &whole, NULL) ==
                            PAL_OK &&
                    pal_token_stream_count(stream, &count, NULL) == PAL_OK && count == whole;
        }
    }
    same = same && pal_token_stream_end(stream, &count, NULL) == PAL_OK && count == want.len &&
            got.len == want.len &&
            (want.len == 0 || memcmp(got.ids, want.ids, want.len * sizeof(*want.ids)) == 0);
    pal_token_stream_free(stream);
    pal_arena_free(arena);
    free(got.ids);
    return same;
}

/* Feeds the text in windows, so that the end of each window is tested. */
static bool is_same_at_windows(const pal_encoding *encoding, pal_str text)
{
    pal_token_stream *stream = NULL;
    uint64_t count = 0;
    uint64_t whole = 0;
    bool same = pal_tokens_count(encoding, text, &whole, NULL) == PAL_OK &&
            pal_token_stream_new(encoding, NULL, NULL, &stream, NULL) == PAL_OK &&
            pal_token_stream_feed(stream, text, NULL) == PAL_OK &&
            pal_token_stream_end(stream, &count, NULL) == PAL_OK && count == whole;

    pal_token_stream_free(stream);
    return same;
}

static void every_cut_results_in_the_same_tokens(void)
{
    pal_arena *arena = pal_arena_new(0);
    vocab *v = vocab_for_streams();
    uint64_t seed = 11;
    char text[1200];

    for (size_t p = 0; p < pal_splits_len; p++) {
        const pal_encoding *encoding = vocab_compile(v, pal_splits[p].name, arena);

        for (int i = 0; i < 300 && CHECK(encoding) && !tap_failed; i++) {
            size_t len = text_random(text, 9 + vocab_next(&seed) % (sizeof(text) - 9), &seed);

            CHECK(is_same(
                    encoding, pal_str_make(text, len), i % 3 ? 1 + i % 300 : 1, &seed, i % 4 == 0));
            if (tap_failed)
                printf("# %s, text %d\n", pal_splits[p].name, i);
        }
    }
    free(v);
    pal_arena_free(arena);
}

/* `first`, then `run` repeatedly, then `near` just before a window ends, then `last`. */
static bool is_same_long(
        const pal_encoding *encoding, const char *const parts_of[4], uint64_t *seed)
{
    const char *run = parts_of[1];
    size_t len = (size_t)PAL_MERGE_WINDOW * 4 - strlen(parts_of[2]);
    size_t run_len = strlen(run);
    char *text = malloc(len + 64);
    size_t at = strlen(parts_of[0]);
    bool same;

    memcpy(text, parts_of[0], at);
    while (at < len) {
        /* A run that begins with '?' is a set of bytes to choose from. */
        size_t part_len = run[0] == '?' ? 1 : run_len;

        memcpy(text + at, run[0] == '?' ? run + 1 + vocab_next(seed) % (run_len - 1) : run,
                part_len);
        at += part_len;
    }
    at = len;
    for (int i = 2; i < 4; i++) {
        memcpy(text + at, parts_of[i], strlen(parts_of[i]));
        at += strlen(parts_of[i]);
    }
    same = is_same(encoding, pal_str_make(text, at), 90000, seed, true) &&
            is_same_at_windows(encoding, pal_str_make(text, at));
    if (!same)
        printf("# '%s' '%s' '%s' '%s'\n", parts_of[0], run, parts_of[2], parts_of[3]);
    free(text);
    return same;
}

static void long_pieces_give_the_same_tokens(void)
{
    static const char *const texts[][4] = {{"", " ", "", "x"}, {"\n", " ", "", "x"},
            {"\n", " ", "", "\nx"}, {"a", "? \t", "\n", " x"}, {"\n", "? \t\n", " ", " x"},
            {"x", "\n", "\n \t\t ", "x"}, {"x", "\n", "\n   ", "x"}, {"x", "\n", "\n   ", "\nx"},
            {"", "a", "", "'s b"}, {" ", "?ab", "'", "r"}, {"(", "?AB", "", "a"},
            {"", "?AB", "", " "}, {"\xe4\xb8\xad", "A", "", "a "}, {"\xe4\xb8\xad", "A", "", " "},
            {"\xe4\xb8\xad", "?AB", "", ". "},
            {"",
                    "\xe4\xb8\xad"
                    "A",
                    "A", "A "},
            {"",
                    "\xe4\xb8\xad"
                    "A",
                    "\xe4\xb8\xad"
                    "AAA",
                    "Aa "},
            {"", "\xe4\xb8\xad",
                    "\xe4\xb8\xad"
                    "AAA",
                    "A."},
            {"", "\xe4\xb8\xad", "\xe4\xb8",
                    "\xad"
                    "a"},
            {"", "?./", "", "\n\n/ x"}, {"./", "\n", "/\n", "/a"}, {"a", "1", "", "."},
            {".", "?ab", "", "\xe4\xb8\xad"}, {"", "\x01", "", "a"}, {"", "\xff", "\xe4", "a"}};
    pal_arena *arena = pal_arena_new(0);
    vocab *v = vocab_for_cuts();
    uint64_t seed = 5;

    for (size_t p = 0; p < pal_splits_len; p++) {
        const pal_encoding *encoding = vocab_compile(v, pal_splits[p].name, arena);

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && CHECK(encoding) && !tap_failed;
                i++) {
            /* All with the first pattern, some with the others, which are similar. */
            if (p > 0 && (i + p) % 4 != 0)
                continue;
            CHECK(is_same_long(encoding, texts[i], &seed));
            if (tap_failed)
                printf("# %s\n", pal_splits[p].name);
        }
    }
    free(v);
    pal_arena_free(arena);
}

/* Half a character is not a letter yet; it must not end the word before it. */
static void characters_can_be_cut_apart(void)
{
    pal_arena *arena = pal_arena_new(0);
    vocab *v = vocab_of((const char *const[]){"\xe4\xb8", "\xe4\xb8\xad", "z\xe4\xb8\xad", NULL});
    const pal_encoding *encoding = vocab_compile(v, "o200k", arena);

    for (size_t half = 1; half < 3; half++) {
        pal_token_stream *stream = NULL;
        char text[604];
        uint64_t count = 0;

        for (size_t i = 0; i < 600; i++)
            text[i] = "b "[i % 2];
        memcpy(text + 600, "z\xe4\xb8\xad", 4);
        CHECK_STATUS(pal_token_stream_new(encoding, NULL, NULL, &stream, NULL), PAL_OK);
        CHECK_STATUS(pal_token_stream_feed(stream, pal_str_make(text, 601 + half), NULL), PAL_OK);
        CHECK_STATUS(pal_token_stream_feed(stream, pal_str_make(text + 601 + half, 3 - half), NULL),
                PAL_OK);
        CHECK_STATUS(pal_token_stream_end(stream, &count, NULL), PAL_OK);
        CHECK_EQ(count, 601);
        pal_token_stream_free(stream);
    }
    free(v);
    pal_arena_free(arena);
}

static void a_stream_can_count_several_texts(void)
{
    pal_arena *arena = pal_arena_new(0);
    vocab *v = vocab_for_streams();
    const pal_encoding *encoding = vocab_compile(v, "o200k", arena);
    pal_token_stream *stream = NULL;
    uint64_t count = 9;

    CHECK_STATUS(pal_token_stream_new(encoding, NULL, NULL, &stream, NULL), PAL_OK);
    if (CHECK_STATUS(pal_token_stream_end(stream, &count, NULL), PAL_OK))
        CHECK_EQ(count, 0);
    for (int i = 0; i < 3; i++) {
        CHECK_STATUS(pal_token_stream_feed(stream, pal_str_of("z z"), NULL), PAL_OK);
        CHECK_STATUS(pal_token_stream_count(stream, &count, NULL), PAL_OK);
        CHECK_EQ(count, 3);
        CHECK_STATUS(pal_token_stream_feed(stream, pal_str_of(" z"), NULL), PAL_OK);
        if (CHECK_STATUS(pal_token_stream_end(stream, &count, NULL), PAL_OK))
            CHECK_EQ(count, 5);
    }
    pal_token_stream_free(stream);
    pal_token_stream_free(NULL);
    free(v);
    pal_arena_free(arena);
}

static void the_sink_can_stop_the_stream(void)
{
    pal_arena *arena = pal_arena_new(0);
    vocab *v = vocab_for_streams();
    const pal_encoding *encoding = vocab_compile(v, "o200k", arena);
    pal_token_stream *stream = NULL;
    told got = {.stop_at = 10};
    char text[2000];
    uint64_t count = 7;
    pal_error err;

    memset(text, '.', sizeof(text));
    for (size_t i = 0; i < sizeof(text); i += 2)
        text[i] = 'z';
    CHECK_STATUS(pal_token_stream_new(encoding, tell, &got, &stream, NULL), PAL_OK);
    CHECK_STATUS(pal_token_stream_feed(stream, pal_str_make(text, sizeof(text)), &err),
            PAL_CANCELED, &err);
    CHECK_STATUS(pal_token_stream_feed(stream, pal_str_of("z"), &err), PAL_CANCELED, &err);
    if (CHECK_STATUS(pal_token_stream_end(stream, &count, &err), PAL_CANCELED, &err))
        CHECK_EQ(count, 7);
    got.stop_at = 0;
    CHECK_STATUS(pal_token_stream_feed(stream, pal_str_of("z"), &err), PAL_OK, &err);
    if (CHECK_STATUS(pal_token_stream_end(stream, &count, &err), PAL_OK, &err))
        CHECK_EQ(count, 1);
    pal_token_stream_free(stream);
    free(got.ids);
    free(v);
    pal_arena_free(arena);
}

static void without_an_encoding_the_count_is_estimated(void)
{
    pal_token_stream *stream = NULL;
    pal_error err;
    uint64_t count = 0;

    CHECK_STATUS(pal_token_stream_new(NULL, tell, NULL, &stream, &err), PAL_INVALID, &err);
    CHECK_STATUS(pal_token_stream_new(NULL, NULL, NULL, &stream, &err), PAL_OK, &err);
    CHECK_STATUS(pal_token_stream_feed(stream, pal_str_of("\xe4\xb8"), &err), PAL_OK, &err);
    CHECK_STATUS(pal_token_stream_feed(stream, pal_str_of("\xad hello"), &err), PAL_OK, &err);
    CHECK_STATUS(pal_token_stream_count(stream, &count, &err), PAL_OK, &err);
    CHECK_EQ(count, pal_tokens_estimate(pal_str_of("\xe4\xb8\xad hello")));
    if (CHECK_STATUS(pal_token_stream_end(stream, &count, &err), PAL_OK, &err))
        CHECK_THAT(count, >, 0);
    CHECK_STATUS(pal_token_stream_count(stream, &count, &err), PAL_OK, &err);
    CHECK_EQ(count, 0);
    pal_token_stream_free(stream);
}

static void an_allocation_failure_is_reported(void)
{
    pal_arena *arena = pal_arena_new(0);
    vocab *v = vocab_for_streams();
    const pal_encoding *encoding = vocab_compile(v, "o200k", arena);
    size_t len = (size_t)PAL_MERGE_WINDOW * 4;
    char *text = malloc(len);
    bool was_fine = false;

    memset(text, ' ', len);
    text[0] = '\n';
    for (uint64_t nth = 1; nth < 60 && !was_fine; nth++) {
        pal_token_stream *stream = NULL;
        told got = {0};
        uint64_t count;
        pal_status status;

        pal_memory_fail_at(nth, 0);
        status = pal_token_stream_new(encoding, tell, &got, &stream, NULL);
        if (status == PAL_OK)
            status = pal_token_stream_feed(stream, pal_str_make(text, len), NULL);
        if (status == PAL_OK)
            status = pal_token_stream_end(stream, &count, NULL);
        was_fine = !pal_memory_failed();
        CHECK(was_fine ? status == PAL_OK : status == PAL_NO_MEMORY || status == PAL_OK);
        pal_memory_fail_at(0, 0);
        pal_token_stream_free(stream);
        free(got.ids);
    }
    CHECK(was_fine);
    free(text);
    free(v);
    pal_arena_free(arena);
}

int main(void)
{
    RUN(every_cut_results_in_the_same_tokens);
    RUN(long_pieces_give_the_same_tokens);
    RUN(characters_can_be_cut_apart);
    RUN(a_stream_can_count_several_texts);
    RUN(the_sink_can_stop_the_stream);
    RUN(without_an_encoding_the_count_is_estimated);
    RUN(an_allocation_failure_is_reported);
    return tap_done();
}
