/* window_compact_ask.c - makes the request for a summary. It begins with the messages of the last
 * request, so that the provider's cache has everything except the question. */
#include "window/window_compact_internal.h"

#include "dialect/dialect_member.h"
#include "window/window_prompt.h"

enum { OUTPUT_SHARE = 4 };

/* Counts the plan's items before the cut. Items that were made between two messages belong to the
 * message before them. Kept messages are older, and come before the tail. */
static size_t items_before(const pal_plan *plan, uint64_t cut_seq)
{
    size_t len = 0;

    while (len < plan->items_len &&
            (plan->items[len].kind != PAL_PLAN_ITEM_MESSAGE || plan->items[len].seq <= cut_seq))
        len++;
    return len;
}

/* Returns the limits of the model that writes the summary, which may differ from the window's
 * model. */
static pal_context_limits limits_of(const pal_compact_job *job, pal_str model)
{
    pal_context_limits limits = job->view.input.limits;
    pal_model other;

    if (model.len == 0 || pal_str_equal(model, job->window.model))
        return limits;
    other = pal_models_find(job->window.models, model);
    return (pal_context_limits){.context = other.context ? other.context : limits.context,
            .input = other.context ? other.input : limits.input,
            .output = other.output};
}

/* Returns the maximum length of the summary: the configured one, but never more than the model's
 * output limit or a quarter of its context. */
static uint64_t output_of(const pal_compact_job *job, const pal_context_limits *limits)
{
    uint64_t tokens = job->view.input.settings.summary_tokens_max;

    tokens = tokens ? tokens : PAL_SUMMARY_TOKENS_MAX;
    if (limits->output && limits->output < tokens)
        tokens = limits->output;
    if (limits->context && limits->context / OUTPUT_SHARE < tokens)
        tokens = limits->context / OUTPUT_SHARE;
    return tokens ? tokens : 1;
}

/* Computes how many tokens of messages fit next to the question and its answer. */
static pal_status find_budget(const pal_compact_job *job, const pal_context_limits *limits,
        const pal_message *question, uint64_t *out_budget, pal_error *err)
{
    uint64_t tokens = 0, room = limits->input ? limits->input : limits->context;
    pal_status status = pal_tokens_message(job->view.input.encoding, question, &tokens, err);

    if (!limits->input)
        tokens += job->request.output_max;
    *out_budget = room > tokens ? room - tokens : 0;
    return status;
}

typedef struct question_list {
    pal_message *messages;
    size_t len;
    uint64_t asked; /* how many of the messages to be summarized are in the list */
} question_list;

static void add_message(question_list *list, const pal_message *message)
{
    list->messages[list->len++] = *message;
}

/* Adds the messages of the last request up to the cut. If they are more than the model accepts, the
 * oldest messages after the summary are left out. */
static void add_items(pal_compact_job *job, bool own_system, uint64_t budget, question_list *list)
{
    const pal_plan *plan = &job->plan;
    size_t len = items_before(plan, job->record.checkpoint.seq);
    uint64_t tokens = 0;

    for (size_t i = 0; i < len; i++)
        if (plan->items[i].hash)
            tokens += plan->items[i].tokens;
    for (size_t i = 0; i < len; i++) {
        const pal_plan_item *item = &plan->items[i];

        if (!item->message || (own_system && item->kind == PAL_PLAN_ITEM_SYSTEM))
            continue;
        if (item->kind == PAL_PLAN_ITEM_MESSAGE &&
                pal_calibration_apply(&job->view.input.calibration, tokens) > budget) {
            tokens -= item->tokens;
            job->record.checkpoint.dropped += item->seq > 0;
            continue;
        }
        list->asked += item->kind == PAL_PLAN_ITEM_MESSAGE && item->seq > 0;
        add_message(list, item->message);
    }
}

pal_status pal_compact_ask(pal_compact_job *job, const pal_compaction_request *compaction,
        pal_arena *arena, pal_error *err)
{
    pal_str text = compaction->prompt.len > 0
            ? compaction->prompt
            : pal_prompt_summary(job->view.input.checkpoint.summary.len > 0);
    pal_message question = pal_message_text(arena, PAL_ROLE_USER, text);
    pal_message system = pal_message_text(arena, PAL_ROLE_SYSTEM, compaction->system);
    pal_context_limits limits = limits_of(job, compaction->model);
    question_list list = {
            .messages = pal_arena_array(arena, job->plan.items_len + 2, sizeof(pal_message))};
    uint64_t budget = 0;
    pal_repair_result repaired;
    pal_status status = pal_arena_checked(arena, err);

    job->request.output_max = output_of(job, &limits);
    if (status == PAL_OK)
        status = find_budget(job, &limits, &question, &budget, err);
    if (status != PAL_OK)
        return status;
    if (compaction->system.len > 0)
        add_message(&list, &system);
    add_items(job, compaction->system.len > 0, budget, &list);
    add_message(&list, &question);
    job->needs_model = list.asked > 0; /* without messages there is nothing to summarize */
    status = pal_context_repair(list.messages, list.len, &job->view.input, arena, &repaired, err);
    if (status != PAL_OK)
        return status;
    job->request.messages = repaired.messages;
    job->request.messages_len = repaired.len;
    job->request.tools = job->view.input.tools;
    job->request.tools_len = job->view.input.tools_len;
    job->request.model = compaction->model.len ? compaction->model : job->window.model;
    job->request.parameters = compaction->parameters;
    return PAL_OK;
}
