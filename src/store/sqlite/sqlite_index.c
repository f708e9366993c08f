/* sqlite_index.c - the search index: blocks of terms (search_block.h), stored next to the
 * messages.
 *
 * Messages are stored in the order of their arrival, and each PAL_BLOCK_ROWS positions are one
 * block. A block is indexed after the next block has begun, because nothing is added to it then.
 * Until then, or if a block is not indexed for another reason, a search scans its rows. So appends
 * do not touch the index, and every acknowledged message is found.
 *
 * In addition to words, each block has terms for the roles, sessions and tenants of its rows. They
 * begin with a byte that no word contains.
 *
 * An erasure drops the blocks of the erased messages in the same transaction. A block that was read
 * before an erasure and is written after it would bring the words back. Therefore `erasures` counts
 * erasures, and such a block is not written. Erasing the newest messages frees their positions for
 * new messages, so the block that the next message belongs to is dropped as well. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "store/search/search_build.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/sqlite_group.h"

struct pal_index_part {
    int64_t block; /* number of a block, or key of a group */
    int level;     /* 0: a block; otherwise the level of the group */
    int64_t number; /* number of the group */
    int64_t erasures;
    pal_str wide; /* bitmap of rows that are not indexed; may be empty */
    pal_block_chunk *chunks;
    size_t chunks_len;
};

int64_t pal_sqlite_block_of(int64_t pos)
{
    return pos / PAL_BLOCK_ROWS;
}

pal_str pal_sqlite_term(char out[PAL_SQLITE_TERM_SIZE], char kind, int64_t number)
{
    int len = snprintf(out, PAL_SQLITE_TERM_SIZE, "%c%c%llx", 1, kind, (unsigned long long)number);

    return pal_str_make(out, (size_t)len);
}

/* ---- Building ---- */

static void add_numbers(
        pal_search_build *build, size_t at, pal_role role, int64_t session, int64_t tenant)
{
    char text[PAL_SQLITE_TERM_SIZE];

    pal_block_add(build->builder, at, pal_sqlite_term(text, 'r', role));
    pal_block_add(build->builder, at, pal_sqlite_term(text, 's', session));
    pal_block_add(build->builder, at, pal_sqlite_term(text, 't', tenant));
}

static pal_status add_rows(
        pal_sql_conn *conn, pal_search_build *build, int64_t block, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_INDEX_ROWS);
    pal_status status = PAL_OK, ended;
    int64_t first = block * PAL_BLOCK_ROWS;

    pal_sql_bind_int(&sql, first);
    pal_sql_bind_int(&sql, first + PAL_BLOCK_ROWS - 1);
    while (status == PAL_OK && pal_sql_row(&sql)) {
        size_t at = (size_t)(pal_sql_int(&sql, 9) - first);
        pal_row row;

        pal_sqlite_row_read(&sql, 0, &row);
        if (sql.code != SQLITE_OK)
            break;
        add_numbers(build, at, row.role, pal_sql_int(&sql, 10), pal_sql_int(&sql, 11));
        status = pal_search_build_add(
                build, at, &row, row.body.len > PAL_SEARCH_INDEXED_BYTES_MAX, err);
    }
    ended = pal_sql_end(&sql, status == PAL_OK ? err : NULL);
    return status != PAL_OK ? status : ended;
}

/* Builds the part for a block in the arena. Must run inside a transaction of the connection. */
static pal_status build_block(pal_sql_conn *conn, int64_t block, pal_arena *arena,
        pal_index_part **out_part, pal_error *err)
{
    pal_search_build build;
    pal_index_part *part = pal_arena_alloc(arena, sizeof(*part));
    pal_status status = pal_search_build_begin(&build, err);

    if (status == PAL_OK && !part)
        status = pal_no_memory(err);
    if (status == PAL_OK)
        status = add_rows(conn, &build, block, err);
    if (status == PAL_OK)
        status = pal_search_build_finish(
                &build, arena, &part->chunks, &part->chunks_len, &part->wide, err);
    if (status == PAL_OK) {
        part->block = block;
        *out_part = part;
    }
    pal_search_build_done(&build);
    return status;
}

static pal_status read_number(
        pal_sql_conn *conn, pal_sql_id id, int64_t *out_number, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, id);

    *out_number = pal_sql_row(&sql) ? pal_sql_int(&sql, 0) : 0;
    return pal_sql_end(&sql, err);
}

