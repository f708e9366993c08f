/* observe_metrics.h - counters for /metrics. All functions that count can be called from any thread
 * and take no lock. */
#ifndef PAL_OBSERVE_METRICS_H
#define PAL_OBSERVE_METRICS_H

#include "server/server.h"

typedef struct pal_metrics pal_metrics;

/* Must be created before the store is opened, because the store's trace uses it from the first call
 * on. Returns NULL if out of memory. */
pal_metrics *pal_metrics_new(void);
void pal_metrics_free(pal_metrics *metrics); /* accepts NULL */

/* Counts a response. `route` is NULL if no route matched. */
void pal_metrics_request(pal_metrics *metrics, const pal_api_route *route, unsigned code,
        uint64_t bytes_sent, int64_t duration_us);

/* For pal_store_options.trace; `user` is the metrics. */
void pal_metrics_store(
        const char *call, size_t ops, int64_t duration_us, pal_status status, void *user);

/* For pal_runtime_options.on_model_call; `user` is the metrics. */
void pal_metrics_model_call(const pal_model_report *report, void *user);

/* Counts a repeated request that was answered with a stored response. */
void pal_metrics_replayed(pal_metrics *metrics);

/* Counts expired sessions that a cleanup moved to the trash, and sessions that it erased. */
void pal_metrics_swept(pal_metrics *metrics, uint64_t expired, uint64_t erased);

/* Handles GET /metrics. Runs on a worker, because it counts sessions. */
PAL_CHECKED pal_status pal_metrics_handle(pal_call *call, pal_error *err);

#endif
