/* store_fault.h - puts a wrapper in front of a store's engine that fails, or ends the process, at
 * the Nth call. Everything else passes through, before and after. */
#ifndef PAL_TESTS_STORE_FAULT_H
#define PAL_TESTS_STORE_FAULT_H

#include "palaver/store.h"

#define STORE_FAULT_EXIT 86 /* the exit code of a "crash" */

typedef struct store_fault {
    uint64_t call;     /* which one of the engine's calls, from 1; 0: none */
    bool after;        /* the call is made, and only its answer is lost */
    pal_status status; /* what the caller gets; PAL_OK: the process ends there */
} store_fault;

/* Call it while no other thread uses the store. The wrapper goes when the store is closed. */
PAL_CHECKED pal_status store_fault_install(pal_store *store, const store_fault *fault);

/* From now on everything passes through. True where the fault had fired before. */
bool store_fault_disarm(pal_store *store);

#endif
