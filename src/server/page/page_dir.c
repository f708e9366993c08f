/* page_dir.c - reads files of the page from server.page_dir, so that a change of the page needs no
 * build. Only names in the table are read, so that no other file can be. */
#include "server/page/page.h"

#include <errno.h>
#include <stdio.h>
#include "base/buf.h"
#include "base/memory.h"

#define FILE_BYTES_MAX ((size_t)4 << 20)

static pal_status read_all(FILE *file, pal_buf *out, const char *path, pal_error *err)
{
    char piece[16384];
    size_t len;
    while ((len = fread(piece, 1, sizeof piece, file)) > 0)
        pal_buf_append(out, piece, len);
    if (ferror(file))
        return pal_error_set(err, PAL_IO, "'%s' cannot be read: %s", path, strerror(errno));
    return out->failure ? pal_error_set(err, out->failure, "'%s' is too large", path) : PAL_OK;
}

/* Copies the text, with the hash in its URLs. */
static pal_str with_hash(pal_arena *arena, pal_str text)
{
    static const char mark[] = "{hash}";
    pal_buf out;
    pal_buf_init(&out, FILE_BYTES_MAX);
    while (text.len) {
        const char *found = memmem(text.data, text.len, mark, sizeof mark - 1);
        size_t len = found ? (size_t)(found - text.data) : text.len;
        pal_buf_append(&out, text.data, len);
        if (found)
            pal_buf_append_text(&out, PAL_PAGE_DIR_HASH);
        len += found ? sizeof mark - 1 : 0;
        text = pal_str_make(text.data + len, text.len - len);
    }
    pal_str copy = pal_arena_copy(arena, pal_buf_str(&out));
    pal_buf_done(&out);
    return copy;
}

static pal_str built_in(const pal_page_entry *entry)
{
    return pal_str_make((const char *)entry->plain, entry->plain_len);
}

pal_status pal_page_dir_read(
        pal_str dir, const pal_page_entry *entry, pal_arena *arena, pal_str *out, pal_error *err)
{
    pal_buf text;
    char path[PAL_ROUTE_ID_LEN_MAX + 80];
    snprintf(path, sizeof path, "%.*s/%s", PAL_STR_ARG(dir), entry->name);
    FILE *file = fopen(path, "re");
    if (!file && errno != ENOENT)
        return pal_error_set(err, PAL_IO, "'%s' cannot be read: %s", path, strerror(errno));
    if (!file) {
        *out = built_in(entry);
        return PAL_OK;
    }
    pal_buf_init(&text, FILE_BYTES_MAX);
    pal_status status = read_all(file, &text, path, err);
    fclose(file);
    if (status == PAL_OK)
        *out = with_hash(arena, pal_buf_str(&text));
    pal_buf_done(&text);
    return status == PAL_OK ? pal_arena_checked(arena, err) : status;
}
