/* json_write.c - writes JSON into a buf, with commas where they belong and escapes only where they
 * are needed. A writer is used by one thread at a time, like its buf. */
#include "base/json/json.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include "base/json/json_node.h"
#include "base/json/json_scan.h"
#include "base/text.h"
#include "base/utf8.h"

pal_json_writer pal_json_writer_make(pal_buf *buf)
{
    return (pal_json_writer){.buf = buf};
}

/* Appends the text in quotes and reserves `more` bytes after it. Returns the place of these bytes,
 * or NULL on failure. */
static inline char *append_plain(pal_buf *buf, pal_str text, size_t more)
{
    char *p = pal_buf_reserve(buf, text.len + 2 + more);
    if (!p)
        return NULL;
    *p++ = '"';
    if (text.len)
        memcpy(p, text.data, text.len);
    p += text.len;
    *p++ = '"';
    buf->len += text.len + 2 + more;
    return p;
}

/* Called before every value and before every name. */
static void separate(pal_json_writer *writer)
{
    if (writer->need_comma)
        pal_buf_append_char(writer->buf, ',');
    writer->need_comma = true;
    writer->after_name = false;
}

static void begin(pal_json_writer *writer, char bracket)
{
    separate(writer);
    pal_buf_append_char(writer->buf, bracket);
    writer->depth++;
    writer->need_comma = false;
}

static void end(pal_json_writer *writer, char bracket)
{
    assert(writer->depth > 0 && !writer->after_name);
    pal_buf_append_char(writer->buf, bracket);
    writer->depth--;
    writer->need_comma = true;
}

void pal_json_begin_object(pal_json_writer *writer)
{
    begin(writer, '{');
}

void pal_json_end_object(pal_json_writer *writer)
{
    end(writer, '}');
}

void pal_json_begin_array(pal_json_writer *writer)
{
    begin(writer, '[');
}

void pal_json_end_array(pal_json_writer *writer)
{
    end(writer, ']');
}

void pal_json_name_str(pal_json_writer *writer, pal_str name)
{
    assert(writer->depth > 0 && !writer->after_name);
    separate(writer);
    pal_json_quote(writer->buf, name);
    pal_buf_append_char(writer->buf, ':');
    writer->need_comma = false;
    writer->after_name = true;
}

void pal_json_name(pal_json_writer *writer, const char *name)
{
    pal_str text = pal_str_of(name);
    assert(writer->depth > 0 && !writer->after_name);
    separate(writer);
    char *p = append_plain(writer->buf, text, 1);
    if (p)
        *p = ':';
    writer->need_comma = false;
    writer->after_name = true;
}

void pal_json_put_str(pal_json_writer *writer, pal_str text)
{
    separate(writer);
    pal_json_quote(writer->buf, text);
}

void pal_json_put_plain(pal_json_writer *writer, pal_str text)
{
    separate(writer);
    append_plain(writer->buf, text, 0);
}

void pal_json_put_text(pal_json_writer *writer, const char *text)
{
    pal_json_put_str(writer, pal_str_of(text));
}

void pal_json_put_i64(pal_json_writer *writer, int64_t number)
{
    separate(writer);
    pal_buf_append_i64(writer->buf, number);
}

void pal_json_put_u64(pal_json_writer *writer, uint64_t number)
{
    separate(writer);
    pal_buf_append_u64(writer->buf, number);
}

/* JSON cannot express NaN or infinity. */
void pal_json_put_f64(pal_json_writer *writer, double number)
{
    if (!isfinite(number)) {
        pal_json_put_null(writer);
        return;
    }
    char text[PAL_JSON_F64_SIZE];
    separate(writer);
    pal_buf_append(writer->buf, text, pal_json_f64_text(number, text));
}

void pal_json_put_bool(pal_json_writer *writer, bool value)
{
    pal_json_put_raw(writer, pal_str_of(value ? "true" : "false"));
}

void pal_json_put_null(pal_json_writer *writer)
{
    pal_json_put_raw(writer, pal_str_of("null"));
}

void pal_json_put_raw(pal_json_writer *writer, pal_str json)
{
    separate(writer);
    pal_buf_append_str(writer->buf, json);
}

/* Returns the length of the part that can be copied unchanged: up to the first white space outside
 * of strings. */
static size_t solid_len(pal_str json)
{
    bool is_string = false;
    size_t at = 0;
    for (; at < json.len && (is_string || !pal_text_is_space(json.data[at])); at++) {
        if (json.data[at] == '"')
            is_string = !is_string;
        else if (is_string && json.data[at] == '\\')
            at++;
    }
    return at < json.len ? at : json.len;
}

