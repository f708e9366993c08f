/* api_openai_responses_run.c - a response while its turn runs, and how it is answered: whole, as a
 * stream, or at once where it runs in the background.
 *
 * A run belongs to up to four sides, which end in any order: the turn, whose events come on the
 * runtime's loop; the stream, whose end is told on a listener's thread; a write of its own, told by
 * the store's writer; whoever began it. Each holds it, and the last one frees it. Its lock guards
 * everything. The call is the loop's until it is answered.
 *
 * The record is written by finish(), in the commit of the answer. Who is told that it is over finds
 * it stored. */
#include "server/api_openai_responses.h"

#include <pthread.h>
#include "base/clock.h"
#include "base/memory.h"
#include "dialect/dialect_member.h"
#include "server/server_call.h"
#include "server/server_put.h"

typedef struct response_run {
    pthread_mutex_t lock;
    unsigned holders;
    pal_server *server;
    pal_arena *arena; /* of everything here */
    pal_str tenant;
    pal_call *call;     /* NULL: answered */
    pal_stream *stream; /* NULL: none, or gone */
    pal_response response;
    pal_response_events events;
    uint64_t next_event; /* of the turn; another one means that some are lost */
    bool wants_stream;
    bool is_waiting; /* its stream begins when its record is kept; what is told meanwhile */
    pal_buf early;   /* is here */
    bool is_stored;
    bool is_new;     /* the session is its own */
    bool is_passing; /* and is erased at the end */
    bool is_reader;  /* it looks on only: the turn is somebody else's */
    bool is_over;
    void (*again)(pal_response_request *request);
    pal_response_request *request; /* the call's */
    pal_op op;
    pal_record record;
    pal_erasure erasure;
} response_run;

static void hold(response_run *run)
{
    pthread_mutex_lock(&run->lock);
    run->holders++;
    pthread_mutex_unlock(&run->lock);
}

static void release(response_run *run)
{
    pthread_mutex_lock(&run->lock);
    bool is_last = --run->holders == 0;
    pthread_mutex_unlock(&run->lock);
    if (!is_last)
        return;
    pthread_mutex_destroy(&run->lock);
    pal_response_events_done(&run->events);
    pal_buf_done(&run->early);
    pal_arena_free(run->arena);
    pal_free(run);
}

static response_run *new_run(pal_call *call)
{
    response_run *run = pal_calloc(1, sizeof *run);
    pal_arena *arena = run ? pal_arena_new(0) : NULL;
    if (!arena) {
        pal_free(run);
        return NULL;
    }
    pthread_mutex_init(&run->lock, NULL);
    run->holders = 1;
    run->server = call->server;
    run->arena = arena;
    run->call = call;
    run->tenant = pal_arena_copy(arena, call->caller.tenant);
    pal_response_events_init(&run->events, &run->response);
    run->events.user = run;
    pal_buf_init(&run->early, PAL_RESPONSE_STREAM_BYTES_MAX);
    return run;
}

/* ---- Writes of its own ---- */

static void written(
        pal_op *ops, size_t ops_len, pal_status status, const pal_error *err, void *user)
{
    (void)ops;
    (void)ops_len;
    (void)status;
    (void)err;
    release(user);
}

/* Nobody waits for it. What is lost is settled by whoever asks next, or is swept. */
static void write_op(response_run *run)
{
    hold(run);
    if (pal_store_apply_async(run->server->store, &run->op, 1, written, run, NULL) != PAL_OK)
        release(run);
}

static bool fill_record(response_run *run, uint64_t expected_version)
{
    run->op = (pal_op){.kind = PAL_OP_RECORD_PUT,
            .tenant = run->tenant,
            .session = run->response.session,
            .u.record = {&run->record, expected_version}};
    return pal_response_record(&run->response, run->arena, &run->record, NULL) == PAL_OK;
}

