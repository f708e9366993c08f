/* dialect_text.h - the text of a message, without its other parts. */
#ifndef PAL_DIALECT_TEXT_H
#define PAL_DIALECT_TEXT_H

#include "palaver/arena.h"
#include "palaver/message.h"

/* Returns the text of a message: its text parts and plain outputs, concatenated, in the arena. */
pal_str pal_dialect_text(const pal_message *message, pal_arena *arena);

#endif
