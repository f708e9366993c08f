/* config_unknown.c - what to say about a key that is not in the table: the key that was probably
 * meant, here or elsewhere, or else the keys that are allowed here. */
#include "config/config_row.h"

#include <stdio.h>
#include "base/nearest.h"

#define PATH_SIZE 128
#define NAMES_MAX 100 /* bytes of a list of names, so that the error still has room for the rest */

static const pal_config_row *nearest_row(pal_str name, const pal_config_row *rows)
{
    const pal_config_row *found = NULL;
    pal_nearest nearest = pal_nearest_make(name);
    for (const pal_config_row *row = rows; row->name; row++) {
        if (pal_nearest_try(&nearest, pal_str_of(row->name)))
            found = row;
    }
    return found;
}

/* Returns whether the words of `part` are words of `text`, in this order: "url" and "base_url". */
static bool contains_words(pal_str text, pal_str part)
{
    for (size_t at = 0; at + part.len <= text.len; at++) {
        size_t end = at + part.len;
        if (memcmp(text.data + at, part.data, part.len) == 0 &&
                (at == 0 || text.data[at - 1] == '_') &&
                (end == text.len || text.data[end] == '_'))
            return part.len > 0;
    }
    return false;
}

static const pal_config_row *row_with_words(pal_str name, const pal_config_row *rows)
{
    for (const pal_config_row *row = rows; row->name; row++) {
        pal_str known = pal_str_of(row->name);
        if (contains_words(name, known) || contains_words(known, name))
            return row;
    }
    return NULL;
}

/* Compares with all keys of these sections, and writes the path of the most similar one. Keys in
 * lists have paths such as "providers[].url". */
static void nearest_path(pal_nearest *nearest, const pal_config_row *rows, const char *before,
        bool with_lists, char out_path[PATH_SIZE])
{
    for (const pal_config_row *row = rows; row->name; row++) {
        char path[PATH_SIZE];
        bool is_list = row->kind == PAL_CONFIG_LIST;
        snprintf(path, sizeof path, "%s%s%s", before, *before ? "." : "", row->name);
        if (pal_nearest_try(nearest, pal_str_of(row->name)))
            snprintf(out_path, PATH_SIZE, "%s", path);
        snprintf(path, sizeof path, "%s%s%s%s", before, *before ? "." : "", row->name,
                is_list ? "[]" : "");
        if (row->kind == PAL_CONFIG_SECTION || (is_list && with_lists))
            nearest_path(nearest, row->rows, path, with_lists, out_path);
    }
}

/* Writes "a, b and c". Returns false if the text is too long. */
static bool names_write(const pal_config_row *rows, char out_text[NAMES_MAX])
{
    size_t len = 0;
    for (const pal_config_row *row = rows; row->name && len < NAMES_MAX; row++) {
        const char *before = row == rows ? "" : row[1].name ? ", " : " and ";
        len += (size_t)snprintf(out_text + len, NAMES_MAX - len, "%s%s", before, row->name);
    }
    return len < NAMES_MAX;
}

void pal_config_unknown_hint(
        const pal_config_row *rows, pal_str name, char *out_hint, size_t size)
{
    char path[PATH_SIZE] = "";
    char names[NAMES_MAX];
    pal_nearest nearest = pal_nearest_make(name);
    const pal_config_row *row = nearest_row(name, rows);
    if (!row)
        nearest_path(&nearest, pal_config_rows, "", false, path);
    if (!row && !*path)
        row = row_with_words(name, rows);
    if (!row && !*path)
        nearest_path(&nearest, pal_config_rows, "", true, path);
    if (row)
        snprintf(out_hint, size, "did you mean '%s'?", row->name);
    else if (*path)
        snprintf(out_hint, size, "did you mean '%s'%s?", path,
                pal_str_is(name, path) ? " at the top" : "");
    else if (names_write(rows, names))
        snprintf(out_hint, size, "the keys here are %s", names);
    else
        snprintf(out_hint, size, "'palaver config example' shows all keys");
}
