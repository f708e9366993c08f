/* cli_output.c - prints everything that reaches the terminal: buffered output, untrusted text with
 * control characters made visible, text wrapped by columns, and numbers for people.
 *
 * Columns are counted by code point: combining marks take none, East Asian wide characters and
 * emoji take two. Terminals agree on these widths; joined emoji may be counted too wide. */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/utf8.h"

typedef struct char_range {
    uint32_t first;
    uint32_t last;
} char_range;

static const char_range wide_ranges[] = {
        {0x1100, 0x115f},
        {0x231a, 0x231b},
        {0x23e9, 0x23ec},
        {0x23f0, 0x23f0},
        {0x23f3, 0x23f3},
        {0x25fd, 0x25fe},
        {0x2614, 0x2615},
        {0x2648, 0x2653},
        {0x267f, 0x267f},
        {0x2693, 0x2693},
        {0x26a1, 0x26a1},
        {0x26aa, 0x26ab},
        {0x26bd, 0x26be},
        {0x26c4, 0x26c5},
        {0x26ce, 0x26ce},
        {0x26d4, 0x26d4},
        {0x26ea, 0x26ea},
        {0x26f2, 0x26f3},
        {0x26f5, 0x26f5},
        {0x26fa, 0x26fa},
        {0x26fd, 0x26fd},
        {0x2705, 0x2705},
        {0x270a, 0x270b},
        {0x2728, 0x2728},
        {0x274c, 0x274c},
        {0x274e, 0x274e},
        {0x2753, 0x2755},
        {0x2757, 0x2757},
        {0x2795, 0x2797},
        {0x27b0, 0x27b0},
        {0x27bf, 0x27bf},
        {0x2b1b, 0x2b1c},
        {0x2b50, 0x2b50},
        {0x2b55, 0x2b55},
        {0x2e80, 0x303e},
        {0x3041, 0x33ff},
        {0x3400, 0x4dbf},
        {0x4e00, 0x9fff},
        {0xa000, 0xa4cf},
        {0xa960, 0xa97f},
        {0xac00, 0xd7a3},
        {0xf900, 0xfaff},
        {0xfe30, 0xfe6f},
        {0xff00, 0xff60},
        {0xffe0, 0xffe6},
        {0x1f300, 0x1f64f},
        {0x1f680, 0x1f6ff},
        {0x1f7e0, 0x1f7eb},
        {0x1f900, 0x1f9ff},
        {0x1fa70, 0x1faff},
        {0x20000, 0x3fffd},
};

static const char_range zero_ranges[] = {
        {0x0300, 0x036f},
        {0x0483, 0x0489},
        {0x0591, 0x05bd},
        {0x064b, 0x065f},
        {0x0e31, 0x0e31},
        {0x0e34, 0x0e3a},
        {0x0e47, 0x0e4e},
        {0x1ab0, 0x1aff},
        {0x1dc0, 0x1dff},
        {0x200b, 0x200f},
        {0x20d0, 0x20ff},
        {0x3099, 0x309a},
        {0xfe00, 0xfe0f},
        {0xfe20, 0xfe2f},
        {0xfeff, 0xfeff},
        {0x1f3fb, 0x1f3ff},
        {0xe0100, 0xe01ef},
};

static bool in_ranges(uint32_t c, const char_range *ranges, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (c >= ranges[i].first && c <= ranges[i].last)
            return true;
    }
    return false;
}

static size_t char_columns(uint32_t c)
{
    if (c < 0x300)
        return 1;
    if (in_ranges(c, zero_ranges, sizeof zero_ranges / sizeof *zero_ranges))
        return 0;
    return in_ranges(c, wide_ranges, sizeof wide_ranges / sizeof *wide_ranges) ? 2 : 1;
}

static pal_str rest_of(pal_str text, size_t at)
{
    return pal_str_make(text.data + at, text.len - at);
}

