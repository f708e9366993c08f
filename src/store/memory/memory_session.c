/* memory_session.c - sessions of "memory:": creates, finds and changes them, moves them to
 * the trash and restores them. Steps that can fail come first and are undone if a later step fails,
 * so a rejected operation changes nothing. */
#include "base/memory.h"
#include "store/memory/memory_store.h"

memory_tenant *pal_memory_tenant_find(memory_engine *engine, pal_str name)
{
    return pal_map_find(&engine->tenants, name);
}

memory_tenant *pal_memory_tenant_get(memory_engine *engine, pal_str name)
{
    memory_tenant *tenant = pal_memory_tenant_find(engine, name);
    char *cursor;

    if (tenant)
        return tenant;
    tenant = pal_memory_alloc(sizeof *tenant, name.len, &cursor);
    if (!tenant)
        return NULL;
    tenant->name = pal_memory_put(&cursor, name);
    if (pal_map_set(&engine->tenants, tenant->name, tenant) != PAL_OK) {
        pal_free(tenant);
        return NULL;
    }
    tenant->next = engine->tenant_list;
    engine->tenant_list = tenant;
    return tenant;
}

memory_session *pal_memory_session_find(memory_engine *engine, pal_str tenant, pal_id id)
{
    const memory_tenant *owner = pal_memory_tenant_find(engine, tenant);

    return owner ? pal_map_find(&owner->ids, mem_id_key(&id)) : NULL;
}

memory_session *pal_memory_session_by_handle(memory_engine *engine, uint64_t handle)
{
    return pal_map_find(&engine->handles, pal_str_make((const char *)&handle, sizeof handle));
}

bool pal_memory_session_expired(const memory_session *session, int64_t now_ms)
{
    const pal_session *record = &session->info->record;

    return record->state == PAL_SESSION_ACTIVE && record->expires_at != 0 &&
            now_ms > record->expires_at;
}

pal_status pal_memory_session_check(memory_engine *engine, pal_work *work, pal_id id,
        unsigned allow, memory_session **out_session)
{
    memory_session *session = pal_memory_session_find(engine, work->tenant, id);
    pal_error *err = &work->op->error;
    char text[PAL_ID_TEXT_SIZE];

    if (session && work->copied) {
        *out_session = session;
        return PAL_OK;
    }
    pal_id_to_text(id, text);
    if (!session || session->info->record.state == PAL_SESSION_ERASED)
        return pal_error_set(err, PAL_NOT_FOUND, "session '%s' does not exist", text);
    if (session->info->record.state == PAL_SESSION_TRASH && !(allow & MEMORY_ALLOW_TRASH))
        return pal_error_set(
                err, PAL_CONFLICT, "session '%s' is in the trash; restore it first", text);
    if (session->info->record.state == PAL_SESSION_QUARANTINED && !(allow & MEMORY_ALLOW_TRASH))
        return pal_error_set(
                err, PAL_CORRUPT, "session '%s' is quarantined; run 'palaver fsck'", text);
    if (pal_memory_session_expired(session, work->now_ms) && !(allow & MEMORY_ALLOW_EXPIRED))
        return pal_error_set(err, PAL_CONFLICT, "session '%s' has expired", text);
    *out_session = session;
    return PAL_OK;
}

pal_status pal_memory_session_for(
        memory_engine *engine, pal_work *work, unsigned allow, memory_session **out_session)
{
    memory_session *session = NULL;
    pal_status status;

    if (work->op->fence != 0) /* a running turn can end even if its session was deleted */
        allow |= MEMORY_ALLOW_EXPIRED | MEMORY_ALLOW_TRASH;
    status = pal_memory_session_check(engine, work, work->op->session, allow, &session);
    if (status != PAL_OK)
        return status;
    if (work->op->fence != 0 && work->op->fence != session->lease_fence)
        return pal_error_set(&work->op->error, PAL_DENIED,
                "the lease was taken over by another process: the current fence is %llu, not %llu",
                (unsigned long long)session->lease_fence, (unsigned long long)work->op->fence);
    *out_session = session;
    return PAL_OK;
}

static pal_status no_memory(pal_work *work)
{
    return pal_no_memory(&work->op->error);
}

static size_t record_text_len(const pal_session *record)
{
    size_t len = record->key.len + record->title.len + record->project.len + record->agent.len +
            record->scope.len + record->metadata.len + record->extra.len + record->alias_apart.len;

    for (size_t i = 0; i < record->aliases_len; i++)
        len += record->aliases[i].len;
    return len;
}

