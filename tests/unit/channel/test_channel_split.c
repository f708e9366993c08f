/* test_channel_split.c - long texts become pieces that fit and lose nothing. */
#include "channel/channel_split.h"

#include <stdlib.h>
#include "base/text.h"
#include "channel/channel_limits.h"
#include "support/tap.h"

static pal_arena *arena;
static pal_str *pieces;
static size_t pieces_len;

static void split(pal_str text, size_t bytes_max, size_t units_max)
{
    CHECK_EQ(pal_channel_split(text, bytes_max, units_max, arena, &pieces, &pieces_len, NULL),
            PAL_OK);
}

/* `count` paragraphs of about 100 characters. */
static char *paragraphs(size_t count)
{
    char *text = malloc(count * 128 + 1), *p = text;
    for (size_t i = 0; i < count; i++)
        p += snprintf(p, 128, "%sParagraph %zu says something. It has two sentences, and no more.",
                i ? "\n\n" : "", i);
    return text;
}

static void short_texts_stay_whole(void)
{
    split(pal_str_of("Hello.\n"), 1000, 0);
    CHECK_EQ(pieces_len, 1);
    CHECK_STR(pieces[0], "Hello.");
    split(pal_str_of(" \n \n"), 1000, 0);
    CHECK_EQ(pieces_len, 0);
}

static void cuts_are_at_empty_lines(void)
{
    char *text = paragraphs(20);
    split(pal_str_of(text), 400, 0);
    CHECK_THAT(pieces_len, >=, 4);
    for (size_t i = 0; i < pieces_len; i++) {
        CHECK_THAT(pieces[i].len, <=, 400);
        CHECK(pal_text_begins(pieces[i], "Paragraph "));
        CHECK(pal_text_ends(pieces[i], "no more."));
    }
    free(text);
}

static void code_is_closed_and_opened_again(void)
{
    char text[4000], *p = text;
    p += snprintf(p, 64, "Look:\n\n```python\n");
    for (int i = 0; i < 60; i++)
        p += snprintf(p, 64, "print(%d)  # a line of code\n", i);
    snprintf(p, 64, "```\n\nThat was it.");
    split(pal_str_of(text), 500, 0);
    CHECK_THAT(pieces_len, >=, 3);
    for (size_t i = 0; i < pieces_len; i++) {
        size_t fences = 0;
        for (size_t at = 0; at + 3 <= pieces[i].len; at++)
            fences += memcmp(pieces[i].data + at, "```", 3) == 0;
        CHECK_EQ(fences % 2, 0);
        if (i > 0 && i + 1 < pieces_len)
            CHECK(pal_text_begins(pieces[i], "```python\n"));
        CHECK_THAT(pieces[i].len, <=, 500);
    }
}

static void units_are_counted_as_utf16(void)
{
    CHECK_EQ(pal_channel_units(pal_str_of("a\xc3\xa9\xf0\x9f\x98\x80")), 4);
    char text[4 * 600 + 1];
    for (int i = 0; i < 600; i++)
        memcpy(text + 4 * i, "\xf0\x9f\x98\x80", 4);
    text[sizeof text - 1] = '\0';
    split(pal_str_of(text), 100000, 256);
    size_t sum = 0;
    for (size_t i = 0; i < pieces_len; i++) {
        CHECK_THAT(pal_channel_units(pieces[i]), <=, 256);
        CHECK(pal_utf8_is_valid(pieces[i]));
        sum += pieces[i].len;
    }
    CHECK_EQ(sum, 2400);
}

/* Without code, the pieces contain every character that is not a space, in order. */
static void nothing_is_lost(void)
{
    static const char *const bits[] = {"word", " ", "\n", "\n\n", ". ", "\xc3\xa4", "longerwordhere",
            "\xf0\x9f\x98\x80", ",", "`x`"};
    srand(7);
    for (int round = 0; round < 300; round++) {
        char text[4096], *p = text;
        int count = rand() % 400;
        for (int i = 0; i < count; i++)
            p += snprintf(p, 64, "%s", bits[(size_t)rand() % (sizeof bits / sizeof *bits)]);
        *p = '\0';
        size_t max = PAL_CHANNEL_PIECE_MIN + (size_t)rand() % 300;
        split(pal_str_of(text), max, rand() % 2 ? PAL_CHANNEL_PIECE_MIN : 0);
        const char *at = text;
        for (size_t i = 0; i < pieces_len; i++) {
            CHECK_THAT(pieces[i].len, <=, max);
            for (size_t j = 0; j < pieces[i].len; j++) {
                if (pal_text_is_space(pieces[i].data[j]))
                    continue;
                while (pal_text_is_space(*at))
                    at++;
                if (*at != pieces[i].data[j]) {
                    CHECK_EQ(*at, pieces[i].data[j]);
                    return;
                }
                at++;
            }
        }
        while (pal_text_is_space(*at))
            at++;
        CHECK_EQ(*at, '\0');
        pal_arena_reset(arena);
    }
}

int main(void)
{
    arena = pal_arena_new(0);
    RUN(short_texts_stay_whole);
    RUN(cuts_are_at_empty_lines);
    RUN(code_is_closed_and_opened_again);
    RUN(units_are_counted_as_utf16);
    RUN(nothing_is_lost);
    pal_arena_free(arena);
    return tap_done();
}
