/* cmd_session_export.c - `palaver session export`: writes conversations as lines of JSON, in the
 * forms of transfer_export.h, or as PicoClaw's files. PicoClaw is a personal assistant that keeps
 * its sessions in JSONL files.
 *
 * A file that -o names appears complete or not at all. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "transfer/transfer_export.h"
#include "transfer/transfer_picoclaw.h"

#define PICOCLAW "picoclaw:" /* prefix of a directory */

typedef struct export_values {
    bool all;
    const char *format;
    const char *output;
    bool with_blobs;
    bool force;
} export_values;

typedef struct exporter {
    pal_cli *cli;
    const export_values *given;
    pal_export lines;
    pal_picoclaw_export *picoclaw; /* NULL: not an export to PicoClaw */
    const char *name;              /* the one session; NULL: all sessions */
    pal_error left_out;            /* why the first session that was left out could not be
                                      exported */
    uint64_t left_out_len;
    uint64_t sessions;
    pal_cli_progress progress;
} exporter;

/* ---- One session ---- */

static pal_status export_lines(exporter *e, const pal_session *session)
{
    pal_cli *cli = e->cli;
    bool more = true;
    pal_status status = pal_export_begin(&e->lines, session, &cli->out, &cli->err);
    while (status == PAL_OK && more) {
        status = pal_export_page(&e->lines, &cli->out, &more, &cli->err);
        pal_cli_progress_set(&e->progress, e->lines.messages, 0);
        if (status == PAL_OK)
            status = pal_cli_flush_some(cli);
    }
    pal_export_end(&e->lines);
    return status;
}

/* If many sessions are exported, a session that cannot be written to the directory is left out
 * and the others continue. */
static pal_status leave_out(exporter *e, pal_status status)
{
    bool is_its_own = status == PAL_CONFLICT || status == PAL_LIMIT;
    if (e->name || !is_its_own)
        return status;
    if (e->left_out_len++ == 0)
        e->left_out = e->cli->err;
    return PAL_OK;
}

static pal_status export_session(exporter *e, pal_id id)
{
    pal_cli *cli = e->cli;
    char text[PAL_ID_TEXT_SIZE];
    pal_session session;
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return pal_cli_no_memory(cli);
    pal_id_to_text(id, text);
    pal_status status = pal_store_find(cli->store, pal_cli_tenant(cli), PAL_SESSION_BY_ID,
            pal_str_of(text), arena, &session, &cli->err);
    if (status == PAL_OK && e->picoclaw)
        status = leave_out(e, pal_picoclaw_export_session(e->picoclaw, &session));
    else if (status == PAL_OK)
        status = export_lines(e, &session);
    e->sessions++;
    pal_arena_free(arena);
    return status == PAL_OK ? pal_cli_flush_some(cli) : status;
}

/* ---- All of them ---- */

static int by_age(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(pal_id));
}

static void add_id(const pal_session *session, void *user)
{
    pal_buf_append(user, &session->id, sizeof session->id);
}

/* Exports the oldest session first, so that a fork comes after the session that it was forked
 * from. */
static pal_status export_all(exporter *e)
{
    pal_buf ids;
    pal_buf_init(&ids, PAL_CLI_OUT_MAX);
    pal_status status = pal_cli_each_session(e->cli, PAL_SESSION_ACTIVE, add_id, &ids);
    if (status != PAL_OK)
        goto out;
    status = pal_cli_each_session(e->cli, PAL_SESSION_QUARANTINED, add_id, &ids);
    if (status != PAL_OK)
        goto out;
    if (ids.failure) {
        status = pal_error_set(&e->cli->err, ids.failure, "too many sessions");
        goto out;
    }
    if (ids.len)
        qsort(ids.data, ids.len / sizeof(pal_id), sizeof(pal_id), by_age);
    for (size_t at = 0; status == PAL_OK && at < ids.len; at += sizeof(pal_id)) {
        pal_id id;
        memcpy(&id, ids.data + at, sizeof id);
        status = export_session(e, id);
    }
out:
    pal_buf_done(&ids);
    return status;
}

