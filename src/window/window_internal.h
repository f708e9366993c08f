/* window_internal.h - functions that the window*.c files share. Only for them. */
#ifndef PAL_WINDOW_INTERNAL_H
#define PAL_WINDOW_INTERNAL_H

#include "base/buf.h"
#include "window/window_load.h"

/* Loads the kept messages before the tail, which must be loaded: pins, the messages that the
 * checkpoint keeps, and the question of a turn that is longer than the tail. */
PAL_CHECKED pal_status pal_window_load_kept(const pal_snapshot *snapshot, pal_arena *arena,
        pal_window_view *view, pal_error *err);

/* Learns how the provider counts. Every answer in the tail has the tokens of its request by our
 * count, and the number that the provider reported. */
void pal_window_calibrate(const pal_window *window, pal_window_view *view);

/* Returns true if the window's tools are those that the epoch began with. */
bool pal_window_same_tools(
        const pal_epoch_record *epoch, const pal_window *window, pal_arena *arena);

/* Sets the notes that are sent, with the loaded messages and the epoch of the view. If new notes
 * have to begin the request, the epoch is not kept. */
PAL_CHECKED pal_status pal_window_notes(pal_store *store, const pal_window *window,
        const pal_session *session, pal_arena *arena, pal_window_view *view, pal_error *err);

/* ---- window_recall.c: finds messages that the model does not see any more ---- */

typedef struct pal_recall {
    pal_store *store;
    pal_str tenant;
    pal_id session;
    pal_str text;     /* the search text, as in pal_search_query.text */
    size_t limit;     /* maximum number of messages that are shown */
    size_t bytes_max; /* approximate maximum size of the output */
} pal_recall;

/* Appends the hidden messages that contain all the words, each with the text around them. */
PAL_CHECKED pal_status pal_recall_run(
        const pal_recall *recall, pal_arena *arena, pal_buf *out, pal_error *err);

#endif
