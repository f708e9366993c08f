/* cmd_tokens.c - `palaver tokens`: counts the tokens of a text. The text is read in pieces and ids
 * are written as they come, so that memory does not grow with the text.
 *
 * Only the number is printed on stdout, for scripts. If it is an estimate, stderr says why. */
#include "cli/cli.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/json/json_put.h"

#define ENCODING_DEFAULT "o200k_base"

typedef struct tokens_values {
    const char *encoding;
    const char *model;
    bool ids;
} tokens_values;

typedef struct tokenizer {
    pal_cli *cli;
    const tokens_values *given;
    const pal_encoding *encoding; /* NULL: estimate */
    pal_encoding *opened;         /* opened from the user's table; must be closed */
    bool is_exact;
    char why[PAL_ERROR_MESSAGE_MAX]; /* why the count is not exact */
    uint64_t ids;                    /* ids written so far */
    pal_status status;               /* result of writing the ids */
} tokenizer;

/* ---- The encoding ---- */

static pal_status unknown_encoding(pal_cli *cli, const char *name)
{
    const char *words[64] = {NULL};
    char hint[PAL_ERROR_MESSAGE_MAX] =
            "run 'palaver tokens list' to see the encodings; ./NAME is a file";
    for (size_t i = 0; i + 1 < sizeof words / sizeof *words && pal_encoding_at(i); i++)
        words[i] = pal_arena_copy(cli->arena, pal_encoding_name(pal_encoding_at(i))).data;
    const char *nearest = pal_cli_nearest(name, words);
    if (nearest)
        snprintf(hint, sizeof hint, "did you mean %s?", nearest);
    return pal_cli_usage(cli, hint, "unknown encoding '%.60s'", name);
}

/* `name` is the name of an encoding, or the path of a table that `tokens compile` created. */
static pal_status choose_named(tokenizer *t, const char *name)
{
    t->encoding = pal_encoding_find(pal_str_of(name));
    t->is_exact = t->encoding != NULL;
    if (t->encoding)
        return PAL_OK;
    if (strcmp(name, "estimate") == 0) {
        snprintf(t->why, sizeof t->why, "an estimate was requested");
        return PAL_OK;
    }
    if (!strchr(name, '/') && access(name, F_OK) != 0)
        return unknown_encoding(t->cli, name);
    pal_status status = pal_encoding_open(name, &t->opened, &t->cli->err);
    t->encoding = t->opened;
    t->is_exact = status == PAL_OK;
    return status;
}

static pal_status choose_by_model(tokenizer *t, const char *name)
{
    pal_cli *cli = t->cli;
    const pal_config_values *config = pal_config_get(cli->config);
    pal_models *models = NULL;
    pal_status status = pal_models_new(config->model_rules, config->models_len, &models, &cli->err);
    if (status != PAL_OK)
        return status;
    pal_model model = pal_models_find(models, pal_str_of(name));
    t->encoding = model.encoding;
    t->is_exact = model.is_exact;
    if (!model.is_known)
        snprintf(t->why, sizeof t->why, "model '%.100s' is not known", name);
    else if (!model.encoding)
        snprintf(t->why, sizeof t->why, "this build has no vocabulary for '%.100s'", name);
    else if (!model.is_exact)
        snprintf(t->why, sizeof t->why,
                "counted with %.*s, the closest encoding to '%.100s' in this build",
                PAL_STR_ARG(pal_encoding_name(model.encoding)), name);
    pal_models_free(models);
    return PAL_OK;
}

static pal_status choose(tokenizer *t)
{
    const tokens_values *given = t->given;
    if (given->encoding && given->model)
        return pal_cli_usage(t->cli, NULL, "--encoding and --model cannot be combined");
    if (given->encoding)
        return choose_named(t, given->encoding);
    if (given->model)
        return choose_by_model(t, given->model);
    t->encoding = pal_encoding_find(pal_str_of(ENCODING_DEFAULT));
    t->is_exact = t->encoding != NULL;
    if (!t->encoding)
        snprintf(t->why, sizeof t->why, "this build has no vocabularies");
    return PAL_OK;
}

/* ---- Counting ---- */

static bool put_ids(const uint32_t *ids, size_t len, void *user)
{
    tokenizer *t = user;
    pal_buf *out = &t->cli->out;
    for (size_t i = 0; i < len; i++) {
        if (t->cli->json && t->ids > 0)
            pal_buf_append_char(out, ',');
        pal_buf_append_u64(out, ids[i]);
        if (!t->cli->json)
            pal_buf_append_char(out, '\n');
        t->ids++;
    }
    t->status = pal_cli_flush_some(t->cli);
    return t->status == PAL_OK;
}

static uint64_t size_of(const pal_cli_input *input)
{
    struct stat info;
    return fstat(input->fd, &info) == 0 && S_ISREG(info.st_mode) ? (uint64_t)info.st_size : 0;
}

static pal_status feed(tokenizer *t, pal_cli_input *input, pal_token_stream *stream)
{
    pal_cli *cli = t->cli;
    pal_cli_progress progress;
    uint64_t size = size_of(input);
    pal_str piece;
    pal_status status;
    pal_cli_progress_start(&progress, "counting, MiB");
    do {
        status = pal_cli_input_piece(cli, input, &piece);
        if (status == PAL_OK)
            status = pal_token_stream_feed(stream, piece, &cli->err);
        pal_cli_progress_set(&progress, input->bytes >> 20, size >> 20);
    } while (status == PAL_OK && !input->is_end);
    pal_cli_progress_end(&progress);
    return status;
}

