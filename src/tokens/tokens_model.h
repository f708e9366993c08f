/* tokens_model.h - the built-in table of models. Only for tokens_model.c. */
#ifndef PAL_TOKENS_MODEL_H
#define PAL_TOKENS_MODEL_H

#include <stddef.h>
#include <stdint.h>

typedef struct pal_model_line {
    const char *pattern;  /* in lower case: a name, or a prefix that ends in '*' */
    const char *encoding; /* the model's own encoding; NULL: not public */
    const char *nearest;  /* used if this build does not contain the model's own encoding; NULL: the
                             estimate */
    uint64_t context;
    uint64_t output;
    uint64_t input; /* 0: the context minus the answer */
} pal_model_line;

extern const pal_model_line pal_model_lines[];
extern const size_t pal_model_lines_len;

#endif
