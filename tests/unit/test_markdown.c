/* test_markdown.c - a model's text on a terminal, however it is cut into pieces. */
#include "cli/terminal/terminal_markdown.h"
#include "base/memory.h"
#include "support/tap.h"

#define OUT_MAX (1u << 20)

typedef struct look {
    size_t width;
    bool has_styles;
    bool is_raw;
} look;

/* Feeds `step` bytes at a time; the first piece has `first` bytes. 0: everything at once. */
static void render(look as, pal_str text, size_t first, size_t step, pal_buf *out)
{
    pal_markdown md;
    pal_markdown_init(&md, out, as.width, as.has_styles);
    md.is_raw = as.is_raw;
    size_t at = 0, len = first ? first : text.len;
    while (at < text.len) {
        if (len > text.len - at)
            len = text.len - at;
        pal_markdown_feed(&md, pal_str_make(text.data + at, len));
        at += len;
        len = step ? step : text.len;
    }
    pal_markdown_finish(&md);
    pal_markdown_done(&md);
}

static bool shows(look as, const char *text, const char *wanted)
{
    pal_buf out;
    pal_buf_init(&out, OUT_MAX);
    render(as, pal_str_of(text), 0, 0, &out);
    bool same = pal_str_is(pal_buf_str(&out), wanted);
    if (!same)
        printf("# shown:\n# %.*s\n# wanted:\n# %s\n", (int)out.len, out.data, wanted);
    pal_buf_done(&out);
    return same;
}

static const look plain = {.width = 20};
static const look styled = {.width = 20, .has_styles = true};
static const look wide = {.width = 80, .has_styles = true};

/* ---- Lines and words ---- */

static void lines_break_between_words(void)
{
    CHECK(shows(plain, "one two three four five six", "one two three four\nfive six\n"));
    CHECK(shows(plain, "12345678901234567890 x", "12345678901234567890\nx\n"));
    CHECK(shows(plain, "a\nb", "a\nb\n"));
    CHECK(shows(plain, "a\n\n\n\nb\n\n\n", "a\n\nb\n"));
    CHECK(shows(plain, "\n\na", "a\n"));
    CHECK(shows(plain, "", ""));
}

static void the_terminal_breaks_long_words(void)
{
    CHECK(shows(plain, "see https://example.org/a/long/path now",
            "see\nhttps://example.org/a/long/path now\n"));
}

static void width_is_measured_in_columns(void)
{
    CHECK(shows(plain, "\u4f60\u597d\u4e16\u754c\u4f60\u597d\u4e16\u754c\u4f60\u597d\u4e16\u754c",
            "\u4f60\u597d\u4e16\u754c\u4f60\u597d\u4e16\u754c\u4f60\u597d\n\u4e16\u754c\n"));
    CHECK(shows(plain, "\u4f60\u597d\u4e16\u754c\u4f60\u597d\u4e16\u754c\u4f60\u597d\u3002\u754c",
            "\u4f60\u597d\u4e16\u754c\u4f60\u597d\u4e16\u754c\u4f60\n\u597d\u3002\u754c\n"));
    CHECK(shows(plain, "eleven \u00e9\u00e9\u00e9\u00e9 a\u0301a\u0301a\u0301 \u2705\u2705 x",
            "eleven \u00e9\u00e9\u00e9\u00e9 a\u0301a\u0301a\u0301 \u2705\u2705\nx\n"));
    /* A joined emoji is one character. */
    CHECK(shows((look){.width = 4}, "ab \U0001f468\u200d\U0001f469 c",
            "ab\n\U0001f468\u200d\U0001f469\nc\n"));
}

static void prose_is_at_most_100_columns_wide(void)
{
    pal_buf out;
    pal_buf_init(&out, OUT_MAX);
    char text[400];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = i % 5 == 4 ? ' ' : 'x';
    render((look){.width = 300}, pal_str_make(text, sizeof text), 0, 0, &out);
    CHECK_PTR(memchr(out.data, '\n', out.len), out.data + 99);
    pal_buf_done(&out);
}

/* ---- Marks ---- */

