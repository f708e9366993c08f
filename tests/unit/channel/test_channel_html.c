/* test_channel_html.c - Markdown as HTML, and that nothing else gets through. */
#include "channel/channel_html.h"

#include "channel/channel_limits.h"
#include "support/tap.h"

typedef struct row {
    const char *text, *html;
    bool is_plain;
} row;

/* clang-format off */
static const row table[] = {
    {"Hello", "<p>Hello</p>", true},
    {"a < b & c", "<p>a &lt; b &amp; c</p>", true},
    {"one\ntwo", "<p>one<br>two</p>", true},
    {"**b** *i* ~~d~~ `c<`", "<p><strong>b</strong> <em>i</em> <del>d</del> <code>c&lt;</code></p>", false},
    {"# Head\ntext", "<h1>Head</h1><p>text</p>", false},
    {"- a\n- b", "<ul><li>a</li><li>b</li></ul>", false},
    {"3. a\n4. b", "<ol start=\"3\"><li>a</li><li>b</li></ol>", false},
    {"1. a", "<ol><li>a</li></ol>", false},
    {"- a\n\n- b\n  c\n\n  d", "<ul><li>a</li><li>b<br>c<br>d</li></ul>", false},
    {"- a\n  1. b\n     > c", "<ul><li>a<ol><li>b<blockquote><p>c</p></blockquote></li></ol></li></ul>", false},
    {"> quoted", "<blockquote><p>quoted</p></blockquote>", false},
    {"---", "<hr>", false},
    {"```c\nif (a < b)\n```", "<pre><code class=\"language-c\">if (a &lt; b)\n</code></pre>", false},
    {"```\"><script>\nx\n```", "<pre><code>x\n</code></pre>", false},
    {"```\nopen", "<pre><code>open\n</code></pre>", false},
    {"snake_case_name and 2*3*4", "<p>snake_case_name and 2<em>3</em>4</p>", false},
    {"**a *b* c** ***d***", "<p><strong>a <em>b</em> c</strong> <strong><em>d</em></strong></p>", false},
    {"a ** b * c", "<p>a ** b * c</p>", true},
    {"\\*not\\*", "<p>*not*</p>", true},
    {"`a ** b` **c**", "<p><code>a ** b</code> <strong>c</strong></p>", false},
    {"<https://e.org>", "<p><a href=\"https://e.org\">https://e.org</a></p>", false},
    {"| a | b |\n|---|---|\n| 1 | 2 |", "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table>", false},
    {"[t](https://e.org/?a=1&b=\"2\")", "<p><a href=\"https://e.org/?a=1&amp;b=&quot;2&quot;\">t</a></p>", false},
    {"[t](javascript:alert(1))", "<p>t</p>", true},
    {"[t](&#106;avascript:alert(1))", "<p>t</p>", true},
    {"[t](JaVaScRiPt:x) [u](data:text/html,x)", "<p>t u</p>", true},
    {"[t](/relative)", "<p>t</p>", true},
    {"[t](https:)", "<p>t</p>", true},
    {"[t](mailto:a@e.org)", "<p><a href=\"mailto:a@e.org\">t</a></p>", false},
    {"![cat](https://e.org/c.png)", "<p><a href=\"https://e.org/c.png\">cat</a></p>", false},
    {"[![cat](https://e.org/c.png)](https://e.org)", "<p><a href=\"https://e.org\">cat</a></p>", false},
    {"![cat](mxc://e.org/c)", "<p>cat</p>", true},
    {"<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>", true},
    {"<img src=x onerror=y>", "<p>&lt;img src=x onerror=y&gt;</p>", true},
    {"&lt;b&gt;", "<p>&amp;lt;b&amp;gt;</p>", true},
    {"", "", true},
};
/* clang-format on */

static void markdown_becomes_allowed_tags(void)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        pal_buf buf;
        pal_buf_init(&buf, 10000);
        pal_arena *arena = pal_arena_new(0);
        bool is_rich = pal_channel_html(pal_str_of(table[i].text), arena, &buf);
        pal_arena_free(arena);
        CHECK_EQ(buf.failure, PAL_OK);
        CHECK_STR(pal_buf_str(&buf), table[i].html);
        CHECK_EQ(is_rich, !table[i].is_plain);
        pal_buf_done(&buf);
    }
}

static void html_of(pal_str text, size_t len_max, pal_buf *buf)
{
    pal_arena *arena = pal_arena_new(0);
    pal_buf_init(buf, len_max);
    pal_channel_html(text, arena, buf);
    pal_arena_free(arena);
}

static void depth_is_limited(void)
{
    static char text[20000];
    static const char signs[] = ">-*_[`~(";
    pal_buf buf;

    for (size_t i = 0; i < sizeof signs - 1; i++) {
        memset(text, signs[i], sizeof text);
        text[sizeof text - 1] = 'x';
        html_of(pal_str_make(text, sizeof text), 1u << 20, &buf);
        CHECK_EQ(buf.failure, PAL_OK);
        pal_buf_done(&buf);
    }
}

static void too_long_texts_are_refused(void)
{
    static char text[PAL_CHANNEL_MARKDOWN_BYTES_MAX + 1];
    pal_buf buf;

    memset(text, 'x', sizeof text);
    html_of(pal_str_make(text, sizeof text), SIZE_MAX / 2, &buf);
    CHECK_EQ(buf.failure, PAL_LIMIT);
    pal_buf_done(&buf);
    html_of(pal_str_of("Hello"), 5, &buf);
    CHECK_EQ(buf.failure, PAL_LIMIT);
    pal_buf_done(&buf);
}

int main(void)
{
    RUN(markdown_becomes_allowed_tags);
    RUN(depth_is_limited);
    RUN(too_long_texts_are_refused);
    return tap_done();
}
