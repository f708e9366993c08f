/* window_prompt.h - the texts that the engine itself sends to a model. */
#ifndef PAL_WINDOW_PROMPT_H
#define PAL_WINDOW_PROMPT_H

#include "palaver/str.h"

/* Returns the request for a summary; with `merge`, for one that includes an earlier summary. */
pal_str pal_prompt_summary(bool merge);

/* Returns the beginning of the hint after a reset. */
pal_str pal_prompt_hint(void);

/* Returns the beginning of a text, cut between two characters. */
pal_str pal_prompt_excerpt(pal_str text, size_t len_max);

#endif
