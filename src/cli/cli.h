/* cli.h - shared by all commands: the table of commands, the parsed command line, the open store,
 * and functions for input and output.
 *
 * The command runs in one thread (bench starts more and joins them). The handler of a command
 * returns a status and sets cli->err; only main.c prints errors and chooses the exit code.
 * Output is collected in cli->out and written when the handler succeeds, so that a failed
 * command prints nothing on stdout. Long output is written in pieces with pal_cli_flush(). */
#ifndef PAL_CLI_H
#define PAL_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "base/buf.h"
#include "base/json/json.h"
#include "palaver/palaver.h"
#include "transfer/transfer_input.h"

#define PAL_CLI_OUT_MAX ((size_t)1 << 30) /* bytes of output that wait to be written */
#define PAL_CLI_FLUSH_AT ((size_t)1 << 20)

/* ---- The command line ---- */

typedef enum pal_cli_kind {
    PAL_CLI_FLAG = 1,   /* bool */
    PAL_CLI_TEXT = 2,   /* const char *; NULL if the option is missing */
    PAL_CLI_LIST = 3,   /* pal_cli_list: the option can be repeated */
    PAL_CLI_NUMBER = 4, /* pal_cli_number */
} pal_cli_kind;

typedef struct pal_cli_list {
    const char **items; /* in the arena */
    size_t len;
} pal_cli_list;

typedef struct pal_cli_number {
    uint64_t value;
    bool given;
} pal_cli_number;

/* One option. A table of options ends with a zeroed entry. */
typedef struct pal_cli_option {
    const char *name; /* without the dashes */
    char letter;      /* 'o' for -o; 0: none */
    pal_cli_kind kind;
    size_t offset;          /* offset of its member in the command's values */
    const char *value_name; /* "FILE", for the help */
    const char *help;
} pal_cli_option;

/* How a command uses the store. */
typedef enum pal_cli_access {
    PAL_CLI_NO_STORE = 0,
    PAL_CLI_READ = 1,
    PAL_CLI_WRITE = 2,  /* the store must exist */
    PAL_CLI_CREATE = 3, /* the store is created if it does not exist */
} pal_cli_access;

typedef struct pal_cli pal_cli;

typedef struct pal_cli_command {
    const char *name;              /* "session new" */
    const char *summary;           /* one line, for lists of commands */
    const char *usage;             /* the arguments after the name: "SESSION [TEXT]" */
    const char *about;             /* one paragraph, not wrapped */
    const char *examples;          /* lines */
    const pal_cli_option *options; /* NULL: only the global options */
    size_t values_size;
    size_t args_min;
    size_t args_max;
    pal_cli_access access;
    /* Optional: returns the access that these values require, if it depends on them. */
    pal_cli_access (*access_for)(const void *values);
    bool is_destructive; /* removes or hides data: never suggested for a mistyped name */
    bool no_config; /* runs without the configuration, even if that is wrong */
    bool runs_program; /* the arguments after the first one belong to a program that it names */
    pal_status (*run)(pal_cli *cli, void *values);
} pal_cli_command;

struct pal_cli {
    const char *config_file; /* from the command line */
    const char *store_url;   /* the effective URL, after the configuration was read */
    bool store_given;        /* --store is on the command line */
    bool store_is_default;   /* nothing names a store */
    const char *tenant;
    bool json;
    bool help;
    bool version;
    const char **args; /* all words except options and the command's name; in the arena */
    size_t args_len;
    const pal_cli_command *command;
    const char *group;  /* "session" if only the group was named */
    pal_config *config; /* NULL if no_config is set */
    pal_store *store;   /* NULL for PAL_CLI_NO_STORE */
    pal_store_on_call store_trace; /* set on the store when it is opened; NULL: none */
    void *store_trace_user;
    bool store_upgrade; /* upgrade the schema when the store is opened */
    pal_arena *arena;   /* lives as long as the command */
    pal_buf out;
    int out_fd;       /* stdout, or the file of an export */
    int width;        /* columns of the terminal; 80 in a pipe */
    bool is_terminal; /* stdout is a terminal */
    bool is_usage;    /* the command line is wrong: exit code 2 */
    int exit_code;    /* the code if the command succeeds; 0 unless it ran another program */
    pal_error err;
    char hint[PAL_ERROR_MESSAGE_MAX];
};

