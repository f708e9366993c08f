/* sqlite_group.h - the summaries of the search index, for sqlite_index.c and
 * sqlite_search.c only. */
#ifndef PAL_SQLITE_GROUP_H
#define PAL_SQLITE_GROUP_H

#include "store/search/search_build.h"
#include "store/sqlite/sqlite.h"

/* How far the index reaches: at least this many blocks and groups exist without a gap, counted from
 * 0. */
typedef struct pal_index_reach {
    int64_t counts[PAL_GROUP_LEVELS + 1]; /* number of blocks, then of groups of each level */
} pal_index_reach;

PAL_CHECKED pal_status pal_sqlite_reach_read(
        pal_sql_conn *conn, pal_index_reach *out_reach, pal_error *err);
PAL_CHECKED pal_status pal_sqlite_reach_write(
        pal_sql_conn *conn, const pal_index_reach *reach, pal_error *err);

/* Returns the block number, in the table `search`, of the group's chunks. It is negative. */
int64_t pal_sqlite_group_key(int level, int64_t number);
/* The inverse of pal_sqlite_group_key(). */
void pal_sqlite_group_of_key(int64_t key, int *out_level, int64_t *out_number);

/* Finds the next group that can be built; level 0 if there is none. */
PAL_CHECKED pal_status pal_sqlite_group_missing(pal_sql_conn *conn, const pal_index_reach *reach,
        int *out_level, int64_t *out_number, pal_error *err);
PAL_CHECKED pal_status pal_sqlite_group_is_there(
        pal_sql_conn *conn, int64_t key, bool *out_is, pal_error *err);
/* Records that the group exists now, and how far its level reaches. */
PAL_CHECKED pal_status pal_sqlite_group_add(
        pal_sql_conn *conn, int level, int64_t number, pal_error *err);
/* Builds the group's chunks in the arena. Must be called inside a transaction. */
PAL_CHECKED pal_status pal_sqlite_group_build(pal_sql_conn *conn, int level, int64_t number,
        pal_arena *arena, pal_block_chunk **out_chunks, size_t *out_len, pal_error *err);
/* Drops one group. */
PAL_CHECKED pal_status pal_sqlite_group_drop(pal_sql_conn *conn, int64_t key, pal_error *err);
/* Drops the groups that contain the block, and lowers the reach to what comes before it. */
PAL_CHECKED pal_status pal_sqlite_group_forget(pal_sql_conn *conn, int64_t block, pal_error *err);

#endif
