/* page.h - serves the page: one HTML file at "/", and the files that it loads.
 *
 * tools/page_embed makes the table from src/page when Palaver is built. The HTML names the files by
 * the hash of all files. So browsers can keep the files, and a page never mixes two versions. */
#ifndef PAL_SERVER_PAGE_H
#define PAL_SERVER_PAGE_H

#include "server/server.h"

typedef struct pal_page_entry {
    const char *name; /* "app.js" or "place/usage.js"; NULL ends the table */
    const char *type; /* media type */
    const unsigned char *plain;
    const unsigned char *gzip;
    size_t plain_len;
    size_t gzip_len;
} pal_page_entry;

/* The table. The first file is the HTML. The build makes both. */
extern const pal_page_entry pal_page_entries[];
extern const char pal_page_hash[];

/* The hash in the URLs of files that are read from server.page_dir. */
#define PAL_PAGE_DIR_HASH "dir"

/* Reads a file from server.page_dir into `out`; PAL_PAGE_DIR_HASH replaces "{hash}" in it. If the
 * directory lacks the file, `out` is the built-in one. Blocks on the disk. */
PAL_CHECKED pal_status pal_page_dir_read(
        pal_str dir, const pal_page_entry *entry, pal_arena *arena, pal_str *out, pal_error *err);

/* The handlers of the routes. */
pal_status pal_page_index(pal_call *call, pal_error *err);
pal_status pal_page_file(pal_call *call, pal_error *err);

#endif