/* Commands whose names begin with the same word. */
typedef struct pal_cli_group {
    const char *name;
    const char *summary; /* one line, for the list of commands; NULL: its commands are listed */
    const char *about;   /* lines */
} pal_cli_group;

/* All groups; ends with a zeroed entry (cli_help.c). */
extern const pal_cli_group pal_cli_groups[];

/* All commands; ends with NULL (main.c). */
extern const pal_cli_command *const pal_cli_commands[];

/* Parses the command line into `cli` and the command's values, which are allocated in the arena. */
PAL_CHECKED pal_status pal_cli_parse(pal_cli *cli, int argc, char **argv, void **out_values);

/* The options of every command (cli_options.c). */
extern const pal_cli_option pal_cli_globals[];

/* Fails because the command line is wrong, with an optional hint. */
pal_status pal_cli_usage(pal_cli *cli, const char *hint, const char *format, ...) PAL_PRINTF(3, 4);

/* Returns the most similar word of `words` (NULL at the end); NULL if none is similar. */
const char *pal_cli_nearest(const char *text, const char *const *words);

/* ---- Help (cli_help.c): written to cli->out ---- */

void pal_cli_help_main(pal_cli *cli);
void pal_cli_help_group(pal_cli *cli, const char *group);
void pal_cli_help_command(pal_cli *cli, const pal_cli_command *command);

/* ---- The configuration (cli_config.c) ---- */

/* Reads the file that the user names, or the first default file that exists. Then applies the
 * environment and the command line. Sets cli->config and cli->store_url. */
PAL_CHECKED pal_status pal_cli_config_load(pal_cli *cli);

/* ---- The store (cli_store.c) ---- */

/* Opens cli->store. A missing store is created only if `access` is PAL_CLI_CREATE. */
PAL_CHECKED pal_status pal_cli_store_open(pal_cli *cli, pal_cli_access access);

/* Sets *out_url to the URL of the store if nothing names one (cli_store_default.c). */
PAL_CHECKED pal_status pal_cli_store_default(pal_cli *cli, const char **out_url);

/* Creates the directory of the default store. Any other missing directory is more likely a typing
 * error, so it is not created (cli_store_default.c). */
PAL_CHECKED pal_status pal_cli_store_default_make(pal_cli *cli);

/* Returns the path of a sqlite URL, or NULL for other backends. */
const char *pal_cli_store_path(const char *url);

/* Which sessions are searched for a name that is not an exact id, key or alias. */
typedef enum pal_cli_among {
    PAL_CLI_AMONG_LIVE = 0, /* active and quarantined sessions, then the trash */
    PAL_CLI_AMONG_TRASH = 1,
} pal_cli_among;

/* Finds the session that a user names: by id or unique beginning of an id (4 characters or
 * more), key, alias, or "@last". The session is allocated in cli->arena. */
PAL_CHECKED pal_status pal_cli_find(
        pal_cli *cli, const char *name, pal_cli_among among, pal_session *out_session);

/* Calls `sink` for every session of the tenant in that state, newest update first, one page at a
 * time. */
PAL_CHECKED pal_status pal_cli_each_session(pal_cli *cli, pal_session_state state,
        void (*sink)(const pal_session *session, void *user), void *user);

/* Returns the tenant that the command works on. */
pal_str pal_cli_tenant(const pal_cli *cli);

/* ---- Output (cli_output.c) ---- */

/* Writes the contents of cli->out to cli->out_fd. PAL_IO if the write fails. */
PAL_CHECKED pal_status pal_cli_flush(pal_cli *cli);
/* The same, but only if there is enough to be worth a write. */
PAL_CHECKED pal_status pal_cli_flush_some(pal_cli *cli);

/* Appends untrusted text. Control characters, which could control the terminal, are made
 * visible. With `lines`, line ends and tabs are kept. */
void pal_cli_clean(pal_buf *buf, pal_str text, bool lines);

/* Appends untrusted text, wrapped at spaces to `width` columns, with `indent` spaces before each
 * line. */
void pal_cli_wrap(pal_buf *buf, pal_str text, int indent, int width);

