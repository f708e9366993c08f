/* index_postgres.c - the search index: blocks of terms (search_block.h), per tenant.
 *
 * Messages have positions in the order of their arrival, from a sequence that all tenants share.
 * The next PAL_BLOCK_ROWS messages of a tenant form a block, which lists their positions. A block
 * is built after the appends, by the node with the duty or by the first search. Until then a
 * search reads its messages. So appends do not touch the index, and every acknowledged message is
 * found.
 *
 * Writers run at the same time, so a smaller position can be committed after a larger one. A block
 * is built only below the horizon: a position up to which all transactions have ended. A
 * transaction gets its id before it takes a position, because it locks or adds a head first. So
 * the sequence is read first, and then a snapshot. When none of the transactions runs that the
 * snapshot saw running, all positions up to the value of the sequence are decided.
 *
 * PAL_GROUP_CHILDREN blocks have a summary, and so many summaries have one too (search_build.h).
 * The row of a summary is added together with the last of its blocks, as missing. An erasure
 * removes the chunks of its blocks and of their summaries in its transaction, and marks them as
 * missing. It also counts in search_tenant.erasures, whose row the writer of a block locks. So a
 * block that was read before an erasure is not written after it.
 *
 * A process marks a tenant as wanted in search_tenant with its first append, and again after each
 * PAL_BLOCK_ROWS messages. So the node with the duty does not have to look at all tenants. */
#include "store/postgres/index/index_postgres.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

#define ROWS_PAGE 64
#define TENANTS_MAX 16 /* tenants that one call looks at */

pal_str pal_postgres_role_term(char out[PAL_POSTGRES_TERM_SIZE], pal_role role)
{
    int len = snprintf(out, PAL_POSTGRES_TERM_SIZE, "\1r%x", (unsigned)role);

    return pal_str_make(out, (size_t)len);
}

pal_str pal_postgres_session_term(char out[PAL_POSTGRES_TERM_SIZE], pal_id session)
{
    memcpy(out, "\1s", 2);
    memcpy(out + 2, session.bytes, sizeof session.bytes);
    return pal_str_make(out, 2 + sizeof session.bytes);
}

/* ---- Positions ---- */

static void put_position(pal_buf *buf, uint64_t distance)
{
    for (; distance >= 0x80; distance >>= 7)
        pal_buf_append_char(buf, (char)(distance | 0x80));
    pal_buf_append_char(buf, (char)distance);
}

size_t pal_postgres_positions_read(
        pal_str bytes, int64_t first_pos, int64_t out_positions[PAL_BLOCK_ROWS])
{
    uint64_t pos = (uint64_t)first_pos;
    size_t at = 0, len = 0;

    while (at < bytes.len) {
        uint64_t distance = 0;
        int shift = 0;
        bool is_last = false;

        for (; at < bytes.len && shift < 63 && !is_last; shift += 7) {
            unsigned char byte = (unsigned char)bytes.data[at++];

            distance |= (uint64_t)(byte & 0x7f) << shift;
            is_last = byte < 0x80;
        }
        pos += distance;
        if (!is_last || len == PAL_BLOCK_ROWS || pos > INT64_MAX)
            return SIZE_MAX;
        out_positions[len++] = (int64_t)pos;
    }
    return len;
}

/* ---- The horizon ---- */

/* Returns the position up to which all are decided. `last` is the newest position that was taken
 * before the snapshot was made. A remembered value is dropped if the database went back. */
static int64_t horizon(pal_postgres *store, int64_t last, int64_t xmin, int64_t xmax)
{
    pal_postgres_horizon *known = &store->horizon;
    int64_t decided;

    pthread_mutex_lock(&store->lock);
    if (last < known->decided || last < known->pending || xmax < known->pending_xid)
        *known = (pal_postgres_horizon){0};
    if (known->pending > 0 && xmin >= known->pending_xid) {
        known->decided = known->pending;
        known->pending = 0;
    }
    if (known->pending == 0 && last > known->decided) {
        known->pending = last;
        known->pending_xid = xmax;
    }
    if (xmin == xmax) { /* no transaction is running */
        known->decided = last;
        known->pending = 0;
    }
    decided = known->decided;
    pthread_mutex_unlock(&store->lock);
    return decided;
}

