/* cmd_session_export.c - `palaver session export`: conversations as lines of JSON.
 *
 * The native form is complete: the session, all messages, hidden ones too, and the marks, each
 * behind the messages that were there when it was made, so that an import can make them again. The
 * openai form is what a model would be sent: {"messages":[...]}, a session a line.
 *
 * A file that is named by -o appears whole or not at all. */
#include "cli/cli.h"
#include "cli/cli_picoclaw.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/memory.h"
#include "dialect/dialect_openai_chat.h"
#include "dialect/dialect_transcript.h"

#define PAGE 500
#define PICOCLAW "picoclaw:" /* before a directory */
#define PAGE_BYTES ((uint64_t)32 << 20)

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
    bool openai;
    pal_picoclaw_export *picoclaw; /* NULL: not there */
    const char *name;              /* of the one session; NULL: all */
    pal_error left_out;            /* why the first of those that could not be exported wasn't */
    uint64_t left_out_len;
    pal_arena *arena; /* of one page */
    pal_json_writer writer;
    const pal_mark *marks;
    size_t marks_len;
    size_t marks_at; /* the next one to write */
    uint64_t fork_seq;
    uint64_t sessions;
    uint64_t messages;
    uint64_t blobs_left; /* that would have come along with --with-blobs */
    pal_cli_progress progress;
} exporter;

/* ---- One session ---- */

static pal_status fill_blobs(exporter *e, pal_part *parts, size_t parts_len)
{
    pal_cli *cli = e->cli;
    pal_status status = PAL_OK;
    for (size_t i = 0; status == PAL_OK && i < parts_len; i++) {
        pal_str media_type;
        if (parts[i].blob.len && !e->given->with_blobs)
            e->blobs_left++;
        else if (parts[i].blob.len)
            status = pal_store_blob_get(cli->store, pal_cli_tenant(cli), parts[i].blob, e->arena,
                    &media_type, &parts[i].data, &cli->err);
        if (status == PAL_OK && parts[i].parts_len)
            status = fill_blobs(e, parts[i].parts, parts[i].parts_len);
    }
    return status;
}

/* Writes the marks that were made before the message `seq` came. What a fork inherits was made
 * before its first own message, whatever its parent had by then. */
static pal_status put_marks_before(exporter *e, uint64_t seq)
{
    pal_status status = PAL_OK;
    for (; status == PAL_OK && e->marks_at < e->marks_len; e->marks_at++) {
        pal_mark mark = e->marks[e->marks_at];
        if (mark.inherited && mark.through_seq > e->fork_seq)
            mark.through_seq = e->fork_seq;
        if (mark.through_seq >= seq)
            break;
        status = pal_transcript_write_mark(&e->cli->out, &mark, &e->cli->err);
    }
    return status;
}

static pal_status put_message(exporter *e, pal_message *message)
{
    pal_status status = fill_blobs(e, message->parts, message->parts_len);
    if (status == PAL_OK && e->openai)
        status = pal_openai_chat_put(&e->writer, message, &e->cli->err);
    else if (status == PAL_OK) {
        status = put_marks_before(e, message->seq);
        if (status == PAL_OK)
            status = pal_transcript_write_message(&e->cli->out, message, &e->cli->err);
    }
    e->messages++;
    return status == PAL_OK ? pal_cli_flush_some(e->cli) : status;
}

static pal_status put_messages(exporter *e, pal_id id)
{
    pal_cli *cli = e->cli;
    pal_load load = {.limit = PAGE, .bytes_max = PAGE_BYTES, .hidden = !e->openai};
    pal_messages page;
    pal_status status;
    do {
        pal_arena_reset(e->arena);
        status = pal_store_load(
                cli->store, pal_cli_tenant(cli), id, &load, e->arena, &page, &cli->err);
        for (size_t i = 0; status == PAL_OK && i < page.len; i++) {
            load.after_seq = page.items[i].seq;
            status = put_message(e, &page.items[i]);
            pal_cli_progress_set(&e->progress, e->messages, 0);
        }
        /* One message alone may be over the page's bytes: then it is asked for by itself. */
        if (status == PAL_OK && page.has_more && page.len == 0) {
            load.bytes_max = 0;
            load.limit = 1;
        } else {
            load.bytes_max = PAGE_BYTES;
            load.limit = PAGE;
        }
    } while (status == PAL_OK && page.has_more);
    return status;
}

static pal_status export_native(exporter *e, const pal_session *session, pal_arena *session_arena)
{
    pal_cli *cli = e->cli;
    pal_mark *marks;
    pal_status status = pal_store_marks(cli->store, pal_cli_tenant(cli), session->id, session_arena,
            &marks, &e->marks_len, &cli->err);
    if (status != PAL_OK)
        return status;
    e->marks = marks;
    e->marks_at = 0;
    e->fork_seq = session->fork_seq;
    status = pal_transcript_write_session(&cli->out, session, &cli->err);
    if (status == PAL_OK)
        status = put_messages(e, session->id);
    return status == PAL_OK ? put_marks_before(e, UINT64_MAX) : status;
}

static pal_status export_openai(exporter *e, const pal_session *session)
{
    pal_buf *out = &e->cli->out;
    e->writer = pal_json_writer_make(out);
    pal_json_begin_object(&e->writer);
    pal_json_name(&e->writer, "messages");
    pal_json_begin_array(&e->writer);
    pal_status status = put_messages(e, session->id);
    pal_json_end_array(&e->writer);
    pal_json_end_object(&e->writer);
    pal_buf_append_char(out, '\n');
    return status;
}

