/* cmd_config.c - `palaver config`: shows the effective configuration, checks a file, prints an
 * example. */
#include "cli/cli.h"

#include <string.h>
#include "base/json/json_put.h"

/* ---- show ---- */

static void show_json(pal_cli *cli, const pal_config_entry *entries, size_t len)
{
    pal_json_writer writer = pal_json_writer_make(&cli->out);
    const char *path = pal_config_path(cli->config);
    pal_json_begin_object(&writer);
    pal_json_name(&writer, "file");
    if (path)
        pal_json_put_text(&writer, path);
    else
        pal_json_put_null(&writer);
    pal_json_name(&writer, "values");
    pal_json_begin_array(&writer);
    for (size_t i = 0; i < len; i++) {
        pal_json_begin_object(&writer);
        pal_put_str(&writer, "key", entries[i].key);
        pal_put_raw(&writer, "value", entries[i].value);
        pal_put_text(&writer, "source", pal_config_source_name(entries[i].source));
        if (entries[i].line) {
            pal_put_count(&writer, "line", entries[i].line);
        }
        pal_json_end_object(&writer);
    }
    pal_json_end_array(&writer);
    pal_json_end_object(&writer);
    pal_buf_append_char(&cli->out, '\n');
}

static void show_text(pal_cli *cli, const pal_config_entry *entries, size_t len)
{
    pal_cli_table table = {.columns = 3, .heads = {"KEY", "VALUE", "SOURCE"}, .shrink = 1};
    const char *path = pal_config_path(cli->config);
    for (size_t i = 0; i < len; i++) {
        char source[64];
        char line[24] = "";
        if (entries[i].line)
            snprintf(line, sizeof line, ", line %u", (unsigned)entries[i].line);
        snprintf(source, sizeof source, "%s%s", pal_config_source_name(entries[i].source), line);
        pal_cli_table_cell(cli, &table, entries[i].key);
        pal_cli_table_cell(cli, &table, entries[i].value);
        pal_cli_table_cell(cli, &table, pal_arena_copy(cli->arena, pal_str_of(source)));
    }
    pal_buf_append_text(&cli->out, path ? "file: " : "no configuration file was read");
    pal_cli_clean(&cli->out, pal_str_of(path), false);
    pal_buf_append_text(&cli->out, "\n\n");
    pal_cli_table_print(cli, &table);
}

static pal_status show(pal_cli *cli, void *values)
{
    pal_config_entry *entries;
    size_t len;
    pal_status status = pal_config_list(cli->config, cli->arena, &entries, &len, &cli->err);
    if (status == PAL_OK && cli->json)
        show_json(cli, entries, len);
    else if (status == PAL_OK)
        show_text(cli, entries, len);
    return status;
}

const pal_cli_command pal_cmd_config_show = {
        .name = "config show",
        .summary = "show all values and where each one comes from",
        .usage = "",
        .about = "Prints the effective value of every key and its source: the default, the file "
                 "and its line, the environment, or the command line. The first line shows which "
                 "file was read. Passwords in URLs are not shown.",
        .examples = "palaver config show\n"
                    "palaver config show --config /etc/palaver.yaml --json",
        .run = show,
};

/* ---- check ---- */

static void check_json(pal_cli *cli, const pal_config *config)
{
    pal_str text;
    uint32_t line;
    pal_json_writer writer = pal_json_writer_make(&cli->out);
    pal_json_begin_object(&writer);
    pal_put_flag(&writer, "ok", true);
    if (!pal_config_warning_at(config, 0, &text, &line)) {
        pal_json_end_object(&writer);
        pal_buf_append_char(&cli->out, '\n');
        return;
    }
    pal_json_name(&writer, "warnings");
    pal_json_begin_array(&writer);
    for (size_t i = 0; pal_config_warning_at(config, i, &text, &line); i++) {
        pal_json_begin_object(&writer);
        pal_put_count(&writer, "line", line);
        pal_put_str(&writer, "text", text);
        pal_json_end_object(&writer);
    }
    pal_json_end_array(&writer);
    pal_json_end_object(&writer);
    pal_buf_append_char(&cli->out, '\n');
}

static void check_text(pal_cli *cli, const pal_config *config)
{
    pal_str text;
    uint32_t line;
    for (size_t i = 0; pal_config_warning_at(config, i, &text, &line); i++)
        pal_buf_format(&cli->out, "%s:%u: warning: %.*s\n", cli->args[0], (unsigned)line,
                PAL_STR_ARG(text));
    pal_buf_format(&cli->out, "%s: ok\n", cli->args[0]);
}

static pal_status check(pal_cli *cli, void *values)
{
    pal_config *config = NULL;
    pal_status status = pal_config_load(cli->args[0], &config, &cli->err);
    if (status == PAL_OK && cli->json)
        check_json(cli, config);
    else if (status == PAL_OK)
        check_text(cli, config);
    pal_config_free(config);
    return status;
}

const pal_cli_command pal_cmd_config_check = {
        .name = "config check",
        .summary = "check a configuration file",
        .usage = "FILE",
        .about = "Reads a configuration file as every command does. If the file is wrong, the "
                 "error names the problem and its line. For keys of another system's section it "
                 "prints warnings with their new names. Nothing else is done.",
        .examples = "palaver config check palaver.yaml\n"
                    "palaver config check /etc/palaver.yaml --json",
        .args_min = 1,
        .args_max = 1,
        .no_config = true,
        .run = check,
};

/* ---- example ---- */

static pal_status example(pal_cli *cli, void *values)
{
    pal_str text;
    pal_status status = pal_config_example(cli->arena, &text, &cli->err);
    if (status == PAL_OK)
        pal_buf_append_str(&cli->out, text);
    return status;
}

const pal_cli_command pal_cmd_config_example = {
        .name = "config example",
        .summary = "print a file with every key and its default",
        .usage = "",
        .about = "Prints a configuration file with every key at its default and a comment about "
                 "it. Lists are shown as comments.",
        .examples = "palaver config example\n"
                    "palaver config example > palaver.yaml",
        .no_config = true,
        .run = example,
};
