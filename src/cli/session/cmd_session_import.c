/* cmd_session_import.c - `palaver session import`: finds the files, passes their lines to the
 * transcript reader, and reports the result. transfer_import.c writes to the store.
 *
 * A bad line is skipped, and so is a bad file; only an error of the store stops the import.
 * Everything committed before stays, and the import can be repeated. */
#include "cli/cli.h"

#include <errno.h>
#include <fts.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/digest.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/utf8.h"
#include "transfer/transfer_import_reader.h"
#include "transfer/transfer_picoclaw.h"

#define PROBLEMS_SHOWN 5
#define PICOCLAW "picoclaw:" /* prefix of a directory */

typedef struct import_values {
    const char *format;
    const char *key;
    const char *project;
} import_values;

typedef struct source {
    const char *path;
    uint64_t size;
    bool is_named;    /* named on the command line, not found in a directory */
    bool is_picoclaw; /* a directory of PicoClaw */
} source;

typedef struct problem {
    const char *file;
    uint64_t line;
    pal_str text; /* in the arena */
} problem;

typedef struct importer {
    pal_cli *cli;
    const import_values *given;
    pal_transcript_kind kind;
    pal_import *store;
    pal_route_settings *routes;
    source *sources; /* in cli->arena */
    size_t sources_len;
    size_t sources_cap;
    uint64_t bytes_total;
    uint64_t bytes_done;
    pal_cli_progress progress;
    problem problems[PROBLEMS_SHOWN];
    uint64_t problems_len; /* number of all problems, not only of the stored ones */
    size_t files;
    size_t files_failed;
    uint64_t verified_sessions;
    uint64_t verified_messages;

    /* The file that is being read. */
    const char *file;
    problem first_problem;
    pal_import_reader reader;
    bool key_used;
} importer;

/* ---- Reporting ---- */

static void on_problem(uint64_t line, const char *text, void *user)
{
    importer *im = user;
    bool is_first = im->first_problem.text.len == 0;
    if (im->problems_len++ >= PROBLEMS_SHOWN && !is_first)
        return;
    const problem reported = {
            .file = im->file,
            .line = line,
            .text = pal_arena_copy(im->cli->arena, pal_str_of(text)),
    };
    if (is_first)
        im->first_problem = reported;
    if (im->problems_len <= PROBLEMS_SHOWN)
        im->problems[im->problems_len - 1] = reported;
}

static void print_problems(importer *im)
{
    pal_buf *out = &im->cli->out;
    size_t shown = im->problems_len < PROBLEMS_SHOWN ? (size_t)im->problems_len : PROBLEMS_SHOWN;
    if (!shown)
        return;
    pal_cli_count(out, im->problems_len, "problem");
    pal_buf_append_text(out, ":\n");
    for (size_t i = 0; i < shown; i++) {
        pal_buf_append_text(out, "  ");
        pal_cli_clean(out, pal_str_of(im->problems[i].file), false);
        if (im->problems[i].line)
            pal_buf_format(out, ":%llu", (unsigned long long)im->problems[i].line);
        pal_buf_append_text(out, ": ");
        pal_cli_clean(out, im->problems[i].text, false);
        pal_buf_append_char(out, '\n');
    }
    if (im->problems_len > shown)
        pal_buf_format(
                out, "  ... and %llu more\n", (unsigned long long)(im->problems_len - shown));
}

static void print_text(importer *im)
{
    pal_buf *out = &im->cli->out;
    pal_import_counts counts = pal_import_count(im->store);
    pal_buf_append_text(out, "Imported ");
    pal_cli_count(out, counts.sessions, "session");
    pal_buf_append_text(out, ", ");
    pal_cli_count(out, counts.messages, "message");
    pal_buf_append_text(out, ".\n");
    if (counts.sessions_known || counts.messages_known) {
        pal_buf_append_text(out, "Already here: ");
        pal_cli_count(out, counts.sessions_known, "session");
        pal_buf_append_text(out, ", ");
        pal_cli_count(out, counts.messages_known, "message");
        pal_buf_append_text(out, ".\n");
    }
    if (counts.failed) {
        pal_buf_append_text(out, "Left out: ");
        pal_cli_count(out, counts.failed, "message");
        pal_buf_append_text(out, ".\n");
    }
    if (im->verified_sessions) {
        pal_buf_append_text(out, "Verified: ");
        pal_cli_count(out, im->verified_sessions, "session");
        pal_buf_append_text(out, ", ");
        pal_cli_count(out, im->verified_messages, "message");
        pal_buf_append_text(out, " are the same here as in the files.\n");
    }
    print_problems(im);
}

