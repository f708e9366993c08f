/* turn_price.c - what a model call costs. */
#include "turn/turn_machine.h"

static bool price_matches(pal_str pattern, pal_str model)
{
    if (pattern.len > 0 && pattern.data[pattern.len - 1] == '*')
        return model.len >= pattern.len - 1 &&
                memcmp(model.data, pattern.data, pattern.len - 1) == 0;
    return pal_str_equal(pattern, model);
}

static uint64_t part_cost(uint64_t tokens, uint64_t price)
{
    return tokens * price / 1000000;
}

/* The longest pattern that fits; 0 where there is none. */
int64_t pal_price_of(const pal_runtime *runtime, pal_str model, const pal_usage *usage)
{
    const pal_price *best = NULL;

    for (size_t i = 0; i < runtime->options.prices_len; i++) {
        const pal_price *price = &runtime->options.prices[i];

        if (price_matches(price->pattern, model) &&
                (!best || price->pattern.len > best->pattern.len))
            best = price;
    }
    if (!best)
        return 0;
    return (int64_t)(part_cost(usage->input, best->input) +
            part_cost(usage->cache_read, best->cache_read) +
            part_cost(usage->cache_write, best->cache_write) +
            part_cost(usage->output, best->output));
}
