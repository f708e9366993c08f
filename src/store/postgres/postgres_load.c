/* postgres_load.c - the first flight of a batch: locks the rows that it needs, and copies them.
 *
 * The locks of the heads come first. Each later statement has a snapshot of its own, which shows
 * everything that was committed before the locks were granted. Rows that do not exist cannot be
 * locked: if another process adds one meanwhile, a unique key fails in the second flight, and the
 * batch is run again. */
#include <string.h>

#include "base/memory.h"
#include "store/postgres/postgres_copy.h"

/* ---- Finding tenants by number ---- */

/* The works of a batch name their tenants; results have only numbers. */
static pal_str tenant_name(const pal_work *works, size_t works_len, int64_t number)
{
    for (size_t i = 0; i < works_len; i++)
        if (pal_postgres_tenant(works[i].tenant) == number)
            return works[i].tenant;
    return pal_str_make(NULL, 0);
}

static memory_tenant *tenant_of(
        pal_postgres_copy *copy, const pal_work *works, size_t works_len, int64_t number)
{
    pal_str name = tenant_name(works, works_len, number);

    return name.len > 0 ? pal_memory_tenant_get(copy->memory, name) : NULL;
}

static memory_session *session_of(pal_postgres_copy *copy, const pal_work *works, size_t works_len,
        int64_t tenant, pal_id id)
{
    return pal_memory_session_find(copy->memory, tenant_name(works, works_len, tenant), id);
}

/* ---- What a batch needs ---- */

/* Arrays of parameters. The order is that of their statements. */
typedef struct needs {
    pal_postgres_params sessions; /* ids, keys and aliases */
    pal_postgres_params aliases;
    pal_postgres_params clients;
    pal_postgres_params ids;
    pal_postgres_params marks;
    pal_postgres_params inbox;
    pal_postgres_params records;
    pal_postgres_params ledger;
    pal_postgres_params blobs;
    pal_postgres_params counts;
} needs;

static void needs_init(needs *need)
{
    static const pal_postgres_type sessions[] = {PAL_POSTGRES_INT8, PAL_POSTGRES_UUID,
            PAL_POSTGRES_INT8, PAL_POSTGRES_TEXT, PAL_POSTGRES_INT8, PAL_POSTGRES_TEXT};
    pal_postgres_params *const by_session[] = {&need->marks, &need->inbox, &need->ids};
    pal_postgres_params *const by_text[] = {&need->aliases, &need->ledger};

    memset(need, 0, sizeof *need);
    for (size_t i = 0; i < sizeof sessions / sizeof sessions[0]; i++)
        pal_postgres_put_array(&need->sessions, sessions[i]);
    for (size_t i = 0; i < sizeof by_session / sizeof by_session[0]; i++) {
        pal_postgres_put_array(by_session[i], PAL_POSTGRES_INT8);
        pal_postgres_put_array(by_session[i], PAL_POSTGRES_UUID);
    }
    for (size_t i = 0; i < sizeof by_text / sizeof by_text[0]; i++) {
        pal_postgres_put_array(by_text[i], PAL_POSTGRES_INT8);
        pal_postgres_put_array(by_text[i], PAL_POSTGRES_TEXT);
    }
    pal_postgres_put_array(&need->clients, PAL_POSTGRES_INT8);
    pal_postgres_put_array(&need->clients, PAL_POSTGRES_UUID);
    pal_postgres_put_array(&need->clients, PAL_POSTGRES_TEXT);
    pal_postgres_put_array(&need->records, PAL_POSTGRES_INT8);
    pal_postgres_put_array(&need->records, PAL_POSTGRES_TEXT);
    pal_postgres_put_array(&need->records, PAL_POSTGRES_TEXT);
    pal_postgres_put_array(&need->blobs, PAL_POSTGRES_INT8);
    pal_postgres_put_array(&need->blobs, PAL_POSTGRES_BYTES);
    pal_postgres_put_array(&need->counts, PAL_POSTGRES_INT8);
}

static void needs_done(needs *need)
{
    pal_postgres_params_done(&need->sessions);
    pal_postgres_params_done(&need->aliases);
    pal_postgres_params_done(&need->clients);
    pal_postgres_params_done(&need->ids);
    pal_postgres_params_done(&need->marks);
    pal_postgres_params_done(&need->inbox);
    pal_postgres_params_done(&need->records);
    pal_postgres_params_done(&need->ledger);
    pal_postgres_params_done(&need->blobs);
    pal_postgres_params_done(&need->counts);
}

