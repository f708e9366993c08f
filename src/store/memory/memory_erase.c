/* memory_erase.c - removes data from "memory:": erasure, the sweep, the cap, and closing.
 *
 * Nothing here allocates memory, so nothing here can fail halfway.
 *
 * A session with children cannot be removed, because they show its rows. It stays as a shell in the
 * state PAL_SESSION_ERASED, with the rows up to the largest fork_seq of its children. Children that
 * are shells count too, because their own children see through both. When the last child is
 * removed, the shell is removed as well, and so on upward. */
#include "base/memory.h"
#include "palaver/limits.h"
#include "store/memory/memory_words.h"

/* ---- Blobs ---- */

static void blob_free(memory_tenant *tenant, memory_blob *blob)
{
    pal_map_remove(&tenant->blobs, pal_str_make((const char *)blob->hash, sizeof blob->hash));
    if (blob->prev)
        blob->prev->next = blob->next;
    else
        tenant->blob_list = blob->next;
    if (blob->next)
        blob->next->prev = blob->prev;
    tenant->counts.blobs--;
    tenant->counts.blob_bytes -= blob->data.len;
    pal_free(blob);
}

uint64_t pal_memory_blob_unref(memory_tenant *tenant, memory_blob *blob)
{
    if (--blob->refs > 0)
        return 0;
    blob_free(tenant, blob);
    return 1;
}

/* Drops the references of rows outside first_seq..last_seq. Returns how many blobs were removed. */
static uint64_t refs_keep(memory_session *session, uint64_t first_seq, uint64_t last_seq)
{
    uint64_t gone = 0;
    size_t kept = 0;

    for (size_t i = 0; i < session->refs_len; i++) {
        memory_ref *ref = &session->refs[i];

        if (ref->last_seq >= first_seq && ref->first_seq <= last_seq)
            session->refs[kept++] = *ref;
        else
            gone += pal_memory_blob_unref(session->tenant, ref->blob);
    }
    session->refs_len = kept;
    return gone;
}

/* ---- Rows and marks ---- */

static void row_free(memory_engine *engine, memory_row *row)
{
    pal_session *record = &row->session->info->record;

    pal_memory_arrival_unlink(engine, row);
    record->tokens -= row->row.tokens;
    record->bytes -= row->row.body.len;
    pal_map_remove(&row->session->tenant->rows, mem_id_key(&row->row.id));
    if (row->row.client_id.len > 0)
        pal_map_remove(&row->session->client_ids, row->row.client_id);
    pal_free(row);
}

void pal_memory_rows_cut(memory_engine *engine, memory_session *session, size_t rows_len)
{
    uint64_t last_seq = session->info->record.last_seq;

    while (session->rows_len > rows_len) {
        row_free(engine, session->rows[session->rows_skip++]);
        session->rows_len--;
    }
    if (session->rows_skip >= session->rows_len) {
        memmove(session->rows, session->rows + session->rows_skip,
                session->rows_len * sizeof *session->rows);
        session->rows_skip = 0;
    }
    refs_keep(session, last_seq - session->rows_len + 1, UINT64_MAX);
}

uint64_t pal_memory_rows_truncate(
        memory_engine *engine, memory_session *session, uint64_t last_seq)
{
    pal_session *record = &session->info->record;
    uint64_t gone = 0;

    while (session->rows_len > 0 && record->last_seq > last_seq) {
        row_free(engine, session->rows[session->rows_skip + --session->rows_len]);
        record->last_seq--;
        gone++;
    }
    return gone;
}

static uint64_t marks_truncate(memory_session *session, uint64_t last_seq, bool all)
{
    size_t kept = 0, len = session->marks_len;

    for (size_t i = 0; i < len; i++)
        if (!all && session->marks[i].seq <= last_seq)
            session->marks[kept++] = session->marks[i];
        else
            pal_free((char *)session->marks[i].body.data);
    session->marks_len = kept;
    return len - kept;
}

/* ---- Sessions ---- */

static uint64_t inbox_clear(memory_session *session)
{
    uint64_t gone = 0;

    while (session->inbox) {
        memory_item *item = session->inbox;

        session->inbox = item->next;
        pal_free(item);
        gone++;
    }
    return gone;
}

