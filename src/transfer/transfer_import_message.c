/* transfer_import_message.c - adds messages to the batch. They get names, so that a repeated import
 * recognizes them, and are counted, so that marks find them. */
#include "base/memory.h"
#include "palaver/store_batch.h"
#include "transfer/transfer_import_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Ids are unique in the tenant, not in the session. A fork that is imported without its parent may
 * find its messages in another fork. They then get new ids, and their old ids become client ids. */
static pal_status check_ids(pal_import *import, const pal_message *message)
{
    pal_message other;
    pal_id session;
    pal_error why;
    import->ids_checked = true;
    if (!import->is_native || pal_id_is_none(message->id))
        return PAL_OK;
    pal_status status = pal_store_message(
            import->store, import->tenant, message->id, import->arena, &other, &session, &why);
    if (status == PAL_OK)
        import->drop_ids = !pal_id_equal(session, import->id);
    return PAL_OK;
}

static void name_message(pal_import *import, pal_message *message, uint64_t index)
{
    char text[64];
    char id[PAL_ID_TEXT_SIZE];
    if (import->drop_ids && !pal_id_is_none(message->id)) {
        pal_id_to_text(message->id, id);
        snprintf(text, sizeof text, "native:%s", id);
        message->id = (pal_id){{0}};
        if (!message->client_id.len)
            message->client_id = pal_arena_copy(import->arena, pal_str_of(text));
    } else if (pal_id_is_none(message->id) && !message->client_id.len) {
        snprintf(text, sizeof text, "import:%llu", (unsigned long long)index + 1);
        message->client_id = pal_arena_copy(import->arena, pal_str_of(text));
    }
}

static pal_status grow_append(pal_import *import, pal_op *op, pal_import_origin *wait)
{
    pal_arena *arena = import->arena;
    size_t wanted = op->u.append.messages_len + 1;
    size_t lines_cap = wait->cap, indexes_cap = wait->cap; /* all three have the same capacity */
    if (!pal_arena_reserve(arena, &wait->lines, &lines_cap, wanted, sizeof *wait->lines) ||
            !pal_arena_reserve(
                    arena, &wait->indexes, &indexes_cap, wanted, sizeof *wait->indexes) ||
            !pal_arena_reserve(arena, &op->u.append.messages, &wait->cap, wanted,
                    sizeof *op->u.append.messages))
        return pal_import_no_memory(import);
    return PAL_OK;
}

/* Adds a message of the session to the batch. */
static pal_status wait_message(
        pal_import *import, const pal_message *message, uint64_t index, uint64_t line)
{
    pal_op *op;
    pal_status status = PAL_OK;
    if (!import->append_at) {
        status = pal_import_add_op(import, &op);
        if (status != PAL_OK)
            return status;
        *op = pal_op_append(import->tenant, import->id, NULL, 0, PAL_SEQ_ANY);
        import->append_at = import->ops_len;
    }
    op = &import->ops[import->append_at - 1];
    pal_import_origin *wait = &import->waits[import->append_at - 1];
    status = grow_append(import, op, wait);
    if (status != PAL_OK)
        return status;
    assert(wait->lines && wait->indexes);
    size_t at = op->u.append.messages_len++;
    op->u.append.messages[at] = *message;
    wait->lines[at] = line;
    wait->indexes[at] = index;
    import->messages_waiting++;
    import->is_changed = true;
    if (message->created_at > import->newest_at)
        import->newest_at = message->created_at;
    return PAL_OK;
}

/* Another message in the store has this name, so the message is left out and reported. */
static pal_status refuse_message(pal_import *import, uint64_t line)
{
    uint64_t none = 0;
    import->counts.failed++;
    pal_buf_append(&import->seqs, &none, sizeof none);
    pal_import_tell(import, line,
            "a message differs from the stored message with the same id; left out");
    return import->seqs.failure ? pal_import_no_memory(import) : PAL_OK;
}

pal_status pal_import_message(pal_import *import, const pal_message *given, uint64_t line)
{
    pal_message message = *given;
    uint64_t seq = 0;
    pal_status status = pal_import_tell_apart(import, given);
    uint64_t index = import->seqs.len / sizeof index;
    if (status != PAL_OK)
        return status;
    if (import->is_broken) {
        import->counts.messages_known += import->is_expired;
        import->counts.failed += !import->is_expired;
        return PAL_OK;
    }
    if (pal_import_known_match(import, &message) == PAL_IMPORT_OTHER)
        return refuse_message(import, line);
    if (import->is_fork && index < import->shared) {
        seq = index + 1;
    } else {
        if (!import->ids_checked)
            status = check_ids(import, &message);
        name_message(import, &message, index);
        seq = pal_import_known_seq(import, &message);
    }
    pal_buf_append(&import->seqs, &seq, sizeof seq);
    if (status != PAL_OK || import->seqs.failure)
        return status != PAL_OK ? status : pal_import_no_memory(import);
    if (seq) {
        import->counts.messages_known++;
        return PAL_OK;
    }
    return wait_message(import, &message, index, line);
}
