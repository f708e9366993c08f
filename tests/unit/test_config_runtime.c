/* test_config_runtime.c - the part of the configuration for the runtime: providers, tool servers,
 * agents, prices, and secrets, which only the environment has. */
#include <stdio.h>
#include <stdlib.h>
#include "palaver/config.h"
#include "palaver/turn.h"
#include "support/tap.h"

static pal_arena *arena;

static pal_config *parse(const char *text)
{
    pal_config *config = NULL;
    pal_error err = {PAL_OK, ""};
    if (pal_config_parse(pal_str_of(text), "palaver.yaml", &config, &err) != PAL_OK)
        printf("# %s\n", err.message);
    return config;
}

static bool is_wrong(const char *text, const char *message)
{
    pal_config *config = NULL;
    pal_error err = {PAL_OK, ""};
    pal_status got = pal_config_parse(pal_str_of(text), "palaver.yaml", &config, &err);
    if (got == PAL_INVALID && !config && strcmp(err.message, message) == 0)
        return true;
    printf("# %s: %s\n# wanted: %s\n", pal_status_name(got), err.message, message);
    pal_config_free(config);
    return false;
}

/* The list of endpoints as "name=kind@url(key)model", which is easy to compare. */
static bool gives(const char *text, const char *const *keys, const char *wanted)
{
    pal_runtime_options options;
    pal_error err;
    char got[1024] = "";
    size_t len = 0;
    pal_config *config = parse(text);
    pal_status status = config ? PAL_OK : PAL_INVALID;
    for (; keys && *keys && status == PAL_OK; keys += 2)
        status = pal_config_set(config, keys[0], pal_str_of(keys[1]), PAL_CONFIG_FLAG, &err);
    if (status == PAL_OK)
        status = pal_config_runtime(config, arena, &options, &err);
    for (size_t i = 0; status == PAL_OK && i < options.endpoints_len; i++) {
        const pal_endpoint *e = &options.endpoints[i];
        len += (size_t)snprintf(got + len, sizeof got - len, "%s%.*s=%.*s@%.*s(%.*s)%.*s",
                i ? " " : "", PAL_STR_ARG(e->name), PAL_STR_ARG(e->kind), PAL_STR_ARG(e->url),
                PAL_STR_ARG(e->api_key), PAL_STR_ARG(e->model));
    }
    if (status != PAL_OK)
        snprintf(got, sizeof got, "%s: %s", pal_status_name(status), err.message);
    pal_config_free(config);
    if (strcmp(got, wanted) == 0)
        return true;
    printf("# got:    %s\n# wanted: %s\n", got, wanted);
    return false;
}

