/* turn_summary.c - the compaction of a turn: requests the summary from a model, between the two
 * halves of window_compact.c. On the loop, except for keep_summary().
 *
 * A crash before the checkpoint is committed leaves the conversation unchanged; the next turn
 * compacts again. */
#include "turn/turn.h"
#include "base/clock.h"
#include "turn/runtime/runtime_memory.h"

#include "tokens/tokens_estimate.h"
#include "turn/turn_affinity.h"
#include "turn/turn_event.h"

static void drop_job(pal_turn *turn)
{
    pal_arena_free(turn->summary.arena);
    turn->summary.arena = NULL;
    turn->summary.job = NULL;
    turn->summary.end = NULL;
    pal_buf_done(&turn->summary.text);
}

typedef struct pal_summary_end {
    pal_summary_answer answer;
    bool is_answered;
    bool has_call;      /* the model called a tool instead of writing a summary */
    bool forbids_calls; /* the second request, which forbids tool calls explicitly */
    pal_str failure;
    pal_compaction_result compacted;
} summary_end;

/* Runs on a worker. */
static void keep_summary(pal_work_item *item)
{
    pal_turn *turn = PAL_TURN_OF(item, work);
    summary_end *end = turn->summary.end;

    turn->work_error = (pal_error){0};
    turn->work_status = pal_compact_end(turn->runtime->store, turn->summary.job,
            end->is_answered ? &end->answer : NULL, end->failure, turn->summary.arena,
            &end->compacted, &turn->work_error);
}

static void give(const pal_compact_wait *wait, const pal_compaction_result *compacted)
{
    *wait->out_compacted = *compacted;
    wait->out_compacted->summary = pal_arena_copy(wait->arena, compacted->summary);
    wait->out_compacted->note = pal_arena_copy(wait->arena, compacted->note);
}

void pal_summary_refuse(pal_compact_wait *wait, const pal_error *why)
{
    wait->status = pal_error_set(wait->err, why->status, "%s", why->message);
    pal_ask_end(&wait->ask);
}

void pal_summary_tell(pal_turn *turn)
{
    pal_compact_wait *wait = turn->summary.wait;
    pal_error err = {.status = turn->info.status ? turn->info.status : PAL_CANCELED};

    if (!wait)
        return;
    turn->summary.wait = NULL; /* the waiting caller's memory is gone after the next call */
    memcpy(err.message, turn->info.reason, sizeof(err.message));
    if (turn->state != PAL_TURN_DONE)
        pal_summary_refuse(wait, &err);
    else if (pal_arena_failure(wait->arena) != PAL_OK)
        pal_summary_refuse(wait, &(pal_error){PAL_NO_MEMORY, "out of memory"});
    else
        pal_ask_end(&wait->ask);
}

static void on_summary_kept(pal_work_item *item)
{
    pal_turn *turn = PAL_TURN_OF(item, work);
    const pal_compaction_result *compacted = &turn->summary.end->compacted;

    turn->holds--;
    if (turn->phase == PAL_TURN_PHASE_ENDED)
        return;
    if (turn->stop && !turn->summary.wait) {
        drop_job(turn);
        pal_turn_close(turn);
        return;
    }
    if (turn->work_status != PAL_OK) {
        drop_job(turn);
        pal_turn_fail(turn, turn->work_status, "%s", turn->work_error.message);
        return;
    }
    pal_event_publish(turn,
            (pal_event){.kind = PAL_EVENT_COMPACTED,
                    .text = compacted->note.len ? compacted->note
                                                : pal_str_of("older messages were summarized"),
                    .count = compacted->tokens_before > compacted->tokens_after
                            ? compacted->tokens_before - compacted->tokens_after
                            : 0});
    if (turn->summary.wait) {
        give(turn->summary.wait, compacted);
        drop_job(turn);
        pal_turn_finish(turn, PAL_TURN_DONE);
        return;
    }
    drop_job(turn);
    turn->step.attempt =
            turn->summary.call_attempt; /* tries of the summary do not count as tries of the call */
    turn->step.plan_after = PAL_PLAN_AFTER_COMPACTION;
    pal_turn_next_step(turn);
}

