/* test_config.c - the configuration: defaults, every kind of value, every kind of error with its
 * line, overrides, and whether table, example and documentation agree. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/memory.h"
#include "config/config_row.h"
#include "palaver/config.h"
#include "palaver/turn.h"
#include "palaver/limits.h"
#include "support/tap.h"

#define NAMES 40000

static pal_arena *arena;

static pal_config *parse(const char *text)
{
    pal_config *config = NULL;
    pal_error err = {PAL_OK, ""};
    if (pal_config_parse(pal_str_of(text), "palaver.yaml", &config, &err) != PAL_OK)
        printf("# %s\n", err.message);
    return config;
}

/* The text is refused with exactly this message, and there is no output. */
static bool refuses(pal_str text, pal_status status, const char *message)
{
    pal_config *config = NULL;
    pal_error err = {PAL_OK, ""};
    pal_status got = pal_config_parse(text, "palaver.yaml", &config, &err);
    if (got == status && err.status == status && !config && strcmp(err.message, message) == 0)
        return true;
    printf("# %s: %s\n# wanted: %s\n", pal_status_name(got), err.message, message);
    pal_config_free(config);
    return false;
}

static bool is_wrong(const char *text, const char *message)
{
    return refuses(pal_str_of(text), PAL_INVALID, message);
}

static pal_config_entry entry_of(const pal_config *config, const char *key)
{
    pal_config_entry *entries = NULL;
    size_t len = 0;
    CHECK_STATUS(pal_config_list(config, arena, &entries, &len, NULL), PAL_OK);
    for (size_t i = 0; i < len; i++) {
        if (pal_str_is(entries[i].key, key))
            return entries[i];
    }
    return (pal_config_entry){.key = {NULL, 0}};
}

static bool shows(const pal_config *config, const char *key, const char *value,
        pal_config_source source, uint32_t line)
{
    pal_config_entry entry = entry_of(config, key);
    bool same = pal_str_is(entry.value, value) && entry.source == source && entry.line == line;
    if (!same)
        printf("# %s: %.*s, %s, line %u\n", key, PAL_STR_ARG(entry.value),
                pal_config_source_name(entry.source), (unsigned)entry.line);
    return same;
}

/* ---- Values ---- */

static void check_defaults(const pal_config *config)
{
    const pal_config_values *v = pal_config_get(config);
    CHECK_STR(v->store, PAL_CONFIG_STORE_DEFAULT);
    if (CHECK_EQ(v->models_len, 0) && CHECK_EQ(v->session.agents_len, 0))
        CHECK_EQ(v->session.links_len, 0);
    if (CHECK_EQ(v->session.dimensions_len, 0))
        CHECK_STR(v->session.dm_scope, "per-channel");
    CHECK_EQ(v->context->strategy, PAL_STRATEGY_COMPACT);
    CHECK_EQ(v->context->max_tokens, 0);
    CHECK(!v->context->auto_off);
    CHECK(!v->context->prune_off);
    CHECK_EQ(v->context->threshold_percent, 80);
    CHECK_EQ(v->context->keep_recent_messages, 10);
    if (CHECK_EQ(v->context->compaction_threshold, 0))
        CHECK_EQ(v->context->low_water_percent, 50);
    CHECK_EQ(v->context->prune_protect_tokens, 40000);
    CHECK_EQ(v->context->prune_protect_turns, 2);
    CHECK_EQ(v->context->prune_minimum_tokens, 20000);
    CHECK_EQ(v->context->summary_tokens_max, 4096);
    CHECK_EQ(v->expiry.session_expiration, 24 * 3600 * 1000);
    CHECK_EQ(v->expiry.cleanup_interval, 3600 * 1000);
    CHECK_EQ(v->expiry.trash_retention, 30ll * 24 * 3600 * 1000);
    if (CHECK_EQ(v->runtime->endpoints_len, 0))
        CHECK_EQ(v->runtime->agents_len, 0);
    CHECK_EQ(v->runtime->max_tool_iterations, 10);
    CHECK_EQ(v->runtime->retries_max, 5);
    if (CHECK_EQ(v->runtime->turn_ms, 0))
        CHECK_EQ(v->runtime->lease_ms, 30000);
    CHECK_EQ(v->runtime->turns_max, 100000);
    CHECK_EQ(v->runtime->events_max, 10000);
    CHECK_EQ(v->runtime->events_bytes_max, 4 << 20);
    CHECK(!v->runtime->builtin_tools_off);
    if (CHECK_EQ(v->runtime->price_version.len, 0))
        CHECK_EQ(v->runtime->model.len, 0);
    const pal_config_server *server = &v->server;
    CHECK_STR(server->listen, "127.0.0.1:7077");
    CHECK_EQ(server->tls_certificate.len, 0);
    CHECK_EQ(server->body_bytes_max, 32 << 20);
    CHECK_EQ(server->header_bytes_max, 16 << 10);
    CHECK_EQ(server->url_bytes_max, 8 << 10);
    CHECK_EQ(server->stream_bytes_max, 1 << 20);
    CHECK_EQ(server->connections_max, 12000);
    CHECK_EQ(server->streams_max, 11000);
    CHECK_EQ(server->requests_per_minute, 0);
    CHECK_EQ(server->threads, 0);
    CHECK(!server->log_text);
    CHECK_EQ(server->idle_ms, 60000);
    CHECK_EQ(server->request_ms, 60000);
    CHECK_EQ(server->heartbeat_ms, 15000);
    CHECK_EQ(server->drain_ms, 30000);
    CHECK_EQ(server->idempotency_ms, 24 * 3600 * 1000);
    CHECK_STR(server->log_level, "info");
}

