/* view.c - the messages that a session shows.
 *
 * A rewind or reset hides the seqs from its own `seq` + 1 to the newest at that time, which can
 * include shared rows. A hide hides one message or one part of it. So a view is the chain of owners
 * (view_chain.h), each for a range of seqs, without the hidden spans that are collected on the way
 * up.
 *
 * The pieces are read one after the other, not in one snapshot. That is safe because rows and marks
 * are only added: everything that is added after the session's record was read has larger
 * numbers. */
#include "store/view/view.h"

#include "base/memory.h"
#include "dialect/native/native.h"
#include "palaver/limits.h"
#include "store/cache/cache.h"
#include "store/view/view_chain.h"

pal_status pal_view_session(pal_engine *engine, pal_str tenant, pal_id id, pal_arena *arena,
        pal_session_row *out_row, pal_error *err)
{
    return pal_view_session_ahead(engine, tenant, id, NULL, arena, out_row, err);
}

pal_status pal_view_session_ahead(pal_engine *engine, pal_str tenant, pal_id id,
        const pal_ahead_wants *wants, pal_arena *arena, pal_session_row *out_row, pal_error *err)
{
    bool reads_ahead = wants && wants->rows_max > 0 && engine->backend->session_ahead;
    pal_session_row row;
    pal_status status = reads_ahead
            ? engine->backend->session_ahead(engine, tenant, id, wants, arena, &row, err)
            : pal_cache_session_find(engine, tenant, id, arena, &row, err);

    if (status == PAL_NOT_FOUND || (status == PAL_OK && row.session.state == PAL_SESSION_ERASED)) {
        char text[PAL_ID_TEXT_SIZE];

        pal_id_to_text(id, text);
        return pal_error_set(err, PAL_NOT_FOUND, "session '%s' does not exist", text);
    }
    if (status != PAL_OK)
        return status;
    if (row.session.state == PAL_SESSION_ACTIVE && row.session.expires_at != 0 &&
            pal_store_now_ms(engine) > row.session.expires_at)
        row.session.state = PAL_SESSION_TRASH;
    *out_row = row;
    return PAL_OK;
}

/* ---- Loading ---- */

#define PAGE_ROWS 256 /* room for a page of up to this many messages is allocated at once */

typedef struct load_state {
    const pal_message_query *load;
    const pal_view_spans *hidden; /* parts that must be removed from their messages */
    pal_arena *arena;
    pal_message *items;
    size_t len;
    size_t cap;
    uint64_t tokens;
    uint64_t bytes;
    bool has_more;  /* a limit was reached, and there was another row */
    uint32_t spare; /* rows that may be taken beyond the limit */
    pal_status status;
    pal_error *err;
} load_state;

static bool over_bound(const load_state *state, const pal_row *row)
{
    const pal_message_query *load = state->load;

    if (load->limit > 0 && state->len >= (size_t)load->limit + state->spare)
        return true;
    if (load->tokens_max > 0 && state->tokens + row->tokens > load->tokens_max)
        return true;
    return load->bytes_max > 0 && state->bytes + row->body.len > load->bytes_max;
}

static bool grow(load_state *state)
{
    uint32_t limit = state->load->limit;
    size_t cap = state->cap ? state->cap * 2 : limit && limit <= PAGE_ROWS ? limit + 1 : 16;
    pal_message *items;

    if (state->len < state->cap)
        return true;
    items = pal_arena_array(state->arena, cap, sizeof(*items));
    if (!items) {
        state->status = pal_no_memory(state->err);
        return false;
    }
    if (state->len > 0)
        memcpy(items, state->items, state->len * sizeof(*items));
    state->items = items;
    state->cap = cap;
    return true;
}

/* Decodes a message that consists of one text part. */
static pal_status decode_text(pal_str text, pal_arena *arena, pal_message *message, pal_error *err)
{
    message->parts = pal_arena_alloc(arena, sizeof(*message->parts));
    if (!message->parts)
        return pal_no_memory(err);
    message->parts_len = 1;
    message->parts[0].kind = PAL_PART_TEXT;
    message->parts[0].text = pal_arena_copy(arena, text);
    return PAL_OK;
}

