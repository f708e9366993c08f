/* api_note.c - notes: add, list, change and erase them. A key that is not an admin's is shown only
 * the notes of the circle "tenant", and those that may be shown in a session that it names. */
#include "base/json/json_put.h"
#include "base/text.h"
#include "palaver/note.h"
#include "server/api/api_object.h"
#include "server/api/native/api_native.h"
#include "server/server_call.h"

static bool is_admin(const pal_call *call)
{
    return call->caller.role == PAL_KEY_ADMIN;
}

/* ---- Responses ---- */

static pal_status put_note(pal_call *call, const pal_note *note, pal_error *err)
{
    pal_str json;
    pal_status status = pal_note_to_json(note, call->arena, &json, err);
    if (status == PAL_OK)
        pal_json_put_raw(pal_call_writer(call), json);
    return status;
}

static pal_status send_note(pal_call *call, const pal_note *note, pal_error *err)
{
    pal_status status = put_note(call, note, err);
    if (status == PAL_OK)
        pal_call_send(call, 200);
    return status;
}

static pal_status send_page(pal_call *call, const pal_note_page *page, bool is_search,
        pal_error *err)
{
    pal_json_writer *writer = pal_call_writer(call);
    pal_status status = PAL_OK;
    bool has_cursor = page->has_more && !is_search;
    pal_json_begin_object(writer);
    pal_json_name(writer, "notes");
    pal_json_begin_array(writer);
    for (size_t i = 0; status == PAL_OK && i < page->len; i++)
        status = put_note(call, &page->items[i], err);
    if (status != PAL_OK)
        return status;
    pal_json_end_array(writer);
    pal_put_flag(writer, "has_more", page->has_more);
    pal_put_str_or_null(
            writer, "cursor", has_cursor ? page->items[page->len - 1].id : (pal_str){0});
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

/* ---- Lists ---- */

static const pal_api_object session_notes_query = {
        .members = PAL_API_MEMBERS(
                {"q", PAL_API_TEXT, "words, of which some must occur; the best notes come first",
                        .offset = offsetof(pal_note_query, text), .max = PAL_SEARCH_TEXT_LEN_MAX},
                {"subject", PAL_API_TEXT, "only notes about this subject",
                        .offset = offsetof(pal_note_query, subject),
                        .max = PAL_NOTE_SUBJECT_LEN_MAX},
                {"kind", PAL_API_WORD, "only notes of this kind",
                        .offset = offsetof(pal_note_query, kind), .min = PAL_NOTE_FACT,
                        .words = "fact preference instruction event context"},
                {"limit", PAL_API_COUNT32, "maximum number of notes",
                        .offset = offsetof(pal_note_query, limit), .min = 1,
                        .max = PAL_NOTE_PAGE_MAX},
                {"cursor", PAL_API_TEXT, "cursor of the previous page",
                        .offset = offsetof(pal_note_query, after)})};

static const pal_api_object notes_query = {
        .members = PAL_API_MEMBERS(
                {.type = PAL_API_INCLUDE, .of = &session_notes_query},
                {"state", PAL_API_WORD, "only notes in this state",
                        .offset = offsetof(pal_note_query, state), .min = PAL_NOTE_ACTIVE,
                        .words = "active pending superseded retracted"})};

static pal_status send_list(pal_call *call, const pal_note_query *query, pal_error *err)
{
    pal_note_page page;
    pal_status status = pal_note_list(call->server->store, query, call->arena, &page, err);
    return status == PAL_OK ? send_page(call, &page, query->text.len > 0, err) : status;
}

static pal_status list_notes(pal_call *call, pal_error *err)
{
    pal_str everybody = pal_str_of(PAL_NOTE_TENANT);
    pal_note_query query = {.tenant = call->caller.tenant,
            .circles = &everybody,
            .circles_len = is_admin(call) ? 0 : 1};
    pal_status status = pal_api_query_read(call, &notes_query, &query, err);
    return status == PAL_OK ? send_list(call, &query, err) : status;
}

static pal_status list_session_notes(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_note_place place;
    pal_note_query query = {.tenant = call->caller.tenant, .state = PAL_NOTE_ACTIVE};
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status == PAL_OK)
        status = pal_api_query_read(call, &session_notes_query, &query, err);
    if (status == PAL_OK)
        status = pal_note_place_of(&session, call->arena, &place, err);
    if (status != PAL_OK)
        return status;
    query.circles = place.circles;
    query.circles_len = place.circles_len;
    return send_list(call, &query, err);
}