static void an_empty_file_has_all_defaults(void)
{
    static const char *const texts[] = {"", "\n\n", "# only a comment\n", "---\n", "---\n...\n",
            "{}", "~", "null\n", "store:\nmodels:\nsession:\ncontext: ~\nexpiry: null\n",
            "\xef\xbb\xbf", "context:\n  max_tokens:\n  compaction:\n"};
    pal_config *config = NULL;
    CHECK_STATUS(pal_config_load(NULL, &config, NULL), PAL_OK);
    check_defaults(config);
    CHECK(!pal_config_path(config));
    pal_config_free(config);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        config = parse(texts[i]);
        if (CHECK(config))
            check_defaults(config);
        pal_config_free(config);
    }
    pal_config_free(NULL);
}

static void every_kind_of_value_is_read(void)
{
    pal_config *config = parse("\xef\xbb\xbfstore: 'memory:'\n"
                               "models:\n"
                               "  - name: gpt-x*\n"
                               "    encoding: o200k_base\n"
                               "    exact: true\n"
                               "    context: 128000\n"
                               "    price: {input: 2.5, output: 10}\n"
                               "  - {name: other, output: 1e3}\n"
                               "context:\n"
                               "  token_strategy: sliding_window\n"
                               "  threshold_percent: 100\n"
                               "  compaction: {auto: false, prune: true, prompt: \"a\\nb\"}\n"
                               "expiry: {session_expiration: 1h30m, cleanup_interval: 1500ms}\n");
    if (!CHECK(config))
        return;
    const pal_config_values *v = pal_config_get(config);
    CHECK_EQ(pal_config_source_of(config, "store"), PAL_CONFIG_FILE);
    CHECK_STR(v->store, "memory:");
    CHECK_EQ(v->store.data[v->store.len], '\0');
    CHECK_EQ(v->models_len, 2);
    CHECK_STR(v->models[0].rule.pattern, "gpt-x*");
    CHECK(v->models[0].rule.is_exact);
    CHECK_STR(v->model_rules[0].encoding, "o200k_base");
    CHECK_EQ(v->model_rules[0].context, 128000);
    CHECK_EQ(v->model_rules[0].output, 0);
    CHECK_EQ(v->models[0].price.input, 2.5);
    CHECK_EQ(v->models[0].price.output, 10);
    CHECK_THAT(v->models[0].price.cache_read, <, 0);
    CHECK_THAT(v->models[1].price.input, <, 0);
    CHECK_STR(v->model_rules[1].pattern, "other");
    CHECK_EQ(v->model_rules[1].output, 1000);
    CHECK_EQ(v->context->strategy, PAL_STRATEGY_SLIDING_WINDOW);
    CHECK_EQ(v->context->threshold_percent, 100);
    CHECK(v->context->auto_off);
    CHECK(!v->context->prune_off);
    CHECK_STR(v->runtime->compaction_prompt, "a\nb");
    if (CHECK_EQ(v->expiry.session_expiration, 90 * 60 * 1000))
        CHECK_EQ(v->expiry.cleanup_interval, 1500);
    pal_config_free(config);
}

static void session_settings_work_in_routing(void)
{
    pal_config *config = parse("session:\n"
                               "  dimensions: [chat, sender]\n"
                               "  link_across_channels: true\n"
                               "  identity_links:\n"
                               "    john: [123, 'slack:U1']\n"
                               "    jane: []\n"
                               "  dispatch_rules:\n"
                               "    - agent: support\n"
                               "      when: {channel: telegram, mentioned: false}\n"
                               "      session_dimensions: [topic]\n"
                               "agents:\n"
                               "  - id: main\n"
                               "  - {id: support, default: true}\n");
    pal_route_settings *settings = NULL;
    pal_route_context context = {.channel = pal_str_of("telegram"), .topic_id = pal_str_of("7")};
    pal_route route;
    if (!CHECK(config))
        return;
    const pal_route_config *s = &pal_config_get(config)->session;
    CHECK_EQ(s->dimensions_len, 2);
    CHECK_STR(s->dimensions[1], "sender");
    CHECK_EQ(s->links_len, 2);
    CHECK_STR(s->links[0].name, "john");
    CHECK_EQ(s->links[0].ids_len, 2);
    CHECK_STR(s->links[0].ids[0], "123");
    CHECK_EQ(s->links[1].ids_len, 0);
    CHECK_EQ(s->agents_len, 2);
    CHECK(!s->agents[0].is_default);
    CHECK(s->agents[1].is_default);
    CHECK_EQ(s->rules_len, 1);
    CHECK_EQ(s->rules[0].when.mentioned, PAL_ROUTE_MENTION_NO);
    CHECK(s->link_across_channels);
    CHECK_STATUS(pal_route_settings_new(s, &settings, NULL), PAL_OK);
    CHECK_STATUS(pal_route_decide(settings, &context, arena, &route, NULL), PAL_OK);
    CHECK_STR(route.agent, "support");
    CHECK_STR(route.matched_by, "dispatch.rule");
    CHECK_STR(route.values[0].value, "topic:7");
    pal_route_settings_free(settings);
    pal_config_free(config);
}

