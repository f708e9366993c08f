/* channel_html.c - writes Markdown as the HTML that chats show. Every tag and every attribute is
 * written here; texts are escaped. So nothing else can get into a chat. */
#include "channel/channel_html.h"

#include "base/text.h"
#include "channel/channel_markdown.h"

#define LANGUAGE_LEN_MAX 32

#define OPEN_MAX 64 /* more than the depths of blocks and spans together */

/* An open tag: the text that closes it, and whether paragraphs in it have tags. */
typedef struct open_tag {
    const char *closing;
    bool is_item;
    bool has_paragraph;
} open_tag;

typedef struct writer {
    pal_buf *buf;
    open_tag open[OPEN_MAX];
    size_t depth;
    bool is_rich;
    bool is_in_body; /* the first row of the table is over */
} writer;

static void put_escaped(pal_buf *buf, pal_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        switch (text.data[i]) {
        case '<':
            pal_buf_append_text(buf, "&lt;");
            break;
        case '>':
            pal_buf_append_text(buf, "&gt;");
            break;
        case '&':
            pal_buf_append_text(buf, "&amp;");
            break;
        case '"':
            pal_buf_append_text(buf, "&quot;");
            break;
        case '\0':
            pal_buf_append_text(buf, "\xef\xbf\xbd");
            break;
        default:
            pal_buf_append_char(buf, text.data[i]);
        }
    }
}

static bool is_language(pal_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i], lower = (char)(c | 0x20);
        if (!(lower >= 'a' && lower <= 'z') && !(c >= '0' && c <= '9') && !memchr("_+#-", c, 4))
            return false;
    }
    return text.len > 0 && text.len <= LANGUAGE_LEN_MAX;
}

/* ---- Tags ---- */

typedef struct tags {
    const char *opening, *closing;
} tags;

static const tags headings[] = {{"<h1>", "</h1>"}, {"<h2>", "</h2>"}, {"<h3>", "</h3>"},
        {"<h4>", "</h4>"}, {"<h5>", "</h5>"}, {"<h6>", "</h6>"}};

static tags tags_of(pal_markdown_kind kind, unsigned number)
{
    switch (kind) {
    case PAL_MARKDOWN_HEADING:
        return headings[number >= 1 && number <= 6 ? number - 1 : 5];
    case PAL_MARKDOWN_QUOTE:
        return (tags){"<blockquote>", "</blockquote>"};
    case PAL_MARKDOWN_LIST:
        return number > 0 ? (tags){"<ol>", "</ol>"} : (tags){"<ul>", "</ul>"};
    case PAL_MARKDOWN_ITEM:
        return (tags){"<li>", "</li>"};
    case PAL_MARKDOWN_TABLE:
        return (tags){"<table>", "</table>"};
    case PAL_MARKDOWN_CELL:
        return number > 0 ? (tags){"<th>", "</th>"} : (tags){"<td>", "</td>"};
    case PAL_MARKDOWN_RULE:
        return (tags){"<hr>", ""};
    case PAL_MARKDOWN_EM:
        return (tags){"<em>", "</em>"};
    case PAL_MARKDOWN_STRONG:
        return (tags){"<strong>", "</strong>"};
    case PAL_MARKDOWN_DELETED:
        return (tags){"<del>", "</del>"};
    case PAL_MARKDOWN_CODE:
        return (tags){"<code>", "</code>"};
    default:
        return (tags){"", ""};
    }
}

/* Paragraphs directly in an item have no tags: most items are one line. */
static const char *begin_paragraph(writer *w)
{
    open_tag *outer = w->depth > 0 ? &w->open[w->depth - 1] : NULL;

    if (!outer || !outer->is_item) {
        pal_buf_append_text(w->buf, "<p>");
        return "</p>";
    }
    if (outer->has_paragraph)
        pal_buf_append_text(w->buf, "<br>");
    outer->has_paragraph = true;
    return "";
}

static const char *begin_code(writer *w, pal_str language)
{
    pal_buf_append_text(w->buf, "<pre><code");
    if (is_language(language)) {
        pal_buf_append_text(w->buf, " class=\"language-");
        pal_buf_append_str(w->buf, language);
        pal_buf_append_text(w->buf, "\"");
    }
    pal_buf_append_text(w->buf, ">");
    return "</code></pre>";
}

static const char *begin_row(writer *w, unsigned is_first)
{
    if (is_first) {
        pal_buf_append_text(w->buf, "<thead><tr>");
        w->is_in_body = false;
        return "</tr></thead>";
    }
    pal_buf_append_text(w->buf, w->is_in_body ? "<tr>" : "<tbody><tr>");
    w->is_in_body = true;
    return "</tr>";
}

static void enter(pal_markdown_kind kind, unsigned number, pal_str text, void *user)
{
    writer *w = user;
    tags simple = tags_of(kind, number);
    const char *closing = simple.closing;

    if (kind == PAL_MARKDOWN_BREAK) {
        pal_buf_append_text(w->buf, "<br>");
        return;
    }
    if (kind == PAL_MARKDOWN_PARAGRAPH) {
        closing = begin_paragraph(w);
    } else if (kind == PAL_MARKDOWN_CODE_BLOCK) {
        closing = begin_code(w, text);
    } else if (kind == PAL_MARKDOWN_ROW) {
        closing = begin_row(w, number);
    } else if (kind == PAL_MARKDOWN_LINK) {
        pal_buf_append_text(w->buf, "<a href=\"");
        put_escaped(w->buf, text);
        pal_buf_append_text(w->buf, "\">");
        closing = "</a>";
    } else if (kind == PAL_MARKDOWN_LIST && number > 1) {
        pal_buf_format(w->buf, "<ol start=\"%u\">", number);
    } else {
        pal_buf_append_text(w->buf, simple.opening);
    }
    w->is_rich = w->is_rich || kind != PAL_MARKDOWN_PARAGRAPH;
    if (w->depth >= OPEN_MAX) {
        w->buf->failure = PAL_LIMIT;
        return;
    }
    w->open[w->depth++] =
            (open_tag){.closing = closing, .is_item = kind == PAL_MARKDOWN_ITEM};
}

static void leave(pal_markdown_kind kind, void *user)
{
    writer *w = user;

    if (kind == PAL_MARKDOWN_TABLE && w->is_in_body) {
        pal_buf_append_text(w->buf, "</tbody>");
        w->is_in_body = false;
    }
    if (w->depth > 0)
        pal_buf_append_text(w->buf, w->open[--w->depth].closing);
}

static void put_text(pal_str text, void *user)
{
    put_escaped(((writer *)user)->buf, text);
}

bool pal_channel_html(pal_str text, pal_arena *arena, pal_buf *buf)
{
    writer w = {.buf = buf};
    pal_markdown_sink sink = {enter, leave, put_text, &w};
    pal_status status = pal_channel_markdown(text, arena, &sink, NULL);

    if (status != PAL_OK && buf->failure == PAL_OK)
        buf->failure = status;
    return w.is_rich;
}
