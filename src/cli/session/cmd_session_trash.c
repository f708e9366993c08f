/* cmd_session_trash.c - delete (move to the trash), restore (from the trash), erase (for good). */
#include "cli/cli.h"

#include <string.h>
#include "base/json/json_put.h"

typedef struct erase_values {
    bool yes;
    pal_cli_number message; /* not given: the whole session */
} erase_values;

static pal_status session_delete(pal_cli *cli, void *values)
{
    pal_session session;
    pal_status status = pal_cli_find(cli, cli->args[0], PAL_CLI_AMONG_LIVE, &session);
    if (status == PAL_OK)
        status = pal_store_delete(cli->store, pal_cli_tenant(cli), session.id, &cli->err);
    if (status != PAL_OK)
        return status;
    return pal_cli_session_print(
            cli, session.id, "Moved to the trash. To restore it:\npalaver session restore ", "");
}

static pal_status session_restore(pal_cli *cli, void *values)
{
    pal_session session;
    pal_status status = pal_cli_find(cli, cli->args[0], PAL_CLI_AMONG_TRASH, &session);
    if (status == PAL_OK)
        status = pal_store_restore(cli->store, pal_cli_tenant(cli), session.id, &cli->err);
    return status == PAL_OK ? pal_cli_session_print(cli, session.id, "Restored ", ".") : status;
}

static pal_status ask_for_yes(pal_cli *cli, const pal_session *session)
{
    char text[64];
    pal_str name = session->title.len ? session->title : session->key;
    pal_id_to_text(session->id, text);
    if (!name.len)
        name = pal_str_of(text);
    return pal_cli_usage(cli, "'palaver session delete' moves it to the trash instead",
            "erasing '%.*s' (%llu message%s) cannot be undone; add --yes to confirm",
            (int)pal_cli_columns_cut(name, 40), name.data, (unsigned long long)session->last_seq,
            session->last_seq == 1 ? "" : "s");
}

static pal_status ask_for_message(pal_cli *cli, uint64_t seq)
{
    return pal_cli_usage(cli, "only the message is erased, and its place stays",
            "erasing message %llu cannot be undone; add --yes to confirm",
            (unsigned long long)seq);
}

typedef struct erased_count {
    const char *name;
    const char *text;
    uint64_t count;
} erased_count;

static void print_erasure(pal_cli *cli, pal_str id, const pal_erase_result *erasure)
{
    const erased_count counts[] = {
            {"messages", "messages erased", erasure->messages},
            {"shared", "messages kept, because forks still show them", erasure->shared},
            {"marks", "marks erased", erasure->marks},
            {"blobs", "blobs erased", erasure->blobs},
            {"aliases", "aliases erased", erasure->aliases},
            {"inbox", "waiting items erased", erasure->inbox},
            {"ledger", "ledger rows that keep only their numbers", erasure->ledger},
            {"checkpoints", "summaries that lost their text", erasure->checkpoints},
    };
    size_t counts_len = sizeof counts / sizeof *counts;
    if (!cli->json) {
        pal_buf_format(&cli->out, "Erased %.*s.\n", PAL_STR_ARG(id));
        for (size_t i = 0; i < counts_len; i++)
            pal_buf_format(
                    &cli->out, "%8llu %s\n", (unsigned long long)counts[i].count, counts[i].text);
        return;
    }
    pal_json_writer writer = pal_json_writer_make(&cli->out);
    pal_json_begin_object(&writer);
    pal_put_text(&writer, "status", "erased");
    pal_put_str(&writer, "session_id", id);
    for (size_t i = 0; i < counts_len; i++) {
        pal_put_count(&writer, counts[i].name, counts[i].count);
    }
    pal_json_end_object(&writer);
    pal_buf_append_char(&cli->out, '\n');
}

static pal_status session_erase(pal_cli *cli, void *values)
{
    const erase_values *given = values;
    pal_session session;
    pal_erase_result erasure;
    pal_status status = pal_cli_find(cli, cli->args[0], PAL_CLI_AMONG_LIVE, &session);
    if (status != PAL_OK)
        return status;
    if (!given->yes)
        return given->message.given ? ask_for_message(cli, given->message.value)
                                    : ask_for_yes(cli, &session);
    if (given->message.given)
        status = pal_note_erase_message(cli->store, pal_cli_tenant(cli), session.id,
                given->message.value, &erasure, NULL, &cli->err);
    else
        status = pal_store_erase(cli->store, pal_cli_tenant(cli), session.id, &erasure, &cli->err);
    if (status == PAL_OK)
        print_erasure(cli, pal_cli_id(cli, session.id), &erasure);
    return status;
}

const pal_cli_command pal_cmd_session_delete = {
        .name = "session delete",
        .summary = "move a session to the trash",
        .usage = "SESSION",
        .about = "Moves the session to the trash. Its key and aliases can be used again; its "
                 "messages stay, and 'session restore' restores it.",
        .examples = "palaver session delete demo\n"
                    "palaver session list --state trash",
        .args_min = 1,
        .args_max = 1,
        .access = PAL_CLI_WRITE,
        .is_destructive = true,
        .run = session_delete,
};

const pal_cli_command pal_cmd_session_restore = {
        .name = "session restore",
        .summary = "restore a session from the trash",
        .usage = "SESSION",
        .about = "Restores a session from the trash, by its id or by the key that it had. If that "
                 "key is in use again, the command fails and changes nothing.",
        .examples = "palaver session restore demo\n"
                    "palaver session restore 019a8c21-7b3e",
        .args_min = 1,
        .args_max = 1,
        .access = PAL_CLI_WRITE,
        .run = session_restore,
};

static const pal_cli_option erase_options[] = {
        {"yes", 0, PAL_CLI_FLAG, offsetof(erase_values, yes), NULL,
                "confirm that it is erased for good"},
        {"message", 0, PAL_CLI_NUMBER, offsetof(erase_values, message), "SEQ",
                "erase only the contents of this message"},
        {0},
};

const pal_cli_command pal_cmd_session_erase = {
        .name = "session erase",
        .summary = "erase a session for good",
        .usage = "SESSION --yes",
        .about = "Erases a session with everything derived from it: messages, marks, blobs, "
                 "names, waiting items. This cannot be undone. Messages that a fork still shows "
                 "are kept until the last such fork is erased. With --message, erases only the "
                 "contents of one message, and what was derived from it: its words in the search "
                 "index, its files, and the summaries that cover it. Prints what was erased.",
        .examples = "palaver session erase demo --yes\n"
                    "palaver session erase demo --message 12 --yes\n"
                    "palaver session erase 019a8c21-7b3e --yes --json",
        .options = erase_options,
        .values_size = sizeof(erase_values),
        .args_min = 1,
        .args_max = 1,
        .access = PAL_CLI_WRITE,
        .is_destructive = true,
        .run = session_erase,
};