/* ---- Mistakes ---- */

static void errors_name_the_line_of_an_unknown_key(void)
{
    CHECK(is_wrong("# a\nsesion:\n  x: 1\n",
            "palaver.yaml:2: unknown key 'sesion'; did you mean 'session'?"));
    CHECK(is_wrong("store: x\nsession:\n  dm_scope: global\n  contxt: 1\n",
            "palaver.yaml:4: unknown key 'contxt' in 'session'; did you mean 'context'?"));
    CHECK(is_wrong("session: {token_strategy: compact}\n",
            "palaver.yaml:1: unknown key 'token_strategy' in 'session'; did you mean "
            "'context.token_strategy'?"));
    CHECK(is_wrong("models:\n  - name: x\n    price:\n      inputs: 1\n",
            "palaver.yaml:4: unknown key 'inputs' in 'models[0].price'; did you mean 'input'?"));
    CHECK(is_wrong("? [a]\n: b\n", "palaver.yaml:1: a key must be text"));
    CHECK(is_wrong("context:\n  max_tokens: 1\n\n  max_tokens: 2\n",
            "palaver.yaml:4: duplicate key 'max_tokens', first on line 2"));
}

static void keys_that_are_similar_to_none_have_other_hints(void)
{
    CHECK(is_wrong("frobnicate: 1\n",
            "palaver.yaml:1: unknown key 'frobnicate'; 'palaver config example' shows all keys"));
    CHECK(is_wrong("permissions:\n  - tool: a\n    frobnicate: 1\n",
            "palaver.yaml:3: unknown key 'frobnicate' in 'permissions[0]'; the keys here are tool "
            "and do"));
    CHECK(is_wrong("models:\n  - price:\n      frobnicate: 1\n    name: a\n",
            "palaver.yaml:3: unknown key 'frobnicate' in 'models[0].price'; the keys here are "
            "input, cache_read, cache_write and output"));
    CHECK(is_wrong("providers: [{kind: openai, base_url: x}]\n",
            "palaver.yaml:1: unknown key 'base_url' in 'providers[0]'; did you mean 'url'?"));
    CHECK(is_wrong("api_key_env: X\n",
            "palaver.yaml:1: unknown key 'api_key_env'; did you mean 'providers[].api_key_env'?"));
    CHECK(is_wrong("server: {model: x}\n",
            "palaver.yaml:1: unknown key 'model' in 'server'; did you mean 'model' at the top?"));
}

/* Writes "a: sample, " for each key that an element must have. */
static void required_write(const pal_config_row *rows, pal_buf *buf)
{
    for (const pal_config_row *row = rows; row->name; row++) {
        if (row->is_required)
            pal_buf_format(buf, "%s: %s, ", row->name, row->sample);
    }
}

/* Misspells each key of the table and of the tables in it. `before` and `after` are the parts of the
 * file around the table; both end with a zero byte. */
static void check_misspelled(const pal_config_row *rows, const char *before, const char *after)
{
    for (const pal_config_row *row = rows; row->name; row++) {
        pal_buf file, around, end, name;
        char wanted[160];
        pal_config *config = NULL;
        pal_error err = {PAL_OK, ""};
        pal_buf_init(&file, 4096);
        pal_buf_init(&around, 4096);
        pal_buf_init(&end, 4096);
        pal_buf_init(&name, 4096);
        pal_buf_format(&around, "%s{", before);
        required_write(rows, &around);
        pal_buf_format(&name, "%.*sQ", (int)strlen(row->name) - 1, row->name);
        pal_buf_format(&file, "\n\n%.*s%.*s: 1}%s\n", PAL_STR_ARG(pal_buf_str(&around)),
                PAL_STR_ARG(pal_buf_str(&name)), after);
        CHECK_STATUS(pal_config_parse(pal_buf_str(&file), "a.yaml", &config, &err), PAL_INVALID);
        snprintf(wanted, sizeof wanted, "a.yaml:3: unknown key '%.*s'",
                PAL_STR_ARG(pal_buf_str(&name)));
        bool is_named = strncmp(err.message, wanted, strlen(wanted)) == 0;
        /* Without the last letter, because 'providerQ' could be both 'provider' and 'providers'. */
        snprintf(wanted, sizeof wanted, "did you mean '%.*s", (int)strlen(row->name) - 1,
                row->name);
        bool has_hint = strstr(err.message, wanted) != NULL;
        CHECK(is_named);
        CHECK(has_hint);
        if (!is_named || !has_hint)
            printf("# %s\n", err.message);
        bool is_list = row->kind == PAL_CONFIG_LIST;
        if (is_list || row->kind == PAL_CONFIG_SECTION) {
            pal_buf_format(&around, "%s: %s", row->name, is_list ? "[" : "");
            pal_buf_append_char(&around, '\0');
            pal_buf_format(&end, "%s}%s", is_list ? "]" : "", after);
            pal_buf_append_char(&end, '\0');
            check_misspelled(row->rows, around.data, end.data);
        }
        pal_buf_done(&file);
        pal_buf_done(&around);
        pal_buf_done(&end);
        pal_buf_done(&name);
    }
}