static void emphasis_is_shown(void)
{
    CHECK(shows(wide, "a **b** c", "a \033[1mb\033[0m c\n"));
    CHECK(shows(wide, "a *b* _c_", "a \033[3mb\033[0m \033[3mc\033[0m\n"));
    CHECK(shows(wide, "***b***", "\033[1;3mb\033[0m\n"));
    CHECK(shows(wide, "**a *b***", "\033[1ma \033[0m\033[1;3mb\033[0m\n"));
    CHECK(shows(wide, "~~gone~~", "\033[9mgone\033[0m\n"));
    CHECK(shows(wide, "\u8fd9**\u7c97**\u5b57", "\u8fd9\033[1m\u7c97\033[0m\u5b57\n"));
    CHECK(shows(wide, "`a*b*`", "\033[36ma*b*\033[0m\n"));
    CHECK(shows(wide, "``a`b``", "\033[36ma`b\033[0m\n"));
}

static void marks_that_are_not_emphasis_stay(void)
{
    CHECK(shows(wide, "2 * 3 * 4", "2 * 3 * 4\n"));
    CHECK(shows(wide, "a**b", "a**b\n"));
    CHECK(shows(wide, "snake_case_name", "snake_case_name\n"));
    CHECK(shows(wide, "2*3*4", "2*3*4\n"));
    CHECK(shows(wide, "*args and **kwargs", "*args and **kwargs\n"));
    CHECK(shows(wide, "one ` tick", "one ` tick\n"));
    CHECK(shows(wide, "\\*not\\*", "*not*\n"));
    CHECK(shows(wide, "C:\\dir", "C:\\dir\n"));
    CHECK(shows(wide, "a < b ! [1] x[0]", "a < b ! [1] x[0]\n"));
}

static void styles_end_at_line_ends(void)
{
    CHECK(shows(styled, "**one two three four five**",
            "\033[1mone two three four\033[0m\n\033[1mfive\033[0m\n"));
    CHECK(shows(styled, "**a\nb**", "**a\nb**\n"));
}

static void links_show_their_target(void)
{
    CHECK(shows(wide, "[a *b*](http://x/y)!", "\033[4ma b\033[0m \033[2m(http://x/y)\033[0m!\n"));
    CHECK(shows(wide, "[http://x](http://x)", "\033[4mhttp://x\033[0m\n"));
    CHECK(shows(wide, "![pic](p.png \"T\")", "\033[4mpic\033[0m \033[2m(p.png)\033[0m\n"));
    CHECK(shows(wide, "<https://x/>", "\033[4mhttps://x/\033[0m\n"));
    CHECK(shows(wide, "[\u00e9\u4f60](u)", "\033[4m\u00e9\u4f60\033[0m \033[2m(u)\033[0m\n"));
}

static void without_styles_the_marks_stay(void)
{
    CHECK(shows(plain, "# Head\n**b** `c`", "# Head\n**b** `c`\n"));
}

/* ---- Blocks ---- */

static void headings_are_bold(void)
{
    CHECK(shows(wide, "# One\n## Two `x`",
            "\033[1;4mOne\033[0m\n\033[1mTwo \033[0m\033[1;36mx\033[0m\n"));
    CHECK(shows(wide, "#hash", "#hash\n"));
}

static void list_items_have_a_hanging_indent(void)
{
    CHECK(shows(plain, "- one two three four five", "\u2022 one two three four\n  five\n"));
    CHECK(shows(plain, "10. one two three four", "10. one two three\n    four\n"));
    CHECK(shows(plain, "  * nested item of a list", "  \u2022 nested item of a\n    list\n"));
    CHECK(shows(plain, "- [ ] open\n- [x] done", "\u2022 \u2610 open\n\u2022 \u2611 done\n"));
    CHECK(shows(plain, "-no\n1.no\n1990", "-no\n1.no\n1990\n"));
}

static void quotes_have_a_bar(void)
{
    CHECK(shows(plain, "> one two three four five\n> - x\n\nout",
            "\u2502 one two three four\n\u2502 five\n\u2502 \u2022 x\n\nout\n"));
    CHECK(shows(plain, ">> deep", "\u2502 \u2502 deep\n"));
}

static void code_is_not_changed(void)
{
    CHECK(shows(plain, "```c\nint  main(void) { return **p; }\n\n\n  x\n```\nafter",
            "\u256d\u2500 c\nint  main(void) { return **p; }\n\n\n  x\n\u2570\u2500\nafter\n"));
    CHECK(shows(wide, "~~~\n```\n~~~",
            "\033[2m\u256d\u2500 \033[0m\n\033[36m```\033[0m\n"
            "\033[2m\u2570\u2500\033[0m\n"));
    CHECK(shows(plain, "```\nnot closed", "\u256d\u2500 \nnot closed\n"));
}

