/* memory_list.c - reads sessions of "memory:": by name, page by page, and those with items in
 * their inbox. */
#include <stdlib.h>
#include "base/clock.h"
#include "base/memory.h"
#include "store/memory/memory_store.h"

void pal_memory_session_copy(
        const memory_session *session, pal_arena *arena, pal_session_row *out_row)
{
    const pal_session *from = &session->info->record;
    pal_session *to = &out_row->session;

    out_row->past = NULL;
    *to = *from;
    to->tenant = pal_arena_copy(arena, from->tenant);
    to->key = pal_arena_copy(arena, from->key);
    to->title = pal_arena_copy(arena, from->title);
    to->project = pal_arena_copy(arena, from->project);
    to->agent = pal_arena_copy(arena, from->agent);
    to->scope = pal_arena_copy(arena, from->scope);
    to->metadata = pal_arena_copy(arena, from->metadata);
    to->extra = pal_arena_copy(arena, from->extra);
    to->alias_apart = pal_arena_copy(arena, from->alias_apart);
    to->aliases = from->aliases_len ? pal_arena_array(arena, from->aliases_len, sizeof *to->aliases)
                                    : NULL;
    for (size_t i = 0; to->aliases && i < from->aliases_len; i++)
        to->aliases[i] = pal_arena_copy(arena, from->aliases[i]);
    out_row->handle = (pal_handle){.number = session->handle,
            .id = out_row->session.id,
            .tenant = out_row->session.tenant};
    out_row->mark_number = session->mark_number;
    to->fork_mark = session->fork_mark;
}

static memory_session *find_by(
        memory_engine *engine, pal_str tenant_name, pal_session_by by, pal_str name)
{
    memory_tenant *tenant = pal_memory_tenant_find(engine, tenant_name);
    memory_session *session = NULL;
    pal_id id;

    if (!tenant)
        return NULL;
    if (by == PAL_SESSION_BY_ID) {
        memcpy(id.bytes, name.data, sizeof id.bytes);
        return pal_memory_session_find(engine, tenant_name, id);
    }
    session =
            pal_memory_name_find(by == PAL_SESSION_BY_KEY ? &tenant->keys : &tenant->aliases, name);
    return session && !pal_memory_session_expired(session, pal_clock_now_ms()) ? session : NULL;
}

pal_status pal_memory_find(pal_engine *base, pal_str tenant, pal_session_by by, pal_str name,
        pal_arena *arena, pal_session_row *out_row, pal_error *err)
{
    memory_engine *engine = (memory_engine *)base;
    pal_status status = PAL_NOT_FOUND;
    memory_session *session;
    pal_session_row row;

    pthread_rwlock_rdlock(&engine->lock);
    session = find_by(engine, tenant, by, name);
    if (session) {
        pal_memory_session_copy(session, arena, &row);
        status = pal_memory_arena_status(arena, err);
    }
    pthread_rwlock_unlock(&engine->lock);
    if (status == PAL_OK)
        *out_row = row;
    return status;
}

/* An expired session counts as in the trash, even before the sweep moves it there. */
static pal_session_state state_of(const memory_session *session, int64_t now_ms)
{
    return pal_memory_session_expired(session, now_ms) ? PAL_SESSION_TRASH
                                                    : session->info->record.state;
}

static bool matches(const memory_session *session, const pal_session_query *query, int64_t now_ms)
{
    const pal_session *record = &session->info->record;
    pal_session_state wanted = query->state == PAL_SESSION_NONE ? PAL_SESSION_ACTIVE : query->state;

    if (record->state != wanted || wanted == PAL_SESSION_ERASED)
        return false;
    if (pal_memory_session_expired(session, now_ms))
        return false;
    if (query->project.len > 0 && !pal_str_equal(query->project, record->project))
        return false;
    if (query->agent.len > 0 && !pal_str_equal(query->agent, record->agent))
        return false;
    if (query->updated_from != 0 && record->updated_at < query->updated_from)
        return false;
    return query->updated_to == 0 || record->updated_at < query->updated_to;
}

/* The newest update comes first, then the largest handle. */
static bool comes_before(const memory_session *a, int64_t updated_at, uint64_t handle)
{
    int64_t a_updated_at = a->info->record.updated_at;

    return a_updated_at != updated_at ? a_updated_at > updated_at : a->handle > handle;
}

static int compare_sessions(const void *a, const void *b)
{
    const memory_session *left = *(memory_session *const *)a, *right = *(memory_session *const *)b;

    return comes_before(left, right->info->record.updated_at, right->handle) ? -1 : 1;
}

/* Collects the matching sessions after the cursor. Returns NULL if there is no memory. */
static memory_session **gather(const memory_tenant *tenant, const pal_session_query *query,
        int64_t after_ms, uint64_t after_handle, size_t *out_len)
{
    int64_t now_ms = pal_clock_now_ms();
    size_t count = 0;
    memory_session **found;

    for (memory_session *session = tenant->sessions; session; session = session->next)
        count++;
    found = pal_calloc(count, sizeof(memory_session *));
    *out_len = 0;
    for (memory_session *session = found ? tenant->sessions : NULL; session;
            session = session->next) {
        bool is_after = after_handle == 0 ||
                (session->handle != after_handle && !comes_before(session, after_ms, after_handle));

        if (is_after && matches(session, query, now_ms))
            found[(*out_len)++] = session;
    }
    return found;
}

