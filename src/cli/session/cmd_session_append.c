/* cmd_session_append.c - `palaver session append`: appends text from the command line or stdin,
 * or native messages as JSON. All messages of one call are appended, or none. */
#include "cli/cli.h"

#include <string.h>
#include <unistd.h>
#include "base/json/json_put.h"
#include "dialect/native/native.h"

#define LINES_MAX 100000

typedef struct append_values {
    const char *role;
    const char *client_id;
    pal_cli_number expect_seq;
    bool json_input;
    bool create;
    bool replace;
} append_values;

typedef struct batch {
    pal_message *messages; /* in the arena */
    size_t len;
} batch;

static pal_cli_access access_for(const void *values)
{
    return ((const append_values *)values)->create ? PAL_CLI_CREATE : PAL_CLI_WRITE;
}

/* ---- What to append ---- */

static pal_status read_input(pal_cli *cli, pal_str *out_text)
{
    pal_cli_input input;
    pal_str text;
    if (cli->args_len < 2 && isatty(STDIN_FILENO))
        return pal_cli_usage(cli, "palaver session append SESSION \"some text\"",
                "nothing to append; pass a text, or pipe one in");
    pal_status status = pal_cli_input_open(cli, "-", &input);
    if (status != PAL_OK)
        return status;
    status = pal_cli_input_all(cli, &input, &text);
    if (status == PAL_OK)
        *out_text = pal_arena_copy(cli->arena, text);
    pal_cli_input_close(&input);
    if (status == PAL_OK && pal_arena_failure(cli->arena) != PAL_OK)
        status = pal_cli_no_memory(cli);
    return status;
}

static pal_status text_batch(
        pal_cli *cli, const append_values *given, pal_str text, batch *out_batch)
{
    pal_role role = PAL_ROLE_USER;
    if (given->role)
        role = pal_role_from_name(pal_str_of(given->role));
    if (role == PAL_ROLE_NONE)
        return pal_cli_usage(cli, NULL,
                "--role must be system, user, assistant or tool, not '%.60s'", given->role);
    out_batch->messages = pal_arena_alloc(cli->arena, sizeof *out_batch->messages);
    if (!out_batch->messages)
        return pal_cli_no_memory(cli);
    out_batch->messages[0] = pal_message_text(cli->arena, role, text);
    out_batch->messages[0].client_id = pal_str_of(given->client_id);
    out_batch->len = 1;
    return PAL_OK;
}

static pal_status array_batch(pal_cli *cli, pal_json array, batch *out_batch)
{
    pal_json value;
    pal_json_iter iter = pal_json_each(array);
    out_batch->messages =
            pal_arena_array(cli->arena, pal_json_count(array) + 1, sizeof *out_batch->messages);
    if (!out_batch->messages)
        return pal_cli_no_memory(cli);
    while (pal_json_next(&iter, NULL, &value)) {
        pal_error why;
        pal_status status = pal_native_message_read(
                value, cli->arena, &out_batch->messages[out_batch->len], &why);
        if (status != PAL_OK)
            return pal_error_set(&cli->err, status, "message %zu of the input: %.200s",
                    out_batch->len + 1, why.message);
        out_batch->len++;
    }
    return PAL_OK;
}

static pal_status lines_batch(pal_cli *cli, pal_str text, batch *out_batch)
{
    size_t lines = 1, number = 0;
    for (size_t i = 0; i < text.len; i++)
        lines += text.data[i] == '\n';
    if (lines > LINES_MAX)
        return pal_error_set(
                &cli->err, PAL_LIMIT, "the input has %zu lines; the limit is %d", lines, LINES_MAX);
    out_batch->messages = pal_arena_array(cli->arena, lines, sizeof *out_batch->messages);
    if (!out_batch->messages)
        return pal_cli_no_memory(cli);
    while (text.len > 0) {
        const char *end = memchr(text.data, '\n', text.len);
        size_t len = end ? (size_t)(end - text.data) : text.len;
        pal_str line = pal_str_make(text.data, len);
        pal_error why;
        number++;
        text = pal_str_make(text.data + len + (end ? 1 : 0), text.len - len - (end ? 1 : 0));
        if (strspn(line.data, " \t\r\n") >= line.len)
            continue;
        pal_status status =
                pal_message_from_json(line, cli->arena, &out_batch->messages[out_batch->len], &why);
        if (status != PAL_OK)
            return pal_error_set(
                    &cli->err, status, "line %zu of the input: %.200s", number, why.message);
        out_batch->len++;
    }
    return PAL_OK;
}

/* Reads one array, one object (on any number of lines), or one object per line. */
static pal_status json_batch(pal_cli *cli, pal_str text, batch *out_batch)
{
    pal_json value;
    pal_error why;
    pal_status status = PAL_OK;
    if (pal_json_parse(cli->arena, text, NULL, &value, &why) != PAL_OK)
        status = lines_batch(cli, text, out_batch);
    else if (pal_json_type_of(value) == PAL_JSON_ARRAY)
        status = array_batch(cli, value, out_batch);
    else {
        out_batch->messages = pal_arena_alloc(cli->arena, sizeof *out_batch->messages);
        if (!out_batch->messages)
            return pal_cli_no_memory(cli);
        out_batch->len = 1;
        status = pal_native_message_read(value, cli->arena, out_batch->messages, &cli->err);
    }
    if (status == PAL_OK && out_batch->len == 0)
        status = pal_error_set(&cli->err, PAL_INVALID, "the input has no messages");
    return status;
}

