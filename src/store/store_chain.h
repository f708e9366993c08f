/* store_chain.h - who owns the rows that a session shows: itself, and its parents for what it
 * shares with them. */
#ifndef PAL_STORE_CHAIN_H
#define PAL_STORE_CHAIN_H

#include "store/store_backend.h"
#include "store/store_marks.h"

/* Where a walk up the ancestry stands: `row` owns the seqs row.fork_seq + 1 to `last_seq`. */
typedef struct pal_chain_level {
    pal_session_row row;
    uint64_t last_seq;   /* of its rows that are seen from below */
    uint64_t below_seq;  /* marks made before this row was appended count */
    uint64_t number_max; /* marks up to this one count */
} pal_chain_level;

typedef struct pal_chain {
    pal_chain_level *levels; /* the session first, its oldest needed ancestor last */
    size_t len;
    size_t cap;
} pal_chain;

/* What is out of sight. */
typedef struct pal_spans {
    pal_span *items; /* merged, so that no two touch */
    size_t len;
    bool partly;            /* asked: messages of which only parts are hidden are out of sight */
    pal_hidden_part *parts; /* else: those parts */
    size_t parts_len;
} pal_spans;

pal_chain_level pal_chain_start(const pal_session_row *session);
bool pal_chain_is_root(const pal_chain_level *at);
/* Moves to the parent; only where there is one. */
PAL_CHECKED pal_status pal_chain_up(
        pal_engine *engine, pal_chain_level *at, pal_arena *arena, pal_error *err);

/* Adds what the level's own marks hide. */
PAL_CHECKED pal_status pal_chain_hide(pal_engine *engine, const pal_chain_level *at,
        pal_arena *arena, pal_spans *hidden, pal_error *err);

/* All owners of rows behind `after_seq` and, unless `hidden` is NULL, all that their marks hide. */
PAL_CHECKED pal_status pal_chain_collect(pal_engine *engine, const pal_session_row *session,
        uint64_t after_seq, pal_arena *arena, pal_chain *owners, pal_spans *hidden, pal_error *err);

/* Own marks of one level, as many of them as count from below. */
PAL_CHECKED pal_status pal_chain_marks(pal_engine *engine, const pal_chain_level *at,
        pal_marks_wanted wanted, pal_arena *arena, pal_mark **out_marks, size_t *out_len,
        pal_error *err);

/* What the session shows of the rows between the two, both exclusive (before_seq 0: no bound),
 * newest first; in the arena. `whole`: only messages of which no part is hidden. */
PAL_CHECKED pal_status pal_chain_pieces(pal_engine *engine, const pal_session_row *session,
        uint64_t after_seq, uint64_t before_seq, bool whole, pal_arena *arena,
        pal_piece **out_pieces, size_t *out_len, pal_error *err);

#endif
