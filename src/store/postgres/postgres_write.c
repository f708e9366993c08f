/* postgres_write.c - the second flight of a batch: writes the difference between the copy before
 * and after, with one statement per table, and commits.
 *
 * A crash or a lost connection at any point is harmless. Before the server has executed the COMMIT,
 * the transaction is rolled back and nothing was written. After it, everything was. The number of
 * the batch is written in the same transaction, so that the row of the node shows which of the two
 * happened (postgres_node.c). */
#include <string.h>

#include "base/memory.h"
#include "base/sum.h"
#include "store/postgres/postgres_copy.h"
#include "store/view/view_marks.h"


/* Parameters of all statements, in the order in which they are sent. Names are given up before they
 * are taken. */
enum {
    SESSION_UNKEY,
    ALIAS_CLEAR,
    SESSION_SET,
    SESSION_ADD,
    HEAD_SET,
    HEAD_ADD,
    ALIAS_ADD,
    BLOB_ADD,
    BLOB_PART_ADD,
    BLOB_TOUCH,
    MESSAGE_ADD,
    BLOB_REF_ADD,
    MARK_ADD,
    INBOX_DROP,
    INBOX_ADD,
    LEDGER_ADD,
    LEDGER_HOUR_ADD,
    RECORD_DROP,
    RECORD_SET,
    RECORD_ADD,
    TABLES,
};

typedef struct table {
    pal_postgres_sql sql;
    const char *types; /* types of the arrays, as for pal_postgres_put_arrays() */
} table;

static const table tables[TABLES] = {
        [SESSION_UNKEY] = {PAL_POSTGRES_SESSION_UNKEY, "iu"},
        [ALIAS_CLEAR] = {PAL_POSTGRES_ALIAS_CLEAR, "iu"},
        [SESSION_SET] = {PAL_POSTGRES_SESSION_SET, "iuiiuiibtttytttt"},
        [SESSION_ADD] = {PAL_POSTGRES_SESSION_ADD, "iuiiuiibtttytttt"},
        [HEAD_SET] = {PAL_POSTGRES_HEAD_SET, "iuiiiiiiiiiiittt"},
        [HEAD_ADD] = {PAL_POSTGRES_HEAD_ADD, "iuiiiiiiiiiiittt"},
        [ALIAS_ADD] = {PAL_POSTGRES_ALIAS_ADD, "itu"},
        [BLOB_ADD] = {PAL_POSTGRES_BLOB_ADD, "iyiit"},
        [BLOB_PART_ADD] = {PAL_POSTGRES_BLOB_PART_ADD, "iyiy"},
        [BLOB_TOUCH] = {PAL_POSTGRES_BLOB_TOUCH, "iyi"},
        [MESSAGE_ADD] = {PAL_POSTGRES_MESSAGE_ADD, "iuiuiiiibtyu"},
        [BLOB_REF_ADD] = {PAL_POSTGRES_BLOB_REF_ADD, "iyui"},
        [MARK_ADD] = {PAL_POSTGRES_MARK_ADD, "iuiiiiiiby"},
        [INBOX_DROP] = {PAL_POSTGRES_INBOX_DROP, "iui"},
        [INBOX_ADD] = {PAL_POSTGRES_INBOX_ADD, "iuiuitty"},
        [LEDGER_ADD] = {PAL_POSTGRES_LEDGER_ADD, "iuuiiiiiiittttttt"},
        [LEDGER_HOUR_ADD] = {PAL_POSTGRES_LEDGER_HOUR_ADD, "itiiiiiii"},
        [RECORD_DROP] = {PAL_POSTGRES_RECORD_DROP, "itt"},
        [RECORD_SET] = {PAL_POSTGRES_RECORD_SET, "ittuiiiiy"},
        [RECORD_ADD] = {PAL_POSTGRES_RECORD_ADD, "ittuiiiiy"},
};

