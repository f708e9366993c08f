/* search_choose.c - finds the rows that a ranked search should read. See search_choose.h. */
#include "store/search/search_choose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* A word is frequent if it occurs in a larger share of the rows. */
#define FREQUENT 0.05

enum {
    SAMPLE_BLOCKS = 8,
    SMALL_BLOCKS = 32, /* in a smaller range, all words choose rows, and nothing is estimated */
    CHOICES_MAX = 200000,
    FILL_LOOKS_MAX = 512, /* look-ups for frequent words, if the others find too few rows */
    FREQUENT_CHOICES_MAX = 16384, /* rows to choose from, if all words are frequent */
};

typedef struct chooser {
    pal_chooser *in;
    pal_term terms[PAL_RANK_TERMS_MAX];
    pal_block_bitmap *filter; /* for each block; NULL: all rows pass */
    uint64_t *present;        /* for each block: the terms that it may contain */
    pal_block_bitmap *rows;   /* output of look() */
    double rates[PAL_RANK_TERMS_MAX]; /* share of the rows that have the term, by the sample */
    uint64_t selective;               /* terms that are not frequent */
    uint64_t taken;                   /* terms that choose rows */
    pal_choose_row *choices;
    size_t choices_len, choices_cap;
} chooser;

static uint64_t mask_of(size_t len)
{
    return len >= 64 ? UINT64_MAX : (UINT64_C(1) << len) - 1;
}

static bool has_rows(const chooser *state, size_t block)
{
    return !state->in->is_gap[block] &&
            (!state->filter || !pal_block_bitmap_is_empty(&state->filter[block]));
}

static size_t count_rows(const pal_block_bitmap *rows)
{
    size_t count = 0;

    for (size_t i = 0; i < PAL_BLOCK_ROWS / 64; i++)
        count += (size_t)__builtin_popcountll(rows->words[i]);
    return count;
}

/* ---- Looking ---- */

/* Looks up terms in blocks. Damaged blocks become gaps. */
static pal_status look_blocks(chooser *state, const size_t *blocks, size_t len,
        const pal_term *terms, size_t terms_len, const uint64_t *wanted, pal_error *err)
{
    pal_choose_node nodes[PAL_CHOOSE_NODES_MAX];
    pal_status status;

    for (size_t i = 0; i < len; i++)
        nodes[i] = (pal_choose_node){.number = state->in->first_block + (int64_t)blocks[i],
                .wanted = wanted ? wanted[i] : mask_of(terms_len)};
    memset(state->rows, 0, len * terms_len * sizeof(*state->rows));
    status = state->in->look(state->in->user, nodes, len, terms, terms_len, state->rows, err);
    for (size_t i = 0; status == PAL_OK && i < len; i++)
        if (!nodes[i].is_sound)
            state->in->is_gap[blocks[i]] = true;
    return status;
}

/* ---- The filter ---- */

static void filter_block(chooser *state, size_t block, const pal_block_bitmap *rows)
{
    pal_block_bitmap any = {{0}}, *kept = &state->filter[block];
    size_t all_of_len = state->in->all_of_len;

    memset(kept, 0xff, sizeof(*kept));
    for (size_t i = 0; i < all_of_len; i++)
        pal_block_bitmap_and(kept, &rows[i]);
    for (size_t i = 0; i < state->in->any_of_len; i++)
        pal_block_bitmap_or(&any, &rows[all_of_len + i]);
    if (state->in->any_of_len > 0)
        pal_block_bitmap_and(kept, &any);
    state->in->counts->rows += (double)count_rows(kept);
}

static pal_status filter_rows(chooser *state, pal_error *err)
{
    const pal_chooser *in = state->in;
    size_t terms_len = in->all_of_len + in->any_of_len, blocks[PAL_CHOOSE_NODES_MAX], len = 0;
    pal_term *terms = pal_arena_array(in->arena, terms_len + 1, sizeof(*terms));
    pal_status status = PAL_OK;

    state->filter = pal_arena_array(in->arena, in->blocks_len, sizeof(*state->filter));
    if (!terms || !state->filter)
        return pal_no_memory(err);
    for (size_t i = 0; i < in->all_of_len; i++)
        terms[i] = in->all_of[i];
    for (size_t i = 0; i < in->any_of_len; i++)
        terms[in->all_of_len + i] = in->any_of[i];
    memset(state->filter, 0, in->blocks_len * sizeof(*state->filter));
    for (size_t block = 0; status == PAL_OK && block < in->blocks_len; block++) {
        if (!in->is_gap[block])
            blocks[len++] = block;
        if (len < PAL_CHOOSE_NODES_MAX && (len == 0 || block + 1 < in->blocks_len))
            continue;
        status = look_blocks(state, blocks, len, terms, terms_len, NULL, err);
        for (size_t i = 0; status == PAL_OK && i < len; i++)
            if (!in->is_gap[blocks[i]])
                filter_block(state, blocks[i], &state->rows[i * terms_len]);
        len = 0;
    }
    return status;
}