/* Copies the record and its texts into one allocation. Returns NULL if there is no memory. */
memory_info *pal_memory_info_new(const pal_session *record, const memory_tenant *tenant)
{
    size_t aliases_size = record->aliases_len * sizeof(pal_str);
    size_t text_len = record_text_len(record);
    char *cursor;
    memory_info *info = pal_memory_alloc(sizeof *info, aliases_size + text_len, &cursor);
    pal_session *copy;

    if (!info)
        return NULL;
    copy = &info->record;
    *copy = *record;
    copy->tenant = tenant->name;
    copy->aliases = (pal_str *)cursor;
    cursor += aliases_size;
    info->text = cursor;
    info->text_len = text_len;
    copy->key = pal_memory_put(&cursor, record->key);
    copy->title = pal_memory_put(&cursor, record->title);
    copy->project = pal_memory_put(&cursor, record->project);
    copy->agent = pal_memory_put(&cursor, record->agent);
    copy->scope = pal_memory_put(&cursor, record->scope);
    copy->metadata = pal_memory_put(&cursor, record->metadata);
    copy->extra = pal_memory_put(&cursor, record->extra);
    copy->alias_apart = pal_memory_put(&cursor, record->alias_apart);
    for (size_t i = 0; i < record->aliases_len; i++)
        copy->aliases[i] = pal_memory_put(&cursor, record->aliases[i]);
    return info;
}

static pal_str session_handle_key(const memory_session *session)
{
    return pal_str_make((const char *)&session->handle, sizeof session->handle);
}

/* Adds the session to the maps. On failure nothing is left in them. */
static pal_status session_index(
        memory_engine *engine, memory_session *session, const pal_work *work)
{
    const pal_session *record = &session->info->record;
    pal_status status;

    if (pal_map_set(&session->tenant->ids, mem_id_key(&session->id), session) != PAL_OK)
        return PAL_NO_MEMORY;
    if (pal_map_set(&engine->handles, session_handle_key(session), session) == PAL_OK) {
        status = work->copied
                ? pal_memory_names_copy(session, record, work->copied->alias_leads)
                : pal_memory_names_take(session, record, NULL, work->now_ms);
        if (status == PAL_OK)
            return PAL_OK;
        pal_map_remove(&engine->handles, session_handle_key(session));
    }
    pal_map_remove(&session->tenant->ids, mem_id_key(&session->id));
    return PAL_NO_MEMORY;
}

void pal_memory_session_link(memory_tenant *tenant, memory_session *session, memory_session *parent)
{
    session->prev = tenant->sessions_last;
    if (session->prev)
        session->prev->next = session;
    else
        tenant->sessions = session;
    tenant->sessions_last = session;
    mem_state_enter(session);
    if (parent) {
        session->parent = parent;
        session->next_child = parent->children;
        parent->children = session;
    }
}

/* Creates a session from a complete record. */
static pal_status session_add(memory_engine *engine, pal_work *work, const pal_session *record,
        memory_tenant *tenant, memory_session *parent)
{
    memory_session *session = pal_calloc(1, sizeof *session);
    pal_status status = PAL_NO_MEMORY;

    if (!session)
        return no_memory(work);
    session->id = record->id;
    session->tenant = tenant;
    session->handle = engine->handle_last + 1;
    session->fork_mark = parent ? work->fork_mark : 0;
    session->mark_number = work->copied ? work->copied->mark_number : 0;
    session->info = pal_memory_info_new(record, tenant);
    if (session->info)
        status = session_index(engine, session, work);
    if (status != PAL_OK) {
        pal_free(session->info);
        pal_free(session);
        return no_memory(work);
    }
    engine->handle_last = session->handle;
    pal_memory_session_link(tenant, session, parent);
    work->op->session = record->id;
    return PAL_OK;
}

/* Builds the record of a new session, created or forked. */
static pal_session record_make(const pal_work *work, const pal_session *given)
{
    pal_session record = *given;

    record.id = pal_id_is_none(work->op->session) ? work->new_id : work->op->session;
    if (!work->copied) {
        record.state = PAL_SESSION_ACTIVE;
        record.deleted_at = 0;
    }
    record.parent_id = (pal_id){{0}};
    record.fork_seq = 0;
    record.last_seq = 0;
    record.tokens = 0;
    record.bytes = 0;
    record.created_at = given->created_at ? given->created_at : work->now_ms;
    record.updated_at = work->now_ms;
    return record;
}

