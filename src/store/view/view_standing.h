/* view_standing.h - which checkpoints, prunes, epochs and pins are in effect. The decision is a
 * pure function of the marks of a session and of its ancestors. */
#ifndef PAL_VIEW_STANDING_H
#define PAL_VIEW_STANDING_H

#include "palaver/arena.h"
#include "store/store_backend.h"

/* The marks of one session of the chain, sorted by number, without bodies. */
typedef struct pal_standing_level {
    uint64_t handle;
    pal_mark *marks;
    size_t len;
    uint64_t below_seq; /* the message at which the next level was forked; UINT64_MAX for the last
                           level */
} pal_standing_level;

/* A mark that is in effect, and the handle of the session that has its body. */
typedef struct pal_standing_mark {
    pal_mark mark; /* number 0: no such mark */
    uint64_t handle;
} pal_standing_mark;

typedef struct pal_standing_marks {
    pal_standing_mark checkpoint;
    pal_standing_mark epoch;
    pal_standing_mark *prunes; /* oldest first */
    size_t prunes_len;
    uint64_t *pins; /* ascending */
    size_t pins_len;
} pal_standing_marks;

/* Decides which marks are in effect. The levels begin with the oldest ancestor and end with the
 * session itself. Sets `undone` of their marks. The result is in the arena. */
PAL_CHECKED pal_status pal_standing_decide(const pal_standing_level *levels, size_t levels_len,
        pal_arena *arena, pal_standing_marks *out_marks, pal_error *err);

/* Reads the marks of a session and decides in the same way. The result includes the bodies. */
PAL_CHECKED pal_status pal_standing_read(pal_engine *engine, const pal_session_row *session,
        pal_arena *arena, pal_standing *out_standing, pal_error *err);

#endif
