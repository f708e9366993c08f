/* route_settings.c - checks a configuration and compiles it: ids are put into a map, rules are
 * normalized, and the main keys of all agents are made. Errors are reported here, once, and not for
 * every message. */
#include "route/route_settings.h"

#include <stdio.h>
#include "base/memory.h"
#include "base/unicode.h"
#include "base/utf8.h"
#include "palaver/limits.h"
#include "route/route_text.h"

#define NAME_SIZE 64

typedef struct shorthand {
    const char *name;
    uint8_t items[PAL_ROUTE_VALUES_MAX];
    size_t len;
} shorthand;

static const shorthand shorthands[] = {
        {"per-channel-peer", {PAL_DIMENSION_CHAT, PAL_DIMENSION_SENDER}, 2},
        {"per-channel", {PAL_DIMENSION_CHAT}, 1},
        {"per-peer", {PAL_DIMENSION_SENDER}, 1},
        {"global", {0}, 0},
};

static pal_status too_many(const char *what, size_t len, size_t len_max, pal_error *err)
{
    if (len <= len_max)
        return PAL_OK;
    return pal_error_set(err, PAL_LIMIT, "%zu %s exceed the limit of %zu", len, what, len_max);
}

/* Checks, trims and lower-cases the text. */
static pal_status normalize(
        pal_arena *arena, const char *name, pal_str text, pal_str *out_text, pal_error *err)
{
    pal_str trimmed;
    pal_status status = pal_route_check(name, text, &trimmed, err);
    if (status == PAL_OK)
        *out_text = pal_route_lower(arena, trimmed);
    return status;
}

static pal_status read_dimensions(const char *name, const pal_str *list, size_t len,
        pal_route_dimensions *out_dimensions, pal_error *err)
{
    pal_str unknown;
    for (size_t i = 0; i < len; i++) {
        char at[NAME_SIZE];
        pal_str trimmed;
        snprintf(at, sizeof at, "%s[%zu]", name, i);
        pal_status status = pal_route_check(at, list[i], &trimmed, err);
        if (status != PAL_OK)
            return status;
    }
    if (pal_route_dimensions_from_names(list, len, out_dimensions, &unknown))
        return PAL_OK;
    unknown.len = pal_utf8_cut(unknown, 100);
    return pal_error_set(err, PAL_INVALID,
            "'%s' contains the unknown dimension '%.*s'; use space, chat, topic or sender", name,
            PAL_STR_ARG(unknown));
}

/* Dimensions override the shorthand, but the shorthand must still be a known one. */
static pal_status set_dimensions(
        pal_route_settings *settings, const pal_route_config *config, pal_error *err)
{
    pal_str scope;
    const shorthand *found = NULL;
    pal_status status = pal_route_check("dm_scope", config->dm_scope, &scope, err);
    if (status != PAL_OK)
        return status;
    for (size_t i = 0; i < sizeof shorthands / sizeof *shorthands; i++) {
        if (pal_str_is(scope, shorthands[i].name))
            found = &shorthands[i];
    }
    if (scope.len && !found) {
        scope.len = pal_utf8_cut(scope, 100);
        return pal_error_set(err, PAL_INVALID,
                "unknown dm_scope '%.*s'; use per-channel-peer, per-channel, per-peer or "
                "global",
                PAL_STR_ARG(scope));
    }
    if (found && config->dimensions_len == 0) {
        memcpy(settings->dimensions.items, found->items, sizeof found->items);
        settings->dimensions.len = found->len;
        return PAL_OK;
    }
    return read_dimensions(
            "dimensions", config->dimensions, config->dimensions_len, &settings->dimensions, err);
}

void pal_route_main_make(pal_arena *arena, pal_str agent, pal_route_main *out_main)
{
    out_main->agent = agent;
    out_main->alias = pal_route_join(arena, PAL_LITERAL("agent:"), agent, PAL_LITERAL(":main"));
    /* A failure is recorded in the arena. */
    if (pal_route_key_from_alias(out_main->alias, arena, &out_main->key, NULL) != PAL_OK)
        out_main->key = pal_str_make(NULL, 0);
}

/* Returns the agent with that id, and adds it if it is missing. NULL if there is not enough
 * memory. */
static const pal_route_main *add_agent(pal_route_settings *settings, pal_str id)
{
    pal_route_main *known = pal_map_find(&settings->agents, id);
    if (known)
        return known;
    known = pal_arena_alloc(settings->arena, sizeof *known);
    if (!known)
        return NULL;
    pal_route_main_make(settings->arena, pal_arena_copy(settings->arena, id), known);
    if (pal_arena_failure(settings->arena) ||
            pal_map_set(&settings->agents, known->agent, known) != PAL_OK)
        return NULL;
    return known;
}

