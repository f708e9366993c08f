/* compile_spine.c - finds what the spines of each token can merge with. The result is stored
 * in the table, so that counting does not have to search for it. */
#include "tokens/compile/compile.h"

#include "base/memory.h"

/* The tokens that have a given token as their left half. */
struct made {
    uint32_t *first; /* the first token whose left half this is, or PAL_TOKEN_NONE */
    uint32_t *next;  /* the next token with the same left half */
};

static void made_fill(const struct pal_vocab *vocab, struct made *made)
{
    for (uint32_t i = 0; i < vocab->len; i++)
        made->first[i] = PAL_TOKEN_NONE;
    for (uint32_t i = vocab->len; i-- > PAL_TOKEN_FIRST;) {
        const struct pal_vocab_token *token = &vocab->tokens[i];

        if (!token->is_merged)
            continue;
        made->next[i] = made->first[token->left];
        made->first[token->left] = i;
    }
}

static void left_spine(const struct pal_vocab *vocab, struct pal_token *token, uint32_t at)
{
    for (; at >= PAL_TOKEN_FIRST; at = vocab->tokens[at].left)
        token->low_left = at;
}

static void right_spine(const struct pal_vocab *vocab, const struct made *made,
        struct pal_token *token, uint32_t at)
{
    uint32_t above = 0;

    for (; at >= PAL_TOKEN_FIRST; at = vocab->tokens[at].right) {
        uint32_t joined = above > 0 ? made->first[at] : PAL_TOKEN_NONE;

        token->low_right = at;
        for (; joined < above; joined = made->next[joined]) {
            const struct pal_vocab_token *right = &vocab->tokens[vocab->tokens[joined].right];

            token->joins |= (uint32_t)1 << right->bytes[0] % 32;
        }
        above = at;
    }
}

pal_status pal_compile_spines(const struct pal_vocab *vocab, pal_arena *arena,
        struct pal_token *tokens, pal_error *err)
{
    struct made made = {
            .first = pal_arena_array(arena, vocab->len, sizeof(uint32_t)),
            .next = pal_arena_array(arena, vocab->len, sizeof(uint32_t)),
    };

    if (pal_arena_failure(arena) != PAL_OK)
        return pal_no_memory(err);
    made_fill(vocab, &made);
    for (uint32_t i = 0; i < vocab->len; i++) {
        tokens[i].low_left = PAL_TOKEN_NONE;
        tokens[i].low_right = PAL_TOKEN_NONE;
        if (!vocab->tokens[i].is_merged)
            continue;
        left_spine(vocab, &tokens[i], i);
        right_spine(vocab, &made, &tokens[i], i);
    }
    return PAL_OK;
}
