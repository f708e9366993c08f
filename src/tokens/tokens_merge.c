/* tokens_merge.c - byte pair encoding without merging.
 *
 * It is based on two facts. First: a row of tokens is the result of merging its bytes if and only
 * if each two neighbors are the result of merging theirs ("compatible"). Second: for each text
 * there is only one such row. So the row is found by walking. At each place the longest token that
 * is compatible with the previous one is tried, then the next shorter one, then a step back. A
 * place from which no token leads on is dead and never tried again, so each place is left at most
 * once.
 *
 * Two tokens are compatible if nothing ever merged across their border. The tokens that ever ended
 * at the border are the right spine of the left token; those that began there are the left spine of
 * the right token. Two of them would have merged if the token that they make is lower than the next
 * tokens of both spines, because those were made later. is_compatible() searches for such a pair.
 * It undoes the last merge of the two tokens: if the tokens at the border would now have merged
 * earlier than that, the two are not compatible. This is repeated until both sides are bytes.
 *
 * Nearly always there is a shorter way. Most incompatible pairs are decided by the two bytes at the
 * border: one table lookup gives the token that they make. Most compatible pairs are decided as
 * follows: nothing merges with the whole left token if no longer token begins at its place, and the
 * table's values about the spines exclude the rest. Texts without words depend on this, because
 * they need about one such decision per byte.
 *
 * In a run of one byte the longest tokens are nearly always wrong, and there are many of them. So
 * the tokens are guessed there (tokens_runs.h) and only checked. A wrong guess costs time but never
 * changes the result.
 *
 * A place k of a long text is final if it is a border whatever follows. This is the case if merging
 * gives a border at k for each beginning of the text that ends within the last token_len_max bytes,
 * because the row of any longer text must pass through one of those ends. Rows are unique, so each
 * end has one last token. Walking all compatible tokens from k on finds all ends whose rows pass
 * k. */
#include "tokens/tokens_merge.h"
#include <assert.h>
#include "base/memory.h"

/* A guess begins this many bytes before its run. */
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

/* Values of `joined`, which is otherwise the token that the last token of a row makes with the text
 * after it. */
#define NOTHING PAL_TOKEN_NONE
#define UNKNOWN 0u

/* Returns whether the two tokens can be neighbors. `joined` is the only token that the left one
 * makes with the beginning of the right one. */
static bool is_compatible(
        const struct pal_table *table, uint32_t left, uint32_t joined, uint32_t right)
{
    uint32_t whole = joined == UNKNOWN ? PAL_TOKEN_NONE : left;
    uint32_t limit = UINT32_MAX;

    while ((left | right) >= PAL_TOKEN_FIRST) {
        uint32_t made = PAL_TOKEN_NONE;

        if (left != whole)
            made = pal_pair_tokens(table, left, right);
        else if (joined != NOTHING && table->tokens[joined].right == right)
            made = joined;
        if (made < limit)
            return false;
        /* The token with the higher number was made last. If both are the same, the right one
         * was. */
        if (left > right) {
            limit = left;
            left = table->tokens[left].right;
        } else {
            limit = right + 1;
            right = table->tokens[right].left;
        }
    }
    return pal_pair_bytes(table, left, right) >= limit;
}

/* Like is_compatible(), for the last token of a row and the text at `border`, where `right` begins.
 * Computing all conditions is cheaper here than branching. */
static inline bool is_neighbor(const struct pal_table *table, uint32_t left, uint32_t joined,
        uint32_t right, const unsigned char *border)
{
    const struct pal_token *l = &table->tokens[left];
    const struct pal_token *r = &table->tokens[right];
    const struct pal_byte_pair *bytes = &table->byte_pairs[border[-1] << 8 | border[0]];
    bool is_whole_free =
            (joined > right) & (joined == NOTHING || table->tokens[joined].right != right);
    bool is_byte_free = (left < PAL_TOKEN_FIRST) | (bytes->lowest >= l->low_right) |
            (r->low_joined >= l->low_right);

    if ((bytes->token < l->low_right) & (bytes->token <= r->low_left))
        return false;
    if (is_whole_free & is_byte_free & ~(l->joins >> border[0] % 32))
        return true;
    return is_compatible(table, left, joined, right);
}