#define KEYS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void clear_environment(void)
{
    static const char *const names[] = {"OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY",
            "ANTHROPIC_BASE_URL", "MISTRAL_API_KEY", "MY_KEY", "TEAM"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
}

/* ---- Providers ---- */

static void providers_get_their_keys(void)
{
    clear_environment();
    CHECK(gives("", NULL, ""));
    setenv("OPENAI_API_KEY", "k1", 1);
    setenv("MY_KEY", "k2", 1);
    CHECK(gives("providers: [{kind: openai, model: m}]", NULL, "openai=openai@(k1)m"));
    CHECK(gives(
            "providers: [{kind: openai, name: x, api_key_env: MY_KEY}]", NULL, "x=openai@(k2)"));
    /* A key for one service is not sent to another. */
    CHECK(gives("providers: [{kind: openai, url: 'http://h/v1'}]", NULL,
            "openai=openai@http://h/v1()"));
    CHECK(gives("providers: [{kind: openai, url: 'http://h/v1', api_key_env: MY_KEY}]", NULL,
            "openai=openai@http://h/v1(k2)"));
    CHECK(gives(
            "providers: [{kind: echo}, {kind: openai}]", NULL, "echo=echo@() openai=openai@(k1)"));
}

static void the_selected_provider_comes_first(void)
{
    static const char both[] = "providers:\n"
                               "  - {name: a, kind: openai, model: m1, api_key_env: MY_KEY}\n"
                               "  - {name: b, kind: anthropic, model: m2}\n";
    clear_environment();
    setenv("MY_KEY", "k", 1);
    setenv("ANTHROPIC_API_KEY", "ak", 1);
    CHECK(gives(both, NULL, "a=openai@(k)m1 b=anthropic@(ak)m2"));
    CHECK(gives(both, KEYS("provider", "b"), "b=anthropic@(ak)m2 a=openai@(k)m1"));
    CHECK(gives(both, KEYS("provider", "anthropic"), "b=anthropic@(ak)m2 a=openai@(k)m1"));
    CHECK(gives(both, KEYS("model", "m2"), "b=anthropic@(ak)m2 a=openai@(k)m1"));
    CHECK(gives(both, KEYS("model", "m3"), "a=openai@(k)m3 b=anthropic@(ak)m2"));
    CHECK(gives(both, KEYS("provider", "b", "model", "m1"), "b=anthropic@(ak)m1 a=openai@(k)m1"));
    CHECK(gives(both, KEYS("provider", "echo"), "echo=echo@() a=openai@(k)m1 b=anthropic@(ak)m2"));
    CHECK(gives(
            both, KEYS("provider_url", "http://h"), "a=openai@http://h(k)m1 b=anthropic@(ak)m2"));
    CHECK(gives(both, KEYS("provider", "mistral"),
            "not_found: provider 'mistral' requires environment variable "
            "MISTRAL_API_KEY, which is not set"));
    CHECK(gives(both, KEYS("provider", "c"),
            "invalid: unknown provider 'c'; define it in 'providers', or use one of openai, "
            "anthropic, mistral, mistral_conversations, echo, openrouter, groq, ollama, llama.cpp"));
    CHECK(gives("", KEYS("provider", "script"),
            "invalid: unknown provider 'script'; define it in 'providers', or use one of openai, "
            "anthropic, mistral, mistral_conversations, echo, openrouter, groq, ollama, llama.cpp"));
    CHECK(gives("", KEYS("provider", "ollama"), "ollama=openai@http://127.0.0.1:11434()"));
    CHECK(gives("", KEYS("provider", "llama.cpp", "model", "m"),
            "llama.cpp=openai@http://127.0.0.1:8080/v1()m"));
    CHECK(gives("", KEYS("provider", "groq"),
            "not_found: provider 'groq' requires environment variable GROQ_API_KEY, which is not "
            "set"));
    CHECK(gives("", KEYS("provider", "groq", "provider_url", "http://h"),
            "groq=openai@http://h()llama-3.3-70b-versatile"));
    CHECK(gives("provider: b\nmodel: m9\nproviders: [{kind: echo, name: b}]", NULL, "b=echo@()m9"));
}

static void a_kind_can_be_used_without_a_file(void)
{
    clear_environment();
    CHECK(gives("", KEYS("provider", "openai"),
            "not_found: provider 'openai' requires environment variable "
            "OPENAI_API_KEY, which is not set"));
    CHECK(gives(
            "", KEYS("provider_url", "http://h/v1", "model", "m"), "openai=openai@http://h/v1()m"));
    setenv("OPENAI_API_KEY", "k", 1);
    CHECK(gives("", KEYS("provider", "openai"), "openai=openai@(k)"));
    CHECK(gives("", KEYS("provider_url", "http://h/v1"), "openai=openai@http://h/v1(k)"));
    CHECK(gives("", KEYS("model", "m"), "")); /* every discovered endpoint has it */
    setenv("OPENAI_BASE_URL", "http://base/v1", 1);
    CHECK(gives("", KEYS("provider", "openai"), "openai=openai@http://base/v1(k)"));
    setenv("MISTRAL_API_KEY", "mk", 1);
    CHECK(gives("", KEYS("provider", "mistral_conversations"),
            "mistral_conversations=mistral_conversations@(mk)"));
}

static void errors_name_variables_that_are_not_set(void)
{
    pal_runtime_options options;
    pal_error err;
    clear_environment();
    CHECK(gives("\nproviders:\n  - kind: echo\n  - {kind: openai, api_key_env: MY_KEY}\n", NULL,
            "not_found: palaver.yaml:4: provider 'openai' requires environment variable "
            "MY_KEY, which is not set"));
    setenv("MY_KEY", "", 1);
    CHECK(gives("providers: [{kind: openai, api_key_env: MY_KEY}]", NULL,
            "not_found: palaver.yaml:1: provider 'openai' requires environment variable "
            "MY_KEY, which is not set"));
    CHECK(gives("providers: [{kind: echo, headers: {x-team: 'a ${TEAM}'}}]", NULL,
            "not_found: palaver.yaml:1: provider 'echo' requires environment variable "
            "TEAM, which is not set"));
    CHECK(gives("mcp_servers: [{name: f, command: [x], environment: {A: '${TEAM}'}}]", NULL,
            "not_found: palaver.yaml:1: MCP server 'f' requires environment variable "
            "TEAM, which is not set"));
    /* A configuration that chooses one provider needs no keys for the others, nor do the agents. */
    CHECK(gives(
            "providers: [{kind: echo}, {kind: openai}]", KEYS("provider", "echo"), "echo=echo@()"));
    pal_config *config = parse("providers: [{kind: echo}, {kind: openai}]\n"
                               "agents: [{id: a, provider: openai, model: m}, {id: b, provider: "
                               "echo}]\n");
    if (CHECK(config))
        CHECK_STATUS(pal_config_set(config, "provider", pal_str_of("echo"), PAL_CONFIG_FLAG, NULL),
                PAL_OK);
    CHECK_STATUS(pal_config_runtime(config, arena, &options, &err), PAL_OK, &err);
    if (CHECK_EQ(options.agents_len, 2))
        CHECK_EQ(options.agents[0].endpoint.len, 0);
    CHECK_EQ(options.agents[0].model.len, 0);
    CHECK_STR(options.agents[1].endpoint, "echo");
    pal_config_free(config);
}

static void headers_refer_to_variables(void)
{
    pal_runtime_options options;
    pal_error err;
    clear_environment();
    setenv("TEAM", "blue", 1);
    setenv("MY_KEY", "k", 1);
    pal_config *config = parse("providers:\n"
                               "  - kind: echo\n"
                               "    headers: {x-team: '${TEAM}', authorization: 'Bearer ${MY_KEY}!"
                               "${TEAM}', x-none: plain}\n"
                               "mcp_servers:\n"
                               "  - {name: f, command: [a, b], environment: {TOKEN: '${MY_KEY}', "
                               "A: b}, call_timeout: 5s}\n"
                               "  - {name: n, url: 'https://h/', headers: {a: '${TEAM}'}}\n");
    if (!CHECK(config) ||
            !CHECK_STATUS(pal_config_runtime(config, arena, &options, &err), PAL_OK, &err))
        return;
    CHECK_EQ(options.endpoints[0].headers_len, 3);
    CHECK_STR(options.endpoints[0].headers[0].value, "blue");
    CHECK_STR(options.endpoints[0].headers[1].value, "Bearer k!blue");
    CHECK_STR(options.endpoints[0].headers[2].value, "plain");
    if (CHECK_EQ(options.tool_servers_len, 2))
        CHECK_EQ(options.tool_servers[0].command_len, 2);
    CHECK_EQ(options.tool_servers[0].environment_len, 2);
    CHECK_EQ(options.tool_servers[0].call_ms, 5000);
    CHECK_STR(options.tool_servers[0].environment[0], "TOKEN=k");
    CHECK_STR(options.tool_servers[0].environment[1], "A=b");
    CHECK_STR(options.tool_servers[1].headers[0].value, "blue");
    CHECK_EQ(options.tool_servers[1].call_ms, 120000);
    CHECK_EQ(options.tool_servers[1].command_len, 0);
    /* The shown configuration contains no secret. */
    pal_config_entry *entries = NULL;
    size_t len = 0, references = 0;
    CHECK_STATUS(pal_config_list(config, arena, &entries, &len, &err), PAL_OK, &err);
    for (size_t i = 0; i < len; i++) {
        references += memmem(entries[i].value.data, entries[i].value.len, "${", 2) != NULL;
        CHECK_LACKS(entries[i].value, "blue");
        CHECK_LACKS(entries[i].value, "plain");
    }
    CHECK_EQ(references, 4);
    pal_config_free(config);
}

static void secrets_in_the_file_are_rejected(void)
{
    CHECK(is_wrong("providers:\n  - kind: openai\n    api_key: sk-123\n",
            "palaver.yaml:3: 'providers[0].api_key' must not contain a secret; put the "
            "secret into an environment variable and its name into api_key_env"));
    CHECK(is_wrong("providers: [{kind: openai, api_key_env: sk-123}]",
            "palaver.yaml:1: 'providers[0].api_key_env' must be the name of an environment "
            "variable, of capital letters, digits and '_'"));
    CHECK(is_wrong("providers: [{kind: openai, headers: {X-Api-Key: abc}}]",
            "palaver.yaml:1: 'providers[0].headers.X-Api-Key' must not contain a secret; "
            "put the secret into an environment variable and write ${NAME} here"));
    CHECK(is_wrong("providers: [{kind: openai, headers: {x: 'Bearer abc'}}]",
            "palaver.yaml:1: 'providers[0].headers.x' must not contain a secret; put the "
            "secret into an environment variable and write ${NAME} here"));
    CHECK(is_wrong("mcp_servers: [{name: a, command: [b], environment: {GITHUB_TOKEN: abc}}]",
            "palaver.yaml:1: 'mcp_servers[0].environment.GITHUB_TOKEN' must not contain a "
            "secret; put the secret into an environment variable and write ${NAME} here"));
    CHECK(is_wrong("providers: [{kind: openai, headers: {a: '${b}'}}]",
            "palaver.yaml:1: 'providers[0].headers.a' must be a text of at most 4096 bytes, in "
            "which ${NAME} is an environment variable"));
    CHECK(is_wrong("providers: [{kind: openai, headers: {a: 'x${B'}}]",
            "palaver.yaml:1: 'providers[0].headers.a' must be a text of at most 4096 bytes, in "
            "which ${NAME} is an environment variable"));
}

static void secrets_in_urls_are_not_shown(void)
{
    pal_config_entry *entries = NULL;
    size_t len = 0;
    pal_config *config =
            parse("provider_url: http://me:s3cret@h/v1?api_key=s3cret&a=b&Token=s3cret\n");
    bool found = false;
    if (!CHECK(config))
        return;
    CHECK_STATUS(pal_config_list(config, arena, &entries, &len, NULL), PAL_OK);
    for (size_t i = 0; i < len; i++)
        found |= pal_str_is(entries[i].value, "\"http://me:***@h/v1?api_key=***&a=b&Token=***\"");
    CHECK(found);
    pal_config_free(config);
}

static void conditions_between_keys_are_checked(void)
{
    CHECK(is_wrong("providers: [{name: a}]", "palaver.yaml:1: 'providers[0].kind' is missing"));
    CHECK(is_wrong("providers: [{kind: cohere}]",
            "palaver.yaml:1: 'providers[0].kind' must be one of openai, anthropic, mistral, "
            "mistral_conversations, echo, script, not 'cohere'"));
    CHECK(is_wrong("providers: [{kind: openai, url: 'ftp://x'}]",
            "palaver.yaml:1: 'providers[0].url' must be a URL that begins with http:// or "
            "https://"));
    CHECK(is_wrong("providers:\n - kind: openai\n - kind: echo\n   name: openai\n",
            "palaver.yaml:4: provider 'openai' already exists; choose a different name for "
            "'providers[1]'"));
    CHECK(is_wrong("mcp_servers: [{name: a b, command: [x]}]",
            "palaver.yaml:1: 'mcp_servers[0].name' must consist of letters, digits, '_' and '-'"));
    CHECK(is_wrong("mcp_servers: [{name: a, command: [x]}, {name: a, command: [x]}]",
            "palaver.yaml:1: 'mcp_servers[1].name' is already in use; choose a different name"));
    CHECK(is_wrong("mcp_servers:\n  - name: a\n",
            "palaver.yaml:2: 'mcp_servers[0]' must have either a 'command' or a 'url'"));
    CHECK(is_wrong("mcp_servers: [{name: a, command: [x], url: 'http://x'}]",
            "palaver.yaml:1: 'mcp_servers[0]' must have either a 'command' or a 'url'"));
    CHECK(is_wrong("mcp_servers: [{name: a, command: [x], headers: {a: b}}]",
            "palaver.yaml:1: 'mcp_servers[0].headers' requires a 'url'; use 'environment' for a "
            "'command'"));
    CHECK(is_wrong("mcp_servers: [{name: a, url: 'http://x', environment: {a: b}}]",
            "palaver.yaml:1: 'mcp_servers[0].environment' requires a 'command'; use 'headers' for "
            "a 'url'"));
    CHECK(is_wrong("providers: [{kind: echo}]\nagents:\n  - id: a\n    provider: openai\n",
            "palaver.yaml:4: 'agents[0].provider' is 'openai', which is not defined in "
            "'providers'"));
    CHECK(is_wrong("server: {listen: '7077'}",
            "palaver.yaml:1: 'server.listen' must be an address and a port, such as 127.0.0.1:7077 "
            "or [::1]:7077, not '7077'"));
    static const char *const addresses[] = {
            "::1:80", "h:", ":80", "h:65536", "h:x", "a b:80", "[]:80", "h:080808"};
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        pal_config *config = parse("");
        CHECK_STATUS(pal_config_set(config, "server.listen", pal_str_of(addresses[i]),
                             PAL_CONFIG_FLAG, NULL),
                PAL_INVALID);
        pal_config_free(config);
    }
    pal_config *config = parse("server: {listen: '[::1]:0', trusted_proxies: [10.0.0.1]}");
    if (CHECK(config))
        CHECK_EQ(pal_config_get(config)->server.trusted_proxies_len, 1);
    pal_config_free(config);
}

