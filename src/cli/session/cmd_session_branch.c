/* cmd_session_branch.c - fork, rewind, truncate, reset, and undo. None of them removes a
 * message. */
#include "cli/cli.h"

#include <string.h>
#include "dialect/native/native.h"

typedef struct fork_values {
    pal_cli_session_settings settings;
    pal_cli_number at;
} fork_values;

typedef struct rewind_values {
    pal_cli_number to;
} rewind_values;

typedef struct truncate_values {
    pal_cli_number keep;
} truncate_values;

typedef struct undo_values {
    pal_cli_number mark;
} undo_values;

typedef struct reset_values {
    bool no_keep_system;
} reset_values;

/* ---- fork ---- */

static pal_status session_fork(pal_cli *cli, void *values)
{
    const fork_values *given = values;
    pal_session parent;
    pal_id id;
    pal_status status = pal_cli_find(cli, cli->args[0], PAL_CLI_AMONG_LIVE, &parent);
    if (status != PAL_OK)
        return status;
    pal_session session = {.title = parent.title, .project = parent.project, .agent = parent.agent};
    status = pal_cli_session_set(cli, &given->settings, &session);
    if (status == PAL_OK)
        status = pal_store_fork(cli->store, &session, parent.id,
                given->at.given ? given->at.value : PAL_SEQ_ANY, &id, &cli->err);
    return status == PAL_OK ? pal_cli_session_print(cli, id, "", "") : status;
}

static const pal_cli_option fork_options[] = {
        {"at", 0, PAL_CLI_NUMBER, offsetof(fork_values, at), "SEQ",
                "the last message that both sessions share (the newest)"},
        PAL_CLI_SESSION_OPTIONS(fork_values),
        {0},
};

const pal_cli_command pal_cmd_session_fork = {
        .name = "session fork",
        .summary = "branch off a new session at a message",
        .usage = "SESSION",
        .about =
                "Creates a new session that begins with the messages of SESSION up to --at, and "
                "prints its id. No message is copied, so a fork of a long conversation costs no "
                "more than a fork of a short one. Later messages of one session do not appear in "
                "the other. The new session gets SESSION's title, project and agent, unless "
                "options set them.",
        .examples = "palaver session fork demo --at 4 --key demo-2\n"
                    "palaver session fork @last --title \"What if?\"",
        .options = fork_options,
        .values_size = sizeof(fork_values),
        .args_min = 1,
        .args_max = 1,
        .access = PAL_CLI_WRITE,
        .run = session_fork,
};

/* ---- rewind, reset, undo ---- */

/* Without a mark, `text` is the output in every format. */
static pal_status print_mark(pal_cli *cli, const pal_mark *mark, const char *text)
{
    if (!cli->json || !mark->number) {
        pal_buf_append_text(&cli->out, text);
        return PAL_OK;
    }
    pal_json_writer writer = pal_json_writer_make(&cli->out);
    pal_status status = pal_native_mark_put(&writer, mark, &cli->err);
    pal_buf_append_char(&cli->out, '\n');
    return status;
}

static pal_status session_rewind(pal_cli *cli, void *values)
{
    const rewind_values *given = values;
    pal_session session;
    char text[160];
    if (!given->to.given)
        return pal_cli_usage(cli, "palaver session rewind SESSION --to SEQ",
                "'session rewind' requires --to, the last message that stays visible");
    pal_status status = pal_cli_find(cli, cli->args[0], PAL_CLI_AMONG_LIVE, &session);
    if (status != PAL_OK)
        return status;
    pal_mark mark = {.kind = PAL_MARK_REWIND, .seq = given->to.value};
    status = pal_store_mark(cli->store, pal_cli_tenant(cli), session.id, &mark, &cli->err);
    if (status != PAL_OK)
        return status;
    snprintf(text, sizeof text,
            "Rewound to message %llu (mark %llu). 'palaver session undo' reverses this.\n",
            (unsigned long long)mark.seq, (unsigned long long)mark.number);
    return print_mark(cli, &mark, text);
}

static pal_status session_truncate(pal_cli *cli, void *values)
{
    const truncate_values *given = values;
    pal_session session;
    pal_mark mark = {0};
    char text[160];
    if (!given->keep.given || given->keep.value > UINT32_MAX)
        return pal_cli_usage(cli, "palaver session truncate SESSION --keep N",
                "'session truncate' requires --keep, the number of messages that stay visible");
    pal_status status = pal_cli_find(cli, cli->args[0], PAL_CLI_AMONG_LIVE, &session);
    if (status == PAL_OK)
        status = pal_store_truncate(cli->store, pal_cli_tenant(cli), session.id,
                (uint32_t)given->keep.value, &mark, &cli->err);
    if (status != PAL_OK)
        return status;
    if (mark.number)
        snprintf(text, sizeof text,
                "Truncated to the newest messages (mark %llu). 'palaver session undo' reverses "
                "this.\n",
                (unsigned long long)mark.number);
    else
        snprintf(text, sizeof text, "%s\n",
                cli->json ? "{\"number\":0,\"kind\":\"rewind\"}"
                          : "Nothing was changed: the session has no more messages than that.");
    return print_mark(cli, &mark, text);
}

