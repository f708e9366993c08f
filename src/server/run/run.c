/* run.c - the life of a run; run.h describes its threads, locks and references.
 *
 *   pal_run_start()  -> on_start()   refused, or begin(): started(), then the turn is watched
 *   pal_run_join()   -> begin()
 *   on_event()       each event; the last one is finish(): done() or failed(), the stream ends
 *   on_watch_end()   no more events come; if there was no last one, the server is stopping. The
 *                    next turn of the run starts here
 *   on_stream_end(), on_client_left()   the client is gone
 *
 * The reference of the turn goes from pal_run_new() to on_start() to on_watch_end(). A stream, a
 * worker and a write each add one. */
#include "server/run/run.h"

#include <string.h>
#include "base/memory.h"
#include "base/sum.h"
#include "dialect/dialect_member.h"
#include "server/server_call.h"

/* ---- Requests ---- */

void pal_run_send_everything(const pal_server *server, pal_turn_request *request)
{
    request->has_context = true;
    request->context = *server->config->context;
    request->context.strategy = PAL_STRATEGY_NONE;
}

/* ---- References ---- */

void *pal_run_new(pal_call *call, const pal_run_handlers *handlers, size_t size)
{
    pal_str tenant = call->caller.tenant;
    pal_run *run = pal_calloc(1, size + tenant.len + 1);
    if (!run)
        return NULL;
    if (!handlers->has_no_arena) {
        run->arena = pal_arena_new(0);
        if (!run->arena) {
            pal_free(run);
            return NULL;
        }
    }
    char *copy = (char *)run + size;
    if (tenant.len)
        memcpy(copy, tenant.data, tenant.len);
    run->tenant = pal_str_make(copy, tenant.len);
    pthread_mutex_init(&run->lock, NULL);
    pthread_mutex_init(&run->client_lock, NULL);
    run->handlers = handlers;
    run->server = call->server;
    run->call = call;
    run->holders = 1;
    return run;
}

void pal_run_lock(pal_run *run)
{
    pthread_mutex_lock(&run->lock);
}

void pal_run_unlock(pal_run *run)
{
    pthread_mutex_unlock(&run->lock);
}

void pal_run_hold(pal_run *run)
{
    run->holders++;
}

void pal_run_release(pal_run *run)
{
    pal_run_lock(run);
    bool is_last = --run->holders == 0;
    pal_run_unlock(run);
    if (!is_last)
        return;
    if (run->handlers->free)
        run->handlers->free(run);
    pthread_mutex_destroy(&run->client_lock);
    pthread_mutex_destroy(&run->lock);
    pal_arena_free(run->arena);
    pal_free(run);
}

/* ---- The client leaves ---- */

static void set_turn(pal_run *run, pal_id turn, bool is_running)
{
    pthread_mutex_lock(&run->client_lock);
    run->turn = turn;
    run->is_running = is_running;
    pthread_mutex_unlock(&run->client_lock);
}

void pal_run_abandon(pal_run *run)
{
    pthread_mutex_lock(&run->client_lock);
    bool is_running = run->is_running;
    pal_id turn = run->turn;
    pthread_mutex_unlock(&run->client_lock);
    if (is_running)
        pal_turn_cancel_async(run->server->runtime, run->tenant, turn);
}

bool pal_run_is_gone(pal_run *run)
{
    pthread_mutex_lock(&run->client_lock);
    bool is_gone = run->is_gone;
    pthread_mutex_unlock(&run->client_lock);
    return is_gone;
}

static void leave(pal_run *run)
{
    pthread_mutex_lock(&run->client_lock);
    run->is_gone = true;
    pthread_mutex_unlock(&run->client_lock);
    if (run->leave == PAL_RUN_ABANDON)
        pal_run_abandon(run);
}

/* The client left before the response. Called on a listener thread, under the listener's lock.
 * pal_run_take_call() removes this callback, so the run exists. */
static void on_client_left(void *user)
{
    leave(user);
}

/* Called on a listener thread. A reader stops watching, because the next event of its turn may come
 * only after hours. */
static void on_stream_end(void *user)
{
    pal_run *run = user;
    pal_run_lock(run);
    run->stream = NULL;
    bool must_unwatch = run->leave == PAL_RUN_READ && run->is_watching;
    pal_run_unlock(run);
    leave(run);
    if (must_unwatch)
        pal_turn_unwatch(run->server->runtime, run->turn, run);
    pal_run_release(run);
}

/* ---- The response ---- */

pal_call *pal_run_take_call(pal_run *run)
{
    pal_call *call = run->call;
    run->call = NULL;
    /* The response may be sent after the run is freed: pal_call_send() first stores it. */
    pal_exchange_unwatch(call->exchange);
    return call;
}

