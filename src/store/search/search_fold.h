/* search_fold.h - suffix folding: "paintings", "painted" and "painter" have the stem "paint".
 *
 * It is light on purpose, and made for English. A word of another language loses a suffix only if
 * it looks like an English one, in texts and queries alike, so it is found either way. A stem is
 * the beginning of its words, except that a "y" at the end becomes "i". Therefore an index of
 * whole words can be asked for all words of a stem: they are neighbors.
 *
 * Pure functions for any thread. */
#ifndef PAL_SEARCH_FOLD_H
#define PAL_SEARCH_FOLD_H

#include "store/search/search_words.h"

/* Writes the stem of a term (search_words.h) and returns its length. A term that is not a word of
 * ASCII letters is its own stem. */
size_t pal_fold_stem(pal_str term, char out_stem[PAL_TERM_LEN_MAX]);
bool pal_fold_has_stem(pal_str term, pal_str stem);
/* Returns whether terms other than the stem itself can have this stem. */
bool pal_fold_has_forms(pal_str stem);
/* Returns the bytes with which all terms of the stem begin. */
pal_str pal_fold_prefix(pal_str stem);

#endif
