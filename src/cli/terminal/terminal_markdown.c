/* terminal_markdown.c - decides for each line of a Markdown text what it is, from as few characters
 * as possible, so that text can be shown while it arrives. Tables wait until they are complete.
 * Line ends are kept, because models write them intentionally.
 *
 * Every decision depends on the text alone, never on where a piece ends. Not thread-safe. */
#include "cli/terminal/terminal_markdown.h"

#include <string.h>
#include "base/utf8.h"
#include "cli/cli.h"

#define RULE_COLUMNS 40
#define DIGITS_MAX 9
#define TEXT_MAX PAL_CLI_OUT_MAX

/* The rest of a line, as far as it has arrived. */
typedef struct rest {
    pal_str text;
    bool is_whole;
} rest;

/* The kind of a line; BLOCK_WAIT: not enough of it has arrived. */
typedef enum block {
    BLOCK_WAIT,
    BLOCK_BLANK,
    BLOCK_TEXT,
    BLOCK_HEADING,
    BLOCK_ITEM,
    BLOCK_RULE,
    BLOCK_FENCE,
    BLOCK_TABLE,
    BLOCK_QUOTE,
} block;

void pal_markdown_init(pal_markdown *md, pal_buf *out, size_t width, bool has_styles)
{
    *md = (pal_markdown){0};
    pal_flow_init(&md->flow, out, width, has_styles);
    pal_buf_init(&md->text, TEXT_MAX);
    pal_buf_init(&md->table, 2 * PAL_MARKDOWN_TABLE_MAX);
    pal_markdown_set_width(md, width);
}

void pal_markdown_done(pal_markdown *md)
{
    pal_flow_done(&md->flow);
    pal_buf_done(&md->text);
    pal_buf_done(&md->table);
}

void pal_markdown_set_width(pal_markdown *md, size_t width)
{
    md->width = width;
    md->flow.width = width > PAL_MARKDOWN_PROSE_MAX ? PAL_MARKDOWN_PROSE_MAX : width;
}

bool pal_markdown_is_idle(const pal_markdown *md)
{
    return !md->flow.is_begun;
}

static rest rest_of(const pal_markdown *md)
{
    rest r = {.text = pal_str_make(md->text.data + md->at, md->text.len - md->at)};
    const char *end = r.text.len ? memchr(r.text.data, '\n', r.text.len) : NULL;
    if (end)
        r.text.len = (size_t)(end - r.text.data);
    r.is_whole = end || md->is_over;
    return r;
}

/* Skips the line end, if there is one. */
static void skip_end(pal_markdown *md)
{
    if (md->at < md->text.len)
        md->at++;
}

/* ---- Recognizing a line ---- */

static size_t run_of(pal_str text, char c)
{
    size_t len = 0;
    while (len < text.len && text.data[len] == c)
        len++;
    return len;
}

static size_t blanks_of(pal_str text)
{
    size_t len = 0;
    while (len < text.len && (text.data[len] == ' ' || text.data[len] == '\t'))
        len++;
    return len;
}

static pal_str text_after(pal_str text, size_t len)
{
    return pal_str_make(text.data + len, text.len - len);
}

static block is_heading(rest r)
{
    size_t len = run_of(r.text, '#');
    /* All blanks after the marks are skipped, so their end must have arrived. */
    if (len <= 6 && !r.is_whole && len + blanks_of(text_after(r.text, len)) == r.text.len)
        return BLOCK_WAIT;
    return len <= 6 && (len == r.text.len || r.text.data[len] == ' ') ? BLOCK_HEADING : BLOCK_TEXT;
}

static block is_fence(rest r)
{
    size_t len = run_of(r.text, r.text.data[0]);
    if (len == r.text.len && !r.is_whole)
        return BLOCK_WAIT;
    if (len < 3)
        return BLOCK_TEXT;
    /* Three backticks with more backticks later in the line are inline code. */
    if (r.text.data[0] == '`' && memchr(r.text.data + len, '`', r.text.len - len))
        return BLOCK_TEXT;
    return r.is_whole ? BLOCK_FENCE : BLOCK_WAIT;
}

/* Decides between "- item", "---" and emphasis. */
static block is_dash(rest r)
{
    char mark = r.text.data[0];
    size_t marks = 0, at = 0;
    for (; at < r.text.len && (r.text.data[at] == mark || r.text.data[at] == ' '); at++)
        marks += r.text.data[at] == mark;
    bool is_only = at == r.text.len && mark != '+';
    if (is_only && !r.is_whole)
        return BLOCK_WAIT;
    if (is_only && marks >= 3)
        return BLOCK_RULE;
    if (r.text.len < 2 && !r.is_whole)
        return BLOCK_WAIT;
    return mark != '_' && r.text.len >= 2 && r.text.data[1] == ' ' ? BLOCK_ITEM : BLOCK_TEXT;
}

