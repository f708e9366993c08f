/* api_mistral_run.c - runs the turns of a request: starts one, watches it, and starts the next one
 * after a handoff. run.h describes the threads. A response without a stream is written on a worker,
 * because it reads recorded messages.
 *
 * A request succeeds or fails completely. A failed turn removes its own messages. Messages of
 * earlier turns of the same request are then hidden, and a session that was created for the request
 * is erased. */
#include "base/clock.h"
#include "base/memory.h"
#include "server/api/mistral/api_mistral_run_internal.h"
#include "server/server_call.h"

/* ---- The stream ---- */

void pal_mistral_run_begin_frames(pal_mistral_runner *run, pal_buf *buf)
{
    pal_buf_init(buf, PAL_RUN_FRAME_BYTES_MAX);
    run->frames.buf = buf;
    run->frames.speaker = pal_mistral_speaker_of(run);
}

void pal_mistral_run_write_frames(pal_mistral_runner *run, pal_buf *buf)
{
    if (buf->failure || buf->len)
        (void)pal_run_write(&run->run, buf);
    pal_buf_done(buf);
}

void pal_mistral_run_open(pal_mistral_runner *run)
{
    pal_buf buf;
    if (run->run.is_streaming)
        return;
    run->is_refused = !pal_run_try_open(&run->run);
    if (run->is_refused) {
        pal_run_abandon(&run->run);
        return;
    }
    pal_mistral_run_begin_frames(run, &buf);
    run->options.format->started(&run->frames);
    pal_mistral_run_write_frames(run, &buf);
}

/* ---- Watching a turn ---- */

/* The messages of the request come right before its first answer. */
static void note_answer(pal_mistral_runner *run, const pal_event *event)
{
    if (!run->answer_seq) {
        run->answer_seq = event->seq;
        run->first_seq =
                event->seq > run->options.messages_len ? event->seq - run->options.messages_len : 1;
    }
    run->last_seq = event->seq;
    run->finish = event->finish;
}

/* The results of a handoff are refused if another API has started a turn in the session meanwhile,
 * because the other APIs do not use the lock. That turn has recorded results for the open calls,
 * so the calls must stay visible together with those results. */
static void note_failure(pal_mistral_runner *run, pal_status status, pal_str why)
{
    bool is_refused = !run->code && (status == PAL_INVALID || status == PAL_CONFLICT);
    run->is_parted = run->turns_run > 1 && is_refused;
    if (run->is_parted)
        pal_error_set(&run->error, PAL_CONFLICT,
                "the conversation changed during a handoff; the entries before the handoff are "
                "kept");
    else
        pal_error_set(&run->error, status, "%.*s", PAL_STR_ARG(why));
}

static void note_end(pal_mistral_runner *run, const pal_event *event)
{
    run->state = event->state;
    run->code = event->code;
    run->retry_after_ms = event->retry_after_ms;
    pal_run_add_usage(&run->usage, &event->usage);
    if (event->state < PAL_TURN_DONE) /* the runtime was closed */
        note_failure(run, PAL_CANCELED, pal_str_of("the server is stopping"));
    else if (event->state != PAL_TURN_DONE)
        note_failure(run, event->status == PAL_OK ? PAL_CANCELED : event->status, event->text);
}

/* Writes the frames of an event. A stream that begins late begins with the first text. */
static void show(pal_mistral_runner *run, const pal_event *event)
{
    pal_buf buf;
    if (run->options.is_stream &&
            (event->kind == PAL_EVENT_TEXT || event->kind == PAL_EVENT_REASONING))
        pal_mistral_run_open(run);
    if (!run->run.stream)
        return;
    pal_mistral_run_begin_frames(run, &buf);
    run->options.format->event(&run->frames, event);
    pal_mistral_run_write_frames(run, &buf);
}

/* ---- The table of the run ---- */

static void started(pal_run *base, const pal_turn_info *info)
{
    pal_mistral_runner *run = (pal_mistral_runner *)base;
    (void)info;
    run->state = PAL_TURN_RUNNING;
    /* A temporary session is erased, but the response must still be stored under the idempotency
     * key, so the response belongs to no session. */
    if (base->call && run->options.is_passing)
        base->call->owner = (pal_id){{0}};
    if (run->options.is_stream && !run->options.format->begins_late)
        pal_mistral_run_open(run);
}

