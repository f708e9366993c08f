/* search_block.c - a block of the search index. See search_block.h. */
#include "store/search/search_block.h"

#include <stdlib.h>

#include "base/memory.h"
#include "store/search/search_fold.h"

/* Five chunks of this length fill one page of SQLite. */
enum { CHUNK_LEN_MAX = 760, BITMAP_MIN = 100, BITMAP_LEN = PAL_BLOCK_ROWS / 8 };

#define NO_PAIR UINT32_MAX

/* ---- Bitmaps ---- */

bool pal_block_bitmap_is_empty(const pal_block_bitmap *bitmap)
{
    uint64_t any = 0;

    for (size_t i = 0; i < PAL_BLOCK_ROWS / 64; i++)
        any |= bitmap->words[i];
    return any == 0;
}

void pal_block_bitmap_and(pal_block_bitmap *bitmap, const pal_block_bitmap *other)
{
    for (size_t i = 0; i < PAL_BLOCK_ROWS / 64; i++)
        bitmap->words[i] &= other->words[i];
}

void pal_block_bitmap_or(pal_block_bitmap *bitmap, const pal_block_bitmap *other)
{
    for (size_t i = 0; i < PAL_BLOCK_ROWS / 64; i++)
        bitmap->words[i] |= other->words[i];
}

static void bitmap_bytes(const pal_block_bitmap *bitmap, unsigned char out[BITMAP_LEN])
{
    for (size_t i = 0; i < BITMAP_LEN; i++)
        out[i] = (unsigned char)(bitmap->words[i / 8] >> i % 8 * 8);
}

pal_str pal_block_bitmap_write(const pal_block_bitmap *bitmap, pal_arena *arena)
{
    unsigned char bytes[BITMAP_LEN];

    bitmap_bytes(bitmap, bytes);
    return pal_arena_copy(arena, pal_str_make((const char *)bytes, sizeof(bytes)));
}

bool pal_block_bitmap_read(pal_str bytes, pal_block_bitmap *out_bitmap)
{
    if (bytes.len != BITMAP_LEN)
        return false;
    memset(out_bitmap, 0, sizeof(*out_bitmap));
    for (size_t i = 0; i < BITMAP_LEN; i++)
        out_bitmap->words[i / 8] |= (uint64_t)(unsigned char)bytes.data[i] << i % 8 * 8;
    return true;
}

/* ---- Building ---- */

typedef struct pair {
    uint32_t next; /* the next pair of the same term */
    uint32_t row;
} pair;

typedef struct entry {
    char text[PAL_TERM_LEN_MAX];
    uint8_t len;          /* 0: the slot is free; a term is never empty */
    uint32_t first, last; /* the first and the last pair */
    uint32_t count;
} entry;

struct pal_block_builder {
    entry *entries; /* a hash table */
    size_t entries_len, entries_cap;
    pair *pairs;
    size_t pairs_len, pairs_cap;
    pal_status failure;
};

pal_block_builder *pal_block_new(void)
{
    return pal_calloc(1, sizeof(pal_block_builder));
}

void pal_block_free(pal_block_builder *builder)
{
    if (!builder)
        return;
    pal_free(builder->entries);
    pal_free(builder->pairs);
    pal_free(builder);
}

size_t pal_block_pairs(const pal_block_builder *builder)
{
    return builder->pairs_len;
}

static uint64_t hash_of(const char *text, size_t len)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 29;
}

static entry *entry_place(entry *entries, size_t cap, const char *text, size_t len)
{
    size_t at = (size_t)hash_of(text, len) & (cap - 1);

    while (entries[at].len != 0 &&
            (entries[at].len != len || memcmp(entries[at].text, text, len) != 0))
        at = (at + 1) & (cap - 1);
    return &entries[at];
}

static bool entries_grow(pal_block_builder *builder)
{
    size_t cap = builder->entries_cap ? builder->entries_cap * 2 : 4096;
    entry *grown;

    if (builder->entries_len * 2 < builder->entries_cap)
        return true;
    grown = pal_calloc(cap, sizeof(*grown));
    if (!grown)
        return false;
    for (size_t i = 0; i < builder->entries_cap; i++) {
        const entry *old = &builder->entries[i];

        if (old->len != 0)
            *entry_place(grown, cap, old->text, old->len) = *old;
    }
    pal_free(builder->entries);
    builder->entries = grown;
    builder->entries_cap = cap;
    return true;
}

