/* memory_search.c - the search in "memory:", from the newest row to the oldest.
 *
 * Rows that are not in the index yet are passed to the sink one by one. Indexed rows are passed
 * only if they contain all words (memory_words.c): the search goes through the positions of
 * the rarest word and looks them up in those of the others. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/memory/memory_words.h"
#include "store/search/search_choose.h"
#include "store/search/search_fold.h"
#include "store/view/view_chain.h"

enum {
    INDEX_STEP = 256, /* rows that are indexed under one lock */
    TERMS_MAX = 64,   /* further terms are checked by the front */
    SOURCES_MAX = 64, /* words with one prefix; if there are more, all rows are returned */
    CHOICES_MAX = 65536, /* places of words that a ranked search chooses rows from */
    WIDE_MAX = 16,       /* messages that are too long for the index and that it reads */
};

/* ---- The order of arrival ---- */

void pal_memory_arrival_link(memory_engine *engine, memory_row *row)
{
    row->pos = ++engine->pos_last;
    row->older = engine->newest;
    if (row->older)
        row->older->newer = row;
    engine->newest = row;
    if (!engine->unindexed)
        engine->unindexed = row;
    row->session->tenant->counts.messages++;
    row->session->tenant->counts.content_bytes += row->row.body.len;
}

void pal_memory_arrival_unlink(memory_engine *engine, memory_row *row)
{
    pal_memory_words_remove(engine, row);
    if (row == engine->unindexed)
        engine->unindexed = row->newer;
    if (row->older)
        row->older->newer = row->newer;
    if (row->newer)
        row->newer->older = row->older;
    else
        engine->newest = row->older;
    row->session->tenant->counts.messages--;
    row->session->tenant->counts.content_bytes -= row->row.body.len;
}

pal_status pal_memory_index_build(pal_engine *base, pal_str tenant, pal_arena *arena,
        const pal_index_part **out_part, bool *out_more, pal_error *err)
{
    memory_engine *engine = (memory_engine *)base;
    pal_status status = PAL_OK;

    (void)tenant;
    (void)arena;
    *out_part = NULL;
    pthread_rwlock_wrlock(&engine->lock);
    for (int i = 0; status == PAL_OK && i < INDEX_STEP && engine->unindexed; i++) {
        if (pal_memory_words_add(engine, engine->unindexed))
            engine->unindexed = engine->unindexed->newer;
        else
            status = pal_no_memory(err);
    }
    *out_more = engine->unindexed != NULL;
    pthread_rwlock_unlock(&engine->lock);
    return status;
}

/* ---- Searching ---- */

/* The first `left` positions of a word, which were not examined yet. */
typedef struct source {
    const memory_word *word;
    size_t left;
} source;

typedef struct search_state {
    memory_engine *engine;
    const memory_tenant *tenant;
    const pal_row_search *search;
    pal_found_sink sink;
    void *user;
    bool wanted;
    bool is_counted;                  /* the counts of a ranked search include the rows */
    bool has_prefix;                  /* some term is a prefix */
    pal_term prefix;                  /* one of the prefix terms */
    const memory_word *words[TERMS_MAX]; /* a row must have all of these words */
    size_t words_len;
    bool is_missing; /* one of the words does not occur */
    source sources[SOURCES_MAX];
    size_t sources_len;
} search_state;

static void offer(search_state *state, const memory_row *row)
{
    const pal_row_search *search = state->search;
    pal_found_row found = {.row = &row->row,
            .pos = row->pos,
            .is_counted = state->is_counted,
            .handle = {.number = row->session->handle,
                    .id = row->session->id,
                    .tenant = search->tenant}};

    if (search->below_pos != 0 && row->pos >= search->below_pos)
        return;
    if (search->role != PAL_ROLE_NONE && row->row.role != search->role)
        return;
    if (row->session->tenant == state->tenant)
        state->wanted = state->sink(&found, state->user);
}

