/* access_rate.c - token buckets, one for each key or address.
 *
 * A bucket holds the requests of one minute and fills evenly. After a minute without requests a
 * bucket is full, which is the same as no bucket. So such buckets are removed when there are too
 * many. If that makes no room, new keys and addresses are refused, so memory stays bounded. One
 * lock guards the buckets; it is held only for a look-up. */
#include "server/access/access_rate.h"

#include <pthread.h>
#include "base/map.h"
#include "base/memory.h"

#define MINUTE_US ((int64_t)60 * 1000000)
#define CROWD_RETRY_MS 60000

typedef struct bucket {
    double left;
    int64_t at_us; /* when `left` was computed */
    size_t who_len;
    char who[];
} bucket;

struct pal_rate {
    pthread_mutex_t lock;
    pal_map buckets;
    int64_t cleaned_us;
};

pal_rate *pal_rate_new(void)
{
    pal_rate *rate = pal_calloc(1, sizeof *rate);
    if (rate)
        pthread_mutex_init(&rate->lock, NULL);
    return rate;
}

static pal_str who_of(const bucket *b)
{
    return pal_str_make(b->who, b->who_len);
}

void pal_rate_free(pal_rate *rate)
{
    size_t position = 0;
    pal_str key;
    void *value;
    if (!rate)
        return;
    while (pal_map_next(&rate->buckets, &position, &key, &value))
        pal_free(value);
    pal_map_done(&rate->buckets);
    pthread_mutex_destroy(&rate->lock);
    pal_free(rate);
}

/* The map must not change during the iteration, so the buckets to keep move to a new map. */
static void clean(pal_rate *rate, int64_t now_us)
{
    pal_map kept;
    size_t position = 0;
    pal_str key;
    void *value;
    /* At most one full iteration per second, however many new keys and addresses there are. */
    if (now_us - rate->cleaned_us < 1000000)
        return;
    rate->cleaned_us = now_us;
    pal_map_init(&kept);
    while (pal_map_next(&rate->buckets, &position, &key, &value)) {
        bucket *b = value;
        bool rested = now_us - b->at_us >= MINUTE_US;
        if (rested || pal_map_set(&kept, who_of(b), b) != PAL_OK)
            pal_free(b);
    }
    pal_map_done(&rate->buckets);
    rate->buckets = kept;
}

static bucket *add(pal_rate *rate, pal_str who, uint32_t per_minute, int64_t now_us)
{
    if (rate->buckets.len >= PAL_SERVER_RATE_BUCKETS_MAX)
        clean(rate, now_us);
    if (rate->buckets.len >= PAL_SERVER_RATE_BUCKETS_MAX)
        return NULL;
    bucket *b = pal_malloc(sizeof *b + who.len);
    if (!b)
        return NULL;
    b->left = per_minute;
    b->at_us = now_us;
    b->who_len = who.len;
    memcpy(b->who, who.data, who.len);
    if (pal_map_set(&rate->buckets, who_of(b), b) != PAL_OK) {
        pal_free(b);
        return NULL;
    }
    return b;
}

static bool take(bucket *b, uint32_t per_minute, int64_t now_us, int64_t *out_retry_ms)
{
    double fill = (double)(now_us - b->at_us) * per_minute / (double)MINUTE_US;
    b->left = b->left + fill < per_minute ? b->left + fill : per_minute;
    b->at_us = now_us;
    if (b->left < 1) {
        *out_retry_ms = (int64_t)((1 - b->left) * 60000 / per_minute) + 1;
        return false;
    }
    b->left -= 1;
    return true;
}

bool pal_rate_take(
        pal_rate *rate, pal_str who, uint32_t per_minute, int64_t now_us, int64_t *out_retry_ms)
{
    bool taken = false;
    if (per_minute == 0)
        return true;
    pthread_mutex_lock(&rate->lock);
    bucket *b = pal_map_find(&rate->buckets, who);
    if (!b)
        b = add(rate, who, per_minute, now_us);
    if (b)
        taken = take(b, per_minute, now_us, out_retry_ms);
    else
        *out_retry_ms = CROWD_RETRY_MS;
    pthread_mutex_unlock(&rate->lock);
    return taken;
}
