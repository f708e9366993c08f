/* memory_append.c - messages, blobs and ledger entries of "memory:".
 *
 * An operation is first prepared as a plan. The objects of a plan exist and are in the maps, so
 * that conflicts within the batch are found, but they are not yet in any list or count. Then the
 * plan is committed, which cannot fail, or aborted, which removes the objects from the maps. */
#include <assert.h>
#include "base/digest.h"
#include "base/memory.h"
#include "store/memory/memory_store.h"

typedef struct memory_plan {
    memory_engine *engine;
    pal_work *work;
    memory_tenant *tenant;
    memory_session *session; /* NULL: the operation concerns only the tenant */
    size_t rows_len;      /* new rows after those of the session, in its array */
    size_t refs_len;      /* new references after those of the session, in its array */
    memory_blob *blobs;      /* new blobs, linked by next */
    memory_entry *entries;   /* new entries, linked by next */
} memory_plan;

static pal_str hash_key(const uint8_t hash[32])
{
    return pal_str_make((const char *)hash, 32);
}

/* ---- Blobs ---- */

static pal_status plan_new_blob(
        memory_plan *plan, const pal_work_blob *given, memory_blob **out_blob)
{
    char *cursor;
    memory_blob *blob =
            pal_memory_alloc(sizeof *blob, given->media_type.len + given->data.len, &cursor);

    if (!blob)
        return pal_no_memory(&plan->work->op->error);
    memcpy(blob->hash, given->hash, sizeof blob->hash);
    blob->media_type = pal_memory_put(&cursor, given->media_type);
    blob->data = pal_memory_put(&cursor, given->data);
    if (pal_map_set(&plan->tenant->blobs, hash_key(blob->hash), blob) != PAL_OK) {
        pal_free(blob);
        return pal_no_memory(&plan->work->op->error);
    }
    blob->put_at = plan->work->now_ms;
    blob->next = plan->blobs;
    plan->blobs = blob;
    *out_blob = blob;
    return PAL_OK;
}

static pal_status plan_blob(memory_plan *plan, const pal_work_blob *given, memory_blob **out_blob)
{
    memory_blob *blob = pal_map_find(&plan->tenant->blobs, hash_key(given->hash));
    char hex[65];

    if (!blob && given->is_new)
        return plan_new_blob(plan, given, out_blob);
    if (!blob) {
        pal_hex(given->hash, sizeof given->hash, hex);
        return pal_error_set(
                &plan->work->op->error, PAL_NOT_FOUND, "blob 'sha256:%s' does not exist", hex);
    }
    *out_blob = blob;
    return PAL_OK;
}

static pal_status plan_refs(memory_plan *plan)
{
    memory_session *session = plan->session;
    const pal_work *work = plan->work;
    uint64_t last_seq = session->info->record.last_seq;

    if (!pal_reserve(&session->refs, &session->refs_cap, session->refs_len + work->blobs_len,
                sizeof *session->refs))
        return pal_no_memory(&plan->work->op->error);
    for (size_t i = 0; i < work->blobs_len; i++) {
        memory_ref *ref = &session->refs[session->refs_len + i];
        pal_status status = plan_blob(plan, &work->blobs[i], &ref->blob);

        if (status != PAL_OK)
            return status;
        ref->first_seq = last_seq + 1;
        ref->last_seq = last_seq + work->rows_len;
        plan->refs_len++;
    }
    return PAL_OK;
}

/* ---- Ledger ---- */

/* A call that is already recorded is not added again. */
static pal_status plan_entry(memory_plan *plan, const pal_ledger_row *given)
{
    bool has_id = given->request_id.len > 0;
    memory_entry *entry;

    if (has_id && pal_map_find(&plan->tenant->requests, given->request_id))
        return PAL_OK;
    entry = pal_memory_entry_new(plan->tenant, given, plan->work->now_ms);
    if (!entry)
        return pal_no_memory(&plan->work->op->error);
    if (has_id && pal_map_set(&plan->tenant->requests, entry->row.request_id, entry) != PAL_OK) {
        pal_memory_entry_free(plan->tenant, entry);
        return pal_no_memory(&plan->work->op->error);
    }
    entry->session = plan->session;
    entry->next = plan->entries;
    plan->entries = entry;
    return PAL_OK;
}

static pal_status plan_entries(memory_plan *plan)
{
    const pal_op *op = plan->work->op;
    pal_status status = PAL_OK;

    for (size_t i = 0; status == PAL_OK && i < op->u.append.ledger_len; i++)
        status = plan_entry(plan, &op->u.append.ledger[i]);
    return status;
}

/* ---- Rows ---- */

