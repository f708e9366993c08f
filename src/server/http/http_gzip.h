/* http_gzip.h - compresses response bodies with gzip. Any thread. */
#ifndef PAL_HTTP_GZIP_H
#define PAL_HTTP_GZIP_H

#include <stdbool.h>
#include "base/buf.h"
#include "palaver/str.h"

/* Returns whether an Accept-Encoding header allows gzip. */
bool pal_gzip_is_accepted(pal_str accept_encoding);

/* Appends the compressed text to a buffer. Returns false if this failed or saves nothing. */
bool pal_gzip_compress(pal_str text, pal_buf *out);

#endif
