/* access_rate.h - limits requests per minute with a bucket that fills again over a minute. */
#ifndef PAL_ACCESS_RATE_H
#define PAL_ACCESS_RATE_H

#include <stdbool.h>
#include <stdint.h>
#include "palaver/str.h"
#include "server/server_limits.h"

typedef struct pal_rate pal_rate;

pal_rate *pal_rate_new(void);       /* NULL: out of memory */
void pal_rate_free(pal_rate *rate); /* accepts NULL */

/* Takes one request of `who`, whose limit is `per_minute`. False: none is left; *out_retry_ms is
 * the time until there is one. Can be called from any thread. */
bool pal_rate_take(
        pal_rate *rate, pal_str who, uint32_t per_minute, int64_t now_us, int64_t *out_retry_ms);

#endif