pal_status pal_view_decode(
        const pal_row *row, pal_arena *arena, pal_message *out_message, pal_error *err)
{
    pal_error inner;
    pal_status status;

    memset(out_message, 0, sizeof(*out_message));
    out_message->id = row->id;
    out_message->seq = row->seq;
    out_message->role = row->role;
    out_message->flags = row->flags;
    out_message->tokens = row->tokens;
    out_message->created_at = row->created_at;
    out_message->client_id = pal_arena_copy(arena, row->client_id);
    out_message->turn_id = row->turn_id;
    if (row->is_text)
        status = decode_text(row->body, arena, out_message, &inner);
    else
        status = pal_native_body_read(row->body, arena, out_message, &inner);
    if (status == PAL_OK && pal_arena_failure(arena))
        return pal_arena_checked(arena, err);
    if (status == PAL_OK)
        return PAL_OK;
    if (status == PAL_NO_MEMORY)
        return pal_error_set(err, status, "%s", inner.message);
    return pal_error_set(err, PAL_CORRUPT, "message %llu is damaged: %s; run 'palaver fsck'",
            (unsigned long long)row->seq, inner.message);
}

static bool part_is_hidden(const pal_view_spans *hidden, uint64_t seq, size_t part)
{
    for (size_t i = 0; i < hidden->parts_len; i++)
        if (hidden->parts[i].seq == seq && hidden->parts[i].part == part)
            return true;
    return false;
}

/* Returns false if no part of the message is left. */
static bool drop_hidden_parts(const pal_view_spans *hidden, pal_message *message)
{
    size_t kept = 0;

    if (hidden->parts_len == 0 || message->parts_len == 0)
        return true;
    for (size_t i = 0; i < message->parts_len; i++) {
        if (part_is_hidden(hidden, message->seq, i + 1))
            continue;
        message->parts[kept] = message->parts[i];
        message->parts[kept++].number = (uint32_t)(i + 1);
    }
    message->parts_len = kept;
    return kept > 0;
}

static bool load_row(const pal_row *row, void *user)
{
    load_state *state = user;

    if (over_bound(state, row)) {
        state->has_more = true;
        return false;
    }
    if (!grow(state))
        return false;
    state->status = pal_view_decode(row, state->arena, &state->items[state->len], state->err);
    if (state->status != PAL_OK)
        return false;
    if (!drop_hidden_parts(state->hidden, &state->items[state->len]))
        return true;
    state->len++;
    state->tokens += row->tokens;
    state->bytes += row->body.len;
    return true;
}

static bool loading_stopped(const load_state *state)
{
    return state->has_more || state->status != PAL_OK;
}

static void reverse(pal_message *items, size_t len)
{
    for (size_t i = 0; i < len / 2; i++) {
        pal_message swap = items[i];

        items[i] = items[len - 1 - i];
        items[len - 1 - i] = swap;
    }
}

static pal_status scan_rows(pal_engine *engine, pal_handle handle, uint64_t first, uint64_t last,
        bool descending, load_state *state, pal_error *err)
{
    uint32_t limit = state->load->limit;
    pal_row_scan scan = {.handle = handle,
            .first_seq = first,
            .last_seq = last,
            .descending = descending,
            .rows_hint = limit > state->len ? limit - state->len + 1 : 0};
    pal_status status = pal_cache_row_scan(engine, &scan, load_row, state, err);

    return status != PAL_OK ? status : state->status;
}

/* Reads a page that only its length limits: the newest rows that fit, and one more. Reading them in
 * storage order is faster than in reverse. Rows may be missing, so the page may need more rows.
 * Rows from *out_last down were not read. */
