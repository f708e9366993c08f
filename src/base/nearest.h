/* nearest.h - finds the word that a mistyped word was probably meant to be. */
#ifndef PAL_BASE_NEAREST_H
#define PAL_BASE_NEAREST_H

#include <stdbool.h>
#include <stddef.h>
#include "palaver/str.h"

/* A search. Pass it the candidates one by one. */
typedef struct pal_nearest {
    pal_str text;    /* the mistyped word; not copied */
    size_t distance; /* distance of the best word so far */
    bool found;
} pal_nearest;

pal_nearest pal_nearest_make(pal_str text);

/* Returns true if the word is near enough and nearer than all previous words. */
bool pal_nearest_try(pal_nearest *nearest, pal_str word);

/* True if `text` is `word` with one typing error (a letter too many, missing, replaced or swapped
 * with its neighbor), or in another style ("chatId" for "chat_id"). Short words have no typing
 * errors: too many other words are near them. */
bool pal_nearest_is_slip(pal_str text, pal_str word);

#endif
