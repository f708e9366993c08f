/* api_mistral_end.c - ends a run. It cleans up after a failure, lets the next request into the
 * conversation, and sends the response or the last frames of the stream. */
#include "base/log.h"
#include "dialect/dialect_member.h"
#include "server/api/mistral/api_mistral_run_internal.h"
#include "server/run/run.h"
#include "server/server_call.h"

/* ---- Operations at the end ---- */

static bool is_done(const pal_mistral_runner *run)
{
    return !run->is_refused && (run->state == PAL_TURN_DONE || run->asked.len);
}

/* Hides the messages of the request's turns, up to `last_seq`. */
static void plan_hiding(pal_mistral_runner *run, uint64_t last_seq)
{
    size_t len = (size_t)(last_seq - run->first_seq + 1);
    run->ops = pal_arena_array(run->run.arena, len, sizeof *run->ops);
    run->marks = pal_arena_array(run->run.arena, len, sizeof *run->marks);
    for (size_t i = 0; run->ops && run->marks && i < len; i++) {
        run->marks[i] = (pal_mark){.kind = PAL_MARK_HIDE, .seq = run->first_seq + i};
        run->ops[i] = pal_op_mark(run->run.tenant, run->options.session, &run->marks[i]);
        run->ops_len++;
    }
}

/* Stores the agent that now speaks for the conversation. */
static void plan_speaker(pal_mistral_runner *run)
{
    pal_buf buf;
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_json_quote(&buf, pal_mistral_speaker_of(run)->agent_id);
    pal_id_to_text(run->options.session, run->speaker_name);
    run->speaker_record = (pal_record){.kind = pal_str_of(PAL_MISTRAL_SPEAKER),
            .name = pal_str_of(run->speaker_name),
            .session = run->options.session};
    run->ops = pal_arena_alloc(run->run.arena, sizeof *run->ops);
    if (run->ops && pal_member_keep(&buf, run->run.arena, &run->speaker_record.body,
    NULL) == PAL_OK) {
        run->ops[0] = pal_op_record_put(
                run->run.tenant, &run->speaker_record, PAL_RECORD_VERSION_ANY);
        run->ops_len = 1;
    }
    pal_buf_done(&buf);
}

static void plan_end(pal_mistral_runner *run)
{
    /* A failed turn has removed its own messages. A turn that succeeded has not, so if only its
     * response fails, its messages must be hidden here. */
    uint64_t left_seq = run->state == PAL_TURN_DONE ? run->last_seq : run->kept_seq;
    run->ops_len = 0;
    if (run->options.is_passing || (!is_done(run) && run->options.is_made)) {
        run->ops = pal_arena_alloc(run->run.arena, sizeof *run->ops);
        if (run->ops) {
            run->ops[0] = pal_op_erase(run->run.tenant, run->options.session, &run->erasure);
            run->ops_len = 1;
        }
    } else if (!is_done(run) && left_seq && !run->is_parted) {
        plan_hiding(run, left_seq);
    } else if (is_done(run) && run->speaker) {
        plan_speaker(run);
    }
}

static void log_failures(const pal_mistral_runner *run, pal_status status)
{
    for (size_t i = 0; status == PAL_OK && i < run->ops_len; i++)
        status = run->ops[i].status;
    if (status != PAL_OK)
        pal_log(PAL_LOG_WARN, "could not clean up a conversation after a request: %s",
                pal_status_name(status));
}

static void leave(pal_mistral_runner *run)
{
    pal_mistral_hold *hold = run->options.hold;
    run->options.hold = NULL;
    pal_mistral_lock_release(hold);
}

/* ---- Failing ---- */

static unsigned code_of(const pal_mistral_runner *run)
{
    const pal_event end = {
            .state = PAL_TURN_FAILED, .status = run->error.status, .code = run->code};
    return run->is_refused ? 503 : pal_run_failure_of(pal_run_failures_mistral, &end).code;
}

