/* cli_flow.h - text that flows into lines of a terminal: wrapped at words by columns, with styles
 * that never leak into what stands beside it. */
#ifndef PAL_CLI_FLOW_H
#define PAL_CLI_FLOW_H

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
    pal_buf *out;    /* the caller's; failures stick there */
    size_t width;    /* columns; 0: nothing is wrapped */
    bool has_styles; /* else no escape sequence is ever written */
    bool is_muted;   /* likewise, but marks are left away as if it were */
    size_t quotes;   /* bars before each line */
    size_t hang;     /* columns before the second and later lines of what is wrapped */

    size_t breaks;  /* line ends that wait: they are written before what comes next */
    bool is_begun;  /* something was written: until then line ends are nothing */
    bool is_inside; /* of a line */
    bool is_filled; /* it has more than its bars and indent */
    size_t column;
    unsigned style; /* that the terminal has now */
    pal_buf word;   /* not written yet: it may belong to the next line */
    size_t word_columns;
    unsigned word_first; /* style of its first character, and of its last */
    unsigned word_last;
    bool word_is_wide; /* its last character allows a break behind it */
    bool word_is_joined;
    size_t spaces; /* before the word */
    unsigned spaces_style;
} pal_flow;

void pal_flow_init(pal_flow *flow, pal_buf *out, size_t width, bool has_styles);
void pal_flow_done(pal_flow *flow);

/* Begins a line that has these columns of space first, unless inside of one. */
void pal_flow_begin(pal_flow *flow, size_t indent);
/* Clean text without line ends: words and spaces. */
void pal_flow_text(pal_flow *flow, pal_str text, unsigned style);
/* Likewise as it is, never wrapped: the terminal may break it, so that it can be copied. */
void pal_flow_verbatim(pal_flow *flow, pal_str text, unsigned style);
/* Ends the line; twice gives an empty one between, and more than that is not more. */
void pal_flow_end(pal_flow *flow);
/* Writes everything that waits, and a line end if there was anything. Begins anew. */
void pal_flow_finish(pal_flow *flow);

#endif