/* ---- One note ---- */

/* Finds the note that the path names, unless the caller may not see it. */
static pal_status find_note(pal_call *call, pal_note *out_note, pal_error *err)
{
    pal_str id = call->params[0];
    pal_status status = pal_note_find(
            call->server->store, call->caller.tenant, id, call->arena, out_note, err);
    if (status == PAL_OK && !is_admin(call) && !pal_str_is(out_note->circle, PAL_NOTE_TENANT))
        return pal_error_set(
                err, PAL_NOT_FOUND, "note '%.*s' does not exist", PAL_EXCERPT(id, 80));
    return status;
}

static pal_status get_note(pal_call *call, pal_error *err)
{
    pal_note note;
    pal_status status = find_note(call, &note, err);
    return status == PAL_OK ? send_note(call, &note, err) : status;
}

typedef struct add_request {
    pal_note_request note;
    pal_str session; /* its id, key or alias */
} add_request;

static const pal_api_object note_source_request = {"NoteSourceRequest",
        .members = PAL_API_MEMBERS(
                {"session", PAL_API_TEXT, "id, key or alias of the session",
                        .offset = offsetof(add_request, session), .is_required = true, .min = 1},
                {"seq", PAL_API_COUNT, "the user message that the note rests on",
                        .offset = offsetof(add_request, note.seq), .min = 1, .is_required = true},
                {"quote", PAL_API_TEXT, "words of that message; the text itself if it is absent",
                        .offset = offsetof(add_request, note.quote),
                        .max = PAL_NOTE_QUOTE_LEN_MAX})};

static const pal_api_object note_request = {"NoteRequest",
        .members = PAL_API_MEMBERS(
                {"text", PAL_API_TEXT, "one sentence", .offset = offsetof(add_request, note.text),
                        .max = PAL_NOTE_TEXT_LEN_MAX, .min = 1, .is_required = true},
                {"kind", PAL_API_WORD, "the kind of the note",
                        .offset = offsetof(add_request, note.kind), .min = PAL_NOTE_FACT,
                        .words = "fact preference instruction event context", .is_required = true},
                {"source", PAL_API_NESTED, "the message that the note rests on",
                        .of = &note_source_request},
                {"subject", PAL_API_TEXT, "whom the note is about; the sender if it is absent",
                        .offset = offsetof(add_request, note.subject),
                        .max = PAL_NOTE_SUBJECT_LEN_MAX},
                {"circle", PAL_API_TEXT, "who may be shown the note; only for admins",
                        .offset = offsetof(add_request, note.circle),
                        .max = PAL_NOTE_SUBJECT_LEN_MAX},
                {"replaces", PAL_API_TEXT, "id of a note that this one supersedes",
                        .offset = offsetof(add_request, note.replaces),
                        .max = PAL_RECORD_NAME_LEN_MAX},
                {"expires_at", PAL_API_TIME, "when the note expires",
                        .offset = offsetof(add_request, note.expires_at)})};

