/* config_runtime.c - builds the options of a runtime: reads the secrets that the file only
 * names, and selects the provider and the model. It reads the environment and changes nothing.
 * It can be called from any thread, as long as no thread changes the environment. */
#include <stdio.h>
#include <stdlib.h>
#include "base/memory.h"
#include "base/text.h"
#include "config/config_row.h"
#include "palaver/limits.h"
#include "palaver/provider_info.h"

#define SHOWN_MAX 60
#define RESOLVED_LEN_MAX (1u << 20)

typedef struct resolver {
    const pal_config *config;
    const pal_config_state *state;
    pal_arena *arena;
    pal_error *err;
    pal_status status; /* the first failure */
} resolver;

/* Returns what is known about a kind. Nothing is known about an unknown one. */
static const pal_provider_info *info_of(pal_str kind)
{
    static const pal_provider_info unknown;
    const pal_provider_info *info = pal_provider_info_find(kind);
    return info ? info : &unknown;
}

/* Returns the value of a variable. An empty value is the same as none. */
static pal_str variable(const char *name)
{
    return pal_str_of(name ? getenv(name) : NULL);
}

static void fail_no_memory(resolver *r)
{
    if (r->status == PAL_OK)
        r->status = pal_no_memory(r->err);
}

/* `node` is the part of the file that requires the variable; NULL if it is not from a file. */
static void fail_unset(
        resolver *r, const char *what, pal_str of, pal_str missing, const pal_config_node *node)
{
    char text[PAL_ERROR_MESSAGE_MAX];
    snprintf(text, sizeof text, "%s '%.*s' requires environment variable %.*s, which is not set",
            what, PAL_EXCERPT(of, SHOWN_MAX), PAL_EXCERPT(missing, SHOWN_MAX));
    if (r->status != PAL_OK)
        return;
    if (node)
        r->status = pal_config_fail(r->err, PAL_NOT_FOUND, r->config->name, node->line, "%s", text);
    else
        r->status = pal_error_set(r->err, PAL_NOT_FOUND, "%s", text);
}

/* ---- References ---- */

/* Replaces variables in the text by their values; the result is in the arena. If a variable is
 * not set, returns false and its name in *out_missing. */
static bool resolve(resolver *r, pal_str text, pal_str *out_text, pal_str *out_missing)
{
    pal_buf buf;
    size_t at = 0;
    pal_str before, name;
    bool is_whole = true;
    pal_buf_init(&buf, RESOLVED_LEN_MAX);
    while (is_whole && pal_config_reference_next(text, &at, &before, &name)) {
        name = pal_arena_copy(r->arena, name); /* now terminated by NUL */
        pal_str value = variable(name.data);
        pal_buf_append_str(&buf, before);
        pal_buf_append_str(&buf, value);
        is_whole = value.len > 0;
    }
    if (!is_whole)
        *out_missing = name;
    pal_buf_append(&buf, text.data ? text.data + at : "", text.len - at);
    *out_text = pal_arena_copy(r->arena, pal_buf_str(&buf));
    if (buf.failure || pal_arena_failure(r->arena))
        fail_no_memory(r);
    pal_buf_done(&buf);
    return is_whole;
}

static bool resolve_headers(resolver *r, const pal_header *from, size_t len,
        const pal_header **out_headers, pal_str *out_missing)
{
    pal_header *headers = pal_arena_array(r->arena, len + 1, sizeof *headers);
    bool is_whole = true;
    if (!headers)
        fail_no_memory(r);
    for (size_t i = 0; headers && i < len && is_whole && r->status == PAL_OK; i++) {
        headers[i].name = from[i].name;
        is_whole = resolve(r, from[i].value, &headers[i].value, out_missing);
    }
    *out_headers = headers;
    return is_whole;
}

/* ---- Providers ---- */

static pal_str name_of(const pal_config_provider *provider)
{
    return provider->endpoint.name.len ? provider->endpoint.name : provider->endpoint.kind;
}