static void end_summary(pal_turn *turn)
{
    turn->work.work = keep_summary;
    turn->work.done = on_summary_kept;
    turn->holds++;
    pal_loop_work(turn->runtime->loop, &turn->work);
}

static void summary_text(void *user, pal_str delta)
{
    pal_turn *turn = user;

    pal_buf_append_str(&turn->summary.text, delta);
}

static void ignore_text(void *user, pal_str delta)
{
}

static void ignore_signature(void *user, pal_str signature, pal_str family)
{
}

static void note_call(void *user, uint32_t index, pal_str id, pal_str name)
{
    pal_turn *turn = user;

    turn->summary.end->has_call = true;
}

static void ignore_arguments(void *user, uint32_t index, pal_str delta)
{
}

/* For a summary without reported usage: estimates of the request and of the output. */
static pal_usage guess_usage(const pal_turn *turn)
{
    const pal_summary_request *asked = &turn->summary.job->request;
    pal_usage usage = {.output = pal_estimate_quickly(pal_buf_str(&turn->summary.text))};

    for (size_t i = 0; i < asked->messages_len; i++) {
        const pal_message *message = &asked->messages[i];

        for (size_t k = 0; k < message->parts_len; k++)
            usage.input += pal_estimate_quickly(message->parts[k].text) +
                    pal_estimate_quickly(message->parts[k].arguments);
    }
    return usage;
}

void pal_summary_spent(pal_turn *turn, const pal_model_end *model_end)
{
    pal_usage usage = model_end->has_usage ? model_end->usage : guess_usage(turn);
    pal_str model = turn->summary.job->request.model;
    char request_id[PAL_ID_TEXT_SIZE];
    pal_ledger_row row = {
            .request_id = pal_str_make(request_id, PAL_ID_TEXT_LEN),
            .turn_id = pal_str_of(turn->id_text),
            .agent = turn->settings.agent,
            .purpose = pal_str_of("compaction"),
            .provider = pal_provider_name(turn->summary.provider),
            .model = model,
            .price_version = turn->runtime->options.price_version,
            .usage = usage,
            .cost_micros = pal_budget_cost(turn->runtime, model, &usage),
    };

    pal_id_to_text(pal_id_new(), request_id);
    pal_answer_add_usage(turn, &usage, row.cost_micros);
    pal_answer_keep_row(turn, &row);
}

/* A call that failed before any output is free. */
static bool is_free(const pal_turn *turn, const pal_model_end *model_end)
{
    return model_end->status != PAL_OK && !model_end->has_usage && turn->summary.text.len == 0;
}

static void summary_ended(void *user, const pal_model_end *model_end)
{
    pal_turn *turn = user;
    summary_end *end = turn->summary.end;
    bool asks_again = model_end->status == PAL_OK && turn->summary.text.len == 0 && end->has_call &&
            !end->forbids_calls;
    /* The row of an answer with usage is written with the checkpoint. */
    bool is_kept_later = model_end->status == PAL_OK && model_end->has_usage && !asks_again;

    turn->holds--;
    turn->step.call = NULL;
    pal_turn_report_call(turn, "compaction", pal_provider_name(turn->summary.provider),
            turn->summary.job->request.model, model_end);
    if (!is_kept_later && !is_free(turn, model_end))
        pal_summary_spent(turn, model_end);
    if (model_end->status != PAL_OK && pal_turn_retry(turn, model_end))
        return; /* readers have seen nothing of it, so the summary can be retried */
    if (asks_again) {
        end->forbids_calls = true;
        pal_summary_ask(turn);
        return;
    }
    *end = (summary_end){.is_answered = model_end->status == PAL_OK};
    end->failure = pal_arena_copy(turn->summary.arena, model_end->error);
    end->answer = (pal_summary_answer){
            .text = pal_arena_copy(turn->summary.arena, pal_buf_str(&turn->summary.text)),
            .model = pal_arena_copy(turn->summary.arena, model_end->model),
            .has_usage = is_kept_later,
            .usage = model_end->usage,
            .provider = pal_provider_name(turn->summary.provider),
            .price_version = turn->runtime->options.price_version,
            .cost_micros = pal_budget_cost(
                    turn->runtime, turn->summary.job->request.model, &model_end->usage),
            .turn_id = pal_str_of(turn->id_text),
            .agent = turn->settings.agent,
    };
    if (is_kept_later)
        pal_answer_add_usage(turn, &model_end->usage, end->answer.cost_micros);
    end_summary(turn);
}

