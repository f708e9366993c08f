/* memory_erase_message.c - erases one message of "memory:", with everything derived from it.
 *
 * The row stays, without its contents, so that the order of the session has no gap. Nothing here
 * allocates memory, so nothing here can fail halfway. */
#include "base/digest.h"
#include "base/memory.h"
#include "store/memory/memory_words.h"

static memory_row *find_row(memory_session *session, uint64_t seq)
{
    uint64_t last = session->info->record.last_seq, first = last - session->rows_len + 1;

    return seq >= first && seq <= last && session->rows_len > 0
            ? session->rows[session->rows_skip + (seq - first)]
            : NULL;
}

/* ---- Blobs ---- */

/* Returns whether another row of the reference's append mentions the blob. */
static bool is_used(memory_session *session, const memory_ref *ref, uint64_t seq)
{
    char hex[2 * PAL_SHA256_SIZE + 1];

    pal_hex(ref->blob->hash, sizeof ref->blob->hash, hex);
    for (uint64_t at = ref->first_seq; at <= ref->last_seq; at++) {
        const memory_row *row = at != seq ? find_row(session, at) : NULL;

        if (row && memmem(row->row.body.data, row->row.body.len, hex, sizeof hex - 1))
            return true;
    }
    return false;
}

static uint64_t drop_refs(memory_session *session, uint64_t seq)
{
    uint64_t gone = 0;
    size_t kept = 0;

    for (size_t i = 0; i < session->refs_len; i++) {
        memory_ref *ref = &session->refs[i];

        if (seq < ref->first_seq || seq > ref->last_seq || is_used(session, ref, seq))
            session->refs[kept++] = *ref;
        else
            gone += pal_memory_blob_unref(session->tenant, ref->blob);
    }
    session->refs_len = kept;
    return gone;
}

/* ---- What was derived from the message ---- */

static void clear_body(pal_mark *mark)
{
    if (mark->body.len > 0)
        memset((char *)mark->body.data, 0, mark->body.len);
    pal_free((char *)mark->body.data);
    mark->body = (pal_str){0};
}

static void drop_records(memory_session *session, pal_erase_result *erasure)
{
    memory_record *next;

    for (memory_record *record = session->records; record; record = next) {
        next = record->next;
        if (!pal_str_is(record->record.kind, PAL_CONVERSATION_RECORD) &&
                !pal_str_is(record->record.kind, PAL_ANSWER_RECORD))
            continue;
        pal_memory_record_remove(record);
        erasure->records++;
    }
}

/* Of the session and, recursively, its forks that show the message. */
static void drop_derived(memory_session *session, uint64_t seq, pal_erase_result *erasure)
{
    for (size_t i = 0; i < session->marks_len; i++) {
        pal_mark *mark = &session->marks[i];

        if (!pal_mark_quotes(mark, seq))
            continue;
        erasure->checkpoints += mark->kind == PAL_MARK_CHECKPOINT;
        clear_body(mark);
        mark->target = PAL_MARK_ERASED;
    }
    drop_records(session, erasure);
    for (memory_session *child = session->children; child; child = child->next_child)
        if (child->info->record.fork_seq >= seq)
            drop_derived(child, seq, erasure);
}

/* ---- The message ---- */

static void empty_row(memory_engine *engine, memory_row *row)
{
    memory_session *session = row->session;
    pal_str body = pal_str_of(PAL_ERASED_BODY);

    pal_memory_words_remove(engine, row);
    session->info->record.tokens -= row->row.tokens;
    session->info->record.bytes += body.len - row->row.body.len;
    session->tenant->counts.content_bytes += body.len - row->row.body.len;
    if (row->row.body.len > 0)
        memset((char *)row->row.body.data, 0, row->row.body.len);
    row->row.body = body;
    row->row.is_text = false;
    row->row.tokens = 0;
    row->row.flags = PAL_MESSAGE_FLAG_ERASED;
}

void pal_memory_message_erase(memory_engine *engine, memory_session *owner, uint64_t seq,
        pal_erase_result *erasure)
{
    memory_row *row = find_row(owner, seq);

    if (!row || row->row.flags & PAL_MESSAGE_FLAG_ERASED)
        return;
    empty_row(engine, row);
    erasure->messages++;
    erasure->blobs += drop_refs(owner, seq);
    drop_derived(owner, seq, erasure);
}

pal_status pal_memory_erase_message(memory_engine *engine, pal_work *work)
{
    pal_erase_result erasure = {0};
    memory_session *session = NULL, *owner;
    pal_status status = pal_memory_session_for(
            engine, work, MEMORY_ALLOW_EXPIRED | MEMORY_ALLOW_TRASH, &session);

    if (status != PAL_OK)
        return status;
    owner = pal_memory_session_find(engine, work->tenant, work->fork_parent);
    if (!owner || !find_row(owner, work->fork_seq))
        return pal_message_missing(work);
    pal_memory_message_erase(engine, owner, work->fork_seq, &erasure);
    if (work->op->u.erase_message.erasure)
        *work->op->u.erase_message.erasure = erasure;
    return PAL_OK;
}
