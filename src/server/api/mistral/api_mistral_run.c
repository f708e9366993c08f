/* api_mistral_run.c - runs the turns of a request: starts one, watches it, and starts the next one
 * after a handoff.
 *
 * Threads: everything happens on the runtime's loop, from one callback to the next. Only a response
 * without a stream is written on a worker, because it reads recorded messages. A stream can end at
 * any time, which is reported on a listener thread: `lock` guards the members that both sides use.
 * A client can also leave before there is a stream. That is reported under the listener's own lock,
 * which is also taken when a stream begins, so that callback takes only `turn_lock`.
 *
 * Ownership: the call is freed when its stream begins, so a run with a stream has a separate arena.
 * All other runs are in their call's arena.
 *
 * A request succeeds or fails completely. A failed turn removes its own messages. Messages of
 * earlier turns of the same request are then hidden, and a session that was created for the request
 * is erased. */
#include "base/clock.h"
#include "base/memory.h"
#include "base/sum.h"
#include "server/api/mistral/api_mistral_run_inside.h"
#include "server/run/run.h"
#include "server/server_call.h"

#define FRAMES_BYTES_MAX ((size_t)64 << 20)

static void start_leg(pal_mistral_runner *run, pal_message *messages, size_t messages_len);

/* ---- Creating and freeing a run ---- */

/* A run without a stream is freed with the arena of its call. */
void pal_mistral_run_release(pal_mistral_runner *run)
{
    pthread_mutex_lock(&run->lock);
    bool is_last = --run->holders == 0;
    pthread_mutex_unlock(&run->lock);
    if (!is_last || !run->options.is_stream)
        return;
    pthread_mutex_destroy(&run->turn_lock);
    pthread_mutex_destroy(&run->lock);
    pal_arena_free(run->arena);
    pal_free(run);
}

static pal_mistral_runner *new_run(pal_call *call, const pal_mistral_run_options *options)
{
    bool is_stream = options->is_stream;
    pal_mistral_runner *run =
            is_stream ? pal_calloc(1, sizeof *run) : pal_arena_alloc(call->arena, sizeof *run);
    pal_arena *arena = is_stream ? pal_arena_new(0) : call->arena;
    if (!run || !arena || call->caller.tenant.len > PAL_TENANT_LEN_MAX) {
        if (is_stream) {
            pal_free(run);
            pal_arena_free(arena);
        }
        return NULL;
    }
    pthread_mutex_init(&run->lock, NULL);
    pthread_mutex_init(&run->turn_lock, NULL);
    run->holders = 1;
    run->call = call;
    run->server = call->server;
    memcpy(run->tenant, call->caller.tenant.data, call->caller.tenant.len);
    run->options = *options;
    run->arena = arena;
    if (is_stream) /* the call is freed when its stream begins */
        run->options.legs = pal_mistral_legs_copy(&options->legs, arena);
    run->frames = (pal_mistral_frames){.arena = arena,
            .conversation = options->conversation,
            .begun_at = pal_clock_now_ms(),
            .is_clients = options->is_clients};
    return run;
}

/* ---- Clients that leave ---- */

bool pal_mistral_run_is_gone(pal_mistral_runner *run)
{
    pthread_mutex_lock(&run->turn_lock);
    bool is_gone = run->is_gone;
    pthread_mutex_unlock(&run->turn_lock);
    return is_gone;
}

static void set_turn(pal_mistral_runner *run, pal_id turn, bool can_abandon)
{
    pthread_mutex_lock(&run->turn_lock);
    run->turn = turn;
    run->can_abandon = can_abandon;
    pthread_mutex_unlock(&run->turn_lock);
}

/* The client has left: stops the running turn, which removes its messages. */
static void abandon(pal_mistral_runner *run)
{
    pthread_mutex_lock(&run->turn_lock);
    run->is_gone = true;
    bool can_abandon = run->can_abandon;
    pal_id turn = run->turn;
    pthread_mutex_unlock(&run->turn_lock);
    if (can_abandon)
        pal_turn_abandon(run->server->runtime, pal_str_of(run->tenant), turn);
}

