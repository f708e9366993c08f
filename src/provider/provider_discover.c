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
#include "palaver/limits.h"
#include "provider/provider_kind.h"

#define OLLAMA_HOST "127.0.0.1:11434"
#define LLAMA_CPP_URL "http://127.0.0.1:8080/v1"

/* ---- Candidates ---- */

static pal_str joined(pal_arena *arena, pal_str a, pal_str b, pal_str c)
{
    const pal_str pieces[] = {a, b, c};
    size_t len = 0;
    char *data = pal_arena_alloc(arena, a.len + b.len + c.len + 1);
    if (!data)
        return pal_str_make(NULL, 0);
    for (size_t i = 0; i < 3; i++) {
        if (pieces[i].len)
            memcpy(data + len, pieces[i].data, pieces[i].len);
        len += pieces[i].len;
    }
    return pal_str_make(data, len);
}

/* Ollama's environment variable contains its listen address: "0.0.0.0", ":11434", "host:port" or a
 * URL. */
static pal_str ollama_url(pal_str host, pal_arena *arena)
{
    static const char any[] = "0.0.0.0";
    const size_t any_len = sizeof any - 1;
    pal_str http = pal_str_of("http://"), port = {0}, here = {0};
    if (pal_text_is_http_url(host))
        return host;
    if (host.len == 0)
        host = pal_str_of(OLLAMA_HOST);
    if (pal_text_begins(host, any)) {
        here = pal_str_of("127.0.0.1");
        host = pal_str_make(host.data + any_len, host.len - any_len);
    } else if (host.data[0] == ':') {
        here = pal_str_of("127.0.0.1");
    }
    if (host.len == 0 || !memchr(host.data, ':', host.len))
        port = pal_str_of(":11434");
    return joined(arena, http, joined(arena, here, host, port), pal_str_make(NULL, 0));
}

static pal_discovered candidate(
        const char *name, const char *kind, pal_str url, pal_str key, const char *model)
{
    return (pal_discovered){
            .config = {.name = pal_str_of(name),
                    .kind = pal_str_of(kind),
                    .url = url,
                    .api_key = key},
            .model = pal_str_of(model),
    };
}

static pal_discovered local(const char *name, pal_str url)
{
    pal_discovered found = candidate(name, "openai", url, pal_str_make(NULL, 0), NULL);
    found.is_local = true;
    return found;
}

/* A service that is available if its key is set. */
typedef struct keyed_service {
    const char *variable;
    pal_discovered found;
} keyed_service;

size_t pal_discover_list(
        const pal_discover_env *env, pal_arena *arena, pal_discovered out_list[PAL_DISCOVERED_MAX])
{
    size_t len = 0;
    pal_str none = {0};
    const keyed_service services[] = {
            {"OPENAI_API_KEY",
                    candidate("openai", "openai", env->openai_base_url, env->openai_api_key,
                            env->openai_base_url.len ? NULL : "gpt-5-mini")},
            {"ANTHROPIC_API_KEY",
                    candidate("anthropic", "anthropic", env->anthropic_base_url,
                            env->anthropic_api_key, "claude-sonnet-4-5")},
            {"MISTRAL_API_KEY",
                    candidate("mistral", "mistral", none, env->mistral_api_key,
                            "mistral-medium-latest")},
            {"OPENROUTER_API_KEY",
                    candidate("openrouter", "openai", pal_str_of("https://openrouter.ai/api/v1"),
                            env->openrouter_api_key, "openrouter/auto")},
            {"GROQ_API_KEY",
                    candidate("groq", "openai", pal_str_of("https://api.groq.com/openai/v1"),
                            env->groq_api_key, "llama-3.3-70b-versatile")},
    };
    for (size_t i = 0; i < sizeof(services) / sizeof(*services); i++) {
        if (services[i].found.config.api_key.len == 0)
            continue;
        out_list[len] = services[i].found;
        out_list[len++].key_variable = pal_str_of(services[i].variable);
    }
    if (env->openai_base_url.len && env->openai_api_key.len == 0)
        out_list[len++] = local("openai", env->openai_base_url);
    out_list[len++] = local("ollama", ollama_url(env->ollama_host, arena));
    out_list[len++] = local("llama.cpp", pal_str_of(LLAMA_CPP_URL));
    out_list[len++] = candidate("echo", "echo", none, none, "echo");
    return len;
}

/* ---- Requests ---- */

/* A running request to a service that may be available. */
typedef struct probe {
    pal_discover *discover;
    pal_discovered *asked;
    pal_provider *provider;
    pal_http_call *call; /* NULL after the end of the call */
    pal_buf body;
} probe;

struct pal_discover {
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
    pal_discover_told told;
    void *user;
};

static void free_discover(pal_discover *discover)
{
    pal_timer_stop(discover->loop, &discover->timer);
    for (size_t i = 0; i < discover->probes_len; i++) {
        probe *each = &discover->probes[i];

        if (each->call)
            pal_http_cancel(each->call);
        pal_provider_close(each->provider);
        pal_buf_done(&each->body);
    }
    pal_arena_free(discover->scratch);
    pal_arena_free(discover->kept);
    pal_free(discover);
}

