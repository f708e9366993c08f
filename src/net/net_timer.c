/* net_timer.c - the timers of a loop: a binary heap ordered by time, and one libuv timer for the
 * first of them.
 *
 * Stopping the first timer does not change the libuv timer. It fires once in vain, which is cheaper
 * than setting it again for every call that ends in time. Timers use the real clock, but libuv's
 * clock stands still within a round, so it can fire too early; then it is set again. On the
 * loop. */
#include <assert.h>
#include "base/clock.h"
#include "base/memory.h"
#include "net/net_loop_internal.h"

#define DELAY_MS_MAX ((int64_t)1 << 52) /* prevents overflow of sums */

static void put(pal_timers *timers, size_t position, pal_timer *timer)
{
    timers->heap[position - 1] = timer;
    timer->position = position;
}

static void sift_up(pal_timers *timers, pal_timer *timer)
{
    size_t at = timer->position;
    for (; at > 1; at /= 2) {
        pal_timer *parent = timers->heap[at / 2 - 1];
        if (parent->at_ms <= timer->at_ms)
            break;
        put(timers, at, parent);
    }
    put(timers, at, timer);
}

static void sift_down(pal_timers *timers, pal_timer *timer)
{
    size_t at = timer->position;
    for (size_t child; (child = at * 2) <= timers->len; at = child) {
        if (child < timers->len && timers->heap[child]->at_ms < timers->heap[child - 1]->at_ms)
            child++;
        if (timers->heap[child - 1]->at_ms >= timer->at_ms)
            break;
        put(timers, at, timers->heap[child - 1]);
    }
    put(timers, at, timer);
}

static void remove_timer(pal_timers *timers, pal_timer *timer)
{
    assert(timers->heap[timer->position - 1] == timer);
    pal_timer *last = timers->heap[--timers->len];
    if (last != timer) {
        put(timers, timer->position, last);
        sift_up(timers, last);
        sift_down(timers, last);
    }
    timer->position = 0;
}

static void on_ring(uv_timer_t *clock);

static void arm(pal_loop *loop, int64_t least_ms)
{
    pal_timers *timers = &loop->timers;
    if (timers->len == 0 || timers->heap[0]->at_ms >= timers->armed_ms)
        return;
    timers->armed_ms = timers->heap[0]->at_ms;
    int64_t delay = timers->armed_ms - pal_clock_monotonic_ms();
    uv_timer_start(&timers->clock, on_ring, (uint64_t)(delay > least_ms ? delay : least_ms), 0);
}

/* Fires at most as many timers as there are now, and then waits at least 1 ms. Otherwise a timer
 * that restarts itself without delay would keep the loop here: libuv runs a clock without delay
 * again at once. */
static void on_ring(uv_timer_t *clock)
{
    pal_loop *loop = clock->data;
    pal_timers *timers = &loop->timers;
    int64_t now = pal_clock_monotonic_ms();
    timers->armed_ms = INT64_MAX;
    timers->ringing = true;
    for (size_t left = timers->len; left && timers->len && timers->heap[0]->at_ms <= now; left--) {
        pal_timer *timer = timers->heap[0];
        remove_timer(timers, timer);
        timer->fire(timer);
    }
    timers->ringing = false;
    arm(loop, 1);
}

bool pal_timer_start(pal_loop *loop, pal_timer *timer, int64_t delay_ms, pal_timer_fire fire)
{
    pal_timers *timers = &loop->timers;
    assert(pal_loop_is_on(loop));
    if (!timer->position &&
            !pal_reserve(&timers->heap, &timers->cap, timers->len + 1, sizeof *timers->heap))
        return false;
    delay_ms = delay_ms < 0 ? 0 : delay_ms < DELAY_MS_MAX ? delay_ms : DELAY_MS_MAX;
    timer->fire = fire;
    timer->at_ms = pal_clock_monotonic_ms() + delay_ms;
    if (!timer->position)
        put(timers, ++timers->len, timer);
    sift_up(timers, timer);
    sift_down(timers, timer);
    if (!timers->ringing)
        arm(loop, 0);
    return true;
}

void pal_timer_stop(pal_loop *loop, pal_timer *timer)
{
    if (timer->position)
        remove_timer(&loop->timers, timer);
}

void pal_timers_open(pal_loop *loop)
{
    uv_timer_init(&loop->uv, &loop->timers.clock);
    uv_unref((uv_handle_t *)&loop->timers.clock);
    loop->timers.clock.data = loop;
    loop->timers.armed_ms = INT64_MAX;
}

void pal_timers_close(pal_loop *loop)
{
    uv_close((uv_handle_t *)&loop->timers.clock, NULL);
    pal_free(loop->timers.heap);
}