/* Called on a listener thread. */
static void stream_gone(void *user)
{
    pal_mistral_runner *run = user;
    pthread_mutex_lock(&run->lock);
    run->stream = NULL;
    pthread_mutex_unlock(&run->lock);
    abandon(run);
    pal_mistral_run_release(run);
}

/* Called on a listener thread that holds the listener's lock. */
static void client_left(void *user)
{
    abandon(user);
}

/* ---- The stream ---- */

void pal_mistral_run_begin_frames(pal_mistral_runner *run, pal_buf *buf)
{
    pal_buf_init(buf, FRAMES_BYTES_MAX);
    run->frames.buf = buf;
    run->frames.leg = pal_mistral_leg_of(run);
}

void pal_mistral_run_write_frames(pal_mistral_runner *run, pal_buf *buf)
{
    if (run->stream && buf->failure == PAL_OK && buf->len)
        (void)pal_stream_write(run->stream, pal_buf_str(buf));
    pal_buf_done(buf);
}

void pal_mistral_run_open(pal_mistral_runner *run)
{
    pal_call *call = run->call;
    pal_buf buf;
    if (!call || run->is_refused)
        return;
    run->stream = pal_run_stream(call, 200, PAL_RUN_EVENT_STREAM, stream_gone, run);
    run->is_refused = !run->stream;
    if (run->is_refused)
        return;
    run->call = NULL;
    run->holders++;
    pal_mistral_run_begin_frames(run, &buf);
    run->options.shape->started(&run->frames);
    pal_mistral_run_write_frames(run, &buf);
}

/* ---- Watching a turn ---- */

static void add_usage(pal_usage *sum, const pal_usage *usage)
{
    pal_sum_u64(&sum->input, usage->input);
    pal_sum_u64(&sum->cache_read, usage->cache_read);
    pal_sum_u64(&sum->cache_write, usage->cache_write);
    pal_sum_u64(&sum->output, usage->output);
    pal_sum_u64(&sum->reasoning, usage->reasoning);
}

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
 * because the other APIs do not pass the gate. That turn has recorded results for the open calls,
 * so the calls must stay visible together with those results. */
static void note_failure(pal_mistral_runner *run, pal_status status, pal_str why)
{
    bool is_refused = !run->code && (status == PAL_INVALID || status == PAL_CONFLICT);
    run->is_parted = run->legs_run > 1 && is_refused;
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
    add_usage(&run->usage, &event->usage);
    set_turn(run, event->turn, false);
    if (event->state != PAL_TURN_DONE)
        note_failure(run, event->status == PAL_OK ? PAL_CANCELED : event->status, event->text);
}

/* After the client has left, a question stays open, because it can be answered later. If the
 * session is temporary, the turn is stopped. */
static void note_question(pal_mistral_runner *run, const pal_event *event)
{
    run->asked = pal_arena_copy(run->arena, event->call_id);
    if (run->asked.len && !run->options.is_passing)
        set_turn(run, event->turn, false);
}

static void note(pal_mistral_runner *run, const pal_event *event)
{
    if (event->kind == PAL_EVENT_MESSAGE)
        note_answer(run, event);
    else if (event->kind == PAL_EVENT_PAUSED)
        run->calls = pal_arena_copy(run->arena, event->text);
    else if (event->kind == PAL_EVENT_ASKING)
        note_question(run, event);
    else if (event->kind == PAL_EVENT_ENDED)
        note_end(run, event);
}

/* Whether the event is text that a client waits for. */
static bool is_word(const pal_event *event)
{
    return event->kind == PAL_EVENT_TEXT || event->kind == PAL_EVENT_REASONING;
}

/* Called on the loop. */
static bool see(const pal_event *event, void *user)
{
    pal_mistral_runner *run = user;
    pal_buf buf;
    pthread_mutex_lock(&run->lock);
    if (run->options.is_stream && is_word(event))
        pal_mistral_run_open(run);
    if (run->stream) {
        pal_mistral_run_begin_frames(run, &buf);
        run->options.shape->event(&run->frames, event);
        pal_mistral_run_write_frames(run, &buf);
    }
    note(run, event);
    pthread_mutex_unlock(&run->lock);
    return event->kind != PAL_EVENT_ENDED && event->kind != PAL_EVENT_ASKING;
}

