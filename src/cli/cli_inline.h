/* cli_inline.h - the inside of a line of Markdown: emphasis, code, links. */
#ifndef PAL_CLI_INLINE_H
#define PAL_CLI_INLINE_H

#include "cli/cli_flow.h"

#define PAL_INLINE_DEPTH_MAX 8
#define PAL_INLINE_SPAN_MAX 1000 /* bytes in which an end is looked for: else there is none */

typedef struct pal_inline {
    pal_flow *flow;
    unsigned base; /* the style of the whole line */
    char before;   /* the last byte that was taken; 0: none yet */
    struct {
        char mark;
        unsigned char len;
    } open[PAL_INLINE_DEPTH_MAX]; /* emphasis that has begun, and whose end was seen */
    size_t open_len;
} pal_inline;

/* Begins a line of that style. */
void pal_inline_init(pal_inline *line, pal_flow *flow, unsigned base);

/* Takes what can be decided from the beginning of `text`, the rest of the line as far as it is
 * known, and puts it into the flow; `is_whole`: there is no more. Returns how many bytes it took; 0
 * of a text that is not empty: it must see more first. What it does with a line does not depend on
 * the pieces that it is shown it in. */
size_t pal_inline_step(pal_inline *line, pal_str text, bool is_whole);

/* A whole line. */
void pal_inline_all(pal_inline *line, pal_str text);

#endif
