/* transfer_import.c - implements transfer_import.h; this file contains the batch.
 *
 * Operations wait in one array and are applied together: a CREATE (or FORK) and an APPEND for each
 * session. The new session's id is chosen here, so that both can be in one batch. If the store
 * refuses an append, it is retried message by message, so that one bad message does not affect the
 * others. */
#include "palaver/store_batch.h"
#include "palaver/store_records.h"
#include "transfer/transfer_import_internal.h"

#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "base/utf8.h"

#define OPS_MAX 1000
#define MESSAGES_FLUSH_AT 2000
#define BYTES_FLUSH_AT ((size_t)8 << 20)
#define MEDIA_TYPE_SHOWN 60
#define SESSION_MESSAGES_MAX ((size_t)1 << 30)

pal_import *pal_import_new(
        pal_store *store, pal_str tenant, pal_import_problem problem, void *user, pal_error *err)
{
    pal_import *import = pal_calloc(1, sizeof *import);
    if (!import)
        return NULL;
    import->store = store;
    import->tenant = tenant;
    import->err = err;
    import->problem = problem;
    import->user = user;
    pal_buf_init(&import->name, 65536);
    pal_buf_init(&import->title, 65536);
    pal_buf_init(&import->seqs, SESSION_MESSAGES_MAX);
    pal_buf_init(&import->marks, SESSION_MESSAGES_MAX);
    pal_map_init(&import->known);
    import->ops = pal_calloc(OPS_MAX, sizeof *import->ops);
    import->waits = pal_calloc(OPS_MAX, sizeof *import->waits);
    import->arena = pal_arena_new(0);
    import->known_arena = pal_arena_new(0);
    import->renamed_arena = pal_arena_new(0);
    pal_map_init(&import->renamed);
    if (!import->ops || !import->waits || !import->arena || !import->known_arena ||
            !import->renamed_arena) {
        pal_import_free(import);
        return NULL;
    }
    return import;
}

void pal_import_free(pal_import *import)
{
    if (!import)
        return;
    pal_buf_done(&import->name);
    pal_buf_done(&import->title);
    pal_buf_done(&import->seqs);
    pal_buf_done(&import->marks);
    pal_map_done(&import->known);
    pal_free(import->ops);
    pal_free(import->waits);
    pal_arena_free(import->arena);
    pal_arena_free(import->known_arena);
    pal_map_done(&import->renamed);
    pal_arena_free(import->renamed_arena);
    pal_free(import);
}

pal_arena *pal_import_arena(pal_import *import)
{
    return import->arena;
}

bool pal_import_has_session(const pal_import *import)
{
    return import->generation > 0;
}

pal_id pal_import_session(const pal_import *import)
{
    return import->is_broken ? (pal_id){{0}} : import->id;
}

pal_import_counts pal_import_count(const pal_import *import)
{
    return import->counts;
}

pal_status pal_import_no_memory(pal_import *import)
{
    return pal_no_memory(import->err);
}

void pal_import_tell(pal_import *import, uint64_t line, const char *text)
{
    import->problem(line, text, import->user);
}

bool pal_import_is_about_input(pal_status status)
{
    return status == PAL_INVALID || status == PAL_LIMIT || status == PAL_CONFLICT ||
            status == PAL_NOT_FOUND;
}

/* ---- Flushing ---- */

static void remember_seqs(pal_import *import, const pal_op *op, const pal_import_origin *wait)
{
    if (wait->generation != import->generation)
        return;
    for (size_t i = 0; i < op->u.append.messages_len; i++) {
        uint64_t seq = op->u.append.messages[i].seq;
        memcpy(import->seqs.data + wait->indexes[i] * sizeof seq, &seq, sizeof seq);
    }
}

/* Replaces images and files whose bytes are neither in the file nor in the store by a line of text,
 * so that the rest of the message is not lost. Returns false if there is nothing to replace. */
static bool replace_blobs(pal_import *import, pal_part *parts, size_t parts_len)
{
    bool replaced = false;
    for (size_t i = 0; i < parts_len; i++) {
        pal_str media_type, data;
        pal_error why;
        char text[256];
        pal_part *part = &parts[i];
        if (part->parts_len && replace_blobs(import, part->parts, part->parts_len))
            replaced = true;
        if (!part->blob.len || part->data.len ||
                pal_store_blob_get(import->store, import->tenant, part->blob, import->arena,
                        &media_type, &data, &why) != PAL_NOT_FOUND)
            continue;
        snprintf(text, sizeof text, "[%s %.*s %.*s was not in the import]",
                pal_part_kind_name(part->kind),
                (int)pal_utf8_cut(part->media_type, MEDIA_TYPE_SHOWN),
                part->media_type.len ? part->media_type.data : "", PAL_STR_ARG(part->blob));
        *part = (pal_part){
                .kind = PAL_PART_TEXT, .text = pal_arena_copy(import->arena, pal_str_of(text))};
        replaced = true;
    }
    return replaced;
}

