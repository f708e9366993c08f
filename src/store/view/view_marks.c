/* view_marks.c - decides which marks are active and what they hide.
 *
 * Marks are only added, never removed. Later marks decide whether a mark is active, so the walk
 * goes from the newest mark to the oldest. An active undo deactivates its target, and a target is
 * always older than its undo.
 *
 * A mark with a seq refers to the messages up to this seq that were visible when the mark was made.
 * It is in effect as long as all of them are visible. So two sets of hidden seqs, up to the mark's
 * seq, are compared: the seqs that earlier marks hid when the mark was made, and the seqs that all
 * marks hide now. A later rewind adds to the second set, and undoing the rewind removes that again,
 * however deeply undos are nested.
 *
 * A checkpoint replaces everything up to its seq, so it must not hide messages that it does not
 * cover. It is in effect only while no message has become visible again: by undoing a rewind that
 * is older than the checkpoint, or in a fork at a message that was hidden.
 *
 * The first set is computed again only if a mark that affects the view is between two candidates.
 * Usually the newest candidate is in effect. */
#include "store/view/view_marks.h"

#include <stdlib.h>

#include "base/memory.h"
#include "store/cache/cache.h"
#include "store/view/view_active_marks.h"
#include "store/view/view_chain.h"

/* ---- Marks of one session ---- */

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

/* ---- Marks in effect ---- */

typedef struct decision {
    const pal_marks_level *levels;
    size_t levels_len;
    pal_view_spans now;
    pal_view_spans then;    /* the messages that the first `then_end` marks of `then_level` hide */
    size_t then_level; /* SIZE_MAX: not computed yet */
    size_t then_end;
    pal_mark *scratch; /* room for the marks of one level */
    size_t *ends;      /* for each mark of the level, the end of the earlier marks that affect it */
} decision;

/* ---- Hidden messages ---- */

/* Returns whether `outer` contains everything that `inner` contains up to `seq`. */
static bool spans_cover(const pal_view_spans *outer, const pal_view_spans *inner, uint64_t seq)
{
    size_t at = 0;

    for (size_t i = 0; i < inner->len && inner->items[i].first <= seq; i++) {
        uint64_t last = inner->items[i].last < seq ? inner->items[i].last : seq;

        while (at < outer->len && outer->items[at].last < last)
            at++;
        if (at == outer->len || outer->items[at].first > inner->items[i].first)
            return false;
    }
    return true;
}

/* Collects what the first levels hide from the next level. */
static size_t hidden_above(const decision *state, size_t levels_len, pal_view_span *out_spans)
{
    size_t len = 0;

    for (size_t i = 0; i < levels_len; i++) {
        const pal_marks_level *level = &state->levels[i];

        len += pal_marks_hidden(level->marks, level->len, level->below_seq, true, out_spans + len);
    }
    return len;
}

/* Returns what was hidden in the level before its mark at `index` was made. */
static const pal_view_spans *hidden_then(decision *state, size_t level, size_t index)
{
    const pal_marks_level *of = &state->levels[level];
    size_t end = state->ends[index], len = 0;

    if (state->then_level == level && state->then_end == end)
        return &state->then;
    for (size_t i = 0; i < end; i++)
        if (pal_mark_bears_on_view(of->marks[i].kind))
            state->scratch[len++] = of->marks[i];
    pal_marks_resolve(state->scratch, len);
    state->then.len = hidden_above(state, level, state->then.items);
    state->then.len += pal_marks_hidden(
            state->scratch, len, UINT64_MAX, true, state->then.items + state->then.len);
    state->then.len = pal_view_spans_merge(state->then.items, state->then.len);
    state->then_level = level;
    state->then_end = end;
    return &state->then;
}

static bool mark_is_active(decision *state, size_t level, size_t index)
{
    const pal_mark *mark = &state->levels[level].marks[index];
    const pal_view_spans *then;

    if (mark->undone || mark->seq > state->levels[level].below_seq ||
            (mark->kind == PAL_MARK_CHECKPOINT && mark->target == PAL_MARK_ERASED))
        return false;
    then = hidden_then(state, level, index);
    if (!spans_cover(then, &state->now, mark->seq))
        return false;
    return mark->kind != PAL_MARK_CHECKPOINT || spans_cover(&state->now, then, mark->seq);
}

/* ---- The walk from the newest mark to the oldest ---- */

static pal_owned_mark picked(const decision *state, size_t level, size_t index)
{
    pal_owned_mark pick = {
            .mark = state->levels[level].marks[index], .handle = state->levels[level].handle};

    pick.mark.inherited = level + 1 < state->levels_len;
    return pick;
}

