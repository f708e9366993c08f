/* memory_name.c - keys and aliases of "memory:": which session has which name.
 *
 * A name is a separate object in the tenant's map, so that a session's record can be replaced
 * without touching the names that it keeps. */
#include "base/memory.h"
#include "store/memory/memory_store.h"

memory_session *pal_memory_name_find(const pal_map *names, pal_str text)
{
    const memory_name *name = pal_map_find(names, text);

    return name ? name->session : NULL;
}

static bool name_take(pal_map *names, pal_str text, memory_session *session)
{
    char *cursor;
    memory_name *name;

    if (text.len == 0 || pal_map_find(names, text))
        return true;
    name = pal_memory_alloc(sizeof *name, text.len, &cursor);
    if (!name)
        return false;
    name->session = session;
    name->text = pal_memory_put(&cursor, text);
    if (pal_map_set(names, name->text, name) == PAL_OK)
        return true;
    pal_free(name);
    return false;
}

static void name_drop(pal_map *names, pal_str text, const memory_session *session)
{
    if (text.len > 0 && pal_memory_name_find(names, text) == session)
        pal_free(pal_map_remove(names, text));
}

pal_status pal_memory_names_copy(
        memory_session *self, const pal_session *record, const bool *alias_leads)
{
    memory_tenant *tenant = self->tenant;
    bool taken;

    if (record->state != PAL_SESSION_ACTIVE)
        return PAL_OK;
    taken = name_take(&tenant->keys, record->key, self);
    for (size_t i = 0; taken && i < record->aliases_len; i++)
        taken = !alias_leads[i] || name_take(&tenant->aliases, record->aliases[i], self);
    if (taken)
        return PAL_OK;
    pal_memory_names_drop(self, record, NULL);
    return PAL_NO_MEMORY;
}

static bool has_alias(const pal_session *record, pal_str alias)
{
    for (size_t i = 0; record && i < record->aliases_len; i++)
        if (pal_str_equal(record->aliases[i], alias))
            return true;
    return false;
}

static bool is_apart(const pal_session *record, pal_str alias)
{
    return record->alias_apart.len > 0 && pal_str_equal(record->alias_apart, alias);
}

void pal_memory_names_drop(memory_session *self, const pal_session *record, const pal_session *keep)
{
    if (!keep || !pal_str_equal(keep->key, record->key))
        name_drop(&self->tenant->keys, record->key, self);
    for (size_t i = 0; i < record->aliases_len; i++)
        if (!has_alias(keep, record->aliases[i]) || is_apart(keep, record->aliases[i]))
            name_drop(&self->tenant->aliases, record->aliases[i], self);
}

void pal_memory_session_trash(memory_session *session, int64_t now_ms)
{
    pal_memory_names_drop(session, &session->info->record, NULL);
    mem_state_leave(session);
    session->info->record.state = PAL_SESSION_TRASH;
    mem_state_enter(session);
    session->info->record.deleted_at = now_ms;
}

static bool is_held(const memory_session *holder, const memory_session *self, int64_t now_ms)
{
    return holder && holder != self && !pal_memory_session_expired(holder, now_ms);
}

pal_status pal_memory_names_check(memory_tenant *tenant, pal_work *work, const pal_session *record,
        const memory_session *self)
{
    if (is_held(pal_memory_name_find(&tenant->keys, record->key), self, work->now_ms))
        return pal_error_set(&work->op->error, PAL_CONFLICT,
                "key '%.*s' belongs to another session", PAL_STR_ARG(record->key));
    for (size_t i = 0; !record->is_routed && i < record->aliases_len; i++)
        if (is_held(pal_memory_name_find(&tenant->aliases, record->aliases[i]), self, work->now_ms))
            return pal_error_set(&work->op->error, PAL_CONFLICT,
                    "alias '%.*s' belongs to another session", PAL_STR_ARG(record->aliases[i]));
    return PAL_OK;
}

static void trash_expired(
        const pal_map *names, pal_str text, const memory_session *self, int64_t now_ms)
{
    memory_session *holder = pal_memory_name_find(names, text);

    if (holder && holder != self && pal_memory_session_expired(holder, now_ms))
        pal_memory_session_trash(holder, now_ms);
}

pal_status pal_memory_names_take(
        memory_session *self, const pal_session *record, const pal_session *before, int64_t now_ms)
{
    memory_tenant *tenant = self->tenant;
    bool taken;

    trash_expired(&tenant->keys, record->key, self, now_ms);
    for (size_t i = 0; i < record->aliases_len; i++)
        trash_expired(&tenant->aliases, record->aliases[i], self, now_ms);
    taken = name_take(&tenant->keys, record->key, self);
    for (size_t i = 0; taken && i < record->aliases_len; i++)
        taken = is_apart(record, record->aliases[i]) ||
                name_take(&tenant->aliases, record->aliases[i], self);
    if (taken)
        return PAL_OK;
    pal_memory_names_drop(self, record, before);
    return PAL_NO_MEMORY;
}
