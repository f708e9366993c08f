/* cli_window.c - a session's window as the command line, the session and the configuration say it:
 * in that order. */
#include "cli/cli.h"

#include <string.h>

#define MODEL_MESSAGES 20 /* the newest ones that are asked who answered */

/* Who answered last, where nobody says which model is meant. */
static pal_status find_model(pal_cli *cli, pal_id session, pal_str *out_model)
{
    pal_load load = {.limit = MODEL_MESSAGES, .from_end = true};
    pal_messages newest;
    pal_status status = pal_store_load(
            cli->store, pal_cli_tenant(cli), session, &load, cli->arena, &newest, &cli->err);
    if (status != PAL_OK)
        return status;
    for (size_t i = newest.len; i > 0 && out_model->len == 0; i--)
        *out_model = newest.items[i - 1].model;
    return PAL_OK;
}

/* Fails with the name that was probably meant, or all that there are. */
static pal_status unknown_name(
        pal_cli *cli, const char *what, const char *name, const char *const *names)
{
    const char *near = pal_cli_nearest(name, names);
    char hint[160] = "";
    size_t len = 0;
    if (near)
        snprintf(hint, sizeof hint, "did you mean '%s'?", near);
    for (size_t i = 0; !near && names[i]; i++)
        len += (size_t)snprintf(hint + len, sizeof hint - len, "%s%s",
                i == 0 ? "it is one of " : ", ", names[i]);
    return pal_cli_usage(cli, hint, "there is no %s '%.60s'", what, name);
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

pal_status pal_cli_window_open(pal_cli *cli, const pal_session *session,
        const pal_cli_window_values *given, pal_cli_window *out_window)
{
    const pal_config_values *config = pal_config_get(cli->config);
    pal_window *window = &out_window->window;
    *out_window = (pal_cli_window){.window = {.tenant = pal_cli_tenant(cli),
                                           .session = session->id,
                                           .model = pal_str_of(given->model),
                                           .settings = *config->context}};
    pal_status status = pal_context_override(session->metadata, &window->settings, &cli->err);
    if (status == PAL_OK)
        status = read_names(cli, given, window);
    if (status == PAL_OK && given->max_tokens.given)
        window->settings.max_tokens = given->max_tokens.value;
    if (status == PAL_OK && !given->model)
        status = find_model(cli, session->id, &window->model);
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
