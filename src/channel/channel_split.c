/* channel_split.c - divides a long text into messages. */
#include "channel/channel_split.h"

#include <assert.h>
#include <stdbool.h>
#include "base/buf.h"
#include "base/memory.h"
#include "base/text.h"
#include "channel/channel_limits.h"

/* A line that opens a block of code: its beginning is repeated in the next piece. */
#define FENCE_LEN_MAX 40
#define CLOSING_MAX (FENCE_LEN_MAX + 1)

size_t pal_channel_units(pal_str text)
{
    size_t units = 0;

    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        units += (c & 0xc0) != 0x80;
        units += c >= 0xf0; /* outside the basic plane: two units */
    }
    return units;
}

/* ---- Blocks of code ---- */

/* The block of code that is open. */
typedef struct fence {
    pal_str line; /* the line that opened it, without what is too long; empty: none is open */
    char sign;
    size_t count;
} fence;

/* Returns how many of '`' or '~' the line begins with, after up to three spaces; 0 if they are too
 * few for a fence. */
static size_t fence_count(pal_str line, char *out_sign, size_t *out_indent)
{
    size_t indent = 0, count = 0;

    while (indent < line.len && indent < 3 && line.data[indent] == ' ')
        indent++;
    if (indent == line.len || (line.data[indent] != '`' && line.data[indent] != '~'))
        return 0;
    *out_sign = line.data[indent];
    *out_indent = indent;
    while (indent + count < line.len && line.data[indent + count] == *out_sign)
        count++;
    return count >= 3 ? count : 0;
}

static void fence_see(fence *open, pal_str line)
{
    char sign = 0;
    size_t indent = 0, count = fence_count(line, &sign, &indent);

    if (count == 0)
        return;
    pal_str after = pal_text_trim(pal_text_after(line, indent + count));
    if (open->line.len > 0) {
        if (sign == open->sign && count >= open->count && after.len == 0)
            open->line.len = 0;
        return;
    }
    if (sign == '`' && after.len > 0 && memchr(after.data, '`', after.len))
        return; /* code in a line */
    if (count > FENCE_LEN_MAX / 2)
        return;
    open->line = pal_text_trim(pal_str_make(line.data, pal_utf8_cut(line, FENCE_LEN_MAX)));
    open->sign = sign;
    open->count = count;
}

static fence fence_after(fence open, pal_str text)
{
    while (text.len > 0) {
        const char *end = memchr(text.data, '\n', text.len);
        size_t len = end ? (size_t)(end - text.data) : text.len;
        fence_see(&open, pal_str_make(text.data, len));
        text = pal_text_after(text, len + 1);
    }
    return open;
}

/* ---- Cuts ---- */

/* Returns the length of the longest beginning that fits. */
static size_t fitting_len(pal_str text, size_t bytes_max, size_t units_max)
{
    size_t len = pal_utf8_cut(text, bytes_max < text.len ? bytes_max : text.len), units = 0;

    if (units_max == 0)
        return len;
    for (size_t i = 0; i < len;) {
        size_t step = i + 1;
        while (step < len && ((unsigned char)text.data[step] & 0xc0) == 0x80)
            step++;
        units += (unsigned char)text.data[i] >= 0xf0 ? 2 : 1;
        if (units > units_max)
            return i;
        i = step;
    }
    return len;
}

/* Returns the last cut of a kind in text[from, len); 0 if there is none. */
static size_t last_cut(pal_str text, size_t from, size_t len, int kind)
{
    for (size_t at = len; at > from; at--) {
        char c = text.data[at - 1];
        bool found = kind == 0 ? c == '\n' && at >= 2 && text.data[at - 2] == '\n'
                : kind == 1    ? c == '\n'
                : kind == 2    ? c == ' ' && at >= 2 && memchr(".!?;", text.data[at - 2], 4)
                               : c == ' ';
        if (found)
            return at;
    }
    return 0;
}

static size_t cut_len(pal_str text, size_t len)
{
    /* An earlier cut is better if it is a better one, but no piece should be tiny. */
    for (int kind = 0; kind < 4; kind++) {
        size_t at = last_cut(text, kind < 2 ? len / 4 : len / 2, len, kind);
        if (at > 0)
            return at;
    }
    return len;
}

/* ---- Pieces ---- */

typedef struct splitter {
    pal_arena *arena;
    pal_str *pieces;
    size_t len, cap;
    size_t bytes_max, units_max;
    pal_buf buf;
} splitter;

static void put_piece(splitter *s, fence before, pal_str text, fence after)
{
    pal_buf_clear(&s->buf);
    if (before.line.len > 0) {
        pal_buf_append_str(&s->buf, before.line);
        pal_buf_append_char(&s->buf, '\n');
    }
    while (text.len > 0 && pal_text_is_space(text.data[text.len - 1]))
        text.len--;
    pal_buf_append_str(&s->buf, text);
    if (after.line.len > 0) {
        pal_buf_append_char(&s->buf, '\n');
        for (size_t i = 0; i < after.count; i++)
            pal_buf_append_char(&s->buf, after.sign);
    }
    if (s->buf.failure || pal_text_is_blank(pal_buf_str(&s->buf)))
        return;
    if (pal_arena_reserve(s->arena, &s->pieces, &s->cap, s->len + 1, sizeof *s->pieces))
        s->pieces[s->len++] = pal_arena_copy(s->arena, pal_buf_str(&s->buf));
}

/* Puts one piece. Returns how much of the text it contains. */
static size_t split_once(splitter *s, fence *open, pal_str text)
{
    size_t extra = (open->line.len > 0 ? open->line.len + 1 : 0) + CLOSING_MAX;
    size_t extra_units = open->line.len > 0 ? pal_channel_units(open->line) + 1 : 0;
    size_t units_max = s->units_max ? s->units_max - extra_units : 0;

    if (fitting_len(text, s->bytes_max - (extra - CLOSING_MAX), units_max) == text.len) {
        put_piece(s, *open, text, (fence){0});
        return text.len;
    }
    size_t fits = fitting_len(text, s->bytes_max - extra,
            s->units_max ? s->units_max - extra_units - CLOSING_MAX : 0);
    size_t len = fits == text.len ? fits : cut_len(text, fits);
    pal_str piece = pal_str_make(text.data, len);
    fence after = fence_after(*open, piece);
    put_piece(s, *open, piece, after);
    *open = after;
    return len;
}

pal_status pal_channel_split(pal_str text, size_t bytes_max, size_t units_max, pal_arena *arena,
        pal_str **out_pieces, size_t *out_len, pal_error *err)
{
    splitter s = {.arena = arena, .bytes_max = bytes_max, .units_max = units_max};
    fence open = {0};
    pal_status status;

    assert(bytes_max >= PAL_CHANNEL_PIECE_MIN);
    assert(units_max == 0 || units_max >= PAL_CHANNEL_PIECE_MIN);
    pal_buf_init(&s.buf, bytes_max);
    while (text.len > 0 && text.data[0] == '\n')
        text = pal_text_after(text, 1);
    while (text.len > 0 && s.buf.failure == PAL_OK && pal_arena_failure(arena) == PAL_OK)
        text = pal_text_after(text, split_once(&s, &open, text));
    status = s.buf.failure ? pal_error_set(err, s.buf.failure, "a piece of the text is too long")
                           : pal_arena_checked(arena, err);
    pal_buf_done(&s.buf);
    *out_pieces = s.pieces;
    *out_len = s.len;
    return status;
}
