/* observe_models.c - counters and histograms of model calls. Clients can name any model in a
 * forwarded request, so the number of labels is limited: what comes after the first pairs of
 * provider and model is counted as "other". */
#include "server/observe/observe_models.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "base/utf8.h"

#define LABEL_MAX 128 /* bytes of a provider's or a model's name; longer ones are cut */
#define TIMES_LEN 14
#define PURPOSES_LEN 3

/* Upper bounds of the buckets, in milliseconds. */
static const int64_t times_ms[TIMES_LEN] = {
        50, 100, 250, 500, 1000, 2000, 4000, 8000, 15000, 30000, 60000, 120000, 300000, 600000};

static const char *const purposes[PURPOSES_LEN] = {"turn", "compaction", "forward"};

typedef struct histogram {
    uint64_t buckets[TIMES_LEN + 1]; /* the last bucket is for all larger values */
    uint64_t sum_us;
} histogram;

typedef struct model_counts {
    char provider[LABEL_MAX + 1];
    char model[LABEL_MAX + 1];
    uint64_t calls[PURPOSES_LEN][2]; /* failed, succeeded */
    pal_usage usage;
    int64_t cost_micros;
    histogram durations;
    histogram firsts;
} model_counts;

struct pal_model_metrics {
    pthread_mutex_t lock; /* guards everything */
    model_counts models[PAL_METRICS_MODELS_MAX + 1]; /* the last one is "other" */
    size_t len;
};

pal_model_metrics *pal_model_metrics_new(void)
{
    pal_model_metrics *metrics = pal_calloc(1, sizeof *metrics);
    if (!metrics)
        return NULL;
    pthread_mutex_init(&metrics->lock, NULL);
    return metrics;
}

void pal_model_metrics_free(pal_model_metrics *metrics)
{
    if (!metrics)
        return;
    pthread_mutex_destroy(&metrics->lock);
    pal_free(metrics);
}

/* ---- Counting ---- */

static void observe(histogram *h, int64_t us)
{
    size_t i = 0;
    while (i < TIMES_LEN && us > times_ms[i] * 1000)
        i++;
    h->buckets[i]++;
    h->sum_us += us > 0 ? (uint64_t)us : 0;
}

static void copy_label(pal_str text, char out[LABEL_MAX + 1])
{
    snprintf(out, LABEL_MAX + 1, "%.*s", (int)pal_utf8_cut(text, LABEL_MAX),
            text.data ? text.data : "");
}

/* The lock must be held. */
static model_counts *find(pal_model_metrics *metrics, pal_str provider, pal_str model)
{
    char names[2][LABEL_MAX + 1];
    copy_label(provider, names[0]);
    copy_label(model, names[1]);
    for (size_t i = 0; i < metrics->len; i++) {
        model_counts *known = &metrics->models[i];
        if (strcmp(known->provider, names[0]) == 0 && strcmp(known->model, names[1]) == 0)
            return known;
    }
    bool is_full = metrics->len >= PAL_METRICS_MODELS_MAX;
    model_counts *added = &metrics->models[is_full ? PAL_METRICS_MODELS_MAX : metrics->len];
    if (is_full) {
        metrics->len = PAL_METRICS_MODELS_MAX + 1;
        copy_label(pal_str_of("other"), added->provider);
        copy_label(pal_str_of("other"), added->model);
        return added;
    }
    metrics->len++;
    memcpy(added->provider, names[0], sizeof names[0]);
    memcpy(added->model, names[1], sizeof names[1]);
    return added;
}

void pal_model_metrics_count(pal_model_metrics *metrics, const pal_model_report *report)
{
    size_t purpose = 0;
    while (purpose + 1 < PURPOSES_LEN && strcmp(purposes[purpose], report->purpose) != 0)
        purpose++;
    pthread_mutex_lock(&metrics->lock);
    model_counts *to = find(metrics, report->endpoint, report->model);
    to->calls[purpose][report->status == PAL_OK]++;
    to->usage.input += report->usage.input;
    to->usage.cache_read += report->usage.cache_read;
    to->usage.cache_write += report->usage.cache_write;
    to->usage.output += report->usage.output;
    to->cost_micros += report->cost_micros;
    observe(&to->durations, report->duration_us);
    if (report->first_us > 0)
        observe(&to->firsts, report->first_us);
    pthread_mutex_unlock(&metrics->lock);
}

/* ---- Writing ---- */

