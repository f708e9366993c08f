/* json_hex.h - reads the hex digits of escapes with a table: a text can consist of a million
 * escapes. For json_read.c and json_value.c only. */
#ifndef PAL_BASE_JSON_HEX_H
#define PAL_BASE_JSON_HEX_H

#include <stdint.h>

/* Returns the value of a hex digit, or -1. */
static inline int32_t json_hex(char c)
{
    /* clang-format off */
    static const int8_t values_plus_one[256] = {
            ['0'] = 1, ['1'] = 2, ['2'] = 3, ['3'] = 4, ['4'] = 5, ['5'] = 6, ['6'] = 7, ['7'] = 8,
            ['8'] = 9, ['9'] = 10,
            ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
            ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
    };
    /* clang-format on */
    return values_plus_one[(unsigned char)c] - 1;
}

/* Returns the number that four hex digits form. It is negative if one of them is not a digit. */
static inline int32_t json_hex4(const char *p)
{
    return json_hex(p[0]) * 4096 | json_hex(p[1]) * 256 | json_hex(p[2]) * 16 | json_hex(p[3]);
}

#endif