/* ---- Building a block ---- */

static pal_index_part *copy_part(const pal_index_part *part, pal_arena *arena)
{
    pal_index_part *copy = pal_arena_alloc(arena, sizeof *copy);

    if (copy)
        *copy = *part;
    return copy;
}

typedef struct block_maker {
    pal_search_build build;
    pal_buf positions;
    int64_t before; /* the position of the row before */
    size_t len;
} block_maker;

static pal_status add_row(block_maker *maker, const PGresult *rows, int line, pal_error *err)
{
    char term[PAL_POSTGRES_TERM_SIZE];
    int64_t pos = pal_postgres_int(rows, line, 10);
    size_t at = maker->len++;
    pal_row row;

    pal_postgres_row_read(rows, line, &row);
    put_position(&maker->positions, (uint64_t)(pos - maker->before));
    maker->before = pos;
    pal_block_add(maker->build.builder, at, pal_postgres_role_term(term, row.role));
    pal_block_add(maker->build.builder, at,
            pal_postgres_session_term(term, pal_postgres_id(rows, line, 11)));
    return pal_search_build_add(
            &maker->build, at, &row, pal_postgres_int(rows, line, 12) != 0, err);
}

/* Reads the rows page by page. */
static pal_status add_rows(
        pal_postgres *store, block_maker *maker, const pal_index_part *wanted, pal_error *err)
{
    int64_t after = wanted->first_pos - 1;
    pal_status status = PAL_OK;
    int len = ROWS_PAGE;

    while (status == PAL_OK && len == ROWS_PAGE && maker->len < PAL_BLOCK_ROWS + ROWS_PAGE) {
        pal_postgres_params params = {0};
        PGresult *rows = NULL;

        pal_postgres_put_int(&params, wanted->state.tenant);
        pal_postgres_put_int(&params, after);
        pal_postgres_put_int(&params, wanted->last_pos);
        pal_postgres_put_int(&params, (int64_t)PAL_SEARCH_INDEXED_BYTES_MAX);
        pal_postgres_put_int(&params, ROWS_PAGE);
        status = pal_postgres_read(store, PAL_POSTGRES_INDEX_ROWS, &params, &rows, err);
        if (status != PAL_OK)
            return status;
        len = PQntuples(rows);
        for (int i = 0; status == PAL_OK && i < len && maker->len < PAL_BLOCK_ROWS; i++)
            status = add_row(maker, rows, i, err);
        if (len > 0)
            after = pal_postgres_int(rows, len - 1, 10);
        PQclear(rows);
        if (maker->len == PAL_BLOCK_ROWS && after < wanted->last_pos)
            maker->len = PAL_BLOCK_ROWS + ROWS_PAGE; /* too many, see pal_postgres_block_build() */
    }
    return status;
}

/* A range with more rows than a block can have is the result of damage. It gets neither positions
 * nor chunks, so a search reads its messages. */
pal_status pal_postgres_block_build(pal_postgres *store, const pal_index_part *wanted,
        pal_arena *arena, pal_index_part **out_part, pal_error *err)
{
    pal_index_part *part = copy_part(wanted, arena);
    block_maker maker = {.before = wanted->first_pos};
    pal_status status = pal_search_build_begin(&maker.build, err);

    pal_buf_init(&maker.positions, 16 * PAL_BLOCK_ROWS);
    if (status == PAL_OK && !part)
        status = pal_no_memory(err);
    if (status == PAL_OK)
        status = add_rows(store, &maker, wanted, err);
    if (status == PAL_OK && maker.positions.failure)
        status = pal_no_memory(err);
    if (status == PAL_OK && maker.len <= PAL_BLOCK_ROWS) {
        part->positions = pal_arena_copy(arena, pal_buf_str(&maker.positions));
        status = pal_search_build_finish(
                &maker.build, arena, &part->chunks, &part->chunks_len, &part->wide, err);
    }
    pal_buf_done(&maker.positions);
    pal_search_build_done(&maker.build);
    if (status == PAL_OK)
        *out_part = part;
    return status;
}