/* ---- Prices and agents ---- */

static void prices_are_in_millionths(void)
{
    pal_config *config = parse("models:\n"
                               "  - {name: a*, price: {input: 2.5, cache_read: 0.25, output: 10}}\n"
                               "  - {name: b}\n"
                               "  - {name: c, price: {output: 0.000001, input: 0.1}}\n"
                               "  - {name: d, price: {output: 1}}\n");
    if (!CHECK(config))
        return;
    const pal_runtime_options *runtime = pal_config_get(config)->runtime;
    if (CHECK_EQ(runtime->prices_len, 3))
        CHECK_STR(runtime->prices[0].pattern, "a*");
    CHECK_EQ(runtime->prices[0].input, 2500000);
    CHECK_EQ(runtime->prices[0].output, 10000000);
    CHECK_EQ(runtime->prices[0].cache_read, 250000);
    CHECK_EQ(runtime->prices[0].cache_write, 2500000);
    CHECK_EQ(runtime->prices[1].output, 1);
    CHECK_EQ(runtime->prices[1].input, 100000);
    CHECK_EQ(runtime->prices[2].input, 0);
    CHECK_EQ(runtime->prices[2].output, 1000000);
    CHECK_EQ(runtime->price_version.len, 16);
    /* Only prices change it. */
    pal_config *same = parse("models:\n"
                             "  - {name: a*, context: 5, price: {input: 2.5, cache_read: 0.25, "
                             "cache_write: 2.5, output: 10}}\n"
                             "  - {name: c, price: {output: 0.000001, input: 0.1}}\n"
                             "  - {name: d, price: {output: 1}}\n");
    pal_config *other = parse("models: [{name: a*, price: {input: 2.5}}]\n");
    pal_config *named = parse("price_version: v7\nmodels: [{name: a*, price: {input: 2.5}}]\n");
    if (CHECK(same) && CHECK(other) && CHECK(named)) {
        CHECK_STR(pal_config_get(same)->runtime->price_version, runtime->price_version);
        CHECK_DIFFER(pal_config_get(other)->runtime->price_version, runtime->price_version);
        CHECK_STR(pal_config_get(named)->runtime->price_version, "v7");
    }
    pal_config_free(same);
    pal_config_free(other);
    pal_config_free(named);
    pal_config_free(config);
}