static void need_pair(pal_postgres_params *params, int64_t tenant, pal_id id)
{
    pal_postgres_add_int(&params->items[0], tenant);
    pal_postgres_add_id(&params->items[1], id);
}

static void need_text(pal_postgres_params *params, int64_t tenant, pal_str text)
{
    if (text.len == 0)
        return;
    pal_postgres_add_int(&params->items[0], tenant);
    pal_postgres_add_text(&params->items[1], text);
}

static void need_session(needs *need, int64_t tenant, pal_id id)
{
    if (!pal_id_is_none(id))
        need_pair(&need->sessions, tenant, id);
}

static void need_names(needs *need, int64_t tenant, const pal_session *session)
{
    if (session->key.len > 0) {
        pal_postgres_add_int(&need->sessions.items[2], tenant);
        pal_postgres_add_text(&need->sessions.items[3], session->key);
    }
    for (size_t i = 0; i < session->aliases_len; i++) {
        pal_postgres_add_int(&need->sessions.items[4], tenant);
        pal_postgres_add_text(&need->sessions.items[5], session->aliases[i]);
        need_text(&need->aliases, tenant, session->aliases[i]);
    }
}

static void need_append(needs *need, const pal_work *work, int64_t tenant)
{
    const pal_op *op = work->op;

    for (size_t i = 0; i < work->rows_len; i++) {
        const pal_row *row = &work->rows[i];

        if (row->is_named)
            need_pair(&need->ids, tenant, row->id);
        if (row->client_id.len == 0)
            continue;
        need_pair(&need->clients, tenant, op->session);
        pal_postgres_add_text(&need->clients.items[2], row->client_id);
    }
    for (size_t i = 0; i < op->u.append.ledger_len; i++)
        need_text(&need->ledger, tenant, op->u.append.ledger[i].request_id);
    if (op->u.append.inbox_ids_len > 0)
        need_pair(&need->inbox, tenant, op->session);
}

static void need_record(needs *need, const pal_work *work, int64_t tenant)
{
    const pal_record *record = work->op->u.record.record;

    need_session(need, tenant, record->session);
    need_text(&need->records, tenant, record->kind);
    pal_postgres_add_text(&need->records.items[2], record->name);
}

static void need_work(needs *need, const pal_work *work)
{
    const pal_op *op = work->op;
    int64_t tenant = pal_postgres_tenant(work->tenant);

    need_session(need, tenant, op->session);
    need_session(need, tenant, work->fork_parent);
    for (size_t i = 0; i < work->blobs_len; i++) {
        pal_postgres_add_int(&need->blobs.items[0], tenant);
        pal_postgres_add_bytes(
                &need->blobs.items[1], pal_str_make((const char *)work->blobs[i].hash, 32));
    }
    if (work->sessions_max > 0)
        pal_postgres_add_int(&need->counts.items[0], tenant);
    switch (op->kind) {
    case PAL_OP_CREATE:
        need_names(need, tenant, op->u.create.session);
        break;
    case PAL_OP_FORK:
        need_session(need, tenant, op->u.fork.parent);
        need_names(need, tenant, op->u.fork.session);
        break;
    case PAL_OP_UPDATE:
        need_names(need, tenant, op->u.update.session);
        break;
    case PAL_OP_APPEND:
        need_append(need, work, tenant);
        break;
    case PAL_OP_MARK:
        if (op->u.mark->kind == PAL_MARK_UNDO)
            need_pair(&need->marks, tenant, op->session);
        break;
    case PAL_OP_INBOX_ADD:
    case PAL_OP_INBOX_DROP:
        need_pair(&need->inbox, tenant, op->session);
        break;
    case PAL_OP_LEDGER_ADD:
        need_text(&need->ledger, tenant, op->u.ledger_row->request_id);
        break;
    case PAL_OP_RECORD_PUT:
    case PAL_OP_RECORD_DROP:
        need_record(need, work, tenant);
        break;
    default:
        break;
    }
}

/* ---- Copying ---- */

