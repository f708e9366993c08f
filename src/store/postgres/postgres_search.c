/* postgres_search.c - finds the rows that may match, from the newest to the oldest.
 *
 * First come the messages that are in no block yet, then the blocks of the index, the newest first.
 * In a block the rows of all terms are intersected as bitmaps, and only the remaining rows are
 * read. A summary says which of its blocks can have all terms. One statement looks at several
 * blocks or summaries at the same level. If a block is missing or damaged, its rows are scanned.
 *
 * Each statement sees a snapshot of its own. This is safe: a block never gets other rows or words
 * than it had, it can only lose them by an erasure. A statement returns a block together with its
 * chunks, so they fit together. Any thread can call it. */
#include <string.h>

#include "base/memory.h"
#include "store/search/search_choose.h"
#include "store/postgres/index/index_postgres.h"

enum {
    SCAN_ROWS = 256,      /* rows of one statement of a scan */
    FETCH_ROWS_FIRST = 8, /* rows of the first statement that reads rows by their positions */
    FETCH_ROWS_MAX = 64,
    LOOK_NODES_FIRST = 4, /* blocks or summaries of the first statement */
    LOOK_NODES_MAX = PAL_GROUP_CHILDREN,
    LOOK_TERMS_MAX = 512, /* blocks or summaries, times terms, of one statement */
    TERMS_MAX = 256,
    SESSIONS_MAX = 32,  /* the index does not distinguish more ancestors */
    PIECES_MAX = 1000,  /* with more pieces, the whole index is searched */
    RANK_ROWS = 256, /* rows of one statement that reads the rows of a ranked search */
    WIDE_MAX = 16,   /* messages that are too long for the index and that it reads */
    NODES_MAX = (PAL_GROUP_LEVELS + 1) * LOOK_NODES_MAX * PAL_GROUP_CHILDREN,
};

/* Where a term occurs: in blocks and summaries, only in blocks, only in summaries. */
typedef enum term_place { EVERYWHERE = 0, IN_BLOCKS = 1, IN_GROUPS = 2 } term_place;

typedef struct search_term {
    pal_term term;
    char text[PAL_POSTGRES_TERM_SIZE]; /* the text of a term for a role or a session */
    term_place place;
    bool is_session; /* a row must have one of these; it must have all others */
} search_term;

/* A block (level 0) or a summary. */
typedef struct node {
    int level;
    int64_t number;
} node;

typedef struct search_state {
    pal_postgres *store;
    const pal_row_search *search;
    int64_t tenant;
    search_term terms[TERMS_MAX + SESSIONS_MAX + 2];
    size_t terms_len;
    int64_t first_pos, last_pos;     /* the rows to examine */
    int64_t first_block, next_block; /* the blocks that are not among the nodes yet */
    int64_t gap_end;                 /* rows of missing blocks from here on were scanned */
    node nodes[NODES_MAX];           /* the next one is the last */
    size_t nodes_len;
    int64_t found[PAL_BLOCK_ROWS]; /* positions of rows to read, descending */
    size_t found_len;
    size_t fetch_rows, look_nodes;
    pal_found_sink sink;
    void *user;
    bool wanted; /* the sink accepts more rows */
    bool is_counted; /* the counts of a ranked search include the rows */
} search_state;

/* ---- Rows ---- */

static void report_row(search_state *state, const PGresult *result, int line)
{
    pal_row row;
    pal_found_row found = {.row = &row,
            .pos = (uint64_t)pal_postgres_int(result, line, 10),
            .is_counted = state->is_counted,
            .handle = {.number = 1,
                    .id = pal_postgres_id(result, line, 11),
                    .tenant = state->search->tenant}};

    pal_postgres_row_read(result, line, &row);
    if (state->search->role == PAL_ROLE_NONE || state->search->role == row.role)
        state->wanted = state->sink(&found, state->user);
}