void pal_block_add(pal_block_builder *builder, size_t row, pal_str term)
{
    entry *found;

    if (builder->failure || term.len == 0)
        return;
    if (!entries_grow(builder) ||
            !pal_reserve(&builder->pairs, &builder->pairs_cap, builder->pairs_len + 1,
                    sizeof(*builder->pairs))) {
        builder->failure = PAL_NO_MEMORY;
        return;
    }
    found = entry_place(builder->entries, builder->entries_cap, term.data, term.len);
    if (found->len == 0) {
        memcpy(found->text, term.data, term.len);
        found->len = (uint8_t)term.len;
        found->first = found->last = NO_PAIR;
        builder->entries_len++;
    }
    if (found->last != NO_PAIR && builder->pairs[found->last].row == row)
        return;
    builder->pairs[builder->pairs_len] = (pair){NO_PAIR, (uint32_t)row};
    if (found->last == NO_PAIR)
        found->first = (uint32_t)builder->pairs_len;
    else
        builder->pairs[found->last].next = (uint32_t)builder->pairs_len;
    found->last = (uint32_t)builder->pairs_len++;
    found->count++;
}

/* ---- Writing chunks ---- */

static void put_number(pal_buf *buf, uint32_t number)
{
    for (; number >= 0x80; number >>= 7)
        pal_buf_append_char(buf, (char)(number | 0x80));
    pal_buf_append_char(buf, (char)number);
}

static void put_rows(pal_buf *buf, const pal_block_builder *builder, const entry *of)
{
    pal_block_bitmap bitmap = {{0}};
    uint32_t before = 0;

    put_number(buf, of->count);
    for (uint32_t i = of->first; i != NO_PAIR; i = builder->pairs[i].next) {
        uint32_t row = builder->pairs[i].row;

        if (of->count < BITMAP_MIN)
            put_number(buf, row - before);
        pal_block_bitmap_set(&bitmap, row);
        before = row;
    }
    if (of->count >= BITMAP_MIN) {
        unsigned char bytes[BITMAP_LEN];

        bitmap_bytes(&bitmap, bytes);
        pal_buf_append(buf, bytes, sizeof(bytes));
    }
}

static size_t shared_len(const entry *a, const entry *b)
{
    size_t len = 0;

    while (len < a->len && len < b->len && a->text[len] == b->text[len])
        len++;
    return len;
}

static int compare_entries(const void *left, const void *right)
{
    const entry *a = *(const entry *const *)left, *b = *(const entry *const *)right;
    int order = memcmp(a->text, b->text, a->len < b->len ? a->len : b->len);

    return order != 0 ? order : (int)a->len - (int)b->len;
}

static const entry **sorted_entries(const pal_block_builder *builder, pal_arena *arena)
{
    const entry **sorted = pal_arena_array(arena, builder->entries_len + 1, sizeof(*sorted));
    size_t len = 0;

    for (size_t i = 0; sorted && i < builder->entries_cap; i++)
        if (builder->entries[i].len != 0)
            sorted[len++] = &builder->entries[i];
    if (sorted)
        qsort(sorted, len, sizeof(*sorted), compare_entries);
    return sorted;
}

/* Writes entries from *at on until the chunk is full. */
static void put_chunk(
        pal_buf *buf, const pal_block_builder *builder, const entry **sorted, size_t *at)
{
    size_t begin = *at;

    for (; *at < builder->entries_len && buf->len < CHUNK_LEN_MAX; (*at)++) {
        const entry *of = sorted[*at];
        size_t shared = *at > begin ? shared_len(sorted[*at - 1], of) : 0;

        put_number(buf, (uint32_t)shared);
        put_number(buf, (uint32_t)(of->len - shared));
        pal_buf_append(buf, of->text + shared, of->len - shared);
        put_rows(buf, builder, of);
    }
}

pal_status pal_block_finish(pal_block_builder *builder, pal_arena *arena,
        pal_block_chunk **out_chunks, size_t *out_len, pal_error *err)
{
    const entry **sorted = builder->failure ? NULL : sorted_entries(builder, arena);
    pal_block_chunk *chunks = NULL;
    size_t len = 0, cap = 0, at = 0;
    bool fits = sorted != NULL;
    pal_buf buf;

    pal_buf_init(&buf, 4 * CHUNK_LEN_MAX);
    while (fits && (at < builder->entries_len || len == 0)) {
        const entry *first = at > 0 ? sorted[at] : NULL;
        pal_block_chunk chunk = {0};

        pal_buf_clear(&buf);
        put_chunk(&buf, builder, sorted, &at);
        if (first)
            chunk.term = pal_arena_copy(arena, pal_str_make(first->text, first->len));
        chunk.data = pal_arena_copy(arena, pal_buf_str(&buf));
        fits = !buf.failure && pal_arena_reserve(arena, &chunks, &cap, len + 1, sizeof(*chunks));
        if (fits)
            chunks[len++] = chunk;
    }
    pal_buf_done(&buf);
    if (!fits || pal_arena_failure(arena))
        return pal_no_memory(err);
    *out_chunks = chunks;
    *out_len = len;
    return PAL_OK;
}