static pal_status check_room(const memory_tenant *tenant, pal_work *work)
{
    uint64_t count = tenant->active_elsewhere;

    if (work->sessions_max == 0)
        return PAL_OK;
    for (memory_session *s = tenant->sessions; s && count < work->sessions_max; s = s->next)
        count += s->info->record.state == PAL_SESSION_ACTIVE &&
                !pal_memory_session_expired(s, work->now_ms);
    return count >= work->sessions_max ? pal_sessions_full(work) : PAL_OK;
}

/* Makes the checks that create and fork share, then adds the session. */
static pal_status session_create(
        memory_engine *engine, pal_work *work, const pal_session *record, memory_session *parent)
{
    memory_tenant *tenant = pal_memory_tenant_get(engine, work->tenant);
    char text[PAL_ID_TEXT_SIZE];
    pal_status status;

    if (!tenant)
        return no_memory(work);
    if (pal_map_find(&tenant->ids, mem_id_key(&record->id))) {
        pal_id_to_text(record->id, text);
        return pal_error_set(&work->op->error, PAL_CONFLICT, "session '%s' already exists", text);
    }
    status = work->copied ? PAL_OK : pal_memory_names_check(tenant, work, record, NULL);
    if (status == PAL_OK)
        status = check_room(tenant, work);
    if (status != PAL_OK)
        return status;
    return session_add(engine, work, record, tenant, parent);
}

pal_status pal_memory_create(memory_engine *engine, pal_work *work)
{
    pal_op *op = work->op;
    pal_session record = record_make(work, op->u.create.session);
    memory_tenant *tenant = pal_memory_tenant_find(engine, work->tenant);
    memory_session *holder = NULL;

    if (op->u.create.or_find && tenant)
        holder = pal_memory_name_find(&tenant->keys, record.key);
    if (holder && !pal_memory_session_expired(holder, work->now_ms)) {
        op->session = holder->info->record.id;
        op->u.create.existing = true;
        return PAL_OK;
    }
    op->u.create.existing = false;
    return session_create(engine, work, &record, NULL);
}

pal_status pal_memory_fork(memory_engine *engine, pal_work *work)
{
    pal_op *op = work->op;
    pal_session record = record_make(work, op->u.fork.session);
    memory_session *named, *parent = NULL;
    pal_status status = pal_memory_session_check(engine, work, op->u.fork.parent, 0, &named);

    if (status != PAL_OK)
        return status;
    if (!pal_id_is_none(work->fork_parent)) {
        /* The parent may be an erased session above the named one, because its rows are shared. */
        parent = pal_memory_session_find(engine, work->tenant, work->fork_parent);
        if (!parent || parent->info->record.last_seq < work->fork_seq)
            return pal_error_set(&op->error, PAL_NOT_FOUND, "the messages of the fork were erased");
        record.parent_id = work->fork_parent;
        record.fork_seq = work->fork_seq;
        record.last_seq = work->fork_seq;
    }
    return session_create(engine, work, &record, parent);
}

/* A session can become the child of another one only while it has no messages and no marks. */
pal_status pal_memory_adopt(memory_engine *engine, pal_work *work)
{
    memory_session *session = NULL, *parent;
    pal_session *record;
    pal_status status = pal_memory_session_for(engine, work, 0, &session);

    if (status != PAL_OK)
        return status;
    parent = pal_memory_session_find(engine, work->tenant, work->fork_parent);
    if (!parent || (parent->info->record.last_seq < work->fork_seq && !work->copied))
        return pal_error_set(&work->op->error, PAL_NOT_FOUND,
                "the session to adopt no longer exists");
    record = &session->info->record;
    work->op->u.adopt.adopted = record->last_seq == 0 &&
            (session->mark_number == 0 || work->copied) && parent != session;
    if (!work->op->u.adopt.adopted)
        return PAL_OK;
    session->parent = parent;
    session->next_child = parent->children;
    parent->children = session;
    session->fork_mark = work->fork_mark;
    record->parent_id = work->fork_parent;
    record->fork_seq = work->fork_seq;
    record->last_seq = work->fork_seq;
    if (!work->copied)
        record->updated_at = work->now_ms;
    return PAL_OK;
}

