/* provider_discover.c - finds model services if none is configured.
 *
 * A key in the environment shows that the user wants the service, so all services with a key are
 * used without asking them. Only if there is no key, servers on this machine are asked for their
 * models, all at the same time. A running server answers at once, and none gets more than
 * PAL_DISCOVER_MS. On the loop; pal_discover_list() is pure. */
#include "provider/provider_discover.h"

#include <assert.h>
#include "base/memory.h"
#include "base/text.h"
#include "provider/provider_kind.h"

/* ---- Candidates ---- */

/* The list that is being made. */
typedef struct candidates {
    pal_discover_variable variable;
    void *user;
    pal_discovered *list;
    size_t len;
} candidates;

static pal_str variable(const candidates *c, const char *name)
{
    return pal_str_of(name ? c->variable(c->user, name) : NULL);
}

static void add(candidates *c, pal_discovered found)
{
    assert(c->len < PAL_DISCOVERED_MAX);
    if (c->len < PAL_DISCOVERED_MAX)
        c->list[c->len++] = found;
}

static void add_keyed(candidates *c, const char *name, const char *kind, pal_str url,
        const char *model, const char *key_variable)
{
    pal_str key = variable(c, key_variable);
    if (key.len)
        add(c,
                (pal_discovered){.config = {.name = pal_str_of(name),
                                         .kind = pal_str_of(kind),
                                         .url = url,
                                         .api_key = key},
                        .model = pal_str_of(model),
                        .key_variable = pal_str_of(key_variable)});
}

static void add_local(candidates *c, const char *name, const char *kind, pal_str url)
{
    add(c,
            (pal_discovered){.config = {.name = pal_str_of(name),
                                     .kind = pal_str_of(kind),
                                     .url = url,
                                     .models_ms = PAL_DISCOVER_MS},
                    .is_local = true});
}

/* A service at another URL may have other models, so its first one is used. */
static void add_kind(candidates *c, const pal_provider_info *info)
{
    pal_str url = variable(c, info->url_variable);
    if (info->model)
        add_keyed(c, info->kind, info->kind, url, info->has_clones && url.len ? NULL : info->model,
                info->key_variable);
}

size_t pal_discover_list(pal_discover_variable get_variable, void *user, pal_arena *arena,
        pal_discovered out_list[PAL_DISCOVERED_MAX])
{
    candidates c = {.variable = get_variable, .user = user, .list = out_list};
    const pal_provider_info *info;
    const pal_provider_service *service;
    for (size_t i = 0; (info = pal_provider_info_at(i)); i++)
        add_kind(&c, info);
    for (size_t i = 0; (service = pal_provider_service_at(i)); i++) {
        if (service->key_variable)
            add_keyed(&c, service->name, service->kind, pal_str_of(service->url), service->model,
                    service->key_variable);
    }
    for (size_t i = 0; (info = pal_provider_info_at(i)); i++) {
        pal_str url = variable(&c, info->url_variable);
        if (info->has_clones && url.len && variable(&c, info->key_variable).len == 0)
            add_local(&c, info->kind, info->kind, url);
    }
    for (size_t i = 0; (service = pal_provider_service_at(i)); i++) {
        if (!service->key_variable)
            add_local(&c, service->name, service->kind,
                    pal_provider_service_url(service, variable(&c, service->url_variable), arena));
    }
    add(&c,
            (pal_discovered){.config = {.name = pal_str_of("echo"), .kind = pal_str_of("echo")},
                    .model = pal_str_of("echo")});
    return c.len;
}

/* ---- Requests ---- */

typedef struct discovery discovery;

/* A running request to a service that may be available. */
typedef struct probe {
    discovery *discover;
    pal_discovered *asked;
    pal_provider *provider;
} probe;

struct discovery {
    pal_http *http;
    pal_loop *loop;
    pal_arena *kept;
    pal_arena *scratch;
    pal_discovered list[PAL_DISCOVERED_MAX];
    size_t len;
    probe probes[PAL_DISCOVERED_MAX];
    size_t probes_len;
    size_t waiting; /* number of running probes */
    pal_timer timer;
    pal_discover_on_found on_found;
    void *user;
};

static void free_discover(discovery *discover)
{
    pal_loop_timer_stop(discover->loop, &discover->timer);
    for (size_t i = 0; i < discover->probes_len; i++) {
        /* This also cancels its request. */
        pal_provider_close(discover->probes[i].provider);
    }
    pal_arena_free(discover->scratch);
    pal_arena_free(discover->kept);
    pal_free(discover);
}

