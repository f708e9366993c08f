/* store_text.h - the text of a stored message that a search looks into. */
#ifndef PAL_STORE_TEXT_H
#define PAL_STORE_TEXT_H

#include "base/buf.h"
#include "store/store_backend.h"

/* Appends the row's texts, tool calls with their arguments, tool outputs and names of files, with
 * line ends between them; not what the model thought. The arena is for the while of the call.
 * PAL_CORRUPT when the row is damaged. */
PAL_CHECKED pal_status pal_row_text(
        const pal_row *row, pal_arena *arena, pal_buf *out, pal_error *err);

#endif
