/* compile.c - turns a vocabulary into a table. tokens_table.h describes its layout. */
#include "tokens/compile/compile.h"

#include "base/memory.h"

struct specials {
    struct pal_special *list;
    uint32_t len;
    char *bytes;
    uint32_t bytes_len;
    uint32_t ids_end;
};

/* Reads "name id" into the list. The name may contain spaces. */
static bool special_read(pal_str line, struct specials *out)
{
    struct pal_special *special = &out->list[out->len];
    size_t name_len = line.len;
    uint64_t id = 0;

    while (name_len > 0 && line.data[name_len - 1] >= '0' && line.data[name_len - 1] <= '9')
        name_len--;
    if (name_len < 2 || line.data[name_len - 1] != ' ' || line.len - name_len - 1 > 8)
        return false;
    for (size_t i = name_len; i < line.len; i++)
        id = id * 10 + (uint64_t)(line.data[i] - '0');
    special->id = (uint32_t)id;
    special->start = out->bytes_len;
    special->len = (uint32_t)name_len - 1;
    memcpy(out->bytes + out->bytes_len, line.data, special->len);
    out->bytes_len += special->len;
    out->ids_end = special->id >= out->ids_end ? special->id + 1 : out->ids_end;
    out->len++;
    return true;
}

static pal_status specials_read(
        struct specials *out, pal_str text, pal_arena *arena, pal_error *err)
{
    size_t lines = 1;

    for (size_t i = 0; i < text.len; i++)
        lines += text.data[i] == '\n';
    out->list = pal_arena_array(arena, lines, sizeof out->list[0]);
    out->bytes = pal_arena_alloc(arena, text.len + 1);
    if (!out->list || !out->bytes)
        return pal_no_memory(err);
    for (unsigned number = 1; text.len > 0; number++) {
        const char *end = memchr(text.data, '\n', text.len);
        pal_str line = pal_str_make(text.data, end ? (size_t)(end - text.data) : text.len);
        size_t used = line.len + (end ? 1 : 0);

        text = pal_str_make(text.data + used, text.len - used);
        if (line.len > 0 && line.data[line.len - 1] == '\r')
            line.len--;
        if (line.len > 0 && !special_read(line, out)) {
            return pal_error_set(
                    err, PAL_INVALID, "special tokens, line %u: must be a name and an id", number);
        }
    }
    return PAL_OK;
}

/* The table, and what it is made of. The sections are written in place. */
struct parts {
    const struct pal_vocab *vocab;
    const struct pal_compiled_trie *trie;
    struct pal_compiled_hash hash;
    struct specials specials;
    struct pal_token *tokens;
    struct pal_origin *origins;
    unsigned char *bytes;
    uint32_t *ids; /* NULL: each id is the token's number plus a constant */
    uint32_t *pairs;
    uint8_t *filter;
    struct pal_byte_pair *byte_pairs;
    uint32_t pair_bits;
};

/* Fills in everything except the tokens, which pairs_fill() adds. */
static void byte_pairs_begin(struct parts *parts)
{
    const struct pal_vocab *vocab = parts->vocab;

    for (unsigned i = 0; i < 256 * 256; i++) {
        parts->byte_pairs[i] = (struct pal_byte_pair){
                .token = PAL_TOKEN_NONE,
                .lowest = PAL_TOKEN_NONE,
                .base = pal_trie_two(parts->trie->places, parts->trie->root, i >> 8, i & 255),
        };
    }
    for (uint32_t i = vocab->len; i-- > PAL_TOKEN_FIRST;) {
        const unsigned char *bytes = vocab->tokens[i].bytes;

        if (vocab->tokens[i].is_merged)
            parts->byte_pairs[bytes[0] << 8 | bytes[1]].lowest = i;
    }
}

static void pairs_fill(struct parts *parts)
{
    const struct pal_vocab *vocab = parts->vocab;
    uint32_t mask = (1u << parts->pair_bits) - 1;

    for (uint32_t i = PAL_TOKEN_FIRST; i < vocab->len; i++) {
        uint32_t left = vocab->tokens[i].left;
        uint32_t right = vocab->tokens[i].right;
        uint64_t hash = pal_pair_hash(left, right);
        uint32_t at = (uint32_t)(hash >> (64 - parts->pair_bits));

        if (!vocab->tokens[i].is_merged)
            continue;
        if ((left | right) < PAL_TOKEN_FIRST) {
            parts->byte_pairs[left << 8 | right].token = i;
            continue;
        }
        parts->filter[at] |= (uint8_t)(1u << (hash & 7));
        while (parts->pairs[at] != 0)
            at = (at + 1) & mask;
        parts->pairs[at] = pal_pair_entry(hash, i);
    }
}

