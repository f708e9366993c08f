/* cmd_models.c - `palaver models`: lists the models that the configured or found services offer,
 * with their limits and prices. */
#include "cli/cli.h"

#include <string.h>
#include "base/json/json_put.h"

#define WAIT_MS 5000 /* time limit for services to list their models */

typedef struct models_values {
    pal_cli_runtime_values runtime;
} models_values;

static const pal_price *price_of(const pal_cli *cli, pal_str model)
{
    const pal_runtime_options *options = pal_config_get(cli->config)->runtime;
    return pal_price_find(options->prices, options->prices_len, model);
}

static void add_tokens(pal_cli *cli, pal_cli_table *table, uint64_t tokens)
{
    pal_buf text;
    pal_buf_init(&text, 64);
    if (tokens)
        pal_cli_number_text(&text, tokens);
    else
        pal_buf_append_text(&text, "unknown");
    pal_cli_table_cell(cli, table, pal_buf_str(&text));
    pal_buf_done(&text);
}

static void add_price(pal_cli *cli, pal_cli_table *table, const pal_price *price, uint64_t micros)
{
    char text[32] = "unknown";
    if (price)
        snprintf(text, sizeof text, "$%.2f", (double)micros / 1e6);
    pal_cli_table_cell(cli, table, pal_str_of(text));
}

static void print_table(
        pal_cli *cli, const pal_cli_runtime *runtime, const pal_served_model *models, size_t len)
{
    pal_cli_table table = {.columns = 6,
            .heads = {"MODEL", "AT", "CONTEXT", "OUTPUT", "IN/M", "OUT/M"},
            .right = {false, false, true, true, true, true},
            .shrink = 0};
    for (size_t i = 0; i < len; i++) {
        pal_model known = pal_models_find(runtime->models, models[i].model);
        const pal_price *price = price_of(cli, models[i].model);
        pal_cli_table_cell(cli, &table, models[i].model);
        pal_cli_table_cell(cli, &table, models[i].endpoint);
        add_tokens(cli, &table, known.is_known ? known.context : 0);
        add_tokens(cli, &table, known.is_known ? known.output : 0);
        add_price(cli, &table, price, price ? price->input : 0);
        add_price(cli, &table, price, price ? price->output : 0);
    }
    if (len)
        pal_cli_table_print(cli, &table);
    pal_buf_append_text(&cli->out, "\nThe default is ");
    pal_cli_clean(&cli->out, runtime->model, false);
    pal_buf_append_text(&cli->out, " at ");
    pal_cli_clean(&cli->out, runtime->endpoint, false);
    pal_buf_append_text(&cli->out, runtime->is_stopgap
                    ? ", because no model is configured and none was found.\n"
                    : ".\n");
}

/* An endpoint without a default model uses the first one that it lists. */
static bool is_default(const pal_cli_runtime *runtime, const pal_served_model *served)
{
    return pal_str_equal(served->endpoint, runtime->endpoint) &&
            pal_str_equal(served->model, runtime->model);
}

static void put_model(
        pal_cli *cli, pal_json_writer *writer, const pal_cli_runtime *runtime,
        const pal_served_model *served)
{
    pal_model known = pal_models_find(runtime->models, served->model);
    const pal_price *price = price_of(cli, served->model);
    pal_json_begin_object(writer);
    pal_put_str(writer, "endpoint", served->endpoint);
    pal_put_str(writer, "model", served->model);
    pal_put_flag(writer, "is_known", known.is_known);
    pal_put_count(writer, "context", known.context);
    pal_put_count(writer, "output", known.output);
    pal_put_flag(writer, "is_exact", known.is_exact);
    if (price) {
        pal_json_name(writer, "price");
        pal_json_begin_object(writer);
        pal_put_count(writer, "input", price->input);
        pal_put_count(writer, "cache_read", price->cache_read);
        pal_put_count(writer, "cache_write", price->cache_write);
        pal_put_count(writer, "output", price->output);
        pal_json_end_object(writer);
    } else {
        pal_put_null(writer, "price");
    }
    pal_put_flag(writer, "is_default", is_default(runtime, served));
    pal_json_end_object(writer);
}

static pal_status list_models(pal_cli *cli, pal_cli_runtime *runtime)
{
    pal_served_model *models;
    size_t len;
    pal_status status = pal_runtime_models(
            runtime->runtime, WAIT_MS, cli->arena, &models, &len, &cli->err);
    if (status != PAL_OK)
        return status;
    for (size_t i = 0; i < len && !runtime->model.len; i++) {
        if (pal_str_equal(models[i].endpoint, runtime->endpoint))
            runtime->model = models[i].model;
    }
    if (!cli->json) {
        print_table(cli, runtime, models, len);
        return PAL_OK;
    }
    pal_json_writer writer = pal_json_writer_make(&cli->out);
    pal_json_begin_object(&writer);
    pal_json_name(&writer, "models");
    pal_json_begin_array(&writer);
    for (size_t i = 0; i < len; i++)
        put_model(cli, &writer, runtime, &models[i]);
    pal_json_end_array(&writer);
    pal_json_end_object(&writer);
    pal_buf_append_char(&cli->out, '\n');
    return PAL_OK;
}

/* A list of models does not depend on the user's store, so it is not opened. */
static pal_status run_models(pal_cli *cli, void *values)
{
    const models_values *given = values;
    pal_cli_runtime runtime = {0};
    cli->store_url = "memory:";
    pal_status status = pal_cli_store_open(cli, PAL_CLI_CREATE);
    if (status != PAL_OK)
        return status;
    status = pal_cli_runtime_open(cli, &given->runtime, &runtime);
    if (status == PAL_OK)
        status = list_models(cli, &runtime);
    pal_cli_runtime_close(&runtime, 0);
    return status;
}

static const pal_cli_option options[] = {
        PAL_CLI_RUNTIME_OPTIONS(models_values, runtime.),
        {0},
};

const pal_cli_command pal_cmd_models = {
        .name = "models",
        .summary = "list the models that can answer",
        .usage = "",
        .about = "Lists the models of all configured services, or of those that are found, with "
                 "their limits in tokens and their prices per million tokens of input and output. "
                 "Services that do not answer within a few seconds are left out. Prices come from "
                 "the configuration; a model without one has an unknown price.",
        .examples = "palaver models\n"
                    "palaver models --provider ollama --json",
        .options = options,
        .values_size = sizeof(models_values),
        .run = run_models,
};
