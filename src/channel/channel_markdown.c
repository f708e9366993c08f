/* channel_markdown.c - reads the Markdown that models write in chats.
 *
 * Blocks are read from an array of lines. A quote or an item is read again without its prefix, by
 * the same function, so its depth is limited. In a paragraph, a delimiter opens emphasis only if
 * its partner is found; a failed search is remembered, so that each kind of delimiter is searched
 * for in vain only once in each text. */
#include "channel/channel_markdown.h"

#include <stdint.h>
#include "base/buf.h"
#include "base/memory.h"
#include "base/text.h"
#include "channel/channel_limits.h"

#define BLOCK_DEPTH_MAX 8
#define SPAN_DEPTH_MAX 6
#define CELLS_MAX 32
#define NUMBER_DIGITS_MAX 6

typedef struct reader {
    const pal_markdown_sink *sink;
    pal_arena *arena;
    bool in_link; /* a link in a link is written as its text */
} reader;

static void enter(reader *r, pal_markdown_kind kind, unsigned number, pal_str text)
{
    r->sink->enter(kind, number, text, r->sink->user);
}

static void leave(reader *r, pal_markdown_kind kind)
{
    r->sink->leave(kind, r->sink->user);
}

static void put_text(reader *r, pal_str text)
{
    if (text.len > 0)
        r->sink->text(text, r->sink->user);
}

/* ---- Links ---- */

bool pal_channel_link_is_allowed(pal_str url)
{
    static const char *const schemes[] = {"https://", "http://", "mailto:", "magnet:"};

    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (pal_text_begins_nocase(url, schemes[i]) && url.len > strlen(schemes[i]))
            return !pal_text_has_control(url) && !memchr(url.data, ' ', url.len);
    return false;
}

/* ---- In a paragraph ---- */

typedef enum delimiter {
    NONE = 0,
    STAR,
    STARS,
    LINE,
    LINES,
    TILDES,
    DELIMITERS,
} delimiter;

typedef struct spans {
    reader *r;
    pal_str text;
    bool missing[DELIMITERS]; /* no partner is in the rest of the text */
    bool no_code[4];          /* the same for 1, 2 and 3 backticks */
    unsigned depth;
} spans;

static const size_t delimiter_len[] = {0, 1, 2, 1, 2, 2};
static const char delimiter_sign[] = {0, '*', '*', '_', '_', '~'};
static const pal_markdown_kind delimiter_kind[] = {PAL_MARKDOWN_EM, PAL_MARKDOWN_EM,
        PAL_MARKDOWN_STRONG, PAL_MARKDOWN_EM, PAL_MARKDOWN_STRONG, PAL_MARKDOWN_DELETED};

static bool is_word(char c)
{
    char lower = (char)(c | 0x20);
    return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || (unsigned char)c >= 0x80;
}

static size_t run_len(pal_str text, size_t at, char sign)
{
    size_t len = 0;
    while (at + len < text.len && text.data[at + len] == sign)
        len++;
    return len;
}

/* Returns the delimiter that begins at `at`. */
static delimiter delimiter_at(pal_str text, size_t at)
{
    char c = text.data[at];
    size_t len = c == '*' || c == '_' || c == '~' ? run_len(text, at, c) : 0;

    if (len == 0)
        return NONE;
    if (c == '~')
        return len >= 2 ? TILDES : NONE;
    if (c == '*')
        return len >= 2 ? STARS : STAR;
    return len >= 2 ? LINES : LINE;
}

static bool can_open(pal_str text, size_t at)
{
    size_t end = at + run_len(text, at, text.data[at]);

    if (end >= text.len || pal_text_is_space(text.data[end]) || end - at > 3)
        return false;
    return text.data[at] == '*' || text.data[at] == '~' || at == 0 || !is_word(text.data[at - 1]);
}

static bool can_close(pal_str text, size_t at, size_t len)
{
    size_t end = at + len;

    if (at == 0 || pal_text_is_space(text.data[at - 1]))
        return false;
    return text.data[at] != '_' || end >= text.len || !is_word(text.data[end]);
}

