/* unicode.h - lower case and white space by Unicode, character by character, as Go's strings
 * package has them: simple case mapping, no language, no context. And what a search needs to know
 * of a character. Pure functions, any thread. */
#ifndef PAL_BASE_UNICODE_H
#define PAL_BASE_UNICODE_H

#include <stdint.h>
#include "palaver/str.h"

/* How many bytes the lower case of `len` bytes can have: two bytes may become three. */
#define PAL_UNICODE_LOWER_SIZE(len) ((len) + (len) / 2)

/* Writes the lower case of valid UTF-8 and returns its length. */
size_t pal_unicode_lower(pal_str text, char *out_text);

/* What a character is to a search. */
typedef enum pal_unicode_kind {
    PAL_UNICODE_GAP,      /* separates words */
    PAL_UNICODE_WORD,     /* letters, digits and marks of scripts that put spaces between words */
    PAL_UNICODE_UNSPACED, /* likewise of Han, kana, Hangul, Thai and others that don't; emoji */
} pal_unicode_kind;

pal_unicode_kind pal_unicode_kind_of(uint32_t character);

#define PAL_UNICODE_FOLD_MAX 4

/* Writes what the character is when case and width don't count, and returns how many characters
 * that are: one, but for a few. */
size_t pal_unicode_fold(uint32_t character, uint32_t out_characters[PAL_UNICODE_FOLD_MAX]);

/* The view without the white space at both ends. The text is valid UTF-8. */
pal_str pal_unicode_trim(pal_str text);

#endif
