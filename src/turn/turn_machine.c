/* turn_machine.c - one exchange as a small state machine: admit, plan, call, record, tools, and
 * again, until the model has nothing more to do.
 *
 * Durability: a user's message is committed before the model is called, an answer before its tools
 * are run, results before the next call. A crash between two of these leaves a log that ends after
 * the last commit; the next turn settles calls that have no result. Whoever writes carries the
 * lease's number, so that a process that was thought dead can't write late. */
#include "turn/turn_machine.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/random.h"
#include "turn/turn_speech.h"
#include "turn/turn_event.h"

static void call_model(pal_turn *turn);

void pal_turn_set_state(pal_turn *turn, pal_turn_state state)
{
    turn->state = turn->info.state = state;
}

void pal_turn_set_reason(pal_turn *turn, const char *reason)
{
    snprintf(turn->info.reason, sizeof(turn->info.reason), "%s", reason);
}

/* ---- Writing ---- */

void pal_turn_write_append(pal_turn *turn, const pal_turn_append *append)
{
    size_t before = turn->write.ops_len++;

    turn->ops[before] = (pal_op){.kind = PAL_OP_APPEND,
            .tenant = turn->request.tenant,
            .session = turn->request.session,
            .fence = turn->lane->fence,
            .with_previous = before > 0,
            .u.append = {.messages = append->messages,
                    .messages_len = append->messages_len,
                    .expected_seq = PAL_SEQ_ANY,
                    .inbox_ids = append->inbox_ids,
                    .inbox_ids_len = append->inbox_len,
                    .ledger = append->ledger,
                    .ledger_len = append->ledger != NULL}};
    turn->write.ops = turn->ops;
    turn->write.done = append->done;
    turn->holds++;
    pal_journal_write(&turn->runtime->journal, &turn->write);
}

pal_status pal_turn_write_status(const pal_turn *turn, pal_error *out_error)
{
    if (turn->write.failure.status != PAL_OK) {
        *out_error = turn->write.failure;
        return out_error->status;
    }
    for (size_t i = 0; i < turn->write.ops_len; i++) {
        if (turn->ops[i].status == PAL_OK)
            continue;
        *out_error = turn->ops[i].error;
        out_error->status = turn->ops[i].status;
        return out_error->status;
    }
    return PAL_OK;
}

/* ---- Planning ---- */

static void new_step_arena(pal_turn *turn)
{
    if (turn->step_arena)
        pal_arena_reset(turn->step_arena);
    else
        turn->step_arena = pal_arena_new(0);
}

static void planned(pal_work_item *item)
{
    pal_turn *turn = pal_turn_of_work(item);

    turn->holds--;
    if (turn->is_cancelled) {
        pal_turn_finish(turn, PAL_TURN_CANCELED);
    } else if (turn->work_status != PAL_OK) {
        pal_turn_fail(turn, turn->work_status, "%s", turn->work_error.message);
    } else if (turn->job) {
        pal_summary_ask(turn);
    } else {
        call_model(turn);
    }
}

void pal_turn_next_step(pal_turn *turn)
{
    if (turn->is_cancelled) {
        pal_turn_finish(turn, PAL_TURN_CANCELED);
        return;
    }
    new_step_arena(turn);
    if (!turn->step_arena) {
        pal_turn_fail(turn, PAL_NO_MEMORY, "out of memory");
        return;
    }
    turn->phase = PAL_PHASE_PLAN;
    turn->work.work = pal_plan_work;
    turn->work.done = planned;
    turn->holds++;
    pal_loop_work(turn->runtime->loop, &turn->work);
}

/* ---- The call ---- */

static void seen(pal_turn *turn)
{
    turn->output_seen = true;
}

static void on_text(void *user, pal_str delta)
{
    pal_turn *turn = user;

    seen(turn);
    pal_speech_text(&turn->answer, delta);
    pal_event_tell(turn, (pal_event){.kind = PAL_EVENT_TEXT, .text = delta});
}

static void on_reasoning(void *user, pal_str delta)
{
    pal_turn *turn = user;

    seen(turn);
    pal_speech_reasoning(&turn->answer, delta);
    pal_event_tell(turn, (pal_event){.kind = PAL_EVENT_REASONING, .text = delta});
}

static void on_signature(void *user, pal_str signature, pal_str family)
{
    pal_turn *turn = user;

    pal_speech_signature(&turn->answer, signature, family);
}

