/* run.h - runs a turn for a client, for every API: starts the turn, reports its events, opens the
 * stream, notices that the client leaves, and cleans up at the end.
 *
 * An API declares a struct whose first member is a pal_run, and a table of functions. A handler
 * creates the struct with pal_run_new(), fills in its own members, and calls pal_run_start().
 * docs/add-an-api.md has the steps and an example.
 *
 * Threads. A run is used by up to four threads, which end in any order:
 *
 *   the runtime's loop   reports the events of the turn, and owns the call until it is answered
 *   a listener thread    reports that the stream has ended or that the client has left
 *   a worker             sends a response that must read the store (pal_run_to_worker())
 *   the store's writer   reports the end of a write (pal_run_apply())
 *
 * Each of them holds a reference while it needs the run. The last one frees it.
 *
 * Locks. `lock` guards the run and the API's struct. The functions of the table are called with
 * this lock held, except for free(). With the lock held, a function can answer the call, open and
 * write the stream, abandon the turn and start the next one. It must not block. It must not call
 * pal_turn_watch() and pal_turn_unwatch(), whose callbacks take the lock, and not
 * pal_store_apply_async(), which calls back at once if the store is in memory: pal_run_apply()
 * writes after the lock was released.
 *
 * The listener reports a client that leaves before the response under its own lock. Opening a
 * stream takes that lock too, while `lock` is held. So that report takes only `client_lock`, which
 * is always taken last. */
#ifndef PAL_RUN_H
#define PAL_RUN_H

#include <pthread.h>
#include "server/server.h"

/* The longest frame of a stream. */
#define PAL_RUN_FRAME_BYTES_MAX ((size_t)64 << 20)

typedef struct pal_run pal_run;

/* ---- Requests ---- */

/* For clients that keep the history themselves: the model gets all of it, or the turn fails.
 * Nothing is summarized or left out. */
void pal_run_send_everything(const pal_server *server, pal_turn_request *request);

/* ---- Failed turns ---- */

#define PAL_RUN_SAME_CODE 0u /* the client gets the code of the model service */

/* One row of the table from failed turns to HTTP codes (run_failure.c). A row applies if both of
 * its conditions hold. A list of rows ends with a zeroed row. */
typedef struct pal_run_failure {
    long from, to;     /* codes of the model service, both included; 0: any code, or none */
    pal_status status; /* status of the turn; PAL_OK: any */
    unsigned code;     /* HTTP code for the client, or PAL_RUN_SAME_CODE */
    const char *name;  /* the API's name of the error; NULL: derived from the status */
    const char *param; /* the request's member that caused the error; NULL: none */
} pal_run_failure;

/* Rows that an API has instead of the common ones. */
extern const pal_run_failure pal_run_failures_responses[];
extern const pal_run_failure pal_run_failures_mistral[];
extern const pal_run_failure pal_run_failures_native[];
extern const pal_run_failure pal_run_failures_anthropic[];

/* Finds the row for a turn that ended and is not done: first in `rows`, which may be NULL, then in
 * the common rows. The result has the final `code`. */
pal_run_failure pal_run_failure_of(const pal_run_failure *rows, const pal_event *end);

/* ---- The table of an API ---- */

typedef struct pal_run_handlers {
    /* The turn was not started. Answer the call. NULL: the call fails with `err`. */
    void (*refused)(pal_run *run, const pal_error *err);

    /* The turn was started. Open the stream here if it begins at once. May be NULL. */
    void (*started)(pal_run *run, const pal_turn_info *info);
    /* One event of the turn, except for the last one. */
    void (*event)(pal_run *run, const pal_event *event);
    /* The answer is recorded. Send the response, or the last frame of the stream. The run then
     * ends the stream. */
    void (*done)(pal_run *run, const pal_event *end);
    /* The same for a turn that failed, was canceled, or was interrupted because the server stops.
     * In the last case, end->number is 0 if the turn did not report it. */
    void (*failed)(pal_run *run, const pal_event *end);

    void (*free)(pal_run *run);      /* frees the API's members; may be NULL */
    const pal_run_failure *failures; /* for pal_run_fail(); NULL: only the common rows */
    bool has_no_arena;               /* run->arena is NULL, which makes an idle stream smaller */
} pal_run_handlers;

/* Says what happens if the client leaves before the end. */
typedef enum pal_run_leave {
    PAL_RUN_ABANDON = 0,  /* the turn is stopped */
    PAL_RUN_CONTINUE = 1, /* the turn continues, and the run reports its events to the end */
    PAL_RUN_READ = 2,     /* the run only reads a turn: the turn continues, the run ends */
} pal_run_leave;

struct pal_run {
    const pal_run_handlers *handlers;
    pal_server *server;
    pal_arena *arena; /* lives as long as the run; the call's arena ends when a stream begins */
    pal_str tenant;
    pal_call *call;     /* NULL after the response was sent or a stream has begun */
    pal_stream *stream; /* NULL if there is no stream, or if it has ended */
    pal_id session;