static memory_session *new_session(
        pal_postgres_copy *copy, memory_tenant *tenant, const pal_session_row *row)
{
    memory_session *session = pal_calloc(1, sizeof *session);
    memory_info *info = pal_memory_info_new(&row->session, tenant);
    bool is_added = false;

    if (session && info) {
        session->id = row->session.id;
        session->tenant = tenant;
        session->handle = copy->memory->handle_last + 1;
        session->info = info;
        session->mark_number = row->mark_number;
        session->fork_mark = row->session.fork_mark;
        is_added = pal_map_set(&tenant->ids, mem_id_key(&session->id), session) == PAL_OK;
        if (is_added &&
                pal_map_set(&copy->memory->handles,
                        pal_str_make((const char *)&session->handle, sizeof session->handle),
                        session) != PAL_OK) {
            pal_map_remove(&tenant->ids, mem_id_key(&session->id));
            is_added = false;
        }
    }
    if (!is_added) {
        pal_free(info);
        pal_free(session);
        return NULL;
    }
    copy->memory->handle_last = session->handle;
    pal_memory_session_link(tenant, session, NULL);
    return session;
}

static bool take_name(pal_map *names, pal_str text, memory_session *session)
{
    char *cursor;
    memory_name *name = pal_memory_alloc(sizeof *name, text.len, &cursor);

    if (!name)
        return false;
    name->session = session;
    name->text = pal_memory_put(&cursor, text);
    if (pal_map_set(names, name->text, name) == PAL_OK)
        return true;
    pal_free(name);
    return false;
}

static bool set_lease(memory_session *session, const pal_postgres_before *before)
{
    char *cursor = pal_malloc(before->owner.len);

    if (!cursor)
        return false;
    session->lease_owner = cursor;
    session->lease_owner_len = pal_memory_put(&cursor, before->owner).len;
    session->lease_fence = before->fence;
    session->lease_expires_at = before->lease_until;
    session->lease_ttl_ms = before->lease_ttl;
    return true;
}

/* The columns after those of the session: fence, lease_until, lease_ttl, owner, tenant, whether the
 * key is in use. */
static bool copy_session(pal_postgres_copy *copy, const PGresult *result, int i,
        const pal_work *works, size_t works_len)
{
    memory_tenant *tenant =
            tenant_of(copy, works, works_len, pal_postgres_int(result, i, 27));
    pal_postgres_before *before;
    pal_session_row row;

    if (!tenant ||
            !pal_reserve(&copy->before, &copy->before_cap, copy->before_len + 1,
                    sizeof *copy->before))
        return false;
    pal_postgres_session_read(result, i, tenant->name, copy->arena, &row);
    if (pal_arena_failure(copy->arena))
        return false;
    if (pal_map_find(&tenant->ids, mem_id_key(&row.session.id)))
        return true; /* the names of a restored session led to one that is already here */
    before = &copy->before[copy->before_len];
    *before = (pal_postgres_before){.record = row.session,
            .mark_number = row.mark_number,
            .fence = (uint64_t)pal_postgres_int(result, i, 23),
            .lease_until = pal_postgres_int(result, i, 24),
            .lease_ttl = pal_postgres_int(result, i, 25),
            .owner = pal_postgres_str_copy(result, i, 26, copy->arena),
            .has_key = pal_postgres_int(result, i, 28) != 0};
    before->session = new_session(copy, tenant, &row);
    if (!before->session)
        return false;
    copy->before_len++;
    if (!set_lease(before->session, before))
        return false;
    return !before->has_key || take_name(&tenant->keys, row.session.key, before->session);
}

static bool copy_alias(pal_postgres_copy *copy, const PGresult *result, int i,
        const pal_work *works, size_t works_len)
{
    memory_session *session = session_of(copy, works, works_len, pal_postgres_int(result, i, 0),
            pal_postgres_id(result, i, 2));
    pal_str alias = pal_postgres_str(result, i, 1);

    if (!session || pal_map_find(&session->tenant->aliases, alias))
        return true;
    return take_name(&session->tenant->aliases, alias, session);
}

static memory_row *add_row(
        pal_postgres_copy *copy, memory_session *session, const pal_row *given)
{
    char *cursor;
    memory_row *row;

    if (!pal_reserve(&copy->rows, &copy->rows_cap, copy->rows_len + 1, sizeof(memory_row *)))
        return NULL;
    row = pal_memory_alloc(sizeof *row, given->client_id.len + given->body.len, &cursor);
    if (!row)
        return NULL;
    row->row = *given;
    row->row.client_id = pal_memory_put(&cursor, given->client_id);
    row->row.body = pal_memory_put(&cursor, given->body);
    row->session = session;
    copy->rows[copy->rows_len++] = row;
    return row;
}

