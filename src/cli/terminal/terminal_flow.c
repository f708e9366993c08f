/* terminal_flow.c - wraps text as it arrives. A word is written when it is complete, so that text
 * on the screen never moves. In scripts without spaces, a line can break between any two wide
 * characters, but not before closing punctuation. Not thread-safe. */
#include "cli/terminal/terminal_markdown.h"

#include "base/utf8.h"
#include "cli/cli.h"

#define WORD_BYTES_MAX 4096 /* a longer word is written in pieces */
#define JOINER 0x200d

static void put_style(pal_buf *buf, unsigned from, unsigned to)
{
    static const char *const codes[] = {"1", "2", "3", "4", "9", "36"};
    bool first = true;
    if (from == to)
        return;
    if (from)
        pal_buf_append_text(buf, "\033[0m");
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (!(to & 1u << i))
            continue;
        pal_buf_append_text(buf, first ? "\033[" : ";");
        pal_buf_append_text(buf, codes[i]);
        first = false;
    }
    if (!first)
        pal_buf_append_char(buf, 'm');
}

static void set_style(pal_flow *flow, unsigned style)
{
    put_style(flow->out, flow->style, style);
    flow->style = style;
}

static void put_spaces(pal_flow *flow, size_t count)
{
    pal_buf_format(flow->out, "%*s", (int)count, "");
    flow->column += count;
}

static void start_line(pal_flow *flow, size_t indent)
{
    flow->column = 0;
    for (size_t i = 0; i < flow->quotes; i++) {
        set_style(flow, flow->has_styles ? PAL_FLOW_FAINT : 0);
        pal_buf_append_text(flow->out, "\xe2\x94\x82 ");
        flow->column += 2;
    }
    set_style(flow, 0);
    put_spaces(flow, indent);
    flow->is_inside = true;
    flow->is_filled = false;
}

void pal_flow_init(pal_flow *flow, pal_buf *out, size_t width, bool has_styles)
{
    *flow = (pal_flow){.out = out, .width = width, .has_styles = has_styles};
    pal_buf_init(&flow->word, 2 * WORD_BYTES_MAX);
}

void pal_flow_done(pal_flow *flow)
{
    pal_buf_done(&flow->word);
}

void pal_flow_begin(pal_flow *flow, size_t indent)
{
    if (flow->is_inside)
        return;
    for (size_t i = 0; flow->is_begun && i < flow->breaks; i++)
        pal_buf_append_char(flow->out, '\n');
    flow->breaks = 0;
    flow->is_begun = true;
    /* Leave half of a narrow terminal for the text. */
    if (flow->width && indent > flow->width / 2)
        indent = flow->width / 2;
    start_line(flow, indent);
}

static void wrap(pal_flow *flow)
{
    size_t hang = flow->hang > flow->width / 2 ? flow->width / 2 : flow->hang;
    set_style(flow, 0);
    pal_buf_append_char(flow->out, '\n');
    start_line(flow, hang);
    flow->spaces = 0;
}

static void put_word(pal_flow *flow)
{
    if (flow->word.failure)
        flow->out->failure = flow->word.failure;
    if (flow->word.len == 0)
        return;
    pal_flow_begin(flow, 0);
    size_t end = flow->column + flow->spaces + flow->word_columns;
    if (flow->width && flow->is_filled && end > flow->width)
        wrap(flow);
    if (flow->spaces && flow->style != flow->spaces_style)
        set_style(flow, 0);
    put_spaces(flow, flow->spaces);
    set_style(flow, flow->word_first);
    pal_buf_append_str(flow->out, pal_buf_str(&flow->word));
    flow->style = flow->word_last;
    flow->column += flow->word_columns;
    /* The terminal itself breaks a word that is longer than a line. */
    if (flow->width && flow->column > flow->width)
        flow->column = (flow->column - 1) % flow->width + 1;
    flow->is_filled = true;
    flow->spaces = 0;
    flow->word_columns = 0;
    flow->word_is_wide = false;
    flow->word_is_joined = false;
    pal_buf_clear(&flow->word);
}

/* Punctuation that must not begin a line. */
static bool is_closing(uint32_t c)
{
    static const uint32_t marks[] = {0x3001, 0x3002, 0x300b, 0x300d, 0x300f, 0x3011, 0x30fc, 0xff01,
            0xff09, 0xff0c, 0xff0e, 0xff1a, 0xff1b, 0xff1f};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        if (marks[i] == c)
            return true;
    }
    return false;
}

static void add_char(pal_flow *flow, pal_str bytes, uint32_t c, unsigned style)
{
    size_t columns = pal_cli_columns(bytes);
    bool is_wide = columns == 2;
    bool may_break = columns > 0 && !is_closing(c) && !flow->word_is_joined;
    if ((may_break && (is_wide || flow->word_is_wide)) || flow->word.len >= WORD_BYTES_MAX)
        put_word(flow);
    if (flow->word.len == 0)
        flow->word_first = style;
    else
        put_style(&flow->word, flow->word_last, style);
    flow->word_last = style;
    pal_buf_append_str(&flow->word, bytes);
    flow->word_columns += columns;
    if (columns)
        flow->word_is_wide = is_wide;
    flow->word_is_joined = c == JOINER;
}

void pal_flow_text(pal_flow *flow, pal_str text, unsigned style)
{
    if (!flow->has_styles || flow->is_muted)
        style = 0;
    for (size_t at = 0; at < text.len;) {
        uint32_t c;
        pal_str rest = pal_str_make(text.data + at, text.len - at);
        size_t len = pal_utf8_decode(rest, &c);
        if (c == ' ' || c == '\t') {
            put_word(flow);
            flow->spaces++;
            flow->spaces_style = style;
        } else {
            add_char(flow, pal_str_make(rest.data, len), c, style);
        }
        at += len;
    }
}

void pal_flow_verbatim(pal_flow *flow, pal_str text, unsigned style)
{
    put_word(flow);
    pal_flow_begin(flow, 0);
    put_spaces(flow, flow->spaces);
    flow->spaces = 0;
    set_style(flow, flow->has_styles ? style : 0);
    pal_buf_append_str(flow->out, text);
    flow->column += pal_cli_columns(text);
    flow->is_filled = true;
}

void pal_flow_end(pal_flow *flow)
{
    put_word(flow);
    flow->spaces = 0;
    set_style(flow, 0);
    flow->is_inside = false;
    if (flow->breaks < 2)
        flow->breaks++;
}

void pal_flow_finish(pal_flow *flow)
{
    put_word(flow);
    set_style(flow, 0);
    if (flow->is_begun)
        pal_buf_append_char(flow->out, '\n');
    flow->is_begun = false;
    flow->is_inside = false;
    flow->breaks = 0;
    flow->spaces = 0;
    flow->quotes = 0;
    flow->hang = 0;
}
