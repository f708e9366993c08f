/* turn_call.c - plans the next model call, makes it, and retries it. turn.h has the phases. On the
 * loop; only the plan runs on a worker.
 *
 * Durability: the user's message is committed before the model is called, an answer before its
 * tools run, and results before the next call. */
#include "turn/turn.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "turn/turn_affinity.h"
#include "turn/turn_conversation.h"
#include "turn/turn_event.h"
#include "turn/runtime/runtime_models.h"
#include "turn/recovery/recovery_owed.h"

/* Delay before the first retry if the service cannot be reached. Each further delay is twice as
 * long. */
#define UNREACHABLE_FIRST_MS ((int64_t)500)

static void call_model(pal_turn *turn);

/* ---- Planning ---- */

pal_arena *pal_turn_step_arena(pal_turn *turn)
{
    if (!turn->step.arena)
        turn->step.arena = pal_arena_new(0);
    return turn->step.arena;
}

/* No model is configured for the endpoint: uses the endpoint's first model, which is requested
 * once. */
static void find_model(pal_turn *turn)
{
    turn->settings.model = turn->runtime->provider_models[turn->settings.endpoint];
    if (turn->settings.model.len > 0)
        pal_turn_next_step(turn);
    else
        pal_models_ask(turn);
}

void pal_turn_planned(pal_turn *turn)
{
    /* it has ended in the meantime, or another process has it */
    if (turn->phase != PAL_TURN_PHASE_PLAN) {
        pal_budget_release(atomic_exchange(&turn->step.held, NULL));
        return;
    }
    if (turn->stop)
        pal_turn_close(turn);
    else if (turn->work_status != PAL_OK)
        pal_turn_fail(turn, turn->work_status, "%s", turn->work_error.message);
    else if (turn->settings.model.len == 0)
        find_model(turn);
    else if (turn->summary.job)
        pal_summary_ask(turn);
    else if (turn->summary.wait)
        pal_turn_finish(turn, PAL_TURN_DONE); /* there was nothing to compact */
    else
        call_model(turn);
}

static void on_planned(pal_work_item *item)
{
    pal_turn *turn = PAL_TURN_OF(item, work);

    turn->holds--;
    pal_turn_planned(turn);
}

void pal_turn_next_step(pal_turn *turn)
{
    if (turn->stop) {
        pal_turn_close(turn);
        return;
    }
    if (pal_turn_take_steer(turn))
        return; /* the turn returns to this function after the message is recorded */
    if (turn->step.arena)
        pal_arena_reset(turn->step.arena);
    if (!pal_turn_step_arena(turn)) {
        pal_turn_fail(turn, PAL_NO_MEMORY, "out of memory");
        return;
    }
    pal_turn_enter(turn, PAL_TURN_PHASE_PLAN);
    turn->commit.fence = turn->lane->fence;
    turn->work.work = pal_plan_work;
    turn->work.done = on_planned;
    turn->holds++;
    pal_loop_work(turn->runtime->loop, &turn->work);
}

/* ---- The call ---- */

static void on_retry_time(pal_timer *timer)
{
    pal_turn *turn = PAL_TURN_OF(timer, timer);

    turn->holds--;
    pal_turn_set_state(turn, PAL_TURN_RUNNING);
    turn->info.reason[0] = '\0';
    if (turn->summary.job)
        pal_summary_ask(turn);
    else
        pal_turn_next_step(turn);
}

static double jitter(void)
{
    uint16_t random;

    pal_random_bytes(&random, sizeof(random));
    return (double)random / UINT16_MAX;
}

/* Returns the delay before the next try, or -1 if there is none. A service that could never be
 * reached is probably misspelled or not started, so its user gets the error soon. A service that
 * responded before is probably restarting. */
static int64_t retry_delay_ms(pal_turn *turn, const pal_model_end *end)
{
    int64_t now = pal_clock_monotonic_ms();
    int64_t delay;

    if (!end->is_unreachable)
        return pal_retry_delay_ms(turn->step.attempt, end->retry_after_ms, jitter());
    if (turn->step.attempt == 1)
        turn->step.unreachable_ms = now;
    delay = UNREACHABLE_FIRST_MS << (turn->step.attempt < 8 ? turn->step.attempt - 1 : 7);
    return now - turn->step.unreachable_ms + delay <= PAL_TURN_UNREACHABLE_MS ? delay : -1;
}

bool pal_turn_retry(pal_turn *turn, const pal_model_end *end)
{
    pal_runtime *runtime = turn->runtime;
    int64_t delay = retry_delay_ms(turn, end);

    if (!end->is_retryable || delay < 0 || turn->step.output_seen || turn->request.no_retries ||
            turn->step.attempt > runtime->options.retries_max)
        return false;
    if (!pal_loop_timer_start(runtime->loop, &turn->timer, delay, on_retry_time))
        return false;
    turn->holds++;
    turn->step.attempt++;
    pal_turn_enter(turn, PAL_TURN_PHASE_WAIT);
    turn->info.attempt = turn->step.attempt;
    turn->info.retry_at = pal_clock_now_ms() + delay;
    snprintf(turn->info.reason, sizeof(turn->info.reason), "%.*s", PAL_STR_ARG(end->error));
    pal_turn_set_state(turn, PAL_TURN_RETRYING);
    pthread_mutex_lock(&runtime->lock);
    runtime->stats.model_retries++;
    pthread_mutex_unlock(&runtime->lock);
    pal_event_publish(turn,
            (pal_event){.kind = PAL_EVENT_RETRYING,
                    .count = turn->step.attempt,
                    .at = turn->info.retry_at,
                    .text = end->error});
    return true;
}