/* Passes all rows of a range of positions, inclusive, to the sink. */
static pal_status scan(search_state *state, int64_t first, int64_t last, pal_error *err)
{
    int len = SCAN_ROWS;

    first = first > state->first_pos ? first : state->first_pos;
    last = last < state->last_pos ? last : state->last_pos;
    while (state->wanted && len == SCAN_ROWS && first <= last) {
        pal_postgres_params params = {0};
        PGresult *result = NULL;
        pal_status status;

        pal_postgres_put_int(&params, state->tenant);
        pal_postgres_put_int(&params, last + 1);
        pal_postgres_put_int(&params, first - 1);
        pal_postgres_put_int(&params, SCAN_ROWS);
        status = pal_postgres_read(
                state->store, PAL_POSTGRES_MESSAGE_ARRIVALS, &params, &result, err);
        if (status != PAL_OK)
            return status;
        len = PQntuples(result);
        for (int i = 0; state->wanted && i < len; i++)
            report_row(state, result, i);
        if (len > 0)
            last = pal_postgres_int(result, len - 1, 10) - 1;
        PQclear(result);
    }
    return PAL_OK;
}

/* Reads the rows that were found so far. */
static pal_status fetch(search_state *state, pal_error *err)
{
    size_t at = 0;

    while (state->wanted && at < state->found_len) {
        pal_postgres_params params = {0};
        pal_postgres_param *positions;
        PGresult *result = NULL;
        pal_status status;

        pal_postgres_put_int(&params, state->tenant);
        positions = pal_postgres_put_array(&params, PAL_POSTGRES_INT8);
        for (size_t i = 0; i < state->fetch_rows && at < state->found_len; i++)
            pal_postgres_add_int(positions, state->found[at++]);
        status = pal_postgres_read(
                state->store, PAL_POSTGRES_SEARCH_ROWS, &params, &result, err);
        if (status != PAL_OK)
            return status;
        for (int i = 0; state->wanted && i < PQntuples(result); i++)
            report_row(state, result, i);
        PQclear(result);
        if (state->fetch_rows < FETCH_ROWS_MAX)
            state->fetch_rows *= 2;
    }
    state->found_len = 0;
    return PAL_OK;
}

/* ---- Nodes ---- */

static void push(search_state *state, int level, int64_t number)
{
    int64_t first = number << (PAL_GROUP_SHIFT * level);

    if (first + (INT64_C(1) << (PAL_GROUP_SHIFT * level)) > state->first_block)
        state->nodes[state->nodes_len++] = (node){level, number};
}

/* Pushes the children of a summary whose bit is set, so that the newest is the next one. */
static void push_children(
        search_state *state, const node *parent, const pal_block_bitmap *children)
{
    for (int i = 0; i < PAL_GROUP_CHILDREN; i++)
        if (pal_block_bitmap_has(children, (size_t)i))
            push(state, parent->level - 1, (parent->number << PAL_GROUP_SHIFT) + i);
}

/* Returns the level of the largest summary that ends with the block, if it exists. */
static int level_of(int64_t block)
{
    int level = PAL_GROUP_LEVELS;

    while (level > 0 && (block + 1) % (INT64_C(1) << (PAL_GROUP_SHIFT * level)) != 0)
        level--;
    return level;
}

/* Pushes the next blocks or summaries. */
static void refill(search_state *state)
{
    node added[LOOK_NODES_MAX];
    size_t len = 0;

    while (len < LOOK_NODES_MAX && state->next_block >= state->first_block) {
        int level = level_of(state->next_block);

        added[len++] = (node){level, state->next_block >> (PAL_GROUP_SHIFT * level)};
        state->next_block -= INT64_C(1) << (PAL_GROUP_SHIFT * level);
    }
    while (len > 0)
        state->nodes[state->nodes_len++] = added[--len];
}

/* Takes nodes of one kind, blocks or summaries, the newest first. */
static size_t take_nodes(search_state *state, node out_nodes[LOOK_NODES_MAX])
{
    size_t most = LOOK_TERMS_MAX / (state->terms_len + 1), len = 0;

    if (most > state->look_nodes)
        most = state->look_nodes;
    if (most == 0)
        most = 1;
    while (len < most && state->nodes_len > 0 &&
            (len == 0 ||
                    (state->nodes[state->nodes_len - 1].level > 0) == (out_nodes[0].level > 0)))
        out_nodes[len++] = state->nodes[--state->nodes_len];
    if (state->look_nodes < LOOK_NODES_MAX)
        state->look_nodes *= 2;
    return len;
}

/* ---- Looking ---- */

/* Adds the rows of a term to the bitmap. Returns false if the node has no sound chunk for it. The
 * lines are sorted by the node and the term only within one node and term. */