static void every_misspelled_key_is_recognized(void)
{
    check_misspelled(pal_config_rows, "", "");
}

static void errors_name_the_required_type(void)
{
    CHECK(is_wrong("context:\n  max_tokens: many\n",
            "palaver.yaml:2: 'context.max_tokens' must be a whole number from 0 to 1000000000, not "
            "'many'"));
    CHECK(is_wrong("context:\n  max_tokens: '5'\n",
            "palaver.yaml:2: 'context.max_tokens' must be a whole number from 0 to 1000000000, not "
            "'5'"));
    CHECK(is_wrong("context: {max_tokens: [1]}\n",
            "palaver.yaml:1: 'context.max_tokens' must be a whole number from 0 to 1000000000, "
            "not a list"));
    CHECK(is_wrong("context: 5\n", "palaver.yaml:1: 'context' must have keys"));
    CHECK(is_wrong("- 5\n", "palaver.yaml:1: the file must consist of keys"));
    CHECK(is_wrong("hello\n", "palaver.yaml:1: the file must consist of keys"));
    CHECK(is_wrong("models: {name: x}\n", "palaver.yaml:1: 'models' must be a list, not keys"));
    CHECK(is_wrong(
            "models: [x]\n", "palaver.yaml:1: 'models[0]' must have keys, such as 'name: "
            "my-model*'"));
    CHECK(is_wrong("models:\n - name: a\n - exact: true\n",
            "palaver.yaml:3: 'models[1].name' is missing"));
    CHECK(is_wrong("models:\n - name: a\n -\n", "palaver.yaml:3: 'models[1].name' is missing"));
    CHECK(is_wrong("models:\n - {name: a, exact: yes}\n",
            "palaver.yaml:2: 'models[0].exact' must be true or false, not 'yes'"));
    CHECK(is_wrong("session: {identity_links: [a]}\n",
            "palaver.yaml:1: 'session.identity_links' must be a map of names to values, not a "
            "list"));
    CHECK(is_wrong("session:\n  identity_links:\n    a: b\n",
            "palaver.yaml:3: 'session.identity_links.a' must be a list of texts, not 'b'"));
    CHECK(is_wrong("session:\n  dimensions: [chat,\n    chats]\n",
            "palaver.yaml:3: 'session.dimensions' must be a list of space, chat, topic, sender, "
            "not 'chats'"));
    CHECK(is_wrong("session: {dimensions: [~]}\n",
            "palaver.yaml:1: 'session.dimensions' must be a list of space, chat, topic, sender, "
            "not '~'"));
    CHECK(is_wrong("session: {dm_scope: everything}\n",
            "palaver.yaml:1: 'session.dm_scope' must be one of per-channel-peer, per-channel, "
            "per-peer, global, not 'everything'"));
    CHECK(is_wrong("context: {token_strategy: magic}\n",
            "palaver.yaml:1: 'context.token_strategy' must be one of compact, summarization, "
            "sliding_window, reset, none, not 'magic'"));
    CHECK(is_wrong("expiry: {cleanup_interval: 60}\n",
            "palaver.yaml:1: 'expiry.cleanup_interval' must be a duration such as 90s, 15m or 24h, "
            "from 1s to 3650d, not '60'"));
}