/* ---- Building a summary ---- */

static pal_status add_child(pal_postgres *store, pal_search_group *group, int64_t tenant, int level,
        int64_t block, pal_error *err)
{
    pal_postgres_params params = {0};
    PGresult *chunks = NULL;
    pal_status status;
    bool is_sound = true;

    pal_postgres_put_int(&params, tenant);
    pal_postgres_put_int(&params, level);
    pal_postgres_put_int(&params, block);
    status = pal_postgres_read(store, PAL_POSTGRES_INDEX_CHUNKS, &params, &chunks, err);
    if (status != PAL_OK)
        return status;
    for (int i = 0; is_sound && i < PQntuples(chunks); i++)
        is_sound = pal_search_group_add(group, pal_postgres_str(chunks, i, 1));
    /* A child without chunks, or with damaged ones, can contain any term. */
    if (!is_sound || PQntuples(chunks) == 0)
        pal_block_add(group->builder, group->child, pal_search_wide_term());
    PQclear(chunks);
    return PAL_OK;
}

static pal_status add_children(pal_postgres *store, pal_search_group *group,
        const pal_index_part *wanted, bool *out_built, pal_error *err)
{
    int64_t first = wanted->block << PAL_GROUP_SHIFT;
    pal_postgres_params params = {0};
    PGresult *children = NULL;
    pal_status status;

    pal_postgres_put_int(&params, wanted->state.tenant);
    pal_postgres_put_int(&params, wanted->level - 1);
    pal_postgres_put_int(&params, first);
    pal_postgres_put_int(&params, first + PAL_GROUP_CHILDREN - 1);
    status = pal_postgres_read(store, PAL_POSTGRES_INDEX_CHILDREN, &params, &children, err);
    if (status != PAL_OK)
        return status;
    *out_built = PQntuples(children) == PAL_GROUP_CHILDREN;
    for (int i = 0; status == PAL_OK && *out_built && i < PAL_GROUP_CHILDREN; i++) {
        group->child = (size_t)i;
        *out_built = pal_postgres_int(children, i, 1) != 0;
        if (pal_postgres_str(children, i, 2).len > 0)
            pal_block_add(group->builder, group->child, pal_search_wide_term());
        if (*out_built)
            status = add_child(store, group, wanted->state.tenant, wanted->level - 1,
                    pal_postgres_int(children, i, 0), err);
    }
    PQclear(children);
    return status;
}

pal_status pal_postgres_group_build(pal_postgres *store, const pal_index_part *wanted,
        pal_arena *arena, pal_index_part **out_part, pal_error *err)
{
    pal_index_part *part = copy_part(wanted, arena);
    pal_search_group group = {.builder = pal_block_new()};
    bool is_built = false;
    pal_status status = part && group.builder ? PAL_OK : pal_no_memory(err);

    *out_part = NULL;
    if (status == PAL_OK)
        status = add_children(store, &group, wanted, &is_built, err);
    if (status == PAL_OK && is_built)
        status = pal_block_finish(group.builder, arena, &part->chunks, &part->chunks_len, err);
    if (status == PAL_OK && is_built)
        *out_part = part;
    pal_block_free(group.builder);
    return status;
}

/* ---- What is missing ---- */

void pal_postgres_search_read(const PGresult *result, int row, pal_postgres_search *out_state)
{
    *out_state = (pal_postgres_search){.tenant = pal_postgres_int(result, row, 0),
            .indexed_pos = pal_postgres_int(result, row, 1),
            .blocks = pal_postgres_int(result, row, 2),
            .erasures = pal_postgres_int(result, row, 3),
            .marks = pal_postgres_int(result, row, 4),
            .is_wanted = pal_postgres_int(result, row, 5) != 0};
}

