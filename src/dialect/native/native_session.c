/* native_session.c - sessions and marks in the native JSON format, docs/sessions.md. */
#include "base/buf.h"
#include "base/json/json.h"
#include "base/json/json_put.h"
#include "dialect/dialect_member.h"
#include "dialect/native/native.h"
#include "message/message_check.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define FULL 1u

/* ---- Sessions ---- */

static const pal_member_names states = {pal_session_state_names, PAL_SESSION_STATES,
        "one of active, trash, quarantined, erased"};

static pal_status read_aliases(
        const pal_member *member, pal_json value, pal_arena *arena, void *record, pal_error *err);
static void write_aliases(const pal_member *member, pal_json_writer *writer, const void *record);

static const pal_member session_members[] = {
        {"id", PAL_MEMBER_ID, FULL, .offset = offsetof(pal_session, id)},
        {"state", PAL_MEMBER_NAME, FULL, .offset = offsetof(pal_session, state), .of = &states},
        {"tenant", PAL_MEMBER_STRING, FULL, .offset = offsetof(pal_session, tenant)},
        {"key", PAL_MEMBER_STRING, FULL, .offset = offsetof(pal_session, key)},
        {"aliases", PAL_MEMBER_OTHER, FULL, .offset = offsetof(pal_session, aliases)},
        {"routed", PAL_MEMBER_BOOL, FULL, .offset = offsetof(pal_session, is_routed)},
        {"alias_apart", PAL_MEMBER_STRING, FULL, .offset = offsetof(pal_session, alias_apart)},
        {"title", PAL_MEMBER_STRING, FULL, .offset = offsetof(pal_session, title)},
        {"project", PAL_MEMBER_STRING, FULL, .offset = offsetof(pal_session, project)},
        {"agent", PAL_MEMBER_STRING, FULL, .offset = offsetof(pal_session, agent)},
        {"scope", PAL_MEMBER_OBJECT, FULL, .offset = offsetof(pal_session, scope)},
        {"metadata", PAL_MEMBER_OBJECT, FULL, .offset = offsetof(pal_session, metadata)},
        {"parent_id", PAL_MEMBER_ID, FULL, .offset = offsetof(pal_session, parent_id)},
        {"fork_seq", PAL_MEMBER_U64, FULL, .offset = offsetof(pal_session, fork_seq)},
        {"fork_mark", PAL_MEMBER_U64, FULL, .offset = offsetof(pal_session, fork_mark)},
        {"last_seq", PAL_MEMBER_U64, FULL, .offset = offsetof(pal_session, last_seq)},
        {"tokens", PAL_MEMBER_U64, FULL, .offset = offsetof(pal_session, tokens)},
        {"bytes", PAL_MEMBER_U64, FULL, .offset = offsetof(pal_session, bytes)},
        {"created_at", PAL_MEMBER_TIME, FULL, .offset = offsetof(pal_session, created_at)},
        {"updated_at", PAL_MEMBER_TIME, FULL, .offset = offsetof(pal_session, updated_at)},
        {"expires_at", PAL_MEMBER_TIME, FULL, .offset = offsetof(pal_session, expires_at)},
        {"deleted_at", PAL_MEMBER_TIME, FULL, .offset = offsetof(pal_session, deleted_at)},
};

const pal_member_table pal_native_session_table = {
        session_members, COUNT_OF(session_members), read_aliases, write_aliases};

static pal_status read_aliases(
        const pal_member *member, pal_json value, pal_arena *arena, void *record, pal_error *err)
{
    pal_session *session = record;
    size_t len = pal_json_count(value);
    if (pal_json_type_of(value) != PAL_JSON_ARRAY)
        return pal_member_wrong(err, member->name, value, "an array of strings");
    pal_str *aliases = len ? pal_arena_array(arena, len, sizeof(*aliases)) : NULL;
    if (len && !aliases)
        return pal_arena_checked(arena, err);
    pal_json_iter iter = pal_json_each(value);
    pal_json item;
    for (size_t i = 0; i < len && pal_json_next(&iter, NULL, &item); i++) {
        if (pal_json_type_of(item) != PAL_JSON_STRING)
            return pal_member_wrong(err, member->name, item, "an array of strings");
        aliases[i] = pal_json_string(item, arena);
    }
    session->aliases = aliases;
    session->aliases_len = len;
    return PAL_OK;
}

static void write_aliases(const pal_member *member, pal_json_writer *writer, const void *record)
{
    const pal_session *session = record;
    if (session->aliases_len == 0)
        return;
    pal_json_name(writer, member->name);
    pal_json_begin_array(writer);
    for (size_t i = 0; i < session->aliases_len; i++)
        pal_json_put_str(writer, session->aliases[i]);
    pal_json_end_array(writer);
}

static const pal_member_table any_object = {NULL, 0, NULL, NULL};

static pal_status check_session(const pal_session *session, pal_error *err)
{
    pal_status status = pal_members_check(&any_object, 0, "scope", session->scope, err);
    if (status == PAL_OK)
        status = pal_members_check(&any_object, 0, "metadata", session->metadata, err);
    if (status == PAL_OK)
        status = pal_members_check(&pal_native_session_table, FULL, "extra", session->extra, err);
    return status;
}