/* Returns the length of a code span that begins at `at`, with its backticks; 0 if there is none. */
static size_t code_len(spans *s, size_t at, size_t *out_ticks)
{
    size_t ticks = run_len(s->text, at, '`'), i = at + ticks;

    *out_ticks = ticks;
    if (ticks > 3 || s->no_code[ticks])
        return 0;
    while (i < s->text.len) {
        const char *next = memchr(s->text.data + i, '`', s->text.len - i);
        if (!next)
            break;
        i = (size_t)(next - s->text.data);
        size_t len = run_len(s->text, i, '`');
        if (len == ticks)
            return i + len - at;
        i += len;
    }
    s->no_code[ticks] = true;
    return 0;
}

/* Returns where the partner of a delimiter is; 0 if there is none. Code and escapes are skipped. */
static size_t partner_of(spans *s, delimiter d, size_t from)
{
    size_t len = delimiter_len[d], ticks;

    if (s->missing[d])
        return 0;
    for (size_t at = from; at < s->text.len; at++) {
        char c = s->text.data[at];
        if (c == '\\') {
            at++;
        } else if (c == '`') {
            size_t code = code_len(s, at, &ticks);
            at += (code > 0 ? code : ticks) - 1;
        } else if (c == delimiter_sign[d]) {
            size_t run = run_len(s->text, at, c);
            bool fits = len == 1 ? run == 1 || run == 3 : run >= 2;
            if (fits && at > from && can_close(s->text, at + run - len, len))
                return at + run - len;
            at += run - 1;
        }
    }
    s->missing[d] = true;
    return 0;
}

static void read_spans(reader *r, pal_str text, unsigned depth);

/* Returns the length of "[text](url)" at `at`, and its parts; 0 if it is not one. */
static size_t link_len(pal_str text, size_t at, pal_str *out_label, pal_str *out_url)
{
    size_t end = at + 1, depth = 0;

    for (; end < text.len && end - at < PAL_CHANNEL_LINK_LEN_MAX; end++) {
        if (text.data[end] == '\\')
            end++;
        else if (text.data[end] == '[')
            depth++;
        else if (text.data[end] == ']' && depth-- == 0)
            break;
    }
    if (end + 1 >= text.len || text.data[end] != ']' || text.data[end + 1] != '(')
        return 0;
    size_t url = end + 2, close = url, parens = 0;
    for (; close < text.len && close - url < PAL_CHANNEL_LINK_LEN_MAX; close++) {
        char c = text.data[close];
        if (c == '\n' || (c == ')' && parens == 0))
            break;
        parens += (c == '(') - (size_t)(c == ')');
    }
    if (close >= text.len || text.data[close] != ')')
        return 0;
    *out_label = pal_str_make(text.data + at + 1, end - at - 1);
    *out_url = pal_text_trim(pal_str_make(text.data + url, close - url));
    const char *space = out_url->len ? memchr(out_url->data, ' ', out_url->len) : NULL;
    if (space)
        out_url->len = (size_t)(space - out_url->data); /* a title follows */
    return close + 1 - at;
}

/* Reads a link or an image; returns its length. */
static size_t read_link(spans *s, size_t at)
{
    bool is_image = s->text.data[at] == '!';
    size_t start = at + is_image;
    pal_str label, url;

    if (start >= s->text.len || s->text.data[start] != '[' || s->depth > SPAN_DEPTH_MAX)
        return 0;
    size_t len = link_len(s->text, start, &label, &url);
    if (len == 0)
        return 0;
    bool is_shown = !s->r->in_link && pal_channel_link_is_allowed(url);
    if (is_shown) {
        enter(s->r, PAL_MARKDOWN_LINK, 0, url);
        s->r->in_link = true;
    }
    read_spans(s->r, label, s->depth + 1);
    if (is_shown) {
        s->r->in_link = false;
        leave(s->r, PAL_MARKDOWN_LINK);
    }
    return len + is_image;
}

