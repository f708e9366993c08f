/* server_care.c - one thread for periodic maintenance. It sweeps expired sessions, records which
 * keys were used, adds new messages to the search index, and sends systemd's watchdog message. It
 * wakes once a second. Every step is bounded, so stopping never waits for long. */
#include "server/server_care.h"

#include <pthread.h>
#include <time.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "server/access/access_auth.h"
#include "server/observe/observe_metrics.h"
#include "server/observe/observe_notify.h"
#include "server/server_settings.h"

#define TICK_MS 1000
#define KEYS_EVERY_MS 10000
/* The first sweep comes early, so that a server that is restarted often sweeps too. */
#define FIRST_SWEEP_MS 60000

struct pal_care {
    pal_server *server;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_stopping;
    int64_t interval_ms; /* time between sweeps, from when the next sweep was scheduled */
    int64_t sweep_at_ms; /* on the monotonic clock; -1: never */
    int64_t keys_at_ms;
    int64_t watchdog_ms; /* time between watchdog messages; 0: not requested */
};

static int64_t now_ms(void)
{
    return pal_clock_monotonic_us() / 1000;
}

static bool is_stopping(pal_care *care)
{
    pthread_mutex_lock(&care->lock);
    bool stop = care->is_stopping;
    pthread_mutex_unlock(&care->lock);
    return stop;
}

/* Waits for a tick. False: the thread must stop. */
static bool wait_tick(pal_care *care)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ms = care->watchdog_ms && care->watchdog_ms < TICK_MS ? care->watchdog_ms : TICK_MS;
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&care->lock);
    while (!care->is_stopping && pthread_cond_timedwait(&care->changed, &care->lock, &until) == 0)
        ;
    bool go_on = !care->is_stopping;
    pthread_mutex_unlock(&care->lock);
    return go_on;
}

static void sweep(pal_care *care)
{
    pal_error err;
    pal_sweep_result step = {.has_more = true}, all = {0};
    int64_t kept_ms = care->server->settings->trash_retention;
    while (step.has_more && !is_stopping(care)) {
        /* The steps are short, but all of them together may take longer than the watchdog
         * allows. */
        if (care->watchdog_ms)
            pal_notify("WATCHDOG=1");
        pal_status status = pal_store_sweep(care->server->store, kept_ms > 0 ? kept_ms : -1,
                PAL_SERVER_SWEEP_STEP, &step, &err);
        if (status != PAL_OK) {
            pal_log(PAL_LOG_WARN, "cleanup of expired sessions failed: %s", err.message);
            return;
        }
        all.trashed += step.trashed;
        all.erased += step.erased;
        pal_metrics_swept(care->server->metrics, step.trashed, step.erased);
    }
    pal_log_field fields[] = {
            {.name = "trashed", .number = (int64_t)all.trashed, .is_number = true},
            {.name = "erased", .number = (int64_t)all.erased, .is_number = true},
    };
    pal_log_event(all.trashed || all.erased ? PAL_LOG_INFO : PAL_LOG_DEBUG, "sweep", fields, 2);
}

/* Keeps the search index up to date, so that a search has little to add. Failures are retried at
 * the next tick. */
static void index_messages(pal_care *care)
{
    bool more = true;
    pal_error err;
    while (more && !is_stopping(care)) {
        if (care->watchdog_ms)
            pal_notify("WATCHDOG=1");
        pal_status status = pal_store_index(care->server->store, 1, &more, &err);
        if (status != PAL_OK)
            pal_log(PAL_LOG_DEBUG, "could not update the search index: %s", err.message);
    }
}

static void set_sweep(pal_care *care)
{
    int64_t interval = care->server->settings->cleanup_interval;
    int64_t first = interval < FIRST_SWEEP_MS ? interval : FIRST_SWEEP_MS;
    care->interval_ms = interval;
    care->sweep_at_ms = interval > 0 ? now_ms() + first : -1;
}

static void *care_loop(void *user)
{
    pal_care *care = user;
    while (wait_tick(care)) {
        int64_t now = now_ms();
        if (care->watchdog_ms)
            pal_notify("WATCHDOG=1");
        if (now >= care->keys_at_ms) {
            pal_keys_note_used(care->server->keys);
            care->keys_at_ms = now + KEYS_EVERY_MS;
        }
        index_messages(care);
        if (care->interval_ms != care->server->settings->cleanup_interval)
            set_sweep(care);
        if (care->sweep_at_ms >= 0 && now >= care->sweep_at_ms) {
            sweep(care);
            care->sweep_at_ms = now_ms() + care->interval_ms;
        }
    }
    return NULL;
}

static void set_times(pal_care *care)
{
    set_sweep(care);
    care->keys_at_ms = now_ms() + KEYS_EVERY_MS;
    /* Twice as often as systemd requires, as systemd recommends. */
    care->watchdog_ms = pal_notify_watchdog_us() / 2000;
}

pal_care *pal_care_start(pal_server *server)
{
    pthread_condattr_t attr;
    pal_care *care = pal_calloc(1, sizeof *care);
    if (!care)
        return NULL;
    care->server = server;
    set_times(care);
    pthread_mutex_init(&care->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&care->changed, &attr);
    pthread_condattr_destroy(&attr);
    if (pthread_create(&care->thread, NULL, care_loop, care) == 0)
        return care;
    pthread_cond_destroy(&care->changed);
    pthread_mutex_destroy(&care->lock);
    pal_free(care);
    return NULL;
}

void pal_care_stop(pal_care *care)
{
    if (!care)
        return;
    pthread_mutex_lock(&care->lock);
    care->is_stopping = true;
    pthread_cond_signal(&care->changed);
    pthread_mutex_unlock(&care->lock);
    pthread_join(care->thread, NULL);
    pthread_cond_destroy(&care->changed);
    pthread_mutex_destroy(&care->lock);
    pal_free(care);
}
