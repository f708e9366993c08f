/* terminal_markdown.h - shows a model's Markdown on a terminal while it streams in. */
#ifndef PAL_TERMINAL_MARKDOWN_H
#define PAL_TERMINAL_MARKDOWN_H

#include "cli/terminal/terminal_inline.h"

#define PAL_MARKDOWN_PROSE_MAX 100                /* columns; longer lines are hard to read */
#define PAL_MARKDOWN_TABLE_MAX ((size_t)64 << 10) /* bytes; longer tables are split */
#define PAL_MARKDOWN_HOLD_MAX 1000 /* bytes of a line that can wait for a decision */
#define PAL_MARKDOWN_CELLS_MAX 32  /* cells in a row; further cells become part of the last one */

typedef enum pal_markdown_state {
    PAL_MARKDOWN_START = 0, /* the beginning of a line */
    PAL_MARKDOWN_INLINE = 1,
    PAL_MARKDOWN_CODE_START = 2, /* the beginning of a line between fences */
    PAL_MARKDOWN_CODE = 3,
} pal_markdown_state;

typedef struct pal_markdown {
    pal_flow flow;
    pal_inline line;
    bool is_raw;  /* print the text unchanged, except control characters */
    size_t width; /* columns of the terminal */
    pal_buf text; /* without control characters; not shown yet */
    size_t at;    /* offset of its next byte */
    char tail[4]; /* the beginning of an incomplete character */
    size_t tail_len;
    bool is_over; /* no more text will arrive */
    pal_markdown_state state;
    char fence; /* the mark that closes the code; fence_len: its minimum number */
    size_t fence_len;
    pal_buf table; /* its lines so far */
} pal_markdown;

/* Everything is written to `out`, which must outlive `md`. Without styles no escape sequences
 * are written, and marks of emphasis and code stay visible. */
void pal_markdown_init(pal_markdown *md, pal_buf *out, size_t width, bool has_styles);
void pal_markdown_done(pal_markdown *md);
void pal_markdown_set_width(pal_markdown *md, size_t width);

/* Adds the next piece, which can be cut anywhere: the result does not depend on the cuts.
 * Control characters are made visible. Failures are recorded in `out`. */
void pal_markdown_feed(pal_markdown *md, pal_str piece);
/* Ends the text: shows everything that waits, and ends the line. Then starts over. */
void pal_markdown_finish(pal_markdown *md);
/* Returns whether the cursor is at the beginning of a line. */
bool pal_markdown_is_idle(const pal_markdown *md);

/* Lays out the lines of a table (terminal_markdown_table.c). Returns false if it is not a table. */
bool pal_markdown_table(pal_flow *flow, pal_str lines, size_t width);

#endif
