/* view_chain.c - which sessions own the rows that a session shows.
 *
 * The seqs of a session run through all of its ancestry. Rows 1..fork_seq belong to the parent or
 * to the parent's ancestors; rows from fork_seq+1 on belong to the session. A fork's view of its
 * parent never changes: rows are never modified, and a mark of the parent counts only under two
 * conditions. The mark must have existed when the fork was made (fork_mark), and it must be older
 * than the row at which the fork was made. */
#include "store/view/view_chain.h"

#include "base/memory.h"
#include "palaver/limits.h"
#include "store/cache/cache.h"

pal_chain_level pal_chain_start(const pal_session_row *session)
{
    pal_chain_level start = {.row = *session,
            .last_seq = session->session.last_seq,
            .below_seq = UINT64_MAX,
            .number_max = UINT64_MAX};
    return start;
}

bool pal_chain_is_root(const pal_chain_level *at)
{
    return pal_id_is_none(at->row.session.parent_id);
}

pal_status pal_chain_up(pal_engine *engine, pal_chain_level *at, pal_arena *arena, pal_error *err)
{
    pal_id parent = at->row.session.parent_id;
    pal_chain_level up = {.last_seq = at->row.session.fork_seq,
            .below_seq = at->row.session.fork_seq,
            .number_max = at->row.session.fork_mark};
    pal_status status = pal_cache_session_find(
            engine, at->row.session.tenant, parent, arena, &up.row, err);

    if (status == PAL_NOT_FOUND) {
        char text[PAL_ID_TEXT_SIZE];

        pal_id_to_text(at->row.session.id, text);
        return pal_error_set(err, PAL_CORRUPT, "the parent of session '%s' is missing", text);
    }
    if (status != PAL_OK)
        return status;
    if (at->last_seq < up.last_seq)
        up.last_seq = at->last_seq;
    up.row.past = at->row.past;
    *at = up;
    return PAL_OK;
}

/* ---- Marks ---- */

/* Returns whether the mark counts in the earlier state. A rewind with a target is committed with
 * the messages that replace the hidden ones, after them. */
static bool is_in_past(const pal_view_past *past, pal_id session, const pal_mark *mark)
{
    uint64_t made_at = mark->through_seq;

    if (mark->kind == PAL_MARK_REWIND && mark->target > 0)
        made_at = mark->target + 1;
    if (past->before_seq > 0 && made_at >= past->before_seq)
        return false;
    if (!pal_id_equal(past->session, session))
        return true;
    for (size_t i = 0; i < past->without_len; i++)
        if (past->without[i] == mark->number)
            return false;
    return true;
}

pal_status pal_chain_marks(pal_engine *engine, const pal_chain_level *at, pal_marks_wanted wanted,
        pal_arena *arena, pal_mark **out_marks, size_t *out_len, pal_error *err)
{
    pal_mark_scan scan = {.handle = at->row.handle, .last = at->number_max, .wanted = wanted};
    const pal_view_past *past = at->row.past;
    pal_mark *marks;
    size_t len, kept = 0;
    pal_status status;

    *out_marks = NULL;
    *out_len = 0;
    if (at->row.mark_number == 0 || at->number_max == 0)
        return PAL_OK;
    status = pal_cache_mark_list(engine, &scan, arena, &marks, &len, err);
    if (status != PAL_OK)
        return status;
    if (!past)
        kept = len;
    for (size_t i = 0; past && i < len; i++)
        if (is_in_past(past, at->row.session.id, &marks[i]))
            marks[kept++] = marks[i];
    *out_marks = marks;
    *out_len = kept;
    return PAL_OK;
}

static pal_status add_parts(const pal_mark *marks, size_t len, uint64_t below_seq, pal_arena *arena,
        pal_view_spans *hidden, pal_error *err)
{
    pal_hidden_part *grown = pal_arena_array(arena, hidden->parts_len + len, sizeof(*grown));

    if (!grown)
        return pal_no_memory(err);
    if (hidden->parts_len > 0)
        memcpy(grown, hidden->parts, hidden->parts_len * sizeof(*grown));
    hidden->parts_len += pal_marks_hidden_parts(marks, len, below_seq, grown + hidden->parts_len);
    hidden->parts = grown;
    return PAL_OK;
}