static void on_call(void *user, uint32_t index, pal_str id, pal_str name)
{
    pal_turn *turn = user;

    seen(turn);
    pal_speech_call_begin(&turn->answer, index, id, name);
    pal_event_tell(turn, (pal_event){.kind = PAL_EVENT_CALL, .call_id = id, .name = name});
}

static void on_arguments(void *user, uint32_t index, pal_str delta)
{
    pal_turn *turn = user;
    pal_str id = {0};

    pal_speech_arguments(&turn->answer, index, delta);
    if (index < turn->answer.calls_len)
        id = pal_buf_str(&turn->answer.calls[index].id);
    pal_event_tell(turn, (pal_event){.kind = PAL_EVENT_ARGUMENTS, .call_id = id, .text = delta});
}

static void try_again(pal_timer *timer)
{
    pal_turn *turn = (pal_turn *)((char *)timer - offsetof(pal_turn, timer));

    turn->holds--;
    pal_turn_set_state(turn, PAL_TURN_RUNNING);
    turn->info.reason[0] = '\0';
    pal_turn_next_step(turn);
}

static double jitter(void)
{
    uint16_t random;

    pal_random_bytes(&random, sizeof(random));
    return (double)random / UINT16_MAX;
}

static void wait_to_retry(pal_turn *turn, const pal_model_end *end)
{
    pal_runtime *runtime = turn->runtime;
    int64_t delay = pal_retry_delay_ms(turn->attempt, end->retry_after_ms, jitter());

    turn->attempt++;
    turn->phase = PAL_PHASE_WAIT;
    pal_turn_set_state(turn, PAL_TURN_RETRYING);
    turn->info.attempt = turn->attempt;
    turn->info.retry_at = pal_clock_now_ms() + delay;
    snprintf(turn->info.reason, sizeof(turn->info.reason), "%.*s", PAL_STR_ARG(end->error));
    pthread_mutex_lock(&runtime->lock);
    runtime->stats.model_retries++;
    pthread_mutex_unlock(&runtime->lock);
    pal_event_tell(turn,
            (pal_event){.kind = PAL_EVENT_RETRYING,
                    .count = turn->attempt,
                    .at = turn->info.retry_at,
                    .text = end->error});
    turn->holds++;
    if (!pal_timer_start(runtime->loop, &turn->timer, delay, try_again)) {
        turn->holds--;
        pal_turn_fail(turn, PAL_NO_MEMORY, "out of memory");
    }
}

static void record_answer(pal_turn *turn, const pal_model_end *end);

static void on_end(void *user, const pal_model_end *end)
{
    pal_turn *turn = user;
    uint32_t retries_max = turn->runtime->options.retries_max;

    turn->holds--;
    turn->call = NULL;
    if (end->status == PAL_OK) {
        record_answer(turn, end);
    } else if (end->is_overflow && !turn->after_compaction && !turn->output_seen) {
        turn->after_overflow = true;
        pal_turn_next_step(turn);
    } else if (end->is_retryable && !turn->output_seen && turn->attempt <= retries_max) {
        wait_to_retry(turn, end);
    } else {
        pal_turn_fail(turn, end->status, "%.*s", PAL_STR_ARG(end->error));
    }
}

/* The epoch's mark is written beside the call: losing it costs one cache miss. */
static void epoch_kept(pal_write *write)
{
    pal_turn *turn = (pal_turn *)((char *)write - offsetof(pal_turn, epoch_write));

    turn->holds--;
    pal_free(turn->epoch_body);
    turn->epoch_body = NULL;
}

static void keep_epoch(pal_turn *turn)
{
    pal_str body = turn->mark.body;

    if (turn->mark.kind != PAL_MARK_EPOCH || turn->epoch_body)
        return;
    turn->epoch_body = pal_malloc(body.len);
    if (!turn->epoch_body)
        return;
    memcpy(turn->epoch_body, body.data, body.len);
    turn->epoch_mark = turn->mark;
    turn->epoch_mark.body.data = turn->epoch_body;
    turn->epoch_op = (pal_op){.kind = PAL_OP_MARK,
            .tenant = turn->request.tenant,
            .session = turn->request.session,
            .fence = turn->lane->fence,
            .u.mark = &turn->epoch_mark};
    turn->epoch_write = (pal_write){.ops = &turn->epoch_op, .ops_len = 1, .done = epoch_kept};
    turn->holds++;
    pal_journal_write(&turn->runtime->journal, &turn->epoch_write);
}

