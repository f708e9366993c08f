/* turn_prompt.h - the texts that the engine itself says to a model. */
#ifndef PAL_TURN_PROMPT_H
#define PAL_TURN_PROMPT_H

#include "palaver/str.h"

#define PAL_PROMPT_TOKENS_MAX 512 /* of the longest of them */

/* Asks for a summary; with `merge`, for one that takes an earlier one in. */
pal_str pal_prompt_summary(bool merge);

/* Begins the hint of a fresh start. */
pal_str pal_prompt_hint(void);

/* The beginning of a text, cut between two characters. */
pal_str pal_prompt_excerpt(pal_str text, size_t len_max);

#endif
