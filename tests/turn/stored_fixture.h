/* stored_fixture.h - a separate store for each test, on the named backend. */
#ifndef STORED_FIXTURE_H
#define STORED_FIXTURE_H

#include "support/scratch.h"
#include "turn_fixture.h"

/* The first argument of the program names the backend. */
static struct {
    const char *backend;
    char dir[SCRATCH_PATH_MAX];
} stored;

static inline void open_stored(const pal_store_options *options)
{
    char location[SCRATCH_PATH_MAX + 32];

    if (!test.arena)
        test.arena = pal_arena_new(0);
    scratch_make(false, stored.dir);
    snprintf(location, sizeof(location), "%s:%s/store", stored.backend, stored.dir);
    OK(pal_store_open(strcmp(stored.backend, "memory") == 0 ? "memory:" : location, options,
            &test.store, &test.err));
}

#endif
