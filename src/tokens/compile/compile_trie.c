/* compile_trie.c - packs the trie into a double array. Nodes are created level by level from
 * the sorted tokens. Then each node gets the lowest base for which all its children find free
 * places. Nodes with the most children come first, so that the many nodes with one child fill the
 * gaps. */
#include <stdlib.h>
#include "base/memory.h"
#include "tokens/compile/compile.h"

struct node {
    uint32_t low; /* its tokens in `sorted` are from `low` to `high` */
    uint32_t high;
    uint32_t children; /* index of its first child in `nodes` */
    uint32_t base;
    uint32_t token; /* the token that ends here, or PAL_TOKEN_NONE */
    uint16_t depth;
    uint16_t children_len;
    uint16_t label;
};

struct trie {
    struct pal_vocab *vocab;
    uint32_t *sorted;
    struct node *nodes;
    uint32_t nodes_len;
    uint32_t *order; /* the nodes that have children */
    uint32_t order_len;
    uint64_t *used;  /* one bit per place that is in use */
    uint64_t *bases; /* one bit per base that is in use */
    uint32_t room;   /* all places and bases are below this */
};

static int bytes_order(const void *a, const void *b, void *user)
{
    const struct pal_vocab *vocab = user;
    const struct pal_vocab_token *x = &vocab->tokens[*(const uint32_t *)a];
    const struct pal_vocab_token *y = &vocab->tokens[*(const uint32_t *)b];
    int order = memcmp(x->bytes, y->bytes, x->len < y->len ? x->len : y->len);

    return order != 0 ? order : x->len < y->len ? -1 : x->len > y->len;
}

static bool bit_get(const uint64_t *bits, uint32_t at)
{
    return bits[at / 64] >> at % 64 & 1;
}

static void bit_set(uint64_t *bits, uint32_t at)
{
    bits[at / 64] |= (uint64_t)1 << at % 64;
}

/* Creates the children of a node: one for each next byte of its tokens. */
static void node_expand(struct trie *k, uint32_t index)
{
    struct node *node = &k->nodes[index];
    uint32_t at = node->low;

    node->token = PAL_TOKEN_NONE;
    if (k->vocab->tokens[k->sorted[at]].len == node->depth)
        node->token = k->sorted[at++];
    node->children = k->nodes_len;
    while (at < node->high) {
        struct node *child = &k->nodes[k->nodes_len++];
        unsigned char label = k->vocab->tokens[k->sorted[at]].bytes[node->depth];

        child->low = at;
        child->depth = (uint16_t)(node->depth + 1);
        child->label = label;
        while (at < node->high && k->vocab->tokens[k->sorted[at]].bytes[node->depth] == label)
            at++;
        child->high = at;
        node->children_len++;
    }
}

/* The prefix of a token is the deepest token above it in the trie. */
static void node_prefixes(struct trie *k, uint32_t index, uint32_t *above)
{
    const struct node *node = &k->nodes[index];
    uint32_t deepest = above[index];

    if (node->token != PAL_TOKEN_NONE) {
        k->vocab->tokens[node->token].prefix = deepest;
        deepest = node->token;
    }
    for (uint32_t i = 0; i < node->children_len; i++)
        above[node->children + i] = deepest;
}

static bool base_fits(const struct trie *k, const struct node *node, uint32_t base)
{
    if (bit_get(k->bases, base))
        return false;
    for (uint32_t i = 0; i < node->children_len; i++)
        if (bit_get(k->used, base + k->nodes[node->children + i].label))
            return false;
    return true;
}

static bool node_place(struct trie *k, struct node *node, uint32_t *from)
{
    uint32_t base = *from;

    while (base + 255 < k->room && !base_fits(k, node, base))
        base++;
    if (base + 255 >= k->room)
        return false;
    *from = base;
    node->base = base;
    bit_set(k->bases, base);
    for (uint32_t i = 0; i < node->children_len; i++)
        bit_set(k->used, base + k->nodes[node->children + i].label);
    return true;
}

