/* search_words.h - words: how a search compares texts and queries.
 *
 * Texts and queries are converted to a normal form: characters are folded (case and width are
 * ignored) and grouped into runs with one space between them. A run is a word, or a stretch of a
 * script that is written without spaces. A phrase matches a text if its normal form occurs in that
 * of the text, at the beginning and end of words; in runs without spaces it can occur anywhere. An
 * index only has to narrow the search: the terms of a phrase are among the terms of every text that
 * contains the phrase.
 *
 * These are pure functions over the caller's memory. Any thread can call them. */
#ifndef PAL_SEARCH_WORDS_H
#define PAL_SEARCH_WORDS_H

#include <stdbool.h>
#include "base/buf.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/store_search.h"
#include "palaver/str.h"

/* Longer terms are cut. This is safe, because terms only narrow the search. */
#define PAL_TERM_LEN_MAX 32

/* Appends the normal form of a text, which can contain any bytes. */
void pal_words_normal(pal_str text, pal_buf *out);

/* Returns the offset in the text that the byte `at` of its normal form comes from. */
size_t pal_words_origin(pal_str text, size_t at);

typedef struct pal_term {
    pal_str text;
    bool is_prefix; /* in queries: all terms that begin with this one match */
    pal_str stem;   /* in queries with is_prefix: not empty: only those with this stem match
                       (search_fold.h) */
} pal_term;

/* Returns false to stop. The term is borrowed for the call. */
typedef bool (*pal_term_sink)(pal_term term, void *user);

/* Calls the sink with the terms under which an index keeps a text of this normal form, in order and
 * possibly repeated. They are its words; for runs without spaces, each pair of neighboring
 * characters and the last character alone. */
void pal_words_terms(pal_str normal, pal_term_sink sink, void *user);

typedef struct pal_phrase {
    pal_str normal;
    bool is_prefix; /* the last word may continue */
    bool is_quoted;
} pal_phrase;

typedef struct pal_query {
    pal_phrase *phrases; /* all of them must occur; at least one */
    size_t len;
} pal_query;

/* Parses a query: words, "phrases" in quotes, and prefixes such as word*. Every text is a query,
 * except one without a word (PAL_INVALID) or with too many words (PAL_LIMIT). The result is in the
 * arena. */
PAL_CHECKED pal_status pal_words_query_read(
        pal_str text, pal_arena *arena, pal_query *out_query, pal_error *err);

/* Calls the sink with the terms that are in every text in which all phrases occur. */
void pal_words_query_terms(const pal_query *query, pal_term_sink sink, void *user);

/* Returns whether all phrases occur in a text of this normal form, and where the first of them
 * begins. */
bool pal_words_query_match(const pal_query *query, pal_str normal, size_t *out_first);

/* Finds all phrases in a text and writes where they are, in characters, ascending and not
 * overlapping. Returns their number, `max` at most. A phrase that only partly lies in the text is
 * not found. */
size_t pal_words_matches(
        const pal_query *query, pal_str text, pal_search_match *out_matches, size_t max);

/* Returns the place in the text of the bytes from `at` to `end` of its normal form. */
pal_search_match pal_words_match_at(pal_str text, size_t at, size_t end);
/* Sorts matches and joins those that overlap. Returns how many are left. */
size_t pal_words_matches_join(pal_search_match *matches, size_t len);

/* Returns about 120 characters of the text around the byte `at`, in the arena. White space becomes
 * single spaces, and an ellipsis marks each cut. */
pal_str pal_words_snippet(pal_str text, size_t at, pal_arena *arena);

#endif
