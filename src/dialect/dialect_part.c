/* dialect_part.c - ids of runs of a message's parts, and placeholders for parts. */
#include "dialect/dialect_part.h"

#include <stdio.h>
#include <string.h>
#include "base/digest.h"

#define HEX_LEN 32

size_t pal_part_number(const pal_message *message, size_t part)
{
    return message->parts[part].number ? message->parts[part].number - 1 : part;
}

bool pal_part_follows(const pal_message *message, size_t part)
{
    return pal_part_number(message, part) == pal_part_number(message, part - 1) + 1;
}

bool pal_part_is_in(const pal_message *message, pal_part_kind kind)
{
    for (size_t i = 0; message->parts && i < message->parts_len; i++) {
        if (message->parts[i].kind == kind)
            return true;
    }
    return false;
}

void pal_part_id_text(
        const char *prefix, pal_id message, size_t number, char *out_id, size_t out_size)
{
    char hex[HEX_LEN + 1];
    pal_hex(message.bytes, sizeof message.bytes, hex);
    if (number)
        snprintf(out_id, out_size, "%s%.32s_%zu", prefix, hex, number);
    else
        snprintf(out_id, out_size, "%s%.32s", prefix, hex);
}

bool pal_part_id_parse(
        pal_str id, const char *const *prefixes, size_t prefixes_len, pal_id *out_message)
{
    pal_id found;
    for (size_t i = 0; i < prefixes_len; i++) {
        size_t len = strlen(prefixes[i]);
        if (id.len < len + HEX_LEN || memcmp(id.data, prefixes[i], len) != 0 ||
                (id.len > len + HEX_LEN && id.data[len + HEX_LEN] != '_') ||
                !pal_unhex(pal_str_make(id.data + len, HEX_LEN), found.bytes, sizeof found.bytes))
            continue;
        *out_message = found;
        return true;
    }
    return false;
}

void pal_part_placeholder(pal_buf *out, const pal_part *part)
{
    const pal_str words[] = {pal_str_of(pal_part_kind_name(part->kind)), part->media_type,
            part->name, part->url.len ? part->url : part->blob};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (words[i].len)
            pal_buf_append_char(out, i ? ' ' : '[');
        pal_buf_append_str(out, words[i]);
    }
    pal_buf_append_char(out, ']');
}
