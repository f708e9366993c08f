/* search_fold.c - suffix folding. See search_fold.h. */
#include "store/search/search_fold.h"

#include <string.h>

enum {
    WORD_LEN_MIN = 4, /* shorter words are not folded */
    STEM_LEN_MIN = 3,
    LONG_STEM_LEN_MIN = 4, /* what is left before a suffix that makes another kind of word */
};

static bool is_letters(pal_str term)
{
    for (size_t i = 0; i < term.len; i++)
        if (term.data[i] < 'a' || term.data[i] > 'z')
            return false;
    return true;
}

static bool ends(const char *stem, size_t len, const char *suffix)
{
    size_t suffix_len = strlen(suffix);

    return len >= suffix_len && memcmp(stem + len - suffix_len, suffix, suffix_len) == 0;
}

static bool has_vowel(const char *stem, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (memchr("aeiouy", stem[i], 6))
            return true;
    return false;
}

/* "cities" becomes "city", "boxes" "box" and "dogs" "dog"; "glass" and "bus" stay. */
static size_t drop_plural(char *stem, size_t len)
{
    if (len > WORD_LEN_MIN && ends(stem, len, "ies")) {
        stem[len - 3] = 'y';
        return len - 2;
    }
    if (ends(stem, len, "sses") || ends(stem, len, "shes") || ends(stem, len, "ches") ||
            ends(stem, len, "xes"))
        return len - 2;
    if (ends(stem, len, "s") && !ends(stem, len, "ss") && !ends(stem, len, "us") &&
            !ends(stem, len, "is"))
        return len - 1;
    return len;
}

/* "stopped" and "stopping" become "stop". */
static size_t drop_verb(const char *stem, size_t len)
{
    size_t kept = ends(stem, len, "ing") ? len - 3 : ends(stem, len, "ed") ? len - 2 : len;

    if (kept == len || kept < STEM_LEN_MIN || !has_vowel(stem, kept))
        return len;
    if (kept > STEM_LEN_MIN && stem[kept - 1] == stem[kept - 2])
        kept--;
    return kept;
}

static size_t drop_last_e(const char *stem, size_t len)
{
    return len > STEM_LEN_MIN && stem[len - 1] == 'e' ? len - 1 : len;
}

static size_t drop_kind(const char *stem, size_t len)
{
    static const char *const suffixes[] = {
            "ly", "er", "or", "ion", "ment", "ness", "ful", "abl", "ativ", "iv"};

    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
        if (ends(stem, len, suffixes[i]) && len - strlen(suffixes[i]) >= LONG_STEM_LEN_MIN) {
            len -= strlen(suffixes[i]);
            break;
        }
    if (len > LONG_STEM_LEN_MIN + 1 && ends(stem, len, "at"))
        len -= 2;
    return drop_last_e(stem, len);
}

size_t pal_fold_stem(pal_str term, char out_stem[PAL_TERM_LEN_MAX])
{
    size_t len = term.len < PAL_TERM_LEN_MAX ? term.len : PAL_TERM_LEN_MAX;

    memcpy(out_stem, term.data, len);
    if (len < WORD_LEN_MIN || len == PAL_TERM_LEN_MAX || !is_letters(term))
        return len;
    len = drop_plural(out_stem, len);
    len = drop_verb(out_stem, len);
    len = drop_last_e(out_stem, len);
    len = drop_kind(out_stem, len);
    if (len > STEM_LEN_MIN && out_stem[len - 1] == 'y')
        out_stem[len - 1] = 'i';
    return len;
}

bool pal_fold_has_stem(pal_str term, pal_str stem)
{
    char own[PAL_TERM_LEN_MAX];

    return pal_str_equal(pal_str_make(own, pal_fold_stem(term, own)), stem);
}

bool pal_fold_has_forms(pal_str stem)
{
    return stem.len >= STEM_LEN_MIN && stem.len < PAL_TERM_LEN_MAX && is_letters(stem);
}

pal_str pal_fold_prefix(pal_str stem)
{
    if (stem.len > STEM_LEN_MIN && stem.data[stem.len - 1] == 'i')
        stem.len--;
    return stem;
}
