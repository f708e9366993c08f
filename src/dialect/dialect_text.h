/* dialect_text.h - the text of a message without its other parts, and the data in the text of a
 * stream. Pure functions: any thread. */
#ifndef PAL_DIALECT_TEXT_H
#define PAL_DIALECT_TEXT_H

#include <stdbool.h>
#include "palaver/arena.h"
#include "palaver/message.h"

/* Returns the text of a message: its text parts and plain outputs, concatenated, in the arena. */
pal_str pal_dialect_text(const pal_message *message, pal_arena *arena);

/* Finds the next line "data: ..." of server-sent events, and moves *stream after it. The data has
 * no white space around it and is not empty. Returns false if there is none. */
bool pal_dialect_data_next(pal_str *stream, pal_str *out_data);

#endif