/* Returns the number of columns that the text takes on a terminal. */
size_t pal_cli_columns(pal_str text);
/* Returns the length of the longest beginning that takes at most `columns`. */
size_t pal_cli_columns_cut(pal_str text, size_t columns);
/* Returns how much of a line fits: up to the last space within `columns`, otherwise a hard cut. */
size_t pal_cli_columns_fit(pal_str line, size_t columns);

/* Returns whether stdout is a terminal that supports styles, and NO_COLOR is not set. */
bool pal_cli_has_styles(const pal_cli *cli);
/* Starts a style, if styles are supported: 1 bold, 2 faint, 0 plain. */
void pal_cli_style(pal_cli *cli, int style);

/* Prints "palaver: ..." and "hint: ..." on stderr. */
void pal_cli_print_error(const char *message, const char *hint);
/* The same as one JSON object, with the member names of the API: error, code, hint. */
void pal_cli_print_error_json(const pal_error *err, const char *hint);

/* Returns an id as text, in the arena. */
pal_str pal_cli_id(pal_cli *cli, pal_id id);

/* "12.3 MB". */
#define PAL_CLI_SIZE_SIZE 32
void pal_cli_size(uint64_t bytes, char out_text[PAL_CLI_SIZE_SIZE]);
/* "1,234 messages" ("1 message"): an s is added to `noun` for the plural. */
void pal_cli_count(pal_buf *buf, uint64_t count, const char *noun);
/* "1,234,567". */
void pal_cli_number_text(pal_buf *buf, uint64_t number);

/* Fails with PAL_NO_MEMORY. */
pal_status pal_cli_no_memory(pal_cli *cli);

/* ---- Input: transfer_input.h with the error of the command ---- */

#define PAL_CLI_INPUT_MAX PAL_TRANSFER_INPUT_MAX

typedef pal_transfer_input pal_cli_input;
typedef pal_transfer_line pal_cli_line;

static inline pal_status pal_cli_input_open(
        pal_cli *cli, const char *path, pal_cli_input *out_input)
{
    return pal_transfer_input_open(path, out_input, &cli->err);
}

static inline void pal_cli_input_close(pal_cli_input *input)
{
    pal_transfer_input_close(input);
}

static inline pal_status pal_cli_input_all(pal_cli *cli, pal_cli_input *input, pal_str *out_text)
{
    return pal_transfer_input_all(input, out_text, &cli->err);
}

static inline pal_status pal_cli_input_line(
        pal_cli *cli, pal_cli_input *input, pal_cli_line *out_line, bool *out_has)
{
    return pal_transfer_input_line(input, out_line, out_has, &cli->err);
}

static inline pal_status pal_cli_input_piece(pal_cli *cli, pal_cli_input *input, pal_str *out_text)
{
    return pal_transfer_input_piece(input, out_text, &cli->err);
}

/* ---- Output files (cli_target.c) ---- */

typedef struct pal_cli_target {
    const char *path;
    char *temporary; /* NULL: the file is written directly */
    int fd;          /* becomes cli->out_fd while the file is written */
} pal_cli_target;

PAL_CHECKED pal_status pal_cli_target_open(
        pal_cli *cli, const char *path, pal_cli_target *out_target);
/* If `status` is PAL_OK, renames the file to its final name; otherwise removes it. Returns
 * `status`, or the error of the rename. */
PAL_CHECKED pal_status pal_cli_target_finish(
        pal_cli *cli, pal_cli_target *target, pal_status status);

/* ---- Times (cli_time.c) ---- */

/* "3 min ago"; "in 2 h" for a time in the future. */
void pal_cli_time_relative(pal_buf *buf, int64_t ms, int64_t now_ms);
/* "2026-11-15 20:47:48" in the user's time zone on a terminal, RFC 3339 otherwise. */
void pal_cli_time(pal_cli *cli, pal_buf *buf, int64_t ms);
/* Reads RFC 3339, a date ("2026-11-15"), or a duration after now (`sign` 1) or before now (-1). */
PAL_CHECKED pal_status pal_cli_time_option(
        pal_cli *cli, const char *option, const char *text, int sign, int64_t *out_ms);

/* ---- Tables for people (terminal_table.c) ---- */

