/* context_budget.c - how much can be sent: tokens, bytes and images together. Pure: any thread.
 *
 * Sums are made of plain counts, and are calibrated when they are compared with a limit. */
#include "context/context_draft.h"

#include "palaver/limits.h"

/* As the providers document them. Anthropic's limit of 5 MiB per image applies to the base64
 * text. */
static const pal_context_limits profile_limits[] = {
        [PAL_PROFILE_OPENAI_CHAT] = {.bytes = 50000000, .images = 500},
        [PAL_PROFILE_OPENAI_RESPONSES] = {.bytes = 50000000, .images = 500},
        [PAL_PROFILE_ANTHROPIC] = {.bytes = 32000000, .images = 100, .image_bytes = 3932160},
        [PAL_PROFILE_MISTRAL] = {.images = 8, .image_bytes = 10000000},
};

void pal_profile_limits(pal_profile profile, pal_context_limits *limits)
{
    if ((size_t)profile >= sizeof(profile_limits) / sizeof(profile_limits[0]))
        return; /* PicoClaw has the limits of the service that it calls */
    const pal_context_limits *known = &profile_limits[profile];
    if (!limits->bytes)
        limits->bytes = known->bytes;
    if (!limits->images)
        limits->images = known->images;
    if (!limits->image_bytes)
        limits->image_bytes = known->image_bytes;
}

static uint64_t answer_tokens(const pal_context_limits *limits)
{
    bool is_known = limits->output && limits->output < PAL_CONTEXT_OUTPUT_MAX;
    return is_known ? limits->output : PAL_CONTEXT_OUTPUT_MAX;
}

uint64_t pal_context_usable(const pal_context_limits *limits)
{
    uint64_t reserve = answer_tokens(limits);
    if (limits->input)
        return limits->input;
    if (limits->context > reserve)
        return limits->context - reserve;
    /* A small model: question and answer share the context. The result is not 0, which would
     * mean no limit. */
    return limits->context - limits->context / 2;
}

bool pal_context_overflow(const pal_context_limits *limits, const pal_usage *usage)
{
    uint64_t used = usage->input, reserve = answer_tokens(limits);
    if (__builtin_add_overflow(used, usage->cache_read, &used) ||
            __builtin_add_overflow(used, usage->cache_write, &used) ||
            __builtin_add_overflow(used, usage->output, &used))
        used = UINT64_MAX;
    if (limits->context == 0)
        return false;
    if (limits->input)
        return used > limits->input;
    return limits->context < reserve || used > limits->context - reserve;
}

uint64_t pal_context_percent(uint64_t number, uint32_t percent)
{
    return number / 100 * percent + number % 100 * percent / 100;
}

static uint64_t lower(uint64_t limit, uint64_t other)
{
    return limit && (!other || limit < other) ? limit : other;
}

static bool fills_by_percent(const pal_context_input *input)
{
    return input->settings.strategy == PAL_STRATEGY_SUMMARIZATION ||
            input->settings.strategy == PAL_STRATEGY_SLIDING_WINDOW;
}

/* The threshold in tokens from the settings; 0: none. */
static uint64_t own_threshold(const pal_context_input *input)
{
    const pal_context_settings *settings = &input->settings;
    if (settings->strategy == PAL_STRATEGY_RESET && !settings->compaction_threshold)
        return PAL_COMPACTION_THRESHOLD;
    return settings->compaction_threshold;
}

/* Returns whether this many tokens leave enough room for the answer; always true for Anthropic. */
static bool leaves_answer(const pal_context_input *input, uint64_t tokens)
{
    const pal_context_limits *limits = &input->limits;
    uint64_t answer =
            input->profile == PAL_PROFILE_ANTHROPIC ? answer_tokens(limits) : limits->answer;
    if (limits->input)
        return tokens <= limits->input;
    return tokens < limits->context && limits->context - tokens >= answer;
}

/* `summarization` and `sliding_window` leave the rest of their percentage free for the answer.
 * The length of an answer limits them only if the model's limits state it. A threshold in tokens
 * from the settings is used unchanged, even if it leaves less room for an answer. */
uint64_t pal_context_sendable(const pal_context_input *input)
{
    const pal_context_limits *limits = &input->limits;
    uint64_t threshold = own_threshold(input);
    uint64_t sendable = pal_context_usable(limits);
    if (fills_by_percent(input) && !limits->output && !limits->input)
        sendable = limits->context;
    if (threshold > sendable && leaves_answer(input, threshold))
        sendable = threshold;
    return lower(input->settings.max_tokens, sendable);
}

static uint64_t percent_threshold(const pal_draft *draft)
{
    const pal_context_limits *limits = &draft->input->limits;
    uint64_t tokens = pal_context_percent(limits->context, draft->settings.threshold_percent);
    return limits->context && tokens == 0 ? 1 : tokens;
}

/* The strategy acts if the soft limit is exceeded, so the limit is one below the threshold. */
void pal_context_set_limits(pal_draft *draft)
{
    const pal_context_settings *settings = &draft->settings;
    const pal_context_input *input = draft->input;
    uint64_t threshold = own_threshold(input);
    bool acts = settings->strategy != PAL_STRATEGY_NONE && !settings->auto_off;
    draft->hard = pal_context_sendable(input);
    draft->soft = 0;
    if (threshold && acts)
        draft->soft = threshold > 1 ? threshold - 1 : 1;
    else if (fills_by_percent(input) && !settings->max_tokens)
        draft->soft = percent_threshold(draft);
    draft->soft = lower(draft->soft, draft->hard);
}

bool pal_context_size_fits(const pal_draft *draft, uint64_t tokens, uint64_t bytes,
        uint64_t tokens_max)
{
    const pal_context_input *input = draft->input;
    if (input->limits.bytes && bytes > input->limits.bytes)
        return false;
    return !tokens_max || pal_calibration_apply(&input->calibration, tokens) <= tokens_max;
}
