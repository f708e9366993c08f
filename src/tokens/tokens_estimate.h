/* tokens_estimate.h - how many tokens a text will be, roughly, where no vocabulary is known. */
#ifndef PAL_TOKENS_ESTIMATE_H
#define PAL_TOKENS_ESTIMATE_H

#include <stdint.h>
#include "palaver/message.h"

#define PAL_TOKENS_IMAGE 1500
#define PAL_TOKENS_FILE 1000

/* ceil(bytes / 4) on ASCII; by script elsewhere. 0 for the empty text. */
uint32_t pal_tokens_estimate(pal_str text);

/* All parts of the message; at least 1, so that "not counted" stays 0. */
uint32_t pal_tokens_estimate_message(const pal_message *message);

#endif