typedef struct changes {
    pal_postgres_copy *copy;
    pal_postgres_params params[TABLES];
    int64_t tenant; /* number of the tenant that is being written */
} changes;

static void changes_init(changes *change, pal_postgres_copy *copy)
{
    memset(change, 0, sizeof *change);
    change->copy = copy;
    for (size_t i = 0; i < TABLES; i++)
        pal_postgres_put_arrays(&change->params[i], tables[i].types);
}

static void changes_done(changes *change)
{
    for (size_t i = 0; i < TABLES; i++)
        pal_postgres_params_done(&change->params[i]);
}

/* A row that is being added to the arrays of a table, column by column. */
typedef struct row_maker {
    pal_postgres_param *next;
} row_maker;

static row_maker begin_row(changes *change, size_t index)
{
    row_maker row = {change->params[index].items};

    pal_postgres_add_int(row.next++, change->tenant);
    return row;
}

static void add_int(row_maker *row, int64_t number)
{
    pal_postgres_add_int(row->next++, number);
}

static void add_int_or_null(row_maker *row, int64_t number)
{
    pal_postgres_add_int_or_null(row->next++, number);
}

static void add_bool(row_maker *row, bool value)
{
    pal_postgres_add_bool(row->next++, value);
}

static void add_text(row_maker *row, pal_str text)
{
    pal_postgres_add_text(row->next++, text);
}

static void add_bytes(row_maker *row, pal_str bytes)
{
    pal_postgres_add_bytes(row->next++, bytes);
}

static void add_id(row_maker *row, pal_id id)
{
    pal_postgres_add_id(row->next++, id);
}

/* ---- Sessions ---- */

static bool same_aliases(const pal_session *a, const pal_session *b)
{
    bool same = a->aliases_len == b->aliases_len && a->is_routed == b->is_routed &&
            a->state == b->state && pal_str_equal(a->alias_apart, b->alias_apart);

    for (size_t i = 0; same && i < a->aliases_len; i++)
        same = pal_str_equal(a->aliases[i], b->aliases[i]);
    return same;
}

static bool same_session(const pal_session *a, const pal_session *b, uint64_t fork_mark)
{
    return same_aliases(a, b) && a->deleted_at == b->deleted_at && a->fork_seq == b->fork_seq &&
            a->fork_mark == fork_mark && pal_id_equal(a->parent_id, b->parent_id) &&
            pal_str_equal(a->key, b->key) && pal_str_equal(a->title, b->title) &&
            pal_str_equal(a->scope, b->scope) && pal_str_equal(a->metadata, b->metadata) &&
            pal_str_equal(a->extra, b->extra);
}

static bool same_head(const pal_postgres_before *before, const memory_session *session)
{
    const pal_session *a = &before->record, *b = &session->info->record;

    return a->last_seq == b->last_seq && before->mark_number == session->mark_number &&
            a->tokens == b->tokens && a->bytes == b->bytes && a->updated_at == b->updated_at &&
            a->expires_at == b->expires_at && a->state == b->state &&
            pal_str_equal(a->project, b->project) && pal_str_equal(a->agent, b->agent) &&
            before->fence == session->lease_fence &&
            before->lease_until == session->lease_expires_at &&
            before->lease_ttl == session->lease_ttl_ms &&
            pal_str_equal(before->owner,
                    pal_str_make(session->lease_owner, session->lease_owner_len));
}

/* A session in the trash keeps its key apart, where other sessions can use it. */
static bool holds_key(const pal_session *record)
{
    return record->state == PAL_SESSION_ACTIVE || record->state == PAL_SESSION_QUARANTINED;
}

