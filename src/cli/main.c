/* main.c - the `palaver` command: the table of commands, and the run of one command from the
 * command line to its exit code. Only this file prints errors.
 *
 * Exit codes: 0 success, 1 failure, 2 wrong command line. `run` has the exit code of its client. */
#include "cli/cli.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

const pal_cli_command *const pal_cli_commands[] = {
        &pal_cmd_session_new,
        &pal_cmd_session_list,
        &pal_cmd_session_show,
        &pal_cmd_session_search,
        &pal_cmd_session_append,
        &pal_cmd_session_edit,
        &pal_cmd_session_fork,
        &pal_cmd_session_rewind,
        &pal_cmd_session_truncate,
        &pal_cmd_session_undo,
        &pal_cmd_session_reset,
        &pal_cmd_session_compact,
        &pal_cmd_session_summary,
        &pal_cmd_session_pin,
        &pal_cmd_session_unpin,
        &pal_cmd_session_delete,
        &pal_cmd_session_restore,
        &pal_cmd_session_erase,
        &pal_cmd_session_export,
        &pal_cmd_session_import,
        &pal_cmd_chat,
        &pal_cmd_context,
        &pal_cmd_route,
        &pal_cmd_tokens,
        &pal_cmd_tokens_list,
        &pal_cmd_tokens_compile,
        &pal_cmd_config_show,
        &pal_cmd_config_check,
        &pal_cmd_config_example,
        &pal_cmd_serve,
        &pal_cmd_page,
        &pal_cmd_run,
        &pal_cmd_mcp,
        &pal_cmd_mcp_login,
        &pal_cmd_mcp_logout,
        &pal_cmd_memory_list,
        &pal_cmd_memory_show,
        &pal_cmd_memory_add,
        &pal_cmd_memory_retract,
        &pal_cmd_memory_restore,
        &pal_cmd_memory_confirm,
        &pal_cmd_memory_erase,
        &pal_cmd_key_create,
        &pal_cmd_key_list,
        &pal_cmd_key_revoke,
        &pal_cmd_node_list,
        &pal_cmd_channel_list,
        &pal_cmd_channel_why,
        &pal_cmd_channel_dead,
        &pal_cmd_channel_retry,
        &pal_cmd_store_init,
        &pal_cmd_store_migrate,
        &pal_cmd_store_check,
        &pal_cmd_store_copy,
        &pal_cmd_models,
        &pal_cmd_usage,
        &pal_cmd_backup,
        &pal_cmd_restore,
        &pal_cmd_stats,
        &pal_cmd_fsck,
        &pal_cmd_bench,
        &pal_cmd_bench_cache,
        &pal_cmd_completion_bash,
        &pal_cmd_completion_zsh,
        &pal_cmd_completion_fish,
        &pal_cmd_completion_words,
        &pal_cmd_version,
        &pal_cmd_help,
        NULL,
};

static int terminal_width(void)
{
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    long width = columns ? strtol(columns, NULL, 10) : 0;
    if (width <= 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        width = size.ws_col;
    return width >= 20 && width <= 1000 ? (int)width : 80;
}

static pal_status run_command(pal_cli *cli, void *values)
{
    const pal_cli_command *command = cli->command;
    pal_cli_access access = command->access_for ? command->access_for(values) : command->access;
    pal_status status = command->no_config ? PAL_OK : pal_cli_config_load(cli);
    if (status == PAL_OK && access != PAL_CLI_NO_STORE)
        status = pal_cli_store_open(cli, access);
    if (status == PAL_OK)
        status = command->run(cli, values);
    pal_store_close(cli->store);
    pal_config_free(cli->config);
    cli->store = NULL;
    cli->config = NULL;
    return status;
}

static pal_status run(pal_cli *cli, int argc, char **argv)
{
    void *values = NULL;
    cli->arena = pal_arena_new(0);
    if (!cli->arena)
        return pal_cli_no_memory(cli);
    pal_status status = pal_cli_parse(cli, argc, argv, &values);
    if (status != PAL_OK)
        return status;
    if (cli->version)
        return pal_cmd_version.run(cli, NULL);
    if (cli->command && cli->help)
        pal_cli_help_command(cli, cli->command);
    else if (cli->command)
        return run_command(cli, values);
    else if (cli->group)
        pal_cli_help_group(cli, cli->group);
    else
        pal_cli_help_main(cli);
    return PAL_OK;
}

/* Looks for --json in a command line that could not be parsed to its end. */
static bool has_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--json") == 0)
            return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    pal_cli cli = {0};
    int code;
    /* If the reader of stdout exits early, as `head` does, end without a message. */
    signal(SIGPIPE, SIG_DFL);
    /* If a file must not grow any more (ulimit -f), the write fails, as on a full disk. */
    signal(SIGXFSZ, SIG_IGN);
    pal_store_claim_sqlite();
    cli.is_terminal = isatty(STDOUT_FILENO);
    cli.width = cli.is_terminal ? terminal_width() : 80;
    pal_buf_init(&cli.out, PAL_CLI_OUT_MAX);
    cli.out_fd = STDOUT_FILENO;
    pal_status status = run(&cli, argc, argv);
    if (status == PAL_OK)
        status = pal_cli_flush(&cli);
    code = cli.exit_code;
    if (status != PAL_OK) {
        if (cli.json || has_json(argc, argv))
            pal_cli_print_error_json(&cli.err, cli.hint);
        else
            pal_cli_print_error(cli.err.message, cli.hint);
        code = cli.is_usage ? 2 : 1;
    }
    pal_buf_done(&cli.out);
    pal_arena_free(cli.arena);
    return code;
}
