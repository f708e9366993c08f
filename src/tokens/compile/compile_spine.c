/* compile_spine.c - finds what the spines of each token can merge with. The result is stored
 * in the table, so that counting does not have to search for it.
 *
 * A spine is a token and the spine of its half, and halves have lower numbers. So the answers for a
 * token follow from those for its halves, in the order of the numbers. */
#include "tokens/compile/compile.h"

#include "base/memory.h"

pal_status pal_compile_spines(const struct pal_vocab *vocab, pal_arena *arena,
        struct pal_token *tokens, pal_error *err)
{
    /* For each token the first bytes, as in `joins`, of everything that the tokens so far have on
     * their right, if it is their left half. */
    uint32_t *joined = pal_arena_array(arena, vocab->len, sizeof *joined);

    if (!joined)
        return pal_no_memory(err);
    for (uint32_t i = 0; i < vocab->len; i++) {
        const struct pal_vocab_token *token = &vocab->tokens[i];
        uint32_t left = token->left;
        uint32_t right = token->right;

        tokens[i].low_left = PAL_TOKEN_NONE;
        tokens[i].low_right = PAL_TOKEN_NONE;
        if (i < PAL_TOKEN_FIRST || !token->is_merged)
            continue;
        tokens[i].low_left = left < PAL_TOKEN_FIRST ? i : tokens[left].low_left;
        tokens[i].low_right = right < PAL_TOKEN_FIRST ? i : tokens[right].low_right;
        if (right >= PAL_TOKEN_FIRST)
            tokens[i].joins = tokens[right].joins | joined[right];
        joined[left] |= (uint32_t)1 << vocab->tokens[right].bytes[0] % 32;
    }
    return PAL_OK;
}