static pal_status append_one(
        pal_import *import, const pal_op *op, pal_message *message, uint64_t line, pal_error *err)
{
    pal_store *store = import->store;
    char id[PAL_ID_TEXT_SIZE], text[64];
    pal_status status =
            pal_store_append(store, op->tenant, op->session, message, 1, PAL_SEQ_ANY, err);
    /* Another session has a message with this id. */
    if (status == PAL_CONFLICT && !pal_id_is_none(message->id)) {
        pal_id_to_text(message->id, id);
        snprintf(text, sizeof text, "native:%s", id);
        message->id = (pal_id){{0}};
        if (!message->client_id.len)
            message->client_id = pal_arena_copy(import->arena, pal_str_of(text));
        status = pal_store_append(store, op->tenant, op->session, message, 1, PAL_SEQ_ANY, err);
    }
    if (status != PAL_NOT_FOUND || !replace_blobs(import, message->parts, message->parts_len))
        return status;
    pal_import_tell(
            import, line, "an image or file is not in the export; a note replaces it");
    return pal_store_append(store, op->tenant, op->session, message, 1, PAL_SEQ_ANY, err);
}

static pal_status append_singly(pal_import *import, pal_op *op, const pal_import_origin *wait)
{
    for (size_t i = 0; i < op->u.append.messages_len; i++) {
        pal_error why;
        pal_message *message = &op->u.append.messages[i];
        pal_status status = append_one(import, op, message, wait->lines[i], &why);
        if (status == PAL_OK) {
            import->counts.messages++;
            continue;
        }
        if (!pal_import_is_about_input(status)) {
            *import->err = why;
            return status;
        }
        message->seq = 0;
        import->counts.failed++;
        pal_import_tell(import, wait->lines[i], why.message);
    }
    remember_seqs(import, op, wait);
    return PAL_OK;
}

static pal_status finish_append(
        pal_import *import, pal_op *op, const pal_import_origin *wait, pal_id refused_session)
{
    if (op->status == PAL_OK) {
        import->counts.messages += op->u.append.messages_len;
        remember_seqs(import, op, wait);
        return PAL_OK;
    }
    if (pal_id_equal(op->session, refused_session)) {
        import->counts.failed += op->u.append.messages_len;
        return PAL_OK;
    }
    return append_singly(import, op, wait);
}

static pal_status finish_op(pal_import *import, size_t at, pal_id *refused_session)
{
    pal_op *op = &import->ops[at];
    bool makes = op->kind == PAL_OP_CREATE || op->kind == PAL_OP_FORK;
    if (op->status != PAL_OK && !pal_import_is_about_input(op->status)) {
        *import->err = op->error;
        return op->status;
    }
    if (op->kind == PAL_OP_APPEND)
        return finish_append(import, op, &import->waits[at], *refused_session);
    if (op->status == PAL_OK) {
        import->counts.sessions += makes;
        return PAL_OK;
    }
    pal_import_tell(import, 0, op->error.message);
    if (makes) {
        *refused_session = op->session;
        if (import->waits[at].generation == import->generation)
            import->is_broken = true;
    }
    return PAL_OK;
}

pal_status pal_import_flush(pal_import *import)
{
    pal_id refused_session = {{0}};
    pal_status status = PAL_OK;
    if (import->seqs.failure || import->marks.failure || pal_arena_failure(import->arena))
        return pal_import_no_memory(import);
    if (import->ops_len)
        status = pal_store_apply(import->store, import->ops, import->ops_len, import->err);
    for (size_t i = 0; status == PAL_OK && i < import->ops_len; i++)
        status = finish_op(import, i, &refused_session);
    import->ops_len = 0;
    import->messages_waiting = 0;
    import->bytes_waiting = 0;
    import->append_at = 0;
    return status;
}

pal_status pal_import_settle(pal_import *import, size_t line_len)
{
    pal_status status = PAL_OK;
    import->bytes_waiting += line_len;
    /* Counts of a session whose messages are still compared may have to be undone. */
    if (import->is_unsure && import->compared == 0)
        return PAL_OK;
    if (import->messages_waiting >= MESSAGES_FLUSH_AT || import->bytes_waiting >= BYTES_FLUSH_AT ||
            import->ops_len > OPS_MAX / 2)
        status = pal_import_flush(import);
    if (status == PAL_OK && import->ops_len == 0)
        pal_arena_reset(import->arena);
    return status;
}

pal_status pal_import_add_op(pal_import *import, pal_op **out_op)
{
    pal_status status = PAL_OK;
    if (import->ops_len == OPS_MAX)
        status = pal_import_flush(import);
    if (status != PAL_OK)
        return status;
    import->waits[import->ops_len] = (pal_import_origin){.generation = import->generation};
    *out_op = &import->ops[import->ops_len++];
    return PAL_OK;
}