static void send_failure(pal_mistral_runner *run)
{
    pal_call *call = pal_run_take_call(&run->run);
    pal_error err = run->error;
    call->fail_code = code_of(run);
    if (err.status == PAL_BUDGET)
        call->fail_name = pal_status_name(PAL_BUDGET); /* a retry does not help */
    else if (call->fail_code == 429)
        call->fail_retry_ms = run->retry_after_ms > 0 ? run->retry_after_ms : 1000;
    if (run->is_refused && run->options.is_stream)
        (void)pal_run_refuse_stream(call, &err);
    else if (run->is_refused)
        pal_error_set(&err, PAL_BUSY, "too many waiting requests; retry later");
    pal_call_fail(call, err.status, &err);
}

/* ---- Sending the response ---- */

static pal_json parse(pal_mistral_runner *run, pal_str json)
{
    pal_json value;
    if (!json.len || pal_json_parse(run->run.arena, json, NULL, &value, NULL) != PAL_OK)
        return (pal_json){0};
    return value;
}

static pal_mistral_outcome outcome_of(pal_mistral_runner *run)
{
    return (pal_mistral_outcome){.calls = parse(run, run->calls),
            .asked = parse(run, run->asked),
            .usage = run->usage,
            .finish = run->finish};
}

static pal_status put_answer(pal_mistral_runner *run, pal_error *err)
{
    const pal_message_query load = {
            .after_seq = run->answer_seq - 1, .before_seq = run->last_seq + 1};
    const pal_mistral_outcome outcome = outcome_of(run);
    pal_message_page messages = {0};
    pal_status status = PAL_OK;
    if (run->answer_seq)
        status = pal_store_load(run->run.server->store, run->run.tenant, run->options.session,
                &load, run->run.call->arena, &messages, err);
    run->frames.speaker = pal_mistral_speaker_of(run);
    if (status != PAL_OK)
        return status;
    status = run->options.format->answer(run->run.call, &run->frames, &messages, &outcome, err);
    return status == PAL_OK ? pal_arena_checked(run->run.call->arena, err) : status;
}

/* Called on a worker. */
static void answer(pal_run *base)
{
    pal_mistral_runner *run = (pal_mistral_runner *)base;
    pal_error err = {0};
    pal_status status = PAL_OK;
    if (is_done(run))
        status = put_answer(run, &err);
    if (run->ops_len)
        log_failures(run, pal_store_apply(base->server->store, run->ops, run->ops_len, NULL));
    leave(run);
    if (!is_done(run))
        send_failure(run);
    else if (status == PAL_OK)
        pal_call_send(pal_run_take_call(base), 200);
    else
        pal_call_fail(pal_run_take_call(base), status, &err);
}

/* Writes the last frames. */
static void end_stream(pal_mistral_runner *run)
{
    const pal_mistral_format *format = run->options.format;
    const pal_mistral_outcome outcome = outcome_of(run);
    pal_buf buf;
    if (!run->run.stream)
        return;
    pal_mistral_run_begin_frames(run, &buf);
    if (is_done(run))
        format->done(&run->frames, &outcome);
    else
        format->failed(&run->frames, code_of(run),
                run->error.message[0] ? run->error.message : "the model returned no answer");
    pal_mistral_run_write_frames(run, &buf);
    pal_run_end(&run->run);
}

static void end(pal_mistral_runner *run)
{
    leave(run);
    if (run->run.call)
        send_failure(run);
    else
        end_stream(run);
}

static void tidied(pal_run *base, pal_status status, const pal_error *err)
{
    pal_mistral_runner *run = (pal_mistral_runner *)base;
    (void)err;
    log_failures(run, status);
    end(run);
}

/* Undoes the request, because its response cannot be sent: no worker accepts the job. */
static void take_back(pal_mistral_runner *run)
{
    run->is_refused = true;
    if (run->asked.len)
        pal_turn_cancel_async(run->run.server->runtime, run->run.tenant, run->run.turn);
    plan_end(run);
}

void pal_mistral_run_finish(pal_mistral_runner *run)
{
    pal_run *base = &run->run;
    if (run->options.is_stream && is_done(run))
        pal_mistral_run_open(run);
    plan_end(run);
    if (base->call && pal_run_to_worker(base, answer))
        return;
    if (base->call)
        take_back(run);
    base->keeps_stream = true;
    if (run->ops_len == 0 || !pal_run_apply(base, run->ops, run->ops_len, tidied))
        end(run);
}