void pal_json_put_compact(pal_json_writer *writer, pal_str json)
{
    separate(writer);
    while (json.len) {
        size_t len = solid_len(json);
        pal_buf_append(writer->buf, json.data, len);
        while (len < json.len && pal_text_is_space(json.data[len]))
            len++;
        json = pal_str_make(json.data + len, json.len - len);
    }
}

void pal_json_put_members(pal_json_writer *writer, pal_str json)
{
    assert(writer->depth > 0 && !writer->after_name);
    pal_str object = pal_text_trim(json);
    if (object.len == 0)
        return;
    assert(object.len >= 2 && object.data[0] == '{' && object.data[object.len - 1] == '}');
    pal_str members = pal_text_trim(pal_str_make(object.data + 1, object.len - 2));
    if (members.len)
        pal_json_put_raw(writer, members);
}

/* ---- Strings ---- */

#define DENSE_BYTES 512 /* bytes that are collected before they are appended */

/* Writes an escape of two or six bytes. Returns the position after it. */
static inline char *put_escape(char *to, unsigned char c)
{
    static const char letters[256] = {
            ['\b'] = 'b',
            ['\t'] = 't',
            ['\n'] = 'n',
            ['\f'] = 'f',
            ['\r'] = 'r',
            ['"'] = '"',
            ['\\'] = '\\',
    };
    static const char digits[] = "0123456789abcdef";
    *to++ = '\\';
    if (letters[c]) {
        *to++ = letters[c];
        return to;
    }
    memcpy(to, "u00", 3);
    to[3] = digits[c >> 4];
    to[4] = digits[c & 15];
    return to + 5;
}

/* Writes the characters at *p that are not ASCII, at least one and at most `room` bytes. Invalid
 * bytes become U+FFFD. Advances *p and returns the position after the written bytes. */
static inline char *put_wide(char *to, size_t room, const char **p, const char *end)
{
    const unsigned char *start = (const unsigned char *)*p, *stop = (const unsigned char *)end;
    size_t valid = 0, len;
    while (valid + 4 <= room && start + valid < stop && start[valid] >= 0x80 &&
            (len = pal_utf8_char_len(start + valid, stop)) > 0)
        valid += len;
    if (valid == 0) {
        uint32_t replacement;
        *p += pal_utf8_decode(pal_str_make(*p, (size_t)(end - *p)), &replacement);
        return to + pal_utf8_encode(replacement, to);
    }
    memcpy(to, *p, valid);
    *p += valid;
    return to + valid;
}

/* Writes characters that need attention, and the few plain ones between them. Returns the position
 * after them. A text can need an escape for every byte, so the bytes are not appended singly. */
static const char *append_dense(pal_buf *buf, const char *p, const char *end)
{
    char bytes[DENSE_BYTES + 6], *to = bytes;
    unsigned plain = 0;
    while (p < end && to - bytes < DENSE_BYTES && plain < JSON_PLAIN_NEAR) {
        plain = json_is_plain(*p) ? plain + 1 : 0;
        if (plain)
            *to++ = *p++;
        else if ((unsigned char)*p >= 0x80)
            to = put_wide(to, (size_t)(bytes + sizeof bytes - to), &p, end);
        else
            to = put_escape(to, (unsigned char)*p++);
    }
    pal_buf_append(buf, bytes, (size_t)(to - bytes));
    return p;
}

void pal_json_quote(pal_buf *buf, pal_str text)
{
    const char *p = text.len ? text.data : "", *stop = p + text.len;
    const char *special = json_scan(p, stop);
    if (special == stop) {
        append_plain(buf, text, 0);
        return;
    }
    pal_buf_append_char(buf, '"');
    for (; p < stop && !buf->failure; special = json_scan(p, stop)) {
        pal_buf_append(buf, p, (size_t)(special - p));
        p = append_dense(buf, special, stop);
    }
    pal_buf_append_char(buf, '"');
}

/* The number of bytes that JSON adds to each byte: 1 for an escape of two characters, 5 for
 * \u00XX. */
static const uint8_t added[256] = {5, 5, 5, 5, 5, 5, 5, 5, 1, 1, 1, 5, 1, 1, 5, 5, 5, 5, 5, 5, 5, 5,
        5, 5, 5, 5, 5, 5, 5, 5, 5, 5, ['"'] = 1, ['\\'] = 1};

uint64_t pal_json_text_len(pal_str text)
{
    const char *p = text.len ? text.data : "", *end = p + text.len;
    uint64_t len = text.len, word;
    while ((size_t)(end - p) >= sizeof word) {
        memcpy(&word, p, sizeof word);
        if (json_needs_escape(word))
            for (size_t i = 0; i < sizeof word; i++)
                len += added[(unsigned char)p[i]];
        p += sizeof word;
    }
    while (p < end)
        len += added[(unsigned char)*p++];
    return len;
}
