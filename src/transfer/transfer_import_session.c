/* transfer_import_session.c - the session that is being imported: continues an existing one, or
 * creates it. */
#include "transfer/transfer_import_internal.h"

#include <stdio.h>
#include "base/clock.h"
#include "base/json/json.h"
#include "base/json/json_put.h"
#include "base/text.h"
#include "palaver/limits.h"
#include "palaver/store_batch.h"
#include "palaver/store_records.h"

#define EXPIRED_RECORD "import_expired"

static pal_status find(
        pal_import *import, pal_session_by by, pal_str name, pal_session *out_session)
{
    return pal_store_find(
            import->store, import->tenant, by, name, import->arena, out_session, import->err);
}

pal_status pal_import_find_id(pal_import *import, pal_id id, pal_session *out_session)
{
    char text[PAL_ID_TEXT_SIZE];
    pal_id_to_text(id, text);
    return find(import, PAL_SESSION_BY_ID, pal_str_of(text), out_session);
}

/* Whether the session to look up may be in the waiting batch. */
static bool must_flush(const pal_import *import, const pal_session *session)
{
    if (!pal_id_is_none(session->parent_id))
        return true;
    for (size_t i = 0; i < import->ops_len; i++) {
        const pal_op *op = &import->ops[i];
        if (op->kind == PAL_OP_CREATE &&
                ((session->key.len && pal_str_equal(op->u.create.session->key, session->key)) ||
                        pal_id_equal(op->session, session->id)))
            return true;
    }
    return false;
}

pal_status pal_import_resume(pal_import *import, const pal_session *found)
{
    char text[PAL_ERROR_MESSAGE_MAX];
    import->id = found->id;
    import->updated_at = found->updated_at;
    import->counts.sessions_known++;
    pal_buf_append_str(&import->title, found->title);
    if (found->state != PAL_SESSION_ACTIVE) {
        snprintf(text, sizeof text, "session '%.*s' is in state '%s' and was left unchanged",
                (int)import->name.len, import->name.data, pal_session_state_name(found->state));
        import->is_broken = true;
        pal_import_tell(import, 0, text);
        return PAL_OK;
    }
    if (!pal_id_is_none(found->parent_id)) {
        import->is_fork = true;
        import->shared = found->fork_seq;
    }
    pal_status status = pal_import_known_load(import, import->id, 0);
    return status == PAL_OK ? pal_import_marks_count(import) : status;
}

/* A routed session keeps its list: the store uses those aliases that are free. */
static pal_status drop_taken_aliases(pal_import *import, pal_session *session)
{
    pal_session other;
    size_t kept = 0;
    for (size_t i = 0; !session->is_routed && i < session->aliases_len; i++) {
        pal_status status = find(import, PAL_SESSION_BY_ALIAS, session->aliases[i], &other);
        if (status == PAL_NOT_FOUND)
            session->aliases[kept++] = session->aliases[i];
        else if (status != PAL_OK)
            return status;
    }
    if (!session->is_routed)
        session->aliases_len = kept;
    return PAL_OK;
}

/* ---- Expired sessions ---- */

static bool has_expired(const pal_session *session)
{
    return session->expires_at && session->expires_at <= pal_clock_now_ms();
}

/* An expired session is not found by its key. A record with that name shows that it was imported,
 * as long as the session exists. */
static pal_status find_expired(pal_import *import, const pal_session *session)
{
    pal_record record;
    if (!has_expired(session) || !session->key.len || session->key.len > PAL_RECORD_NAME_LEN_MAX)
        return PAL_NOT_FOUND;
    pal_status status = pal_store_record_find(import->store, import->tenant,
            pal_str_of(EXPIRED_RECORD), session->key, import->arena, &record, import->err);
    if (status != PAL_OK)
        return status;
    import->id = record.session;
    import->counts.sessions_known++;
    import->is_expired = import->is_broken = true;
    return PAL_OK;
}

/* ---- New sessions ---- */