static void agents_override_only_the_given_settings(void)
{
    pal_config *config = parse("context: {token_strategy: reset, max_tokens: 900}\n"
                               "turn: {system: Hello., timeout: 5m, builtin_tools: false}\n"
                               "agents:\n"
                               "  - id: a\n"
                               "    system: You are a.\n"
                               "    model: m\n"
                               "    tools: []\n"
                               "    max_tool_iterations: 3\n"
                               "    context: {max_tokens: 0, compaction: {prune: false}}\n"
                               "  - id: b\n"
                               "    tools: [files__*]\n"
                               "    context:\n"
                               "  - id: c\n"
                               "    context: {token_strategy: compact}\n");
    if (!CHECK(config))
        return;
    const pal_runtime_options *runtime = pal_config_get(config)->runtime;
    const pal_agent_settings *agents = runtime->agents;
    CHECK_STR(runtime->system, "Hello.");
    CHECK_EQ(runtime->turn_ms, 300000);
    CHECK(runtime->builtin_tools_off);
    CHECK_EQ(runtime->agents_len, 3);
    CHECK_EQ(pal_config_get(config)->session.agents_len, 3);
    CHECK_STR(agents[0].name, "a");
    CHECK_STR(agents[0].system, "You are a.");
    CHECK_STR(agents[0].model, "m");
    CHECK_EQ(agents[0].max_tool_iterations, 3);
    CHECK(agents[0].has_tools);
    CHECK_EQ(agents[0].tools_len, 0);
    CHECK(agents[1].has_tools);
    CHECK_EQ(agents[1].tools_len, 1);
    CHECK(!agents[2].has_tools);
    CHECK_EQ(agents[0].context->strategy, PAL_STRATEGY_RESET);
    CHECK_EQ(agents[0].context->max_tokens, 0);
    CHECK(agents[0].context->prune_off);
    CHECK_EQ(agents[0].context->prune_protect_tokens, 40000);
    CHECK(!agents[1].context);
    CHECK_EQ(agents[2].context->strategy, PAL_STRATEGY_COMPACT);
    CHECK_EQ(agents[2].context->max_tokens, 900);
    CHECK(!agents[2].context->prune_off);
    /* Later overrides apply to them, too. */
    CHECK_STATUS(
            pal_config_set(config, "context.max_tokens", pal_str_of("70"), PAL_CONFIG_FLAG, NULL),
            PAL_OK);
    CHECK_EQ(agents[2].context->max_tokens, 70);
    CHECK_EQ(agents[0].context->max_tokens, 0);
    setenv("PALAVER_CONTEXT_MAX_TOKENS", "71", 1);
    CHECK_STATUS(pal_config_read_environment(config, NULL), PAL_OK);
    unsetenv("PALAVER_CONTEXT_MAX_TOKENS");
    CHECK_EQ(agents[2].context->max_tokens, 71);
    CHECK_EQ(agents[0].context->max_tokens, 0);
    pal_config_free(config);
    CHECK(is_wrong("agents: [{id: a, context: {compaction: {model: m}}}]",
            "palaver.yaml:1: unknown key 'model' in 'agents[0].context.compaction'; did you mean "
            "'model' at the top?"));
}