static pal_session record_updated(const memory_session *session, const pal_work *work)
{
    const pal_session *given = work->op->u.update.session;
    uint32_t fields = work->op->u.update.fields;
    pal_session record = session->info->record;

    if (fields & PAL_SESSION_FIELD_TITLE)
        record.title = given->title;
    if (fields & PAL_SESSION_FIELD_PROJECT)
        record.project = given->project;
    if (fields & PAL_SESSION_FIELD_AGENT)
        record.agent = given->agent;
    if (fields & PAL_SESSION_FIELD_METADATA)
        record.metadata = given->metadata;
    if (fields & PAL_SESSION_FIELD_SCOPE)
        record.scope = given->scope;
    if (fields & PAL_SESSION_FIELD_EXPIRES_AT)
        record.expires_at = given->expires_at;
    if (fields & PAL_SESSION_FIELD_KEY)
        record.key = given->key;
    if (fields & PAL_SESSION_FIELD_ALIASES) {
        record.aliases = given->aliases;
        record.aliases_len = given->aliases_len;
        record.is_routed = given->is_routed;
        record.alias_apart = given->alias_apart;
    }
    record.updated_at = fields & PAL_SESSION_FIELD_UPDATED_AT ? given->updated_at : work->now_ms;
    return record;
}

pal_status pal_memory_update(memory_engine *engine, pal_work *work)
{
    bool sets_expiry = (work->op->u.update.fields & PAL_SESSION_FIELD_EXPIRES_AT) != 0;
    memory_session *session = NULL;
    pal_session record, *before;
    memory_info *info;
    pal_status status =
            pal_memory_session_for(engine, work, sets_expiry ? MEMORY_ALLOW_EXPIRED : 0, &session);

    if (status != PAL_OK)
        return status;
    before = &session->info->record;
    record = record_updated(session, work);
    status = pal_memory_names_check(session->tenant, work, &record, session);
    if (status != PAL_OK)
        return status;
    info = pal_memory_info_new(&record, session->tenant);
    if (!info)
        return no_memory(work);
    if (pal_memory_names_take(session, &record, before, work->now_ms) != PAL_OK) {
        pal_free(info);
        return no_memory(work);
    }
    pal_memory_names_drop(session, before, &record);
    pal_free(session->info);
    session->info = info;
    return PAL_OK;
}

pal_status pal_memory_delete(memory_engine *engine, pal_work *work)
{
    memory_session *session = NULL;
    pal_status status = pal_memory_session_for(engine, work, MEMORY_ALLOW_EXPIRED, &session);

    if (status == PAL_OK)
        pal_memory_session_trash(session, work->now_ms);
    return status;
}

/* Removes aliases from the record that belong to other sessions by now. */
static void aliases_filter(memory_session *session)
{
    pal_session *record = &session->info->record;
    size_t kept = 0;

    if (record->is_routed)
        return;
    for (size_t i = 0; i < record->aliases_len; i++)
        if (pal_memory_name_find(&session->tenant->aliases, record->aliases[i]) == session)
            record->aliases[kept++] = record->aliases[i];
    record->aliases_len = kept;
}

pal_status pal_memory_restore(memory_engine *engine, pal_work *work)
{
    memory_session *session = NULL, *holder;
    pal_session *record;
    char text[PAL_ID_TEXT_SIZE];
    pal_status status = pal_memory_session_for(
            engine, work, MEMORY_ALLOW_EXPIRED | MEMORY_ALLOW_TRASH, &session);

    if (status != PAL_OK)
        return status;
    record = &session->info->record;
    if (record->state == PAL_SESSION_ACTIVE && !pal_memory_session_expired(session, work->now_ms)) {
        pal_id_to_text(record->id, text);
        return pal_error_set(
                &work->op->error, PAL_CONFLICT, "session '%s' is not in the trash", text);
    }
    holder = pal_memory_name_find(&session->tenant->keys, record->key);
    if (holder && holder != session && !pal_memory_session_expired(holder, work->now_ms))
        return pal_error_set(&work->op->error, PAL_CONFLICT,
                "key '%.*s' belongs to another session", PAL_STR_ARG(record->key));
    status = check_room(session->tenant, work);
    if (status != PAL_OK)
        return status;
    if (pal_memory_names_take(session, record, record->state == PAL_SESSION_ACTIVE ? record : NULL,
                work->now_ms) != PAL_OK)
        return no_memory(work);
    aliases_filter(session);
    mem_state_leave(session);
    record->state = PAL_SESSION_ACTIVE;
    mem_state_enter(session);
    record->deleted_at = 0;
    if (record->expires_at != 0 && work->now_ms > record->expires_at)
        record->expires_at = 0;
    return PAL_OK;
}
