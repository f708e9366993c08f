/* jsonl_gather.c - runs one batch in memory: applies each operation to the state, and
 * collects the data that must be written for it.
 *
 * The new path of a session is chosen and logged here, before its file is moved.
 * jsonl_commit.c writes the data. */
#include <stdio.h>
#include "base/memory.h"
#include "store/jsonl/jsonl.h"

static void touch(jsonl_batch *batch, jsonl_file *file)
{
    if (file->is_touched)
        return;
    file->is_touched = true;
    file->next_touched = batch->touched;
    batch->touched = file;
}

static void fail(jsonl_batch *batch, pal_status status)
{
    if (!batch->log.failure)
        batch->log.failure = status;
}

/* ---- Gathering ---- */

/* Chooses the path that the file must have now. The path changes in memory immediately, and on disk
 * with the commit. */
static pal_status settle_path(jsonl_batch *batch, const memory_session *session, jsonl_file *file)
{
    char path[JSONL_PATH_MAX];
    pal_status status = pal_jsonl_place(batch->engine, session, file, batch->arena, path, NULL);

    if (status != PAL_OK || (file->path && strcmp(file->path, path) == 0))
        return status;
    if (file->path && !file->moved_from) {
        file->moved_from = pal_malloc(strlen(file->path) + 1);
        if (!file->moved_from)
            return PAL_NO_MEMORY;
        memcpy(file->moved_from, file->path, strlen(file->path) + 1);
        batch->has_moves = true;
    }
    return pal_jsonl_file_set_path(batch->engine, file, path, NULL);
}

/* Adds the session to the batch. Its record is written if the log does not contain it or if it may
 * have changed. */
static memory_session *touch_session(jsonl_batch *batch, pal_str tenant, pal_id id, bool is_changed)
{
    memory_session *session = pal_jsonl_session(batch->engine, tenant, id);
    jsonl_file *file = session ? pal_jsonl_file_get(batch->engine, tenant, id) : NULL;
    pal_status status = PAL_OK;

    if (!session)
        return NULL;
    if (!file) {
        fail(batch, PAL_NO_MEMORY);
        return session;
    }
    touch(batch, file);
    if (is_changed || !file->is_logged) {
        status = settle_path(batch, session, file);
        if (status == PAL_OK)
            pal_jsonl_put_session(batch, session);
        else
            fail(batch, status);
    }
    if (file->is_unmarked)
        pal_jsonl_put_unmark(batch, session);
    file->is_unmarked = false;
    /* Includes marks that were read from PicoClaw's meta file, which we write from now on. */
    for (size_t i = 0; i < session->marks_len; i++)
        if (session->marks[i].number > file->mark_logged)
            pal_jsonl_put_mark(batch, session, &session->marks[i]);
    return session;
}

static pal_status lines_of(jsonl_batch *batch, pal_work *work, jsonl_append *append)
{
    pal_status status = PAL_OK;

    append->from = batch->lines.len;
    append->lines = work->rows_len;
    for (size_t i = 0; status == PAL_OK && i < work->rows_len; i++)
        status =
                pal_jsonl_line_write(&batch->lines, &work->rows[i], batch->arena, &work->op->error);
    append->len = batch->lines.len - append->from;
    if (status != PAL_OK && !batch->lines.failure)
        batch->lines.len = append->from;
    return status;
}

/* If another program left the last line without a newline, adds the newline first. */
static void open_end(jsonl_batch *batch, jsonl_append *append)
{
    if (!append->file->is_open_ended)
        return;
    pal_buf_append_char(&batch->lines, '\n');
    if (batch->lines.failure)
        return;
    memmove(batch->lines.data + append->from + 1, batch->lines.data + append->from, append->len);
    batch->lines.data[append->from] = '\n';
    append->len++;
    append->file->is_open_ended = false;
}

static void gather_lines(jsonl_batch *batch, const pal_work *work, jsonl_append *append)
{
    append->file = pal_jsonl_file_get(batch->engine, work->tenant, work->op->session);
    if (!append->file ||
            !pal_reserve(&batch->appends, &batch->appends_cap, batch->appends_len + 1,
                    sizeof *batch->appends)) {
        fail(batch, PAL_NO_MEMORY);
        return;
    }
    append->at = append->file->size;
    append->sum = append->file->sum;
    append->is_follower = append->file->append_last > 0;
    if (append->is_follower)
        batch->appends[append->file->append_last - 1].next = batch->appends_len + 1;
    append->file->append_last = batch->appends_len + 1;
    open_end(batch, append);
    append->file->size += append->len;
    if (!batch->lines.failure)
        append->file->sum = pal_jsonl_sum(append->file->sum,
                pal_str_make(batch->lines.data + append->from, append->len));
    append->file->lines += append->lines;
    batch->appends[batch->appends_len++] = *append;
    pal_jsonl_put_append(batch, append, work->now_ms);
}

