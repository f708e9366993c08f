/* config_keys.c - every key that there is: a table for each struct, the file's top at the end.
 *
 * A new key is a row here and a field in its struct; a new list of things is a table of their own
 * and a row that points to it. docs/configuration.md has the same rows, and a test compares. */
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

static const char *const dimension_words[] = {"space", "chat", "topic", "sender", NULL};
static const char *const dm_scope_words[] = {
        "per-channel-peer", "per-channel", "per-peer", "global", NULL};
static const char *const mention_words[] = {"any", "true", "false", NULL};
/* In the order of pal_strategy. */
static const char *const strategy_words[] = {
        "compact", "summarization", "sliding_window", "reset", "none", NULL};

/* A row a key reads better than what it would make of them. */
/* clang-format off */

/* ---- models ---- */

#define PRICE(name, text) #name, PAL_CONFIG_PRICE, offsetof(pal_config_price, name), .help = text, \
        .max = PRICE_MAX

static const pal_config_row price_rows[] = {
        {PRICE(input, "input that no cache had"), .sample = "2.5"},
        {PRICE(cache_read, "input that the provider's cache had; as input where it isn't given"),
                .sample = "0.25"},
        {PRICE(cache_write, "input that goes to the cache; as input where it isn't given"),
                .sample = "3.125"},
        {PRICE(output, "output, reasoning included"), .sample = "10"},
        {0},
};

#define MODEL(field) offsetof(pal_config_model, rule.field)

static const pal_config_row model_rows[] = {
        {"name", PAL_CONFIG_TEXT, MODEL(pattern), .max = PAL_MODEL_LEN_MAX, .is_required = true,
                .help = "its name, or the beginning of one with a '*' behind it",
                .sample = "my-model*"},
        {"encoding", PAL_CONFIG_TEXT, MODEL(encoding), "", .max = PAL_LABEL_LEN_MAX,
                .help = "how its tokens are counted: o200k_base, ...; empty: by an estimate",
                .sample = "o200k_base"},
        {"exact", PAL_CONFIG_BOOL, MODEL(is_exact), "false",
                .help = "the encoding is the model's own, not the nearest known one"},
        {"context", PAL_CONFIG_COUNT, MODEL(context), "0", .max = TOKENS_MAX,
                .help = "tokens of input and output together; 0: not known", .sample = "128000"},
        {"output", PAL_CONFIG_COUNT, MODEL(output), "0", .max = TOKENS_MAX,
                .help = "tokens of output; 0: not known", .sample = "16384"},
        {"input", PAL_CONFIG_COUNT, MODEL(input), "0", .max = TOKENS_MAX,
                .help = "tokens of input, if the model limits them; 0: context less the answer"},
        {"price", PAL_CONFIG_SECTION, offsetof(pal_config_model, price), .rows = price_rows,
                .help = "in USD for a million tokens"},
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
                .help = "a person's ids on the channels, with their channel or without",
                .sample = "[\"telegram:123\", \"slack:U456\"]"},
        {0},
};

static const pal_config_row when_rows[] = {
        {"channel", ROUTE_TEXT(pal_route_when, channel), .help = "of this channel",
                .sample = "telegram"},
        {"account", ROUTE_TEXT(pal_route_when, account),
                .help = "to this account; empty: to the account 'default'"},
        {"space", ROUTE_TEXT(pal_route_when, space), .help = "in this space, such as guild:g1"},
        {"chat", ROUTE_TEXT(pal_route_when, chat), .help = "in this chat, such as group:-100123",
                .sample = "group:-100123"},
        {"topic", ROUTE_TEXT(pal_route_when, topic), .help = "in this topic, such as topic:42"},
        {"sender", ROUTE_TEXT(pal_route_when, sender),
                .help = "by this sender, a person's name where there is one"},
        {"mentioned", PAL_CONFIG_WORD, offsetof(pal_route_when, mentioned), "any",
                .words = mention_words, .help = "whether the agent is mentioned in it"},
        {0},
};

