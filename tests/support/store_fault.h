/* store_fault.h - wraps the backend of a store so that the Nth call fails or ends the process, or so
 * that releases of leases are slow. All other calls pass through. */
#ifndef PAL_TESTS_STORE_FAULT_H
#define PAL_TESTS_STORE_FAULT_H

#include "palaver/store.h"

#define STORE_FAULT_EXIT 86 /* the exit code of a simulated crash */

typedef struct store_fault {
    uint64_t call;     /* number of the call to the backend, from 1; 0: none */
    bool after;        /* the call is made, and only its result is lost */
    pal_status status; /* the status that the caller gets; PAL_OK ends the process instead */
    unsigned release_ms; /* how long the release of a lease waits */
} store_fault;

/* Call it while no other thread uses the store. The wrapper is freed when the store is closed. */
PAL_CHECKED pal_status store_fault_install(pal_store *store, const store_fault *fault);

/* From now on all calls pass through. Returns whether the fault had fired. */
bool store_fault_disarm(pal_store *store);

#endif
