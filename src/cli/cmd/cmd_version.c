/* cmd_version.c - `palaver version` and `palaver help`. */
#include "cli/cli.h"

#include <string.h>

static pal_status version(pal_cli *cli, void *values)
{
    if (cli->json)
        pal_buf_append_text(&cli->out, "{\"version\":\"" PAL_VERSION "\"}\n");
    else
        pal_buf_append_text(&cli->out, "palaver " PAL_VERSION "\n");
    return PAL_OK;
}

/* `palaver help session new` prints the same as `palaver session new --help`. */
static pal_status help(pal_cli *cli, void *values)
{
    char name[128] = "";
    size_t name_len;
    for (size_t i = 0; i < cli->args_len; i++) {
        name_len = strlen(name);
        snprintf(name + name_len, sizeof name - name_len, "%s%s", i ? " " : "", cli->args[i]);
    }
    name_len = strlen(name);
    if (!name_len) {
        pal_cli_help_main(cli);
        return PAL_OK;
    }
    for (size_t i = 0; pal_cli_commands[i]; i++) {
        const char *command = pal_cli_commands[i]->name;
        if (strcmp(command, name) == 0) {
            pal_cli_help_command(cli, pal_cli_commands[i]);
            return PAL_OK;
        }
        if (strncmp(command, name, name_len) == 0 && command[name_len] == ' ') {
            pal_cli_help_group(cli, name);
            return PAL_OK;
        }
    }
    return pal_cli_usage(
            cli, "run 'palaver --help' to see the commands", "unknown command '%.100s'", name);
}

const pal_cli_command pal_cmd_version = {
        .name = "version",
        .summary = "print the version",
        .usage = "",
        .about = "Prints the version of this command and of the library in it.",
        .examples = "palaver version\n"
                    "palaver --version",
        .no_config = true,
        .run = version,
};

const pal_cli_command pal_cmd_help = {
        .name = "help",
        .summary = "explain a command",
        .usage = "[COMMAND]...",
        .about = "Explains Palaver, or the named command.",
        .examples = "palaver help\n"
                    "palaver help session append",
        .args_max = 3,
        .no_config = true,
        .run = help,
};