static bool find_term(const PGresult *looked, size_t node_at, size_t term_at,
        const search_term *wanted, pal_block_bitmap *rows)
{
    bool more = true, is_found = false;

    for (int i = 0; more && i < PQntuples(looked); i++) {
        if (pal_postgres_int(looked, i, 0) != (int64_t)node_at + 1 ||
                pal_postgres_int(looked, i, 1) != (int64_t)term_at + 1)
            continue;
        if (!pal_block_chunk_find(pal_postgres_str(looked, i, 5), wanted->term, rows, &more))
            return false;
        is_found = true;
    }
    return is_found;
}

/* Returns the line of the node itself, or -1 if it is missing or not built. */
static int find_node(const PGresult *looked, size_t node_at)
{
    for (int i = 0; i < PQntuples(looked); i++)
        if (pal_postgres_int(looked, i, 0) == (int64_t)node_at + 1 &&
                pal_postgres_int(looked, i, 1) == 0)
            return i;
    return -1;
}

/* Finds the rows that have all terms, and one of the sessions. `wide` has the rows that are not
 * indexed. Returns false if the node is damaged. */
static bool join_terms(const search_state *state, const PGresult *looked, size_t node_at,
        term_place place, const pal_block_bitmap *wide, pal_block_bitmap *out_rows)
{
    pal_block_bitmap any = {{0}};
    bool has_sessions = false;

    memset(out_rows, 0xff, sizeof *out_rows);
    for (size_t i = 0; i < state->terms_len; i++) {
        const search_term *term = &state->terms[i];
        pal_block_bitmap own = {{0}};

        if (term->place != EVERYWHERE && term->place != place)
            continue;
        if (term->place == IN_GROUPS)
            continue; /* it is part of `wide` */
        if (!find_term(looked, node_at, i, term, term->is_session ? &any : &own))
            return false;
        has_sessions = has_sessions || term->is_session;
        if (term->is_session)
            continue;
        if (term->place == EVERYWHERE)
            pal_block_bitmap_or(&own, wide);
        pal_block_bitmap_and(out_rows, &own);
    }
    if (has_sessions)
        pal_block_bitmap_and(out_rows, &any);
    return true;
}

/* The children of a summary that is missing or damaged are all looked at. */
static void look_at_group(
        search_state *state, const PGresult *looked, size_t node_at, const node *group)
{
    int line = find_node(looked, node_at);
    pal_block_bitmap wide = {{0}}, children;
    bool is_sound = line >= 0 && pal_postgres_int(looked, line, 2) != 0;

    for (size_t i = 0; is_sound && i < state->terms_len; i++)
        if (state->terms[i].place == IN_GROUPS)
            is_sound = find_term(looked, node_at, i, &state->terms[i], &wide);
    if (!is_sound || !join_terms(state, looked, node_at, IN_GROUPS, &wide, &children))
        memset(&children, 0xff, sizeof children);
    push_children(state, group, &children);
}

/* Scans the rows between the blocks before and after a missing one. */
static pal_status scan_gap(search_state *state, int64_t block, pal_error *err)
{
    pal_postgres_params params = {0};
    PGresult *result = NULL;
    pal_status status;
    int64_t first, last;

    pal_postgres_put_int(&params, state->tenant);
    pal_postgres_put_int(&params, block);
    pal_postgres_put_int(&params, state->gap_end);
    status = pal_postgres_read(state->store, PAL_POSTGRES_SEARCH_AROUND, &params, &result, err);
    if (status != PAL_OK)
        return status;
    first = pal_postgres_int(result, 0, 0) + 1;
    last = pal_postgres_int(result, 0, 1) - 1;
    PQclear(result);
    last = last < state->gap_end ? last : state->gap_end - 1;
    status = scan(state, first, last, err);
    state->gap_end = first < state->gap_end ? first : state->gap_end;
    return status;
}

/* Adds the positions of the rows to those to read. */
static pal_status add_found(search_state *state, const int64_t *positions, size_t len,
        const pal_block_bitmap *rows, pal_error *err)
{
    pal_status status = PAL_OK;

    for (size_t i = len; status == PAL_OK && i-- > 0;) {
        if (!pal_block_bitmap_has(rows, i) || positions[i] < state->first_pos ||
                positions[i] > state->last_pos)
            continue;
        state->found[state->found_len++] = positions[i];
        if (state->found_len == state->fetch_rows)
            status = fetch(state, err);
        if (!state->wanted)
            break;
    }
    return status;
}

