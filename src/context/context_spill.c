/* context_spill.c - cuts long tool outputs to their beginning and end before they are stored. The
 * complete output is not lost: it becomes a blob in the same commit as the message, and a handle
 * leads to it.
 *
 * An output can be several texts with images between them. They count as one, and are cut as one.
 * Changes only the parts that are passed to it: any thread. */
#include <stdio.h>

#include "base/digest.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "palaver/context.h"
#include "palaver/limits.h"

enum {
    HEAD_LINES = PAL_SPILL_LINES_MAX / 2,
    HEAD_BYTES = PAL_SPILL_BYTES_MAX / 2,
    NOTE_SIZE = 320
};

static size_t count_lines(pal_str text)
{
    size_t lines = 0;
    const char *at = text.data, *end = text.len ? text.data + text.len : at;

    while (at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        lines++;
        at++;
    }
    return lines + (text.len > 0 && text.data[text.len - 1] != '\n');
}

/* Returns the length of the complete lines that fit at the beginning. If the first line is too
 * long, it is cut between characters. */
static size_t head_len(pal_str text)
{
    size_t len = 0;

    for (size_t lines = 0; lines < HEAD_LINES && len < text.len; lines++) {
        const char *end = memchr(text.data + len, '\n', text.len - len);
        size_t next = end ? (size_t)(end - text.data) + 1 : text.len;

        if (next > HEAD_BYTES)
            return len ? len : pal_utf8_cut(text, HEAD_BYTES);
        len = next;
    }
    return len;
}

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* Returns where the tail begins: the complete lines that fit at the end, not before `from`. */
static size_t tail_start(pal_str text, size_t from)
{
    size_t start = text.len, lines = 0;

    while (start > from && lines < HEAD_LINES) {
        size_t next = start - 1;

        while (next > from && text.data[next - 1] != '\n')
            next--;
        if (text.len - next > HEAD_BYTES)
            break;
        start = next;
        lines++;
    }
    if (start < text.len)
        return start;
    start = text.len - HEAD_BYTES > from ? text.len - HEAD_BYTES : from;
    while (start < text.len && is_continuation(text.data[start]))
        start++;
    return start;
}

/* ---- An output and its texts ---- */

/* The text of the result itself, or of a part within it. */
typedef struct piece {
    pal_part *part;
    size_t start;  /* its offset in the complete output */
    pal_str shown; /* the part of it that stays */
} piece;

typedef struct output {
    piece *pieces;
    size_t len;
    pal_str whole; /* all texts together; each begins a line */
} output;

static void add_piece(output *out, pal_part *part)
{
    if (part->text.len > 0)
        out->pieces[out->len++] = (piece){.part = part};
}

static bool ends_line(pal_str text)
{
    return text.data[text.len - 1] == '\n';
}

/* Sets where each piece begins. Returns the length of all pieces together. */
static size_t lay_out(output *out)
{
    size_t len = 0;

    for (size_t i = 0; i < out->len; i++) {
        out->pieces[i].start = len;
        len += out->pieces[i].part->text.len;
        len += i + 1 < out->len && !ends_line(out->pieces[i].part->text);
    }
    return len;
}

/* Returns false if the arena has failed. */
static bool read_output(pal_part *result, pal_arena *arena, output *out)
{
    char *whole;
    size_t len;

    *out = (output){.pieces = pal_arena_array(arena, result->parts_len + 1, sizeof(*out->pieces))};
    if (!out->pieces)
        return false;
    add_piece(out, result);
    for (size_t i = 0; i < result->parts_len; i++)
        if (result->parts[i].kind == PAL_PART_TEXT)
            add_piece(out, &result->parts[i]);
    if (out->len == 1)
        out->whole = out->pieces[0].part->text;
    if (out->len <= 1)
        return true;
    len = lay_out(out);
    whole = pal_arena_alloc(arena, len);
    if (!whole)
        return false;
    memset(whole, '\n', len);
    for (size_t i = 0; i < out->len; i++)
        memcpy(whole + out->pieces[i].start, out->pieces[i].part->text.data,
                out->pieces[i].part->text.len);
    out->whole = pal_str_make(whole, len);
    return true;
}

