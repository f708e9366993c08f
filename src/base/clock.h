/* clock.h - the current time, which tests can set. All functions can be called from any thread. */
#ifndef PAL_BASE_CLOCK_H
#define PAL_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>
#include "palaver/str.h"

/* Returns the time in milliseconds since 1970, or the time that a test has set. */
int64_t pal_clock_now_ms(void);
/* Returns the time of the machine's clock, also if a test has set another time. */
int64_t pal_clock_machine_ms(void);

/* Returns microseconds that never decrease, for measuring durations. Tests cannot set them. */
int64_t pal_clock_monotonic_us(void);
int64_t pal_clock_monotonic_ms(void); /* the same clock in milliseconds */

/* For tests: stops the clock at `now_ms`. 0: uses the real clock again. */
void pal_clock_set_ms(int64_t now_ms);

#define PAL_TIME_TEXT_SIZE 32
#define PAL_TIME_MAX_MS INT64_C(253402300799999) /* 9999-12-31T23:59:59.999Z */

/* Writes a time in RFC 3339, in UTC with milliseconds: "2026-11-15T20:47:48.123Z". Returns the
 * length. */
size_t pal_time_to_text(int64_t ms, char out_text[PAL_TIME_TEXT_SIZE]);

/* Reads a time in RFC 3339, with any offset and any number of fraction digits (cut to
 * milliseconds). Returns false if the text is not such a time. */
_Bool pal_time_from_text(pal_str text, int64_t *out_ms);

#endif
