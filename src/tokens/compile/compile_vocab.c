/* compile_vocab.c - reads a vocabulary and finds out how its tokens are merged. */
#include <stdlib.h>
#include "base/memory.h"
#include "base/text.h"
#include "tokens/compile/compile.h"

static uint64_t bytes_hash(const unsigned char *bytes, uint32_t len)
{
    uint64_t hash = len;

    for (uint32_t i = 0; i < len; i++) {
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
        hash ^= hash >> 29;
    }
    return hash;
}

/* Returns the number of the token with these bytes, or PAL_TOKEN_NONE. */
static uint32_t find_token(const struct pal_vocab *vocab, const unsigned char *bytes, uint32_t len)
{
    uint32_t at = (uint32_t)bytes_hash(bytes, len) & vocab->index_mask;

    for (; vocab->index[at] != 0; at = (at + 1) & vocab->index_mask) {
        const struct pal_vocab_token *token = &vocab->tokens[vocab->index[at] - 1];

        if (token->len == len && memcmp(token->bytes, bytes, len) == 0)
            return vocab->index[at] - 1;
    }
    return PAL_TOKEN_NONE;
}

/* Decodes up to the first character that is not base64. Returns the number of decoded
 * characters. */
static size_t base64_read(pal_str text, unsigned char *out, uint32_t *out_len)
{
    unsigned bits = 0;
    unsigned held = 0;
    uint32_t len = 0;
    size_t at = 0;

    for (; at < text.len && pal_text_base64(text.data[at]) >= 0; at++) {
        held = held << 6 | (unsigned)pal_text_base64(text.data[at]);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            out[len++] = (unsigned char)(held >> bits);
        }
    }
    while (at < text.len && text.data[at] == '=')
        at++;
    *out_len = len;
    return at;
}

static bool number_read(pal_str text, uint32_t *out_number)
{
    uint64_t number = 0;

    if (text.len == 0 || text.len > 9)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        number = number * 10 + (uint64_t)(text.data[i] - '0');
    }
    *out_number = (uint32_t)number;
    return true;
}

/* Removes a line from the front of the text and returns it without its end. */
static pal_str line_take(pal_str *text)
{
    const char *end = memchr(text->data, '\n', text->len);
    pal_str line = pal_str_make(text->data, end ? (size_t)(end - text->data) : text->len);
    size_t used = line.len + (end ? 1 : 0);

    *text = pal_str_make(text->data + used, text->len - used);
    if (line.len > 0 && line.data[line.len - 1] == '\r')
        line.len--;
    return line;
}

static bool token_read(pal_str line, unsigned char *bytes, struct pal_vocab_token *out)
{
    size_t used = base64_read(line, bytes, &out->len);

    out->bytes = bytes;
    return out->len > 0 && out->len <= PAL_TOKEN_LEN_MAX && used < line.len &&
            line.data[used] == ' ' &&
            number_read(pal_str_make(line.data + used + 1, line.len - used - 1), &out->id);
}

