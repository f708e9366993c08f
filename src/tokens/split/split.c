/* split.c - the scanners, one character at a time. split_window.c is the fast path
 * for ASCII. Both must agree, and a test compares them.
 *
 * "Undecided" below means the result 0: the scan reached the end of the available text, and more
 * text could change the piece. */
#include "tokens/split/split.h"
#include "tokens/split/split_class.h"

const struct pal_split pal_splits[] = {
        {"o200k", PAL_SPLIT_CASED, 3, true, true, true},
        {"cl100k", PAL_SPLIT_PLAIN, 3, true, true, false},
        {"llama3", PAL_SPLIT_PLAIN, 3, true, true, false},
        {"qwen2", PAL_SPLIT_PLAIN, 1, true, true, false},
        {"tekken", PAL_SPLIT_CASED, 1, false, false, true},
        {"gpt2", PAL_SPLIT_GPT2, 0, true, false, false},
        {"claude", PAL_SPLIT_GPT2, 0, true, false, false},
        {"deepseek", PAL_SPLIT_DEEPSEEK, 3, false, false, false},
};
const size_t pal_splits_len = sizeof pal_splits / sizeof pal_splits[0];

size_t pal_split_find(pal_str name)
{
    size_t i = 0;

    while (i < pal_splits_len && !pal_str_is(name, pal_splits[i].name))
        i++;
    return i;
}

/* One scan of the text, beginning at the piece. */
struct scan {
    const struct pal_split *split;
    const unsigned char *begin;
    const unsigned char *end;
    bool is_final;
    struct pal_split_rest *rest; /* may be NULL */
};

/* The piece is not decided. After `q` it continues in the same way as after `text`. */
static size_t undecided(const struct scan *scan, const unsigned char *q, const char *text)
{
    if (scan->rest)
        *scan->rest = (struct pal_split_rest){.used = (size_t)(q - scan->begin), .text = text};
    return 0;
}

/* Like undecided(), but the piece may already have ended at `cut`. */
static size_t undecided_cut(const struct scan *scan, const unsigned char *q,
        const unsigned char *cut, const struct pal_split_rest *texts)
{
    if (scan->rest) {
        *scan->rest = *texts;
        scan->rest->used = (size_t)(q - scan->begin);
        scan->rest->cut = (size_t)(cut - scan->begin);
    }
    return 0;
}

/* The piece ends at `q`, unless that is the end of the text. There it may continue in the same way
 * as after `text`. */
static size_t piece(const struct scan *scan, const unsigned char *q, const char *text)
{
    return q == scan->end && !scan->is_final ? undecided(scan, q, text) : (size_t)(q - scan->begin);
}

/* Returns the end of the run of characters of `set` that begins at `p`. */
static const unsigned char *run(const struct scan *scan, const unsigned char *p, unsigned set)
{
    size_t len;

    for (;;) {
        while (p < scan->end && *p < 0x80 && PAL_IN(pal_class_ascii[*p], set))
            p++;
        if (!PAL_IN(pal_class_at(p, scan->end, &len), set))
            return p;
        p += len;
    }
}

#define UNDECIDED SIZE_MAX

/* Returns the length of 's 't 're 've 'm 'll 'd at `p`, or 0 if there is none. For engines that
 * fold case by Unicode, the long s is an s. */
static size_t contraction(const struct scan *scan, const unsigned char *p)
{
    size_t left = (size_t)(scan->end - p);
    unsigned char fold = scan->split->is_any_case ? 0x20 : 0;
    unsigned char first;
    unsigned char second;

    if (left > 0 && *p != '\'')
        return 0;
    if (left < 2)
        return scan->is_final ? 0 : UNDECIDED;
    first = p[1] | fold;
    if (first == 's' || first == 't' || first == 'm' || first == 'd')
        return 2;
    if (fold && left > 2 && p[1] == 0xc5 && p[2] == 0xbf)
        return 3;
    if (first != 'r' && first != 'v' && first != 'l')
        return 0;
    if (left < 3)
        return scan->is_final ? 0 : UNDECIDED;
    second = p[2] | fold;
    return second == (first == 'l' ? 'l' : 'e') ? 3 : 0;
}

