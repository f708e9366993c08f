/* cli_options.c - parses the command line by tables: the global options, the words of the
 * command's name, then the options of the command. Options and arguments can come in any order.
 * After "--" everything is an argument, and also after the name of a program to run. */
#include "cli/cli.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "base/nearest.h"

#define NEAREST_LEN_MAX 48
#define WORDS_MAX 64

const pal_cli_option pal_cli_globals[] = {
        {"store", 0, PAL_CLI_TEXT, offsetof(pal_cli, store_url), "URL",
                "sqlite:PATH, postgres://..., jsonl:DIR or memory:"},
        {"config", 0, PAL_CLI_TEXT, offsetof(pal_cli, config_file), "FILE",
                "configuration file to use instead of palaver.yaml"},
        {"tenant", 0, PAL_CLI_TEXT, offsetof(pal_cli, tenant), "NAME",
                "owner of the sessions; tenants are separate (default)"},
        {"json", 0, PAL_CLI_FLAG, offsetof(pal_cli, json), NULL, "print JSON, for programs"},
        {"help", 'h', PAL_CLI_FLAG, offsetof(pal_cli, help), NULL, "explain the command"},
        {"version", 0, PAL_CLI_FLAG, offsetof(pal_cli, version), NULL, "print the version"},
        {0},
};

typedef struct parser {
    pal_cli *cli;
    char **argv;
    int argc;
    int at;
    void *values;
    bool only_args;   /* "--" was seen */
    bool has_options; /* the command has options */
} parser;

pal_status pal_cli_usage(pal_cli *cli, const char *hint, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(cli->err.message, sizeof cli->err.message, format, args);
    va_end(args);
    cli->err.status = PAL_INVALID;
    cli->is_usage = true;
    if (hint)
        snprintf(cli->hint, sizeof cli->hint, "%s", hint);
    return PAL_INVALID;
}

const char *pal_cli_nearest(const char *text, const char *const *words)
{
    const char *best = NULL;
    pal_nearest nearest = pal_nearest_make(pal_str_of(text));
    for (; *words; words++) {
        if (pal_nearest_try(&nearest, pal_str_of(*words)))
            best = *words;
    }
    return best;
}

static pal_status unknown_option(parser *p, const char *text, size_t name_len)
{
    const char *words[WORDS_MAX + 1];
    size_t len = 0;
    char name[NEAREST_LEN_MAX + 1];
    char hint[PAL_ERROR_MESSAGE_MAX];
    const pal_cli_command *command = p->cli->command;
    for (const pal_cli_option *o = pal_cli_globals; o->name; o++)
        words[len++] = o->name;
    for (const pal_cli_option *o = command ? command->options : NULL; o && o->name; o++) {
        if (len < WORDS_MAX)
            words[len++] = o->name;
    }
    words[len] = NULL;
    snprintf(name, sizeof name, "%.*s", (int)name_len, text + (text[1] == '-' ? 2 : 1));
    const char *nearest = pal_cli_nearest(name, words);
    if (nearest)
        snprintf(hint, sizeof hint, "did you mean --%s?", nearest);
    else
        snprintf(hint, sizeof hint, "run 'palaver %s%s--help' to see the options",
                command ? command->name : "", command ? " " : "");
    return pal_cli_usage(p->cli, hint, "unknown option '%.*s'%s%s%s",
            (int)name_len + (text[1] == '-' ? 2 : 1), text, command ? " for '" : "",
            command ? command->name : "", command ? "'" : "");
}

static const pal_cli_option *find_option(
        const pal_cli_option *options, const char *text, size_t name_len)
{
    for (const pal_cli_option *o = options; o && o->name; o++) {
        if (text[1] == '-' && strlen(o->name) == name_len &&
                memcmp(o->name, text + 2, name_len) == 0)
            return o;
        if (text[1] != '-' && name_len == 1 && o->letter == text[1])
            return o;
    }
    return NULL;
}