    /* Set these before the run starts. */
    pal_run_leave leave;
    bool can_ask;      /* the client can answer the turn's questions; see cannot_ask in turn.h */
    bool is_temporary; /* the session exists for this turn only and is erased at the end */

    /* The progress of the run. */
    bool is_streaming; /* a stream was opened, or refused */
    bool is_over;      /* the turn has ended, or its events no longer matter */
    bool keeps_stream; /* set in done() or failed(): the API calls pal_run_end() later */

    /* Only for run.c, except that the API can read `turn`. */
    pthread_mutex_t lock;
    unsigned holders;
    bool is_watching;       /* the runtime reports events */
    bool has_callback;      /* the listener reports that the client leaves */
    pal_turn_request *next; /* the turn that starts when the current one has ended */
    pal_str model;          /* shown in the trace */
    void (*work)(pal_run *run);
    struct run_write *write;     /* a write that begins when the lock is released */
    pthread_mutex_t client_lock; /* guards the next three members */
    pal_id turn;
    bool is_running; /* the turn has not ended, and the client waits for it */
    bool is_gone;    /* the client has left */
};

/* ---- The life of a run ---- */

/* Allocates the API's struct of `size` bytes, zeroed, for a call. NULL: out of memory. If
 * the run is not started, free it with pal_run_release(). */
void *pal_run_new(pal_call *call, const pal_run_handlers *handlers, size_t size);

/* Starts a turn. The run answers the call, also if the turn cannot be started. Neither the call nor
 * the run may be used afterwards. Can be called from any thread. */
void pal_run_start(pal_run *run, const pal_turn_request *request);

/* Joins a turn that was started before: calls started(), then event() for its events after number
 * `after`. The run answers the call. Neither may be used afterwards. With PAL_RUN_READ, call it on
 * a worker. */
void pal_run_join(pal_run *run, const pal_turn_info *info, uint64_t after);

/* Frees a run that was not started. A started run releases itself. Also ends a pal_run_hold(). */
void pal_run_release(pal_run *run);
/* Keeps the run until pal_run_release(), for work that ends later. The lock must be held. */
void pal_run_hold(pal_run *run);
/* For callbacks of the API that are not in its table. */
void pal_run_lock(pal_run *run);
void pal_run_unlock(pal_run *run);

/* ---- For the functions of the table; the lock must be held ---- */

/* Opens the stream, unless it was opened before. Returns false if there is no stream. If it is
 * refused, the call fails, and the turn is stopped unless it should continue without the client. */
bool pal_run_open(pal_run *run);
/* The same, but if the stream is refused, nothing happens: the API answers the call. */
bool pal_run_try_open(pal_run *run);
/* Sends a frame, if there is a stream. If the frame is incomplete because memory is missing, or
 * cannot be sent, the stream ends, so that the client notices the gap. Returns false if there is no
 * stream any more. */
bool pal_run_write(pal_run *run, const pal_buf *frame);
/* Sends what was written, and ends the stream, if there is one. */
void pal_run_end(pal_run *run);

/* Returns the call, in order to answer it. The run no longer uses it. */
pal_call *pal_run_take_call(pal_run *run);
/* Answers the call with the error for a turn that is not done. */
void pal_run_fail(pal_run *run, const pal_event *end);
/* Runs `work` on a worker, without the lock. It must answer the call. False: there is no worker,
 * and the call is still unanswered. */
bool pal_run_to_worker(pal_run *run, void (*work)(pal_run *run));

/* The client needs no more events, although the turn may continue. The API ends the stream. */
void pal_run_stop(pal_run *run);
/* Stops the turn. */
void pal_run_abandon(pal_run *run);
/* Whether the client has left. */
bool pal_run_is_gone(pal_run *run);
/* Called in done(): the run continues with another turn, for the same client. Everything in the
 * request must be in the run's arena. False: out of memory. */
bool pal_run_next(pal_run *run, const pal_turn_request *request);

/* Applies operations, which must be in the run's arena, when the calling function of the table has
 * returned. Each function can do this once. `written` is called with the lock held, on the store's
 * writer or on this thread; it may be NULL. `status` is the first failure of the batch or of one of
 * its operations. False: out of memory. */
typedef void (*pal_run_written)(pal_run *run, pal_status status, const pal_error *err);
bool pal_run_apply(pal_run *run, pal_op *ops, size_t ops_len, pal_run_written written);

/* Adds the usage of one model call to a sum, which stops at the largest number. */
void pal_run_add_usage(pal_usage *sum, const pal_usage *usage);

/* ---- Streams (run_stream.c) ---- */

/* Opens the stream of a call, with the headers that every stream has. See pal_exchange_stream() for
 * `gone`. NULL: it was refused; answer with pal_run_refuse_stream(). */
pal_stream *pal_run_stream(pal_call *call, unsigned code, const char *content_type,
        void (*gone)(void *user), void *user);
/* Sets the error of a call whose stream was refused: 429 if the key has too many streams, otherwise
 * 503. Returns the status. */
pal_status pal_run_refuse_stream(pal_call *call, pal_error *err);

#define PAL_RUN_EVENT_STREAM "text/event-stream; charset=utf-8"

#endif
