/* terminal_inline.h - reads the inside of a line of Markdown: emphasis, code, links. */
#ifndef PAL_TERMINAL_INLINE_H
#define PAL_TERMINAL_INLINE_H

#include "cli/terminal/terminal_flow.h"

#define PAL_INLINE_DEPTH_MAX 8
#define PAL_INLINE_SPAN_MAX 1000 /* bytes in which the end of a span is searched for */

typedef struct pal_inline {
    pal_flow *flow;
    unsigned base; /* the style of the line */
    char before;   /* the last byte that was read; 0: none yet */
    struct {
        char mark;
        unsigned char len;
    } open[PAL_INLINE_DEPTH_MAX]; /* emphasis that has begun and whose end was found */
    size_t open_len;
} pal_inline;

/* Begins a line in the style `base`. */
void pal_inline_init(pal_inline *line, pal_flow *flow, unsigned base);

/* Reads as much as can be decided from the beginning of `text`, which is the known rest of the
 * line, and adds it to the flow. `is_whole` means that the line has no more text. Returns the
 * number of bytes read; 0 for a text that is not empty means that more text is needed. The
 * result for a line does not depend on how it is split into pieces. */
size_t pal_inline_step(pal_inline *line, pal_str text, bool is_whole);

/* Reads a complete line. */
void pal_inline_all(pal_inline *line, pal_str text);

#endif
