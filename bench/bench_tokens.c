/* bench_tokens.c - measures how fast one core counts and encodes texts.
 *
 *   bench_tokens [--count] ENCODING FILE...
 *
 * Prints a line for each file: its bytes, its tokens, MB/s of counting, MB/s of encoding, and the
 * microseconds of the first count in this process, before anything was in memory. With --count,
 * nothing is encoded, and that speed is 0. Times are processor times. Each speed is the best of
 * several rounds, so that other work of the machine changes little. bench_tokens.mjs and
 * bench_tokens_kinds.mjs run this program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "palaver/arena.h"
#include "palaver/tokens.h"

#define ROUNDS 12
#define ROUND_US 50000

typedef struct text {
    const pal_encoding *encoding;
    pal_str bytes;
    pal_arena *arena; /* for ids; emptied after each encoding */
    uint64_t tokens;
} text;

typedef bool (*work)(text *t);

static int64_t spent_us(void)
{
    struct timespec time;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

static bool count(text *t)
{
    return pal_tokens_count(t->encoding, t->bytes, &t->tokens, NULL) == PAL_OK;
}

static bool encode(text *t)
{
    pal_token_ids ids;
    bool is_good = pal_tokens_encode(t->encoding, t->bytes, t->arena, &ids, NULL) == PAL_OK;

    pal_arena_reset(t->arena);
    return is_good && ids.len == t->tokens;
}

/* Returns MB/s; 0 if it fails. */
static double measure(text *t, work run)
{
    double best = 0;

    for (int round = 0; round < ROUNDS; round++) {
        int64_t start = spent_us(), spent;
        size_t times = 0;

        do {
            if (!run(t))
                return 0;
            times++;
            spent = spent_us() - start;
        } while (spent < ROUND_US);
        double rate = (double)t->bytes.len * (double)times / (double)spent;
        best = rate > best ? rate : best;
    }
    return best;
}

static bool read_text(const char *path, pal_arena *arena, pal_str *out_text)
{
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    long len = -1;
    bool is_good = false;

    if (!file)
        return false;
    if (fseek(file, 0, SEEK_END) == 0)
        len = ftell(file);
    if (len >= 0 && fseek(file, 0, SEEK_SET) == 0)
        data = pal_arena_alloc(arena, (size_t)len + 1);
    if (data && fread(data, 1, (size_t)len, file) == (size_t)len) {
        *out_text = pal_str_make(data, (size_t)len);
        is_good = true;
    }
    fclose(file);
    return is_good;
}

static bool bench(text *t, int64_t first_us, bool encodes)
{
    double counted, encoded = 0;

    if (!count(t))
        return false;
    counted = measure(t, count);
    if (encodes)
        encoded = measure(t, encode);
    printf("%zu %llu %.2f %.2f %lld\n", t->bytes.len, (unsigned long long)t->tokens, counted,
            encoded, (long long)first_us);
    fflush(stdout);
    return counted > 0 && (encoded > 0 || !encodes);
}

int main(int argc, char **argv)
{
    int64_t start = spent_us(), first_us;
    pal_arena *texts = pal_arena_new(0);
    text t = {.arena = pal_arena_new(0)};
    int status = 1;
    bool encodes = argc < 2 || strcmp(argv[1], "--count") != 0;

    argc -= !encodes;
    argv += !encodes;
    if (argc < 3 || !texts || !t.arena)
        goto out;
    t.encoding = pal_encoding_find(pal_str_of(argv[1]));
    t.bytes = pal_str_of("How many tokens is this?");
    if (!t.encoding || !count(&t)) {
        fprintf(stderr, "bench_tokens: this build has no '%s'\n", argv[1]);
        goto out;
    }
    first_us = spent_us() - start;
    for (int i = 2; i < argc; i++) {
        if (!read_text(argv[i], texts, &t.bytes) || !bench(&t, first_us, encodes)) {
            fprintf(stderr, "bench_tokens: '%s' failed\n", argv[i]);
            goto out;
        }
    }
    status = 0;
out:
    pal_arena_free(t.arena);
    pal_arena_free(texts);
    return status;
}