static memory_row *row_new(const pal_row *given, memory_session *session)
{
    char *cursor;
    memory_row *row =
            pal_memory_alloc(sizeof *row, given->client_id.len + given->body.len, &cursor);

    if (!row)
        return NULL;
    row->session = session;
    row->row = *given;
    row->row.client_id = pal_memory_put(&cursor, given->client_id);
    row->row.body = pal_memory_put(&cursor, given->body);
    return row;
}

/* Adds the row to the maps of ids and of client ids, or to neither. */
static bool row_index(memory_row *row)
{
    if (pal_map_set(&row->session->tenant->rows, mem_id_key(&row->row.id), row) != PAL_OK)
        return false;
    if (row->row.client_id.len == 0 ||
            pal_map_set(&row->session->client_ids, row->row.client_id, row) == PAL_OK)
        return true;
    pal_map_remove(&row->session->tenant->rows, mem_id_key(&row->row.id));
    return false;
}

static pal_status plan_row(memory_plan *plan, const pal_row *given)
{
    memory_session *session = plan->session;
    char text[PAL_ID_TEXT_SIZE];
    memory_row *row;

    if (pal_map_find(&plan->tenant->rows, mem_id_key(&given->id))) {
        pal_id_to_text(given->id, text);
        return pal_error_set(
                &plan->work->op->error, PAL_CONFLICT, "message '%s' already exists", text);
    }
    row = row_new(given, session);
    if (!row || !row_index(row)) {
        pal_free(row);
        return pal_no_memory(&plan->work->op->error);
    }
    row->row.seq = session->info->record.last_seq + plan->rows_len + 1;
    session->rows[session->rows_skip + session->rows_len + plan->rows_len++] = row;
    return PAL_OK;
}

static pal_status plan_rows(memory_plan *plan)
{
    memory_session *session = plan->session;
    pal_status status = PAL_OK;

    if (!pal_reserve(&session->rows, &session->rows_cap,
                session->rows_skip + session->rows_len + plan->work->rows_len,
                sizeof(memory_row *)))
        return pal_no_memory(&plan->work->op->error);
    for (size_t i = 0; status == PAL_OK && i < plan->work->rows_len; i++)
        status = plan_row(plan, &plan->work->rows[i]);
    return status;
}

/* ---- The end of a plan ---- */

static void plan_abort(memory_plan *plan)
{
    memory_session *session = plan->session;

    while (plan->rows_len > 0) {
        memory_row *row = session->rows[session->rows_skip + session->rows_len + --plan->rows_len];

        pal_map_remove(&plan->tenant->rows, mem_id_key(&row->row.id));
        if (row->row.client_id.len > 0)
            pal_map_remove(&session->client_ids, row->row.client_id);
        pal_free(row);
    }
    while (plan->blobs) {
        memory_blob *blob = plan->blobs;

        plan->blobs = blob->next;
        pal_map_remove(&plan->tenant->blobs, hash_key(blob->hash));
        pal_free(blob);
    }
    while (plan->entries) {
        memory_entry *entry = plan->entries;

        plan->entries = entry->next;
        if (entry->row.request_id.len > 0)
            pal_map_remove(&plan->tenant->requests, entry->row.request_id);
        pal_memory_entry_free(plan->tenant, entry);
    }
}

static void commit_blobs(memory_plan *plan)
{
    while (plan->blobs) {
        memory_blob *blob = plan->blobs;

        plan->blobs = blob->next;
        blob->prev = NULL;
        blob->next = plan->tenant->blob_list;
        if (blob->next)
            blob->next->prev = blob;
        plan->tenant->blob_list = blob;
        plan->tenant->counts.blobs++;
        plan->tenant->counts.blob_bytes += blob->data.len;
    }
}

static void commit_entries(memory_plan *plan)
{
    while (plan->entries) {
        memory_entry *entry = plan->entries;

        plan->entries = entry->next;
        pal_memory_entry_link(plan->tenant, entry);
    }
}

static void commit_rows(memory_plan *plan)
{
    memory_session *session = plan->session;
    pal_session *record = &session->info->record;

    for (size_t i = 0; i < plan->rows_len; i++) {
        memory_row *row = session->rows[session->rows_skip + session->rows_len + i];

        pal_memory_arrival_link(plan->engine, row);
        plan->work->rows[i].seq = row->row.seq;
        record->tokens += row->row.tokens;
        record->bytes += row->row.body.len;
    }
    session->rows_len += plan->rows_len;
    record->last_seq += plan->rows_len;
    if (!plan->work->copied)
        record->updated_at = plan->work->now_ms;
    for (size_t i = 0; i < plan->refs_len; i++)
        session->refs[session->refs_len + i].blob->refs++;
    session->refs_len += plan->refs_len;
    if (plan->engine->cap && session->rows_len > plan->engine->cap)
        pal_memory_rows_cut(plan->engine, session, plan->engine->cap);
}

static void plan_commit(memory_plan *plan)
{
    commit_blobs(plan);
    commit_entries(plan);
    if (plan->rows_len > 0)
        commit_rows(plan);
}

