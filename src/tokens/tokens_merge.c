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
 * Nearly always the bytes at the border and the table's values about the spines decide;
 * is_neighbor() asks for these first. Often the text after a token decides alone (look_ahead()):
 * - A token is blocked if its last byte merges with the byte after it, before it becomes part of
 *   anything in the token. The token is never made, and nothing can follow it.
 * - A token is alone if all longer tokens of its place are blocked. Then the whole token never
 *   merges with the text after it.
 * - A token that is alone is free if the table says that nothing else of its right spine merges
 *   with the text after it either. Every token can follow it. So the row of the text from its place
 *   on begins with it: if it does not fit the token before it, no other token of the place does.
 * Texts without words depend on this, because they need about one such decision per byte.
 *
 * In a run of one byte the longest tokens are nearly always wrong, and there are many of them. So
 * the tokens are guessed there (tokens_runs.h) and only checked. A wrong guess costs time but never
 * changes the result.
 *
 * A place k of a long text is final if it is a border whatever follows. To find out, consider each
 * beginning of the text that ends within the last token_len_max bytes. The row of any longer text
 * must pass through one of these ends. So k is final if merging gives a border at k for all of
 * them. Rows are unique, so each end has one last token. Walking all compatible tokens from k on
 * finds all ends whose rows pass k. */
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

/* Returns whether the two tokens can be neighbors. If the left one is alone, it is not asked
 * whether the whole of it merges with the right one. */
static bool is_compatible(
        const struct pal_table *table, uint32_t left, bool is_alone, uint32_t right)
{
    uint32_t whole = is_alone ? left : PAL_TOKEN_NONE;
    uint32_t limit = UINT32_MAX;

    while ((left | right) >= PAL_TOKEN_FIRST) {
        if (left != whole && pal_pair_tokens(table, left, right) < limit)
            return false;
        /* The token with the higher number was made last. If both are the same, the right one
         * was. */
        if (left > right) {
            limit = left;
            left = table->origins[left].right;
        } else {
            limit = right + 1;
            right = table->origins[right].left;
        }
    }
    return (left == whole) | (pal_pair_bytes(table, left, right) >= limit);
}

/* Returns whether the first byte of the text can merge with all or the beginning of the `len` bytes
 * after it, into a token below `limit`. A pair of bytes does not count. */
static inline bool byte_joins(const struct pal_table *table, const unsigned char *p, size_t len,
        uint32_t limit)
{
    uint32_t base = table->byte_pairs[p[0] << 8 | p[1]].base;

    for (size_t i = 2; i <= len; i++) {
        const struct pal_place *place = &table->trie[base + p[i]];

        if (pal_trie_label(place) != p[i])
            break;
        base = pal_trie_base(place);
        if (place->token < limit && table->origins[place->token].left == p[0])
            return true;
    }
    return false;
}

/* Like is_compatible(), for the last token of a row and the text at `border`, where `right`
 * begins. */
static inline bool is_neighbor(const struct pal_table *table, uint32_t left, bool is_alone,
        uint32_t right, const unsigned char *border)
{
    const struct pal_token *l = &table->tokens[left];
    const struct pal_token *r = &table->tokens[right];
    const struct pal_byte_pair *bytes = &table->byte_pairs[border[-1] << 8 | border[0]];
    uint32_t highest = l->low_right - 1; /* as in look_ahead() */

    highest = r->low_left < highest ? r->low_left : highest;
    if (bytes->token <= highest)
        return false;
    if (is_alone && !(l->joins >> border[0] % 32 & 1) &&
            (left < PAL_TOKEN_FIRST ||
                    !byte_joins(table, border - 1, pal_table_len(table, right), l->low_right)))
        return true;
    return is_compatible(table, left, is_alone, right);
}

/* The tokens that can follow a token, by the text after it. */
struct outlook {
    bool is_blocked; /* no token can follow */
    bool is_free;    /* every token can follow, if the token is alone */
};

static inline struct outlook look_ahead(const struct pal_table *table, uint32_t token,
        const unsigned char *next, const unsigned char *end)
{
    const struct pal_token *l = &table->tokens[token];
    const struct pal_byte_pair *bytes;
    uint32_t highest = l->low_right - 1; /* the bytes block the token if they make this or less */

    if (next == end)
        return (struct outlook){.is_blocked = false, .is_free = true};
    bytes = &table->byte_pairs[next[-1] << 8 | next[0]];
    if (next + 1 < end) {
        uint32_t lowest = table->byte_pairs[next[0] << 8 | next[1]].lowest;

        highest = lowest < highest ? lowest : highest;
    }
    return (struct outlook){
            .is_blocked = bytes->token <= highest,
            .is_free = ((token < PAL_TOKEN_FIRST) | (bytes->lowest >= l->low_right)) &
                    ~(l->joins >> next[0] % 32),
    };
}

