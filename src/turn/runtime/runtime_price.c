/* runtime_price.c - computes the cost of a model call. */
#include "turn/turn.h"

#include "base/text.h"

static bool price_matches(pal_str pattern, pal_str model)
{
    if (pattern.len > 0 && pattern.data[pattern.len - 1] == '*')
        return pal_text_begins_str(model, pal_str_make(pattern.data, pattern.len - 1));
    return pal_str_equal(pattern, model);
}

/* Uses the longest pattern that matches; 0 if there is none. */
int64_t pal_price_of(const pal_runtime *runtime, pal_str model, const pal_usage *usage)
{
    const pal_price *best = NULL;
    double cost;

    for (size_t i = 0; i < runtime->options.prices_len; i++) {
        const pal_price *price = &runtime->options.prices[i];

        if (price_matches(price->pattern, model) &&
                (!best || price->pattern.len > best->pattern.len))
            best = price;
    }
    if (!best)
        return 0;
    /* Round only the sum: otherwise the parts of many small calls would be free. */
    cost = (double)usage->input * (double)best->input +
            (double)usage->cache_read * (double)best->cache_read +
            (double)usage->cache_write * (double)best->cache_write +
            (double)usage->output * (double)best->output;
    return (int64_t)(cost / 1e6 + 0.5);
}
