/* sqlite_search.c - finds the rows that may match, from the newest to the oldest.
 *
 * The search goes through the blocks of the index, the newest first. In each block it intersects
 * the rows of all terms as bitmaps and reads only the remaining rows. If a block is not indexed, or
 * its index is damaged, all of its rows are scanned. If sixteen blocks, or sixteen groups, have a
 * summary (sqlite_group.c), only those that contain all terms are read. Everything happens in
 * one read transaction. Any thread can call it. */
#include <string.h>

#include "base/memory.h"
#include "store/search/search_choose.h"
#include "store/sqlite/sqlite_group.h"

/* The index does not distinguish more than HANDLES_MAX ancestors. */
enum {
    HANDLES_MAX = 32,
    TERMS_MAX = 256,
    WIDE_MAX = 16, /* messages that are too long for the index and that a ranked search reads */
};

typedef struct search_state {
    pal_sqlite *self;
    pal_sql_conn *conn;
    const pal_row_search *search;
    int64_t tenant;
    pal_term terms[TERMS_MAX]; /* a row must have all of these terms */
    size_t terms_len;
    int64_t handles[HANDLES_MAX]; /* a row must have one of these handles; none: any handle */
    size_t handles_len;
    pal_found_sink sink;
    void *user;
    bool wanted; /* the sink accepts more rows */
    bool is_counted; /* the counts of a ranked search include the rows */
} search_state;

pal_status pal_sqlite_snapshot_begin(pal_sql_conn *conn, pal_error *err)
{
    return pal_sql_exec(conn, "BEGIN", err);
}

void pal_sqlite_snapshot_end(pal_sql_conn *conn)
{
    if (!sqlite3_get_autocommit(conn->db))
        sqlite3_exec(conn->db, "COMMIT", NULL, NULL, NULL);
}

/* ---- Rows ---- */

/* Passes the rows of a range of positions to the sink, newest first. */
static pal_status report_rows(search_state *state, int64_t first, int64_t last, pal_error *err)
{
    pal_sql sql = pal_sql_start(state->conn, PAL_SQL_SEARCH_ROWS);

    pal_sql_bind_int(&sql, first);
    pal_sql_bind_int(&sql, last);
    pal_sql_bind_int(&sql, state->tenant);
    while (state->wanted && pal_sql_row(&sql)) {
        pal_row row;
        pal_found_row found = {.row = &row, .is_counted = state->is_counted};

        pal_sqlite_row_read(&sql, 0, &row);
        found.pos = (uint64_t)pal_sql_int(&sql, 9);
        found.handle = (pal_handle){.number = (uint64_t)pal_sql_int(&sql, 10),
                .id = pal_sql_uuid(&sql, 11),
                .tenant = state->search->tenant};
        if (sql.code != SQLITE_OK)
            break;
        state->wanted = state->sink(&found, state->user);
    }
    return pal_sql_end(&sql, err);
}

static pal_status report_bitmap(search_state *state, int64_t first, int64_t last,
        const pal_block_bitmap *rows, pal_error *err)
{
    pal_status status = PAL_OK;
    int64_t block_first = first - first % PAL_BLOCK_ROWS;

    for (int64_t pos = last; status == PAL_OK && state->wanted && pos >= first; pos--)
        if (pal_block_bitmap_has(rows, (size_t)(pos - block_first)))
            status = report_rows(state, pos, pos, err);
    return status;
}

/* ---- Blocks ---- */

/* Adds the rows of a term. Sets *out_sound to false if the index is damaged. */
static pal_status find_term(search_state *state, int64_t block, pal_term term,
        pal_block_bitmap *rows, bool *out_sound, pal_error *err)
{
    pal_sql sql = pal_sql_start(state->conn, PAL_SQL_SEARCH_TERM);
    bool more = true;

    pal_sql_bind_int(&sql, block);
    pal_sql_bind_blob(&sql, term.text);
    *out_sound = false;
    while (more && pal_sql_row(&sql)) {
        *out_sound = pal_block_chunk_find(pal_sql_text(&sql, 0), term, rows, &more);
        more = more && *out_sound;
    }
    return pal_sql_end(&sql, err);
}

