/* search_text.c - the text of a stored message that a search looks at.
 *
 * Arguments of tool calls are JSON as the model wrote it. The strings in it are decoded, so that
 * escaped characters are found in their plain form. Arguments that are not JSON are used
 * unchanged. */
#include "store/search/search_text.h"

#include "base/json/json.h"
#include "store/view/view.h"

static void put_line(pal_buf *out, pal_str text)
{
    if (text.len == 0)
        return;
    pal_buf_append_str(out, text);
    pal_buf_append_char(out, '\n');
}

/* The parser limits the nesting. */
static void put_json(pal_buf *out, pal_json value, pal_arena *arena)
{
    pal_json_iter members = pal_json_each(value);
    pal_json name, member;

    switch (pal_json_type_of(value)) {
    case PAL_JSON_STRING:
        put_line(out, pal_json_string(value, arena));
        break;
    case PAL_JSON_NUMBER:
    case PAL_JSON_TRUE:
    case PAL_JSON_FALSE:
        put_line(out, pal_json_raw(value));
        break;
    case PAL_JSON_OBJECT:
        while (pal_json_next(&members, &name, &member)) {
            put_line(out, pal_json_string(name, arena));
            put_json(out, member, arena);
        }
        break;
    case PAL_JSON_ARRAY:
        while (pal_json_next(&members, NULL, &member))
            put_json(out, member, arena);
        break;
    case PAL_JSON_NONE:
    case PAL_JSON_NULL:
        break;
    }
}

static void put_arguments(pal_buf *out, pal_str arguments, pal_arena *arena)
{
    pal_json value;

    if (pal_json_parse(arena, arguments, NULL, &value, NULL) == PAL_OK)
        put_json(out, value, arena);
    else
        put_line(out, arguments);
}

static void put_parts(pal_buf *out, const pal_part *parts, size_t len, pal_arena *arena)
{
    for (size_t i = 0; i < len; i++) {
        const pal_part *part = &parts[i];

        switch (part->kind) {
        case PAL_PART_TEXT:
        case PAL_PART_COMPACTION:
            put_line(out, part->text);
            break;
        case PAL_PART_TOOL_CALL:
            put_line(out, part->name);
            put_arguments(out, part->arguments, arena);
            break;
        case PAL_PART_TOOL_RESULT:
            put_line(out, part->text);
            put_parts(out, part->parts, part->parts_len, arena);
            break;
        case PAL_PART_IMAGE:
        case PAL_PART_FILE:
            put_line(out, part->name);
            break;
        case PAL_PART_NONE:
        case PAL_PART_REASONING:
            break;
        }
    }
}

pal_status pal_row_text(const pal_row *row, pal_arena *arena, pal_buf *out, pal_error *err)
{
    pal_status failure;

    if (row->is_text) {
        pal_buf_append_str(out, row->body);
    } else {
        pal_message message;
        pal_status status = pal_view_decode(row, arena, &message, err);

        if (status != PAL_OK)
            return status;
        put_parts(out, message.parts, message.parts_len, arena);
    }
    failure = pal_arena_failure(arena) ? pal_arena_failure(arena) : out->failure;
    if (failure)
        return pal_error_set(err, failure, "out of memory, or the text of a message is too long");
    return PAL_OK;
}
