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
 * In a run of one byte the longest tokens are nearly always wrong, and there are many: the tokens
 * are guessed there (tokens_runs.h) and only checked. A wrong guess costs time, never the result.
 *
 * A place k of a long text is final, that is, a border whatever follows, when what merging makes of
 * each beginning of the text that ends within the last token_len_max bytes has a border at k: any
 * longer text's row has to pass through one of those ends. Since rows are unique, each end has one
 * last token; walking all compatible tokens from k on finds all the ends whose rows pass k. */
#include "tokens/tokens_merge.h"
#include <assert.h>
#include "base/memory.h"

/* A guess begins so many bytes before its run. */
#define GUESS_BEFORE 16

void pal_merge_init(struct pal_merge *merge)
{
    merge->window = PAL_MERGE_SHORT;
    merge->tokens = merge->short_tokens;
    merge->dead = merge->short_dead;
    merge->last = NULL;
    merge->border.len = 0;
    merge->work = 0;
}

static bool take_window(struct pal_merge *merge, size_t window)
{
    size_t dead_len = window / 64 + 1;
    uint64_t *block = pal_malloc(dead_len * sizeof(uint64_t) + (2 * window + 1) * sizeof(uint32_t));

    if (!block)
        return false;
    if (merge->last)
        pal_free(merge->dead);
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
        if (pal_pair_tokens(table, left, right) < limit)
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

/* Where a walk is. */
struct walk {
    const struct pal_table *table;
    struct pal_merge *merge;
    const unsigned char *p;
    size_t len;
    size_t at;
    size_t tokens_len;
    size_t kept;    /* so many of the tokens are never taken back */
    size_t guessed; /* so many of the tokens may be guesses, with longer ones still to be tried */
};

static bool fits(const struct walk *walk, uint32_t token)
{
    return walk->tokens_len == 0 ||
            is_compatible(walk->table, walk->merge->tokens[walk->tokens_len - 1], token);
}

static void push(struct walk *walk, uint32_t token, size_t token_len)
{
    walk->merge->tokens[walk->tokens_len++] = token;
    walk->at += token_len;
}

static uint32_t pop(struct walk *walk)
{
    uint32_t token = walk->merge->tokens[--walk->tokens_len];

    walk->at -= pal_table_len(walk->table, token);
    return token;
}

/* In a long run the tokens are guessed and need only be checked. A guess begins a few bytes before
 * the run, because the tokens there may be wrong. */
static void follow_guess(struct walk *walk, struct pal_runs *runs)
{
    size_t run = walk->at;
    uint32_t token;

    while (walk->tokens_len > walk->kept && walk->at > runs->end && run - walk->at < GUESS_BEFORE)
        pop(walk);
    walk->merge->work += pal_runs_guess(walk->table, runs, walk->p, walk->at, run, walk->len);
    while ((token = pal_runs_token(runs, walk->at)) != PAL_TOKEN_NONE) {
        size_t token_len = pal_table_len(walk->table, token);

        if (is_dead(walk->merge, walk->at + token_len) || !fits(walk, token))
            break;
        push(walk, token, token_len);
        pal_runs_next(runs, token_len);
    }
    walk->guessed = walk->tokens_len;
}

size_t pal_merge_all(
        const struct pal_table *table, struct pal_merge *merge, const unsigned char *p, size_t len)
{
    struct walk walk = {.table = table, .merge = merge, .p = p, .len = len};
    uint32_t token;
    size_t token_len;

    assert(len > 0 && len <= merge->window);
    memset(merge->dead, 0, (len / 64 + 1) * sizeof merge->dead[0]);
    merge->runs.end = 0;
    for (;;) {
        if (walk.at >= merge->runs.end && pal_runs_begin(p + walk.at, len - walk.at)) {
            follow_guess(&walk, &merge->runs);
            if (walk.at == len)
                return walk.tokens_len;
        }
        token = pal_trie_longest(table, p + walk.at, p + len, &token_len);
        merge->work += token_len;
        for (;;) {
            while (token != PAL_TOKEN_NONE &&
                    (is_dead(merge, walk.at + token_len) || !fits(&walk, token))) {
                token = table->tokens[token].prefix;
                token_len = token == PAL_TOKEN_NONE ? 0 : pal_table_len(table, token);
                merge->work++;
            }
            if (token != PAL_TOKEN_NONE || walk.tokens_len <= walk.kept)
                break;
            merge->dead[walk.at / 64] |= (uint64_t)1 << walk.at % 64;
            token = pop(&walk);
            if (walk.tokens_len < walk.guessed) {
                walk.guessed = walk.tokens_len;
                token = pal_trie_longest(table, p + walk.at, p + len, &token_len);
                merge->work += token_len;
                continue;
            }
            token = table->tokens[token].prefix;
            token_len = token == PAL_TOKEN_NONE ? 0 : pal_table_len(table, token);
        }
        if (token == PAL_TOKEN_NONE) {
            /* Only a damaged table comes here, since there is a row for every text. It gets bytes,
             * which are never taken back, so that this ends. */
            token = p[walk.at];
            token_len = 1;
            walk.kept = walk.tokens_len + 1;
        }
        push(&walk, token, token_len);
        if (walk.at == len)
            return walk.tokens_len;
    }
}

/* Marks in `last` the last token of the row of every beginning that goes over `at`, where `last`
 * already says which token ends, and ends with the next token. Returns how many new ones of them
 * end at `from` or later. */
static size_t walk_on(const struct pal_table *table, struct pal_merge *merge,
        const unsigned char *p, size_t at, size_t len, size_t from)
{
    uint32_t *last = merge->last;
    uint32_t base = table->head->trie_root;
    uint32_t place = 0;
    size_t found = 0;

    for (size_t i = at; i < len && !(place & PAL_TRIE_LEAF); i++) {
        uint32_t token;

        place = table->trie[base + p[i]];
        if (pal_trie_label(place) != p[i])
            break;
        base = pal_trie_value(place);
        if (last[i + 1] != PAL_TOKEN_NONE || !(place & (PAL_TRIE_LEAF | PAL_TRIE_TOKEN)))
            continue;
        token = place & PAL_TRIE_LEAF ? base : pal_trie_value(table->trie[base + PAL_TRIE_END]);
        merge->work++;
        if (is_compatible(table, last[at], token)) {
            last[i + 1] = token;
            found += i + 1 >= from;
        }
    }
    return found;
}

/* Whether the border at the beginning of `p`, after `token`, is final: whether the row of every
 * beginning that ends in the last token_len_max bytes goes over it. */
static bool is_final(const struct pal_table *table, struct pal_merge *merge,
        const unsigned char *p, size_t len, uint32_t token)
{
    uint32_t *last = merge->last;
    size_t from = len - table->token_len_max + 1;
    size_t missing = table->token_len_max;

    for (size_t i = 1; i <= len; i++)
        last[i] = PAL_TOKEN_NONE;
    last[0] = token;
    for (size_t at = 0; at < len && missing > 0; at++) {
        if (last[at] != PAL_TOKEN_NONE)
            missing -= walk_on(table, merge, p, at, len, from);
        else if (at >= from)
            return false;
    }
    return missing == 0;
}

/* As is_final(), but remembers the last border that was: in a long run one window ends like the one
 * before. Borders that are not final are tried first, and must not push that one out. */
static bool is_final_again(const struct pal_table *table, struct pal_merge *merge,
        const unsigned char *p, size_t len, uint32_t token)
{
    struct pal_merge_border *border = &merge->border;

    if (border->len == len && border->token == token && memcmp(border->bytes, p, len) == 0)
        return true;
    if (!is_final(table, merge, p, len, token))
        return false;
    if (len <= PAL_MERGE_END) {
        border->token = token;
        border->len = len;
        memcpy(border->bytes, p, len);
    }
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
        if (is_final_again(table, merge, p + at, len - at, merge->tokens[tokens_len - 1])) {
            *out_len = at;
            return tokens_len;
        }
    }
    *out_len = 0;
    return 0;
}