#define PAL_CLI_COLUMNS_MAX 8

typedef struct pal_cli_table {
    pal_str *cells; /* row by row; in the arena */
    size_t cells_len;
    size_t cells_cap;
    size_t columns;
    const char *heads[PAL_CLI_COLUMNS_MAX];
    bool right[PAL_CLI_COLUMNS_MAX]; /* align numbers to the right */
    int shrink; /* the column that is cut first if the terminal is too narrow; -1: none */
} pal_cli_table;

void pal_cli_table_cell(pal_cli *cli, pal_cli_table *table, pal_str text);
void pal_cli_table_cell_u64(pal_cli *cli, pal_cli_table *table, uint64_t number);
/* Prints the table to cli->out. Columns that are empty in all rows are left out. */
void pal_cli_table_print(pal_cli *cli, const pal_cli_table *table);

/* ---- Progress (cli_progress.c): on stderr, if stderr is a terminal ---- */

typedef struct pal_cli_progress {
    const char *what; /* "importing" */
    int64_t shown_us;
    bool enabled;
    bool visible;
} pal_cli_progress;

void pal_cli_progress_start(pal_cli_progress *progress, const char *what);
/* `total` 0: not known. Updates the line at most ten times a second. */
void pal_cli_progress_set(pal_cli_progress *progress, uint64_t done, uint64_t total);
/* Removes the line. Also call it before anything else is printed to stderr. */
void pal_cli_progress_end(pal_cli_progress *progress);

/* ---- The settings of a session, for `new`, `fork` and `edit` (cmd_session_new.c) ---- */

typedef struct pal_cli_session_settings {
    const char *key;
    const char *title;
    const char *project;
    const char *agent;
    pal_cli_list aliases;
    const char *metadata;
    const char *expires;
} pal_cli_session_settings;

/* The rows of these options for a command's table; `values` has a member `settings`. */
/* clang-format off */
#define PAL_CLI_SESSION_OPTIONS(values) \
    {"key", 0, PAL_CLI_TEXT, offsetof(values, settings.key), "KEY", \
            "unique name among the active sessions"}, \
    {"title", 0, PAL_CLI_TEXT, offsetof(values, settings.title), "TEXT", "title for people"}, \
    {"project", 0, PAL_CLI_TEXT, offsetof(values, settings.project), "NAME", \
            "project, by which lists can be filtered"}, \
    {"agent", 0, PAL_CLI_TEXT, offsetof(values, settings.agent), "NAME", "agent that answers"}, \
    {"alias", 0, PAL_CLI_LIST, offsetof(values, settings.aliases), "NAME", \
            "another name of the session; can be repeated"}, \
    {"metadata", 0, PAL_CLI_TEXT, offsetof(values, settings.metadata), "JSON", \
            "a JSON object that is stored with the session"}, \
    {"expires", 0, PAL_CLI_TEXT, offsetof(values, settings.expires), "WHEN", \
            "move to the trash after 24h, 7d, or at a time"}
/* clang-format on */

/* Sets the fields of `session` that the options name; the others do not change. */
PAL_CHECKED pal_status pal_cli_session_set(
        pal_cli *cli, const pal_cli_session_settings *settings, pal_session *session);

/* Prints the result for a session: its id between two texts, or with --json its current record. */
PAL_CHECKED pal_status pal_cli_session_print(
        pal_cli *cli, pal_id id, const char *head, const char *tail);

/* ---- A session's window, for `context` and `compact` (cli_window.c) ---- */

typedef struct pal_cli_window_values {
    const char *model;
    const char *strategy;
    const char *profile;
    pal_cli_number max_tokens;
} pal_cli_window_values;

/* The rows of these options. `at` is the path from the command's values to these, with its dot. */
/* clang-format off */
#define PAL_CLI_WINDOW_OPTIONS(values, at) \
    {"model", 0, PAL_CLI_TEXT, offsetof(values, at model), "M", \
            "model whose limits and vocabulary apply (the last one)"}, \
    {"strategy", 0, PAL_CLI_TEXT, offsetof(values, at strategy), "S", \
            "compact, summarization, sliding_window, reset or none"}, \
    {"profile", 0, PAL_CLI_TEXT, offsetof(values, at profile), "P", \
            "provider's rules: openai_chat, anthropic, mistral, ..."}, \
    {"max-tokens", 0, PAL_CLI_NUMBER, offsetof(values, at max_tokens), "N", \
            "maximum tokens to send, regardless of the model's limit"}
