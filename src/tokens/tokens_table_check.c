/* tokens_table_check.c - checks a table that is not trusted. It checks everything that the code
 * follows: sizes and places, tokens that are made of lower ones, prefixes that are shorter, the
 * trie token by token, and free places where searches end. After that, a wrong table can only give
 * wrong counts. */
#include "base/memory.h"
#include "tokens/tokens_table.h"

static pal_status corrupt(pal_error *err, const char *what)
{
    return pal_error_set(err, PAL_CORRUPT, "the vocabulary table is damaged: %s", what);
}

static bool head_is_good(const struct pal_encoding *head, size_t len)
{
    return memcmp(head->magic, PAL_TABLE_MAGIC, sizeof head->magic) == 0 &&
            head->version == PAL_TABLE_VERSION && head->order == PAL_TABLE_ORDER &&
            head->size == len && head->name_len > 0 && head->name_len <= PAL_TABLE_NAME_MAX &&
            head->pattern < pal_splits_len && head->tokens_len >= PAL_TOKEN_FIRST &&
            head->tokens_len < PAL_TOKENS_MAX && head->token_len_max > 0 &&
            head->token_len_max <= PAL_TOKEN_LEN_MAX && head->has_ids <= 1 && head->slots_len > 0 &&
            head->bucket_bits > 0 && head->bucket_bits <= 24 && head->pair_bits > 0 &&
            head->pair_bits <= 24 && head->trie_len > 255 &&
            head->trie_root > 0 && head->trie_root < 1u << PAL_TRIE_BASE_BITS &&
            head->trie_root + 255 < head->trie_len;
}

static bool sections_are_good(const struct pal_encoding *head)
{
    uint64_t sizes[PAL_TABLE_SECTIONS];

    pal_table_sizes(head, sizes);
    for (int i = 0; i < PAL_TABLE_SECTIONS; i++)
        if (head->offsets[i] % PAL_TABLE_ALIGN != 0 || head->offsets[i] < sizeof *head ||
                head->offsets[i] > head->size || sizes[i] > head->size - head->offsets[i])
            return false;
    return true;
}

/* Returns whether merging lower tokens can make the token. Undoing its merges must end with
 * bytes. */
static bool is_made(const struct pal_table *table, uint32_t token)
{
    return token < PAL_TOKEN_FIRST ||
            (table->origins[token].left < token && table->origins[token].right < token);
}

static bool tokens_are_good(const struct pal_table *table)
{
    uint32_t len = table->head->tokens_len;

    uint32_t at = 0;

    for (uint32_t i = 0; i < len; i++) {
        size_t bytes = pal_table_len(table, i);

        if (table->origins[i].start != at || bytes == 0 || bytes > table->token_len_max ||
                bytes > table->head->bytes_len - at)
            return false;
        if (i < PAL_TOKEN_FIRST && (bytes != 1 || table->bytes[at] != i))
            return false;
        at += (uint32_t)bytes;
    }
    return at == table->head->bytes_len;
}

/* Prefixes must become shorter, so that following them ends. They are followed like the trie
 * itself. */
static bool prefixes_are_good(const struct pal_table *table)
{
    for (uint32_t i = 0; i < table->head->tokens_len; i++) {
        uint32_t prefix = pal_table_prefix(table, i);

        if (prefix != PAL_TOKEN_NONE &&
                (prefix >= table->head->tokens_len || !is_made(table, prefix) ||
                        pal_table_len(table, prefix) >= pal_table_len(table, i)))
            return false;
    }
    return true;
}

static bool slots_are_good(const struct pal_table *table)
{
    for (uint32_t i = 0; i < table->slots_len; i++)
        if (pal_slot_token(&table->slots[i]) >= table->head->tokens_len)
            return false;
    return true;
}

/* The search for any pair must end. */
static bool pairs_are_good(const struct pal_table *table)
{
    size_t len = (size_t)1 << table->head->pair_bits;
    bool has_free = false;

    for (size_t i = 0; i < len; i++) {
        uint32_t token = table->pairs[i] & PAL_PAIR_TOKEN_MASK;

        if (table->pairs[i] == 0)
            has_free = true;
        else if (token >= table->head->tokens_len)
            return false;
    }
    return has_free;
}

