/* server_import_reader.c - see server_import_reader.h. */
#include "server/server_import_reader.h"

#include <string.h>
#include "base/json.h"

pal_status pal_import_reader_open(pal_import_reader *reader, pal_transcript_kind kind)
{
    reader->sessions = 0;
    reader->is_renamed = false;
    reader->transcript = pal_transcript_open(kind);
    return reader->transcript ? PAL_OK : pal_error_set(reader->err, PAL_NO_MEMORY, "out of memory");
}

void pal_import_reader_close(pal_import_reader *reader)
{
    pal_transcript_close(reader->transcript);
    reader->transcript = NULL;
}

pal_transcript_kind pal_import_reader_kind(const pal_import_reader *reader)
{
    return pal_transcript_kind_of(reader->transcript);
}

/* ---- What a line holds ---- */

static pal_status begin_session(pal_import_reader *reader, const pal_transcript_facts *facts)
{
    pal_import_begun begun = {.number = ++reader->sessions};
    if (facts)
        begun.session = facts->session;
    begun.is_native = pal_import_reader_kind(reader) == PAL_TRANSCRIPT_NATIVE &&
            !pal_id_is_none(begun.session.id);
    pal_status status = reader->begins(&begun, reader->user);
    reader->is_renamed = begun.is_renamed;
    if (status != PAL_OK)
        return status;
    return pal_import_begin(reader->import, &begun.session, begun.is_native);
}

/* In a session with another name a native message is known by a client id: its id may be another
 * session's. */
static pal_status take_message(pal_import_reader *reader, const pal_message *message, uint64_t line)
{
    pal_message copy = *message;
    char id[PAL_ID_TEXT_SIZE];
    pal_status status = reader->sessions ? PAL_OK : begin_session(reader, NULL);
    if (reader->is_renamed && !pal_id_is_none(copy.id)) {
        pal_id_to_text(copy.id, id);
        if (!copy.client_id.len)
            copy.client_id = pal_arena_copy(pal_import_arena(reader->import), pal_str_of(id));
        copy.id = (pal_id){{0}};
    }
    return status == PAL_OK ? pal_import_message(reader->import, &copy, line) : status;
}

static pal_status take_items(pal_import_reader *reader, const pal_transcript_items *items)
{
    pal_status status = PAL_OK;
    for (size_t i = 0; status == PAL_OK && i < items->len; i++) {
        const pal_transcript_item *item = &items->items[i];
        switch (item->kind) {
        case PAL_ENTRY_SESSION:
            status = begin_session(reader, item->u.facts);
            break;
        case PAL_ENTRY_MESSAGE:
            status = take_message(reader, &item->u.message, item->line);
            break;
        case PAL_ENTRY_MARK:
            status = pal_import_mark(reader->import, &item->u.mark, item->line);
            break;
        case PAL_ENTRY_WARNING:
            reader->problem(item->line, item->u.warning, reader->user);
            break;
        case PAL_ENTRY_NONE:
            break;
        }
    }
    return status;
}

pal_status pal_import_reader_line(pal_import_reader *reader, pal_str line)
{
    pal_transcript_items items = {0};
    pal_status status = pal_transcript_feed(
            reader->transcript, line, pal_import_arena(reader->import), &items, reader->err);
    if (status == PAL_OK)
        status = take_items(reader, &items);
    return status == PAL_OK ? pal_import_settle(reader->import, line.len) : status;
}

pal_status pal_import_reader_finish(pal_import_reader *reader)
{
    pal_transcript_items items = {0};
    pal_status status = pal_transcript_finish(
            reader->transcript, pal_import_arena(reader->import), &items, reader->err);
    if (status == PAL_OK)
        status = take_items(reader, &items);
    const pal_transcript_facts *facts = pal_transcript_session(reader->transcript);
    if (status == PAL_OK && facts && reader->sessions)
        status = pal_import_title(reader->import, facts->session.title);
    return status == PAL_OK ? pal_import_settle(reader->import, 0) : status;
}

/* ---- Whole texts ---- */

pal_status pal_import_reader_value(pal_import_reader *reader, pal_str text, bool *out_done)
{
    pal_json value, element;
    pal_error why;
    pal_status status = PAL_OK;
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return pal_error_set(reader->err, PAL_NO_MEMORY, "out of memory");
    *out_done = pal_json_parse(arena, text, NULL, &value, &why) == PAL_OK;
    if (*out_done && pal_json_type_of(value) == PAL_JSON_ARRAY) {
        pal_json_iter iter = pal_json_each(value);
        while (status == PAL_OK && pal_json_next(&iter, NULL, &element))
            status = pal_import_reader_line(reader, pal_json_raw(element));
    } else if (*out_done) {
        status = pal_import_reader_line(reader, text);
    }
    pal_arena_free(arena);
    return status;
}

bool pal_import_starts_value(pal_str line)
{
    size_t at = 0;
    while (at < line.len && strchr(" \t", line.data[at]) && line.data[at])
        at++;
    if (at == line.len || line.data[at] == '[')
        return at < line.len;
    while (line.len > 0 && strchr(" \t,", line.data[line.len - 1]) && line.data[line.len - 1])
        line.len--;
    return line.data[at] == '{' && line.data[line.len - 1] != '}';
}

/* The next line, without its end; what is left in *text. */
static pal_str take_line(pal_str *text)
{
    const char *end = memchr(text->data, '\n', text->len);
    pal_str line = pal_str_make(text->data, end ? (size_t)(end - text->data) : text->len);
    size_t used = line.len + (end != NULL);
    *text = pal_str_make(text->data + used, text->len - used);
    if (line.len && line.data[line.len - 1] == '\r')
        line.len--;
    return line;
}

pal_status pal_import_reader_text(pal_import_reader *reader, pal_str text)
{
    bool done = false;
    pal_str rest = text;
    pal_status status = PAL_OK;
    if (text.len && pal_import_starts_value(take_line(&rest)))
        status = pal_import_reader_value(reader, text, &done);
    for (rest = text; status == PAL_OK && !done && rest.len;)
        status = pal_import_reader_line(reader, take_line(&rest));
    return status;
}