static block is_number(rest r)
{
    size_t len = 0;
    while (len < r.text.len && len <= DIGITS_MAX && r.text.data[len] >= '0' &&
            r.text.data[len] <= '9')
        len++;
    if (len > DIGITS_MAX)
        return BLOCK_TEXT;
    for (size_t i = len; i < len + 2; i++) {
        if (i >= r.text.len)
            return r.is_whole ? BLOCK_TEXT : BLOCK_WAIT;
        if (i == len ? !strchr(".)", r.text.data[i]) : r.text.data[i] != ' ')
            return BLOCK_TEXT;
    }
    return BLOCK_ITEM;
}

static block block_of(rest r)
{
    if (r.text.len == 0)
        return r.is_whole ? BLOCK_BLANK : BLOCK_WAIT;
    switch (r.text.data[0]) {
    case '#':
        return is_heading(r);
    case '`':
    case '~':
        return is_fence(r);
    case '-':
    case '*':
    case '_':
    case '+':
        return is_dash(r);
    case '|':
        return r.is_whole ? BLOCK_TABLE : BLOCK_WAIT;
    case '>':
        return r.text.len > 1 || r.is_whole ? BLOCK_QUOTE : BLOCK_WAIT;
    default:
        return r.text.data[0] >= '0' && r.text.data[0] <= '9' ? is_number(r) : BLOCK_TEXT;
    }
}

/* ---- Showing a line ---- */

static void begin_text(pal_markdown *md, size_t indent, unsigned style)
{
    pal_flow_begin(&md->flow, indent);
    md->flow.hang = indent;
    pal_inline_init(&md->line, &md->flow, style);
    md->state = PAL_MARKDOWN_INLINE;
}

static void begin_heading(pal_markdown *md, rest r, size_t indent)
{
    size_t level = run_of(r.text, '#');
    begin_text(md, indent, level == 1 ? PAL_FLOW_BOLD | PAL_FLOW_UNDERLINE : PAL_FLOW_BOLD);
    if (md->flow.has_styles)
        md->at += level + blanks_of(text_after(r.text, level));
}

/* Recognizes "[ ] " and "[x] " of a task list. Returns false if not enough has arrived. */
static bool task_of(rest r, const char **out_box)
{
    pal_str text = r.text;
    *out_box = NULL;
    if (text.len < 4 && !r.is_whole)
        return text.len > 0 && text.data[0] != '[';
    if (text.len < 4 || text.data[0] != '[' || text.data[2] != ']' || text.data[3] != ' ')
        return true;
    if (text.data[1] == ' ')
        *out_box = "\xe2\x98\x90 ";
    else if (text.data[1] == 'x' || text.data[1] == 'X')
        *out_box = "\xe2\x98\x91 ";
    return true;
}

static bool begin_item(pal_markdown *md, rest r, size_t indent)
{
    const char *box;
    bool is_bullet = strchr("-*+", r.text.data[0]) != NULL;
    size_t mark = is_bullet
            ? 1
            : (size_t)((const char *)memchr(r.text.data, ' ', r.text.len) - r.text.data);
    rest inside = {.text = text_after(r.text, mark + 1), .is_whole = r.is_whole};
    if (is_bullet && !task_of(inside, &box))
        return false;
    begin_text(md, indent, 0);
    md->flow.hang = indent + mark + 1;
    pal_flow_verbatim(
            &md->flow, is_bullet ? pal_str_of("\xe2\x80\xa2") : pal_str_make(r.text.data, mark), 0);
    pal_flow_text(&md->flow, pal_str_of(" "), 0);
    md->at += mark + 1;
    if (is_bullet && box) {
        pal_flow_text(&md->flow, pal_str_of(box), 0);
        md->at += 4;
    }
    return true;
}

static void put_rule(pal_markdown *md, size_t len)
{
    size_t columns =
            md->flow.width && md->flow.width < RULE_COLUMNS ? md->flow.width : RULE_COLUMNS;
    for (size_t i = 0; i < columns; i++)
        pal_flow_verbatim(&md->flow, pal_str_of("\xe2\x94\x80"), PAL_FLOW_FAINT);
    pal_flow_end(&md->flow);
    md->at += len;
    skip_end(md);
}

static void open_fence(pal_markdown *md, rest r)
{
    md->fence = r.text.data[0];
    md->fence_len = run_of(r.text, md->fence);
    pal_str info = text_after(r.text, md->fence_len);
    info = text_after(info, blanks_of(info));
    pal_flow_verbatim(&md->flow, pal_str_of("\xe2\x95\xad\xe2\x94\x80 "), PAL_FLOW_FAINT);
    pal_flow_verbatim(&md->flow, info, PAL_FLOW_FAINT);
    pal_flow_end(&md->flow);
    md->state = PAL_MARKDOWN_CODE_START;
    md->at += r.text.len;
    skip_end(md);
}

