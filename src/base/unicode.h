/* unicode.h - lower case and white space by Unicode, character by character, as in Go's package
 * strings: simple case mapping without language or context. Also the classes of characters that a
 * search needs. Pure functions for any thread. */
#ifndef PAL_BASE_UNICODE_H
#define PAL_BASE_UNICODE_H

#include <stdint.h>
#include "palaver/str.h"

/* Maximum length of the lower case of `len` bytes: two bytes can become three. */
#define PAL_UNICODE_LOWER_SIZE(len) ((len) + (len) / 2)

/* Writes the lower case of valid UTF-8 and returns its length. */
size_t pal_unicode_lower(pal_str text, char *out_text);

/* The class of a character in a search. */
typedef enum pal_unicode_kind {
    PAL_UNICODE_GAP,      /* separates words */
    PAL_UNICODE_WORD,     /* letters, digits and marks of scripts with spaces between words */
    PAL_UNICODE_UNSPACED, /* characters of scripts without spaces (Han, kana, Hangul, Thai and
                             others), and emoji */
} pal_unicode_kind;

pal_unicode_kind pal_unicode_kind_of(uint32_t character);

#define PAL_UNICODE_FOLD_MAX 4

/* Writes the character with case and width removed. Returns the number of characters, which is one
 * except in a few cases. */
size_t pal_unicode_fold(uint32_t character, uint32_t out_characters[PAL_UNICODE_FOLD_MAX]);

/* Returns the text without white space at both ends. The text must be valid UTF-8. */
pal_str pal_unicode_trim(pal_str text);

#endif
