/* config_check.c - conditions between several keys: names that must differ, references to other
 * keys, and values that follow from several keys, such as prices and agents. Stops at the first
 * mistake. */
#include "config/config_row.h"

#include <stdio.h>
#include "base/digest.h"
#include "base/text.h"
#include "palaver/limits.h"

#define MICROS 1e6
#define VERSION_BYTES 8 /* bytes of the hash that identifies a price list */
#define SHOWN_MAX 60

typedef struct checker {
    const pal_config_node *root;
    const char *name;
    pal_arena *arena;
    pal_config_state *state;
    pal_error *err;
    pal_status status; /* the first failure */
} checker;

static void fail_no_memory(checker *c)
{
    if (c->status == PAL_OK)
        c->status = pal_config_fail(c->err, PAL_NO_MEMORY, c->name, 0, "out of memory");
}

/* Returns a zeroed array; NULL after a failure. */
static void *new_array(checker *c, size_t len, size_t size)
{
    void *array = c->status == PAL_OK ? pal_arena_array(c->arena, len + 1, size) : NULL;
    if (!array)
        fail_no_memory(c);
    return array;
}

/* Returns the line of a key in an element; the line of the element if the key is missing. */
static uint32_t line_of(const pal_config_node *element, const char *key)
{
    const pal_config_node *node = pal_config_node_find(element, key);
    return node ? node->line : element->line;
}

/* ---- Models and prices ---- */

static bool has_price(const pal_config_price *price)
{
    return price->input >= 0 || price->cache_read >= 0 || price->cache_write >= 0 ||
            price->output >= 0;
}

static uint64_t micros_of(double usd, double otherwise)
{
    double price = usd >= 0 ? usd : otherwise;
    return price >= 0 ? (uint64_t)(price * MICROS + 0.5) : 0;
}

static void add_price(const pal_config_model *model, pal_price *out_price)
{
    const pal_config_price *price = &model->price;
    *out_price = (pal_price){
            .pattern = model->rule.pattern,
            .input = micros_of(price->input, -1),
            .cache_read = micros_of(price->cache_read, price->input),
            .cache_write = micros_of(price->cache_write, price->input),
            .output = micros_of(price->output, -1),
    };
}

/* Computes a name for the price list: equal prices always have the same name. */
static void name_prices(checker *c)
{
    const pal_runtime_options *runtime = &c->state->runtime;
    uint8_t digest[PAL_SHA256_SIZE];
    char text[2 * VERSION_BYTES + 1];
    pal_buf buf;
    pal_buf_init(&buf, SIZE_MAX / 2);
    for (size_t i = 0; i < runtime->prices_len; i++) {
        const pal_price *price = &runtime->prices[i];
        pal_buf_format(&buf, "%zu:%.*s %llu %llu %llu %llu\n", price->pattern.len,
                PAL_STR_ARG(price->pattern), (unsigned long long)price->input,
                (unsigned long long)price->cache_read, (unsigned long long)price->cache_write,
                (unsigned long long)price->output);
    }
    if (buf.failure || pal_sha256(pal_buf_str(&buf), digest) != PAL_OK) {
        fail_no_memory(c);
    } else {
        pal_hex(digest, VERSION_BYTES, text);
        c->state->runtime.price_version = pal_arena_copy(c->arena, pal_str_of(text));
        if (pal_arena_failure(c->arena))
            fail_no_memory(c);
    }
    pal_buf_done(&buf);
}

/* A '*' anywhere but at the end would match nothing, and the user would not notice. */
static void check_pattern(checker *c, size_t i, const pal_config_node *element, pal_str pattern)
{
    const char *star = pattern.len ? memchr(pattern.data, '*', pattern.len) : NULL;
    if (!pattern.len || (star && star != pattern.data + pattern.len - 1))
        c->status = pal_config_fail(c->err, PAL_INVALID, c->name, line_of(element, "name"),
                "'models[%zu].name' can contain '*' only at its end", i);
}

static void check_models(checker *c)
{
    pal_config_values *values = &c->state->values;
    const pal_config_node *node = pal_config_list_at(c->root, "models", 0);
    pal_model_rule *rules = new_array(c, values->models_len, sizeof *rules);
    pal_price *prices = new_array(c, values->models_len, sizeof *prices);
    size_t prices_len = 0;
    for (size_t i = 0; i < values->models_len && c->status == PAL_OK; i++, node = node->next) {
        rules[i] = values->models[i].rule;
        check_pattern(c, i, node, rules[i].pattern);
        if (has_price(&values->models[i].price))
            add_price(&values->models[i], &prices[prices_len++]);
    }
    values->model_rules = rules;
    c->state->runtime.prices = prices;
    c->state->runtime.prices_len = prices_len;
    if (c->status == PAL_OK && prices_len && c->state->runtime.price_version.len == 0)
        name_prices(c);
}

