/* server_rate.h - how often somebody may ask: a bucket of requests that fills again over a minute.
 */
#ifndef PAL_SERVER_RATE_H
#define PAL_SERVER_RATE_H

#include <stdbool.h>
#include <stdint.h>
#include "palaver/str.h"
#include "server/server_limits.h"

typedef struct pal_rate pal_rate;

pal_rate *pal_rate_new(void);       /* NULL without memory */
void pal_rate_free(pal_rate *rate); /* accepts NULL */

/* Takes one request of `who`, who may make so many a minute. False: none is left, and
 * *out_retry_ms says when there will be. Any thread. */
bool pal_rate_take(
        pal_rate *rate, pal_str who, uint32_t per_minute, int64_t now_us, int64_t *out_retry_ms);

#endif
