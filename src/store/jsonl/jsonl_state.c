/* jsonl_state.c - applies the records of the log to the state; jsonl_record.c writes
 * them.
 *
 * Records are not checked like requests, because they describe what has already happened. A record
 * of an object that no longer exists, or of an unknown kind, is skipped. */
#include <stdio.h>
#include "base/digest.h"
#include "base/memory.h"
#include "dialect/native/native.h"
#include "store/jsonl/jsonl.h"

#define BLOB_BYTES_MAX ((size_t)1 << 30)

memory_session *pal_jsonl_session(jsonl_engine *engine, pal_str tenant_name, pal_id id)
{
    memory_session *session = NULL;

    if (tenant_name.len > 0)
        return pal_memory_session_find(engine->mem, tenant_name, id);
    for (memory_tenant *tenant = engine->mem->tenant_list; tenant && !session;
            tenant = tenant->next)
        session = pal_map_find(&tenant->ids, mem_id_key(&id));
    return session;
}

/* ---- Members ---- */

static pal_str get_str(const jsonl_record *record, const char *name, pal_arena *arena)
{
    return pal_json_string(pal_json_find(record->json, name), arena);
}

static uint64_t get_u64(const jsonl_record *record, const char *name)
{
    uint64_t number = 0;

    pal_json_u64(pal_json_find(record->json, name), &number);
    return number;
}

static int64_t get_i64(const jsonl_record *record, const char *name)
{
    int64_t number = 0;

    pal_json_i64(pal_json_find(record->json, name), &number);
    return number;
}

static pal_id get_id(const jsonl_record *record, const char *name, pal_arena *arena)
{
    pal_id id = {{0}};

    if (!pal_id_from_text(get_str(record, name, arena), &id))
        memset(&id, 0, sizeof id);
    return id;
}

/* ---- Sessions ---- */

static pal_str handle_key(const memory_session *session)
{
    return pal_str_make((const char *)&session->handle, sizeof session->handle);
}

static memory_session *session_new(
        jsonl_engine *engine, pal_id id, memory_tenant *tenant, uint64_t handle, memory_info *info)
{
    memory_engine *mem = engine->mem;
    memory_session *session = pal_calloc(1, sizeof *session);

    if (!session)
        return NULL;
    session->id = id;
    session->tenant = tenant;
    session->handle = handle ? handle : mem->handle_last + 1;
    if (pal_map_set(&tenant->ids, mem_id_key(&session->id), session) != PAL_OK) {
        pal_free(session);
        return NULL;
    }
    if (pal_map_set(&mem->handles, handle_key(session), session) != PAL_OK) {
        pal_map_remove(&tenant->ids, mem_id_key(&session->id));
        pal_free(session);
        return NULL;
    }
    /* Sessions that PicoClaw created have handles with the highest bit, above all handles that we
     * assign. */
    if (session->handle >> 63 == 0 && session->handle > mem->handle_last)
        mem->handle_last = session->handle;
    session->info = info;
    pal_memory_session_link(tenant, session, NULL);
    return session;
}

static void join(memory_session *session, memory_session *parent)
{
    session->parent = parent;
    session->next_child = parent->children;
    parent->children = session;
}

/* A fork may be known before its parent: PicoClaw's sessions are found last, and a session may
 * adopt a younger one. */
static void join_parent(jsonl_engine *engine, memory_session *session, const pal_session *record)
{
    memory_session *parent = pal_jsonl_session(engine, session->tenant->name, record->parent_id);

    if (session->parent || parent == session || pal_id_is_none(record->parent_id))
        return;
    if (parent)
        join(session, parent);
    else
        engine->orphans++;
}

static void join_orphans(jsonl_engine *engine, memory_session *parent)
{
    for (memory_session *session = parent->tenant->sessions; session && engine->orphans > 0;
            session = session->next)
        if (!session->parent && session != parent &&
                pal_id_equal(session->info->record.parent_id, parent->id)) {
            join(session, parent);
            engine->orphans--;
        }
}

