/* store_marks.h - which marks count, and what they hide. Pure functions over plain data. */
#ifndef PAL_STORE_MARKS_H
#define PAL_STORE_MARKS_H

#include "palaver/store.h"

/* Sets `undone` on all marks of one session, which are sorted by number. An undo can be undone. */
void pal_marks_resolve(pal_mark *marks, size_t len);

/* Whether marks of that kind decide what is in sight. */
static inline bool pal_mark_bears_on_view(pal_mark_kind kind)
{
    return kind == PAL_MARK_REWIND || kind == PAL_MARK_RESET || kind == PAL_MARK_UNDO ||
            kind == PAL_MARK_HIDE;
}

/* What the mark reaches to, in a session whose newest message is `last_seq`. */
static inline uint64_t pal_mark_through(const pal_mark *mark, uint64_t last_seq)
{
    bool is_bounded = mark->kind == PAL_MARK_REWIND && mark->target > 0 && mark->target < last_seq;
    return is_bounded ? mark->target : last_seq;
}

/* A run of seqs that is out of sight: first..last, inclusive. */
typedef struct pal_span {
    uint64_t first;
    uint64_t last;
} pal_span;

/* One part of a message that is out of sight, though the message is not. */
typedef struct pal_hidden_part {
    uint64_t seq;
    uint64_t part; /* from 1 */
} pal_hidden_part;

/* Writes what the resolved marks hide into `out_spans` (room for len), and returns how many. Of
 * rewinds and resets only those that were made before the message `below_seq` was appended bear on
 * it: a fork at that message sees the history as it was when the message was said. What was hidden
 * by itself before the fork stays so. `partly`: messages of which only parts are hidden count too.
 */
size_t pal_marks_hidden(
        const pal_mark *marks, size_t len, uint64_t below_seq, bool partly, pal_span *out_spans);
/* Likewise the single parts. */
size_t pal_marks_hidden_parts(
        const pal_mark *marks, size_t len, uint64_t below_seq, pal_hidden_part *out_parts);

/* Sorts the spans by their first seq and joins those that touch; returns how many are left. */
size_t pal_spans_merge(pal_span *spans, size_t len);

#endif
