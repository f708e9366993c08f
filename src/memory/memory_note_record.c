/* memory_note_record.c - notes as records of the store, on every backend.
 *
 * A note is one record of the kind "note". Its name is its id, which begins with a hash of the
 * circle, so the notes of a circle follow one another. The record belongs to the session of the
 * note's sources. Therefore the commit that erases the session erases the note too, and a crash
 * cannot leave a note without its sources. A note never contains the text of another one. */
#include "memory/memory_note.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/text.h"
#include "dialect/dialect_member.h"

enum {
    PREFIX_BYTES = 8, /* of the hash of a circle */
    BODY = 1,         /* form of the record's body */
    SHOWN = 2,        /* form for programs; it contains BODY */
    BODY_BYTES_MAX = 1 << 20,
};

/* ---- Names ---- */

#define NAMES(type, list, words)                                                                   \
    static const pal_member_names type = {list, sizeof list / sizeof *list, words}

static const char *const kinds[] = {
        "none", "fact", "preference", "instruction", "event", "context"};
static const char *const states[] = {"none", "active", "pending", "superseded", "retracted"};
static const char *const makers[] = {"none", "person", "tool", "admin", "extracted"};
NAMES(kind_names, kinds, "one of fact, preference, instruction, event, context");
NAMES(state_names, states, "one of active, pending, superseded, retracted");
NAMES(maker_names, makers, "one of person, tool, admin, extracted");

static const char *name_of(const pal_member_names *names, unsigned value)
{
    return names->names[value < names->names_len ? value : 0];
}

static unsigned value_of(const pal_member_names *names, pal_str name)
{
    for (unsigned i = 1; i < names->names_len; i++)
        if (pal_str_is(name, names->names[i]))
            return i;
    return 0;
}

const char *pal_note_kind_name(pal_note_kind kind)
{
    return name_of(&kind_names, kind);
}

pal_note_kind pal_note_kind_from_name(pal_str name)
{
    return (pal_note_kind)value_of(&kind_names, name);
}

const char *pal_note_state_name(pal_note_state state)
{
    return name_of(&state_names, state);
}

pal_note_state pal_note_state_from_name(pal_str name)
{
    return (pal_note_state)value_of(&state_names, name);
}

const char *pal_note_by_name(pal_note_by by)
{
    return name_of(&maker_names, by);
}

/* ---- Tables ---- */

