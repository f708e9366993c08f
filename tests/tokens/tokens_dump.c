/* tokens_dump.c - encodes texts for the tests that compare ids with other programs.
 *
 *   tokens_dump ENCODING [SEED]
 *
 * Reads texts, each after its length in four bytes (all numbers are little-endian), and writes the
 * number of ids and the ids of each text. A length of 0xffffffff ends a batch: the output is
 * flushed. With SEED the texts go through a stream, in pieces cut at random. Every text is also
 * counted and decoded; the program exits with 1 if the results disagree. Without ENCODING it lists
 * the encodings. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "palaver/arena.h"
#include "palaver/tokens.h"

#define BATCH_END UINT32_MAX
#define PIECE_MAX 40

typedef struct dump {
    const pal_encoding *encoding;
    pal_token_stream *stream; /* NULL: texts are encoded at once */
    uint32_t random;
    pal_arena *arena;
    pal_token_ids ids; /* the ids of the stream so far */
    size_t ids_max;
} dump;

static uint32_t random_below(dump *d, uint32_t limit)
{
    d->random = d->random * 1664525u + 1013904223u;
    return (d->random >> 8) % limit;
}

static bool take_ids(const uint32_t *ids, size_t len, void *user)
{
    dump *d = user;

    if (d->ids.len + len > d->ids_max)
        return false;
    memcpy(d->ids.ids + d->ids.len, ids, len * sizeof(*ids));
    d->ids.len += len;
    return true;
}

/* A text never has more ids than bytes. */
static pal_status encode_in_pieces(dump *d, pal_str text, pal_error *err)
{
    pal_status status = PAL_OK;
    uint64_t count;

    d->ids.len = 0;
    d->ids_max = text.len;
    d->ids.ids = pal_arena_array(d->arena, text.len + 1, sizeof(uint32_t));
    while (status == PAL_OK && text.len > 0) {
        size_t len = 1 + random_below(d, PIECE_MAX);

        len = len < text.len ? len : text.len;
        status = pal_token_stream_feed(d->stream, pal_str_make(text.data, len), err);
        text = pal_str_make(text.data + len, text.len - len);
    }
    if (status == PAL_OK)
        status = pal_token_stream_end(d->stream, &count, err);
    if (status == PAL_OK && count != d->ids.len)
        status = pal_error_set(err, PAL_CORRUPT, "the stream counted otherwise");
    return status;
}

static pal_status encode(dump *d, pal_str text, pal_error *err)
{
    uint64_t count = 0;
    pal_str decoded;
    pal_status status;

    if (d->stream) {
        status = encode_in_pieces(d, text, err);
    } else {
        status = pal_tokens_encode(d->encoding, text, d->arena, &d->ids, err);
    }
    if (status != PAL_OK)
        return status;
    status = pal_tokens_count(d->encoding, text, &count, err);
    if (status != PAL_OK)
        return status;
    if (count != d->ids.len)
        return pal_error_set(err, PAL_CORRUPT, "counted %llu, but encoded as %zu",
                (unsigned long long)count, d->ids.len);
    status = pal_tokens_decode(d->encoding, d->ids.ids, d->ids.len, d->arena, &decoded, err);
    if (status != PAL_OK)
        return status;
    if (!pal_str_equal(decoded, text))
        return pal_error_set(err, PAL_CORRUPT, "decoded to something else");
    return PAL_OK;
}

static bool write_ids(const pal_token_ids *ids)
{
    uint32_t len = (uint32_t)ids->len;

    return fwrite(&len, sizeof(len), 1, stdout) == 1 &&
           fwrite(ids->ids, sizeof(*ids->ids), ids->len, stdout) == ids->len;
}

static int dump_texts(dump *d)
{
    uint32_t len;
    pal_error err;

    while (fread(&len, sizeof(len), 1, stdin) == 1) {
        char *text;

        if (len == BATCH_END) {
            fflush(stdout);
            continue;
        }
        pal_arena_reset(d->arena);
        text = pal_arena_alloc(d->arena, (size_t)len + 1);
        if (!text || fread(text, 1, len, stdin) != len) {
            fprintf(stderr, "tokens_dump: a text is cut off, or too long\n");
            return 1;
        }
        if (encode(d, pal_str_make(text, len), &err) != PAL_OK) {
            fprintf(stderr, "tokens_dump: %s\n", err.message);
            return 1;
        }
        if (!write_ids(&d->ids))
            return 1;
    }
    return 0;
}

static int list(void)
{
    const pal_encoding *encoding;

    for (size_t i = 0; (encoding = pal_encoding_at(i)); i++)
        printf("%.*s\n", PAL_STR_ARG(pal_encoding_name(encoding)));
    return 0;
}

int main(int argc, char **argv)
{
    dump d = {0};
    int status = 1;

    if (argc < 2)
        return list();
    d.encoding = pal_encoding_find(pal_str_of(argv[1]));
    d.arena = pal_arena_new(0);
    if (!d.encoding || !d.arena) {
        fprintf(stderr, "tokens_dump: no encoding '%s'\n", argv[1]);
        goto out;
    }
    if (argc > 2) {
        d.random = (uint32_t)strtoul(argv[2], NULL, 10);
        if (pal_token_stream_new(d.encoding, take_ids, &d, &d.stream, NULL) != PAL_OK)
            goto out;
    }
    status = dump_texts(&d);
out:
    pal_token_stream_free(d.stream);
    pal_arena_free(d.arena);
    return status;
}