static void gather_ledger(jsonl_batch *batch, const pal_work *work, const pal_ledger_row *given)
{
    pal_ledger_row row = *given;

    if (row.created_at == 0)
        row.created_at = work->now_ms;
    pal_jsonl_put_ledger(batch, work->tenant, work->op->session, &row);
}

static void gather_blobs(jsonl_batch *batch, const pal_work *work)
{
    memory_tenant *tenant = pal_memory_tenant_find(batch->engine->mem, work->tenant);

    for (size_t i = 0; tenant && i < work->blobs_len; i++) {
        const memory_blob *blob =
                pal_map_find(&tenant->blobs, pal_str_make((const char *)work->blobs[i].hash, 32));

        if (blob && work->blobs[i].is_new)
            pal_jsonl_put_blob(batch, work->tenant, blob);
    }
}

static void gather_append(jsonl_batch *batch, pal_work *work, jsonl_append *append)
{
    const pal_op *op = work->op;

    touch_session(batch, work->tenant, op->session, false);
    if (!op->u.append.replayed) {
        gather_blobs(batch, work);
        gather_lines(batch, work, append);
    }
    for (size_t i = 0; i < op->u.append.ledger_len; i++)
        gather_ledger(batch, work, &op->u.append.ledger[i]);
    for (size_t i = 0; i < op->u.append.inbox_ids_len; i++)
        pal_jsonl_put_inbox_drop(batch, work->tenant, op->session, op->u.append.inbox_ids[i]);
}

/* Sessions that may lose their names to this operation, because they have expired. */
typedef struct holders {
    memory_session *items[PAL_ALIASES_MAX + 1];
    size_t len;
} holders;

static void find_holders(jsonl_batch *batch, const pal_work *work, holders *out_holders)
{
    memory_tenant *tenant = pal_memory_tenant_find(batch->engine->mem, work->tenant);
    const pal_op *op = work->op;
    const pal_session *record = NULL;
    memory_session *session;

    out_holders->len = 0;
    if (op->kind == PAL_OP_CREATE)
        record = op->u.create.session;
    else if (op->kind == PAL_OP_FORK)
        record = op->u.fork.session;
    else if (op->kind == PAL_OP_UPDATE)
        record = op->u.update.session;
    else if (op->kind == PAL_OP_RESTORE &&
            (session = pal_jsonl_session(batch->engine, work->tenant, op->session)))
        record = &session->info->record;
    for (size_t i = 0; tenant && record && i <= record->aliases_len && i <= PAL_ALIASES_MAX; i++) {
        session = i == 0 ? pal_memory_name_find(&tenant->keys, record->key)
                         : pal_memory_name_find(&tenant->aliases, record->aliases[i - 1]);
        if (session && pal_memory_session_expired(session, work->now_ms))
            out_holders->items[out_holders->len++] = session;
    }
}

static void gather_holders(jsonl_batch *batch, const holders *before)
{
    for (size_t i = 0; i < before->len; i++)
        if (before->items[i]->info->record.state == PAL_SESSION_TRASH)
            touch_session(
                    batch, before->items[i]->tenant->name, before->items[i]->id, true);
}

/* If the record's session is not in the log, the record would be lost when the log is read again,
 * so the session is added. A session that is in the log needs nothing, because records are not part
 * of its files. */
static void gather_record(jsonl_batch *batch, const pal_work *work)
{
    const pal_record *record = work->op->u.record.record;
    const jsonl_file *file = pal_jsonl_file_find(batch->engine, work->tenant, record->session);

    if (work->op->kind == PAL_OP_RECORD_DROP) {
        pal_jsonl_put_record_drop(batch, work->tenant, record->kind, record->name);
        return;
    }
    if (!pal_id_is_none(record->session) && (!file || !file->is_logged))
        touch_session(batch, work->tenant, record->session, false);
    pal_jsonl_put_record(batch, work->tenant, record);
}

/* The parent of a fork must be in the log too. It may be a session of PicoClaw that was not written
 * to yet. */
static void gather_fork(jsonl_batch *batch, const pal_work *work)
{
    const jsonl_file *parent = pal_jsonl_file_find(batch->engine, work->tenant, work->fork_parent);

    if (parent && !parent->is_logged)
        touch_session(batch, work->tenant, work->fork_parent, false);
    touch_session(batch, work->tenant, work->op->session, true);
}