/* Offers rows down to `end`, which is excluded; NULL means all rows. */
static void walk(search_state *state, const memory_row *end)
{
    for (const memory_row *row = state->engine->newest; state->wanted && row != end;
            row = row->older)
        offer(state, row);
}

static bool take_term(pal_term term, void *user)
{
    search_state *state = user;
    const memory_word *word;

    if (term.is_prefix) {
        state->has_prefix = true;
        state->prefix = term;
        return true;
    }
    word = pal_memory_word_find(&state->tenant->words, term.text);
    state->is_missing = state->is_missing || !word;
    if (word)
        state->words[state->words_len++] = word;
    return word && state->words_len < TERMS_MAX;
}

static bool add_source(search_state *state, const memory_word *word)
{
    uint64_t below = state->search->below_pos ? state->search->below_pos : UINT64_MAX >> 1;

    if (!word)
        return true;
    if (state->sources_len == SOURCES_MAX)
        return false;
    state->sources[state->sources_len++] =
            (source){.word = word, .left = pal_memory_word_below(word, below)};
    return true;
}

static bool add_prefixed(search_state *state)
{
    pal_str text = state->prefix.text;
    const memory_word *word = pal_memory_word_from(&state->tenant->words, text);

    for (; word && word->text.len >= text.len && memcmp(word->text.data, text.data, text.len) == 0;
            word = word->next[0])
        if (!add_source(state, word))
            return false;
    return true;
}

/* Finds where all possible matches are. Returns false if walking all rows is better. */
static bool find_sources(search_state *state)
{
    const memory_word *rarest = state->words_len > 0 ? state->words[0] : NULL;

    if (!add_source(state, pal_memory_word_wide(&state->tenant->words)))
        return false;
    for (size_t i = 1; i < state->words_len; i++)
        if (state->words[i]->len < rarest->len)
            rarest = state->words[i];
    if (state->is_missing)
        return true;
    if (rarest)
        return add_source(state, rarest);
    return state->has_prefix && add_prefixed(state);
}

/* Returns the newest remaining position, or 0 if there is none. Removed rows appear newer than all
 * others. */
static uint64_t take_newest(search_state *state, bool *out_wide)
{
    uint64_t newest = 0;

    *out_wide = false;
    for (size_t i = 0; i < state->sources_len; i++) {
        source *from = &state->sources[i];

        while (from->left > 0 && from->word->positions[from->left - 1] >> 63)
            from->left--;
        if (from->left > 0 && from->word->positions[from->left - 1] > newest)
            newest = from->word->positions[from->left - 1];
    }
    for (size_t i = 0; newest > 0 && i < state->sources_len; i++) {
        source *from = &state->sources[i];

        if (from->left == 0 || from->word->positions[from->left - 1] != newest)
            continue;
        from->left--;
        *out_wide = *out_wide || from->word == pal_memory_word_wide(&state->tenant->words);
    }
    return newest;
}

static bool has_all(const search_state *state, uint64_t pos)
{
    for (size_t i = 0; i < state->words_len; i++)
        if (!pal_memory_word_has(state->words[i], pos))
            return false;
    return true;
}

static void look(search_state *state)
{
    const memory_row *unindexed = state->engine->unindexed;
    uint64_t pos;
    bool is_wide;

    pal_words_query_terms(state->search->query, take_term, state);
    if (!find_sources(state)) {
        walk(state, NULL);
        return;
    }
    if (unindexed)
        walk(state, unindexed->older);
    while (state->wanted && (pos = take_newest(state, &is_wide)) > 0) {
        const memory_row *row = pal_memory_row_at(state->engine, pos);

        /* A row whose words were added only in part was already examined by the walk. */
        if (!row || (unindexed && pos >= unindexed->pos))
            continue;
        if (is_wide || has_all(state, pos))
            offer(state, row);
    }
}

