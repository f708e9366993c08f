/* transfer_import_apart.c - distinguishes two conversations that have the same name.
 *
 * The store may already contain a session with the id or the key of an imported session. It is the
 * same conversation if it contains the same first message; then the import continues it. Otherwise
 * it is a different conversation, and the import must neither add to it nor leave out messages
 * because of it. The import then uses a separate session, with another id and without the key. That
 * id depends only on the name and the first message, so that a repeated import finds it. If the
 * first messages are equal and a later one differs before anything was written, the equal messages
 * are copied.
 *
 * The same applies to a fork: its first messages must be those of the session that it would share
 * them with. */
#include "base/text.h"
#include "palaver/store_batch.h"
#include "transfer/transfer_import_internal.h"

#include <stdio.h>
#include <string.h>

#define TRIES 8

static pal_str kept(pal_import *import, pal_str text)
{
    return pal_arena_copy(import->known_arena, text);
}

pal_status pal_import_keep_given(pal_import *import, const pal_session *session)
{
    pal_session *given = &import->given;
    *given = *session;
    given->key = kept(import, session->key);
    given->title = kept(import, session->title);
    given->project = kept(import, session->project);
    given->agent = kept(import, session->agent);
    given->scope = kept(import, session->scope);
    given->metadata = kept(import, session->metadata);
    given->extra = kept(import, session->extra);
    given->alias_apart = kept(import, session->alias_apart);
    given->aliases = pal_arena_array(
            import->known_arena, session->aliases_len + 1, sizeof *given->aliases);
    for (size_t i = 0; given->aliases && i < session->aliases_len; i++)
        given->aliases[i] = kept(import, session->aliases[i]);
    return pal_arena_failure(import->known_arena) ? pal_import_no_memory(import) : PAL_OK;
}

pal_id pal_import_renamed(const pal_import *import, pal_id id)
{
    const pal_id *here = pal_map_find(
            &import->renamed, pal_str_make((const char *)id.bytes, sizeof id.bytes));
    return here ? *here : id;
}

static pal_status remember_name(pal_import *import, pal_id there, pal_id here)
{
    pal_id *copy = pal_arena_alloc(import->renamed_arena, sizeof *copy);
    pal_str key = pal_arena_copy(
            import->renamed_arena, pal_str_make((const char *)there.bytes, sizeof there.bytes));
    if (!copy || !key.data || pal_map_set(&import->renamed, key, copy) != PAL_OK)
        return pal_import_no_memory(import);
    *copy = here;
    return PAL_OK;
}

/* Copies the messages that were equal, in the order of the import. */
static pal_status copy_alike(pal_import *import, pal_id from, const uint64_t *seqs, size_t len)
{
    pal_status status = PAL_OK;
    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        pal_message_query load = {.after_seq = seqs[i] - 1, .limit = 1, .hidden = true};
        pal_message_page page = {0};
        status = pal_store_load(
                import->store, import->tenant, from, &load, import->arena, &page, import->err);
        if (status != PAL_OK || page.len == 0 || page.items[0].seq != seqs[i])
            continue;
        page.items[0].seq = 0;
        if (page.items[0].client_id.len)
            page.items[0].id = (pal_id){{0}};
        status = pal_import_message(import, &page.items[0], 0);
    }
    return status;
}

static void tell_name(pal_import *import, pal_id id)
{
    char text[PAL_ERROR_MESSAGE_MAX], here[PAL_ID_TEXT_SIZE];
    pal_id_to_text(id, here);
    snprintf(text, sizeof text,
            "'%.*s' is a different conversation in this store; imported as session %s",
            PAL_EXCERPT(pal_buf_str(&import->name), 120), here);
    pal_import_tell(import, 0, text);
}

/* Finds the session that an earlier import created, or creates it. */
static pal_status go_apart(pal_import *import, const pal_message *first)
{
    pal_session found, *session = pal_arena_alloc(import->arena, sizeof *session);
    pal_id there = import->given.id, id = {{0}};
    pal_status status = session ? PAL_NOT_FOUND : pal_import_no_memory(import);
    if (!session)
        return status;
    for (unsigned n = 0; n < TRIES; n++) {
        if (pal_import_other_id(import, first, n, &id) != PAL_OK)
            return pal_import_no_memory(import);
        status = pal_import_find_id(import, id, &found);
        if (status != PAL_OK)
            break;
        pal_map_done(&import->known);
        pal_map_init(&import->known);
        status = pal_import_known_load(import, id, 0);
        if (status != PAL_OK || found.last_seq == 0 ||
                pal_import_known_match(import, first) == PAL_IMPORT_SAME)
            break;
        status = PAL_NOT_FOUND;
    }
    if (import->is_native && (status == PAL_OK || status == PAL_NOT_FOUND) &&
            remember_name(import, there, id) != PAL_OK)
        return pal_import_no_memory(import);
    if (status == PAL_OK)
        return pal_import_resume(import, &found);
    if (status != PAL_NOT_FOUND)
        return status;
    tell_name(import, id);
    *session = import->given;
    session->id = id;
    session->key = (pal_str){0};
    return pal_import_make(import, session);
}

