/* api_openai_responses_run.c - runs the turn of a response and answers the request: with a complete
 * object, with a stream, or immediately if the response runs in the background. run.h describes the
 * threads.
 *
 * finish() writes the record in the commit of the answer. So when the end of a response is
 * reported, its record is stored. */
#include "server/api/openai/responses/api_openai_responses.h"
#include "server/api/openai/socket/api_openai_socket.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/process.h"
#include "dialect/dialect_member.h"
#include "server/api/api_record.h"
#include "server/run/run.h"
#include "server/server_call.h"

typedef struct response_run {
    pal_run run;
    pal_response response;
    pal_response_events events;
    pal_usage usage; /* the sum of all answers so far */
    uint64_t next_event; /* expected number of the turn's next event; another number means that
                            events were lost */
    bool wants_stream;
    bool is_waiting; /* the stream begins when the record is stored; until then, frames go to
                        `early` */
    pal_buf early;   /* frames that wait for the stream */
    pal_api_record *record;   /* NULL: the request is not recorded */
    pal_background_task task; /* records a stream */
    bool is_stored;
    bool is_new; /* the session was created for this response */
    void (*again)(pal_response_request *request);
    pal_response_request *request; /* allocated in the call's arena */
} response_run;

/* Whether the run only reads the events of a turn that another request started. */
static bool is_reader(const response_run *r)
{
    return r->run.leave == PAL_RUN_READ;
}

static void free_response(pal_run *run)
{
    response_run *r = (response_run *)run;
    pal_response_events_done(&r->events);
    pal_buf_done(&r->early);
    pal_api_record_free(r->record);
}

/* ---- Writes to the store ---- */

/* NULL: out of memory. */
static pal_op *new_record_op(response_run *r, uint64_t expected_version)
{
    pal_arena *arena = r->run.arena;
    pal_record *record = pal_arena_alloc(arena, sizeof *record);
    pal_op *op = pal_arena_alloc(arena, sizeof *op);
    if (!record || !op || pal_response_record(&r->response, arena, record, NULL) != PAL_OK)
        return NULL;
    *op = pal_op_record_put(r->run.tenant, record, expected_version);
    return op;
}

static pal_op *new_delete_op(response_run *r)
{
    pal_op *op = pal_arena_alloc(r->run.arena, sizeof *op);
    if (op)
        *op = pal_op_delete(r->run.tenant, r->response.session);
    return op;
}

/* Removes what a failed response leaves, and records the failure of a background response. If the
 * write fails, the next read of the response repairs the record. */
static void clean_up(response_run *r)
{
    bool is_answered = pal_response_is_answered(&r->response);
    pal_op *op = NULL;
    if (is_reader(r) || is_answered || r->run.is_temporary)
        return;
    if (r->response.is_background)
        op = new_record_op(r, PAL_RECORD_VERSION_ANY);
    else if (r->is_new)
        op = new_delete_op(r); /* the record stays until the trash is emptied */
    if (op)
        (void)pal_run_apply(&r->run, op, 1, NULL);
}

/* ---- The end of a response ---- */

/* `at` is in milliseconds. It is the time of the event, so that all readers see the same time. */
static void set_end(response_run *r, int64_t at, pal_finish finish, const pal_usage *usage)
{
    pal_response *response = &r->response;
    if (pal_response_is_over(response))
        return;
    response->is_filtered = finish == PAL_FINISH_FILTERED;
    response->status = finish == PAL_FINISH_LENGTH || response->is_filtered
            ? PAL_RESPONSE_INCOMPLETE
            : PAL_RESPONSE_COMPLETED;
    response->usage = *usage;
    response->completed_at = at / 1000;
}

/* Called on the loop, before the commit of the answer. */
static pal_status finish(const pal_turn_end *end, pal_arena *arena, pal_record *out_record,
        void *user, pal_error *err)
{
    response_run *r = user;
    pal_response *response = &r->response;
    pal_run_lock(&r->run);
    set_end(r, end->answer->created_at, end->finish, &end->usage);
    response->is_last_whole = pal_response_events_end_whole(&r->events);
    response->output =
            pal_response_events_messages(&r->events, r->run.arena, &response->output_len);
    response->deltas = pal_response_events_deltas(&r->events);
    pal_status status = PAL_OK;
    if (!response->output || r->events.failure)
        status = pal_error_set(err, PAL_NO_MEMORY, "out of memory, or too many events");
    else if (r->is_stored)
        status = pal_response_record(response, arena, out_record, err);
    response->deltas = (pal_str){0};
    pal_run_unlock(&r->run);
    return status;
}