static void write_session(changes *change, size_t index, const memory_session *session)
{
    const pal_session *record = &session->info->record;
    row_maker row = begin_row(change, index);
    pal_str none = {0};
    pal_buf aliases;

    pal_buf_init(&aliases, PAL_ALIASES_MAX * (PAL_KEY_LEN_MAX + 1));
    for (size_t i = 0; i < record->aliases_len; i++) {
        pal_buf_append_str(&aliases, record->aliases[i]);
        pal_buf_append_char(&aliases, 0);
    }
    add_id(&row, session->id);
    add_int(&row, record->created_at);
    add_int_or_null(&row, record->deleted_at);
    add_id(&row, record->parent_id);
    add_int(&row, (int64_t)record->fork_seq);
    add_int(&row, (int64_t)session->fork_mark);
    add_bool(&row, record->is_routed);
    add_text(&row, holds_key(record) ? record->key : none);
    add_text(&row, holds_key(record) ? none : record->key);
    add_text(&row, record->title);
    if (aliases.failure)
        row.next->bytes.failure = aliases.failure;
    add_bytes(&row, pal_buf_str(&aliases));
    add_text(&row, record->alias_apart);
    add_text(&row, record->scope);
    add_text(&row, record->metadata);
    add_text(&row, record->extra);
    pal_buf_done(&aliases);
}

static void write_head(changes *change, size_t index, const memory_session *session)
{
    const pal_session *record = &session->info->record;
    row_maker row = begin_row(change, index);

    add_id(&row, session->id);
    add_int(&row, (int64_t)record->last_seq);
    add_int(&row, (int64_t)session->mark_number);
    add_int(&row, (int64_t)record->tokens);
    add_int(&row, (int64_t)record->bytes);
    add_int(&row, record->updated_at);
    add_int_or_null(&row, record->expires_at);
    add_int(&row, (int64_t)session->lease_fence);
    add_int(&row, session->lease_expires_at);
    add_int(&row, session->lease_ttl_ms);
    add_int(&row, pal_postgres_minute(record->updated_at));
    add_int(&row, record->state);
    add_text(&row, pal_str_make(session->lease_owner, session->lease_owner_len));
    add_text(&row, record->project);
    add_text(&row, record->agent);
}

/* A list may name an alias twice. */
static bool is_first(const pal_session *record, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (pal_str_equal(record->aliases[i], record->aliases[index]))
            return false;
    return true;
}

static void write_aliases(changes *change, const memory_session *session)
{
    const pal_session *record = &session->info->record;

    for (size_t i = 0; i < record->aliases_len; i++) {
        row_maker row;

        if (pal_memory_name_find(&session->tenant->aliases, record->aliases[i]) != session ||
                !is_first(record, i))
            continue;
        row = begin_row(change, ALIAS_ADD);
        add_text(&row, record->aliases[i]);
        add_id(&row, session->id);
    }
}

static void write_changed(
        changes *change, const memory_session *session, const pal_postgres_before *before)
{
    const pal_session *record = &session->info->record;
    row_maker row;

    if (!same_session(&before->record, record, session->fork_mark)) {
        write_session(change, SESSION_SET, session);
        if (before->has_key &&
                (!holds_key(record) || !pal_str_equal(before->record.key, record->key))) {
            row = begin_row(change, SESSION_UNKEY);
            add_id(&row, session->id);
        }
        if (!same_aliases(&before->record, record)) {
            row = begin_row(change, ALIAS_CLEAR);
            add_id(&row, session->id);
            write_aliases(change, session);
        }
    }
    if (!same_head(before, session))
        write_head(change, HEAD_SET, session);
}

static void write_new(changes *change, const memory_session *session)
{
    write_session(change, SESSION_ADD, session);
    write_head(change, HEAD_ADD, session);
    write_aliases(change, session);
}

/* ---- The contents of sessions ---- */

static void write_rows(changes *change, const memory_session *session)
{
    for (size_t i = 0; i < session->rows_len; i++) {
        const pal_row *given = &session->rows[session->rows_skip + i]->row;
        row_maker row = begin_row(change, MESSAGE_ADD);

        add_id(&row, session->id);
        add_int(&row, (int64_t)given->seq);
        add_id(&row, given->id);
        add_int(&row, given->created_at);
        add_int(&row, given->tokens);
        add_int(&row, given->flags);
        add_int(&row, given->role);
        add_bool(&row, given->is_text);
        add_text(&row, given->client_id);
        add_bytes(&row, given->body);
        add_id(&row, given->turn_id);
    }
}