/* Keeps those of `rows` that have one of the handles. */
static pal_status keep_handles(
        search_state *state, int64_t block, pal_block_bitmap *rows, bool *out_sound, pal_error *err)
{
    pal_block_bitmap any = {{0}};
    pal_status status = PAL_OK;

    *out_sound = true;
    for (size_t i = 0; status == PAL_OK && *out_sound && i < state->handles_len; i++) {
        char text[PAL_SQLITE_TERM_SIZE];
        pal_term term = {.text = pal_sqlite_term(text, 's', state->handles[i])};

        status = find_term(state, block, term, &any, out_sound, err);
    }
    if (state->handles_len > 0)
        pal_block_bitmap_and(rows, &any);
    return status;
}

static pal_status keep_number(search_state *state, int64_t block, char kind, int64_t number,
        pal_block_bitmap *rows, bool *out_sound, pal_error *err)
{
    char text[PAL_SQLITE_TERM_SIZE];
    pal_term term = {.text = pal_sqlite_term(text, kind, number)};
    pal_block_bitmap own = {{0}};
    pal_status status = find_term(state, block, term, &own, out_sound, err);

    pal_block_bitmap_and(rows, &own);
    return status;
}

/* Finds the rows of the block that match everything. On entry `rows` contains the rows that are not
 * indexed. */
static pal_status join_terms(
        search_state *state, int64_t block, pal_block_bitmap *rows, bool *out_sound, pal_error *err)
{
    pal_block_bitmap wide = *rows;
    pal_status status = PAL_OK;

    memset(rows, 0xff, sizeof(*rows));
    *out_sound = true;
    for (size_t i = 0; status == PAL_OK && *out_sound && i < state->terms_len; i++) {
        pal_block_bitmap own = wide;

        status = find_term(state, block, state->terms[i], &own, out_sound, err);
        pal_block_bitmap_and(rows, &own);
        if (pal_block_bitmap_is_empty(rows))
            return status;
    }
    if (status != PAL_OK || !*out_sound)
        return status;
    status = keep_number(state, block, 't', state->tenant, rows, out_sound, err);
    if (status != PAL_OK || !*out_sound)
        return status;
    if (state->search->role != PAL_ROLE_NONE) {
        status = keep_number(state, block, 'r', state->search->role, rows, out_sound, err);
        if (status != PAL_OK || !*out_sound)
            return status;
    }
    return pal_block_bitmap_is_empty(rows) ? PAL_OK : keep_handles(state, block, rows, out_sound,
            err);
}

/* Returns whether the block is indexed, and its rows that are not indexed. */
static pal_status find_block(search_state *state, int64_t block, pal_block_bitmap *out_wide,
        bool *out_found, pal_error *err)
{
    pal_sql sql;

    *out_found = false;
    memset(out_wide, 0, sizeof(*out_wide));
    if (!state->self->has_search)
        return PAL_OK;
    sql = pal_sql_start(state->conn, PAL_SQL_INDEX_BLOCK);
    pal_sql_bind_int(&sql, block);
    if (pal_sql_row(&sql)) {
        pal_str wide = pal_sql_text(&sql, 1);

        *out_found = wide.len == 0 || pal_block_bitmap_read(wide, out_wide);
    }
    return pal_sql_end(&sql, err);
}

static pal_status search_block(search_state *state, int64_t first, int64_t last, pal_error *err)
{
    int64_t block = pal_sqlite_block_of(first);
    bool sound = false;
    pal_block_bitmap rows;
    pal_status status = find_block(state, block, &rows, &sound, err);

    if (status == PAL_OK && sound)
        status = join_terms(state, block, &rows, &sound, err);
    if (status == PAL_CORRUPT) {
        sound = false;
        status = PAL_OK;
    }
    if (status != PAL_OK)
        return status;
    if (!sound)
        return report_rows(state, first, last, err);
    return report_bitmap(state, first, last, &rows, err);
}

/* ---- The search ---- */

