/* terminal_inline.c - reads emphasis, code and links as they stream in. A possible mark is held
 * back until its end is found, so that text is never shown in a wrong style. Marks without an end
 * are text. This is intentionally less than CommonMark: there are no surprising rules for nesting.
 * Not thread-safe. */
#include "cli/terminal/terminal_markdown.h"

#include <string.h>

/* The known rest of a line. Decisions depend on nothing else. */
typedef struct view {
    pal_str text;
    bool is_end;  /* the line ends at the end of the text */
    bool is_sure; /* a decision must be made now, without more text */
} view;

static view view_of(pal_str text, bool is_whole)
{
    bool is_long = text.len > PAL_INLINE_SPAN_MAX;
    view v = {.text = text, .is_end = is_whole && !is_long, .is_sure = is_whole || is_long};
    if (is_long)
        v.text.len = PAL_INLINE_SPAN_MAX;
    return v;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\0';
}

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_punctuation(char c)
{
    return c > ' ' && c < 0x7f && !is_word(c);
}

/* Returns how many equal marks follow each other at `at`. */
static size_t run_at(const view *v, size_t at)
{
    size_t len = 1;
    while (at + len < v->text.len && v->text.data[at + len] == v->text.data[at])
        len++;
    return len;
}

/* Returns whether position `at` is known: a character, or the end of the line. */
static bool is_known(const view *v, size_t at)
{
    return at < v->text.len || v->is_end;
}

static char char_at(const view *v, size_t at)
{
    return at < v->text.len ? v->text.data[at] : '\0';
}

static unsigned style_of(char mark, size_t len)
{
    if (mark == '~')
        return PAL_FLOW_STRIKE;
    return (len & 1 ? PAL_FLOW_ITALIC : 0u) | (len & 2 ? PAL_FLOW_BOLD : 0u);
}

static unsigned current_style(const pal_inline *line)
{
    unsigned style = line->base;
    for (size_t i = 0; i < line->open_len; i++)
        style |= style_of(line->open[i].mark, line->open[i].len);
    return style;
}

static size_t put(pal_inline *line, pal_str text, unsigned style)
{
    pal_flow_text(line->flow, text, style);
    return text.len;
}

static size_t put_plain(pal_inline *line, const view *v, size_t len)
{
    return put(line, pal_str_make(v->text.data, len), current_style(line));
}

/* ---- Code ---- */

/* Returns where the `len` backticks that end a code span begin; 0: not found. */
static size_t find_code_end(const view *v, size_t at, size_t len)
{
    while (at < v->text.len) {
        if (v->text.data[at] != '`') {
            at++;
            continue;
        }
        size_t run = run_at(v, at);
        if (!is_known(v, at + run))
            return 0;
        if (run == len)
            return at;
        at += run;
    }
    return 0;
}

static size_t take_code(pal_inline *line, const view *v)
{
    size_t run = run_at(v, 0);
    size_t end = is_known(v, run) ? find_code_end(v, run, run) : 0;
    if (end == 0)
        return v->is_sure ? put_plain(line, v, run) : 0;
    pal_str text = pal_str_make(v->text.data + run, end - run);
    bool padded = text.len > 2 && text.data[0] == ' ' && text.data[text.len - 1] == ' ';
    if (padded)
        text = pal_str_make(text.data + 1, text.len - 2);
    put(line, text, current_style(line) | PAL_FLOW_CODE);
    return end + run;
}

/* ---- Emphasis ---- */

/* Returns the position after an escape or a code span at `at`, in which marks have no meaning;
 * 0: not known yet. */
static size_t skip_hidden(const view *v, size_t at)
{
    if (v->text.data[at] == '\\')
        return is_known(v, at + 1) ? at + (at + 1 < v->text.len ? 2 : 1) : 0;
    size_t run = run_at(v, at);
    size_t end = is_known(v, at + run) ? find_code_end(v, at + run, run) : 0;
    if (end)
        return end + run;
    return v->is_sure ? at + run : 0;
}

static bool can_close(const view *v, size_t at, size_t run, size_t wanted, char mark)
{
    if (is_space(v->text.data[at - 1]))
        return false;
    if (mark == '_' && is_word(char_at(v, at + run)))
        return false;
    return run == wanted || run >= 3;
}

/* Returns whether the emphasis that begins with `len` marks has an end. */
static bool has_end(const view *v, size_t len)
{
    char mark = v->text.data[0];
    size_t at = len;
    while (at < v->text.len) {
        char c = v->text.data[at];
        size_t run = 1;
        if (c == '\\' || c == '`') {
            at = skip_hidden(v, at);
            if (at == 0)
                return false;
            continue;
        }
        if (c == mark) {
            run = run_at(v, at);
            if (!is_known(v, at + run))
                return false;
            if (at > len && can_close(v, at, run, len, mark))
                return true;
        }
        at += run;
    }
    return false;
}

static bool can_open(const pal_inline *line, const view *v, size_t run)
{
    char mark = v->text.data[0];
    if (run > 3 || (mark == '~' && run != 2) || line->open_len == PAL_INLINE_DEPTH_MAX)
        return false;
    if (is_space(char_at(v, run)))
        return false;
    return (mark == '*' && run > 1) || !is_word(line->before);
}