static bool copy_client(pal_postgres_copy *copy, const PGresult *result, int i,
        const pal_work *works, size_t works_len)
{
    memory_session *session = session_of(copy, works, works_len, pal_postgres_int(result, i, 10),
            pal_postgres_id(result, i, 11));
    memory_row *row;
    pal_row given;

    if (!session)
        return true;
    pal_postgres_row_read(result, i, &given);
    row = add_row(copy, session, &given);
    return row && pal_map_set(&session->client_ids, row->row.client_id, row) == PAL_OK;
}

static bool copy_id(pal_postgres_copy *copy, const PGresult *result, int i, const pal_work *works,
        size_t works_len)
{
    memory_tenant *tenant = tenant_of(copy, works, works_len, pal_postgres_int(result, i, 0));
    pal_row given = {.id = pal_postgres_id(result, i, 1)};
    memory_row *row = tenant ? add_row(copy, NULL, &given) : NULL;

    return row && pal_map_set(&tenant->rows, mem_id_key(&row->row.id), row) == PAL_OK;
}

static bool copy_mark(pal_postgres_copy *copy, const PGresult *result, int i,
        const pal_work *works, size_t works_len)
{
    memory_session *session = session_of(copy, works, works_len, pal_postgres_int(result, i, 6),
            pal_postgres_id(result, i, 7));
    pal_mark mark;

    if (!session)
        return true;
    pal_postgres_mark_read(result, i, &mark);
    /* Several works of the batch may have asked for the same marks. */
    if (session->marks_len > 0 && session->marks[session->marks_len - 1].number >= mark.number)
        return true;
    if (!pal_reserve(
                &session->marks, &session->marks_cap, session->marks_len + 1, sizeof mark))
        return false;
    session->marks[session->marks_len++] = mark;
    return true;
}

static bool copy_item(pal_postgres_copy *copy, const PGresult *result, int i,
        const pal_work *works, size_t works_len)
{
    memory_session *session = session_of(copy, works, works_len, pal_postgres_int(result, i, 0),
            pal_postgres_id(result, i, 1));
    pal_postgres_before *before = session ? pal_postgres_copy_before(copy, session) : NULL;
    int64_t number = pal_postgres_int(result, i, 2);
    pal_str client_id = pal_postgres_str(result, i, 4), delivery = pal_postgres_str(result, i, 5);
    pal_str body = pal_postgres_str(result, i, 6);
    memory_item *item, **end;
    char *cursor;

    if (!before || (before->inbox_len > 0 && before->inbox[before->inbox_len - 1].number >= number))
        return true;
    item = pal_memory_alloc(sizeof *item, client_id.len + delivery.len + body.len, &cursor);
    if (!item || !pal_reserve(&before->inbox, &before->inbox_cap, before->inbox_len + 1,
                         sizeof *before->inbox)) {
        pal_free(item);
        return false;
    }
    item->item.id = pal_postgres_id(result, i, 3);
    item->item.created_at = pal_postgres_int(result, i, 7);
    item->item.client_id = pal_memory_put(&cursor, client_id);
    item->item.delivery = pal_memory_put(&cursor, delivery);
    item->item.body = pal_memory_put(&cursor, body);
    for (end = &session->inbox; *end; end = &(*end)->next)
        ;
    *end = item;
    before->inbox[before->inbox_len++] =
            (pal_postgres_item){.id = item->item.id, .number = number};
    return true;
}

static bool copy_record(pal_postgres_copy *copy, const PGresult *result, int i,
        const pal_work *works, size_t works_len)
{
    memory_tenant *tenant = tenant_of(copy, works, works_len, pal_postgres_int(result, i, 0));
    pal_record record = {.kind = pal_postgres_str(result, i, 1),
            .name = pal_postgres_str(result, i, 2),
            .session = pal_postgres_id(result, i, 3),
            .version = (uint64_t)pal_postgres_int(result, i, 4),
            .created_at = pal_postgres_int(result, i, 5),
            .updated_at = pal_postgres_int(result, i, 6),
            .expires_at = pal_postgres_int(result, i, 7)};
    pal_str key;

    if (!tenant)
        return false;
    key = pal_postgres_copy_record_key(copy, tenant->name, record.kind, record.name);
    return key.len > 0 && pal_map_set(&copy->records, key, copy) == PAL_OK &&
            pal_memory_record_keep(tenant, NULL, &record) == PAL_OK;
}

