/* tokens_model.h - the built-in table of models. Only for tokens_model.c. */
#ifndef PAL_TOKENS_MODEL_H
#define PAL_TOKENS_MODEL_H

#include <stddef.h>
#include <stdint.h>

typedef struct pal_model_line {
    const char *pattern;  /* lower case; a name, or the beginning of one and '*' */
    const char *encoding; /* its own one; NULL: not public */
    const char *nearest;  /* where this build does not have its own; NULL: the estimate */
    uint64_t context;
    uint64_t output;
    uint64_t input; /* 0: what the answer leaves of the context */
} pal_model_line;

extern const pal_model_line pal_model_lines[];
extern const size_t pal_model_lines_len;

#endif