/* Reads the horizon, and the state of a tenant or of the next wanted one. */
static pal_status read_wanted(pal_postgres *store, pal_postgres_sql sql, int64_t tenant,
        int64_t *out_horizon, bool *out_found, pal_postgres_search *out_state, pal_error *err)
{
    pal_postgres_params pos = {0}, snapshot = {0}, params = {0};
    pal_postgres_read_one reads[3] = {{PAL_POSTGRES_INDEX_POS, &pos},
            {PAL_POSTGRES_INDEX_SNAPSHOT, &snapshot}, {sql, &params}};
    PGresult *results[3] = {0};
    pal_status status;

    pal_postgres_put_int(&params, tenant);
    status = pal_postgres_read_all(store, reads, 3, results, err);
    if (status == PAL_OK) {
        *out_horizon = horizon(store, pal_postgres_int(results[0], 0, 0),
                pal_postgres_int(results[1], 0, 0), pal_postgres_int(results[1], 0, 1));
        *out_found = PQntuples(results[2]) > 0;
        if (*out_found)
            pal_postgres_search_read(results[2], 0, out_state);
    }
    for (size_t i = 0; i < 3; i++)
        PQclear(results[i]);
    return status;
}

/* Finds a missing part that the index has a row for. */
static pal_status find_missing(
        pal_postgres *store, pal_index_part *wanted, bool *out_found, pal_error *err)
{
    pal_postgres_params params = {0};
    PGresult *result = NULL;
    pal_status status;

    pal_postgres_put_int(&params, wanted->state.tenant);
    status = pal_postgres_read(store, PAL_POSTGRES_INDEX_MISSING, &params, &result, err);
    if (status != PAL_OK)
        return status;
    *out_found = PQntuples(result) > 0;
    if (*out_found) {
        wanted->level = (int)pal_postgres_int(result, 0, 0);
        wanted->block = pal_postgres_int(result, 0, 1);
        wanted->first_pos = pal_postgres_int(result, 0, 2);
        wanted->last_pos = pal_postgres_int(result, 0, 3);
    }
    PQclear(result);
    return PAL_OK;
}

/* Finds the end of the next block, the position of its last row, up to a limit. */
static pal_status find_end(pal_postgres *store, pal_index_part *wanted, int64_t limit,
        bool *out_found, pal_error *err)
{
    pal_postgres_params params = {0};
    PGresult *result = NULL;
    pal_status status;

    pal_postgres_put_int(&params, wanted->state.tenant);
    pal_postgres_put_int(&params, wanted->state.indexed_pos);
    pal_postgres_put_int(&params, limit);
    pal_postgres_put_int(&params, PAL_BLOCK_ROWS - 1);
    status = pal_postgres_read(store, PAL_POSTGRES_INDEX_END, &params, &result, err);
    if (status != PAL_OK)
        return status;
    *out_found = PQntuples(result) > 0;
    if (*out_found) {
        wanted->is_new = true;
        wanted->level = 0;
        wanted->block = wanted->state.blocks;
        wanted->first_pos = wanted->state.indexed_pos + 1;
        wanted->last_pos = pal_postgres_int(result, 0, 0);
    }
    PQclear(result);
    return PAL_OK;
}

static pal_status make_note(
        const pal_index_part *wanted, pal_arena *arena, pal_index_part **out_part, pal_error *err)
{
    pal_index_part *part = copy_part(wanted, arena);

    if (!part)
        return pal_no_memory(err);
    part->is_note = true;
    *out_part = part;
    return PAL_OK;
}

/* Builds one part for the tenant. *out_part is NULL if none can be built now. */
static pal_status build_part(pal_postgres *store, const pal_postgres_search *state, int64_t decided,
        pal_arena *arena, pal_index_part **out_part, pal_error *err)
{
    pal_index_part wanted = {.state = *state};
    bool is_found = false, has_more = false;
    pal_status status = find_missing(store, &wanted, &is_found, err);

    *out_part = NULL;
    if (status == PAL_OK && is_found && wanted.level > 0)
        return pal_postgres_group_build(store, &wanted, arena, out_part, err);
    if (status == PAL_OK && !is_found)
        status = find_end(store, &wanted, decided, &is_found, err);
    if (status == PAL_OK && is_found)
        return pal_postgres_block_build(store, &wanted, arena, out_part, err);
    if (status == PAL_OK && state->is_wanted)
        status = find_end(store, &wanted, INT64_MAX, &has_more, err);
    if (status == PAL_OK && state->is_wanted && !has_more)
        return make_note(&wanted, arena, out_part, err);
    return status;
}