static void write_marks(
        changes *change, const memory_session *session, const pal_postgres_before *before)
{
    for (size_t i = 0; i < session->marks_len; i++) {
        const pal_mark *mark = &session->marks[i];
        row_maker row;

        if (before && mark->number <= before->mark_number)
            continue;
        row = begin_row(change, MARK_ADD);
        add_id(&row, session->id);
        add_int(&row, (int64_t)mark->number);
        add_int(&row, (int64_t)mark->seq);
        add_int(&row, (int64_t)mark->through_seq);
        add_int(&row, (int64_t)mark->target);
        add_int(&row, mark->created_at);
        add_int(&row, mark->kind);
        add_bool(&row, pal_mark_bears_on_view(mark->kind));
        add_bytes(&row, mark->body);
    }
}

static void write_refs(changes *change, const memory_session *session)
{
    for (size_t i = 0; i < session->refs_len; i++) {
        const memory_ref *ref = &session->refs[i];
        row_maker row = begin_row(change, BLOB_REF_ADD);

        add_bytes(&row, pal_str_make((const char *)ref->blob->hash, sizeof ref->blob->hash));
        add_id(&row, session->id);
        add_int(&row, (int64_t)ref->first_seq);
    }
}

static bool has_item(const memory_session *session, pal_id id)
{
    for (const memory_item *item = session->inbox; item; item = item->next)
        if (pal_id_equal(item->item.id, id))
            return true;
    return false;
}

static bool was_there(const pal_postgres_before *before, pal_id id)
{
    for (size_t i = 0; before && i < before->inbox_len; i++)
        if (pal_id_equal(before->inbox[i].id, id))
            return true;
    return false;
}

static void write_inbox(
        changes *change, const memory_session *session, const pal_postgres_before *before)
{
    int64_t number = 0;

    for (size_t i = 0; before && i < before->inbox_len; i++) {
        number = before->inbox[i].number;
        if (!has_item(session, before->inbox[i].id)) {
            row_maker row = begin_row(change, INBOX_DROP);

            add_id(&row, session->id);
            add_int(&row, number);
        }
    }
    for (const memory_item *item = session->inbox; item; item = item->next) {
        row_maker row;

        if (was_there(before, item->item.id))
            continue;
        row = begin_row(change, INBOX_ADD);
        add_id(&row, session->id);
        add_int(&row, ++number);
        add_id(&row, item->item.id);
        add_int(&row, item->item.created_at);
        add_text(&row, item->item.client_id);
        add_text(&row, item->item.delivery);
        add_bytes(&row, item->item.body);
    }
}

/* ---- Blobs ---- */

static void write_blob(changes *change, const memory_blob *blob)
{
    pal_str hash = pal_str_make((const char *)blob->hash, sizeof blob->hash);
    row_maker row = begin_row(change, BLOB_ADD);
    int64_t part = 0;

    add_bytes(&row, hash);
    add_int(&row, (int64_t)blob->data.len);
    add_int(&row, blob->put_at);
    add_text(&row, blob->media_type);
    for (size_t at = 0; at < blob->data.len; at += PAL_POSTGRES_PART_BYTES) {
        size_t left = blob->data.len - at;

        row = begin_row(change, BLOB_PART_ADD);
        add_bytes(&row, hash);
        add_int(&row, part++);
        left = left < PAL_POSTGRES_PART_BYTES ? left : PAL_POSTGRES_PART_BYTES;
        add_bytes(&row, pal_str_make(blob->data.data + at, left));
    }
}

/* A known blob that is used again is young again, if it is older than half of what the sweep keeps.
 * So the sweep never removes a blob that a batch refers to: it waits for the batch and then finds
 * the blob young. */