/* Returns the oldest complete block that is not indexed, or -1 if there is none. Blocks are written
 * in order, because that fills the pages of the table. */
static pal_status find_missing(
        pal_sql_conn *conn, const pal_index_reach *reach, int64_t *out_block, pal_error *err)
{
    int64_t newest = 0, wanted = reach->counts[0];
    pal_sql sql;
    pal_status status = read_number(conn, PAL_SQL_MESSAGE_NEWEST, &newest, err);

    *out_block = -1;
    if (status != PAL_OK || wanted >= pal_sqlite_block_of(newest))
        return status;
    sql = pal_sql_start(conn, PAL_SQL_INDEX_LIST);
    pal_sql_bind_int(&sql, wanted);
    while (pal_sql_row(&sql) && pal_sql_int(&sql, 0) == wanted)
        wanted++;
    if (wanted < pal_sqlite_block_of(newest))
        *out_block = wanted;
    return pal_sql_end(&sql, err);
}

static pal_status build_group(pal_sql_conn *conn, int level, int64_t number, pal_arena *arena,
        pal_index_part **out_part, pal_error *err)
{
    pal_index_part *part = pal_arena_alloc(arena, sizeof(*part));
    pal_status status;

    if (!part)
        return pal_no_memory(err);
    *part = (pal_index_part){
            .block = pal_sqlite_group_key(level, number), .level = level, .number = number};
    status = pal_sqlite_group_build(
            conn, level, number, arena, &part->chunks, &part->chunks_len, err);
    if (status == PAL_OK)
        *out_part = part;
    return status;
}

/* Blocks are built first, because a group requires all of its blocks. */
static pal_status build_missing(
        pal_sql_conn *conn, pal_arena *arena, pal_index_part **out_part, pal_error *err)
{
    int64_t block = -1, erasures = 0, number = 0;
    pal_index_reach reach;
    int level = 0;
    pal_status status = pal_sqlite_reach_read(conn, &reach, err);

    if (status != PAL_OK)
        return status;
    status = find_missing(conn, &reach, &block, err);
    if (status == PAL_OK && block < 0)
        status = pal_sqlite_group_missing(conn, &reach, &level, &number, err);
    if (status != PAL_OK || (block < 0 && level == 0))
        return status;
    status = read_number(conn, PAL_SQL_INDEX_ERASURES, &erasures, err);
    if (status != PAL_OK)
        return status;
    if (block >= 0)
        status = build_block(conn, block, arena, out_part, err);
    else
        status = build_group(conn, level, number, arena, out_part, err);
    if (status == PAL_OK)
        (*out_part)->erasures = erasures;
    return status;
}

pal_status pal_sqlite_index_build(pal_engine *engine, pal_str tenant, pal_arena *arena,
        const pal_index_part **out_part, bool *out_more, pal_error *err)
{
    pal_sqlite *self = (pal_sqlite *)engine;
    pal_index_part *part = NULL;
    pal_sql_conn *conn;
    pal_status status;

    (void)tenant; /* one index for all tenants */
    *out_part = NULL;
    *out_more = false;
    if (!self->has_counts)
        return PAL_OK;
    status = pal_sqlite_reader_take(self, PAL_READ_LONG, &conn, err);
    if (status != PAL_OK)
        return status;
    status = pal_sqlite_snapshot_begin(conn, err);
    if (status == PAL_OK)
        status = build_missing(conn, arena, &part, err);
    pal_sqlite_snapshot_end(conn);
    pal_sqlite_reader_give(self, conn);
    if (status == PAL_OK) {
        *out_part = part;
        *out_more = part != NULL;
    }
    return status;
}

/* ---- Writing ---- */

static pal_status write_chunk(
        pal_sql_conn *conn, int64_t block, const pal_block_chunk *chunk, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_INDEX_ADD);

    pal_sql_bind_int(&sql, block);
    pal_sql_bind_blob(&sql, chunk->term);
    pal_sql_bind_blob(&sql, chunk->data);
    return pal_sql_run(&sql, err);
}

/* Extends the reach: the new block is in the list now, and the blocks after it may be too. */
static pal_status reach_blocks(pal_sql_conn *conn, pal_error *err)
{
    pal_index_reach reach;
    pal_sql sql;
    pal_status status = pal_sqlite_reach_read(conn, &reach, err);

    if (status != PAL_OK)
        return status;
    sql = pal_sql_start(conn, PAL_SQL_INDEX_LIST);
    pal_sql_bind_int(&sql, reach.counts[0]);
    while (pal_sql_row(&sql) && pal_sql_int(&sql, 0) == reach.counts[0])
        reach.counts[0]++;
    status = pal_sql_end(&sql, err);
    return status == PAL_OK ? pal_sqlite_reach_write(conn, &reach, err) : status;
}