static void numbers_have_limits(void)
{
    CHECK(is_wrong("context: {threshold_percent: 0}\n",
            "palaver.yaml:1: 'context.threshold_percent' must be a whole number from 1 to 100, not "
            "'0'"));
    CHECK(is_wrong("context: {threshold_percent: 101}\n",
            "palaver.yaml:1: 'context.threshold_percent' must be a whole number from 1 to 100, not "
            "'101'"));
    CHECK(is_wrong("context: {low_water_percent: 4294967297}\n",
            "palaver.yaml:1: 'context.low_water_percent' must be a whole number from 1 to 100, not "
            "'4294967297'"));
    CHECK(is_wrong("context: {max_tokens: -1}\n",
            "palaver.yaml:1: 'context.max_tokens' must be a whole number from 0 to 1000000000, not "
            "'-1'"));
    CHECK(is_wrong("context: {max_tokens: 99999999999999999999999}\n",
            "palaver.yaml:1: 'context.max_tokens' must be a whole number from 0 to 1000000000, not "
            "'99999999999999999999999'"));
    CHECK(is_wrong("models: [{name: a, price: {input: -0.5}}]\n",
            "palaver.yaml:1: 'models[0].price.input' must be a number from 0 to 1000000, not "
            "'-0.5'"));
    CHECK(is_wrong("models: [{name: a, price: {input: .nan}}]\n",
            "palaver.yaml:1: 'models[0].price.input' must be a number from 0 to 1000000, not "
            "'.nan'"));
    CHECK(is_wrong("expiry: {cleanup_interval: 0s}\n",
            "palaver.yaml:1: 'expiry.cleanup_interval' must be a duration such as 90s, 15m or 24h, "
            "from 1s to 3650d, not '0s'"));
    CHECK(is_wrong("expiry: {trash_retention: 99999999999999999999w}\n",
            "palaver.yaml:1: 'expiry.trash_retention' must be a duration such as 90s, 15m or 24h, "
            "from 0s to 3650d, not '99999999999999999999w'"));
    CHECK(is_wrong("expiry: {trash_retention: 3650d1ms}\n",
            "palaver.yaml:1: 'expiry.trash_retention' must be a duration such as 90s, 15m or 24h, "
            "from 0s to 3650d, not '3650d1ms'"));
    CHECK(is_wrong("expiry: {trash_retention: 18446744073709551616ms}\n",
            "palaver.yaml:1: 'expiry.trash_retention' must be a duration such as 90s, 15m or 24h, "
            "from 0s to 3650d, not '18446744073709551616ms'"));
    CHECK(refuses(pal_str_of("session: {dimensions: [chat, chat, chat, chat, chat]}\n"), PAL_LIMIT,
            "palaver.yaml:1: 'session.dimensions' has 5 elements; the limit is 4"));
    CHECK(is_wrong("models:\n - name: a*b\n",
            "palaver.yaml:2: 'models[0].name' can contain '*' only at its end"));
    CHECK(is_wrong("models:\n - name: ''\n",
            "palaver.yaml:2: 'models[0].name' can contain '*' only at its end"));
    CHECK(is_wrong("session: {identity_links: {a: [\"b\\x07c\"]}}\n",
            "palaver.yaml: session: 'identity_links[0][0]' contains a control character"));
}

static void surprising_yaml_is_rejected(void)
{
    CHECK(is_wrong("store: x\ncontext:\n\tmax_tokens: 5\n",
            "palaver.yaml:3: a tab at the beginning of the line is not allowed; indent with "
            "spaces"));
    CHECK(refuses(pal_str_of("store: x\ncontext: \xff\n"), PAL_INVALID,
            "palaver.yaml:2: the file is not UTF-8"));
    CHECK(refuses(pal_str_make("store: x\n\0\n", 11), PAL_INVALID,
            "palaver.yaml:2: control characters are not allowed"));
    CHECK(is_wrong("store: \"a\\0b\"\n", "palaver.yaml:1: the text contains a NUL byte"));
    CHECK(is_wrong("a: &x 1\nb: *x\n", "palaver.yaml:1: anchors and aliases are not supported"));
    CHECK(is_wrong("a: [1,\n *x]\n", "palaver.yaml:2: anchors and aliases are not supported"));
    CHECK(is_wrong("a: &x [b]\n", "palaver.yaml:1: anchors and aliases are not supported"));
    CHECK(is_wrong("*x : 1\n", "palaver.yaml:1: anchors and aliases are not supported"));
    CHECK(is_wrong("store: !!str 5\n", "palaver.yaml:1: tags are not supported"));
    CHECK(is_wrong("store: x\n---\nstore: y\n", "palaver.yaml:2: a second document is not "
            "allowed"));
    CHECK(is_wrong("store: 'x\n", "palaver.yaml:2: found unexpected end of stream"));
    CHECK(is_wrong("store: x\n  store: y\n",
            "palaver.yaml:2: unexpected ':'; check the indentation, or quote the text"));
    CHECK(is_wrong("store: memory:\n",
            "palaver.yaml:1: unexpected ':'; check the indentation, or quote the text"));
}

/* "Billion laughs" and similar attacks cost nothing. */
static void size_and_depth_are_limited(void)
{
    static char text[PAL_CONFIG_BYTES_MAX + 2];
    memset(text, '\n', sizeof text);
    CHECK(refuses(pal_str_make(text, PAL_CONFIG_BYTES_MAX + 1), PAL_LIMIT,
            "palaver.yaml: the file exceeds 1048576 bytes"));
    pal_config *config = NULL;
    CHECK_STATUS(
            pal_config_parse(pal_str_make(text, PAL_CONFIG_BYTES_MAX), "x", &config, NULL), PAL_OK);
    pal_config_free(config);
    memset(text, '[', 100000);
    CHECK(refuses(pal_str_make(text, 100000), PAL_LIMIT, "palaver.yaml:1: the nesting is too "
            "deep"));
    /* Many names take no more time per name than few. */
    size_t len = (size_t)snprintf(text, sizeof text, "session:\n  identity_links:\n");
    for (int i = 0; i < NAMES; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "    n%d: [%d]\n", i, i);
    CHECK_STATUS(pal_config_parse(pal_str_make(text, len), "x", &config, NULL), PAL_OK);
    CHECK_EQ(pal_config_get(config)->session.links_len, NAMES);
    pal_config_free(config);
}

