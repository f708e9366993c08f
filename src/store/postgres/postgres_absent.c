/* postgres_absent.c - replaces the backend "postgres:" in a build without libpq. */
#include "store/store_backend.h"

static pal_status absent_open(const char *location, const pal_store_options *options,
        pal_engine **out_engine, pal_error *err)
{
    (void)location;
    (void)options;
    (void)out_engine;
    return pal_error_set(err, PAL_INVALID,
            "this palaver was built without PostgreSQL; install libpq-dev and build it again");
}

const pal_store_backend pal_store_postgres = {.scheme = "postgres", .open = absent_open};
const pal_store_backend pal_store_postgresql = {.scheme = "postgresql", .open = absent_open};