static void print_json(importer *im)
{
    pal_import_counts counts = pal_import_count(im->store);
    pal_json_writer writer = pal_json_writer_make(&im->cli->out);
    pal_json_begin_object(&writer);
    pal_put_count(&writer, "files", im->files);
    pal_put_count(&writer, "files_failed", im->files_failed);
    pal_put_count(&writer, "sessions", counts.sessions);
    pal_put_count(&writer, "sessions_known", counts.sessions_known);
    pal_put_count(&writer, "messages", counts.messages);
    pal_put_count(&writer, "messages_known", counts.messages_known);
    pal_put_count(&writer, "messages_failed", counts.failed);
    pal_put_count(&writer, "marks", counts.marks);
    if (im->verified_sessions) {
        pal_put_count(&writer, "sessions_verified", im->verified_sessions);
        pal_put_count(&writer, "messages_verified", im->verified_messages);
    }
    pal_put_count(&writer, "problems_total", im->problems_len);
    pal_json_name(&writer, "problems");
    pal_json_begin_array(&writer);
    for (size_t i = 0; i < im->problems_len && i < PROBLEMS_SHOWN; i++) {
        pal_json_begin_object(&writer);
        pal_put_text(&writer, "file", im->problems[i].file);
        pal_put_count(&writer, "line", im->problems[i].line);
        pal_put_str(&writer, "text", im->problems[i].text);
        pal_json_end_object(&writer);
    }
    pal_json_end_array(&writer);
    pal_json_end_object(&writer);
    pal_buf_append_char(&im->cli->out, '\n');
}

/* ---- From the items of a file to the store ---- */

/* Names a conversation without a name after its file. The key is derived from the path of the
 * file, so that importing the same file again finds the same session, even if the file has
 * grown. Stdin has no path. */
static pal_status name_by_file(importer *im, pal_session *session, size_t count)
{
    char path[PATH_MAX];
    char hex[2 * PAL_SHA256_SIZE + 1];
    char number[24] = "";
    char text[PATH_MAX];
    uint8_t digest[PAL_SHA256_SIZE];
    pal_arena *arena = pal_import_arena(im->store);
    if (strcmp(im->file, "-") == 0 || !realpath(im->file, path))
        return PAL_OK;
    if (pal_sha256(pal_str_of(path), digest) != PAL_OK)
        return pal_cli_no_memory(im->cli);
    pal_hex(digest, sizeof digest, hex);
    if (count > 1)
        snprintf(number, sizeof number, ":%zu", count);
    snprintf(text, sizeof text, "file:%.16s%s", hex, number);
    session->key = pal_arena_copy(arena, pal_str_of(text));
    snprintf(text, sizeof text, "%.200s%s", strrchr(path, '/') + 1, number);
    if (!session->title.len && pal_utf8_is_valid(pal_str_of(text)))
        session->title = pal_arena_copy(arena, pal_str_of(text));
    return PAL_OK;
}

/* Sets the name of a session for the reader. */
static pal_status on_begin(pal_import_begun *begun, void *user)
{
    importer *im = user;
    pal_session *session = &begun->session;
    if (im->given->key && im->key_used)
        return pal_cli_usage(im->cli, "omit --key: then every session keeps its own name",
                "--key can name only one session, but '%.100s' contains another one", im->file);
    if (im->given->key) {
        session->key = pal_str_of(im->given->key);
        session->id = session->parent_id = (pal_id){{0}};
        begun->is_native = false;
        im->key_used = true;
    }
    begun->is_renamed = im->given->key != NULL;
    if (im->given->project)
        session->project = pal_str_of(im->given->project);
    if (!begun->is_native && !session->key.len)
        return name_by_file(im, session, begun->number);
    return PAL_OK;
}

static pal_status open_reader(importer *im, pal_transcript_kind kind)
{
    im->reader = (pal_import_reader){.import = im->store,
            .begins = on_begin,
            .problem = on_problem,
            .user = im,
            .routes = im->routes,
            .err = &im->cli->err};
    return pal_import_reader_open(&im->reader, kind);
}

/* ---- Files ---- */

/* Reads a file that is one JSON value on many lines, or an array of messages. *out_done is false
 * for a file of lines. */