static const pal_config_row rule_rows[] = {
        {"name", ROUTE_TEXT(pal_route_rule, name), .help = "for people", .sample = "support"},
        {"agent", PAL_CONFIG_TEXT, offsetof(pal_route_rule, agent), .max = PAL_ROUTE_ID_LEN_MAX,
                .is_required = true, .help = "who answers", .sample = "support"},
        {"when", PAL_CONFIG_SECTION, offsetof(pal_route_rule, when), .rows = when_rows,
                .help = "which messages; a rule that asks for nothing never matches"},
        {"session_dimensions", PAL_CONFIG_TEXTS, offsetof(pal_route_rule, dimensions), "[]",
                .max = PAL_ROUTE_VALUES_MAX, .words = dimension_words,
                .len_offset = offsetof(pal_route_rule, dimensions_len),
                .help = "instead of session.dimensions"},
        {0},
};

static const pal_config_row session_rows[] = {
        {"dimensions", PAL_CONFIG_TEXTS, offsetof(pal_route_config, dimensions), "[]",
                .max = PAL_ROUTE_VALUES_MAX, .words = dimension_words,
                .len_offset = offsetof(pal_route_config, dimensions_len),
                .help = "what sessions are told apart by; none: what dm_scope says"},
        {"dm_scope", PAL_CONFIG_TEXT, offsetof(pal_route_config, dm_scope), "per-channel",
                .words = dm_scope_words,
                .help = "a name for dimensions: chat and sender; chat; sender; none"},
        {"identity_links", PAL_CONFIG_MAP, offsetof(pal_route_config, links), "{}",
                .len_offset = offsetof(pal_route_config, links_len), .rows = link_rows,
                .size = sizeof(pal_route_link), .max = PAL_ROUTE_LINK_IDS_MAX,
                .help = "people, by name"},
        {"link_across_channels", PAL_CONFIG_BOOL, offsetof(pal_route_config, link_across_channels),
                "false", .help = "a linked person has one session on all channels"},
        {"dispatch_rules", PAL_CONFIG_LIST, offsetof(pal_route_config, rules), "[]",
                .len_offset = offsetof(pal_route_config, rules_len), .rows = rule_rows,
                .size = sizeof(pal_route_rule), .max = PAL_ROUTE_RULES_MAX,
                .help = "which agent answers; the first rule that matches decides"},
        {0},
};

/* ---- context: zero in the struct means the default, so that no key may be zero but where that
 * says the same. An agent has the same keys but for those of the summary's model ---- */

#define CONTEXT(field) offsetof(pal_context_settings, field)
/* From the settings to what lies behind them in the same options. */
#define BEHIND_CONTEXT(field) \
        (offsetof(pal_runtime_options, field) - offsetof(pal_runtime_options, context))

#define COMPACTION_ROWS \
        {"auto", PAL_CONFIG_BOOL_OFF, CONTEXT(auto_off), "true", \
                .help = "prune and compact without being asked; otherwise too much is refused"}, \
        {"prune", PAL_CONFIG_BOOL_OFF, CONTEXT(prune_off), "true", \
                .help = "compact clears old tool outputs before it summarises"}, \
        {"prune_protect", PAL_CONFIG_COUNT, CONTEXT(prune_protect_tokens), "40000", .min = 1, \
                .max = TOKENS_MAX, .help = "tokens of the newest tool outputs that stay"}, \
        {"prune_protect_turns", PAL_CONFIG_COUNT32, CONTEXT(prune_protect_turns), "2", .min = 1, \
                .max = COUNT_MAX, .help = "the newest turns that stay as they are"}, \
        {"prune_minimum", PAL_CONFIG_COUNT, CONTEXT(prune_minimum_tokens), "20000", .min = 1, \
                .max = TOKENS_MAX, .help = "tokens of outputs that clearing must be worth"}, \
        {"preserve_recent_tokens", PAL_CONFIG_COUNT, CONTEXT(preserve_recent_tokens), "0", \
                .max = TOKENS_MAX, \
                .help = "tokens of the newest turns that stay; 0: a quarter, 2000 to 15000"}, \
        {"max_output_tokens", PAL_CONFIG_COUNT, CONTEXT(summary_tokens_max), "4096", .min = 1, \
                .max = TOKENS_MAX, .help = "tokens that a summary may have"}