/* Goes through the wanted tenants until one of them has a part to build. Others wait for the
 * horizon. */
static pal_status build_any(
        pal_postgres *store, pal_arena *arena, pal_index_part **out_part, pal_error *err)
{
    pal_postgres_search state = {.tenant = INT64_MIN};
    pal_status status = PAL_OK;
    bool is_found = true;

    for (int i = 0; status == PAL_OK && is_found && !*out_part && i < TENANTS_MAX; i++) {
        int64_t at = 0;

        status = read_wanted(store, PAL_POSTGRES_INDEX_WANTED,
                i == 0 ? INT64_MIN : state.tenant + 1, &at, &is_found, &state, err);
        if (status == PAL_OK && is_found)
            status = build_part(store, &state, at, arena, out_part, err);
        is_found = is_found && state.tenant < INT64_MAX;
    }
    return status;
}

static pal_status build_one(pal_postgres *store, pal_str tenant, pal_arena *arena,
        pal_index_part **out_part, pal_error *err)
{
    pal_postgres_search state = {.tenant = pal_postgres_tenant(tenant)};
    bool is_found = false;
    int64_t at = 0;
    pal_status status = pal_postgres_tenant_find(store, tenant, &is_found, err);

    if (status != PAL_OK || !is_found)
        return status;
    status = read_wanted(
            store, PAL_POSTGRES_INDEX_STATE, state.tenant, &at, &is_found, &state, err);
    state.is_wanted = false; /* a search writes no notes */
    return status == PAL_OK ? build_part(store, &state, at, arena, out_part, err) : status;
}

pal_status pal_postgres_index_build(pal_engine *engine, pal_str tenant, pal_arena *arena,
        const pal_index_part **out_part, bool *out_more, pal_error *err)
{
    pal_postgres *store = (pal_postgres *)engine;
    pal_index_part *part = NULL;
    pal_status status = tenant.len > 0 ? build_one(store, tenant, arena, &part, err)
                                       : build_any(store, arena, &part, err);

    if (status == PAL_OK)
        status = pal_arena_checked(arena, err);
    *out_part = NULL;
    *out_more = false;
    if (status == PAL_OK) {
        *out_part = part;
        *out_more = part != NULL;
    }
    return status;
}

/* ---- Writing ---- */

/* Begins a transaction, locks the tenant's row, and returns whether the part is still right. It
 * does not wait for an erasure of another process: the appends of this one would wait, too. */
static pal_status begin_write(pal_postgres *store, const pal_index_part *part, bool *out_right,
        pal_postgres_failure *out_failure, pal_error *err)
{
    const pal_postgres_search *state = &part->state;
    pal_postgres_params params = {0};
    pal_postgres_search now = {0};
    pal_postgres_flight flight;
    size_t locked, found;
    pal_status status;

    pal_postgres_flight_begin(&flight, &store->writer);
    pal_postgres_flight_add(&flight, PAL_POSTGRES_BEGIN, NULL);
    pal_postgres_put_int(&params, state->tenant);
    pal_postgres_flight_add(&flight, PAL_POSTGRES_INDEX_ADD, &params);
    pal_postgres_put_int(&params, state->tenant);
    locked = pal_postgres_flight_add(&flight, PAL_POSTGRES_INDEX_LOCK, &params);
    pal_postgres_put_int(&params, state->tenant);
    pal_postgres_put_int(&params, part->level);
    pal_postgres_put_int(&params, part->block);
    found = pal_postgres_flight_add(&flight, PAL_POSTGRES_INDEX_BLOCK, &params);
    status = pal_postgres_flight_run(&flight, err);
    *out_failure = flight.failure;
    *out_right = false;
    if (status == PAL_OK && PQntuples(flight.results[locked]) == 0) {
        status = pal_error_set(err, PAL_BUSY,
                "the search index is locked by another process; retry later");
    } else if (status == PAL_OK) {
        bool exists = PQntuples(flight.results[found]) == 1;

        pal_postgres_search_read(flight.results[locked], 0, &now);
        *out_right = now.erasures == state->erasures &&
                (part->is_new ? !exists && now.blocks == state->blocks &&
                                        now.indexed_pos == state->indexed_pos
                              : exists && !pal_postgres_int(flight.results[found], 0, 0));
    }
    pal_postgres_flight_done(&flight);
    return status;
}

