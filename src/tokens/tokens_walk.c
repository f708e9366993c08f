/* tokens_walk.c - the loop that all texts go through. ASCII, and bytes that are not characters, are
 * cut into pieces 64 bytes at a time. The scanner handles everything else, and what the window
 * cannot decide. */
#include "tokens/tokens_walk.h"
#include "base/memory.h"

/* The length of a window, plus the bytes that a key at its last byte reads. */
#define READABLE (PAL_SPLIT_WINDOW + 16)

/* Shorter words are merged faster than they are found in the cache. */
#define WORD_LEN_MIN 4

void pal_walk_init(struct pal_walk *walk, const pal_encoding *encoding,
        pal_token_stream_on_ids sink, void *user)
{
    pal_table_view(encoding, &walk->table);
    walk->count = 0;
    walk->sink = sink;
    walk->user = user;
    walk->ids_len = 0;
    walk->failure = PAL_OK;
    walk->cache = NULL;
    pal_merge_init(&walk->merge);
}

void pal_walk_done(struct pal_walk *walk)
{
    pal_merge_done(&walk->merge);
    pal_free(walk->cache);
}

void pal_walk_flush(struct pal_walk *walk)
{
    if (walk->ids_len > 0 && walk->failure == PAL_OK &&
            !walk->sink(walk->ids, walk->ids_len, walk->user))
        walk->failure = PAL_CANCELED;
    walk->ids_len = 0;
}

static inline void put_token(struct pal_walk *walk, uint32_t token)
{
    if (walk->ids_len == PAL_WALK_IDS)
        pal_walk_flush(walk);
    walk->ids[walk->ids_len++] = pal_table_id(&walk->table, token);
}

static void put_tokens(struct pal_walk *walk, const uint32_t *tokens, size_t tokens_len)
{
    walk->count += tokens_len;
    for (size_t i = 0; walk->sink && i < tokens_len; i++)
        put_token(walk, tokens[i]);
}

size_t pal_walk_front(struct pal_walk *walk, const unsigned char *p, size_t len)
{
    size_t taken = 0;
    size_t front;

    if (!pal_merge_fit(&walk->merge, len))
        walk->failure = PAL_NO_MEMORY;
    while (walk->failure == PAL_OK && len - taken >= walk->merge.window) {
        size_t tokens_len =
                pal_merge_front(&walk->table, &walk->merge, p + taken, walk->merge.window, &front);

        put_tokens(walk, walk->merge.tokens, tokens_len);
        taken += front;
        if (front == 0 && !pal_merge_grow(&walk->merge))
            walk->failure = PAL_NO_MEMORY;
    }
    return taken;
}

/* Writes the tokens of a piece, which must fit the window, to walk->merge. Returns their number. */
static size_t piece_tokens(
        struct pal_walk *walk, const unsigned char *p, size_t len, bool may_be_token)
{
    uint32_t token = may_be_token ? pal_table_find(&walk->table, p, len) : PAL_TOKEN_NONE;

    if (token != PAL_TOKEN_NONE) {
        walk->merge.tokens[0] = token;
        return 1;
    }
    return pal_merge_all(&walk->table, &walk->merge, p, len);
}

/* Counts a piece that may be in the cache. */
static void put_known(struct pal_walk *walk, const unsigned char *p, size_t len, bool may_be_token)
{
    uint64_t hash = pal_table_hash(walk->table.seed, pal_table_key_any(p, len));
    struct pal_walk_word *word = &walk->cache->words[(hash >> 32) % PAL_WALK_WORDS];
    size_t tokens_len;

    if (word->len == len && memcmp(word->bytes, p, len) == 0) {
        put_tokens(walk, word->tokens, word->tokens_len);
        return;
    }
    tokens_len = piece_tokens(walk, p, len, may_be_token);
    put_tokens(walk, walk->merge.tokens, tokens_len);
    if (tokens_len <= PAL_WALK_WORD_TOKENS_MAX) {
        word->len = (uint8_t)len;
        word->tokens_len = (uint8_t)tokens_len;
        memcpy(word->tokens, walk->merge.tokens, tokens_len * sizeof word->tokens[0]);
        memcpy(word->bytes, p, len);
    }
}