static pal_status scan_page(pal_engine *engine, pal_handle handle, uint64_t first,
        uint64_t *out_last, load_state *state, pal_error *err)
{
    uint64_t last = *out_last, room = state->load->limit - state->len;
    uint64_t from = last - first > room ? last - room : first;
    size_t before = state->len;
    pal_status status;

    state->spare = 1;
    status = scan_rows(engine, handle, from, last, false, state, err);
    state->spare = 0;
    if (status != PAL_OK)
        return status;
    reverse(state->items + before, state->len - before);
    if (state->len > state->load->limit) {
        state->len = state->load->limit;
        state->has_more = true;
    }
    *out_last = from - 1;
    return PAL_OK;
}

/* Reads the rows first..last in the order of the load. */
static pal_status scan_piece(pal_engine *engine, pal_handle handle, uint64_t first, uint64_t last,
        load_state *state, pal_error *err)
{
    const pal_message_query *load = state->load;
    bool is_page = load->from_end && load->limit > 0 && !load->tokens_max && !load->bytes_max;
    pal_status status = PAL_OK;

    while (is_page && status == PAL_OK && state->len < load->limit && first <= last)
        status = scan_page(engine, handle, first, &last, state, err);
    if (status == PAL_OK && !state->has_more && first <= last)
        status = scan_rows(engine, handle, first, last, load->from_end, state, err);
    return status;
}

/* Reads the visible rows of first..last, the newest piece first. */
static pal_status scan_down(pal_engine *engine, pal_handle handle, uint64_t first, uint64_t last,
        const pal_view_spans *hidden, load_state *state, pal_error *err)
{
    pal_status status = PAL_OK;
    size_t i = hidden->len;

    while (status == PAL_OK && !loading_stopped(state) && first <= last) {
        uint64_t from = first;

        while (i > 0 && hidden->items[i - 1].first > last)
            i--;
        if (i > 0 && hidden->items[i - 1].last >= last) {
            last = hidden->items[--i].first - 1;
            continue;
        }
        if (i > 0 && hidden->items[i - 1].last >= first)
            from = hidden->items[i - 1].last + 1;
        status = scan_piece(engine, handle, from, last, state, err);
        if (from == first)
            break;
        last = from - 1;
    }
    return status;
}

/* Reads the visible rows of first..last, the oldest piece first. */
static pal_status scan_up(pal_engine *engine, pal_handle handle, uint64_t first, uint64_t last,
        const pal_view_spans *hidden, load_state *state, pal_error *err)
{
    pal_status status = PAL_OK;
    size_t i = 0;

    while (status == PAL_OK && !loading_stopped(state) && first <= last) {
        uint64_t to = last;

        while (i < hidden->len && hidden->items[i].last < first)
            i++;
        if (i < hidden->len && hidden->items[i].first <= first) {
            first = hidden->items[i++].last + 1;
            continue;
        }
        if (i < hidden->len && hidden->items[i].first <= last)
            to = hidden->items[i].first - 1;
        status = scan_piece(engine, handle, first, to, state, err);
        first = to + 1;
    }
    return status;
}

static uint64_t own_first(const pal_chain_level *at, const pal_message_query *load)
{
    uint64_t fork_seq = at->row.session.fork_seq;

    return (fork_seq > load->after_seq ? fork_seq : load->after_seq) + 1;
}

static uint64_t own_last(const pal_chain_level *at, const pal_message_query *load)
{
    if (load->before_seq > 0 && load->before_seq - 1 < at->last_seq)
        return load->before_seq - 1;
    return at->last_seq;
}

