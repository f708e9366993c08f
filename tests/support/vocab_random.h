/* vocab_random.h - small random vocabularies for tests, and merging by its definition, which is
 * slow: merge the pair with the lowest rank, leftmost first, until no pair is left. */
#ifndef PAL_TESTS_VOCAB_RANDOM_H
#define PAL_TESTS_VOCAB_RANDOM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "palaver/arena.h"
#include "palaver/tokens.h"

#define VOCAB_MAX 900
#define VOCAB_TOKEN_MAX 24
#define VOCAB_NONE UINT16_MAX

typedef struct vocab {
    unsigned char bytes[VOCAB_MAX][VOCAB_TOKEN_MAX];
    unsigned char lens[VOCAB_MAX];
    unsigned len;
    uint16_t pairs[VOCAB_MAX][VOCAB_MAX]; /* the token that two tokens make, or VOCAB_NONE */
} vocab;

static inline uint32_t vocab_next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static inline unsigned vocab_find(const vocab *v, const unsigned char *bytes, size_t len)
{
    for (unsigned i = 0; i < v->len; i++)
        if (v->lens[i] == len && memcmp(v->bytes[i], bytes, len) == 0)
            return i;
    return VOCAB_NONE;
}

static inline void vocab_add(vocab *v, const void *bytes, size_t len)
{
    memcpy(v->bytes[v->len], bytes, len);
    v->lens[v->len++] = (unsigned char)len;
}

/* Merges one piece in place. `tokens` are its bytes at first. Returns the number of remaining
 * tokens. */
static inline size_t vocab_merge(const vocab *v, uint16_t *tokens, size_t len)
{
    for (;;) {
        unsigned best = VOCAB_NONE;
        size_t to = 0;

        for (size_t i = 0; i + 1 < len; i++)
            if (v->pairs[tokens[i]][tokens[i + 1]] < best)
                best = v->pairs[tokens[i]][tokens[i + 1]];
        if (best == VOCAB_NONE)
            return len;
        /* Merges all pairs of this rank from the left, unless a lower rank appears, which would be
         * next. */
        for (size_t i = 0; i < len; i++) {
            bool is_pair = i + 1 < len && v->pairs[tokens[i]][tokens[i + 1]] == best;

            if (to > 0 && v->pairs[tokens[to - 1]][tokens[i]] < best) {
                memmove(tokens + to, tokens + i, (len - i) * sizeof(*tokens));
                to += len - i;
                break;
            }
            tokens[to++] = is_pair ? (uint16_t)best : tokens[i];
            i += is_pair;
        }
        len = to;
    }
}

/* Adds a token and all pairs that make it. */
static inline void vocab_grow(vocab *v, const unsigned char *bytes, size_t len)
{
    vocab_add(v, bytes, len);
    for (unsigned i = 0; i < v->len; i++) {
        size_t left = v->lens[i];

        if (left >= len || memcmp(v->bytes[i], bytes, left) != 0)
            continue;
        for (unsigned j = 0; j < v->len; j++)
            if (v->lens[j] == len - left && memcmp(v->bytes[j], bytes + left, len - left) == 0)
                v->pairs[i][j] = (uint16_t)(v->len - 1);
    }
}

static inline size_t vocab_parts(const vocab *v, const unsigned char *bytes, size_t len)
{
    uint16_t tokens[2 * VOCAB_TOKEN_MAX];

    for (size_t i = 0; i < len; i++)
        tokens[i] = bytes[i];
    return vocab_merge(v, tokens, len);
}

/* Adds all bytes, then up to `merges` tokens of bytes of the alphabet. Each of them can be merged
 * from two earlier tokens, as training finds them. Then adds some tokens that merging does not
 * produce. */
static inline vocab *vocab_new(uint64_t seed, const char *alphabet, unsigned merges)
{
    vocab *v = calloc(1, sizeof(*v));
    size_t letters = strlen(alphabet);

    memset(v->pairs, 0xff, sizeof(v->pairs));
    for (unsigned i = 0; i < 256; i++)
        vocab_add(v, &(unsigned char){(unsigned char)i}, 1);
    for (unsigned tries = 0; v->len < 256 + merges && tries < merges * 20; tries++) {
        bool is_stray = v->len >= 252 + merges;
        unsigned char both[2 * VOCAB_TOKEN_MAX];
        size_t len = 0;

        for (int side = 0; side < 2; side++) {
            uint32_t pick = vocab_next(&seed) % ((uint32_t)letters + v->len - 256);
            unsigned token =
                    pick < letters ? (unsigned char)alphabet[pick] : 256 + pick - (uint32_t)letters;

            memcpy(both + len, v->bytes[token], v->lens[token]);
            len += v->lens[token];
        }
        if (len <= VOCAB_TOKEN_MAX && (vocab_parts(v, both, len) > 2) == is_stray &&
                vocab_find(v, both, len) == VOCAB_NONE)
            vocab_grow(v, both, len);
    }
    return v;
}

/* All bytes, then these tokens, up to NULL. */
static inline vocab *vocab_of(const char *const *tokens)
{
    vocab *v = vocab_new(1, "", 0);

    for (; *tokens; tokens++)
        vocab_grow(v, (const unsigned char *)*tokens, strlen(*tokens));
    return v;
}

/* The expected ids of one piece. */
static inline size_t vocab_encode(
        const vocab *v, const unsigned char *bytes, size_t len, uint16_t *out_ids)
{
    unsigned whole = len <= VOCAB_TOKEN_MAX ? vocab_find(v, bytes, len) : VOCAB_NONE;

    if (whole != VOCAB_NONE) {
        out_ids[0] = (uint16_t)whole;
        return 1;
    }
    for (size_t i = 0; i < len; i++)
        out_ids[i] = bytes[i];
    return vocab_merge(v, out_ids, len);
}

/* In tiktoken's format, in the arena. Ids are the numbers times `id_step` plus `id_first`. */
static inline pal_str vocab_text(
        const vocab *v, unsigned id_step, unsigned id_first, pal_arena *arena)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = pal_arena_alloc(arena, v->len * (VOCAB_TOKEN_MAX * 2 + 16));
    size_t at = 0;

    for (unsigned i = 0; i < v->len; i++) {
        for (unsigned j = 0; j < v->lens[i]; j += 3) {
            unsigned left = v->lens[i] - j;
            unsigned held = (unsigned)v->bytes[i][j] << 16 |
                    (left > 1 ? (unsigned)v->bytes[i][j + 1] << 8 : 0) |
                    (left > 2 ? v->bytes[i][j + 2] : 0u);

            text[at++] = digits[held >> 18];
            text[at++] = digits[held >> 12 & 63];
            text[at++] = left > 1 ? digits[held >> 6 & 63] : '=';
            text[at++] = left > 2 ? digits[held & 63] : '=';
        }
        at += (size_t)snprintf(text + at, 16, " %u\n", i * id_step + id_first);
    }
    return pal_str_make(text, at);
}

/* The table in memory, which is used directly. NULL if the vocabulary is refused. */
static inline const pal_encoding *vocab_compile(
        const vocab *v, const char *pattern, pal_arena *arena)
{
    pal_vocabulary vocabulary = {.name = pal_str_of("test"), .pattern = pal_str_of(pattern)};
    pal_str table;
    pal_error err;

    vocabulary.tokens = vocab_text(v, 1, 0, arena);
    if (pal_encoding_compile(&vocabulary, arena, &table, &err) != PAL_OK) {
        printf("# %s\n", err.message);
        return NULL;
    }
    return (const pal_encoding *)(const void *)table.data;
}

#endif