/* Removes names that other sessions have, because a name must be unique. */
static pal_status drop_taken_names(pal_import *import, pal_session *session)
{
    pal_session other;
    char text[PAL_ERROR_MESSAGE_MAX];
    pal_status status = PAL_NOT_FOUND;
    if (import->is_native && session->key.len)
        status = find(import, PAL_SESSION_BY_KEY, session->key, &other);
    if (status == PAL_OK) {
        snprintf(text, sizeof text, "key '%.*s' is already in use by another session; left out",
                PAL_EXCERPT(session->key, 150));
        pal_import_tell(import, 0, text);
        session->key = pal_str_of(NULL);
    } else if (status != PAL_NOT_FOUND) {
        return status;
    }
    return drop_taken_aliases(import, session);
}

/* If the parent of a fork exists, the fork becomes a fork again. Otherwise it gets a copy of all
 * messages. */
static pal_status has_parent(pal_import *import, const pal_session *session, bool *out_has)
{
    pal_session parent;
    *out_has = false;
    bool is_found = pal_id_equal(import->parent, session->parent_id);
    if ((!import->is_native && !is_found) || pal_id_is_none(session->parent_id))
        return PAL_OK;
    pal_id id = pal_import_renamed(import, session->parent_id);
    pal_status status = pal_import_find_id(import, id, &parent);
    if (status == PAL_OK)
        *out_has = parent.last_seq >= session->fork_seq && parent.state == PAL_SESSION_ACTIVE;
    /* Its messages are compared with the parent's while they are imported. */
    if (*out_has)
        status = pal_import_known_load(import, id, session->fork_seq + 1);
    return status == PAL_NOT_FOUND ? PAL_OK : status;
}

pal_status pal_import_make(pal_import *import, pal_session *session)
{
    pal_op *op;
    pal_status status = drop_taken_names(import, session);
    if (status == PAL_OK)
        status = has_parent(import, session, &import->is_fork);
    if (pal_id_is_none(session->id))
        session->id = pal_id_new();
    import->id = session->id;
    import->is_made = import->is_changed = true;
    import->updated_at = session->updated_at ? session->updated_at : session->created_at;
    /* An expired session accepts no messages, so an expiry in the past is set at the end. */
    if (has_expired(session)) {
        import->expires_at = session->expires_at;
        session->expires_at = 0;
    }
    pal_buf_append_str(&import->title, session->title);
    if (status == PAL_OK)
        status = pal_import_add_op(import, &op);
    if (status != PAL_OK)
        return status;
    if (import->is_fork) {
        import->shared = session->fork_seq;
        *op = pal_op_fork(
                session, pal_import_renamed(import, session->parent_id), session->fork_seq);
        op->u.fork.keep_mark = true;
    } else {
        *op = pal_op_create(session);
    }
    return PAL_OK;
}

static void forget_session(pal_import *import)
{
    import->generation++;
    import->append_at = 0;
    import->is_fork = import->is_broken = import->drop_ids = import->ids_checked = false;
    import->is_unsure = import->is_branch = false;
    import->compared = import->stored = 0;
    import->shared = import->marks_known = import->marks_seen = 0;
    import->is_made = import->is_changed = import->is_expired = false;
    import->updated_at = import->expires_at = import->newest_at = 0;
    pal_buf_clear(&import->name);
    pal_buf_clear(&import->title);
    pal_buf_clear(&import->seqs);
    pal_buf_clear(&import->marks);
    pal_map_done(&import->known);
    pal_map_init(&import->known);
    pal_arena_reset(import->known_arena);
}

/* The same name does not mean the same conversation, so its messages are compared. */
static pal_status resume_given(
        pal_import *import, const pal_session *given, const pal_session *found)
{
    pal_status status = pal_import_keep_given(import, given);
    if (status == PAL_OK)
        status = pal_import_resume(import, found);
    import->is_unsure = found->last_seq > 0;
    import->stored = found->last_seq;
    if (status == PAL_OK && import->is_broken && found->state == PAL_SESSION_TRASH)
        status = pal_import_known_load(import, found->id, 0);
    return status;
}

