/* tokens_runs.c - byte pair encoding of items that are runs of equal tokens.
 *
 * Tokens are merged from the lowest to the highest, and each is made of exactly two others. So one
 * round makes all tokens of one kind: half of a run, leftmost first, if the two are equal;
 * otherwise one at each border between two items. A run of n bytes is merged in about log n
 * rounds. */
#include "tokens/tokens_runs.h"

/* The length of a stretch, in multiples of the longest token. Tokens near the end of a stretch are
 * wrong if the text continues. */
#define STRETCH_TOKENS 8
/* A stretch ends after this many short runs in a row. */
#define SHORT_RUNS 3

static size_t run_len(const unsigned char *p, size_t len)
{
    size_t n = 1;

    while (n < len && p[n] == p[0])
        n++;
    return n;
}

/* Appends the token of `item` `count` times, with the values that were looked up for it. */
static void items_add(struct pal_runs *runs, struct pal_runs_item item, uint32_t count)
{
    struct pal_runs_item *last = runs->items_len > 0 ? &runs->items[runs->items_len - 1] : NULL;

    item.count = count;
    if (count == 0)
        return;
    if (last && last->token == item.token)
        last->count += count;
    else
        runs->items[runs->items_len++] = item;
}

static struct pal_runs_item item_of(const struct pal_table *table, uint32_t token)
{
    return (struct pal_runs_item){.token = token,
            .doubled = pal_pair_find(table, token, token),
            .joined = PAL_TOKEN_NONE,
            .next = PAL_TOKEN_NONE};
}

/* Turns the bytes from `at` on into items. Returns where they end. */
static size_t items_read(const struct pal_table *table, struct pal_runs *runs,
        const unsigned char *p, size_t at, size_t run, size_t len)
{
    size_t stretch = (size_t)STRETCH_TOKENS * table->token_len_max;
    size_t end = len - at > stretch ? at + stretch : len;
    size_t shorts = 0;

    runs->items_len = 0;
    while (at < end && runs->items_len < PAL_RUNS_FIRST && shorts < SHORT_RUNS) {
        size_t n = run_len(p + at, end - at);

        items_add(runs, item_of(table, p[at]), (uint32_t)n);
        shorts = at >= run && n < PAL_RUNS_LEN ? shorts + 1 : 0;
        at += n;
    }
    return at;
}

/* Returns the lowest token that can be made, or PAL_TOKEN_NONE. */
static uint32_t items_lowest(const struct pal_table *table, struct pal_runs *runs)
{
    uint32_t lowest = PAL_TOKEN_NONE;

    for (size_t i = 0; i < runs->items_len; i++) {
        struct pal_runs_item *item = &runs->items[i];

        if (item->count > 1 && item->doubled < lowest)
            lowest = item->doubled;
        if (i + 1 == runs->items_len)
            break;
        if (item->next != item[1].token) {
            item->next = item[1].token;
            item->joined = pal_pair_find(table, item->token, item->next);
        }
        lowest = item->joined < lowest ? item->joined : lowest;
    }
    return lowest;
}

static bool item_makes(const struct pal_runs_item *item, uint32_t token)
{
    return item->joined == token || (item->count > 1 && item->doubled == token);
}

/* Makes all occurrences of `token`, which is the lowest one. Returns false if there are too many
 * items. */
static bool items_merge(const struct pal_table *table, struct pal_runs *runs, uint32_t token)
{
    struct pal_runs_item made = item_of(table, token);
    struct pal_runs_item old[PAL_RUNS_ITEMS];
    size_t old_len = runs->items_len;
    size_t first = 0;
    uint32_t used = 0; /* tokens of this item that the item before it has used */

    while (!item_makes(&runs->items[first], token))
        first++;
    memcpy(old + first, runs->items + first, (old_len - first) * sizeof old[0]);
    runs->items_len = first;
    for (size_t i = first; i < old_len; i++) {
        uint32_t count = old[i].count - used;
        bool is_doubled = old[i].doubled == token;
        bool is_joined = count > 0 && i + 1 < old_len && old[i].joined == token;

        if (runs->items_len + 3 > PAL_RUNS_ITEMS)
            return false;
        used = is_joined;
        if (is_doubled)
            items_add(runs, made, count / 2);
        items_add(runs, old[i], (is_doubled ? count % 2 : count) - is_joined);
        items_add(runs, made, is_joined);
    }
    return true;
}

size_t pal_runs_guess(const struct pal_table *table, struct pal_runs *runs, const unsigned char *p,
        size_t at, size_t run, size_t len)
{
    size_t end = items_read(table, runs, p, at, run, len);
    size_t margin = (end - at) / 4;
    size_t work = runs->items_len;
    uint32_t lowest;

    if (margin > table->token_len_max)
        margin = table->token_len_max;
    runs->at = at;
    runs->end = end == len ? len : end - margin;
    if (runs->end <= run)
        runs->end = run + 1;
    runs->item = 0;
    runs->taken = 0;
    while ((lowest = items_lowest(table, runs)) != PAL_TOKEN_NONE) {
        if (!items_merge(table, runs, lowest)) {
            runs->items_len = 0;
            break;
        }
        work += runs->items_len;
    }
    return work;
}