static void close_fence(pal_markdown *md)
{
    pal_flow_verbatim(&md->flow, pal_str_of("\xe2\x95\xb0\xe2\x94\x80"), PAL_FLOW_FAINT);
    pal_flow_end(&md->flow);
    md->state = PAL_MARKDOWN_START;
}

/* ---- Tables ---- */

static void end_table(pal_markdown *md)
{
    pal_str lines = pal_buf_str(&md->table);
    if (md->table.failure)
        md->flow.out->failure = md->table.failure;
    if (lines.len == 0 || md->table.failure)
        return;
    size_t width = md->width > 2 * md->flow.quotes ? md->width - 2 * md->flow.quotes : md->width;
    if (!pal_markdown_table(&md->flow, lines, width)) {
        while (lines.len > 0) {
            size_t len = (size_t)((const char *)memchr(lines.data, '\n', lines.len) - lines.data);
            md->flow.hang = 0;
            pal_inline_init(&md->line, &md->flow, 0);
            pal_inline_all(&md->line, pal_str_make(lines.data, len));
            pal_flow_end(&md->flow);
            lines = text_after(lines, len + 1);
        }
    }
    pal_buf_clear(&md->table);
}

static void add_row(pal_markdown *md, rest r)
{
    if (md->table.len + r.text.len > PAL_MARKDOWN_TABLE_MAX)
        end_table(md);
    pal_buf_append_str(&md->table, r.text);
    pal_buf_append_char(&md->table, '\n');
    md->at += r.text.len;
    skip_end(md);
}

/* ---- One step at a time ---- */

static bool show_block(pal_markdown *md, rest r, block kind, size_t indent)
{
    switch (kind) {
    case BLOCK_BLANK:
        md->flow.quotes = 0;
        pal_flow_end(&md->flow);
        skip_end(md);
        return true;
    case BLOCK_HEADING:
        begin_heading(md, r, indent);
        return true;
    case BLOCK_ITEM:
        return begin_item(md, r, indent);
    case BLOCK_RULE:
        put_rule(md, r.text.len);
        return true;
    case BLOCK_FENCE:
        open_fence(md, r);
        return true;
    default:
        begin_text(md, indent, 0);
        return true;
    }
}

/* Counts the bars of a quote; `r` is then the line after them. */
static size_t skip_quotes(rest *r, size_t *out_quotes)
{
    size_t taken = 0;
    *out_quotes = 0;
    while (*out_quotes < PAL_FLOW_QUOTES_MAX && block_of(*r) == BLOCK_QUOTE) {
        size_t len = 1 + (r->text.len > 1 && r->text.data[1] == ' ');
        r->text = text_after(r->text, len);
        taken += len;
        ++*out_quotes;
    }
    return taken;
}

/* Decides by the first PAL_MARKDOWN_HOLD_MAX bytes; a table row can be longer. */
static block decide(rest r)
{
    bool is_row = r.text.len > 0 && r.text.data[0] == '|' && r.text.len < PAL_MARKDOWN_TABLE_MAX;
    if (is_row || r.text.len <= PAL_MARKDOWN_HOLD_MAX)
        return block_of(r);
    r.text.len = PAL_MARKDOWN_HOLD_MAX;
    r.is_whole = false;
    block kind = block_of(r);
    return kind == BLOCK_WAIT ? BLOCK_TEXT : kind;
}

static size_t indent_of(pal_str text)
{
    size_t len = blanks_of(text);
    return len < PAL_MARKDOWN_HOLD_MAX ? len : PAL_MARKDOWN_HOLD_MAX;
}

static bool start_line(pal_markdown *md)
{
    rest r = rest_of(md);
    size_t quotes, taken = indent_of(r.text);
    size_t indent = taken;
    r.text = text_after(r.text, taken);
    taken += skip_quotes(&r, &quotes);
    if (quotes) {
        indent = indent_of(r.text);
        r.text = text_after(r.text, indent);
        taken += indent;
    }
    block kind = decide(r);
    if (kind == BLOCK_WAIT)
        return false;
    if (kind != BLOCK_TABLE || quotes != md->flow.quotes)
        end_table(md);
    size_t at = md->at;
    md->flow.quotes = quotes;
    md->at += taken;
    if (kind == BLOCK_TABLE)
        add_row(md, r);
    else if (!show_block(md, r, kind, indent)) {
        md->at = at;
        return false;
    }
    return true;
}