pal_status pal_jsonl_state_session(jsonl_engine *engine, const pal_session *record, uint64_t handle,
        uint64_t fork_mark, memory_session **out_session, pal_error *err)
{
    memory_tenant *tenant = pal_memory_tenant_get(engine->mem, record->tenant);
    memory_session *session = pal_jsonl_session(engine, record->tenant, record->id);
    memory_info *info = tenant ? pal_memory_info_new(record, tenant) : NULL;
    uint64_t own;

    if (!info)
        return pal_no_memory(err);
    info->record.last_seq = record->fork_seq;
    info->record.tokens = info->record.bytes = 0;
    if (!session) {
        session = session_new(engine, record->id, tenant, handle, info);
        if (!session) {
            pal_free(info);
            return pal_no_memory(err);
        }
        join_orphans(engine, session);
    } else {
        const pal_session *before = &session->info->record;

        own = before->last_seq - before->fork_seq;
        info->record.last_seq = record->fork_seq + own;
        info->record.tokens = before->tokens;
        info->record.bytes = before->bytes;
        if (before->state == PAL_SESSION_ACTIVE)
            pal_memory_names_drop(session, before, NULL);
        mem_state_leave(session);
        pal_free(session->info);
        session->info = info;
        mem_state_enter(session);
    }
    session->fork_mark = fork_mark;
    join_parent(engine, session, record);
    *out_session = session;
    if (record->state == PAL_SESSION_ACTIVE &&
            pal_memory_names_take(session, &info->record, NULL, 0) != PAL_OK)
        return pal_no_memory(err);
    return PAL_OK;
}

static pal_status apply_session(jsonl_engine *engine, const jsonl_record *record, pal_arena *arena,
        bool is_last, pal_error *err)
{
    pal_str path = get_str(record, "path", arena), from = get_str(record, "from", arena);
    memory_session *session = NULL;
    char text[JSONL_PATH_MAX], from_text[JSONL_PATH_MAX] = "";
    pal_session given;
    jsonl_file *file;
    pal_status status =
            pal_native_session_read(pal_json_find(record->json, "session"), arena, &given, err);

    if (status == PAL_OK)
        status = pal_jsonl_state_session(engine, &given, get_u64(record, "handle"),
                get_u64(record, "fork_mark"), &session, err);
    if (status != PAL_OK || !session)
        return status;
    if (session->mark_number < get_u64(record, "mark_number"))
        session->mark_number = get_u64(record, "mark_number");
    file = pal_jsonl_file_get(engine, session->tenant->name, session->id);
    if (!file)
        return pal_no_memory(err);
    file->is_logged = true;
    file->named_inode = (ino_t)get_u64(record, "inode");
    if (path.len == 0 || path.len >= sizeof text || from.len >= sizeof from_text)
        return PAL_OK;
    snprintf(text, sizeof text, "%.*s", PAL_STR_ARG(path));
    if (from.len > 0)
        snprintf(from_text, sizeof from_text, "%.*s", PAL_STR_ARG(from));
    else if (file->path)
        snprintf(from_text, sizeof from_text, "%s", file->path);
    if (is_last && from_text[0] != '\0' && strcmp(from_text, text) != 0)
        status = pal_jsonl_late_note(file, record, from_text, err);
    if (status == PAL_OK && (!file->path || strcmp(file->path, text) != 0))
        status = pal_jsonl_file_set_path(engine, file, text, err);
    return status;
}

static pal_status apply_erase(
        jsonl_engine *engine, const jsonl_record *record, pal_arena *arena, pal_error *err)
{
    pal_op op = {.kind = PAL_OP_ERASE, .session = get_id(record, "session", arena)};
    pal_work work = {.op = &op, .tenant = get_str(record, "tenant", arena)};

    (void)err;
    /* A session that was removed with its last child no longer exists. */
    (void)pal_memory_erase(engine->mem, &work);
    return PAL_OK;
}

/* ---- Data of a session ---- */

pal_status pal_jsonl_state_mark(memory_session *session, const pal_mark *mark, pal_error *err)
{
    pal_mark copy = *mark;
    char *body;

    if (!pal_reserve(&session->marks, &session->marks_cap, session->marks_len + 1, sizeof copy))
        return pal_no_memory(err);
    body = pal_malloc(mark->body.len);
    if (!body)
        return pal_no_memory(err);
    copy.body = pal_memory_put(&body, mark->body);
    copy.undone = copy.inherited = false;
    session->marks[session->marks_len++] = copy;
    if (session->mark_number < mark->number)
        session->mark_number = mark->number;
    return PAL_OK;
}

void pal_jsonl_state_unmark(memory_session *session)
{
    for (size_t i = 0; i < session->marks_len; i++)
        pal_free((char *)session->marks[i].body.data);
    session->marks_len = 0;
}

static pal_status apply_mark(
        jsonl_engine *engine, memory_session *session, const jsonl_record *record, pal_error *err)
{
    jsonl_file *file = pal_jsonl_file_find(engine, session->tenant->name, session->id);
    pal_mark mark = {.number = get_u64(record, "number"),
            .kind = (pal_mark_kind)get_u64(record, "kind"),
            .seq = get_u64(record, "seq"),
            .through_seq = get_u64(record, "through_seq"),
            .target = get_u64(record, "target"),
            .created_at = get_i64(record, "created_at"),
            .body = record->tail};

    if (file)
        file->mark_logged = mark.number;
    if (session->marks_len > 0 && session->marks[session->marks_len - 1].number >= mark.number)
        return PAL_OK;
    if (pal_json_type_of(pal_json_find(record->json, "updated_at")) != PAL_JSON_NONE)
        session->info->record.updated_at = get_i64(record, "updated_at");
    else if (session->info->record.updated_at < mark.created_at)
        session->info->record.updated_at = mark.created_at; /* an older version wrote the log */
    return pal_jsonl_state_mark(session, &mark, err);
}

