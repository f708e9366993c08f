/* turn_summary.c - a turn's compaction: asks the session's own model for the summary, between the
 * two halves of turn_compact.c. */
#include "turn/turn_machine.h"

#include "turn/turn_event.h"

static void drop_job(pal_turn *turn)
{
    pal_arena_free(turn->job_arena);
    turn->job_arena = NULL;
    turn->job = NULL;
    pal_buf_done(&turn->summary);
}

typedef struct pal_summary_end {
    pal_summary_answer answer;
    bool is_answered;
    pal_str failure;
    pal_compacted compacted;
} summary_end;

/* On a worker. */
static void keep_summary(pal_work_item *item)
{
    pal_turn *turn = pal_turn_of_work(item);
    summary_end *end = turn->summary_end;

    turn->work_error = (pal_error){0};
    turn->work_status =
            pal_compact_end(turn->runtime->store, turn->job, end->is_answered ? &end->answer : NULL,
                    end->failure, turn->job_arena, &end->compacted, &turn->work_error);
}

static void summary_kept(pal_work_item *item)
{
    pal_turn *turn = pal_turn_of_work(item);
    const pal_compacted *compacted = &turn->summary_end->compacted;

    turn->holds--;
    if (turn->is_cancelled) {
        drop_job(turn);
        pal_turn_finish(turn, PAL_TURN_CANCELED);
        return;
    }
    if (turn->work_status != PAL_OK) {
        drop_job(turn);
        pal_turn_fail(turn, turn->work_status, "%s", turn->work_error.message);
        return;
    }
    pal_event_tell(turn,
            (pal_event){.kind = PAL_EVENT_COMPACTED,
                    .text = compacted->note.len ? compacted->note
                                                : pal_str_of("older messages were summarised"),
                    .count = compacted->tokens_before > compacted->tokens_after
                            ? compacted->tokens_before - compacted->tokens_after
                            : 0});
    drop_job(turn);
    turn->after_compaction = true;
    turn->after_overflow = false;
    pal_turn_next_step(turn);
}

static void end_summary(pal_turn *turn)
{
    turn->work.work = keep_summary;
    turn->work.done = summary_kept;
    turn->holds++;
    pal_loop_work(turn->runtime->loop, &turn->work);
}

static void summary_text(void *user, pal_str delta)
{
    pal_turn *turn = user;

    pal_buf_append_str(&turn->summary, delta);
}

static void ignore_text(void *user, pal_str delta)
{
}

static void ignore_signature(void *user, pal_str signature, pal_str family)
{
}

static void ignore_call(void *user, uint32_t index, pal_str id, pal_str name)
{
}

static void ignore_arguments(void *user, uint32_t index, pal_str delta)
{
}

static void summary_ended(void *user, const pal_model_end *model_end)
{
    pal_turn *turn = user;
    summary_end *end = turn->summary_end;

    turn->holds--;
    turn->call = NULL;
    *end = (summary_end){.is_answered = model_end->status == PAL_OK};
    end->failure = pal_arena_copy(turn->job_arena, model_end->error);
    end->answer = (pal_summary_answer){
            .text = pal_arena_copy(turn->job_arena, pal_buf_str(&turn->summary)),
            .model = pal_arena_copy(turn->job_arena, model_end->model),
            .has_usage = model_end->has_usage,
            .usage = model_end->usage,
            .provider = pal_provider_name(turn->provider),
            .price_version = turn->runtime->options.price_version,
            .cost_micros = pal_price_of(turn->runtime, turn->request.model, &model_end->usage),
    };
    end_summary(turn);
}

void pal_summary_ask(pal_turn *turn)
{
    static const pal_model_sink sink = {summary_text, ignore_text, ignore_signature, ignore_call,
            ignore_arguments, summary_ended};
    const pal_summary_request *asked = &turn->job->request;
    pal_model_request request = {
            .model = turn->request.model,
            .messages = asked->messages,
            .messages_len = asked->messages_len,
            .stable_len = asked->messages_len > 0 ? asked->messages_len - 1 : 0,
            .tools = asked->tools,
            .tools_len = asked->tools_len,
            .tool_choice = asked->tools_len ? pal_str_of("\"none\"") : (pal_str){0},
            .output_max = asked->output_max,
            .stream = true,
    };
    pal_error err = {0};

    turn->phase = PAL_PHASE_SUMMARY;
    pal_buf_init(&turn->summary, PAL_MESSAGE_BYTES_MAX);
    turn->summary_end = pal_arena_alloc(turn->job_arena, sizeof(*turn->summary_end));
    if (!turn->summary_end) {
        drop_job(turn);
        pal_turn_fail(turn, PAL_NO_MEMORY, "out of memory");
        return;
    }
    if (turn->job->record.checkpoint.strategy != PAL_STRATEGY_RESET &&
            pal_provider_start(turn->provider, &request, &sink, turn, &turn->call, &err) ==
                    PAL_OK) {
        turn->holds++;
        return;
    }
    turn->summary_end->failure = pal_arena_copy(turn->job_arena, pal_str_of(err.message));
    end_summary(turn);
}

/* A summary that is being kept comes back by itself, and sees that the turn was stopped. */
void pal_summary_stop(pal_turn *turn)
{
    if (turn->work.done != summary_kept)
        drop_job(turn);
}