static void send_whole(response_run *r)
{
    pal_error err = {0};
    pal_call *call = pal_run_take_call(&r->run);
    pal_status status = pal_response_put(
            pal_call_writer(call), &r->response, pal_response_events_output, &r->events, &err);
    if (status == PAL_OK)
        pal_call_send(call, 200);
    else
        pal_call_fail(call, status, &err);
}

/* ---- Recording; the turn has ended, so nothing else changes the response ---- */

static pal_status new_record(pal_response_request *request, response_run *r, pal_error *err)
{
    bool is_stateless = request->is_kept || (request->is_passing && !request->previous.len);
    is_stateless = is_stateless && !request->is_compaction;
    return is_stateless ? pal_response_record_new(request->call, &r->record, err) : PAL_OK;
}

/* Blocks. */
static void record_response(response_run *r)
{
    pal_buf answer;
    pal_buf_init(&answer, PAL_PROVIDER_ANSWER_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&answer);
    pal_status status = pal_response_put(
            &writer, &r->response, pal_response_events_output, &r->events, NULL);
    if (status == PAL_OK && !answer.failure)
        pal_api_record_write(r->record, pal_buf_str(&answer));
    pal_buf_done(&answer);
}

/* On a worker. */
static void record_and_send(pal_run *run)
{
    response_run *r = (response_run *)run;
    record_response(r);
    pal_run_lock(run);
    send_whole(r);
    pal_run_unlock(run);
}

/* In the background. */
static void record_stream(pal_background_task *task)
{
    response_run *r = (response_run *)((char *)task - offsetof(response_run, task));
    record_response(r);
    pal_run_lock(&r->run);
    pal_response_events_end(&r->events);
    pal_run_end(&r->run);
    pal_run_unlock(&r->run);
    pal_run_release(&r->run);
}

/* Records the response before the client gets its end. False: it is not recorded. */
static bool record_first(response_run *r)
{
    if (!r->record)
        return false;
    if (!r->wants_stream)
        return r->run.call && pal_run_to_worker(&r->run, record_and_send);
    r->task.run = record_stream;
    if (!r->run.stream || !pal_background_add(r->run.server->background, &r->task))
        return false;
    pal_run_hold(&r->run); /* the task cannot release the run before: it needs the lock */
    r->run.keeps_stream = true;
    return true;
}

/* ---- The end, continued ---- */

/* A turn that a client stopped is "cancelled". A turn that the server stopped has failed. */
static void set_failure(response_run *r, const pal_event *end)
{
    pal_response *response = &r->response;
    bool is_cancelled = end->state == PAL_TURN_CANCELED && pal_str_is(end->text, "canceled");
    response->status = is_cancelled ? PAL_RESPONSE_CANCELLED : PAL_RESPONSE_FAILED;
    response->completed_at = 0;
    response->output_len = 0;
    if (is_cancelled)
        return;
    response->error_code = pal_response_error_code(end->status, end->code);
    response->error_message = pal_arena_copy(
            r->run.arena, end->text.len ? end->text : pal_str_of("the turn was stopped"));
}

/* A response whose events were lost has failed, even if the turn is done. */
static void ended(pal_run *run, const pal_event *end)
{
    response_run *r = (response_run *)run;
    bool is_done =
            end->state == PAL_TURN_DONE && !r->events.failure && end->number == r->next_event;
    if (is_done)
        set_end(r, pal_clock_now_ms(), PAL_FINISH_STOP, &end->usage);
    else
        set_failure(r, end);
    if (is_done && record_first(r))
        return; /* a recorded response leaves nothing to clean up */
    if (r->wants_stream)
        pal_response_events_end(&r->events);
    else if (run->call && !r->response.is_background && is_done)
        send_whole(r);
    else if (run->call && !r->response.is_background)
        pal_run_fail(run, end);
    clean_up(r);
}

/* ---- Events of the turn ---- */

/* The run can no longer show the complete response. */
static void lose(response_run *r)
{
    const pal_event lost = {.kind = PAL_EVENT_ENDED,
            .state = PAL_TURN_CANCELED,
            .text = pal_str_of("events of the response were lost")};
    r->events.failure = PAL_LIMIT;
    if (!is_reader(r)) {
        pal_run_abandon(&r->run); /* its end is reported later */
        return;
    }
    ended(&r->run, &lost);
    pal_run_end(&r->run);
    pal_run_stop(&r->run);
}

