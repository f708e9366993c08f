/* split.h - cuts a text into the pieces that are looked up in the vocabulary, as the
 * encoding's pattern does. The scanners are written by hand. Each follows its regular expression,
 * alternative by alternative, with the backtracking resolved, so that no character is examined more
 * than a few times. Pure functions for any thread. */
#ifndef PAL_SPLIT_H
#define PAL_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "palaver/str.h"

enum pal_split_family {
    PAL_SPLIT_CASED, /* o200k: a word begins where upper case follows lower case */
    PAL_SPLIT_PLAIN, /* cl100k: a word consists of letters */
    PAL_SPLIT_GPT2,  /* only a space belongs to a word; line ends are ordinary white space */
    PAL_SPLIT_DEEPSEEK,
};

/* A pattern: its family, and how it differs from the others of the family. */
struct pal_split {
    const char *name;
    enum pal_split_family family;
    unsigned digits_max;   /* maximum digits of one piece; 0: any number */
    bool has_contractions; /* 's 't 're 've 'm 'll 'd */
    bool is_any_case;      /* also 'S and so on */
    bool takes_slashes;    /* slashes after punctuation and line ends belong to the piece */
};

/* Their positions are stored in tables: patterns are only added, never renumbered. */
extern const struct pal_split pal_splits[];
extern const size_t pal_splits_len;

/* Returns the index of the pattern with this name, or pal_splits_len. */
size_t pal_split_find(pal_str name);

/* Returns the length of the piece at `p`, which must be before `end`. Returns 0 only if `is_final`
 * is false and the answer depends on the text after `end`. */
size_t pal_split_next(const struct pal_split *split, const unsigned char *p,
        const unsigned char *end, bool is_final);

/* How to continue with an undecided piece without keeping its beginning. `text` is a text that, put
 * before the following text, is split in the same way. The piece may turn out to have ended
 * earlier, at `cut`, which corresponds to the first `text_cut` bytes of `text`. `cut_text` is such
 * a text for the piece that begins there. */
struct pal_split_rest {
    size_t used; /* bytes that are not needed any more; whole characters */
    const char *text;
    size_t cut; /* 0: none */
    size_t text_cut;
    const char *cut_text;
};

/* Like pal_split_next() with `is_final` false. *out_rest is set if it returns 0. This works only
 * for pieces of several characters, because the text after the first character can change its
 * meaning. */
size_t pal_split_rest(const struct pal_split *split, const unsigned char *p,
        const unsigned char *end, struct pal_split_rest *out_rest);

#define PAL_SPLIT_WINDOW 64

/* Returns where pieces begin in the first `len` bytes at `p`, one bit for each byte.
 * PAL_SPLIT_WINDOW bytes must be readable. A piece begins at `p` itself. All pieces except that of
 * the highest bit are decided, whatever follows. Characters beyond ASCII are not examined, so
 * possibly only the lowest bit is set. */
uint64_t pal_split_window(const struct pal_split *split, const unsigned char *p, size_t len);

/* DeepSeek's pattern (split_deepseek.c). It consists of three patterns, each applied to what the
 * previous one left. Like pal_split_next() and, if `rest` is not NULL, pal_split_rest(). */
size_t pal_split_deepseek(const unsigned char *p, const unsigned char *end, bool is_final,
        struct pal_split_rest *rest);

#endif
