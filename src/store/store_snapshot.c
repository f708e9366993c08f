/* store_snapshot.c - several reads of one session, which is looked up once. */
#include "store/store_snapshot.h"

#include "base/memory.h"
#include "base/text.h"
#include "store/store_front.h"
#include "store/store_prepare.h"
#include "message/message_check.h"
#include "store/view/view.h"
#include "store/view/view_chain.h"
#include "store/view/view_active_marks.h"

pal_status pal_snapshot_begin(pal_store *store, pal_str tenant, pal_id session, pal_arena *arena,
        pal_snapshot *out_snapshot, pal_error *err)
{
    return pal_snapshot_begin_ahead(store, tenant, session, NULL, arena, out_snapshot, err);
}

pal_status pal_snapshot_begin_ahead(pal_store *store, pal_str tenant, pal_id session,
        const pal_ahead_wants *wants, pal_arena *arena, pal_snapshot *out_snapshot, pal_error *err)
{
    pal_status status = pal_tenant_check(&tenant, err);

    out_snapshot->store = store;
    out_snapshot->hides_nothing = false;
    if (status != PAL_OK)
        return status;
    return pal_view_session_ahead(
            store->engine, tenant, session, wants, arena, &out_snapshot->row, err);
}

pal_status pal_snapshot_go_back(pal_snapshot *snapshot, uint64_t at_seq, const uint64_t *without,
        size_t without_len, pal_arena *arena, pal_error *err)
{
    pal_session *session = &snapshot->row.session;
    pal_view_past *past = pal_arena_alloc(arena, sizeof(*past));

    if (!past)
        return pal_no_memory(err);
    if (at_seq > session->last_seq + 1)
        return pal_error_set(err, PAL_INVALID,
                "'at_seq' must be from 1 to %llu: the session has %llu messages",
                (unsigned long long)session->last_seq + 1, (unsigned long long)session->last_seq);
    for (size_t i = 0; i < without_len; i++)
        if (without[i] == 0 || without[i] > snapshot->row.mark_number)
            return pal_error_set(err, PAL_INVALID,
                    "'without' has %llu, but the newest mark of the session has the number %llu",
                    (unsigned long long)without[i],
                    (unsigned long long)snapshot->row.mark_number);
    *past = (pal_view_past){
            .session = session->id, .without = without, .without_len = without_len};
    if (at_seq > 0) {
        past->before_seq = at_seq;
        session->last_seq = at_seq - 1;
        session->tokens = 0; /* known only for all messages */
    }
    snapshot->row.past = past;
    return PAL_OK;
}

static bool has_bytes(const pal_part *parts, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (parts[i].data.len > 0 || has_bytes(parts[i].parts, parts[i].parts_len))
            return true;
    return false;
}

/* Encodes the messages as the append did, and adds them to what was read ahead. */
static bool extend_ahead(pal_snapshot *snapshot, const pal_op *append, pal_arena *arena)
{
    const pal_store_backend *backend = snapshot->store->engine->backend;
    size_t len = append->u.append.messages_len;
    pal_op op = *append;
    pal_prepared_batch prepared;
    pal_row *rows = pal_arena_array(arena, len, sizeof(*rows));
    const pal_ahead *longer = NULL;

    op.with_previous = false;
    if (rows &&
            pal_store_prepare(&snapshot->store->options, 0, &op, 1, &prepared, NULL) == PAL_OK &&
            op.status == PAL_OK) {
        for (size_t i = 0; i < len; i++) {
            rows[i] = prepared.works[0].rows[i];
            rows[i].seq = op.u.append.messages[i].seq;
            rows[i].client_id = pal_arena_copy(arena, rows[i].client_id);
            rows[i].body = pal_arena_copy(arena, rows[i].body);
        }
        longer = backend->ahead_extend(snapshot->row.handle.ahead, rows, len, arena);
    }
    if (rows)
        pal_store_prepared_done(&prepared);
    if (!longer || pal_arena_failure(arena))
        return false;
    snapshot->row.handle.ahead = longer;
    return true;
}

bool pal_snapshot_advance(pal_snapshot *snapshot, const pal_op *append, pal_arena *arena)
{
    const pal_message *messages = append->u.append.messages;
    size_t len = append->u.append.messages_len;
    pal_session *session = &snapshot->row.session;

    if (append->mark_number != snapshot->row.mark_number ||
            messages[0].seq != session->last_seq + 1)
        return false;
    for (size_t i = 0; i < len; i++)
        if (has_bytes(messages[i].parts, messages[i].parts_len))
            return false;
    if (snapshot->row.handle.ahead && !extend_ahead(snapshot, append, arena))
        return false;
    session->last_seq += len;
    for (size_t i = 0; i < len; i++)
        session->tokens += messages[i].tokens;
    return true;
}

