/* split_class.h - the class of a character, as far as the patterns that split texts distinguish
 * them. Pure functions for any thread. */
#ifndef PAL_SPLIT_CLASS_H
#define PAL_SPLIT_CLASS_H

#include <stddef.h>
#include <stdint.h>

/* The values are the digits in split_class_data.c. */
enum pal_class {
    PAL_CLASS_OTHER = 0, /* control characters, unassigned characters, and bytes that are not valid
                            UTF-8 */
    PAL_CLASS_SIGN = 1,  /* punctuation and symbols */
    PAL_CLASS_UPPER = 2, /* upper and title case */
    PAL_CLASS_LOWER = 3,
    PAL_CLASS_LETTER = 4, /* letters without case */
    PAL_CLASS_MARK = 5,
    PAL_CLASS_NUMBER = 6,
    PAL_CLASS_NEWLINE = 7, /* CR and LF only */
    PAL_CLASS_SPACE = 8,   /* all other white space */
    PAL_CLASS_NONE = 9,    /* the end of the text */
};

/* Sets of classes. */
#define PAL_IN(class, set) (((set) >> (class)) & 1u)
#define PAL_BIT(class) (1u << (class))
#define PAL_LETTERS                                                                                \
    (PAL_BIT(PAL_CLASS_UPPER) | PAL_BIT(PAL_CLASS_LOWER) | PAL_BIT(PAL_CLASS_LETTER))
#define PAL_SIGNS (PAL_BIT(PAL_CLASS_OTHER) | PAL_BIT(PAL_CLASS_SIGN) | PAL_BIT(PAL_CLASS_MARK))
#define PAL_SPACES (PAL_BIT(PAL_CLASS_NEWLINE) | PAL_BIT(PAL_CLASS_SPACE))

extern const uint8_t pal_class_ascii[128];

/* Defined in split_class_data.c. */
extern const uint8_t pal_class_tops[];
extern const uint16_t pal_class_middles[][64];
extern const char pal_class_leaves[][65];

/* Returns the class of a code point, given by its upper bits, its middle six and its lower six. */
static inline enum pal_class pal_class_of(unsigned top, unsigned middle, unsigned low)
{
    unsigned leaf = pal_class_middles[pal_class_tops[top]][middle & 0x3f];

    return (enum pal_class)(pal_class_leaves[leaf][low & 0x3f] - '0');
}

/* For a first byte of 0x80 or more. */
enum pal_class pal_class_wide(const unsigned char *p, const unsigned char *end, size_t *out_len);

/* Returns the class of the character at `p` and its length. PAL_CLASS_NONE and 0 at the end. */
static inline enum pal_class pal_class_at(
        const unsigned char *p, const unsigned char *end, size_t *out_len)
{
    if (p == end) {
        *out_len = 0;
        return PAL_CLASS_NONE;
    }
    if (*p < 0x80) {
        *out_len = 1;
        return (enum pal_class)pal_class_ascii[*p];
    }
    /* Most characters have two bytes, or three bytes whose first byte shows that they are neither
     * overlong nor a surrogate. */
    if (p[0] >= 0xc2 && p[0] < 0xe0 && end - p >= 2 && (p[1] & 0xc0) == 0x80) {
        *out_len = 2;
        return pal_class_of(0, p[0] & 0x1f, p[1]);
    }
    if (p[0] > 0xe0 && p[0] < 0xed && end - p >= 3 && (p[1] & 0xc0) == 0x80 &&
            (p[2] & 0xc0) == 0x80) {
        *out_len = 3;
        return pal_class_of(p[0] & 0x0f, p[1], p[2]);
    }
    return pal_class_wide(p, end, out_len);
}

#endif
