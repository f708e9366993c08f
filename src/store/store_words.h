/* store_words.h - words: how texts and queries are compared by a search.
 *
 * Both are brought to a normal form: characters folded (case and width don't count), runs of them
 * with one space between. A run is a word, or a stretch of a script that is written without spaces.
 * A phrase is found where its normal form stands in the text's, at the beginning and end of words;
 * within unspaced runs anywhere. An index only has to narrow down where to look: the terms of a
 * phrase are among those of every text that has it.
 *
 * Pure functions over the caller's memory: any thread may call them. */
#ifndef PAL_STORE_WORDS_H
#define PAL_STORE_WORDS_H

#include <stdbool.h>
#include "base/buf.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/str.h"

/* Longer terms are cut: they only narrow down. */
#define PAL_TERM_LEN_MAX 32

/* Appends the normal form of a text of any bytes. */
void pal_words_normal(pal_str text, pal_buf *out);

/* Where in the text the byte `at` of its normal form comes from. */
size_t pal_words_origin(pal_str text, size_t at);

typedef struct pal_term {
    pal_str text;
    bool is_prefix; /* of a query: terms that begin so will do */
} pal_term;

/* False stops. The term is borrowed for the call. */
typedef bool (*pal_term_sink)(pal_term term, void *user);

/* The terms by which an index keeps a text of that normal form, in their order, some repeatedly:
 * its words, and of unspaced runs each two neighbours and the last one alone. */
void pal_words_terms(pal_str normal, pal_term_sink sink, void *user);

typedef struct pal_phrase {
    pal_str normal;
    bool is_prefix; /* the last word may go on */
} pal_phrase;

typedef struct pal_query {
    pal_phrase *phrases; /* all of which must occur; at least one */
    size_t len;
} pal_query;

/* Reads what someone looks for: words, "phrases" in quotes, and words* that may go on. Any text is
 * a query but one without a word (PAL_INVALID) or with too many (PAL_LIMIT). In the arena. */
PAL_CHECKED pal_status pal_query_read(
        pal_str text, pal_arena *arena, pal_query *out_query, pal_error *err);

/* The terms that every text has in which all phrases occur. */
void pal_query_terms(const pal_query *query, pal_term_sink sink, void *user);

/* Whether all phrases occur in a text of that normal form, and where the first of them begins. */
bool pal_query_matches(const pal_query *query, pal_str normal, size_t *out_first);

/* Some 120 characters of the text around the byte `at`, white space as single spaces, with an
 * ellipsis where something was left out; in the arena. */
pal_str pal_words_snippet(pal_str text, size_t at, pal_arena *arena);

#endif