/* Ends a word at `p` or after a contraction. If the text ends there, the word may continue in the
 * same way as after `text`. */
static size_t cased_word_end(const struct scan *scan, const unsigned char *p, const char *text)
{
    size_t len = scan->split->has_contractions ? contraction(scan, p) : 0;

    if (len == UNDECIDED)
        return undecided(scan, p, text);
    return len > 0 ? (size_t)(p + len - scan->begin) : piece(scan, p, text);
}

/* Matches [upper]*[lower]+ or else [upper]+[lower]*; letters without case and marks belong to both
 * sets. The first part takes as many characters as possible. If no lower case follows, the word
 * ends after the last character that belongs to both. */
static size_t cased_word(const struct scan *scan, const unsigned char *p)
{
    static const struct pal_split_rest upper_after_both = {.text = "\xe4\xb8\xad"
                                                                   "A",
            .text_cut = 3,
            .cut_text = "A"};
    const unsigned both = PAL_BIT(PAL_CLASS_LETTER) | PAL_BIT(PAL_CLASS_MARK);
    const unsigned char *both_end = NULL;
    enum pal_class class;
    size_t len;

    while (class = pal_class_at(p, scan->end, &len),
            PAL_IN(class, both | PAL_BIT(PAL_CLASS_UPPER))) {
        p += len;
        if (class != PAL_CLASS_UPPER)
            both_end = p;
    }
    if (class == PAL_CLASS_LOWER) {
        p = run(scan, p, both | PAL_BIT(PAL_CLASS_LOWER));
        return cased_word_end(scan, p, "a");
    }
    if (class == PAL_CLASS_NONE && !scan->is_final && both_end && both_end < p)
        return undecided_cut(scan, p, both_end, &upper_after_both);
    return cased_word_end(scan, both_end ? both_end : p, both_end ? "\xe4\xb8\xad" : "A");
}

static size_t digits(const struct scan *scan, const unsigned char *p)
{
    unsigned left = scan->split->digits_max;
    size_t len;

    if (left == 0)
        return piece(scan, run(scan, p, PAL_BIT(PAL_CLASS_NUMBER)), "1");
    while (left > 0 && pal_class_at(p, scan->end, &len) == PAL_CLASS_NUMBER) {
        p += len;
        left--;
    }
    return left == 0 ? (size_t)(p - scan->begin) : piece(scan, p, "1");
}

/* Matches punctuation and the characters that the pattern takes after it. */
static size_t signs(const struct scan *scan, const unsigned char *p)
{
    const struct pal_split *split = scan->split;
    const unsigned char *signs_end = run(scan, p, PAL_SIGNS);

    p = signs_end;
    if (split->family != PAL_SPLIT_GPT2)
        while (p < scan->end && (*p == '\r' || *p == '\n' || (*p == '/' && split->takes_slashes)))
            p++;
    return piece(scan, p, p > signs_end ? "!!\n" : "!!");
}

/* The white space may continue. `last` is its last character, and `line_end` is the end of the last
 * line before it, if any. The last character stays undecided, because it may belong to the next
 * piece. */
static size_t spaces_undecided(
        const struct scan *scan, const unsigned char *last, const unsigned char *line_end)
{
    static const struct pal_split_rest spaces_after_line = {
            .text = "\n ", .text_cut = 1, .cut_text = "  "};

    if (line_end && line_end < last)
        return undecided_cut(scan, last, line_end, &spaces_after_line);
    return undecided(scan, last, line_end ? "\n" : "  ");
}

/* Matches \s*[\r\n]+|\s+(?!\S)|\s+ : up to the last line end if there is one. Otherwise all but the
 * last character, which belongs to the next piece, or a single character. */
static size_t spaces(const struct scan *scan)
{
    const unsigned char *p = scan->begin;
    const unsigned char *last = p;
    const unsigned char *line_end = NULL;
    const unsigned char *line_before = NULL;
    enum pal_class class;
    size_t len;

    while (class = pal_class_at(p, scan->end, &len), PAL_IN(class, PAL_SPACES)) {
        last = p;
        line_before = line_end;
        p += len;
        if (class == PAL_CLASS_NEWLINE && scan->split->family != PAL_SPLIT_GPT2)
            line_end = p;
    }
    if (class == PAL_CLASS_NONE && !scan->is_final)
        return spaces_undecided(scan, last, line_before);
    if (line_end)
        p = line_end;
    else if (class != PAL_CLASS_NONE && last > scan->begin)
        p = last;
    return (size_t)(p - scan->begin);
}

