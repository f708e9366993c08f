/* check_index.c - the part of fsck that looks at the search index.
 *
 * The contents of a block follow from its messages, and those of a summary from its blocks. So each
 * is built again and compared. An erasure meanwhile makes a comparison useless. search_tenant
 * counts the erasures, and the part is then compared again.
 *
 * A block with other contents is marked as missing, and the next search builds it. If the list of
 * blocks itself has a gap, the index of the tenant starts again. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "store/postgres/check/check_postgres.h"
#include "store/postgres/index/index_postgres.h"

enum { BLOCKS_PAGE = 16, CHUNKS_PAGE = 256, TRIES_MAX = 5 };

typedef struct index_check {
    pal_postgres_check_state *check;
    pal_postgres_search state; /* `erasures`: when the current part was read */
    pal_str name;
    bool is_broken; /* the list of blocks has a gap */
    int tries;      /* how often an erasure made a comparison useless */
} index_check;

static pal_status read_index(index_check *index, int64_t tenant, bool *out_found,
        pal_postgres_search *out, pal_error *err)
{
    pal_postgres_params params = {0};
    PGresult *result = NULL;
    pal_status status;

    pal_postgres_put_int(&params, tenant);
    status = pal_postgres_read(
            index->check->store, PAL_POSTGRES_INDEX_STATE, &params, &result, err);
    if (status != PAL_OK)
        return status;
    *out_found = PQntuples(result) == 1;
    if (*out_found)
        pal_postgres_search_read(result, 0, out);
    PQclear(result);
    return PAL_OK;
}

/* ---- Comparing ---- */

static pal_status compare_chunks(
        index_check *index, const pal_index_part *part, bool *out_same, pal_error *err)
{
    pal_postgres_params params = {0};
    PGresult *chunks = NULL;
    pal_status status;

    pal_postgres_put_int(&params, index->state.tenant);
    pal_postgres_put_int(&params, part->level);
    pal_postgres_put_int(&params, part->block);
    status = pal_postgres_read(
            index->check->store, PAL_POSTGRES_INDEX_CHUNKS, &params, &chunks, err);
    if (status != PAL_OK)
        return status;
    *out_same = (size_t)PQntuples(chunks) == part->chunks_len;
    for (int i = 0; *out_same && i < PQntuples(chunks); i++)
        *out_same = pal_str_equal(part->chunks[i].term, pal_postgres_str(chunks, i, 0)) &&
                pal_str_equal(part->chunks[i].data, pal_postgres_str(chunks, i, 1));
    PQclear(chunks);
    return PAL_OK;
}

/* Builds a part again and compares it with the line of INDEX_BLOCKS. */
static pal_status compare_part(index_check *index, const PGresult *blocks, int line,
        const pal_index_part *stored, bool *out_same, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    pal_index_part *part = NULL;
    pal_status status;

    if (!arena)
        return pal_no_memory(err);
    status = stored->level == 0
            ? pal_postgres_block_build(index->check->store, stored, arena, &part, err)
            : pal_postgres_group_build(index->check->store, stored, arena, &part, err);
    *out_same = part && pal_str_equal(part->positions, pal_postgres_str(blocks, line, 4)) &&
            pal_str_equal(part->wide, pal_postgres_str(blocks, line, 5));
    if (status == PAL_OK && *out_same)
        status = compare_chunks(index, part, out_same, err);
    pal_arena_free(arena);
    return status;
}

/* ---- Repairing ---- */

/* Begins a flight that locks the index of the tenant, and stops blocks that are being built. */
static bool begin_repair(index_check *index, pal_postgres_flight *flight)
{
    pal_postgres_params params = {0};

    if (!index->check->repair ||
            pal_postgres_connect(&index->check->conn, NULL, NULL) != PAL_OK)
        return false;
    pal_postgres_flight_begin(flight, &index->check->conn);
    pal_postgres_put_int(&params, index->state.tenant);
    pal_postgres_flight_add(flight, PAL_POSTGRES_INDEX_ERASED, &params);
    return true;
}