/* Returns false when a checkpoint was found, because it ends the effect of all older marks. */
static bool walk_level(decision *state, size_t level, pal_owned_marks *found)
{
    const pal_marks_level *of = &state->levels[level];

    for (size_t i = 0, end = 0; i < of->len; i++) {
        state->ends[i] = end;
        if (pal_mark_bears_on_view(of->marks[i].kind))
            end = i + 1;
    }
    for (size_t i = of->len; i-- > 0;) {
        pal_mark_kind kind = of->marks[i].kind;

        if (kind != PAL_MARK_CHECKPOINT && kind != PAL_MARK_PRUNE && kind != PAL_MARK_EPOCH)
            continue;
        if ((kind == PAL_MARK_EPOCH && found->epoch.mark.number) || !mark_is_active(state, level,
                i))
            continue;
        if (kind == PAL_MARK_PRUNE)
            found->prunes[found->prunes_len++] = picked(state, level, i);
        else if (kind == PAL_MARK_EPOCH)
            found->epoch = picked(state, level, i);
        else
            found->checkpoint = picked(state, level, i);
        if (kind == PAL_MARK_CHECKPOINT)
            return false;
    }
    return true;
}

static void reverse(pal_owned_mark *marks, size_t len)
{
    for (size_t i = 0; i < len / 2; i++) {
        pal_owned_mark swap = marks[i];

        marks[i] = marks[len - 1 - i];
        marks[len - 1 - i] = swap;
    }
}

/* ---- Pins ---- */

typedef struct pin {
    uint64_t seq;
    size_t order;
    bool is_set;
} pin;

static int compare_pins(const void *left, const void *right)
{
    const pin *a = left, *b = right;

    if (a->seq != b->seq)
        return a->seq > b->seq ? 1 : -1;
    return (a->order < b->order) - (a->order > b->order);
}

static bool is_shown(const pal_view_spans *hidden, uint64_t seq)
{
    for (size_t i = 0; i < hidden->len && hidden->items[i].first <= seq; i++)
        if (hidden->items[i].last >= seq)
            return false;
    return true;
}

static size_t collect_pins(const decision *state, pin *out_pins)
{
    size_t len = 0;

    for (size_t i = 0; i < state->levels_len; i++) {
        const pal_marks_level *level = &state->levels[i];

        for (size_t j = 0; j < level->len; j++) {
            const pal_mark *mark = &level->marks[j];

            if ((mark->kind != PAL_MARK_PIN && mark->kind != PAL_MARK_UNPIN) || mark->undone ||
                    mark->seq > level->below_seq)
                continue;
            out_pins[len] = (pin){mark->seq, len, mark->kind == PAL_MARK_PIN};
            len++;
        }
    }
    return len;
}

/* For each message the newest pin or unpin decides. */
static void decide_pins(const decision *state, pin *pins, pal_owned_marks *found)
{
    size_t len = collect_pins(state, pins);

    qsort(pins, len, sizeof(*pins), compare_pins);
    for (size_t i = 0; i < len; i++) {
        if (i > 0 && pins[i].seq == pins[i - 1].seq)
            continue;
        if (pins[i].is_set && is_shown(&state->now, pins[i].seq))
            found->pins[found->pins_len++] = pins[i].seq;
    }
}

/* ---- All marks ---- */

pal_status pal_active_marks_decide(const pal_marks_level *levels, size_t levels_len,
        pal_arena *arena, pal_owned_marks *out_marks, pal_error *err)
{
    decision state = {.levels = levels, .levels_len = levels_len, .then_level = SIZE_MAX};
    pal_owned_marks found = {0};
    size_t total = 0;
    pin *pins;

    for (size_t i = 0; i < levels_len; i++) {
        pal_marks_resolve(levels[i].marks, levels[i].len);
        total += levels[i].len;
    }
    state.now.items = pal_arena_array(arena, total + 1, sizeof(pal_view_span));
    state.then.items = pal_arena_array(arena, total + 1, sizeof(pal_view_span));
    state.scratch = pal_arena_array(arena, total + 1, sizeof(*state.scratch));
    state.ends = pal_arena_array(arena, total + 1, sizeof(*state.ends));
    found.prunes = pal_arena_array(arena, total + 1, sizeof(*found.prunes));
    found.pins = pal_arena_array(arena, total + 1, sizeof(*found.pins));
    pins = pal_arena_array(arena, total + 1, sizeof(*pins));
    if (!pins || pal_arena_failure(arena))
        return pal_no_memory(err);
    state.now.len = hidden_above(&state, levels_len, state.now.items);
    state.now.len = pal_view_spans_merge(state.now.items, state.now.len);
    for (size_t i = levels_len; i-- > 0;)
        if (!walk_level(&state, i, &found))
            break;
    reverse(found.prunes, found.prunes_len);
    decide_pins(&state, pins, &found);
    *out_marks = found;
    return PAL_OK;
}

