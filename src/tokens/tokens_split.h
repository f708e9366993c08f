/* tokens_split.h - cuts a text into the pieces that are looked up in the vocabulary, as the
 * encoding's pattern does. Hand-written scanners: each is its regular expression, alternative by
 * alternative, with the backtracking worked out, so that no character is looked at more than a
 * few times. Pure functions, any thread. */
#ifndef PAL_TOKENS_SPLIT_H
#define PAL_TOKENS_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "palaver/str.h"

enum pal_split_family {
    PAL_SPLIT_CASED, /* o200k: words begin where upper case follows lower case */
    PAL_SPLIT_PLAIN, /* cl100k: words are letters */
    PAL_SPLIT_GPT2,  /* only a space goes with a word; line ends are white space like any other */
    PAL_SPLIT_DEEPSEEK,
};

/* A pattern is a family and what differs within it. */
struct pal_split {
    const char *name;
    enum pal_split_family family;
    unsigned digits_max;   /* of one piece; 0: any number */
    bool has_contractions; /* 's 't 're 've 'm 'll 'd */
    bool is_any_case;      /* 'S too */
    bool takes_slashes;    /* behind punctuation and line ends */
};

/* Their places are in the tables: appended, never renumbered. */
extern const struct pal_split pal_splits[];
extern const size_t pal_splits_len;

/* The number of the pattern of this name, or pal_splits_len. */
size_t pal_split_find(pal_str name);

/* The length of the piece at `p`, which is before `end`. 0 only when `is_final` is not set and the
 * answer depends on what follows `end`. */
size_t pal_split_next(const struct pal_split *split, const unsigned char *p,
        const unsigned char *end, bool is_final);

/* How to go on with a piece that is not decided, without its beginning: a text that, put before
 * what follows, is split like it. Where it may turn out that the piece ended earlier, at `cut`,
 * which are the first `text_cut` bytes of the text, `cut_text` is the same for the piece that
 * began there. */
struct pal_split_rest {
    size_t used; /* so many bytes are not needed again: whole characters */
    const char *text;
    size_t cut; /* 0: none */
    size_t text_cut;
    const char *cut_text;
};

/* As pal_split_next() without `is_final`; *out_rest is set when it returns 0. It holds for pieces
 * of several characters: what follows the first one may change what that is. */
size_t pal_split_rest(const struct pal_split *split, const unsigned char *p,
        const unsigned char *end, struct pal_split_rest *out_rest);

#define PAL_SPLIT_WINDOW 64

/* Where pieces begin among the first `len` bytes at `p`, of which PAL_SPLIT_WINDOW can be read: a
 * bit each. `p` itself begins one. All but the piece of the highest bit are decided, whatever
 * follows. Only ASCII is looked at, so it may well be that only the lowest bit is set. */
uint64_t pal_split_window(const struct pal_split *split, const unsigned char *p, size_t len);

#endif
