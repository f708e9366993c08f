/* dialect_base64.h - bytes in JSON: RFC 4648 base64 with padding, and the data: URLs made of it. */
#ifndef PAL_DIALECT_BASE64_H
#define PAL_DIALECT_BASE64_H

#include <stdbool.h>
#include "base/buf.h"
#include "palaver/arena.h"
#include "palaver/str.h"

void pal_base64_encode(pal_buf *buf, pal_str data);

/* Takes only the one spelling that pal_base64_encode() gives back, so nothing is lost by decoding:
 * no white space, full padding, no stray bits. False for anything else, and when the arena fails
 * (which shows in the arena). */
bool pal_base64_decode(pal_str text, pal_arena *arena, pal_str *out_data);

/* Splits "data:image/png;base64,..." and decodes it. False leaves the outputs untouched: the URL
 * is then one to keep as it is. */
bool pal_data_url_decode(pal_str url, pal_arena *arena, pal_str *out_media_type, pal_str *out_data);

#endif