void pal_turn_report_call(pal_turn *turn, const char *purpose, pal_str endpoint, pal_str model,
        const pal_model_end *end)
{
    const pal_turn_step *step = &turn->step;
    pal_usage none = {0};
    const pal_usage *usage = end->has_usage ? &end->usage : &none;
    pal_runtime_report_call(turn->runtime,
            &(pal_model_report){.endpoint = endpoint,
                    .model = model,
                    .purpose = purpose,
                    .status = end->status,
                    .usage = *usage,
                    .cost_micros = pal_budget_cost(turn->runtime, model, usage),
                    .duration_us = pal_clock_monotonic_us() - step->called_us,
                    .first_us = step->first_us ? step->first_us - step->called_us : 0});
}

void pal_turn_called(pal_turn *turn, const pal_model_end *end)
{
    turn->holds--;
    turn->step.call = NULL;
    pal_turn_report_call(turn, "turn", pal_provider_name(turn->step.provider),
            turn->settings.model, end);
    if (end->status == PAL_OK) {
        pal_answer_record(turn, end);
        return;
    }
    pal_answer_record_usage(turn, end);
    if (pal_conversation_failed(turn, end) && !turn->step.output_seen) {
        pal_turn_next_step(turn);
    } else if (end->is_overflow && !(turn->step.plan_after & PAL_PLAN_AFTER_COMPACTION) &&
            !turn->step.output_seen) {
        turn->step.plan_after |= PAL_PLAN_AFTER_OVERFLOW;
        pal_turn_next_step(turn);
    } else if (!pal_turn_retry(turn, end)) {
        turn->info.code = end->code;
        turn->info.retry_after_ms = end->retry_after_ms > 0 ? end->retry_after_ms : 0;
        /* Clients read PAL_IO as a disk failure. */
        pal_turn_fail(turn, end->status == PAL_IO ? PAL_PROVIDER : end->status, "%.*s",
                PAL_STR_ARG(end->error));
    }
}

/* An epoch is stored with the answer that followed it. Losing an epoch costs one cache miss. */
static void note_epoch(pal_turn *turn)
{
    turn->commit.epoch = (pal_mark){0};
    if (turn->commit.mark.kind != PAL_MARK_EPOCH)
        return;
    turn->commit.epoch = turn->commit.mark;
    turn->commit.epoch.body = pal_arena_copy(turn->arena, turn->commit.mark.body);
}

/* Frees the plan after it was sent. Thousands of turns can wait for answers at the same time, and
 * the plans would be a third of their memory. */
static void drop_plan(pal_turn *turn)
{
    pal_arena_free(turn->step.arena);
    turn->step.arena = NULL;
    turn->step.messages = NULL;
    turn->step.messages_len = 0;
    turn->step.plan = (pal_plan){0};
    turn->commit.mark = (pal_mark){0};
    pal_free(turn->commit.ops);
    turn->commit.ops = NULL;
    turn->commit.write.ops_len = 0;
}

/* A turn without messages of its own is found by its first answer. */
static pal_id next_id(pal_turn *turn)
{
    if (turn->request.messages_len > 0 || !pal_id_is_none(turn->owed.first_id) ||
            turn->step.number > 1)
        return pal_id_new();
    return pal_owed_first(turn->owed.turn);
}

static void call_model(pal_turn *turn)
{
    pal_affinity_ids ids;
    pal_model_request request = {
            .model = turn->settings.model,
            .messages = turn->step.messages,
            .messages_len = turn->step.messages_len,
            .stable_len = turn->step.messages_len,
            .tools = turn->step.tools,
            .tools_len = turn->step.tools_len,
            .tools_checked = true,
            .tool_choice = pal_tools_are_over(turn) && turn->step.tools_len > 0
                    ? pal_str_of("\"none\"")
                    : turn->request.tool_choice,
            .parameters = turn->settings.parameters,
            .items_request = turn->request.items_request,
            .output_max = turn->request.output_max,
            .stream = true,
    };
    pal_error err = {0};
    pal_status status;

    pal_turn_enter(turn, PAL_TURN_PHASE_CALL);
    if (turn->step.attempt == 0) {
        turn->step.attempt = 1;
        turn->step.number++;
        turn->step.answer_id = next_id(turn);
        pal_event_publish(turn,
                (pal_event){.kind = PAL_EVENT_STEP,
                        .count = turn->step.number,
                        .message = turn->step.answer_id,
                        .name = turn->settings.model});
    }
    turn->step.output_seen = false;
    turn->step.called_us = pal_clock_monotonic_us();
    turn->step.first_us = 0;
    pal_answer_clear(&turn->step.answer);
    turn->step.answer.has_items = pal_provider_sends_items(turn->step.provider, &request);
    if (turn->step.is_kept)
        request.conversation = turn->step.conversation.id;
    else
        pal_affinity_ids_add(turn, &ids, &request);
    status = pal_provider_start(
            turn->step.provider, &request, &pal_answer_sink, turn, &turn->step.call, &err);
    if (status != PAL_OK) {
        pal_turn_fail(turn, status, "%s", err.message);
        return;
    }
    turn->holds++;
    pthread_mutex_lock(&turn->runtime->lock);
    turn->runtime->stats.model_calls++;
    pthread_mutex_unlock(&turn->runtime->lock);
    note_epoch(turn);
    if (!turn->step.is_kept)
        drop_plan(turn);
}
