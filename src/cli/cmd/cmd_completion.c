/* cmd_completion.c - `palaver completion`: prints the scripts with which shells complete command
 * lines, and the candidates that these scripts ask for. The candidates are made from the tables
 * that the command line is parsed with, so that they always fit this command. */
#include "cli/cli.h"

#include <string.h>

#define WORDS_MAX 1000 /* words of a command line */

/* ---- Candidates ---- */

/* The command line before the word that is being completed. */
typedef struct line {
    pal_cli *cli;
    const char *word;               /* the word; may be empty */
    const pal_cli_command *command; /* NULL: the name is not complete */
    const char *group;              /* "session" if only the group was typed */
    const pal_cli_option *wanting;  /* the option whose value the word is; NULL: none */
    bool only_args;                 /* after "--" */
    size_t args_len;                /* arguments after the name of the command */
} line;

static void put(const line *l, const char *word, const char *help)
{
    if (strncmp(word, l->word, strlen(l->word)) == 0)
        pal_buf_format(&l->cli->out, "%s\t%s\n", word, help ? help : "");
}

/* The name of a file can follow. */
static void put_files(const line *l)
{
    pal_buf_append_text(&l->cli->out, ":\t\n");
}

static const pal_cli_option *find_in(const pal_cli_option *options, const char *text)
{
    size_t len = strcspn(text + 2, "=");
    for (const pal_cli_option *o = options; o && o->name; o++) {
        if (text[1] == '-' && strlen(o->name) == len && memcmp(o->name, text + 2, len) == 0)
            return o;
        if (text[1] != '-' && o->letter == text[1] && !text[2])
            return o;
    }
    return NULL;
}

static const pal_cli_option *find_option(const line *l, const char *text)
{
    const pal_cli_option *found = find_in(pal_cli_globals, text);
    return found || !l->command ? found : find_in(l->command->options, text);
}

static bool is_of(const char *name, const char *group)
{
    size_t len = strlen(group);
    return strncmp(name, group, len) == 0 && name[len] == ' ';
}

/* Takes a word of the name. `tokens` and `tokens list` are both commands. */
static void take_name(line *l, const char *word)
{
    const char *group = l->command ? l->command->name : l->group;
    for (size_t i = 0; pal_cli_commands[i]; i++) {
        const char *name = pal_cli_commands[i]->name;
        const char *rest = group ? (is_of(name, group) ? strchr(name, ' ') + 1 : NULL) : name;
        if (!rest)
            continue;
        if (strcmp(rest, word) == 0) {
            l->command = pal_cli_commands[i];
            return;
        }
        if (!group && is_of(name, word))
            l->group = word;
    }
    l->args_len += l->command != NULL;
}

static void take(line *l, const char *word)
{
    if (l->wanting) {
        l->wanting = NULL;
    } else if (!l->only_args && strcmp(word, "--") == 0) {
        l->only_args = true;
    } else if (!l->only_args && word[0] == '-' && word[1]) {
        const pal_cli_option *option = find_option(l, word);
        if (option && option->kind != PAL_CLI_FLAG && !strchr(word, '='))
            l->wanting = option;
    } else if (l->args_len == 0 && !l->only_args) {
        take_name(l, word);
    } else {
        l->args_len++;
    }
}

static void put_options(const line *l, const pal_cli_option *options)
{
    char name[64];
    for (const pal_cli_option *o = options; o && o->name; o++) {
        snprintf(name, sizeof name, "--%s", o->name);
        put(l, name, o->help);
    }
}

static void put_commands(const line *l)
{
    const char *group = l->command ? l->command->name : l->group;
    for (size_t i = 0; pal_cli_commands[i]; i++) {
        const char *name = pal_cli_commands[i]->name;
        if (group && is_of(name, group))
            put(l, strchr(name, ' ') + 1, pal_cli_commands[i]->summary);
        else if (!group && !strchr(name, ' '))
            put(l, name, pal_cli_commands[i]->summary);
    }
    for (const pal_cli_group *g = pal_cli_groups; !group && g->name; g++)
        put(l, g->name, g->summary ? g->summary : "manage conversations");
}

static bool takes_file(const char *name)
{
    return strstr(name, "FILE") || strstr(name, "URL") || strstr(name, "DIR") ||
            strstr(name, "TEXT");
}

static void put_candidates(const line *l)
{
    if (l->wanting) {
        if (takes_file(l->wanting->value_name))
            put_files(l);
        return;
    }
    if (!l->only_args && l->word[0] == '-') {
        if (l->command)
            put_options(l, l->command->options);
        put_options(l, pal_cli_globals);
        return;
    }
    if (l->args_len == 0 && !l->only_args)
        put_commands(l);
    if (!l->command)
        return;
    if (l->args_len == 0 && strncmp(l->command->usage, "SESSION", 7) == 0)
        put(l, "@last", "the session that was updated last");
    if (takes_file(l->command->usage) || l->command->runs_program)
        put_files(l);
}