#define CONTEXT_ROWS(own_compaction_rows) \
        {"token_strategy", PAL_CONFIG_WORD, CONTEXT(strategy), "compact", \
                .words = strategy_words, \
                .help = "what is done when a conversation gets too long"}, \
        {"max_tokens", PAL_CONFIG_COUNT, CONTEXT(max_tokens), "0", .max = TOKENS_MAX, \
                .help = "most that is sent, whatever the model takes; 0: the model's limits"}, \
        {"threshold_percent", PAL_CONFIG_COUNT32, CONTEXT(threshold_percent), "80", .min = 1, \
                .max = 100, \
                .help = "how much of the model's context summarization and sliding_window fill"}, \
        {"keep_recent_messages", PAL_CONFIG_COUNT32, CONTEXT(keep_recent_messages), "10", \
                .min = 1, .max = COUNT_MAX, \
                .help = "newest messages that summarization leaves as they are"}, \
        {"compaction_threshold", PAL_CONFIG_COUNT, CONTEXT(compaction_threshold), "0", \
                .max = TOKENS_MAX, \
                .help = "tokens at which room is made; 0: reset at 118000, others at the limit"}, \
        {"low_water_percent", PAL_CONFIG_COUNT32, CONTEXT(low_water_percent), "50", .min = 1, \
                .max = 100, .help = "how far a cut goes, of what may be sent"}, \
        {"compaction", PAL_CONFIG_SECTION, 0, .rows = own_compaction_rows, \
                .help = "how compact makes room"}

static const pal_config_row compaction_rows[] = {
        COMPACTION_ROWS,
        {"model", PAL_CONFIG_TEXT, BEHIND_CONTEXT(compaction_model), "", .max = PAL_MODEL_LEN_MAX,
                .help = "who summarises; empty: the session's model"},
        {"prompt", PAL_CONFIG_TEXT, BEHIND_CONTEXT(compaction_prompt), "", .max = PROMPT_LEN_MAX,
                .help = "how it is asked to; empty: with the built-in text"},
        {"system", PAL_CONFIG_TEXT, BEHIND_CONTEXT(compaction_system), "",
                .max = PAL_SYSTEM_LEN_MAX,
                .help = "instructions for the question; empty: the session's, which are cached"},
        {0},
};
static const pal_config_row context_rows[] = {CONTEXT_ROWS(compaction_rows), {0}};

static const pal_config_row agent_compaction_rows[] = {COMPACTION_ROWS, {0}};
const pal_config_row pal_config_agent_context_rows[] = {CONTEXT_ROWS(agent_compaction_rows), {0}};

/* ---- agents ---- */

#define AGENT(field) offsetof(pal_config_agent, field)

static const pal_config_row agent_rows[] = {
        {"id", PAL_CONFIG_TEXT, AGENT(route.id), .max = PAL_ROUTE_ID_LEN_MAX,
                .is_required = true, .help = "letters, digits, '_' and '-'", .sample = "main"},
        {"default", PAL_CONFIG_BOOL, AGENT(route.is_default), "false",
                .help = "answers in sessions of no other agent; without any the first one does",
                .sample = "true"},
        {"system", PAL_CONFIG_TEXT, AGENT(settings.system), "", .max = PAL_SYSTEM_LEN_MAX,
                .help = "its instructions; empty: turn.system",
                .sample = "\"You answer in one sentence.\""},
        {"provider", PAL_CONFIG_TEXT, AGENT(settings.endpoint), "", .max = PAL_LABEL_LEN_MAX,
                .help = "the name of one of providers; empty: the first"},
        {"model", PAL_CONFIG_TEXT, AGENT(settings.model), "", .max = PAL_MODEL_LEN_MAX,
                .help = "who answers for it; empty: the provider's model"},
        {"max_tool_iterations", PAL_CONFIG_COUNT32, AGENT(settings.max_tool_iterations), "0",
                .max = COUNT_MAX, .help = "rounds of tool calls in one turn; 0: as in turn"},
        {"tools", PAL_CONFIG_TEXTS, AGENT(settings.tools), .len_offset = AGENT(settings.tools_len),
                .max = PAL_CONFIG_LIST_MAX,
                .help = "the only ones it is offered, such as files__*; not given: all",
                .sample = "[\"files__*\", recall]"},
        {"parameters", PAL_CONFIG_OBJECT, AGENT(settings.parameters), "{}",
                .max = PAL_SYSTEM_LEN_MAX,
                .help = "members of its requests to a model, over those of turn.parameters",
                .sample = "{temperature: 0.7}"},
        {"context", PAL_CONFIG_SECTION, AGENT(context), .rows = pal_config_agent_context_rows,
                .is_overlay = true, .help = "what is different from context, by the same keys",
                .sample = "{max_tokens: 32000}"},
        {0},
};

