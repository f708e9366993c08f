/* transfer_export_html.c - an export as one HTML page for people, which needs nothing else: no
 * scripts, no other files. Every text is escaped, and shown as it was written. */
#include "base/clock.h"
#include "dialect/dialect_base64.h"
#include "transfer/transfer_export_agent.h"

static const char style[] =
        "body{max-width:50em;margin:2em auto;padding:0 1em;font:16px/1.5 sans-serif;color:#222}"
        "pre{white-space:pre-wrap;overflow-wrap:anywhere;font:inherit;margin:.5em 0}"
        "code pre{font:14px/1.4 monospace;background:#f3f3f3;padding:.5em}"
        "h2{font-size:1em;margin:1.5em 0 0;color:#555}img{max-width:100%}time{color:#777}";

static void put_escaped(pal_buf *out, pal_str text)
{
    size_t from = 0;
    for (size_t i = 0; i < text.len; i++) {
        const char *entity = text.data[i] == '&' ? "&amp;"
                : text.data[i] == '<'            ? "&lt;"
                : text.data[i] == '>'            ? "&gt;"
                : text.data[i] == '"'            ? "&quot;"
                : text.data[i] == '\''           ? "&#39;"
                                                 : NULL;
        if (!entity)
            continue;
        pal_buf_append(out, text.data + from, i - from);
        pal_buf_append_text(out, entity);
        from = i + 1;
    }
    if (from < text.len)
        pal_buf_append(out, text.data + from, text.len - from);
}

static void put_element(pal_buf *out, const char *before, pal_str text, const char *after)
{
    pal_buf_append_text(out, before);
    put_escaped(out, text);
    pal_buf_append_text(out, after);
}

static void put_time(pal_buf *out, int64_t ms)
{
    char text[PAL_TIME_TEXT_SIZE];
    size_t len = pal_time_to_text(ms, text);
    put_element(out, " <time>", pal_str_make(text, len), "</time>");
}

void pal_export_html_begin(const pal_session *session, pal_buf *out)
{
    pal_str title = session->title.len ? session->title
            : session->key.len         ? session->key
                                       : pal_str_of("Conversation");
    pal_buf_append_text(out, "<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n");
    put_element(out, "<title>", title, "</title>\n");
    pal_buf_format(out, "<style>%s</style>\n</head>\n<body>\n", style);
    put_element(out, "<h1>", title, "</h1>\n");
}

/* Only these types are shown as images: an SVG could contain scripts. */
static bool is_picture(const pal_part *part)
{
    static const char *const types[] = {"image/png", "image/jpeg", "image/gif", "image/webp"};
    for (size_t i = 0; part->data.len && i < sizeof types / sizeof *types; i++) {
        if (pal_str_is(part->media_type, types[i]))
            return true;
    }
    return false;
}

static void put_media(const pal_part *part, pal_buf *out)
{
    if (is_picture(part)) {
        put_element(out, "<p><img alt=\"image\" src=\"data:", part->media_type, ";base64,");
        pal_base64_encode(out, part->data);
        pal_buf_append_text(out, "\"></p>\n");
        return;
    }
    pal_buf_format(out, "<p>[%s] ", pal_part_kind_name(part->kind));
    put_element(out, "", part->name.len ? part->name : part->url, "</p>\n");
}

static void put_part(const pal_part *part, pal_buf *out)
{
    switch (part->kind) {
    case PAL_PART_REASONING:
        break;
    case PAL_PART_TOOL_CALL:
        put_element(out, "<p>Calls <b>", part->name, "</b></p>\n");
        put_element(out, "<code><pre>", part->arguments, "</pre></code>\n");
        break;
    case PAL_PART_TOOL_RESULT:
        if (part->text.len || !part->parts_len)
            put_element(out, "<code><pre>", part->text, "</pre></code>\n");
        for (size_t i = 0; i < part->parts_len; i++)
            put_part(&part->parts[i], out);
        break;
    case PAL_PART_IMAGE:
    case PAL_PART_FILE:
        put_media(part, out);
        break;
    default:
        put_element(out, "<pre>", part->text, "</pre>\n");
        break;
    }
}

void pal_export_html_message(const pal_message *message, pal_buf *out)
{
    size_t len = 0;
    for (size_t i = 0; i < message->parts_len; i++)
        len += message->parts[i].kind != PAL_PART_REASONING;
    if (len == 0)
        return;
    put_element(out, "<h2>", pal_str_of(pal_role_name(message->role)), "");
    put_element(out, message->model.len ? ", " : "", message->model, "");
    put_time(out, message->created_at);
    pal_buf_append_text(out, "</h2>\n");
    for (size_t i = 0; i < message->parts_len; i++)
        put_part(&message->parts[i], out);
}

void pal_export_html_end(pal_buf *out)
{
    pal_buf_append_text(out, "</body>\n</html>\n");
}
