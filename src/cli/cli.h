/* cli.h - what the commands share: their table, the command line as read, the open store, and
 * everything that is printed.
 *
 * The command is one thread (bench starts more, and joins them). A command's handler returns a
 * status and leaves the words in cli->err; only main.c prints errors and chooses the exit code.
 * Output is gathered in cli->out and written when the handler succeeds, so that a failure leaves
 * nothing on stdout; long output is written as it comes, with pal_cli_flush(). */
#ifndef PAL_CLI_H
#define PAL_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "base/buf.h"
#include "base/json.h"
#include "palaver/palaver.h"

#define PAL_CLI_OUT_MAX ((size_t)1 << 30) /* of output that waits to be written */
#define PAL_CLI_FLUSH_AT ((size_t)1 << 20)

/* ---- The command line ---- */

typedef enum pal_cli_kind {
    PAL_CLI_FLAG = 1,   /* bool */
    PAL_CLI_TEXT = 2,   /* const char *, NULL when it was not given */
    PAL_CLI_LIST = 3,   /* pal_cli_list: may be given again and again */
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

/* One option; a table of them ends with a zeroed one. */
typedef struct pal_cli_option {
    const char *name; /* without the dashes */
    char letter;      /* 'o' for -o; 0: none */
    pal_cli_kind kind;
    size_t offset;          /* of its member in the command's values */
    const char *value_name; /* "FILE", for the help */
    const char *help;
} pal_cli_option;

/* How a command uses the store. */
typedef enum pal_cli_access {
    PAL_CLI_NO_STORE = 0,
    PAL_CLI_READ = 1,
    PAL_CLI_WRITE = 2,  /* the store must be there */
    PAL_CLI_CREATE = 3, /* it is made when it is missing */
} pal_cli_access;

typedef struct pal_cli pal_cli;

typedef struct pal_cli_command {
    const char *name;              /* "session new" */
    const char *summary;           /* one line, for lists of commands */
    const char *usage;             /* what follows the name: "SESSION [TEXT]" */
    const char *about;             /* one paragraph, not wrapped */
    const char *examples;          /* lines */
    const pal_cli_option *options; /* NULL: none of its own */
    size_t values_size;
    size_t args_min;
    size_t args_max;
    pal_cli_access access;
    /* Optional: the access that these values ask for, where it is not always the same. */
    pal_cli_access (*access_for)(const void *values);
    bool is_destructive; /* takes something away: never suggested for a mistyped name */
    bool no_config; /* runs without the configuration, and so whatever is wrong with it */
    pal_status (*run)(pal_cli *cli, void *values);
} pal_cli_command;

struct pal_cli {
    const char *config_file; /* as given on the command line */
    const char *store_url;   /* the effective one, once the configuration is there */
    bool store_given;        /* on the command line */
    const char *tenant;
    bool json;
    bool help;
    bool version;
    const char **args; /* what is neither an option nor the command's name; in the arena */
    size_t args_len;
    const pal_cli_command *command;
    const char *group;  /* "session" when no command of it was named */
    pal_config *config; /* NULL for commands without */
    pal_store *store;   /* NULL for PAL_CLI_NO_STORE */
    pal_store_trace store_trace; /* of the store once it is opened; NULL: none */
    void *store_trace_user;
    pal_arena *arena;   /* lives as long as the command */
    pal_buf out;
    int out_fd;       /* where it goes: stdout, or the file of an export */
    int width;        /* columns of the terminal; 80 in a pipe */
    bool is_terminal; /* stdout is one */
    bool is_usage;    /* the failure is the command line's: exit code 2 */
    pal_error err;
    char hint[PAL_ERROR_MESSAGE_MAX];
};

/* Commands whose names begin with the same word. */
typedef struct pal_cli_group {
    const char *name;
    const char *summary; /* one line, for the list of commands; NULL: its commands are listed */
    const char *about;   /* lines */
} pal_cli_group;

/* All groups, a zeroed one at the end (cli_help.c). */
extern const pal_cli_group pal_cli_groups[];

/* All commands, NULL at the end (main.c). */
extern const pal_cli_command *const pal_cli_commands[];

/* Reads the command line into `cli` and the command's values, which lie in the arena. */
PAL_CHECKED pal_status pal_cli_parse(pal_cli *cli, int argc, char **argv, void **out_values);

/* The options that every command takes (cli_options.c). */
extern const pal_cli_option pal_cli_globals[];

/* Fails because of the command line, with an optional hint. */
pal_status pal_cli_usage(pal_cli *cli, const char *hint, const char *format, ...) PAL_PRINTF(3, 4);

/* The word of `words` (NULL at the end) that `text` was probably meant to be; or NULL. */
const char *pal_cli_nearest(const char *text, const char *const *words);

/* ---- Help (cli_help.c): into cli->out ---- */

void pal_cli_help_main(pal_cli *cli);
void pal_cli_help_group(pal_cli *cli, const char *group);
void pal_cli_help_command(pal_cli *cli, const pal_cli_command *command);

/* ---- The configuration (cli_config.c) ---- */

/* Reads the file that is named, or the first of those that there may be, and what the environment
 * and the command line say instead; sets cli->config and cli->store_url. */
PAL_CHECKED pal_status pal_cli_config_load(pal_cli *cli);

/* ---- The store (cli_store.c) ---- */

/* Opens cli->store. What is missing is not created unless `access` says so. */
PAL_CHECKED pal_status pal_cli_store_open(pal_cli *cli, pal_cli_access access);

/* The path of a sqlite url, or NULL for other backends. */
const char *pal_cli_store_path(const char *url);

/* Which sessions a name is looked up among when it is no exact id, key or alias. */
typedef enum pal_cli_among {
    PAL_CLI_AMONG_LIVE = 0, /* active and quarantined ones, then the trash */
    PAL_CLI_AMONG_TRASH = 1,
} pal_cli_among;

/* Finds the session that a person means: an id or an unambiguous beginning of one (4 characters
 * or more), a key, an alias, or "@last". It lies in cli->arena. */
PAL_CHECKED pal_status pal_cli_find(
        pal_cli *cli, const char *name, pal_cli_among among, pal_session *out_session);

/* Tells every session of the tenant in that state, newest update first, a page at a time. */
PAL_CHECKED pal_status pal_cli_each_session(pal_cli *cli, pal_session_state state,
        void (*sink)(const pal_session *session, void *user), void *user);

/* The tenant that was asked for. */
pal_str pal_cli_tenant(const pal_cli *cli);

/* ---- Output (cli_output.c) ---- */

/* Writes what is in cli->out to cli->out_fd. PAL_IO when that fails. */
PAL_CHECKED pal_status pal_cli_flush(pal_cli *cli);
/* Likewise, once there is enough of it to be worth it. */
PAL_CHECKED pal_status pal_cli_flush_some(pal_cli *cli);

/* Text that somebody else wrote: control characters, which could command the terminal, become
 * visible. With `lines`, line ends and tabs are kept. */
void pal_cli_clean(pal_buf *buf, pal_str text, bool lines);

/* Likewise, wrapped at spaces to `width` columns, each line after `indent` spaces. */
void pal_cli_wrap(pal_buf *buf, pal_str text, int indent, int width);

/* Columns that the text takes on a terminal. */
size_t pal_cli_columns(pal_str text);
/* The longest beginning that takes at most `columns`. */
size_t pal_cli_columns_cut(pal_str text, size_t columns);
/* How much of a line fits: up to the last space inside `columns`, else a hard cut. */
size_t pal_cli_columns_fit(pal_str line, size_t columns);

/* Whether stdout is a terminal that wants them: NO_COLOR is not set. */
bool pal_cli_has_styles(const pal_cli *cli);
/* Emphasis, where there are styles: 1 bold, 2 faint, 0 back to plain. */
void pal_cli_style(pal_cli *cli, int style);

/* "palaver: ..." and "hint: ..." on stderr. */
void pal_cli_print_error(const char *message, const char *hint);
/* The same as one JSON object, with the names that the API uses: error, code, hint. */
void pal_cli_print_error_json(const pal_error *err, const char *hint);

/* An id as text, in the arena. */
pal_str pal_cli_id(pal_cli *cli, pal_id id);

/* "12.3 MB". */
#define PAL_CLI_SIZE_SIZE 32
void pal_cli_size(uint64_t bytes, char out_text[PAL_CLI_SIZE_SIZE]);
/* "1,234 messages" ("1 message"): `noun` takes an s. */
void pal_cli_count(pal_buf *buf, uint64_t count, const char *noun);
/* "1,234,567". */
void pal_cli_number_text(pal_buf *buf, uint64_t number);

/* Fails with PAL_NO_MEMORY. */
pal_status pal_cli_no_memory(pal_cli *cli);

/* ---- Input (cli_input.c) ---- */

#define PAL_CLI_LINE_MAX ((size_t)256 << 20)
#define PAL_CLI_INPUT_MAX ((size_t)256 << 20) /* of what is read as a whole */

/* A file or stdin, as a whole or line by line. */
typedef struct pal_cli_input {
    const char *name; /* for errors */
    int fd;
    pal_buf buf;
    size_t at;      /* of the next line in buf */
    uint64_t bytes; /* taken so far */
    bool is_end;
} pal_cli_input;

typedef struct pal_cli_line {
    pal_str text;  /* without its line end; borrowed until the next one */
    bool too_long; /* over PAL_CLI_LINE_MAX: the text was thrown away */
} pal_cli_line;

/* `path` "-" is stdin. */
PAL_CHECKED pal_status pal_cli_input_open(pal_cli *cli, const char *path, pal_cli_input *out_input);
void pal_cli_input_close(pal_cli_input *input);

/* All that is left, borrowed until the input is closed. PAL_LIMIT over PAL_CLI_INPUT_MAX. */
PAL_CHECKED pal_status pal_cli_input_all(pal_cli *cli, pal_cli_input *input, pal_str *out_text);
/* The next line; *out_has is false at the end. */
PAL_CHECKED pal_status pal_cli_input_line(
        pal_cli *cli, pal_cli_input *input, pal_cli_line *out_line, bool *out_has);

/* The next piece, borrowed until the one after it; empty at the end. For files of any size: not
 * together with lines. */
PAL_CHECKED pal_status pal_cli_input_piece(pal_cli *cli, pal_cli_input *input, pal_str *out_text);

/* ---- Files that are written (cli_target.c) ---- */

typedef struct pal_cli_target {
    const char *path;
    char *temporary; /* NULL: written in place */
    int fd;          /* for cli->out_fd */
} pal_cli_target;

PAL_CHECKED pal_status pal_cli_target_open(
        pal_cli *cli, const char *path, pal_cli_target *out_target);
/* Gives the file its name if `status` is PAL_OK, removes it otherwise; returns how that went. */
PAL_CHECKED pal_status pal_cli_target_finish(
        pal_cli *cli, pal_cli_target *target, pal_status status);

/* ---- Times (cli_time.c) ---- */

/* "3 min ago"; "in 2 h" for times to come. */
void pal_cli_time_relative(pal_buf *buf, int64_t ms, int64_t now_ms);
/* "2026-11-15 20:47:48" by the user's time zone on a terminal, RFC 3339 elsewhere. */
void pal_cli_time(pal_cli *cli, pal_buf *buf, int64_t ms);
/* "90s", "15m", "24h", "7d", "2w". */
bool pal_cli_duration_from_text(const char *text, int64_t *out_ms);
/* RFC 3339, a date ("2026-11-15"), or a duration from now (`sign` 1) or before now (-1). */
PAL_CHECKED pal_status pal_cli_time_option(
        pal_cli *cli, const char *option, const char *text, int sign, int64_t *out_ms);

/* ---- Tables for people (cli_table.c) ---- */

#define PAL_CLI_COLUMNS_MAX 8

typedef struct pal_cli_table {
    pal_str *cells; /* row by row; in the arena */
    size_t cells_len;
    size_t cells_cap;
    size_t columns;
    const char *heads[PAL_CLI_COLUMNS_MAX];
    bool right[PAL_CLI_COLUMNS_MAX]; /* numbers stand to the right */
    int shrink; /* the column that is cut first when a terminal is too narrow; -1: none */
} pal_cli_table;

void pal_cli_table_cell(pal_cli *cli, pal_cli_table *table, pal_str text);
void pal_cli_table_cell_u64(pal_cli *cli, pal_cli_table *table, uint64_t number);
/* Into cli->out; columns that are empty in all rows are left out. */
void pal_cli_table_print(pal_cli *cli, const pal_cli_table *table);

/* ---- Progress (cli_progress.c): on stderr, if that is a terminal ---- */

typedef struct pal_cli_progress {
    const char *what; /* "importing" */
    int64_t shown_us;
    bool enabled;
    bool visible;
} pal_cli_progress;

void pal_cli_progress_start(pal_cli_progress *progress, const char *what);
/* `total` 0: not known. Shows at most ten times a second. */
void pal_cli_progress_set(pal_cli_progress *progress, uint64_t done, uint64_t total);
/* Takes the line away. Also before anything else is printed to stderr. */
void pal_cli_progress_end(pal_cli_progress *progress);

/* ---- Naming a session, for `new` and `fork` (cmd_session_new.c) ---- */

typedef struct pal_cli_naming {
    const char *key;
    const char *title;
    const char *project;
    const char *agent;
    pal_cli_list aliases;
    const char *metadata;
    const char *expires;
} pal_cli_naming;

/* The options' rows for a command's table; `values` has a member `naming`. */
/* clang-format off */
#define PAL_CLI_NAMING_OPTIONS(values) \
    {"key", 0, PAL_CLI_TEXT, offsetof(values, naming.key), "KEY", \
            "a name that no other active session has"}, \
    {"title", 0, PAL_CLI_TEXT, offsetof(values, naming.title), "TEXT", "what it is about"}, \
    {"project", 0, PAL_CLI_TEXT, offsetof(values, naming.project), "NAME", \
            "what it belongs to; lists can be narrowed to it"}, \
    {"agent", 0, PAL_CLI_TEXT, offsetof(values, naming.agent), "NAME", "who answers in it"}, \
    {"alias", 0, PAL_CLI_LIST, offsetof(values, naming.aliases), "NAME", \
            "another name for it; may be given again"}, \
    {"metadata", 0, PAL_CLI_TEXT, offsetof(values, naming.metadata), "JSON", \
            "an object that is kept with it"}, \
    {"expires", 0, PAL_CLI_TEXT, offsetof(values, naming.expires), "WHEN", \
            "24h, 7d, or a time: then it goes to the trash"}
/* clang-format on */

/* Fills `session` with what was given; what wasn't stays as it is. */
PAL_CHECKED pal_status pal_cli_name_session(
        pal_cli *cli, const pal_cli_naming *naming, pal_session *session);

/* Prints what became of a session: its id between two texts, or with --json its record as it is
 * now. */
PAL_CHECKED pal_status pal_cli_print_session(
        pal_cli *cli, pal_id id, const char *head, const char *tail);

/* ---- A session's window, for `context` and `compact` (cli_window.c) ---- */

typedef struct pal_cli_window_values {
    const char *model;
    const char *strategy;
    const char *profile;
    pal_cli_number max_tokens;
} pal_cli_window_values;

/* The options' rows; `at` leads from the command's values to these, with its dot. */
/* clang-format off */
#define PAL_CLI_WINDOW_OPTIONS(values, at) \
    {"model", 0, PAL_CLI_TEXT, offsetof(values, at model), "M", \
            "whose limits and vocabulary count (who answered last)"}, \
    {"strategy", 0, PAL_CLI_TEXT, offsetof(values, at strategy), "S", \
            "compact, summarization, sliding_window, reset or none"}, \
    {"profile", 0, PAL_CLI_TEXT, offsetof(values, at profile), "P", \
            "whose rules count: openai_chat, anthropic, mistral, ..."}, \
    {"max-tokens", 0, PAL_CLI_NUMBER, offsetof(values, at max_tokens), "N", \
            "most that is sent, whatever the model takes"}
/* clang-format on */

typedef struct pal_cli_window {
    pal_window window;
    pal_models *models;
    pal_str kind; /* of the provider that would answer; empty: whatever is found by itself */
} pal_cli_window;

/* Close it also where this fails. */
PAL_CHECKED pal_status pal_cli_window_open(pal_cli *cli, const pal_session *session,
        const pal_cli_window_values *given, pal_cli_window *out_window);
void pal_cli_window_close(pal_cli_window *window);

/* How full the window is, what is in it and what not, and what comes next (cmd_context.c). */
void pal_cli_print_plan(pal_cli *cli, const pal_plan *plan);

/* ---- A runtime, for `chat`, `serve`, `mcp` and `session compact` (cli_runtime.c) ---- */

typedef struct pal_cli_runtime_values {
    const char *model;
    const char *provider;
    const char *provider_url;
    bool runs_inbox; /* what waits in inboxes since before is run: for who stays long enough */
    uint32_t calls_max; /* pal_runtime_options.calls_max */
} pal_cli_runtime_values;

/* The options' rows; `at` leads from the command's values to these, with its dot. */
/* clang-format off */
#define PAL_CLI_RUNTIME_OPTIONS(values, at) \
    {"model", 0, PAL_CLI_TEXT, offsetof(values, at model), "NAME", "which model answers"}, \
    PAL_CLI_PROVIDER_OPTIONS(values, at)
#define PAL_CLI_PROVIDER_OPTIONS(values, at) \
    {"provider", 0, PAL_CLI_TEXT, offsetof(values, at provider), "NAME", \
            "openai, anthropic, mistral, echo, ..., or one of your own"}, \
    {"provider-url", 0, PAL_CLI_TEXT, offsetof(values, at provider_url), "URL", \
            "where it is, instead of its usual place"}
/* clang-format on */

typedef struct pal_cli_runtime {
    pal_runtime *runtime;
    pal_models *models;
    pal_str endpoint; /* what a request without any gets; in cli->arena */
    pal_str model;
    bool is_echo;    /* which is no model */
    bool is_stopgap; /* because none is configured and none was found */
} pal_cli_runtime;

/* Takes the options into the configuration, for whoever looks at that before a runtime is there. */
PAL_CHECKED pal_status pal_cli_runtime_choose(pal_cli *cli, const pal_cli_runtime_values *given);

/* Opens a runtime on cli->store by the configuration, with what the environment and the options say
 * instead. Without any provider it is the one that is found by itself. Close it also where this
 * fails. */
PAL_CHECKED pal_status pal_cli_runtime_open(
        pal_cli *cli, const pal_cli_runtime_values *given, pal_cli_runtime *out_runtime);
/* Turns that run may end within `drain_ms`. */
void pal_cli_runtime_close(pal_cli_runtime *runtime, int64_t drain_ms);

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
extern const pal_cli_command pal_cmd_mcp;
extern const pal_cli_command pal_cmd_key_create;
extern const pal_cli_command pal_cmd_key_list;
extern const pal_cli_command pal_cmd_key_revoke;
extern const pal_cli_command pal_cmd_stats;
extern const pal_cli_command pal_cmd_fsck;
extern const pal_cli_command pal_cmd_bench;
extern const pal_cli_command pal_cmd_bench_cache;
extern const pal_cli_command pal_cmd_version;
extern const pal_cli_command pal_cmd_help;

#endif
