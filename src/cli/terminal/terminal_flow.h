/* terminal_flow.h - wraps text into lines of a terminal, by columns and between words. Styles never
 * leak into the text around them. */
#ifndef PAL_TERMINAL_FLOW_H
#define PAL_TERMINAL_FLOW_H

#include <stdbool.h>
#include "base/buf.h"

/* Bits of a style. */
typedef enum pal_flow_style {
    PAL_FLOW_BOLD = 1 << 0,
    PAL_FLOW_FAINT = 1 << 1,
    PAL_FLOW_ITALIC = 1 << 2,
    PAL_FLOW_UNDERLINE = 1 << 3,
    PAL_FLOW_STRIKE = 1 << 4,
    PAL_FLOW_CODE = 1 << 5,
} pal_flow_style;

#define PAL_FLOW_QUOTES_MAX 8

typedef struct pal_flow {
    pal_buf *out;    /* owned by the caller; failures are recorded there */
    size_t width;    /* columns; 0: no wrapping */
    bool has_styles; /* if false, no escape sequence is ever written */
    bool is_muted;   /* write no escape sequences, but still remove the marks of emphasis */
    size_t quotes;   /* number of bars before each line */
    size_t hang;     /* columns before the second and later lines of a wrapped text */

    size_t breaks;  /* line ends that are written before the next text */
    bool is_begun;  /* something was written; before that, line ends are ignored */
    bool is_inside; /* inside a line */
    bool is_filled; /* the line has more than its bars and indent */
    size_t column;
    unsigned style; /* the current style of the terminal */
    pal_buf word;   /* not written yet, because it may belong to the next line */
    size_t word_columns;
    unsigned word_first; /* style of its first character; word_last: of its last */
    unsigned word_last;
    bool word_is_wide; /* a line can break after its last character */
    bool word_is_joined;
    size_t spaces; /* spaces before the word */
    unsigned spaces_style;
} pal_flow;

void pal_flow_init(pal_flow *flow, pal_buf *out, size_t width, bool has_styles);
void pal_flow_done(pal_flow *flow);

/* Begins a line with `indent` columns of space, unless a line has begun already. */
void pal_flow_begin(pal_flow *flow, size_t indent);
/* Adds words and spaces. The text has no control characters and no line ends. */
void pal_flow_text(pal_flow *flow, pal_str text, unsigned style);
/* Adds text unchanged and without wrapping, so that it can be copied from the terminal. */
void pal_flow_verbatim(pal_flow *flow, pal_str text, unsigned style);
/* Ends the line. A second call adds an empty line; more calls have no effect. */
void pal_flow_end(pal_flow *flow);
/* Writes everything that waits, and a line end if there was any text. Then starts over. */
void pal_flow_finish(pal_flow *flow);

#endif
