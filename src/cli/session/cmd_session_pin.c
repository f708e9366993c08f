/* cmd_session_pin.c - `palaver session pin` and `unpin`: pinned messages are always sent to the
 * model, even if messages around them are left out. */
#include "cli/cli.h"

#include <stdlib.h>
#include "dialect/native/native.h"

static pal_status mark_message(pal_cli *cli, pal_mark_kind kind)
{
    pal_session session;
    pal_mark mark = {.kind = kind};
    const char *text = cli->args[1];
    char *end;
    mark.seq = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || mark.seq == 0)
        return pal_cli_usage(cli, "run 'palaver session show SESSION' to see the numbers",
                "'%.60s' is not the number of a message", text);
    pal_status status = pal_cli_find(cli, cli->args[0], PAL_CLI_AMONG_LIVE, &session);
    if (status == PAL_OK)
        status = pal_store_mark(cli->store, pal_cli_tenant(cli), session.id, &mark, &cli->err);
    if (status != PAL_OK)
        return status;
    if (cli->json) {
        pal_json_writer writer = pal_json_writer_make(&cli->out);
        status = pal_native_mark_put(&writer, &mark, &cli->err);
        pal_buf_append_char(&cli->out, '\n');
    } else {
        pal_buf_format(&cli->out, "Message %llu is %s.\n", (unsigned long long)mark.seq,
                kind == PAL_MARK_PIN ? "pinned" : "no longer pinned");
    }
    return status;
}

static pal_status session_pin(pal_cli *cli, void *values)
{
    (void)values;
    return mark_message(cli, PAL_MARK_PIN);
}

static pal_status session_unpin(pal_cli *cli, void *values)
{
    (void)values;
    return mark_message(cli, PAL_MARK_UNPIN);
}

const pal_cli_command pal_cmd_session_pin = {
        .name = "session pin",
        .summary = "keep a message in every context",
        .usage = "SESSION SEQ",
        .about = "Pins the message with number SEQ: it is sent to the model even if a compaction "
                 "or a full window leaves out other messages. A pinned tool call keeps its "
                 "result, and a pinned result keeps its call.",
        .examples = "palaver session pin demo 4\n"
                    "palaver context demo",
        .args_min = 2,
        .args_max = 2,
        .access = PAL_CLI_WRITE,
        .run = session_pin,
};

const pal_cli_command pal_cmd_session_unpin = {
        .name = "session unpin",
        .summary = "remove the pin of a message",
        .usage = "SESSION SEQ",
        .about = "Removes the pin of the message with number SEQ. The message can then be left "
                 "out like any other.",
        .examples = "palaver session unpin demo 4\n"
                    "palaver session show demo --marks",
        .args_min = 2,
        .args_max = 2,
        .access = PAL_CLI_WRITE,
        .run = session_unpin,
};
