/* store_memory_words.h - the search index of "memory:"; for store_memory*.c only. The engine's lock
 * is held for writing by callers that change it, for reading by all others. */
#ifndef PAL_STORE_MEMORY_WORDS_H
#define PAL_STORE_MEMORY_WORDS_H

#include "store/store_memory.h"

struct mem_word {
    pal_str text;
    uint64_t *positions; /* of its rows, ascending; the highest bit says that the row is gone */
    size_t len, cap;
    size_t dead;
    mem_word *next[]; /* in each of its levels */
};

/* Adds the row's words; again where this failed before. False when there is no memory. */
bool pal_mem_words_add(mem_engine *engine, mem_row *row);
/* Takes them out again. */
void pal_mem_words_remove(mem_engine *engine, mem_row *row);
void pal_mem_words_clear(mem_words *words);

/* The word, or NULL. */
mem_word *pal_mem_word_find(const mem_words *words, pal_str text);
/* The first word that is not less; NULL where there is none. */
mem_word *pal_mem_word_from(const mem_words *words, pal_str text);
/* The rows that every search looks at; NULL where there are none. */
mem_word *pal_mem_word_wide(const mem_words *words);
bool pal_mem_word_has(const mem_word *word, uint64_t pos);
/* The number of positions below `pos`. */
size_t pal_mem_word_below(const mem_word *word, uint64_t pos);
/* The row at a position in the index; NULL where it is gone. */
mem_row *pal_mem_row_at(const mem_engine *engine, uint64_t pos);

#endif