/* Reads from the newest row up the ancestors, only as far as the limits require. */
static pal_status load_from_end(pal_engine *engine, const pal_session_row *session,
        load_state *state, pal_arena *scratch, pal_error *err)
{
    pal_chain_level at = pal_chain_start(session);
    pal_view_spans hidden = {0};
    pal_status status = PAL_OK;

    state->hidden = &hidden;
    for (size_t depth = 0; depth < PAL_FORK_DEPTH_MAX; depth++) {
        if (!state->load->hidden)
            status = pal_chain_hide(engine, &at, scratch, &hidden, err);
        if (status == PAL_OK)
            status = scan_down(engine, at.row.handle, own_first(&at, state->load),
                    own_last(&at, state->load), &hidden, state, err);
        if (status != PAL_OK || loading_stopped(state) || pal_chain_is_root(&at) ||
                at.row.session.fork_seq <= state->load->after_seq)
            return status;
        status = pal_chain_up(engine, &at, scratch, err);
        if (status != PAL_OK)
            return status;
    }
    return pal_error_set(
            err, PAL_CORRUPT, "the session is damaged: its forks form a cycle; run 'palaver fsck'");
}

static pal_status load_from_start(pal_engine *engine, const pal_session_row *session,
        load_state *state, pal_arena *scratch, pal_error *err)
{
    pal_chain owners = {0};
    pal_view_spans hidden = {0};
    pal_status status = pal_chain_collect(engine, session, state->load->after_seq, scratch, &owners,
            state->load->hidden ? NULL : &hidden, err);

    state->hidden = &hidden;
    for (size_t i = owners.len; status == PAL_OK && !loading_stopped(state) && i-- > 0;) {
        const pal_chain_level *at = &owners.levels[i];

        status = scan_up(engine, at->row.handle, own_first(at, state->load),
                own_last(at, state->load), &hidden, state, err);
    }
    return status;
}

pal_status pal_view_load(pal_engine *engine, const pal_session_row *session,
        const pal_message_query *load, pal_arena *arena, pal_message_page *out_messages,
        pal_error *err)
{
    load_state state = {.load = load, .arena = arena, .err = err};
    pal_arena *scratch = pal_arena_new(0);
    pal_status status;

    if (!scratch)
        return pal_no_memory(err);
    if (load->from_end)
        status = load_from_end(engine, session, &state, scratch, err);
    else
        status = load_from_start(engine, session, &state, scratch, err);
    pal_arena_free(scratch);
    if (status != PAL_OK)
        return status;
    if (load->from_end)
        reverse(state.items, state.len);
    out_messages->items = state.items;
    out_messages->len = state.len;
    out_messages->has_more = state.has_more;
    return PAL_OK;
}

/* ---- Marks ---- */

/* Returns whether a mark of an ancestor affects the rows that the level below shares. */
static bool mark_is_seen(const pal_mark *mark, const pal_chain_level *at)
{
    if (at->below_seq == UINT64_MAX)
        return true;
    if (mark->kind == PAL_MARK_REWIND || mark->kind == PAL_MARK_RESET)
        return mark->through_seq < at->below_seq;
    return mark->kind != PAL_MARK_UNDO && mark->seq <= at->below_seq;
}

static pal_status marks_of_level(pal_engine *engine, const pal_chain_level *at,
        pal_marks_wanted wanted, pal_arena *arena, pal_mark **out_marks, size_t *out_len,
        pal_error *err)
{
    size_t kept = 0;
    pal_status status = pal_chain_marks(engine, at, wanted, arena, out_marks, out_len, err);

    if (status != PAL_OK)
        return status;
    pal_marks_resolve(*out_marks, *out_len);
    for (size_t i = 0; i < *out_len; i++) {
        if (!mark_is_seen(&(*out_marks)[i], at))
            continue;
        (*out_marks)[kept] = (*out_marks)[i];
        (*out_marks)[kept++].inherited = at->below_seq != UINT64_MAX;
    }
    *out_len = kept;
    return PAL_OK;
}