static void event(pal_run *run, const pal_event *event)
{
    response_run *r = (response_run *)run;
    pal_response_events *events = &r->events;
    if (event->number != r->next_event++) {
        lose(r);
        return;
    }
    switch (event->kind) {
    case PAL_EVENT_STEP:
        pal_response_events_message(events, event->message);
        r->response.status = PAL_RESPONSE_IN_PROGRESS; /* the answer before it only called tools */
        r->response.completed_at = 0;
        break;
    case PAL_EVENT_TEXT:
        pal_response_events_text(events,
                event->is_refusal ? PAL_RESPONSE_REFUSAL : PAL_RESPONSE_TEXT, event->count,
                event->text);
        break;
    case PAL_EVENT_REASONING:
        pal_response_events_text(events,
                event->call_id.len ? PAL_RESPONSE_SUMMARY : PAL_RESPONSE_REASONING, event->count,
                event->text);
        break;
    case PAL_EVENT_ITEM:
        pal_response_events_item(events, event->count, event->text);
        break;
    case PAL_EVENT_PROGRESS:
        pal_response_events_progress(events, event->count, event->text);
        break;
    case PAL_EVENT_CALL:
        pal_response_events_call(events, event->count, event->call_id, event->name, event->text);
        break;
    case PAL_EVENT_TOOL_STARTED:
        pal_response_events_runs(events, event->call_id);
        break;
    case PAL_EVENT_TOOL_ENDED:
        pal_response_events_result(events, event->call_id, event->text, event->status != PAL_OK);
        break;
    case PAL_EVENT_ARGUMENTS:
        pal_response_events_arguments(events, event->call_id, event->text);
        break;
    case PAL_EVENT_MESSAGE:
        pal_run_add_usage(&r->usage, &event->usage);
        set_end(r, event->at, event->finish, &r->usage);
        break;
    default:
        break;
    }
}

/* ---- Streams ---- */

static bool keep_early(pal_str frame, void *user)
{
    response_run *r = user;
    pal_buf_append_str(&r->early, frame);
    return !r->early.failure;
}

static bool open_stream(response_run *r)
{
    if (!pal_run_open(&r->run))
        return false;
    pal_stream_allow(r->run.stream, PAL_RESPONSE_STREAM_BYTES_MAX);
    return true;
}

/* ---- Background responses ---- */

/* Sends the frames that waited; later frames are sent directly. If the stream is refused, the
 * response continues and can be read later. */
static void join_stream(response_run *r)
{
    r->is_waiting = false;
    r->events.stream = &r->run.stream;
    if (open_stream(r))
        (void)pal_run_write(&r->run, &r->early);
    if (r->run.is_over)
        pal_run_end(&r->run);
    pal_buf_done(&r->early);
}

static void send_begun(response_run *r)
{
    pal_error err = {0};
    pal_call *call = pal_run_take_call(&r->run);
    pal_response begun = r->response;
    begun.status = PAL_RESPONSE_IN_PROGRESS;
    begun.completed_at = 0;
    pal_status status = pal_response_put(pal_call_writer(call), &begun, NULL, NULL, &err);
    if (status == PAL_OK)
        pal_call_send(call, 200);
    else
        pal_call_fail(call, status, &err);
}

/* If a record exists already, it is newer: the response has ended. */
static void background_kept(pal_run *run, pal_status status, const pal_error *err)
{
    response_run *r = (response_run *)run;
    if (status != PAL_OK && status != PAL_CONFLICT) {
        pal_call_fail(pal_run_take_call(run), status, err);
        pal_run_abandon(run);
    } else if (r->wants_stream) {
        join_stream(r);
    } else {
        send_begun(r);
    }
}

/* The record is stored before the client learns the id of the response. */
static bool keep_background(response_run *r)
{
    char process[PAL_PROCESS_NAME_SIZE];
    pal_process_name(process);
    r->response.process = pal_arena_copy(r->run.arena, pal_str_of(process));
    pal_op *op = new_record_op(r, 0);
    return op && pal_run_apply(&r->run, op, 1, background_kept);
}

/* ---- Starting ---- */

/* Called on a worker. The same request was sent before with the same idempotency key, and its turn
 * is no longer in memory. */