/* ---- A runtime of it ---- */

static bool opens(
        const char *text, const char *given_model, const char *endpoint, const char *model)
{
    pal_config *config = parse(text);
    pal_store *store = NULL;
    pal_runtime *runtime = NULL;
    pal_runtime_options options;
    pal_error err = {PAL_OK, ""};
    pal_str got_endpoint = {0}, got_model = {0};
    bool is_stopgap = true;
    pal_status status = config ? PAL_OK : PAL_INVALID;
    if (status == PAL_OK)
        status = pal_config_runtime(config, arena, &options, &err);
    if (status == PAL_OK)
        status = pal_store_open("memory:", NULL, &store, &err);
    if (status == PAL_OK) {
        options.store = store;
        options.model = pal_str_of(given_model);
        status = pal_runtime_open(&options, &runtime, &err);
    }
    pal_config_free(config); /* everything was copied */
    if (status == PAL_OK)
        status = pal_runtime_default(runtime, arena, &got_endpoint, &got_model, &is_stopgap, &err);
    pal_runtime_close(runtime, 0);
    pal_store_close(store);
    if (status == PAL_OK && !is_stopgap && pal_str_is(got_endpoint, endpoint) &&
            pal_str_is(got_model, model))
        return true;
    printf("# %s, %.*s %.*s\n", err.message, PAL_STR_ARG(got_endpoint), PAL_STR_ARG(got_model));
    return false;
}

