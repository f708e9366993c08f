/* turn_window_inside.h - what the turn_window*.c files share. Only for them. */
#ifndef PAL_TURN_WINDOW_INSIDE_H
#define PAL_TURN_WINDOW_INSIDE_H

#include "turn/turn_window.h"

/* Loads what is kept before the tail, which is loaded: pins, what the checkpoint keeps, the
 * question of a turn that is longer than the tail. */
PAL_CHECKED pal_status pal_window_load_kept(pal_store *store, const pal_window *window,
        pal_arena *arena, pal_window_view *view, pal_error *err);

/* Learns how the provider counts: every answer in the tail keeps how many tokens its request had by
 * our count, and how many the provider reported. */
void pal_window_calibrate(const pal_window *window, pal_window_view *view);

/* Whether the window's tools are those that the epoch began with. */
bool pal_window_same_tools(
        const pal_epoch_record *epoch, const pal_window *window, pal_arena *arena);

#endif