static void tokens_fill(struct parts *parts)
{
    const struct pal_vocab *vocab = parts->vocab;
    uint32_t at = 0;

    for (uint32_t i = 0; i < vocab->len; i++) {
        const struct pal_vocab_token *token = &vocab->tokens[i];

        parts->tokens[i].prefix =
                token->len << PAL_PREFIX_BITS | (token->prefix & PAL_PREFIX_NONE);
        parts->origins[i] = (struct pal_origin){
                .start = at, .left = token->left, .right = token->right};
        memcpy(parts->bytes + at, token->bytes, token->len);
        at += token->len;
        if (i >= PAL_TOKEN_FIRST && parts->ids)
            parts->ids[i - PAL_TOKEN_FIRST] = token->id;
    }
}

/* Returns whether each id is the token's number plus a constant. Then the ids need not be
 * written. */
static bool ids_are_even(const struct pal_vocab *vocab)
{
    for (uint32_t i = PAL_TOKEN_FIRST + 1; i < vocab->len; i++)
        if (vocab->tokens[i].id != vocab->tokens[i - 1].id + 1)
            return false;
    return true;
}

static void head_fill(
        struct pal_encoding *head, const pal_vocabulary *vocabulary, const struct parts *parts)
{
    const struct pal_vocab *vocab = parts->vocab;

    memcpy(head->magic, PAL_TABLE_MAGIC, sizeof head->magic);
    head->version = PAL_TABLE_VERSION;
    head->order = PAL_TABLE_ORDER;
    memcpy(head->name, vocabulary->name.data, vocabulary->name.len);
    head->name_len = (uint32_t)vocabulary->name.len;
    head->pattern = (uint32_t)pal_split_find(vocabulary->pattern);
    head->tokens_len = vocab->len;
    head->ids_end = parts->specials.ids_end;
    for (uint32_t i = 0; i < vocab->len; i++) {
        const struct pal_vocab_token *token = &vocab->tokens[i];

        head->ids_end = token->id >= head->ids_end ? token->id + 1 : head->ids_end;
        head->token_len_max = token->len > head->token_len_max ? token->len : head->token_len_max;
        head->bytes_len += token->len;
        if (i < PAL_TOKEN_FIRST)
            head->byte_ids[i] = token->id;
    }
    head->has_ids = !ids_are_even(vocab);
    if (!head->has_ids && vocab->len > PAL_TOKEN_FIRST)
        head->id_shift = vocab->tokens[PAL_TOKEN_FIRST].id - PAL_TOKEN_FIRST;
    head->slots_len = parts->hash.slots_len;
    head->bucket_bits = parts->hash.bucket_bits;
    head->pair_bits = parts->pair_bits;
    head->trie_len = parts->trie->len;
    head->trie_root = parts->trie->root;
    head->trie_tokens = parts->trie->tokens_len;
    head->specials_len = parts->specials.len;
    head->special_bytes_len = parts->specials.bytes_len;
}

/* Assigns the sections their offsets and returns the total size. */
static uint64_t sections_place(struct pal_encoding *head, uint64_t sizes[PAL_TABLE_SECTIONS])
{
    uint64_t at = sizeof *head;

    pal_table_sizes(head, sizes);
    for (int i = 0; i < PAL_TABLE_SECTIONS; i++) {
        at = (at + PAL_TABLE_ALIGN - 1) / PAL_TABLE_ALIGN * PAL_TABLE_ALIGN;
        head->offsets[i] = at;
        at += sizes[i];
    }
    head->size = at;
    return at;
}

/* Points the parts to the sections, and copies those that exist already. */
static void sections_begin(struct parts *parts, char *table, const struct pal_encoding *head,
        const uint64_t sizes[PAL_TABLE_SECTIONS])
{
    void *sections[PAL_TABLE_SECTIONS];

    memcpy(table, head, sizeof *head);
    for (int i = 0; i < PAL_TABLE_SECTIONS; i++)
        sections[i] = table + head->offsets[i];
    parts->hash.slots = sections[PAL_TABLE_SLOTS];
    parts->hash.displacements = sections[PAL_TABLE_DISPLACEMENTS];
    parts->tokens = sections[PAL_TABLE_TOKENS];
    parts->origins = sections[PAL_TABLE_ORIGINS];
    parts->pairs = sections[PAL_TABLE_PAIRS];
    parts->filter = sections[PAL_TABLE_FILTER];
    parts->byte_pairs = sections[PAL_TABLE_BYTE_PAIRS];
    parts->bytes = sections[PAL_TABLE_BYTES];
    parts->ids = head->has_ids ? sections[PAL_TABLE_IDS] : NULL;
    memcpy(sections[PAL_TABLE_TRIE], parts->trie->places, sizes[PAL_TABLE_TRIE]);
    memcpy(sections[PAL_TABLE_SPECIALS], parts->specials.list, sizes[PAL_TABLE_SPECIALS]);
    memcpy(sections[PAL_TABLE_SPECIAL_BYTES], parts->specials.bytes,
            sizes[PAL_TABLE_SPECIAL_BYTES]);
}