/* Touches the owner of an erased message and all forks that show it: their checkpoints may have
 * lost their texts, which the meta files have, too. */
static void touch_showing(jsonl_batch *batch, memory_session *session, uint64_t seq)
{
    touch_session(batch, session->tenant->name, session->id, false);
    for (memory_session *child = session->children; child; child = child->next_child)
        if (child->info->record.fork_seq >= seq)
            touch_showing(batch, child, seq);
}

static void gather_erased(jsonl_batch *batch, const pal_work *work)
{
    memory_session *owner = pal_jsonl_session(batch->engine, work->tenant, work->fork_parent);
    jsonl_file *file;

    if (!owner)
        return;
    touch_showing(batch, owner, work->fork_seq);
    file = pal_jsonl_file_find(batch->engine, work->tenant, work->fork_parent);
    if (file)
        file->has_erased = true;
    pal_jsonl_put_erase_message(batch, work->tenant, work->fork_parent, work->fork_seq);
    batch->is_erasing = true;
}

static void gather(jsonl_batch *batch, pal_work *work, jsonl_append *append)
{
    pal_op *op = work->op;
    memory_session *session;

    switch (op->kind) {
    case PAL_OP_CREATE:
        if (!op->u.create.existing)
            touch_session(batch, work->tenant, op->session, true);
        break;
    case PAL_OP_ADOPT:
        if (op->u.adopt.adopted)
            gather_fork(batch, work);
        break;
    case PAL_OP_FORK:
        gather_fork(batch, work);
        break;
    case PAL_OP_UPDATE:
    case PAL_OP_DELETE:
    case PAL_OP_RESTORE:
        touch_session(batch, work->tenant, op->session, true);
        break;
    case PAL_OP_APPEND:
        gather_append(batch, work, append);
        break;
    case PAL_OP_MARK:
        touch_session(batch, work->tenant, op->session, false);
        break;
    case PAL_OP_INBOX_ADD:
        touch_session(batch, work->tenant, op->session, false);
        pal_jsonl_put_inbox_drop(batch, work->tenant, op->session, op->u.inbox_item->id);
        pal_jsonl_put_inbox(batch, work->tenant, op->session, op->u.inbox_item);
        break;
    case PAL_OP_INBOX_DROP:
        pal_jsonl_put_inbox_drop(batch, work->tenant, op->session, op->u.inbox_id);
        break;
    case PAL_OP_LEASE_TAKE:
    case PAL_OP_LEASE_RELEASE:
        session = touch_session(batch, work->tenant, op->session, false);
        if (session)
            pal_jsonl_put_lease(batch, session);
        break;
    case PAL_OP_LEDGER_ADD:
        gather_ledger(batch, work, op->u.ledger_row);
        break;
    case PAL_OP_BLOB_PUT:
        gather_blobs(batch, work);
        break;
    case PAL_OP_ERASE:
        batch->is_erasing = true;
        pal_jsonl_put_erase(batch, work->tenant, op->session);
        /* The session still exists if forks share its rows. */
        touch_session(batch, work->tenant, op->session, true);
        break;
    case PAL_OP_ERASE_MESSAGE:
        gather_erased(batch, work);
        break;
    case PAL_OP_RECORD_PUT:
    case PAL_OP_RECORD_DROP:
        gather_record(batch, work);
        break;
    case PAL_OP_SWEEP:
    case PAL_OP_NONE:
        break;
    }
}

/* ---- Sweeping: the state before and after shows what the sweep did ---- */

typedef struct known_session {
    pal_id id;
    memory_tenant *tenant;
    pal_session_state state;
} known_session;

static size_t look(jsonl_engine *engine, known_session *out_known)
{
    size_t len = 0;

    for (memory_tenant *tenant = engine->mem->tenant_list; tenant; tenant = tenant->next)
        for (memory_session *session = tenant->sessions; session; session = session->next) {
            if (out_known)
                out_known[len] = (known_session){session->id, tenant, session->info->record.state};
            len++;
        }
    return len;
}

static void gather_sweep(jsonl_batch *batch, const known_session *known, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        memory_session *session = pal_jsonl_session(
                batch->engine, known[i].tenant->name, known[i].id);

        if (!session || session->info->record.state == PAL_SESSION_ERASED) {
            if (known[i].state != PAL_SESSION_ERASED)
                pal_jsonl_put_erase(batch, known[i].tenant->name, known[i].id);
            touch_session(batch, known[i].tenant->name, known[i].id, true);
        } else if (session->info->record.state != known[i].state) {
            touch_session(batch, known[i].tenant->name, known[i].id, true);
        }
    }
    batch->is_erasing = true;
}

