/* compile_trie.c - packs the trie into a double array. Nodes are created level by level from
 * the sorted tokens, whose bytes are copied in that order, so that memory is read from the front to
 * the back. Then each node gets the lowest base for which all its children find free
 * places. Nodes with the most children come first, so that the many nodes with one child fill the
 * gaps. */
#include <stdlib.h>
#include "base/memory.h"
#include "tokens/compile/compile.h"

#define BITS_AFTER 6 /* words of bits that are read after the last place */

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

/* A token, and its bytes in `bytes`. */
struct sorted {
    uint64_t key; /* its first eight bytes as a number, with zeros at the end */
    uint32_t token;
    uint32_t start;
    uint32_t len;
};

struct trie {
    struct pal_vocab *vocab;
    struct sorted *sorted;
    uint32_t sorted_len;
    unsigned char *bytes;
    struct node *nodes;
    uint32_t nodes_len;
    uint32_t *order; /* the nodes that have children */
    uint32_t order_len;
    uint64_t *used;  /* one bit per place that is in use */
    uint64_t *bases; /* one bit per base that is in use */
    uint32_t room;   /* all places and bases are below this */
};

/* ---- Sorting ---- */

static uint64_t key_of(const struct pal_vocab_token *token)
{
    uint64_t key = 0;

    for (uint32_t i = 0; i < 8; i++)
        key = key << 8 | (i < token->len ? token->bytes[i] : 0);
    return key;
}

static int bytes_order(const void *a, const void *b, void *user)
{
    const struct pal_vocab *vocab = user;
    const struct pal_vocab_token *x = &vocab->tokens[((const struct sorted *)a)->token];
    const struct pal_vocab_token *y = &vocab->tokens[((const struct sorted *)b)->token];
    int order = memcmp(x->bytes, y->bytes, x->len < y->len ? x->len : y->len);

    return order != 0 ? order : x->len < y->len ? -1 : x->len > y->len;
}

/* Sorts by the key, one byte after another, the last one first. `other` has the same size. */
static void sort_by_key(struct sorted *list, struct sorted *other, uint32_t len)
{
    for (unsigned shift = 0; shift < 64; shift += 8) {
        uint32_t starts[257] = {0};
        struct sorted *from = list;

        for (uint32_t i = 0; i < len; i++)
            starts[(list[i].key >> shift & 255) + 1]++;
        for (unsigned i = 1; i < 256; i++)
            starts[i] += starts[i - 1];
        for (uint32_t i = 0; i < len; i++)
            other[starts[list[i].key >> shift & 255]++] = list[i];
        list = other;
        other = from;
    }
}

/* Sorts the tokens that merging can make by their bytes. */
static pal_status tokens_sort(struct trie *k, pal_arena *arena, pal_error *err)
{
    struct pal_vocab *vocab = k->vocab;
    struct sorted *other = pal_arena_array(arena, vocab->len, sizeof *other);
    uint32_t bytes_len = 0;
    uint32_t end;

    k->sorted = pal_arena_array(arena, vocab->len, sizeof *k->sorted);
    if (!k->sorted || !other)
        return pal_no_memory(err);
    for (uint32_t i = 0; i < vocab->len; i++) {
        struct pal_vocab_token *token = &vocab->tokens[i];

        token->prefix = PAL_TOKEN_NONE;
        if (!token->is_merged)
            continue;
        bytes_len += token->len;
        k->sorted[k->sorted_len++] =
                (struct sorted){.key = key_of(token), .token = i, .len = token->len};
    }
    sort_by_key(k->sorted, other, k->sorted_len);
    for (uint32_t i = 0; i < k->sorted_len; i = end) {
        for (end = i + 1; end < k->sorted_len && k->sorted[end].key == k->sorted[i].key;)
            end++;
        if (end > i + 1)
            qsort_r(&k->sorted[i], end - i, sizeof k->sorted[0], bytes_order, vocab);
    }
    k->bytes = pal_arena_alloc(arena, bytes_len);
    if (!k->bytes)
        return pal_no_memory(err);
    bytes_len = 0;
    for (uint32_t i = 0; i < k->sorted_len; i++) {
        struct sorted *sorted = &k->sorted[i];

        sorted->start = bytes_len;
        memcpy(k->bytes + bytes_len, vocab->tokens[sorted->token].bytes, sorted->len);
        bytes_len += sorted->len;
    }
    return PAL_OK;
}

