/* provider_discover.h - finds model services if none is configured: by API keys in the environment,
 * otherwise by asking servers on this machine, otherwise "echo". */
#ifndef PAL_PROVIDER_DISCOVER_H
#define PAL_PROVIDER_DISCOVER_H

#include "provider/provider.h"

/* Returns the value of an environment variable; NULL or empty if it is not set. */
typedef const char *(*pal_discover_variable)(void *user, const char *name);

typedef struct pal_discovered {
    pal_provider_config config;
    pal_str model;        /* the default model; empty: the first model that the service lists */
    pal_str key_variable; /* the variable that its key came from; empty: it has no key */
    bool is_local;        /* it may not be running, so it must be asked */
} pal_discovered;

#define PAL_DISCOVERED_MAX 32
#define PAL_DISCOVER_MS 300 /* how long a server that may be running has to answer */

/* Lists all possible services, the best first, echo last. Returns their number. Texts point into
 * the environment or the arena. Pure. */
size_t pal_discover_list(pal_discover_variable get_variable, void *user, pal_arena *arena,
        pal_discovered out_list[PAL_DISCOVERED_MAX]);

/* Called once, with at least one service, the best first. The texts are valid during the callback
 * only. */
typedef void (*pal_discover_on_found)(void *user, const pal_discovered *found, size_t len);

/* Finds all services with a key. If there is none, all servers on this machine that answer, with
 * their first models; if there is none, echo. Must be called on the loop. Variables are read before
 * this function returns, and the callback is never made before that. */
PAL_CHECKED pal_status pal_discover_start(pal_http *http, pal_loop *loop,
        pal_discover_variable get_variable, pal_discover_on_found on_found, void *user,
        pal_error *err);

#endif
