/* retry.h - the rules for retrying a failed model call. Turns apply them automatically. They are
 * public for programs that call models themselves. Pure functions that can be called from any
 * thread. */
#ifndef PALAVER_RETRY_H
#define PALAVER_RETRY_H

#include <stdbool.h>
#include <stdint.h>
#include "palaver/api.h"
#include "palaver/str.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns true if a repeated call may succeed. `code` is the HTTP status (0: there was no
 * response), `error_code` the service's own code (such as "rate_limit_exceeded") and `text` its
 * message; both may be empty. Rate limits, overload, and failures of the server or the connection
 * can be retried. Rejected requests, used-up quotas and requests that are too long cannot. */
PAL_API bool pal_error_is_retryable(long code, pal_str error_code, pal_str text);

/* Returns true if the service reports that the request is longer than the model's context. */
PAL_API bool pal_error_is_overflow(long code, pal_str error_code, pal_str text);

/* Returns the milliseconds to wait after the failed attempt `attempt`, which is counted from 1.
 * `retry_after_ms` is the delay that the service requested, and is used if it is not negative.
 * Otherwise the delay is 2 seconds, doubled with each attempt. `jitter` (0 to 1) adds up to a
 * quarter. The sum is at most 30 seconds. */
PAL_API int64_t pal_retry_delay_ms(uint32_t attempt, int64_t retry_after_ms, double jitter);

/* Returns the delay that the service requested: the value of the header "retry-after-ms", otherwise
 * that of "retry-after", in seconds or as a date. Both may be empty. -1 if neither gives a delay.
 * `now_ms` is the current time in milliseconds since 1970. */
PAL_API int64_t pal_retry_after_ms(pal_str retry_after_ms, pal_str retry_after, int64_t now_ms);

#ifdef __cplusplus
}
#endif
#endif
