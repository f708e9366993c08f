/* tokens_table.c - makes and opens tables, and looks up words, ids and texts. Built-in tables are
 * trusted, because the same build made their packs. */
#include "tokens/tokens_table.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/memory.h"
#include "tokens/tokens_builtin.h"

#define PART(n) (((uint64_t)1 << (n) % 8 * 8) - 1)
#define LEN(n) ((uint64_t)(n) << PAL_SLOT_LEN_SHIFT)
#define MASK(n)                                                                                    \
    {                                                                                              \
        (n)<8 ? PART(n) : UINT64_MAX, (n)> 8 ? PART(n) : 0, LEN(n), 0                              \
    }
#define LONG                                                                                       \
    {                                                                                              \
        0, 0, LEN(PAL_SLOT_NONE), 0                                                                \
    }
#define LONGS LONG, LONG, LONG, LONG, LONG, LONG, LONG, LONG, LONG, LONG, LONG, LONG, LONG

const struct pal_key_mask pal_key_masks[PAL_SPLIT_WINDOW + 1] = {
        {0, 0, 0, 0},
        MASK(1),
        MASK(2),
        MASK(3),
        MASK(4),
        MASK(5),
        MASK(6),
        MASK(7),
        MASK(8),
        MASK(9),
        MASK(10),
        MASK(11),
        MASK(12),
        LONGS,
        LONGS,
        LONGS,
        LONGS,
};

static const void *section(const struct pal_encoding *head, enum pal_table_section which)
{
    return (const char *)head + head->offsets[which];
}

void pal_table_sizes(const struct pal_encoding *head, uint64_t out_sizes[PAL_TABLE_SECTIONS])
{
    uint64_t ids_len = head->has_ids ? (uint64_t)head->tokens_len - PAL_TOKEN_FIRST : 0;

    out_sizes[PAL_TABLE_SLOTS] = (uint64_t)head->slots_len * sizeof(struct pal_slot);
    out_sizes[PAL_TABLE_DISPLACEMENTS] = ((uint64_t)1 << head->bucket_bits) * sizeof(uint16_t);
    out_sizes[PAL_TABLE_TOKENS] = (uint64_t)head->tokens_len * sizeof(struct pal_token);
    out_sizes[PAL_TABLE_ORIGINS] = (uint64_t)head->tokens_len * sizeof(struct pal_origin);
    out_sizes[PAL_TABLE_PAIRS] = ((uint64_t)1 << head->pair_bits) * sizeof(uint32_t);
    out_sizes[PAL_TABLE_FILTER] = (uint64_t)1 << head->pair_bits;
    out_sizes[PAL_TABLE_BYTE_PAIRS] = 256 * 256 * sizeof(struct pal_byte_pair);
    out_sizes[PAL_TABLE_TRIE] = (uint64_t)head->trie_len * sizeof(struct pal_place);
    out_sizes[PAL_TABLE_BYTES] = head->bytes_len;
    out_sizes[PAL_TABLE_IDS] = ids_len * sizeof(uint32_t);
    out_sizes[PAL_TABLE_SPECIALS] = (uint64_t)head->specials_len * sizeof(struct pal_special);
    out_sizes[PAL_TABLE_SPECIAL_BYTES] = head->special_bytes_len;
}

void pal_table_view(const struct pal_encoding *head, struct pal_table *out_table)
{
    struct pal_table *t = out_table;

    t->head = head;
    t->split = &pal_splits[head->pattern];
    t->slots = section(head, PAL_TABLE_SLOTS);
    t->displacements = section(head, PAL_TABLE_DISPLACEMENTS);
    t->tokens = section(head, PAL_TABLE_TOKENS);
    t->origins = section(head, PAL_TABLE_ORIGINS);
    t->pairs = section(head, PAL_TABLE_PAIRS);
    t->filter = section(head, PAL_TABLE_FILTER);
    t->byte_pairs = section(head, PAL_TABLE_BYTE_PAIRS);
    t->trie = section(head, PAL_TABLE_TRIE);
    t->bytes = section(head, PAL_TABLE_BYTES);
    t->ids = head->has_ids ? section(head, PAL_TABLE_IDS) : NULL;
    t->specials = section(head, PAL_TABLE_SPECIALS);
    t->special_bytes = section(head, PAL_TABLE_SPECIAL_BYTES);
    t->seed = head->seed;
    t->slots_len = head->slots_len;
    t->token_len_max = head->token_len_max;
    t->bucket_shift = 64 - head->bucket_bits;
    t->pair_shift = 64 - head->pair_bits;
}

struct pal_slot pal_table_key_any(const unsigned char *p, size_t len)
{
    unsigned char word[16] = {0};
    struct pal_slot key;
    uint64_t hash = len;
    size_t at;

    if (len <= PAL_SLOT_LEN_MAX) {
        memcpy(word, p, len);
        return pal_table_key(word, len);
    }
    for (at = 0; at + 8 < len; at += 8)
        hash = pal_table_mix(hash ^ pal_table_word(p + at), 0xe7037ed1a0b428dbu);
    key.low = pal_table_mix(hash ^ pal_table_word(p + len - 8), 0x8ebc6af09c88c6e3u);
    key.high = (uint64_t)PAL_SLOT_LONG << PAL_SLOT_LEN_SHIFT | (uint32_t)len;
    return key;
}

