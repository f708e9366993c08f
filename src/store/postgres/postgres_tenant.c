/* postgres_tenant.c - the numbers of tenants.
 *
 * A tenant's number is made of its name, so that no look-up is needed. The table tenant has the
 * names: a name whose number belongs to another name is refused, so that two tenants never share
 * rows. A process asks for each name once. */
#include <string.h>

#include "base/digest.h"
#include "base/memory.h"
#include "store/postgres/postgres.h"

int64_t pal_postgres_tenant(pal_str name)
{
    uint8_t digest[PAL_SHA256_SIZE] = {0};
    uint64_t number = 0;

    if (pal_sha256(name, digest) != PAL_OK)
        return 0; /* no tenant has it: the check of the name fails */
    for (size_t i = 0; i < 8; i++)
        number = number << 8 | digest[i];
    return (int64_t)number;
}

static bool is_known(pal_postgres *store, pal_str name)
{
    bool known;

    pthread_mutex_lock(&store->lock);
    known = pal_map_find(&store->tenants, name) != NULL;
    pthread_mutex_unlock(&store->lock);
    return known;
}

/* If there is no memory, the name is asked for again next time. */
static void remember(pal_postgres *store, pal_str name)
{
    pal_str copy;

    pthread_mutex_lock(&store->lock);
    copy = pal_arena_copy(store->names, name);
    if (copy.len == name.len && pal_map_set(&store->tenants, copy, store) != PAL_OK)
        pal_map_remove(&store->tenants, copy);
    pthread_mutex_unlock(&store->lock);
}

void pal_postgres_tenants_forget(pal_postgres *store)
{
    pthread_mutex_lock(&store->lock);
    pal_map_done(&store->tenants);
    pal_map_init(&store->tenants);
    pthread_mutex_unlock(&store->lock);
}

static pal_status check_name(
        pal_postgres *store, const PGresult *result, pal_str name, bool *out_found, pal_error *err)
{
    *out_found = PQntuples(result) > 0;
    if (!*out_found)
        return PAL_OK;
    if (!pal_str_equal(pal_postgres_str(result, 0, 0), name))
        return pal_error_set(err, PAL_CONFLICT,
                "tenant '%.*s' has the number of another tenant; choose another name",
                PAL_EXCERPT(name, 80));
    remember(store, name);
    return PAL_OK;
}

pal_status pal_postgres_tenant_find(
        pal_postgres *store, pal_str name, bool *out_found, pal_error *err)
{
    pal_postgres_params params = {0};
    PGresult *result = NULL;
    pal_status status;

    *out_found = is_known(store, name);
    if (*out_found)
        return PAL_OK;
    pal_postgres_put_int(&params, pal_postgres_tenant(name));
    status = pal_postgres_read(store, PAL_POSTGRES_TENANT_NAME, &params, &result, err);
    if (status == PAL_OK)
        status = check_name(store, result, name, out_found, err);
    PQclear(result);
    return status;
}

pal_status pal_postgres_tenant_add(
        pal_postgres *store, pal_str name, pal_postgres_failure *out_failure, pal_error *err)
{
    pal_postgres_params params = {0};
    pal_postgres_flight flight;
    pal_status status;
    bool found;

    *out_failure = PAL_POSTGRES_FINE;
    if (is_known(store, name))
        return PAL_OK;
    pal_postgres_flight_begin(&flight, &store->writer);
    pal_postgres_put_int(&params, pal_postgres_tenant(name));
    pal_postgres_put_bytes(&params, name);
    pal_postgres_flight_add(&flight, PAL_POSTGRES_TENANT_ADD, &params);
    pal_postgres_put_int(&params, pal_postgres_tenant(name));
    pal_postgres_flight_add(&flight, PAL_POSTGRES_TENANT_NAME, &params);
    status = pal_postgres_flight_run(&flight, err);
    *out_failure = flight.failure;
    if (status == PAL_OK) {
        status = check_name(store, flight.results[1], name, &found, err);
        if (status != PAL_OK)
            *out_failure = PAL_POSTGRES_REFUSED;
    }
    pal_postgres_flight_done(&flight);
    return status;
}