/* ---- Frequencies ---- */

/* Estimates the rates from blocks spread over the range. */
static pal_status sample_rates(chooser *state, size_t live, pal_error *err)
{
    size_t blocks[SAMPLE_BLOCKS], len = 0, seen = 0, terms_len = state->in->query->len;
    size_t step = live / SAMPLE_BLOCKS ? live / SAMPLE_BLOCKS : 1;
    double rows = 0;
    pal_status status;

    for (size_t block = 0; block < state->in->blocks_len && len < SAMPLE_BLOCKS; block++)
        if (has_rows(state, block) && seen++ % step == step / 2)
            blocks[len++] = block;
    status = look_blocks(state, blocks, len, state->terms, terms_len, NULL, err);
    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        if (state->in->is_gap[blocks[i]])
            continue;
        rows += state->filter ? (double)count_rows(&state->filter[blocks[i]]) : PAL_BLOCK_ROWS;
        for (size_t term = 0; term < terms_len; term++) {
            pal_block_bitmap *found = &state->rows[i * terms_len + term];

            if (state->filter)
                pal_block_bitmap_and(found, &state->filter[blocks[i]]);
            state->rates[term] += (double)count_rows(found);
        }
    }
    for (size_t term = 0; term < terms_len; term++) {
        state->rates[term] = rows > 0 ? state->rates[term] / rows : 0;
        if (state->rates[term] <= FREQUENT)
            state->selective |= UINT64_C(1) << term;
    }
    return status;
}

/* Marks the blocks below a node as containing the terms. */
static void mark_present(chooser *state, int level, int64_t number, uint64_t terms)
{
    int64_t first = (number << (PAL_GROUP_SHIFT * level)) - state->in->first_block;

    for (int64_t i = 0; i < INT64_C(1) << (PAL_GROUP_SHIFT * level); i++)
        if (first + i >= 0 && first + i < (int64_t)state->in->blocks_len)
            state->present[first + i] |= terms;
}

/* Asks a summary which of its children contain the terms, and then these children. A summary that
 * is missing says that all do. */
static pal_status find_present(
        chooser *state, int level, int64_t number, uint64_t terms, pal_error *err)
{
    pal_choose_node node = {.level = level, .number = number, .wanted = terms};
    int64_t first = number << (PAL_GROUP_SHIFT * level), last = state->in->first_block;
    uint64_t children[PAL_GROUP_CHILDREN] = {0};
    size_t terms_len = state->in->query->len;
    pal_status status;

    last += (int64_t)state->in->blocks_len - 1;
    if (first > last ||
            first + (INT64_C(1) << (PAL_GROUP_SHIFT * level)) <= state->in->first_block)
        return PAL_OK;
    memset(state->rows, 0, terms_len * sizeof(*state->rows));
    status = state->in->look(
            state->in->user, &node, 1, state->terms, terms_len, state->rows, err);
    for (int child = 0; status == PAL_OK && child < PAL_GROUP_CHILDREN; child++)
        for (size_t term = 0; term < terms_len; term++)
            if ((terms >> term & 1) &&
                    (!node.is_sound || pal_block_bitmap_has(&state->rows[term], (size_t)child)))
                children[child] |= UINT64_C(1) << term;
    for (int child = 0; status == PAL_OK && child < PAL_GROUP_CHILDREN; child++) {
        int64_t below = (number << PAL_GROUP_SHIFT) + child;

        if (level == 1)
            mark_present(state, 0, below, children[child]);
        else if (children[child])
            status = find_present(state, level - 1, below, children[child], err);
    }
    return status;
}

static pal_status find_all_present(chooser *state, pal_error *err)
{
    int shift = PAL_GROUP_SHIFT * PAL_GROUP_LEVELS;
    int64_t first = state->in->first_block, last = first + (int64_t)state->in->blocks_len - 1;
    pal_status status = PAL_OK;

    for (int64_t number = first >> shift; status == PAL_OK && number <= last >> shift; number++)
        status = find_present(state, PAL_GROUP_LEVELS, number, state->selective, err);
    return status;
}