static pal_status export_named(exporter *e)
{
    pal_session session;
    pal_status status = pal_cli_find(e->cli, e->name, PAL_CLI_AMONG_LIVE, &session);
    return status == PAL_OK ? export_session(e, session.id) : status;
}

/* ---- The file ---- */

static void print_summary(exporter *e)
{
    pal_buf *out = &e->cli->out;
    if (e->cli->json) {
        pal_buf_format(out, "{\"sessions\":%llu,\"messages\":%llu}\n",
                (unsigned long long)e->sessions, (unsigned long long)e->lines.messages);
        return;
    }
    pal_buf_append_text(out, "Exported ");
    pal_cli_count(out, e->sessions, "session");
    pal_buf_append_text(out, ", ");
    pal_cli_count(out, e->lines.messages, "message");
    pal_buf_append_text(out, ".\n");
}

static pal_status export_to_file(exporter *e)
{
    pal_cli *cli = e->cli;
    const char *path = e->given->output;
    pal_cli_target file;
    pal_status status = pal_cli_target_open(cli, path, &file);
    if (status != PAL_OK)
        return status;
    cli->out_fd = file.fd;
    status = e->given->all ? export_all(e) : export_named(e);
    if (status == PAL_OK)
        status = pal_cli_flush(cli);
    cli->out_fd = STDOUT_FILENO;
    status = pal_cli_target_finish(cli, &file, status);
    if (status == PAL_OK)
        print_summary(e);
    return status;
}

static void on_progress(uint64_t messages, void *user)
{
    exporter *e = user;
    pal_cli_progress_set(&e->progress, messages, 0);
}

static pal_status export_to_picoclaw(exporter *e, const char *dir)
{
    pal_picoclaw_export there = {.store = e->cli->store,
            .store_url = e->cli->store_url,
            .tenant = pal_cli_tenant(e->cli),
            .dir = dir,
            .force = e->given->force,
            .on_progress = on_progress,
            .user = e,
            .err = &e->cli->err};
    e->picoclaw = &there;
    pal_status status = pal_picoclaw_export_prepare(&there);
    if (status == PAL_OK)
        status = e->given->all ? export_all(e) : export_named(e);
    if (there.has_existing)
        snprintf(e->cli->hint, sizeof e->cli->hint, "use --force to replace it");
    e->sessions = there.sessions;
    e->lines.messages = there.messages;
    if (status != PAL_OK)
        return status;
    print_summary(e);
    if (!e->left_out_len)
        return PAL_OK;
    status = pal_cli_flush(e->cli);
    if (status == PAL_OK)
        status = pal_error_set(&e->cli->err, e->left_out.status, "could not export %llu %s: %s",
                (unsigned long long)e->left_out_len, e->left_out_len == 1 ? "session" : "sessions",
                e->left_out.message);
    return status;
}

/* Returns the directory of "picoclaw:DIR", if that is the first argument. */
static const char *picoclaw_dir(const pal_cli *cli)
{
    size_t len = sizeof(PICOCLAW) - 1;
    if (cli->args_len == 0 || strncmp(cli->args[0], PICOCLAW, len) != 0)
        return NULL;
    return cli->args[0] + len;
}

static pal_status check_picoclaw(pal_cli *cli, const export_values *given, const char *dir)
{
    if (!*dir)
        return pal_cli_usage(cli, "palaver session export picoclaw:DIR SESSION",
                "'" PICOCLAW "' requires a directory after it");
    if (given->format || given->output || given->with_blobs)
        return pal_cli_usage(
                cli, NULL, "--format, -o and --with-blobs are not allowed with '" PICOCLAW "'");
    return PAL_OK;
}