/* ---- expiry ---- */

static const pal_config_row expiry_rows[] = {
        {"session_expiration", PAL_CONFIG_DURATION, offsetof(pal_config_expiry, session_expiration),
                "24h", .max = DURATION_MS_MAX,
                .help = "how long a work item's session lasts; 0s: for good"},
        {"cleanup_interval", PAL_CONFIG_DURATION, offsetof(pal_config_expiry, cleanup_interval),
                "1h", .min = SECOND_MS, .max = DURATION_MS_MAX,
                .help = "how often expired sessions are moved to the trash"},
        {"trash_retention", PAL_CONFIG_DURATION, offsetof(pal_config_expiry, trash_retention),
                "30d", .max = DURATION_MS_MAX,
                .help = "how long the trash is kept before it is erased; 0s: for good"},
        {0},
};

/* ---- limits ---- */

static const pal_config_row limit_rows[] = {
        {"sessions_per_tenant", PAL_CONFIG_COUNT32,
                offsetof(pal_config_limits, sessions_per_tenant), "0", .max = COUNT_MAX,
                .help = "active sessions of one tenant; 0: no bound"},
        {0},
};

/* ---- The top ---- */

#define TOP(field) offsetof(pal_config_state, field)

const pal_config_row pal_config_rows[] = {
        {"store", PAL_CONFIG_URL, TOP(values.store), PAL_CONFIG_STORE_DEFAULT,
                .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "where conversations are kept: sqlite:PATH, jsonl:DIR or memory:"},
        {"provider", PAL_CONFIG_TEXT, TOP(provider), "", .max = PAL_LABEL_LEN_MAX,
                .help = "who is asked: the name of one of providers, or a kind; empty: the first"},
        {"provider_url", PAL_CONFIG_HTTP_URL, TOP(provider_url), "", .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "where that one is, instead of its own place"},
        {"model", PAL_CONFIG_TEXT, TOP(runtime.model), "", .max = PAL_MODEL_LEN_MAX,
                .help = "the one to use where none is named; empty: the provider's"},
        {"providers", PAL_CONFIG_LIST, TOP(providers), "[]", .len_offset = TOP(providers_len),
                .rows = pal_config_provider_rows, .size = sizeof(pal_config_provider),
                .max = PAL_CONFIG_LIST_MAX,
                .help = "models' services; none: what is found by itself"},
        {"models", PAL_CONFIG_LIST, TOP(values.models), "[]",
                .len_offset = TOP(values.models_len), .rows = model_rows,
                .size = sizeof(pal_config_model), .max = MODELS_MAX,
                .help = "what is known of models, before what is built in"},
        {"price_version", PAL_CONFIG_TEXT, TOP(runtime.price_version), "",
                .max = PAL_LABEL_LEN_MAX,
                .help = "kept with every cost, to tell price lists apart; empty: a hash of them"},
        {"session", PAL_CONFIG_SECTION, TOP(values.session), .rows = session_rows,
                .help = "which session a message belongs to"},
        {"agents", PAL_CONFIG_LIST, TOP(agents), "[]", .len_offset = TOP(agents_len),
                .rows = agent_rows, .size = sizeof(pal_config_agent), .max = PAL_ROUTE_AGENTS_MAX,
                .help = "who answers; if there are any, no other does"},
        {"context", PAL_CONFIG_SECTION, TOP(runtime.context), .rows = context_rows,
                .help = "what the model gets to see"},
        {"turn", PAL_CONFIG_SECTION, TOP(runtime), .rows = pal_config_turn_rows,
                .help = "how an exchange with a model runs"},
        {"mcp_servers", PAL_CONFIG_LIST, TOP(tool_servers), "[]",
                .len_offset = TOP(tool_servers_len), .rows = pal_config_tool_server_rows,
                .size = sizeof(pal_config_tool_server), .max = PAL_CONFIG_LIST_MAX,
                .help = "whose tools the model may call"},
        {"expiry", PAL_CONFIG_SECTION, TOP(values.expiry), .rows = expiry_rows,
                .help = "when sessions end by themselves"},
        {"limits", PAL_CONFIG_SECTION, TOP(values.limits), .rows = limit_rows,
                .help = "what one tenant may have"},
        {"server", PAL_CONFIG_SECTION, TOP(values.server), .rows = pal_config_server_rows,
                .help = "palaver serve"},
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
