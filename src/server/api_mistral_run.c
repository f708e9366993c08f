/* api_mistral_run.c - runs a request's turns and answers: whole, or as a stream.
 *
 * Everything happens on the runtime's loop, from one callback to the next: a turn starts, is
 * watched, ends; perhaps the next one starts. Only an answer that is no stream is written on a
 * worker, because it reads what was recorded. A stream may be gone at any time, which is told on a
 * listener's thread: `lock` guards what both sides look at. A request goes when its stream begins,
 * so that a run with one has an arena of its own; the others lie in their call's.
 *
 * All or nothing: a turn that fails takes itself back. What earlier turns of the same request have
 * recorded is hidden then, and a session that was made for the request is erased. */
#include "server/api_mistral_run.h"

#include <pthread.h>
#include <stdio.h>
#include "base/log.h"
#include "base/memory.h"
#include "dialect/dialect_member.h"
#include "server/server_call.h"
#include "server/server_limits.h"
#include "server/server_put.h"

#define FRAMES_BYTES_MAX ((size_t)64 << 20)

typedef struct mistral_run {
    pthread_mutex_t lock;
    unsigned holders; /* under the lock: the chain of turns, and the stream */
    pal_call *call;   /* NULL once a stream was begun */
    pal_server *server;
    char tenant[PAL_TENANT_LEN_MAX + 1];
    pal_mistral_run_options options;
    pal_arena *arena; /* of its own, or the call's */

    pal_stream *stream; /* NULL: none, or it is gone */
    bool is_gone;       /* nobody waits for it any more */
    bool is_refused;    /* there was no room for a stream */
    pal_mistral_frames frames;

    pal_id turn;
    size_t leg;
    uint32_t legs_run;
    uint64_t first_seq;  /* of the first message that it said; 0: nothing is recorded */
    uint64_t answer_seq; /* of the first answer */
    uint64_t last_seq;   /* of the newest */
    uint64_t kept_seq;   /* of the newest of earlier turns */
    pal_usage usage;
    pal_str calls; /* for the caller, a JSON array */
    pal_str asked; /* the call that waits for permission; empty: none */
    pal_turn_state state;
    pal_error error;
    long code; /* of HTTP, by the model's service */
    int64_t retry_after_ms;

    pal_op *ops; /* what is done at the end */
    size_t ops_len;
    pal_mark *marks;
    pal_erasure erasure;
    pal_record speaker;
    char speaker_name[PAL_ID_TEXT_SIZE];
} mistral_run;

static void start_leg(mistral_run *run, pal_message *messages, size_t messages_len);
static void finish(mistral_run *run);

/* ---- Its life ---- */

/* Without a stream it lies in the call's arena, and goes with that. */
static void release(mistral_run *run)
{
    pthread_mutex_lock(&run->lock);
    bool is_last = --run->holders == 0;
    pthread_mutex_unlock(&run->lock);
    if (!is_last || !run->options.is_stream)
        return;
    pthread_mutex_destroy(&run->lock);
    pal_arena_free(run->arena);
    pal_free(run);
}

static mistral_run *new_run(pal_call *call, const pal_mistral_run_options *options)
{
    bool is_stream = options->is_stream;
    mistral_run *run =
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
    run->holders = 1;
    run->call = call;
    run->server = call->server;
    memcpy(run->tenant, call->caller.tenant.data, call->caller.tenant.len);
    run->options = *options;
    run->arena = arena;
    if (is_stream) /* the request goes when its stream begins */
        run->options.legs = pal_mistral_legs_copy(&options->legs, arena);
    run->frames.arena = arena;
    run->frames.is_clients = options->is_clients;
    return run;
}

static const pal_mistral_leg *leg_of(const mistral_run *run)
{
    return &run->options.legs.items[run->leg];
}

/* ---- The stream ---- */

