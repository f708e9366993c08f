/* search.c - the search: finds messages by their words, in the view of one session or in all
 * active sessions of a tenant.
 *
 * A backend returns rows that may match, and this file decides, so that all backends find the same
 * messages. The text of each row is converted to its normal form, in which the phrases are looked
 * up (search_words.h). For one session, its view says which rows are visible. For a tenant, the
 * matches are collected first and then looked up in their sessions, because a sink must not call
 * the engine.
 *
 * A short session is scanned. A long session, or a tenant, is searched with the backend's index if
 * it has one. Missing parts of the index are added before the search, one part per commit, so that
 * appends of other callers can run in between. A program that sometimes calls pal_store_index()
 * leaves little to add. A caller can limit the time for this: the rows that are still not in the
 * index are then scanned for at most the same time again, and the page ends where the scan ended.
 *
 * Any thread can call it. */
#include "palaver/store_batch.h"
#include "palaver/store_search.h"

#include <stdio.h>

#include <string.h>

#include "base/clock.h"
#include "base/json/json.h"
#include "base/memory.h"
#include "palaver/limits.h"
#include "store/search/search.h"
#include "store/search/search_text.h"
#include "store/store_front.h"
#include "message/message_check.h"
#include "store/view/view.h"
#include "store/view/view_chain.h"

enum {
    WALK_ROWS_MAX = 2000, /* a session with up to this many rows is searched without the index */
    CLOCK_ROWS = 64,      /* the clock is read once per this many rows */
};

typedef struct candidate {
    pal_search_hit hit;
    uint64_t pos;
    pal_handle handle;
} candidate;

typedef struct search_state {
    const pal_search_query *search;
    pal_query query;
    const pal_piece *pieces; /* NULL: the search covers a tenant */
    size_t pieces_len;
    pal_handle handle;  /* session of the current piece */
    pal_arena *arena;   /* the caller's arena */
    pal_arena *scratch; /* temporary data of one row */
    pal_buf text;
    pal_buf normal;
    candidate *found;
    size_t len;
    size_t wanted; /* stop after this many hits: one more than the page has */
    int64_t until_us;   /* stop at this time; 0: no limit */
    uint32_t looked_at; /* rows since the clock was last read */
    uint64_t stopped_below; /* the page was stopped before this position or seq; 0: it was not
                               stopped */
    pal_status status;
    pal_error *err;
} search_state;

/* ---- One row ---- */

/* Returns whether the message has this sender. Plain texts have none. */
static bool is_from(const pal_row *row, pal_str sender, pal_arena *scratch)
{
    pal_message message;
    pal_json extra;

    if (row->is_text || !memmem(row->body.data, row->body.len, "\"sender\"", 8) ||
            pal_view_decode(row, scratch, &message, NULL) != PAL_OK || message.extra.len == 0 ||
            pal_json_parse(scratch, message.extra, NULL, &extra, NULL) != PAL_OK)
        return false;
    return pal_str_equal(pal_json_string(pal_json_find(extra, "sender"), scratch), sender);
}

bool pal_search_wants(const pal_search_query *search, const pal_row *row, pal_arena *scratch)
{
    if (search->role != PAL_ROLE_NONE && row->role != search->role)
        return false;
    if (row->created_at < search->from)
        return false;
    if (search->to != 0 && row->created_at >= search->to)
        return false;
    return search->sender.len == 0 || is_from(row, search->sender, scratch);
}

/* Returns whether the row matches, and its snippet. A damaged row never matches; fsck reports
 * it. */