size_t pal_cli_columns_cut(pal_str text, size_t columns)
{
    size_t at = 0, used = 0;
    while (at < text.len) {
        uint32_t c;
        size_t len = pal_utf8_decode(rest_of(text, at), &c);
        used += char_columns(c);
        if (used > columns)
            break;
        at += len;
    }
    return at;
}

size_t pal_cli_columns(pal_str text)
{
    size_t columns = 0;
    for (size_t at = 0; at < text.len;) {
        uint32_t c;
        at += pal_utf8_decode(rest_of(text, at), &c);
        columns += char_columns(c);
    }
    return columns;
}

/* Control characters, and direction overrides that make text look like different text. */
static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x202a && c <= 0x202e) ||
            (c >= 0x2066 && c <= 0x2069);
}

void pal_cli_clean(pal_buf *buf, pal_str text, bool lines)
{
    size_t at = 0, plain = 0;
    while (at < text.len) {
        uint32_t c;
        size_t len = pal_utf8_decode(rest_of(text, at), &c);
        bool keep = !is_control(c) && c != 0xfffd;
        if (keep || (lines && (c == '\n' || c == '\t'))) {
            at += len;
            continue;
        }
        pal_buf_append(buf, text.data + plain, at - plain);
        if (c == '\n' || c == '\t')
            pal_buf_append_char(buf, ' ');
        else if (c == 0xfffd)
            pal_buf_append_text(buf, "\xef\xbf\xbd");
        else if (c != '\r' || !lines)
            pal_buf_format(buf, c < 0x100 ? "\\x%02x" : "\\u%04x", (unsigned)c);
        at += len;
        plain = at;
    }
    if (at > plain)
        pal_buf_append(buf, text.data + plain, at - plain);
}

size_t pal_cli_columns_fit(pal_str line, size_t columns)
{
    size_t fit = pal_cli_columns_cut(line, columns);
    if (fit == line.len)
        return fit;
    if (line.data[fit] == ' ')
        return fit;
    for (size_t at = fit; at > 0; at--) {
        if (line.data[at - 1] == ' ')
            return at;
    }
    return fit > 0 ? fit : line.len;
}

static void wrap_line(pal_buf *buf, pal_str line, int indent, size_t columns)
{
    do {
        size_t fit = pal_cli_columns_fit(line, columns);
        size_t shown = fit;
        while (shown > 0 && line.data[shown - 1] == ' ')
            shown--;
        if (shown)
            pal_buf_format(buf, "%*s", indent, "");
        pal_buf_append(buf, line.data, shown);
        pal_buf_append_char(buf, '\n');
        while (fit < line.len && line.data[fit] == ' ')
            fit++;
        line = rest_of(line, fit);
    } while (line.len > 0);
}

void pal_cli_wrap(pal_buf *buf, pal_str text, int indent, int width)
{
    pal_buf clean;
    size_t columns = width > indent + 20 ? (size_t)(width - indent) : 20;
    pal_buf_init(&clean, PAL_CLI_OUT_MAX);
    pal_cli_clean(&clean, text, true);
    pal_str rest = pal_buf_str(&clean);
    while (rest.len > 0) {
        const char *end = memchr(rest.data, '\n', rest.len);
        size_t len = end ? (size_t)(end - rest.data) : rest.len;
        wrap_line(buf, pal_str_make(rest.data, len), indent, columns);
        rest = rest_of(rest, len + (end ? 1 : 0));
    }
    if (clean.failure)
        buf->failure = clean.failure;
    pal_buf_done(&clean);
}

pal_status pal_cli_flush(pal_cli *cli)
{
    size_t at = 0;
    if (cli->out.failure)
        return pal_error_set(&cli->err, cli->out.failure,
                cli->out.failure == PAL_LIMIT ? "the output is too large" : "out of memory");
    if (pal_arena_failure(cli->arena) != PAL_OK)
        return pal_cli_no_memory(cli);
    while (at < cli->out.len) {
        ssize_t len = write(cli->out_fd, cli->out.data + at, cli->out.len - at);
        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0)
            return pal_error_set(&cli->err, PAL_IO,
                    "could not write the output: %s", strerror(errno));
        at += (size_t)len;
    }
    pal_buf_clear(&cli->out);
    return PAL_OK;
}