/* If a provider has its own URL, the usual key of its kind is not sent there. */
static bool resolve_provider(resolver *r, const pal_config_provider *provider,
        pal_endpoint *out_endpoint, pal_str *out_missing)
{
    pal_str key = provider->api_key_env;
    *out_endpoint = provider->endpoint;
    out_endpoint->name = name_of(provider);
    if (key.len == 0 && out_endpoint->url.len == 0)
        key = pal_str_of(info_of(out_endpoint->kind)->key_variable);
    if (key.len > 0) {
        out_endpoint->api_key = pal_arena_copy(r->arena, variable(key.data));
        out_endpoint->api_key_env = key;
        *out_missing = key;
        if (out_endpoint->api_key.len == 0)
            return false;
    }
    return resolve_headers(r, provider->endpoint.headers, provider->endpoint.headers_len,
            &out_endpoint->headers, out_missing);
}

/* Makes a provider of a known service that is not configured. Its key is required, unless the user
 * names another URL. */
static pal_config_provider make_service(
        const resolver *r, const pal_provider_service *service)
{
    pal_config_provider made = {.endpoint = {.name = pal_str_of(service->name),
                                        .kind = pal_str_of(service->kind),
                                        .url = r->state->provider_url,
                                        .model = pal_str_of(service->model)}};
    bool is_elsewhere = made.endpoint.url.len > 0;
    if (!is_elsewhere)
        made.endpoint.url =
                pal_provider_service_url(service, variable(service->url_variable), r->arena);
    if (!is_elsewhere || variable(service->key_variable).len)
        made.api_key_env = pal_str_of(service->key_variable);
    return made;
}

/* Makes a provider of a kind that is not configured. */
static pal_config_provider make_provider(const resolver *r, pal_str kind)
{
    const pal_provider_service *service = pal_provider_service_find(kind);
    if (service)
        return make_service(r, service);
    const pal_provider_info *info = info_of(kind);
    pal_config_provider made = {.endpoint = {.kind = kind, .url = r->state->provider_url}};
    if (made.endpoint.url.len == 0)
        made.endpoint.url = variable(info->url_variable);
    if (variable(info->key_variable).len)
        made.api_key_env = pal_str_of(info->key_variable);
    return made;
}

/* A kind that needs a path, such as a script, cannot be used without configuration. */
static bool is_usable(const pal_provider_info *info)
{
    return info->kind && !info->needs_path;
}

static pal_status unknown_provider(pal_str name, pal_error *err)
{
    char kinds[160] = "";
    size_t len = 0;
    const pal_provider_info *info;
    const pal_provider_service *service;
    for (size_t i = 0; len < sizeof kinds && (info = pal_provider_info_at(i)); i++) {
        if (is_usable(info))
            len += (size_t)snprintf(
                    kinds + len, sizeof kinds - len, "%s%s", len ? ", " : "", info->kind);
    }
    for (size_t i = 0; len < sizeof kinds && (service = pal_provider_service_at(i)); i++)
        len += (size_t)snprintf(kinds + len, sizeof kinds - len, ", %s", service->name);
    return pal_error_set(err, PAL_INVALID,
            "unknown provider '%.*s'; define it in 'providers', or use one of %s",
            PAL_EXCERPT(name, SHOWN_MAX), kinds);
}

/* Returns the index of the selected provider; providers_len if it is not listed. */
static size_t choose(const resolver *r)
{
    const pal_config_state *state = r->state;
    size_t len = state->providers_len;
    for (size_t i = 0; i < len && state->provider.len; i++) {
        if (pal_str_equal(name_of(&state->providers[i]), state->provider))
            return i;
    }
    for (size_t i = 0; i < len && state->provider.len; i++) {
        if (pal_str_equal(state->providers[i].endpoint.kind, state->provider))
            return i;
    }
    if (state->provider.len)
        return len;
    for (size_t i = 0; i < len && state->runtime.model.len && !state->provider_url.len; i++) {
        if (pal_str_equal(state->providers[i].endpoint.model, state->runtime.model))
            return i;
    }
    return 0;
}

