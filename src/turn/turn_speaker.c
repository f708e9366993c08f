/* turn_speaker.c - writes messages of a group as lines "<name> text", with several people after
 * each other. Invariant: a line that begins with '<' is always a speaker, whatever a name or a text
 * contains. Pure functions.
 *
 * Lines end at every character that any reader may see as a line end: Unicode's line breaks, and
 * the separators that some programming languages treat as such. */
#include "turn/turn_sender.h"

#include <string.h>
#include "base/text.h"
#include "base/utf8.h"

#define INDENT "  "

static bool ends_line(uint32_t c)
{
    return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
            c == 0x2029;
}

/* Returns true for invisible characters, and for marks that change the direction of the following
 * text. */
static bool is_invisible(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c || c == 0x180e ||
            (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
            (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xe0000 && c <= 0xe007f);
}

static pal_str after(pal_str text, size_t len)
{
    return pal_str_make(text.data + len, text.len - len);
}

void pal_speaker_put_name(pal_buf *buf, pal_str name)
{
    while (name.len > 0) {
        uint32_t c;
        size_t len = pal_utf8_decode(name, &c);

        if (c == '<' || c == '>' || is_invisible(c))
            pal_buf_append_text(buf, "\xef\xbf\xbd");
        else
            pal_buf_append_str(buf, pal_str_make(name.data, len));
        name = after(name, len);
    }
}

/* Returns the length of the line. Sets *out_end to its end including the line break; "\r\n" is one
 * break. */
static size_t line_len(pal_str text, size_t *out_end)
{
    size_t at = 0;

    while (at < text.len) {
        uint32_t c;
        size_t len = pal_utf8_decode(after(text, at), &c);

        if (ends_line(c)) {
            bool is_pair = c == '\r' && at + 1 < text.len && text.data[at + 1] == '\n';

            *out_end = at + len + is_pair;
            return at;
        }
        at += len;
    }
    *out_end = at;
    return at;
}

static bool is_gap(uint32_t c)
{
    return c == ' ' || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x202f ||
            c == 0x205f || c == 0x3000 || is_invisible(c);
}

static bool looks_like_speaker(pal_str line)
{
    static const char guest[] = "[guest]";
    uint32_t c;
    size_t len;

    while (line.len > 0 && (len = pal_utf8_decode(line, &c), is_gap(c)))
        line = after(line, len);
    if (line.len == 0)
        return false;
    if (line.data[0] == '<')
        return memchr(line.data, '>', line.len) || (line.len > 1 && line.data[1] == '@');
    return pal_text_begins(line, guest);
}

void pal_speaker_put_text(pal_buf *buf, pal_str text, bool comes_after_name)
{
    bool is_indented = !comes_after_name;

    while (text.len > 0) {
        size_t end, len = line_len(text, &end);
        pal_str line = pal_str_make(text.data, len);

        if (is_indented)
            pal_buf_append_text(buf, INDENT);
        if (looks_like_speaker(line))
            pal_buf_append_char(buf, '\\');
        pal_buf_append_str(buf, pal_str_make(text.data, end));
        is_indented = true;
        text = after(text, end);
    }
}