/* Returns whether the token's bytes lead to a place that names this token. */
static bool trie_follow(const struct pal_table *table, uint32_t token)
{
    const unsigned char *p = table->bytes + table->origins[token].start;
    size_t len = pal_table_len(table, token);
    uint32_t base = table->head->trie_root;
    const struct pal_place *place = NULL;

    for (size_t i = 0; i < len; i++) {
        place = &table->trie[base + p[i]];
        if (pal_trie_label(place) != p[i])
            return false;
        base = pal_trie_base(place);
    }
    return place->token == token;
}

/* All bases must lead to places, and no two of them to the same ones: the trie is a tree. Nothing
 * may be found from the base 0. */
static bool bases_are_good(const struct pal_table *table, uint64_t *seen)
{
    uint32_t root = table->head->trie_root;

    seen[root / 64] |= (uint64_t)1 << root % 64;
    for (uint32_t i = 0; i < table->head->trie_len; i++) {
        uint32_t base = pal_trie_base(&table->trie[i]);

        if (pal_trie_label(&table->trie[i]) > 255)
            continue;
        if (pal_trie_label(&table->trie[i]) == i)
            return false;
        if (base == 0)
            continue;
        if (base + 255 >= table->head->trie_len || (seen[base / 64] >> base % 64 & 1))
            return false;
        seen[base / 64] |= (uint64_t)1 << base % 64;
    }
    return true;
}

/* Each place that names a token must be where the bytes of that token lead. Then a token that the
 * trie finds is always as long as the path to it. */
static bool ends_are_good(const struct pal_table *table)
{
    uint32_t ends = 0;

    for (uint32_t i = 0; i < table->head->tokens_len; i++) {
        bool is_found = trie_follow(table, i);

        if (is_found ? !is_made(table, i) : i < PAL_TOKEN_FIRST)
            return false;
        ends += is_found;
    }
    for (uint32_t i = 0; i < table->head->trie_len; i++) {
        const struct pal_place *place = &table->trie[i];

        if (pal_trie_label(place) <= 255 && place->token != PAL_TOKEN_NONE)
            ends--;
    }
    return ends == 0;
}

/* The trie must have been checked before. */
static bool byte_pairs_are_good(const struct pal_table *table)
{
    for (unsigned i = 0; i < 256 * 256; i++) {
        const struct pal_byte_pair *pair = &table->byte_pairs[i];

        if (pair->base != pal_trie_two(table->trie, table->head->trie_root, i >> 8, i & 255))
            return false;
        if (pair->token != PAL_TOKEN_NONE &&
                (pair->token >= table->head->tokens_len || !is_made(table, pair->token) ||
                        pal_table_len(table, pair->token) != 2))
            return false;
    }
    return true;
}

static pal_status trie_check(const struct pal_table *table, pal_error *err)
{
    uint64_t *seen = pal_calloc(table->head->trie_len / 64 + 1, sizeof *seen);
    bool is_good;

    if (!seen)
        return pal_no_memory(err);
    is_good = bases_are_good(table, seen) && ends_are_good(table) && byte_pairs_are_good(table);
    pal_free(seen);
    return is_good ? PAL_OK : corrupt(err, "its trie does not match its tokens");
}

static bool specials_are_good(const struct pal_table *table)
{
    for (uint32_t i = 0; i < table->head->specials_len; i++) {
        const struct pal_special *special = &table->specials[i];

        if (special->start > table->head->special_bytes_len ||
                special->len > table->head->special_bytes_len - special->start)
            return false;
    }
    return true;
}

pal_status pal_table_check(const unsigned char *data, size_t len, pal_error *err)
{
    const struct pal_encoding *head = (const struct pal_encoding *)(const void *)data;
    struct pal_table table;

    if (len < sizeof *head || !head_is_good(head, len) || !sections_are_good(head))
        return corrupt(err, "its header is not that of a table of this version");
    pal_table_view(head, &table);
    if (!tokens_are_good(&table) || !prefixes_are_good(&table))
        return corrupt(err, "its tokens are not sorted");
    if (!slots_are_good(&table) || !pairs_are_good(&table) || !specials_are_good(&table))
        return corrupt(err, "it refers to tokens that do not exist");
    return trie_check(&table, err);
}
