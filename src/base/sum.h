/* sum.h - sums that stop at the largest number instead of wrapping around to 0. Pure functions. */
#ifndef PAL_BASE_SUM_H
#define PAL_BASE_SUM_H

#include <stdint.h>

static inline void pal_sum_u64(uint64_t *sum, uint64_t more)
{
    if (__builtin_add_overflow(*sum, more, sum))
        *sum = UINT64_MAX;
}

/* Limits a count that is stored as a signed number to the largest of these. */
static inline uint64_t pal_sum_cap(uint64_t count)
{
    return count < INT64_MAX ? count : INT64_MAX;
}

static inline void pal_sum_i64(int64_t *sum, int64_t more)
{
    if (__builtin_add_overflow(*sum, more, sum))
        *sum = more < 0 ? INT64_MIN : INT64_MAX;
}

#endif