static pal_status feed_value(importer *im, pal_cli_input *input, bool *out_done)
{
    pal_str text;
    pal_status status = pal_cli_input_all(im->cli, input, &text);
    return status == PAL_OK ? pal_import_reader_value(&im->reader, text, out_done) : status;
}

static pal_status feed_lines(importer *im, pal_cli_input *input)
{
    pal_cli_line line;
    bool has, done = false;
    pal_status status = pal_cli_input_line(im->cli, input, &line, &has);
    if (status != PAL_OK)
        return status;
    if (has && !line.too_long && pal_import_starts_value(line.text)) {
        input->at = 0;
        input->bytes = 0;
        status = feed_value(im, input, &done);
        if (status != PAL_OK || done)
            return status;
        status = pal_cli_input_line(im->cli, input, &line, &has);
    }
    while (status == PAL_OK && has) {
        if (line.too_long)
            on_problem(0, "a line exceeds 256 MiB: skipped", im);
        status = pal_import_reader_line(&im->reader, line.too_long ? pal_str_of("") : line.text);
        pal_cli_progress_set(&im->progress, im->bytes_done + input->bytes, im->bytes_total);
        if (status == PAL_OK)
            status = pal_cli_input_line(im->cli, input, &line, &has);
    }
    return status;
}

static void on_progress(uint64_t done, uint64_t total, void *user)
{
    importer *im = user;
    pal_cli_progress_set(&im->progress, done, total);
}

static pal_status import_picoclaw(importer *im, const source *from, bool *out_used)
{
    pal_cli *cli = im->cli;
    pal_picoclaw_import import = {.store = cli->store,
            .store_url = cli->store_url,
            .tenant = pal_cli_tenant(cli),
            .import = im->store,
            .arena = cli->arena,
            .project = im->given->project,
            .problem = on_problem,
            .on_progress = on_progress,
            .user = im,
            .file = &im->file,
            .err = &cli->err};
    *out_used = false;
    if (im->given->key)
        return pal_cli_usage(im->cli, "omit --key: then every session keeps its own key",
                "--key is not allowed for a directory");
    pal_status status = pal_picoclaw_import_all(&import, from->path);
    im->verified_sessions += import.verified_sessions;
    im->verified_messages += import.verified_messages;
    *out_used = status == PAL_OK;
    return status;
}

/* ---- Databases ---- */

static bool is_sqlite(const char *path)
{
    static const char magic[] = "SQLite format 3";
    char head[sizeof magic];
    FILE *file = strcmp(path, "-") == 0 ? NULL : fopen(path, "rb");
    bool is = file && fread(head, 1, sizeof head, file) == sizeof head &&
            memcmp(head, magic, sizeof head) == 0;
    if (file)
        fclose(file);
    return is;
}

static pal_status feed_row(pal_str row, void *user)
{
    importer *im = user;
    return pal_import_reader_line(&im->reader, row);
}

/* Reads the database of one program. *out_why reports what was wrong with the database; that is
 * not an error of the store. */
static pal_status read_database(
        importer *im, const char *path, pal_transcript_kind kind, pal_error *out_why)
{
    pal_status status = open_reader(im, kind);
    if (status != PAL_OK)
        return status;
    status = kind == PAL_TRANSCRIPT_SOL ? pal_foreign_sol_each(path, feed_row, im, out_why)
                                        : pal_foreign_loom_each(path, feed_row, im, out_why);
    if (out_why->status != PAL_OK)
        status = PAL_OK;
    else if (status == PAL_OK)
        status = pal_import_reader_finish(&im->reader);
    pal_import_reader_close(&im->reader);
    return status;
}

static pal_status import_database(importer *im, const source *from, bool *out_used)
{
    pal_error why = {PAL_OK, ""}, other = {PAL_OK, ""};
    bool is_sol = im->kind == PAL_TRANSCRIPT_SOL;
    pal_status status =
            read_database(im, from->path, is_sol ? im->kind : PAL_TRANSCRIPT_LOOM, &why);
    if (status == PAL_OK && why.status == PAL_INVALID && im->kind == PAL_TRANSCRIPT_AUTO) {
        status = read_database(im, from->path, PAL_TRANSCRIPT_SOL, &other);
        if (other.status == PAL_OK)
            why.status = PAL_OK;
        else
            pal_error_set(&why, PAL_INVALID,
                    "'%.160s' is a database that has neither Loom's table 'conversation_contexts' "
                    "nor Sol's table 'conversations'",
                    from->path);
    }
    *out_used = status == PAL_OK && why.status == PAL_OK;
    if (why.status != PAL_OK)
        im->cli->err = why;
    return status;
}