static pal_status session_undo(pal_cli *cli, void *values)
{
    const undo_values *given = values;
    pal_session session;
    char text[160];
    pal_status status = pal_cli_find(cli, cli->args[0], PAL_CLI_AMONG_LIVE, &session);
    if (status != PAL_OK)
        return status;
    if (given->mark.given && !given->mark.value)
        return pal_cli_usage(cli, NULL, "--mark must be at least 1");
    pal_mark mark = {.kind = PAL_MARK_UNDO, .target = given->mark.value};
    status = pal_store_mark(cli->store, pal_cli_tenant(cli), session.id, &mark, &cli->err);
    if (status != PAL_OK) {
        snprintf(cli->hint, sizeof cli->hint,
                "run 'palaver session show SESSION --marks' to see the marks that can be undone");
        return status;
    }
    snprintf(text, sizeof text, "Undid mark %llu.\n", (unsigned long long)mark.target);
    return print_mark(cli, &mark, text);
}

static pal_status session_reset(pal_cli *cli, void *values)
{
    const reset_values *given = values;
    pal_session session;
    pal_mark mark;
    char text[160];
    pal_status status = pal_cli_find(cli, cli->args[0], PAL_CLI_AMONG_LIVE, &session);
    if (status == PAL_OK)
        status = pal_store_reset(cli->store, pal_cli_tenant(cli), session.id,
                !given->no_keep_system, &mark, &cli->err);
    if (status != PAL_OK)
        return status;
    snprintf(text, sizeof text, "Reset%s (mark %llu). 'palaver session undo' reverses this.\n",
            mark.seq ? ", except the system message" : "", (unsigned long long)mark.number);
    return print_mark(cli, &mark, text);
}

static const pal_cli_option rewind_options[] = {
        {"to", 0, PAL_CLI_NUMBER, offsetof(rewind_values, to), "SEQ",
                "the last message that stays visible; 0 hides all"},
        {0},
};

const pal_cli_command pal_cmd_session_rewind = {
        .name = "session rewind",
        .summary = "hide the last messages",
        .usage = "SESSION --to SEQ",
        .about = "Hides the messages after SEQ. They stay stored, but are no longer part of the "
                 "conversation. 'session undo' makes them visible again; 'session show --hidden' "
                 "shows them.",
        .examples = "palaver session rewind demo --to 4\n"
                    "palaver session show demo --hidden --marks",
        .options = rewind_options,
        .values_size = sizeof(rewind_values),
        .args_min = 1,
        .args_max = 1,
        .access = PAL_CLI_WRITE,
        .is_destructive = true,
        .run = session_rewind,
};

static const pal_cli_option truncate_options[] = {
        {"keep", 0, PAL_CLI_NUMBER, offsetof(truncate_values, keep), "N",
                "number of newest messages that stay visible; 0 hides all"},
        {0},
};

const pal_cli_command pal_cmd_session_truncate = {
        .name = "session truncate",
        .summary = "hide all but the newest messages",
        .usage = "SESSION --keep N",
        .about = "Hides all messages but the newest N. They stay stored: 'session undo' makes "
                 "them visible again, and 'session show --hidden' shows them.",
        .examples = "palaver session truncate demo --keep 20\n"
                    "palaver session undo demo",
        .options = truncate_options,
        .values_size = sizeof(truncate_values),
        .args_min = 1,
        .args_max = 1,
        .access = PAL_CLI_WRITE,
        .is_destructive = true,
        .run = session_truncate,
};

static const pal_cli_option undo_options[] = {
        {"mark", 0, PAL_CLI_NUMBER, offsetof(undo_values, mark), "N",
                "undo this mark (the newest)"},
        {0},
};

const pal_cli_command pal_cmd_session_undo = {
        .name = "session undo",
        .summary = "undo a rewind, a reset or another mark",
        .usage = "SESSION",
        .about = "Undoes the newest mark of the session (a rewind, a reset, a checkpoint, a pin), "
                 "or the mark that --mark names. The undo itself is stored as a mark; nothing is "
                 "removed.",
        .examples = "palaver session undo demo\n"
                    "palaver session undo demo --mark 2",
        .options = undo_options,
        .values_size = sizeof(undo_values),
        .args_min = 1,
        .args_max = 1,
        .access = PAL_CLI_WRITE,
        .run = session_undo,
};

static const pal_cli_option reset_options[] = {
        {"no-keep-system", 0, PAL_CLI_FLAG, offsetof(reset_values, no_keep_system), NULL,
                "also hide a leading system message"},
        {0},
};

const pal_cli_command pal_cmd_session_reset = {
        .name = "session reset",
        .summary = "hide all messages and start over",
        .usage = "SESSION",
        .about =
                "Hides all messages except a leading system message. They stay stored: 'session "
                "undo' makes them visible again.",
        .examples = "palaver session reset demo\n"
                    "palaver session reset demo --no-keep-system",
        .options = reset_options,
        .values_size = sizeof(reset_values),
        .args_min = 1,
        .args_max = 1,
        .access = PAL_CLI_WRITE,
        .is_destructive = true,
        .run = session_reset,
};