static pal_status set_agents(
        pal_route_settings *settings, const pal_route_config *config, pal_error *err)
{
    pal_status status = too_many("agents", config->agents_len, PAL_ROUTE_AGENTS_MAX, err);
    bool chosen = false;
    settings->agents_only = config->agents_len > 0;
    for (size_t i = 0; i < config->agents_len && status == PAL_OK; i++) {
        const pal_route_agent *agent = &config->agents[i];
        char name[NAME_SIZE];
        pal_str id = {0};
        snprintf(name, sizeof name, "agents[%zu]", i);
        status = normalize(settings->arena, name, agent->id, &id, err);
        if (status != PAL_OK)
            break;
        if (pal_unicode_trim(agent->id).len == 0)
            return pal_error_set(err, PAL_INVALID, "'%s' has an empty id", name);
        const pal_route_main *known =
                add_agent(settings, pal_route_id(settings->arena, id, PAL_LITERAL("main")));
        if (!known)
            return pal_no_memory(err);
        if (i == 0 || (agent->is_default && !chosen))
            settings->default_agent = known;
        chosen = chosen || agent->is_default;
    }
    if (status == PAL_OK && !settings->default_agent) {
        settings->default_agent = add_agent(settings, PAL_LITERAL("main"));
        if (!settings->default_agent)
            status = pal_no_memory(err);
    }
    return status;
}

static bool is_smaller(pal_str a, pal_str b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len ? memcmp(a.data, b.data, len) : 0;
    return order ? order < 0 : a.len < b.len;
}

/* Both texts are in the arena. If two names claim the id, the smaller name gets it. */
static pal_status claim(pal_route_settings *settings, pal_str id, pal_str *name, pal_error *err)
{
    const pal_str *owner = pal_map_find(&settings->links, id);
    if (owner && !is_smaller(*name, *owner))
        return PAL_OK;
    return pal_map_set(&settings->links, id, name) == PAL_OK ? PAL_OK : pal_no_memory(err);
}

static pal_status add_link(
        pal_route_settings *settings, const pal_route_link *link, size_t index, pal_error *err)
{
    char at[NAME_SIZE];
    snprintf(at, sizeof at, "identity_links[%zu]", index);
    pal_str *name = pal_arena_alloc(settings->arena, sizeof *name);
    if (!name)
        return pal_no_memory(err);
    pal_status status = normalize(settings->arena, at, link->name, name, err);
    for (size_t i = 0; i < link->ids_len && status == PAL_OK; i++) {
        pal_str id = {0};
        snprintf(at, sizeof at, "identity_links[%zu][%zu]", index, i);
        status = normalize(settings->arena, at, link->ids[i], &id, err);
        if (status != PAL_OK)
            return status;
        if (pal_arena_failure(settings->arena))
            return pal_no_memory(err);
        if (id.len && name->len)
            status = claim(settings, id, name, err);
    }
    return status;
}

static pal_status set_links(
        pal_route_settings *settings, const pal_route_config *config, pal_error *err)
{
    pal_status status = PAL_OK;
    size_t ids = 0;
    for (size_t i = 0; i < config->links_len && status == PAL_OK; i++) {
        ids += config->links[i].ids_len;
        status = too_many("linked ids", ids, PAL_ROUTE_LINK_IDS_MAX, err);
        if (status == PAL_OK)
            status = add_link(settings, &config->links[i], i, err);
    }
    return status;
}

/* Normalizes the conditions of a rule. *out_asks: whether there are any. */
static pal_status set_when(pal_arena *arena, const pal_route_when *from, size_t index,
        pal_route_when *out_when, bool *out_asks, pal_error *err)
{
    const struct {
        const char *name;
        pal_str text;
        pal_str *out_text;
    } texts[] = {
            {"channel", from->channel, &out_when->channel},
            {"account", from->account, &out_when->account},
            {"space", from->space, &out_when->space},
            {"chat", from->chat, &out_when->chat},
            {"topic", from->topic, &out_when->topic},
            {"sender", from->sender, &out_when->sender},
    };
    *out_asks = from->mentioned != PAL_ROUTE_MENTION_ANY;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char at[NAME_SIZE];
        snprintf(at, sizeof at, "rules[%zu].when.%s", index, texts[i].name);
        pal_status status = normalize(arena, at, texts[i].text, texts[i].out_text, err);
        if (status != PAL_OK)
            return status;
        *out_asks = *out_asks || texts[i].out_text->len;
    }
    out_when->account = pal_route_id(arena, out_when->account, PAL_LITERAL("default"));
    out_when->mentioned = from->mentioned;
    return PAL_OK;
}