static bool add_term(pal_term term, void *user)
{
    search_state *state = user;

    state->terms[state->terms_len++] = term;
    return state->terms_len < TERMS_MAX;
}

static void add_handles(search_state *state)
{
    for (size_t i = 0; i < state->search->pieces_len; i++) {
        int64_t handle = (int64_t)state->search->pieces[i].handle.number;

        if (state->handles_len > 0 && state->handles[state->handles_len - 1] == handle)
            continue;
        if (state->handles_len == HANDLES_MAX) {
            state->handles_len = 0;
            return;
        }
        state->handles[state->handles_len++] = handle;
    }
}

/* Returns the position of a row, or `otherwise` if the row does not exist. */
static pal_status position_of(pal_sql_conn *conn, pal_handle handle, uint64_t seq,
        int64_t otherwise, int64_t *out_pos, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_MESSAGE_POSITION);

    pal_sql_bind_int(&sql, (int64_t)handle.number);
    pal_sql_bind_int(&sql, (int64_t)seq);
    *out_pos = pal_sql_row(&sql) ? pal_sql_int(&sql, 0) : otherwise;
    return pal_sql_end(&sql, err);
}

/* Finds the positions to examine. The rows of a session arrived in the order of their seqs, and
 * those of its parents arrived before them. */
static pal_status find_range(search_state *state, int64_t *out_first, int64_t *out_last,
        pal_error *err)
{
    const pal_row_search *search = state->search;
    pal_sql sql = pal_sql_start(state->conn, PAL_SQL_MESSAGE_NEWEST);
    pal_status status;

    *out_first = 0;
    *out_last = pal_sql_row(&sql) ? pal_sql_int(&sql, 0) : -1;
    status = pal_sql_end(&sql, err);
    if (search->below_pos > 0 && (int64_t)search->below_pos <= *out_last)
        *out_last = (int64_t)search->below_pos - 1;
    if (status == PAL_OK && search->pieces_len > 0) {
        const pal_piece *newest = &search->pieces[0];
        const pal_piece *oldest = &search->pieces[search->pieces_len - 1];

        status = position_of(state->conn, newest->handle, newest->last, *out_last, out_last, err);
        if (status == PAL_OK)
            status = position_of(state->conn, oldest->handle, oldest->first, 0, out_first, err);
    }
    return status;
}

/* ---- Groups ---- */

/* Finds the children of the group that have all terms and the tenant. If the group is damaged,
 * returns all children. */
static pal_status join_group(
        search_state *state, int64_t key, pal_block_bitmap *out_children, pal_error *err)
{
    char text[PAL_SQLITE_TERM_SIZE];
    pal_term wide = {.text = pal_search_wide_term()};
    pal_term tenant = {.text = pal_sqlite_term(text, 't', state->tenant)};
    pal_block_bitmap any = {{0}}, own = {{0}};
    bool sound = false;
    pal_status status = find_term(state, key, wide, &any, &sound, err);

    memset(out_children, 0xff, sizeof(*out_children));
    for (size_t i = 0; status == PAL_OK && sound && i < state->terms_len; i++) {
        own = any;
        status = find_term(state, key, state->terms[i], &own, &sound, err);
        pal_block_bitmap_and(out_children, &own);
        if (sound && pal_block_bitmap_is_empty(out_children))
            return status;
    }
    memset(&own, 0, sizeof(own));
    if (status == PAL_OK && sound)
        status = find_term(state, key, tenant, &own, &sound, err);
    pal_block_bitmap_and(out_children, &own);
    if (status == PAL_CORRUPT || (status == PAL_OK && !sound)) {
        memset(out_children, 0xff, sizeof(*out_children));
        status = PAL_OK;
    }
    return status;
}

