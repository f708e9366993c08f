/* channel_host.h - the host of channels: what its files know of each other.
 *
 *   channel_host.c      opens, starts and stops the accounts
 *   channel_owner.c     makes sure that one process has an account
 *   channel_take.c      stores a batch of events in one commit
 *   channel_message.c   makes the request of a message
 *   channel_chat.c      remembers chats
 *   channel_command.c   executes commands
 *   channel_outbox.c    delivers answers
 *   channel_delivery.c  reads and settles one answer
 *   channel_evaluator.c asks a model whether the bot speaks up
 *
 * Threads: everything belongs to the loop of the channels, except what a comment says. Each account
 * has one job on a worker at a time that writes its record (claim, renew or take). */
#ifndef PAL_CHANNEL_HOST_H
#define PAL_CHANNEL_HOST_H

#include <pthread.h>
#include <stdatomic.h>
#include "base/map.h"
#include "base/process.h"
#include "channel/channel_kind.h"
#include "channel/channel_limits.h"

typedef struct pal_delivery pal_delivery;
typedef struct pal_channel_chat_state pal_channel_chat_state;

#define PAL_CHANNEL_RECORD "channel"       /* an account: its cursor and its owner */
#define PAL_CHANNEL_CHAT_RECORD "channel_chat"
#define PAL_CHANNEL_EVENT_RECORD "channel_event" /* a message that the bot has sent */
#define PAL_CHANNEL_DEAD_RECORD "channel_dead" /* what could not be stored or delivered */

/* The account's record. Used by its job only. */
typedef struct pal_channel_record {
    char *cursor;
    size_t cursor_len;
    uint64_t version; /* 0: this process does not have the account */
    /* Of another owner: */
    uint64_t seen_version;
    int64_t seen_since_ms; /* monotonic */
} pal_channel_record;

struct pal_channel_account {
    pal_channels *host;
    pal_channel_settings settings;
    const pal_channel_kind *kind;
    pal_channel *channel; /* NULL: closed */
    bool is_closing;      /* it is closed when the job has ended, which uses its memory */
    pal_str name;         /* "KIND:ACCOUNT": the name of its record and of its outbox */
    pal_channel_state state;
    char reason[256];

    pal_channel_record record;
    bool has_job;  /* a job is on a worker */
    struct pal_take *waiting; /* a batch that waits for the end of the job */
    pal_timer owner_timer;
    pal_timer start_timer;
    int64_t delay_ms; /* the last delay of the back-off */

    /* Chats that were seen. The lock is held for single reads and writes. */
    pthread_mutex_t chats_lock;
    pal_map chats; /* by id */

    /* Answers. `queue` was not read yet; `loaded` is in the order of delivery. */
    pal_delivery *queue, **queue_end;
    pal_delivery *loaded;
    size_t loaded_len, flying;
    pal_map deliveries; /* all of them, by the name of their record */
    bool is_loading;
    int64_t paused_until_ms; /* monotonic; the service asked to wait */
    pal_timer send_timer;

    /* Messages about which a model decides (channel_evaluator.c). */
    struct pal_evaluation *evaluations;
    size_t evaluations_len, evaluations_running;
    int64_t evaluator_day; /* days since 1970 */
    uint64_t evaluator_tokens; /* used on that day */

    atomic_ullong events, answers, sent, undelivered, dead, pending;
    atomic_llong taken_at;
};

struct pal_channels {
    pal_store *store;
    const pal_route_settings *route_settings;
    pal_runtime *runtime; /* NULL: not started */
    pal_channels_on_log on_log;
    void *log_user;
    pal_arena *arena; /* settings */
    pal_loop *loop;
    pal_http *http;
    pal_channel_account *accounts;
    size_t accounts_len;
    char owner[PAL_PROCESS_NAME_SIZE]; /* the name of this process */
    bool is_stopping;
    size_t jobs; /* work on workers, which must end before the loop is closed */
    pal_timer drain_timer;
    pal_task stop_task;
    bool is_stop_posted;
    pal_task task; /* runs open, start and stop, one after another */
    int64_t drain_ms;
    bool is_drained; /* nothing more is delivered */
    bool is_open, has_stopped; /* under the lock, as the state and the reason of accounts */
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

/* The kinds that exist, ending with NULL (channel_host.c). */
extern const pal_channel_kind *const pal_channel_kinds[];

void pal_channel_log(const pal_channel_account *account, bool is_problem, const char *format, ...)
        PAL_PRINTF(3, 4);
/* A kill point: in tests, PALAVER_STOP_AT=POINT:N ends the process at the Nth call. */
void pal_channel_point(const char *point);

/* Starts a timer on the loop. Without memory the timer does not fire, which is logged. */
void pal_channel_timer(
        pal_channels *host, pal_timer *timer, int64_t delay_ms, pal_timer_fire fire);

/* Work on a worker that belongs to the channels, so that they are not closed before it has ended.
 * `done` must call pal_channel_work_done() first. */
void pal_channel_work(pal_channels *host, pal_work_item *item);
void pal_channel_work_done(pal_channels *host);

/* ---- The owner (channel_owner.c) ---- */

/* Takes the account, or renews it, now and again. */
void pal_channel_own(pal_channel_account *account);
/* A batch that waited can be stored now. */
void pal_channel_job_done(pal_channel_account *account);
/* Writes the record's body into the arena. */
pal_str pal_channel_record_body(
        const pal_channel_account *account, pal_str cursor, pal_arena *arena);
/* This process has lost the account: it waits for it. */
void pal_channel_lost(pal_channel_account *account);
/* Gives the account back, so that another process can have it at once. Blocks. */
void pal_channel_disown(pal_channel_account *account);

/* ---- Starting (channel_host.c) ---- */

/* The account is owned, and its record was read: opens the channel and receives. */
void pal_channel_begin(pal_channel_account *account);
/* Calls start() again after a delay that grows; `delay_ms` 0: chosen here. */
void pal_channel_begin_later(pal_channel_account *account, int64_t delay_ms);

/* ---- Batches (channel_take.c) ---- */

typedef struct pal_take pal_take;
void pal_take_run(pal_take *take); /* the account has no job */
void pal_take_drop(pal_take *take); /* the account is closed */

/* ---- Answers (channel_outbox.c) ---- */

/* Adds the record of an answer, unless it is known. With `is_left`, an earlier process may have
 * sent the answer, so long ago that the service does not recognize its id. */
void pal_channel_outbox_add(pal_channel_account *account, pal_str name, bool is_left);
/* Sends what can be sent now. */
void pal_channel_outbox_send(pal_channel_account *account);
/* Forgets all answers; their records stay. The channel is closed. */
void pal_channel_outbox_forget(pal_channel_account *account);

#endif
