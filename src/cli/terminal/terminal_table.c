/* terminal_table.c - prints aligned tables for people. Control characters in cells are made visible
 * when a cell is added. Widths are measured in columns, not bytes. On a terminal, columns are
 * cut so that no row wraps: first the column that the table names, then the widest text. */
#include "cli/cli.h"

#include <string.h>
#include "base/memory.h"

#define GAP 2
#define NAMED_MIN 12 /* minimum width of the column that is cut first */
#define TEXT_MIN 8   /* minimum width of any other text column */

void pal_cli_table_cell(pal_cli *cli, pal_cli_table *table, pal_str text)
{
    pal_buf clean;
    if (!pal_arena_reserve(cli->arena, &table->cells, &table->cells_cap, table->cells_len + 1,
                sizeof *table->cells))
        return;
    pal_buf_init(&clean, PAL_CLI_OUT_MAX);
    pal_cli_clean(&clean, text, false);
    table->cells[table->cells_len++] = pal_arena_copy(cli->arena, pal_buf_str(&clean));
    pal_buf_done(&clean);
}

void pal_cli_table_cell_u64(pal_cli *cli, pal_cli_table *table, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    pal_cli_table_cell(cli, table, pal_str_of(text));
}

/* Computes the widths of all columns; 0 for columns without content. */
static void measure(const pal_cli_table *table, size_t *widths)
{
    memset(widths, 0, table->columns * sizeof *widths);
    for (size_t i = 0; i < table->cells_len; i++) {
        size_t width = pal_cli_columns(table->cells[i]);
        if (width > widths[i % table->columns])
            widths[i % table->columns] = width;
    }
    for (size_t i = 0; i < table->columns; i++) {
        size_t head = pal_cli_columns(pal_str_of(table->heads[i]));
        if (widths[i] && head > widths[i])
            widths[i] = head;
    }
}

/* Takes up to `excess` columns from a width, but leaves at least `least`. Returns how many
 * columns are still to be taken. */
static size_t cut_width(size_t *width, size_t least, size_t excess)
{
    size_t cut = *width > least ? *width - least : 0;
    if (cut > excess)
        cut = excess;
    *width -= cut;
    return excess - cut;
}

static void shrink(const pal_cli *cli, const pal_cli_table *table, size_t *widths)
{
    size_t total = 0, room = (size_t)cli->width + GAP;
    if (!cli->is_terminal)
        return;
    for (size_t i = 0; i < table->columns; i++)
        total += widths[i] ? widths[i] + GAP : 0;
    size_t excess = total > room ? total - room : 0;
    if (table->shrink >= 0)
        excess = cut_width(&widths[table->shrink], NAMED_MIN, excess);
    while (excess > 0) {
        size_t widest = 0;
        for (size_t i = 1; i < table->columns; i++)
            widest = !table->right[i] && widths[i] > widths[widest] ? i : widest;
        if (widths[widest] <= TEXT_MIN || table->right[widest])
            return;
        cut_width(&widths[widest], widths[widest] - 1, 1);
        excess--;
    }
}

static void put_spaces(pal_buf *buf, size_t count)
{
    pal_buf_format(buf, "%*s", (int)count, "");
}

static void put_cell(pal_buf *buf, pal_str text, size_t width, bool right, bool last)
{
    size_t columns = pal_cli_columns(text);
    if (columns > width) {
        size_t cut = pal_cli_columns_cut(text, width - 1);
        pal_buf_append(buf, text.data, cut);
        pal_buf_append_text(buf, "\xe2\x80\xa6");
        columns = pal_cli_columns(pal_str_make(text.data, cut)) + 1;
    } else if (!right) {
        pal_buf_append_str(buf, text);
    }
    put_spaces(buf, last && !right ? 0 : width - columns);
    if (right && columns <= width)
        pal_buf_append_str(buf, text);
}

static void put_row(
        pal_cli *cli, const pal_cli_table *table, const pal_str *cells, const size_t *widths)
{
    size_t last = 0;
    bool first = true;
    for (size_t i = 0; i < table->columns; i++) {
        if (widths[i])
            last = i;
    }
    for (size_t i = 0; i < table->columns; i++) {
        if (!widths[i])
            continue;
        if (!first)
            put_spaces(&cli->out, GAP);
        first = false;
        put_cell(&cli->out, cells[i], widths[i], table->right[i], i == last);
    }
    while (cli->out.len > 0 && cli->out.data[cli->out.len - 1] == ' ')
        cli->out.len--;
    pal_buf_append_char(&cli->out, '\n');
}

void pal_cli_table_print(pal_cli *cli, const pal_cli_table *table)
{
    size_t widths[PAL_CLI_COLUMNS_MAX];
    pal_str heads[PAL_CLI_COLUMNS_MAX];
    measure(table, widths);
    shrink(cli, table, widths);
    for (size_t i = 0; i < table->columns; i++)
        heads[i] = pal_str_of(table->heads[i]);
    pal_cli_style(cli, 1);
    put_row(cli, table, heads, widths);
    pal_cli_style(cli, 0);
    for (size_t i = 0; i + table->columns <= table->cells_len; i += table->columns)
        put_row(cli, table, table->cells + i, widths);
}