/* What is left of one that did not end well, or is not to be stored. */
static void clean_up(response_run *run)
{
    bool is_answered = run->response.status == PAL_RESPONSE_COMPLETED ||
            run->response.status == PAL_RESPONSE_INCOMPLETE;
    if (run->is_reader)
        return;
    run->op =
            (pal_op){.kind = PAL_OP_NONE, .tenant = run->tenant, .session = run->response.session};
    if (run->is_passing) {
        run->op.kind = PAL_OP_ERASE;
        run->op.u.erasure = &run->erasure;
    } else if (run->response.is_background && !is_answered) {
        if (!fill_record(run, PAL_VERSION_ANY))
            return;
    } else if (run->is_new && !is_answered) {
        run->op.kind = PAL_OP_DELETE; /* the log of it stays until the trash is emptied */
    }
    if (run->op.kind != PAL_OP_NONE)
        write_op(run);
}

/* ---- Its end ---- */

/* `at` in milliseconds: everyone who looks on tells the same. */
static void set_end(
        response_run *run, int64_t at, bool is_length, bool is_filtered, const pal_usage *usage)
{
    pal_response *response = &run->response;
    if (pal_response_is_over(response))
        return;
    response->status = is_length || is_filtered ? PAL_RESPONSE_INCOMPLETE : PAL_RESPONSE_COMPLETED;
    response->is_filtered = is_filtered;
    response->usage = *usage;
    response->completed_at = at / 1000;
}

/* On the loop, before the commit of the answer. */
static pal_status finish(const pal_turn_end *end, pal_arena *arena, pal_record *out_record,
        void *user, pal_error *err)
{
    response_run *run = user;
    pal_response *response = &run->response;
    pthread_mutex_lock(&run->lock);
    set_end(run, end->answer->created_at, end->finish_length, end->finish_filtered, &end->usage);
    response->output =
            pal_response_events_messages(&run->events, run->arena, &response->output_len);
    response->deltas = pal_response_events_deltas(&run->events);
    pal_status status = PAL_OK;
    if (!response->output || run->events.failure)
        status = pal_error_set(err, PAL_NO_MEMORY, "out of memory, or too many events");
    else if (run->is_stored)
        status = pal_response_record(response, arena, out_record, err);
    response->deltas = (pal_str){0};
    pthread_mutex_unlock(&run->lock);
    return status;
}

/* Under the lock. */
static void send_whole(const response_run *run, pal_call *call)
{
    pal_error err = {0};
    pal_status status = pal_response_put(
            pal_call_writer(call), &run->response, pal_response_events_output, &run->events, &err);
    if (status == PAL_OK)
        pal_call_send(call, 200);
    else
        pal_call_fail(call, status, &err);
}

/* Under the lock. */
static void end_writing(response_run *run)
{
    if (run->stream)
        pal_stream_end(run->stream);
    run->stream = NULL;
}

/* Under the lock. */
static void end_stream(response_run *run)
{
    pal_response_events_end(&run->events);
    end_writing(run);
}

/* Under the lock. */
static void end(response_run *run, const pal_event *event)
{
    bool is_done = event->state == PAL_TURN_DONE && !run->events.failure;
    pal_call *call = run->response.is_background ? NULL : run->call;
    run->is_over = true;
    if (is_done)
        set_end(run, pal_clock_now_ms(), false, false, &event->usage);
    else
        pal_response_set_failure(&run->response, event, run->arena);
    if (run->wants_stream) {
        end_stream(run);
        return;
    }
    if (call)
        run->call = NULL;
    if (call && is_done)
        send_whole(run, call);
    else if (call)
        pal_response_fail_call(call, event);
}

/* ---- What is told of the turn, on the loop ---- */

static void note(response_run *run, const pal_event *event)
{
    pal_response_events *events = &run->events;
    switch (event->kind) {
    case PAL_EVENT_STEP:
        pal_response_events_message(events, event->message);
        break;
    case PAL_EVENT_TEXT:
        pal_response_events_text(events,
                event->is_refusal ? PAL_RESPONSE_REFUSAL : PAL_RESPONSE_TEXT, event->count,
                event->text);
        break;
    case PAL_EVENT_REASONING:
        pal_response_events_text(events, PAL_RESPONSE_REASONING, event->count, event->text);
        break;
    case PAL_EVENT_CALL:
        pal_response_events_call(events, event->count, event->call_id, event->name);
        break;
    case PAL_EVENT_ARGUMENTS:
        pal_response_events_arguments(events, event->call_id, event->text);
        break;
    case PAL_EVENT_MESSAGE:
        set_end(run, event->at, event->finish_length, event->finish_filtered, &event->usage);
        break;
    default:
        break;
    }
}