static bool copy_request(pal_postgres_copy *copy, const PGresult *result, int i,
        const pal_work *works, size_t works_len)
{
    memory_tenant *tenant = tenant_of(copy, works, works_len, pal_postgres_int(result, i, 0));
    pal_str request_id = pal_postgres_str(result, i, 1);
    memory_entry *entry;
    char *cursor;

    if (!tenant || !pal_reserve(&copy->entries, &copy->entries_cap, copy->entries_len + 1,
                           sizeof(memory_entry *)))
        return false;
    entry = pal_memory_alloc(sizeof *entry, request_id.len, &cursor);
    if (!entry)
        return false;
    copy->entries[copy->entries_len++] = entry;
    entry->row.request_id = pal_memory_put(&cursor, request_id);
    return pal_map_set(&tenant->requests, entry->row.request_id, entry) == PAL_OK;
}

static bool copy_blob(pal_postgres_copy *copy, const PGresult *result, int i,
        const pal_work *works, size_t works_len)
{
    memory_tenant *tenant = tenant_of(copy, works, works_len, pal_postgres_int(result, i, 0));
    pal_str hash = pal_postgres_str(result, i, 1);
    memory_blob *blob;

    if (!tenant || hash.len != sizeof blob->hash ||
            !pal_reserve(&copy->blobs, &copy->blobs_cap, copy->blobs_len + 1,
                    sizeof(memory_blob *)) ||
            !pal_reserve(&copy->blobs_put_at, &copy->blobs_put_cap, copy->blobs_len + 1,
                    sizeof(int64_t)))
        return false;
    if (pal_map_find(&tenant->blobs, hash))
        return true;
    blob = pal_calloc(1, sizeof *blob);
    if (!blob)
        return false;
    memcpy(blob->hash, hash.data, sizeof blob->hash);
    blob->put_at = copy->blobs_put_at[copy->blobs_len] = pal_postgres_int(result, i, 2);
    copy->blobs[copy->blobs_len++] = blob;
    return pal_map_set(&tenant->blobs,
                   pal_str_make((const char *)blob->hash, sizeof blob->hash), blob) == PAL_OK;
}

/* The sessions that are in the copy count themselves. */
static bool copy_count(pal_postgres_copy *copy, const PGresult *result, int i,
        const pal_work *works, size_t works_len)
{
    memory_tenant *tenant = tenant_of(copy, works, works_len, pal_postgres_int(result, i, 0));
    uint64_t count = (uint64_t)pal_postgres_int(result, i, 1);

    if (!tenant)
        return false;
    for (memory_session *session = tenant->sessions; session && count > 0; session = session->next)
        count -= session->info->record.state == PAL_SESSION_ACTIVE &&
                !pal_memory_session_expired(session, works[0].now_ms);
    tenant->active_elsewhere = count;
    return true;
}

typedef bool copy_fn(pal_postgres_copy *copy, const PGresult *result, int i, const pal_work *works,
        size_t works_len);

/* Adds the statement if it has something to look for. */
static void ask(pal_postgres_flight *flight, pal_postgres_sql sql, pal_postgres_params *params,
        copy_fn *function, copy_fn **functions)
{
    size_t wanted = 0;

    for (size_t i = 0; i < params->len; i++)
        wanted += params->items[i].elements;
    if (wanted == 0)
        pal_postgres_params_done(params);
    else
        functions[pal_postgres_flight_add(flight, sql, params)] = function;
}

static pal_status copy_results(pal_postgres_copy *copy, const pal_postgres_flight *flight,
        copy_fn **functions, const pal_work *works, size_t works_len, pal_error *err)
{
    for (size_t i = 0; i < flight->len; i++)
        for (int row = 0; functions[i] && row < PQntuples(flight->results[i]); row++)
            if (!functions[i](copy, flight->results[i], row, works, works_len))
                return pal_no_memory(err);
    return PAL_OK;
}

/* The names of a session in the trash are known only now. Their holders decide what a restore
 * does. */