/* ---- Files ---- */

static void errors_say_why_a_file_cannot_be_read(void)
{
    pal_config *config = NULL;
    pal_error err;
    CHECK_STATUS(pal_config_load("/nonexistent/palaver.yaml", &config, &err), PAL_NOT_FOUND, &err);
    CHECK_STR(err.message,
            "/nonexistent/palaver.yaml: could not read the file: No such file or "
            "directory");
    CHECK_STATUS(pal_config_load("/", &config, &err), PAL_IO, &err);
    CHECK_STR(err.message, "/: could not read the file: Is a directory");
    if (CHECK_STATUS(pal_config_load("/dev/zero", &config, &err), PAL_LIMIT, &err))
        CHECK(!config);
    CHECK_STATUS(pal_config_load("/dev/null", &config, &err), PAL_OK, &err);
    check_defaults(config);
    CHECK_STR(pal_config_path(config), "/dev/null");
    pal_config_free(config);
}

static void long_paths_leave_room_for_the_error(void)
{
    char name[300];
    pal_config *config = NULL;
    pal_error err;
    memset(name, 'd', sizeof name);
    snprintf(name + 200, sizeof name - 200, "/palaver.yaml");
    CHECK_STATUS(pal_config_parse(pal_str_of("x: 1"), name, &config, &err), PAL_INVALID, &err);
    CHECK_STR(err.message, "palaver.yaml:1: unknown key 'x'; 'palaver config example' shows all keys");
}

/* ---- Overriding ---- */

static void later_sources_override_earlier_ones(void)
{
    pal_config *config = parse("store: 'memory:'\ncontext:\n  max_tokens: 7\n");
    pal_error err;
    if (!CHECK(config))
        return;
    setenv("PALAVER_CONTEXT_MAX_TOKENS", "8", 1);
    setenv("PALAVER_CONTEXT_COMPACTION_AUTO", "false", 1);
    setenv("PALAVER_CONTEXT_TOKEN_STRATEGY", "", 1);
    CHECK(shows(config, "context.max_tokens", "7", PAL_CONFIG_FILE, 3));
    CHECK_STATUS(pal_config_read_environment(config, &err), PAL_OK, &err);
    CHECK(shows(config, "context.max_tokens", "8", PAL_CONFIG_ENVIRONMENT, 0));
    CHECK(shows(config, "context.compaction.auto", "false", PAL_CONFIG_ENVIRONMENT, 0));
    CHECK(shows(config, "context.token_strategy", "\"compact\"", PAL_CONFIG_DEFAULT, 0));
    CHECK_STATUS(
            pal_config_set(config, "context.max_tokens", pal_str_of("9"), PAL_CONFIG_FLAG, &err),
            PAL_OK, &err);
    CHECK(shows(config, "context.max_tokens", "9", PAL_CONFIG_FLAG, 0));
    CHECK_EQ(pal_config_get(config)->context->max_tokens, 9);
    CHECK(pal_config_get(config)->context->auto_off);

    setenv("PALAVER_CONTEXT_MAX_TOKENS", "lots", 1);
    CHECK_STATUS(pal_config_read_environment(config, &err), PAL_INVALID, &err);
    CHECK_STR(
            err.message, "PALAVER_CONTEXT_MAX_TOKENS: must be a whole number from 0 to 1000000000");
    CHECK(shows(config, "context.max_tokens", "9", PAL_CONFIG_FLAG, 0));
    unsetenv("PALAVER_CONTEXT_MAX_TOKENS");
    unsetenv("PALAVER_CONTEXT_COMPACTION_AUTO");
    unsetenv("PALAVER_CONTEXT_TOKEN_STRATEGY");
    pal_config_free(config);
}

static void only_single_keys_can_be_set(void)
{
    static const char *const keys[] = {"", "x", "models", "session", "session.dimensions",
            "session.identity_links", "models[0].name", "context.", ".store", "store.x",
            "context.compaction"};
    pal_config *config = NULL;
    CHECK_STATUS(pal_config_load(NULL, &config, NULL), PAL_OK);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        CHECK_STATUS(pal_config_set(config, keys[i], pal_str_of("1"), PAL_CONFIG_FLAG, NULL),
                PAL_INVALID);
        CHECK_EQ(pal_config_source_of(config, keys[i]), PAL_CONFIG_DEFAULT);
    }
    CHECK_STATUS(pal_config_set(config, "store", pal_str_of("\xff"), PAL_CONFIG_FLAG, NULL),
            PAL_INVALID);
    CHECK_STATUS(pal_config_set(config, "store", pal_str_make("a\0b", 3), PAL_CONFIG_FLAG, NULL),
            PAL_INVALID);
    check_defaults(config);
    pal_config_free(config);
}

