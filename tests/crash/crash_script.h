/* crash_script.h - a fixed list of operations that uses everything a store can do, and a full
 * account of a store's contents. The same operations give the same account, byte for byte, on any
 * backend: the clock is set to a time that depends only on the step.
 *
 * So the correct contents after a crash or a fault need no description: they are the account of a
 * sound store to which exactly the acknowledged steps were applied. */
#ifndef PAL_TESTS_CRASH_SCRIPT_H
#define PAL_TESTS_CRASH_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "palaver/store.h"

/* One bit per step. One step is a batch; each of its parts has a separate bit. */
typedef uint64_t script_mask;

#define SCRIPT_STEPS_MAX 48
#define SCRIPT_BATCH_DONE 6 /* the parts of the batch that a sound store acknowledges */

/* How a step ended. `done` is the acknowledged part of it. */
typedef struct script_result {
    script_mask done;
    pal_status status;
    uint64_t seq; /* the seq of the last appended message, the number of the mark, or the fence */
    char message[PAL_ERROR_MESSAGE_MAX];
} script_result;

/* A store that a step can close and open again. */
typedef struct script_store {
    const char *url;
    pal_store *store; /* NULL if it could not be opened again */
} script_store;

size_t script_len(void);
const char *script_name(size_t step);

/* All parts of the step that a sound store acknowledges. */
script_mask script_bits(size_t step);

/* Whether the step only closes the store and opens it again. */
bool script_is_reopen(size_t step);

/* Runs the parts of the step that are in `mask`. */
script_result script_step(script_store *on, size_t step, script_mask mask);

/* Appends the account of the store. Returns false if a read failed; the account has the reason. */
bool script_account(pal_store *store, pal_buf *out);

#endif
