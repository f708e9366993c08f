/* observe_process.h - metrics of this process, under the names that Prometheus' own clients use. */
#ifndef PAL_OBSERVE_PROCESS_H
#define PAL_OBSERVE_PROCESS_H

#include "base/buf.h"

/* Writes the metrics. A value that the system does not report is left out. */
void pal_process_metrics_write(pal_buf *buf, int64_t started_at_ms);

#endif