static bool row_matches(search_state *state, const pal_row *row, pal_str *out_snippet)
{
    pal_status status;
    size_t at;

    pal_buf_clear(&state->text);
    pal_buf_clear(&state->normal);
    status = pal_row_text(row, state->scratch, &state->text, state->err);
    if (status == PAL_OK)
        pal_words_normal(pal_buf_str(&state->text), &state->normal);
    if (status == PAL_OK && state->normal.failure)
        status = pal_error_set(state->err, state->normal.failure,
                "out of memory, or a message is too long to search");
    if (status != PAL_OK) {
        state->status = status == PAL_CORRUPT ? PAL_OK : status;
        return false;
    }
    if (!pal_words_query_match(&state->query, pal_buf_str(&state->normal), &at))
        return false;
    *out_snippet = pal_words_snippet(pal_buf_str(&state->text),
            pal_words_origin(pal_buf_str(&state->text), at), state->arena);
    return true;
}

/* Returns false when there are enough hits. */
static bool look_at(
        search_state *state, const pal_row *row, pal_handle handle, uint64_t pos, pal_id session)
{
    pal_str snippet;

    pal_arena_reset(state->scratch);
    if (pal_search_wants(state->search, row, state->scratch) && row_matches(state, row, &snippet))
        state->found[state->len++] = (candidate){.hit = {.session = session,
                                                         .seq = row->seq,
                                                         .message = row->id,
                                                         .role = row->role,
                                                         .created_at = row->created_at,
                                                         .snippet = snippet},
                .pos = pos,
                .handle = handle};
    return state->status == PAL_OK && state->len < state->wanted;
}

static bool take_row(const pal_row *row, void *user)
{
    search_state *state = user;

    return look_at(state, row, state->handle, 0, state->search->session);
}

/* Reads the clock once per CLOCK_ROWS rows. */
static bool is_late(search_state *state)
{
    if (state->until_us == 0 || ++state->looked_at < CLOCK_ROWS)
        return false;
    state->looked_at = 0;
    return pal_clock_monotonic_us() > state->until_us;
}

static bool take_found(const pal_found_row *found, void *user)
{
    search_state *state = user;

    if (is_late(state)) {
        state->stopped_below = (state->pieces ? found->row->seq : found->pos) + 1;
        return false;
    }
    if (!state->pieces)
        return look_at(state, found->row, found->handle, found->pos, found->handle.id);
    if (!pal_chain_pieces_have(state->pieces, state->pieces_len, found->handle, found->row->seq))
        return true;
    return look_at(state, found->row, found->handle, found->pos, state->search->session);
}

/* ---- The index ---- */

/* Adds up to `parts_max` missing parts to the index of the tenant (empty: of any tenant), until
 * `until_us` (0: without a time limit). Sets *out_more if more parts may be missing. */
static pal_status complete_index(pal_store *store, pal_str tenant, uint32_t parts_max,
        int64_t until_us, bool *out_more, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    pal_op op = {.status = PAL_OK};
    pal_status status = PAL_OK;

    *out_more = true;
    if (!arena)
        return pal_no_memory(err);
    for (uint32_t i = 0; *out_more && i < parts_max; i++) {
        pal_work work = {.op = &op, .now_ms = pal_store_now_ms(store->engine)};

        pal_arena_reset(arena);
        status = store->engine->backend->index_build(
                store->engine, tenant, arena, &work.index, out_more, err);
        if (status == PAL_OK && work.index)
            pal_writer_run(store->writer, &work, 1);
        else if (status != PAL_OK)
            *out_more = false;
        if (op.status != PAL_OK) {
            status = pal_error_set(err, op.status, "%s", op.error.message);
            *out_more = false;
        }
        if (until_us != 0 && pal_clock_monotonic_us() > until_us)
            break;
    }
    pal_arena_free(arena);
    return status;
}

static bool has_index(const pal_store *store)
{
    return store->engine->backend->index_build && !store->options.read_only;
}

pal_status pal_store_index(pal_store *store, uint32_t parts_max, bool *out_more, pal_error *err)
{
    bool more = false;
    pal_status status = PAL_OK;

    if (has_index(store))
        status = complete_index(store, pal_str_of(NULL), parts_max, 0, &more, err);
    if (out_more)
        *out_more = more;
    return status;
}

/* Rows without an index, because it is damaged or could not be written, are searched one by one. A
 * full disk must not prevent searching. */
