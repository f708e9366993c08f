/* tokens_table.h - a vocabulary that is ready for use: read-only, without pointers, made from a
 * pack (compile/compile_pack.c) or mapped from a file.
 *
 * A table is a header (struct pal_encoding, which is also the handle) and sections at offsets from
 * it. Each section is aligned to 64 bytes. All numbers are in the byte order of the machine.
 *
 * Tokens have internal numbers. A single byte has its value; the others follow from 256 on in the
 * order in which they merge, so that comparing numbers compares ranks. The public ids are
 * `byte_ids` for bytes, and for the others the number plus `id_shift`. If the ids have gaps, they
 * are in the section of ids.
 *
 * Words are found by a perfect hash: the key's hash selects a bucket, the bucket's displacement and
 * the hash select the slot, and the slot contains the key, so that one comparison decides. */
#ifndef PAL_TOKENS_TABLE_H
#define PAL_TOKENS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "palaver/error.h"
#include "palaver/tokens.h"
#include "tokens/split/split.h"

#define PAL_TABLE_MAGIC "PALTOKEN"
#define PAL_PACK_MAGIC "PALPACK"
#define PAL_TABLE_VERSION 3u
#define PAL_TABLE_ORDER 0x01020304u /* has another value if the byte order differs */
#define PAL_TABLE_NAME_MAX 63
#define PAL_TABLE_ALIGN 64

#define PAL_TOKENS_MAX (1u << 21)
#define PAL_TOKEN_LEN_MAX 1024
#define PAL_TOKEN_NONE UINT32_MAX
#define PAL_TOKEN_FIRST 256u /* the first token that is not a byte */

enum pal_table_section {
    PAL_TABLE_SLOTS,         /* struct pal_slot[slots_len] */
    PAL_TABLE_DISPLACEMENTS, /* uint16_t[1 << bucket_bits] */
    PAL_TABLE_TOKENS,        /* struct pal_token[tokens_len] */
    PAL_TABLE_ORIGINS,       /* struct pal_origin[tokens_len] */
    PAL_TABLE_PAIRS,         /* uint32_t[1 << pair_bits]: a token by its two halves */
    PAL_TABLE_FILTER,        /* uint8_t[1 << pair_bits]: eight bits for each entry of the pairs */
    PAL_TABLE_BYTE_PAIRS,    /* struct pal_byte_pair[256][256]; pairs of bytes are not in PAIRS */
    PAL_TABLE_TRIE,          /* struct pal_place[trie_len] */
    PAL_TABLE_BYTES,         /* the bytes of all tokens */
    PAL_TABLE_IDS,           /* uint32_t[tokens_len - 256], or empty */
    PAL_TABLE_SPECIALS,      /* struct pal_special[specials_len], ordered by id */
    PAL_TABLE_SPECIAL_BYTES,
    PAL_TABLE_SECTIONS,
};

/* A word and its token. A word of up to 12 bytes is in `low` and the lower half of `high`, followed
 * by zeros, with its length in the next four bits. For a longer word there is a hash, and
 * PAL_SLOT_LONG instead of the length. The token is above that. An empty slot has the length 0. */
struct pal_slot {
    uint64_t low;
    uint64_t high;
};

#define PAL_SLOT_LEN_MAX 12
#define PAL_SLOT_LONG 15u
#define PAL_SLOT_NONE 14u
#define PAL_SLOT_LEN_SHIFT 32
#define PAL_SLOT_TOKEN_SHIFT 36
#define PAL_SLOT_KEY (((uint64_t)1 << PAL_SLOT_TOKEN_SHIFT) - 1)

/* A token. Its left spine is the token, its left half, the left half of that, and so on down to its
 * first byte; its right spine goes down to its last byte. The members about the spines answer most
 * of the questions whether two tokens can be neighbors; tokens_merge.c has the rules. Members
 * that nearly every token needs are here, and the others in its origin, so that the CPU cache holds
 * more tokens. */
