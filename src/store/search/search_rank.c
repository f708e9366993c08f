/* search_rank.c - the words of a ranked search. See search_rank.h. */
#include "store/search/search_rank.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/utf8.h"
#include "store/search/search_fold.h"

/* The parameters of BM25: how fast repetition saturates, and how much long texts are reduced. */
#define BM25_K1 1.2
#define BM25_B 0.75

enum { PLACE_BYTES = 100 }; /* the part of a text in which the weights are added up */

/* ---- Terms ---- */

static size_t slot_of(const pal_rank_query *query, pal_str stem)
{
    uint32_t hash = 2166136261u;
    size_t at;

    for (size_t i = 0; i < stem.len; i++)
        hash = (hash ^ (unsigned char)stem.data[i]) * 16777619u;
    at = (hash ^ hash >> 15) % PAL_RANK_SLOTS;
    while (query->slots[at] != 0 &&
            !pal_str_equal(query->terms[query->slots[at] - 1].text, stem))
        at = (at + 1) % PAL_RANK_SLOTS;
    return at;
}

uint64_t pal_rank_terms_of(const pal_rank_query *query, pal_term of)
{
    char stem[PAL_TERM_LEN_MAX];
    uint64_t mask = 0;
    size_t at;

    if (of.text.len == 0 || !query->begins[(unsigned char)of.text.data[0]])
        return 0;
    at = slot_of(query, pal_str_make(stem, pal_fold_stem(of.text, stem)));
    if (query->slots[at] != 0)
        mask = UINT64_C(1) << (query->slots[at] - 1);
    for (size_t i = 0; query->prefixes && i < query->len; i++)
        if ((query->prefixes >> i & 1) && pal_text_begins_str(of.text, query->terms[i].text))
            mask |= UINT64_C(1) << i;
    return mask;
}

typedef struct term_reader {
    pal_rank_query *query;
    pal_arena *arena;
} term_reader;

static bool has_prefix(const pal_rank_query *query, pal_str text)
{
    for (size_t i = 0; i < query->len; i++)
        if (query->terms[i].is_prefix && pal_str_equal(query->terms[i].text, text))
            return true;
    return false;
}

/* Terms that are there already, or more than can be counted, are left out. */
static bool add_term(pal_term of, void *user)
{
    term_reader *reader = user;
    pal_rank_query *query = reader->query;
    pal_rank_term *term = &query->terms[query->len];
    char stem[PAL_TERM_LEN_MAX];
    pal_str text = of.text;
    size_t slot = 0;

    if (!of.is_prefix)
        text = pal_str_make(stem, pal_fold_stem(of.text, stem));
    if (of.is_prefix ? has_prefix(query, text) : query->slots[slot = slot_of(query, text)] != 0)
        return true;
    text = pal_arena_copy(reader->arena, text);
    *term = (pal_rank_term){.text = text, .is_prefix = of.is_prefix, .index.text = text};
    if (of.is_prefix) {
        query->prefixes |= UINT64_C(1) << query->len;
        term->index.is_prefix = true;
    } else {
        query->slots[slot] = (uint8_t)(query->len + 1);
        if (pal_fold_has_forms(text))
            term->index = (pal_term){
                    .text = pal_fold_prefix(text), .is_prefix = true, .stem = text};
    }
    if (text.len > 0)
        query->begins[(unsigned char)text.data[0]] = true;
    query->len++;
    return query->len < PAL_RANK_TERMS_MAX;
}

pal_status pal_rank_query_read(
        pal_str text, pal_arena *arena, pal_rank_query **out_query, pal_error *err)
{
    pal_rank_query *query = pal_arena_alloc(arena, sizeof(*query));
    term_reader reader = {.query = query, .arena = arena};
    pal_query all = {0};
    pal_status status = pal_words_query_read(text, arena, &all, err);

    if (status != PAL_OK)
        return status;
    if (!query)
        return pal_no_memory(err);
    memset(query, 0, sizeof(*query));
    query->required.phrases = pal_arena_array(arena, all.len, sizeof(*all.phrases));
    for (size_t i = 0; query->required.phrases && i < all.len; i++)
        if (all.phrases[i].is_quoted)
            query->required.phrases[query->required.len++] = all.phrases[i];
    pal_words_query_terms(&all, add_term, &reader);
    if (pal_arena_failure(arena))
        return pal_no_memory(err);
    *out_query = query;
    return PAL_OK;
}

/* ---- Counting ---- */

typedef struct tally {
    const pal_rank_query *query;
    uint8_t *counts;
    uint32_t words;
    uint64_t found;
} tally;

