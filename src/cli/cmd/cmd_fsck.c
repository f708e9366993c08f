/* cmd_fsck.c - `palaver fsck`: checks everything in the store, and repairs what can be repaired. */
#include "cli/cli.h"

#include <string.h>
#include "base/json/json_put.h"

typedef struct fsck_values {
    bool repair;
} fsck_values;

typedef struct fsck {
    pal_cli *cli;
    pal_cli_progress progress;
    pal_json_writer writer;
    uint64_t found;
    uint64_t repaired;
    pal_buf advice; /* advice about permissions: lines, or the members of a JSON array */
} fsck;

static pal_cli_access access_for(const void *values)
{
    return ((const fsck_values *)values)->repair ? PAL_CLI_WRITE : PAL_CLI_READ;
}

static void put_finding_json(fsck *check, const pal_store_finding *finding)
{
    pal_json_writer *writer = &check->writer;
    pal_json_begin_object(writer);
    pal_json_name(writer, "session_id");
    if (pal_id_is_none(finding->session))
        pal_json_put_null(writer);
    else
        pal_json_put_str(writer, pal_cli_id(check->cli, finding->session));
    pal_put_flag(writer, "repaired", finding->repaired);
    pal_put_text(writer, "text", finding->text);
    pal_json_end_object(writer);
}

static void keep_advice(fsck *check, const pal_store_finding *finding)
{
    pal_json_writer writer = pal_json_writer_make(&check->advice);
    if (!check->cli->json) {
        pal_buf_append_text(&check->advice, finding->repaired ? "" : "hint: ");
        pal_cli_clean(&check->advice, pal_str_of(finding->text), false);
        pal_buf_append_text(&check->advice, finding->repaired
                        ? " (repaired)\n"
                        : "; 'palaver fsck --repair' makes it private\n");
        return;
    }
    pal_buf_append_text(&check->advice, check->advice.len ? "," : "");
    pal_json_begin_object(&writer);
    pal_put_flag(&writer, "repaired", finding->repaired);
    pal_put_text(&writer, "text", finding->text);
    pal_json_end_object(&writer);
}

static void on_finding(const pal_store_finding *finding, void *user)
{
    fsck *check = user;
    pal_buf *out = &check->cli->out;
    if (finding->advice) {
        keep_advice(check, finding);
        return;
    }
    check->found++;
    check->repaired += finding->repaired;
    if (check->cli->json) {
        put_finding_json(check, finding);
        return;
    }
    if (!pal_id_is_none(finding->session))
        pal_buf_format(out, "session %s: ", pal_cli_id(check->cli, finding->session).data);
    pal_cli_clean(out, pal_str_of(finding->text), false);
    pal_buf_append_text(out, finding->repaired ? " (repaired)\n" : "\n");
}

static void on_progress(uint64_t done, uint64_t total, void *user)
{
    fsck *check = user;
    pal_cli_progress_set(&check->progress, done, total);
}

static void put_advice(fsck *check)
{
    pal_buf list;
    if (!check->advice.len)
        return;
    pal_buf_init(&list, PAL_JSON_BYTES_MAX);
    pal_buf_format(&list, "[%.*s]", (int)check->advice.len, check->advice.data);
    pal_put_raw(&check->writer, "advice", pal_buf_str(&list));
    pal_buf_done(&list);
}

static pal_status conclude(fsck *check, bool repair)
{
    pal_cli *cli = check->cli;
    uint64_t left = check->found - check->repaired;
    if (cli->json) {
        pal_json_end_array(&check->writer);
        pal_put_count(&check->writer, "found", check->found);
        pal_put_count(&check->writer, "repaired", check->repaired);
        put_advice(check);
        pal_json_end_object(&check->writer);
        pal_buf_append_char(&cli->out, '\n');
    } else if (!check->found) {
        pal_buf_append_text(&cli->out, "No problems were found.\n");
    } else if (!left) {
        pal_buf_append_text(&cli->out, "All problems were repaired.\n");
    }
    /* The findings are the output, whatever the exit code. */
    pal_status status = pal_cli_flush(cli);
    if (!cli->json && check->advice.len)
        fprintf(stderr, "%.*s", (int)check->advice.len, check->advice.data);
    if (status != PAL_OK || !left)
        return status;
    if (!repair)
        snprintf(cli->hint, sizeof cli->hint,
                "'palaver fsck --repair' repairs what can be repaired, and quarantines damaged "
                "sessions");
    return pal_error_set(&cli->err, PAL_CORRUPT, "%llu %s found%s", (unsigned long long)left,
            left == 1 ? "problem" : "problems", repair ? " that could not be repaired" : "");
}

static pal_status run_fsck(pal_cli *cli, void *values)
{
    const fsck_values *given = values;
    fsck check = {.cli = cli, .writer = pal_json_writer_make(&cli->out)};
    uint64_t findings = 0;
    pal_buf_init(&check.advice, PAL_JSON_BYTES_MAX);
    if (cli->json) {
        pal_json_begin_object(&check.writer);
        pal_json_name(&check.writer, "findings");
        pal_json_begin_array(&check.writer);
    }
    pal_cli_progress_start(&check.progress, "checking");
    pal_status status = pal_store_check(
            cli->store, given->repair, on_finding, on_progress, &check, &findings, &cli->err);
    pal_cli_progress_end(&check.progress);
    if (status == PAL_OK)
        status = conclude(&check, given->repair);
    pal_buf_done(&check.advice);
    return status;
}

static const pal_cli_option options[] = {
        {"repair", 0, PAL_CLI_FLAG, offsetof(fsck_values, repair), NULL,
                "repair problems; quarantine damaged sessions"},
        {0},
};

const pal_cli_command pal_cmd_fsck = {
        .name = "fsck",
        .summary = "check the store, and repair it",
        .usage = "",
        .about = "Checks files, indexes and every session. With --repair it rebuilds what can be "
                 "derived, and quarantines damaged sessions one by one: their intact messages "
                 "stay readable. If other users can read the store, --repair also makes it "
                 "private. The exit code is 1 if a problem is left.",
        .examples = "palaver fsck\n"
                    "palaver fsck --repair --json",
        .options = options,
        .values_size = sizeof(fsck_values),
        .access_for = access_for,
        .run = run_fsck,
};
