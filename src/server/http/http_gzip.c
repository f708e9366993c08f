/* http_gzip.c - compresses response bodies with zlib. At the fastest level, the JSON of a plan
 * becomes a seventh as long. */
#include "server/http/http.h"

#include <limits.h>
#include <string.h>
#include <zlib.h>
#include "base/text.h"

#define GZIP_WINDOW_BITS (15 + 16) /* the largest window; 16 selects the format of gzip */
#define MEMORY_LEVEL 8             /* zlib's default */

/* ---- The header ---- */

/* Returns the next word of a list, without blanks, and moves *list after it. */
static pal_str next_word(pal_str *list, char separator)
{
    const char *end = memchr(list->data, separator, list->len);
    size_t len = end ? (size_t)(end - list->data) : list->len;
    pal_str word = pal_text_trim(pal_str_make(list->data, len));
    *list = pal_text_after(*list, end ? len + 1 : len);
    return word;
}

/* "q=0", "q=0.0" and "q=0.000" refuse. */
static bool refuses(pal_str parameter)
{
    if (!pal_text_begins_nocase(parameter, "q="))
        return false;
    for (size_t i = 2; i < parameter.len; i++)
        if (parameter.data[i] != '0' && parameter.data[i] != '.')
            return false;
    return true;
}

bool pal_gzip_is_accepted(pal_str accept_encoding)
{
    bool is_any = false;
    while (accept_encoding.len) {
        pal_str item = next_word(&accept_encoding, ',');
        pal_str name = item.len ? next_word(&item, ';') : item;
        bool is_refused = false;
        while (item.len)
            is_refused |= refuses(next_word(&item, ';'));
        if (pal_text_is_nocase(name, "gzip") || pal_text_is_nocase(name, "x-gzip"))
            return !is_refused;
        is_any |= pal_str_is(name, "*") && !is_refused;
    }
    return is_any;
}

/* ---- The body ---- */

bool pal_gzip_compress(pal_str text, pal_buf *out)
{
    z_stream stream = {0};
    if (text.len > UINT_MAX || deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW_BITS,
                                       MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    stream.next_in = (Bytef *)text.data;
    stream.avail_in = (uInt)text.len;
    stream.next_out = (Bytef *)pal_buf_reserve(out, text.len);
    stream.avail_out = stream.next_out ? (uInt)text.len : 0; /* a longer result is not used */
    bool done = stream.next_out && deflate(&stream, Z_FINISH) == Z_STREAM_END;
    if (done)
        pal_buf_commit(out, stream.total_out);
    deflateEnd(&stream);
    return done;
}