static pal_status list_block(pal_sql_conn *conn, const pal_index_part *part, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_INDEX_BLOCK_ADD);
    pal_status status;

    pal_sql_bind_int(&sql, part->block);
    if (part->wide.len > 0)
        pal_sql_bind_blob(&sql, part->wide);
    else
        pal_sql_bind_int_or_null(&sql, 0);
    status = pal_sql_run(&sql, err);
    return status == PAL_OK ? reach_blocks(conn, err) : status;
}

static pal_status write_part(pal_sql_conn *conn, const pal_index_part *part, pal_error *err)
{
    pal_status status = part->level > 0
            ? pal_sqlite_group_add(conn, part->level, part->number, err)
            : list_block(conn, part, err);

    for (size_t i = 0; status == PAL_OK && i < part->chunks_len; i++)
        status = write_chunk(conn, part->block, &part->chunks[i], err);
    return status;
}

/* Returns whether the block was indexed meanwhile, or whether rows of it may have been erased. */
static pal_status is_stale(
        pal_sql_conn *conn, const pal_index_part *part, bool *out_stale, pal_error *err)
{
    int64_t erasures;
    pal_sql sql;
    pal_status status = read_number(conn, PAL_SQL_INDEX_ERASURES, &erasures, err);

    *out_stale = erasures != part->erasures;
    if (status != PAL_OK || *out_stale)
        return status;
    if (part->level > 0)
        return pal_sqlite_group_is_there(conn, part->block, out_stale, err);
    sql = pal_sql_start(conn, PAL_SQL_INDEX_BLOCK);
    pal_sql_bind_int(&sql, part->block);
    *out_stale = pal_sql_row(&sql);
    return pal_sql_end(&sql, err);
}

pal_status pal_sqlite_index_write(pal_sql_conn *conn, pal_work *work)
{
    bool stale = false;
    pal_status status = is_stale(conn, work->index, &stale, &work->op->error);

    if (status == PAL_OK && !stale)
        status = write_part(conn, work->index, &work->op->error);
    return status;
}

/* ---- Erasing ---- */

/* Drops a block and its groups, or a group by its key. */
static pal_status drop_block(pal_sql_conn *conn, int64_t block, pal_error *err)
{
    pal_status status;

    if (block < 0)
        return pal_sqlite_group_drop(conn, block, err);
    status = pal_sqlite_group_forget(conn, block, err);
    if (status == PAL_OK)
        status = pal_sql_run_int(conn, PAL_SQL_INDEX_DROP, block, err);

    if (status == PAL_OK)
        status = pal_sql_run_int(conn, PAL_SQL_INDEX_BLOCK_DROP, block, err);
    return status;
}

/* Drops the blocks of all rows after `kept_seq`, one by one. */
pal_status pal_sqlite_index_forget(
        pal_sql_conn *conn, int64_t handle, uint64_t kept_seq, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_INDEX_POSITIONS);
    int64_t dropped = -1;
    pal_status status = PAL_OK, ended;

    pal_sql_bind_int(&sql, handle);
    pal_sql_bind_int(&sql, (int64_t)kept_seq);
    while (status == PAL_OK && pal_sql_row(&sql)) {
        int64_t block = pal_sqlite_block_of(pal_sql_int(&sql, 0));

        if (block != dropped)
            status = drop_block(conn, block, err);
        dropped = block;
    }
    ended = pal_sql_end(&sql, status == PAL_OK ? err : NULL);
    return status != PAL_OK ? status : ended;
}

pal_status pal_sqlite_index_forget_at(pal_sql_conn *conn, int64_t pos, pal_error *err)
{
    return drop_block(conn, pal_sqlite_block_of(pos), err);
}

pal_status pal_sqlite_index_erased(pal_sql_conn *conn, pal_error *err)
{
    int64_t newest = 0;
    pal_sql sql = pal_sql_start(conn, PAL_SQL_INDEX_ERASED);
    pal_status status = pal_sql_run(&sql, err);

    if (status == PAL_OK)
        status = read_number(conn, PAL_SQL_MESSAGE_NEWEST, &newest, err);
    if (status == PAL_OK)
        status = drop_block(conn, pal_sqlite_block_of(newest + 1), err);
    return status;
}

