/* sqlite_group.c - summaries of the search index: which blocks contain a term at all. With
 * them, a search for a word that occurs nowhere does not have to read every block.
 *
 * Sixteen blocks form a group, and sixteen groups form a group of the next level. A group is stored
 * like a block (search_block.h), with its children in place of rows: each term of a child, and
 * which of the sixteen children contain it. Terms of sessions and roles are left out.
 * `search_group` lists the groups, and `search_state` says how far blocks and groups exist without
 * a gap.
 *
 * No word remains here after its message is erased: when a block is dropped, the groups that
 * contain it are dropped in the same transaction. All groups can be derived from the blocks. */
#include <string.h>

#include "base/memory.h"
#include "store/sqlite/sqlite_group.h"

#define KEYS_OF_LEVEL (INT64_C(1) << 40)

pal_status pal_sqlite_reach_read(pal_sql_conn *conn, pal_index_reach *out_reach, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_INDEX_REACH);

    memset(out_reach, 0, sizeof(*out_reach));
    if (pal_sql_row(&sql))
        for (int i = 0; i <= PAL_GROUP_LEVELS; i++)
            out_reach->counts[i] = pal_sql_int(&sql, i);
    return pal_sql_end(&sql, err);
}

pal_status pal_sqlite_reach_write(
        pal_sql_conn *conn, const pal_index_reach *reach, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_INDEX_REACH_SET);

    for (int i = 0; i <= PAL_GROUP_LEVELS; i++)
        pal_sql_bind_int(&sql, reach->counts[i]);
    return pal_sql_run(&sql, err);
}

int64_t pal_sqlite_group_key(int level, int64_t number)
{
    return -1 - number - KEYS_OF_LEVEL * level;
}

void pal_sqlite_group_of_key(int64_t key, int *out_level, int64_t *out_number)
{
    *out_level = (int)((-1 - key) / KEYS_OF_LEVEL);
    *out_number = (-1 - key) % KEYS_OF_LEVEL;
}

/* Returns the first number from `from` on that is missing at this level. */
static pal_status first_gap(
        pal_sql_conn *conn, int level, int64_t from, int64_t *out_number, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_INDEX_GROUPS);

    pal_sql_bind_int(&sql, pal_sqlite_group_key(level, KEYS_OF_LEVEL - 1));
    pal_sql_bind_int(&sql, pal_sqlite_group_key(level, from));
    *out_number = from;
    while (pal_sql_row(&sql) && pal_sql_int(&sql, 0) == pal_sqlite_group_key(level, *out_number))
        ++*out_number;
    return pal_sql_end(&sql, err);
}

pal_status pal_sqlite_group_missing(pal_sql_conn *conn, const pal_index_reach *reach,
        int *out_level, int64_t *out_number, pal_error *err)
{
    pal_status status = PAL_OK;

    *out_level = 0;
    for (int level = 1; status == PAL_OK && level <= PAL_GROUP_LEVELS; level++) {
        int64_t whole = reach->counts[level - 1] >> PAL_GROUP_SHIFT;

        if (reach->counts[level] >= whole)
            continue;
        status = first_gap(conn, level, reach->counts[level], out_number, err);
        if (status == PAL_OK && *out_number < whole) {
            *out_level = level;
            return PAL_OK;
        }
    }
    return status;
}

pal_status pal_sqlite_group_is_there(
        pal_sql_conn *conn, int64_t key, bool *out_is, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_INDEX_GROUP);

    pal_sql_bind_int(&sql, key);
    *out_is = pal_sql_row(&sql);
    return pal_sql_end(&sql, err);
}

pal_status pal_sqlite_group_add(pal_sql_conn *conn, int level, int64_t number, pal_error *err)
{
    pal_index_reach reach;
    pal_status status = pal_sql_run_int(
            conn, PAL_SQL_INDEX_GROUP_ADD, pal_sqlite_group_key(level, number), err);

    if (status == PAL_OK)
        status = pal_sqlite_reach_read(conn, &reach, err);
    if (status == PAL_OK)
        status = first_gap(conn, level, reach.counts[level], &reach.counts[level], err);
    return status == PAL_OK ? pal_sqlite_reach_write(conn, &reach, err) : status;
}