static bool watch(const pal_event *event, void *user)
{
    response_run *run = user;
    bool is_end = event->kind == PAL_EVENT_ENDED;
    if (!run->is_reader)
        pal_server_log_event(event, run->response.session);
    pthread_mutex_lock(&run->lock);
    bool has_gap = event->number != run->next_event++;
    if (has_gap)
        run->events.failure = PAL_LIMIT;
    if (is_end)
        end(run, event);
    else
        note(run, event);
    pthread_mutex_unlock(&run->lock);
    if (is_end)
        clean_up(run);
    else if (has_gap && !run->is_reader)
        pal_turn_abandon(run->server->runtime, run->tenant, run->response.turn);
    return !run->is_reader || !has_gap;
}

static void watch_gone(void *user)
{
    response_run *run = user;
    pthread_mutex_lock(&run->lock);
    if (!run->is_over) {
        const pal_event lost = {.kind = PAL_EVENT_ENDED,
                .state = PAL_TURN_CANCELED,
                .text = pal_str_of("the server stops, or the events are lost")};
        end(run, &lost);
    }
    pthread_mutex_unlock(&run->lock);
    release(run);
}

/* ---- Clients that leave ---- */

typedef struct waiting_client { /* in the call's arena */
    pal_runtime *runtime;
    pal_str tenant;
    pal_id turn;
} waiting_client;

/* On a thread of the listener's. */
static void client_left(void *user)
{
    const waiting_client *client = user;
    pal_turn_abandon(client->runtime, client->tenant, client->turn);
}

static void watch_client(response_run *run)
{
    pal_call *call = run->call;
    waiting_client *client = pal_arena_alloc(call->arena, sizeof *client);
    if (!client)
        return;
    *client = (waiting_client){run->server->runtime, call->caller.tenant, run->response.turn};
    (void)pal_exchange_watch(call->exchange, client_left, client);
}

/* On a thread of the listener's. */
static void stream_gone(void *user)
{
    response_run *run = user;
    pthread_mutex_lock(&run->lock);
    run->stream = NULL;
    bool is_left = !run->is_over && !run->response.is_background && !run->is_reader;
    pthread_mutex_unlock(&run->lock);
    if (is_left)
        pal_turn_abandon(run->server->runtime, run->tenant, run->response.turn);
    release(run);
}

/* ---- Streams ---- */

/* Under the lock. */
static bool write_frame(pal_str frame, void *user)
{
    response_run *run = user;
    if (!run->is_waiting)
        return run->stream && pal_stream_write(run->stream, frame);
    pal_buf_append_str(&run->early, frame);
    return !run->early.failure;
}

/* Under the lock. False: it has been refused. */
static bool open_stream(response_run *run)
{
    pal_call *call = run->call;
    pal_error err;
    run->call = NULL;
    pal_call_streaming(call);
    pal_exchange_add_header(call->exchange, "cache-control", pal_str_of("no-store"));
    pal_exchange_add_header(call->exchange, "x-accel-buffering", pal_str_of("no"));
    run->holders++;
    run->stream = pal_exchange_stream(
            call->exchange, 200, "text/event-stream; charset=utf-8", stream_gone, run);
    if (run->stream) {
        pal_stream_allow(run->stream, PAL_RESPONSE_STREAM_BYTES_MAX);
        return true;
    }
    run->holders--;
    pal_status status = pal_call_refuse_stream(call, &err);
    pal_call_fail(call, status, &err);
    return false;
}

/* Under the lock. False: it has been refused. */
static bool begin_stream(response_run *run)
{
    run->events.write = write_frame;
    if (!run->is_waiting && !open_stream(run))
        return false;
    pal_response_events_begin(&run->events);
    return true;
}

/* ---- In the background ---- */

/* Under the lock: what was told so far, and from now on all as it comes. */
static void join_stream(response_run *run)
{
    run->is_waiting = false;
    if (!open_stream(run))
        return; /* it runs on, and can be asked for */
    if (run->early.failure || !pal_stream_write(run->stream, pal_buf_str(&run->early)) ||
            run->is_over)
        end_writing(run);
    pal_buf_done(&run->early);
}