/* Sets the error for a file without any usable conversation. */
static void say_why(importer *im, const char *path)
{
    if (im->kind == PAL_TRANSCRIPT_AUTO)
        pal_error_set(&im->cli->err, PAL_INVALID,
                "'%.160s' is not a conversation in a known format", path);
    else if (im->first_problem.text.len)
        pal_error_set(&im->cli->err, PAL_INVALID,
                "'%.160s' has no conversation in format '%s': line %llu: %.*s", path,
                pal_transcript_kind_name(im->kind), (unsigned long long)im->first_problem.line,
                PAL_STR_ARG(im->first_problem.text));
    else
        pal_error_set(&im->cli->err, PAL_INVALID,
                "'%.160s' has no conversation in format '%s'", path,
                pal_transcript_kind_name(im->kind));
    snprintf(im->cli->hint, sizeof im->cli->hint,
            "set --format to one of " PAL_TRANSCRIPT_KINDS);
}

/* If the file itself was not usable, sets the error and *out_used to false. Any other failure is
 * an error of the store. */
static pal_status import_file(importer *im, const source *from, bool *out_used)
{
    pal_cli_input input;
    *out_used = false;
    if ((im->kind == PAL_TRANSCRIPT_AUTO || im->kind == PAL_TRANSCRIPT_LOOM ||
                im->kind == PAL_TRANSCRIPT_SOL) &&
            is_sqlite(from->path))
        return import_database(im, from, out_used);
    if (pal_cli_input_open(im->cli, from->path, &input) != PAL_OK)
        return PAL_OK;
    pal_status status = open_reader(im, im->kind);
    if (status != PAL_OK)
        goto out;
    status = feed_lines(im, &input);
    if (status != PAL_OK)
        goto out;
    status = pal_import_reader_finish(&im->reader);
    if (status != PAL_OK)
        goto out;
    *out_used = im->reader.sessions > 0 ||
            (!from->is_named && pal_import_reader_kind(&im->reader) != PAL_TRANSCRIPT_AUTO);
    if (!*out_used)
        say_why(im, from->path);
out:
    pal_import_reader_close(&im->reader);
    pal_cli_input_close(&input);
    return status;
}