/* Called on the loop after the turn's last event. */
static void seen(void *user)
{
    pal_mistral_runner *run = user;
    pal_message *messages;
    size_t len;
    pthread_mutex_lock(&run->lock);
    bool goes_on = run->state == PAL_TURN_DONE && pal_mistral_run_hand_over(run, &messages, &len);
    pthread_mutex_unlock(&run->lock);
    if (goes_on)
        start_leg(run, messages, len);
    else
        pal_mistral_run_finish(run);
}

/* ---- Starting ---- */

static void fail(pal_mistral_runner *run, const pal_error *err)
{
    pthread_mutex_lock(&run->lock);
    run->state = PAL_TURN_FAILED;
    note_failure(run, err->status, pal_str_of(err->message));
    pthread_mutex_unlock(&run->lock);
    pal_mistral_run_finish(run);
}

/* Called on the loop, or on a worker if a paused turn continues. */
static void watch(pal_mistral_runner *run, uint64_t after)
{
    bool begins_now = run->options.is_stream && !run->options.shape->begins_late;
    pal_error err = {0};
    if (!begins_now && run->legs_run < 2)
        (void)pal_exchange_watch(run->call->exchange, client_left, run);
    pthread_mutex_lock(&run->lock);
    if (begins_now)
        pal_mistral_run_open(run);
    bool is_unwanted = run->is_refused;
    pthread_mutex_unlock(&run->lock);
    if (is_unwanted || pal_mistral_run_is_gone(run))
        pal_turn_abandon(run->server->runtime, pal_str_of(run->tenant), run->turn);
    if (pal_turn_watch(run->server->runtime, pal_str_of(run->tenant), run->turn, after, see, seen,
                run, &err) != PAL_OK)
        fail(run, &err);
}

/* Called on the loop. */
static void started(const pal_turn_info *info, const pal_error *err, void *user)
{
    pal_mistral_runner *run = user;
    if (err) {
        fail(run, err);
        return;
    }
    pthread_mutex_lock(&run->lock);
    run->state = PAL_TURN_RUNNING;
    pthread_mutex_unlock(&run->lock);
    set_turn(run, info->turn, true);
    if (run->call)
        pal_call_trace_turn(run->call, info, pal_mistral_leg_of(run)->request.model);
    /* A temporary session is erased, but the response must still be stored under the idempotency
     * key, so the response belongs to no session. */
    if (run->call && run->options.is_passing)
        pal_call_belongs(run->call, (pal_id){{0}});
    watch(run, 0);
}

/* Starts no turn if the client has left. `expected_seq` rejects the turn if another request has
 * written since the previous turn, because this turn contains the results of that turn's calls. */
static void start_leg(pal_mistral_runner *run, pal_message *messages, size_t messages_len)
{
    pal_error err = {0};
    pal_status status;
    pthread_mutex_lock(&run->lock);
    if (pal_mistral_run_is_gone(run)) {
        status = pal_error_set(&err, PAL_CANCELED, "the client no longer waits for the answer");
    } else {
        pal_turn_request request = pal_mistral_leg_of(run)->request;
        request.session = run->options.session;
        request.messages = messages;
        request.messages_len = messages_len;
        request.expected_seq = run->last_seq;
        if (run->legs_run > 0)
            request.opening_len = 0; /* the session exists since the first turn */
        run->legs_run++;
        status = pal_turn_start_async(run->server->runtime, &request, started, run, &err);
    }
    pthread_mutex_unlock(&run->lock);
    if (status != PAL_OK)
        fail(run, &err);
}

pal_status pal_mistral_run(pal_call *call, const pal_mistral_run_options *options, pal_error *err)
{
    pal_mistral_runner *run = new_run(call, options);
    if (!run)
        return pal_no_memory(err);
    if (pal_arena_failure(run->arena) != PAL_OK) {
        pal_mistral_run_release(run);
        return pal_no_memory(err);
    }
    run->frames.agent_id = run->options.legs.items[0].agent_id;
    if (pal_id_is_none(options->turn)) {
        start_leg(run, options->messages, options->messages_len);
        return PAL_OK;
    }
    run->state = PAL_TURN_RUNNING;
    set_turn(run, options->turn, true);
    watch(run, options->after);
    return PAL_OK;
}
