/* bench_slice.h - callers that do one thing again and again for a short time. */
#ifndef PAL_BENCH_SLICE_H
#define PAL_BENCH_SLICE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "palaver/arena.h"
#include "palaver/store.h"
#include "palaver/store_admin.h"

typedef struct worker worker;
struct worker {
    pthread_t thread;
    void (*once)(worker *w);
    pal_store *store;
    pal_arena *arena;
    void *raw; /* the other side of the comparison */
    const int64_t *handles;
    size_t index;   /* number of the caller, from 0 */
    size_t session; /* the session, if the work concerns one */
    size_t batch;   /* messages per commit */
    size_t units;   /* units that one call of `once` counts */
    int64_t until_us;
    uint64_t done, random;
};

void workers_init(worker *workers, size_t count, void (*once)(worker *w));

/* Runs the callers for `slice_us`. Returns units per second. */
double slice(worker *workers, size_t callers, int64_t slice_us);

/* Messages per commit between two readings of a store's counts. */
size_t slice_batch(const pal_store_stats *before, const pal_store_stats *after);
pal_store_stats slice_stats(pal_store *store);

#endif