static pal_status make_batch(pal_cli *cli, const append_values *given, batch *out_batch)
{
    bool from_stdin = cli->args_len < 2 || strcmp(cli->args[1], "-") == 0;
    pal_str text = pal_str_of(from_stdin ? NULL : cli->args[1]);
    if (given->json_input && (given->role || given->client_id))
        return pal_cli_usage(
                cli, NULL,
                "--role and --client-id are not allowed with --json-input; set them in the "
                "messages");
    if (from_stdin) {
        pal_status status = read_input(cli, &text);
        if (status != PAL_OK)
            return status;
        /* The line end that `echo` adds is not part of the message. */
        if (!given->json_input && text.len > 0 && text.data[text.len - 1] == '\n')
            text.len--;
    }
    if (given->json_input)
        return json_batch(cli, text, out_batch);
    if (!text.len)
        return pal_error_set(&cli->err, PAL_INVALID, "the text is empty");
    return text_batch(cli, given, text, out_batch);
}

/* ---- Where to ---- */

/* With --create, SESSION is a key and never the beginning of an id. Otherwise a message for a
 * new key could be appended to another conversation. */
static pal_status find_or_create(pal_cli *cli, const char *name, pal_session *out_session)
{
    pal_str key = pal_str_of(name);
    pal_status status = pal_store_find(cli->store, pal_cli_tenant(cli), PAL_SESSION_BY_ANY, key,
            cli->arena, out_session, &cli->err);
    if (status != PAL_NOT_FOUND)
        return status;
    pal_session session = {.tenant = pal_cli_tenant(cli), .key = key};
    pal_op op = pal_op_find_or_create(&session);
    status = pal_store_apply(cli->store, &op, 1, &cli->err);
    if (status == PAL_OK && op.status != PAL_OK) {
        cli->err = op.error;
        status = op.status;
    }
    if (status == PAL_OK)
        out_session->id = op.session;
    return status;
}

static pal_status print_appended(pal_cli *cli, const batch *appended)
{
    if (!cli->json) {
        for (size_t i = 0; i < appended->len; i++)
            pal_buf_format(&cli->out, "%llu  %s\n", (unsigned long long)appended->messages[i].seq,
                    pal_cli_id(cli, appended->messages[i].id).data);
        return PAL_OK;
    }
    pal_json_writer writer = pal_json_writer_make(&cli->out);
    pal_json_begin_object(&writer);
    pal_json_name(&writer, "messages");
    pal_json_begin_array(&writer);
    for (size_t i = 0; i < appended->len; i++) {
        pal_json_begin_object(&writer);
        pal_put_count(&writer, "seq", appended->messages[i].seq);
        pal_put_str(&writer, "id", pal_cli_id(cli, appended->messages[i].id));
        pal_json_end_object(&writer);
    }
    pal_json_end_array(&writer);
    pal_json_end_object(&writer);
    pal_buf_append_char(&cli->out, '\n');
    return PAL_OK;
}

static pal_status session_append(pal_cli *cli, void *values)
{
    const append_values *given = values;
    batch input = {0};
    pal_session session = {0};
    uint64_t expected = given->expect_seq.given ? given->expect_seq.value : PAL_SEQ_ANY;
    pal_mark mark;
    if (given->replace && (given->expect_seq.given || given->client_id))
        return pal_cli_usage(cli, NULL,
                "--replace cannot be combined with --expect-seq or --client-id");
    pal_status status = make_batch(cli, given, &input);
    if (status != PAL_OK)
        return status;
    if (pal_arena_failure(cli->arena) != PAL_OK)
        return pal_cli_no_memory(cli);
    status = given->create ? find_or_create(cli, cli->args[0], &session)
                           : pal_cli_find(cli, cli->args[0], PAL_CLI_AMONG_LIVE, &session);
    if (status == PAL_NOT_FOUND && !cli->is_usage)
        snprintf(cli->hint, sizeof cli->hint,
                "run 'palaver session list' to see the sessions, or add --create to create one "
                "with that key");
    if (status != PAL_OK)
        return status;
    status = given->replace ? pal_store_replace(cli->store, pal_cli_tenant(cli), session.id,
                                      input.messages, input.len, &mark, &cli->err)
                            : pal_store_append(cli->store, pal_cli_tenant(cli), session.id,
                                      input.messages, input.len, expected, &cli->err);
    return status == PAL_OK ? print_appended(cli, &input) : status;
}

static const pal_cli_option options[] = {
        {"role", 0, PAL_CLI_TEXT, offsetof(append_values, role), "ROLE",
                "system, user, assistant or tool (user)"},
        {"client-id", 0, PAL_CLI_TEXT, offsetof(append_values, client_id), "ID",
                "sender's id: a repeated id is stored once"},
        {"expect-seq", 0, PAL_CLI_NUMBER, offsetof(append_values, expect_seq), "N",
                "fail unless the session's newest message is N"},
        {"json-input", 0, PAL_CLI_FLAG, offsetof(append_values, json_input), NULL,
                "read native JSON messages: an array, or one per line"},
        {"replace", 0, PAL_CLI_FLAG, offsetof(append_values, replace), NULL,
                "replace all visible messages of the session"},
        {"create", 0, PAL_CLI_FLAG, offsetof(append_values, create), NULL,
                "create the session, with SESSION as its key, if missing"},
        {0},
};

const pal_cli_command pal_cmd_session_append = {
        .name = "session append",
        .summary = "add messages",
        .usage = "SESSION [TEXT]",
        .about = "Appends a message, or several with --json-input, and prints the seq and id of "
                 "each one when they are on disk. If TEXT is missing or -, the text is read from "
                 "stdin, without its last line end.",
        .examples = "palaver session append demo \"Hello, is anybody there?\"\n"
                    "git diff | palaver session append review --create --client-id diff-1",
        .options = options,
        .values_size = sizeof(append_values),
        .args_min = 1,
        .args_max = 2,
        .access_for = access_for,
        .run = session_append,
};
