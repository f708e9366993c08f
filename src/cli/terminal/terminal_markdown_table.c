/* terminal_markdown_table.c - lays out a Markdown table by columns. If the terminal is too narrow,
 * cells wrap. If it is much too narrow, each row becomes a few lines of "head: cell". */
#include "cli/terminal/terminal_markdown.h"

#include <string.h>
#include "base/text.h"
#include "cli/cli.h"

#define GAP 3        /* " | " between two columns */
#define COLUMN_MIN 8 /* minimum columns of a cell, if its text is that long */

typedef struct row {
    pal_str cells[PAL_MARKDOWN_CELLS_MAX]; /* plain text, in the arena */
    size_t len;
} row;

typedef struct table {
    pal_flow *flow;
    pal_arena *arena;
    row *rows; /* the first row is the head */
    size_t rows_len;
    size_t columns;
    bool right[PAL_MARKDOWN_CELLS_MAX];
    size_t widths[PAL_MARKDOWN_CELLS_MAX];
} table;

/* ---- Reading ---- */

/* Returns the length up to the bar that ends the cell. Bars in code and after a backslash do not
 * end it. */
static size_t cell_len(pal_str text)
{
    bool in_code = false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] == '\\')
            i++;
        else if (text.data[i] == '`')
            in_code = !in_code && memchr(text.data + i + 1, '`', text.len - i - 1);
        else if (text.data[i] == '|' && !in_code)
            return i;
    }
    return text.len;
}

/* Returns the text of the cell without marks. */
static pal_str plain_of(table *t, pal_str text)
{
    pal_buf plain;
    pal_flow flow;
    pal_inline line;
    if (!t->flow->has_styles)
        return text;
    pal_buf_init(&plain, 2 * PAL_MARKDOWN_TABLE_MAX);
    pal_flow_init(&flow, &plain, 0, true);
    flow.is_muted = true;
    pal_inline_init(&line, &flow, 0);
    pal_inline_all(&line, text);
    pal_flow_end(&flow);
    pal_str copy = pal_arena_copy(t->arena, pal_buf_str(&plain));
    if (plain.failure)
        t->flow->out->failure = plain.failure;
    pal_flow_done(&flow);
    pal_buf_done(&plain);
    return copy;
}

static void read_row(pal_str line, row *out_row)
{
    line = pal_text_trim(line);
    line = pal_str_make(line.data + 1, line.len - 1);
    while (line.len > 0) {
        bool is_last = out_row->len + 1 == PAL_MARKDOWN_CELLS_MAX;
        size_t len = is_last ? line.len : cell_len(line);
        out_row->cells[out_row->len++] = pal_text_trim(pal_str_make(line.data, len));
        line = len < line.len ? pal_str_make(line.data + len + 1, line.len - len - 1)
                              : pal_str_make(NULL, 0);
        if (is_last)
            break;
    }
}

/* Recognizes ":---:" and so on. */
static bool is_delimiter(pal_str cell)
{
    size_t dashes = 0;
    for (size_t i = 0; i < cell.len; i++) {
        bool is_edge = i == 0 || i + 1 == cell.len;
        if (cell.data[i] != '-' && !(is_edge && cell.data[i] == ':'))
            return false;
        dashes += cell.data[i] == '-';
    }
    return dashes > 0;
}

static bool read_delimiters(table *t, pal_str line)
{
    row delimiters = {0};
    read_row(line, &delimiters);
    for (size_t i = 0; i < delimiters.len; i++) {
        pal_str cell = delimiters.cells[i];
        if (!is_delimiter(cell))
            return false;
        t->right[i] = cell.data[0] != ':' && cell.data[cell.len - 1] == ':';
    }
    t->columns = delimiters.len;
    return t->columns > 0;
}

static pal_str next_line(pal_str *lines)
{
    const char *end = memchr(lines->data, '\n', lines->len);
    pal_str line = pal_str_make(lines->data, (size_t)(end - lines->data));
    *lines = pal_str_make(end + 1, lines->len - line.len - 1);
    return line;
}

static bool read_table(table *t, pal_str lines)
{
    size_t count = 0;
    for (size_t i = 0; i < lines.len; i++)
        count += lines.data[i] == '\n';
    pal_str head = next_line(&lines);
    if (count < 2 || !read_delimiters(t, next_line(&lines)))
        return false;
    t->rows = pal_arena_array(t->arena, count - 1, sizeof *t->rows);
    if (!t->rows)
        return false;
    read_row(head, &t->rows[t->rows_len++]);
    while (lines.len > 0)
        read_row(next_line(&lines), &t->rows[t->rows_len++]);
    return true;
}

/* ---- Measuring ---- */

