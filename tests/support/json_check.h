/* json_check.h - compares JSON values, and prints both if they differ. */
#ifndef PAL_TESTS_JSON_CHECK_H
#define PAL_TESTS_JSON_CHECK_H

#include <stdio.h>
#include "base/json/json.h"

static inline bool json_same(pal_arena *arena, pal_str found, const char *expected)
{
    pal_json left, right;
    if (pal_json_parse(arena, found, NULL, &left, NULL) == PAL_OK &&
            pal_json_parse(arena, pal_str_of(expected), NULL, &right, NULL) == PAL_OK &&
            pal_json_equal(left, right))
        return true;
    printf("# expected %s\n# found    %.*s\n", expected, PAL_STR_ARG(found));
    return false;
}

#endif
