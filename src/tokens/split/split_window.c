/* split_window.c - finds where pieces begin in up to 64 bytes of ASCII, all at once. Bytes
 * that are not characters are signs, as in the scanner. The first character beyond ASCII ends the
 * window.
 *
 * A class of characters is a word with one bit for each byte; "the previous one is a letter" is a
 * shift. The text before the window does not matter, because a piece begins at its start. The text
 * after it can change white space and contractions that touch its end, so nothing is decided from
 * there on. The rules are those of split.c. */
#include "tokens/split/split.h"
#include "tokens/split/split_class.h"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

struct masks {
    uint64_t upper;
    uint64_t lower;
    uint64_t digit;
    uint64_t space; /* all white space except line ends */
    uint64_t blank; /* ' ' alone */
    uint64_t newline;
    uint64_t slash;
    uint64_t quote;
    uint64_t wide; /* not ASCII */
};

#ifdef __SSE2__
/* Marks the `count` byte values from `low` on, by shifting them to the lowest signed values. */
static inline uint64_t in_range(__m128i bytes, char low, int count)
{
    __m128i moved = _mm_add_epi8(bytes, _mm_set1_epi8((char)(-128 - low)));

    return (uint64_t)(unsigned)_mm_movemask_epi8(
            _mm_cmplt_epi8(moved, _mm_set1_epi8((char)(-128 + count))));
}

static inline uint64_t equal_to(__m128i bytes, char value)
{
    return (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(value)));
}

static inline void classify(const unsigned char *p, struct masks *out)
{
    struct masks m = {0};

    for (int i = 0; i < PAL_SPLIT_WINDOW; i += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(p + i));
        uint64_t newline = equal_to(bytes, '\n') | equal_to(bytes, '\r');
        uint64_t blank = equal_to(bytes, ' ');

        m.upper |= in_range(bytes, 'A', 26) << i;
        m.lower |= in_range(bytes, 'a', 26) << i;
        m.digit |= in_range(bytes, '0', 10) << i;
        m.space |= ((in_range(bytes, '\t', 5) & ~newline) | blank) << i;
        m.blank |= blank << i;
        m.newline |= newline << i;
        m.slash |= equal_to(bytes, '/') << i;
        m.quote |= equal_to(bytes, '\'') << i;
        m.wide |= (uint64_t)(unsigned)_mm_movemask_epi8(bytes) << i;
    }
    *out = m;
}

/* Marks bytes that begin a character of two, three or four bytes, and bytes that continue one. */
static inline void classify_wide(
        const unsigned char *p, uint64_t begins[3], uint64_t *out_continues)
{
    for (int i = 0; i < PAL_SPLIT_WINDOW; i += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(p + i));

        begins[0] |= in_range(bytes, (char)0xc2, 30) << i;
        begins[1] |= in_range(bytes, (char)0xe0, 16) << i;
        begins[2] |= in_range(bytes, (char)0xf0, 5) << i;
        *out_continues |= in_range(bytes, (char)0x80, 64) << i;
    }
}
#else
static inline void classify_wide(
        const unsigned char *p, uint64_t begins[3], uint64_t *out_continues)
{
    for (int i = 0; i < PAL_SPLIT_WINDOW; i++) {
        uint64_t bit = (uint64_t)1 << i;

        begins[0] |= p[i] >= 0xc2 && p[i] < 0xe0 ? bit : 0;
        begins[1] |= p[i] >= 0xe0 && p[i] < 0xf0 ? bit : 0;
        begins[2] |= p[i] >= 0xf0 && p[i] < 0xf5 ? bit : 0;
        *out_continues |= p[i] >= 0x80 && p[i] < 0xc0 ? bit : 0;
    }
}

