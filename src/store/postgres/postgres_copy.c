/* postgres_copy.c - see postgres_copy.h. */
#include "store/postgres/postgres_copy.h"

#include "base/memory.h"

pal_status pal_postgres_copy_open(pal_postgres *store, pal_postgres_copy *out_copy, pal_error *err)
{
    pal_status status;

    *out_copy = (pal_postgres_copy){.store = store, .arena = pal_arena_new(0)};
    if (!out_copy->arena)
        return pal_no_memory(err);
    status = pal_store_memory.open("", &store->options, &out_copy->engine, err);
    out_copy->memory = (memory_engine *)out_copy->engine;
    if (status == PAL_OK)
        out_copy->memory->clock = &store->base;
    return status;
}

/* Known rows, entries and blobs are in maps of the engine only, so the engine does not free them.
 * Its maps compare keys in them until it is closed. */
void pal_postgres_copy_close(pal_postgres_copy *copy)
{
    if (copy->engine)
        pal_store_memory.close(copy->engine);
    for (size_t i = 0; i < copy->rows_len; i++)
        pal_free(copy->rows[i]);
    for (size_t i = 0; i < copy->entries_len; i++)
        pal_free(copy->entries[i]);
    for (size_t i = 0; i < copy->blobs_len; i++)
        pal_free(copy->blobs[i]);
    for (size_t i = 0; i < copy->before_len; i++)
        pal_free(copy->before[i].inbox);
    pal_free(copy->before);
    pal_free(copy->rows);
    pal_free(copy->entries);
    pal_free(copy->blobs);
    pal_free(copy->blobs_put_at);
    pal_map_done(&copy->records);
    pal_arena_free(copy->arena);
}

pal_postgres_before *pal_postgres_copy_before(
        pal_postgres_copy *copy, const memory_session *session)
{
    if (session->handle == 0 || session->handle > copy->before_len)
        return NULL;
    return &copy->before[session->handle - 1];
}

pal_str pal_postgres_copy_record_key(
        pal_postgres_copy *copy, pal_str tenant, pal_str kind, pal_str name)
{
    size_t len = tenant.len + kind.len + name.len + 2;
    char *key = pal_arena_alloc(copy->arena, len);

    if (!key)
        return pal_str_make(NULL, 0);
    memcpy(key, tenant.data, tenant.len);
    memcpy(key + tenant.len + 1, kind.data, kind.len);
    memcpy(key + tenant.len + kind.len + 2, name.data, name.len);
    return pal_str_make(key, len);
}