pal_status pal_memory_row_search(pal_engine *base, const pal_row_search *search,
        pal_found_sink sink, void *user, pal_error *err)
{
    memory_engine *engine = (memory_engine *)base;
    search_state state = {
            .engine = engine, .search = search, .sink = sink, .user = user, .wanted = true};

    (void)err;
    pthread_rwlock_rdlock(&engine->lock);
    state.tenant = pal_memory_tenant_find(engine, search->tenant);
    if (state.tenant)
        look(&state);
    pthread_rwlock_unlock(&engine->lock);
    return PAL_OK;
}

/* ---- Ranked searches ---- */

typedef struct ranking {
    search_state *state;
    const pal_row_rank *rank;
    pal_choose_row *choices; /* sorted by place only when they are complete */
    size_t len, cap;
    double found[PAL_RANK_TERMS_MAX]; /* living places of each term */
} ranking;

static bool belongs_to(const memory_word *word, pal_term term)
{
    return pal_text_begins_str(word->text, term.text) &&
            (term.is_prefix || word->text.len == term.text.len) &&
            (term.stem.len == 0 || pal_fold_has_stem(word->text, term.stem));
}

/* Calls `each` for all words of a term. */
static bool each_word_of(ranking *r, size_t term,
        bool (*each)(ranking *r, const memory_word *word, size_t term))
{
    pal_term wanted = r->rank->query->terms[term].index;
    const memory_word *word = pal_memory_word_from(&r->state->tenant->words, wanted.text);

    for (; word && pal_text_begins_str(word->text, wanted.text); word = word->next[0])
        if (belongs_to(word, wanted) && !each(r, word, term))
            return false;
    return true;
}

static bool count_word(ranking *r, const memory_word *word, size_t term)
{
    r->found[term] += (double)(word->len - word->dead);
    return true;
}

/* Adds the newest places of a word, CHOICES_MAX of the whole search at most. */
static bool choose_word(ranking *r, const memory_word *word, size_t term)
{
    for (size_t at = word->len; at > 0 && r->len < CHOICES_MAX; at--) {
        uint64_t pos = word->positions[at - 1];

        if (pos >> 63)
            continue;
        if (!pal_reserve(&r->choices, &r->cap, r->len + 1, sizeof *r->choices))
            return false;
        r->choices[r->len++] = (pal_choose_row){pos, UINT64_C(1) << term};
    }
    return true;
}

static int compare_choices(const void *left, const void *right)
{
    const pal_choose_row *a = left, *b = right;

    return (a->place < b->place) - (a->place > b->place);
}

static bool is_searched(const ranking *r, uint64_t pos)
{
    const memory_row *row = pal_memory_row_at(r->state->engine, pos);
    const memory_row *unindexed = r->state->engine->unindexed;
    pal_handle handle;

    if (!row || (unindexed && pos >= unindexed->pos) ||
            (r->rank->role != PAL_ROLE_NONE && row->row.role != r->rank->role))
        return false;
    handle = (pal_handle){.number = row->session->handle, .id = row->session->id};
    return !r->rank->pieces || pal_chain_pieces_have(r->rank->pieces, r->rank->pieces_len, handle,
            row->row.seq);
}

/* Makes one choice of those for the same row, without the rows that are not searched. */
static void join_choices(ranking *r)
{
    size_t kept = 0;

    if (r->len > 0)
        qsort(r->choices, r->len, sizeof *r->choices, compare_choices);
    for (size_t i = 0; i < r->len; i++) {
        if (kept > 0 && r->choices[kept - 1].place == r->choices[i].place)
            r->choices[kept - 1].terms |= r->choices[i].terms;
        else if (is_searched(r, r->choices[i].place))
            r->choices[kept++] = r->choices[i];
    }
    r->len = kept;
}

