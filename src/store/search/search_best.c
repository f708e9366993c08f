/* search_best.c - ranked searches: the best hits first.
 *
 * A session that is not long is read completely. Otherwise the backend returns the rows that its
 * index chooses, and all rows that are not in the index. The words of each row are counted here, so
 * that all backends give the same scores. When all rows were seen, it is known how rare each word
 * is, and the rows are scored and sorted. Then the best ones are looked up: whether a session shows
 * them, and their snippets and neighbors. If too few are left, because filters discarded many, the
 * backend is asked for more rows.
 *
 * Any thread can call it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "palaver/limits.h"
#include "store/search/search.h"
#include "store/search/search_text.h"
#include "store/store_front.h"
#include "store/view/view.h"

enum {
    ROWS_FIRST = 256,    /* rows of the index that are read; more if the caller wants more hits */
    ROWS_GROWTH = 8,     /* if filters discard too many of them */
    ROWS_LAST = 16384,
    REQUIRED_ROWS_MAX = 20000, /* newest rows with a required phrase that are ranked */
    KEPT_ROWS_MAX = 16384,     /* rows that are kept for the ranking; then the worse ones go */
    CLOCK_ROWS = 64,           /* the clock is read once per this many rows */
    CURSOR_LEN_MAX = 8,
    AVERAGE_ROWS_MIN = 64, /* the average length is taken from so many rows without a choice */
};

/* How much the score of a neighbor adds to that of a message. */
#define NEIGHBOR_WEIGHT 0.2

/* A row with at least one of the words. */
typedef struct entry {
    pal_search_hit hit;
    uint64_t pos;
    pal_handle handle;
    uint32_t words;
    double own, score; /* without and with the neighbors */
    uint8_t counts[PAL_RANK_TERMS_MAX];
} entry;

/* The number of words in the rows of a kind, for their average. */
typedef struct lengths {
    double rows, words;
} lengths;

typedef struct ranking {
    pal_store *store;
    const pal_search_query *search;
    const pal_rank_query *query;
    const pal_piece *pieces; /* NULL: the search covers a tenant */
    size_t pieces_len;
    pal_visibility visibility; /* if it covers a tenant */
    pal_handle handle;         /* session of the piece that is being read */
    pal_arena *arena;   /* the caller's arena */
    pal_arena *scratch; /* temporary data of one row */
    pal_buf text;
    pal_buf normal;
    entry *entries;
    size_t len, cap;
    pal_rank_counts counts;   /* rows in the index */
    pal_rank_counts counted;  /* rows that were read and are not in the index */
    lengths plain, chosen;    /* rows that were not and that were chosen by their words */
    double weights[PAL_RANK_TERMS_MAX];
    size_t rows_left;   /* of REQUIRED_ROWS_MAX */
    int64_t until_us;   /* stop at this time; 0: no limit */
    uint32_t looked_at; /* rows since the clock was last read */
    bool is_late;       /* stopped at that time */
    pal_status status;
    pal_error *err;
} ranking;

/* ---- Scores ---- */

static void weigh_terms(ranking *r)
{
    for (size_t i = 0; i < r->query->len; i++)
        r->weights[i] = pal_rank_weight(
                r->counts.rows + r->counted.rows, r->counts.terms[i] + r->counted.terms[i]);
}

static double average_of(const ranking *r)
{
    double rows = r->plain.rows, words = r->plain.words;

    if (rows < AVERAGE_ROWS_MIN) {
        rows += r->chosen.rows;
        words += r->chosen.words;
    }
    return rows > 0 ? words / rows : 1;
}

static void score_entries(ranking *r)
{
    double average = average_of(r);

    weigh_terms(r);
    for (size_t i = 0; i < r->len; i++) {
        entry *of = &r->entries[i];

        of->own = 0;
        for (size_t term = 0; term < r->query->len; term++)
            if (of->counts[term])
                of->own += pal_rank_score(
                        r->weights[term], of->counts[term], of->words, average);
        of->score = of->own;
    }
}

static int compare_seqs(const void *left, const void *right)
{
    const entry *a = left, *b = right;
    int order = memcmp(a->handle.id.bytes, b->handle.id.bytes, sizeof(a->handle.id.bytes));

    if (a->handle.number != b->handle.number)
        return a->handle.number < b->handle.number ? -1 : 1;
    return order ? order : (a->hit.seq > b->hit.seq) - (a->hit.seq < b->hit.seq);
}