static size_t within(size_t at, const piece *p)
{
    size_t len = p->part->text.len;

    return at <= p->start ? 0 : at - p->start < len ? at - p->start : len;
}

/* Builds what stays of a piece, with the note at the cut. Returns false if the arena has failed. */
static bool show_piece(piece *p, size_t head, size_t tail, pal_str note, pal_arena *arena)
{
    pal_str text = p->part->text;
    size_t front = within(head, p), back = within(tail, p), at = front;
    char *shown;

    p->shown = text;
    if (front == back && note.len == 0)
        return true;
    shown = pal_arena_alloc(arena, front + 1 + note.len + text.len - back);
    if (!shown)
        return false;
    memcpy(shown, text.data, front);
    if (note.len > 0 && front > 0 && text.data[front - 1] != '\n')
        shown[at++] = '\n';
    memcpy(shown + at, note.data, note.len);
    memcpy(shown + at + note.len, text.data + back, text.len - back);
    p->shown = pal_str_make(shown, at + note.len + text.len - back);
    return true;
}

static pal_status write_note(
        pal_str whole, pal_str cut, char note[NOTE_SIZE], size_t *out_len, pal_error *err)
{
    uint8_t digest[PAL_SHA256_SIZE];
    char hex[2 * PAL_SHA256_SIZE + 1];

    if (pal_sha256(whole, digest) != PAL_OK)
        return pal_no_memory(err);
    pal_hex(digest, sizeof(digest), hex);
    *out_len = (size_t)snprintf(note, NOTE_SIZE,
            "[%zu lines, %zu bytes are left out here. The whole output has %zu lines and is kept: "
            "use read_output or search_output with the handle \"sha256:%s\".]\n",
            count_lines(cut), cut.len, count_lines(whole), hex);
    return PAL_OK;
}

/* Removes parts of which nothing stays; media keep their places among the others. */
static void take_over(pal_part *result, const output *out)
{
    size_t len = 0;

    for (size_t i = 0; i < out->len; i++)
        out->pieces[i].part->text = out->pieces[i].shown;
    for (size_t i = 0; i < result->parts_len; i++) {
        const pal_part *part = &result->parts[i];

        if (part->kind != PAL_PART_TEXT || part->text.len > 0)
            result->parts[len++] = *part;
    }
    result->parts_len = len;
    result->data = out->whole;
}

static pal_status spill_result(pal_part *result, output *out, pal_arena *arena, pal_error *err)
{
    pal_str whole = out->whole;
    size_t head = head_len(whole), tail = tail_start(whole, head), note_len = 0;
    bool is_noted = false, done = true;
    char note[NOTE_SIZE];
    pal_status status =
            write_note(whole, pal_str_make(whole.data + head, tail - head), note, &note_len, err);

    if (status != PAL_OK)
        return status;
    for (size_t i = 0; done && i < out->len; i++) {
        piece *p = &out->pieces[i];
        bool is_here = !is_noted && head <= p->start + p->part->text.len;

        done = show_piece(p, head, tail, pal_str_make(note, is_here ? note_len : 0), arena);
        is_noted |= is_here;
    }
    if (!done)
        return pal_error_set(err, pal_arena_failure(arena), "out of memory");
    take_over(result, out);
    return PAL_OK;
}

pal_status pal_context_spill(
        pal_message *message, pal_arena *arena, uint32_t *out_spilled, pal_error *err)
{
    pal_status status = PAL_OK;

    *out_spilled = 0;
    for (size_t i = 0; status == PAL_OK && i < message->parts_len; i++) {
        pal_part *part = &message->parts[i];
        output out;

        if (part->kind != PAL_PART_TOOL_RESULT || part->data.len > 0 || part->blob.len > 0)
            continue;
        if (!read_output(part, arena, &out))
            return pal_error_set(err, pal_arena_failure(arena), "out of memory");
        if (out.whole.len <= PAL_SPILL_BYTES_MAX && count_lines(out.whole) <= PAL_SPILL_LINES_MAX)
            continue;
        status = spill_result(part, &out, arena, err);
        *out_spilled += status == PAL_OK;
    }
    return status;
}