static pal_status look_at_block(search_state *state, const PGresult *looked, size_t node_at,
        const node *block, pal_error *err)
{
    int line = find_node(looked, node_at);
    int64_t positions[PAL_BLOCK_ROWS], first, last;
    pal_block_bitmap wide = {{0}}, rows;
    pal_status status;
    pal_str bytes;
    size_t len;

    if (line < 0) {
        status = fetch(state, err);
        return status == PAL_OK ? scan_gap(state, block->number, err) : status;
    }
    first = pal_postgres_int(looked, line, 3);
    last = pal_postgres_int(looked, line, 4);
    bytes = pal_postgres_str(looked, line, 6);
    len = pal_postgres_positions_read(
            pal_postgres_str(looked, line, 5), first, positions);
    if (pal_postgres_int(looked, line, 2) != 0 && len != SIZE_MAX &&
            (bytes.len == 0 || pal_block_bitmap_read(bytes, &wide)) &&
            join_terms(state, looked, node_at, IN_BLOCKS, &wide, &rows))
        return add_found(state, positions, len, &rows, err);
    status = fetch(state, err);
    return status == PAL_OK ? scan(state, first, last, err) : status;
}

/* Adds the range of terms that a term stands for. UTF-8 has no byte 0xff, so no word has it. */
static void put_range(const pal_term *term, term_place place, pal_postgres_param *lows,
        pal_postgres_param *highs, pal_postgres_param *places)
{
    char high[PAL_TERM_LEN_MAX + 1];

    memcpy(high, term->text.data, term->text.len);
    high[term->text.len] = (char)0xff;
    pal_postgres_add_bytes(lows, term->text);
    pal_postgres_add_bytes(highs, pal_str_make(high, term->text.len + term->is_prefix));
    pal_postgres_add_int(places, place);
}

static void put_look(const search_state *state, const node *nodes, size_t len,
        pal_postgres_params *params)
{
    pal_postgres_param *levels, *numbers, *lows, *highs, *places;

    pal_postgres_put_int(params, state->tenant);
    levels = pal_postgres_put_array(params, PAL_POSTGRES_INT8);
    numbers = pal_postgres_put_array(params, PAL_POSTGRES_INT8);
    lows = pal_postgres_put_array(params, PAL_POSTGRES_BYTES);
    highs = pal_postgres_put_array(params, PAL_POSTGRES_BYTES);
    places = pal_postgres_put_array(params, PAL_POSTGRES_INT8);
    for (size_t i = 0; i < len; i++) {
        pal_postgres_add_int(levels, nodes[i].level);
        pal_postgres_add_int(numbers, nodes[i].number);
    }
    for (size_t i = 0; i < state->terms_len; i++)
        put_range(&state->terms[i].term, state->terms[i].place, lows, highs, places);
}

static pal_status look(search_state *state, pal_error *err)
{
    node nodes[LOOK_NODES_MAX];
    pal_postgres_params params = {0};
    PGresult *looked = NULL;
    size_t len = take_nodes(state, nodes);
    pal_status status;

    put_look(state, nodes, len, &params);
    status = pal_postgres_read(state->store, PAL_POSTGRES_SEARCH_LOOK, &params, &looked, err);
    if (status != PAL_OK)
        return status;
    if (nodes[0].level > 0)
        for (size_t i = len; i-- > 0;) /* the newest is pushed last */
            look_at_group(state, looked, i, &nodes[i]);
    else
        for (size_t i = 0; status == PAL_OK && state->wanted && i < len; i++)
            status = look_at_block(state, looked, i, &nodes[i], err);
    PQclear(looked);
    return status;
}

/* ---- The search ---- */

static search_term *new_term(search_state *state, term_place place)
{
    search_term *term = &state->terms[state->terms_len++];

    *term = (search_term){.place = place};
    return term;
}

static bool add_word(pal_term word, void *user)
{
    search_state *state = user;

    new_term(state, EVERYWHERE)->term = word;
    return state->terms_len < TERMS_MAX;
}

static void add_terms(search_state *state)
{
    const pal_row_search *search = state->search;
    size_t words_len;
    search_term *term;

    pal_words_query_terms(search->query, add_word, state);
    new_term(state, IN_GROUPS)->term.text = pal_search_wide_term();
    if (search->role != PAL_ROLE_NONE) {
        term = new_term(state, IN_BLOCKS);
        term->term.text = pal_postgres_role_term(term->text, search->role);
    }
    words_len = state->terms_len;
    for (size_t i = 0; i < search->pieces_len; i++) {
        pal_id id = search->pieces[i].handle.id;

        if (i > 0 && pal_id_equal(search->pieces[i - 1].handle.id, id))
            continue;
        if (state->terms_len == words_len + SESSIONS_MAX) {
            state->terms_len = words_len; /* too many: any session */
            return;
        }
        term = new_term(state, IN_BLOCKS);
        term->is_session = true;
        term->term.text = pal_postgres_session_term(term->text, id);
    }
}