static size_t cased_next(const struct scan *scan)
{
    const unsigned words = PAL_LETTERS | PAL_BIT(PAL_CLASS_MARK);
    size_t len;
    enum pal_class class = pal_class_at(scan->begin, scan->end, &len);
    enum pal_class next;

    if (PAL_IN(class, words))
        return cased_word(scan, scan->begin);
    if (class == PAL_CLASS_NUMBER)
        return digits(scan, scan->begin);
    if (class == PAL_CLASS_NEWLINE)
        return spaces(scan);
    next = pal_class_at(scan->begin + len, scan->end, &(size_t){0});
    if (PAL_IN(next, words))
        return cased_word(scan, scan->begin + len);
    if (class == PAL_CLASS_SPACE && !(*scan->begin == ' ' && PAL_IN(next, PAL_SIGNS)))
        return spaces(scan);
    return signs(scan, scan->begin + (class == PAL_CLASS_SPACE ? 1 : 0));
}

static size_t plain_next(const struct scan *scan)
{
    size_t len = contraction(scan, scan->begin);
    enum pal_class class;
    enum pal_class next;

    if (len != 0)
        return len == UNDECIDED ? undecided(scan, scan->begin, "") : len;
    class = pal_class_at(scan->begin, scan->end, &len);
    if (PAL_IN(class, PAL_LETTERS))
        return piece(scan, run(scan, scan->begin, PAL_LETTERS), "a");
    if (class == PAL_CLASS_NUMBER)
        return digits(scan, scan->begin);
    if (class == PAL_CLASS_NEWLINE)
        return spaces(scan);
    next = pal_class_at(scan->begin + len, scan->end, &(size_t){0});
    if (PAL_IN(next, PAL_LETTERS))
        return piece(scan, run(scan, scan->begin + len, PAL_LETTERS), "a");
    if (class == PAL_CLASS_SPACE && !(*scan->begin == ' ' && PAL_IN(next, PAL_SIGNS)))
        return spaces(scan);
    return signs(scan, scan->begin + (class == PAL_CLASS_SPACE ? 1 : 0));
}

static size_t gpt2_next(const struct scan *scan)
{
    const unsigned char *p = scan->begin;
    size_t len = contraction(scan, p);
    enum pal_class class;

    if (len != 0)
        return len == UNDECIDED ? undecided(scan, scan->begin, "") : len;
    if (*p == ' ')
        p++;
    class = pal_class_at(p, scan->end, &len);
    if (PAL_IN(class, PAL_LETTERS))
        return piece(scan, run(scan, p, PAL_LETTERS), "a");
    if (class == PAL_CLASS_NUMBER)
        return digits(scan, p);
    if (PAL_IN(class, PAL_SIGNS))
        return signs(scan, p);
    return spaces(scan);
}

static size_t scan_next(const struct scan *scan)
{
    switch (scan->split->family) {
    case PAL_SPLIT_CASED:
        return cased_next(scan);
    case PAL_SPLIT_PLAIN:
        return plain_next(scan);
    case PAL_SPLIT_GPT2:
        return gpt2_next(scan);
    case PAL_SPLIT_DEEPSEEK:
        break;
    }
    return pal_split_deepseek(scan->begin, scan->end, scan->is_final, scan->rest);
}

size_t pal_split_next(const struct pal_split *split, const unsigned char *p,
        const unsigned char *end, bool is_final)
{
    struct scan scan = {split, p, end, is_final, NULL};

    return scan_next(&scan);
}

size_t pal_split_rest(const struct pal_split *split, const unsigned char *p,
        const unsigned char *end, struct pal_split_rest *out_rest)
{
    struct scan scan = {split, p, end, false, out_rest};

    return scan_next(&scan);
}
