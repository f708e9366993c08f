/* id.c - UUIDs of version 7 (RFC 9562) that grow within one process.
 *
 *   48 bits  milliseconds since 1970
 *    4 bits  version 7
 *   12 bits  counter, high part
 *    2 bits  variant
 *   14 bits  counter, low part
 *   48 bits  random
 *
 * The counter has 26 bits. In each new millisecond it starts at a random value in its lower half,
 * and is incremented within the millisecond. If the clock stands still or goes back, the last
 * millisecond stays in use. If the counter overflows, the next millisecond is used early. One lock
 * keeps the order between threads. A forked child discards the buffered random bytes, so that it
 * does not create the same ids as its parent. */
#include "palaver/id.h"

#include <pthread.h>
#include <string.h>
#include "base/clock.h"
#include "base/digest.h"
#include "base/random.h"

#define COUNTER_BITS 26
#define COUNTER_MAX ((1u << COUNTER_BITS) - 1)
#define MS_MAX ((UINT64_C(1) << 48) - 1)

static struct {
    pthread_mutex_t lock;
    uint64_t last_ms;
    uint32_t counter;
    size_t random_left;
    uint8_t random[512];
} maker = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void lock_maker(void)
{
    pthread_mutex_lock(&maker.lock);
}

static void unlock_maker(void)
{
    pthread_mutex_unlock(&maker.lock);
}

static void renew_in_child(void)
{
    maker.random_left = 0;
    pthread_mutex_unlock(&maker.lock);
}

static void watch_forks(void)
{
    pthread_atfork(lock_maker, unlock_maker, renew_in_child);
}

static void take_random(uint8_t *out_bytes, size_t len)
{
    if (maker.random_left < len) {
        pal_random_bytes(maker.random, sizeof maker.random);
        maker.random_left = sizeof maker.random;
    }
    maker.random_left -= len;
    memcpy(out_bytes, maker.random + maker.random_left, len);
}

static void start_millisecond(uint64_t ms)
{
    take_random((uint8_t *)&maker.counter, sizeof maker.counter);
    maker.counter &= COUNTER_MAX >> 1;
    maker.last_ms = ms & MS_MAX;
}

static void advance(uint64_t now_ms)
{
    if (now_ms > maker.last_ms)
        start_millisecond(now_ms);
    else if (maker.counter < COUNTER_MAX)
        maker.counter++;
    else
        start_millisecond(maker.last_ms + 1);
}

pal_id pal_id_new(void)
{
    pthread_once(&fork_once, watch_forks);
    int64_t now_ms = pal_clock_now_ms();

    pal_id id;
    pthread_mutex_lock(&maker.lock);
    advance(now_ms > 0 ? (uint64_t)now_ms & MS_MAX : 0);
    uint64_t ms = maker.last_ms;
    uint32_t counter = maker.counter;
    take_random(id.bytes + 10, 6);
    pthread_mutex_unlock(&maker.lock);

    for (int i = 0; i < 6; i++)
        id.bytes[i] = (uint8_t)(ms >> (40 - 8 * i));
    id.bytes[6] = (uint8_t)(0x70 | counter >> 22);
    id.bytes[7] = (uint8_t)(counter >> 14);
    id.bytes[8] = (uint8_t)(0x80 | (counter >> 8 & 0x3f));
    id.bytes[9] = (uint8_t)counter;
    return id;
}

bool pal_id_is_none(pal_id id)
{
    static const pal_id none;
    return memcmp(&id, &none, sizeof id) == 0;
}

bool pal_id_equal(pal_id a, pal_id b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

/* The number of bytes before each of the four hyphens and at the end. */
static const uint8_t groups[] = {0, 4, 6, 8, 10, 16};

void pal_id_to_text(pal_id id, char out_text[PAL_ID_TEXT_SIZE])
{
    char hex[2 * sizeof(id.bytes) + 1];
    pal_hex(id.bytes, sizeof(id.bytes), hex);
    memcpy(out_text, hex, 8);
    memcpy(out_text + 9, hex + 8, 4);
    memcpy(out_text + 14, hex + 12, 4);
    memcpy(out_text + 19, hex + 16, 4);
    memcpy(out_text + 24, hex + 20, 12);
    out_text[8] = out_text[13] = out_text[18] = out_text[23] = '-';
    out_text[PAL_ID_TEXT_LEN] = '\0';
}

bool pal_id_from_text(pal_str text, pal_id *out_id)
{
    if (text.len != PAL_ID_TEXT_LEN)
        return false;
    pal_id id;
    const char *p = text.data;
    for (int i = 0; i < 5; i++) {
        size_t len = (size_t)(groups[i + 1] - groups[i]);
        if (!pal_unhex(pal_str_make(p, 2 * len), id.bytes + groups[i], len))
            return false;
        p += 2 * len;
        if (i < 4 && *p++ != '-')
            return false;
    }
    if (pal_id_is_none(id))
        return false;
    *out_id = id;
    return true;
}