struct pal_token {
    uint32_t low_right; /* the lowest token of the right spine except the byte, or PAL_TOKEN_NONE */
    /* The first bytes, modulo 32, of everything that a token of the right spine can merge with
     * before it becomes part of the next token of the spine. Does not include the token itself. */
    uint32_t joins;
    uint32_t low_left; /* the lowest token of the left spine except the byte, or PAL_TOKEN_NONE */
    uint32_t prefix;   /* pal_table_prefix() and, above it, pal_table_len() */
};

struct pal_origin {
    uint32_t start; /* start of its bytes */
    uint32_t left;  /* the two halves that merge into it; the token itself, twice, if no two do */
    uint32_t right;
};

/* The properties of two bytes. */
struct pal_byte_pair {
    uint32_t token;  /* the token that they make, or PAL_TOKEN_NONE */
    uint32_t lowest; /* the lowest token that begins with them, or PAL_TOKEN_NONE */
    uint32_t base;   /* base of their node in the trie; 0: no longer token begins with them */
};

struct pal_special {
    uint32_t id;
    uint32_t start;
    uint32_t len;
};

struct pal_encoding {
    char magic[8];
    uint32_t version;
    uint32_t order;
    uint64_t size; /* size of the whole table */
    char name[PAL_TABLE_NAME_MAX + 1];
    uint32_t name_len;
    uint32_t pattern; /* index in pal_splits */
    uint32_t ids_end;
    uint32_t tokens_len;
    uint32_t token_len_max;
    uint32_t id_shift;
    uint32_t has_ids;
    uint32_t slots_len;
    uint32_t bucket_bits;
    uint32_t pair_bits;
    uint32_t trie_len;
    uint32_t trie_root;
    uint32_t trie_tokens; /* number of tokens in the trie: those that merging can make */
    uint32_t bytes_len;
    uint32_t specials_len;
    uint32_t special_bytes_len;
    uint64_t seed;
    uint32_t byte_ids[256];
    uint64_t offsets[PAL_TABLE_SECTIONS];
};

/* The sections of a table, looked up once per call. */
struct pal_table {
    const struct pal_encoding *head;
    const struct pal_split *split;
    const struct pal_slot *slots;
    const uint16_t *displacements;
    const struct pal_token *tokens;
    const struct pal_origin *origins;
    const uint32_t *pairs;
    const uint8_t *filter;
    const struct pal_byte_pair *byte_pairs;
    const struct pal_place *trie;
    const unsigned char *bytes;
    const uint32_t *ids;
    const struct pal_special *specials;
    const unsigned char *special_bytes;
    uint64_t seed;
    uint32_t slots_len;
    uint32_t token_len_max;
    unsigned bucket_shift;
    unsigned pair_shift;
};

/* Computes the sizes of the sections from the header. */
void pal_table_sizes(const struct pal_encoding *head, uint64_t out_sizes[PAL_TABLE_SECTIONS]);

/* Returns the table of an encoding. The table of a built-in one is made on its first use, which
 * takes a tenth of a second, and is kept. Another thread that needs the same table waits.
 * PAL_NO_MEMORY is the only error; the next call tries again. */
PAL_CHECKED pal_status pal_table_ready(
        const pal_encoding *encoding, const pal_encoding **out_head, pal_error *err);

/* Makes the table of a pack, in the arena. PAL_NO_MEMORY is the only error. */
PAL_CHECKED pal_status pal_table_unpack(
        const struct pal_encoding *pack, pal_arena *arena, pal_str *out_table, pal_error *err);

/* `head` is that of a table, not of a pack. */
void pal_table_view(const struct pal_encoding *head, struct pal_table *out_table);

/* Checks everything that the code relies on, for tables from outside. After it, no text can lead
 * outside the table or into an endless loop. PAL_CORRUPT: `err` says what is wrong. `data` must be
 * aligned to 8. */
pal_status pal_table_check(const unsigned char *data, size_t len, pal_error *err);

/* ---- Hashing ---- */

static inline uint64_t pal_table_mix(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t pal_table_hash(uint64_t seed, struct pal_slot key)
{
    return pal_table_mix(key.low ^ seed, key.high ^ 0x9e3779b97f4a7c15u);
}

/* Returns the slot of a hash, if the displacement of its bucket is known. */
static inline uint32_t pal_table_place(uint64_t hash, uint32_t displacement, uint32_t slots_len)
{
    uint64_t moved = (hash ^ displacement * 0xd6e8feb86659fd93u) * 0xa0761d6478bd642fu;

    return (uint32_t)((moved >> 32) * slots_len >> 32);
}

static inline uint64_t pal_table_word(const unsigned char *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof word);
    return word;
}

