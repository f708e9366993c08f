/* server_metrics.h - what is counted, for /metrics. Counting may be done from any thread and takes
 * no lock. */
#ifndef PAL_SERVER_METRICS_H
#define PAL_SERVER_METRICS_H

#include "server/server.h"

typedef struct pal_metrics pal_metrics;

/* Made before the store is opened, so that its trace can be told from the first call on. NULL
 * without memory. */
pal_metrics *pal_metrics_new(void);
void pal_metrics_free(pal_metrics *metrics); /* accepts NULL */

/* A request was answered; `route` NULL: it came to none. */
void pal_metrics_request(pal_metrics *metrics, const pal_api_route *route, unsigned code,
        uint64_t bytes_sent, int64_t duration_us);

/* For pal_store_options.trace; `user` is the metrics. */
void pal_metrics_store(
        const char *call, size_t ops, int64_t duration_us, pal_status status, void *user);

/* A repeat was answered from memory. */
void pal_metrics_replayed(pal_metrics *metrics);

/* A sweep moved so many expired sessions to the trash, and erased so many from it. */
void pal_metrics_swept(pal_metrics *metrics, uint64_t expired, uint64_t erased);

/* GET /metrics. On a worker: it counts sessions. */
PAL_CHECKED pal_status pal_metrics_handle(pal_call *call, pal_error *err);

#endif
