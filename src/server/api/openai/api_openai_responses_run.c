/* api_openai_responses_run.c - runs the turn of a response and answers the request: with a complete
 * object, with a stream, or immediately if the response runs in the background.
 *
 * Ownership: up to four sides hold a run, and they end in any order. The turn reports its
 * events on the runtime's loop. The stream ends on a listener thread, and a write to the store ends
 * on the store's writer. The fourth side is the function that started the run. The last side frees
 * the run. Its lock guards all members. The loop owns the call until it is answered.
 *
 * finish() writes the record in the commit of the answer. So when the end of a response is
 * reported, its record is stored. */
#include "server/api/openai/api_openai_responses.h"

#include <pthread.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/process.h"
#include "dialect/dialect_member.h"
#include "server/run/run.h"
#include "server/server_call.h"

typedef struct response_run {
    pthread_mutex_t lock;
    unsigned holders;
    pal_server *server;
    pal_arena *arena; /* everything in the run is in this arena */
    pal_str tenant;
    pal_call *call;     /* NULL after the response was sent */
    pal_stream *stream; /* NULL if there is no stream, or if it has ended */
    pal_response response;
    pal_response_events events;
    uint64_t next_event; /* expected number of the turn's next event; another number means that
                            events were lost */
    bool wants_stream;
    bool is_waiting; /* the stream begins when the record is stored; until then, frames go to
                        `early` */
    pal_buf early;   /* frames that wait for the stream */
    bool is_stored;
    bool is_new;     /* the session was created for this response */
    bool is_passing; /* the session is temporary and is erased at the end */
    bool is_reader;  /* this run only reads the events of a turn that another request started */
    bool is_over;
    void (*again)(pal_response_request *request);
    pal_response_request *request; /* allocated in the call's arena */
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

/* ---- Writes to the store ---- */

static void written(
        pal_op *ops, size_t ops_len, pal_status status, const pal_error *err, void *user)
{
    (void)ops;
    (void)ops_len;
    (void)status;
    (void)err;
    release(user);
}

/* Writes without waiting. If the write fails, the next read of the response repairs the record, or
 * the session expires. */
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

/* Removes what a failed or temporary response leaves, and records the failure of a background
 * response. */
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
        run->op.kind = PAL_OP_DELETE; /* the record stays until the trash is emptied */
    }
    if (run->op.kind != PAL_OP_NONE)
        write_op(run);
}

/* ---- The end of a response ---- */

/* `at` is in milliseconds. It is the time of the event, so that all readers see the same time. */
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

/* Called on the loop, before the commit of the answer. */
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

/* The lock must be held. */
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

/* The lock must be held. */
static void end_writing(response_run *run)
{
    if (run->stream)
        pal_stream_end(run->stream);
    run->stream = NULL;
}

/* The lock must be held. */
static void end_stream(response_run *run)
{
    pal_response_events_end(&run->events);
    end_writing(run);
}

/* The lock must be held. */
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

/* ---- Events of the turn, on the loop ---- */

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
                .text = pal_str_of("the server is stopping, or events were lost")};
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

/* Called on a listener thread. */
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

/* Called on a listener thread. */
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

/* The lock must be held. */
static bool write_frame(pal_str frame, void *user)
{
    response_run *run = user;
    if (!run->is_waiting)
        return run->stream && pal_stream_write(run->stream, frame);
    pal_buf_append_str(&run->early, frame);
    return !run->early.failure;
}

/* The lock must be held. Returns false if the stream was refused; the call is then answered. */
static bool open_stream(response_run *run)
{
    pal_call *call = run->call;
    pal_error err;
    run->call = NULL;
    run->holders++;
    run->stream = pal_run_stream(call, 200, PAL_RUN_EVENT_STREAM, stream_gone, run);
    if (run->stream) {
        pal_stream_allow(run->stream, PAL_RESPONSE_STREAM_BYTES_MAX);
        return true;
    }
    run->holders--;
    pal_status status = pal_run_refuse_stream(call, &err);
    pal_call_fail(call, status, &err);
    return false;
}

/* The lock must be held. Returns false if the stream was refused; the call is then answered. */
static bool begin_stream(response_run *run)
{
    run->events.write = write_frame;
    if (!run->is_waiting && !open_stream(run))
        return false;
    pal_response_events_begin(&run->events);
    return true;
}

/* ---- Background responses ---- */

/* The lock must be held. Sends the frames that waited; later frames are sent directly. */
static void join_stream(response_run *run)
{
    run->is_waiting = false;
    if (!open_stream(run))
        return; /* the response continues and can be read later */
    if (run->early.failure || !pal_stream_write(run->stream, pal_buf_str(&run->early)) ||
            run->is_over)
        end_writing(run);
    pal_buf_done(&run->early);
}

/* The lock must be held. */
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

/* Called on the store's writer. If a record exists already, it is newer: the response has ended. */
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

/* The record is stored before the client learns the id of the response. */
static pal_status keep_background(response_run *run, pal_error *err)
{
    pal_record *record = pal_arena_alloc(run->arena, sizeof *record);
    pal_op *op = pal_arena_alloc(run->arena, sizeof *op);
    if (!record || !op)
        return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    char process[PAL_PROCESS_NAME_SIZE];
    pal_process_name(process);
    run->response.process = pal_arena_copy(run->arena, pal_str_of(process));
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

/* ---- Starting ---- */

/* Called on a worker. The same request was sent before with the same idempotency key, and its turn
 * is no longer in memory. */
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
                "the same request was sent before, and its response is no longer available");
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
    run->response.is_background = false; /* the client does not know of it */
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
        /* The client does not know of it, so it fails like any other response. */
        run->response.is_background = false;
        run->wants_stream = false;
    }
    return status;
}

/* Nothing was sent yet, except perhaps the beginning of a stream. */
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

/* Called on the loop. */
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
    /* A temporary session is erased, but the response must still be stored under the idempotency
     * key, so the response belongs to no session. */
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

/* ---- Reading the events of a running response ---- */

/* Called on a worker. */
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
