/* split_deepseek.c - numbers are cut out first, then runs of Chinese characters and kana.
 * Each rest between them is treated as a separate text by the third pattern:
 *
 *   [!-/:-@\[-`{-~][A-Za-z]+ | [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+ | ?[\p{P}\p{S}]+[\r\n]* |
 *   \s*[\r\n]+ | \s+(?!\S) | \s+
 *
 * Text that does not match (control characters) is a piece as well, up to the next match. */
#include "tokens/split/split.h"
#include "tokens/split/split_class.h"

struct scan {
    const unsigned char *begin;
    const unsigned char *end;
    bool is_final;
    struct pal_split_rest *rest; /* may be NULL */
};

#define WORDS (PAL_LETTERS | PAL_BIT(PAL_CLASS_MARK))

/* The piece is not decided. After `q` it continues in the same way as after `text`. */
static size_t undecided(const struct scan *scan, const unsigned char *q, const char *text)
{
    if (scan->rest)
        *scan->rest = (struct pal_split_rest){.used = (size_t)(q - scan->begin), .text = text};
    return 0;
}

static size_t piece(const struct scan *scan, const unsigned char *q, const char *text)
{
    return q == scan->end && !scan->is_final ? undecided(scan, q, text) : (size_t)(q - scan->begin);
}

/* Returns whether the character is in U+4E00 to U+9FA5 or U+3040 to U+30FF. */
static bool is_east(const unsigned char *p, size_t len)
{
    unsigned code;

    if (len != 3)
        return false;
    code = (unsigned)(p[0] & 0x0f) << 12 | (unsigned)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
    return (code >= 0x4e00 && code <= 0x9fa5) || (code >= 0x3040 && code <= 0x30ff);
}

/* Returns the class within a text of the third pattern, or no class at its end. */
static enum pal_class inner_class(const struct scan *scan, const unsigned char *p, size_t *out_len)
{
    enum pal_class class = pal_class_at(p, scan->end, out_len);

    return class == PAL_CLASS_NUMBER || is_east(p, *out_len) ? PAL_CLASS_NONE : class;
}

static const unsigned char *run(const struct scan *scan, const unsigned char *p, unsigned set)
{
    size_t len;

    while (PAL_IN(inner_class(scan, p, &len), set))
        p += len;
    return p;
}

static size_t east(const struct scan *scan)
{
    const unsigned char *p = scan->begin;
    size_t len;

    while (pal_class_at(p, scan->end, &len) != PAL_CLASS_NONE && is_east(p, len))
        p += len;
    return piece(scan, p, "\xe4\xb8\x80");
}

static size_t digits(const struct scan *scan)
{
    const unsigned char *p = scan->begin;
    unsigned left = 3;
    size_t len;

    while (left > 0 && pal_class_at(p, scan->end, &len) == PAL_CLASS_NUMBER) {
        p += len;
        left--;
    }
    return left == 0 ? (size_t)(p - scan->begin) : piece(scan, p, "1");
}

static bool is_ascii_letter(const unsigned char *p, const unsigned char *end)
{
    return p < end && (unsigned char)((*p | 0x20) - 'a') < 26;
}

/* An ASCII sign takes the ASCII letters after it. Other signs take signs and line ends. */
static size_t signs(const struct scan *scan, const unsigned char *p)
{
    const unsigned char *q = p + 1;

    if (p == scan->begin && *p < 0x80) {
        if (q == scan->end && !scan->is_final)
            return undecided(scan, p, "");
        while (is_ascii_letter(q, scan->end))
            q++;
        if (q > p + 1)
            return piece(scan, q, "!a");
    }
    p = run(scan, p, PAL_BIT(PAL_CLASS_SIGN));
    q = run(scan, p, PAL_BIT(PAL_CLASS_NEWLINE));
    return piece(scan, q, q > p ? "!!\n" : "!!");
}

/* The white space may continue, as in split.c. */
static size_t spaces_undecided(
        const struct scan *scan, const unsigned char *last, const unsigned char *line_end)
{
    if (scan->rest && line_end && line_end < last) {
        *scan->rest = (struct pal_split_rest){
                .used = (size_t)(last - scan->begin),
                .text = "\n ",
                .cut = (size_t)(line_end - scan->begin),
                .text_cut = 1,
                .cut_text = "  ",
        };
        return 0;
    }
    return undecided(scan, last, line_end ? "\n" : "  ");
}

static size_t spaces(const struct scan *scan)
{
    const unsigned char *p = scan->begin;
    const unsigned char *last = p;
    const unsigned char *line_end = NULL;
    const unsigned char *line_before = NULL;
    enum pal_class class;
    size_t len;

    while (class = inner_class(scan, p, &len), PAL_IN(class, PAL_SPACES)) {
        last = p;
        line_before = line_end;
        p += len;
        if (class == PAL_CLASS_NEWLINE)
            line_end = p;
    }
    if (p == scan->end && !scan->is_final)
        return spaces_undecided(scan, last, line_before);
    if (line_end)
        p = line_end;
    else if (class != PAL_CLASS_NONE && last > scan->begin)
        p = last;
    return (size_t)(p - scan->begin);
}

/* Characters that no pattern matches. The last of them may belong to a word, so it waits until the
 * next character is known. */
static size_t others(const struct scan *scan)
{
    const unsigned char *p = scan->begin;
    size_t len;
    size_t next_len;

    while (inner_class(scan, p, &len) == PAL_CLASS_OTHER) {
        enum pal_class next = inner_class(scan, p + len, &next_len);

        if (p + len == scan->end && !scan->is_final)
            return undecided(scan, p, "\x01");
        if (PAL_IN(next, WORDS))
            break;
        p += len;
    }
    return (size_t)(p - scan->begin);
}

size_t pal_split_deepseek(const unsigned char *p, const unsigned char *end, bool is_final,
        struct pal_split_rest *rest)
{
    struct scan scan = {p, end, is_final, rest};
    size_t len;
    size_t next_len;
    enum pal_class class = pal_class_at(p, end, &len);
    enum pal_class next;

    if (class == PAL_CLASS_NUMBER)
        return digits(&scan);
    if (is_east(p, len))
        return east(&scan);
    if (PAL_IN(class, WORDS))
        return piece(&scan, run(&scan, p, WORDS), "a");
    if (class == PAL_CLASS_SIGN)
        return signs(&scan, p);
    next = inner_class(&scan, p + len, &next_len);
    if (class != PAL_CLASS_NEWLINE && PAL_IN(next, WORDS))
        return piece(&scan, run(&scan, p + len, WORDS), "a");
    if (class == PAL_CLASS_OTHER)
        return others(&scan);
    if (*p == ' ' && next == PAL_CLASS_SIGN)
        return signs(&scan, p + 1);
    return spaces(&scan);
}
