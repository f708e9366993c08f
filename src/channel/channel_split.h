/* channel_split.h - divides a long text into messages. Pure functions. */
#ifndef PAL_CHANNEL_SPLIT_H
#define PAL_CHANNEL_SPLIT_H

#include <stdint.h>
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/str.h"

/* Returns the length of a text in UTF-16 units. */
size_t pal_channel_units(pal_str text);

/* Divides a Markdown text into pieces of at most `bytes_max` bytes and `units_max` UTF-16 units (0:
 * no limit). It is cut at an empty line, otherwise at the end of a line, of a sentence or of a
 * word, otherwise between two characters. A block of code that is cut is closed, and opened again
 * with its language in the next piece. The pieces are in the arena; there is at least one unless
 * the text is blank. Both limits must be at least PAL_CHANNEL_PIECE_MIN. */
PAL_CHECKED pal_status pal_channel_split(pal_str text, size_t bytes_max, size_t units_max,
        pal_arena *arena, pal_str **out_pieces, size_t *out_len, pal_error *err);

#endif
