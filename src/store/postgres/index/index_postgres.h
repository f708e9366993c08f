/* index_postgres.h - the search index, for postgres*.c only. index_postgres.c describes it. */
#ifndef PAL_INDEX_POSTGRES_H
#define PAL_INDEX_POSTGRES_H

#include "store/postgres/postgres.h"
#include "store/search/search_build.h"

#define PAL_POSTGRES_TERM_SIZE 24

/* A row of the table search_tenant. */
typedef struct pal_postgres_search {
    int64_t tenant;
    int64_t indexed_pos; /* blocks contain all messages up to this position */
    int64_t blocks;      /* number of blocks */
    int64_t erasures;    /* number of erasures so far */
    int64_t marks;       /* how often the tenant was marked as wanted */
    bool is_wanted;      /* parts may be missing */
} pal_postgres_search;

/* Reads the columns PAL_POSTGRES_SEARCH_COLUMNS of a row. */
void pal_postgres_search_read(const PGresult *result, int row, pal_postgres_search *out_state);

/* A part of the index: a block (level 0), a summary, or the note that no parts are missing. */
struct pal_index_part {
    pal_postgres_search state; /* when the part was built */
    bool is_note;
    bool is_new; /* a block that continues the index */
    int level;
    int64_t block;
    int64_t first_pos, last_pos;
    pal_str positions; /* the positions of the block's rows: distances, seven bits per byte */
    pal_str wide;      /* bitmap of rows that are not indexed; may be empty */
    pal_block_chunk *chunks;
    size_t chunks_len;
};

/* Build the part of a block (from first_pos to last_pos) or of a summary, in the arena. The caller
 * sets the other members. *out_part is NULL if a child of the summary is not built. */
PAL_CHECKED pal_status pal_postgres_block_build(pal_postgres *store, const pal_index_part *wanted,
        pal_arena *arena, pal_index_part **out_part, pal_error *err);
PAL_CHECKED pal_status pal_postgres_group_build(pal_postgres *store, const pal_index_part *wanted,
        pal_arena *arena, pal_index_part **out_part, pal_error *err);

/* Reads positions. Returns their number, or SIZE_MAX if the bytes are damaged. */
size_t pal_postgres_positions_read(
        pal_str bytes, int64_t first_pos, int64_t out_positions[PAL_BLOCK_ROWS]);

/* Return the terms of a role and of a session. */
pal_str pal_postgres_role_term(char out[PAL_POSTGRES_TERM_SIZE], pal_role role);
pal_str pal_postgres_session_term(char out[PAL_POSTGRES_TERM_SIZE], pal_id session);

/* Writes the part of a work, unless it is not right any more. Writer only. */
pal_status pal_postgres_index_write(pal_postgres *store, pal_work *work);
/* Notes which tenants got many messages, so that the node with the duty indexes them. Writer
 * only. */
void pal_postgres_index_note(pal_postgres *store, const pal_work *works, size_t works_len);

/* Fill the parameters for INDEX_RESET and INDEX_CHUNK_DROP: with one block, or with the blocks in
 * the first column of the result. If `level` is not 0, with the summaries that contain them. */
void pal_postgres_index_put_block(
        pal_postgres_params *params, int64_t tenant, int level, int64_t block);
void pal_postgres_index_put_blocks(
        pal_postgres_params *params, int64_t tenant, int level, const PGresult *blocks);

#endif
