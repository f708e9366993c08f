/* store_op.c - makes the operations of a batch. Plain data: any thread. */
#include "palaver/store_batch.h"

static pal_op op_make(pal_op_kind kind, pal_str tenant, pal_id session)
{
    return (pal_op){.kind = kind, .tenant = tenant, .session = session};
}

pal_op pal_op_create(const pal_session *session)
{
    pal_op op = op_make(PAL_OP_CREATE, session->tenant, session->id);

    op.u.create.session = session;
    return op;
}

pal_op pal_op_find_or_create(const pal_session *session)
{
    pal_op op = pal_op_create(session);

    op.u.create.or_find = true;
    return op;
}

pal_op pal_op_update(const pal_session *session, uint32_t fields)
{
    pal_op op = op_make(PAL_OP_UPDATE, session->tenant, session->id);

    op.u.update.session = session;
    op.u.update.fields = fields;
    return op;
}

pal_op pal_op_append(pal_str tenant, pal_id session, pal_message *messages, size_t messages_len,
        uint64_t expected_seq)
{
    pal_op op = op_make(PAL_OP_APPEND, tenant, session);

    op.u.append.messages = messages;
    op.u.append.messages_len = messages_len;
    op.u.append.expected_seq = expected_seq;
    return op;
}

pal_op pal_op_fork(const pal_session *session, pal_id parent, uint64_t at_seq)
{
    pal_op op = op_make(PAL_OP_FORK, session->tenant, session->id);

    op.u.fork.session = session;
    op.u.fork.parent = parent;
    op.u.fork.at_seq = at_seq;
    return op;
}

pal_op pal_op_adopt(pal_str tenant, pal_id session, pal_id from)
{
    pal_op op = op_make(PAL_OP_ADOPT, tenant, session);

    op.u.adopt.from = from;
    return op;
}

pal_op pal_op_mark(pal_str tenant, pal_id session, pal_mark *mark)
{
    pal_op op = op_make(PAL_OP_MARK, tenant, session);

    op.u.mark = mark;
    return op;
}

pal_op pal_op_delete(pal_str tenant, pal_id session)
{
    return op_make(PAL_OP_DELETE, tenant, session);
}

pal_op pal_op_restore(pal_str tenant, pal_id session)
{
    return op_make(PAL_OP_RESTORE, tenant, session);
}

pal_op pal_op_erase(pal_str tenant, pal_id session, pal_erase_result *out_erasure)
{
    pal_op op = op_make(PAL_OP_ERASE, tenant, session);

    op.u.erasure = out_erasure;
    return op;
}

pal_op pal_op_erase_message(
        pal_str tenant, pal_id session, uint64_t seq, pal_erase_result *out_erasure)
{
    pal_op op = op_make(PAL_OP_ERASE_MESSAGE, tenant, session);

    op.u.erase_message.seq = seq;
    op.u.erase_message.erasure = out_erasure;
    return op;
}

pal_op pal_op_sweep(int64_t trash_ms, uint32_t limit)
{
    pal_op op = {.kind = PAL_OP_SWEEP};

    op.u.sweep.trash_ms = trash_ms;
    op.u.sweep.limit = limit;
    return op;
}

pal_op pal_op_inbox_add(pal_str tenant, pal_id session, pal_inbox_item *item)
{
    pal_op op = op_make(PAL_OP_INBOX_ADD, tenant, session);

    op.u.inbox_item = item;
    return op;
}

pal_op pal_op_inbox_drop(pal_str tenant, pal_id session, pal_id item)
{
    pal_op op = op_make(PAL_OP_INBOX_DROP, tenant, session);

    op.u.inbox_id = item;
    return op;
}

pal_op pal_op_lease_take(pal_str tenant, pal_id session, pal_str owner, int64_t ttl_ms)
{
    pal_op op = op_make(PAL_OP_LEASE_TAKE, tenant, session);

    op.u.lease.owner = owner;
    op.u.lease.ttl_ms = ttl_ms;
    return op;
}

pal_op pal_op_lease_release(pal_str tenant, pal_id session, uint64_t fence)
{
    pal_op op = op_make(PAL_OP_LEASE_RELEASE, tenant, session);

    op.u.lease.fence = fence;
    return op;
}

pal_op pal_op_ledger_add(pal_str tenant, pal_id session, const pal_ledger_row *row)
{
    pal_op op = op_make(PAL_OP_LEDGER_ADD, tenant, session);

    op.u.ledger_row = row;
    return op;
}

pal_op pal_op_blob_put(pal_str tenant, pal_str media_type, pal_str data)
{
    pal_op op = {.kind = PAL_OP_BLOB_PUT, .tenant = tenant};

    op.u.blob.media_type = media_type;
    op.u.blob.data = data;
    return op;
}

pal_op pal_op_record_put(pal_str tenant, pal_record *record, uint64_t expected_version)
{
    pal_op op = {.kind = PAL_OP_RECORD_PUT, .tenant = tenant};

    op.u.record.record = record;
    op.u.record.expected_version = expected_version;
    return op;
}

pal_op pal_op_record_drop(pal_str tenant, pal_record *record)
{
    pal_op op = {.kind = PAL_OP_RECORD_DROP, .tenant = tenant};

    op.u.record.record = record;
    return op;
}
