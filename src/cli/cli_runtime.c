/* cli_runtime.c - opens the runtime with the user's settings. Options override environment
 * variables, and those override the file, because all of them set keys of the configuration. */
#include "cli/cli.h"

#include <string.h>
#include "base/log.h"
#include "server/access/access_key.h"

static pal_status set_key(pal_cli *cli, const char *key, const char *option, const char *value)
{
    if (!value)
        return PAL_OK;
    pal_status status =
            pal_config_set(cli->config, key, pal_str_of(value), PAL_CONFIG_FLAG, &cli->err);
    if (status == PAL_INVALID) {
        pal_error cause = cli->err;
        const char *problem = strstr(cause.message, "must be");
        return pal_cli_usage(cli, NULL, "%s %s", option, problem ? problem : cause.message);
    }
    return status;
}

pal_status pal_cli_runtime_choose(pal_cli *cli, const pal_cli_runtime_values *given)
{
    pal_status status = set_key(cli, "provider", "--provider", given->provider);
    if (status == PAL_OK)
        status = set_key(cli, "provider_url", "--provider-url", given->provider_url);
    if (status == PAL_OK)
        status = set_key(cli, "model", "--model", given->model);
    return status;
}

static void log_warning(pal_str text, void *user)
{
    (void)user;
    pal_log(PAL_LOG_WARN, "%.*s", PAL_STR_ARG(text));
}

static pal_status open_runtime(
        pal_cli *cli, pal_runtime_options *options, bool runs_inbox, pal_cli_runtime *out_runtime)
{
    const pal_config_values *config = pal_config_get(cli->config);
    pal_status status = pal_models_new(
            config->model_rules, config->models_len, &out_runtime->models, &cli->err);
    if (status != PAL_OK)
        return status;
    options->store = cli->store;
    options->models = out_runtime->models;
    options->leave_inbox = !runs_inbox;
    options->on_warning = log_warning;
    /* All servers with this store give a router the same ids. */
    uint8_t secret[PAL_SECRET_SIZE];
    if (runs_inbox) {
        status = pal_secret_get(cli->store, secret, &cli->err);
        if (status != PAL_OK)
            return status;
        options->affinity_key = pal_str_make((const char *)secret, sizeof secret);
    }
    status = pal_runtime_open(options, &out_runtime->runtime, &cli->err);
    if (status != PAL_OK)
        return status;
    status = pal_runtime_default(out_runtime->runtime, cli->arena, &out_runtime->endpoint,
            &out_runtime->model, &out_runtime->is_stopgap, &cli->err);
    out_runtime->is_echo = out_runtime->is_stopgap ||
            (options->endpoints_len && pal_str_is(options->endpoints[0].kind, "echo"));
    return status;
}

pal_status pal_cli_runtime_open(
        pal_cli *cli, const pal_cli_runtime_values *given, pal_cli_runtime *out_runtime)
{
    pal_runtime_options options;
    *out_runtime = (pal_cli_runtime){0};
    pal_status status = pal_cli_runtime_choose(cli, given);
    if (status != PAL_OK)
        return status;
    status = pal_config_runtime(cli->config, cli->arena, &options, &cli->err);
    if (status != PAL_OK) {
        if (status == PAL_NOT_FOUND)
            snprintf(cli->hint, sizeof cli->hint,
                    "set the variable, or use another provider; '--provider echo' requires no key");
        return status;
    }
    options.calls_max = given->calls_max;
    options.cannot_ask = !given->can_ask;
    if (given->channels) {
        options.on_outbox = pal_channels_on_outbox;
        options.outbox_user = given->channels;
    }
    options.on_model_call = given->on_model_call;
    options.model_call_user = given->model_call_user;
    return open_runtime(cli, &options, given->runs_inbox, out_runtime);
}

void pal_cli_runtime_close(pal_cli_runtime *runtime, int64_t drain_ms)
{
    pal_runtime_close(runtime->runtime, drain_ms);
    pal_models_free(runtime->models);
    *runtime = (pal_cli_runtime){0};
}