static inline void classify(const unsigned char *p, struct masks *out)
{
    struct masks m = {0};

    for (int i = 0; i < PAL_SPLIT_WINDOW; i++) {
        uint64_t bit = (uint64_t)1 << i;
        enum pal_class class = p[i] < 0x80 ? (enum pal_class)pal_class_ascii[p[i]] : PAL_CLASS_NONE;

        m.wide |= class == PAL_CLASS_NONE ? bit : 0;
        m.upper |= class == PAL_CLASS_UPPER ? bit : 0;
        m.lower |= class == PAL_CLASS_LOWER ? bit : 0;
        m.digit |= class == PAL_CLASS_NUMBER ? bit : 0;
        m.space |= class == PAL_CLASS_SPACE ? bit : 0;
        m.newline |= class == PAL_CLASS_NEWLINE ? bit : 0;
        m.blank |= p[i] == ' ' ? bit : 0;
        m.slash |= p[i] == '/' ? bit : 0;
        m.quote |= p[i] == '\'' ? bit : 0;
    }
    *out = m;
}
#endif

/* Returns `bits` and all bits of `through` that follow them without a gap. */
static inline uint64_t fill_up(uint64_t bits, uint64_t through)
{
    for (int shift = 1; shift < 64; shift *= 2) {
        bits |= through & (bits << shift);
        through &= through << shift;
    }
    return bits;
}

static inline uint64_t fill_down(uint64_t bits, uint64_t through)
{
    for (int shift = 1; shift < 64; shift *= 2) {
        bits |= through & (bits >> shift);
        through &= through >> shift;
    }
    return bits;
}

static inline uint64_t below(size_t bit)
{
    return bit < 64 ? ((uint64_t)1 << bit) - 1 : UINT64_MAX;
}

/* Returns the length of the contraction whose quote is at `p`. Returns 0 if there is none, and 9 if
 * more than `left` bytes are needed to decide. */
static size_t contraction(const struct pal_split *split, const unsigned char *p, size_t left)
{
    unsigned char fold = split->is_any_case ? 0x20 : 0;
    unsigned char first;

    if (left < 3)
        return 9;
    first = p[1] | fold;
    if (first == 's' || first == 't' || first == 'm' || first == 'd')
        return 2;
    if (first == 'r' || first == 'v' || first == 'l')
        return (p[2] | fold) == (first == 'l' ? 'l' : 'e') ? 3 : 0;
    return 0;
}

/* Returns the bytes of all contractions. `quotes` marks where one can begin. If `needs_letter` is
 * set, none begins after a letter that belongs to another one. Undecided bytes are removed from
 * *valid. */
static uint64_t contractions(const struct pal_split *split, const unsigned char *p, size_t len,
        uint64_t quotes, bool needs_letter, uint64_t *valid)
{
    uint64_t taken = 0;

    for (; quotes; quotes &= quotes - 1) {
        size_t at = (size_t)__builtin_ctzll(quotes);
        size_t got;

        if (needs_letter && (taken >> (at - 1) & 1))
            continue;
        got = contraction(split, p + at, len - at);
        if (got == 9) {
            *valid &= below(at);
            break;
        }
        taken |= below(got) << at;
    }
    return taken;
}

/* Marks where pieces of digits begin. */
static inline uint64_t digit_starts(uint64_t digit, unsigned digits_max)
{
    uint64_t at = digit & ~(digit << 1);
    uint64_t starts = at;
    uint64_t whole = digit & digit << 1 & digit << 2 & digit << 3;

    if (digits_max == 1)
        return digit;
    if (digits_max == 3)
        while ((at = at << 3 & whole) != 0)
            starts |= at;
    return starts;
}

/* Marks where pieces of white space begin. `space` and `newline` contain only characters that no
 * other piece has taken. The last space of a run begins a piece, alone or with the text after
 * it. */
static inline uint64_t space_starts(uint64_t space, uint64_t newline)
{
    uint64_t all = space | newline;
    uint64_t tail = space & ~fill_down(newline, space);

    return (all & ~(all << 1)) | (tail & ~(tail << 1)) | (tail & ~(tail >> 1));
}

/* White space that reaches the end may continue, but its first character does begin a piece. */
static inline uint64_t space_valid(uint64_t spaces, size_t len)
{
    uint64_t rest;

    if (!(spaces >> (len - 1) & 1))
        return UINT64_MAX;
    rest = ~spaces & below(len);
    return rest ? below(65 - (size_t)__builtin_clzll(rest)) : 1;
}

