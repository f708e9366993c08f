/* memory_words.h - the search index of "memory:", for memory*.c only. Callers that
 * change it hold the engine's lock for writing; all others hold it for reading. */
#ifndef PAL_MEMORY_WORDS_H
#define PAL_MEMORY_WORDS_H

#include "store/memory/memory_store.h"

struct memory_word {
    pal_str text;
    uint64_t *positions; /* positions of its rows, ascending; the highest bit says that the row was
                            removed */
    size_t len, cap;
    size_t dead;
    memory_word *next[]; /* the next word in each of its levels */
};

/* Adds the row's words. It can be called again after a failure. Returns false if memory runs
 * out. */
bool pal_memory_words_add(memory_engine *engine, memory_row *row);
/* Removes the row's words. */
void pal_memory_words_remove(memory_engine *engine, memory_row *row);
void pal_memory_words_clear(memory_words *words);

/* Returns the word or NULL. */
memory_word *pal_memory_word_find(const memory_words *words, pal_str text);
/* Returns the first word that is not less than `text`, or NULL if there is none. */
memory_word *pal_memory_word_from(const memory_words *words, pal_str text);
/* Returns the rows that every search must look at, or NULL if there are none. */
memory_word *pal_memory_word_wide(const memory_words *words);
bool pal_memory_word_has(const memory_word *word, uint64_t pos);
/* Returns the number of positions below `pos`. */
size_t pal_memory_word_below(const memory_word *word, uint64_t pos);
/* Returns the row at a position of the index, or NULL if the row was removed. */
memory_row *pal_memory_row_at(const memory_engine *engine, uint64_t pos);

#endif