pal_status pal_search_ready(
        pal_store *store, const pal_search_query *search, int64_t *out_until_us, pal_error *err)
{
    int64_t wait_us = (int64_t)search->wait_ms * 1000;
    int64_t until_us = wait_us ? pal_clock_monotonic_us() + wait_us : 0;
    pal_status status = PAL_OK;
    bool more;

    *out_until_us = 0;
    if (has_index(store))
        status = complete_index(store, search->tenant, UINT32_MAX, until_us, &more, err);
    if (wait_us)
        *out_until_us = pal_clock_monotonic_us() + wait_us;
    return status == PAL_NO_MEMORY ? status : PAL_OK;
}

static pal_status search_rows(
        pal_store *store, search_state *state, uint64_t below_pos, pal_error *err)
{
    pal_row_search rows = {.tenant = state->search->tenant,
            .query = &state->query,
            .role = state->search->role,
            .pieces = state->pieces,
            .pieces_len = state->pieces_len,
            .below_pos = below_pos};
    pal_status status =
            store->engine->backend->row_search(store->engine, &rows, take_found, state, err);

    return status != PAL_OK ? status : state->status;
}

/* ---- One session ---- */

bool pal_search_is_short(const pal_store *store, const pal_piece *pieces, size_t len)
{
    uint64_t rows = 0;

    for (size_t i = 0; i < len; i++)
        rows += pieces[i].last - pieces[i].first + 1;
    return !store->engine->backend->index_build || rows <= WALK_ROWS_MAX;
}

static pal_status walk_pieces(pal_store *store, search_state *state, pal_error *err)
{
    pal_status status = PAL_OK;

    for (size_t i = 0; status == PAL_OK && i < state->pieces_len; i++) {
        const pal_piece *piece = &state->pieces[i];
        pal_row_scan scan = {.handle = piece->handle,
                .first_seq = piece->first,
                .last_seq = piece->last,
                .descending = true};

        if (state->len >= state->wanted)
            break;
        state->handle = piece->handle;
        status = store->engine->backend->row_scan(store->engine, &scan, take_row, state, err);
        if (status == PAL_OK)
            status = state->status;
    }
    return status;
}

static pal_status search_session(pal_store *store, search_state *state, uint64_t below_seq,
        pal_arena *scratch, pal_error *err)
{
    const pal_search_query *search = state->search;
    uint64_t before_seq = search->before_seq;
    pal_piece *pieces;
    pal_session_row row;
    pal_status status =
            pal_view_session(store->engine, search->tenant, search->session, scratch, &row, err);

    if (below_seq != 0 && (before_seq == 0 || below_seq < before_seq))
        before_seq = below_seq;
    if (status == PAL_OK)
        status = pal_chain_pieces(store->engine, &row, search->after_seq, before_seq,
                search->hidden ? PAL_PIECES_ALL : PAL_PIECES_WHOLE, scratch,
                &pieces, &state->pieces_len, err);
    if (status != PAL_OK || state->pieces_len == 0)
        return status;
    state->pieces = pieces;
    if (pal_search_is_short(store, pieces, state->pieces_len))
        return walk_pieces(store, state, err);
    status = pal_search_ready(store, state->search, &state->until_us, err);
    return status == PAL_OK ? search_rows(store, state, 0, err) : status;
}

/* ---- A tenant ---- */

/* Of the candidates from `kept` on, keeps those that are visible in some session. */
static pal_status keep_shown(search_state *state, pal_visibility *visibility, size_t kept,
        pal_error *err)
{
    pal_status status = PAL_OK;
    size_t len = state->len;

    for (size_t i = kept; status == PAL_OK && i < len; i++) {
        candidate *found = &state->found[i];
        pal_id session;

        status = pal_visibility_find(
                visibility, found->hit.session, found->handle, found->hit.seq, &session, err);
        if (status != PAL_OK || pal_id_is_none(session))
            continue;
        state->found[kept] = *found;
        state->found[kept++].hit.session = session;
    }
    state->len = kept;
    return status;
}

