/* server_maintenance.c - one thread for periodic maintenance. It sweeps expired sessions, records
 * which keys were used, adds new messages to the search index, reports a database that has lost
 * writes, and sends systemd's watchdog message. It wakes once a second. Every step is bounded, so
 * stopping never waits for long. A crash loses nothing: each step begins again with what the store
 * contains. */
#include "server/server_internal.h"

#include <pthread.h>
#include <time.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "server/access/access_auth.h"
#include "server/api/native/api_feed.h"
#include "server/node/node.h"
#include "server/observe/observe_metrics.h"
#include "server/observe/observe_notify.h"
#include "server/server_settings.h"

#define TICK_MS 1000
#define KEYS_EVERY_MS 10000
/* The node that has the duty of the search index keeps it for this time, and renews it in half of
 * it. The others look as often. */
#define INDEX_DUTY_MS 20000
/* The first sweep comes early, so that a server that is restarted often sweeps too. */
#define FIRST_SWEEP_MS 60000

struct pal_maintenance {
    pal_server *server;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_stopping;
    int64_t interval_ms; /* time between sweeps, from when the next sweep was scheduled */
    int64_t sweep_at_ms; /* on the monotonic clock; -1: never */
    int64_t keys_at_ms;
    int64_t duty_at_ms; /* when the duty of the search index is taken or renewed */
    bool has_duty;      /* this process keeps the search index up to date */
    int64_t watchdog_ms; /* time between watchdog messages; 0: not requested */
    uint64_t went_back;  /* how often the database went back, as far as it was logged */
};

static int64_t now_ms(void)
{
    return pal_clock_monotonic_us() / 1000;
}

static bool is_stopping(pal_maintenance *m)
{
    pthread_mutex_lock(&m->lock);
    bool stop = m->is_stopping;
    pthread_mutex_unlock(&m->lock);
    return stop;
}

/* Waits for a tick. False: the thread must stop. */
static bool wait_tick(pal_maintenance *m)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ms = m->watchdog_ms && m->watchdog_ms < TICK_MS ? m->watchdog_ms : TICK_MS;
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&m->lock);
    while (!m->is_stopping && pthread_cond_timedwait(&m->changed, &m->lock, &until) == 0)
        ;
    bool go_on = !m->is_stopping;
    pthread_mutex_unlock(&m->lock);
    return go_on;
}

static void sweep(pal_maintenance *m)
{
    pal_error err;
    pal_sweep_result step = {.has_more = true}, all = {0};
    int64_t kept_ms = m->server->settings->trash_retention;
    while (step.has_more && !is_stopping(m)) {
        /* The steps are short, but all of them together may take longer than the watchdog
         * allows. */
        if (m->watchdog_ms)
            pal_notify("WATCHDOG=1");
        pal_status status = pal_store_sweep(m->server->store, kept_ms > 0 ? kept_ms : -1,
                PAL_SERVER_SWEEP_STEP, &step, &err);
        if (status != PAL_OK) {
            pal_log(PAL_LOG_WARN, "cleanup of expired sessions failed: %s", err.message);
            return;
        }
        all.trashed += step.trashed;
        all.erased += step.erased;
        pal_metrics_swept(m->server->metrics, step.trashed, step.erased);
    }
    pal_log_field fields[] = {
            {.name = "trashed", .number = (int64_t)all.trashed, .is_number = true},
            {.name = "erased", .number = (int64_t)all.erased, .is_number = true},
    };
    pal_log_event(all.trashed || all.erased ? PAL_LOG_INFO : PAL_LOG_DEBUG, "sweep", fields, 2);
}

/* Keeps the search index up to date, so that a search has little to add. Failures are retried at
 * the next tick. */
static void index_messages(pal_maintenance *m)
{
    bool more = true;
    pal_error err;
    while (more && !is_stopping(m)) {
        if (m->watchdog_ms)
            pal_notify("WATCHDOG=1");
        pal_status status = pal_store_index(m->server->store, 1, &more, &err);
        if (status != PAL_OK)
            pal_log(PAL_LOG_DEBUG, "could not update the search index: %s", err.message);
    }
}

static void report_went_back(pal_maintenance *m)
{
    uint64_t went_back = pal_store_went_back(m->server->store);
    if (went_back > m->went_back)
        pal_log(PAL_LOG_ERROR,
                "the database has lost acknowledged writes: a replica without them took over, or a "
                "backup was restored; recover them from the old primary, and use synchronous "
                "replication (docs/postgres.md)");
    m->went_back = went_back;
}

static void set_sweep(pal_maintenance *m)
{
    int64_t interval = m->server->settings->cleanup_interval;
    int64_t first = interval < FIRST_SWEEP_MS ? interval : FIRST_SWEEP_MS;
    m->interval_ms = interval;
    m->sweep_at_ms = interval > 0 ? now_ms() + first : -1;
}

static void *run(void *user)
{
    pal_maintenance *m = user;
    while (wait_tick(m)) {
        int64_t now = now_ms();
        if (m->watchdog_ms)
            pal_notify("WATCHDOG=1");
        report_went_back(m);
        pal_feed_end_revoked(m->server->feed);
        if (now >= m->keys_at_ms) {
            pal_auth_note_used(m->server->auth);
            m->keys_at_ms = now + KEYS_EVERY_MS;
        }
        if (now >= m->duty_at_ms || !pal_nodes_has_others(m->server->nodes)) {
            m->has_duty = pal_duty_take(m->server, "search", INDEX_DUTY_MS);
            m->duty_at_ms = now + INDEX_DUTY_MS / 2;
        }
        if (m->has_duty)
            index_messages(m);
        if (m->interval_ms != m->server->settings->cleanup_interval)
            set_sweep(m);
        if (m->sweep_at_ms >= 0 && now >= m->sweep_at_ms) {
            /* One sweep in each interval is enough for all nodes. */
            if (pal_duty_take(m->server, "sweep", m->interval_ms / 2))
                sweep(m);
            m->sweep_at_ms = now_ms() + m->interval_ms;
        }
    }
    return NULL;
}

pal_maintenance *pal_maintenance_start(pal_server *server)
{
    pthread_condattr_t attr;
    pal_maintenance *m = pal_calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->server = server;
    set_sweep(m);
    m->keys_at_ms = now_ms() + KEYS_EVERY_MS;
    /* Twice as often as systemd requires, as systemd recommends. */
    m->watchdog_ms = pal_notify_watchdog_us() / 2000;
    pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&m->changed, &attr);
    pthread_condattr_destroy(&attr);
    if (pthread_create(&m->thread, NULL, run, m) == 0)
        return m;
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    pal_free(m);
    return NULL;
}

void pal_maintenance_stop(pal_maintenance *m)
{
    if (!m)
        return;
    pthread_mutex_lock(&m->lock);
    m->is_stopping = true;
    pthread_cond_signal(&m->changed);
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->thread, NULL);
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    pal_free(m);
}