static pal_status table_make(const pal_vocabulary *vocabulary, struct parts *parts,
        pal_arena *work, pal_arena *arena, pal_str *out_table, pal_error *err)
{
    struct pal_encoding head = {0};
    uint64_t sizes[PAL_TABLE_SECTIONS];
    char *table;
    pal_status status;

    parts->pair_bits = 8;
    while ((1u << parts->pair_bits) < parts->vocab->len + parts->vocab->len / 4)
        parts->pair_bits++;
    pal_compile_hash_size(parts->vocab, &parts->hash);
    head_fill(&head, vocabulary, parts);
    table = pal_arena_alloc(arena, sections_place(&head, sizes));
    if (!table)
        return pal_no_memory(err);
    sections_begin(parts, table, &head, sizes);
    status = pal_compile_hash(parts->vocab, work, &parts->hash, err);
    if (status != PAL_OK)
        return status;
    ((struct pal_encoding *)(void *)table)->seed = parts->hash.seed;
    tokens_fill(parts);
    byte_pairs_begin(parts);
    pairs_fill(parts);
    *out_table = pal_str_make(table, (size_t)head.size);
    return pal_compile_spines(parts->vocab, work, parts->tokens, err);
}

pal_status pal_compile_table(const pal_vocabulary *vocabulary, struct pal_vocab *vocab,
        pal_arena *work, pal_arena *arena, pal_str *out_table, pal_error *err)
{
    struct pal_compiled_trie trie;
    struct parts parts = {.vocab = vocab, .trie = &trie};
    pal_status status = specials_read(&parts.specials, vocabulary->special, work, err);

    if (status == PAL_OK)
        status = pal_compile_trie(vocab, work, &trie, err);
    if (status == PAL_OK)
        status = table_make(vocabulary, &parts, work, arena, out_table, err);
    return status;
}

/* Reads a vocabulary and finds its merges, in `work`, and makes the table in `arena`. */
static pal_status compile(const pal_vocabulary *vocabulary, struct pal_vocab *vocab,
        pal_arena *work, pal_arena *arena, pal_str *out_table, pal_error *err)
{
    pal_status status;

    if (vocabulary->name.len == 0 || vocabulary->name.len > PAL_TABLE_NAME_MAX)
        return pal_error_set(err, PAL_INVALID,
                "a name of %zu bytes is not allowed", vocabulary->name.len);
    if (pal_split_find(vocabulary->pattern) == pal_splits_len) {
        return pal_error_set(
                err, PAL_INVALID, "unknown pattern '%.*s'", PAL_STR_ARG(vocabulary->pattern));
    }
    status = pal_vocab_read(vocab, vocabulary->tokens, work, err);
    if (status == PAL_OK)
        status = pal_vocab_merge(vocab, err);
    if (status == PAL_OK)
        status = pal_compile_table(vocabulary, vocab, work, arena, out_table, err);
    return status;
}

pal_status pal_encoding_compile(
        const pal_vocabulary *vocabulary, pal_arena *arena, pal_str *out_table, pal_error *err)
{
    struct pal_vocab vocab = {0};
    pal_arena *work = pal_arena_new(0);
    pal_status status;

    if (!work)
        return pal_no_memory(err);
    status = compile(vocabulary, &vocab, work, arena, out_table, err);
    pal_arena_free(work);
    return status;
}

pal_status pal_compile_pack(
        const pal_vocabulary *vocabulary, pal_arena *arena, pal_str *out_pack, pal_error *err)
{
    struct pal_vocab vocab = {0};
    pal_arena *work = pal_arena_new(0);
    pal_str table;
    pal_status status;

    if (!work)
        return pal_no_memory(err);
    status = compile(vocabulary, &vocab, work, work, &table, err);
    if (status == PAL_OK) {
        status = pal_vocab_pack(&vocab, (const struct pal_encoding *)(const void *)table.data,
                vocabulary->special, arena, out_pack, err);
    }
    pal_arena_free(work);
    return status;
}
