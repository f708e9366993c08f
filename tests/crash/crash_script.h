/* crash_script.h - a fixed list of operations that touches everything a store can do, and a full
 * account of what a store holds. The same operations give the same account, byte for byte, on any
 * backend: time stands still at a moment that only depends on the step.
 *
 * So what a crash or a fault must leave behind is not described by hand: it is the account of a
 * sound store to which exactly the acknowledged steps were applied. */
#ifndef PAL_TESTS_CRASH_SCRIPT_H
#define PAL_TESTS_CRASH_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "palaver/store.h"

/* One bit per step. The parts of the one step that is a batch have bits of their own. */
typedef uint64_t script_mask;

#define SCRIPT_STEPS_MAX 48
#define SCRIPT_BATCH_DONE 6 /* parts of the batch that a sound store acknowledges */

/* How a step ended. `done` is what of it was acknowledged. */
typedef struct script_result {
    script_mask done;
    pal_status status;
    uint64_t seq; /* of the last message that it appended, or the mark's number, or the fence */
    char message[PAL_ERROR_MESSAGE_MAX];
} script_result;

/* A store that a step may close and open again. */
typedef struct script_store {
    const char *url;
    pal_store *store; /* NULL when it could not be opened again */
} script_store;

size_t script_len(void);
const char *script_name(size_t step);

/* All that a sound store acknowledges of the step. */
script_mask script_bits(size_t step);

/* Whether the step only closes the store and opens it again. */
bool script_is_reopen(size_t step);

/* Does those parts of the step that are in `mask`. */
script_result script_step(script_store *on, size_t step, script_mask mask);

/* Appends the account of what the store holds. False when reading failed: the account tells. */
bool script_account(pal_store *store, pal_buf *out);

#endif