static void recall(pal_exchange *x)
{
    pal_call *call = x->call;
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

static void refused(pal_run *run, const pal_error *err)
{
    response_run *r = (response_run *)run;
    pal_response_request *request = r->request;
    pal_call *call = pal_run_take_call(run);
    bool is_late = err->status == PAL_BUSY || err->status == PAL_CONFLICT;
    if (is_late && request->turn.expected_seq) {
        r->again(request);
        return;
    }
    if (err->status == PAL_BUSY) {
        call->fail_code = 400;
        call->fail_name = "conversation_locked";
        call->fail_param = "conversation";
        call->fail_retry_ms = 1000;
        pal_exchange_add_header(call->exchange, "x-should-retry", pal_str_of("true"));
    }
    pal_call_fail(call, err->status, err);
    r->response.status = PAL_RESPONSE_FAILED;
    r->response.is_background = false; /* the client does not know of it */
    clean_up(r);
}

static void started(pal_run *run, const pal_turn_info *info)
{
    response_run *r = (response_run *)run;
    if (info->replayed && pal_id_is_none(info->turn)) {
        pal_exchange_to_worker(pal_run_take_call(run)->exchange, recall);
        pal_run_stop(run);
        return;
    }
    r->response.turn = info->turn;
    r->is_waiting = r->response.is_background && !is_reader(r);
    if (r->wants_stream) {
        if (r->is_waiting)
            r->events.write = keep_early;
        else
            r->events.stream = &r->run.stream;
        if (r->is_waiting || open_stream(r))
            pal_response_events_begin(&r->events);
    }
    pal_response_events_lists(&r->events);
    pal_response_events_approved(&r->events);
    if (r->is_waiting && !keep_background(r)) {
        /* The client does not know of it, so it fails like any other response. */
        pal_error err;
        pal_no_memory(&err);
        pal_call_fail(pal_run_take_call(run), PAL_NO_MEMORY, &err);
        pal_run_abandon(run);
    }
}

static response_run *new_run(pal_call *call, const pal_response *response)
{
    static const pal_run_handlers handlers = {.refused = refused,
            .started = started,
            .event = event,
            .done = ended,
            .failed = ended,
            .free = free_response,
            .failures = pal_run_failures_responses};
    response_run *r = pal_run_new(call, &handlers, sizeof *r);
    if (!r)
        return NULL;
    r->response = *response;
    r->response.status = PAL_RESPONSE_IN_PROGRESS;
    r->response.echo = pal_arena_copy(r->run.arena, response->echo);
    r->response.additional = pal_arena_copy(r->run.arena, response->additional);
    r->response.approved = pal_arena_copy(r->run.arena, response->approved);
    r->response.lists = pal_arena_copy(r->run.arena, response->lists);
    r->response.listed = pal_arena_copy(r->run.arena, response->listed);
    r->response.socket = pal_arena_copy(r->run.arena, response->socket);
    r->next_event = 1;
    pal_response_events_init(&r->events, &r->response);
    r->events.user = r;
    pal_buf_init(&r->early, PAL_RESPONSE_STREAM_BYTES_MAX);
    return r;
}

pal_status pal_response_run(
        pal_response_request *request, void (*again)(pal_response_request *request), pal_error *err)
{
    pal_turn_request *turn = &request->turn;
    const pal_response response = {.id = request->response,
            .session = turn->session,
            .created_at = pal_clock_now_ms() / 1000,
            .is_background = request->is_background,
            .is_compaction = request->is_compaction,
            .is_in_conversation = request->conversation.len > 0,
            .echo = request->echo,
            .additional = request->additional,
            .has_items = request->has_service,
            .approved = request->approved,
            .lists = request->lists,
            .listed = request->listed,
            .input = turn->messages_len ? turn->messages[0].id : (pal_id){{0}},
            .input_len = turn->messages_len,
            .socket = request->is_kept ? pal_openai_socket_name(request->call) : (pal_str){0}};
    response_run *r = new_run(request->call, &response);
    if (!r)
        return pal_no_memory(err);
    r->run.leave = request->is_background ? PAL_RUN_CONTINUE : PAL_RUN_ABANDON;
    r->run.is_temporary = request->is_passing;
    r->wants_stream = request->is_stream;
    r->is_stored = request->is_stored;
    r->is_new = request->is_new;
    r->again = again;
    r->request = request;
    pal_status status = new_record(request, r, err);
    if (status != PAL_OK) {
        pal_run_release(&r->run);
        return status;
    }
    turn->on_done = finish;
    turn->on_done_user = r;
    pal_run_start(&r->run, turn);
    return PAL_OK;
}

/* ---- Reading the events of a running response ---- */

/* Called on a worker. */
pal_status pal_response_look_on(
        pal_call *call, const pal_response *response, int64_t after, pal_error *err)
{
    const pal_turn_info info = {.turn = response->turn, .session = response->session};
    response_run *r = new_run(call, response);
    if (!r)
        return pal_no_memory(err);
    r->run.leave = PAL_RUN_READ;
    r->events.told_from = (uint64_t)(after + 1);
    r->wants_stream = true;
    pal_status status = pal_arena_checked(r->run.arena, err);
    if (status == PAL_OK)
        pal_run_join(&r->run, &info, 0);
    else
        pal_run_release(&r->run);
    return status;
}
