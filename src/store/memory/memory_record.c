/* memory_record.c - records of "memory:". The records of each kind are in an array that is
 * sorted by name, so that binary search finds a page of a list. A write replaces the complete
 * record. */
#include "base/memory.h"
#include "store/memory/memory_store.h"

/* ---- Kinds ---- */

static memory_kind *kind_get(memory_tenant *tenant, pal_str name)
{
    memory_kind *kind = pal_map_find(&tenant->kinds, name);
    char *cursor;

    if (kind)
        return kind;
    kind = pal_memory_alloc(sizeof *kind, name.len, &cursor);
    if (!kind)
        return NULL;
    kind->name = pal_memory_put(&cursor, name);
    if (pal_map_set(&tenant->kinds, kind->name, kind) != PAL_OK) {
        pal_free(kind);
        return NULL;
    }
    kind->next = tenant->kind_list;
    tenant->kind_list = kind;
    return kind;
}

/* Returns the index of the name, or where it would be inserted. */
static size_t place_of(const memory_kind *kind, pal_str name)
{
    size_t first = 0, last = kind->len;

    while (first < last) {
        size_t middle = first + (last - first) / 2;

        if (pal_text_compare(kind->items[middle]->record.name, name) < 0)
            first = middle + 1;
        else
            last = middle;
    }
    return first;
}

static bool is_at(const memory_kind *kind, size_t place, pal_str name)
{
    return place < kind->len && pal_str_equal(kind->items[place]->record.name, name);
}

memory_record *pal_memory_record_get(const memory_tenant *tenant, pal_str kind_name, pal_str name)
{
    const memory_kind *kind = pal_map_find(&tenant->kinds, kind_name);
    size_t place = kind ? place_of(kind, name) : 0;

    return kind && is_at(kind, place, name) ? kind->items[place] : NULL;
}

/* ---- Adding and removing ---- */

static memory_record *record_new(memory_kind *kind, const pal_record *given)
{
    char *cursor;
    memory_record *record =
            pal_memory_alloc(sizeof *record, given->name.len + given->body.len, &cursor);

    if (!record)
        return NULL;
    record->kind = kind;
    record->record = *given;
    record->record.kind = kind->name;
    record->record.name = pal_memory_put(&cursor, given->name);
    record->record.body = pal_memory_put(&cursor, given->body);
    return record;
}

static void own(memory_session *owner, memory_record *record)
{
    record->owner = owner;
    if (!owner)
        return;
    record->next = owner->records;
    if (record->next)
        record->next->prev = record;
    owner->records = record;
}

static void record_free(memory_record *record)
{
    if (record->next)
        record->next->prev = record->prev;
    if (record->prev)
        record->prev->next = record->next;
    else if (record->owner)
        record->owner->records = record->next;
    pal_free(record);
}

pal_status pal_memory_record_keep(
        memory_tenant *tenant, memory_session *owner, const pal_record *given)
{
    memory_kind *kind = kind_get(tenant, given->kind);
    memory_record *record;
    size_t place;

    if (!kind || !pal_reserve(&kind->items, &kind->cap, kind->len + 1, sizeof(memory_record *)))
        return PAL_NO_MEMORY;
    record = record_new(kind, given);
    if (!record)
        return PAL_NO_MEMORY;
    place = place_of(kind, given->name);
    if (is_at(kind, place, given->name)) {
        record_free(kind->items[place]);
    } else {
        memmove(kind->items + place + 1, kind->items + place,
                (kind->len - place) * sizeof(memory_record *));
        kind->len++;
    }
    kind->items[place] = record;
    own(owner, record);
    return PAL_OK;
}

void pal_memory_record_remove(memory_record *record)
{
    memory_kind *kind = record->kind;
    size_t place = place_of(kind, record->record.name);

    kind->len--;
    memmove(kind->items + place, kind->items + place + 1,
            (kind->len - place) * sizeof(memory_record *));
    record_free(record);
}

