/* config_keys.c - all keys: one table for each struct, and the top level of the file at the end.
 *
 * A new key is a row here and a field in its struct. A new list is a separate table and a row that
 * points to it. docs/configuration.md has the same rows, and a test compares them. */
#include "config/config_row.h"

#include <stddef.h>
#include "palaver/limits.h"

#define TOKENS_MAX 1000000000u
#define COUNT_MAX 1000000u
#define PRICE_MAX 1000000u /* USD for a million tokens */
#define SECOND_MS 1000ull
#define DAY_MS (24ull * 3600 * SECOND_MS)
#define DURATION_MS_MAX (3650 * DAY_MS)
#define PROMPT_LEN_MAX (64u << 10)
#define MODELS_MAX 10000u
#define STORE_CACHE_MAX (1ull << 40)

static const char *const dimension_words[] = {"space", "chat", "topic", "sender", NULL};
static const char *const dm_scope_words[] = {
        "per-channel-peer", "per-channel", "per-peer", "global", NULL};
static const char *const mention_words[] = {"any", "true", "false", NULL};
/* In the order of pal_strategy. */
static const char *const strategy_words[] = {
        "compact", "summarization", "sliding_window", "reset", "none", NULL};

/* In the order of pal_config_recorder. */
static const char *const recorder_words[] = {"off", "headers", "on", NULL};

/* In the order of pal_permission, from PAL_PERMISSION_ALLOW on. */
static const char *const permission_words[] = {"allow", "ask", "deny", NULL};

/* One row per key is easier to read than clang-format's result. */
/* clang-format off */

/* ---- models ---- */

#define PRICE(name, text) #name, PAL_CONFIG_PRICE, offsetof(pal_config_price, name), .help = text, \
        .max = PRICE_MAX

static const pal_config_row price_rows[] = {
        {PRICE(input, "input that was not cached"), .sample = "2.5"},
        {PRICE(cache_read, "input read from the provider's cache; if absent, the price of input"),
                .sample = "0.25"},
        {PRICE(cache_write, "input written to the provider's cache; if absent, the price of input"),
                .sample = "3.125"},
        {PRICE(output, "output, including reasoning"), .sample = "10"},
        {0},
};

#define MODEL(field) offsetof(pal_config_model, rule.field)

static const pal_config_row model_rows[] = {
        {"name", PAL_CONFIG_TEXT, MODEL(pattern), .max = PAL_MODEL_LEN_MAX, .is_required = true,
                .help = "the model's name, or a prefix that ends in '*'",
                .sample = "my-model*"},
        {"encoding", PAL_CONFIG_TEXT, MODEL(encoding), "", .max = PAL_LABEL_LEN_MAX,
                .help = "vocabulary that tokens are counted with, such as o200k_base; empty: "
                        "estimate them",
                .sample = "o200k_base"},
        {"exact", PAL_CONFIG_BOOL, MODEL(is_exact), "false",
                .help = "the model uses exactly this encoding; false: it is the closest known one"},
        {"context", PAL_CONFIG_COUNT, MODEL(context), "0", .max = TOKENS_MAX,
                .help = "maximum tokens of input and output together; 0: unknown",
                .sample = "128000"},
        {"output", PAL_CONFIG_COUNT, MODEL(output), "0", .max = TOKENS_MAX,
                .help = "maximum tokens of output; 0: unknown", .sample = "16384"},
        {"input", PAL_CONFIG_COUNT, MODEL(input), "0", .max = TOKENS_MAX,
                .help = "maximum tokens of input, if the model limits it separately; 0: context "
                        "minus the answer"},
        {"price", PAL_CONFIG_SECTION, offsetof(pal_config_model, price), .rows = price_rows,
                .help = "prices in USD per million tokens"},
        {0},
};

/* ---- session ---- */

#define ROUTE_TEXT(struct_name, field) PAL_CONFIG_TEXT, offsetof(struct_name, field), "", \
        .max = PAL_ROUTE_ID_LEN_MAX

static const pal_config_row link_rows[] = {
        {"name", PAL_CONFIG_TEXT, offsetof(pal_route_link, name), .max = PAL_ROUTE_ID_LEN_MAX,
                .sample = "alice"},
        {"ids", PAL_CONFIG_TEXTS, offsetof(pal_route_link, ids), .max = PAL_ROUTE_LINK_IDS_MAX,
                .len_offset = offsetof(pal_route_link, ids_len),
                .help = "the person's ids, each with or without its channel",
                .sample = "[\"telegram:123\", \"slack:U456\"]"},
        {0},
};