static bool go_on_inline(pal_markdown *md)
{
    rest r = rest_of(md);
    size_t taken = pal_inline_step(&md->line, r.text, r.is_whole);
    md->at += taken;
    if (taken < r.text.len || !r.is_whole)
        return false;
    if (md->at == md->text.len && !md->is_over)
        return false;
    pal_flow_end(&md->flow);
    skip_end(md);
    md->state = PAL_MARKDOWN_START;
    return true;
}

/* Begins a line of code, unless the line closes the fence. */
static bool start_code(pal_markdown *md)
{
    rest r = rest_of(md);
    size_t blanks = blanks_of(r.text);
    pal_str text = text_after(r.text, blanks);
    size_t run = run_of(text, md->fence);
    size_t after = run + blanks_of(text_after(text, run));
    bool may_close = after == text.len;
    bool is_short = r.text.len <= PAL_MARKDOWN_HOLD_MAX;
    if (may_close && !r.is_whole && is_short)
        return false;
    if (may_close && is_short && run >= md->fence_len) {
        md->at += r.text.len;
        skip_end(md);
        close_fence(md);
        return true;
    }
    pal_flow_begin(&md->flow, 0);
    md->state = PAL_MARKDOWN_CODE;
    return true;
}

static bool go_on_code(pal_markdown *md)
{
    rest r = rest_of(md);
    if (r.text.len > 0)
        pal_flow_verbatim(&md->flow, r.text, PAL_FLOW_CODE);
    md->at += r.text.len;
    if (!r.is_whole)
        return false;
    pal_flow_end(&md->flow);
    skip_end(md);
    md->state = PAL_MARKDOWN_CODE_START;
    return true;
}

static bool step(pal_markdown *md)
{
    switch (md->state) {
    case PAL_MARKDOWN_INLINE:
        return go_on_inline(md);
    case PAL_MARKDOWN_CODE_START:
        return start_code(md);
    case PAL_MARKDOWN_CODE:
        return go_on_code(md);
    default:
        return start_line(md);
    }
}

/* ---- Input and output ---- */

/* Returns how many bytes at the end may be the beginning of a character. */
static size_t tail_of(pal_str text)
{
    for (size_t len = 1; len <= 3 && len <= text.len; len++) {
        unsigned char c = (unsigned char)text.data[text.len - len];
        if (c >= 0xc0)
            return len < (c >= 0xf0 ? 4u : c >= 0xe0 ? 3u : 2u) ? len : 0;
        if (c < 0x80)
            return 0;
    }
    return 0;
}

/* Adds complete characters, with control characters made visible. */
static void take_in(pal_markdown *md, pal_str text)
{
    if (text.len == 0)
        return;
    pal_cli_clean(md->is_raw ? md->flow.out : &md->text, text, true);
    if (md->is_raw)
        md->flow.is_begun = text.data[text.len - 1] != '\n'; /* the line has not ended */
}

static void drain(pal_markdown *md)
{
    while ((md->at < md->text.len || md->is_over) && step(md)) {
        if (md->is_over && md->at >= md->text.len)
            break;
    }
    pal_buf_consume(&md->text, md->at);
    md->at = 0;
    if (md->text.failure)
        md->flow.out->failure = md->text.failure;
}

/* Adds bytes to the incomplete character until it is complete or found to be invalid. */
static pal_str complete_tail(pal_markdown *md, pal_str piece)
{
    while (md->tail_len > 0 && piece.len > 0) {
        if (((unsigned char)piece.data[0] & 0xc0) == 0x80)
            md->tail[md->tail_len++] = *piece.data;
        if (((unsigned char)piece.data[0] & 0xc0) != 0x80 ||
                tail_of(pal_str_make(md->tail, md->tail_len)) == 0) {
            if (((unsigned char)piece.data[0] & 0xc0) == 0x80)
                piece = text_after(piece, 1);
            take_in(md, pal_str_make(md->tail, md->tail_len));
            md->tail_len = 0;
            break;
        }
        piece = text_after(piece, 1);
    }
    return piece;
}

void pal_markdown_feed(pal_markdown *md, pal_str piece)
{
    piece = complete_tail(md, piece);
    size_t tail = tail_of(piece);
    take_in(md, pal_str_make(piece.data, piece.len - tail));
    if (tail > 0) {
        memcpy(md->tail, piece.data + piece.len - tail, tail);
        md->tail_len = tail;
    }
    drain(md);
}

void pal_markdown_finish(pal_markdown *md)
{
    take_in(md, pal_str_make(md->tail, md->tail_len));
    md->tail_len = 0;
    md->is_over = true;
    if (md->text.len > 0 || md->state == PAL_MARKDOWN_INLINE)
        drain(md);
    end_table(md);
    pal_flow_finish(&md->flow);
    md->is_over = false;
    md->state = PAL_MARKDOWN_START;
}
