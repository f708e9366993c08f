/* random.h - random bytes from the system. */
#ifndef PAL_BASE_RANDOM_H
#define PAL_BASE_RANDOM_H

#include <stddef.h>
#include "palaver/error.h"

/* Fills `out_bytes`; from any thread. Buffer it where one byte at a time is wanted. */
void pal_random_bytes(void *out_bytes, size_t len);

/* As pal_random_bytes() for what nobody may guess: keys, session ids that open something. If the
 * system gives no random bytes, it is PAL_IO, and nothing else takes their place. */
PAL_CHECKED pal_status pal_random_secret(void *out_bytes, size_t len, pal_error *err);

#endif