/* ---- Marks of a store ---- */

static pal_status read_levels(pal_engine *engine, const pal_session_row *session, pal_arena *arena,
        pal_marks_level **out_levels, size_t *out_len, pal_error *err)
{
    pal_chain owners = {0};
    pal_marks_level *levels;
    pal_status status = pal_chain_collect(engine, session, 0, arena, &owners, NULL, err);

    if (status != PAL_OK)
        return status;
    levels = pal_arena_array(arena, owners.len, sizeof(*levels));
    if (!levels)
        return pal_no_memory(err);
    for (size_t i = 0; status == PAL_OK && i < owners.len; i++) {
        const pal_chain_level *at = &owners.levels[owners.len - 1 - i];

        levels[i].handle = at->row.handle;
        levels[i].below_seq = at->below_seq;
        status = pal_chain_marks(
                engine, at, PAL_MARKS_BRIEF, arena, &levels[i].marks, &levels[i].len, err);
    }
    *out_levels = levels;
    *out_len = owners.len;
    return status;
}

static pal_status read_body(pal_engine *engine, const pal_owned_mark *from, pal_arena *arena,
        pal_mark *out_mark, pal_error *err)
{
    pal_mark_scan scan = {.handle = from->handle,
            .first = from->mark.number,
            .last = from->mark.number,
            .wanted = PAL_MARKS_WHOLE};
    pal_mark *marks;
    size_t len;
    pal_status status;

    *out_mark = from->mark;
    if (from->mark.number == 0)
        return PAL_OK;
    status = pal_cache_mark_list(engine, &scan, arena, &marks, &len, err);
    if (status != PAL_OK)
        return status;
    /* Only an erasure in between can remove a mark. */
    if (len != 1)
        return pal_error_set(err, PAL_NOT_FOUND, "the session was erased");
    out_mark->body = marks[0].body;
    return PAL_OK;
}

static bool hides_nothing(const pal_marks_level *session)
{
    for (size_t i = 0; i < session->len; i++)
        if (pal_mark_bears_on_view(session->marks[i].kind))
            return false;
    return true;
}

pal_status pal_active_marks_read(pal_engine *engine, const pal_session_row *session,
        pal_arena *arena, pal_active_marks *out_active, bool *out_hides_nothing, pal_error *err)
{
    pal_active_marks active = {0};
    pal_owned_marks found = {0};
    pal_marks_level *levels = NULL;
    size_t levels_len = 0;
    pal_arena *scratch = pal_arena_new(0);
    pal_status status;

    if (!scratch)
        return pal_no_memory(err);
    status = read_levels(engine, session, scratch, &levels, &levels_len, err);
    if (status != PAL_OK)
        goto out;
    status = pal_active_marks_decide(levels, levels_len, scratch, &found, err);
    if (status != PAL_OK)
        goto out;
    status = read_body(engine, &found.checkpoint, arena, &active.checkpoint, err);
    if (status != PAL_OK)
        goto out;
    status = read_body(engine, &found.epoch, arena, &active.epoch, err);
    if (status != PAL_OK)
        goto out;
    if (found.prunes_len > 0)
        active.prunes = pal_arena_array(arena, found.prunes_len, sizeof(*active.prunes));
    if (found.pins_len > 0)
        active.pins = pal_arena_array(arena, found.pins_len, sizeof(*active.pins));
    if (pal_arena_failure(arena)) {
        status = pal_no_memory(err);
        goto out;
    }
    for (; active.prunes_len < found.prunes_len; active.prunes_len++) {
        size_t i = active.prunes_len;

        status = read_body(engine, &found.prunes[i], arena, &active.prunes[i], err);
        if (status != PAL_OK)
            goto out;
    }
    for (; active.pins_len < found.pins_len; active.pins_len++)
        active.pins[active.pins_len] = found.pins[active.pins_len];
    *out_active = active;
    *out_hides_nothing = hides_nothing(&levels[levels_len - 1]); /* the session's own marks */
out:
    pal_arena_free(scratch);
    return status;
}