/* Returns the session's row for reading messages. Marks that hide nothing are left out, so that
 * they are not listed again. */
static pal_session_row row_of(const pal_snapshot *snapshot)
{
    pal_session_row row = snapshot->row;

    if (snapshot->hides_nothing)
        row.mark_number = 0;
    return row;
}

pal_status pal_snapshot_load(const pal_snapshot *snapshot, const pal_message_query *load,
        pal_arena *arena, pal_message_page *out_messages, pal_error *err)
{
    pal_session_row row = row_of(snapshot);

    return pal_view_load(snapshot->store->engine, &row, load, arena, out_messages, err);
}

pal_status pal_snapshot_count(const pal_snapshot *snapshot, uint64_t after_seq, uint64_t before_seq,
        uint64_t *out_count, pal_error *err)
{
    pal_session_row row = row_of(snapshot);
    pal_arena *scratch = pal_arena_new(0);
    uint64_t count = 0;
    pal_piece *pieces;
    size_t len;
    pal_status status;

    if (!scratch)
        return pal_no_memory(err);
    status = pal_chain_pieces(snapshot->store->engine, &row, after_seq, before_seq,
            PAL_PIECES_SHOWN, scratch, &pieces, &len, err);
    for (size_t i = 0; status == PAL_OK && i < len; i++)
        count += pieces[i].last - pieces[i].first + 1;
    if (status == PAL_OK)
        *out_count = count;
    pal_arena_free(scratch);
    return status;
}

pal_status pal_snapshot_active_marks(pal_snapshot *snapshot, pal_arena *arena,
        pal_active_marks *out_active, pal_error *err)
{
    return pal_active_marks_read(snapshot->store->engine, &snapshot->row, arena, out_active,
            &snapshot->hides_nothing, err);
}

pal_status pal_snapshot_find_client_id(const pal_snapshot *snapshot, pal_str client_id,
        pal_arena *arena, pal_message *out_message, pal_error *err)
{
    pal_engine *engine = snapshot->store->engine;
    pal_row_key key = {.handle = snapshot->row.handle, .client_id = client_id};
    pal_row row;
    pal_status status = PAL_NOT_FOUND;

    if (client_id.len > 0)
        status = engine->backend->row_find(engine, &key, arena, &row, NULL, err);
    if (status == PAL_NOT_FOUND)
        return pal_error_set(err, PAL_NOT_FOUND, "a message with client id '%.*s' does not exist",
                PAL_EXCERPT(client_id, 80));
    return status == PAL_OK ? pal_view_decode(&row, arena, out_message, err) : status;
}

/* Encodes both messages as one append would, and compares the rows. */
pal_status pal_snapshot_is_repeat(const pal_snapshot *snapshot, const pal_message *stored,
        const pal_message *given, bool *out_is_repeat, pal_error *err)
{
    pal_message pair[] = {*stored, *given};
    pal_op op = {.kind = PAL_OP_APPEND,
            .session = {{1}}, /* any session will do: nothing is written */
            .u.append = {.messages = pair, .messages_len = 2}};
    pal_prepared_batch prepared;
    pal_status status;

    for (size_t i = 0; i < 2; i++) {
        pair[i].client_id = (pal_str){0};
        pair[i].tokens = 1; /* saves counting them */
    }
    status = pal_store_prepare(&snapshot->store->options, 0, &op, 1, &prepared, err);
    if (status == PAL_OK && op.status != PAL_OK)
        status = pal_error_set(err, op.status, "%s", op.error.message);
    if (status == PAL_OK) {
        const pal_row *rows = prepared.works[0].rows;

        *out_is_repeat = rows[0].role == rows[1].role && rows[0].is_text == rows[1].is_text &&
                pal_str_equal(rows[0].body, rows[1].body);
    }
    pal_store_prepared_done(&prepared);
    return status;
}

pal_status pal_snapshot_inbox_list(const pal_snapshot *snapshot, pal_arena *arena,
        pal_inbox_item **out_items, size_t *out_len, pal_error *err)
{
    pal_engine *engine = snapshot->store->engine;

    return engine->backend->inbox_list(engine, snapshot->row.handle, arena, out_items, out_len,
            err);
}

pal_status pal_snapshot_lease(
        const pal_snapshot *snapshot, pal_arena *arena, pal_lease *out_lease, pal_error *err)
{
    pal_engine *engine = snapshot->store->engine;
    pal_lease lease = {0};
    pal_status status =
            engine->backend->lease_find(engine, snapshot->row.handle, arena, &lease, err);

    if (status == PAL_NOT_FOUND)
        status = PAL_OK;
    if (status == PAL_OK)
        *out_lease = lease;
    return status;
}