/* Nobody waits for it any more: what runs is stopped, and takes itself back. */
static void abandon(mistral_run *run)
{
    pthread_mutex_lock(&run->lock);
    run->stream = NULL;
    run->is_gone = true;
    bool is_kept = run->asked.len && !run->options.is_passing;
    bool is_running = run->state == PAL_TURN_RUNNING && !is_kept;
    pal_id turn = run->turn;
    pthread_mutex_unlock(&run->lock);
    if (is_running)
        pal_turn_abandon(run->server->runtime, pal_str_of(run->tenant), turn);
}

/* On a listener's thread. */
static void stream_gone(void *user)
{
    abandon(user);
    release(user);
}

/* On a thread of the listener's, which holds its lock: whoever takes the run's own lock without a
 * stream asks nothing of the exchange meanwhile. */
static void client_left(void *user)
{
    abandon(user);
}

/* Under the lock: writes frames by `put`, where there is a stream. */
static void write_frames(mistral_run *run, pal_buf *buf)
{
    if (run->stream && buf->failure == PAL_OK && buf->len)
        (void)pal_stream_write(run->stream, pal_buf_str(buf));
    pal_buf_done(buf);
}

static void begin_frames(mistral_run *run, pal_buf *buf)
{
    pal_buf_init(buf, FRAMES_BYTES_MAX);
    run->frames.buf = buf;
    run->frames.leg = leg_of(run);
}

/* Under the lock. */
static void open_stream(mistral_run *run)
{
    pal_call *call = run->call;
    pal_buf buf;
    pal_call_streaming(call);
    pal_exchange_add_header(call->exchange, "cache-control", pal_str_of("no-store"));
    pal_exchange_add_header(call->exchange, "x-accel-buffering", pal_str_of("no"));
    run->stream = pal_exchange_stream(
            call->exchange, 200, "text/event-stream; charset=utf-8", stream_gone, run);
    run->is_refused = !run->stream;
    if (run->is_refused)
        return;
    run->call = NULL;
    run->holders++;
    begin_frames(run, &buf);
    pal_mistral_frames_started(&run->frames, run->options.conversation);
    write_frames(run, &buf);
}

/* ---- Watching a turn ---- */

static void add_usage(pal_usage *sum, const pal_usage *usage)
{
    sum->input += usage->input;
    sum->cache_read += usage->cache_read;
    sum->cache_write += usage->cache_write;
    sum->output += usage->output;
    sum->reasoning += usage->reasoning;
}

/* What was said comes right before its first answer. */
static void note_answer(mistral_run *run, const pal_event *event)
{
    if (!run->answer_seq) {
        run->answer_seq = event->seq;
        run->first_seq =
                event->seq > run->options.messages_len ? event->seq - run->options.messages_len : 1;
    }
    run->last_seq = event->seq;
}

static void note_end(mistral_run *run, const pal_event *event)
{
    run->state = event->state;
    run->code = event->code;
    run->retry_after_ms = event->retry_after_ms;
    add_usage(&run->usage, &event->usage);
    if (event->state == PAL_TURN_DONE)
        return;
    pal_error_set(&run->error, event->status == PAL_OK ? PAL_CANCELED : event->status, "%.*s",
            PAL_STR_ARG(event->text));
}

static void note(mistral_run *run, const pal_event *event)
{
    if (event->kind == PAL_EVENT_MESSAGE)
        note_answer(run, event);
    else if (event->kind == PAL_EVENT_PAUSED)
        run->calls = pal_arena_copy(run->arena, event->text);
    else if (event->kind == PAL_EVENT_ASKING)
        run->asked = pal_arena_copy(run->arena, event->call_id);
    else if (event->kind == PAL_EVENT_ENDED)
        note_end(run, event);
}

/* On the loop. */
static bool see(const pal_event *event, void *user)
{
    mistral_run *run = user;
    pal_buf buf;
    pthread_mutex_lock(&run->lock);
    if (run->stream) {
        begin_frames(run, &buf);
        pal_mistral_frames_event(&run->frames, event);
        write_frames(run, &buf);
    }
    note(run, event);
    pthread_mutex_unlock(&run->lock);
    return event->kind != PAL_EVENT_ENDED && event->kind != PAL_EVENT_ASKING;
}