static void put_part(pal_postgres_params *params, const pal_index_part *part)
{
    pal_postgres_put_int(params, part->state.tenant);
    pal_postgres_put_int(params, part->level);
    pal_postgres_put_int(params, part->block);
}

static void add_chunks(pal_postgres_flight *flight, const pal_index_part *part)
{
    pal_postgres_params params = {0};
    pal_postgres_param *terms, *chunks;

    pal_postgres_index_put_block(&params, part->state.tenant, part->level, part->block);
    pal_postgres_flight_add(flight, PAL_POSTGRES_INDEX_CHUNK_DROP, &params);
    put_part(&params, part);
    terms = pal_postgres_put_array(&params, PAL_POSTGRES_BYTES);
    chunks = pal_postgres_put_array(&params, PAL_POSTGRES_BYTES);
    for (size_t i = 0; i < part->chunks_len; i++) {
        pal_postgres_add_bytes(terms, part->chunks[i].term);
        pal_postgres_add_bytes(chunks, part->chunks[i].data);
    }
    pal_postgres_flight_add(flight, PAL_POSTGRES_INDEX_CHUNK_ADD, &params);
}

/* The last block of a summary adds the row of the summary. */
static void add_reach(pal_postgres_flight *flight, const pal_index_part *part)
{
    pal_postgres_params params = {0};

    pal_postgres_put_int(&params, part->state.tenant);
    pal_postgres_put_int(&params, part->last_pos);
    pal_postgres_put_int(&params, part->block + 1);
    pal_postgres_flight_add(flight, PAL_POSTGRES_INDEX_REACH, &params);
    for (int level = 1; level <= PAL_GROUP_LEVELS; level++) {
        int64_t len = INT64_C(1) << (PAL_GROUP_SHIFT * level);

        if ((part->block + 1) % len != 0)
            break;
        pal_postgres_put_int(&params, part->state.tenant);
        pal_postgres_put_int(&params, level);
        pal_postgres_put_int(&params, part->block / len);
        pal_postgres_flight_add(flight, PAL_POSTGRES_INDEX_GROUP_ADD, &params);
    }
}

static pal_status write_part(pal_postgres *store, const pal_index_part *part,
        pal_postgres_failure *out_failure, pal_error *err)
{
    pal_postgres_params params = {0};
    pal_postgres_flight flight;
    pal_status status;

    pal_postgres_flight_begin(&flight, &store->writer);
    put_part(&params, part);
    pal_postgres_put_int(&params, part->first_pos);
    pal_postgres_put_int(&params, part->last_pos);
    pal_postgres_put_bytes(&params, part->positions);
    pal_postgres_put_bytes(&params, part->wide);
    pal_postgres_flight_add(&flight, PAL_POSTGRES_INDEX_BLOCK_PUT, &params);
    add_chunks(&flight, part);
    if (part->is_new)
        add_reach(&flight, part);
    pal_postgres_flight_add(&flight, PAL_POSTGRES_COMMIT, NULL);
    status = pal_postgres_flight_run(&flight, err);
    *out_failure = flight.failure;
    pal_postgres_flight_done(&flight);
    return status;
}

/* The index can be built again from the messages. So it does not matter whether a lost COMMIT was
 * made, or whether a commit was replicated. */
