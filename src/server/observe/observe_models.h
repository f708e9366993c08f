/* observe_models.h - metrics of model calls, by provider and model. */
#ifndef PAL_OBSERVE_MODELS_H
#define PAL_OBSERVE_MODELS_H

#include "base/buf.h"
#include "palaver/turn.h"

#define PAL_METRICS_MODELS_MAX 64 /* pairs of provider and model; further ones are "other" */

typedef struct pal_model_metrics pal_model_metrics;

pal_model_metrics *pal_model_metrics_new(void); /* NULL if out of memory */
void pal_model_metrics_free(pal_model_metrics *metrics); /* accepts NULL */

/* Counts a call. From any thread. */
void pal_model_metrics_count(pal_model_metrics *metrics, const pal_model_report *report);

/* Writes the metrics in the format of Prometheus. */
void pal_model_metrics_write(pal_model_metrics *metrics, pal_buf *buf);

#endif
