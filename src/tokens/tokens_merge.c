/* tokens_merge.c - byte pair encoding without merging.
 *
 * Two facts carry it. First: a row of tokens is what merging makes of its bytes exactly when
 * each two neighbours are what merging makes of theirs ("compatible"). Second: for each text there
 * is only one such row. So the row is found by walking: from each place the longest token that
 * is compatible with the one before, else the next shorter one, else a step back; a place from
 * which there was no way on is dead and never tried again, so each is left at most once.
 *
 * Compatible is what never merged across the border. Undo the last merge of the two tokens: if what
 * stands at the border now would have merged earlier than that, the two are not what merging makes.
 * Go on until both sides are bytes.
 *
 * A place k of a long text is final, that is, a border whatever follows, when what merging makes of
 * each beginning of the text that ends within the last token_len_max bytes has a border at k: any
 * longer text's row has to pass through one of those ends. Since rows are unique, each end has one
 * last token; walking all compatible tokens from k on finds all the ends whose rows pass k. */
#include "tokens/tokens_merge.h"
#include <assert.h>
#include "base/memory.h"

void pal_merge_init(struct pal_merge *merge)
{
    merge->window = PAL_MERGE_SHORT;
    merge->tokens = merge->short_tokens;
    merge->dead = merge->short_dead;
    merge->last = NULL;
}

static bool take_window(struct pal_merge *merge, size_t window)
{
    size_t dead_len = window / 64 + 1;
    uint64_t *block = pal_malloc(dead_len * sizeof(uint64_t) + (2 * window + 1) * sizeof(uint32_t));

    if (!block)
        return false;
    pal_merge_done(merge);
    merge->window = window;
    merge->dead = block;
    merge->tokens = (uint32_t *)(void *)(block + dead_len);
    merge->last = merge->tokens + window;
    return true;
}

bool pal_merge_fit(struct pal_merge *merge, size_t len)
{
    size_t window = 4 * PAL_MERGE_SHORT;

    while (window <= len && window < PAL_MERGE_WINDOW)
        window *= 2;
    return (merge->last && window <= merge->window) || take_window(merge, window);
}

bool pal_merge_grow(struct pal_merge *merge)
{
    return take_window(merge, merge->window * 2);
}

void pal_merge_done(struct pal_merge *merge)
{
    if (merge->last)
        pal_free(merge->dead);
    pal_merge_init(merge);
}

static inline bool is_compatible(const struct pal_table *table, uint32_t left, uint32_t right)
{
    uint32_t limit = UINT32_MAX;

    while ((left | right) >= PAL_TOKEN_FIRST) {
        if (pal_pair_is_below(table, left, right, limit))
            return false;
        /* The higher number was made last; of two that are the same, the right one. */
        if (left > right) {
            limit = left;
            left = table->halves[left].right;
        } else {
            limit = right + 1;
            right = table->halves[right].left;
        }
    }
    return pal_pair_bytes(table, left, right) >= limit;
}

static bool is_dead(const struct pal_merge *merge, size_t at)
{
    return merge->dead[at / 64] >> at % 64 & 1;
}

size_t pal_merge_all(
        const struct pal_table *table, struct pal_merge *merge, const unsigned char *p, size_t len)
{
    size_t tokens_len = 0;
    size_t kept = 0;
    size_t at = 0;
    size_t token_len;
    uint32_t token = pal_trie_longest(table, p, p + len, &token_len);

    assert(len > 0 && len <= merge->window);
    memset(merge->dead, 0, (len / 64 + 1) * sizeof merge->dead[0]);
    for (;;) {
        while (token != PAL_TOKEN_NONE &&
                (is_dead(merge, at + token_len) ||
                        (tokens_len > 0 &&
                                !is_compatible(table, merge->tokens[tokens_len - 1], token)))) {
            token = table->tokens[token].prefix;
            token_len = token == PAL_TOKEN_NONE ? 0 : pal_table_len(table, token);
        }
        if (token == PAL_TOKEN_NONE && tokens_len > kept) {
            merge->dead[at / 64] |= (uint64_t)1 << at % 64;
            token = merge->tokens[--tokens_len];
            at -= pal_table_len(table, token);
            token = table->tokens[token].prefix;
            token_len = token == PAL_TOKEN_NONE ? 0 : pal_table_len(table, token);
            continue;
        }
        if (token == PAL_TOKEN_NONE) {
            /* Only a damaged table comes here, since there is a row for every text. It gets bytes,
             * which are never taken back, so that this ends. */
            token = p[at];
            token_len = 1;
            kept = tokens_len + 1;
        }
        merge->tokens[tokens_len++] = token;
        at += token_len;
        if (at == len)
            return tokens_len;
        token = pal_trie_longest(table, p + at, p + len, &token_len);
    }
}

/* Marks in `last` the last token of the row of every beginning that ends at place i from `at` on,
 * if that row passes `at`, where `last` already says which token ends. */
static void walk_all(const struct pal_table *table, const unsigned char *p, size_t at, size_t len,
        uint32_t *last)
{
    for (; at < len; at++) {
        uint32_t base = table->head->trie_root;
        uint32_t place = 0;

        if (last[at] == PAL_TOKEN_NONE)
            continue;
        for (size_t i = at; i < len && !(place & PAL_TRIE_LEAF); i++) {
            uint32_t token;

            place = table->trie[base + p[i]];
            if (pal_trie_label(place) != p[i])
                break;
            base = pal_trie_value(place);
            if (last[i + 1] != PAL_TOKEN_NONE || !(place & (PAL_TRIE_LEAF | PAL_TRIE_TOKEN)))
                continue;
            token = place & PAL_TRIE_LEAF ? base : pal_trie_value(table->trie[base + PAL_TRIE_END]);
            if (is_compatible(table, last[at], token))
                last[i + 1] = token;
        }
    }
}

/* Whether the border at `at`, behind `token`, is final. */
static bool is_final(const struct pal_table *table, const unsigned char *p, size_t at, size_t len,
        uint32_t token, uint32_t *last)
{
    size_t span = len - at;

    for (size_t i = 1; i <= span; i++)
        last[i] = PAL_TOKEN_NONE;
    last[0] = token;
    walk_all(table, p + at, 0, span, last);
    for (size_t i = span - table->token_len_max + 1; i <= span; i++)
        if (last[i] == PAL_TOKEN_NONE)
            return false;
    return true;
}

size_t pal_merge_front(const struct pal_table *table, struct pal_merge *merge,
        const unsigned char *p, size_t len, size_t *out_len)
{
    size_t tokens_len = pal_merge_all(table, merge, p, len);
    size_t at = len;

    for (size_t back = table->token_len_max; back < len; back *= 2) {
        while (tokens_len > 0 && at > len - back)
            at -= pal_table_len(table, merge->tokens[--tokens_len]);
        if (tokens_len == 0)
            break;
        if (is_final(table, p, at, len, merge->tokens[tokens_len - 1], merge->last)) {
            *out_len = at;
            return tokens_len;
        }
    }
    *out_len = 0;
    return 0;
}