pal_status pal_view_marks(pal_engine *engine, const pal_session_row *session,
        pal_marks_wanted wanted, pal_arena *arena, pal_mark **out_marks, size_t *out_len,
        pal_error *err)
{
    pal_chain owners = {0};
    pal_mark *all = NULL;
    size_t all_len = 0;
    pal_status status = pal_chain_collect(engine, session, 0, arena, &owners, NULL, err);

    for (size_t i = owners.len; status == PAL_OK && i-- > 0;) {
        pal_mark *marks, *joined;
        size_t len;

        status = marks_of_level(engine, &owners.levels[i], wanted, arena, &marks, &len, err);
        if (status != PAL_OK || len == 0)
            continue;
        joined = pal_arena_array(arena, all_len + len, sizeof(*joined));
        if (!joined)
            return pal_no_memory(err);
        if (all_len > 0)
            memcpy(joined, all, all_len * sizeof(*joined));
        memcpy(joined + all_len, marks, len * sizeof(*joined));
        all = joined;
        all_len += len;
    }
    if (status != PAL_OK)
        return status;
    *out_marks = all;
    *out_len = all_len;
    return PAL_OK;
}

/* ---- Forking ---- */

/* Returns the seq of the newest visible message; 0 if there is none. */
static pal_status newest_seq(pal_engine *engine, const pal_session_row *session, pal_arena *arena,
        uint64_t *out_seq, pal_error *err)
{
    pal_message_query load = {.limit = 1, .from_end = true};
    pal_message_page messages;
    pal_status status = pal_view_load(engine, session, &load, arena, &messages, err);

    if (status == PAL_OK)
        *out_seq = messages.len > 0 ? messages.items[0].seq : 0;
    return status;
}

static pal_status check_forkable(const pal_session *parent, pal_error *err)
{
    char text[PAL_ID_TEXT_SIZE];

    pal_id_to_text(parent->id, text);
    if (parent->state == PAL_SESSION_TRASH)
        return pal_error_set(
                err, PAL_CONFLICT, "session '%s' is in the trash; restore it first", text);
    if (parent->state == PAL_SESSION_QUARANTINED)
        return pal_error_set(
                err, PAL_CORRUPT, "session '%s' is quarantined; run 'palaver fsck'", text);
    return PAL_OK;
}

pal_status pal_view_fork(pal_engine *engine, pal_work *work, pal_id parent, uint64_t at_seq,
        uint64_t mark_max, pal_arena *arena, pal_error *err)
{
    pal_session_row row;
    pal_chain_level at;
    pal_status status = pal_view_session(engine, work->tenant, parent, arena, &row, err);

    if (status == PAL_OK)
        status = check_forkable(&row.session, err);
    if (status == PAL_OK && at_seq == PAL_SEQ_ANY)
        status = newest_seq(engine, &row, arena, &at_seq, err);
    if (status != PAL_OK)
        return status;
    if (at_seq > row.session.last_seq)
        return pal_error_set(err, PAL_INVALID,
                "the session has %llu message%s; it cannot be forked at %llu",
                (unsigned long long)row.session.last_seq, row.session.last_seq == 1 ? "" : "s",
                (unsigned long long)at_seq);
    if (at_seq == 0)
        return PAL_OK;
    at = pal_chain_start(&row);
    at.number_max = row.mark_number < mark_max ? row.mark_number : mark_max;
    while (at_seq <= at.row.session.fork_seq) {
        status = pal_chain_up(engine, &at, arena, err);
        if (status != PAL_OK)
            return status;
    }
    work->fork_parent = at.row.session.id;
    work->fork_seq = at_seq;
    work->fork_mark = at.number_max;
    return PAL_OK;
}

pal_status pal_view_owner(
        pal_engine *engine, pal_work *work, uint64_t seq, pal_arena *arena, pal_error *err)
{
    pal_session_row row;
    pal_chain_level at;
    pal_status status =
            pal_view_session(engine, work->tenant, work->op->session, arena, &row, err);

    if (status != PAL_OK)
        return status;
    work->fork_seq = seq;
    if (seq > row.session.last_seq)
        return pal_message_missing(work);
    at = pal_chain_start(&row);
    while (status == PAL_OK && seq <= at.row.session.fork_seq)
        status = pal_chain_up(engine, &at, arena, err);
    if (status == PAL_OK)
        work->fork_parent = at.row.session.id;
    return status;
}
