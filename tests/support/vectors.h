/* vectors.h - reads the files of tests/data, whose path is TEST_DATA. If the file is missing, the
 * program ends. All values are in the caller's arena. */
#ifndef PAL_TESTS_VECTORS_H
#define PAL_TESTS_VECTORS_H

#include <stdio.h>
#include <stdlib.h>
#include "base/json/json.h"
#include "support/tap.h"

#define VECTORS_FILE_MAX (1 << 20)

static inline pal_str vectors_text(pal_arena *arena, const char *folder, const char *name)
{
    char path[1024];
    char *data = pal_arena_alloc(arena, VECTORS_FILE_MAX);
    snprintf(path, sizeof path, "%s/%s/%s", TEST_DATA, folder, name);
    FILE *file = fopen(path, "rb");
    if (!CHECK(file) || !CHECK(data))
        exit(1);
    size_t len = fread(data, 1, VECTORS_FILE_MAX, file);
    fclose(file);
    return pal_str_make(data, len);
}

static inline pal_json vectors_json(pal_arena *arena, const char *folder, const char *name)
{
    pal_json value = {0};
    pal_str text = vectors_text(arena, folder, name);
    if (!CHECK_STATUS(pal_json_parse(arena, text, NULL, &value, NULL), PAL_OK))
        exit(1);
    return value;
}

static inline pal_json vectors_load(pal_arena *arena, const char *name)
{
    return vectors_json(arena, "vectors", name);
}

#endif
