/* dialect_base64.c - base64 and data: URLs. */
#include <stdint.h>
#include "base/text.h"
#include "dialect/dialect_base64.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void encode_group(const uint8_t *bytes, size_t len, char *out)
{
    uint32_t group = (uint32_t)bytes[0] << 16;
    if (len > 1)
        group |= (uint32_t)bytes[1] << 8;
    if (len > 2)
        group |= bytes[2];
    out[0] = digits[group >> 18];
    out[1] = digits[group >> 12 & 63];
    out[2] = len > 1 ? digits[group >> 6 & 63] : '=';
    out[3] = len > 2 ? digits[group & 63] : '=';
}

void pal_base64_encode(pal_buf *buf, pal_str data)
{
    size_t len = data.len / 3 * 4 + (data.len % 3 ? 4 : 0);
    char *out = len ? pal_buf_reserve(buf, len) : NULL;
    if (!out)
        return;
    for (size_t i = 0; i < data.len; i += 3, out += 4) {
        size_t left = data.len - i;
        encode_group((const uint8_t *)data.data + i, left < 3 ? left : 3, out);
    }
    pal_buf_commit(buf, len);
}

void pal_base64_encode_for_url(pal_buf *buf, pal_str data)
{
    size_t from = buf->len;
    pal_base64_encode(buf, data);
    if (buf->failure)
        return;
    while (buf->len > from && buf->data[buf->len - 1] == '=')
        buf->len--;
    for (size_t i = from; i < buf->len; i++) {
        if (buf->data[i] == '+')
            buf->data[i] = '-';
        else if (buf->data[i] == '/')
            buf->data[i] = '_';
    }
}

void pal_base64_put(pal_json_writer *writer, pal_str prefix, pal_str data)
{
    /* The closing quote of the prefix is removed, and the string continues. Base64 needs no
     * escapes. */
    pal_json_put_str(writer, prefix);
    if (!writer->buf->failure)
        writer->buf->len--;
    pal_base64_encode(writer->buf, data);
    pal_buf_append_char(writer->buf, '"');
}

/* Decodes 2 to 4 digits. Returns false if a digit is invalid or if unused bits are set. */
static bool decode_group(const char *text, size_t digits_len, uint8_t *out)
{
    uint32_t group = 0;
    for (size_t i = 0; i < digits_len; i++) {
        int value = pal_text_base64(text[i]);
        if (value < 0)
            return false;
        group |= (uint32_t)value << (18 - 6 * i);
    }
    out[0] = (uint8_t)(group >> 16);
    if (digits_len > 2)
        out[1] = (uint8_t)(group >> 8);
    if (digits_len > 3)
        out[2] = (uint8_t)group;
    return (group & (digits_len == 4 ? 0 : digits_len == 3 ? 0xff : 0xffff)) == 0;
}

bool pal_base64_decode(pal_str text, pal_arena *arena, pal_str *out_data)
{
    if (text.len % 4 != 0)
        return false;
    if (text.len == 0) {
        *out_data = pal_str_make("", 0);
        return true;
    }
    size_t padding = text.data[text.len - 1] != '=' ? 0 : text.data[text.len - 2] != '=' ? 1 : 2;
    size_t len = text.len / 4 * 3 - padding;
    uint8_t *data = pal_arena_alloc(arena, len + 1);
    if (!data)
        return false;
    for (size_t i = 0, to = 0; i < text.len; i += 4, to += 3) {
        bool last = i + 4 == text.len;
        if (!decode_group(text.data + i, last ? 4 - padding : 4, data + to))
            return false;
    }
    *out_data = pal_str_make((const char *)data, len);
    return true;
}

bool pal_base64_decode_url(
        pal_str url, pal_arena *arena, pal_str *out_media_type, pal_str *out_data)
{
    static const char start[] = "data:", coding[] = ";base64";
    const size_t start_len = sizeof(start) - 1, coding_len = sizeof(coding) - 1;
    if (url.len < start_len || memcmp(url.data, start, start_len) != 0)
        return false;
    const char *comma = memchr(url.data, ',', url.len);
    size_t head_len = comma ? (size_t)(comma - url.data) : 0;
    if (head_len < start_len + coding_len || memcmp(comma - coding_len, coding, coding_len) != 0)
        return false;
    pal_str text = pal_str_make(comma + 1, url.len - head_len - 1);
    if (!pal_base64_decode(text, arena, out_data))
        return false;
    *out_media_type = pal_str_make(url.data + start_len, head_len - start_len - coding_len);
    return true;
}
