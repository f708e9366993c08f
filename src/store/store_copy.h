/* store_copy.h - shared by the files that copy a store (store_copy*.c). */
#ifndef PAL_STORE_COPY_H
#define PAL_STORE_COPY_H

#include "store/store_backend.h"

/* Fails if the engine holds an incomplete copy of another store. */
PAL_CHECKED pal_status pal_copy_check_complete(pal_engine *engine, pal_error *err);

/* The internal tenant of the record that says how far a copy is. It is not copied. */
extern const pal_str pal_copy_tenant;

enum { PAL_COPY_PAGE_ITEMS = 256 };

/* Objects that were read together. They are in the arena. */
typedef struct pal_copy_page {
    pal_export_item items[PAL_COPY_PAGE_ITEMS];
    size_t len;
    bool is_last;
} pal_copy_page;

/* Reads the next objects after the place `after`. */
PAL_CHECKED pal_status pal_copy_page_read(pal_engine *engine, pal_export_kind kind, pal_str after,
        pal_arena *arena, pal_copy_page *out_page, pal_error *err);

/* The data of a session besides its rows. */
typedef struct pal_copy_details {
    pal_mark *marks;
    size_t marks_len;
    pal_inbox_item *inbox;
    size_t inbox_len;
    pal_lease lease; /* fence 0: none */
} pal_copy_details;

PAL_CHECKED pal_status pal_copy_details_read(pal_engine *engine, const pal_session_row *session,
        pal_arena *arena, pal_copy_details *out_details, pal_error *err);

/* Called for every object that was handled. */
typedef struct pal_copy_progress {
    pal_store_on_progress sink; /* may be NULL */
    void *user;
    uint64_t done, total;
} pal_copy_progress;

void pal_copy_advance(pal_copy_progress *progress, uint64_t count);

/* Reads both stores completely and compares them. PAL_CONFLICT: they differ. */
PAL_CHECKED pal_status pal_copy_verify(pal_engine *from, pal_engine *to,
        pal_copy_progress *progress, pal_copy_result *out_result, pal_error *err);

#endif