static pal_status search_tenant(pal_store *store, search_state *state, uint64_t below_pos,
        pal_arena *scratch, pal_error *err)
{
    pal_status status = pal_search_ready(store, state->search, &state->until_us, err);
    bool is_full = true;
    pal_visibility visibility;

    pal_visibility_init(&visibility, store->engine, state->search->tenant,
            state->search->hidden ? PAL_PIECES_ALL : PAL_PIECES_WHOLE, scratch);
    while (status == PAL_OK && is_full && state->len < state->wanted) {
        size_t kept = state->len;

        status = search_rows(store, state, below_pos, err);
        is_full = state->len == state->wanted;
        if (is_full)
            below_pos = state->found[state->len - 1].pos;
        if (status == PAL_OK)
            status = keep_shown(state, &visibility, kept, err);
    }
    pal_visibility_done(&visibility);
    return status;
}

/* ---- Pages ---- */

/* The next page begins below the cursor. The cursor is the seq of the last hit or, in a search of a
 * tenant, its position. If the page was stopped early, the cursor is one more than the row at which
 * it stopped, so that the next page begins with that row. */
static pal_status read_cursor(const pal_search_query *search, uint64_t *out_below, pal_error *err)
{
    char wanted = pal_id_is_none(search->session) ? 'p' : 's', kind = 0;
    unsigned long long below = 0;
    char text[32];
    int end = 0;

    *out_below = 0;
    if (search->cursor.len == 0)
        return PAL_OK;
    if (search->cursor.len < sizeof(text)) {
        memcpy(text, search->cursor.data, search->cursor.len);
        text[search->cursor.len] = 0;
        if (sscanf(text, "%c%llu%n", &kind, &below, &end) == 2 && kind == wanted &&
                (size_t)end == search->cursor.len && below > 0) {
            *out_below = below;
            return PAL_OK;
        }
    }
    return pal_error_set(err, PAL_INVALID,
            "'cursor' is not valid; pass the cursor of the previous page");
}

static pal_str write_cursor(const search_state *state, uint64_t below)
{
    bool is_tenant = pal_id_is_none(state->search->session);
    char text[32];
    int len = snprintf(
            text, sizeof(text), "%c%llu", is_tenant ? 'p' : 's', (unsigned long long)below);

    return pal_arena_copy(state->arena, pal_str_make(text, (size_t)len));
}

static pal_status check_search(pal_search_query *search, pal_error *err)
{
    if (search->limit == 0)
        search->limit = PAL_SEARCH_HITS_DEFAULT;
    if (search->limit > PAL_SEARCH_HITS_MAX)
        return pal_error_set(err, PAL_LIMIT, "%u hits in one page exceed the limit of %d",
                search->limit, PAL_SEARCH_HITS_MAX);
    if (search->neighbors > PAL_SEARCH_NEIGHBORS_MAX)
        return pal_error_set(err, PAL_LIMIT, "%llu neighbors of a hit exceed the limit of %d",
                (unsigned long long)search->neighbors, PAL_SEARCH_NEIGHBORS_MAX);
    if (search->rank > PAL_RANK_QUESTIONS)
        return pal_error_set(err, PAL_INVALID, "'rank' is not a value of a search");
    if (search->neighbors > 0 && search->rank == PAL_RANK_NEVER)
        return pal_error_set(err, PAL_INVALID, "'neighbors' requires a ranked search");
    if (search->role > PAL_ROLE_TOOL)
        return pal_error_set(err, PAL_INVALID, "'role' is not a role of messages");
    if (pal_id_is_none(search->session) && (search->after_seq != 0 || search->before_seq != 0))
        return pal_error_set(err, PAL_INVALID, "a search by 'seq' requires a session");
    return pal_tenant_check(&search->tenant, err);
}

