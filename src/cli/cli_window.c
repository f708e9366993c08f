/* cli_window.c - builds the window of a session from the command line, the session, its agent
 * and the configuration, in that order, as a turn would, but without tools. */
#include "cli/cli.h"

#include <string.h>

#define MODEL_MESSAGES 20 /* newest messages that are searched for the model of the last answer */

/* ---- The model that would answer ---- */

static const pal_agent_settings *find_agent(const pal_runtime_options *options, pal_str name)
{
    for (size_t i = 0; i < options->agents_len; i++) {
        if (pal_str_equal(options->agents[i].name, name))
            return &options->agents[i];
    }
    return NULL;
}

static const pal_endpoint *find_endpoint(const pal_runtime_options *options, pal_str name)
{
    for (size_t i = 0; i < options->endpoints_len; i++) {
        if (pal_str_equal(options->endpoints[i].name, name))
            return &options->endpoints[i];
    }
    return NULL;
}

/* Reads the settings in the session's metadata: {"turn": {"model": ...}}. */
static pal_agent_settings own_settings(pal_cli *cli, const pal_session *session)
{
    pal_agent_settings own = {0};
    pal_json root;
    if (session->metadata.len == 0 ||
            pal_json_parse(cli->arena, session->metadata, NULL, &root, NULL) != PAL_OK)
        return own;
    pal_json turn = pal_json_find(root, "turn");
    own.endpoint = pal_json_string(pal_json_find(turn, "endpoint"), cli->arena);
    own.model = pal_json_string(pal_json_find(turn, "model"), cli->arena);
    own.system = pal_json_string(pal_json_find(turn, "system"), cli->arena);
    return own;
}

/* The session overrides its agent, and the agent overrides the configuration. A level that names
 * an endpoint but no model means the default model of the endpoint. */
static void choose_answerer(pal_cli *cli, const pal_session *session,
        const pal_runtime_options *options, pal_cli_window *out_window)
{
    pal_window *window = &out_window->window;
    const pal_agent_settings own = own_settings(cli, session);
    const pal_agent_settings *agent = find_agent(options, session->agent);
    const pal_agent_settings *levels[] = {&own, agent};
    const pal_endpoint *endpoint = NULL;
    window->system = options->system;
    if (agent && agent->system.len)
        window->system = agent->system;
    if (own.system.len)
        window->system = own.system;
    for (size_t i = 0; i < 2 && !endpoint; i++) {
        if (levels[i] && window->model.len == 0)
            window->model = levels[i]->model;
        if (levels[i] && levels[i]->endpoint.len)
            endpoint = find_endpoint(options, levels[i]->endpoint);
    }
    if (!endpoint && options->endpoints_len)
        endpoint = &options->endpoints[0];
    if (endpoint)
        out_window->kind = endpoint->kind;
    if (window->model.len == 0)
        window->model = endpoint && endpoint->model.len ? endpoint->model : options->model;
}

/* Finds the model of the last answer, for the case that no setting names a model. */
static pal_status find_model(pal_cli *cli, pal_id session, pal_str *out_model)
{
    pal_message_query load = {.limit = MODEL_MESSAGES, .from_end = true};
    pal_message_page newest;
    pal_status status = pal_store_load(
            cli->store, pal_cli_tenant(cli), session, &load, cli->arena, &newest, &cli->err);
    if (status != PAL_OK)
        return status;
    for (size_t i = newest.len; i > 0 && out_model->len == 0; i--)
        *out_model = newest.items[i - 1].model;
    return PAL_OK;
}

/* Fails with the most similar name as the hint, or with all names. */
static pal_status unknown_name(
        pal_cli *cli, const char *what, const char *name, const char *const *names)
{
    const char *near = pal_cli_nearest(name, names);
    char hint[160] = "";
    size_t len = 0;
    if (near)
        snprintf(hint, sizeof hint, "did you mean '%s'?", near);
    for (size_t i = 0; !near && names[i]; i++)
        len += (size_t)snprintf(
                hint + len, sizeof hint - len, "%s%s", i == 0 ? "use one of " : ", ", names[i]);
    return pal_cli_usage(cli, hint, "unknown %s '%.60s'", what, name);
}

static pal_status read_names(pal_cli *cli, const pal_cli_window_values *given, pal_window *window)
{
    static const char *const strategies[] = {
            "compact", "summarization", "sliding_window", "reset", "none", NULL};
    static const char *const profiles[] = {
            "openai_chat", "openai_responses", "anthropic", "mistral", "picoclaw", NULL};
    if (given->strategy &&
            !pal_strategy_from_name(pal_str_of(given->strategy), &window->settings.strategy))
        return unknown_name(cli, "strategy", given->strategy, strategies);
    if (given->profile && !pal_profile_from_name(pal_str_of(given->profile), &window->profile))
        return unknown_name(cli, "profile", given->profile, profiles);
    return PAL_OK;
}

static pal_status read_settings(pal_cli *cli, const pal_session *session,
        const pal_cli_window_values *given, pal_cli_window *out_window)
{
    pal_window *window = &out_window->window;
    pal_runtime_options options;
    /* If an API key is missing, the options are used without keys: no model is called. */
    if (pal_config_runtime(cli->config, cli->arena, &options, NULL) != PAL_OK)
        options = *pal_config_get(cli->config)->runtime;
    const pal_agent_settings *agent = find_agent(&options, session->agent);
    pal_status status = pal_context_settings_merge(&options.context, agent ? agent->context : NULL,
            session->metadata, &window->settings, &cli->err);
    if (status != PAL_OK)
        return status;
    choose_answerer(cli, session, &options, out_window);
    const pal_provider_info *info = pal_provider_info_find(out_window->kind);
    if (info)
        window->profile = info->profile;
    /* The same as in a turn: for a conversation that the provider keeps, this is the only limit. */
    if (window->settings.compaction_threshold == 0 && info && info->keeps_conversations)
        window->settings.compaction_threshold = PAL_COMPACTION_THRESHOLD;
    status = read_names(cli, given, window);
    if (status == PAL_OK && given->max_tokens.given)
        window->settings.max_tokens = given->max_tokens.value;
    if (status == PAL_OK && window->model.len == 0)
        status = find_model(cli, session->id, &window->model);
    return status;
}

pal_status pal_cli_window_open(pal_cli *cli, const pal_session *session,
        const pal_cli_window_values *given, pal_cli_window *out_window)
{
    const pal_config_values *config = pal_config_get(cli->config);
    pal_window *window = &out_window->window;
    *out_window = (pal_cli_window){.window = {.tenant = pal_cli_tenant(cli),
                                           .session = session->id,
                                           .model = pal_str_of(given->model),
                                           .memory = config->runtime->memory}};
    pal_status status = read_settings(cli, session, given, out_window);
    if (status == PAL_OK)
        status = pal_models_new(
                config->model_rules, config->models_len, &out_window->models, &cli->err);
    window->models = out_window->models;
    return status;
}

void pal_cli_window_close(pal_cli_window *window)
{
    pal_models_free(window->models);
    window->models = NULL;
}
