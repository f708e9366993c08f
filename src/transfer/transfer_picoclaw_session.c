/* transfer_picoclaw_session.c - writes a session of PicoClaw to the store: its record, its aliases
 * (the first session with an alias keeps it), and marks for messages that PicoClaw hides. */
#include "transfer/transfer_picoclaw_internal.h"

#include <stdio.h>
#include <string.h>
#include "base/json/json_put.h"
#include "base/utf8.h"

/* ---- The record ---- */

/* Returns whether the alias is the one of the main session, and this is another session. */
static bool is_main_of_another(pal_str key, pal_str alias)
{
    uint8_t digest[PAL_SHA256_SIZE];
    char opaque[6 + 2 * PAL_SHA256_SIZE + 1] = "sk_v1_";
    if (!pal_picoclaw_is_main_alias(alias) || pal_str_equal(key, alias) ||
            pal_sha256(alias, digest) != PAL_OK)
        return false;
    pal_hex(digest, sizeof digest, opaque + 6);
    return !pal_str_is(key, opaque);
}

static bool is_taken(pal_picoclaw_walk *w, pal_str key, pal_str alias)
{
    const pal_picoclaw_import *import = w->import;
    pal_session other;
    const pal_str *first = pal_map_find(&w->list->aliases, alias);
    if (first)
        return !pal_str_equal(*first, key);
    return pal_store_find(import->store, import->tenant, PAL_SESSION_BY_ALIAS, alias, w->arena,
                   &other, NULL) == PAL_OK &&
            !pal_str_equal(other.key, key);
}

/* The first session with an alias keeps it. */
static pal_status claim_alias(pal_picoclaw_walk *w, pal_str key, pal_str alias)
{
    pal_arena *arena = w->import->arena;
    char name[PAL_PICOCLAW_NAME_SHOWN + 1];
    if (is_taken(w, key, alias)) {
        snprintf(name, sizeof name, "%.*s", (int)pal_utf8_cut(alias, PAL_PICOCLAW_NAME_SHOWN),
                alias.data);
        pal_picoclaw_tell(w, 0,
                "the alias already belongs to another session and is not changed: ", name);
        return PAL_OK;
    }
    pal_str *holder = pal_arena_alloc(arena, sizeof *holder);
    alias = pal_arena_copy(arena, alias);
    if (!holder || !alias.len)
        return pal_no_memory(w->import->err);
    *holder = pal_arena_copy(arena, key);
    return pal_map_set(&w->list->aliases, alias, holder) == PAL_OK
            ? PAL_OK
            : pal_no_memory(w->import->err);
}

static pal_status name_session(pal_picoclaw_walk *w, pal_session *session, pal_arena *arena)
{
    pal_status status = PAL_OK;
    const pal_picoclaw_meta *meta = &w->meta;
    session->key = pal_arena_copy(arena, meta->key);
    session->is_routed = true;
    session->aliases = pal_arena_array(arena, meta->aliases_len + 1, sizeof(pal_str));
    for (size_t i = 0; session->aliases && status == PAL_OK && i < meta->aliases_len; i++) {
        pal_str alias = pal_arena_copy(arena, meta->aliases[i]);
        if (!alias.len || pal_str_equal(alias, session->key))
            continue;
        session->aliases[session->aliases_len++] = alias;
        if (is_main_of_another(session->key, alias))
            session->alias_apart = alias;
        else
            status = claim_alias(w, session->key, alias);
    }
    return status;
}