bool pal_run_try_open(pal_run *run)
{
    if (run->is_streaming)
        return run->stream != NULL;
    run->is_streaming = true;
    run->holders++;
    run->stream = pal_run_stream(run->call, 200, PAL_RUN_EVENT_STREAM, on_stream_end, run);
    if (run->stream)
        run->call = NULL;
    else
        run->holders--;
    return run->stream != NULL;
}

bool pal_run_open(pal_run *run)
{
    pal_error err;
    if (pal_run_try_open(run))
        return true;
    if (!run->call)
        return false; /* the stream has ended, or was refused before */
    pal_call *call = pal_run_take_call(run);
    pal_status status = pal_run_refuse_stream(call, &err);
    pal_call_fail(call, status, &err);
    if (run->leave == PAL_RUN_ABANDON)
        pal_run_abandon(run);
    else if (run->leave == PAL_RUN_READ)
        run->is_over = true;
    return false;
}

bool pal_run_write(pal_run *run, const pal_buf *frame)
{
    if (run->stream && (frame->failure || !pal_stream_write(run->stream, pal_buf_str(frame))))
        pal_run_end(run);
    return run->stream != NULL;
}

void pal_run_end(pal_run *run)
{
    if (run->stream)
        pal_stream_end(run->stream);
    run->stream = NULL;
}

static void on_worker(pal_exchange *x)
{
    const pal_call *call = x->call;
    pal_run *run = call->user;
    run->work(run);
    pal_run_release(run);
}

bool pal_run_to_worker(pal_run *run, void (*work)(pal_run *run))
{
    run->work = work;
    run->call->user = run;
    run->holders++;
    if (pal_exchange_try_worker(run->call->exchange, on_worker))
        return true;
    run->holders--;
    return false;
}

void pal_run_stop(pal_run *run)
{
    run->is_over = true;
    set_turn(run, run->turn, false);
}

/* ---- Writes ---- */

typedef struct run_write {
    pal_run *run;
    pal_op *ops;
    size_t ops_len;
    pal_run_written written;
} run_write;

bool pal_run_apply(pal_run *run, pal_op *ops, size_t ops_len, pal_run_written written)
{
    run->write = pal_arena_alloc(run->arena, sizeof *run->write);
    if (run->write)
        *run->write = (run_write){run, ops, ops_len, written};
    return run->write != NULL;
}

static void unlock_and_write(pal_run *run);

static void on_written(
        pal_op *ops, size_t ops_len, pal_status status, const pal_error *err, void *user)
{
    const run_write *write = user;
    pal_run *run = write->run;
    for (size_t i = 0; status == PAL_OK && i < ops_len; i++) {
        status = ops[i].status;
        err = &ops[i].error;
    }
    pal_run_lock(run);
    if (write->written)
        write->written(run, status, err);
    unlock_and_write(run);
    pal_run_release(run);
}

/* Unlocks the run, then begins the write that was requested while it was locked. */
static void unlock_and_write(pal_run *run)
{
    pal_error err = {0};
    run_write *write = run->write;
    run->write = NULL;
    run->holders += write != NULL;
    pal_run_unlock(run);
    if (!write)
        return;
    pal_status status = pal_store_apply_async(
            run->server->store, write->ops, write->ops_len, on_written, write, &err);
    if (status != PAL_OK)
        on_written(NULL, 0, status, &err, write);
}

/* ---- The end of the turn ---- */

/* The lock must be held. If this fails, the session expires. */
static void erase_temporary(pal_run *run)
{
    pal_erase_result *erasure = pal_arena_alloc(run->arena, sizeof *erasure);
    pal_op *op = pal_arena_alloc(run->arena, sizeof *op);
    if (!erasure || !op)
        return;
    *op = pal_op_erase(run->tenant, run->session, erasure);
    (void)pal_run_apply(run, op, 1, NULL);
}

/* The lock must be held. */
static void end_run(pal_run *run)
{
    if (!run->keeps_stream)
        pal_run_end(run);
    if (run->is_temporary)
        erase_temporary(run);
}

/* The lock must be held. */
static void finish(pal_run *run, const pal_event *end)
{
    pal_run_stop(run);
    if (end->state == PAL_TURN_DONE)
        run->handlers->done(run, end);
    else
        run->handlers->failed(run, end);
    if (run->next)
        run->is_over = false;
    else
        end_run(run);
}

bool pal_run_next(pal_run *run, const pal_turn_request *request)
{
    run->next = pal_arena_alloc(run->arena, sizeof *run->next);
    if (run->next)
        *run->next = *request;
    return run->next != NULL;
}

/* ---- Events, on the loop ---- */