static void put_label(pal_buf *buf, const char *name, const char *value)
{
    pal_buf_format(buf, "%s=\"", name);
    for (; *value; value++) {
        if (*value == '\\' || *value == '"')
            pal_buf_append_char(buf, '\\');
        if (*value == '\n')
            pal_buf_append_text(buf, "\\n");
        else
            pal_buf_append_char(buf, *value);
    }
    pal_buf_append_char(buf, '"');
}

/* Begins a line: NAME{provider="...",model="..." */
static void begin(pal_buf *buf, const char *name, const model_counts *m)
{
    pal_buf_format(buf, "%s{", name);
    put_label(buf, "provider", m->provider);
    pal_buf_append_char(buf, ',');
    put_label(buf, "model", m->model);
}

static void head(pal_buf *buf, const char *name, const char *type, const char *help)
{
    pal_buf_format(buf, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_calls(const pal_model_metrics *metrics, pal_buf *buf)
{
    static const char name[] = "palaver_model_requests_total";
    head(buf, name, "counter", "Ended calls of models; each attempt counts.");
    for (size_t i = 0; i < metrics->len; i++) {
        const model_counts *m = &metrics->models[i];
        for (size_t j = 0; j < PURPOSES_LEN * 2; j++) {
            if (m->calls[j / 2][j % 2] == 0)
                continue;
            begin(buf, name, m);
            pal_buf_format(buf, ",purpose=\"%s\",result=\"%s\"} %" PRIu64 "\n", purposes[j / 2],
                    j % 2 ? "ok" : "failed", m->calls[j / 2][j % 2]);
        }
    }
}

static void put_tokens(const pal_model_metrics *metrics, pal_buf *buf)
{
    static const char name[] = "palaver_model_tokens_total";
    head(buf, name, "counter", "Tokens that the services reported.");
    for (size_t i = 0; i < metrics->len; i++) {
        const model_counts *m = &metrics->models[i];
        const struct {
            const char *kind;
            uint64_t tokens;
        } kinds[] = {{"input", m->usage.input}, {"cache_read", m->usage.cache_read},
                {"cache_write", m->usage.cache_write}, {"output", m->usage.output}};
        for (size_t j = 0; j < sizeof kinds / sizeof *kinds; j++) {
            begin(buf, name, m);
            pal_buf_format(buf, ",kind=\"%s\"} %" PRIu64 "\n", kinds[j].kind, kinds[j].tokens);
        }
    }
    head(buf, "palaver_model_cost_total", "counter", "Cost of these tokens, by the price list.");
    for (size_t i = 0; i < metrics->len; i++) {
        begin(buf, "palaver_model_cost_total", &metrics->models[i]);
        pal_buf_format(buf, "} %.6f\n", (double)metrics->models[i].cost_micros / 1e6);
    }
}

static void put_histogram(
        pal_buf *buf, const char *name, const model_counts *m, const histogram *h)
{
    char line[64];
    uint64_t total = 0;
    for (size_t i = 0; i <= TIMES_LEN; i++) {
        total += h->buckets[i];
        snprintf(line, sizeof line, "%s_bucket", name);
        begin(buf, line, m);
        if (i < TIMES_LEN)
            pal_buf_format(
                    buf, ",le=\"%g\"} %" PRIu64 "\n", (double)times_ms[i] / 1000, total);
        else
            pal_buf_format(buf, ",le=\"+Inf\"} %" PRIu64 "\n", total);
    }
    snprintf(line, sizeof line, "%s_sum", name);
    begin(buf, line, m);
    pal_buf_format(buf, "} %.6f\n", (double)h->sum_us / 1e6);
    snprintf(line, sizeof line, "%s_count", name);
    begin(buf, line, m);
    pal_buf_format(buf, "} %" PRIu64 "\n", total);
}

void pal_model_metrics_write(pal_model_metrics *metrics, pal_buf *buf)
{
    static const char seconds[] = "palaver_model_seconds";
    static const char first[] = "palaver_model_first_output_seconds";
    pthread_mutex_lock(&metrics->lock);
    put_calls(metrics, buf);
    put_tokens(metrics, buf);
    head(buf, seconds, "histogram", "Duration of calls of models.");
    for (size_t i = 0; i < metrics->len; i++)
        put_histogram(buf, seconds, &metrics->models[i], &metrics->models[i].durations);
    head(buf, first, "histogram", "Time from the call of a model to its first output.");
    for (size_t i = 0; i < metrics->len; i++)
        put_histogram(buf, first, &metrics->models[i], &metrics->models[i].firsts);
    pthread_mutex_unlock(&metrics->lock);
}