/* Returns metadata with the source of the session and the members that have no field here. */
static pal_str metadata_of(pal_picoclaw_walk *w, pal_arena *arena)
{
    pal_buf buf;
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_text(&writer, "source", "picoclaw");
    if (w->meta.updated_at.len) {
        pal_put_str(&writer, "updated_at", w->meta.updated_at);
    }
    if (w->meta.extra.len) {
        pal_put_raw(&writer, "picoclaw", w->meta.extra);
    }
    pal_json_end_object(&writer);
    pal_str text = pal_arena_copy(arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return text;
}

pal_status pal_picoclaw_begin(pal_picoclaw_walk *w)
{
    pal_json scope = {0};
    pal_session session = {0};
    const pal_picoclaw_import *import = w->import;
    pal_arena *arena = pal_import_arena(w->import->import);
    pal_status status = name_session(w, &session, arena);
    if (w->meta.scope.len && pal_json_parse(arena, w->meta.scope, NULL, &scope, NULL) == PAL_OK &&
            pal_json_type_of(scope) == PAL_JSON_OBJECT) {
        session.scope = pal_arena_copy(arena, w->meta.scope);
        pal_json agent = pal_json_find(scope, "agent_id");
        session.agent = pal_arena_copy(arena, pal_json_string(agent, w->arena));
    }
    session.created_at = w->meta.created_at_ms;
    session.updated_at = w->meta.updated_at_ms;
    session.metadata = metadata_of(w, arena);
    if (w->import->project)
        session.project = pal_str_of(w->import->project);
    if (status == PAL_OK && pal_arena_failure(arena) != PAL_OK)
        status = pal_no_memory(import->err);
    return status == PAL_OK ? pal_import_begin(w->import->import, &session, false) : status;
}

/* ---- The marks ---- */

static pal_status session_marks(pal_picoclaw_walk *w, pal_mark **out_marks, size_t *out_len)
{
    const pal_picoclaw_import *import = w->import;
    return pal_store_marks(import->store, import->tenant, pal_import_session(w->import->import),
            w->arena, out_marks, out_len, import->err);
}

static pal_status stored_session(pal_picoclaw_walk *w, pal_session *out_session)
{
    const pal_picoclaw_import *import = w->import;
    char id[PAL_ID_TEXT_SIZE];
    pal_id_to_text(pal_import_session(w->import->import), id);
    return pal_store_find(import->store, import->tenant, PAL_SESSION_BY_ID, pal_str_of(id),
            w->arena, out_session, import->err);
}

pal_status pal_picoclaw_hide_skipped(pal_picoclaw_walk *w)
{
    pal_mark *marks;
    size_t len;
    pal_session session;
    pal_import *store = w->import->import;
    const pal_mark reset = {.kind = PAL_MARK_RESET};
    w->hidden = w->messages;
    pal_status status = w->is_check ? PAL_OK : pal_import_flush(store);
    if (w->is_check || status != PAL_OK || pal_id_is_none(pal_import_session(store)) ||
            !w->messages)
        return status;
    status = session_marks(w, &marks, &len);
    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        if (marks[i].kind == PAL_MARK_RESET && !marks[i].undone)
            return PAL_OK;
    }
    if (status == PAL_OK)
        status = stored_session(w, &session);
    if (status != PAL_OK)
        return status;
    if (session.last_seq > w->messages) {
        pal_picoclaw_tell(w, 0,
                "PicoClaw has hidden the oldest messages, but they were imported before and stay "
                "visible", "");
        return PAL_OK;
    }
    return pal_import_mark_anew(store, &reset, 0);
}

pal_status pal_picoclaw_keep_summary(pal_picoclaw_walk *w)
{
    pal_mark *marks;
    size_t len;
    pal_buf body;
    pal_import *store = w->import->import;
    pal_status status = w->meta.summary.len ? pal_import_flush(store) : PAL_OK;
    if (status != PAL_OK || !w->meta.summary.len || pal_id_is_none(pal_import_session(store)))
        return status;
    pal_buf_init(&body, PAL_JSON_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&body);
    pal_json_begin_object(&writer);
    pal_put_str(&writer, "summary", w->meta.summary);
    pal_json_end_object(&writer);
    status = body.failure ? pal_no_memory(w->import->err) : session_marks(w, &marks, &len);
    while (status == PAL_OK && len > 0 &&
            (marks[len - 1].kind != PAL_MARK_CHECKPOINT || marks[len - 1].undone))
        len--;
    if (status == PAL_OK && (len == 0 || !pal_str_equal(marks[len - 1].body, pal_buf_str(&body)))) {
        pal_mark mark = {.kind = PAL_MARK_CHECKPOINT, .seq = w->hidden, .body = pal_buf_str(&body)};
        status = pal_import_mark_anew(store, &mark, 0);
    }
    pal_buf_done(&body);
    return status;
}