/* Returns whether no token can follow `left`, which ends before `next`. */
static inline bool is_blocked(const struct pal_table *table, uint32_t left,
        const unsigned char *next, const unsigned char *end)
{
    uint32_t bytes = next < end ? pal_pair_bytes(table, next[-1], next[0]) : PAL_TOKEN_NONE;

    return bytes < table->tokens[left].low_right &&
            (next + 1 == end || bytes <= table->byte_pairs[next[0] << 8 | next[1]].lowest);
}

static inline bool is_dead(const struct pal_merge *merge, size_t at)
{
    return merge->dead[at / 64] >> at % 64 & 1;
}

/* The state of a walk. It is passed by value, so that it stays in registers. */
struct walk {
    const unsigned char *p;
    size_t len;
    size_t at;
    size_t tokens_len;
    uint32_t joined; /* the token that the last token makes with the text after it, or NOTHING or
                        UNKNOWN */
    size_t kept;     /* the first `kept` tokens are never removed again */
    size_t guessed;  /* the first `guessed` tokens may be guesses; longer tokens were not tried for
                        them */
    uint64_t work;
};

/* A token that may become the next one of a row. */
struct step {
    uint32_t token;
    uint32_t joined;
    size_t len;
    bool is_longest;
};

static inline bool fits(const struct pal_table *table, const struct pal_merge *merge,
        const struct walk *walk, uint32_t token)
{
    return walk->tokens_len == 0 ||
            is_neighbor(table, merge->tokens[walk->tokens_len - 1], walk->joined, token,
                    walk->p + walk->at);
}

static inline void push(
        struct pal_merge *merge, struct walk *walk, uint32_t token, size_t len, uint32_t joined)
{
    merge->tokens[walk->tokens_len++] = token;
    walk->at += len;
    walk->joined = joined;
}

static inline uint32_t pop(
        const struct pal_table *table, const struct pal_merge *merge, struct walk *walk)
{
    uint32_t token = merge->tokens[--walk->tokens_len];

    walk->at -= pal_table_len(table, token);
    walk->joined = UNKNOWN;
    return token;
}

/* In a long run the tokens are guessed and only checked. A guess begins a few bytes before the run,
 * because the tokens there may be wrong. */
static struct walk follow_guess(
        const struct pal_table *table, struct pal_merge *merge, struct walk walk)
{
    struct pal_runs *runs = &merge->runs;
    size_t run = walk.at;
    uint32_t repeated = PAL_TOKEN_NONE; /* a token that fits itself */
    uint32_t token;

    while (walk.tokens_len > walk.kept && walk.at > runs->end && run - walk.at < GUESS_BEFORE)
        pop(table, merge, &walk);
    walk.work += pal_runs_guess(table, runs, walk.p, walk.at, run, walk.len);
    while ((token = pal_runs_token(runs, walk.at)) != PAL_TOKEN_NONE) {
        size_t len = pal_table_len(table, token);

        if (is_dead(merge, walk.at + len) ||
                (token != repeated && !fits(table, merge, &walk, token)))
            break;
        if (walk.tokens_len > 0 && merge->tokens[walk.tokens_len - 1] == token)
            repeated = token;
        else
            repeated = PAL_TOKEN_NONE;
        push(merge, &walk, token, len, UNKNOWN);
        pal_runs_next(runs, len);
    }
    walk.guessed = walk.tokens_len;
    return walk;
}

/* The longest token of a place cannot make a longer token with the text after it. */
static inline struct step step_longest(const struct pal_table *table, struct walk *walk)
{
    struct step step = {.joined = NOTHING, .is_longest = true};

    step.token = pal_trie_longest(table, walk->p + walk->at, walk->p + walk->len, &step.len);
    walk->work += step.len;
    return step;
}