/* clang-format on */

typedef struct pal_cli_window {
    pal_window window;
    pal_models *models;
    pal_str kind; /* kind of the provider that would answer; empty: not configured, so a provider
                     is searched for */
} pal_cli_window;

/* The caller must close `out_window` even if this fails. */
PAL_CHECKED pal_status pal_cli_window_open(pal_cli *cli, const pal_session *session,
        const pal_cli_window_values *given, pal_cli_window *out_window);
void pal_cli_window_close(pal_cli_window *window);

/* Prints how full the window is, what is in it, what is left out, and what happens next
 * (cmd_context.c). */
void pal_cli_context_print(pal_cli *cli, const pal_plan *plan);

/* ---- A runtime, for `chat`, `serve`, `mcp` and `session compact` (cli_runtime.c) ---- */

typedef struct pal_cli_runtime_values {
    const char *model;
    const char *provider;
    const char *provider_url;
    bool runs_inbox; /* run messages that were waiting before; for processes that run long enough */
    uint32_t calls_max; /* pal_runtime_options.calls_max */
    bool can_ask;       /* a person can answer questions of turns */
    pal_channels *channels; /* are told about answers; may be NULL */
    pal_runtime_on_model_call on_model_call; /* may be NULL */
    void *model_call_user;
} pal_cli_runtime_values;

/* The rows of these options. `at` is the path from the command's values to these, with its dot. */
/* clang-format off */
#define PAL_CLI_RUNTIME_OPTIONS(values, at) \
    {"model", 0, PAL_CLI_TEXT, offsetof(values, at model), "NAME", "the model that answers"}, \
    PAL_CLI_PROVIDER_OPTIONS(values, at)
#define PAL_CLI_PROVIDER_OPTIONS(values, at) \
    {"provider", 0, PAL_CLI_TEXT, offsetof(values, at provider), "NAME", \
            "a kind, such as openai, or a configured name"}, \
    {"provider-url", 0, PAL_CLI_TEXT, offsetof(values, at provider_url), "URL", \
            "URL of the provider, instead of its usual one"}
/* clang-format on */

typedef struct pal_cli_runtime {
    pal_runtime *runtime;
    pal_models *models;
    pal_str endpoint; /* the default endpoint of requests; in cli->arena */
    pal_str model;
    bool is_echo;    /* the endpoint is 'echo', which is not a model */
    bool is_stopgap; /* 'echo' is used because no model is configured and none was found */
} pal_cli_runtime;

/* Applies the options to the configuration, for callers that read it before a runtime exists. */
PAL_CHECKED pal_status pal_cli_runtime_choose(pal_cli *cli, const pal_cli_runtime_values *given);

/* Opens a runtime on cli->store with the configuration, which the environment and the options
 * override. If no provider is configured, one is searched for. The caller must close
 * `out_runtime` even if this fails. */
PAL_CHECKED pal_status pal_cli_runtime_open(
        pal_cli *cli, const pal_cli_runtime_values *given, pal_cli_runtime *out_runtime);
/* Waits up to `drain_ms` for running turns. */
void pal_cli_runtime_close(pal_cli_runtime *runtime, int64_t drain_ms);

/* ---- A server, for `serve` and `run` (cli_server.c) ---- */

struct pal_server_client;

typedef struct pal_cli_server {
    pal_cli_runtime runtime;
    pal_route_settings *route_settings;
    pal_channels *channels; /* NULL: none are configured */
    struct pal_metrics *metrics;
    struct pal_server *server;
} pal_cli_server;

/* Opens the store, a runtime and a server with the configuration. `client` may be NULL. The caller
 * must close `out_server` even if this fails. */
PAL_CHECKED pal_status pal_cli_server_open(pal_cli *cli, const pal_cli_runtime_values *given,
        const struct pal_server_client *client, pal_cli_server *out_server);
