/* cmd_tokens_list.c - `palaver tokens list`: lists the encodings of this build and the known
 * models: first those of the configuration, then the built-in ones. */
#include "cli/cli.h"

#include "base/json/json_put.h"

static void put_limit(pal_cli *cli, pal_cli_table *table, uint64_t limit)
{
    if (limit)
        pal_cli_table_cell_u64(cli, table, limit);
    else
        pal_cli_table_cell(cli, table, (pal_str){0});
}

static void put_rule(pal_cli *cli, pal_cli_table *table, const pal_model_rule *rule)
{
    pal_cli_table_cell(cli, table, rule->pattern);
    pal_cli_table_cell(cli, table, rule->encoding.len ? rule->encoding : pal_str_of("-"));
    pal_cli_table_cell(cli, table, pal_str_of(rule->is_exact ? "yes" : "no"));
    put_limit(cli, table, rule->context);
    put_limit(cli, table, rule->output);
}

static void print_text(pal_cli *cli, const pal_config_values *config)
{
    pal_cli_table encodings = {
            .columns = 2, .heads = {"ENCODING", "SIZE"}, .right = {false, true}, .shrink = -1};
    pal_cli_table models = {
            .columns = 5,
            .heads = {"MODEL", "ENCODING", "EXACT", "CONTEXT", "OUTPUT"},
            .right = {false, false, false, true, true},
            .shrink = -1,
    };
    pal_model_rule rule;
    for (size_t i = 0; pal_encoding_at(i); i++) {
        pal_cli_table_cell(cli, &encodings, pal_encoding_name(pal_encoding_at(i)));
        pal_cli_table_cell_u64(cli, &encodings, pal_encoding_size(pal_encoding_at(i)));
    }
    for (size_t i = 0; i < config->models_len; i++)
        put_rule(cli, &models, &config->model_rules[i]);
    for (size_t i = 0; pal_models_builtin(i, &rule); i++)
        put_rule(cli, &models, &rule);
    if (encodings.cells_len)
        pal_cli_table_print(cli, &encodings);
    else
        pal_buf_append_text(
                &cli->out, "This build has no vocabularies: every count is an estimate.\n");
    pal_buf_append_char(&cli->out, '\n');
    pal_cli_table_print(cli, &models);
    pal_buf_append_text(&cli->out,
            "\nModels of the configuration are tried first, then the longest name.\n"
            "* matches any ending.\n");
}

static void put_limit_json(pal_json_writer *writer, const char *name, uint64_t limit)
{
    pal_json_name(writer, name);
    if (limit)
        pal_json_put_u64(writer, limit);
    else
        pal_json_put_null(writer);
}

static void put_rule_json(pal_json_writer *writer, const pal_model_rule *rule)
{
    pal_json_begin_object(writer);
    pal_put_str(writer, "name", rule->pattern);
    pal_json_name(writer, "encoding");
    if (rule->encoding.len)
        pal_json_put_str(writer, rule->encoding);
    else
        pal_json_put_null(writer);
    pal_put_flag(writer, "exact", rule->is_exact);
    put_limit_json(writer, "context", rule->context);
    put_limit_json(writer, "output", rule->output);
    pal_json_end_object(writer);
}

static void print_json(pal_cli *cli, const pal_config_values *config)
{
    pal_json_writer writer = pal_json_writer_make(&cli->out);
    pal_model_rule rule;
    pal_json_begin_object(&writer);
    pal_json_name(&writer, "encodings");
    pal_json_begin_array(&writer);
    for (size_t i = 0; pal_encoding_at(i); i++) {
        pal_json_begin_object(&writer);
        pal_put_str(&writer, "name", pal_encoding_name(pal_encoding_at(i)));
        pal_put_count(&writer, "size", pal_encoding_size(pal_encoding_at(i)));
        pal_json_end_object(&writer);
    }
    pal_json_end_array(&writer);
    pal_json_name(&writer, "models");
    pal_json_begin_array(&writer);
    for (size_t i = 0; i < config->models_len; i++)
        put_rule_json(&writer, &config->model_rules[i]);
    for (size_t i = 0; pal_models_builtin(i, &rule); i++)
        put_rule_json(&writer, &rule);
    pal_json_end_array(&writer);
    pal_json_end_object(&writer);
    pal_buf_append_char(&cli->out, '\n');
}

static pal_status list(pal_cli *cli, void *values)
{
    const pal_config_values *config = pal_config_get(cli->config);
    if (cli->json)
        print_json(cli, config);
    else
        print_text(cli, config);
    return pal_arena_failure(cli->arena) == PAL_OK ? PAL_OK : pal_cli_no_memory(cli);
}

const pal_cli_command pal_cmd_tokens_list = {
        .name = "tokens list",
        .summary = "list encodings and models",
        .usage = "",
        .about = "Lists the encodings of this build with the number of their tokens, and the "
                 "known models. For each model it shows the encoding that counts its tokens ('-': "
                 "estimated), whether that encoding is exact, and the model's limits in tokens. "
                 "Models of the configuration come first.",
        .examples = "palaver tokens list\n"
                    "palaver tokens list --json",
        .run = list,
};
