/* bench_slice.c - see bench_slice.h. */
#include "bench_slice.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench_fill.h"

void workers_init(worker *workers, size_t count, void (*once)(worker *w))
{
    memset(workers, 0, count * sizeof(*workers));
    for (size_t i = 0; i < count; i++) {
        workers[i].once = once;
        workers[i].index = i;
        workers[i].units = 1;
        workers[i].session = i;
        workers[i].random = i;
    }
}

static void *worker_run(void *user)
{
    worker *w = user;

    do {
        w->once(w);
        w->done += w->units;
    } while (pal_clock_monotonic_us() < w->until_us);
    return NULL;
}

double slice(worker *workers, size_t callers, int64_t slice_us)
{
    int64_t start = pal_clock_monotonic_us();
    uint64_t done = 0;

    for (size_t i = 0; i < callers; i++) {
        workers[i].until_us = start + slice_us;
        workers[i].done = 0;
        if (callers == 1)
            worker_run(&workers[i]);
        else if (pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]) != 0)
            exit(1);
    }
    for (size_t i = 0; i < callers; i++) {
        if (callers > 1)
            pthread_join(workers[i].thread, NULL);
        done += workers[i].done;
    }
    return (double)done * 1e6 / (double)(pal_clock_monotonic_us() - start);
}

pal_store_stats slice_stats(pal_store *store)
{
    pal_arena *arena = pal_arena_new(0);
    pal_store_stats stats = {0};
    pal_error error = {0};

    fill_must(pal_store_stat(store, arena, &stats, &error), &error);
    pal_arena_free(arena);
    return stats;
}

size_t slice_batch(const pal_store_stats *before, const pal_store_stats *after)
{
    uint64_t commits = after->commits - before->commits;

    return commits ? (size_t)((after->ops - before->ops + commits / 2) / commits) : 1;
}
