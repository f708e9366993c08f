/* crash_verify.h - remembers everything that writers acknowledged and everything that was ever read
 * back, and compares the two with what the store holds now. */
#ifndef PAL_TESTS_CRASH_VERIFY_H
#define PAL_TESTS_CRASH_VERIFY_H

#include <stdbool.h>
#include "crash_work.h"
#include "palaver/store.h"

#define VERIFY_WRITERS_MAX 16 /* numbered from 1 */

/* Takes in one acknowledgement. False when it is one of failure, or torn. */
bool verify_ack(const ack *a);

/* The counter with which a new process of that writer goes on. */
uint64_t verify_next_counter(uint32_t writer);

/* The writers of the bits set in `dead` do nothing now: what they left can be judged. Compares what
 * is new since the last call. Prints what is wrong; returns whether all was well. */
bool verify_new(pal_store *store, uint32_t dead);

/* Reads everything again; no writer may be alive. */
bool verify_all(pal_store *store);

uint64_t verify_messages(void);
uint64_t verify_lives(void);

void verify_done(void);

#endif
