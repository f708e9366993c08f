/* store_snapshot.h - several reads of one session, which is looked up once. Rows and marks that are
 * added later are not seen, because their numbers are larger than those in the session's record.
 * Any thread can call these functions. */
#ifndef PAL_STORE_SNAPSHOT_H
#define PAL_STORE_SNAPSHOT_H

#include "store/store_backend.h"

typedef struct pal_snapshot {
    pal_store *store;
    pal_session_row row; /* in the arena that was given at the beginning */
    bool hides_nothing;  /* no mark of the session hides a message; known from its active marks */
} pal_snapshot;

PAL_CHECKED pal_status pal_snapshot_begin(pal_store *store, pal_str tenant, pal_id session,
        pal_arena *arena, pal_snapshot *out_snapshot, pal_error *err);

/* The same for a caller that says what it will read next. A backend on another machine then reads
 * all of it in one round trip. */
PAL_CHECKED pal_status pal_snapshot_begin_ahead(pal_store *store, pal_str tenant, pal_id session,
        const pal_ahead_wants *wants, pal_arena *arena, pal_snapshot *out_snapshot,
        pal_error *err);

/* Limits the snapshot to an earlier state: to the messages before `at_seq` and the marks that had
 * been made when the message `at_seq` was appended. 0: the present state. The marks of the
 * session with the numbers `without` do not count; the list is borrowed. Call it before the other
 * functions. PAL_INVALID if the session has never had as many messages, or no such mark. */
PAL_CHECKED pal_status pal_snapshot_go_back(pal_snapshot *snapshot, uint64_t at_seq,
        const uint64_t *without, size_t without_len, pal_arena *arena, pal_error *err);

/* Adds the messages of an append that was committed after the snapshot was begun. Returns false if
 * the snapshot does not show all of the session then, because other messages or marks were added in
 * between, or because bytes of images would be needed. The caller then begins another snapshot. */
bool pal_snapshot_advance(pal_snapshot *snapshot, const pal_op *append, pal_arena *arena);

/* The same as the functions of palaver/store.h with similar names. */
PAL_CHECKED pal_status pal_snapshot_load(const pal_snapshot *snapshot,
        const pal_message_query *load, pal_arena *arena, pal_message_page *out_messages,
        pal_error *err);
PAL_CHECKED pal_status pal_snapshot_count(const pal_snapshot *snapshot, uint64_t after_seq,
        uint64_t before_seq, uint64_t *out_count, pal_error *err);
/* Call it first: if no mark hides a message, later calls do not list the marks again. */
PAL_CHECKED pal_status pal_snapshot_active_marks(pal_snapshot *snapshot, pal_arena *arena,
        pal_active_marks *out_active, pal_error *err);
PAL_CHECKED pal_status pal_snapshot_find_client_id(const pal_snapshot *snapshot, pal_str client_id,
        pal_arena *arena, pal_message *out_message, pal_error *err);
PAL_CHECKED pal_status pal_snapshot_inbox_list(const pal_snapshot *snapshot, pal_arena *arena,
        pal_inbox_item **out_items, size_t *out_len, pal_error *err);
/* Returns the recorded lease, even if it has expired. If the owner is empty, the lease is free. */
PAL_CHECKED pal_status pal_snapshot_lease(
        const pal_snapshot *snapshot, pal_arena *arena, pal_lease *out_lease, pal_error *err);
/* Sets *out_is_repeat if an append of `given` is recognized as a repeat of `stored`: the role and
 * the content are equal. `given` may have the data of blobs that `stored` refers to. */
PAL_CHECKED pal_status pal_snapshot_is_repeat(const pal_snapshot *snapshot,
        const pal_message *stored, const pal_message *given, bool *out_is_repeat, pal_error *err);

#endif
