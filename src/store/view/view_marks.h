/* view_marks.h - which marks are in effect, and what they hide. Pure functions over plain data. */
#ifndef PAL_VIEW_MARKS_H
#define PAL_VIEW_MARKS_H

#include "palaver/store_marks.h"

/* Sets `undone` of all marks of one session, which must be sorted by number. An undo can be
 * undone. */
void pal_marks_resolve(pal_mark *marks, size_t len);

/* Returns whether marks of this kind decide which messages are visible. */
static inline bool pal_mark_bears_on_view(pal_mark_kind kind)
{
    return kind == PAL_MARK_REWIND || kind == PAL_MARK_RESET || kind == PAL_MARK_UNDO ||
            kind == PAL_MARK_HIDE;
}

/* Returns the last seq that the mark covers, in a session whose newest message is `last_seq`. */
static inline uint64_t pal_mark_through(const pal_mark *mark, uint64_t last_seq)
{
    bool is_bounded = mark->kind == PAL_MARK_REWIND && mark->target > 0 && mark->target < last_seq;
    return is_bounded ? mark->target : last_seq;
}

/* A range of hidden seqs: first..last, inclusive. */
typedef struct pal_view_span {
    uint64_t first;
    uint64_t last;
} pal_view_span;

/* A hidden part of a message that is itself visible. */
typedef struct pal_hidden_part {
    uint64_t seq;
    uint64_t part; /* counted from 1 */
} pal_hidden_part;

/* Writes the ranges that the resolved marks hide to `out_spans` (room for len), and returns their
 * number. Rewinds and resets count only if they were made before the message `below_seq` was
 * appended: a fork at that message sees the history of that moment. A message that was hidden
 * individually before the fork stays hidden. `partly`: messages with a hidden part count as
 * hidden. */
size_t pal_marks_hidden(const pal_mark *marks, size_t len, uint64_t below_seq, bool partly,
        pal_view_span *out_spans);
/* Writes the hidden parts to `out_parts` by the same rules, and returns their number. */
size_t pal_marks_hidden_parts(
        const pal_mark *marks, size_t len, uint64_t below_seq, pal_hidden_part *out_parts);

/* Sorts the spans by their first seq, merges those that touch, and returns the number of remaining
 * spans. */
size_t pal_view_spans_merge(pal_view_span *spans, size_t len);

#endif
