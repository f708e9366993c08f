/* tokens_estimate.c - estimates the tokens of a text if no vocabulary is known.
 *
 * Four bytes are about one token in English and in code, and ASCII is always counted in this way.
 * That is much too low for scripts in which one character is a word or half a word, and too high
 * for alphabets with two bytes per letter. So every other character has the weight that characters
 * of its script cost in o200k_base on average, in hundredths of a token. The ASCII between them,
 * mostly spaces, is counted too high, and the letters are counted lower to make up for that.
 * Letters that only some languages have carry the extra cost of those languages over English,
 * because most of their text is plain ASCII. A byte that is not valid UTF-8 is one token. */
#include "tokens/tokens_estimate.h"

#include "base/utf8.h"
#include "palaver/limits.h"
#include "palaver/tokens.h"

enum { TOKEN = 100, ASCII = 25, INVALID = 100, CUT_MAX = 3 };

typedef struct weight_range {
    uint32_t end; /* the first character after the range */
    uint16_t weight;
} weight_range;

static const weight_range ranges[] = {
        {0x80, ASCII},
        {0xc0, 40},   /* Latin-1 signs */
        {0x100, 20},  /* Western European letters */
        {0x102, 125}, /* Central European and Turkish letters, except those that are also
                         Vietnamese */
        {0x104, 72},
        {0x110, 125},
        {0x112, 72},
        {0x180, 125},
        {0x250, 72},  /* Vietnamese */
        {0x300, 200}, /* phonetic signs */
        {0x370, 150}, /* combining marks */
        {0x400, 39},  /* Greek */
        {0x450, 30},  /* Cyrillic: Russian letters */
        {0x460, 90},  /* Cyrillic letters of other languages */
        {0x530, 60},
        {0x590, 28},   /* Armenian */
        {0x600, 40},   /* Hebrew */
        {0x780, 34},   /* Arabic */
        {0x900, 200},  /* Thaana and others */
        {0x980, 33},   /* Devanagari */
        {0xe00, 40},   /* Bengali to Sinhala */
        {0xe80, 40},   /* Thai */
        {0x1000, 175}, /* Lao, Tibetan */
        {0x10a0, 60},  /* Burmese */
        {0x1100, 30},  /* Georgian */
        {0x1200, 70},  /* Hangul letters */
        {0x1780, 250}, /* Ethiopic, Cherokee and others */
        {0x1800, 60},  /* Khmer */
        {0x1e00, 250},
        {0x1f00, 72},  /* Vietnamese */
        {0x2000, 100}, /* ancient Greek */
        {0x2070, 25},  /* dashes and quotation marks */
        {0x2500, 150}, /* numbers, arrows, mathematics */
        {0x2580, 40},  /* box-drawing lines, which come in runs */
        {0x2e80, 130}, /* other signs */
        {0x3040, 40},  /* Chinese and Japanese punctuation */
        {0x3100, 77},  /* Hiragana and Katakana */
        {0x3200, 75},
        {0x4e00, 150},
        {0xa000, 93}, /* Chinese characters */
        {0xac00, 250},
        {0xd7b0, 73},  /* Hangul */
        {0xf900, 200}, /* private use area */
        {0xff00, 150},
        {0xff61, 50}, /* full width */
        {0x10000, 190},
        {0x1f000, 300},
        {0x20000, 170}, /* emoji */
        {0x110000, 350},
};

/* These letters belong to Czech and Hungarian, which need many more tokens than similar
 * languages. */
static bool is_costly(uint32_t character)
{
    return character == 0x11b || character == 0x159 || character == 0x16f || character == 0x151 ||
            character == 0x171;
}

static uint64_t char_weight(uint32_t character, const weight_range **range)
{
    const weight_range *r = *range;

    /* The next character is usually in the same range. */
    if (character >= r->end || (r > ranges && character < r[-1].end)) {
        for (r = ranges; character >= r->end;)
            r++;
        *range = r;
    }
    return is_costly(character) ? 300 : r->weight;
}

static size_t ascii_run(pal_str text)
{
    const uint64_t high_bits = 0x8080808080808080;
    size_t len = 0;
    uint64_t eight;

    while (len + sizeof(eight) <= text.len) {
        memcpy(&eight, text.data + len, sizeof(eight));
        if (eight & high_bits)
            break;
        len += sizeof(eight);
    }
    while (len < text.len && (unsigned char)text.data[len] < 0x80)
        len++;
    return len;
}

/* Returns whether more bytes could complete these bytes to a character. */
static bool is_beginning(pal_str text)
{
    static const char *const ends[] = {"\x80\x80\x80", "\xbf\xbf\xbf"};
    unsigned char whole[4];

    if (text.len == 0 || text.len > CUT_MAX)
        return false;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        memcpy(whole, text.data, text.len);
        memcpy(whole + text.len, ends[i], sizeof(whole) - text.len);
        if (pal_utf8_char_len(whole, whole + sizeof(whole)) > text.len)
            return true;
    }
    return false;
}

/* Adds the weight of complete and invalid characters. Returns the number of bytes at the end that
 * more bytes may complete. */
static size_t weigh(pal_str text, uint64_t *weight)
{
    const weight_range *range = ranges;

    while (text.len > 0) {
        const unsigned char *p = (const unsigned char *)text.data;
        size_t len = ascii_run(text);
        uint32_t character;

        if (len > 0) {
            *weight += ASCII * (uint64_t)len;
        } else if (pal_utf8_char_len(p, p + text.len) > 0) {
            len = pal_utf8_decode(text, &character);
            *weight += char_weight(character, &range);
        } else if (is_beginning(text)) {
            return text.len;
        } else {
            len = 1;
            *weight += INVALID;
        }
        text.data += len;
        text.len -= len;
    }
    return 0;
}

/* Completes a character that an earlier piece began. Returns how many bytes that took. */
static size_t feed_cut(pal_estimate *estimate, pal_str text)
{
    size_t taken = 0;

    while (estimate->cut_len > 0 && taken < text.len) {
        size_t left;

        estimate->cut[estimate->cut_len++] = text.data[taken++];
        left = weigh(pal_str_make(estimate->cut, estimate->cut_len), &estimate->weight);
        memmove(estimate->cut, estimate->cut + estimate->cut_len - left, left);
        estimate->cut_len = (uint8_t)left;
    }
    return taken;
}

void pal_estimate_feed(pal_estimate *estimate, pal_str text)
{
    size_t taken = feed_cut(estimate, text);
    size_t left;

    if (taken == text.len)
        return;
    text = pal_str_make(text.data + taken, text.len - taken);
    left = weigh(text, &estimate->weight);
    memcpy(estimate->cut, text.data + text.len - left, left);
    estimate->cut_len = (uint8_t)left;
}

uint64_t pal_estimate_tokens(const pal_estimate *estimate)
{
    return (estimate->weight + INVALID * (uint64_t)estimate->cut_len + TOKEN - 1) / TOKEN;
}

uint64_t pal_estimate_quickly(pal_str text)
{
    pal_str start = pal_str_make(text.data, pal_utf8_cut(text, PAL_TOKENS_ESTIMATED_BYTES_MAX));
    uint64_t tokens = pal_tokens_estimate(start);

    if (start.len == text.len)
        return tokens;
    return (uint64_t)((double)tokens / (double)start.len * (double)text.len);
}

uint64_t pal_tokens_estimate(pal_str text)
{
    pal_estimate estimate = {0};

    pal_estimate_feed(&estimate, text);
    return pal_estimate_tokens(&estimate);
}