static bool has_key(const pal_discovered *found)
{
    return found->config.api_key.len > 0;
}

static bool is_there(const pal_discovered *found)
{
    return found->is_local && found->model.len > 0;
}

/* Moves the matching entries to the front and returns their number. */
static size_t keep_if(discovery *discover, bool (*is_kept)(const pal_discovered *found))
{
    size_t kept = 0;

    for (size_t i = 0; i < discover->len; i++)
        if (is_kept(&discover->list[i]))
            discover->list[kept++] = discover->list[i];
    return kept;
}

static void tell(discovery *discover, const pal_discovered *found, size_t len)
{
    discover->on_found(discover->user, found, len);
    free_discover(discover);
}

/* The last entry of the list is echo, which is always available. */
static void tell_local(discovery *discover)
{
    pal_discovered echo = discover->list[discover->len - 1];
    size_t kept = keep_if(discover, is_there);

    if (kept > 0)
        tell(discover, discover->list, kept);
    else
        tell(discover, &echo, 1);
}

/* Called with the list of models. A service that does not answer has no model. */
static void on_models(void *user, pal_str json, const pal_error *err)
{
    probe *asking = user;
    discovery *discover = asking->discover;
    pal_json list, name;
    (void)err;
    if (pal_json_parse(discover->scratch, json, NULL, &list, NULL) == PAL_OK) {
        pal_json_iter iter = pal_json_each(list);
        if (pal_json_next(&iter, NULL, &name))
            asking->asked->model =
                    pal_arena_copy(discover->kept, pal_json_string(name, discover->scratch));
    }
    if (--discover->waiting == 0)
        tell_local(discover);
}

static bool send(probe *asking)
{
    discovery *discover = asking->discover;
    return pal_provider_open(discover->http, discover->loop, &asking->asked->config,
                   &asking->provider, NULL) == PAL_OK &&
            pal_provider_models(asking->provider, on_models, asking, NULL) == PAL_OK;
}

static void ask_local(discovery *discover)
{
    for (size_t i = 0; i < discover->len; i++) {
        probe *asking = &discover->probes[discover->probes_len];

        if (!discover->list[i].is_local)
            continue;
        *asking = (probe){.discover = discover, .asked = &discover->list[i]};
        discover->probes_len++;
        discover->waiting += send(asking);
    }
    if (discover->waiting == 0)
        tell_local(discover);
}

static void on_timer(pal_timer *timer)
{
    discovery *discover = (discovery *)((char *)timer - offsetof(discovery, timer));
    size_t keyed = 0;

    for (size_t i = 0; i < discover->len; i++)
        keyed += has_key(&discover->list[i]);
    if (keyed > 0)
        tell(discover, discover->list, keep_if(discover, has_key));
    else
        ask_local(discover);
}

static void keep(discovery *discover, pal_str *text)
{
    *text = pal_arena_copy(discover->kept, *text);
}

static pal_status set_up(discovery *discover, pal_discover_variable get_variable)
{
    discover->kept = pal_arena_new(0);
    discover->scratch = pal_arena_new(0);
    if (!discover->kept || !discover->scratch)
        return PAL_NO_MEMORY;
    discover->len = pal_discover_list(
            get_variable, discover->user, discover->kept, discover->list);
    for (size_t i = 0; i < discover->len; i++) {
        keep(discover, &discover->list[i].config.url);
        keep(discover, &discover->list[i].config.api_key);
    }
    if (pal_arena_failure(discover->kept) ||
            !pal_loop_timer_start(discover->loop, &discover->timer, 0, on_timer))
        return PAL_NO_MEMORY;
    return PAL_OK;
}

pal_status pal_discover_start(pal_http *http, pal_loop *loop, pal_discover_variable get_variable,
        pal_discover_on_found on_found, void *user, pal_error *err)
{
    discovery *discover = pal_calloc(1, sizeof(*discover));
    if (!discover)
        return pal_no_memory(err);
    *discover = (discovery){.http = http, .loop = loop, .on_found = on_found, .user = user};
    if (set_up(discover, get_variable) != PAL_OK) {
        free_discover(discover);
        return pal_no_memory(err);
    }
    return PAL_OK;
}