void pal_discover_cancel(pal_discover *discover)
{
    free_discover(discover);
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
static size_t keep_if(pal_discover *discover, bool (*is_kept)(const pal_discovered *found))
{
    size_t kept = 0;

    for (size_t i = 0; i < discover->len; i++)
        if (is_kept(&discover->list[i]))
            discover->list[kept++] = discover->list[i];
    return kept;
}

static void tell(pal_discover *discover, const pal_discovered *found, size_t len)
{
    discover->told(discover->user, found, len);
    free_discover(discover);
}

/* The last entry of the list is echo, which is always available. */
static void tell_local(pal_discover *discover)
{
    pal_discovered echo = discover->list[discover->len - 1];
    size_t kept = keep_if(discover, is_there);

    if (kept > 0)
        tell(discover, discover->list, kept);
    else
        tell(discover, &echo, 1);
}

/* Reads the first model name of the list. */
static void take_model(probe *asking)
{
    pal_discover *discover = asking->discover;
    pal_buf names;
    pal_json list, name;

    pal_buf_init(&names, PAL_PROVIDER_EVENT_BYTES_MAX);
    if (pal_models_read(pal_buf_str(&asking->body), discover->scratch, &names) &&
            pal_json_parse(discover->scratch, pal_buf_str(&names), NULL, &list, NULL) == PAL_OK) {
        pal_json_iter iter = pal_json_each(list);

        if (pal_json_next(&iter, NULL, &name))
            asking->asked->model =
                    pal_arena_copy(discover->kept, pal_json_string(name, discover->scratch));
    }
    pal_buf_done(&names);
}

static void on_body(void *user, pal_str bytes)
{
    probe *asking = user;
    pal_buf_append_str(&asking->body, bytes);
}

static void on_end(void *user, const pal_http_end *end)
{
    probe *asking = user;
    pal_discover *discover = asking->discover;

    asking->call = NULL;
    if (end->status == PAL_OK && end->code == 200 && !asking->body.failure)
        take_model(asking);
    if (--discover->waiting == 0)
        tell_local(discover);
}

static const pal_http_events http_events = {.body = on_body, .end = on_end};

static bool send(probe *asking)
{
    pal_discover *discover = asking->discover;
    pal_buf url;

    if (pal_provider_open(discover->http, discover->loop, &asking->asked->config, &asking->provider,
                NULL) != PAL_OK)
        return false;
    const pal_provider *provider = asking->provider;
    assert(provider);
    pal_buf_init(&url, provider->url.len + 16);
    pal_buf_append_str(&url, provider->url);
    pal_buf_append_text(&url, "/models");
    const pal_http_request request = {
            .method = "GET",
            .url = pal_buf_str(&url),
            .headers = provider->headers,
            .headers_len = provider->headers_len,
            .total_ms = PAL_DISCOVER_MS,
            .response_bytes_max = PAL_PROVIDER_EVENT_BYTES_MAX,
    };
    bool sent = !url.failure &&
            pal_http_start(discover->http, &request, &http_events, asking, &asking->call, NULL) ==
                    PAL_OK;
    pal_buf_done(&url);
    return sent;
}

static void ask_local(pal_discover *discover)
{
    for (size_t i = 0; i < discover->len; i++) {
        probe *asking = &discover->probes[discover->probes_len];

        if (!discover->list[i].is_local)
            continue;
        *asking = (probe){.discover = discover, .asked = &discover->list[i]};
        pal_buf_init(&asking->body, PAL_PROVIDER_EVENT_BYTES_MAX);
        discover->probes_len++;
        discover->waiting += send(asking);
    }
    if (discover->waiting == 0)
        tell_local(discover);
}

static void on_timer(pal_timer *timer)
{
    pal_discover *discover = (pal_discover *)((char *)timer - offsetof(pal_discover, timer));
    size_t keyed = 0;

    for (size_t i = 0; i < discover->len; i++)
        keyed += has_key(&discover->list[i]);
    if (keyed > 0)
        tell(discover, discover->list, keep_if(discover, has_key));
    else
        ask_local(discover);
}

static void keep(pal_discover *discover, pal_str *text)
{
    *text = pal_arena_copy(discover->kept, *text);
}

static pal_status set_up(pal_discover *discover, const pal_discover_env *env)
{
    discover->kept = pal_arena_new(0);
    discover->scratch = pal_arena_new(0);
    if (!discover->kept || !discover->scratch)
        return PAL_NO_MEMORY;
    discover->len = pal_discover_list(env, discover->kept, discover->list);
    for (size_t i = 0; i < discover->len; i++) {
        keep(discover, &discover->list[i].config.url);
        keep(discover, &discover->list[i].config.api_key);
    }
    if (pal_arena_failure(discover->kept) ||
            !pal_timer_start(discover->loop, &discover->timer, 0, on_timer))
        return PAL_NO_MEMORY;
    return PAL_OK;
}

pal_status pal_discover_start(pal_http *http, pal_loop *loop, const pal_discover_env *env,
        pal_discover_told told, void *user, pal_discover **out_discover, pal_error *err)
{
    pal_discover *discover = pal_calloc(1, sizeof(*discover));
    if (!discover)
        return pal_no_memory(err);
    *discover = (pal_discover){.http = http, .loop = loop, .told = told, .user = user};
    if (set_up(discover, env) != PAL_OK) {
        free_discover(discover);
        return pal_no_memory(err);
    }
    *out_discover = discover;
    return PAL_OK;
}
