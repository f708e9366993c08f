/* context_settings.c - names, defaults, and the checks of a plan's input. Pure: any thread. */
#include "context/context_draft.h"

#include <inttypes.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define THRESHOLD_PERCENT 80
#define KEEP_RECENT_MESSAGES 10
#define LOW_WATER_PERCENT 50
#define SUMMARY_TOKENS_MAX 4096
#define PRUNE_PROTECT_TOKENS 40000
#define PRUNE_MINIMUM_TOKENS 20000
#define PRUNE_PROTECT_TURNS 2

/* The position of each name is the value of its enum. */
static const char *const strategy_names[] = {
        "compact", "summarization", "sliding_window", "reset", "none"};
static const char *const disposition_names[] = {
        "sent", "pruned", "summarized", "dropped", "repaired", "synthesized"};
static const char *const action_names[] = {"send", "prune", "compact", "refuse"};

static const char *name_at(const char *const *names, size_t len, unsigned value)
{
    return value < len ? names[value] : "unknown";
}

const char *pal_strategy_name(pal_strategy strategy)
{
    return name_at(strategy_names, COUNT_OF(strategy_names), (unsigned)strategy);
}

bool pal_strategy_from_name(pal_str name, pal_strategy *out_strategy)
{
    for (unsigned i = 0; i < COUNT_OF(strategy_names); i++) {
        if (pal_str_is(name, strategy_names[i])) {
            *out_strategy = (pal_strategy)i;
            return true;
        }
    }
    return false;
}

const char *pal_disposition_name(pal_disposition disposition)
{
    return name_at(disposition_names, COUNT_OF(disposition_names), (unsigned)disposition);
}

const char *pal_plan_action_name(pal_plan_action action)
{
    return name_at(action_names, COUNT_OF(action_names), (unsigned)action);
}

/* preserve_recent_tokens stays 0: its default depends on the limits. */
pal_context_settings pal_context_settings_filled(const pal_context_settings *settings)
{
    pal_context_settings filled = *settings;
    if (!filled.threshold_percent)
        filled.threshold_percent = THRESHOLD_PERCENT;
    if (!filled.keep_recent_messages)
        filled.keep_recent_messages = KEEP_RECENT_MESSAGES;
    if (!filled.low_water_percent)
        filled.low_water_percent = LOW_WATER_PERCENT;
    if (!filled.summary_tokens_max)
        filled.summary_tokens_max = SUMMARY_TOKENS_MAX;
    if (!filled.prune_protect_tokens)
        filled.prune_protect_tokens = PRUNE_PROTECT_TOKENS;
    if (!filled.prune_minimum_tokens)
        filled.prune_minimum_tokens = PRUNE_MINIMUM_TOKENS;
    if (!filled.prune_protect_turns)
        filled.prune_protect_turns = PRUNE_PROTECT_TURNS;
    return filled;
}

static pal_status check_settings(const pal_context_input *input, pal_error *err)
{
    const pal_context_settings *settings = &input->settings;
    if ((unsigned)settings->strategy >= COUNT_OF(strategy_names))
        return pal_error_set(err, PAL_INVALID, "unknown strategy %d", (int)settings->strategy);
    if ((unsigned)input->profile > PAL_PROFILE_PICOCLAW)
        return pal_error_set(err, PAL_INVALID, "unknown profile %d", (int)input->profile);
    if (settings->threshold_percent > 100)
        return pal_error_set(err, PAL_INVALID, "'threshold_percent' of %" PRIu32 " is over 100",
                settings->threshold_percent);
    if (settings->low_water_percent > 100)
        return pal_error_set(err, PAL_INVALID, "'low_water_percent' of %" PRIu32 " is over 100",
                settings->low_water_percent);
    return PAL_OK;
}

/* Checks that each seq is greater than the previous one; *seq is then the last one. */
static pal_status check_order(
        const char *what, const pal_message *messages, size_t len, uint64_t *seq, pal_error *err)
{
    for (size_t i = 0; i < len; i++) {
        if (messages[i].seq <= *seq)
            return pal_error_set(err, PAL_INVALID,
                    "'%s' are not ascending: seq %" PRIu64 " comes after %" PRIu64, what,
                    messages[i].seq, *seq);
        *seq = messages[i].seq;
    }
    return PAL_OK;
}

static pal_status check_pruned(const pal_context_input *input, pal_error *err)
{
    for (size_t i = 1; i < input->pruned_len; i++) {
        const pal_pruned_part *a = &input->pruned[i - 1], *b = &input->pruned[i];
        if (b->seq < a->seq || (b->seq == a->seq && b->part <= a->part))
            return pal_error_set(err, PAL_INVALID,
                    "'pruned' is not sorted: part %" PRIu32 " of message %" PRIu64, b->part,
                    b->seq);
    }
    return PAL_OK;
}

pal_status pal_context_input_check(const pal_context_input *input, pal_error *err)
{
    uint64_t kept_seq = 0, tail_seq = input->checkpoint.number ? input->checkpoint.seq : 0;
    pal_status status = check_settings(input, err);
    if (status != PAL_OK)
        return status;
    status = check_order("kept", input->kept, input->kept_len, &kept_seq, err);
    if (status != PAL_OK)
        return status;
    if (kept_seq > tail_seq)
        tail_seq = kept_seq;
    status = check_order("messages", input->messages, input->messages_len, &tail_seq, err);
    if (status != PAL_OK)
        return status;
    return check_pruned(input, err);
}