/* ---- Handing over ---- */

static const pal_mistral_target *target_of(const mistral_run *run, pal_str tool)
{
    const pal_mistral_leg *leg = leg_of(run);
    for (size_t i = 0; i < leg->targets_len; i++) {
        if (pal_str_equal(leg->targets[i].tool, tool))
            return &leg->targets[i];
    }
    return NULL;
}

/* The agent to go on with; NULL: it ends here. Where the client has calls to run besides, it comes
 * first. */
static const pal_mistral_target *next_target(const mistral_run *run, pal_json calls)
{
    const pal_mistral_target *first = NULL;
    pal_json call;
    if (run->state != PAL_TURN_DONE || run->is_gone || run->options.is_clients ||
            run->legs_run > PAL_MISTRAL_LEGS_MAX)
        return NULL;
    for (pal_json_iter iter = pal_json_each(calls); pal_json_next(&iter, NULL, &call);) {
        const pal_mistral_target *target =
                target_of(run, pal_member_string(call, "name", run->arena));
        if (!target)
            return NULL;
        first = first ? first : target;
    }
    return first;
}

/* The results of the calls that hand over: only the first one does. */
static pal_message *make_results(
        mistral_run *run, pal_json calls, const pal_mistral_leg *to, size_t *out_len)
{
    const pal_mistral_leg *from = leg_of(run);
    const pal_mistral_handoff handoff = {.previous_id = from->agent_id,
            .previous_name = from->agent_name,
            .next_id = to->agent_id,
            .next_name = to->agent_name};
    size_t len = 0, count = pal_json_count(calls);
    pal_message *messages = pal_arena_array(run->arena, count, sizeof *messages);
    pal_part *parts = pal_arena_array(run->arena, count, sizeof *parts);
    pal_json call;
    pal_json_iter iter = pal_json_each(calls);
    for (; messages && parts && pal_json_next(&iter, NULL, &call); len++) {
        parts[len] = (pal_part){.kind = PAL_PART_TOOL_RESULT,
                .call_id = pal_member_string(call, "call_id", run->arena),
                .name = pal_member_string(call, "name", run->arena),
                .text = pal_str_of(len ? "Another handoff came first." : "done"),
                .is_error = len > 0};
        messages[len] = (pal_message){
                .id = pal_id_new(), .role = PAL_ROLE_TOOL, .parts = &parts[len], .parts_len = 1};
    }
    *out_len = len;
    if (!len || pal_mistral_handoff_keep(&handoff, run->arena, &parts[0].extra, NULL) != PAL_OK)
        return NULL;
    return messages;
}

/* Under the lock. False: nothing is handed over. */
static bool hand_over(mistral_run *run, pal_message **out_messages, size_t *out_len)
{
    pal_json calls = {0};
    pal_buf buf;
    if (run->calls.len && pal_json_parse(run->arena, run->calls, NULL, &calls, NULL) != PAL_OK)
        return false;
    const pal_mistral_target *target = next_target(run, calls);
    if (!target)
        return false;
    const pal_mistral_leg *to = &run->options.legs.items[target->leg];
    *out_messages = make_results(run, calls, to, out_len);
    if (!*out_messages)
        return false;
    begin_frames(run, &buf);
    pal_mistral_frames_handoff(&run->frames, (*out_messages)[0].id, leg_of(run), to);
    write_frames(run, &buf);
    run->leg = target->leg;
    run->kept_seq = run->last_seq;
    run->calls = (pal_str){0};
    return true;
}

/* On the loop: the turn tells no more. */
static void seen(void *user)
{
    mistral_run *run = user;
    pal_message *messages;
    size_t len;
    pthread_mutex_lock(&run->lock);
    bool goes_on = run->state == PAL_TURN_DONE && hand_over(run, &messages, &len);
    pthread_mutex_unlock(&run->lock);
    if (goes_on)
        start_leg(run, messages, len);
    else
        finish(run);
}

/* ---- Starting ---- */