/* Resolves the first endpoint. Returns false if there is none, or after a failure. */
static bool resolve_first(resolver *r, size_t chosen, pal_endpoint *out_endpoint)
{
    const pal_config_state *state = r->state;
    pal_config_provider first;
    pal_str kind = state->provider.len ? state->provider : pal_str_of("openai"), missing;
    bool is_listed = chosen < state->providers_len;
    if (is_listed) {
        first = state->providers[chosen];
        if (state->provider_url.len)
            first.endpoint.url = state->provider_url;
    } else if (state->provider.len == 0 && state->provider_url.len == 0) {
        return false;
    } else if (!is_usable(info_of(kind)) && !pal_provider_service_find(kind)) {
        r->status = unknown_provider(kind, r->err);
        return false;
    } else {
        first = make_provider(r, kind);
    }
    if (!resolve_provider(r, &first, out_endpoint, &missing))
        fail_unset(r, "provider", name_of(&first), missing,
                is_listed ? pal_config_list_at(r->config->root, "providers", chosen) : NULL);
    if (state->runtime.model.len)
        out_endpoint->model = state->runtime.model;
    return r->status == PAL_OK;
}

/* If the user selects a provider, the others do not need their keys: those without a key are
 * left out. */
static void resolve_providers(resolver *r, pal_runtime_options *options)
{
    const pal_config_state *state = r->state;
    pal_endpoint *endpoints =
            pal_arena_array(r->arena, state->providers_len + 1, sizeof *endpoints);
    size_t chosen = choose(r), len = 0;
    pal_str missing;
    if (!endpoints)
        fail_no_memory(r);
    else if (resolve_first(r, chosen, &endpoints[0]))
        len = 1;
    for (size_t i = 0; endpoints && i < state->providers_len && r->status == PAL_OK; i++) {
        if (i == chosen)
            continue;
        if (resolve_provider(r, &state->providers[i], &endpoints[len], &missing))
            len++;
        else if (state->provider.len == 0)
            fail_unset(r, "provider", name_of(&state->providers[i]), missing,
                    pal_config_list_at(r->config->root, "providers", i));
    }
    options->endpoints = endpoints;
    options->endpoints_len = len;
}

/* ---- Tool servers ---- */

static pal_str assignment(resolver *r, pal_str name, pal_str value)
{
    char *data = pal_arena_alloc(r->arena, name.len + value.len + 2);
    if (!data) {
        fail_no_memory(r);
        return pal_str_make(NULL, 0);
    }
    if (name.len)
        memcpy(data, name.data, name.len);
    data[name.len] = '=';
    if (value.len)
        memcpy(data + name.len + 1, value.data, value.len);
    return pal_str_make(data, name.len + value.len + 1);
}

static bool resolve_environment(resolver *r, const pal_config_tool_server *from,
        pal_tool_server *server, pal_str *out_missing)
{
    const pal_header *variables = NULL;
    pal_str *texts = pal_arena_array(r->arena, from->variables_len + 1, sizeof *texts);
    if (!texts)
        fail_no_memory(r);
    if (!resolve_headers(r, from->variables, from->variables_len, &variables, out_missing))
        return false;
    for (size_t i = 0; texts && i < from->variables_len && r->status == PAL_OK; i++)
        texts[i] = assignment(r, variables[i].name, variables[i].value);
    server->environment = texts;
    server->environment_len = from->variables_len;
    return true;
}

/* Returns the file with the login of a server, in the arena. Empty: there is no home directory. */
static pal_str login_file(resolver *r, pal_str name)
{
    const pal_str own = r->state->mcp_logins, state = variable("XDG_STATE_HOME");
    const pal_str home = variable("HOME");
    pal_buf path;
    pal_buf_init(&path, RESOLVED_LEN_MAX);
    if (own.len) {
        pal_buf_append_str(&path, own);
    } else if (state.len && state.data[0] == '/') {
        pal_buf_append_str(&path, state);
        pal_buf_append_text(&path, "/palaver/mcp");
    } else if (home.len) {
        pal_buf_append_str(&path, home);
        pal_buf_append_text(&path, "/.local/state/palaver/mcp");
    } else {
        return pal_str_make(NULL, 0);
    }
    pal_buf_append_text(&path, "/");
    pal_buf_append_str(&path, name);
    pal_buf_append_text(&path, ".json");
    pal_str copy = pal_arena_copy(r->arena, pal_buf_str(&path));
    if (path.failure)
        fail_no_memory(r);
    pal_buf_done(&path);
    return copy;
}

