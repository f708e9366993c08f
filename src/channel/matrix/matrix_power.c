/* matrix_power.c - power levels of users. Old rooms have levels that are numbers in strings. */
#include <stdlib.h>
#include "channel/matrix/matrix_event.h"

#define DIGITS_MAX 18

static int64_t level_of(pal_json value, int64_t otherwise)
{
    char text[DIGITS_MAX + 2];
    int64_t level = otherwise;
    pal_str raw = pal_json_raw(value);

    if (pal_json_i64(value, &level))
        return level;
    if (pal_json_type_of(value) != PAL_JSON_STRING || raw.len < 3 || raw.len > DIGITS_MAX + 2)
        return otherwise;
    memcpy(text, raw.data + 1, raw.len - 2);
    text[raw.len - 2] = '\0';
    char *end;
    long long number = strtoll(text, &end, 10);
    return *end ? otherwise : (int64_t)number;
}

int64_t pal_matrix_power_of(pal_json content, pal_str user)
{
    pal_json_iter iter = pal_json_each(pal_json_find(content, "users"));
    int64_t level = level_of(pal_json_find(content, "users_default"), 0);
    pal_json name, value;

    while (iter.is_object && pal_json_next(&iter, &name, &value)) {
        pal_str raw = pal_json_raw(name);
        if (raw.len >= 2 && pal_str_equal(pal_str_make(raw.data + 1, raw.len - 2), user))
            return level_of(value, level);
    }
    return level;
}