static void call_model(pal_turn *turn)
{
    static const pal_model_sink sink = {
            on_text, on_reasoning, on_signature, on_call, on_arguments, on_end};
    char conversation[PAL_ID_TEXT_SIZE];
    pal_model_request request = {
            .model = turn->request.model,
            .messages = turn->request_messages,
            .messages_len = turn->request_len,
            .stable_len = turn->request_len,
            .tools = turn->last_call ? NULL : turn->tools,
            .tools_len = turn->last_call ? 0 : turn->tools_len,
            .tool_choice = turn->request.tool_choice,
            .parameters = turn->request.parameters,
            .output_max = turn->request.output_max,
            .stream = true,
    };
    pal_error err = {0};
    pal_status status;

    turn->phase = PAL_PHASE_CALL;
    if (turn->attempt == 0) {
        turn->attempt = 1;
        turn->step++;
        pal_event_tell(turn, (pal_event){.kind = PAL_EVENT_STEP, .count = turn->step});
    }
    turn->output_seen = false;
    pal_speech_clear(&turn->answer);
    pal_id_to_text(turn->request.session, conversation);
    request.conversation = pal_str_of(conversation);
    status = pal_provider_start(turn->provider, &request, &sink, turn, &turn->call, &err);
    if (status != PAL_OK) {
        pal_turn_fail(turn, status, "%s", err.message);
        return;
    }
    turn->holds++;
    pthread_mutex_lock(&turn->runtime->lock);
    turn->runtime->stats.model_calls++;
    pthread_mutex_unlock(&turn->runtime->lock);
    keep_epoch(turn);
}

/* ---- Recording ---- */

static void add_usage(pal_usage *sum, const pal_usage *usage)
{
    sum->input += usage->input;
    sum->cache_read += usage->cache_read;
    sum->cache_write += usage->cache_write;
    sum->output += usage->output;
    sum->reasoning += usage->reasoning;
}

static void keep_text(pal_turn *turn)
{
    if (turn->answer.text.len == 0)
        return;
    if (!turn->text_arena)
        turn->text_arena = pal_arena_new(0);
    if (!turn->text_arena)
        return;
    pal_arena_reset(turn->text_arena);
    turn->text = pal_arena_copy(turn->text_arena, pal_buf_str(&turn->answer.text));
}

static bool has_calls(const pal_message *message)
{
    for (size_t i = 0; i < message->parts_len; i++)
        if (message->parts[i].kind == PAL_PART_TOOL_CALL)
            return true;
    return false;
}

static void after_answer(pal_turn *turn);

static void steered(pal_write *write)
{
    pal_turn *turn = pal_turn_of_write(write);
    pal_steer *steer = turn->steer;
    pal_error err = {0};

    turn->holds--;
    turn->steer = NULL;
    if (pal_turn_write_status(turn, &err) != PAL_OK) {
        pal_steer_free(steer);
        pal_turn_fail(turn, err.status, "%s", err.message);
        return;
    }
    for (size_t i = 0; i < steer->messages_len; i++)
        pal_event_tell(turn,
                (pal_event){.kind = PAL_EVENT_STEERED,
                        .message = steer->messages[i].id,
                        .seq = steer->messages[i].seq});
    pal_steer_free(steer);
    turn->attempt = 0;
    pal_turn_next_step(turn);
}

/* True when something was said into the turn, which goes on with it. */
static bool take_steer(pal_turn *turn)
{
    pal_steer *steer = pal_lane_steer(turn->lane);

    if (!steer)
        return false;
    turn->phase = PAL_PHASE_STEER;
    turn->steer = steer;
    turn->write.ops_len = 0;
    turn->rounds = 0; /* who speaks to it allows it more */
    pal_turn_write_append(turn,
            &(pal_turn_append){.messages = steer->messages,
                    .messages_len = steer->messages_len,
                    .inbox_ids = &steer->inbox_id,
                    .inbox_len = 1,
                    .done = steered});
    return true;
}

static void recorded(pal_write *write)
{
    pal_turn *turn = pal_turn_of_write(write);
    pal_message *message = turn->messages;
    pal_error err = {0};

    turn->holds--;
    if (pal_turn_write_status(turn, &err) != PAL_OK) {
        pal_turn_fail(turn, err.status, "the answer could not be recorded: %.180s", err.message);
        return;
    }
    pal_event_tell(turn,
            (pal_event){.kind = PAL_EVENT_MESSAGE,
                    .message = message->id,
                    .seq = message->seq,
                    .usage = message->usage,
                    .finish_length = turn->work_status == PAL_LIMIT});
    turn->attempt = 0;
    turn->after_overflow = turn->after_compaction = false;
    if (turn->is_cancelled && !has_calls(message))
        pal_turn_finish(turn, PAL_TURN_CANCELED);
    else if (has_calls(message))
        pal_tools_begin(turn, message);
    else
        after_answer(turn);
}