static pal_status add_source(importer *im, const char *path, source what)
{
    if (!pal_arena_reserve(im->cli->arena, &im->sources, &im->sources_cap, im->sources_len + 1,
                sizeof *im->sources))
        return pal_cli_no_memory(im->cli);
    pal_str copy = pal_arena_copy(im->cli->arena, pal_str_of(path));
    if (!copy.data)
        return pal_cli_no_memory(im->cli);
    what.path = copy.data;
    im->sources[im->sources_len++] = what;
    im->bytes_total += what.size;
    return PAL_OK;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static pal_status add_directory(importer *im, const char *path)
{
    char *paths[] = {(char *)path, NULL};
    pal_status status = PAL_OK;
    FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    if (!tree)
        return pal_error_set(
                &im->cli->err, PAL_IO, "could not read '%.160s': %s", path, strerror(errno));
    for (FTSENT *entry; status == PAL_OK && (entry = fts_read(tree));) {
        pal_str name = pal_str_of(entry->fts_name);
        if (entry->fts_info == FTS_F &&
                (pal_text_ends(name, ".jsonl") || pal_text_ends(name, ".json")))
            status = add_source(
                    im, entry->fts_path, (source){.size = (uint64_t)entry->fts_statp->st_size});
    }
    fts_close(tree);
    return status;
}

static pal_status add_argument(importer *im, const char *path)
{
    struct stat info;
    size_t prefix = sizeof(PICOCLAW) - 1;
    if (strncmp(path, PICOCLAW, prefix) == 0)
        return add_source(im, path + prefix, (source){.is_named = true, .is_picoclaw = true});
    bool is_known = strcmp(path, "-") != 0 && stat(path, &info) == 0;
    if (is_known && S_ISDIR(info.st_mode))
        return add_directory(im, path);
    return add_source(
            im, path, (source){.size = is_known ? (uint64_t)info.st_size : 0, .is_named = true});
}

/* Other files of a directory are skipped. A file that the user named is an error. */
static void file_failed(importer *im, const source *from)
{
    im->files_failed += from->is_named;
    on_problem(0, im->cli->err.message, im);
}

static pal_status import_all(importer *im)
{
    pal_status status = PAL_OK;
    for (size_t i = 0; i < im->sources_len; i++) {
        bool used;
        im->file = im->sources[i].path;
        im->first_problem = (problem){0};
        status = im->sources[i].is_picoclaw ? import_picoclaw(im, &im->sources[i], &used)
                                            : import_file(im, &im->sources[i], &used);
        im->files += used;
        if (status != PAL_OK)
            return status;
        if (!used)
            file_failed(im, &im->sources[i]);
        im->bytes_done += im->sources[i].size;
    }
    status = pal_import_flush(im->store);
    if (status != PAL_OK)
        return status;
    /* Index the new messages now, so that the first search is fast. If this fails, that search
     * does it. */
    (void)!pal_store_index(im->cli->store, UINT32_MAX, NULL, NULL);
    return PAL_OK;
}

static pal_status conclude(importer *im)
{
    pal_cli *cli = im->cli;
    if (im->files == 0 && im->files_failed == 1)
        return cli->err.status;
    cli->hint[0] = '\0';
    if (im->files == 0)
        return pal_error_set(&cli->err, PAL_NOT_FOUND, "no conversation to import was found");
    if (cli->json)
        print_json(im);
    else
        print_text(im);
    if (!im->files_failed)
        return PAL_OK;
    pal_status status = pal_cli_flush(cli);
    if (status != PAL_OK)
        return status;
    return pal_error_set(&cli->err, PAL_INVALID, "%zu of %zu files could not be imported",
            im->files_failed, im->files_failed + im->files);
}

static pal_status session_import(pal_cli *cli, void *values)
{
    importer im = {.cli = cli, .given = values};
    const char *format = im.given->format ? im.given->format : "auto";
    pal_status status = PAL_OK;
    if (!pal_transcript_kind_from_name(pal_str_of(format), &im.kind))
        return pal_cli_usage(cli, NULL,
                "--format must be auto, " PAL_TRANSCRIPT_KINDS ", not '%.60s'", format);
    for (size_t i = 0; status == PAL_OK && i < cli->args_len; i++)
        status = add_argument(&im, cli->args[i]);
    if (status != PAL_OK)
        return status;
    status = pal_route_settings_new(&pal_config_get(cli->config)->session, &im.routes, &cli->err);
    if (status != PAL_OK)
        return status;
    im.store = pal_import_new(cli->store, pal_cli_tenant(cli), on_problem, &im, &cli->err);
    if (!im.store) {
        pal_route_settings_free(im.routes);
        return pal_cli_no_memory(cli);
    }
    pal_cli_progress_start(&im.progress, "importing, bytes");
    status = import_all(&im);
    pal_cli_progress_end(&im.progress);
    if (status == PAL_OK)
        status = conclude(&im);
    pal_import_free(im.store);
    pal_route_settings_free(im.routes);
    return status;
}

static const pal_cli_option options[] = {
        {"format", 0, PAL_CLI_TEXT, offsetof(import_values, format), "FORMAT",
                "format of the files; auto detects it (auto)"},
        {"key", 0, PAL_CLI_TEXT, offsetof(import_values, key), "KEY",
                "key of the session, if the input has only one"},
        {"project", 0, PAL_CLI_TEXT, offsetof(import_values, project), "NAME",
                "project of all imported sessions"},
        {0},
};

const pal_cli_command pal_cmd_session_import = {
        .name = "session import",
        .summary = "read conversations from files",
        .usage = "FILE|DIR|picoclaw:DIR|-...",
        .about = "Imports conversations from: exports of Palaver, OpenAI messages, transcripts of "
                 "Claude Code and Codex, rows and databases of Loom (which sends agents to work "
                 "items) and Sol (a Matrix bot), rows of Skillian (a chat assistant), messages of "
                 "the Go package session, and exports of ChatGPT, claude.ai, Open WebUI and "
                 "LibreChat. A directory is searched for .jsonl and .json files. "
                 "picoclaw:DIR imports the sessions of PicoClaw, a personal assistant, and then "
                 "compares them with the store. An import can be repeated: only new messages are "
                 "added. Lines that cannot be used are skipped and reported. The formats are "
                 PAL_TRANSCRIPT_KINDS ".",
        .examples = "palaver session import ~/.claude/projects\n"
                    "palaver session import picoclaw:sessions",
        .options = options,
        .values_size = sizeof(import_values),
        .args_min = 1,
        .args_max = SIZE_MAX,
        .access = PAL_CLI_CREATE,
        .run = session_import,
};