/* ---- Looking at it ---- */

static void entries_have_lines(void)
{
    pal_config *config = parse("session:\n"
                               "  identity_links:\n"
                               "    john: [a, b]\n"
                               "models:\n"
                               "  - name: x\n"
                               "    price:\n"
                               "      input: 0.1\n"
                               "expiry: {session_expiration: 90m}\n");
    if (!CHECK(config))
        return;
    CHECK(shows(config, "session.identity_links.john", "[\"a\",\"b\"]", PAL_CONFIG_FILE, 3));
    CHECK(shows(config, "models[0].name", "\"x\"", PAL_CONFIG_FILE, 5));
    CHECK(shows(config, "models[0].price.input", "0.1", PAL_CONFIG_FILE, 7));
    CHECK(shows(config, "models[0].price.output", "null", PAL_CONFIG_DEFAULT, 0));
    CHECK(shows(config, "expiry.session_expiration", "\"90m\"", PAL_CONFIG_FILE, 8));
    CHECK(shows(config, "agents", "[]", PAL_CONFIG_DEFAULT, 0));
    CHECK_EQ(pal_config_source_of(config, "models"), PAL_CONFIG_FILE);
    CHECK_EQ(pal_config_source_of(config, "session.identity_links"), PAL_CONFIG_FILE);
    CHECK_EQ(pal_config_source_of(config, "session.dimensions"), PAL_CONFIG_DEFAULT);
    pal_config_free(config);
}

static void passwords_are_not_shown(void)
{
    static const char *const cases[][2] = {
            {"postgres://me:s3cret@db/x", "\"postgres://me:***@db/x\""},
            {"postgres://me:s3/c@r@t@db/x", "\"postgres://me:***@db/x\""},
            {"postgres://me@db/x", "\"postgres://me@db/x\""},
            {"postgres://db/x?user=me&password=s3cret&z=1",
                    "\"postgres://db/x?user=me&password=***&z=1\""},
            {"postgres://a:b@db/x?PASSWORD=s", "\"postgres://a:***@db/x?PASSWORD=***\""},
            {"sqlite:a:b@c.db", "\"sqlite:a:b@c.db\""},
            {"", "\"\""},
    };
    pal_config *config = NULL;
    CHECK_STATUS(pal_config_load(NULL, &config, NULL), PAL_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_STATUS(
                pal_config_set(config, "store", pal_str_of(cases[i][0]), PAL_CONFIG_FLAG, NULL),
                PAL_OK);
        CHECK(shows(config, "store", cases[i][1], PAL_CONFIG_FLAG, 0));
    }
    pal_config_free(config);
}

/* ---- The table ---- */

/* Removes the '#' from settings that the example only has as comments. */
static char *uncomment(pal_str text)
{
    char *out = pal_arena_alloc(arena, text.len + 1);
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        bool at_start = i == 0 || text.data[i - 1] == '\n';
        bool is_prose = i + 2 < text.len && text.data[i + 1] == ' ' && text.data[i + 2] != ' ';
        if (!at_start || text.data[i] != '#' || is_prose)
            out[len++] = text.data[i];
    }
    return out;
}

static void the_example_has_all_defaults(void)
{
    pal_config *config = NULL;
    pal_str text;
    pal_error err = {PAL_OK, ""};
    CHECK_STATUS(pal_config_example(arena, &text, &err), PAL_OK, &err);
    CHECK_STATUS(pal_config_parse(text, "example", &config, &err), PAL_OK, &err);
    if (CHECK(!err.message[0]))
        check_defaults(config);
    CHECK_EQ(pal_config_source_of(config, "context.compaction.prompt"), PAL_CONFIG_FILE);
    pal_config_free(config);

    config = parse(uncomment(text));
    if (!CHECK(config))
        return;
    CHECK_EQ(pal_config_get(config)->models_len, 1);
    CHECK_EQ(pal_config_get(config)->session.rules_len, 1);
    CHECK_EQ(pal_config_get(config)->session.links_len, 1);
    CHECK_EQ(pal_config_get(config)->session.agents_len, 1);
    CHECK_EQ(pal_config_get(config)->runtime->endpoints_len, 1);
    CHECK_EQ(pal_config_get(config)->runtime->agents[0].context->max_tokens, 32000);
    CHECK_STR(entry_of(config, "mcp_servers[0].name").value, "\"files\"");
    pal_config_free(config);
}

static void keys_are_in_order(void)
{
    pal_config_key key;
    size_t len = 0;
    for (; pal_config_key_at(len, &key); len++) {
        if (CHECK(key.help)) {
            CHECK(*key.help);
            CHECK(key.wants[0]);
        }
        if (strcmp(key.path, "context.max_tokens") == 0) {
            CHECK_STR(key.environment, "PALAVER_CONTEXT_MAX_TOKENS");
            CHECK_STR(key.value, "0");
            CHECK(!key.is_group);
        }
        if (strcmp(key.path, "models[].price.input") == 0) {
            CHECK(!key.environment[0]);
            CHECK(!key.value);
        }
        if (strcmp(key.path, "models[].price") == 0)
            CHECK(key.is_group);
    }
    CHECK_THAT(len, >, 40);
    if (CHECK(!pal_config_key_at(len, &key)))
        CHECK(!pal_config_key_at(SIZE_MAX, &key));
}