/* A record that the sweep may remove. */
typedef struct due {
    const memory_tenant *tenant;
    pal_str kind;
    pal_str name;
    struct due *next;
} due;

static due *look_kind(jsonl_batch *batch, const memory_tenant *tenant, const memory_kind *kind,
        int64_t now_ms, due *list)
{
    for (size_t i = 0; i < kind->len; i++) {
        const pal_record *record = &kind->items[i]->record;
        due *one;

        if (!pal_record_expired(record, now_ms))
            continue;
        one = pal_arena_alloc(batch->arena, sizeof *one);
        if (!one)
            return list;
        *one = (due){tenant, kind->name, pal_arena_copy(batch->arena, record->name), list};
        list = one;
    }
    return list;
}

static due *look_due(jsonl_batch *batch, int64_t now_ms)
{
    due *list = NULL;

    for (memory_tenant *tenant = batch->engine->mem->tenant_list; tenant; tenant = tenant->next)
        for (memory_kind *kind = tenant->kind_list; kind; kind = kind->next)
            list = look_kind(batch, tenant, kind, now_ms, list);
    return list;
}

static void gather_due(jsonl_batch *batch, const due *list)
{
    for (; list; list = list->next)
        if (!pal_memory_record_get(list->tenant, list->kind, list->name))
            pal_jsonl_put_record_drop(batch, list->tenant->name, list->kind, list->name);
}

static void apply_sweep(jsonl_batch *batch, pal_work *work)
{
    size_t len = look(batch->engine, NULL);
    known_session *known = pal_arena_array(batch->arena, len + 1, sizeof *known);
    due *records = look_due(batch, work->now_ms);

    if (pal_arena_failure(batch->arena)) {
        work->op->status = pal_no_memory(&work->op->error);
        return;
    }
    look(batch->engine, known);
    pal_store_memory.apply(batch->engine->memory, work, 1);
    gather_sweep(batch, known, len);
    gather_due(batch, records);
}

/* A session whose files cannot be used is never written to. */
static pal_status refuse(jsonl_batch *batch, pal_work *work)
{
    const jsonl_file *file = pal_jsonl_file_find(batch->engine, work->tenant, work->op->session);

    if (!file || !file->trouble)
        file = pal_jsonl_file_find(batch->engine, work->tenant, work->fork_parent);
    if (!file || !file->trouble)
        return PAL_OK;
    work->op->error = *file->trouble;
    return file->trouble->status;
}

void pal_jsonl_apply_one(jsonl_batch *batch, pal_work *work)
{
    pal_op *op = work->op;
    jsonl_append append = {0};
    holders before;

    if (op->kind == PAL_OP_SWEEP) {
        apply_sweep(batch, work);
        return;
    }
    op->status = refuse(batch, work);
    if (op->status == PAL_OK && op->kind == PAL_OP_APPEND)
        op->status = lines_of(batch, work, &append);
    if (op->status != PAL_OK)
        return;
    find_holders(batch, work, &before);
    pal_store_memory.apply(batch->engine->memory, work, 1);
    if (op->status == PAL_OK) {
        gather_holders(batch, &before);
        gather(batch, work, &append);
    }
    if (op->kind == PAL_OP_APPEND && !batch->lines.failure &&
            (op->status != PAL_OK || op->u.append.replayed))
        batch->lines.len = append.from;
}

/* Returns whether the files can take the work. */
static bool fits(jsonl_batch *batch, pal_work *work)
{
    jsonl_append append = {0};

    work->op->status = refuse(batch, work);
    if (work->op->status == PAL_OK && work->op->kind == PAL_OP_APPEND) {
        work->op->status = lines_of(batch, work, &append);
        if (!batch->lines.failure)
            batch->lines.len = append.from;
    }
    return work->op->status == PAL_OK;
}

/* The works are tried in memory first, because what was gathered cannot be taken back. If one of
 * them fails after that, for example because there is no memory, the whole commit fails. */
void pal_jsonl_apply_all(jsonl_batch *batch, pal_work *works, size_t works_len)
{
    for (size_t i = 0; i < works_len; i++) {
        if (fits(batch, &works[i]))
            continue;
        pal_work_cancel_all(works, works_len, i);
        return;
    }
    pal_memory_apply_all(batch->engine->mem, works, works_len, true);
    if (works[0].op->status != PAL_OK)
        return;
    for (size_t i = 0; i < works_len; i++) {
        pal_jsonl_apply_one(batch, &works[i]);
        if (works[i].op->status != PAL_OK)
            fail(batch, works[i].op->status);
    }
}