static size_t take_emphasis(pal_inline *line, const view *v)
{
    char mark = v->text.data[0];
    size_t run = run_at(v, 0);
    if (!is_known(v, run))
        return v->is_sure ? put_plain(line, v, run) : 0;
    if (line->open_len > 0 && !is_space(line->before)) {
        size_t len = line->open[line->open_len - 1].len;
        if (line->open[line->open_len - 1].mark == mark && run >= len) {
            line->open_len--;
            return len;
        }
    }
    if (!can_open(line, v, run))
        return put_plain(line, v, run);
    if (!has_end(v, run))
        return v->is_sure ? put_plain(line, v, run) : 0;
    line->open[line->open_len].mark = mark;
    line->open[line->open_len++].len = (unsigned char)run;
    return run;
}

/* ---- Links ---- */

/* Returns where the bracket that opens at `at` is closed; 0: not found. */
static size_t find_bracket(const view *v, size_t at, char open, char close)
{
    size_t depth = 0;
    for (; at < v->text.len; at++) {
        char c = v->text.data[at];
        if (c == '\\')
            at++;
        else if (c == open)
            depth++;
        else if (c == close && --depth == 0)
            return at;
    }
    return 0;
}

/* Prints the text of a link without marks. */
static void put_label(pal_inline *line, pal_str text)
{
    unsigned style = current_style(line) | PAL_FLOW_UNDERLINE;
    for (size_t at = 0; at < text.len; at++) {
        size_t begin = at;
        while (at < text.len && text.data[at] != '*' && text.data[at] != '`')
            at++;
        put(line, pal_str_make(text.data + begin, at - begin), style);
    }
}

static size_t take_link(pal_inline *line, const view *v)
{
    size_t open = v->text.data[0] == '!';
    size_t label = find_bracket(v, open, '[', ']');
    if (label == 0 || !is_known(v, label + 1))
        return v->is_sure ? put_plain(line, v, 1) : 0;
    if (char_at(v, label + 1) != '(')
        return put_plain(line, v, 1);
    size_t end = find_bracket(v, label + 1, '(', ')');
    if (end == 0)
        return v->is_sure ? put_plain(line, v, 1) : 0;
    pal_str text = pal_str_make(v->text.data + open + 1, label - open - 1);
    pal_str url = pal_str_make(v->text.data + label + 2, end - label - 2);
    const char *title = url.len ? memchr(url.data, ' ', url.len) : NULL;
    if (title)
        url.len = (size_t)(title - url.data);
    put_label(line, text);
    if (url.len && !pal_str_equal(text, url)) {
        put(line, pal_str_of(" ("), PAL_FLOW_FAINT);
        put(line, url, PAL_FLOW_FAINT);
        put(line, pal_str_of(")"), PAL_FLOW_FAINT);
    }
    return end + 1;
}

/* <https://...> */
static size_t take_address(pal_inline *line, const view *v)
{
    static const char *const schemes[] = {"<https://", "<http://", "<mailto:"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        size_t len = strlen(schemes[i]);
        size_t have = v->text.len < len ? v->text.len : len;
        if (memcmp(v->text.data, schemes[i], have) != 0)
            continue;
        const char *end = memchr(v->text.data, '>', v->text.len);
        if (have == len && end) {
            size_t url_len = (size_t)(end - v->text.data) - 1;
            put(line, pal_str_make(v->text.data + 1, url_len),
                    current_style(line) | PAL_FLOW_UNDERLINE);
            return url_len + 2;
        }
        return v->is_sure ? put_plain(line, v, 1) : 0;
    }
    return put_plain(line, v, 1);
}

/* ---- The line ---- */

static size_t take_escape(pal_inline *line, const view *v)
{
    if (!is_known(v, 1))
        return 0;
    if (!is_punctuation(char_at(v, 1)))
        return put_plain(line, v, 1);
    put(line, pal_str_make(v->text.data + 1, 1), current_style(line));
    return 2;
}

static size_t take_mark(pal_inline *line, const view *v)
{
    switch (v->text.data[0]) {
    case '\\':
        return take_escape(line, v);
    case '`':
        return take_code(line, v);
    case '[':
        return take_link(line, v);
    case '<':
        return take_address(line, v);
    case '!':
        if (!is_known(v, 1))
            return 0;
        return char_at(v, 1) == '[' ? take_link(line, v) : put_plain(line, v, 1);
    default:
        return take_emphasis(line, v);
    }
}

void pal_inline_init(pal_inline *line, pal_flow *flow, unsigned base)
{
    *line = (pal_inline){.flow = flow, .base = base};
}

size_t pal_inline_step(pal_inline *line, pal_str text, bool is_whole)
{
    size_t taken = 0;
    while (taken < text.len) {
        pal_str rest = pal_str_make(text.data + taken, text.len - taken);
        /* Without styles the marks themselves are shown. */
        size_t len = line->flow->has_styles ? 0 : rest.len;
        while (len < rest.len && !strchr("\\`[<!*_~", rest.data[len]))
            len++;
        if (len > 0) {
            put(line, pal_str_make(rest.data, len), current_style(line));
        } else {
            view v = view_of(rest, is_whole);
            len = take_mark(line, &v);
        }
        if (len == 0)
            break;
        taken += len;
        line->before = text.data[taken - 1];
    }
    return taken;
}

void pal_inline_all(pal_inline *line, pal_str text)
{
    size_t taken = pal_inline_step(line, text, true);
    (void)taken; /* the line is complete, so all of it was read */
}