static void fail(mistral_run *run, const pal_error *err)
{
    pthread_mutex_lock(&run->lock);
    run->state = PAL_TURN_FAILED;
    run->error = *err;
    pthread_mutex_unlock(&run->lock);
    finish(run);
}

/* On the loop, or on a worker for one that goes on. */
static void watch(mistral_run *run, uint64_t after)
{
    pal_error err = {0};
    if (!run->options.is_stream && run->legs_run < 2)
        (void)pal_exchange_watch(run->call->exchange, client_left, run);
    pthread_mutex_lock(&run->lock);
    if (run->options.is_stream && run->call)
        open_stream(run);
    bool is_unwanted = run->is_gone || run->is_refused;
    pthread_mutex_unlock(&run->lock);
    if (is_unwanted)
        pal_turn_abandon(run->server->runtime, pal_str_of(run->tenant), run->turn);
    if (pal_turn_watch(run->server->runtime, pal_str_of(run->tenant), run->turn, after, see, seen,
                run, &err) != PAL_OK)
        fail(run, &err);
}

/* On the loop. */
static void started(const pal_turn_info *info, const pal_error *err, void *user)
{
    mistral_run *run = user;
    if (err) {
        fail(run, err);
        return;
    }
    pthread_mutex_lock(&run->lock);
    run->turn = info->turn;
    run->state = PAL_TURN_RUNNING;
    pthread_mutex_unlock(&run->lock);
    if (run->call)
        pal_call_trace_turn(run->call, info, leg_of(run)->request.model);
    watch(run, 0);
}

/* Where nobody waits for it any more, nothing begins. */
static void start_leg(mistral_run *run, pal_message *messages, size_t messages_len)
{
    pal_error err = {0};
    pal_status status = PAL_CANCELED;
    pthread_mutex_lock(&run->lock);
    if (!run->is_gone) {
        pal_turn_request request = leg_of(run)->request;
        request.session = run->options.session;
        request.messages = messages;
        request.messages_len = messages_len;
        run->legs_run++;
        status = pal_turn_start_async(run->server->runtime, &request, started, run, &err);
    }
    pthread_mutex_unlock(&run->lock);
    if (status != PAL_OK)
        fail(run, &err);
}

pal_status pal_mistral_run(pal_call *call, const pal_mistral_run_options *options, pal_error *err)
{
    mistral_run *run = new_run(call, options);
    if (!run)
        return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    if (pal_arena_failure(run->arena) != PAL_OK) {
        release(run);
        return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    }
    if (pal_id_is_none(options->turn)) {
        start_leg(run, options->messages, options->messages_len);
        return PAL_OK;
    }
    run->turn = options->turn;
    run->state = PAL_TURN_RUNNING;
    watch(run, options->after);
    return PAL_OK;
}

/* ---- What is done at the end ---- */

static pal_op op_of(const mistral_run *run, pal_op_kind kind)
{
    return (pal_op){
            .kind = kind, .tenant = pal_str_of(run->tenant), .session = run->options.session};
}

/* What earlier turns of the request have recorded goes out of sight. */
static void plan_hiding(mistral_run *run)
{
    size_t len = (size_t)(run->kept_seq - run->first_seq + 1);
    run->ops = pal_arena_array(run->arena, len, sizeof *run->ops);
    run->marks = pal_arena_array(run->arena, len, sizeof *run->marks);
    for (size_t i = 0; run->ops && run->marks && i < len; i++) {
        run->marks[i] = (pal_mark){.kind = PAL_MARK_HIDE, .seq = run->first_seq + i};
        run->ops[i] = op_of(run, PAL_OP_MARK);
        run->ops[i].u.mark = &run->marks[i];
        run->ops_len++;
    }
}