/* "<https://example.org>" */
static size_t read_address(spans *s, size_t at)
{
    size_t end = at + 1;

    while (end < s->text.len && end - at < PAL_CHANNEL_LINK_LEN_MAX && s->text.data[end] != '>' &&
            !pal_text_is_space(s->text.data[end]) && s->text.data[end] != '<')
        end++;
    pal_str url = pal_str_make(s->text.data + at + 1, end - at - 1);
    if (s->r->in_link || end >= s->text.len || s->text.data[end] != '>' ||
            !pal_channel_link_is_allowed(url))
        return 0;
    enter(s->r, PAL_MARKDOWN_LINK, 0, url);
    put_text(s->r, url);
    leave(s->r, PAL_MARKDOWN_LINK);
    return end + 1 - at;
}

static size_t read_code(spans *s, size_t at)
{
    size_t ticks, len = code_len(s, at, &ticks);

    if (len == 0)
        return 0;
    pal_str code = pal_str_make(s->text.data + at + ticks, len - 2 * ticks);
    if (code.len > 2 && code.data[0] == ' ' && code.data[code.len - 1] == ' ')
        code = pal_str_make(code.data + 1, code.len - 2);
    enter(s->r, PAL_MARKDOWN_CODE, 0, (pal_str){0});
    put_text(s->r, code);
    leave(s->r, PAL_MARKDOWN_CODE);
    return len;
}

static size_t read_emphasis(spans *s, size_t at)
{
    delimiter d = delimiter_at(s->text, at);
    size_t len = delimiter_len[d];

    if (d == NONE || s->depth >= SPAN_DEPTH_MAX || !can_open(s->text, at))
        return 0;
    size_t end = partner_of(s, d, at + len);
    if (end == 0)
        return 0;
    enter(s->r, delimiter_kind[d], 0, (pal_str){0});
    read_spans(s->r, pal_str_make(s->text.data + at + len, end - at - len), s->depth + 1);
    leave(s->r, delimiter_kind[d]);
    return end + len - at;
}

static size_t read_span(spans *s, size_t at)
{
    switch (s->text.data[at]) {
    case '`':
        return read_code(s, at);
    case '[':
    case '!':
        return read_link(s, at);
    case '<':
        return read_address(s, at);
    case '*':
    case '_':
    case '~':
        return read_emphasis(s, at);
    default:
        return 0;
    }
}

static void read_spans(reader *r, pal_str text, unsigned depth)
{
    spans s = {.r = r, .text = text, .depth = depth};
    size_t from = 0, at = 0;

    if (text.len == 0)
        return;
    while (at < text.len) {
        char c = text.data[at];
        size_t skipped = 0;
        if (c == '\\' && at + 1 < text.len && text.data[at + 1] > ' ' && text.data[at + 1] < 127 &&
                !is_word(text.data[at + 1])) {
            put_text(r, pal_str_make(text.data + from, at - from));
            from = at + 1;
            at += 2;
            continue;
        }
        if (c == '\n') {
            put_text(r, pal_str_make(text.data + from, at - from));
            enter(r, PAL_MARKDOWN_BREAK, 0, (pal_str){0});
            from = ++at;
            continue;
        }
        if (memchr("`[!<*_~", c, 7)) {
            put_text(r, pal_str_make(text.data + from, at - from));
            from = at;
            skipped = read_span(&s, at);
        }
        if (skipped > 0)
            from = at += skipped;
        else
            at += c == '`' || c == '*' || c == '_' || c == '~' ? run_len(text, at, c) : 1;
    }
    put_text(r, pal_str_make(text.data + from, text.len - from));
}

/* ---- Blocks ---- */

typedef struct lines {
    pal_str *items;
    size_t len;
} lines;

static size_t indent_of(pal_str line)
{
    size_t indent = 0;
    while (indent < line.len && line.data[indent] == ' ')
        indent++;
    return indent;
}

static pal_str without(pal_str line, size_t indent)
{
    size_t has = indent_of(line);
    return pal_text_after(line, has < indent ? has : indent);
}