static pal_status words(pal_cli *cli, void *values)
{
    line l = {.cli = cli, .word = cli->args_len ? cli->args[cli->args_len - 1] : ""};
    (void)values;
    for (size_t i = 0; i + 1 < cli->args_len; i++)
        take(&l, cli->args[i]);
    put_candidates(&l);
    return PAL_OK;
}

/* ---- Scripts ---- */

static pal_status bash(pal_cli *cli, void *values)
{
    (void)values;
    pal_buf_append_text(&cli->out,
            "# Completes palaver in bash: eval \"$(palaver completion bash)\"\n"
            "_palaver()\n"
            "{\n"
            "    local word\n"
            "    COMPREPLY=()\n"
            "    while IFS=$'\\t' read -r word _; do\n"
            "        if [ \"$word\" = : ]; then compopt -o default\n"
            "        else COMPREPLY+=(\"$word\"); fi\n"
            "    done < <(\"${COMP_WORDS[0]}\" completion words -- \\\n"
            "            \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
            "}\n"
            "complete -F _palaver palaver\n");
    return PAL_OK;
}

static pal_status zsh(pal_cli *cli, void *values)
{
    (void)values;
    pal_buf_append_text(&cli->out,
            "#compdef palaver\n"
            "# Completes palaver in zsh: source <(palaver completion zsh)\n"
            "_palaver()\n"
            "{\n"
            "    local -a found\n"
            "    local word text files\n"
            "    while IFS=$'\\t' read -r word text; do\n"
            "        if [[ $word == : ]]; then files=1\n"
            "        else found+=(\"${word//:/\\\\:}:$text\"); fi\n"
            "    done < <(\"${words[1]}\" completion words -- \\\n"
            "            \"${(@)words[2,CURRENT]}\" 2>/dev/null)\n"
            "    if (( $#found )); then _describe -t words palaver found; fi\n"
            "    if [[ -n $files ]]; then _files; fi\n"
            "}\n"
            "if [[ $funcstack[1] == _palaver ]]; then _palaver \"$@\"\n"
            "else compdef _palaver palaver; fi\n");
    return PAL_OK;
}

static pal_status fish(pal_cli *cli, void *values)
{
    (void)values;
    pal_buf_append_text(&cli->out,
            "# Completes palaver in fish: palaver completion fish | source\n"
            "function __palaver_words\n"
            "    set -l line (commandline -opc) (commandline -ct)\n"
            "    $line[1] completion words -- $line[2..-1] 2>/dev/null\n"
            "end\n"
            "function __palaver_found\n"
            "    __palaver_words | string match -v -r '^:'\n"
            "end\n"
            "function __palaver_files\n"
            "    __palaver_words | string match -q -r '^:'\n"
            "end\n"
            "complete -c palaver -f -a '(__palaver_found)'\n"
            "complete -c palaver -n __palaver_files -F\n");
    return PAL_OK;
}

const pal_cli_command pal_cmd_completion_bash = {
        .name = "completion bash",
        .summary = "print the script for bash",
        .usage = "",
        .about = "Prints the script with which bash completes commands, options and files. "
                 "Add the line 'eval \"$(palaver completion bash)\"' to ~/.bashrc.",
        .examples = "palaver completion bash\n"
                    "palaver completion bash > ~/.local/share/bash-completion/completions/palaver",
        .no_config = true,
        .run = bash,
};

const pal_cli_command pal_cmd_completion_zsh = {
        .name = "completion zsh",
        .summary = "print the script for zsh",
        .usage = "",
        .about = "Prints the script with which zsh completes commands, options and files. Add "
                 "the line 'source <(palaver completion zsh)' to ~/.zshrc, after compinit, or put "
                 "the script into a directory of fpath as _palaver.",
        .examples = "palaver completion zsh\n"
                    "palaver completion zsh > ~/.zfunc/_palaver",
        .no_config = true,
        .run = zsh,
};

const pal_cli_command pal_cmd_completion_fish = {
        .name = "completion fish",
        .summary = "print the script for fish",
        .usage = "",
        .about = "Prints the script with which fish completes commands, options and files.",
        .examples = "palaver completion fish\n"
                    "palaver completion fish > ~/.config/fish/completions/palaver.fish",
        .no_config = true,
        .run = fish,
};

const pal_cli_command pal_cmd_completion_words = {
        .name = "completion words",
        .summary = "print the candidates for a command line",
        .usage = "-- [WORD]...",
        .about = "Prints what can take the place of the last WORD, one candidate per line with a "
                 "tab and its description. A line that begins with ':' says that the name of a "
                 "file can follow. The scripts for shells call this command.",
        .examples = "palaver completion words -- ses\n"
                    "palaver completion words -- session show --la",
        .args_max = WORDS_MAX,
        .no_config = true,
        .run = words,
};