static const pal_config_row when_rows[] = {
        {"channel", ROUTE_TEXT(pal_route_when, channel),
                .help = "the message comes from this channel",
                .sample = "telegram"},
        {"account", ROUTE_TEXT(pal_route_when, account),
                .help = "the message was sent to this account; empty: to the account 'default'"},
        {"space", ROUTE_TEXT(pal_route_when, space),
                .help = "the message is in this space, such as guild:g1"},
        {"chat", ROUTE_TEXT(pal_route_when, chat),
                .help = "the message is in this chat, such as group:-100123",
                .sample = "group:-100123"},
        {"topic", ROUTE_TEXT(pal_route_when, topic),
                .help = "the message is in this topic, such as topic:42"},
        {"sender", ROUTE_TEXT(pal_route_when, sender),
                .help = "the sender: the name of a linked person, otherwise the id"},
        {"mentioned", PAL_CONFIG_WORD, offsetof(pal_route_when, mentioned), "any",
                .words = mention_words, .help = "whether the message mentions the agent"},
        {0},
};

static const pal_config_row rule_rows[] = {
        {"name", ROUTE_TEXT(pal_route_rule, name),
                .help = "name of the rule, shown in matched_by", .sample = "support"},
        {"agent", PAL_CONFIG_TEXT, offsetof(pal_route_rule, agent), .max = PAL_ROUTE_ID_LEN_MAX,
                .is_required = true, .help = "the agent that answers", .sample = "support"},
        {"when", PAL_CONFIG_SECTION, offsetof(pal_route_rule, when), .rows = when_rows,
                .help = "conditions, all of which must hold; a rule without any never matches"},
        {"session_dimensions", PAL_CONFIG_TEXTS, offsetof(pal_route_rule, dimensions), "[]",
                .max = PAL_ROUTE_VALUES_MAX, .words = dimension_words,
                .len_offset = offsetof(pal_route_rule, dimensions_len),
                .help = "replaces session.dimensions for these messages"},
        {0},
};

static const pal_config_row session_rows[] = {
        {"dimensions", PAL_CONFIG_TEXTS, offsetof(pal_route_config, dimensions), "[]",
                .max = PAL_ROUTE_VALUES_MAX, .words = dimension_words,
                .len_offset = offsetof(pal_route_config, dimensions_len),
                .help = "what separates sessions; empty: dm_scope decides"},
        {"dm_scope", PAL_CONFIG_TEXT, offsetof(pal_route_config, dm_scope), "per-channel",
                .words = dm_scope_words,
                .help = "if dimensions is empty: separate by chat and sender, chat, sender, or "
                        "nothing"},
        {"identity_links", PAL_CONFIG_MAP, offsetof(pal_route_config, links), "{}",
                .len_offset = offsetof(pal_route_config, links_len), .rows = link_rows,
                .size = sizeof(pal_route_link), .max = PAL_ROUTE_LINK_IDS_MAX,
                .help = "linked people, by name"},
        {"link_across_channels", PAL_CONFIG_BOOL, offsetof(pal_route_config, link_across_channels),
                "false", .help = "use one session for a linked person on all channels"},
        {"dispatch_rules", PAL_CONFIG_LIST, offsetof(pal_route_config, rules), "[]",
                .len_offset = offsetof(pal_route_config, rules_len), .rows = rule_rows,
                .size = sizeof(pal_route_rule), .max = PAL_ROUTE_RULES_MAX,
                .help = "rules that choose the agent; the first rule that matches is used"},
        {0},
};

/* ---- context: zero in the struct means the default. So zero is allowed only for keys whose
 * default is zero. Agents have the same keys, except those for the model of the summary ---- */

#define CONTEXT(field) offsetof(pal_context_settings, field)
/* Offset of another runtime option, relative to the context settings in the same struct. */
#define BEHIND_CONTEXT(field) \
        (offsetof(pal_runtime_options, field) - offsetof(pal_runtime_options, context))