/* Finds the positions of the pieces. The rows of a session arrived in the order of their seqs. */
static pal_status find_pieces(search_state *state, pal_error *err)
{
    const pal_row_search *search = state->search;
    pal_postgres_params params = {0};
    pal_postgres_param *ids, *seqs;
    PGresult *result = NULL;
    pal_status status;

    if (search->pieces_len == 0 || search->pieces_len > PIECES_MAX)
        return PAL_OK;
    pal_postgres_put_int(&params, state->tenant);
    ids = pal_postgres_put_array(&params, PAL_POSTGRES_UUID);
    seqs = pal_postgres_put_array(&params, PAL_POSTGRES_INT8);
    for (size_t i = 0; i < search->pieces_len; i++) {
        const pal_piece *piece = &search->pieces[i];

        pal_postgres_add_id(ids, piece->handle.id);
        pal_postgres_add_int(seqs, (int64_t)piece->first);
        pal_postgres_add_id(ids, piece->handle.id);
        pal_postgres_add_int(seqs, (int64_t)piece->last);
    }
    status = pal_postgres_read(state->store, PAL_POSTGRES_SEARCH_PIECES, &params, &result, err);
    if (status != PAL_OK)
        return status;
    if (pal_postgres_int(result, 0, 0) == 2 * (int64_t)search->pieces_len) {
        int64_t last = pal_postgres_int(result, 0, 2);

        state->first_pos = pal_postgres_int(result, 0, 1);
        state->last_pos = last < state->last_pos ? last : state->last_pos;
    }
    PQclear(result);
    return PAL_OK;
}

/* Finds the blocks of these positions, and how far the index reaches. */
static pal_status find_blocks(search_state *state, int64_t *out_indexed_pos, pal_error *err)
{
    pal_postgres_params params = {0};
    PGresult *result = NULL;
    pal_status status;

    *out_indexed_pos = 0;
    state->next_block = -1;
    pal_postgres_put_int(&params, state->tenant);
    pal_postgres_put_int(&params, state->first_pos);
    pal_postgres_put_int(&params, state->last_pos);
    status = pal_postgres_read(state->store, PAL_POSTGRES_SEARCH_RANGE, &params, &result, err);
    if (status != PAL_OK)
        return status;
    if (PQntuples(result) == 1) {
        *out_indexed_pos = pal_postgres_int(result, 0, 0);
        state->first_block = pal_postgres_int(result, 0, 2);
        state->next_block = pal_postgres_int(result, 0, 3);
    }
    state->gap_end = *out_indexed_pos + 1;
    PQclear(result);
    return PAL_OK;
}

static pal_status run_search(search_state *state, pal_error *err)
{
    int64_t indexed_pos;
    pal_status status = find_pieces(state, err);

    if (status == PAL_OK)
        status = find_blocks(state, &indexed_pos, err);
    if (status == PAL_OK)
        status = scan(state, indexed_pos + 1, state->last_pos, err);
    while (status == PAL_OK && state->wanted) {
        if (state->nodes_len == 0)
            refill(state);
        if (state->nodes_len == 0)
            break;
        status = look(state, err);
    }
    return status == PAL_OK ? fetch(state, err) : status;
}

pal_status pal_postgres_row_search(pal_engine *engine, const pal_row_search *search,
        pal_found_sink sink, void *user, pal_error *err)
{
    pal_postgres *store = (pal_postgres *)engine;
    search_state *state;
    bool is_found;
    pal_status status = pal_postgres_tenant_find(store, search->tenant, &is_found, err);

    if (status != PAL_OK || !is_found)
        return status;
    state = pal_calloc(1, sizeof *state);
    if (!state)
        return pal_no_memory(err);
    state->store = store;
    state->search = search;
    state->tenant = pal_postgres_tenant(search->tenant);
    state->first_pos = 1;
    state->last_pos = search->below_pos ? (int64_t)search->below_pos - 1 : INT64_MAX - 1;
    state->fetch_rows = FETCH_ROWS_FIRST;
    state->look_nodes = LOOK_NODES_FIRST;
    state->sink = sink;
    state->user = user;
    state->wanted = true;
    add_terms(state);
    status = run_search(state, err);
    pal_free(state);
    return status;
}