static pal_str matched_by(pal_arena *arena, pal_str name)
{
    if (name.len == 0)
        return PAL_LITERAL("dispatch.rule");
    return pal_route_join(arena, PAL_LITERAL("dispatch.rule:"), name);
}

/* Sets the agent of the rule and adds it; the default agent if there is no such agent. */
static pal_status set_rule_agent(pal_route_settings *settings, const pal_route_rule *rule,
        size_t index, pal_route_case *out_case, pal_error *err)
{
    char at[NAME_SIZE];
    pal_str trimmed, id;
    snprintf(at, sizeof at, "rules[%zu].agent", index);
    pal_status status = pal_route_check(at, rule->agent, &trimmed, err);
    if (status != PAL_OK)
        return status;
    out_case->agent = pal_route_agent_pick(settings, settings->arena, trimmed, &id);
    if (!out_case->agent)
        out_case->agent = add_agent(settings, id);
    return out_case->agent ? PAL_OK : pal_no_memory(err);
}

static pal_status add_rule(
        pal_route_settings *settings, const pal_route_rule *rule, size_t index, pal_error *err)
{
    pal_route_case *added = &settings->cases[settings->cases_len];
    char at[NAME_SIZE];
    pal_str name = {0};
    bool asks = false;
    snprintf(at, sizeof at, "rules[%zu].name", index);
    pal_status status = normalize(settings->arena, at, rule->name, &name, err);
    if (status == PAL_OK)
        status = set_when(settings->arena, &rule->when, index, &added->when, &asks, err);
    if (status == PAL_OK)
        status = set_rule_agent(settings, rule, index, added, err);
    if (status != PAL_OK)
        return status;
    added->matched_by = matched_by(settings->arena, name);
    added->dimensions = settings->dimensions;
    snprintf(at, sizeof at, "rules[%zu].session_dimensions", index);
    if (rule->dimensions_len)
        status = read_dimensions(
                at, rule->dimensions, rule->dimensions_len, &added->dimensions, err);
    settings->cases_len += asks;
    return status;
}

static pal_status set_rules(
        pal_route_settings *settings, const pal_route_config *config, pal_error *err)
{
    pal_status status = too_many("rules", config->rules_len, PAL_ROUTE_RULES_MAX, err);
    if (status != PAL_OK || config->rules_len == 0)
        return status;
    settings->cases = pal_arena_array(settings->arena, config->rules_len, sizeof *settings->cases);
    if (!settings->cases)
        return pal_no_memory(err);
    for (size_t i = 0; i < config->rules_len && status == PAL_OK; i++)
        status = add_rule(settings, &config->rules[i], i, err);
    return status;
}

static pal_status compile(
        pal_route_settings *settings, const pal_route_config *config, pal_error *err)
{
    settings->link_across_channels = config->link_across_channels;
    pal_status status = set_dimensions(settings, config, err);
    if (status != PAL_OK)
        return status;
    status = set_agents(settings, config, err);
    if (status != PAL_OK)
        return status;
    status = set_links(settings, config, err);
    if (status != PAL_OK)
        return status;
    status = set_rules(settings, config, err);
    if (status != PAL_OK)
        return status;
    return pal_arena_failure(settings->arena) ? pal_no_memory(err) : PAL_OK;
}

pal_status pal_route_settings_new(
        const pal_route_config *config, pal_route_settings **out_settings, pal_error *err)
{
    static const pal_route_config none;
    pal_route_settings *settings = pal_calloc(1, sizeof *settings);
    if (!settings)
        return pal_no_memory(err);
    pal_map_init(&settings->links);
    pal_map_init(&settings->agents);
    settings->arena = pal_arena_new(0);
    pal_status status = settings->arena ? compile(settings, config ? config : &none, err)
                                        : pal_no_memory(err);
    if (status == PAL_OK)
        *out_settings = settings;
    else
        pal_route_settings_free(settings);
    return status;
}

void pal_route_settings_free(pal_route_settings *settings)
{
    if (!settings)
        return;
    pal_map_done(&settings->links);
    pal_map_done(&settings->agents);
    pal_arena_free(settings->arena);
    pal_free(settings);
}

const pal_route_main *pal_route_agent_pick(
        const pal_route_settings *settings, pal_arena *arena, pal_str agent, pal_str *out_id)
{
    if (agent.len == 0)
        return settings->default_agent;
    *out_id = pal_route_id(arena, pal_route_lower(arena, agent), PAL_LITERAL("main"));
    const pal_route_main *known = pal_map_find(&settings->agents, *out_id);
    return known || !settings->agents_only ? known : settings->default_agent;
}