/* Of many sessions, one that has no place in the directory costs only itself. */
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
    pal_status status = pal_store_find(cli->store, pal_cli_tenant(cli), PAL_FIND_ID,
            pal_str_of(text), arena, &session, &cli->err);
    if (status == PAL_OK && e->picoclaw)
        status = leave_out(e, pal_cli_picoclaw_export(e->picoclaw, &session));
    else if (status == PAL_OK)
        status = e->openai ? export_openai(e, &session) : export_native(e, &session, arena);
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

/* Oldest first: a fork comes after the session that it was forked from. */
static pal_status export_all(exporter *e)
{
    pal_buf ids;
    pal_buf_init(&ids, PAL_CLI_OUT_MAX);
    pal_status status = pal_cli_each_session(e->cli, PAL_SESSION_ACTIVE, add_id, &ids);
    if (status == PAL_OK)
        status = pal_cli_each_session(e->cli, PAL_SESSION_QUARANTINED, add_id, &ids);
    if (status == PAL_OK && ids.failure)
        status = pal_error_set(&e->cli->err, ids.failure, "there are too many sessions");
    if (status == PAL_OK && ids.len)
        qsort(ids.data, ids.len / sizeof(pal_id), sizeof(pal_id), by_age);
    for (size_t at = 0; status == PAL_OK && at < ids.len; at += sizeof(pal_id)) {
        pal_id id;
        memcpy(&id, ids.data + at, sizeof id);
        status = export_session(e, id);
    }
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
                (unsigned long long)e->sessions, (unsigned long long)e->messages);
        return;
    }
    pal_buf_append_text(out, "Exported ");
    pal_cli_count(out, e->sessions, "session");
    pal_buf_append_text(out, ", ");
    pal_cli_count(out, e->messages, "message");
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

static pal_status export_to_picoclaw(exporter *e, const char *dir)
{
    pal_picoclaw_export there = {
            .cli = e->cli, .dir = dir, .force = e->given->force, .progress = &e->progress};
    e->picoclaw = &there;
    pal_status status = pal_cli_picoclaw_prepare(&there);
    if (status == PAL_OK)
        status = e->given->all ? export_all(e) : export_named(e);
    e->sessions = there.sessions;
    e->messages = there.messages;
    if (status != PAL_OK)
        return status;
    print_summary(e);
    if (!e->left_out_len)
        return PAL_OK;
    status = pal_cli_flush(e->cli);
    if (status == PAL_OK)
        status = pal_error_set(&e->cli->err, e->left_out.status, "%llu left out: %s",
                (unsigned long long)e->left_out_len, e->left_out.message);
    return status;
}

/* The directory of "picoclaw:DIR", if that is the first argument. */
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
                "'" PICOCLAW "' wants a directory behind it");
    if (given->format || given->output || given->with_blobs)
        return pal_cli_usage(cli, NULL, "--format, -o and --with-blobs are not for '" PICOCLAW "'");
    return PAL_OK;
}

static pal_status session_export(pal_cli *cli, void *values)
{
    exporter e = {.cli = cli, .given = values};
    const char *dir = picoclaw_dir(cli);
    size_t names = cli->args_len - (dir != NULL);
    const char *format = e.given->format ? e.given->format : "native";
    bool to_file = e.given->output && strcmp(e.given->output, "-") != 0;
    e.openai = strcmp(format, "openai") == 0;
    if (!e.openai && strcmp(format, "native") != 0)
        return pal_cli_usage(cli, NULL, "--format is native or openai; not '%.60s'", format);
    if (e.given->all == (names > 0) || names > 1)
        return pal_cli_usage(cli, "palaver session export SESSION, or --all",
                "'session export' wants either a session or --all");
    if (dir && check_picoclaw(cli, e.given, dir) != PAL_OK)
        return cli->err.status;
    e.name = names ? cli->args[cli->args_len - 1] : NULL;
    e.arena = pal_arena_new(0);
    if (!e.arena)
        return pal_cli_no_memory(cli);
    pal_cli_progress_start(&e.progress, "messages exported");
    /* A terminal that shows the output is progress enough. */
    e.progress.enabled = e.progress.enabled && (to_file || dir || !cli->is_terminal);
    pal_status status;
    if (dir)
        status = export_to_picoclaw(&e, dir);
    else if (to_file)
        status = export_to_file(&e);
    else
        status = e.given->all ? export_all(&e) : export_named(&e);
    pal_cli_progress_end(&e.progress);
    if (status == PAL_OK && e.blobs_left)
        fprintf(stderr, "Images and files are left out (%llu): --with-blobs includes them.\n",
                (unsigned long long)e.blobs_left);
    pal_arena_free(e.arena);
    return status;
}

static const pal_cli_option options[] = {
        {"all", 0, PAL_CLI_FLAG, offsetof(export_values, all), NULL,
                "every session of the tenant that is not in the trash"},
        {"format", 0, PAL_CLI_TEXT, offsetof(export_values, format), "FORMAT",
                "native (complete, the default) or openai"},
        {"output", 'o', PAL_CLI_TEXT, offsetof(export_values, output), "FILE",
                "write to a file, whole or not at all"},
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
        .about = "Writes one session, or all, as lines of JSON. The native format is complete, and "
                 "'session import' makes the same sessions of it; openai is what a model would be "
                 "sent, {\"messages\":[...]} a line. With picoclaw:DIR the messages in sight are "
                 "written to that directory as PicoClaw keeps them.",
        .examples = "palaver session export --all --with-blobs -o backup.jsonl\n"
                    "palaver session export picoclaw:sessions demo",
        .options = options,
        .values_size = sizeof(export_values),
        .args_max = 2,
        .access = PAL_CLI_READ,
        .run = session_export,
};