static void write_known_blobs(changes *change, const memory_tenant *tenant, int64_t now_ms)
{
    const pal_postgres_copy *copy = change->copy;

    for (size_t i = 0; i < copy->blobs_len; i++) {
        memory_blob *blob = copy->blobs[i];
        pal_str hash = pal_str_make((const char *)blob->hash, sizeof blob->hash);
        row_maker row;

        if (pal_map_find(&tenant->blobs, hash) != blob)
            continue;
        if (blob->refs > 0 && blob->put_at < now_ms - PAL_BLOB_UNUSED_MS_MAX / 2)
            blob->put_at = now_ms;
        if (blob->put_at == copy->blobs_put_at[i])
            continue;
        row = begin_row(change, BLOB_TOUCH);
        add_bytes(&row, hash);
        add_int(&row, blob->put_at);
    }
}

/* ---- Ledger ---- */

static void add_numbers(row_maker *row, const pal_ledger_row *given)
{
    add_int(row, (int64_t)pal_sum_cap(given->usage.input));
    add_int(row, (int64_t)pal_sum_cap(given->usage.cache_read));
    add_int(row, (int64_t)pal_sum_cap(given->usage.cache_write));
    add_int(row, (int64_t)pal_sum_cap(given->usage.output));
    add_int(row, (int64_t)pal_sum_cap(given->usage.reasoning));
    add_int(row, given->cost_micros);
}

static void write_entry(changes *change, const memory_entry *entry)
{
    const pal_ledger_row *given = &entry->row;
    pal_id none = {{0}};
    row_maker row = begin_row(change, LEDGER_ADD);

    add_id(&row, pal_id_new());
    add_id(&row, entry->session ? entry->session->id : none);
    add_int(&row, given->created_at);
    add_numbers(&row, given);
    add_text(&row, given->agent);
    add_text(&row, given->request_id);
    add_text(&row, given->turn_id);
    add_text(&row, given->purpose);
    add_text(&row, given->provider);
    add_text(&row, given->model);
    add_text(&row, given->price_version);
    row = begin_row(change, LEDGER_HOUR_ADD);
    add_text(&row, given->agent);
    add_int(&row, given->created_at / PAL_LEDGER_HOUR_MS);
    add_numbers(&row, given);
}

/* ---- Records ---- */

static void write_record(changes *change, const pal_work *work)
{
    const pal_record *named = work->op->u.record.record;
    pal_postgres_copy *copy = change->copy;
    pal_str key = pal_postgres_copy_record_key(copy, work->tenant, named->kind, named->name);
    const memory_tenant *tenant = pal_memory_tenant_find(copy->memory, work->tenant);
    const memory_record *found =
            tenant ? pal_memory_record_get(tenant, named->kind, named->name) : NULL;
    bool existed = pal_map_find(&copy->records, key) != NULL;
    row_maker row;

    if (!found && !existed)
        return;
    row = begin_row(change, !found ? RECORD_DROP : existed ? RECORD_SET : RECORD_ADD);
    add_text(&row, named->kind);
    add_text(&row, named->name);
    if (!found)
        return;
    add_id(&row, found->record.session);
    add_int(&row, (int64_t)found->record.version);
    add_int(&row, found->record.created_at);
    add_int(&row, found->record.updated_at);
    add_int_or_null(&row, found->record.expires_at);
    add_bytes(&row, found->record.body);
}

static bool is_same_record(const pal_work *a, const pal_work *b)
{
    const pal_record *left = a->op->u.record.record, *right;

    if (b->op->kind != PAL_OP_RECORD_PUT && b->op->kind != PAL_OP_RECORD_DROP)
        return false;
    right = b->op->u.record.record;
    return b->op->status == PAL_OK && pal_str_equal(a->tenant, b->tenant) &&
            pal_str_equal(left->kind, right->kind) && pal_str_equal(left->name, right->name);
}