static bool on_event(const pal_event *event, void *user)
{
    pal_run *run = user;
    pal_run_lock(run);
    if (!run->is_over && event->kind == PAL_EVENT_ENDED)
        finish(run, event);
    else if (!run->is_over)
        run->handlers->event(run, event);
    bool continues = !run->is_over && event->kind != PAL_EVENT_ENDED;
    unlock_and_write(run);
    return continues;
}

/* If the end of the turn was not reported, the run ends with `lost`. */
static void end_watch(pal_run *run, const pal_event *lost)
{
    pal_run_lock(run);
    run->is_watching = false;
    if (!run->is_over && !run->next)
        finish(run, lost);
    const pal_turn_request *next = run->next;
    run->next = NULL;
    unlock_and_write(run);
    if (next)
        pal_run_start(run, next);
    else
        pal_run_release(run);
}

static void on_watch_end(void *user)
{
    const pal_event lost = {.kind = PAL_EVENT_ENDED,
            .state = PAL_TURN_CANCELED,
            .text = pal_str_of("the server is stopping")};
    end_watch(user, &lost);
}

/* ---- Starting ---- */

static void watch(pal_run *run, uint64_t after)
{
    pal_error err = {0};
    pal_run_lock(run);
    run->is_watching = true;
    run->holders++; /* the watch may end before pal_turn_watch() returns */
    pal_run_unlock(run);
    if (pal_turn_watch(run->server->runtime, run->tenant, run->turn, after, on_event, on_watch_end,
                run, &err) != PAL_OK) {
        const pal_event lost = {.kind = PAL_EVENT_ENDED,
                .state = PAL_TURN_FAILED,
                .status = err.status,
                .text = pal_str_of(err.message)};
        if (run->leave == PAL_RUN_ABANDON)
            pal_run_abandon(run);
        end_watch(run, &lost);
    }
    /* If a reader left before the watch began, on_stream_end() could not end the watch. */
    pal_run_lock(run);
    bool must_unwatch = run->leave == PAL_RUN_READ && !run->stream && run->is_watching;
    pal_run_unlock(run);
    if (must_unwatch)
        pal_turn_unwatch(run->server->runtime, run->turn, run);
    pal_run_release(run);
}

static void begin(pal_run *run, const pal_turn_info *info, uint64_t after)
{
    pal_run_lock(run);
    set_turn(run, info->turn, true);
    if (run->handlers->started)
        run->handlers->started(run, info);
    if (run->call && run->leave == PAL_RUN_ABANDON && !run->is_over && !run->has_callback)
        run->has_callback = pal_exchange_watch(run->call->exchange, on_client_left, run);
    bool is_over = run->is_over;
    unlock_and_write(run);
    if (is_over) {
        pal_run_release(run);
        return;
    }
    /* The client may have left while this turn was being started. */
    if (run->leave == PAL_RUN_ABANDON && pal_run_is_gone(run))
        pal_run_abandon(run);
    watch(run, after);
}

static void refuse(pal_run *run, const pal_error *err)
{
    pal_run_lock(run);
    run->is_over = true;
    if (run->handlers->refused)
        run->handlers->refused(run, err);
    else
        pal_call_fail(pal_run_take_call(run), err->status, err);
    end_run(run);
    unlock_and_write(run);
    pal_run_release(run);
}

/* Called on the loop. */
static void on_start(const pal_turn_info *info, const pal_error *err, void *user)
{
    pal_run *run = user;
    if (err) {
        refuse(run, err);
        return;
    }
    if (run->call) {
        pal_call_trace_turn(run->call, info, run->model);
        /* A temporary session is erased, but the response must still be stored under the
         * idempotency key, so the response belongs to no session. */
        run->call->owner = run->is_temporary ? (pal_id){{0}} : run->session;
    }
    begin(run, info, 0);
}

void pal_run_start(pal_run *run, const pal_turn_request *request)
{
    pal_error err = {0};
    pal_turn_request asked = *request;
    asked.cannot_ask |= !run->can_ask;
    run->session = request->session;
    run->model = pal_arena_copy(run->arena, request->model);
    pal_status status = pal_arena_checked(run->arena, &err);
    if (status == PAL_OK)
        status = pal_turn_start_async(run->server->runtime, &asked, on_start, run, &err);
    if (status != PAL_OK)
        refuse(run, &err);
}

void pal_run_join(pal_run *run, const pal_turn_info *info, uint64_t after)
{
    run->session = info->session;
    begin(run, info, after);
}

void pal_run_add_usage(pal_usage *sum, const pal_usage *usage)
{
    pal_sum_u64(&sum->input, usage->input);
    pal_sum_u64(&sum->cache_read, usage->cache_read);
    pal_sum_u64(&sum->cache_write, usage->cache_write);
    pal_sum_u64(&sum->output, usage->output);
    pal_sum_u64(&sum->reasoning, usage->reasoning);
}