/* Under the lock. */
static void send_begun(response_run *run)
{
    pal_error err = {0};
    pal_call *call = run->call;
    pal_response begun = run->response;
    run->call = NULL;
    begun.status = PAL_RESPONSE_IN_PROGRESS;
    begun.completed_at = 0;
    pal_status status = pal_response_put(pal_call_writer(call), &begun, NULL, NULL, &err);
    if (status == PAL_OK)
        pal_call_send(call, 200);
    else
        pal_call_fail(call, status, &err);
}

/* On the store's writer. A record that is there already is a newer one: it is over. */
static void background_kept(
        pal_op *ops, size_t ops_len, pal_status status, const pal_error *err, void *user)
{
    response_run *run = user;
    (void)ops_len;
    if (status == PAL_OK && ops[0].status != PAL_CONFLICT) {
        status = ops[0].status;
        err = &ops[0].error;
    }
    pthread_mutex_lock(&run->lock);
    if (status != PAL_OK) {
        pal_call *call = run->call;
        run->call = NULL;
        pal_call_fail(call, status, err);
        pal_turn_abandon(run->server->runtime, run->tenant, run->response.turn);
    } else if (run->wants_stream) {
        join_stream(run);
    } else {
        send_begun(run);
    }
    pthread_mutex_unlock(&run->lock);
    release(run);
}

/* It is known durably before the client hears of it. */
static pal_status keep_background(response_run *run, pal_error *err)
{
    pal_record *record = pal_arena_alloc(run->arena, sizeof *record);
    pal_op *op = pal_arena_alloc(run->arena, sizeof *op);
    if (!record || !op)
        return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    pal_status status = pal_response_record(&run->response, run->arena, record, err);
    if (status != PAL_OK)
        return status;
    *op = (pal_op){.kind = PAL_OP_RECORD_PUT,
            .tenant = run->tenant,
            .session = run->response.session,
            .u.record = {record, 0}};
    hold(run);
    status = pal_store_apply_async(run->server->store, op, 1, background_kept, run, err);
    if (status != PAL_OK)
        release(run);
    return status;
}

/* ---- Beginning ---- */

/* It was asked before, under the same key, and nobody remembers the turn: on a worker. */
static void recall(pal_exchange *x)
{
    pal_call *call = pal_exchange_user(x);
    char id[PAL_OPENAI_ID_SIZE];
    pal_response response;
    pal_error err = {0};
    pal_openai_id_text("resp_", pal_call_derived_id(call, 0), id);
    pal_status status = pal_response_find(call, pal_str_of(id), &response, &err);
    if (status == PAL_OK)
        status = pal_response_send(call, &response, &err);
    else if (status == PAL_NOT_FOUND)
        status = pal_call_refuse(call, 409, "answer_lost", PAL_CONFLICT, &err,
                "this was asked before, and its answer is no longer at hand");
    if (status != PAL_OK)
        pal_call_fail(call, status, &err);
}

static void refuse(response_run *run, pal_status status, const pal_error *err)
{
    pal_call *call = run->call;
    pal_response_request *request = run->request;
    bool is_late = status == PAL_BUSY || status == PAL_CONFLICT;
    run->call = NULL;
    if (is_late && request->turn.expected_seq) {
        run->again(request);
        release(run);
        return;
    }
    if (status == PAL_BUSY) {
        call->fail_code = 400;
        call->fail_name = "conversation_locked";
        call->fail_param = "conversation";
        call->fail_retry_ms = 1000;
        pal_exchange_add_header(call->exchange, "x-should-retry", pal_str_of("true"));
    }
    pal_call_fail(call, status, err);
    run->response.status = PAL_RESPONSE_FAILED;
    run->response.is_background = false; /* nobody was told of it */
    clean_up(run);
    release(run);
}

static pal_status begin(response_run *run, pal_error *err)
{
    pal_status status = PAL_OK;
    pthread_mutex_lock(&run->lock);
    run->is_waiting = run->response.is_background;
    if (run->wants_stream && !begin_stream(run))
        pal_turn_abandon(run->server->runtime, run->tenant, run->response.turn);
    else if (run->call && !run->response.is_background)
        watch_client(run);
    pthread_mutex_unlock(&run->lock);
    if (run->response.is_background)
        status = keep_background(run, err);
    if (status != PAL_OK) {
        /* Nobody was told of it: it fails as any other. */
        run->response.is_background = false;
        run->wants_stream = false;
    }
    return status;
}

