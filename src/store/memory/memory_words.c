/* memory_words.c - the search index of "memory:": which rows of a tenant contain which word.
 *
 * The words of a tenant are in a skip list, sorted by their bytes, so that words with the same
 * prefix are neighbors. A word has the positions of its rows in ascending order. Rows are added
 * some time after their append, in steps; until then a search reads them one by one
 * (memory_search.c). A long text is not split into words: its row is listed under a name that
 * no word can have, and every search looks at it.
 *
 * When a row is removed, its positions are marked as dead. They are cut out when they are half of a
 * word's positions, and a word without a living row is removed immediately. If there is no memory
 * to split the text of a removed row, its positions stay and lead to no row. */
#include <string.h>

#include "base/memory.h"
#include "store/memory/memory_words.h"
#include "store/search/search_text.h"

/* The words of a longer text are not indexed. */
#define WIDE_TEXT_LEN ((size_t)256 << 10)
#define DEAD (UINT64_C(1) << 63)

static const pal_str wide_name = {"\1w", 2};

/* ---- Words ---- */

/* Finds, on each level, the link before the first word that is not less than `text`. */
static memory_word *find_links(
        memory_words *words, pal_str text, memory_word **links[MEMORY_WORD_LEVELS])
{
    memory_word **next = words->first;

    for (int level = MEMORY_WORD_LEVELS; level-- > 0;) {
        while (next[level] && pal_text_compare(next[level]->text, text) < 0)
            next = next[level]->next;
        links[level] = &next[level];
    }
    return *links[0];
}

memory_word *pal_memory_word_from(const memory_words *words, pal_str text)
{
    memory_word *const *next = words->first;

    for (int level = MEMORY_WORD_LEVELS; level-- > 0;)
        while (next[level] && pal_text_compare(next[level]->text, text) < 0)
            next = next[level]->next;
    return next[0];
}

memory_word *pal_memory_word_find(const memory_words *words, pal_str text)
{
    memory_word *word = pal_memory_word_from(words, text);

    return word && pal_str_equal(word->text, text) ? word : NULL;
}

memory_word *pal_memory_word_wide(const memory_words *words)
{
    return pal_memory_word_find(words, wide_name);
}

/* One word in four is also on the next level. */
static int draw_levels(memory_words *words)
{
    uint64_t random = words->random = words->random * UINT64_C(6364136223846793005) + 1;
    int levels = 1;

    for (; levels < MEMORY_WORD_LEVELS && random >> 62 == 0; random <<= 2)
        levels++;
    return levels;
}

static memory_word *word_new(memory_words *words, pal_str text)
{
    memory_word **links[MEMORY_WORD_LEVELS];
    memory_word *word = find_links(words, text, links);
    char *cursor;
    int levels;

    if (word && pal_str_equal(word->text, text))
        return word;
    levels = draw_levels(words);
    word = pal_memory_alloc(
            sizeof *word + (size_t)levels * sizeof(memory_word *), text.len, &cursor);
    if (!word)
        return NULL;
    word->text = pal_memory_put(&cursor, text);
    for (int level = 0; level < levels; level++) {
        word->next[level] = *links[level];
        *links[level] = word;
    }
    return word;
}

static void word_free(memory_words *words, memory_word *word)
{
    memory_word **links[MEMORY_WORD_LEVELS];

    find_links(words, word->text, links);
    for (int level = 0; level < MEMORY_WORD_LEVELS && *links[level] == word; level++)
        *links[level] = word->next[level];
    memset((char *)word->text.data, 0, word->text.len);
    pal_free(word->positions);
    pal_free(word);
}

void pal_memory_words_clear(memory_words *words)
{
    for (memory_word *word = words->first[0], *next; word; word = next) {
        next = word->next[0];
        pal_free(word->positions);
        pal_free(word);
    }
    memset(words, 0, sizeof *words);
}

/* ---- Positions ---- */