static void horizontal_rules_are_drawn(void)
{
    CHECK(shows((look){.width = 3}, "a\n---\nb", "a\n\u2500\u2500\u2500\nb\n"));
    CHECK(shows((look){.width = 3}, "* * *", "\u2500\u2500\u2500\n"));
}

static void tables_are_aligned(void)
{
    CHECK(shows((look){.width = 40}, "| a | num |\n|---|---:|\n| x \\| y | 1 |\n| `|` |22|\nend",
            "a      \u2502 num\n"
            "\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u253c\u2500\u2500\u2500\u2500\n"
            "x \\| y \u2502   1\n"
            "`|`    \u2502  22\n"
            "end\n"));
    CHECK(shows(plain, "| no table |\n| at all |", "| no table |\n| at all |\n"));
}

static void narrow_tables_wrap_or_become_records(void)
{
    CHECK(shows((look){.width = 22}, "|k|v|\n|-|-|\n|a|one two three four five|",
            "k \u2502 v\n\u2500\u2500\u253c\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500"
            "\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\n"
            "a \u2502 one two three four\n  \u2502 five\n"));
    CHECK(shows((look){.width = 20, .has_styles = true},
            "|one|two|three|\n|-|-|-|\n|aaaaaaaaaa|bbbbbbbbbb|ccccccccccc|\n|**d**||f|",
            "\033[1mone: \033[0maaaaaaaaaa\n\033[1mtwo: \033[0mbbbbbbbbbb\n"
            "\033[1mthree: \033[0mccccccccccc\n\n\033[1mone: \033[0md\n\033[1mthree: \033[0mf\n"));
}

/* ---- What must never happen ---- */

static void control_characters_are_made_visible(void)
{
    CHECK(shows(wide, "a\033[31mred\033]0;t\007\r\b", "a\\x1b[31mred\\x1b]0;t\\x07\\x08\n"));
    CHECK(shows(wide, "a\xc2\x9bm", "a\\x9bm\n"));
    CHECK(shows(wide, "```\n\033[2J\n```",
            "\033[2m\u256d\u2500 \033[0m\n\033[36m\\x1b[2J\033[0m\n\033[2m\u2570\u2500\033[0m\n"));
    CHECK(shows(wide, "\xff\xe2\x82z", "\ufffd\ufffdz\n"));
    CHECK(shows((look){.is_raw = true}, "# a\t**b**\033[1m\n", "# a\t**b**\\x1b[1m\n"));
}

static const char sample[] =
        "# Title *x*\n\nSome **bold text**, `code`, *it*, ***both***, a [link](http://e.org/x), "
        "<http://y>, \\*esc\\*, 2 * 3, snake_case, ~~old~~ and a\u0301 \u4f60\u597d\u3002 "
        "\U0001f468\u200d\U0001f469\n- item one\n  - [x] nested\n10) ten\n1990 was\n> quoted "
        "**q**\n"
        ">> deeper\n\n---\n* * *\n```py\ndef f():\n\n    return '```'\n  ```\n"
        "| a | b |\n|:--|--:|\n| `x|y` | **2** |\nafter\n| lone |\n+ plus\n_it_ __b__ ** no\n"
        "\033[1m \xff \xe2\x82 \xf0\x9f end `tick **x";

static void same_as_whole(look as, pal_str text, size_t first, size_t step, const pal_buf *whole)
{
    pal_buf out;
    pal_buf_init(&out, OUT_MAX);
    render(as, text, first, step, &out);
    if (!CHECK_STR(pal_buf_str(&out), pal_buf_str(whole)))
        printf("# first %zu, then %zu, of: %.*s\n", first, step, PAL_STR_ARG(text));
    pal_buf_done(&out);
}

static void every_split_results_in_the_same_output(void)
{
    static const look looks[] = {{.width = 30, .has_styles = true}, {.width = 80},
            {.width = 10, .has_styles = true}, {.is_raw = true}};
    pal_str text = pal_str_make(sample, sizeof sample - 1);
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
        pal_buf whole;
        pal_buf_init(&whole, OUT_MAX);
        render(looks[i], text, 0, 0, &whole);
        for (size_t first = 1; first < text.len; first++) {
            same_as_whole(looks[i], text, first, 0, &whole);
            same_as_whole(looks[i], text, first, 1 + first % 7, &whole);
        }
        same_as_whole(looks[i], text, 1, 1, &whole);
        pal_buf_done(&whole);
    }
}