/* Examines a block, or the blocks of a group, as far as they are in first..last. */
static pal_status search_group(search_state *state, int level, int64_t number, int64_t first,
        int64_t last, pal_error *err)
{
    int64_t len = (int64_t)PAL_BLOCK_ROWS << (PAL_GROUP_SHIFT * level);
    int64_t from = number * len, to = from + len - 1;
    pal_block_bitmap children;
    pal_status status;

    if (to < first || from > last)
        return PAL_OK;
    if (level == 0)
        return search_block(state, from > first ? from : first, to < last ? to : last, err);
    status = join_group(state, pal_sqlite_group_key(level, number), &children, err);
    for (int child = PAL_GROUP_CHILDREN; status == PAL_OK && state->wanted && child-- > 0;)
        if (pal_block_bitmap_has(&children, (size_t)child))
            status = search_group(
                    state, level - 1, (number << PAL_GROUP_SHIFT) + child, first, last, err);
    return status;
}

/* Returns the level of the largest group that ends with the block. */
static pal_status level_at(search_state *state, int64_t block, int *out_level, pal_error *err)
{
    bool is_there = false;
    pal_status status = PAL_OK;

    *out_level = 0;
    for (int level = PAL_GROUP_LEVELS;
            state->self->has_counts && status == PAL_OK && level > 0 && !is_there; level--) {
        if ((block + 1) % ((int64_t)1 << (PAL_GROUP_SHIFT * level)) != 0)
            continue;
        status = pal_sqlite_group_is_there(state->conn,
                pal_sqlite_group_key(level, block >> (PAL_GROUP_SHIFT * level)), &is_there, err);
        if (is_there)
            *out_level = level;
    }
    return status;
}

static pal_status search_range(search_state *state, pal_error *err)
{
    int64_t first = 0, last = -1, block;
    pal_status status =
            pal_sqlite_tenant(state->conn, state->search->tenant, false, &state->tenant, err);

    if (status == PAL_OK && state->tenant != 0)
        status = find_range(state, &first, &last, err);
    if (state->tenant == 0 || last < first)
        return status;
    block = pal_sqlite_block_of(last);
    while (status == PAL_OK && state->wanted && block >= pal_sqlite_block_of(first)) {
        int level = 0;

        status = level_at(state, block, &level, err);
        if (status == PAL_OK)
            status = search_group(
                    state, level, block >> (PAL_GROUP_SHIFT * level), first, last, err);
        block -= (int64_t)1 << (PAL_GROUP_SHIFT * level);
    }
    return status;
}

pal_status pal_sqlite_row_search(pal_engine *engine, const pal_row_search *search,
        pal_found_sink sink, void *user, pal_error *err)
{
    pal_sqlite *self = (pal_sqlite *)engine;
    search_state state = {
            .self = self, .search = search, .sink = sink, .user = user, .wanted = true};
    pal_status status = pal_sqlite_reader_take(self, PAL_READ_LONG, &state.conn, err);

    if (status != PAL_OK)
        return status;
    pal_words_query_terms(search->query, add_term, &state);
    add_handles(&state);
    status = pal_sqlite_snapshot_begin(state.conn, err);
    if (status == PAL_OK)
        status = search_range(&state, err);
    pal_sqlite_snapshot_end(state.conn);
    pal_sqlite_reader_give(self, state.conn);
    return status;
}

/* ---- Ranked searches ---- */

static pal_status look_up(void *user, pal_choose_node *nodes, size_t nodes_len,
        const pal_term *terms, size_t terms_len, pal_block_bitmap *rows, pal_error *err)
{
    search_state *state = user;
    pal_status status = PAL_OK;

    for (size_t i = 0; status == PAL_OK && i < nodes_len; i++) {
        int64_t key = nodes[i].level > 0 ? pal_sqlite_group_key(nodes[i].level, nodes[i].number)
                                         : nodes[i].number;

        nodes[i].is_sound = true;
        for (size_t term = 0; status == PAL_OK && nodes[i].is_sound && term < terms_len; term++)
            if (nodes[i].wanted >> term & 1)
                status = find_term(state, key, terms[term], &rows[i * terms_len + term],
                        &nodes[i].is_sound, err);
        if (status == PAL_CORRUPT) {
            nodes[i].is_sound = false;
            status = PAL_OK;
        }
    }
    return status;
}

