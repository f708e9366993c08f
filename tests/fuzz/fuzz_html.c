/* fuzz_html.c - any text as an answer: its HTML has only allowed tags, closes what it opens, and has
 * no link with another scheme; its pieces fit. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/text.h"
#include "channel/channel_html.h"
#include "channel/channel_limits.h"
#include "channel/channel_markdown.h"
#include "channel/channel_split.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) require((condition), #condition, __LINE__)
#define OPEN_MAX 256

static void require(bool held, const char *text, int line)
{
    if (held)
        return;
    fprintf(stderr, "fuzz_html.c:%d: %s\n", line, text);
    abort();
}

static bool is_allowed(pal_str tag)
{
    static const char *const tags[] = {"p", "br", "strong", "em", "del", "code", "pre",
            "blockquote", "ul", "ol", "li", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "a", "table",
            "thead", "tbody", "tr", "th", "td"};
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (pal_str_is(tag, tags[i]))
            return true;
    return false;
}

static void check_attributes(pal_str name, pal_str attributes)
{
    if (attributes.len == 0)
        return;
    if (pal_str_is(name, "a")) {
        REQUIRE(pal_text_begins(attributes, "href=\""));
        REQUIRE(attributes.data[attributes.len - 1] == '"');
        pal_str url = pal_str_make(attributes.data + 6, attributes.len - 7);
        REQUIRE(pal_channel_link_is_allowed(url));
        REQUIRE(!memchr(url.data, '"', url.len));
    } else if (pal_str_is(name, "code")) {
        REQUIRE(pal_text_begins(attributes, "class=\"language-"));
    } else {
        REQUIRE(pal_str_is(name, "ol") && pal_text_begins(attributes, "start=\""));
    }
}

static void check_html(pal_str html)
{
    pal_str open[OPEN_MAX];
    size_t depth = 0;

    while (html.len > 0) {
        const char *start = memchr(html.data, '<', html.len);
        if (!start)
            break;
        html = pal_text_after(html, (size_t)(start - html.data) + 1);
        const char *end = memchr(html.data, '>', html.len);
        REQUIRE(end != NULL);
        pal_str tag = pal_str_make(html.data, (size_t)(end - html.data));
        html = pal_text_after(html, tag.len + 1);
        bool closes = tag.len > 0 && tag.data[0] == '/';
        pal_str name = closes ? pal_text_after(tag, 1) : tag;
        const char *space = memchr(name.data, ' ', name.len);
        if (space)
            name.len = (size_t)(space - name.data);
        REQUIRE(is_allowed(name));
        if (closes) {
            REQUIRE(depth > 0 && pal_str_equal(open[depth - 1], name));
            depth--;
        } else if (!pal_str_is(name, "br") && !pal_str_is(name, "hr")) {
            check_attributes(name, space ? pal_text_after(tag, name.len + 1) : (pal_str){0});
            REQUIRE(depth < OPEN_MAX);
            open[depth++] = name;
        }
    }
    REQUIRE(depth == 0);
}

static void check_pieces(pal_str text)
{
    pal_arena *arena = pal_arena_new(0);
    pal_str *pieces = NULL;
    size_t len = 0;

    REQUIRE(pal_channel_split(text, PAL_CHANNEL_PIECE_MIN, PAL_CHANNEL_PIECE_MIN, arena, &pieces,
                    &len, NULL) == PAL_OK);
    for (size_t i = 0; i < len; i++) {
        REQUIRE(pieces[i].len <= PAL_CHANNEL_PIECE_MIN);
        REQUIRE(pal_utf8_is_valid(pieces[i]));
    }
    pal_arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pal_str text = pal_str_make((const char *)data, size);
    pal_buf html;

    pal_buf_init(&html, SIZE_MAX / 2);
    pal_arena *arena = pal_arena_new(0);
    if (!pal_utf8_is_valid(text))
        text.len = pal_utf8_valid_len(text);
    pal_channel_html(text, arena, &html);
    pal_arena_free(arena);
    if (size <= 4096) {
        REQUIRE(html.failure == PAL_OK);
        check_html(pal_buf_str(&html));
    }
    pal_buf_done(&html);
    check_pieces(text);
    return 0;
}