static int compare_scores(const void *left, const void *right)
{
    const entry *a = left, *b = right;

    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    if (a->pos != b->pos)
        return a->pos > b->pos ? -1 : 1;
    return (a->hit.seq < b->hit.seq) - (a->hit.seq > b->hit.seq);
}

/* With a role, the messages of others lie between neighbors. */
static bool are_neighbors(const ranking *r, const entry *a, const entry *b)
{
    uint64_t distance = r->search->role == PAL_ROLE_NONE ? 1 : 2;

    return pal_handle_equal(a->handle, b->handle) && b->hit.seq - a->hit.seq <= distance;
}

static void sort_entries(ranking *r)
{
    score_entries(r);
    if (r->len == 0)
        return;
    qsort(r->entries, r->len, sizeof(*r->entries), compare_seqs);
    for (size_t i = 1; i < r->len; i++) {
        entry *a = &r->entries[i - 1], *b = &r->entries[i];

        if (!are_neighbors(r, a, b))
            continue;
        a->score += NEIGHBOR_WEIGHT * b->own;
        b->score += NEIGHBOR_WEIGHT * a->own;
    }
    qsort(r->entries, r->len, sizeof(*r->entries), compare_scores);
}

/* ---- Rows ---- */

/* Converts the row's text. A damaged row has none; fsck reports it. */
static bool read_text(ranking *r, const pal_row *row)
{
    pal_status status;

    pal_buf_clear(&r->text);
    pal_buf_clear(&r->normal);
    status = pal_row_text(row, r->scratch, &r->text, r->err);
    if (status == PAL_OK)
        pal_words_normal(pal_buf_str(&r->text), &r->normal);
    if (status == PAL_OK && r->normal.failure)
        status = pal_error_set(r->err, r->normal.failure,
                "out of memory, or a message is too long to search");
    if (status != PAL_OK && status != PAL_CORRUPT)
        r->status = status;
    return status == PAL_OK;
}

static bool has_required(const ranking *r)
{
    size_t at;

    return r->query->required.len == 0 ||
            pal_words_query_match(&r->query->required, pal_buf_str(&r->normal), &at);
}

static void count_row(ranking *r, uint64_t found, uint32_t words, bool is_counted)
{
    lengths *kind = is_counted ? &r->chosen : &r->plain;

    kind->rows++;
    kind->words += words;
    if (is_counted)
        return;
    r->counted.rows++;
    for (; found; found &= found - 1)
        r->counted.terms[__builtin_ctzll(found)]++;
}

static void keep_row(ranking *r, const pal_row *row, pal_handle handle, uint64_t pos,
        pal_id session, const entry *counts)
{
    entry *kept;

    if (r->len == KEPT_ROWS_MAX) {
        sort_entries(r);
        r->len /= 4;
    }
    if (!pal_reserve(&r->entries, &r->cap, r->len + 1, sizeof(*r->entries))) {
        r->status = pal_no_memory(r->err);
        return;
    }
    kept = &r->entries[r->len++];
    *kept = *counts;
    kept->hit = (pal_search_hit){.session = session,
            .seq = row->seq,
            .message = row->id,
            .role = row->role,
            .created_at = row->created_at};
    kept->pos = pos;
    kept->handle = handle;
    kept->handle.ahead = NULL;
    kept->handle.tenant = r->search->tenant;
}

/* Returns false when no more rows are wanted. */
static bool look_at(ranking *r, const pal_row *row, pal_handle handle, uint64_t pos, pal_id session,
        bool is_counted)
{
    entry counts = {.words = 0};
    uint64_t found;

    pal_arena_reset(r->scratch);
    if (!pal_search_wants(r->search, row, r->scratch) || !read_text(r, row))
        return r->status == PAL_OK;
    found = pal_rank_tally(r->query, pal_buf_str(&r->normal), counts.counts, &counts.words);
    count_row(r, found, counts.words, is_counted);
    if (found && has_required(r))
        keep_row(r, row, handle, pos, session, &counts);
    return r->status == PAL_OK;
}

static bool take_row(const pal_row *row, void *user)
{
    ranking *r = user;

    return look_at(r, row, r->handle, 0, r->search->session, false);
}

static bool is_late(ranking *r, bool is_counted)
{
    if (is_counted || r->until_us == 0 || ++r->looked_at < CLOCK_ROWS)
        return false;
    r->looked_at = 0;
    r->is_late = pal_clock_monotonic_us() > r->until_us;
    return r->is_late;
}