/* Returns the number of '`' or '~' that open a block of code; 0 if the line does not. */
static size_t fence_of(pal_str line, char *out_sign)
{
    size_t indent = indent_of(line);

    if (indent > 3 || indent >= line.len)
        return 0;
    *out_sign = line.data[indent];
    if (*out_sign != '`' && *out_sign != '~')
        return 0;
    size_t len = run_len(line, indent, *out_sign);
    pal_str info = pal_text_after(line, indent + len);
    return len >= 3 && !(info.len && memchr(info.data, '`', info.len)) ? len : 0;
}

static unsigned heading_of(pal_str line)
{
    size_t indent = indent_of(line), level = indent < 4 ? run_len(line, indent, '#') : 0;
    size_t after = indent + level;

    return level >= 1 && level <= 6 && (after >= line.len || line.data[after] == ' ')
            ? (unsigned)level
            : 0;
}

static bool is_rule(pal_str line)
{
    char sign = 0;
    size_t count = 0;

    for (size_t i = 0; i < line.len; i++) {
        char c = line.data[i];
        if (pal_text_is_space(c))
            continue;
        if ((c != '-' && c != '*' && c != '_') || (sign && c != sign))
            return false;
        sign = c;
        count++;
    }
    return count >= 3;
}

/* Returns the width of the mark of an item with its indent and one space; 0 if there is none. */
static size_t item_of(pal_str line, unsigned *out_number)
{
    size_t at = indent_of(line), digits = 0;

    *out_number = 0;
    if (at > 3 || at >= line.len || is_rule(line))
        return 0;
    if (memchr("-*+", line.data[at], 3)) {
        at++;
    } else {
        while (at + digits < line.len && digits < NUMBER_DIGITS_MAX &&
                line.data[at + digits] >= '0' && line.data[at + digits] <= '9') {
            *out_number = *out_number * 10 + (unsigned)(line.data[at + digits] - '0');
            digits++;
        }
        at += digits;
        if (digits == 0 || at >= line.len || (line.data[at] != '.' && line.data[at] != ')'))
            return 0;
        at++;
        if (*out_number == 0)
            *out_number = 1;
    }
    return at < line.len && line.data[at] != ' ' ? 0 : at + 1;
}

static bool is_quote(pal_str line)
{
    size_t indent = indent_of(line);
    return indent < 4 && indent < line.len && line.data[indent] == '>';
}

static void read_blocks(reader *r, lines from, unsigned depth);

static lines lines_make(reader *r, size_t len)
{
    return (lines){.items = pal_arena_array(r->arena, len + 1, sizeof(pal_str))};
}

static size_t read_fence(reader *r, lines from, size_t at)
{
    char sign = 0, other = 0;
    size_t count = fence_of(from.items[at], &sign), indent = indent_of(from.items[at]);
    pal_str language = pal_text_trim(pal_text_after(from.items[at], indent + count));
    size_t end = at + 1;

    while (end < from.len) {
        size_t closing = fence_of(from.items[end], &other);
        if (closing >= count && other == sign &&
                pal_text_is_blank(pal_text_after(
                        from.items[end], indent_of(from.items[end]) + closing)))
            break;
        end++;
    }
    enter(r, PAL_MARKDOWN_CODE_BLOCK, 0, language);
    for (size_t i = at + 1; i < end; i++) {
        put_text(r, without(from.items[i], indent));
        put_text(r, pal_str_of("\n"));
    }
    leave(r, PAL_MARKDOWN_CODE_BLOCK);
    return end < from.len ? end + 1 : end;
}

static size_t read_quote(reader *r, lines from, size_t at, unsigned depth)
{
    size_t end = at;
    while (end < from.len && is_quote(from.items[end]))
        end++;
    lines inner = lines_make(r, end - at);
    for (size_t i = at; inner.items && i < end; i++) {
        pal_str line = pal_text_after(from.items[i], indent_of(from.items[i]) + 1);
        if (line.len > 0 && line.data[0] == ' ')
            line = pal_text_after(line, 1);
        inner.items[inner.len++] = line;
    }
    enter(r, PAL_MARKDOWN_QUOTE, 0, (pal_str){0});
    read_blocks(r, inner, depth + 1);
    leave(r, PAL_MARKDOWN_QUOTE);
    return end;
}