/* ---- Ranked searches ---- */

/* A block of the range. */
typedef struct ranked_block {
    int64_t first_pos, last_pos; /* positions that belong to the block or to a missing block */
    pal_str positions;           /* empty until the block was looked at */
} ranked_block;

typedef struct ranking {
    search_state *state;
    const pal_row_rank *rank;
    pal_arena *arena;
    pal_chooser chooser;
    ranked_block *blocks;
    int64_t wide[WIDE_MAX]; /* the newest messages that are too long for the index */
    size_t wide_len;
    size_t wide_blocks[WIDE_MAX];
} ranking;

static void put_ranked_look(const ranking *r, const pal_choose_node *nodes, size_t nodes_len,
        const pal_term *terms, size_t terms_len, pal_postgres_params *params)
{
    pal_postgres_param *levels, *numbers, *lows, *highs, *places;

    pal_postgres_put_int(params, r->state->tenant);
    levels = pal_postgres_put_array(params, PAL_POSTGRES_INT8);
    numbers = pal_postgres_put_array(params, PAL_POSTGRES_INT8);
    lows = pal_postgres_put_array(params, PAL_POSTGRES_BYTES);
    highs = pal_postgres_put_array(params, PAL_POSTGRES_BYTES);
    places = pal_postgres_put_array(params, PAL_POSTGRES_INT8);
    for (size_t i = 0; i < nodes_len; i++) {
        pal_postgres_add_int(levels, nodes[i].level);
        pal_postgres_add_int(numbers, nodes[i].number);
    }
    for (size_t i = 0; i < terms_len; i++)
        put_range(&terms[i], EVERYWHERE, lows, highs, places);
}

/* Reads the line of a node: whether it is built, and the positions of a block. */
static void read_node(ranking *r, pal_choose_node *of, const PGresult *looked, int line)
{
    ranked_block *block;

    of->is_sound = pal_postgres_int(looked, line, 2) != 0;
    if (of->level > 0)
        return;
    block = &r->blocks[of->number - r->chooser.first_block];
    if (block->positions.len == 0)
        block->positions = pal_postgres_str_copy(looked, line, 5, r->arena);
}

/* A term that has no chunk in a node, or a damaged one, makes the node unsound. */
static void read_looked(ranking *r, const PGresult *looked, pal_choose_node *nodes,
        size_t nodes_len, const pal_term *terms, size_t terms_len, pal_block_bitmap *rows)
{
    uint64_t found[PAL_CHOOSE_NODES_MAX][2] = {{0}};

    for (int i = 0; i < PQntuples(looked); i++)
        if (pal_postgres_int(looked, i, 1) == 0)
            read_node(r, &nodes[pal_postgres_int(looked, i, 0) - 1], looked, i);
    for (int i = 0; i < PQntuples(looked); i++) {
        size_t at = (size_t)pal_postgres_int(looked, i, 0) - 1;
        size_t term = (size_t)pal_postgres_int(looked, i, 1) - 1;
        bool ignored;

        if (pal_postgres_int(looked, i, 1) == 0)
            continue;
        found[at][term / 64] |= UINT64_C(1) << term % 64;
        if (!pal_block_chunk_find(pal_postgres_str(looked, i, 5), terms[term],
                    &rows[at * terms_len + term], &ignored))
            nodes[at].is_sound = false;
    }
    for (size_t at = 0; at < nodes_len; at++)
        for (size_t term = 0; term < terms_len; term++)
            if (!(found[at][term / 64] >> term % 64 & 1))
                nodes[at].is_sound = false;
}

static pal_status look_up(void *user, pal_choose_node *nodes, size_t nodes_len,
        const pal_term *terms, size_t terms_len, pal_block_bitmap *rows, pal_error *err)
{
    ranking *r = user;
    pal_postgres_params params = {0};
    PGresult *looked = NULL;
    pal_status status;

    put_ranked_look(r, nodes, nodes_len, terms, terms_len, &params);
    status = pal_postgres_read(
            r->state->store, PAL_POSTGRES_SEARCH_LOOK, &params, &looked, err);
    if (status != PAL_OK)
        return status;
    for (size_t i = 0; i < nodes_len; i++)
        nodes[i].is_sound = false;
    read_looked(r, looked, nodes, nodes_len, terms, terms_len, rows);
    PQclear(looked);
    return PAL_OK;
}