/* Returns whether the first byte of the text never merges with the next one. Then it is free. */
static inline bool is_lone_byte(
        const struct pal_table *table, const unsigned char *p, const unsigned char *end)
{
    return end - p > 1 && table->byte_pairs[p[0] << 8 | p[1]].lowest == PAL_TOKEN_NONE;
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
    bool is_alone;   /* the last token is alone */
    bool is_free;    /* the last token is free */
    size_t kept;     /* the first `kept` tokens are never removed again */
    size_t guessed;  /* the first `guessed` tokens may be guesses; longer tokens were not tried for
                        them */
    uint64_t work;
};

/* A token that may become the next one of a row. */
struct step {
    uint32_t token;
    size_t len;
    bool is_alone;
};

static inline bool fits(const struct pal_table *table, const struct pal_merge *merge,
        const struct walk *walk, uint32_t token)
{
    return walk->is_free || walk->tokens_len == 0 ||
            is_neighbor(table, merge->tokens[walk->tokens_len - 1], walk->is_alone, token,
                    walk->p + walk->at);
}

static inline void push(struct pal_merge *merge, struct walk *walk, uint32_t token, size_t len)
{
    merge->tokens[walk->tokens_len++] = token;
    walk->at += len;
    walk->is_alone = false;
    walk->is_free = false;
}

static inline uint32_t pop(
        const struct pal_table *table, const struct pal_merge *merge, struct walk *walk)
{
    uint32_t token = merge->tokens[--walk->tokens_len];

    walk->at -= pal_table_len(table, token);
    walk->is_alone = false;
    walk->is_free = false;
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
        push(merge, &walk, token, len);
        pal_runs_next(runs, len);
    }
    walk.guessed = walk.tokens_len;
    return walk;
}

static inline struct step step_longest(const struct pal_table *table, struct walk *walk)
{
    struct step step = {.is_alone = true};

    step.token = pal_trie_longest(table, walk->p + walk->at, walk->p + walk->len, &step.len);
    walk->work += step.len;
    return step;
}

/* Appends the token if it fits. Otherwise the step becomes the next token of the place that is
 * worth trying, or PAL_TOKEN_NONE. */
static inline bool step_take(const struct pal_table *table, struct pal_merge *merge,
        struct walk *walk, struct step *step)
{
    size_t end = walk->at + step->len;
    struct outlook outlook = look_ahead(table, step->token, walk->p + end, walk->p + walk->len);
    bool is_free = step->is_alone & outlook.is_free;

    if (!outlook.is_blocked) {
        if (!is_dead(merge, end) && fits(table, merge, walk, step->token)) {
            push(merge, walk, step->token, step->len);
            walk->is_alone = step->is_alone;
            walk->is_free = is_free;
            return true;
        }
        step->is_alone = false;
    }
    walk->work++;
    step->token = is_free ? PAL_TOKEN_NONE : pal_table_prefix(table, step->token);
    return false;
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
        step->token = pal_table_prefix(table, step->token);
    }
    step->is_alone = false;
    if (step->token == PAL_TOKEN_NONE) {
        /* There is a row for every text, so this happens only with a damaged table. It gets single
         * bytes, which are never removed, so that the loop ends. */
        push(merge, &walk, walk.p[walk.at], 1);
        walk.kept = walk.tokens_len;
    }
    return walk;
}

size_t pal_merge_all(
        const struct pal_table *table, struct pal_merge *merge, const unsigned char *p, size_t len)
{
    struct walk walk = {.p = p, .len = len, .is_free = true};

    assert(len > 0 && len <= merge->window);
    merge->dead[0] = 0;
    if (len >= 64)
        memset(merge->dead, 0, (len / 64 + 1) * sizeof merge->dead[0]);
    merge->runs.end = 0;
    while (walk.at < len) {
        struct step step;

        if (walk.at >= merge->runs.end && pal_runs_begin(p + walk.at, len - walk.at)) {
            walk = follow_guess(table, merge, walk);
            if (walk.at == len)
                break;
        }
        if (walk.is_free && is_lone_byte(table, p + walk.at, p + len)) {
            push(merge, &walk, p[walk.at], 1);
            walk.is_alone = true;
            walk.is_free = true;
            continue;
        }
        step = step_longest(table, &walk);
        while (step.token != PAL_TOKEN_NONE && !step_take(table, merge, &walk, &step)) {
            if (step.token == PAL_TOKEN_NONE)
                walk = go_back(table, merge, walk, &step);
            if (step.token != PAL_TOKEN_NONE)
                step.len = pal_table_len(table, step.token);
        }
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
    size_t found = 0;

    for (size_t i = at; i < len; i++) {
        const struct pal_place *place = &table->trie[base + p[i]];

        if (pal_trie_label(place) != p[i])
            break;
        base = pal_trie_base(place);
        if (last[i + 1] != PAL_TOKEN_NONE || place->token == PAL_TOKEN_NONE)
            continue;
        merge->work++;
        if (is_neighbor(table, last[at], false, place->token, p + at)) {
            last[i + 1] = place->token;
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