pal_status pal_import_begin(pal_import *import, const pal_session *given, bool is_native)
{
    char id[PAL_ID_TEXT_SIZE] = "";
    pal_session found;
    pal_session *session = pal_arena_alloc(import->arena, sizeof *session);
    if (!session)
        return pal_import_no_memory(import);
    *session = *given;
    session->tenant = import->tenant;
    if (is_native)
        pal_id_to_text(session->id, id);
    pal_str name = is_native ? pal_str_of(id) : session->key;
    if (import->generation && name.len && pal_str_equal(pal_buf_str(&import->name), name))
        return PAL_OK;
    pal_status status = pal_import_end(import);
    if (status == PAL_OK && must_flush(import, session))
        status = pal_import_flush(import);
    if (status != PAL_OK)
        return status;
    forget_session(import);
    import->is_native = is_native;
    pal_buf_append_str(&import->name, name);
    status = PAL_NOT_FOUND;
    if (is_native)
        status = pal_import_find_id(import, session->id, &found);
    else if (name.len)
        status = find(import, PAL_SESSION_BY_KEY, name, &found);
    if (status == PAL_OK)
        return resume_given(import, session, &found);
    if (status == PAL_NOT_FOUND && !is_native)
        status = find_expired(import, session);
    return status == PAL_NOT_FOUND ? pal_import_make(import, session) : status;
}

pal_status pal_import_find_parent(
        pal_import *import, pal_str key, pal_str client_id, pal_session *session)
{
    pal_session parent;
    pal_message message;
    pal_status status = pal_import_flush(import); /* the parent may be in the batch */
    import->parent = (pal_id){{0}};
    if (status == PAL_OK)
        status = find(import, PAL_SESSION_BY_KEY, key, &parent);
    if (status == PAL_OK)
        status = pal_store_find_client_id(import->store, import->tenant, parent.id, client_id,
                import->arena, &message, import->err);
    if (status != PAL_OK)
        return status == PAL_NOT_FOUND ? PAL_OK : status;
    import->parent = session->parent_id = parent.id;
    session->fork_seq = message.seq;
    return PAL_OK;
}

void pal_import_expect_branch(pal_import *import)
{
    import->is_branch = true;
}

/* Adds an update of the session; *out_session is in the arena. */
static pal_status add_update(pal_import *import, uint32_t fields, pal_session **out_session)
{
    pal_op *op;
    pal_status status = pal_import_add_op(import, &op);
    if (status != PAL_OK)
        return status;
    *out_session = pal_arena_alloc(import->arena, sizeof **out_session);
    if (!*out_session) {
        import->ops_len--;
        return pal_import_no_memory(import);
    }
    (*out_session)->id = import->id;
    (*out_session)->tenant = import->tenant;
    *op = pal_op_update(*out_session, fields);
    return PAL_OK;
}

/* ---- Rows of Loom (a program that sends agents to work items) that have grown ---- */

/* Reads the token count of a row. Returns false if the metadata does not come from Loom. */
static bool read_tokens(
        pal_import *import, pal_str metadata, pal_json *out_value, uint64_t *out_tokens)
{
    *out_tokens = 0;
    if (!metadata.len ||
            pal_json_parse(import->arena, metadata, NULL, out_value, NULL) != PAL_OK ||
            !pal_json_string_is(pal_json_find(*out_value, "source"), "loom"))
        return false;
    (void)pal_json_u64(pal_json_find(*out_value, "token_count"), out_tokens);
    return true;
}

