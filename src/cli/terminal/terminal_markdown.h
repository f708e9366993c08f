/* terminal_markdown.h - shows a model's Markdown on a terminal while it streams in. Three layers:
 * the flow wraps text into lines, the inline reader finds emphasis, code and links in a line, and
 * the Markdown reader finds headings, lists, quotes, tables and code blocks. */
#ifndef PAL_TERMINAL_MARKDOWN_H
#define PAL_TERMINAL_MARKDOWN_H

#include <stdbool.h>
#include "base/buf.h"

/* ---- Flow: wraps text by columns and between words (terminal_flow.c) ---- */

/* Bits of a style. A style never leaks into the text around it. */
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

/* ---- The inside of a line: emphasis, code, links (terminal_inline.c) ---- */

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

/* ---- Markdown (terminal_markdown.c) ---- */

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
