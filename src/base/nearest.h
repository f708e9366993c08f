/* nearest.h - which of several words a mistyped one was probably meant to be. */
#ifndef PAL_BASE_NEAREST_H
#define PAL_BASE_NEAREST_H

#include <stdbool.h>
#include <stddef.h>
#include "palaver/str.h"

/* A search: hand it one word after another. */
typedef struct pal_nearest {
    pal_str text;    /* what was written; borrowed */
    size_t distance; /* of the best word so far */
    bool found;
} pal_nearest;

pal_nearest pal_nearest_make(pal_str text);

/* Whether the word is near enough, and nearer than all before it. */
bool pal_nearest_try(pal_nearest *nearest, pal_str word);

#endif