#define SOURCE(name, type, field)                                                                  \
    {name, PAL_MEMBER_##type, BODY | SHOWN, .offset = offsetof(pal_note_source, field)}
static const pal_member source_members[] = {
        SOURCE("message_id", ID, message),
        SOURCE("seq", U64, seq),
        SOURCE("said_at", TIME, said_at),
        SOURCE("quote", STRING, quote),
};
static const pal_member_table source_table = {
        source_members, sizeof source_members / sizeof *source_members, NULL, NULL};
static const pal_member_list source_list = {
        &source_table, sizeof(pal_note_source), offsetof(pal_note, sources_len)};

#define CHANGE(name, type, field, names)                                                           \
    {name, PAL_MEMBER_##type, BODY | SHOWN, .offset = offsetof(pal_note_change, field), .of = names}
static const pal_member change_members[] = {
        CHANGE("version", U64, version, NULL),
        CHANGE("at", TIME, at, NULL),
        CHANGE("by", NAME, by, &maker_names),
        CHANGE("act", STRING, act, NULL),
        CHANGE("reason", STRING, reason, NULL),
};
static const pal_member_table change_table = {
        change_members, sizeof change_members / sizeof *change_members, NULL, NULL};
static const pal_member_list change_list = {
        &change_table, sizeof(pal_note_change), offsetof(pal_note, changes_len)};

#define NOTE(name, type, forms, field, names)                                                      \
    {name, PAL_MEMBER_##type, forms, .offset = offsetof(pal_note, field), .of = names}
static const pal_member note_members[] = {
        NOTE("id", STRING, SHOWN, id, NULL),
        NOTE("subject", STRING, BODY | SHOWN, subject, NULL),
        NOTE("circle", STRING, BODY | SHOWN, circle, NULL),
        NOTE("kind", NAME, BODY | SHOWN, kind, &kind_names),
        NOTE("state", NAME, BODY | SHOWN, state, &state_names),
        NOTE("by", NAME, BODY | SHOWN, by, &maker_names),
        NOTE("text", STRING, BODY | SHOWN, text, NULL),
        NOTE("pending", STRING, BODY | SHOWN, pending, NULL),
        NOTE("replaces", STRING, BODY | SHOWN, replaces, NULL),
        NOTE("replaced_by", STRING, BODY | SHOWN, replaced_by, NULL),
        NOTE("session_id", ID, SHOWN, session, NULL),
        NOTE("sources", LIST, BODY | SHOWN, sources, &source_list),
        NOTE("changes", LIST, BODY | SHOWN, changes, &change_list),
        NOTE("version", U64, SHOWN, version, NULL),
        NOTE("created_at", TIME, BODY | SHOWN, created_at, NULL),
        NOTE("updated_at", TIME, SHOWN, updated_at, NULL),
        NOTE("expires_at", TIME, SHOWN, expires_at, NULL),
};
static const pal_member_table note_table = {
        note_members, sizeof note_members / sizeof *note_members, NULL, NULL};

/* ---- Reading and writing ---- */

static pal_status write_note(
        const pal_note *note, uint32_t form, pal_arena *arena, pal_str *out_json, pal_error *err)
{
    pal_buf buf;
    pal_json_writer writer;
    pal_status status;

    pal_buf_init(&buf, BODY_BYTES_MAX);
    writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_members_write(&note_table, form, &writer, note);
    pal_json_end_object(&writer);
    status = pal_member_keep(&buf, arena, out_json, err);
    pal_buf_done(&buf);
    return status;
}

pal_status pal_note_to_json(
        const pal_note *note, pal_arena *arena, pal_str *out_json, pal_error *err)
{
    return write_note(note, SHOWN, arena, out_json, err);
}

pal_str pal_note_prefix(pal_str circle, pal_arena *arena)
{
    uint8_t digest[PAL_SHA256_SIZE];
    char text[2 * PREFIX_BYTES + 2];

    if (pal_sha256(circle, digest) != PAL_OK)
        return (pal_str){0};
    pal_hex(digest, PREFIX_BYTES, text);
    text[sizeof(text) - 2] = '-';
    return pal_arena_copy(arena, pal_str_make(text, sizeof(text) - 1));
}

pal_status pal_note_to_record(
        const pal_note *note, pal_arena *arena, pal_record *out_record, pal_error *err)
{
    pal_record record = {.kind = pal_str_of(PAL_NOTE_RECORD),
            .name = note->id,
            .session = note->session,
            .expires_at = note->expires_at};
    pal_status status = write_note(note, BODY, arena, &record.body, err);

    if (status == PAL_OK)
        *out_record = record;
    return status;
}

pal_status pal_note_from_record(
        const pal_record *record, pal_arena *arena, pal_note *out_note, pal_error *err)
{
    pal_note note = {.id = record->name};
    pal_json body;
    pal_status status = pal_json_parse(arena, record->body, NULL, &body, err);

    if (status == PAL_OK)
        status = pal_members_read_stored(&note_table, BODY, body, arena, &note, err);
    if (status != PAL_OK)
        return status;
    note.session = record->session;
    note.version = record->version;
    note.updated_at = record->updated_at;
    note.expires_at = record->expires_at;
    *out_note = note;
    return PAL_OK;
}

pal_status pal_note_log(pal_note *note, const char *act, pal_note_by by, pal_str reason,
        int64_t now_ms, pal_arena *arena, pal_error *err)
{
    size_t len = note->changes_len;
    pal_note_change *changes = pal_arena_array(arena, len + 1, sizeof(*changes));

    if (!changes)
        return pal_no_memory(err);
    if (len > 0)
        memcpy(changes, note->changes, len * sizeof(*changes));
    if (len == PAL_NOTE_CHANGES_MAX) {
        len--;
        memmove(&changes[1], &changes[2], (len - 1) * sizeof(*changes));
    }
    changes[len] = (pal_note_change){.version = note->version + 1,
            .at = now_ms,
            .by = by,
            .act = pal_str_of(act),
            .reason = reason};
    note->changes = changes;
    note->changes_len = len + 1;
    return PAL_OK;
}

/* ---- Lists ---- */

/* Returns the name after which a list continues if the earlier page ended with `after`. */
static pal_str later(pal_str prefix, pal_str after)
{
    return pal_text_compare(prefix, after) > 0 ? prefix : after;
}

pal_status pal_note_each(pal_store *store, pal_str tenant, pal_str circle, pal_str after,
        pal_arena *arena, pal_note_sink sink, void *user, pal_error *err)
{
    pal_str prefix = circle.len ? pal_note_prefix(circle, arena) : (pal_str){0};
    pal_record_query query = {.tenant = tenant,
            .kind = pal_str_of(PAL_NOTE_RECORD),
            .after = later(prefix, after),
            .limit = PAL_RECORD_PAGE_MAX};
    pal_record_page page = {.has_more = true};

    if (circle.len && prefix.len == 0)
        return pal_no_memory(err);
    while (page.has_more) {
        pal_status status = pal_store_record_list(store, &query, arena, &page, err);

        for (size_t i = 0; status == PAL_OK && i < page.len; i++) {
            pal_note note;

            if (!pal_text_begins_str(page.items[i].name, prefix))
                return PAL_OK;
            status = pal_note_from_record(&page.items[i], arena, &note, err);
            if (status == PAL_OK && (circle.len == 0 || pal_str_equal(note.circle, circle)) &&
                    !sink(&note, user))
                return PAL_OK;
        }
        if (status != PAL_OK)
            return status;
        if (page.len > 0)
            query.after = page.items[page.len - 1].name;
    }
    return PAL_OK;
}
