/* context_spill.c - cuts long outputs of tools to head and tail before they are stored. What is cut
 * out is not lost: it becomes a blob in the same commit as the message, and a handle leads to it.
 */
#include <stdio.h>

#include "base/digest.h"
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
    const char *at = text.data, *end = text.data + text.len;

    while (at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        lines++;
        at++;
    }
    return lines + (text.len > 0 && text.data[text.len - 1] != '\n');
}

/* Whole lines from the beginning; a line that is longer than all is cut between characters. */
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

/* Where the tail begins: likewise from the end, and not before `from`. */
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

static pal_status spill_part(pal_part *part, pal_arena *arena, pal_error *err)
{
    pal_str text = part->text, cut;
    size_t head = head_len(text), tail = tail_start(text, head), note_len;
    uint8_t digest[PAL_SHA256_SIZE];
    char hex[2 * PAL_SHA256_SIZE + 1], note[NOTE_SIZE];
    char *joined;

    if (pal_sha256(text, digest) != PAL_OK)
        return pal_error_set(err, PAL_NO_MEMORY, "no memory to hash an output");
    pal_hex(digest, sizeof(digest), hex);
    cut = pal_str_make(text.data + head, tail - head);
    note_len = (size_t)snprintf(note, sizeof(note),
            "%s[%zu lines, %zu bytes are left out here. The whole output has %zu lines and is "
            "kept: "
            "use read_output or search_output with the handle \"sha256:%s\".]\n",
            head && text.data[head - 1] != '\n' ? "\n" : "", count_lines(cut), cut.len,
            count_lines(text), hex);
    joined = pal_arena_alloc(arena, head + note_len + text.len - tail + 1);
    if (!joined)
        return pal_error_set(err, pal_arena_failure(arena), "out of memory");
    memcpy(joined, text.data, head);
    memcpy(joined + head, note, note_len);
    memcpy(joined + head + note_len, text.data + tail, text.len - tail);
    part->data = text;
    part->text = pal_str_make(joined, head + note_len + text.len - tail);
    return PAL_OK;
}

pal_status pal_context_spill(
        pal_message *message, pal_arena *arena, uint32_t *out_spilled, pal_error *err)
{
    pal_status status = PAL_OK;

    *out_spilled = 0;
    for (size_t i = 0; status == PAL_OK && i < message->parts_len; i++) {
        pal_part *part = &message->parts[i];

        if (part->kind != PAL_PART_TOOL_RESULT || part->data.len > 0 || part->blob.len > 0)
            continue;
        if (part->text.len <= PAL_SPILL_BYTES_MAX && count_lines(part->text) <= PAL_SPILL_LINES_MAX)
            continue;
        status = spill_part(part, arena, err);
        *out_spilled += status == PAL_OK;
    }
    return status;
}
