/* cmd_tokens_compile.c - `palaver tokens compile`: compiles the user's vocabulary to a table for
 * --encoding and pal_encoding_open(). */
#include "cli/cli.h"

#include <string.h>
#include <unistd.h>
#include "base/json/json_put.h"

typedef struct compile_values {
    const char *name;
    const char *pattern;
    const char *special;
} compile_values;

static pal_status write_table(pal_cli *cli, const char *path, pal_str table)
{
    pal_cli_target file;
    pal_status status = pal_cli_target_open(cli, path, &file);
    if (status != PAL_OK)
        return status;
    cli->out_fd = file.fd;
    pal_buf_append_str(&cli->out, table);
    status = pal_cli_flush(cli);
    cli->out_fd = STDOUT_FILENO;
    return pal_cli_target_finish(cli, &file, status);
}

static void print(pal_cli *cli, const compile_values *v, size_t table_len)
{
    pal_json_writer writer = pal_json_writer_make(&cli->out);
    char size[PAL_CLI_SIZE_SIZE];
    if (cli->json) {
        pal_json_begin_object(&writer);
        pal_put_text(&writer, "encoding", v->name);
        pal_put_count(&writer, "bytes", table_len);
        pal_json_end_object(&writer);
        pal_buf_append_char(&cli->out, '\n');
        return;
    }
    pal_cli_size(table_len, size);
    pal_buf_format(&cli->out, "Compiled the table of '%s', %s.\n", v->name, size);
}

static pal_status compile(pal_cli *cli, void *values)
{
    const compile_values *v = values;
    pal_cli_input tokens = {.fd = -1}, special = {.fd = -1};
    pal_vocabulary vocabulary = {.name = pal_str_of(v->name), .pattern = pal_str_of(v->pattern)};
    pal_str table = {0};
    if (!v->name || !v->pattern)
        return pal_cli_usage(cli, NULL, "'tokens compile' requires --name and --pattern");
    pal_status status = pal_cli_input_open(cli, cli->args[0], &tokens);
    if (status != PAL_OK)
        return status;
    status = pal_cli_input_all(cli, &tokens, &vocabulary.tokens);
    if (status != PAL_OK)
        goto out;
    if (v->special) {
        status = pal_cli_input_open(cli, v->special, &special);
        if (status != PAL_OK)
            goto out;
        status = pal_cli_input_all(cli, &special, &vocabulary.special);
        if (status != PAL_OK)
            goto out;
    }
    status = pal_encoding_compile(&vocabulary, cli->arena, &table, &cli->err);
    if (status != PAL_OK)
        goto out;
    status = write_table(cli, cli->args[1], table);
    if (status == PAL_OK)
        print(cli, v, table.len);
out:
    pal_cli_input_close(&special);
    pal_cli_input_close(&tokens);
    return status;
}

static const pal_cli_option options[] = {
        {"name", 0, PAL_CLI_TEXT, offsetof(compile_values, name), "N", "name of the encoding"},
        {"pattern", 0, PAL_CLI_TEXT, offsetof(compile_values, pattern), "P",
                "rule that splits texts: o200k, cl100k, llama3, qwen2, ..."},
        {"special", 0, PAL_CLI_TEXT, offsetof(compile_values, special), "FILE",
                "names of special tokens and their ids, one per line"},
        {0},
};

const pal_cli_command pal_cmd_tokens_compile = {
        .name = "tokens compile",
        .summary = "compile a table from your own vocabulary",
        .usage = "VOCABULARY OUT",
        .about = "Compiles a table from a vocabulary file in tiktoken's format, which has one "
                 "line per token: the token in base64, and its rank. 'palaver tokens --encoding "
                 "OUT' counts with it. The file appears complete or not at all.",
        .examples = "palaver tokens compile --name mine --pattern llama3 vocabulary mine.table\n"
                    "palaver tokens --encoding mine.table prompt.txt",
        .options = options,
        .values_size = sizeof(compile_values),
        .args_min = 2,
        .args_max = 2,
        .no_config = true,
        .run = compile,
};