/* Reads one item; returns the line after it. */
static size_t read_item(reader *r, lines from, size_t at, unsigned depth)
{
    unsigned number, other;
    size_t width = item_of(from.items[at], &number), end = at + 1;

    while (end < from.len) {
        pal_str line = from.items[end];
        bool is_blank = pal_text_is_blank(line);
        if (is_blank && (end + 1 >= from.len || indent_of(from.items[end + 1]) < width))
            break;
        if (!is_blank && indent_of(line) < width && (item_of(line, &other) > 0 ||
                    is_quote(line) || heading_of(line) > 0 || indent_of(line) < 2))
            break;
        end++;
    }
    lines inner = lines_make(r, end - at);
    for (size_t i = at; inner.items && i < end; i++)
        inner.items[inner.len++] = i == at ? pal_text_after(from.items[i], width)
                                           : without(from.items[i], width);
    enter(r, PAL_MARKDOWN_ITEM, number, (pal_str){0});
    read_blocks(r, inner, depth + 1);
    leave(r, PAL_MARKDOWN_ITEM);
    return end;
}

static size_t read_list(reader *r, lines from, size_t at, unsigned depth)
{
    unsigned first, number;

    (void)item_of(from.items[at], &first);
    enter(r, PAL_MARKDOWN_LIST, first, (pal_str){0});
    while (at < from.len && item_of(from.items[at], &number) > 0 && (number > 0) == (first > 0)) {
        at = read_item(r, from, at, depth);
        /* One empty line between two items does not end the list. */
        if (at + 1 < from.len && pal_text_is_blank(from.items[at]) &&
                item_of(from.items[at + 1], &number) > 0 && (number > 0) == (first > 0))
            at++;
    }
    leave(r, PAL_MARKDOWN_LIST);
    return at;
}

/* ---- Tables ---- */

static bool has_bar(pal_str line)
{
    return line.len > 0 && memchr(line.data, '|', line.len);
}

/* The line between the first row and the others: "|---|:--:|". */
static bool is_separator(pal_str line)
{
    size_t dashes = 0;

    for (size_t i = 0; i < line.len; i++) {
        if (!memchr("|-: ", line.data[i], 4))
            return false;
        dashes += line.data[i] == '-';
    }
    return dashes > 0 && has_bar(line);
}

static void read_row(reader *r, pal_str line, unsigned is_first)
{
    size_t start = 0;

    line = pal_text_trim(line);
    if (line.len > 0 && line.data[0] == '|')
        line = pal_text_after(line, 1);
    if (line.len > 0 && line.data[line.len - 1] == '|')
        line.len--;
    enter(r, PAL_MARKDOWN_ROW, is_first, (pal_str){0});
    for (size_t i = 0, cells = 0; i <= line.len && cells < CELLS_MAX; i++) {
        pal_str cell = {0};

        if (i < line.len && (line.data[i] != '|' || (i > 0 && line.data[i - 1] == '\\')))
            continue;
        if (start < i)
            cell = pal_text_trim(pal_str_make(line.data + start, i - start));
        enter(r, PAL_MARKDOWN_CELL, is_first, (pal_str){0});
        read_spans(r, cell, 0);
        leave(r, PAL_MARKDOWN_CELL);
        start = i + 1;
        cells++;
    }
    leave(r, PAL_MARKDOWN_ROW);
}

static size_t read_table(reader *r, lines from, size_t at)
{
    enter(r, PAL_MARKDOWN_TABLE, 0, (pal_str){0});
    read_row(r, from.items[at], 1);
    for (at += 2; at < from.len && has_bar(from.items[at]); at++)
        read_row(r, from.items[at], 0);
    leave(r, PAL_MARKDOWN_TABLE);
    return at;
}

/* ---- Paragraphs ---- */

static bool is_table(lines from, size_t at)
{
    return at + 1 < from.len && has_bar(from.items[at]) && is_separator(from.items[at + 1]);
}

