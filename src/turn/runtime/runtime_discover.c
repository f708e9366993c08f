/* runtime_discover.c - finds endpoints for a runtime that was given none: those with keys in the
 * usual environment variables, otherwise services on this machine, otherwise echo. The search runs
 * on the loop; the opening thread waits for it. */
#include "turn/runtime/runtime.h"

#include <stdlib.h>

#include "base/memory.h"
#include "provider/provider_discover.h"
#include "turn/runtime/runtime_ask.h"

typedef struct discovery {
    pal_task task;
    pal_ask ask; /* ended when endpoints were found, or the search could not start */
    pal_runtime *runtime;
    pal_endpoint *endpoints;
    size_t len;
    pal_status status;
    pal_error *err;
} discovery;

static const char *variable(void *user, const char *name)
{
    (void)user;
    return getenv(name);
}

static pal_endpoint copy_found(pal_arena *arena, const pal_discovered *found)
{
    return (pal_endpoint){
            .name = pal_arena_copy(arena, found->config.name),
            .kind = pal_arena_copy(arena, found->config.kind),
            .url = pal_arena_copy(arena, found->config.url),
            .api_key = pal_arena_copy(arena, found->config.api_key),
            .model = pal_arena_copy(arena, found->model),
            .api_key_env = pal_arena_copy(arena, found->key_variable),
    };
}

static void found(void *user, const pal_discovered *list, size_t len)
{
    discovery *d = user;
    pal_arena *arena = d->runtime->arena;

    d->endpoints = pal_arena_array(arena, len, sizeof(*d->endpoints));
    for (size_t i = 0; d->endpoints && i < len; i++)
        d->endpoints[i] = copy_found(arena, &list[i]);
    d->len = len;
    d->runtime->is_stopgap = pal_str_is(list[0].config.kind, "echo");
    pal_ask_end(&d->ask);
}

static void begin(pal_task *task)
{
    discovery *d = (discovery *)((char *)task - offsetof(discovery, task));

    d->status = pal_discover_start(
            d->runtime->http, d->runtime->loop, variable, found, d, d->err);
    if (d->status != PAL_OK)
        pal_ask_end(&d->ask);
}

pal_status pal_discover_endpoints(
        pal_runtime *runtime, pal_runtime_options *options, pal_error *err)
{
    discovery d = {.task.run = begin, .runtime = runtime, .err = err};

    pal_ask_begin(&d.ask);
    pal_loop_post(runtime->loop, &d.task);
    pal_ask_wait(&d.ask);
    if (d.status != PAL_OK)
        return d.status;
    if (!d.endpoints || pal_arena_failure(runtime->arena) != PAL_OK)
        return pal_no_memory(err);
    options->endpoints = d.endpoints;
    options->endpoints_len = d.len;
    return PAL_OK;
}