memory_record *pal_memory_record_copy(const memory_record *record)
{
    memory_record *copy = record_new(record->kind, &record->record);

    if (copy)
        copy->owner = record->owner;
    return copy;
}

/* The list of the kind had room for the record before, so it has room now. */
void pal_memory_record_restore(memory_engine *engine, const pal_work *work, memory_record *before)
{
    const pal_record *written = work->op->u.record.record;
    const memory_tenant *tenant = pal_memory_tenant_find(engine, work->tenant);
    memory_record *now =
            tenant ? pal_memory_record_get(tenant, written->kind, written->name) : NULL;
    memory_kind *kind;
    size_t place;

    if (now)
        pal_memory_record_remove(now);
    if (!before)
        return;
    kind = before->kind;
    place = place_of(kind, before->record.name);
    memmove(kind->items + place + 1, kind->items + place,
            (kind->len - place) * sizeof(memory_record *));
    kind->items[place] = before;
    kind->len++;
    own(before->owner, before);
}

uint64_t pal_memory_records_erase(memory_session *session)
{
    uint64_t gone = 0;

    for (; session->records; gone++)
        pal_memory_record_remove(session->records);
    return gone;
}

/* Makes one pass, however many records are removed. */
static bool sweep_kind(memory_kind *kind, int64_t now_ms, uint32_t *left)
{
    bool has_more = false;
    size_t kept = 0;

    for (size_t i = 0; i < kind->len; i++) {
        bool is_due = pal_record_expired(&kind->items[i]->record, now_ms);

        if (is_due && *left > 0) {
            record_free(kind->items[i]);
            (*left)--;
        } else {
            kind->items[kept++] = kind->items[i];
            has_more = has_more || is_due;
        }
    }
    kind->len = kept;
    return has_more;
}

bool pal_memory_records_sweep(memory_tenant *tenant, int64_t now_ms, uint32_t *left)
{
    bool has_more = false;

    for (memory_kind *kind = tenant->kind_list; kind; kind = kind->next)
        has_more = sweep_kind(kind, now_ms, left) || has_more;
    return has_more;
}

void pal_memory_records_clear(memory_tenant *tenant)
{
    while (tenant->kind_list) {
        memory_kind *kind = tenant->kind_list;

        tenant->kind_list = kind->next;
        for (size_t i = 0; i < kind->len; i++)
            record_free(kind->items[i]);
        pal_free(kind->items);
        pal_free(kind);
    }
    pal_map_done(&tenant->kinds);
}

/* ---- Operations ---- */

/* Of the session that the operation names, only the fence matters for the record. */
static pal_status check_fence(memory_engine *engine, pal_work *work)
{
    memory_session *ignored;

    if (pal_id_is_none(work->op->session))
        return PAL_OK;
    return pal_memory_session_for(
            engine, work, MEMORY_ALLOW_EXPIRED | MEMORY_ALLOW_TRASH, &ignored);
}

static pal_status find_owner(memory_engine *engine, pal_work *work, memory_session **out_owner)
{
    pal_id id = work->op->u.record.record->session;

    *out_owner = NULL;
    if (pal_id_is_none(id))
        return PAL_OK;
    return pal_memory_session_check(
            engine, work, id, MEMORY_ALLOW_EXPIRED | MEMORY_ALLOW_TRASH, out_owner);
}

/* Returns the record, or NULL if it does not exist or has expired. */
static memory_record *find_live(memory_engine *engine, const pal_work *work)
{
    const pal_record *wanted = work->op->u.record.record;
    const memory_tenant *tenant = pal_memory_tenant_find(engine, work->tenant);
    memory_record *record =
            tenant ? pal_memory_record_get(tenant, wanted->kind, wanted->name) : NULL;

    return record && !pal_record_expired(&record->record, work->now_ms) ? record : NULL;
}