/* Waits up to `drain_ms` for running turns. Also closes cli->store. */
void pal_cli_server_close(pal_cli *cli, pal_cli_server *server, int64_t drain_ms);
/* Returns the URL with the actual port: "http://[::1]:41234" for "[::1]:0". In cli->arena. */
pal_str pal_cli_server_address(pal_cli *cli, const pal_cli_server *server);

/* ---- The commands ---- */

extern const pal_cli_command pal_cmd_session_new;
extern const pal_cli_command pal_cmd_session_list;
extern const pal_cli_command pal_cmd_session_show;
extern const pal_cli_command pal_cmd_session_search;
extern const pal_cli_command pal_cmd_session_append;
extern const pal_cli_command pal_cmd_session_edit;
extern const pal_cli_command pal_cmd_session_fork;
extern const pal_cli_command pal_cmd_session_rewind;
extern const pal_cli_command pal_cmd_session_truncate;
extern const pal_cli_command pal_cmd_session_summary;
extern const pal_cli_command pal_cmd_session_undo;
extern const pal_cli_command pal_cmd_session_reset;
extern const pal_cli_command pal_cmd_session_compact;
extern const pal_cli_command pal_cmd_session_pin;
extern const pal_cli_command pal_cmd_session_unpin;
extern const pal_cli_command pal_cmd_session_delete;
extern const pal_cli_command pal_cmd_session_restore;
extern const pal_cli_command pal_cmd_session_erase;
extern const pal_cli_command pal_cmd_session_export;
extern const pal_cli_command pal_cmd_session_import;
extern const pal_cli_command pal_cmd_chat;
extern const pal_cli_command pal_cmd_context;
extern const pal_cli_command pal_cmd_route;
extern const pal_cli_command pal_cmd_config_show;
extern const pal_cli_command pal_cmd_config_check;
extern const pal_cli_command pal_cmd_config_example;
extern const pal_cli_command pal_cmd_tokens;
extern const pal_cli_command pal_cmd_tokens_list;
extern const pal_cli_command pal_cmd_tokens_compile;
extern const pal_cli_command pal_cmd_serve;
extern const pal_cli_command pal_cmd_run;
extern const pal_cli_command pal_cmd_mcp;
extern const pal_cli_command pal_cmd_mcp_login;
extern const pal_cli_command pal_cmd_mcp_logout;
extern const pal_cli_command pal_cmd_memory_list;
extern const pal_cli_command pal_cmd_memory_show;
extern const pal_cli_command pal_cmd_memory_add;
extern const pal_cli_command pal_cmd_memory_retract;
extern const pal_cli_command pal_cmd_memory_restore;
extern const pal_cli_command pal_cmd_memory_confirm;
extern const pal_cli_command pal_cmd_memory_erase;
extern const pal_cli_command pal_cmd_key_create;
extern const pal_cli_command pal_cmd_key_list;
extern const pal_cli_command pal_cmd_key_revoke;
extern const pal_cli_command pal_cmd_channel_list;
extern const pal_cli_command pal_cmd_channel_why;
extern const pal_cli_command pal_cmd_channel_dead;
extern const pal_cli_command pal_cmd_channel_retry;
extern const pal_cli_command pal_cmd_node_list;
extern const pal_cli_command pal_cmd_page;
extern const pal_cli_command pal_cmd_store_init;
extern const pal_cli_command pal_cmd_store_migrate;
extern const pal_cli_command pal_cmd_store_check;
extern const pal_cli_command pal_cmd_store_copy;
extern const pal_cli_command pal_cmd_models;
extern const pal_cli_command pal_cmd_usage;
extern const pal_cli_command pal_cmd_backup;
extern const pal_cli_command pal_cmd_restore;
extern const pal_cli_command pal_cmd_stats;
extern const pal_cli_command pal_cmd_fsck;
extern const pal_cli_command pal_cmd_bench;
extern const pal_cli_command pal_cmd_bench_cache;
extern const pal_cli_command pal_cmd_completion_bash;
extern const pal_cli_command pal_cmd_completion_zsh;
extern const pal_cli_command pal_cmd_completion_fish;
extern const pal_cli_command pal_cmd_completion_words;
extern const pal_cli_command pal_cmd_version;
extern const pal_cli_command pal_cmd_help;

#endif