/* Texts that consist of marks only: the worst case. */
static void every_split_of_random_marks_results_in_the_same_output(void)
{
    static const char *const words[] = {"*", "**", "`", "```", "\n", "\n", " ", "a", "b c", "_",
            "|", "|-|", "- ", "1. ", "> ", "#", "[", "](", ")", "\\", "~~", "<http://", ">",
            "\u4f60", "\xe2", "    ", "---", "!"};
    unsigned seed = 7;
    for (size_t round = 0; round < 400; round++) {
        pal_buf text, whole;
        pal_buf_init(&text, OUT_MAX);
        pal_buf_init(&whole, OUT_MAX);
        size_t len = round % 40 == 0 ? 2000 : 30;
        for (size_t i = 0; i < len; i++) {
            seed = seed * 1103515245u + 12345u;
            pal_buf_append_text(&text, words[(seed >> 16) % (sizeof words / sizeof *words)]);
        }
        look as = {.width = 12, .has_styles = round % 3 != 0};
        render(as, pal_buf_str(&text), 0, 0, &whole);
        same_as_whole(as, pal_buf_str(&text), 1, 1, &whole);
        same_as_whole(as, pal_buf_str(&text), 1 + round % 9, 1 + round % 5, &whole);
        pal_buf_done(&text);
        pal_buf_done(&whole);
    }
}

/* Lines that never end must not be held back for ever, nor look different. */
static void endless_lines_give_the_same_output(void)
{
    static const char *const units[] = {"*", "`", "- ", " ", "|", "~", "[a", "1", "**a ", "#", ">"};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        pal_buf text, whole;
        pal_buf_init(&text, OUT_MAX);
        pal_buf_init(&whole, OUT_MAX);
        while (text.len < 3000)
            pal_buf_append_text(&text, units[i]);
        pal_buf_append_text(&text, "x\n```\nend");
        render(wide, pal_buf_str(&text), 0, 0, &whole);
        same_as_whole(wide, pal_buf_str(&text), 1, 1, &whole);
        same_as_whole(wide, pal_buf_str(&text), 997, 5, &whole);
        pal_buf_done(&text);
        pal_buf_done(&whole);
    }
}

static void text_is_shown_as_it_arrives(void)
{
    pal_buf out;
    pal_markdown md;
    pal_buf_init(&out, OUT_MAX);
    pal_markdown_init(&md, &out, 80, true);
    pal_markdown_feed(&md, pal_str_of("Hello there, my"));
    CHECK_STR(pal_buf_str(&out), "Hello there,");
    pal_markdown_feed(&md, pal_str_of(" **fri"));
    CHECK_STR(pal_buf_str(&out), "Hello there, my");
    CHECK(!pal_markdown_is_idle(&md));
    pal_markdown_finish(&md);
    CHECK_STR(pal_buf_str(&out), "Hello there, my **fri\n");
    CHECK(pal_markdown_is_idle(&md));
    pal_markdown_done(&md);
    pal_buf_done(&out);
}

static void running_out_of_memory_is_reported(void)
{
    for (uint64_t nth = 1; nth < 40; nth++) {
        pal_buf out;
        pal_buf_init(&out, OUT_MAX);
        pal_memory_fail_at(nth, 0);
        render(wide, pal_str_make(sample, sizeof sample - 1), 9, 9, &out);
        if (!CHECK(out.failure || !pal_memory_failed()))
            printf("# allocation %d\n", (int)nth);
        pal_memory_fail_at(0, 0);
        pal_buf_done(&out);
    }
}

int main(void)
{
    RUN(lines_break_between_words);
    RUN(the_terminal_breaks_long_words);
    RUN(width_is_measured_in_columns);
    RUN(prose_is_at_most_100_columns_wide);
    RUN(emphasis_is_shown);
    RUN(marks_that_are_not_emphasis_stay);
    RUN(styles_end_at_line_ends);
    RUN(links_show_their_target);
    RUN(without_styles_the_marks_stay);
    RUN(headings_are_bold);
    RUN(list_items_have_a_hanging_indent);
    RUN(quotes_have_a_bar);
    RUN(code_is_not_changed);
    RUN(horizontal_rules_are_drawn);
    RUN(tables_are_aligned);
    RUN(narrow_tables_wrap_or_become_records);
    RUN(control_characters_are_made_visible);
    RUN(every_split_results_in_the_same_output);
    RUN(every_split_of_random_marks_results_in_the_same_output);
    RUN(endless_lines_give_the_same_output);
    RUN(text_is_shown_as_it_arrives);
    RUN(running_out_of_memory_is_reported);
    return tap_done();
}
