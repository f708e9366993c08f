/* nearest.c - finds the nearest word by counting edits. Long words match nothing, which limits the
 * work. */
#include "base/nearest.h"

#include <stdint.h>

#define LEN_MAX 48
#define DISTANCE_MAX 3

/* Returns how many edits (insert, remove, replace) turn `a` into `b`. Returns a large number if
 * either text is too long. */
static size_t edit_distance(pal_str a, pal_str b)
{
    size_t row[LEN_MAX + 1];
    if (a.len > LEN_MAX || b.len > LEN_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= b.len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            size_t best = diagonal + (a.data[i - 1] != b.data[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[b.len];
}

pal_nearest pal_nearest_make(pal_str text)
{
    size_t distance = 1 + text.len / 3;
    if (distance > DISTANCE_MAX)
        distance = DISTANCE_MAX;
    return (pal_nearest){.text = text, .distance = distance};
}

bool pal_nearest_try(pal_nearest *nearest, pal_str word)
{
    size_t distance = edit_distance(nearest->text, word);
    if (distance > nearest->distance || (nearest->found && distance == nearest->distance))
        return false;
    nearest->found = true;
    nearest->distance = distance;
    return true;
}