/* ---- Building ---- */

static pal_status add_child(
        pal_sql_conn *conn, pal_search_group *group, int64_t key, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_INDEX_CHUNKS);
    bool sound = true;
    pal_status status;

    pal_sql_bind_int(&sql, key);
    while (sound && pal_sql_row(&sql))
        sound = pal_search_group_add(group, pal_sql_text(&sql, 1));
    status = pal_sql_end(&sql, err);
    if (status == PAL_OK && !sound)
        status = pal_error_set(err, PAL_CORRUPT, "a part of the search index is damaged");
    return status;
}

/* Rows that are not indexed may contain any term. */
static pal_status find_wide(
        pal_sql_conn *conn, int64_t first, bool out_wide[PAL_GROUP_CHILDREN], pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, PAL_SQL_INDEX_WIDE);

    pal_sql_bind_int(&sql, first);
    pal_sql_bind_int(&sql, first + PAL_GROUP_CHILDREN - 1);
    while (pal_sql_row(&sql))
        out_wide[pal_sql_int(&sql, 0) - first] = true;
    return pal_sql_end(&sql, err);
}

pal_status pal_sqlite_group_build(pal_sql_conn *conn, int level, int64_t number, pal_arena *arena,
        pal_block_chunk **out_chunks, size_t *out_len, pal_error *err)
{
    pal_search_group group = {.builder = pal_block_new()};
    bool wide[PAL_GROUP_CHILDREN] = {false};
    int64_t first = number << PAL_GROUP_SHIFT;
    pal_status status = PAL_OK;

    if (!group.builder)
        return pal_no_memory(err);
    if (level == 1)
        status = find_wide(conn, first, wide, err);
    for (; status == PAL_OK && group.child < PAL_GROUP_CHILDREN; group.child++) {
        int64_t child = first + (int64_t)group.child;

        if (wide[group.child])
            pal_block_add(group.builder, group.child, pal_search_wide_term());
        status = add_child(
                conn, &group, level == 1 ? child : pal_sqlite_group_key(level - 1, child), err);
    }
    if (status == PAL_OK)
        status = pal_block_finish(group.builder, arena, out_chunks, out_len, err);
    pal_block_free(group.builder);
    return status;
}

/* ---- Erasing ---- */

static pal_status drop(pal_sql_conn *conn, int level, int64_t number, pal_error *err)
{
    int64_t key = pal_sqlite_group_key(level, number);
    pal_status status = pal_sql_run_int(conn, PAL_SQL_INDEX_DROP, key, err);

    if (status == PAL_OK)
        status = pal_sql_run_int(conn, PAL_SQL_INDEX_GROUP_DROP, key, err);
    return status;
}

pal_status pal_sqlite_group_drop(pal_sql_conn *conn, int64_t key, pal_error *err)
{
    pal_index_reach reach;
    int64_t number;
    int level;
    pal_status status = pal_sqlite_reach_read(conn, &reach, err);

    pal_sqlite_group_of_key(key, &level, &number);
    if (status == PAL_OK)
        status = drop(conn, level, number, err);
    if (status != PAL_OK || level > PAL_GROUP_LEVELS || reach.counts[level] <= number)
        return status;
    reach.counts[level] = number;
    return pal_sqlite_reach_write(conn, &reach, err);
}

pal_status pal_sqlite_group_forget(pal_sql_conn *conn, int64_t block, pal_error *err)
{
    pal_index_reach reach;
    pal_status status = pal_sqlite_reach_read(conn, &reach, err);

    for (int level = 0; status == PAL_OK && level <= PAL_GROUP_LEVELS; level++) {
        int64_t number = block >> (PAL_GROUP_SHIFT * level);

        if (level > 0)
            status = drop(conn, level, number, err);
        if (reach.counts[level] > number)
            reach.counts[level] = number;
    }
    return status == PAL_OK ? pal_sqlite_reach_write(conn, &reach, err) : status;
}