static pal_status count(tokenizer *t, pal_cli_input *input, uint64_t *out_tokens)
{
    pal_cli *cli = t->cli;
    pal_token_stream *stream = NULL;
    pal_status status = pal_token_stream_new(
            t->encoding, t->given->ids ? put_ids : NULL, t, &stream, &cli->err);
    if (status == PAL_OK)
        status = feed(t, input, stream);
    if (status == PAL_OK)
        status = pal_token_stream_end(stream, out_tokens, &cli->err);
    pal_token_stream_free(stream);
    /* The status of the sink has the cause; the stream reports only that it was stopped. */
    return t->status != PAL_OK ? t->status : status;
}

/* ---- Output ---- */

static void put_text_or_null(pal_json_writer *writer, const char *name, pal_str text)
{
    pal_json_name(writer, name);
    if (text.len)
        pal_json_put_str(writer, text);
    else
        pal_json_put_null(writer);
}

/* Printed after the ids, if the ids are printed. */
static void print_json(tokenizer *t, uint64_t tokens, uint64_t bytes)
{
    pal_buf *out = &t->cli->out;
    pal_buf rest;
    pal_buf_init(&rest, PAL_CLI_OUT_MAX);
    pal_json_writer writer = pal_json_writer_make(&rest);
    pal_json_begin_object(&writer);
    pal_put_count(&writer, "tokens", tokens);
    put_text_or_null(
            &writer, "encoding", t->encoding ? pal_encoding_name(t->encoding) : (pal_str){0});
    put_text_or_null(&writer, "model", pal_str_of(t->given->model));
    pal_put_flag(&writer, "exact", t->is_exact);
    pal_put_count(&writer, "bytes", bytes);
    pal_json_end_object(&writer);
    if (t->given->ids) {
        pal_buf_append_text(out, "],");
        pal_buf_append(out, rest.data + 1, rest.len - 1);
    } else {
        pal_buf_append_str(out, pal_buf_str(&rest));
    }
    pal_buf_append_char(out, '\n');
    if (rest.failure)
        out->failure = rest.failure;
    pal_buf_done(&rest);
}

static pal_status print(tokenizer *t, uint64_t tokens, uint64_t bytes)
{
    pal_buf *out = &t->cli->out;
    if (t->cli->json) {
        print_json(t, tokens, bytes);
        return PAL_OK;
    }
    if (!t->given->ids) {
        pal_buf_append_u64(out, tokens);
        pal_buf_append_char(out, '\n');
    }
    pal_status status = pal_cli_flush(t->cli);
    if (status == PAL_OK && !t->is_exact)
        fprintf(stderr, "estimate: %s\n", t->why);
    return status;
}

static pal_status tokens(pal_cli *cli, void *values)
{
    tokenizer t = {.cli = cli, .given = values};
    pal_cli_input input = {.fd = -1};
    uint64_t counted = 0;
    pal_status status = choose(&t);
    if (status != PAL_OK)
        goto out;
    if (t.given->ids && !t.encoding) {
        status = pal_cli_usage(cli, NULL, "--ids is not possible for an estimate: %.120s", t.why);
        goto out;
    }
    status = pal_cli_input_open(cli, cli->args_len ? cli->args[0] : "-", &input);
    if (status != PAL_OK)
        goto out;
    if (cli->json && t.given->ids)
        pal_buf_append_text(&cli->out, "{\"ids\":[");
    status = count(&t, &input, &counted);
    if (status == PAL_OK)
        status = print(&t, counted, input.bytes);
out:
    pal_cli_input_close(&input);
    pal_encoding_close(t.opened);
    return status;
}

static const pal_cli_option options[] = {
        {"encoding", 0, PAL_CLI_TEXT, offsetof(tokens_values, encoding), "E",
                "a name ('palaver tokens list'), a table, or 'estimate'"},
        {"model", 0, PAL_CLI_TEXT, offsetof(tokens_values, model), "M",
                "use the encoding of this model, by the provider's name"},
        {"ids", 0, PAL_CLI_FLAG, offsetof(tokens_values, ids), NULL,
                "print the ids of the tokens, one per line"},
        {0},
};

const pal_cli_command pal_cmd_tokens = {
        .name = "tokens",
        .summary = "count the tokens of a text",
        .usage = "[FILE]",
        .about = "Prints how many tokens the file, or stdin, has. The encoding is o200k_base, "
                 "unless an encoding or a model is named. Only the number goes to stdout. If the "
                 "number is an estimate, because the model's vocabulary is not public or not in "
                 "this build, a line on stderr says so, and with --json \"exact\" is false. Files "
                 "of any size are read with little memory. 'palaver tokens list' shows the known "
                 "encodings and models, and 'palaver tokens compile' adds a vocabulary of your "
                 "own. Write './list' and './compile' for files with these names.",
        .examples = "palaver tokens --model gpt-4.1 prompt.txt\n"
                    "palaver session export @last | palaver tokens --json",
        .options = options,
        .values_size = sizeof(tokens_values),
        .args_max = 1,
        .run = tokens,
};