static inline bool can_step(const struct pal_table *table, const struct pal_merge *merge,
        const struct walk *walk, const struct step *step)
{
    size_t end = walk->at + step->len;

    return !is_dead(merge, end) &&
            !is_blocked(table, step->token, walk->p + end, walk->p + walk->len) &&
            fits(table, merge, walk, step->token);
}

/* Returns the next shorter token of the place. Of the tokens that it makes with the text after it,
 * only the longest token of the place is remembered. Nearly always it is the only one. */
static inline struct step step_shorter(const struct pal_table *table, struct step step)
{
    uint32_t longer = step.token;

    step.token = table->tokens[longer].prefix;
    if (!step.is_longest)
        step.joined = UNKNOWN;
    else if (table->tokens[longer].left == step.token)
        step.joined = longer;
    step.is_longest = false;
    return step;
}

/* No token of the place fits, so the place is dead. Goes back until there is a place with an
 * untried token. */
static struct walk go_back(
        const struct pal_table *table, struct pal_merge *merge, struct walk walk, struct step *step)
{
    while (step->token == PAL_TOKEN_NONE && walk.tokens_len > walk.kept) {
        merge->dead[walk.at / 64] |= (uint64_t)1 << walk.at % 64;
        step->token = pop(table, merge, &walk);
        if (walk.tokens_len < walk.guessed) {
            walk.guessed = walk.tokens_len;
            *step = step_longest(table, &walk);
            return walk;
        }
        step->token = table->tokens[step->token].prefix;
    }
    step->joined = UNKNOWN;
    if (step->token == PAL_TOKEN_NONE) {
        /* There is a row for every text, so this happens only with a damaged table. It gets single
         * bytes, which are never removed, so that the loop ends. */
        push(merge, &walk, walk.p[walk.at], 1, UNKNOWN);
        walk.kept = walk.tokens_len;
    }
    return walk;
}

size_t pal_merge_all(
        const struct pal_table *table, struct pal_merge *merge, const unsigned char *p, size_t len)
{
    struct walk walk = {.p = p, .len = len};

    assert(len > 0 && len <= merge->window);
    memset(merge->dead, 0, (len / 64 + 1) * sizeof merge->dead[0]);
    merge->runs.end = 0;
    while (walk.at < len) {
        struct step step;

        if (walk.at >= merge->runs.end && pal_runs_begin(p + walk.at, len - walk.at)) {
            walk = follow_guess(table, merge, walk);
            if (walk.at == len)
                break;
        }
        step = step_longest(table, &walk);
        while (step.token != PAL_TOKEN_NONE && !can_step(table, merge, &walk, &step)) {
            walk.work++;
            step = step_shorter(table, step);
            if (step.token == PAL_TOKEN_NONE)
                walk = go_back(table, merge, walk, &step);
            if (step.token != PAL_TOKEN_NONE)
                step.len = pal_table_len(table, step.token);
        }
        if (step.token != PAL_TOKEN_NONE)
            push(merge, &walk, step.token, step.len, step.joined);
    }
    merge->work += walk.work;
    return walk.tokens_len;
}

/* `last` holds, for each end, the last token of the row that ends there. Adds all rows that end
 * with one more token after `at`. Returns how many new ends are at `from` or later. */
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
        if (last[i + 1] != PAL_TOKEN_NONE || !pal_trie_ends(place))
            continue;
        token = pal_trie_token(table, place);
        merge->work++;
        if (is_neighbor(table, last[at], UNKNOWN, token, p + at)) {
            last[i + 1] = token;
            found += i + 1 >= from;
        }
    }
    return found;
}

/* Returns whether the border at the beginning of `p`, after `token`, is final. It is final if the
 * rows of all beginnings that end in the last token_len_max bytes pass it. */
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

/* Like is_final(), but remembers the last final border: in a long run, windows end alike. Borders
 * that are not final are tried first and must not replace the remembered one. */
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
