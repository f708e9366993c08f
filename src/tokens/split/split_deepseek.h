/* split_deepseek.h - DeepSeek's pattern. It consists of three patterns, each applied to what
 * the previous one left. */
#ifndef PAL_SPLIT_DEEPSEEK_H
#define PAL_SPLIT_DEEPSEEK_H

#include "tokens/split/split.h"

/* Like pal_split_next() and, if `rest` is not NULL, pal_split_rest(). */
size_t pal_split_deepseek(const unsigned char *p, const unsigned char *end, bool is_final,
        struct pal_split_rest *rest);

#endif