/* The numbers stay for the tenant's sums. Everything that identifies the session is removed. */
static uint64_t ledger_forget(memory_session *session)
{
    uint64_t count = 0;

    while (session->ledger) {
        memory_entry *entry = session->ledger;

        session->ledger = entry->next_session;
        pal_memory_entry_forget(session->tenant, entry);
        count++;
    }
    return count;
}

static void lease_clear(memory_session *session)
{
    pal_free(session->lease_owner);
    session->lease_owner = NULL;
    session->lease_owner_len = 0;
    session->lease_fence = 0;
    session->lease_expires_at = 0;
}

/* Keeps only what the children need: ids, seqs and counts. */
static void info_blank(memory_info *info)
{
    pal_session *record = &info->record;
    pal_str none = {NULL, 0};

    memset(info->text, 0, info->text_len);
    record->state = PAL_SESSION_ERASED;
    record->key = record->title = record->project = record->agent = none;
    record->scope = record->metadata = record->extra = none;
    record->aliases_len = 0;
    record->expires_at = 0;
    record->deleted_at = 0;
}

static void unlink_child(memory_session *session)
{
    memory_session **link;

    if (!session->parent)
        return;
    for (link = &session->parent->children; *link != session; link = &(*link)->next_child)
        ;
    *link = session->next_child;
}

/* Removes a session from all structures. It must have no rows, marks, inbox items or names. */
static void session_free(memory_engine *engine, memory_session *session)
{
    memory_tenant *tenant = session->tenant;

    mem_state_leave(session);
    unlink_child(session);
    if (session->prev)
        session->prev->next = session->next;
    else
        tenant->sessions = session->next;
    if (session->next)
        session->next->prev = session->prev;
    else
        tenant->sessions_last = session->prev;
    pal_map_remove(&tenant->ids, mem_id_key(&session->id));
    pal_map_remove(
            &engine->handles, pal_str_make((const char *)&session->handle, sizeof session->handle));
    pal_map_done(&session->client_ids);
    pal_free(session->rows);
    pal_free(session->refs);
    pal_free(session->marks);
    pal_free(session->lease_owner);
    pal_free(session->info);
    pal_free(session);
}

void pal_memory_session_discard(memory_engine *engine, memory_session *session)
{
    pal_memory_names_drop(session, &session->info->record, NULL);
    session_free(engine, session);
}

static uint64_t shared_seq(const memory_session *session)
{
    uint64_t seq = 0;

    for (const memory_session *child = session->children; child; child = child->next_child)
        if (child->info->record.fork_seq > seq)
            seq = child->info->record.fork_seq;
    return seq;
}

static void session_empty(memory_engine *engine, memory_session *session, pal_erase_result *erasure)
{
    uint64_t keep_seq = shared_seq(session);

    erasure->messages += pal_memory_rows_truncate(engine, session, keep_seq);
    erasure->marks += marks_truncate(session, keep_seq, session->children == NULL);
    erasure->blobs += refs_keep(session, 0, keep_seq);
}

void pal_memory_shell_trim(memory_engine *engine, memory_session *session)
{
    pal_erase_result ignored = {0};

    session_empty(engine, session, &ignored);
}

static void session_erase(memory_engine *engine, memory_session *session, pal_erase_result *erasure)
{
    pal_memory_names_drop(session, &session->info->record, NULL);
    erasure->aliases += session->info->record.aliases_len;
    erasure->inbox += inbox_clear(session);
    erasure->ledger += ledger_forget(session);
    erasure->records += pal_memory_records_erase(session);
    lease_clear(session);
    session_empty(engine, session, erasure);
    erasure->shared += session->rows_len;
    mem_state_leave(session);
    info_blank(session->info);
    mem_state_enter(session);
    while (session && !session->children && session->info->record.state == PAL_SESSION_ERASED) {
        memory_session *parent = session->parent;

        session_empty(engine, session, erasure);
        session_free(engine, session);
        session = parent;
    }
}

