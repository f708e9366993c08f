/* random.h - random bytes from the system. */
#ifndef PAL_BASE_RANDOM_H
#define PAL_BASE_RANDOM_H

#include <stddef.h>

/* Fills `out_bytes`; from any thread. Buffer it where one byte at a time is wanted. */
void pal_random_bytes(void *out_bytes, size_t len);

#endif
