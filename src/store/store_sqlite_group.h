/* store_sqlite_group.h - summaries of the search index; for store_sqlite_index.c and
 * store_sqlite_search.c only. */
#ifndef PAL_STORE_SQLITE_GROUP_H
#define PAL_STORE_SQLITE_GROUP_H

#include "store/store_sqlite.h"

enum { PAL_GROUP_LEVELS = 2, PAL_GROUP_SHIFT = 4, PAL_GROUP_CHILDREN = 1 << PAL_GROUP_SHIFT };

/* How far the index reaches: from 0 on, there are so many at least without a gap. */
typedef struct pal_index_reach {
    int64_t counts[PAL_GROUP_LEVELS + 1]; /* of blocks, then of the groups of each level */
} pal_index_reach;

PAL_CHECKED pal_status pal_sqlite_reach_read(
        pal_sql_conn *conn, pal_index_reach *out_reach, pal_error *err);
PAL_CHECKED pal_status pal_sqlite_reach_write(
        pal_sql_conn *conn, const pal_index_reach *reach, pal_error *err);

/* Under which block of the table `search` the group's chunks are: a negative one. */
int64_t pal_sqlite_group_key(int level, int64_t number);
/* And back. */
void pal_sqlite_group_of_key(int64_t key, int *out_level, int64_t *out_number);

/* The next group that can be built; level 0 where there is none. */
PAL_CHECKED pal_status pal_sqlite_group_missing(pal_sql_conn *conn, const pal_index_reach *reach,
        int *out_level, int64_t *out_number, pal_error *err);
PAL_CHECKED pal_status pal_sqlite_group_is_there(
        pal_sql_conn *conn, int64_t key, bool *out_is, pal_error *err);
/* Notes that it is there now, and how far its level reaches. */
PAL_CHECKED pal_status pal_sqlite_group_add(
        pal_sql_conn *conn, int level, int64_t number, pal_error *err);
/* Its chunks, in the arena. Inside a transaction. */
PAL_CHECKED pal_status pal_sqlite_group_build(pal_sql_conn *conn, int level, int64_t number,
        pal_arena *arena, pal_chunk **out_chunks, size_t *out_len, pal_error *err);
/* Throws away one. */
PAL_CHECKED pal_status pal_sqlite_group_drop(pal_sql_conn *conn, int64_t key, pal_error *err);
/* Throws away the groups that the block is in, and no longer counts on what is beyond it. */
PAL_CHECKED pal_status pal_sqlite_group_forget(pal_sql_conn *conn, int64_t block, pal_error *err);

/* The term of children that must be looked into in any case. */
pal_str pal_sqlite_group_wide(void);

#endif