/* Anthropic's message cache does not work if tool_choice changes. For Anthropic, the question
 * itself says not to call tools. tool_choice is set only if the model called a tool anyway. */
static pal_str tool_choice(const pal_turn *turn)
{
    bool is_costly = pal_provider_profile(turn->summary.provider) == PAL_PROFILE_ANTHROPIC;

    if (turn->summary.job->request.tools_len == 0 ||
            (is_costly && !turn->summary.end->forbids_calls))
        return (pal_str){0};
    return pal_str_of("\"none\"");
}

void pal_summary_ask(pal_turn *turn)
{
    static const pal_model_sink sink = {summary_text, ignore_text, ignore_signature, note_call,
            ignore_arguments, summary_ended, NULL, NULL, NULL, NULL};
    const pal_summary_request *asked = &turn->summary.job->request;
    pal_model_request request = {
            .model = asked->model,
            .messages = asked->messages,
            .messages_len = asked->messages_len,
            .stable_len = asked->messages_len > 0 ? asked->messages_len - 1 : 0,
            .tools = asked->tools,
            .tools_len = asked->tools_len,
            .parameters = asked->parameters,
            .output_max = asked->output_max,
            .stream = true,
            .is_aside = true,
    };
    pal_affinity_ids ids;
    pal_error err = {0};

    pal_turn_enter(turn, PAL_TURN_PHASE_SUMMARY);
    if (turn->summary.job->needs_model && pal_memory_before_summary(turn))
        return;
    if (!turn->summary.end) {
        turn->summary.call_attempt = turn->step.attempt;
        turn->step.attempt = 1;
        turn->step.output_seen = false;
        turn->summary.end = pal_arena_alloc(turn->summary.arena, sizeof(*turn->summary.end));
    }
    turn->step.called_us = pal_clock_monotonic_us();
    turn->step.first_us = 0;
    pal_buf_done(&turn->summary.text);
    pal_buf_init(&turn->summary.text, PAL_MESSAGE_BYTES_MAX);
    if (!turn->summary.end) {
        drop_job(turn);
        pal_turn_fail(turn, PAL_NO_MEMORY, "out of memory");
        return;
    }
    if (turn->summary.job->is_given) {
        turn->summary.end->is_answered = true;
        turn->summary.end->answer.text = turn->summary.wait->compaction->summary;
        turn->summary.end->answer.model = pal_str_of("user");
        end_summary(turn);
        return;
    }
    request.tool_choice = tool_choice(turn);
    if (!pal_provider_keeps(turn->summary.provider))
        pal_affinity_ids_add(turn, &ids, &request); /* it begins like the conversation */
    if (turn->summary.job->needs_model &&
            pal_provider_start(turn->summary.provider, &request, &sink, turn, &turn->step.call,
                    &err) == PAL_OK) {
        turn->holds++;
        return;
    }
    turn->summary.end->failure = turn->summary.job->needs_model
            ? pal_arena_copy(turn->summary.arena, pal_str_of(err.message))
            : pal_compact_no_model(turn->summary.job);
    end_summary(turn);
}

bool pal_summary_stop(pal_turn *turn)
{
    if (turn->work.done == on_summary_kept)
        return false; /* summary_kept() sees that the turn was stopped */
    drop_job(turn);
    return true;
}