pal_status pal_chain_hide(pal_engine *engine, const pal_chain_level *at, pal_arena *arena,
        pal_view_spans *hidden, pal_error *err)
{
    pal_mark *marks;
    pal_view_span *grown;
    size_t len;
    pal_status status = pal_chain_marks(engine, at, PAL_MARKS_HIDING, arena, &marks, &len, err);

    if (status != PAL_OK || len == 0)
        return status;
    pal_marks_resolve(marks, len);
    grown = pal_arena_array(arena, hidden->len + len, sizeof(*grown));
    if (!grown)
        return pal_no_memory(err);
    if (hidden->len > 0)
        memcpy(grown, hidden->items, hidden->len * sizeof(*grown));
    hidden->len += pal_marks_hidden(marks, len, at->below_seq, hidden->partly, grown + hidden->len);
    hidden->len = pal_view_spans_merge(grown, hidden->len);
    hidden->items = grown;
    return hidden->partly ? PAL_OK : add_parts(marks, len, at->below_seq, arena, hidden, err);
}

/* ---- The complete chain ---- */

static pal_status chain_push(
        pal_chain *owners, const pal_chain_level *at, pal_arena *arena, pal_error *err)
{
    if (!pal_arena_reserve(
                arena, &owners->levels, &owners->cap, owners->len + 1, sizeof(*owners->levels)))
        return pal_no_memory(err);
    owners->levels[owners->len++] = *at;
    return PAL_OK;
}

pal_status pal_chain_collect(pal_engine *engine, const pal_session_row *session, uint64_t after_seq,
        pal_arena *arena, pal_chain *owners, pal_view_spans *hidden, pal_error *err)
{
    pal_chain_level at = pal_chain_start(session);
    pal_status status = PAL_OK;

    while (owners->len < PAL_FORK_DEPTH_MAX) {
        if (hidden)
            status = pal_chain_hide(engine, &at, arena, hidden, err);
        if (status == PAL_OK)
            status = chain_push(owners, &at, arena, err);
        if (status != PAL_OK || pal_chain_is_root(&at) || at.row.session.fork_seq <= after_seq)
            return status;
        status = pal_chain_up(engine, &at, arena, err);
        if (status != PAL_OK)
            return status;
    }
    return pal_error_set(
            err, PAL_CORRUPT, "the session is damaged: its forks form a cycle; run 'palaver fsck'");
}

/* ---- Pieces ---- */

typedef struct cut_state {
    pal_piece *items; /* has room for all possible pieces */
    size_t len;
    const pal_view_spans *hidden;
    size_t span; /* spans from this index on are newer than the rows that are being cut */
} cut_state;

/* Adds the visible parts of one session's rows, newest first. */
static void cut_level(cut_state *state, pal_handle handle, uint64_t first, uint64_t last)
{
    const pal_view_span *spans = state->hidden->items;

    while (first <= last) {
        uint64_t from = first;

        while (state->span > 0 && spans[state->span - 1].first > last)
            state->span--;
        if (state->span > 0 && spans[state->span - 1].last >= last) {
            last = spans[state->span - 1].first - 1;
            continue;
        }
        if (state->span > 0 && spans[state->span - 1].last >= first)
            from = spans[state->span - 1].last + 1;
        state->items[state->len++] = (pal_piece){handle, from, last};
        last = from - 1;
    }
}

pal_status pal_chain_pieces(pal_engine *engine, const pal_session_row *session, uint64_t after_seq,
        uint64_t before_seq, pal_pieces_wanted wanted, pal_arena *arena, pal_piece **out_pieces,
        size_t *out_len, pal_error *err)
{
    pal_chain owners = {0};
    pal_view_spans hidden = {.partly = wanted == PAL_PIECES_WHOLE};
    cut_state state = {.hidden = &hidden};
    pal_status status = pal_chain_collect(engine, session, after_seq, arena, &owners,
            wanted == PAL_PIECES_ALL ? NULL : &hidden, err);

    if (status != PAL_OK)
        return status;
    state.span = hidden.len;
    state.items = pal_arena_array(arena, owners.len + hidden.len + 1, sizeof(*state.items));
    if (!state.items)
        return pal_no_memory(err);
    for (size_t i = 0; i < owners.len; i++) {
        const pal_chain_level *at = &owners.levels[i];
        uint64_t first = at->row.session.fork_seq, last = at->last_seq;

        if (first < after_seq)
            first = after_seq;
        if (before_seq > 0 && last > before_seq - 1)
            last = before_seq - 1;
        if (first < last)
            cut_level(&state, at->row.handle, first + 1, last);
    }
    *out_pieces = state.items;
    *out_len = state.len;
    return PAL_OK;
}

bool pal_chain_pieces_have(const pal_piece *pieces, size_t len, pal_handle handle, uint64_t seq)
{
    size_t low = 0, high = len;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (pieces[middle].first > seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low < len && seq <= pieces[low].last && pal_handle_equal(pieces[low].handle, handle);
}