/* Masks for the first and second eight bytes of a word of a given length, and its length in the
 * key. A word that is too long gives a key that no slot has. */
struct pal_key_mask {
    uint64_t low;
    uint64_t high;
    uint64_t len;
    uint64_t unused;
};

extern const struct pal_key_mask pal_key_masks[PAL_SPLIT_WINDOW + 1];

/* Returns the key of a word of 1 to PAL_SPLIT_WINDOW bytes. 16 bytes must be readable. */
static inline struct pal_slot pal_table_key(const unsigned char *p, size_t len)
{
    const struct pal_key_mask *mask = &pal_key_masks[len];
    struct pal_slot key;

    key.low = pal_table_word(p) & mask->low;
    key.high = (pal_table_word(p + 8) & mask->high) | mask->len;
    return key;
}

/* Returns the key of a word of any length of at least 1. Reads only the word. */
struct pal_slot pal_table_key_any(const unsigned char *p, size_t len);

/* ---- Looking up ---- */

/* Returns the only slot that can contain a key. */
static inline const struct pal_slot *pal_table_slot(
        const struct pal_table *table, struct pal_slot key)
{
    uint64_t hash = pal_table_hash(table->seed, key);

    return &table->slots[pal_table_place(
            hash, table->displacements[hash >> table->bucket_shift], table->slots_len)];
}

static inline bool pal_slot_has(const struct pal_slot *slot, struct pal_slot key)
{
    return ((slot->low ^ key.low) | ((slot->high ^ key.high) & PAL_SLOT_KEY)) == 0;
}

static inline uint32_t pal_slot_token(const struct pal_slot *slot)
{
    return (uint32_t)(slot->high >> PAL_SLOT_TOKEN_SHIFT);
}

/* Returns the token that is equal to this word, or PAL_TOKEN_NONE. */
uint32_t pal_table_find(const struct pal_table *table, const unsigned char *p, size_t len);

#define PAL_PREFIX_BITS 21
#define PAL_PREFIX_NONE ((1u << PAL_PREFIX_BITS) - 1)

/* Returns the number of bytes of a token. */
static inline size_t pal_table_len(const struct pal_table *table, uint32_t token)
{
    return table->tokens[token].prefix >> PAL_PREFIX_BITS;
}

/* Returns the longest other token that a token begins with, or PAL_TOKEN_NONE. */
static inline uint32_t pal_table_prefix(const struct pal_table *table, uint32_t token)
{
    uint32_t prefix = table->tokens[token].prefix & PAL_PREFIX_NONE;

    return prefix == PAL_PREFIX_NONE ? PAL_TOKEN_NONE : prefix;
}

static inline uint32_t pal_table_id(const struct pal_table *table, uint32_t token)
{
    if (token < PAL_TOKEN_FIRST)
        return table->head->byte_ids[token];
    return table->ids ? table->ids[token - PAL_TOKEN_FIRST] : token + table->head->id_shift;
}

/* Returns the bytes of an id, or the name of a special one. Returns false if there is no such
 * id. */
bool pal_table_text(const struct pal_table *table, uint32_t id, pal_str *out_text);

/* ---- Pairs ---- */

/* An entry of the pairs is a token and, above it, bits of the pair's hash; 0: free. */
#define PAL_PAIR_TOKEN_BITS 21
#define PAL_PAIR_TOKEN_MASK ((1u << PAL_PAIR_TOKEN_BITS) - 1)

static inline uint64_t pal_pair_hash(uint32_t left, uint32_t right)
{
    uint64_t hash = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;

    return hash ^ hash >> 32;
}

static inline uint32_t pal_pair_entry(uint64_t hash, uint32_t token)
{
    return (uint32_t)(hash >> 8) << PAL_PAIR_TOKEN_BITS | token;
}

