/* dialect_base64.h - bytes in JSON: base64 with padding (RFC 4648), and data: URLs. */
#ifndef PAL_DIALECT_BASE64_H
#define PAL_DIALECT_BASE64_H

#include <stdbool.h>
#include "base/buf.h"
#include "base/json/json.h"
#include "palaver/arena.h"
#include "palaver/str.h"

void pal_base64_encode(pal_buf *buf, pal_str data);

/* Appends base64 without padding, with '-' and '_': it can be a part of a URL (RFC 4648, 5). */
void pal_base64_encode_for_url(pal_buf *buf, pal_str data);

/* Writes a JSON string: `prefix`, followed by `data` in base64. */
void pal_base64_put(pal_json_writer *writer, pal_str prefix, pal_str data);

/* Accepts only the form that pal_base64_encode() writes, so that decoding loses nothing: no white
 * space, complete padding, no stray bits. Returns false for anything else, and if the arena
 * fails. */
bool pal_base64_decode(pal_str text, pal_arena *arena, pal_str *out_data);

/* Splits a URL "data:image/png;base64,..." and decodes it. If it returns false, the outputs are
 * unchanged, and the caller should keep the URL. */
bool pal_base64_decode_url(
        pal_str url, pal_arena *arena, pal_str *out_media_type, pal_str *out_data);

#endif