void pal_walk_rest(struct pal_walk *walk, const unsigned char *p, size_t len)
{
    size_t taken = len > walk->merge.window ? pal_walk_front(walk, p, len) : 0;

    if (walk->failure == PAL_OK && taken < len) {
        put_tokens(walk, walk->merge.tokens,
                pal_merge_all(&walk->table, &walk->merge, p + taken, len - taken));
    }
}

static void put_piece(struct pal_walk *walk, const unsigned char *p, size_t len, bool may_be_token)
{
    if (len >= WORD_LEN_MIN && len <= PAL_WALK_WORD_LEN_MAX && walk->cache)
        put_known(walk, p, len, may_be_token);
    else if (len <= walk->merge.window)
        put_tokens(walk, walk->merge.tokens, piece_tokens(walk, p, len, may_be_token));
    else
        pal_walk_rest(walk, p, len);
}

void pal_walk_piece(struct pal_walk *walk, const unsigned char *p, size_t len)
{
    put_piece(walk, p, len, true);
}

/* Counts a piece that is not a token, unless it is too long for a slot. */
static void put_other(struct pal_walk *walk, const unsigned char *p, size_t len)
{
    put_piece(walk, p, len, len > PAL_SLOT_LEN_MAX);
}

/* Counts a piece of which 16 bytes can be read. */
static void put_word(struct pal_walk *walk, const unsigned char *p, size_t len)
{
    struct pal_slot key;
    const struct pal_slot *slot;

    if (len > PAL_SLOT_LEN_MAX) {
        put_other(walk, p, len);
        return;
    }
    key = pal_table_key(p, len);
    slot = pal_table_slot(&walk->table, key);
    if (!pal_slot_has(slot, key)) {
        put_other(walk, p, len);
        return;
    }
    walk->count++;
    if (walk->sink)
        put_token(walk, pal_slot_token(slot));
}

/* The pieces of a window that are not counted yet. */
struct pieces {
    size_t len;
    unsigned char begins[PAL_SPLIT_WINDOW];
    unsigned char lens[PAL_SPLIT_WINDOW];
};

static inline void pieces_add(struct pieces *pieces, size_t begin, size_t len, bool is_added)
{
    pieces->begins[pieces->len] = (unsigned char)begin;
    pieces->lens[pieces->len] = (unsigned char)len;
    pieces->len += is_added;
}