static pal_status session_export(pal_cli *cli, void *values)
{
    exporter e = {.cli = cli, .given = values};
    char cwd[4096];
    const char *dir = picoclaw_dir(cli);
    size_t names = cli->args_len - (dir != NULL);
    const char *format = e.given->format ? e.given->format : "native";
    bool to_file = e.given->output && strcmp(e.given->output, "-") != 0;
    e.lines = (pal_export){.store = cli->store,
            .tenant = pal_cli_tenant(cli),
            .with_blobs = e.given->with_blobs};
    if (!pal_export_form_from_name(pal_str_of(format), &e.lines.form))
        return pal_cli_usage(
                cli, NULL, "--format must be " PAL_EXPORT_FORMS ", not '%.60s'", format);
    if (e.given->all == (names > 0) || names > 1)
        return pal_cli_usage(cli, "palaver session export SESSION, or --all",
                "'session export' requires either a session or --all");
    if (dir && check_picoclaw(cli, e.given, dir) != PAL_OK)
        return cli->err.status;
    bool is_single = e.lines.form == PAL_EXPORT_CLAUDE_CODE ||
            e.lines.form == PAL_EXPORT_CODEX || e.lines.form == PAL_EXPORT_HTML;
    if (e.given->all && is_single)
        return pal_cli_usage(cli, NULL,
                "--all is not allowed with '%s', which has one session in each file", format);
    e.lines.cwd = pal_str_of(getcwd(cwd, sizeof cwd) ? cwd : "/");
    e.name = names ? cli->args[cli->args_len - 1] : NULL;
    pal_cli_progress_start(&e.progress, "messages exported");
    /* If stdout is a terminal, the output itself shows the progress. */
    e.progress.enabled = e.progress.enabled && (to_file || dir || !cli->is_terminal);
    pal_status status;
    if (dir)
        status = export_to_picoclaw(&e, dir);
    else if (to_file)
        status = export_to_file(&e);
    else
        status = e.given->all ? export_all(&e) : export_named(&e);
    pal_cli_progress_end(&e.progress);
    if (status == PAL_OK && e.lines.blobs_left)
        fprintf(stderr, "Images and files are not included (%llu); --with-blobs includes them.\n",
                (unsigned long long)e.lines.blobs_left);
    return status;
}

static const pal_cli_option options[] = {
        {"all", 0, PAL_CLI_FLAG, offsetof(export_values, all), NULL,
                "export all sessions of the tenant except the trash"},
        {"format", 0, PAL_CLI_TEXT, offsetof(export_values, format), "FORMAT",
                "format of the output (native)"},
        {"output", 'o', PAL_CLI_TEXT, offsetof(export_values, output), "FILE",
                "write to a file that appears complete or not at all"},
        {"with-blobs", 0, PAL_CLI_FLAG, offsetof(export_values, with_blobs), NULL,
                "include images and files, as base64"},
        {"force", 0, PAL_CLI_FLAG, offsetof(export_values, force), NULL,
                "replace files in a PicoClaw directory"},
        {0},
};

const pal_cli_command pal_cmd_session_export = {
        .name = "session export",
        .summary = "write conversations to a file",
        .usage = "[picoclaw:DIR] SESSION|--all",
        .about = "Writes one session, or all, as lines of JSON. The native format is complete, "
                 "and 'session import' recreates the same sessions from it. openai writes the "
                 "visible messages of each session as one line, {\"messages\":[...]}. skillian "
                 "writes them as rows of the table in which Skillian, a chat assistant, keeps its "
                 "sessions. claude-code and codex write a transcript that these programs resume, "
                 "and markdown and html a text or a page for people. picoclaw:DIR writes them to a "
                 "directory in the format of PicoClaw, a personal assistant. The formats are "
                 PAL_EXPORT_FORMS ".",
        .examples = "palaver session export --all --with-blobs -o backup.jsonl\n"
                    "palaver session export picoclaw:sessions demo",
        .options = options,
        .values_size = sizeof(export_values),
        .args_max = 2,
        .access = PAL_CLI_READ,
        .run = session_export,
};
