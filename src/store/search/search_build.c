/* search_build.c - see search_build.h. */
#include "store/search/search_build.h"

#include <string.h>

#include "base/memory.h"
#include "store/search/search_text.h"

/* ---- Blocks ---- */

pal_status pal_search_build_begin(pal_search_build *build, pal_error *err)
{
    memset(build, 0, sizeof(*build));
    build->builder = pal_block_new();
    build->scratch = pal_arena_new(0);
    pal_buf_init(&build->text, SIZE_MAX / 4);
    pal_buf_init(&build->normal, SIZE_MAX / 4);
    return build->builder && build->scratch ? PAL_OK : pal_no_memory(err);
}

void pal_search_build_done(pal_search_build *build)
{
    pal_buf_done(&build->text);
    pal_buf_done(&build->normal);
    pal_arena_free(build->scratch);
    pal_block_free(build->builder);
}

static bool add_term(pal_term term, void *user)
{
    pal_search_build *build = user;

    pal_block_add(build->builder, build->at, term.text);
    return true;
}

/* A damaged row has no words, so that the other rows of its block can be found. */
pal_status pal_search_build_add(
        pal_search_build *build, size_t at, const pal_row *row, bool is_long, pal_error *err)
{
    pal_status status;

    pal_arena_reset(build->scratch);
    pal_buf_clear(&build->text);
    pal_buf_clear(&build->normal);
    build->at = at;
    if (is_long || pal_block_pairs(build->builder) > PAL_BLOCK_PAIRS_MAX) {
        pal_block_bitmap_set(&build->wide, at);
        return PAL_OK;
    }
    status = pal_row_text(row, build->scratch, &build->text, err);
    if (status == PAL_CORRUPT)
        return PAL_OK;
    if (status != PAL_OK)
        return status;
    pal_words_normal(pal_buf_str(&build->text), &build->normal);
    if (build->normal.failure)
        return pal_error_set(err, build->normal.failure, "out of memory");
    pal_words_terms(pal_buf_str(&build->normal), add_term, build);
    return PAL_OK;
}

pal_status pal_search_build_finish(pal_search_build *build, pal_arena *arena,
        pal_block_chunk **out_chunks, size_t *out_len, pal_str *out_wide, pal_error *err)
{
    *out_wide = pal_str_make(NULL, 0);
    if (!pal_block_bitmap_is_empty(&build->wide))
        *out_wide = pal_block_bitmap_write(&build->wide, arena);
    return pal_block_finish(build->builder, arena, out_chunks, out_len, err);
}

/* ---- Summaries ---- */

static bool add_group_term(pal_term term, void *user)
{
    pal_search_group *group = user;
    bool is_left_out = term.text.len > 1 && term.text.data[0] == 1 &&
            (term.text.data[1] == 's' || term.text.data[1] == 'r');

    if (!is_left_out)
        pal_block_add(group->builder, group->child, term.text);
    return true;
}

bool pal_search_group_add(pal_search_group *group, pal_str chunk)
{
    return pal_block_chunk_each(chunk, add_group_term, group);
}

pal_str pal_search_wide_term(void)
{
    return pal_str_make("\1w", 2);
}