/* Returns the number of positions below `pos`. */
size_t pal_memory_word_below(const memory_word *word, uint64_t pos)
{
    size_t low = 0, high = word->len;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if ((word->positions[middle] & ~DEAD) < pos)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool pal_memory_word_has(const memory_word *word, uint64_t pos)
{
    size_t at = pal_memory_word_below(word, pos);

    return at < word->len && word->positions[at] == pos;
}

/* Rows arrive in ascending order. A row that failed before for lack of memory is added again. */
static bool add_position(memory_words *words, pal_str text, uint64_t pos)
{
    memory_word *word = word_new(words, text);

    if (!word)
        return false;
    if (word->len > 0 && word->positions[word->len - 1] == pos)
        return true;
    if (!pal_reserve(&word->positions, &word->cap, word->len + 1, sizeof *word->positions)) {
        if (word->len == 0)
            word_free(words, word);
        return false;
    }
    word->positions[word->len++] = pos;
    return true;
}

static void drop_position(memory_words *words, pal_str text, uint64_t pos)
{
    memory_word *word = pal_memory_word_find(words, text);
    size_t at = word ? pal_memory_word_below(word, pos) : 0, kept = 0;

    if (!word || at == word->len || word->positions[at] != pos)
        return;
    word->positions[at] |= DEAD;
    word->dead++;
    if (word->dead == word->len) {
        word_free(words, word);
        return;
    }
    if (word->dead <= word->len / 2)
        return;
    for (size_t i = 0; i < word->len; i++)
        if (!(word->positions[i] & DEAD))
            word->positions[kept++] = word->positions[i];
    word->len = kept;
    word->dead = 0;
}

/* ---- Rows ---- */

typedef struct row_words {
    memory_words *words;
    uint64_t pos;
    bool is_removal;
    bool failed;
} row_words;

static bool take_term(pal_term term, void *user)
{
    row_words *state = user;

    if (state->is_removal)
        drop_position(state->words, term.text, state->pos);
    else
        state->failed = !add_position(state->words, term.text, state->pos);
    return !state->failed;
}

/* A damaged row has no words. */
static bool each_word(const memory_row *row, row_words *state)
{
    pal_arena *scratch = pal_arena_new(0);
    pal_buf text, normal;
    pal_status status;

    if (row->row.body.len > WIDE_TEXT_LEN) {
        pal_arena_free(scratch);
        take_term((pal_term){.text = wide_name}, state);
        return !state->failed;
    }
    pal_buf_init(&text, SIZE_MAX / 4);
    pal_buf_init(&normal, SIZE_MAX / 4);
    status = scratch ? pal_row_text(&row->row, scratch, &text, NULL) : PAL_NO_MEMORY;
    if (status == PAL_OK) {
        pal_words_normal(pal_buf_str(&text), &normal);
        status = normal.failure;
    }
    if (status == PAL_OK)
        pal_words_terms(pal_buf_str(&normal), take_term, state);
    pal_buf_done(&text);
    pal_buf_done(&normal);
    pal_arena_free(scratch);
    return (status == PAL_OK || status == PAL_CORRUPT) && !state->failed;
}

static pal_str pos_key(const memory_row *row)
{
    return pal_str_make((const char *)&row->pos, sizeof row->pos);
}

bool pal_memory_words_add(memory_engine *engine, memory_row *row)
{
    row_words state = {.words = &row->session->tenant->words, .pos = row->pos};

    return pal_map_set(&engine->places, pos_key(row), row) == PAL_OK && each_word(row, &state);
}

void pal_memory_words_remove(memory_engine *engine, memory_row *row)
{
    row_words state = {
            .words = &row->session->tenant->words, .pos = row->pos, .is_removal = true};

    if (pal_map_remove(&engine->places, pos_key(row)))
        (void)each_word(row, &state);
}

memory_row *pal_memory_row_at(const memory_engine *engine, uint64_t pos)
{
    return pal_map_find(&engine->places, pal_str_make((const char *)&pos, sizeof pos));
}