/* Single bytes come first, sorted by value, then the other tokens by id. */
static int token_order(const void *a, const void *b)
{
    const struct pal_vocab_token *x = a;
    const struct pal_vocab_token *y = b;

    if ((x->len == 1) != (y->len == 1))
        return x->len == 1 ? -1 : 1;
    if (x->len == 1 && x->bytes[0] != y->bytes[0])
        return x->bytes[0] < y->bytes[0] ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static pal_status index_make(struct pal_vocab *vocab, pal_arena *arena, pal_error *err)
{
    uint32_t size = 1024;

    while (size < vocab->len * 2)
        size *= 2;
    vocab->index = pal_arena_array(arena, size, sizeof(uint32_t));
    if (!vocab->index)
        return pal_no_memory(err);
    vocab->index_mask = size - 1;
    for (uint32_t i = 0; i < vocab->len; i++) {
        const struct pal_vocab_token *token = &vocab->tokens[i];
        uint32_t at = (uint32_t)bytes_hash(token->bytes, token->len) & vocab->index_mask;

        if (find_token(vocab, token->bytes, token->len) != PAL_TOKEN_NONE) {
            return pal_error_set(
                    err, PAL_INVALID, "line %u: duplicate token", token->line);
        }
        while (vocab->index[at] != 0)
            at = (at + 1) & vocab->index_mask;
        vocab->index[at] = i + 1;
    }
    return PAL_OK;
}

static pal_status order_check(const struct pal_vocab *vocab, pal_error *err)
{
    for (uint32_t i = 0; i < PAL_TOKEN_FIRST; i++) {
        if (i > 0 && i < vocab->len && vocab->tokens[i].len == 1 &&
                vocab->tokens[i].bytes[0] == i - 1) {
            return pal_error_set(
                    err, PAL_INVALID, "line %u: duplicate token", vocab->tokens[i].line);
        }
        if (i >= vocab->len || vocab->tokens[i].len != 1 || vocab->tokens[i].bytes[0] != i)
            return pal_error_set(err, PAL_INVALID, "the token for byte 0x%02x is missing", i);
    }
    for (uint32_t i = PAL_TOKEN_FIRST + 1; i < vocab->len; i++) {
        if (vocab->tokens[i].id == vocab->tokens[i - 1].id) {
            return pal_error_set(err, PAL_INVALID, "line %u: duplicate rank %u",
                    vocab->tokens[i].line, vocab->tokens[i].id);
        }
    }
    return PAL_OK;
}

pal_status pal_vocab_read(struct pal_vocab *vocab, pal_str text, pal_arena *arena, pal_error *err)
{
    unsigned char *bytes = pal_arena_alloc(arena, text.len + 1);
    size_t lines = 1;
    pal_status status;

    for (size_t i = 0; i < text.len; i++)
        lines += text.data[i] == '\n';
    vocab->tokens = pal_arena_array(arena, lines, sizeof vocab->tokens[0]);
    if (!bytes || !vocab->tokens)
        return pal_no_memory(err);
    vocab->len = 0;
    for (uint32_t number = 1; text.len > 0; number++) {
        pal_str line = line_take(&text);
        struct pal_vocab_token *token = &vocab->tokens[vocab->len];

        if (line.len == 0)
            continue;
        if (!token_read(line, bytes, token))
            return pal_error_set(
                    err, PAL_INVALID, "line %u: a token and its rank are needed", number);
        token->line = number;
        bytes += token->len;
        if (++vocab->len >= PAL_TOKENS_MAX)
            return pal_error_set(err, PAL_LIMIT,
                    "the vocabulary has more than %u tokens", PAL_TOKENS_MAX);
    }
    qsort(vocab->tokens, vocab->len, sizeof vocab->tokens[0], token_order);
    status = order_check(vocab, err);
    return status == PAL_OK ? index_make(vocab, arena, err) : status;
}

/* Returns the rank of the token that the two parts at `at` make, or PAL_TOKEN_NONE. */
static uint32_t pair_rank(
        const struct pal_vocab *vocab, const unsigned char *bytes, const uint32_t *ends, size_t at)
{
    uint32_t start = at > 0 ? ends[at - 1] : 0;

    return find_token(vocab, bytes + start, ends[at + 1] - start);
}

/* Merges the bytes the slow way with all tokens that rank below `limit`. Writes the ends of the
 * parts. */
static size_t merge_slowly(const struct pal_vocab *vocab, const unsigned char *bytes, uint32_t len,
        uint32_t limit, uint32_t *ends)
{
    size_t parts = len;

    for (uint32_t i = 0; i < len; i++)
        ends[i] = i + 1;
    while (parts > 1) {
        uint32_t best = PAL_TOKEN_NONE;
        size_t best_at = 0;

        for (size_t i = 0; i + 1 < parts; i++) {
            uint32_t rank = pair_rank(vocab, bytes, ends, i);

            if (rank < best) {
                best = rank;
                best_at = i;
            }
        }
        if (best >= limit)
            break;
        memmove(&ends[best_at], &ends[best_at + 1], (parts - best_at - 1) * sizeof ends[0]);
        parts--;
    }
    return parts;
}

pal_status pal_vocab_merge(struct pal_vocab *vocab, pal_error *err)
{
    uint32_t ends[PAL_TOKEN_LEN_MAX];

    for (uint32_t i = 0; i < vocab->len; i++) {
        struct pal_vocab_token *token = &vocab->tokens[i];
        size_t parts = merge_slowly(vocab, token->bytes, token->len, i, ends);

        token->left = i;
        token->right = i;
        token->is_merged = parts == 2 || token->len == 1;
        if (parts == 2) {
            token->left = find_token(vocab, token->bytes, ends[0]);
            token->right = find_token(vocab, token->bytes + ends[0], token->len - ends[0]);
        } else if (parts > 2 &&
                merge_slowly(vocab, token->bytes, token->len, PAL_TOKEN_NONE, ends) == 1) {
            /* The linear method requires that the parts of a token rank before the token. */
            return pal_error_set(
                    err, PAL_INVALID,
                    "line %u: the token is made of parts that rank after it", token->line);
        }
    }
    return PAL_OK;
}
