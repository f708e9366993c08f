/* view_chain.h - which sessions own the rows that a session shows: the session itself, and its
 * ancestors for shared rows. */
#ifndef PAL_VIEW_CHAIN_H
#define PAL_VIEW_CHAIN_H

#include "store/store_backend.h"
#include "store/view/view_marks.h"

/* A level of the walk up the ancestry: `row` owns the seqs row.fork_seq + 1 to `last_seq`. */
typedef struct pal_chain_level {
    pal_session_row row;
    uint64_t last_seq;   /* the last of its rows that the level below shares */
    uint64_t below_seq;  /* only marks that were made before this row was appended count */
    uint64_t number_max; /* only marks up to this number count */
} pal_chain_level;

typedef struct pal_chain {
    pal_chain_level *levels; /* the session first, its oldest needed ancestor last */
    size_t len;
    size_t cap;
} pal_chain;

/* Hidden messages and parts. */
typedef struct pal_view_spans {
    pal_view_span *items; /* merged: no two spans touch */
    size_t len;
    bool partly;            /* input: messages with a hidden part count as hidden */
    pal_hidden_part *parts; /* if not `partly`: the hidden parts */
    size_t parts_len;
} pal_view_spans;

pal_chain_level pal_chain_start(const pal_session_row *session);
bool pal_chain_is_root(const pal_chain_level *at);
/* Moves to the parent, which must exist. */
PAL_CHECKED pal_status pal_chain_up(
        pal_engine *engine, pal_chain_level *at, pal_arena *arena, pal_error *err);

/* Adds everything that the marks of this level hide. */
PAL_CHECKED pal_status pal_chain_hide(pal_engine *engine, const pal_chain_level *at,
        pal_arena *arena, pal_view_spans *hidden, pal_error *err);

/* Returns all owners of rows after `after_seq` and, unless `hidden` is NULL, everything that their
 * marks hide. */
PAL_CHECKED pal_status pal_chain_collect(pal_engine *engine, const pal_session_row *session,
        uint64_t after_seq, pal_arena *arena, pal_chain *owners, pal_view_spans *hidden,
        pal_error *err);

/* Returns the marks of one level that count for the levels below. */
PAL_CHECKED pal_status pal_chain_marks(pal_engine *engine, const pal_chain_level *at,
        pal_marks_wanted wanted, pal_arena *arena, pal_mark **out_marks, size_t *out_len,
        pal_error *err);

typedef enum pal_pieces_wanted {
    PAL_PIECES_SHOWN, /* visible messages */
    PAL_PIECES_WHOLE, /* visible messages without a hidden part */
    PAL_PIECES_ALL,   /* also hidden messages */
} pal_pieces_wanted;

/* Returns the pieces of rows that the session has between the two seqs, newest first, in the arena.
 * Both bounds are exclusive; before_seq 0 means no upper bound. */
PAL_CHECKED pal_status pal_chain_pieces(pal_engine *engine, const pal_session_row *session,
        uint64_t after_seq, uint64_t before_seq, pal_pieces_wanted wanted, pal_arena *arena,
        pal_piece **out_pieces, size_t *out_len, pal_error *err);
/* Returns whether one of the pieces, which are sorted newest first, contains the row. */
bool pal_chain_pieces_have(const pal_piece *pieces, size_t len, pal_handle handle, uint64_t seq);

#endif
