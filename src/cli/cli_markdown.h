/* cli_markdown.h - makes a model's Markdown readable on a terminal while it streams in. */
#ifndef PAL_CLI_MARKDOWN_H
#define PAL_CLI_MARKDOWN_H

#include "cli/cli_inline.h"

#define PAL_MARKDOWN_PROSE_MAX 100                /* columns: longer lines are hard to read */
#define PAL_MARKDOWN_TABLE_MAX ((size_t)64 << 10) /* bytes; what is more begins another one */
#define PAL_MARKDOWN_HOLD_MAX 1000 /* bytes of a line that may wait to be told what it is */
#define PAL_MARKDOWN_CELLS_MAX 32  /* in a row; what is more stays in the last one */

typedef enum pal_markdown_state {
    PAL_MARKDOWN_START = 0, /* of a line */
    PAL_MARKDOWN_INLINE = 1,
    PAL_MARKDOWN_CODE_START = 2, /* of a line between fences */
    PAL_MARKDOWN_CODE = 3,
} pal_markdown_state;

typedef struct pal_markdown {
    pal_flow flow;
    pal_inline line;
    bool is_raw;  /* text comes out as it is, but for control characters */
    size_t width; /* of the terminal */
    pal_buf text; /* clean; not shown yet */
    size_t at;    /* of the next byte in it */
    char tail[4]; /* the beginning of a character */
    size_t tail_len;
    bool is_over; /* no more text will come */
    pal_markdown_state state;
    char fence; /* the mark that closes the code, and at least how many of them */
    size_t fence_len;
    pal_buf table; /* its lines so far */
} pal_markdown;

/* Everything goes to `out`, which must outlive it. Without styles there is no escape sequence in
 * it, and marks of emphasis and code are left as they are. */
void pal_markdown_init(pal_markdown *md, pal_buf *out, size_t width, bool has_styles);
void pal_markdown_done(pal_markdown *md);
void pal_markdown_set_width(pal_markdown *md, size_t width);

/* The next piece, cut anywhere. How the text is cut makes no difference. Control characters become
 * visible; failures show in `out`. */
void pal_markdown_feed(pal_markdown *md, pal_str piece);
/* The text is over: shows what waits, and ends the line. Begins anew. */
void pal_markdown_finish(pal_markdown *md);
/* Whether the cursor is at the beginning of a line. */
bool pal_markdown_is_idle(const pal_markdown *md);

/* Lays out the lines of a table (cli_markdown_table.c). False: it isn't one. */
bool pal_markdown_table(pal_flow *flow, pal_str lines, size_t width);

#endif
