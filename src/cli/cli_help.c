/* cli_help.c - the help texts: prints what `palaver`, --help and `palaver help` show. They are
 * made from the same tables that the command line is parsed with. */
#include "cli/cli.h"

#include <string.h>

#define HELP_WIDTH 80

const pal_cli_group pal_cli_groups[] = {
        {"session", NULL,
                "Manages conversations. SESSION is an id or its unique beginning, a key, an\n"
                "alias, or @last for the session that was updated last.\n"},
        {"memory", "list, add and change notes of the long-term memory",
                "Manages notes: sentences that somebody said, with their sources.\n"
                "docs/memory.md explains what is kept and who may be shown it.\n"},
        {"config", "show, check or create the configuration",
                "Manages the configuration. The first of these that is set or exists is read:\n"
                "--config FILE, PALAVER_CONFIG, ./palaver.yaml, and palaver/palaver.yaml in\n"
                "$XDG_CONFIG_HOME or ~/.config.\n"},
        {"store", "create, upgrade, check or copy a whole store",
                "Manages whole stores. 'palaver fsck' checks the contents of a store.\n"},
        {"node", "list the servers that share a store",
                "Shows the servers that share a store. docs/nodes.md explains what they do for\n"
                "each other.\n"},
        {"channel", "show accounts on channels, and what was given up",
                "Shows the accounts through which people talk to agents in chats.\n"
                "docs/channels.md explains what they do.\n"},
        {"key", "create, list or revoke API keys",
                "Manages the API keys that clients send to 'palaver serve'. A server\n"
                "without keys answers only requests from this machine.\n"},
        {"completion", "complete command lines in bash, zsh and fish",
                "Prints scripts with which shells complete the command lines of palaver.\n"},
        {0},
};

static void put(pal_cli *cli, const char *text)
{
    pal_buf_append_text(&cli->out, text);
}

static void put_padded(pal_cli *cli, const char *text, size_t width)
{
    put(cli, text);
    for (size_t len = strlen(text); len < width; len++)
        put(cli, " ");
}

static void put_head(pal_cli *cli, const char *text)
{
    pal_cli_style(cli, 1);
    put(cli, text);
    pal_cli_style(cli, 0);
    put(cli, "\n");
}

static void put_line(pal_cli *cli, const char *name, const char *summary)
{
    put(cli, "  ");
    put_padded(cli, name, 12);
    put(cli, summary);
    put(cli, "\n");
}

/* Lists the commands of a group, one per line. An empty group lists the commands without a
 * group. */
static void put_commands(pal_cli *cli, const char *group)
{
    size_t group_len = strlen(group);
    for (size_t i = 0; pal_cli_commands[i]; i++) {
        const pal_cli_command *command = pal_cli_commands[i];
        const char *space = strchr(command->name, ' ');
        size_t len = space ? (size_t)(space - command->name) : 0;
        if (len != group_len || strncmp(command->name, group, group_len) != 0)
            continue;
        put_line(cli, space ? space + 1 : command->name, command->summary);
    }
}

void pal_cli_help_main(pal_cli *cli)
{
    put(cli,
            "Palaver is a conversation engine for programs that talk to language models. It\n"
            "stores every message durably, and can fork, rewind, export and erase sessions.\n\n");
    put_head(cli, "Try it:");
    put(cli,
            "  palaver session new --key demo --title \"First steps\"\n"
            "  palaver session append demo \"Hello, is anybody there?\"\n"
            "  palaver session show demo\n\n");
    put_head(cli, "Conversations (palaver session ...):");
    put_commands(cli, "session");
    put(cli, "\n");
    put_head(cli, "Other commands:");
    put_commands(cli, "");
    for (const pal_cli_group *group = pal_cli_groups; group->name; group++) {
        if (group->summary)
            put_line(cli, group->name, group->summary);
    }
    put(cli, "\n");
    put(cli,
            "Data is stored in ./palaver-data if it exists, or in ~/.local/share/palaver.\n"
            "'palaver COMMAND --help' explains a command and shows examples.\n");
}

void pal_cli_help_group(pal_cli *cli, const char *group)
{
    pal_buf_format(&cli->out, "Usage: palaver %s COMMAND [OPTION]...\n\n", group);
    for (const pal_cli_group *g = pal_cli_groups; g->name; g++) {
        if (strcmp(g->name, group) == 0)
            put(cli, g->about);
    }
    put(cli, "\n");
    put_head(cli, "Commands:");
    put_commands(cli, group);
    pal_buf_format(&cli->out, "\n'palaver %s COMMAND --help' explains a command.\n", group);
}

static void put_options(pal_cli *cli, const pal_cli_option *options)
{
    for (const pal_cli_option *o = options; o && o->name; o++) {
        char left[64];
        char letter[5] = "";
        if (o->letter)
            snprintf(letter, sizeof letter, "-%c, ", o->letter);
        snprintf(left, sizeof left, "%s--%s%s%s", letter, o->name, o->value_name ? " " : "",
                o->value_name ? o->value_name : "");
        put(cli, "  ");
        put_padded(cli, left, 20);
        put(cli, strlen(left) < 20 ? " " : "\n                       ");
        put(cli, o->help);
        put(cli, "\n");
    }
}

static void put_examples(pal_cli *cli, const char *examples)
{
    put_head(cli, "Examples:");
    while (*examples) {
        size_t len = strcspn(examples, "\n");
        put(cli, "  ");
        pal_buf_append(&cli->out, examples, len);
        put(cli, "\n");
        examples += len + (examples[len] == '\n');
    }
}

void pal_cli_help_command(pal_cli *cli, const pal_cli_command *command)
{
    pal_buf_format(&cli->out, "Usage: palaver %s%s%s%s\n\n", command->name,
            *command->usage ? " " : "", command->usage, command->options ? " [OPTION]..." : "");
    pal_cli_wrap(&cli->out, pal_str_of(command->about), 0, HELP_WIDTH);
    put(cli, "\n");
    if (command->options) {
        put_head(cli, "Options:");
        put_options(cli, command->options);
        put(cli, "\n");
    }
    put_head(cli, "Options for every command:");
    put_options(cli, pal_cli_globals);
    put(cli, "\n");
    put_examples(cli, command->examples);
}
