/* random.h - random bytes from the system. */
#ifndef PAL_BASE_RANDOM_H
#define PAL_BASE_RANDOM_H

#include <stddef.h>
#include "palaver/error.h"

/* Fills `out_bytes`, from any thread. Each call is a system call, so callers that need single bytes
 * should buffer them. */
void pal_random_bytes(void *out_bytes, size_t len);

/* Like pal_random_bytes(), for keys and other secrets that must not be guessed. PAL_IO: the system
 * has no random bytes. There is no fallback. */
PAL_CHECKED pal_status pal_random_secret(void *out_bytes, size_t len, pal_error *err);

#endif
