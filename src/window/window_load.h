/* window_load.h - the data loaded for a plan, for files of turn/ that plan more than once. */
#ifndef PAL_WINDOW_LOAD_H
#define PAL_WINDOW_LOAD_H

#include "store/store_snapshot.h"
#include "window/window_record.h"

/* Messages that are read in the same round trip as the session: most tails are not longer. */
extern const pal_ahead_wants pal_window_ahead;

typedef struct pal_window_view {
    pal_context_input input; /* everything that it points to is in the arena */
    pal_active_marks active;
    pal_checkpoint_record record; /* record of the current checkpoint; number 0: none */
    pal_model model;
    const pal_sent *sent;   /* the request for the message window->at_seq; NULL: none is known */
    bool keeps_epoch;       /* the current epoch has the window's tools, and its notes are sent */
    pal_epoch_record epoch; /* record of the current epoch, or of the one that begins; without
                               system text and tools */
    uint64_t pruned_tokens; /* tokens removed by the current prunes */
    bool is_tail_all;  /* there are no messages before the tail */
    bool is_recounted; /* the stored counts are not the model's, so they were counted again */
} pal_window_view;

/* Data that the caller has found out already. Members that are NULL are found out again. */
typedef struct pal_window_known {
    const pal_snapshot *snapshot; /* a snapshot of the window's session */
    const pal_model *model;      /* the entry of window->model in window->models */
    const uint64_t *tool_tokens; /* tokens of window->tools by the model's count */
} pal_window_known;

/* Loads everything that a plan needs. `known` may be NULL. */
PAL_CHECKED pal_status pal_window_load(pal_store *store, const pal_window *window,
        const pal_window_known *known, pal_arena *arena, pal_window_view *out_view,
        pal_error *err);

/* Completes the loaded lists: tokens by the model's count, the sizes of blobs, and the flags of
 * pinned messages. */
PAL_CHECKED pal_status pal_window_finish(
        pal_store *store, const pal_window *window, pal_window_view *view, pal_error *err);

/* Changes the input so that the plan compacts even if the window is not full. */
void pal_window_force_cut(pal_context_input *input);

/* Makes the mark of an epoch that begins with this window. Its kind is PAL_MARK_NONE if none is
 * needed: the view keeps the epoch, or there are no system text, no tools and no memory. */
PAL_CHECKED pal_status pal_window_epoch_mark(const pal_window *window,
        const pal_window_view *view, pal_arena *arena, pal_mark *out_mark, pal_error *err);

/* Loads the kept messages before `tail_seq`, in ascending order: pins and `keep_seqs`, with both
 * halves of their tool calls. */
PAL_CHECKED pal_status pal_window_kept(const pal_snapshot *snapshot,
        const pal_active_marks *active, const uint64_t *keep_seqs, size_t keep_len,
        uint64_t tail_seq, pal_arena *arena, pal_message **out_kept, size_t *out_len,
        pal_error *err);

#endif