static bool take_found(const pal_found_row *found, void *user)
{
    ranking *r = user;
    bool is_there = !r->pieces ||
            pal_chain_pieces_have(r->pieces, r->pieces_len, found->handle, found->row->seq);

    if (is_late(r, found->is_counted) || r->rows_left-- == 0)
        return false;
    return !is_there ||
            look_at(r, found->row, found->handle, found->pos,
                    r->pieces ? r->search->session : found->handle.id, found->is_counted);
}

static pal_status walk_pieces(ranking *r)
{
    pal_engine *engine = r->store->engine;
    pal_status status = PAL_OK;

    for (size_t i = 0; status == PAL_OK && i < r->pieces_len; i++) {
        const pal_piece *piece = &r->pieces[i];
        pal_row_scan scan = {.handle = piece->handle,
                .first_seq = piece->first,
                .last_seq = piece->last,
                .descending = true};

        r->handle = piece->handle;
        status = engine->backend->row_scan(engine, &scan, take_row, r, r->err);
        if (status == PAL_OK)
            status = r->status;
    }
    return status;
}

/* Forgets the rows that were seen so far. */
static void forget_rows(ranking *r)
{
    r->len = 0;
    r->rows_left = SIZE_MAX;
    memset(&r->counts, 0, sizeof(r->counts));
    memset(&r->counted, 0, sizeof(r->counted));
    r->plain = r->chosen = (lengths){0, 0};
}

/* Ranks all rows that have the required phrases. */
static pal_status search_required(ranking *r)
{
    pal_engine *engine = r->store->engine;
    pal_row_search rows = {.tenant = r->search->tenant,
            .query = &r->query->required,
            .role = r->search->role,
            .pieces = r->pieces,
            .pieces_len = r->pieces_len};
    pal_status status;

    r->rows_left = REQUIRED_ROWS_MAX;
    status = engine->backend->row_search(engine, &rows, take_found, r, r->err);
    return status == PAL_OK ? r->status : status;
}

static pal_status search_index(ranking *r, size_t rows_max)
{
    pal_engine *engine = r->store->engine;
    pal_row_rank rank = {.tenant = r->search->tenant,
            .query = r->query,
            .role = r->search->role,
            .pieces = r->pieces,
            .pieces_len = r->pieces_len,
            .rows_max = rows_max};
    pal_status status =
            engine->backend->row_rank(engine, &rank, take_found, r, &r->counts, r->err);

    return status == PAL_OK ? r->status : status;
}

/* ---- Hits ---- */

typedef struct excerpt {
    ranking *r;
    pal_search_hit *hit; /* NULL: a neighbor */
    pal_search_neighbor *neighbor;
} excerpt;

static bool take_excerpt(const pal_row *row, void *user)
{
    excerpt *of = user;
    ranking *r = of->r;
    pal_search_match found[PAL_SEARCH_MATCHES_MAX], *matches;
    pal_str text;

    pal_arena_reset(r->scratch);
    if (!read_text(r, row))
        return false;
    text = pal_buf_str(&r->text);
    if (!of->hit) {
        *of->neighbor = (pal_search_neighbor){.seq = row->seq,
                .message = row->id,
                .role = row->role,
                .created_at = row->created_at,
                .text = pal_words_snippet(text, 0, r->arena)};
        return false;
    }
    of->hit->snippet =
            pal_words_snippet(text, pal_rank_place(r->query, r->weights, text), r->arena);
    of->hit->matches_len =
            pal_rank_matches(r->query, of->hit->snippet, found, PAL_SEARCH_MATCHES_MAX);
    matches = pal_arena_array(r->arena, of->hit->matches_len + 1, sizeof(*matches));
    if (matches)
        memcpy(matches, found, of->hit->matches_len * sizeof(*matches));
    of->hit->matches = matches;
    return false;
}

static pal_status read_excerpt(ranking *r, pal_handle handle, uint64_t seq, excerpt *of)
{
    pal_row_scan scan = {.handle = handle, .first_seq = seq, .last_seq = seq, .rows_hint = 1};
    pal_status status = r->store->engine->backend->row_scan(
            r->store->engine, &scan, take_excerpt, of, r->err);

    return status == PAL_OK ? r->status : status;
}

/* Steps from a row to the one that the pieces show before or after it. Returns false if there is
 * none. */