/* The rows of a ranked search that the index does not choose. */
typedef struct unchosen {
    bool *is_gap;            /* for each block of the range: it is not in the index */
    int64_t wide[WIDE_MAX];  /* positions of the newest messages that are too long for it */
    size_t wide_len;
} unchosen;

static void add_wide(unchosen *rows, int64_t block, pal_str bytes)
{
    pal_block_bitmap wide;

    if (!pal_block_bitmap_read(bytes, &wide))
        return;
    for (int64_t row = PAL_BLOCK_ROWS; row-- > 0 && rows->wide_len < WIDE_MAX;)
        if (pal_block_bitmap_has(&wide, (size_t)row))
            rows->wide[rows->wide_len++] = block * PAL_BLOCK_ROWS + row;
}

static pal_status find_unchosen(search_state *state, int64_t first_block, int64_t last_block,
        unchosen *rows, pal_error *err)
{
    pal_sql sql;

    memset(rows->is_gap, true, (size_t)(last_block - first_block + 1));
    if (!state->self->has_search)
        return PAL_OK;
    sql = pal_sql_start(state->conn, PAL_SQL_INDEX_BLOCKS);
    pal_sql_bind_int(&sql, last_block);
    while (pal_sql_row(&sql) && pal_sql_int(&sql, 0) >= first_block) {
        rows->is_gap[pal_sql_int(&sql, 0) - first_block] = false;
        add_wide(rows, pal_sql_int(&sql, 0), pal_sql_text(&sql, 1));
    }
    return pal_sql_end(&sql, err);
}

static pal_status report_unchosen(search_state *state, const unchosen *rows, int64_t first,
        int64_t last, pal_error *err)
{
    int64_t first_block = pal_sqlite_block_of(first);
    pal_status status = PAL_OK;

    state->is_counted = false;
    for (int64_t block = pal_sqlite_block_of(last);
            status == PAL_OK && state->wanted && block >= first_block; block--) {
        int64_t from = block * PAL_BLOCK_ROWS, to = from + PAL_BLOCK_ROWS - 1;

        if (rows->is_gap[block - first_block])
            status = report_rows(state, from > first ? from : first, to < last ? to : last, err);
    }
    for (size_t i = 0; status == PAL_OK && state->wanted && i < rows->wide_len; i++)
        if (!rows->is_gap[pal_sqlite_block_of(rows->wide[i]) - first_block])
            status = report_rows(state, rows->wide[i], rows->wide[i], err);
    return status;
}

static pal_status report_chosen(search_state *state, const pal_chooser *chooser, pal_error *err)
{
    int64_t base = chooser->first_block * PAL_BLOCK_ROWS;
    pal_status status = PAL_OK;

    state->is_counted = true;
    for (size_t i = 0; status == PAL_OK && state->wanted && i < chooser->places_len; i++) {
        int64_t pos = base + (int64_t)chooser->places[i];

        status = report_rows(state, pos, pos, err);
    }
    return status;
}

/* Adds the terms that the rows must have. The terms of the tenant and the role come first, in
 * texts[0] and texts[1]; those of sessions follow. */
static pal_status add_filters(search_state *state, pal_chooser *chooser, pal_role role,
        pal_arena *arena, pal_error *err)
{
    pal_term *terms = pal_arena_array(arena, HANDLES_MAX + 2, sizeof(*terms));
    char(*texts)[PAL_SQLITE_TERM_SIZE] =
            pal_arena_array(arena, HANDLES_MAX + 2, sizeof(*texts));
    pal_sql sql = pal_sql_start(state->conn, PAL_SQL_TENANT_OTHER);
    bool has_others;
    pal_status status;
    size_t len = 0;

    pal_sql_bind_int(&sql, state->tenant);
    has_others = pal_sql_row(&sql);
    status = pal_sql_end(&sql, err);
    if (status != PAL_OK)
        return status;
    if (!terms || !texts)
        return pal_no_memory(err);
    if (has_others)
        terms[len++].text = pal_sqlite_term(texts[0], 't', state->tenant);
    if (role != PAL_ROLE_NONE)
        terms[len++].text = pal_sqlite_term(texts[1], 'r', role);
    chooser->all_of = terms;
    chooser->all_of_len = len;
    for (size_t i = 0; i < state->handles_len; i++)
        terms[len + i].text = pal_sqlite_term(texts[2 + i], 's', state->handles[i]);
    chooser->any_of = terms + len;
    chooser->any_of_len = state->handles_len;
    return PAL_OK;
}

