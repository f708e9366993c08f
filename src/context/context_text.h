/* context_text.h - the texts that a plan puts into a request, word for word: what is stored,
 * counted and compared elsewhere depends on them. */
#ifndef PAL_CONTEXT_TEXT_H
#define PAL_CONTEXT_TEXT_H

#include <stdint.h>
#include "palaver/arena.h"
#include "palaver/message.h"

#define PAL_TEXT_CONTINUES "[The conversation continues.]"
#define PAL_TEXT_QUESTION "What did we do so far?"
#define PAL_TEXT_SUMMARY "Previous conversation summary: "
#define PAL_TEXT_CLEARED "[Old tool result content cleared]"
#define PAL_TEXT_IMAGE_REMOVED "[Image removed from context]"
#define PAL_TEXT_FILE_REMOVED "[File removed from context]"
#define PAL_TEXT_REMOVED "[Content removed from context]"

/* A view of a literal. */
#define PAL_TEXT(literal) (pal_str_make((literal), sizeof(literal) - 1))

/* Printed into the arena; the empty view on failure, which sticks there. */
pal_str pal_text_format(pal_arena *arena, const char *format, ...) PAL_PRINTF(2, 3);

/* Likewise: the three, one behind the other, whatever is in them. */
pal_str pal_text_join(pal_arena *arena, pal_str a, pal_str b, pal_str c);

/* "[Note: 3 older messages truncated to stay within token limit]"; after the provider refused, the
 * words are Loom's other ones: "... dropped to fit context window]". */
pal_str pal_text_notice(pal_arena *arena, uint64_t messages, bool after_overflow);

/* What stands for the part once it is not sent any more. */
pal_str pal_text_placeholder(pal_arena *arena, const pal_part *part);

#endif