pal_status pal_memory_record_put(memory_engine *engine, pal_work *work)
{
    pal_record record = *work->op->u.record.record;
    const memory_record *before = find_live(engine, work);
    memory_session *owner = NULL;
    memory_tenant *tenant;
    pal_status status = check_fence(engine, work);

    if (status == PAL_OK)
        status = find_owner(engine, work, &owner);
    if (status == PAL_OK)
        status = pal_record_check_version(work, before ? before->record.version : 0);
    if (status != PAL_OK)
        return status;
    if (!work->copied) {
        record.version = before ? before->record.version + 1 : 1;
        record.created_at = before ? before->record.created_at : work->now_ms;
        record.updated_at = work->now_ms;
    }
    tenant = pal_memory_tenant_get(engine, work->tenant);
    if (!tenant || pal_memory_record_keep(tenant, owner, &record) != PAL_OK)
        return pal_no_memory(&work->op->error);
    *work->op->u.record.record = record;
    return PAL_OK;
}

pal_status pal_memory_record_drop(memory_engine *engine, pal_work *work)
{
    memory_record *record = find_live(engine, work);
    pal_status status = check_fence(engine, work);

    if (status == PAL_OK && !record)
        status = pal_record_missing(work);
    if (status == PAL_OK)
        pal_memory_record_remove(record);
    return status;
}

/* ---- Reading ---- */

static void record_copy(const memory_record *record, pal_arena *arena, pal_record *out_record)
{
    *out_record = record->record;
    out_record->kind = pal_arena_copy(arena, record->record.kind);
    out_record->name = pal_arena_copy(arena, record->record.name);
    out_record->body = pal_arena_copy(arena, record->record.body);
}

/* Lists from the record after `after` on, in the requested order. */
static size_t list_kind(const memory_kind *kind, const pal_record_scan *scan, pal_arena *arena,
        pal_record *out_records)
{
    size_t place = 0, left = kind->len, len = 0;

    if (scan->after.len > 0) {
        place = place_of(kind, scan->after);
        if (scan->descending)
            left = place;
        else
            left = kind->len - (place += is_at(kind, place, scan->after));
    }
    for (size_t i = 0; i < left && len < scan->records_max; i++) {
        const memory_record *record = kind->items[scan->descending ? left - 1 - i : place + i];

        if (!pal_handle_is_none(scan->handle) &&
                (!record->owner || record->owner->handle != scan->handle.number))
            continue;
        if (!pal_record_expired(&record->record, scan->now_ms))
            record_copy(record, arena, &out_records[len++]);
    }
    return len;
}

static size_t list_tenant(const memory_tenant *tenant, const pal_record_scan *scan,
        pal_arena *arena, pal_record *out_records)
{
    const memory_record *record;
    const memory_kind *kind;

    if (scan->name.len == 0) {
        kind = pal_map_find(&tenant->kinds, scan->kind);
        return kind ? list_kind(kind, scan, arena, out_records) : 0;
    }
    record = pal_memory_record_get(tenant, scan->kind, scan->name);
    if (!record || pal_record_expired(&record->record, scan->now_ms))
        return 0;
    record_copy(record, arena, out_records);
    return 1;
}

pal_status pal_memory_record_list(pal_engine *base, const pal_record_scan *scan, pal_arena *arena,
        pal_record *out_records, size_t *out_len, pal_error *err)
{
    memory_engine *engine = (memory_engine *)base;
    const memory_tenant *tenant;
    size_t len = 0;
    pal_status status;

    pthread_rwlock_rdlock(&engine->lock);
    tenant = pal_memory_tenant_find(engine, scan->tenant);
    if (tenant)
        len = list_tenant(tenant, scan, arena, out_records);
    pthread_rwlock_unlock(&engine->lock);
    status = pal_memory_arena_status(arena, err);
    if (status == PAL_OK)
        *out_len = len;
    return status;
}
