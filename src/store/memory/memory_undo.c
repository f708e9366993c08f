/* memory_undo.c - takes back the operations of a batch that is applied all or none.
 *
 * Before an operation runs, everything that it may change is noted. Taking it back needs no memory,
 * so it cannot fail. The notes are used in reverse order, so that each finds the state that its
 * operation left.
 *
 * Two effects stay, because they are invisible: a blob that no message refers to, which the sweep
 * removes, and that a session that had expired is in the trash, as after a sweep. */
#include "base/memory.h"
#include "store/memory/memory_store.h"

struct memory_undo {
    pal_work *work;
    pal_id session_id; /* op->session before the operation */
    memory_session *session; /* NULL: the operation changes no session that exists */
    uint64_t last_seq;
    int64_t updated_at;
    uint64_t mark_number;
    size_t marks_len;
    size_t refs_len;
    bool has_inbox;      /* `inbox` is the session's inbox */
    memory_item *inbox;  /* a copy */
    memory_record *record; /* a copy of the record; NULL: there was none */
};

static void note_session(memory_session *session, memory_undo *undo)
{
    undo->session = session;
    undo->last_seq = session->info->record.last_seq;
    undo->updated_at = session->info->record.updated_at;
    undo->mark_number = session->mark_number;
    undo->marks_len = session->marks_len;
    undo->refs_len = session->refs_len;
}

static bool drops_items(const pal_op *op)
{
    return op->kind == PAL_OP_INBOX_DROP ||
            (op->kind == PAL_OP_APPEND && op->u.append.inbox_ids_len > 0);
}

static bool note_record(const memory_engine *engine, const pal_work *work, memory_undo *undo)
{
    const pal_record *wanted = work->op->u.record.record;
    const memory_tenant *tenant = pal_memory_tenant_find((memory_engine *)engine, work->tenant);
    const memory_record *record =
            tenant ? pal_memory_record_get(tenant, wanted->kind, wanted->name) : NULL;

    if (!record)
        return true;
    undo->record = pal_memory_record_copy(record);
    return undo->record != NULL;
}

/* Returns false if there is no memory. */
static bool note(memory_engine *engine, pal_work *work, memory_undo *undo)
{
    pal_op *op = work->op;
    memory_session *session;

    *undo = (memory_undo){.work = work, .session_id = op->session};
    switch (op->kind) {
    case PAL_OP_APPEND:
    case PAL_OP_MARK:
    case PAL_OP_INBOX_ADD:
    case PAL_OP_INBOX_DROP:
        session = pal_memory_session_find(engine, work->tenant, op->session);
        if (session)
            note_session(session, undo);
        if (session && drops_items(op))
            undo->has_inbox = pal_memory_inbox_copy(session, &undo->inbox);
        return !session || !drops_items(op) || undo->has_inbox;
    case PAL_OP_RECORD_PUT:
    case PAL_OP_RECORD_DROP:
        return note_record(engine, work, undo);
    default:
        return true;
    }
}

static void forget(memory_undo *undo)
{
    pal_memory_items_free(undo->inbox);
    undo->inbox = NULL;
    if (undo->record)
        pal_free(undo->record);
    undo->record = NULL;
}

static void take_back_session(memory_engine *engine, memory_undo *undo)
{
    memory_session *session = undo->session;
    const pal_op *op = undo->work->op;

    pal_memory_rows_truncate(engine, session, undo->last_seq);
    while (session->refs_len > undo->refs_len)
        session->refs[--session->refs_len].blob->refs--;
    while (session->marks_len > undo->marks_len)
        pal_free((char *)session->marks[--session->marks_len].body.data);
    session->mark_number = undo->mark_number;
    session->info->record.updated_at = undo->updated_at;
    if (op->kind == PAL_OP_INBOX_ADD)
        pal_memory_inbox_remove(session, undo->work->new_id); /* not there if it was a repeat */
    if (undo->has_inbox) {
        pal_memory_items_free(session->inbox);
        session->inbox = undo->inbox;
        undo->inbox = NULL;
    }
}

static void take_back(memory_engine *engine, memory_undo *undo)
{
    pal_op *op = undo->work->op;

    if (undo->session) {
        take_back_session(engine, undo);
    } else if (op->kind == PAL_OP_RECORD_PUT || op->kind == PAL_OP_RECORD_DROP) {
        pal_memory_record_restore(engine, undo->work, undo->record);
        undo->record = NULL;
    } else if (op->kind == PAL_OP_FORK ||
            (op->kind == PAL_OP_CREATE && !op->u.create.existing)) {
        pal_memory_session_discard(engine,
                pal_memory_session_find(engine, undo->work->tenant, op->session));
    }
    op->session = undo->session_id;
}

/* The cap is applied only when the batch is known to succeed. */
static void cut_rows(memory_engine *engine, const memory_undo *undos, size_t len)
{
    for (size_t i = 0; engine->cap && i < len; i++)
        if (undos[i].session && undos[i].session->rows_len > engine->cap)
            pal_memory_rows_cut(engine, undos[i].session, engine->cap);
}

void pal_memory_apply_all(
        memory_engine *engine, pal_work *works, size_t works_len, bool is_trial)
{
    memory_undo *undos = pal_calloc(works_len, sizeof(*undos));
    size_t cap = engine->cap, len = 0, failed = works_len;

    engine->cap = 0;
    for (size_t i = 0; failed == works_len && i < works_len; i++) {
        pal_op *op = works[i].op;

        if (undos && note(engine, &works[i], &undos[len++]))
            op->status = pal_memory_apply_one(engine, &works[i]);
        else
            op->status = pal_no_memory(&op->error);
        if (op->status != PAL_OK)
            failed = i;
    }
    engine->cap = cap;
    if (failed < works_len || is_trial) {
        for (size_t i = failed < works_len ? failed : len; i-- > 0;)
            take_back(engine, &undos[i]);
    } else {
        cut_rows(engine, undos, len);
    }
    if (failed < works_len)
        pal_work_cancel_all(works, works_len, failed);
    for (size_t i = 0; i < len; i++)
        forget(&undos[i]);
    pal_free(undos);
}