static bool end_repair(pal_postgres_flight *flight)
{
    bool is_done = pal_postgres_flight_run(flight, NULL) == PAL_OK;

    pal_postgres_flight_done(flight);
    return is_done;
}

/* Marks a part, and the summaries that contain it, as missing. */
static bool repair_part(index_check *index, const pal_index_part *part)
{
    pal_postgres_params params = {0};
    pal_postgres_flight flight;

    if (!begin_repair(index, &flight))
        return false;
    for (int level = part->level; level <= PAL_GROUP_LEVELS; level++) {
        int64_t block = part->block >> (PAL_GROUP_SHIFT * (level - part->level));

        pal_postgres_index_put_block(&params, index->state.tenant, level, block);
        pal_postgres_flight_add(&flight, PAL_POSTGRES_INDEX_RESET, &params);
        pal_postgres_index_put_block(&params, index->state.tenant, level, block);
        pal_postgres_flight_add(&flight, PAL_POSTGRES_INDEX_CHUNK_DROP, &params);
    }
    return end_repair(&flight);
}

/* The index of the tenant starts again. */
static bool repair_all(index_check *index)
{
    pal_postgres_params params = {0};
    pal_postgres_flight flight;

    if (!begin_repair(index, &flight))
        return false;
    pal_postgres_put_int(&params, index->state.tenant);
    pal_postgres_flight_add(&flight, PAL_POSTGRES_CHECK_INDEX_DROP, &params);
    pal_postgres_put_int(&params, index->state.tenant);
    pal_postgres_flight_add(&flight, PAL_POSTGRES_CHECK_CHUNKS_DROP, &params);
    pal_postgres_put_int(&params, index->state.tenant);
    pal_postgres_put_int(&params, 0);
    pal_postgres_put_int(&params, 0);
    pal_postgres_flight_add(&flight, PAL_POSTGRES_INDEX_REACH, &params);
    return end_repair(&flight);
}

static void report(index_check *index, bool repaired, const char *what)
{
    char text[PAL_ERROR_MESSAGE_MAX];

    snprintf(text, sizeof text, "%s of the search index of tenant '%.*s' is damaged", what,
            PAL_EXCERPT(index->name, 80));
    pal_postgres_check_report(index->check, (pal_id){{0}}, repaired, text);
}

/* ---- Walking ---- */

/* Where the next block of a level must begin. */
typedef struct walk {
    int64_t block;
    int64_t pos;
} walk;

/* Reports a part that differs, unless messages were erased meanwhile. */
static pal_status confirm(
        index_check *index, const pal_index_part *part, bool *out_again, pal_error *err)
{
    pal_postgres_search now = index->state;
    bool is_found = false;
    pal_status status = read_index(index, index->state.tenant, &is_found, &now, err);

    *out_again = status == PAL_OK && now.erasures != index->state.erasures &&
            index->tries++ < TRIES_MAX;
    if (status == PAL_OK && now.erasures == index->state.erasures) {
        report(index, repair_part(index, part), part->level == 0 ? "a block" : "a summary");
        status = read_index(index, index->state.tenant, &is_found, &now, err);
    }
    index->state.erasures = now.erasures;
    return status;
}

static pal_status check_part(index_check *index, const PGresult *blocks, int line, int level,
        walk *next, bool *out_again, pal_error *err)
{
    pal_index_part stored = {.state = index->state,
            .level = level,
            .block = pal_postgres_int(blocks, line, 0),
            .first_pos = pal_postgres_int(blocks, line, 2),
            .last_pos = pal_postgres_int(blocks, line, 3)};
    pal_status status = PAL_OK;
    bool is_same = true;

    *out_again = false;
    index->is_broken = stored.block != next->block ||
            (level == 0 &&
                    (stored.first_pos != next->pos || stored.last_pos < stored.first_pos));
    if (!index->is_broken && pal_postgres_int(blocks, line, 1) != 0)
        status = compare_part(index, blocks, line, &stored, &is_same, err);
    if (status == PAL_OK && !is_same)
        status = confirm(index, &stored, out_again, err);
    if (!*out_again)
        *next = (walk){stored.block + 1, stored.last_pos + 1};
    return status;
}