#define COMPACTION_ROWS \
        {"auto", PAL_CONFIG_BOOL_OFF, CONTEXT(auto_off), "true", \
                .help = "prune and compact automatically; false: refuse requests that are too " \
                        "long"}, \
        {"prune", PAL_CONFIG_BOOL_OFF, CONTEXT(prune_off), "true", \
                .help = "strategy compact removes old tool outputs before it asks for a summary"}, \
        {"prune_protect", PAL_CONFIG_COUNT, CONTEXT(prune_protect_tokens), "40000", .min = 1, \
                .max = TOKENS_MAX, \
                .help = "tokens of the newest tool outputs that are never pruned"}, \
        {"prune_protect_turns", PAL_CONFIG_COUNT32, CONTEXT(prune_protect_turns), "2", .min = 1, \
                .max = COUNT_MAX, .help = "newest turns that are never pruned"}, \
        {"prune_minimum", PAL_CONFIG_COUNT, CONTEXT(prune_minimum_tokens), "20000", .min = 1, \
                .max = TOKENS_MAX, .help = "prune only if it removes more than this many tokens"}, \
        {"preserve_recent_tokens", PAL_CONFIG_COUNT, CONTEXT(preserve_recent_tokens), "0", \
                .max = TOKENS_MAX, \
                .help = "tokens of the newest turns that are not summarized; 0: a quarter of the " \
                        "limit, but 2000 to 15000"}, \
        {"max_output_tokens", PAL_CONFIG_COUNT, CONTEXT(summary_tokens_max), "4096", .min = 1, \
                .max = TOKENS_MAX, .help = "maximum tokens of a summary"}

#define CONTEXT_ROWS(own_compaction_rows) \
        {"token_strategy", PAL_CONFIG_WORD, CONTEXT(strategy), "compact", \
                .words = strategy_words, \
                .help = "what to do when a conversation gets too long"}, \
        {"max_tokens", PAL_CONFIG_COUNT, CONTEXT(max_tokens), "0", .max = TOKENS_MAX, \
                .help = "maximum tokens of a request, even if the model accepts more; 0: its " \
                        "limits"}, \
        {"threshold_percent", PAL_CONFIG_COUNT32, CONTEXT(threshold_percent), "80", .min = 1, \
                .max = 100, \
                .help = "percentage of the context that summarization and sliding_window may " \
                        "fill"}, \
        {"keep_recent_messages", PAL_CONFIG_COUNT32, CONTEXT(keep_recent_messages), "10", \
                .min = 1, .max = COUNT_MAX, \
                .help = "newest messages that summarization keeps unchanged"}, \
        {"compaction_threshold", PAL_CONFIG_COUNT, CONTEXT(compaction_threshold), "0", \
                .max = TOKENS_MAX, \
                .help = "tokens at which the strategy acts; 0: 118000 for reset, otherwise the " \
                        "limit"}, \
        {"low_water_percent", PAL_CONFIG_COUNT32, CONTEXT(low_water_percent), "50", .min = 1, \
                .max = 100, \
                .help = "percentage of the limit that a cut reduces the conversation to"}, \
        {"compaction", PAL_CONFIG_SECTION, 0, .rows = own_compaction_rows, \
                .help = "how strategy compact shortens a conversation"}

static const pal_config_row compaction_rows[] = {
        COMPACTION_ROWS,
        {"model", PAL_CONFIG_TEXT, BEHIND_CONTEXT(compaction_model), "", .max = PAL_MODEL_LEN_MAX,
                .help = "model that writes summaries; empty: the session's model"},
        {"prompt", PAL_CONFIG_TEXT, BEHIND_CONTEXT(compaction_prompt), "", .max = PROMPT_LEN_MAX,
                .help = "prompt for summaries; empty: the built-in text"},
        {"system", PAL_CONFIG_TEXT, BEHIND_CONTEXT(compaction_system), "",
                .max = PAL_SYSTEM_LEN_MAX,
                .help = "system text for summaries; empty: the session's, which the provider has "
                        "cached"},
        {0},
};
static const pal_config_row context_rows[] = {CONTEXT_ROWS(compaction_rows), {0}};

static const pal_config_row agent_compaction_rows[] = {COMPACTION_ROWS, {0}};
const pal_config_row pal_config_agent_context_rows[] = {CONTEXT_ROWS(agent_compaction_rows), {0}};

/* ---- permissions, also of agents ---- */

static const pal_config_row permission_rows[] = {
        {"tool", PAL_CONFIG_TEXT, offsetof(pal_permission_rule, tool), .max = PAL_NAME_LEN_MAX,
                .is_required = true,
                .help = "name of a tool, such as files__read; '*' matches any text",
                .sample = "\"files__read*\""},
        {"do", PAL_CONFIG_WORD, offsetof(pal_permission_rule, permission),
                .words = permission_words, .min = PAL_PERMISSION_ALLOW, .is_required = true,
                .help = "whether the tool runs, runs after approval, or is not offered",
                .sample = "allow"},
        {0},
};

/* ---- agents ---- */

#define AGENT(field) offsetof(pal_config_agent, field)