static pal_status add_note(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_note_added added;
    add_request request = {.note.by = is_admin(call) ? PAL_NOTE_BY_ADMIN : PAL_NOTE_BY_TOOL};
    pal_status status = pal_api_object_read(call, call->body, &note_request, &request, err);
    if (status == PAL_OK && request.session.len > 0)
        status = pal_call_session(call, request.session, &session, err);
    if (status != PAL_OK)
        return status;
    if (request.session.len > 0)
        request.note.session = session.id;
    status = pal_note_add(
            call->server->store, call->caller.tenant, &request.note, call->arena, &added, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_json_name(writer, "note");
    status = put_note(call, &added.note, err);
    if (status != PAL_OK)
        return status;
    pal_put_flag(writer, "support", added.is_support);
    pal_put_str_or_null(writer, "rule", pal_str_of(added.rule));
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

typedef struct change_request {
    pal_str reason;
} change_request;

static const pal_api_object change_body = {"NoteChangeRequest",
        .members = PAL_API_MEMBERS(
                {"reason", PAL_API_TEXT, "why, for the history of the note",
                .offset = offsetof(change_request, reason), .max = PAL_NOTE_REASON_LEN_MAX})};

static pal_status change_note(pal_call *call, pal_note_act act, pal_error *err)
{
    pal_note note;
    change_request request = {.reason = {0}};
    pal_status status = find_note(call, &note, err);
    if (status == PAL_OK)
        status = pal_api_object_read(call, call->body, &change_body, &request, err);
    if (status == PAL_OK)
        status = pal_note_change_state(call->server->store, call->caller.tenant, note.id, act,
                is_admin(call) ? PAL_NOTE_BY_ADMIN : PAL_NOTE_BY_TOOL, request.reason, call->arena,
                &note, err);
    return status == PAL_OK ? send_note(call, &note, err) : status;
}

static pal_status retract_note(pal_call *call, pal_error *err)
{
    return change_note(call, PAL_NOTE_RETRACT, err);
}

static pal_status restore_note(pal_call *call, pal_error *err)
{
    return change_note(call, PAL_NOTE_RESTORE, err);
}

static pal_status confirm_note(pal_call *call, pal_error *err)
{
    return change_note(call, PAL_NOTE_CONFIRM, err);
}

/* ---- Erasing ---- */

static pal_status send_erased(pal_call *call, uint64_t erased)
{
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_put_count(writer, "erased", erased);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

static pal_status erase_note(pal_call *call, pal_error *err)
{
    pal_status status =
            pal_note_erase(call->server->store, call->caller.tenant, call->params[0], err);
    return status == PAL_OK ? send_erased(call, 1) : status;
}

static const pal_api_object erase_query = {
        .members = PAL_API_MEMBERS(
                {"subject", PAL_API_TEXT, "the subject whose notes are erased",
                .offset = offsetof(pal_note_query, subject), .max = PAL_NOTE_SUBJECT_LEN_MAX,
                .min = 1, .is_required = true})};

static pal_status erase_subject(pal_call *call, pal_error *err)
{
    pal_note_query query = {.limit = 0};
    uint64_t erased;
    pal_status status = pal_api_query_read(call, &erase_query, &query, err);
    if (status == PAL_OK)
        status = pal_note_erase_subject(
                call->server->store, call->caller.tenant, query.subject, &erased, err);
    return status == PAL_OK ? send_erased(call, erased) : status;
}

/* ---- Routes ---- */

static const pal_api_object source_body = {"NoteSource",
        .members = PAL_API_MEMBERS(
                {"message_id", PAL_API_TEXT, .is_required = true},
                {"seq", PAL_API_COUNT, .is_required = true},
                {"said_at", PAL_API_TIME, .is_required = true},
                {"quote", PAL_API_TEXT, .is_required = true})};
static const pal_api_object change_of_note = {"NoteChange",
        .members = PAL_API_MEMBERS(
                {"version", PAL_API_COUNT, .is_required = true},
                {"at", PAL_API_TIME, .is_required = true},
                {"by", PAL_API_WORD, .words = "person tool admin extracted", .is_required = true},
                {"act", PAL_API_TEXT, .is_required = true},
                {"reason", .type = PAL_API_TEXT})};
static const pal_api_object note_body = {"Note",
        .members = PAL_API_MEMBERS(
                {"id", PAL_API_TEXT, .is_required = true},
                {"subject", PAL_API_TEXT, .is_required = true},
                {"circle", PAL_API_TEXT, .is_required = true},
                {"kind", PAL_API_WORD, .words = "fact preference instruction event context",
                        .is_required = true},
                {"state", PAL_API_WORD, .words = "active pending superseded retracted",
                        .is_required = true},
                {"by", PAL_API_WORD, .words = "person tool admin extracted", .is_required = true},
                {"text", PAL_API_TEXT, .is_required = true},
                {"pending", PAL_API_TEXT, .help = "the rule that made it pending"},
                {"replaces", PAL_API_TEXT, .help = "id of the note that it superseded"},
                {"replaced_by", PAL_API_TEXT, .help = "id of the note that superseded it"},
                {"session_id", PAL_API_TEXT, .help = "the session of its sources"},
                {"sources", PAL_API_LIST, .of = &source_body},
                {"changes", PAL_API_LIST, .of = &change_of_note},
                {"version", PAL_API_COUNT, .is_required = true},
                {"created_at", PAL_API_TIME, .is_required = true},
                {"updated_at", PAL_API_TIME, .is_required = true},
                {"expires_at", .type = PAL_API_TIME})};
static const pal_api_object added_body = {"NoteAdded",
        .members = PAL_API_MEMBERS(
                {"note", PAL_API_NESTED, .of = &note_body, .is_required = true},
                {"support", PAL_API_FLAG, "such a note existed; it has one more source now",
                        .is_required = true},
                {"rule", PAL_API_TEXT, "the rule that decided", .is_required = true,
                        .is_nullable = true})};
static const pal_api_object page_body = {"NotePage",
        .members = PAL_API_MEMBERS(
                {"notes", PAL_API_LIST, .of = &note_body, .is_required = true},
                {"has_more", PAL_API_FLAG, .is_required = true},
                {"cursor", PAL_API_TEXT, .is_required = true, .is_nullable = true})};
static const pal_api_object erased_body = {"NotesErased",
        .members = PAL_API_MEMBERS({"erased", PAL_API_COUNT, .is_required = true})};

const pal_api_route pal_note_routes[] = {
        {"GET", "/api/v1/notes", PAL_KEY_READ, PAL_API_WORKER, list_notes,
                {"listNotes", "list or search the notes that the key may see", &notes_query, NULL,
                        &page_body, 200}},
        {"POST", "/api/v1/notes", PAL_KEY_WRITE, PAL_API_JSON | PAL_API_WORKER, add_note,
                {"addNote", "add a note, if the rules accept it", NULL, &note_request, &added_body,
                        200}},
        {"DELETE", "/api/v1/notes", PAL_KEY_ADMIN, PAL_API_WORKER, erase_subject,
                {"eraseNotes", "erase all notes about a subject", &erase_query, NULL, &erased_body,
                        200}},
        {"GET", "/api/v1/notes/{note}", PAL_KEY_READ, PAL_API_WORKER, get_note,
                {"getNote", "read a note with its sources and changes", NULL, NULL, &note_body,
                        200}},
        {"DELETE", "/api/v1/notes/{note}", PAL_KEY_ADMIN, PAL_API_WORKER, erase_note,
                {"eraseNote", "erase a note, its quotes and its history", NULL, NULL, &erased_body,
                        200}},
        {"POST", "/api/v1/notes/{note}/retract", PAL_KEY_WRITE, PAL_API_JSON | PAL_API_WORKER,
                retract_note,
                {"retractNote", "retract a note; undo with 'restore'", NULL, &change_body,
                        &note_body, 200}},
        {"POST", "/api/v1/notes/{note}/restore", PAL_KEY_WRITE, PAL_API_JSON | PAL_API_WORKER,
                restore_note,
                {"restoreNote", "make a superseded or retracted note active again", NULL,
                        &change_body, &note_body, 200}},
        {"POST", "/api/v1/notes/{note}/confirm", PAL_KEY_WRITE, PAL_API_JSON | PAL_API_WORKER,
                confirm_note,
                {"confirmNote", "make a pending note active", NULL, &change_body, &note_body, 200}},
        {"GET", "/api/v1/sessions/{id}/notes", PAL_KEY_READ, PAL_API_WORKER, list_session_notes,
                {"listSessionNotes", "list or search the notes that may be shown in a session",
                        &session_notes_query, NULL, &page_body, 200}},
        {0},
};