static void put_members(pal_json_writer *writer, const pal_session *session)
{
    pal_members_write(&pal_native_session_table, FULL, writer, session);
    pal_json_put_members(writer, session->extra);
}

pal_status pal_native_session_put(
        pal_json_writer *writer, const pal_session *session, pal_error *err)
{
    pal_status status = check_session(session, err);
    if (status != PAL_OK)
        return status;
    pal_json_begin_object(writer);
    put_members(writer, session);
    pal_json_end_object(writer);
    return PAL_OK;
}

pal_status pal_native_session_show(
        pal_json_writer *writer, const pal_session *session, pal_error *err)
{
    pal_status status = check_session(session, err);
    if (status != PAL_OK)
        return status;
    pal_json_begin_object(writer);
    pal_put_id(writer, "session_id", session->id);
    pal_put_count(writer, "message_count", session->last_seq);
    put_members(writer, session);
    pal_json_end_object(writer);
    return PAL_OK;
}

pal_status pal_native_session_read(
        pal_json value, pal_arena *arena, pal_session *out_session, pal_error *err)
{
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID, "a session is of type %s; expected an object",
                pal_json_type_name(pal_json_type_of(value)));
    pal_session session = {0};
    pal_status status = pal_members_read(
            &pal_native_session_table, FULL, value, arena, &session, &session.extra, err);
    if (status == PAL_OK)
        *out_session = session;
    return status;
}

pal_status pal_session_to_json(
        const pal_session *session, pal_arena *arena, pal_str *out_json, pal_error *err)
{
    pal_buf buf;
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_status status = pal_native_session_put(&writer, session, err);
    if (status == PAL_OK)
        status = pal_member_keep(&buf, arena, out_json, err);
    pal_buf_done(&buf);
    return status;
}

pal_status pal_session_from_json(
        pal_str json, pal_arena *arena, pal_session *out_session, pal_error *err)
{
    const pal_json_limits limits = {.depth_max = PAL_MESSAGE_DEPTH_MAX};
    pal_json value;
    pal_status status = pal_member_parse(json, &limits, arena, &value, err);
    if (status != PAL_OK)
        return status;
    return pal_native_session_read(value, arena, out_session, err);
}

/* ---- Marks ---- */

static const char *const mark_names[] = {
        "none", "rewind", "reset", "checkpoint", "prune", "pin", "unpin", "undo", "epoch", "hide"};

static const pal_member_names mark_kinds = {mark_names, COUNT_OF(mark_names),
        "one of rewind, reset, checkpoint, prune, pin, unpin, undo, epoch, hide"};

static const pal_member mark_members[] = {
        {"number", PAL_MEMBER_U64, FULL, .offset = offsetof(pal_mark, number)},
        {"kind", PAL_MEMBER_NAME, FULL, .offset = offsetof(pal_mark, kind), .of = &mark_kinds},
        {"seq", PAL_MEMBER_U64, FULL, .offset = offsetof(pal_mark, seq)},
        {"through_seq", PAL_MEMBER_U64, FULL, .offset = offsetof(pal_mark, through_seq)},
        {"target", PAL_MEMBER_U64, FULL, .offset = offsetof(pal_mark, target)},
        {"undone", PAL_MEMBER_BOOL, FULL, .offset = offsetof(pal_mark, undone)},
        {"inherited", PAL_MEMBER_BOOL, FULL, .offset = offsetof(pal_mark, inherited)},
        {"body", PAL_MEMBER_JSON, FULL, .offset = offsetof(pal_mark, body)},
        {"created_at", PAL_MEMBER_TIME, FULL, .offset = offsetof(pal_mark, created_at)},
};

const pal_member_table pal_native_mark_table = {
        mark_members, COUNT_OF(mark_members), NULL, NULL};

const char *pal_native_mark_kind_name(pal_mark_kind kind)
{
    return mark_names[(unsigned)kind < COUNT_OF(mark_names) ? kind : PAL_MARK_NONE];
}

pal_status pal_native_mark_put(pal_json_writer *writer, const pal_mark *mark, pal_error *err)
{
    if (mark->kind <= PAL_MARK_NONE || mark->kind > PAL_MARK_HIDE)
        return pal_error_set(err, PAL_INVALID, "a mark has unknown kind %d", (int)mark->kind);
    pal_status status = pal_members_check(NULL, 0, "body", mark->body, err);
    if (status != PAL_OK)
        return status;
    pal_json_begin_object(writer);
    pal_members_write(&pal_native_mark_table, FULL, writer, mark);
    pal_json_end_object(writer);
    return PAL_OK;
}

/* Unknown members are ignored, because a mark cannot store them. */
pal_status pal_native_mark_read(
        pal_json value, pal_arena *arena, pal_mark *out_mark, pal_error *err)
{
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID, "a mark is of type %s; expected an object",
                pal_json_type_name(pal_json_type_of(value)));
    pal_mark mark = {0};
    pal_str ignored;
    pal_status status = pal_members_read(
            &pal_native_mark_table, FULL, value, arena, &mark, &ignored, err);
    if (status != PAL_OK)
        return status;
    if (mark.kind == PAL_MARK_NONE)
        return pal_member_wrong(err, "kind", pal_json_find(value, "kind"), mark_kinds.expected);
    *out_mark = mark;
    return PAL_OK;
}
