/* clock_shift.h - a machine whose clock is wrong. Linked into a test, or preloaded into a program
 * (LD_PRELOAD) that gets CLOCK_SHIFT_MS in its environment. Only CLOCK_REALTIME is shifted. */
#ifndef PAL_TESTS_CLOCK_SHIFT_H
#define PAL_TESTS_CLOCK_SHIFT_H

#include <stdint.h>

/* From now on the clock of this process is wrong by so many milliseconds. */
void clock_shift(int64_t shift_ms);

#endif