static bool count_term(pal_term term, void *user)
{
    tally *state = user;
    uint64_t mask = pal_rank_terms_of(state->query, term);

    state->words++;
    state->found |= mask;
    for (; mask; mask &= mask - 1) {
        uint8_t *count = &state->counts[__builtin_ctzll(mask)];

        *count += *count < UINT8_MAX;
    }
    return true;
}

uint64_t pal_rank_tally(const pal_rank_query *query, pal_str normal,
        uint8_t out_counts[PAL_RANK_TERMS_MAX], uint32_t *out_words)
{
    tally state = {.query = query, .counts = out_counts};

    memset(out_counts, 0, PAL_RANK_TERMS_MAX);
    pal_words_terms(normal, count_term, &state);
    *out_words = state.words;
    return state.found;
}

double pal_rank_weight(double rows, double found)
{
    if (found > rows)
        rows = found;
    return log(1 + (rows - found + 0.5) / (found + 0.5));
}

double pal_rank_score(double weight, uint32_t count, uint32_t words, double average)
{
    double length = average > 0 ? words / average : 1;

    return weight * count * (BM25_K1 + 1) / (count + BM25_K1 * (1 - BM25_B + BM25_B * length));
}

/* ---- Places ---- */

typedef struct match_finder {
    const pal_rank_query *query;
    const char *normal;
    pal_rank_sink found;
    void *user;
} match_finder;

static bool find_match(pal_term term, void *user)
{
    match_finder *finder = user;
    uint64_t terms = pal_rank_terms_of(finder->query, term);
    size_t at = (size_t)(term.text.data - finder->normal);

    return !terms || finder->found(at, at + term.text.len, terms, finder->user);
}

void pal_rank_find(const pal_rank_query *query, pal_str normal, pal_rank_sink sink, void *user)
{
    match_finder finder = {query, normal.data, sink, user};

    pal_words_terms(normal, find_match, &finder);
}

typedef struct place_finder {
    const double *weights;
    size_t last_at[PAL_RANK_TERMS_MAX]; /* where each term was seen last, + 1 */
    uint64_t seen;
    size_t best_at;
    double best;
} place_finder;

/* Adds up the terms that were seen shortly before, and returns where the first of them is. */
static bool weigh_place(size_t at, size_t end, uint64_t terms, void *user)
{
    place_finder *finder = user;
    double sum = 0;
    size_t first = at;

    (void)end;
    for (uint64_t mask = terms; mask; mask &= mask - 1)
        finder->last_at[__builtin_ctzll(mask)] = at;
    finder->seen |= terms;
    for (uint64_t mask = finder->seen; mask; mask &= mask - 1) {
        size_t term = (size_t)__builtin_ctzll(mask), last_at = finder->last_at[term];

        if (last_at + PLACE_BYTES < at)
            continue;
        sum += finder->weights[term];
        first = last_at < first ? last_at : first;
    }
    if (sum > finder->best) {
        finder->best = sum;
        finder->best_at = first;
    }
    return true;
}

size_t pal_rank_place(const pal_rank_query *query, const double *weights, pal_str text)
{
    place_finder finder = {.weights = weights};
    size_t at = 0;
    pal_buf normal;

    pal_buf_init(&normal, SIZE_MAX / 4);
    pal_words_normal(text, &normal);
    if (normal.failure == PAL_OK) {
        pal_rank_find(query, pal_buf_str(&normal), weigh_place, &finder);
        at = pal_words_origin(text, finder.best_at);
    }
    pal_buf_done(&normal);
    return finder.best > 0 ? at : 0;
}

typedef struct match_list {
    pal_str text;
    pal_search_match *items;
    size_t len, max;
} match_list;

static bool add_match(size_t at, size_t end, uint64_t terms, void *user)
{
    match_list *list = user;

    (void)terms;
    list->items[list->len++] = pal_words_match_at(list->text, at, end);
    return list->len < list->max;
}

size_t pal_rank_matches(
        const pal_rank_query *query, pal_str text, pal_search_match *out_matches, size_t max)
{
    match_list list = {.text = text, .items = out_matches, .max = max};
    pal_buf normal;

    pal_buf_init(&normal, SIZE_MAX / 4);
    pal_words_normal(text, &normal);
    if (normal.failure == PAL_OK && max > 0)
        pal_rank_find(query, pal_buf_str(&normal), add_match, &list);
    pal_buf_done(&normal);
    return pal_words_matches_join(list.items, list.len);
}