static const pal_config_row agent_rows[] = {
        {"id", PAL_CONFIG_TEXT, AGENT(route.id), .max = PAL_ROUTE_ID_LEN_MAX,
                .is_required = true,
                .help = "the agent's id, of letters, digits, '_' and '-'", .sample = "main"},
        {"default", PAL_CONFIG_BOOL, AGENT(route.is_default), "false",
                .help = "answers if no other agent is chosen; if none is marked, the first one "
                        "does",
                .sample = "true"},
        {"system", PAL_CONFIG_TEXT, AGENT(settings.system), "", .max = PAL_SYSTEM_LEN_MAX,
                .help = "the agent's instructions; empty: turn.system",
                .sample = "\"You answer in one sentence.\""},
        {"provider", PAL_CONFIG_TEXT, AGENT(settings.endpoint), "", .max = PAL_LABEL_LEN_MAX,
                .help = "a name from providers; empty: the default provider"},
        {"model", PAL_CONFIG_TEXT, AGENT(settings.model), "", .max = PAL_MODEL_LEN_MAX,
                .help = "the agent's model; empty: the provider's default model"},
        {"max_tool_iterations", PAL_CONFIG_COUNT32, AGENT(settings.max_tool_iterations), "0",
                .max = COUNT_MAX,
                .help = "maximum rounds of tool calls in one turn; 0: turn.max_tool_iterations"},
        {"tools", PAL_CONFIG_TEXTS, AGENT(settings.tools), .len_offset = AGENT(settings.tools_len),
                .max = PAL_CONFIG_LIST_MAX,
                .help = "the server tools it may use: names, or prefixes such as files__*; "
                        "absent: all",
                .sample = "[\"files__*\", recall]"},
        {"permissions", PAL_CONFIG_LIST, AGENT(settings.permissions), "[]",
                .len_offset = AGENT(settings.permissions_len), .rows = permission_rows,
                .size = sizeof(pal_permission_rule), .max = PAL_CONFIG_LIST_MAX,
                .help = "rules that come before those of the top level"},
        {"parameters", PAL_CONFIG_OBJECT, AGENT(settings.parameters), "{}",
                .max = PAL_SYSTEM_LEN_MAX,
                .help = "members to add to model requests; they override turn.parameters",
                .sample = "{temperature: 0.7}"},
        {"context", PAL_CONFIG_SECTION, AGENT(context), .rows = pal_config_agent_context_rows,
                .is_overlay = true, .help = "overrides keys of context for this agent",
                .sample = "{max_tokens: 32000}"},
        {0},
};

/* ---- expiry ---- */

static const pal_config_row expiry_rows[] = {
        {"session_expiration", PAL_CONFIG_DURATION, offsetof(pal_config_expiry, session_expiration),
                "24h", .max = DURATION_MS_MAX,
                .help = "how long the session of a work item lasts; 0s: forever"},
        {"cleanup_interval", PAL_CONFIG_DURATION, offsetof(pal_config_expiry, cleanup_interval),
                "1h", .min = SECOND_MS, .max = DURATION_MS_MAX,
                .help = "how often expired sessions are moved to the trash"},
        {"trash_retention", PAL_CONFIG_DURATION, offsetof(pal_config_expiry, trash_retention),
                "30d", .max = DURATION_MS_MAX,
                .help = "how long sessions stay in the trash before they are erased; 0s: forever"},
        {0},
};

/* ---- limits ---- */

static const pal_config_row limit_rows[] = {
        {"sessions_per_tenant", PAL_CONFIG_COUNT32,
                offsetof(pal_config_limits, sessions_per_tenant), "0", .max = COUNT_MAX,
                .help = "maximum active sessions of one tenant; 0: no limit"},
        {0},
};

/* ---- The top ---- */

#define TOP(field) offsetof(pal_config_state, field)