static bool begins_block(lines from, size_t at)
{
    char sign;
    unsigned number;
    pal_str line = from.items[at];

    return pal_text_is_blank(line) || fence_of(line, &sign) > 0 || heading_of(line) > 0 ||
            is_rule(line) || is_quote(line) || item_of(line, &number) > 0 || is_table(from, at);
}

static size_t read_paragraph(reader *r, lines from, size_t at)
{
    size_t end = at + 1;
    while (end < from.len && !begins_block(from, end))
        end++;
    /* The lines are parts of one text only if nothing was removed between them, so it is copied. */
    pal_buf buf;
    pal_buf_init(&buf, PAL_CHANNEL_MARKDOWN_BYTES_MAX + 1);
    for (size_t i = at; i < end; i++) {
        if (i > at)
            pal_buf_append_char(&buf, '\n');
        pal_buf_append_str(&buf, pal_text_trim(from.items[i]));
    }
    pal_str text = buf.failure ? (pal_str){0} : pal_arena_copy(r->arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    enter(r, PAL_MARKDOWN_PARAGRAPH, 0, (pal_str){0});
    read_spans(r, text, 0);
    leave(r, PAL_MARKDOWN_PARAGRAPH);
    return end;
}

static size_t read_heading(reader *r, lines from, size_t at)
{
    pal_str line = from.items[at];
    unsigned level = heading_of(line);
    pal_str text = pal_text_trim(pal_text_after(line, indent_of(line) + level));

    while (text.len > 0 && text.data[text.len - 1] == '#')
        text.len--;
    enter(r, PAL_MARKDOWN_HEADING, level, (pal_str){0});
    read_spans(r, pal_text_trim(text), 0);
    leave(r, PAL_MARKDOWN_HEADING);
    return at + 1;
}

static size_t read_block(reader *r, lines from, size_t at, unsigned depth)
{
    char sign;
    unsigned number;
    pal_str line = from.items[at];

    if (pal_text_is_blank(line))
        return at + 1;
    if (fence_of(line, &sign) > 0)
        return read_fence(r, from, at);
    if (heading_of(line) > 0)
        return read_heading(r, from, at);
    if (is_rule(line)) {
        enter(r, PAL_MARKDOWN_RULE, 0, (pal_str){0});
        leave(r, PAL_MARKDOWN_RULE);
        return at + 1;
    }
    if (is_quote(line) && depth < BLOCK_DEPTH_MAX)
        return read_quote(r, from, at, depth);
    if (item_of(line, &number) > 0 && depth < BLOCK_DEPTH_MAX)
        return read_list(r, from, at, depth);
    if (is_table(from, at))
        return read_table(r, from, at);
    return read_paragraph(r, from, at);
}

static void read_blocks(reader *r, lines from, unsigned depth)
{
    size_t at = 0;
    while (from.items && at < from.len)
        at = read_block(r, from, at, depth);
}

pal_status pal_channel_markdown(
        pal_str text, pal_arena *arena, const pal_markdown_sink *sink, pal_error *err)
{
    reader r = {.sink = sink, .arena = arena};
    size_t count = 1;

    if (text.len > PAL_CHANNEL_MARKDOWN_BYTES_MAX)
        return pal_error_set(err, PAL_LIMIT, "the text has more than %u bytes",
                PAL_CHANNEL_MARKDOWN_BYTES_MAX);
    if (text.len == 0)
        return PAL_OK;
    for (size_t i = 0; i < text.len; i++)
        count += text.data[i] == '\n';
    lines all = lines_make(&r, count);
    for (size_t i = 0, start = 0; all.items && i <= text.len; i++) {
        if (i < text.len && text.data[i] != '\n')
            continue;
        size_t len = i - start;
        if (len > 0 && text.data[i - 1] == '\r')
            len--;
        all.items[all.len++] = pal_str_make(text.data + start, len);
        start = i + 1;
    }
    read_blocks(&r, all, 0);
    return pal_arena_checked(arena, err);
}
