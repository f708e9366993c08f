/* telegram_text.c - writes Markdown as text with entities: no character has to be escaped, so no
 * text can be refused or shown wrongly because of its signs. */
#include "channel/telegram/telegram.h"

#include "base/json/json_put.h"
#include "base/memory.h"
#include "channel/channel_limits.h"
#include "channel/channel_markdown.h"
#include "channel/channel_split.h"

#define ENTITIES_MAX 100 /* entities in one message; the service ignores more */
#define OPEN_MAX 64

typedef struct entity {
    const char *type;
    size_t from, len; /* in bytes at first */
    pal_str text;     /* the address of a link, the language of code */
} entity;

typedef struct writer {
    pal_buf text;
    pal_arena *arena;
    entity entities[ENTITIES_MAX];
    size_t entities_len;
    size_t open[OPEN_MAX]; /* the entity of each open element; ENTITIES_MAX: none */
    size_t depth;
    unsigned lists;   /* how deep */
    unsigned cells;   /* in this row */
} writer;

static const char *type_of(pal_markdown_kind kind)
{
    switch (kind) {
    case PAL_MARKDOWN_HEADING:
    case PAL_MARKDOWN_STRONG:
        return "bold";
    case PAL_MARKDOWN_EM:
        return "italic";
    case PAL_MARKDOWN_DELETED:
        return "strikethrough";
    case PAL_MARKDOWN_CODE:
        return "code";
    case PAL_MARKDOWN_CODE_BLOCK:
    case PAL_MARKDOWN_TABLE:
        return "pre";
    case PAL_MARKDOWN_QUOTE:
        return "blockquote";
    case PAL_MARKDOWN_LINK:
        return "text_link";
    default:
        return NULL;
    }
}

static void begin_line(writer *w, bool with_gap)
{
    if (w->text.len == 0)
        return;
    if (w->text.data[w->text.len - 1] != '\n')
        pal_buf_append_char(&w->text, '\n');
    if (with_gap && w->text.len > 1 && w->text.data[w->text.len - 2] != '\n')
        pal_buf_append_char(&w->text, '\n');
}

/* Does the text end with the mark of an item? Its first paragraph then follows in that line. */
static bool is_after_mark(const writer *w)
{
    return w->lists > 0 && w->text.len > 0 && w->text.data[w->text.len - 1] == ' ';
}

static void begin_item(writer *w, unsigned number)
{
    begin_line(w, false);
    for (unsigned i = 1; i < w->lists; i++)
        pal_buf_append_text(&w->text, "  ");
    if (number > 0)
        pal_buf_format(&w->text, "%u. ", number);
    else
        pal_buf_append_text(&w->text, "\xe2\x80\xa2 ");
}

static void begin_block(writer *w, pal_markdown_kind kind, unsigned number)
{
    switch (kind) {
    case PAL_MARKDOWN_PARAGRAPH:
    case PAL_MARKDOWN_HEADING:
    case PAL_MARKDOWN_QUOTE:
    case PAL_MARKDOWN_CODE_BLOCK:
    case PAL_MARKDOWN_TABLE:
        if (!is_after_mark(w))
            begin_line(w, w->lists == 0);
        break;
    case PAL_MARKDOWN_RULE:
        begin_line(w, true);
        pal_buf_append_text(&w->text, "\xe2\x80\x94\xe2\x80\x94\xe2\x80\x94");
        break;
    case PAL_MARKDOWN_LIST:
        begin_line(w, w->lists++ == 0);
        break;
    case PAL_MARKDOWN_ITEM:
        begin_item(w, number);
        break;
    case PAL_MARKDOWN_ROW:
        begin_line(w, false);
        w->cells = 0;
        break;
    case PAL_MARKDOWN_CELL:
        if (w->cells++ > 0)
            pal_buf_append_text(&w->text, " | ");
        break;
    case PAL_MARKDOWN_BREAK:
        pal_buf_append_char(&w->text, '\n');
        break;
    default:
        break;
    }
}

static void enter(pal_markdown_kind kind, unsigned number, pal_str text, void *user)
{
    writer *w = user;
    const char *type = type_of(kind);
    size_t place = ENTITIES_MAX;

    begin_block(w, kind, number);
    if (kind == PAL_MARKDOWN_BREAK)
        return;
    if (type && w->entities_len < ENTITIES_MAX) {
        place = w->entities_len++;
        w->entities[place] = (entity){.type = type, .from = w->text.len,
                .text = pal_arena_copy(w->arena, text)};
    }
    if (w->depth < OPEN_MAX)
        w->open[w->depth] = place;
    w->depth++;
}

static void leave(pal_markdown_kind kind, void *user)
{
    writer *w = user;
    size_t place = --w->depth < OPEN_MAX ? w->open[w->depth] : ENTITIES_MAX;
    size_t end = w->text.len;

    if (kind == PAL_MARKDOWN_LIST)
        w->lists--;
    if (place == ENTITIES_MAX)
        return;
    while (end > w->entities[place].from && w->text.data[end - 1] == '\n')
        end--; /* an entity must not end with white space */
    w->entities[place].len = end - w->entities[place].from;
}

static void put(pal_str text, void *user)
{
    pal_buf_append_str(&((writer *)user)->text, text);
}

static void put_entity(pal_json_writer *json, pal_str text, const entity *e)
{
    pal_json_begin_object(json);
    pal_put_text(json, "type", e->type);
    pal_put_count(json, "offset", pal_channel_units(pal_str_make(text.data, e->from)));
    pal_put_count(json, "length", pal_channel_units(pal_str_make(text.data + e->from, e->len)));
    if (strcmp(e->type, "text_link") == 0)
        pal_put_str(json, "url", e->text);
    else if (strcmp(e->type, "pre") == 0 && e->text.len > 0)
        pal_put_str(json, "language", e->text);
    pal_json_end_object(json);
}

void pal_telegram_put_text(
        pal_json_writer *json, pal_str markdown, bool is_plain, pal_arena *arena)
{
    writer w = {.arena = arena};
    pal_markdown_sink sink = {enter, leave, put, &w};
    pal_str text = markdown;

    pal_buf_init(&w.text, 4 * PAL_CHANNEL_MARKDOWN_BYTES_MAX);
    if (!is_plain && pal_channel_markdown(markdown, arena, &sink, NULL) == PAL_OK &&
            w.text.failure == PAL_OK && w.text.len > 0) {
        text = pal_buf_str(&w.text);
        while (text.len > 0 && text.data[text.len - 1] == '\n')
            text.len--;
    } else {
        w.entities_len = 0;
    }
    pal_put_str(json, "text", text);
    if (w.entities_len > 0) {
        pal_json_name(json, "entities");
        pal_json_begin_array(json);
        for (size_t i = 0; i < w.entities_len; i++)
            if (w.entities[i].len > 0 && w.entities[i].from + w.entities[i].len <= text.len)
                put_entity(json, text, &w.entities[i]);
        pal_json_end_array(json);
    }
    pal_buf_done(&w.text);
}
