/* store_reading.h - several looks at one session, which is found once. What is added to it later is
 * not seen: rows and marks have larger numbers than those that its record names. From any thread.
 */
#ifndef PAL_STORE_READING_H
#define PAL_STORE_READING_H

#include "store/store_backend.h"

typedef struct pal_reading {
    pal_store *store;
    pal_session_row row; /* in the arena that it was begun with */
} pal_reading;

PAL_CHECKED pal_status pal_reading_begin(pal_store *store, pal_str tenant, pal_id session,
        pal_arena *arena, pal_reading *out_reading, pal_error *err);

/* As their namesakes in palaver/store.h. */
PAL_CHECKED pal_status pal_reading_load(const pal_reading *reading, const pal_load *load,
        pal_arena *arena, pal_messages *out_messages, pal_error *err);
PAL_CHECKED pal_status pal_reading_count(const pal_reading *reading, uint64_t after_seq,
        uint64_t before_seq, uint64_t *out_count, pal_error *err);
PAL_CHECKED pal_status pal_reading_standing(
        const pal_reading *reading, pal_arena *arena, pal_standing *out_standing, pal_error *err);
PAL_CHECKED pal_status pal_reading_inbox_list(const pal_reading *reading, pal_arena *arena,
        pal_inbox_item **out_items, size_t *out_len, pal_error *err);
/* The lease as it was taken, whatever the clock says of it; without an owner: nobody has it. */
PAL_CHECKED pal_status pal_reading_lease(
        const pal_reading *reading, pal_arena *arena, pal_lease *out_lease, pal_error *err);

#endif