/* Returns false if the variable is not set. */
static bool resolve_secret(pal_str name, pal_str *out_secret, pal_str *out_missing)
{
    if (!name.len)
        return true;
    *out_missing = name;
    *out_secret = variable(name.data);
    return out_secret->len > 0;
}

/* A server with a URL can always require a login. */
static bool resolve_auth(resolver *r, const pal_config_tool_server *from, pal_tool_server *server,
        pal_str *out_missing)
{
    pal_tool_auth *auth = from->server.url.len ? pal_arena_alloc(r->arena, sizeof *auth) : NULL;
    pal_tool_idp *idp = from->server.url.len ? pal_arena_alloc(r->arena, sizeof *idp) : NULL;
    if (!from->server.url.len)
        return true;
    if (!auth || !idp) {
        fail_no_memory(r);
        return true;
    }
    *auth = from->auth.auth;
    *idp = from->auth.idp;
    auth->client_credentials = from->auth.grant == PAL_CONFIG_GRANT_CLIENT;
    if (from->auth.grant == PAL_CONFIG_GRANT_ENTERPRISE)
        auth->idp = idp;
    auth->file = login_file(r, from->server.name);
    server->auth = auth;
    return resolve_secret(from->auth.client_secret_env, &auth->client_secret, out_missing) &&
            resolve_secret(from->auth.idp_secret_env, &idp->client_secret, out_missing);
}

static void resolve_servers(resolver *r, pal_runtime_options *options)
{
    const pal_config_state *state = r->state;
    pal_tool_server *servers =
            pal_arena_array(r->arena, state->tool_servers_len + 1, sizeof *servers);
    pal_str missing;
    if (!servers)
        fail_no_memory(r);
    for (size_t i = 0; servers && i < state->tool_servers_len && r->status == PAL_OK; i++) {
        const pal_config_tool_server *from = &state->tool_servers[i];
        servers[i] = from->server;
        if (!resolve_environment(r, from, &servers[i], &missing) ||
                !resolve_headers(r, from->server.headers, from->server.headers_len,
                        &servers[i].headers, &missing) ||
                !resolve_auth(r, from, &servers[i], &missing))
            fail_unset(r, "MCP server", from->server.name, missing,
                    pal_config_list_at(r->config->root, "mcp_servers", i));
    }
    options->tool_servers = servers;
    options->tool_servers_len = state->tool_servers_len;
}

/* ---- Agents ---- */

static bool has_endpoint(const pal_runtime_options *options, pal_str name)
{
    for (size_t i = 0; i < options->endpoints_len; i++) {
        if (pal_str_equal(options->endpoints[i].name, name))
            return true;
    }
    return false;
}

/* Agents whose provider was left out get the selected one. */
static void resolve_agents(resolver *r, pal_runtime_options *options)
{
    pal_agent_settings *agents = pal_arena_array(r->arena, options->agents_len + 1, sizeof *agents);
    if (!agents) {
        fail_no_memory(r);
        return;
    }
    for (size_t i = 0; i < options->agents_len; i++) {
        agents[i] = options->agents[i];
        if (agents[i].endpoint.len && !has_endpoint(options, agents[i].endpoint))
            agents[i].endpoint = agents[i].model = pal_str_make(NULL, 0);
    }
    options->agents = agents;
}

pal_status pal_config_runtime(const pal_config *config, pal_arena *arena,
        pal_runtime_options *out_options, pal_error *err)
{
    resolver r = {config, &config->state, arena, err, PAL_OK};
    pal_runtime_options options = config->state.runtime;
    resolve_providers(&r, &options);
    if (r.status == PAL_OK)
        resolve_servers(&r, &options);
    if (r.status == PAL_OK && r.state->provider.len)
        resolve_agents(&r, &options);
    if (r.status == PAL_OK)
        *out_options = options;
    return r.status;
}