static void a_runtime_opens_with_the_options(void)
{
    static const char two[] = "providers:\n"
                              "  - {name: a, kind: openai, url: 'http://127.0.0.1:1', model: m-1}\n"
                              "  - {name: b, kind: openai, url: 'http://127.0.0.1:1', model: n-1}\n"
                              "agents: [{id: x, provider: b, context: {max_tokens: 5}}]\n";
    clear_environment();
    CHECK(opens(two, "", "a", "m-1"));
    CHECK(opens(two, "n-1", "b", "n-1"));
    CHECK(opens(two, "n-2", "b", "n-2")); /* of the family of b */
    CHECK(opens(two, "o3", "a", "o3"));
    CHECK(opens("provider: echo", "", "echo", "echo"));
}

int main(void)
{
    arena = pal_arena_new(0);
    RUN(providers_get_their_keys);
    RUN(the_selected_provider_comes_first);
    RUN(a_kind_can_be_used_without_a_file);
    RUN(errors_name_variables_that_are_not_set);
    RUN(headers_refer_to_variables);
    RUN(secrets_in_the_file_are_rejected);
    RUN(secrets_in_urls_are_not_shown);
    RUN(conditions_between_keys_are_checked);
    RUN(prices_are_in_millionths);
    RUN(agents_override_only_the_given_settings);
    RUN(a_runtime_opens_with_the_options);
    pal_arena_free(arena);
    return tap_done();
}
