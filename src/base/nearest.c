/* nearest.c - finds the nearest word by counting edits. Long words match nothing, which limits the
 * work. */
#include "base/nearest.h"

#include <stdint.h>
#include <string.h>

#define LEN_MAX 48
#define DISTANCE_MAX 3
#define SLIP_LEN_MIN 4

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

static bool is_swapped(pal_str a, pal_str b)
{
    size_t i = 0;
    while (i < a.len && a.data[i] == b.data[i])
        i++;
    return a.len == b.len && i + 1 < a.len && a.data[i] == b.data[i + 1] &&
            a.data[i + 1] == b.data[i] &&
            memcmp(a.data + i + 2, b.data + i + 2, a.len - i - 2) == 0;
}

/* Skips separators of words and returns the next letter in lower case, or 0 at the end. */
static char next_letter(pal_str text, size_t *at)
{
    while (*at < text.len && (text.data[*at] == '_' || text.data[*at] == '-'))
        ++*at;
    if (*at == text.len)
        return 0;
    char c = text.data[(*at)++];
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static bool is_equal_but_style(pal_str a, pal_str b)
{
    size_t i = 0, j = 0;
    char c;
    do {
        c = next_letter(a, &i);
        if (c != next_letter(b, &j))
            return false;
    } while (c);
    return true;
}

bool pal_nearest_is_slip(pal_str text, pal_str word)
{
    if (text.len < SLIP_LEN_MIN || word.len < SLIP_LEN_MIN)
        return false;
    bool has_near_len = text.len <= word.len + 1 && word.len <= text.len + 1;
    return (has_near_len && edit_distance(text, word) == 1) || is_equal_but_style(text, word) ||
            (text.len == word.len && is_swapped(text, word));
}
