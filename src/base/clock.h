/* clock.h - what time it is, and a way for tests to say so. */
#ifndef PAL_BASE_CLOCK_H
#define PAL_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>
#include "palaver/str.h"

/* Milliseconds since 1970, as a test may have set them. */
int64_t pal_clock_now_ms(void);

/* Microseconds that only grow: for durations. Never set by tests. */
int64_t pal_clock_monotonic_us(void);

/* For tests: the time stands still at `now_ms`; 0 gives the real clock back. */
void pal_clock_set_ms(int64_t now_ms);

#define PAL_TIME_TEXT_SIZE 32
#define PAL_TIME_MAX_MS INT64_C(253402300799999) /* 9999-12-31T23:59:59.999Z */

/* RFC 3339 in UTC with milliseconds: "2026-11-15T20:47:48.123Z". Returns its length. */
size_t pal_time_to_text(int64_t ms, char out_text[PAL_TIME_TEXT_SIZE]);

/* Reads RFC 3339 with any offset and any number of fraction digits (cut to milliseconds). */
_Bool pal_time_from_text(pal_str text, int64_t *out_ms);

#endif
