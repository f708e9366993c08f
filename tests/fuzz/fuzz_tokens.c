/* fuzz_tokens.c - any bytes as a text, as a stream, as a vocabulary and as a table.
 *
 * The first byte chooses which of them, and the pattern. A text can be restored from its ids, has
 * the same count complete and in pieces, and can be cut to a number of tokens. Refused input has an
 * error message. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/memory.h"
#include "support/vocab_random.h"
#include "tokens/split/split.h"
#include "tokens/tokens_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) require((condition), #condition, __LINE__)

static void require(bool held, const char *text, int line)
{
    if (held)
        return;
    fprintf(stderr, "fuzz_tokens.c:%d: %s\n", line, text);
    abort();
}

/* One encoding per pattern, created once. */
static const pal_encoding *encoding_by(size_t pattern)
{
    static const pal_encoding *encodings[16];
    static pal_arena *keep;
    static vocab *words;

    if (!keep) {
        keep = pal_arena_new(0);
        words = vocab_new(3, "abcdeAB \n.'st1/", 500);
    }
    pattern %= pal_splits_len;
    if (!encodings[pattern])
        encodings[pattern] = vocab_compile(words, pal_splits[pattern].name, keep);
    REQUIRE(encodings[pattern]);
    return encodings[pattern];
}

static void try_text(const pal_encoding *encoding, pal_str text)
{
    pal_arena *arena = pal_arena_new(0);
    pal_token_ids ids;
    uint64_t count;
    pal_str back;
    size_t len;

    REQUIRE(pal_tokens_encode(encoding, text, arena, &ids, NULL) == PAL_OK);
    REQUIRE(pal_tokens_count(encoding, text, &count, NULL) == PAL_OK && count == ids.len);
    REQUIRE(pal_tokens_decode(encoding, ids.ids, ids.len, arena, &back, NULL) == PAL_OK);
    REQUIRE(pal_str_equal(back, text));
    REQUIRE(pal_tokens_cut(encoding, text, ids.len / 2, &len, NULL) == PAL_OK && len <= text.len);
    REQUIRE(pal_tokens_count(encoding, pal_str_make(text.data, len), &count, NULL) == PAL_OK);
    REQUIRE(count <= ids.len / 2);
    pal_arena_free(arena);
}

/* The first bytes of a piece give its length. */
static void try_stream(const pal_encoding *encoding, pal_str text)
{
    pal_token_stream *stream;
    uint64_t whole;
    uint64_t count;
    size_t at = 0;

    REQUIRE(pal_tokens_count(encoding, text, &whole, NULL) == PAL_OK);
    REQUIRE(pal_token_stream_new(encoding, NULL, NULL, &stream, NULL) == PAL_OK);
    while (at < text.len) {
        size_t len = 1 + (unsigned char)text.data[at] % 67u;

        len = len < text.len - at ? len : text.len - at;
        REQUIRE(pal_token_stream_feed(stream, pal_str_make(text.data + at, len), NULL) == PAL_OK);
        at += len;
    }
    REQUIRE(pal_token_stream_count(stream, &count, NULL) == PAL_OK && count == whole);
    REQUIRE(pal_token_stream_end(stream, &count, NULL) == PAL_OK && count == whole);
    pal_token_stream_free(stream);
}

/* After all the single bytes, so that the reader gets further than the first line. */
static void try_vocabulary(pal_str text)
{
    pal_arena *arena = pal_arena_new(0);
    vocab *bytes = vocab_new(1, "ab", 0);
    pal_str good = vocab_text(bytes, 1, 0, arena);
    char *tokens = pal_arena_alloc(arena, good.len + text.len + 1);
    pal_vocabulary vocabulary = {
            .name = pal_str_of("x"), .pattern = pal_str_of("gpt2"), .special = text};
    pal_str table;
    pal_error err;

    memcpy(tokens, good.data, good.len);
    memcpy(tokens + good.len, text.data, text.len);
    vocabulary.tokens = pal_str_make(tokens, good.len + text.len);
    vocabulary.special = pal_str_of("");
    if (pal_encoding_compile(&vocabulary, arena, &table, &err) == PAL_OK)
        REQUIRE(pal_table_check((const unsigned char *)table.data, table.len, &err) == PAL_OK);
    else
        REQUIRE(err.message[0]);
    vocabulary.special = text;
    vocabulary.tokens = good;
    if (pal_encoding_compile(&vocabulary, arena, &table, &err) != PAL_OK)
        REQUIRE(err.message[0]);
    free(bytes);
    pal_arena_free(arena);
}

/* A valid table with changed bytes: three input bytes give the position and the value. */
static void try_table(const unsigned char *data, size_t size)
{
    const pal_encoding *good = encoding_by(0);
    unsigned char *copy = aligned_alloc(PAL_TABLE_ALIGN,
            (good->size + PAL_TABLE_ALIGN - 1) / PAL_TABLE_ALIGN * PAL_TABLE_ALIGN);
    uint64_t count;

    memcpy(copy, good, good->size);
    for (size_t i = 0; i + 2 < size; i += 3)
        copy[((size_t)data[i] << 8 | data[i + 1]) * 7 % good->size] ^= data[i + 2];
    if (pal_table_check(copy, good->size, NULL) == PAL_OK) {
        const pal_encoding *encoding = (const pal_encoding *)(const void *)copy;

        REQUIRE(pal_tokens_count(encoding, pal_str_of("abcab'sAAB\n\n  /.11 bcdeabdeb "), &count,
                        NULL) == PAL_OK);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    switch (data[0] % 8) {
    case 0:
        try_vocabulary(pal_str_make((const char *)data + 1, size - 1));
        break;
    case 1:
        try_table(data + 1, size - 1);
        break;
    default:
        try_text(encoding_by(data[0] / 8), pal_str_make((const char *)data + 1, size - 1));
        try_stream(encoding_by(data[0] / 8), pal_str_make((const char *)data + 1, size - 1));
        break;
    }
    return 0;
}