static bool step(const pal_piece *pieces, size_t len, size_t *at, uint64_t *seq, bool is_forward)
{
    if (is_forward && *seq < pieces[*at].last)
        ++*seq;
    else if (is_forward && *at > 0)
        *seq = pieces[--*at].first;
    else if (!is_forward && *seq > pieces[*at].first)
        --*seq;
    else if (!is_forward && *at + 1 < len)
        *seq = pieces[++*at].last;
    else
        return false;
    return true;
}

static pal_status add_neighbors(ranking *r, const pal_piece *pieces, size_t len, const entry *of,
        pal_search_rank *rank)
{
    size_t start = 0, at, most = (size_t)r->search->neighbors;
    pal_search_neighbor *items = pal_arena_array(r->arena, 2 * most + 1, sizeof(*items));
    uint64_t seq = of->hit.seq;
    pal_status status = PAL_OK;

    if (!items)
        return pal_no_memory(r->err);
    while (start < len && (pieces[start].first > seq || pieces[start].last < seq))
        start++;
    if (start == len)
        return PAL_OK;
    at = start;
    for (size_t i = 0; i < most && step(pieces, len, &at, &seq, false);)
        i++;
    rank->neighbors = items;
    /* Goes forward from the first neighbor, over the hit. */
    for (size_t after = 0; status == PAL_OK && after <= most;) {
        excerpt own = {.r = r, .neighbor = &items[rank->neighbors_len]};

        if (seq != of->hit.seq) {
            *own.neighbor = (pal_search_neighbor){.seq = 0};
            status = read_excerpt(r, pieces[at].handle, seq, &own);
            rank->neighbors_len += own.neighbor->seq != 0;
        }
        if (seq >= of->hit.seq)
            after++;
        if (after <= most && !step(pieces, len, &at, &seq, true))
            break;
    }
    return status;
}

static pal_status fill_hit(ranking *r, const entry *of, pal_search_hit *hit)
{
    const pal_piece *pieces = r->pieces;
    size_t len = r->pieces_len;
    pal_search_rank *rank = pal_arena_alloc(r->arena, sizeof(*rank));
    excerpt own = {.r = r, .hit = hit};
    pal_status status;

    if (!rank)
        return pal_no_memory(r->err);
    *rank = (pal_search_rank){.score = of->score};
    hit->rank = rank;
    status = read_excerpt(r, of->handle, of->hit.seq, &own);
    if (status != PAL_OK || r->search->neighbors == 0)
        return status;
    if (!pieces)
        status = pal_visibility_pieces(&r->visibility, hit->session, &pieces, &len, r->err);
    return status == PAL_OK ? add_neighbors(r, pieces, len, of, rank) : status;
}

/* Returns the session that shows the row; none if there is none. */
static pal_status find_session(ranking *r, const entry *of, pal_id *out_session)
{
    *out_session = of->hit.session;
    if (r->pieces)
        return PAL_OK;
    return pal_visibility_find(&r->visibility, of->hit.session, of->handle, of->hit.seq,
            out_session, r->err);
}

static pal_str write_cursor(const ranking *r, size_t offset)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "r%zu", offset);

    return pal_arena_copy(r->arena, pal_str_make(text, (size_t)len));
}

/* Makes a page of the hits after the first `offset` ones. *out_full: there are enough of them. */
static pal_status give_hits(ranking *r, size_t offset, pal_search_page *out_hits, bool *out_full)
{
    size_t limit = r->search->limit, shown = 0;
    pal_search_page page = {.partial = r->is_late};
    pal_status status = PAL_OK;

    page.items = pal_arena_array(r->arena, limit + 1, sizeof(*page.items));
    if (!page.items)
        return pal_no_memory(r->err);
    sort_entries(r);
    for (size_t i = 0; status == PAL_OK && shown <= offset + limit && i < r->len; i++) {
        pal_id session;

        status = find_session(r, &r->entries[i], &session);
        if (status != PAL_OK || pal_id_is_none(session) || shown++ < offset)
            continue;
        if (page.len < limit) {
            page.items[page.len] = r->entries[i].hit;
            page.items[page.len].session = session;
            status = fill_hit(r, &r->entries[i], &page.items[page.len]);
            page.len++;
        }
    }
    *out_full = shown > offset + limit;
    if (*out_full)
        page.cursor = write_cursor(r, offset + limit);
    *out_hits = page;
    return status == PAL_OK ? pal_arena_checked(r->arena, r->err) : status;
}

/* ---- The search ---- */