static void mark_matches(const search_state *state, pal_search_hit *hit)
{
    pal_search_match found[PAL_SEARCH_MATCHES_MAX], *matches;
    size_t len = pal_words_matches(&state->query, hit->snippet, found, PAL_SEARCH_MATCHES_MAX);

    matches = pal_arena_array(state->arena, len + 1, sizeof(*matches));
    if (!matches)
        return;
    memcpy(matches, found, len * sizeof(*matches));
    hit->matches = matches;
    hit->matches_len = len;
}

static pal_status give_hits(const search_state *state, pal_search_page *out_hits, pal_error *err)
{
    size_t limit = state->search->limit;
    pal_search_page hits = {.len = state->len < limit ? state->len : limit};

    hits.items = pal_arena_array(state->arena, hits.len + 1, sizeof(*hits.items));
    if (state->len > limit) {
        const candidate *last = &state->found[limit - 1];

        hits.cursor = write_cursor(
                state, pal_id_is_none(state->search->session) ? last->pos : last->hit.seq);
    } else if (state->stopped_below != 0) {
        hits.cursor = write_cursor(state, state->stopped_below);
        hits.partial = true;
    }
    if (!hits.items || pal_arena_failure(state->arena))
        return pal_no_memory(err);
    for (size_t i = 0; i < hits.len; i++) {
        hits.items[i] = state->found[i].hit;
        mark_matches(state, &hits.items[i]);
    }
    *out_hits = hits;
    return pal_arena_checked(state->arena, err);
}

static pal_status run_search(
        pal_store *store, search_state *state, uint64_t below, pal_arena *scratch, pal_error *err)
{
    pal_status status = pal_words_query_read(state->search->text, scratch, &state->query, err);

    if (status != PAL_OK)
        return status;
    state->wanted = (size_t)state->search->limit + 1;
    state->found = pal_arena_array(scratch, state->wanted, sizeof(*state->found));
    if (!state->found)
        return pal_no_memory(err);
    if (pal_id_is_none(state->search->session))
        return search_tenant(store, state, below, scratch, err);
    return search_session(store, state, below, scratch, err);
}

/* Decides whether the text is a question. A phrase or a prefix shows that the caller knows what the
 * message says. */
static pal_status decide_rank(pal_search_query *search, pal_arena *arena, pal_error *err)
{
    pal_query query;
    pal_status status = PAL_OK;

    if (search->rank != PAL_RANK_QUESTIONS)
        return PAL_OK;
    status = pal_words_query_read(search->text, arena, &query, err);
    search->rank = PAL_RANK_ALWAYS;
    for (size_t i = 0; status == PAL_OK && i < query.len; i++)
        if (query.phrases[i].is_quoted || query.phrases[i].is_prefix)
            search->rank = PAL_RANK_NEVER;
    return status;
}

pal_status pal_store_search(pal_store *store, const pal_search_query *search, pal_arena *arena,
        pal_search_page *out_hits, pal_error *err)
{
    pal_search_query checked = *search;
    search_state state = {.search = &checked, .arena = arena, .err = err};
    pal_arena *scratch = NULL;
    uint64_t below;
    pal_status status = check_search(&checked, err);

    if (status == PAL_OK)
        status = decide_rank(&checked, arena, err);
    if (status == PAL_OK && checked.rank != PAL_RANK_NEVER)
        return pal_search_best(store, &checked, arena, out_hits, err);
    if (status == PAL_OK)
        status = read_cursor(&checked, &below, err);
    if (status != PAL_OK)
        return status;
    pal_buf_init(&state.text, SIZE_MAX / 4);
    pal_buf_init(&state.normal, SIZE_MAX / 4);
    scratch = pal_arena_new(0);
    state.scratch = pal_arena_new(0);
    if (scratch && state.scratch)
        status = run_search(store, &state, below, scratch, err);
    else
        status = pal_no_memory(err);
    if (status == PAL_OK)
        status = give_hits(&state, out_hits, err);
    pal_buf_done(&state.text);
    pal_buf_done(&state.normal);
    pal_arena_free(state.scratch);
    pal_arena_free(scratch);
    return status;
}
