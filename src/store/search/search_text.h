/* search_text.h - the text of a stored message that a search looks at. */
#ifndef PAL_SEARCH_TEXT_H
#define PAL_SEARCH_TEXT_H

#include "base/buf.h"
#include "store/store_backend.h"

/* Appends the row's texts, its tool calls with arguments, its tool outputs and its file names,
 * separated by newlines. Reasoning is left out. The arena is used only during the call. Returns
 * PAL_CORRUPT if the row is damaged. */
PAL_CHECKED pal_status pal_row_text(
        const pal_row *row, pal_arena *arena, pal_buf *out, pal_error *err);

#endif
