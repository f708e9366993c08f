/* crash_verify.h - remembers all that writers acknowledged and all that was ever read, and compares
 * both with the store. */
#ifndef PAL_TESTS_CRASH_VERIFY_H
#define PAL_TESTS_CRASH_VERIFY_H

#include <stdbool.h>
#include "crash_work.h"
#include "palaver/store.h"

#define VERIFY_WRITERS_MAX 16 /* numbered from 1 */

/* Adds one acknowledgement. Returns false if it reports a failure, or is torn. */
bool verify_ack(const ack *a);

/* The counter with which a new process of that writer continues. */
uint64_t verify_next_counter(uint32_t writer);

/* The writers in the bits of `dead` are not running, so their work can be checked. Checks what is
 * new since the last call. Prints problems; returns whether there were none. */
bool verify_new(pal_store *store, uint32_t dead);

/* Reads everything again. No writer may be running. */
bool verify_all(pal_store *store);

uint64_t verify_messages(void);
uint64_t verify_lives(void);

void verify_done(void);

#endif
