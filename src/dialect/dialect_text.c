/* dialect_text.c - the text of a message without its other parts, and the data in the text of a
 * stream. */
#include "dialect/dialect_text.h"

#include "base/buf.h"
#include "base/text.h"
#include "palaver/limits.h"

pal_str pal_dialect_text(const pal_message *message, pal_arena *arena)
{
    pal_str text = {0};
    pal_buf buf;
    pal_buf_init(&buf, PAL_MESSAGE_BYTES_MAX);
    for (size_t i = 0; i < message->parts_len; i++) {
        const pal_part *part = &message->parts[i];
        if (part->kind == PAL_PART_TEXT || part->kind == PAL_PART_TOOL_RESULT)
            pal_buf_append_str(&buf, part->text);
        for (size_t k = 0; part->kind == PAL_PART_TOOL_RESULT && k < part->parts_len; k++)
            pal_buf_append_str(&buf, part->parts[k].text);
    }
    if (buf.failure == PAL_OK && buf.len)
        text = pal_arena_copy(arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return text;
}

bool pal_dialect_data_next(pal_str *stream, pal_str *out_data)
{
    static const char name[] = "data:";
    while (stream->len) {
        const char *end = memchr(stream->data, '\n', stream->len);
        size_t len = end ? (size_t)(end - stream->data) : stream->len;
        pal_str line = pal_str_make(stream->data, len);
        *stream = pal_text_after(*stream, end ? len + 1 : len);
        if (!pal_text_begins(line, name))
            continue;
        *out_data = pal_text_trim(pal_text_after(line, sizeof name - 1));
        if (out_data->len)
            return true;
    }
    return false;
}