pal_status pal_memory_erase(memory_engine *engine, pal_work *work)
{
    pal_erase_result erasure = {0};
    memory_session *session = NULL;
    pal_status status = pal_memory_session_for(
            engine, work, MEMORY_ALLOW_EXPIRED | MEMORY_ALLOW_TRASH, &session);

    if (status != PAL_OK)
        return status;
    session_erase(engine, session, &erasure);
    if (work->op->u.erasure)
        *work->op->u.erasure = erasure;
    return PAL_OK;
}

/* ---- Sweep ---- */

static void sweep_session(memory_engine *engine, memory_session *session, const pal_work *work,
        pal_sweep_result *result)
{
    const pal_session *record = &session->info->record;
    int64_t trash_ms = work->op->u.sweep.trash_ms;
    pal_erase_result erasure = {0};

    if (pal_memory_session_expired(session, work->now_ms)) {
        pal_memory_session_trash(session, work->now_ms);
        result->trashed++;
    } else if (record->state == PAL_SESSION_TRASH && trash_ms >= 0 &&
            record->deleted_at < work->now_ms - trash_ms) {
        session_erase(engine, session, &erasure);
        result->erased++;
    }
}

/* Erasing a session also removes erased ancestors that have no other child. An adopted parent can
 * come after its child in the list, so the next session is never an erased one. */
static memory_session *next_to_sweep(const memory_session *session)
{
    memory_session *next = session->next;

    while (next && next->info->record.state == PAL_SESSION_ERASED)
        next = next->next;
    return next;
}

static void sweep_tenant(memory_engine *engine, memory_tenant *tenant, const pal_work *work,
        pal_sweep_result *result)
{
    uint32_t limit = work->op->u.sweep.limit;
    memory_session *session, *next;
    memory_blob *blob, *next_blob;

    for (session = tenant->sessions; session && !result->has_more; session = next) {
        next = next_to_sweep(session);
        sweep_session(engine, session, work, result);
        result->has_more = result->trashed + result->erased >= limit;
    }
    for (blob = tenant->blob_list; blob; blob = next_blob) {
        next_blob = blob->next;
        if (blob->refs == 0 && blob->put_at < work->now_ms - PAL_BLOB_UNUSED_MS_MAX)
            blob_free(tenant, blob);
    }
}

pal_status pal_memory_sweep(memory_engine *engine, pal_work *work)
{
    uint32_t records_left = work->op->u.sweep.limit;
    pal_sweep_result result = {0};
    bool has_more = false;

    for (memory_tenant *tenant = engine->tenant_list; tenant; tenant = tenant->next) {
        sweep_tenant(engine, tenant, work, &result);
        has_more = pal_memory_records_sweep(tenant, work->now_ms, &records_left) || has_more;
    }
    result.has_more = result.has_more || has_more;
    work->op->u.sweep.result = result;
    return PAL_OK;
}

/* ---- Closing ---- */

static void names_clear(pal_map *names)
{
    size_t position = 0;
    pal_str text;
    void *name;

    while (pal_map_next(names, &position, &text, &name))
        pal_free(name);
    pal_map_done(names);
}

static void session_clear(memory_engine *engine, memory_session *session)
{
    session->children = NULL;
    session->parent = NULL;
    pal_memory_rows_truncate(engine, session, 0);
    marks_truncate(session, 0, true);
    inbox_clear(session);
    session_free(engine, session);
}

static void tenant_clear(memory_engine *engine, memory_tenant *tenant)
{
    pal_memory_records_clear(tenant);
    pal_memory_words_clear(&tenant->words);
    while (tenant->sessions)
        session_clear(engine, tenant->sessions);
    while (tenant->blob_list)
        blob_free(tenant, tenant->blob_list);
    pal_memory_ledger_clear(tenant);
    names_clear(&tenant->keys);
    names_clear(&tenant->aliases);
    pal_map_done(&tenant->blobs);
    pal_map_done(&tenant->ids);
    pal_map_done(&tenant->rows);
    pal_free(tenant);
}

void pal_memory_engine_clear(memory_engine *engine)
{
    pal_map_done(&engine->places); /* first, so that rows are freed without a lookup of their
                                      words */
    while (engine->tenant_list) {
        memory_tenant *tenant = engine->tenant_list;

        engine->tenant_list = tenant->next;
        tenant_clear(engine, tenant);
    }
    pal_map_done(&engine->tenants);
    pal_map_done(&engine->handles);
}