static pal_status list_tenant(const memory_tenant *tenant, const pal_session_query *query,
        int64_t after_ms, uint64_t after_handle, pal_arena *arena, pal_session_row *out_rows,
        size_t rows_max, size_t *out_len, pal_error *err)
{
    size_t len;
    memory_session **found = gather(tenant, query, after_ms, after_handle, &len);

    if (!found)
        return pal_no_memory(err);
    qsort(found, len, sizeof(memory_session *), compare_sessions);
    if (len > rows_max)
        len = rows_max;
    for (size_t i = 0; i < len; i++)
        pal_memory_session_copy(found[i], arena, &out_rows[i]);
    pal_free(found);
    *out_len = len;
    return pal_memory_arena_status(arena, err);
}

pal_status pal_memory_list(pal_engine *base, const pal_session_query *query, int64_t after_ms,
        pal_handle after, pal_arena *arena, pal_session_row *out_rows, size_t rows_max,
        size_t *out_len, pal_error *err)
{
    memory_engine *engine = (memory_engine *)base;
    pal_status status = PAL_OK;
    memory_tenant *tenant;
    size_t len = 0;

    pthread_rwlock_rdlock(&engine->lock);
    tenant = pal_memory_tenant_find(engine, query->tenant);
    if (tenant)
        status = list_tenant(
                tenant, query, after_ms, after.number, arena, out_rows, rows_max, &len, err);
    pthread_rwlock_unlock(&engine->lock);
    if (status == PAL_OK)
        *out_len = len;
    return status;
}

/* ---- Sessions with inbox items ---- */

/* Compares by id, then by tenant, because two tenants may have the same id. */
static int compare_owners(pal_inbox_owner a, pal_inbox_owner b)
{
    size_t len = a.tenant.len < b.tenant.len ? a.tenant.len : b.tenant.len;
    int order = memcmp(a.session.bytes, b.session.bytes, sizeof a.session.bytes);

    if (order == 0 && len > 0)
        order = memcmp(a.tenant.data, b.tenant.data, len);
    if (order == 0)
        order = (a.tenant.len > b.tenant.len) - (a.tenant.len < b.tenant.len);
    return order;
}

static pal_inbox_owner owner_of(const memory_session *session)
{
    return (pal_inbox_owner){.tenant = session->tenant->name, .session = session->id};
}

static bool is_owner(const memory_session *session, const pal_inbox_owner *after, int64_t now_ms)
{
    return session->inbox && state_of(session, now_ms) == PAL_SESSION_ACTIVE &&
            compare_owners(owner_of(session), *after) > 0;
}

static int compare_by_owner(const void *a, const void *b)
{
    return compare_owners(
            owner_of(*(memory_session *const *)a), owner_of(*(memory_session *const *)b));
}

/* Fills the array as far as there is room. Returns the total number. */
static size_t find_owners(const memory_engine *engine, const pal_inbox_owner *after, int64_t now_ms,
        memory_session **out_owners)
{
    size_t len = 0;

    for (const memory_tenant *tenant = engine->tenant_list; tenant; tenant = tenant->next)
        for (memory_session *session = tenant->sessions; session; session = session->next)
            if (is_owner(session, after, now_ms)) {
                if (out_owners)
                    out_owners[len] = session;
                len++;
            }
    return len;
}

static pal_status list_owners(const memory_engine *engine, const pal_inbox_owner *after,
        int64_t now_ms, pal_arena *arena, pal_inbox_owner *out_owners, size_t owners_max,
        size_t *out_len, pal_error *err)
{
    size_t len = find_owners(engine, after, now_ms, NULL);
    memory_session **found = pal_calloc(len + 1, sizeof(memory_session *));

    if (!found)
        return pal_no_memory(err);
    find_owners(engine, after, now_ms, found);
    qsort(found, len, sizeof(memory_session *), compare_by_owner);
    if (len > owners_max)
        len = owners_max;
    for (size_t i = 0; i < len; i++) {
        out_owners[i].tenant = pal_arena_copy(arena, found[i]->tenant->name);
        out_owners[i].session = found[i]->id;
    }
    pal_free(found);
    *out_len = len;
    return pal_memory_arena_status(arena, err);
}

pal_status pal_memory_inbox_owners(pal_engine *base, const pal_inbox_owner *after, int64_t now_ms,
        pal_arena *arena, pal_inbox_owner *out_owners, size_t owners_max, size_t *out_len,
        pal_error *err)
{
    memory_engine *engine = (memory_engine *)base;
    size_t len = 0;
    pal_status status;

    pthread_rwlock_rdlock(&engine->lock);
    status = list_owners(engine, after, now_ms, arena, out_owners, owners_max, &len, err);
    pthread_rwlock_unlock(&engine->lock);
    if (status == PAL_OK)
        *out_len = len;
    return status;
}
