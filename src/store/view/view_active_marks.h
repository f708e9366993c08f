/* view_active_marks.h - which checkpoints, prunes, epochs and pins are in effect. The decision is a
 * pure function of the marks of a session and of its ancestors; view_marks.c implements it. */
#ifndef PAL_VIEW_ACTIVE_MARKS_H
#define PAL_VIEW_ACTIVE_MARKS_H

#include "palaver/arena.h"
#include "store/store_backend.h"

/* The marks of one session of the chain, sorted by number, without bodies. */
typedef struct pal_marks_level {
    pal_handle handle;
    pal_mark *marks;
    size_t len;
    uint64_t below_seq; /* the message at which the next level was forked; UINT64_MAX for the last
                           level */
} pal_marks_level;

/* A mark that is in effect, and the handle of the session that has its body. */
typedef struct pal_owned_mark {
    pal_mark mark; /* number 0: no such mark */
    pal_handle handle;
} pal_owned_mark;

typedef struct pal_owned_marks {
    pal_owned_mark checkpoint;
    pal_owned_mark epoch;
    pal_owned_mark *prunes; /* oldest first */
    size_t prunes_len;
    uint64_t *pins; /* ascending */
    size_t pins_len;
} pal_owned_marks;

/* Decides which marks are in effect. The levels begin with the oldest ancestor and end with the
 * session itself. Sets `undone` of their marks. The result is in the arena. */
PAL_CHECKED pal_status pal_active_marks_decide(const pal_marks_level *levels, size_t levels_len,
        pal_arena *arena, pal_owned_marks *out_marks, pal_error *err);

/* Reads the marks of a session and decides in the same way. The result includes the bodies. Sets
 * *out_hides_nothing if no mark of the session itself decides which messages are visible. */
PAL_CHECKED pal_status pal_active_marks_read(pal_engine *engine, const pal_session_row *session,
        pal_arena *arena, pal_active_marks *out_active, bool *out_hides_nothing, pal_error *err);

#endif
