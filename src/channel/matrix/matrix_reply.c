/* matrix_reply.c - the quote that clients before version 1.13 of the specification put in front of
 * the body of a reply:
 *
 *   > <@ann:example.org> the first line of the quoted message
 *   > the second line
 *
 *   the reply
 *
 * Quoted lines are the words of somebody else. They must never count as said by the sender. */
#include "base/text.h"
#include "channel/matrix/matrix_event.h"

/* Returns the text after its first line. */
static pal_str after_line(pal_str text)
{
    const char *end = text.len ? memchr(text.data, '\n', text.len) : NULL;
    return end ? pal_text_after(text, (size_t)(end - text.data) + 1) : (pal_str){0};
}

pal_str pal_matrix_reply_strip(pal_str body)
{
    pal_str rest = body;

    /* Only a quote that names its author is a fallback. Other quotes were written by the sender. */
    if (!pal_text_begins(body, "> <@") && !pal_text_begins(body, "> * <@"))
        return body;
    while (pal_text_begins(rest, "> ") || pal_text_begins(rest, ">\n") || pal_str_is(rest, ">"))
        rest = after_line(rest);
    return pal_text_begins(rest, "\n") ? pal_text_after(rest, 1) : rest;
}
