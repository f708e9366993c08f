/* stored_fixture.h - a store of its own for each test, on the backend that is named. */
#ifndef STORED_FIXTURE_H
#define STORED_FIXTURE_H

#include "support/scratch.h"
#include "turn_fixture.h"

static const char *backend;
static char dir[SCRATCH_PATH_MAX];

static inline void open_stored(const pal_store_options *options)
{
    char location[SCRATCH_PATH_MAX + 32];

    if (!arena)
        arena = pal_arena_new(0);
    scratch_make(false, dir);
    snprintf(location, sizeof(location), "%s:%s/store", backend, dir);
    CHECK(ok(pal_store_open(
            strcmp(backend, "memory") == 0 ? "memory:" : location, options, &store, &err)));
}

#endif
