/* channel_markdown.h - reads the Markdown that models write in chats: paragraphs, headings, lists,
 * quotes, code, tables, emphasis and links. HTML in it is text. Pure functions; the time is linear
 * in the length of the text. */
#ifndef PAL_CHANNEL_MARKDOWN_H
#define PAL_CHANNEL_MARKDOWN_H

#include <stdbool.h>
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/str.h"

typedef enum pal_markdown_kind {
    PAL_MARKDOWN_PARAGRAPH,
    PAL_MARKDOWN_HEADING, /* number: 1 to 6 */
    PAL_MARKDOWN_QUOTE,
    PAL_MARKDOWN_LIST, /* number: that of the first item; 0: without numbers */
    PAL_MARKDOWN_ITEM, /* number: that of the item; 0: without numbers */
    PAL_MARKDOWN_CODE_BLOCK, /* text: the language */
    PAL_MARKDOWN_RULE,
    PAL_MARKDOWN_TABLE,
    PAL_MARKDOWN_ROW,
    PAL_MARKDOWN_CELL, /* number: 1 in the first row */
    PAL_MARKDOWN_EM,
    PAL_MARKDOWN_STRONG,
    PAL_MARKDOWN_DELETED,
    PAL_MARKDOWN_CODE,
    PAL_MARKDOWN_LINK, /* text: the address, which may be shown (pal_channel_link_is_allowed()) */
    PAL_MARKDOWN_BREAK, /* a new line in a paragraph; without leave */
} pal_markdown_kind;

/* Receives a text piece by piece. Each enter() has its leave(), properly nested. */
typedef struct pal_markdown_sink {
    void (*enter)(pal_markdown_kind kind, unsigned number, pal_str text, void *user);
    void (*leave)(pal_markdown_kind kind, void *user);
    void (*text)(pal_str text, void *user);
    void *user;
} pal_markdown_sink;

/* Reads a valid UTF-8 text of at most PAL_CHANNEL_MARKDOWN_BYTES_MAX bytes. PAL_LIMIT: it is
 * longer; nothing was reported. */
PAL_CHECKED pal_status pal_channel_markdown(
        pal_str text, pal_arena *arena, const pal_markdown_sink *sink, pal_error *err);

/* Returns true for an absolute link with the scheme https, http, mailto or magnet. */
bool pal_channel_link_is_allowed(pal_str url);

#endif