static pal_status rank_range(search_state *state, const pal_row_rank *rank, pal_arena *arena,
        pal_rank_counts *out_counts, pal_error *err)
{
    pal_chooser chooser = {.query = rank->query,
            .look = look_up,
            .user = state,
            .rows_max = rank->rows_max,
            .arena = arena,
            .counts = out_counts};
    unchosen rows = {0};
    int64_t first = 0, last = -1;
    pal_status status =
            pal_sqlite_tenant(state->conn, rank->tenant, false, &state->tenant, err);

    if (status == PAL_OK && state->tenant != 0)
        status = find_range(state, &first, &last, err);
    if (status != PAL_OK || state->tenant == 0 || last < first)
        return status;
    chooser.first_block = pal_sqlite_block_of(first);
    chooser.blocks_len = (size_t)(pal_sqlite_block_of(last) - chooser.first_block + 1);
    chooser.is_gap = rows.is_gap = pal_arena_alloc(arena, chooser.blocks_len);
    if (!rows.is_gap)
        return pal_no_memory(err);
    status = find_unchosen(state, chooser.first_block, pal_sqlite_block_of(last), &rows, err);
    if (status == PAL_OK)
        status = add_filters(state, &chooser, rank->role, arena, err);
    if (status == PAL_OK)
        status = pal_choose(&chooser, err);
    if (status == PAL_OK)
        status = report_chosen(state, &chooser, err);
    return status == PAL_OK ? report_unchosen(state, &rows, first, last, err) : status;
}

pal_status pal_sqlite_row_rank(pal_engine *engine, const pal_row_rank *rank, pal_found_sink sink,
        void *user, pal_rank_counts *out_counts, pal_error *err)
{
    pal_sqlite *self = (pal_sqlite *)engine;
    pal_row_search search = {
            .tenant = rank->tenant, .pieces = rank->pieces, .pieces_len = rank->pieces_len};
    search_state state = {
            .self = self, .search = &search, .sink = sink, .user = user, .wanted = true};
    pal_arena *arena = pal_arena_new(0);
    pal_status status = arena ? pal_sqlite_reader_take(self, PAL_READ_LONG, &state.conn, err)
                              : pal_no_memory(err);

    memset(out_counts, 0, sizeof(*out_counts));
    if (status == PAL_OK) {
        add_handles(&state);
        status = pal_sqlite_snapshot_begin(state.conn, err);
        if (status == PAL_OK)
            status = rank_range(&state, rank, arena, out_counts, err);
        pal_sqlite_snapshot_end(state.conn);
        pal_sqlite_reader_give(self, state.conn);
    }
    pal_arena_free(arena);
    return status;
}

pal_status pal_sqlite_fork_list(pal_engine *engine, pal_handle handle, uint64_t min_seq,
        pal_arena *arena, pal_id **out_ids, size_t *out_len, pal_error *err)
{
    pal_sql sql = pal_sql_read((pal_sqlite *)engine, PAL_READ_LONG, PAL_SQL_SESSION_FORKS, err);
    size_t len = 0, cap = 0;
    pal_id *ids = NULL;
    pal_status status;

    pal_sql_bind_int(&sql, (int64_t)handle.number);
    pal_sql_bind_int(&sql, (int64_t)min_seq);
    while (pal_sql_row(&sql)) {
        if (!pal_arena_reserve(arena, &ids, &cap, len + 1, sizeof(*ids)))
            break;
        ids[len++] = pal_sql_uuid(&sql, 0);
    }
    status = pal_sql_end_copied(&sql, arena, err);
    if (status != PAL_OK)
        return status;
    *out_ids = ids;
    *out_len = len;
    return PAL_OK;
}