/* Sorts the nodes with children; those with the most children come first. */
static void nodes_order(struct trie *k)
{
    for (uint32_t len = 256; len > 0; len--) {
        for (uint32_t i = 0; i < k->nodes_len; i++)
            if (k->nodes[i].children_len == len)
                k->order[k->order_len++] = i;
    }
}

static bool nodes_place(struct trie *k)
{
    uint32_t from = 1; /* 0 is the base of leaves */
    uint32_t len = 0;

    for (uint32_t i = 0; i < k->order_len; i++) {
        struct node *node = &k->nodes[k->order[i]];

        /* Among nodes of the same size the search continues from the last position. Otherwise it
         * would be slow. */
        if (node->children_len != len) {
            len = node->children_len;
            from = 1;
        }
        if (!node_place(k, node, &from))
            return false;
    }
    return true;
}

static void places_write(const struct trie *k, struct pal_place *places)
{
    for (uint32_t i = 0; i < k->order_len; i++) {
        const struct node *node = &k->nodes[k->order[i]];

        for (uint32_t j = 0; j < node->children_len; j++) {
            const struct node *child = &k->nodes[node->children + j];

            places[node->base + child->label] = (struct pal_place){
                    .link = child->base << PAL_TRIE_LABEL_BITS | child->label,
                    .token = child->token,
            };
        }
    }
}

static pal_status nodes_make(struct trie *k, pal_arena *arena, pal_error *err)
{
    uint64_t bytes = 1;
    uint32_t tokens = 0;
    uint32_t *above;

    k->sorted = pal_arena_array(arena, k->vocab->len, sizeof(uint32_t));
    for (uint32_t i = 0; k->sorted && i < k->vocab->len; i++) {
        k->vocab->tokens[i].prefix = PAL_TOKEN_NONE;
        if (k->vocab->tokens[i].is_merged) {
            bytes += k->vocab->tokens[i].len;
            k->sorted[tokens++] = i;
        }
    }
    k->nodes = pal_arena_array(arena, bytes, sizeof k->nodes[0]);
    k->order = pal_arena_array(arena, bytes, sizeof k->order[0]);
    above = pal_arena_array(arena, bytes, sizeof above[0]);
    if (pal_arena_failure(arena) != PAL_OK)
        return pal_no_memory(err);
    qsort_r(k->sorted, tokens, sizeof(uint32_t), bytes_order, k->vocab);
    k->nodes[0].high = tokens;
    k->nodes_len = 1;
    above[0] = PAL_TOKEN_NONE;
    for (uint32_t i = 0; i < k->nodes_len; i++) {
        node_expand(k, i);
        node_prefixes(k, i, above);
    }
    return PAL_OK;
}

pal_status pal_compile_trie(struct pal_vocab *vocab, pal_arena *arena,
        struct pal_compiled_trie *out_trie, pal_error *err)
{
    struct trie k = {.vocab = vocab, .room = 1u << PAL_TRIE_BASE_BITS};
    pal_status status = nodes_make(&k, arena, err);
    uint32_t base_max = 0;

    if (status != PAL_OK)
        return status;
    k.used = pal_arena_array(arena, k.room / 64 + 1, sizeof(uint64_t));
    k.bases = pal_arena_array(arena, k.room / 64 + 1, sizeof(uint64_t));
    if (pal_arena_failure(arena) != PAL_OK)
        return pal_no_memory(err);
    nodes_order(&k);
    if (!nodes_place(&k))
        return pal_error_set(err, PAL_LIMIT, "the vocabulary has too many tokens for a table");
    for (uint32_t i = 0; i < k.order_len; i++) {
        uint32_t base = k.nodes[k.order[i]].base;

        base_max = base > base_max ? base : base_max;
    }
    out_trie->len = base_max + 256;
    out_trie->places = pal_arena_array(arena, out_trie->len, sizeof out_trie->places[0]);
    if (!out_trie->places)
        return pal_no_memory(err);
    for (uint32_t i = 0; i < out_trie->len; i++)
        out_trie->places[i] = (struct pal_place){PAL_TRIE_FREE, PAL_TOKEN_NONE};
    places_write(&k, out_trie->places);
    out_trie->root = k.nodes[0].base;
    out_trie->tokens_len = k.nodes[0].high;
    return PAL_OK;
}
