/* cmd_backup.c - `palaver backup` and `palaver restore`: copy the file of a store while servers use
 * it, and put such a copy back. Both check the copy completely before they report success. */
#include "cli/cli.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/json/json_put.h"

typedef struct checking {
    pal_cli_progress progress;
} checking;

static void on_progress(uint64_t done, uint64_t total, void *user)
{
    checking *c = user;
    pal_cli_progress_set(&c->progress, done, total);
}

/* Opens the file as a store and checks everything in it. */
static pal_status check_store(pal_cli *cli, const char *path, pal_store_stats *out_stats)
{
    checking c = {0};
    uint64_t findings = 0;
    char url[4096];
    if ((size_t)snprintf(url, sizeof url, "sqlite:%s", path) >= sizeof url)
        return pal_error_set(&cli->err, PAL_LIMIT, "the path '%.100s' is too long", path);
    cli->store_url = url;
    pal_status status = pal_cli_store_open(cli, PAL_CLI_READ);
    if (status != PAL_OK)
        return status;
    pal_cli_progress_start(&c.progress, "checking");
    status = pal_store_check(
            cli->store, false, NULL, on_progress, &c, &findings, &cli->err);
    pal_cli_progress_end(&c.progress);
    if (status == PAL_OK && findings)
        status = pal_error_set(&cli->err, PAL_CORRUPT,
                "'%.160s' has %llu problems; 'palaver fsck --store sqlite:FILE' lists them", path,
                (unsigned long long)findings);
    if (status == PAL_OK)
        status = pal_store_stat(cli->store, cli->arena, out_stats, &cli->err);
    pal_store_close(cli->store);
    cli->store = NULL;
    return status;
}

static void print_result(
        pal_cli *cli, const char *what, const char *path, const pal_store_stats *stats)
{
    struct stat info = {0};
    char size[PAL_CLI_SIZE_SIZE];
    (void)stat(path, &info);
    uint64_t sessions =
            stats->sessions_active + stats->sessions_trash + stats->sessions_quarantined;
    if (cli->json) {
        pal_json_writer writer = pal_json_writer_make(&cli->out);
        pal_json_begin_object(&writer);
        pal_put_text(&writer, "file", path);
        pal_put_count(&writer, "bytes", (uint64_t)info.st_size);
        pal_put_count(&writer, "sessions", sessions);
        pal_put_count(&writer, "messages", stats->messages);
        pal_json_end_object(&writer);
        pal_buf_append_char(&cli->out, '\n');
        return;
    }
    pal_cli_size((uint64_t)info.st_size, size);
    pal_buf_format(&cli->out, "%s %s: ", what, path);
    pal_cli_count(&cli->out, sessions, "session");
    pal_buf_append_text(&cli->out, ", ");
    pal_cli_count(&cli->out, stats->messages, "message");
    pal_buf_format(&cli->out, ", %s, checked.\n", size);
}

static pal_status run_backup(pal_cli *cli, void *values)
{
    const char *path = cli->args[0];
    pal_store_stats stats;
    (void)values;
    pal_status status = pal_store_backup(cli->store_url, path, &cli->err);
    if (status == PAL_CONFLICT)
        snprintf(cli->hint, sizeof cli->hint, "a backup never replaces a file; use a new name");
    if (status == PAL_OK)
        status = check_store(cli, path, &stats);
    if (status == PAL_OK)
        print_result(cli, "Wrote", path, &stats);
    return status;
}

/* A write-ahead log without its database would be applied to the restored one. */
static pal_status check_target(pal_cli *cli, const char *path)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    char name[4096];
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        snprintf(name, sizeof name, "%s%s", path, ends[i]);
        if (access(name, F_OK) == 0 || errno != ENOENT) {
            snprintf(cli->hint, sizeof cli->hint,
                    "stop all servers, and move the old store away first, with its files -wal "
                    "and -shm");
            return pal_error_set(&cli->err, PAL_CONFLICT, "'%.160s' exists already", name);
        }
    }
    return PAL_OK;
}

static pal_status run_restore(pal_cli *cli, void *values)
{
    const char *backup = cli->args[0];
    const char *path = pal_cli_store_path(cli->store_url);
    pal_store_stats stats;
    (void)values;
    if (!path)
        return pal_cli_usage(cli, NULL, "'restore' requires a store of SQLite as its target");
    pal_status status = pal_cli_store_default_make(cli);
    if (status == PAL_OK)
        status = check_target(cli, path);
    if (status == PAL_OK)
        status = check_store(cli, backup, &stats);
    if (status == PAL_OK)
        status = pal_store_backup(backup, path, &cli->err);
    if (status == PAL_OK)
        status = check_store(cli, path, &stats);
    if (status == PAL_OK)
        print_result(cli, "Restored", path, &stats);
    return status;
}

const pal_cli_command pal_cmd_backup = {
        .name = "backup",
        .summary = "copy the store to a file while servers use it",
        .usage = "FILE",
        .about = "Writes the complete store to a new file, as it is at this moment. Servers "
                 "continue to work meanwhile. The copy is checked like 'palaver fsck' does, and "
                 "appears complete or not at all. It is a store of its own: --store sqlite:FILE "
                 "reads it. For PostgreSQL use its own tools.",
        .examples = "palaver backup palaver-$(date +%F).db\n"
                    "palaver backup --store sqlite:/var/lib/palaver/palaver.db /backup/palaver.db",
        .args_min = 1,
        .args_max = 1,
        .run = run_backup,
};

const pal_cli_command pal_cmd_restore = {
        .name = "restore",
        .summary = "make a store from a backup",
        .usage = "FILE",
        .about = "Checks a backup, and copies it to the place of the store, where no store may "
                 "exist: stop all servers and move the old files away first. The backup does not "
                 "change.",
        .examples = "palaver restore palaver-2026-11-16.db\n"
                    "palaver restore --store sqlite:/var/lib/palaver/palaver.db /backup/palaver.db",
        .args_min = 1,
        .args_max = 1,
        .run = run_restore,
};
