/* compile.c - packs a vocabulary while the library is built.
 *
 *   tokens-compile NAME PATTERN TOKENS SPECIAL OUT
 *
 * TOKENS is a file in tiktoken's format; SPECIAL is a file of names and ids, or "-" for none; OUT
 * is the pack. It links the sources it needs by themselves, since the library is not there yet. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/tokens.h"
#include "tokens/compile/compile.h"

static pal_str read_file(const char *path, pal_arena *arena)
{
    pal_str none = {NULL, 0};
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    long size = -1;

    if (!file)
        return none;
    if (fseek(file, 0, SEEK_END) == 0)
        size = ftell(file);
    if (size >= 0 && fseek(file, 0, SEEK_SET) == 0)
        data = pal_arena_alloc(arena, (size_t)size + 1);
    if (data && fread(data, 1, (size_t)size, file) != (size_t)size)
        data = NULL;
    fclose(file);
    return data ? pal_str_make(data, (size_t)size) : none;
}

static int write_file(const char *path, pal_str data)
{
    FILE *file = fopen(path, "wb");
    int is_good;

    if (!file)
        return 0;
    is_good = fwrite(data.data, 1, data.len, file) == data.len;
    return fclose(file) == 0 && is_good;
}

static int compile(char **argv, pal_arena *arena)
{
    pal_vocabulary vocabulary = {.name = pal_str_of(argv[1]), .pattern = pal_str_of(argv[2])};
    pal_str pack;
    pal_error err;

    vocabulary.tokens = read_file(argv[3], arena);
    if (!vocabulary.tokens.data) {
        fprintf(stderr, "tokens-compile: cannot read '%s'\n", argv[3]);
        return 1;
    }
    if (strcmp(argv[4], "-") != 0) {
        vocabulary.special = read_file(argv[4], arena);
        if (!vocabulary.special.data) {
            fprintf(stderr, "tokens-compile: cannot read '%s'\n", argv[4]);
            return 1;
        }
    }
    if (pal_compile_pack(&vocabulary, arena, &pack, &err) != PAL_OK) {
        fprintf(stderr, "tokens-compile: %s\n", err.message);
        return 1;
    }
    if (!write_file(argv[5], pack)) {
        fprintf(stderr, "tokens-compile: cannot write '%s'\n", argv[5]);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    pal_arena *arena;
    int status;

    if (argc != 6) {
        fprintf(stderr, "usage: tokens-compile NAME PATTERN TOKENS SPECIAL OUT\n");
        return 2;
    }
    arena = pal_arena_new(0);
    if (!arena) {
        fprintf(stderr, "tokens-compile: out of memory\n");
        return 1;
    }
    status = compile(argv, arena);
    pal_arena_free(arena);
    return status;
}
