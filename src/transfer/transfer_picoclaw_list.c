/* transfer_picoclaw_list.c - lists the sessions of a PicoClaw directory by the names of their
 * files. */
#include "transfer/transfer_picoclaw_internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/memory.h"

static bool ends_with(const char *name, const char *end)
{
    size_t len = strlen(name), end_len = strlen(end);
    return len >= end_len && strcmp(name + len - end_len, end) == 0;
}

static pal_picoclaw_source *find_source(
        pal_picoclaw_import *import, pal_picoclaw_listing *list, pal_str name)
{
    pal_arena *arena = import->arena;
    uintptr_t place = (uintptr_t)pal_map_find(&list->by_base, name);
    if (place)
        return &list->sources[place - 1];
    if (!pal_arena_reserve(arena, &list->sources, &list->cap, list->len + 1, sizeof *list->sources))
        return NULL;
    pal_str base = pal_arena_copy(arena, name);
    if (pal_arena_failure(arena) != PAL_OK ||
            pal_map_set(&list->by_base, base, (void *)(uintptr_t)(list->len + 1)) != PAL_OK)
        return NULL;
    list->sources[list->len] = (pal_picoclaw_source){.base = base.data ? base.data : ""};
    return &list->sources[list->len++];
}

static pal_status add_file(
        pal_picoclaw_import *import, pal_picoclaw_listing *list, const char *dir, const char *name)
{
    struct stat info;
    size_t len = strlen(name), size = strlen(dir) + len + 2;
    const char *end = ends_with(name, ".meta.json") ? ".meta.json"
            : ends_with(name, ".jsonl")             ? ".jsonl"
            : ends_with(name, ".json")              ? ".json"
                                                    : NULL;
    if (!end)
        return PAL_OK;
    char *path = pal_arena_alloc(import->arena, size);
    if (!path)
        return pal_no_memory(import->err);
    snprintf(path, size, "%s/%s", dir, name);
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return PAL_OK;
    pal_picoclaw_source *from = find_source(import, list, pal_str_make(name, len - strlen(end)));
    if (!from)
        return pal_no_memory(import->err);
    if (strcmp(end, ".meta.json") == 0)
        from->meta = path;
    else if (strcmp(end, ".jsonl") == 0)
        from->lines = path;
    else
        from->legacy = path;
    from->size += (uint64_t)info.st_size;
    list->bytes += (uint64_t)info.st_size;
    return PAL_OK;
}

static int by_base(const void *a, const void *b)
{
    return strcmp(((const pal_picoclaw_source *)a)->base, ((const pal_picoclaw_source *)b)->base);
}

pal_status pal_picoclaw_list(
        pal_picoclaw_import *import, const char *dir, pal_picoclaw_listing *list)
{
    DIR *open_dir = opendir(dir);
    pal_status status = PAL_OK;
    if (!open_dir) {
        status = errno == ENOENT ? PAL_NOT_FOUND : errno == EACCES ? PAL_DENIED : PAL_IO;
        return pal_error_set(import->err, status, "could not read the directory '%.160s': %s",
                dir, strerror(errno));
    }
    for (struct dirent *entry; status == PAL_OK && (entry = readdir(open_dir));)
        status = add_file(import, list, dir, entry->d_name);
    closedir(open_dir);
    if (list->len)
        qsort(list->sources, list->len, sizeof *list->sources, by_base);
    for (size_t i = 0; status == PAL_OK && i < list->len; i++) {
        if (pal_map_set(&list->by_base, pal_str_of(list->sources[i].base),
                    (void *)(uintptr_t)(i + 1)) != PAL_OK)
            status = pal_no_memory(import->err);
    }
    return status;
}
