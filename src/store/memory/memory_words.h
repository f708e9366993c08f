/* memory_words.h - the search index of "memory:", for memory*.c only. Callers that
 * change it hold the engine's lock for writing; all others hold it for reading. */
#ifndef PAL_MEMORY_WORDS_H
#define PAL_MEMORY_WORDS_H

#include "store/memory/memory_store.h"

struct mem_word {
    pal_str text;
    uint64_t *positions; /* positions of its rows, ascending; the highest bit says that the row was
                            removed */
    size_t len, cap;
    size_t dead;
    mem_word *next[]; /* the next word in each of its levels */
};

/* Adds the row's words. It can be called again after a failure. Returns false if memory runs
 * out. */
bool pal_mem_words_add(mem_engine *engine, mem_row *row);
/* Removes the row's words. */
void pal_mem_words_remove(mem_engine *engine, mem_row *row);
void pal_mem_words_clear(mem_words *words);

/* Returns the word or NULL. */
mem_word *pal_mem_word_find(const mem_words *words, pal_str text);
/* Returns the first word that is not less than `text`, or NULL if there is none. */
mem_word *pal_mem_word_from(const mem_words *words, pal_str text);
/* Returns the rows that every search must look at, or NULL if there are none. */
mem_word *pal_mem_word_wide(const mem_words *words);
bool pal_mem_word_has(const mem_word *word, uint64_t pos);
/* Returns the number of positions below `pos`. */
size_t pal_mem_word_below(const mem_word *word, uint64_t pos);
/* Returns the row at a position of the index, or NULL if the row was removed. */
mem_row *pal_mem_row_at(const mem_engine *engine, uint64_t pos);

#endif