static void measure(table *t)
{
    for (size_t i = 0; i < t->rows_len; i++) {
        for (size_t j = 0; j < t->columns; j++) {
            pal_str *cell = &t->rows[i].cells[j];
            *cell = plain_of(t, *cell);
            size_t width = pal_cli_columns(*cell);
            if (width > t->widths[j])
                t->widths[j] = width;
        }
    }
}

static size_t total_of(const table *t)
{
    size_t total = GAP * (t->columns - 1);
    for (size_t j = 0; j < t->columns; j++)
        total += t->widths[j];
    return total;
}

/* Takes columns from the widest column until all fit. Returns false if they would be too narrow
 * to read. */
static bool shrink(table *t, size_t width)
{
    size_t total = total_of(t);
    while (width && total > width) {
        size_t widest = 0;
        for (size_t j = 1; j < t->columns; j++) {
            if (t->widths[j] > t->widths[widest])
                widest = j;
        }
        if (t->widths[widest] <= COLUMN_MIN)
            return false;
        t->widths[widest]--;
        total--;
    }
    return true;
}

/* ---- Printing ---- */

static void put_blanks(pal_flow *flow, size_t count)
{
    for (; count > 0; count--)
        pal_flow_verbatim(flow, pal_str_of(" "), 0);
}

/* Takes as much from the beginning of the cell as fits into one line. */
static pal_str take_line(pal_str *cell, size_t width)
{
    if (cell->len == 0)
        return *cell;
    size_t fit = pal_cli_columns_fit(*cell, width);
    pal_str line = pal_text_trim(pal_str_make(cell->data, fit));
    *cell = pal_text_trim(pal_str_make(cell->data + fit, cell->len - fit));
    return line;
}

static void put_cell(table *t, size_t column, pal_str text, unsigned style)
{
    size_t columns = pal_cli_columns(text);
    size_t blanks = columns < t->widths[column] ? t->widths[column] - columns : 0;
    if (t->right[column])
        put_blanks(t->flow, blanks);
    pal_flow_verbatim(t->flow, text, style);
    if (!t->right[column] && column + 1 < t->columns)
        put_blanks(t->flow, blanks);
}

static void put_row(table *t, const row *from, unsigned style)
{
    row left = *from;
    bool has_more = true;
    while (has_more) {
        has_more = false;
        for (size_t j = 0; j < t->columns; j++) {
            if (j > 0)
                pal_flow_verbatim(t->flow, pal_str_of(" \xe2\x94\x82 "), PAL_FLOW_FAINT);
            put_cell(t, j, take_line(&left.cells[j], t->widths[j]), style);
            has_more = has_more || left.cells[j].len > 0;
        }
        pal_flow_end(t->flow);
    }
}

static void put_line(table *t)
{
    for (size_t j = 0; j < t->columns; j++) {
        if (j > 0)
            pal_flow_verbatim(
                    t->flow, pal_str_of("\xe2\x94\x80\xe2\x94\xbc\xe2\x94\x80"), PAL_FLOW_FAINT);
        for (size_t i = 0; i < t->widths[j]; i++)
            pal_flow_verbatim(t->flow, pal_str_of("\xe2\x94\x80"), PAL_FLOW_FAINT);
    }
    pal_flow_end(t->flow);
}

static void put_grid(table *t)
{
    put_row(t, &t->rows[0], PAL_FLOW_BOLD);
    put_line(t);
    for (size_t i = 1; i < t->rows_len; i++)
        put_row(t, &t->rows[i], 0);
}

/* Prints row by row, one cell per line. */
static void put_records(table *t)
{
    t->flow->hang = 2;
    for (size_t i = 1; i < t->rows_len; i++) {
        for (size_t j = 0; j < t->columns; j++) {
            pal_str head = t->rows[0].cells[j];
            if (t->rows[i].cells[j].len == 0)
                continue;
            pal_flow_begin(t->flow, 0);
            pal_flow_text(t->flow, head, PAL_FLOW_BOLD);
            pal_flow_text(t->flow, pal_str_of(head.len ? ": " : ""), PAL_FLOW_BOLD);
            pal_flow_text(t->flow, t->rows[i].cells[j], 0);
            pal_flow_end(t->flow);
        }
        if (i + 1 < t->rows_len)
            pal_flow_end(t->flow);
    }
}

bool pal_markdown_table(pal_flow *flow, pal_str lines, size_t width)
{
    table t = {.flow = flow, .arena = pal_arena_new(0)};
    if (!t.arena) {
        flow->out->failure = PAL_NO_MEMORY;
        return true;
    }
    bool is_table = read_table(&t, lines);
    if (is_table) {
        measure(&t);
        if (shrink(&t, width))
            put_grid(&t);
        else
            put_records(&t);
    }
    if (pal_arena_failure(t.arena) != PAL_OK)
        flow->out->failure = pal_arena_failure(t.arena);
    pal_arena_free(t.arena);
    return is_table;
}