/* ---- Providers and tool servers ---- */

static bool is_listed(const pal_endpoint *endpoints, size_t len, pal_str name)
{
    for (size_t i = 0; i < len; i++) {
        if (pal_str_equal(endpoints[i].name, name))
            return true;
    }
    return false;
}

static void check_providers(checker *c)
{
    const pal_config_state *state = c->state;
    const pal_config_node *node = pal_config_list_at(c->root, "providers", 0);
    pal_endpoint *endpoints = new_array(c, state->providers_len, sizeof *endpoints);
    for (size_t i = 0; i < state->providers_len && c->status == PAL_OK; i++, node = node->next) {
        pal_endpoint endpoint = state->providers[i].endpoint;
        endpoint.headers = NULL; /* their variables are not resolved yet */
        endpoint.headers_len = 0;
        if (endpoint.name.len == 0)
            endpoint.name = endpoint.kind;
        if (is_listed(endpoints, i, endpoint.name))
            c->status = pal_config_fail(c->err, PAL_INVALID, c->name, line_of(node, "name"),
                    "provider '%.*s' already exists; choose a different name for 'providers[%zu]'",
                    PAL_STR_ARG(endpoint.name), i);
        endpoints[i] = endpoint;
    }
    c->state->runtime.endpoints = endpoints;
    c->state->runtime.endpoints_len = state->providers_len;
}

/* The names of the tools begin with this name, and model services allow no other characters. */
static bool is_tool_word(pal_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_letter && !(c >= '0' && c <= '9') && c != '_' && c != '-')
            return false;
    }
    return text.len > 0;
}

static bool has_server(const pal_config_state *state, size_t len, pal_str name)
{
    for (size_t i = 0; i < len; i++) {
        if (pal_str_equal(state->tool_servers[i].server.name, name))
            return true;
    }
    return false;
}

static void check_tool_server(checker *c, size_t i, const pal_config_node *node)
{
    const pal_tool_server *server = &c->state->tool_servers[i].server;
    const pal_config_auth *auth = &c->state->tool_servers[i].auth;
    const char *wrong = NULL;
    if (!is_tool_word(server->name))
        wrong = ".name' must consist of letters, digits, '_' and '-'";
    else if (has_server(c->state, i, server->name))
        wrong = ".name' is already in use; choose a different name";
    else if ((server->command_len > 0) == (server->url.len > 0))
        wrong = "' must have either a 'command' or a 'url'";
    else if (server->url.len > 0 && c->state->tool_servers[i].variables_len > 0)
        wrong = ".environment' requires a 'command'; use 'headers' for a 'url'";
    else if (server->command_len > 0 && server->headers_len > 0)
        wrong = ".headers' requires a 'url'; use 'environment' for a 'command'";
    else if (server->command_len > 0 && (auth->auth.client_id.len > 0 || auth->grant))
        wrong = ".auth' requires a 'url'";
    else if (auth->grant == PAL_CONFIG_GRANT_CLIENT && !auth->auth.client_id.len)
        wrong = ".auth.grant' client_credentials requires 'client_id'";
    else if (auth->grant >= PAL_CONFIG_GRANT_WORKLOAD &&
            (!auth->auth.client_id.len || !auth->auth.token_file.len))
        wrong = ".auth.grant' workload or enterprise requires 'client_id' and 'token_file'";
    else if (auth->grant == PAL_CONFIG_GRANT_ENTERPRISE &&
            (!auth->idp.token_url.len || !auth->idp.client_id.len))
        wrong = ".auth.grant' enterprise requires 'idp_token_url' and 'idp_client_id'";
    else if (auth->grant < PAL_CONFIG_GRANT_WORKLOAD && auth->auth.token_file.len > 0)
        wrong = ".auth.token_file' requires 'grant' workload or enterprise";
    else if (auth->grant != PAL_CONFIG_GRANT_ENTERPRISE &&
            (auth->idp.token_url.len > 0 || auth->idp.client_id.len > 0 ||
                    auth->idp_secret_env.len > 0))
        wrong = ".auth' with an identity provider requires 'grant' enterprise";
    else if (auth->client_secret_env.len > 0 && auth->auth.client_key.len > 0)
        wrong = ".auth' must not have both 'client_secret_env' and 'client_key'";
    if (wrong)
        c->status = pal_config_fail(c->err, PAL_INVALID, c->name, line_of(node, "name"),
                "'mcp_servers[%zu]%s", i, wrong);
}

static void check_tool_servers(checker *c)
{
    const pal_config_node *node = pal_config_list_at(c->root, "mcp_servers", 0);
    for (size_t i = 0; i < c->state->tool_servers_len && c->status == PAL_OK; i++) {
        check_tool_server(c, i, node);
        node = node->next;
    }
}

