/* turn_window.h - what was loaded for a plan, for those in turn/ that plan more than once. */
#ifndef PAL_TURN_WINDOW_H
#define PAL_TURN_WINDOW_H

#include "store/store_reading.h"
#include "turn/turn_record.h"

typedef struct pal_window_view {
    pal_context_input input; /* everything it points to lies in the arena */
    pal_standing standing;
    pal_checkpoint_record record; /* of the standing checkpoint; number 0: none */
    pal_model model;
    uint64_t pruned_tokens; /* that the standing prunes took out */
    bool is_tail_all;  /* there is nothing before the tail */
    bool is_recounted; /* stored counts are not the model's: they were made anew */
} pal_window_view;

/* Loads everything that a plan needs. `reading` is of the window's session, or NULL. */
PAL_CHECKED pal_status pal_window_load(pal_store *store, const pal_window *window,
        const pal_reading *reading, pal_arena *arena, pal_window_view *out_view, pal_error *err);

/* Puts right what was loaded into the input's lists: tokens as the model counts them, the bytes of
 * blobs, which messages are pinned. */
PAL_CHECKED pal_status pal_window_finish(
        pal_store *store, const pal_window *window, pal_window_view *view, pal_error *err);

/* The mark that pal_window_epoch() would add, and whether it is needed. */
PAL_CHECKED pal_status pal_window_epoch_mark(const pal_window *window, const pal_standing *standing,
        pal_arena *arena, pal_mark *out_mark, bool *out_needed, pal_error *err);

/* The visible message `seq`; PAL_NOT_FOUND when it is out of sight. */
PAL_CHECKED pal_status pal_window_message(pal_store *store, const pal_window *window, uint64_t seq,
        pal_arena *arena, pal_message *out_message, pal_error *err);

/* Loads what is kept before `tail_seq`: pins, and `keep_seqs`; ascending. */
PAL_CHECKED pal_status pal_window_kept(pal_store *store, const pal_window *window,
        const pal_standing *standing, const uint64_t *keep_seqs, size_t keep_len, uint64_t tail_seq,
        pal_arena *arena, pal_message **out_kept, size_t *out_len, pal_error *err);

#endif
