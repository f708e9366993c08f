/* dialect_read.h - reads messages from a text, by the reader of a dialect. */
#ifndef DIALECT_READ_H
#define DIALECT_READ_H

#include "dialect/dialect_member.h"
#include "palaver/message.h"

/* Deeper values could not be written in the native format, which adds a few levels around them. */
#define DIALECT_DEPTH_MAX 128

typedef pal_status (*dialect_reader)(pal_json value, pal_arena *arena, pal_message **out_messages,
        size_t *out_len, pal_error *err);

static inline pal_status dialect_read(dialect_reader read, pal_str json, pal_arena *arena,
        pal_message **out_messages, size_t *out_len, pal_error *err)
{
    const pal_json_limits limits = {.depth_max = DIALECT_DEPTH_MAX};
    pal_json value;
    pal_status status = pal_member_parse(json, &limits, arena, &value, err);
    return status == PAL_OK ? read(value, arena, out_messages, out_len, err) : status;
}

#endif