/* The row of docs/configuration.md for a key. */
static void doc_row(const pal_config_key *key, char *out, size_t size)
{
    char value[128] = "";
    if (key->is_required)
        snprintf(value, sizeof value, "required");
    else if (key->value)
        snprintf(value, sizeof value, "`%s`", *key->value ? key->value : "\"\"");
    snprintf(out, size, "| `%s` | %s | %s | %s |\n", key->path, key->wants, value, key->help);
}

static void the_documentation_has_the_same_keys(void)
{
    char *text = pal_arena_alloc(arena, 1 << 20);
    FILE *file = fopen(DOCS "/configuration.md", "r");
    pal_config_key key;
    char row[512];
    bool same = true;
    if (!CHECK(file))
        return;
    CHECK_THAT(fread(text, 1, (1 << 20) - 1, file), >, 0);
    fclose(file);
    const char *at = strstr(text, "| `store` |");
    for (size_t i = 0; at && same && pal_config_key_at(i, &key); i++) {
        doc_row(&key, row, sizeof row);
        same = strncmp(at, row, strlen(row)) == 0;
        at += strlen(row);
    }
    if (CHECK(at)) {
        CHECK(same);
        CHECK_EQ(at[0], '\n');
    }
    if (at && same && at[0] == '\n')
        return;
    printf("# docs/configuration.md should have these rows, and no others:\n");
    for (size_t i = 0; pal_config_key_at(i, &key); i++) {
        doc_row(&key, row, sizeof row);
        printf("# %s", row);
    }
}

/* ---- Memory ---- */

static pal_status everything(void)
{
    static const char text[] = "store: 'memory:'\nmodels: [{name: a, price: {input: 1}}]\n"
                               "session: {identity_links: {a: [b, c]}, dimensions: [chat]}\n"
                               "expiry: {session_expiration: 1h}\n"
                               "providers: [{kind: echo, headers: {a: b}}]\n"
                               "agents: [{id: a, context: {max_tokens: 5}}]\n"
                               "mcp_servers: [{name: a, command: [b], environment: {C: d}}]\n";
    pal_config *config = NULL;
    pal_runtime_options options;
    pal_config_entry *entries;
    size_t len;
    pal_str example;
    pal_error err;
    pal_arena *own = pal_arena_new(0);
    if (!own)
        return PAL_NO_MEMORY;
    pal_status status = pal_config_parse(pal_str_of(text), "x", &config, &err);
    if (status != PAL_OK)
        goto out;
    status = pal_config_set(config, "context.max_tokens", pal_str_of("5"), PAL_CONFIG_FLAG, &err);
    if (status != PAL_OK)
        goto out;
    status = pal_config_runtime(config, own, &options, &err);
    if (status != PAL_OK)
        goto out;
    status = pal_config_list(config, own, &entries, &len, &err);
    if (status != PAL_OK)
        goto out;
    status = pal_config_example(own, &example, &err);
out:
    pal_config_free(config);
    pal_arena_free(own);
    return status;
}

static void running_out_of_memory_is_reported(void)
{
    pal_status status = PAL_NO_MEMORY;
    for (int once = 0; once < 2; once++) {
        for (uint64_t nth = 1; nth < 1000; nth++) {
            pal_memory_fail_at(nth, once);
            status = everything();
            if (!pal_memory_failed())
                break;
            if (!CHECK_STATUS(status, PAL_NO_MEMORY))
                printf("# allocation %llu: %s\n", (unsigned long long)nth, pal_status_name(status));
        }
        pal_memory_fail_at(0, 0);
        CHECK_STATUS(status, PAL_OK);
    }
}

int main(void)
{
    arena = pal_arena_new(0);
    RUN(an_empty_file_has_all_defaults);
    RUN(every_kind_of_value_is_read);
    RUN(session_settings_work_in_routing);
    RUN(errors_name_the_line_of_an_unknown_key);
    RUN(keys_that_are_similar_to_none_have_other_hints);
    RUN(every_misspelled_key_is_recognized);
    RUN(errors_name_the_required_type);
    RUN(numbers_have_limits);
    RUN(surprising_yaml_is_rejected);
    RUN(size_and_depth_are_limited);
    RUN(errors_say_why_a_file_cannot_be_read);
    RUN(long_paths_leave_room_for_the_error);
    RUN(later_sources_override_earlier_ones);
    RUN(only_single_keys_can_be_set);
    RUN(entries_have_lines);
    RUN(passwords_are_not_shown);
    RUN(the_example_has_all_defaults);
    RUN(keys_are_in_order);
    RUN(the_documentation_has_the_same_keys);
    RUN(running_out_of_memory_is_reported);
    pal_arena_free(arena);
    return tap_done();
}