/* Takes the words that are in the fewest blocks, until the look-ups are used up. */
static void take_terms(chooser *state)
{
    size_t costs[PAL_RANK_TERMS_MAX] = {0}, left = PAL_CHOOSE_LOOKS_MAX;

    for (size_t block = 0; block < state->in->blocks_len; block++)
        for (uint64_t mask = has_rows(state, block) ? state->present[block] : 0; mask;
                mask &= mask - 1)
            costs[__builtin_ctzll(mask)]++;
    for (uint64_t open = state->selective; open;) {
        size_t best = (size_t)__builtin_ctzll(open);

        for (uint64_t mask = open; mask; mask &= mask - 1) {
            size_t term = (size_t)__builtin_ctzll(mask);

            if (costs[term] < costs[best] ||
                    (costs[term] == costs[best] && state->rates[term] < state->rates[best]))
                best = term;
        }
        open &= ~(UINT64_C(1) << best);
        if (costs[best] > left && state->taken)
            break;
        left -= costs[best] < left ? costs[best] : left;
        state->taken |= UINT64_C(1) << best;
    }
}

/* ---- Choosing ---- */

static pal_status add_choices(chooser *state, size_t block, const uint64_t *bits,
        size_t terms_len, const pal_block_bitmap *rows, uint64_t without, pal_error *err)
{
    uint64_t masks[PAL_BLOCK_ROWS] = {0};

    for (size_t term = 0; term < terms_len; term++) {
        pal_block_bitmap found = rows[term];

        if (state->filter)
            pal_block_bitmap_and(&found, &state->filter[block]);
        if (state->taken & bits[term])
            state->in->counts->terms[__builtin_ctzll(bits[term])] +=
                    without ? 0 : (double)count_rows(&found);
        for (size_t word = 0; word < PAL_BLOCK_ROWS / 64; word++)
            for (uint64_t left = found.words[word]; left; left &= left - 1)
                masks[word * 64 + (size_t)__builtin_ctzll(left)] |= bits[term];
    }
    if (!pal_reserve(&state->choices, &state->choices_cap, state->choices_len + PAL_BLOCK_ROWS,
                sizeof(*state->choices)))
        return pal_no_memory(err);
    for (size_t row = PAL_BLOCK_ROWS; row-- > 0;)
        if (masks[row] && !(masks[row] & without))
            state->choices[state->choices_len++] =
                    (pal_choose_row){block * PAL_BLOCK_ROWS + row, masks[row]};
    return PAL_OK;
}

/* Looks up `wanted` terms in blocks, the newest first, and adds the rows that have one of them but
 * none of `without`. Stops after `looks_max` look-ups or with `choices_max` rows. */
static pal_status choose_by(chooser *state, uint64_t wanted, uint64_t without, size_t looks_max,
        size_t choices_max, pal_error *err)
{
    pal_term terms[PAL_RANK_TERMS_MAX];
    uint64_t bits[PAL_RANK_TERMS_MAX], masks[PAL_CHOOSE_NODES_MAX];
    size_t blocks[PAL_CHOOSE_NODES_MAX], len = 0, terms_len = 0, looks = 0;
    pal_status status = PAL_OK;

    for (uint64_t mask = wanted | without; mask; mask &= mask - 1) {
        terms[terms_len] = state->terms[__builtin_ctzll(mask)];
        bits[terms_len++] = mask & -mask;
    }
    for (size_t block = state->in->blocks_len; status == PAL_OK && block-- > 0;) {
        uint64_t here = has_rows(state, block) ? (wanted | without) & state->present[block] : 0;
        bool is_last = block == 0 || looks >= looks_max || state->choices_len >= choices_max;

        if (here & wanted) {
            masks[len] = 0;
            for (size_t i = 0; i < terms_len; i++)
                if (here & bits[i])
                    masks[len] |= UINT64_C(1) << i;
            looks += (size_t)__builtin_popcountll(here);
            blocks[len++] = block;
        }
        if (len == 0 || (len < PAL_CHOOSE_NODES_MAX && !is_last))
            continue;
        status = look_blocks(state, blocks, len, terms, terms_len, masks, err);
        for (size_t i = 0; status == PAL_OK && i < len; i++)
            if (!state->in->is_gap[blocks[i]])
                status = add_choices(state, blocks[i], bits, terms_len,
                        &state->rows[i * terms_len], without, err);
        len = 0;
        if (is_last)
            break;
    }
    return status;
}

/* Completes the counts of terms whose blocks were not all looked at. */
static void estimate_counts(chooser *state)
{
    pal_rank_counts *counts = state->in->counts;

    for (size_t term = 0; term < state->in->query->len; term++)
        if (!(state->taken >> term & 1))
            counts->terms[term] = state->rates[term] * counts->rows;
}

