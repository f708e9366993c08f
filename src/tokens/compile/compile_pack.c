/* compile_pack.c - the built-in vocabularies in few bytes: about 4.5 per token, where a table has
 * 80.
 *
 * A pack is a header as that of a table, but with another magic and without sections. After it come
 * the special tokens as text, and a row of bits for each token that is not a byte, in order:
 *
 * - whether the id is that of the token before it plus one; if not, the id;
 * - whether two tokens merge into it; if so, the numbers of both, which are lower than its own, so
 *   they need as many bits as that. If not, its length and its bytes.
 *
 * Bytes need nothing, because their ids are in the header. Packs are trusted: the same build wrote
 * them. */
#include "base/memory.h"
#include "tokens/compile/compile.h"

#define ID_BITS 32
#define LEN_BITS 11

_Static_assert(PAL_TOKEN_LEN_MAX < 1u << LEN_BITS, "a length fits");

/* Returns how many bits the numbers below `end` need. */
static unsigned bits_below(uint32_t end)
{
    return 32 - (unsigned)__builtin_clz(end - 1);
}

/* ---- Writing ---- */

struct writer {
    unsigned char *bytes;
    size_t len;
    uint64_t held; /* bits that are not a byte yet, the first one lowest */
    unsigned held_len;
};

static void bits_write(struct writer *w, uint32_t value, unsigned len)
{
    w->held |= (uint64_t)value << w->held_len;
    for (w->held_len += len; w->held_len >= 8; w->held_len -= 8) {
        w->bytes[w->len++] = (unsigned char)w->held;
        w->held >>= 8;
    }
}

static void token_write(struct writer *w, const struct pal_vocab *vocab, uint32_t number)
{
    const struct pal_vocab_token *token = &vocab->tokens[number];
    bool is_next = number > PAL_TOKEN_FIRST && token->id == token[-1].id + 1;

    bits_write(w, is_next, 1);
    if (!is_next)
        bits_write(w, token->id, ID_BITS);
    bits_write(w, token->is_merged, 1);
    if (token->is_merged) {
        bits_write(w, token->left, bits_below(number));
        bits_write(w, token->right, bits_below(number));
        return;
    }
    bits_write(w, token->len, LEN_BITS);
    for (uint32_t i = 0; i < token->len; i++)
        bits_write(w, token->bytes[i], 8);
}

pal_status pal_vocab_pack(const struct pal_vocab *vocab, const struct pal_encoding *head,
        pal_str special, pal_arena *arena, pal_str *out_pack, pal_error *err)
{
    struct pal_encoding pack = *head;
    struct writer w = {0};
    size_t room = sizeof pack + special.len + 8;

    for (uint32_t i = PAL_TOKEN_FIRST; i < vocab->len; i++)
        room += 12 + (vocab->tokens[i].is_merged ? 0 : vocab->tokens[i].len);
    w.bytes = pal_arena_alloc(arena, room);
    if (!w.bytes)
        return pal_no_memory(err);
    w.len = sizeof pack;
    if (special.len > 0)
        memcpy(w.bytes + w.len, special.data, special.len);
    w.len += special.len;
    for (uint32_t i = PAL_TOKEN_FIRST; i < vocab->len; i++)
        token_write(&w, vocab, i);
    bits_write(&w, 0, 7);
    memcpy(pack.magic, PAL_PACK_MAGIC, sizeof pack.magic);
    pack.special_bytes_len = (uint32_t)special.len;
    pack.size = w.len;
    memcpy(w.bytes, &pack, sizeof pack);
    *out_pack = pal_str_make((const char *)w.bytes, w.len);
    return PAL_OK;
}

/* ---- Reading ---- */

struct reader {
    const unsigned char *next;
    uint64_t held;
    unsigned held_len;
};

static uint32_t bits_read(struct reader *r, unsigned len)
{
    uint32_t value;

    for (; r->held_len < len; r->held_len += 8)
        r->held |= (uint64_t)*r->next++ << r->held_len;
    value = (uint32_t)(r->held & (((uint64_t)1 << len) - 1));
    r->held >>= len;
    r->held_len -= len;
    return value;
}

/* Writes the bytes of the token to `bytes`. */
static void token_read(
        struct reader *r, struct pal_vocab *vocab, uint32_t number, unsigned char *bytes)
{
    struct pal_vocab_token *token = &vocab->tokens[number];

    token->id = bits_read(r, 1) ? token[-1].id + 1 : bits_read(r, ID_BITS);
    token->bytes = bytes;
    token->is_merged = bits_read(r, 1);
    if (token->is_merged) {
        const struct pal_vocab_token *left, *right;

        token->left = bits_read(r, bits_below(number));
        token->right = bits_read(r, bits_below(number));
        left = &vocab->tokens[token->left];
        right = &vocab->tokens[token->right];
        token->len = left->len + right->len;
        memcpy(bytes, left->bytes, left->len);
        memcpy(bytes + left->len, right->bytes, right->len);
        return;
    }
    token->left = token->right = number;
    token->len = bits_read(r, LEN_BITS);
    for (uint32_t i = 0; i < token->len; i++)
        bytes[i] = (unsigned char)bits_read(r, 8);
}

static pal_status unpack(const struct pal_encoding *pack, struct pal_vocab *vocab,
        pal_arena *arena, pal_error *err)
{
    const unsigned char *special = (const unsigned char *)(pack + 1);
    struct reader r = {.next = special + pack->special_bytes_len};
    unsigned char *bytes = pal_arena_alloc(arena, pack->bytes_len);

    vocab->len = pack->tokens_len;
    vocab->tokens = pal_arena_array(arena, vocab->len, sizeof vocab->tokens[0]);
    if (!bytes || !vocab->tokens)
        return pal_no_memory(err);
    for (uint32_t i = 0; i < PAL_TOKEN_FIRST; i++) {
        vocab->tokens[i] = (struct pal_vocab_token){.bytes = bytes,
                .len = 1,
                .id = pack->byte_ids[i],
                .is_merged = true,
                .left = i,
                .right = i};
        *bytes++ = (unsigned char)i;
    }
    for (uint32_t i = PAL_TOKEN_FIRST; i < vocab->len; i++) {
        token_read(&r, vocab, i, bytes);
        bytes += vocab->tokens[i].len;
    }
    return PAL_OK;
}

pal_status pal_table_unpack(
        const struct pal_encoding *pack, pal_arena *arena, pal_str *out_table, pal_error *err)
{
    pal_vocabulary vocabulary = {
            .name = pal_encoding_name(pack),
            .pattern = pal_str_of(pal_splits[pack->pattern].name),
            .special = pal_str_make((const char *)(pack + 1), pack->special_bytes_len),
    };
    struct pal_vocab vocab = {0};
    pal_arena *work = pal_arena_new(0);
    pal_status status;

    if (!work)
        return pal_no_memory(err);
    status = unpack(pack, &vocab, work, err);
    if (status == PAL_OK)
        status = pal_compile_table(&vocabulary, &vocab, work, arena, out_table, err);
    pal_arena_free(work);
    return status;
}