uint32_t pal_table_find(const struct pal_table *table, const unsigned char *p, size_t len)
{
    const struct pal_slot *slot;
    struct pal_slot key;
    uint32_t token;

    if (len > table->token_len_max)
        return PAL_TOKEN_NONE;
    key = pal_table_key_any(p, len);
    slot = pal_table_slot(table, key);
    if (!pal_slot_has(slot, key))
        return PAL_TOKEN_NONE;
    token = pal_slot_token(slot);
    if (len > PAL_SLOT_LEN_MAX &&
            (pal_table_len(table, token) != len ||
                    memcmp(table->bytes + table->origins[token].start, p, len) != 0))
        return PAL_TOKEN_NONE;
    return token;
}

static pal_str token_text(const struct pal_table *table, uint32_t token)
{
    return pal_str_make(
            (const char *)table->bytes + table->origins[token].start, pal_table_len(table, token));
}

/* Ids increase with the numbers of the tokens, except for single bytes. */
static uint32_t token_by_id(const struct pal_table *table, uint32_t id)
{
    uint32_t low = PAL_TOKEN_FIRST;
    uint32_t high = table->head->tokens_len;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (pal_table_id(table, middle) < id)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < table->head->tokens_len && pal_table_id(table, low) == id)
        return low;
    for (uint32_t byte = 0; byte < PAL_TOKEN_FIRST; byte++)
        if (table->head->byte_ids[byte] == id)
            return byte;
    return PAL_TOKEN_NONE;
}

bool pal_table_text(const struct pal_table *table, uint32_t id, pal_str *out_text)
{
    uint32_t token = token_by_id(table, id);

    if (token != PAL_TOKEN_NONE) {
        *out_text = token_text(table, token);
        return true;
    }
    for (uint32_t i = 0; i < table->head->specials_len; i++) {
        const struct pal_special *special = &table->specials[i];

        if (special->id == id) {
            *out_text =
                    pal_str_make((const char *)table->special_bytes + special->start, special->len);
            return true;
        }
    }
    return false;
}

/* ---- Built-in encodings ---- */

static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

static const pal_encoding *pack_of(const struct pal_builtin *builtin)
{
    return (const pal_encoding *)(const void *)builtin->data;
}

static pal_status make_table(
        struct pal_builtin *builtin, const pal_encoding **out_head, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    pal_str table;
    pal_status status;

    if (!arena)
        return pal_no_memory(err);
    status = pal_table_unpack(pack_of(builtin), arena, &table, err);
    if (status != PAL_OK) {
        pal_arena_free(arena);
        return status;
    }
    *out_head = (const pal_encoding *)(const void *)table.data;
    builtin->arena = arena;
    atomic_store_explicit(&builtin->table, *out_head, memory_order_release);
    return PAL_OK;
}

pal_status pal_table_ready(
        const pal_encoding *encoding, const pal_encoding **out_head, pal_error *err)
{
    struct pal_builtin *builtin = pal_builtins;
    pal_status status = PAL_OK;

    *out_head = encoding;
    if (memcmp(encoding->magic, PAL_PACK_MAGIC, sizeof encoding->magic) != 0)
        return PAL_OK;
    while (pack_of(builtin) != encoding)
        builtin++;
    *out_head = atomic_load_explicit(&builtin->table, memory_order_acquire);
    if (*out_head)
        return PAL_OK;
    pthread_mutex_lock(&making);
    *out_head = atomic_load_explicit(&builtin->table, memory_order_relaxed);
    if (!*out_head)
        status = make_table(builtin, out_head, err);
    pthread_mutex_unlock(&making);
    return status;
}

const pal_encoding *pal_encoding_at(size_t index)
{
    return index < pal_builtins_len ? pack_of(&pal_builtins[index]) : NULL;
}

const pal_encoding *pal_encoding_find(pal_str name)
{
    for (size_t i = 0; i < pal_builtins_len; i++)
        if (pal_str_is(name, pal_builtins[i].name))
            return pal_encoding_at(i);
    return NULL;
}

pal_str pal_encoding_name(const pal_encoding *encoding)
{
    return pal_str_make(encoding->name, encoding->name_len);
}

uint32_t pal_encoding_size(const pal_encoding *encoding)
{
    return encoding->ids_end;
}

pal_status pal_encoding_open(const char *path, pal_encoding **out_encoding, pal_error *err)
{
    pal_status status = PAL_OK;
    void *data = MAP_FAILED;
    struct stat info = {0};
    int file = open(path, O_RDONLY | O_CLOEXEC);

    if (file < 0) {
        return pal_error_set(err, errno == ENOENT ? PAL_NOT_FOUND : PAL_IO,
                "could not open '%s': %s",
                path, strerror(errno));
    }
    if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size <= 0) {
        status = pal_error_set(err, PAL_INVALID, "'%s' is not a vocabulary table", path);
        goto out;
    }
    data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED) {
        status = pal_error_set(err, PAL_IO, "could not map '%s': %s", path, strerror(errno));
        goto out;
    }
    status = pal_table_check(data, (size_t)info.st_size, err);
    if (status != PAL_OK) {
        munmap(data, (size_t)info.st_size);
        goto out;
    }
    *out_encoding = data;
out:
    close(file);
    return status;
}

void pal_encoding_close(pal_encoding *encoding)
{
    if (encoding)
        munmap(encoding, (size_t)encoding->size);
}
