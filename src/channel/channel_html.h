/* channel_html.h - writes Markdown as the HTML that chats show. Pure functions. */
#ifndef PAL_CHANNEL_HTML_H
#define PAL_CHANNEL_HTML_H

#include <stdbool.h>
#include "base/buf.h"
#include "palaver/arena.h"
#include "palaver/str.h"

/* Appends the HTML of a Markdown text. Only these tags are written: p br strong em del code pre
 * blockquote ul ol li h1 to h6 hr a table thead tbody tr th td. HTML in the text is shown as text.
 * A link must be absolute, with the scheme http, https, mailto or magnet; other links are written
 * as their text, and images as links. Returns true if the HTML shows more than the text alone.
 * buf->failure is set if it fails, also if the text is too long. */
bool pal_channel_html(pal_str text, pal_arena *arena, pal_buf *buf);

#endif
