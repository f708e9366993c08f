/* tokens_estimate.h - estimates the tokens of a text if no vocabulary is known.
 *
 * Each character has a fixed weight that does not depend on its neighbors. So a text can be fed in
 * pieces that are cut anywhere. Zero an estimate before the first use. */
#ifndef PAL_TOKENS_ESTIMATE_H
#define PAL_TOKENS_ESTIMATE_H

#include <stdint.h>
#include "palaver/str.h"

typedef struct pal_estimate {
    uint64_t weight; /* in hundredths of a token */
    char cut[4];     /* the beginning of a character whose end has not arrived yet */
    uint8_t cut_len;
} pal_estimate;

void pal_estimate_feed(pal_estimate *estimate, pal_str text);

/* Returns the tokens so far, as if the text ended here. Rounded up; 0 for an empty text. More text
 * can be fed afterwards. */
uint64_t pal_estimate_tokens(const pal_estimate *estimate);

/* Estimates the tokens of a text in bounded time, for threads that must not be blocked. The part
 * after the first PAL_TOKENS_ESTIMATED_BYTES_MAX bytes is taken to be like the part before it. */
uint64_t pal_estimate_quickly(pal_str text);

#endif
