/* tokens_estimate.h - how many tokens a text will be, roughly, where no vocabulary is known.
 *
 * Every character weighs something, whatever stands beside it, so that a text may come in pieces:
 * feed them all, cut anywhere, then ask. Zero is a fresh estimate. */
#ifndef PAL_TOKENS_ESTIMATE_H
#define PAL_TOKENS_ESTIMATE_H

#include <stdint.h>
#include "palaver/str.h"

typedef struct pal_estimate {
    uint64_t weight; /* in hundredths of a token */
    char cut[4];     /* the beginning of a character whose end did not come yet */
    uint8_t cut_len;
} pal_estimate;

void pal_estimate_feed(pal_estimate *estimate, pal_str text);

/* As if the text ended here; more may be fed. Rounded up; 0 for the empty text. */
uint64_t pal_estimate_tokens(const pal_estimate *estimate);

#endif