static pal_status check_level(index_check *index, int level, pal_error *err)
{
    int64_t total = index->state.blocks >> (PAL_GROUP_SHIFT * level);
    walk next = {.block = 0, .pos = 1};
    pal_status status = PAL_OK;

    while (status == PAL_OK && next.block < total && !index->is_broken) {
        pal_postgres_params params = {0};
        PGresult *blocks = NULL;
        bool again = false;

        pal_postgres_put_int(&params, index->state.tenant);
        pal_postgres_put_int(&params, level);
        pal_postgres_put_int(&params, next.block - 1);
        pal_postgres_put_int(&params, BLOCKS_PAGE);
        status = pal_postgres_read(
                index->check->store, PAL_POSTGRES_INDEX_BLOCKS, &params, &blocks, err);
        if (status != PAL_OK)
            return status;
        index->is_broken = PQntuples(blocks) == 0;
        for (int i = 0; status == PAL_OK && i < PQntuples(blocks) && next.block < total && !again &&
                !index->is_broken; i++)
            status = check_part(index, blocks, i, level, &next, &again, err);
        PQclear(blocks);
    }
    if (level == 0 && next.pos != index->state.indexed_pos + 1)
        index->is_broken = true;
    return status;
}

pal_status pal_postgres_check_index(
        pal_postgres_check_state *check, int64_t tenant, pal_str name, pal_error *err)
{
    index_check index = {.check = check, .name = name};
    bool is_found = false;
    pal_status status = read_index(&index, tenant, &is_found, &index.state, err);

    for (int level = 0; status == PAL_OK && is_found && level <= PAL_GROUP_LEVELS; level++)
        if (!index.is_broken)
            status = check_level(&index, level, err);
    if (status == PAL_OK && index.is_broken)
        report(&index, repair_all(&index), "the list of blocks");
    return status;
}

/* ---- Chunks without a block ---- */

static void report_chunk(
        pal_postgres_check_state *check, int64_t tenant, int level, int64_t block)
{
    pal_postgres_params params = {0};
    bool is_repaired;

    pal_postgres_index_put_block(&params, tenant, level, block);
    is_repaired = pal_postgres_check_repair(check, PAL_POSTGRES_INDEX_CHUNK_DROP, &params);
    pal_postgres_check_report(check, (pal_id){{0}}, is_repaired,
            "the search index has words of a block that does not exist");
}

pal_status pal_postgres_check_chunks(pal_postgres_check_state *check, pal_error *err)
{
    int64_t tenant = INT64_MIN, level = -1, block = -1;
    int len = CHUNKS_PAGE;

    while (len == CHUNKS_PAGE) {
        pal_postgres_params params = {0};
        PGresult *page = NULL;
        pal_status status;

        pal_postgres_put_int(&params, tenant);
        pal_postgres_put_int(&params, level);
        pal_postgres_put_int(&params, block);
        pal_postgres_put_int(&params, CHUNKS_PAGE);
        status = pal_postgres_read(check->store, PAL_POSTGRES_CHECK_CHUNKS, &params, &page, err);
        if (status != PAL_OK)
            return status;
        len = PQntuples(page);
        for (int i = 0; i < len; i++) {
            tenant = pal_postgres_int(page, i, 0);
            level = pal_postgres_int(page, i, 1);
            block = pal_postgres_int(page, i, 2);
            if (pal_postgres_int(page, i, 3) == 0)
                report_chunk(check, tenant, (int)level, block);
        }
        PQclear(page);
    }
    return PAL_OK;
}
