/* unicode.h - lower case and white space by Unicode, character by character, as Go's strings
 * package has them: simple case mapping, no language, no context. Pure functions, any thread. */
#ifndef PAL_BASE_UNICODE_H
#define PAL_BASE_UNICODE_H

#include "palaver/str.h"

/* How many bytes the lower case of `len` bytes can have: two bytes may become three. */
#define PAL_UNICODE_LOWER_SIZE(len) ((len) + (len) / 2)

/* Writes the lower case of valid UTF-8 and returns its length. */
size_t pal_unicode_lower(pal_str text, char *out_text);

/* The view without the white space at both ends. The text is valid UTF-8. */
pal_str pal_unicode_trim(pal_str text);

#endif