const pal_config_row pal_config_rows[] = {
        {"store", PAL_CONFIG_URL, TOP(values.store), PAL_CONFIG_STORE_DEFAULT,
                .max = PAL_ROUTE_ID_LEN_MAX, .is_derived = true,
                .help = "where conversations are stored: sqlite:PATH, postgres://..., jsonl:DIR or "
                        "memory:"},
        {"store_cache", PAL_CONFIG_COUNT, TOP(values.store_cache), "67108864",
                .max = STORE_CACHE_MAX,
                .help = "bytes of memory for recently used sessions of an SQLite store; 0: none"},
        {"provider", PAL_CONFIG_TEXT, TOP(provider), "", .max = PAL_LABEL_LEN_MAX,
                .help = "the default provider: a name from providers, or a kind; empty: the first"},
        {"provider_url", PAL_CONFIG_HTTP_URL, TOP(provider_url), "", .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "URL of that provider, instead of its usual one"},
        {"model", PAL_CONFIG_TEXT, TOP(runtime.model), "", .max = PAL_MODEL_LEN_MAX,
                .help = "the default model; empty: the default model of the provider"},
        {"providers", PAL_CONFIG_LIST, TOP(providers), "[]", .len_offset = TOP(providers_len),
                .rows = pal_config_provider_rows, .size = sizeof(pal_config_provider),
                .max = PAL_CONFIG_LIST_MAX,
                .help = "model services; if empty, Palaver looks for some"},
        {"models", PAL_CONFIG_LIST, TOP(values.models), "[]",
                .len_offset = TOP(values.models_len), .rows = model_rows,
                .size = sizeof(pal_config_model), .max = MODELS_MAX,
                .help = "limits and prices of models; these rows override the built-in ones"},
        {"price_version", PAL_CONFIG_TEXT, TOP(runtime.price_version), "",
                .max = PAL_LABEL_LEN_MAX,
                .help = "label of the price list, stored with every cost; empty: a hash of the "
                        "prices"},
        {"session", PAL_CONFIG_SECTION, TOP(values.session), .rows = session_rows,
                .help = "how the session of an inbound message is chosen"},
        {"agents", PAL_CONFIG_LIST, TOP(agents), "[]", .len_offset = TOP(agents_len),
                .rows = agent_rows, .size = sizeof(pal_config_agent), .max = PAL_ROUTE_AGENTS_MAX,
                .help = "the agents; if any are listed, only these can be used"},
        {"context", PAL_CONFIG_SECTION, TOP(runtime.context), .rows = context_rows,
                .help = "what the model is sent"},
        {"turn", PAL_CONFIG_SECTION, TOP(runtime), .rows = pal_config_turn_rows,
                .help = "how turns run"},
        {"mcp_servers", PAL_CONFIG_LIST, TOP(tool_servers), "[]",
                .len_offset = TOP(tool_servers_len), .rows = pal_config_tool_server_rows,
                .size = sizeof(pal_config_tool_server), .max = PAL_CONFIG_LIST_MAX,
                .help = "MCP servers whose tools the model can call"},
        {"mcp_logins", PAL_CONFIG_TEXT, TOP(mcp_logins), "", .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "directory for the tokens of 'palaver mcp login'; empty: "
                        "$XDG_STATE_HOME/palaver/mcp, or that in ~/.local/state"},
        {"channels", PAL_CONFIG_LIST, TOP(channels), "[]", .len_offset = TOP(channels_len),
                .rows = pal_config_channel_rows, .size = sizeof(pal_config_channel),
                .max = 100,
                .help = "accounts on channels, through which people talk to the agents"},
        {"permissions", PAL_CONFIG_LIST, TOP(runtime.permissions), "[]",
                .len_offset = TOP(runtime.permissions_len), .rows = permission_rows,
                .size = sizeof(pal_permission_rule), .max = PAL_CONFIG_LIST_MAX,
                .help = "which tools run; the first rule that matches a tool decides"},
        {"memory", PAL_CONFIG_SECTION, TOP(memory), .rows = pal_config_memory_rows,
                .help = "which notes of the long-term memory models are sent"},
        {"expiry", PAL_CONFIG_SECTION, TOP(values.expiry), .rows = expiry_rows,
                .help = "when sessions expire, and when they are erased"},
        {"limits", PAL_CONFIG_SECTION, TOP(values.limits), .rows = limit_rows,
                .help = "limits of each tenant"},
        {"recorder", PAL_CONFIG_WORD, TOP(values.recorder), "headers", .words = recorder_words,
                .help = "which requests of clients that send their whole history are recorded: "
                        "none, those that name their conversation, or all"},
        {"server", PAL_CONFIG_SECTION, TOP(values.server), .rows = pal_config_server_rows,
                .help = "settings of 'palaver serve'"},
        {0},
};

/* clang-format on */

const pal_config_row *pal_config_row_find(const char *path, size_t *out_base)
{
    const pal_config_row *row = pal_config_rows;
    size_t base = 0;
    while (row->name) {
        size_t len = strcspn(path, ".");
        if (strlen(row->name) != len || memcmp(row->name, path, len) != 0) {
            row++;
        } else if (!path[len]) {
            *out_base = base;
            return row;
        } else if (row->kind != PAL_CONFIG_SECTION) {
            return NULL;
        } else {
            base += row->offset;
            row = row->rows;
            path += len + 1;
        }
    }
    return NULL;
}
