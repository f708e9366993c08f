/* mcp_note.c - the tools for notes. A client is shown the notes of everybody, and those that may be
 * shown in a conversation that it names. pal_note_place_of() decides which ones these are. */
#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/text.h"
#include "mcp/mcp_internal.h"
#include "palaver/note.h"

static void put_note(pal_json_writer *writer, const pal_note *note)
{
    pal_json_begin_object(writer);
    pal_put_str(writer, "id", note->id);
    pal_put_str(writer, "text", note->text);
    pal_put_text(writer, "kind", pal_note_kind_name(note->kind));
    pal_put_text(writer, "state", pal_note_state_name(note->state));
    pal_put_str_if(writer, "pending", note->pending);
    pal_put_str(writer, "subject", note->subject);
    pal_put_str(writer, "circle", note->circle);
    pal_put_time(writer, "created_at", note->created_at);
    pal_json_end_object(writer);
}

/* Sets the circles of the conversation that the call names; without one, only that of everybody. */
static pal_status read_circles(pal_mcp_call *call, pal_note_place *out_place, pal_error *err)
{
    pal_session session;
    pal_str *everybody = pal_arena_alloc(call->arena, sizeof *everybody);
    if (!everybody)
        return pal_arena_checked(call->arena, err);
    *everybody = pal_str_of(PAL_NOTE_TENANT);
    *out_place = (pal_note_place){.circles = everybody, .circles_len = 1};
    if (pal_mcp_call_text(call, "conversation").len == 0)
        return PAL_OK;
    pal_status status = pal_mcp_call_session(call, &session, err);
    return status == PAL_OK ? pal_note_place_of(&session, call->arena, out_place, err) : status;
}

pal_status pal_mcp_search_notes(pal_mcp_call *call, pal_error *err)
{
    pal_note_place place;
    pal_note_page page;
    pal_note_query query = {
            .tenant = call->peer->tenant,
            .state = PAL_NOTE_ACTIVE,
            .kind = pal_note_kind_from_name(pal_mcp_call_text(call, "kind")),
            .text = pal_mcp_call_text(call, "query"),
            .limit = (uint32_t)pal_mcp_call_number(call, "limit"),
    };
    pal_status status = read_circles(call, &place, err);
    if (status != PAL_OK)
        return status;
    query.circles = place.circles;
    query.circles_len = place.circles_len;
    status = pal_note_list(call->host->options.store, &query, call->arena, &page, err);
    if (status != PAL_OK)
        return status;
    pal_json_begin_object(call->writer);
    pal_json_name(call->writer, "notes");
    pal_json_begin_array(call->writer);
    for (size_t i = 0; i < page.len; i++)
        put_note(call->writer, &page.items[i]);
    pal_json_end_array(call->writer);
    pal_put_flag(call->writer, "has_more", page.has_more);
    pal_json_end_object(call->writer);
    return PAL_OK;
}

pal_status pal_mcp_add_note(pal_mcp_call *call, pal_error *err)
{
    pal_session session;
    pal_note_added added;
    pal_str kind = pal_mcp_call_text(call, "kind");
    pal_note_request request = {
            .text = pal_mcp_call_text(call, "text"),
            .kind = kind.len ? pal_note_kind_from_name(kind) : PAL_NOTE_FACT,
            .by = PAL_NOTE_BY_TOOL,
            .seq = pal_mcp_call_number(call, "seq"),
            .quote = pal_mcp_call_text(call, "quote"),
            .replaces = pal_mcp_call_text(call, "replaces"),
    };
    pal_status status = pal_mcp_call_session(call, &session, err);
    if (status != PAL_OK)
        return status;
    request.session = session.id;
    status = pal_note_add(call->host->options.store, call->peer->tenant, &request, call->arena,
            &added, err);
    if (status != PAL_OK)
        return status;
    pal_json_begin_object(call->writer);
    pal_json_name(call->writer, "note");
    put_note(call->writer, &added.note);
    pal_put_flag(call->writer, "support", added.is_support);
    pal_json_end_object(call->writer);
    return PAL_OK;
}

pal_status pal_mcp_retract_note(pal_mcp_call *call, pal_error *err)
{
    pal_note_place place;
    pal_note note;
    pal_str id = pal_mcp_call_text(call, "note");
    bool is_shown = false;
    pal_status status = read_circles(call, &place, err);
    if (status == PAL_OK)
        status = pal_note_find(
                call->host->options.store, call->peer->tenant, id, call->arena, &note, err);
    for (size_t i = 0; status == PAL_OK && i < place.circles_len; i++)
        is_shown |= pal_str_equal(place.circles[i], note.circle);
    if (status == PAL_OK && !is_shown)
        status = pal_error_set(
                err, PAL_NOT_FOUND, "note '%.*s' does not exist", PAL_EXCERPT(id, 80));
    if (status == PAL_OK)
        status = pal_note_change_state(call->host->options.store, call->peer->tenant, id,
                PAL_NOTE_RETRACT, PAL_NOTE_BY_TOOL, pal_mcp_call_text(call, "reason"), call->arena,
                &note, err);
    if (status != PAL_OK)
        return status;
    pal_json_begin_object(call->writer);
    pal_json_name(call->writer, "note");
    put_note(call->writer, &note);
    pal_json_end_object(call->writer);
    return PAL_OK;
}