pal_status pal_cli_flush_some(pal_cli *cli)
{
    bool enough = cli->out.len >= PAL_CLI_FLUSH_AT || cli->out.failure;
    return enough ? pal_cli_flush(cli) : PAL_OK;
}

bool pal_cli_has_styles(const pal_cli *cli)
{
    const char *plain = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    return cli->is_terminal && !(plain && *plain) && term && strcmp(term, "dumb") != 0;
}

void pal_cli_style(pal_cli *cli, int style)
{
    if (pal_cli_has_styles(cli))
        pal_buf_format(&cli->out, "\033[%dm", style);
}

void pal_cli_print_error(const char *message, const char *hint)
{
    pal_buf line;
    pal_buf_init(&line, 4096);
    pal_buf_append_text(&line, "palaver: ");
    pal_cli_clean(&line, pal_str_of(message), false);
    pal_buf_append_char(&line, '\n');
    if (hint && *hint) {
        pal_buf_append_text(&line, "hint: ");
        pal_cli_clean(&line, pal_str_of(hint), false);
        pal_buf_append_char(&line, '\n');
    }
    if (line.failure)
        fprintf(stderr, "palaver: %s\n", message);
    else
        fwrite(line.data, 1, line.len, stderr);
    pal_buf_done(&line);
}

void pal_cli_print_error_json(const pal_error *err, const char *hint)
{
    pal_buf line;
    pal_buf_init(&line, 8192);
    pal_json_writer writer = pal_json_writer_make(&line);
    pal_json_begin_object(&writer);
    pal_put_text(&writer, "error", err->message);
    pal_put_text(&writer, "code", pal_status_name(err->status));
    pal_json_name(&writer, "hint");
    if (hint && *hint)
        pal_json_put_text(&writer, hint);
    else
        pal_json_put_null(&writer);
    pal_json_end_object(&writer);
    pal_buf_append_char(&line, '\n');
    if (line.failure)
        pal_cli_print_error(err->message, hint);
    else
        fwrite(line.data, 1, line.len, stderr);
    pal_buf_done(&line);
}

pal_status pal_cli_no_memory(pal_cli *cli)
{
    return pal_no_memory(&cli->err);
}

pal_str pal_cli_id(pal_cli *cli, pal_id id)
{
    char text[PAL_ID_TEXT_SIZE];
    pal_id_to_text(id, text);
    return pal_arena_copy(cli->arena, pal_str_of(text));
}

void pal_cli_size(uint64_t bytes, char out_text[PAL_CLI_SIZE_SIZE])
{
    static const char *const units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
    double value = (double)bytes / 1000;
    size_t unit = 0;
    if (bytes < 1000) {
        snprintf(out_text, PAL_CLI_SIZE_SIZE, "%u bytes", (unsigned)bytes);
        return;
    }
    for (; value >= 999.95 && unit + 1 < sizeof units / sizeof *units; unit++)
        value /= 1000;
    snprintf(out_text, PAL_CLI_SIZE_SIZE, "%.1f %s", value, units[unit]);
}

void pal_cli_number_text(pal_buf *buf, uint64_t number)
{
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            pal_buf_append_char(buf, ',');
        pal_buf_append_char(buf, digits[i]);
    }
}

void pal_cli_count(pal_buf *buf, uint64_t count, const char *noun)
{
    pal_cli_number_text(buf, count);
    pal_buf_append_char(buf, ' ');
    pal_buf_append_text(buf, noun);
    if (count != 1)
        pal_buf_append_char(buf, 's');
}