/* Nothing was sent yet, but for the beginning of a stream. */
static void give_up(response_run *run, const pal_error *why)
{
    const pal_event lost = {.kind = PAL_EVENT_ENDED,
            .state = PAL_TURN_FAILED,
            .status = why->status,
            .text = pal_str_of(why->message)};
    pal_turn_abandon(run->server->runtime, run->tenant, run->response.turn);
    pthread_mutex_lock(&run->lock);
    end(run, &lost);
    pthread_mutex_unlock(&run->lock);
    release(run);
}

/* On the loop. */
static void started(const pal_turn_info *info, const pal_error *err, void *user)
{
    response_run *run = user;
    pal_error failure = {0};
    if (err) {
        refuse(run, err->status, err);
        return;
    }
    pal_call_belongs(run->call, run->response.session);
    if (info->replayed && pal_id_is_none(info->turn)) {
        pal_exchange_to_worker(run->call->exchange, recall);
        release(run);
        return;
    }
    run->response.turn = info->turn;
    pal_call_trace_turn(run->call, info, run->request->turn.model);
    /* A session that is not kept is erased; the answer is still to be remembered. */
    if (run->is_passing)
        pal_call_belongs(run->call, (pal_id){{0}});
    pal_status status = begin(run, &failure);
    if (status == PAL_OK)
        status = pal_turn_watch(run->server->runtime, run->tenant, run->response.turn, 0, watch,
                watch_gone, run, &failure);
    if (status != PAL_OK)
        give_up(run, &failure);
}

static void fill(response_run *run, const pal_response_request *request)
{
    const pal_turn_request *turn = &request->turn;
    run->response = (pal_response){.id = request->response,
            .session = turn->session,
            .status = PAL_RESPONSE_IN_PROGRESS,
            .created_at = pal_clock_now_ms() / 1000,
            .is_background = request->is_background,
            .is_compaction = request->is_compaction,
            .is_in_conversation = request->conversation.len > 0,
            .echo = pal_arena_copy(run->arena, request->echo),
            .input = turn->messages_len ? turn->messages[0].id : (pal_id){{0}},
            .input_len = turn->messages_len};
    run->next_event = 1;
    run->wants_stream = request->is_stream;
    run->is_stored = request->is_stored;
    run->is_new = request->is_new;
    run->is_passing = request->is_passing;
}

pal_status pal_response_run(
        pal_response_request *request, void (*again)(pal_response_request *request), pal_error *err)
{
    response_run *run = new_run(request->call);
    if (!run)
        return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    fill(run, request);
    run->again = again;
    run->request = request;
    request->turn.finish = finish;
    request->turn.finish_user = run;
    pal_status status = pal_arena_checked(run->arena, err);
    if (status == PAL_OK)
        status = pal_turn_start_async(run->server->runtime, &request->turn, started, run, err);
    if (status != PAL_OK)
        release(run);
    return status;
}

/* ---- Looking on ---- */

/* On a worker. */
pal_status pal_response_look_on(
        pal_call *call, const pal_response *response, int64_t after, pal_error *err)
{
    response_run *run = new_run(call);
    if (!run)
        return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    run->response = *response;
    run->response.status = PAL_RESPONSE_IN_PROGRESS;
    run->response.echo = pal_arena_copy(run->arena, response->echo);
    run->events.told_from = (uint64_t)(after + 1);
    run->next_event = 1;
    run->wants_stream = true;
    run->is_reader = true;
    pal_status status = pal_arena_checked(run->arena, err);
    pthread_mutex_lock(&run->lock);
    bool is_open = status == PAL_OK && begin_stream(run);
    pthread_mutex_unlock(&run->lock);
    if (!is_open ||
            pal_turn_watch(run->server->runtime, run->tenant, run->response.turn, 0, watch,
                    watch_gone, run, NULL) != PAL_OK) {
        if (is_open)
            watch_gone(run);
        else
            release(run);
    }
    return status;
}