/* Chooses rows by the rarest words first. */
static bool choose(ranking *r)
{
    uint64_t left = 0;
    bool has_room = true;

    for (size_t term = 0; term < r->rank->query->len; term++) {
        each_word_of(r, term, count_word);
        if (r->found[term] > 0)
            left |= UINT64_C(1) << term;
    }
    while (has_room && left && r->len < CHOICES_MAX) {
        size_t rarest = (size_t)__builtin_ctzll(left);

        for (uint64_t mask = left; mask; mask &= mask - 1)
            if (r->found[__builtin_ctzll(mask)] < r->found[rarest])
                rarest = (size_t)__builtin_ctzll(mask);
        left &= ~(UINT64_C(1) << rarest);
        has_room = each_word_of(r, rarest, choose_word);
    }
    if (has_room)
        join_choices(r);
    return has_room;
}

static void offer_at(search_state *state, uint64_t pos)
{
    const memory_row *row = pal_memory_row_at(state->engine, pos);

    if (row && state->wanted)
        offer(state, row);
}

static pal_status rank_rows(ranking *r, pal_rank_counts *out_counts, pal_error *err)
{
    search_state *state = r->state;
    const memory_word *wide = pal_memory_word_wide(&state->tenant->words);
    double weights[PAL_RANK_TERMS_MAX];

    if (state->engine->unindexed)
        walk(state, state->engine->unindexed->older);
    for (size_t at = wide ? wide->len : 0, seen = 0; at > 0 && seen < WIDE_MAX; at--, seen++)
        offer_at(state, wide->positions[at - 1]);
    out_counts->rows = (double)state->tenant->counts.messages;
    if (!choose(r))
        return pal_no_memory(err);
    for (size_t i = 0; i < r->rank->query->len; i++) {
        out_counts->terms[i] = r->found[i];
        weights[i] = pal_rank_weight(out_counts->rows, r->found[i]);
    }
    out_counts->more = r->len > r->rank->rows_max;
    if (!pal_choose_keep(r->choices, &r->len, r->rank->rows_max, weights))
        return pal_no_memory(err);
    state->is_counted = true;
    for (size_t i = 0; i < r->len; i++)
        offer_at(state, r->choices[i].place);
    return PAL_OK;
}

pal_status pal_memory_row_rank(pal_engine *base, const pal_row_rank *rank, pal_found_sink sink,
        void *user, pal_rank_counts *out_counts, pal_error *err)
{
    memory_engine *engine = (memory_engine *)base;
    pal_row_search search = {.tenant = rank->tenant, .role = rank->role};
    search_state state = {
            .engine = engine, .search = &search, .sink = sink, .user = user, .wanted = true};
    ranking r = {.state = &state, .rank = rank};
    pal_status status = PAL_OK;

    memset(out_counts, 0, sizeof *out_counts);
    pthread_rwlock_rdlock(&engine->lock);
    state.tenant = pal_memory_tenant_find(engine, search.tenant);
    if (state.tenant)
        status = rank_rows(&r, out_counts, err);
    pthread_rwlock_unlock(&engine->lock);
    pal_free(r.choices);
    return status;
}

pal_status pal_memory_fork_list(pal_engine *base, pal_handle handle, uint64_t min_seq,
        pal_arena *arena, pal_id **out_ids, size_t *out_len, pal_error *err)
{
    memory_engine *engine = (memory_engine *)base;
    const memory_session *session, *child;
    pal_id *ids = NULL;
    size_t len = 0, at = 0;
    pal_status status;

    pthread_rwlock_rdlock(&engine->lock);
    session = pal_memory_session_by_handle(engine, handle.number);
    for (child = session ? session->children : NULL; child; child = child->next_child)
        len += child->info->record.fork_seq >= min_seq;
    if (len > 0)
        ids = pal_arena_array(arena, len, sizeof *ids);
    for (child = ids ? session->children : NULL; child; child = child->next_child)
        if (child->info->record.fork_seq >= min_seq)
            ids[at++] = child->id;
    pthread_rwlock_unlock(&engine->lock);
    status = pal_memory_arena_status(arena, err);
    if (status == PAL_OK) {
        *out_ids = ids;
        *out_len = len;
    }
    return status;
}
