/* view_marks.c - decides which marks are active and what they hide.
 *
 * Marks are only added, never removed. Later marks decide whether a mark is active, so the walk
 * goes from the newest mark to the oldest. An active undo deactivates its target, and a target is
 * always older than its undo. */
#include "store/view/view_marks.h"

#include <stdlib.h>

static pal_mark *mark_by_number(pal_mark *marks, size_t len, uint64_t number)
{
    size_t low = 0, high = len;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (marks[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < len && marks[low].number == number ? &marks[low] : NULL;
}

void pal_marks_resolve(pal_mark *marks, size_t len)
{
    for (size_t i = 0; i < len; i++)
        marks[i].undone = false;
    for (size_t i = len; i-- > 0;) {
        pal_mark *target;

        if (marks[i].kind != PAL_MARK_UNDO || marks[i].undone)
            continue;
        target = mark_by_number(marks, i, marks[i].target);
        if (target)
            target->undone = true;
    }
}

static bool hides_one(const pal_mark *mark, uint64_t below_seq)
{
    return mark->kind == PAL_MARK_HIDE && !mark->undone && mark->seq > 0 && mark->seq < below_seq;
}

static bool hides_the_rest(const pal_mark *mark, uint64_t below_seq)
{
    return (mark->kind == PAL_MARK_REWIND || mark->kind == PAL_MARK_RESET) && !mark->undone &&
            mark->seq < mark->through_seq && mark->through_seq < below_seq;
}

size_t pal_marks_hidden(const pal_mark *marks, size_t len, uint64_t below_seq, bool partly,
        pal_view_span *out_spans)
{
    size_t spans = 0;

    for (size_t i = 0; i < len; i++) {
        const pal_mark *mark = &marks[i];

        if (hides_the_rest(mark, below_seq))
            out_spans[spans++] = (pal_view_span){mark->seq + 1, mark->through_seq};
        else if (hides_one(mark, below_seq) && (partly || mark->target == 0))
            out_spans[spans++] = (pal_view_span){mark->seq, mark->seq};
    }
    return spans;
}

size_t pal_marks_hidden_parts(
        const pal_mark *marks, size_t len, uint64_t below_seq, pal_hidden_part *out_parts)
{
    size_t parts = 0;

    for (size_t i = 0; i < len; i++)
        if (hides_one(&marks[i], below_seq) && marks[i].target > 0)
            out_parts[parts++] = (pal_hidden_part){marks[i].seq, marks[i].target};
    return parts;
}

static int compare_spans(const void *left, const void *right)
{
    const pal_view_span *a = left, *b = right;

    return (a->first > b->first) - (a->first < b->first);
}

size_t pal_view_spans_merge(pal_view_span *spans, size_t len)
{
    size_t kept = 0;

    if (len == 0)
        return 0;
    qsort(spans, len, sizeof(*spans), compare_spans);
    for (size_t i = 1; i < len; i++) {
        if (spans[i].first <= spans[kept].last + 1) {
            if (spans[i].last > spans[kept].last)
                spans[kept].last = spans[i].last;
        } else {
            spans[++kept] = spans[i];
        }
    }
    return kept + 1;
}