/* Who speaks from now on. */
static void plan_speaker(mistral_run *run)
{
    pal_buf buf;
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_json_quote(&buf, leg_of(run)->agent_id);
    pal_id_to_text(run->options.session, run->speaker_name);
    run->speaker = (pal_record){.kind = pal_str_of(PAL_MISTRAL_SPEAKER),
            .name = pal_str_of(run->speaker_name),
            .session = run->options.session};
    run->ops = pal_arena_alloc(run->arena, sizeof *run->ops);
    if (run->ops && pal_member_keep(&buf, run->arena, &run->speaker.body, NULL) == PAL_OK) {
        run->ops[0] = op_of(run, PAL_OP_RECORD_PUT);
        run->ops[0].u.record.record = &run->speaker;
        run->ops[0].u.record.expected_version = PAL_VERSION_ANY;
        run->ops_len = 1;
    }
    pal_buf_done(&buf);
}

static void plan_end(mistral_run *run)
{
    bool is_done = run->state == PAL_TURN_DONE || run->asked.len;
    if (run->options.is_passing || (!is_done && run->options.is_made)) {
        run->ops = pal_arena_alloc(run->arena, sizeof *run->ops);
        if (run->ops) {
            run->ops[0] = op_of(run, PAL_OP_ERASE);
            run->ops[0].u.erasure = &run->erasure;
            run->ops_len = 1;
        }
    } else if (!is_done && run->kept_seq) {
        plan_hiding(run);
    } else if (is_done && run->leg) {
        plan_speaker(run);
    }
}

static void log_failures(const mistral_run *run, pal_status status)
{
    for (size_t i = 0; status == PAL_OK && i < run->ops_len; i++)
        status = run->ops[i].status;
    if (status != PAL_OK)
        pal_log(PAL_LOG_WARN, "a conversation could not be tidied up: %s", pal_status_name(status));
}

/* ---- Failing ---- */

/* What the model's service says of the request is passed on; what it says of its own key is not the
 * caller's. */
static unsigned code_of(const mistral_run *run)
{
    pal_status status = run->error.status;
    if (run->is_refused || status == PAL_CANCELED)
        return 503;
    if (run->code == 429 || run->code == 400 || run->code == 413)
        return (unsigned)run->code;
    if (run->code == 422 || run->code == 404)
        return 400;
    if (status == PAL_BUSY)
        return 409;
    bool is_foreign =
            run->code || status == PAL_DENIED || status == PAL_IO || status == PAL_NOT_FOUND;
    return is_foreign ? 502 : pal_status_http(status);
}

static void send_failure(mistral_run *run)
{
    pal_call *call = run->call;
    pal_error err = run->error;
    call->fail_code = code_of(run);
    if (call->fail_code == 429)
        call->fail_retry_ms = run->retry_after_ms > 0 ? run->retry_after_ms : 1000;
    if (run->is_refused)
        pal_error_set(&err, PAL_BUSY,
                "as many streams as server.streams_max allows are open; try again later");
    pal_call_fail(call, err.status, &err);
}

/* ---- Answering ---- */

static pal_status put_outputs(mistral_run *run, pal_json_writer *writer, pal_error *err)
{
    pal_call *call = run->call;
    pal_messages list = {0};
    pal_mistral_entry *entries;
    size_t len;
    const pal_load load = {.after_seq = run->answer_seq - 1, .before_seq = run->last_seq + 1};
    pal_status status = PAL_OK;
    if (run->answer_seq)
        status = pal_store_load(run->server->store, pal_str_of(run->tenant), run->options.session,
                &load, call->arena, &list, err);
    if (status == PAL_OK)
        status = pal_mistral_entries(
                call, &list, run->options.legs.items[0].agent_id, &entries, &len, err);
    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        const pal_part *part = &entries[i].message->parts[entries[i].first];
        entries[i].is_pending = run->asked.len && entries[i].kind == PAL_ENTRY_EXECUTION &&
                pal_str_equal(part->call_id, run->asked);
        pal_mistral_entry_put(writer, &entries[i], call->arena);
    }
    return status == PAL_OK ? pal_arena_checked(call->arena, err) : status;
}

