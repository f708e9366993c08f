/* tokens_cut.c - finds the longest beginning of a text that has a given number of tokens when it is
 * counted alone.
 *
 * A beginning is not split like the whole text, because its last pieces end differently. But a
 * piece is decided when two more pieces have ended after it. So for all beginnings that end later,
 * everything before it counts the same. It is enough to know some pieces around the position where
 * the whole text has too many tokens, and to count each beginning there. Pieces that are too long
 * for this are halved. Then the result fits, but a longer beginning might fit as well. */
#include "base/memory.h"
#include "base/utf8.h"
#include "tokens/tokens_walk.h"

/* KEPT is the number of remembered pieces. DECIDED of them must follow a piece before it is
 * decided. */
#define KEPT 8
#define DECIDED 3

#define NEAR 256  /* range in bytes in which each beginning is counted */
#define HALVED 16 /* the same range after halving */

struct cut {
    const pal_encoding *encoding;
    const unsigned char *text;
    size_t len;
    uint64_t tokens_max;
    pal_status failure;
    /* `start` is a piece. Everything before it is decided for beginnings that end at `from` or
     * later. */
    size_t start;
    uint64_t count; /* tokens before `start` */
    size_t from;
};

/* Returns whether the beginning of this length has at most tokens_max tokens. */
static bool fits(struct cut *cut, size_t len)
{
    bool is_near = len >= cut->from;
    size_t start = is_near ? cut->start : 0;
    struct pal_walk walk;
    bool is_good;

    pal_walk_init(&walk, cut->encoding, NULL, NULL);
    walk.count = is_near ? cut->count : 0;
    if (len > start)
        pal_walk_text(&walk, cut->text + start, len - start, true);
    if (walk.failure != PAL_OK)
        cut->failure = walk.failure;
    is_good = walk.count <= cut->tokens_max;
    pal_walk_done(&walk);
    return is_good;
}

/* Reads pieces until there are too many tokens, and a few pieces more. Returns the maximum length
 * of a beginning and remembers where to count from. */
static size_t find_bound(struct cut *cut)
{
    struct {
        size_t start;
        uint64_t count;
    } kept[KEPT];
    const unsigned char *end = cut->text + cut->len;
    struct pal_walk walk;
    size_t pieces = 0;
    size_t more = DECIDED + 1;
    size_t at = 0;

    pal_walk_init(&walk, cut->encoding, NULL, NULL);
    while (at < cut->len && more > 0 && walk.failure == PAL_OK) {
        size_t len = pal_split_next(walk.table.split, cut->text + at, end, true);

        kept[pieces % KEPT].start = at;
        kept[pieces % KEPT].count = walk.count;
        pieces++;
        pal_walk_piece(&walk, cut->text + at, len);
        at += len;
        more -= walk.count > cut->tokens_max;
    }
    cut->failure = walk.failure;
    if (pieces >= KEPT) {
        cut->start = kept[pieces % KEPT].start;
        cut->count = kept[pieces % KEPT].count;
        cut->from = kept[(pieces + DECIDED) % KEPT].start;
    }
    pal_walk_done(&walk);
    return at;
}

static size_t char_before(const struct cut *cut, size_t at)
{
    return pal_utf8_cut(pal_str_make((const char *)cut->text, cut->len), at - 1);
}

/* Returns the longest beginning after `low` that fits, or `low` if there is none. */
static size_t find_one_by_one(struct cut *cut, size_t low, size_t high)
{
    while (high > low && cut->failure == PAL_OK && !fits(cut, high))
        high = char_before(cut, high);
    return high > low ? high : low;
}

/* Returns a beginning that fits, at least `low`, which must fit. */
static size_t find_by_halves(struct cut *cut, size_t low, size_t high)
{
    while (high - low > HALVED && cut->failure == PAL_OK) {
        size_t middle = char_before(cut, low + (high - low) / 2);

        if (fits(cut, middle))
            low = middle;
        else
            high = middle;
    }
    return find_one_by_one(cut, low, high);
}

static size_t find_longest(struct cut *cut)
{
    size_t high = find_bound(cut);
    size_t found;

    if (cut->failure != PAL_OK || fits(cut, high))
        return high;
    if (high - cut->from <= NEAR) {
        found = find_one_by_one(cut, cut->from, high);
        if (found > cut->from)
            return found;
    }
    if (fits(cut, cut->from))
        return high - cut->from <= NEAR ? cut->from : find_by_halves(cut, cut->from, high);
    return find_by_halves(cut, 0, cut->from);
}

/* The estimate grows with the text, so a binary search is exact. */
static size_t find_estimate(pal_str text, uint64_t tokens_max)
{
    size_t low = 0;
    size_t high = text.len + 1; /* the shortest length that does not fit */

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (pal_tokens_estimate(pal_str_make(text.data, pal_utf8_cut(text, middle))) <= tokens_max)
            low = middle;
        else
            high = middle;
    }
    return pal_utf8_cut(text, low);
}

pal_status pal_tokens_cut(const pal_encoding *encoding, pal_str text, uint64_t tokens_max,
        size_t *out_len, pal_error *err)
{
    struct cut cut = {
            .text = (const unsigned char *)text.data,
            .len = text.len,
            .tokens_max = tokens_max,
    };
    pal_status status;
    size_t len;

    if (!encoding) {
        *out_len = find_estimate(text, tokens_max);
        return PAL_OK;
    }
    status = pal_table_ready(encoding, &cut.encoding, err);
    if (status != PAL_OK)
        return status;
    len = text.len > 0 ? find_longest(&cut) : 0;
    if (cut.failure != PAL_OK)
        return pal_no_memory(err);
    *out_len = len;
    return PAL_OK;
}