/* ---- Operations ---- */

static memory_row *known_row(const memory_session *session, const pal_row *given)
{
    return given->client_id.len ? pal_map_find(&session->client_ids, given->client_id) : NULL;
}

static bool is_replay(const memory_session *session, const pal_work *work)
{
    for (size_t i = 0; i < work->rows_len; i++)
        if (known_row(session, &work->rows[i]))
            return true;
    return false;
}

/* Every message must have the same content as the first time. */
static pal_status check_replay(const memory_session *session, pal_work *work)
{
    for (size_t i = 0; i < work->rows_len; i++) {
        const pal_row *given = &work->rows[i];
        const memory_row *known = known_row(session, given);

        if (!known)
            return pal_error_set(&work->op->error, PAL_CONFLICT,
                    "some of these messages were appended before, but not all");
        if (known->row.flags & PAL_MESSAGE_FLAG_ERASED)
            continue; /* its contents are not known any more */
        if (known->row.role != given->role || known->row.is_text != given->is_text ||
                !pal_str_equal(known->row.body, given->body))
            return pal_error_set(&work->op->error, PAL_CONFLICT,
                    "client id '%.*s' was used for another message", PAL_STR_ARG(given->client_id));
    }
    return PAL_OK;
}

static void fill_replayed(const memory_session *session, pal_work *work)
{
    for (size_t i = 0; i < work->rows_len; i++) {
        const memory_row *known = known_row(session, &work->rows[i]);

        work->rows[i].seq = known->row.seq;
        work->rows[i].id = known->row.id;
        work->rows[i].created_at = known->row.created_at;
        work->rows[i].tokens = known->row.tokens;
    }
}

static pal_status plan_append(memory_plan *plan)
{
    pal_work *work = plan->work;
    uint64_t expected_seq = work->op->u.append.expected_seq;
    uint64_t last_seq = plan->session->info->record.last_seq;
    pal_status status;

    if (work->op->u.append.replayed)
        return check_replay(plan->session, work);
    if (expected_seq != PAL_SEQ_ANY && expected_seq != last_seq)
        return pal_error_set(&work->op->error, PAL_CONFLICT, "the last seq is %llu, not %llu",
                (unsigned long long)last_seq, (unsigned long long)expected_seq);
    status = plan_refs(plan);
    return status == PAL_OK ? plan_rows(plan) : status;
}

pal_status pal_memory_append(memory_engine *engine, pal_work *work)
{
    pal_op *op = work->op;
    memory_plan plan = {.engine = engine, .work = work};
    pal_status status = pal_memory_session_for(engine, work, 0, &plan.session);

    if (status != PAL_OK)
        return status;
    plan.tenant = plan.session->tenant;
    op->u.append.replayed = is_replay(plan.session, work);
    op->mark_number = plan.session->mark_number;
    status = plan_append(&plan);
    if (status == PAL_OK)
        status = plan_entries(&plan);
    if (status != PAL_OK) {
        plan_abort(&plan);
        return status;
    }
    if (op->u.append.replayed)
        fill_replayed(plan.session, work);
    for (size_t i = 0; i < op->u.append.inbox_ids_len; i++)
        pal_memory_inbox_remove(plan.session, op->u.append.inbox_ids[i]);
    plan_commit(&plan);
    return PAL_OK;
}

pal_status pal_memory_ledger_add(memory_engine *engine, pal_work *work)
{
    memory_plan plan = {.engine = engine, .work = work};
    pal_status status = PAL_OK;

    /* A call that was made is recorded even if its session was deleted meanwhile. */
    if (!pal_id_is_none(work->op->session))
        status = pal_memory_session_for(
                engine, work, MEMORY_ALLOW_EXPIRED | MEMORY_ALLOW_TRASH, &plan.session);
    if (status != PAL_OK)
        return status;
    plan.tenant = pal_memory_tenant_get(engine, work->tenant);
    if (!plan.tenant)
        return pal_no_memory(&plan.work->op->error);
    status = plan_entry(&plan, work->op->u.ledger_row);
    if (status == PAL_OK)
        plan_commit(&plan);
    return status;
}

pal_status pal_memory_blob_put(memory_engine *engine, pal_work *work)
{
    memory_plan plan = {.engine = engine, .work = work};
    memory_blob *blob = NULL;
    pal_status status;

    assert(work->blobs_len == 1);
    plan.tenant = pal_memory_tenant_get(engine, work->tenant);
    if (!plan.tenant)
        return pal_no_memory(&plan.work->op->error);
    status = plan_blob(&plan, &work->blobs[0], &blob);
    if (status != PAL_OK)
        return status;
    /* A blob that is stored again is kept for another day, because its sender is about to refer to
     * it. */
    blob->put_at = work->now_ms;
    plan_commit(&plan);
    return PAL_OK;
}