/* ---- Agents ---- */

/* Without 'providers', a discovered provider may have this name, so any name is allowed. */
static void check_agent_provider(checker *c, size_t i, const pal_config_node *node)
{
    const pal_runtime_options *runtime = &c->state->runtime;
    pal_str name = c->state->agents[i].settings.endpoint;
    if (name.len == 0 || runtime->endpoints_len == 0 ||
            is_listed(runtime->endpoints, runtime->endpoints_len, name))
        return;
    c->status = pal_config_fail(c->err, PAL_INVALID, c->name, line_of(node, "provider"),
            "'agents[%zu].provider' is '%.*s', which is not defined in 'providers'", i,
            PAL_EXCERPT(name, SHOWN_MAX));
}

/* The same choice as in routing: the first agent with is_default, otherwise the first agent. */
static pal_str default_agent(const pal_route_agent *agents, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (agents[i].is_default)
            return agents[i].id;
    }
    return len ? agents[0].id : (pal_str){0};
}

static void check_agents(checker *c)
{
    pal_config_state *state = c->state;
    const pal_config_node *node = pal_config_list_at(c->root, "agents", 0);
    size_t len = state->agents_len;
    pal_route_agent *routes = new_array(c, len, sizeof *routes);
    pal_agent_settings *settings = new_array(c, len, sizeof *settings);
    pal_context_settings *contexts = new_array(c, len, sizeof *contexts);
    for (size_t i = 0; i < len && c->status == PAL_OK; i++, node = node->next) {
        routes[i] = state->agents[i].route;
        settings[i] = state->agents[i].settings;
        settings[i].name = routes[i].id;
        settings[i].has_tools = !pal_config_node_is_null(pal_config_node_find(node, "tools"));
        if (!pal_config_node_is_null(pal_config_node_find(node, "context")))
            settings[i].context = &contexts[i];
        check_agent_provider(c, i, node);
    }
    state->values.session.agents = routes;
    state->values.session.agents_len = len;
    state->runtime.agents = settings;
    state->runtime.agents_len = len;
    state->agent_contexts = contexts;
    if (c->status != PAL_OK)
        return;
    state->runtime.default_agent = default_agent(routes, len);
    pal_config_state_refresh(c->root, state);
}

/* Checks the settings as routing does, for example for control characters. */
static void check_session(checker *c)
{
    pal_route_settings *settings = NULL;
    pal_error cause = {PAL_OK, ""};
    pal_status status = pal_route_settings_new(&c->state->values.session, &settings, &cause);
    if (status != PAL_OK)
        c->status = pal_config_fail(c->err, status, c->name, 0, "session: %s", cause.message);
    pal_route_settings_free(settings);
}

pal_status pal_config_state_check(const pal_config_node *root, const char *name, pal_arena *arena,
        pal_config_state *state, pal_error *err)
{
    checker c = {root, name, arena, state, err, PAL_OK};
    void (*const checks[])(checker *) = {
            check_models, check_providers, check_tool_servers, check_agents, check_session};
    for (size_t i = 0; i < sizeof checks / sizeof *checks && c.status == PAL_OK; i++)
        checks[i](&c);
    return c.status;
}

/* ---- Context settings of agents ---- */

static size_t size_of(const pal_config_row *row)
{
    switch (row->kind) {
    case PAL_CONFIG_BOOL:
    case PAL_CONFIG_BOOL_OFF:
        return sizeof(bool);
    case PAL_CONFIG_COUNT:
        return sizeof(uint64_t);
    case PAL_CONFIG_COUNT32:
        return sizeof(uint32_t);
    case PAL_CONFIG_WORD:
        return sizeof(int);
    default:
        return 0;
    }
}

/* Copies the rows of a context that the file contains. */
static void copy_given(
        const pal_config_row *rows, const pal_config_node *map, const char *from, char *to)
{
    for (const pal_config_row *row = rows; row->name; row++) {
        const pal_config_node *node = pal_config_node_find(map, row->name);
        if (pal_config_node_is_null(node))
            continue;
        if (row->kind == PAL_CONFIG_SECTION)
            copy_given(row->rows, node, from + row->offset, to + row->offset);
        else
            memcpy(to + row->offset, from + row->offset, size_of(row));
    }
}

void pal_config_state_refresh(const pal_config_node *root, pal_config_state *state)
{
    const pal_config_node *node = pal_config_list_at(root, "agents", 0);
    for (size_t i = 0; i < state->agents_len; i++, node = node->next) {
        state->agent_contexts[i] = state->runtime.context;
        copy_given(pal_config_agent_context_rows, pal_config_node_find(node, "context"),
                (const char *)&state->agents[i].context, (char *)&state->agent_contexts[i]);
    }
}