/* ---- Checking ---- */

/* Returns whether the block contains exactly these chunks. */
static pal_status compare_chunks(
        pal_sql_conn *conn, const pal_index_part *part, bool *out_same, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_INDEX_CHUNKS);
    size_t at = 0;

    *out_same = true;
    pal_sql_bind_int(&sql, part->block);
    while (*out_same && pal_sql_row(&sql)) {
        *out_same = at < part->chunks_len &&
                pal_str_equal(part->chunks[at].term, pal_sql_text(&sql, 0)) &&
                pal_str_equal(part->chunks[at].data, pal_sql_text(&sql, 1));
        at++;
    }
    *out_same = *out_same && at == part->chunks_len;
    return pal_sql_end(&sql, err);
}

static pal_status check_block(
        pal_sql_conn *conn, int64_t block, pal_str wide, bool *out_same, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    pal_index_part *part = NULL;
    pal_status status;

    if (!arena)
        return pal_no_memory(err);
    status = build_block(conn, block, arena, &part, err);
    if (status == PAL_OK)
        status = compare_chunks(conn, part, out_same, err);
    if (status == PAL_OK && !pal_str_equal(part->wide, wide))
        *out_same = false;
    pal_arena_free(arena);
    return status;
}

static pal_status find_wrong(pal_sql_conn *conn, int64_t *block, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_INDEX_BLOCKS);
    pal_status status = PAL_OK, ended;
    bool same = true;

    pal_sql_bind_int(&sql, *block);
    *block = -1;
    while (status == PAL_OK && same && pal_sql_row(&sql)) {
        int64_t number = pal_sql_int(&sql, 0);

        status = check_block(conn, number, pal_sql_text(&sql, 1), &same, err);
        if (status == PAL_CORRUPT) {
            same = false;
            status = PAL_OK;
        }
        if (!same)
            *block = number;
    }
    ended = pal_sql_end(&sql, status == PAL_OK ? err : NULL);
    return status != PAL_OK ? status : ended;
}

/* Returns whether the group matches its children. A group with missing children never does. */
static pal_status check_group(pal_sql_conn *conn, int64_t key, bool *out_same, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    pal_index_part *part = NULL;
    int64_t number;
    int level;
    pal_status status;

    if (!arena)
        return pal_no_memory(err);
    pal_sqlite_group_of_key(key, &level, &number);
    status = build_group(conn, level, number, arena, &part, err);
    if (status == PAL_OK)
        status = compare_chunks(conn, part, out_same, err);
    if (status == PAL_CORRUPT) {
        *out_same = false;
        status = PAL_OK;
    }
    pal_arena_free(arena);
    return status;
}

pal_status pal_sqlite_index_check_groups(pal_sql_conn *conn, int64_t *key, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_INDEX_GROUPS);
    pal_status status = PAL_OK, ended;
    bool same = true;

    pal_sql_bind_int(&sql, INT64_MIN);
    pal_sql_bind_int(&sql, *key - 1);
    *key = 0;
    while (status == PAL_OK && same && pal_sql_row(&sql)) {
        int64_t found = pal_sql_int(&sql, 0);

        status = check_group(conn, found, &same, err);
        if (!same)
            *key = found;
    }
    ended = pal_sql_end(&sql, status == PAL_OK ? err : NULL);
    return status != PAL_OK ? status : ended;
}

pal_status pal_sqlite_index_check(pal_sql_conn *conn, int64_t *block, pal_error *err)
{
    pal_status status = pal_sqlite_snapshot_begin(conn, err);

    if (status == PAL_OK)
        status = find_wrong(conn, block, err);
    pal_sqlite_snapshot_end(conn);
    return status;
}

pal_status pal_sqlite_index_stray(pal_sql_conn *conn, int64_t *out_block, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_INDEX_STRAY);

    *out_block = pal_sql_row(&sql) ? pal_sql_int(&sql, 0) : -1;
    return pal_sql_end(&sql, err);
}

pal_status pal_sqlite_index_repair(pal_sql_conn *conn, int64_t block, pal_error *err)
{
    pal_status status = pal_sql_exec(conn, "BEGIN IMMEDIATE", err);

    if (status == PAL_OK)
        status = drop_block(conn, block, err);
    if (status == PAL_OK)
        status = pal_sql_exec(conn, "COMMIT", err);
    if (!sqlite3_get_autocommit(conn->db))
        sqlite3_exec(conn->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}