static pal_status parse_number(
        pal_cli *cli, const pal_cli_option *option, const char *text, pal_cli_number *out_number)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno)
        return pal_cli_usage(
                cli, NULL, "--%s must be a non-negative number, not '%.60s'", option->name, text);
    out_number->value = value;
    out_number->given = true;
    return PAL_OK;
}

static pal_status add_to_list(pal_cli *cli, pal_cli_list *list, const char *text)
{
    const char **items = pal_arena_array(cli->arena, list->len + 1, sizeof *items);
    if (!items)
        return pal_cli_no_memory(cli);
    if (list->len)
        memcpy(items, list->items, list->len * sizeof *items);
    items[list->len] = text;
    list->items = items;
    list->len++;
    return PAL_OK;
}

static pal_status set_value(
        pal_cli *cli, const pal_cli_option *option, const char *text, void *target)
{
    switch (option->kind) {
    case PAL_CLI_FLAG:
        *(bool *)target = true;
        return PAL_OK;
    case PAL_CLI_TEXT:
        *(const char **)target = text;
        return PAL_OK;
    case PAL_CLI_LIST:
        return add_to_list(cli, target, text);
    case PAL_CLI_NUMBER:
        return parse_number(cli, option, text, target);
    }
    return PAL_OK;
}

/* Parses argv[at], which begins with a dash, and the value after it if the option takes one. */
static pal_status parse_option(parser *p)
{
    const char *text = p->argv[p->at++];
    const char *equals = text[1] == '-' ? strchr(text, '=') : NULL;
    size_t name_len = text[1] == '-' ? (equals ? (size_t)(equals - text) : strlen(text)) - 2
                                     : strlen(text) - 1;
    void *base = p->cli;
    const pal_cli_option *option = find_option(pal_cli_globals, text, name_len);
    if (!option && p->cli->command) {
        option = find_option(p->cli->command->options, text, name_len);
        base = p->values;
        p->has_options = true;
    }
    assert(base);
    if (!option)
        return unknown_option(p, text, name_len);

    const char *value = equals ? equals + 1 : NULL;
    if (option->kind == PAL_CLI_FLAG && value)
        return pal_cli_usage(p->cli, NULL, "--%s does not take a value", option->name);
    if (option->kind != PAL_CLI_FLAG && !value) {
        if (p->at >= p->argc)
            return pal_cli_usage(
                    p->cli, NULL, "--%s requires a value: %s", option->name, option->value_name);
        value = p->argv[p->at++];
    }
    if (base == p->cli && strcmp(option->name, "store") == 0)
        p->cli->store_given = true;
    return set_value(p->cli, option, value, (char *)base + option->offset);
}

static bool in_group(const char *command, const char *group)
{
    size_t len = strlen(group);
    return strncmp(command, group, len) == 0 && command[len] == ' ';
}

/* Other programs have a command with this name. */
static bool is_rename(const char *group, const char *word)
{
    return strcmp(word, "rename") == 0 && (!group || strcmp(group, "session") == 0);
}

static pal_status unknown_command(pal_cli *cli, const char *group, const char *word)
{
    const char *words[WORDS_MAX + 1];
    const char *names[WORDS_MAX + 1];
    size_t len = 0;
    char hint[PAL_ERROR_MESSAGE_MAX];
    /* Also suggest a command of a group by its last word: `palaver list` means `session list`. */
    for (size_t i = 0; pal_cli_commands[i] && len + 1 < WORDS_MAX; i++) {
        const char *name = pal_cli_commands[i]->name;
        const char *space = strchr(name, ' ');
        if ((group && !in_group(name, group)) || pal_cli_commands[i]->is_destructive)
            continue;
        words[len] = space ? space + 1 : name;
        names[len++] = name;
    }
    for (const pal_cli_group *g = pal_cli_groups; !group && g->name && len < WORDS_MAX; g++) {
        words[len] = g->name;
        names[len++] = g->name;
    }
    words[len] = NULL;
    const char *nearest = pal_cli_nearest(word, words);
    for (size_t i = 0; nearest && i < len; i++) {
        if (words[i] == nearest)
            snprintf(hint, sizeof hint, "did you mean 'palaver %s'?", names[i]);
    }
    if (is_rename(group, word))
        snprintf(hint, sizeof hint, "use 'palaver session edit SESSION --title TITLE'");
    else if (!nearest)
        snprintf(hint, sizeof hint, "run 'palaver %s%s--help' to see the commands",
                group ? group : "", group ? " " : "");
    return pal_cli_usage(
            cli, hint, "unknown command '%s%s%.60s'", group ? group : "", group ? " " : "", word);
}

