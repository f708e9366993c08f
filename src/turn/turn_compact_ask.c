/* turn_compact_ask.c - the question: what a model is asked for a summary. */
#include "turn/turn_compact_inside.h"

#include "dialect/dialect_member.h"
#include "turn/turn_prompt.h"

/* How many items stand before the cut: what is made between two messages belongs to the one
 * before it, and the kept messages, which are older, come before the tail. */
static size_t items_before(const pal_plan *plan, uint64_t cut_seq)
{
    size_t len = 0;

    while (len < plan->items_len &&
            (plan->items[len].kind != PAL_ITEM_MESSAGE || plan->items[len].seq <= cut_seq))
        len++;
    return len;
}

static uint64_t request_budget(const pal_compact_job *job)
{
    const pal_context_limits *limits = &job->view.input.limits;
    uint64_t room = limits->input ? limits->input : limits->context;
    uint64_t answer = job->request.output_max + PAL_PROMPT_TOKENS_MAX;

    return room > answer ? room - answer : 0;
}

/* What was sent last time, up to the cut, and the question behind it: all but the question comes
 * from the provider's cache. Only where that is more than the model takes, the oldest messages
 * after the summary are left out of the question. */
pal_status pal_compact_ask(
        pal_compact_job *job, const pal_compaction *compaction, pal_arena *arena, pal_error *err)
{
    const pal_plan *plan = &job->plan;
    uint64_t cut_seq = job->record.checkpoint.seq, tokens = 0, budget;
    pal_message *list = pal_arena_array(arena, plan->items_len + 1, sizeof(*list));
    size_t len = 0, items_len = items_before(plan, cut_seq);
    pal_str question;
    pal_repaired repaired;
    pal_status status;

    if (!list)
        return pal_arena_checked(arena, err);
    job->request.output_max = job->view.input.settings.summary_tokens_max
            ? job->view.input.settings.summary_tokens_max
            : PAL_SUMMARY_TOKENS_MAX;
    budget = request_budget(job);
    for (size_t i = 0; i < items_len; i++)
        if (plan->items[i].hash)
            tokens += plan->items[i].tokens;
    for (size_t i = 0; i < items_len; i++) {
        const pal_plan_item *item = &plan->items[i];

        if (!item->message)
            continue;
        if (tokens > budget && item->kind == PAL_ITEM_MESSAGE) {
            tokens -= item->tokens;
            job->record.checkpoint.dropped++;
            continue;
        }
        list[len++] = *item->message;
    }
    question = pal_prompt_summary(job->view.input.checkpoint.summary.len > 0);
    if (compaction->prompt.len > 0)
        question = compaction->prompt;
    list[len++] = pal_message_text(arena, PAL_ROLE_USER, question);
    status = pal_arena_checked(arena, err);
    if (status == PAL_OK)
        status = pal_context_repair(list, len, &job->view.input, arena, &repaired, err);
    if (status != PAL_OK)
        return status;
    job->request.messages = repaired.messages;
    job->request.messages_len = repaired.len;
    job->request.tools = job->view.input.tools;
    job->request.tools_len = job->view.input.tools_len;
    job->request.model = compaction->model.len ? compaction->model : job->window.model;
    return PAL_OK;
}