/* ---- The blocks ---- */

/* Notes that a block has rows that are not indexed. */
static void add_wide(ranking *r, size_t block, pal_str bytes)
{
    pal_block_bitmap wide;

    if (bytes.len == 0 || !pal_block_bitmap_read(bytes, &wide))
        return;
    for (size_t row = PAL_BLOCK_ROWS; row-- > 0 && r->wide_len < WIDE_MAX;) {
        if (!pal_block_bitmap_has(&wide, row))
            continue;
        r->wide_blocks[r->wide_len] = block;
        r->wide[r->wide_len++] = (int64_t)row;
    }
}

static pal_status list_blocks(ranking *r, pal_error *err)
{
    pal_postgres_params params = {0};
    PGresult *result = NULL;
    int64_t newest = -1;
    pal_status status;

    pal_postgres_put_int(&params, r->state->tenant);
    status = pal_postgres_read(
            r->state->store, PAL_POSTGRES_SEARCH_BLOCKS, &params, &result, err);
    if (status != PAL_OK)
        return status;
    for (int i = 0; i < PQntuples(result); i++)
        newest = pal_postgres_int(result, i, 0);
    r->chooser.blocks_len = (size_t)(newest + 1);
    r->chooser.is_gap = pal_arena_alloc(r->arena, r->chooser.blocks_len + 1);
    r->blocks = pal_arena_array(r->arena, r->chooser.blocks_len + 1, sizeof *r->blocks);
    if (!r->chooser.is_gap || !r->blocks) {
        PQclear(result);
        return pal_no_memory(err);
    }
    memset(r->chooser.is_gap, true, r->chooser.blocks_len + 1);
    memset(r->blocks, 0, (r->chooser.blocks_len + 1) * sizeof *r->blocks);
    for (int i = PQntuples(result); i-- > 0;) {
        size_t block = (size_t)pal_postgres_int(result, i, 0);

        r->blocks[block].first_pos = pal_postgres_int(result, i, 2);
        r->blocks[block].last_pos = pal_postgres_int(result, i, 3);
        r->chooser.is_gap[block] = pal_postgres_int(result, i, 1) == 0;
        if (!r->chooser.is_gap[block])
            add_wide(r, block, pal_postgres_str(result, i, 4));
    }
    PQclear(result);
    return PAL_OK;
}

/* Returns the positions of the block's rows, or 0 if they are not known. */
static size_t positions_of(const ranking *r, size_t block, int64_t positions[PAL_BLOCK_ROWS])
{
    size_t len = pal_postgres_positions_read(
            r->blocks[block].positions, r->blocks[block].first_pos, positions);

    return len == SIZE_MAX || r->blocks[block].positions.len == 0 ? 0 : len;
}

/* ---- The rows ---- */

/* Reads the rows of a block that is missing or damaged, and those of missing blocks before it. */
static pal_status scan_block(ranking *r, size_t block, pal_error *err)
{
    int64_t first = r->blocks[block].first_pos, last = r->blocks[block].last_pos;

    if (last == 0) {
        size_t before = block, after = block;

        while (before > 0 && r->blocks[before].last_pos == 0)
            before--;
        while (after + 1 < r->chooser.blocks_len && r->blocks[after].last_pos == 0)
            after++;
        if (block > 0 && r->blocks[block - 1].last_pos == 0)
            return PAL_OK; /* the first of the missing blocks was scanned for all of them */
        first = r->blocks[before].last_pos + 1;
        last = r->blocks[after].first_pos - 1;
    }
    return scan(r->state, first, last, err);
}

static pal_status report_unchosen(ranking *r, int64_t indexed_pos, pal_error *err)
{
    search_state *state = r->state;
    pal_status status;

    state->is_counted = false;
    status = scan(state, indexed_pos + 1, state->last_pos, err);
    for (size_t block = r->chooser.blocks_len; status == PAL_OK && state->wanted && block-- > 0;)
        if (r->chooser.is_gap[block])
            status = scan_block(r, block, err);
    for (size_t i = 0; status == PAL_OK && state->wanted && i < r->wide_len; i++) {
        int64_t positions[PAL_BLOCK_ROWS];
        size_t row = (size_t)r->wide[i], block = r->wide_blocks[i];

        if (!r->chooser.is_gap[block] && row < positions_of(r, block, positions))
            status = scan(state, positions[row], positions[row], err);
    }
    return status;
}