pal_status pal_postgres_index_write(pal_postgres *store, pal_work *work)
{
    const pal_index_part *part = work->index;
    pal_error *err = &work->op->error;
    pal_postgres_failure failure;
    bool is_right = false;
    pal_status status = pal_postgres_connect(&store->writer, &failure, err);

    if (status != PAL_OK)
        return status;
    if (part->is_note) {
        pal_postgres_params params = {0};

        pal_postgres_put_int(&params, part->state.tenant);
        pal_postgres_put_int(&params, part->state.marks);
        return pal_postgres_run(
                &store->writer, PAL_POSTGRES_INDEX_DONE, &params, NULL, &failure, err);
    }
    status = begin_write(store, part, &is_right, &failure, err);
    if (status == PAL_OK && is_right)
        status = write_part(store, part, &failure, err);
    if (store->writer.pg && PQtransactionStatus(store->writer.pg) != PQTRANS_IDLE)
        (void)!pal_postgres_run(&store->writer, PAL_POSTGRES_ROLLBACK, NULL, NULL, NULL, NULL);
    return status;
}

/* ---- Marking ---- */

/* A tenant that this process has written to. */
typedef struct noted_tenant {
    int64_t tenant;
    uint64_t messages; /* number of messages since the tenant was marked */
} noted_tenant;

/* Returns the tenant, in a new process as if many messages were appended. NULL: no memory. */
static noted_tenant *note_of(pal_postgres *store, int64_t tenant)
{
    pal_str key = pal_str_make((const char *)&tenant, sizeof tenant);
    noted_tenant *note = pal_map_find(&store->noted, key);

    if (note)
        return note;
    note = pal_arena_alloc(store->notes, sizeof *note);
    if (!note)
        return NULL;
    *note = (noted_tenant){.tenant = tenant, .messages = PAL_BLOCK_ROWS};
    key.data = (const char *)&note->tenant;
    return pal_map_set(&store->noted, key, note) == PAL_OK ? note : NULL;
}

/* If the row is locked, or if this fails, the next append tries again. No caller waits for a lock
 * here. */
static void mark_tenant(pal_postgres *store, noted_tenant *note)
{
    pal_postgres_params params = {0};
    pal_postgres_flight flight;

    if (!store->writer.pg)
        return;
    pal_postgres_flight_begin(&flight, &store->writer);
    pal_postgres_put_int(&params, note->tenant);
    pal_postgres_flight_add(&flight, PAL_POSTGRES_INDEX_ADD, &params);
    pal_postgres_put_int(&params, note->tenant);
    pal_postgres_flight_add(&flight, PAL_POSTGRES_INDEX_MARK, &params);
    if (pal_postgres_flight_run(&flight, NULL) == PAL_OK &&
            strcmp(PQcmdTuples(flight.results[1]), "1") == 0)
        note->messages = 0;
    pal_postgres_flight_done(&flight);
}

void pal_postgres_index_note(pal_postgres *store, const pal_work *works, size_t works_len)
{
    for (size_t i = 0; i < works_len; i++) {
        noted_tenant *note;

        if (works[i].op->kind != PAL_OP_APPEND || works[i].op->status != PAL_OK)
            continue;
        note = note_of(store, pal_postgres_tenant(works[i].tenant));
        if (note)
            note->messages += works[i].rows_len;
        if (note && note->messages >= PAL_BLOCK_ROWS)
            mark_tenant(store, note);
    }
}

/* ---- Erasing ---- */

void pal_postgres_index_put_block(
        pal_postgres_params *params, int64_t tenant, int level, int64_t block)
{
    pal_postgres_put_int(params, tenant);
    pal_postgres_put_int(params, level);
    pal_postgres_add_int(pal_postgres_put_array(params, PAL_POSTGRES_INT8), block);
}

void pal_postgres_index_put_blocks(
        pal_postgres_params *params, int64_t tenant, int level, const PGresult *blocks)
{
    pal_postgres_param *numbers;

    pal_postgres_put_int(params, tenant);
    pal_postgres_put_int(params, level);
    numbers = pal_postgres_put_array(params, PAL_POSTGRES_INT8);
    for (int i = 0; i < PQntuples(blocks); i++)
        pal_postgres_add_int(
                numbers, pal_postgres_int(blocks, i, 0) >> (PAL_GROUP_SHIFT * level));
}