/* Questions end the request; the turn waits for the answers to them. */
static void event(pal_run *base, const pal_event *event)
{
    pal_mistral_runner *run = (pal_mistral_runner *)base;
    show(run, event);
    if (event->kind == PAL_EVENT_MESSAGE) {
        note_answer(run, event);
    } else if (event->kind == PAL_EVENT_PAUSED) {
        run->calls = pal_arena_copy(base->arena, event->text);
    } else if (event->kind == PAL_EVENT_ASKING) {
        run->asked = pal_arena_copy(base->arena, event->questions);
        if (run->asked.len == 0)
            note_failure(run, PAL_NO_MEMORY, pal_str_of("out of memory"));
        pal_run_stop(base);
        pal_mistral_run_finish(run);
    }
}

static bool start_next(pal_mistral_runner *run);

static void done(pal_run *base, const pal_event *end)
{
    pal_mistral_runner *run = (pal_mistral_runner *)base;
    show(run, end);
    note_end(run, end);
    if (!start_next(run))
        pal_mistral_run_finish(run);
}

static void failed(pal_run *base, const pal_event *end)
{
    pal_mistral_runner *run = (pal_mistral_runner *)base;
    if (end->number)
        show(run, end);
    note_end(run, end);
    pal_mistral_run_finish(run);
}

static void refused(pal_run *base, const pal_error *err)
{
    pal_mistral_runner *run = (pal_mistral_runner *)base;
    run->state = PAL_TURN_FAILED;
    note_failure(run, err->status, pal_str_of(err->message));
    pal_mistral_run_finish(run);
}

/* ---- Starting ---- */

static pal_turn_request make_request(
        pal_mistral_runner *run, pal_message *messages, size_t messages_len)
{
    pal_turn_request request = pal_mistral_speaker_of(run)->request;
    request.cannot_input = true; /* a confirmation contains nothing else */
    request.session = run->options.session;
    request.messages = messages;
    request.messages_len = messages_len;
    run->turns_run++;
    return request;
}

/* Starts the turn of the next agent after a handoff. `expected_seq` rejects the turn if another
 * request has written since the previous turn, because this turn contains the results of that
 * turn's calls. */
static bool start_next(pal_mistral_runner *run)
{
    pal_message *messages;
    size_t len;
    if (!pal_mistral_run_hand_over(run, &messages, &len))
        return false;
    pal_turn_request request = make_request(run, messages, len);
    request.expected_seq = run->last_seq;
    request.create_ops_len = 0; /* the session exists since the first turn */
    return pal_run_next(&run->run, &request);
}

pal_status pal_mistral_run(pal_call *call, const pal_mistral_run_options *options, pal_error *err)
{
    static const pal_run_handlers handlers = {
            .refused = refused, .started = started, .event = event, .done = done, .failed = failed};
    pal_mistral_runner *run = pal_run_new(call, &handlers, sizeof *run);
    if (!run)
        return pal_no_memory(err);
    run->options = *options;
    /* A temporary session is erased, so a confirmation could never arrive. */
    run->run.can_ask = !options->is_passing;
    if (options->is_stream) /* the call is freed when its stream begins */
        run->options.speakers = pal_mistral_speakers_copy(&options->speakers, run->run.arena);
    if (pal_arena_failure(run->run.arena) != PAL_OK) {
        pal_run_release(&run->run);
        return pal_no_memory(err);
    }
    run->frames = (pal_mistral_frames){.arena = run->run.arena,
            .conversation = options->conversation,
            .begun_at = pal_clock_now_ms(),
            .is_clients = options->is_clients,
            .agent_id = run->options.speakers.items[0].agent_id};
    if (pal_id_is_none(options->turn)) {
        pal_turn_request request = make_request(run, options->messages, options->messages_len);
        pal_run_start(&run->run, &request);
    } else {
        const pal_turn_info info = {.turn = options->turn, .session = options->session};
        pal_run_join(&run->run, &info, options->after);
    }
    return PAL_OK;
}