static inline struct pal_slot *cache_slot(struct pal_walk_cache *cache, struct pal_slot key)
{
    uint64_t hash = (key.low ^ key.high * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;

    return &cache->slots[hash >> (64 - PAL_WALK_SLOT_BITS)];
}

/* Caches a word if its value fits into the slot. */
static inline void cache_put(struct pal_walk *walk, struct pal_slot key, uint64_t value)
{
    struct pal_slot *slot = cache_slot(walk->cache, key);

    if (value >> (64 - PAL_SLOT_TOKEN_SHIFT) == 0) {
        slot->low = key.low;
        slot->high = key.high | value << PAL_SLOT_TOKEN_SHIFT;
    }
}

/* In these loops no branch depends on whether a piece is found, because that cannot be predicted.
 * They go from one bit of `starts` to the next. The last piece is not decided. */

/* Counts the pieces that are in the cache. */
static inline uint64_t count_cached(
        struct pal_walk_cache *cache, const unsigned char *p, uint64_t starts, struct pieces *left)
{
    uint64_t count = 0;
    size_t at = 0;

    for (starts &= starts - 1; starts; starts &= starts - 1) {
        size_t next = (size_t)(unsigned)__builtin_ctzll(starts);
        struct pal_slot key = pal_table_key(p + at, next - at);
        const struct pal_slot *slot = cache_slot(cache, key);
        bool is_there = pal_slot_has(slot, key);

        count += (slot->high >> PAL_SLOT_TOKEN_SHIFT) & -(uint64_t)is_there;
        pieces_add(left, at, next - at, !is_there);
        at = next;
    }
    return count;
}

static inline void find_all(uint64_t starts, struct pieces *left)
{
    size_t at = 0;

    for (starts &= starts - 1; starts; starts &= starts - 1) {
        size_t next = (size_t)(unsigned)__builtin_ctzll(starts);

        pieces_add(left, at, next - at, true);
        at = next;
    }
}

/* Counts the pieces that are tokens and removes them. Slots are rarely in the CPU cache, so all of
 * them are prefetched before the first one is used. */
static inline void count_tokens(
        struct pal_walk *walk, const unsigned char *p, struct pieces *pieces)
{
    const struct pal_slot *slots[PAL_SPLIT_WINDOW];
    size_t len = pieces->len;

    for (size_t i = 0; i < len; i++) {
        slots[i] = pal_table_slot(
                &walk->table, pal_table_key(p + pieces->begins[i], pieces->lens[i]));
        __builtin_prefetch(slots[i]);
    }
    pieces->len = 0;
    for (size_t i = 0; i < len; i++) {
        size_t begin = pieces->begins[i];
        struct pal_slot key = pal_table_key(p + begin, pieces->lens[i]);
        bool is_token = pal_slot_has(slots[i], key);

        if (walk->cache && is_token)
            cache_put(walk, key, 1);
        pieces_add(pieces, begin, pieces->lens[i], !is_token);
    }
    walk->count += len - pieces->len;
}

/* Counts all pieces of a window except the last. Returns their number of bytes. */
static size_t count_window(struct pal_walk *walk, const unsigned char *p, size_t len)
{
    uint64_t starts = pal_split_window(walk->table.split, p, len);
    struct pieces pieces;

    pieces.len = 0;
    if (walk->cache)
        walk->count += count_cached(walk->cache, p, starts, &pieces);
    else
        find_all(starts, &pieces);
    count_tokens(walk, p, &pieces);
    for (size_t i = 0; i < pieces.len; i++) {
        const unsigned char *piece = p + pieces.begins[i];
        size_t piece_len = pieces.lens[i];
        size_t tokens_len;

        if (piece_len > PAL_SLOT_LEN_MAX) {
            put_other(walk, piece, piece_len);
            continue;
        }
        tokens_len = pal_merge_all(&walk->table, &walk->merge, piece, piece_len);
        walk->count += tokens_len;
        if (walk->cache)
            cache_put(walk, pal_table_key(piece, piece_len), tokens_len);
    }
    return 63 - (size_t)__builtin_clzll(starts);
}

/* Writes the ids of cached pieces. Returns one bit for each piece that is not cached. */
static inline uint64_t ids_cached(struct pal_walk_cache *cache, const unsigned char *p,
        const struct pieces *pieces, uint32_t *ids)
{
    uint64_t missing = 0;

    for (size_t i = 0; i < pieces->len; i++) {
        struct pal_slot key = pal_table_key(p + pieces->begins[i], pieces->lens[i]);
        const struct pal_slot *slot = cache_slot(cache, key);

        ids[i] = pal_slot_token(slot);
        missing |= (uint64_t)!pal_slot_has(slot, key) << i;
    }
    return missing;
}

/* Reports the tokens of a word, and caches the word if it is a single token. */
static void put_new_word(struct pal_walk *walk, const unsigned char *p, size_t len)
{
    uint64_t before = walk->count;

    put_word(walk, p, len);
    if (walk->cache && len <= PAL_SLOT_LEN_MAX && walk->count == before + 1)
        cache_put(walk, pal_table_key(p, len), walk->ids[walk->ids_len - 1]);
}

/* Reports the ids of pieces that were in the cache. */
static inline void put_ids(struct pal_walk *walk, const uint32_t *ids, size_t len)
{
    if (walk->ids_len + len > PAL_WALK_IDS)
        pal_walk_flush(walk);
    for (size_t i = 0; i < len; i++)
        walk->ids[walk->ids_len + i] = ids[i];
    walk->ids_len += len;
    walk->count += len;
}

/* Like count_window(), but with ids. */
static size_t tell_window(struct pal_walk *walk, const unsigned char *p, size_t len)
{
    uint64_t starts = pal_split_window(walk->table.split, p, len);
    uint64_t missing = UINT64_MAX;
    uint32_t ids[PAL_SPLIT_WINDOW];
    struct pieces pieces;
    size_t i = 0;

    pieces.len = 0;
    find_all(starts, &pieces);
    if (walk->cache)
        missing = ids_cached(walk->cache, p, &pieces, ids);
    while (i < pieces.len) {
        size_t known = missing ? (size_t)__builtin_ctzll(missing) : pieces.len;

        known = known < pieces.len ? known : pieces.len;
        put_ids(walk, ids + i, known - i);
        if (known < pieces.len)
            put_new_word(walk, p + pieces.begins[known], pieces.lens[known]);
        missing &= missing - 1;
        i = known + 1;
    }
    return 63 - (size_t)__builtin_clzll(starts);
}

static inline size_t put_window(struct pal_walk *walk, const unsigned char *p, size_t len)
{
    return walk->sink ? tell_window(walk, p, len) : count_window(walk, p, len);
}

/* Near the end of the text the window is copied to a place where enough bytes can be read. */
static size_t put_last_window(struct pal_walk *walk, const unsigned char *p, size_t len)
{
    unsigned char copy[READABLE] = {0};

    memcpy(copy, p, len < READABLE ? len : READABLE);
    return put_window(walk, copy, len < PAL_SPLIT_WINDOW ? len : PAL_SPLIT_WINDOW);
}

/* Returns whether a window is worthwhile: the next eight bytes contain no character of several
 * bytes. */
static inline bool begins_window(const unsigned char *p, size_t left)
{
    uint64_t high;
    uint64_t begins;

    if (left < 8)
        return false;
    high = pal_table_word(p) & 0x8080808080808080u;
    if (high == 0)
        return true;
    begins = high & pal_table_word(p) << 1;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return (begins & (high & ~begins) >> 8) == 0;
#else
    return (begins & (high & ~begins) << 8) == 0;
#endif
}

/* A piece of two bytes is one token or two. */
static void put_two(struct pal_walk *walk, const unsigned char *p)
{
    uint32_t token = pal_pair_bytes(&walk->table, p[0], p[1]);

    if (token != PAL_TOKEN_NONE)
        put_tokens(walk, &token, 1);
    else
        put_tokens(walk, (uint32_t[]){p[0], p[1]}, 2);
}

/* Counts the next piece of the scanner. Returns 0 if the piece is not decided. */
static size_t put_next(
        struct pal_walk *walk, const unsigned char *p, const unsigned char *end, bool is_final)
{
    size_t len = pal_split_next(walk->table.split, p, end, is_final);

    if (len == 1)
        put_tokens(walk, &(uint32_t){p[0]}, 1);
    else if (len == 2)
        put_two(walk, p);
    else if (len > 0 && end - p >= 16)
        put_word(walk, p, len);
    else if (len > 0)
        pal_walk_piece(walk, p, len);
    return len;
}

size_t pal_walk_text(struct pal_walk *walk, const unsigned char *p, size_t len, bool is_final)
{
    const unsigned char *begin = p;
    const unsigned char *end = p + len;

    if (len >= PAL_WALK_CACHE_FROM && !walk->cache) {
        /* If there is no memory, counting works without a cache. */
        walk->cache = pal_calloc(1, sizeof *walk->cache);
    }
    while (p < end && walk->failure == PAL_OK) {
        size_t left = (size_t)(end - p);
        size_t got = 0;

        if (begins_window(p, left)) {
            got = left >= READABLE ? put_window(walk, p, PAL_SPLIT_WINDOW)
                                   : put_last_window(walk, p, left);
        }
        if (got == 0)
            got = put_next(walk, p, end, is_final);
        if (got == 0)
            break;
        p += got;
    }
    return (size_t)(p - begin);
}