/* The cursor is the number of hits before the page. */
static pal_status read_cursor(const pal_search_query *search, size_t *out_offset, pal_error *err)
{
    bool is_valid = search->cursor.len == 0 ||
            (search->cursor.len > 1 && search->cursor.len <= CURSOR_LEN_MAX &&
                    search->cursor.data[0] == 'r');

    *out_offset = 0;
    for (size_t i = 1; is_valid && i < search->cursor.len; i++) {
        is_valid = search->cursor.data[i] >= '0' && search->cursor.data[i] <= '9';
        *out_offset = *out_offset * 10 + (size_t)(search->cursor.data[i] - '0');
    }
    if (is_valid)
        return PAL_OK;
    return pal_error_set(err, PAL_INVALID,
            "'cursor' is not valid; pass the cursor of the previous page");
}

/* Asks the index for rows until the page is full. */
static pal_status search_deeper(ranking *r, size_t offset, pal_search_page *out_hits)
{
    size_t rows_max = 2 * (offset + r->search->limit) + ROWS_FIRST;
    bool is_full = false;
    pal_status status;

    do {
        forget_rows(r);
        if (r->query->required.len > 0)
            status = search_required(r);
        else
            status = search_index(r, rows_max);
        if (status == PAL_OK)
            status = give_hits(r, offset, out_hits, &is_full);
        rows_max *= ROWS_GROWTH;
    } while (status == PAL_OK && !is_full && r->counts.more && rows_max <= ROWS_LAST * ROWS_GROWTH);
    return status;
}

static pal_status rank_session(ranking *r, size_t offset, pal_arena *scratch,
        pal_search_page *out_hits)
{
    const pal_search_query *search = r->search;
    pal_engine *engine = r->store->engine;
    pal_session_row row;
    pal_piece *pieces;
    bool is_full;
    pal_status status =
            pal_view_session(engine, search->tenant, search->session, scratch, &row, r->err);

    if (status == PAL_OK)
        status = pal_chain_pieces(engine, &row, search->after_seq, search->before_seq,
                search->hidden ? PAL_PIECES_ALL : PAL_PIECES_WHOLE, scratch, &pieces,
                &r->pieces_len, r->err);
    if (status != PAL_OK)
        return status;
    r->pieces = pieces;
    if (pal_search_is_short(r->store, pieces, r->pieces_len)) {
        forget_rows(r);
        status = walk_pieces(r);
        return status == PAL_OK ? give_hits(r, offset, out_hits, &is_full) : status;
    }
    status = pal_search_ready(r->store, search, &r->until_us, r->err);
    return status == PAL_OK ? search_deeper(r, offset, out_hits) : status;
}

static pal_status rank_tenant(ranking *r, size_t offset, pal_arena *scratch,
        pal_search_page *out_hits)
{
    pal_status status = pal_search_ready(r->store, r->search, &r->until_us, r->err);

    pal_visibility_init(&r->visibility, r->store->engine, r->search->tenant,
            r->search->hidden ? PAL_PIECES_ALL : PAL_PIECES_WHOLE, scratch);
    if (status == PAL_OK)
        status = search_deeper(r, offset, out_hits);
    pal_visibility_done(&r->visibility);
    return status;
}

static pal_status run_search(ranking *r, pal_arena *scratch, pal_search_page *out_hits)
{
    pal_rank_query *query;
    size_t offset;
    pal_status status = read_cursor(r->search, &offset, r->err);

    if (status == PAL_OK)
        status = pal_rank_query_read(r->search->text, scratch, &query, r->err);
    if (status != PAL_OK)
        return status;
    r->query = query;
    if (pal_id_is_none(r->search->session))
        return rank_tenant(r, offset, scratch, out_hits);
    return rank_session(r, offset, scratch, out_hits);
}

pal_status pal_search_best(pal_store *store, const pal_search_query *search, pal_arena *arena,
        pal_search_page *out_hits, pal_error *err)
{
    ranking r = {.store = store, .search = search, .arena = arena, .err = err};
    pal_search_page hits = {0};
    pal_arena *scratch = pal_arena_new(0);
    pal_status status;

    pal_buf_init(&r.text, SIZE_MAX / 4);
    pal_buf_init(&r.normal, SIZE_MAX / 4);
    r.scratch = pal_arena_new(0);
    status = scratch && r.scratch ? run_search(&r, scratch, &hits) : pal_no_memory(err);
    if (status == PAL_OK)
        *out_hits = hits;
    pal_free(r.entries);
    pal_buf_done(&r.text);
    pal_buf_done(&r.normal);
    pal_arena_free(r.scratch);
    pal_arena_free(scratch);
    return status;
}
