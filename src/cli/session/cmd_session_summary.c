/* cmd_session_summary.c - `palaver session summary`: shows the summary that is sent to the
 * model, or sets it without a model call and without replacing messages. */
#include "cli/cli.h"

#include <string.h>
#include "base/json/json_put.h"

typedef struct summary_values {
    const char *set;
    bool clear;
} summary_values;

static pal_status print_summary(pal_cli *cli, pal_id session)
{
    pal_str summary;
    pal_status status = pal_window_summary(
            cli->store, pal_cli_tenant(cli), session, cli->arena, &summary, &cli->err);
    if (status != PAL_OK)
        return status;
    if (!cli->json) {
        pal_cli_clean(&cli->out, summary, true);
        if (summary.len)
            pal_buf_append_char(&cli->out, '\n');
        return PAL_OK;
    }
    pal_json_writer writer = pal_json_writer_make(&cli->out);
    pal_json_begin_object(&writer);
    pal_put_str(&writer, "session_id", pal_cli_id(cli, session));
    pal_put_str(&writer, "summary", summary);
    pal_json_end_object(&writer);
    pal_buf_append_char(&cli->out, '\n');
    return PAL_OK;
}

static pal_status read_text(pal_cli *cli, const char *given, pal_str *out_text)
{
    pal_cli_input input;
    pal_str text;
    *out_text = pal_str_of(given);
    if (strcmp(given, "-") != 0)
        return PAL_OK;
    pal_status status = pal_cli_input_open(cli, "-", &input);
    if (status != PAL_OK)
        return status;
    status = pal_cli_input_all(cli, &input, &text);
    if (status == PAL_OK && text.len && text.data[text.len - 1] == '\n')
        text.len--;
    if (status == PAL_OK)
        *out_text = pal_arena_copy(cli->arena, text);
    pal_cli_input_close(&input);
    return status;
}

static pal_status session_summary(pal_cli *cli, void *values)
{
    const summary_values *given = values;
    pal_session session;
    pal_mark mark;
    pal_str text = {0};
    if (given->clear && given->set)
        return pal_cli_usage(cli, NULL, "--set and --clear cannot be combined");
    pal_status status = pal_cli_find(cli, cli->args[0], PAL_CLI_AMONG_LIVE, &session);
    if (status != PAL_OK)
        return status;
    if (given->set)
        status = read_text(cli, given->set, &text);
    if (status != PAL_OK)
        return status;
    if (given->set && text.len == 0)
        return pal_error_set(&cli->err, PAL_INVALID,
                "the summary is empty; use --clear to remove the summary");
    if (given->set || given->clear)
        status = pal_window_summary_set(
                cli->store, pal_cli_tenant(cli), session.id, text, &mark, &cli->err);
    return status == PAL_OK ? print_summary(cli, session.id) : status;
}

static pal_cli_access access_for(const void *values)
{
    const summary_values *given = values;
    return given->set || given->clear ? PAL_CLI_WRITE : PAL_CLI_READ;
}

static const pal_cli_option options[] = {
        {"set", 0, PAL_CLI_TEXT, offsetof(summary_values, set), "TEXT",
                "the new summary; '-' reads it from stdin"},
        {"clear", 0, PAL_CLI_FLAG, offsetof(summary_values, clear), NULL, "remove the summary"},
        {0},
};

const pal_cli_command pal_cmd_session_summary = {
        .name = "session summary",
        .summary = "show or set the summary that the model receives",
        .usage = "SESSION",
        .about = "Prints the summary that replaces older messages for the model. --set sets it: "
                 "no model is called and no message is left out. 'session undo' reverses this. To "
                 "also replace older messages, use 'session compact --summary'.",
        .examples = "palaver session summary demo\n"
                    "palaver session summary demo --set \"We chose blue.\"",
        .options = options,
        .values_size = sizeof(summary_values),
        .args_min = 1,
        .args_max = 1,
        .access_for = access_for,
        .run = session_summary,
};