static pal_status apply_inbox(
        memory_session *session, const jsonl_record *record, pal_arena *arena, pal_error *err)
{
    pal_str client_id = get_str(record, "client_id", arena);
    pal_str delivery = get_str(record, "delivery", arena);
    memory_item **link = &session->inbox, *item;
    char *cursor;

    item = pal_memory_alloc(sizeof *item, client_id.len + delivery.len + record->tail.len, &cursor);
    if (!item)
        return pal_no_memory(err);
    item->item.id = get_id(record, "id", arena);
    item->item.created_at = get_i64(record, "created_at");
    item->item.client_id = pal_memory_put(&cursor, client_id);
    item->item.delivery = pal_memory_put(&cursor, delivery);
    item->item.body = pal_memory_put(&cursor, record->tail);
    while (*link)
        link = &(*link)->next;
    *link = item;
    return PAL_OK;
}

static pal_status apply_lease(
        memory_session *session, const jsonl_record *record, pal_arena *arena, pal_error *err)
{
    pal_str owner = get_str(record, "owner", arena);
    char *copy = pal_malloc(owner.len), *cursor = copy;

    if (!copy)
        return pal_no_memory(err);
    pal_memory_put(&cursor, owner);
    pal_free(session->lease_owner);
    session->lease_owner = copy;
    session->lease_owner_len = owner.len;
    session->lease_fence = get_u64(record, "fence");
    session->lease_expires_at = get_i64(record, "expires_at");
    session->lease_ttl_ms = get_i64(record, "ttl_ms");
    return PAL_OK;
}

static pal_status apply_of_session(jsonl_engine *engine, const jsonl_record *record,
        const char *kind, pal_arena *arena, pal_error *err)
{
    memory_session *session = pal_jsonl_session(
            engine, get_str(record, "tenant", arena), get_id(record, "session", arena));

    if (!session)
        return PAL_OK;
    if (strcmp(kind, "mark") == 0)
        return apply_mark(engine, session, record, err);
    if (strcmp(kind, "inbox") == 0)
        return apply_inbox(session, record, arena, err);
    if (strcmp(kind, "lease") == 0)
        return apply_lease(session, record, arena, err);
    if (strcmp(kind, "unmark") == 0)
        pal_jsonl_state_unmark(session);
    if (strcmp(kind, "inbox_drop") == 0)
        pal_memory_inbox_remove(session, get_id(record, "id", arena));
    if (strcmp(kind, "append") == 0 && session->info->record.updated_at < get_i64(record, "now"))
        session->info->record.updated_at = get_i64(record, "now");
    return PAL_OK;
}

/* ---- Data of a tenant ---- */

static pal_status apply_ledger(
        jsonl_engine *engine, const jsonl_record *record, pal_arena *arena, pal_error *err)
{
    pal_ledger_row row = {.request_id = get_str(record, "request_id", arena),
            .turn_id = get_str(record, "turn_id", arena),
            .agent = get_str(record, "agent", arena),
            .purpose = get_str(record, "purpose", arena),
            .provider = get_str(record, "provider", arena),
            .model = get_str(record, "model", arena),
            .price_version = get_str(record, "price_version", arena),
            .usage = {.input = get_u64(record, "input"),
                    .cache_read = get_u64(record, "cache_read"),
                    .cache_write = get_u64(record, "cache_write"),
                    .output = get_u64(record, "output"),
                    .reasoning = get_u64(record, "reasoning")},
            .cost_micros = get_i64(record, "cost_micros"),
            .created_at = get_i64(record, "created_at")};
    pal_op op = {.kind = PAL_OP_LEDGER_ADD,
            .session = get_id(record, "session", arena),
            .u.ledger_row = &row};
    pal_work work = {.op = &op, .tenant = get_str(record, "tenant", arena)};
    pal_status status;

    if (!pal_jsonl_session(engine, work.tenant, op.session))
        op.session = (pal_id){{0}};
    status = pal_memory_ledger_add(engine->mem, &work);
    return status == PAL_OK ? PAL_OK : pal_no_memory(err);
}