/* The last operation on a record writes its final state. */
static void write_records(changes *change, const pal_work *works, size_t works_len)
{
    for (size_t i = 0; i < works_len; i++) {
        const pal_work *work = &works[i];
        bool is_last = (work->op->kind == PAL_OP_RECORD_PUT ||
                               work->op->kind == PAL_OP_RECORD_DROP) &&
                work->op->status == PAL_OK;

        for (size_t j = i + 1; is_last && j < works_len; j++)
            is_last = !is_same_record(work, &works[j]);
        if (!is_last)
            continue;
        change->tenant = pal_postgres_tenant(work->tenant);
        write_record(change, work);
    }
}

/* ---- Everything ---- */

static void write_tenant(changes *change, const memory_tenant *tenant, int64_t now_ms)
{
    change->tenant = pal_postgres_tenant(tenant->name);
    for (const memory_session *session = tenant->sessions; session; session = session->next) {
        const pal_postgres_before *before = pal_postgres_copy_before(change->copy, session);

        if (before)
            write_changed(change, session, before);
        else
            write_new(change, session);
        write_rows(change, session);
        write_marks(change, session, before);
        write_refs(change, session);
        write_inbox(change, session, before);
    }
    for (const memory_blob *blob = tenant->blob_list; blob; blob = blob->next)
        write_blob(change, blob);
    write_known_blobs(change, tenant, now_ms);
    for (const memory_entry *entry = tenant->ledger; entry; entry = entry->next)
        write_entry(change, entry);
}

static void finish_params(changes *change, size_t index)
{
    pal_postgres *store = change->copy->store;

    if (index == HEAD_SET || index == HEAD_ADD)
        pal_postgres_put_int(&change->params[index], pal_postgres_token(store));
    if (index == LEDGER_HOUR_ADD)
        pal_postgres_put_int(&change->params[index], store->slot);
}

pal_status pal_postgres_write(pal_postgres_copy *copy, const pal_work *works, size_t works_len,
        bool commits, bool *out_sent, pal_postgres_failure *out_failure, pal_error *err)
{
    pal_postgres *store = copy->store;
    pal_postgres_flight flight;
    pal_status status;
    changes change;

    changes_init(&change, copy);
    for (const memory_tenant *tenant = copy->memory->tenant_list; tenant; tenant = tenant->next)
        write_tenant(&change, tenant, works[0].now_ms);
    write_records(&change, works, works_len);
    if (pal_arena_failure(copy->arena)) {
        changes_done(&change);
        *out_failure = PAL_POSTGRES_REFUSED;
        return pal_no_memory(err);
    }
    pal_postgres_flight_begin(&flight, &store->writer);
    store->batch++;
    for (size_t i = 0; i < TABLES; i++) {
        if (change.params[i].items[0].elements == 0)
            continue;
        finish_params(&change, i);
        pal_postgres_flight_add(&flight, tables[i].sql, &change.params[i]);
    }
    *out_sent = commits && flight.len > 0;
    if (*out_sent)
        pal_postgres_add_batch(&flight, works[0].now_ms);
    if (commits)
        pal_postgres_flight_add(
                &flight, *out_sent ? PAL_POSTGRES_COMMIT : PAL_POSTGRES_ROLLBACK, NULL);
    status = pal_postgres_flight_run(&flight, err);
    *out_failure = flight.failure;
    if (status == PAL_OK && *out_sent && store->writer.was_warned) {
        *out_failure = PAL_POSTGRES_LOST;
        status = pal_postgres_not_replicated(store, err);
    }
    if (status == PAL_OK && *out_sent)
        pal_postgres_acknowledge(store);
    /* The server reported an error and skipped the COMMIT, so there is no doubt. */
    if (status != PAL_OK && *out_sent &&
            PQresultStatus(flight.results[flight.len - 1]) == PGRES_PIPELINE_ABORTED)
        *out_sent = false;
    pal_postgres_flight_done(&flight);
    changes_done(&change);
    return status;
}
