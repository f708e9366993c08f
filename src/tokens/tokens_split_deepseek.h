/* tokens_split_deepseek.h - DeepSeek's pattern, which is three, one within what the other left. */
#ifndef PAL_TOKENS_SPLIT_DEEPSEEK_H
#define PAL_TOKENS_SPLIT_DEEPSEEK_H

#include "tokens/tokens_split.h"

/* As pal_split_next(), and with `rest`, which may be NULL, as pal_split_rest(). */
size_t pal_split_deepseek(const unsigned char *p, const unsigned char *end, bool is_final,
        struct pal_split_rest *rest);

#endif