static pal_status choose_rows(chooser *state, size_t live, pal_error *err)
{
    size_t rows_max = state->in->rows_max;
    uint64_t all = mask_of(state->in->query->len);
    pal_status status = PAL_OK;

    if (live > SMALL_BLOCKS)
        status = sample_rates(state, live, err);
    else
        state->selective = all;
    if (status == PAL_OK && live > SMALL_BLOCKS && state->selective)
        status = find_all_present(state, err);
    for (size_t block = 0; block < state->in->blocks_len; block++)
        state->present[block] |= live > SMALL_BLOCKS ? all & ~state->selective : all;
    take_terms(state);
    if (status == PAL_OK && state->taken)
        status = choose_by(state, state->taken, 0, SIZE_MAX, CHOICES_MAX, err);
    estimate_counts(state);
    if (status == PAL_OK && state->choices_len < rows_max && state->taken != all)
        status = choose_by(state, all & ~state->taken, state->taken, FILL_LOOKS_MAX,
                state->taken ? rows_max : FREQUENT_CHOICES_MAX, err);
    return status;
}

/* ---- The best ---- */

static double weight_of(const pal_choose_row *choice, const double *weights)
{
    double sum = 0;

    for (uint64_t mask = choice->terms; mask; mask &= mask - 1)
        sum += weights[__builtin_ctzll(mask)];
    return sum;
}

typedef struct weighed {
    double weight;
    pal_choose_row choice;
} weighed;

static bool is_better(const weighed *a, const weighed *b)
{
    return a->weight != b->weight ? a->weight > b->weight : a->choice.place > b->choice.place;
}

/* Moves an item of the heap, whose first item is the worst, to its place. */
static void heap_sink(weighed *heap, size_t len, size_t at)
{
    for (size_t child; (child = 2 * at + 1) < len; at = child) {
        weighed item = heap[at];

        if (child + 1 < len && is_better(&heap[child], &heap[child + 1]))
            child++;
        if (!is_better(&item, &heap[child]))
            return;
        heap[at] = heap[child];
        heap[child] = item;
    }
}

bool pal_choose_keep(pal_choose_row *choices, size_t *len, size_t max, const double *weights)
{
    weighed *heap = *len > max ? pal_malloc((max + 1) * sizeof(*heap)) : NULL;

    if (!heap)
        return *len <= max;
    for (size_t i = 0; i < *len; i++) {
        weighed item = {weight_of(&choices[i], weights), choices[i]};

        if (i < max) {
            heap[i] = item;
            for (size_t at = max / 2; i + 1 == max && at-- > 0;)
                heap_sink(heap, max, at);
        } else if (is_better(&item, &heap[0])) {
            heap[0] = item;
            heap_sink(heap, max, 0);
        }
    }
    for (size_t i = 0; i < max; i++)
        choices[i] = heap[i].choice;
    pal_free(heap);
    *len = max;
    return true;
}

static int compare_places(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;

    return (*a < *b) - (*a > *b);
}

static pal_status give_places(chooser *state, pal_error *err)
{
    pal_chooser *in = state->in;
    double weights[PAL_RANK_TERMS_MAX];
    size_t len = state->choices_len;

    for (size_t i = 0; i < in->query->len; i++)
        weights[i] = pal_rank_weight(in->counts->rows, in->counts->terms[i]);
    in->counts->more = state->choices_len > in->rows_max;
    in->places = pal_arena_array(in->arena, in->rows_max + 1, sizeof(*in->places));
    if (!in->places || !pal_choose_keep(state->choices, &len, in->rows_max, weights))
        return pal_no_memory(err);
    for (size_t i = 0; i < len; i++)
        in->places[i] = state->choices[i].place;
    qsort(in->places, len, sizeof(*in->places), compare_places);
    in->places_len = len;
    return PAL_OK;
}

pal_status pal_choose(pal_chooser *in, pal_error *err)
{
    chooser state = {.in = in};
    size_t terms_max = in->all_of_len + in->any_of_len, live = 0;
    pal_status status = PAL_OK;

    if (terms_max < in->query->len)
        terms_max = in->query->len;
    state.rows = pal_arena_array(
            in->arena, terms_max * PAL_CHOOSE_NODES_MAX + 1, sizeof(*state.rows));
    state.present = pal_arena_array(in->arena, in->blocks_len + 1, sizeof(*state.present));
    if (!state.rows || !state.present)
        return pal_no_memory(err);
    memset(state.present, 0, in->blocks_len * sizeof(*state.present));
    for (size_t i = 0; i < in->query->len; i++)
        state.terms[i] = in->query->terms[i].index;
    if (in->all_of_len + in->any_of_len > 0)
        status = filter_rows(&state, err);
    for (size_t block = 0; block < in->blocks_len; block++)
        live += has_rows(&state, block);
    if (!state.filter)
        in->counts->rows = (double)live * PAL_BLOCK_ROWS;
    if (status == PAL_OK && live > 0)
        status = choose_rows(&state, live, err);
    if (status == PAL_OK)
        status = give_places(&state, err);
    pal_free(state.choices);
    return status;
}