/* Undoes the operations and counts of this import for the existing session, which was only
 * compared. */
static void let_go(pal_import *import)
{
    const pal_import_origin *waits = import->waits;
    while (import->ops_len > 0 && waits[import->ops_len - 1].generation == import->generation)
        import->ops_len--;
    import->counts.sessions_known--;
    if (import->is_broken)
        import->counts.failed -= import->compared;
    else
        import->counts.messages_known -= import->compared;
    import->is_unsure = import->is_fork = import->is_broken = import->ids_checked = false;
    import->drop_ids = import->is_changed = false;
    import->append_at = 0;
    import->shared = import->marks_known = import->compared = 0;
    import->updated_at = import->newest_at = 0;
    pal_buf_clear(&import->title);
    pal_map_done(&import->known);
    pal_map_init(&import->known);
}

static pal_status part(pal_import *import, const pal_message *message)
{
    pal_id from = import->id;
    size_t len = import->seqs.len / sizeof(uint64_t);
    uint64_t *seqs = pal_arena_array(import->arena, len + 1, sizeof *seqs);
    pal_message_page page = {0};
    pal_status status = PAL_OK;
    if (!seqs)
        return pal_import_no_memory(import);
    if (len)
        memcpy(seqs, import->seqs.data, len * sizeof *seqs);
    if (len) {
        pal_message_query load = {.after_seq = seqs[0] - 1, .limit = 1, .hidden = true};
        status = pal_store_load(
                import->store, import->tenant, from, &load, import->arena, &page, import->err);
    }
    if (status != PAL_OK)
        return status;
    let_go(import);
    pal_buf_clear(&import->seqs);
    status = go_apart(import, page.len ? &page.items[0] : message);
    return status == PAL_OK ? copy_alike(import, from, seqs, len) : status;
}

/* A new fork has other messages than its parent in this store, so it becomes a session without a
 * parent. */
static pal_status unfork(pal_import *import)
{
    size_t len = import->seqs.len / sizeof(uint64_t);
    uint64_t *seqs = pal_arena_array(import->arena, len + 1, sizeof *seqs);
    pal_op *op = NULL;
    for (size_t i = 0; i < import->ops_len; i++)
        if (import->ops[i].kind == PAL_OP_FORK && pal_id_equal(import->ops[i].session, import->id))
            op = &import->ops[i];
    if (!seqs)
        return pal_import_no_memory(import);
    if (!op) /* the fork is written already, so the message is refused */
        return PAL_OK;
    if (len)
        memcpy(seqs, import->seqs.data, len * sizeof *seqs);
    pal_id parent = op->u.fork.parent;
    *op = pal_op_create(op->u.fork.session);
    import->is_fork = false;
    import->shared = 0;
    import->counts.messages_known -= len;
    pal_buf_clear(&import->seqs);
    pal_map_done(&import->known);
    pal_map_init(&import->known);
    return copy_alike(import, parent, seqs, len);
}

pal_status pal_import_tell_apart(pal_import *import, const pal_message *message)
{
    uint64_t index = import->seqs.len / sizeof index;
    pal_message named = *message;
    char text[32];
    if (!import->generation || (!import->is_unsure && !(import->is_fork && import->is_made)))
        return PAL_OK;
    if (pal_id_is_none(named.id) && !named.client_id.len) {
        snprintf(text, sizeof text, "import:%llu", (unsigned long long)index + 1);
        named.client_id = pal_str_of(text);
    }
    pal_import_match match = pal_import_known_match(import, &named);
    if (import->is_fork && import->is_made)
        return index < import->shared && match != PAL_IMPORT_SAME ? unfork(import) : PAL_OK;
    bool is_elsewhere = import->is_branch && import->compared < import->stored;
    if (match == PAL_IMPORT_OTHER ||
            (match == PAL_IMPORT_UNKNOWN && (import->compared == 0 || is_elsewhere)))
        return part(import, &named);
    /* The conversation now grows. All messages so far were equal, so it is the same
     * conversation. */
    if (match == PAL_IMPORT_UNKNOWN)
        import->is_unsure = false;
    else
        import->compared++;
    return PAL_OK;
}