static pal_status choose_command(parser *p, const pal_cli_command *command)
{
    p->cli->command = command;
    p->values = pal_arena_alloc(p->cli->arena, command->values_size + 1);
    return p->values ? PAL_OK : pal_cli_no_memory(p->cli);
}

/* Takes `word` as the next word of the command's name. */
static pal_status parse_command_word(parser *p, const char *word)
{
    pal_cli *cli = p->cli;
    const char *group = cli->group;
    for (size_t i = 0; pal_cli_commands[i]; i++) {
        const pal_cli_command *command = pal_cli_commands[i];
        const char *space = strchr(command->name, ' ');
        if (group && !in_group(command->name, group))
            continue;
        const char *name = group ? space + 1 : command->name;
        if (strcmp(name, word) == 0)
            return choose_command(p, command);
        if (!group && space && strlen(word) == (size_t)(space - name) &&
                strncmp(name, word, strlen(word)) == 0) {
            cli->group = word;
            return PAL_OK;
        }
    }
    return unknown_command(cli, group, word);
}

/* Both `tokens` and `tokens list` are commands. The second word can belong to the name only if
 * it follows the first one directly. A file with such a name can be passed as "./list". */
static pal_status parse_arg(parser *p, const char *word)
{
    pal_cli *cli = p->cli;
    bool may_be_name = cli->args_len == 0 && !p->has_options && !p->only_args;
    for (size_t i = 0; may_be_name && pal_cli_commands[i]; i++) {
        const char *name = pal_cli_commands[i]->name;
        if (in_group(name, cli->command->name) && strcmp(strrchr(name, ' ') + 1, word) == 0)
            return choose_command(p, pal_cli_commands[i]);
    }
    cli->args[cli->args_len++] = word;
    p->only_args = p->only_args || cli->command->runs_program;
    return PAL_OK;
}

static pal_status check_args(pal_cli *cli)
{
    const pal_cli_command *command = cli->command;
    char hint[PAL_ERROR_MESSAGE_MAX];
    snprintf(hint, sizeof hint, "usage: palaver %s%s%s", command->name, *command->usage ? " " : "",
            command->usage);
    if (cli->args_len < command->args_min) {
        bool session = strncmp(command->usage, "SESSION", 7) == 0 && cli->args_len == 0;
        return pal_cli_usage(cli, hint, "'%s' requires %s", command->name,
                session ? "a session: an id, a key, an alias or @last" : "more arguments");
    }
    if (cli->args_len > command->args_max)
        return pal_cli_usage(cli, hint, "'%s': unexpected argument '%.60s'", command->name,
                cli->args[command->args_max]);
    return PAL_OK;
}

pal_status pal_cli_parse(pal_cli *cli, int argc, char **argv, void **out_values)
{
    parser p = {.cli = cli, .argv = argv, .argc = argc, .at = 1};
    pal_status status = PAL_OK;
    cli->args = pal_arena_array(cli->arena, (size_t)argc + 1, sizeof *cli->args);
    if (!cli->args)
        return pal_cli_no_memory(cli);
    while (status == PAL_OK && p.at < argc) {
        const char *text = argv[p.at];
        if (!p.only_args && strcmp(text, "--") == 0) {
            p.only_args = true;
            p.at++;
        } else if (!p.only_args && text[0] == '-' && text[1]) {
            status = parse_option(&p);
        } else {
            p.at++;
            status = cli->command ? parse_arg(&p, text) : parse_command_word(&p, text);
        }
    }
    if (status == PAL_OK && cli->command && !cli->help && !cli->version)
        status = check_args(cli);
    if (status == PAL_OK)
        *out_values = p.values;
    return status;
}