/* Most pairs do not exist. A bit that is not set shows this without reading the pairs. */
static inline bool pal_pair_filter(const struct pal_table *table, uint64_t hash)
{
    return table->filter[hash >> table->pair_shift] >> (hash & 7) & 1;
}

/* Returns the token that two bytes make, or PAL_TOKEN_NONE. */
static inline uint32_t pal_pair_bytes(const struct pal_table *table, uint32_t left, uint32_t right)
{
    return table->byte_pairs[left << 8 | right].token;
}

/* Returns the token that two tokens make, or PAL_TOKEN_NONE. At least one of them is not a byte. */
static inline uint32_t pal_pair_tokens(
        const struct pal_table *table, uint32_t left, uint32_t right)
{
    uint64_t hash = pal_pair_hash(left, right);
    uint32_t mask = (uint32_t)(UINT64_MAX >> table->pair_shift);
    uint32_t tag = pal_pair_entry(hash, 0);
    uint32_t at = (uint32_t)(hash >> table->pair_shift);
    uint32_t entry;

    if (!pal_pair_filter(table, hash))
        return PAL_TOKEN_NONE;
    while ((entry = table->pairs[at]) != 0) {
        uint32_t token = entry & PAL_PAIR_TOKEN_MASK;

        if (entry - token == tag && table->origins[token].left == left &&
                table->origins[token].right == right)
            return token;
        at = (at + 1) & mask;
    }
    return PAL_TOKEN_NONE;
}

/* Returns the token that any two tokens make, or PAL_TOKEN_NONE. */
static inline uint32_t pal_pair_find(const struct pal_table *table, uint32_t left, uint32_t right)
{
    return (left | right) < PAL_TOKEN_FIRST ? pal_pair_bytes(table, left, right)
                                            : pal_pair_tokens(table, left, right);
}

/* ---- The trie ---- */

/* A double array. A node has a base; its child for byte c, if there is one, is at base + c and has
 * the label c. No two nodes have the same base, so the label decides. A leaf has the base 0, which
 * no node with children has, so nothing is found from there on. */
struct pal_place {
    uint32_t link;  /* the label and, above its 9 bits, the base */
    uint32_t token; /* the token that ends here, or PAL_TOKEN_NONE */
};

#define PAL_TRIE_LABEL_BITS 9
#define PAL_TRIE_BASE_BITS 22
#define PAL_TRIE_FREE 511u /* the label of a free place */

static inline uint32_t pal_trie_base(const struct pal_place *place)
{
    return place->link >> PAL_TRIE_LABEL_BITS;
}

static inline uint32_t pal_trie_label(const struct pal_place *place)
{
    return place->link & ((1u << PAL_TRIE_LABEL_BITS) - 1);
}

/* Returns the base of the node of two bytes; 0: no longer token begins with them. */
static inline uint32_t pal_trie_two(
        const struct pal_place *trie, uint32_t root, unsigned first, unsigned second)
{
    const struct pal_place *place = &trie[pal_trie_base(&trie[root + first]) + second];

    return pal_trie_label(place) == second ? pal_trie_base(place) : 0;
}

/* Returns the longest token that the text begins with, and its length. The text must not be empty.
 * There is always one, because every byte is a token. */
static inline uint32_t pal_trie_longest(const struct pal_table *table, const unsigned char *p,
        const unsigned char *end, size_t *out_len)
{
    const unsigned char *q = p + 2;
    const struct pal_byte_pair *pair;
    uint32_t token = *p;
    uint32_t base;
    size_t len = 1;

    *out_len = 1;
    if (q > end)
        return token;
    pair = &table->byte_pairs[p[0] << 8 | p[1]];
    if (pair->token != PAL_TOKEN_NONE) {
        token = pair->token;
        len = 2;
    }
    for (base = pair->base; base != 0 && q < end; q++) {
        const struct pal_place *place = &table->trie[base + *q];

        if (pal_trie_label(place) != *q)
            break;
        base = pal_trie_base(place);
        if (place->token != PAL_TOKEN_NONE) {
            token = place->token;
            len = (size_t)(q - p) + 1;
        }
    }
    *out_len = len;
    return token;
}

#endif