/* Handles the families o200k and cl100k, which differ in where a word and a contraction begin. */
static uint64_t word_starts(
        const struct pal_split *split, const unsigned char *p, size_t len, const struct masks *m)
{
    bool is_cased = split->family == PAL_SPLIT_CASED;
    uint64_t letter = m->upper | m->lower;
    uint64_t sign = below(len) & ~(letter | m->digit | m->space | m->newline);
    uint64_t tail = m->newline | (split->takes_slashes ? m->slash : 0);
    uint64_t taken = fill_up(m->newline & sign << 1, tail);
    uint64_t newline = m->newline & ~taken;
    uint64_t valid = space_valid(m->space | newline, len);
    uint64_t starts = space_starts(m->space, newline) | digit_starts(m->digit, split->digits_max);
    uint64_t sign_starts;
    uint64_t quotes;
    uint64_t word;

    sign &= ~taken;
    sign_starts = sign & ~(sign << 1) & ~(m->blank << 1);
    quotes = split->has_contractions ? m->quote & (is_cased ? letter << 1 : sign_starts) : 0;
    if (quotes) {
        taken = contractions(split, p, len, quotes, is_cased, &valid);
        starts |= is_cased ? 0 : taken & quotes;
        sign_starts &= ~taken;
        letter &= ~taken;
    }
    word = letter & ~(letter << 1) & ~((m->space | sign_starts) << 1);
    if (is_cased)
        word |= m->upper & letter & (m->lower & letter) << 1;
    return (starts | sign_starts | word) & valid;
}

static uint64_t gpt2_starts(
        const struct pal_split *split, const unsigned char *p, size_t len, const struct masks *m)
{
    uint64_t letter = m->upper | m->lower;
    uint64_t spaces = m->space | m->newline;
    uint64_t sign = below(len) & ~(letter | m->digit | spaces);
    uint64_t valid = space_valid(spaces, len);
    uint64_t single = ~(m->blank << 1);
    uint64_t sign_starts = sign & ~(sign << 1) & single;
    uint64_t starts = space_starts(spaces, 0);
    uint64_t quotes = split->has_contractions ? m->quote & sign_starts : 0;

    if (quotes) {
        uint64_t taken = contractions(split, p, len, quotes, false, &valid);

        starts |= taken & quotes;
        letter &= ~taken;
    }
    starts |= letter & ~(letter << 1) & single;
    starts |= m->digit & ~(m->digit << 1) & single;
    return (starts | sign_starts) & valid;
}

/* Marks where a character beyond ASCII may begin among the first `len` bytes. The bytes after them
 * may be its rest. */
static uint64_t wide_characters(const unsigned char *p, size_t len)
{
    uint64_t begins[3] = {0};
    uint64_t continues = 0;
    uint64_t second;
    uint64_t third;

    classify_wide(p, begins, &continues);
    continues |= ~below(len);
    second = continues >> 1 | (uint64_t)1 << 63;
    third = second & (continues >> 2 | (uint64_t)3 << 62);
    return ((begins[0] & second) | ((begins[1] | begins[2]) & third)) & below(len);
}

uint64_t pal_split_window(const struct pal_split *split, const unsigned char *p, size_t len)
{
    struct masks m;

    if (split->family == PAL_SPLIT_DEEPSEEK)
        return 1;
    classify(p, &m);
    m.wide &= below(len);
    if (m.wide)
        m.wide = wide_characters(p, len);
    if (m.wide)
        len = (size_t)__builtin_ctzll(m.wide);
    if (len == 0)
        return 1;
    m.upper &= below(len);
    m.lower &= below(len);
    m.digit &= below(len);
    m.space &= below(len);
    m.blank &= below(len);
    m.newline &= below(len);
    m.slash &= below(len);
    m.quote &= below(len);
    if (split->family == PAL_SPLIT_GPT2)
        return gpt2_starts(split, p, len, &m) | 1;
    return word_starts(split, p, len, &m) | 1;
}