static pal_str with_tokens(pal_import *import, pal_json metadata, uint64_t tokens)
{
    pal_json name, value;
    pal_str made = {0};
    pal_buf buf;
    pal_buf_init(&buf, PAL_METADATA_LEN_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    for (pal_json_iter iter = pal_json_each(metadata); pal_json_next(&iter, &name, &value);) {
        if (pal_json_string_is(name, "token_count"))
            continue;
        pal_json_name_str(&writer, pal_json_string(name, import->arena));
        pal_json_put_raw(&writer, pal_json_raw(value));
    }
    pal_put_count(&writer, "token_count", tokens);
    pal_json_end_object(&writer);
    if (!buf.failure)
        made = pal_arena_copy(import->arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return made;
}

/* If the row's count is larger than that of the existing session, the session gets the larger
 * count. */
static pal_status raise_tokens(pal_import *import)
{
    pal_session found, *session;
    uint64_t before, now;
    pal_json value;
    pal_str given = import->given.metadata;
    if (import->is_made || (import->is_unsure && import->compared == 0) ||
            !read_tokens(import, given, &value, &now))
        return PAL_OK;
    import->given.metadata = (pal_str){0};
    pal_status status = pal_import_find_id(import, import->id, &found);
    if (status != PAL_OK)
        return status == PAL_NOT_FOUND ? PAL_OK : status;
    if (!read_tokens(import, found.metadata, &value, &before) || now <= before)
        return PAL_OK;
    pal_str metadata = with_tokens(import, value, now);
    if (!metadata.len)
        return PAL_OK;
    status = add_update(import, PAL_SESSION_FIELD_METADATA, &session);
    if (status == PAL_OK)
        session->metadata = metadata;
    return status;
}

pal_status pal_import_end(pal_import *import)
{
    pal_session *session;
    int64_t updated_at = import->updated_at;
    uint32_t fields = import->expires_at ? PAL_SESSION_FIELD_EXPIRES_AT : 0;
    if (!import->generation || import->is_broken)
        return PAL_OK;
    pal_status status = raise_tokens(import);
    if (status != PAL_OK || !import->is_changed)
        return status;
    if (updated_at < import->newest_at)
        updated_at = import->newest_at;
    /* A time in the future is ignored, because the clock of the source may have been wrong. */
    if (updated_at > 0 && updated_at <= pal_clock_now_ms())
        fields |= PAL_SESSION_FIELD_UPDATED_AT;
    import->is_changed = false;
    if (!fields)
        return PAL_OK;
    status = add_update(import, fields, &session);
    if (status != PAL_OK)
        return status;
    session->updated_at = updated_at;
    session->expires_at = import->expires_at;
    if (!import->expires_at || import->is_native || import->name.len > PAL_RECORD_NAME_LEN_MAX)
        return PAL_OK;
    return pal_import_record(import, pal_str_of(EXPIRED_RECORD), pal_buf_str(&import->name),
            pal_str_of("{}"), false);
}

pal_status pal_import_record(
        pal_import *import, pal_str kind, pal_str name, pal_str body, bool is_new)
{
    pal_op *op;
    if (import->is_broken || (is_new && !import->is_made))
        return PAL_OK;
    pal_status status = pal_import_add_op(import, &op);
    if (status != PAL_OK)
        return status;
    pal_record *record = pal_arena_alloc(import->arena, sizeof *record);
    if (!record) {
        import->ops_len--;
        return pal_import_no_memory(import);
    }
    *record = (pal_record){.kind = pal_arena_copy(import->arena, kind),
            .name = pal_arena_copy(import->arena, name),
            .body = pal_arena_copy(import->arena, body),
            .session = import->id};
    *op = pal_op_record_put(import->tenant, record, PAL_RECORD_VERSION_ANY);
    return pal_arena_failure(import->arena) ? pal_import_no_memory(import) : PAL_OK;
}

pal_status pal_import_title(pal_import *import, pal_str title)
{
    pal_session *session;
    if (!title.len || import->title.len || import->is_broken || !import->generation ||
            (import->is_unsure && import->compared == 0))
        return PAL_OK;
    pal_status status = add_update(import, PAL_SESSION_FIELD_TITLE, &session);
    if (status != PAL_OK)
        return status;
    pal_buf_append_str(&import->title, title);
    session->title = pal_arena_copy(import->arena, title);
    import->is_changed = true;
    return PAL_OK;
}