static pal_status report_chosen(ranking *r, pal_error *err)
{
    search_state *state = r->state;
    int64_t positions[PAL_BLOCK_ROWS];
    size_t read_block = SIZE_MAX, len = 0;
    pal_status status = PAL_OK;

    state->is_counted = true;
    state->fetch_rows = RANK_ROWS;
    for (size_t i = 0; status == PAL_OK && i < r->chooser.places_len; i++) {
        size_t block = (size_t)(r->chooser.places[i] / PAL_BLOCK_ROWS);
        size_t row = (size_t)(r->chooser.places[i] % PAL_BLOCK_ROWS);

        if (block != read_block)
            len = positions_of(r, block, positions);
        read_block = block;
        if (row < len)
            state->found[state->found_len++] = positions[row];
        if (state->found_len == RANK_ROWS)
            status = fetch(state, err);
    }
    return status == PAL_OK ? fetch(state, err) : status;
}

/* Adds the terms that the rows must have: that of the role, and one of the sessions. */
static pal_status add_filters(ranking *r, pal_error *err)
{
    search_term *texts = pal_arena_array(r->arena, SESSIONS_MAX + 1, sizeof *texts);
    pal_term *terms = pal_arena_array(r->arena, SESSIONS_MAX + 1, sizeof *terms);
    const pal_row_rank *rank = r->rank;
    size_t sessions = 0;

    if (!texts || !terms)
        return pal_no_memory(err);
    memset(terms, 0, (SESSIONS_MAX + 1) * sizeof *terms);
    terms[0].text = pal_postgres_role_term(texts[0].text, rank->role);
    r->chooser.all_of = terms;
    r->chooser.all_of_len = rank->role != PAL_ROLE_NONE;
    for (size_t i = 0; i < rank->pieces_len; i++) {
        pal_id id = rank->pieces[i].handle.id;

        if (i > 0 && pal_id_equal(rank->pieces[i - 1].handle.id, id))
            continue;
        if (sessions == SESSIONS_MAX)
            return PAL_OK; /* too many: any session */
        sessions++;
        terms[sessions].text = pal_postgres_session_term(texts[sessions].text, id);
    }
    r->chooser.any_of = terms + 1;
    r->chooser.any_of_len = sessions;
    return PAL_OK;
}

static pal_status rank_rows(ranking *r, pal_error *err)
{
    int64_t indexed_pos = 0;
    pal_status status = find_blocks(r->state, &indexed_pos, err);

    if (status == PAL_OK)
        status = list_blocks(r, err);
    if (status == PAL_OK)
        status = add_filters(r, err);
    if (status == PAL_OK && r->chooser.blocks_len > 0)
        status = pal_choose(&r->chooser, err);
    if (status == PAL_OK)
        status = report_chosen(r, err);
    return status == PAL_OK ? report_unchosen(r, indexed_pos, err) : status;
}

pal_status pal_postgres_row_rank(pal_engine *engine, const pal_row_rank *rank,
        pal_found_sink sink, void *user, pal_rank_counts *out_counts, pal_error *err)
{
    pal_postgres *store = (pal_postgres *)engine;
    pal_row_search search = {.tenant = rank->tenant, .role = rank->role};
    search_state *state;
    ranking r = {.rank = rank};
    bool is_found;
    pal_status status = pal_postgres_tenant_find(store, rank->tenant, &is_found, err);

    memset(out_counts, 0, sizeof *out_counts);
    if (status != PAL_OK || !is_found)
        return status;
    state = pal_calloc(1, sizeof *state);
    r.arena = pal_arena_new(0);
    if (state && r.arena) {
        state->store = store;
        state->search = &search;
        state->tenant = pal_postgres_tenant(rank->tenant);
        state->first_pos = 1;
        state->last_pos = INT64_MAX - 1;
        state->sink = sink;
        state->user = user;
        state->wanted = true;
        r.state = state;
        r.chooser = (pal_chooser){.query = rank->query,
                .look = look_up,
                .user = &r,
                .rows_max = rank->rows_max,
                .arena = r.arena,
                .counts = out_counts};
        status = rank_rows(&r, err);
    } else {
        status = pal_no_memory(err);
    }
    pal_free(state);
    pal_arena_free(r.arena);
    return status;
}
