/* compile_hash.c - finds displacements that give each token its own slot. The fullest
 * buckets come first, while there is room. Each gets the first number that moves all of its keys to
 * free slots. If there is none for a bucket, everything is tried again with another seed. */
#include "tokens/compile/compile.h"

#include "base/memory.h"

#define DISPLACEMENTS 65536u
#define SEEDS 64u

struct hash_table {
    const struct pal_vocab *vocab;
    struct pal_compiled_hash *out;
    struct pal_slot *keys;
    uint64_t *hashes;
    uint32_t *starts; /* index of each bucket's first key in `members`, and the end */
    uint32_t *members;
    uint32_t *order; /* buckets, the fullest first */
    uint32_t buckets;
};

static uint32_t bucket_of(const struct hash_table *h, uint32_t token)
{
    return (uint32_t)(h->hashes[token] >> (64 - h->out->bucket_bits));
}

static uint32_t bucket_len(const struct hash_table *h, uint32_t bucket)
{
    return h->starts[bucket + 1] - h->starts[bucket];
}

static void buckets_fill(struct hash_table *h)
{
    uint32_t len = h->vocab->len;

    memset(h->starts, 0, (h->buckets + 1) * sizeof h->starts[0]);
    for (uint32_t i = 0; i < len; i++) {
        h->hashes[i] = pal_table_hash(h->out->seed, h->keys[i]);
        h->starts[bucket_of(h, i) + 1]++;
    }
    for (uint32_t i = 0; i < h->buckets; i++)
        h->starts[i + 1] += h->starts[i];
    for (uint32_t i = len; i-- > 0;)
        h->members[--h->starts[bucket_of(h, i) + 1]] = i;
    /* Each start was moved to where the one before ends. This restores them. */
    memmove(h->starts, h->starts + 1, h->buckets * sizeof h->starts[0]);
    h->starts[h->buckets] = len;
}

static void buckets_order(struct hash_table *h)
{
    uint32_t len_max = 0;
    uint32_t at = 0;

    for (uint32_t i = 0; i < h->buckets; i++)
        len_max = bucket_len(h, i) > len_max ? bucket_len(h, i) : len_max;
    for (uint32_t len = len_max + 1; len-- > 0;) {
        for (uint32_t i = 0; i < h->buckets; i++)
            if (bucket_len(h, i) == len)
                h->order[at++] = i;
    }
}

/* Places all keys of the bucket as the displacement says. If one does not fit, places none of
 * them. */
static bool bucket_put(struct hash_table *h, uint32_t bucket, uint32_t displacement)
{
    struct pal_compiled_hash *out = h->out;
    uint32_t i = h->starts[bucket];
    bool is_good = true;

    for (; is_good && i < h->starts[bucket + 1]; i++) {
        uint32_t token = h->members[i];
        uint32_t slot = pal_table_place(h->hashes[token], displacement, out->slots_len);

        is_good = out->slots[slot].high == 0;
        if (is_good) {
            out->slots[slot] = h->keys[token];
            out->slots[slot].high |= (uint64_t)token << PAL_SLOT_TOKEN_SHIFT;
        }
    }
    if (is_good) {
        out->displacements[bucket] = (uint16_t)displacement;
        return true;
    }
    while (--i > h->starts[bucket]) {
        uint32_t token = h->members[i - 1];
        uint32_t slot = pal_table_place(h->hashes[token], displacement, out->slots_len);

        out->slots[slot] = (struct pal_slot){0, 0};
    }
    return false;
}

static bool slots_fill(struct hash_table *h)
{
    memset(h->out->slots, 0, h->out->slots_len * sizeof h->out->slots[0]);
    buckets_fill(h);
    buckets_order(h);
    for (uint32_t i = 0; i < h->buckets; i++) {
        uint32_t displacement = 0;

        while (displacement < DISPLACEMENTS && !bucket_put(h, h->order[i], displacement))
            displacement++;
        if (displacement == DISPLACEMENTS)
            return false;
    }
    return true;
}

static pal_status hash_table_init(struct hash_table *h, pal_arena *arena, pal_error *err)
{
    uint32_t len = h->vocab->len;

    h->buckets = 1u << h->out->bucket_bits;
    h->keys = pal_arena_array(arena, len, sizeof h->keys[0]);
    h->hashes = pal_arena_array(arena, len, sizeof h->hashes[0]);
    h->starts = pal_arena_array(arena, h->buckets + 1, sizeof h->starts[0]);
    h->members = pal_arena_array(arena, len, sizeof h->members[0]);
    h->order = pal_arena_array(arena, h->buckets, sizeof h->order[0]);
    if (pal_arena_failure(arena) != PAL_OK)
        return pal_no_memory(err);
    for (uint32_t i = 0; i < len; i++)
        h->keys[i] = pal_table_key_any(h->vocab->tokens[i].bytes, h->vocab->tokens[i].len);
    return PAL_OK;
}

void pal_compile_hash_size(const struct pal_vocab *vocab, struct pal_compiled_hash *out_hash)
{
    out_hash->slots_len = vocab->len + vocab->len / 32 + 1;
    out_hash->bucket_bits = 4;
    while ((1u << out_hash->bucket_bits) < vocab->len / 4)
        out_hash->bucket_bits++;
}

pal_status pal_compile_hash(const struct pal_vocab *vocab, pal_arena *arena,
        struct pal_compiled_hash *out_hash, pal_error *err)
{
    struct hash_table h = {.vocab = vocab, .out = out_hash};
    pal_status status = hash_table_init(&h, arena, err);

    if (status != PAL_OK)
        return status;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        out_hash->seed = seed * 0xa0761d6478bd642fu;
        if (slots_fill(&h))
            return PAL_OK;
    }
    return pal_error_set(err, PAL_INVALID, "could not find a perfect hash for the tokens");
}
