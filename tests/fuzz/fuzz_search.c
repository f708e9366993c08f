/* fuzz_search.c - any bytes as a text, as a query, and as a part of the index: nothing crashes, and
 * an index never misses a match that a scan of the text would find.
 *
 * The bytes before the first NUL byte are the query, the bytes after it the text. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/utf8.h"
#include "palaver/limits.h"
#include "store/search/search_block.h"
#include "store/search/search_words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) require((condition), #condition, __LINE__)

static void require(bool held, const char *text, int line)
{
    if (held)
        return;
    fprintf(stderr, "fuzz_search.c:%d: %s\n", line, text);
    abort();
}

static pal_arena *arena;

static bool add_term(pal_term term, void *user)
{
    REQUIRE(term.text.len > 0 && term.text.len <= PAL_TERM_LEN_MAX && !term.is_prefix);
    pal_block_add(user, 3, term.text);
    return true;
}

typedef struct chunks {
    pal_block_chunk *items;
    size_t len;
} chunks;

/* Every term of a matching query is in the index of the text. */
static bool find_term(pal_term term, void *user)
{
    const chunks *of = user;
    pal_block_bitmap rows = {{0}};
    bool more;

    REQUIRE(term.text.len > 0 && term.text.len <= PAL_TERM_LEN_MAX);
    for (size_t i = 0; i < of->len; i++)
        REQUIRE(pal_block_chunk_find(of->items[i].data, term, &rows, &more));
    REQUIRE(pal_block_bitmap_has(&rows, 3));
    return true;
}

/* Words with one space between them, without invalid UTF-8. */
static void check_normal(pal_str normal)
{
    REQUIRE(pal_utf8_is_valid(normal));
    for (size_t i = 0; i < normal.len; i++) {
        REQUIRE(normal.data[i] != ' ' || (i > 0 && i + 1 < normal.len));
        REQUIRE(normal.data[i] != ' ' || normal.data[i + 1] != ' ');
    }
}

static void check_match(const pal_query *query, pal_str text, pal_str normal)
{
    pal_block_builder *builder = pal_block_new();
    pal_str snippet;
    size_t first;
    chunks of;

    REQUIRE(builder != NULL);
    pal_words_terms(normal, add_term, builder);
    REQUIRE(pal_block_finish(builder, arena, &of.items, &of.len, NULL) == PAL_OK);
    if (pal_words_query_match(query, normal, &first)) {
        REQUIRE(first < normal.len && pal_words_origin(text, first) < text.len);
        pal_words_query_terms(query, find_term, &of);
        snippet = pal_words_snippet(text, pal_words_origin(text, first), arena);
        REQUIRE(snippet.len > 0 && pal_utf8_is_valid(snippet));
    }
    pal_block_free(builder);
}

static void check_chunk(pal_str bytes)
{
    static const char *const terms[] = {"a", "z", "\x01s1", "東"};
    pal_block_bitmap rows = {{0}};
    bool more;

    for (size_t i = 0; i < 8; i++)
        (void)pal_block_chunk_find(bytes,
                (pal_term){.text = pal_str_of(terms[i / 2]), .is_prefix = i % 2}, &rows, &more);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pal_str all = pal_str_make((const char *)data, size);
    const char *nul = size ? memchr(data, 0, size) : NULL;
    size_t query_len = nul ? (size_t)(nul - all.data) : size;
    pal_str text = nul ? pal_str_make(nul + 1, size - query_len - 1) : all;
    pal_query query;
    pal_buf normal;
    pal_error err = {PAL_OK, ""};
    pal_status status;

    if (!arena)
        REQUIRE((arena = pal_arena_new(0)) != NULL);
    pal_arena_reset(arena);
    check_chunk(all);
    pal_buf_init(&normal, SIZE_MAX / 4);
    pal_words_normal(text, &normal);
    REQUIRE(!normal.failure);
    check_normal(pal_buf_str(&normal));
    status = pal_words_query_read(pal_str_make(all.data, query_len), arena, &query, &err);
    if (status == PAL_OK) {
        REQUIRE(query.len > 0 && query.len <= PAL_SEARCH_WORDS_MAX);
        check_match(&query, text, pal_buf_str(&normal));
    } else {
        REQUIRE((status == PAL_INVALID || status == PAL_LIMIT) && err.message[0]);
    }
    pal_buf_done(&normal);
    return 0;
}