/* A record of an erased session was removed with the session. */
static pal_status apply_record(
        jsonl_engine *engine, const jsonl_record *record, pal_arena *arena, pal_error *err)
{
    memory_tenant *tenant = pal_memory_tenant_get(engine->mem, get_str(record, "tenant", arena));
    pal_record given = {.kind = get_str(record, "kind", arena),
            .name = get_str(record, "name", arena),
            .session = get_id(record, "session", arena),
            .body = record->tail,
            .version = get_u64(record, "version"),
            .created_at = get_i64(record, "created_at"),
            .updated_at = get_i64(record, "updated_at"),
            .expires_at = get_i64(record, "expires_at")};
    memory_session *owner =
            tenant ? pal_jsonl_session(engine, tenant->name, given.session) : NULL;

    if (!tenant)
        return pal_no_memory(err);
    if (!owner && !pal_id_is_none(given.session))
        return PAL_OK;
    return pal_memory_record_keep(tenant, owner, &given) == PAL_OK ? PAL_OK : pal_no_memory(err);
}

static void apply_record_drop(jsonl_engine *engine, const jsonl_record *record, pal_arena *arena)
{
    memory_tenant *tenant = pal_memory_tenant_find(engine->mem, get_str(record, "tenant", arena));
    memory_record *found = NULL;

    if (tenant)
        found = pal_memory_record_get(
                tenant, get_str(record, "kind", arena), get_str(record, "name", arena));
    if (found)
        pal_memory_record_remove(found);
}

static pal_status apply_blob(
        jsonl_engine *engine, const jsonl_record *record, pal_arena *arena, pal_error *err)
{
    pal_str tenant = get_str(record, "tenant", arena), hash = get_str(record, "hash", arena);
    pal_work_blob blob = {.is_new = true, .media_type = get_str(record, "media_type", arena)};
    pal_op op = {.kind = PAL_OP_BLOB_PUT};
    pal_work work = {.op = &op,
            .tenant = tenant,
            .now_ms = get_i64(record, "put_at"),
            .blobs = &blob,
            .blobs_len = 1};
    char path[JSONL_PATH_MAX], name[JSONL_PATH_MAX];
    pal_status status = pal_jsonl_tenant_dir(tenant, "blobs", path, err);
    pal_buf data;

    if (status != PAL_OK || !pal_unhex(hash, blob.hash, sizeof blob.hash))
        return status;
    snprintf(name, sizeof name, "%.900s%.*s", path, PAL_STR_ARG(hash));
    pal_buf_init(&data, BLOB_BYTES_MAX);
    status = pal_jsonl_read_file(engine, name, BLOB_BYTES_MAX, &data, NULL, err);
    blob.data = pal_buf_str(&data);
    if (status == PAL_OK)
        status = pal_memory_blob_put(engine->mem, &work) == PAL_OK ? PAL_OK : pal_no_memory(err);
    else if (status == PAL_NOT_FOUND)
        status = PAL_OK;
    pal_buf_done(&data);
    return status;
}

uint64_t pal_jsonl_record_u64(const jsonl_record *record, const char *name)
{
    return get_u64(record, name);
}

pal_id pal_jsonl_record_session(const jsonl_record *record, pal_arena *arena)
{
    return get_id(record, "session", arena);
}

pal_str pal_jsonl_record_tenant(const jsonl_record *record, pal_arena *arena)
{
    return get_str(record, "tenant", arena);
}

pal_status pal_jsonl_state_apply(jsonl_engine *engine, const jsonl_record *record, pal_arena *arena,
        bool is_last, pal_error *err)
{
    pal_str kind_text = get_str(record, "is", arena);
    char kind[16];

    if (kind_text.len >= sizeof kind)
        return PAL_OK;
    snprintf(kind, sizeof kind, "%.*s", PAL_STR_ARG(kind_text));
    if (strcmp(kind, "session") == 0)
        return apply_session(engine, record, arena, is_last, err);
    if (strcmp(kind, "erase") == 0)
        return apply_erase(engine, record, arena, err);
    if (strcmp(kind, "ledger") == 0)
        return apply_ledger(engine, record, arena, err);
    if (strcmp(kind, "record") == 0)
        return apply_record(engine, record, arena, err);
    if (strcmp(kind, "record_drop") == 0)
        apply_record_drop(engine, record, arena);
    if (strcmp(kind, "blob") == 0)
        return apply_blob(engine, record, arena, err);
    if (strcmp(kind, "tenant") == 0)
        return pal_memory_tenant_get(engine->mem, get_str(record, "tenant", arena))
                ? PAL_OK
                : pal_no_memory(err);
    if (strcmp(kind, "start") == 0) {
        engine->mem->handle_last = get_u64(record, "handle_last");
        engine->log_lost = get_u64(record, "lost");
    }
    return apply_of_session(engine, record, kind, arena, err);
}
