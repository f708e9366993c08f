/* dialect_text.c - the text of a message, without its other parts. */
#include "dialect/dialect_text.h"

#include "base/buf.h"
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
