/* store_standing.h - which checkpoints, prunes, epochs and pins count now. A pure decision over the
 * marks of a session and of those that it was forked from. */
#ifndef PAL_STORE_STANDING_H
#define PAL_STORE_STANDING_H

#include "palaver/arena.h"
#include "store/store_backend.h"

/* The marks of one session of the chain, sorted by number, without bodies. */
typedef struct pal_standing_level {
    uint64_t handle;
    pal_mark *marks;
    size_t len;
    uint64_t below_seq; /* the message at which the next one was forked; UINT64_MAX for the last */
} pal_standing_level;

/* A mark that counts, and where its body is. */
typedef struct pal_standing_mark {
    pal_mark mark; /* number 0: none */
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

/* Decides; the levels begin with the oldest ancestor and end with the session itself. Sets `undone`
 * of their marks. What it returns lies in the arena. */
PAL_CHECKED pal_status pal_standing_decide(const pal_standing_level *levels, size_t levels_len,
        pal_arena *arena, pal_standing_marks *out_marks, pal_error *err);

/* Likewise of what is stored, with the bodies. */
PAL_CHECKED pal_status pal_standing_read(pal_engine *engine, const pal_session_row *session,
        pal_arena *arena, pal_standing *out_standing, pal_error *err);

#endif