/* ---- Nodes ---- */

/* Returns the number of nodes: one for each different beginning of a token. */
static uint32_t nodes_count(const struct trie *k)
{
    uint32_t count = 1;

    for (uint32_t i = 0; i < k->sorted_len; i++) {
        const struct sorted *this = &k->sorted[i];
        uint32_t same = 0;

        while (i > 0 && same < this[-1].len && same < this->len &&
                k->bytes[this[-1].start + same] == k->bytes[this->start + same])
            same++;
        count += this->len - same;
    }
    return count;
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
    if (k->sorted[at].len == node->depth)
        node->token = k->sorted[at++].token;
    node->children = k->nodes_len;
    while (at < node->high) {
        struct node *child = &k->nodes[k->nodes_len++];
        unsigned char label = k->bytes[k->sorted[at].start + node->depth];

        child->low = at;
        child->depth = (uint16_t)(node->depth + 1);
        child->label = label;
        while (at < node->high && k->bytes[k->sorted[at].start + node->depth] == label)
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

/* Returns 64 bits from `at` on. */
static uint64_t bits_from(const uint64_t *bits, uint32_t at)
{
    uint64_t low = bits[at / 64] >> at % 64;

    return at % 64 == 0 ? low : low | bits[at / 64 + 1] << (64 - at % 64);
}

/* Tries 64 bases at once. */
static bool node_place(struct trie *k, struct node *node, uint32_t *from)
{
    uint32_t base = *from;
    uint64_t taken = UINT64_MAX;

    for (; base + 255 < k->room; base += 64) {
        taken = bits_from(k->bases, base);
        for (uint32_t i = 0; i < node->children_len && taken != UINT64_MAX; i++)
            taken |= bits_from(k->used, base + k->nodes[node->children + i].label);
        if (taken != UINT64_MAX)
            break;
    }
    if (taken == UINT64_MAX)
        return false;
    base += (uint32_t)__builtin_ctzll(~taken);
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
    uint32_t starts[258] = {0}; /* starts[256 - n] is where the nodes with n children begin */

    for (uint32_t i = 0; i < k->nodes_len; i++)
        starts[257 - k->nodes[i].children_len]++;
    for (unsigned i = 1; i < 258; i++)
        starts[i] += starts[i - 1];
    k->order_len = starts[256];
    for (uint32_t i = 0; i < k->nodes_len; i++)
        if (k->nodes[i].children_len > 0)
            k->order[starts[256 - k->nodes[i].children_len]++] = i;
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
    uint32_t count = nodes_count(k);
    uint32_t *above;

    k->nodes = pal_arena_array(arena, count, sizeof k->nodes[0]);
    k->order = pal_arena_array(arena, count, sizeof k->order[0]);
    above = pal_arena_array(arena, count, sizeof above[0]);
    if (pal_arena_failure(arena) != PAL_OK)
        return pal_no_memory(err);
    k->nodes[0].high = k->sorted_len;
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
    pal_status status = tokens_sort(&k, arena, err);
    uint32_t base_max = 0;

    if (status == PAL_OK)
        status = nodes_make(&k, arena, err);
    if (status != PAL_OK)
        return status;
    k.used = pal_arena_array(arena, k.room / 64 + BITS_AFTER, sizeof(uint64_t));
    k.bases = pal_arena_array(arena, k.room / 64 + BITS_AFTER, sizeof(uint64_t));
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
