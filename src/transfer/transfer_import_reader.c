/* transfer_import_reader.c - implements transfer_import_reader.h. */
#include "transfer/transfer_import_reader.h"

#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/json/json.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "dialect/dialect_bead.h"

pal_status pal_import_reader_open(pal_import_reader *reader, pal_transcript_kind kind)
{
    reader->sessions = 0;
    reader->is_renamed = false;
    reader->transcript = pal_transcript_open(kind);
    return reader->transcript ? PAL_OK : pal_no_memory(reader->err);
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

/* ---- Items of a line ---- */

/* Finds the session that messages from the Matrix room are routed to. */
static pal_status route_room(pal_import_reader *reader, pal_str room, pal_session *session)
{
    pal_arena *arena = pal_import_arena(reader->import);
    pal_route_context context = {.kind = PAL_ROUTE_MATRIX_ROOM, .matrix_room = room};
    pal_route_settings *defaults = NULL;
    pal_route route;
    pal_status status = PAL_OK;
    if (!reader->routes)
        status = pal_route_settings_new(NULL, &defaults, reader->err);
    if (status != PAL_OK)
        return status;
    status = pal_route_decide(
            reader->routes ? reader->routes : defaults, &context, arena, &route, reader->err);
    if (status != PAL_OK)
        goto out;
    session->key = pal_arena_copy(arena, route.key);
    session->agent = pal_arena_copy(arena, route.agent);
    session->scope = pal_arena_copy(arena, route.scope);
    session->is_routed = true;
    session->alias_apart = pal_arena_copy(arena, route.main_alias);
    session->aliases_len = route.aliases_len;
    session->aliases = pal_arena_array(arena, route.aliases_len, sizeof(pal_str));
    for (size_t i = 0; session->aliases && i < session->aliases_len; i++)
        session->aliases[i] = pal_arena_copy(arena, route.aliases[i]);
    status = pal_arena_checked(arena, reader->err);
out:
    pal_route_settings_free(defaults);
    return status;
}

/* Records the service's conversation, which the room's next message continues
 * (turn_conversation.c). */
static pal_status keep_conversation(pal_import_reader *reader, const pal_transcript_facts *facts)
{
    char id[PAL_ID_TEXT_SIZE];
    pal_buf body;
    pal_buf_init(&body, PAL_JSON_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&body);
    pal_json_begin_object(&writer);
    pal_put_str(&writer, "conversation", facts->conversation);
    pal_put_count(&writer, "tokens", facts->conversation_tokens);
    pal_put_flag(&writer, "imported", true);
    pal_json_end_object(&writer);
    pal_id_to_text(pal_import_session(reader->import), id);
    pal_status status = body.failure
            ? pal_no_memory(reader->err)
            : pal_import_record(reader->import, pal_str_of(PAL_IMPORT_CONVERSATION_RECORD),
                      pal_str_of(id), pal_buf_str(&body), true);
    pal_buf_done(&body);
    return status;
}

static pal_status keep_bead(pal_import_reader *reader, pal_str bead)
{
    char name[PAL_RECORD_NAME_LEN_MAX + 1], body[PAL_BEAD_BODY_SIZE];
    if (!pal_bead_record_name(bead, pal_import_session(reader->import), name))
        return PAL_OK;
    pal_bead_record_body(reader->untimed_at, body);
    return pal_import_record(reader->import, pal_str_of(PAL_BEAD_RECORD), pal_str_of(name),
            pal_str_of(body), reader->untimed_at != 0);
}

/* Adds the records that lead from names that clients use to the session. */
static pal_status keep_records(pal_import_reader *reader)
{
    const pal_transcript_facts *facts = reader->facts;
    pal_status status = PAL_OK;
    if (!facts || pal_id_is_none(pal_import_session(reader->import)))
        return PAL_OK;
    if (facts->bead.len)
        status = keep_bead(reader, facts->bead);
    if (status == PAL_OK && facts->conversation.len)
        status = keep_conversation(reader, facts);
    return status;
}

/* `line` is the line of the session. */
static pal_status begin_session(
        pal_import_reader *reader, const pal_transcript_facts *facts, uint64_t line)
{
    pal_import_begun begun = {.number = ++reader->sessions};
    pal_status status = PAL_OK;
    reader->facts = facts;
    reader->untimed_at = 0;
    if (facts)
        begun.session = facts->session;
    if (facts && facts->bead.len && !begun.session.created_at && !begun.session.updated_at)
        begun.session.created_at = reader->untimed_at = pal_clock_now_ms();
    if (facts && facts->room.len)
        status = route_room(reader, facts->room, &begun.session);
    if (status == PAL_INVALID || status == PAL_LIMIT) {
        reader->problem(line, reader->err->message, reader->user);
        reader->sessions--;
        return PAL_OK;
    }
    if (status != PAL_OK)
        return status;
    begun.is_native = pal_import_reader_kind(reader) == PAL_TRANSCRIPT_NATIVE &&
            !pal_id_is_none(begun.session.id);
    status = reader->begins(&begun, reader->user);
    reader->is_renamed = begun.is_renamed;
    if (status != PAL_OK)
        return status;
    if (facts && facts->parent_key.len)
        status = pal_import_find_parent(
                reader->import, facts->parent_key, facts->parent_message, &begun.session);
    if (status == PAL_OK)
        status = pal_import_begin(reader->import, &begun.session, begun.is_native);
    if (status == PAL_OK && facts && facts->is_branch)
        pal_import_expect_branch(reader->import);
    return status == PAL_OK ? keep_records(reader) : status;
}

/* In a renamed session, the id of a native message becomes its client id, because the id may belong
 * to another session. */
static pal_status take_message(pal_import_reader *reader, const pal_message *message, uint64_t line)
{
    pal_message copy = *message;
    char id[PAL_ID_TEXT_SIZE];
    pal_status status = reader->sessions ? PAL_OK : begin_session(reader, NULL, line);
    pal_id session = pal_import_session(reader->import);
    if (reader->is_renamed && !pal_id_is_none(copy.id)) {
        pal_id_to_text(copy.id, id);
        if (!copy.client_id.len)
            copy.client_id = pal_arena_copy(pal_import_arena(reader->import), pal_str_of(id));
        copy.id = (pal_id){{0}};
    }
    if (status == PAL_OK)
        status = pal_import_message(reader->import, &copy, line);
    /* The message may show that the session in the store is a different conversation. */
    if (status == PAL_OK && !pal_id_equal(session, pal_import_session(reader->import)))
        status = keep_records(reader);
    return status;
}

static pal_status take_items(pal_import_reader *reader, const pal_transcript_items *items)
{
    pal_status status = PAL_OK;
    reader->facts = NULL; /* the facts of the last line are gone */
    for (size_t i = 0; status == PAL_OK && i < items->len; i++) {
        const pal_transcript_item *item = &items->items[i];
        switch (item->kind) {
        case PAL_ENTRY_SESSION:
            status = begin_session(reader, item->u.facts, item->line);
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
    if (status != PAL_OK)
        return status;
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
    if (status != PAL_OK)
        return status;
    const pal_transcript_facts *facts = pal_transcript_session(reader->transcript);
    if (facts && reader->sessions)
        status = pal_import_title(reader->import, facts->session.title);
    if (status != PAL_OK)
        return status;
    status = pal_import_end(reader->import);
    return status == PAL_OK ? pal_import_settle(reader->import, 0) : status;
}

/* ---- Complete texts ---- */

pal_status pal_import_reader_value(pal_import_reader *reader, pal_str text, bool *out_done)
{
    pal_json value, element;
    pal_error why;
    pal_status status = PAL_OK;
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return pal_no_memory(reader->err);
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

/* Returns the next line without its line end. *text is then the rest. */
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