/* ---- Reading ---- */

typedef struct chunk_reader {
    const unsigned char *at;
    const unsigned char *end;
    bool damaged;
} chunk_reader;

static uint32_t take_number(chunk_reader *reader)
{
    uint32_t number = 0;

    for (unsigned shift = 0; shift < 21; shift += 7) {
        if (reader->at == reader->end)
            break;
        number |= (uint32_t)(*reader->at & 0x7f) << shift;
        if (*reader->at++ < 0x80)
            return number;
    }
    reader->damaged = true;
    return 0;
}

static void take_bitmap(chunk_reader *reader, pal_block_bitmap *rows)
{
    pal_block_bitmap bitmap;
    size_t left = (size_t)(reader->end - reader->at);

    if (left < BITMAP_LEN) {
        reader->damaged = true;
        return;
    }
    pal_block_bitmap_read(pal_str_make((const char *)reader->at, BITMAP_LEN), &bitmap);
    pal_block_bitmap_or(rows, &bitmap);
    reader->at += BITMAP_LEN;
}

static void take_rows(chunk_reader *reader, pal_block_bitmap *rows)
{
    uint32_t count = take_number(reader), row = 0;

    if (count >= BITMAP_MIN) {
        take_bitmap(reader, rows);
        return;
    }
    for (uint32_t i = 0; i < count && !reader->damaged; i++) {
        row += take_number(reader);
        if (row >= PAL_BLOCK_ROWS)
            reader->damaged = true;
        else
            pal_block_bitmap_set(rows, row);
    }
}

/* Reads the next term into `term`, which holds the term before it. Returns its length, or 0 if the
 * data is damaged. */
static size_t take_term(chunk_reader *reader, char term[PAL_TERM_LEN_MAX], size_t len_before)
{
    uint32_t shared = take_number(reader), more = take_number(reader);

    if (reader->damaged || shared > len_before || shared + more > PAL_TERM_LEN_MAX ||
            shared + more == 0 || more > (size_t)(reader->end - reader->at)) {
        reader->damaged = true;
        return 0;
    }
    memcpy(term + shared, reader->at, more);
    reader->at += more;
    return shared + more;
}

/* Skips the rows of a term. */
static void skip_rows(chunk_reader *reader)
{
    uint32_t count = take_number(reader), row = 0;

    if (count >= BITMAP_MIN && (size_t)(reader->end - reader->at) >= BITMAP_LEN) {
        reader->at += BITMAP_LEN;
        return;
    }
    reader->damaged = reader->damaged || count >= BITMAP_MIN;
    for (uint32_t i = 0; i < count && !reader->damaged; i++) {
        row += take_number(reader);
        reader->damaged = reader->damaged || row >= PAL_BLOCK_ROWS;
    }
}

static bool is_wanted(pal_str term, pal_term wanted)
{
    return (wanted.is_prefix || term.len == wanted.text.len) &&
            (wanted.stem.len == 0 || pal_fold_has_stem(term, wanted.stem));
}

bool pal_block_chunk_find(pal_str chunk, pal_term wanted, pal_block_bitmap *rows, bool *out_more)
{
    chunk_reader reader = {.at = (const unsigned char *)chunk.data,
            .end = (const unsigned char *)chunk.data + chunk.len};
    char term[PAL_TERM_LEN_MAX];
    size_t len = 0;

    *out_more = true;
    while (reader.at < reader.end && !reader.damaged && *out_more) {
        size_t common;
        int order;

        len = take_term(&reader, term, len);
        if (reader.damaged)
            break;
        common = len < wanted.text.len ? len : wanted.text.len;
        order = memcmp(term, wanted.text.data, common);
        if (order == 0 && len >= wanted.text.len && is_wanted(pal_str_make(term, len), wanted))
            take_rows(&reader, rows);
        else
            skip_rows(&reader);
        if (order > 0 || (order == 0 && len > wanted.text.len && !wanted.is_prefix))
            *out_more = false;
    }
    if (!wanted.is_prefix)
        *out_more = false;
    return !reader.damaged;
}

bool pal_block_chunk_each(pal_str chunk, pal_term_sink sink, void *user)
{
    chunk_reader reader = {.at = (const unsigned char *)chunk.data,
            .end = (const unsigned char *)chunk.data + chunk.len};
    char term[PAL_TERM_LEN_MAX];
    bool wanted = true;
    size_t len = 0;

    while (wanted && reader.at < reader.end && !reader.damaged) {
        len = take_term(&reader, term, len);
        skip_rows(&reader);
        if (!reader.damaged)
            wanted = sink((pal_term){.text = pal_str_make(term, len)}, user);
    }
    return !reader.damaged;
}