static void after_answer(pal_turn *turn)
{
    if (!take_steer(turn))
        pal_turn_finish(turn, PAL_TURN_DONE);
}

/* Which calls the caller is to run: so that a restart does not settle them. */
static pal_str waits_of(const pal_turn *turn, const pal_message *message, pal_arena *arena)
{
    pal_buf buf;
    pal_json_writer writer;
    pal_str extra = {0};
    size_t len = 0;

    pal_buf_init(&buf, PAL_MESSAGE_BYTES_MAX);
    writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_json_name(&writer, "waits");
    pal_json_begin_array(&writer);
    for (size_t i = 0; i < message->parts_len; i++)
        for (size_t j = 0; j < turn->request.tools_len; j++)
            if (message->parts[i].kind == PAL_PART_TOOL_CALL &&
                    pal_str_equal(message->parts[i].name, turn->request.tools[j].name)) {
                pal_json_put_str(&writer, message->parts[i].call_id);
                len++;
                break;
            }
    pal_json_end_array(&writer);
    pal_json_end_object(&writer);
    if (len > 0 && buf.failure == PAL_OK)
        extra = pal_arena_copy(arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return extra;
}

static void set_ledger(pal_turn *turn, const pal_model_end *end, pal_arena *arena)
{
    char id[PAL_ID_TEXT_SIZE], call_id[PAL_ID_TEXT_SIZE];

    pal_id_to_text(turn->id, id);
    pal_id_to_text(pal_id_new(), call_id);
    turn->ledger = (pal_ledger_row){
            .request_id = pal_arena_copy(arena, pal_str_of(call_id)),
            .turn_id = pal_arena_copy(arena, pal_str_of(id)),
            .purpose = pal_str_of("turn"),
            .provider = pal_provider_name(turn->provider),
            .model = turn->request.model,
            .price_version = turn->runtime->options.price_version,
            .usage = end->usage,
            .cost_micros = pal_price_of(turn->runtime, turn->request.model, &end->usage),
    };
    add_usage(&turn->usage, &end->usage);
    turn->cost_micros += turn->ledger.cost_micros;
}

static void record_answer(pal_turn *turn, const pal_model_end *end)
{
    pal_arena *arena = turn->step_arena;
    pal_message *message = pal_arena_alloc(arena, sizeof(*message));
    pal_error err = {0};
    pal_status status = PAL_NO_MEMORY;

    if (message)
        status = pal_speech_message(&turn->answer, arena, message, &err);
    if (status != PAL_OK) {
        pal_turn_fail(turn, status, "%s", message ? err.message : "out of memory");
        return;
    }
    if (message->parts_len == 0) {
        pal_turn_fail(turn, PAL_PROVIDER, "the model answered nothing");
        return;
    }
    keep_text(turn);
    message->model = pal_arena_copy(arena, end->model.len ? end->model : turn->request.model);
    message->has_usage = end->has_usage;
    message->usage = end->usage;
    message->extra = waits_of(turn, message, arena);
    turn->messages = message;
    turn->messages_len = 1;
    turn->phase = PAL_PHASE_RECORD;
    turn->work_status = end->finish == PAL_FINISH_LENGTH ? PAL_LIMIT : PAL_OK;
    turn->write.ops_len = 0;
    if (end->has_usage)
        set_ledger(turn, end, arena);
    pal_turn_write_append(turn,
            &(pal_turn_append){.messages = message,
                    .messages_len = 1,
                    .ledger = end->has_usage ? &turn->ledger : NULL,
                    .done = recorded});
}

/* ---- The end ---- */

static void closed(pal_write *write)
{
    pal_turn *turn = pal_turn_of_write(write);

    turn->holds--;
    pal_turn_finish(turn, turn->is_cancelled ? PAL_TURN_CANCELED : PAL_TURN_FAILED);
}

/* What was said so far, and why it ended; or, where all or nothing was asked for, a mark that takes
 * the turn's messages out of the conversation. */
static void close_with_record(pal_turn *turn)
{
    pal_arena *arena = turn->step_arena;
    pal_message *message = arena ? pal_arena_alloc(arena, sizeof(*message)) : NULL;
    pal_buf buf;
    pal_json_writer writer;
    pal_error ignored;

    turn->phase = PAL_PHASE_CLOSE;
    turn->write.ops_len = 0;
    if (turn->request.whole && turn->first_seq > 0) {
        turn->mark = (pal_mark){.kind = PAL_MARK_REWIND, .seq = turn->first_seq - 1};
        turn->ops[turn->write.ops_len++] = (pal_op){.kind = PAL_OP_MARK,
                .tenant = turn->request.tenant,
                .session = turn->request.session,
                .fence = turn->lane->fence,
                .u.mark = &turn->mark};
        turn->write.ops = turn->ops;
        turn->write.done = closed;
        turn->holds++;
        pal_journal_write(&turn->runtime->journal, &turn->write);
        return;
    }
    if (!message || turn->first_seq == 0 ||
            pal_speech_message(&turn->answer, arena, message, &ignored) != PAL_OK) {
        pal_turn_finish(turn, turn->is_cancelled ? PAL_TURN_CANCELED : PAL_TURN_FAILED);
        return;
    }
    for (size_t i = 0; i < message->parts_len; i++)
        if (message->parts[i].kind == PAL_PART_TOOL_CALL)
            message->parts_len = i; /* cut off in the middle: it was never run */
    message->flags = PAL_FLAG_ERROR;
    message->model = turn->request.model;
    pal_buf_init(&buf, PAL_MESSAGE_BYTES_MAX);
    writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_json_name(&writer, turn->is_cancelled ? "interrupted" : "error");
    pal_json_put_text(&writer, turn->info.reason);
    pal_json_end_object(&writer);
    message->extra = pal_arena_copy(arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    keep_text(turn);
    pal_turn_write_append(
            turn, &(pal_turn_append){.messages = message, .messages_len = 1, .done = closed});
}

void pal_turn_fail(pal_turn *turn, pal_status status, const char *format, ...)
{
    va_list list;

    if (turn->phase == PAL_PHASE_CLOSE || turn->phase == PAL_PHASE_ENDED)
        return;
    va_start(list, format);
    vsnprintf(turn->info.reason, sizeof(turn->info.reason), format, list);
    va_end(list);
    turn->info.status = status;
    if (status == PAL_DENIED || status == PAL_IO || status == PAL_NO_MEMORY) {
        pal_turn_finish(turn, PAL_TURN_FAILED); /* nothing more can be written */
        return;
    }
    close_with_record(turn);
}

void pal_turn_stop(pal_turn *turn, const char *reason)
{
    if (turn->is_cancelled || turn->phase == PAL_PHASE_ENDED)
        return;
    turn->is_cancelled = true;
    pal_turn_set_reason(turn, reason);
    switch (turn->phase) {
    case PAL_PHASE_CALL:
    case PAL_PHASE_SUMMARY:
        if (turn->call) {
            pal_model_call_cancel(turn->call);
            turn->call = NULL;
            turn->holds--;
        }
        if (turn->phase == PAL_PHASE_SUMMARY) {
            pal_summary_stop(turn);
            pal_turn_finish(turn, PAL_TURN_CANCELED);
        } else {
            close_with_record(turn);
        }
        break;
    case PAL_PHASE_WAIT:
        pal_timer_stop(turn->runtime->loop, &turn->timer);
        turn->holds--;
        close_with_record(turn);
        break;
    case PAL_PHASE_TOOLS:
    case PAL_PHASE_PAUSED:
    case PAL_PHASE_ASKING:
        pal_tools_stop(turn, PAL_INTERRUPTED_TEXT);
        break;
    default:
        break; /* what is in flight sees the flag when it comes back */
    }
}

void pal_turn_finish(pal_turn *turn, pal_turn_state state)
{
    if (turn->phase == PAL_PHASE_ENDED)
        return;
    turn->phase = PAL_PHASE_ENDED;
    pal_turn_set_state(turn, state);
    pal_timer_stop(turn->runtime->loop, &turn->timer);
    pal_timer_stop(turn->runtime->loop, &turn->deadline);
    pal_event_tell(turn,
            (pal_event){.kind = PAL_EVENT_ENDED,
                    .state = state,
                    .status = turn->info.status,
                    .text = pal_str_of(turn->info.reason),
                    .usage = turn->usage});
    pal_lane_leave(turn);
}
