/* route_dimension.c - the dimensions that distinguish sessions: their names, lists of them, and
 * shorthands for such lists. */
#include "base/unicode.h"
#include "route/route_settings.h"
#include "route/route_text.h"

static const char *const names[PAL_ROUTE_VALUES_MAX] = {"space", "chat", "topic", "sender"};

const char *pal_route_dimension_name(pal_route_dimension dimension)
{
    return names[dimension];
}

bool pal_route_dimensions_has(const pal_route_dimensions *dimensions, pal_route_dimension wanted)
{
    for (size_t i = 0; i < dimensions->len; i++) {
        if (dimensions->items[i] == wanted)
            return true;
    }
    return false;
}

/* Adds a known name to the list. Returns false if the name is not known. */
static bool add_name(pal_route_dimensions *dimensions, pal_str name)
{
    for (int i = 0; i < PAL_ROUTE_VALUES_MAX; i++) {
        if (!pal_route_is_word(name, names[i]))
            continue;
        if (!pal_route_dimensions_has(dimensions, (pal_route_dimension)i))
            dimensions->items[dimensions->len++] = (uint8_t)i;
        return true;
    }
    return false;
}

bool pal_route_dimensions_from_names(
        const pal_str *list, size_t len, pal_route_dimensions *out_dimensions, pal_str *out_unknown)
{
    pal_route_dimensions found = {.len = 0};
    bool known = true;
    for (size_t i = 0; i < len; i++) {
        pal_str name = pal_unicode_trim(list[i]);
        if (name.len && !add_name(&found, name) && known) {
            *out_unknown = name;
            known = false;
        }
    }
    *out_dimensions = found;
    return known;
}
