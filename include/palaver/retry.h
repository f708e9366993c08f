/* retry.h - the rules by which a failed model call is made again. Pure functions: any thread. Turns
 * use them by themselves; they are here for programs that call models on their own. */
#ifndef PALAVER_RETRY_H
#define PALAVER_RETRY_H

#include <stdbool.h>
#include <stdint.h>
#include "palaver/api.h"
#include "palaver/str.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether the call may succeed if it is made again: by the code of HTTP (0: no answer came), the
 * service's own code ("rate_limit_exceeded") and its text; both may be empty. Rate limits,
 * overload, failures of the server and of the connection may pass. Refusals, used-up quotas and
 * texts that are too long do not. */
PAL_API bool pal_error_is_retryable(long code, pal_str error_code, pal_str text);

/* Whether the service says that the request is longer than the model's context. */
PAL_API bool pal_error_is_overflow(long code, pal_str error_code, pal_str text);

/* Milliseconds to wait before try number `attempt` + 1 (from 1). `retry_after_ms` is what the
 * service asked for and wins; negative: nothing. Without it 2 seconds, doubled each time up to 30,
 * and up to a quarter more by `jitter` (0 to 1). */
PAL_API int64_t pal_retry_delay_ms(uint32_t attempt, int64_t retry_after_ms, double jitter);

/* What the service asked for: the header "retry-after-ms", else "retry-after" as seconds or as a
 * date. Both may be empty. -1 if neither says it. */
PAL_API int64_t pal_retry_after_ms(pal_str retry_after_ms, pal_str retry_after, int64_t now_ms);

#ifdef __cplusplus
}
#endif
#endif
