/* sqlite_search.c - finds the rows that may match, from the newest to the oldest.
 *
 * The search goes through the blocks of the index, the newest first. In each block it intersects
 * the rows of all terms as bitmaps and reads only the remaining rows. If a block is not indexed, or
 * its index is damaged, all of its rows are scanned. If sixteen blocks, or sixteen groups, have a
 * summary (sqlite_group.c), only those that contain all terms are read. Everything happens in
 * one read transaction. Any thread can call it. */
#include <string.h>

#include "base/memory.h"
#include "store/sqlite/sqlite_group.h"

/* The index does not distinguish more than HANDLES_MAX ancestors. */
enum { HANDLES_MAX = 32, TERMS_MAX = 256 };

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
        pal_found_row found = {.row = &row};

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