static pal_status load_restored(pal_postgres_copy *copy, const pal_work *works, size_t works_len,
        pal_postgres_failure *out_failure, pal_error *err)
{
    copy_fn *functions[PAL_POSTGRES_FLIGHT_MAX] = {0};
    pal_postgres_flight flight;
    pal_status status = PAL_OK;
    bool has_restores = false;
    needs need;

    needs_init(&need);
    for (size_t i = 0; i < works_len; i++) {
        const memory_session *session = works[i].op->kind == PAL_OP_RESTORE
                ? pal_memory_session_find(copy->memory, works[i].tenant, works[i].op->session)
                : NULL;

        if (session)
            need_names(&need, pal_postgres_tenant(works[i].tenant), &session->info->record);
        has_restores = has_restores || session;
    }
    if (has_restores) {
        pal_postgres_flight_begin(&flight, &copy->store->writer);
        ask(&flight, PAL_POSTGRES_SESSION_LOCK, &need.sessions, copy_session, functions);
        ask(&flight, PAL_POSTGRES_ALIAS_LOAD, &need.aliases, copy_alias, functions);
        if (flight.len > 0)
            status = pal_postgres_flight_run(&flight, err);
        *out_failure = flight.failure;
        if (status == PAL_OK)
            status = copy_results(copy, &flight, functions, works, works_len, err);
        pal_postgres_flight_done(&flight);
    }
    needs_done(&need);
    return status;
}

static int64_t sessions_max(const pal_work *works, size_t works_len)
{
    int64_t max = 0;

    for (size_t i = 0; i < works_len; i++)
        max = (int64_t)works[i].sessions_max > max ? (int64_t)works[i].sessions_max : max;
    return max;
}

pal_status pal_postgres_load(pal_postgres_copy *copy, const pal_work *works, size_t works_len,
        pal_postgres_failure *out_failure, pal_error *err)
{
    copy_fn *functions[PAL_POSTGRES_FLIGHT_MAX] = {0};
    pal_postgres *store = copy->store;
    pal_postgres_params node = {0};
    pal_postgres_flight flight;
    pal_status status;
    size_t node_at;
    needs need;

    needs_init(&need);
    for (size_t i = 0; i < works_len; i++)
        need_work(&need, &works[i]);
    pal_postgres_flight_begin(&flight, &store->writer);
    if (!store->writer.pg || PQtransactionStatus(store->writer.pg) != PQTRANS_INTRANS)
        pal_postgres_flight_add(&flight, PAL_POSTGRES_BEGIN, NULL);
    pal_postgres_put_int(&node, store->slot);
    pal_postgres_put_id(&node, store->node);
    node_at = pal_postgres_flight_add(&flight, PAL_POSTGRES_NODE_LOCK, &node);
    ask(&flight, PAL_POSTGRES_SESSION_LOCK, &need.sessions, copy_session, functions);
    ask(&flight, PAL_POSTGRES_ALIAS_LOAD, &need.aliases, copy_alias, functions);
    ask(&flight, PAL_POSTGRES_MESSAGE_CLIENTS, &need.clients, copy_client, functions);
    ask(&flight, PAL_POSTGRES_MESSAGE_IDS, &need.ids, copy_id, functions);
    ask(&flight, PAL_POSTGRES_MARK_LOAD, &need.marks, copy_mark, functions);
    ask(&flight, PAL_POSTGRES_INBOX_LOAD, &need.inbox, copy_item, functions);
    ask(&flight, PAL_POSTGRES_RECORD_LOAD, &need.records, copy_record, functions);
    ask(&flight, PAL_POSTGRES_LEDGER_LOAD, &need.ledger, copy_request, functions);
    ask(&flight, PAL_POSTGRES_BLOB_LOAD, &need.blobs, copy_blob, functions);
    if (need.counts.items[0].elements > 0) {
        pal_postgres_put_int(&need.counts, sessions_max(works, works_len) + (int64_t)works_len);
        pal_postgres_put_int(&need.counts, works[0].now_ms);
        functions[pal_postgres_flight_add(
                &flight, PAL_POSTGRES_SESSION_COUNT, &need.counts)] = copy_count;
    }
    status = pal_postgres_flight_run(&flight, err);
    *out_failure = flight.failure;
    if (status == PAL_OK && PQntuples(flight.results[node_at]) == 0) {
        /* Another process has taken the slot, because this one was stopped for a day. */
        store->slot = 0;
        *out_failure = PAL_POSTGRES_RACE;
        status = pal_error_set(err, PAL_BUSY,
                "%s: this process was stopped for so long that another one has taken its slot; "
                "retry",
                store->place);
    }
    if (status == PAL_OK)
        status = copy_results(copy, &flight, functions, works, works_len, err);
    pal_postgres_flight_done(&flight);
    needs_done(&need);
    if (status == PAL_OK)
        status = load_restored(copy, works, works_len, out_failure, err);
    return status;
}
