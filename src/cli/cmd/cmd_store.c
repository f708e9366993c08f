/* cmd_store.c - `palaver store`: creates, upgrades, checks and copies whole stores. The contents of
 * a store are checked by `palaver fsck`. */
#include "cli/cli.h"

#include "base/json/json_put.h"

/* ---- init, migrate, check ---- */

static void print_settings(pal_cli *cli, const char *title, pal_str settings)
{
    if (settings.len == 0)
        return;
    pal_buf_format(&cli->out, "\n%s, run this as the owner of the role:\n\n", title);
    pal_buf_append_str(&cli->out, settings);
}

static void print_schema(pal_cli *cli, const pal_store_schema *schema)
{
    pal_json_writer writer = pal_json_writer_make(&cli->out);
    if (cli->json) {
        pal_json_begin_object(&writer);
        pal_put_count(&writer, "version", schema->version);
        pal_put_count(&writer, "newest", schema->newest);
        pal_put_count(&writer, "oldest_reader", schema->oldest_reader);
        pal_put_count(&writer, "oldest_writer", schema->oldest_writer);
        pal_put_str(&writer, "settings", schema->settings);
        pal_put_str(&writer, "settings_missing", schema->settings_missing);
        pal_json_end_object(&writer);
        pal_buf_append_char(&cli->out, '\n');
        return;
    }
    pal_buf_append_text(&cli->out, "The store is ready");
    if (schema->version)
        pal_buf_format(&cli->out, ": version %u", (unsigned)schema->version);
    pal_buf_append_text(&cli->out, ".\n");
}

static pal_status show(pal_cli *cli, bool with_settings)
{
    pal_store_schema schema;
    pal_status status = pal_store_schema_read(cli->store, cli->arena, &schema, &cli->err);
    if (status == PAL_OK)
        status = pal_store_ready(cli->store, &cli->err);
    if (status != PAL_OK)
        return status;
    print_schema(cli, &schema);
    if (with_settings && !cli->json)
        print_settings(cli, "If a pooler such as pgbouncer is used", schema.settings);
    else if (!cli->json)
        print_settings(cli, "For the pooler that is used", schema.settings_missing);
    return PAL_OK;
}

static pal_status init(pal_cli *cli, void *values)
{
    return show(cli, true);
}

static pal_status check(pal_cli *cli, void *values)
{
    return show(cli, false);
}

static pal_status migrate(pal_cli *cli, void *values)
{
    cli->store_upgrade = true;
    pal_status status = pal_cli_store_open(cli, PAL_CLI_WRITE);
    return status == PAL_OK ? show(cli, false) : status;
}

const pal_cli_command pal_cmd_store_init = {
        .name = "store init",
        .summary = "create the store",
        .usage = "",
        .about = "Creates the store if it does not exist. A server does this by itself. For "
                 "PostgreSQL it also prints the settings that the role needs if a pooler is used.",
        .examples = "palaver store init\n"
                    "palaver store init --store postgres://palaver@db.example.org/palaver",
        .access = PAL_CLI_CREATE,
        .run = init,
};

const pal_cli_command pal_cmd_store_migrate = {
        .name = "store migrate",
        .summary = "upgrade the store to the version of this program",
        .usage = "",
        .about = "Upgrades the stored data. Servers of the version before can use a PostgreSQL "
                 "store meanwhile. Other stores are also upgraded whenever they are opened for "
                 "writing.",
        .examples = "palaver store migrate --store postgres://palaver@db.example.org/palaver",
        .run = migrate,
};

const pal_cli_command pal_cmd_store_check = {
        .name = "store check",
        .summary = "check whether this program can use the store",
        .usage = "",
        .about = "Opens the store for reading and prints the version of its data. For PostgreSQL "
                 "it also looks for missing indexes, and for missing settings of the role if a "
                 "pooler is used. Use 'palaver fsck' to check the contents.",
        .examples = "palaver store check --json",
        .access = PAL_CLI_READ,
        .run = check,
};

/* ---- copy ---- */

static void on_progress(uint64_t done, uint64_t total, void *user)
{
    pal_cli_progress_set(user, done, total);
}

static void print_copied(pal_cli *cli, const pal_copy_result *result)
{
    const struct {
        const char *name;
        const char *noun;
        uint64_t count;
    } rows[] = {
            {"sessions", "session", result->sessions},
            {"messages", "message", result->messages},
            {"marks", "mark", result->marks},
            {"blobs", "blob", result->blobs},
            {"inbox", "waiting request", result->inbox},
            {"ledger", "ledger row", result->ledger},
            {"records", "record", result->records},
    };
    pal_json_writer writer = pal_json_writer_make(&cli->out);
    if (cli->json)
        pal_json_begin_object(&writer);
    else
        pal_buf_append_text(&cli->out, "Copied and compared: ");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (cli->json) {
            pal_put_count(&writer, rows[i].name, rows[i].count);
            continue;
        }
        pal_buf_append_text(&cli->out, i ? ", " : "");
        pal_cli_count(&cli->out, rows[i].count, rows[i].noun);
    }
    if (cli->json)
        pal_json_end_object(&writer);
    pal_buf_append_text(&cli->out, cli->json ? "\n" : ".\n");
}

static pal_status copy(pal_cli *cli, void *values)
{
    pal_cli_progress progress;
    pal_copy_result result;
    pal_cli_progress_start(&progress, "copying");
    pal_status status = pal_store_copy(
            cli->args[0], cli->args[1], on_progress, &progress, &result, &cli->err);
    pal_cli_progress_end(&progress);
    if (status == PAL_OK)
        print_copied(cli, &result);
    return status;
}

const pal_cli_command pal_cmd_store_copy = {
        .name = "store copy",
        .summary = "copy a whole store to another backend",
        .usage = "FROM TO",
        .about = "Copies everything from one store into an empty one: all tenants, sessions with "
                 "their trash, messages, marks, files, waiting requests, costs, records and keys. "
                 "At the end both stores are read again and compared. If the command is "
                 "interrupted, the same command continues. Stop all servers that use FROM first; "
                 "a change of FROM during the copy is reported as an error.",
        .examples = "palaver store copy sqlite:palaver.db postgres://palaver@db/palaver\n"
                    "palaver store copy postgres://palaver@db/palaver sqlite:backup.db",
        .args_min = 2,
        .args_max = 2,
        .no_config = true,
        .run = copy,
};
