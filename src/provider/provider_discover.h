/* provider_discover.h - finds models' services when none is configured: by keys in the usual
 * variables of the environment, then by asking what may run on this machine, else echo. */
#ifndef PAL_PROVIDER_DISCOVER_H
#define PAL_PROVIDER_DISCOVER_H

#include "provider/provider.h"

/* The values of the variables; empty where one is not set. */
typedef struct pal_discover_env {
    pal_str openai_api_key;
    pal_str openai_base_url;
    pal_str anthropic_api_key;
    pal_str anthropic_base_url;
    pal_str mistral_api_key;
    pal_str openrouter_api_key;
    pal_str groq_api_key;
    pal_str ollama_host;
} pal_discover_env;

typedef struct pal_discovered {
    pal_provider_config config;
    pal_str model; /* to begin with; empty: the first that the service lists, to be asked for */
    pal_str key_variable; /* that its key came from; empty: it has none */
    bool is_local;        /* it may not be there: it has to be asked */
} pal_discovered;

#define PAL_DISCOVERED_MAX 9
#define PAL_DISCOVER_MS 300 /* that one that may be there has, to answer */

/* All that may be there, the best first, echo last; returns how many. Views are the environment's,
 * or lie in the arena. Pure. */
size_t pal_discover_list(
        const pal_discover_env *env, pal_arena *arena, pal_discovered out_list[PAL_DISCOVERED_MAX]);

/* Told once, the best first, at least one; views are valid during the call only. */
typedef void (*pal_discover_told)(void *user, const pal_discovered *found, size_t len);

typedef struct pal_discover pal_discover;

/* Finds all that have a key; where none has, all on this machine that answer, with their first
 * models; where none does, echo. On the loop; never tells before it returns. */
PAL_CHECKED pal_status pal_discover_start(pal_http *http, pal_loop *loop,
        const pal_discover_env *env, pal_discover_told told, void *user,
        pal_discover **out_discover, pal_error *err);
void pal_discover_cancel(pal_discover *discover); /* before it has told */

#endif