static pal_status put_answer(mistral_run *run, pal_error *err)
{
    pal_json_writer *writer = pal_call_writer(run->call);
    char id[PAL_OPENAI_ID_SIZE];
    pal_openai_id_text("conv_", run->options.conversation, id);
    pal_json_begin_object(writer);
    pal_put_text(writer, "object", "conversation.response");
    pal_put_text(writer, "conversation_id", id);
    pal_json_name(writer, "outputs");
    pal_json_begin_array(writer);
    pal_status status = put_outputs(run, writer, err);
    pal_json_end_array(writer);
    pal_mistral_put_usage(writer, &run->usage);
    pal_json_end_object(writer);
    return status;
}

/* On a worker. */
static void answer(pal_exchange *x)
{
    pal_call *call = pal_exchange_user(x);
    mistral_run *run = call->user;
    pal_error err = {0};
    pal_status status = PAL_OK;
    bool is_done = run->state == PAL_TURN_DONE || run->asked.len;
    if (is_done)
        status = put_answer(run, &err);
    if (run->asked.len && run->options.is_passing) /* nobody could be asked later */
        pal_turn_abandon(run->server->runtime, pal_str_of(run->tenant), run->turn);
    if (run->ops_len)
        log_failures(run, pal_store_apply(run->server->store, run->ops, run->ops_len, NULL));
    bool is_own = run->options.is_stream; /* one that was refused; else it may go with the call */
    if (!is_done)
        send_failure(run);
    else if (status == PAL_OK)
        pal_call_send(call, 200);
    else
        pal_call_fail(call, status, &err);
    if (is_own)
        release(run);
}

/* Under the lock: the last frame. */
static void put_last(mistral_run *run)
{
    if (run->state == PAL_TURN_DONE || run->asked.len)
        pal_mistral_frames_done(&run->frames, &run->usage);
    else
        pal_mistral_frames_failed(&run->frames, code_of(run),
                run->error.message[0] ? run->error.message : "the model did not answer");
}

/* Calls that were held back because they would have handed over, or that ask. */
static void put_held(mistral_run *run)
{
    pal_json calls = {0}, call;
    bool has_calls =
            run->calls.len && pal_json_parse(run->arena, run->calls, NULL, &calls, NULL) == PAL_OK;
    for (const pal_mistral_call *each = run->frames.calls; each; each = each->next) {
        pal_json_iter iter = pal_json_each(calls);
        if (run->asked.len && pal_str_equal(each->id, run->asked))
            pal_mistral_frames_call(&run->frames, each, (pal_str){0}, "pending");
        while (has_calls && each->kind == PAL_ENTRY_HANDOFF && pal_json_next(&iter, NULL, &call)) {
            if (pal_str_equal(pal_member_string(call, "call_id", run->arena), each->id))
                pal_mistral_frames_call(
                        &run->frames, each, pal_member_string(call, "arguments", run->arena), NULL);
        }
    }
}

static void end_stream(mistral_run *run)
{
    pal_buf buf;
    pthread_mutex_lock(&run->lock);
    if (run->stream) {
        begin_frames(run, &buf);
        put_held(run);
        put_last(run);
        write_frames(run, &buf);
        pal_stream_end(run->stream);
    }
    pthread_mutex_unlock(&run->lock);
    release(run);
}

static void tidied(pal_op *ops, size_t ops_len, pal_status status, const pal_error *err, void *user)
{
    (void)ops;
    (void)ops_len;
    (void)err;
    log_failures(user, status);
    end_stream(user);
}

/* All turns are over. On the loop, or wherever the first one could not be started. */
static void finish(mistral_run *run)
{
    pthread_mutex_lock(&run->lock);
    if (run->state == PAL_TURN_RUNNING && run->asked.len == 0) {
        run->state = PAL_TURN_CANCELED;
        pal_error_set(&run->error, PAL_CANCELED, "the server stops");
    }
    plan_end(run);
    pthread_mutex_unlock(&run->lock);
    if (run->call) {
        run->call->user = run;
        pal_exchange_to_worker(run->call->exchange, answer);
        return;
    }
    if (run->ops_len == 0 ||
            pal_store_apply_async(run->server->store, run->ops, run->ops_len, tidied, run, NULL) !=
                    PAL_OK)
        end_stream(run);
}
