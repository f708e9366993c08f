/* cmd_stats.c - `palaver stats`: prints how much is stored. */
#include "cli/cli.h"

#include "base/json/json_put.h"

typedef struct stat_row {
    const char *name; /* the name in JSON */
    const char *text; /* the label for people */
    uint64_t value;
    bool is_size;
} stat_row;

static void print_text(
        pal_cli *cli, const pal_store_stats *stats, const stat_row *rows, size_t rows_len)
{
    pal_buf_format(&cli->out, "%-22s%.*s\n", "store", PAL_STR_ARG(pal_str_of(cli->store_url)));
    pal_buf_format(&cli->out, "%-22s%.*s\n", "backend", PAL_STR_ARG(stats->backend));
    for (size_t i = 0; i < rows_len; i++) {
        pal_buf_format(&cli->out, "%-22s", rows[i].text);
        if (rows[i].is_size) {
            char size[PAL_CLI_SIZE_SIZE];
            pal_cli_size(rows[i].value, size);
            pal_buf_append_text(&cli->out, size);
        } else {
            pal_cli_number_text(&cli->out, rows[i].value);
        }
        pal_buf_append_char(&cli->out, '\n');
    }
    if (stats->is_estimated)
        pal_buf_append_text(&cli->out, "The numbers are estimates, because the store is large.\n");
}

static void print_json(
        pal_cli *cli, const pal_store_stats *stats, const stat_row *rows, size_t rows_len)
{
    pal_json_writer writer = pal_json_writer_make(&cli->out);
    pal_json_begin_object(&writer);
    pal_put_str(&writer, "backend", stats->backend);
    for (size_t i = 0; i < rows_len; i++) {
        pal_put_count(&writer, rows[i].name, rows[i].value);
    }
    if (stats->is_estimated)
        pal_put_flag(&writer, "is_estimated", true);
    pal_json_end_object(&writer);
    pal_buf_append_char(&cli->out, '\n');
}

static pal_status stats(pal_cli *cli, void *values)
{
    pal_store_stats s;
    pal_status status = pal_store_stat(cli->store, cli->arena, &s, &cli->err);
    if (status != PAL_OK)
        return status;
    const stat_row rows[] = {
            {"tenants", "tenants", s.tenants, false},
            {"sessions_active", "active sessions", s.sessions_active, false},
            {"sessions_trash", "in the trash", s.sessions_trash, false},
            {"sessions_quarantined", "quarantined", s.sessions_quarantined, false},
            {"messages", "messages", s.messages, false},
            {"content_bytes", "size of messages", s.content_bytes, true},
            {"blobs", "images and files", s.blobs, false},
            {"blob_bytes", "size of those files", s.blob_bytes, true},
            {"disk_bytes", "size on disk", s.disk_bytes, true},
    };
    if (cli->json)
        print_json(cli, &s, rows, sizeof rows / sizeof *rows);
    else
        print_text(cli, &s, rows, sizeof rows / sizeof *rows);
    return PAL_OK;
}

const pal_cli_command pal_cmd_stats = {
        .name = "stats",
        .summary = "count what is stored",
        .usage = "",
        .about = "Counts the sessions, messages and bytes of the whole store, for all tenants "
                 "together. For a large store in PostgreSQL the numbers are estimates.",
        .examples = "palaver stats\n"
                    "palaver stats --json --store sqlite:/var/lib/palaver/palaver.db",
        .access = PAL_CLI_READ,
        .run = stats,
};
